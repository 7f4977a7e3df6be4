/* stream_clock.c - the time of one choice: when each read begins, and how long the run takes.
 *
 * Execution and the file are lanes of program/clock.h. The starts of steps are stored, because they
 * are needed while a read is moved to an earlier time. Reads follow each other in the order of
 * need, on one stream. For this order it is optimal to begin each read at the first moment with
 * enough room, but not before the previous one: a later begin only takes room from later reads. A
 * read begins no earlier than the file is free, so that no memory is held by a waiting read:
 *
 *     walk   [ a ][  b  ][ c ]······[   d   ]      ····: waits for the read of d's weights
 *     file      [ b's ][ c's ][  d's  ]
 *
 * Cost: O(steps + uses), and at most O(steps) for each read.
 */
#include "budget/stream.h"

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

/* Computes the starts of the steps up to `step`. */
static void clock_run_to(tn__stream *stream, uint32_t *at, uint32_t step) {
    for (; *at < step; (*at)++)
        stream->start[*at + 1] = tn__add_sat(stream->start[*at], stream->cost[*at]);
}

static bool clock_fetch(tn__stream *stream, uint32_t use, uint32_t *at, tn__lane *file,
                        uint32_t *newest) {
    uint32_t block = stream->uses[use].block, first = stream->uses[use].step;
    uint64_t bytes = stream->bytes[block];
    tn__stream_fetch fetch = {block, first, first, clock_last(stream, use)};
    clock_run_to(stream, at, first);
    while (fetch.begins > *newest && stream->start[fetch.begins] > file->at &&
           clock_has_room(stream, fetch.begins - 1, bytes))
        fetch.begins--;
    if (!clock_hold(stream, fetch.begins, fetch.last, bytes)) return false;
    *newest = fetch.begins;
    uint64_t there = tn__lane_put(file, stream->start[fetch.begins], stream->reading[block]);
    if (there > stream->start[first]) stream->start[first] = there;
    stream->fetches[stream->fetch_count++] = fetch;
    return true;
}

bool tn__stream_clock(tn__stream *stream) {
    tn__lane file = {0};
    uint32_t at = 0, newest = 0;
    stream->fetch_count = 0;
    if (!clock_residents(stream)) return false;
    stream->start[0] = 0;
    for (uint32_t u = 0; u < stream->use_count; u++)
        if (!tn__stream_is_there(stream, &stream->uses[u]) &&
            !clock_fetch(stream, u, &at, &file, &newest))
            return false;
    clock_run_to(stream, &at, stream->steps);
    stream->time = stream->start[stream->steps];
    return true;
}
