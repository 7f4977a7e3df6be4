/* program.h - the parts of a program that are internal to the folder `program`. */
#ifndef TN_PROGRAM_PROGRAM_H
#define TN_PROGRAM_PROGRAM_H

#include <tenure/program.h>

#include "base/lists.h"

struct tn_program {
    tn_context context;
    const tn_graph *graph;
    tn_graph *own;       /* same as `graph` if there are encoded forms; otherwise NULL */
    tn_encoded *encoded; /* [encoded_count] forms: its last tensors */
    uint32_t encoded_count;
    tn_instruction *instructions;
    tn_region *regions;
    size_t count, room, region_count, region_room;
    tn_program_order order;
};

/* SEND to SCATTER. */
static inline bool tn__instruction_talks(const tn_instruction *it) {
    tn_blocks blocks = tn_opcode_facts_of(it->opcode)->blocks;
    return blocks == TN_BLOCKS_PEER || blocks == TN_BLOCKS_GROUP;
}

/* The first tensor of its graph that is an encoded form of its own. */
static inline tn_tensor_id tn__program_first_encoded(const tn_program *program) {
    return tn_graph_tensor_count(program->graph) - program->encoded_count;
}

/* The input of an order: one block of a graph. */
typedef struct tn_order_task {
    const tn_graph *graph;
    tn_block_id block;
    tn_occupancy_options memory; /* rules for counting bytes: alignment, views, in-place;
                                  * complete */
    const uint64_t *inner;       /* [operators] live bytes inside its blocks; NULL: no operator
                                  * has blocks */
    uint64_t state_limit;        /* of complete searches; 0: no complete search */
    const uint32_t *rank;        /* [operators] place in the caller's sequence; NULL: no sequence */
    bool whole; /* a tensor's memory is freed when all of its views are over, not part by part */
} tn_order_task;

/* How good an order is known to be, in live bytes of the block at its worst step. */
typedef struct tn_order_proof {
    uint64_t peak, bound; /* equal: no order needs less; bound 0: no bound is known */
} tn_order_proof;

/* An order decides the sequence of the operators of a block. Each one is one file in orders/ and
 * one line in orders.def. `arrange` fills ops[op_count] with the block's operators; each
 * operator comes after the producers of its inputs. */
typedef struct tn_order {
    const char *name;
    const char *summary;
    tn_status (*arrange)(const tn_order_task *task, tn_op_id *ops, tn_order_proof *proof,
                         tn_error *error);
} tn_order;
const tn_order *tn__order_find(const char *name); /* NULL: no order has that name */

/* lower.c: the program of one order; task->block is not read. */
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
/* lower.c: follows task->rank; not in the registry. */
extern const tn_order tn__order_sequence;

/* The given options, completed with defaults, for every size of struct that callers compile
 * with. */
tn_status tn__occupancy_options(const tn_occupancy_options *given, tn_occupancy_options *options,
                                tn_error *error);

/* An empty program, for lowering and for tn_program_from. */
tn_status tn__program_create(const tn_graph *graph, tn_program **program, tn_error *error);
tn_status tn__program_add(tn_program *program, tn_instruction instruction, tn_error *error);
tn_status tn__program_add_region(tn_program *program, tn_region region, tn_error *error);

/* for each tensor the steps that read or change it, in `arena`: the order of instructions
 * as seen from one tensor. Live ranges also follow from control flow, views and releases: they
 * are in tn_occupancy. Errors: E_NO_MEMORY. Cost: O(instructions + operands). */
tn_status tn__program_uses(const tn_program *program, tn__arena *arena, tn__lists *uses,
                           tn_error *error);

/* the static tensors that are read or handed out, in their stored form: [*count] in
 * `arena`, sorted by tensor. */
tn_status tn__program_statics(const tn_program *program, tn__arena *arena, tn_static_block **blocks,
                              uint32_t *count, tn_error *error);

/* Scratch bytes of an operator: those of its kernel if known, otherwise by its rule. `by_other`:
 * the operator is recomputed by another operator type. */
static inline uint64_t tn__workspace(const tn_graph *graph, const tn_occupancy_options *options,
                                     tn_op_id op, bool by_other) {
    if (by_other && options->workspaces_again != NULL) return options->workspaces_again[op];
    return options->workspaces != NULL ? options->workspaces[op] : tn_op_workspace(graph, op);
}

#endif
