/* trace.c - writes a run for the trace viewers of Chrome and Perfetto: when each step ran on which
 * stream, and the live bytes of each kind.
 *
 * Times are whole nanoseconds since the first event. Start and end of a span are rounded in one
 * way, so spans that did not overlap in the run do not overlap in the file. There are two counters,
 * and each value of a counter is valid until its next value. "live bytes" is the plan's curve while
 * a step runs, and zero after the last step of a run. "block bytes" is the sum of the allocated
 * blocks after each allocation and free, including weights. Streams are threads with numbers from
 * 1, because some viewers use thread 0 themselves.
 *
 * Cost: O(events log events).
 *
 * Source: "Trace Event Format" (Google, 2016): phases X, C, M and i.
 */
#include <math.h>
#include <stdio.h>

#include "report/format.h"

#define TRACE_PROCESS "\"pid\":1"

typedef struct trace_writer {
    const tn_report *report;
    tn__text *text;
    const tn_event *events;
    uint64_t count;
    double origin_s;
    bool kinds[2][TN_KIND_COUNT]; /* [counter] which kinds occur in each of the two counters */
    uint32_t *streams;            /* [stream_count] numbers of the streams in rising order */
    size_t stream_count, stream_room;
    const char *comma;
} trace_writer;

/* --- the streams and the kinds of tensors that occur in the run --- */

static int trace_stream_order(const void *a, const void *b) {
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static tn_status trace_survey(trace_writer *writer, tn_error *error) {
    for (uint64_t i = 0; i < writer->count; i++) {
        const tn_event *event = &writer->events[i];
        if (i == 0 || event->start_s < writer->origin_s) writer->origin_s = event->start_s;
        for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++)
            writer->kinds[event->kind != TN_EVENT_STEP][kind] |= event->live[kind] > 0;
        size_t last = writer->stream_count;
        if (last > 0 && writer->streams[last - 1] == event->stream) continue;
        if (!tn__reserve(writer->report->context, &writer->streams, &writer->stream_room, last + 1,
                         sizeof *writer->streams))
            return tn__no_memory(error, "the streams of a trace");
        writer->streams[writer->stream_count++] = event->stream;
    }
    size_t kept = 0;
    if (writer->stream_count > 0)
        qsort(writer->streams, writer->stream_count, sizeof *writer->streams, trace_stream_order);
    for (size_t i = 0; i < writer->stream_count; i++)
        if (kept == 0 || writer->streams[kept - 1] != writer->streams[i])
            writer->streams[kept++] = writer->streams[i];
    writer->stream_count = kept;
    return TN_OK;
}

/* --- rows --- */

static uint64_t trace_ns(const trace_writer *writer, double at_s) {
    double ns = (at_s - writer->origin_s) * 1e9;
    return ns > 0 && ns < 9e18 ? (uint64_t)llround(ns) : 0;
}

/* Writes a time as microseconds with three decimals, with a point in every locale. */
static void trace_time(tn__text *text, const char *key, uint64_t ns) {
    tn__text_printf(text, ",\"%s\":%llu.%03u", key, (unsigned long long)(ns / 1000),
                    (unsigned)(ns % 1000));
}

static void trace_begin(trace_writer *writer, const char *phase) {
    tn__text_printf(writer->text, "%s\n{\"ph\":\"%s\"," TRACE_PROCESS, writer->comma, phase);
    writer->comma = ",";
}

static void trace_named(trace_writer *writer, const char *what, uint32_t stream, const char *name) {
    trace_begin(writer, "M");
    tn__text_printf(writer->text, ",\"tid\":%u,\"name\":\"%s\",\"args\":{\"name\":", stream + 1,
                    what);
    tn__text_json(writer->text, name);
    tn__text_put(writer->text, "}}");
}

static void trace_headings(trace_writer *writer) {
    trace_named(writer, "process_name", 0, writer->report->input);
    for (size_t i = 0; i < writer->stream_count; i++) {
        char name[40];
        uint32_t stream = writer->streams[i];
        snprintf(name, sizeof name, stream == 0 ? "compute" : "stream %u", stream);
        trace_named(writer, "thread_name", stream, name);
    }
}

static void trace_counter(trace_writer *writer, uint64_t ns, bool blocks, const uint64_t *live) {
    const char *comma = "";
    trace_begin(writer, "C");
    trace_time(writer->text, "ts", ns);
    tn__text_printf(writer->text, ",\"name\":\"%s bytes\",\"args\":{", blocks ? "block" : "live");
    for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++) {
        if (!writer->kinds[blocks][kind]) continue;
        tn__text_printf(writer->text, "%s\"%s\":", comma, tn__kind_text(kind));
        tn__words_integer(writer->text, live[kind]);
        comma = ",";
    }
    tn__text_put(writer->text, "}}");
}

static void trace_arguments(trace_writer *writer, const tn_event *event) {
    tn__text *text = writer->text;
    tn__text_printf(text, ",\"args\":{\"step\":%u,\"run\":%u", event->step, event->run);
    if (event->bytes > 0) {
        tn__text_put(text, ",\"bytes\":");
        tn__words_integer(text, event->bytes);
    }
    tn__event_words words = tn__event_words_of(writer->report, event);
    if (words.kind[0] != '\0') tn__text_printf(text, ",\"kind\":\"%s\"", words.kind);
    if (words.op[0] != '\0') {
        tn__text_put(text, ",\"op\":");
        tn__text_json(text, words.op);
    }
    tn__text_put(text, "}}");
}

static void trace_event(trace_writer *writer, const tn_event *event) {
    uint64_t start = trace_ns(writer, event->start_s);
    uint64_t end = trace_ns(writer, event->start_s + event->duration_s);
    tn__event_words words = tn__event_words_of(writer->report, event);
    bool step = event->kind == TN_EVENT_STEP;
    trace_begin(writer, step ? "X" : "i");
    trace_time(writer->text, "ts", start);
    if (step)
        trace_time(writer->text, "dur", end - start);
    else
        tn__text_put(writer->text, ",\"s\":\"t\"");
    tn__text_printf(writer->text, ",\"tid\":%u,\"name\":", event->stream + 1);
    tn__text_json(writer->text, words.name);
    tn__text_put(writer->text, ",\"cat\":");
    tn__text_json(writer->text, words.category);
    trace_arguments(writer, event);
    trace_counter(writer, start, !step, event->live);
}

/* Returns whether event i is the last of its run. */
static bool trace_ends_run(const trace_writer *writer, uint64_t i) {
    return i + 1 == writer->count || writer->events[i + 1].run != writer->events[i].run;
}

static tn_status trace_rows(trace_writer *writer, tn_error *error) {
    static const uint64_t nothing[TN_KIND_COUNT];
    uint64_t end = 0;
    bool steps = false; /* whether the current run had any steps */
    TN_TRY(trace_survey(writer, error));
    tn__text_put(writer->text, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
    trace_headings(writer);
    for (uint64_t i = 0; i < writer->count; i++) {
        const tn_event *event = &writer->events[i];
        trace_event(writer, event);
        uint64_t ends = trace_ns(writer, event->start_s + event->duration_s);
        if (ends > end) end = ends;
        steps |= event->kind == TN_EVENT_STEP;
        if (!trace_ends_run(writer, i)) continue;
        if (steps) trace_counter(writer, end, false, nothing);
        steps = false;
    }
    tn__text_printf(writer->text, "\n],\"otherData\":{\"format\":\"tenure-trace\",\"version\":1,");
    tn__text_printf(writer->text, "\"dropped\":");
    tn__words_integer(writer->text, tn_trace_dropped(writer->report->trace));
    tn__text_put(writer->text, "}}\n");
    return TN_OK;
}

static tn_status trace_render(const tn_report *report, tn__text *text, tn_error *error) {
    trace_writer writer = {.report = report, .text = text, .comma = ""};
    writer.events = tn_trace_events(report->trace, &writer.count);
    tn_status status = trace_rows(&writer, error);
    tn__free(report->context, writer.streams, writer.stream_room * sizeof *writer.streams);
    return status;
}

const tn_report_format tn__report_format_trace = {
    .name = "trace",
    .suffix = ".trace.json",
    .summary = "a run on a time line, for the trace viewers of Chrome and Perfetto",
    .of_run = true,
    .render = trace_render,
};
