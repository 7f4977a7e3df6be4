/* turns.c - stream fences for freed memory: ranges of freed bytes, and the events that end their
 * use.
 *
 * Source: an event for each freed block is the idea of PyTorch's and RMM's allocators, which use it
 * for blocks that were used on several streams. */
#include "memory/device/turns.h"

#define TURNS_NONE UINT32_MAX

typedef struct turns_range {
    uint64_t low, high;
    uint32_t end; /* number of the turns_end that ends its use */
} turns_range;

/* The end of a use: an event on each stream. Several ranges may share it, if they are parts of
 * one. */
typedef struct turns_end {
    uint32_t references; /* number of ranges that use it */
    uint32_t count;      /* streams */
    /* number of events that exist: at least `count`, unless it is being made */
    uint32_t events;
    uint32_t next; /* vacant: the next vacant one */
    void *stream[TN__TURNS_STREAMS];
    void *event[TN__TURNS_STREAMS];
} turns_end;

void tn__turns_init(tn__turns *turns, const tn_context *context, const tn__turns_ways *ways,
                    void *self) {
    *turns = (tn__turns){.context = context, .ways = ways, .self = self, .vacant = TURNS_NONE};
}

void tn__turns_release(tn__turns *turns) {
    for (size_t i = 0; i < turns->end_count; i++)
        for (uint32_t e = 0; e < turns->ends[i].events; e++)
            turns->ways->destroy(turns->self, turns->ends[i].event[e]);
    tn__free(turns->context, turns->ends, turns->end_room * sizeof *turns->ends);
    tn__free(turns->context, turns->ranges, turns->range_room * sizeof *turns->ranges);
    tn__turns_init(turns, turns->context, turns->ways, turns->self);
}

/* --- ends --- */

static void turns_drop(tn__turns *turns, uint32_t end) {
    turns_end *of = &turns->ends[end];
    if (--of->references > 0) return;
    of->next = turns->vacant;
    turns->vacant = end;
}

/* A new end with one reference; NONE: out of memory. */
static uint32_t turns_new_end(tn__turns *turns) {
    uint32_t end = turns->vacant;
    if (end == TURNS_NONE) {
        if (turns->end_count == TURNS_NONE ||
            !tn__reserve(turns->context, &turns->ends, &turns->end_room, turns->end_count + 1,
                         sizeof *turns->ends))
            return TURNS_NONE;
        end = (uint32_t)turns->end_count++;
        turns->ends[end] = (turns_end){.next = TURNS_NONE};
    }
    turns->vacant = turns->ends[end].next;
    turns->ends[end].references = 1;
    turns->ends[end].count = 0;
    return end;
}

/* Records the current point of a stream. If that fails it waits for the stream, and no event is
 * needed. */
static bool turns_record(tn__turns *turns, turns_end *end, void *stream) {
    const tn__turns_ways *ways = turns->ways;
    uint32_t at = end->count;
    bool made = at < end->events || ways->create(turns->self, &end->event[at]);
    if (made && at == end->events) end->events++;
    if (!made || !ways->record(turns->self, end->event[at], stream))
        return ways->finish(turns->self, stream); /* not an error: waiting replaces the event */
    end->stream[at] = stream;
    end->count++;
    return true;
}

/* NONE: out of memory. */
static uint32_t turns_record_all(tn__turns *turns, void *const *streams, uint32_t count) {
    uint32_t end = turns_new_end(turns);
    if (end == TURNS_NONE) return TURNS_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (turns_record(turns, &turns->ends[end], streams[i])) continue;
        turns_drop(turns, end);
        return TURNS_NONE;
    }
    return end;
}

/* --- ranges --- */

/* The first range that ends above `low`. */
static size_t turns_find(const tn__turns *turns, uint64_t low) {
    size_t first = 0, last = turns->range_count;
    while (first < last) {
        size_t middle = first + (last - first) / 2;
        if (turns->ranges[middle].high > low)
            last = middle;
        else
            first = middle + 1;
    }
    return first;
}

/* Replaces the ranges [from, to) by `count` others. There must be room. */
static void turns_replace(tn__turns *turns, size_t from, size_t to, const turns_range *with,
                          size_t count) {
    turns_range *ranges = turns->ranges;
    memmove(ranges + from + count, ranges + to, (turns->range_count - to) * sizeof *ranges);
    if (count > 0) memcpy(ranges + from, with, count * sizeof *ranges);
    turns->range_count = turns->range_count - (to - from) + count;
}

/* Removes [low, high) from all ranges; returns the index where a range for it belongs. There must
 * be room for one more range. */
static size_t turns_cut(tn__turns *turns, uint64_t low, uint64_t high) {
    size_t from = turns_find(turns, low), to = from, count = 0;
    turns_range rest[2];
    for (; to < turns->range_count && turns->ranges[to].low < high; to++) {
        turns_range range = turns->ranges[to];
        if (range.low < low) rest[count++] = (turns_range){range.low, low, range.end};
        if (range.high > high) rest[count++] = (turns_range){high, range.high, range.end};
        turns->ends[range.end].references +=
            (range.low < low ? 1u : 0) + (range.high > high ? 1u : 0);
        turns_drop(turns, range.end);
    }
    turns_replace(turns, from, to, rest, count);
    return from + (count > 0 && rest[0].low < low);
}

static bool turns_room(tn__turns *turns) {
    return tn__reserve(turns->context, &turns->ranges, &turns->range_room, turns->range_count + 2,
                       sizeof *turns->ranges);
}

tn_status tn__turns_settle(tn__turns *turns, tn_error *error) {
    TN_TRY(turns->ways->settle(turns->self, error));
    for (size_t i = 0; i < turns->range_count; i++) turns_drop(turns, turns->ranges[i].end);
    turns->range_count = 0;
    turns->owes = false;
    return TN_OK;
}

/* --- taking and giving --- */

/* Does only that stream end the range? Then a later event of it suffices. */
static bool turns_is_only(const tn__turns *turns, size_t at, void *stream) {
    const turns_end *end = &turns->ends[turns->ranges[at].end];
    return end->count == 1 && end->stream[0] == stream;
}

/* Inserts a range at a free place, and merges it with its neighbours if possible. */
static void turns_insert(tn__turns *turns, size_t at, turns_range range) {
    size_t from = at, to = at;
    const turns_end *end = &turns->ends[range.end];
    if (end->count == 1) {
        bool joins = at > 0 && turns->ranges[at - 1].high == range.low;
        if (joins && turns_is_only(turns, at - 1, end->stream[0])) from--;
        joins = at < turns->range_count && turns->ranges[at].low == range.high;
        if (joins && turns_is_only(turns, at, end->stream[0])) to++;
    }
    if (from < at) range.low = turns->ranges[from].low;
    if (to > at) range.high = turns->ranges[at].high;
    for (size_t i = from; i < to; i++) turns_drop(turns, turns->ranges[i].end);
    turns_replace(turns, from, to, &range, 1);
}

/* Notes that [low, high) was last used on these streams, up to now. If an event cannot be recorded,
 * the wait is owed: no memory is handed out before the whole device was waited for. */
static void turns_note(tn__turns *turns, uint64_t low, uint64_t high, void *const *streams,
                       uint32_t count) {
    if (turns->owes) return;
    uint32_t end = turns_room(turns) ? turns_record_all(turns, streams, count) : TURNS_NONE;
    if (end == TURNS_NONE) {
        turns->owes = true;
        return;
    }
    size_t at = turns_cut(turns, low, high);
    if (turns->ends[end].count > 0)
        turns_insert(turns, at, (turns_range){low, high, end});
    else
        turns_drop(turns, end);
}

/* The first stream other than the default: until now, all free memory was used on the default
 * stream only. */
static void turns_wake(tn__turns *turns) {
    void *only[] = {NULL};
    if (turns->has_others) return;
    turns->has_others = true;
    if (turns->has_freed) turns_note(turns, 0, UINT64_MAX, only, 1);
}

static tn_status turns_wait(tn__turns *turns, const turns_end *end, void *stream, tn_error *error) {
    const tn__turns_ways *ways = turns->ways;
    for (uint32_t i = 0; i < end->count; i++) {
        if (end->stream[i] == stream || ways->wait(turns->self, end->event[i], stream)) continue;
        /* the stream cannot wait, so this thread does */
        TN_TRY(ways->reach(turns->self, end->event[i], error));
    }
    return TN_OK;
}

tn_status tn__turns_take(tn__turns *turns, uint64_t low, uint64_t high, void *stream,
                         tn_error *error) {
    if (!turns->has_others && stream == NULL) return TN_OK;
    turns_wake(turns);
    if (turns->owes || !turns_room(turns)) return tn__turns_settle(turns, error);
    uint32_t waited = TURNS_NONE;
    for (size_t at = turns_find(turns, low);
         at < turns->range_count && turns->ranges[at].low < high; at++) {
        uint32_t end = turns->ranges[at].end;
        if (end != waited) TN_TRY(turns_wait(turns, &turns->ends[end], stream, error));
        waited = end;
    }
    (void)turns_cut(turns, low, high);
    return TN_OK;
}

void tn__turns_give(tn__turns *turns, uint64_t low, uint64_t high, void *const *streams,
                    uint32_t count) {
    tn_assert(count >= 1 && count <= TN__TURNS_STREAMS);
    if (!turns->has_others && count == 1 && streams[0] == NULL) {
        turns->has_freed = true;
        return;
    }
    turns_wake(turns);
    turns_note(turns, low, high, streams, count);
}

void tn__turns_owe(tn__turns *turns) { turns->has_others = turns->owes = true; }
