/* torch_play.c - a recorded run played to the allocator for PyTorch, and to CUDA's own: nanoseconds
 * of a request, and what the device had to have.
 *
 *     TENURE_BUDGET=8GiB torch_play build/libtenure_torch.so run.csv [rounds [way]]
 *
 * `way`: tenure, cudaMalloc or cudaMallocAsync alone.
 * The trace is what TENURE_TRACE records, of this library or of libtenure_preload.so. Where a GPU
 * is these are its numbers; TENURE_CUDART=build/tests/libstandin_cudart.so plays to the stand-in,
 * whose times say nothing. Peaks are taken in a round that is not timed. Settings: those of the
 * library.
 */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>

#include <tenure/pool.h>

#include "memory/device/cuda.h"

typedef struct play {
    tn__cuda cuda;
    const tn_pool_event *events;
    uint64_t count;
    void **blocks, **streams;
    uint32_t block_count;
    void *(*alloc)(size_t size, int device, void *stream);
    void (*free)(void *pointer, size_t size, int device, void *stream);
    int (*alloc_async)(void **pointer, size_t size, void *stream);
    int (*free_async)(void *pointer, void *stream);
} play;

typedef struct way { /* of asking for memory */
    const char *name;
    void *(*get)(play *of, size_t size, void *stream);
    void (*give)(play *of, void *block, void *stream);
} way;

static void *get_ours(play *of, size_t size, void *stream) { return of->alloc(size, 0, stream); }
static void give_ours(play *of, void *block, void *stream) { of->free(block, 0, 0, stream); }
static void *get_plain(play *of, size_t size, void *stream) {
    void *block = NULL;
    (void)stream;
    return of->cuda.cudaMalloc(&block, size) == 0 ? block : NULL;
}
static void give_plain(play *of, void *block, void *stream) {
    (void)stream;
    (void)of->cuda.cudaFree(block);
}
static void *get_async(play *of, size_t size, void *stream) {
    void *block = NULL;
    return of->alloc_async(&block, size, stream) == 0 ? block : NULL;
}
static void give_async(play *of, void *block, void *stream) { (void)of->free_async(block, stream); }

static void find(void *function, void *library, const char *name) {
    void *symbol = library != NULL ? dlsym(library, name) : NULL;
    memcpy(function, &symbol, sizeof symbol);
}

static uint64_t taken(const play *of) {
    size_t available = 0, total = 0;
    (void)of->cuda.cudaMemGetInfo(&available, &total);
    return total - available;
}

/* What is never freed is freed at the end. `peak`: NULL, or receives the most that was taken.
 * False: something did not fit. */
static bool play_round(play *of, const way *by, uint64_t *peak) {
    bool fits = true;
    for (uint64_t i = 0; i < of->count && fits; i++) {
        const tn_pool_event *event = &of->events[i];
        void **block = &of->blocks[event->block], *stream = of->streams[event->stream];
        if (event->frees) {
            by->give(of, *block, stream);
            *block = NULL;
            continue;
        }
        *block = by->get(of, (size_t)event->size, stream);
        fits = *block != NULL || event->size == 0;
        if (peak == NULL) continue;
        uint64_t now = taken(of);
        if (now > *peak) *peak = now;
    }
    for (uint32_t i = 0; i < of->block_count; i++) {
        if (of->blocks[i] != NULL) by->give(of, of->blocks[i], NULL);
        of->blocks[i] = NULL;
    }
    return fits;
}

static void play_way(play *of, const way *by, uint32_t rounds) {
    char text[TN_SIZE_TEXT_MAX];
    (void)of->cuda.cudaDeviceSynchronize();
    uint64_t before = taken(of), peak = before;
    bool fits = play_round(of, by, &peak);
    double start = tn__clock_s();
    for (uint32_t i = 0; i < rounds && fits; i++) fits = play_round(of, by, NULL);
    double seconds = tn__clock_s() - start;
    (void)of->cuda.cudaDeviceSynchronize();
    if (!fits) {
        printf("%-16s does not fit\n", by->name);
        return;
    }
    printf("%-16s %8.0f ns a request, at most %s of the device\n", by->name,
           1e9 * seconds / (double)of->count / rounds, tn_size_format(peak - before, text));
}

static tn_status play_prepare(play *of, const char *library, tn_error *error) {
    TN_TRY(tn__cuda_load(&of->cuda, error));
    TN_TRY(tn__cuda_check_device(&of->cuda, 0, error));
    void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    find(&of->alloc, opened, "tenure_torch_alloc");
    find(&of->free, opened, "tenure_torch_free");
    if (of->alloc == NULL || of->free == NULL)
        TN_FAIL(error, TN_E_INVALID, "%s is not libtenure_torch.so: %s", library,
                opened == NULL ? dlerror() : "it lacks the functions");
    Dl_info runtime; /* the file that tn__cuda_load chose */
    void *symbol = NULL, *cudart = NULL;
    memcpy(&symbol, &of->cuda.cudaMalloc, sizeof symbol);
    if (dladdr(symbol, &runtime) != 0) cudart = dlopen(runtime.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    find(&of->alloc_async, cudart, "cudaMallocAsync");
    find(&of->free_async, cudart, "cudaFreeAsync");
    uint32_t streams = 0;
    for (uint64_t i = 0; i < of->count; i++)
        if (of->events[i].stream >= streams) streams = of->events[i].stream + 1;
    of->streams = calloc(streams, sizeof *of->streams); /* the first is the default one */
    of->blocks = calloc(of->block_count, sizeof *of->blocks);
    if (of->streams == NULL || of->blocks == NULL) return tn__no_memory(error, "the blocks");
    for (uint32_t i = 1; i < streams; i++)
        TN_TRY(tn__cuda_status(&of->cuda, of->cuda.cudaStreamCreateWithFlags(&of->streams[i], 1),
                               "a stream", error));
    return TN_OK;
}

int main(int count, char **words) {
    static const way ways[] = {{"tenure", get_ours, give_ours},
                               {"cudaMalloc", get_plain, give_plain},
                               {"cudaMallocAsync", get_async, give_async}};
    static play of;
    tn_pool_trace *trace = NULL;
    tn_error error = {0};
    uint32_t rounds = count > 3 ? (uint32_t)strtoul(words[3], NULL, 10) : 10;
    const char *only = count > 4 ? words[4] : NULL;
    if (count < 3 || rounds == 0)
        return fputs("torch_play LIBRARY TRACE [ROUNDS [WAY]]\n", stderr), 2;
    tn_status status = tn_pool_trace_load(words[2], NULL, &trace, &error);
    if (status == TN_OK) {
        of.events = tn_pool_trace_events(trace, &of.count);
        of.block_count = tn_pool_trace_block_count(trace);
        status = play_prepare(&of, words[1], &error);
    }
    if (status != TN_OK) {
        fprintf(stderr, "%s%s%s\n", error.where, error.where[0] != '\0' ? ": " : "", error.message);
        return tn_status_exit_code(status);
    }
    printf("%s: %" PRIu64 " requests, %" PRIu32 " rounds\n", words[2], of.count, rounds);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if ((only == NULL || strcmp(only, ways[i].name) == 0) &&
            (ways[i].get != get_async || (of.alloc_async != NULL && of.free_async != NULL)))
            play_way(&of, &ways[i], rounds);
    tn_pool_trace_destroy(trace);
    free(of.blocks);
    free(of.streams);
    return 0;
}
