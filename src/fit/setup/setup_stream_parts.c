/* setup_stream_parts.c - splits operators whose weights alone are too large for the budget.
 *
 * Streaming whole weights needs at least the memory of the operator with the largest weights: an
 * embedding table, or the last projection of a language model. If such an operator is split along
 * the axis of its result that its weights depend on, each part reads a slice of the weights. Slices
 * are forms like any other, kept in a file. Parts are made so small that two slices fit into the
 * room that the other live tensors leave, so that one is read while the other is used. If the
 * resulting plan still exceeds the budget, more operators are split into more parts.
 * Cost: that of a few set-ups.
 */
#include "fit/setup/setup.h"
#include "graph/tiles/split.h"

#include <tenure/trace.h>

#define PARTS_ROUNDS 6u
#define PARTS_MOST 64u
#define PARTS_STALL 20u /* improve a plan only if it stalls for more than 1/20 of its time */
#define PARTS_SMALL 4u  /* for the improvement, weights above 1/4 of the budget are large */
/* smaller weights than 1/16 of the limit are not the reason that a plan does not fit */
#define PARTS_SHARE 16u

typedef struct parts_state {
    const tn_setup *whole;
    const tn_graph *graph;
    tn__refusal *refusal; /* of the last attempt */
    tn__arena arena;
    uint64_t *live;    /* [steps] live bytes without static memory */
    uint64_t *weights; /* [operators] bytes of the static memory that it reads */
    tn_split_region *regions;
    uint32_t count;
} parts_state;

static tn_status parts_live(parts_state *state, tn_error *error) {
    const tn_occupancy *occupancy = tn_setup_occupancy(state->whole);
    uint32_t steps = tn_program_count(tn_setup_program(state->whole));
    uint64_t(*kinds)[TN_KIND_COUNT] = tn__arena_array(&state->arena, steps, sizeof *kinds);
    state->live = tn__arena_array(&state->arena, steps, sizeof *state->live);
    if (kinds == NULL || state->live == NULL) return tn__no_memory(error, "operators in parts");
    TN_TRY(tn_occupancy_live(occupancy, kinds, error));
    for (uint32_t s = 0; s < steps; s++)
        for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++)
            state->live[s] = tn__add_sat(state->live[s], kinds[s][kind]);
    return TN_OK;
}

/* Bytes as in the graph: packed forms are about as large. */
static tn_status parts_weights(parts_state *state, tn_error *error) {
    uint32_t ops = tn_graph_op_count(state->graph);
    state->weights = tn__arena_array(&state->arena, ops, sizeof *state->weights);
    state->regions = tn__arena_array(&state->arena, ops, sizeof *state->regions);
    if (state->weights == NULL || state->regions == NULL)
        return tn__no_memory(error, "operators in parts");
    for (tn_op_id id = 0; id < ops; id++) {
        const tn_op *op = tn_graph_op(state->graph, id);
        for (uint32_t i = 0; i < op->input_count; i++) {
            if (op->inputs[i] == TN_NONE) continue;
            const tn_tensor *input = tn_graph_tensor(state->graph, op->inputs[i]);
            if (tn_tensor_is_constant(input) && input->bytes != TN_SIZE_UNKNOWN)
                state->weights[id] = tn__add_sat(state->weights[id], input->bytes);
        }
    }
    return TN_OK;
}

/* The input of an operator that holds most of its weights. */
static uint32_t parts_largest(const parts_state *state, const tn_op *op) {
    uint32_t largest = TN_NONE;
    uint64_t most = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE) continue;
        const tn_tensor *input = tn_graph_tensor(state->graph, op->inputs[i]);
        if (!tn_tensor_is_constant(input) || input->bytes <= most) continue;
        most = input->bytes;
        largest = i;
    }
    return largest;
}

/* The last axis of the result that splits the weights too; false: no axis does. */
static bool parts_axis(const parts_state *state, tn_op_id id, uint32_t *axis) {
    const tn_op *op = tn_graph_op(state->graph, id);
    uint32_t input = parts_largest(state, op);
    if (op->output_count == 0 || op->outputs[0] == TN_NONE || input == TN_NONE) return false;
    const tn_tensor *y = tn_graph_tensor(state->graph, op->outputs[0]);
    if (y->rank == TN_RANK_UNKNOWN) return false;
    for (uint32_t a = y->rank; a-- > 0;) {
        tn__tile part = {a, 0, y->shape[a]};
        tn__need need;
        if (y->shape[a] < 2 || !tn__op_splits(state->graph, id, a) ||
            !tn__op_split(state->graph, id, &part, input, &need) || need.axis == TN_NONE)
            continue;
        *axis = a;
        return true;
    }
    return false;
}

static void parts_cut(parts_state *state, tn_op_id id, uint64_t room) {
    tn_split_region region = {.first = id, .last = id, .slices = true};
    tn_graph *tried;
    tn_error unused;
    if (!parts_axis(state, id, &region.axes[0])) return;
    const tn_op *op = tn_graph_op(state->graph, id);
    uint64_t extent =
        (uint64_t)tn_graph_tensor(state->graph, op->outputs[0])->shape[region.axes[0]];
    uint64_t parts = room > 0 ? 2 * (state->weights[id] / room + 1) : PARTS_MOST;
    if (parts > PARTS_MOST) parts = PARTS_MOST;
    region.parts[0] = (uint32_t)(parts < extent ? parts : extent);
    if (tn_graph_split(state->graph, &region, 1, &state->whole->context, &tried, &unused) != TN_OK)
        return;
    tn_graph_destroy(tried);
    state->regions[state->count++] = region;
}

/* Chooses the operators whose weights exceed the room that other live tensors leave below the
 * limit. If these leave no room, slices of weights do not help; small weights are left whole. */
static void parts_choose(parts_state *state, uint64_t limit) {
    const tn_program *program = tn_setup_program(state->whole);
    const tn_instruction *list = tn_program_instructions(program);
    state->count = 0;
    for (uint32_t s = 0; s < tn_program_count(program); s++) {
        if (list[s].opcode != TN_APPLY || list[s].again) continue;
        uint64_t room = limit > state->live[s] ? limit - state->live[s] : 0;
        uint64_t weights = state->weights[list[s].op];
        if (weights > room && room > 0 && weights > limit / PARTS_SHARE)
            parts_cut(state, list[s].op, room);
    }
}

static tn_status parts_try(const parts_state *state, const tn_setup_options *asked,
                           tn_setup **setup, tn_error *error) {
    tn_setup_options options = *asked;
    tn_setup_split split = {.regions = state->regions, .region_count = state->count};
    const tn_graph *given = state->whole->given;
    if (state->count == 0)
        return tn__setup_make(given, state->whole, TN_SETUP_STREAM, asked, setup, state->refusal,
                              error);
    if (asked->costs != NULL || asked->given_kernels != NULL || asked->given_program != NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "operators in parts: costs, kernels or a program that are given are of the whole "
                "graph");
    options.split = &split;
    TN_TRY(tn__setup_make(given, NULL, TN_SETUP_REWRITE, &options, setup, state->refusal, error));
    tn__setup_part *part = (*setup)->parts[PART_GRAPH];
    part->split.whole_arena = tn_setup_need(state->whole).arena;
    part->split.whole_total = tn_setup_need(state->whole).total;
    return TN_OK;
}

static tn_status parts_search(parts_state *state, const tn_setup_options *options, tn_setup **setup,
                              tn_error *error) {
    uint64_t limit = options->stream->budget;
    uint32_t before = TN_NONE;
    tn_status status = TN_E_EXHAUSTED;
    TN_TRY(parts_live(state, error));
    TN_TRY(parts_weights(state, error));
    for (uint32_t round = 0; round < PARTS_ROUNDS && status == TN_E_EXHAUSTED; round++) {
        parts_choose(state, limit);
        limit -= limit / 4;
        if (state->count == before && state->count == 0) continue; /* the same attempt as before */
        before = state->count;
        status = parts_try(state, options, setup, error);
    }
    return status;
}

/* If a run stalls for files, splitting large weights may leave more room for resident ones: keep
 * the plan with the shorter predicted time. Any failure here keeps the first plan. */
static void parts_improve(parts_state *state, const tn_setup_options *options, tn_setup **setup) {
    const tn_stream_result *streamed = tn_setup_streamed(*setup), *other;
    uint32_t before = state->count;
    tn_setup *tried;
    tn_error unused;
    if (streamed == NULL || streamed->stall < streamed->time / PARTS_STALL) return;
    parts_choose(state, options->stream->budget / PARTS_SMALL);
    if (state->count == 0 || state->count == before) return;
    if (parts_try(state, options, &tried, &unused) != TN_OK) return;
    other = tn_setup_streamed(tried);
    bool better = other != NULL && other->time < streamed->time;
    tn_setup_destroy(better ? *setup : tried);
    if (better) *setup = tried;
}

tn_status tn__setup_streamed_parts(const tn_setup *whole, const tn_setup_options *options,
                                   tn_setup **setup, tn__refusal *refusal, tn_error *error) {
    parts_state state = {.whole = whole, .graph = tn_setup_graph(whole), .refusal = refusal};
    tn__arena_init(&state.arena, &whole->context);
    tn_status status = parts_search(&state, options, setup, error);
    if (status == TN_OK) parts_improve(&state, options, setup);
    tn__arena_release(&state.arena);
    return status;
}
