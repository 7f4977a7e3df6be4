/* onnx_pair.c - the scale and zero point of a QuantizeLinear and of the DequantizeLinear that reads
 * its result.
 *
 * Exporters may store the scale of a pair twice, in two initializers with the same contents. The
 * DequantizeLinear then reads the initializer of the QuantizeLinear, so that all users of the graph
 * see that the pair rounds to one grid. (For training it becomes a FakeQuantize, which needs that.)
 *
 * Cost: O(bytes of the compared initializers).
 */
#include "io/import/onnx/onnx_reader.h"

/* Reads the TensorProto of an initializer with elements in the model file or in one other file;
 * false: the tensor is no such initializer. */
static bool pair_message(onnx_reader *reader, tn_tensor_id id, onnx_tensor *tensor) {
    const tn_tensor *it = tn_graph_tensor(reader->importer->graph, id);
    tn__span message = {reader->importer->bytes + it->payload.offset, (size_t)it->payload.size};
    tn_error *error = reader->importer->error, unheard = {0};
    if (it->payload.size == 0 || it->producer != TN_NONE || it->dtype == TN_STRING) return false;
    reader->importer->error = &unheard; /* a sparse tensor is not compared, but is no error */
    bool read = tn__onnx_tensor(reader, message, false, tensor) == TN_OK;
    reader->importer->error = error;
    return read && tensor->dtype == it->dtype && !tensor->segmented &&
           (tensor->payload != 0 || tensor->is_external);
}

/* Reads the elements of both tensors and compares them. */
static tn_status pair_compare(onnx_reader *reader, const onnx_tensor *a, const onnx_tensor *b,
                              uint64_t bytes, bool *same) {
    const tn_context *context = reader->importer->context;
    bool found_a = false, found_b = false;
    uint8_t *room = tn__alloc_array(context, 2 * (size_t)bytes, 1);
    if (room == NULL) return tn__no_memory(reader->importer->error, "the scales of a pair");
    onnx_array first = {.bytes = room, .size = bytes}, second = first;
    second.bytes += bytes;
    tn_status status = tn__onnx_elements(reader, a, &first, &found_a);
    if (status == TN_OK) status = tn__onnx_elements(reader, b, &second, &found_b);
    *same = status == TN_OK && found_a && found_b && memcmp(room, second.bytes, bytes) == 0;
    tn__free(context, room, 2 * (size_t)bytes);
    return status;
}

/* Sets *same to whether two initializers have the same type, shape and contents. */
static tn_status pair_same(onnx_reader *reader, tn_tensor_id x, tn_tensor_id y, bool *same) {
    onnx_tensor a, b;
    uint64_t bytes;
    *same = false;
    if (!pair_message(reader, x, &a) || !pair_message(reader, y, &b)) return TN_OK;
    if (a.dtype != b.dtype || a.rank != b.rank || a.is_external != b.is_external ||
        memcmp(a.shape, b.shape, a.rank * sizeof *a.shape) != 0)
        return TN_OK;
    if (a.is_external) { /* the other file is not read here, so only its place can be compared */
        *same = a.external.offset == b.external.offset &&
                a.external.location.size == b.external.location.size &&
                memcmp(a.external.location.bytes, b.external.location.bytes,
                       a.external.location.size) == 0;
        return TN_OK;
    }
    TN_TRY(
        tn_tensor_size(a.dtype, (tn_format){0}, a.rank, a.shape, &bytes, reader->importer->error));
    /* an element takes at least one bit of the file, so no allocation exceeds a multiple of it */
    if (bytes == 0 || bytes / 64 > reader->importer->size) return TN_OK;
    return pair_compare(reader, &a, &b, bytes, same);
}

tn_status tn__onnx_join_pair(onnx_reader *reader, tn_op_spec *spec) {
    const tn_graph *graph = reader->importer->graph;
    if (strcmp(spec->type, "DequantizeLinear") != 0 || spec->input_count < 2 ||
        spec->inputs[0] == TN_NONE)
        return TN_OK;
    tn_op_id maker = tn_graph_tensor(graph, spec->inputs[0])->producer;
    const tn_op *quantise = maker != TN_NONE ? tn_graph_op(graph, maker) : NULL;
    if (quantise == NULL || strcmp(quantise->type, "QuantizeLinear") != 0) return TN_OK;
    for (uint32_t k = 1; k < spec->input_count && k < quantise->input_count && k < 3; k++) {
        tn_tensor_id own = spec->inputs[k], other = quantise->inputs[k];
        bool same = false;
        if (own == other || own == TN_NONE || other == TN_NONE) continue;
        TN_TRY(pair_same(reader, own, other, &same));
        if (same) reader->ids[k] = other;
    }
    return TN_OK;
}
