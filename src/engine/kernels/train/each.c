/* each.c - gradients of one element by one element (graph/gradients/unary_gradients.def).
 *
 * x is the given gradient, y the output or input of the forward operator. Where a difference of
 * near numbers would lose digits it is written as one function (expm1). Functions without an
 * approximation of ours compute in float64.
 */
#include "engine/kernels/approximate.h"
#include "engine/kernels/blocks.h"
#include "engine/kernels/check.h"
#include "engine/kernels/gelu.h"

/* --- loops: both operands have the shape of the result --- */

#define EACH_LOOP(name, type, of, expression)                                                      \
    static void each_##name(const tn__block *block) {                                              \
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

static tn_status each_run(tn_kernel_call *call, tn__loop floats, tn__loop doubles,
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

/* Up to two attributes, `p` and `q` in the expressions, and their defaults. */
#define EACH_RUN(name, first, p, second, q)                                                        \
    static tn_status each_run_##name(tn_kernel_call *call) {                                       \
        const double parameters[2] = {first[0] ? tn__attr_float(call->op, first, p) : 0,           \
                                      second[0] ? tn__attr_float(call->op, second, q) : 0};        \
        return each_run(call, each_float_##name, each_double_##name, parameters);                  \
    }
/* One expression for float32 and for the rest; integer literals alone keep its type. */
#define EACH(name, expression, first, p, second, q)                                                \
    EACH_LOOP(float_##name, float, float, expression)                                              \
    EACH_LOOP(double_##name, double, double, expression)                                           \
    EACH_RUN(name, first, p, second, q)
/* Loops that compute the expression in float64 for any element type of the operands. */
#define EACH_WIDE(name, expression)                                                                \
    EACH_LOOP(float_##name, float, double, expression)                                             \
    EACH_LOOP(double_##name, double, double, expression)                                           \
    EACH_RUN(name, "", 0, "", 0)
#define EACH_TWO(name, of_float, of_double, first, p)                                              \
    EACH_LOOP(float_##name, float, float, of_float)                                                \
    EACH_LOOP(double_##name, double, double, of_double)                                            \
    EACH_RUN(name, first, p, "", 0)
#define EACH_PLAIN(name, expression) EACH(name, expression, "", 0, "", 0)

/* --- helpers --- */

static inline double each_logistic(double x) {
    double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* tanh(log(1 + e)) = n / (n + 2) with n = e (e + 2), and its slope by x = log(e). */
static inline double each_mish(double x) {
    double e = exp(x < 40 ? x : 40), n = e * (e + 2), t = n / (n + 2);
    return t + x * (1 - t) * (1 + t) * each_logistic(x);
}
static inline float each_mish_float(float x) {
    float e = tn__expf(x < 20.0f ? x : 20.0f), n = e * (e + 2.0f), t = n / (n + 2.0f);
    /* 1 - t = 2 / (n + 2) keeps its digits */
    return t + x * (2.0f / (n + 2.0f)) * (1.0f + t) * tn__logisticf(x);
}

static inline double each_swish(double x, double alpha) {
    double s = each_logistic(alpha * x);
    return s + alpha * x * s * (1 - s);
}
static inline float each_swish_float(float x, float alpha) {
    float s = tn__logisticf(alpha * x);
    return s + alpha * x * s * (1.0f - s);
}

#define EACH_ERF 1.12837916709551257390 /* 2 / sqrt(pi) */

static inline double each_gelu(double x) {
    return 0.5 * erfc(-x * TN__GELU_ROOT) + x * TN__GELU_DENSITY * exp(-0.5 * x * x);
}
static inline double each_gelu_tanh(double x) {
    double t = tanh(TN__GELU_TANH * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * TN__GELU_TANH * (1 + 3 * 0.044715 * x * x);
}

/* --- from the output --- */

EACH(Celu, y > 0 ? x : x * (1 + y / p), "alpha", 1, "", 0)
EACH(Elu, y > 0 ? x : x * (y + p), "alpha", 1, "", 0)
EACH(HardSigmoid, y > 0 && y < 1 ? x * p : 0, "alpha", 0.2, "", 0)
EACH(LeakyRelu, y > 0 ? x : x * p, "alpha", 0.01, "", 0)
EACH_PLAIN(Reciprocal, -x *y *y)
EACH(Selu, y > 0 ? x * q : x * (y + q * p), "alpha", 1.67326319217681884765625, "gamma",
     1.05070102214813232421875)
EACH_PLAIN(Sigmoid, x *y *(1 - y))
EACH_TWO(Softplus, -x *tn__expm1f(-y), -x *expm1(-y), "", 0)
EACH_PLAIN(Softsign, x *(1 - (y < 0 ? -y : y)) * (1 - (y < 0 ? -y : y)))
EACH_PLAIN(Sqrt, x / (2 * y))
EACH_PLAIN(Tan, x *(1 + y * y))
EACH_PLAIN(Tanh, x *(1 - y) * (1 + y))

/* --- from the input --- */

EACH_PLAIN(Abs, y > 0 ? x : y < 0 ? -x : 0)
EACH_WIDE(Acos, -x / sqrt((1 - y) * (1 + y)))
EACH_WIDE(Acosh, x / sqrt((y - 1) * (y + 1)))
EACH_WIDE(Asin, x / sqrt((1 - y) * (1 + y)))
EACH_WIDE(Asinh, x / sqrt(1 + y * y))
EACH_PLAIN(Atan, x / (1 + y * y))
EACH_PLAIN(Atanh, x / ((1 - y) * (1 + y)))
EACH_WIDE(Cos, -x *sin(y))
EACH_WIDE(Cosh, x *sinh(y))
EACH_TWO(Erf, x *(float)EACH_ERF *tn__expf(-y *y), x *EACH_ERF *exp(-y *y), "", 0)
EACH_PLAIN(HardSwish, y <= -3 ? 0 : y >= 3 ? x : x * (2 * y + 3) / 6)
EACH_TWO(Mish, x *each_mish_float(y), x *each_mish(y), "", 0)
EACH_PLAIN(PReluSlope, y < 0 ? x * y : 0)
EACH(Shrink, y<-p || y> p ? x : 0, "lambd", 0.5, "", 0)
EACH_WIDE(Sin, x *cos(y))
EACH_WIDE(Sinh, x *cosh(y))
EACH_TWO(Swish, x *each_swish_float(y, p), x *each_swish(y, p), "alpha", 1)
EACH(ThresholdedRelu, y > p ? x : 0, "alpha", 1, "", 0)

EACH_LOOP(float_Gelu, float, float, x *tn__gelu_slopef(y))
EACH_LOOP(double_Gelu, double, double, x *each_gelu(y))
EACH_LOOP(float_gelu_tanh, float, float, x *tn__gelu_tanh_slopef(y))
EACH_LOOP(double_gelu_tanh, double, double, x *each_gelu_tanh(y))

static tn_status each_run_Gelu(tn_kernel_call *call) {
    static const double none[2] = {0, 0};
    bool by_tanh = strcmp(tn__attr_string(call->op, "approximate", "none"), "tanh") == 0;
    return each_run(call, by_tanh ? each_float_gelu_tanh : each_float_Gelu,
                    by_tanh ? each_double_gelu_tanh : each_double_Gelu, none);
}

/* --- Clip: where the output is a bound, nothing comes through --- */

EACH_LOOP(float_Clip, float, float, y > p && y < q ? x : 0)
EACH_LOOP(double_Clip, double, double, y > p && y < q ? x : 0)

static tn_status each_run_Clip(tn_kernel_call *call) {
    double bounds[2] = {-INFINITY, INFINITY};
    for (uint32_t i = 0; i < 2; i++) {
        const tn_operand *bound = tn__call_input(call, i + 2);
        if (bound == NULL) continue;
        TN_TRY(tn__check_count(call, i + 2, 1));
        bounds[i] = tn__operand_float(bound, 0);
    }
    return each_run(call, each_float_Clip, each_double_Clip, bounds);
}

static bool each_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 3, 0);
}

static const tn_kernel train_each_kernels[] = {
    {.type = "ClipGrad", .accepts = each_accepts, .run = each_run_Clip},
#define X(Type, rule, reads, cost)                                                                 \
    {.type = #Type "Grad", .accepts = each_accepts, .run = each_run_##Type},
#include "graph/gradients/unary_gradients.def"
#undef X
};

TN_KERNEL_FAMILY(train_each, "tenure");
