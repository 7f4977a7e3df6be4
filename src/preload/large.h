/* large.h - large blocks of a process from a pool, by address.
 *
 * Settings come from the environment, once; docs/preload.md tells them:
 *     TENURE_POOL, TENURE_BUDGET, TENURE_LEAST, TENURE_TRACE, TENURE_STATS
 * Without a budget, what does not fit the range goes to the allocator below. With a trace,
 * TENURE_TRACE_FIRST is set for the processes that this one starts.
 *
 * Threads: any. One lock is around everything, and fork takes it, so that a child finds a whole
 * pool.
 */
#ifndef TN_PRELOAD_LARGE_H
#define TN_PRELOAD_LARGE_H

#include <stdbool.h>
#include <stddef.h>

/* Reads the settings and reserves the range. Nothing is large before, nor where that fails. */
void tn__large_open(void);
/* Writes what is left of the trace, and the numbers. Blocks stay good. */
void tn__large_close(void);
/* Whether a request is one for the pool: large enough, and not made by the pool itself. */
bool tn__large_wants(size_t size);
/* NULL: it does not fit; *is_bound: and nobody else may give it (a budget is set). */
void *tn__large_alloc(size_t size, size_t alignment, bool *is_bound);
/* The same with every byte 0. */
void *tn__large_zeroed(size_t size, bool *is_bound);
bool tn__large_owns(const void *pointer);
size_t tn__large_size(const void *pointer); /* bytes that may be used */
void tn__large_free(void *pointer);

#endif
