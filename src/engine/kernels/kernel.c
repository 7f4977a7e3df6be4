/* kernel.c - the registry of kernels, and the functions that kernels use. */
#include "engine/kernels/kernel.h"

#include <math.h>
#include <stdio.h>

/* These families are built only if oneDNN's header was found and the build can run models. */
#ifdef TENURE_DNNL
#define KERNEL_LIBRARY(word) word
#else
#define KERNEL_LIBRARY(word)
#endif
#ifdef TENURE_NO_EXECUTION
#define KERNEL_PLAIN(word)
#else
#define KERNEL_PLAIN(word) word
#endif

#define TN_LIBRARY(folder, name) KERNEL_LIBRARY(extern const tn_kernel_family tn__kernels_##name;)
#define TN_KERNELS(folder, name) KERNEL_PLAIN(extern const tn_kernel_family tn__kernels_##name;)
#include "engine/kernels/families.def"
#undef TN_LIBRARY
#undef TN_KERNELS

/* A NULL at the end, because the array would be empty in a build that cannot run models. */
static const tn_kernel_family *const families[] = {
#define KERNEL_COMMA ,
#define TN_LIBRARY(folder, name) KERNEL_LIBRARY(&tn__kernels_##name KERNEL_COMMA)
#define TN_KERNELS(folder, name) KERNEL_PLAIN(&tn__kernels_##name KERNEL_COMMA)
#include "engine/kernels/families.def"
#undef TN_LIBRARY
#undef TN_KERNELS
    NULL,
};
#define KERNEL_FAMILY_COUNT (sizeof families / sizeof *families - 1)

/* --- registry --- */

uint32_t tn__kernel_family_count(void) { return (uint32_t)KERNEL_FAMILY_COUNT; }
const tn_kernel_family *tn__kernel_family_at(uint32_t index) { return families[index]; }

/* Whether the elements of every operand are in C order. */
static bool kernel_is_plain(const tn_kernel_setup *setup) {
    for (uint32_t i = 0; i < setup->op->input_count + setup->op->output_count; i++) {
        bool in = i < setup->op->input_count;
        const tn_tensor *tensor =
            in ? tn__setup_input(setup, i) : tn__setup_output(setup, i - setup->op->input_count);
        if (tensor != NULL && (tensor->format.order == TN_ORDER_NHWC || tensor->format.block))
            return false;
    }
    return true;
}

static bool kernel_accepts(const tn_kernel *kernel, const tn_kernel_setup *setup) {
    return (strcmp(kernel->type, setup->op->type) == 0 || strcmp(kernel->type, "*") == 0) &&
           (kernel->formats || kernel_is_plain(setup)) &&
           (kernel->accepts == NULL || kernel->accepts(setup));
}

static bool kernel_is_of(const char *its, const char *domain) {
    return strcmp(its, domain) == 0 || strcmp(its, "*") == 0;
}

const tn_kernel *tn__kernel_find(const tn_kernel_setup *setup, bool library,
                                 const tn_kernel *previous) {
    bool seen = previous == NULL;
    const char *domain = strcmp(setup->op->domain, "ai.onnx") == 0 ? "" : setup->op->domain;
    for (size_t f = 0; f < KERNEL_FAMILY_COUNT; f++) {
        const tn_kernel_family *family = families[f];
        if (family->library && !library) continue;
        for (uint32_t k = 0; k < family->kernel_count; k++) {
            const tn_kernel *kernel = &family->kernels[k];
            if (!seen)
                seen = kernel == previous;
            else if (kernel_is_of(tn__kernel_domain(family, kernel), domain) &&
                     kernel_accepts(kernel, setup))
                return kernel;
        }
    }
    return NULL;
}

const tn_kernel_family *tn__kernel_family(const tn_kernel *kernel) {
    size_t f = 0;
    while (kernel < families[f]->kernels ||
           kernel >= families[f]->kernels + families[f]->kernel_count)
        f++;
    return families[f];
}

const char *tn__kernel_domain(const tn_kernel_family *family, const tn_kernel *kernel) {
    return kernel->domain != NULL ? kernel->domain : family->domain;
}

tn_status tn__kernel_prepare(const tn_kernel *kernel, tn_kernel_setup *setup) {
    setup->kernel = kernel;
    if (kernel->prepare != NULL) return kernel->prepare(setup);
    if (kernel->workspace != NULL) setup->workspace = kernel->workspace(setup);
    return TN_OK;
}

/* --- operands --- */

const tn_tensor *tn__setup_input(const tn_kernel_setup *setup, uint32_t index) {
    if (index >= setup->op->input_count || setup->op->inputs[index] == TN_NONE) return NULL;
    if (setup->inputs_as != NULL) return &setup->inputs_as[index];
    return tn_graph_tensor(setup->graph, setup->op->inputs[index]);
}

const tn_tensor *tn__setup_output(const tn_kernel_setup *setup, uint32_t index) {
    if (index >= setup->op->output_count || setup->op->outputs[index] == TN_NONE) return NULL;
    if (setup->outputs_as != NULL) return &setup->outputs_as[index];
    return tn_graph_tensor(setup->graph, setup->op->outputs[index]);
}

bool tn__setup_is_static(const tn_kernel_setup *setup, uint32_t index) {
    const tn_tensor *tensor = tn__setup_input(setup, index);
    return tensor != NULL && tn_tensor_is_constant(tensor);
}

tn_view tn__setup_view(const tn_kernel_setup *setup, uint32_t output) {
    return tn_op_view(setup->graph, setup->id, output);
}

uint64_t tn__setup_changes(const tn_kernel_setup *setup) {
    return tn_op_changes(setup->graph, setup->id);
}

bool tn__setup_joins(const tn_kernel_setup *setup) { return tn_op_joins(setup->graph, setup->id); }

const tn_value *tn__setup_attr_value(const tn_kernel_setup *setup, const tn_attr *attr) {
    return tn_graph_tensor(setup->graph, attr->tensor)->value;
}

const tn_value *tn__call_attr_value(const tn_kernel_call *call, const tn_attr *attr) {
    return tn_graph_tensor(call->graph, attr->tensor)->value;
}

bool tn__call_is_bound(const tn_kernel_call *call, uint32_t output) {
    if (call->graph == NULL) return true;
    return (tn_graph_tensor(call->graph, call->op->outputs[output])->flags & TN_TENSOR_BOUND) != 0;
}

const tn_value *tn__setup_value(const tn_kernel_setup *setup, uint32_t index) {
    const tn_tensor *tensor = tn__setup_input(setup, index);
    const tn_value *value = tensor != NULL ? tensor->value : NULL;
    return value != NULL && tn__value_is_read(value) ? value : NULL;
}

const tn_operand *tn__call_input(const tn_kernel_call *call, uint32_t index) {
    return index < call->input_count && !call->inputs[index].omitted ? &call->inputs[index] : NULL;
}

tn_operand *tn__call_output(const tn_kernel_call *call, uint32_t index) {
    return index < call->output_count && !call->outputs[index].omitted ? &call->outputs[index]
                                                                       : NULL;
}

uint64_t tn__operand_span(const tn_operand *operand, uint32_t first, uint32_t last) {
    uint64_t count = 1;
    for (uint32_t d = first; d < last && d < operand->rank; d++)
        count *= (uint64_t)operand->shape[d];
    return count;
}

uint64_t tn__operand_count(const tn_operand *operand) {
    return tn__operand_span(operand, 0, operand->rank);
}

uint64_t tn__operand_bytes(const tn_operand *operand) {
    uint64_t bytes;
    return tn_tensor_size(operand->dtype, operand->format, operand->rank, operand->shape, &bytes,
                          NULL) == TN_OK
               ? bytes
               : 0;
}

void tn__operand_copy(tn_operand *to, const tn_operand *from) {
    if (to->data != from->data) memcpy(to->data, from->data, tn__operand_bytes(to));
}

void tn__operand_strides(const tn_operand *operand, uint32_t rank, int64_t *strides) {
    int64_t stride = 1;
    for (uint32_t d = rank; d-- > 0;) {
        uint32_t missing = rank - operand->rank;
        int64_t extent = d >= missing ? operand->shape[d - missing] : 1;
        strides[d] = extent == 1 ? 0 : stride;
        stride *= extent;
    }
}

/* --- elements --- */

float tn__half_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000u) << 16, exponent = (half >> 10) & 31u;
    uint32_t fraction = half & 0x3ffu, bits;
    float result;
    if (exponent == 0) { /* zero or subnormal: the fraction times 2^-24 */
        result = (float)fraction * 0x1p-24f;
        return sign ? -result : result;
    }
    bits = exponent == 31 ? sign | 0x7f800000u | fraction << 13
                          : sign | (exponent + 112u) << 23 | fraction << 13;
    memcpy(&result, &bits, sizeof result);
    return result;
}

uint16_t tn__float_to_half(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    /* 65520 and above round to infinity */
    if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);
    if (magnitude < 0x38800000u) { /* subnormal: a multiple of 2^-24 */
        float scaled = fabsf(value) * 0x1p24f;
        return (uint16_t)(sign | (uint32_t)nearbyintf(scaled));
    }
    uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
    return (uint16_t)(sign | (rounded - 0x38000000u) >> 13);
}

uint16_t tn__float_to_bfloat(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);
    return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

static double operand_read(const tn_operand *operand, uint64_t index, int64_t *whole) {
    const void *data = operand->data;
    double real = 0;
    switch (operand->dtype) {
#define OPERAND_INT(dtype, type)                                                                   \
    case dtype:                                                                                    \
        *whole = (int64_t)((const type *)data)[index];                                             \
        return (double)((const type *)data)[index];
        OPERAND_INT(TN_UINT8, uint8_t)
        OPERAND_INT(TN_BOOL, uint8_t)
        OPERAND_INT(TN_INT8, int8_t)
        OPERAND_INT(TN_UINT16, uint16_t)
        OPERAND_INT(TN_INT16, int16_t)
        OPERAND_INT(TN_UINT32, uint32_t)
        OPERAND_INT(TN_INT32, int32_t)
        OPERAND_INT(TN_UINT64, uint64_t)
        OPERAND_INT(TN_INT64, int64_t)
#undef OPERAND_INT
    case TN_FLOAT32:
        real = (double)((const float *)data)[index];
        break;
    case TN_FLOAT64:
        real = ((const double *)data)[index];
        break;
    case TN_FLOAT16:
        real = (double)tn__half_to_float(((const uint16_t *)data)[index]);
        break;
    case TN_BFLOAT16:
        real = (double)tn__bfloat_to_float(((const uint16_t *)data)[index]);
        break;
    default:
        break;
    }
    *whole = real >= 0x1p63    ? INT64_MAX
             : real <= -0x1p63 ? INT64_MIN
             : isnan(real)     ? 0
                               : (int64_t)real;
    return real;
}

int64_t tn__operand_int(const tn_operand *operand, uint64_t index) {
    int64_t whole;
    operand_read(operand, index, &whole);
    return whole;
}

double tn__operand_float(const tn_operand *operand, uint64_t index) {
    int64_t whole;
    return operand_read(operand, index, &whole);
}

/* --- errors --- */

tn_status tn__call_fail(const tn_kernel_call *call, tn_status status, const char *format, ...) {
    char text[sizeof((tn_error *)0)->message];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    tn__fail(call->error, status, "%s", text);
    return tn__where(call->error, status, "node '%.60s' (%.30s)", call->op->name, call->op->type);
}

tn_status tn__call_axis(const tn_kernel_call *call, int64_t axis, uint32_t rank, uint32_t *result) {
    int64_t at = axis < 0 ? axis + (int64_t)rank : axis;
    if (at < 0 || at >= (int64_t)rank)
        return tn__call_fail(call, TN_E_INVALID, "axis %lld is outside rank %u", (long long)axis,
                             rank);
    *result = (uint32_t)at;
    return TN_OK;
}
