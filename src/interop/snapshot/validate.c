/* validate.c - checks the ring of events and the list of segments of a snapshot against each other.
 *
 * Segments: blocks lie end to end and fill their segment, and their sums equal the numbers in the
 * file. The device: going backwards from the final segments, a range that an event allocated must
 * be present, and a range that it freed must not be. If a file passes, its events explain its
 * segments.
 */
#include "interop/snapshot/snapshot.h"

#include <inttypes.h>

/* --- segments --- */

typedef struct validate_sums {
    uint64_t end, allocated, active, requested;
} validate_sums;

static validate_sums validate_sum(const tn_snapshot_lives *lives,
                                  const tn_snapshot_segment *segment, bool *tiles) {
    validate_sums sums = {.end = segment->address};
    *tiles = true;
    for (uint32_t i = 0; i < segment->block_count; i++) {
        const tn_snapshot_block *block = &lives->snapshot->blocks[segment->first_block + i];
        *tiles = *tiles && block->address == sums.end;
        sums.end = tn__add_sat(block->address, block->size);
        if (block->state == TN_SNAPSHOT_ALLOCATED) sums.allocated += block->size;
        if (block->state == TN_SNAPSHOT_INACTIVE) continue;
        sums.active += block->size;
        sums.requested += block->requested;
    }
    *tiles = *tiles && sums.end == tn__add_sat(segment->address, segment->total);
    return sums;
}

static void validate_segment(tn_snapshot_lives *lives, const tn_snapshot_segment *segment) {
    bool tiles;
    validate_sums sums = validate_sum(lives, segment, &tiles);
    uint64_t *wrong = &lives->facts.wrong_segments;
    if (!tiles)
        tn__snapshot_wrong(lives, wrong, "the blocks of segment %#" PRIx64 " do not fill it",
                           segment->address);
    else if (sums.allocated != segment->allocated || sums.active != segment->active)
        tn__snapshot_wrong(lives, wrong,
                           "segment %#" PRIx64 ": %" PRIu64
                           " bytes in use, its blocks have %" PRIu64,
                           segment->address, segment->allocated, sums.allocated);
    else if (segment->requested_told && sums.requested != segment->requested)
        tn__snapshot_wrong(lives, wrong,
                           "segment %#" PRIx64 ": %" PRIu64
                           " bytes requested, its blocks have %" PRIu64,
                           segment->address, segment->requested, sums.requested);
}

/* --- requests to the device: address ranges that do not overlap, sorted by address --- */

/* limit of ranges, because a hostile file could make each step slow; real allocators have fewer */
enum { VALIDATE_RANGES_MAX = 1 << 14 };

typedef struct validate_range {
    uint64_t first, last;
} validate_range;

typedef struct validate_ranges {
    validate_range *ranges;
    size_t count, room;
} validate_ranges;

/* Returns the index of the first range that ends after an address. */
static size_t validate_find(const validate_ranges *all, uint64_t address) {
    size_t low = 0, high = all->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (all->ranges[middle].last <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void validate_close(validate_ranges *all, size_t at) {
    all->count--;
    memmove(&all->ranges[at], &all->ranges[at + 1], (all->count - at) * sizeof *all->ranges);
}

static bool validate_open(const tn_context *context, validate_ranges *all, size_t at,
                          validate_range range) {
    if (!tn__reserve(context, &all->ranges, &all->room, all->count + 1, sizeof *all->ranges))
        return false;
    memmove(&all->ranges[at + 1], &all->ranges[at], (all->count - at) * sizeof *all->ranges);
    all->ranges[at] = range;
    all->count++;
    return true;
}

/* Adds a range; *fits is false if some of it is present already. Returns false if memory is out. */
static bool validate_add(const tn_context *context, validate_ranges *all, validate_range range,
                         bool *fits) {
    size_t at = validate_find(all, range.first);
    *fits = range.first < range.last && (at == all->count || all->ranges[at].first >= range.last);
    if (!*fits) return true;
    bool joins_before = at > 0 && all->ranges[at - 1].last == range.first;
    bool joins_after = at < all->count && all->ranges[at].first == range.last;
    if (joins_before) all->ranges[at - 1].last = range.last;
    if (joins_after && !joins_before) all->ranges[at].first = range.first;
    if (joins_after && joins_before) {
        all->ranges[at - 1].last = all->ranges[at].last;
        validate_close(all, at);
    }
    return joins_before || joins_after || validate_open(context, all, at, range);
}

/* Removes a range; *fits is false if some of it is not present. Returns false if memory is out. */
static bool validate_remove(const tn_context *context, validate_ranges *all, validate_range range,
                            bool *fits) {
    size_t at = validate_find(all, range.first);
    *fits = range.first < range.last && at < all->count && all->ranges[at].first <= range.first &&
            range.last <= all->ranges[at].last;
    if (!*fits) return true;
    validate_range held = all->ranges[at];
    if (held.first == range.first && held.last == range.last) return validate_close(all, at), true;
    if (held.first == range.first) return all->ranges[at].first = range.last, true;
    all->ranges[at].last = range.first;
    return held.last == range.last ||
           validate_open(context, all, at + 1, (validate_range){range.last, held.last});
}

static bool validate_step_back(tn_snapshot_lives *lives, validate_ranges *all,
                               const tn_snapshot_event *event, uint64_t number) {
    bool takes =
        event->action == TN_SNAPSHOT_SEGMENT_ALLOC || event->action == TN_SNAPSHOT_SEGMENT_MAP;
    bool gives =
        event->action == TN_SNAPSHOT_SEGMENT_FREE || event->action == TN_SNAPSHOT_SEGMENT_UNMAP;
    validate_range range = {event->address, tn__add_sat(event->address, event->size)};
    bool fits = true, has_room = true;
    if (!takes && !gives) return true;
    has_room = takes ? validate_remove(&lives->context, all, range, &fits)
                     : validate_add(&lives->context, all, range, &fits);
    if (!fits)
        tn__snapshot_wrong(lives, &lives->facts.wrong_device,
                           "event %" PRIu64 " %s %" PRIu64 " bytes at %#" PRIx64 ", which %s",
                           number, takes ? "takes" : "gives back", event->size, event->address,
                           takes ? "are in no segment after it" : "are in a segment after it");
    return has_room;
}

static tn_status validate_device(tn_snapshot_lives *lives, validate_ranges *all, tn_error *error) {
    uint64_t count = 0;
    const tn_snapshot_event *events = tn_snapshot_events(lives->snapshot, lives->device, &count);
    for (uint64_t i = count; i-- > 0 && all->count <= VALIDATE_RANGES_MAX;)
        if (!validate_step_back(lives, all, &events[i], i))
            return tn__no_memory(error, "a snapshot");
    return TN_OK;
}

tn_status tn__snapshot_validate(tn_snapshot_lives *lives, int64_t reserved, tn_error *error) {
    const tn_snapshot *snapshot = lives->snapshot;
    validate_ranges all = {0};
    tn_status status = TN_OK;
    bool has_segments = false;
    for (uint32_t i = 0; i < snapshot->segment_count && status == TN_OK; i++) {
        const tn_snapshot_segment *segment = &snapshot->segments[i];
        validate_range range = {segment->address, tn__add_sat(segment->address, segment->total)};
        bool fits;
        if (segment->device != lives->device) continue;
        has_segments = true;
        lives->facts.reserved += segment->total;
        validate_segment(lives, segment);
        if (all.count > VALIDATE_RANGES_MAX) continue;
        if (!validate_add(&lives->context, &all, range, &fits))
            status = tn__no_memory(error, "a snapshot");
        else if (!fits)
            tn__snapshot_wrong(lives, &lives->facts.wrong_segments,
                               "segment %#" PRIx64 " lies in another one", segment->address);
    }
    if (status == TN_OK && has_segments) status = validate_device(lives, &all, error);
    tn__free(&lives->context, all.ranges, all.room * sizeof *all.ranges);
    int64_t first = (int64_t)lives->facts.reserved - reserved;
    /* a file without segments: it is assumed that nothing existed before the first event */
    if (!has_segments) {
        lives->facts.reserved = reserved > 0 ? (uint64_t)reserved : 0;
        first = 0;
    } else if (first < 0) {
        tn__snapshot_wrong(lives, &lives->facts.wrong_device,
                           "the ring takes more from the device than the segments have");
        first = 0;
    }
    lives->reserved_first = (uint64_t)first;
    return status;
}
