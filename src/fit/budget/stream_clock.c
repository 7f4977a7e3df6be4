/* stream_clock.c - decides when each read of one choice begins, and reads steps and file reads into
 * the clock (program/clock.h).
 *
 * tn_simulate cannot do this: it times reads whose place among the instructions is already known.
 * Here a read is placed by the times of the steps before it, so these are stored. The program of
 * the best choice is written with the places found (stream_emit.c) and simulated. Reads follow
 * each other in the order of need, on one stream. For this order it is optimal to begin each read
 * at the first moment with enough room, but not before the previous one: a later begin only takes
 * room from later reads. A read begins no earlier than the file is free, so that no memory is
 * held by a waiting read:
 *
 *     walk   [ a ][  b  ][ c ]······[   d   ]      ····: waits for the read of d's weights
 *     file      [ b's ][ c's ][  d's  ]
 *
 * Cost: O(steps + uses), and at most O(steps) for each read.
 */
#include "fit/budget/stream.h"

#include "program/clock.h"

static bool clock_hold(tn__stream *stream, uint32_t first, uint32_t last, uint64_t bytes) {
    for (uint32_t s = first; s <= last; s++) {
        stream->held[s] = tn__add_sat(stream->held[s], bytes);
        if (tn__add_sat(stream->held[s], stream->live[s]) <= stream->target) continue;
        stream->short_step = s;
        return false;
    }
    return true;
}

static bool clock_residents(tn__stream *stream) {
    uint64_t bytes = stream->fixed;
    for (uint32_t b = 0; b < stream->block_count; b++)
        if (stream->stays[b]) bytes = tn__add_sat(bytes, stream->bytes[b]);
    for (uint32_t s = 0; s < stream->steps; s++) stream->held[s] = 0;
    return stream->steps == 0 || clock_hold(stream, 0, stream->steps - 1, bytes);
}

static bool clock_has_room(const tn__stream *stream, uint32_t step, uint64_t bytes) {
    return tn__add_sat(tn__add_sat(stream->held[step], stream->live[step]), bytes) <=
           stream->target;
}

/* The last of the following uses that one read serves because the block is held. */
static uint32_t clock_last(const tn__stream *stream, uint32_t use) {
    uint32_t next = stream->uses[use].next;
    while (next != TN_NONE && stream->uses[next].held) {
        use = next;
        next = stream->uses[use].next;
    }
    return stream->uses[use].step;
}

/* Runs the steps before `step`. */
static void clock_run_to(tn__stream *stream, tn__clock *clock, uint32_t *at, uint32_t step) {
    for (; *at < step; (*at)++)
        stream->start[*at + 1] =
            tn__clock_put(clock, TN__LANE_COMPUTE, TN_NONE, (tn__lane){0}, stream->cost[*at], *at)
                .at;
}

/* `newest`: no read begins before the step of the previous one. */
static bool clock_fetch(tn__stream *stream, tn__clock *clock, uint32_t use, uint32_t *at,
                        uint32_t *newest) {
    const tn__lane *file = &clock->lanes[TN__LANE_FROM_STORAGE];
    uint32_t block = stream->uses[use].block, first = stream->uses[use].step;
    uint64_t bytes = stream->bytes[block];
    tn__stream_fetch fetch = {block, first, first, clock_last(stream, use)};
    clock_run_to(stream, clock, at, first);
    while (fetch.begins > *newest && stream->start[fetch.begins] > file->at &&
           clock_has_room(stream, fetch.begins - 1, bytes))
        fetch.begins--;
    if (!clock_hold(stream, fetch.begins, fetch.last, bytes)) return false;
    *newest = fetch.begins;
    const tn__lane ready = {.at = stream->start[fetch.begins]};
    tn__lane_wait(&clock->lanes[TN__LANE_COMPUTE],
                  tn__clock_put(clock, TN__LANE_FROM_STORAGE, TN_NONE, ready,
                                stream->reading[block], fetch.begins));
    stream->start[first] = clock->lanes[TN__LANE_COMPUTE].at;
    stream->fetches[stream->fetch_count++] = fetch;
    return true;
}

bool tn__stream_clock(tn__stream *stream) {
    tn__clock clock = {0};
    uint32_t at = 0, newest = 0;
    stream->fetch_count = 0;
    if (!clock_residents(stream)) return false;
    stream->start[0] = 0;
    for (uint32_t u = 0; u < stream->use_count; u++)
        if (!tn__stream_is_there(stream, &stream->uses[u]) &&
            !clock_fetch(stream, &clock, u, &at, &newest))
            return false;
    clock_run_to(stream, &clock, &at, stream->steps);
    stream->time = stream->start[stream->steps];
    return true;
}
