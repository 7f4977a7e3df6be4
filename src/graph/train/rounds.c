/* rounds.c - repeats the model once per micro-batch, so that a whole step is one graph.
 *
 * Ranks of a pipeline need this, because their passes work on several micro-batches in turn. All
 * copies share static tensors and tensors computed from them alone. All other tensors exist once
 * per round, those of the first round under the ids of the model. Gradients are computed round by
 * round, so a parameter that is read once sums its gradients in the same order as runs of one
 * micro-batch each. A parameter that several parts of the pipeline read gets a sum in each part,
 * and these are added at the end; otherwise a part would wait for another in every round.
 */
#include <stdio.h>

#include "graph/train/frame.h"

/* limit of operators in all copies; a larger graph takes too long to plan */
#define ROUNDS_MOST (1u << 17)

bool tn__train_is_whole(const tn__train *it) {
    return it->options.pipeline_parts > 0 && !it->evaluates;
}

uint32_t tn__train_runs(const tn__train *it) {
    return tn__train_is_whole(it) ? 1 : it->options.micro_batches;
}

tn_tensor_id tn__train_in_round(const tn__train *it, tn_tensor_id id, uint32_t round) {
    return round == 0 || id == TN_NONE ? id : it->copies[(size_t)round * it->once + id];
}

tn_tensor_id tn__train_in_first(const tn__train *it, tn_tensor_id id) {
    return it->first_of != NULL && id < it->tensors ? it->first_of[id] : id;
}

static tn_status rounds_check(const tn__train *it) {
    const tn_train_options *options = &it->options;
    bool low = options->dtype == TN_FLOAT16 || options->dtype == TN_BFLOAT16;
    if (options->pipeline_parts > TN_STAGE_PARTS_MAX)
        TN_FAIL(it->error, TN_E_INVALID, "a pipeline has at most %u parts, not %u",
                TN_STAGE_PARTS_MAX, options->pipeline_parts);
    if (options->dynamic_loss_scale)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "a loss scale that adapts looks at all gradients, of which a rank of a pipeline "
                "has some");
    if (low)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "a pipeline does not go with activations of 16 bits yet");
    for (tn_op_id id = 0; id < tn_graph_op_count(it->model); id++)
        if (tn_graph_op(it->model, id)->block != 0)
            return tn__op_where(it->model, id, it->error,
                                tn__fail(it->error, TN_E_UNSUPPORTED,
                                         "control flow that a run decides cannot be divided "
                                         "among the parts of a pipeline"));
    for (tn_tensor_id id = 0; id < it->tensors; id++)
        if (it->begins[id] != TN_NONE)
            TN_FAIL(it->error, TN_E_UNSUPPORTED,
                    "'%.80s' is a parameter that an operator of the model hands out; divide what "
                    "tn_train_model makes of it",
                    tn_graph_tensor(it->model, id)->name);
    return TN_OK;
}

/* --- tensors that all micro-batches share --- */

/* Whether the operator computes equal results in all micro-batches: micro-batches share its results
 * already, or all of its inputs, and it draws no random numbers. */
static bool rounds_repeats(const tn__train *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->model, id);
    bool any = false, all = true, folded = op->output_count > 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE) continue;
        any = true;
        all = all && it->shared[op->inputs[i]];
    }
    for (uint32_t k = 0; k < op->output_count; k++)
        folded = folded && (op->outputs[k] == TN_NONE || it->shared[op->outputs[k]]);
    return folded || (any && all && tn__train_may_repeat(it, id));
}

static tn_status rounds_share(tn__train *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    it->once = it->tensors;
    it->shared = tn__arena_array(&it->arena, it->once, sizeof *it->shared);
    if (it->shared == NULL) return tn__no_memory(it->error, "micro-batches");
    for (tn_tensor_id id = 0; id < it->once; id++)
        it->shared[id] = tn_tensor_is_static(tn_graph_tensor(it->model, id));
    for (uint32_t p = 0; p < block->op_count; p++) {
        if (!rounds_repeats(it, block->ops[p])) continue;
        const tn_op *op = tn_graph_op(it->model, block->ops[p]);
        for (uint32_t k = 0; k < op->output_count; k++)
            if (op->outputs[k] != TN_NONE) it->shared[op->outputs[k]] = true;
    }
    return TN_OK;
}

/* --- making the copies of the model --- */

typedef struct rounds_state {
    tn__train *it;
    tn_graph *to;
    uint32_t round;
    tn_op_id *origin;
    uint32_t made;
} rounds_state;

static tn_status rounds_tensor(rounds_state *state, tn_tensor_id id) {
    tn__train *it = state->it;
    tn_tensor_id *copy = &it->copies[(size_t)state->round * it->once + id];
    tn_tensor_spec spec = tn__graph_spec(it->model, id);
    char name[200];
    *copy = id;
    if (state->round > 0 && it->shared[id]) return TN_OK;
    if (state->round > 0 && spec.name != NULL && spec.name[0] != '\0') {
        snprintf(name, sizeof name, "%.180s#%u", spec.name, state->round);
        spec.name = name;
    }
    return tn_graph_add_tensor(state->to, &spec, copy, it->error);
}

static tn_status rounds_op(rounds_state *state, tn_op_id id) {
    tn__train *it = state->it;
    const tn_op *op = tn_graph_op(it->model, id);
    size_t operands = (size_t)op->input_count + op->output_count;
    tn_tensor_id *ids = tn__arena_array(&it->arena, operands, sizeof *ids);
    tn_attr *attrs = tn__arena_copy(&it->arena, op->attrs, op->attr_count * sizeof *attrs);
    if (ids == NULL || (attrs == NULL && op->attr_count > 0))
        return tn__no_memory(it->error, "micro-batches");
    tn_op made = *op;
    made.inputs = ids;
    made.outputs = ids + op->input_count;
    made.attrs = attrs;
    for (uint32_t i = 0; i < op->input_count; i++)
        ids[i] = tn__train_in_round(it, op->inputs[i], state->round);
    for (uint32_t k = 0; k < op->output_count; k++)
        ids[op->input_count + k] = tn__train_in_round(it, op->outputs[k], state->round);
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (attrs[i].type == TN_ATTR_TENSOR)
            attrs[i].tensor = tn__train_in_round(it, attrs[i].tensor, state->round);
    tn_op_spec spec = tn__graph_op_spec(&made);
    it->op_homes[state->made] = (tn_home){
        .part = it->part_of[id], .round = state->round, .way = TN_WAY_FORWARD, .of = TN_NONE};
    state->origin[state->made++] = it->origin != NULL ? it->origin[id] : id;
    return tn_graph_add_op(state->to, &spec, NULL, it->error);
}

static tn_status rounds_one(rounds_state *state) {
    const tn__train *it = state->it;
    const tn_block *block = tn_graph_block(it->model, 0);
    for (tn_tensor_id id = 0; id < it->once; id++) TN_TRY(rounds_tensor(state, id));
    for (uint32_t p = 0; p < block->op_count; p++) {
        bool shared = tn__train_is_shared(it, tn_graph_op(it->model, block->ops[p]));
        if (state->round == 0 || !shared) TN_TRY(rounds_op(state, block->ops[p]));
    }
    return TN_OK;
}

/* Lists the tensors of all micro-batches, one micro-batch after the other; shared tensors appear
 * once. */
static uint32_t rounds_list(const tn__train *it, const tn_tensor_id *once, uint32_t count,
                            tn_tensor_id *list) {
    uint32_t made = 0;
    for (uint32_t r = 0; r < it->rounds; r++)
        for (uint32_t i = 0; i < count; i++)
            if (r == 0 || !it->shared[once[i]]) list[made++] = tn__train_in_round(it, once[i], r);
    return made;
}

static tn_status rounds_io(const rounds_state *state) {
    tn__train *it = state->it;
    const tn_block *block = tn_graph_block(it->model, 0);
    size_t most = (size_t)it->rounds * ((size_t)block->input_count + block->output_count);
    tn_tensor_id *inputs = tn__arena_array(&it->arena, most, sizeof *inputs);
    if (inputs == NULL) return tn__no_memory(it->error, "micro-batches");
    uint32_t count = rounds_list(it, block->inputs, block->input_count, inputs);
    tn_tensor_id *outputs = inputs + count;
    uint32_t output_count = rounds_list(it, block->outputs, block->output_count, outputs);
    return tn_graph_set_block_io(state->to, 0, inputs, count, outputs, output_count, it->error);
}

static tn_status rounds_room(rounds_state *state) {
    tn__train *it = state->it;
    uint64_t ops = tn__mul_sat(it->rounds, tn_graph_op_count(it->model));
    uint64_t tensors = tn__mul_sat(it->rounds, it->once);
    if (tensors >= TN_NONE / 16 || ops > ROUNDS_MOST)
        TN_FAIL(it->error, TN_E_INVALID,
                "%u micro-batches of %u operators are more than %u operators in one graph",
                it->rounds, tn_graph_op_count(it->model), ROUNDS_MOST);
    it->copies = tn__arena_array(&it->arena, (size_t)tensors, sizeof *it->copies);
    it->op_homes = tn__arena_array(&it->arena, (size_t)ops, sizeof *it->op_homes);
    state->origin = tn__arena_array(&it->arena, (size_t)ops, sizeof *state->origin);
    bool all = it->copies != NULL && it->op_homes != NULL && state->origin != NULL;
    return all ? TN_OK : tn__no_memory(it->error, "micro-batches");
}

static tn_status rounds_make(rounds_state *state) {
    tn__train *it = state->it;
    for (; state->round < it->rounds; state->round++) TN_TRY(rounds_one(state));
    TN_TRY(rounds_io(state));
    return tn_graph_infer(state->to, it->error);
}

static tn_status rounds_first(tn__train *it) {
    it->first_of = tn__arena_array(&it->arena, it->tensors, sizeof *it->first_of);
    if (it->first_of == NULL) return tn__no_memory(it->error, "micro-batches");
    for (uint32_t r = it->rounds; r-- > 0;)
        for (tn_tensor_id id = 0; id < it->once; id++)
            it->first_of[tn__train_in_round(it, id, r)] = id;
    return TN_OK;
}

tn_status tn__train_rounds(tn__train *it) {
    rounds_state state = {.it = it};
    it->rounds = 1;
    if (!tn__train_is_whole(it)) return TN_OK;
    TN_TRY(rounds_check(it));
    TN_TRY(rounds_share(it));
    TN_TRY(tn__train_divide(it));
    it->rounds = it->options.micro_batches;
    TN_TRY(rounds_room(&state));
    TN_TRY(tn_graph_create(it->context, &it->repeated, it->error));
    state.to = it->repeated;
    TN_TRY(rounds_make(&state));
    it->model = it->repeated;
    it->tensors = tn_graph_tensor_count(it->model);
    it->origin = state.origin;
    TN_TRY(rounds_first(it));
    return tn__train_choose(it);
}

/* --- the number of the current micro-batch; gradients that micro-batches share --- */

tn_status tn__train_micro(tn__train *it, tn_tensor_id *micro) {
    int64_t number = it->home.round;
    *micro = it->made.micro;
    if (it->options.micro_batches == 1 || *micro != TN_NONE) return TN_OK;
    if (!tn__train_is_whole(it)) {
        TN_TRY(tn__train_scalar(it, "micro", TN_INT64, &it->made.micro));
        *micro = it->made.micro;
        return TN_OK;
    }
    return tn__graph_add_integer(it->graph, number, micro, it->error);
}

/* --- gradients --- */

/* The micro-batch of an operator's gradients. Operators that micro-batches share come after all of
 * them. */
static uint32_t rounds_owner(const tn__train *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && op->outputs[k] < it->once && it->shared[op->outputs[k]])
            return it->rounds;
    return tn__train_home_of(it, id).round;
}

tn_status tn__train_walk(tn__train *it, const tn_op_id *ops, uint32_t count, uint32_t *places) {
    if (!tn__train_is_whole(it)) {
        for (uint32_t p = 0; p < count; p++) places[p] = count - 1 - p;
        return TN_OK;
    }
    size_t parts = it->options.pipeline_parts;
    uint32_t *next = tn__arena_array(&it->arena, (size_t)it->rounds + 2, sizeof *next);
    it->partial = tn__arena_array(&it->arena, parts * it->once, sizeof *it->partial);
    if (it->partial == NULL || next == NULL) return tn__no_memory(it->error, "the backward pass");
    for (size_t i = 0; i < parts * it->once; i++) it->partial[i] = TN_NONE;
    for (uint32_t p = 0; p < count; p++) next[rounds_owner(it, ops[p]) + 1]++;
    for (uint32_t r = 0; r <= it->rounds; r++) next[r + 1] += next[r];
    for (uint32_t p = count; p-- > 0;) places[next[rounds_owner(it, ops[p])]++] = p;
    return TN_OK;
}

tn_status tn__train_add_gradient(tn__train *it, tn_gradient *ask, tn_tensor_id to,
                                 tn_tensor_id found) {
    bool shared = it->partial != NULL && to < it->once && it->shared[to];
    tn_tensor_id *sum = &it->gradient[to];
    if (shared) sum = &it->partial[(size_t)it->home.part * it->once + to];
    return tn__gradient_sum(ask, *sum, found, sum);
}

tn_status tn__train_sum_parts(tn__train *it, tn_tensor_id id) {
    tn_gradient ask = {.graph = it->graph, .error = it->error, .op = {.name = "", .type = ""}};
    if (it->partial == NULL || id >= it->once || !it->shared[id]) return TN_OK;
    for (uint32_t part = 0; part < it->options.pipeline_parts; part++) {
        tn_tensor_id *partial = &it->partial[(size_t)part * it->once + id];
        TN_TRY(tn__gradient_sum(&ask, it->gradient[id], *partial, &it->gradient[id]));
        *partial = TN_NONE;
    }
    return TN_OK;
}
