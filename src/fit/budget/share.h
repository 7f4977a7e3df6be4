/* share.h - lower memory within a work budget: data shared by the share_*.c files. share.c
 * describes how they work together. */
#ifndef TN_BUDGET_SHARE_H
#define TN_BUDGET_SHARE_H

#include "fit/budget/work.h"

/* One live range of a value in a schedule: from its making to its last reader. With repeats a value
 * has several, which tn__work.reads cannot express. It is idle between
 * `leave` and `back`, the two consecutive accesses that are furthest apart. There it may be
 * evicted, and recomputed before its reader at `back`. Positions are acts. */
typedef struct tn__share_life {
    uint64_t bytes;
    uint32_t value, maker; /* job; TN_NONE: exists from the start */
    uint32_t made, end;
    uint32_t leave, back; /* leave == back: never idle */
    uint32_t source;      /* live range that gives its memory to this one if it ends where this
                           * one begins; TN_NONE */
    uint32_t earlier;     /* previous live range of the same value; TN_NONE */
    bool fixed;           /* live at the end */
    bool can;             /* its maker may be repeated */
} tn__share_life;

/* The live ranges that are evicted, and the act before which each is recomputed. */
typedef struct tn__share_choice {
    bool *again;     /* [lives] */
    uint32_t *leave; /* [lives] readers after this position read the recomputed value */
    uint32_t *at;    /* [lives] */
    uint64_t work;   /* cost of all repeats */
    uint64_t peak;   /* lowest estimated peak during the choices */
    uint32_t count;  /* of choices made */
    uint32_t best;   /* number of choices after which the estimated peak was lowest */
} tn__share_choice;

typedef struct tn__share {
    const tn__work *work;
    const tn__schedule *schedule; /* contains RUN only */
    const bool *may;              /* [jobs] those that may be repeated; NULL: every repeatable
                                   * job */
    tn_error *error;
    tn__arena arena; /* all lists below */
    tn__share_life *lives;
    uint32_t life_count;
    uint32_t *latest;    /* [values] its last live range; TN_NONE */
    uint32_t *first_run; /* [jobs] act */
} tn__share;

/* share_read.c: finds the live ranges of a schedule. Errors: E_NO_MEMORY. Cost: O(acts +
 * operands). */
tn_status tn__share_read(tn__share *it);
/* The live range of a value that a reader directly before the act `at` sees. */
uint32_t tn__share_life_at(const tn__share *it, uint32_t value, uint32_t at);

/* share_choose.c: chooses live ranges to evict so that the peak falls, with at most `budget` added
 * work and `most` choices, until the peak is at most `target` bytes. `reach`, below
 * TN__SHARE_REACHES, selects the preference for long idle intervals: not at all, fully, or by
 * half. */
#define TN__SHARE_REACHES 3u
tn_status tn__share_choose(tn__share *it, uint64_t budget, uint64_t target, uint32_t reach,
                           uint32_t most, tn__share_choice *choice);
/* Allocates a choice, which tn__share_choose can refill many times. */
tn_status tn__share_choice_room(tn__share *it, tn__share_choice *choice);

/* The goal of tn__share_lower. */
typedef struct tn__share_goal {
    const bool *may; /* [jobs] those that may be repeated; NULL: every repeatable job */
    uint64_t added;  /* added work in total, at most */
    uint64_t target; /* bytes at which the search stops */
    /* A better measure of a schedule's peak than tn__replay_schedule, which counts a view as its
     * whole root. NULL: use tn__replay_schedule. */
    tn_status (*bytes)(void *self, const tn__schedule *schedule, uint64_t *bytes);
    void *self;
} tn__share_goal;

/* share.c: improves the schedule repeatedly, until its peak is at most the target or no step helps.
 * The result is never worse than the input.
 *
 * schedule  contains RUN only; changed
 * replay    out: measurements of the final schedule
 * Errors: E_NO_MEMORY, those of tn__replay_schedule and of goal->bytes. */
tn_status tn__share_lower(const tn__work *work, const tn__share_goal *goal, tn__schedule *schedule,
                          tn__replay *replay, tn_error *error);

#endif
