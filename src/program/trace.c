/* trace.c - records the events of a run in a preallocated array.
 *
 * Each add takes the next index with one atomic step and fills only that place, so streams need
 * no lock. A reader comes after the writers: the run has ended and its threads have been joined.
 * That join orders the two, not the counter.
 */
#include <tenure/program.h>

#include "base/base.h"

#include <stdatomic.h>

struct tn_trace {
    tn_context context;
    tn_event *events; /* [capacity] the events, in the order in which they were added */
    uint64_t capacity;
    /* number of events added; it may exceed the capacity, then later events were dropped */
    _Atomic uint64_t added;
};

tn_status tn_trace_create(const tn_context *given, uint64_t capacity, tn_trace **trace,
                          tn_error *error) {
    if (capacity == 0) TN_FAIL(error, TN_E_INVALID, "a trace has room for at least one event");
    tn_context context = tn__context(given);
    tn_trace *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a trace");
    made->context = context;
    made->capacity = capacity;
    /* the array is zeroed so that its pages are mapped before the run begins */
    made->events = tn__alloc_array(&context, capacity, sizeof *made->events);
    if (made->events == NULL) {
        tn__free(&context, made, sizeof *made);
        return tn__no_memory(error, "the events of a trace");
    }
    *trace = made;
    return TN_OK;
}

void tn_trace_destroy(tn_trace *trace) {
    if (trace == NULL) return;
    tn_context context = trace->context;
    tn__free(&context, trace->events, trace->capacity * sizeof *trace->events);
    tn__free(&context, trace, sizeof *trace);
}

void tn_trace_add(tn_trace *trace, const tn_event *event) {
    if (trace == NULL) return;
    uint64_t index = atomic_fetch_add_explicit(&trace->added, 1, memory_order_relaxed);
    if (index < trace->capacity) trace->events[index] = *event;
}

static uint64_t trace_added(const tn_trace *trace) {
    return atomic_load_explicit(&trace->added, memory_order_relaxed);
}

const tn_event *tn_trace_events(const tn_trace *trace, uint64_t *count) {
    uint64_t added = trace_added(trace);
    *count = added < trace->capacity ? added : trace->capacity;
    return trace->events;
}

uint64_t tn_trace_dropped(const tn_trace *trace) {
    uint64_t added = trace_added(trace);
    return added > trace->capacity ? added - trace->capacity : 0;
}

void tn_trace_clear(tn_trace *trace) {
    atomic_store_explicit(&trace->added, 0, memory_order_relaxed);
}
