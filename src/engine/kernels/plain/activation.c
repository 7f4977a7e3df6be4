/* activation.c - activations: functions of one element with a few parameters, Clip and PRelu.
 *
 * Written so that neither large nor tiny numbers lose their digits: Elu and its like use
 * exp(x) - 1 as one function, Softplus is max(x, 0) + log(1 + exp(-|x|)), and Mish's
 * tanh(log(1 + e)) is e (e + 2) / (e (e + 2) + 2).
 */
#include <math.h>

#include "engine/kernels/approximate.h"
#include "engine/kernels/blocks.h"
#include "engine/kernels/gelu.h"

/* --- float32 and float64 --- */

static inline float activation_mish_float(float x) {
    float e = tn__expf(x < 20.0f ? x : 20.0f), n = e * (e + 2.0f);
    return x < 20.0f ? x * (n / (n + 2.0f)) : x; /* 1 to the last digit from 20 on */
}
static inline double activation_mish(double x) {
    double e = exp(x < 40 ? x : 40), n = e * (e + 2);
    return x < 40 ? x * (n / (n + 2)) : x;
}
static inline double activation_logistic(double x) {
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}
/* Clamps to between 0 and 1; NaN stays NaN. */
static inline float activation_unit_float(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
static inline double activation_unit(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
/* exp(x) - 1 where x is negative; elsewhere of no use, but finite. */
static inline float activation_below_float(float x) { return tn__expm1f(x < 0 ? x : 0); }
static inline double activation_below(double x) { return expm1(x < 0 ? x : 0); }

/* One name, loops for both types, up to two attributes (NULL: not used) and their defaults. Within
 * the expressions `a` and `b` are the loop's operands, so parameters are F(0), D(0). */
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
    bool old = call->version < 6; /* fewer digits */
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

/* --- Clip: bounds are attributes before opset 11, optional inputs since. When the lower lies above
 * the upper, the upper wins. --- */

#define ACTIVATION_CLIP(name, type)                                                                \
    static void activation_##name##_Clip(const tn__block *block) {                                 \
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
/* clang-format off */
static const tn_kernel activation_kernels[] = {
    ACTIVATE(Celu), ACTIVATE(Clip), ACTIVATE(Elu), ACTIVATE(Gelu), ACTIVATE(HardSigmoid),
    ACTIVATE(HardSwish), ACTIVATE(LeakyRelu), ACTIVATE(Mish), ACTIVATE(PRelu), ACTIVATE(Relu),
    ACTIVATE(Selu), ACTIVATE(Shrink), ACTIVATE(Sigmoid), ACTIVATE(Softplus), ACTIVATE(Softsign),
    ACTIVATE(Swish), ACTIVATE(ThresholdedRelu),
};
/* clang-format on */

TN_KERNEL_FAMILY(activation, "");
