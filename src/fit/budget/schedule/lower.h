/* lower.h - translation from a Program to a schedule graph, and from a schedule back to a Program.
 *
 *     job      an instruction APPLY; for an operator with blocks, all instructions of the blocks
 *     value    a tensor with memory of its own, together with its views
 *     view     an operator with all outputs in the memory of its inputs. A view costs nothing and
 *              is not a job; it is applied directly before a job that reads its output
 *
 * read.c fills in the map from jobs and values to instructions and tensors; schedule_emit.c uses
 * the map to write a program.
 */
#ifndef TN_SCHEDULE_LOWER_H
#define TN_SCHEDULE_LOWER_H

#include <tenure/occupancy.h>
#include <tenure/program.h>
#include <tenure/search.h>

#include "fit/budget/schedule/schedule_graph.h"

typedef struct tn__dag_map tn__dag_map;

/* Reads the jobs and values of a program, in program order. fixed_bytes becomes 0.
 *
 * costs   NULL: the costs of a standard machine that was not measured (graph/takes.h)
 * memory  alignment and workspaces, as for the occupancy; NULL: defaults
 * Errors: E_UNSUPPORTED (the program already contains copies or encoded forms), E_UNKNOWN (a size),
 * E_NO_MEMORY. Cost: O(instructions + operands).
 */
tn_status tn__dag_read(const tn_program *program, const tn_costs *costs,
                       const tn_occupancy_options *memory, tn__arena *arena, tn__dag *dag,
                       tn__dag_map **map, tn_error *error);
/* Returns the value that owns the memory of a tensor; TN_NONE for static memory, or for a tensor
 * without a value. */
uint32_t tn__dag_value_of(const tn__dag_map *map, tn_tensor_id tensor);

/* Writes a schedule as a program (schedule_emit.c). The schedule must be one that
 * tn__replay_schedule accepts. Errors: E_NO_MEMORY, and those of tn_program_from, which would be a
 * mistake of schedule_emit.c. Cost: O(actions + operands). */
tn_status tn__schedule_emit(const tn__dag_map *map, const tn__dag *dag,
                            const tn__schedule *schedule, tn_program **program, tn_error *error);

/* The map from jobs and values of a schedule graph to instructions and tensors of its program. Its
 * memory belongs to the arena of the schedule graph. */
struct tn__dag_map {
    const tn_program *program;
    const tn_graph *graph;
    /* options of the occupancy, with all fields set and without static blocks */
    tn_occupancy_options memory;
    /* [tensors] the tensor that owns the tensor's memory: the tensor itself, another one, or a
     * static tensor. TN_NONE: the tensor is inside a block, or no operator defines it */
    tn_tensor_id *root;
    /* [tensors] the value of the tensor's root; TN_NONE: static memory, or no value */
    uint32_t *value;
    bool *is_view; /* [tensors] the tensor is a view that is applied directly before its readers */
    /* [tensors] for a root, the first operator that makes a view smaller than the root; [operators]
     * the next such operator. TN_NONE: no further one. These views are applied as soon as their
     * source exists, so that only the bytes that are read stay live */
    tn_op_id *part, *next_part;
    uint32_t *first, *last; /* [jobs] range of the job's instructions in the program */
    /* [jobs] range in `reads` of the tensors that the job's first run reads */
    uint32_t *read_first, *read_count;
    tn_tensor_id *reads;
    tn_tensor_id *puts, *gets; /* tensors that PUT and GET instructions copy, in program order */
    uint32_t put_count, get_count;
};

/* Returns true if a region belongs to operator `id` of the main block, or to an operator nested at
 * any depth in its blocks. */
static inline bool tn__region_is_of(const tn_graph *graph, const tn_region *region, tn_op_id id) {
    tn_op_id op = region->op;
    while (tn_graph_op(graph, op)->block != 0)
        op = tn_graph_block(graph, tn_graph_op(graph, op)->block)->owner;
    return op == id;
}

#endif
