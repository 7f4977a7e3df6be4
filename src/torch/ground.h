/* ground.h - the memory of one CUDA device: one block of cudaMalloc, and a pool that divides it.
 *
 * Threads: the caller holds a lock; any device may be current. A cudaMalloc and a cudaFree wait for
 * all the work of a device, so that there is one of each.
 */
#ifndef TN_TORCH_GROUND_H
#define TN_TORCH_GROUND_H

#include <tenure/pool.h>

#include "device/cuda.h"
#include "preload/trace.h"
#include "torch/lots.h"
#include "torch/events.h"

typedef struct tn__ground_options {
    const tn_context *context; /* NULL or outlives the memory */
    const char *pool;          /* technique; NULL: "iteration" */
    uint64_t budget;   /* bytes; 0: nine tenths of what is free on the device now, or less tenths
                        * where it does not give so much in one piece */
    const char *trace; /* NULL: none; of device N > 0, ".cudaN" is added */
} tn__ground_options;

typedef struct tn__ground {
    tn_context context;
    const tn__cuda *cuda;
    int device;
    void *whole; /* of cudaMalloc */
    char *base;  /* aligned */
    uint64_t capacity;
    tn_pool *pool;
    tn__turns turns;
    tn__lots lots;
    void **streams; /* a stream's number is its place */
    size_t stream_count, stream_room;
    uint64_t count; /* blocks that were ever handed out */
    tn__names names;
    tn__arena words; /* of names */
    tn__trace trace;
    char trace_path[4096];
} tn__ground;

/* Errors: E_IO, E_NO_MEMORY (the device has not so much), E_UNKNOWN (pool, with a nearest name),
 * E_INVALID (it takes no pool without a plan), E_NO_MEMORY of the host. */
tn_status tn__ground_open(const tn__ground_options *options, const tn__cuda *cuda, int device,
                          tn__ground **ground, tn_error *error);
/* Whether the address is in it. */
bool tn__ground_owns(const tn__ground *ground, const void *pointer);
/* Waits for the device and gives all back; NULL is fine. */
void tn__ground_close(tn__ground *ground);

/* `size` above 0. `who` asks: a name without commas, for the holders and the trace; NULL: nobody in
 * particular. Errors: E_EXHAUSTED (tn_pool_holders with TN_HOLDERS_FAILED tells who has what),
 * E_IO, E_NO_MEMORY of the host. */
tn_status tn__ground_alloc(tn__ground *ground, uint64_t size, void *stream, const char *who,
                           void **pointer, tn_error *error);
/* Errors: E_INVALID (no block begins there). */
tn_status tn__ground_free(tn__ground *ground, void *pointer, tn_error *error);
/* The block is used on that stream, too. Errors: E_INVALID. */
tn_status tn__ground_use(tn__ground *ground, void *pointer, void *stream, tn_error *error);

#endif
