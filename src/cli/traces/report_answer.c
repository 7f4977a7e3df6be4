/* report_answer.c - prints the answer of `tenure report`. */
#include "cli/traces/report.h"
#include "interop/snapshot/snapshot.h"
#include "report/format.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct answer_state {
    const cli_report *report;
    const cli_report_device *device;
    const tn_snapshot_facts *facts;
    cli_answer *answer;
    tn_snapshot_group *groups; /* [top] */
    tn_snapshot_hole *holes;   /* [top] */
    /* true: the trace lists segments of the allocator; traces of a profiler do not */
    bool has_segments;
} answer_state;

/* --- the table of facts --- */

#define ANSWER_GROUPS(key, label)                                                                  \
    {                                                                                              \
        .indent = 2, .columns = true, .rows = (const cli_fact[]) {                                 \
            CLI_FACT(BYTES, "bytes", "bytes", "bytes of its blocks"),                              \
                CLI_FACT(SHARE, "share", "share", "the same / bytes of all groups"),               \
                CLI_FACT(COUNT, "blocks", "blocks", "number of its blocks"),                       \
                CLI_FACT(WORD, key, label, "name of the group"), CLI_FACTS_END                     \
        }                                                                                          \
    }
static const cli_facts answer_group_facts[] = {
    [TN_SNAPSHOT_BY_LINE] = ANSWER_GROUPS("name", "line"),
    [TN_SNAPSHOT_BY_MODULE] = ANSWER_GROUPS("name", "module"),
    [TN_SNAPSHOT_BY_CATEGORY] =
        ANSWER_GROUPS("name", "category (from the file, else guessed from stacks)")};
static const cli_facts answer_waiting_facts = ANSWER_GROUPS("freed_by", "freed by");
static const cli_facts answer_moment_facts = {
    .indent = 2,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "name", NULL, "at the peak, out of memory 1 of 2, or now"),
        CLI_FACT(COUNT, "event", NULL, "number of events before it"),
        CLI_FACT(BYTES, "requested", NULL, "requested bytes"),
        CLI_FACT(BYTES, "reserved", NULL, "bytes of the segments"),
        CLI_FACT(BYTES, "wanted", NULL, "at an out-of-memory event: bytes of the failed request"),
        CLI_FACT(BYTES, "device_free", NULL, "at an out-of-memory event: free bytes of the device"),
        CLI_FACT(COUNT, "line_count", NULL, "number of source lines that hold memory"),
        CLI_FACT_OF(LIST, "line", "the `--top` largest of them", &answer_group_facts[0]),
        CLI_FACT(COUNT, "module_count", NULL, "number of modules that hold memory"),
        CLI_FACT_OF(LIST, "module", "the `--top` largest of them", &answer_group_facts[1]),
        CLI_FACT(COUNT, "category_count", NULL, "number of categories that hold memory"),
        CLI_FACT_OF(LIST, "category", "the `--top` largest of them", &answer_group_facts[2]),
        CLI_FACTS_END}};
static const cli_facts answer_hole_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){CLI_FACT(BYTES, "size", "hole", "its bytes"),
                               CLI_FACT(COUNT, "segment", NULL, "address of its segment"),
                               CLI_FACT(BYTES, "segment_size", NULL, "bytes of the segment"),
                               CLI_FACT(BYTES, "offset", NULL, "its place in the segment"),
                               CLI_FACT(COUNT, "stream", NULL, "stream of the segment"),
                               CLI_COLUMN(WORD, "in a segment of"), CLI_FACTS_END}};
static const cli_facts answer_cause_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "hard", NULL, "bytes between live blocks"),
        CLI_FACT(BYTES, "soft", NULL, "bytes of whole free segments, which cannot be merged"),
        CLI_FACT(BYTES, "stream", NULL, "bytes in segments of a stream without live blocks"),
        CLI_FACTS_END}};
static const cli_facts answer_pool_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "name", "same requests in other pools",
                 "name of the pool, or planned for a plan of all live ranges"),
        CLI_FACT(YES, "done", NULL, "whether it served all requests"),
        CLI_FACT(BYTES, "reserved_peak", "reserved bytes",
                 "if it served all requests: peak of its reserved bytes"),
        CLI_COLUMN(REAL, "of the file's"),
        CLI_FACT(WORD, "planner", NULL, "for `planned`: the planner"),
        CLI_FACT(WORD, "status", NULL, "for `planned`: the status of the plan"),
        CLI_FACT(WORD, "message", NULL, "if a request failed: the reason"), CLI_FACTS_END}};
static const cli_facts answer_device_facts = {
    .indent = 2,
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "device", "device", "number of the device"),
        CLI_FACT(WORD, "device_name", NULL,
                 "its name in a profiler trace, such as cuda:0, or null"),
        CLI_FACT(COUNT, "events", NULL, "number of events"),
        CLI_FACT(COUNT, "blocks", NULL, "number of blocks over the whole time"),
        CLI_FACT(COUNT, "segments", NULL, "number of segments at the end"),
        CLI_FACT(COUNT, "before_blocks", NULL, "blocks allocated before the history began"),
        CLI_FACT(BYTES, "before_bytes", NULL, "their bytes"),
        CLI_FACT(BYTES, "requested", "now:", "requested bytes at the end"),
        CLI_FACT(BYTES, "waiting_bytes", NULL,
                 "bytes that the program freed while another stream used them, at the end"),
        CLI_FACT(COUNT, "waiting_blocks", NULL, "number of these blocks"),
        CLI_FACT(BYTES, "allocated", NULL, "allocated bytes at the end"),
        CLI_FACT(BYTES, "reserved", NULL, "bytes of the segments at the end"),
        CLI_FACT(YES, "history", NULL, "whether the file has events"),
        CLI_FACT(BYTES, "requested_peak", NULL, "peak of the requested bytes, or null"),
        CLI_FACT(BYTES, "reserved_peak", NULL, "peak of the reserved bytes, or null"),
        CLI_FACT(COUNT, "out_of_memory", NULL, "number of out-of-memory events"),
        CLI_FACT(COUNT, "wrong_requests", NULL, "allocations at an address in use"),
        CLI_FACT(COUNT, "wrong_blocks", NULL, "blocks that differ from the events"),
        CLI_FACT(COUNT, "wrong_segments", NULL, "segments with sums that differ from their blocks"),
        CLI_FACT(COUNT, "wrong_device", NULL, "impossible events of segments"),
        CLI_FACT(WORD, "first_wrong", NULL, "the first of these disagreements, or an empty text"),
        CLI_FACT_OF(LIST, "moments", "the peak, at most eight out-of-memory events, and the end",
                    &answer_moment_facts),
        CLI_FACT_OF(LIST, "waiting",
                    "these blocks by source line of the free: the `--top` largest groups",
                    &answer_waiting_facts),
        CLI_FACT(COUNT, "hole_count", NULL, "free sections of segments at the end"),
        CLI_FACT(BYTES, "hole_bytes", NULL, "their bytes"),
        CLI_FACT(BYTES, "whole_segment_bytes", NULL, "bytes of segments without a block"),
        CLI_FACT_OF(LIST, "holes", "the `--top` largest free sections", &answer_hole_facts),
        CLI_FACT_OF(OBJECT, "hole_causes", "reasons why free bytes cannot serve a request",
                    &answer_cause_facts),
        CLI_FACT_OF(LIST, "pools", "each simulated pool", &answer_pool_facts),
        CLI_FACTS_END}};
const cli_facts cli_report_facts = {
    .name = "report",
    .indent = 2,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "input", NULL, "path of the snapshot"),
        CLI_FACT_OF(LIST, "devices", "each device with memory", &answer_device_facts),
        CLI_FACTS_END}};

/* --- groups of blocks --- */

static void answer_bytes(cli_answer *answer, const char *key, uint64_t bytes) {
    char size[TN__WORDS_MAX];
    cli_add(answer, key, bytes);
    cli_add_as(answer, "%s", tn__words_iec(bytes, size));
}

/* Returns how many of `count` rows are printed. */
static uint32_t answer_top(const answer_state *state, uint32_t count) {
    return count < state->report->top ? count : state->report->top;
}

static void answer_rest(const answer_state *state, uint32_t count, const char *words) {
    if (count > state->report->top)
        cli_add_line(state->answer, "and", "%u %s", count - state->report->top, words);
}

/* Adds the largest groups of state->groups, at most as many as --top says. `all` is the number of
 * bytes of all `count` groups. */
static void answer_rows(const answer_state *state, const char *key, const char *name,
                        uint32_t count, uint64_t all) {
    cli_answer *answer = state->answer;
    if (count > 0) cli_add_gap(answer);
    cli_answer_open(answer, key);
    for (uint32_t i = 0; i < answer_top(state, count); i++) {
        const tn_snapshot_group *group = &state->groups[i];
        cli_answer_open(answer, NULL);
        answer_bytes(answer, "bytes", group->bytes);
        cli_add_real(answer, "share", all == 0 ? 0 : (double)group->bytes / (double)all);
        cli_add(answer, "blocks", group->count);
        cli_add_word(answer, name, group->name);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
    answer_rest(state, count, "more");
}

static void answer_groups(const answer_state *state, uint64_t time, tn_snapshot_by by,
                          uint64_t all) {
    static const char *const keys[][2] = {
        {"line_count", "line"}, {"module_count", "module"}, {"category_count", "category"}};
    uint32_t count =
        tn_snapshot_groups(state->device->lives, time, by, state->groups, state->report->top);
    cli_add(state->answer, keys[by][0], count);
    answer_rows(state, keys[by][1], "name", count, all);
}

static void answer_moment(const answer_state *state, const cli_report_moment *moment) {
    cli_answer *answer = state->answer;
    uint64_t requested, reserved;
    char wanted[TN__WORDS_MAX], left[TN__WORDS_MAX], own[TN_SIZE_TEXT_MAX], held[TN__WORDS_MAX];
    tn_snapshot_bytes_at(state->device->lives, moment->time, &requested, &reserved);
    cli_add_gap(answer);
    cli_answer_open(answer, NULL);
    cli_add_line(answer, strcmp(moment->name, "now") == 0 ? "memory now" : moment->name,
                 "(event %" PRIu64 " of %" PRIu64 "): %s requested%s%s%s", moment->time,
                 state->facts->event_count, tn_size_format(requested, own),
                 state->has_segments ? ", " : "",
                 state->has_segments ? tn__words_iec(reserved, held) : "",
                 state->has_segments ? " reserved" : "");
    cli_add_word(answer, "name", moment->name);
    cli_add(answer, "event", moment->time);
    cli_add(answer, "requested", requested);
    cli_add(answer, "reserved", reserved);
    if (moment->oom != NULL) {
        cli_add_line(answer, tn__words_iec(moment->oom->size, wanted),
                     "was requested; the device had %s free, %s were reserved and not in use",
                     tn__words_iec(moment->oom->address, left),
                     tn__words_iec(reserved > requested ? reserved - requested : 0, held));
        cli_add(answer, "wanted", moment->oom->size);
        cli_add(answer, "device_free", moment->oom->address);
    }
    answer_groups(state, moment->time, TN_SNAPSHOT_BY_LINE, requested);
    answer_groups(state, moment->time, TN_SNAPSHOT_BY_MODULE, requested);
    answer_groups(state, moment->time, TN_SNAPSHOT_BY_CATEGORY, requested);
    cli_answer_close(answer);
}

static void answer_waiting(const answer_state *state) {
    const tn_snapshot_facts *facts = state->facts;
    char size[TN__WORDS_MAX];
    uint32_t count = tn_snapshot_waiting(state->device->lives, state->groups, state->report->top);
    if (count > 0) {
        cli_add_gap(state->answer);
        cli_add_line(state->answer, "freed by the program",
                     "and waiting for another stream, now: %s in %" PRIu64 " blocks",
                     tn__words_iec(facts->waiting_bytes, size), facts->waiting_count);
    }
    answer_rows(state, "waiting", "freed_by", count, facts->waiting_bytes);
}

/* --- the segments at the end --- */

/* Returns the number of segments of this device, and sets *allocated to the bytes allocated in
 * them. */
static uint32_t answer_sum(const answer_state *state, uint64_t *allocated) {
    uint32_t count, mine = 0;
    const tn_snapshot_segment *all = tn_snapshot_segments(state->report->snapshot, &count);
    *allocated = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (all[i].device != state->device->device) continue;
        mine++;
        *allocated = tn__add_sat(*allocated, all[i].active);
    }
    return mine;
}

static void answer_hole(const answer_state *state, const tn_snapshot_hole *hole) {
    cli_answer *answer = state->answer;
    uint32_t count;
    char size[TN__WORDS_MAX];
    const tn_snapshot *snapshot = state->report->snapshot;
    const tn_snapshot_segment *segment = &tn_snapshot_segments(snapshot, &count)[hole->segment];
    uint64_t stream = tn_snapshot_stream(snapshot, segment->stream);
    cli_answer_open(answer, NULL);
    answer_bytes(answer, "size", hole->size);
    cli_add(answer, "segment", segment->address);
    cli_add(answer, "segment_size", segment->total);
    cli_add(answer, "offset", hole->offset);
    cli_add(answer, "stream", stream);
    cli_add_cell(
        answer, "in a segment of", "%s at %#" PRIx64 " + %" PRIu64 " (%s%s, stream %" PRIu64 ")",
        tn__words_iec(segment->total, size), segment->address, hole->offset,
        segment->large ? "large" : "small", segment->expandable ? ", expandable" : "", stream);
    cli_answer_close(answer);
}

static void answer_causes(const answer_state *state) {
    cli_answer *answer = state->answer;
    tn_snapshot_causes causes =
        tn_snapshot_hole_causes(state->report->snapshot, state->device->device);
    char hard[TN__WORDS_MAX], soft[TN__WORDS_MAX], stream[TN__WORDS_MAX];
    if (causes.hard + causes.soft + causes.stream > 0)
        cli_add_line(answer, "causes:",
                     "hard %s (between live blocks), soft %s (whole free segments, which cannot be "
                     "merged), stream %s (segments of a stream without live blocks)",
                     tn__words_iec(causes.hard, hard), tn__words_iec(causes.soft, soft),
                     tn__words_iec(causes.stream, stream));
    cli_answer_open(answer, "hole_causes");
    cli_add(answer, "hard", causes.hard);
    cli_add(answer, "soft", causes.soft);
    cli_add(answer, "stream", causes.stream);
    cli_answer_close(answer);
}

static void answer_holes(const answer_state *state) {
    cli_answer *answer = state->answer;
    uint64_t whole, bytes;
    char size[TN__WORDS_MAX], empty[TN__WORDS_MAX];
    uint32_t count = tn_snapshot_holes(state->report->snapshot, state->device->device, state->holes,
                                       state->report->top, &whole, &bytes);
    if (count > 0) {
        cli_add_gap(answer);
        cli_add_line(answer, "reserved and not in use, now:",
                     "%s in %u holes; %s of it in whole segments, which empty_cache() gives back",
                     tn__words_iec(bytes, size), count, tn__words_iec(whole, empty));
        cli_add_gap(answer);
    }
    cli_add(answer, "hole_count", count);
    cli_add(answer, "hole_bytes", bytes);
    cli_add(answer, "whole_segment_bytes", whole);
    cli_answer_open(answer, "holes");
    for (uint32_t i = 0; i < answer_top(state, count); i++) answer_hole(state, &state->holes[i]);
    cli_answer_close(answer);
    answer_rest(state, count, "smaller ones");
    answer_causes(state);
}

/* --- the bytes that other pools would have reserved --- */

static void answer_ratio(const answer_state *state, uint64_t reserved) {
    if (state->facts->reserved_peak > 0)
        cli_add_cell(state->answer, "of the file's", "%.3f x",
                     (double)reserved / (double)state->facts->reserved_peak);
}

static void answer_pool(const answer_state *state, const cli_report_pool *pool) {
    cli_answer *answer = state->answer;
    cli_answer_open(answer, NULL);
    cli_add_word(answer, "name", pool->name);
    cli_add(answer, "done", pool->done);
    if (pool->done) {
        cli_add(answer, "reserved_peak", pool->reserved);
        answer_ratio(state, pool->reserved);
    } else {
        cli_add_word(answer, "message", pool->failure.message);
        cli_add_rest(answer, "%s", pool->failure.message);
    }
    if (pool->planner != NULL) {
        cli_add_word(answer, "planner", pool->planner);
        cli_add_word(answer, "status", pool->verdict);
        cli_add_rest(answer, "(%s, %s)", pool->planner, pool->verdict);
    }
    cli_answer_close(answer);
}

static void answer_pools(const answer_state *state) {
    cli_answer *answer = state->answer;
    if (state->device->pool_count > 0) cli_add_gap(answer);
    cli_answer_open(answer, "pools");
    if (state->device->pool_count > 0 && state->has_segments && cli_answer_table(answer) != NULL) {
        cli_answer_open(answer, NULL);
        cli_add_word(answer, "name", "in the file");
        cli_add(answer, "reserved_peak", state->facts->reserved_peak);
        answer_ratio(state, state->facts->reserved_peak);
        cli_answer_close(answer);
    }
    for (uint32_t i = 0; i < state->device->pool_count; i++)
        answer_pool(state, &state->device->pools[i]);
    cli_answer_close(answer);
}

/* --- the answer for one device --- */

static void answer_agreement(const answer_state *state) {
    const tn_snapshot_facts *facts = state->facts;
    uint64_t wrong =
        facts->wrong_requests + facts->wrong_blocks + facts->wrong_segments + facts->wrong_device;
    if (!state->has_segments && wrong == 0) return;
    cli_add_gap(state->answer);
    if (wrong == 0 && facts->event_count == 0)
        cli_add_line(state->answer, "the segments", "agree with their blocks");
    else if (wrong == 0)
        cli_add_line(state->answer, "the events and the segments",
                     "agree: events explain every block and every segment");
    else
        cli_add_line(state->answer,
                     state->has_segments ? "the events and the segments" : "the events",
                     "disagree in %" PRIu64 " places; the first: %s", wrong, facts->first_wrong);
}

static void answer_memory(const answer_state *state) {
    cli_answer *answer = state->answer;
    const tn_snapshot_facts *facts = state->facts;
    uint64_t allocated;
    const uint32_t segments = answer_sum(state, &allocated);
    char one[TN__WORDS_MAX], two[TN__WORDS_MAX], three[TN__WORDS_MAX];
    cli_add(answer, "device", state->device->device);
    const char *name = tn__snapshot_device_name(state->report->snapshot, state->device->device);
    if (name != NULL) cli_add_more(answer, " (%s)", name);
    cli_add_more(answer, ": %" PRIu64 " events, %" PRIu64 " blocks over time", facts->event_count,
                 facts->life_count);
    if (state->has_segments) cli_add_more(answer, ", %u segments", segments);
    cli_add_word(answer, "device_name", name);
    cli_add(answer, "events", facts->event_count);
    cli_add(answer, "blocks", facts->life_count);
    cli_add(answer, "segments", segments);
    if (facts->before_count > 0 && facts->event_count > 0)
        cli_add_line(answer,
                     "the history begins late:", "%" PRIu64 " blocks, %s, were allocated before it",
                     facts->before_count, tn__words_iec(facts->before_bytes, one));
    cli_add(answer, "before_blocks", facts->before_count);
    cli_add(answer, "before_bytes", facts->before_bytes);
    answer_bytes(answer, "requested", facts->requested - facts->waiting_bytes);
    cli_add_more(answer, " requested");
    if (state->has_segments)
        cli_add_more(answer, ", %s allocated (rounded up), %s reserved",
                     tn__words_iec(allocated, two), tn__words_iec(facts->reserved, three));
    if (facts->waiting_count > 0)
        cli_add_line(answer, "now:", "%s more were freed and wait for another stream",
                     tn__words_iec(facts->waiting_bytes, one));
    cli_add(answer, "waiting_bytes", facts->waiting_bytes);
    cli_add(answer, "waiting_blocks", facts->waiting_count);
    cli_add(answer, "allocated", allocated);
    cli_add(answer, "reserved", facts->reserved);
}

static void answer_history(const answer_state *state) {
    cli_answer *answer = state->answer;
    const tn_snapshot_facts *facts = state->facts;
    cli_add(answer, "history", facts->event_count > 0);
    if (facts->event_count > 0) {
        cli_add(answer, "requested_peak", facts->peak_requested);
        cli_add(answer, "reserved_peak", facts->reserved_peak);
    } else {
        cli_add_line(
            answer, "no history:",
            "the file has no requests, so no peak and no comparison of pools can be shown; call "
            "torch.cuda.memory._record_memory_history() before the run");
        cli_add_null(answer, "requested_peak");
        cli_add_null(answer, "reserved_peak");
    }
    cli_add(answer, "out_of_memory", facts->oom_count);
    cli_add(answer, "wrong_requests", facts->wrong_requests);
    cli_add(answer, "wrong_blocks", facts->wrong_blocks);
    cli_add(answer, "wrong_segments", facts->wrong_segments);
    cli_add(answer, "wrong_device", facts->wrong_device);
    cli_add_word(answer, "first_wrong", facts->first_wrong);
}

static void answer_brief(const answer_state *state) {
    const tn_snapshot_facts *facts = state->facts;
    char peak[TN__WORDS_MAX], reserved[TN__WORDS_MAX], size[TN__WORDS_MAX];
    uint32_t count = tn_snapshot_groups(state->device->lives, facts->peak_time, TN_SNAPSHOT_BY_LINE,
                                        state->groups, 1);
    cli_add_brief(state->answer, "device %u: %s %s requested", state->device->device,
                  facts->event_count > 0 ? "peak" : "no history; now",
                  tn__words_iec(facts->peak_requested, peak));
    if (state->has_segments)
        cli_add_brief(state->answer, ", %s reserved",
                      tn__words_iec(facts->reserved_peak, reserved));
    if (count > 0)
        cli_add_brief(state->answer, "; %s of it by %s", tn__words_iec(state->groups->bytes, size),
                      state->groups->name);
    if (facts->oom_count > 0) cli_add_brief(state->answer, "; it ran out of memory");
}

static void answer_device(const answer_state *state) {
    answer_memory(state);
    answer_history(state);
    cli_answer_open(state->answer, "moments");
    for (uint32_t i = 0; i < state->device->moment_count; i++)
        answer_moment(state, &state->device->moments[i]);
    cli_answer_close(state->answer);
    answer_waiting(state);
    answer_holes(state);
    answer_pools(state);
    answer_agreement(state);
}

static void answer_all(const cli_report *report, cli_answer *answer) {
    answer_state state = {.report = report, .answer = answer};
    state.groups = calloc((size_t)report->top + 1, sizeof *state.groups);
    state.holes = calloc((size_t)report->top + 1, sizeof *state.holes);
    if (state.groups == NULL || state.holes == NULL) answer->out.failed = true;
    cli_add_word(answer, "input", cli_shown_path(report->path));
    cli_answer_open(answer, "devices");
    for (uint32_t i = 0; i < report->device_count && !answer->out.failed; i++) {
        state.device = &report->devices[i];
        state.facts = tn_snapshot_facts_of(state.device->lives);
        state.has_segments =
            tn__snapshot_device_name(report->snapshot, state.device->device) == NULL;
        if (i > 0) cli_add_gap(answer);
        if (i > 0) cli_add_break(answer);
        cli_answer_open(answer, NULL);
        (answer->style == CLI_STYLE_BRIEF ? answer_brief : answer_device)(&state);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
    if (report->device_count == 0) {
        cli_add_line(answer, "no device", "has any memory in this snapshot");
        cli_add_brief(answer, "no device has any memory in this snapshot");
    }
    free(state.groups);
    free(state.holes);
}

tn_status cli_report_print(const cli_report *report) {
    cli_answer answer;
    cli_answer_begin(&answer, &cli_report_facts, report->json);
    answer_all(report, &answer);
    return cli_answer_end(&answer, report->error);
}

void cli_report_add_table(const cli_report *report, cli_answer *answer) {
    cli_answer_begin_as(answer, &cli_report_facts, CLI_STYLE_TABLE);
    answer_all(report, answer);
}
