/* fit_run.c - runs the result and compares it with the prediction.
 *
 * Inputs, and data missing from the file, are generated. All runs but the last warm up memory and
 * kernels; the last one is reported. Copies are slowed down to the speed of --link.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/fit.h"

typedef struct run_state {
    cli_fit *fit;
    cli_fit_data data;
    tn_setup *setup;
    tn_engine *engine;
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
} run_state;

/* Fills an array with numbers between -1 and 1; indices, labels and the learning rate are 0. */
static bool run_array(tn_array *array, const tn_tensor *tensor, bool numbers) {
    tn__random random = {1};
    *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
    if (tensor->rank > 0) memcpy(array->shape, tensor->shape, tensor->rank * sizeof *array->shape);
    array->data = calloc(1, (size_t)tensor->bytes + 1);
    float *at = array->data;
    bool fills = at != NULL && numbers && tensor->dtype == TN_FLOAT32;
    for (uint64_t k = 0; fills && k < tensor->bytes / sizeof *at; k++)
        at[k] = (float)(tn__random_next(&random) >> 40) * 0x1p-23f - 1;
    return array->data != NULL;
}

static tn_status run_arrays(run_state *run, tn_error *error) {
    const tn_graph *graph = tn_setup_graph(run->setup);
    const tn_block *block = tn_graph_block(graph, 0);
    bool all = true;
    run->inputs = calloc((size_t)block->input_count + 1, sizeof *run->inputs);
    run->outputs = calloc((size_t)block->output_count + 1, sizeof *run->outputs);
    if (run->inputs == NULL || run->outputs == NULL) return tn__no_memory(error, "a run");
    for (uint32_t i = 0; i < block->input_count && all; i++) {
        tn_tensor_id id = block->inputs[i];
        bool rate = run->fit->train && id == run->fit->step.learning_rate;
        if (!tn_tensor_is_static(tn_graph_tensor(graph, id)))
            all = run_array(&run->inputs[run->input_count++], tn_graph_tensor(graph, id), !rate);
    }
    for (uint32_t i = 0; i < block->output_count && all; i++)
        all = run_array(&run->outputs[run->output_count++],
                        tn_graph_tensor(graph, block->outputs[i]), false);
    return all ? TN_OK : tn__no_memory(error, "a run");
}

static tn_status run_open(run_state *run, tn_error *error) {
    cli_fit *fit = run->fit;
    const tn_program *program = fit->results[fit->chosen].program;
    tn_plan_options plan = fit->choices.plan;
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    tn_occupancy_options memory = fit->memory;
    memory.workspaces = memory.workspaces_again = NULL; /* those of its kernels */
    options.given_program = program;
    options.memory = &memory;
    plan.enough = fit->results[fit->chosen].layout.peak; /* a new plan may be larger */
    options.plan = &plan;
    options.context = fit->input.import.context;
    device.link_bytes_per_s = fit->link; /* without --link there is no limit */
    engine.read = cli_fit_data_read;
    engine.self = &run->data;
    TN_TRY(tn_trace_create(options.context, 64 * (uint64_t)tn_program_count(program) + 64,
                           &fit->happened, error));
    engine.trace = fit->happened;
    if (fit->results[fit->chosen].host != NULL)
        engine.host_layout = &fit->results[fit->chosen].host_layout;
    engine.swap_device = fit->swap_device;
    engine.swap_bytes_per_s = fit->link;
    engine.error_limit = fit->max_error;
    TN_TRY(cli_fit_data_open(&run->data, fit, error));
    TN_TRY(tn_setup_from(fit->setup, TN_SETUP_ORDER, &options, &run->setup, error));
    TN_TRY(tn_setup_open(run->setup, &device, &engine, &run->engine, error));
    return run_arrays(run, error);
}

static void run_close(run_state *run) {
    for (uint32_t i = 0; i < run->input_count; i++) free(run->inputs[i].data);
    for (uint32_t i = 0; i < run->output_count; i++) free(run->outputs[i].data);
    free(run->inputs);
    free(run->outputs);
    tn_engine_destroy(run->engine);
    tn_setup_destroy(run->setup);
    tn_contents_close(run->data.contents);
}

tn_status cli_fit_run(cli_fit *fit, tn_error *error) {
    run_state run = {.fit = fit};
    tn_status status = run_open(&run, error);
    for (uint64_t i = 0; i < fit->runs && status == TN_OK; i++) {
        tn_trace_clear(fit->happened);
        status = tn_engine_run(run.engine, run.inputs, run.input_count, run.outputs,
                               run.output_count, error);
    }
    if (status == TN_OK) tn_engine_measure(run.engine, &fit->usage);
    if (status == TN_OK) cli_losses_read(&fit->losses, run.engine);
    run_close(&run);
    return status;
}
