/* onnx_input.c - applies --dim, --input-shape and --parameters to the inputs of the main graph.
 *
 * --input-shape may contradict the file. Then the shapes that the file states for computed tensors
 * belong to another model; they are dropped, and shape inference alone decides. A symbol of the
 * input gets its value everywhere, as if by --dim, and contradicts nothing.
 */
#include "io/import/onnx_reader.h"

/* Symbols get the given extents; notes a contradiction with an extent of the file. */
static tn_status onnx_bind_input(onnx_reader *reader, tn__span message, tn__span name,
                                 const tn_input_shape *given) {
    onnx_type type;
    TN_TRY(tn__onnx_value_info(reader, message, &type));
    if (type.rank == TN_RANK_UNKNOWN) return TN_OK;
    if (type.rank != given->rank) {
        reader->drop_stated = true;
        return TN_OK;
    }
    for (uint32_t i = 0; i < type.rank; i++) {
        if (type.symbols[i].size) {
            tn_status status = tn__dims_bind(&reader->importer->dims, type.symbols[i],
                                             given->shape[i], given->name, reader->importer->error);
            if (status != TN_OK) return tn__onnx_where(reader, status, "input", name);
        } else if (type.shape[i] != TN_DIM_UNKNOWN && type.shape[i] != given->shape[i]) {
            reader->drop_stated = true;
        }
    }
    return TN_OK;
}

tn_status tn__onnx_bind_inputs(onnx_reader *reader, tn__span graph) {
    if (!reader->importer->options->input_shape_count) return TN_OK;
    tn__wire wire = tn__onnx_open(reader, graph, &tn__onnx_graph_schema);
    tn__field field;
    while (tn__wire_next(&wire, &field)) {
        if (field.number != ONNX_GRAPH_INPUT) continue;
        tn__span name;
        TN_TRY(tn__onnx_value_info_name(reader, field.span, &name));
        const tn_input_shape *given = tn__import_shape(reader->importer, name);
        if (given) TN_TRY(onnx_bind_input(reader, field.span, name, given));
    }
    return tn__wire_close(&wire, reader->importer->error);
}

/* Registers the dimensions that the shape leaves open. */
static bool onnx_need(onnx_reader *reader, const char *name, const onnx_type *type) {
    tn__dims *dims = &reader->importer->dims;
    bool is_tensor = type->dtype != TN_UNDEFINED && !type->flags;
    if (type->rank == TN_RANK_UNKNOWN)
        return !is_tensor || tn__dims_need_shape(dims, name, TN_RANK_UNKNOWN);
    for (uint32_t i = 0; i < type->rank; i++) {
        if (type->symbols[i].size) {
            if (!tn__dims_need(dims, type->symbols[i])) return false;
        } else if (type->shape[i] == TN_DIM_UNKNOWN) {
            if (!tn__dims_need_shape(dims, name, i)) return false;
        }
    }
    return true;
}

/* Another batch: the first extent of the first input, and of those that share it. */
static tn_status onnx_set_batch(onnx_reader *reader, const char *name, onnx_type *type) {
    int64_t batch = reader->importer->options->batch;
    if (batch <= 0 || type->rank == 0 || type->rank == TN_RANK_UNKNOWN || type->flags) return TN_OK;
    if (!reader->batch_known) {
        reader->batch_known = true;
        reader->batch_symbol = type->symbols[0];
        reader->batch_extent = type->shape[0];
        if (type->symbols[0].size)
            return tn__dims_bind(&reader->importer->dims, type->symbols[0], batch, name,
                                 reader->importer->error);
    }
    bool same = !type->symbols[0].size && !reader->batch_symbol.size &&
                type->shape[0] == reader->batch_extent;
    if (!same) return TN_OK;
    if (type->shape[0] != batch) reader->drop_stated = true;
    type->shape[0] = batch;
    return TN_OK;
}

tn_status tn__onnx_main_input(onnx_reader *reader, tn__span name, onnx_type *type, tn_kind *kind) {
    const char *text = tn__onnx_text(reader, 1, "", name);
    if (!text) return tn__onnx_no_memory(reader);
    const tn_input_shape *given = tn__import_shape(reader->importer, name);
    if (given) {
        type->rank = given->rank;
        memcpy(type->shape, given->shape, given->rank * sizeof *given->shape);
    } else {
        if (!tn__import_is_parameter(reader->importer, text))
            TN_TRY(onnx_set_batch(reader, text, type));
        if (!onnx_need(reader, text, type)) return tn__onnx_no_memory(reader);
        tn__onnx_type_settle(reader, type);
    }
    if (tn__import_is_parameter(reader->importer, text)) *kind = TN_KIND_PARAMETER;
    return TN_OK;
}
