/* cluster_schedule.c - simulates micro-batches through the stages of a pipeline, 1F1B, interleaved
 * or not.
 *
 * A stage has a list of passes in a fixed order (program/passes.h). A pass begins when its stage is
 * free and its input has arrived: from the part before it, or in the backward direction from the
 * part after it.
 */
#include "base/base.h"
#include "estimate/cluster.h"
#include "program/passes.h"

typedef struct schedule_state {
    const tn__schedule_job *job;
    double *done[TN__WAY_COUNT]; /* [part x rounds + round]: end of each pass; negative: not yet */
    uint64_t *next;              /* [stage]: number of its passes that are done */
    double *free;                /* [stage]: time from which it is free */
} schedule_state;

static tn__cluster_way schedule_way(const tn__pass *pass) {
    return pass->backward ? TN__BACKWARD : TN__FORWARD;
}

/* When the input of the pass arrives; negative: not known yet. */
static double schedule_ready(const schedule_state *state, const tn__pass *pass) {
    const tn__schedule_job *job = state->job;
    uint64_t parts = job->stages * job->pieces;
    bool forward = !pass->backward;
    if (forward && pass->part == 0) return 0;
    uint64_t from = forward ? pass->part - 1 : pass->part + 1;
    if (!forward && from == parts) /* the loss reads its own forward pass */
        return state->done[TN__FORWARD][pass->part * job->rounds + pass->round];
    double done = state->done[schedule_way(pass)][from * job->rounds + pass->round];
    bool crosses = job->stages > 1;
    return done < 0 ? done : done + (crosses ? job->send : 0);
}

/* Runs the passes of a stage that can run now. */
static bool schedule_go_on(schedule_state *state, uint64_t stage) {
    const tn__schedule_job *job = state->job;
    const tn__passes passes = {job->stages, job->pieces, job->rounds, false};
    uint64_t all = 2 * job->rounds * job->pieces, before = state->next[stage];
    while (state->next[stage] < all) {
        tn__pass pass = tn__passes_kth(&passes, stage, state->next[stage]);
        tn__cluster_way way = schedule_way(&pass);
        double ready = schedule_ready(state, &pass);
        if (ready < 0) break;
        double begin = ready > state->free[stage] ? ready : state->free[stage];
        state->free[stage] = begin + job->time[way][pass.part];
        state->done[way][pass.part * job->rounds + pass.round] = state->free[stage];
        state->next[stage]++;
    }
    return state->next[stage] > before;
}

/* Sweeps over the stages in both directions: a pass reads from a neighbouring stage, so each sweep
 * advances many passes. */
static double schedule_finish(schedule_state *state) {
    uint64_t stages = state->job->stages;
    bool moved = true;
    double end = 0;
    while (moved) {
        moved = false;
        for (uint64_t i = 0; i < stages; i++) moved |= schedule_go_on(state, i);
        for (uint64_t i = stages; i-- > 0;) moved |= schedule_go_on(state, i);
    }
    for (uint64_t i = 0; i < stages; i++)
        if (state->free[i] > end) end = state->free[i];
    return end;
}

tn_status tn__schedule_run(const tn__schedule_job *job, double *seconds, tn_error *error) {
    uint64_t passes = tn__mul_sat(tn__mul_sat(job->stages, job->pieces), job->rounds);
    tn__arena arena;
    schedule_state state = {.job = job};
    tn_status status = TN_OK;
    tn__arena_init(&arena, NULL);
    for (uint32_t way = 0; way < TN__WAY_COUNT; way++)
        state.done[way] = tn__arena_array(&arena, (size_t)passes, sizeof(double));
    state.next = tn__arena_array(&arena, (size_t)job->stages, sizeof *state.next);
    state.free = tn__arena_array(&arena, (size_t)job->stages, sizeof *state.free);
    if (state.done[TN__FORWARD] == NULL || state.done[TN__BACKWARD] == NULL || state.next == NULL ||
        state.free == NULL) {
        status = tn__no_memory(error, "the passes of a pipeline");
    } else {
        for (uint64_t i = 0; i < passes; i++)
            state.done[TN__FORWARD][i] = state.done[TN__BACKWARD][i] = -1;
        *seconds = schedule_finish(&state);
    }
    tn__arena_release(&arena);
    return status;
}
