/* replay_output.c - the output of `tenure replay`: the answer, the picture, and a memory
 * snapshot. */
#include "base/base.h"
#include "cli/traces/replay.h"
#include "report/format.h"
#include "report/svg/svg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { ANSWER_HOLDERS = 5 };

/* --- the answer: the table of its facts --- */

static const cli_facts answer_lesson_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "plans", NULL, "number of plans it made"),
        CLI_FACT(COUNT, "served", NULL, "allocations that got their place in a plan"),
        CLI_FACT(COUNT, "surprises", NULL,
                 "allocations that were not in the plan or did not fit there"),
        CLI_FACT(COUNT, "period", NULL, "requests per iteration of the last plan"),
        CLI_FACT(BYTES, "height", NULL, "bytes of the last plan"), CLI_FACTS_END}};
static const cli_facts answer_failure_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "where", NULL, "if it does not fit: the event, or an empty text"),
        CLI_FACT(WORD, "message", NULL, "if it does not fit: the reason"), CLI_FACTS_END}};
static const cli_facts answer_played_facts = {
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
        CLI_FACT_OF(OBJECT, "learned", "if the pool made a plan: that plan", &answer_lesson_facts),
        CLI_FACTS_ALSO(&answer_failure_facts), CLI_FACTS_END}};
static const cli_facts answer_pool_facts = {
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
        CLI_FACT_OF(OBJECT, "learned", "if the pool made a plan: that plan", &answer_lesson_facts),
        CLI_FACTS_ALSO(&answer_failure_facts),
        CLI_FACT_OF(OBJECT, "played",
                    "with --device: the trace, executed with this pool on the device",
                    &answer_played_facts),
        CLI_FACTS_ALSO(&cli_holders_facts), CLI_FACTS_END}};
static const cli_facts answer_planned_facts = {
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
        CLI_FACT_OF(OBJECT, "planned", "a plan of all live ranges", &answer_planned_facts),
        CLI_FACT_OF(LIST, "pools", "each pool", &answer_pool_facts),
        CLI_FACT(WORD, "device", "played on", "with --device: the device"),
        CLI_FACT_OF(OBJECT, "played",
                    "with --device, without --pool: the trace, executed on the device without a "
                    "pool",
                    &answer_played_facts),
        CLI_FACTS_END}};

/* --- the answer: one pool --- */

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

static void answer_lesson(cli_answer *answer, const tn_pool_lesson *lesson) {
    if (lesson->plans == 0) return;
    cli_answer_open(answer, "learned");
    cli_add(answer, "plans", lesson->plans);
    cli_add(answer, "served", lesson->served);
    cli_add(answer, "surprises", lesson->surprises);
    cli_add(answer, "period", lesson->period);
    cli_add(answer, "height", lesson->height);
    cli_answer_close(answer);
}

static void answer_failure(cli_answer *answer, const tn_error *failure) {
    cli_add_rest(answer, "does not fit: %s%s%s", failure->where,
                 failure->where[0] != '\0' ? ": " : "", failure->message);
    cli_add_word(answer, "where", failure->where);
    cli_add_word(answer, "message", failure->message);
}

static void answer_played(cli_answer *answer, const tn_play_answer *played) {
    cli_add(answer, "fits", played->fits);
    if (!played->fits) {
        answer_failure(answer, &played->failure);
        return;
    }
    cli_add(answer, "taken", played->taken);
    cli_add_real(answer, "request_s", played->request_s);
    cli_add_as(answer, "%.0f", 1e9 * played->request_s);
    cli_add(answer, "waits", played->waits);
    cli_add(answer, "blocks", played->marked);
    cli_add(answer, "streams", played->streams);
    cli_add(answer, "rounds", played->rounds);
    answer_lesson(answer, &played->lesson);
}

static void answer_usage(cli_answer *answer, const cli_replay *arguments,
                         const tn_pool_usage *usage) {
    const uint64_t reserved = usage->reserved_peak, planned = arguments->layout.peak;
    const double lost = reserved == 0 ? 0 : 1 - (double)usage->requested_peak / (double)reserved;
    cli_add(answer, "reserved_peak", reserved);
    cli_add_cell(answer, "of planned", "%.3f x",
                 planned == 0 ? 0 : (double)reserved / (double)planned);
    cli_add(answer, "allocated_peak", usage->allocated_peak);
    cli_add(answer, "requested_peak", usage->requested_peak);
    cli_add_real(answer, "fragmentation", lost);
    cli_add_as(answer, "%.2f %%", 100 * lost);
}

static void answer_pool(cli_answer *answer, const cli_replay *arguments,
                        const cli_replay_result *result) {
    cli_answer_open(answer, NULL);
    cli_add_word(answer, "name", result->name);
    cli_add(answer, "fits", result->fits);
    if (result->fits) {
        answer_usage(answer, arguments, &result->usage);
        answer_lesson(answer, &result->lesson);
    } else {
        cli_add_brief(answer, "does not fit");
        answer_failure(answer, &result->failure);
    }
    if (result->was_played) {
        cli_answer_open(answer, "played");
        answer_played(answer, &result->played);
        cli_answer_close(answer);
    }
    if (cli_answer_table(answer) == NULL) cli_holders_add(answer, &result->holders, ANSWER_HOLDERS);
    cli_answer_close(answer);
}

/* --- the answer: below the table of pools --- */

static void answer_served(cli_answer *answer, const cli_replay *arguments,
                          const cli_replay_result *result) {
    const tn_pool_lesson *lesson = &result->lesson;
    const double part = 100.0 / tn_pool_trace_block_count(arguments->trace);
    char height[TN_SIZE_TEXT_MAX];
    if (!result->fits || lesson->plans == 0) return;
    cli_add_line(answer, result->name,
                 "served %.1f %% of requests from %" PRIu64
                 " plan%s, %.1f %% were surprises; plan in force: %s",
                 part * (double)lesson->served, lesson->plans, lesson->plans == 1 ? "" : "s",
                 part * (double)lesson->surprises,
                 lesson->period != 0 ? tn_size_format(lesson->height, height) : "none");
}

static void answer_row(cli_answer *answer, const char *name, const tn_play_answer *played) {
    cli_answer_open(answer, NULL);
    cli_add_cell(answer, "pool", "%s", name);
    answer_played(answer, played);
    cli_answer_close(answer);
}

static void answer_rows(cli_answer *answer, const cli_replay *arguments) {
    cli_add_gap(answer);
    cli_answer_open_rows(answer, &answer_played_facts);
    if (arguments->plays_own) answer_row(answer, "none", &arguments->own);
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        if (arguments->results[i].was_played)
            answer_row(answer, arguments->results[i].name, &arguments->results[i].played);
    cli_answer_close(answer);
}

/* Returns the first execution on the device that fits, or NULL. */
static const tn_play_answer *answer_one(const cli_replay *arguments) {
    if (arguments->plays_own && arguments->own.fits) return &arguments->own;
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        if (arguments->results[i].was_played && arguments->results[i].played.fits)
            return &arguments->results[i].played;
    return NULL;
}

static void answer_device(cli_answer *answer, const cli_replay *arguments) {
    const tn_play_answer *one = answer_one(arguments);
    if (arguments->play_on == NULL) return;
    cli_add_gap(answer);
    cli_add_word(answer, "device", arguments->play_on);
    if (one != NULL)
        cli_add_more(answer, ": %" PRIu64 " blocks on %u stream%s, each written and read back",
                     one->marked, one->streams, one->streams == 1 ? "" : "s");
    if (cli_answer_table(answer) != NULL) {
        answer_rows(answer, arguments);
    } else if (arguments->plays_own) {
        cli_answer_open(answer, "played");
        answer_played(answer, &arguments->own);
        cli_answer_close(answer);
    }
}

/* Adds the holders of the first pool that does not fit. If all pools fit, adds those of the first
 * pool. */
static void answer_holders(cli_answer *answer, const cli_replay *arguments) {
    const cli_replay_result *shown = arguments->results;
    tn__text *table = cli_answer_table(answer);
    for (uint32_t i = arguments->pool_count; i-- > 0;)
        if (!arguments->results[i].fits) shown = &arguments->results[i];
    if (table == NULL || shown->holders.count == 0) return;
    cli_add_gap(answer);
    cli_holders_write(&shown->holders, ANSWER_HOLDERS, cli_columns(stdout), table);
}

/* --- the answer as a whole --- */

static void answer_trace(cli_answer *answer, const cli_replay *arguments) {
    const tn_pool_trace *trace = arguments->trace;
    cli_add_word(answer, "input", cli_shown_path(arguments->path));
    cli_add(answer, "live_peak", cli_replay_live_peak(arguments, NULL));
    cli_add_more(answer, " in use at once; %" PRIu64 " events, %u blocks", arguments->event_count,
                 tn_pool_trace_block_count(trace));
    cli_add(answer, "events", arguments->event_count);
    cli_add(answer, "blocks", tn_pool_trace_block_count(trace));
    cli_add_if(answer, "skipped", tn_pool_trace_skipped(trace));
    cli_add_more(answer, " (failed requests, requests of 0 bytes, or frees of unknown blocks)");
}

static void answer_planned(cli_answer *answer, const tn_layout *layout) {
    cli_answer_open(answer, "planned");
    cli_add(answer, "peak", layout->peak);
    cli_add_more(answer, ", planner %s, %s", layout->planner, tn_verdict_name(layout->verdict));
    cli_add_word(answer, "planner", layout->planner);
    cli_add_word(answer, "status", tn_verdict_name(layout->verdict));
    cli_add(answer, "lower_bound", layout->lower_bound);
    cli_answer_close(answer);
}

tn_status cli_replay_print(const cli_replay *arguments) {
    cli_answer answer;
    cli_answer_begin(&answer, &cli_replay_facts, arguments->json);
    answer_trace(&answer, arguments);
    answer_planned(&answer, &arguments->layout);
    cli_add_gap(&answer);
    cli_answer_open(&answer, "pools");
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        answer_pool(&answer, arguments, &arguments->results[i]);
    cli_answer_close(&answer);
    for (uint32_t i = 0; i < arguments->pool_count; i++)
        answer_served(&answer, arguments, &arguments->results[i]);
    answer_device(&answer, arguments);
    answer_holders(&answer, arguments);
    return cli_answer_end(&answer, arguments->error);
}

/* --- the picture: the bytes that each pool has reserved after each event --- */

/* The picture has a line per pool over a common time axis. A trace of a million events has over a
 * thousand events per column of the picture. Each column shows the largest value of its events, so
 * no peak is lost. The requested bytes are an area below the lines. The distance from this area to
 * a line is memory that the pool reserved but nothing requested. */

enum { PICTURE_WIDTH = 1000, PICTURE_HEIGHT = 480, PICTURE_LEGEND = 824 };
static const tn__svg_box picture_box = {84, 84 + CLI_REPLAY_COLUMNS, 54, 430};

/* The colours of Okabe and Ito, which most people can distinguish. If there are more pools than
 * colours, the colours repeat with dashed lines. */
static const char *const picture_colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                              "#e69f00", "#000000", "#56b4e9"};
enum { PICTURE_COLOURS = sizeof picture_colours / sizeof *picture_colours };

/* Returns the number of columns of the picture, which is the number of events if that is
 * smaller. */
static uint64_t picture_columns(const cli_replay_picture *picture) {
    return picture->event_count < CLI_REPLAY_COLUMNS ? picture->event_count : CLI_REPLAY_COLUMNS;
}

void cli_replay_curve(cli_replay_picture *picture, const char *name, bool fits,
                      const uint64_t *bytes) {
    uint64_t columns = picture_columns(picture), count = picture->event_count;
    if (picture->line_count == CLI_REPLAY_CURVES_MAX) return;
    cli_replay_line *line = &picture->lines[picture->line_count++];
    *line = (cli_replay_line){.name = name, .fits = fits};
    for (uint64_t c = 0; c < columns; c++) {
        uint64_t first = c * count / columns, last = (c + 1) * count / columns;
        line->most[c] = bytes[first];
        for (uint64_t i = first; i < last && line->most[c] != UINT64_MAX; i++)
            if (bytes[i] != UINT64_MAX && bytes[i] > line->most[c]) line->most[c] = bytes[i];
        if (line->most[c] != UINT64_MAX && line->most[c] > line->peak) line->peak = line->most[c];
    }
}

static void picture_point(tn__text *text, const char *command, double value) {
    tn__text_put(text, command);
    tn__svg_number(text, value);
}

static void picture_line(const cli_replay_picture *picture, uint32_t number, double top,
                         tn__text *text) {
    const cli_replay_line *line = &picture->lines[number];
    uint64_t columns = picture_columns(picture);
    double width = (picture_box.right - picture_box.left) / (double)columns, x = picture_box.left;
    tn__text_put(text, "<path d=\"");
    picture_point(text, "M", x);
    picture_point(text, " ", picture_box.bottom);
    for (uint64_t c = 0; c < columns && line->most[c] != UINT64_MAX; c++) {
        double height = (picture_box.bottom - picture_box.top) * (double)line->most[c] / top;
        if (c == 0 || line->most[c] != line->most[c - 1])
            picture_point(text, "V", picture_box.bottom - height);
        picture_point(text, "H", x = picture_box.left + width * (double)(c + 1));
    }
    if (number == 0) {
        picture_point(text, "V", picture_box.bottom);
        tn__text_put(text, "Z\" fill=\"#d9d9d9\"/>\n");
        return;
    }
    tn__text_printf(text, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.6\"%s/>\n",
                    picture_colours[(number - 1) % PICTURE_COLOURS],
                    number > PICTURE_COLOURS ? " stroke-dasharray=\"5 3\"" : "");
}

static void picture_legend(const cli_replay_picture *picture, uint32_t number, tn__text *text) {
    const cli_replay_line *line = &picture->lines[number];
    char size[TN_SIZE_TEXT_MAX], words[128];
    double y = picture_box.top + 10 + 34 * number;
    tn_size_format(line->peak, size);
    size[strcspn(size, "(")] = '\0';
    if (number == 0)
        tn__text_put(text, "<rect fill=\"#d9d9d9\" width=\"18\" height=\"10\"");
    else
        tn__text_printf(text, "<rect fill=\"%s\" width=\"18\" height=\"3\"",
                        picture_colours[(number - 1) % PICTURE_COLOURS]);
    tn__svg_attribute(text, "x", PICTURE_LEGEND);
    tn__svg_attribute(text, "y", y - (number == 0 ? 9 : 5));
    tn__text_put(text, "/>\n");
    tn__svg_words(text, PICTURE_LEGEND + 24, y, "class=\"name\"", line->name);
    snprintf(words, sizeof words, "%s%s", line->fits ? "at most " : "does not fit; reserved ",
             size);
    tn__svg_words(text, PICTURE_LEGEND + 24, y + 14, "class=\"peak\"", words);
}

tn_status cli_replay_draw(const cli_replay_picture *picture, const char *path, tn_error *error) {
    tn__text text;
    double top = 1;
    for (uint32_t i = 0; i < picture->line_count; i++)
        if ((double)picture->lines[i].peak > top) top = (double)picture->lines[i].peak;
    top *= 1.04; /* leaves space between the highest line and the frame */
    double legend_end = picture_box.top + 34 * (picture->line_count + 1);
    int height = legend_end > PICTURE_HEIGHT ? (int)legend_end : PICTURE_HEIGHT;
    tn__text_init(&text, NULL);
    tn__text_printf(&text,
                    "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                    "height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n"
                    "<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n",
                    PICTURE_WIDTH, height, PICTURE_WIDTH, height, PICTURE_WIDTH, height);
    tn__svg_words(&text, picture_box.left, 24, "font-size=\"15\" font-weight=\"600\"",
                  "Bytes reserved by each pool");
    tn__svg_words(&text, picture_box.left, 42, "fill=\"#555\"", picture->title);
    /* the area is drawn first, so that the grid and the lines are above it */
    picture_line(picture, 0, top, &text);
    tn__svg_frame(&text, &picture_box);
    tn__svg_time_axis(&text, &picture_box, 0, (int64_t)picture->event_count);
    tn__svg_byte_axis(&text, &picture_box, 0, top, top);
    for (uint32_t i = 1; i < picture->line_count; i++) picture_line(picture, i, top, &text);
    tn__svg_words(&text, (picture_box.left + picture_box.right) / 2 - 20, picture_box.bottom + 38,
                  "fill=\"#555\"", "event");
    for (uint32_t i = 0; i < picture->line_count; i++) picture_legend(picture, i, &text);
    tn__text_put(&text, "</svg>\n");
    tn_status status = text.failed ? tn__no_memory(error, "a picture")
                                   : tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}

/* --- a memory snapshot, with each block at the address that a pool chose --- */

#define SNAPSHOT_HALF (TN_POOL_CAPACITY_MAX / 2)
#define SNAPSHOT_GAP (1ull << 20)

typedef struct snapshot_replay {
    tn_pool *pool;
    const tn_pool_trace *trace;
    tn_snapshot_use *uses; /* [events] */
    uint64_t *ids;         /* [blocks] */
    uint64_t end;          /* end of the highest block in the lower half of the address range */
    uint64_t high,
        /* start of the lowest block in the upper half, which the pool "two-ended" fills from its
         * end, and end of the highest block there */
        high_end;
} snapshot_replay;

/* Replays one event and records its block for the snapshot. A trace has no times, so the number of
 * the event is used as its time in microseconds. */
static tn_status snapshot_event(snapshot_replay *replay, const tn_pool_event *event,
                                uint64_t number, tn_error *error) {
    tn_snapshot_use *use = &replay->uses[number];
    *use = (tn_snapshot_use){.frees = event->frees,
                             .block = event->block,
                             .stream = event->stream,
                             .at_s = (double)number * 1e-6};
    if (event->frees) return tn_pool_free(replay->pool, replay->ids[event->block], error);
    const tn_pool_label *label = tn_pool_trace_label(replay->trace, event->label);
    tn_pool_request request = {.size = event->size,
                               .alignment = event->alignment,
                               .stream = event->stream,
                               .flags = event->flags};
    tn_allocation block;
    TN_TRY(tn_pool_alloc(replay->pool, &request, &block, error));
    replay->ids[event->block] = block.id;
    use->address = block.offset;
    use->size = event->size;
    use->held = block.size;
    use->name = label->name;
    use->kind = label->kind;
    use->op = use->type = label->op;
    uint64_t end = block.offset + block.size;
    if (block.offset < SNAPSHOT_HALF) {
        if (end > replay->end) replay->end = end;
    } else {
        if (block.offset < replay->high) replay->high = block.offset;
        if (end > replay->high_end) replay->high_end = end;
    }
    return TN_OK;
}

/* Moves the blocks of the upper half of the address range next to those of the lower half. In an
 * unlimited range the gap between them would be much longer than all blocks. */
static void snapshot_close(snapshot_replay *replay, uint64_t count) {
    if (replay->high_end == 0) return;
    uint64_t base = (replay->end + SNAPSHOT_GAP) / SNAPSHOT_GAP * SNAPSHOT_GAP;
    for (uint64_t i = 0; i < count; i++) {
        tn_snapshot_use *use = &replay->uses[i];
        if (use->address >= SNAPSHOT_HALF) use->address = base + (use->address - replay->high);
    }
    replay->end = base + (replay->high_end - replay->high);
}

tn_status cli_replay_snapshot(const tn_pool_trace *trace, const tn_pool_options *options,
                              const char *path, tn_error *error) {
    uint64_t count;
    const tn_pool_event *events = tn_pool_trace_events(trace, &count);
    snapshot_replay replay = {.trace = trace, .high = UINT64_MAX};
    replay.uses = calloc((size_t)count + 1, sizeof *replay.uses);
    replay.ids = calloc((size_t)tn_pool_trace_block_count(trace) + 1, sizeof *replay.ids);
    tn_status status =
        replay.uses == NULL || replay.ids == NULL ? tn__no_memory(error, "a replay") : TN_OK;
    if (status == TN_OK) status = tn_pool_create(options, &replay.pool, error);
    for (uint64_t i = 0; i < count && status == TN_OK; i++)
        status = snapshot_event(&replay, &events[i], i, error);
    snapshot_close(&replay, count);
    if (status == TN_OK)
        status = tn_snapshot_write(replay.uses, count, replay.end, options->context, path, error);
    tn_pool_destroy(replay.pool);
    free(replay.ids);
    free(replay.uses);
    return status;
}
