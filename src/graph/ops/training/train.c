/* train.c - operators for training that ONNX lacks: losses, normalisation by the statistics of the
 * batch, gradients, optimizers. d x stands for the gradient of x.
 *
 *   CrossEntropy(scores, labels) -> loss, correct            axis
 *   CrossEntropyGrad(scores, labels, d loss) -> d scores     axis
 *   MeanSquared(x, labels) -> loss; MeanSquaredGrad(x, labels, d loss) -> d x
 *   BatchNormTrain(x, scale, bias, mean, variance) -> y, mean, variance, those of the batch
 *                                                            epsilon, momentum; relu: applied to y
 *   BatchNormApply(x, scale, bias, batch mean, batch variance) -> y   epsilon; relu: of y
 *   BatchNormGrad(d y, x, scale, batch mean, batch variance) -> d x, d scale, d bias    epsilon
 *   DropoutTrain(x, step, micro, row, sum) -> y, bits        ratio, seed, stream; places: x is a
 *       part: length of runs, their distance, first element; row: added to x before, along
 *       the last axis; sum: added after, of x's shape
 *   DropoutBits(d y, bits) -> d x                            ratio
 *   ReluGrad(d y, y) -> d x
 *   ConvGradWeights(d y, x) -> d weights                     shape, and those of Conv
 *   MaxPoolGrad(d y, x) -> d x; AveragePoolGrad(d y) -> d x  shape, and those of the pool
 *   MaxPoolTrain(x) -> y, map: index of each window's maximum  those of the pool; relu: x is the
 *                                                            result of a Relu
 *   MaxPoolMapGrad(d y, map) -> d x                          shape, and those of the pool
 *   LinearAttentionGrad(q, k, v, past, decay, beta, d y, d state) -> d q, d k, d v, d past,
 *       d decay, d beta                                      those of LinearAttention
 *   LstmGrad, GruGrad, RnnGrad(x, w, r, b, h, c, d y, d y_h, d y_c) -> d x, d w, d r, d b, d h, d c
 *                                                            reversed, rectified
 *   TransposedMatMul(a, b) -> y                              trans_a, trans_b: last two dimensions
 *   LossScale(state) -> d loss                               first, to, shape
 *   LossScaleStep(state, micro, gradients...) -> state, factor and skipped steps
 *                                                            first, interval, micro_batches
 *   Accumulate(sum, gradient, micro) -> sum
 *   SgdStep(p, g, lr, micro, factor) -> p;  MomentumStep(p, g, v, lr, micro, factor) -> p, v
 *   AdamStep(p, g, m, v, lr, step, micro, factor) -> p, m, v
 *                                                          from: the first element of p that is
 *                                                          updated, if g, m, v are of a part
 *
 * Updates write into their operands and return them: parameters and state are static memory.
 * Gradients that are computed element by element may overwrite the given gradient.
 */
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/rules/window.h"

/* --- losses --- */

tn_status tn__shape_loss(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    tn_dtype dtype = x->dtype == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32;
    TN_TRY(tn__set_output(infer, 1, TN_INT64, 0, NULL));
    return tn__set_output(infer, 0, dtype, 0, NULL);
}

static uint64_t train_flops_loss(tn_infer *infer) {
    return tn__mul_sat(12, tn__elements(tn__input(infer, 0)));
}

/* --- operators whose outputs have the shape of an operand --- */

static tn_status train_shape_first(tn_infer *infer) {
    return tn__set_like(infer, 0, tn__input(infer, 0));
}

/* Sets the shape of the mask of dropout, which has one bit per element. */
static tn_status train_shape_dropout(tn_infer *infer) {
    uint64_t elements = tn__elements(tn__input(infer, 0));
    int64_t bytes = (int64_t)(elements / 8 + (elements % 8 != 0));
    TN_TRY(train_shape_first(infer));
    if (elements == TN_SIZE_UNKNOWN) return tn__set_dtype(infer, 1, TN_UINT8);
    return tn__set_output(infer, 1, TN_UINT8, 1, &bytes);
}

static tn_status train_shape_second(tn_infer *infer) {
    return tn__set_like(infer, 0, tn__input(infer, 1));
}

static tn_status train_shape_batch_norm(tn_infer *infer) {
    static const uint32_t like[] = {0, 3, 4, 1, 1};
    for (uint32_t k = 0; k < tn__output_count(infer); k++)
        TN_TRY(tn__set_like(infer, k, tn__input(infer, like[k])));
    return TN_OK;
}

static tn_view train_view_batch_norm(tn_infer *infer, uint32_t output) {
    if (output != 1 && output != 2) return tn__no_view;
    tn_view view = tn__view_input(infer, output + 2, 0);
    view.must = true;
    return view;
}

static tn_status train_shape_batch_norm_grad(tn_infer *infer) {
    static const uint32_t like[] = {1, 2, 2};
    for (uint32_t k = 0; k < tn__output_count(infer); k++)
        TN_TRY(tn__set_like(infer, k, tn__input(infer, like[k])));
    return TN_OK;
}

/* --- operators whose attribute `shape` gives the shape of the output --- */

static tn_status train_shape_given(tn_infer *infer) {
    uint32_t count;
    const int64_t *shape = tn__attr_ints(infer->op, "shape", &count);
    if (shape == NULL || count > TN_RANK_MAX)
        return tn__infer_fail(infer, "attribute shape is missing");
    return tn__set_output(infer, 0, tn__input(infer, 0)->dtype, count, shape);
}

/* Operations of a convolution's gradient, as many as the convolution has: two per weight and
 * position of the convolution's output. */
static uint64_t train_flops_conv(tn_infer *infer) {
    const tn_tensor *dy = tn__input(infer, 0), *dw = tn__output(infer, 0);
    uint64_t taps = tn__elements(dw), positions = tn__elements(dy);
    if (!tn__shape_known(dy) || dy->rank < 2 || taps == TN_SIZE_UNKNOWN || dy->shape[1] <= 0 ||
        positions == TN_SIZE_UNKNOWN)
        return TN_SIZE_UNKNOWN;
    return tn__mul_sat(2 * (positions / (uint64_t)dy->shape[1]), taps);
}

static uint64_t train_taps(tn_infer *infer) {
    uint32_t count;
    const int64_t *kernel = tn__attr_ints(infer->op, "kernel_shape", &count);
    uint64_t taps = 1;
    for (uint32_t i = 0; i < count; i++)
        taps = tn__mul_sat(taps, kernel[i] > 0 ? (uint64_t)kernel[i] : 1);
    return taps;
}

/* Operations of a pool's gradient: one for each position of the pool's output (whose shape input 0
 * has) and element of the window. */
static uint64_t train_flops_pool(tn_infer *infer) {
    return tn__count_mul(tn__elements(tn__input(infer, 0)), train_taps(infer));
}

static uint64_t train_flops_max_pool(tn_infer *infer) {
    return tn__count_mul(tn__elements(tn__output(infer, 0)), train_taps(infer));
}

static tn_status train_shape_max_pool(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint64_t taps = train_taps(infer);
    if (tn__window_map_bits(taps) == 0)
        return tn__infer_fail(infer, "a window of more than 256 elements has no map");
    TN_TRY(tn__set_dtype(infer, 1, TN_UINT8));
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    TN_TRY(tn__window_pool(infer, x, shape));
    TN_TRY(tn__set_output(infer, 0, x->dtype, x->rank, shape));
    uint64_t outputs = tn__elements(tn__output(infer, 0));
    if (outputs == TN_SIZE_UNKNOWN) return TN_OK;
    int64_t bytes = (int64_t)tn__window_map_bytes(taps, outputs);
    return tn__set_output(infer, 1, TN_UINT8, 1, &bytes);
}

/* --- products --- */

static tn_status train_shape_matmul(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0), *b = tn__input(infer, 1);
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(a) || !tn__rank_known(b)) return tn__set_dtype(infer, 0, a->dtype);
    if (a->rank < 2 || b->rank < 2)
        return tn__infer_fail(infer, "operands of rank %u and %u", a->rank, b->rank);
    int64_t flip_a = tn__attr_int(infer->op, "trans_a", 0),
            flip_b = tn__attr_int(infer->op, "trans_b", 0);
    uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    for (uint32_t d = 0; d + 2 < rank; d++) {
        int64_t x = d + a->rank < rank ? 1 : a->shape[d + a->rank - rank];
        int64_t y = d + b->rank < rank ? 1 : b->shape[d + b->rank - rank];
        if (x != y && x != 1 && y != 1 && x != TN_DIM_UNKNOWN && y != TN_DIM_UNKNOWN)
            return tn__infer_fail(infer, "extents %lld and %lld at dimension %u", (long long)x,
                                  (long long)y, d);
        shape[d] = x == 1 ? y : x;
    }
    int64_t inner_a = a->shape[a->rank - (flip_a ? 2 : 1)];
    int64_t inner_b = b->shape[b->rank - (flip_b ? 1 : 2)];
    if (inner_a != inner_b && inner_a != TN_DIM_UNKNOWN && inner_b != TN_DIM_UNKNOWN)
        return tn__infer_fail(infer, "inner extents %lld and %lld", (long long)inner_a,
                              (long long)inner_b);
    shape[rank - 2] = a->shape[a->rank - (flip_a ? 1 : 2)];
    shape[rank - 1] = b->shape[b->rank - (flip_b ? 2 : 1)];
    return tn__set_output(infer, 0, a->dtype, rank, shape);
}

static uint64_t train_flops_matmul(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0);
    if (!tn__shape_known(a) || a->rank < 2) return TN_SIZE_UNKNOWN;
    int64_t inner = a->shape[a->rank - (tn__attr_int(infer->op, "trans_a", 0) ? 2 : 1)];
    return tn__count_mul(tn__elements(tn__output(infer, 0)), tn__mul_sat(2, (uint64_t)inner));
}

/* --- gradients of recurrent cells: output k is the gradient of operand k --- */

static tn_status train_shape_recurrent(tn_infer *infer) {
    for (uint32_t k = 0; k < tn__output_count(infer); k++)
        if (tn__output(infer, k) != NULL) TN_TRY(tn__set_like(infer, k, tn__input(infer, k)));
    return TN_OK;
}

/* Operations of a recurrent cell's gradient: the cell is computed again, and then twice as much for
 * the gradients of inputs and weights. */
static uint64_t train_flops_recurrent(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    uint64_t w = tn__elements(tn__input(infer, 1)), r = tn__elements(tn__input(infer, 2));
    if (!tn__shape_known(x) || x->rank != 3 || w == TN_SIZE_UNKNOWN || r == TN_SIZE_UNKNOWN)
        return TN_SIZE_UNKNOWN;
    uint64_t turns = tn__mul_sat((uint64_t)x->shape[0], (uint64_t)x->shape[1]);
    return tn__mul_sat(tn__mul_sat(6, turns), tn__add_sat(w, r));
}

/* Operations of linear attention's gradient, per element of the state and token: about four to
 * repeat the forward pass, which happens twice, and ten to go back. */
static uint64_t train_flops_linear(tn_infer *infer) {
    const tn_tensor *k = tn__input(infer, 1);
    int64_t groups = tn__attr_int(infer->op, "kv_num_heads", 0);
    uint64_t values = tn__elements(tn__input(infer, 2));
    if (!tn__shape_known(k) || k->rank != 3 || groups < 1 || values == TN_SIZE_UNKNOWN)
        return TN_SIZE_UNKNOWN;
    return tn__count_mul(values, tn__mul_sat(18, (uint64_t)(k->shape[2] / groups)));
}

/* --- optimizers: output k is the k-th of the operands that they update --- */

static tn_view train_view_step(tn_infer *infer, uint32_t output) {
    if (output >= tn__output_count(infer)) return tn__no_view;
    tn_view view = tn__view_input(infer, output == 0 ? 0 : output + 1, 0);
    view.must = true;
    return view;
}

static tn_status train_shape_step(tn_infer *infer) {
    for (uint32_t k = 0; k < tn__output_count(infer); k++)
        TN_TRY(tn__set_like(infer, k, tn__input(infer, k == 0 ? 0 : k + 1)));
    return TN_OK;
}

/* --- the scale of the loss --- */

static tn_status train_shape_scale(tn_infer *infer) {
    uint32_t count;
    const int64_t *shape = tn__attr_ints(infer->op, "shape", &count);
    if (count > TN_RANK_MAX) return tn__infer_fail(infer, "attribute shape is too long");
    return tn__set_output(infer, 0, (tn_dtype)tn__attr_int(infer->op, "to", TN_FLOAT32), count,
                          shape);
}

static tn_status train_shape_scale_step(tn_infer *infer) {
    static const int64_t two[] = {2};
    TN_TRY(tn__set_like(infer, 0, tn__input(infer, 0)));
    return tn__set_output(infer, 1, TN_FLOAT32, 1, two);
}

static uint64_t train_flops_scale_step(tn_infer *infer) {
    uint64_t sum = 0;
    for (uint32_t i = 2; i < tn__input_count(infer); i++)
        sum = tn__add_sat(sum, tn__elements(tn__input(infer, i)));
    return sum;
}

static tn_view train_view_scale_step(tn_infer *infer, uint32_t output) {
    if (output != 0) return tn__no_view;
    tn_view view = tn__view_input(infer, 0, 0);
    view.must = true;
    return view;
}

/* --- gradients that are operators of their own ------------------------------------------------ */

/* Gradients that are operators of their own, because ONNX's operators would keep or
 * move more.
 *
 *   AffineGridGrad(d grid) -> d theta                         shape, align_corners
 *   ClipGrad(d y, y, low, high) -> d x                        zero where y is a bound
 *   Col2ImGrad(d y, block) -> d x                            shape, and those of Col2Im
 *   CumProdGrad(d y, x, axis) -> d x                          exclusive, reverse
 *   GatherGrad(d y, indices) -> d x                           shape, axis; first, whole: it is rows
 *                                                             from `first` on, of `whole`
 *   GridSampleGrad(d y, x, grid) -> d x, d grid               those of GridSample
 *   LRNGrad(d y, x) -> d x                                    those of LRN
 *   LogSoftmaxGrad, SoftmaxGrad(d y, y) -> d x                axis; flat: all from it on is a row;
 *                                                             alpha: a factor of the gradient
 *   NormalizationGrad(d y, x, scale) -> d x, d scale, d bias  count, cycle, each, run: slices of
 *                                                             `count` elements, in slice s element
 *                                                             i has scale (s % cycle) * each +
 *                                                             i / run; epsilon; centered: the mean
 *                                                             was taken off
 *   PadGrad(d y) -> d x                                       shape, pads, mode
 *   ResizeGrad(d y, roi, scales, sizes) -> d x                shape, simple, and those of Resize
 *   SliceGrad(d y) -> d x                                     shape; starts, steps per dimension
 */

static tn_status train_parts_shape_like(tn_infer *infer) {
    return tn__set_like(infer, 0, tn__input(infer, 1));
}

static tn_status train_parts_shape_sample(tn_infer *infer) {
    for (uint32_t k = 0; k < tn__output_count(infer); k++)
        TN_TRY(tn__set_like(infer, k, tn__input(infer, 1 + k)));
    return TN_OK;
}

static tn_status train_parts_shape_given(tn_infer *infer) {
    uint32_t count;
    const int64_t *shape = tn__attr_ints(infer->op, "shape", &count);
    if (count > TN_RANK_MAX) return tn__infer_fail(infer, "attribute shape is missing");
    return tn__set_output(infer, 0, tn__input(infer, 0)->dtype, count, shape);
}

static tn_status train_parts_shape_normalization(tn_infer *infer) {
    static const uint32_t like[] = {1, 2, 2};
    for (uint32_t k = 0; k < tn__output_count(infer); k++)
        TN_TRY(tn__set_like(infer, k, tn__input(infer, like[k])));
    return TN_OK;
}

/* Operations of gradients that add each given element once (Resize: once per tap). */
static uint64_t train_parts_flops_given(tn_infer *infer) {
    return tn__elements(tn__input(infer, 0));
}

static uint64_t train_parts_flops_resize(tn_infer *infer) {
    return tn__count_mul(tn__elements(tn__input(infer, 0)), 8);
}

/* --- the table of these operators ------------------------------------------------------------- */

/* clang-format off */
#define TRAIN(name, least, most, outputs, rule) .type = #name, .inputs_min = least, \
    .inputs_max = most, .outputs_max = outputs, .shape = rule
#define RECURRENT(name, number) TRAIN(name, 3, 9, 6, train_shape_recurrent), \
    .flops = train_flops_recurrent, .gates = number
#define PARTS(name, least, most, outputs, rule) .type = #name, .inputs_min = least, \
    .inputs_max = most, .outputs_max = outputs, .shape = rule
static const tn_op_rule train_rules[] = {
    {TRAIN(Accumulate, 3, 3, 1, train_shape_step), .view = train_view_step, .changes = 1,
     .flops_per = 1},
    {TRAIN(AdamStep, 6, 8, 3, train_shape_step), .view = train_view_step,
     .changes = 1 | 4 | 8, .flops_per = 12},
    {PARTS(AffineGridGrad, 1, 1, 1, train_parts_shape_given), .flops = train_parts_flops_resize},
    {TRAIN(AveragePoolGrad, 1, 1, 1, train_shape_given), .flags = TN_RULE_IMAGES,
     .flops = train_flops_pool},
    {TRAIN(BatchNormApply, 5, 5, 1, train_shape_first), .inplace = 1, .flops_per = 2},
    {TRAIN(BatchNormGrad, 5, 5, 3, train_shape_batch_norm_grad), .flags = TN_RULE_IMAGES,
     .inplace = 3, .flops_per = 8},
    {TRAIN(BatchNormTrain, 5, 5, 5, train_shape_batch_norm), .recompute_as = "BatchNormApply",
     .flags = TN_RULE_IMAGES, .view = train_view_batch_norm,
     .changes = 8 | 16, .inplace = 1, .flops_per = 6, .no_gradient = 8 | 16,
     .gradient = tn__gradient_batch_norm_train},
    {PARTS(ClipGrad, 2, 4, 1, train_parts_shape_like), .flops_per = 2, .inplace = 3},
    {PARTS(Col2ImGrad, 2, 2, 1, train_parts_shape_given), .flops_per = 1},
    {TRAIN(ConvGradWeights, 2, 2, 1, train_shape_given), .flops = train_flops_conv},
    {TRAIN(CrossEntropy, 2, 2, 2, tn__shape_loss), .flops = train_flops_loss,
     .gradient = tn__gradient_cross_entropy},
    {TRAIN(CrossEntropyGrad, 3, 3, 1, train_shape_first), .inplace = 1, .flops_per = 12},
    {PARTS(CumProdGrad, 3, 3, 1, train_parts_shape_like), .flops_per = 4, .inplace = 1},
    {TRAIN(DropoutBits, 2, 2, 1, train_shape_first), .inplace = 1, .flops_per = 1},
    {TRAIN(DropoutTrain, 2, 5, 2, train_shape_dropout), .inplace = 1 | 16, .flops_per = 8,
     .gradient = tn__gradient_dropout_train},
    {PARTS(GatherGrad, 2, 2, 1, train_parts_shape_given), .flops = train_parts_flops_given},
    {PARTS(GridSampleGrad, 3, 3, 2, train_parts_shape_sample), .flops = train_parts_flops_resize},
    {RECURRENT(GruGrad, 3)},
    {PARTS(LRNGrad, 2, 2, 1, train_parts_shape_like), .flops_per = 40, .inplace = 3},
    {TRAIN(LinearAttentionGrad, 3, 8, 6, train_shape_recurrent), .flops = train_flops_linear,
     .flags = TN_RULE_MATMUL_LIKE},
    {PARTS(LogSoftmaxGrad, 2, 2, 1, train_parts_shape_like), .flops_per = 13, .inplace = 3},
    {TRAIN(LossScale, 1, 1, 1, train_shape_scale)},
    {TRAIN(LossScaleStep, 1, UINT32_MAX, 2, train_shape_scale_step),
     .view = train_view_scale_step, .changes = 1, .flops = train_flops_scale_step},
    {RECURRENT(LstmGrad, 4)},
    {TRAIN(MaxPoolGrad, 2, 2, 1, train_shape_second), .flags = TN_RULE_IMAGES,
     .flops = train_flops_pool},
    {TRAIN(MaxPoolMapGrad, 2, 2, 1, train_shape_given), .flags = TN_RULE_IMAGES,
     .flops = train_flops_pool},
    {TRAIN(MaxPoolTrain, 1, 1, 2, train_shape_max_pool), .flags = TN_RULE_IMAGES,
     .flops = train_flops_max_pool, .gradient = tn__gradient_max_pool_train},
    {TRAIN(MeanSquared, 2, 2, 1, tn__shape_loss), .flops = train_flops_loss, .no_gradient = 2,
     .gradient = tn__gradient_mean_squared},
    {TRAIN(MeanSquaredGrad, 3, 3, 1, train_shape_first), .inplace = 3, .flops_per = 3},
    {TRAIN(MomentumStep, 4, 6, 2, train_shape_step), .view = train_view_step, .changes = 1 | 4,
     .flops_per = 5},
    {PARTS(NormalizationGrad, 3, 3, 3, train_parts_shape_normalization), .flops_per = 14, .inplace = 3},
    {PARTS(PadGrad, 1, 1, 1, train_parts_shape_given), .flops = train_parts_flops_given},
    {TRAIN(ReluGrad, 2, 2, 1, train_shape_first), .flags = TN_RULE_IMAGES, .inplace = 3,
     .flops_per = 1, .signs = 2},
    {PARTS(ResizeGrad, 1, 4, 1, train_parts_shape_given), .flops = train_parts_flops_resize},
    {RECURRENT(RnnGrad, 1)},
    {TRAIN(SgdStep, 3, 5, 1, train_shape_step), .view = train_view_step, .changes = 1,
     .flops_per = 3},
    {PARTS(SliceGrad, 1, 1, 1, train_parts_shape_given)},
    {PARTS(SoftmaxGrad, 2, 2, 1, train_parts_shape_like), .flops_per = 4, .inplace = 3},
    {TRAIN(TransposedMatMul, 2, 2, 1, train_shape_matmul), .flags = TN_RULE_MATMUL,
     .flops = train_flops_matmul},
};
/* clang-format on */

TN_OP_FAMILY(train, "tenure");
