/* setup_stream.c - the stage STREAM: if the plan exceeds the budget, weights are read from their
 * file when needed.
 *
 * The stage changes the existing program and keeps the kernels; tensors and operators keep their
 * ids. Static memory then lies in the arena, so that a single peak covers all memory.
 *
 * Cost: that of a plan; if the plan exceeds the budget, that of tn_costs_measure and
 * tn_program_stream. With options->stream->parts, the stage is tried on several graphs with
 * operators in tiles (second section).
 */
#include "fit/budget/weight_streaming.h"

#include <tenure/engine.h>
#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "fit/setup/setup.h"
#include "graph/tiles/split.h"

/* --- stage STREAM ----------------------------------------------------------------------------- */

/* Moves a result into a compiled model. It replaces the program, and the parts of all later
 * stages. */
static tn_status streamed_take(tn_setup *setup, tn_stream_result *result, tn_error *error) {
    tn__setup_part *stream, *occupancy, *layout;
    for (int kind = PART_STREAM; kind < PART_COUNT; kind++)
        /* parts of later stages belong to the old program, so they are released */
        tn__setup_part_release(setup, kind);
    tn_status status = tn__setup_part_make(setup, PART_STREAM, &stream, error);
    if (status != TN_OK) {
        tn_stream_release(result);
        return status;
    }
    stream->streamed = *result;
    TN_TRY(tn__setup_part_make(setup, PART_OCCUPANCY, &occupancy, error));
    occupancy->occupancy = stream->streamed.occupancy;
    stream->streamed.occupancy = NULL;
    TN_TRY(tn__setup_part_make(setup, PART_LAYOUT, &layout, error));
    layout->layout = stream->streamed.layout;
    stream->streamed.layout = (tn_layout){0};
    return tn__setup_count_statics(setup, stream->streamed.program, true, error);
}

static tn_status streamed_may(const tn_setup *setup, const tn__setup_statics *statics,
                              uint8_t **may, tn_error *error) {
    *may = tn__alloc_array(&setup->context, (size_t)statics->count + 1, 1);
    if (*may == NULL) return tn__no_memory(error, "static memory");
    const tn_kernels *kernels = tn_setup_kernels(setup);
    if (kernels == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED, "weights are streamed for kernels: there are none here");
    if (!tn_engine_may_fetch(tn_setup_program(setup), kernels, statics->blocks, statics->count,
                             *may))
        return tn__no_memory(error, "static memory");
    return TN_OK;
}

/* Checks with costs from default rates whether streaming can succeed at all, because measuring
 * takes seconds. */
static tn_status streamed_probe(const tn_setup *setup, const tn_stream_options *stream,
                                tn__refusal *refusal, tn_error *error) {
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    tn_stream_result result;
    tn_costs *costs;
    model.context = &setup->context;
    TN_TRY(tn_costs_create_model(tn_setup_graph(setup), &model, &costs, error));
    tn_status status =
        tn__stream_seek(tn_setup_program(setup), costs, stream, &result, refusal, error);
    tn_stream_release(&result);
    tn_costs_destroy(costs);
    return status;
}

static tn_status streamed_run(tn_setup *setup, const tn_setup_options *options,
                              tn__refusal *refusal, tn_error *error) {
    const tn__setup_statics *statics = &setup->parts[PART_STATICS]->statics;
    tn_occupancy_options memory = tn__setup_memory(setup, options);
    tn_plan_options plan = tn__setup_plan_options(setup, options);
    tn_stream_options stream = TN_STREAM_OPTIONS_INIT;
    tn_stream_result result = {0};
    uint8_t *may = NULL;
    tn_costs *made = NULL;
    tn_status status = streamed_may(setup, statics, &may, error);
    stream.context = &setup->context;
    stream.budget = options->stream->budget;
    stream.blocks = statics->blocks;
    stream.block_count = statics->count;
    stream.may = may;
    stream.bytes_per_s = options->stream->bytes_per_s;
    stream.latency_s = options->stream->latency_s;
    stream.memory = &memory;
    stream.plan = &plan;
    if (status == TN_OK && options->costs == NULL)
        status = streamed_probe(setup, &stream, refusal, error);
    if (status == TN_OK) status = tn__setup_costs(setup, options, &made, error);
    if (status == TN_OK)
        status = tn__stream_seek(tn_setup_program(setup), made != NULL ? made : options->costs,
                                 &stream, &result, refusal, error);
    tn_costs_destroy(made);
    tn__free(&setup->context, may, (size_t)statics->count + 1);
    if (status != TN_OK) {
        tn_stream_release(&result);
        return status;
    }
    return streamed_take(setup, &result, error);
}

tn_status tn__setup_stream(tn_setup *setup, const tn_setup_options *options, tn_error *error) {
    tn__refusal refusal = {0};
    if (options->stream == NULL || options->unplanned || options->without_reuse) return TN_OK;
    if (options->divide != NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED, "weights are not streamed to several ranks");
    TN_TRY(tn__setup_occupy(setup, options, error));
    TN_TRY(tn__setup_plan(setup, options, error));
    if (tn_setup_need(setup).total <= options->stream->budget) return TN_OK;
    tn_status status = streamed_run(setup, options, &refusal, error);
    if (setup->refusal == NULL) return tn__refusal_fail(&refusal, status, error);
    *setup->refusal = refusal;
    return status;
}

/* --- operators in tiles, so that their weights fit -------------------------------------------- */

/* Puts operators into tiles if their weights alone are too large for the budget.
 *
 * Streaming whole weights needs at least the memory of the operator with the largest weights, such
 * as an embedding table or the last projection of a language model. If such an operator is split
 * along an axis of its result that also divides the weights, each tile reads only a slice of the
 * weights. Slices are stored in a file like other forms of weights. Tiles are made so small that
 * two slices fit into the memory that other live tensors leave free, so that one can be read while
 * the other is used. If the resulting plan still exceeds the budget, more operators are split into
 * more tiles. Cost: that of a few compilations.
 */

#define PARTS_ROUNDS 6u
#define PARTS_MOST 64u
#define PARTS_STALL 20u /* a plan is improved only if it stalls for more than 1/20 of its time */
#define PARTS_SMALL 4u  /* for the improvement, weights of more than 1/4 of the budget are large */
/* weights of less than 1/16 of the limit are not the reason that a plan does not fit */
#define PARTS_SHARE 16u

typedef struct stream_tiles {
    const tn_setup *whole;
    const tn_graph *graph;
    tn__refusal *refusal; /* facts about the last attempt if it was refused */
    tn__arena arena;
    uint64_t *live;    /* [steps] live bytes without static memory */
    uint64_t *weights; /* [operators] bytes of the static memory that the operator reads */
    tn_split_region *regions;
    uint32_t count;
} stream_tiles;

static tn_status parts_live(stream_tiles *state, tn_error *error) {
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

/* Counts the weights of each operator, in bytes as in the graph; packed forms are about as
 * large. */
static tn_status parts_weights(stream_tiles *state, tn_error *error) {
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

/* Returns the number of the largest weight among the inputs of an operator; TN_NONE if it has no
 * weights. */
static uint32_t parts_largest(const stream_tiles *state, const tn_op *op) {
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

/* Finds the last axis of the result along which a tile needs only a slice of the weights. Returns
 * false if there is no such axis. */
static bool parts_axis(const stream_tiles *state, tn_op_id id, uint32_t *axis) {
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

static void parts_cut(stream_tiles *state, tn_op_id id, uint64_t room) {
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

/* Chooses the operators with weights that exceed the memory that other live tensors leave free
 * below the limit. If no memory is left free, slices of weights do not help. Small weights are not
 * split. */
static void parts_choose(stream_tiles *state, uint64_t limit) {
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

static tn_status parts_try(const stream_tiles *state, const tn_setup_options *asked,
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

static tn_status parts_search(stream_tiles *state, const tn_setup_options *options,
                              tn_setup **setup, tn_error *error) {
    uint64_t limit = options->stream->budget;
    uint32_t before = TN_NONE;
    tn_status status = TN_E_EXHAUSTED;
    TN_TRY(parts_live(state, error));
    TN_TRY(parts_weights(state, error));
    for (uint32_t round = 0; round < PARTS_ROUNDS && status == TN_E_EXHAUSTED; round++) {
        parts_choose(state, limit);
        limit -= limit / 4;
        /* no operator is to be split, as in the previous attempt, so this attempt would equal it */
        if (state->count == before && state->count == 0) continue;
        before = state->count;
        status = parts_try(state, options, setup, error);
    }
    return status;
}

/* Improves a plan in which compute waits for file reads: splitting large weights may leave more
 * memory for weights that stay. The plan with the shorter predicted time is kept; if anything fails
 * here, the first one. */
static void parts_improve(stream_tiles *state, const tn_setup_options *options, tn_setup **setup) {
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

/* Streams weights with operators in tiles, as far as their weights are too large. */
static tn_status setup_streamed_parts(const tn_setup *whole, const tn_setup_options *options,
                                      tn_setup **setup, tn__refusal *refusal, tn_error *error) {
    stream_tiles state = {.whole = whole, .graph = tn_setup_graph(whole), .refusal = refusal};
    tn__arena_init(&state.arena, &whole->context);
    tn_status status = parts_search(&state, options, setup, error);
    if (status == TN_OK) parts_improve(&state, options, setup);
    tn__arena_release(&state.arena);
    return status;
}

tn_status tn__setup_streamed_from(const tn_setup *whole, const tn_setup_options *options,
                                  tn_setup **setup, tn__refusal *refusal, tn_error *error) {
    tn__refusal rows = {0};
    *refusal = (tn__refusal){0};
    TN_TRY(tn__setup_expert_cache(whole, options, setup, &rows, error));
    if (*setup != NULL) return TN_OK;
    tn_status status =
        options->stream->parts
            ? setup_streamed_parts(whole, options, setup, refusal, error)
            : tn__setup_make(whole->given, whole, TN_SETUP_STREAM, options, setup, refusal, error);
    /* with experts in a cache fewer bytes would have been enough, so these facts count */
    if (status != TN_OK && rows.step[0] != '\0') *refusal = rows;
    return status;
}
