/* cluster_schedule.c - simulates micro-batches through the stages of a pipeline, 1F1B, interleaved
 * or not.
 *
 * A stage is a lane of a clock (program/clock.h), with a list of passes in a fixed order
 * (program/passes.h). A pass begins when its lane is free and its input has arrived: from the part
 * before it, or in the backward direction from the part after it. The unit of the clock is a power
 * of two, chosen so that all passes one after the other take less than 2^62 units.
 */
#include "base/base.h"
#include "program/clock.h"
#include "program/passes.h"
#include "report/estimate/cluster.h"

#define SCHEDULE_BITS 62
#define SCHEDULE_LATER UINT64_MAX /* not known yet */

typedef struct schedule_state {
    const tn__schedule_job *job;
    double unit;                   /* seconds */
    uint64_t *done[TN__WAY_COUNT]; /* [part x rounds + round]: end of each pass */
    uint64_t *next;                /* [stage]: number of its passes that are done */
    tn__lane *lanes;               /* [stage] */
} schedule_state;

static double schedule_unit(const tn__schedule_job *job) {
    double all = 0;
    int exponent;
    for (uint64_t part = 0; part < job->stages * job->pieces; part++)
        all += (double)job->rounds *
               (job->time[TN__FORWARD][part] + job->time[TN__BACKWARD][part] + 2 * job->send);
    (void)frexp(all, &exponent);
    return all > 0 && isfinite(all) ? ldexp(1, exponent - SCHEDULE_BITS) : 1;
}

static uint64_t schedule_units(const schedule_state *state, double seconds) {
    return tn__lane_units(seconds / state->unit);
}

static tn__cluster_way schedule_way(const tn__pass *pass) {
    return pass->backward ? TN__BACKWARD : TN__FORWARD;
}

/* When the input of the pass arrives. */
static uint64_t schedule_ready(const schedule_state *state, const tn__pass *pass) {
    const tn__schedule_job *job = state->job;
    uint64_t parts = job->stages * job->pieces;
    bool forward = !pass->backward;
    if (forward && pass->part == 0) return 0;
    uint64_t from = forward ? pass->part - 1 : pass->part + 1;
    if (!forward && from == parts) /* the loss reads its own forward pass */
        return state->done[TN__FORWARD][pass->part * job->rounds + pass->round];
    uint64_t done = state->done[schedule_way(pass)][from * job->rounds + pass->round];
    bool crosses = job->stages > 1;
    return tn__add_sat(done, crosses ? schedule_units(state, job->send) : 0);
}

/* Runs the passes of a stage that can run now. */
static bool schedule_go_on(schedule_state *state, uint64_t stage) {
    const tn__schedule_job *job = state->job;
    const tn__passes passes = {job->stages, job->pieces, job->rounds, false};
    uint64_t all = 2 * job->rounds * job->pieces, before = state->next[stage];
    while (state->next[stage] < all) {
        tn__pass pass = tn__passes_kth(&passes, stage, state->next[stage]);
        tn__cluster_way way = schedule_way(&pass);
        uint64_t ready = schedule_ready(state, &pass);
        if (ready == SCHEDULE_LATER) break;
        state->done[way][pass.part * job->rounds + pass.round] = tn__lane_put(
            &state->lanes[stage], ready, schedule_units(state, job->time[way][pass.part]));
        state->next[stage]++;
    }
    return state->next[stage] > before;
}

/* Sweeps over the stages in both directions: a pass reads from a neighbouring stage, so each sweep
 * advances many passes. */
static double schedule_finish(schedule_state *state) {
    uint64_t stages = state->job->stages;
    bool moved = true;
    tn__lane end = {0};
    while (moved) {
        moved = false;
        for (uint64_t i = 0; i < stages; i++) moved |= schedule_go_on(state, i);
        for (uint64_t i = stages; i-- > 0;) moved |= schedule_go_on(state, i);
    }
    for (uint64_t i = 0; i < stages; i++) tn__lane_wait(&end, state->lanes[i]);
    return (double)end.at * state->unit;
}

tn_status tn__schedule_run(const tn__schedule_job *job, double *seconds, tn_error *error) {
    uint64_t passes = tn__mul_sat(tn__mul_sat(job->stages, job->pieces), job->rounds);
    tn__arena arena;
    schedule_state state = {.job = job, .unit = schedule_unit(job)};
    tn_status status = TN_OK;
    tn__arena_init(&arena, NULL);
    for (uint32_t way = 0; way < TN__WAY_COUNT; way++)
        state.done[way] = tn__arena_array(&arena, (size_t)passes, sizeof(uint64_t));
    state.next = tn__arena_array(&arena, (size_t)job->stages, sizeof *state.next);
    state.lanes = tn__arena_array(&arena, (size_t)job->stages, sizeof *state.lanes);
    if (state.done[TN__FORWARD] == NULL || state.done[TN__BACKWARD] == NULL || state.next == NULL ||
        state.lanes == NULL) {
        status = tn__no_memory(error, "the passes of a pipeline");
    } else {
        for (uint64_t i = 0; i < passes; i++)
            state.done[TN__FORWARD][i] = state.done[TN__BACKWARD][i] = SCHEDULE_LATER;
        *seconds = schedule_finish(&state);
    }
    tn__arena_release(&arena);
    return status;
}
