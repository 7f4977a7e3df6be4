/* large.h - serves the large blocks of a process from a pool, and finds them by address.
 *
 * Settings come from the environment and are read once; docs/preload.md explains them:
 *     TENURE_POOL, TENURE_BUDGET, TENURE_LEAST, TENURE_TRACE, TENURE_STATS
 * Without a budget, a request that does not fit the range goes to the allocator below. With a
 * trace, TENURE_TRACE_FIRST is set for the processes that this one starts.
 *
 * Threads: any. One lock protects everything. fork takes it, so that the child finds the pool in a
 * consistent state.
 */
#ifndef TN_PRELOAD_LARGE_H
#define TN_PRELOAD_LARGE_H

#include <stdbool.h>
#include <stddef.h>

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
