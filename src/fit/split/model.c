/* model.c - computes shared memory, live bytes and operations of each place of an unsplit graph.
 *
 * The same rules apply as in a plan, for views and for in-place outputs. The numbers only guide
 * the search; the report on a split graph uses its own layout.
 *
 * Cost: O(tensors + operands).
 */
#include "fit/split/model.h"

#include "graph/takes.h"

uint64_t tn__split_bytes(const tn_tensor *tensor) {
    if (tn_tensor_is_static(tensor) || tensor->bytes == TN_SIZE_UNKNOWN) return 0;
    return tensor->bytes;
}

static void model_live_from(split_model *model, tn_tensor_id id, uint32_t place) {
    const tn_tensor *tensor = tn_graph_tensor(model->order.graph, id);
    uint32_t last = model->order.last[id];
    model->lives[id] =
        (split_life){id, place, last == TN_NONE ? place : last, tn__split_bytes(tensor)};
}

/* Finds the input with which output 0 shares memory. */
static void model_alias(split_model *model, uint32_t place) {
    const tn_graph *graph = model->order.graph;
    tn_op_id id = model->order.ops[place];
    const tn_op *op = tn_graph_op(graph, id);
    tn_view view = tn_op_view(graph, id, 0);
    uint64_t mask = tn_op_inplace(graph, id, 0);
    model->alias[place] = TN_NONE;
    if (model->copies && strcmp(op->domain, "tflite") == 0) return;
    for (uint32_t i = 0; i < op->input_count && i < 64; i++) {
        tn_tensor_id input = op->inputs[i];
        if (input == TN_NONE || tn_tensor_is_static(tn_graph_tensor(graph, input))) continue;
        bool seen = input == view.source;
        const split_life *root = &model->lives[model->lives[input].root];
        bool over = (mask >> i & 1) && root->last == place && model->order.last[input] == place;
        if (!seen && !over) continue;
        model->alias[place] = i;
        model->is_view[place] = seen;
        return;
    }
}

static void model_define(split_model *model, uint32_t place) {
    const tn_op *op = tn_graph_op(model->order.graph, model->order.ops[place]);
    model_alias(model, place);
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id id = op->outputs[k];
        if (id == TN_NONE) continue;
        model_live_from(model, id, place);
        if (k > 0 || model->alias[place] == TN_NONE) continue;
        tn_tensor_id root = model->lives[op->inputs[model->alias[place]]].root;
        model->lives[id].root = root;
        if (model->lives[id].last > model->lives[root].last)
            model->lives[root].last = model->lives[id].last;
    }
}

static uint64_t model_scratch(const split_model *model, tn_op_id id) {
    return model->scratch != NULL ? model->scratch[id] : tn_op_workspace(model->order.graph, id);
}

/* Whether a tensor has memory of its own; from: the first place before which it exists. */
static bool model_is_root(const split_model *model, tn_tensor_id id, uint32_t *from) {
    const split_life *life = &model->lives[id];
    if (life->root != id || life->first == TN_NONE) return false;
    /* Graph inputs exist before all places. */
    bool is_input = tn_graph_tensor(model->order.graph, id)->producer == TN_NONE;
    *from = is_input ? 0 : life->first + 1;
    return true;
}

/* Roots by the place that makes them. */
static void model_fill_roots(void *self, tn__lists *roots) {
    const split_model *model = self;
    uint32_t tensors = tn_graph_tensor_count(model->order.graph), from;
    for (tn_tensor_id id = 0; id < tensors; id++)
        if (model_is_root(model, id, &from) && from > 0) tn__lists_add(roots, from - 1, id);
}

/* Adds and subtracts bytes at the ends of lives; sums beyond 64 bits wrap around. */
static tn_status model_sum(split_model *model, tn__arena *arena, tn_error *error) {
    uint32_t places = model->order.op_count, from;
    uint64_t *change = tn__arena_array(arena, (size_t)places + 2, sizeof *change), now = 0;
    uint64_t *behind = tn__arena_array(arena, (size_t)places + 2, sizeof *behind), later = 0;
    if (change == NULL || behind == NULL) return tn__no_memory(error, "a split graph");
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(model->order.graph); id++) {
        const split_life *life = &model->lives[id];
        if (!model_is_root(model, id, &from)) continue;
        change[life->first] += life->bytes;
        if (life->last < places) change[life->last + 1] -= life->bytes;
        if (from >= life->last) continue;
        behind[from] += life->bytes;
        behind[life->last] -= life->bytes;
    }
    for (uint32_t p = 0; p < places; p++) {
        now += change[p];
        later += behind[p];
        model->live[p] = tn__add_sat(now, model_scratch(model, model->order.ops[p]));
        model->behind[p] = later;
    }
    return TN_OK;
}

void tn__split_across(split_model *model, uint32_t first, uint32_t last) {
    uint64_t bytes = model->behind[last];
    model->across_last = last;
    model->across[last] = bytes;
    for (uint32_t p = last; p-- > first;) { /* tensors that place p makes do not exist before it */
        for (uint32_t i = model->roots.first[p]; i < model->roots.first[p + 1]; i++) {
            const split_life *life = &model->lives[model->roots.items[i]];
            if (life->last > last) bytes -= life->bytes;
        }
        model->across[p] = bytes;
    }
}

/* Operations, not times (tn__work_added). */
static void model_count(split_model *model) {
    for (uint32_t p = 0; p < model->order.op_count; p++) {
        tn_op_id id = model->order.ops[p];
        bool runs = tn__op_runs(model->order.graph, id);
        uint64_t flops = tn_op_cost(model->order.graph, id).flops;
        model->flops[p] = !runs || flops == TN_SIZE_UNKNOWN ? 0 : flops;
        model->work = tn__add_sat(model->work, model->flops[p]);
    }
}

tn_status tn__split_model(const tn_graph *graph, const tn_split_options *options, tn__arena *arena,
                          split_model *model, tn_error *error) {
    *model = (split_model){.scratch = options->workspaces,
                           .copies = options->copies,
                           .kept = options->kept,
                           .move_kept = options->move_kept};
    TN_TRY(tn__split_order(graph, arena, &model->order, error));
    size_t tensors = tn_graph_tensor_count(graph), places = (size_t)model->order.op_count + 1;
    model->lives = tn__arena_array(arena, tensors + 1, sizeof *model->lives);
    model->live = tn__arena_array(arena, places, sizeof *model->live);
    model->flops = tn__arena_array(arena, places, sizeof *model->flops);
    model->alias = tn__arena_array(arena, places, sizeof *model->alias);
    model->is_view = tn__arena_array(arena, places, sizeof *model->is_view);
    model->across = tn__arena_array(arena, places + 1, sizeof *model->across);
    model->behind = tn__arena_array(arena, places + 1, sizeof *model->behind);
    if (model->across == NULL || model->lives == NULL || model->live == NULL ||
        model->flops == NULL || model->alias == NULL || model->is_view == NULL ||
        model->behind == NULL)
        return tn__no_memory(error, "a split graph");
    for (tn_tensor_id id = 0; id < tensors; id++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        model->lives[id] = (split_life){.root = id, .first = TN_NONE};
        if (tensor->block == 0 && tensor->producer == TN_NONE) model_live_from(model, id, 0);
    }
    for (uint32_t p = 0; p < model->order.op_count; p++) model_define(model, p);
    model_count(model);
    if (!tn__lists_make(&model->roots, model->order.op_count, arena, model_fill_roots, model))
        return tn__no_memory(error, "a split graph");
    return model_sum(model, arena, error);
}
