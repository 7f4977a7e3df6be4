/* recompute.c - what is cheap is computed again in the backward pass instead of being kept.
 *
 * A tensor that the backward pass reads need not wait for it when operators that cost little make
 * it from tensors that wait anyway: the output of an activation behind a normalisation, whose input
 * is kept by the gradient of the normalisation; what GELU gives, whose gradient keeps what it got.
 *
 *     conv -> x -> BatchNorm -> b -> Relu -> y     kept: x (by BatchNorm), y (by Relu, next conv)
 *                                                  again: b', y' from x, right before their reader
 *
 * Tensors are looked at in the order of the forward pass; one is made again when all that it comes
 * from are operands of the run, static, or kept and not made again themselves. So chains stay short
 * (at most RECOMPUTE_CHAIN operators) and a chain of residual additions is cut at every other one.
 * The copies do what the originals did on the same operands, so results are the same bit by bit.
 * Copies are put before the first reader, in the order of the list: that is before any update of a
 * parameter that they read, as its gradient comes from behind that reader.
 * With mixed precision, casts of parameters are always made again (lower.c).
 * Source: Chen et al. 2016, section 4; Rota Bulo, Porzi, Kontschieder 2018 (checkpoint variant).
 */
#include <stdio.h>

#include "train/frame.h"

#define RECOMPUTE_CHAIN 8u
#define RECOMPUTE_NONE UINT32_MAX

typedef struct recompute_state {
    tn__train *it;
    uint32_t count;     /* operators of the main block, before */
    uint32_t *reader;   /* [forward] first position in the backward pass that reads it, or NONE */
    uint32_t *place;    /* [operators] position in the list */
    bool *again;        /* [forward] */
    tn_tensor_id *copy; /* [forward] or TN_NONE */
    tn_op_id *order;    /* the new list */
    size_t order_count;
    tn_op_id chain[RECOMPUTE_CHAIN]; /* of the tensor in hand */
    uint32_t chain_count;
} recompute_state;

/* --- what is cheap --- */

static bool recompute_is_listed(const char *type, const char *const *list) {
    for (; *list != NULL; list++)
        if (strcmp(*list, type) == 0) return true;
    return false;
}

static bool recompute_is_cheap(const tn__train *it, const tn_op *op) {
    static const char *const each[] = {"Abs",         "Add",
                                       "Cast",        "Clip",
                                       "Div",         "Elu",
                                       "Erf",         "Exp",
                                       "Flatten",     "Gelu",
                                       "HardSigmoid", "HardSwish",
                                       "Identity",    "LayerNormalization",
                                       "LeakyRelu",   "Mish",
                                       "Mul",         "Neg",
                                       "Pow",         "Relu",
                                       "Reshape",     "Selu",
                                       "Sigmoid",     "Softplus",
                                       "Sqrt",        "Squeeze",
                                       "Sub",         "Swish",
                                       "Tanh",        "Unsqueeze",
                                       NULL};
    static const char *const own[] = {"BatchNormTrain", "DropoutTrain", NULL};
    if (!it->options.recompute_cheap) return tn__train_is_free_cast(it, op);
    if (op->domain[0] == '\0') return recompute_is_listed(op->type, each);
    return strcmp(op->domain, "tenure") == 0 && recompute_is_listed(op->type, own);
}

static bool recompute_is_view(const char *type) {
    static const char *const views[] = {"Flatten", "Identity",  "Reshape",
                                        "Squeeze", "Unsqueeze", NULL};
    return recompute_is_listed(type, views);
}

/* --- what it comes from --- */

/* There until the backward pass is over, or at any rate until its reader. */
static bool recompute_is_there(const recompute_state *state, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(state->it->graph, id);
    if (tensor->producer == TN_NONE || tn_tensor_is_static(tensor)) return true;
    return id < state->it->forward && state->reader[id] != RECOMPUTE_NONE && !state->again[id];
}

static bool recompute_in_chain(const recompute_state *state, tn_op_id id) {
    for (uint32_t i = 0; i < state->chain_count; i++)
        if (state->chain[i] == id) return true;
    return false;
}

/* The operators that make a tensor from what is there, or false. Breadth first. */
static bool recompute_find(recompute_state *state, tn_tensor_id id) {
    const tn_graph *graph = state->it->graph;
    bool moves_only = true;
    state->chain[0] = tn_graph_tensor(graph, id)->producer;
    state->chain_count = 1;
    for (uint32_t at = 0; at < state->chain_count; at++) {
        const tn_op *op = tn_graph_op(graph, state->chain[at]);
        if (!recompute_is_cheap(state->it, op) || op->block != 0) return false;
        moves_only = moves_only && recompute_is_view(op->type);
        for (uint32_t i = 0; i < op->input_count; i++) {
            if (op->inputs[i] == TN_NONE || recompute_is_there(state, op->inputs[i])) continue;
            tn_op_id maker = tn_graph_tensor(graph, op->inputs[i])->producer;
            if (recompute_in_chain(state, maker)) continue;
            if (state->chain_count == RECOMPUTE_CHAIN) return false;
            state->chain[state->chain_count++] = maker;
        }
    }
    return !moves_only;
}

/* --- copies --- */

static tn_status recompute_output(recompute_state *state, tn_tensor_id id, tn_tensor_id *copy) {
    const tn_tensor like = *tn_graph_tensor(state->it->graph, id);
    char name[200];
    snprintf(name, sizeof name, "%.180s.again", like.name);
    tn_tensor_spec spec = {.name = name,
                           .dtype = like.dtype,
                           .kind = TN_KIND_ACTIVATION,
                           .rank = like.rank,
                           .shape = like.shape};
    return tn_graph_add_tensor(state->it->graph, &spec, copy, state->it->error);
}

/* One operator of a chain once more, on copies where its operands have been copied. */
static tn_status recompute_copy(recompute_state *state, tn_op_id id, tn_tensor_id *made) {
    tn__train *it = state->it;
    const tn_op op = *tn_graph_op(it->graph, id);
    bool norm = strcmp(op.type, "BatchNormTrain") == 0;
    tn_tensor_id *inputs = tn__arena_array(&it->arena, (size_t)op.input_count + 1, sizeof *inputs);
    if (inputs == NULL) return tn__no_memory(it->error, "recomputation");
    for (uint32_t i = 0; i < op.input_count; i++) {
        tn_tensor_id input = op.inputs[i];
        bool copied = input != TN_NONE && input < it->forward && made[input] != TN_NONE;
        inputs[i] = copied ? made[input] : input;
    }
    if (norm) { /* by the statistics that were measured */
        inputs[3] = op.outputs[3];
        inputs[4] = op.outputs[4];
    }
    tn_tensor_id output;
    tn_op_id copy;
    TN_TRY(recompute_output(state, op.outputs[0], &output));
    tn_op_spec spec = {.name = tn_graph_tensor(it->graph, output)->name,
                       .type = norm ? "BatchNormalization" : op.type,
                       .domain = norm ? "" : op.domain,
                       .version = norm ? 9 : op.version,
                       .inputs = inputs,
                       .outputs = &output,
                       .attrs = op.attrs,
                       .input_count = op.input_count,
                       .output_count = 1,
                       .attr_count = op.attr_count};
    TN_TRY(tn_graph_add_op(it->graph, &spec, &copy, it->error));
    made[op.outputs[0]] = output;
    state->order[state->order_count++] = copy;
    return TN_OK;
}

/* The chain of a tensor once more, first operator first. */
static tn_status recompute_make(recompute_state *state, tn_tensor_id id, tn_tensor_id *made) {
    if (!recompute_find(state, id)) /* it was found before */
        TN_FAIL(state->it->error, TN_E_INTERNAL, "a tensor cannot be computed again after all");
    for (uint32_t i = 0; i < state->chain_count; i++)
        for (uint32_t k = i + 1; k < state->chain_count; k++)
            if (state->place[state->chain[k]] < state->place[state->chain[i]]) {
                tn_op_id swap = state->chain[i];
                state->chain[i] = state->chain[k];
                state->chain[k] = swap;
            }
    for (uint32_t i = 0; i < state->chain_count; i++)
        TN_TRY(recompute_copy(state, state->chain[i], made));
    state->copy[id] = made[id];
    for (uint32_t i = 0; i < state->chain_count; i++)
        made[tn_graph_op(state->it->graph, state->chain[i])->outputs[0]] = TN_NONE;
    return TN_OK;
}

/* --- the pass --- */

static tn_status recompute_room(recompute_state *state, tn_tensor_id **made) {
    tn__train *it = state->it;
    size_t forward = it->forward, ops = tn_graph_op_count(it->graph);
    state->count = tn_graph_block(it->graph, 0)->op_count;
    state->reader = tn__arena_array(&it->arena, forward, sizeof *state->reader);
    state->again = tn__arena_array(&it->arena, forward, sizeof *state->again);
    state->copy = tn__arena_array(&it->arena, forward, sizeof *state->copy);
    state->place = tn__arena_array(&it->arena, ops, sizeof *state->place);
    state->order = tn__arena_array(
        &it->arena, state->count + (size_t)RECOMPUTE_CHAIN * it->forward_ops, sizeof *state->order);
    *made = tn__arena_array(&it->arena, forward, sizeof **made);
    if (state->reader == NULL || state->again == NULL || state->copy == NULL ||
        state->place == NULL || state->order == NULL || *made == NULL)
        return tn__no_memory(it->error, "recomputation");
    for (size_t i = 0; i < forward; i++) {
        state->reader[i] = RECOMPUTE_NONE;
        state->copy[i] = (*made)[i] = TN_NONE;
    }
    return TN_OK;
}

static void recompute_mark(recompute_state *state) {
    const tn__train *it = state->it;
    const tn_block *block = tn_graph_block(it->graph, 0);
    for (uint32_t p = 0; p < state->count; p++) state->place[block->ops[p]] = p;
    for (uint32_t p = it->forward_ops; p < state->count; p++) {
        const tn_op *op = tn_graph_op(it->graph, block->ops[p]);
        for (uint32_t i = 0; i < op->input_count; i++) {
            tn_tensor_id id = op->inputs[i];
            if (id == TN_NONE || id >= it->forward || state->reader[id] != RECOMPUTE_NONE) continue;
            state->reader[id] = p;
        }
    }
    for (uint32_t p = 0; p < it->forward_ops; p++) {
        tn_tensor_id id = tn_graph_op(it->graph, block->ops[p])->outputs[0];
        if (id == TN_NONE || state->reader[id] == RECOMPUTE_NONE) continue;
        const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
        if (tensor->flags & TN_TENSOR_IS_OUTPUT || tn_tensor_is_static(tensor)) continue;
        state->again[id] = true; /* not to be found in its own chain */
        state->again[id] = recompute_find(state, id);
    }
}

/* The operator at a position of the backward pass: what it reads first is copied before it. */
static tn_status recompute_visit(recompute_state *state, tn_op_id id, uint32_t position,
                                 tn_tensor_id *made) {
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
            TN_TRY(recompute_make(state, input, made));
        inputs[i] = state->copy[input];
        any = true;
    }
    if (any) it->graph->ops[id].inputs = inputs;
    state->order[state->order_count++] = id;
    return TN_OK;
}

tn_status tn__train_recompute(tn__train *it) {
    recompute_state state = {.it = it};
    tn_tensor_id *made;
    TN_TRY(recompute_room(&state, &made));
    recompute_mark(&state);
    for (uint32_t p = 0; p < state.count; p++) {
        tn_op_id id = tn_graph_block(it->graph, 0)->ops[p];
        if (p < it->forward_ops)
            state.order[state.order_count++] = id;
        else
            TN_TRY(recompute_visit(&state, id, p, made));
    }
    memcpy(it->graph->blocks[0].ops, state.order, state.order_count * sizeof *state.order);
    return TN_OK;
}
