/* lanes.h - best fit for each stream apart, in one range: what `iteration` does without a plan.
 *
 * A lane is a stream with its free chunks, in bins. What no lane has is outside; a lane that has no
 * hole large enough takes what it needs from there, and keeps it until the cache is emptied. So
 * bytes never go from one stream to another without tn__lanes_trim. What is free at the frontier,
 * below the outside that reaches to the end, is no hole of any size and comes last, as in best-fit.
 *
 * A free chunk has the number of its lane, from 1, in `lane`; one outside has 0.
 */
#ifndef TN_POOL_LANES_H
#define TN_POOL_LANES_H

#include "pool/bins.h"

typedef struct tn__lane {
    uint32_t stream;
    bins holes;
} tn__lane;

typedef struct tn__lanes {
    tn__lane **lanes;
    size_t count, room;
    bins outside;
} tn__lanes;

void tn__lanes_open(tn_pool *pool, tn__lanes *all); /* the whole range is outside */
void tn__lanes_close(tn_pool *pool, tn__lanes *all);
/* The number of the stream's lane, which is made when it is new; 0: no memory. */
uint32_t tn__lanes_of(tn_pool *pool, tn__lanes *all, uint32_t stream);
/* What fits best of the lane's, cut to size; NONE: nothing fits. */
uint32_t tn__lanes_hole(tn_pool *pool, tn__lanes *all, uint32_t lane, const tn__want *want);
/* The same with what is outside: more is reserved. */
uint32_t tn__lanes_extend(tn_pool *pool, tn__lanes *all, uint32_t lane, const tn__want *want);
/* A chunk that is in no bin, its state and lane set: joined with its like beside it, into the chunk
 * that is returned. */
uint32_t tn__lanes_give(tn_pool *pool, tn__lanes *all, uint32_t chunk);
/* All that is free goes outside, and back to the system. */
void tn__lanes_trim(tn_pool *pool, tn__lanes *all);
/* The same with so many bytes, the highest first, or with what there is. Needs room for a chunk. */
void tn__lanes_release(tn_pool *pool, tn__lanes *all, uint64_t bytes);
/* What is outside from `base` on and below `end` is lent: in no bin, the caller's to deal out; in
 * chunks that do not cross `borders` [count], ascending, whose last is `end`. The chunks that cross
 * base and end are cut. Needs room for so many chunks more, and one. */
void tn__lanes_lend(tn_pool *pool, tn__lanes *all, uint64_t base, const uint64_t *borders,
                    uint32_t count);

#endif
