/* preload.h - the parts of the preloaded library: large blocks from a pool, found by address, and
 * the next allocator for all other blocks.
 *
 * Settings come from the environment and are read once; docs/preload.md explains them: TENURE_POOL,
 * TENURE_BUDGET, TENURE_LEAST, TENURE_TRACE, TENURE_WATCH, TENURE_STATS. Without a budget, a
 * request that does not fit into the range goes to the next allocator. With a trace,
 * TENURE_TRACE_FIRST is set for the processes that this one starts.
 *
 * Threads: all functions may be called by any thread. One lock protects everything. fork takes it,
 * so that the child finds the pool in a consistent state.
 */
#ifndef TN_PRELOAD_PRELOAD_H
#define TN_PRELOAD_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

/* The next allocator below this library: that of libc, or of another preloaded library. */
typedef struct tn__next_allocator {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    size_t (*malloc_usable_size)(void *);
} tn__next_allocator;

/* Returns the next allocator, which is searched at the first call (preload.c). */
const tn__next_allocator *tn__next_allocator_find(void);

/* --- large blocks (large.c) ------------------------------------------------------------------- */

/* Reads the settings and reserves the range. Until then, and if that fails, no request is large. */
void tn__large_open(void);
/* Writes the end of the trace, and the statistics. Blocks stay valid. */
void tn__large_close(void);
/* Whether a request is for the pool: large enough, and not made by the pool itself. */
bool tn__large_wants(size_t size);
/* Allocates a large block; NULL if it does not fit. `caller`: the address to which the allocation
 * function will return. *is_bound: a budget is set, so the request must not go to another
 * allocator. */
void *tn__large_alloc(size_t size, size_t alignment, const void *caller, bool *is_bound);
/* Allocates a large block with every byte 0; else as tn__large_alloc. */
void *tn__large_zeroed(size_t size, const void *caller, bool *is_bound);
bool tn__large_owns(const void *pointer);
size_t tn__large_size(const void *pointer); /* the usable bytes of a block */
void tn__large_free(void *pointer);

#endif
