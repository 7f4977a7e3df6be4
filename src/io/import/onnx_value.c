/* onnx_value.c - reads the data of small tensors, which shape arithmetic needs.
 *
 * Integers and bools of 32 and 64 bits are read up to TN_VALUE_MAX elements, everything else up to
 * ONNX_FLOATS_MAX, two per dimension of the largest rank (the scales of Resize need one, a region
 * of interest two). So the biases and normalisation parameters of a network are not read, and
 * memory stays small. Elements are in raw_data (little-endian; types below a byte begin at its low
 * bits) or in the field of their type, packed or one by one, in one or several parts.
 *
 * The payload's size was checked when the tensor was read.
 * Cost: O(elements).
 */
#include "io/import/onnx_reader.h"

#include <math.h>

static bool onnx_is_floating(tn_dtype dtype) {
    return dtype == TN_FLOAT32 || dtype == TN_FLOAT64 || dtype == TN_FLOAT16 ||
           dtype == TN_BFLOAT16;
}
static bool onnx_is_integer(tn_dtype dtype) {
    switch (dtype) {
    case TN_BOOL:
    case TN_INT2:
    case TN_UINT2:
    case TN_INT4:
    case TN_UINT4:
    case TN_INT8:
    case TN_UINT8:
    case TN_INT16:
    case TN_UINT16:
    case TN_INT32:
    case TN_UINT32:
    case TN_INT64:
    case TN_UINT64:
        return true;
    default:
        return false;
    }
}

static double onnx_half(uint32_t bits) { /* IEEE 754 binary16 */
    double fraction = (double)(bits & 0x3ff), sign = bits & 0x8000 ? -1.0 : 1.0;
    int exponent = (int)(bits >> 10 & 0x1f);
    if (exponent == 31) return bits & 0x3ff ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(fraction, -24);
    return sign * ldexp(fraction + 1024.0, exponent - 25);
}

static double onnx_floating(tn_dtype dtype, uint64_t bits) {
    double value;
    switch (dtype) {
    case TN_FLOAT16:
        return onnx_half((uint32_t)bits & 0xffff);
    case TN_BFLOAT16:
        return tn__float_of((uint32_t)(bits & 0xffff) << 16);
    case TN_FLOAT32:
        return tn__float_of((uint32_t)bits);
    default:
        memcpy(&value, &bits, sizeof value);
        return value;
    }
}

static bool onnx_is_signed(tn_dtype dtype) {
    return dtype == TN_INT2 || dtype == TN_INT4 || dtype == TN_INT8 || dtype == TN_INT16 ||
           dtype == TN_INT32 || dtype == TN_INT64;
}

/* The low bits of a stored number as the value of its type. */
static int64_t onnx_integer(tn_dtype dtype, uint64_t stored) {
    uint32_t unused = 64 - tn_dtype_bits(dtype);
    if (dtype == TN_BOOL) return stored != 0;
    if (onnx_is_signed(dtype)) return (int64_t)(stored << unused) >> unused;
    return (int64_t)(stored << unused >> unused);
}

/* Element i of packed bytes; types below a byte begin at its low bits. */
static uint64_t onnx_raw_element(tn__span raw, uint32_t bits, uint32_t i) {
    if (bits >= 8) return tn__little(raw.bytes + (size_t)i * (bits / 8), bits / 8);
    uint32_t at = i * bits;
    return (uint64_t)raw.bytes[at / 8] >> (at % 8);
}

static void onnx_raw_value(const onnx_tensor *tensor, int64_t *ints, double *floats) {
    uint32_t bits = tn_dtype_bits(tensor->dtype);
    for (uint32_t i = 0; i < tensor->elements; i++) {
        uint64_t stored = onnx_raw_element(tensor->raw, bits, i);
        if (ints)
            ints[i] = onnx_integer(tensor->dtype, stored);
        else
            floats[i] = onnx_floating(tensor->dtype, stored);
    }
}

/* Elements of a typed field, in the order of its occurrences, as they are stored. */
static tn_status onnx_typed_value(onnx_reader *reader, const onnx_tensor *tensor, int64_t *ints,
                                  double *floats, uint32_t room) {
    tn__wire wire = tn__onnx_open(reader, tensor->message, &tn__onnx_tensor_schema);
    tn__field field;
    uint32_t count = 0;
    while (tn__wire_next(&wire, &field)) {
        if (field.number != tensor->payload) continue;
        if (field.number == ONNX_TENSOR_FLOATS)
            count += tn__field_floats(&field, floats + count, room - count);
        else if (field.number == ONNX_TENSOR_DOUBLES)
            count += tn__field_doubles(&field, floats + count, room - count);
        else
            count += tn__field_varints(&wire, &field, ints + count, room - count);
    }
    return tn__wire_close(&wire, reader->importer->error);
}

/* Converts numbers of int32_data and similar fields to elements: half floats from their bits, small
 * types packed. */
static void onnx_convert(const onnx_tensor *tensor, int64_t *ints, double *floats) {
    uint32_t bits = tn_dtype_bits(tensor->dtype), count = (uint32_t)tensor->elements;
    if (onnx_is_floating(tensor->dtype)) {
        if (tensor->payload != ONNX_TENSOR_INT32S) return;
        for (uint32_t i = 0; i < count; i++)
            floats[i] = onnx_floating(tensor->dtype, (uint64_t)ints[i]);
        return;
    }
    uint32_t per_number = bits < 8 ? 8 / bits : 1;
    /* backwards, because an element never lies before its number */
    for (uint32_t i = count; i-- > 0;)
        ints[i] =
            onnx_integer(tensor->dtype, (uint64_t)ints[i / per_number] >> (i % per_number * bits));
}

tn_status tn__onnx_value(onnx_reader *reader, const onnx_tensor *tensor, tn_value *value) {
    *value = (tn_value){0};
    bool floating = onnx_is_floating(tensor->dtype);
    bool wide = tensor->dtype == TN_BOOL || tensor->dtype == TN_INT32 ||
                tensor->dtype == TN_INT64 || tensor->dtype == TN_UINT32 ||
                tensor->dtype == TN_UINT64;
    bool followed = floating || onnx_is_integer(tensor->dtype);
    if (!followed || !tensor->payload || tensor->segmented || tensor->is_external ||
        tensor->elements > (wide ? TN_VALUE_MAX : ONNX_FLOATS_MAX))
        return TN_OK;
    uint32_t count = (uint32_t)tensor->elements;
    if (!reader->ints)
        reader->ints = tn__arena_array(&reader->arena, TN_VALUE_MAX, sizeof(int64_t));
    if (!reader->ints) return tn__no_memory(reader->importer->error, "the contents of a tensor");
    if (tensor->payload == ONNX_TENSOR_RAW) {
        onnx_raw_value(tensor, floating ? NULL : reader->ints, reader->floats);
    } else {
        TN_TRY(onnx_typed_value(reader, tensor, reader->ints, reader->floats, count));
        onnx_convert(tensor, reader->ints, reader->floats);
    }
    for (uint32_t i = 0; tensor->dtype == TN_UINT64 && i < count; i++)
        if (reader->ints[i] < 0) return TN_OK; /* not exact in int64 */
    *value = (tn_value){.count = count,
                        .ints = floating ? NULL : reader->ints,
                        .floats = floating ? reader->floats : NULL};
    return TN_OK;
}
