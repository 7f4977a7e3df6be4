/* estimator.h - the state of one estimate, shared by its files.
 *
 *   estimate.c   options, static memory, phases; the planned arena
 *   serve.c      a pool, which gets the requests of a run
 */
#ifndef TN_ESTIMATE_ESTIMATOR_H
#define TN_ESTIMATE_ESTIMATOR_H

#include <tenure/estimate.h>

#include "base/base.h"

typedef struct estimate_body { /* a body of the problem, under the policies */
    uint64_t bytes;
    uint32_t first, last; /* held in steps [first, last); last == steps: until the end */
    tn_part part;         /* of its first live range */
} estimate_body;

typedef struct tn__estimator {
    tn_context context;
    const tn_occupancy *occupancy;
    const tn_program *program;
    const tn_graph *graph;
    const tn_problem *problem;
    tn_estimate_options options;
    tn_error *error;
    tn__arena arena; /* all that follows */
    uint32_t steps, body_count, static_count;
    uint8_t *phase; /* [steps] tn_phase of the first run */
    estimate_body *bodies;
    tn_static_block *statics;      /* [static_count] */
    uint64_t fixed[TN_PART_COUNT]; /* requested static memory, by category */
    uint64_t loaded;               /* all of it, aligned */
    bool inside;                   /* static memory lies in the arena: bodies of the problem */
    tn_estimate made;
} tn__estimator;

/* The category of a kind of tensors. */
tn_part tn__part_of(tn_kind kind);
/* Records `total` for a phase, and as the whole estimate if it is the maximum so far. */
void tn__estimator_seen(tn__estimator *it, tn_phase phase, uint64_t total,
                        const uint64_t part[TN_PART_COUNT], uint32_t step, uint32_t run);
tn_status tn__estimator_serve(tn__estimator *it); /* serve.c */

#endif
