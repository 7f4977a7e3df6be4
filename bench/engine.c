/* engine.c - how fast is whole-network inference, and how much memory does it take?
 *
 *     build/bench/engine [--ort NODE_MODULES] [--torch PYTHON] [--threads N,N] [--repeat N]
 *                        [--rounds N] [--dim NAME=N] [--no-fuse] [--no-formats] [--profile]
 *                        MODEL.onnx...
 *
 * Each row is one model and one number of threads: the fastest of `repeat` x `rounds` runs, in
 * milliseconds of wall time and of processor time of the process; with --ort beside it the same of
 * ONNX Runtime (its node package lies in NODE_MODULES), in a process of its own per round, the two
 * in turns so that a busy machine hurts both. Models need their weights for that
 * (tools/fill-weights); without --ort missing weights are made up.
 *
 * Memory: our arena is the peak of the plan, which the run does not exceed, with the kernels'
 * scratch; our weights are all that stays in static memory. ONNX Runtime's arena is what its log
 * says that it took for anything but weights ("Extended allocation by"; some kernels' scratch is
 * outside of it); beside it the growth of its process's resident set, with weights and code.
 * PyTorch (--torch, a python3 with torch and torchvision; networks of torchvision alone): the most
 * bytes that tensors of one run held at once, as its profiler tells.
 * --profile prints where the time of one run goes, by operator and kernel.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"
#include "bench/kit/net.h"

typedef struct bench_setup {
    const char *modules; /* NULL: without ONNX Runtime */
    const char *python;  /* NULL: without PyTorch */
    uint32_t threads[8], thread_count;
    uint32_t repeat, rounds;
    tn_dim dims[8];
    uint32_t dim_count;
    bool no_fuse, no_formats, profile;
} bench_setup;

typedef struct bench_row {
    double wall_ms, cpu_ms;
    uint64_t arena, weights;
    double ort_wall_ms, ort_cpu_ms;
    uint64_t ort_arena, ort_resident;
    double torch_ms;
    uint64_t torch_peak;
} bench_row;

static void bench_stop(const char *what, const tn_error *error) {
    fprintf(stderr, "engine: %s: %s: %s\n", what, error->where, error->message);
    exit(1);
}

static double bench_cpu_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* --- ours --- */

static tn_status bench_set_up(const bench_setup *setup, const char *path, uint32_t threads,
                              bench_net *net, tn_error *error) {
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    bench_plan plan = {.threads = threads, .traced = setup->profile};
    options.dims = setup->dims;
    options.dim_count = setup->dim_count;
    rewrite.no_fuse = setup->no_fuse;
    rewrite.no_formats = setup->no_formats;
    TN_TRY(bench_load(net, path, &options, setup->modules == NULL, error));
    TN_TRY(bench_infer(net, &rewrite, error));
    return bench_open(net, &plan, error);
}

static tn_status bench_run(bench_net *net, uint32_t repeat, bench_row *row, tn_error *error) {
    tn_engine_usage usage;
    for (uint32_t i = 0; i < repeat; i++) {
        double from = bench_cpu_s();
        TN_TRY(bench_step(net, &row->wall_ms, error));
        double cpu_ms = 1e3 * (bench_cpu_s() - from);
        if (cpu_ms < row->cpu_ms) row->cpu_ms = cpu_ms;
    }
    tn_engine_measure(net->engine, &usage);
    row->arena = usage.arena;
    row->weights = usage.static_bytes;
    return TN_OK;
}

/* --- ONNX Runtime's --- */

static void bench_ort(const bench_setup *setup, const char *path, uint32_t threads,
                      bench_row *row) {
    char command[4096], line[4096];
    uint64_t arena = 0;
    int length = snprintf(command, sizeof command, "node '%s' '%s' '%s' %u %u 2>&1",
                          TENURE_SOURCE_DIR "/bench/engine_ort.mjs", setup->modules, path, threads,
                          setup->repeat);
    FILE *out = length < (int)sizeof command ? popen(command, "r") : NULL;
    bool told = false;
    while (out != NULL && fgets(line, sizeof line, out) != NULL) {
        double wall, cpu, resident;
        const char *grown = strstr(line, "Extended allocation by ");
        if (grown != NULL) arena += strtoull(grown + 23, NULL, 10);
        if (sscanf(line, "wall_ms %lf cpu_ms %lf rss %lf", &wall, &cpu, &resident) != 3) continue;
        told = true;
        if (wall < row->ort_wall_ms) row->ort_wall_ms = wall;
        if (cpu < row->ort_cpu_ms) row->ort_cpu_ms = cpu;
        if (resident > (double)row->ort_resident) row->ort_resident = (uint64_t)resident;
    }
    if (arena > row->ort_arena) row->ort_arena = arena;
    if (out != NULL) pclose(out);
    if (!told) fprintf(stderr, "engine: ONNX Runtime did not run %s\n", path);
}

/* --- PyTorch's --- */

static void bench_torch(const bench_setup *setup, const char *path, uint32_t threads,
                        bench_row *row) {
    char command[4096], line[256], name[128];
    const char *base = strrchr(path, '/') != NULL ? strrchr(path, '/') + 1 : path;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(base, "."), base);
    int length =
        snprintf(command, sizeof command, "'%s' '%s' '%s' %u %u 2>/dev/null", setup->python,
                 TENURE_SOURCE_DIR "/bench/engine_torch.py", name, threads, setup->repeat);
    FILE *out = length < (int)sizeof command ? popen(command, "r") : NULL;
    while (out != NULL && fgets(line, sizeof line, out) != NULL) {
        double wall, peak;
        if (sscanf(line, "torch_ms %lf torch_peak %lf", &wall, &peak) != 2) continue;
        row->torch_ms = wall;
        row->torch_peak = (uint64_t)peak;
    }
    if (out != NULL) pclose(out);
}

/* --- a table --- */

static const char *bench_base(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static void bench_print(const bench_setup *setup, const char *path, uint32_t threads,
                        const bench_row *row) {
    printf("| %-22.22s | %u | %8.2f | %8.2f |", bench_base(path), threads, row->wall_ms,
           row->cpu_ms);
    if (setup->modules != NULL)
        printf(" %8.2f | %8.2f | %5.2f | %5.2f |", row->ort_wall_ms, row->ort_cpu_ms,
               row->wall_ms / row->ort_wall_ms, row->cpu_ms / row->ort_cpu_ms);
    printf(" %8.2f | %8.2f |", bench_mib(row->arena), bench_mib(row->weights));
    if (setup->modules != NULL)
        printf(" %8.2f | %8.2f | %5.2f |", bench_mib(row->ort_arena), bench_mib(row->ort_resident),
               (double)row->arena / (double)row->ort_arena);
    if (setup->python != NULL && row->torch_peak > 0)
        printf(" %8.2f | %8.2f | %5.2f |", row->torch_ms, bench_mib(row->torch_peak),
               (double)row->arena / (double)row->torch_peak);
    else if (setup->python != NULL)
        printf(" - | - | - |");
    printf("\n");
    fflush(stdout);
}

static void bench_model(const bench_setup *setup, const char *path, uint32_t threads) {
    bench_net net = {0};
    bench_row row = {.wall_ms = 1e30, .cpu_ms = 1e30, .ort_wall_ms = 1e30, .ort_cpu_ms = 1e30};
    tn_error error = {0};
    tn_status status = bench_set_up(setup, path, threads, &net, &error);
    for (uint32_t i = 0; i < setup->rounds && status == TN_OK; i++) {
        status = bench_run(&net, setup->repeat, &row, &error);
        if (setup->modules != NULL) bench_ort(setup, path, threads, &row);
    }
    if (status != TN_OK) bench_stop(path, &error);
    if (setup->python != NULL) bench_torch(setup, path, threads, &row);
    bench_print(setup, path, threads, &row);
    if (setup->profile) bench_profile(&net, UINT32_MAX);
    bench_close(&net);
}

static void bench_head(const bench_setup *setup) {
    bool ort = setup->modules != NULL;
    bool torch = setup->python != NULL;
    printf("| model | threads | ms | cpu ms |%s arena MiB | weights MiB |%s%s\n",
           ort ? " ORT ms | ORT cpu ms | ratio | cpu ratio |" : "",
           ort ? " ORT arena MiB | ORT RSS MiB | arena ratio |" : "",
           torch ? " torch ms | torch peak MiB | arena ratio |" : "");
    printf("|---|---|---|---|%s---|---|%s%s\n", ort ? "---|---|---|---|" : "",
           ort ? "---|---|---|" : "", torch ? "---|---|---|" : "");
}

static void bench_dim(bench_setup *setup, char *text) {
    char *equals = strchr(text, '=');
    if (equals == NULL || setup->dim_count == 8) return;
    *equals = '\0';
    setup->dims[setup->dim_count++] =
        (tn_dim){.name = text, .value = strtoll(equals + 1, NULL, 10)};
}

int main(int count, char **words) {
    bench_setup setup = {.threads = {1, 2}, .thread_count = 2, .repeat = 10, .rounds = 3};
    bool headed = false;
    for (int i = 1; i < count; i++) {
        bool more = i + 1 < count;
        if (strcmp(words[i], "--ort") == 0 && more)
            setup.modules = words[++i];
        else if (strcmp(words[i], "--torch") == 0 && more)
            setup.python = words[++i];
        else if (strcmp(words[i], "--threads") == 0 && more)
            setup.thread_count = bench_numbers(words[++i], setup.threads, 8);
        else if (strcmp(words[i], "--repeat") == 0 && more)
            setup.repeat = (uint32_t)strtoul(words[++i], NULL, 10);
        else if (strcmp(words[i], "--rounds") == 0 && more)
            setup.rounds = (uint32_t)strtoul(words[++i], NULL, 10);
        else if (strcmp(words[i], "--dim") == 0 && more)
            bench_dim(&setup, words[++i]);
        else if (strcmp(words[i], "--no-fuse") == 0)
            setup.no_fuse = true;
        else if (strcmp(words[i], "--no-formats") == 0)
            setup.no_formats = true;
        else if (strcmp(words[i], "--profile") == 0)
            setup.profile = true;
        else {
            if (!headed) bench_head(&setup);
            headed = true;
            for (uint32_t t = 0; t < setup.thread_count; t++)
                bench_model(&setup, words[i], setup.threads[t]);
        }
    }
    return 0;
}
