/* make.c - makes the graph of one rank.
 *
 * Tensors keep their ids; cut ones have the extents of a part. make_part.c handles operators on
 * parts; other operators are copied. An operator that only reads extents keeps the values of the
 * whole model. Operators that the loss does not need are removed if they read cut tensors; their
 * tensors remain, with no bytes.
 */
#include <stdio.h>

#include "graph/cut/make.h"

/* --- the whole --- */

static bool make_touches(const tn__make *state, const tn_op *op) {
    bool cut = false;
    for (uint32_t i = 0; i < op->input_count; i++)
        cut = cut || tn__make_is_cut(state, op->inputs[i]);
    for (uint32_t k = 0; k < op->output_count; k++)
        cut = cut || tn__make_is_cut(state, op->outputs[k]);
    return cut;
}

/* Should the operator be removed? Yes if the loss does not need it and it reads parts or results of
 * removed operators; or if it read extents of a cut tensor. */
static bool make_leaves(tn__make *state, tn_op_id id) {
    const tn_op *op = tn_graph_op(state->it->graph, id);
    bool touches = make_touches(state, op), reads = false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        reads = reads || (op->inputs[i] != TN_NONE && state->gone[op->inputs[i]]);
        reads = reads || tn__make_is_strip(state, op->inputs[i]);
    }
    if (state->it->runs[id]) return touches && tn__cuts_looks(state->it, id);
    if (!touches && !reads) return false;
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE) state->gone[op->outputs[k]] = true;
    return true;
}

/* Cut tensors get the shape of their part, results of removed operators no bytes, and results of
 * operators that read extents become constants. */
static tn_status make_tensors(tn__make *state, const bool *leaves) {
    static const int64_t nothing[] = {0};
    tn__cuts *it = state->it;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(it->graph); id++) {
        const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
        tn_tensor_spec spec = tn__graph_spec(it->graph, id);
        tn_tensor_id made;
        int64_t shape[TN_RANK_MAX];
        if (state->gone[id]) {
            spec = (tn_tensor_spec){.name = tensor->name,
                                    .dtype = TN_UINT8,
                                    .kind = TN_KIND_CONSTANT,
                                    .rank = 1,
                                    .shape = nothing};
        } else if (tensor->producer != TN_NONE && leaves[tensor->producer]) {
            spec.kind = TN_KIND_CONSTANT;
            spec.dtype = tensor->dtype;
            spec.rank = tensor->rank;
            spec.shape = tensor->shape;
            spec.value = *tensor->value;
        } else if (tn__make_cut_of(state, id)->blocks > 0) {
            for (uint32_t d = 0; d < tensor->rank; d++)
                shape[d] = tn__make_extent(state, tensor, tn__make_cut_of(state, id), d);
            spec.rank = tensor->rank;
            spec.shape = shape;
            spec.value = (tn_value){0};
        }
        TN_TRY(tn_graph_add_tensor(state->graph, &spec, &made, state->error));
    }
    return TN_OK;
}

/* Cut scores replace the output that is made from them alone. */
static tn_status make_io(tn__make *state) {
    tn__cuts *it = state->it;
    for (tn_block_id b = 0; b < tn_graph_block_count(it->graph); b++) {
        const tn_block *block = tn_graph_block(it->graph, b);
        tn_tensor_id *outputs =
            tn__arena_array(it->arena, (size_t)block->output_count + 1, sizeof *outputs);
        if (outputs == NULL) return tn__no_memory(state->error, "outputs");
        for (uint32_t k = 0; k < block->output_count; k++) {
            outputs[k] = block->outputs[k];
            if (b == 0 && outputs[k] == it->shaped && tn__make_is_cut(state, it->scores))
                outputs[k] = it->scores;
        }
        TN_TRY(tn_graph_set_block_io(state->graph, b, block->inputs, block->input_count, outputs,
                                     block->output_count, state->error));
    }
    return TN_OK;
}

static tn_status make_ops(tn__make *state, const bool *leaves) {
    tn__cuts *it = state->it;
    for (tn_block_id b = tn_graph_block_count(it->graph); b-- > 0;) {
        const tn_block *block = tn_graph_block(it->graph, b);
        for (uint32_t i = 0; i < block->op_count; i++) {
            tn_op_id id = block->ops[i];
            if (leaves[id]) continue;
            if (it->stripped[id])
                TN_TRY(tn__make_strip(state, id));
            else
                TN_TRY(make_touches(state, tn_graph_op(it->graph, id)) ? tn__make_part(state, id)
                                                                       : tn__make_whole(state, id));
        }
    }
    return TN_OK;
}

/* Every tensor must have the extents that its cut requires. */
static tn_status make_check(const tn__make *state) {
    const tn__cuts *it = state->it;
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(it->graph); id++) {
        const tn_tensor *old = tn_graph_tensor(it->graph, id);
        const tn_tensor *now = tn_graph_tensor(state->graph, id);
        bool same = state->gone[id] || now->rank == old->rank;
        if (state->gone[id] || old->rank > TN_RANK_MAX) continue;
        for (uint32_t d = 0; d < old->rank && same; d++)
            same = now->shape[d] == tn__make_extent(state, old, tn__make_cut_of(state, id), d);
        if (!same)
            TN_FAIL(state->error, TN_E_INTERNAL, "a rank's '%.80s' has another shape than its part",
                    old->name);
    }
    return TN_OK;
}

static tn_status make_all(tn__make *state) {
    tn__cuts *it = state->it;
    uint32_t tensors = tn_graph_tensor_count(it->graph), ops = tn_graph_op_count(it->graph);
    tn_block_id made;
    bool *leaves = tn__arena_array(it->arena, (size_t)ops + 1, sizeof *leaves);
    state->copies = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *state->copies);
    for (int way = 0; way < 2; way++)
        state->wholes[way] =
            tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *state->wholes[way]);
    state->slices = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *state->slices);
    state->sliced = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *state->sliced);
    state->gone = tn__arena_array(it->arena, (size_t)tensors + 1, sizeof *state->gone);
    if (!leaves || !state->copies || !state->slices || !state->sliced || !state->gone ||
        !state->wholes[0] || !state->wholes[1])
        return tn__no_memory(state->error, "parts of a model");
    for (uint32_t t = 0; t < tensors; t++) {
        state->copies[t] = state->slices[t] = TN_NONE;
        state->wholes[0][t] = state->wholes[1][t] = TN_NONE;
    }
    const tn_block *block = tn_graph_block(it->graph, 0);
    for (uint32_t i = 0; i < block->op_count; i++)
        leaves[block->ops[i]] = make_leaves(state, block->ops[i]);
    for (tn_block_id b = 1; b < tn_graph_block_count(it->graph); b++)
        TN_TRY(tn_graph_add_block(state->graph, tn_graph_block(it->graph, b)->name, &made,
                                  state->error));
    TN_TRY(make_tensors(state, leaves));
    TN_TRY(make_io(state));
    TN_TRY(make_ops(state, leaves));
    TN_TRY(tn_graph_infer(state->graph, state->error));
    return make_check(state);
}

tn_status tn__cuts_make(tn__cuts *it) {
    tn__make state = {.it = it, .error = it->error};
    TN_TRY(tn_graph_create(it->context, &state.graph, it->error));
    tn_status status = make_all(&state);
    if (status == TN_OK) {
        uint32_t count = tn_graph_op_count(state.graph);
        it->origin = tn__arena_copy(it->arena, state.origin, count * sizeof *it->origin);
        if (it->origin == NULL) status = tn__no_memory(it->error, "parts of a model");
    }
    if (status == TN_OK)
        it->made = state.graph;
    else
        tn_graph_destroy(state.graph);
    tn__free(it->context, state.origin, state.origin_room * sizeof *state.origin);
    return status;
}

tn_status tn__cuts_graph(tn__cuts *it) {
    tn_status status = tn__cuts_classes(it);
    if (status == TN_OK) status = tn__cuts_choose(it);
    if (status == TN_OK) status = tn__cuts_strip(it);
    tn__free(it->context, it->found, it->found_room * sizeof *it->found);
    it->found = NULL;
    return status == TN_OK ? tn__cuts_make(it) : status;
}
