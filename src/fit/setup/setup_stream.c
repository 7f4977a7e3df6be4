/* setup_stream.c - the stage STREAM: if the plan exceeds the budget, weights are read from their
 * file when needed.
 *
 * The stage streams the existing program with the existing kernels; tensors and operators keep
 * their ids. Static memory then lies in the arena, so that one peak bounds all memory.
 *
 * Cost: that of a plan; if the plan exceeds the budget, that of tn_costs_measure and
 * tn_program_stream. With `parts`, setup_stream_parts.c asks it for several graphs.
 */
#include "fit/budget/stream.h"
#include "fit/setup/setup.h"

#include <tenure/engine.h>

/* The result replaces parts of the set-up: its program, and the results of the following stages. */
static tn_status streamed_take(tn_setup *setup, tn_stream_result *result, tn_error *error) {
    tn__setup_part *stream, *occupancy, *layout;
    for (int kind = PART_STREAM; kind < PART_COUNT; kind++)
        tn__setup_part_release(setup, kind); /* part of the old program */
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

/* Checks with modelled costs whether streaming can succeed at all, because measuring takes
 * seconds. */
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

tn_status tn__setup_streamed_from(const tn_setup *whole, const tn_setup_options *options,
                                  tn_setup **setup, tn__refusal *refusal, tn_error *error) {
    *refusal = (tn__refusal){0};
    return options->stream->parts ? tn__setup_streamed_parts(whole, options, setup, refusal, error)
                                  : tn__setup_make(whole->given, whole, TN_SETUP_STREAM, options,
                                                   setup, refusal, error);
}
