/* ground.h - the memory of one CUDA device, and a pool that divides it: one block of cudaMalloc, or
 * granules that are mapped where blocks are.
 *
 * Threads: the caller holds a lock; any device may be current. A cudaMalloc and a cudaFree wait for
 * all the work of a device, so that there is one of each.
 */
#ifndef TN_TORCH_GROUND_H
#define TN_TORCH_GROUND_H

#include <tenure/pool.h>

#include "device/cuda.h"
#include "preload/trace.h"
#include "torch/events.h"
#include "torch/granules.h"
#include "torch/lots.h"

typedef enum tn__ground_memory {
    TN__GROUND_BLOCK,    /* one of cudaMalloc, at once */
    TN__GROUND_GRANULES, /* as blocks need it */
} tn__ground_memory;

typedef struct tn__ground_options {
    const tn_context *context; /* NULL or outlives the memory */
    const char *pool;          /* technique; NULL: "iteration" */
    tn__ground_memory memory;
    uint64_t budget;   /* bytes; 0: what the device gives. Of a block: nine tenths of what is free
                        * now, or less tenths where there is not so much in one piece */
    const char *trace; /* NULL: none; of device N > 0, ".cudaN" is added */
} tn__ground_options;

typedef struct tn__ground {
    tn_context context;
    const tn__cuda *cuda;
    int device;
    tn__granules granules; /* size 0: it is a block */
    void *whole;           /* of cudaMalloc */
    char *base;            /* aligned */
    uint64_t capacity;     /* bytes of the range */
    tn_pool *pool;
    tn__turns turns;
    tn__lots lots;
    void **streams; /* a stream's number is its place */
    size_t stream_count, stream_room;
    uint64_t count; /* blocks that were ever handed out */
    uint64_t held;  /* bytes of those in use */
    tn__names names;
    tn__arena words; /* of names */
    tn__trace trace;
    char trace_path[4096];
} tn__ground;

/* Errors: E_IO, E_NO_MEMORY (the device has not so much in one block), E_UNSUPPORTED (driver or
 * device cannot do granules), E_UNKNOWN (pool, with a nearest name), E_INVALID (it takes no pool
 * without a plan; a budget below a granule), E_NO_MEMORY of the host. */
tn_status tn__ground_open(const tn__ground_options *options, const tn__cuda *cuda, int device,
                          tn__ground **ground, tn_error *error);
/* Whether the address is in it. */
bool tn__ground_owns(const tn__ground *ground, const void *pointer);
/* Waits for the device and gives all back; NULL is fine. */
void tn__ground_close(tn__ground *ground);

/* `size` above 0. `who` asks: a name without commas, for the holders and the trace; NULL: nobody in
 * particular. Errors: E_EXHAUSTED (tn_pool_holders with TN_HOLDERS_NOW tells who has what), E_IO,
 * E_NO_MEMORY of the host. */
tn_status tn__ground_alloc(tn__ground *ground, uint64_t size, void *stream, const char *who,
                           void **pointer, tn_error *error);
/* Errors: E_INVALID (no block begins there). */
tn_status tn__ground_free(tn__ground *ground, void *pointer, tn_error *error);
/* The block is used on that stream, too. Errors: E_INVALID. */
tn_status tn__ground_use(tn__ground *ground, void *pointer, void *stream, tn_error *error);
/* Empties the pool's cache. What no block lies in goes back to the device, if it is granules. */
void tn__ground_trim(tn__ground *ground);

#endif
