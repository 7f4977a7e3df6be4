/* Events of runs: none is lost while there is room, none is invented. */
#include <pthread.h>

#include <tenure/program.h>

#include "../support.h"

static tn_error failure;

static void events_come_back_in_the_order_of_adding(void **state) {
    (void)state;
    tn_trace *trace;
    uint64_t count = 77;
    assert_int_equal(tn_trace_create(NULL, 10, &trace, &failure), TN_OK);
    tn_trace_events(trace, &count);
    assert_int_equal(count, 0);
    for (uint32_t i = 0; i < 13; i++) {
        tn_event event = {.kind = TN_EVENT_ALLOC, .step = i, .live = {[TN_KIND_OUTPUT] = i + 1}};
        tn_trace_add(trace, &event);
    }
    const tn_event *events = tn_trace_events(trace, &count);
    assert_int_equal(count, 10);
    assert_int_equal(tn_trace_dropped(trace), 3);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(events[i].step, i);
        assert_int_equal(events[i].live[TN_KIND_OUTPUT], i + 1);
        assert_int_equal(events[i].kind, TN_EVENT_ALLOC);
    }
    tn_trace_clear(trace);
    tn_trace_events(trace, &count);
    assert_int_equal(count, 0);
    assert_int_equal(tn_trace_dropped(trace), 0);
    tn_trace_destroy(trace);
}

static void nobody_listens_to_no_trace(void **state) {
    (void)state;
    tn_event event = {0};
    tn_trace *trace = NULL;
    tn_trace_add(NULL, &event);
    tn_trace_destroy(NULL);
    assert_int_equal(tn_trace_create(NULL, 0, &trace, &failure), TN_E_INVALID);
    assert_int_equal(tn_trace_create(NULL, UINT64_MAX / 2, &trace, &failure), TN_E_NO_MEMORY);
    assert_null(trace);
}

static void adding_allocates_nothing(void **state) {
    (void)state;
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t fail_at = 1; status == TN_E_NO_MEMORY; fail_at++) {
        faulty memory = {.fail_at = fail_at};
        tn_context context = faulty_context(&memory);
        tn_trace *trace = NULL;
        status = tn_trace_create(&context, 100, &trace, &failure);
        uint64_t requests = memory.requests;
        for (int i = 0; i < 200; i++) tn_trace_add(trace, &(tn_event){0});
        assert_int_equal(memory.requests, requests);
        tn_trace_destroy(trace);
        assert_int_equal(memory.held, 0);
    }
    assert_int_equal(status, TN_OK);
}

enum { THREADS = 4, EVENTS = 2000 };

typedef struct adder {
    tn_trace *trace;
    uint32_t stream;
} adder;

static void *add_events(void *self) {
    const adder *by = self;
    for (uint32_t i = 0; i < EVENTS; i++)
        tn_trace_add(by->trace, &(tn_event){.stream = by->stream, .step = i});
    return NULL;
}

static void streams_add_side_by_side(void **state) {
    (void)state;
    pthread_t threads[THREADS];
    adder adders[THREADS];
    uint32_t next[THREADS] = {0};
    uint64_t count;
    tn_trace *trace;
    assert_int_equal(tn_trace_create(NULL, (uint64_t)THREADS * EVENTS, &trace, &failure), TN_OK);
    for (uint32_t i = 0; i < THREADS; i++) {
        adders[i] = (adder){trace, i};
        assert_int_equal(pthread_create(&threads[i], NULL, add_events, &adders[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    const tn_event *events = tn_trace_events(trace, &count);
    assert_int_equal(count, THREADS * EVENTS);
    for (uint64_t i = 0; i < count; i++)
        assert_int_equal(events[i].step, next[events[i].stream]++); /* each in its own order */
    assert_int_equal(tn_trace_dropped(trace), 0);
    tn_trace_destroy(trace);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(events_come_back_in_the_order_of_adding),
        cmocka_unit_test(nobody_listens_to_no_trace),
        cmocka_unit_test(adding_allocates_nothing),
        cmocka_unit_test(streams_add_side_by_side),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
