/* compile_options.c - converts the options of a command to requests to the library: techniques for
 * a budget, costs, fractions of zeros, and the options of a compiled model. */
#include "cli/model/compile_options.h"
#include "base/base.h"
#include "cli/command_line/combine.h"
#include "cli/model/input.h"
#include "memory/device/driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- techniques for a budget, and their costs --- */

uint32_t cli_allow(struct argp_state *state, const char *value) {
    static const struct {
        const char *word;
        uint32_t allows;
    } words[] = {{"order", TN_FIT_ORDER}, {"recompute", TN_FIT_RECOMPUTE},
                 {"swap", TN_FIT_SWAP},   {"compress", TN_FIT_COMPRESS},
                 {"split", TN_FIT_SPLIT}, {"stream", TN_FIT_STREAM}};
    const size_t count = sizeof words / sizeof *words;
    uint32_t allow = 0;
    for (const char *at = value; *at != '\0';) {
        size_t length = strcspn(at, ","), i = 0;
        while (i < count &&
               (strlen(words[i].word) != length || strncmp(at, words[i].word, length) != 0))
            i++;
        if (i == count)
            cli_misuse(
                state,
                "--allow: '%.*s' is not one of order, recompute, swap, compress, split, stream",
                (int)length, at);
        allow |= words[i].allows;
        at += length + (at[length] == ',');
    }
    if (allow == 0)
        cli_misuse(state,
                   "--allow: the list is empty; name at least one technique, such as recompute");
    return allow;
}

#define SWAP_LINK_BYTES (UINT64_C(16) << 20)

static tn_status swap_measure(const char *name, tn_device_link *link, tn_error *error) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    tn_device *device;
    options.device = name;
    TN_TRY(tn_device_create(&options, &device, error));
    tn_status status = tn_device_measure_link(device, SWAP_LINK_BYTES, NULL, link, error);
    tn_device_destroy(device);
    return status;
}

void cli_swap_link(const char *name, double *to_bytes_per_s, double *from_bytes_per_s) {
    tn_device_link link = {*to_bytes_per_s, *from_bytes_per_s, 0};
    tn_error error = {0};
    if (name == NULL) return;
    bool is_given = link.put_bytes_per_s > 0;
    tn_status status =
        is_given ? tn__device_known(name, &error) : swap_measure(name, &link, &error);
    if (status != TN_OK) cli_end(&error);
    *to_bytes_per_s = link.put_bytes_per_s;
    *from_bytes_per_s = link.get_bytes_per_s;
}

uint32_t cli_allow_complete(uint32_t allow, double link, const char *pass) {
    const uint32_t graph = TN_FIT_SPLIT | TN_FIT_STREAM;
    bool said = (allow & ~(uint32_t)TN_FIT_LOSSY) != 0;
    if ((allow & ~(TN_FIT_LOSSY | graph)) == 0) {
        allow |= said || pass != NULL ? TN_FIT_USUAL & ~graph : TN_FIT_USUAL;
        if (link > 0) allow |= TN_FIT_SWAP;
    }
    if (allow & TN_FIT_LOSSY) allow |= TN_FIT_COMPRESS;
    cli_condition_set(CLI_IF_SWAPS, (allow & TN_FIT_SWAP) != 0);
    return allow;
}

void cli_costs_parse(struct argp_state *state, cli_costs *costs, const char *value) {
    *costs = (cli_costs){0}; /* if --costs is repeated, the last one counts */
    if (strncmp(value, "model:", 6) != 0) {
        costs->path = cli_standard_value(state, "--costs", value);
        return;
    }
    costs->device = cli_hardware(state, "costs", value + 6);
}

bool cli_costs_given(const cli_costs *costs) {
    return costs->path != NULL || costs->device != NULL;
}

/* Prints a note if the costs in a file were measured with another number of threads. A plan made
 * with them is valid, but its predicted seconds are for that other number. */
static void costs_compare(const cli_costs *costs, uint32_t measured, uint32_t threads) {
    char text[512];
    if (measured == 0 || measured == (threads > 0 ? threads : 1)) return;
    snprintf(
        text, sizeof text,
        "%.300s: these costs were measured with %u thread%s; predicted seconds are for that number",
        costs->path, measured, measured == 1 ? "" : "s");
    cli_note(text);
}

tn_status cli_costs_make(const cli_costs *costs, const tn_setup *setup, uint32_t threads,
                         const tn_context *context, tn_costs **made, tn_error *error) {
    const tn_graph *graph = tn_setup_graph(setup);
    if (costs->path != NULL && tn_setup_splits(setup) != NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "%s: these costs are for operators without tiles; measure them again, or remove "
                "split from --allow",
                costs->path);
    if (costs->path != NULL) {
        TN_TRY(tn_costs_read(costs->path, context, graph, made, error));
        costs_compare(costs, tn_costs_threads(*made), threads);
        return TN_OK;
    }
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    model.context = context;
    model.flops_per_s = costs->device->fp32;
    model.bytes_per_s = costs->device->bytes_per_s;
    return tn_costs_create_model(graph, &model, made, error);
}

double cli_max_error(struct argp_state *state, const char *value) {
    double error = cli_share(state, "max-error", value);
    if (!(error > 0)) cli_misuse(state, "--max-error: use an error above 0, such as 1%%");
    return error;
}

/* --- fractions of zeros, counted in one run before a program is fitted --- */

uint32_t cli_codecs(struct argp_state *state, const char *value) {
    uint32_t codecs = 0;
    for (const char *at = value; *at != '\0';) {
        size_t length = strcspn(at, ",");
        int codec = TN_CODEC_NONE + 1;
        while (codec < TN_CODEC_COUNT && (strlen(tn_codec_name((tn_codec)codec)) != length ||
                                          strncmp(tn_codec_name((tn_codec)codec), at, length) != 0))
            codec++;
        if (codec == TN_CODEC_COUNT)
            cli_misuse(state, "--codecs: '%.*s' is not one of bits, csr, float16, float10, float8",
                       (int)length, at);
        codecs |= 1u << codec;
        at += length + (at[length] == ',');
    }
    if (codecs == 0)
        cli_misuse(state, "--codecs: the list is empty; name at least one codec, such as csr");
    return codecs;
}

bool cli_codecs_lose(uint32_t codecs) {
    for (int codec = TN_CODEC_NONE + 1; codec < TN_CODEC_COUNT; codec++)
        if (codec != TN_CODEC_BITS && (codecs >> codec & 1) &&
            !tn_codec_is_lossless((tn_codec)codec))
            return true;
    return false;
}

static void zeros_free(tn_array *inputs, uint32_t count) {
    for (uint32_t i = 0; inputs != NULL && i < count; i++) free(inputs[i].data);
    free(inputs);
}

/* Returns an array of zeros for each input of the graph that is not static, or NULL if memory ran
 * out. */
static tn_array *zeros_inputs(const tn_graph *graph, uint32_t *count) {
    const tn_block *block = tn_graph_block(graph, 0);
    tn_array *inputs = calloc((size_t)block->input_count + 1, sizeof *inputs);
    *count = 0;
    for (uint32_t i = 0; inputs != NULL && i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        tn_array *array = &inputs[*count];
        if (tn_tensor_is_static(tensor)) continue;
        *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
        if (tensor->rank > 0)
            memcpy(array->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
        array->data = calloc(1, (size_t)tensor->bytes + 1);
        ++*count;
        if (array->data != NULL) continue;
        zeros_free(inputs, *count);
        return NULL;
    }
    return inputs;
}

static tn_status zeros_run(const tn_setup *setup, const tn_engine_options *engine,
                           const cli_samples *samples, float *zeros, tn_error *error) {
    const tn_graph *graph = tn_setup_graph(setup);
    uint32_t count;
    if (samples == NULL || samples->fill == NULL)
        return tn_setup_zeros(setup, engine, NULL, 0, zeros, error);
    tn_array *inputs = zeros_inputs(graph, &count);
    if (inputs == NULL) return tn__no_memory(error, "inputs");
    tn_status status = samples->fill(samples->self, graph, inputs, count, error);
    if (status == TN_OK) status = tn_setup_zeros(setup, engine, inputs, count, zeros, error);
    zeros_free(inputs, count);
    return status;
}

/* Measures the fractions of zeros in the tensors, by one run of the setup's program. `samples`
 * fills the inputs; NULL: inputs are generated. *zeros is set to an array with one fraction per
 * tensor of the setup's graph, which the caller frees. *zeros is NULL, without an error, if the
 * setup has no kernels or if this machine has too little memory for a plan that is not fitted to a
 * budget yet. */
static tn_status zeros_count(const tn_setup *setup, const tn_engine_options *engine,
                             const cli_samples *samples, float **zeros, tn_error *error) {
    uint32_t count = tn_graph_tensor_count(tn_setup_graph(setup));
    *zeros = NULL;
    if (tn_setup_kernels(setup) == NULL) return TN_OK;
    *zeros = malloc(((size_t)count + 1) * sizeof **zeros);
    if (*zeros == NULL) return tn__no_memory(error, "the fractions of zeros");
    for (uint32_t i = 0; i < count; i++) (*zeros)[i] = -1;
    tn_status status = zeros_run(setup, engine, samples, *zeros, error);
    if (status == TN_OK) return TN_OK;
    free(*zeros);
    *zeros = NULL;
    return status == TN_E_NO_MEMORY || status == TN_E_EXHAUSTED ? TN_OK : status;
}

/* --- requests to the library --- */

tn_occupancy_options cli_memory_options(const cli_input *input) {
    tn_occupancy_options memory = input->occupancy_options;
    memory.struct_size = sizeof memory;
    memory.alignment = input->alignment;
    memory.banks = input->banks;
    memory.bank_count = input->bank_count;
    memory.adjacent = input->streams.adjacent;
    memory.adjacent_count = input->streams.adjacent_count;
    return memory;
}

/* Sets the options of the stages REWRITE, KERNELS and SCRATCH. */
static void request_kernels(const cli_kernel_target *target, bool trains,
                            cli_compile_options *options) {
    options->rewrite = (tn_rewrite_options)TN_REWRITE_OPTIONS_INIT;
    options->kernels = (tn_kernels_options)TN_KERNELS_OPTIONS_INIT;
    options->rewrite.use = trains ? TN_REWRITE_TRAINED : TN_REWRITE_TO_RUN;
    options->kernels.threads = target->threads;
    options->kernels.plain = target->runner == CLI_RUNNER_PLAIN;
    options->setup.no_kernels = target->runner == CLI_RUNNER_NONE;
    options->setup.kernels = &options->kernels;
    options->setup.fastest = target->fastest;
    if (cli_kernel_target_rewrites(target) && !target->staged)
        options->setup.rewrite = &options->rewrite;
    else
        options->rewrite.no_fuse = options->rewrite.no_formats = true;
}

void cli_compile_options_set(const cli_input *input, const cli_kernel_target *target,
                             const cli_training *training, const tn_plan_options *plan,
                             cli_compile_options *options) {
    options->setup = (tn_setup_options)TN_SETUP_OPTIONS_INIT;
    options->program = (tn_program_options)TN_PROGRAM_OPTIONS_INIT;
    options->program.order = input->order;
    options->recompute = cli_training_recompute(training);
    options->memory = cli_memory_options(input);
    request_kernels(target, training != NULL, options);
    tn_setup_options *setup = &options->setup;
    setup->context = input->import.context;
    setup->program = &options->program;
    setup->recompute = &options->recompute;
    setup->rules = &input->rules;
    options->streams = (tn_program_streams_options)TN_PROGRAM_STREAMS_OPTIONS_INIT;
    options->streams.count = input->streams.count;
    options->streams.rules = input->streams.rules;
    options->streams.rule_count = input->streams.rule_count;
    if (input->streams.count > 1) setup->streams = &options->streams;
    setup->memory = &options->memory;
    setup->statics = input->statics;
    setup->plan = plan;
    setup->unplanned = plan == NULL;
}

/* --- requests to the library: a budget --- */

/* The callback `costs` of tn_fit_request: makes the costs from the source that the user gave. */
static tn_status request_costs(void *self, const tn_setup *setup, tn_costs **costs,
                               tn_error *error) {
    const cli_fit_sources *sources = self;
    return cli_costs_make(sources->from, setup, sources->threads, sources->engine.context, costs,
                          error);
}

/* The callback `zeros` of tn_fit_request: measures the fractions of zeros, unless the codec csr is
 * not allowed, because no other codec depends on them. */
static tn_status request_zeros(void *self, const tn_setup *setup, const float **zeros,
                               tn_error *error) {
    const cli_fit_sources *sources = self;
    if (sources->codecs != 0 && (sources->codecs >> TN_CODEC_CSR & 1) == 0) return TN_OK;
    /* release the fractions of zeros that an earlier call measured for another search */
    free(*sources->zeros);
    TN_TRY(zeros_count(setup, &sources->engine, sources->samples, sources->zeros, error));
    *zeros = *sources->zeros;
    return TN_OK;
}

void cli_fit_request_set(cli_fit_sources *sources, tn_fit_request *request) {
    request->costs = cli_costs_given(sources->from) ? request_costs : NULL;
    request->zeros = request_zeros;
    request->self = sources;
}
