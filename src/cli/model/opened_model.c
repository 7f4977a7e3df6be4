/* opened_model.c - from a model file to an engine that can run it: its options, and the steps load,
 * train, compile, open. */
#include "cli/model/opened_model.h"
#include "base/base.h"
#include "cli/answer/model_facts.h"
#include "cli/model/compile_options.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

cli_whom cli_choices_whom(const cli_choices *choices, cli_runner runner) {
    return (cli_whom){.runner = runner,
                      .threads = choices->threads,
                      .no_rewrite = choices->no_rewrite,
                      .fastest = choices->fastest};
}

static const struct argp_option choices_options[] = {CHOICES_OPTIONS(CLI_OPTION){0}};
const struct argp cli_choices_argp = {.options = choices_options, .parser = choices_parse};

enum {
    SESSION_WEIGHTS = 1200,
    SESSION_BUDGET,
    SESSION_PASS,
    SESSION_LINK,
    SESSION_SWAP_DEVICE,
    SESSION_CODECS,
    SESSION_ERROR,
    SESSION_ALLOW,
    SESSION_STORAGE,
    SESSION_STORAGE_CACHE,
    SESSION_FORMS,
    SESSION_HOST_BUDGET,
    SESSION_COSTS,
    SESSION_TIMEOUT,
    SESSION_SEED,
    SESSION_CHECK,
    SESSION_POISON,
    SESSION_TRACE,
    SESSION_PLAIN
};

#define SESSION_OPTIONS(X)                                                                         \
    X(SESSION_WEIGHTS, "weights", "random:SEED|FILE",                                              \
      "source of weights. random: generate those missing from the model file, in training all "    \
      "trained ones; FILE: take weights by name from a .safetensors, .gguf or `tenure train` "     \
      "checkpoint file, the others from the model file (default: the model file)")                 \
    X(SESSION_BUDGET, "budget", "SIZE",                                                            \
      "bytes for arena and weights; if the plan needs more, recompute operators, and with --link " \
      "also swap tensors to the host; exit status 1 if nothing fits (default: no limit)")          \
    X(SESSION_PASS, "pass", "NAME",                                                                \
      "pass that meets the budget: one of `tenure list passes`; none changes nothing (default: "   \
      "joint)")                                                                                    \
    X(SESSION_CODECS, "codecs", "NAME,...",                                                        \
      "encodings of stored tensors that may be used to meet the budget: bits and csr (lossless), " \
      "float16, float10 and float8 (results change) (default: none)")                              \
    X(SESSION_ERROR, "max-error", "SHARE",                                                         \
      "with lossy --codecs: keep a tensor on the host unencoded if its relative error would be "   \
      "above this, such as 1% (default: no limit)")                                                \
    X(SESSION_LINK, "link", "SIZE/s",                                                              \
      "speed of copies to and from the device, such as 8GB/s, also for inputs and outputs "        \
      "(default: no limit)")                                                                       \
    X(SESSION_SWAP_DEVICE, "swap-device", "NAME", CLI_SWAP_DEVICE_HELP)                            \
    X(SESSION_ALLOW, "allow", "TECHNIQUE,...",                                                     \
      "techniques to meet the budget: order, recompute, swap, compress, split (operators in "      \
      "tiles, if that is faster or nothing else fits), stream (weights are read from their file "  \
      "when needed) (default: order,recompute,split, and swap with --link)")                       \
    X(SESSION_STORAGE, "storage", "SIZE/s",                                                        \
      "with --allow stream: limit the read speed of weight files, such as 2GB/s (default: no "     \
      "limit; the speed is measured)")                                                             \
    X(SESSION_STORAGE_CACHE, "storage-cache", NULL,                                                \
      "with --allow stream: let the system cache weight files (default: every run reads them "     \
      "from storage)")                                                                             \
    X(SESSION_FORMS, "forms", "DIR",                                                               \
      "with --allow stream: folder for temporary files of weights in the layout of the kernels "   \
      "(default: $TMPDIR, else /tmp)")                                                             \
    X(SESSION_HOST_BUDGET, "host-budget", "SIZE",                                                  \
      "bytes of host memory for swapped tensors (default: no limit)")                              \
    X(SESSION_COSTS, "costs", "FILE|model:DEVICE",                                                 \
      "operator times for the search: a file of `tenure fit --save-costs`, or a model of one of "  \
      "`tenure list hardware` (default: measured on this machine)")                                \
    X(SESSION_TIMEOUT, "timeout", "TIME",                                                          \
      "stop the search for --budget after this time, such as 10s, including the measurement of "   \
      "costs, and use the best program found (default: no limit)")                                 \
    X(SESSION_SEED, "seed", "N",                                                                   \
      "seed of random operators, dropout and the order of samples (default: 0)")                   \
    X(SESSION_CHECK, "check", "naive",                                                             \
      "run it again with separate memory for every tensor; every output bit must be equal")        \
    X(SESSION_POISON, "poison", NULL,                                                              \
      "fill unused bytes with NaNs and check them, which finds operators that write outside "      \
      "their buffers")                                                                             \
    X(SESSION_TRACE, "trace", "FILE",                                                              \
      "write a trace of operators and memory: .trace.json (Chrome, Perfetto), .trace.csv "         \
      "(`tenure replay`) or .pickle (PyTorch's memory viewer, `tenure report`); in training of "   \
      "the first step; may be repeated")                                                           \
    X(SESSION_PLAIN, "plain", NULL,                                                                \
      "use only Tenure's own kernels, without oneDNN: slow, for reference")

static void session_set_weights(struct argp_state *state, cli_session *session, const char *text) {
    session->weights_made_up = strncmp(text, "random", 6) == 0 && strchr(":", text[6]) != NULL;
    if (!session->weights_made_up)
        session->weights_path = text;
    else if (text[6] != '\0')
        session->weights_seed = cli_number(state, "weights", text + 7);
}

static void session_set_fit(cli_session *session) {
    session->to_swap = session->from_swap = session->link;
    cli_swap_link(session->swap_device, &session->to_swap, &session->from_swap);
    session->allow = cli_allow_complete(session->allow, session->to_swap, session->pass);
}

static error_t session_parse(int key, char *value, struct argp_state *state) {
    cli_session *session = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &session->choices;
        return 0;
    case SESSION_WEIGHTS:
        session_set_weights(state, session, value);
        return 0;
    case SESSION_BUDGET:
        session->budget = cli_size(state, "budget", value);
        if (session->budget == 0) cli_misuse(state, "--budget: the size must be above 0");
        return 0;
    case SESSION_PASS:
        session->pass = value;
        return 0;
    case SESSION_CODECS:
        session->codecs = cli_codecs(state, value);
        return 0;
    case SESSION_ERROR:
        session->max_error = cli_max_error(state, value);
        return 0;
    case SESSION_LINK:
        session->link = cli_speed(state, "link", value);
        return 0;
    case SESSION_SWAP_DEVICE:
        session->swap_device = value;
        return 0;
    case SESSION_ALLOW:
        session->allow = cli_allow(state, value);
        return 0;
    case SESSION_STORAGE:
        session->storage = cli_speed(state, "storage", value);
        return 0;
    case SESSION_STORAGE_CACHE:
        session->storage_cache = true;
        return 0;
    case SESSION_FORMS:
        session->forms_folder = value;
        return 0;
    case SESSION_HOST_BUDGET:
        session->host_budget = cli_size(state, "host-budget", value);
        if (session->host_budget == 0) cli_misuse(state, "--host-budget: the size must be above 0");
        return 0;
    case SESSION_COSTS:
        cli_costs_parse(state, &session->from, value);
        return 0;
    case SESSION_TIMEOUT:
        session->timeout_s = cli_duration(state, "timeout", value);
        return 0;
    case SESSION_SEED:
        session->seed = cli_number(state, "seed", value);
        return 0;
    case SESSION_CHECK:
        if (strcmp(value, "naive") != 0)
            cli_misuse(state, "--check: '%s' is unknown; write --check=naive", value);
        session->check = true;
        return 0;
    case SESSION_POISON:
        session->poison = true;
        return 0;
    case SESSION_TRACE:
        CLI_PATHS_ADD(state, "--trace", value, &session->traces, ".trace.json", ".trace.csv",
                      ".pickle");
        return 0;
    case SESSION_PLAIN:
        session->plain = true;
        return 0;
    case ARGP_KEY_END:
        session_set_fit(session);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option session_options[] = {SESSION_OPTIONS(CLI_OPTION){0}};
static const struct argp_child session_children[] = {{&cli_choices_argp, 0, NULL, 0}, {0}};
const struct argp cli_session_argp = {
    .options = session_options, .parser = session_parse, .children = session_children};

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
    cli_session *session = state->input;
    switch (key) {
    case PRUNED_SHARE:
        session->prune = cli_share(state, "prune", value);
        if (!(session->prune < 1))
            cli_misuse(state, "--prune: the fraction must be at least 0 and below 1");
        return 0;
    case PRUNED_SCOPE:
        session->prune_scope = CLI_CHOICE(state, "prune-scope", value, "global", "tensor")
                                   ? TN_PRUNE_TENSOR
                                   : TN_PRUNE_GLOBAL;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option pruned_options[] = {PRUNED_OPTIONS(CLI_OPTION){0}};
const struct argp cli_pruned_argp = {.options = pruned_options, .parser = pruned_parse};

/* --- load and compile --- */

#define SESSION_EVENTS_MAX (UINT64_C(1) << 22) /* 600 MiB */

/* --- up to the plan --- */

/* The weights of a weights file replace those of the model. */
static tn_status session_weights(cli_session *session, tn_error *error) {
    const char *path = session->weights_path;
    TN_TRY(tn_weights_open(path, session->input->import.context, &session->weights, error));
    tn_status status =
        tn_weights_bind(session->weights, session->input->graph, &session->weights_taken, error);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%s", path);
}

/* Loads the model and forgets the values of weights that another file or training will supply. */
static tn_status session_model(cli_session *session, tn_error *error) {
    cli_input *input = session->input;
    if (input->graph == NULL)
        TN_TRY(tn_graph_load(input->path, &input->import, &input->graph, error));
    if (session->weights_path != NULL && tn_weights_recognises(session->weights_path))
        TN_TRY(session_weights(session, error));
    else if (session->weights_path != NULL) {
        tn_graph *model;
        TN_TRY(tn_checkpoint_open(session->weights_path, input->import.context, &session->kept,
                                  error));
        TN_TRY(tn_checkpoint_model(session->kept, input->graph, &model, error));
        tn_graph_destroy(input->graph);
        input->graph = model;
    }
    if (session->training == NULL) return TN_OK;
    return cli_training_model(session->training, &input->graph, error);
}

/* For a run, data missing from the file are generated; for training, all trained weights. */
static tn_status session_contents(cli_session *session, tn_error *error) {
    const cli_input *input = session->input;
    const tn_context *context = input->import.context;
    if (session->contents != NULL) return TN_OK; /* another's */
    session->own_contents = true;
    if (!session->weights_made_up)
        return tn_contents_open(input->path, context, &session->contents, error);
    if (session->training == NULL)
        return tn_contents_generate(input->path, input->graph, session->weights_seed, context,
                                    &session->contents, error);
    TN_TRY(tn_contents_generate(NULL, input->graph, session->weights_seed, context, &session->fresh,
                                error));
    return tn_contents_open(input->path, context, &session->contents, error);
}

/* The graph to compile: the model, or a step of its training. */
static tn_status session_graph(cli_session *session, tn_error *error) {
    const cli_whom whom = cli_session_whom(session);
    session->graph = session->input->graph;
    if (session->training == NULL) return TN_OK;
    TN_TRY(cli_training_make(session->training, session->input->graph, cli_whom_rewrites(&whom),
                             &session->model, &session->step, error));
    session->graph = session->step.graph;
    return TN_OK;
}

cli_whom cli_session_whom(const cli_session *session) {
    cli_whom whom =
        cli_choices_whom(&session->choices, session->plain ? CLI_RUNNER_PLAIN : CLI_RUNNER_ONEDNN);
    whom.staged = session->divide != NULL && session->divide->arranges;
    return whom;
}

static tn_status session_prune(cli_session *session, tn_error *error) {
    tn_prune_options options = TN_PRUNE_OPTIONS_INIT;
    if (session->prune == 0) return TN_OK;
    options.context = session->input->import.context;
    options.share = session->prune;
    options.scope = session->prune_scope;
    options.read = cli_session_read;
    options.self = session;
    return tn_prune(session->graph, &options, &session->pruning, error);
}

/* Seconds of the stages [first, last). */
static double session_seconds(const cli_session *session, tn_setup_stage first,
                              tn_setup_stage last) {
    double seconds = 0;
    for (tn_setup_stage at = first; at < last; at++)
        seconds += tn_setup_seconds(session->setup, at);
    return seconds;
}

tn_status cli_session_plan(cli_session *session, tn_error *error) {
    cli_input *input = session->input;
    double start = cli_clock();
    TN_TRY(session_model(session, error));
    TN_TRY(session_contents(session, error));
    cli_stage(input, "import", cli_clock() - start);
    start = cli_clock();
    TN_TRY(session_graph(session, error));
    TN_TRY(session_prune(session, error));
    double trained = cli_clock() - start;
    TN_TRY(cli_session_set_up(session, error));
    cli_stage(input, "kernels",
              trained + session_seconds(session, TN_SETUP_REWRITE, TN_SETUP_ORDER));
    cli_stage(input, "plan", session_seconds(session, TN_SETUP_ORDER, TN_SETUP_STAGE_COUNT));
    return TN_OK;
}

/* --- up to the engine --- */

/* Reads a tensor of the model or of the running graph; a rank may have only a part of it. */
static bool session_is_trained(const cli_session *session, const tn_graph *graph, tn_tensor_id id) {
    const tn_graph *step = graph == session->input->graph ? session->step.graph : graph;
    return step != NULL && (tn_graph_tensor(step, id)->flags & TN_TENSOR_UPDATED) != 0;
}

/* In a shard the whole tensor has no memory; it is read to fill the shard. */
static bool session_is_parameter(const tn_tensor *tensor) {
    bool shared = tensor->kind == TN_KIND_ACTIVATION && (tensor->flags & TN_TENSOR_UPDATED) != 0;
    return tensor->kind == TN_KIND_PARAMETER || shared;
}

static tn_status session_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                              uint64_t size, tn_error *error) {
    const cli_session *session = self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    if (session->trained != NULL && tensor->kind == TN_KIND_PARAMETER &&
        tn_trainer_read(session->trained, tensor->name, bytes, size))
        return TN_OK;
    const tn_kept *kept =
        session->kept != NULL ? tn_checkpoint_find(session->kept, tensor->name) : NULL;
    if (session_is_parameter(tensor) && kept != NULL && kept->size == size) {
        memcpy(bytes, kept->bytes, size);
        return TN_OK;
    }
    if (session->weights != NULL && session_is_parameter(tensor) &&
        tn_weights_fill(session->weights, tensor, bytes, size))
        return TN_OK;
    bool fresh = session->fresh != NULL && session_is_trained(session, graph, id);
    return tn_contents_read(fresh ? session->fresh : session->contents, graph, id, bytes, size,
                            error);
}

tn_contents_of cli_session_contents(cli_session *session) {
    return (tn_contents_of){session_read, session, session->input->graph};
}

/* The same for the running graph; ranks may have parts of it. */
tn_status cli_session_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                           uint64_t size, tn_error *error) {
    cli_session *session = self;
    const tn_contents_of whole = cli_session_contents(session);
    if (session->training == NULL) return session_read(self, graph, id, bytes, size, error);
    return tn_training_read(&session->step, id, &whole, bytes, size, error);
}

/* The place of a tensor in a file, if it has the same bytes there. Trained or pruned weights have
 * none. */
tn_status cli_session_where(void *self, const tn_graph *graph, tn_tensor_id id,
                            tn_file_range *range, bool *found, tn_error *error) {
    const cli_session *session = self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    *found = false;
    bool part = session->training != NULL && tn_training_part(&session->step, id) != NULL;
    if (part || session->trained != NULL || session->kept != NULL ||
        (session->fresh != NULL && (tensor->flags & TN_TENSOR_UPDATED) != 0))
        return TN_OK;
    if (session->weights != NULL && tensor->kind == TN_KIND_PARAMETER &&
        tn_weights_find(session->weights, tensor->name) != NULL) {
        *found = tn_weights_where(session->weights, tensor, range);
        return TN_OK;
    }
    return tn_contents_where(session->contents, graph, id, range, found, error);
}

/* Without a budget a pool gets more room than any pool needs: it is reserved, not touched. */
static uint64_t session_pool_room(const cli_session *session) {
    uint64_t naive = tn_occupancy_summary(tn_setup_occupancy(session->setup)).naive;
    uint64_t all = tn__add_sat(naive, tn_setup_need(session->setup).statics);
    return session->budget > 0 ? session->budget
                               : tn__add_sat(tn__mul_sat(all, 4), UINT64_C(256) << 20);
}

tn_status cli_session_open(cli_session *session, tn_error *error) {
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    device.context = options.context = session->input->import.context;
    device.capacity = session->pool == NULL ? session->budget : 0;
    device.link_bytes_per_s = session->link;
    options.read = cli_session_read;
    options.self = session;
    options.seed = session->seed;
    options.poison = session->poison;
    options.error_limit = session->max_error;
    options.trace = session->trace;
    options.exchange = session->exchange;
    options.where = cli_session_where;
    options.forms_folder = session->forms_folder;
    options.storage_bytes_per_s = session->storage;
    options.storage_cache = session->storage_cache;
    options.swap_device = session->swap_device;
    options.host_capacity = session->host_budget;
    options.swap_bytes_per_s = session->link;
    options.pool = session->pool;
    options.pool_capacity = session->pool != NULL ? session_pool_room(session) : 0;
    return tn_setup_open(session->setup, &device, &options, &session->engine, error);
}

/* --- the trace --- */

/* Room for the steps and for the begin and end of each block. Loops may produce more events; those
 * without room are counted. */
tn_status cli_session_open_trace(cli_session *session, uint64_t runs, tn_error *error) {
    if (session->traces.count == 0 && !session->traced) return TN_OK;
    const tn_program *program = tn_setup_program(session->setup);
    const tn_problem *problem = tn_occupancy_problem(tn_setup_occupancy(session->setup));
    uint64_t a_run = tn_program_count(program) + 2 * (uint64_t)tn_problem_count(problem);
    bool loops = tn_program_region_count(program) > 0;
    uint64_t room = tn__mul_sat(a_run * (loops ? 16 : 1), runs);
    room = tn__add_sat(room, 2 * (uint64_t)tn_graph_tensor_count(session->graph) + 16);
    if (room > SESSION_EVENTS_MAX) room = SESSION_EVENTS_MAX;
    return tn_trace_create(session->input->import.context, room, &session->trace, error);
}

static tn_status session_write_trace(const void *self, const char *path, tn_error *error) {
    const cli_session *session = self;
    tn_report report = {.struct_size = sizeof report,
                        .input = session->input->path,
                        .problem = tn_occupancy_problem(tn_setup_occupancy(session->setup)),
                        .occupancy = tn_setup_occupancy(session->setup),
                        .layout = session->pool == NULL ? tn_setup_layout(session->setup) : NULL,
                        .trace = session->trace};
    return tn_report_write(&report, path, error);
}

tn_status cli_session_write_trace(const cli_session *session, tn_error *error) {
    return cli_paths_write(&session->traces, session_write_trace, session, error);
}

/* --- separate memory for each tensor --- */

tn_status cli_session_naive(const cli_session *session, cli_session *other, tn_error *error) {
    other->input = session->input;
    other->training = session->training;
    other->contents = session->contents;
    other->kept = session->kept;
    other->weights = session->weights;
    other->fresh = session->fresh;
    other->step = session->step;
    other->seed = session->seed;
    other->exchange = session->exchange;
    other->forms_folder = session->forms_folder;
    other->naive = true;
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_occupancy_options memory = cli_ask_memory(session->input);
    options.memory = &memory;
    options.without_reuse = true;
    options.statics = session->input->statics;
    if (tn_setup_streamed(session->setup) != NULL) options.statics = TN_STATIC_ARENA;
    TN_TRY(tn_setup_from(session->setup, TN_SETUP_OCCUPY, &options, &other->setup, error));
    other->graph = tn_setup_graph(other->setup);
    return cli_session_open(other, error);
}

void cli_session_close(cli_session *session) {
    tn_engine_destroy(session->engine);
    if (session->answer.own == NULL) tn_setup_destroy(session->setup);
    tn_fit_answer_release(&session->answer);
    free(session->zeros);
    if (session->naive) return; /* the rest belongs to the other session */
    tn_pruning_release(&session->pruning);
    tn_training_release(&session->step);
    tn_graph_destroy(session->model);
    tn_trace_destroy(session->trace);
    tn_contents_close(session->fresh);
    if (session->weights_path != NULL) tn_checkpoint_close(session->kept);
    tn_weights_close(session->weights);
    if (session->own_contents) tn_contents_close(session->contents);
}

/* --- plan --- */

/* A model is planned without changes or within a budget (tn_fit_graph combines the techniques). If
 * the budget cannot be met, the smallest program found remains, so that the command can list the
 * largest tensors at its peak. */

#define SESSION_SAMPLE (UINT64_C(1) << 20)

static tn_fit_options session_search(const cli_session *session) {
    tn_fit_options fit = TN_FIT_OPTIONS_INIT;
    fit.context = session->input->import.context;
    fit.budget = session->budget;
    fit.pass = session->pass;
    fit.allow = session->allow;
    if (session->input->split.asked) fit.allow |= TN_FIT_SPLIT;
    fit.codecs = session->codecs;
    if (session->codecs != 0) fit.allow |= TN_FIT_COMPRESS;
    if (cli_codecs_lose(session->codecs)) fit.allow |= TN_FIT_LOSSY;
    fit.host_budget = session->host_budget;
    fit.to_host_bytes_per_s = session->to_swap;
    fit.from_host_bytes_per_s = session->from_swap;
    fit.timeout_s = session->timeout_s;
    return fit;
}

typedef struct session_sources {
    cli_sources sources; /* first: a pointer to it is one to the whole */
    cli_session *session;
} session_sources;

/* The read speed of weights: of the file with the largest weight that can be read in place, or of
 * the folder for converted weights. */
static tn_status session_storage(void *self, double *bytes_per_s, tn_error *error) {
    const session_sources *sources = self;
    cli_session *session = sources->session;
    const tn_graph *graph = session->graph;
    const char *path = session->forms_folder != NULL ? session->forms_folder : getenv("TMPDIR");
    uint64_t most = SESSION_SAMPLE; /* smaller samples are too noisy */
    if (path == NULL || *path == '\0') path = "/tmp";
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++) {
        tn_file_range range;
        bool found;
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        if (!tn_tensor_is_constant(tensor) || tensor->producer != TN_NONE) continue;
        TN_TRY(cli_session_where(session, graph, id, &range, &found, error));
        if (!found || range.size <= most) continue;
        most = range.size;
        path = range.path;
    }
    return tn_storage_measure(path, bytes_per_s, error);
}

/* Plans within the budget. If nothing fits, the answer keeps the smallest program found, so that
 * its holders can be listed. */
static tn_status session_fit(cli_session *session, const tn_setup_options *options,
                             tn_error *error) {
    const tn_fit_options search = session_search(session);
    tn_fit_request request = TN_FIT_REQUEST_INIT;
    session_sources all = {.sources = {.from = &session->from,
                                       .threads = session->choices.threads,
                                       .codecs = session->codecs,
                                       .engine = TN_ENGINE_OPTIONS_INIT,
                                       .samples = &session->samples,
                                       .zeros = &session->zeros},
                           .session = session};
    all.sources.engine.context = search.context;
    all.sources.engine.read = cli_session_read;
    all.sources.engine.self = session;
    request.setup = options;
    request.search = &search;
    request.storage_bytes_per_s = session->storage;
    cli_ask_fit(&all.sources, &request);
    request.storage = session_storage;
    request.split_share = session->input->split.has_share ? session->input->split.options.share : 0;
    tn_status status = tn_fit_graph(session->graph, &request, &session->answer, error);
    session->setup = session->answer.setup != NULL ? session->answer.setup : session->answer.whole;
    return status;
}

/* No search is needed without a budget, for a pool, or with separate memory for every tensor. */
static tn_status session_make(cli_session *session, tn_setup_options *options, tn_error *error) {
    bool budget = session->budget > 0 && session->pool == NULL && !session->naive;
    options->split = budget ? NULL : cli_split_of(&session->input->split, 0);
    tn_status status = budget ? session_fit(session, options, error)
                              : tn_setup_create(session->graph, options, &session->setup, error);
    options->split = NULL;
    if (session->setup != NULL) session->graph = tn_setup_graph(session->setup);
    return status;
}

tn_status cli_session_set_up(cli_session *session, tn_error *error) {
    cli_asked asked;
    const cli_whom whom = cli_session_whom(session);
    cli_ask(session->input, &whom, session->training, &session->choices.plan, &asked);
    asked.setup.divide = session->divide;
    asked.rewrite.weights_dtype = session->weights_dtype;
    if (session->pruning.count > 0) asked.rewrite.pruning = &session->pruning;
    if (session->weights_dtype != TN_UNDEFINED || asked.rewrite.pruning != NULL)
        asked.setup.rewrite = &asked.rewrite;
    TN_TRY(session_make(session, &asked.setup, error));
    tn_pruning_measure(&session->pruning, session->graph);
    return TN_OK;
}
