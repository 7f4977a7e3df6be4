/* program.h - what the room `program` knows of a program beyond its public face. */
#ifndef TN_PROGRAM_PROGRAM_H
#define TN_PROGRAM_PROGRAM_H

#include <tenure/program.h>

#include "base/base.h"

struct tn_program {
    tn_context context;
    const tn_graph *graph;
    tn_instruction *instructions;
    tn_region *regions;
    size_t count, room, region_count, region_room;
};

/* An order: which operator of a block comes after which. One file in orders/ and one line in
 * orders.def. `arrange` fills ops[op_count] with the block's operators in an order in which every
 * one comes after those whose outputs it reads. */
typedef struct tn_order {
    const char *name;
    const char *summary;
    tn_status (*arrange)(const tn_graph *graph, tn_block_id block, tn_op_id *ops, tn_error *error);
} tn_order;
const tn_order *tn__order_find(const char *name); /* NULL: none of that name */

/* Whether a tensor's memory is taken before the run and kept: parameters, constants, folded. */
bool tn__tensor_is_static(const tn_tensor *tensor);

/* An empty program, for lowering and for tn_program_from. */
tn_status tn__program_create(const tn_graph *graph, tn_program **program, tn_error *error);
tn_status tn__program_add(tn_program *program, tn_instruction instruction, tn_error *error);
tn_status tn__program_add_region(tn_program *program, tn_region region, tn_error *error);

#endif
