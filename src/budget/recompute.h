/* recompute.h - what the files of recomputation share; recompute.c says how they work together. */
#ifndef TN_BUDGET_RECOMPUTE_H
#define TN_BUDGET_RECOMPUTE_H

#include <tenure/budget.h>

#include "rewrite/rewrite.h"

/* Memory of a tensor and of all its views. Positions are those of the main block's operators that
 * run, in order. A body is idle between `leave` and `back`, the two reads that are furthest apart:
 * there it may be given up, and be made again before whoever reads it at `back`. */
typedef struct tn__recompute_body {
    uint64_t bytes;       /* with its views, aligned */
    tn_op_id maker;       /* TN_NONE: an input of the graph */
    uint32_t made, end;   /* first and last position where it is needed */
    uint32_t leave, back; /* leave == back: never idle */
    bool fixed;           /* somebody else needs it: it is always there */
    bool can;             /* its maker may run again */
} tn__recompute_body;

/* What is given up, and when it is made again: before the operator at that position. */
typedef struct tn__recompute_choice {
    bool *again;     /* [bodies] */
    uint32_t *leave; /* [bodies] behind this position readers take what was made again */
    uint32_t *at;    /* [bodies] */
    uint64_t work;   /* of all that runs again */
    uint64_t peak;   /* the lowest on the way, as estimated */
    uint32_t count;  /* of choices made */
    uint32_t best;   /* of those, up to the lowest peak */
} tn__recompute_choice;

typedef struct tn__recompute {
    const tn_graph *graph;
    const uint64_t *workspaces; /* [operators] NULL: as the registry says */
    tn_recompute_options options;
    tn_error *error;
    tn__arena arena; /* all lists below */
    uint32_t count;  /* operators that run */
    tn_op_id *order; /* [count] */
    uint32_t *place; /* [operators] in `order`; TN_NONE */
    uint32_t *body;  /* [tensors] TN_NONE: static, or of another block */
    tn__recompute_body *bodies;
    uint32_t body_count;
    uint64_t *scratch; /* [operators] bytes */
    uint64_t *work;    /* [operators] */
    uint64_t total;    /* work of all */
    /* [tensors] first and last position where an operator writes into a static tensor; TN_NONE */
    uint32_t *first_change, *last_change;
} tn__recompute;

/* recompute_read.c: fills all of it. */
tn_status tn__recompute_read(tn__recompute *it);
/* The operator that computes the first output for the second time; NULL: the same one. */
const char *tn__recompute_type(const tn__recompute *it, tn_op_id id);
/* Input `index` of an operator when it runs for the second time. */
tn_tensor_id tn__recompute_input(const tn__recompute *it, tn_op_id id, uint32_t index);

/* recompute_choose.c: what to give up so that less is needed at once, with at most `budget` work
 * and `most` choices. `reach`: prefer what is idle for long. */
tn_status tn__recompute_choose(tn__recompute *it, uint64_t budget, bool reach, uint32_t most,
                               tn__recompute_choice *choice);
/* Room for one, which tn__recompute_choose fills again and again. */
tn_status tn__recompute_choice_room(tn__recompute *it, tn__recompute_choice *choice);

typedef struct tn__recompute_made {
    tn_graph *graph;
    uint64_t *workspaces; /* [its operators] as those they repeat; in the arena */
    uint32_t operators;   /* that run again and cost anything */
    uint64_t flops;       /* of those */
} tn__recompute_made;

/* recompute_emit.c: the graph with operators that run again. */
tn_status tn__recompute_emit(tn__recompute *it, const tn__recompute_choice *choice,
                             tn__recompute_made *made);

#endif
