/* open_options.c - options of who runs a model: shared by `run` and `train`, some by `estimate`.
 */
#include <string.h>

#include "base/base.h"
#include "cli/open_model.h"

enum { CHOICES_PLANNER = 1100, CHOICES_THREADS, CHOICES_NO_REWRITE, CHOICES_FASTEST };

#define CHOICES_OPTIONS(X)                                                                         \
    X(CHOICES_PLANNER, "planner", "NAME", "one of `tenure list planners` (auto)")                  \
    X(CHOICES_THREADS, "threads", "N", "of the kernels; the same number gives the same bits (1)")  \
    X(CHOICES_NO_REWRITE, "no-rewrite", NULL, "operators as the file has them, nothing fused")     \
    X(CHOICES_FASTEST, "fastest", NULL,                                                            \
      "each operator by its fastest kernel, however much scratch that takes")

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

static const struct argp_option choices_options[] = {CHOICES_OPTIONS(CLI_OPTION){0}};
const struct argp cli_choices_argp = {.options = choices_options, .parser = choices_parse};

enum {
    SESSION_WEIGHTS = 1200,
    SESSION_BUDGET,
    SESSION_PASS,
    SESSION_LINK,
    SESSION_SWAP_DEVICE,
    SESSION_CODECS,
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
      "random: make up the weights that are not in the model file, of training all that are "      \
      "trained; FILE: those of a .safetensors or .gguf file, by name, or of a checkpoint of "      \
      "`tenure train`, the rest of the model file (read them)")                                    \
    X(SESSION_BUDGET, "budget", "SIZE",                                                            \
      "bytes for arena and weights: where the plan needs more, operators run again; with "         \
      "--link tensors go to the host and back. What cannot be is refused (what it needs)")         \
    X(SESSION_PASS, "pass", "NAME",                                                                \
      "that makes it keep to the budget, one of `tenure list passes`; keep: none does (joint)")    \
    X(SESSION_CODECS, "codecs", "NAME,...",                                                        \
      "to keep to the budget tensors may be kept encoded, too: bits, csr (the same results), "     \
      "float16, float10, float8 (others) (none)")                                                  \
    X(SESSION_LINK, "link", "SIZE/s",                                                              \
      "speed of copies to the device and back, 8GB/s: inputs and outputs (as fast as it goes)")    \
    X(SESSION_SWAP_DEVICE, "swap-device", "NAME", CLI_SWAP_DEVICE_HELP)                            \
    X(SESSION_ALLOW, "allow", "WHAT,...",                                                          \
      "what may be done to keep to the budget: order, recompute, swap, compress; split: "          \
      "operators in parts, where that is faster, or nothing else will do; stream: weights come "   \
      "from their file when they are needed (order,recompute,split; swap, where a link is given)") \
    X(SESSION_STORAGE, "storage", "SIZE/s",                                                        \
      "with --allow stream: speed of the files of weights, 2GB/s; reads then take no less "        \
      "(measured, and as fast as they are)")                                                       \
    X(SESSION_STORAGE_CACHE, "storage-cache", NULL,                                                \
      "what was read of them may stay in the system's cache (all of it is read anew in each run)") \
    X(SESSION_FORMS, "forms", "DIR",                                                               \
      "with --allow stream: where weights are kept while it runs in the form that kernels want, "  \
      "if no file has them so ($TMPDIR, else /tmp)")                                               \
    X(SESSION_HOST_BUDGET, "host-budget", "SIZE", "bytes on the host for what is copied there")    \
    X(SESSION_COSTS, "costs", "FILE|model:DEVICE",                                                 \
      "seconds of operators, for the budget: of a file of `tenure fit --save-costs`, or by the "   \
      "two rates of one of `tenure list hardware` (measured here)")                                \
    X(SESSION_TIMEOUT, "timeout", "TIME",                                                          \
      "the best that is found for --budget in so long, 10s, costs measured included (none)")       \
    X(SESSION_SEED, "seed", "N",                                                                   \
      "of operators that draw numbers, of dropout, of the order of samples (0)")                   \
    X(SESSION_CHECK, "check", "naive",                                                             \
      "run it without any reuse as well: every bit must be the same")                              \
    X(SESSION_POISON, "poison", NULL,                                                              \
      "bytes that nothing holds are NaNs, and are looked at: who writes there is found")           \
    X(SESSION_TRACE, "trace", "FILE",                                                              \
      "what ran when, and who held memory: .trace.json (Chrome, Perfetto) or .trace.csv "          \
      "(replay) or .pickle (PyTorch's memory viewer, `tenure report`); of training, in its first " \
      "step; may be repeated")                                                                     \
    X(SESSION_PLAIN, "plain", NULL, "our own loops alone, without oneDNN: slow, the reference")

static void session_set_weights(struct argp_state *state, cli_session *session, const char *text) {
    session->weights_made_up = strncmp(text, "random", 6) == 0 && strchr(":", text[6]) != NULL;
    if (!session->weights_made_up)
        session->weights_path = text;
    else if (text[6] != '\0')
        session->weights_seed = cli_number(state, "weights", text + 7);
}

/* How to keep to a budget, of whom has none, is a mistake. */
static void session_check_fit(struct argp_state *state, cli_session *session) {
    const char *said = session->allow != 0               ? "allow"
                       : session->swap_device != NULL    ? "swap-device"
                       : session->host_budget > 0        ? "host-budget"
                       : cli_costs_given(&session->from) ? "costs"
                       : session->timeout_s > 0          ? "timeout"
                                                         : NULL;
    if (said != NULL && session->budget == 0)
        cli_misuse(state, "--%s says how to keep to --budget: give that, too", said);
    session->to_swap = session->from_swap = session->link;
    cli_swap_link(state, session->swap_device, session->allow, &session->to_swap,
                  &session->from_swap);
    session->allow = cli_allow_check(state, session->allow, session->to_swap, session->pass);
    cli_host_budget_check(state, session->host_budget, session->allow);
    bool streams = (session->allow & TN_FIT_STREAM) != 0;
    const char *how = session->storage > 0            ? "storage"
                      : session->storage_cache        ? "storage-cache"
                      : session->forms_folder != NULL ? "forms"
                                                      : NULL;
    if (!streams && how != NULL) cli_misuse(state, "--%s is for --allow stream", how);
    if (streams && session->pool != NULL)
        cli_misuse(state, "--allow stream needs a plan: not with --pool");
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
        if (session->budget == 0) cli_misuse(state, "--budget: 0 bytes hold nothing");
        return 0;
    case SESSION_PASS:
        session->pass = value;
        return 0;
    case SESSION_CODECS:
        session->codecs = cli_codecs(state, value);
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
        if (session->host_budget == 0) cli_misuse(state, "--host-budget: 0 bytes hold nothing");
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
            cli_misuse(state, "--check: '%s' is not naive, the only check there is", value);
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
        session_check_fit(state, session);
        if (session->traces.count > 0 && session->poison)
            cli_misuse(state, "--trace and --poison do not go together: run it once for each");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option session_options[] = {SESSION_OPTIONS(CLI_OPTION){0}};
static const struct argp_child session_children[] = {{&cli_choices_argp, 0, NULL, 0}, {0}};
const struct argp cli_session_argp = {
    .options = session_options, .parser = session_parse, .children = session_children};
