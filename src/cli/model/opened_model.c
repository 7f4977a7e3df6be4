/* opened_model.c - parses the options of a model that runs, and opens it: it loads the model, makes
 * the training step, compiles it and opens an engine. */
#include "cli/model/opened_model.h"
#include "base/base.h"
#include "cli/answer/model_facts.h"
#include "cli/model/compile_options.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- options --- */

enum { CHOICES_PLANNER = 1100, CHOICES_THREADS, CHOICES_NO_REWRITE, CHOICES_FASTEST };

#define CHOICES_OPTIONS(X)                                                                         \
    X(CHOICES_PLANNER, "planner", "NAME",                                                          \
      "planner: one of `tenure list planners` (default: auto)")                                    \
    X(CHOICES_THREADS, "threads", "N",                                                             \
      "number of threads of the kernels; results are bit-identical for the same number (default: " \
      "1)")                                                                                        \
    X(CHOICES_NO_REWRITE, "no-rewrite", NULL, "keep the operators of the file, fuse nothing")      \
    X(CHOICES_FASTEST, "fastest", NULL,                                                            \
      "use the fastest kernel for each operator, even if it needs more scratch memory")

static error_t choices_parse(int key, char *value, struct argp_state *state) {
    cli_choices *choices = state->input;
    switch (key) {
    case CHOICES_PLANNER:
        choices->plan.planner = value;
        return 0;
    case CHOICES_THREADS:
        choices->threads = (uint32_t)cli_count(state, "threads", value, 1024);
        return 0;
    case CHOICES_NO_REWRITE:
        choices->no_rewrite = true;
        return 0;
    case CHOICES_FASTEST:
        choices->fastest = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

cli_kernel_target cli_choices_target(const cli_choices *choices, cli_runner runner) {
    return (cli_kernel_target){.runner = runner,
                               .threads = choices->threads,
                               .no_rewrite = choices->no_rewrite,
                               .fastest = choices->fastest};
}

static const struct argp_option choices_options[] = {CHOICES_OPTIONS(CLI_OPTION){0}};
const struct argp cli_choices_argp = {.options = choices_options, .parser = choices_parse};

enum {
    OPENED_WEIGHTS = 1200,
    OPENED_BUDGET,
    OPENED_PASS,
    OPENED_LINK,
    OPENED_SWAP_DEVICE,
    OPENED_CODECS,
    OPENED_ERROR,
    OPENED_ALLOW,
    OPENED_HOST_BUDGET,
    OPENED_COSTS,
    OPENED_TIMEOUT,
    OPENED_SEED,
    OPENED_CHECK,
    OPENED_POISON,
    OPENED_TRACE,
    OPENED_PLAIN
};

#define OPENED_OPTIONS(X)                                                                          \
    X(OPENED_WEIGHTS, "weights", "random:SEED|FILE",                                               \
      "source of weights. random: generate those missing from the model file, in training all "    \
      "trained ones; FILE: take weights by name from a .safetensors, .gguf or `tenure train` "     \
      "checkpoint file, the others from the model file (default: the model file)")                 \
    X(OPENED_BUDGET, "budget", "SIZE",                                                             \
      "bytes for arena and weights; if the plan needs more, recompute operators, and with --link " \
      "also swap tensors to the host; exit status 1 if nothing fits (default: no limit)")          \
    X(OPENED_PASS, "pass", "NAME",                                                                 \
      "pass that meets the budget: one of `tenure list passes`; none changes nothing (default: "   \
      "joint)")                                                                                    \
    X(OPENED_CODECS, "codecs", "NAME,...",                                                         \
      "encodings of stored tensors that may be used to meet the budget: bits and csr (lossless), " \
      "float16, float10 and float8 (results change) (default: none)")                              \
    X(OPENED_ERROR, "max-error", "SHARE",                                                          \
      "with lossy --codecs: keep a tensor on the host unencoded if its relative error would be "   \
      "above this, such as 1% (default: no limit)")                                                \
    X(OPENED_LINK, "link", "SIZE/s",                                                               \
      "speed of copies to and from the device, such as 8GB/s, also for inputs and outputs "        \
      "(default: no limit)")                                                                       \
    X(OPENED_SWAP_DEVICE, "swap-device", "NAME", CLI_SWAP_DEVICE_HELP)                             \
    X(OPENED_ALLOW, "allow", "TECHNIQUE,...",                                                      \
      "techniques to meet the budget: order, recompute, swap, compress, split (operators in "      \
      "tiles, if that is faster or nothing else fits), stream (weights are read from their file "  \
      "when needed) (default: order,recompute,split, and swap with --link)")                       \
    X(OPENED_HOST_BUDGET, "host-budget", "SIZE",                                                   \
      "bytes of host memory for swapped tensors (default: no limit)")                              \
    X(OPENED_COSTS, "costs", "FILE|model:DEVICE",                                                  \
      "operator times for the search: a file of `tenure fit --save-costs`, or a model of one of "  \
      "`tenure list hardware` (default: measured on this machine)")                                \
    X(OPENED_TIMEOUT, "timeout", "TIME",                                                           \
      "stop the search for --budget after this time, such as 10s, including the measurement of "   \
      "costs, and use the best program found (default: no limit)")                                 \
    X(OPENED_SEED, "seed", "N",                                                                    \
      "seed of random operators, dropout and the order of samples (default: 0)")                   \
    X(OPENED_CHECK, "check", "naive",                                                              \
      "run it again with separate memory for every tensor; every output bit must be equal")        \
    X(OPENED_POISON, "poison", NULL,                                                               \
      "fill unused bytes with NaNs and check them, which finds operators that write outside "      \
      "their buffers")                                                                             \
    X(OPENED_TRACE, "trace", "FILE",                                                               \
      "write a trace of operators and memory: .trace.json (Chrome, Perfetto), .trace.csv "         \
      "(`tenure replay`) or .pickle (PyTorch's memory viewer, `tenure report`); in training of "   \
      "the first step; may be repeated")                                                           \
    X(OPENED_PLAIN, "plain", NULL,                                                                 \
      "use only Tenure's own kernels, without oneDNN: slow, for reference")

static void opened_set_weights(struct argp_state *state, cli_opened_model *opened,
                               const char *text) {
    opened->weights_made_up = strncmp(text, "random", 6) == 0 && strchr(":", text[6]) != NULL;
    if (!opened->weights_made_up)
        opened->weights_path = cli_standard_value(state, "--weights", text);
    else if (text[6] != '\0')
        opened->weights_seed = cli_number(state, "weights", text + 7);
}

static void opened_set_fit(cli_opened_model *opened) {
    opened->to_swap = opened->from_swap = opened->link;
    cli_swap_link(opened->swap_device, &opened->to_swap, &opened->from_swap);
    opened->allow = cli_allow_complete(opened->allow, opened->to_swap, opened->pass);
}

static error_t opened_parse(int key, char *value, struct argp_state *state) {
    cli_opened_model *opened = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &opened->choices;
        return 0;
    case OPENED_WEIGHTS:
        opened_set_weights(state, opened, value);
        return 0;
    case OPENED_BUDGET:
        opened->budget = cli_size(state, "budget", value);
        if (opened->budget == 0) cli_misuse(state, "--budget: the size must be above 0");
        return 0;
    case OPENED_PASS:
        opened->pass = value;
        return 0;
    case OPENED_CODECS:
        opened->codecs = cli_codecs(state, value);
        return 0;
    case OPENED_ERROR:
        opened->max_error = cli_max_error(state, value);
        return 0;
    case OPENED_LINK:
        opened->link = cli_speed(state, "link", value);
        return 0;
    case OPENED_SWAP_DEVICE:
        opened->swap_device = value;
        return 0;
    case OPENED_ALLOW:
        opened->allow = cli_allow(state, value);
        return 0;
    case OPENED_HOST_BUDGET:
        opened->host_budget = cli_size(state, "host-budget", value);
        if (opened->host_budget == 0) cli_misuse(state, "--host-budget: the size must be above 0");
        return 0;
    case OPENED_COSTS:
        cli_costs_parse(state, &opened->from, value);
        return 0;
    case OPENED_TIMEOUT:
        opened->timeout_s = cli_duration(state, "timeout", value);
        return 0;
    case OPENED_SEED:
        opened->seed = cli_number(state, "seed", value);
        return 0;
    case OPENED_CHECK:
        if (strcmp(value, "naive") != 0)
            cli_misuse(state, "--check: '%s' is unknown; write --check=naive", value);
        opened->check = true;
        return 0;
    case OPENED_POISON:
        opened->poison = true;
        return 0;
    case OPENED_TRACE:
        CLI_PATHS_ADD(state, "--trace", value, &opened->traces, ".trace.json", ".trace.csv",
                      ".pickle");
        return 0;
    case OPENED_PLAIN:
        opened->plain = true;
        return 0;
    case ARGP_KEY_END:
        opened_set_fit(opened);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option opened_options[] = {OPENED_OPTIONS(CLI_OPTION){0}};
static const struct argp_child opened_children[] = {{&cli_choices_argp, 0, NULL, 0}, {0}};
const struct argp cli_opened_model_argp = {
    .options = opened_options, .parser = opened_parse, .children = opened_children};

/* --- --prune --- */

enum { PRUNED_SHARE = 1700, PRUNED_SCOPE };

#define PRUNED_OPTIONS(X)                                                                          \
    X(PRUNED_SHARE, "prune", "SHARE",                                                              \
      "set this fraction of the weights of convolutions and matrix products to zero, the "         \
      "smallest first, and store and run them sparse; results change (default: 0)")                \
    X(PRUNED_SCOPE, "prune-scope", "SCOPE",                                                        \
      "pruning threshold: global, one for all weights; tensor, the same fraction of each tensor "  \
      "(default: global)")

static error_t pruned_parse(int key, char *value, struct argp_state *state) {
    cli_opened_model *opened = state->input;
    switch (key) {
    case PRUNED_SHARE:
        opened->prune = cli_share(state, "prune", value);
        if (!(opened->prune < 1))
            cli_misuse(state, "--prune: the fraction must be at least 0 and below 1");
        return 0;
    case PRUNED_SCOPE:
        opened->prune_scope = CLI_CHOICE(state, "prune-scope", value, "global", "tensor")
                                  ? TN_PRUNE_TENSOR
                                  : TN_PRUNE_GLOBAL;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option pruned_options[] = {PRUNED_OPTIONS(CLI_OPTION){0}};
const struct argp cli_pruned_argp = {.options = pruned_options, .parser = pruned_parse};

/* --- --storage --- */

enum { STREAMED_STORAGE = 1750, STREAMED_CACHE, STREAMED_FORMS };

#define STREAMED_OPTIONS(X)                                                                        \
    X(STREAMED_STORAGE, "storage", "SIZE/s",                                                       \
      "with --allow stream: limit the read speed of weight files, such as 2GB/s (default: no "     \
      "limit; the speed is measured)")                                                             \
    X(STREAMED_CACHE, "storage-cache", NULL,                                                       \
      "with --allow stream: let the system cache weight files (default: every run reads them "     \
      "from storage)")                                                                             \
    X(STREAMED_FORMS, "forms", "DIR",                                                              \
      "with --allow stream: folder for temporary files of weights in the layout of the kernels "   \
      "(default: $TMPDIR, else /tmp)")

static error_t streamed_parse(int key, char *value, struct argp_state *state) {
    cli_opened_model *opened = state->input;
    switch (key) {
    case STREAMED_STORAGE:
        opened->storage = cli_speed(state, "storage", value);
        return 0;
    case STREAMED_CACHE:
        opened->storage_cache = true;
        return 0;
    case STREAMED_FORMS:
        opened->forms_folder = value;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option streamed_options[] = {STREAMED_OPTIONS(CLI_OPTION){0}};
const struct argp cli_streamed_argp = {.options = streamed_options, .parser = streamed_parse};

/* --- the data of tensors --- */

/* Returns whether training updates a tensor of the model or of the running graph. */
static bool opened_is_trained(const cli_opened_model *opened, const tn_graph *graph,
                              tn_tensor_id id) {
    const tn_graph *step = graph == opened->input->graph ? opened->step.graph : graph;
    return step != NULL && (tn_graph_tensor(step, id)->flags & TN_TENSOR_UPDATED) != 0;
}

/* Returns whether the tensor is a parameter with an initial value that must be read. That includes
 * a parameter that is divided into shards: the whole tensor is an activation then, but its value
 * fills the shards. */
static bool opened_is_parameter(const tn_tensor *tensor) {
    bool shared = tensor->kind == TN_KIND_ACTIVATION && (tensor->flags & TN_TENSOR_UPDATED) != 0;
    return tensor->kind == TN_KIND_PARAMETER || shared;
}

/* Reads a tensor of the model from the first source that has it: the trainer, the checkpoint, the
 * file of weights, generated weights, or the model file. */
static tn_status opened_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                             uint64_t size, tn_error *error) {
    const cli_opened_model *opened = self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    if (opened->trained != NULL && tensor->kind == TN_KIND_PARAMETER &&
        tn_trainer_read(opened->trained, tensor->name, bytes, size))
        return TN_OK;
    const tn_kept *kept =
        opened->kept != NULL ? tn_checkpoint_find(opened->kept, tensor->name) : NULL;
    if (opened_is_parameter(tensor) && kept != NULL && kept->size == size) {
        memcpy(bytes, kept->bytes, size);
        return TN_OK;
    }
    if (opened->weights != NULL && opened_is_parameter(tensor) &&
        tn_weights_fill(opened->weights, tensor, bytes, size))
        return TN_OK;
    bool fresh = opened->fresh != NULL && opened_is_trained(opened, graph, id);
    return tn_contents_read(fresh ? opened->fresh : opened->contents, graph, id, bytes, size,
                            error);
}

tn_contents_of cli_opened_model_contents(cli_opened_model *opened) {
    return (tn_contents_of){opened_read, opened, opened->input->graph};
}

/* Reads a tensor of the running graph, as opened_read does. In a training step divided among ranks,
 * a tensor may be a part of a tensor of the model. */
static tn_status opened_read_data(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                                  uint64_t size, tn_error *error) {
    cli_opened_model *opened = self;
    const tn_contents_of whole = cli_opened_model_contents(opened);
    if (opened->training == NULL) return opened_read(self, graph, id, bytes, size, error);
    return tn_training_read(&opened->step, id, &whole, bytes, size, error);
}

/* Finds the bytes of a tensor in a file. Sets *found to false if no file has exactly these bytes,
 * as for weights that are trained or pruned. */
static tn_status opened_where(void *self, const tn_graph *graph, tn_tensor_id id,
                              tn_file_range *range, bool *found, tn_error *error) {
    const cli_opened_model *opened = self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    *found = false;
    bool part = opened->training != NULL && tn_training_part(&opened->step, id) != NULL;
    if (part || opened->trained != NULL || opened->kept != NULL ||
        (opened->fresh != NULL && (tensor->flags & TN_TENSOR_UPDATED) != 0))
        return TN_OK;
    if (opened->weights != NULL && tensor->kind == TN_KIND_PARAMETER &&
        tn_weights_find(opened->weights, tensor->name) != NULL) {
        *found = tn_weights_where(opened->weights, tensor, range);
        return TN_OK;
    }
    return tn_contents_where(opened->contents, graph, id, range, found, error);
}

/* --- making the plan, without changes or within a budget --- */

/* A model is planned without changes, or within a budget by tn_fit_graph, which combines the
 * techniques. If the budget cannot be met, the smallest program found is kept, so that the command
 * can list the largest tensors at its peak. */

#define OPENED_SAMPLE (UINT64_C(1) << 20)

static tn_fit_options opened_search(const cli_opened_model *opened) {
    tn_fit_options fit = TN_FIT_OPTIONS_INIT;
    fit.context = opened->input->import.context;
    fit.budget = opened->budget;
    fit.pass = opened->pass;
    fit.allow = opened->allow;
    if (opened->input->split.asked) fit.allow |= TN_FIT_SPLIT;
    fit.codecs = opened->codecs;
    if (opened->codecs != 0) fit.allow |= TN_FIT_COMPRESS;
    if (cli_codecs_lose(opened->codecs)) fit.allow |= TN_FIT_LOSSY;
    fit.host_budget = opened->host_budget;
    fit.to_host_bytes_per_s = opened->to_swap;
    fit.from_host_bytes_per_s = opened->from_swap;
    fit.timeout_s = opened->timeout_s;
    return fit;
}

typedef struct opened_sources {
    cli_fit_sources sources; /* the first member, so that a pointer to it points to the struct */
    cli_opened_model *opened;
} opened_sources;

/* Measures the read speed for weight streaming. It reads the file of the largest weight that can be
 * read in place. If there is no such weight, it uses the folder for converted weights. */
static tn_status opened_storage(void *self, double *bytes_per_s, tn_error *error) {
    const opened_sources *sources = self;
    cli_opened_model *opened = sources->opened;
    const tn_graph *graph = opened->graph;
    const char *path = opened->forms_folder != NULL ? opened->forms_folder : getenv("TMPDIR");
    uint64_t most = OPENED_SAMPLE; /* a smaller weight would give an unreliable speed */
    if (path == NULL || *path == '\0') path = "/tmp";
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++) {
        tn_file_range range;
        bool found;
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        if (!tn_tensor_is_constant(tensor) || tensor->producer != TN_NONE) continue;
        TN_TRY(opened_where(opened, graph, id, &range, &found, error));
        if (!found || range.size <= most) continue;
        most = range.size;
        path = range.path;
    }
    return tn_storage_measure(path, bytes_per_s, error);
}

/* Plans within the budget. If nothing fits, the answer keeps the smallest program found. */
static tn_status opened_fit(cli_opened_model *opened, const tn_setup_options *options,
                            tn_error *error) {
    const tn_fit_options search = opened_search(opened);
    tn_fit_request request = TN_FIT_REQUEST_INIT;
    opened_sources all = {.sources = {.from = &opened->from,
                                      .threads = opened->choices.threads,
                                      .codecs = opened->codecs,
                                      .engine = TN_ENGINE_OPTIONS_INIT,
                                      .samples = &opened->samples,
                                      .zeros = &opened->zeros},
                          .opened = opened};
    all.sources.engine.context = search.context;
    all.sources.engine.read = opened_read_data;
    all.sources.engine.self = opened;
    request.setup = options;
    request.search = &search;
    request.storage_bytes_per_s = opened->storage;
    cli_fit_request_set(&all.sources, &request);
    request.storage = opened_storage;
    request.split_share = opened->input->split.has_share ? opened->input->split.options.share : 0;
    tn_status status = tn_fit_graph(opened->graph, &request, &opened->answer, error);
    opened->setup = opened->answer.setup != NULL ? opened->answer.setup : opened->answer.whole;
    return status;
}

/* Makes the plan. A search is needed only with a budget, and not for a pool or if every tensor gets
 * separate memory. */
static tn_status opened_make(cli_opened_model *opened, tn_setup_options *options, tn_error *error) {
    bool budget = opened->budget > 0 && opened->pool == NULL && !opened->naive;
    options->split = budget ? NULL : cli_split_of(&opened->input->split, 0);
    tn_status status = budget ? opened_fit(opened, options, error)
                              : tn_setup_create(opened->graph, options, &opened->setup, error);
    options->split = NULL;
    if (status == TN_E_INVALID || status == TN_E_CONFLICT)
        status = tn__where(error, status, "%s", opened->input->path);
    if (opened->setup != NULL) opened->graph = tn_setup_graph(opened->setup);
    return status;
}

/* Compiles opened->graph, which becomes the running graph. */
static tn_status opened_compile(cli_opened_model *opened, tn_error *error) {
    cli_compile_options asked;
    const cli_kernel_target target = cli_opened_model_target(opened);
    cli_compile_options_set(opened->input, &target, opened->training, &opened->choices.plan,
                            &asked);
    asked.setup.divide = opened->divide;
    asked.rewrite.weights_dtype = opened->weights_dtype;
    if (opened->pruning.count > 0) asked.rewrite.pruning = &opened->pruning;
    if (opened->weights_dtype != TN_UNDEFINED || asked.rewrite.pruning != NULL)
        asked.setup.rewrite = &asked.rewrite;
    TN_TRY(opened_make(opened, &asked.setup, error));
    tn_pruning_measure(&opened->pruning, opened->graph);
    return TN_OK;
}

/* limit of the events of a trace, so that it does not take all memory */
#define OPENED_EVENTS_MAX (UINT64_C(1) << 22)

/* --- the steps from the file to the plan --- */

/* Opens the file of weights. Its tensors replace the weights of the model. */
static tn_status opened_weights(cli_opened_model *opened, tn_error *error) {
    const char *path = opened->weights_path;
    TN_TRY(tn_weights_open(path, opened->input->import.context, &opened->weights, error));
    tn_status status =
        tn_weights_bind(opened->weights, opened->input->graph, &opened->weights_taken, error);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%s", path);
}

/* Loads the model. Values of weights that a file of weights, a checkpoint or training supplies are
 * removed from the graph. */
static tn_status opened_model(cli_opened_model *opened, tn_error *error) {
    cli_input *input = opened->input;
    if (input->graph == NULL)
        TN_TRY(tn_graph_load(input->path, &input->import, &input->graph, error));
    if (opened->weights_path != NULL && tn_weights_recognises(opened->weights_path))
        TN_TRY(opened_weights(opened, error));
    else if (opened->weights_path != NULL) {
        tn_graph *model;
        TN_TRY(
            tn_checkpoint_open(opened->weights_path, input->import.context, &opened->kept, error));
        TN_TRY(tn_checkpoint_model(opened->kept, input->graph, &model, error));
        tn_graph_destroy(input->graph);
        input->graph = model;
    }
    if (opened->training == NULL) return TN_OK;
    return cli_training_model(opened->training, &input->graph, error);
}

/* Opens the contents of the tensors. With --weights random, all tensors that are missing in the
 * file are generated for a run; for training, all trained weights are. */
static tn_status opened_contents(cli_opened_model *opened, tn_error *error) {
    const cli_input *input = opened->input;
    const tn_context *context = input->import.context;
    if (opened->contents != NULL) return TN_OK; /* another's */
    opened->own_contents = true;
    if (!opened->weights_made_up)
        return tn_contents_open(input->path, context, &opened->contents, error);
    if (opened->training == NULL)
        return tn_contents_generate(input->path, input->graph, opened->weights_seed, context,
                                    &opened->contents, error);
    TN_TRY(tn_contents_generate(NULL, input->graph, opened->weights_seed, context, &opened->fresh,
                                error));
    return tn_contents_open(input->path, context, &opened->contents, error);
}

/* Sets opened->graph to the graph to compile: the model, or a step of its training. */
static tn_status opened_graph(cli_opened_model *opened, tn_error *error) {
    const cli_kernel_target target = cli_opened_model_target(opened);
    opened->graph = opened->input->graph;
    if (opened->training == NULL) return TN_OK;
    TN_TRY(cli_training_make(opened->training, opened->input->graph,
                             cli_kernel_target_rewrites(&target), &opened->model, &opened->step,
                             error));
    opened->graph = opened->step.graph;
    return TN_OK;
}

cli_kernel_target cli_opened_model_target(const cli_opened_model *opened) {
    cli_kernel_target target =
        cli_choices_target(&opened->choices, opened->plain ? CLI_RUNNER_PLAIN : CLI_RUNNER_ONEDNN);
    target.staged = opened->divide != NULL && opened->divide->arranges;
    return target;
}

static tn_status opened_prune(cli_opened_model *opened, tn_error *error) {
    tn_prune_options options = TN_PRUNE_OPTIONS_INIT;
    if (opened->prune == 0) return TN_OK;
    options.context = opened->input->import.context;
    options.share = opened->prune;
    options.scope = opened->prune_scope;
    options.read = opened_read_data;
    options.self = opened;
    return tn_prune(opened->graph, &options, &opened->pruning, error);
}

/* Returns the seconds that the stages from `first` up to, but not including, `last` took. */
static double opened_seconds(const cli_opened_model *opened, tn_setup_stage first,
                             tn_setup_stage last) {
    double seconds = 0;
    for (tn_setup_stage at = first; at < last; at++) seconds += tn_setup_seconds(opened->setup, at);
    return seconds;
}

tn_status cli_opened_model_plan(cli_opened_model *opened, tn_error *error) {
    cli_input *input = opened->input;
    double start = cli_clock();
    TN_TRY(opened_model(opened, error));
    TN_TRY(opened_contents(opened, error));
    cli_stage(input, "import", cli_clock() - start);
    start = cli_clock();
    TN_TRY(opened_graph(opened, error));
    TN_TRY(opened_prune(opened, error));
    double trained = cli_clock() - start;
    TN_TRY(opened_compile(opened, error));
    cli_stage(input, "kernels", trained + opened_seconds(opened, TN_SETUP_REWRITE, TN_SETUP_ORDER));
    cli_stage(input, "plan", opened_seconds(opened, TN_SETUP_ORDER, TN_SETUP_STAGE_COUNT));
    return TN_OK;
}

/* --- the steps from the plan to the engine --- */

/* Returns the capacity of a pool. Without a budget it is larger than any pool needs, because
 * addresses that are only reserved take no memory. */
static uint64_t opened_pool_room(const cli_opened_model *opened) {
    uint64_t naive = tn_occupancy_summary(tn_setup_occupancy(opened->setup)).naive;
    uint64_t all = tn__add_sat(naive, tn_setup_need(opened->setup).statics);
    return opened->budget > 0 ? opened->budget
                              : tn__add_sat(tn__mul_sat(all, 4), UINT64_C(256) << 20);
}

tn_engine_options cli_opened_model_engine(cli_opened_model *opened) {
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    options.context = opened->input->import.context;
    options.read = opened_read_data;
    options.self = opened;
    options.seed = opened->seed;
    options.host_capacity = opened->host_budget;
    return options;
}

tn_status cli_opened_model_start(cli_opened_model *opened, tn_error *error) {
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options options = cli_opened_model_engine(opened);
    device.context = options.context;
    device.capacity = opened->pool == NULL ? opened->budget : 0;
    device.link_bytes_per_s = opened->link;
    options.poison = opened->poison;
    options.error_limit = opened->max_error;
    options.trace = opened->trace;
    options.exchange = opened->exchange;
    options.where = opened_where;
    options.forms_folder = opened->forms_folder;
    options.storage_bytes_per_s = opened->storage;
    options.storage_cache = opened->storage_cache;
    options.swap_device = opened->swap_device;
    options.swap_bytes_per_s = opened->link;
    options.pool = opened->pool;
    options.pool_capacity = opened->pool != NULL ? opened_pool_room(opened) : 0;
    return tn_setup_open(opened->setup, &device, &options, &opened->engine, error);
}

/* --- the trace of the runs --- */

/* Opens a trace for `runs` runs. A run has one event per instruction and two per buffer, when it
 * gets memory and when it releases it. Loops may produce more events; those beyond the capacity are
 * counted but not stored. */
tn_status cli_opened_model_open_trace(cli_opened_model *opened, uint64_t runs, tn_error *error) {
    if (opened->traces.count == 0 && !opened->traced) return TN_OK;
    const tn_program *program = tn_setup_program(opened->setup);
    const tn_problem *problem = tn_occupancy_problem(tn_setup_occupancy(opened->setup));
    uint64_t a_run = tn_program_count(program) + 2 * (uint64_t)tn_problem_count(problem);
    bool loops = tn_program_region_count(program) > 0;
    uint64_t room = tn__mul_sat(a_run * (loops ? 16 : 1), runs);
    room = tn__add_sat(room, 2 * (uint64_t)tn_graph_tensor_count(opened->graph) + 16);
    if (room > OPENED_EVENTS_MAX) room = OPENED_EVENTS_MAX;
    return tn_trace_create(opened->input->import.context, room, &opened->trace, error);
}

static tn_status opened_write_trace(const void *self, const char *path, tn_error *error) {
    const cli_opened_model *opened = self;
    tn_report report = {.struct_size = sizeof report,
                        .input = opened->input->path,
                        .problem = tn_occupancy_problem(tn_setup_occupancy(opened->setup)),
                        .occupancy = tn_setup_occupancy(opened->setup),
                        .layout = opened->pool == NULL ? tn_setup_layout(opened->setup) : NULL,
                        .trace = opened->trace};
    return tn_report_write(&report, path, error);
}

tn_status cli_opened_model_write_trace(const cli_opened_model *opened, tn_error *error) {
    return cli_paths_write(&opened->traces, opened_write_trace, opened, error);
}

/* --- a second engine with separate memory for each tensor --- */

tn_status cli_opened_model_naive(const cli_opened_model *opened, cli_opened_model *other,
                                 tn_error *error) {
    other->input = opened->input;
    other->training = opened->training;
    other->contents = opened->contents;
    other->kept = opened->kept;
    other->weights = opened->weights;
    other->fresh = opened->fresh;
    other->step = opened->step;
    other->seed = opened->seed;
    other->exchange = opened->exchange;
    other->forms_folder = opened->forms_folder;
    other->naive = true;
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_occupancy_options memory = cli_memory_options(opened->input);
    options.memory = &memory;
    options.without_reuse = true;
    options.statics = opened->input->statics;
    if (tn_setup_streamed(opened->setup) != NULL) options.statics = TN_STATIC_ARENA;
    TN_TRY(tn_setup_from(opened->setup, TN_SETUP_OCCUPY, &options, &other->setup, error));
    other->graph = tn_setup_graph(other->setup);
    return cli_opened_model_start(other, error);
}

void cli_opened_model_close(cli_opened_model *opened) {
    tn_engine_destroy(opened->engine);
    if (opened->answer.own == NULL) tn_setup_destroy(opened->setup);
    tn_fit_answer_release(&opened->answer);
    free(opened->zeros);
    /* with `naive`, the other fields belong to the model with which this one is compared */
    if (opened->naive) return;
    tn_pruning_release(&opened->pruning);
    tn_training_release(&opened->step);
    tn_graph_destroy(opened->model);
    tn_trace_destroy(opened->trace);
    tn_contents_close(opened->fresh);
    if (opened->weights_path != NULL) tn_checkpoint_close(opened->kept);
    tn_weights_close(opened->weights);
    if (opened->own_contents) tn_contents_close(opened->contents);
}
