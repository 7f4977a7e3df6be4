/* events.c - gives the problem of an occupancy the events of its program, so that planners can
 * count the waits that a layout adds, and the time of the program with them.
 *
 * The events are the steps of the program; control flow is one event, as in happens.c. Spans are
 * the live ranges: a live range that writes has a span from its definition to its uses, and a view
 * has a span of its own without a write. Waits within one buffer (an operator that works in place
 * must wait for the other readers of its input) do not depend on the layout. They are those of a
 * layout without reuse.
 *
 * Cost: O(steps chains + live ranges + uses), and that of tn_plan_dependencies.
 */
#include "graph/takes.h"
#include "program/liveness/liveness.h"

typedef struct events_job {
    tn_occupancy *occupancy;
    const tn_program *program;
    tn__happens happens;
    uint32_t *entry; /* [steps] first step of the control flow that ends at this step */
    /* [steps] the steps in the order of the chains: chain after chain, each in its own order */
    uint32_t *place;
    size_t *chain;  /* [chains + 1] index in `place` of the first step of each chain */
    uint32_t *step; /* [operators] the step that runs the operator */
    uint32_t *uses; /* list of the events that use the current span */
    size_t use_room;
    tn__arena scratch;
    tn_error *error;
} events_job;

static bool events_runs(const events_job *job, uint32_t step) {
    return tn_program_instructions(job->program)[step].opcode == TN_APPLY;
}

static tn_status events_index(events_job *job) {
    const tn__happens *happens = &job->happens;
    const tn_instruction *instructions = tn_program_instructions(job->program);
    const tn_graph *graph = tn_program_graph(job->program);
    uint32_t steps = happens->count;
    job->entry = tn__arena_array(&job->scratch, steps + 1, sizeof *job->entry);
    job->place = tn__arena_array(&job->scratch, steps + 1, sizeof *job->place);
    job->chain =
        tn__arena_array(&job->scratch, (size_t)happens->chain_count + 1, sizeof *job->chain);
    job->step =
        tn__arena_array(&job->scratch, (size_t)tn_graph_op_count(graph) + 1, sizeof *job->step);
    if (!job->entry || !job->place || !job->chain || !job->step)
        return tn__no_memory(job->error, "the order of operators");
    for (uint32_t s = steps; s-- > 0;) job->entry[happens->exit[s]] = s;
    for (uint32_t s = 0; s < steps; s++) job->chain[happens->chain[s] + 1]++;
    for (uint32_t c = 0; c < happens->chain_count; c++) job->chain[c + 1] += job->chain[c];
    for (uint32_t s = 0; s < steps; s++) {
        job->place[job->chain[happens->chain[s]] + happens->index[s]] = s;
        if (instructions[s].opcode == TN_APPLY) job->step[instructions[s].op] = happens->exit[s];
    }
    return TN_OK;
}

static tn_status events_add_steps(events_job *job) {
    const tn_instruction *instructions = tn_program_instructions(job->program);
    const tn_graph *graph = tn_program_graph(job->program);
    tn__machine machine = TN__PLAIN_MACHINE;
    uint32_t steps = job->happens.count;
    double *seconds = tn__arena_array(&job->scratch, (size_t)steps + 1, sizeof *seconds);
    if (seconds == NULL) return tn__no_memory(job->error, "the times of operators");
    for (uint32_t s = 0; s < steps; s++)
        if (instructions[s].opcode == TN_APPLY)
            seconds[job->happens.exit[s]] +=
                tn__op_takes(graph, instructions[s].op, &machine, NULL);
    if (steps ==
        /* an empty program still gets one event, so that the problem has events and its number of
         * waits counts as known: 0 */
        0)
        return tn_problem_add_event(job->occupancy->problem, 0, NULL, job->error);
    for (uint32_t s = 0; s < steps; s++) {
        double picoseconds = seconds[s] * 1e12;
        uint64_t time = picoseconds < 9e18 ? (uint64_t)(picoseconds + 0.5) : (uint64_t)9e18;
        TN_TRY(tn_problem_add_event(job->occupancy->problem, time, NULL, job->error));
    }
    return TN_OK;
}

static tn_status events_add_order(events_job *job) {
    const tn__happens *happens = &job->happens;
    for (uint32_t b = 0; b < happens->count; b++) {
        if (happens->exit[b] != b) continue;
        uint32_t from = job->entry[b];
        for (uint32_t c = 0; c < happens->width[from]; c++) {
            uint32_t seen = tn__happens_seen(happens, from, c);
            if (seen == 0) continue;
            uint32_t a = happens->exit[job->place[job->chain[c] + seen - 1]];
            if (a < b) TN_TRY(tn_problem_add_order(job->occupancy->problem, a, b, job->error));
        }
    }
    return TN_OK;
}

static tn_status events_use(events_job *job, uint32_t step, uint32_t *count) {
    uint32_t event = job->happens.exit[step];
    if (!events_runs(job, event)) return TN_OK;
    if (!tn__reserve(&job->occupancy->context, &job->uses, &job->use_room, (size_t)*count + 1,
                     sizeof *job->uses))
        return tn__no_memory(job->error, "the uses of a buffer");
    job->uses[(*count)++] = event;
    return TN_OK;
}

static tn_status events_add_spans(events_job *job) {
    const tn_occupancy *occupancy = job->occupancy;
    for (size_t i = 0; i < occupancy->count; i++) {
        const live_range *range = &occupancy->found[i];
        uint32_t count = 0, first = job->happens.exit[range->first];
        if (range->lo >= range->hi) continue;
        bool writes = range->share != TN_SHARE_VIEW && events_runs(job, first);
        if (range->newest == RANGE_NONE) TN_TRY(events_use(job, range->first, &count));
        for (uint32_t at = range->newest; at != RANGE_NONE; at = occupancy->uses.items[at].next)
            TN_TRY(events_use(job, occupancy->uses.items[at].step, &count));
        if (count == 0 && !writes) continue;
        /* A span that writes keeps only uses from its first event on: a loop may use the bytes at
         * steps before its APPLY, which is the event of the loop. */
        uint32_t kept = 0;
        for (uint32_t k = 0; k < count; k++)
            if (!writes || job->uses[k] >= first) job->uses[kept++] = job->uses[k];
        const tn_span span = {.body = range->body,
                              .lo = range->lo,
                              .hi = range->hi,
                              .first = writes ? first : TN_EVENT_NONE,
                              .uses = job->uses,
                              .use_count = kept};
        TN_TRY(tn_problem_add_span(occupancy->problem, &span, job->error));
    }
    return TN_OK;
}

/* Adds the waits that every layout has because they arise within one buffer. */
static tn_status events_add_waits(events_job *job) {
    tn_problem *problem = job->occupancy->problem;
    tn_layout apart;
    tn_dependency *list = NULL;
    uint64_t count = 0;
    TN_TRY(tn_layout_without_reuse(problem, &apart, job->error));
    /* gives the live ranges of one buffer the distances that they have in each layout, also if they
     * do not overlap in time */
    for (tn_body_id id = 0; id < apart.body_count; id++) {
        const tn_body *body = tn_problem_body(problem, id);
        if (body->flags & TN_BODY_TIED) apart.offset[id] = apart.offset[body->leader] + body->delta;
    }
    tn_status status = tn_plan_dependencies(job->occupancy, &apart, &list, &count, job->error);
    for (uint64_t i = 0; i < count && status == TN_OK; i++) {
        uint32_t before = job->step[list[i].before], after = job->step[list[i].after];
        if (before < after) status = tn_problem_add_wait(problem, before, after, job->error);
    }
    tn_dependencies_release(list);
    tn_layout_release(&apart);
    return status;
}

tn_status tn_occupancy_add_reuse_costs(tn_occupancy *occupancy, tn_error *error) {
    uint32_t known;
    TN_TRY(tn_occupancy_add_events(occupancy, error));
    tn_problem_reuse_costs(occupancy->problem, &known);
    return known > 0 ? TN_OK : tn_problem_price_pairs(occupancy->problem, error);
}

tn_status tn__occupancy_prepare(tn_occupancy *occupancy, tn_objective objective, tn_error *error) {
    if (objective == TN_OBJECTIVE_BYTES) return TN_OK;
    return objective == TN_OBJECTIVE_PAIRS ? tn_occupancy_add_reuse_costs(occupancy, error)
                                           : tn_occupancy_add_events(occupancy, error);
}

tn_status tn_occupancy_add_events(tn_occupancy *occupancy, tn_error *error) {
    events_job job = {.occupancy = occupancy, .program = occupancy->program, .error = error};
    uint32_t known;
    tn_problem_events(occupancy->problem, &known);
    if (known > 0) return TN_OK;
    size_t most =
        TN__HAPPENS_FREE + (size_t)TN__HAPPENS_EACH * tn_program_count(occupancy->program);
    if (tn_program_count(job.program) > TN_EVENTS_MAX)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "the program has %u steps; waits and time are computed for up to %u",
                tn_program_count(job.program), TN_EVENTS_MAX);
    TN_TRY(tn__happens_create(job.program, TN__BY_GRAPH, most, &job.happens, error));
    tn__arena_init(&job.scratch, &occupancy->context);
    tn_status status = events_index(&job);
    if (status == TN_OK) status = events_add_steps(&job);
    if (status == TN_OK) status = events_add_order(&job);
    if (status == TN_OK) status = events_add_waits(&job);
    if (status == TN_OK) status = events_add_spans(&job);
    tn__free(&occupancy->context, job.uses, job.use_room * sizeof *job.uses);
    tn__arena_release(&job.scratch);
    tn__happens_release(&job.happens);
    return status;
}
