/* setup_use.c - the use of a compiled model (a set-up): reads its parts, makes an engine of it,
 * runs it on generated inputs, counts its zeros, and predicts its time. */
#include "fit/setup/setup.h"

#include <tenure/engine.h>

#include "engine/engine.h"
#include "fit/budget/costs.h"

/* --- parts of a compiled model ---------------------------------------------------------------- */

/* --- parts --- */

const tn_graph *tn_setup_given(const tn_setup *setup) { return setup->given; }

const tn_graph *tn_setup_graph(const tn_setup *setup) {
    const tn__setup_part *rewritten = setup->parts[PART_GRAPH];
    return rewritten != NULL ? rewritten->graph : setup->given;
}

const tn_kernels *tn_setup_kernels(const tn_setup *setup) {
    const tn__setup_part *made = setup->parts[PART_KERNELS], *scratch = setup->parts[PART_SCRATCH];
    if (scratch != NULL) return scratch->kernels;
    return made != NULL ? made->kernels : setup->given_kernels;
}

const tn_program *tn__setup_ordered(const tn_setup *setup) {
    const tn__setup_part *made = setup->parts[PART_PROGRAM];
    return made != NULL ? made->program : setup->given_program;
}

const tn_program *tn_setup_program(const tn_setup *setup) {
    const tn__setup_part *again = setup->parts[PART_RECOMPUTED], *fit = setup->parts[PART_FIT];
    const tn__setup_part *divided = setup->parts[PART_DIVIDED];
    const tn__setup_part *stream = setup->parts[PART_STREAM];
    const tn__setup_part *streams = setup->parts[PART_STREAMS];
    if (streams != NULL && streams->program != NULL) return streams->program;
    if (divided != NULL && divided->fitted.program != NULL) return divided->fitted.program;
    if (stream != NULL && stream->streamed.program != NULL) return stream->streamed.program;
    if (fit != NULL) return fit->fitted.program;
    return again != NULL ? again->program : tn__setup_ordered(setup);
}

const tn_occupancy *tn_setup_occupancy(const tn_setup *setup) {
    return setup->parts[PART_OCCUPANCY]->occupancy;
}

tn_status tn_setup_add_events(tn_setup *setup, tn_error *error) {
    return tn_occupancy_add_events(setup->parts[PART_OCCUPANCY]->occupancy, error);
}

tn_status tn_setup_add_reuse_costs(tn_setup *setup, tn_error *error) {
    return tn_occupancy_add_reuse_costs(setup->parts[PART_OCCUPANCY]->occupancy, error);
}

const tn_layout *tn_setup_layout(const tn_setup *setup) {
    const tn__setup_part *made = setup->parts[PART_LAYOUT];
    return made != NULL ? &made->layout : NULL;
}

const tn_recompute_report *tn_setup_recomputed(const tn_setup *setup) {
    const tn__setup_part *again = setup->parts[PART_RECOMPUTED];
    return again != NULL && setup->parts[PART_FIT] == NULL ? &again->report : NULL;
}

const tn_fit_result *tn_setup_fitted(const tn_setup *setup) {
    const tn__setup_part *fit = setup->parts[PART_FIT], *divided = setup->parts[PART_DIVIDED];
    if (fit != NULL) return &fit->fitted;
    return divided != NULL && divided->fitted.pass != NULL ? &divided->fitted : NULL;
}

const tn_stream_result *tn_setup_streamed(const tn_setup *setup) {
    const tn__setup_part *stream = setup->parts[PART_STREAM];
    return stream != NULL ? &stream->streamed : NULL;
}

const tn_expert_cache *tn_setup_experts(const tn_setup *setup) {
    const tn__setup_part *part = setup->parts[PART_GRAPH];
    return part != NULL && part->experts.operators > 0 ? &part->experts : NULL;
}

const tn_scratch_report *tn_setup_scratch(const tn_setup *setup) {
    const tn__setup_part *scratch = setup->parts[PART_SCRATCH];
    return scratch != NULL ? &scratch->scratch : NULL;
}

const tn_static_block *tn_setup_statics(const tn_setup *setup, uint32_t *count) {
    const tn__setup_statics *statics = &setup->parts[PART_STATICS]->statics;
    *count = statics->count;
    return statics->blocks;
}

uint64_t tn__setup_fixed(const tn_setup *setup) {
    const tn__setup_statics *statics = &setup->parts[PART_STATICS]->statics;
    return statics->inside ? 0 : statics->bytes;
}

tn_setup_needs tn_setup_need(const tn_setup *setup) {
    const tn_layout *layout = tn_setup_layout(setup);
    tn_setup_needs needs = {
        .arena = layout != NULL ? layout->peak
                                : tn_occupancy_summary(tn_setup_occupancy(setup)).peak_live,
        .statics = setup->parts[PART_STATICS]->statics.bytes};
    needs.total = tn__add_sat(needs.arena, tn__setup_fixed(setup));
    return needs;
}

double tn_setup_seconds(const tn_setup *setup, tn_setup_stage stage) {
    return stage < TN_SETUP_STAGE_COUNT ? setup->seconds[stage] : 0;
}

/* --- an engine of a compiled model --- */

static tn_status setup_check(const tn_setup *setup, const tn_engine_options *options,
                             uint64_t capacity, tn_error *error) {
    char need[TN_SIZE_TEXT_MAX], arena[TN_SIZE_TEXT_MAX], statics[TN_SIZE_TEXT_MAX];
    tn_setup_needs needs = tn_setup_need(setup);
    if (tn_setup_kernels(setup) == NULL)
        TN_FAIL(error, TN_E_INVALID, "a set-up without kernels cannot run");
    if (options->pool != NULL) return TN_OK;
    if (tn_setup_layout(setup) == NULL)
        TN_FAIL(error, TN_E_INVALID, "a set-up without a layout cannot run, but with a pool");
    if (capacity == 0 || needs.total <= capacity) return TN_OK;
    bool inside = setup->parts[PART_STATICS]->statics.inside;
    TN_FAIL(error, TN_E_EXHAUSTED, "the budget is too small; %s would do: arena %s, weights %s%s",
            tn_size_format(needs.total, need), tn_size_format(needs.arena, arena),
            tn_size_format(needs.statics, statics), inside ? " in it" : "");
}

/* Returns the layout of host memory that was planned when the program was fitted; NULL if there is
 * no such layout. */
static const tn_layout *setup_host(const tn_setup *setup) {
    const tn_fit_result *fitted = tn_setup_fitted(setup);
    bool is_here = fitted != NULL && fitted->host != NULL;
    return is_here && fitted->program == tn_setup_program(setup) ? &fitted->host_layout : NULL;
}

tn_status tn_setup_open(const tn_setup *setup, const tn_device_options *device,
                        const tn_engine_options *options, tn_engine **engine, tn_error *error) {
    tn_device_options where = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options how = TN_ENGINE_OPTIONS_INIT;
    tn_device *made;
    tn__options(&where, sizeof where, device);
    tn__options(&how, sizeof how, options);
    TN_TRY(setup_check(setup, &how, where.capacity, error));
    /* the device gets exactly the planned bytes as capacity, so that a run cannot use more than the
     * budget */
    if (where.capacity == 0)
        where.capacity = how.pool != NULL ? how.pool_capacity : tn_setup_need(setup).total;
    if (where.context == NULL) where.context = &setup->context;
    if (how.context == NULL) how.context = &setup->context;
    if (how.host_layout == NULL) how.host_layout = setup_host(setup);
    TN_TRY(tn_device_create(&where, &made, error));
    tn_status status = tn_engine_create(tn_setup_occupancy(setup),
                                        how.pool == NULL ? tn_setup_layout(setup) : NULL,
                                        tn_setup_kernels(setup), made, &how, engine, error);
    if (status == TN_OK)
        (*engine)->memory.own = made;
    else
        tn_device_destroy(made);
    return status;
}

/* --- predicted time --------------------------------------------------------------------------- */

/* Predicts the time of a run of a compiled model, without running it. */

static tn_status predict_by(const tn_setup *setup, const tn_costs *costs,
                            const tn_simulate_options *given, tn_simulation *simulation,
                            tn_error *error) {
    tn_simulate_options options = TN_SIMULATE_OPTIONS_INIT;
    tn__options(&options, sizeof options, given);
    if (tn_costs_graph(costs) != tn_setup_graph(setup))
        TN_FAIL(error, TN_E_INVALID, "the costs are of another graph");
    options.occupancy = tn_setup_occupancy(setup);
    return tn__costs_simulate(costs, tn_setup_program(setup), &options, simulation, error);
}

tn_status tn_setup_predict(const tn_setup *setup, const tn_costs *costs,
                           const tn_simulate_options *options, tn_simulation *simulation,
                           tn_error *error) {
    tn_measure_options measure = TN_MEASURE_OPTIONS_INIT;
    tn_costs *made;
    if (costs != NULL) return predict_by(setup, costs, options, simulation, error);
    if (tn_setup_kernels(setup) == NULL)
        TN_FAIL(error, TN_E_INVALID, "nothing can be measured without kernels");
    measure.occupancy = tn_setup_occupancy(setup);
    measure.setup = setup;
    TN_TRY(tn_costs_measure(tn_setup_kernels(setup), &measure, &made, NULL, error));
    tn_status status = predict_by(setup, made, options, simulation, error);
    tn_costs_destroy(made);
    return status;
}

/* --- runs on generated inputs ----------------------------------------------------------------- */

/* Runs a compiled model on generated inputs. Cost: memory for all inputs and outputs. */

static void made_up_fill(const tn_array *array, tn__random *random) {
    float *numbers = array->data;
    for (uint64_t i = 0; array->dtype == TN_FLOAT32 && i < array->bytes / sizeof *numbers; i++)
        numbers[i] = (float)(tn__random_next(random) >> 40) / 8388608.0f - 1;
}

/* Makes an array of zeros for each input or output that is not static memory. */
static tn_status made_up_arrays(tn__made_up *it, const tn_graph *graph, bool inputs,
                                tn_error *error) {
    const tn_block *block = tn_graph_block(graph, 0);
    const tn_tensor_id *ids = inputs ? block->inputs : block->outputs;
    uint32_t count = inputs ? block->input_count : block->output_count, used = 0;
    tn_array *arrays = tn__arena_array(&it->arena, (size_t)count + 1, sizeof *arrays);
    if (arrays == NULL) return tn__no_memory(error, "inputs and outputs");
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, ids[i]);
        tn_array *array = &arrays[used];
        if (inputs && tn_tensor_is_static(tensor)) continue;
        if (tensor->bytes > SIZE_MAX / 2)
            TN_FAIL(error, TN_E_UNKNOWN, "'%.80s' has no known size", tensor->name);
        *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
        if (tensor->rank > 0)
            memcpy(array->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
        array->data = tn__arena_array(&it->arena, (size_t)tensor->bytes + 1, 1);
        if (array->data == NULL) return tn__no_memory(error, "inputs and outputs");
        used++;
    }
    *(inputs ? &it->inputs : &it->outputs) = arrays;
    *(inputs ? &it->input_count : &it->output_count) = used;
    return TN_OK;
}

tn_status tn__made_up_open(tn__made_up *it, const tn_setup *setup, const tn_engine_options *options,
                           tn_error *error) {
    const tn_graph *graph = tn_setup_graph(setup);
    tn__random random = {.state = 1};
    *it = (tn__made_up){.context = tn__context(options->context)};
    tn__arena_init(&it->arena, &it->context);
    TN_TRY(made_up_arrays(it, graph, false, error));
    TN_TRY(made_up_arrays(it, graph, true, error));
    for (uint32_t i = 0; i < it->input_count; i++) made_up_fill(&it->inputs[i], &random);
    return tn_setup_open(setup, NULL, options, &it->engine, error);
}

tn_status tn__made_up_run(tn__made_up *it, tn_error *error) {
    return tn_engine_run(it->engine, it->inputs, it->input_count, it->outputs, it->output_count,
                         error);
}

void tn__made_up_close(tn__made_up *it) {
    tn_engine_destroy(it->engine);
    tn__arena_release(&it->arena);
    it->engine = NULL;
}

/* --- share of zeros --------------------------------------------------------------------------- */

/* Runs a compiled model once, and counts the fraction of zeros in each tensor.
 *
 * The engine counts them (src/engine/encode.c). Cost: one run.
 */

static tn_status zeros_run(tn__made_up *run, const tn_array *inputs, uint32_t input_count,
                           tn_error *error) {
    if (inputs == NULL) return tn__made_up_run(run, error);
    return tn_engine_run(run->engine, inputs, input_count, run->outputs, run->output_count, error);
}

tn_status tn_setup_zeros(const tn_setup *setup, const tn_engine_options *engine,
                         const tn_array *inputs, uint32_t input_count, float *zeros,
                         tn_error *error) {
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    tn__made_up run;
    tn__options(&options, sizeof options, engine);
    options.struct_size = sizeof options;
    options.zeros = zeros;
    tn_status status = tn__made_up_open(&run, setup, &options, error);
    if (status == TN_OK) status = zeros_run(&run, inputs, input_count, error);
    tn__made_up_close(&run);
    return status;
}
