/* live_ranges.h - the live ranges of an iteration that repeats, and a plan for them.
 *
 * Steps are requests: the block of request i is live from step i until the number of requests after
 * which it was freed. Iterations follow each other, so time is a circle: a block that is live into
 * the next iteration is also there at the beginning of this one. Blocks that are live for longer
 * than an iteration are not part of the plan. Blocks in use that will stay are obstacles for the
 * plan. Blocks in use that recur in each iteration keep their offsets in the plan, so the plan is
 * valid from its first request on. The plan is made at the step with the fewest live bytes, where
 * the fewest offsets are fixed.
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
    uint64_t offset; /* offset of the block in the plan */
    uint64_t was;    /* current offset of the block, if is_there says that it is in use now */
    uint32_t stream;
    uint32_t length; /* number of steps; 0: the block is not part of the plan */
    bool is_there;
} tn__pool_life;

typedef struct tn__stay { /* a block that stays in use, an obstacle for the plan */
    uint64_t offset, size;
} tn__stay;

enum { TN__ZONES_MAX = 32 };

typedef struct tn__live_ranges {
    tn__pool_life *items; /* [count], one for each request of an iteration */
    uint32_t count;
    tn__stay *around;
    size_t around_count, around_room;
    uint64_t now;  /* the number of the next request, to which item 0 belongs */
    uint64_t base; /* offset at which the lowest zone of the plan begins */
    /* [zones], end of each zone; the last one is the plan's height */
    uint64_t borders[TN__ZONES_MAX];
    uint32_t streams[TN__ZONES_MAX];
    uint32_t zones;
} tn__live_ranges;

/* Collects the live ranges of an iteration from the last two periods. Returns false if too many
 * bytes stay in use for longer than a period, if there are more streams than zones, or if memory is
 * out. */
bool tn__live_ranges_gather(const tn_pool *pool, const tn__learn *learn, uint64_t period,
                            tn__live_ranges *lives);
/* Returns the offset at which the highest block in use ends. */
uint64_t tn__live_ranges_end_of_use(const tn_pool *pool);
/* Returns the step of the iteration before which the fewest bytes are live, counted from 0. */
uint32_t tn__live_ranges_calm(const tn_context *context, const tn__live_ranges *lives);
/* Finds the offsets from `base` on, which is raised so that all can be aligned. False if no plan
 * was found within the work allowed. */
bool tn__live_ranges_plan(const tn_context *context, tn__live_ranges *lives, uint64_t unit);
void tn__live_ranges_close(const tn_context *context, tn__live_ranges *lives);

#endif
