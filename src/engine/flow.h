/* flow.h - control flow: the regions of If, Loop and Scan, who is inside of which, and what happens
 * when one begins, turns and ends.
 *
 *   flow.c     tables
 *   control.c  what the operators do
 */
#ifndef TN_ENGINE_FLOW_H
#define TN_ENGINE_FLOW_H

#include <tenure/program.h>

#include "engine/executor.h"

typedef struct tn__control { /* an operator with blocks */
    tn_op_id op;
    uint32_t own, entry; /* its APPLY; the first step of its regions, or `own` */
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
    tn__executor *executor; /* whose operands are carried from turn to turn */
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

/* An operator with blocks begins: which region runs, TN_NONE: it has none to run. A region has run:
 * whether again. And the operator's own step. */
tn_status tn__control_begin(tn__flow *flow, uint32_t control, uint32_t *region);
tn_status tn__control_turn(tn__flow *flow, uint32_t control, bool *again);
tn_status tn__control_end(tn__flow *flow, uint32_t control);

#endif
