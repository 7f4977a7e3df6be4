/* flow.h - control flow: the regions of If, Loop and Scan, their nesting, and the work at their
 * beginning, after each turn and at their end.
 *
 *   flow.c     tables
 *   control.c  the work of the operators
 */
#ifndef TN_ENGINE_FLOW_H
#define TN_ENGINE_FLOW_H

#include <tenure/program.h>

#include "engine/executor.h"

typedef struct tn__control { /* an operator with blocks */
    tn_op_id op;
    /* step of its APPLY; first step of its regions, or `own` if there are no regions */
    uint32_t own, entry;
    uint32_t first_region, region_count;
    uint32_t ran; /* region, or TN_NONE */
    uint64_t trips, most;
    bool going;
} tn__control;

typedef struct tn__frame {
    uint32_t control, region;
    uint32_t inner; /* index into entering of what may begin inside, at the region's first step */
} tn__frame;

typedef struct tn__flow {
    const tn_graph *graph;
    tn__executor *executor; /* holds the operands that are carried from turn to turn */
    tn_region *regions;
    uint32_t region_count, control_count, frame_count;
    tn__control *controls;
    uint32_t *entering_at, *entering; /* [steps + 2], controls that may begin at a step */
    uint32_t *control_of;             /* [operators] or TN_NONE */
    tn__frame *frames;
} tn__flow;

/* Errors: E_UNSUPPORTED (nothing runs such an operator), E_NO_MEMORY. */
tn_status tn__flow_make(tn__flow *flow, const tn_program *program, tn__executor *executor,
                        tn__arena *arena);

/* `begin`: an operator with blocks begins; *region is the region that runs, or TN_NONE. `turn`: a
 * region has run; *again is whether it runs again. `end`: the operator's own step. */
tn_status tn__control_begin(tn__flow *flow, uint32_t control, uint32_t *region);
tn_status tn__control_turn(tn__flow *flow, uint32_t control, bool *again);
tn_status tn__control_end(tn__flow *flow, uint32_t control);

#endif
