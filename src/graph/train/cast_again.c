/* cast_again.c - with mixed precision, repeats casts in the backward pass if that costs no memory.
 *
 * Two kinds of casts need not be kept for the backward pass: casts of parameters and casts from
 * fewer bits. The parameter and the shorter numbers are kept anyway. The copy of such a cast stands
 * right before its first reader in the backward pass. That is before any update of the parameter
 * that it reads, because the gradient for the update follows that reader. Bits stay the same. Any
 * other recomputation is a choice within a work budget: tn_program_recompute.
 */
#include <stdio.h>

#include "graph/train/frame.h"

#define RECOMPUTE_NONE UINT32_MAX

typedef struct recompute_state {
    tn__train *it;
    uint32_t count;     /* operators of the main block before this pass */
    uint32_t *reader;   /* [forward] first position in the backward pass that reads it, or NONE */
    bool *again;        /* [forward] whether it is repeated */
    tn_tensor_id *copy; /* [forward] or TN_NONE */
    tn_op_id *order;    /* the new list */
    size_t order_count;
} recompute_state;

/* Whether the tensor is kept until the backward pass is over, or at least until its reader
 * there. */
static bool recompute_is_there(const recompute_state *state, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(state->it->graph, id);
    if (tensor->producer == TN_NONE || tn_tensor_is_static(tensor)) return true;
    return id < state->it->forward && state->reader[id] != RECOMPUTE_NONE && !state->again[id];
}

/* --- copies --- */

static tn_status recompute_make(recompute_state *state, tn_tensor_id id) {
    tn__train *it = state->it;
    const tn_tensor like = *tn_graph_tensor(it->graph, id);
    const tn_op op = *tn_graph_op(it->graph, like.producer);
    char name[200];
    tn_op_id copy;
    snprintf(name, sizeof name, "%.180s.again", like.name);
    tn_tensor_spec tensor = {.name = name,
                             .dtype = like.dtype,
                             .kind = TN_KIND_ACTIVATION,
                             .rank = like.rank,
                             .shape = like.shape};
    TN_TRY(tn_graph_add_tensor(it->graph, &tensor, &state->copy[id], it->error));
    tn_op_spec spec = {.name = name,
                       .type = op.type,
                       .domain = op.domain,
                       .version = op.version,
                       .inputs = op.inputs,
                       .outputs = &state->copy[id],
                       .attrs = op.attrs,
                       .input_count = op.input_count,
                       .output_count = 1,
                       .attr_count = op.attr_count};
    TN_TRY(tn_graph_add_op(it->graph, &spec, &copy, it->error));
    state->order[state->order_count++] = copy;
    return TN_OK;
}

/* --- the pass --- */

static tn_status recompute_room(recompute_state *state) {
    tn__train *it = state->it;
    size_t forward = it->forward, ops = tn_graph_op_count(it->graph);
    state->count = tn_graph_block(it->graph, 0)->op_count;
    state->reader = tn__arena_array(&it->arena, forward, sizeof *state->reader);
    state->again = tn__arena_array(&it->arena, forward, sizeof *state->again);
    state->copy = tn__arena_array(&it->arena, forward, sizeof *state->copy);
    state->order = tn__arena_array(&it->arena, 2 * ops, sizeof *state->order);
    if (state->reader == NULL || state->again == NULL || state->copy == NULL ||
        state->order == NULL)
        return tn__no_memory(it->error, "recomputation");
    for (size_t i = 0; i < forward; i++) {
        state->reader[i] = RECOMPUTE_NONE;
        state->copy[i] = TN_NONE;
    }
    return TN_OK;
}

static void recompute_mark(recompute_state *state) {
    const tn__train *it = state->it;
    const tn_block *block = tn_graph_block(it->graph, 0);
    for (uint32_t p = it->forward_ops; p < state->count; p++) {
        const tn_op *op = tn_graph_op(it->graph, block->ops[p]);
        for (uint32_t i = 0; i < op->input_count; i++) {
            tn_tensor_id id = op->inputs[i];
            if (id == TN_NONE || id >= it->forward || state->reader[id] != RECOMPUTE_NONE) continue;
            state->reader[id] = p;
        }
    }
    for (uint32_t p = 0; p < it->forward_ops; p++) {
        const tn_op *op = tn_graph_op(it->graph, block->ops[p]);
        tn_tensor_id id = op->output_count > 0 ? op->outputs[0] : TN_NONE;
        if (id == TN_NONE || state->reader[id] == RECOMPUTE_NONE || op->block != 0) continue;
        const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
        if (tensor->flags & TN_TENSOR_IS_OUTPUT || tn_tensor_is_static(tensor)) continue;
        state->again[id] =
            tn__train_is_free_cast(it, op) && recompute_is_there(state, op->inputs[0]);
    }
}

/* Visits the operator at a position of the backward pass: inserts copies of the casts that it is
 * the first to read. */
static tn_status recompute_visit(recompute_state *state, tn_op_id id, uint32_t position) {
    tn__train *it = state->it;
    const tn_op op = *tn_graph_op(it->graph, id);
    bool any = false;
    tn_tensor_id *inputs =
        tn__arena_copy(&it->graph->said, op.inputs, op.input_count * sizeof *inputs);
    if (inputs == NULL) return tn__no_memory(it->error, "recomputation");
    for (uint32_t i = 0; i < op.input_count; i++) {
        tn_tensor_id input = op.inputs[i];
        if (input == TN_NONE || input >= it->forward || !state->again[input]) continue;
        if (state->reader[input] == position && state->copy[input] == TN_NONE)
            TN_TRY(recompute_make(state, input));
        inputs[i] = state->copy[input];
        any = true;
    }
    if (any) it->graph->ops[id].inputs = inputs;
    state->order[state->order_count++] = id;
    return TN_OK;
}

tn_status tn__train_recompute(tn__train *it) {
    recompute_state state = {.it = it};
    TN_TRY(recompute_room(&state));
    recompute_mark(&state);
    for (uint32_t p = 0; p < state.count; p++) {
        tn_op_id id = tn_graph_block(it->graph, 0)->ops[p];
        if (p < it->forward_ops)
            state.order[state.order_count++] = id;
        else
            TN_TRY(recompute_visit(&state, id, p));
    }
    memcpy(it->graph->blocks[0].ops, state.order, state.order_count * sizeof *state.order);
    return TN_OK;
}
