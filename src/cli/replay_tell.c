/* replay_tell.c - the answer of `tenure replay`. */
#include "cli/replay.h"

#include <inttypes.h>

#include "report/format.h"

enum { TELL_HOLDERS = 5 };

/* --- the facts --- */

static const cli_facts tell_lesson_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "plans", NULL, "number of plans it made"),
        CLI_FACT(COUNT, "served", NULL, "allocations that got their place in a plan"),
        CLI_FACT(COUNT, "surprises", NULL,
                 "allocations that were not in the plan or did not fit there"),
        CLI_FACT(COUNT, "period", NULL, "requests per iteration of the last plan"),
        CLI_FACT(BYTES, "height", NULL, "bytes of the last plan"), CLI_FACTS_END}};
static const cli_facts tell_failure_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "where", NULL, "if it does not fit: the event, or an empty text"),
        CLI_FACT(WORD, "message", NULL, "if it does not fit: the reason"), CLI_FACTS_END}};
static const cli_facts tell_played_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_COLUMN(WORD, "pool"),
        CLI_FACT(YES, "fits", NULL,
                 "whether the device had enough memory; if not, the figures are absent"),
        CLI_FACT(BYTES, "taken", "bytes of device", "peak of device bytes"),
        CLI_FACT(SECONDS, "request_s", "ns a request",
                 "time per allocation or free in the fastest round"),
        CLI_FACT(COUNT, "waits", "waits of stream",
                 "number of times that one stream waited for another"),
        CLI_FACT(COUNT, "blocks", NULL, "number of blocks that were written and read back"),
        CLI_FACT(COUNT, "streams", NULL, "number of streams of the trace"),
        CLI_FACT(COUNT, "rounds", NULL, "number of timed rounds"),
        CLI_FACT_OF(OBJECT, "learned", "if the pool made a plan: that plan", &tell_lesson_facts),
        CLI_FACTS_ALSO(&tell_failure_facts), CLI_FACTS_END}};
static const cli_facts tell_pool_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT_BRIEF(WORD, "name", "pool", ", @ ", "name of the pool"),
        CLI_FACT(YES, "fits", NULL, "whether all blocks fit; if not, the figures are absent"),
        CLI_FACT_BRIEF(BYTES, "reserved_peak", "reserved bytes", "@", "peak of the reserved bytes"),
        CLI_COLUMN(REAL, "of planned"),
        CLI_FACT(BYTES, "allocated_peak", "allocated at most", "peak of the allocated bytes"),
        CLI_FACT(BYTES, "requested_peak", NULL, "peak of the requested bytes"),
        CLI_FACT(SHARE, "fragmentation", "not asked for", "1 - requested_peak / reserved_peak"),
        CLI_FACT_OF(OBJECT, "learned", "if the pool made a plan: that plan", &tell_lesson_facts),
        CLI_FACTS_ALSO(&tell_failure_facts),
        CLI_FACT_OF(OBJECT, "played",
                    "with --device: the trace, executed with this pool on the device",
                    &tell_played_facts),
        CLI_FACTS_ALSO(&cli_holders_facts), CLI_FACTS_END}};
static const cli_facts tell_planned_facts = {
    .indent = 2,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "planner", NULL, "the planner"),
        CLI_FACT(WORD, "status", NULL, "status of the plan"),
        CLI_FACT_BRIEF(BYTES, "peak", "planned ahead:", "planned @", "peak of the plan"),
        CLI_FACT(BYTES, "lower_bound", NULL, "no plan of these live ranges takes less"),
        CLI_FACTS_END}};
const cli_facts cli_replay_facts = {
    .name = "replay",
    .indent = 2,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "input", NULL, "path of the trace"),
        CLI_FACT(COUNT, "events", NULL, "number of events in the trace"),
        CLI_FACT(COUNT, "blocks", NULL, "number of blocks in the trace"),
        CLI_FACT(COUNT, "skipped", "rows skipped:", "number of skipped rows"),
        CLI_FACT(BYTES, "live_peak", "at most", "largest number of requested and not freed bytes"),
        CLI_FACT_OF(OBJECT, "planned", "a plan of all live ranges", &tell_planned_facts),
        CLI_FACT_OF(LIST, "pools", "each pool", &tell_pool_facts),
        CLI_FACT(WORD, "device", "played on", "with --device: the device"),
        CLI_FACT_OF(OBJECT, "played",
                    "with --device, without --pool: the trace, executed on the device without a "
                    "pool",
                    &tell_played_facts),
        CLI_FACTS_END}};

/* --- one pool --- */

uint64_t cli_replay_live_peak(const cli_replay *arguments, uint64_t *live) {
    uint64_t now = 0, peak = 0;
    for (uint64_t i = 0; i < arguments->event_count; i++) {
        uint64_t size = arguments->sizes[arguments->events[i].block];
        now = arguments->events[i].frees ? now - size : now + size;
        if (now > peak) peak = now;
        if (live != NULL) live[i] = now;
    }
    return peak;
}

static void tell_lesson(cli_answer *answer, const tn_pool_lesson *lesson) {
    if (lesson->plans == 0) return;
    cli_answer_open(answer, "learned");
    cli_tell(answer, "plans", lesson->plans);
    cli_tell(answer, "served", lesson->served);
    cli_tell(answer, "surprises", lesson->surprises);
    cli_tell(answer, "period", lesson->period);
    cli_tell(answer, "height", lesson->height);
    cli_answer_close(answer);
}

static void tell_failure(cli_answer *answer, const tn_error *failure) {
    cli_tell_rest(answer, "does not fit: %s%s%s", failure->where,
                  failure->where[0] != '\0' ? ": " : "", failure->message);
    cli_tell_word(answer, "where", failure->where);
    cli_tell_word(answer, "message", failure->message);
}

static void tell_played(cli_answer *answer, const tn_play_answer *played) {
    cli_tell(answer, "fits", played->fits);
    if (!played->fits) {
        tell_failure(answer, &played->failure);
        return;
    }
    cli_tell(answer, "taken", played->taken);
    cli_tell_real(answer, "request_s", played->request_s);
    cli_tell_as(answer, "%.0f", 1e9 * played->request_s);
    cli_tell(answer, "waits", played->waits);
    cli_tell(answer, "blocks", played->marked);
    cli_tell(answer, "streams", played->streams);
    cli_tell(answer, "rounds", played->rounds);
    tell_lesson(answer, &played->lesson);
}

static void tell_usage(cli_answer *answer, const cli_replay *arguments,
                       const tn_pool_usage *usage) {
    const uint64_t reserved = usage->reserved_peak, planned = arguments->layout.peak;
    const double lost = reserved == 0 ? 0 : 1 - (double)usage->requested_peak / (double)reserved;
    cli_tell(answer, "reserved_peak", reserved);
    cli_tell_cell(answer, "of planned", "%.3f x",
                  planned == 0 ? 0 : (double)reserved / (double)planned);
    cli_tell(answer, "allocated_peak", usage->allocated_peak);
    cli_tell(answer, "requested_peak", usage->requested_peak);
    cli_tell_real(answer, "fragmentation", lost);
    cli_tell_as(answer, "%.2f %%", 100 * lost);
}

static void tell_pool(cli_answer *answer, const cli_replay *arguments,
                      const cli_replay_result *result) {
    cli_answer_open(answer, NULL);
    cli_tell_word(answer, "name", result->name);
    cli_tell(answer, "fits", result->fits);
    if (result->fits) {
        tell_usage(answer, arguments, &result->usage);
        tell_lesson(answer, &result->lesson);
    } else {
        cli_tell_brief(answer, "does not fit");
        tell_failure(answer, &result->failure);
    }
    if (result->was_played) {
        cli_answer_open(answer, "played");
        tell_played(answer, &result->played);
        cli_answer_close(answer);
    }
    if (cli_answer_table(answer) == NULL) cli_holders_tell(answer, &result->holders, TELL_HOLDERS);
    cli_answer_close(answer);
}

/* --- below the table of pools --- */

static void tell_served(cli_answer *answer, const cli_replay *arguments,
                        const cli_replay_result *result) {
    const tn_pool_lesson *lesson = &result->lesson;
    const double part = 100.0 / tn_pool_trace_block_count(arguments->trace);
    char height[TN_SIZE_TEXT_MAX];
    if (!result->fits || lesson->plans == 0) return;
    cli_tell_line(answer, result->name,
                  "served %.1f %% of requests from %" PRIu64
                  " plan%s, %.1f %% were surprises; plan in force: %s",
                  part * (double)lesson->served, lesson->plans, lesson->plans == 1 ? "" : "s",
                  part * (double)lesson->surprises,
                  lesson->period != 0 ? tn_size_format(lesson->height, height) : "none");
}

static void tell_row(cli_answer *answer, const char *name, const tn_play_answer *played) {
    cli_answer_open(answer, NULL);
    cli_tell_cell(answer, "pool", "%s", name);
    tell_played(answer, played);
    cli_answer_close(answer);
}

static void tell_rows(cli_answer *answer, const cli_replay *arguments) {
    cli_tell_gap(answer);
    cli_answer_open_rows(answer, &tell_played_facts);
    if (arguments->plays_own) tell_row(answer, "none", &arguments->own);
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        if (arguments->results[i].was_played)
            tell_row(answer, arguments->results[i].name, &arguments->results[i].played);
    cli_answer_close(answer);
}

/* An execution that fits, or NULL. */
static const tn_play_answer *tell_one(const cli_replay *arguments) {
    if (arguments->plays_own && arguments->own.fits) return &arguments->own;
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        if (arguments->results[i].was_played && arguments->results[i].played.fits)
            return &arguments->results[i].played;
    return NULL;
}

static void tell_device(cli_answer *answer, const cli_replay *arguments) {
    const tn_play_answer *one = tell_one(arguments);
    if (arguments->play_on == NULL) return;
    cli_tell_gap(answer);
    cli_tell_word(answer, "device", arguments->play_on);
    if (one != NULL)
        cli_tell_more(answer, ": %" PRIu64 " blocks on %u stream%s, each written and read back",
                      one->marked, one->streams, one->streams == 1 ? "" : "s");
    if (cli_answer_table(answer) != NULL) {
        tell_rows(answer, arguments);
    } else if (arguments->plays_own) {
        cli_answer_open(answer, "played");
        tell_played(answer, &arguments->own);
        cli_answer_close(answer);
    }
}

/* The holders of the first pool that does not fit, else of the first pool. */
static void tell_holders(cli_answer *answer, const cli_replay *arguments) {
    const cli_replay_result *told = arguments->results;
    tn__text *table = cli_answer_table(answer);
    for (uint32_t i = arguments->pool_count; i-- > 0;)
        if (!arguments->results[i].fits) told = &arguments->results[i];
    if (table == NULL || told->holders.count == 0) return;
    cli_tell_gap(answer);
    cli_holders_write(&told->holders, TELL_HOLDERS, cli_columns(stdout), table);
}

/* --- the answer --- */

static void tell_trace(cli_answer *answer, const cli_replay *arguments) {
    const tn_pool_trace *trace = arguments->trace;
    cli_tell_word(answer, "input", cli_shown_path(arguments->path));
    cli_tell(answer, "live_peak", cli_replay_live_peak(arguments, NULL));
    cli_tell_more(answer, " in use at once; %" PRIu64 " events, %u blocks", arguments->event_count,
                  tn_pool_trace_block_count(trace));
    cli_tell(answer, "events", arguments->event_count);
    cli_tell(answer, "blocks", tn_pool_trace_block_count(trace));
    cli_tell_if(answer, "skipped", tn_pool_trace_skipped(trace));
    cli_tell_more(answer, " (failed requests, requests of 0 bytes, or frees of unknown blocks)");
}

static void tell_planned(cli_answer *answer, const tn_layout *layout) {
    cli_answer_open(answer, "planned");
    cli_tell(answer, "peak", layout->peak);
    cli_tell_more(answer, ", planner %s, %s", layout->planner, tn_verdict_name(layout->verdict));
    cli_tell_word(answer, "planner", layout->planner);
    cli_tell_word(answer, "status", tn_verdict_name(layout->verdict));
    cli_tell(answer, "lower_bound", layout->lower_bound);
    cli_answer_close(answer);
}

tn_status cli_replay_tell(const cli_replay *arguments) {
    cli_answer answer;
    cli_answer_begin(&answer, &cli_replay_facts, arguments->json);
    tell_trace(&answer, arguments);
    tell_planned(&answer, &arguments->layout);
    cli_tell_gap(&answer);
    cli_answer_open(&answer, "pools");
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        tell_pool(&answer, arguments, &arguments->results[i]);
    cli_answer_close(&answer);
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        tell_served(&answer, arguments, &arguments->results[i]);
    tell_device(&answer, arguments);
    tell_holders(&answer, arguments);
    return cli_answer_end(&answer, arguments->error);
}
