/* cache.h - a cache of prepared kernels, by the facts that they depend on.
 *
 * A kernel is chosen and prepared for an operator's type, version and attributes; for the element
 * types, formats and extents of its operands; for which of them are constant; and for the values
 * that a kernel may read in advance (kernel.h). Two operators that agree in all of that share one
 * kernel. A state is written only under its own lock during a run, and packed weights belong to the
 * caller.
 *
 * An eager caller asks for one operator at a time; a graph's kernels (kernels.h) ask for all
 * operators at once. Neither graph nor operator need to outlive the call.
 *
 * Threads: any number may ask for kernels and run them.
 */
#ifndef TN_KERNELS_CACHE_H
#define TN_KERNELS_CACHE_H

#include "engine/kernels/kernel.h"

/* A kernel that was chosen and prepared. */
typedef struct tn__prepared {
    const tn_kernel *kernel;
    void *state;
    uint64_t workspace;
    const char *detail;     /* name in the library; NULL: no name */
    const uint64_t *packed; /* [inputs] or NULL */
    const uint64_t *forms;  /* [inputs], with `packed`: equal where the forms are; 0: not known */
    uint32_t way;           /* way of the kernel (kernel.h) */
} tn__prepared;

typedef struct tn__kernel_cache tn__kernel_cache;

/* `threads` of oneDNN; `plain`: our own loops alone, as where oneDNN is absent. One user. */
tn_status tn__kernel_cache_create(const tn_context *context, uint32_t threads, bool plain,
                                  tn__kernel_cache **cache, tn_error *error);
void tn__kernel_cache_hold(tn__kernel_cache *cache);    /* one more user */
void tn__kernel_cache_release(tn__kernel_cache *cache); /* the last destroys it; NULL is fine */

/* The kernel of an operator with known sizes; it lives as long as the cache.
 * Errors: E_UNSUPPORTED (no kernel runs it; names the node), E_NO_MEMORY.
 * Cost: O(attributes + operands + known values), and the first time the cost of `prepare`.
 */
tn_status tn__kernel_cache_find(tn__kernel_cache *cache, const tn_graph *graph, tn_op_id op,
                                const tn__prepared **prepared, tn_error *error);
/* The same in the first of its kernel's ways with scratch within `bytes`; if no way is, in the way
 * with the least. */
tn_status tn__kernel_cache_within(tn__kernel_cache *cache, const tn_graph *graph, tn_op_id op,
                                  uint64_t bytes, const tn__prepared **prepared, tn_error *error);
/* Input `input` of an operator in the form that its kernel wants (prepared->packed[input] bytes).
 */
tn_status tn__kernel_cache_pack(tn__kernel_cache *cache, const tn__prepared *prepared,
                                const tn_graph *graph, tn_op_id op, uint32_t input,
                                const void *plain, void *packed, tn_error *error);

/* The library's instruction set; "" without it. */
const char *tn__kernel_cache_isa(const tn__kernel_cache *cache);

typedef struct tn__kernel_cache_counts {
    uint32_t asked, prepared; /* how often; for how many of those a kernel was prepared */
    uint64_t key_bytes;
} tn__kernel_cache_counts;
tn__kernel_cache_counts tn__kernel_cache_count(tn__kernel_cache *cache);
uint32_t tn__kernel_cache_threads(const tn__kernel_cache *cache); /* that it was made for */

#endif
