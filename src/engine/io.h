/* io.h - copies the caller's arrays to and from operands, over the device's stream. */
#ifndef TN_ENGINE_IO_H
#define TN_ENGINE_IO_H

#include <tenure/engine.h>
#include <tenure/graph.h>

#include "engine/executor.h"

typedef struct tn__memory {  /* memory of the device, and its address as kernels see it */
    tn_device *device, *own; /* own: destroyed with the memory; NULL: the device is the caller's */
    tn_stream *stream;
    tn_address arena_address, static_address;
    uint8_t *arena, *statics;
    uint64_t arena_bytes;
} tn__memory;

typedef struct tn__io {
    const tn__executor *executor;
    const tn__memory *memory;
    uint32_t *index; /* [tensors] position among the inputs; TN_NONE */
    const tn_array *inputs;
    tn_array *outputs; /* outputs of the current run */
    uint32_t output_count;
} tn__io;

/* `inside`: static memory lies in the arena. Errors: E_EXHAUSTED. */
tn_status tn__memory_take(tn__memory *memory, tn_device *device, uint64_t arena_bytes,
                          uint64_t static_bytes, bool inside, tn_error *error);
void tn__memory_release(tn__memory *memory);
/* Converts an address as kernels see it to an address on the device. */
tn_address tn__memory_address(const tn__memory *memory, const void *data);

tn_status tn__io_make(tn__io *io, const tn__executor *executor, const tn__memory *memory,
                      tn__arena *arena);
/* Takes the arrays of a run and checks their number, types and sizes. Errors: E_INVALID. */
tn_status tn__io_begin(tn__io *io, const tn_array *inputs, uint32_t input_count, tn_array *outputs,
                       uint32_t output_count);
tn_status tn__io_put(const tn__io *io, tn_tensor_id id);
/* Copies the tensor's current data to every output that it is. */
tn_status tn__io_get(const tn__io *io, tn_tensor_id id);
/* Copies static outputs after the last step, because no instruction writes them. */
tn_status tn__io_get_statics(const tn__io *io);

#endif
