/* The memory of a device on the stand-in of CUDA, as a block and as granules: bytes that a stream
 * is late with are not another one's before, in every pool; each call fails in turn; budgets,
 * holders, traces. */
#include "interop/torch/device_arena.h"

#include <unistd.h>

#include "standin.h"
#include "support.h"

enum { BLOCK = 64 << 10, STREAMS = 6 };

#define CHECK(call)                                                                                \
    do {                                                                                           \
        tn_error check_error = {0};                                                                \
        tn_status check_status = (call);                                                           \
        if (check_status != TN_OK) fail_msg("%s: %s\n", #call, check_error.message);               \
    } while (0)
#define E &check_error /* the error of the CHECK that it stands in */

static tn__cuda cuda;
static tn__device_arena_memory memory;

static tn_status open_memory(const char *pool, uint64_t budget, tn__device_arena **ground,
                             tn_error *error) {
    tn__device_arena_options options = {.pool = pool, .memory = memory, .budget = budget};
    *ground = NULL;
    return tn__device_arena_open(&options, &cuda, 0, ground, error);
}

static tn_status get(tn__device_arena *ground, uint64_t size, void *stream, void **block,
                     tn_error *error) {
    return tn__device_arena_alloc(ground, size, stream, NULL, block, error);
}

static void make_streams(void **streams, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(cudaStreamCreateWithFlags(&streams[i], 1), 0);
}

static void end_streams(void **streams, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        (void)cudaStreamSynchronize(streams[i]);
        (void)cudaStreamDestroy(streams[i]);
    }
}

static void nap(void *self) {
    (void)self;
    usleep(20000);
}

/* What is on the device after everything is done. */
static void expect_bytes(const void *block, size_t size, int byte) {
    static unsigned char back[BLOCK];
    assert_int_equal(cudaDeviceSynchronize(), 0);
    assert_int_equal(cudaMemcpyAsync(back, block, size, 2, NULL), 0);
    assert_int_equal(cudaDeviceSynchronize(), 0);
    for (size_t i = 0; i < size; i++)
        if (back[i] != byte) fail_msg("byte %zu is %d, not %d\n", i, back[i], byte);
}

/* One stream is late with a block that it freed, and another gets the same bytes: in a block there
 * is no room for two such, whatever the pool. */
static void late_streams_are_waited_for(void **state) {
    enum { LARGE = 20 << 20, ROOM = 32 << 20 };
    void *streams[2], *block, *other;
    (void)state;
    make_streams(streams, 2);
    for (uint32_t p = 0; p < tn_pool_count(); p++) {
        tn__device_arena *ground;
        if (strcmp(tn_pool_name(p), "planned") == 0) continue;
        CHECK(open_memory(tn_pool_name(p), ROOM, &ground, E));
        for (uint32_t from = 0; from < 3; from++) { /* 2: the default stream */
            void *late = from == 2 ? NULL : streams[from], *next = streams[from == 0];
            CHECK(get(ground, LARGE, late, &block, E));
            assert_int_equal(cudaLaunchHostFunc(late, nap, NULL), 0);
            assert_int_equal(cudaMemsetAsync(block, 1, LARGE, late), 0);
            CHECK(tn__device_arena_free(ground, block, E));
            CHECK(get(ground, LARGE, next, &other, E));
            assert_int_equal(cudaMemsetAsync(other, 2, LARGE, next), 0);
            expect_bytes((char *)other + LARGE / 2, BLOCK, 2);
            CHECK(tn__device_arena_free(ground, other, E));
        }
        tn__device_arena_close(ground);
        assert_int_equal(standin_used(0), 0);
    }
    end_streams(streams, 2);
    assert_int_equal(standin_live(), 0);
}

/* The same for streams that a block was shared with, however many. */
static void who_shared_a_block_is_waited_for(void **state) {
    void *streams[STREAMS], *block, *other;
    tn__device_arena *ground;
    (void)state;
    make_streams(streams, STREAMS);
    CHECK(open_memory("best-fit", BLOCK, &ground, E));
    for (uint32_t shared = 1; shared < STREAMS; shared++) {
        void *late = streams[shared];
        CHECK(get(ground, BLOCK, streams[0], &block, E));
        for (uint32_t i = 1; i <= shared; i++)
            CHECK(tn__device_arena_use(ground, block, streams[i], E));
        CHECK(tn__device_arena_use(ground, block, streams[0], E)); /* known already */
        assert_int_equal(cudaLaunchHostFunc(late, nap, NULL), 0);
        assert_int_equal(cudaMemsetAsync(block, 1, BLOCK, late), 0);
        CHECK(tn__device_arena_free(ground, block, E));
        CHECK(get(ground, BLOCK, streams[0], &other, E));
        assert_int_equal(cudaMemsetAsync(other, 2, BLOCK, streams[0]), 0);
        expect_bytes(other, BLOCK, 2);
        CHECK(tn__device_arena_free(ground, other, E));
    }
    tn__device_arena_close(ground);
    end_streams(streams, STREAMS);
}

/* --- failures --- */

/* Each way of the code once: the last block is good if everything was. */
static tn_status use_all(tn__device_arena **ground, void **streams,
                         const tn__device_arena_options *options, tn_error *error) {
    void *blocks[3];
    *ground = NULL;
    TN_TRY(tn__device_arena_open(options, &cuda, 1, ground, error));
    TN_TRY(tn__device_arena_alloc(*ground, 3 * BLOCK / 4, NULL, "a.py:1", &blocks[0], error));
    TN_TRY(tn__device_arena_free(*ground, blocks[0], error));
    for (uint32_t i = 0; i < 3; i++) {
        TN_TRY(tn__device_arena_alloc(*ground, BLOCK / 4, streams[i], "a.py:2", &blocks[i], error));
        TN_TRY(tn__device_arena_use(*ground, blocks[i], streams[(i + 1) % 3], error));
    }
    for (uint32_t i = 0; i < 3; i++) TN_TRY(tn__device_arena_free(*ground, blocks[i], error));
    TN_TRY(tn__device_arena_alloc(*ground, BLOCK, streams[0], NULL, &blocks[0], error));
    assert_int_equal(cudaSetDevice(1), 0);
    (void)cudaMemsetAsync(blocks[0], 3, BLOCK, streams[0]);
    assert_int_equal(cudaSetDevice(0), 0);
    return tn__device_arena_free(*ground, blocks[0], error);
}

/* The same while another device is the current one throughout; nobody uses the blocks. */
static tn_status use_from_elsewhere(tn__device_arena **ground, void **streams,
                                    const tn__device_arena_options *options, tn_error *error) {
    void *block;
    *ground = NULL;
    TN_TRY(tn__device_arena_open(options, &cuda, 1, ground, error));
    for (uint32_t i = 0; i < 6; i++) {
        TN_TRY(tn__device_arena_alloc(*ground, BLOCK, streams[i % 3], NULL, &block, error));
        TN_TRY(tn__device_arena_free(*ground, block, error));
    }
    return TN_OK;
}

static void expect_all_given_back(tn__device_arena *ground, void **streams) {
    assert_int_equal(cudaSetDevice(1), 0);
    end_streams(streams, 3);
    assert_int_equal(cudaSetDevice(0), 0);
    tn__device_arena_close(ground);
    assert_int_equal(standin_used(1), 0);
    assert_int_equal(standin_live(), 0);
}

static void each_call_of_cuda_fails_in_turn(void **state) {
    static const char *const functions[] = {"cudaGetDeviceCount",
                                            "cudaMemGetInfo",
                                            "cudaMalloc",
                                            "cudaEventCreateWithFlags",
                                            "cudaEventRecord",
                                            "cudaStreamWaitEvent",
                                            "cudaDeviceSynchronize",
                                            "cudaFree",
                                            "cuMemAddressReserve",
                                            "cuMemCreate",
                                            "cuMemMap",
                                            "cuMemSetAccess",
                                            "cuMemUnmap"};
    (void)state;
    setenv("STANDIN_MEMORY", "200000", 1);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        for (int sticky = 0; sticky < 2; sticky++) {
            uint64_t nth = 1, calls = 1;
            for (; nth <= calls + 1; nth++) {
                void *streams[3];
                tn__device_arena *ground;
                tn_error error = {0};
                tn__device_arena_options options = {.pool = "best-fit", .memory = memory};
                assert_int_equal(cudaSetDevice(1), 0);
                make_streams(streams, 3);
                assert_int_equal(cudaSetDevice(0), 0);
                uint64_t before = standin_calls(functions[f]);
                standin_fail(functions[f], (unsigned)nth, sticky ? STANDIN_LOST : 2);
                tn_status status = use_all(&ground, streams, &options, &error);
                calls = standin_calls(functions[f]) - before;
                standin_reset();
                if (status != TN_OK) assert_true(error.message[0] != '\0');
                expect_all_given_back(ground, streams);
            }
            assert_true(nth > 1);
        }
    }
    unsetenv("STANDIN_MEMORY");
}

static void memory_of_the_host_fails_in_turn(void **state) {
    (void)state;
    tn_status status = TN_E_NO_MEMORY;
    uint64_t nth = 0;
    while (status != TN_OK) {
        void *streams[3];
        tn__device_arena *ground;
        tn_error error = {0};
        faulty host = {.fail_at = ++nth};
        tn_context context = faulty_context(&host);
        tn__device_arena_options options = {
            .context = &context, .pool = "best-fit", .memory = memory, .budget = BLOCK};
        assert_int_equal(cudaSetDevice(1), 0);
        make_streams(streams, 3);
        assert_int_equal(cudaSetDevice(0), 0);
        status = use_all(&ground, streams, &options, &error);
        if (host.requests < nth) nth = 0; /* none was left to fail */
        if (status != TN_OK) assert_int_equal(status, TN_E_NO_MEMORY);
        expect_all_given_back(ground, streams);
        assert_int_equal(host.held, 0);
        if (nth != 0) status = TN_E_NO_MEMORY;
    }
}

/* What cannot be made the current device is asked for nothing, and no other one in its place. */
static void nothing_goes_to_the_device_of_somebody_else(void **state) {
    static const char *const functions[] = {"cudaGetDevice", "cudaSetDevice"};
    (void)state;
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        uint64_t calls = 1, refused = 0;
        for (uint64_t nth = 1; nth <= calls + 1; nth++) {
            void *streams[3];
            tn__device_arena *ground;
            tn_error error = {0};
            tn__device_arena_options options = {
                .pool = "best-fit", .memory = memory, .budget = BLOCK};
            assert_int_equal(cudaSetDevice(1), 0);
            make_streams(streams, 3);
            assert_int_equal(cudaSetDevice(0), 0);
            uint64_t before = standin_calls(functions[f]);
            standin_fail(functions[f], (unsigned)nth, 46);
            refused += use_from_elsewhere(&ground, streams, &options, &error) != TN_OK;
            calls = standin_calls(functions[f]) - before;
            standin_reset();
            assert_int_equal(standin_used(0), 0);
            expect_all_given_back(ground, streams);
        }
        assert_true(refused >= 5); /* opening, and each block that is asked for */
    }
}

/* --- budgets, pools, holders --- */

static void the_budget_is_the_bound(void **state) {
    tn__device_arena *ground;
    tn_error error = {0};
    tn_holder holder;
    void *block, *more;
    (void)state;
    CHECK(open_memory(NULL, 1 << 20, &ground, E));
    assert_true(standin_used(0) <= 1 << 20);
    CHECK(tn__device_arena_alloc(ground, 700 << 10, NULL, "train.py:31", &block, E));
    assert_int_equal((uintptr_t)block % 512, 0);
    assert_int_equal(get(ground, 400 << 10, NULL, &more, &error), TN_E_EXHAUSTED);
    if (memory == TN__DEVICE_ARENA_BLOCK) assert_non_null(strstr(error.message, "train.py:31"));
    assert_int_equal(tn_pool_holders(ground->pool, TN_HOLDERS_NOW, &holder, 1), 1);
    assert_string_equal(holder.label.name, "train.py:31");
    CHECK(get(ground, 300 << 10, NULL, &more, E));
    assert_true(standin_used(0) <= 1 << 20);
    tn__device_arena_close(ground);
    assert_int_equal(open_memory(NULL, 511, &ground, &error), TN_E_INVALID);
    assert_int_equal(open_memory("none", 1 << 20, &ground, &error), TN_E_UNKNOWN);
    assert_int_equal(open_memory("planned", 1 << 20, &ground, &error), TN_E_INVALID);
    assert_int_equal(standin_used(0), 0);
}

static void a_block_that_the_device_has_not(void **state) {
    tn__device_arena *ground;
    tn_error error = {0};
    (void)state;
    assert_int_equal(open_memory(NULL, 1ull << 40, &ground, &error), TN_E_NO_MEMORY);
    assert_non_null(strstr(error.message, "a budget of 1.0 TiB"));
    assert_int_equal(open_memory(NULL, UINT64_MAX, &ground, &error), TN_E_NO_MEMORY);
    assert_int_equal(standin_used(0), 0);
}

/* Granules are had when blocks are, however much is allowed; and go back when nobody has any. */
static void granules_are_had_as_they_are_needed(void **state) {
    tn__device_arena *ground;
    tn_error error = {0};
    void *blocks[3];
    (void)state;
    CHECK(open_memory(NULL, UINT64_MAX, &ground, E));
    assert_int_equal(standin_used(0), 0);
    for (uint32_t i = 0; i < 3; i++) CHECK(get(ground, 80 << 20, NULL, &blocks[i], E));
    assert_int_equal(get(ground, 80 << 20, NULL, &blocks[2], &error), TN_E_EXHAUSTED);
    assert_non_null(strstr(error.message, "the device has no more"));
    CHECK(tn__device_arena_free(ground, blocks[1], E));
    assert_int_equal(cudaSetDevice(1), 0);
    uint64_t waits = standin_calls("cudaSetDevice");
    tn__device_arena_trim(ground);
    assert_int_equal(standin_calls("cudaSetDevice") - waits, 2); /* there and back */
    assert_int_equal(cudaSetDevice(0), 0);
    assert_in_range(standin_used(0), 160 << 20, 161 << 20);
    tn__device_arena_close(ground);
    assert_int_equal(standin_used(0), 0);
    setenv("STANDIN_PAGES", "0", 1);
    assert_int_equal(open_memory(NULL, 1 << 20, &ground, &error), TN_E_UNSUPPORTED);
    unsetenv("STANDIN_PAGES");
}

/* A loop whose first round leaves holes that nothing fits: as a block, best fit goes beyond; where
 * memory is granules, what was had stays within a part in a hundred of what lived at once. */
static void holes_cost_addresses_alone(void **state) {
    enum { ROUNDS = 30, COUNT = 40 };
    uint64_t had[2] = {0}, live = 0, peak = 0, waits = 0;
    (void)state;
    for (uint32_t way = 0; way < 2; way++) {
        memory = way == 0 ? TN__DEVICE_ARENA_BLOCK : TN__DEVICE_ARENA_PAGES;
        tn__device_arena *ground;
        void *blocks[COUNT], *kept[ROUNDS] = {0};
        uint64_t sizes[COUNT];
        live = 0;
        CHECK(open_memory("iteration", 200 << 20, &ground, E));
        for (uint32_t round = 0; round < ROUNDS; round++) {
            if (round == ROUNDS / 2) waits = ground->pages.waits;
            for (uint32_t i = 0; i < COUNT; i++) {
                sizes[i] = (1 + i * 37 % 23) * 65536;
                CHECK(get(ground, sizes[i], NULL, &blocks[i], E));
                live += sizes[i];
                if (live > peak) peak = live;
                if (i % 3 != 2) continue;
                live -= sizes[i - 1];
                CHECK(tn__device_arena_free(ground, blocks[i - 1], E));
                if (round < 3 && i % 9 == 8) { /* as an optimizer's state: for good */
                    CHECK(get(ground, 40000 + 512 * i, NULL, &kept[round], E));
                    live += 40000 + 512 * i;
                }
            }
            for (uint32_t i = 0; i < COUNT; i++) {
                if (i % 3 == 1 && i != COUNT - 1) continue;
                live -= sizes[i];
                CHECK(tn__device_arena_free(ground, blocks[i], E));
            }
        }
        tn_pool_usage usage;
        tn_pool_measure(ground->pool, &usage);
        had[way] = way == 0 ? usage.reserved_peak : ground->pages.had_peak * ground->pages.size;
        assert_int_equal(ground->pages.waits, waits); /* by then it has learned */
        tn__device_arena_close(ground);
    }
    print_message("%d lived at once; %d as a block, %d as granules\n", (int)peak, (int)had[0],
                  (int)had[1]);
    assert_true(had[1] >= peak && had[1] <= peak + peak / 100 && had[1] < had[0]);
}

static void without_a_budget_it_takes_what_is_there(void **state) {
    tn__device_arena *ground;
    void *others;
    (void)state;
    setenv("STANDIN_MEMORY", "10000000", 1);
    assert_int_equal(cudaMalloc(&others, 2000000), 0);
    CHECK(open_memory(NULL, 0, &ground, E));
    assert_in_range(ground->capacity, 7180000, 7200000); /* nine tenths */
    tn__device_arena_close(ground);
    standin_fail("cudaMalloc", 1, 2); /* not in one piece */
    standin_fail("cudaMalloc", 1, 2);
    CHECK(open_memory(NULL, 0, &ground, E));
    assert_in_range(ground->capacity, 5580000, 5600000);
    tn__device_arena_close(ground);
    standin_reset();
    assert_int_equal(cudaFree(others), 0);
    unsetenv("STANDIN_MEMORY");
}

static void what_is_no_block_is_refused(void **state) {
    tn__device_arena *ground;
    tn_error error = {0};
    void *block;
    (void)state;
    CHECK(open_memory(NULL, 1 << 20, &ground, E));
    CHECK(get(ground, 5000, NULL, &block, E));
    assert_int_equal(tn__device_arena_free(ground, (char *)block + 512, &error), TN_E_INVALID);
    assert_int_equal(tn__device_arena_free(ground, &block, &error), TN_E_INVALID);
    assert_int_equal(tn__device_arena_use(ground, (char *)block - 1, NULL, &error), TN_E_INVALID);
    CHECK(tn__device_arena_free(ground, block, E));
    assert_int_equal(tn__device_arena_free(ground, block, &error), TN_E_INVALID);
    assert_non_null(strstr(error.message, "freed before, or never given"));
    tn__device_arena_close(ground);
}

/* Blocks by the thousand, against a plain list: the table of blocks, and the trace that is left. */
static void what_is_recorded_is_what_happened(void **state) {
    enum { LIVE = 700, STEPS = 6000 };
    static void *live[LIVE];
    char path[64];
    tn__device_arena *ground;
    void *streams[2];
    uint32_t count = 0, made = 0;
    uint64_t random = 11, event_count;
    (void)state;
    make_streams(streams, 2);
    snprintf(path, sizeof path, "/tmp/tenure-torch-%ld.csv", (long)getpid());
    tn__device_arena_options options = {
        .pool = "iteration", .memory = memory, .budget = 64 << 20, .trace = path};
    CHECK(tn__device_arena_open(&options, &cuda, 0, &ground, E));
    for (uint32_t i = 0; i < STEPS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        if (count == LIVE || (count > 0 && random >> 62 == 0)) {
            uint32_t at = (uint32_t)(random >> 33) % count;
            CHECK(tn__device_arena_free(ground, live[at], E));
            live[at] = live[--count];
        } else {
            void *stream = streams[random >> 40 & 1];
            CHECK(tn__device_arena_alloc(ground, 1 + (random >> 33) % 20000, stream,
                                         made % 3 == 0 ? "a.py:3" : NULL, &live[count++], E));
            made++;
        }
    }
    assert_int_equal(ground->table.count, count);
    tn__device_arena_close(ground);
    end_streams(streams, 2);
    tn_pool_trace *trace;
    CHECK(tn_pool_trace_load(path, NULL, &trace, E));
    const tn_pool_event *events = tn_pool_trace_events(trace, &event_count);
    assert_int_equal(event_count, STEPS);
    assert_int_equal(tn_pool_trace_block_count(trace), made);
    assert_string_equal(tn_pool_trace_label(trace, events[0].label)->name, "a.py:3");
    tn_pool_trace_destroy(trace);
    unlink(path);
}

int main(void) {
    tn_error error = {0};
    setenv("TENURE_CUDART", TENURE_STANDIN, 1);
    setenv("TENURE_CUDA", TENURE_STANDIN, 1);
    setenv("STANDIN_GRANULE", "4096", 1);
    setenv("STANDIN_DEVICES", "2", 1);
    if (tn__cuda_load(&cuda, &error) != TN_OK) return fprintf(stderr, "%s\n", error.message), 1;
    const struct CMUnitTest both[] = {
        cmocka_unit_test(late_streams_are_waited_for),
        cmocka_unit_test(who_shared_a_block_is_waited_for),
        cmocka_unit_test(each_call_of_cuda_fails_in_turn),
        cmocka_unit_test(nothing_goes_to_the_device_of_somebody_else),
        cmocka_unit_test(memory_of_the_host_fails_in_turn),
        cmocka_unit_test(the_budget_is_the_bound),
        cmocka_unit_test(what_is_no_block_is_refused),
        cmocka_unit_test(what_is_recorded_is_what_happened),
    };
    const struct CMUnitTest block[] = {
        cmocka_unit_test(a_block_that_the_device_has_not),
        cmocka_unit_test(without_a_budget_it_takes_what_is_there),
    };
    const struct CMUnitTest granules[] = {
        cmocka_unit_test(granules_are_had_as_they_are_needed),
        cmocka_unit_test(holes_cost_addresses_alone),
    };
    memory = TN__DEVICE_ARENA_BLOCK;
    int failed = cmocka_run_group_tests(both, NULL, NULL);
    failed += cmocka_run_group_tests(block, NULL, NULL);
    memory = TN__DEVICE_ARENA_PAGES;
    failed += cmocka_run_group_tests(both, NULL, NULL);
    return failed + cmocka_run_group_tests(granules, NULL, NULL);
}
