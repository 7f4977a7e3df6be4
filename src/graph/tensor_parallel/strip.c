/* strip.c - sequence parallelism: also cuts the tensors between the tensor-parallel parts of a
 * model.
 *
 * Where ranks would sum their partial results, each takes only a part of the sum, along the first
 * axis with an extent above 1: samples, or the sequence of one sample. The cut is followed forward
 * through all operators that work on such parts separately (normalisations, dropout, residuals), up
 * to an operator that needs all of it: a tensor-parallel operator, or one that does not accept such
 * parts. There the parts are gathered. As many bytes are sent as before. But tensors in between are
 * computed, and kept for the backward pass, once for all ranks instead of on each.
 *
 *     whole   parts of heads     sum              whole    parts of the hidden layer      sum
 *     x ────▶ ▒▒▒ ──────────▶ RankSum ─▶ norm ─▶ RankCopy ─▶ ▒▒▒ ──────────────────▶ RankSum
 *             ▒▒▒ ──────▶ RankScatter ─▶ ▒norm ─▶ RankGather ─▶ ▒▒▒
 *
 * The cut is not followed backward: tensors computed before the first sum stay whole.
 * Source: Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models"
 * (2022), section 4.2.
 *
 * Cost: O(operators + operands).
 */
#include "graph/tensor_parallel/cut.h"

static bool strip_is_cut(const tn__cuts *it, tn_tensor_id id) {
    return id != TN_NONE && it->cuts[id].blocks > 0;
}
static bool strip_has(const tn__cuts *it, tn_tensor_id id) {
    return id != TN_NONE && it->strips[id].blocks > 0;
}

/* Whether a tensor can have this sequence-parallel cut: its parts are contiguous, and the number of
 * ranks divides its extent. */
static bool strip_takes(const tn__cuts *it, tn_tensor_id id, const tn__cut *cut) {
    const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
    if (tensor->block != 0 || it->pinned[id] || id == it->scores || id == it->shaped ||
        cut->blocks != 1 || !tn__shape_known(tensor) || tn_dtype_bits(tensor->dtype) % 8 != 0)
        return false;
    for (uint32_t d = 0; d < cut->axis; d++)
        if (tensor->shape[d] != 1) return false;
    return tensor->shape[cut->axis] > 0 && tn__cuts_divides(it, tensor, cut);
}

/* --- where a sequence-parallel cut begins --- */

/* Whether every operand that is added once to the sum can be added by each rank to its own part,
 * because the operand has no extent above 1 along the cut axis and is not cut itself. */
static bool strip_adds(const tn__cuts *it, const tn_op *op, const tn__cut *cut) {
    const tn_tensor *y = tn_graph_tensor(it->graph, op->outputs[0]);
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (!it->link.once[i] || op->inputs[i] == TN_NONE) continue;
        if (strip_has(it, op->inputs[i])) return false;
        const tn_tensor *x = tn_graph_tensor(it->graph, op->inputs[i]);
        if (x->rank > y->rank) return false;
        uint32_t behind = y->rank - cut->axis; /* number of axes from the cut axis on */
        if (x->rank >= behind && x->shape[x->rank - behind] != 1 && x->rank > 1) return false;
        if (x->rank == 1 && behind == 1) return false;
    }
    return true;
}

/* Begins a cut at the sum after a tensor-parallel operator. */
static void strip_begin(tn__cuts *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    tn_tensor_id y = op->outputs[0];
    tn__cut cut = {.blocks = 1};
    uint32_t i = 0;
    if (y == TN_NONE || strip_is_cut(it, y) || !it->depends[y]) return;
    while (i < op->input_count && !strip_is_cut(it, op->inputs[i])) i++;
    if (i == op->input_count || !tn__cuts_link(it, id, false, i, it->cuts[op->inputs[i]]) ||
        !it->link.sums)
        return;
    const tn_tensor *tensor = tn_graph_tensor(it->graph, y);
    while (cut.axis + 1 < tensor->rank && tensor->shape[cut.axis] == 1) cut.axis++;
    if (cut.axis + 1 < tensor->rank && strip_takes(it, y, &cut) && strip_adds(it, op, &cut))
        it->strips[y] = cut;
}

/* --- operators that each rank may run on its own part --- */

/* Whether a rank may run an operator on its own strip of the tensors. It may not if the operator
 * computes statistics over all samples, has control flow, or has side effects. Random numbers
 * depend on the positions of elements, which only Dropout knows in the whole tensor. */
static bool strip_may(const tn__cuts *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    bool draws = tn__op_has(it->graph, id, TN_RULE_RANDOM) && !tn__op_is(op, "Dropout");
    return !draws && tn__op_statistics(it->graph, id) == 0 &&
           !tn__op_has(it->graph, id, TN_RULE_CONTROL | TN_RULE_CHANGES | TN_RULE_ORDERED);
}

static bool strip_links(tn__cuts *it, tn_op_id id, uint32_t input) {
    const tn_op *op = tn_graph_op(it->graph, id);
    if (!tn__cuts_link(it, id, false, input, it->strips[op->inputs[input]]) || it->link.sums)
        return false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn_tensor_id x = op->inputs[i];
        const tn__cut *cut = &it->link.inputs[i];
        if (x == TN_NONE) continue;
        if (strip_has(it, x) && !tn__cut_same(&it->strips[x], cut)) return false;
        if (cut->blocks > 0 && !tn__cuts_divides(it, tn_graph_tensor(it->graph, x), cut))
            return false;
    }
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && !strip_takes(it, op->outputs[k], &it->link.outputs[k]))
            return false;
    return true;
}

static void strip_follow(tn__cuts *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    uint32_t i = 0;
    while (i < op->input_count && !strip_has(it, op->inputs[i])) i++;
    if (i == op->input_count || !strip_may(it, id) || tn__cuts_looks(it, id) ||
        !strip_links(it, id, i))
        return;
    it->stripped[id] = true;
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE) it->strips[op->outputs[k]] = it->link.outputs[k];
}

/* --- choosing all sequence-parallel cuts --- */

static bool strip_touches_cut(const tn__cuts *it, const tn_op *op) {
    bool cut = false;
    for (uint32_t i = 0; i < op->input_count; i++) cut = cut || strip_is_cut(it, op->inputs[i]);
    for (uint32_t k = 0; k < op->output_count; k++) cut = cut || strip_is_cut(it, op->outputs[k]);
    return cut;
}

/* Removes the sequence-parallel cut of a sum if no operator works on its parts, because they would
 * be gathered at once. Then sums the bytes of the tensors with such cuts. */
static void strip_end(tn__cuts *it) {
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(it->graph); id++) {
        const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
        bool read = tensor->producer != TN_NONE && it->stripped[tensor->producer];
        for (uint32_t r = it->reader_of[id]; r < it->reader_of[id + 1] && !read; r++)
            read = it->stripped[it->readers[r].op];
        if (!read) it->strips[id] = (tn__cut){0};
        if (it->strips[id].blocks > 0) it->between = tn__add_sat(it->between, tensor->bytes);
    }
}

tn_status tn__cuts_strip(tn__cuts *it) {
    size_t tensors = tn_graph_tensor_count(it->graph), ops = tn_graph_op_count(it->graph);
    it->strips = tn__arena_array(it->arena, tensors + 1, sizeof *it->strips);
    it->stripped = tn__arena_array(it->arena, ops + 1, sizeof *it->stripped);
    if (it->strips == NULL || it->stripped == NULL)
        return tn__no_memory(it->error, "parts of a model");
    if (!it->sequence) return TN_OK;
    const tn_block *block = tn_graph_block(it->graph, 0);
    for (uint32_t i = 0; i < block->op_count; i++) {
        tn_op_id id = block->ops[i];
        if (!it->runs[id]) continue;
        if (strip_touches_cut(it, tn_graph_op(it->graph, id)))
            strip_begin(it, id);
        else
            strip_follow(it, id);
    }
    strip_end(it);
    if (it->between > 0) return TN_OK;
    TN_FAIL(it->error, TN_E_INVALID,
            "nothing lies between the parts of the model that %u ranks could divide along samples "
            "or sequences (sequence_parallel)",
            it->ranks);
}
