/* loosen.c - finds which extents and values are exact although they follow from bounds.
 *
 * An extent that depends on data has an upper bound, for which memory is reserved, and a lower
 * bound, 0. A rule is monotone in extents, and in the values that it declares monotone. So it is
 * run with the upper bounds and, if an input is loose, once more with the lower bounds: results
 * that are equal do not depend on the data. So [n <= 100, 4] after Transpose, Slice and MatMul
 * keeps its exact extents, and the 4 that Shape and Gather read from it is exact and may decide an
 * If. A second run that fails, or gives an unknown result, proves nothing: then the lower bound is
 * 0.
 * Cost: zero if no input is loose.
 */
#include "graph/store.h"

tn__loose *tn__loose_of(tn_graph *graph, tn_tensor_id id) {
    tn__origin *origin = &graph->origins[id];
    if (!origin->loose) origin->loose = tn__arena_alloc(&graph->found, sizeof *origin->loose);
    return origin->loose;
}

tn_status tn__loosen(tn_graph *graph, tn_tensor_id id, const int64_t *low, tn_error *error) {
    tn_tensor *tensor = &graph->tensors[id];
    bool differs = false;
    tensor->flags &= ~(uint32_t)TN_TENSOR_BOUND;
    if (graph->origins[id].loose) graph->origins[id].loose->low = NULL;
    if (tensor->rank == TN_RANK_UNKNOWN) return TN_OK;
    for (uint32_t d = 0; d < tensor->rank; d++)
        differs |= tensor->shape[d] != TN_DIM_UNKNOWN && (low ? low[d] : 0) != tensor->shape[d];
    if (!differs) return TN_OK;
    tn__loose *loose = tn__loose_of(graph, id);
    int64_t *copy = tn__arena_array(&graph->found, tensor->rank, sizeof *copy);
    if (!loose || !copy) return tn__no_memory(error, "shape inference");
    for (uint32_t d = 0; d < tensor->rank; d++)
        copy[d] = tensor->shape[d] == TN_DIM_UNKNOWN ? TN_DIM_UNKNOWN : low ? low[d] : 0;
    loose->low = copy;
    tensor->flags |= TN_TENSOR_BOUND;
    return TN_OK;
}

static bool loosen_has_loose_input(const tn_infer *infer) {
    for (uint32_t i = 0; i < infer->op->input_count; i++)
        if (infer->op->inputs[i] != TN_NONE && tn__is_loose(infer->graph, infer->op->inputs[i]))
            return true;
    return false;
}

/* Makes copies of the inputs with their least extents, for the second run. */
static tn_tensor *loosen_inputs(tn_infer *infer) {
    tn_tensor *low = tn__scratch(infer, (size_t)infer->op->input_count + 1, sizeof *low);
    for (uint32_t i = 0; low && i < infer->op->input_count; i++) {
        tn_tensor_id id = infer->op->inputs[i];
        if (id == TN_NONE) continue;
        low[i] = infer->graph->tensors[id];
        if (tn__is_loose(infer->graph, id)) low[i].shape = infer->graph->origins[id].loose->low;
    }
    return low;
}

/* Runs a rule a second time, with the lower bounds. Errors of this run are ignored, and the results
 * of the first run are restored. `low[k]` becomes output k of the second run; its rank is unknown
 * if the rule does not know it. */
static tn_status loosen_run(tn_infer *infer, const tn_op_rule *rule, tn_tensor *low) {
    struct infer_state *state = infer->state;
    tn_graph *graph = infer->graph;
    const tn_op *op = infer->op;
    tn_error *error = infer->error;
    uint64_t *axes = state->axes;
    tn_tensor *high = tn__scratch(infer, op->output_count, sizeof *high);
    tn_tensor *inputs = loosen_inputs(infer);
    if (!high || !inputs) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == TN_NONE) continue;
        tn_tensor *tensor = &graph->tensors[op->outputs[i]];
        high[i] = *tensor;
        tensor->rank = TN_RANK_UNKNOWN;
        tensor->shape = NULL;
    }
    state->low = inputs;
    infer->error = NULL;
    tn_status status = rule->shape(infer);
    infer->error = error;
    state->low = NULL;
    state->axes = axes;
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == TN_NONE) continue;
        tn_tensor *tensor = &graph->tensors[op->outputs[i]];
        low[i] = *tensor;
        if (status != TN_OK) low[i].rank = TN_RANK_UNKNOWN;
        *tensor = high[i];
    }
    return status == TN_E_NO_MEMORY ? tn__infer_no_memory(infer) : TN_OK;
}

tn_status tn__loosen_outputs(tn_infer *infer, const tn_op_rule *rule) {
    struct infer_state *state = infer->state;
    const tn_op *op = infer->op;
    bool loose = state->saw_bound || loosen_has_loose_input(infer);
    tn_tensor *second = NULL;
    if (state->no_memory) return tn__infer_no_memory(infer);
    if (!rule || !rule->shape || (!loose && !state->axes)) return TN_OK;
    /* rules of control flow mark the bounded axes themselves */
    if (rule->flags & TN_RULE_CONTROL) loose = false;
    if (loose) {
        second = tn__scratch(infer, op->output_count, sizeof *second);
        if (!second) return tn__infer_no_memory(infer);
        TN_TRY(loosen_run(infer, rule, second));
    }
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i] == TN_NONE) continue;
        const tn_tensor *tensor = &infer->graph->tensors[op->outputs[i]];
        int64_t low[TN_RANK_MAX];
        if (tensor->rank == TN_RANK_UNKNOWN) continue;
        for (uint32_t d = 0; d < tensor->rank; d++) {
            bool marked = state->axes && (state->axes[i] >> d & 1);
            low[d] = marked ? 0 : tensor->shape[d];
            if (marked || !loose) continue;
            int64_t own = second[i].rank == tensor->rank ? second[i].shape[d] : TN_DIM_UNKNOWN;
            if (own == TN_DIM_UNKNOWN) own = 0;
            if (own < low[d]) low[d] = own;
        }
        TN_TRY(tn__loosen(infer->graph, op->outputs[i], low, infer->error));
    }
    return TN_OK;
}

/* Makes values known if their lower and upper bounds are equal. */
static void loosen_promote(tn_graph *graph, tn_tensor_id id) {
    tn__loose *loose = graph->origins[id].loose;
    if (!loose || !loose->most || !loose->least || loose->most->count != loose->least->count)
        return;
    const tn_value *most = loose->most;
    for (uint32_t i = 0; i < most->count; i++)
        if (most->ints ? most->ints[i] != loose->least->ints[i]
                       : most->floats[i] != loose->least->floats[i])
            return;
    graph->tensors[id].value = most;
    loose->most = loose->least = NULL;
}

tn_status tn__loosen_fold(tn_infer *infer, const tn_op_rule *rule) {
    struct infer_state *state = infer->state;
    const tn_op *op = infer->op;
    state->saw_bound = (rule->flags & TN_RULE_SHAPE_ONLY) && loosen_has_loose_input(infer);
    TN_TRY(rule->fold(infer));
    if (!state->saw_bound) return TN_OK;
    tn_error *error = infer->error;
    state->low = loosen_inputs(infer);
    if (!state->low) return tn__infer_no_memory(infer);
    infer->error = NULL;
    tn_status status = rule->fold(infer);
    infer->error = error;
    state->low = NULL;
    if (status == TN_E_NO_MEMORY) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < op->output_count; i++)
        if (op->outputs[i] != TN_NONE) loosen_promote(infer->graph, op->outputs[i]);
    return TN_OK;
}
