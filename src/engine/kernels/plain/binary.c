/* binary.c - arithmetic of two inputs, with numpy broadcasting.
 *
 * Integers of every width compute in 64 bits and wrap to their own; only what depends on the sign
 * (division, remainder, shift to the right) has loops of its own for uint64. Division cuts towards
 * zero; by zero it gives 0, as in numpy, because no answer is better and a run must not fail. Mod
 * has the sign of the divisor, or with fmod of the dividend. Pow computes in the type of the base:
 * integers exactly (wrapping; to a negative power what the real result is, cut towards zero), else
 * in float64 where the exponent may need its digits. Before opset 7 the second operand was aligned
 * at `axis`.
 */
#include <math.h>

#include "engine/kernels/blocks.h"

/* --- one element --- */

static inline int64_t binary_quotient(int64_t x, int64_t y) {
    if (y == 0) return 0;
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}
static inline int64_t binary_remainder(int64_t x, int64_t y) {
    return y == 0 || y == -1 ? 0 : x % y;
}
static inline int64_t binary_modulo(int64_t x, int64_t y) {
    int64_t rest = binary_remainder(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
static inline uint64_t binary_quotient_unsigned(uint64_t x, uint64_t y) {
    return y == 0 ? 0 : x / y;
}
static inline uint64_t binary_remainder_unsigned(uint64_t x, uint64_t y) {
    return y == 0 ? 0 : x % y;
}
static inline float binary_modulo_float(float x, float y) {
    float rest = fmodf(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
static inline double binary_modulo_double(double x, double y) {
    double rest = fmod(x, y);
    return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}
static inline uint64_t binary_power(uint64_t base, uint64_t exponent) {
    uint64_t power = 1;
    for (; exponent != 0; exponent >>= 1, base *= base)
        if (exponent & 1) power *= base;
    return power;
}
static inline uint64_t binary_power_signed(int64_t base, int64_t exponent) {
    if (exponent >= 0) return binary_power((uint64_t)base, (uint64_t)exponent);
    if (base == 1) return 1;
    return base == -1 ? ((exponent & 1) != 0 ? UINT64_MAX : 1) : 0;
}

/* --- loops --- */

typedef struct binary_loops {
    tn__loop floats, doubles, ints, uints; /* uints NULL: as ints */
} binary_loops;

#define BINARY_REAL(name, of_float, of_double)                                                     \
    TN_LOOP_2(binary_float_##name, float, float, of_float)                                         \
    TN_LOOP_2(binary_double_##name, double, double, of_double)
#define BINARY_LOOPS(name) .floats = binary_float_##name, .doubles = binary_double_##name
#define BINARY_WHOLE(name, of_real, of_int)                                                        \
    BINARY_REAL(name, of_real, of_real)                                                            \
    TN_LOOP_2(binary_int_##name, uint64_t, uint64_t, of_int)                                       \
    static const binary_loops binary_##name = {BINARY_LOOPS(name), .ints = binary_int_##name};
#define BINARY_SIGNED(name, of_float, of_double, of_int, of_uint)                                  \
    BINARY_REAL(name, of_float, of_double)                                                         \
    TN_LOOP_2(binary_int_##name, int64_t, int64_t, of_int)                                         \
    TN_LOOP_2(binary_uint_##name, uint64_t, uint64_t, of_uint)                                     \
    static const binary_loops binary_##name = {BINARY_LOOPS(name), .ints = binary_int_##name,      \
                                               .uints = binary_uint_##name};

BINARY_WHOLE(Add, x + y, x + y)
BINARY_WHOLE(Sub, x - y, x - y)
BINARY_WHOLE(Mul, x *y, x *y)
BINARY_SIGNED(Div, x / y, x / y, binary_quotient(x, y), binary_quotient_unsigned(x, y))
BINARY_SIGNED(Mod, binary_modulo_float(x, y), binary_modulo_double(x, y), binary_modulo(x, y),
              binary_remainder_unsigned(x, y))
BINARY_SIGNED(Fmod, fmodf(x, y), fmod(x, y), binary_remainder(x, y),
              binary_remainder_unsigned(x, y))
BINARY_SIGNED(Pow, powf(x, y), pow(x, y), binary_power_signed(x, y), binary_power(x, y))

/* Integers and bits, on 64-bit patterns. */
TN_LOOP_2(binary_and, uint64_t, uint64_t, x &y)
TN_LOOP_2(binary_or, uint64_t, uint64_t, x | y)
TN_LOOP_2(binary_xor, uint64_t, uint64_t, x ^ y)
TN_LOOP_2(binary_left, uint64_t, uint64_t, y < 64 ? x << y : 0)
TN_LOOP_2(binary_right, uint64_t, uint64_t, y < 64 ? x >> y : 0)

/* --- running --- */

static tn__loop binary_choose(const binary_loops *loops, tn_dtype type) {
    switch (type) {
    case TN_FLOAT32:
        return loops->floats;
    case TN_FLOAT64:
        return loops->doubles;
    case TN_UINT64:
        return loops->uints != NULL ? loops->uints : loops->ints;
    default:
        return loops->ints;
    }
}

/* Both inputs load as `type`, which the loop makes, too. */
static tn_status binary_run(tn_kernel_call *call, tn__loop loop, tn_dtype type) {
    bool old = call->version < 7;
    return tn__elementwise_run(call,
                               &(tn__elementwise){.loop = loop,
                                                  .inputs = 2,
                                                  .load = {type, type},
                                                  .make = type,
                                                  .aligned = old,
                                                  .axis = tn__attr_int(call->op, "axis", -1)});
}

static tn_status binary_run_loops(tn_kernel_call *call, const binary_loops *loops) {
    tn_dtype type = tn__computed_type(call->inputs[0].dtype);
    return binary_run(call, binary_choose(loops, type), type);
}

#define BINARY_RUN(name)                                                                           \
    static tn_status binary_run_##name(tn_kernel_call *call) {                                     \
        return binary_run_loops(call, &binary_##name);                                             \
    }
BINARY_RUN(Add)
BINARY_RUN(Sub)
BINARY_RUN(Mul)
BINARY_RUN(Div)

static tn_status binary_run_Mod(tn_kernel_call *call) {
    bool as_c = tn__attr_int(call->op, "fmod", 0) != 0;
    return binary_run_loops(call, as_c ? &binary_Fmod : &binary_Mod);
}

/* Powers of one small whole exponent, as squares in variances and cubes in GELU. */
TN_LOOP_2(binary_float_square, float, float, ((void)y, x *x))
TN_LOOP_2(binary_float_cube, float, float, ((void)y, x *x *x))

static bool binary_is_real(tn_dtype dtype) {
    return tn__is_short_float(dtype) || dtype == TN_FLOAT64;
}
static bool binary_is_signed(tn_dtype dtype) {
    return dtype == TN_INT8 || dtype == TN_INT16 || dtype == TN_INT32 || dtype == TN_INT64;
}

/* The type that holds base and exponent, which decides the type of the computation. */
static tn_dtype binary_power_type(const tn_operand *base, const tn_operand *exponent) {
    if (!binary_is_real(base->dtype) && !binary_is_real(exponent->dtype))
        return binary_is_signed(exponent->dtype) ? TN_INT64 : TN_UINT64;
    if (!tn__is_short_float(base->dtype)) return TN_FLOAT64;
    if (tn__is_short_float(exponent->dtype)) return TN_FLOAT32;
    if (tn__operand_count(exponent) != 1) return TN_FLOAT64;
    double value = tn__operand_float(exponent, 0);
    return (double)(float)value == value ? TN_FLOAT32 : TN_FLOAT64;
}

static tn_status binary_run_Pow(tn_kernel_call *call) {
    const tn_operand *exponent = &call->inputs[1];
    tn_dtype type = binary_power_type(&call->inputs[0], exponent);
    if (type == TN_FLOAT32 && tn__operand_count(exponent) == 1) {
        double value = tn__operand_float(exponent, 0);
        if (value == 2) return binary_run(call, binary_float_square, type);
        if (value == 3) return binary_run(call, binary_float_cube, type);
    }
    return binary_run(call, binary_choose(&binary_Pow, type), type);
}

static tn_status binary_run_BitShift(tn_kernel_call *call) {
    bool left = strcmp(tn__attr_string(call->op, "direction", "RIGHT"), "LEFT") == 0;
    return binary_run(call, left ? binary_left : binary_right,
                      tn__computed_type(call->inputs[0].dtype));
}

#define BINARY_BITS(name, loop)                                                                    \
    static tn_status binary_run_##name(tn_kernel_call *call) {                                     \
        return binary_run(call, loop, tn__computed_type(call->inputs[0].dtype));                   \
    }
BINARY_BITS(BitwiseAnd, binary_and)
BINARY_BITS(BitwiseOr, binary_or)
BINARY_BITS(BitwiseXor, binary_xor)

static bool binary_accepts_whole(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0);
    return tn__elementwise_accepts(setup) && x != NULL && !binary_is_real(x->dtype);
}

#define BINARY(name)                                                                               \
    { .type = #name, .accepts = tn__elementwise_accepts, .run = binary_run_##name }
#define BINARY_INT(name)                                                                           \
    { .type = #name, .accepts = binary_accepts_whole, .run = binary_run_##name }
/* clang-format off */
static const tn_kernel binary_kernels[] = {
    BINARY(Add), BINARY_INT(BitShift), BINARY_INT(BitwiseAnd), BINARY_INT(BitwiseOr),
    BINARY_INT(BitwiseXor), BINARY(Div), BINARY(Mod), BINARY(Mul), BINARY(Pow), BINARY(Sub),
};
/* clang-format on */

TN_KERNEL_FAMILY(binary, "");
