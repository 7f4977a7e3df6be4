/* arithmetic.c - element-wise operators of two or more inputs, with numpy broadcasting.
 *
 * Values are computed exactly: integers wrap as their type does, division truncates, a division by
 * zero leaves the result unknown. Bounds pass through monotone operators: sums, differences, Min,
 * Max, products and quotients of non-negative numbers; comparisons are known if the bounds decide
 * them. In-place: an input with as many bytes as the output is not broadcast. Before opset 7
 * broadcasting was one-sided, so the output was like input 0.
 * Source: operator texts of ONNX, opsets 1 to 21.
 */
#include <math.h>

#include "graph/gradients/decompose.h"
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/tiles/split.h"

/* --- shapes --- */

static tn_status arithmetic_broadcast(tn_infer *infer, tn_dtype dtype, uint32_t first) {
    uint32_t count = tn__input_count(infer) - first, rank;
    const tn_tensor **tensors = tn__scratch(infer, count, sizeof *tensors);
    int64_t shape[TN_RANK_MAX];
    bool known;
    if (!tensors) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < count; i++) tensors[i] = tn__input(infer, first + i);
    if (infer->version < 7) count = 1;
    TN_TRY(tn__broadcast(infer, tensors, count, shape, &rank, &known));
    return known ? tn__set_output(infer, 0, dtype, rank, shape) : tn__set_dtype(infer, 0, dtype);
}

static tn_status arithmetic_shape(tn_infer *infer) {
    return arithmetic_broadcast(infer, tn__input(infer, 0)->dtype, 0);
}

static tn_status arithmetic_shape_bool(tn_infer *infer) {
    return arithmetic_broadcast(infer, TN_BOOL, 0);
}

static tn_status arithmetic_shape_where(tn_infer *infer) {
    tn_dtype dtype = tn__input(infer, 1)->dtype;
    return arithmetic_broadcast(infer, dtype ? dtype : tn__input(infer, 2)->dtype, 0);
}

/* SwiGLU does not broadcast: both inputs have equal shapes. */
static tn_status arithmetic_shape_alike(tn_infer *infer) {
    const tn_tensor *a = tn__input(infer, 0), *b = tn__input(infer, 1);
    TN_TRY(tn__set_like(infer, 0, tn__rank_known(a) ? a : b));
    if (!tn__rank_known(a) || !tn__rank_known(b)) return TN_OK;
    TN_TRY(tn__rank_between(infer, 1, a->rank, a->rank));
    for (uint32_t d = 0; d < a->rank; d++)
        TN_TRY(tn__extents_agree(infer, 0, (int32_t)d, 1, (int32_t)d));
    return TN_OK;
}

static tn_status arithmetic_shape_prelu(tn_infer *infer) {
    return tn__set_like(infer, 0, tn__input(infer, 0)); /* the slope broadcasts to the input */
}

/* --- contents --- */

/* a function that combines two elements of integer or floating type; `good` becomes false if there
 * is no result */
typedef struct arithmetic_pair {
    int64_t (*of_ints)(int64_t a, int64_t b, tn_dtype dtype, bool *good);
    double (*of_floats)(double a, double b);
} arithmetic_pair;

static int64_t arithmetic_add(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)dtype, (void)good;
    return (int64_t)((uint64_t)a + (uint64_t)b);
}
static int64_t arithmetic_sub(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)dtype, (void)good;
    return (int64_t)((uint64_t)a - (uint64_t)b);
}
static int64_t arithmetic_mul(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)dtype, (void)good;
    return (int64_t)((uint64_t)a * (uint64_t)b);
}
static int64_t arithmetic_div(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    if (b == 0) {
        *good = false;
        return 0;
    }
    if (dtype == TN_UINT64) return (int64_t)((uint64_t)a / (uint64_t)b);
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}
static int64_t arithmetic_remainder(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    if (b == 0) {
        *good = false;
        return 0;
    }
    if (dtype == TN_UINT64) return (int64_t)((uint64_t)a % (uint64_t)b);
    return b == -1 ? 0 : a % b;
}
static int64_t arithmetic_modulo(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    int64_t rest = arithmetic_remainder(a, b, dtype, good);
    return dtype != TN_UINT64 && rest && (rest < 0) != (b < 0) ? rest + b : rest;
}
static bool arithmetic_less(int64_t a, int64_t b, tn_dtype dtype) {
    return dtype == TN_UINT64 ? (uint64_t)a < (uint64_t)b : a < b;
}
static int64_t arithmetic_min(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)good;
    return arithmetic_less(b, a, dtype) ? b : a;
}
static int64_t arithmetic_max(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)good;
    return arithmetic_less(a, b, dtype) ? b : a;
}
static int64_t arithmetic_pow(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)dtype;
    uint64_t power = 1, base = (uint64_t)a;
    /* a negative power of an integer is a fraction, and its conversion to an integer depends on the
     * platform, so no value is computed */
    if (b < 0) *good = false;
    for (uint64_t left = b < 0 ? 0 : (uint64_t)b; left; left >>= 1, base *= base)
        if (left & 1) power *= base;
    return (int64_t)power;
}
static int64_t arithmetic_equal(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)dtype, (void)good;
    return a == b;
}
static int64_t arithmetic_greater(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)good;
    return arithmetic_less(b, a, dtype);
}
static int64_t arithmetic_greater_equal(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)good;
    return !arithmetic_less(a, b, dtype);
}
static int64_t arithmetic_lesser(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)good;
    return arithmetic_less(a, b, dtype);
}
static int64_t arithmetic_less_equal(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)good;
    return !arithmetic_less(b, a, dtype);
}
static int64_t arithmetic_and(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)dtype, (void)good;
    return a & b;
}
static int64_t arithmetic_or(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)dtype, (void)good;
    return a | b;
}
static int64_t arithmetic_xor(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)dtype, (void)good;
    return a ^ b;
}
static int64_t arithmetic_left(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)dtype, (void)good;
    return (uint64_t)b < 64 ? (int64_t)((uint64_t)a << b) : 0;
}
static int64_t arithmetic_right(int64_t a, int64_t b, tn_dtype dtype, bool *good) {
    (void)dtype, (void)good;
    return (uint64_t)b < 64 ? (int64_t)((uint64_t)a >> b) : 0;
}

static double arithmetic_float_add(double a, double b) { return a + b; }
static double arithmetic_float_sub(double a, double b) { return a - b; }
static double arithmetic_float_mul(double a, double b) { return a * b; }
static double arithmetic_float_div(double a, double b) { return a / b; }
static double arithmetic_float_modulo(double a, double b) {
    double rest = fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
static double arithmetic_float_equal(double a, double b) { return a == b; }
static double arithmetic_float_greater(double a, double b) { return a > b; }
static double arithmetic_float_greater_equal(double a, double b) { return a >= b; }
static double arithmetic_float_less(double a, double b) { return a < b; }
static double arithmetic_float_less_equal(double a, double b) { return a <= b; }

static tn_status arithmetic_set(tn_infer *infer, const int64_t *ints, const double *floats,
                                uint32_t count) {
    const tn_tensor *output = tn__output(infer, 0);
    if (ints && tn__is_integer(output->dtype)) {
        return tn__set_value_ints(infer, 0, ints, count);
        /* a comparison of floating-point numbers gives bool */
    } else if (floats && output->dtype == TN_BOOL) {
        int64_t *truths = tn__scratch(infer, (size_t)count + 1, sizeof *truths);
        if (!truths) return tn__infer_no_memory(infer);
        for (uint32_t i = 0; i < count; i++) truths[i] = floats[i] != 0;
        return tn__set_value_ints(infer, 0, truths, count);
    } else if (floats && tn__is_float(output->dtype)) {
        return tn__set_value_floats(infer, 0, floats, count);
    }
    return TN_OK;
}

/* Combines the values of all inputs, from left to right. */
static tn_status arithmetic_fold(tn_infer *infer, arithmetic_pair pair) {
    uint32_t count = tn__fold_count(infer, 0), inputs = tn__input_count(infer);
    const tn_value *first = count == TN_NONE ? NULL : tn__value(infer, 0);
    if (!first || (first->ints ? !pair.of_ints : !pair.of_floats)) return TN_OK;
    tn_dtype from = tn__input(infer, 0)->dtype, to = tn__output(infer, 0)->dtype;
    int64_t *ints = tn__scratch(infer, (size_t)count + 1, sizeof *ints);
    double *floats = tn__scratch(infer, (size_t)count + 1, sizeof *floats);
    bool good = true;
    for (uint32_t k = 0; k < inputs && good; k++) {
        const tn_value *value = tn__value(infer, k);
        if (!value || !value->ints != !first->ints) return TN_OK;
        uint32_t *index;
        TN_TRY(tn__fold_spread(infer, k, count, &index));
        if (!ints || !floats) return tn__infer_no_memory(infer);
        if (!index) return TN_OK;
        for (uint32_t i = 0; i < count && good; i++) {
            uint32_t at = index[i];
            if (first->ints)
                ints[i] = k ? tn__wrap(to, pair.of_ints(ints[i], value->ints[at], from, &good))
                            : value->ints[at];
            else
                floats[i] = k ? tn__round(to, pair.of_floats(floats[i], value->floats[at]))
                              : value->floats[at];
        }
    }
    if (!good) return TN_OK;
    return arithmetic_set(infer, first->ints ? ints : NULL, first->ints ? NULL : floats, count);
}

/* Whether bounds of products and quotients follow from the bounds of the operands: no operand may
 * be negative, and a divisor must be positive. */
static bool arithmetic_bounds_hold(const tn_infer *infer, bool positive_divisor) {
    if (!tn__value_is_bound(infer, 0) && !tn__value_is_bound(infer, 1)) return true;
    for (uint32_t k = 0; k < 2; k++) {
        const tn_value *least, *most;
        if (!tn__value_range(infer, k, &least, &most)) return false;
        for (uint32_t i = 0; i < least->count; i++) {
            double element = tn__value_at(least, i);
            if (k && positive_divisor ? !(element > 0) : !(element >= 0)) return false;
        }
    }
    return true;
}

/* Whether a relation holds for all pairs from two ranges: 0 no, 1 yes, 2 it depends on the
 * elements. */
typedef enum arithmetic_relation {
    ARITHMETIC_EQUAL,
    ARITHMETIC_GREATER,
    ARITHMETIC_GREATER_EQUAL,
    ARITHMETIC_LESS,
    ARITHMETIC_LESS_EQUAL
} arithmetic_relation;
static int arithmetic_decide(arithmetic_relation relation, const double a[2], const double b[2]) {
    switch (relation) {
    case ARITHMETIC_EQUAL:
        return a[1] < b[0] || b[1] < a[0] ? 0 : a[0] == a[1] && b[0] == b[1] ? 1 : 2;
    case ARITHMETIC_GREATER:
        return a[0] > b[1] ? 1 : a[1] <= b[0] ? 0 : 2;
    case ARITHMETIC_GREATER_EQUAL:
        return a[0] >= b[1] ? 1 : a[1] < b[0] ? 0 : 2;
    case ARITHMETIC_LESS:
        return a[1] < b[0] ? 1 : a[0] >= b[1] ? 0 : 2;
    default:
        return a[1] <= b[0] ? 1 : a[0] > b[1] ? 0 : 2;
    }
}

/* Compares values of which only bounds are known, if the bounds are enough to decide. Example: the
 * comparison `shape == -1` before an Expand does not depend on how many boxes a detector finds. */
static tn_status arithmetic_compare(tn_infer *infer, arithmetic_relation relation) {
    const tn_value *least[2], *most[2];
    uint32_t count = tn__fold_count(infer, 0), *index[2];
    if (count == TN_NONE) return TN_OK;
    for (uint32_t k = 0; k < 2; k++) {
        if (!tn__value_range(infer, k, &least[k], &most[k])) return TN_OK;
        TN_TRY(tn__fold_spread(infer, k, count, &index[k]));
        if (!index[k]) return TN_OK;
    }
    int64_t *result = tn__scratch(infer, (size_t)count + 1, sizeof *result);
    if (!result) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < count; i++) {
        const double a[2] = {tn__value_at(least[0], index[0][i]),
                             tn__value_at(most[0], index[0][i])};
        const double b[2] = {tn__value_at(least[1], index[1][i]),
                             tn__value_at(most[1], index[1][i])};
        int holds = arithmetic_decide(relation, a, b);
        /* an int64 above 2^53 is rounded when it becomes a double, so such numbers cannot be found
         * equal */
        bool rounded = fmax(fabs(a[1]), fabs(b[1])) > 0x1p53;
        if (holds == 2 || (rounded && relation == ARITHMETIC_EQUAL && holds)) return TN_OK;
        result[i] = holds;
    }
    return tn__set_value_ints(infer, 0, result, count);
}

static bool arithmetic_is_exact(const tn_infer *infer) {
    return tn__input(infer, 0)->value && tn__input(infer, 1)->value;
}

#define ARITHMETIC_COMPARE(name, ints, floats, relation)                                           \
    static tn_status arithmetic_fold_##name(tn_infer *infer) {                                     \
        return arithmetic_is_exact(infer)                                                          \
                   ? arithmetic_fold(infer, (arithmetic_pair){ints, floats})                       \
                   : arithmetic_compare(infer, relation);                                          \
    }
/* As the kernels: NaN is larger and smaller than every number. */
static double arithmetic_float_max(double a, double b) {
    return isnan(a) || isnan(b) ? (double)NAN : fmax(a, b);
}
static double arithmetic_float_min(double a, double b) {
    return isnan(a) || isnan(b) ? (double)NAN : fmin(a, b);
}

#define ARITHMETIC_FOLD(name, ints, floats)                                                        \
    static tn_status arithmetic_fold_##name(tn_infer *infer) {                                     \
        return arithmetic_fold(infer, (arithmetic_pair){ints, floats});                            \
    }
ARITHMETIC_FOLD(Add, arithmetic_add, arithmetic_float_add)
ARITHMETIC_FOLD(Sub, arithmetic_sub, arithmetic_float_sub)
ARITHMETIC_FOLD(Max, arithmetic_max, arithmetic_float_max)
ARITHMETIC_FOLD(Min, arithmetic_min, arithmetic_float_min)
ARITHMETIC_FOLD(And, arithmetic_and, NULL)
ARITHMETIC_FOLD(Or, arithmetic_or, NULL)
ARITHMETIC_FOLD(Xor, arithmetic_xor, NULL)
ARITHMETIC_COMPARE(Equal, arithmetic_equal, arithmetic_float_equal, ARITHMETIC_EQUAL)
ARITHMETIC_COMPARE(Greater, arithmetic_greater, arithmetic_float_greater, ARITHMETIC_GREATER)
ARITHMETIC_COMPARE(GreaterOrEqual, arithmetic_greater_equal, arithmetic_float_greater_equal,
                   ARITHMETIC_GREATER_EQUAL)
ARITHMETIC_COMPARE(Less, arithmetic_lesser, arithmetic_float_less, ARITHMETIC_LESS)
ARITHMETIC_COMPARE(LessOrEqual, arithmetic_less_equal, arithmetic_float_less_equal,
                   ARITHMETIC_LESS_EQUAL)

static tn_status arithmetic_shape_shift(tn_infer *infer) {
    if (!tn__attr(infer->op, "direction"))
        return tn__infer_fail(infer, "attribute direction is missing");
    return arithmetic_shape(infer);
}

/* Pow: the exponent may have another type than base and result. */
static tn_status arithmetic_fold_Pow(tn_infer *infer) {
    const tn_value *base = tn__value(infer, 0), *power = tn__value(infer, 1);
    uint32_t count = tn__fold_count(infer, 0);
    if (!base || !power || count == TN_NONE) return TN_OK;
    if (base->ints && power->ints)
        return arithmetic_fold(infer, (arithmetic_pair){arithmetic_pow, NULL});
    uint32_t *a, *b;
    TN_TRY(tn__fold_spread(infer, 0, count, &a));
    TN_TRY(tn__fold_spread(infer, 1, count, &b));
    double *floats = tn__scratch(infer, (size_t)count + 1, sizeof *floats);
    if (!floats) return tn__infer_no_memory(infer);
    /* an integer base with a fractional exponent is not evaluated */
    if (!a || !b || !base->floats) return TN_OK;
    for (uint32_t i = 0; i < count; i++)
        floats[i] = tn__round(tn__output(infer, 0)->dtype,
                              pow(base->floats[a[i]], tn__value_at(power, b[i])));
    return arithmetic_set(infer, NULL, floats, count);
}

static tn_status arithmetic_fold_Mul(tn_infer *infer) {
    if (!arithmetic_bounds_hold(infer, false)) return TN_OK;
    return arithmetic_fold(infer, (arithmetic_pair){arithmetic_mul, arithmetic_float_mul});
}

static tn_status arithmetic_fold_Div(tn_infer *infer) {
    if (!arithmetic_bounds_hold(infer, true)) return TN_OK;
    return arithmetic_fold(infer, (arithmetic_pair){arithmetic_div, arithmetic_float_div});
}

static tn_status arithmetic_fold_Mod(tn_infer *infer) {
    bool as_c = tn__attr_int(infer->op, "fmod", 0) != 0;
    return arithmetic_fold(infer,
                           as_c ? (arithmetic_pair){arithmetic_remainder, fmod}
                                : (arithmetic_pair){arithmetic_modulo, arithmetic_float_modulo});
}

static tn_status arithmetic_fold_BitShift(tn_infer *infer) {
    bool left = !strcmp(tn__attr_string(infer->op, "direction", "RIGHT"), "LEFT");
    return arithmetic_fold(infer,
                           (arithmetic_pair){left ? arithmetic_left : arithmetic_right, NULL});
}

static tn_status arithmetic_fold_Where(tn_infer *infer) {
    uint32_t count = tn__fold_count(infer, 0), conditions;
    const int64_t *condition = tn__value_ints(infer, 0, &conditions);
    const tn_value *yes = tn__value(infer, 1), *no = tn__value(infer, 2);
    if (count == TN_NONE || !condition || !yes || !no || !yes->ints != !no->ints) return TN_OK;
    int64_t *ints = tn__scratch(infer, (size_t)count + 1, sizeof *ints);
    double *floats = tn__scratch(infer, (size_t)count + 1, sizeof *floats);
    uint32_t *index[3];
    for (uint32_t k = 0; k < 3; k++) {
        TN_TRY(tn__fold_spread(infer, k, count, &index[k]));
        if (!index[k]) return TN_OK;
    }
    if (!ints || !floats) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < count; i++) {
        const tn_value *from = condition[index[0][i]] ? yes : no;
        uint32_t at = condition[index[0][i]] ? index[1][i] : index[2][i];
        if (yes->ints)
            ints[i] = from->ints[at];
        else
            floats[i] = from->floats[at];
    }
    return arithmetic_set(infer, yes->ints ? ints : NULL, yes->ints ? NULL : floats, count);
}

/* --- in-place rules, and the table of these operators --- */

static uint64_t arithmetic_inplace(tn_infer *infer, uint32_t output) {
    return output ? 0 : tn__inplace_broadcast(infer, UINT64_MAX);
}
static uint64_t arithmetic_inplace_where(tn_infer *infer, uint32_t output) {
    return output ? 0 : tn__inplace_broadcast(infer, 6);
}

#define ARITHMETIC(name, in_shape, cost)                                                           \
    .type = #name, .inputs_min = 2, .inputs_max = 2, .outputs_max = 1, .shape = in_shape,          \
    .flops_per = cost, .inplace_of = arithmetic_inplace, .split = tn__split_each
#define ARITHMETIC_TEST(name)                                                                      \
    ARITHMETIC(name, arithmetic_shape_bool, 1), .fold = arithmetic_fold_##name
#define ARITHMETIC_BITS(name, as)                                                                  \
    ARITHMETIC(name, arithmetic_shape, 1), .fold = arithmetic_fold_##as
#define ARITHMETIC_MANY(name)                                                                      \
    .type = #name, .inputs_min = 1, .inputs_max = UINT32_MAX, .outputs_max = 1,                    \
    .shape = arithmetic_shape, .flops = arithmetic_flops_many, .inplace_of = arithmetic_inplace,   \
    .monotone = UINT64_MAX, .split = tn__split_each

static uint64_t arithmetic_flops_many(tn_infer *infer) {
    uint64_t elements = tn__elements(tn__output(infer, 0));
    uint32_t inputs = tn__input_count(infer);
    return elements == TN_SIZE_UNKNOWN ? elements
                                       : tn__mul_sat(elements, inputs > 1 ? inputs - 1 : 0);
}

/* clang-format off */
static const tn_op_rule arithmetic_rules[] = {
    {ARITHMETIC(Add, arithmetic_shape, 1), .flags = TN_RULE_ARITHMETIC | TN_RULE_IMAGES,
     .fold = arithmetic_fold_Add, .monotone = 3,
     .gradient = tn__gradient_add},
    {ARITHMETIC_TEST(And)},
    {ARITHMETIC(BitShift, arithmetic_shape_shift, 1), .fold = arithmetic_fold_BitShift},
    {ARITHMETIC_BITS(BitwiseAnd, And)},
    {ARITHMETIC_BITS(BitwiseOr, Or)},
    {ARITHMETIC_BITS(BitwiseXor, Xor)},
    {ARITHMETIC(Div, arithmetic_shape, 1), .flags = TN_RULE_ARITHMETIC | TN_RULE_IMAGES,
     .fold = arithmetic_fold_Div, .monotone = 1,
     .antitone = 2, .gradient = tn__gradient_div},
    {ARITHMETIC_TEST(Equal)},
    {ARITHMETIC_TEST(Greater)},
    {ARITHMETIC_TEST(GreaterOrEqual)},
    {ARITHMETIC_TEST(Less)},
    {ARITHMETIC_TEST(LessOrEqual)},
    {ARITHMETIC_MANY(Max), .flags = TN_RULE_ARITHMETIC, .fold = arithmetic_fold_Max,
     .gradient = tn__gradient_max},
    {ARITHMETIC_MANY(Mean), .flags = TN_RULE_ARITHMETIC, .gradient = tn__gradient_mean},
    {ARITHMETIC_MANY(Min), .flags = TN_RULE_ARITHMETIC, .fold = arithmetic_fold_Min,
     .gradient = tn__gradient_min},
    {ARITHMETIC(Mod, arithmetic_shape, 2), .flags = TN_RULE_ARITHMETIC, .fold = arithmetic_fold_Mod,
     .gradient = tn__gradient_mod},
    {ARITHMETIC(Mul, arithmetic_shape, 1), .flags = TN_RULE_ARITHMETIC | TN_RULE_IMAGES,
     .fold = arithmetic_fold_Mul, .monotone = 3,
     .gradient = tn__gradient_mul},
    {ARITHMETIC_TEST(Or)},
    {.type = "PRelu", .weights = 2, .inputs_min = 2, .inputs_max = 2, .outputs_max = 1,
     .shape = arithmetic_shape_prelu, .flops_per = 2, .inplace = 1, .split = tn__split_each,
     .gradient = tn__gradient_prelu},
    {ARITHMETIC(Pow, arithmetic_shape, 20), .flags = TN_RULE_ARITHMETIC | TN_RULE_ROUGH,
     .fold = arithmetic_fold_Pow, .gradient = tn__gradient_pow},
    {ARITHMETIC(Sub, arithmetic_shape, 1), .flags = TN_RULE_ARITHMETIC | TN_RULE_IMAGES,
     .fold = arithmetic_fold_Sub, .monotone = 1,
     .antitone = 2, .gradient = tn__gradient_sub},
    {ARITHMETIC_MANY(Sum), .flags = TN_RULE_ARITHMETIC | TN_RULE_IMAGES,
     .fold = arithmetic_fold_Add, .gradient = tn__gradient_add},
    {ARITHMETIC(SwiGLU, arithmetic_shape_alike, 14), .decompose = tn__decompose_swiglu},
    {.type = "Where", .flags = TN_RULE_ARITHMETIC, .inputs_min = 3, .inputs_max = 3,
     .outputs_max = 1,
     .shape = arithmetic_shape_where, .fold = arithmetic_fold_Where, .flops_per = 1,
     .inplace_of = arithmetic_inplace_where, .monotone = 6, .split = tn__split_each,
     .gradient = tn__gradient_where},
    {ARITHMETIC_TEST(Xor)},
};
/* clang-format on */

TN_OP_FAMILY(arithmetic, "");
