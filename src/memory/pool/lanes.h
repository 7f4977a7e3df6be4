/* lanes.h - best fit for each stream separately, in one range: the technique of `iteration` without
 * a plan.
 *
 * A lane is a stream with its free chunks, in bins. Bytes of no lane are outside. A lane without a
 * sufficient hole takes bytes from outside, and keeps them until the cache is emptied. So bytes
 * move from one stream to another only through tn__lanes_trim. A free chunk at the frontier, below
 * the outside bytes that reach to the end, is not a hole and is used last, as in best-fit.
 *
 * A free chunk has the number of its lane, from 1, in `lane`; an outside chunk has 0.
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

void tn__lanes_open(tn_pool *pool, tn__lanes *all); /* at first the whole range is outside */
void tn__lanes_close(tn_pool *pool, tn__lanes *all);
/* The number of the stream's lane, which is made if it is new; 0: no memory. */
uint32_t tn__lanes_of(tn_pool *pool, tn__lanes *all, uint32_t stream);
/* Takes the best fitting hole of the lane, cut to size; NONE: nothing fits. */
uint32_t tn__lanes_hole(tn_pool *pool, tn__lanes *all, uint32_t lane, const tn__want *want);
/* The same from the bytes outside, which reserves more. */
uint32_t tn__lanes_extend(tn_pool *pool, tn__lanes *all, uint32_t lane, const tn__want *want);
/* Gives back a chunk that is in no bin, with state and lane set; joins it with equal neighbours and
 * returns the joined chunk. */
uint32_t tn__lanes_give(tn_pool *pool, tn__lanes *all, uint32_t chunk);
/* Moves all free bytes outside, and releases them to the system. */
void tn__lanes_trim(tn_pool *pool, tn__lanes *all);
/* The same with up to `bytes` bytes, the highest first. Needs room for one chunk. */
void tn__lanes_release(tn_pool *pool, tn__lanes *all, uint64_t bytes);
/* Lends the outside bytes from `base` on and below `end` to the caller, which deals them out; they
 * are in no bin. The lent chunks do not cross `borders` [count], which ascend and end with `end`.
 * Chunks that cross base or end are cut. Needs room for `count` + 1 more chunks. */
void tn__lanes_lend(tn_pool *pool, tn__lanes *all, uint64_t base, const uint64_t *borders,
                    uint32_t count);

#endif
