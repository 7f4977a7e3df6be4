/* cache.h - a cache of prepared kernels. The key of an entry is everything that the choice and the
 * preparation of a kernel depend on.
 *
 * The key has the operator's type, version and attributes; the element types, formats and extents
 * of its operands; which operands are constant; and the values that a kernel may read in advance
 * (kernel.h). Two operators with equal keys share one prepared kernel. This is safe because a
 * kernel writes to its shared state only while it holds the state's lock, and packed weights belong
 * to the caller.
 *
 * An eager caller requests the kernel of one operator at a time. kernels.h requests the kernels of
 * all operators of a graph. Neither graph nor operator need to exist after the call.
 *
 * Threads: any number of threads may request kernels and run them.
 */
#ifndef TN_KERNELS_CACHE_H
#define TN_KERNELS_CACHE_H

#include "engine/kernels/kernel.h"

/* A kernel that was chosen for an operator and prepared. */
typedef struct tn__prepared {
    const tn_kernel *kernel;
    void *state;
    uint64_t workspace;
    const char *detail; /* name of oneDNN's implementation; NULL: none */
    /* for each input: bytes of its packed form, 0 if it is not packed; NULL: no input is packed */
    const uint64_t *packed;
    /* for each input, if `packed` is not NULL: a number that is equal for equal packed forms; 0:
     * not known */
    const uint64_t *forms;
    uint32_t way; /* number of the kernel's variant; 0: the fastest (tn_kernel.ways) */
} tn__prepared;

typedef struct tn__kernel_cache tn__kernel_cache;

/* Creates a cache with one user. `threads`: number of threads that oneDNN uses. `plain`: use only
 * our own loops, as if oneDNN were not installed. */
tn_status tn__kernel_cache_create(const tn_context *context, uint32_t threads, bool plain,
                                  tn__kernel_cache **cache, tn_error *error);
void tn__kernel_cache_hold(tn__kernel_cache *cache); /* adds a user to the cache */
/* removes a user of the cache, and destroys the cache if it was the last one; accepts NULL */
void tn__kernel_cache_release(tn__kernel_cache *cache);

/* Returns the prepared kernel of an operator; the sizes of its operands must be known. The kernel
 * exists as long as the cache. Errors: E_UNSUPPORTED (no kernel can run the operator; the message
 * names its node), E_NO_MEMORY. Cost: O(attributes + operands + known values); for a new key also
 * the time of `prepare`. */
tn_status tn__kernel_cache_find(tn__kernel_cache *cache, const tn_graph *graph, tn_op_id op,
                                const tn__prepared **prepared, tn_error *error);
/* Returns the prepared kernel of an operator as tn__kernel_cache_find does, in its fastest variant
 * that needs at most `bytes` of scratch memory. If no variant needs so little, returns the variant
 * with the least scratch memory. */
tn_status tn__kernel_cache_within(tn__kernel_cache *cache, const tn_graph *graph, tn_op_id op,
                                  uint64_t bytes, const tn__prepared **prepared, tn_error *error);
/* Writes an input in the packed form that the operator's kernel needs to `packed`. The form has
 * prepared->packed[input] bytes. */
tn_status tn__kernel_cache_pack(tn__kernel_cache *cache, const tn__prepared *prepared,
                                const tn_graph *graph, tn_op_id op, uint32_t input,
                                const void *plain, void *packed, tn_error *error);

/* The instruction set that oneDNN uses; "" if oneDNN is not used. */
const char *tn__kernel_cache_isa(const tn__kernel_cache *cache);

typedef struct tn__kernel_cache_counts {
    /* number of requests; number of requests for which a kernel was prepared */
    uint32_t asked, prepared;
    uint64_t key_bytes;
} tn__kernel_cache_counts;
tn__kernel_cache_counts tn__kernel_cache_count(tn__kernel_cache *cache);
/* the number of threads with which the cache was created */
uint32_t tn__kernel_cache_threads(const tn__kernel_cache *cache);

#endif
