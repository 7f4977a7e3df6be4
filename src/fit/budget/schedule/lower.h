/* lower.h - translation from a Program to a schedule graph, and from a schedule back to a Program.
 *
 *     job      an instruction APPLY; an operator with blocks, including all instructions in them
 *     value    a tensor with memory of its own, and its views
 *     view     an operator with all outputs in its inputs. It costs nothing and is not a
 *              job; it is applied directly before a job that reads its output
 *
 * read.c fills in the map from jobs and values to instructions and tensors; schedule_emit.c uses it
 * to write a program.
 */
#ifndef TN_SCHEDULE_LOWER_H
#define TN_SCHEDULE_LOWER_H

#include <tenure/program.h>
#include <tenure/search.h>

#include "fit/budget/schedule/schedule_graph.h"

typedef struct tn__dag_map tn__dag_map;

/* Reads the jobs and values of a program, in program order. fixed_bytes is left 0.
 *
 * costs   NULL: the costs of an unmeasured machine (graph/takes.h)
 * memory  alignment and workspaces as for the occupancy; NULL: defaults
 * Errors: E_UNSUPPORTED (the program already contains copies or encoded forms), E_UNKNOWN (a size),
 * E_NO_MEMORY. Cost: O(instructions + operands).
 */
tn_status tn__dag_read(const tn_program *program, const tn_costs *costs,
                       const tn_occupancy_options *memory, tn__arena *arena, tn__dag *dag,
                       tn__dag_map **map, tn_error *error);
/* The value that owns a tensor's memory; TN_NONE: static memory, or a tensor without a value. */
uint32_t tn__dag_value_of(const tn__dag_map *map, tn_tensor_id tensor);

/* schedule_emit.c: writes a schedule that tn__replay_schedule accepts as a program. Errors:
 * E_NO_MEMORY, those of tn_program_from (which would be a mistake of ours). Cost: O(actions +
 * operands). */
tn_status tn__schedule_emit(const tn__dag_map *map, const tn__dag *dag,
                            const tn__schedule *schedule, tn_program **program, tn_error *error);

/* The correspondence of one program; it lies in the arena of the schedule graph. */
struct tn__dag_map {
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

/* Whether a region belongs to an operator of the main block, or to an operator inside its blocks.
 */
static inline bool tn__region_is_of(const tn_graph *graph, const tn_region *region, tn_op_id id) {
    tn_op_id op = region->op;
    while (tn_graph_op(graph, op)->block != 0)
        op = tn_graph_block(graph, tn_graph_op(graph, op)->block)->owner;
    return op == id;
}

#endif
