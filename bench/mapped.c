/* mapped.c - weights that do not fit: read when a plan says, or mapped and paged by the kernel?
 *
 *     build/bench/mapped --group FOLDER [--parts 0.5,0.25,0.1] [--repeat N] [--threads N]
 *                        [--folder DIR] MODEL.onnx...
 *
 * The same network, kernels and forms of weights three ways: all weights in memory; streamed
 * (tn_session_options.stream, and in parts); and mapped from a file of DIR (/tmp), as runtimes do
 * that leave it to the kernel which pages stay. The last two have the same memory: FOLDER is a
 * control group that is made for each run and removed, below one whose memory is controlled
 * (version 1 or 2; mostly for root alone). Its limit is the budget, a part of the weights' bytes,
 * for weights and arena, and what the process had beside them with 4 MiB for pages that
 * are on their way, told in brackets.
 *
 * Weights are made up where the model has none. Milliseconds are the fastest of N (5) runs behind
 * one that is not counted; "cpu" is processor time and "read" what came from the
 * disk, of each run. Outputs are compared bit by bit with the first way's; exit status 1 when one
 * differs.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/tenure.h>

#include "base/base.h"
#include "engine/engine.h"

enum { PARTS_MAX = 16, PATH_ROOM = 600 };
#define BENCH_SLACK                                                                                \
    (UINT64_C(4) << 20) /* of the kernel's, while it reads: nothing runs with none */
typedef enum bench_way { BENCH_WHOLE, BENCH_STREAMED, BENCH_MAPPED } bench_way;

typedef struct bench {
    const char *group, *folder, *model;
    double parts[PARTS_MAX];
    uint32_t part_count, repeat, threads;
    tn_graph *graph;
    tn_contents *contents;
} bench;

typedef struct bench_told { /* by the process of one run */
    bool is_done;
    double seconds, processor_s; /* the fastest run; of a run, with what the kernel does for it */
    uint64_t outputs, weights, arena; /* outputs: a hash */
    uint64_t read, beside;            /* bytes of a run; what the limit is beyond the budget */
} bench_told;

static void bench_stop(const char *what, const tn_error *error) {
    fprintf(stderr, "mapped: %s: %s %s\n", what, error->where, error->message);
    exit(1);
}

/* --- the control group --- */

static bool group_is_new(const bench *b) { /* of version 2 */
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/memory.max", b->group);
    return access(path, F_OK) == 0;
}

static void group_write(const bench *b, const char *name, uint64_t number) {
    char path[PATH_ROOM];
    snprintf(path, sizeof path, "%s/%s", b->group, name);
    FILE *file = fopen(path, "w");
    bool wrote = file != NULL && fprintf(file, "%llu", (unsigned long long)number) > 0;
    if (file != NULL) wrote &= fclose(file) == 0;
    if (wrote) return;
    perror(path);
    exit(1);
}

/* The first number behind `key`; of a file of one number the key is "". */
static uint64_t group_read(const bench *b, const char *name, const char *key) {
    char path[PATH_ROOM], line[200];
    unsigned long long number = 0;
    snprintf(path, sizeof path, "%s/%s", b->group, name);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        exit(1);
    }
    size_t length = strlen(key);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, length) == 0 && sscanf(line + length, " %llu", &number) == 1) break;
    fclose(file);
    return number;
}

/* Bytes of the process that are no pages of files. */
static uint64_t group_used(const bench *b) {
    bool is_new = group_is_new(b);
    uint64_t all = group_read(b, is_new ? "memory.current" : "memory.usage_in_bytes", "");
    uint64_t files = group_read(b, "memory.stat", is_new ? "file" : "cache");
    return all > files ? all - files : 0;
}

static void group_limit(const bench *b, uint64_t bytes) {
    group_write(b, group_is_new(b) ? "memory.max" : "memory.limit_in_bytes", bytes);
}

/* --- weights that are mapped --- */

/* Whole pages of static memory become those of a file with the same bytes. */
static void bench_map(const bench *b, tn_engine *engine) {
    char path[PATH_ROOM];
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t first = ((uintptr_t)engine->memory.statics + page - 1) & ~(page - 1);
    uintptr_t end = ((uintptr_t)engine->memory.statics + engine->statics.bytes) & ~(page - 1);
    if (end <= first) return;
    snprintf(path, sizeof path, "%s/mapped-%ld", b->folder, (long)getpid());
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool is_there = file >= 0 && unlink(path) == 0;
    for (uintptr_t at = first; is_there && at < end;) {
        ssize_t wrote = write(file, (const void *)at, end - at);
        is_there = wrote > 0;
        if (is_there) at += (uintptr_t)wrote;
    }
    is_there = is_there && fsync(file) == 0 &&
               mmap((void *)first, end - first, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0) !=
                   MAP_FAILED &&
               posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0;
    if (!is_there) {
        perror(path);
        exit(1);
    }
    close(file);
}

/* --- one run, in a process of its own --- */

static tn_status bench_read(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                            uint64_t size, tn_error *error) {
    return tn_contents_read(self, graph, tensor, bytes, size, error);
}

static tn_status bench_where(void *self, const tn_graph *graph, tn_tensor_id tensor,
                             tn_file_range *range, bool *found, tn_error *error) {
    return tn_contents_where(self, graph, tensor, range, found, error);
}

static double bench_processor_s(const struct rusage *usage) {
    return (double)usage->ru_utime.tv_sec + (double)usage->ru_stime.tv_sec +
           1e-6 * (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
}

static void bench_runs(const bench *b, tn_session *session, bench_told *told) {
    tn_error error;
    struct rusage before, after;
    (void)getrusage(RUSAGE_SELF, &before);
    for (uint32_t i = 0; i < b->repeat; i++) {
        double start = tn__clock_s();
        if (tn_session_run(session, &error)) bench_stop(b->model, &error);
        double seconds = tn__clock_s() - start;
        if (i == 0 || seconds < told->seconds) told->seconds = seconds;
    }
    (void)getrusage(RUSAGE_SELF, &after);
    told->processor_s = (bench_processor_s(&after) - bench_processor_s(&before)) / b->repeat;
    told->read = (uint64_t)(after.ru_inblock - before.ru_inblock) * 512 / b->repeat;
    const tn_block *block = tn_graph_block(b->graph, 0);
    for (uint32_t k = 0; k < block->output_count; k++) {
        const tn_array *array = tn_session_array(session, block->outputs[k]);
        told->outputs = tn__hash(told->outputs, array->data, (size_t)array->bytes);
    }
}

static void bench_child(const bench *b, bench_way way, uint64_t budget, bench_told *told) {
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    tn_session *session;
    tn_engine_usage usage;
    tn_error error;
    if (way != BENCH_WHOLE) group_write(b, "cgroup.procs", (uint64_t)getpid());
    options.read = bench_read;
    options.where = bench_where;
    options.self = b->contents;
    options.threads = b->threads;
    options.fuse = true;
    options.stream = options.stream_parts = way == BENCH_STREAMED;
    options.budget = options.stream ? budget : 0;
    if (tn_session_open(b->graph, &options, &session, &error)) bench_stop(b->model, &error);
    tn_engine *engine = tn_session_engine(session);
    if (way == BENCH_MAPPED) bench_map(b, engine);
    if (tn_session_run(session, &error)) bench_stop(b->model, &error);
    tn_engine_measure(engine, &usage);
    told->arena = usage.arena;
    told->weights = usage.static_bytes;
    if (way != BENCH_WHOLE) {
        uint64_t used = group_used(b);
        told->beside = used > usage.arena ? used - usage.arena : 0;
        told->beside += BENCH_SLACK;
        group_limit(b, budget + told->beside);
        if (tn_session_run(session, &error)) bench_stop(b->model, &error); /* as it will be */
    }
    bench_runs(b, session, told);
    told->is_done = true;
    tn_session_close(session);
}

static bench_told bench_run(const bench *b, bench_way way, uint64_t budget) {
    bench_told told = {0};
    bench_told *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return told;
    if (way != BENCH_WHOLE && mkdir(b->group, 0700) != 0) {
        perror(b->group);
        exit(1);
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        bench_child(b, way, budget, shared);
        _exit(0);
    }
    int status = 0;
    if (child > 0) (void)waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) fprintf(stderr, "mapped: ended by signal %d\n", WTERMSIG(status));
    if (way != BENCH_WHOLE) (void)rmdir(b->group);
    told = *shared;
    munmap(shared, sizeof *shared);
    return told;
}

/* --- tables --- */

static double bench_mib(uint64_t bytes) { return (double)bytes / (1 << 20); }

static void bench_cell(const bench_told *told, const bench_told *whole) {
    if (!told->is_done)
        printf(" does not run | | | |");
    else
        printf(" %.1f (%.2f) | %.1f | %.1f | [%.0f] |", 1e3 * told->seconds,
               told->seconds / whole->seconds, 1e3 * told->processor_s, bench_mib(told->read),
               bench_mib(told->beside));
}

static bool bench_model(bench *b) {
    bool same = true;
    tn_error error;
    if (tn_graph_load(b->model, NULL, &b->graph, &error) ||
        tn_contents_generate(b->model, b->graph, 1, NULL, &b->contents, &error))
        bench_stop(b->model, &error);
    bench_told whole = bench_run(b, BENCH_WHOLE, 0);
    if (!whole.is_done) exit(1);
    printf("\n%s: weights %.1f MiB, arena %.1f MiB; %.1f ms, cpu %.1f, all there\n\n", b->model,
           bench_mib(whole.weights), bench_mib(whole.arena), 1e3 * whole.seconds,
           1e3 * whole.processor_s);
    printf(
        "| budget MiB | streamed ms | cpu ms | read MiB | beside | mapped ms | cpu ms | read MiB "
        "| beside |\n|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n");
    for (uint32_t i = 0; i < b->part_count; i++) {
        uint64_t budget = (uint64_t)(b->parts[i] * (double)whole.weights);
        bench_told streamed = bench_run(b, BENCH_STREAMED, budget);
        bench_told mapped = bench_run(b, BENCH_MAPPED, budget);
        printf("| %.1f |", bench_mib(budget));
        bench_cell(&streamed, &whole);
        bench_cell(&mapped, &whole);
        printf("\n");
        same &= !streamed.is_done || streamed.outputs == whole.outputs;
        same &= !mapped.is_done || mapped.outputs == whole.outputs;
        fflush(stdout);
    }
    if (!same) printf("FAILED: outputs differ\n");
    tn_contents_close(b->contents);
    tn_graph_destroy(b->graph);
    return same;
}

static void bench_parts(bench *b, char *text) {
    b->part_count = 0;
    for (char *part = strtok(text, ","); part != NULL && b->part_count < PARTS_MAX;
         part = strtok(NULL, ","))
        b->parts[b->part_count++] = strtod(part, NULL);
}

int main(int count, char **words) {
    bench b = {.folder = "/tmp", .parts = {0.5, 0.25, 0.1}, .part_count = 3, .repeat = 5};
    bool same = true;
    b.threads = 1;
    int at = 1;
    for (; at + 1 < count && strncmp(words[at], "--", 2) == 0; at += 2) {
        char *value = words[at + 1];
        if (strcmp(words[at], "--group") == 0)
            b.group = value;
        else if (strcmp(words[at], "--folder") == 0)
            b.folder = value;
        else if (strcmp(words[at], "--parts") == 0)
            bench_parts(&b, value);
        else if (strcmp(words[at], "--repeat") == 0)
            b.repeat = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(words[at], "--threads") == 0)
            b.threads = (uint32_t)strtoul(value, NULL, 10);
        else
            return fprintf(stderr, "mapped: there is no option %s\n", words[at]), 2;
    }
    if (b.group == NULL || at >= count || b.repeat == 0)
        return fprintf(stderr, "usage: mapped --group FOLDER [...] MODEL.onnx...\n"), 2;
    for (; at < count; at++) {
        b.model = words[at];
        same &= bench_model(&b);
    }
    return !same;
}
