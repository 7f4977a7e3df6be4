/* transpose.c - lets a product of matrices read its operands, and write its result, transposed in
 * place: no copies.
 *
 * So attention needs no transposes, neither forward nor in its gradients, and weights that a file
 * stores as [out, in] are read unchanged. An operand is read in place only if all readers of the
 * transposed tensor can do so: otherwise that tensor exists anyway, and reading its source would
 * keep both. Static operands are not changed: they are transposed at set-up.
 */
#include "graph/rewrite/rewrite.h"

#include "graph/attr.h"

/* The permutation of a Transpose of a tensor with at least two dimensions; NULL if it has fewer
 * dimensions or no valid `perm`. */
static const int64_t *transpose_of(const tn__draft *draft, tn_op_id id, uint32_t *count) {
    const int64_t *perm = tn__attr_ints(tn__draft_op_of(draft, id), "perm", count);
    const tn_tensor *x = tn__draft_tensor_of(draft, tn__draft_input(draft, id, 0));
    if (perm == NULL || *count != x->rank || x->rank < 2 || x->rank > TN_RANK_MAX) return NULL;
    for (uint32_t d = 0; d < *count; d++)
        if (perm[d] < 0 || perm[d] >= (int64_t)*count) return NULL;
    return perm;
}

/* Sets attribute `name` of a product to `perm`. If the product already has that attribute, its
 * operand is transposed by `perm` first, and then as before. */
static tn_status transpose_set(tn__draft *draft, tn_op_id product, const char *name,
                               const int64_t *perm, uint32_t count) {
    const tn_op *op = tn__draft_op_of(draft, product);
    int64_t both[TN_RANK_MAX];
    uint32_t own_count, total;
    const int64_t *own = tn__attr_ints(op, name, &own_count);
    for (uint32_t d = 0; d < count; d++) both[d] = own != NULL ? perm[own[d]] : perm[d];
    tn_attr attr = {.name = name, .type = TN_ATTR_INTS, .count = count, .ints = both};
    const tn_attr *kept = tn__draft_attrs(draft, op, &attr, 1, &total);
    if (kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    return tn__draft_become(draft, product, op->domain, op->type, op->version, op->inputs,
                            op->input_count, kept, total);
}

static bool transpose_is_product(const tn__draft *draft, tn_op_id id) {
    return tn__draft_is_open(draft, id) && tn__draft_has(draft, id, TN_RULE_MATMUL);
}

/* Whether operand `index` of a product comes from a Transpose that the product could do itself. */
static bool transpose_could(const tn__draft *draft, tn_op_id id, uint32_t index) {
    uint32_t count;
    tn_op_id moved = tn__draft_producer(draft, id, index, "Transpose");
    return moved != TN_NONE && !tn__draft_is_static(draft, tn__draft_input(draft, id, index)) &&
           transpose_of(draft, moved, &count) != NULL;
}

static tn_status transpose_operand(tn__draft *draft, tn_op_id id, uint32_t index) {
    tn_op_id moved = tn__draft_producer(draft, id, index, "Transpose");
    uint32_t count;
    bool done;
    const int64_t *perm = transpose_of(draft, moved, &count);
    TN_TRY(tn__draft_open(draft, id, &done));
    if (!done) return TN_OK;
    TN_TRY(transpose_set(draft, id, index == 0 ? "perm_a" : "perm_b", perm, count));
    tn__draft_set(draft, id, index, tn__draft_input(draft, moved, 0));
    return TN_OK;
}

/* Fuses a Transpose that is the only reader of a product's result. */
static tn_status transpose_result(tn__draft *draft, tn_op_id id) {
    tn_op_id product = tn__draft_only(draft, id, 0, NULL);
    uint32_t count;
    bool done;
    const int64_t *perm = transpose_of(draft, id, &count);
    if (perm == NULL || !transpose_is_product(draft, product) ||
        tn__attr(tn__draft_op_of(draft, product), "perm_y") != NULL ||
        tn__draft_input(draft, product, 3) != TN_NONE)
        return TN_OK;
    TN_TRY(tn__draft_open(draft, product, &done));
    if (!done) return TN_OK;
    TN_TRY(transpose_set(draft, product, "perm_y", perm, count));
    return tn__draft_take_over(draft, id, product);
}

/* Counts in uses[t] how often products that could transpose tensor t themselves read it. */
static void transpose_count(const tn__draft *draft, uint32_t *uses) {
    memset(uses, 0, draft->tensor_count * sizeof *uses);
    for (tn_op_id id = 0; id < draft->op_count; id++) {
        if (draft->ops[id].gone || draft->ops[id].op.block != 0 || !transpose_is_product(draft, id))
            continue;
        for (uint32_t i = 0; i < 2; i++)
            if (transpose_could(draft, id, i)) uses[tn__draft_input(draft, id, i)]++;
    }
}

/* Two passes, because a Transpose may follow one that the first pass removed. */
static tn_status transpose_all(tn__draft *draft) {
    uint32_t *uses = tn__arena_array(&draft->arena, (size_t)draft->tensor_count + 1, sizeof *uses);
    if (uses == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    for (uint32_t turn = 0; turn < 2; turn++) {
        transpose_count(draft, uses);
        for (tn_op_id id = 0; id < draft->op_count; id++) {
            if (draft->ops[id].gone || draft->ops[id].op.block != 0) continue;
            if (tn__draft_is(draft, id, "Transpose")) TN_TRY(transpose_result(draft, id));
            if (!transpose_is_product(draft, id)) continue;
            for (uint32_t i = 0; i < 2; i++) {
                tn_tensor_id input = tn__draft_input(draft, id, i);
                if (!transpose_could(draft, id, i) || draft->tensors[input].fixed) continue;
                tn_op_id moved = draft->tensors[input].producer;
                if (uses[input] != draft->tensors[input].uses) continue;
                uses[input]--;
                TN_TRY(transpose_operand(draft, id, i));
                if (draft->tensors[input].uses == 0) tn__draft_remove(draft, moved);
            }
        }
    }
    return TN_OK;
}

const tn__rewrite tn__rewrite_transpose = {
    .name = "transpose",
    .summary = "matrix products read and write transposed tensors in place",
    .in_training = true,
    .all = transpose_all,
};
