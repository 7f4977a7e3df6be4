/* unary.c - operators that compute each element from one element: mathematics and activations.
 *
 * The output has the type and shape of the input, so it may overwrite it. Values are computed only
 * for the functions that exporters use in shape arithmetic (such as Floor of a scaled extent).
 * FLOPs: 1 for arithmetic; for functions the number of multiplications and additions of a usual
 * vector implementation, rounded: 10 for one transcendental, more for a combination of several.
 * Source: operator texts of ONNX, opsets 1 to 21.
 */
#include <math.h>

#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/tiles/split.h"

static tn_status unary_shape(tn_infer *infer) {
    return tn__set_like(infer, 0, tn__input(infer, 0));
}

static tn_status unary_shape_bool(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    if (!tn__rank_known(input)) return tn__set_dtype(infer, 0, TN_BOOL);
    return tn__set_output(infer, 0, TN_BOOL, input->rank, input->shape);
}

static int64_t unary_same(int64_t value) { return value; }
static int64_t unary_negated(int64_t value) { return (int64_t)(0 - (uint64_t)value); }
static int64_t unary_magnitude(int64_t value) { return value < 0 ? unary_negated(value) : value; }
static int64_t unary_positive(int64_t value) { return value > 0 ? value : 0; }
static int64_t unary_sign(int64_t value) { return (value > 0) - (value < 0); }
static int64_t unary_not(int64_t value) { return !value; }
static int64_t unary_inverted(int64_t value) { return ~value; }
static double unary_float_negated(double value) { return -value; }
static double unary_float_positive(double value) { return value > 0 ? value : 0; }
static double unary_float_sign(double value) { return (value > 0) - (value < 0); }
static double unary_inverse(double value) { return 1 / value; }

#define UNARY_FOLD(name, of_float, of_int)                                                         \
    static tn_status unary_fold_##name(tn_infer *infer) {                                          \
        return tn__fold_unary(infer, of_float, of_int);                                            \
    }
UNARY_FOLD(Abs, fabs, unary_magnitude)
UNARY_FOLD(BitwiseNot, NULL, unary_inverted)
UNARY_FOLD(Ceil, ceil, unary_same)
UNARY_FOLD(Exp, exp, NULL)
UNARY_FOLD(Floor, floor, unary_same)
UNARY_FOLD(Log, log, NULL)
UNARY_FOLD(Neg, unary_float_negated, unary_negated)
UNARY_FOLD(Not, NULL, unary_not)
UNARY_FOLD(Reciprocal, unary_inverse, NULL)
UNARY_FOLD(Relu, unary_float_positive, unary_positive)
UNARY_FOLD(Round, rint, unary_same)
UNARY_FOLD(Sign, unary_float_sign, unary_sign)
UNARY_FOLD(Sqrt, sqrt, NULL)

/* Computes the values of Clip. Its bounds are attributes before opset 11 and optional inputs since
 * then. */
static tn_status unary_fold_Clip(tn_infer *infer) {
    const tn_value *value = tn__value(infer, 0);
    const tn_tensor *output = tn__output(infer, 0);
    if (!value || !output) return TN_OK;
    const tn_value *limits[2] = {NULL, NULL};
    for (uint32_t i = 0; i < 2; i++) {
        if (!tn__input(infer, i + 1)) continue;
        limits[i] = tn__value(infer, i + 1);
        if (!limits[i] || limits[i]->count != 1) return TN_OK;
    }
    uint32_t count = value->count;
    if (value->ints) {
        int64_t *result = tn__scratch(infer, (size_t)count + 1, sizeof *result);
        if (!result) return tn__infer_no_memory(infer);
        int64_t low = limits[0] && limits[0]->ints ? limits[0]->ints[0] : INT64_MIN;
        int64_t high = limits[1] && limits[1]->ints ? limits[1]->ints[0] : INT64_MAX;
        for (uint32_t i = 0; i < count; i++) {
            int64_t raised = value->ints[i] < low ? low : value->ints[i];
            result[i] = raised > high ? high : raised;
        }
        return tn__set_value_ints(infer, 0, result, count);
    }
    double *result = tn__scratch(infer, (size_t)count + 1, sizeof *result);
    if (!result) return tn__infer_no_memory(infer);
    double low = limits[0] ? tn__value_at(limits[0], 0)
                           : tn__attr_float(infer->op, "min", -(double)INFINITY);
    double high =
        limits[1] ? tn__value_at(limits[1], 0) : tn__attr_float(infer->op, "max", (double)INFINITY);
    for (uint32_t i = 0; i < count; i++)
        result[i] = tn__round(output->dtype, fmin(fmax(value->floats[i], low), high));
    return tn__set_value_floats(infer, 0, result, count);
}

#define UNARY(name, cost)                                                                          \
    .type = #name, .inputs_min = 1, .inputs_max = 1, .outputs_max = 1, .shape = unary_shape,       \
    .flops_per = cost, .inplace = 1, .split = tn__split_each
#define UNARY_FOLDED(name, cost) UNARY(name, cost), .fold = unary_fold_##name
#define UNARY_TEST(name)                                                                           \
    .type = #name, .inputs_min = 1, .inputs_max = 1, .outputs_max = 1, .shape = unary_shape_bool,  \
    .flops_per = 1, .inplace = 1, .split = tn__split_each

/* clang-format off */
static const tn_op_rule unary_rules[] = {
    {UNARY_FOLDED(Abs, 1), .flags = TN_RULE_IMAGES, .gradient = tn__gradient_abs},
    {UNARY(Acos, 10), .gradient = tn__gradient_acos},
    {UNARY(Acosh, 12), .gradient = tn__gradient_acosh},
    {UNARY(Asin, 10), .gradient = tn__gradient_asin},
    {UNARY(Asinh, 12), .gradient = tn__gradient_asinh},
    {UNARY(Atan, 10), .gradient = tn__gradient_atan},
    {UNARY(Atanh, 12), .gradient = tn__gradient_atanh},
    {UNARY_FOLDED(BitwiseNot, 1)},
    {UNARY_FOLDED(Ceil, 1), .monotone = 1, .gradient = tn__gradient_flat},
    {UNARY(Celu, 12), .gradient = tn__gradient_celu},
    {.type = "Clip", .flags = TN_RULE_IMAGES, .inputs_min = 1, .inputs_max = 3, .outputs_max = 1,
     .shape = unary_shape,
     .fold = unary_fold_Clip, .flops_per = 2, .inplace = 1, .monotone = 7, .no_gradient = 2 | 4,
     .split = tn__split_first,     .gradient = tn__gradient_clip},
    {UNARY(Cos, 10), .gradient = tn__gradient_cos},
    {UNARY(Cosh, 12), .gradient = tn__gradient_cosh},
    {UNARY(Elu, 12), .flags = TN_RULE_IMAGES, .gradient = tn__gradient_elu},
    {UNARY(Erf, 12), .gradient = tn__gradient_erf},
    {UNARY_FOLDED(Exp, 10), .flags = TN_RULE_IMAGES | TN_RULE_ROUGH, .monotone = 1, .gradient = tn__gradient_exp},
    {UNARY_FOLDED(Floor, 1), .monotone = 1, .gradient = tn__gradient_flat},
    {UNARY(Gelu, 15), .flags = TN_RULE_IMAGES, .gradient = tn__gradient_gelu},
    {UNARY(HardSigmoid, 4), .flags = TN_RULE_IMAGES, .gradient = tn__gradient_hard_sigmoid},
    {UNARY(HardSwish, 5), .flags = TN_RULE_IMAGES, .gradient = tn__gradient_hard_swish},
    {UNARY_TEST(IsInf)},
    {UNARY_TEST(IsNaN)},
    {UNARY(LeakyRelu, 2), .flags = TN_RULE_IMAGES, .gradient = tn__gradient_leaky_relu},
    {UNARY_FOLDED(Log, 10), .flags = TN_RULE_ROUGH, .monotone = 1, .gradient = tn__gradient_log},
    {UNARY(Mish, 22), .flags = TN_RULE_IMAGES, .gradient = tn__gradient_mish},
    {UNARY_FOLDED(Neg, 1), .antitone = 1, .gradient = tn__gradient_neg},
    {UNARY_FOLDED(Not, 1)},
    {UNARY_FOLDED(Reciprocal, 1), .gradient = tn__gradient_reciprocal},
    {UNARY_FOLDED(Relu, 1), .flags = TN_RULE_IMAGES, .monotone = 1, .gradient = tn__gradient_relu},
    {UNARY_FOLDED(Round, 1), .monotone = 1, .gradient = tn__gradient_flat},
    {UNARY(Selu, 13), .gradient = tn__gradient_selu},
    {UNARY(Shrink, 3), .gradient = tn__gradient_shrink},
    {UNARY(Sigmoid, 12), .flags = TN_RULE_IMAGES, .gradient = tn__gradient_sigmoid},
    {UNARY_FOLDED(Sign, 1), .monotone = 1, .gradient = tn__gradient_flat},
    {UNARY(Sin, 10), .gradient = tn__gradient_sin},
    {UNARY(Sinh, 12), .gradient = tn__gradient_sinh},
    {UNARY(Softplus, 20), .flags = TN_RULE_IMAGES, .gradient = tn__gradient_softplus},
    {UNARY(Softsign, 3), .gradient = tn__gradient_softsign},
    {UNARY_FOLDED(Sqrt, 1), .flags = TN_RULE_IMAGES, .monotone = 1, .gradient = tn__gradient_sqrt},
    {UNARY(Swish, 13), .gradient = tn__gradient_swish},
    {UNARY(Tan, 12), .gradient = tn__gradient_tan},
    {UNARY(Tanh, 12), .flags = TN_RULE_IMAGES, .gradient = tn__gradient_tanh},
    {UNARY(ThresholdedRelu, 1), .gradient = tn__gradient_thresholded_relu},
};
/* clang-format on */

TN_OP_FAMILY(unary, "");
