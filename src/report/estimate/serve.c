/* serve.c - runs a pool on the requests of a program, to estimate what a run would reserve.
 *
 * The requests are those of the engine: static memory first, one long-lived block each; then at
 * each step the buffers that ended are freed and those that begin are allocated, in the order of
 * the problem's bodies; at the end of a run the remaining buffers are freed. A pool decides only by
 * earlier requests, so the same requests give the same blocks, and the estimate equals what a run
 * reserves. There are two runs, because the second begins with a used pool.
 * Cost: O(steps x blocks) for the measuring, O(log n) a request.
 */
#include <tenure/pool.h>

#include "base/lists.h"
#include "report/estimate/estimator.h"

typedef struct serve_state {
    tn__estimator *it;
    tn_pool *pool;
    uint64_t *blocks;             /* [bodies] ids */
    uint8_t *held;                /* [bodies] */
    tn__lists begins, ends;       /* [steps + 1] bodies, by number */
    uint64_t part[TN_PART_COUNT]; /* requested now */
} serve_state;

static void serve_fill_begins(void *self, tn__lists *begins) {
    const tn__estimator *it = self;
    for (uint32_t b = 0; b < it->body_count; b++) tn__lists_add(begins, it->bodies[b].first, b);
}

static void serve_fill_ends(void *self, tn__lists *ends) {
    const tn__estimator *it = self;
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
    tn__estimator_seen(state->it, phase, total, part, step, run);
}

/* Static memory; with late optimizer state, only that or only the rest. */
static tn_status serve_statics(serve_state *state, bool late) {
    tn__estimator *it = state->it;
    for (uint32_t i = 0; i < it->static_count; i++) {
        tn_part part = tn__part_of(tn_graph_tensor(it->graph, it->statics[i].tensor)->kind);
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
    tn__estimator *it = state->it;
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
            if (state->held[b]) continue; /* from an earlier run, and never released */
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
    tn__estimator *it = state->it;
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

tn_status tn__estimator_serve(tn__estimator *it) {
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
