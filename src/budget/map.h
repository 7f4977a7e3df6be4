/* map.h - what is known of a program beside its work: work_read.c fills it in, emit.c goes back by
 * it.
 *
 *     job      an instruction APPLY; an operator with blocks together with all that stands in them
 *     value    a tensor with memory of its own, and its views
 *     view     an operator all of whose outputs lie in what it reads is no job: it costs nothing,
 *              and is applied where somebody reads what it gives
 */
#ifndef TN_BUDGET_MAP_H
#define TN_BUDGET_MAP_H

#include "budget/lower.h"

/* What is known of a program beside its work; in the arena of the work. */
struct tn__work_map {
    const tn_program *program;
    const tn_graph *graph;
    tn_occupancy_options memory; /* complete; without static blocks */
    tn_tensor_id *root; /* [tensors] whose memory it is or lies in, itself or static; TN_NONE: it is
                         * inside a block, or nobody defines it */
    uint32_t *value;    /* [tensors] of the root; TN_NONE: static memory, or none */
    bool *is_view;      /* [tensors] applied where somebody reads it */
    tn_op_id *part, *next_part; /* [tensors] of a root the first view that is smaller, [operators]
                                 * and the next: applied as soon as there is something to view, so
                                 * that no more than what is read stays; TN_NONE */
    uint32_t *first, *last;     /* [jobs] instructions of the program */
    uint32_t *read_first, *read_count; /* [jobs] into reads: tensors that its first run reads */
    tn_tensor_id *reads;
    tn_tensor_id *puts, *gets; /* of the program, in its order */
    uint32_t put_count, get_count;
};

/* Whether a region is of an operator of the main block, or of one inside its blocks. */
static inline bool tn__region_is_of(const tn_graph *graph, const tn_region *region, tn_op_id id) {
    tn_op_id op = region->op;
    while (tn_graph_op(graph, op)->block != 0)
        op = tn_graph_block(graph, tn_graph_op(graph, op)->block)->owner;
    return op == id;
}

#endif
