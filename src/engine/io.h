/* io.h - what crosses: arrays of the caller to and from operands, over the device's stream. */
#ifndef TN_ENGINE_IO_H
#define TN_ENGINE_IO_H

#include <tenure/array.h>
#include <tenure/device.h>

#include "engine/executor.h"

typedef struct tn__memory {  /* what was taken from the device, and where kernels see it */
    tn_device *device, *own; /* own: destroyed with the memory; NULL: it is the caller's */
    tn_stream *stream;
    tn_address arena_address, static_address;
    uint8_t *arena, *statics;
    uint64_t arena_bytes;
} tn__memory;

typedef struct tn__io {
    const tn__executor *executor;
    const tn__memory *memory;
    uint32_t *index; /* [tensors] among inputs; TN_NONE */
    const tn_array *inputs;
    tn_array *outputs; /* of the run in hand */
    uint32_t output_count;
} tn__io;

/* `inside`: static memory lies in the arena. Errors: E_EXHAUSTED. */
tn_status tn__memory_take(tn__memory *memory, tn_device *device, uint64_t arena_bytes,
                          uint64_t static_bytes, bool inside, tn_error *error);
void tn__memory_release(tn__memory *memory);
/* From where kernels see a byte to its address on the device. */
tn_address tn__memory_address(const tn__memory *memory, const void *data);

tn_status tn__io_make(tn__io *io, const tn__executor *executor, const tn__memory *memory,
                      tn__arena *arena);
/* Takes the arrays of a run: their number, types and sizes. Errors: E_INVALID. */
tn_status tn__io_begin(tn__io *io, const tn_array *inputs, uint32_t input_count, tn_array *outputs,
                       uint32_t output_count);
tn_status tn__io_put(const tn__io *io, tn_tensor_id id);
/* What is there now, in every output that it is. */
tn_status tn__io_get(const tn__io *io, tn_tensor_id id);
/* Outputs that are static are in no instruction: after the last step. */
tn_status tn__io_get_statics(const tn__io *io);

#endif
