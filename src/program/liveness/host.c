/* host.c - describes the host memory that a program's swaps need, as a Problem.
 *
 * The host uses the same model as the device: a copy is a live range that SWAP_OUT defines and
 * SWAP_IN uses, and a host buffer that several tensors use in turn is one buffer of the problem. So
 * streams, clocks and intervals have the same meaning as for the device (occupancy.c, liveness.c).
 */
#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "program/liveness/liveness.h"

typedef struct host_state {
    liveness_state liveness;
    const tn_instruction *list;
    uint32_t steps;
    /* [tensors + steps + 1] for each host buffer: its newest live range, or RANGE_NONE */
    uint32_t *newest;
    /* [tensors + steps + 1] for each host buffer: its first live range; the tensor of that range
     * names the buffer in the problem */
    uint32_t *opened;
    uint32_t *range; /* [steps] for each swap: the live range that it defines or uses */
} host_state;

static uint32_t *host_at(const host_state *state, uint32_t *table, const tn_instruction *it) {
    uint32_t tensors = tn_graph_tensor_count(state->liveness.graph);
    return &table[it->slot == 0 ? it->tensor : tensors + it->slot];
}

static bool host_is_static(const host_state *state, tn_tensor_id tensor) {
    return tn_tensor_is_static(tn_graph_tensor(state->liveness.graph, tensor));
}

/* --- live ranges --- */

/* Opens a live range in host memory. For a static tensor it may begin before the program and end
 * after it. */
static tn_status host_begin(host_state *state, const tn_instruction *it, uint32_t step) {
    liveness_state *liveness = &state->liveness;
    const tn_tensor *tensor = tn_graph_tensor(liveness->graph, it->tensor);
    uint32_t *newest = host_at(state, state->newest, it), *opened;
    bool always = host_is_static(state, it->tensor);
    if (always && *newest != RANGE_NONE && it->slot == 0) return TN_OK;
    if (tensor->bytes == TN_SIZE_UNKNOWN)
        return tn__where(liveness->error,
                         tn__fail(liveness->error, TN_E_UNKNOWN, "its size is not known"),
                         "tensor '%.80s'", tensor->name);
    if (!tn__reserve(liveness->context, &liveness->ranges, &liveness->room, liveness->count + 1,
                     sizeof *liveness->ranges))
        return tn__no_memory(liveness->error, "copies on the host");
    uint32_t id = (uint32_t)liveness->count++;
    opened = host_at(state, state->opened, it);
    if (*opened == RANGE_NONE || it->slot == 0) *opened = id;
    *newest = id;
    liveness->ranges[id] = (live_range){.tensor = it->tensor,
                                        .op = TN_NONE,
                                        .output = RANGE_NONE,
                                        .first = always ? 0 : step,
                                        .last = always ? state->steps : step + 1,
                                        .newest = RANGE_NONE,
                                        .bytes = tensor->bytes,
                                        .source = RANGE_NONE,
                                        .earlier = RANGE_NONE,
                                        .is_static = always,
                                        .root = *opened,
                                        .hi = tensor->bytes,
                                        .taken = RANGE_NONE};
    return TN_OK;
}

/* The last step that needs a host copy. A copy that was made outside a loop is read in every
 * iteration, so it is needed until the loop ends. */
static uint32_t host_until(const host_state *state, uint32_t out, uint32_t step) {
    const tn_program *program = state->liveness.program;
    const tn_region *regions = tn_program_regions(program);
    uint32_t until = step;
    for (uint32_t r = 0; r < tn_program_region_count(program); r++) {
        bool inside = regions[r].first <= step && step < regions[r].last;
        bool outside = out < regions[r].first || out >= regions[r].last;
        if (regions[r].repeats && inside && outside && regions[r].last > until)
            until = regions[r].last;
    }
    return until;
}

static tn_status host_swap(host_state *state, uint32_t step) {
    const tn_instruction *it = &state->list[step];
    bool out = tn_opcode_facts_of(it->opcode)->link == TN_LINK_TO_HOST;
    uint32_t *newest = host_at(state, state->newest, it);
    if (out || *newest == RANGE_NONE) TN_TRY(host_begin(state, it, step));
    state->range[step] = *newest;
    const live_range *range = &state->liveness.ranges[*newest];
    if (out || range->is_static) return TN_OK;
    return tn__liveness_need(&state->liveness, *newest, host_until(state, range->first, step));
}

/* --- entry points --- */

static bool host_room(host_state *state) {
    liveness_state *liveness = &state->liveness;
    size_t buffers = (size_t)tn_graph_tensor_count(liveness->graph) + state->steps + 1;
    if (!(state->newest = tn__arena_array(&liveness->scratch, buffers, sizeof *state->newest)) ||
        !(state->opened = tn__arena_array(&liveness->scratch, buffers, sizeof *state->opened)) ||
        !(state->range = tn__arena_array(&liveness->scratch, state->steps, sizeof *state->range)))
        return false;
    memset(state->newest, 0xff, buffers * sizeof *state->newest);
    memset(state->opened, 0xff, buffers * sizeof *state->opened);
    memset(state->range, 0xff, state->steps * sizeof *state->range);
    return true;
}

static tn_status host_find(host_state *state, tn_host *made) {
    liveness_state *liveness = &state->liveness;
    if (!host_room(state)) return tn__no_memory(liveness->error, "copies on the host");
    for (uint32_t step = 0; step < state->steps; step++)
        if (tn_opcode_facts_of(state->list[step].opcode)->flags & TN_USES_SLOT)
            TN_TRY(host_swap(state, step));
    TN_TRY(tn__liveness_straighten(liveness));
    uint32_t *buffer_of = tn__arena_array(&liveness->scratch, liveness->count, sizeof *buffer_of);
    made->body = tn__alloc_array(liveness->context, (size_t)state->steps + 1, sizeof *made->body);
    if (buffer_of == NULL || made->body == NULL)
        return tn__no_memory(liveness->error, "copies on the host");
    TN_TRY(tn__buffers_problem(liveness, made->problem, buffer_of));
    for (uint32_t step = 0; step < state->steps; step++)
        made->body[step] = state->range[step] == RANGE_NONE
                               ? TN_NONE
                               : buffer_of[liveness->ranges[state->range[step]].root];
    for (size_t i = 0; i < liveness->count; i++)
        made->copied = tn__add_sat(made->copied, liveness->ranges[i].bytes);
    return TN_OK;
}

tn_status tn_program_host(const tn_program *program, uint64_t alignment, tn_host *host,
                          tn_error *error) {
    const tn_context *context = &program->context;
    tn_host made = {.context = *context, .count = tn_program_count(program)};
    host_state state = {
        .list = tn_program_instructions(program),
        .steps = made.count,
        .liveness = {
            .program = program, .graph = program->graph, .context = context, .error = error}};
    liveness_state *liveness = &state.liveness;
    tn_occupancy_options options = TN_OCCUPANCY_OPTIONS_INIT;
    options.alignment = alignment;
    TN_TRY(tn__occupancy_options(&options, &liveness->options, error));
    tn__happens happens = {0};
    tn__arena_init(&liveness->scratch, context);
    tn_status status = tn_problem_create(context, &made.problem, error);
    if (status == TN_OK) status = tn__liveness_order(liveness, &happens);
    if (status == TN_OK) status = host_find(&state, &made);
    tn__happens_release(&happens);
    tn__free(context, liveness->ranges, liveness->room * sizeof *liveness->ranges);
    tn__free(context, liveness->uses.items, liveness->uses.room * sizeof *liveness->uses.items);
    tn__arena_release(&liveness->scratch);
    if (status != TN_OK)
        tn_host_release(&made);
    else
        *host = made;
    return status;
}

void tn_host_release(tn_host *host) {
    if (host == NULL) return;
    /* the problem is NULL if ownership has moved to the caller */
    tn_problem_destroy(host->problem);
    if (host->body != NULL)
        tn__free(&host->context, host->body, ((size_t)host->count + 1) * sizeof *host->body);
    *host = (tn_host){0};
}
