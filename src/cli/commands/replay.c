/* replay.c - `tenure replay`: computes the bytes that other pools would have reserved for a
 * recorded run.
 *
 * Each pool replays the trace from the start in its own address range. The pools are compared with
 * an offline plan, which can be made because all live ranges are known in advance. The pool
 * `planned` replays that plan and checks it. The table of holders shows the blocks of the first
 * pool that does not fit, at its failed request. If all pools fit, it shows those of the first
 * pool, at its peak.
 */
#include "base/base.h"
#include "cli/answer/holders.h"
#include "cli/cli.h"
#include "cli/model/file_kind.h"
#include "cli/traces/replay.h"
#include "interop/profile/profile.h"
#include "interop/snapshot/snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --- the settings of the pool "caching" --- */

/* The settings of this pool are written as in PYTORCH_CUDA_ALLOC_CONF: --pool
 * caching:expandable_segments:True,max_split_size_mb:128. */

#define CACHING_PREFIX "caching:"

#define CACHING_MOST_MIB (UINT64_C(1) << 40)
#define CACHING_MOST_STEPS (UINT64_C(1) << 31)

static double caching_share(struct argp_state *state, const char *key, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value >= 0) || value > 1)
        cli_misuse(state, "--pool: %s: '%s' is not a number from 0 to 1", key, text);
    return value;
}

static uint64_t caching_count(struct argp_state *state, const char *key, const char *text,
                              uint64_t most) {
    char *end;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value > most)
        cli_misuse(state, "--pool: %s: '%s' is not a whole number from 0 to %llu", key, text,
                   (unsigned long long)most);
    return value;
}

/* Parses a list such as [256:1,512:2,>:8], which gives rounding steps by size in MiB. As in
 * PyTorch's parser, an entry is for requests from its size up to twice that size. The first entry
 * is also for all smaller sizes, and ">" is for all sizes above the entry before it. (PyTorch's
 * documentation says instead that an entry is for the sizes below it.) */
static void caching_list(struct argp_state *state, const char *key, char *list,
                         tn_pool_caching *caching) {
    const size_t length = strlen(list);
    uint32_t next = 0;
    bool any = false;
    if (list[length - 1] != ']')
        cli_misuse(state, "--pool: %s: the list '%s' does not end with ]", key, list);
    list[length - 1] = '\0';
    list++;
    /* A list of divisions replaces an earlier value of the setting. */
    caching->roundup_power2_divisions = 0;
    memset(caching->roundup_by_size, 0, sizeof caching->roundup_by_size);
    for (char *entry; (entry = strsep(&list, ",")) != NULL; any = true) {
        char *steps_text = strchr(entry, ':');
        if (steps_text == NULL)
            cli_misuse(state, "--pool: %s: '%s' is not MIB:STEPS or >:STEPS", key, entry);
        *steps_text++ = '\0';
        const uint32_t steps = (uint32_t)caching_count(state, key, steps_text, CACHING_MOST_STEPS);
        if (strcmp(entry, ">") == 0) {
            while (next < TN_POOL_ROUNDUP_SIZES) caching->roundup_by_size[next++] = steps;
            continue;
        }
        const uint64_t mib = caching_count(state, key, entry, CACHING_MOST_MIB);
        if (!tn__is_power_of_two(mib))
            cli_misuse(state, "--pool: %s: '%s' MiB is not a power of two", key, entry);
        uint32_t at = 63u - (uint32_t)__builtin_clzll(mib);
        if (at >= TN_POOL_ROUNDUP_SIZES) at = TN_POOL_ROUNDUP_SIZES - 1;
        for (uint32_t i = 0; i < at && !any; i++) caching->roundup_by_size[i] = steps;
        caching->roundup_by_size[at] = steps;
        next = at + 1;
    }
}

static bool caching_truth(struct argp_state *state, const char *key, const char *text) {
    if (strcasecmp(text, "true") != 0 && strcasecmp(text, "false") != 0)
        cli_misuse(state, "--pool: %s: '%s' is neither True nor False", key, text);
    return strcasecmp(text, "true") == 0;
}

static void caching_set(struct argp_state *state, char *word, tn_pool_caching *caching) {
    char *value = strchr(word, ':');
    if (value != NULL) *value++ = '\0';
    if (*word == '\0')
        cli_misuse(state, "--pool: a setting of caching is empty; write caching:KEY:VALUE,...");
    else if (value == NULL)
        cli_misuse(state, "--pool: '%s' has no value; write %s:VALUE", word, word);
    else if (strcmp(word, "expandable_segments") == 0)
        caching->expandable = caching_truth(state, word, value);
    else if (strcmp(word, "max_split_size_mb") == 0)
        caching->max_split_size = caching_count(state, word, value, CACHING_MOST_MIB) << 20;
    else if (strcmp(word, "roundup_power2_divisions") == 0 && *value == '[')
        caching_list(state, word, value, caching);
    else if (strcmp(word, "roundup_power2_divisions") == 0)
        caching->roundup_power2_divisions =
            (uint32_t)caching_count(state, word, value, CACHING_MOST_STEPS);
    else if (strcmp(word, "garbage_collection_threshold") == 0)
        caching->garbage_collection_threshold = caching_share(state, word, value);
    else
        cli_misuse(state,
                   "--pool: '%s' is not one of expandable_segments, max_split_size_mb, "
                   "roundup_power2_divisions, garbage_collection_threshold",
                   word);
}

/* Returns the next setting of a list with commas and advances *next, as strsep does. A comma within
 * [ ] does not end a setting. */
static char *caching_word(char **next) {
    char *word = *next, *at = word;
    if (word == NULL) return NULL;
    for (bool inside = false; *at != '\0' && (inside || *at != ','); at++)
        inside = *at == '[' || (inside && *at != ']');
    *next = *at != '\0' ? at + 1 : NULL;
    *at = '\0';
    return word;
}

/* Parses a pool of the form caching:KEY:VALUE,... into `caching`. Returns false if the text names
 * another pool. An invalid setting is a usage error. */
static bool caching_parse(struct argp_state *state, const char *text, tn_pool_caching *caching) {
    const size_t length = sizeof CACHING_PREFIX - 1;
    tn_error error;
    if (strncmp(text, CACHING_PREFIX, length) != 0) return false;
    *caching = (tn_pool_caching)TN_POOL_CACHING_INIT;
    char *words = strdup(text + length), *next = words;
    if (words == NULL) argp_failure(state, 4, 0, "out of memory");
    for (char *word; (word = caching_word(&next)) != NULL;) caching_set(state, word, caching);
    free(words);
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_pool_caching limited = *caching;
    tn_pool *pool = NULL;
    options.pool = "caching";
    options.caching = &limited;
    /* any limit will do here; the limit of the replay comes from --capacity */
    limited.limit = UINT64_C(1) << 40;
    if (tn_pool_create(&options, &pool, &error) != TN_OK)
        cli_misuse(state, "--pool: %s", error.message);
    tn_pool_destroy(pool);
    return true;
}

/* --- options --- */

enum {
    REPLAY_POOL = 400,
    REPLAY_CAPACITY,
    REPLAY_ALIGNMENT,
    REPLAY_PAGES,
    REPLAY_PLANNER,
    REPLAY_TIMEOUT,
    REPLAY_DEVICE,
    REPLAY_JSON
};

#define REPLAY_OPTIONS(X)                                                                          \
    X(REPLAY_POOL, "pool", "NAME",                                                                 \
      "pool to replay: one of `tenure list pools`, or caching with settings of "                   \
      "PYTORCH_CUDA_ALLOC_CONF, such as caching:expandable_segments:True,max_split_size_mb:128; "  \
      "may be repeated (default: all, without settings)")                                          \
    X(REPLAY_CAPACITY, "capacity", "SIZE",                                                         \
      "size of the address range of each pool, or of the device for caching (default: unlimited)") \
    X(REPLAY_ALIGNMENT, "alignment", "SIZE",                                                       \
      "smallest alignment of blocks in bytes (default: 64)")                                       \
    X(REPLAY_PAGES, "pages", "SIZE",                                                               \
      "reserve and release memory in pages of this size; pool iteration then returns free pages, " \
      "as in libtenure_preload.so (default: no pages)")                                            \
    X(REPLAY_PLANNER, "planner", "NAME",                                                           \
      "planner of the offline plan: one of `tenure list planners` (default: auto)")                \
    X(REPLAY_TIMEOUT, "timeout", "TIME",                                                           \
      "stop planning after this time, such as 500ms or 2m (default: 10s)")                         \
    X(REPLAY_DEVICE, "device", "DEVICE",                                                           \
      "also execute the trace on this device, one of `tenure list devices` such as cuda or "       \
      "opencl:1, and measure the time per request; a number selects the device of a memory "       \
      "snapshot (default: the one with the highest peak)")                                         \
    X('o', "output", "FILE",                                                                       \
      "write a picture of the bytes that each pool reserves over time, .svg, or the first pool "   \
      "that fits as a memory snapshot, .pickle; may be repeated")                                  \
    X(REPLAY_JSON, "json", NULL, "print one JSON object instead of the table")

static const struct argp_option replay_options[] = {REPLAY_OPTIONS(CLI_OPTION){0}};

static void replay_add_pool(cli_replay *arguments, const char *name, struct argp_state *state) {
    uint32_t known = 0;
    const uint32_t at = arguments->pool_count;
    if (at == CLI_REPLAY_POOLS_MAX)
        cli_misuse(state, "--pool: at most %u pools are compared", CLI_REPLAY_POOLS_MAX);
    arguments->has_conf[at] = caching_parse(state, name, &arguments->conf[at]);
    while (known < tn_pool_count() && strcmp(name, tn_pool_name(known)) != 0) known++;
    if (known == tn_pool_count() && !arguments->has_conf[at]) {
        char asked[TN__NEAR_TEXT];
        cli_misuse(
            state, "--pool: there is no pool '%.60s'; %s", name,
            tn__near_of(name, tn_pool_count(), tn_pool_name, "see `tenure list pools`", asked));
    }
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        if (strcmp(arguments->pools[i], name) == 0) return;
    arguments->pools[arguments->pool_count++] = name;
}

/* Checks settings that the pool "caching" cannot have. Expandable segments need pages that can be
 * mapped, but on a device (--device) a pool divides one block of memory. The garbage collection
 * threshold is a fraction of the capacity, which must be given. */
static void replay_check_conf(const cli_replay *arguments, struct argp_state *state) {
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        const tn_pool_caching *conf = &arguments->conf[i];
        if (!arguments->has_conf[i]) continue;
        if (conf->expandable && arguments->play_on != NULL)
            cli_misuse(state, "--pool %s: expandable segments are not executed with --device",
                       arguments->pools[i]);
        if (conf->garbage_collection_threshold > 0 && arguments->capacity == 0)
            cli_misuse(state, "--pool %s: garbage_collection_threshold needs --capacity",
                       arguments->pools[i]);
    }
}

static error_t replay_parse(int key, char *value, struct argp_state *state) {
    cli_replay *arguments = state->input;
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
    case REPLAY_PAGES:
        arguments->pages = cli_size(state, "pages", value);
        return 0;
    case REPLAY_PLANNER:
        arguments->plan_options.planner = value;
        return 0;
    case REPLAY_TIMEOUT:
        arguments->plan_options.timeout_s = cli_duration(state, "timeout", value);
        return 0;
    case REPLAY_DEVICE:
        if (value[0] >= '0' && value[0] <= '9')
            arguments->device = (uint32_t)cli_range(state, "device", value, 0, 1023);
        else
            arguments->play_on = value;
        return 0;
    case 'o':
        CLI_PATHS_ADD(state, "-o", value, &arguments->outputs, ".svg", ".pickle");
        return 0;
    case REPLAY_JSON:
        arguments->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (arguments->path != NULL)
            cli_misuse(state, "give only one trace; '%s' is a second one", value);
        arguments->path = cli_standard_input(state, value);
        cli_refuse_kind(state, arguments->path);
        return 0;
    case ARGP_KEY_END:
        if (arguments->path == NULL)
            cli_misuse(state, "no trace given; pass a .csv or .pickle file");
        if (arguments->alignment < arguments->pages) arguments->alignment = arguments->pages;
        replay_check_conf(arguments, state);
        arguments->plays_own = arguments->play_on != NULL && arguments->pool_count == 0;
        for (uint32_t i = 0; arguments->pool_count == 0 && i < tn_pool_count(); i++)
            arguments->pools[i] = tn_pool_name(i);
        if (arguments->pool_count == 0) arguments->pool_count = tn_pool_count();
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* --- reading the trace: a CSV, a snapshot, or a profiler's trace --- */

/* Selects the blocks of one device of a snapshot: those of the requested device, or of the device
 * with the highest peak. */
static tn_status replay_snapshot_device(cli_replay *arguments) {
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
        TN_FAIL(arguments->error, TN_E_INVALID, "this snapshot has no device with memory");
    return tn_snapshot_trace(arguments->lives, &arguments->trace, arguments->error);
}

/* Whether the bytes are a snapshot (a pickle, a gzip file, or a profiler's trace). Any other file
 * is read as CSV. */
static bool replay_is_snapshot(const uint8_t *bytes, size_t size) {
    return (size > 0 && bytes[0] == 0x80) || tn__gzip_is(bytes, size) || tn__kineto_is(bytes, size);
}

/* Refuses files that have no sequence of requests, such as memory profiles. */
static tn_status replay_refuse(const cli_replay *arguments, const tn__file *file) {
    if (!tn__node_stats_recognises(file->bytes, file->size)) return TN_OK;
    return tn__where(arguments->error,
                     tn__fail(arguments->error, TN_E_UNSUPPORTED,
                              "node memory statistics of ONNX Runtime have no order of requests, "
                              "so they cannot be replayed; `tenure report` lists the nodes"),
                     "%s", arguments->path);
}

static tn_status replay_load(cli_replay *arguments) {
    tn__file file;
    TN_TRY(tn__file_map(arguments->path, &file, arguments->error));
    if (replay_refuse(arguments, &file) != TN_OK) {
        tn__file_unmap(&file);
        return TN_E_UNSUPPORTED;
    }
    bool is_snapshot = replay_is_snapshot(file.bytes, file.size);
    tn_status status =
        is_snapshot
            ? tn_snapshot_load_memory(arguments->path, file.bytes, file.size, &arguments->context,
                                      &arguments->snapshot, arguments->error)
            : tn_pool_trace_load_memory(arguments->path, file.bytes, file.size, &arguments->context,
                                        &arguments->trace, arguments->error);
    tn__file_unmap(&file);
    if (status == TN_OK && !is_snapshot && arguments->device != UINT32_MAX)
        status =
            tn__fail(arguments->error, TN_E_INVALID,
                     "--device %u selects a device of a memory snapshot, but this is a trace; to "
                     "execute it on a device, give a name of `tenure list devices`, such as host",
                     arguments->device);
    if (status != TN_OK || !is_snapshot) return status;
    return tn__where(arguments->error, replay_snapshot_device(arguments), "%s", arguments->path);
}

/* --- the offline plan with which pools are compared --- */

/* Adds one buffer per block of the trace to the problem. The live range of a buffer goes from the
 * number of the event that allocates the block to the number of the event that frees it. */
static tn_status replay_add_bodies(cli_replay *arguments, tn_problem *problem, tn_body *bodies) {
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

static tn_status replay_plan(cli_replay *arguments) {
    uint32_t count = tn_pool_trace_block_count(arguments->trace);
    tn_body *bodies = calloc((size_t)count + 1, sizeof *bodies);
    arguments->sizes = calloc((size_t)count + 1, sizeof *arguments->sizes);
    tn_problem *problem = NULL;
    tn_status status = TN_OK;
    if (bodies == NULL || arguments->sizes == NULL) {
        status = tn__no_memory(arguments->error, "the live ranges of a trace");
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

/* --- simulating a pool --- */

static void replay_take_back(void *self, uint64_t offset, uint64_t size) {
    /* a simulated pool has no memory pages that could be released */
    (void)self, (void)offset, (void)size;
}

/* Returns the settings of a pool of the form caching:SETTINGS, or NULL for a pool without
 * settings. */
static const tn_pool_caching *replay_conf(const cli_replay *arguments, const char *name) {
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        if (arguments->has_conf[i] && strcmp(arguments->pools[i], name) == 0)
            return &arguments->conf[i];
    return NULL;
}

static tn_pool_options replay_pool_options(const cli_replay *arguments, const char *name) {
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    const tn_pool_caching *conf = replay_conf(arguments, name);
    options.context = &arguments->context;
    options.pool = name;
    options.capacity = arguments->capacity;
    options.alignment = arguments->alignment;
    if (conf != NULL || strcmp(name, "caching") == 0) {
        options.pool = "caching";
        options.caching = conf != NULL ? conf : &arguments->caching;
        /* a device maps the pages of a segment from anywhere, so only the reserved bytes count */
        options.capacity = 0;
    }
    if (arguments->pages != 0) options.release = replay_take_back;
    if (strcmp(name, "planned") == 0) {
        options.planned_count = tn_pool_trace_block_count(arguments->trace);
        options.sizes = arguments->sizes;
        options.offsets = arguments->layout.offset;
    }
    return options;
}

static tn_status replay_pool(cli_replay *arguments, cli_replay_result *result) {
    tn_pool_options options = replay_pool_options(arguments, result->name);
    tn_status status = tn_pool_create(&options, &result->pool, &result->failure);
    for (uint64_t i = 0; arguments->reserved != NULL && i < arguments->event_count; i++)
        arguments->reserved[i] = UINT64_MAX; /* the value of events that the pool does not reach */
    if (status == TN_OK)
        status =
            tn_pool_replay(result->pool, arguments->trace, arguments->reserved, &result->failure);
    result->fits = status == TN_OK;
    if (status != TN_OK && status != TN_E_EXHAUSTED) {
        *arguments->error = result->failure;
        return status;
    }
    /* the pool was not created: the plan itself exceeds the capacity */
    if (result->pool == NULL) return TN_OK;
    tn_pool_measure(result->pool, &result->usage);
    tn_pool_learned(result->pool, &result->lesson);
    if (arguments->reserved != NULL)
        cli_replay_curve(&arguments->picture, result->name, result->fits, arguments->reserved);
    return cli_holders_of_pool(&result->holders, result->pool, result->name,
                               result->fits ? TN_HOLDERS_PEAK : TN_HOLDERS_FAILED,
                               arguments->error);
}

/* --- executing the trace on a device --- */

static tn_status replay_open_device(cli_replay *arguments) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    if (arguments->play_on == NULL) return TN_OK;
    options.context = &arguments->context;
    options.device = arguments->play_on;
    options.capacity = arguments->capacity;
    return tn__where(arguments->error,
                     tn_device_create(&options, &arguments->play_device, arguments->error),
                     "--device");
}

static tn_status replay_play_on(const cli_replay *arguments, const tn_pool_options *pool,
                                tn_play_answer *answer) {
    tn_play_options options = TN_PLAY_OPTIONS_INIT;
    options.context = &arguments->context;
    options.pool = pool;
    return tn_play(arguments->play_device, arguments->trace, &options, answer, arguments->error);
}

/* Executes the trace on the device, with the device's own allocator if that was requested, and with
 * each pool that fits. */
static tn_status replay_play(cli_replay *arguments) {
    if (arguments->play_on == NULL) return TN_OK;
    if (arguments->plays_own) TN_TRY(replay_play_on(arguments, NULL, &arguments->own));
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        cli_replay_result *result = &arguments->results[i];
        tn_pool_options pool = replay_pool_options(arguments, result->name);
        if (!result->fits) continue;
        tn_status status = replay_play_on(arguments, &pool, &result->played);
        if (status != TN_OK)
            return tn__where(arguments->error, status, "%s on %s", result->name,
                             arguments->play_on);
        result->was_played = true;
    }
    return TN_OK;
}

/* --- the command `tenure replay` --- */

static tn_status replay_begin_picture(cli_replay *arguments) {
    arguments->reserved = calloc(arguments->event_count, sizeof *arguments->reserved);
    if (arguments->reserved == NULL) return tn__no_memory(arguments->error, "a picture");
    arguments->picture.title = arguments->path;
    arguments->picture.event_count = arguments->event_count;
    cli_replay_live_peak(arguments, arguments->reserved);
    cli_replay_curve(&arguments->picture, "requested", true, arguments->reserved);
    return TN_OK;
}

/* Writes one output file: the picture, or a snapshot of the first pool that fits. */
static tn_status replay_write(const void *self, const char *path, tn_error *error) {
    const cli_replay *arguments = self;
    if (tn__has_suffix(path, ".svg")) return cli_replay_draw(&arguments->picture, path, error);
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        if (!arguments->results[i].fits) continue;
        tn_pool_options options = replay_pool_options(arguments, arguments->pools[i]);
        return cli_replay_snapshot(arguments->trace, &options, path, error);
    }
    TN_FAIL(error, TN_E_INVALID,
            "-o %s: no pool fits, so no snapshot can be written; raise --capacity", path);
}

static tn_status replay_work(cli_replay *arguments) {
    TN_TRY(replay_open_device(arguments));
    TN_TRY(replay_load(arguments));
    arguments->events = tn_pool_trace_events(arguments->trace, &arguments->event_count);
    if (tn_pool_trace_block_count(arguments->trace) == 0)
        return tn__where(arguments->error,
                         tn__fail(arguments->error, TN_E_INVALID, "the trace has no allocations"),
                         "%s", arguments->path);
    TN_TRY(replay_plan(arguments));
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        arguments->conf[i].limit = arguments->capacity;
    arguments->caching.limit = arguments->capacity;
    if (arguments->outputs.count > 0) TN_TRY(replay_begin_picture(arguments));
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        arguments->results[i].name = arguments->pools[i];
        TN_TRY(replay_pool(arguments, &arguments->results[i]));
    }
    TN_TRY(replay_play(arguments));
    return cli_paths_write(&arguments->outputs, replay_write, arguments, arguments->error);
}

/* Returns whether the trace fits into every pool, in the simulation and on the device. */
static bool replay_all_fit(const cli_replay *arguments) {
    bool fit = !arguments->plays_own || arguments->own.fits;
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        const cli_replay_result *result = &arguments->results[i];
        fit = fit && result->fits && (!result->was_played || result->played.fits);
    }
    return fit;
}

static int replay_print(const cli_replay *arguments) {
    int code = replay_all_fit(arguments) ? 0 : tn_status_exit_code(TN_E_EXHAUSTED);
    cli_progress_end();
    bool silent = arguments->json || cli_tone_asked().brief;
    if (cli_replay_print(arguments) != TN_OK) code = cli_fail(arguments->error);
    if (!silent && arguments->outputs.count > 0) {
        putchar('\n');
        cli_paths_print(&arguments->outputs);
    }
    return code;
}

static void replay_release(cli_replay *arguments) {
    for (uint32_t i = 0; i < arguments->pool_count; i++) {
        cli_holders_release(&arguments->results[i].holders);
        tn_pool_destroy(arguments->results[i].pool);
    }
    tn_device_destroy(arguments->play_device);
    tn_layout_release(&arguments->layout);
    tn_pool_trace_destroy(arguments->trace);
    tn_snapshot_lives_destroy(arguments->lives);
    tn_snapshot_destroy(arguments->snapshot);
    free(arguments->sizes);
    free(arguments->reserved);
}

static const char replay_doc[] =
    "Replays TRACE, a recorded run of allocations and frees, in several memory pools, and compares "
    "the bytes that each reserves with an offline plan. TRACE is a .csv file of Tenure or RMM, or "
    "a .pickle memory snapshot or a .json profiler trace of PyTorch.\v"
    "Examples:\n"
    "  tenure replay trace.csv -o pools.svg\n"
    "  tenure replay rmm_log.csv --pool caching --pool best-fit --capacity 24GB\n"
    "  tenure replay trace.csv --device cuda --pool iteration\n\n"
    "Exit status: 0 all fit, 1 one does not, 2 bad usage or input, 3 the planner was stopped "
    "before any plan, 4 internal error.";

static const struct argp replay_parser = {
    replay_options, replay_parse, "TRACE", replay_doc, NULL, 0, 0};

static int replay_run(int count, char **words) {
    tn_error error = {0};
    cli_replay arguments = {.alignment = 64,
                            .device = UINT32_MAX,
                            .plan_options = TN_PLAN_OPTIONS_INIT,
                            .caching = TN_POOL_CACHING_INIT,
                            .error = &error};
    arguments.plan_options.timeout_s = 10;
    arguments.context = cli_context();
    cli_parse(&cli_command_replay, count, words, &arguments);
    cli_context_read(&arguments.context);
    int code = replay_work(&arguments) == TN_OK ? replay_print(&arguments) : cli_fail(&error);
    replay_release(&arguments);
    return cli_finish(code);
}

const cli_command cli_command_replay = {
    .name = "replay",
    .summary = "replay recorded allocations in several memory pools, and compare them",
    .first = "pool capacity device output json",
    .answers = (const cli_facts *const[]){&cli_replay_facts, NULL},
    .parser = &replay_parser,
    .run = replay_run,
};
