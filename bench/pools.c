/* pools.c - what does an allocation cost in each pool, and how much of the memory is lost?
 *
 *     build/bench/pools [--repeat N] [--pool NAME] [TRACE.csv...]
 *
 * Without traces: one inference over and over (the lives of MobileNetV2 from examples/), a training
 * whose steps are alike, one whose batches differ, and random lives; a million events each. Every
 * row is the best of N (5) runs of the whole trace, in nanoseconds of processor time for a pair of
 * one allocation and one free, the lock and the statistics included. `reserved` is the peak, in
 * multiples of the most bytes that are in use at once; idle is its part that was not handed out
 * when the most was. malloc, and mimalloc where libmimalloc.so.2 is installed, do the same work
 * beside, without touching the memory; ratios are to malloc. The offsets of `planned` are those
 * that best-fit found in the run before.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tenure/tenure.h>

#include "base/base.h"

enum { EVENTS = 1000000 };

typedef struct bench_trace {
    const char *name;
    tn_pool_event *events;
    uint64_t count, room, live_peak;
    uint32_t blocks;
} bench_trace;

typedef struct bench_setup {
    uint32_t repeat;
    const char *only;
    uint64_t *ids; /* [blocks of the longest trace] */
    uint64_t *sizes, *offsets;
    void **pointers;
} bench_setup;

static void bench_stop(const char *what) {
    fprintf(stderr, "pools: %s\n", what);
    exit(1);
}

static double bench_clock_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* --- traces --- */

static uint32_t bench_alloc(bench_trace *trace, uint64_t size, uint32_t flags) {
    size_t room = trace->room;
    if (!tn__reserve(NULL, &trace->events, &room, trace->count + 1, sizeof *trace->events))
        bench_stop("out of memory");
    trace->room = room;
    trace->events[trace->count++] =
        (tn_pool_event){.size = size, .block = trace->blocks, .flags = flags};
    return trace->blocks++;
}

static void bench_free(bench_trace *trace, uint32_t block) {
    bench_alloc(trace, 0, 0);
    trace->blocks--;
    trace->events[trace->count - 1] = (tn_pool_event){.block = block, .frees = true};
}

enum { LAYERS = 120 };

/* The bytes of a layer for a batch of length `scale` / 16: every third layer grows with its square,
 * as attention does. */
static uint64_t bench_layer(const uint64_t *sizes, uint32_t layer, uint64_t scale) {
    return layer % 3 == 0 ? sizes[layer] * scale * scale / 256 : sizes[layer] * scale / 16;
}

/* A step: activations wait for their gradients, scratch memory comes and goes. The next batch is
 * read half way through and lives on into the next step, so that steps do not begin in an empty
 * range, and what is left over from one length meets the requests of another. */
static void bench_training_step(bench_trace *trace, const uint64_t *sizes, uint64_t scale,
                                uint64_t next_scale, uint32_t *input) {
    uint32_t activations[LAYERS], delta = UINT32_MAX;
    for (uint32_t l = 0; l < LAYERS; l++) {
        activations[l] = bench_alloc(trace, bench_layer(sizes, l, scale), 0);
        if (l % 2 == 0)
            bench_free(trace, bench_alloc(trace, bench_layer(sizes, l, scale) / 2 + 64, 0));
    }
    uint32_t prefetched = bench_alloc(trace, (next_scale << 20) / 16, 0);
    for (uint32_t l = LAYERS; l-- > 0;) {
        uint32_t next = bench_alloc(trace, bench_layer(sizes, l, scale), 0);
        uint32_t gradient = bench_alloc(trace, sizes[LAYERS + l], 0);
        bench_free(trace, activations[l]);
        if (delta != UINT32_MAX) bench_free(trace, delta);
        delta = next;
        bench_free(trace, gradient);
    }
    bench_free(trace, delta);
    bench_free(trace, *input);
    *input = prefetched;
}

static void bench_training(bench_trace *trace, bool varies) {
    tn__random random = {.state = 7};
    uint64_t sizes[2 * LAYERS], scale = 16;
    for (uint32_t l = 0; l < 2 * LAYERS; l++) {
        sizes[l] = 512 + tn__random_below(&random, 1ull << (10 + tn__random_below(&random, 13)));
        if (l >= LAYERS) bench_alloc(trace, sizes[l], TN_POOL_LONG_LIVED);
    }
    uint32_t input = bench_alloc(trace, 1 << 20, 0);
    while (trace->count < EVENTS) {
        uint64_t next = varies ? 4 + tn__random_below(&random, 13) : 16;
        bench_training_step(trace, sizes, scale, next, &input);
        scale = next;
    }
}

static void bench_random(bench_trace *trace) {
    tn__random random = {.state = 3};
    static uint32_t live[2000];
    uint32_t count = 0;
    while (trace->count < EVENTS) {
        if (count == 0 || (count < 2000 && tn__random_below(&random, 100) < 52)) {
            uint64_t bits = 8 + tn__random_below(&random, 14);
            live[count++] = bench_alloc(trace, 1 + tn__random_below(&random, 1ull << bits), 0);
        } else {
            uint32_t at = (uint32_t)tn__random_below(&random, count);
            bench_free(trace, live[at]);
            live[at] = live[--count];
        }
    }
}

/* The lives of a model's tensors, as a program without a plan would ask for them. */
static bool bench_inference(bench_trace *trace, const char *path) {
    tn_graph *graph = NULL;
    tn_program *program = NULL;
    tn_occupancy *occupancy = NULL;
    bool done = tn_graph_load(path, NULL, &graph, NULL) == TN_OK &&
                tn_program_create(graph, NULL, &program, NULL) == TN_OK &&
                tn_occupancy_create(program, NULL, &occupancy, NULL) == TN_OK;
    const tn_problem *problem = done ? tn_occupancy_problem(occupancy) : NULL;
    uint32_t bodies = done ? tn_problem_count(problem) : 0, *block = calloc(bodies + 1, 4);
    int64_t steps = 0;
    for (uint32_t b = 0; b < bodies; b++)
        if (tn_problem_body(problem, b)->last > steps) steps = tn_problem_body(problem, b)->last;
    while (bodies > 0 && block != NULL && trace->count < EVENTS) {
        for (int64_t step = 0; step <= steps; step++) {
            for (uint32_t b = 0; b < bodies; b++)
                if (tn_problem_body(problem, b)->last == step) bench_free(trace, block[b]);
            for (uint32_t b = 0; b < bodies; b++)
                if (tn_problem_body(problem, b)->first == step)
                    block[b] = bench_alloc(trace, tn_problem_body(problem, b)->size, 0);
        }
    }
    free(block);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_graph_destroy(graph);
    return trace->count > 0;
}

static void bench_finish_trace(bench_setup *bench, bench_trace *trace) {
    uint64_t live = 0;
    bench->ids = realloc(bench->ids, (trace->blocks + 1) * sizeof *bench->ids);
    bench->sizes = realloc(bench->sizes, (trace->blocks + 1) * sizeof *bench->sizes);
    bench->offsets = realloc(bench->offsets, (trace->blocks + 1) * sizeof *bench->offsets);
    bench->pointers = realloc(bench->pointers, (trace->blocks + 1) * sizeof *bench->pointers);
    if (!bench->ids || !bench->sizes || !bench->offsets || !bench->pointers)
        bench_stop("out of memory");
    for (uint64_t i = 0; i < trace->count; i++) {
        const tn_pool_event *event = &trace->events[i];
        if (!event->frees) bench->sizes[event->block] = event->size;
        live += event->frees ? 0 - bench->sizes[event->block] : event->size;
        if (live > trace->live_peak) trace->live_peak = live;
    }
}

/* --- runs --- */

static double bench_pairs(const bench_trace *trace) { return (double)trace->blocks; }

/* One run in a fresh pool: nanoseconds for a pair, and what was reserved. With `notes` the offsets
 * are kept, for `planned`. */
static double bench_pool(bench_setup *bench, const bench_trace *trace, const char *name, bool notes,
                         tn_pool_usage *usage, tn_pool_lesson *lesson) {
    tn_pool_options options = TN_POOL_OPTIONS_INIT;
    tn_pool *pool;
    tn_error error;
    options.pool = name;
    if (strcmp(name, "planned") == 0) {
        options.sizes = bench->sizes;
        options.offsets = bench->offsets;
        options.planned_count = trace->blocks;
    }
    if (tn_pool_create(&options, &pool, &error) != TN_OK) bench_stop(error.message);
    double begin = bench_clock_ns();
    for (uint64_t i = 0; i < trace->count; i++) {
        const tn_pool_event *event = &trace->events[i];
        tn_allocation block;
        if (event->frees) {
            if (tn_pool_free(pool, bench->ids[event->block], &error) != TN_OK)
                bench_stop(error.message);
            continue;
        }
        tn_pool_request request = {.size = event->size,
                                   .alignment = event->alignment,
                                   .stream = event->stream,
                                   .flags = event->flags};
        if (tn_pool_alloc(pool, &request, &block, &error) != TN_OK) bench_stop(error.message);
        bench->ids[event->block] = block.id;
        if (notes) bench->offsets[event->block] = block.offset;
    }
    double ns = (bench_clock_ns() - begin) / bench_pairs(trace);
    tn_pool_measure(pool, usage);
    tn_pool_learned(pool, lesson);
    tn_pool_destroy(pool);
    return ns;
}

static double bench_heap(bench_setup *bench, const bench_trace *trace, void *(*get)(size_t),
                         void (*give)(void *)) {
    memset(bench->pointers, 0, trace->blocks * sizeof *bench->pointers);
    double begin = bench_clock_ns();
    for (uint64_t i = 0; i < trace->count; i++) {
        const tn_pool_event *event = &trace->events[i];
        void **pointer = &bench->pointers[event->block];
        if (event->frees) {
            give(*pointer);
            *pointer = NULL;
        } else {
            *pointer = get(event->size);
            if (*pointer == NULL) bench_stop("the heap is out of memory");
        }
    }
    double ns = (bench_clock_ns() - begin) / bench_pairs(trace);
    for (uint32_t b = 0; b < trace->blocks; b++) give(bench->pointers[b]);
    return ns;
}

static double bench_heap_best(bench_setup *bench, const bench_trace *trace, const char *name,
                              void *(*get)(size_t), void (*give)(void *), double malloc_ns) {
    double best = 0;
    for (uint32_t r = 0; r < bench->repeat; r++) {
        double ns = bench_heap(bench, trace, get, give);
        if (r == 0 || ns < best) best = ns;
    }
    printf("| %-10s | %8.1f | %6.2f |          |               |              |\n", name, best,
           malloc_ns == 0 ? 1 : best / malloc_ns);
    return best;
}

/* What a pool learned, and how high its plan is beside the most that lives at once. */
static void bench_learned(const bench_trace *trace, const tn_pool_lesson *lesson) {
    printf("(%" PRIu64 " plans, %.1f %% of requests served by them, %.1f %% surprises",
           lesson->plans, 100.0 * (double)lesson->served / (double)trace->blocks,
           100.0 * (double)lesson->surprises / (double)trace->blocks);
    if (lesson->period > 0)
        printf("; the last: %" PRIu64 " requests, %.4f x high", lesson->period,
               (double)lesson->height / (double)trace->live_peak);
    printf(")\n");
}

static void bench_run(bench_setup *bench, bench_trace *trace) {
    bench_finish_trace(bench, trace);
    printf("\n%s: %" PRIu64 " events, %u blocks, at most %" PRIu64 " bytes in use\n\n", trace->name,
           trace->count, trace->blocks, trace->live_peak);
    printf("| pool       |  ns/pair | x malloc | reserved | rounding lost | idle at peak |\n"
           "|---|---|---|---|---|---|\n");
    double malloc_ns = bench_heap_best(bench, trace, "malloc", malloc, free, 0);
    void *library = dlopen("libmimalloc.so.2", RTLD_NOW | RTLD_LOCAL);
    void *(*get)(size_t) = NULL;
    void (*give)(void *) = NULL;
    void *symbol = library != NULL ? dlsym(library, "mi_malloc") : NULL;
    memcpy(&get, &symbol, sizeof get);
    symbol = library != NULL ? dlsym(library, "mi_free") : NULL;
    memcpy(&give, &symbol, sizeof give);
    if (get != NULL && give != NULL)
        bench_heap_best(bench, trace, "mimalloc", get, give, malloc_ns);
    tn_pool_usage usage = {0};
    tn_pool_lesson lesson;
    bench_pool(bench, trace, "best-fit", true, &usage, &lesson);
    for (uint32_t p = 0; p < tn_pool_count(); p++) {
        const char *name = tn_pool_name(p);
        double best = 0;
        if (bench->only != NULL && strcmp(bench->only, name) != 0) continue;
        for (uint32_t r = 0; r < bench->repeat; r++) {
            double ns = bench_pool(bench, trace, name, false, &usage, &lesson);
            if (r == 0 || ns < best) best = ns;
        }
        printf("| %-10s | %8.1f | %6.2f | %6.3f x | %11.2f %% | %10.2f %% |\n", name, best,
               best / malloc_ns, (double)usage.reserved_peak / (double)trace->live_peak,
               100 * ((double)usage.allocated_peak / (double)usage.requested_peak - 1),
               100 * (1 - (double)usage.allocated_peak / (double)usage.reserved_peak));
        if (lesson.plans > 0) bench_learned(trace, &lesson);
        fflush(stdout);
    }
}

static void bench_file(bench_setup *bench, const char *path) {
    tn_pool_trace *loaded;
    tn_error error;
    bench_trace trace = {.name = path};
    if (tn_pool_trace_load(path, NULL, &loaded, &error) != TN_OK) bench_stop(error.message);
    const tn_pool_event *events = tn_pool_trace_events(loaded, &trace.count);
    trace.blocks = tn_pool_trace_block_count(loaded);
    trace.events = malloc((trace.count + 1) * sizeof *events);
    if (trace.events == NULL || trace.blocks == 0) bench_stop("nothing to run");
    memcpy(trace.events, events, trace.count * sizeof *events);
    bench_run(bench, &trace);
    free(trace.events);
    tn_pool_trace_destroy(loaded);
}

static void bench_generated(bench_setup *bench) {
    bench_trace traces[4] = {{.name = "inference of MobileNetV2"},
                             {.name = "training, equal steps"},
                             {.name = "training, batches of different length"},
                             {.name = "random sizes and lives"}};
    if (!bench_inference(&traces[0], "examples/models/mobilenet_v2.onnx"))
        fprintf(stderr, "pools: no examples/models here; run from the source folder\n");
    bench_training(&traces[1], false);
    bench_training(&traces[2], true);
    bench_random(&traces[3]);
    for (int t = 0; t < 4; t++) {
        if (traces[t].count > 0) bench_run(bench, &traces[t]);
        free(traces[t].events);
    }
}

int main(int count, char **arguments) {
    bench_setup bench = {.repeat = 5};
    int files = 0;
    for (int i = 1; i < count; i++) {
        if (strcmp(arguments[i], "--repeat") == 0 && i + 1 < count)
            bench.repeat = (uint32_t)strtoul(arguments[++i], NULL, 10);
        else if (strcmp(arguments[i], "--pool") == 0 && i + 1 < count)
            bench.only = arguments[++i];
        else
            bench_file(&bench, arguments[i]), files++;
    }
    if (files == 0) bench_generated(&bench);
    free(bench.ids);
    free(bench.sizes);
    free(bench.offsets);
    free(bench.pointers);
    return 0;
}
