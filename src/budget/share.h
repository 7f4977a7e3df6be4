/* share.h - less memory for at most so much more work: what the files of this share; share.c says
 * how they work together. */
#ifndef TN_BUDGET_SHARE_H
#define TN_BUDGET_SHARE_H

#include "budget/work.h"

/* One life of a value in a schedule: from where it is made to its last reader. It is idle between
 * `leave` and `back`, the two accesses that are furthest apart: there it may be given up, and be
 * made again before whoever reads it at `back`. Positions are acts. */
typedef struct tn__share_life {
    uint64_t bytes;
    uint32_t value, maker; /* job; TN_NONE: there from the start */
    uint32_t made, end;
    uint32_t leave, back; /* leave == back: never idle */
    uint32_t source;      /* life whose memory it takes if that ends where it is made; TN_NONE */
    uint32_t earlier;     /* life of the same value before it; TN_NONE */
    bool fixed;           /* it is needed at the end */
    bool can;             /* its maker may run again */
} tn__share_life;

/* What is given up, and when it is made again: before the act at that position. */
typedef struct tn__share_choice {
    bool *again;     /* [lives] */
    uint32_t *leave; /* [lives] behind this position readers take what was made again */
    uint32_t *at;    /* [lives] */
    uint64_t work;   /* of all that runs again */
    uint64_t peak;   /* the lowest on the way, as estimated */
    uint32_t count;  /* of choices made */
    uint32_t best;   /* of those, up to the lowest peak */
} tn__share_choice;

typedef struct tn__share {
    const tn__work *work;
    const tn__schedule *schedule; /* RUN alone */
    const bool *may;              /* [jobs] those that may run again; NULL: whatever can */
    tn_error *error;
    tn__arena arena; /* all lists below */
    tn__share_life *lives;
    uint32_t life_count;
    uint32_t *latest;    /* [values] its last life; TN_NONE */
    uint32_t *first_run; /* [jobs] act */
} tn__share;

/* share_read.c: the lives of a schedule. Errors: E_NO_MEMORY. Cost: O(acts + operands). */
tn_status tn__share_read(tn__share *it);
/* The life of a value that somebody who stands before the act `at` reads. */
uint32_t tn__share_life_at(const tn__share *it, uint32_t value, uint32_t at);

/* share_choose.c: what to give up so that less is needed at once, with at most `budget` work and
 * `most` choices, until no more than `target` bytes are. `reach`, below TN__SHARE_REACHES: how
 * much what is idle for long is preferred: not, fully, by half. */
#define TN__SHARE_REACHES 3u
tn_status tn__share_choose(tn__share *it, uint64_t budget, uint64_t target, uint32_t reach,
                           uint32_t most, tn__share_choice *choice);
/* Room for one, which tn__share_choose fills again and again. */
tn_status tn__share_choice_room(tn__share *it, tn__share_choice *choice);

/* What tn__share_lower goes by. */
typedef struct tn__share_goal {
    const bool *may; /* [jobs] NULL: whatever can */
    uint64_t added;  /* work that may be added in all */
    uint64_t target; /* bytes: no less is looked for */
    /* Bytes that a schedule needs at once, where somebody knows better than the judge of schedules,
     * who counts views as all of what they lie in. NULL: nobody does */
    tn_status (*bytes)(void *self, const tn__schedule *schedule, uint64_t *bytes);
    void *self;
} tn__share_goal;

/* share.c: the schedule again and again, until it needs no more than the target at once or that
 * helps no more. It gets no worse.
 *
 * schedule  RUN alone; changed
 * replay    out: of what it is in the end
 * Errors: E_NO_MEMORY, those of tn__replay_schedule and of goal->bytes. */
tn_status tn__share_lower(const tn__work *work, const tn__share_goal *goal, tn__schedule *schedule,
                          tn__replay *replay, tn_error *error);

#endif
