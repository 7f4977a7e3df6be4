/* sparse.c - stores pruned weights sparse, and lets operators run from that form.
 *
 *     w with zeros ── SparseWeights ─┬─ values ─┐
 *     (at set-up)                    ├─ places ─┼── SparseConv, SparseMatMul
 *                                    └─ starts ─┘
 *
 * A batch normalisation that was merged into the weights scales channels: zeros stay zeros. Weights
 * stay dense if the lists would not take fewer bytes, or if the operator has no sparse form.
 * Activations of a SparseConv lie in the order of their shapes.
 */
#include "graph/attr.h"
#include "graph/rewrite/rewrite.h"
#include "graph/rules/sparse_weights.h"

/* Finds the PruneWeights that made zeros in the operator's weights; TN_NONE if they are not
 * pruned. */
static tn_op_id sparse_pruned(const tn__draft *draft, tn_op_id id) {
    for (uint32_t index = 1;; index = 0) {
        tn_op_id made = tn__draft_only(draft, id, index, NULL);
        if (made == TN_NONE || tn__draft_is(draft, made, "tenure.PruneWeights")) return made;
        if (!tn__draft_is(draft, made, "Mul") ||
            !tn__draft_same_shape(draft, tn__draft_input(draft, made, 0),
                                  tn__draft_op_of(draft, made)->outputs[0]))
            return TN_NONE;
        id = made;
    }
}

/* Whether the operator has a sparse form, or can get one. */
static bool sparse_suits(const tn__draft *draft, tn_op_id id) {
    const tn_op *op = tn__draft_op_of(draft, id);
    if (tn__draft_is(draft, id, "tenure.Conv")) return true;
    tn_tensor_id w = tn__draft_input(draft, id, 1);
    return tn__draft_is(draft, id, "tenure.MatMul") && tn__draft_tensor_of(draft, w)->rank == 2 &&
           tn__attr(op, "perm_a") == NULL && tn__attr(op, "perm_y") == NULL;
}

static tn_attr sparse_number(const char *name, const int64_t *value) {
    return (tn_attr){.name = name, .type = TN_ATTR_INT, .count = 1, .ints = value};
}

/* Adds the operator that makes the three lists of sparse weights: values, places, starts. */
static tn_status sparse_lists(tn__draft *draft, tn_op_id id, tn_tensor_id w, const tn_attr *attrs,
                              uint32_t attr_count, const tn__sparse *form, tn_tensor_id *lists) {
    static const char *const names[] = {"values", "places", "starts"};
    const tn_dtype types[] = {TN_FLOAT32, form->bits == 16 ? TN_UINT16 : TN_UINT8, TN_UINT32};
    const int64_t counts[] = {(int64_t)form->kept, (int64_t)tn__sparse_places(form),
                              (int64_t)tn__sparse_starts(form)};
    const tn_attr *own = tn__draft_attrs(draft, &(tn_op){0}, attrs, attr_count, &attr_count);
    tn_op_id made;
    if (own == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    for (uint32_t i = 0; i < 3; i++) {
        const char *name = i == 0 ? tn__draft_tensor_of(draft, w)->name : names[i];
        TN_TRY(tn__draft_add_tensor(draft, name, types[i], 1, &counts[i], &lists[i]));
        draft->tensors[lists[i]].tensor.flags |= TN_TENSOR_FOLDED;
    }
    const tn_op op = {.type = "SparseWeights",
                      .domain = "tenure",
                      .version = 1,
                      .inputs = &w,
                      .outputs = lists,
                      .attrs = own,
                      .input_count = 1,
                      .output_count = 3,
                      .attr_count = attr_count};
    return tn__draft_add_op(draft, id, &op, &made);
}

static tn_status sparse_make(tn__draft *draft, tn_op_id id, uint32_t axis, const tn__sparse *form,
                             int64_t weight) {
    tn_tensor_id w = tn__draft_input(draft, id, 1);
    const tn_tensor like = *tn__draft_tensor_of(draft, w);
    bool conv = tn__draft_is(draft, id, "tenure.Conv");
    const int64_t numbers[] = {
        (int64_t)form->rows, (int64_t)form->columns, (int64_t)form->kept, form->bits, axis, weight};
    tn_attr attrs[] = {sparse_number("rows", &numbers[0]), sparse_number("columns", &numbers[1]),
                       sparse_number("kept", &numbers[2]), sparse_number("bits", &numbers[3]),
                       sparse_number("axis", &numbers[4]), sparse_number("weight", &numbers[5])};
    tn_tensor_id inputs[6] = {tn__draft_input(draft, id, 0)};
    uint32_t count, had = tn__draft_op_of(draft, id)->input_count;
    TN_TRY(sparse_lists(draft, id, w, attrs, 6, form, inputs + 1));
    for (uint32_t i = 2; i < 4; i++)
        inputs[i + 2] = i < had ? tn__draft_input(draft, id, i) : TN_NONE;
    attrs[4] = (tn_attr){.name = "kernel_shape",
                         .type = TN_ATTR_INTS,
                         .count = like.rank - 2,
                         .ints = like.shape + 2};
    const tn_attr *kept =
        tn__draft_attrs(draft, tn__draft_op_of(draft, id), attrs, conv ? 5 : 4, &count);
    if (kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    return tn__draft_become(draft, id, "tenure", conv ? "SparseConv" : "SparseMatMul", 1, inputs,
                            had + 2, kept, count);
}

static tn_status sparse_each(tn__draft *draft, tn_op_id id) {
    const tn_op *op = tn__draft_op_of(draft, id);
    uint32_t axis;
    bool done;
    if (!tn__draft_has(draft, id, TN_RULE_CONV | TN_RULE_MATMUL) || op->input_count < 2 ||
        !tn__draft_weights_axis(draft, id, &axis))
        return TN_OK;
    tn_op_id pruned = sparse_pruned(draft, id);
    if (pruned == TN_NONE) return TN_OK;
    TN_TRY(tn__draft_open(draft, id, &done));
    if (!done || !sparse_suits(draft, id) || !tn__draft_weights_axis(draft, id, &axis))
        return TN_OK;
    const tn_tensor *w = tn__draft_tensor_of(draft, tn__draft_input(draft, id, 1));
    const tn_op *from = tn__draft_op_of(draft, pruned);
    tn__sparse form = {.rows = (uint64_t)w->shape[axis],
                       .kept = (uint64_t)tn__attr_int(from, "kept", 0)};
    form.columns = 1;
    for (uint32_t d = 0; d < w->rank; d++)
        if (d != axis) form.columns = tn__mul_sat(form.columns, (uint64_t)w->shape[d]);
    if (!tn__sparse_choose(&form)) return TN_OK;
    return sparse_make(draft, id, axis, &form, tn__attr_int(from, "weight", 0));
}

const tn__rewrite tn__rewrite_sparse = {
    .name = "sparse",
    .summary = "stores pruned weights as lists of non-zero values, and computes from them",
    .pruning = true,
    .each = sparse_each,
};
