/* conv.c - convolutions: plain, transposed, quantised, deformable, and the fused ones of ONNX
 * Runtime that keep the shape.
 *
 * Input [N, C, spatial...], weights [M, C / group, kernel...]. The scratch memory of a convolution
 * belongs to a kernel (im2col, Winograd, none at all), not to the operator: no workspace here.
 * Source: operator texts of ONNX, opsets 1 to 22.
 */
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/rules/window.h"
#include "graph/tiles/split.h"

tn_status tn__shape_conv(tn_infer *infer, uint32_t data, uint32_t weights, tn_dtype dtype) {
    const tn_tensor *x = tn__input(infer, data), *w = tn__input(infer, weights);
    int64_t shape[TN_RANK_MAX];
    tn__window window;
    if (!tn__rank_known(x) || !tn__rank_known(w)) return tn__set_dtype(infer, 0, dtype);
    if (x->rank < 3 || w->rank != x->rank)
        return tn__infer_fail(infer, "input '%.60s' has rank %u and weights '%.60s' rank %u",
                              x->name, x->rank, w->name, w->rank);
    int64_t group = tn__attr_int(infer->op, "group", 1), channels = w->shape[1];
    if (group < 1) return tn__infer_fail(infer, "attribute group holds %lld", (long long)group);
    if (x->shape[1] != TN_DIM_UNKNOWN && channels != TN_DIM_UNKNOWN &&
        (channels > INT64_MAX / group || x->shape[1] != channels * group))
        return tn__infer_fail(infer,
                              "%lld input channels for weights of %lld channels in %lld groups",
                              (long long)x->shape[1], (long long)channels, (long long)group);
    shape[0] = x->shape[0];
    shape[1] = w->shape[0];
    TN_TRY(tn__window_read(infer, x->rank - 2, w->shape + 2, &window));
    TN_TRY(tn__window_slide(infer, &window, x->shape + 2, shape + 2));
    return tn__set_output(infer, 0, dtype, x->rank, shape);
}

static tn_status conv_shape(tn_infer *infer) {
    return tn__shape_conv(infer, 0, 1, tn__input(infer, 0)->dtype);
}
static tn_status conv_shape_integer(tn_infer *infer) {
    return tn__shape_conv(infer, 0, 1, TN_INT32);
}
static tn_status conv_shape_qlinear(tn_infer *infer) {
    const tn_tensor *zero = tn__input(infer, 7);
    return tn__shape_conv(infer, 0, 3, zero != NULL ? zero->dtype : TN_UNDEFINED);
}

/* Operations of a convolution: two per weight and output position. */
static uint64_t conv_flops_of(const tn_infer *infer, uint32_t weights,
                              uint32_t positions_of_input) {
    const tn_tensor *w = tn__input(infer, weights);
    const tn_tensor *at =
        positions_of_input != TN_NONE ? tn__input(infer, positions_of_input) : tn__output(infer, 0);
    uint64_t taps = tn__elements(w), positions = tn__elements(at);
    if (!tn__rank_known(w) || w->rank < 2 || !tn__shape_known(at) || at->rank < 2 ||
        taps == TN_SIZE_UNKNOWN || positions == TN_SIZE_UNKNOWN || at->shape[1] <= 0)
        return TN_SIZE_UNKNOWN;
    return tn__mul_sat(2 * (positions / (uint64_t)at->shape[1]), taps);
}
static uint64_t conv_flops(tn_infer *infer) { return conv_flops_of(infer, 1, TN_NONE); }
static uint64_t conv_flops_qlinear(tn_infer *infer) { return conv_flops_of(infer, 3, TN_NONE); }
static uint64_t conv_flops_transpose(tn_infer *infer) { return conv_flops_of(infer, 1, 0); }

/* --- transposed --- */

static tn_status conv_transpose_extents(tn_infer *infer, const tn__window *window,
                                        const int64_t *input, int64_t *output) {
    uint32_t given_count, extra_count;
    const int64_t *given = tn__attr_ints(infer->op, "output_shape", &given_count);
    const int64_t *extra = tn__attr_ints(infer->op, "output_padding", &extra_count);
    if (given != NULL && given_count != window->spatial && given_count != window->spatial + 2)
        return tn__infer_fail(infer, "attribute output_shape has %u values", given_count);
    if (extra != NULL && extra_count != window->spatial)
        return tn__infer_fail(infer, "attribute output_padding has %u values", extra_count);
    for (uint32_t i = 0; i < window->spatial; i++) {
        int64_t reach, steps;
        output[i] = TN_DIM_UNKNOWN;
        /* only the last entries are used: old files also state the extents of N and C */
        if (given != NULL) {
            output[i] = given[given_count - window->spatial + i];
            if (output[i] < 0) return tn__infer_fail(infer, "attribute output_shape is negative");
            continue;
        }
        if (input[i] == TN_DIM_UNKNOWN || window->kernel[i] == TN_DIM_UNKNOWN) continue;
        if (__builtin_mul_overflow(window->same ? input[i] : input[i] - 1, window->stride[i],
                                   &steps) ||
            __builtin_mul_overflow(window->kernel[i] - 1, window->dilation[i], &reach) ||
            __builtin_add_overflow(steps, reach, &reach) || reach > INT64_MAX / 2)
            return tn__infer_fail(infer, "an output extent overflows");
        output[i] = window->same ? steps
                                 : reach + 1 + (extra != NULL ? extra[i] : 0) - window->begin[i] -
                                       window->end[i];
        if (output[i] < 0)
            return tn__infer_fail(infer, "padding leaves dimension %u negative", i + 2);
    }
    return TN_OK;
}

static tn_status conv_shape_transpose(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, 1);
    int64_t shape[TN_RANK_MAX], group = tn__attr_int(infer->op, "group", 1);
    tn__window window;
    if (!tn__rank_known(x) || !tn__rank_known(w)) return tn__set_dtype(infer, 0, x->dtype);
    if (x->rank < 3 || w->rank != x->rank || group < 1)
        return tn__infer_fail(infer, "input '%.60s' has rank %u and weights '%.60s' rank %u",
                              x->name, x->rank, w->name, w->rank);
    shape[0] = x->shape[0];
    shape[1] = TN_DIM_UNKNOWN;
    if (w->shape[1] != TN_DIM_UNKNOWN && __builtin_mul_overflow(w->shape[1], group, &shape[1]))
        return tn__infer_fail(infer, "the number of output channels overflows");
    TN_TRY(tn__window_read(infer, x->rank - 2, w->shape + 2, &window));
    TN_TRY(conv_transpose_extents(infer, &window, x->shape + 2, shape + 2));
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

/* Sets the shape of Col2Im, the inverse of a sliding window: it puts blocks of columns back into an
 * image. */
static tn_status conv_shape_col2im(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    uint32_t count, block_count;
    const int64_t *image = tn__value_ints(infer, 1, &count);
    const int64_t *block = tn__value_ints(infer, 2, &block_count);
    int64_t shape[TN_RANK_MAX], taps = 1;
    if (!tn__rank_known(x) || image == NULL || block == NULL || count + 2 > TN_RANK_MAX)
        return tn__set_dtype(infer, 0, x->dtype);
    if (x->rank != 3)
        return tn__infer_fail(infer, "its columns have rank %u, 3 is needed", x->rank);
    if (count == 0 || count != block_count)
        return tn__infer_fail(infer, "an image of %u dimensions and blocks of %u", count,
                              block_count);
    for (uint32_t i = 0; i < block_count; i++)
        if (block[i] < 1 || __builtin_mul_overflow(taps, block[i], &taps))
            return tn__infer_fail(infer, "the block shape is out of range");
    if (x->shape[1] != TN_DIM_UNKNOWN && x->shape[1] % taps != 0)
        return tn__infer_fail(infer, "%lld rows of columns for blocks of %lld elements",
                              (long long)x->shape[1], (long long)taps);
    shape[0] = x->shape[0];
    shape[1] = x->shape[1] == TN_DIM_UNKNOWN ? TN_DIM_UNKNOWN : x->shape[1] / taps;
    for (uint32_t i = 0; i < count; i++) {
        if (image[i] < 0) return tn__infer_fail(infer, "an extent of %lld", (long long)image[i]);
        shape[2 + i] = image[i];
    }
    return tn__set_output(infer, 0, x->dtype, count + 2, shape);
}

/* clang-format off */
#define CONV(name, least, most, rule, cost) .type = #name, .inputs_min = least, .inputs_max = most, \
    .outputs_max = 1, .shape = rule, .flops = cost
#define WINDOW(rule) .split = rule, .part_form = TN__FORM_WINDOW
static const tn_op_rule conv_rules[] = {
    {.type = "Col2Im", .inputs_min = 3, .inputs_max = 3, .outputs_max = 1,
     .shape = conv_shape_col2im, .flops_per = 1, .monotone = 2, .no_gradient = 2 | 4,
     .gradient = tn__gradient_col2im},
    {CONV(Conv, 2, 3, conv_shape, conv_flops), WINDOW(tn__split_conv), .weights = 2 | 4, .flags = TN_RULE_CONV,
     .sums = tn__sums_conv, .gradient = tn__gradient_conv},
    {CONV(ConvInteger, 2, 4, conv_shape_integer, conv_flops), WINDOW(tn__split_conv_integer),
     .flags = TN_RULE_CONV_LIKE},
    {CONV(ConvTranspose, 2, 3, conv_shape_transpose, conv_flops_transpose),
     WINDOW(tn__split_conv_transpose), .weights = 2 | 4,
     .gradient = tn__gradient_conv_transpose, .flags = TN_RULE_CONV_LIKE},
    {CONV(DeformConv, 3, 5, conv_shape, conv_flops), .flags = TN_RULE_CONV_LIKE},
    {CONV(QLinearConv, 8, 9, conv_shape_qlinear, conv_flops_qlinear),
     WINDOW(tn__split_conv_qlinear), .flags = TN_RULE_CONV_LIKE},
};
/* clang-format on */

TN_OP_FAMILY(conv, "");
