/* eager.c - what does it cost to be eager?
 *
 *     build/bench/eager [--size N] [--steps N] [--share S] [--policy NAME]
 *
 * First an operator on 16 floats at a time: with its kernel, the kernel alone, and the difference,
 * beside PyTorch's eager mode on the same (bench/eager_torch.py, where python3-torch is installed).
 * Then the networks of examples/eager: a step with all the memory that it takes and in a share of
 * that, by turns, the least of each; how much of the latter was spent in looking for who goes.
 */
#include <inttypes.h>

#include "base/base.h"
#include "eager/interpreter.h"
#include "examples/eager/networks.h"

#define BENCH_RUNS 200000u

static void bench_die(const tn_error *error) {
    fprintf(stderr, "%s: %s\n", error->where, error->message);
    exit(1);
}

/* --- dispatch --- */

typedef struct bench_op {
    const char *type;
    uint32_t input_count;
} bench_op;

static double bench_apply(tn_eager *eager, const tn_eager_call *call) {
    tn_error error;
    tn_handle y;
    double least = 1;
    for (uint32_t turn = 0; turn < 5; turn++) {
        double since = tn__clock_s();
        for (uint32_t i = 0; i < BENCH_RUNS / 5; i++)
            if (tn_eager_apply(eager, call, &y, &error) || tn_eager_del(eager, y, &error))
                bench_die(&error);
        double took = (tn__clock_s() - since) / (BENCH_RUNS / 5);
        least = took < least ? took : least;
    }
    return least * 1e9;
}

/* The kernel of the last operator that was prepared, on its operands as they are bound. */
static double bench_kernel(tn_eager *eager) {
    tn__recipe *recipe = eager->recipes.of[eager->recipes.count - 1];
    double least = 1;
    if (recipe->prepared == NULL) return 0;
    for (uint32_t turn = 0; turn < 5; turn++) {
        double since = tn__clock_s();
        for (uint32_t i = 0; i < BENCH_RUNS / 5; i++)
            if (recipe->prepared->kernel->run(&recipe->call) != TN_OK) abort();
        double took = (tn__clock_s() - since) / (BENCH_RUNS / 5);
        least = took < least ? took : least;
    }
    return least * 1e9;
}

static void bench_dispatch(void) {
    static const bench_op ops[] = {{"Add", 2}, {"Relu", 1}, {"MatMul", 2}, {"Identity", 1}};
    tn_eager_options options = TN_EAGER_OPTIONS_INIT;
    tn_error error;
    tn_handle inputs[2];
    tn_eager *eager;
    const float numbers[16] = {1, 2, 3};
    const tn_eager_data data = {
        .dtype = TN_FLOAT32, .rank = 2, .shape = (int64_t[]){4, 4}, .data = numbers};
    options.budget = 1 << 20;
    options.no_tape = true;
    if (tn_eager_create(&options, &eager, &error) ||
        tn_eager_put(eager, &data, &inputs[0], &error) ||
        tn_eager_put(eager, &data, &inputs[1], &error))
        bench_die(&error);
    printf("%-10s %10s %10s %10s   ns, apply and del of 4 x 4\n", "operator", "whole", "kernel",
           "dispatch");
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const tn_eager_call call = {.type = ops[i].type,
                                    .inputs = inputs,
                                    .input_count = ops[i].input_count,
                                    .output_count = 1};
        double whole = bench_apply(eager, &call), kernel = bench_kernel(eager);
        printf("%-10s %10.0f %10.0f %10.0f\n", ops[i].type, whole, kernel, whole - kernel);
    }
    tn_eager_destroy(eager);
    fflush(stdout);
    if (system("/usr/bin/python3 " TENURE_SOURCE_DIR "/bench/eager_torch.py") != 0)
        puts("SKIP: no PyTorch beside it");
}

/* --- networks --- */

typedef struct bench_run {
    net n;
    network_state state;
    double least;
} bench_run;

static void bench_open(bench_run *run, const network *which, const char *policy, uint64_t budget,
                       int64_t size) {
    tn_eager_options options = TN_EAGER_OPTIONS_INIT;
    options.budget = budget;
    options.policy = policy;
    net_open(&run->n, &options, 1);
    which->make(&run->n, &run->state, size);
    net_optimizer(&run->n, TN_OPTIMIZER_SGD);
    run->least = INFINITY;
}

static void bench_step(bench_run *run, const network *which) {
    double since = tn__clock_s();
    net_train(&run->n, which->loss(&run->n, &run->state), which->rate);
    double took = tn__clock_s() - since;
    if (run->n.status != TN_OK) return;
    run->least = took < run->least ? took : run->least;
}

static void bench_network(const network *which, const char *policy, double share, int64_t size,
                          int steps) {
    static bench_run plain, less;
    tn_eager_counts all, counts;
    bench_open(&plain, which, NULL, (uint64_t)1 << 30, size);
    bench_step(&plain, which);
    tn_eager_count(plain.n.eager, &all);
    bench_open(&less, which, policy, (uint64_t)(share * (double)all.evict.peak_bytes), size);
    double since = tn__clock_s(), spent = 0;
    for (int s = 0; s < steps && less.n.status == TN_OK; s++) {
        since = tn__clock_s();
        bench_step(&less, which);
        spent += tn__clock_s() - since;
        bench_step(&plain, which);
    }
    tn_eager_count(less.n.eager, &counts);
    if (less.n.status != TN_OK)
        printf("%-14s %11" PRIu64 " %s\n", which->name, all.evict.peak_bytes, less.n.error.message);
    else
        printf("%-14s %11" PRIu64 " %11" PRIu64 " %8.2f %8.2f %7.2f %7.1f%% %9" PRIu64 "\n",
               which->name, all.evict.peak_bytes, counts.evict.peak_bytes, plain.least * 1e3,
               less.least * 1e3, less.least / plain.least, 100 * counts.evict.search_s / spent,
               counts.evict.remade_ops / (uint64_t)steps);
    net_close(&plain.n);
    net_close(&less.n);
}

int main(int count, char **words) {
    int64_t size = 4;
    int steps = 5;
    double share = 0.5;
    const char *policy = NULL;
    for (int i = 1; i + 1 < count; i += 2) {
        if (strcmp(words[i], "--size") == 0) size = atoi(words[i + 1]);
        if (strcmp(words[i], "--steps") == 0) steps = atoi(words[i + 1]);
        if (strcmp(words[i], "--share") == 0) share = atof(words[i + 1]);
        if (strcmp(words[i], "--policy") == 0) policy = words[i + 1];
    }
    bench_dispatch();
    printf("\n%-14s %11s %11s %8s %8s %7s %8s %9s   bytes and ms a step at %.2f\n", "network",
           "plain", "within", "plain", "within", "ratio", "search", "again", share);
    for (size_t k = 0; k < NETWORK_COUNT; k++)
        bench_network(&networks[k], policy, share, size, steps);
    return 0;
}
