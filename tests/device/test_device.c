/* What is the host's own: guard pages, functions on streams, the link. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tenure/engine.h>

#include "base/base.h"
#include "support.h"

#define CHECK(call)                                                                                \
    do {                                                                                           \
        tn_error check_error = {0};                                                                \
        tn_status check_status = (call);                                                           \
        if (check_status != TN_OK) fail_msg("%s: %s\n", #call, check_error.message);               \
    } while (0)
#define E &check_error /* the error of the CHECK that it stands in */

static tn_device *host(double link_bytes_per_s) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    tn_device *device = NULL;
    options.device = "host";
    options.link_bytes_per_s = link_bytes_per_s;
    CHECK(tn_device_create(&options, &device, E));
    return device;
}

/* --- guard pages --- */

static void end_faulted(int number) {
    (void)number;
    _exit(99);
}

/* Whether reading (or writing) the byte faults, in a child. */
static bool faults(volatile char *byte, bool writes) {
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGSEGV, end_faulted);
        signal(SIGBUS, end_faulted);
        if (writes)
            *byte = 1;
        else
            (void)*byte;
        _exit(0);
    }
    int result = 0;
    assert_true(waitpid(child, &result, 0) == child);
    assert_true(WIFEXITED(result) && (WEXITSTATUS(result) == 0 || WEXITSTATUS(result) == 99));
    return WEXITSTATUS(result) == 99;
}

static void a_byte_outside_a_block_faults_on_both_sides(void **state) {
    (void)state;
    const uint64_t sizes[] = {1, 63, 64, 100, 4096, 4097, 1 << 20, (5 << 20) + 1};
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    tn_device *device = host(0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        tn_address address;
        CHECK(tn_device_alloc(device, sizes[i], &address, E));
        char *bytes = tn_device_pointer(device, address);
        uint64_t rounded = (sizes[i] + 63) / 64 * 64, before = (page - rounded % page) % page;
        assert_false(faults(bytes, true));
        assert_false(faults(bytes + sizes[i] - 1, true));
        for (int writes = 0; writes < 2; writes++) {
            assert_true(faults(bytes + rounded, writes)); /* the first behind the alignment */
            assert_true(faults(bytes + rounded + page - 1, writes));
            assert_true(faults(bytes - before - 1, writes)); /* the first page below */
            assert_true(faults(bytes - before - page, writes));
        }
        tn_device_free(device, address);
    }
    tn_device_destroy(device);
}

static void a_device_address_is_no_pointer(void **state) {
    (void)state;
    tn_device *device = host(0);
    tn_address address;
    CHECK(tn_device_alloc(device, 4096, &address, E));
    assert_true(faults((char *)(uintptr_t)address, false));
    assert_true(faults((char *)(uintptr_t)address, true));
    char *bytes = tn_device_pointer(device, address);
    assert_true(tn_device_pointer(device, address + 100) == bytes + 100);
    assert_true(tn_device_pointer(device, address + 4096) == bytes + 4096); /* of no bytes */
    assert_null(tn_device_pointer(device, address + 4097));
    assert_null(tn_device_pointer(device, address - 1));
    assert_null(tn_device_pointer(device, 0));
    assert_true(tn_device_limits_of(device).host_kernels);
    tn_device_destroy(device);
}

/* --- functions on streams --- */

typedef struct gate { /* work that waits until the test lets it go on */
    atomic_int is_open;
    atomic_int passed;
} gate;

static void sleep_ms(long ms) {
    struct timespec time = {.tv_sec = 0, .tv_nsec = ms * 1000000};
    nanosleep(&time, NULL);
}

static tn_status gate_wait(void *self, tn_error *error) {
    gate *at = self;
    (void)error;
    while (!atomic_load(&at->is_open)) sleep_ms(1);
    atomic_store(&at->passed, 1);
    return TN_OK;
}

static tn_status count_up(void *self, tn_error *error) {
    (void)error;
    ++*(int *)self; /* not atomic: order is the stream's promise */
    return TN_OK;
}

static void what_is_queued_returns_at_once(void **state) {
    enum { COUNT = 1000 };
    (void)state;
    tn_device *device = host(0);
    tn_stream *stream;
    tn_address block;
    gate first = {0};
    int count = 0;
    char bytes[COUNT], back[COUNT] = "";
    for (int i = 0; i < COUNT; i++) bytes[i] = (char)i;
    CHECK(tn_stream_create(device, 0, &stream, E));
    CHECK(tn_device_alloc(device, COUNT, &block, E));
    CHECK(tn_device_launch(stream, gate_wait, &first, E));
    for (uint64_t i = 0; i < COUNT; i++) {
        CHECK(tn_device_put(stream, block + i, bytes + i, 1, E));
        CHECK(tn_device_launch(stream, count_up, &count, E));
    }
    CHECK(tn_device_get(stream, back, block, COUNT, E));
    assert_int_equal(atomic_load(&first.passed), 0);
    atomic_store(&first.is_open, 1);
    CHECK(tn_stream_wait(stream, E));
    assert_int_equal(count, COUNT);
    assert_memory_equal(bytes, back, COUNT);
    tn_stream_destroy(stream);
    tn_device_destroy(device);
}

static tn_status fail_with(void *self, tn_error *error) {
    snprintf(error->message, sizeof error->message, "failure %d", *(int *)self);
    return TN_E_CONFLICT;
}

static void errors_stick_until_they_are_told(void **state) {
    (void)state;
    tn_device *device = host(0);
    tn_stream *a, *b;
    tn_fence *fence;
    tn_error error = {0};
    int one = 1, two = 2, count = 0, after = 0;
    CHECK(tn_stream_create(device, 0, &a, E));
    CHECK(tn_stream_create(device, 0, &b, E));
    CHECK(tn_fence_create(device, &fence, E));
    CHECK(tn_device_launch(a, count_up, &count, E));
    CHECK(tn_device_launch(a, fail_with, &one, E));
    CHECK(tn_device_launch(a, count_up, &count, E)); /* left out */
    CHECK(tn_device_launch(a, fail_with, &two, E));
    CHECK(tn_fence_record(fence, a, E));
    CHECK(tn_fence_wait(fence, b, E));
    CHECK(tn_device_launch(b, count_up, &after, E));
    CHECK(tn_stream_wait(b, E));
    assert_int_equal(after, 1);
    assert_int_equal(tn_stream_wait(a, &error), TN_E_CONFLICT);
    assert_string_equal(error.message, "failure 1");
    assert_int_equal(error.status, TN_E_CONFLICT);
    assert_int_equal(count, 1);
    CHECK(tn_stream_wait(a, E));
    CHECK(tn_device_launch(a, count_up, &count, E));
    CHECK(tn_stream_wait(a, E));
    assert_int_equal(count, 2);
    CHECK(tn_device_launch(a, fail_with, &two, E));
    assert_int_equal(tn_stream_wait(a, NULL), TN_E_CONFLICT);
    CHECK(tn_device_launch(a, fail_with, &two, E)); /* told to nobody */
    tn_stream_destroy(a);
    CHECK(tn_stream_create(device, 0, &a, E));
    CHECK(tn_stream_wait(a, E)); /* nor inherited */
    tn_stream_destroy(a);
    tn_stream_destroy(b);
    tn_fence_destroy(fence);
    tn_device_destroy(device);
}

static tn_status note_thread(void *self, tn_error *error) {
    (void)error;
    *(pthread_t *)self = pthread_self();
    return TN_OK;
}

static void an_inline_stream_works_in_the_calling_thread(void **state) {
    (void)state;
    tn_device *device = host(0);
    tn_stream *here, *there;
    tn_fence *fence;
    tn_error error = {0};
    pthread_t thread = pthread_self(), seen;
    int three = 3, count = 0;
    gate late = {0};
    CHECK(tn_stream_create(device, TN_STREAM_INLINE, &here, E));
    CHECK(tn_stream_create(device, 0, &there, E));
    CHECK(tn_fence_create(device, &fence, E));
    CHECK(tn_device_launch(here, note_thread, &seen, E));
    assert_true(pthread_equal(seen, thread));
    CHECK(tn_device_launch(there, note_thread, &seen, E));
    CHECK(tn_stream_wait(there, E));
    assert_false(pthread_equal(seen, thread));
    CHECK(tn_device_launch(here, count_up, &count, E));
    assert_int_equal(count, 1);
    assert_int_equal(tn_device_launch(here, fail_with, &three, &error), TN_E_CONFLICT);
    assert_string_equal(error.message, "failure 3");
    CHECK(tn_stream_wait(here, E));
    /* it waits for others in its calls, and others for it */
    CHECK(tn_device_launch(there, gate_wait, &late, E));
    CHECK(tn_device_launch(there, count_up, &count, E));
    CHECK(tn_fence_record(fence, there, E));
    atomic_store(&late.is_open, 1);
    CHECK(tn_fence_wait(fence, here, E));
    assert_int_equal(count, 2);
    CHECK(tn_fence_record(fence, here, E));
    CHECK(tn_fence_wait(fence, there, E));
    CHECK(tn_device_launch(there, count_up, &count, E));
    CHECK(tn_stream_wait(there, E));
    assert_int_equal(count, 3);
    tn_stream_destroy(here);
    tn_stream_destroy(there);
    tn_fence_destroy(fence);
    tn_device_destroy(device);
}

/* --- fences --- */

static void a_wait_is_for_the_point_that_the_fence_had(void **state) {
    (void)state;
    tn_device *device = host(0);
    tn_stream *slow, *quick, *waits;
    tn_fence *fence;
    gate first = {0}, last = {.is_open = 1};
    CHECK(tn_stream_create(device, 0, &slow, E));
    CHECK(tn_stream_create(device, 0, &quick, E));
    CHECK(tn_stream_create(device, 0, &waits, E));
    CHECK(tn_fence_create(device, &fence, E));
    CHECK(tn_device_launch(slow, gate_wait, &first, E));
    CHECK(tn_fence_record(fence, slow, E));
    CHECK(tn_fence_wait(fence, waits, E));
    CHECK(tn_device_launch(waits, gate_wait, &last, E));
    CHECK(tn_fence_record(fence, quick, E)); /* moved; the wait above stays */
    CHECK(tn_fence_wait(fence, quick, E));
    CHECK(tn_stream_wait(quick, E));
    sleep_ms(20);
    assert_int_equal(atomic_load(&last.passed), 0);
    atomic_store(&first.is_open, 1);
    CHECK(tn_stream_wait(waits, E));
    assert_int_equal(atomic_load(&last.passed), 1);
    tn_stream_destroy(slow);
    tn_stream_destroy(quick);
    tn_stream_destroy(waits);
    tn_fence_destroy(fence);
    tn_device_destroy(device);
}

enum { NODES = 60, LANES = 4 };

typedef struct dag_node { /* sees that all before it are done; plain memory, for TSan too */
    struct dag_node *nodes;
    uint32_t id, before[NODES], before_count;
    uint32_t done, missing;
} dag_node;

static tn_status dag_run(void *self, tn_error *error) {
    dag_node *node = self;
    (void)error;
    for (uint32_t i = 0; i < node->before_count; i++)
        node->missing += node->nodes[node->before[i]].done != 1;
    for (volatile uint32_t spin = node->id * 37 % 500; spin > 0; spin--) continue;
    node->done++;
    return TN_OK;
}

static void fences_order_streams_as_a_random_graph_says(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        tn__random random = {seed};
        tn_device *device = host(0);
        tn_stream *streams[LANES];
        tn_fence *fences[NODES];
        dag_node *nodes = calloc(NODES, sizeof *nodes);
        for (uint32_t i = 0; i < LANES; i++) CHECK(tn_stream_create(device, 0, &streams[i], E));
        for (uint32_t i = 0; i < NODES; i++) {
            tn_stream *stream = streams[tn__random_below(&random, LANES)];
            nodes[i].nodes = nodes;
            nodes[i].id = i;
            for (uint32_t edges = (uint32_t)tn__random_below(&random, 4); edges > 0 && i > 0;
                 edges--) {
                uint32_t before = (uint32_t)tn__random_below(&random, i);
                nodes[i].before[nodes[i].before_count++] = before;
                CHECK(tn_fence_wait(fences[before], stream, E));
            }
            CHECK(tn_device_launch(stream, dag_run, &nodes[i], E));
            CHECK(tn_fence_create(device, &fences[i], E));
            CHECK(tn_fence_record(fences[i], stream, E));
        }
        for (uint32_t i = 0; i < LANES; i++) CHECK(tn_stream_wait(streams[i], E));
        for (uint32_t i = 0; i < NODES; i++) {
            if (nodes[i].done != 1 || nodes[i].missing != 0)
                fail_msg("seed %llu: node %u ran %u times, %u before it had not\n",
                         (unsigned long long)seed, i, nodes[i].done, nodes[i].missing);
            tn_fence_destroy(fences[i]);
        }
        for (uint32_t i = 0; i < LANES; i++) tn_stream_destroy(streams[i]);
        tn_device_destroy(device);
        free(nodes);
    }
}

/* --- the link --- */

static void the_link_takes_its_time(void **state) {
    enum { SIZE = 1000000 };
    (void)state;
    const double rate = 20e6; /* 50 ms for SIZE */
    tn_device *device = host(rate);
    tn_stream *a, *b, *here;
    tn_address block;
    char *bytes = malloc(2 * SIZE), *back = calloc(1, 2 * SIZE);
    for (int i = 0; i < 2 * SIZE; i++) bytes[i] = (char)(i * 7 + i / 1000);
    assert_true(tn_device_limits_of(device).link_bytes_per_s == rate);
    CHECK(tn_stream_create(device, 0, &a, E));
    CHECK(tn_stream_create(device, 0, &b, E));
    CHECK(tn_stream_create(device, TN_STREAM_INLINE, &here, E));
    CHECK(tn_device_alloc(device, 2 * SIZE, &block, E));
    double start = tn__clock_s();
    CHECK(tn_device_put(here, block, bytes, SIZE, E));
    assert_true(tn__clock_s() - start >= SIZE / rate);
    start = tn__clock_s(); /* two streams share one direction */
    CHECK(tn_device_put(a, block, bytes, SIZE, E));
    CHECK(tn_device_put(b, block + SIZE, bytes + SIZE, SIZE, E));
    CHECK(tn_stream_wait(a, E));
    CHECK(tn_stream_wait(b, E));
    assert_true(tn__clock_s() - start >= 2 * SIZE / rate);
    start = tn__clock_s();
    CHECK(tn_device_get(a, back, block, 2 * SIZE, E));
    CHECK(tn_stream_wait(a, E));
    assert_true(tn__clock_s() - start >= 2 * SIZE / rate);
    assert_memory_equal(bytes, back, 2 * SIZE);
    tn_stream_destroy(a);
    tn_stream_destroy(b);
    tn_stream_destroy(here);
    tn_device_destroy(device);
    free(bytes);
    free(back);
}

/* Small copies, one behind the other, both ways at once: each way takes what its bytes take at that
 * rate, not what both take, and not what a thread is late for each of them. */
static void both_ways_of_the_link_keep_their_own_time(void **state) {
    enum { SIZE = 20000, COPIES = 200 };
    (void)state;
    const double rate = 40e6, each_s = SIZE / rate; /* 0.5 ms; 100 ms each way */
    double best = 1e9;
    for (int attempt = 0; attempt < 10 && best > 1.3 * COPIES * each_s; attempt++) {
        tn_device *device = host(rate);
        tn_stream *ways[2];
        tn_address block;
        tn_fence *last;
        char *bytes = calloc(2, SIZE);
        for (int i = 0; i < 2; i++) CHECK(tn_stream_create(device, 0, &ways[i], E));
        CHECK(tn_stream_reserve(ways[0], COPIES + 1, E));
        CHECK(tn_fence_create(device, &last, E));
        CHECK(tn_device_alloc(device, 2 * SIZE, &block, E));
        assert_true(tn_fence_passed(last)); /* never recorded */
        double start = tn__clock_s();
        for (int i = 0; i < COPIES; i++) {
            CHECK(tn_device_put(ways[0], block, bytes, SIZE, E));
            CHECK(tn_device_get(ways[1], bytes + SIZE, block + SIZE, SIZE, E));
        }
        CHECK(tn_fence_record(last, ways[0], E));
        bool passed = tn_fence_passed(last);
        if (tn__clock_s() - start < COPIES * each_s) assert_false(passed);
        CHECK(tn_stream_wait(ways[0], E));
        assert_true(tn_fence_passed(last));
        CHECK(tn_stream_wait(ways[1], E));
        double took = tn__clock_s() - start;
        assert_true(took >= COPIES * each_s);
        if (took < best) best = took;
        for (int i = 0; i < 2; i++) tn_stream_destroy(ways[i]);
        tn_fence_destroy(last);
        tn_device_destroy(device);
        free(bytes);
    }
    printf("both ways: %.4f s, %.4f s by the rate\n", best, COPIES * each_s);
    assert_true(best <= 1.3 * COPIES * each_s); /* one after the other: 2 */
}

static void a_slow_link_moves_every_byte(void **state) {
    (void)state;
    tn_device *device = host(1000);
    tn_stream *stream;
    tn_address block;
    char bytes[8] = "7 bytes", back[8] = "";
    CHECK(tn_stream_create(device, 0, &stream, E));
    CHECK(tn_device_alloc(device, 8, &block, E));
    double start = tn__clock_s();
    CHECK(tn_device_put(stream, block, bytes, 8, E));
    CHECK(tn_device_get(stream, back, block, 8, E));
    CHECK(tn_stream_wait(stream, E));
    assert_true(tn__clock_s() - start >= 0.016);
    assert_string_equal(back, bytes);
    tn_stream_destroy(stream);
    tn_device_destroy(device);
}

/* --- several threads, one device --- */

static void *use_blocks(void *self) {
    tn_device *device = self;
    tn_stream *stream;
    tn_error error;
    uint64_t failures = 0, number = (uint64_t)(uintptr_t)&error;
    if (tn_stream_create(device, 0, &stream, &error) != TN_OK) return device;
    for (int i = 0; i < 200; i++) {
        tn_address block;
        uint64_t back = 0;
        if (tn_device_alloc(device, sizeof number + (uint64_t)i, &block, &error) != TN_OK) {
            failures++;
            continue;
        }
        if (tn_device_put(stream, block, &number, sizeof number, &error) != TN_OK ||
            tn_device_get(stream, &back, block, sizeof back, &error) != TN_OK ||
            tn_stream_wait(stream, &error) != TN_OK || back != number)
            failures++;
        tn_device_free(device, block);
    }
    tn_stream_destroy(stream);
    return failures == 0 ? NULL : device;
}

static void threads_share_a_device(void **state) {
    enum { THREADS = 4 };
    (void)state;
    tn_device *device = host(0);
    pthread_t threads[THREADS];
    tn_device_usage usage;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, use_blocks, device), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
    tn_device_measure(device, &usage);
    assert_int_equal(usage.allocated, 0);
    assert_int_equal(usage.alloc_count, THREADS * 200);
    assert_int_equal(usage.free_count, THREADS * 200);
    assert_int_equal(usage.put_bytes, THREADS * 200 * 8);
    tn_device_destroy(device);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(a_byte_outside_a_block_faults_on_both_sides),
        cmocka_unit_test(a_device_address_is_no_pointer),
        cmocka_unit_test(what_is_queued_returns_at_once),
        cmocka_unit_test(errors_stick_until_they_are_told),
        cmocka_unit_test(an_inline_stream_works_in_the_calling_thread),
        cmocka_unit_test(a_wait_is_for_the_point_that_the_fence_had),
        cmocka_unit_test(fences_order_streams_as_a_random_graph_says),
        cmocka_unit_test(the_link_takes_its_time),
        cmocka_unit_test(both_ways_of_the_link_keep_their_own_time),
        cmocka_unit_test(a_slow_link_moves_every_byte),
        cmocka_unit_test(threads_share_a_device),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
