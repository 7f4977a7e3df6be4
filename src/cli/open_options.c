/* open_options.c - options for running a model, shared by `run` and `train`; some also by
 * `estimate`.
 */
#include <string.h>

#include "base/base.h"
#include "cli/losses.h"
#include "cli/open_model.h"

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
