/* onnx_type.c - reads ValueInfoProto: element type and shape as the file states them.
 *
 * Sequences and optionals are followed to the tensor inside. Maps and opaque values have no size
 * that could be planned, and their type stays unknown. A dimension without value and name, with an
 * empty name, or of -1 (as some exporters write "any") is unknown; 0 is a normal extent.
 */
#include "io/import/onnx_reader.h"

#define ONNX_TYPE_DEPTH 8u /* sequence of optional of ... */

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
            TN_TRY(tn__onnx_dtype(reader, field.value, &type->dtype));
        }
    }
    return tn__wire_close(&wire, reader->importer->error);
}

/* The one alternative of a TypeProto: its field number (0: none) and its message. */
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
        if (!nested || twice) break; /* a map, an opaque value, a list of lists, nothing */
        if (choice == ONNX_TYPE_SEQUENCE) type->flags = TN_TENSOR_SEQUENCE;
        TN_TRY(onnx_type_element(reader, inner, &message));
    }
    type->flags = 0;
    return TN_OK;
}

/* Stops at the name, which usually comes first; the whole message is checked later when it is
 * read. */
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
