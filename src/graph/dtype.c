/* dtype.c - element types, kinds, formats, and the size of one tensor.
 *
 * Sub-byte elements are packed without padding, the last byte rounded up, as ONNX and TFLite store
 * them. A blocked format (nChw8c) stores whole blocks of channels, so dimension 1 is rounded up to
 * a multiple of the block.
 * Cost: O(rank).
 */
#include <tenure/graph.h>

#include "base/base.h"

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
    /* Bits may overflow where bytes do not: whole bytes first, the packed rest after. */
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
        /* as initialised */
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
