/* transpose.c - operands of a product of matrices are read, and its result is written, transposed
 * where they lie: no copies. */
#include "engine/rewrite.h"

#include "engine/kernel.h"

static const int64_t *transpose_of(const tn__draft *draft, tn_op_id id, uint32_t *count) {
    const int64_t *perm = tn__op_ints(tn__draft_op_of(draft, id), "perm", count);
    const tn_tensor *x = tn__draft_tensor_of(draft, tn__draft_input(draft, id, 0));
    return perm != NULL && *count == x->rank && x->rank >= 2 ? perm : NULL;
}

static tn_status transpose_set(tn__draft *draft, tn_op_id product, const char *name,
                               const int64_t *perm, uint32_t count) {
    const tn_op *op = tn__draft_op_of(draft, product);
    tn_attr attr = {.name = name, .type = TN_ATTR_INTS, .count = count, .ints = perm};
    uint32_t total;
    const tn_attr *kept = tn__draft_attrs(draft, op, &attr, 1, &total);
    if (kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    return tn__draft_become(draft, product, op->domain, op->type, op->version, op->inputs,
                            op->input_count, kept, total);
}

static tn_status transpose_operand(tn__draft *draft, tn_op_id id, uint32_t index) {
    tn_op_id moved = tn__draft_only(draft, id, index, "Transpose");
    const char *name = index == 0 ? "perm_a" : "perm_b";
    uint32_t count;
    bool done;
    if (moved == TN_NONE || tn__op_attr(tn__draft_op_of(draft, id), name) != NULL ||
        tn__draft_is_static(draft, tn__draft_input(draft, id, index)))
        return TN_OK;
    const int64_t *perm = transpose_of(draft, moved, &count);
    if (perm == NULL) return TN_OK;
    TN_TRY(tn__draft_open(draft, id, &done));
    if (!done) return TN_OK;
    TN_TRY(transpose_set(draft, id, name, perm, count));
    tn__draft_set(draft, id, index, tn__draft_input(draft, moved, 0));
    tn__draft_remove(draft, moved);
    return TN_OK;
}

static bool transpose_is_product(const tn__draft *draft, tn_op_id id) {
    return id != TN_NONE && tn__draft_is_open(draft, id) &&
           (tn__draft_is(draft, id, "MatMul") || tn__draft_is(draft, id, "tenure.MatMul"));
}

static tn_status transpose_each(tn__draft *draft, tn_op_id id) {
    uint32_t count;
    bool done;
    if (transpose_is_product(draft, id)) {
        TN_TRY(transpose_operand(draft, id, 0));
        return transpose_operand(draft, id, 1);
    }
    if (!tn__draft_is(draft, id, "Transpose")) return TN_OK;
    tn_op_id product = tn__draft_only(draft, id, 0, NULL);
    const int64_t *perm = transpose_of(draft, id, &count);
    if (perm == NULL || !transpose_is_product(draft, product) ||
        tn__op_attr(tn__draft_op_of(draft, product), "perm_y") != NULL)
        return TN_OK;
    TN_TRY(tn__draft_open(draft, product, &done));
    if (!done) return TN_OK;
    TN_TRY(transpose_set(draft, product, "perm_y", perm, count));
    return tn__draft_take_over(draft, id, product);
}

const tn__rewrite tn__rewrite_transpose = {
    .name = "transpose",
    .summary = "products of matrices read and write transposed tensors where they lie",
    .each = transpose_each,
};
