/* clock.h - the one clock for work that overlaps: compute, copies out, copies in, file reads.
 *
 * Each of these is a lane. A lane does one task after the other, in the order of the calls. A
 * task begins when its lane is free and the tasks that it waits for have ended:
 *
 *     compute   [ a ][ b ]······[ c ]     ····: c waits for x
 *     out            [ y ][  z  ]
 *     in                 [ x ]
 *
 * Programs (simulate.c), schedules (budget/pass_time.c) and file reads (budget/stream_clock.c)
 * take their times from these lanes. A lane may also be walked from its end, to find the latest
 * start at which a task is still done in time and before the next task (budget/gaps.h). Times
 * are integers in the unit of the costs; they saturate.
 */
#ifndef TN_PROGRAM_CLOCK_H
#define TN_PROGRAM_CLOCK_H

#include <math.h>

#include "base/base.h"

typedef struct tn__lane {
    uint64_t at; /* the lane is free from this time on */
    uint32_t by; /* the last task of the lane, for callers that ask for it */
} tn__lane;

/* Moves `lane` to the later of both times. */
static inline void tn__lane_wait(tn__lane *lane, tn__lane other) {
    if (other.at > lane->at) *lane = other;
}
/* Runs a task that may begin at `from`; returns the time at which it ends. */
static inline uint64_t tn__lane_put(tn__lane *lane, uint64_t from, uint64_t takes) {
    return lane->at = tn__add_sat(from > lane->at ? from : lane->at, takes);
}
/* From the end: places a task that must be over at `by` and before `lane->at`, and reports when
 * it begins. False: it would have to begin before the start. */
static inline bool tn__lane_put_before(tn__lane *lane, uint64_t by, uint64_t takes) {
    uint64_t end = by < lane->at ? by : lane->at;
    lane->at = end > takes ? end - takes : 0;
    return end >= takes;
}
/* The time to transfer `bytes` at `rate` bytes per unit of time; rate 0 means unknown and takes
 * no time. */
static inline uint64_t tn__lane_bytes(uint64_t bytes, double rate) {
    double units = rate > 0 ? round((double)bytes / rate) : 0;
    return units < 1.8e19 ? (uint64_t)units : UINT64_MAX;
}
/* The first step that starts at this time or later; `last`: no earlier step does. */
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
