/* timeline_svg.c - draws a timeline of several ranks as a picture for papers.
 *
 *     rank 0    predicted   compute  ▇▇▇▇▇▇▇▇▇▇▇
 *     data 0                calls          ▇▇▇▇
 *                           live     ▁▃▅▇▅▃▁
 *               measured    ...
 *
 * A span that begins less than half a unit after another span of its lane and colour is drawn as
 * one box with it. A step has thousands of operators, and neither a screen nor a printed page shows
 * anything smaller than a unit.
 *
 * Cost: O(spans).
 */
#include <math.h>
#include <stdio.h>

#include "report/svg/svg.h"
#include "report/timeline/timeline.h"

enum {
    LINE_WIDTH = 1000,
    LINE_LEFT = 190,
    LINE_RIGHT = 986,
    LINE_TOP = 84,
    LINE_LANE = 13,
    LINE_LIVE = 30,
    LINE_GAP = 12,
    LINE_BETWEEN = 22
};
#define LINE_NEAR 0.5 /* units */

static const char *const line_phases[TN__SPAN_PHASES] = {"forward", "backward", "update"};
static const char *const line_phase_colours[TN__SPAN_PHASES] = {"#56b4e9", "#e69f00", "#cc79a7"};
static const char *const line_lane_colours[TN__TRACK_COUNT] = {"#56b4e9", "#009e73", "#8a93a0"};

typedef struct line_picture {
    const tn_timeline *line;
    tn__text *text;
    double longest; /* seconds that the width of the picture shows */
    /* time at which the first rank began with a run of each kind */
    double origin[TN_TIMELINE_KINDS];
    uint64_t most; /* bytes that the height of a curve of live bytes shows */
} line_picture;

static double line_x(const line_picture *picture, tn_timeline_kind kind, double at_s) {
    double share = (at_s - picture->origin[kind]) / picture->longest;
    return LINE_LEFT + share * (LINE_RIGHT - LINE_LEFT);
}

static const char *line_colour(const tn__timeline_span *span) {
    return span->lane == TN__TRACK_COMPUTE ? line_phase_colours[span->phase]
                                           : line_lane_colours[span->lane];
}

/* --- drawing one lane --- */

typedef struct line_box { /* adjacent spans that are drawn as one box */
    double from, to;
    uint32_t count;
    const tn__timeline_span *first;
} line_box;

static void line_box_draw(const line_picture *picture, const tn__line_run *run, const line_box *box,
                          double y) {
    tn__text *text = picture->text;
    char words[64];
    if (box->count == 0) return;
    tn__text_printf(text, "<rect height=\"%d\" fill=\"%s\"", LINE_LANE - 2,
                    line_colour(box->first));
    tn__svg_attribute(text, "x", box->from);
    tn__svg_attribute(text, "y", y);
    tn__svg_attribute(text, "width", fmax(box->to - box->from, 0.25));
    tn__text_put(text, "><title>");
    tn__text_xml(text, tn__span_text(run, box->first->type));
    tn__text_put(text, " ");
    tn__text_xml(text, tn__span_text(run, box->first->name));
    if (box->count > 1)
        snprintf(words, sizeof words, " and %u more", box->count - 1);
    else
        snprintf(words, sizeof words, ", %.3f ms", 1e3 * box->first->duration_s);
    tn__text_put(text, words);
    tn__text_put(text, "</title></rect>\n");
}

static void line_lane_draw(const line_picture *picture, tn_timeline_kind kind,
                           const tn__line_run *run, const tn__line_lane *lanes, uint32_t count,
                           uint32_t lane, double y) {
    line_box box = {0};
    for (size_t i = 0; i < run->count; i++) {
        const tn__timeline_span *span = &run->spans[i];
        if (tn__line_lane_of(lanes, count, span) != lane) continue;
        double from = line_x(picture, kind, span->start_s);
        double to = line_x(picture, kind, span->start_s + span->duration_s);
        if (box.count > 0 && from - box.to < LINE_NEAR &&
            line_colour(span) == line_colour(box.first)) {
            box.to = fmax(box.to, to);
            box.count++;
            continue;
        }
        line_box_draw(picture, run, &box, y);
        box = (line_box){from, to, 1, span};
    }
    line_box_draw(picture, run, &box, y);
}

static void line_lane_name(const line_picture *picture, const tn__line_lane *lane, double y) {
    const char *name = lane->lane == TN__TRACK_CALL ? "calls" : tn__track_name(lane->lane);
    char words[40];
    if (lane->stream > 0)
        snprintf(words, sizeof words, "%s, stream %u", name, lane->stream);
    else
        snprintf(words, sizeof words, "%s", name);
    tn__svg_words(picture->text, LINE_LEFT - 6, y + LINE_LANE - 4, "text-anchor=\"end\"", words);
}

/* --- drawing the live bytes of a rank --- */

/* Draws the live bytes of a rank. The steps on stream 0 are in the order of the list, and the value
 * of each is drawn until the next one begins. */
static void line_live(const line_picture *picture, tn_timeline_kind kind, const tn__line_run *run,
                      double y) {
    double bottom = y + LINE_LIVE, last = LINE_LEFT, drawn = -1;
    tn__text *text = picture->text;
    tn__text_put(text, "<path fill=\"#0b5cad\" fill-opacity=\".18\" stroke=\"#0b5cad\" d=\"M");
    tn__svg_number(text, LINE_LEFT);
    tn__text_put(text, " ");
    tn__svg_number(text, bottom);
    for (size_t i = 0; i < run->count; i++) {
        const tn__timeline_span *span = &run->spans[i];
        double x = line_x(picture, kind, span->start_s);
        double at = bottom - (double)span->live / (double)picture->most * LINE_LIVE;
        last = fmax(last, line_x(picture, kind, span->start_s + span->duration_s));
        if (span->stream != 0 || at == drawn) continue;
        tn__text_put(text, "H");
        tn__svg_number(text, x);
        tn__text_put(text, "V");
        tn__svg_number(text, at);
        drawn = at;
    }
    tn__text_put(text, "H");
    tn__svg_number(text, last);
    tn__text_put(text, "V");
    tn__svg_number(text, bottom);
    tn__text_put(text, "Z\"/>\n");
}

static void line_live_words(const line_picture *picture, const tn__line_rank *rank, uint64_t peak,
                            double y) {
    char words[96], iec[TN__WORDS_MAX], planned[TN__WORDS_MAX];
    snprintf(words, sizeof words, "live, peak %s", tn__words_iec(peak, iec));
    tn__svg_words(picture->text, LINE_LEFT - 6, y + LINE_LIVE / 2, "text-anchor=\"end\"", words);
    if (rank->planned == 0) return;
    snprintf(words, sizeof words, "planned %s", tn__words_iec(rank->planned, planned));
    tn__svg_words(picture->text, LINE_LEFT - 6, y + LINE_LIVE / 2 + 12, "text-anchor=\"end\"",
                  words);
    double at = y + LINE_LIVE - (double)rank->planned / (double)picture->most * LINE_LIVE;
    tn__svg_line(picture->text, LINE_LEFT, at, LINE_RIGHT, at,
                 "stroke=\"#b3003c\" stroke-dasharray=\"4 3\"");
}

/* --- ranks --- */

/* Draws one run of a rank. Returns the y coordinate at which the next drawing begins. */
static double line_run_draw(const line_picture *picture, uint32_t number, tn_timeline_kind kind,
                            double y) {
    const tn__line_rank *rank = &picture->line->ranks[number];
    const tn__line_run *run = &rank->runs[kind];
    tn__line_lane lanes[TN__LINE_LANES_MOST];
    uint32_t count = tn__line_lanes(run, lanes);
    if (count == 0) return y;
    tn__svg_words(picture->text, 12, y + LINE_LANE - 4, "font-style=\"italic\"",
                  tn__line_kind(kind));
    for (uint32_t lane = 0; lane < count; lane++, y += LINE_LANE) {
        line_lane_name(picture, &lanes[lane], y);
        line_lane_draw(picture, kind, run, lanes, count, lane, y);
    }
    line_live(picture, kind, run, y + 2);
    line_live_words(picture, rank, tn_timeline_measure(picture->line, number, kind).peak, y + 2);
    return y + LINE_LIVE + LINE_GAP;
}

static double line_rank_draw(const line_picture *picture, uint32_t number, double y) {
    char words[96];
    const char *label = picture->line->ranks[number].label;
    snprintf(words, sizeof words, "rank %u%s%s", number, label[0] != '\0' ? ": " : "", label);
    tn__svg_words(picture->text, 12, y, "font-weight=\"600\" fill=\"#1b1f24\"", words);
    y += 6;
    for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++)
        y = line_run_draw(picture, number, (tn_timeline_kind)kind, y);
    return y + LINE_BETWEEN - LINE_GAP;
}

static double line_height(const tn_timeline *line) {
    double height = LINE_TOP;
    tn__line_lane lanes[TN__LINE_LANES_MOST];
    for (uint32_t r = 0; r < line->count; r++) {
        height += 6 + LINE_BETWEEN - LINE_GAP;
        for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++) {
            uint32_t count = tn__line_lanes(&line->ranks[r].runs[kind], lanes);
            if (count > 0) height += count * LINE_LANE + LINE_LIVE + LINE_GAP;
        }
    }
    return height + 10;
}

/* --- head --- */

/* Draws the time axis. Its labels are whole numbers of the largest unit that fits at least 20 times
 * into the time that is drawn; of nanoseconds if no unit does. */
static void line_axis(const line_picture *picture, double bottom) {
    static const struct {
        double seconds;
        const char *name;
    } units[] = {{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}};
    uint32_t u = 0;
    while (u < 3 && picture->longest < 20 * units[u].seconds) u++;
    char words[40];
    tn__svg_box box = {LINE_LEFT, LINE_RIGHT, LINE_TOP - 24, bottom - 20};
    double span = fmin(picture->longest / units[u].seconds, 9e15);
    box.right = LINE_LEFT + (LINE_RIGHT - LINE_LEFT) * floor(span) / fmax(span, 1);
    tn__svg_time_axis(picture->text, &box, 0, (int64_t)span);
    snprintf(words, sizeof words, "%s", units[u].name);
    tn__svg_words(picture->text, LINE_LEFT - 6, bottom - 5, "text-anchor=\"end\"", words);
}

static void line_legend(const line_picture *picture) {
    double x = LINE_LEFT, y = 58;
    for (int i = 0; i < TN__SPAN_PHASES + 2; i++) {
        bool phase = i < TN__SPAN_PHASES;
        int lane = i - TN__SPAN_PHASES + 1;
        const char *words = phase ? line_phases[i] : lane == TN__TRACK_CALL ? "calls" : "copies";
        tn__text_printf(picture->text, "<rect width=\"11\" height=\"11\" fill=\"%s\"",
                        phase ? line_phase_colours[i] : line_lane_colours[lane]);
        tn__svg_attribute(picture->text, "x", x);
        tn__svg_attribute(picture->text, "y", y - 9.5);
        tn__text_put(picture->text, "/>\n");
        tn__svg_words(picture->text, x + 16, y, "fill=\"#1b1f24\"", words);
        x += 40 + 6.3 * (double)strlen(words);
    }
}

/* Appends ", WHAT 1.234 ms" to `words`, as far as the buffer of `size` bytes allows. */
static void line_say(char *words, size_t size, const char *what, double seconds) {
    size_t used = strlen(words);
    snprintf(words + used, size - used, ", %s %.3f ms", what, 1e3 * seconds);
}

static void line_head(const line_picture *picture, double height) {
    tn__text *text = picture->text;
    char words[160];
    double start, measured = 0, predicted = 0;
    bool both[] = {tn__line_span(picture->line, TN_TIMELINE_PREDICTED, &start, &predicted),
                   tn__line_span(picture->line, TN_TIMELINE_MEASURED, &start, &measured)};
    tn__text_printf(text, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d ",
                    LINE_WIDTH);
    tn__svg_number(text, height);
    tn__text_put(text, "\" font-family=\"system-ui, Helvetica, Arial, sans-serif\" "
                       "font-size=\"10.5\" fill=\"#5b6470\">\n<title>");
    tn__text_xml(text, picture->line->input);
    tn__text_printf(text,
                    " - %u ranks</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                    picture->line->count);
    tn__svg_words(text, 12, 24, "font-size=\"16\" font-weight=\"600\" fill=\"#1b1f24\"",
                  picture->line->input);
    snprintf(words, sizeof words, "one step of %u ranks", picture->line->count);
    if (both[0]) line_say(words, sizeof words, "predicted", predicted);
    if (both[1]) line_say(words, sizeof words, "measured", measured);
    tn__svg_words(text, 12, 41, "font-size=\"12\"", words);
    line_legend(picture);
}

static line_picture line_begin(const tn_timeline *line, tn__text *text) {
    line_picture picture = {.line = line, .text = text, .most = 1};
    for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++) {
        double span;
        if (tn__line_span(line, (tn_timeline_kind)kind, &picture.origin[kind], &span))
            picture.longest = fmax(picture.longest, span);
        for (uint32_t r = 0; r < line->count; r++) {
            tn_timeline_sums sums = tn_timeline_measure(line, r, (tn_timeline_kind)kind);
            if (sums.peak > picture.most) picture.most = sums.peak;
        }
    }
    for (uint32_t r = 0; r < line->count; r++)
        if (line->ranks[r].planned > picture.most) picture.most = line->ranks[r].planned;
    picture.longest = fmax(picture.longest, 1e-9);
    return picture;
}

void tn__line_svg(const tn_timeline *line, tn__text *text) {
    line_picture picture = line_begin(line, text);
    double height = line_height(line) + 20, y = LINE_TOP;
    line_head(&picture, height);
    line_axis(&picture, height);
    for (uint32_t r = 0; r < line->count; r++) y = line_rank_draw(&picture, r, y);
    tn__text_put(text, "</svg>\n");
}
