/* program.h - what the room `program` knows of a program beyond its public face. */
#ifndef TN_PROGRAM_PROGRAM_H
#define TN_PROGRAM_PROGRAM_H

#include <tenure/program.h>

#include "base/base.h"

struct tn_program {
    tn_context context;
    const tn_graph *graph;
    tn_graph *own;       /* `graph`, where there are encoded forms; else NULL */
    tn_encoded *encoded; /* [encoded_count] its last tensors */
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

/* What an order is asked to arrange: one block of a graph. */
typedef struct tn_order_task {
    const tn_graph *graph;
    tn_block_id block;
    tn_occupancy_options memory; /* what counts as bytes: alignment, views, in-place; complete */
    const uint64_t *inner; /* [operators] bytes that live inside its blocks; NULL: no blocks */
    uint64_t state_limit;  /* of complete searches; 0: none of them */
    const uint32_t *rank;  /* [operators] by place in a caller's sequence; NULL: none */
    bool whole; /* a tensor's memory goes when all views of it have gone, not part by part */
} tn_order_task;

/* How good an order is known to be: live bytes of the block at its worst step. */
typedef struct tn_order_proof {
    uint64_t peak, bound; /* equal: no order needs less; bound 0: nothing is known */
} tn_order_proof;

/* An order: which operator of a block comes after which. One file in orders/ and one line in
 * orders.def. `arrange` fills ops[op_count] with the block's operators in an order in which every
 * one comes after those whose outputs it reads. */
typedef struct tn_order {
    const char *name;
    const char *summary;
    tn_status (*arrange)(const tn_order_task *task, tn_op_id *ops, tn_order_proof *proof,
                         tn_error *error);
} tn_order;
const tn_order *tn__order_find(const char *name); /* NULL: none of that name */

/* lower.c: the program of one order; task->block is not read. */
tn_status tn__program_lower(const tn_order *order, const tn_order_task *task, tn_program **program,
                            tn_error *error);
/* choose_order.c: the program of the order that is named (not "auto"), whether or not it takes less
 * than the file's does; memory is counted in whole tensors, as passes of budget/ count it. Errors
 * and cost: those of tn_program_create. */
tn_status tn__program_ordered(const tn_graph *graph, const tn_program_options *options,
                              tn_program **program, tn_error *error);
/* order_inner.c: for every operator with blocks the bytes that live inside them, in file order;
 * *inner [operators] is for tn__free, NULL when no operator has blocks. */
tn_status tn__order_inner(const tn_order_task *task, uint64_t **inner, tn_error *error);
/* order_sequence.c: by task->rank; no entry of the registry. */
extern const tn_order tn__order_sequence;

/* Options as given, the rest by default, whatever struct they were compiled with. */
tn_status tn__occupancy_options(const tn_occupancy_options *given, tn_occupancy_options *options,
                                tn_error *error);

/* An empty program, for lowering and for tn_program_from. */
tn_status tn__program_create(const tn_graph *graph, tn_program **program, tn_error *error);
tn_status tn__program_add(tn_program *program, tn_instruction instruction, tn_error *error);
tn_status tn__program_add_region(tn_program *program, tn_region region, tn_error *error);

/* statics.c: the static tensors that are read or handed out, as they are: [*count] in `arena`, by
 * tensor. */
tn_status tn__program_statics(const tn_program *program, tn__arena *arena, tn_static_block **blocks,
                              uint32_t *count, tn_error *error);

/* Scratch bytes of an operator: of its kernel where that is known, else by its rule. `by_other`: it
 * runs again, by another type. */
static inline uint64_t tn__workspace(const tn_graph *graph, const tn_occupancy_options *options,
                                     tn_op_id op, bool by_other) {
    if (by_other && options->workspaces_again != NULL) return options->workspaces_again[op];
    return options->workspaces != NULL ? options->workspaces[op] : tn_op_workspace(graph, op);
}

#endif
