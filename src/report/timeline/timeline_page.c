/* timeline_page.c - writes a timeline of several ranks as JSON, and as a page that needs no
 * network.
 *
 * The data is in columns, like the data of a plan. Times are whole nanoseconds since the first rank
 * began with a run of that kind. The page shows the data of the JSON and nothing else.
 */
#include <math.h>

#include "report/html.h"
#include "report/timeline/timeline.h"

#define PAGE_FILE(name)                                                                            \
    extern const unsigned char tn__##name[];                                                       \
    extern const size_t tn__##name##_size;
PAGE_FILE(ranks_html)
PAGE_FILE(ranks_css)
PAGE_FILE(ranks_js)

/* --- JSON --- */

typedef struct page_run {
    const tn__line_run *run;
    double origin_s;
} page_run;

static uint64_t page_ns(double seconds) {
    double ns = seconds * 1e9;
    return ns > 0 ? (ns < 9e15 ? (uint64_t)llround(ns) : UINT64_C(9000000000000000)) : 0;
}

/* Start and end of a span are rounded in one way, so spans that do not overlap in the run do not
 * overlap after rounding. */
static uint64_t page_start(const page_run *it, const tn__timeline_span *span) {
    return page_ns(span->start_s - it->origin_s);
}
static uint64_t page_duration(const page_run *it, const tn__timeline_span *span) {
    return page_ns(span->start_s + span->duration_s - it->origin_s) - page_start(it, span);
}
static uint64_t page_bytes(const page_run *it, const tn__timeline_span *span) {
    (void)it;
    return span->bytes;
}
static uint64_t page_live(const page_run *it, const tn__timeline_span *span) {
    (void)it;
    return span->live;
}
static uint64_t page_lane(const page_run *it, const tn__timeline_span *span) {
    (void)it;
    return span->lane;
}
static uint64_t page_stream(const page_run *it, const tn__timeline_span *span) {
    (void)it;
    return span->stream;
}
static uint64_t page_phase(const page_run *it, const tn__timeline_span *span) {
    (void)it;
    return span->phase;
}

static void page_column(tn__text *text, const page_run *it, const char *name,
                        uint64_t (*get)(const page_run *it, const tn__timeline_span *span)) {
    tn__text_printf(text, ",\n\"%s\":[", name);
    for (size_t i = 0; i < it->run->count; i++) {
        if (i > 0) tn__text_put(text, ",");
        tn__words_integer(text, get(it, &it->run->spans[i]));
    }
    tn__text_put(text, "]");
}

static void page_words(tn__text *text, const page_run *it, const char *name, bool types) {
    tn__text_printf(text, ",\n\"%s\":[", name);
    for (size_t i = 0; i < it->run->count; i++) {
        const tn__timeline_span *span = &it->run->spans[i];
        if (i > 0) tn__text_put(text, ",");
        tn__text_json(text, tn__span_text(it->run, types ? span->type : span->name));
    }
    tn__text_put(text, "]");
}

static void page_seconds(tn__text *text, const char *name, double seconds) {
    tn__text_printf(text, ",\"%s\":", name);
    tn__words_number(text, seconds);
}

static void page_run_json(const tn_timeline *line, uint32_t rank, tn_timeline_kind kind,
                          tn__text *text) {
    page_run it = {.run = &line->ranks[rank].runs[kind]};
    double span_s;
    tn__text_printf(text, ",\n\"%s\":", tn__line_kind(kind));
    if (it.run->count == 0 || !tn__line_span(line, kind, &it.origin_s, &span_s)) {
        tn__text_put(text, "null");
        return;
    }
    tn_timeline_sums sums = tn_timeline_measure(line, rank, kind);
    tn__text_printf(text, "{\"run\":%u,\"count\":%zu,\"peak\":", it.run->number, it.run->count);
    tn__words_integer(text, sums.peak);
    tn__text_printf(text, ",\"calls\":%u,\"call_bytes\":", sums.talks);
    tn__words_integer(text, sums.sent);
    page_seconds(text, "seconds", sums.span_s);
    page_seconds(text, "compute_seconds", sums.compute_s);
    page_seconds(text, "talk_seconds", sums.talk_s);
    page_seconds(text, "hidden_seconds", sums.hidden_s);
    page_seconds(text, "idle_seconds", sums.idle_s);
    page_column(text, &it, "start_ns", page_start);
    page_column(text, &it, "duration_ns", page_duration);
    page_column(text, &it, "lane", page_lane);
    page_column(text, &it, "stream", page_stream);
    page_column(text, &it, "phase", page_phase);
    page_column(text, &it, "bytes", page_bytes);
    page_column(text, &it, "live", page_live);
    page_words(text, &it, "name", false);
    page_words(text, &it, "type", true);
    tn__text_put(text, "}");
}

void tn__line_json(const tn_timeline *line, tn__text *text) {
    tn__text_put(text, "{\"format\":\"tenure-ranks\",\"version\":1,\"input\":");
    tn__text_json(text, line->input);
    tn__text_put(text, ",\n\"lanes\":[");
    for (int lane = 0; lane < TN__TRACK_COUNT; lane++)
        tn__text_printf(text, "%s\"%s\"", lane > 0 ? "," : "", tn__track_name((tn__track)lane));
    tn__text_put(text, "],\"phases\":[\"forward\",\"backward\",\"update\"],\n\"ranks\":[");
    for (uint32_t r = 0; r < line->count; r++) {
        tn__text_printf(text, "%s\n{\"rank\":%u,\"label\":", r > 0 ? "," : "", r);
        tn__text_json(text, line->ranks[r].label);
        tn__text_put(text, ",\"planned_peak\":");
        tn__words_integer(text, line->ranks[r].planned);
        for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++)
            page_run_json(line, r, (tn_timeline_kind)kind, text);
        tn__text_put(text, "}");
    }
    tn__text_put(text, "]}\n");
}

/* --- filling the page --- */

static void page_file(tn__text *text, const unsigned char *bytes, size_t size) {
    tn__text_add(text, (const char *)bytes, size);
}

/* Writes the content security policy: nothing may be loaded, and no script but that of the page may
 * run. */
static void page_policy(tn__text *text) {
    char source[TN__SHA256_SOURCE_MAX];
    tn__text_printf(text,
                    "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
                    "style-src 'unsafe-inline'; script-src '%s'",
                    tn__sha256_source(tn__ranks_js, tn__ranks_js_size, source));
}

typedef struct page_filled {
    const tn_timeline *line;
} page_filled;

static void page_fill(void *self, const char *name, size_t length, tn__text *text) {
    const tn_timeline *line = ((const page_filled *)self)->line;
    if (tn__html_is(name, length, "title")) tn__text_xml(text, line->input);
    if (tn__html_is(name, length, "style")) page_file(text, tn__ranks_css, tn__ranks_css_size);
    if (tn__html_is(name, length, "policy")) page_policy(text);
    if (tn__html_is(name, length, "script")) page_file(text, tn__ranks_js, tn__ranks_js_size);
    if (tn__html_is(name, length, "data")) tn__line_json(line, text);
}

void tn__line_page(const tn_timeline *line, tn__text *text) {
    page_filled filled = {line};
    tn__html_template(text, tn__ranks_html, page_fill, &filled);
}
