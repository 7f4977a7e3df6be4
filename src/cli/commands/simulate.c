/* simulate.c - `tenure simulate`: replays a recorded run of operators in less memory, by several
 * policies. */
#include "cli/simulate.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SIMULATE_POLICY = 400,
    SIMULATE_BUDGET,
    SIMULATE_SWEEP,
    SIMULATE_ADDRESSES,
    SIMULATE_ALIGNMENT,
    SIMULATE_LINK,
    SIMULATE_HOST,
    SIMULATE_MOVES,
    SIMULATE_MOST,
    SIMULATE_SAMPLE,
    SIMULATE_SEED,
    SIMULATE_JSON
};

#define SIMULATE_OPTIONS(X)                                                                        \
    X(SIMULATE_POLICY, "policy", "NAME,...",                                                       \
      "eviction policy: names of `tenure list policies`, or all (default: the first)")             \
    X(SIMULATE_BUDGET, "budget", "SIZE",                                                           \
      "memory in bytes, or as a fraction of the plain peak such as 0.5; may be a list (default: "  \
      "0.5)")                                                                                      \
    X(SIMULATE_SWEEP, "sweep", NULL, "use budgets of 0.1, 0.2, ..., 1.0 of the plain peak")        \
    X(SIMULATE_ADDRESSES, "addresses", NULL,                                                       \
      "place tensors at addresses in one arena: evictions must free a contiguous range")           \
    X(SIMULATE_ALIGNMENT, "alignment", "SIZE",                                                     \
      "with --addresses: alignment of tensors in bytes (default: 64)")                             \
    X(SIMULATE_LINK, "link", "SIZE/s",                                                             \
      "allow swapping to the host, at this speed in each direction (default: no swapping)")        \
    X(SIMULATE_HOST, "host", "SIZE",                                                               \
      "bytes of host memory for swapped tensors (default: no limit)")                              \
    X(SIMULATE_MOVES, "moves", "SIZE/s", "speed of moves within the arena (default: 100GB/s)")     \
    X(SIMULATE_MOST, "overhead-max", "TIMES",                                                      \
      "stop if the run takes more than N times the plain time (default: 2)")                       \
    X(SIMULATE_SAMPLE, "sample", NULL, "compare only sqrt(n) random candidates of n")              \
    X(SIMULATE_SEED, "seed", "N", "seed of random choices (default: 0)")                           \
    X('o', "output", "FILE", "write a picture or a table, .html, .svg or .csv; may be repeated")   \
    X(SIMULATE_JSON, "json", NULL, "print one JSON object instead of the table")

typedef struct simulate_arguments {
    simulate_found found;
    const char *budgets;
    cli_paths outputs;
    bool json, sweep;
    tn_evict_options options;
} simulate_arguments;

static const struct argp_option simulate_options[] = {SIMULATE_OPTIONS(CLI_OPTION){0}};

static void simulate_add_policy(simulate_found *found, const char *name, size_t size,
                                struct argp_state *state) {
    for (uint32_t i = 0; i < tn_evict_policy_count(); i++) {
        const char *known = tn_evict_policy_name(i);
        if (strlen(known) != size || memcmp(known, name, size) != 0) continue;
        for (uint32_t k = 0; k < found->policy_count; k++)
            if (found->policies[k] == known) return;
        if (found->policy_count < SIMULATE_POLICIES_MAX)
            found->policies[found->policy_count++] = known;
        return;
    }
    cli_misuse(state, "--policy: there is no policy '%.*s'; see `tenure list policies`", (int)size,
               name);
}

static void simulate_take_policies(simulate_found *found, const char *words,
                                   struct argp_state *state) {
    if (strcmp(words, "all") == 0) {
        for (uint32_t i = 0; i < tn_evict_policy_count(); i++)
            simulate_add_policy(found, tn_evict_policy_name(i), strlen(tn_evict_policy_name(i)),
                                state);
        return;
    }
    for (;; words++) {
        size_t size = strcspn(words, ",");
        simulate_add_policy(found, words, size, state);
        words += size;
        if (*words == '\0') return;
    }
}

static error_t simulate_parse(int key, char *value, struct argp_state *state) {
    simulate_arguments *arguments = state->input;
    tn_evict_options *options = &arguments->options;
    switch (key) {
    case SIMULATE_POLICY:
        simulate_take_policies(&arguments->found, value, state);
        return 0;
    case SIMULATE_BUDGET:
        arguments->budgets = value;
        return 0;
    case SIMULATE_SWEEP:
        arguments->sweep = true;
        return 0;
    case SIMULATE_ADDRESSES:
        options->addresses = arguments->found.addresses = true;
        return 0;
    case SIMULATE_ALIGNMENT:
        options->alignment = cli_size(state, "alignment", value);
        return 0;
    case SIMULATE_LINK:
        options->link_bytes_per_s = (uint64_t)cli_speed(state, "link", value);
        return 0;
    case SIMULATE_HOST:
        options->host_bytes = cli_size(state, "host", value);
        return 0;
    case SIMULATE_MOVES:
        options->move_bytes_per_s = (uint64_t)cli_speed(state, "moves", value);
        return 0;
    case SIMULATE_MOST:
        options->overhead_max = cli_real(state, "overhead-max", value);
        return 0;
    case SIMULATE_SAMPLE:
        options->sample = true;
        return 0;
    case SIMULATE_SEED:
        options->seed = cli_number(state, "seed", value);
        return 0;
    case 'o':
        CLI_PATHS_ADD(state, "-o", value, &arguments->outputs, ".html", ".svg", ".csv");
        return 0;
    case SIMULATE_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->found.path != NULL)
            cli_misuse(state, "give only one log; '%s' is a second one", value);
        arguments->found.path = value;
        cli_note_input(value);
        return 0;
    case ARGP_KEY_END:
        if (arguments->found.path == NULL)
            cli_misuse(state, "no log given; pass the file of a recorded run");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- budgets --- */

static void simulate_add_budget(simulate_found *found, uint64_t budget) {
    uint32_t at = found->budget_count;
    if (at == SIMULATE_BUDGETS_MAX) return;
    for (; at > 0 && found->budgets[at - 1] > budget; at--)
        found->budgets[at] = found->budgets[at - 1];
    found->budgets[at] = budget;
    found->budget_count++;
}

/* A number up to 8 with a decimal point is a fraction; everything else is bytes. */
static tn_status simulate_take_budget(simulate_found *found, const char *word, tn_error *error) {
    char *end;
    uint64_t bytes;
    double share = strtod(word, &end);
    if (strchr(word, '.') != NULL && *end == '\0' && end != word) {
        if (!(share > 0 && share <= 8))
            TN_FAIL(
                error, TN_E_INVALID,
                "--budget: a fraction of the plain peak must be above 0 and at most 8, not %.40s",
                word);
        simulate_add_budget(found, (uint64_t)((double)found->plain_peak * share));
        return TN_OK;
    }
    TN_TRY(tn_size_parse(word, &bytes, error));
    simulate_add_budget(found, bytes);
    return TN_OK;
}

static tn_status simulate_take_budgets(simulate_arguments *arguments, tn_error *error) {
    simulate_found *found = &arguments->found;
    const char *words = arguments->budgets != NULL ? arguments->budgets : "0.5";
    for (uint32_t i = 1; arguments->sweep && i <= 10; i++)
        simulate_add_budget(found, (uint64_t)((double)found->plain_peak * (i / 10.0)));
    while (!arguments->sweep) {
        char word[64];
        size_t size = strcspn(words, ",");
        snprintf(word, sizeof word, "%.*s", (int)(size < 63 ? size : 63), words);
        TN_TRY(simulate_take_budget(found, word, error));
        if (words[size] == '\0') break;
        words += size + 1;
    }
    return TN_OK;
}

static tn_status simulate_work(simulate_arguments *arguments, tn_evict_log **log, tn_error *error) {
    simulate_found *found = &arguments->found;
    TN_TRY(tn_evict_log_load(arguments->options.context, found->path, log, error));
    found->facts = tn_evict_log_about(*log);
    TN_TRY(tn_evict_plain_peak(*log, &found->plain_peak, error));
    TN_TRY(tn_evict_plain_least(*log, &found->least, error));
    TN_TRY(simulate_take_budgets(arguments, error));
    found->runs = calloc((size_t)found->policy_count * found->budget_count, sizeof *found->runs);
    if (found->runs == NULL) return tn__no_memory(error, "the answers");
    for (uint32_t p = 0; p < found->policy_count; p++)
        for (uint32_t b = 0; b < found->budget_count; b++) {
            simulate_run *run = &found->runs[(size_t)p * found->budget_count + b];
            arguments->options.policy = found->policies[p];
            arguments->options.budget = run->budget = found->budgets[b];
            TN_TRY(tn_evict_simulate(*log, &arguments->options, &run->outcome, error));
        }
    return TN_OK;
}

/* 1 if no policy can finish in some budget. */
static int simulate_code(const simulate_arguments *arguments) {
    const simulate_found *found = &arguments->found;
    for (uint32_t b = 0; !arguments->sweep && b < found->budget_count; b++) {
        bool is_done = false;
        for (uint32_t p = 0; p < found->policy_count; p++)
            is_done = is_done || simulate_at(found, p, b)->outcome.end == TN_EVICT_DONE;
        if (!is_done) return tn_status_exit_code(TN_E_EXHAUSTED);
    }
    return 0;
}

static tn_status simulate_write_file(const void *self, const char *path, tn_error *error) {
    return simulate_write(self, path, error);
}

static int simulate_tell(const simulate_arguments *arguments, tn_error *error) {
    tn_status status = TN_OK;
    cli_progress_end();
    status = cli_paths_write(&arguments->outputs, simulate_write_file, &arguments->found, error);
    if (status == TN_OK) status = simulate_print(&arguments->found, arguments->json, error);
    if (status != TN_OK) return cli_fail(error);
    if (!arguments->json) cli_paths_print(&arguments->outputs);
    return simulate_code(arguments);
}

static const char simulate_doc[] =
    "Replays LOG, a recorded run of operators, in less memory than it used. Evicted tensors are "
    "recomputed when they are needed again. LOG has the line format of DTR's simulator, or comes "
    "from `python3 -m tenure.record`.\v"
    "Examples:\n"
    "  tenure simulate run.log --budget 0.5\n"
    "  tenure simulate run.log --policy all --sweep -o sweep.html\n"
    "  tenure simulate run.log --policy window,dte,dtr --budget 4GiB --addresses\n\n"
    "Exit status: 0 done, 1 no policy can finish in some budget, 2 bad usage or input, 4 internal "
    "error.";

static const struct argp simulate_parser = {
    simulate_options, simulate_parse, "LOG", simulate_doc, NULL, 0, 0};

static int simulate_run_command(int count, char **words) {
    tn_error error = {0};
    tn_evict_log *log = NULL;
    simulate_arguments arguments = {.options = TN_EVICT_OPTIONS_INIT};
    tn_context context = cli_context();
    arguments.options.context = &context;
    arguments.options.overhead_max = 2;
    arguments.options.time_search = true;
    cli_parse(&cli_command_simulate, count, words, &arguments);
    cli_context_read(&context);
    if (arguments.found.policy_count == 0)
        arguments.found.policies[arguments.found.policy_count++] = tn_evict_policy_name(0);
    int code = simulate_work(&arguments, &log, &error) == TN_OK ? simulate_tell(&arguments, &error)
                                                                : cli_fail(&error);
    free(arguments.found.runs);
    tn_evict_log_destroy(log);
    return cli_finish(code);
}

const cli_command cli_command_simulate = {
    .name = "simulate",
    .summary = "replay recorded operators in less memory, and compare eviction policies",
    .first = "policy budget sweep addresses output json",
    .answers = (const cli_facts *const[]){&simulate_facts, NULL},
    .parser = &simulate_parser,
    .run = simulate_run_command,
};
