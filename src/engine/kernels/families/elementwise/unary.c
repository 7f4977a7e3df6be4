/* unary.c - operators on single elements: mathematical functions, activations, Cast, and all their
 * gradients.
 *
 * float16 and bfloat16 are computed in float32. If integers are given to a function of real numbers
 * (Erf accepts them), they are computed in float64 and rounded towards zero. For float32, most
 * functions that approximate.h has (exp, erf, tanh, GELU and others) are taken from there; all
 * other functions are those of the C library.
 *
 * Expressions are written so that neither large nor small numbers lose precision. Elu and similar
 * functions use exp(x) - 1 as one function. Softplus is max(x, 0) + log(1 + exp(-|x|)). Mish uses
 * tanh(log(1 + e)) = e (e + 2) / (e (e + 2) + 2) with e = exp(x).
 */
#include <math.h>

#include "engine/kernels/convert.h"
#include "engine/kernels/loops/approximate.h"
#include "engine/kernels/loops/blocks.h"
#include "engine/kernels/operands.h"

/* --- mathematics --- */

#define UNARY_REAL(name, of_float, of_double)                                                      \
    TN_LOOP_1(unary_float_##name, float, float, of_float)                                          \
    TN_LOOP_1(unary_double_##name, double, double, of_double)                                      \
    static tn_status unary_run_##name(tn_kernel_call *call) {                                      \
        return tn__unary_run(                                                                      \
            call, &(tn__unary){.floats = unary_float_##name, .doubles = unary_double_##name});     \
    }
#define UNARY_ANY(name, of_float, of_double, of_int, of_uint)                                      \
    TN_LOOP_1(unary_float_##name, float, float, of_float)                                          \
    TN_LOOP_1(unary_double_##name, double, double, of_double)                                      \
    TN_LOOP_1(unary_int_##name, int64_t, int64_t, of_int)                                          \
    TN_LOOP_1(unary_uint_##name, uint64_t, uint64_t, of_uint)                                      \
    static tn_status unary_run_##name(tn_kernel_call *call) {                                      \
        return tn__unary_run(call, &(tn__unary){.floats = unary_float_##name,                      \
                                                .doubles = unary_double_##name,                    \
                                                .ints = unary_int_##name,                          \
                                                .uints = unary_uint_##name});                      \
    }

UNARY_ANY(Abs, fabsf(x), fabs(x), x < 0 ? 0 - (uint64_t)x : (uint64_t)x, x)
UNARY_REAL(Acos, acosf(x), acos(x))
UNARY_REAL(Acosh, acoshf(x), acosh(x))
UNARY_REAL(Asin, asinf(x), asin(x))
UNARY_REAL(Asinh, asinhf(x), asinh(x))
UNARY_REAL(Atan, atanf(x), atan(x))
UNARY_REAL(Atanh, atanhf(x), atanh(x))
UNARY_ANY(BitwiseNot, x, x, ~(uint64_t)x, ~x)
UNARY_ANY(Ceil, ceilf(x), ceil(x), x, x)
UNARY_REAL(Cos, cosf(x), cos(x))
UNARY_REAL(Cosh, coshf(x), cosh(x))
UNARY_REAL(Erf, tn__erff(x), erf(x))
UNARY_REAL(Exp, tn__expf(x), exp(x))
UNARY_ANY(Floor, floorf(x), floor(x), x, x)
UNARY_REAL(Log, logf(x), log(x))
UNARY_ANY(Neg, -x, -x, 0 - (uint64_t)x, 0 - x)
UNARY_REAL(Reciprocal, 1.0f / x, 1 / x)
UNARY_ANY(Round, rintf(x), rint(x), x, x) /* Round: ties are rounded to even */
UNARY_ANY(Sign,
          x > 0   ? 1.0f
          : x < 0 ? -1.0f
                  : x,
          x > 0   ? 1
          : x < 0 ? -1
                  : x,
          (x > 0) - (x < 0), x > 0)
UNARY_REAL(Sin, sinf(x), sin(x))
UNARY_REAL(Sinh, sinhf(x), sinh(x))
UNARY_REAL(Sqrt, sqrtf(x), sqrt(x))
UNARY_REAL(Tan, tanf(x), tan(x))
UNARY_REAL(Tanh, tn__tanhf(x), tanh(x))

/* --- tests of elements (IsNaN, IsInf, Not); the result is one byte for each element --- */

TN_LOOP_1(unary_not, uint8_t, uint8_t, x == 0)
TN_LOOP_1(unary_float_nan, float, uint8_t, x != x)
TN_LOOP_1(unary_double_nan, double, uint8_t, x != x)
TN_LOOP_1(unary_float_infinite, float, uint8_t,
          (x == INFINITY && p[0] != 0) || (x == -INFINITY && p[1] != 0))
TN_LOOP_1(unary_double_infinite, double, uint8_t,
          (x == (double)INFINITY && p[0] != 0) || (x == -(double)INFINITY && p[1] != 0))

static tn_status unary_run_test(tn_kernel_call *call, tn__loop floats, tn__loop doubles,
                                const double *parameters) {
    bool narrow = tn__is_short_float(call->inputs[0].dtype);
    return tn__elementwise_run(call, &(tn__elementwise){.loop = narrow ? floats : doubles,
                                                        .inputs = 1,
                                                        .load = {narrow ? TN_FLOAT32 : TN_FLOAT64},
                                                        .make = TN_BOOL,
                                                        .parameters = parameters});
}

static tn_status unary_run_IsNaN(tn_kernel_call *call) {
    return unary_run_test(call, unary_float_nan, unary_double_nan, NULL);
}

static tn_status unary_run_IsInf(tn_kernel_call *call) {
    const double which[2] = {(double)tn__attr_int(call->op, "detect_positive", 1),
                             (double)tn__attr_int(call->op, "detect_negative", 1)};
    return unary_run_test(call, unary_float_infinite, unary_double_infinite, which);
}

static tn_status unary_run_Not(tn_kernel_call *call) {
    return tn__elementwise_run(
        call,
        &(tn__elementwise){.loop = unary_not, .inputs = 1, .load = {TN_BOOL}, .make = TN_BOOL});
}

#define UNARY(name)                                                                                \
    { .type = #name, .accepts = tn__elementwise_accepts, .run = unary_run_##name }

/* --- activations: functions of one element with a few parameters, Clip and PRelu --- */

static inline float activation_mish_float(float x) {
    float e = tn__expf(x < 20.0f ? x : 20.0f), n = e * (e + 2.0f);
    /* from x = 20 on, tanh(log(1 + e^x)) rounds to 1 */
    return x < 20.0f ? x * (n / (n + 2.0f)) : x;
}
static inline double activation_mish(double x) {
    double e = exp(x < 40 ? x : 40), n = e * (e + 2);
    return x < 40 ? x * (n / (n + 2)) : x;
}
static inline double activation_logistic(double x) {
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}
/* Limits x to [0, 1]; NaN stays NaN. */
static inline float activation_unit_float(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
static inline double activation_unit(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
/* Returns exp(x) - 1 for a negative x; otherwise a finite number that is not used. */
static inline float activation_below_float(float x) { return tn__expm1f(x < 0 ? x : 0); }
static inline double activation_below(double x) { return expm1(x < 0 ? x : 0); }

/* Defines an activation: loops for float32 and float64, and up to two attributes (NULL: not used)
 * with their defaults. `a` and `b` are names inside the loops, so the expressions use F(0), F(1),
 * D(0) and D(1) for the attributes. */
#define F(i) ((float)p[i])
#define D(i) (p[i])
#define ACTIVATION(name, of_float, of_double, first, first_value, second, second_value)            \
    TN_LOOP_1(activation_float_##name, float, float, of_float)                                     \
    TN_LOOP_1(activation_double_##name, double, double, of_double)                                 \
    static tn_status activation_run_##name(tn_kernel_call *call) {                                 \
        return tn__unary_run(call, &(tn__unary){.floats = activation_float_##name,                 \
                                                .doubles = activation_double_##name,               \
                                                .attributes = {first, second},                     \
                                                .otherwise = {first_value, second_value}});        \
    }

ACTIVATION(Celu, (x > 0 ? x : 0) + F(0) * activation_below_float(x / F(0)),
           (x > 0 ? x : 0) + D(0) * activation_below(x / D(0)), "alpha", 1, NULL, 0)
ACTIVATION(Elu, x < 0 ? F(0) * activation_below_float(x) : x,
           x < 0 ? D(0) * activation_below(x) : x, "alpha", 1, NULL, 0)
ACTIVATION(HardSigmoid, activation_unit_float(F(0) * x + F(1)), activation_unit(D(0) * x + D(1)),
           "alpha", 0.2, "beta", 0.5)
ACTIVATION(HardSwish, x *activation_unit_float(x *(1.0f / 6.0f) + 0.5f),
           x *activation_unit(x / 6 + 0.5), NULL, 0, NULL, 0)
ACTIVATION(LeakyRelu, x < 0 ? F(0) * x : x, x < 0 ? D(0) * x : x, "alpha", 0.01, NULL, 0)
ACTIVATION(Mish, activation_mish_float(x), activation_mish(x), NULL, 0, NULL, 0)
ACTIVATION(Shrink, x<-F(0) ? x + F(1) : x> F(0) ? x - F(1) : 0.0f,
           x<-D(0) ? x + D(1) : x> D(0) ? x - D(1) : 0, "lambd", 0.5, "bias", 0)
ACTIVATION(Sigmoid, tn__logisticf(x), activation_logistic(x), NULL, 0, NULL, 0)
ACTIVATION(Softplus, (x > 0 ? x : 0) + tn__log1pf(tn__expf(-fabsf(x))),
           (x > 0 ? x : 0) + log1p(exp(-fabs(x))), NULL, 0, NULL, 0)
ACTIVATION(Softsign, x / (1.0f + fabsf(x)), x / (1 + fabs(x)), NULL, 0, NULL, 0)
ACTIVATION(Swish, x *tn__logisticf(F(0) * x), x *activation_logistic(D(0) * x), "alpha", 1, NULL, 0)
ACTIVATION(ThresholdedRelu, x > F(0) ? x : 0.0f, x > D(0) ? x : 0, "alpha", 1, NULL, 0)

TN_LOOP_1(activation_float_Selu, float, float,
          F(1) * (x > 0 ? x : F(0) * activation_below_float(x)))
TN_LOOP_1(activation_double_Selu, double, double, D(1) * (x > 0 ? x : D(0) * activation_below(x)))

static tn_status activation_run_Selu(tn_kernel_call *call) {
    bool old = call->version < 6; /* before opset 6 Selu's default constants have fewer digits */
    return tn__unary_run(call,
                         &(tn__unary){.floats = activation_float_Selu,
                                      .doubles = activation_double_Selu,
                                      .attributes = {"alpha", "gamma"},
                                      .otherwise = {old ? 1.6732 : 1.67326319217681884765625,
                                                    old ? 1.0507 : 1.05070102214813232421875}});
}

TN_LOOP_1(activation_float_Gelu, float, float, tn__geluf(x))
TN_LOOP_1(activation_double_Gelu, double, double, 0.5 * x * erfc(-x * TN__GELU_ROOT))
TN_LOOP_1(activation_float_gelu_tanh, float, float, tn__gelu_tanhf(x))
TN_LOOP_1(activation_double_gelu_tanh, double, double,
          0.5 * x * (1 + tanh(TN__GELU_TANH * (x + 0.044715 * x * x * x))))

static tn_status activation_run_Gelu(tn_kernel_call *call) {
    bool by_tanh = strcmp(tn__attr_string(call->op, "approximate", "none"), "tanh") == 0;
    return tn__unary_run(
        call,
        &(tn__unary){.floats = by_tanh ? activation_float_gelu_tanh : activation_float_Gelu,
                     .doubles = by_tanh ? activation_double_gelu_tanh : activation_double_Gelu});
}

TN_LOOP_1(activation_float_Relu, float, float, x < 0 ? 0 : x)
TN_LOOP_1(activation_double_Relu, double, double, x < 0 ? 0 : x)
TN_LOOP_1(activation_int_Relu, int64_t, int64_t, x < 0 ? 0 : x)
TN_LOOP_1(activation_uint_Relu, uint64_t, uint64_t, x)

static tn_status activation_run_Relu(tn_kernel_call *call) {
    return tn__unary_run(call, &(tn__unary){.floats = activation_float_Relu,
                                            .doubles = activation_double_Relu,
                                            .ints = activation_int_Relu,
                                            .uints = activation_uint_Relu});
}

/* --- PRelu: the slope broadcasts to the input; before opset 7 it was one per channel --- */

TN_LOOP_2(activation_float_PRelu, float, float, x < 0 ? x * y : x)
TN_LOOP_2(activation_double_PRelu, double, double, x < 0 ? x * y : x)
TN_LOOP_2(activation_int_PRelu, int64_t, int64_t, x < 0 ? (uint64_t)x * (uint64_t)y : (uint64_t)x)
TN_LOOP_2(activation_uint_PRelu, uint64_t, uint64_t, ((void)y, x))

static tn_status activation_run_PRelu(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *slope = &call->inputs[1];
    tn_dtype type = tn__computed_type(x->dtype);
    bool channels = call->version < 7 && slope->rank == 1 && slope->shape[0] > 1 && x->rank > 1;
    return tn__elementwise_run(
        call, &(tn__elementwise){.loop = type == TN_FLOAT32   ? activation_float_PRelu
                                         : type == TN_FLOAT64 ? activation_double_PRelu
                                         : type == TN_UINT64  ? activation_uint_PRelu
                                                              : activation_int_PRelu,
                                 .inputs = 2,
                                 .load = {type, type},
                                 .make = type,
                                 .aligned = channels,
                                 .axis = 1});
}

/* --- Clip: bounds are attributes before opset 11, optional inputs since. If the lower bound is
 * above the upper one, all elements become the upper bound. --- */

#define ACTIVATION_CLIP(name, type)                                                                \
    static void activation_##name##_Clip(const tn__loop_block *block) {                            \
        const type *a = block->from[0], *limits = block->parameters;                               \
        const type low = limits[0], high = limits[1];                                              \
        type *to = block->to;                                                                      \
        TN_APART for (uint64_t i = 0; i < block->count; i++) {                                     \
            const type raised = a[i] < low ? low : a[i];                                           \
            to[i] = raised > high ? high : raised;                                                 \
        }                                                                                          \
    }
ACTIVATION_CLIP(float, float)
ACTIVATION_CLIP(double, double)
ACTIVATION_CLIP(int, int64_t)
ACTIVATION_CLIP(uint, uint64_t)

static tn_status activation_run_Clip(tn_kernel_call *call) {
    const tn_operand *low = tn__call_input(call, 1), *high = tn__call_input(call, 2);
    if ((low != NULL && tn__operand_count(low) == 0) ||
        (high != NULL && tn__operand_count(high) == 0))
        return tn__call_fail(call, TN_E_INVALID, "a bound is empty; it must be one number");
    const double bottom = tn__attr_float(call->op, "min", -(double)INFINITY);
    const double top = tn__attr_float(call->op, "max", (double)INFINITY);
    const double doubles[2] = {low ? tn__operand_float(low, 0) : bottom,
                               high ? tn__operand_float(high, 0) : top};
    const float floats[2] = {(float)doubles[0], (float)doubles[1]};
    const int64_t ints[2] = {low ? tn__operand_int(low, 0) : INT64_MIN,
                             high ? tn__operand_int(high, 0) : INT64_MAX};
    const uint64_t uints[2] = {low ? (uint64_t)ints[0] : 0, high ? (uint64_t)ints[1] : UINT64_MAX};
    tn__elementwise how = {.inputs = 1, .load = {tn__computed_type(call->inputs[0].dtype)}};
    how.make = how.load[0];
    switch (how.make) {
    case TN_FLOAT32:
        how.loop = activation_float_Clip, how.parameters = floats;
        break;
    case TN_FLOAT64:
        how.loop = activation_double_Clip, how.parameters = doubles;
        break;
    case TN_UINT64:
        how.loop = activation_uint_Clip, how.parameters = uints;
        break;
    default:
        how.loop = activation_int_Clip, how.parameters = ints;
        break;
    }
    return tn__elementwise_run(call, &how);
}

#define ACTIVATE(name)                                                                             \
    { .type = #name, .accepts = tn__elementwise_accepts, .run = activation_run_##name }

/* --- Cast and CastLike: conversion to another element type (convert.h) --- */

static tn_status cast_run(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    TN_TRY(tn__call_expect(call, to->dtype, tn__operand_count(from)));
    tn__convert(from->dtype, from->data, to->dtype, to->data, tn__operand_count(to));
    return TN_OK;
}

/* --- BiasGelu: GELU of x + row, and its gradient, in one pass ---
 *
 * The sum needs no tensor. The results have the bits that the operators Add, Gelu and GeluGrad
 * compute one after the other. The output may have the address of the input, because an element is
 * read before it is written. oneDNN has no gradient that recomputes the sum.
 */

typedef struct bias_rows {
    uint64_t rows, width;
    const float *dy, *x, *row; /* `dy` NULL: compute the function, not the gradient */
    float *to;
    bool by_tanh;
} bias_rows;

#define BIAS_LOOPS(name, value, slope)                                                             \
    TN_WIDE static void bias_##name(uint64_t width, const float *x, const float *row, float *to) { \
        TN_APART                                                                                   \
        for (uint64_t i = 0; i < width; i++) to[i] = value(x[i] + row[i]);                         \
    }                                                                                              \
    TN_WIDE static void bias_##name##_grad(uint64_t width, const float *dy, const float *x,        \
                                           const float *row, float *to) {                          \
        TN_APART                                                                                   \
        for (uint64_t i = 0; i < width; i++) to[i] = dy[i] * slope(x[i] + row[i]);                 \
    }
BIAS_LOOPS(erf, tn__geluf, tn__gelu_slopef)
BIAS_LOOPS(tanh, tn__gelu_tanhf, tn__gelu_tanh_slopef)

static tn_status bias_read(tn_kernel_call *call, uint32_t at, bias_rows *job) {
    const tn_operand *x = &call->inputs[at], *row = &call->inputs[at + 1];
    if (x->rank == 0) return tn__call_fail(call, TN_E_INVALID, "an input without dimensions");
    *job = (bias_rows){.width = (uint64_t)x->shape[x->rank - 1],
                       .x = x->data,
                       .row = row->data,
                       .to = call->outputs[0].data};
    TN_TRY(tn__check_count(call, at + 1, job->width));
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    job->rows = tn__operand_span(x, 0, x->rank - 1);
    job->by_tanh = strcmp(tn__attr_string(call->op, "approximate", "none"), "tanh") == 0;
    return TN_OK;
}

static tn_status bias_run(tn_kernel_call *call) {
    bias_rows job;
    TN_TRY(bias_read(call, 0, &job));
    for (uint64_t r = 0, at = 0; r < job.rows; r++, at += job.width)
        (job.by_tanh ? bias_tanh : bias_erf)(job.width, job.x + at, job.row, job.to + at);
    return TN_OK;
}

static tn_status bias_run_grad(tn_kernel_call *call) {
    bias_rows job;
    TN_TRY(bias_read(call, 1, &job));
    TN_TRY(tn__check_shape(call, 0, call->inputs[1].rank, call->inputs[1].shape));
    job.dy = call->inputs[0].data;
    for (uint64_t r = 0, at = 0; r < job.rows; r++, at += job.width)
        (job.by_tanh ? bias_tanh_grad : bias_erf_grad)(job.width, job.dy + at, job.x + at, job.row,
                                                       job.to + at);
    return TN_OK;
}

static bool bias_accepts(const tn_kernel_setup *setup) {
    uint64_t all = setup->op->input_count == 3 ? 7 : 3;
    return tn__types_agree(setup, TN__TYPE(FLOAT32), all, 0);
}

/* --- GELU and Swish as operators of ONNX Runtime and of domain "tenure" --- */

typedef enum activation_curve {
    ACTIVATION_GELU,
    ACTIVATION_FAST_GELU,
    ACTIVATION_QUICK
} activation_curve;

static tn_status activation_run_curve(tn_kernel_call *call, activation_curve curve) {
    const tn_operand *x = &call->inputs[0], *bias = tn__call_input(call, 1);
    const float *from = x->data, alpha = (float)tn__attr_float(call->op, "alpha", 1.702f);
    float *to = call->outputs[0].data;
    uint64_t count = tn__operand_count(x), repeats = bias != NULL ? tn__operand_count(bias) : 1;
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    if (bias != NULL && (x->rank == 0 || repeats != (uint64_t)x->shape[x->rank - 1]))
        return tn__call_bad_shape(call, 1);
    const float *more = bias != NULL ? bias->data : NULL;
    for (uint64_t i = 0; i < count; i++) {
        float value = from[i] + (more != NULL ? more[i % repeats] : 0);
        to[i] = curve == ACTIVATION_GELU        ? tn__geluf(value)
                : curve == ACTIVATION_FAST_GELU ? tn__gelu_tanhf(value)
                                                : value * tn__logisticf(alpha * value);
    }
    return TN_OK;
}
static tn_status activation_run_gelu(tn_kernel_call *call) {
    return activation_run_curve(call, ACTIVATION_GELU);
}
static tn_status activation_run_fast_gelu(tn_kernel_call *call) {
    return activation_run_curve(call, ACTIVATION_FAST_GELU);
}
static tn_status activation_run_quick(tn_kernel_call *call) {
    return activation_run_curve(call, ACTIVATION_QUICK);
}

static bool activation_accepts_curve(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 2, 0) &&
           tn__input_is(setup, 0, TN__TYPE(FLOAT32));
}

/* Swish of domain "tenure". Its operands may have any format, because the order of elements does
 * not matter. */
static tn_status fused_run_swish(tn_kernel_call *call) {
    tn_operand *to = &call->outputs[0];
    const float *from = call->inputs[0].data;
    uint64_t count = tn__operand_count(to);
    for (uint64_t i = 0; i < count; i++) ((float *)to->data)[i] = from[i] / (1 + expf(-from[i]));
    return TN_OK;
}

static bool fused_accepts_swish(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1, 0);
}

/* --- gradients (graph/gradients/unary_gradients.def) ---
 *
 * x is the gradient of the output, y the output or the input of the forward operator. A difference
 * of nearly equal numbers would lose precision, so it is written as one function (expm1). Functions
 * without an approximation of ours are computed in float64.
 */

/* --- functions of gradients on two operands, both of the shape of the result --- */

#define GRADIENT_LOOP(name, type, of, expression)                                                  \
    static void gradient_##name(const tn__loop_block *block) {                                     \
        const type *a = block->from[0], *b = block->from[1];                                       \
        const double *parameters = block->parameters;                                              \
        const of p = (of)parameters[0], q = (of)parameters[1];                                     \
        type *to = block->to;                                                                      \
        const uint64_t count = block->count;                                                       \
        (void)p, (void)q;                                                                          \
        TN_APART                                                                                   \
        for (uint64_t i = 0; i < count; i++) {                                                     \
            const of x = (of)a[i], y = (of)b[i];                                                   \
            to[i] = (type)(expression);                                                            \
        }                                                                                          \
    }

static tn_status gradient_run(tn_kernel_call *call, tn__loop floats, tn__loop doubles,
                              const double *parameters) {
    const tn_operand *value = &call->inputs[1];
    tn_dtype type = call->inputs[0].dtype == TN_FLOAT64 ? TN_FLOAT64 : TN_FLOAT32;
    TN_TRY(tn__check_shape(call, 0, value->rank, value->shape));
    TN_TRY(tn__check_result(call, 0, value->rank, value->shape));
    return tn__elementwise_run(call,
                               &(tn__elementwise){.loop = type == TN_FLOAT64 ? doubles : floats,
                                                  .inputs = 2,
                                                  .load = {type, type},
                                                  .make = type,
                                                  .parameters = parameters});
}

/* Defines the kernel function of a gradient with up to two attributes, `p` and `q` in the
 * expressions, and their defaults. An empty name means that the attribute is not used. */
#define GRADIENT_RUN(name, first, p, second, q)                                                    \
    static tn_status gradient_run_##name(tn_kernel_call *call) {                                   \
        const double parameters[2] = {first[0] ? tn__attr_float(call->op, first, p) : 0,           \
                                      second[0] ? tn__attr_float(call->op, second, q) : 0};        \
        return gradient_run(call, gradient_float_##name, gradient_double_##name, parameters);      \
    }
/* Defines a gradient by one expression for float32 and float64. Its literals must be integers;
 * other literals would change the type of the expression. */
#define GRADIENT(name, expression, first, p, second, q)                                            \
    GRADIENT_LOOP(float_##name, float, float, expression)                                          \
    GRADIENT_LOOP(double_##name, double, double, expression)                                       \
    GRADIENT_RUN(name, first, p, second, q)
/* Defines loops that compute the expression in float64 for any element type of the operands. */
#define GRADIENT_WIDE(name, expression)                                                            \
    GRADIENT_LOOP(float_##name, float, double, expression)                                         \
    GRADIENT_LOOP(double_##name, double, double, expression)                                       \
    GRADIENT_RUN(name, "", 0, "", 0)
#define GRADIENT_TWO(name, of_float, of_double, first, p)                                          \
    GRADIENT_LOOP(float_##name, float, float, of_float)                                            \
    GRADIENT_LOOP(double_##name, double, double, of_double)                                        \
    GRADIENT_RUN(name, first, p, "", 0)
#define GRADIENT_PLAIN(name, expression) GRADIENT(name, expression, "", 0, "", 0)

/* --- helpers --- */

/* Returns the derivative of Mish. With e = exp(x) and n = e (e + 2), tanh(log(1 + e)) is n / (n +
 * 2). */
static inline double gradient_mish(double x) {
    double e = exp(x < 40 ? x : 40), n = e * (e + 2), t = n / (n + 2);
    return t + x * (1 - t) * (1 + t) * activation_logistic(x);
}
static inline float gradient_mish_float(float x) {
    float e = tn__expf(x < 20.0f ? x : 20.0f), n = e * (e + 2.0f), t = n / (n + 2.0f);
    /* 1 - tanh(log(1 + e)), written as 2 / (n + 2), which loses no precision */
    return t + x * (2.0f / (n + 2.0f)) * (1.0f + t) * tn__logisticf(x);
}

static inline double gradient_swish(double x, double alpha) {
    double s = activation_logistic(alpha * x);
    return s + alpha * x * s * (1 - s);
}
static inline float gradient_swish_float(float x, float alpha) {
    float s = tn__logisticf(alpha * x);
    return s + alpha * x * s * (1.0f - s);
}

#define GRADIENT_ERF 1.12837916709551257390 /* the value 2 / sqrt(pi) */

static inline double gradient_gelu(double x) {
    return 0.5 * erfc(-x * TN__GELU_ROOT) + x * TN__GELU_DENSITY * exp(-0.5 * x * x);
}
static inline double gradient_gelu_tanh(double x) {
    double t = tanh(TN__GELU_TANH * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * TN__GELU_TANH * (1 + 3 * 0.044715 * x * x);
}

/* --- gradients that are computed from the output of the forward operator --- */

GRADIENT(Celu, y > 0 ? x : x * (1 + y / p), "alpha", 1, "", 0)
GRADIENT(Elu, y > 0 ? x : x * (y + p), "alpha", 1, "", 0)
GRADIENT(HardSigmoid, y > 0 && y < 1 ? x * p : 0, "alpha", 0.2, "", 0)
GRADIENT(LeakyRelu, y > 0 ? x : x * p, "alpha", 0.01, "", 0)
GRADIENT_PLAIN(Relu, y > 0 ? x : 0)
GRADIENT_PLAIN(Reciprocal, -x *y *y)
GRADIENT(Selu, y > 0 ? x * q : x * (y + q * p), "alpha", 1.67326319217681884765625, "gamma",
         1.05070102214813232421875)
GRADIENT_PLAIN(Sigmoid, x *y *(1 - y))
GRADIENT_TWO(Softplus, -x *tn__expm1f(-y), -x *expm1(-y), "", 0)
GRADIENT_PLAIN(Softsign, x *(1 - (y < 0 ? -y : y)) * (1 - (y < 0 ? -y : y)))
GRADIENT_PLAIN(Sqrt, x / (2 * y))
GRADIENT_PLAIN(Tan, x *(1 + y * y))
GRADIENT_PLAIN(Tanh, x *(1 - y) * (1 + y))

/* --- gradients that are computed from the input of the forward operator --- */

GRADIENT_PLAIN(Abs, y > 0 ? x : y < 0 ? -x : 0)
GRADIENT_WIDE(Acos, -x / sqrt((1 - y) * (1 + y)))
GRADIENT_WIDE(Acosh, x / sqrt((y - 1) * (y + 1)))
GRADIENT_WIDE(Asin, x / sqrt((1 - y) * (1 + y)))
GRADIENT_WIDE(Asinh, x / sqrt(1 + y * y))
GRADIENT_PLAIN(Atan, x / (1 + y * y))
GRADIENT_PLAIN(Atanh, x / ((1 - y) * (1 + y)))
GRADIENT_WIDE(Cos, -x *sin(y))
GRADIENT_WIDE(Cosh, x *sinh(y))
GRADIENT_TWO(Erf, x *(float)GRADIENT_ERF *tn__expf(-y *y), x *GRADIENT_ERF *exp(-y *y), "", 0)
GRADIENT_PLAIN(HardSwish, y <= -3 ? 0 : y >= 3 ? x : x * (2 * y + 3) / 6)
GRADIENT_TWO(Mish, x *gradient_mish_float(y), x *gradient_mish(y), "", 0)
GRADIENT_PLAIN(PReluSlope, y < 0 ? x * y : 0)
GRADIENT(Shrink, y<-p || y> p ? x : 0, "lambd", 0.5, "", 0)
GRADIENT_WIDE(Sin, x *cos(y))
GRADIENT_WIDE(Sinh, x *cosh(y))
GRADIENT_TWO(Swish, x *gradient_swish_float(y, p), x *gradient_swish(y, p), "alpha", 1)
GRADIENT(ThresholdedRelu, y > p ? x : 0, "alpha", 1, "", 0)

GRADIENT_LOOP(float_Gelu, float, float, x *tn__gelu_slopef(y))
GRADIENT_LOOP(double_Gelu, double, double, x *gradient_gelu(y))
GRADIENT_LOOP(float_gelu_tanh, float, float, x *tn__gelu_tanh_slopef(y))
GRADIENT_LOOP(double_gelu_tanh, double, double, x *gradient_gelu_tanh(y))

static tn_status gradient_run_Gelu(tn_kernel_call *call) {
    static const double none[2] = {0, 0};
    bool by_tanh = strcmp(tn__attr_string(call->op, "approximate", "none"), "tanh") == 0;
    return gradient_run(call, by_tanh ? gradient_float_gelu_tanh : gradient_float_Gelu,
                        by_tanh ? gradient_double_gelu_tanh : gradient_double_Gelu, none);
}

/* --- gradient of Clip: 0 if the element of the output is one of the bounds --- */

GRADIENT_LOOP(float_Clip, float, float, y > p && y < q ? x : 0)
GRADIENT_LOOP(double_Clip, double, double, y > p && y < q ? x : 0)

static tn_status gradient_run_Clip(tn_kernel_call *call) {
    double bounds[2] = {-INFINITY, INFINITY};
    for (uint32_t i = 0; i < 2; i++) {
        const tn_operand *bound = tn__call_input(call, i + 2);
        if (bound == NULL) continue;
        TN_TRY(tn__check_count(call, i + 2, 1));
        bounds[i] = tn__operand_float(bound, 0);
    }
    return gradient_run(call, gradient_float_Clip, gradient_double_Clip, bounds);
}

static bool gradient_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 3, 0);
}

static const tn_kernel unary_kernels[] = {
    UNARY(Abs),
    UNARY(Acos),
    UNARY(Acosh),
    UNARY(Asin),
    UNARY(Asinh),
    UNARY(Atan),
    UNARY(Atanh),
    UNARY(BitwiseNot),
    UNARY(Ceil),
    UNARY(Cos),
    UNARY(Cosh),
    UNARY(Erf),
    UNARY(Exp),
    UNARY(Floor),
    UNARY(IsInf),
    UNARY(IsNaN),
    UNARY(Log),
    UNARY(Neg),
    UNARY(Not),
    UNARY(Reciprocal),
    UNARY(Round),
    UNARY(Sign),
    UNARY(Sin),
    UNARY(Sinh),
    UNARY(Sqrt),
    UNARY(Tan),
    UNARY(Tanh),
    ACTIVATE(Celu),
    ACTIVATE(Clip),
    ACTIVATE(Elu),
    ACTIVATE(Gelu),
    ACTIVATE(HardSigmoid),
    ACTIVATE(HardSwish),
    ACTIVATE(LeakyRelu),
    ACTIVATE(Mish),
    ACTIVATE(PRelu),
    ACTIVATE(Relu),
    ACTIVATE(Selu),
    ACTIVATE(Shrink),
    ACTIVATE(Sigmoid),
    ACTIVATE(Softplus),
    ACTIVATE(Softsign),
    ACTIVATE(Swish),
    ACTIVATE(ThresholdedRelu),
    {.type = "Cast", .accepts = tn__elementwise_accepts, .run = cast_run},
    {.type = "CastLike", .accepts = tn__elementwise_accepts, .run = cast_run},
    {.domain = "tenure", .type = "BiasGelu", .accepts = bias_accepts, .run = bias_run},
    {.domain = "tenure", .type = "BiasGeluGrad", .accepts = bias_accepts, .run = bias_run_grad},
    {.domain = "com.microsoft",
     .type = "BiasGelu",
     .accepts = activation_accepts_curve,
     .run = activation_run_gelu},
    {.domain = "com.microsoft",
     .type = "FastGelu",
     .accepts = activation_accepts_curve,
     .run = activation_run_fast_gelu},
    {.domain = "com.microsoft",
     .type = "Gelu",
     .accepts = activation_accepts_curve,
     .run = activation_run_gelu},
    {.domain = "com.microsoft",
     .type = "QuickGelu",
     .accepts = activation_accepts_curve,
     .run = activation_run_quick},
    {.domain = "tenure",
     .type = "Swish",
     .accepts = fused_accepts_swish,
     .run = fused_run_swish,
     .formats = true},
    {.domain = "tenure", .type = "ReluGrad", .accepts = gradient_accepts, .run = gradient_run_Relu},
    {.domain = "tenure", .type = "ClipGrad", .accepts = gradient_accepts, .run = gradient_run_Clip},
#define X(Type, rule, reads, cost)                                                                 \
    {.domain = "tenure",                                                                           \
     .type = #Type "Grad",                                                                         \
     .accepts = gradient_accepts,                                                                  \
     .run = gradient_run_##Type},
#include "graph/gradients/unary_gradients.def"
#undef X
};

TN_KERNEL_FAMILY(unary, "");
