/* expand.h - expandable segments of the pool `caching`: address ranges that are mapped page by
 * page. */
#ifndef TN_POOL_EXPAND_H
#define TN_POOL_EXPAND_H

#include "memory/pool/chunks.h"

typedef struct tn__expand {
    tn__chunk_set *free[2]; /* free chunks for small and for large requests; lane: the stream */
    tn__chunk_set *outside; /* bytes of the range without a segment */
    uint64_t segment;       /* bytes of address range for each segment, a multiple of all pages */
    uint64_t limit;         /* the most bytes to map */
    uint64_t clock; /* the time, in searches of the pool; a free chunk keeps it in `birth` */
} tn__expand;

/* The bytes that a free chunk may grow to without another segment. */
uint64_t tn__expand_size(const tn_pool *pool, uint32_t chunk);
/* Maps pages until a free chunk has `size` bytes; begins a segment if no segment of the stream has
 * the addresses. The chunk is in no set. NONE: above the limit, or no addresses are left. Pages
 * that were mapped stay free. Cost: O(chunks). */
uint32_t tn__expand_map(tn_pool *pool, const tn__expand *it, uint64_t size, uint32_t stream,
                        bool large);
/* Unmaps all pages without a block. Returns their bytes; 0 also if there is no memory for records.
 * Cost: O(chunks log chunks). */
uint64_t tn__expand_unmap(tn_pool *pool, const tn__expand *it);

#endif
