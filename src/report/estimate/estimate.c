/* estimate.c - estimates the memory of a program: static memory, and an arena or a pool, by
 * category and by phase.
 *
 * The size of the arena is that of a plan, which is made by the planners that plan a run. A pool is
 * simulated with the requests of a run. The rest of this file finds which static tensors are in
 * memory, the live range of each buffer under each policy, and the phase of each instruction.
 *
 * Cost: that of planning, plus O(operands + n log n) for n live ranges.
 */
#include "report/estimate/phases.h"
#include "base/base.h"
#include "base/lists.h"
#include "program/program.h"
#include <tenure/pool.h>
#include <tenure/occupancy.h>
#include <tenure/program.h>

#include <string.h>

/* --- phases ----------------------------------------------------------------------------------- */

/* Finds the phase of a training step to which each instruction belongs.
 *
 * The backward pass begins with the first operator that defines a gradient. An operator that reads
 * a gradient and writes into a parameter or into the optimizer's state belongs to the update.
 * Graphs that were traced from PyTorch do not mark gradients; there the first operator
 * `..._backward` begins the backward pass. An instruction without an operator has the phase of the
 * instruction before it.
 */

static bool phases_is_update(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    uint64_t changes = tn_op_changes(graph, id);
    bool reads = false, writes = false;
    for (uint32_t i = 0; i < op->input_count && changes != 0; i++) {
        if (op->inputs[i] == TN_NONE) continue;
        const tn_tensor *tensor = tn_graph_tensor(graph, op->inputs[i]);
        bool changed = i < 64 && (changes >> i & 1);
        reads = reads || tensor->kind == TN_KIND_GRADIENT;
        writes = writes || (changed && (tensor->kind == TN_KIND_PARAMETER ||
                                        tensor->kind == TN_KIND_OPTIMIZER_STATE));
    }
    return reads && writes;
}

static bool phases_is_backward(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE &&
            tn_graph_tensor(graph, op->outputs[k])->kind == TN_KIND_GRADIENT)
            return true;
    return strcmp(op->domain, "aten") == 0 && strstr(op->type, "_backward") != NULL;
}

void tn__phases_of(const tn_program *program, uint8_t *phases) {
    const tn_graph *graph = tn_program_graph(program);
    const tn_instruction *instructions = tn_program_instructions(program);
    bool backward = false;
    for (uint32_t s = 0; s < tn_program_count(program); s++) {
        bool applies = instructions[s].opcode == TN_APPLY;
        bool update = applies && phases_is_update(graph, instructions[s].op);
        if (applies && !update && !backward)
            backward = phases_is_backward(graph, instructions[s].op);
        phases[s] = update ? TN_PHASE_UPDATE : backward ? TN_PHASE_BACKWARD : TN_PHASE_FORWARD;
    }
}

/* --- the state of one estimate ---------------------------------------------------------------- */

/* a buffer of the problem, with its live range under the policies (tn_estimate_options) */
typedef struct estimate_body {
    uint64_t bytes;
    uint32_t first, last; /* allocated in steps [first, last); if last == steps, until the end */
    tn_part part;         /* category of the buffer's first live range */
} estimate_body;

typedef struct estimator {
    tn_context context;
    const tn_occupancy *occupancy;
    const tn_program *program;
    const tn_graph *graph;
    const tn_problem *problem;
    tn_estimate_options options;
    tn_error *error;
    tn__arena arena; /* the arena that owns all arrays below */
    uint32_t steps, body_count, static_count;
    uint8_t *phase; /* [steps] the tn_phase of each step in the first run */
    estimate_body *bodies;
    tn_static_block *statics;      /* [static_count] the blocks of static memory */
    uint64_t fixed[TN_PART_COUNT]; /* requested bytes of static memory, by category */
    uint64_t loaded;               /* aligned bytes of all static memory */
    bool inside; /* true if static memory is in the arena, as buffers of the problem */
    tn_estimate made;
} estimator;

/* Returns the category of a kind of tensors. */
static tn_part estimate_part_of(tn_kind kind);
/* Records `total` as a value of a phase, which keeps its largest value. If it is the largest value
 * so far of any phase, it also becomes the total of the estimate. */
static void estimate_seen(estimator *it, tn_phase phase, uint64_t total,
                          const uint64_t part[TN_PART_COUNT], uint32_t step, uint32_t run);

/* --- simulating a pool ------------------------------------------------------------------------ */

/* Simulates a pool with the requests of a program, to find the bytes that a run would reserve.
 *
 * The requests are those of the engine. First static memory is requested, one long-lived block per
 * tensor. Then, at each step, the buffers that ended are freed and those that begin are allocated,
 * in the order of the problem's buffers. At the end of a run the remaining buffers are freed. The
 * decisions of a pool depend only on its earlier requests, so equal requests give equal blocks, and
 * the estimate equals what a run reserves. Two runs are simulated, because the second one begins
 * with a used pool. Cost: O(steps x blocks) for measuring, O(log n) for a request.
 */

typedef struct serve_state {
    estimator *it;
    tn_pool *pool;
    uint64_t *blocks; /* [bodies] ids of the blocks that the pool gave to the buffers */
    uint8_t *held;    /* [bodies] */
    /* [steps + 1] the buffers that begin at each step, and the buffers that end at each step */
    tn__lists begins, ends;
    uint64_t part[TN_PART_COUNT]; /* bytes that are requested at present, by category */
} serve_state;

static void serve_fill_begins(void *self, tn__lists *begins) {
    const estimator *it = self;
    for (uint32_t b = 0; b < it->body_count; b++) tn__lists_add(begins, it->bodies[b].first, b);
}

static void serve_fill_ends(void *self, tn__lists *ends) {
    const estimator *it = self;
    for (uint32_t b = 0; b < it->body_count; b++) tn__lists_add(ends, it->bodies[b].last, b);
}

static tn_status serve_take(serve_state *state, uint64_t bytes, uint32_t flags, tn_part part,
                            uint64_t *id) {
    tn_allocation block;
    tn_pool_request request = {.size = bytes, .flags = flags};
    TN_TRY(tn_pool_alloc(state->pool, &request, &block, state->it->error));
    state->part[part] += bytes;
    if (id != NULL) *id = block.id;
    return TN_OK;
}

static void serve_seen(serve_state *state, tn_phase phase, uint32_t step, uint32_t run) {
    tn_pool_usage usage;
    uint64_t part[TN_PART_COUNT];
    tn_pool_measure(state->pool, &usage);
    memcpy(part, state->part, sizeof part);
    part[TN_PART_OVERHEAD] = usage.reserved - usage.requested;
    part[TN_PART_RUNTIME] = state->it->options.runtime;
    uint64_t total = tn__add_sat(usage.reserved, state->it->options.runtime);
    estimate_seen(state->it, phase, total, part, step, run);
}

/* Requests static memory from the pool. With the policy late_state, the state of the optimizer is
 * requested by a later call with `late` true, and everything else by the call with `late` false. */
static tn_status serve_statics(serve_state *state, bool late) {
    estimator *it = state->it;
    for (uint32_t i = 0; i < it->static_count; i++) {
        tn_part part = estimate_part_of(tn_graph_tensor(it->graph, it->statics[i].tensor)->kind);
        bool is_late = it->options.late_state && part == TN_PART_OPTIMIZER_STATE;
        if (is_late != late) continue;
        TN_TRY(serve_take(state, it->statics[i].bytes, TN_POOL_LONG_LIVED, part, NULL));
    }
    return TN_OK;
}

static tn_status serve_free(serve_state *state, uint32_t b) {
    if (!state->held[b]) return TN_OK;
    state->held[b] = 0;
    state->part[state->it->bodies[b].part] -= state->it->bodies[b].bytes;
    return tn_pool_free(state->pool, state->blocks[b], state->it->error);
}

static tn_status serve_run(serve_state *state, uint32_t run) {
    estimator *it = state->it;
    bool late = it->options.late_state && run == 0;
    for (uint32_t s = 0; s < it->steps; s++) {
        for (uint32_t e = state->ends.first[s]; e < state->ends.first[s + 1]; e++)
            TN_TRY(serve_free(state, state->ends.items[e]));
        if (late && it->phase[s] == TN_PHASE_UPDATE) {
            TN_TRY(serve_statics(state, true));
            late = false;
        }
        for (uint32_t i = state->begins.first[s]; i < state->begins.first[s + 1]; i++) {
            uint32_t b = state->begins.items[i];
            /* a buffer that was allocated in an earlier run and not released since */
            if (state->held[b]) continue;
            TN_TRY(
                serve_take(state, it->bodies[b].bytes, 0, it->bodies[b].part, &state->blocks[b]));
            state->held[b] = 1;
        }
        serve_seen(state, run == 0 ? (tn_phase)it->phase[s] : TN_PHASE_LATER_STEPS, s, run);
    }
    bool exits = it->options.release == TN_RELEASE_ON_EXIT;
    for (uint32_t b = 0; b < it->body_count && !exits; b++) TN_TRY(serve_free(state, b));
    return TN_OK;
}

static tn_status serve_all(serve_state *state) {
    estimator *it = state->it;
    tn_pool_usage usage;
    TN_TRY(serve_statics(state, false));
    if (it->options.alloc == TN_ALLOC_ON_START && it->steps > 0)
        for (uint32_t i = 0; i < state->begins.first[1]; i++) {
            uint32_t b = state->begins.items[i];
            TN_TRY(
                serve_take(state, it->bodies[b].bytes, 0, it->bodies[b].part, &state->blocks[b]));
            state->held[b] = 1;
        }
    serve_seen(state, TN_PHASE_LOAD, 0, 0);
    TN_TRY(serve_run(state, 0));
    TN_TRY(serve_run(state, 1));
    tn_pool_measure(state->pool, &usage);
    it->made.arena = usage.reserved_peak;
    it->made.requested = usage.requested_peak;
    it->made.allocated = usage.allocated_peak;
    it->made.phase[TN_PHASE_CHECKPOINT] =
        tn__add_sat(tn__add_sat(usage.reserved, it->options.runtime), it->made.largest_static);
    return TN_OK;
}

static tn_status estimate_serve(estimator *it) {
    serve_state state = {.it = it};
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    if (tn_program_region_count(it->program) > 0)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "what a pool is asked for depends on which branch runs and how often loops turn; "
                "estimate this model without a pool");
    options.context = &it->context;
    options.pool = it->options.pool;
    options.capacity = it->options.pool_capacity;
    state.blocks = tn__arena_array(&it->arena, it->body_count, sizeof *state.blocks);
    state.held = tn__arena_array(&it->arena, it->body_count, sizeof *state.held);
    if (state.blocks == NULL || state.held == NULL ||
        !tn__lists_make(&state.begins, it->steps + 1, &it->arena, serve_fill_begins, it) ||
        !tn__lists_make(&state.ends, it->steps + 1, &it->arena, serve_fill_ends, it))
        return tn__no_memory(it->error, "the blocks of a run");
    TN_TRY(tn_pool_create(&options, &state.pool, it->error));
    tn_status status = serve_all(&state);
    tn_pool_destroy(state.pool);
    return status;
}

/* --- categories and phases of memory ---------------------------------------------------------- */

#define ESTIMATE_ALIGNMENT 64u /* alignment of static blocks, as in the engine */

static const char *const estimate_parts[] = {
#define TN_X(name, text) text,
    TN_PART_TABLE(TN_X)
#undef TN_X
};
static const struct {
    const char *name;
} estimate_phases[] = {
#define TN_X(name, text, meaning) {text},
    TN_PHASE_TABLE(TN_X)
#undef TN_X
};

const char *tn_part_name(tn_part part) {
    return (unsigned)part < TN_PART_COUNT ? estimate_parts[part] : "?";
}
const char *tn_phase_name(tn_phase phase) {
    return (unsigned)phase < TN_PHASE_COUNT ? estimate_phases[phase].name : "?";
}

static tn_part estimate_part_of(tn_kind kind) {
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

static void estimate_seen(estimator *it, tn_phase phase, uint64_t total,
                          const uint64_t part[TN_PART_COUNT], uint32_t step, uint32_t run) {
    tn_estimate *made = &it->made;
    if (made->phase[phase] == TN_SIZE_UNKNOWN || total > made->phase[phase])
        made->phase[phase] = total;
    if (total <= made->total) return;
    made->total = total;
    memcpy(made->part, part, TN_PART_COUNT * sizeof *part);
    made->peak_step = step;
    made->peak_run = run;
}

/* --- finding static memory --- */

/* Collects the static memory that is in the arena, as buffers of the occupancy. */
static tn_status estimate_inside(estimator *it) {
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

static tn_status estimate_find_statics(estimator *it) {
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

static tn_status estimate_statics(estimator *it) {
    uint64_t all = 0;
    TN_TRY(estimate_find_statics(it));
    for (uint32_t i = 0; i < it->static_count; i++) {
        const tn_life life = {.tensor = it->statics[i].tensor, .is_static = it->inside};
        uint64_t bytes = it->statics[i].bytes, aligned = 0;
        uint64_t *part = &it->fixed[estimate_part_of(tn_life_kind(it->graph, &life))];
        if (bytes == TN_SIZE_UNKNOWN || !tn__align_up(bytes, ESTIMATE_ALIGNMENT, &aligned) ||
            !tn__add(*part, bytes, part) || !tn__add(all, aligned, &all))
            TN_FAIL(it->error, TN_E_INVALID, "the weights have more than 2^64 bytes");
        if (bytes > it->made.largest_static) it->made.largest_static = bytes;
    }
    it->loaded = all;
    if (!it->inside) it->made.fixed = all;
    return TN_OK;
}

/* --- live ranges of buffers under the policies --- */

static tn_status estimate_bodies(estimator *it) {
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
        body->part = estimate_part_of(tn_life_kind(it->graph, &lives[i]));
    }
    for (tn_body_id b = 0; b < it->body_count; b++)
        if (it->bodies[b].part == TN_PART_COUNT) it->bodies[b].part = TN_PART_ACTIVATIONS;
    return TN_OK;
}

/* --- planning the arena --- */

static bool estimate_keeps_lives(const estimator *it) {
    return it->options.alloc == TN_ALLOC_ON_DEMAND && it->options.release == TN_RELEASE_ON_DEATH;
}

static tn_status estimate_live(estimator *it, uint64_t (*live)[TN_PART_COUNT]) {
    if (estimate_keeps_lives(it)) {
        uint64_t(*kinds)[TN_KIND_COUNT] =
            tn__arena_array(&it->arena, (size_t)it->steps + 1, sizeof *kinds);
        if (kinds == NULL) return tn__no_memory(it->error, "live bytes");
        TN_TRY(tn_occupancy_live(it->occupancy, kinds, it->error));
        for (uint32_t s = 0; s < it->steps; s++)
            for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++)
                live[s][estimate_part_of((tn_kind)kind)] += kinds[s][kind];
        return TN_OK;
    }
    /* stores differences between steps, which the next loop sums */
    for (uint32_t b = 0; b < it->body_count; b++)
        for (uint32_t edge = 0; edge < 2; edge++) {
            uint32_t step = edge == 0 ? it->bodies[b].first : it->bodies[b].last;
            uint64_t *at = &live[step][it->bodies[b].part];
            *at = edge == 0 ? *at + it->bodies[b].bytes : *at - it->bodies[b].bytes;
        }
    for (uint32_t s = 1; s < it->steps; s++)
        for (uint32_t part = 0; part < TN_PART_COUNT; part++) live[s][part] += live[s - 1][part];
    return TN_OK;
}

/* Plans the buffers with the live ranges that they have under the policies. */
static tn_status estimate_plan_again(estimator *it, uint64_t *arena) {
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

static tn_status estimate_arena(estimator *it, uint64_t *arena) {
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

static tn_status estimate_plan(estimator *it) {
    tn_estimate *made = &it->made;
    uint64_t base = tn__add_sat(made->fixed, it->options.runtime), most = 0;
    uint64_t(*live)[TN_PART_COUNT] =
        tn__arena_array(&it->arena, (size_t)it->steps + 1, sizeof *live);
    if (live == NULL) return tn__no_memory(it->error, "live bytes");
    TN_TRY(estimate_arena(it, &made->arena));
    TN_TRY(estimate_live(it, live));
    /* static memory in the arena is loaded before the first instruction */
    uint64_t loaded = it->inside ? it->loaded : 0;
    const uint64_t none[TN_PART_COUNT] = {0};
    estimate_seen(it, TN_PHASE_LOAD, tn__add_sat(base, loaded), it->inside ? it->fixed : none, 0,
                  0);
    for (uint32_t s = 0; s < it->steps; s++) {
        uint64_t sum = base;
        for (uint32_t part = 0; part < TN_PART_COUNT; part++) sum = tn__add_sat(sum, live[s][part]);
        estimate_seen(it, (tn_phase)it->phase[s], sum, live[s], s, 0);
        estimate_seen(it, TN_PHASE_LATER_STEPS, sum, live[s], s, 1);
    }
    most = made->total;
    uint64_t listed = it->options.runtime;
    for (uint32_t part = 0; part < TN_PART_COUNT; part++) {
        if (!it->inside) made->part[part] = tn__add_sat(made->part[part], it->fixed[part]);
        listed = tn__add_sat(listed, made->part[part]);
    }
    made->part[TN_PART_RUNTIME] = it->options.runtime;
    made->total = tn__add_sat(base, made->arena); /* the arena is allocated as a whole */
    made->part[TN_PART_OVERHEAD] += made->total - listed;
    made->phase[TN_PHASE_CHECKPOINT] = tn__add_sat(tn__add_sat(base, loaded), made->largest_static);
    tn_assert(made->total >= most);
    (void)most;
    return TN_OK;
}

/* --- the estimate as a whole --- */

static tn_status estimate_make(estimator *it) {
    const tn_instruction *instructions = tn_program_instructions(it->program);
    for (uint32_t phase = 0; phase < TN_PHASE_COUNT; phase++)
        it->made.phase[phase] = TN_SIZE_UNKNOWN;
    TN_TRY(estimate_statics(it));
    it->phase = tn__arena_array(&it->arena, it->steps, 1);
    if (it->phase == NULL) return tn__no_memory(it->error, "phases");
    tn__phases_of(it->program, it->phase);
    TN_TRY(estimate_bodies(it));
    TN_TRY(it->options.pool != NULL ? estimate_serve(it) : estimate_plan(it));
    it->made.peak_op =
        it->made.peak_step < it->steps ? instructions[it->made.peak_step].op : TN_NONE;
    return TN_OK;
}

tn_status tn_estimate_make(const tn_occupancy *occupancy, const tn_estimate_options *options,
                           tn_estimate *estimate, tn_error *error) {
    estimator it = {.occupancy = occupancy,
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
