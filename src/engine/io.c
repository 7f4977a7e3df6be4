/* io.c - checks the caller's arrays against the inputs and outputs of the graph, copies data
 * between the arrays and the device, and allocates the device's memory. */
#include "engine/engine.h"

#include <stdio.h>

/* --- memory of the device, and copies between it and the caller's arrays --- */

tn_status tn__memory_take(tn__device_memory *memory, tn_device *device, uint64_t arena_bytes,
                          uint64_t static_bytes, bool inside, tn_error *error) {
    memory->device = device;
    memory->arena_bytes = arena_bytes;
    TN_TRY(tn_stream_create(device, TN_STREAM_INLINE, &memory->stream, error));
    TN_TRY(tn_device_alloc(device, inside ? 0 : static_bytes, &memory->static_address, error));
    TN_TRY(tn_device_alloc(device, arena_bytes, &memory->arena_address, error));
    memory->arena = tn_device_pointer(device, memory->arena_address);
    memory->statics = inside ? memory->arena : tn_device_pointer(device, memory->static_address);
    return TN_OK;
}

void tn__memory_release(tn__device_memory *memory) {
    if (memory->device == NULL) return;
    tn_device_free(memory->device, memory->arena_address);
    tn_device_free(memory->device, memory->static_address);
    tn_stream_destroy(memory->stream);
    tn_device_destroy(memory->own);
}

tn_address tn__memory_address(const tn__device_memory *memory, const void *data) {
    const uint8_t *at = data;
    bool in_arena = at >= memory->arena && at < memory->arena + memory->arena_bytes;
    return in_arena ? memory->arena_address + (tn_address)(at - memory->arena)
                    : memory->static_address + (tn_address)(at - memory->statics);
}

/* --- arrays --- */

tn_status tn__io_make(tn__io *io, const tn__executor *executor, const tn__device_memory *memory,
                      tn__arena *arena) {
    uint32_t count = tn_graph_tensor_count(executor->graph);
    *io = (tn__io){.executor = executor, .memory = memory};
    io->index = tn__arena_array(arena, count, sizeof *io->index);
    if (io->index == NULL) return tn__no_memory(executor->error, "inputs");
    for (tn_tensor_id t = 0; t < count; t++) io->index[t] = TN_NONE;
    return TN_OK;
}

static tn_status io_check_input(const tn__io *io, tn_tensor_id id, const tn_array *array) {
    const tn_tensor *tensor = tn_graph_tensor(io->executor->graph, id);
    bool same = array->dtype == tensor->dtype && array->rank == tensor->rank;
    for (uint32_t d = 0; same && d < tensor->rank; d++) same = array->shape[d] == tensor->shape[d];
    if (same && array->bytes >= tensor->bytes && (array->data != NULL || tensor->bytes == 0))
        return TN_OK;
    char wanted[200];
    size_t used = 0;
    for (uint32_t d = 0; d < tensor->rank && used + 24 < sizeof wanted; d++)
        used += (size_t)snprintf(wanted + used, sizeof wanted - used, "%s%lld", d ? ", " : "",
                                 (long long)tensor->shape[d]);
    wanted[used] = 0;
    TN_FAIL(io->executor->error, TN_E_INVALID, "input '%.80s' has to be %s [%s]%s", tensor->name,
            tn_dtype_name(tensor->dtype), wanted, same ? ", all of it" : "");
}

static tn_status io_check_output(const tn__io *io, tn_tensor_id id, const tn_array *array) {
    const tn_tensor *tensor = tn_graph_tensor(io->executor->graph, id);
    if (array->bytes >= tensor->bytes) return TN_OK;
    TN_FAIL(io->executor->error, TN_E_INVALID, "output '%.80s' needs %llu bytes, %llu are given",
            tensor->name, (unsigned long long)tensor->bytes, (unsigned long long)array->bytes);
}

tn_status tn__io_begin(tn__io *io, const tn_array *inputs, uint32_t input_count, tn_array *outputs,
                       uint32_t output_count) {
    const tn_graph *graph = io->executor->graph;
    const tn_block *block = tn_graph_block(graph, 0);
    tn_error *error = io->executor->error;
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < block->input_count; i++) {
        tn_tensor_id id = block->inputs[i];
        if (tn_tensor_is_static(tn_graph_tensor(graph, id))) continue;
        if (wanted < input_count) TN_TRY(io_check_input(io, id, &inputs[wanted]));
        io->index[id] = wanted++;
    }
    if (wanted != input_count)
        TN_FAIL(error, TN_E_INVALID, "%u inputs are given, the model has %u", input_count, wanted);
    if (output_count != block->output_count)
        TN_FAIL(error, TN_E_INVALID, "%u outputs are given, the model has %u", output_count,
                block->output_count);
    for (uint32_t k = 0; k < output_count; k++)
        TN_TRY(io_check_output(io, block->outputs[k], &outputs[k]));
    io->inputs = inputs;
    io->outputs = outputs;
    io->output_count = output_count;
    return TN_OK;
}

tn_status tn__io_put(const tn__io *io, tn_tensor_id id) {
    const tn_array *array = &io->inputs[io->index[id]];
    uint64_t bytes = tn_graph_tensor(io->executor->graph, id)->bytes;
    if (bytes == 0) return TN_OK;
    return tn_device_put(io->memory->stream,
                         tn__memory_address(io->memory, io->executor->operands[id].data),
                         array->data, bytes, io->executor->error);
}

tn_status tn__io_get(const tn__io *io, tn_tensor_id id) {
    const tn_block *block = tn_graph_block(io->executor->graph, 0);
    const tn_operand *operand = &io->executor->operands[id];
    for (uint32_t k = 0; k < io->output_count; k++) {
        if (block->outputs[k] != id) continue;
        tn_array *array = &io->outputs[k];
        array->dtype = operand->dtype;
        array->rank = operand->rank;
        for (uint32_t d = 0; d < operand->rank; d++) array->shape[d] = operand->shape[d];
        array->bytes = tn__operand_bytes(operand);
        if (array->bytes > 0)
            TN_TRY(tn_device_get(io->memory->stream, array->data,
                                 tn__memory_address(io->memory, operand->data), array->bytes,
                                 io->executor->error));
    }
    return TN_OK;
}

tn_status tn__io_get_statics(const tn__io *io) {
    const tn_block *block = tn_graph_block(io->executor->graph, 0);
    for (uint32_t k = 0; k < io->output_count; k++)
        if (tn_tensor_is_static(tn_graph_tensor(io->executor->graph, block->outputs[k])))
            TN_TRY(tn__io_get(io, block->outputs[k]));
    return TN_OK;
}
