/* element.c - element types, kinds, formats, the size of one tensor, and numbers as elements of
 * plain arrays.
 *
 * Sub-byte elements are packed without padding, the last byte rounded up, as ONNX and TFLite store
 * them. A blocked format (nChw8c) stores whole blocks of channels, so dimension 1 is rounded up to
 * a multiple of the block.
 * Cost: O(rank).
 */
#include <tenure/graph.h>

#include "base/base.h"
#include "graph/element.h"
#include "graph/rules/fold.h"

#include <math.h>
#include <string.h>

/* --- types, kinds, formats, sizes ------------------------------------------------------------- */

const char *tn_dtype_name(tn_dtype dtype) {
    static const char *const names[] = {
#define TN_X(name, bits, text) text,
        TN_DTYPE_TABLE(TN_X)
#undef TN_X
    };
    return (unsigned)dtype < TN_DTYPE_COUNT ? names[dtype] : "unknown";
}

uint32_t tn_dtype_bits(tn_dtype dtype) {
    static const uint8_t bits_of[] = {
#define TN_X(name, bits, text) bits,
        TN_DTYPE_TABLE(TN_X)
#undef TN_X
    };
    return (unsigned)dtype < TN_DTYPE_COUNT ? bits_of[dtype] : 0;
}

const char *tn_kind_name(tn_kind kind) {
    static const char *const names[] = {
#define TN_X(name, text) text,
        TN_KIND_TABLE(TN_X)
#undef TN_X
    };
    return (unsigned)kind < TN_KIND_COUNT ? names[kind] : "unknown";
}

tn_status tn_tensor_size(tn_dtype dtype, tn_format format, uint32_t rank, const int64_t *shape,
                         uint64_t *bytes, tn_error *error) {
    uint32_t bits = tn_dtype_bits(dtype);
    if (rank == TN_RANK_UNKNOWN) TN_FAIL(error, TN_E_UNKNOWN, "the rank is not known");
    if (format.block && rank < 2)
        TN_FAIL(error, TN_E_INVALID,
                "a blocked format needs a dimension 1, but the tensor has rank %u; use a plain one",
                rank);
    bool empty = false;
    for (uint32_t i = 0; i < rank; i++) {
        if (shape[i] == TN_DIM_UNKNOWN)
            TN_FAIL(error, TN_E_UNKNOWN, "dimension %u is not known", i);
        if (shape[i] < 0)
            TN_FAIL(error, TN_E_INVALID, "dimension %u is negative: %lld", i, (long long)shape[i]);
        empty |= shape[i] == 0;
    }
    if (!bits)
        TN_FAIL(error, TN_E_UNKNOWN, "elements of type %s have no fixed size",
                tn_dtype_name(dtype));
    uint64_t elements = empty ? 0 : 1;
    for (uint32_t i = 0; i < rank && !empty; i++) {
        uint64_t extent = (uint64_t)shape[i], rest = 0;
        if (i == 1 && format.block && (rest = extent % format.block)) extent += format.block - rest;
        if (!tn__mul(elements, extent, &elements))
            TN_FAIL(error, TN_E_INVALID, "the number of elements overflows 64 bits at dimension %u",
                    i);
    }
    /* The number of bits may overflow where the number of bytes does not. So whole bytes are
     * counted first, then the remaining packed elements. */
    uint64_t size;
    bool fits = bits >= 8 ? tn__mul(elements, bits / 8, &size)
                          : (size = elements / (8 / bits) + (elements % (8 / bits) != 0), true);
    if (!fits || size == TN_SIZE_UNKNOWN)
        TN_FAIL(error, TN_E_INVALID, "%llu elements of %s overflow 64 bits",
                (unsigned long long)elements, tn_dtype_name(dtype));
    *bytes = size;
    return TN_OK;
}

tn_status tn_format_parse(const char *text, tn_format *format, tn_error *error) {
    tn_format parsed = {TN_ORDER_PLAIN, 0};
    if (!strcmp(text, "plain")) {
        /* "plain" is the default format, so `parsed` does not change */
    } else if (!strcmp(text, "nchw")) {
        parsed.order = TN_ORDER_NCHW;
    } else if (!strcmp(text, "nhwc")) {
        parsed.order = TN_ORDER_NHWC;
    } else {
        size_t length = strlen(text);
        uint32_t block = 0;
        bool good = length > 5 && length <= 15 && !memcmp(text, "nChw", 4) &&
                    text[length - 1] == 'c' && text[4] != '0';
        for (size_t i = 4; good && i < length - 1; i++)
            good = text[i] >= '0' && text[i] <= '9' &&
                   !__builtin_mul_overflow(block, 10u, &block) &&
                   !__builtin_add_overflow(block, (uint32_t)(text[i] - '0'), &block);
        if (!good)
            TN_FAIL(error, TN_E_UNKNOWN,
                    "no format is called '%s'; there are plain, nchw, nhwc, and nChw<N>c with a "
                    "block of N channels, as nChw8c",
                    text);
        parsed = (tn_format){TN_ORDER_NCHW, block};
    }
    *format = parsed;
    return TN_OK;
}

bool tn_tensor_is_static(const tn_tensor *tensor) {
    bool kept = tensor->kind == TN_KIND_PARAMETER || tensor->kind == TN_KIND_CONSTANT;
    bool state = tensor->kind == TN_KIND_OPTIMIZER_STATE || tensor->kind == TN_KIND_GRADIENT;
    return kept || (tensor->flags & TN_TENSOR_FOLDED) != 0 ||
           (state && tensor->producer == TN_NONE);
}

bool tn_tensor_is_constant(const tn_tensor *tensor) {
    return tn_tensor_is_static(tensor) && !(tensor->flags & TN_TENSOR_UPDATED);
}

/* --- elements of plain arrays ----------------------------------------------------------------- */

/* Reads and writes numbers as elements of a plain array. Cost: O(1) per element. */

/* Rounds a number to a float with `exponent_bits` and `fraction_bits`. frexp and ldexp are exact,
 * and nearbyint rounds to nearest even by default. */
static uint64_t element_small_float(double value, int exponent_bits, int fraction_bits) {
    int bias = (1 << (exponent_bits - 1)) - 1, exponent;
    uint64_t sign = signbit(value) ? UINT64_C(1) << (exponent_bits + fraction_bits) : 0;
    uint64_t infinity = ((UINT64_C(1) << exponent_bits) - 1) << fraction_bits;
    if (isnan(value)) return sign | infinity | UINT64_C(1) << (fraction_bits - 1);
    if (isinf(value)) return sign | infinity;
    if (value == 0) return sign;
    (void)frexp(value, &exponent);
    /* the exponent of the lowest bit of the fraction */
    int unit = exponent - 1 > -bias ? exponent - 1 : 1 - bias;
    if (unit > bias) return sign | infinity;
    /* Counted in units of the last place, the magnitude of a number is also its encoding. A carry
     * out of the fraction goes into the exponent, up to infinity. */
    uint64_t steps = (uint64_t)nearbyint(ldexp(fabs(value), fraction_bits - unit));
    return sign | (((uint64_t)(unit + bias - 1) << fraction_bits) + steps);
}

uint64_t tn__element_of(tn_dtype dtype, double value) {
    uint64_t bits = 0;
    uint32_t narrow;
    float single = (float)value;
    switch (dtype) {
    case TN_FLOAT16:
        return element_small_float(value, 5, 10);
    case TN_BFLOAT16:
        return element_small_float(value, 8, 7);
    case TN_FLOAT32:
        memcpy(&narrow, &single, sizeof narrow);
        return narrow;
    default:
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
}

/* In infinity and NaN, all bits of the exponent are set. */
uint64_t tn__first_odd(const void *data, uint64_t size, tn_dtype dtype) {
    static const struct {
        tn_dtype dtype;
        uint64_t exponent;
    } types[] = {{TN_FLOAT16, 0x7c00u},
                 {TN_BFLOAT16, 0x7f80u},
                 {TN_FLOAT32, 0x7f800000u},
                 {TN_FLOAT64, UINT64_C(0x7ff0000000000000)}};
    size_t type = 0;
    while (type < 4 && types[type].dtype != dtype) type++;
    if (type == 4) return TN_SIZE_UNKNOWN;
    uint64_t exponent = types[type].exponent, width = tn_dtype_bits(dtype) / 8;
    const uint8_t *bytes = data;
    for (uint64_t i = 0; i < size / width; i++) {
        uint64_t word = 0;
        memcpy(&word, bytes + i * width, width);
        if ((word & exponent) == exponent) return i;
    }
    return TN_SIZE_UNKNOWN;
}

bool tn__tensor_fill(const tn_tensor *tensor, void *bytes, uint64_t size) {
    const tn_value *value = tensor->value;
    uint32_t bits = tn_dtype_bits(tensor->dtype);
    bool real = tn__is_float(tensor->dtype);
    if (value == NULL || value->count == 0) return false;
    if (((uint64_t)value->count * bits + 7) / 8 != size) return false;
    if (real ? value->floats == NULL : value->ints == NULL) return false;
    /* clears the last byte as well, which may be filled only in part */
    memset(bytes, 0, (size_t)size);
    for (uint32_t i = 0; i < value->count; i++)
        tn__element_put(bytes, bits, i,
                        real ? tn__element_of(tensor->dtype, value->floats[i])
                             : (uint64_t)value->ints[i]);
    return true;
}
