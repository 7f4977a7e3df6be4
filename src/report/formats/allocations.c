/* allocations.c - writes the allocations and frees of a run in the format that `tenure replay`
 * reads.
 *
 * A block is named after its buffer, or after its tensor if it is not part of the problem, as
 * weights are. A name is in use at most once at a time. The format has no quoting, so commas and
 * newlines in names become underscores.
 *
 * Cost: O(events).
 */
#include "report/format.h"

static void allocations_field(tn__text *text, const char *word) {
    tn__text_put(text, ",");
    for (; *word != '\0'; word++) {
        bool ends = *word == ',' || (unsigned char)*word < 0x20;
        tn__text_add(text, ends ? "_" : word, 1);
    }
}

static void allocations_row(const tn_report *report, tn__text *text, const tn_event *event) {
    tn__event_words words = tn__event_words_of(report, event);
    bool frees = event->kind == TN_EVENT_FREE, of_body = event->body != TN_NONE;
    tn__text_printf(text, "%s,%c%u,", frees ? "free" : "alloc", of_body ? 'b' : 't',
                    of_body ? event->body : event->tensor);
    if (!frees) tn__words_integer(text, event->bytes);
    tn__text_printf(text, ",%u,%s", event->stream, !frees && !of_body ? "long" : "");
    allocations_field(text, frees ? "" : words.tensor);
    allocations_field(text, frees ? "" : words.kind);
    allocations_field(text, frees ? "" : words.type);
    tn__text_put(text, "\n");
}

static tn_status allocations_render(const tn_report *report, tn__text *text, tn_error *error) {
    uint64_t count;
    const tn_event *events = tn_trace_events(report->trace, &count);
    if (tn_trace_dropped(report->trace) > 0)
        TN_FAIL(error, TN_E_INVALID,
                "%llu events had no room in the trace: the rest is not a whole run",
                (unsigned long long)tn_trace_dropped(report->trace));
    tn__text_put(text, "action,id,size,stream,lifetime,name,kind,op\n");
    for (uint64_t i = 0; i < count; i++)
        if (events[i].kind != TN_EVENT_STEP) allocations_row(report, text, &events[i]);
    return TN_OK;
}

const tn_report_format tn__report_format_allocations = {
    .name = "allocations",
    .suffix = ".trace.csv",
    .summary = "the allocations and frees of a run, to replay on other pools",
    .of_run = true,
    .render = allocations_render,
};
