/* fold.c - implements arithmetic on folded values and on extents that may be unknown, and functions
 * that families of operators share; see fold.h. */
#include "graph/rules/fold.h"

#include <inttypes.h>
#include <math.h>

/* --- arithmetic on folded values -------------------------------------------------------------- */

bool tn__is_float(tn_dtype dtype) {
    return dtype == TN_FLOAT32 || dtype == TN_FLOAT64 || dtype == TN_FLOAT16 ||
           dtype == TN_BFLOAT16;
}

/* bool counts as unsigned, too */
static bool fold_is_unsigned(tn_dtype dtype) {
    switch (dtype) {
    case TN_BOOL:
    case TN_UINT2:
    case TN_UINT4:
    case TN_UINT8:
    case TN_UINT16:
    case TN_UINT32:
    case TN_UINT64:
        return true;
    default:
        return false;
    }
}

bool tn__is_integer(tn_dtype dtype) {
    switch (dtype) {
    case TN_INT2:
    case TN_INT4:
    case TN_INT8:
    case TN_INT16:
    case TN_INT32:
    case TN_INT64:
        return true;
    default:
        return fold_is_unsigned(dtype);
    }
}

int64_t tn__wrap(tn_dtype dtype, int64_t value) {
    uint32_t bits = tn_dtype_bits(dtype);
    if (dtype == TN_BOOL) return value != 0;
    if (bits >= 64 || bits == 0) return value;
    uint64_t mask = (UINT64_C(1) << bits) - 1, low = (uint64_t)value & mask;
    if (!fold_is_unsigned(dtype) && (low >> (bits - 1) & 1)) low |= ~mask;
    int64_t wrapped;
    memcpy(&wrapped, &low, sizeof wrapped);
    return wrapped;
}

/* Rounds a number to `digits` binary digits, with exponents from `least` on (smaller numbers are
 * subnormal); above `largest` it becomes infinity. Ties go to even, as rint does in the default
 * rounding mode. */
static double fold_round_digits(double value, int digits, int least, double largest) {
    if (!isfinite(value) || value == 0) return value;
    int exponent;
    (void)frexp(value, &exponent); /* |value| in [2^(exponent-1), 2^exponent) */
    if (exponent < least) exponent = least;
    double unit = ldexp(1.0, exponent - digits);
    double rounded = rint(value / unit) * unit;
    return fabs(rounded) > largest ? copysign((double)INFINITY, value) : rounded;
}

double tn__round(tn_dtype dtype, double value) {
    switch (dtype) {
    case TN_FLOAT32:
        return (double)(float)value;
    case TN_FLOAT16:
        return fold_round_digits(value, 11, -13, 65504.0);
    case TN_BFLOAT16:
        return fold_round_digits(value, 8, -125, 0x1.fep127);
    default:
        return value;
    }
}

uint32_t tn__fold_count(const tn_infer *infer, uint32_t index) {
    const tn_tensor *output = tn__output(infer, index);
    if (!output || (output->flags & (TN_TENSOR_BOUND | TN_TENSOR_SEQUENCE))) return TN_NONE;
    uint64_t elements = tn__elements(output);
    return elements <= TN_VALUE_MAX ? (uint32_t)elements : TN_NONE;
}

tn_status tn__fold_unary(tn_infer *infer, double (*of_float)(double), int64_t (*of_int)(int64_t)) {
    const tn_tensor *output = tn__output(infer, 0);
    const tn_value *value = tn__value(infer, 0);
    if (!value || !output) return TN_OK;
    if (value->floats && of_float && tn__is_float(output->dtype)) {
        double *result = tn__scratch(infer, (size_t)value->count + 1, sizeof *result);
        if (!result) return tn__infer_no_memory(infer);
        for (uint32_t i = 0; i < value->count; i++)
            result[i] = tn__round(output->dtype, of_float(value->floats[i]));
        return tn__set_value_floats(infer, 0, result, value->count);
    }
    if (value->ints && of_int && tn__is_integer(output->dtype)) {
        int64_t *result = tn__scratch(infer, (size_t)value->count + 1, sizeof *result);
        if (!result) return tn__infer_no_memory(infer);
        for (uint32_t i = 0; i < value->count; i++)
            result[i] = tn__wrap(output->dtype, of_int(value->ints[i]));
        return tn__set_value_ints(infer, 0, result, value->count);
    }
    return TN_OK;
}

tn_status tn__fold_same(tn_infer *infer) {
    const tn_value *value = tn__value(infer, 0);
    if (!value) return TN_OK;
    return value->ints ? tn__set_value_ints(infer, 0, value->ints, value->count)
                       : tn__set_value_floats(infer, 0, value->floats, value->count);
}

tn_status tn__fold_pick(tn_infer *infer, uint32_t output, const tn_value *value,
                        const uint32_t *pick, uint32_t count) {
    int64_t *ints = tn__scratch(infer, (size_t)count + 1, sizeof *ints);
    if (!ints) return tn__infer_no_memory(infer);
    if (value->ints) {
        for (uint32_t i = 0; i < count; i++) ints[i] = value->ints[pick[i]];
        return tn__set_value_ints(infer, output, ints, count);
    }
    double *floats = tn__scratch(infer, (size_t)count + 1, sizeof *floats);
    if (!floats) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < count; i++) floats[i] = value->floats[pick[i]];
    return tn__set_value_floats(infer, output, floats, count);
}

tn_status tn__fold_spread(tn_infer *infer, uint32_t index, uint32_t count, uint32_t **spread) {
    const tn_tensor *output = tn__output(infer, 0), *input = tn__input(infer, index);
    uint32_t stride[TN_RANK_MAX] = {0}, place[TN_RANK_MAX] = {0}, step = 1, at = 0;
    *spread = NULL;
    if (input->rank > output->rank) return TN_OK;
    uint32_t shift = output->rank - input->rank;
    for (uint32_t d = input->rank; d-- > 0;) {
        if (input->shape[d] != 1 && input->shape[d] != output->shape[d + shift]) return TN_OK;
        stride[d + shift] = input->shape[d] == 1 ? 0 : step;
        /* the product cannot overflow: the input's values are known, so it has at most TN_VALUE_MAX
         * elements */
        step *= (uint32_t)input->shape[d];
    }
    uint32_t *list = tn__scratch(infer, (size_t)count + 1, sizeof *list);
    if (!list) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < count; i++) {
        list[i] = at;
        for (uint32_t d = output->rank; d-- > 0;) { /* counts the position up like an odometer */
            at += stride[d];
            if (++place[d] < output->shape[d]) break;
            at -= stride[d] * place[d];
            place[d] = 0;
        }
    }
    *spread = list;
    return TN_OK;
}

bool tn__list(const tn_infer *infer, uint32_t index, const char *name, const int64_t **list,
              uint32_t *count) {
    if (tn__input(infer, index)) {
        *list = tn__value_ints(infer, index, count);
        return *list != NULL;
    }
    *list = tn__attr_ints(infer->op, name, count);
    return true;
}

uint32_t tn__list_length(const tn_tensor *tensor) {
    if (!tensor || tensor->rank != 1 || tensor->shape[0] < 0 || tensor->shape[0] > TN_RANK_MAX ||
        (tensor->flags & TN_TENSOR_BOUND))
        return TN_NONE;
    return (uint32_t)tensor->shape[0];
}

tn_status tn__attr_dtype(tn_infer *infer, const char *name, tn_dtype otherwise, tn_dtype *dtype) {
    const tn_attr *attr = tn__attr(infer->op, name);
    int64_t number = tn__attr_int(infer->op, name, 0);
    *dtype = otherwise;
    if (!attr) return TN_OK;
    if (number <= TN_UNDEFINED || number > TN_INT2) /* ONNX's numbering of element types */
        return tn__infer_fail(infer, "attribute '%s' is %lld, which is not an element type", name,
                              (long long)number);
    *dtype = (tn_dtype)number;
    return TN_OK;
}

#define U TN_DIM_UNKNOWN
#define U8 U, U, U, U, U, U, U, U
const int64_t tn__unknown_extents[TN_RANK_MAX] = {U8, U8, U8, U8, U8, U8, U8, U8};
#undef U8
#undef U

const tn_view tn__no_view = {.source = TN_NONE};

tn_view tn__view_input(const tn_infer *infer, uint32_t index, uint64_t offset) {
    if (index >= infer->op->input_count) return tn__no_view;
    return (tn_view){.source = infer->op->inputs[index], .offset = offset};
}

uint64_t tn__inplace_broadcast(const tn_infer *infer, uint64_t mask) {
    uint32_t others = 0, bounded = 0;
    for (uint32_t i = 0; i < infer->op->input_count; i++) {
        const tn_tensor *input = tn__input(infer, i);
        if (!input) continue;
        if (input->flags & TN_TENSOR_BOUND) bounded++;
        if (tn__elements(input) != 1) others++;
    }
    return bounded && others > 1 ? 0 : mask;
}

/* --- extents ---------------------------------------------------------------------------------- */

int64_t tn__extent(const tn_tensor *tensor, int32_t axis) {
    if (!tn__rank_known(tensor)) return TN_DIM_UNKNOWN;
    int64_t at = axis < 0 ? (int64_t)tensor->rank + axis : axis;
    return at >= 0 && at < (int64_t)tensor->rank ? tensor->shape[at] : TN_DIM_UNKNOWN;
}

int64_t tn__extent_add(int64_t a, int64_t b) {
    int64_t sum;
    if (a == TN_DIM_UNKNOWN || b == TN_DIM_UNKNOWN) return TN_DIM_UNKNOWN;
    return __builtin_add_overflow(a, b, &sum) ? TN_DIM_UNKNOWN : sum;
}

int64_t tn__extent_mul(int64_t a, int64_t b) {
    int64_t product;
    if (a == TN_DIM_UNKNOWN || b == TN_DIM_UNKNOWN) return TN_DIM_UNKNOWN;
    return __builtin_mul_overflow(a, b, &product) ? TN_DIM_UNKNOWN : product;
}

int64_t tn__extent_div(int64_t a, int64_t b) {
    if (a == TN_DIM_UNKNOWN || b == TN_DIM_UNKNOWN || b < 1 || a % b != 0) return TN_DIM_UNKNOWN;
    return a / b;
}

int64_t tn__extent_div_up(int64_t a, int64_t b) {
    if (a == TN_DIM_UNKNOWN || b == TN_DIM_UNKNOWN || b < 1 || a < 0) return TN_DIM_UNKNOWN;
    return a / b + (a % b != 0);
}

tn_status tn__extents_agree(tn_infer *infer, uint32_t a, int32_t axis_a, uint32_t b,
                            int32_t axis_b) {
    const tn_tensor *left = tn__input(infer, a), *right = tn__input(infer, b);
    int64_t one = tn__extent(left, axis_a), other = tn__extent(right, axis_b);
    if (one == TN_DIM_UNKNOWN || other == TN_DIM_UNKNOWN || one == other) return TN_OK;
    /* no error if one of the extents is an upper bound: their equality is only known in a run */
    if ((left->flags | right->flags) & TN_TENSOR_BOUND) return TN_OK;
    return tn__infer_fail(infer,
                          "axis %d of '%.60s' has extent %" PRId64 " and axis %d of '%.60s' has "
                          "extent %" PRId64 "; they must be equal",
                          axis_a, left->name, one, axis_b, right->name, other);
}

tn_status tn__rank_between(tn_infer *infer, uint32_t input, uint32_t least, uint32_t most) {
    const tn_tensor *tensor = tn__input(infer, input);
    if (!tn__rank_known(tensor) || (tensor->rank >= least && tensor->rank <= most)) return TN_OK;
    return tn__infer_fail(infer, "'%.60s' has rank %u; input %u must have a rank from %u to %u",
                          tensor->name, tensor->rank, input, least, most);
}

tn_status tn__attr_count(tn_infer *infer, const char *name, int64_t otherwise, int64_t least,
                         int64_t most, int64_t *value) {
    *value = tn__attr_int(infer->op, name, otherwise);
    if (*value >= least && *value <= most) return TN_OK;
    if (tn__attr(infer->op, name) == NULL)
        return tn__infer_fail(infer, "attribute %s is missing", name);
    return tn__infer_fail(infer,
                          "attribute %s is %" PRId64 "; it must be from %" PRId64 " to %" PRId64,
                          name, *value, least, most);
}

tn_status tn__shape_as(tn_infer *infer, uint32_t output, uint32_t input, tn_dtype dtype) {
    const tn_tensor *like = tn__input(infer, input);
    if (!tn__rank_known(like)) return tn__set_dtype(infer, output, dtype);
    return tn__set_output(infer, output, dtype, like->rank, like->shape);
}

tn_status tn__shape_first(tn_infer *infer) { return tn__set_like(infer, 0, tn__input(infer, 0)); }
