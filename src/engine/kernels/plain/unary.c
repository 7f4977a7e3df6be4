/* unary.c - mathematics of one element: ONNX's functions, tests and bit operations.
 *
 * float16 and bfloat16 compute in float32. Integers that are given to a function of real numbers
 * (Erf takes them) compute in float64 and are cut towards zero. float32 exp, erf and tanh are those
 * of approximate.h, all else the C library's.
 */
#include <math.h>

#include "engine/kernels/approximate.h"
#include "engine/kernels/blocks.h"

/* --- loops --- */

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
UNARY_ANY(Round, rintf(x), rint(x), x, x) /* halves to even */
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

/* --- tests: one byte for each element --- */

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
/* clang-format off */
static const tn_kernel unary_kernels[] = {
    UNARY(Abs), UNARY(Acos), UNARY(Acosh), UNARY(Asin), UNARY(Asinh), UNARY(Atan), UNARY(Atanh),
    UNARY(BitwiseNot), UNARY(Ceil), UNARY(Cos), UNARY(Cosh), UNARY(Erf), UNARY(Exp), UNARY(Floor),
    UNARY(IsInf), UNARY(IsNaN), UNARY(Log), UNARY(Neg), UNARY(Not), UNARY(Reciprocal), UNARY(Round),
    UNARY(Sign), UNARY(Sin), UNARY(Sinh), UNARY(Sqrt), UNARY(Tan), UNARY(Tanh),
};
/* clang-format on */

TN_KERNEL_FAMILY(unary, "");
