/* Traces played on every device that is here: what is told of them against a count of the events;
 * memory that is out, calls that fail, bytes that are lost; and streams that are late. */
#include <tenure/snapshot.h>

#include "base/base.h"
#include "standin.h"
#include "support.h"

#define CHECK(call)                                                                                \
    do {                                                                                           \
        tn_error check_error = {0};                                                                \
        tn_status check_status = (call);                                                           \
        if (check_status != TN_OK) fail_msg("%s: %s\n", #call, check_error.message);               \
    } while (0)
#define E &check_error /* the error of the CHECK that it stands in */

enum { EVENTS_MAX = 4000, LIVE = 24 };

typedef struct run { /* a trace, and what is known of it */
    tn_pool_event events[EVENTS_MAX];
    uint64_t count, live, peak;
    uint32_t blocks, streams;
} run;

/* Blocks of all sizes that come and go; some stay, some are freed on another stream. */
static tn_pool_trace *random_run(run *made, uint64_t seed, uint64_t count, uint32_t streams) {
    static const tn_pool_label none = {"", "", ""};
    tn__random random = {seed};
    uint32_t held[LIVE], holds = 0;
    uint64_t size[EVENTS_MAX];
    tn_pool_trace *trace;
    memset(made, 0, sizeof *made);
    made->streams = streams;
    while (made->count < count) {
        tn_pool_event *event = &made->events[made->count++];
        uint32_t stream = 1 + 7000000u * (uint32_t)tn__random_below(&random, streams);
        if (holds == LIVE || (holds > 0 && tn__random_below(&random, 5) < 2)) {
            uint32_t at = (uint32_t)tn__random_below(&random, holds);
            *event = (tn_pool_event){.frees = true, .block = held[at], .stream = stream};
            made->live -= size[held[at]];
            held[at] = held[--holds];
            continue;
        }
        uint64_t bytes = tn__random_below(&random, tn__random_below(&random, 3) ? 40 : 20000);
        *event = (tn_pool_event){.size = bytes, .block = made->blocks, .stream = stream};
        held[holds++] = made->blocks;
        size[made->blocks++] = bytes;
        made->live += bytes;
        if (made->live > made->peak) made->peak = made->live;
    }
    CHECK(tn_pool_trace_create(made->events, made->count, &none, 1, NULL, &trace, E));
    return trace;
}

static tn_status open_device(const char *name, uint64_t capacity, double link, tn_device **device,
                             tn_error *error) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    options.device = name;
    options.capacity = capacity;
    options.link_bytes_per_s = link;
    *device = NULL;
    return tn_device_create(&options, device, error);
}

static tn_status play_by(tn_device *device, const tn_pool_trace *trace, const char *pool,
                         uint64_t capacity, tn_play_answer *answer, tn_error *error) {
    tn_play_options options = TN_PLAY_OPTIONS_INIT;
    tn_pool_options asked = TN_POOL_OPTIONS_INIT;
    asked.pool = pool;
    asked.capacity = capacity;
    options.rounds = 2;
    if (pool != NULL) options.pool = &asked;
    return tn_play(device, trace, &options, answer, error);
}

static uint64_t sized_blocks(const run *of) {
    uint64_t count = 0;
    for (uint64_t i = 0; i < of->count; i++)
        count += !of->events[i].frees && of->events[i].size > 0;
    return count;
}

/* By the device itself, and by each pool that needs no plan. */
static void expect_played(tn_device *device, const run *of, const tn_pool_trace *trace) {
    tn_device_usage before, after;
    tn_play_answer answer;
    for (uint32_t p = 0; p <= tn_pool_count(); p++) {
        const char *pool = p < tn_pool_count() ? tn_pool_name(p) : NULL;
        if (pool != NULL && strcmp(pool, "planned") == 0) continue;
        tn_device_measure(device, &before);
        tn_error error = {0};
        if (play_by(device, trace, pool, 0, &answer, &error) != TN_OK)
            fail_msg("%s, %s, %u streams: %s\n", tn_device_limits_of(device).name, pool,
                     of->streams, error.message);
        tn_device_measure(device, &after);
        if (!answer.fits) fail_msg("%s: %s\n", pool, answer.failure.message);
        assert_int_equal(answer.marked, sized_blocks(of));
        assert_int_equal(answer.streams, of->streams);
        assert_int_equal(answer.rounds, 2);
        assert_true(answer.request_s > 0);
        assert_int_equal(after.allocated, before.allocated);
        assert_true(after.put_bytes > before.put_bytes && after.get_bytes > before.get_bytes);
        bool is_apart = pool == NULL || of->streams == 1; /* nobody has bytes of somebody else */
        if (pool == NULL) assert_int_equal(answer.taken, of->peak);
        if (pool != NULL) assert_int_equal(after.alloc_count, before.alloc_count + 1);
        if (pool != NULL) assert_true(answer.taken >= of->peak);
        if (is_apart) assert_int_equal(answer.waits, 0);
        if (pool != NULL && strcmp(pool, "best-fit") == 0 && !is_apart)
            assert_true(answer.waits > 0);
    }
}

static void runs_are_played_on_every_device(void **state) {
    static run of;
    (void)state;
    for (uint32_t d = 0; d < tn_device_count(); d++) {
        tn_device *device;
        tn_error error = {0};
        if (open_device(tn_device_name(d), 0, 0, &device, &error) == TN_E_UNSUPPORTED) {
            print_message("SKIP: %s: %s\n", tn_device_name(d), error.message);
            continue;
        }
        assert_non_null(device);
        for (uint64_t seed = 1; seed <= 3; seed++) {
            tn_pool_trace *trace = random_run(&of, seed, 400, (uint32_t)seed);
            expect_played(device, &of, trace);
            tn_pool_trace_destroy(trace);
        }
        tn_device_destroy(device);
    }
}

/* On a link where a mark takes a millisecond, what is read before a free is late by far when the
 * next one writes there, each way for itself: only who waits finds what is right. */
static void late_streams_are_waited_for(void **state) {
    static const tn_pool_label none = {"", "", ""};
    enum { TURNS = 12 };
    tn_pool_event events[4 * TURNS];
    tn_pool_trace *trace;
    tn_device *device;
    tn_play_answer answer;
    uint32_t block = 0, count = 0;
    (void)state;
    for (uint32_t i = 0; i < TURNS; i++) { /* two blocks of one stream, then two of the other */
        for (uint32_t b = 0; b < 2; b++)
            events[count++] = (tn_pool_event){.size = 64, .block = block++, .stream = i % 2};
        for (uint32_t b = 2; b > 0; b--)
            events[count++] =
                (tn_pool_event){.frees = true, .block = block - b, .stream = (i + (b == 1)) % 2};
    }
    CHECK(tn_pool_trace_create(events, count, &none, 1, NULL, &trace, E));
    CHECK(open_device("host", 0, 8000, &device, E));
    CHECK(play_by(device, trace, "best-fit", 0, &answer, E));
    assert_true(answer.fits && answer.waits >= TURNS - 1);
    assert_int_equal(answer.taken, 4096);
    tn_device_destroy(device);
    tn_pool_trace_destroy(trace);
}

static void memory_that_does_not_fit_is_told(void **state) {
    static run of;
    tn_pool_trace *trace = random_run(&of, 5, 400, 2);
    tn_play_answer answer;
    tn_device *device;
    (void)state;
    CHECK(open_device("host", of.peak, 0, &device, E));
    CHECK(play_by(device, trace, NULL, 0, &answer, E)); /* to the byte */
    assert_true(answer.fits);
    CHECK(play_by(device, trace, "buddy", 0, &answer, E)); /* which takes more */
    assert_false(answer.fits);
    assert_int_equal(answer.failure.status, TN_E_EXHAUSTED);
    assert_non_null(strstr(answer.failure.message, "wanted of device host, but only"));
    CHECK(play_by(device, trace, "best-fit", of.peak / 2, &answer, E));
    assert_false(answer.fits);
    assert_non_null(strstr(answer.failure.message, "do not fit"));
    assert_non_null(strstr(answer.failure.where, "event "));
    tn_device_destroy(device);
    CHECK(open_device("host", of.peak - 1, 0, &device, E));
    CHECK(play_by(device, trace, NULL, 0, &answer, E));
    assert_false(answer.fits);
    tn_device_destroy(device);
    CHECK(open_device("cuda", 0, 0, &device, E));
    standin_fail("cudaMalloc", 3, 2); /* what the device itself says */
    CHECK(play_by(device, trace, NULL, 0, &answer, E));
    assert_false(answer.fits);
    assert_non_null(strstr(answer.failure.message, "cudaErrorMemoryAllocation"));
    standin_reset();
    tn_device_destroy(device);
    tn_pool_trace_destroy(trace);
    assert_int_equal(standin_used(0), 0);
}

static void what_fails_is_an_error_and_leaves_nothing(void **state) {
    static const char *const functions[] = {"cudaMalloc",
                                            "cudaMemcpyAsync",
                                            "cudaStreamCreateWithFlags",
                                            "cudaEventCreateWithFlags",
                                            "cudaEventRecord",
                                            "cudaStreamWaitEvent",
                                            "cudaEventSynchronize",
                                            "cudaStreamSynchronize"};
    static run of;
    (void)state;
    tn_pool_trace *trace = random_run(&of, 9, 60, 3);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        for (unsigned nth = 1; nth <= 40; nth += 3) {
            for (uint32_t own = 0; own < 2; own++) {
                tn_play_answer answer = {.marked = 77};
                tn_device *device;
                tn_error error = {0};
                CHECK(open_device("cuda", 0, 0, &device, E));
                standin_fail(functions[f], nth, 46);
                tn_status status =
                    play_by(device, trace, own ? NULL : "best-fit", 0, &answer, &error);
                standin_reset();
                if (status != TN_OK) assert_true(error.message[0] != '\0' && answer.marked == 77);
                tn_device_destroy(device);
                assert_int_equal(standin_used(0), 0);
                assert_int_equal(standin_live(), 0);
            }
        }
    }
    tn_pool_trace_destroy(trace);
}

/* A device that leaves out one copy: the only one to notice is who reads back. */
static void bytes_that_are_lost_are_found(void **state) {
    static run of;
    (void)state;
    tn_pool_trace *trace = random_run(&of, 4, 100, 2);
    tn_play_answer answer;
    tn_device *device;
    tn_error error = {0};
    CHECK(open_device("cuda", 0, 0, &device, E));
    standin_fail("copy", 12, 2); /* the first is the zeroes of the range */
    assert_int_equal(play_by(device, trace, "bfc", 0, &answer, &error), TN_E_INTERNAL);
    assert_non_null(strstr(error.message, "1 of "));
    standin_reset();
    CHECK(play_by(device, trace, "bfc", 0, &answer, E));
    tn_device_destroy(device);
    tn_pool_trace_destroy(trace);
}

static void memory_of_the_host_fails_in_turn(void **state) {
    static run of;
    (void)state;
    tn_pool_trace *trace = random_run(&of, 8, 120, 2);
    tn_device *device;
    uint64_t nth = 0;
    CHECK(open_device("host", 0, 0, &device, E));
    for (bool ends = false; !ends;) {
        faulty host = {.fail_at = ++nth};
        tn_context context = faulty_context(&host);
        tn_play_options options = TN_PLAY_OPTIONS_INIT;
        tn_pool_options pool = TN_POOL_OPTIONS_INIT;
        tn_play_answer answer;
        tn_error error = {0};
        options.context = &context;
        options.pool = &pool;
        options.rounds = 1;
        tn_status status = tn_play(device, trace, &options, &answer, &error);
        ends = host.requests < nth;
        if (status != TN_OK) assert_int_equal(status, TN_E_NO_MEMORY);
        if (ends) assert_true(status == TN_OK && answer.fits);
        assert_int_equal(host.held, 0);
    }
    assert_true(nth > 5);
    tn_device_destroy(device);
    tn_pool_trace_destroy(trace);
}

static void what_cannot_be_played_is_refused(void **state) {
    enum { MANY = TN_PLAY_STREAMS_MAX + 1 };
    static const tn_pool_label none = {"", "", ""};
    static tn_pool_event events[MANY];
    tn_pool_trace *trace;
    tn_device *device;
    tn_play_answer answer;
    tn_error error = {0};
    (void)state;
    for (uint32_t i = 0; i < MANY; i++) events[i] = (tn_pool_event){.block = i, .stream = MANY - i};
    CHECK(open_device("host", 0, 0, &device, E));
    CHECK(tn_pool_trace_create(events, MANY, &none, 1, NULL, &trace, E));
    assert_int_equal(play_by(device, trace, NULL, 0, &answer, &error), TN_E_INVALID);
    assert_non_null(strstr(error.message, "more than 1024 streams"));
    tn_pool_trace_destroy(trace);
    CHECK(tn_pool_trace_create(events, 2, &none, 1, NULL, &trace, E)); /* of 0 bytes each */
    assert_int_equal(play_by(device, trace, "cachin", 0, &answer, &error), TN_E_UNKNOWN);
    CHECK(play_by(device, trace, "caching", 0, &answer, E));
    assert_true(answer.fits && answer.marked == 0);
    tn_pool_trace_destroy(trace);
    CHECK(tn_pool_trace_create(events, 0, &none, 1, NULL, &trace, E));
    CHECK(play_by(device, trace, "bfc", 0, &answer, E));
    assert_true(answer.fits && answer.streams == 0);
    tn_pool_trace_destroy(trace);
    tn_device_destroy(device);
}

int main(void) {
    setenv("TENURE_CUDART", TENURE_STANDIN, 1);
    const struct CMUnitTest all[] = {
        cmocka_unit_test(runs_are_played_on_every_device),
        cmocka_unit_test(late_streams_are_waited_for),
        cmocka_unit_test(memory_that_does_not_fit_is_told),
        cmocka_unit_test(what_fails_is_an_error_and_leaves_nothing),
        cmocka_unit_test(bytes_that_are_lost_are_found),
        cmocka_unit_test(memory_of_the_host_fails_in_turn),
        cmocka_unit_test(what_cannot_be_played_is_refused),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
