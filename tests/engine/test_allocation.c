/* test_allocation.c - nothing is allocated while a program runs, counted where all of the process
 * asks for memory.
 *
 * malloc and its like are replaced in this program, and so in oneDNN. With our own loops a run must
 * not ask once. oneDNN keeps books for each call that it is given; what it takes must be small and
 * given back, so that no tensor can hide there.
 */
#include "../support.h"

#include <errno.h>
#include <malloc.h>

#include <tenure/tenure.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

int main(void) {
    puts("SKIP: sanitizers bring a malloc of their own");
    return 0;
}

#else

#define LIBRARY_MOST                                                                               \
    4096u /* bytes of one request of oneDNN's; of all that it holds at once: x 16 */

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *pointer, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *pointer);

static bool watching;
static uint64_t requests, largest;
static int64_t held, held_most;

static void *watch(void *pointer) {
    if (!__atomic_load_n(&watching, __ATOMIC_RELAXED) || pointer == NULL) return pointer;
    uint64_t size = malloc_usable_size(pointer);
    __atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED);
    int64_t now = __atomic_add_fetch(&held, (int64_t)size, __ATOMIC_RELAXED);
    if (now > held_most) held_most = now; /* threads of kernels do not allocate together */
    if (size > largest) largest = size;
    return pointer;
}

void *malloc(size_t size) { return watch(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return watch(__libc_calloc(count, size)); }
void *memalign(size_t alignment, size_t size) { return watch(__libc_memalign(alignment, size)); }
void *aligned_alloc(size_t alignment, size_t size) {
    return watch(__libc_memalign(alignment, size));
}
int posix_memalign(void **pointer, size_t alignment, size_t size) {
    *pointer = watch(__libc_memalign(alignment, size));
    return *pointer == NULL ? ENOMEM : 0;
}
void free(void *pointer) {
    if (__atomic_load_n(&watching, __ATOMIC_RELAXED) && pointer != NULL)
        __atomic_sub_fetch(&held, (int64_t)malloc_usable_size(pointer), __ATOMIC_RELAXED);
    __libc_free(pointer);
}
void *realloc(void *pointer, size_t size) {
    if (__atomic_load_n(&watching, __ATOMIC_RELAXED) && pointer != NULL)
        __atomic_sub_fetch(&held, (int64_t)malloc_usable_size(pointer), __ATOMIC_RELAXED);
    return watch(__libc_realloc(pointer, size));
}

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

static tn_status read_weights(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                              uint64_t size, tn_error *error) {
    return tn_contents_read(self, graph, tensor, bytes, size, error);
}

/* Runs MobileNetV2 on small pictures, twice; the second run is watched. */
static void run_watched(bool plain) {
    const char *path = TENURE_SOURCE_DIR "/examples/models/mobilenet_v2.onnx";
    int64_t shape[4] = {1, 3, 64, 64};
    tn_input_shape small = {.name = "input", .rank = 4, .shape = shape};
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    tn_kernels_options which = TN_KERNELS_OPTIONS_INIT;
    tn_setup_options setup_options = TN_SETUP_OPTIONS_INIT;
    tn_engine_options options = TN_ENGINE_OPTIONS_INIT;
    tn_graph *graph;
    tn_contents *contents;
    tn_setup *setup;
    tn_engine *engine;
    static float picture[3 * 64 * 64], classes[1000];
    import.input_shapes = &small;
    import.input_shape_count = 1;
    which.plain = plain;
    assert_ok(tn_graph_load(path, &import, &graph, &failure));
    assert_ok(tn_contents_generate(path, graph, 1, NULL, &contents, &failure));
    setup_options.kernels = &which;
    assert_ok(tn_setup_create(graph, &setup_options, &setup, &failure));
    options.read = read_weights;
    options.self = contents;
    assert_ok(tn_setup_open(setup, NULL, &options, &engine, &failure));
    tn_array input = {.dtype = TN_FLOAT32, .rank = 4, .bytes = sizeof picture, .data = picture};
    memcpy(input.shape, shape, sizeof shape);
    for (int run = 0; run < 2; run++) {
        tn_array output = {.bytes = sizeof classes, .data = classes};
        requests = largest = 0;
        held = held_most = 0;
        watching = run == 1;
        tn_status status = tn_engine_run(engine, &input, 1, &output, 1, &failure);
        watching = false;
        assert_ok(status);
    }
    printf("%s: %llu requests, the largest %llu bytes, at most %lld at once\n",
           plain ? "own loops" : "oneDNN", (unsigned long long)requests,
           (unsigned long long)largest, (long long)held_most);
    tn_engine_destroy(engine);
    tn_setup_destroy(setup);
    tn_contents_close(contents);
    tn_graph_destroy(graph);
}

static void our_own_loops_allocate_nothing(void **state) {
    (void)state;
    run_watched(true);
    assert_int_equal(requests, 0);
}

static void the_library_allocates_next_to_nothing(void **state) {
    (void)state;
    if (!tn_kernels_library(NULL, &failure)) {
        printf("SKIP: %s\n", failure.message);
        return;
    }
    run_watched(false);
    assert_true(largest <= LIBRARY_MOST);
    assert_true(held_most <= 16 * (int64_t)LIBRARY_MOST);
    assert_int_equal(held, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_own_loops_allocate_nothing),
        cmocka_unit_test(the_library_allocates_next_to_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
