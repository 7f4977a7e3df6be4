/* ground.h - the device arena: the memory of one CUDA device and a pool that divides it. The memory
 * is one block of cudaMalloc, or granules that are mapped where blocks lie.
 *
 * Threads: the caller holds a lock; any device may be current. cudaMalloc and cudaFree wait for all
 * work of a device, so there is only one call of each.
 */
#ifndef TN_TORCH_GROUND_H
#define TN_TORCH_GROUND_H

#include <tenure/pool.h>

#include "interop/preload/trace.h"
#include "interop/torch/events.h"
#include "interop/torch/granules.h"
#include "interop/torch/lots.h"
#include "memory/device/cuda.h"

typedef enum tn__ground_memory {
    TN__GROUND_BLOCK,    /* one block of cudaMalloc, at once */
    TN__GROUND_GRANULES, /* granules, as blocks need them */
} tn__ground_memory;

typedef struct tn__ground_options {
    const tn_context *context; /* NULL or outlives the memory */
    const char *pool;          /* technique; NULL: "iteration" */
    tn__ground_memory memory;
    uint64_t budget;   /* bytes; 0: the device's memory. As one block: nine tenths of the free
                        * memory, or fewer tenths if that is not available in one piece */
    const char *trace; /* NULL: none; for device N > 0, ".cudaN" is added */
} tn__ground_options;

typedef struct tn__ground {
    tn_context context;
    const tn__cuda *cuda;
    int device;
    tn__granules granules; /* size 0: one block is used instead */
    void *whole;           /* of cudaMalloc */
    char *base;            /* aligned */
    uint64_t capacity;     /* bytes of the range */
    tn_pool *pool;
    tn__stream_fences turns;
    tn__lots lots;
    void **streams; /* a stream's number is its index */
    size_t stream_count, stream_room;
    uint64_t count; /* number of blocks ever allocated */
    uint64_t held;  /* bytes of blocks in use */
    tn__names names;
    tn__arena words; /* of names */
    tn__trace trace;
    char trace_path[4096];
} tn__ground;

/* Errors: E_IO; E_NO_MEMORY (the device has no block of that size, or the host is out of memory);
 * E_UNSUPPORTED (driver or device lacks granules); E_UNKNOWN (pool, with a similar name); E_INVALID
 * (the pool needs a plan; a budget below a granule). */
tn_status tn__ground_open(const tn__ground_options *options, const tn__cuda *cuda, int device,
                          tn__ground **ground, tn_error *error);
/* Is the address in the arena? */
bool tn__ground_owns(const tn__ground *ground, const void *pointer);
/* Waits for the device and frees everything; NULL is fine. */
void tn__ground_close(tn__ground *ground);

/* `size` above 0. `who`: the caller's name without commas, for the list of holders and the trace;
 * NULL: unknown. Errors: E_EXHAUSTED (tn_pool_holders with TN_HOLDERS_NOW lists the holders), E_IO,
 * E_NO_MEMORY of the host. */
tn_status tn__ground_alloc(tn__ground *ground, uint64_t size, void *stream, const char *who,
                           void **pointer, tn_error *error);
/* Errors: E_INVALID (no block begins there). */
tn_status tn__ground_free(tn__ground *ground, void *pointer, tn_error *error);
/* Notes that the block is used on that stream, too. Errors: E_INVALID. */
tn_status tn__ground_use(tn__ground *ground, void *pointer, void *stream, tn_error *error);
/* Empties the pool's cache. Returns granules without blocks to the device. */
void tn__ground_trim(tn__ground *ground);

#endif
