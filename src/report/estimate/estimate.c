/* estimate.c - estimates the memory of a program: static memory, an arena or a pool, by category
 * and by phase.
 *
 * The arena is not estimated but planned, by the planners that plan a run; a pool is not modelled
 * but run (serve.c). This file does the bookkeeping: which static tensors are kept, the live ranges
 * under each policy, the phase of each instruction.
 *
 * Cost: planning, plus O(operands + lives log lives).
 */
#include "report/estimate/estimator.h"
#include "report/estimate/phases.h"

#include <tenure/trace.h>

#include "program/program.h"

#define ESTIMATE_ALIGNMENT 64u /* of static blocks, as in the engine */

static const char *const estimate_parts[] = {
#define TN_X(name, text) text,
    TN_PART_TABLE(TN_X)
#undef TN_X
};
static const struct {
    const char *name, *meaning;
} estimate_phases[] = {
#define TN_X(name, text, meaning) {text, meaning},
    TN_PHASE_TABLE(TN_X)
#undef TN_X
};

const char *tn_part_name(tn_part part) {
    return (unsigned)part < TN_PART_COUNT ? estimate_parts[part] : "?";
}
const char *tn_phase_name(tn_phase phase) {
    return (unsigned)phase < TN_PHASE_COUNT ? estimate_phases[phase].name : "?";
}
const char *tn_phase_meaning(tn_phase phase) {
    return (unsigned)phase < TN_PHASE_COUNT ? estimate_phases[phase].meaning : "?";
}

tn_part tn__part_of(tn_kind kind) {
    switch (kind) {
    case TN_KIND_PARAMETER:
    case TN_KIND_CONSTANT:
        return TN_PART_WEIGHTS;
    case TN_KIND_GRADIENT:
        return TN_PART_GRADIENTS;
    case TN_KIND_OPTIMIZER_STATE:
        return TN_PART_OPTIMIZER_STATE;
    case TN_KIND_WORKSPACE:
        return TN_PART_WORKSPACE;
    default:
        return TN_PART_ACTIVATIONS;
    }
}

void tn__estimator_seen(tn__estimator *it, tn_phase phase, uint64_t total,
                        const uint64_t part[TN_PART_COUNT], uint32_t step, uint32_t run) {
    tn_estimate *made = &it->made;
    if (made->phase[phase] == TN_SIZE_UNKNOWN || total > made->phase[phase])
        made->phase[phase] = total;
    if (total <= made->total) return;
    made->total = total;
    memcpy(made->part, part, sizeof made->part);
    made->peak_step = step;
    made->peak_run = run;
}

/* --- static memory --- */

/* Static memory that the occupancy has bodies for. */
static tn_status estimate_inside(tn__estimator *it) {
    uint32_t count = tn_occupancy_life_count(it->occupancy);
    const tn_life *lives = tn_occupancy_lives(it->occupancy);
    it->statics = tn__arena_array(&it->arena, count, sizeof *it->statics);
    if (it->statics == NULL) return tn__no_memory(it->error, "static memory");
    for (uint32_t i = 0; i < count; i++)
        if (lives[i].is_static)
            it->statics[it->static_count++] =
                (tn_static_block){lives[i].tensor, lives[i].op, lives[i].bytes};
    it->inside = it->static_count > 0;
    if (it->inside && it->options.pool != NULL)
        TN_FAIL(it->error, TN_E_INVALID,
                "a pool takes static memory itself; the occupancy has bodies for it");
    return TN_OK;
}

static tn_status estimate_find_statics(tn__estimator *it) {
    const tn_estimate_options *options = &it->options;
    size_t count = options->static_count;
    TN_TRY(estimate_inside(it));
    if (it->inside) return TN_OK;
    if (count == 0)
        return tn__program_statics(it->program, &it->arena, &it->statics, &it->static_count,
                                   it->error);
    it->static_count = options->static_count;
    it->statics = tn__arena_copy(&it->arena, options->statics, count * sizeof *options->statics);
    return it->statics != NULL ? TN_OK : tn__no_memory(it->error, "static memory");
}

static tn_status estimate_statics(tn__estimator *it) {
    uint64_t all = 0;
    TN_TRY(estimate_find_statics(it));
    for (uint32_t i = 0; i < it->static_count; i++) {
        const tn_life life = {.tensor = it->statics[i].tensor, .is_static = it->inside};
        uint64_t bytes = it->statics[i].bytes, aligned = 0;
        uint64_t *part = &it->fixed[tn__part_of(tn_life_kind(it->graph, &life))];
        if (bytes == TN_SIZE_UNKNOWN || !tn__align_up(bytes, ESTIMATE_ALIGNMENT, &aligned) ||
            !tn__add(*part, bytes, part) || !tn__add(all, aligned, &all))
            TN_FAIL(it->error, TN_E_INVALID, "the weights have more than 2^64 bytes");
        if (bytes > it->made.largest_static) it->made.largest_static = bytes;
    }
    it->loaded = all;
    if (!it->inside) it->made.fixed = all;
    return TN_OK;
}

/* --- bodies under the policies --- */

static tn_status estimate_bodies(tn__estimator *it) {
    const tn_life *lives = tn_occupancy_lives(it->occupancy);
    bool start = it->options.alloc == TN_ALLOC_ON_START;
    bool exits = it->options.release == TN_RELEASE_ON_EXIT;
    it->body_count = tn_problem_count(it->problem);
    it->bodies = tn__arena_array(&it->arena, it->body_count, sizeof *it->bodies);
    if (it->bodies == NULL) return tn__no_memory(it->error, "buffers");
    for (tn_body_id b = 0; b < it->body_count; b++) {
        const tn_body *body = tn_problem_body(it->problem, b);
        it->bodies[b] = (estimate_body){.bytes = body->size,
                                        .first = start ? 0 : (uint32_t)body->first,
                                        .last = exits ? it->steps : (uint32_t)body->last,
                                        .part = TN_PART_COUNT};
    }
    for (uint32_t i = 0; i < tn_occupancy_life_count(it->occupancy); i++) {
        estimate_body *body = &it->bodies[lives[i].body];
        if (body->part != TN_PART_COUNT) continue;
        body->part = tn__part_of(tn_life_kind(it->graph, &lives[i]));
    }
    for (tn_body_id b = 0; b < it->body_count; b++)
        if (it->bodies[b].part == TN_PART_COUNT) it->bodies[b].part = TN_PART_ACTIVATIONS;
    return TN_OK;
}

/* --- the planned arena --- */

static bool estimate_keeps_lives(const tn__estimator *it) {
    return it->options.alloc == TN_ALLOC_ON_DEMAND && it->options.release == TN_RELEASE_ON_DEATH;
}

static tn_status estimate_live(tn__estimator *it, uint64_t (*live)[TN_PART_COUNT]) {
    if (estimate_keeps_lives(it)) {
        uint64_t(*kinds)[TN_KIND_COUNT] =
            tn__arena_array(&it->arena, (size_t)it->steps + 1, sizeof *kinds);
        if (kinds == NULL) return tn__no_memory(it->error, "live bytes");
        TN_TRY(tn_occupancy_live(it->occupancy, kinds, it->error));
        for (uint32_t s = 0; s < it->steps; s++)
            for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++)
                live[s][tn__part_of((tn_kind)kind)] += kinds[s][kind];
        return TN_OK;
    }
    for (uint32_t b = 0; b < it->body_count; b++) /* differences, summed below */
        for (uint32_t edge = 0; edge < 2; edge++) {
            uint32_t step = edge == 0 ? it->bodies[b].first : it->bodies[b].last;
            uint64_t *at = &live[step][it->bodies[b].part];
            *at = edge == 0 ? *at + it->bodies[b].bytes : *at - it->bodies[b].bytes;
        }
    for (uint32_t s = 1; s < it->steps; s++)
        for (uint32_t part = 0; part < TN_PART_COUNT; part++) live[s][part] += live[s - 1][part];
    return TN_OK;
}

/* Plans the same bodies with the live ranges under the policies. */
static tn_status estimate_plan_again(tn__estimator *it, uint64_t *arena) {
    tn_problem *problem = NULL;
    tn_layout layout = {0};
    tn_status status = tn_problem_create(&it->context, &problem, it->error);
    for (uint32_t b = 0; b < it->body_count && status == TN_OK; b++) {
        const tn_body *was = tn_problem_body(it->problem, b);
        if (was->size == 0) continue;
        tn_body body = {.size = was->size,
                        .first = it->bodies[b].first,
                        .last = it->bodies[b].last,
                        .alignment = was->alignment};
        status = tn_problem_add(problem, &body, NULL, it->error);
    }
    if (status == TN_OK) status = tn_plan(problem, it->options.plan, &layout, it->error);
    if (status == TN_OK) *arena = layout.peak;
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
    return status;
}

static tn_status estimate_arena(tn__estimator *it, uint64_t *arena) {
    tn_layout layout = {0};
    if (!estimate_keeps_lives(it)) return estimate_plan_again(it, arena);
    if (it->options.layout != NULL) {
        *arena = it->options.layout->peak;
        return TN_OK;
    }
    TN_TRY(tn_plan(it->problem, it->options.plan, &layout, it->error));
    *arena = layout.peak;
    tn_layout_release(&layout);
    return TN_OK;
}

static tn_status estimate_plan(tn__estimator *it) {
    tn_estimate *made = &it->made;
    uint64_t base = tn__add_sat(made->fixed, it->options.runtime), most = 0;
    uint64_t(*live)[TN_PART_COUNT] =
        tn__arena_array(&it->arena, (size_t)it->steps + 1, sizeof *live);
    if (live == NULL) return tn__no_memory(it->error, "live bytes");
    TN_TRY(estimate_arena(it, &made->arena));
    TN_TRY(estimate_live(it, live));
    uint64_t loaded = it->inside ? it->loaded : 0; /* above the base, before any instruction runs */
    const uint64_t none[TN_PART_COUNT] = {0};
    tn__estimator_seen(it, TN_PHASE_LOAD, tn__add_sat(base, loaded), it->inside ? it->fixed : none,
                       0, 0);
    for (uint32_t s = 0; s < it->steps; s++) {
        uint64_t sum = base;
        for (uint32_t part = 0; part < TN_PART_COUNT; part++) sum = tn__add_sat(sum, live[s][part]);
        tn__estimator_seen(it, (tn_phase)it->phase[s], sum, live[s], s, 0);
        tn__estimator_seen(it, TN_PHASE_LATER_STEPS, sum, live[s], s, 1);
    }
    most = made->total;
    uint64_t listed = it->options.runtime;
    for (uint32_t part = 0; part < TN_PART_COUNT; part++) {
        if (!it->inside) made->part[part] = tn__add_sat(made->part[part], it->fixed[part]);
        listed = tn__add_sat(listed, made->part[part]);
    }
    made->part[TN_PART_RUNTIME] = it->options.runtime;
    made->total = tn__add_sat(base, made->arena); /* the arena is allocated whole */
    made->part[TN_PART_OVERHEAD] += made->total - listed;
    made->phase[TN_PHASE_CHECKPOINT] = tn__add_sat(tn__add_sat(base, loaded), made->largest_static);
    tn_assert(made->total >= most);
    (void)most;
    return TN_OK;
}

/* --- all of it --- */

static tn_status estimate_make(tn__estimator *it) {
    const tn_instruction *instructions = tn_program_instructions(it->program);
    for (uint32_t phase = 0; phase < TN_PHASE_COUNT; phase++)
        it->made.phase[phase] = TN_SIZE_UNKNOWN;
    TN_TRY(estimate_statics(it));
    it->phase = tn__arena_array(&it->arena, it->steps, 1);
    if (it->phase == NULL) return tn__no_memory(it->error, "phases");
    tn__phases_of(it->program, it->phase);
    TN_TRY(estimate_bodies(it));
    TN_TRY(it->options.pool != NULL ? tn__estimator_serve(it) : estimate_plan(it));
    it->made.peak_op =
        it->made.peak_step < it->steps ? instructions[it->made.peak_step].op : TN_NONE;
    return TN_OK;
}

tn_status tn_estimate_make(const tn_occupancy *occupancy, const tn_estimate_options *options,
                           tn_estimate *estimate, tn_error *error) {
    tn__estimator it = {.occupancy = occupancy,
                        .program = tn_occupancy_program(occupancy),
                        .problem = tn_occupancy_problem(occupancy),
                        .options = TN_ESTIMATE_OPTIONS_INIT,
                        .error = error};
    tn__options(&it.options, sizeof it.options, options);
    it.context = tn__context(it.options.context);
    it.graph = tn_program_graph(it.program);
    it.steps = tn_program_count(it.program);
    tn__arena_init(&it.arena, &it.context);
    tn_status status = estimate_make(&it);
    tn__arena_release(&it.arena);
    if (status == TN_OK) *estimate = it.made;
    return status;
}
