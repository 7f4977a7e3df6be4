/* estimate.c - `tenure estimate`: estimates the memory of a model, and whether it fits into a
 * device. */
#include "base/base.h"
#include "cli/command_line/combine.h"
#include "cli/estimate/estimate.h"
#include "cli/model/compile_options.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ESTIMATE_MOST (UINT64_C(1) << 40) /* largest value of every option that is a count */

enum {
    ESTIMATE_TRAIN = 400,
    ESTIMATE_AS,
    ESTIMATE_BATCH,
    ESTIMATE_ALLOC,
    ESTIMATE_RELEASE,
    ESTIMATE_POOL,
    ESTIMATE_DEVICE,
    ESTIMATE_RUNTIME,
    ESTIMATE_MAX_BATCH,
    ESTIMATE_PARALLEL,
    ESTIMATE_HOST_LAYERS,
    ESTIMATE_HOST_EXPERTS,
    ESTIMATE_CACHED_EXPERTS,
    ESTIMATE_RECOMPUTE,
    ESTIMATE_SEQUENCE,
    ESTIMATE_MICRO,
    ESTIMATE_SEQUENCE_PARALLEL,
    ESTIMATE_KERNELS,
    ESTIMATE_WEIGHT_TYPE,
    ESTIMATE_CACHE_TYPE,
    ESTIMATE_PREFILL,
    ESTIMATE_FULL_CACHE,
    ESTIMATE_ATTENTION,
    ESTIMATE_LOSS_CHUNK,
    ESTIMATE_BUDGET,
    ESTIMATE_ALLOW,
    ESTIMATE_LINK,
    ESTIMATE_JSON
};

#define ESTIMATE_OPTIONS(X)                                                                        \
    X(ESTIMATE_TRAIN, "train", NULL, "estimate a training step: forward, backward, update")        \
    X(ESTIMATE_AS, "as", "pytorch",                                                                \
      "with --train: estimate eager PyTorch on the CPU instead of Tenure")                         \
    X(ESTIMATE_BATCH, "batch", "N",                                                                \
      "batch size, the first dimension of the inputs (default: as in the file)")                   \
    X(ESTIMATE_ALLOC, "alloc-policy", "demand|start",                                              \
      "when memory is allocated: at the first write, or at the start of the run (default: "        \
      "demand)")                                                                                   \
    X(ESTIMATE_RELEASE, "release-policy", "death|exit",                                            \
      "when memory is released: at the end of the live range, or at the end of the run (default: " \
      "death)")                                                                                    \
    X(ESTIMATE_POOL, "pool", "NAME",                                                               \
      "use a memory pool instead of a plan: one of `tenure list pools`")                           \
    X(ESTIMATE_DEVICE, "device", "NAME|SIZE",                                                      \
      "check that it fits in this device: one of `tenure list hardware`, or bytes; exit status 1 " \
      "if it does not fit")                                                                        \
    X(ESTIMATE_RUNTIME, "runtime", "SIZE|NAME",                                                    \
      "bytes that the runtime needs for itself (default: 0, and 512MiB of a named device for its " \
      "context); for running a language model also "                                               \
      "llama.cpp, vllm, transformers, or none for a lower bound (default: llama.cpp for .gguf, "   \
      "else transformers)")                                                                        \
    X(ESTIMATE_MAX_BATCH, "max-batch", NULL, "find the largest batch that fits in --device")       \
    X(ESTIMATE_KERNELS, "kernels", "LIBRARY",                                                      \
      "count scratch memory and packed weights of a kernel library: onednn or plain, as in "       \
      "`tenure run` and `tenure train` on this machine, or none; for .tflite reference, "          \
      "cmsis-nn, "                                                                                 \
      "cmsis-nn@VERSION or any (default: none; reference for .tflite)")                            \
    X(ESTIMATE_WEIGHT_TYPE, "weight-type", "TYPE",                                                 \
      "for running a language model: type of its weights, f32, bf16, f8, int8, int4, nf4, gptq, "  \
      "awq, mxfp4, or a llama.cpp mix such as q4_k_m (default: as in the file)")                   \
    X(ESTIMATE_CACHE_TYPE, "cache-type", "TYPE",                                                   \
      "type of a language model's KV cache: f32, bf16, f16, f8_e4m3, i8, q8_0, q4_0 (default: "    \
      "bf16)")                                                                                     \
    X(ESTIMATE_PREFILL, "prefill", "N",                                                            \
      "tokens of all sequences in one forward pass of a language model (default: as in the "       \
      "runtime: llama.cpp 512, vllm 8192, transformers all)")                                      \
    X(ESTIMATE_FULL_CACHE, "full-cache", NULL,                                                     \
      "keep the keys and values of all tokens in layers with sliding-window attention, as some "   \
      "runtimes do")                                                                               \
    X(ESTIMATE_PARALLEL, "parallel", "tensor=N,pipeline=N,data=N|auto",                            \
      "ranks that share the training. With --train of an .onnx file each rank is planned "         \
      "(pipeline needs --micro-batches). A transformer is estimated by formulas (interleave=N: "   \
      "pieces of a stage); auto finds the fastest division that fits in --device. For running a "  \
      "language model: devices that share it, tensor=N (a part of every matrix) or pipeline=N "    \
      "(whole layers). serial or safe: see `tenure plan`")                                         \
    X(ESTIMATE_HOST_LAYERS, "host-layers", "N",                                                    \
      "keep the first N layers of a language model, with their KV cache, in host memory; with "    \
      "more than all, also the output matrix (default: 0)")                                        \
    X(ESTIMATE_HOST_EXPERTS, "host-experts", "N|all",                                              \
      "for running a language model: keep the experts of the first N layers in host memory "       \
      "(default: 0)")                                                                              \
    X(ESTIMATE_CACHED_EXPERTS, "cached-experts", "N",                                              \
      "with --host-experts: keep copies of N experts per layer on the device (default: 0)")        \
    X(ESTIMATE_RECOMPUTE, "recompute", "none|selective|full|PATTERN",                              \
      "recomputation in the layers of a transformer (default: none); for a model file: as in "     \
      "`tenure train`")                                                                            \
    X(ESTIMATE_ATTENTION, "attention", "fused|unfused",                                            \
      "attention of a transformer: fused keeps no scores, unfused keeps all, as in the formulas "  \
      "of 2022 (default: fused)")                                                                  \
    X(ESTIMATE_LOSS_CHUNK, "loss-chunk", "N",                                                      \
      "number of tokens whose logits and loss are computed at a time (default: all)")              \
    X(ESTIMATE_SEQUENCE, "sequence", "N", "tokens per sequence (default: the model's maximum)")    \
    X(ESTIMATE_MICRO, "micro-batch", "N",                                                          \
      "sequences in one pass through the pipeline (default: 1)")                                   \
    X(ESTIMATE_SEQUENCE_PARALLEL, "sequence-parallel", NULL,                                       \
      "also divide normalisations, dropout and residuals among tensor ranks")                      \
    X(ESTIMATE_BUDGET, "budget", "SIZE",                                                           \
      "bytes for arena and weights; activations are recomputed to meet it, as in `tenure fit`, "   \
      "and the extra time is predicted from the rates of the device (default: no limit)")          \
    X(ESTIMATE_ALLOW, "allow", "TECHNIQUE,...",                                                    \
      "techniques to meet the budget: order, recompute, swap, split (default: "                    \
      "order,recompute,split, and swap with --link)")                                              \
    X(ESTIMATE_LINK, "link", "SIZE/s",                                                             \
      "allow swapping to the host to meet the budget, at this speed, such as 12GB/s; with "        \
      "--host-experts: the speed at which experts are copied to the device")                       \
    X('o', "output", "FILE",                                                                       \
      "write the estimated plan, as .html or any other format of `tenure plan`; may be repeated")  \
    X(ESTIMATE_JSON, "json", NULL, "print one JSON object instead of the table")

#define ESTIMATE_OUTPUTS_MAX 16u

typedef struct estimate_arguments {
    cli_estimate_request request;
    cli_large large;
    cli_cluster cluster;
    cli_llm llm;
    bool to_run;       /* true: the estimate is for running a language model, not for training it */
    char config[4096]; /* path of the config.json of a folder that --train estimates */
    const tn_hardware *device;
    const char *outputs[ESTIMATE_OUTPUTS_MAX];
    bool max_batch, json, has_runtime; /* has_runtime: the bytes of the runtime were given */
} estimate_arguments;

static const struct argp_option estimate_options[] = {ESTIMATE_OPTIONS(CLI_OPTION){0}};

/* --- options --- */

static void estimate_kernels(struct argp_state *state, cli_estimate_request *request,
                             const char *value) {
    cli_kernel_target target = {.threads = request->choices.threads};
    if (cli_kernel_target_parse(state, value, &target)) {
        request->runner = target.runner;
        request->choices.threads = target.threads;
        return;
    }
    request->input.tflm_kernels = cli_tflm_kernels_parse(state, value);
}

/* Parses --recompute: none, selective or full for the formulas; any other value is a pattern of
 * operators. */
static void estimate_recompute(struct argp_state *state, const char *value,
                               estimate_arguments *arguments) {
    static const char *const words[] = {"none", "selective", "full"};
    for (uint32_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(words[i], value) != 0) continue;
        arguments->large.how.recompute = (tn_recompute)i;
        arguments->large.asked = true;
        return;
    }
    cli_rule_add(state, &arguments->request.input, TN_RULE_RECOMPUTE, value);
}

static error_t estimate_parse_large(int key, char *value, struct argp_state *state,
                                    estimate_arguments *arguments) {
    cli_large *large = &arguments->large;
    switch (key) {
    case ESTIMATE_PARALLEL: {
        tn_parallel *parallel = &arguments->request.input.occupancy_options.parallel;
        if (strcmp(value, "auto") == 0) {
            cli_cluster_search(&arguments->cluster);
            large->asked = true;
            return 0;
        }
        if (strcmp(value, "serial") != 0 && strcmp(value, "safe") != 0) {
            cli_large_split(state, large, &arguments->request.ranks.grid, value);
            return 0;
        }
        *parallel = strcmp(value, "safe") == 0 ? TN_PARALLEL_SAFE : TN_PARALLEL_SERIAL;
        return 0;
    }
    case ESTIMATE_RECOMPUTE:
        estimate_recompute(state, value, arguments);
        return 0;
    case ESTIMATE_ATTENTION:
        large->how.attention =
            (tn_attention)CLI_CHOICE(state, "attention", value, "fused", "unfused");
        return 0;
    case ESTIMATE_LOSS_CHUNK:
        large->how.loss_tokens = cli_count(state, "loss-chunk", value, ESTIMATE_MOST);
        return 0;
    case ESTIMATE_SEQUENCE:
        large->how.sequence = cli_count(state, "sequence", value, ESTIMATE_MOST);
        return 0;
    case ESTIMATE_MICRO:
        large->how.micro = cli_count(state, "micro-batch", value, ESTIMATE_MOST);
        return 0;
    case ESTIMATE_SEQUENCE_PARALLEL:
        large->how.sequence_parallel = arguments->request.ranks.sequence = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t estimate_parse_llm(int key, char *value, struct argp_state *state, cli_llm *llm) {
    tn_error error;
    switch (key) {
    case ESTIMATE_WEIGHT_TYPE:
        if (tn_llm_scheme_find(value, &llm->scheme, &error) != TN_OK)
            cli_misuse(state, "--weight-type: %s", error.message);
        llm->options.scheme = &llm->scheme;
        break;
    case ESTIMATE_CACHE_TYPE:
        llm->options.cache_type = tn_weight_type_find(value);
        if (llm->options.cache_type == TN_WEIGHT_TYPE_COUNT)
            cli_misuse(state,
                       "--cache-type: '%s' is not one of f32, bf16, f16, f8_e4m3, i8, q8_0, q4_0 "
                       "(or another type of .gguf files)",
                       value);
        break;
    case ESTIMATE_PREFILL:
        llm->options.pass = cli_count(state, "prefill", value, ESTIMATE_MOST);
        break;
    case ESTIMATE_FULL_CACHE:
        llm->options.keep_all = true;
        break;
    case ESTIMATE_HOST_LAYERS:
        llm->options.host_layers = cli_count(state, "host-layers", value, ESTIMATE_MOST);
        break;
    case ESTIMATE_HOST_EXPERTS:
        llm->options.host_experts = strcmp(value, "all") == 0
                                        ? UINT64_MAX
                                        : cli_count(state, "host-experts", value, ESTIMATE_MOST);
        break;
    case ESTIMATE_CACHED_EXPERTS:
        llm->options.cached_experts = cli_count(state, "cached-experts", value, ESTIMATE_MOST);
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* Sets how devices divide a language model. They can divide it by tensor or by pipeline
 * parallelism, but not by both. */
static void estimate_set_devices(struct argp_state *state, estimate_arguments *arguments) {
    const tn_grid *grid = &arguments->request.ranks.grid;
    if (grid->data > 1 || (grid->tensor > 1 && grid->pipeline > 1))
        cli_misuse(state,
                   "--parallel: devices that run a language model share it by tensor=N or by "
                   "pipeline=N; a copy on other devices (data=N) takes as much again");
    arguments->llm.options.devices = grid->tensor > 1 ? grid->tensor : grid->pipeline;
    arguments->llm.options.by_tensor = grid->tensor > 1;
}

static bool estimate_asks_llm(const estimate_arguments *arguments) {
    const cli_estimate_request *request = &arguments->request;
    bool weights = tn_weights_recognises(request->input.path);
    return weights || (cli_llm_recognises(request->input.path) && !request->train);
}

/* Returns whether each rank is planned as `tenure train` does, instead of being estimated by
 * formulas. */
static bool estimate_plans_ranks(const estimate_arguments *arguments) {
    const cli_estimate_request *request = &arguments->request;
    const tn_large *large = &arguments->large.how;
    bool turns = request->training.options.micro_batches > 0 || request->ranks.scheduled;
    bool formulas = arguments->large.asked || arguments->cluster.asked || large->sequence > 0 ||
                    large->micro > 0 || (large->pipeline > 1 && !turns);
    return arguments->large.split && request->train && !request->pytorch &&
           request->options.pool == NULL && !formulas &&
           tn__has_suffix(request->input.path, ".onnx");
}

/* Divides the batch among the data-parallel ranks. A batch that cannot be divided equally is a
 * usage error. */
static void estimate_share(struct argp_state *state, cli_estimate_request *request) {
    uint32_t data = request->ranks.grid.data;
    if (request->batch % data != 0)
        cli_misuse(state,
                   "a batch of %" PRIu64
                   " cannot be divided equally among %u ranks; choose a multiple",
                   request->batch, data);
    request->batch /= data;
}

/* Checks --allow for --budget: `estimate` supports only techniques that can be planned without
 * running the model. */
static void estimate_set_fit(struct argp_state *state, cli_estimate_request *request) {
    const uint32_t can = TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SWAP | TN_FIT_SPLIT;
    if ((request->allow & ~can) != 0)
        cli_misuse(state, "--allow: `estimate` supports order, recompute, swap and split only");
    if (request->fit > 0) request->allow = cli_allow_complete(request->allow, request->link, NULL);
}

/* If the input of --train is a folder, estimates its config.json. */
static void estimate_train_folder(struct argp_state *state, estimate_arguments *arguments) {
    cli_estimate_request *request = &arguments->request;
    if (!tn_weights_is_folder(request->input.path)) return;
    int length = snprintf(arguments->config, sizeof arguments->config, "%s/config.json",
                          request->input.path);
    if (length < 0 || (size_t)length >= sizeof arguments->config)
        cli_misuse(state, "the path of the folder is longer than %zu bytes; use a shorter one",
                   sizeof arguments->config - 13);
    request->input.path = arguments->config;
}

/* Refuses a pattern in --recompute if the estimate is by formulas, for PyTorch, or for running a
 * language model. Patterns name operators, which only a model file has. */
static void estimate_check_recompute(struct argp_state *state, const estimate_arguments *arguments,
                                     bool formulas) {
    const tn_rules *rules = &arguments->request.input.rules;
    const char *pattern = NULL;
    for (uint32_t i = 0; i < rules->count; i++)
        if (rules->list[i].kind == TN_RULE_RECOMPUTE) pattern = rules->list[i].pattern;
    if (pattern != NULL && (formulas || arguments->to_run || arguments->request.pytorch))
        cli_misuse(state,
                   "--recompute: '%s' is a pattern of operators, which needs a model file and "
                   "Tenure's own training; write none, selective or full for formulas",
                   pattern);
}

static void estimate_set(struct argp_state *state, estimate_arguments *arguments) {
    cli_estimate_request *request = &arguments->request;
    if (request->input.path == NULL)
        cli_misuse(state, "no model given; pass a model file or the folder of a language model");
    if (request->train) estimate_train_folder(state, arguments);
    if (estimate_plans_ranks(arguments))
        estimate_share(state, request);
    else if (!estimate_asks_llm(arguments))
        arguments->large.asked |= arguments->large.split || request->ranks.shard != TN_SHARD_NONE;
    arguments->large.how.shard = request->ranks.shard;
    bool formulas = arguments->large.asked || tn__has_suffix(request->input.path, ".json");
    arguments->to_run = estimate_asks_llm(arguments);
    if (arguments->to_run) estimate_set_devices(state, arguments);
    estimate_set_fit(state, request);
    formulas &= !arguments->to_run;
    estimate_check_recompute(state, arguments, formulas);
    if (arguments->has_runtime && arguments->device != NULL)
        request->limit = arguments->device->usable;
    bool scales = arguments->cluster.sweep && formulas;
    if (scales && (request->output_count > 1 ||
                   (request->output_count == 1 && !tn__has_suffix(request->outputs[0], ".svg"))))
        cli_misuse(state, "--sweep -o FILE: give a single .svg file");
    bool plans = !formulas && !arguments->to_run && request->options.pool == NULL &&
                 request->options.alloc == TN_ALLOC_ON_DEMAND &&
                 request->options.release == TN_RELEASE_ON_DEATH;
    cli_condition_set(CLI_IF_TO_RUN, arguments->to_run);
    cli_condition_set(CLI_IF_FORMULAS, formulas);
    cli_condition_set(CLI_IF_CONFIG, formulas && tn__has_suffix(request->input.path, ".json"));
    cli_condition_set(CLI_IF_WEIGHTS_FILE, tn_weights_recognises(request->input.path));
    cli_condition_set(CLI_IF_RUNTIME_NAME, arguments->llm.runtime_named);
    cli_condition_set(CLI_IF_PLANNED, plans || scales);
    cli_condition_set(CLI_IF_ONNX_PLAN, plans && !request->pytorch &&
                                            !tn__has_suffix(request->input.path, ".tflite"));
    cli_condition_set(CLI_IF_DEVICE_SPEED, arguments->device != NULL);
    cli_condition_set(CLI_IF_DIVIDED, arguments->large.split);
    cli_condition_set(CLI_IF_SEARCHES, arguments->cluster.search);
    cli_ranks_conditions(&request->ranks, request->ranks.grid.data > 1);
    arguments->large.asked = formulas;
}

static error_t estimate_parse(int key, char *value, struct argp_state *state) {
    estimate_arguments *arguments = state->input;
    cli_estimate_request *request = &arguments->request;
    if (estimate_parse_large(key, value, state, arguments) == 0) return 0;
    if (estimate_parse_llm(key, value, state, &arguments->llm) == 0) return 0;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &request->input;
        state->child_inputs[1] = &request->training;
        state->child_inputs[2] = &request->choices;
        state->child_inputs[3] = &arguments->cluster;
        state->child_inputs[4] = &request->ranks;
        return 0;
    case ESTIMATE_TRAIN:
        request->train = true;
        return 0;
    case ESTIMATE_AS:
        (void)CLI_CHOICE(state, "as", value, "pytorch");
        request->pytorch = request->train = true;
        return 0;
    case ESTIMATE_BATCH:
        request->batch = cli_count(state, "batch", value, ESTIMATE_MOST);
        return 0;
    case ESTIMATE_ALLOC:
        request->options.alloc =
            (tn_alloc_policy)CLI_CHOICE(state, "alloc-policy", value, "demand", "start");
        return 0;
    case ESTIMATE_RELEASE:
        request->options.release =
            (tn_release_policy)CLI_CHOICE(state, "release-policy", value, "death", "exit");
        return 0;
    case ESTIMATE_POOL:
        request->options.pool = value;
        return 0;
    case ESTIMATE_DEVICE:
        arguments->device = cli_device(state, value, &request->limit);
        request->device = arguments->device;
        return 0;
    case ESTIMATE_RUNTIME:
        arguments->llm.options.runtime = tn_llm_runtime_find(value);
        arguments->llm.runtime_named = arguments->llm.options.runtime != TN_LLM_RUNTIME_COUNT;
        if (arguments->llm.runtime_named) return 0;
        arguments->llm.options.runtime = TN_LLM_RUN_NONE;
        request->options.runtime = cli_size(state, "runtime", value);
        arguments->has_runtime = true;
        return 0;
    case ESTIMATE_MAX_BATCH:
        arguments->max_batch = true;
        return 0;
    case ESTIMATE_KERNELS:
        estimate_kernels(state, request, value);
        return 0;
    case 'o':
        cli_add_output(state, arguments->outputs, &request->output_count, ESTIMATE_OUTPUTS_MAX,
                       value);
        request->outputs = arguments->outputs;
        return 0;
    case ESTIMATE_BUDGET:
        request->fit = cli_size(state, "budget", value);
        if (request->fit == 0) cli_misuse(state, "--budget: the size must be above 0");
        return 0;
    case ESTIMATE_ALLOW:
        request->allow = cli_allow(state, value);
        return 0;
    case ESTIMATE_LINK:
        request->link = cli_speed(state, "link", value);
        return 0;
    case ESTIMATE_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        cli_input_take(&request->input, state, "model", value);
        return 0;
    case ARGP_KEY_END:
        estimate_set(state, arguments);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- the command `tenure estimate` --- */

/* Calls one of three kinds of estimate: of running a language model, by formulas, or of a graph.
 * Returns the exit status. */
static int estimate_answer(estimate_arguments *arguments, tn_error *error) {
    cli_estimate_request *request = &arguments->request;
    bool json = arguments->json;
    if (arguments->to_run) {
        arguments->llm.options.sequence = arguments->large.how.sequence;
        arguments->llm.most = arguments->max_batch;
        return cli_estimate_llm(&arguments->llm, request, json, error);
    }
    if (arguments->large.asked)
        return cli_estimate_large(&arguments->large, &arguments->cluster, request, json, error);
    return cli_estimate_graph(request, arguments->max_batch, json, error);
}

static const char estimate_doc[] =
    "Estimates the memory of MODEL by kind and by phase, without running it, and checks whether it "
    "fits. MODEL is a model file, or for a language model a folder, its config.json or its weights "
    "(.safetensors, .gguf). The estimate is for running the model, or with --train for training "
    "it.\v"
    "Examples:\n"
    "  tenure estimate resnet50.onnx --train --batch 64 --optimizer adam --device t4\n"
    "  tenure estimate resnet50.onnx --train --device 8GiB --max-batch\n"
    "  tenure estimate resnet50.onnx --train --device t4 -o step.html\n"
    "  tenure estimate model.onnx --pool caching --kernels onednn --json\n"
    "  tenure estimate config.json --weight-type int4 --batch 8 --sequence 4096 --device l4\n"
    "  tenure estimate model.gguf --device 24GiB\n"
    "  tenure estimate config.json --train --parallel tensor=8,pipeline=8,data=16 --shard "
    "optimizer\n"
    "  tenure estimate config.json --train --batch 1536 --parallel auto --devices 1536 --device "
    "a100-80\n\n"
    "Exit status: 0 it fits (or no limit was given); 1 it does not fit; 2 bad usage or input; 3 "
    "stopped "
    "before an answer; 4 internal error.";

static const struct argp_child estimate_children[] = {
    {&cli_input_estimate_argp, 0, "Reading the model:", 0},
    {&cli_training_argp, 0, "Training:", 0},
    {&cli_choices_argp, 0, "Kernels and plan:", 0},
    {&cli_cluster_argp, 0, "Many devices:", 0},
    {&cli_ranks_argp, 0, "Several ranks:", 0},
    {0}};
static const struct argp estimate_parser = {
    estimate_options, estimate_parse, "MODEL", estimate_doc, estimate_children, 0, 0};

static int estimate_run(int count, char **words) {
    tn_context context = cli_context();
    estimate_arguments arguments = {.request = {.input = {.import = TN_IMPORT_OPTIONS_INIT},
                                                .training = CLI_TRAINING_INIT,
                                                .ranks = CLI_RANKS_INIT,
                                                .choices = CLI_CHOICES_INIT,
                                                .options = TN_ESTIMATE_OPTIONS_INIT},
                                    .cluster = CLI_CLUSTER_INIT,
                                    .llm = {.options = TN_LLM_OPTIONS_INIT}};
    tn_error error = {0};
    arguments.request.input.import.context = arguments.request.choices.plan.context = &context;
    arguments.request.options.context = &context;
    cli_parse(&cli_command_estimate, count, words, &arguments);
    cli_context_read(&context);
    int code = estimate_answer(&arguments, &error);
    cli_input_release(&arguments.request.input);
    return cli_finish(code);
}

static const cli_topic estimate_topics[] = {
    {"graph", "an .onnx, .pt2 or .tflite model, planned operator by operator",
     "train batch device max-batch optimizer dtype kernels pool budget dim order as json",
     "  tenure estimate resnet50.onnx --train --batch 64 --optimizer adam --device t4\n"
     "  tenure estimate resnet50.onnx --train --device 8GiB --max-batch\n"
     "  tenure estimate model.onnx --pool caching --kernels onednn\n"},
    {"llm", "a language model to run: a folder, its config.json or its weights",
     "device batch sequence weight-type cache-type full-cache runtime prefill host-layers "
     "host-experts cached-experts parallel json",
     "  tenure estimate config.json --weight-type int4 --batch 8 --sequence 4096 --device l4\n"
     "  tenure estimate model.gguf --device 24GiB\n"},
    {"cluster", "a transformer that many devices train, by formulas from its config.json",
     "train parallel devices batch micro-batch sequence shard recompute sequence-parallel device "
     "per-node link-fast sweep json",
     "  tenure estimate config.json --train --parallel tensor=8,pipeline=8,data=16 --shard "
     "optimizer\n"
     "  tenure estimate config.json --train --batch 1536 --parallel auto --devices 1536 --device "
     "a100-80\n"},
    {NULL, NULL, NULL, NULL}};

const cli_command cli_command_estimate = {
    .name = "estimate",
    .summary = "estimate the memory of a model, and check whether it fits",
    .first = "train batch device max-batch optimizer dtype kernels pool dim json",
    .topics = estimate_topics,
    .answers = (const cli_facts *const[]){&cli_estimate_facts, &cli_llm_facts, &cli_large_facts,
                                          &cli_scaling_facts, NULL},
    .parser = &estimate_parser,
    .run = estimate_run,
};
