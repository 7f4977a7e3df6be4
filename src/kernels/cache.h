/* cache.h - prepared kernels, found again by what they depend on.
 *
 * A kernel is chosen and prepared for an operator's type, version and attributes, for the element
 * types, formats and extents of its operands, which of them are constant, and those contents that a
 * kernel may look at (kernel.h). Two operators that agree in all of that share one: a state is not
 * written to while it runs, but under a lock of its own, and what is packed lies with the caller.
 *
 * So a caller that learns only now what to run asks for one operator alone; a graph's kernels
 * (kernels.h) ask for all of theirs. Neither graph nor operator have to outlive the call.
 *
 * Threads: any number may ask, and run what they got.
 */
#ifndef TN_KERNELS_CACHE_H
#define TN_KERNELS_CACHE_H

#include "kernels/kernel.h"

/* A kernel that was chosen and prepared. */
typedef struct tn__prepared {
    const tn_kernel *kernel;
    void *state;
    uint64_t workspace;
    const char *detail;     /* what the library calls it; NULL: nothing */
    const uint64_t *packed; /* [inputs] or NULL */
    const uint64_t *forms;  /* [inputs], with `packed`: equal where the forms are; 0: not known */
    uint32_t way;           /* of the kernel's (kernel.h) */
} tn__prepared;

typedef struct tn__kernel_cache tn__kernel_cache;

/* `threads` of oneDNN; `plain`: our own loops alone, as where oneDNN is absent. One user. */
tn_status tn__kernel_cache_create(const tn_context *context, uint32_t threads, bool plain,
                                  tn__kernel_cache **cache, tn_error *error);
void tn__kernel_cache_hold(tn__kernel_cache *cache);    /* one more user */
void tn__kernel_cache_release(tn__kernel_cache *cache); /* the last destroys it; NULL is fine */

/* The kernel of an operator, whose sizes are known; lives as long as the cache.
 * Errors: E_UNSUPPORTED (none runs it, with its node), E_NO_MEMORY.
 * Cost: O(attributes + operands + known contents), and the first time what its `prepare` takes. */
tn_status tn__kernel_cache_find(tn__kernel_cache *cache, const tn_graph *graph, tn_op_id op,
                                const tn__prepared **prepared, tn_error *error);
/* The same in the first of its kernel's ways whose scratch is within `bytes`; where none is, in the
 * way with the least. */
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
