/* onnx_tensor.c - reads TensorProto: the size of a payload and its consistency, without reading the
 * payload.
 *
 * A weight is described by its dims and data_type. Its payload is measured (a length in the file,
 * or the declared length of an external one) and must match them; a missing payload is allowed,
 * because models are shipped without weights. An external file is not opened here.
 *
 * Cost: O(fields); a packed varint payload is counted only up to ONNX_COUNT_MAX bytes, beyond that
 * the least and the largest possible count are compared.
 */
#include "io/import/onnx/onnx_reader.h"

#include <math.h>

#define ONNX_COUNT_MAX (1u << 16)

static tn_status onnx_dtype(onnx_reader *reader, uint64_t number, tn_dtype *dtype) {
    if (number > TN_INT2)
        TN_FAIL(reader->importer->error, TN_E_INVALID,
                "element type %lld is none of ONNX's (0 to %d)", (long long)number, TN_INT2);
    *dtype = (tn_dtype)number;
    return TN_OK;
}

/* The smallest and largest number of elements that a payload can hold. */
typedef struct onnx_payload {
    uint64_t least, most;
} onnx_payload;

static bool onnx_is_complex(tn_dtype dtype) {
    return dtype == TN_COMPLEX64 || dtype == TN_COMPLEX128;
}
/* The field that has the elements of this type if raw_data does not. */
static uint32_t onnx_payload_field(tn_dtype dtype) {
    switch (dtype) {
    case TN_FLOAT32:
    case TN_COMPLEX64:
        return ONNX_TENSOR_FLOATS;
    case TN_FLOAT64:
    case TN_COMPLEX128:
        return ONNX_TENSOR_DOUBLES;
    case TN_INT64:
        return ONNX_TENSOR_INT64S;
    case TN_UINT32:
    case TN_UINT64:
        return ONNX_TENSOR_UINT64S;
    case TN_STRING:
        return ONNX_TENSOR_STRINGS;
    default:
        return ONNX_TENSOR_INT32S;
    }
}

/* --- external data --- */

static bool onnx_decimal(tn__span text, uint64_t *value) {
    uint64_t result = 0;
    for (size_t i = 0; i < text.size; i++) {
        if (text.bytes[i] < '0' || text.bytes[i] > '9' || !tn__mul(result, 10, &result) ||
            !tn__add(result, (uint64_t)(text.bytes[i] - '0'), &result))
            return false;
    }
    *value = result;
    return text.size > 0;
}

/* Whether a path is relative and without `..`, as the specification requires, with either
 * separator. */
static bool onnx_path_is_safe(tn__span path) {
    size_t first = 0;
    bool drive = path.size > 1 && path.bytes[1] == ':';
    if (!path.size || path.bytes[0] == '/' || path.bytes[0] == '\\' || drive) return false;
    for (size_t i = 0; i <= path.size; i++) {
        if (i < path.size && path.bytes[i] != '/' && path.bytes[i] != '\\') continue;
        if (i - first == 2 && path.bytes[first] == '.' && path.bytes[first + 1] == '.')
            return false;
        first = i + 1;
    }
    return true;
}

static tn_status onnx_external_entry(onnx_reader *reader, tn__span message,
                                     onnx_external *external) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_entry_schema);
    tn__field field;
    tn__span key = {0}, value = {0};
    while (tn__wire_next(&wire, &field))
        *(field.number == ONNX_ENTRY_KEY ? &key : &value) = field.span;
    TN_TRY(tn__wire_close(&wire, reader->importer->error));
    if (tn__span_is(key, "location")) external->location = value;
    bool is_length = tn__span_is(key, "length");
    if (is_length || tn__span_is(key, "offset")) {
        if (!onnx_decimal(value, is_length ? &external->length : &external->offset))
            TN_FAIL(reader->importer->error, TN_E_INVALID,
                    "the %s of its external data is not a decimal number of bytes",
                    is_length ? "length" : "offset");
        external->has_length = external->has_length || is_length;
    }
    return TN_OK;
}

static tn_status onnx_check_external(onnx_reader *reader, const onnx_tensor *tensor,
                                     uint64_t bytes) {
    const onnx_external *external = &tensor->external;
    tn_error *error = reader->importer->error;
    if (tensor->dtype == TN_STRING)
        TN_FAIL(error, TN_E_INVALID, "strings cannot be stored as external data");
    if (!external->location.size)
        TN_FAIL(error, TN_E_INVALID, "its data is external, but no location is given");
    if (!onnx_path_is_safe(external->location))
        TN_FAIL(error, TN_E_INVALID,
                "its external data is outside the model's folder; ONNX allows relative paths "
                "without `..` only");
    if (external->has_length && external->length != bytes)
        TN_FAIL(error, TN_E_INVALID,
                "its external data has %llu bytes, but its shape and type need %llu",
                (unsigned long long)external->length, (unsigned long long)bytes);
    return TN_OK;
}

/* --- size --- */

/* Computes the number of elements and bytes. Errors: E_INVALID for a negative extent or a size
 * beyond 2^63 - 1. */
static tn_status onnx_tensor_size(onnx_reader *reader, onnx_tensor *tensor, uint64_t *bytes) {
    uint64_t elements = 1, bits;
    bool empty = false, fits = true;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        if (tensor->shape[i] < 0)
            TN_FAIL(reader->importer->error, TN_E_INVALID, "dimension %u is negative (%lld)", i,
                    (long long)tensor->shape[i]);
        empty = empty || tensor->shape[i] == 0;
        fits = fits && tn__mul(elements, (uint64_t)tensor->shape[i], &elements);
    }
    if (empty) elements = 0;
    fits = empty || (fits && tn__mul(elements, tn_dtype_bits(tensor->dtype), &bits));
    if (!fits || elements > INT64_MAX)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "the size of its shape overflows 64 bits");
    tensor->elements = elements;
    *bytes = empty ? 0 : bits / 8 + (bits % 8 != 0);
    return TN_OK;
}

static tn_status onnx_check_payload(onnx_reader *reader, const onnx_tensor *tensor,
                                    const onnx_payload *payload, uint64_t bytes) {
    tn_error *error = reader->importer->error;
    if (tensor->payload == ONNX_TENSOR_RAW) {
        if (tensor->dtype == TN_STRING)
            TN_FAIL(error, TN_E_INVALID, "strings cannot be stored as raw_data");
        if (tensor->raw.size != bytes)
            TN_FAIL(error, TN_E_INVALID, "it holds %zu bytes, but its shape and type need %llu",
                    tensor->raw.size, (unsigned long long)bytes);
        return TN_OK;
    }
    if (tensor->payload != onnx_payload_field(tensor->dtype))
        TN_FAIL(error, TN_E_INVALID, "its elements are stored in a field for another type than %s",
                tn_dtype_name(tensor->dtype));
    uint64_t expected = tensor->elements;
    if (onnx_is_complex(tensor->dtype)) expected *= 2;
    if (tn_dtype_bits(tensor->dtype) < 8 && tensor->dtype != TN_STRING) expected = bytes;
    if (expected < payload->least || expected > payload->most)
        TN_FAIL(error, TN_E_INVALID, "it holds %s%llu elements, but its shape needs %llu",
                payload->least == payload->most ? "" : "at most ",
                (unsigned long long)payload->most, (unsigned long long)expected);
    return TN_OK;
}

/* --- reading --- */

tn_status tn__onnx_dims(onnx_reader *reader, tn__wire *wire, const tn__field *field, uint32_t *rank,
                        int64_t *shape) {
    uint64_t count = tn__field_count_varints(field);
    if (count > TN_RANK_MAX - *rank)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "more than %u dimensions", TN_RANK_MAX);
    *rank += tn__field_varints(wire, field, shape + *rank, TN_RANK_MAX - *rank);
    return TN_OK;
}

/* Adds the size that one occurrence of a payload field declares. */
static tn_status onnx_measure(onnx_reader *reader, const tn__field *field, onnx_tensor *tensor,
                              onnx_payload *payload) {
    tn_error *error = reader->importer->error;
    if (field->type == TN_WIRE_BYTES && !field->span.size && field->number != ONNX_TENSOR_STRINGS)
        return TN_OK; /* an empty field counts as absent */
    if (tensor->payload && tensor->payload != field->number)
        TN_FAIL(error, TN_E_INVALID, "its elements are stored twice, in two fields");
    tensor->payload = field->number;
    uint64_t least = 1, most = 1;
    if (field->number == ONNX_TENSOR_RAW) {
        tensor->raw = field->span;
    } else if (field->number == ONNX_TENSOR_FLOATS || field->number == ONNX_TENSOR_DOUBLES) {
        uint32_t width = field->number == ONNX_TENSOR_FLOATS ? 4 : 8;
        least = most = tn__field_count_fixed(field, width);
        if (field->type == TN_WIRE_BYTES && field->span.size % width)
            TN_FAIL(error, TN_E_INVALID, "its elements are cut off");
    } else if (field->number != ONNX_TENSOR_STRINGS && field->type == TN_WIRE_BYTES) {
        least = field->span.size / 10;
        most = field->span.size;
        if (most <= ONNX_COUNT_MAX) least = most = tn__field_count_varints(field);
    }
    payload->least += least;
    payload->most += most;
    return TN_OK;
}

static tn_status onnx_tensor_field(onnx_reader *reader, tn__wire *wire, const tn__field *field,
                                   onnx_tensor *tensor, onnx_payload *payload) {
    switch (field->number) {
    case ONNX_TENSOR_DIMS:
        return tn__onnx_dims(reader, wire, field, &tensor->rank, tensor->shape);
    case ONNX_TENSOR_TYPE:
        return onnx_dtype(reader, field->value, &tensor->dtype);
    case ONNX_TENSOR_NAME:
        tensor->name = field->span;
        return TN_OK;
    case ONNX_TENSOR_SEGMENT:
        tensor->segmented = true;
        return TN_OK;
    case ONNX_TENSOR_LOCATION:
        tensor->is_external = field->value == 1;
        return TN_OK;
    case ONNX_TENSOR_EXTERNAL:
        return onnx_external_entry(reader, field->span, &tensor->external);
    default:
        return onnx_measure(reader, field, tensor, payload);
    }
}

static tn_status onnx_tensor_read(onnx_reader *reader, tn__span message, onnx_tensor *tensor) {
    const tn_importer *importer = reader->importer;
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_tensor_schema);
    onnx_payload payload = {0};
    tn__field field;
    uint64_t bytes;
    while (tn__wire_next(&wire, &field))
        TN_TRY(onnx_tensor_field(reader, &wire, &field, tensor, &payload));
    TN_TRY(tn__wire_close(&wire, reader->importer->error));
    if (tensor->dtype == TN_UNDEFINED)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "it has no element type");
    TN_TRY(onnx_tensor_size(reader, tensor, &bytes));
    if (tensor->is_external && importer->met != NULL &&
        !importer->met(importer->met_self, 0, TN__MET_EXTERNAL, TN_NONE))
        return tn__onnx_no_memory(reader);
    if (tensor->is_external) return onnx_check_external(reader, tensor, bytes);
    /* a segment is only a part of a tensor, so the size of its payload is not checked */
    if (!tensor->payload || tensor->segmented) return TN_OK;
    return onnx_check_payload(reader, tensor, &payload, bytes);
}

static tn_status onnx_sparse_read(onnx_reader *reader, tn__span message, onnx_tensor *tensor) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_sparse_schema);
    tn__field field;
    tn__span values = {0};
    uint32_t rank = 0;
    uint64_t bytes;
    int64_t shape[TN_RANK_MAX];
    while (tn__wire_next(&wire, &field)) {
        if (field.number == ONNX_SPARSE_VALUES) values = field.span;
        if (field.number == ONNX_SPARSE_DIMS)
            TN_TRY(tn__onnx_dims(reader, &wire, &field, &rank, shape));
    }
    TN_TRY(tn__wire_close(&wire, reader->importer->error));
    TN_TRY(onnx_tensor_read(reader, values, tensor));
    /* a sparse tensor counts as having no payload, because the stored values are not the data of
     * the dense tensor */
    tensor->payload = 0;
    tensor->rank = rank;
    memcpy(tensor->shape, shape, rank * sizeof *shape);
    return onnx_tensor_size(reader, tensor, &bytes);
}

/* Reads the name of a tensor. In the message it comes after the dims, which may be invalid. */
tn__span tn__onnx_tensor_name(const onnx_reader *reader, tn__span message, bool sparse) {
    tn__wire wire =
        tn__onnx_open(reader, message, sparse ? &tn__onnx_sparse_schema : &tn__onnx_tensor_schema);
    uint32_t number = sparse ? (uint32_t)ONNX_SPARSE_VALUES : (uint32_t)ONNX_TENSOR_NAME;
    tn__field field;
    tn__span found = {0};
    while (tn__wire_next(&wire, &field))
        if (field.number == number) found = field.span;
    return sparse && found.size ? tn__onnx_tensor_name(reader, found, false) : found;
}

tn_status tn__onnx_tensor(onnx_reader *reader, tn__span message, bool sparse, onnx_tensor *tensor) {
    memset(tensor, 0, offsetof(onnx_tensor, shape));
    tensor->message = message;
    return (sparse ? onnx_sparse_read : onnx_tensor_read)(reader, message, tensor);
}

/* --- small tensor data ------------------------------------------------------------------------ */

/* Reads the data of small tensors, which shape arithmetic needs.
 *
 * Integers of 32 and 64 bits and bools are read up to TN_VALUE_MAX elements, everything else up to
 * ONNX_FLOATS_MAX, two per dimension of the largest rank (the scales of Resize need one, a region
 * of interest two). So the biases and normalisation parameters of a network are not read, and
 * memory stays small. Elements are in raw_data (little-endian; types below a byte begin at its low
 * bits) or in the field of their type, packed or one by one, in one or several parts.
 *
 * The payload's size was checked when the tensor was read.
 * Cost: O(elements).
 */

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

static double onnx_half(uint32_t bits) { /* Converts an IEEE 754 binary16 number. */
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

/* Converts the low bits of a stored number to a value of its type. */
static int64_t onnx_integer(tn_dtype dtype, uint64_t stored) {
    uint32_t unused = 64 - tn_dtype_bits(dtype);
    if (dtype == TN_BOOL) return stored != 0;
    if (onnx_is_signed(dtype)) return (int64_t)(stored << unused) >> unused;
    return (int64_t)(stored << unused >> unused);
}

/* Returns element i of packed bytes. In types below a byte the first element is in the lowest
 * bits. */
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

/* Reads the elements of a typed field as they are stored, in the order of its occurrences. */
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

/* Converts numbers of int32_data and similar fields to elements: half floats are stored as their
 * bits, and small types are packed. */
static void onnx_convert(const onnx_tensor *tensor, int64_t *ints, double *floats) {
    uint32_t bits = tn_dtype_bits(tensor->dtype), count = (uint32_t)tensor->elements;
    if (onnx_is_floating(tensor->dtype)) {
        if (tensor->payload != ONNX_TENSOR_INT32S) return;
        for (uint32_t i = 0; i < count; i++)
            floats[i] = onnx_floating(tensor->dtype, (uint64_t)ints[i]);
        return;
    }
    uint32_t per_number = bits < 8 ? 8 / bits : 1;
    /* backwards, because an element never lies before the number that holds it */
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
        /* a uint64 element is too large for int64, so the tensor gets no value */
        if (reader->ints[i] < 0) return TN_OK;
    *value = (tn_value){.count = count,
                        .ints = floating ? NULL : reader->ints,
                        .floats = floating ? reader->floats : NULL};
    return TN_OK;
}

/* --- ValueInfoProto --------------------------------------------------------------------------- */

/* Reads ValueInfoProto: element type and shape as the file states them.
 *
 * Sequences and optionals are followed to the tensor inside. Maps and opaque values have no size
 * that could be planned, and their type stays unknown. A dimension without value and name, with an
 * empty name, or of -1 (as some exporters write "any") is unknown; 0 is a normal extent.
 */

#define ONNX_TYPE_DEPTH 8u /* limit of nesting: a sequence of optionals of ... */

static tn_status onnx_type_dim(onnx_reader *reader, tn__span message, onnx_type *type,
                               uint32_t axis) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_dimension_schema);
    tn__field field;
    type->shape[axis] = TN_DIM_UNKNOWN;
    type->symbols[axis] = (tn__span){0};
    while (tn__wire_next(&wire, &field)) {
        if (field.number == ONNX_DIM_PARAM) {
            type->symbols[axis] = field.span;
            type->shape[axis] = TN_DIM_UNKNOWN;
        } else {
            int64_t value = tn__field_int(&field);
            type->symbols[axis] = (tn__span){0};
            type->shape[axis] = value == -1 ? TN_DIM_UNKNOWN : value;
            if (value < -1)
                TN_FAIL(reader->importer->error, TN_E_INVALID, "dimension %u is negative (%lld)",
                        axis, (long long)value);
        }
    }
    return tn__wire_close(&wire, reader->importer->error);
}

static tn_status onnx_type_shape(onnx_reader *reader, tn__span message, onnx_type *type) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_shape_schema);
    tn__field field;
    type->rank = 0;
    while (tn__wire_next(&wire, &field)) {
        if (type->rank == TN_RANK_MAX)
            TN_FAIL(reader->importer->error, TN_E_INVALID, "more than %u dimensions", TN_RANK_MAX);
        TN_TRY(onnx_type_dim(reader, field.span, type, type->rank));
        type->rank++;
    }
    return tn__wire_close(&wire, reader->importer->error);
}

static tn_status onnx_type_tensor(onnx_reader *reader, tn__span message, onnx_type *type) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_tensor_type_schema);
    tn__field field;
    while (tn__wire_next(&wire, &field)) {
        if (field.number == ONNX_TENSOR_TYPE_SHAPE) {
            TN_TRY(onnx_type_shape(reader, field.span, type));
        } else {
            TN_TRY(onnx_dtype(reader, field.value, &type->dtype));
        }
    }
    return tn__wire_close(&wire, reader->importer->error);
}

/* Finds the alternative that a TypeProto holds: its field number (0: none) and its message. */
static tn_status onnx_type_choice(onnx_reader *reader, tn__span message, uint32_t *choice,
                                  tn__span *inner) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_type_schema);
    tn__field field;
    *choice = 0;
    while (tn__wire_next(&wire, &field)) {
        *choice = field.number;
        *inner = field.span;
    }
    return tn__wire_close(&wire, reader->importer->error);
}

static tn_status onnx_type_element(onnx_reader *reader, tn__span message, tn__span *element) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_nested_type_schema);
    tn__field field;
    *element = (tn__span){0};
    while (tn__wire_next(&wire, &field)) *element = field.span;
    return tn__wire_close(&wire, reader->importer->error);
}

static tn_status onnx_type_read(onnx_reader *reader, tn__span message, onnx_type *type) {
    *type = (onnx_type){.rank = TN_RANK_UNKNOWN};
    for (uint32_t depth = 0; depth < ONNX_TYPE_DEPTH; depth++) {
        uint32_t choice;
        tn__span inner = {0};
        TN_TRY(onnx_type_choice(reader, message, &choice, &inner));
        if (choice == ONNX_TYPE_TENSOR || choice == ONNX_TYPE_SPARSE)
            return onnx_type_tensor(reader, inner, type);
        bool nested = choice == ONNX_TYPE_SEQUENCE || choice == ONNX_TYPE_OPTIONAL;
        bool twice = choice == ONNX_TYPE_SEQUENCE && type->flags;
        /* the type stays unknown if it is a map, an opaque value, a list of lists, or missing */
        if (!nested || twice) break;
        if (choice == ONNX_TYPE_SEQUENCE) type->flags = TN_TENSOR_SEQUENCE;
        TN_TRY(onnx_type_element(reader, inner, &message));
    }
    type->flags = 0;
    return TN_OK;
}

/* Reads only the name of a ValueInfoProto, which usually comes first. The whole message is checked
 * later, when it is read. */
tn_status tn__onnx_value_info_name(onnx_reader *reader, tn__span message, tn__span *name) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_value_info_schema);
    tn__field field;
    *name = (tn__span){0};
    while (!name->size && tn__wire_next(&wire, &field))
        if (field.number == ONNX_INFO_NAME) *name = field.span;
    return tn__wire_close(&wire, reader->importer->error);
}

tn_status tn__onnx_value_info(onnx_reader *reader, tn__span message, onnx_type *type) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_value_info_schema);
    tn__field field;
    tn__span name = {0}, inner = {0};
    while (tn__wire_next(&wire, &field))
        *(field.number == ONNX_INFO_NAME ? &name : &inner) = field.span;
    TN_TRY(tn__wire_close(&wire, reader->importer->error));
    tn_status status = onnx_type_read(reader, inner, type);
    return status == TN_OK ? TN_OK : tn__onnx_where(reader, status, "value", name);
}

void tn__onnx_type_settle(onnx_reader *reader, onnx_type *type) {
    for (uint32_t i = 0; type->rank != TN_RANK_UNKNOWN && i < type->rank; i++)
        if (type->symbols[i].size)
            type->shape[i] = tn__dims_value(&reader->importer->dims, type->symbols[i]);
}
