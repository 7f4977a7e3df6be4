/* on_demand.h - passive mode: a run in an arena that is smaller than its plan needs.
 *
 * Decision. A buffer of the program is allocated from the engine's pool at its first step, as in
 * every run with a pool. When the pool is full, the buffer that was accessed least recently is
 * copied to the host, and the run waits for the copy; a step that accesses such a buffer first
 * brings it back, again with a wait. No plan and no knowledge about the future are needed, so a
 * first step of training can run within a budget before anything was measured. While it runs, the
 * time of each step is recorded without the time of the copies: these are the measurements that a
 * policy needs (run/online).
 *
 * The pool has exactly the bytes of the budget, static memory included, and refuses a request
 * beyond them. So the budget is a bound by construction.
 *
 * If free bytes are enough but not contiguous, all buffers leave, and the buffers of the step
 * return one above the other, the largest first.
 *
 * Cost: O(buffers) for each eviction, O(accesses) a run; the copies.
 * Source: Peng et al., "Capuchin" (2020), passive mode and measured execution.
 */
#ifndef TN_ENGINE_ON_DEMAND_H
#define TN_ENGINE_ON_DEMAND_H

#include "engine/engine.h"

typedef struct tn__on_demand_body {
    uint8_t *host;    /* its data on the host; NULL: it is in the arena, or has no data yet */
    uint64_t touched; /* number of the last step that accessed it */
    uint64_t begun;   /* number of the step at which it began */
    bool live, out;   /* out: it has no bytes of the arena */
} tn__on_demand_body;

typedef struct tn__on_demand {
    tn_engine *engine;
    tn__lists accesses;         /* [steps] the bodies that a step accesses */
    tn__lists lives;            /* [bodies] the live ranges of a body */
    tn__on_demand_body *bodies; /* [bodies] */
    uint32_t steps, step;
    uint64_t now; /* number of the current step, over all runs */
    double start_s;
    /* [steps + 1] when the step began, in seconds from the beginning of the run, without the time
     * of copies; the last entry is the end */
    double *times;
    uint32_t access_count, evictions, packs; /* of the last run */
    uint64_t out_bytes, in_bytes, host_now, host_peak;
    double out_s, in_s;
} tn__on_demand;

/* Makes passive mode for an engine with a pool. Errors: E_EXHAUSTED (the pool is smaller than a
 * step needs; the message names the operator and what it holds), E_UNSUPPORTED (control flow,
 * several streams), E_NO_MEMORY. */
tn_status tn__on_demand_make(tn_engine *engine);
void tn__on_demand_release(tn_engine *engine); /* accepts an engine without passive mode */

/* These four do nothing for an engine without passive mode (NULL). */
void tn__on_demand_start(tn__on_demand *it);                 /* a run begins */
void tn__on_demand_arrive(tn__on_demand *it, uint32_t step); /* before spans begin and end */
tn_status tn__on_demand_enter(tn__on_demand *it);            /* after it: bring its buffers */
void tn__on_demand_finish(tn__on_demand *it);                /* the last step has run */

void tn__on_demand_begin(tn__on_demand *it, tn_body_id body); /* a span begins */
/* A span ends: frees its bytes, wherever they are. */
tn_status tn__on_demand_end(tn__on_demand *it, tn_body_id body, tn_error *error);

#endif
