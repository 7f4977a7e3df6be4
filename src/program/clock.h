/* clock.h - the clock of one device for work that overlaps: compute, copies out, copies in, file
 * reads.
 *
 * Each of these is a lane. A lane does one task after the other, in the order of the calls. A
 * task begins when its lanes are free and the tasks that it waits for have ended
 * (tn__clock_put):
 *
 *     compute   [ a ][ b ]······[ c ]     ····: c waits for x
 *     out            [ y ][  z  ]
 *     in                 [ x ]
 *
 * These callers place their tasks on this clock. Each gives the lanes of a task and the tasks that
 * it waits for; the begin and the end of the task follow from the clock alone:
 *
 *     program/simulate.c                  instructions of a program: the predicted time
 *     report/timeline/timeline_ranks.c    instructions of several ranks, with a clock for each
 *                                         rank; a call that several ranks take part in begins
 *                                         when all of them have reached it
 *     fit/budget/pass.c                   actions of a schedule, to compare schedules before they
 *                                         are written as instructions
 *     fit/budget/weight_streaming.c       steps and file reads, to decide when each read begins,
 *                                         before there are instructions
 *     report/estimate/cluster.c           passes of a pipeline, with a lane for each stage
 *
 * Single copies are placed on lanes by fit/budget/passes/capuchin.c (idle.h) and
 * fit/budget/joint/joint_swap.c (schedules with repeats); a lane may also be filled from its
 * end backwards, to find the latest start at which a task still ends in time. Times are integers
 * in the unit of the costs; they saturate.
 */
#ifndef TN_PROGRAM_CLOCK_H
#define TN_PROGRAM_CLOCK_H

#include <math.h>

#include <tenure/program.h>

#include "base/base.h"

typedef struct tn__lane {
    uint64_t at; /* the time from which on the lane is free */
    uint32_t by; /* the last task of the lane, set by tn__clock_put */
} tn__lane;

/* Moves the time of `lane` forward to that of `other` if `other` is later. */
static inline void tn__lane_wait(tn__lane *lane, tn__lane other) {
    if (other.at > lane->at) *lane = other;
}
/* Appends a task to `lane` that may begin at time `from`; returns the time at which it ends. */
static inline uint64_t tn__lane_put(tn__lane *lane, uint64_t from, uint64_t takes) {
    return lane->at = tn__add_sat(from > lane->at ? from : lane->at, takes);
}

/* The lanes of a clock: first the streams of a program (stream 0 computes), then the links. A copy
 * occupies the lane of its link and, in a program, also the lane of its instruction's stream. */
enum {
    TN__LANE_COMPUTE,
    TN__LANE_TO_HOST = TN_STREAM_MAX,
    TN__LANE_FROM_HOST,
    TN__LANE_FROM_STORAGE,
    TN__LANE_COUNT
};
typedef struct tn__clock {
    tn__lane lanes[TN__LANE_COUNT];
} tn__clock;

/* The lane of a link; TN_NONE if there is no link. Messages between ranks have no lane either: each
 * takes the time to transfer its own bytes, whatever else is sent. */
static inline uint32_t tn__clock_link(tn_link link) {
    if (link == TN_LINK_TO_HOST) return TN__LANE_TO_HOST;
    if (link == TN_LINK_FROM_STORAGE) return TN__LANE_FROM_STORAGE;
    return link == TN_LINK_FROM_HOST ? TN__LANE_FROM_HOST : TN_NONE;
}
/* The time at which a task can begin that is ready at time `ready` and needs lane `lane` and,
 * unless `link` is TN_NONE, also lane `link`. */
static inline tn__lane tn__clock_begin(const tn__clock *clock, uint32_t lane, uint32_t link,
                                       tn__lane ready) {
    tn__lane_wait(&ready, clock->lanes[lane]);
    if (link != TN_NONE) tn__lane_wait(&ready, clock->lanes[link]);
    return ready;
}
/* Runs task number `task` on lane `lane` and, unless `link` is TN_NONE, on lane `link` at the same
 * time. Returns the time at which it ends. */
static inline tn__lane tn__clock_put(tn__clock *clock, uint32_t lane, uint32_t link, tn__lane ready,
                                     uint64_t takes, uint32_t task) {
    tn__lane begin = tn__clock_begin(clock, lane, link, ready);
    tn__lane end = {tn__add_sat(begin.at, takes), task};
    clock->lanes[lane] = end;
    if (link != TN_NONE) clock->lanes[link] = end;
    return end;
}
/* For a lane that is filled from its end backwards: places a task that must end at time `by` or
 * earlier, and before `lane->at`. Sets `lane->at` to its begin. Returns false if the task would
 * have to begin before time 0. */
static inline bool tn__lane_put_before(tn__lane *lane, uint64_t by, uint64_t takes) {
    uint64_t end = by < lane->at ? by : lane->at;
    lane->at = end > takes ? end - takes : 0;
    return end >= takes;
}
/* Rounds a non-negative time to an integer. */
static inline uint64_t tn__lane_units(double units) {
    return units < 1.8e19 ? (uint64_t)round(units) : UINT64_MAX;
}
/* The time to transfer `bytes` at `rate` bytes per unit of time; rate 0 means unknown and takes
 * no time. */
static inline uint64_t tn__lane_bytes(uint64_t bytes, double rate) {
    return rate > 0 ? tn__lane_units((double)bytes / rate) : 0;
}
/* Returns the first step that starts at time `time` or later; `last` if no step before `last`
 * starts that late. */
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
