/* The library as PyTorch has it: loaded by its file, two functions by their names, threads that
 * each have a stream and free what others were given. */
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include "standin.h"
#include "support.h"

enum { THREADS = 4, STEPS = 400, SHELF = 32, LEAST = 256, MOST = 40 << 10, GRANULE = 65536 };

static void *(*torch_alloc)(size_t size, int device, void *stream);
static void (*torch_free)(void *pointer, size_t size, int device, void *stream);
static void (*torch_record)(void *pointer, void *stream);
static void (*torch_empty)(void);

static void find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    assert_non_null(symbol);
    memcpy(function, &symbol, sizeof symbol);
}

typedef struct parcel { /* a block and what is in it */
    void *block, *stream;
    size_t size;
    unsigned char byte;
} parcel;

static pthread_mutex_t shelf_lock = PTHREAD_MUTEX_INITIALIZER;
static parcel shelf[SHELF];
static uint32_t wrong;
static bool has_granules;

static void check(const parcel *of, unsigned char *back, void *stream) {
    (void)cudaMemcpyAsync(back, of->block, of->size, 2, stream);
    (void)cudaStreamSynchronize(stream);
    for (size_t i = 0; i < of->size; i++)
        if (back[i] != of->byte) {
            __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
            return;
        }
}

/* Fills a block, lays it on the shelf, and checks and frees what lay there: which another thread
 * may have made, whose stream is waited for as PyTorch's users do. */
static void *work(void *self) {
    static _Thread_local unsigned char back[MOST];
    uint64_t random = *(const uint64_t *)self;
    void *stream;
    (void)cudaStreamCreateWithFlags(&stream, 1);
    for (uint32_t i = 0; i < STEPS; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        parcel made = {.stream = stream, .byte = (unsigned char)(random >> 56)};
        made.size = LEAST + (random >> 33) % (MOST - LEAST);
        made.block = torch_alloc(made.size, 0, stream);
        if (made.block == NULL) {
            __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
            break;
        }
        (void)cudaMemsetAsync(made.block, made.byte, made.size, stream);
        pthread_mutex_lock(&shelf_lock);
        parcel *place = &shelf[(random >> 20) % SHELF], found = *place;
        *place = made;
        pthread_mutex_unlock(&shelf_lock);
        if (found.block == NULL) continue;
        if (found.stream != stream) {
            (void)cudaStreamSynchronize(found.stream);
            torch_record(found.block, stream);
        }
        check(&found, back, stream);
        torch_free(found.block, found.size, 0, found.stream);
        if (i % 64 == 0) torch_empty();
    }
    (void)cudaStreamSynchronize(stream);
    return NULL;
}

static void threads_get_blocks_of_their_own(void **state) {
    pthread_t threads[THREADS];
    uint64_t seeds[THREADS];
    (void)state;
    assert_null(torch_alloc(0, 0, NULL));
    torch_free(NULL, 0, 0, NULL);
    for (uint32_t i = 0; i < THREADS; i++) {
        seeds[i] = i + 1;
        assert_int_equal(pthread_create(&threads[i], NULL, work, &seeds[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(wrong, 0);
    for (uint32_t i = 0; i < SHELF; i++)
        if (shelf[i].block != NULL) torch_free(shelf[i].block, shelf[i].size, 0, shelf[i].stream);
    assert_int_equal(standin_calls("cudaMalloc"), has_granules ? 0 : 1);
    assert_true(standin_calls("cudaStreamWaitEvent") > 0);
}

static void devices_are_apart(void **state) {
    (void)state;
    void *first = torch_alloc(1000, 0, NULL), *second = torch_alloc(1000, 1, NULL);
    assert_non_null(first);
    assert_true((second == NULL) == has_granules); /* they are for one device */
    if (!has_granules) assert_int_equal(standin_used(1), standin_used(0));
    torch_free(second, 1000, 1, NULL);
    torch_free(first, 1000, 0, NULL);
    assert_null(torch_alloc(1000, 2, NULL)); /* TENURE_OOM=null */
    assert_null(torch_alloc(1000, -1, NULL));
    assert_null(torch_alloc(SIZE_MAX, 0, NULL));
}

int main(int argc, char **argv) {
    setenv("TENURE_CUDART", TENURE_STANDIN, 1);
    setenv("TENURE_CUDA", TENURE_STANDIN, 1);
    has_granules = argc > 1 && strcmp(argv[1], "granules") == 0;
    setenv("TENURE_MEMORY", has_granules ? "granules" : "block", 1);
    setenv("STANDIN_GRANULE", "65536", 1);
    setenv("STANDIN_DEVICES", "2", 1);
    setenv("TENURE_BUDGET", "8MiB", 1);
    setenv("TENURE_POOL", "best-fit", 1); /* which keeps streams apart least */
    setenv("TENURE_OOM", "null", 1);
    void *library = dlopen(TENURE_TORCH, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
    find(library, "tenure_torch_alloc", &torch_alloc);
    find(library, "tenure_torch_free", &torch_free);
    find(library, "tenure_torch_record_stream", &torch_record);
    find(library, "tenure_torch_empty_cache", &torch_empty);
    const struct CMUnitTest all[] = {
        cmocka_unit_test(threads_get_blocks_of_their_own),
        cmocka_unit_test(devices_are_apart),
    };
    return cmocka_run_group_tests(all, NULL, NULL);
}
