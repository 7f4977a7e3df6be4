/* live_ranges.c - computes live ranges from allocation events: the bytes of each block, and from
 * when to when it was in use.
 *
 * One walk over the ring of events keeps a map from addresses to live blocks. A block that is freed
 * but is not in the map existed before the ring began. So did a block that the segments list as in
 * use at the end but that no event allocated. Once these are known, the total at each time is
 * known: the walk counts from 0, and the bytes that existed before are added at the end.
 */
#include "base/table.h"
#include "interop/snapshot/snapshot.h"

#include <inttypes.h>
#include <stdio.h>

#define LIVES_NONE UINT32_MAX

typedef struct lives_walk {
    tn_snapshot_lives *made;
    tn__table in_use; /* finds the block in use at an address */
    uint64_t key;     /* key of the hash */
    /* requested bytes in use, and their maximum, relative to the beginning of the recorded
     * events */
    int64_t requested, most;
    int64_t reserved, reserved_most;
    tn_error *error;
} lives_walk;

static tn_status lives_no_memory(tn_error *error) { return tn__no_memory(error, "a snapshot"); }

void tn__snapshot_wrong(tn_snapshot_lives *lives, uint64_t *count, const char *format, ...) {
    if ((*count)++ > 0 || lives->facts.first_wrong[0] != '\0') return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(lives->facts.first_wrong, sizeof lives->facts.first_wrong, format, arguments);
    va_end(arguments);
}

/* --- blocks in use, by address --- */

/* The hash of an address. It uses a key, so that a file cannot cause collisions. */
static uint64_t lives_hash(const lives_walk *walk, uint64_t address) {
    uint64_t hash = address ^ walk->key; /* brings high bits down before the multiplication */
    hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93u;
    hash = (hash ^ hash >> 29) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
}

/* Finds the block in use at an address; LIVES_NONE if no block is known there. */
static uint32_t lives_find(const lives_walk *walk, uint64_t address) {
    tn__probe probe = tn__table_probe(&walk->in_use, lives_hash(walk, address));
    uint32_t number;
    do number = tn__table_next(&walk->in_use, &probe);
    while (number != TN__TABLE_NONE && walk->made->lives[number].address != address);
    return number;
}

static bool lives_enter(lives_walk *walk, uint64_t address, uint32_t number) {
    return tn__table_add(&walk->in_use, lives_hash(walk, address), number);
}

/* --- walking through the events --- */

static tn_status lives_add(lives_walk *walk, const tn_snapshot_life *life, uint32_t *number) {
    tn_snapshot_lives *made = walk->made;
    if (made->life_count >= LIVES_NONE - 1 ||
        !tn__reserve(&made->context, &made->lives, &made->life_room, made->life_count + 1,
                     sizeof *made->lives))
        return lives_no_memory(walk->error);
    *number = (uint32_t)made->life_count;
    made->lives[made->life_count++] = *life;
    return TN_OK;
}

static void lives_end(lives_walk *walk, uint32_t number, const tn_snapshot_event *event,
                      uint32_t time) {
    tn_snapshot_life *life = &walk->made->lives[number];
    life->last = time;
    if (event->action != TN_SNAPSHOT_FREE_COMPLETED)
        life->freed = 0;
    else if (event->stack != 0)
        /* if the event has no stack, the stack of the free request is kept */
        life->freed = event->stack;
    tn__table_remove(&walk->in_use, lives_hash(walk, life->address), number);
    walk->requested -= (int64_t)life->size;
}

static tn_status lives_alloc(lives_walk *walk, const tn_snapshot_event *event, uint32_t time) {
    uint32_t number = lives_find(walk, event->address);
    if (number != LIVES_NONE) {
        tn__snapshot_wrong(walk->made, &walk->made->facts.wrong_requests,
                           "event %u allocates address %#" PRIx64 ", which is in use", time - 1,
                           event->address);
        lives_end(walk, number, event, time);
    }
    tn_snapshot_life life = {.address = event->address,
                             .size = event->size,
                             .first = time,
                             .stack = event->stack,
                             .stream = event->stream,
                             .category = event->category};
    TN_TRY(lives_add(walk, &life, &number));
    if (!lives_enter(walk, event->address, number)) return lives_no_memory(walk->error);
    walk->requested += (int64_t)event->size;
    return TN_OK;
}

static tn_status lives_free(lives_walk *walk, const tn_snapshot_event *event, uint32_t time) {
    tn_snapshot_lives *made = walk->made;
    uint32_t number = lives_find(walk, event->address);
    /* no recorded event allocated the block, so it existed before recording began */
    if (number == LIVES_NONE) {
        tn_snapshot_life life = {.address = event->address,
                                 .size = event->size,
                                 .last = time,
                                 .freed = event->stack,
                                 .stream = event->stream,
                                 .category = event->category,
                                 .before = true};
        walk->requested -= (int64_t)event->size;
        return lives_add(walk, &life, &number);
    }
    if (made->lives[number].size != event->size)
        tn__snapshot_wrong(made, &made->facts.wrong_requests,
                           "event %u frees %" PRIu64 " bytes, which were %" PRIu64, time - 1,
                           event->size, made->lives[number].size);
    lives_end(walk, number, event, time);
    return TN_OK;
}

/* Handles a request to free: from now on the block waits until no stream uses it. */
static tn_status lives_ask(lives_walk *walk, const tn_snapshot_event *event, uint32_t time) {
    uint32_t number = lives_find(walk, event->address);
    /* no recorded event allocated the block, so it existed before recording began */
    if (number == LIVES_NONE) {
        tn_snapshot_life life = {.address = event->address,
                                 .size = event->size,
                                 .stream = event->stream,
                                 .category = event->category,
                                 .before = true};
        TN_TRY(lives_add(walk, &life, &number));
        if (!lives_enter(walk, event->address, number)) return lives_no_memory(walk->error);
    }
    walk->made->lives[number].asked = time;
    walk->made->lives[number].freed = event->stack;
    return TN_OK;
}

static tn_status lives_event(lives_walk *walk, const tn_snapshot_event *event, uint32_t time) {
    switch (event->action) {
    case TN_SNAPSHOT_ALLOC:
        TN_TRY(lives_alloc(walk, event, time));
        break;
    case TN_SNAPSHOT_FREE_COMPLETED:
        TN_TRY(lives_free(walk, event, time));
        break;
    case TN_SNAPSHOT_FREE_REQUESTED:
        TN_TRY(lives_ask(walk, event, time));
        break;
    case TN_SNAPSHOT_SEGMENT_ALLOC:
    case TN_SNAPSHOT_SEGMENT_MAP:
        walk->reserved += (int64_t)event->size;
        break;
    case TN_SNAPSHOT_SEGMENT_FREE:
    case TN_SNAPSHOT_SEGMENT_UNMAP:
        walk->reserved -= (int64_t)event->size;
        break;
    case TN_SNAPSHOT_OOM:
        walk->made->facts.oom_count++;
        break;
    default:
        break;
    }
    if (walk->requested > walk->most) {
        walk->most = walk->requested;
        walk->made->facts.peak_time = time;
    }
    if (walk->reserved > walk->reserved_most) walk->reserved_most = walk->reserved;
    return TN_OK;
}

/* Checks that sums do not overflow; the sizes on a device never add up to 2^62. */
static tn_status lives_check_sums(const tn_snapshot_event *events, uint64_t count,
                                  tn_error *error) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) sum = tn__add_sat(sum, events[i].size);
    if (sum < 1ull << 62) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "the sizes of all events add up to more than 2^62 bytes");
}

/* --- the blocks that the segments list at the end --- */

static tn_status lives_at_end(lives_walk *walk, const tn_snapshot_segment *segment,
                              const tn_snapshot_block *block, uint32_t now) {
    tn_snapshot_lives *made = walk->made;
    uint32_t number = lives_find(walk, block->address);
    if (number != LIVES_NONE) {
        tn_snapshot_life *life = &made->lives[number];
        if (block->requested != 0 && life->size != block->requested)
            tn__snapshot_wrong(made, &made->facts.wrong_blocks,
                               "block %#" PRIx64 " has %" PRIu64
                               " bytes requested, in the ring %" PRIu64,
                               block->address, block->requested, life->size);
        life->after = true;
        life->last = now + 1;
        life->waiting = block->state == TN_SNAPSHOT_PENDING_FREE;
        /* a file recorded with context="state" has stacks only in its blocks */
        if (life->stack == 0) life->stack = block->stack;
        if (!life->waiting) life->asked = life->freed = 0;
        tn__table_remove(&walk->in_use, lives_hash(walk, block->address), number);
        return TN_OK;
    }
    tn_snapshot_life life = {.address = block->address,
                             .size = block->requested != 0 ? block->requested : block->size,
                             .last = now + 1,
                             .stack = block->stack,
                             .stream = segment->stream,
                             .before = true,
                             .after = true,
                             .waiting = block->state == TN_SNAPSHOT_PENDING_FREE};
    return lives_add(walk, &life, &number);
}

/* Ends the live ranges of blocks that are still in the map: by the events alone, they are in use at
 * the end. */
static void lives_left(lives_walk *walk, uint32_t now, bool has_segments) {
    tn_snapshot_lives *made = walk->made;
    for (uint32_t i = 0; i < made->life_count; i++) {
        tn_snapshot_life *life = &made->lives[i];
        if (lives_find(walk, life->address) != i) continue;
        life->after = true;
        life->last = now + 1;
        if (has_segments)
            tn__snapshot_wrong(made, &made->facts.wrong_blocks,
                               "address %#" PRIx64 " is in use by the ring, and no block says so",
                               life->address);
    }
}

static tn_status lives_too_many(tn_error *error) {
    TN_FAIL(error, TN_E_INVALID, "the sizes of all segments add up to more than 2^62 bytes");
}

static tn_status lives_segments(lives_walk *walk, uint32_t now) {
    const tn_snapshot *snapshot = walk->made->snapshot;
    bool has_segments = false;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < snapshot->segment_count; i++) {
        const tn_snapshot_segment *segment = &snapshot->segments[i];
        if (segment->device != walk->made->device) continue;
        has_segments = true;
        sum = tn__add_sat(sum, segment->total);
        if (sum >= 1ull << 62) return lives_too_many(walk->error);
        for (uint32_t b = 0; b < segment->block_count; b++) {
            const tn_snapshot_block *block = &snapshot->blocks[segment->first_block + b];
            sum = tn__add_sat(sum, tn__add_sat(block->size, block->requested));
            if (sum >= 1ull << 62) return lives_too_many(walk->error);
            if (block->state != TN_SNAPSHOT_INACTIVE)
                TN_TRY(lives_at_end(walk, segment, block, now));
        }
    }
    lives_left(walk, now, has_segments);
    return TN_OK;
}

/* Adds the bytes that were allocated before the first recorded event, which are known now, to the
 * totals. */
static void lives_sum(lives_walk *walk) {
    tn_snapshot_lives *made = walk->made;
    tn_snapshot_facts *facts = &made->facts;
    facts->life_count = made->life_count;
    for (size_t i = 0; i < made->life_count; i++) {
        tn_snapshot_life *life = &made->lives[i];
        life->guess = (uint8_t)tn__snapshot_infer_category(made, life);
        facts->requested += life->after ? life->size : 0;
        facts->waiting_bytes += life->waiting ? life->size : 0;
        facts->waiting_count += life->waiting;
        if (!life->before) continue;
        facts->before_count++;
        facts->before_bytes += life->size;
    }
    facts->peak_requested = facts->before_bytes + (uint64_t)walk->most;
}

static tn_status lives_walk_all(lives_walk *walk) {
    uint64_t count = 0;
    const tn_snapshot_event *events =
        tn_snapshot_events(walk->made->snapshot, walk->made->device, &count);
    walk->made->facts.event_count = count;
    TN_TRY(lives_check_sums(events, count, walk->error));
    TN_TRY(tn__snapshot_infer_stacks(walk->made, walk->error));
    for (uint64_t i = 0; i < count; i++) TN_TRY(lives_event(walk, &events[i], (uint32_t)i + 1));
    TN_TRY(lives_segments(walk, (uint32_t)count));
    lives_sum(walk);
    TN_TRY(tn__snapshot_validate(walk->made, walk->reserved, walk->error));
    walk->made->facts.reserved_peak = walk->made->reserved_first + (uint64_t)walk->reserved_most;
    return TN_OK;
}

tn_status tn_snapshot_live(const tn_snapshot *snapshot, uint32_t device, tn_snapshot_lives **lives,
                           tn_error *error) {
    if (device >= snapshot->device_count)
        TN_FAIL(error, TN_E_INVALID, "there is no device %u in the snapshot, which has %u", device,
                snapshot->device_count);
    tn_snapshot_lives *made = tn__alloc_array(&snapshot->context, 1, sizeof *made);
    if (made == NULL) return lives_no_memory(error);
    made->snapshot = snapshot;
    made->context = snapshot->context;
    made->device = device;
    tn__arena_init(&made->arena, &made->context);
    lives_walk walk = {.made = made, .error = error};
    walk.key = (uint64_t)(uintptr_t)made * 0xbf58476d1ce4e5b9u;
    tn__table_init(&walk.in_use, &made->context);
    tn_status status = lives_walk_all(&walk);
    tn__table_release(&walk.in_use);
    if (status == TN_OK)
        *lives = made;
    else
        tn_snapshot_lives_destroy(made);
    return status;
}

void tn_snapshot_lives_destroy(tn_snapshot_lives *lives) {
    if (lives == NULL) return;
    tn_context context = lives->context;
    tn__arena_release(&lives->arena);
    tn__free(&context, lives->names, lives->name_room * sizeof *lives->names);
    tn__free(&context, lives->lives, lives->life_room * sizeof *lives->lives);
    tn__free(&context, lives, sizeof *lives);
}
