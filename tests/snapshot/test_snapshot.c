/* test_snapshot.c - snapshots by hand: what is told of them, what is refused and where. */
#include "../support.h"

#include <tenure/snapshot.h>

#include "base/base.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

/* --- a pickler of few words --- */

typedef struct pickler {
    uint8_t bytes[8192];
    size_t size;
} pickler;

static void put(pickler *out, const char *bytes, size_t size) {
    assert_true(out->size + size <= sizeof out->bytes);
    memcpy(out->bytes + out->size, bytes, size);
    out->size += size;
}
#define PUT(out, literal) put(out, literal, sizeof(literal) - 1)

static void put_text(pickler *out, const char *text) {
    uint8_t size = (uint8_t)strlen(text);
    PUT(out, "\x8c");
    put(out, (const char *)&size, 1);
    put(out, text, size);
}

/* LONG1 of eight bytes. */
static void put_number(pickler *out, uint64_t value) {
    PUT(out, "\x8a\x08");
    for (int i = 0; i < 8; i++) put(out, (char[]){(char)(value >> 8 * i)}, 1);
}

static void put_pair(pickler *out, const char *key, uint64_t value) {
    put_text(out, key);
    put_number(out, value);
}

/* One item each: SETITEM, as small dicts are pickled by some. */
static void put_event(pickler *out, const char *action, uint64_t address, uint64_t size) {
    PUT(out, "}");
    put_text(out, "size");
    put_number(out, size);
    PUT(out, "s");
    put_text(out, strcmp(action, "oom") == 0 ? "device_free" : "addr");
    put_number(out, address);
    PUT(out, "s");
    put_text(out, "action");
    put_text(out, action);
    PUT(out, "s(");
    put_pair(out, "stream", 0);
    put_text(out, "frames");
    PUT(out, "](}(");
    put_pair(out, "line", 7);
    put_text(out, "filename");
    put_text(out, "/srv/net/train.py");
    put_text(out, "name");
    put_text(out, "step");
    PUT(out, "ueu");
}

static void put_block(pickler *out, uint64_t size, uint64_t requested, const char *status) {
    PUT(out, "}(");
    put_pair(out, "size", size);
    put_pair(out, "requested_size", requested);
    put_text(out, "state");
    put_text(out, status);
    PUT(out, "u");
}

/* 2 MiB at 2 MiB: 1000 bytes in use in 1024, the rest free. */
static void put_segment(pickler *out) {
    PUT(out, "}(");
    put_pair(out, "device", 0);
    put_pair(out, "address", 2 << 20);
    put_pair(out, "total_size", 2 << 20);
    put_pair(out, "allocated_size", 1024);
    put_pair(out, "active_size", 1024);
    put_pair(out, "requested_size", 1000);
    put_pair(out, "stream", 0);
    put_text(out, "blocks");
    PUT(out, "](");
    put_block(out, 1024, 1000, "active_allocated");
    put_block(out, (2 << 20) - 1024, 0, "inactive");
    PUT(out, "eu");
}

static void put_whole(pickler *out) {
    PUT(out, "\x80\x04}(");
    put_text(out, "segments");
    PUT(out, "](");
    put_segment(out);
    PUT(out, "e");
    put_text(out, "device_traces");
    PUT(out, "](](");
    put_event(out, "free_requested", (2 << 20) + 512, 300);
    put_event(out, "free_completed", (2 << 20) + 512, 300);
    put_event(out, "alloc", 2 << 20, 1000);
    put_event(out, "oom", 77, 5 << 20);
    PUT(out, "eeu.");
}

static tn_status load(const pickler *out, const tn_context *context, tn_snapshot **snapshot) {
    return tn_snapshot_load_memory("s", out->bytes, out->size, context, snapshot, &failure);
}

/* --- what is told --- */

static void a_ring_that_begins_in_the_middle_is_followed(void **state) {
    (void)state;
    pickler out = {0};
    tn_snapshot *snapshot;
    tn_snapshot_lives *lives;
    uint64_t count, times[2];
    put_whole(&out);
    assert_ok(load(&out, NULL, &snapshot));
    assert_ok(tn_snapshot_live(snapshot, 0, &lives, &failure));
    const tn_snapshot_facts *facts = tn_snapshot_facts_of(lives);
    assert_string_equal(facts->first_wrong, "");
    assert_int_equal(facts->event_count, 4);
    assert_int_equal(facts->before_count, 1);
    assert_int_equal(facts->before_bytes, 300);
    assert_int_equal(facts->requested, 1000);
    assert_int_equal(facts->peak_requested, 1000);
    assert_int_equal(facts->peak_time, 3);
    assert_int_equal(facts->reserved, 2 << 20);
    assert_int_equal(tn_snapshot_ooms(lives, times, 2), 1);
    assert_int_equal(times[0], 4);
    const tn_snapshot_life *all = tn_snapshot_life_at(lives, &count);
    assert_int_equal(count, 2);
    assert_true(all[0].before && !all[0].after && all[0].first == 0 && all[0].last == 2);
    assert_true(!all[1].before && all[1].after && all[1].first == 3 && all[1].last == 5);
    assert_string_equal(tn_snapshot_group_of(lives, 1, TN_SNAPSHOT_BY_LINE), "net/train.py:7 step");
    tn_snapshot_lives_destroy(lives);
    tn_snapshot_destroy(snapshot);
}

static void a_bare_list_of_segments_is_a_snapshot(void **state) {
    (void)state;
    pickler out = {0};
    tn_snapshot *snapshot;
    tn_snapshot_lives *lives;
    tn_snapshot_hole hole;
    uint64_t whole, bytes;
    PUT(&out, "\x80\x02](");
    put_segment(&out);
    PUT(&out, "e.");
    assert_ok(load(&out, NULL, &snapshot));
    assert_ok(tn_snapshot_live(snapshot, 0, &lives, &failure));
    assert_int_equal(tn_snapshot_facts_of(lives)->requested, 1000);
    assert_int_equal(tn_snapshot_holes(snapshot, 0, &hole, 1, &whole, &bytes), 1);
    assert_int_equal(hole.offset, 1024);
    assert_int_equal(whole, 0);
    assert_int_equal(bytes, (2 << 20) - 1024);
    tn_snapshot_lives_destroy(lives);
    tn_snapshot_destroy(snapshot);
}

/* Each damage must be seen, and no other be told. */
static void what_does_not_agree_is_told(void **state) {
    (void)state;
    static const struct {
        const char *action;
        uint64_t address, size;
        size_t member;
    } damages[] = {
        {"alloc", 2 << 20, 1000, offsetof(tn_snapshot_facts, wrong_requests)},
        {"alloc", (2 << 20) + 4096, 10, offsetof(tn_snapshot_facts, wrong_blocks)},
        {"segment_free", 2 << 20, 4096, offsetof(tn_snapshot_facts, wrong_device)},
        {"segment_alloc", 9 << 20, 4096, offsetof(tn_snapshot_facts, wrong_device)},
    };
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        pickler out = {0};
        tn_snapshot *snapshot;
        tn_snapshot_lives *lives;
        put_whole(&out);
        out.size -= 4;
        put_event(&out, damages[i].action, damages[i].address, damages[i].size);
        PUT(&out, "eeu.");
        assert_ok(load(&out, NULL, &snapshot));
        assert_ok(tn_snapshot_live(snapshot, 0, &lives, &failure));
        const tn_snapshot_facts *facts = tn_snapshot_facts_of(lives);
        uint64_t told;
        memcpy(&told, (const char *)facts + damages[i].member, sizeof told);
        assert_int_equal(told, 1);
        assert_int_equal(facts->wrong_requests + facts->wrong_blocks + facts->wrong_segments +
                             facts->wrong_device,
                         1);
        assert_string_not_equal(facts->first_wrong, "");
        tn_snapshot_lives_destroy(lives);
        tn_snapshot_destroy(snapshot);
    }
}

static void pools_and_planners_get_the_requests(void **state) {
    (void)state;
    pickler out = {0};
    tn_snapshot *snapshot;
    tn_snapshot_lives *lives;
    tn_pool_trace *trace;
    tn_problem *problem;
    uint64_t count;
    put_whole(&out);
    assert_ok(load(&out, NULL, &snapshot));
    assert_ok(tn_snapshot_live(snapshot, 0, &lives, &failure));
    assert_ok(tn_snapshot_trace(lives, &trace, &failure));
    const tn_pool_event *events = tn_pool_trace_events(trace, &count);
    assert_int_equal(count, 3);
    assert_true(!events[0].frees && events[0].size == 300);
    assert_true(events[1].frees && events[1].block == 0);
    assert_true(!events[2].frees && events[2].size == 1000);
    assert_string_equal(tn_pool_trace_label(trace, events[2].label)->name, "net/train.py:7 step");
    assert_ok(tn_snapshot_problem(lives, 64, NULL, &problem, &failure));
    assert_int_equal(tn_problem_count(problem), 2);
    tn_problem_destroy(problem);
    tn_pool_trace_destroy(trace);
    tn_snapshot_lives_destroy(lives);
    tn_snapshot_destroy(snapshot);
}

/* --- what is refused --- */

static void every_truncation_is_refused_with_its_byte(void **state) {
    (void)state;
    pickler out = {0};
    tn_snapshot *snapshot;
    put_whole(&out);
    assert_int_equal(tn_snapshot_load_memory("s", "", 0, NULL, &snapshot, &failure), TN_E_INVALID);
    assert_string_equal(failure.where, "s");
    assert_non_null(strstr(failure.message, "empty"));
    for (size_t whole = out.size, size = 1; size < whole; size++) {
        /* of the exact size, so that a sanitizer sees the first byte beyond */
        uint8_t *exact = malloc(size + 1);
        assert_non_null(exact);
        memcpy(exact, out.bytes, size);
        failure = (tn_error){0};
        assert_int_equal(tn_snapshot_load_memory("s", exact, size, NULL, &snapshot, &failure),
                         TN_E_INVALID);
        assert_memory_equal(failure.where, "s, byte ", 8);
        free(exact);
    }
}

static void refused(const char *bytes, size_t size, const char *where, const char *why) {
    tn_snapshot *snapshot;
    failure = (tn_error){0};
    tn_status status = tn_snapshot_load_memory("s", bytes, size, NULL, &snapshot, &failure);
    if (tn_status_exit_code(status) != 2) fail_msg("%s: refused with %d", why, (int)status);
    if (strstr(failure.message, why) == NULL) fail_msg("'%s', not '%s'", failure.message, why);
    assert_string_equal(failure.where, where);
}
#define REFUSED(literal, where, why) refused(literal, sizeof(literal) - 1, where, why)

static void hostile_pickles_are_refused(void **state) {
    (void)state;
    REFUSED("\x80\x02"
            "cos\nsystem\n",
            "s, byte 2", "GLOBAL: this pickle asks for code");
    REFUSED("\x80\x04NR.", "s, byte 3", "REDUCE");
    REFUSED("\x80\x04\x8c\x02os\x8c\x06system\x93.", "s, byte 14", "STACK_GLOBAL");
    REFUSED("\x80\x06N.", "s, byte 0", "protocol 6; 2 to 5");
    REFUSED("PK\x03\x04", "s, byte 0", "no pickle of protocol 2 to 5");
    REFUSED("{\"segments\": []}", "s", "no traceEvents");
    REFUSED("\x80\x04N.", "s", "no memory snapshot");
    REFUSED("\x80\x04}.", "s", "no memory snapshot");
    REFUSED("\x80\x04NN.", "s, byte 4", "2 values");
    REFUSED("\x80\x04(.", "s, byte 3", "1 marks");
    REFUSED("\x80\x04.", "s, byte 2", "0 values");
    REFUSED("\x80\x04"
            "a.",
            "s, byte 2", "2 values are wanted");
    REFUSED("\x80\x04NNa.", "s, byte 4", "no list");
    REFUSED("\x80\x04}(Nu.", "s, byte 5", "has no value");
    REFUSED("\x80\x04"
            "e.",
            "s, byte 2", "no mark");
    REFUSED("\x80\x04h\x05.", "s, byte 2", "was never stored");
    REFUSED("\x80\x04Nr\xff\xff\xff\xff.", "s, byte 3", "too short to have that many");
    REFUSED("\x80\x04X\xff\xff\xff\x7f", "s, byte 2", "the file ends");
    REFUSED("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff", "s, byte 2", "the file ends");
    REFUSED("\x80\x04\x95\x00\xca\x9a\x3b\x00\x00\x00\x00.", "s, byte 2", "a frame of 1000000000");
    REFUSED("\x80\x04\x8b\xff\xff\xff\xff.", "s, byte 2", "negative length");
}

static void fields_that_are_not_what_they_should_be_are_refused(void **state) {
    (void)state;
    REFUSED("\x80\x04}\x8c\x06"
            "action\x8c\x05"
            "alloc"
            "s.",
            "s", "no memory snapshot");
    REFUSED("\x80\x04}(\x8c\x06"
            "action\x8c\x05"
            "alloc\x8c\x04"
            "sizeJ\xff\xff\xff\xffu.",
            "s, byte 30", "size is no whole number");
    REFUSED("\x80\x04}\x8c\x08segmentsNs.", "s, byte 14", "segments is no list");
    REFUSED("\x80\x04}\x8c\x08segments]Nas.", "s", "segments");
    /* a list of traces that is in itself */
    REFUSED("\x80\x04}\x8c\x0d"
            "device_traces]\x94h\x00"
            "as.",
            "s", "the trace of a device");
    /* a frame that is a number */
    REFUSED("\x80\x04}(\x8c\x04nameK\x01\x8c\x08"
            "filenameK\x02\x8c\x04lineK\x03u.",
            "s, byte 32", "of a frame is no");
}

/* Two segments with one list of blocks: memory that no file pays for. */
static void a_list_is_used_once(void **state) {
    (void)state;
    pickler out = {0};
    PUT(&out, "\x80\x02](");
    put_segment(&out);
    PUT(&out, "\x94h\x00h\x00"
              "e.");
    refused((const char *)out.bytes, out.size, "s", "was used before");
}

static void the_stack_has_an_end(void **state) {
    (void)state;
    size_t size = ((size_t)1 << 22) + 16;
    char *bytes = malloc(size);
    assert_non_null(bytes);
    memset(bytes, 'N', size);
    memcpy(bytes, "\x80\x04", 2);
    refused(bytes, size, "s, byte 4194306", "wait on the stack");
    free(bytes);
}

static void failed_allocations_leave_nothing_behind(void **state) {
    (void)state;
    pickler out = {0};
    put_whole(&out);
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t fail_at = 1; status != TN_OK; fail_at++) {
        faulty memory = {.fail_at = fail_at};
        tn_context context = faulty_context(&memory);
        tn_snapshot *snapshot = NULL;
        tn_snapshot_lives *lives = NULL;
        tn_pool_trace *trace = NULL;
        tn_problem *problem = NULL;
        assert_true(fail_at < 10000);
        status = load(&out, &context, &snapshot);
        if (status == TN_OK) status = tn_snapshot_live(snapshot, 0, &lives, &failure);
        if (status == TN_OK) status = tn_snapshot_trace(lives, &trace, &failure);
        if (status == TN_OK) status = tn_snapshot_problem(lives, 64, &context, &problem, &failure);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        tn_problem_destroy(problem);
        tn_pool_trace_destroy(trace);
        tn_snapshot_lives_destroy(lives);
        tn_snapshot_destroy(snapshot);
        assert_int_equal(memory.held, 0);
    }
}

/* --- what is written --- */

static tn_status write_some(const tn_snapshot_use *uses, uint64_t count, uint64_t arena,
                            const char *path) {
    failure = (tn_error){0};
    return tn_snapshot_write(uses, count, arena, NULL, path, &failure);
}

static void what_is_written_is_read(void **state) {
    (void)state;
    const char *path = "written.pickle";
    const tn_snapshot_use uses[] = {
        {.block = 7, .address = 4096, .size = 100, .held = 128, .name = "a", .kind = "activation"},
        {.block = 0,
         .address = TN_SIZE_UNKNOWN,
         .size = 70000,
         .name = "w\xff",
         .kind = "parameter"},
        {.frees = true, .block = 7, .at_s = 2},
        {.block = 7, .address = 0, .size = 1ull << 33, .name = "b", .op = "conv1", .type = "Conv"},
    };
    tn_snapshot *snapshot;
    tn_snapshot_lives *lives;
    uint64_t count;
    assert_ok(write_some(uses, 4, 1ull << 34, path));
    assert_ok(tn_snapshot_load(path, NULL, &snapshot, &failure));
    assert_ok(tn_snapshot_live(snapshot, 0, &lives, &failure));
    const tn_snapshot_facts *facts = tn_snapshot_facts_of(lives);
    assert_string_equal(facts->first_wrong, "");
    assert_int_equal(facts->before_count, 0);
    assert_int_equal(facts->reserved, (1ull << 34) + 70000);
    assert_int_equal(facts->requested, (1ull << 33) + 70000);
    const tn_snapshot_life *all = tn_snapshot_life_at(lives, &count);
    assert_int_equal(count, 3);
    assert_int_equal(all[0].size, 100);
    assert_string_equal(tn_snapshot_group_of(lives, 1, TN_SNAPSHOT_BY_LINE), "w\xef\xbf\xbd");
    assert_string_equal(tn_snapshot_group_of(lives, 1, TN_SNAPSHOT_BY_CATEGORY), "parameter");
    assert_string_equal(tn_snapshot_group_of(lives, 2, TN_SNAPSHOT_BY_MODULE), "Conv");
    tn_snapshot_lives_destroy(lives);
    tn_snapshot_destroy(snapshot);
    remove(path);
}

static void uses_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const struct {
        tn_snapshot_use uses[2];
        const char *where;
    } bad[] = {
        {{{.block = 1, .size = 8}, {.block = 1, .address = 64, .size = 8}}, "use 1"},
        {{{.block = 1, .size = 8}, {.block = 2, .frees = true}}, "use 1"},
        {{{.block = 1, .size = 8}, {.block = 2, .address = 1020, .size = 8}}, "use 1"},
        {{{.block = 1, .size = 8}, {.block = 2, .address = 4, .size = 8}}, "use 1"},
        {{{.block = 1, .size = 8, .held = 4}}, "use 0"},
        {{{.block = 1, .address = UINT64_MAX - 9, .size = 8}}, "use 0"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(write_some(bad[i].uses, 2, 1024, "never.pickle"), TN_E_INVALID);
        assert_string_equal(failure.where, bad[i].where);
        assert_null(fopen("never.pickle", "rb"));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_that_begins_in_the_middle_is_followed),
        cmocka_unit_test(a_bare_list_of_segments_is_a_snapshot),
        cmocka_unit_test(what_does_not_agree_is_told),
        cmocka_unit_test(pools_and_planners_get_the_requests),
        cmocka_unit_test(every_truncation_is_refused_with_its_byte),
        cmocka_unit_test(hostile_pickles_are_refused),
        cmocka_unit_test(fields_that_are_not_what_they_should_be_are_refused),
        cmocka_unit_test(a_list_is_used_once),
        cmocka_unit_test(the_stack_has_an_end),
        cmocka_unit_test(failed_allocations_leave_nothing_behind),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(uses_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
