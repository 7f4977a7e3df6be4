/* map.h - how jobs and values correspond to instructions and tensors of the program. work_read.c
 * fills the map in; emit.c uses it to write a program.
 *
 *     job      an instruction APPLY; an operator with blocks, including all instructions in them
 *     value    a tensor with memory of its own, and its views
 *     view     an operator whose outputs all lie in its inputs. It costs nothing and is not a
 *              job; it is applied directly before a job that reads its output
 */
#ifndef TN_BUDGET_MAP_H
#define TN_BUDGET_MAP_H

#include "fit/budget/lower.h"

/* The correspondence of one program; it lies in the arena of the work. */
struct tn__work_map {
    const tn_program *program;
    const tn_graph *graph;
    tn_occupancy_options memory; /* all fields set; without static blocks */
    tn_tensor_id *root; /* [tensors] the tensor that owns its memory, which may be itself or a
                         * static tensor; TN_NONE: the tensor is inside a block, or no operator
                         * defines it */
    uint32_t *value;    /* [tensors] value of the root; TN_NONE: static memory, or no value */
    bool *is_view;      /* [tensors] applied at its readers */
    tn_op_id *part, *next_part; /* [tensors] first view of a root that is smaller than the root,
                                 * [operators] and the next such view; TN_NONE. These views are
                                 * applied as soon as their source exists, so that only the bytes
                                 * that are read stay live */
    uint32_t *first, *last;     /* [jobs] instructions of the program */
    uint32_t *read_first, *read_count; /* [jobs] into reads: tensors that its first run reads */
    tn_tensor_id *reads;
    tn_tensor_id *puts, *gets; /* of the program, in program order */
    uint32_t put_count, get_count;
};

/* Whether a region belongs to an operator of the main block, or to an operator inside its
 * blocks. */
static inline bool tn__region_is_of(const tn_graph *graph, const tn_region *region, tn_op_id id) {
    tn_op_id op = region->op;
    while (tn_graph_op(graph, op)->block != 0)
        op = tn_graph_block(graph, tn_graph_op(graph, op)->block)->owner;
    return op == id;
}

#endif
