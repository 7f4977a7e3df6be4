/* tenure.c - operators of domain "tenure", which no model file has. Rewrites make most of them
 * (tn_graph_rewrite).
 *
 * BiasGelu  x, row: Gelu of x + row, which is added along the last axis; BiasGeluGrad d y, x, row:
 * its gradient by x; approximate Conv     x, weights, bias, summand: a convolution; plus the
 * summand, of the result's shape; then the activations of attribute `post`, with `post_alpha` and
 * `post_beta` FakeQuantize  x, scale, zero point: x quantised to the element type `to` and
 * dequantised again, with `axis` and `block_size` of these operators. FakeQuantizeGrad x, scale,
 * zero point, d y: d y where x is within the range of that type, else 0 FlexScores  q, k: the
 * scores of an attention in parts (onnx_flex.c), `scale`, of the type in which the softmax is
 * computed (`softmax_precision`). FlexValues  probabilities, v: its result MaskedSoftmax  x, mask:
 * softmax of alpha x + mask, which broadcasts to x, along the last axis MatMul   a, b, bias,
 * summand: alpha (a transposed by perm_a) (b transposed by perm_b) + bias, transposed by perm_y;
 * plus the summand; then the activations MoE      x, router, then the operands of com.microsoft's
 * MoE or QMoE (expert_rows.h), the memory of the cache in which its experts lie, the router's guess
 * for the next mixture: the result of that operator. `row`, `next_row`: number of its first expert,
 * and of the first expert of the next mixture; `slots`: experts in the cache; `packed`: it is a
 * QMoE Opaque   for a problem without a model (tn_fit_problem_load): any operands, with the extents
 * that they are given; attributes `scratch`: bytes while it runs, `inplace`: 1 + number of the
 * input that the first output may be written over. OpaqueOnce: it may not run again QuantizeWeights
 * w -> q (int8), scales: channels along `axis` DequantizeWeights  q, scales -> w: in each run, so
 * it is never folded PackedGather   indices, w, scales, zero points: rows of the matrix w as in
 * PackedMatMul, of element type `to` PackedMatMul   x, w, scales, zero points, bias: x times the
 * matrix w of 2, 4 or 8 bits, which stands for numbers as in DequantizeLinear (`axis`,
 * `block_size`), plus bias; the matrix may be `transposed` Part     x -> its elements [starts,
 * ends) along `axes`; `copy`: never in the memory of x PruneWeights   w -> w with zeros except in
 * the `kept` elements of largest magnitude; of equal ones the first stay SparseWeights  w ->
 * values, places, starts (rules/sparse_weights.h): room for `kept` values, rows along `axis`; the
 * values of w decide which are stored SparseConv     x, values, places, starts, bias, summand: Conv
 * from these lists of a matrix of `rows` by `columns`; `kernel_shape` is there SparseMatMul   the
 * same for a product: x of [..., columns] gives [..., rows] Reorder  the same tensor in the other
 * format Swish    x * Sigmoid(x)
 *
 * The result may overwrite the summand, so that it accumulates into it.
 */
#include "graph/expert_rows.h"
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/rules/sparse_weights.h"
#include "graph/rules/window.h"
#include "graph/tiles/split.h"

/* --- Conv --- */

static tn_status tenure_shape_conv(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, 1);
    int64_t shape[TN_RANK_MAX];
    tn__window window;
    if (!tn__rank_known(x) || !tn__rank_known(w)) return tn__set_dtype(infer, 0, x->dtype);
    if (x->rank < 3 || w->rank != x->rank)
        return tn__infer_fail(infer, "input of rank %u, weights of rank %u", x->rank, w->rank);
    shape[0] = x->shape[0];
    shape[1] = w->shape[0];
    TN_TRY(tn__window_read(infer, x->rank - 2, w->shape + 2, &window));
    TN_TRY(tn__window_slide(infer, &window, x->shape + 2, shape + 2));
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

static uint64_t tenure_flops_conv(tn_infer *infer) {
    const tn_tensor *w = tn__input(infer, 1), *y = tn__output(infer, 0);
    uint64_t taps = tn__elements(w), positions = tn__elements(y);
    if (!tn__shape_known(y) || y->rank < 2 || y->shape[1] <= 0 || taps == TN_SIZE_UNKNOWN)
        return TN_SIZE_UNKNOWN;
    return tn__mul_sat(2 * (positions / (uint64_t)y->shape[1]), taps);
}

/* The operator may overwrite its summand, because each element is read right before its sum is
 * written. */
static uint64_t tenure_inplace_at(tn_infer *infer, uint32_t output, uint32_t at) {
    const tn_tensor *summand = tn__input(infer, at), *y = tn__output(infer, 0);
    if (output != 0 || summand == NULL || summand->rank != y->rank) return 0;
    /* an operand that is also an earlier input is read there in another order, so it must not be
     * overwritten */
    for (uint32_t i = 0; i < at; i++)
        if (infer->op->inputs[i] == infer->op->inputs[at]) return 0;
    for (uint32_t d = 0; d < y->rank; d++)
        if (summand->shape[d] != y->shape[d]) return 0;
    return UINT64_C(1) << at;
}
static uint64_t tenure_inplace_summand(tn_infer *infer, uint32_t output) {
    return tenure_inplace_at(infer, output, 3);
}
static uint64_t tenure_inplace_sparse(tn_infer *infer, uint32_t output) {
    return tenure_inplace_at(infer, output, 5);
}

/* --- Opaque --- */

static tn_status tenure_shape_opaque(tn_infer *infer) {
    (void)infer; /* no shape is computed: the output keeps the one that the caller gave it */
    return TN_OK;
}
static uint64_t tenure_flops_opaque(tn_infer *infer) {
    (void)infer;
    return TN_SIZE_UNKNOWN;
}
static uint64_t tenure_workspace_opaque(tn_infer *infer) {
    int64_t scratch = tn__attr_int(infer->op, "scratch", 0);
    return scratch > 0 ? (uint64_t)scratch : 0;
}

static uint64_t tenure_inplace_opaque(tn_infer *infer, uint32_t output) {
    int64_t input = tn__attr_int(infer->op, "inplace", 0) - 1;
    return output == 0 && input >= 0 && input < 64 ? UINT64_C(1) << input : 0;
}

/* --- MatMul --- */

/* Computes the extents of an operand after its transposition. */
static tn_status tenure_permuted(tn_infer *infer, const tn_tensor *tensor, const char *name,
                                 int64_t *shape) {
    uint32_t count;
    const int64_t *perm = tn__attr_ints(infer->op, name, &count);
    if (perm != NULL && count != tensor->rank)
        return tn__infer_fail(infer, "attribute %s has %u values for rank %u", name, count,
                              tensor->rank);
    for (uint32_t d = 0; d < tensor->rank; d++) {
        if (perm != NULL && (perm[d] < 0 || perm[d] >= (int64_t)tensor->rank))
            return tn__infer_fail(infer, "attribute %s holds %lld", name, (long long)perm[d]);
        shape[d] = tensor->shape[perm != NULL ? (uint32_t)perm[d] : d];
    }
    return TN_OK;
}

static tn_status tenure_shape_matmul(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0), *b = tn__input(infer, 1), *both[2];
    int64_t left[TN_RANK_MAX], right[TN_RANK_MAX], shape[TN_RANK_MAX], moved[TN_RANK_MAX];
    uint32_t rank;
    bool known;
    if (!tn__rank_known(a) || !tn__rank_known(b)) return tn__set_dtype(infer, 0, a->dtype);
    if (a->rank < 2 || b->rank < 2) return tn__infer_fail(infer, "operands need two dimensions");
    TN_TRY(tenure_permuted(infer, a, "perm_a", left));
    TN_TRY(tenure_permuted(infer, b, "perm_b", right));
    if (left[a->rank - 1] != right[b->rank - 2])
        return tn__infer_fail(infer, "%lld columns against %lld rows", (long long)left[a->rank - 1],
                              (long long)right[b->rank - 2]);
    /* `batch_a`, `batch_b`: shapes of a and b without the last two dimensions */
    tn_tensor batch_a = *a, batch_b = *b;
    batch_a.rank -= 2, batch_a.shape = left;
    batch_b.rank -= 2, batch_b.shape = right;
    both[0] = &batch_a, both[1] = &batch_b;
    TN_TRY(tn__broadcast(infer, both, 2, shape, &rank, &known));
    shape[rank] = left[a->rank - 2];
    shape[rank + 1] = right[b->rank - 1];
    tn_tensor product = *a;
    product.rank = rank + 2, product.shape = shape;
    TN_TRY(tenure_permuted(infer, &product, "perm_y", moved));
    return tn__set_output(infer, 0, a->dtype, rank + 2, moved);
}

static uint64_t tenure_flops_matmul(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0);
    uint32_t count;
    const int64_t *perm = tn__attr_ints(infer->op, "perm_a", &count);
    if (!tn__shape_known(a) || a->rank < 2 || (perm != NULL && count != a->rank))
        return TN_SIZE_UNKNOWN;
    int64_t at = perm != NULL ? perm[count - 1] : (int64_t)a->rank - 1;
    if (at < 0 || at >= (int64_t)a->rank) return TN_SIZE_UNKNOWN;
    return tn__count_mul(tn__elements(tn__output(infer, 0)),
                         tn__mul_sat(2, (uint64_t)a->shape[at]));
}

/* --- PackedMatMul --- */

static tn_status tenure_shape_packed(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, 1);
    uint32_t inner = tn__attr_int(infer->op, "transposed", 0) != 0 ? 1 : 0;
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(x) || !tn__rank_known(w)) return tn__set_dtype(infer, 0, x->dtype);
    if (x->rank < 2 || w->rank != 2 ||
        (x->shape[x->rank - 1] != w->shape[inner] && x->shape[x->rank - 1] != TN_DIM_UNKNOWN &&
         w->shape[inner] != TN_DIM_UNKNOWN))
        return tn__infer_fail(infer, "operands of ranks %u and %u that do not fit", x->rank,
                              w->rank);
    memcpy(shape, x->shape, x->rank * sizeof *shape);
    shape[x->rank - 1] = w->shape[1 - inner];
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

static uint64_t tenure_flops_packed(tn_infer *infer) {
    const tn_tensor *w = tn__input(infer, 1);
    int64_t inner = TN_DIM_UNKNOWN;
    if (tn__shape_known(w) && w->rank == 2)
        inner = w->shape[tn__attr_int(infer->op, "transposed", 0) != 0 ? 1 : 0];
    return inner < 0
               ? TN_SIZE_UNKNOWN
               : tn__count_mul(tn__elements(tn__output(infer, 0)), tn__mul_sat(2, (uint64_t)inner));
}

/* --- PackedGather --- */

static tn_status tenure_shape_packed_gather(tn_infer *infer) {
    const tn_tensor *indices = tn__input(infer, 0), *w = tn__input(infer, 1);
    tn_dtype to;
    int64_t shape[TN_RANK_MAX];
    TN_TRY(tn__attr_dtype(infer, "to", TN_FLOAT32, &to));
    if (!tn__rank_known(indices) || !tn__rank_known(w)) return tn__set_dtype(infer, 0, to);
    if (w->rank != 2 || indices->rank >= TN_RANK_MAX)
        return tn__infer_fail(infer, "operands of ranks %u and %u that do not fit", indices->rank,
                              w->rank);
    memcpy(shape, indices->shape, indices->rank * sizeof *shape);
    shape[indices->rank] = w->shape[1];
    return tn__set_output(infer, 0, to, indices->rank + 1, shape);
}

/* --- Part --- */

/* Computes starts and extents of the Part along all axes of x. */
static tn_status tenure_part(tn_infer *infer, int64_t *start, int64_t *extent) {
    const tn_tensor *x = tn__input(infer, 0);
    uint32_t count, others, more;
    const int64_t *axes = tn__attr_ints(infer->op, "axes", &count);
    const int64_t *starts = tn__attr_ints(infer->op, "starts", &others);
    const int64_t *ends = tn__attr_ints(infer->op, "ends", &more);
    if (count != others || count != more)
        return tn__infer_fail(infer, "axes, starts and ends differ in length");
    for (uint32_t d = 0; d < x->rank; d++) {
        start[d] = 0;
        extent[d] = x->shape[d];
    }
    for (uint32_t i = 0; i < count; i++) {
        if (axes[i] < 0 || axes[i] >= (int64_t)x->rank || starts[i] < 0 || starts[i] > ends[i] ||
            ends[i] > x->shape[axes[i]])
            return tn__infer_fail(infer, "elements %lld to %lld of axis %lld are not there",
                                  (long long)starts[i], (long long)ends[i], (long long)axes[i]);
        start[axes[i]] = starts[i];
        extent[axes[i]] = ends[i] - starts[i];
    }
    return TN_OK;
}

static tn_status tenure_shape_part(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t start[TN_RANK_MAX], extent[TN_RANK_MAX];
    if (!tn__shape_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    TN_TRY(tenure_part(infer, start, extent));
    return tn__set_output(infer, 0, x->dtype, x->rank, extent);
}

/* A Part is a view if, in the order of memory, all axes before the cut one have extent 1 in the
 * part, and it covers all later ones completely. */
static tn_view tenure_view_part(tn_infer *infer, uint32_t output) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t start[TN_RANK_MAX], extent[TN_RANK_MAX];
    uint64_t stride = tn_dtype_bits(x->dtype) / 8, offset = 0;
    bool whole = true;
    if (output != 0 || tn__attr_int(infer->op, "copy", 0) != 0 || !tn__shape_known(x) ||
        tn_dtype_bits(x->dtype) % 8 != 0 || tenure_part(infer, start, extent) != TN_OK)
        return tn__no_view;
    for (uint32_t i = x->rank; i-- > 0;) {
        uint32_t d = tn__memory_axis(x, i);
        if (extent[d] != 1 && !whole) return tn__no_view;
        offset = tn__add_sat(offset, tn__mul_sat((uint64_t)start[d], stride));
        stride = tn__mul_sat(stride, (uint64_t)x->shape[d]);
        whole = whole && extent[d] == x->shape[d];
    }
    return tn__view_input(infer, 0, offset);
}

/* --- weights that are stored in 8 bits --- */

static tn_status tenure_shape_quantize(tn_infer *infer) {
    const tn_tensor *w = tn__input(infer, 0);
    int64_t axis = tn__attr_int(infer->op, "axis", 0);
    if (!tn__rank_known(w)) return tn__set_dtype(infer, 0, TN_INT8);
    if (axis < 0 || axis >= (int64_t)w->rank)
        return tn__infer_fail(infer, "axis %lld is outside rank %u", (long long)axis, w->rank);
    TN_TRY(tn__set_output(infer, 0, TN_INT8, w->rank, w->shape));
    return tn__set_output(infer, 1, TN_FLOAT32, 1, &w->shape[axis]);
}

static tn_status tenure_shape_dequantize(tn_infer *infer) {
    const tn_tensor *q = tn__input(infer, 0);
    if (!tn__rank_known(q)) return tn__set_dtype(infer, 0, TN_FLOAT32);
    return tn__set_output(infer, 0, TN_FLOAT32, q->rank, q->shape);
}

/* --- sparse weights, that is, weights most of which are zero --- */

static tn_status tenure_sparse_form(tn_infer *infer, tn__sparse *form) {
    int64_t rows = tn__attr_int(infer->op, "rows", 0);
    int64_t columns = tn__attr_int(infer->op, "columns", 0);
    int64_t kept = tn__attr_int(infer->op, "kept", 0), bits = tn__attr_int(infer->op, "bits", 0);
    if (rows < 1 || columns < 1 || kept < 0 || (bits != 1 && bits != 8 && bits != 16))
        return tn__infer_fail(infer, "no sparse matrix of %lld by %lld", (long long)rows,
                              (long long)columns);
    *form = (tn__sparse){(uint64_t)rows, (uint64_t)columns, (uint64_t)kept, (uint32_t)bits};
    uint64_t places = tn__sparse_places(form), starts = tn__sparse_starts(form);
    if (places > INT64_MAX || starts > INT64_MAX)
        return tn__infer_fail(infer, "a sparse matrix of more than 2^63 places");
    return TN_OK;
}

static tn_status tenure_shape_sparse(tn_infer *infer) {
    tn__sparse form;
    TN_TRY(tenure_sparse_form(infer, &form));
    int64_t values = (int64_t)form.kept, places = (int64_t)tn__sparse_places(&form);
    int64_t starts = (int64_t)tn__sparse_starts(&form);
    TN_TRY(tn__set_output(infer, 0, TN_FLOAT32, 1, &values));
    TN_TRY(tn__set_output(infer, 1, form.bits == 16 ? TN_UINT16 : TN_UINT8, 1, &places));
    return tn__set_output(infer, 2, TN_UINT32, 1, &starts);
}

static tn_status tenure_shape_sparse_conv(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    tn__window window;
    tn__sparse form;
    TN_TRY(tenure_sparse_form(infer, &form));
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    if (x->rank < 3) return tn__infer_fail(infer, "input of rank %u", x->rank);
    shape[0] = x->shape[0];
    shape[1] = (int64_t)form.rows;
    TN_TRY(tn__window_read(infer, x->rank - 2, NULL, &window));
    TN_TRY(tn__window_slide(infer, &window, x->shape + 2, shape + 2));
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

static tn_status tenure_shape_sparse_matmul(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    tn__sparse form;
    TN_TRY(tenure_sparse_form(infer, &form));
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    if (x->rank < 2 ||
        (x->shape[x->rank - 1] != (int64_t)form.columns && x->shape[x->rank - 1] != TN_DIM_UNKNOWN))
        return tn__infer_fail(infer, "an operand that does not have %llu columns",
                              (unsigned long long)form.columns);
    memcpy(shape, x->shape, x->rank * sizeof *shape);
    shape[x->rank - 1] = (int64_t)form.rows;
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

/* Operations of a sparse product: two per stored value and position of the result. */
static uint64_t tenure_flops_sparse(tn_infer *infer) {
    int64_t rows = tn__attr_int(infer->op, "rows", 0);
    uint64_t values = tn__elements(tn__input(infer, 1)), all = tn__elements(tn__output(infer, 0));
    if (rows < 1 || values == TN_SIZE_UNKNOWN || all == TN_SIZE_UNKNOWN) return TN_SIZE_UNKNOWN;
    return tn__mul_sat(2 * (all / (uint64_t)rows), values);
}

/* --- Reorder, Swish --- */

static tn_status tenure_shape_like(tn_infer *infer) {
    return tn__set_like(infer, 0, tn__input(infer, 0));
}

/* A Reorder of an image with one pixel or one channel is a view, because both formats have the same
 * bytes. */
static tn_view tenure_view_reorder(tn_infer *infer, uint32_t output) {
    const tn_tensor *x = tn__input(infer, 0);
    uint64_t pixels = 1;
    if (output != 0 || !tn__shape_known(x) || x->rank < 3) return tn__no_view;
    for (uint32_t d = 2; d < x->rank; d++) pixels = tn__mul_sat(pixels, (uint64_t)x->shape[d]);
    if (pixels != 1 && x->shape[1] != 1) return tn__no_view;
    tn_view view = tn__view_input(infer, 0, 0);
    view.must = true;
    return view;
}

/* --- FlexScores, FlexValues --- */

/* q [B, H, S, D], k [B, G, L, D] -> [B, H, S, L]; probabilities [B, H, S, L], v [B, G, L, E] ->
 * [B, H, S, E]; G divides H. */
static tn_status tenure_shape_flex(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0), *b = tn__input(infer, 1);
    bool scores = strcmp(infer->op->type, "FlexScores") == 0;
    if (!tn__rank_known(a) || !tn__rank_known(b)) return tn__set_dtype(infer, 0, TN_UNDEFINED);
    for (uint32_t i = 0; i < 2; i++) TN_TRY(tn__rank_between(infer, i, 4, 4));
    TN_TRY(tn__extents_agree(infer, 0, 0, 1, 0));
    TN_TRY(tn__extents_agree(infer, 0, 3, 1, scores ? 3 : 2));
    bool known = a->shape[1] != TN_DIM_UNKNOWN && b->shape[1] != TN_DIM_UNKNOWN;
    if (known && (b->shape[1] < 1 || a->shape[1] % b->shape[1] != 0))
        return tn__infer_fail(infer, "%lld query heads for %lld key heads", (long long)a->shape[1],
                              (long long)b->shape[1]);
    const int64_t shape[4] = {a->shape[0], a->shape[1], a->shape[2], b->shape[scores ? 2 : 3]};
    tn_dtype dtype = b->dtype;
    if (scores) {
        bool narrow = a->dtype == TN_FLOAT16 || a->dtype == TN_BFLOAT16;
        TN_TRY(tn__attr_dtype(infer, "softmax_precision", narrow ? TN_FLOAT32 : a->dtype, &dtype));
    }
    return tn__set_output(infer, 0, dtype, 4, shape);
}

static uint64_t tenure_flops_flex(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0);
    if (!tn__shape_known(a) || a->rank != 4) return TN_SIZE_UNKNOWN;
    return tn__count_mul(tn__elements(tn__output(infer, 0)),
                         tn__count_mul(2, (uint64_t)a->shape[3]));
}

static const tn_op_rule tenure_rules[] = {
    {.type = "BiasGelu",
     .inputs_min = 2,
     .inputs_max = 2,
     .outputs_max = 1,
     .split = tn__split_each,
     .shape = tenure_shape_like,
     .flops_per = 28,
     .inplace = 1},
    {.type = "BiasGeluGrad",
     .inputs_min = 3,
     .inputs_max = 3,
     .outputs_max = 1,
     .shape = tenure_shape_like,
     .flops_per = 30,
     .inplace = 3},
    {.type = "Conv",
     .flags = TN_RULE_CONV,
     .inputs_min = 2,
     .inputs_max = 4,
     .outputs_max = 1,
     .split = tn__split_conv,
     .part_form = TN__FORM_WINDOW,
     .shape = tenure_shape_conv,
     .flops = tenure_flops_conv,
     .inplace_of = tenure_inplace_summand},
    {.type = "DequantizeWeights",
     .flags = TN_RULE_UNFOLDED,
     .inputs_min = 2,
     .inputs_max = 2,
     .outputs_max = 1,
     .shape = tenure_shape_dequantize,
     .flops_per = 1},
    {.type = "FakeQuantize",
     .inputs_min = 2,
     .inputs_max = 3,
     .outputs_max = 1,
     .shape = tenure_shape_like,
     .flops_per = 5,
     .inplace = 1,
     .no_gradient = 2 | 4,
     .gradient = tn__gradient_fake_quantize},
    {.type = "FakeQuantizeGrad",
     .inputs_min = 2,
     .inputs_max = 4,
     .outputs_max = 1,
     .shape = tenure_shape_like,
     .flops_per = 5,
     .inplace = 1 | 8},
    {.type = "FlexScores",
     .inputs_min = 2,
     .inputs_max = 2,
     .outputs_max = 1,
     .shape = tenure_shape_flex,
     .flops = tenure_flops_flex,
     .flags = TN_RULE_MATMUL_LIKE},
    {.type = "FlexValues",
     .inputs_min = 2,
     .inputs_max = 2,
     .outputs_max = 1,
     .shape = tenure_shape_flex,
     .flops = tenure_flops_flex,
     .flags = TN_RULE_MATMUL_LIKE},
    {.type = "MaskedSoftmax",
     .inputs_min = 2,
     .inputs_max = 2,
     .outputs_max = 1,
     .split = tn__split_masked_softmax,
     .shape = tenure_shape_like,
     .flops_per = 14,
     .inplace = 1},
    {.type = "MatMul",
     .flags = TN_RULE_MATMUL,
     .inputs_min = 2,
     .inputs_max = 4,
     .outputs_max = 1,
     .split = tn__split_fused_matmul,
     .shape = tenure_shape_matmul,
     .flops = tenure_flops_matmul,
     .inplace_of = tenure_inplace_summand},
    {.type = "MoE",
     .flags = TN_RULE_MATMUL_LIKE,
     .inputs_min = 3,
     .inputs_max = TN__EXPERTS_INPUTS,
     .outputs_max = 1,
     .shape = tn__shape_first,
     .flops = tn__flops_experts},
    {.type = "Opaque",
     .flags = TN_RULE_UNFOLDED,
     .inputs_max = UINT32_MAX,
     .outputs_max = UINT32_MAX,
     .shape = tenure_shape_opaque,
     .flops = tenure_flops_opaque,
     .inplace_of = tenure_inplace_opaque,
     .workspace = tenure_workspace_opaque},
    {.type = "OpaqueOnce",
     .flags = TN_RULE_UNFOLDED | TN_RULE_RANDOM,
     .inputs_max = UINT32_MAX,
     .outputs_max = UINT32_MAX,
     .shape = tenure_shape_opaque,
     .flops = tenure_flops_opaque,
     .inplace_of = tenure_inplace_opaque,
     .workspace = tenure_workspace_opaque},
    {.type = "PackedGather",
     .inputs_min = 3,
     .inputs_max = 4,
     .outputs_max = 1,
     .shape = tenure_shape_packed_gather,
     .flops_per = 2},
    {.type = "PackedMatMul",
     .inputs_min = 3,
     .inputs_max = 5,
     .outputs_max = 1,
     .shape = tenure_shape_packed,
     .flops = tenure_flops_packed,
     .flags = TN_RULE_MATMUL_LIKE},
    {.type = "Part",
     .flags = TN_RULE_UNFOLDED | TN_RULE_IMAGES | TN_RULE_FORMAT_VIEW,
     .inputs_min = 1,
     .inputs_max = 1,
     .outputs_max = 1,
     .shape = tenure_shape_part,
     .view = tenure_view_part},
    {.type = "PruneWeights",
     .inputs_min = 1,
     .inputs_max = 1,
     .outputs_max = 1,
     .shape = tenure_shape_like,
     .flops_per = 2},
    {.type = "QuantizeWeights",
     .inputs_min = 1,
     .inputs_max = 1,
     .outputs_max = 2,
     .shape = tenure_shape_quantize,
     .flops_per = 2},
    {.type = "Reorder",
     .inputs_min = 1,
     .inputs_max = 1,
     .outputs_max = 1,
     .split = tn__split_first,
     .shape = tenure_shape_like,
     .view = tenure_view_reorder},
    {.type = "SparseConv",
     .inputs_min = 4,
     .inputs_max = 6,
     .outputs_max = 1,
     .shape = tenure_shape_sparse_conv,
     .flops = tenure_flops_sparse,
     .inplace_of = tenure_inplace_sparse,
     .flags = TN_RULE_CONV_LIKE},
    {.type = "SparseMatMul",
     .inputs_min = 4,
     .inputs_max = 6,
     .outputs_max = 1,
     .shape = tenure_shape_sparse_matmul,
     .flops = tenure_flops_sparse,
     .inplace_of = tenure_inplace_sparse,
     .flags = TN_RULE_MATMUL_LIKE},
    {.type = "SparseWeights",
     .inputs_min = 1,
     .inputs_max = 1,
     .outputs_max = 3,
     .shape = tenure_shape_sparse,
     .flops_per = 1},
    {.type = "Swish",
     .flags = TN_RULE_IMAGES,
     .inputs_min = 1,
     .inputs_max = 1,
     .outputs_max = 1,
     .split = tn__split_each,
     .shape = tenure_shape_like,
     .flops_per = 5,
     .inplace = 1},
};

TN_OP_FAMILY(tenure, "tenure");
