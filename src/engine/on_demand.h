/* on_demand.h - passive mode: a run in an arena that is smaller than its plan needs.
 *
 * Decision. A buffer of the program is allocated from the engine's pool at its first step, as in
 * every run with a pool. When the pool is full, the buffer that was accessed least recently is
 * copied to the host, and the run waits for the copy. Before a step accesses such a buffer, the
 * engine copies it back, and the run waits again. No plan and no knowledge about the future are
 * needed, so a first step of training can run within a budget before anything was measured. While
 * it runs, the time of each step is recorded without the time of the copies: these are the
 * measurements that a policy needs (run/online).
 *
 * The pool has exactly the bytes of the budget, static memory included, and refuses a request
 * beyond them. So the budget is a bound by construction.
 *
 * If enough bytes are free but not contiguous, all buffers are evicted, and the buffers of the
 * step are brought back one after the other, the largest first.
 *
 * Cost: O(buffers) for each eviction, O(accesses) a run; the copies.
 * Source: Peng et al., "Capuchin" (2020), passive mode and measured execution.
 */
#ifndef TN_ENGINE_ON_DEMAND_H
#define TN_ENGINE_ON_DEMAND_H

#include "engine/engine.h"

typedef struct tn__on_demand_body {
    /* the buffer's data on the host; NULL: the data is in the arena, or does not exist yet */
    uint8_t *host;
    uint64_t touched; /* number of the last step that accessed the buffer */
    uint64_t begun;   /* number of the step at which its live range began */
    /* live: between its first and last step; out: live, but without bytes in the arena */
    bool live, out;
} tn__on_demand_body;

typedef struct tn__on_demand {
    tn_engine *engine;
    tn__lists accesses;         /* [steps] the buffers that a step accesses */
    tn__lists lives;            /* [buffers] the live ranges in a buffer */
    tn__on_demand_body *bodies; /* [buffers] the state of each buffer */
    uint32_t steps, step;
    uint64_t now; /* number of the current step, counted over all runs */
    double start_s;
    /* [steps + 1] when each step began, in seconds since the beginning of the run without the time
     * of copies. The last entry is the end of the run. */
    double *times;
    uint32_t access_count, evictions, packs; /* counts of the last run */
    uint64_t out_bytes, in_bytes, host_now, host_peak;
    double out_s, in_s;
} tn__on_demand;

/* Creates the state of passive mode for an engine with a pool. Errors: E_EXHAUSTED (a step needs
 * more than the pool; the message names its operator and largest buffers), E_INVALID (no pool, or
 * poison), E_UNSUPPORTED (control flow, several streams), E_NO_MEMORY. */
tn_status tn__on_demand_make(tn_engine *engine);
/* releases the state of passive mode; accepts an engine without passive mode */
void tn__on_demand_release(tn_engine *engine);

/* tn__on_demand_start, tn__on_demand_arrive, tn__on_demand_enter and tn__on_demand_finish do
 * nothing if `it` is NULL (an engine without passive mode). */
void tn__on_demand_start(tn__on_demand *it); /* resets counters and clock; call when a run begins */
/* records the accesses of a step; call before the live ranges of the step begin and end */
void tn__on_demand_arrive(tn__on_demand *it, uint32_t step);
/* Puts all buffers that the current step accesses into the arena, if need be from copies on the
 * host. Call after the live ranges of the step began. */
tn_status tn__on_demand_enter(tn__on_demand *it);
/* records the time of the end; call after the last step */
void tn__on_demand_finish(tn__on_demand *it);

/* Call when a live range begins in a buffer. Marks it as live, but outside the arena. */
void tn__on_demand_begin(tn__on_demand *it, tn_body_id body);
/* Call when a live range ends. Frees the buffer's bytes in the arena or on the host. */
tn_status tn__on_demand_end(tn__on_demand *it, tn_body_id body, tn_error *error);

#endif
