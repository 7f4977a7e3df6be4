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
#include "io/import/onnx_reader.h"

#define ONNX_COUNT_MAX (1u << 16)

tn_status tn__onnx_dtype(onnx_reader *reader, uint64_t number, tn_dtype *dtype) {
    if (number > TN_INT2)
        TN_FAIL(reader->importer->error, TN_E_INVALID,
                "element type %lld is none of ONNX's (0 to %d)", (long long)number, TN_INT2);
    *dtype = (tn_dtype)number;
    return TN_OK;
}

/* How many elements a payload can hold at least and at most. */
typedef struct onnx_payload {
    uint64_t least, most;
} onnx_payload;

static bool onnx_is_complex(tn_dtype dtype) {
    return dtype == TN_COMPLEX64 || dtype == TN_COMPLEX128;
}
/* The field that holds elements of this type if raw_data does not. */
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

/* Relative and without `..`, as the specification requires, with either separator. */
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

/* Elements and bytes. Errors: E_INVALID for a negative extent or a size beyond 2^63 - 1. */
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

/* Adds the size declared by one occurrence of a payload field. */
static tn_status onnx_measure(onnx_reader *reader, const tn__field *field, onnx_tensor *tensor,
                              onnx_payload *payload) {
    tn_error *error = reader->importer->error;
    if (field->type == TN_WIRE_BYTES && !field->span.size && field->number != ONNX_TENSOR_STRINGS)
        return TN_OK; /* counts as absent */
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
        return tn__onnx_dtype(reader, field->value, &tensor->dtype);
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
    /* A segment is a part of a tensor; the other parts are elsewhere. */
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
    tensor->payload = 0; /* the dense tensor's data is not known */
    tensor->rank = rank;
    memcpy(tensor->shape, shape, rank * sizeof *shape);
    return onnx_tensor_size(reader, tensor, &bytes);
}

/* The name comes after the dims, which may be the wrong part. */
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
