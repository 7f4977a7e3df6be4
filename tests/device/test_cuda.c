/* What is CUDA's own, on the stand-in: libraries that are not what they should be, a device that is
 * lost, which one is current; and that the stand-in sees mistakes. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/engine.h>

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

static tn_status open_cuda(const char *name, tn_device **device, tn_error *error) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    options.device = name;
    *device = NULL;
    return tn_device_create(&options, device, error);
}

/* The error has the words, in that order. */
static void expect_refused(const char *name, tn_status status, const char *words) {
    tn_device *device;
    tn_error error = {0};
    assert_int_equal(open_cuda(name, &device, &error), status);
    assert_null(device);
    if (strstr(error.message, words) == NULL) fail_msg("'%s' not in: %s\n", words, error.message);
    if (status == TN_E_UNSUPPORTED) assert_int_equal(tn_status_exit_code(status), 2);
}

static void libraries_that_are_not_what_they_should_be_are_refused(void **state) {
    (void)state;
    setenv("TENURE_CUDART", "nowhere/libcudart.so", 1);
    expect_refused("cuda", TN_E_UNSUPPORTED, "TENURE_CUDART cannot be loaded");
    setenv("TENURE_CUDART", TENURE_STANDIN_LACKS, 1);
    expect_refused("cuda", TN_E_UNSUPPORTED, "has no cudaGetLastError; install");
    setenv("TENURE_OPENCL", TENURE_STANDIN, 1);
    expect_refused("opencl", TN_E_UNSUPPORTED, "has no clGetPlatformIDs; install");
    setenv("TENURE_OPENCL", "nowhere/libOpenCL.so", 1);
    expect_refused("opencl", TN_E_UNSUPPORTED, "TENURE_OPENCL cannot be loaded");
    unsetenv("TENURE_OPENCL");
    setenv("TENURE_CUDART", TENURE_STANDIN, 1);
    setenv("STANDIN_VERSION", "10020", 1);
    expect_refused("cuda", TN_E_UNSUPPORTED, "version 10.2; 11.0 or later is needed");
    unsetenv("STANDIN_VERSION");
    setenv("STANDIN_DEVICES", "0", 1);
    expect_refused("cuda", TN_E_UNSUPPORTED, "no CUDA device: no CUDA-capable device is detected");
    setenv("STANDIN_DEVICES", "2", 1);
    expect_refused("cuda:2", TN_E_UNSUPPORTED, "no CUDA device 2; they are counted from 0 to 1");
    expect_refused("cuda:4000000000", TN_E_UNKNOWN, "no device 'cuda:4000000000'");
    expect_refused("cuda:", TN_E_UNKNOWN, "no device 'cuda:'");
    expect_refused("cuda:x", TN_E_UNKNOWN, "no device 'cuda:x'");
    expect_refused("host:1", TN_E_UNSUPPORTED, "there is one host");
    tn_device *device;
    tn_error error;
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    options.device = "cuda";
    options.link_bytes_per_s = 1e9;
    assert_int_equal(tn_device_create(&options, &device, &error), TN_E_UNSUPPORTED);
}

/* Each function of the runtime fails in turn: an error, and nothing is left behind. */
static tn_status use_all(tn_device **device, tn_stream *streams[2], tn_fence **fence,
                         tn_error *error) {
    static char bytes[100] = "there", back[100]; /* a copy may outlive the call */
    tn_address block[2];
    TN_TRY(open_cuda("cuda:1", device, error));
    for (uint32_t i = 0; i < 2; i++) {
        TN_TRY(tn_stream_create(*device, i == 0 ? TN_STREAM_INLINE : 0, &streams[i], error));
        TN_TRY(tn_device_alloc(*device, sizeof bytes, &block[i], error));
    }
    TN_TRY(tn_fence_create(*device, fence, error));
    TN_TRY(tn_device_put(streams[1], block[0], bytes, sizeof bytes, error));
    TN_TRY(tn_device_copy(streams[1], block[1], block[0], sizeof bytes, error));
    TN_TRY(tn_fence_record(*fence, streams[1], error));
    TN_TRY(tn_fence_wait(*fence, streams[1], error));
    TN_TRY(tn_fence_wait(*fence, streams[0], error));
    TN_TRY(tn_device_get(streams[0], back, block[1], sizeof back, error));
    tn_status status = tn_stream_wait(streams[1], error);
    if (status == TN_OK) assert_memory_equal(bytes, back, sizeof bytes);
    return status;
}

static void a_call_that_fails_is_an_error_and_leaks_nothing(void **state) {
    static const char *const functions[] = {"cudaRuntimeGetVersion", "cudaGetDeviceCount",
                                            "cudaMemGetInfo",        "cudaMalloc",
                                            "cudaMemsetAsync",       "cudaStreamCreateWithFlags",
                                            "cudaMemcpyAsync",       "cudaEventCreateWithFlags",
                                            "cudaEventRecord",       "cudaStreamWaitEvent",
                                            "cudaEventSynchronize",  "cudaStreamSynchronize"};
    (void)state;
    setenv("STANDIN_DEVICES", "2", 1);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        tn_status status = TN_E_IO;
        unsigned nth = 0;
        while (status != TN_OK) {
            tn_device *device = NULL;
            tn_stream *streams[2] = {NULL, NULL};
            tn_fence *fence = NULL;
            tn_error error = {0};
            nth++;
            standin_fail(functions[f], nth, nth % 2 != 0 ? 2 : 46);
            status = use_all(&device, streams, &fence, &error);
            standin_reset();
            if (status != TN_OK) assert_true(error.message[0] != '\0');
            tn_fence_destroy(fence);
            for (uint32_t i = 0; i < 2; i++) tn_stream_destroy(streams[i]);
            tn_device_destroy(device);
            assert_int_equal(standin_used(1), 0);
            assert_int_equal(standin_live(), 0);
        }
        assert_true(nth > 1);
    }
}

/* What cannot be made the current device is asked for nothing, and no other one in its place. */
static void nothing_goes_to_the_device_of_somebody_else(void **state) {
    static const char *const functions[] = {"cudaGetDevice", "cudaSetDevice"};
    (void)state;
    setenv("STANDIN_DEVICES", "2", 1);
    for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
        uint64_t calls = 1, refused = 0;
        for (uint64_t nth = 1; nth <= calls + 1; nth++) {
            tn_device *device = NULL;
            tn_stream *streams[2] = {NULL, NULL};
            tn_fence *fence = NULL;
            tn_error error = {0};
            assert_int_equal(cudaSetDevice(0), 0);
            uint64_t before = standin_calls(functions[f]);
            standin_fail(functions[f], (unsigned)nth, 46);
            refused += use_all(&device, streams, &fence, &error) != TN_OK;
            calls = standin_calls(functions[f]) - before;
            standin_reset();
            assert_int_equal(standin_used(0), 0);
            tn_fence_destroy(fence);
            for (uint32_t i = 0; i < 2; i++) tn_stream_destroy(streams[i]);
            tn_device_destroy(device);
            assert_int_equal(standin_used(1), 0);
            assert_int_equal(standin_live(), 0);
        }
        assert_true(refused >= 12); /* a call each of opening, streams, blocks, copies, fences */
    }
    assert_int_equal(cudaSetDevice(0), 0);
}

static void a_device_that_is_lost_says_so_and_can_be_closed(void **state) {
    (void)state;
    tn_device *device;
    tn_stream *stream;
    tn_fence *fence;
    tn_address block, more = 77;
    tn_error error = {0};
    static char bytes[64] = "";
    CHECK(open_cuda("cuda", &device, E));
    CHECK(tn_stream_create(device, 0, &stream, E));
    CHECK(tn_fence_create(device, &fence, E));
    CHECK(tn_device_alloc(device, sizeof bytes, &block, E));
    standin_fail("copy", 1, STANDIN_LOST);
    CHECK(tn_device_put(stream, block, bytes, sizeof bytes, E));
    assert_int_equal(tn_stream_wait(stream, &error), TN_E_IO);
    assert_non_null(strstr(error.message, "cudaErrorLaunchFailure"));
    assert_int_equal(tn_status_exit_code(TN_E_IO), 2);
    assert_int_equal(tn_device_put(stream, block, bytes, sizeof bytes, &error), TN_E_IO);
    assert_int_equal(tn_device_get(stream, bytes, block, sizeof bytes, &error), TN_E_IO);
    assert_int_equal(tn_fence_record(fence, stream, &error), TN_E_IO);
    assert_int_equal(tn_fence_wait(fence, stream, &error), TN_E_IO);
    assert_true(tn_fence_passed(fence)); /* nobody waits for it for ever */
    assert_int_equal(tn_device_alloc(device, 10, &more, &error), TN_E_IO);
    assert_int_equal(more, 77);
    standin_reset();
    tn_fence_destroy(fence);
    tn_stream_destroy(stream);
    tn_device_destroy(device);
    assert_int_equal(standin_used(0), 0);
}

static void who_uses_another_device_finds_it_still_current(void **state) {
    (void)state;
    setenv("STANDIN_DEVICES", "3", 1);
    tn_device *device;
    tn_stream *stream;
    tn_address block;
    char bytes[10] = "number";
    int now = 7;
    assert_int_equal(cudaSetDevice(2), 0);
    CHECK(open_cuda("cuda:1", &device, E));
    CHECK(tn_stream_create(device, TN_STREAM_INLINE, &stream, E));
    CHECK(tn_device_alloc(device, sizeof bytes, &block, E));
    CHECK(tn_device_put(stream, block, bytes, sizeof bytes, E));
    assert_int_equal(standin_used(1), sizeof bytes);
    assert_int_equal(standin_used(2), 0);
    tn_stream_destroy(stream);
    tn_device_destroy(device);
    assert_int_equal(cudaGetDevice(&now), 0);
    assert_int_equal(now, 2);
    assert_int_equal(cudaSetDevice(0), 0);
}

static void the_memory_of_a_device_is_the_bound(void **state) {
    (void)state;
    setenv("STANDIN_MEMORY", "100000", 1);
    tn_device *device;
    tn_address block;
    void *others;
    tn_error error;
    assert_int_equal(cudaMalloc(&others, 30000), 0);
    CHECK(open_cuda("cuda", &device, E));
    assert_int_equal(tn_device_limits_of(device).capacity, 70000); /* what is left of it */
    assert_int_equal(cudaFree(others), 0);
    assert_int_equal(cudaMalloc(&others, 60000), 0); /* and is taken meanwhile */
    assert_int_equal(tn_device_alloc(device, 50000, &block, &error), TN_E_NO_MEMORY);
    assert_non_null(strstr(error.message, "a block of 48.8 KiB"));
    CHECK(tn_device_alloc(device, 40000, &block, E));
    tn_device_destroy(device);
    assert_int_equal(cudaFree(others), 0);
    unsetenv("STANDIN_MEMORY");
}

/* --- the stand-in --- */

static void *freed(void) {
    void *block;
    assert_int_equal(cudaMalloc(&block, 100), 0);
    assert_int_equal(cudaFree(block), 0);
    return block;
}

static void copy_to_freed(void) {
    static char bytes[10];
    (void)cudaMemcpyAsync(freed(), bytes, sizeof bytes, 1, NULL);
}
static void copy_too_much(void) {
    void *block;
    (void)cudaMalloc(&block, 100);
    (void)cudaMemsetAsync(block, 0, 101, NULL);
}
static void copy_wrong_way(void) {
    static char bytes[10];
    void *block;
    (void)cudaMalloc(&block, 100);
    (void)cudaMemcpyAsync(bytes, block, sizeof bytes, 1, NULL);
}
static void free_twice(void) { (void)cudaFree(freed()); }
static void record_destroyed(void) {
    void *event;
    (void)cudaEventCreateWithFlags(&event, 2);
    (void)cudaEventDestroy(event);
    (void)cudaEventRecord(event, NULL);
}
static void use_destroyed(void) {
    void *stream;
    (void)cudaStreamCreateWithFlags(&stream, 1);
    (void)cudaStreamDestroy(stream);
    (void)cudaStreamSynchronize(stream);
}
static void nap(void *self) {
    (void)self;
    usleep(200000);
}
static void sleep_long(void *self) {
    (void)self;
    sleep(1200); /* the check that ends the process comes first, however late */
}
static void free_while_used(void) {
    void *block;
    (void)cudaMalloc(&block, 100);
    (void)cudaLaunchHostFunc(NULL, sleep_long, NULL);
    (void)cudaMemsetAsync(block, 0, 100, NULL);
    (void)cudaFree(block);
}

static void note_turn(void *self) {
    static int turn; /* streams hold no lock while they call, but wait for each other here */
    *(int *)self = ++turn;
}

/* What waits for an event waits for where it was then, though it is recorded elsewhere before. */
static void an_event_that_moves_takes_nobody_along(void **state) {
    void *streams[3], *event;
    int first = 0, second = 0;
    (void)state;
    for (int i = 0; i < 3; i++) assert_int_equal(cudaStreamCreateWithFlags(&streams[i], 1), 0);
    assert_int_equal(cudaEventCreateWithFlags(&event, 2), 0);
    assert_int_equal(cudaLaunchHostFunc(streams[0], nap, NULL), 0);
    assert_int_equal(cudaLaunchHostFunc(streams[0], note_turn, &first), 0);
    assert_int_equal(cudaEventRecord(event, streams[0]), 0);
    assert_int_equal(cudaStreamWaitEvent(streams[1], event, 0), 0);
    assert_int_equal(cudaEventRecord(event, streams[2]), 0);
    assert_int_equal(cudaLaunchHostFunc(streams[1], note_turn, &second), 0);
    for (int i = 0; i < 3; i++) assert_int_equal(cudaStreamDestroy(streams[i]), 0);
    assert_int_equal(cudaEventDestroy(event), 0);
    assert_true(first == 1 && second == 2);
}

static void the_stand_in_sees_mistakes(void **state) {
    static const struct {
        void (*act)(void);
        const char *name;
    } mistakes[] = {{copy_to_freed, "copy to freed memory"},  {copy_too_much, "a byte too much"},
                    {copy_wrong_way, "wrong direction"},      {free_twice, "free twice"},
                    {record_destroyed, "destroyed event"},    {use_destroyed, "destroyed stream"},
                    {free_while_used, "free of what is used"}};
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        int result = 0;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            signal(SIGABRT, SIG_DFL);
            if (freopen("/dev/null", "w", stderr) == NULL) _exit(1);
            mistakes[i].act();
            _exit(0);
        }
        assert_true(waitpid(child, &result, 0) == child);
        if (!WIFSIGNALED(result) || WTERMSIG(result) != SIGABRT)
            fail_msg("the stand-in lets pass: %s\n", mistakes[i].name);
    }
}

int main(void) {
    setenv("TENURE_CUDART", TENURE_STANDIN, 1);
    const struct CMUnitTest all[] = {
        cmocka_unit_test(the_stand_in_sees_mistakes), /* forks: before there are threads */
        cmocka_unit_test(an_event_that_moves_takes_nobody_along),
        cmocka_unit_test(libraries_that_are_not_what_they_should_be_are_refused),
        cmocka_unit_test(a_call_that_fails_is_an_error_and_leaks_nothing),
        cmocka_unit_test(nothing_goes_to_the_device_of_somebody_else),
        cmocka_unit_test(a_device_that_is_lost_says_so_and_can_be_closed),
        cmocka_unit_test(who_uses_another_device_finds_it_still_current),
        cmocka_unit_test(the_memory_of_a_device_is_the_bound),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
