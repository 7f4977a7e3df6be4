/* onnx_data.c - reads the elements of a TensorProto or SparseTensorProto as a plain array.
 *
 * Elements are in raw_data (already plain), in external data (plain as well), or in the field of
 * their type: fixed-size numbers, which are plain but may come one by one, or varints. Each element
 * of a narrow type is the low bits of an int32; types below a byte come packed, a byte per int32.
 *
 * Field 2 distinguishes the two messages: data_type, a number, which a TensorProto must have;
 * indices, a message, in a SparseTensorProto.
 *
 * Sizes were checked when the model was loaded, except those of long packed varints, and the file
 * may have changed since. So everything is measured again, and no byte is written beyond the array.
 *
 * Source: the comments of onnx.proto.
 */
#include "io/import/tensor_data.h"
#include "io/import/onnx/onnx_reader.h"

/* --- reading elements from raw_data, or from the field for their type --- */

/* The number of bits that one number of a varint field takes in the array. */
static uint32_t onnx_number_bits(tn_dtype dtype) {
    uint32_t bits = tn_dtype_bits(dtype);
    return bits < 8 ? 8 : bits;
}

static tn_status onnx_put_varints(onnx_reader *reader, tn__wire *wire, const tn__field *field,
                                  const onnx_tensor *tensor, const onnx_array *array,
                                  uint64_t *count) {
    enum { AT_ONCE = 256 };
    int64_t numbers[AT_ONCE];
    tn__field left = *field;
    uint32_t bits = onnx_number_bits(tensor->dtype);
    do {
        uint32_t got = tn__field_take(wire, &left, numbers, AT_ONCE);
        if (wire->fault != NULL) return tn__wire_close(wire, reader->importer->error);
        if (got > array->size / (bits / 8) - *count)
            TN_FAIL(reader->importer->error, TN_E_INVALID, "it holds more elements than its shape");
        for (uint32_t i = 0; i < got; i++)
            tn__element_put(array->bytes, bits, (*count)++,
                            tensor->dtype == TN_BOOL ? numbers[i] != 0 : (uint64_t)numbers[i]);
    } while (left.type == TN_WIRE_BYTES && left.span.size != 0);
    return TN_OK;
}

/* Copies floats and doubles; `count` is in bytes. */
static tn_status onnx_put_fixed(onnx_reader *reader, const tn__field *field, uint32_t width,
                                const onnx_array *array, uint64_t *count) {
    uint64_t size = field->type == TN_WIRE_BYTES ? field->span.size : width;
    if (size > array->size - *count)
        TN_FAIL(reader->importer->error, TN_E_INVALID, "it holds more elements than its shape");
    if (field->type == TN_WIRE_BYTES)
        memcpy(array->bytes + *count, field->span.bytes, (size_t)size);
    else
        tn__element_put(array->bytes + *count, 8 * width, 0, field->value);
    *count += size;
    return TN_OK;
}

static tn_status onnx_typed_contents(onnx_reader *reader, const onnx_tensor *tensor,
                                     const onnx_array *array) {
    tn__wire wire = tn__onnx_open(reader, tensor->message, &tn__onnx_tensor_schema);
    tn__field field;
    uint64_t count = 0; /* number of elements so far, or of bytes for types of fixed size */
    bool floats = tensor->payload == ONNX_TENSOR_FLOATS, fixed = floats;
    fixed = fixed || tensor->payload == ONNX_TENSOR_DOUBLES;
    while (tn__wire_next(&wire, &field)) {
        if (field.number != tensor->payload) continue;
        if (field.type == TN_WIRE_BYTES && field.span.size == 0) continue;
        if (fixed)
            TN_TRY(onnx_put_fixed(reader, &field, floats ? 4 : 8, array, &count));
        else
            TN_TRY(onnx_put_varints(reader, &wire, &field, tensor, array, &count));
    }
    TN_TRY(tn__wire_close(&wire, reader->importer->error));
    uint64_t bytes = fixed ? count : count * (onnx_number_bits(tensor->dtype) / 8);
    if (bytes != array->size)
        TN_FAIL(reader->importer->error, TN_E_INVALID,
                "it holds %llu bytes of elements, but its shape and type need %llu",
                (unsigned long long)bytes, (unsigned long long)array->size);
    return TN_OK;
}

/* --- dense --- */

/* Copies plain bytes; in an array of bools every nonzero byte becomes 1. */
static void onnx_copy_contents(const onnx_tensor *tensor, const uint8_t *from,
                               const onnx_array *array) {
    if (array->plain != NULL) {
        if (tensor->dtype != TN_BOOL) *array->plain = (tn__span){from, (size_t)array->size};
        return;
    }
    if (tensor->dtype == TN_BOOL)
        for (uint64_t i = 0; i < array->size; i++) array->bytes[i] = from[i] != 0;
    else
        memcpy(array->bytes, from, (size_t)array->size);
}

tn_status tn__onnx_elements(onnx_reader *reader, const onnx_tensor *tensor, const onnx_array *array,
                            bool *found) {
    tn_error *error = reader->importer->error;
    if (array->size == 0) return TN_OK;
    if (tensor->segmented) TN_FAIL(error, TN_E_UNSUPPORTED, "contents in segments are not read");
    if (tensor->is_external && array->contents == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED, "contents in a file of their own are not read here");
    if (tensor->is_external) {
        tn__span bytes;
        TN_TRY(tn__contents_external(array->contents, tensor->external.location,
                                     tensor->external.offset, array->size, &bytes, found, error));
        if (*found) onnx_copy_contents(tensor, bytes.bytes, array);
        return TN_OK;
    }
    *found = tensor->payload != 0;
    if (tensor->payload == ONNX_TENSOR_RAW) {
        if (tensor->raw.size != array->size)
            TN_FAIL(error, TN_E_INVALID, "it holds %zu bytes, but its shape and type need %llu",
                    tensor->raw.size, (unsigned long long)array->size);
        onnx_copy_contents(tensor, tensor->raw.bytes, array);
        return TN_OK;
    }
    /* the elements are single numbers, so the file has no plain range of them */
    if (array->plain != NULL) return TN_OK;
    return *found ? onnx_typed_contents(reader, tensor, array) : TN_OK;
}

static tn_status onnx_bytes(onnx_reader *reader, const onnx_tensor *tensor, uint64_t *bytes) {
    return tn_tensor_size(tensor->dtype, (tn_format){0}, tensor->rank, tensor->shape, bytes,
                          reader->importer->error);
}

/* Reads a tensor that is part of a sparse one into memory of its own. The caller frees `array`. */
static tn_status onnx_part(onnx_reader *reader, tn_contents *contents, tn__span message,
                           onnx_tensor *tensor, onnx_array *array, bool *found) {
    TN_TRY(tn__onnx_tensor(reader, message, false, tensor));
    TN_TRY(onnx_bytes(reader, tensor, &array->size));
    *found = tensor->elements == 0;
    if (*found) return TN_OK;
    /* The file must contain all declared bytes, so that no allocation exceeds a multiple of the
     * file's size. */
    if (tensor->segmented)
        TN_FAIL(reader->importer->error, TN_E_UNSUPPORTED, "contents in segments are not read");
    if (!tensor->payload && !tensor->is_external) return TN_OK;
    if (tensor->is_external) { /* finds the external bytes before memory is allocated for them */
        tn__span bytes;
        TN_TRY(tn__contents_external(contents, tensor->external.location, tensor->external.offset,
                                     array->size, &bytes, found, reader->importer->error));
        if (!*found) return TN_OK;
    }
    array->contents = contents;
    array->bytes = tn__alloc(tn__contents_context(contents), (size_t)array->size);
    if (array->bytes == NULL) {
        array->size = 0;
        return tn__no_memory(reader->importer->error, "a sparse tensor");
    }
    return tn__onnx_elements(reader, tensor, array, found);
}

/* --- sparse --- */

typedef struct onnx_sparse {
    tn__span values_message, indices_message;
    onnx_tensor values, indices;
    onnx_array value_array, index_array;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX];
} onnx_sparse;

static tn_status onnx_sparse_open(onnx_reader *reader, tn__span message, onnx_sparse *sparse) {
    tn__wire wire = tn__onnx_open(reader, message, &tn__onnx_sparse_schema);
    tn__field field;
    while (tn__wire_next(&wire, &field)) {
        if (field.number == ONNX_SPARSE_VALUES) sparse->values_message = field.span;
        if (field.number == ONNX_SPARSE_INDICES) sparse->indices_message = field.span;
        if (field.number == ONNX_SPARSE_DIMS)
            TN_TRY(tn__onnx_dims(reader, &wire, &field, &sparse->rank, sparse->shape));
    }
    return tn__wire_close(&wire, reader->importer->error);
}

/* Converts index i to a position in the dense array. The index is either such a position or a row
 * of coordinates. */
static bool onnx_sparse_at(const onnx_sparse *sparse, uint64_t i, uint64_t elements,
                           uint64_t *position) {
    const uint8_t *indices = sparse->index_array.bytes;
    *position = 0;
    if (sparse->indices.rank == 1) {
        *position = tn__element_get(indices, 64, i);
        return *position < elements;
    }
    for (uint32_t d = 0; d < sparse->rank; d++) {
        uint64_t index = tn__element_get(indices, 64, i * sparse->rank + d);
        uint64_t extent = (uint64_t)sparse->shape[d];
        if (index >= extent) return false;
        /* cannot overflow: the position is below the number of elements */
        *position = *position * extent + index;
    }
    return true;
}

static tn_status onnx_sparse_fill(onnx_reader *reader, const onnx_sparse *sparse,
                                  const tn__wanted *wanted) {
    tn_error *error = reader->importer->error;
    const onnx_tensor *values = &sparse->values, *indices = &sparse->indices;
    uint32_t bits = tn_dtype_bits(values->dtype);
    uint64_t dense, elements = 1, position;
    TN_TRY(
        tn_tensor_size(values->dtype, (tn_format){0}, sparse->rank, sparse->shape, &dense, error));
    bool rows = indices->rank == 2 && indices->shape[1] == (int64_t)sparse->rank;
    if (indices->dtype != TN_INT64 || (indices->rank != 1 && !rows) ||
        (indices->rank == 1 ? indices->elements : (uint64_t)indices->shape[0]) != values->elements)
        TN_FAIL(error, TN_E_INVALID, "its indices do not fit its %llu values",
                (unsigned long long)values->elements);
    if (values->dtype != wanted->tensor->dtype || dense != wanted->size)
        TN_FAIL(error, TN_E_INVALID, "this is not the file that the graph was loaded from");
    for (uint32_t d = 0; d < sparse->rank; d++) elements *= (uint64_t)sparse->shape[d];
    memset(wanted->bytes, 0, (size_t)wanted->size);
    for (uint64_t i = 0; i < values->elements; i++) {
        if (!onnx_sparse_at(sparse, i, elements, &position))
            TN_FAIL(error, TN_E_INVALID, "index %llu is outside of its shape",
                    (unsigned long long)i);
        if (bits <= 64)
            tn__element_put(wanted->bytes, bits, position,
                            tn__element_get(sparse->value_array.bytes, bits, i));
        else
            memcpy((uint8_t *)wanted->bytes + position * (bits / 8),
                   sparse->value_array.bytes + i * (bits / 8), bits / 8);
    }
    return TN_OK;
}

static tn_status onnx_sparse_contents(onnx_reader *reader, const tn__wanted *wanted, bool *found) {
    const tn_context *context = tn__contents_context(wanted->contents);
    onnx_sparse sparse = {0};
    bool values = false, indices = false;
    tn_status status;
    TN_TRY_DONE(onnx_sparse_open(reader, wanted->payload, &sparse));
    TN_TRY_DONE(onnx_part(reader, wanted->contents, sparse.values_message, &sparse.values,
                          &sparse.value_array, &values));
    TN_TRY_DONE(onnx_part(reader, wanted->contents, sparse.indices_message, &sparse.indices,
                          &sparse.index_array, &indices));
    if (values && indices) TN_TRY_DONE(onnx_sparse_fill(reader, &sparse, wanted));
    *found = values && indices;
done:
    if (sparse.value_array.bytes)
        tn__free(context, sparse.value_array.bytes, (size_t)sparse.value_array.size);
    if (sparse.index_array.bytes)
        tn__free(context, sparse.index_array.bytes, (size_t)sparse.index_array.size);
    return status;
}

/* --- whether a message is a dense or a sparse tensor --- */

/* Whether a message is a TensorProto, not a SparseTensorProto; the comment at the top of this file
 * says how they differ. */
static bool onnx_message_is_dense(tn__span file, tn__span message) {
    static const tn__message any = {"TensorProto",
                                    {[ONNX_TENSOR_TYPE] = TN_WIRE_VARINT | TN_WIRE_BYTES}};
    tn__wire wire = tn__wire_open(file.bytes, message, &any);
    tn__field field;
    while (tn__wire_next(&wire, &field))
        if (field.type == TN_WIRE_VARINT) return true;
    return false;
}

tn_status tn__onnx_contents(const tn__wanted *wanted, bool *found) {
    tn_importer importer = {.bytes = wanted->file.bytes,
                            .size = wanted->file.size,
                            .context = tn__contents_context(wanted->contents),
                            .error = wanted->error};
    onnx_reader reader = {.importer = &importer};
    onnx_tensor tensor;
    uint64_t bytes;
    if (!onnx_message_is_dense(wanted->file, wanted->payload))
        return wanted->plain != NULL ? TN_OK : onnx_sparse_contents(&reader, wanted, found);
    TN_TRY(tn__onnx_tensor(&reader, wanted->payload, false, &tensor));
    TN_TRY(onnx_bytes(&reader, &tensor, &bytes));
    if (tensor.dtype != wanted->tensor->dtype || bytes != wanted->size)
        TN_FAIL(wanted->error, TN_E_INVALID, "this is not the file that the graph was loaded from");
    onnx_array array = {wanted->contents, wanted->bytes, wanted->size, wanted->plain};
    return tn__onnx_elements(&reader, &tensor, &array, found);
}
