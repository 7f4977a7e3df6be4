/* clock.h - the one clock for what takes time side by side: compute, copies out, copies in, a file.
 *
 * Each of these is a lane: it does one thing after the other, in the order in which it is asked.
 * What is put on a lane begins when the lane is free and what it waits for has ended:
 *
 *     compute   [ a ][ b ]······[ c ]     ····: c waits for x
 *     out            [ y ][  z  ]
 *     in                 [ x ]
 *
 * Programs (simulate.c), schedules (budget/pass_time.c) and readings (budget/stream_clock.c) take
 * the time that comes of that. A lane may also be walked from its end: when does something have to
 * begin, so as to be done in time and before what comes behind it (budget/gaps.h).
 * Times are integers of the unit of costs and saturate.
 */
#ifndef TN_PROGRAM_CLOCK_H
#define TN_PROGRAM_CLOCK_H

#include <math.h>

#include "base/base.h"

typedef struct tn__lane {
    uint64_t at; /* free from then on */
    uint32_t by; /* what was done last, where somebody asks */
} tn__lane;

/* The later of both. */
static inline void tn__lane_wait(tn__lane *lane, tn__lane other) {
    if (other.at > lane->at) *lane = other;
}
/* Does something that may begin at `from`; when it has ended. */
static inline uint64_t tn__lane_put(tn__lane *lane, uint64_t from, uint64_t takes) {
    return lane->at = tn__add_sat(from > lane->at ? from : lane->at, takes);
}
/* From the end: does something that has to be over at `by`, and before what `lane->at` says begins;
 * when it begins. False: it would have to begin before the start. */
static inline bool tn__lane_put_before(tn__lane *lane, uint64_t by, uint64_t takes) {
    uint64_t end = by < lane->at ? by : lane->at;
    lane->at = end > takes ? end - takes : 0;
    return end >= takes;
}
/* How long so many bytes take, at bytes a unit of time; 0: nobody knows, and it takes no time. */
static inline uint64_t tn__lane_bytes(uint64_t bytes, double rate) {
    double units = rate > 0 ? round((double)bytes / rate) : 0;
    return units < 1.8e19 ? (uint64_t)units : UINT64_MAX;
}
/* The first of the steps that start at a time or behind it; `last`: none before that does. */
static inline uint32_t tn__clock_step(const uint64_t *starts, uint32_t last, uint64_t time) {
    uint32_t low = 0, high = last;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (starts[middle] < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
