/* expand.h - expandable segments of the pool `caching`: ranges of addresses that are mapped page by
 * page. */
#ifndef TN_POOL_EXPAND_H
#define TN_POOL_EXPAND_H

#include "memory/pool/chunks.h"

typedef struct tn__expand {
    /* free chunks for small requests ([0]) and for large ones ([1]), by stream (stored in
     * `lane`) */
    tn__chunk_set *free[2];
    tn__chunk_set *outside; /* unused bytes of the range, which belong to no segment */
    uint64_t segment;       /* bytes of address range per segment, a multiple of the page sizes */
    uint64_t limit;         /* limit of the bytes that may be mapped to pages */
    /* number of searches of the pool so far, which serves as its clock; a free chunk stores it in
     * `birth` */
    uint64_t clock;
} tn__expand;

/* Returns the bytes to which a free chunk can grow within its segment, including its own. */
uint64_t tn__expand_size(const tn_pool *pool, uint32_t chunk);
/* Maps pages until a free chunk has `size` bytes, and returns the chunk, which is in no set. Begins
 * a segment if no segment of the stream has enough addresses. NONE: the limit would be exceeded, or
 * no addresses are left; pages that were mapped stay free. Cost: O(chunks). */
uint32_t tn__expand_map(tn_pool *pool, const tn__expand *it, uint64_t size, uint32_t stream,
                        bool large);
/* Unmaps all pages that contain no byte of a block, and returns their bytes. Also returns 0 if
 * memory for records is out. Cost: O(chunks log chunks). */
uint64_t tn__expand_unmap(tn_pool *pool, const tn__expand *it);

#endif
