/* device_arena.h - the device arena: the memory of one CUDA device and a pool that divides it, with
 * a table of the allocated blocks. The memory is one block of cudaMalloc, or pages that are mapped
 * where blocks lie (pages.h).
 *
 * Threads: the caller holds a lock; any device may be current. cudaMalloc and cudaFree wait for all
 * work of a device, so each of them is called only once.
 */
#ifndef TN_TORCH_DEVICE_ARENA_H
#define TN_TORCH_DEVICE_ARENA_H

#include <tenure/pool.h>

#include "base/base.h"
#include "interop/preload/shared.h"
#include "interop/torch/pages.h"
#include "memory/device/cuda.h"
#include "memory/device/stream_fences.h"

/* Initialises stream fences with the functions for CUDA's streams and events. `cuda` must outlive
 * them; its device must be the current one whenever they are used. */
void tn__fences_turns(tn__stream_fences *turns, const tn_context *context, const tn__cuda *cuda);

/* An entry of the block table: an allocated block, found by its offset. */
typedef struct tn__block_entry {
    uint64_t offset, size; /* size 0: the entry is empty */
    uint64_t id;           /* number of the block in the pool */
    uint64_t name;         /* number of the block in the trace */
    tn_watch_block watched;
    uint32_t stream_count; /* number of `streams`; 0: more streams than can be remembered */
    /* the streams that use the block; the first is the stream that allocated it */
    void *streams[TN__STREAM_FENCES_STREAMS];
} tn__block_entry;

typedef struct tn__block_table {
    const tn_context *context;
    tn__block_entry *places; /* [room] the entries; `room` is a power of two */
    size_t room, count;
} tn__block_table;

typedef enum tn__device_arena_memory {
    TN__DEVICE_ARENA_BLOCK, /* one block of cudaMalloc, allocated at once */
    TN__DEVICE_ARENA_PAGES, /* pages, created when blocks need them */
} tn__device_arena_memory;

typedef struct tn__device_arena_options {
    const tn_context *context; /* NULL, or a context that outlives the arena */
    const char *pool;          /* name of the pool's technique; NULL: "iteration" */
    tn__device_arena_memory memory;
    /* size of the arena in bytes; 0: that of the device's memory. For one block of cudaMalloc, 0
     * means nine tenths of the free memory, or fewer tenths if these are not available in one
     * piece. */
    uint64_t budget;
    /* path of the trace; NULL: no trace. For device N > 0, ".cudaN" is appended. */
    const char *trace;
    bool watches; /* true: the holders are published as the table "cuda:N" */
} tn__device_arena_options;

typedef struct tn__device_arena {
    tn_context context;
    const tn__cuda *cuda;
    int device;
    /* the pages of the arena; if its size is 0, the arena is one block of cudaMalloc instead */
    tn__pages pages;
    void *whole;       /* the block of cudaMalloc */
    char *base;        /* aligned */
    uint64_t capacity; /* bytes of the range */
    tn_pool *pool;
    tn__stream_fences turns;
    tn__block_table table;
    void **streams; /* streams by number */
    size_t stream_count, stream_room;
    uint64_t count; /* number of blocks allocated so far */
    uint64_t held;  /* bytes of blocks in use */
    tn__names names;
    tn__arena words; /* memory of names */
    tn__trace trace;
    char trace_path[4096];
    tn__watched watched;
} tn__device_arena;

/* Opens an arena. Errors: E_IO; E_NO_MEMORY (the device has no block of that size, or the host is
 * out of memory); E_UNSUPPORTED (driver or device lacks pages); E_UNKNOWN (pool, with a similar
 * name in the message); E_INVALID (the pool needs a plan; a budget below a page). */
tn_status tn__device_arena_open(const tn__device_arena_options *options, const tn__cuda *cuda,
                                int device, tn__device_arena **arena, tn_error *error);
/* Whether the address lies in the arena. */
bool tn__device_arena_owns(const tn__device_arena *arena, const void *pointer);
/* Waits for the device and frees everything; NULL does nothing. */
void tn__device_arena_close(tn__device_arena *arena);

/* Allocates a block. `size` must be positive. `call_site`: the line of Python without commas, for
 * the list of holders and the trace; NULL: unknown. Errors: E_EXHAUSTED (tn_pool_holders with
 * TN_HOLDERS_NOW lists the holders), E_IO, E_NO_MEMORY of the host. */
tn_status tn__device_arena_alloc(tn__device_arena *arena, uint64_t size, void *stream,
                                 const char *call_site, void **pointer, tn_error *error);
/* Frees a block. Errors: E_INVALID (no block begins there). */
tn_status tn__device_arena_free(tn__device_arena *arena, void *pointer, tn_error *error);
/* Notes that the block is used on that stream, too. Errors: E_INVALID. */
tn_status tn__device_arena_use(tn__device_arena *arena, void *pointer, void *stream,
                               tn_error *error);
/* Empties the pool's cache, and returns pages without blocks to the device. */
void tn__device_arena_trim(tn__device_arena *arena);

#endif
