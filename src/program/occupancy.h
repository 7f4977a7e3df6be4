/* occupancy.h - the state that finds live ranges and assigns them to buffers. */
#ifndef TN_PROGRAM_OCCUPANCY_H
#define TN_PROGRAM_OCCUPANCY_H

#include "program/happens.h"
#include "program/program.h"

#define OCC_NONE UINT32_MAX

/* A live range (life) under construction. Lives are numbered in the order of their definition. */
typedef struct occ_life {
    tn_tensor_id tensor; /* TN_NONE: workspace */
    tn_op_id op;
    uint32_t output; /* index among the outputs of `op`; OCC_NONE: not an operator's output */
    uint32_t first, last;
    uint32_t uses;   /* number of reads, without those that a loop repeats in its next turn */
    uint32_t newest; /* its last entry in occ_uses, or OCC_NONE */
    uint64_t bytes;
    uint32_t source;  /* the life that it may or must view; OCC_NONE: it is no view */
    uint32_t earlier; /* the previous life of the same tensor, or OCC_NONE */
    bool joins;       /* it continues `earlier` in the same memory (If) */
    bool must, whole; /* the view is mandatory; it shows the whole source */
    bool is_static;   /* a block of static memory: `op` does not affect its life */
    uint64_t offset;  /* of a view: from the start of its source; of pinned static memory: its
                       * address */
    uint32_t root;    /* chosen by bodies.c: first life of its body */
    tn_body_id body;  /* its body in the problem */
    uint64_t delta;   /* distance from the body's start */
    uint64_t lo, hi;  /* bytes of the body that it keeps alive */
    tn_share share;
    uint32_t taken; /* the life that it overwrites in place, or OCC_NONE */
} occ_life;

/* All steps that need a life, as one linked list per life. */
typedef struct occ_use {
    uint32_t step, next;
} occ_use;
typedef struct occ_uses {
    occ_use *items;
    size_t count, room;
} occ_uses;

/* The bytes that one life keeps of its body; windows are sorted by body, first byte and age. */
typedef struct occ_window {
    uint32_t root, id; /* first life of the body; the life, in the order of definition */
    uint32_t life;     /* index into tn_occupancy_lives */
    uint32_t first, last;
    uint64_t lo, hi;
} occ_window;

typedef struct occ_state {
    const tn_program *program;
    const tn_graph *graph;
    const tn_context *context;
    tn_occupancy_options options;
    tn_error *error;
    tn__arena scratch; /* freed at the end of the call */
    occ_life *lives;
    size_t count, room;
    occ_uses uses;
    const tn__happens *happens; /* NULL: steps run one after the other */
    bool straight;              /* intervals of steps express the same conflicts as `happens` */
    uint32_t *latest;           /* [tensors] the tensor's newest life; OCC_NONE: no life yet */
    uint8_t *is_static;         /* [tensors] takes no memory of the arena */
    uint64_t *fetched;          /* [tensors] bytes of a static tensor that is fetched from a
                                 * file; otherwise TN_SIZE_UNKNOWN. NULL: no tensor is fetched */
    uint8_t *is_open;           /* [tensors] its newest life has not been released */
} occ_state;

struct tn_occupancy {
    tn_context context;
    tn__arena arena; /* owns the lives and windows */
    const tn_program *program;
    tn_problem *problem;
    tn_life *lives;
    size_t count;
    occ_life *found; /* [found_room], the same lives in the order of their definition */
    size_t found_room;
    occ_uses uses;
    occ_window *windows; /* [count] */
    tn_memory_summary summary;
};

/* lifetime.c: finds the lives, and the views that are allowed between them. */
tn_status tn__occ_find_lives(occ_state *occ);
/* A step needs a life, so it is alive through that step. */
tn_status tn__occ_need(occ_state *occ, uint32_t id, uint32_t step);
/* bodies.c: assigns lives to bodies. */
tn_status tn__occ_join(occ_state *occ);

/* intervals.c: extends lives to the intervals that the clocks of streams imply and sets
 * `straight`, if both are equivalent; otherwise it changes nothing. */
tn_status tn__occ_straighten(occ_state *occ);

/* Whether the problem needs clocks. */
static inline bool tn__occ_has_clocks(const occ_state *occ) {
    return occ->happens != NULL && occ->happens->chain_count > 1 && !occ->straight;
}

/* occupancy.c, for host.c. The first returns the known partial order if instructions may
 * overlap. The second builds the problem of lives that have root, lo and hi: bodies in the order
 * of their first life; body_of [lives] receives the body of each root. */
tn_status tn__occ_order(occ_state *occ, tn__happens *happens);
tn_status tn__occ_problem(occ_state *occ, tn_problem *problem, uint32_t *body_of);

/* holders.c: the windows of an occupancy, and the bytes that each life holds at one step.
 * life_of  [lives] maps the order of definition to the order of tn_occupancy_lives */
tn_status tn__occ_windows(const occ_state *occ, tn_occupancy *made, const uint32_t *life_of);
typedef struct occ_walk {
    size_t at;
    uint32_t root;
    uint64_t top;
} occ_walk;
#define OCC_WALK_INIT                                                                              \
    { 0, OCC_NONE, 0 }
/* The next life that holds bytes at a step; false: no further life does. */
bool tn__holders_next(const tn_occupancy *occupancy, uint32_t step, occ_walk *walk,
                      tn_occupant *holder);
tn_kind tn__occupancy_kind(const tn_occupancy *occupancy, uint32_t life);

/* Writes "tensor 'x' of node 'conv1' (Conv)" into error->where. */
tn_status tn__occ_where(const occ_state *occ, tn_status status, tn_op_id op, tn_tensor_id tensor);

#endif
