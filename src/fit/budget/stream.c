/* stream.c - rounds of choice, program and layout, until the layout is within the budget.
 *
 * The choice counts live bytes. If holes make the layout larger than the budget, the next choice
 * gets a budget that is smaller by the excess. Cost: a choice, a program and a layout for each
 * round.
 */
#include "fit/budget/stream.h"

#include <tenure/fit.h>

#include <stdio.h>

#include "fit/budget/costs.h"

#define STREAM_ROUNDS 16u

/* --- one round --- */

static void stream_take(tn_stream_result *result, tn_stream_result *made) {
    uint32_t rounds = result->rounds;
    tn_stream_release(result);
    *result = *made;
    result->rounds = rounds;
    *made = (tn_stream_result){0};
}

static void stream_count(const tn__stream *stream, tn_stream_result *made) {
    made->fetches = stream->fetch_count;
    for (uint32_t f = 0; f < stream->fetch_count; f++)
        made->fetched_bytes =
            tn__add_sat(made->fetched_bytes, stream->blocks[stream->fetches[f].block].bytes);
    made->resident_bytes = stream->fixed;
    uint8_t *fetched = tn__alloc_array(stream->arena.context, (size_t)stream->block_count + 1, 1);
    for (uint32_t f = 0; f < stream->fetch_count && fetched != NULL; f++)
        fetched[stream->fetches[f].block] = 1;
    for (uint32_t b = 0; b < stream->block_count && fetched != NULL; b++) {
        made->residents += !fetched[b];
        if (stream->stays[b]) made->resident_bytes += stream->bytes[b];
    }
    tn__free(stream->arena.context, fetched, (size_t)stream->block_count + 1);
}

static tn_status stream_plan(tn__stream *stream, const tn_stream_options *options,
                             tn_stream_result *made) {
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_plan_options plan = TN_PLAN_OPTIONS_INIT;
    tn__options(&memory, sizeof memory, options->memory);
    tn__options(&plan, sizeof plan, options->plan);
    memory.struct_size = sizeof memory;
    plan.struct_size = sizeof plan;
    memory.statics = stream->blocks;
    memory.static_count = stream->block_count;
    memory.statics_first = false;
    if (plan.context == NULL) plan.context = options->context;
    TN_TRY(tn__stream_emit(stream, &made->program));
    TN_TRY(tn_occupancy_create(made->program, &memory, &made->occupancy, stream->error));
    TN_TRY(tn_plan(tn_occupancy_problem(made->occupancy), &plan, &made->layout, stream->error));
    made->bytes = made->layout.peak;
    stream_count(stream, made);
    return TN_OK;
}

/* --- time --- */

/* The bytes that a fetch of each tensor reads. */
static tn_status stream_bytes(const tn__stream *stream, tn__arena *arena, const uint64_t **bytes) {
    uint32_t tensors = tn_graph_tensor_count(tn_program_graph(stream->program));
    uint64_t *made = tn__arena_array(arena, tensors, sizeof *made);
    if (made == NULL) return tn__no_memory(stream->error, "what is fetched");
    for (uint32_t b = 0; b < stream->block_count; b++)
        made[stream->blocks[b].tensor] = stream->blocks[b].bytes;
    *bytes = made;
    return TN_OK;
}

static tn_status stream_time(tn__stream *stream, const tn_costs *costs,
                             const tn_stream_options *options, tn_stream_result *result) {
    tn_simulate_options how = TN_SIMULATE_OPTIONS_INIT;
    tn_simulation streamed, plain;
    TN_TRY(stream_bytes(stream, &stream->arena, &how.fetch_bytes));
    how.context = options->context;
    how.from_storage_bytes_per_s = result->bytes_per_s = options->bytes_per_s;
    how.storage_latency_s = options->latency_s;
    TN_TRY(tn__costs_simulate(costs, stream->program, &how, &plain, stream->error));
    result->plain_time = plain.total_ps;
    tn_simulation_release(&plain);
    TN_TRY(tn__costs_simulate(costs, result->program, &how, &streamed, stream->error));
    result->time = streamed.total_ps;
    result->stall = streamed.stall_ps;
    tn_simulation_release(&streamed);
    return TN_OK;
}

/* --- the whole --- */

/* `laid`: the smallest layout; 0: none was made, because one step needs more than the budget. */
static void stream_refuse(const tn__stream *stream, uint64_t budget, uint64_t least, uint32_t step,
                          uint64_t laid, tn__refusal *refusal) {
    const tn_graph *graph = tn_program_graph(stream->program);
    const tn_instruction *it = &tn_program_instructions(stream->program)[step];
    const tn_op *op = it->op != TN_NONE ? tn_graph_op(graph, it->op) : NULL;
    char size[TN_SIZE_TEXT_MAX];
    *refusal = (tn__refusal){.techniques = TN_FIT_STREAM, .budget = budget, .least = laid};
    snprintf(refusal->step, sizeof refusal->step, "step %u, '%.60s' (%.30s), needs %s at once",
             step, op != NULL ? op->name : "", op != NULL ? op->type : tn_opcode_name(it->opcode),
             tn_size_format(least, size));
}

static tn_status stream_rounds(tn__stream *stream, const tn_stream_options *options,
                               tn_stream_result *result, tn__refusal *refusal) {
    uint32_t step;
    uint64_t least = tn__stream_least(stream, &step), laid = UINT64_MAX;
    bool any = options->budget == 0;
    stream->target = any ? least : options->budget;
    for (bool found = true; result->rounds < STREAM_ROUNDS; result->rounds++) {
        tn_stream_result made = {0};
        if (stream->target < least) stream->target = least;
        if (!any && least > options->budget) break;
        TN_TRY(tn__stream_choose(stream, &found));
        if (!found) break;
        tn_status status = stream_plan(stream, options, &made);
        uint64_t bytes = made.bytes;
        if (status == TN_OK && (any || bytes <= options->budget)) {
            stream_take(result, &made);
            return TN_OK;
        }
        tn_stream_release(&made);
        TN_TRY(status);
        if (bytes < laid) laid = bytes;
        if (stream->target == least) break;
        uint64_t beyond = bytes - options->budget, floor = stream->target / 64;
        if (beyond < floor) beyond = floor;
        stream->target = stream->target > beyond ? stream->target - beyond : 0;
    }
    result->bytes = laid != UINT64_MAX ? laid : least;
    stream_refuse(stream, options->budget, least, step, laid != UINT64_MAX ? laid : 0, refusal);
    return TN_E_EXHAUSTED;
}

tn_status tn__stream_seek(const tn_program *program, const tn_costs *costs,
                          const tn_stream_options *given, tn_stream_result *result,
                          tn__refusal *refusal, tn_error *error) {
    tn_stream_options options = TN_STREAM_OPTIONS_INIT;
    tn__stream stream;
    tn__options(&options, sizeof options, given);
    tn_context context = tn__context(
        options.context != NULL ? options.context : tn_graph_context(tn_program_graph(program)));
    options.context = &context;
    *result = (tn_stream_result){0};
    *refusal = (tn__refusal){0};
    tn_status status = tn__stream_open(&stream, program, costs, &options, error);
    if (status == TN_OK) status = stream_rounds(&stream, &options, result, refusal);
    if (status == TN_OK) status = stream_time(&stream, costs, &options, result);
    tn__stream_close(&stream);
    return status;
}

tn_status tn_program_stream(const tn_program *program, const tn_costs *costs,
                            const tn_stream_options *options, tn_stream_result *result,
                            tn_error *error) {
    tn__refusal refusal;
    tn_status status = tn__stream_seek(program, costs, options, result, &refusal, error);
    return tn__refusal_fail(&refusal, status, error);
}

void tn_stream_release(tn_stream_result *result) {
    tn_layout_release(&result->layout);
    tn_occupancy_destroy(result->occupancy);
    tn_program_destroy(result->program);
    *result = (tn_stream_result){0};
}
