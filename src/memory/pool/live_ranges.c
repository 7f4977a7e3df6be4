/* live_ranges.c - plans the offsets of the next iterations from two that were equal.
 *
 * If a block was in use for longer in one of the two iterations, the longer time counts. Iterations
 * follow each other, so time is a circle; it is cut at the current request, and a block that is
 * live across the cut becomes a buffer of two pieces.
 */
#include <tenure/plan.h>

#include "memory/pool/live_ranges.h"

enum {
    /* at most 1/64 of the bytes of an iteration may stay in use longer than a period */
    LIVES_STEADY = 64,
    /* limit of the placements that the planner may try: this number, plus LIVES_WORK_EACH for each
     * live range */
    LIVES_WORK = 20 * 1000,
    LIVES_WORK_EACH = 8,
    /* number of attempts that consider only the obstacles below the top of the plan before; after
     * them, all obstacles are considered */
    LIVES_ATTEMPTS = 6
};

void tn__live_ranges_close(const tn_context *context, tn__live_ranges *lives) {
    tn__free(context, lives->items, lives->count * sizeof *lives->items);
    tn__free(context, lives->around, lives->around_room * sizeof *lives->around);
    *lives = (tn__live_ranges){0};
}

/* --- collecting the live ranges of an iteration --- */

/* The number of steps for which the block of request n is in use, judged by this request and by the
 * one a period before; 0: longer than the period. */
static uint32_t ranges_length(const tn__learn *learn, uint64_t n, uint64_t period) {
    const tn__asked *before = tn__learn_at(learn, n - period), *last = tn__learn_at(learn, n);
    if (before->freed == 0) return 0;
    uint64_t length = before->freed - (n - period);
    /* a block that is still in use has been so from its request until now */
    uint64_t other = last->freed != 0 ? last->freed - n : learn->count - n;
    if (other > length) length = last->freed != 0 ? other : other + 1;
    return length <= period ? (uint32_t)length : 0;
}

static bool ranges_open_zone(tn__live_ranges *lives, uint32_t stream) {
    for (uint32_t z = 0; z < lives->zones; z++)
        if (lives->streams[z] == stream) return true;
    if (lives->zones == TN__ZONES_MAX) return false;
    lives->streams[lives->zones++] = stream;
    return true;
}

/* Computes the live ranges of an iteration of `period` requests. Returns false if more than
 * 1/LIVES_STEADY of the bytes stay in use for longer than a period, or if there are too many
 * streams. */
static bool ranges_fill(const tn__learn *learn, uint64_t period, tn__live_ranges *lives) {
    uint64_t staying = 0, all = 0;
    for (uint64_t i = 0; i < period; i++) {
        uint64_t n = learn->count - period + i;
        const tn__asked *asked = tn__learn_at(learn, n), *before = tn__learn_at(learn, n - period);
        tn__pool_life *life = &lives->items[i];
        *life = (tn__pool_life){.size = asked->size,
                                .alignment = asked->alignment,
                                .stream = asked->stream,
                                .length = ranges_length(learn, n, period)};
        if (life->alignment < before->alignment) life->alignment = before->alignment;
        if (!ranges_open_zone(lives, life->stream)) return false;
        all = tn__add_sat(all, life->size);
        if (life->length == 0) staying = tn__add_sat(staying, life->size);
    }
    return staying <= all / LIVES_STEADY;
}

/* The live range of a block in use; NULL: the block is not part of the plan. */
static tn__pool_life *ranges_of_block(const tn__learn *learn, tn__live_ranges *lives,
                                      const tn__chunk *chunk) {
    uint64_t which;
    if (!tn__learn_knows(learn, chunk->child[0], chunk->birth, &which) ||
        which + lives->count < learn->count)
        return NULL;
    tn__pool_life *life = &lives->items[which + lives->count - learn->count];
    return life->length != 0 ? life : NULL;
}

/* Enters every block in use: as a block of the plan whose place is given, or as an obstacle for the
 * plan. False if memory is out. */
static bool ranges_keep(const tn_pool *pool, const tn__learn *learn, tn__live_ranges *lives) {
    for (uint32_t at = pool->first; at != TN__CHUNK_NONE; at = pool->chunks[at].after) {
        const tn__chunk *chunk = &pool->chunks[at];
        if (chunk->state != TN__CHUNK_USED) continue;
        tn__pool_life *life = ranges_of_block(learn, lives, chunk);
        if (life != NULL) {
            life->is_there = chunk->offset % life->alignment == 0;
            life->was = chunk->offset;
            continue;
        }
        if (!tn__reserve(&pool->context, &lives->around, &lives->around_room,
                         lives->around_count + 1, sizeof *lives->around))
            return false;
        lives->around[lives->around_count++] = (tn__stay){chunk->offset, chunk->size};
    }
    return true;
}

/* Sorts the streams by the bytes that they request, the most first. */
static void ranges_order_zones(tn__live_ranges *lives) {
    uint64_t bytes[TN__ZONES_MAX] = {0};
    for (uint32_t i = 0; i < lives->count; i++)
        for (uint32_t z = 0; z < lives->zones; z++)
            if (lives->streams[z] == lives->items[i].stream)
                bytes[z] = tn__add_sat(bytes[z], lives->items[i].size);
    for (uint32_t z = 1; z < lives->zones; z++) {
        uint64_t moved = bytes[z];
        uint32_t stream = lives->streams[z], at = z;
        for (; at > 0 && bytes[at - 1] < moved; at--) {
            bytes[at] = bytes[at - 1];
            lives->streams[at] = lives->streams[at - 1];
        }
        bytes[at] = moved;
        lives->streams[at] = stream;
    }
}

uint64_t tn__live_ranges_end_of_use(const tn_pool *pool) {
    uint32_t at = pool->last;
    while (at != TN__CHUNK_NONE && pool->chunks[at].state != TN__CHUNK_USED)
        at = pool->chunks[at].before;
    return at == TN__CHUNK_NONE ? 0 : pool->chunks[at].offset + pool->chunks[at].size;
}

bool tn__live_ranges_gather(const tn_pool *pool, const tn__learn *learn, uint64_t period,
                            tn__live_ranges *lives) {
    *lives = (tn__live_ranges){.count = (uint32_t)period, .now = learn->count};
    lives->items = tn__alloc_array(&pool->context, lives->count, sizeof *lives->items);
    if (lives->items == NULL) lives->count = 0;
    bool done = lives->items != NULL && ranges_fill(learn, period, lives) &&
                ranges_keep(pool, learn, lives);
    if (done) ranges_order_zones(lives);
    if (done && pool->release != NULL) lives->base = tn__live_ranges_end_of_use(pool);
    return done;
}

/* --- planning the offsets --- */

uint32_t tn__live_ranges_calm(const tn_context *context, const tn__live_ranges *lives) {
    uint64_t *dying = tn__alloc_array(context, lives->count, sizeof *dying);
    /* the number of bytes in use at step 0 is unknown, so it counts as 0; only differences
     * matter */
    int64_t now = 0, least = 0;
    uint32_t best = 0;
    if (dying == NULL) return 0;
    for (uint32_t i = 0; i < lives->count; i++)
        if (lives->items[i].length != 0)
            dying[(i + lives->items[i].length) % lives->count] += lives->items[i].size;
    for (uint32_t i = 0; i < lives->count; i++) {
        now -= (int64_t)dying[i];
        if (i == 0 || now < least) {
            least = now;
            best = i;
        }
        if (lives->items[i].length != 0) now += (int64_t)lives->items[i].size;
    }
    tn__free(context, dying, lives->count * sizeof *dying);
    return best;
}

/* The problem of one zone: offsets count from `base`, and obstacles at or above `ceiling` are left
 * out. */
typedef struct ranges_zone {
    const tn__live_ranges *lives;
    uint32_t stream;
    uint64_t base, ceiling, unit;
} ranges_zone;

static tn_status ranges_add(tn_problem *problem, const ranges_zone *zone, uint32_t i) {
    const tn__pool_life *life = &zone->lives->items[i];
    int64_t all = zone->lives->count, first = i, last = first + life->length;
    tn_piece pieces[2] = {{.first = first, .last = last < all ? last : all, .hi = life->size},
                          {.first = 0, .last = last - all, .hi = life->size}};
    tn_body body = {.size = life->size,
                    .alignment = life->alignment,
                    .pieces = pieces,
                    .piece_count = last > all ? 2 : 1};
    if (life->is_there && life->was >= zone->base && life->was < zone->ceiling) {
        body.offset = life->was - zone->base;
        body.flags = TN_BODY_PINNED;
    }
    return tn_problem_add(problem, &body, NULL, NULL);
}

/* Adds an obstacle (a block in use that stays) to the problem of a zone: the part of it that lies
 * above the zones planned so far. */
static tn_status ranges_add_stay(tn_problem *problem, const ranges_zone *zone,
                                 const tn__stay *stay) {
    uint64_t end = stay->offset + stay->size;
    uint64_t from = stay->offset > zone->base ? stay->offset : zone->base;
    if (end <= zone->base || stay->offset >= zone->ceiling) return TN_OK;
    tn_body body = {.size = end - from,
                    .last = zone->lives->count,
                    .offset = from - zone->base,
                    .flags = TN_BODY_PINNED};
    return tn_problem_add(problem, &body, NULL, NULL);
}

static tn_status ranges_fill_problem(tn_problem *problem, const ranges_zone *zone) {
    const tn__live_ranges *lives = zone->lives;
    TN_TRY(tn_problem_set_alignment(problem, zone->unit, NULL));
    for (uint32_t i = 0; i < lives->count; i++)
        if (lives->items[i].stream == zone->stream && lives->items[i].length != 0)
            TN_TRY(ranges_add(problem, zone, i));
    for (size_t a = 0; a < lives->around_count; a++)
        TN_TRY(ranges_add_stay(problem, zone, &lives->around[a]));
    return TN_OK;
}

static tn_status ranges_plan_below(const tn_context *context, const ranges_zone *zone,
                                   tn_layout *layout) {
    tn_problem *problem = NULL;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    options.context = context;
    options.work_limit = LIVES_WORK + (uint64_t)LIVES_WORK_EACH * zone->lives->count;
    tn_status status = TN_OK;
    TN_TRY_DONE(tn_problem_create(context, &problem, NULL));
    TN_TRY_DONE(ranges_fill_problem(problem, zone));
    TN_TRY_DONE(tn_plan(problem, &options, layout, NULL));
done:
    tn_problem_destroy(problem);
    return status;
}

/* Whether a block in use that the plan left out begins in [from, to). */
static bool ranges_meets(const tn__live_ranges *lives, uint64_t from, uint64_t to) {
    for (size_t a = 0; a < lives->around_count; a++)
        if (lives->around[a].offset >= from && lives->around[a].offset < to) return true;
    for (uint32_t i = 0; i < lives->count; i++)
        if (lives->items[i].is_there && lives->items[i].was >= from && lives->items[i].was < to)
            return true;
    return false;
}

/* Plans one zone. Blocks in use at high offsets should not make the plan high. So the plan is first
 * made without them, then again with those that it overlapped, until it overlaps no others. A zone
 * ends at a multiple of the largest alignment, so that the next one can begin there. */
static tn_status ranges_plan_zone(const tn_context *context, tn__live_ranges *lives,
                                  uint32_t number, uint64_t base, uint64_t unit, uint64_t widest) {
    ranges_zone zone = {lives, lives->streams[number], base, base, unit};
    for (uint32_t attempt = 0;; attempt++) {
        tn_layout layout = {0};
        TN_TRY(ranges_plan_below(context, &zone, &layout));
        uint64_t top = base + ((layout.peak + widest - 1) & ~(widest - 1));
        bool is_last = zone.ceiling == UINT64_MAX || !ranges_meets(lives, zone.ceiling, top);
        for (uint32_t i = 0, body = 0; is_last && i < lives->count; i++)
            if (lives->items[i].stream == zone.stream && lives->items[i].length != 0)
                lives->items[i].offset = base + layout.offset[body++];
        tn_layout_release(&layout);
        lives->borders[number] = top;
        if (is_last) return TN_OK;
        zone.ceiling = attempt < LIVES_ATTEMPTS ? top : UINT64_MAX;
    }
}

bool tn__live_ranges_plan(const tn_context *context, tn__live_ranges *lives, uint64_t unit) {
    uint64_t widest = unit;
    for (uint32_t i = 0; i < lives->count; i++)
        if (lives->items[i].alignment > widest) widest = lives->items[i].alignment;
    uint64_t base = lives->base = (lives->base + widest - 1) & ~(widest - 1);
    for (uint32_t zone = 0; zone < lives->zones; zone++) {
        if (ranges_plan_zone(context, lives, zone, base, unit, widest) != TN_OK) return false;
        base = lives->borders[zone];
    }
    return true;
}
