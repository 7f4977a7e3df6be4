/* replay.c - `tenure replay`: what would other pools have reserved for a recorded run?
 *
 * Each pool runs the trace from the start in a range of its own. Beside them stands the ideal: the
 * lives are known now, so they are planned, and the plan is replayed by the pool `planned`, which
 * checks it. The holders are those at the peak of the first pool that fits, or, where one does not,
 * those when its allocation failed.
 */
#include "cli/cli.h"
#include "cli/holders.h"
#include "cli/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "report/format.h"

enum {
    REPLAY_POOL = 400,
    REPLAY_CAPACITY,
    REPLAY_ALIGNMENT,
    REPLAY_PLANNER,
    REPLAY_TIMEOUT,
    REPLAY_DEVICE,
    REPLAY_JSON
};

#define REPLAY_OPTIONS(X)                                                                          \
    X(REPLAY_POOL, "pool", "NAME", "one of `tenure list pools`; may be repeated (all)")            \
    X(REPLAY_CAPACITY, "capacity", "SIZE", "of the range that each pool divides (without end)")    \
    X(REPLAY_ALIGNMENT, "alignment", "SIZE", "of every block, at least (64)")                      \
    X(REPLAY_PLANNER, "planner", "NAME", "for the ideal: one of `tenure list planners` (auto)")    \
    X(REPLAY_TIMEOUT, "timeout", "TIME", "for planning: 10s, 500ms, 2m (10s)")                     \
    X(REPLAY_DEVICE, "device", "N", "of a memory snapshot (the one with the highest peak)")        \
    X('o', "output", "FILE",                                                                       \
      "a picture of what each pool has reserved after each event: .svg; or what the first one "    \
      "that "                                                                                      \
      "fits did, as a memory snapshot: .pickle")                                                   \
    X(REPLAY_JSON, "json", NULL, "print one JSON object instead of the table")

enum { REPLAY_POOLS_MAX = 64, REPLAY_HOLDERS = 5 };

typedef struct replay_result {
    const char *name;
    bool fits;
    tn_pool_usage usage;
    tn_pool_lesson lesson;
    tn_error failure; /* when it does not fit */
    cli_holders holders;
    tn_pool *pool; /* owns the labels of the holders */
} replay_result;

typedef struct replay_arguments {
    const char *path, *output;
    const char *pools[REPLAY_POOLS_MAX];
    uint32_t pool_count;
    uint64_t capacity, alignment;
    tn_plan_options plan_options;
    bool json;
    tn_context context;
    tn_pool_trace *trace;
    uint32_t device;          /* of a snapshot; UINT32_MAX: who has the highest peak */
    tn_snapshot *snapshot;    /* NULL: the trace is none */
    tn_snapshot_lives *lives; /* own the words of its trace */
    const tn_pool_event *events;
    uint64_t event_count;
    uint64_t *sizes;    /* [blocks] */
    uint64_t *reserved; /* [events], of one pool; with `output` */
    cli_replay_picture picture;
    tn_layout layout;
    replay_result results[REPLAY_POOLS_MAX];
    tn_error *error;
} replay_arguments;

static const struct argp_option replay_options[] = {REPLAY_OPTIONS(CLI_OPTION){0}};

static void replay_add_pool(replay_arguments *arguments, const char *name,
                            struct argp_state *state) {
    uint32_t known = 0;
    while (known < tn_pool_count() && strcmp(name, tn_pool_name(known)) != 0) known++;
    if (known == tn_pool_count()) {
        char asked[TN__NEAR_TEXT];
        cli_misuse(
            state, "--pool: there is no pool '%.60s'; %s", name,
            tn__near_of(name, tn_pool_count(), tn_pool_name, "see `tenure list pools`", asked));
    }
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        if (strcmp(arguments->pools[i], name) == 0) return;
    arguments->pools[arguments->pool_count++] = name;
}

static error_t replay_parse(int key, char *value, struct argp_state *state) {
    replay_arguments *arguments = state->input;
    switch (key) {
    case REPLAY_POOL:
        replay_add_pool(arguments, value, state);
        return 0;
    case REPLAY_CAPACITY:
        arguments->capacity = cli_size(state, "capacity", value);
        return 0;
    case REPLAY_ALIGNMENT:
        arguments->alignment = cli_size(state, "alignment", value);
        return 0;
    case REPLAY_PLANNER:
        arguments->plan_options.planner = value;
        return 0;
    case REPLAY_TIMEOUT:
        arguments->plan_options.timeout_s = cli_duration(state, "timeout", value);
        return 0;
    case REPLAY_DEVICE:
        arguments->device = (uint32_t)cli_range(state, "device", value, 0, 1023);
        return 0;
    case 'o':
        if (!tn__has_suffix(value, ".svg") && !tn__has_suffix(value, ".pickle"))
            cli_misuse(state, "--output: '%s' does not end in .svg or .pickle", value);
        arguments->output = cli_standard_output(value);
        return 0;
    case REPLAY_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->path != NULL) cli_misuse(state, "one trace, not '%s' too", value);
        arguments->path = cli_standard_input(state, value);
        return 0;
    case ARGP_KEY_END:
        if (arguments->path == NULL) cli_misuse(state, "which trace? give a .csv");
        for (uint32_t i = 0; arguments->pool_count == 0 && i < tn_pool_count(); i++)
            arguments->pools[i] = tn_pool_name(i);
        if (arguments->pool_count == 0) arguments->pool_count = tn_pool_count();
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- the trace: a CSV, or a snapshot, which begins with a byte that no text has --- */

/* The lives of the device that was asked for, or of the one with the highest peak. */
static tn_status replay_snapshot_device(replay_arguments *arguments) {
    uint32_t count = tn_snapshot_device_count(arguments->snapshot);
    bool one = arguments->device != UINT32_MAX;
    uint32_t first = one ? arguments->device : 0, last = one ? first + 1 : count;
    for (uint32_t i = first; i < last; i++) {
        tn_snapshot_lives *lives = NULL, *less;
        TN_TRY(tn_snapshot_live(arguments->snapshot, i, &lives, arguments->error));
        bool is_more =
            arguments->lives == NULL || tn_snapshot_facts_of(lives)->peak_requested >
                                            tn_snapshot_facts_of(arguments->lives)->peak_requested;
        less = is_more ? arguments->lives : lives;
        if (is_more) arguments->lives = lives;
        tn_snapshot_lives_destroy(less);
    }
    if (arguments->lives == NULL)
        TN_FAIL(arguments->error, TN_E_INVALID, "no device has any memory in this snapshot");
    return tn_snapshot_trace(arguments->lives, &arguments->trace, arguments->error);
}

static tn_status replay_load(replay_arguments *arguments) {
    tn__file file;
    TN_TRY(tn__file_map(arguments->path, &file, arguments->error));
    bool is_snapshot = file.size > 0 && file.bytes[0] == 0x80;
    tn_status status =
        is_snapshot
            ? tn_snapshot_load_memory(arguments->path, file.bytes, file.size, &arguments->context,
                                      &arguments->snapshot, arguments->error)
            : tn_pool_trace_load_memory(arguments->path, file.bytes, file.size, &arguments->context,
                                        &arguments->trace, arguments->error);
    tn__file_unmap(&file);
    if (status != TN_OK || !is_snapshot) return status;
    return tn__where(arguments->error, replay_snapshot_device(arguments), "%s", arguments->path);
}

/* --- the ideal --- */

/* A body per block, with the numbers of its events as its life. */
static tn_status replay_add_bodies(replay_arguments *arguments, tn_problem *problem,
                                   tn_body *bodies) {
    uint32_t count = tn_pool_trace_block_count(arguments->trace);
    for (uint64_t i = 0; i < arguments->event_count; i++) {
        const tn_pool_event *event = &arguments->events[i];
        tn_body *body = &bodies[event->block];
        body->last = (int64_t)i;
        if (event->frees) continue;
        uint64_t own = event->alignment > arguments->alignment ? event->alignment : 0;
        *body = (tn_body){.size = event->size,
                          .first = (int64_t)i,
                          .last = (int64_t)arguments->event_count,
                          .alignment = own};
        arguments->sizes[event->block] = event->size;
    }
    for (uint32_t block = 0; block < count; block++)
        TN_TRY(tn_problem_add(problem, &bodies[block], NULL, arguments->error));
    return TN_OK;
}

static tn_status replay_plan(replay_arguments *arguments) {
    uint32_t count = tn_pool_trace_block_count(arguments->trace);
    tn_body *bodies = calloc((size_t)count + 1, sizeof *bodies);
    arguments->sizes = calloc((size_t)count + 1, sizeof *arguments->sizes);
    tn_problem *problem = NULL;
    tn_status status = TN_OK;
    if (bodies == NULL || arguments->sizes == NULL) {
        status = tn__no_memory(arguments->error, "the lives of a trace");
        goto done;
    }
    TN_TRY_DONE(tn_problem_create(&arguments->context, &problem, arguments->error));
    TN_TRY_DONE(tn_problem_set_alignment(problem, arguments->alignment, arguments->error));
    TN_TRY_DONE(replay_add_bodies(arguments, problem, bodies));
    arguments->plan_options.context = &arguments->context;
    TN_TRY_DONE(tn_plan(problem, &arguments->plan_options, &arguments->layout, arguments->error));
done:
    tn_problem_destroy(problem);
    free(bodies);
    return status;
}

/* Bytes requested and not freed: the most, and with `live` after each event. */
static uint64_t replay_live_peak(const replay_arguments *arguments, uint64_t *live) {
    uint64_t now = 0, peak = 0;
    for (uint64_t i = 0; i < arguments->event_count; i++) {
        uint64_t size = arguments->sizes[arguments->events[i].block];
        now = arguments->events[i].frees ? now - size : now + size;
        if (now > peak) peak = now;
        if (live != NULL) live[i] = now;
    }
    return peak;
}

/* --- the pools --- */

static tn_pool_options replay_pool_options(const replay_arguments *arguments, const char *name) {
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    options.context = &arguments->context;
    options.pool = name;
    options.capacity = arguments->capacity;
    options.alignment = arguments->alignment;
    if (strcmp(name, "planned") == 0) {
        options.planned_count = tn_pool_trace_block_count(arguments->trace);
        options.sizes = arguments->sizes;
        options.offsets = arguments->layout.offset;
    }
    return options;
}

static tn_status replay_pool(replay_arguments *arguments, replay_result *result) {
    tn_pool_options options = replay_pool_options(arguments, result->name);
    tn_status status = tn_pool_create(&options, &result->pool, &result->failure);
    for (uint64_t i = 0; arguments->reserved != NULL && i < arguments->event_count; i++)
        arguments->reserved[i] = UINT64_MAX; /* not reached */
    if (status == TN_OK)
        status =
            tn_pool_replay(result->pool, arguments->trace, arguments->reserved, &result->failure);
    result->fits = status == TN_OK;
    if (status != TN_OK && status != TN_E_EXHAUSTED) {
        *arguments->error = result->failure;
        return status;
    }
    if (result->pool == NULL) return TN_OK; /* the plan itself is too high */
    tn_pool_measure(result->pool, &result->usage);
    tn_pool_learned(result->pool, &result->lesson);
    if (arguments->reserved != NULL)
        cli_replay_curve(&arguments->picture, result->name, result->fits, arguments->reserved);
    return cli_holders_of_pool(&result->holders, result->pool, result->name,
                               result->fits ? TN_HOLDERS_PEAK : TN_HOLDERS_FAILED,
                               arguments->error);
}

static tn_status replay_begin_picture(replay_arguments *arguments) {
    arguments->reserved = calloc(arguments->event_count, sizeof *arguments->reserved);
    if (arguments->reserved == NULL) return tn__no_memory(arguments->error, "a picture");
    arguments->picture.title = arguments->path;
    arguments->picture.event_count = arguments->event_count;
    replay_live_peak(arguments, arguments->reserved);
    cli_replay_curve(&arguments->picture, "requested", true, arguments->reserved);
    return TN_OK;
}

/* The picture, or what the first pool that fits did. */
static tn_status replay_write(const replay_arguments *arguments) {
    if (tn__has_suffix(arguments->output, ".svg"))
        return cli_replay_draw(&arguments->picture, arguments->output, arguments->error);
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        if (!arguments->results[i].fits) continue;
        tn_pool_options options = replay_pool_options(arguments, arguments->pools[i]);
        return cli_replay_snapshot(arguments->trace, &options, arguments->output, arguments->error);
    }
    TN_FAIL(arguments->error, TN_E_INVALID, "-o %s: no pool fits, so there is nothing to write",
            arguments->output);
}

static tn_status replay_work(replay_arguments *arguments) {
    TN_TRY(replay_load(arguments));
    arguments->events = tn_pool_trace_events(arguments->trace, &arguments->event_count);
    if (tn_pool_trace_block_count(arguments->trace) == 0)
        return tn__where(arguments->error,
                         tn__fail(arguments->error, TN_E_INVALID, "the trace allocates nothing"),
                         "%s", arguments->path);
    TN_TRY(replay_plan(arguments));
    if (arguments->output != NULL) TN_TRY(replay_begin_picture(arguments));
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        arguments->results[i].name = arguments->pools[i];
        TN_TRY(replay_pool(arguments, &arguments->results[i]));
    }
    return arguments->output != NULL ? replay_write(arguments) : TN_OK;
}

/* --- saying it --- */

/* The part of what was reserved at most that nobody asked for at any one time. */
static double replay_lost(const replay_result *result) {
    uint64_t reserved = result->usage.reserved_peak;
    return reserved == 0 ? 0 : 1 - (double)result->usage.requested_peak / (double)reserved;
}

/* One line: the plan made ahead, and each pool beside it. */
static void replay_print_brief(const replay_arguments *arguments) {
    char size[TN_SIZE_TEXT_MAX];
    printf("planned %s", tn_size_format(arguments->layout.peak, size));
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        const replay_result *result = &arguments->results[i];
        printf(", %s %s", result->name,
               result->fits ? tn_size_format(result->usage.reserved_peak, size) : "does not fit");
    }
    printf("\n");
}

static void replay_print_text(const replay_arguments *arguments) {
    char live[TN_SIZE_TEXT_MAX], height[TN_SIZE_TEXT_MAX];
    const tn_layout *layout = &arguments->layout;
    const replay_result *told = NULL;
    printf("  %" PRIu64 " events, %u blocks; at most %s in use at once\n", arguments->event_count,
           tn_pool_trace_block_count(arguments->trace),
           tn_size_format(replay_live_peak(arguments, NULL), live));
    if (tn_pool_trace_skipped(arguments->trace) != 0)
        printf("  %" PRIu64 " rows skipped: failed, of 0 bytes, or frees of what is not known\n",
               tn_pool_trace_skipped(arguments->trace));
    printf("  planned ahead: %s, planner %s, %s\n\n", tn_size_format(layout->peak, height),
           layout->planner, tn_verdict_name(layout->verdict));
    printf("  pool             reserved bytes  of planned     allocated at most  not asked for\n");
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        const replay_result *result = &arguments->results[i];
        if (!result->fits) {
            printf("  %-12s  does not fit: %s%s%s\n", result->name, result->failure.where,
                   result->failure.where[0] != '\0' ? ": " : "", result->failure.message);
            if (told == NULL || told->fits) told = result;
            continue;
        }
        double ratio =
            layout->peak == 0 ? 0 : (double)result->usage.reserved_peak / (double)layout->peak;
        char reserved[TN__WORDS_MAX], allocated[TN__WORDS_MAX];
        printf("  %-12s %18s  %8.3f x  %20s  %11.2f %%\n", result->name,
               tn__grouped(result->usage.reserved_peak, reserved), ratio,
               tn__grouped(result->usage.allocated_peak, allocated), 100 * replay_lost(result));
        cli_replay_print_lesson(&result->lesson, tn_pool_trace_block_count(arguments->trace));
        if (told == NULL) told = result;
    }
    if (told == NULL || told->holders.count == 0) return;
    printf("\n");
    cli_holders_print(&told->holders, REPLAY_HOLDERS, stdout);
}

static void replay_json_pool(tn__text *text, const replay_result *result) {
    tn__text_put(text, "{\"name\": ");
    tn__text_json(text, result->name);
    tn__text_printf(text, ", \"fits\": %s", result->fits ? "true" : "false");
    if (result->fits) {
        tn__text_printf(text,
                        ", \"reserved_peak\": %" PRIu64 ", \"allocated_peak\": %" PRIu64
                        ", \"requested_peak\": %" PRIu64 ", \"fragmentation\": %.9g",
                        result->usage.reserved_peak, result->usage.allocated_peak,
                        result->usage.requested_peak, replay_lost(result));
        cli_replay_json_lesson(&result->lesson, text);
    } else {
        tn__text_put(text, ", \"where\": ");
        tn__text_json(text, result->failure.where);
        tn__text_put(text, ", \"message\": ");
        tn__text_json(text, result->failure.message);
    }
    tn__text_put(text, ", ");
    cli_holders_json(&result->holders, REPLAY_HOLDERS, text);
    tn__text_put(text, "}");
}

static tn_status replay_print_json(const replay_arguments *arguments) {
    const tn_layout *layout = &arguments->layout;
    tn__text text;
    tn__text_init(&text, NULL);
    tn__text_put(&text, "{\"format\": \"tenure-replay\", \"version\": 1, \"input\": ");
    tn__text_json(&text, arguments->path);
    tn__text_printf(
        &text,
        ", \"events\": %" PRIu64 ", \"blocks\": %u, \"skipped\": %" PRIu64
        ", \"live_peak\": %" PRIu64 ", \"planned\": {\"planner\": \"%s\", "
        "\"status\": \"%s\", \"peak\": %" PRIu64 ", \"lower_bound\": %" PRIu64 "}, \"pools\": [",
        arguments->event_count, tn_pool_trace_block_count(arguments->trace),
        tn_pool_trace_skipped(arguments->trace), replay_live_peak(arguments, NULL), layout->planner,
        tn_verdict_name(layout->verdict), layout->peak, layout->lower_bound);
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        tn__text_put(&text, i == 0 ? "\n " : ",\n ");
        replay_json_pool(&text, &arguments->results[i]);
    }
    tn__text_put(&text, "]}\n");
    bool failed = text.failed;
    if (!failed) fwrite(text.data, 1, text.size, stdout);
    tn__text_release(&text);
    return failed ? tn__no_memory(arguments->error, "the answer") : TN_OK;
}

static int replay_print(const replay_arguments *arguments) {
    int code = 0;
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        if (!arguments->results[i].fits) code = tn_status_exit_code(TN_E_EXHAUSTED);
    cli_progress_end();
    bool brief = cli_tone_asked().brief;
    if (!arguments->json)
        (brief ? replay_print_brief : replay_print_text)(arguments);
    else if (replay_print_json(arguments) != TN_OK)
        code = cli_fail(arguments->error);
    if (!arguments->json && !brief && arguments->output != NULL)
        printf("\n  wrote %s\n", arguments->output);
    return code;
}

static void replay_release(replay_arguments *arguments) {
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        cli_holders_release(&arguments->results[i].holders);
        tn_pool_destroy(arguments->results[i].pool);
    }
    tn_layout_release(&arguments->layout);
    tn_pool_trace_destroy(arguments->trace);
    tn_snapshot_lives_destroy(arguments->lives);
    tn_snapshot_destroy(arguments->snapshot);
    free(arguments->sizes);
    free(arguments->reserved);
}

static const char replay_doc[] =
    "Replays TRACE, a recorded run of allocations and frees (.csv: ours, or the log of RMM; "
    ".pickle: a "
    "memory snapshot of PyTorch), under several pools and tells what each would have reserved, "
    "beside what a plan made ahead needs.\v"
    "Examples:\n"
    "  tenure replay trace.csv -o pools.svg\n"
    "  tenure replay rmm_log.csv --pool caching --pool best-fit --capacity 24GB\n\n"
    "Exit status: 0 all fit, 1 one does not, 2 bad usage or input, 3 the planner was stopped "
    "before any plan, 4 internal error.";

static const struct argp replay_parser = {
    replay_options, replay_parse, "TRACE", replay_doc, NULL, 0, 0};

static int replay_run(int count, char **words) {
    tn_error error = {0};
    replay_arguments arguments = {.alignment = 64,
                                  .device = UINT32_MAX,
                                  .plan_options = TN_PLAN_OPTIONS_INIT,
                                  .error = &error};
    arguments.plan_options.timeout_s = 10;
    arguments.context = cli_context();
    cli_parse(&cli_command_replay, count, words, &arguments);
    int code = replay_work(&arguments) == TN_OK ? replay_print(&arguments) : cli_fail(&error);
    replay_release(&arguments);
    return cli_finish(code);
}

const cli_command cli_command_replay = {
    .name = "replay",
    .summary = "replay a recorded run under other pools: what each would have reserved",
    .first = "pool capacity output json",
    .parser = &replay_parser,
    .run = replay_run,
};
