/* lower.c - turns a Graph into a Program: decides when each operator runs. One order is here: that
 * of the caller.
 *
 *   PUT input ... | APPLY ... | region: then | region: else | APPLY If | APPLY ... | GET output ...
 *
 * Blocks of control flow stand inline, before the APPLY of their owner, one region per block.
 * Static tensors (parameters, constants, folded) exist before the program starts, so no
 * instruction defines them. Blocks that never run are left out. An explicit stack walks nested
 * blocks.
 *
 * Cost: O(operators + operands), and the cost of the order.
 */
#include "graph/op.h"
#include "program/order/order.h"
#include "program/program.h"

#define TN_ORDER(name) extern const tn_order tn__order_##name;
#include "program/orders.def"
#undef TN_ORDER

static const tn_order *const orders[] = {
#define TN_ORDER(name) &tn__order_##name,
#include "program/orders.def"
#undef TN_ORDER
};

const tn_order *tn__order_find(const char *name) {
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        if (strcmp(orders[i]->name, name) == 0) return orders[i];
    return NULL;
}

static const tn_order *lower_order_at(uint32_t index) {
    return index < tn_order_count() ? orders[index] : NULL;
}
uint32_t tn_order_count(void) { return (uint32_t)(sizeof orders / sizeof *orders); }
const char *tn_order_name(uint32_t index) {
    return lower_order_at(index) != NULL ? lower_order_at(index)->name : "";
}
const char *tn_order_summary(uint32_t index) {
    return lower_order_at(index) != NULL ? lower_order_at(index)->summary : "";
}

/* a block whose instructions are being written, on a stack of nested blocks */
typedef struct lower_frame {
    tn_block_id block;
    tn_op_id owner;
    uint32_t next;      /* index, in the block's order, of the operator that is lowered next */
    uint32_t next_attr; /* attribute of that operator that holds the block which is lowered next */
    uint32_t first;     /* step at which the block begins */
    size_t order_first; /* index in lower->order where the block's order begins */
} lower_frame;

typedef struct lower_state {
    tn_program *program;
    const tn_order *method;
    tn_order_task task;
    tn_order_proof proof; /* proof of how good the order of the last block is */
    uint32_t block_count;
    lower_frame *frames;
    tn_op_id *order; /* the orders of the blocks on the stack, one after the other */
    size_t frame_count, frame_room, order_count, order_room;
    tn_error *error;
} lower_state;

static tn_status lower_push(lower_state *lower, tn_block_id block, tn_op_id owner) {
    const tn_context *context = &lower->program->context;
    uint32_t count = tn_graph_block(lower->program->graph, block)->op_count;
    if (!tn__reserve(context, &lower->frames, &lower->frame_room, lower->frame_count + 1,
                     sizeof *lower->frames) ||
        !tn__reserve(context, &lower->order, &lower->order_room, lower->order_count + count + 1,
                     /* 1 is added, so that the order of an empty block has an address, too */
                     sizeof *lower->order))
        return tn__no_memory(lower->error, "lowering");
    lower->frames[lower->frame_count++] = (lower_frame){.block = block,
                                                        .owner = owner,
                                                        .first = (uint32_t)lower->program->count,
                                                        .order_first = lower->order_count};
    tn_op_id *ops = lower->order + lower->order_count;
    lower->order_count += count;
    lower->task.block = block;
    lower->block_count++;
    return lower->method->arrange(&lower->task, ops, &lower->proof, lower->error);
}

static bool lower_is_folded(const tn_graph *graph, const tn_op *op) {
    uint32_t present = 0;
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == TN_NONE) continue;
        present++;
        if (!tn_tensor_is_static(tn_graph_tensor(graph, op->outputs[i]))) return false;
    }
    return present > 0;
}

static tn_status lower_emit(lower_state *lower, tn_opcode opcode, tn_op_id op,
                            tn_tensor_id tensor) {
    tn_instruction made = TN_INSTRUCTION_INIT;
    made.opcode = opcode;
    made.op = op;
    made.tensor = tensor;
    return tn__program_add(lower->program, made, lower->error);
}

/* Removes the block on top of the stack, and ends the region of this block at the current step. */
static tn_status lower_pop(lower_state *lower) {
    lower_frame frame = lower->frames[--lower->frame_count];
    lower->order_count = frame.order_first;
    if (frame.owner == TN_NONE) return TN_OK;
    bool once = tn__op_has(lower->program->graph, frame.owner, TN_RULE_ONCE);
    tn_region region = {.op = frame.owner,
                        .block = frame.block,
                        .first = frame.first,
                        .last = (uint32_t)lower->program->count,
                        .repeats = !once /* also if the number of iterations is unknown */};
    return tn__program_add_region(lower->program, region, lower->error);
}

/* Takes one step in the block on top of the stack: enters a nested block of its next operator,
 * emits that operator, or ends the block. */
static tn_status lower_advance(lower_state *lower) {
    const tn_graph *graph = lower->program->graph;
    lower_frame *frame = &lower->frames[lower->frame_count - 1];
    if (frame->next == tn_graph_block(graph, frame->block)->op_count) return lower_pop(lower);
    tn_op_id id = lower->order[frame->order_first + frame->next];
    const tn_op *op = tn_graph_op(graph, id);
    bool folded = lower_is_folded(graph, op);
    while (!folded && frame->next_attr < op->attr_count) {
        const tn_attr *attr = &op->attrs[frame->next_attr++];
        if (attr->type == TN_ATTR_BLOCK && !tn_graph_block(graph, attr->block)->dead)
            return lower_push(lower, attr->block, id);
    }
    frame->next++;
    frame->next_attr = 0;
    return folded ? TN_OK : lower_emit(lower, TN_APPLY, id, TN_NONE);
}

static tn_status lower_io(lower_state *lower, tn_opcode opcode, const tn_tensor_id *tensors,
                          uint32_t count, uint8_t *done) {
    for (uint32_t i = 0; i < count; i++) {
        if (tensors[i] == TN_NONE || done[tensors[i]]) continue;
        if (tn_tensor_is_static(tn_graph_tensor(lower->program->graph, tensors[i]))) continue;
        done[tensors[i]] = 1;
        TN_TRY(lower_emit(lower, opcode, TN_NONE, tensors[i]));
    }
    return TN_OK;
}

static tn_status lower_run(lower_state *lower, uint8_t *done) {
    const tn_graph *graph = lower->program->graph;
    const tn_block *block = tn_graph_block(graph, 0);
    TN_TRY(lower_io(lower, TN_PUT, block->inputs, block->input_count, done));
    TN_TRY(lower_push(lower, 0, TN_NONE));
    while (lower->frame_count > 0) TN_TRY(lower_advance(lower));
    memset(done, 0, tn_graph_tensor_count(graph));
    return lower_io(lower, TN_GET, block->outputs, block->output_count, done);
}

/* Stores the order's name, and its peak and bound if they hold for the program. Numbers for one
 * block hold neither for a program with nested blocks nor if operators run in parallel. Nor do they
 * hold with fused concatenations, because the search for an order does not count their savings. */
static void lower_note_order(const lower_state *lower) {
    bool counts = lower->block_count == 1 && !lower->task.memory.fuse_concat &&
                  lower->task.memory.parallel == TN_PARALLEL_SERIAL;
    lower->program->order = (tn_program_order){.name = lower->method->name,
                                               .peak = counts ? lower->proof.peak : 0,
                                               .bound = counts ? lower->proof.bound : 0,
                                               .proved = counts && lower->proof.peak > 0 &&
                                                         lower->proof.peak <= lower->proof.bound};
}

tn_status tn__program_lower(const tn_order *order, const tn_order_task *task, tn_program **program,
                            tn_error *error) {
    lower_state lower = {.method = order, .task = *task, .error = error};
    TN_TRY(tn__program_create(task->graph, &lower.program, error));
    const tn_context *context = &lower.program->context;
    size_t tensors = tn_graph_tensor_count(task->graph);
    uint8_t *done = tn__alloc_array(context, tensors, sizeof *done);
    tn_status status = done != NULL ? lower_run(&lower, done) : tn__no_memory(error, "lowering");
    tn__free(context, done, tensors * sizeof *done);
    tn__free(context, lower.frames, lower.frame_room * sizeof *lower.frames);
    tn__free(context, lower.order, lower.order_room * sizeof *lower.order);
    /* checks every program, because the check costs little compared with lowering */
    if (status == TN_OK) status = tn_program_verify(lower.program, error);
    if (status != TN_OK) {
        tn_program_destroy(lower.program);
        return status;
    }
    lower_note_order(&lower);
    *program = lower.program;
    return TN_OK;
}

/* --- the order that a caller gives ------------------------------------------------------------ */

/* Checks and uses an order that the caller gives. A reader must come after the producer of its
 * input. Every operator must stay on the same side of an operator that writes into shared input, as
 * in the file. Cost: O(operands log operands). */

static tn_status sequence_fail(const tn_order_task *task, tn_op_id early, tn_op_id late,
                               tn_error *error) {
    const tn_op *x = tn_graph_op(task->graph, early), *y = tn_graph_op(task->graph, late);
    TN_FAIL(error, TN_E_INVALID,
            "the order runs node '%.60s' (%.30s, #%u) before '%.60s' (%.30s, #%u), which must come "
            "first: it makes what the other reads, or reads what the other overwrites",
            x->name, x->type, early, y->name, y->type, late);
}

static tn_status sequence_check(const tn_order_task *task, const tn__order_model *model,
                                tn_error *error) {
    for (uint32_t p = 0; p < model->count; p++) {
        tn_op_id id = model->ops[p];
        const tn_op *op = tn_graph_op(task->graph, id);
        if (task->rank[id] == TN_NONE)
            TN_FAIL(error, TN_E_INVALID, "the order leaves out node '%.80s' (%.40s, #%u)", op->name,
                    op->type, id);
        for (uint32_t k = model->before_at[p]; k < model->before_at[p + 1]; k++) {
            tn_op_id before = model->ops[model->before[k]];
            if (task->rank[before] == TN_NONE || task->rank[before] < task->rank[id]) continue;
            return sequence_fail(task, id, before, error);
        }
    }
    return TN_OK;
}

typedef struct sequence_place {
    /* rank of the operator in the caller's order; operators without a rank have no step of their
     * own, so they come first */
    uint32_t rank;
    uint32_t number;
    tn_op_id op;
} sequence_place;

static int sequence_order(const void *a, const void *b) {
    const sequence_place *x = a, *y = b;
    /* adding 1 wraps: a rank of TN_NONE becomes 0 and comes first */
    uint32_t i = x->rank + 1, j = y->rank + 1;
    if (i != j) return i < j ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static tn_status sequence_arrange(const tn_order_task *task, tn_op_id *ops, tn_order_proof *proof,
                                  tn_error *error) {
    const tn_block *block = tn_graph_block(task->graph, task->block);
    const tn_context *context = tn_graph_context(task->graph);
    tn__order_model model;
    (void)proof;
    tn_status status = tn__order_model_make(task, &model, error);
    if (status == TN_OK) status = sequence_check(task, &model, error);
    tn__order_model_release(&model);
    TN_TRY(status);
    sequence_place *places = tn__alloc_array(context, block->op_count, sizeof *places);
    if (places == NULL) return tn__no_memory(error, "the order of operators");
    for (uint32_t i = 0; i < block->op_count; i++)
        places[i] = (sequence_place){task->rank[block->ops[i]], i, block->ops[i]};
    if (block->op_count > 0) qsort(places, block->op_count, sizeof *places, sequence_order);
    for (uint32_t i = 0; i < block->op_count; i++) ops[i] = places[i].op;
    tn__free(context, places, block->op_count * sizeof *places);
    return TN_OK;
}

const tn_order tn__order_sequence = {
    .name = "sequence",
    .summary = "a caller's own",
    .arrange = sequence_arrange,
};
