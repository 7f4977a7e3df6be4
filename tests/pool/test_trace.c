/* test_trace.c - traces as they are read, what is refused and where, and replays. */
#include "../support.h"

#include <tenure/pool.h>

#include "base/base.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

static tn_status load(const char *text, tn_pool_trace **trace) {
    return tn_pool_trace_load_memory("t.csv", text, strlen(text), NULL, trace, &failure);
}

static void columns_may_come_in_any_order(void **state) {
    (void)state;
    tn_pool_trace *trace;
    uint64_t count;
    assert_ok(load("kind,SIZE,comment,id,name,action,stream,lifetime,alignment,op\r\n"
                   "weight,4096,x,a,conv1.w,alloc,3,long,256,conv1\r\n"
                   "\r\n"
                   ",17,,b,,allocate,,short,,\r\n"
                   ",,,a,,free,3,,,\n"
                   "weight,1,,a,conv1.w,alloc,,,,conv1",
                   &trace));
    const tn_pool_event *events = tn_pool_trace_events(trace, &count);
    assert_int_equal(count, 4);
    assert_int_equal(tn_pool_trace_block_count(trace), 3);
    assert_int_equal(events[0].size, 4096);
    assert_int_equal(events[0].alignment, 256);
    assert_int_equal(events[0].stream, 3);
    assert_int_equal(events[0].flags, TN_POOL_LONG_LIVED);
    const tn_pool_label *label = tn_pool_trace_label(trace, events[0].label);
    assert_string_equal(label->name, "conv1.w");
    assert_string_equal(label->kind, "weight");
    assert_string_equal(label->op, "conv1");
    assert_int_equal(events[1].label, 0);
    assert_int_equal(events[1].flags, 0);
    assert_true(events[2].frees && events[2].block == 0);
    assert_int_equal(events[3].block, 2); /* the id is used again: another block */
    assert_int_equal(events[3].label, events[0].label);
    assert_int_equal(tn_pool_trace_skipped(trace), 0);
    tn_pool_trace_destroy(trace);
}

static void logs_of_rmm_are_read(void **state) {
    (void)state;
    tn_pool_trace *trace;
    uint64_t count;
    assert_ok(load("Thread,Time,Action,Pointer,Size,Stream\n"
                   "7,10:11:12.000001,free,0x7f00,64,0x0\n"
                   "7,10:11:12.000002,allocate,0x7f00,1000,0x0\n"
                   "8,10:11:12.000003,allocate,0x8f00,2000,0x55e0\n"
                   "8,10:11:12.000004,allocate failure,(nil),99999999999,0x55e0\n"
                   "8,10:11:12.000005,allocate,0x0,0,0x55e0\n"
                   "7,10:11:12.000006,free,0x7f00,1000,0x0\n",
                   &trace));
    const tn_pool_event *events = tn_pool_trace_events(trace, &count);
    assert_int_equal(count, 3);
    assert_int_equal(events[0].size, 1000);
    assert_int_equal(events[0].stream, 0);
    assert_int_equal(events[1].stream, 1);
    assert_true(events[2].frees && events[2].block == 0);
    assert_int_equal(tn_pool_trace_skipped(trace), 3);
    tn_pool_trace_destroy(trace);
}

static void damage_is_refused_with_its_line(void **state) {
    (void)state;
    static const char *const cases[][3] = {
        {"", "t.csv:0", "no column 'action'"},
        {"action,id\nalloc,a\n", "t.csv:1", "no column 'size'"},
        {"Thread,Pointer,Size\n", "t.csv:1", "no column 'action'"},
        {"action,id,size\nalloc,a,1\nalloc,a,1\n", "t.csv:3", "'a' is allocated twice"},
        {"action,id,size\nfree,a,\n", "t.csv:2", "'a' is freed and is not in use"},
        {"action,id,size\nalloc,a,1\nfree,a,\nfree,a,\n", "t.csv:4", "not in use"},
        {"action,id,size\nalloc,a,-1\n", "t.csv:2", "'-1' is not a size"},
        {"action,id,size\nalloc,a,\n", "t.csv:2", "'' is not a size"},
        {"action,id,size\nalloc,a,18446744073709551616\n", "t.csv:2", "is not a size"},
        {"action,id,size\ngrow,a,1\n", "t.csv:2", "'grow' is not an action"},
        {"action,id,size,alignment\nalloc,a,1,3\n", "t.csv:2", "'3' is not an alignment"},
        {"action,id,size,lifetime\nalloc,a,1,ever\n", "t.csv:2", "'ever' is not a lifetime"},
        {"action,id,size,stream\nalloc,a,1,4294967296\n", "t.csv:2", "is not a stream"},
        {"action,id,size\nalloc,a,1,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,,"
         ",\n",
         "t.csv:2", "too many fields"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_pool_trace *trace = NULL;
        assert_int_equal(load(cases[i][0], &trace), TN_E_INVALID);
        assert_null(trace);
        if (strcmp(failure.where, cases[i][1]) != 0 || !strstr(failure.message, cases[i][2]))
            fail_msg("case %zu: %s: %s\n", i, failure.where, failure.message);
    }
}

/* --- replays --- */

/* A random trace, and by plain arithmetic the most bytes that are in use at once. */
static char *random_trace(uint64_t seed, uint32_t steps, uint64_t *peak) {
    tn__random random = {.state = seed};
    tn__text text;
    uint32_t ids[64] = {0}, next = 0;
    uint64_t sizes[64] = {0}, live = 0;
    tn__text_init(&text, NULL);
    tn__text_put(&text, "action,id,size,stream,lifetime,name,kind\n");
    *peak = 0;
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t at = (uint32_t)tn__random_below(&random, 64);
        if (sizes[at] != 0) {
            tn__text_printf(&text, "free,b%u,,,,,\n", ids[at]);
            live -= sizes[at];
            sizes[at] = 0;
            continue;
        }
        ids[at] = next++;
        sizes[at] = 1 + tn__random_below(&random, 100000);
        live += sizes[at];
        if (live > *peak) *peak = live;
        tn__text_printf(&text, "alloc,b%u,%llu,%u,%s,t%u,activation\n", ids[at],
                        (unsigned long long)sizes[at], (uint32_t)tn__random_below(&random, 2),
                        at < 20 ? "long" : "", at);
    }
    assert_false(text.failed);
    return text.data; /* allocated by malloc: the context is NULL */
}

static void a_replay_measures_what_the_trace_says(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        uint64_t peak;
        char *text = random_trace(seed, 5000, &peak);
        tn_pool_trace *trace;
        assert_ok(load(text, &trace));
        for (uint32_t p = 0; p < tn_pool_count(); p++) {
            tn_pool_options options = TN_POOL_OPTIONS_INIT;
            tn_pool_usage usage;
            tn_pool *pool;
            options.pool = tn_pool_name(p);
            if (strcmp(options.pool, "planned") == 0) continue;
            print_message("%s, seed %llu\n", options.pool, (unsigned long long)seed);
            assert_ok(tn_pool_create(&options, &pool, &failure));
            assert_ok(tn_pool_replay(pool, trace, NULL, &failure));
            tn_pool_measure(pool, &usage);
            assert_int_equal(usage.requested_peak, peak);
            assert_true(usage.reserved_peak >= peak);
            tn_pool_destroy(pool);
            /* What was reserved at most is enough, and less than was requested is not. Segments of
             * caching need bytes in one piece. */
            bool depends = strcmp(options.pool, "caching") == 0;
            options.capacity = usage.reserved_peak;
            assert_ok(tn_pool_create(&options, &pool, &failure));
            if (!depends) assert_ok(tn_pool_replay(pool, trace, NULL, &failure));
            tn_pool_destroy(pool);
            options.capacity = peak - 1;
            assert_ok(tn_pool_create(&options, &pool, &failure));
            assert_int_equal(tn_pool_replay(pool, trace, NULL, &failure), TN_E_EXHAUSTED);
            assert_non_null(strstr(failure.where, "event "));
            assert_non_null(strstr(failure.message, "most is held by 't"));
            tn_pool_destroy(pool);
        }
        tn_pool_trace_destroy(trace);
        free(text);
    }
}

static void a_failing_allocator_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    uint64_t peak;
    char *text = random_trace(9, 200, &peak);
    for (uint64_t n = 1;; n++) {
        faulty memory = {.fail_at = n};
        tn_context context = faulty_context(&memory);
        tn_pool_options options = TN_POOL_OPTIONS_INIT;
        tn_pool_trace *trace = NULL;
        tn_pool *pool = NULL;
        options.context = &context;
        tn_status status =
            tn_pool_trace_load_memory("t.csv", text, strlen(text), &context, &trace, NULL);
        if (status == TN_OK) status = tn_pool_create(&options, &pool, NULL);
        if (status == TN_OK) status = tn_pool_replay(pool, trace, NULL, NULL);
        tn_pool_destroy(pool);
        tn_pool_trace_destroy(trace);
        assert_int_equal(memory.held, 0);
        if (memory.requests < n) {
            assert_int_equal(status, TN_OK);
            assert_true(n > 20);
            break;
        }
        assert_int_equal(status, TN_E_NO_MEMORY);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(columns_may_come_in_any_order),
        cmocka_unit_test(logs_of_rmm_are_read),
        cmocka_unit_test(damage_is_refused_with_its_line),
        cmocka_unit_test(a_replay_measures_what_the_trace_says),
        cmocka_unit_test(a_failing_allocator_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
