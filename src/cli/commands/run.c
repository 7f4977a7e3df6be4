/* run.c - `tenure run`: runs a model in its planned arena, and checks the plan. */
#include "base/base.h"
#include "cli/answer/facts.h"
#include "cli/answer/holders.h"
#include "cli/answer/model_facts.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"
#include "cli/model/opened_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

typedef struct run_given { /* the two parts of --input NAME=WHAT */
    const char *name, *what;
} run_given;

typedef struct run_arrays {
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
} run_arrays;

#ifndef TENURE_MINIMAL
#endif

/* --- inputs of a run, and buffers for its outputs --- */

static tn_status arrays_make(const tn_tensor *tensor, tn_array *array, tn_error *error) {
    array->dtype = tensor->dtype;
    array->rank = tensor->rank;
    if (tensor->rank > 0) memcpy(array->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    array->bytes = tensor->bytes;
    array->data = calloc(1, tensor->bytes > 0 ? tensor->bytes : 1);
    return array->data != NULL ? TN_OK : tn__no_memory(error, "an input or an output");
}

/* Fills an array with numbers that any model accepts: float32 and float64 in [-1, 1], float16 and
 * bfloat16 one of 1, -1, 0.5 and -0.5, all other types 0 or 1. The numbers depend only on the type,
 * `name` and `seed`. */
static void arrays_draw(tn_array *array, const char *name, uint64_t seed) {
    tn__random random = {.state = seed};
    for (const char *at = name; *at != '\0'; at++) random.state = random.state * 31 + (uint8_t)*at;
    uint64_t width = tn_dtype_bits(array->dtype) / 8;
    for (uint64_t i = 0; width > 0 && i < array->bytes / width; i++) {
        uint64_t bits = tn__random_next(&random);
        double real = (double)(bits >> 11) * 0x1p-52 - 1;
        uint8_t *at = (uint8_t *)array->data + i * width;
        if (array->dtype == TN_FLOAT32)
            memcpy(at, &(float){(float)real}, 4);
        else if (array->dtype == TN_FLOAT64)
            memcpy(at, &real, 8);
        else if (array->dtype == TN_FLOAT16)
            memcpy(at, &(uint16_t){(uint16_t)(0x3800u | (bits & 0x8000u) | (bits & 0x400u))}, 2);
        else if (array->dtype == TN_BFLOAT16)
            memcpy(at, &(uint16_t){(uint16_t)(0x3f00u | (bits & 0x8000u) | (bits & 0x80u))}, 2);
        else
            at[0] = (uint8_t)(bits >> 63);
    }
}

static void arrays_fill_ones(tn_array *array) {
    uint64_t width = tn_dtype_bits(array->dtype) / 8;
    for (uint64_t i = 0; width > 0 && i < array->bytes / width; i++) {
        uint8_t *at = (uint8_t *)array->data + i * width;
        if (array->dtype == TN_FLOAT32)
            memcpy(at, &(float){1}, 4);
        else if (array->dtype == TN_FLOAT64)
            memcpy(at, &(double){1}, 8);
        else if (array->dtype == TN_FLOAT16)
            memcpy(at, &(uint16_t){0x3c00u}, 2);
        else if (array->dtype == TN_BFLOAT16)
            memcpy(at, &(uint16_t){0x3f80u}, 2);
        else
            at[0] = 1;
    }
}

static tn_status arrays_from_file(const tn_tensor *tensor, const char *path, tn_array *array,
                                  tn_error *error) {
    tn_array loaded = {0};
    TN_TRY(tn_array_load(path, NULL, &loaded, error));
    bool same = loaded.dtype == tensor->dtype && loaded.rank == tensor->rank;
    for (uint32_t d = 0; same && d < tensor->rank; d++) same = loaded.shape[d] == tensor->shape[d];
    if (same) memcpy(array->data, loaded.data, array->bytes);
    tn_status status = TN_OK;
    if (!same) {
        char shape[200] = "";
        size_t used = 0;
        for (uint32_t d = 0; d < tensor->rank && used + 24 < sizeof shape; d++)
            used += (size_t)snprintf(shape + used, sizeof shape - used, "%s%lld", d ? "," : "",
                                     (long long)tensor->shape[d]);
        status = tn__fail(
            error, TN_E_INVALID,
            "%.100s: not %s [%s], which input '%.60s' needs; give an array of that type and shape",
            path, tn_dtype_name(tensor->dtype), shape, tensor->name);
    }
    tn_array_release(&loaded, NULL);
    return status;
}

static tn_status arrays_input(const tn_tensor *tensor, const char *what, tn_array *array,
                              tn_error *error) {
    TN_TRY(arrays_make(tensor, array, error));
    uint64_t seed = 0;
    char *end;
    if (strcmp(what, "zeros") == 0) return TN_OK;
    if (strcmp(what, "ones") == 0) {
        arrays_fill_ones(array);
        return TN_OK;
    }
    if (strncmp(what, "random", 6) != 0 || (what[6] != '\0' && what[6] != ':'))
        return arrays_from_file(tensor, what, array, error);
    if (what[6] == ':') {
        seed = strtoull(what + 7, &end, 10);
        if (what[7] == '\0' || *end != '\0')
            TN_FAIL(error, TN_E_INVALID, "'%.80s' has no valid seed; write random:SEED", what);
    }
    arrays_draw(array, tensor->name, seed);
    return TN_OK;
}

/* Allocates an array for each output of the graph. */
static tn_status arrays_outputs(const tn_graph *graph, run_arrays *arrays, tn_error *error) {
    const tn_block *block = tn_graph_block(graph, 0);
    arrays->outputs = calloc((size_t)block->output_count + 1, sizeof *arrays->outputs);
    if (arrays->outputs == NULL) return tn__no_memory(error, "outputs");
    arrays->output_count = block->output_count;
    for (uint32_t k = 0; k < block->output_count; k++)
        TN_TRY(arrays_make(tn_graph_tensor(graph, block->outputs[k]), &arrays->outputs[k], error));
    return TN_OK;
}

#define ARRAYS_NAMES_TEXT 200

/* Reports an input name of --input that the model does not have. The message lists the model's
 * inputs, as many as fit. */
static tn_status arrays_unknown(const tn_graph *graph, const char *name, tn_error *error) {
    const tn_block *block = tn_graph_block(graph, 0);
    char names[ARRAYS_NAMES_TEXT] = "";
    size_t used = 0;
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        if (tn_tensor_is_static(tensor) || used + strlen(tensor->name) + 3 > sizeof names) continue;
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used > 0 ? ", " : "",
                                 tensor->name);
    }
    TN_FAIL(error, TN_E_INVALID, "--input: the model has no input '%.80s'; its inputs are %s", name,
            used > 0 ? names : "none");
}

static tn_status arrays_inputs(const tn_graph *graph, const run_given *given, uint32_t given_count,
                               bool *used, run_arrays *arrays, tn_error *error) {
    const tn_block *block = tn_graph_block(graph, 0);
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        const char *what = "random:0";
        if (tn_tensor_is_static(tensor)) continue;
        for (uint32_t g = 0; g < given_count; g++) {
            if (strcmp(given[g].name, tensor->name) != 0) continue;
            what = given[g].what;
            used[g] = true;
        }
        TN_TRY(arrays_input(tensor, what, &arrays->inputs[arrays->input_count++], error));
    }
    for (uint32_t g = 0; g < given_count; g++)
        if (!used[g]) return arrays_unknown(graph, given[g].name, error);
    return TN_OK;
}

/* Fills the inputs and allocates the outputs. An input without --input is filled with random
 * numbers of seed 0. */
static tn_status arrays_prepare(const cli_opened_model *opened, const run_given *given,
                                uint32_t given_count, run_arrays *arrays, tn_error *error) {
    const tn_block *block = tn_graph_block(opened->graph, 0);
    bool *used = calloc((size_t)given_count + 1, sizeof *used);
    arrays->inputs = calloc((size_t)block->input_count + 1, sizeof *arrays->inputs);
    tn_status status =
        used != NULL && arrays->inputs != NULL ? TN_OK : tn__no_memory(error, "inputs");
    if (status == TN_OK)
        status = arrays_inputs(opened->graph, given, given_count, used, arrays, error);
    if (status == TN_OK) status = arrays_outputs(opened->graph, arrays, error);
    free(used);
    return status;
}

/* Sets `bytes` of each output array to the array's capacity again. A run had set `bytes` to the
 * number of bytes that it wrote. */
static void arrays_reset(const tn_graph *graph, run_arrays *arrays) {
    const tn_block *block = tn_graph_block(graph, 0);
    for (uint32_t k = 0; k < arrays->output_count; k++)
        arrays->outputs[k].bytes = tn_graph_tensor(graph, block->outputs[k])->bytes;
}

static void arrays_release(run_arrays *arrays) {
    for (uint32_t i = 0; i < arrays->input_count; i++) free(arrays->inputs[i].data);
    for (uint32_t k = 0; k < arrays->output_count; k++) free(arrays->outputs[k].data);
    free(arrays->inputs);
    free(arrays->outputs);
}

static const char *arrays_output_name(const cli_opened_model *opened, uint32_t index) {
    const tn_block *block = tn_graph_block(opened->graph, 0);
    return tn_graph_tensor(opened->graph, block->outputs[index])->name;
}

/* --- the options of `tenure run` --- */

#define RUN_HOLDERS_MANY 10u
#define RUN_REPEAT_MOST (UINT64_C(1) << 40)
#define RUN_INPUTS_MAX 256u /* largest number of --input options */

enum {
    RUN_INPUT = 400,
    RUN_OUTPUT_DIR,
    RUN_POOL,
    RUN_REPEAT,
    RUN_HOLDERS,
    RUN_JSON,
    RUN_WEIGHTS_DTYPE
};

#define RUN_OPTIONS(X)                                                                             \
    X(RUN_INPUT, "input", "NAME=DATA",                                                             \
      "data of an input: a .npy or .pb file, random:SEED, ones or zeros; may be repeated "         \
      "(default: random:0)")                                                                       \
    X(RUN_OUTPUT_DIR, "output-dir", "DIR", "write each output to this folder as .npy")             \
    X(RUN_POOL, "pool", "NAME",                                                                    \
      "allocate weights and buffers from a pool instead of a plan: one of `tenure list pools`; "   \
      "--budget is its size")                                                                      \
    X(RUN_REPEAT, "repeat", "N", "run N times and print the fastest time (default: 1)")            \
    X(RUN_WEIGHTS_DTYPE, "weights-dtype", "TYPE",                                                  \
      "type of the weights of convolutions and matrix products: f32, or int8 with a scale per "    \
      "channel; results change (default: f32)")                                                    \
    X(RUN_JSON, "json", NULL, "print one JSON object instead of the table")

typedef struct run_arguments {
    cli_input input;
    cli_opened_model opened;
    run_given given[RUN_INPUTS_MAX];
    uint32_t given_count;
    const char *output_dir;
    uint32_t holders; /* number of largest holders to print; 0: none */
    uint64_t repeat;
    bool json;
    double best_s;
    run_arrays arrays;
} run_arguments;

static const struct argp_option run_options[] = {
    RUN_OPTIONS(CLI_OPTION){
        "holders", RUN_HOLDERS, "N", OPTION_ARG_OPTIONAL,
        "list the N largest tensors in the arena, or blocks in the pool, at the peak (default: 10)",
        0},
    {0}};

static void run_add_input(struct argp_state *state, run_arguments *arguments, char *text) {
    char *equals = strrchr(text, '=');
    if (equals == NULL || equals == text)
        cli_misuse(state,
                   "--input: '%s' is invalid; write NAME=file.npy, NAME=random:SEED or NAME=ones",
                   text);
    if (arguments->given_count == RUN_INPUTS_MAX)
        cli_misuse(state, "--input: at most 256 inputs are supported");
    *equals = '\0';
    arguments->given[arguments->given_count++] =
        (run_given){.name = text, .what = cli_standard_value(state, "--input", equals + 1)};
}

static error_t run_parse(int key, char *value, struct argp_state *state) {
    run_arguments *arguments = state->input;
    cli_opened_model *opened = &arguments->opened;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &arguments->input;
        state->child_inputs[1] = opened;
        state->child_inputs[2] = &arguments->input.split;
        state->child_inputs[3] = opened;
        state->child_inputs[4] = opened;
        state->child_inputs[5] = &arguments->input.streams;
        return 0;
    case RUN_INPUT:
        run_add_input(state, arguments, value);
        return 0;
    case RUN_OUTPUT_DIR:
        if (arguments->output_dir != NULL)
            cli_misuse(state, "--output-dir: give this option only once");
        if (strcmp(value, "-") == 0)
            cli_misuse(state, "--output-dir: '-' is not a folder; give the name of one");
        arguments->output_dir = value;
        return 0;
    case RUN_POOL:
        opened->pool = value;
        return 0;
    case RUN_REPEAT:
        arguments->repeat = cli_count(state, "repeat", value, RUN_REPEAT_MOST);
        return 0;
    case RUN_HOLDERS:
        arguments->holders = value != NULL
                                 ? (uint32_t)cli_count(state, "holders", value, UINT32_MAX)
                                 : RUN_HOLDERS_MANY;
        return 0;
    case RUN_JSON:
        arguments->json = true;
        return 0;
    case RUN_WEIGHTS_DTYPE:
        opened->weights_dtype =
            CLI_CHOICE(state, "weights-dtype", value, "f32", "int8") ? TN_INT8 : TN_UNDEFINED;
        return 0;
    case ARGP_KEY_ARG:
        cli_input_take(&arguments->input, state, "model", value);
        return 0;
    case ARGP_KEY_END:
        if (arguments->input.path == NULL) cli_misuse(state, "which model?");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const char run_doc[] =
    "Runs MODEL in one arena of exactly the planned size, with every tensor at its planned "
    "address.\v"
    "Examples:\n"
    "  tenure run mobilenet.onnx --input image=cat.npy --output-dir out\n"
    "  tenure run resnet50.onnx --weights random:1 --threads 2 --repeat 10\n"
    "  tenure run unet.onnx --check naive --poison --json\n"
    "  tenure run model.onnx --budget 96MiB --trace run.trace.json\n"
    "  tenure run model.onnx --pool best-fit --trace run.trace.csv && tenure replay "
    "run.trace.csv\n\n"
    "Exit status: 0 done; 1 the budget is too small, or the run violated the plan; 2 bad usage or "
    "input; "
    "3 stopped before a plan, 4 internal error.";

/* --- running --- */

static tn_status run_all(run_arguments *arguments, tn_error *error) {
    cli_opened_model *opened = &arguments->opened;
    run_arrays *arrays = &arguments->arrays;
    tn_engine_usage usage;
    for (uint64_t i = 0; i < arguments->repeat; i++) {
        arrays_reset(opened->graph, arrays);
        TN_TRY(tn_engine_run(opened->engine, arrays->inputs, arrays->input_count, arrays->outputs,
                             arrays->output_count, error));
        tn_engine_measure(opened->engine, &usage);
        if (i == 0 || usage.seconds < arguments->best_s) arguments->best_s = usage.seconds;
    }
    return TN_OK;
}

static tn_status run_compare(const cli_opened_model *opened, const run_arrays *planned,
                             const run_arrays *naive, tn_error *error) {
    for (uint32_t k = 0; k < planned->output_count; k++) {
        const tn_array *a = &planned->outputs[k], *b = &naive->outputs[k];
        bool same = a->bytes == b->bytes && a->rank == b->rank;
        for (uint32_t d = 0; same && d < a->rank; d++) same = a->shape[d] == b->shape[d];
        uint64_t at = 0;
        while (same && at < a->bytes && ((uint8_t *)a->data)[at] == ((uint8_t *)b->data)[at]) at++;
        if (same && at == a->bytes) continue;
        TN_FAIL(error, TN_E_CONFLICT,
                "output '%.80s' differs from byte %llu on, so the plan lets conflicting buffers "
                "overlap; please report this bug",
                arrays_output_name(opened, k), (unsigned long long)at);
    }
    return TN_OK;
}

static tn_status run_check(run_arguments *arguments, tn_error *error) {
    cli_opened_model naive = {0};
    run_arrays arrays = {0};
    const run_arrays *inputs = &arguments->arrays;
    tn_status status = cli_opened_model_naive(&arguments->opened, &naive, error);
    if (status == TN_OK) status = arrays_outputs(arguments->opened.graph, &arrays, error);
    for (uint64_t i = 0; i < arguments->repeat && status == TN_OK; i++) {
        arrays_reset(naive.graph, &arrays);
        status = tn_engine_run(naive.engine, inputs->inputs, inputs->input_count, arrays.outputs,
                               arrays.output_count, error);
    }
    if (status == TN_OK)
        status = run_compare(&arguments->opened, &arguments->arrays, &arrays, error);
    arrays_release(&arrays);
    cli_opened_model_close(&naive);
    return status;
}

/* --- output --- */

static tn_status run_holders(const cli_opened_model *opened, tn_holders_when when,
                             cli_holders *holders, tn_error *error) {
    if (opened->pool == NULL)
        return cli_holders_of_model(holders, tn_setup_occupancy(opened->setup), TN_NONE, error);
    return cli_holders_of_pool(holders, tn_engine_pool(opened->engine), opened->pool, when, error);
}

/* Makes a file name of an output's name: every character except letters, digits, dots and dashes
 * becomes an underscore, and so does a dot at the start. */
static void run_file_name(const char *name, char *text, size_t room) {
    size_t used = 0;
    for (; *name != '\0' && used + 1 < room; name++) {
        bool plain = (*name >= 'a' && *name <= 'z') || (*name >= 'A' && *name <= 'Z') ||
                     (*name >= '0' && *name <= '9') || *name == '-' || (*name == '.' && used > 0);
        text[used++] = plain ? *name : '_';
    }
    text[used] = '\0';
}

static tn_status run_write(const run_arguments *arguments, tn_error *error) {
    if (arguments->output_dir == NULL) return TN_OK;
    /* errors are ignored, because writing the first file reports a missing folder */
    (void)mkdir(arguments->output_dir, 0777);
    for (uint32_t k = 0; k < arguments->arrays.output_count; k++) {
        char name[128], path[4096];
        run_file_name(arrays_output_name(&arguments->opened, k), name, sizeof name);
        /* if two outputs have one file name, the number of the second output is appended to its
         * name */
        bool taken = false;
        for (uint32_t other = 0; other < k && !taken; other++) {
            char before[sizeof name];
            run_file_name(arrays_output_name(&arguments->opened, other), before, sizeof before);
            taken = strcmp(before, name) == 0;
        }
        int length =
            taken ? snprintf(path, sizeof path, "%s/%s-%u.npy", arguments->output_dir, name, k)
                  : snprintf(path, sizeof path, "%s/%s.npy", arguments->output_dir, name);
        if (length >= (int)sizeof path)
            TN_FAIL(error, TN_E_INVALID, "--output-dir: the path is too long; use a shorter one");
        TN_TRY(tn_array_save(path, &arguments->arrays.outputs[k], NULL, error));
    }
    return TN_OK;
}

static void run_checksum(const tn_array *array, char text[17]) {
#ifdef TENURE_MINIMAL
    (void)array;
    snprintf(text, 17, "-");
#else
    snprintf(text, 17, "%016" PRIx64, (uint64_t)XXH3_64bits(array->data, array->bytes));
#endif
}

static void run_shape(const tn_array *array, char *text, size_t room) {
    size_t used = (size_t)snprintf(text, room, "[");
    for (uint32_t d = 0; d < array->rank && used + 24 < room; d++)
        used += (size_t)snprintf(text + used, room - used, "%s%lld", d ? "," : "",
                                 (long long)array->shape[d]);
    snprintf(text + used, room - used, "]");
}

static const cli_facts run_output_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "name", "output", "name of the output"),
        CLI_FACT(WORD, "dtype", NULL, "element type"),
        CLI_FACT_OF(LIST, "shape", "its dimensions", NULL),
        CLI_FACT(BYTES, "bytes", NULL, "its bytes"),
        CLI_FACT(WORD, "xxh3", NULL, "XXH3 checksum of its bytes, hexadecimal"), CLI_FACTS_END}};
static const cli_facts run_facts = {
    .name = "run",
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "input", NULL, "path of the model"),
        CLI_FACTS_ALSO(&cli_kernel_target_facts),
        CLI_FACTS_ALSO(&cli_fitted_facts),
        CLI_FACTS_ALSO(&cli_split_facts),
        CLI_FACT(BYTES, "planned_peak", "planned peak", "peak of the arena in the plan"),
        CLI_FACT(WORD, "pool", "pool", "with --pool: its name, instead of `planned_peak`"),
        CLI_FACT_BRIEF(BYTES, "measured_peak", "measured peak", "@ measured",
                       "highest byte of the arena that the run used"),
        CLI_FACT(BYTES, "arena", NULL, "bytes of the arena"),
        CLI_FACT(BYTES, "weights", "weights", "bytes of the weights in memory"),
        CLI_FACTS_ALSO(&cli_stream_facts),
        CLI_FACTS_ALSO(&cli_experts_facts),
        CLI_FACTS_ALSO(&cli_losses_facts),
        CLI_FACTS_ALSO(&cli_streams_facts),
        CLI_FACT(SECONDS, "seconds", "time", "wall time of the fastest run"),
        CLI_FACT(COUNT, "runs", NULL, "number of runs"),
        CLI_FACT(COUNT, "threads", NULL, "number of threads"),
        CLI_FACTS_ALSO(&cli_check_facts),
        CLI_FACT_OF(LIST, "outputs", "the outputs", &run_output_facts),
        CLI_FACTS_ALSO(&cli_pruned_facts),
        CLI_FACTS_ALSO(&cli_claims_facts),
        CLI_FACTS_ALSO(&cli_holders_facts),
        CLI_FACTS_END}};

static void run_add_output(cli_answer *answer, const cli_opened_model *opened, uint32_t k,
                           const tn_array *array) {
    char sum[17], shape[512];
    run_checksum(array, sum);
    run_shape(array, shape, sizeof shape);
    cli_answer_open(answer, NULL);
    cli_add_word(answer, "name", arrays_output_name(opened, k));
    cli_add_more(answer, " %s %s, checksum %s", tn_dtype_name(array->dtype), shape, sum);
    cli_add_word(answer, "dtype", tn_dtype_name(array->dtype));
    cli_answer_open(answer, "shape");
    for (uint32_t d = 0; d < array->rank; d++) cli_add_number(answer, array->shape[d]);
    cli_answer_close(answer);
    cli_add(answer, "bytes", array->bytes);
    cli_add_word(answer, "xxh3", sum);
    cli_answer_close(answer);
}

static void run_add_memory(cli_answer *answer, const run_arguments *arguments,
                           const tn_engine_usage *usage) {
    const cli_opened_model *opened = &arguments->opened;
    if (opened->pool == NULL)
        cli_add(answer, "planned_peak", usage->planned_peak);
    else
        cli_add_word(answer, "pool", opened->pool);
    cli_add(answer, "measured_peak", usage->measured_peak);
    cli_add(answer, "arena", usage->arena);
    cli_add(answer, "weights", usage->static_bytes);
    cli_stream_add(answer, opened->setup, usage);
    cli_experts_add(answer, opened->setup, usage);
    cli_engine_losses_add(answer, opened->engine);
    cli_streams_add(answer, &arguments->input.streams, opened->setup, usage);
    if (opened->weights != NULL)
        cli_add_line(answer, "", "%u tensors of %s", opened->weights_taken, opened->weights_path);
    cli_add_real(answer, "seconds", arguments->best_s);
    cli_add_as(answer, "%.3f ms%s, %u thread%s", arguments->best_s * 1e3,
               arguments->repeat > 1 ? " (fastest)" : "", opened->choices.threads,
               opened->choices.threads == 1 ? "" : "s");
    cli_add_brief(answer, ", %.3f ms", arguments->best_s * 1e3);
    cli_add(answer, "runs", usage->run_count);
    cli_add(answer, "threads", opened->choices.threads);
}

static tn_status run_print(const run_arguments *arguments, const cli_holders *holders,
                           tn_error *error) {
    const cli_opened_model *opened = &arguments->opened;
    const cli_kernel_target target = cli_opened_model_target(opened);
    tn_engine_usage usage;
    cli_answer answer;
    tn_engine_measure(opened->engine, &usage);
    cli_answer_begin(&answer, &run_facts, arguments->json);
    cli_add_brief(&answer, "%s: ", cli_shown_path(arguments->input.path));
    cli_add_word(&answer, "input", cli_shown_path(arguments->input.path));
    cli_kernel_target_add(&answer, &target, opened->setup);
    cli_fitted_add(&answer, opened->setup, &opened->answer);
    cli_split_add(&answer, opened->setup);
    run_add_memory(&answer, arguments, &usage);
    cli_check_add(&answer, opened);
    if (opened->check) cli_add_brief(&answer, ", every bit equal without reuse");
    cli_answer_open(&answer, "outputs");
    for (uint32_t k = 0; k < arguments->arrays.output_count; k++)
        run_add_output(&answer, opened, k, &arguments->arrays.outputs[k]);
    cli_answer_close(&answer);
    cli_pruned_add(&answer, opened);
    cli_claims_add(&answer, &opened->answer);
    if (arguments->holders > 0) cli_holders_add(&answer, holders, arguments->holders);
    return cli_answer_end(&answer, error);
}

static tn_status run_model(run_arguments *arguments, tn_error *error) {
    cli_opened_model *opened = &arguments->opened;
    TN_TRY(cli_opened_model_plan(opened, error));
    TN_TRY(arrays_prepare(opened, arguments->given, arguments->given_count, &arguments->arrays,
                          error));
    TN_TRY(cli_opened_model_open_trace(opened, arguments->repeat, error));
    TN_TRY(cli_opened_model_start(opened, error));
    TN_TRY(run_all(arguments, error));
    if (opened->check) TN_TRY(run_check(arguments, error));
    TN_TRY(run_write(arguments, error));
    TN_TRY(cli_opened_model_write_trace(opened, error));
    if (opened->traces.count > 0 && tn_trace_dropped(opened->trace) > 0) {
        cli_prefix(CLI_WARNING);
        fprintf(stderr, "the trace is full and misses %" PRIu64 " events; lower --repeat\n",
                tn_trace_dropped(opened->trace));
    }
    cli_holders holders = {0};
    tn_status status = TN_OK;
    if (arguments->holders > 0) status = run_holders(opened, TN_HOLDERS_PEAK, &holders, error);
    cli_progress_end();
    if (status == TN_OK) status = run_print(arguments, &holders, error);
    cli_holders_release(&holders);
    if (status != TN_OK) return status;
    bool silent = arguments->json || cli_tone_asked().brief;
    if (!silent) cli_paths_print(&opened->traces);
    return TN_OK;
}

/* After a run for which memory was too small: prints the tensors that hold memory, at the peak of
 * the smallest plan, or at the time when the pool was full. */
static void run_print_failed(const run_arguments *arguments) {
    const cli_opened_model *opened = &arguments->opened;
    cli_holders holders = {0};
    tn_error unused;
    if (opened->answer.own != NULL && opened->answer.setup == NULL) {
        cli_claims_holders(&opened->answer);
        return;
    }
    bool there = opened->pool != NULL ? opened->engine != NULL : opened->setup != NULL;
    if (there && run_holders(opened, TN_HOLDERS_FAILED, &holders, &unused) == TN_OK)
        cli_holders_print(&holders, RUN_HOLDERS_MANY, stderr);
    cli_holders_release(&holders);
}

static const struct argp_child run_children[] = {
    {&cli_input_run_argp, 0, "Reading the model:", 0},
    {&cli_opened_model_argp, 0, "Running it:", 0},
    {&cli_split_argp, 0, "Operators in tiles:", 0},
    {&cli_pruned_argp, 0, "Pruning its weights:", 0},
    {&cli_streamed_argp, 0, "Streaming its weights:", 0},
    {&cli_streams_argp, 0, "Streams and groups:", 0},
    {0}};
static const struct argp run_parser = {run_options,  run_parse, "MODEL", run_doc,
                                       run_children, 0,         0};

static int run_run(int count, char **words) {
    tn_context context = cli_context();
    run_arguments arguments = {
        .repeat = 1,
        .input = {.import = TN_IMPORT_OPTIONS_INIT},
        .opened = {.choices = CLI_CHOICES_INIT},
    };
    tn_error error = {0};
    arguments.opened.input = &arguments.input;
    arguments.input.import.context = arguments.opened.choices.plan.context = &context;
    cli_parse(&cli_command_run, count, words, &arguments);
    cli_context_read(&context);
    tn_status status = run_model(&arguments, &error);
    int code = 0;
    if (status != TN_OK && arguments.opened.answer.setup == NULL)
        code = cli_claims_fail(&arguments.opened.answer, arguments.input.path, &error);
    else if (status != TN_OK)
        code = cli_fail(&error);
    if (status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE) run_print_failed(&arguments);
    arrays_release(&arguments.arrays);
    cli_opened_model_close(&arguments.opened);
    cli_input_release(&arguments.input);
    return cli_finish(code);
}

const cli_command cli_command_run = {
    .name = "run",
    .summary = "run a model in its planned arena, and check the plan",
    .first = "input output-dir weights budget dim threads check trace holders json",
    .answers = (const cli_facts *const[]){&run_facts, NULL},
    .parser = &run_parser,
    .run = run_run,
};
