/* Every device against a plain model of memory: arrays, and one thing after the other. */
#include <math.h>

#include <tenure/engine.h>

#include "base/base.h"
#include "support.h"

static const char *only; /* the device that this run is about; NULL: all */

#define CHECK(call)                                                                                \
    do {                                                                                           \
        tn_error check_error = {0};                                                                \
        tn_status check_status = (call);                                                           \
        if (check_status != TN_OK) fail_msg("%s: %s\n", #call, check_error.message);               \
    } while (0)
#define E &check_error /* the error of the CHECK that it stands in */

/* NULL where the library of the device is not installed, or it finds no hardware. */
static tn_device *device_named(const char *name, uint64_t capacity, const tn_context *context) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    tn_device *device = NULL;
    tn_error error;
    options.device = name;
    options.capacity = capacity;
    options.context = context;
    tn_status status = tn_device_create(&options, &device, &error);
    if (status == TN_E_UNSUPPORTED) {
        print_message("SKIP: %s: %s\n", name, error.message);
        return NULL;
    }
    if (status != TN_OK) fail_msg("%s: %s\n", name, error.message);
    return device;
}

#define FOR_EACH_DEVICE(name, index)                                                               \
    for (uint32_t index = 0; index < tn_device_count(); index++)                                   \
        for (const char *name = tn_device_name(index); name != NULL; name = NULL)                  \
            if (only == NULL || strcmp(only, name) == 0)

/* --- random copies on several streams ---------------------------------------------------- */

enum { BLOCKS = 4, STREAMS = 3, OPERATIONS = 300, BLOCK_MAX = 20000 };

typedef struct copy_range { /* of a block; blocks from BLOCKS on are host memory */
    uint32_t block;
    uint64_t lo, hi;
} copy_range;

typedef struct copy_operation {
    copy_range to, from;
    uint32_t stream;
    tn_fence *fence; /* after it */
} copy_operation;

typedef struct copy_case {
    tn_device *device;
    tn_stream *streams[STREAMS];
    tn_address address[BLOCKS];
    uint64_t size[BLOCKS];
    uint8_t *host[BLOCKS];      /* what is put and got */
    uint8_t *model[2 * BLOCKS]; /* of the device, of the host */
    copy_operation *done;
    uint32_t count;
} copy_case;

static bool ranges_meet(const copy_range *a, const copy_range *b) {
    return a->block == b->block && a->lo < b->hi && b->lo < a->hi;
}

/* Whether b must wait for a: one of them writes what the other reads or writes. */
static bool operations_meet(const copy_operation *a, const copy_operation *b) {
    return ranges_meet(&a->to, &b->to) || ranges_meet(&a->to, &b->from) ||
           ranges_meet(&a->from, &b->to);
}

static copy_range random_range(const copy_case *test, tn__random *random, bool host,
                               uint64_t size) {
    uint32_t block = (uint32_t)tn__random_below(random, BLOCKS);
    uint64_t room = test->size[block] < size ? test->size[block] : size;
    uint64_t lo = tn__random_below(random, test->size[block] - room + 1);
    return (copy_range){block + (host ? BLOCKS : 0), lo, lo + room};
}

static void copy_queue(const copy_case *test, const copy_operation *operation) {
    const copy_range *to = &operation->to, *from = &operation->from;
    tn_stream *stream = test->streams[operation->stream];
    uint64_t size = to->hi - to->lo;
    if (from->block >= BLOCKS)
        CHECK(tn_device_put(stream, test->address[to->block] + to->lo,
                            test->host[from->block - BLOCKS] + from->lo, size, E));
    else if (to->block >= BLOCKS)
        CHECK(tn_device_get(stream, test->host[to->block - BLOCKS] + to->lo,
                            test->address[from->block] + from->lo, size, E));
    else
        CHECK(tn_device_copy(stream, test->address[to->block] + to->lo,
                             test->address[from->block] + from->lo, size, E));
}

/* One random copy, after all before it that it meets. */
static void copy_step(copy_case *test, tn__random *random) {
    copy_operation *operation = &test->done[test->count];
    uint32_t kind = (uint32_t)tn__random_below(random, 3); /* put, get, copy */
    uint64_t size = tn__random_below(random, tn__random_below(random, 4) ? 200 : BLOCK_MAX);
    operation->stream = (uint32_t)tn__random_below(random, STREAMS);
    do {
        operation->to = random_range(test, random, kind == 1, size);
        operation->from = random_range(test, random, kind == 0, size);
        uint64_t to = operation->to.hi - operation->to.lo;
        uint64_t from = operation->from.hi - operation->from.lo, both = to < from ? to : from;
        operation->to.hi = operation->to.lo + both;
        operation->from.hi = operation->from.lo + both;
    } while (ranges_meet(&operation->to, &operation->from));
    for (uint32_t i = 0; i < test->count; i++) {
        const copy_operation *before = &test->done[i];
        if (operations_meet(before, operation))
            CHECK(tn_fence_wait(before->fence, test->streams[operation->stream], E));
    }
    copy_queue(test, operation);
    CHECK(tn_fence_create(test->device, &operation->fence, E));
    CHECK(tn_fence_record(operation->fence, test->streams[operation->stream], E));
    memcpy(test->model[operation->to.block] + operation->to.lo,
           test->model[operation->from.block] + operation->from.lo,
           operation->to.hi - operation->to.lo);
    test->count++;
}

static void copies_of(const char *name, uint64_t seed) {
    tn__random random = {seed};
    copy_case test = {.device = device_named(name, 0, NULL)};
    if (test.device == NULL) return;
    test.done = calloc(OPERATIONS, sizeof *test.done);
    for (uint32_t i = 0; i < STREAMS; i++)
        CHECK(tn_stream_create(test.device, i == 0 ? TN_STREAM_INLINE : 0, &test.streams[i], E));
    for (uint32_t b = 0; b < BLOCKS; b++) {
        test.size[b] = 1 + tn__random_below(&random, BLOCK_MAX);
        CHECK(tn_device_alloc(test.device, test.size[b], &test.address[b], E));
        test.host[b] = malloc(test.size[b]);
        for (uint64_t i = 0; i < test.size[b]; i++)
            test.host[b][i] = (uint8_t)tn__random_next(&random);
        test.model[b] = calloc(1, test.size[b]);
        test.model[BLOCKS + b] = malloc(test.size[b]);
        memcpy(test.model[BLOCKS + b], test.host[b], test.size[b]);
    }
    while (test.count < OPERATIONS) copy_step(&test, &random);
    for (uint32_t i = 0; i < STREAMS; i++) CHECK(tn_stream_wait(test.streams[i], E));
    for (uint32_t b = 0; b < BLOCKS; b++) {
        if (memcmp(test.host[b], test.model[BLOCKS + b], test.size[b]) != 0)
            fail_msg("%s, seed %llu: host block %u\n", name, (unsigned long long)seed, b);
        CHECK(tn_device_get(test.streams[0], test.host[b], test.address[b], test.size[b], E));
        if (memcmp(test.host[b], test.model[b], test.size[b]) != 0)
            fail_msg("%s, seed %llu: device block %u\n", name, (unsigned long long)seed, b);
    }
    for (uint32_t i = 0; i < OPERATIONS; i++) tn_fence_destroy(test.done[i].fence);
    for (uint32_t i = 0; i < STREAMS; i++) tn_stream_destroy(test.streams[i]);
    for (uint32_t b = 0; b < 2 * BLOCKS; b++) free(test.model[b]);
    for (uint32_t b = 0; b < BLOCKS; b++) free(test.host[b]);
    free(test.done);
    tn_device_destroy(test.device); /* and the blocks with it */
}

static void copies_on_streams_ordered_by_fences_are_as_one_after_the_other(void **state) {
    (void)state;
    FOR_EACH_DEVICE(name, index) {
        for (uint64_t seed = 1; seed <= 20; seed++) copies_of(name, seed);
    }
}

/* --- blocks ------------------------------------------------------------------------------- */

static void blocks_are_zeroed_aligned_and_apart(void **state) {
    enum { COUNT = 60 };
    (void)state;
    FOR_EACH_DEVICE(name, index) {
        tn_device *device = device_named(name, 0, NULL);
        if (device == NULL) continue;
        tn_stream *stream;
        tn__random random = {7};
        tn_address address[COUNT];
        uint64_t size[COUNT], alignment = tn_device_limits_of(device).alignment;
        CHECK(tn_stream_create(device, 0, &stream, E));
        for (uint32_t i = 0; i < COUNT; i++) {
            size[i] = 1 + tn__random_below(&random, 10000);
            CHECK(tn_device_alloc(device, size[i], &address[i], E));
            assert_true(address[i] != 0 && address[i] % alignment == 0);
            for (uint32_t j = 0; j < i; j++)
                assert_true(address[i] >= address[j] + size[j] ||
                            address[j] >= address[i] + size[i]);
            uint8_t *bytes = malloc(size[i]);
            memset(bytes, 1, size[i]);
            CHECK(tn_device_get(stream, bytes, address[i], size[i], E));
            CHECK(tn_stream_wait(stream, E));
            for (uint64_t b = 0; b < size[i]; b++) assert_int_equal(bytes[b], 0);
            memset(bytes, 0xff, size[i]); /* so that what is taken next was perhaps used before */
            CHECK(tn_device_put(stream, address[i], bytes, size[i], E));
            CHECK(tn_stream_wait(stream, E));
            free(bytes);
            if (i % 3 == 2) {
                tn_device_free(device, address[i]);
                address[i] = 1, size[i] = 0;
            }
        }
        tn_stream_destroy(stream);
        tn_device_destroy(device);
    }
}

static void the_capacity_is_a_bound_to_the_byte(void **state) {
    (void)state;
    FOR_EACH_DEVICE(name, index) {
        tn_device *device = device_named(name, 10000, NULL);
        if (device == NULL) continue;
        tn_address a = 0, b = 0, none = 77, refused = 77;
        tn_device_usage usage;
        tn_error error;
        assert_int_equal(tn_device_limits_of(device).capacity, 10000);
        assert_string_equal(tn_device_limits_of(device).name, name);
        CHECK(tn_device_alloc(device, 0, &none, E));
        assert_int_equal(none, 0);
        assert_int_equal(tn_device_alloc(device, 10001, &refused, &error), TN_E_EXHAUSTED);
        assert_int_equal(tn_device_alloc(device, UINT64_MAX, &refused, &error), TN_E_EXHAUSTED);
        CHECK(tn_device_alloc(device, 9999, &a, E));
        assert_int_equal(tn_device_alloc(device, 2, &refused, &error), TN_E_EXHAUSTED);
        assert_non_null(strstr(error.message, "1 byte"));
        assert_int_equal(refused, 77);
        CHECK(tn_device_alloc(device, 1, &b, E));
        assert_int_equal(tn_device_alloc(device, 1, &refused, &error), TN_E_EXHAUSTED);
        tn_device_free(device, a);
        tn_device_free(device, 0);
        tn_device_free(device, a);     /* no longer a block */
        tn_device_free(device, b + 1); /* inside one */
        CHECK(tn_device_alloc(device, 9999, &a, E));
        tn_device_measure(device, &usage);
        assert_int_equal(usage.allocated, 10000);
        assert_int_equal(usage.allocated_peak, 10000);
        assert_int_equal(usage.alloc_count, 8);
        assert_int_equal(usage.failed_count, 4);
        assert_int_equal(usage.free_count, 1);
        tn_device_free(device, b);
        tn_device_measure(device, &usage);
        assert_int_equal(usage.allocated, 9999);
        assert_int_equal(usage.allocated_peak, 10000);
        tn_device_destroy(device);
    }
}

static void more_than_the_machine_has_is_refused(void **state) {
    (void)state;
    FOR_EACH_DEVICE(name, index) {
        tn_device *device = device_named(name, 0, NULL);
        if (device == NULL) continue;
        tn_address address = 77;
        tn_error error;
        for (uint64_t size = UINT64_MAX; size > UINT64_MAX / 4; size -= UINT64_MAX / 8) {
            tn_status status = tn_device_alloc(device, size, &address, &error);
            assert_true(status == TN_E_NO_MEMORY || status == TN_E_EXHAUSTED);
        }
        assert_int_equal(address, 77);
        tn_device_destroy(device);
    }
}

static void bytes_outside_a_block_are_refused(void **state) {
    (void)state;
    FOR_EACH_DEVICE(name, index) {
        tn_device *device = device_named(name, 0, NULL);
        if (device == NULL) continue;
        tn_stream *stream;
        tn_address a, b;
        tn_error error;
        char bytes[200] = "";
        tn_device_usage usage;
        CHECK(tn_stream_create(device, TN_STREAM_INLINE, &stream, E));
        CHECK(tn_device_alloc(device, 100, &a, E));
        CHECK(tn_device_alloc(device, 100, &b, E));
        CHECK(tn_device_put(stream, a, bytes, 100, E));
        CHECK(tn_device_put(stream, a + 99, bytes, 1, E));
        CHECK(tn_device_get(stream, bytes, b + 50, 50, E));
        CHECK(tn_device_put(stream, 5, bytes, 0, E)); /* no bytes, no place */
        CHECK(tn_device_get(stream, NULL, a, 0, E));
        CHECK(tn_device_copy(stream, a, a + 50, 50, E));
        struct {
            tn_address address;
            uint64_t size;
        } wrong[] = {{a, 101},        {a + 1, 100},    {a - 1, 2},  {a + 100, 1}, {1, 1},
                     {UINT64_MAX, 1}, {a, UINT64_MAX}, {b + 99, 2}, {b - 1, 1}};
        for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
            tn_address at = wrong[i].address;
            uint64_t size = wrong[i].size;
            assert_int_equal(tn_device_put(stream, at, bytes, size, &error), TN_E_INVALID);
            assert_int_equal(tn_device_get(stream, bytes, at, size, &error), TN_E_INVALID);
            assert_int_equal(tn_device_copy(stream, b, at, size, &error), TN_E_INVALID);
            assert_int_equal(tn_device_copy(stream, at, b, size, &error), TN_E_INVALID);
        }
        assert_int_equal(tn_device_copy(stream, a + 1, a + 50, 50, &error), TN_E_INVALID);
        assert_int_equal(tn_device_copy(stream, a + 50, a + 1, 50, &error), TN_E_INVALID);
        assert_int_equal(tn_device_put(stream, a, NULL, 1, &error), TN_E_INVALID);
        assert_int_equal(tn_device_get(stream, NULL, a, 1, &error), TN_E_INVALID);
        tn_device_measure(device, &usage);
        assert_int_equal(usage.put_bytes, 101);
        assert_int_equal(usage.get_bytes, 50);
        tn_device_free(device, b);
        assert_int_equal(tn_device_put(stream, b, bytes, 1, &error), TN_E_INVALID);
        tn_stream_destroy(stream);
        tn_device_destroy(device);
    }
}

static void wrong_options_are_refused(void **state) {
    (void)state;
    tn_device *device = NULL;
    tn_stream *stream = NULL;
    tn_error error;
    const double speeds[] = {-1, (double)NAN, (double)INFINITY, -(double)INFINITY};
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    options.device = "abacus";
    assert_int_equal(tn_device_create(&options, &device, &error), TN_E_UNKNOWN);
    assert_non_null(strstr(error.message, "tn_device_name"));
    options.device = NULL;
    for (size_t i = 0; i < sizeof speeds / sizeof *speeds; i++) {
        options.link_bytes_per_s = speeds[i];
        assert_int_equal(tn_device_create(&options, &device, &error), TN_E_INVALID);
    }
    assert_null(device);
    tn_device_destroy(NULL);
    tn_stream_destroy(NULL);
    tn_fence_destroy(NULL);
    CHECK(tn_device_create(NULL, &device, E));
    assert_string_equal(tn_device_limits_of(device).name, tn_device_name(0));
    assert_int_equal(tn_stream_create(device, 1u << 5, &stream, &error), TN_E_INVALID);
    assert_null(stream);
    assert_string_equal(tn_device_name(tn_device_count()), "");
    assert_string_equal(tn_device_summary(tn_device_count()), "");
    tn_device *other;
    tn_fence *fence;
    CHECK(tn_device_create(NULL, &other, E));
    CHECK(tn_stream_create(other, 0, &stream, E));
    CHECK(tn_fence_create(device, &fence, E));
    assert_int_equal(tn_fence_record(fence, stream, &error), TN_E_INVALID);
    assert_int_equal(tn_fence_wait(fence, stream, &error), TN_E_INVALID);
    tn_fence_destroy(fence);
    tn_stream_destroy(stream);
    tn_device_destroy(other);
    tn_device_destroy(device);
}

/* --- fences --------------------------------------------------------------------------------- */

static void a_fence_passes_when_it_was_not_recorded_or_its_stream_is_gone(void **state) {
    (void)state;
    FOR_EACH_DEVICE(name, index) {
        tn_device *device = device_named(name, 0, NULL);
        if (device == NULL) continue;
        tn_stream *a, *b;
        tn_fence *fence;
        tn_address block;
        char bytes[100] = "there", back[100] = "";
        CHECK(tn_device_alloc(device, sizeof bytes, &block, E));
        CHECK(tn_fence_create(device, &fence, E));
        CHECK(tn_stream_create(device, 0, &a, E));
        CHECK(tn_stream_create(device, 0, &b, E));
        CHECK(tn_fence_wait(fence, b, E));
        CHECK(tn_stream_wait(b, E));
        CHECK(tn_device_put(a, block, bytes, sizeof bytes, E));
        CHECK(tn_fence_record(fence, a, E));
        CHECK(tn_fence_wait(fence, a, E)); /* its own past */
        tn_stream_destroy(a);
        CHECK(tn_stream_create(device, 0, &a, E)); /* perhaps in the place of the other */
        CHECK(tn_fence_wait(fence, b, E));
        CHECK(tn_device_get(b, back, block, sizeof back, E));
        CHECK(tn_stream_wait(b, E));
        assert_memory_equal(bytes, back, sizeof bytes);
        CHECK(tn_stream_wait(a, E));
        tn_stream_destroy(a);
        tn_stream_destroy(b);
        tn_fence_destroy(fence);
        tn_device_destroy(device);
    }
}

/* --- faults ---------------------------------------------------------------------------------- */

typedef struct fault_case {
    tn_device *device;
    tn_stream *streams[3];
    tn_fence *fence;
    tn_address blocks[12];
} fault_case;

static tn_status fault_use(fault_case *test, const tn_context *context, const char *name,
                           const char *bytes, char *back, tn_error *error) {
    tn_device_options options = TN_DEVICE_OPTIONS_INIT;
    options.device = name;
    options.context = context;
    TN_TRY(tn_device_create(&options, &test->device, error));
    for (int i = 0; i < 12; i++)
        TN_TRY(tn_device_alloc(test->device, 100, &test->blocks[i], error));
    for (uint32_t i = 0; i < 3; i++)
        TN_TRY(tn_stream_create(test->device, i == 2 ? TN_STREAM_INLINE : 0, &test->streams[i],
                                error));
    TN_TRY(tn_fence_create(test->device, &test->fence, error));
    for (int i = 0; i < 100; i++)
        TN_TRY(tn_device_put(test->streams[0], test->blocks[i % 12], bytes, 100, error));
    TN_TRY(tn_fence_record(test->fence, test->streams[0], error));
    for (uint32_t i = 1; i < 3; i++) TN_TRY(tn_fence_wait(test->fence, test->streams[i], error));
    for (int i = 0; i < 50; i++)
        TN_TRY(tn_device_get(test->streams[1], back, test->blocks[i % 12], 100, error));
    return tn_stream_wait(test->streams[1], error);
}

static void a_failing_allocator_is_an_error_and_leaks_nothing(void **state) {
    (void)state;
    FOR_EACH_DEVICE(name, index) {
        faulty memory = {0};
        tn_context context = faulty_context(&memory);
        char bytes[100], back[100];
        memset(bytes, 42, sizeof bytes);
        tn_status status = TN_E_NO_MEMORY;
        while (status == TN_E_NO_MEMORY) {
            fault_case test = {0};
            tn_error error = {0};
            memory.requests = 0;
            memory.fail_at++;
            memset(back, 0, sizeof back);
            status = fault_use(&test, &context, name, bytes, back, &error);
            if (status == TN_E_NO_MEMORY) assert_true(error.message[0] != '\0');
            tn_fence_destroy(test.fence);
            for (uint32_t i = 0; i < 3; i++) tn_stream_destroy(test.streams[i]);
            tn_device_destroy(test.device);
            assert_int_equal(memory.held, 0);
        }
        if (status == TN_E_UNSUPPORTED) continue;
        assert_int_equal(status, TN_OK);
        assert_memory_equal(bytes, back, sizeof bytes);
        assert_true(memory.fail_at > 10);
    }
}

/* CUDA is a stand-in, unless a real one is named. */
int main(int count, char **arguments) {
    setenv("TENURE_CUDART", TENURE_STANDIN, 0);
    only = count > 1 && strcmp(arguments[1], "all") != 0 ? arguments[1] : NULL;
    const struct CMUnitTest all[] = {
        cmocka_unit_test(copies_on_streams_ordered_by_fences_are_as_one_after_the_other),
        cmocka_unit_test(blocks_are_zeroed_aligned_and_apart),
        cmocka_unit_test(the_capacity_is_a_bound_to_the_byte),
        cmocka_unit_test(more_than_the_machine_has_is_refused),
        cmocka_unit_test(bytes_outside_a_block_are_refused),
        cmocka_unit_test(wrong_options_are_refused),
        cmocka_unit_test(a_fence_passes_when_it_was_not_recorded_or_its_stream_is_gone),
        cmocka_unit_test(a_failing_allocator_is_an_error_and_leaks_nothing),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
