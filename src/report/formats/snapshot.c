/* snapshot.c - writes a run as a memory snapshot, for PyTorch's viewer and `tenure report`.
 *
 * With a layout, all buffers are in one segment, the arena, at their offsets; banks follow each
 * other. Without a layout, as when a pool served the run, addresses are unknown. Each block is then
 * a segment of its own, as weights always are. The frames of a block's stack are its tensor and the
 * operator that requests it.
 *
 * Cost: O(events log events).
 */
#include "interop/snapshot/snapshot.h"
#include "report/format.h"

/* Returns the number of an event's block. Buffers have the first numbers, then tensors follow. */
static uint32_t snapshot_block(const tn_report *report, const tn_event *event) {
    return event->body != TN_NONE ? event->body : tn_problem_count(report->problem) + event->tensor;
}

static uint64_t snapshot_address(const tn_report *report, const tn_event *event) {
    uint64_t base = 0;
    if (report->layout == NULL || event->body == TN_NONE) return TN_SIZE_UNKNOWN;
    for (tn_bank_id bank = 0; bank < report->layout->bank[event->body]; bank++)
        base += report->layout->bank_peak[bank];
    return base + report->layout->offset[event->body];
}

static tn_snapshot_use snapshot_use(const tn_report *report, const tn_event *event) {
    tn__event_words words = tn__event_words_of(report, event);
    return (tn_snapshot_use){.frees = event->kind == TN_EVENT_FREE,
                             .block = snapshot_block(report, event),
                             .address = snapshot_address(report, event),
                             .size = event->bytes,
                             .stream = event->stream,
                             .line = event->step,
                             .at_s = event->start_s,
                             .name = words.tensor,
                             .kind = words.kind,
                             .op = words.op,
                             .type = words.type};
}

static tn_status snapshot_render(const tn_report *report, tn__text *text, tn_error *error) {
    uint64_t count, used = 0;
    const tn_event *events = tn_trace_events(report->trace, &count);
    if (report->problem == NULL)
        TN_FAIL(error, TN_E_INVALID, "a snapshot of a run needs a problem");
    if (tn_trace_dropped(report->trace) > 0)
        TN_FAIL(error, TN_E_INVALID,
                "%llu events had no room in the trace: the rest is not a whole run",
                (unsigned long long)tn_trace_dropped(report->trace));
    tn_snapshot_use *uses = tn__alloc_array(report->context, (size_t)count + 1, sizeof *uses);
    if (uses == NULL) return tn__no_memory(error, "a snapshot");
    for (uint64_t i = 0; i < count; i++)
        if (events[i].kind != TN_EVENT_STEP) uses[used++] = snapshot_use(report, &events[i]);
    tn_status status = tn__snapshot_render(
        uses, used, report->layout != NULL ? report->layout->peak : 0, text, error);
    tn__free(report->context, uses, ((size_t)count + 1) * sizeof *uses);
    return status;
}

const tn_report_format tn__report_format_snapshot = {
    .name = "snapshot",
    .suffix = ".pickle",
    .summary = "a run as a memory snapshot, for PyTorch's viewer",
    .of_run = true,
    .render = snapshot_render,
};
