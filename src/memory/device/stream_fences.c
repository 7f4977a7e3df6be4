/* stream_fences.c - records ranges of freed bytes of a device, and the events after which they may
 * be used by another stream (stream_fences.h).
 *
 * Source: PyTorch's and RMM's allocators record an event for each freed block that was used on
 * several streams.
 */
#include "memory/device/stream_fences.h"

#define FENCES_NONE UINT32_MAX

typedef struct fences_range {
    uint64_t low, high;
    uint32_t end; /* index of the fences_end (a set of events) after which the range is unused */
} fences_range;

/* The end of a use of freed bytes: one event on each stream that used them. Several ranges refer to
 * one end if they are parts of one freed range. */
typedef struct fences_end {
    uint32_t references; /* number of ranges that refer to this end */
    uint32_t count;      /* streams */
    /* number of events that were created for this record; at least `count`, except while the end is
     * being made */
    uint32_t events;
    uint32_t next; /* if the record is unused, the index of the next unused one */
    void *stream[TN__STREAM_FENCES_STREAMS];
    void *event[TN__STREAM_FENCES_STREAMS];
} fences_end;

void tn__stream_fences_init(tn__stream_fences *fences, const tn_context *context,
                            const tn__stream_fences_ways *ways, void *self) {
    *fences =
        (tn__stream_fences){.context = context, .ways = ways, .self = self, .vacant = FENCES_NONE};
}

void tn__stream_fences_release(tn__stream_fences *fences) {
    for (size_t i = 0; i < fences->end_count; i++)
        for (uint32_t e = 0; e < fences->ends[i].events; e++)
            fences->ways->destroy(fences->self, fences->ends[i].event[e]);
    tn__free(fences->context, fences->ends, fences->end_room * sizeof *fences->ends);
    tn__free(fences->context, fences->ranges, fences->range_room * sizeof *fences->ranges);
    tn__stream_fences_init(fences, fences->context, fences->ways, fences->self);
}

/* --- ends --- */

static void fences_drop(tn__stream_fences *fences, uint32_t end) {
    fences_end *of = &fences->ends[end];
    if (--of->references > 0) return;
    of->next = fences->vacant;
    fences->vacant = end;
}

/* Makes a new end with one reference; NONE if memory is out. */
static uint32_t fences_new_end(tn__stream_fences *fences) {
    uint32_t end = fences->vacant;
    if (end == FENCES_NONE) {
        if (fences->end_count == FENCES_NONE ||
            !tn__reserve(fences->context, &fences->ends, &fences->end_room, fences->end_count + 1,
                         sizeof *fences->ends))
            return FENCES_NONE;
        end = (uint32_t)fences->end_count++;
        fences->ends[end] = (fences_end){.next = FENCES_NONE};
    }
    fences->vacant = fences->ends[end].next;
    fences->ends[end].references = 1;
    fences->ends[end].count = 0;
    return end;
}

/* Records an event at the current point of a stream. If that fails, it waits until the stream is
 * idle, and then no event is needed. */
static bool fences_record(tn__stream_fences *fences, fences_end *end, void *stream) {
    const tn__stream_fences_ways *ways = fences->ways;
    uint32_t at = end->count;
    bool made = at < end->events || ways->create(fences->self, &end->event[at]);
    if (made && at == end->events) end->events++;
    if (!made || !ways->record(fences->self, end->event[at], stream))
        /* the failure is no error, because waiting for the stream replaces the event */
        return ways->finish(fences->self, stream);
    end->stream[at] = stream;
    end->count++;
    return true;
}

/* Records an event on each of the streams; returns the new end, or NONE if memory is out. */
static uint32_t fences_record_all(tn__stream_fences *fences, void *const *streams, uint32_t count) {
    uint32_t end = fences_new_end(fences);
    if (end == FENCES_NONE) return FENCES_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (fences_record(fences, &fences->ends[end], streams[i])) continue;
        fences_drop(fences, end);
        return FENCES_NONE;
    }
    return end;
}

/* --- ranges --- */

/* The index of the first range that ends above `low`. */
static size_t fences_find(const tn__stream_fences *fences, uint64_t low) {
    size_t first = 0, last = fences->range_count;
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (fences->ranges[middle].high > low)
            last = middle;
        else
            first = middle + 1;
    }
    return first;
}

/* Replaces the ranges with indices [from, to) by `count` others. The array must be large enough. */
static void fences_replace(tn__stream_fences *fences, size_t from, size_t to,
                           const fences_range *with, size_t count) {
    fences_range *ranges = fences->ranges;
    memmove(ranges + from + count, ranges + to, (fences->range_count - to) * sizeof *ranges);
    if (count > 0) memcpy(ranges + from, with, count * sizeof *ranges);
    fences->range_count = fences->range_count - (to - from) + count;
}

/* Removes the bytes [low, high) from all ranges; returns the index at which a range for them must
 * be inserted. The array must be large enough for one more range. */
static size_t fences_cut(tn__stream_fences *fences, uint64_t low, uint64_t high) {
    size_t from = fences_find(fences, low), to = from, count = 0;
    fences_range rest[2];
    for (; to < fences->range_count && fences->ranges[to].low < high; to++) {
        fences_range range = fences->ranges[to];
        if (range.low < low) rest[count++] = (fences_range){range.low, low, range.end};
        if (range.high > high) rest[count++] = (fences_range){high, range.high, range.end};
        fences->ends[range.end].references +=
            (range.low < low ? 1u : 0) + (range.high > high ? 1u : 0);
        fences_drop(fences, range.end);
    }
    fences_replace(fences, from, to, rest, count);
    return from + (count > 0 && rest[0].low < low);
}

static bool fences_room(tn__stream_fences *fences) {
    return tn__reserve(fences->context, &fences->ranges, &fences->range_room,
                       fences->range_count + 2, sizeof *fences->ranges);
}

tn_status tn__stream_fences_settle(tn__stream_fences *fences, tn_error *error) {
    TN_TRY(fences->ways->settle(fences->self, error));
    for (size_t i = 0; i < fences->range_count; i++) fences_drop(fences, fences->ranges[i].end);
    fences->range_count = 0;
    fences->owes = false;
    return TN_OK;
}

/* --- handing out bytes, and taking them back --- */

/* Whether only `stream` used the range. Then an event recorded later on that stream also ends the
 * use. */
static bool fences_is_only(const tn__stream_fences *fences, size_t at, void *stream) {
    const fences_end *end = &fences->ends[fences->ranges[at].end];
    return end->count == 1 && end->stream[0] == stream;
}

/* Inserts a range of freed bytes between the existing ones, and merges it with a neighbour if one
 * stream alone used both. */
static void fences_insert(tn__stream_fences *fences, size_t at, fences_range range) {
    size_t from = at, to = at;
    const fences_end *end = &fences->ends[range.end];
    if (end->count == 1) {
        bool joins = at > 0 && fences->ranges[at - 1].high == range.low;
        if (joins && fences_is_only(fences, at - 1, end->stream[0])) from--;
        joins = at < fences->range_count && fences->ranges[at].low == range.high;
        if (joins && fences_is_only(fences, at, end->stream[0])) to++;
    }
    if (from < at) range.low = fences->ranges[from].low;
    if (to > at) range.high = fences->ranges[at].high;
    for (size_t i = from; i < to; i++) fences_drop(fences, fences->ranges[i].end);
    fences_replace(fences, from, to, &range, 1);
}

/* Records that the bytes [low, high) were last used on these streams, up to now. If an event cannot
 * be recorded, the next tn__stream_fences_take waits for the device. */
static void fences_note(tn__stream_fences *fences, uint64_t low, uint64_t high,
                        void *const *streams, uint32_t count) {
    if (fences->owes) return;
    uint32_t end = fences_room(fences) ? fences_record_all(fences, streams, count) : FENCES_NONE;
    if (end == FENCES_NONE) {
        fences->owes = true;
        return;
    }
    size_t at = fences_cut(fences, low, high);
    if (fences->ends[end].count > 0)
        fences_insert(fences, at, (fences_range){low, high, end});
    else
        fences_drop(fences, end);
}

/* Called when the first stream other than the default one is seen. Until then, all free memory was
 * used on the default stream only. */
static void fences_wake(tn__stream_fences *fences) {
    void *only[] = {NULL};
    if (fences->has_others) return;
    fences->has_others = true;
    if (fences->has_freed) fences_note(fences, 0, UINT64_MAX, only, 1);
}

static tn_status fences_wait(tn__stream_fences *fences, const fences_end *end, void *stream,
                             tn_error *error) {
    const tn__stream_fences_ways *ways = fences->ways;
    for (uint32_t i = 0; i < end->count; i++) {
        if (end->stream[i] == stream || ways->wait(fences->self, end->event[i], stream)) continue;
        /* the stream cannot be made to wait, so this thread waits */
        TN_TRY(ways->reach(fences->self, end->event[i], error));
    }
    return TN_OK;
}

tn_status tn__stream_fences_take(tn__stream_fences *fences, uint64_t low, uint64_t high,
                                 void *stream, tn_error *error) {
    if (!fences->has_others && stream == NULL) return TN_OK;
    fences_wake(fences);
    if (fences->owes || !fences_room(fences)) return tn__stream_fences_settle(fences, error);
    uint32_t waited = FENCES_NONE;
    for (size_t at = fences_find(fences, low);
         at < fences->range_count && fences->ranges[at].low < high; at++) {
        uint32_t end = fences->ranges[at].end;
        if (end != waited) TN_TRY(fences_wait(fences, &fences->ends[end], stream, error));
        waited = end;
    }
    (void)fences_cut(fences, low, high);
    return TN_OK;
}

void tn__stream_fences_give(tn__stream_fences *fences, uint64_t low, uint64_t high,
                            void *const *streams, uint32_t count) {
    tn_assert(count >= 1 && count <= TN__STREAM_FENCES_STREAMS);
    if (!fences->has_others && count == 1 && streams[0] == NULL) {
        fences->has_freed = true;
        return;
    }
    fences_wake(fences);
    fences_note(fences, low, high, streams, count);
}

void tn__stream_fences_owe(tn__stream_fences *fences) { fences->has_others = fences->owes = true; }
