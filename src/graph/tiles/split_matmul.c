/* split_matmul.c - splits products of matrices: by rows of the left operand, columns of the right
 * one, or matrices of a batch. The axis that is summed over is not an axis of the result: parts
 * along it add up. */
#include "graph/tiles/split.h"

/* An operand of rank `rank`, for a result with `batch` axes that count matrices: axis `axis` of
 * those. */
static bool product_batch(const tn_tensor *operand, uint32_t axis, uint32_t batch,
                          const uint32_t *place, const tn__part *part, tn__need *need) {
    uint32_t own = operand->rank - 2;
    if (axis + own < batch) return tn__need_all(need);
    uint32_t at = axis + own - batch;
    uint32_t real = place != NULL ? place[at] : at;
    if (operand->shape[real] == 1) return tn__need_all(need);
    return tn__need_same(need, real, part);
}

bool tn__split_matmul(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    const tn_tensor *a = tn__input(infer, 0), *b = tn__input(infer, 1), *y = tn__output(infer, 0);
    const tn_tensor *own = input == 0 ? a : b;
    if (a->rank < 2 || b->rank < 2 || y->rank < 2) return false;
    if (part->axis + 2 < y->rank)
        return product_batch(own, part->axis, y->rank - 2, NULL, part, need);
    uint32_t side = part->axis + 2 - y->rank; /* 0: rows, of a; 1: columns, of b */
    return side == input ? tn__need_same(need, own->rank - 2 + side, part) : tn__need_all(need);
}

bool tn__split_gemm(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    bool flips = tn__attr_int(infer->op, input == 0 ? "transA" : "transB", 0) != 0;
    if (input == 2) return tn__split_each(infer, part, input, need);
    if (input != part->axis) return tn__need_all(need);
    return tn__need_same(need, flips ? 1 - part->axis : part->axis, part);
}

bool tn__sums_matmul(tn_infer *infer, uint32_t input, uint32_t *axis) {
    const tn_tensor *a = tn__input(infer, 0), *b = tn__input(infer, 1);
    if (a->rank < 2 || b->rank < 2) return false;
    *axis = input == 0 ? a->rank - 1 : b->rank - 2;
    return true;
}

bool tn__sums_gemm(tn_infer *infer, uint32_t input, uint32_t *axis) {
    bool flips = tn__attr_int(infer->op, input == 0 ? "transA" : "transB", 0) != 0;
    if (input == 2) *axis = TN__SUM_ONCE;
    if (input < 2) *axis = (input == 0) != flips;
    return tn__input(infer, 2) == NULL || tn__attr_float(infer->op, "beta", 1) == 1;
}

/* Where dimension d of an operand, as the product takes it, lies in the tensor. */
static bool product_places(const tn_infer *infer, const char *name, uint32_t rank,
                           uint32_t *place) {
    uint32_t count;
    const int64_t *perm = tn__attr_ints(infer->op, name, &count);
    if (perm != NULL && count != rank) return false;
    for (uint32_t d = 0; d < rank; d++) place[d] = perm != NULL ? (uint32_t)perm[d] : d;
    return true;
}

bool tn__split_fused_matmul(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    const tn_tensor *y = tn__output(infer, 0), *own = tn__input(infer, input);
    uint32_t place[TN_RANK_MAX];
    if (input == 3) return tn__need_same(need, part->axis, part); /* the summand */
    if (!product_places(infer, "perm_y", y->rank, place)) return false;
    uint32_t axis = place[part->axis], side = axis + 2 - y->rank;
    if (input == 2) /* a row, or one number */
        return axis + 1 < y->rank || own->rank == 0 || own->shape[own->rank - 1] == 1
                   ? tn__need_all(need)
                   : tn__need_same(need, own->rank - 1, part);
    if (own->rank < 2 || !product_places(infer, input == 0 ? "perm_a" : "perm_b", own->rank, place))
        return false;
    if (axis + 2 < y->rank) return product_batch(own, axis, y->rank - 2, place, part, need);
    return side == input ? tn__need_same(need, place[own->rank - 2 + side], part)
                         : tn__need_all(need);
}
