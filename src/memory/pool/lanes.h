/* lanes.h - best fit for each stream separately, in one range: the technique of `iteration` without
 * a plan.
 *
 * A lane is a stream with its free chunks, in bins. Bytes that belong to no lane are outside: they
 * are not reserved. A lane without a sufficient hole takes bytes from outside, and keeps them until
 * the cache is emptied. So bytes move from one stream to another only through tn__lanes_trim. A
 * free chunk at the frontier, directly below the outside bytes at the end of the range, is not a
 * hole and is used last, as in best-fit.
 *
 * The field `lane` of a free chunk is the number of its lane, from 1; that of an outside chunk is
 * 0.
 */
#ifndef TN_POOL_LANES_H
#define TN_POOL_LANES_H

#include "memory/pool/free_chunks.h"

typedef struct tn__pool_lane {
    uint32_t stream;
    bins holes;
} tn__pool_lane;

typedef struct tn__lanes {
    tn__pool_lane **lanes;
    size_t count, room;
    bins outside;
} tn__lanes;

/* opens the lanes; at first no byte of the range is reserved */
void tn__lanes_open(tn_pool *pool, tn__lanes *all);
void tn__lanes_close(tn_pool *pool, tn__lanes *all);
/* Returns the number of the stream's lane, which is made if it is new; 0 if memory is out. */
uint32_t tn__lanes_of(tn_pool *pool, tn__lanes *all, uint32_t stream);
/* Takes the best fitting hole of the lane, cut to size; NONE if nothing fits. */
uint32_t tn__lanes_hole(tn_pool *pool, tn__lanes *all, uint32_t lane, const tn__want *want);
/* Takes a block from the unreserved bytes, so that more bytes are reserved; NONE if nothing
 * fits. */
uint32_t tn__lanes_extend(tn_pool *pool, tn__lanes *all, uint32_t lane, const tn__want *want);
/* Gives back a chunk that is in no bin, with state and lane set; joins it with equal neighbours and
 * returns the joined chunk. */
uint32_t tn__lanes_give(tn_pool *pool, tn__lanes *all, uint32_t chunk);
/* Makes all free bytes unreserved, and releases them to the system. */
void tn__lanes_trim(tn_pool *pool, tn__lanes *all);
/* Makes up to `bytes` free bytes unreserved, the highest first, and releases them to the system. A
 * record for one chunk must be reserved. */
void tn__lanes_release(tn_pool *pool, tn__lanes *all, uint64_t bytes);
/* Lends the unreserved bytes in [base, end) to the caller, which allocates from them; they are in
 * no bin. The lent chunks do not cross `borders` [count], which ascend and end with `end`. Chunks
 * that cross `base` or `end` are cut. Records for `count` + 1 more chunks must be reserved. */
void tn__lanes_lend(tn_pool *pool, tn__lanes *all, uint64_t base, const uint64_t *borders,
                    uint32_t count);

#endif
