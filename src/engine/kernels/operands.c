/* operands.c - checks of operands that kernels make before they use them. */
#include "engine/kernels/operands.h"

#include <math.h>

/* --- checks of element types and shapes --- */

static tn_dtype check_type(const tn_tensor *tensor) {
    return tensor != NULL ? tensor->dtype : TN_UNDEFINED;
}
static bool check_in(tn_dtype dtype, uint64_t types) {
    return dtype > TN_UNDEFINED && dtype < TN_DTYPE_COUNT && (types >> dtype & 1) != 0;
}

tn_dtype tn__input_type(const tn_kernel_setup *setup, uint32_t index) {
    return check_type(tn__setup_input(setup, index));
}
tn_dtype tn__output_type(const tn_kernel_setup *setup, uint32_t index) {
    return check_type(tn__setup_output(setup, index));
}
bool tn__input_is(const tn_kernel_setup *setup, uint32_t index, uint64_t types) {
    return check_in(tn__input_type(setup, index), types);
}
bool tn__input_may_be(const tn_kernel_setup *setup, uint32_t index, uint64_t types) {
    return tn__setup_input(setup, index) == NULL || tn__input_is(setup, index, types);
}
bool tn__output_is(const tn_kernel_setup *setup, uint32_t index, uint64_t types) {
    return check_in(tn__output_type(setup, index), types);
}
bool tn__output_may_be(const tn_kernel_setup *setup, uint32_t index, uint64_t types) {
    return tn__setup_output(setup, index) == NULL || tn__output_is(setup, index, types);
}

bool tn__types_agree(const tn_kernel_setup *setup, uint64_t types, uint64_t inputs,
                     uint64_t outputs) {
    tn_dtype dtype = tn__output_type(setup, 0);
    if (!check_in(dtype, types)) return false;
    uint64_t same = UINT64_C(1) << dtype;
    for (uint32_t i = 0; i < 64 && inputs >> i != 0; i++)
        if ((inputs >> i & 1) != 0 && !tn__input_may_be(setup, i, same)) return false;
    for (uint32_t i = 0; i < 64 && outputs >> i != 0; i++)
        if ((outputs >> i & 1) != 0 && !tn__output_may_be(setup, i, same)) return false;
    return true;
}

/* --- extents --- */

tn_status tn__check_count(const tn_kernel_call *call, uint32_t index, uint64_t count) {
    const tn_operand *operand = tn__call_input(call, index);
    if (operand == NULL || tn__operand_count(operand) == count) return TN_OK;
    return tn__call_fail(call, TN_E_INVALID, "input %u has %llu elements instead of %llu", index,
                         (unsigned long long)tn__operand_count(operand), (unsigned long long)count);
}

tn_status tn__call_bad_shape(const tn_kernel_call *call, uint32_t input) {
    return tn__call_fail(call, TN_E_INVALID, "the shape of input %u does not fit the others",
                         input);
}

static tn_status check_shape(const tn_kernel_call *call, const tn_operand *operand,
                             const char *which, uint32_t index, uint32_t rank,
                             const int64_t *shape) {
    if (operand == NULL) return TN_OK;
    if (operand->rank != rank)
        return tn__call_fail(call, TN_E_INVALID, "%s %u has rank %u instead of %u", which, index,
                             operand->rank, rank);
    for (uint32_t d = 0; d < rank; d++)
        if (operand->shape[d] != shape[d])
            return tn__call_fail(call, TN_E_INVALID, "dimension %u of %s %u is %lld, not %lld", d,
                                 which, index, (long long)operand->shape[d], (long long)shape[d]);
    return TN_OK;
}

tn_status tn__check_shape(const tn_kernel_call *call, uint32_t index, uint32_t rank,
                          const int64_t *shape) {
    return check_shape(call, tn__call_input(call, index), "input", index, rank, shape);
}
tn_status tn__check_result(const tn_kernel_call *call, uint32_t index, uint32_t rank,
                           const int64_t *shape) {
    return check_shape(call, tn__call_output(call, index), "output", index, rank, shape);
}

tn_status tn__check_scratch(const tn_kernel_call *call, uint64_t bytes) {
    if (bytes <= call->workspace_bytes) return TN_OK;
    return tn__call_fail(call, TN_E_INVALID,
                         "needs %llu bytes of scratch memory, more than the %llu that were planned",
                         (unsigned long long)bytes, (unsigned long long)call->workspace_bytes);
}

/* --- elements --- */

void tn__real_load(const tn_operand *operand, uint64_t at, uint64_t step, uint64_t count,
                   double *values) {
    switch (operand->dtype) {
#define CHECK_LOAD(dtype, type, convert)                                                           \
    case dtype: {                                                                                  \
        const type *from = (const type *)operand->data + at;                                       \
        for (uint64_t i = 0; i < count; i++) values[i] = (double)convert(from[i * step]);          \
        break;                                                                                     \
    }
        CHECK_LOAD(TN_FLOAT32, float, )
        CHECK_LOAD(TN_FLOAT64, double, )
        CHECK_LOAD(TN_FLOAT16, uint16_t, tn__half_to_float)
        CHECK_LOAD(TN_BFLOAT16, uint16_t, tn__bfloat_to_float)
        CHECK_LOAD(TN_INT8, int8_t, )
        CHECK_LOAD(TN_UINT8, uint8_t, )
#undef CHECK_LOAD
    default:
        for (uint64_t i = 0; i < count; i++) values[i] = 0;
    }
}

static double check_clamp(double value, double least, double most) {
    return value > least ? value < most ? nearbyint(value) : most : least;
}

void tn__real_store(const tn_operand *operand, uint64_t at, uint64_t count, const double *values) {
    switch (operand->dtype) {
#define CHECK_STORE(dtype, type, convert)                                                          \
    case dtype: {                                                                                  \
        type *to = (type *)operand->data + at;                                                     \
        for (uint64_t i = 0; i < count; i++) to[i] = (type)convert;                                \
        break;                                                                                     \
    }
        CHECK_STORE(TN_FLOAT32, float, values[i])
        CHECK_STORE(TN_FLOAT64, double, values[i])
        CHECK_STORE(TN_FLOAT16, uint16_t, tn__float_to_half((float)values[i]))
        CHECK_STORE(TN_BFLOAT16, uint16_t, tn__float_to_bfloat((float)values[i]))
        CHECK_STORE(TN_INT8, int8_t, check_clamp(values[i], -128, 127))
        CHECK_STORE(TN_UINT8, uint8_t, check_clamp(values[i], 0, 255))
#undef CHECK_STORE
    default:
        break;
    }
}
