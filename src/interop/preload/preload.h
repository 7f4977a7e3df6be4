/* preload.h - the parts of the preloaded library: large blocks from a pool, found by address; the
 * next allocator for all others.
 *
 * Settings come from the environment and are read once; docs/preload.md explains them:
 *     TENURE_POOL, TENURE_BUDGET, TENURE_LEAST, TENURE_TRACE, TENURE_STATS
 * Without a budget, a request that does not fit the range goes to the next allocator. With a trace,
 * TENURE_TRACE_FIRST is set for the processes that this one starts.
 *
 * Threads: any. One lock protects everything. fork takes it, so that the child finds the pool in a
 * consistent state.
 */
#ifndef TN_PRELOAD_PRELOAD_H
#define TN_PRELOAD_PRELOAD_H

#include <stdbool.h>
#include <stddef.h>

/* The next allocator below this library: libc's, or another preloaded one. */
typedef struct tn__next_allocator {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void (*free)(void *);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    size_t (*malloc_usable_size)(void *);
} tn__next_allocator;

/* preload.c: found at the first call. */
const tn__next_allocator *tn__next_allocator_find(void);

/* --- large blocks (large.c) ------------------------------------------------------------------- */

/* Reads the settings and reserves the range. Until then, and if that fails, no request is large. */
void tn__large_open(void);
/* Writes the rest of the trace, and the statistics. Blocks stay valid. */
void tn__large_close(void);
/* Is this request one for the pool: large enough, and not made by the pool itself? */
bool tn__large_wants(size_t size);
/* NULL: it does not fit. *is_bound: a budget is set, so the request must not go to another
 * allocator. */
void *tn__large_alloc(size_t size, size_t alignment, bool *is_bound);
/* The same with every byte 0. */
void *tn__large_zeroed(size_t size, bool *is_bound);
bool tn__large_owns(const void *pointer);
size_t tn__large_size(const void *pointer); /* usable bytes */
void tn__large_free(void *pointer);

#endif
