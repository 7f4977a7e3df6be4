/* pytorch_view.c - computes strides as PyTorch does for tensors.
 *
 * Transposing, slicing and most reshaping move no data in PyTorch: the result is another view of
 * the same bytes, which live as long as any of their views. A copy is made if the strides cannot
 * express a shape. This determines the memory of attention:
 *
 *     [b, t, 3 c] ──Split──▶ [b, t, c] ──Reshape──▶ [b, t, h, d] ──Transpose──▶ [b, h, t, d] views
 *                            ──▶ product of b x h matrices: b and h have no single stride: a copy
 *
 * A dimension of extent 1 may have any stride.
 * Cost: O(rank).
 */
#include "report/estimate/pytorch.h"

#include "graph/attr.h"

typedef struct view_runs { /* runs of contiguous dimensions, merged; innermost first */
    int64_t size[TN_RANK_MAX], stride[TN_RANK_MAX];
    uint32_t count;
} view_runs;

/* Strides of a tensor in `place`; false: its shape is unknown, or it is empty. */
static bool view_strides(const tn_tensor *tensor, const pytorch_place *place, int64_t *strides) {
    int64_t next = 1;
    if (tensor->rank == TN_RANK_UNKNOWN) return false;
    for (uint32_t d = tensor->rank; d-- > 0;) {
        if (tensor->shape[d] < 1) return false;
        strides[d] = place->strides != NULL ? place->strides[d] : next;
        next *= tensor->shape[d];
    }
    return true;
}

static void view_merge(const int64_t *shape, const int64_t *strides, uint32_t rank,
                       view_runs *runs) {
    runs->count = 0;
    for (uint32_t d = rank; d-- > 0;) {
        if (shape[d] == 1) continue;
        uint32_t last = runs->count - 1;
        if (runs->count > 0 && strides[d] == runs->stride[last] * runs->size[last]) {
            runs->size[last] *= shape[d];
        } else {
            runs->size[runs->count] = shape[d];
            runs->stride[runs->count++] = strides[d];
        }
    }
}

/* Stores them, or NULL if they are those of a contiguous tensor. */
static bool view_keep(tn__pytorch *it, const tn_tensor *tensor, const int64_t *strides,
                      pytorch_place *place) {
    view_runs runs;
    view_merge(tensor->shape, strides, tensor->rank, &runs);
    if (runs.count == 0 || (runs.count == 1 && runs.stride[0] == 1)) {
        place->strides = NULL;
        return true;
    }
    int64_t *kept = tn__arena_copy(&it->arena, strides, tensor->rank * sizeof *strides);
    if (kept == NULL) return false;
    place->strides = kept;
    return true;
}

bool tn__pytorch_regroup(tn__pytorch *it, const tn_tensor *x, const tn_tensor *y,
                         pytorch_place *place) {
    int64_t strides[TN_RANK_MAX], made[TN_RANK_MAX], used = 1;
    view_runs runs;
    uint32_t r = 0;
    if (place->strides == NULL) return true;
    if (y->rank == TN_RANK_UNKNOWN || !view_strides(x, place, strides)) return false;
    view_merge(x->shape, strides, x->rank, &runs);
    for (uint32_t d = y->rank; d-- > 0;) {
        made[d] = 1;
        if (y->shape[d] == 1) continue;
        if (r == runs.count || y->shape[d] < 1 || runs.size[r] / used % y->shape[d] != 0)
            return false;
        made[d] = runs.stride[r] * used;
        used *= y->shape[d];
        if (used == runs.size[r]) r++, used = 1;
    }
    return r == runs.count && view_keep(it, y, made, place);
}

/* NULL: absent, or of another length. */
static const int64_t *view_ints(const tn_op *op, const char *name, uint32_t count) {
    uint32_t found;
    const int64_t *ints = tn__attr_ints(op, name, &found);
    return ints != NULL && found == count ? ints : NULL;
}

bool tn__pytorch_permute(tn__pytorch *it, const tn_op *op, bool back, pytorch_place *place) {
    const tn_tensor *x = tn__pytorch_tensor(it, op->inputs[0]);
    const tn_tensor *y = tn__pytorch_tensor(it, op->outputs[0]);
    int64_t strides[TN_RANK_MAX], made[TN_RANK_MAX];
    if (!view_strides(back ? y : x, place, strides) || x->rank != y->rank) return false;
    const int64_t *perm = view_ints(op, "perm", x->rank);
    for (uint32_t d = 0; d < x->rank; d++) {
        int64_t from = perm != NULL ? perm[d] : (int64_t)(x->rank - 1 - d);
        if (from < 0 || from >= (int64_t)x->rank) return false;
        made[back ? from : d] = strides[back ? d : from];
    }
    return view_keep(it, back ? x : y, made, place);
}

bool tn__pytorch_select(tn__pytorch *it, const tn_op *op, const tn_tensor *x, const tn_tensor *y,
                        pytorch_place *place) {
    int64_t axis = tn__attr_int(op, "axis", 0), made[TN_RANK_MAX], strides[TN_RANK_MAX];
    uint32_t count = 0;
    if (y->rank == TN_RANK_UNKNOWN || !view_strides(x, place, strides)) return false;
    if (axis < 0) axis += x->rank;
    for (uint32_t d = 0; d < x->rank; d++)
        if ((int64_t)d != axis || y->rank == x->rank) made[count++] = strides[d];
    place->part = true;
    return count == y->rank && view_keep(it, y, made, place);
}

bool tn__pytorch_part(tn__pytorch *it, const tn_tensor *x, const tn_tensor *y,
                      pytorch_place *place) {
    int64_t strides[TN_RANK_MAX], made[TN_RANK_MAX];
    if (y->rank == TN_RANK_UNKNOWN || !view_strides(x, place, strides)) return false;
    for (uint32_t d = 0; d < y->rank; d++) { /* leading dimensions are added by Expand */
        uint32_t behind = y->rank - d;
        bool is_new = behind > x->rank;
        int64_t extent = is_new ? 1 : x->shape[x->rank - behind];
        bool repeated = extent == 1 && y->shape[d] != 1;
        if (y->shape[d] < 1) return false;
        made[d] = is_new || repeated ? 0 : strides[x->rank - behind];
    }
    place->part = true;
    return view_keep(it, y, made, place);
}

bool tn__pytorch_collapses(const tn_tensor *x, const pytorch_place *place, uint32_t count) {
    int64_t strides[TN_RANK_MAX];
    view_runs runs;
    if (place->strides == NULL || count < 2) return true;
    if (count > x->rank || !view_strides(x, place, strides)) return false;
    view_merge(x->shape, strides, count, &runs);
    return runs.count < 2;
}
