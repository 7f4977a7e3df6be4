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
 * Lists of five kinds are read into this clock. Each reader says which lanes a task takes and what
 * it waits for, and none has a rule of its own for when a task begins or ends:
 *
 *     instructions of a program   simulate.c                          the predicted time of a
 *                                                                     program
 *     the same, of several ranks  report/timeline_meet.c a clock for each rank; calls of several
 *                                                                     ranks begin when all have
 *                                                                     come
 *     acts of a schedule          fit/budget/pass.c                   compares schedules before
 *                                                                     they are written as
 *                                                                     instructions
 *     steps and file reads        fit/budget/weight_streaming.c       also decides when each read
 *                                                                     begins, so there are no
 *                                                                     instructions yet
 *     passes of a pipeline        report/estimate/cluster_schedule.c        a lane for each stage
 *
 * Single copies are placed on lanes by fit/budget/passes/capuchin.c (idle.h) and
 * fit/budget/joint/joint_swap.c (schedules with repeats); a lane may also be walked from its end,
 * to find the latest start at which a task is still done in time. Times are integers in the unit of
 * the costs; they saturate.
 */
#ifndef TN_PROGRAM_CLOCK_H
#define TN_PROGRAM_CLOCK_H

#include <math.h>

#include <tenure/program.h>

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

/* The lanes of a clock: the streams of a program, of which stream 0 computes, and after them the
 * links. A copy takes a link, and in a program also the stream of its instruction. */
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

/* The lane of a link. TN_NONE for no link, and for messages between ranks: each takes the time of
 * its bytes, whatever else is sent. */
static inline uint32_t tn__clock_link(tn_link link) {
    if (link == TN_LINK_TO_HOST) return TN__LANE_TO_HOST;
    if (link == TN_LINK_FROM_STORAGE) return TN__LANE_FROM_STORAGE;
    return link == TN_LINK_FROM_HOST ? TN__LANE_FROM_HOST : TN_NONE;
}
/* When a task on these lanes begins if it is ready at that time. `link` TN_NONE: one lane. */
static inline tn__lane tn__clock_begin(const tn__clock *clock, uint32_t lane, uint32_t link,
                                       tn__lane ready) {
    tn__lane_wait(&ready, clock->lanes[lane]);
    if (link != TN_NONE) tn__lane_wait(&ready, clock->lanes[link]);
    return ready;
}
/* Runs task `task` on these lanes; returns its end. */
static inline tn__lane tn__clock_put(tn__clock *clock, uint32_t lane, uint32_t link, tn__lane ready,
                                     uint64_t takes, uint32_t task) {
    tn__lane begin = tn__clock_begin(clock, lane, link, ready);
    tn__lane end = {tn__add_sat(begin.at, takes), task};
    clock->lanes[lane] = end;
    if (link != TN_NONE) clock->lanes[link] = end;
    return end;
}
/* From the end: places a task that must be over at `by` and before `lane->at`, and reports when
 * it begins. False: it would have to begin before the start. */
static inline bool tn__lane_put_before(tn__lane *lane, uint64_t by, uint64_t takes) {
    uint64_t end = by < lane->at ? by : lane->at;
    lane->at = end > takes ? end - takes : 0;
    return end >= takes;
}
/* A time that is not below 0, as an integer. */
static inline uint64_t tn__lane_units(double units) {
    return units < 1.8e19 ? (uint64_t)round(units) : UINT64_MAX;
}
/* The time to transfer `bytes` at `rate` bytes per unit of time; rate 0 means unknown and takes
 * no time. */
static inline uint64_t tn__lane_bytes(uint64_t bytes, double rate) {
    return rate > 0 ? tn__lane_units((double)bytes / rate) : 0;
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
