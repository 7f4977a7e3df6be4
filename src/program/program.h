/* program.h - the parts of a program that are internal to the folder `program`. */
#ifndef TN_PROGRAM_PROGRAM_H
#define TN_PROGRAM_PROGRAM_H

#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "base/lists.h"

struct tn_program {
    tn_context context;
    const tn_graph *graph;
    /* NULL: no encoded forms; otherwise a copy of the graph with the encoded forms added, to which
     * `graph` points */
    tn_graph *own;
    tn_encoded *encoded; /* [encoded_count] encoded forms; they are the last tensors of the graph */
    uint32_t encoded_count;
    tn_instruction *instructions;
    tn_region *regions;
    size_t count, room, region_count, region_room;
    tn_program_order order;
};

/* Whether the instruction communicates with other ranks. */
static inline bool tn__instruction_talks(const tn_instruction *it) {
    tn_blocks blocks = tn_opcode_facts_of(it->opcode)->blocks;
    return blocks == TN_BLOCKS_PEER || blocks == TN_BLOCKS_GROUP;
}

/* The first tensor of the program's graph that is an encoded form. Encoded forms come after all
 * other tensors. */
static inline tn_tensor_id tn__program_first_encoded(const tn_program *program) {
    return tn_graph_tensor_count(program->graph) - program->encoded_count;
}

/* The input of an algorithm that orders operators: one block of a graph, and options. */
typedef struct tn_order_task {
    const tn_graph *graph;
    tn_block_id block;
    /* options for counting bytes (alignment, views, in-place), with defaults filled in */
    tn_occupancy_options memory;
    /* [operators] live bytes inside the operator's blocks; NULL: no operator has blocks */
    const uint64_t *inner;
    uint64_t state_limit; /* limit of states of a complete search; 0: no complete search */
    /* [operators] place of the operator in the caller's sequence; NULL: there is no sequence */
    const uint32_t *rank;
    /* a tensor's memory is freed as a whole when all of its views are over, not section by
     * section */
    bool whole;
} tn_order_task;

/* How good an order is known to be, in live bytes of the block at its worst step. */
typedef struct tn_order_proof {
    /* peak and lower bound. If both are equal, no order has a lower peak. bound 0: no bound is
     * known */
    uint64_t peak, bound;
} tn_order_proof;

/* An algorithm that decides the sequence of the operators of a block. Each one is a file in orders/
 * and a line in orders.def. `arrange` fills ops[op_count] with the block's operators; each operator
 * comes after the producers of its inputs. */
typedef struct tn_order {
    const char *name;
    const char *summary;
    tn_status (*arrange)(const tn_order_task *task, tn_op_id *ops, tn_order_proof *proof,
                         tn_error *error);
} tn_order;
/* finds an order by its name; returns NULL if no order has that name */
const tn_order *tn__order_find(const char *name);

/* lower.c: makes the program of one order. task->block is not read. */
tn_status tn__program_lower(const tn_order *order, const tn_order_task *task, tn_program **program,
                            tn_error *error);
/* order/choose.c: the program of the named order (not "auto"), even if it needs more memory than
 * the file's order. Memory is counted in whole tensors, as the passes of budget/ count it.
 * Errors and cost: those of tn_program_create. */
tn_status tn__program_ordered(const tn_graph *graph, const tn_program_options *options,
                              tn_program **program, tn_error *error);
/* order/model.c: for every operator with blocks the live bytes inside them, in file order.
 * *inner [operators] is released with tn__free; NULL when no operator has blocks. */
tn_status tn__order_inner(const tn_order_task *task, uint64_t **inner, tn_error *error);
/* lower.c: the order that follows task->rank; it is not in the registry. */
extern const tn_order tn__order_sequence;

/* Completes the given options with defaults. `given` may have any size of struct that callers have
 * compiled with. */
tn_status tn__occupancy_options(const tn_occupancy_options *given, tn_occupancy_options *options,
                                tn_error *error);
/* Adds to the problem of an occupancy the data for planning with this objective: nothing for BYTES,
 * reuse costs for PAIRS, else events. */
tn_status tn__occupancy_prepare(tn_occupancy *occupancy, tn_objective objective, tn_error *error);

/* Creates an empty program, for lowering and for tn_program_from. */
tn_status tn__program_create(const tn_graph *graph, tn_program **program, tn_error *error);
tn_status tn__program_add(tn_program *program, tn_instruction instruction, tn_error *error);
tn_status tn__program_add_region(tn_program *program, tn_region region, tn_error *error);

/* Lists for each tensor the steps that read or change it, in `arena`. Live ranges also follow from
 * control flow, views and releases, which are in tn_occupancy. Errors: E_NO_MEMORY. Cost:
 * O(instructions + operands). */
tn_status tn__program_uses(const tn_program *program, tn__arena *arena, tn__lists *uses,
                           tn_error *error);

/* Lists the static tensors that the program reads or returns, in their stored form: [*count] in
 * `arena`, sorted by tensor. */
tn_status tn__program_statics(const tn_program *program, tn__arena *arena, tn_static_block **blocks,
                              uint32_t *count, tn_error *error);

/* The scratch bytes of an operator: those of its kernel if known, otherwise those of the operator
 * type's rule. `by_other` means that the operator is recomputed by another operator type. */
static inline uint64_t tn__workspace(const tn_graph *graph, const tn_occupancy_options *options,
                                     tn_op_id op, bool by_other) {
    if (by_other && options->workspaces_again != NULL) return options->workspaces_again[op];
    return options->workspaces != NULL ? options->workspaces[op] : tn_op_workspace(graph, op);
}

#endif
