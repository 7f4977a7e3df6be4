/* liveness.h - the state that finds live ranges and assigns them to buffers. */
#ifndef TN_PROGRAM_OCCUPANCY_H
#define TN_PROGRAM_OCCUPANCY_H

#include "program/liveness/happens.h"
#include "program/program.h"

#define RANGE_NONE UINT32_MAX

/* A live range under construction. Live ranges are numbered in the order of their definition. */
typedef struct live_range {
    /* the tensor of the live range; TN_NONE: the live range is scratch memory of an operator */
    tn_tensor_id tensor;
    tn_op_id op;
    /* index of the live range's tensor among the outputs of operator `op`; RANGE_NONE: it is no
     * output of an operator */
    uint32_t output;
    uint32_t first, last;
    /* number of reads; a read that a loop repeats in its next iteration counts once */
    uint32_t uses;
    uint32_t newest; /* index of the range's last use in liveness_state.uses, or RANGE_NONE */
    uint64_t bytes;
    /* the live range of which this one may be, or must be, a view; RANGE_NONE: it is no view */
    uint32_t source;
    uint32_t earlier; /* the previous live range of the same tensor, or RANGE_NONE */
    /* this live range continues `earlier` in the same memory, as an output of an If does */
    bool joins;
    /* must: the live range has to be a view of its source; whole: the view covers all bytes of the
     * source */
    bool must, whole;
    bool is_static; /* a buffer of static memory: its live range does not depend on `op` */
    /* for a view, its distance from the start of its source; for pinned static memory, its
     * address */
    uint64_t offset;
    /* number of the first live range of the buffer that this live range lies in (its root); chosen
     * by buffers.c */
    uint32_t root;
    tn_body_id body; /* the buffer of the problem in which the live range lies */
    uint64_t delta;  /* distance of the live range from the start of its buffer */
    uint64_t lo, hi; /* range of bytes that the live range keeps alive in its buffer */
    tn_share share;
    /* the live range with which this one shares bytes: the one that it views or overwrites in
     * place, or the first input that lies in this concatenation; RANGE_NONE: it shares no bytes */
    uint32_t taken;
} live_range;

/* All steps that need a live range, as one linked list per live range. */
typedef struct range_use {
    uint32_t step, next;
} range_use;
typedef struct range_uses {
    range_use *items;
    size_t count, room;
} range_uses;

/* The bytes that one live range keeps of its buffer; windows are sorted by buffer, first byte and
 * age. */
typedef struct range_window {
    uint32_t root; /* first live range of the buffer that the window is in */
    /* number of the live range that keeps these bytes; live ranges are numbered in order of
     * definition */
    uint32_t id;
    uint32_t range; /* index of the live range in tn_occupancy_lives */
    uint32_t first, last;
    uint64_t lo, hi;
} range_window;

typedef struct liveness_state {
    const tn_program *program;
    const tn_graph *graph;
    const tn_context *context;
    tn_occupancy_options options;
    tn_error *error;
    tn__arena scratch; /* memory of arrays that are freed at the end of the call */
    live_range *ranges;
    size_t count, room;
    range_uses uses;
    /* the known order of steps that may overlap; NULL: steps run one after the other */
    const tn__happens *happens;
    bool straight; /* true: intervals of steps express exactly the conflicts that `happens` gives */
    uint32_t *latest; /* [tensors] the tensor's newest live range; RANGE_NONE: no live range yet */
    uint8_t *is_static; /* [tensors] the tensor takes no memory of the arena */
    uint64_t *fetched;  /* [tensors] bytes of a static tensor that is fetched from a
                                 * file; otherwise TN_SIZE_UNKNOWN. NULL: no tensor is fetched */
    uint8_t *is_open;   /* [tensors] the tensor's newest live range has not been released */
} liveness_state;

struct tn_occupancy {
    tn_context context;
    tn__arena arena; /* owns the live ranges and windows */
    const tn_program *program;
    tn_problem *problem;
    tn_life *ranges;
    size_t count;
    live_range *found; /* [found_room] the live ranges in the order of their definition */
    size_t found_room;
    range_uses uses;
    /* [count] the bytes that each live range keeps of its buffer, sorted as range_window says */
    range_window *windows;
    tn_memory_summary summary;
};

/* liveness.c: finds the live ranges, and the views that are allowed between them. */
tn_status tn__liveness_find(liveness_state *liveness);
/* Marks a live range as needed at `step`, so that it stays live through that step. */
tn_status tn__liveness_need(liveness_state *liveness, uint32_t id, uint32_t step);
/* buffers.c: assigns live ranges to buffers. */
tn_status tn__buffers_assign(liveness_state *liveness);

/* liveness.c: extends live ranges to the intervals that the clocks of streams imply and sets
 * `straight`, if both are equivalent; otherwise it changes nothing. */
tn_status tn__liveness_straighten(liveness_state *liveness);

/* Whether intervals of steps are not enough, so that the problem needs clocks. */
static inline bool tn__liveness_has_clocks(const liveness_state *liveness) {
    return liveness->happens != NULL && liveness->happens->chain_count > 1 && !liveness->straight;
}

/* occupancy.c: returns the known partial order of the program if instructions may overlap. */
tn_status tn__liveness_order(liveness_state *liveness, tn__happens *happens);
/* occupancy.c: builds the problem from live ranges that have root, lo and hi. The buffers are in
 * the order of their first live range; buffer_of [ranges] receives the buffer of each root. */
tn_status tn__buffers_problem(liveness_state *liveness, tn_problem *problem, uint32_t *buffer_of);

/* holders.c: the windows of an occupancy, and the bytes that each live range holds at one step.
 * range_of  [ranges] maps the order of definition to the order of tn_occupancy_lives */
tn_status tn__holders_windows(const liveness_state *liveness, tn_occupancy *made,
                              const uint32_t *range_of);
typedef struct holders_walk {
    size_t at;
    uint32_t root;
    uint64_t top;
} holders_walk;
#define HOLDERS_WALK_INIT                                                                          \
    { 0, RANGE_NONE, 0 }
/* Finds the next live range that holds bytes at a step; returns false if there are no more. */
bool tn__holders_next(const tn_occupancy *occupancy, uint32_t step, holders_walk *walk,
                      tn_occupant *holder);
tn_kind tn__occupancy_kind(const tn_occupancy *occupancy, uint32_t range);

#endif
