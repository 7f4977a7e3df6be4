/* live_ranges.h - the live ranges of an iteration that repeats, and a plan for them.
 *
 * Steps are requests: the block of request i lives from step i until the number of requests after
 * which it was freed. Iterations follow each other, so time is a circle: a block that lives into
 * the next iteration is also there at the beginning of this one. Blocks that live longer than an
 * iteration have no place in the plan. Blocks in use that will stay are obstacles for the plan.
 * Blocks in use that recur in each iteration keep their offsets in the plan, so the plan is valid
 * from its first request on. The plan is made at the step with the fewest live bytes, where the
 * fewest offsets are fixed.
 *
 * If released memory can be mapped elsewhere (tn_pool_options.release), a plan has no obstacles: it
 * begins above all blocks in use, in new bytes, and the old bytes are released. If unused bytes
 * cost nothing (tn_pool_options.is_sparse), it does so only if it would be too high otherwise.
 *
 * Streams share no bytes: each has its own zone, one above the other, the zone with the most bytes
 * lowest.
 */
#ifndef TN_POOL_LIVES_H
#define TN_POOL_LIVES_H

#include "memory/pool/learn.h"
#include "memory/pool/technique.h"

typedef struct tn__pool_life {
    uint64_t size, alignment;
    uint64_t offset; /* in the plan */
    uint64_t was;    /* with `is_there`: the current offset of its block */
    uint32_t stream;
    uint32_t length; /* steps; 0: no place in the plan */
    bool is_there;
} tn__pool_life;

typedef struct tn__stay { /* bytes that stay in use */
    uint64_t offset, size;
} tn__stay;

enum { TN__ZONES_MAX = 32 };

typedef struct tn__live_ranges {
    tn__pool_life *items; /* [count], one for each request of an iteration */
    uint32_t count;
    tn__stay *around;
    size_t around_count, around_room;
    uint64_t now;  /* the number of the next request, which item 0 is for */
    uint64_t base; /* start of the first zone */
    /* [zones] end of each zone; the last one is the plan's height */
    uint64_t borders[TN__ZONES_MAX];
    uint32_t streams[TN__ZONES_MAX];
    uint32_t zones;
} tn__live_ranges;

/* Gathers the live ranges of the last two periods. False: the bytes in use differ before and after
 * a period, there are more streams than zones, or memory is out. */
bool tn__live_ranges_gather(const tn_pool *pool, const tn__learn *learn, uint64_t period,
                            tn__live_ranges *lives);
/* The end of the highest block in use. */
uint64_t tn__live_ranges_end_of_use(const tn_pool *pool);
/* The step, from 0, before which the fewest bytes are live. */
uint32_t tn__live_ranges_calm(const tn_context *context, const tn__live_ranges *lives);
/* Finds the offsets from `base` on; `base` is raised to align all of them. False: no plan was found
 * within the effort allowed. */
bool tn__live_ranges_plan(const tn_context *context, tn__live_ranges *lives, uint64_t unit);
void tn__live_ranges_close(const tn_context *context, tn__live_ranges *lives);

#endif
