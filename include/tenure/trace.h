/* trace.h - records events of a run or of a simulation of a program.
 *
 *     tn_trace *trace;
 *     tn_error error;
 *     tn_event event = {.kind = TN_EVENT_STEP, .opcode = TN_APPLY, .op = TN_NONE,
 *                       .tensor = TN_NONE, .body = TN_NONE, .start_s = 1.5, .duration_s = 0.25};
 *     uint64_t count;
 *     if (tn_trace_create(NULL, 1000, &trace, &error) != TN_OK)
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     event.live[TN_KIND_ACTIVATION] = 4096;
 *     tn_trace_add(trace, &event);
 *     printf("%g s\n", tn_trace_events(trace, &count)[0].duration_s); // 0.25 s
 *     tn_trace_destroy(trace);
 *
 * Memory for events is allocated when the trace is created, and never while a program runs. Events
 * that do not fit are counted and dropped. Reports read only events: tn_report_write with a trace
 * and the suffix .trace.json.
 *
 * Units: bytes, seconds.
 * Threads: any number of threads may add at once; reading and clearing must wait for them.
 */
#ifndef TENURE_TRACE_H
#define TENURE_TRACE_H

#include <tenure/program.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tn_event_kind {
    TN_EVENT_STEP,  /* an instruction ran */
    TN_EVENT_ALLOC, /* a tensor, or the workspace of `op`, got memory */
    TN_EVENT_FREE,  /* it released that memory */
} tn_event_kind;

typedef struct tn_event {
    tn_event_kind kind;
    tn_opcode opcode;    /* of the instruction */
    uint32_t step;       /* its index in the program */
    uint32_t run;        /* number of the run, from 0 */
    uint32_t stream;     /* the stream that ran it */
    tn_op_id op;         /* APPLY, and the workspace of an operator; else TN_NONE */
    tn_tensor_id tensor; /* of PUT, GET, ..., ALLOC, FREE; else TN_NONE */
    tn_body_id body;   /* ALLOC, FREE: the buffer of the problem; STEP, and for weights: TN_NONE */
    double start_s;    /* on any monotonic clock */
    double duration_s; /* ALLOC, FREE: 0 */
    uint64_t bytes;    /* PUT, GET, ...: bytes moved; ALLOC, FREE: size of the block; else 0 */
    /* Bytes in use by kind. STEP: while it runs, including operands and workspace, as in the plan's
     * curve (tn_occupancy_live); ALLOC, FREE: after it. */
    uint64_t live[TN_KIND_COUNT];
} tn_event;

typedef struct tn_trace tn_trace;

/* Creates a trace.
 *
 * capacity  number of events; at least 1
 *
 * Errors: E_INVALID (capacity), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_trace_create(const tn_context *context, uint64_t capacity,
                                            tn_trace **trace, tn_error *error);
TN_API void tn_trace_destroy(tn_trace *trace); /* NULL is fine */
/* Adds a copy of the event. A NULL trace ignores it. Cost: O(1), no allocation. */
TN_API void tn_trace_add(tn_trace *trace, const tn_event *event);
/* The events, in the order of adding. */
TN_API const tn_event *tn_trace_events(const tn_trace *trace, uint64_t *count);
TN_API uint64_t tn_trace_dropped(const tn_trace *trace); /* events that had no room */
TN_API void tn_trace_clear(tn_trace *trace);             /* as after tn_trace_create */

/* Computes the plan's curve: the live bytes at each step, by kind. Each byte of a body (buffer)
 * counts once.
 *
 * live  out, [instructions of the program][kinds]
 *
 * Errors: E_NO_MEMORY. Cost: O(lives log lives + instructions). */
TN_API TN_CHECKED tn_status tn_occupancy_live(const tn_occupancy *occupancy,
                                              uint64_t (*live)[TN_KIND_COUNT], tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
