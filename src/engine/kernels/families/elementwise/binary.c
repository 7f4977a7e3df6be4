/* binary.c - operators on two or more inputs with numpy's broadcasting: arithmetic, comparisons,
 * logic, and Max, Min, Sum, Mean of any number of inputs.
 *
 * Integers of every width are computed in 64 bits and wrap to their width. Only operations that
 * depend on the sign (division, remainder, shift to the right) have separate loops for uint64.
 * Division rounds towards zero. Integer division by zero gives 0, as in numpy, because a run must
 * not fail. The result of Mod has the sign of the divisor, or with fmod the sign of the dividend.
 * Pow computes in the type of the base: integers exactly (they wrap; a negative power is the real
 * result, rounded towards zero), otherwise in float64 if the exponent may need its precision.
 * Before opset 7, the second operand was aligned at the attribute `axis`.
 */
#include <math.h>

#include "engine/kernels/loops/blocks.h"

/* --- operations on single elements --- */

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
    /* loops for each kind of type; `uints` NULL: unsigned integers use the loop `ints` */
    tn__loop floats, doubles, ints, uints;
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

/* Operations on the bits of 64-bit integers. */
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

/* Runs a loop that reads both inputs as `type` and writes `type`. */
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

/* Powers with the exponents 2 and 3, which occur in variances and in GELU. */
TN_LOOP_2(binary_float_square, float, float, ((void)y, x *x))
TN_LOOP_2(binary_float_cube, float, float, ((void)y, x *x *x))

static bool binary_is_real(tn_dtype dtype) {
    return tn__is_short_float(dtype) || dtype == TN_FLOAT64;
}
static bool binary_is_signed(tn_dtype dtype) {
    return dtype == TN_INT8 || dtype == TN_INT16 || dtype == TN_INT32 || dtype == TN_INT64;
}

/* Returns the type in which a power is computed; it can represent base and exponent. */
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

/* --- comparisons, logic and selection ---
 *
 * Comparisons are exact: 64-bit integers are not converted to floats. Every comparison with NaN is
 * false. The operator Where copies elements of any type.
 */

/* clang-format off */
#define COMPARE(name, relation)                                                                \
    TN_LOOP_2(compare_float_##name, float, uint8_t, relation)                                  \
    TN_LOOP_2(compare_double_##name, double, uint8_t, relation)                                \
    TN_LOOP_2(compare_int_##name, int64_t, uint8_t, relation)                                  \
    TN_LOOP_2(compare_uint_##name, uint64_t, uint8_t, relation)                                \
    static tn_status compare_run_##name(tn_kernel_call *call) {                                \
        return compare_run(call, (const tn__loop[]){compare_float_##name,                      \
                                                    compare_double_##name,                     \
                                                    compare_int_##name,                        \
                                                    compare_uint_##name});                     \
    }
/* clang-format on */

/* `loops`: one each for float32, float64, int64 and uint64 */
static tn_status compare_run(tn_kernel_call *call, const tn__loop *loops) {
    tn_dtype type = tn__computed_type(call->inputs[0].dtype);
    uint32_t which = type == TN_FLOAT32 ? 0 : type == TN_FLOAT64 ? 1 : type == TN_INT64 ? 2 : 3;
    return tn__elementwise_run(call,
                               &(tn__elementwise){.loop = loops[which],
                                                  .inputs = 2,
                                                  .load = {type, type},
                                                  .make = TN_BOOL,
                                                  .aligned = call->version < 7,
                                                  .axis = tn__attr_int(call->op, "axis", -1)});
}

COMPARE(Equal, x == y)
COMPARE(Greater, x > y)
COMPARE(GreaterOrEqual, x >= y)
COMPARE(Less, x < y)
COMPARE(LessOrEqual, x <= y)

/* --- logic --- */

TN_LOOP_2(compare_and, uint8_t, uint8_t, (x != 0) & (y != 0))
TN_LOOP_2(compare_or, uint8_t, uint8_t, (x | y) != 0)
TN_LOOP_2(compare_xor, uint8_t, uint8_t, (x != 0) != (y != 0))

#define COMPARE_LOGIC(name, in_loop)                                                               \
    static tn_status compare_run_##name(tn_kernel_call *call) {                                    \
        return tn__elementwise_run(                                                                \
            call, &(tn__elementwise){.loop = in_loop,                                              \
                                     .inputs = 2,                                                  \
                                     .load = {TN_BOOL, TN_BOOL},                                   \
                                     .make = TN_BOOL,                                              \
                                     .aligned = call->version < 7,                                 \
                                     .axis = tn__attr_int(call->op, "axis", -1)});                 \
    }
COMPARE_LOGIC(And, compare_and)
COMPARE_LOGIC(Or, compare_or)
COMPARE_LOGIC(Xor, compare_xor)

/* --- Where --- */

#define COMPARE_WHERE(bits)                                                                        \
    static void compare_where_##bits(const tn__loop_block *block) {                                \
        const uint8_t *condition = block->from[0];                                                 \
        const uint##bits##_t *a = block->from[1], *b = block->from[2];                             \
        const size_t c = block->step[0], s = block->step[1], t = block->step[2];                   \
        uint##bits##_t *to = block->to;                                                            \
        const uint64_t count = block->count;                                                       \
        if (c && s && t) {                                                                         \
            TN_APART                                                                               \
            for (uint64_t i = 0; i < count; i++) {                                                 \
                const uint##bits##_t x = a[i], y = b[i];                                           \
                to[i] = condition[i] != 0 ? x : y;                                                 \
            }                                                                                      \
        } else if (c && s) {                                                                       \
            const uint##bits##_t y = *b;                                                           \
            TN_APART                                                                               \
            for (uint64_t i = 0; i < count; i++) {                                                 \
                const uint##bits##_t x = a[i];                                                     \
                to[i] = condition[i] != 0 ? x : y;                                                 \
            }                                                                                      \
        } else if (c && t) {                                                                       \
            const uint##bits##_t x = *a;                                                           \
            TN_APART                                                                               \
            for (uint64_t i = 0; i < count; i++) {                                                 \
                const uint##bits##_t y = b[i];                                                     \
                to[i] = condition[i] != 0 ? x : y;                                                 \
            }                                                                                      \
        } else {                                                                                   \
            for (uint64_t i = 0; i < count; i++)                                                   \
                to[i] = condition[i * c] != 0 ? a[i * s] : b[i * t];                               \
        }                                                                                          \
    }
COMPARE_WHERE(8)
COMPARE_WHERE(16)
COMPARE_WHERE(32)
COMPARE_WHERE(64)

static tn_status compare_run_Where(tn_kernel_call *call) {
    tn_dtype type = call->outputs[0].dtype;
    size_t size = tn__element_size(type);
    return tn__elementwise_run(call, &(tn__elementwise){.loop = size == 1   ? compare_where_8
                                                                : size == 2 ? compare_where_16
                                                                : size == 4 ? compare_where_32
                                                                            : compare_where_64,
                                                        .inputs = 3,
                                                        .load = {TN_BOOL, type, type},
                                                        .make = type});
}

#define COMPARE_ENTRY(name)                                                                        \
    { .type = #name, .accepts = tn__elementwise_accepts, .run = compare_run_##name }

/* --- Max, Min, Sum and Mean of any number of inputs ---
 *
 * Inputs are always combined from left to right, so the result does not depend on which input the
 * plan allows the output to overwrite. This is correct because a block of the output is written
 * only after that block of every input was read. If an input is NaN, Max and Min return NaN.
 */

#define VARIADIC_LOOPS(name, of_float, of_double, of_int, of_uint)                                 \
    TN_LOOP_2(variadic_float_##name, float, float, of_float)                                       \
    TN_LOOP_2(variadic_double_##name, double, double, of_double)                                   \
    TN_LOOP_2(variadic_int_##name, int64_t, int64_t, of_int)                                       \
    TN_LOOP_2(variadic_uint_##name, uint64_t, uint64_t, of_uint)                                   \
    static const tn__loop variadic_##name[] = {variadic_float_##name, variadic_double_##name,      \
                                               variadic_int_##name, variadic_uint_##name};

/* clang-format off */
VARIADIC_LOOPS(Max, x > y || x != x ? x : y, x > y || x != x ? x : y, x > y ? x : y, x > y ? x : y)
VARIADIC_LOOPS(Min, x < y || x != x ? x : y, x < y || x != x ? x : y, x < y ? x : y, x < y ? x : y)
VARIADIC_LOOPS(Sum, x + y, x + y, (uint64_t)x + (uint64_t)y, x + y)
/* clang-format on */
TN_LOOP_1(variadic_float_mean, float, float, x / (float)p[0])
TN_LOOP_1(variadic_double_mean, double, double, x / p[0])

/* number of inputs with readers that are prepared once; the readers of further inputs are prepared
 * again for every block */
enum { VARIADIC_KEPT = 8 };

typedef struct variadic_state {
    tn_kernel_call *call;
    /* `last`: a loop that is applied to the combined inputs at the end; NULL: no loop is applied */
    tn__loop loop, last;
    tn_dtype type;
    tn__operand_reader kept[VARIADIC_KEPT], other;
} variadic_state;

static tn_status variadic_load(variadic_state *state, uint32_t input, uint64_t first, size_t count,
                               tn__block_room *room, const void **from, size_t *step) {
    const tn_kernel_call *call = state->call;
    const tn__operand_reader *reader = &state->kept[input < VARIADIC_KEPT ? input : 0];
    if (input >= VARIADIC_KEPT) {
        TN_TRY(tn__reader_init(call, &call->inputs[input], &call->outputs[0], -1, &state->other));
        reader = &state->other;
    }
    *from = tn__reader_block(reader, first, count, state->type, room, step);
    return TN_OK;
}

static tn_status variadic_block(variadic_state *state, uint64_t first, size_t count) {
    const tn_operand *output = &state->call->outputs[0];
    char *to = (char *)output->data + first * tn__element_size(output->dtype);
    const double parameters[2] = {(double)state->call->input_count, 0};
    tn__block_room sum, room;
    tn__loop_block block = {.count = count, .parameters = parameters};
    TN_TRY(variadic_load(state, 0, first, count, &sum, &block.from[0], &block.step[0]));
    for (uint32_t k = 1; k < state->call->input_count; k++) {
        bool direct = k + 1 == state->call->input_count && output->dtype == state->type;
        TN_TRY(variadic_load(state, k, first, count, &room, &block.from[1], &block.step[1]));
        block.to = direct && state->last == NULL ? (void *)to : &sum;
        state->loop(&block);
        block.from[0] = block.to;
        block.step[0] = 1;
    }
    if (state->last != NULL && state->call->input_count > 1) {
        block.to = &sum;
        state->last(&block);
        block.from[0] = &sum;
    }
    if (block.from[0] != to) tn__convert(state->type, block.from[0], output->dtype, to, count);
    return TN_OK;
}

static tn_status variadic_run(tn_kernel_call *call, const tn__loop *loops, bool mean) {
    const tn_operand *output = &call->outputs[0];
    const uint64_t count = tn__operand_count(output);
    const tn_dtype type = tn__computed_type(output->dtype);
    variadic_state state = {.call = call, .type = type};
    state.loop = loops[type == TN_FLOAT32 ? 0 : type == TN_FLOAT64 ? 1 : type == TN_INT64 ? 2 : 3];
    if (mean) state.last = type == TN_FLOAT32 ? variadic_float_mean : variadic_double_mean;
    if (count == 0) return TN_OK;
    for (uint32_t k = 0; k < call->input_count && k < VARIADIC_KEPT; k++)
        TN_TRY(tn__reader_init(call, &call->inputs[k], output, -1, &state.kept[k]));
    for (uint64_t first = 0; first < count; first += TN__BLOCK) {
        size_t some = count - first < TN__BLOCK ? (size_t)(count - first) : TN__BLOCK;
        TN_TRY(variadic_block(&state, first, some));
    }
    return TN_OK;
}

static tn_status variadic_run_Max(tn_kernel_call *call) {
    return variadic_run(call, variadic_Max, false);
}
static tn_status variadic_run_Mean(tn_kernel_call *call) {
    return variadic_run(call, variadic_Sum, true);
}
static tn_status variadic_run_Min(tn_kernel_call *call) {
    return variadic_run(call, variadic_Min, false);
}
static tn_status variadic_run_Sum(tn_kernel_call *call) {
    return variadic_run(call, variadic_Sum, false);
}

static bool variadic_accepts_mean(const tn_kernel_setup *setup) {
    const tn_tensor *output = tn__setup_output(setup, 0);
    return tn__elementwise_accepts(setup) &&
           (tn__is_short_float(output->dtype) || output->dtype == TN_FLOAT64);
}

static const tn_kernel binary_kernels[] = {
    BINARY(Add),
    BINARY_INT(BitShift),
    BINARY_INT(BitwiseAnd),
    BINARY_INT(BitwiseOr),
    BINARY_INT(BitwiseXor),
    BINARY(Div),
    BINARY(Mod),
    BINARY(Mul),
    BINARY(Pow),
    BINARY(Sub),
    COMPARE_ENTRY(And),
    COMPARE_ENTRY(Equal),
    COMPARE_ENTRY(Greater),
    COMPARE_ENTRY(GreaterOrEqual),
    COMPARE_ENTRY(Less),
    COMPARE_ENTRY(LessOrEqual),
    COMPARE_ENTRY(Or),
    COMPARE_ENTRY(Where),
    COMPARE_ENTRY(Xor),
    {.type = "Max", .accepts = tn__elementwise_accepts, .run = variadic_run_Max},
    {.type = "Mean", .accepts = variadic_accepts_mean, .run = variadic_run_Mean},
    {.type = "Min", .accepts = tn__elementwise_accepts, .run = variadic_run_Min},
    {.type = "Sum", .accepts = tn__elementwise_accepts, .run = variadic_run_Sum},
};

TN_KERNEL_FAMILY(binary, "");
