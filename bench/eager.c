/* eager.c - what does it cost to be eager?
 *
 *     build/bench/eager [--size N] [--steps N] [--shares 1,0.7,0.5,0.35] [--policy NAME]
 *                       [--network NAME] [--limit SECONDS] [--planner NAME] [--ahead 0]
 *                       [--plain 0]
 *
 * First an operator on 16 floats at a time: with its kernel, the kernel alone, and the difference,
 * beside PyTorch's eager mode on the same (bench/eager_torch.py, where python3-torch is installed).
 *
 * Then the networks of examples/eager: one step, on the same batch each time, with all the memory
 * that it takes and in shares of that; beside it the same step as it was recorded, planned ahead
 * (`fit`) in the same bytes (not with --ahead 0; with --plain 0 only the step within the budget,
 * for a profiler). All four by turns, the least of each. Times are those of the processor, so that
 * a busy machine hurts little; rows that take more than the limit are ended.
 */
#include <inttypes.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "examples/eager/networks.h"
#include "run/eager/interpreter.h"

#include <tenure/engine.h>
#include <tenure/run.h>

#define BENCH_TURNS 200u
#define BENCH_RUNS 1000u /* of a turn: shorter than what a busy machine takes at a time */

static void bench_die(const tn_error *error) {
    fprintf(stderr, "%s: %s\n", error->where, error->message);
    exit(1);
}

/* Seconds of the processor, of all threads that wait now, and of this one. */
static double bench_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
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
    for (uint32_t turn = 0; turn < BENCH_TURNS; turn++) {
        double since = bench_clock();
        for (uint32_t i = 0; i < BENCH_RUNS; i++)
            if (tn_eager_apply(eager, call, &y, &error) || tn_eager_del(eager, y, &error))
                bench_die(&error);
        double took = (bench_clock() - since) / BENCH_RUNS;
        least = took < least ? took : least;
    }
    return least * 1e9;
}

/* The kernel of the last operator that was prepared, on its operands as they are bound. */
static double bench_kernel(tn_eager *eager) {
    tn__cached_op *cached = eager->op_cache.of[eager->op_cache.count - 1];
    double least = 1;
    if (cached->prepared == NULL) return 0;
    for (uint32_t turn = 0; turn < BENCH_TURNS; turn++) {
        double since = bench_clock();
        for (uint32_t i = 0; i < BENCH_RUNS; i++)
            if (cached->prepared->kernel->run(&cached->call) != TN_OK) abort();
        double took = (bench_clock() - since) / BENCH_RUNS;
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

typedef struct bench {
    const network *which;
    const char *policy, *planner;
    int64_t size;
    int steps;
    bool ahead, plain;
    unsigned limit;
} bench;

typedef struct bench_run {
    net n;
    network_state state;
    double least, searched; /* seconds of the least step; by the clock, in looking for who goes */
} bench_run;

static void bench_open(bench_run *run, const bench *it, uint64_t budget, bool record) {
    tn_eager_options options = TN_EAGER_OPTIONS_INIT;
    options.budget = budget;
    options.policy = it->policy;
    options.record = record;
    net_open(&run->n, &options, 1);
    it->which->make(&run->n, &run->state, it->size);
    net_optimizer(&run->n, TN_OPTIMIZER_SGD);
    run->least = run->searched = INFINITY;
}

/* When the threads of a session have gone to sleep, and their time is counted. */
static double bench_clock_at_rest(void) {
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return bench_clock();
}

/* On the batch, and the trees, of the first step. */
static void bench_step(bench_run *run, const bench *it) {
    tn_eager_counts before, after;
    run->n.random = 77;
    tn_eager_count(run->n.eager, &before);
    double since = bench_clock_at_rest();
    net_train(&run->n, it->which->loss(&run->n, &run->state), it->which->rate);
    double took = bench_clock_at_rest() - since;
    tn_eager_count(run->n.eager, &after);
    double searched = after.evict.search_s - before.evict.search_s;
    if (run->n.status != TN_OK) return;
    run->least = took < run->least ? took : run->least;
    run->searched = searched < run->searched ? searched : run->searched;
}

/* --- the same step, planned ahead --- */

typedef struct bench_ahead {
    tn_session *session;
    double least;
} bench_ahead;

/* What a step does takes as long with other numbers; none of them leaves the range of labels. */
static tn_status bench_read(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                            uint64_t size, tn_error *error) {
    (void)self, (void)error;
    memset(bytes, 0, (size_t)size);
    if (tn_graph_tensor(graph, tensor)->dtype == TN_FLOAT32)
        for (uint64_t i = 0; i < size / sizeof(float); i++)
            ((float *)bytes)[i] = 0.01f + 0.001f * (float)(i % 64);
    return TN_OK;
}

static void bench_fill(tn_session *session, const tn_graph *graph) {
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(graph); t++) {
        tn_array *array = tn_session_array(session, t);
        if (array != NULL && tn_graph_tensor(graph, t)->kind == TN_KIND_INPUT)
            (void)bench_read(NULL, graph, t, array->data, array->bytes, NULL);
    }
}

/* False: no program was found within so many bytes, or none is. */
static bool bench_ahead_open(bench_ahead *ahead, const bench *it, const tn_graph *graph,
                             uint64_t budget) {
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    tn_error error;
    options.read = bench_read;
    options.no_rewrite = true; /* the kernels that ran eagerly */
    options.budget = budget;
    options.planner = it->planner;
    *ahead = (bench_ahead){.least = INFINITY};
    if (!it->ahead) return false;
    tn_status status = tn_session_open(graph, &options, &ahead->session, &error);
    if (status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE) return false;
    if (status != TN_OK) bench_die(&error);
    bench_fill(ahead->session, graph);
    return true;
}

static void bench_ahead_step(bench_ahead *ahead) {
    tn_error error;
    if (ahead->session == NULL) return;
    double since = bench_clock_at_rest();
    if (tn_session_run(ahead->session, &error) != TN_OK) bench_die(&error);
    double took = bench_clock_at_rest() - since;
    if (took < ahead->least) ahead->least = took;
}

static uint64_t bench_ahead_bytes(const bench_ahead *ahead) {
    if (ahead->session == NULL) return 0;
    tn_setup_needs need = tn_setup_need(tn_session_setup(ahead->session));
    return need.statics + need.arena;
}

/* --- a row --- */

static void bench_row(const bench *it, const tn_graph *graph, uint64_t peak, double share) {
    static bench_run plain, less;
    bench_ahead all, ahead;
    uint64_t budget = (uint64_t)(share * (double)peak);
    tn_eager_counts counts, first;
    bench_open(&plain, it, UINT64_C(1) << 30, false);
    bench_open(&less, it, budget, false);
    (void)bench_ahead_open(&all, it, graph, 0);
    bool fits = bench_ahead_open(&ahead, it, graph, budget);
    bench_step(&less, it);
    tn_eager_count(less.n.eager, &first);
    for (int s = 0; s < it->steps; s++) {
        if (it->plain) bench_step(&plain, it);
        if (less.n.status == TN_OK) bench_step(&less, it);
        bench_ahead_step(&all);
        bench_ahead_step(&ahead);
    }
    tn_eager_count(less.n.eager, &counts);
    printf("| %s | %.2f | %" PRIu64 " | ", it->which->name, share, budget);
    if (less.n.status == TN_E_EXHAUSTED)
        printf("full | | | | | ");
    else if (less.n.status != TN_OK)
        bench_die(&less.n.error);
    else
        printf("%" PRIu64 " | %.2f | %.2f | %.2f | %.1f %% | ", counts.evict.peak_bytes,
               1e3 * plain.least, less.least / plain.least,
               (double)(counts.evict.remade_ops - first.evict.remade_ops) /
                   (double)(counts.evict.plain_ops - first.evict.plain_ops),
               100 * less.searched / less.least);
    if (fits)
        printf("%" PRIu64 " | %.2f | %.2f |\n", bench_ahead_bytes(&ahead), 1e3 * all.least,
               ahead.least / all.least);
    else if (it->ahead)
        printf("none | %.2f | |\n", 1e3 * all.least);
    else
        printf("| | |\n");
}

static bool bench_failed; /* a row, by anything but its limit */

/* In a child, which is ended when it takes too long. */
static void bench_limited(const bench *it, const tn_graph *graph, uint64_t peak, double share) {
    fflush(stdout);
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {it->limit, it->limit + 1};
        if (setrlimit(RLIMIT_CPU, &limit) != 0) abort();
        bench_row(it, graph, peak, share);
        fflush(stdout);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) abort();
    if (status == 0) return;
    printf("| %s | %.2f | ", it->which->name, share);
    if (WIFEXITED(status)) /* it said why */
        printf("failed: status %d |\n", WEXITSTATUS(status));
    else if (WTERMSIG(status) == SIGXCPU)
        printf("more than %u s |\n", it->limit);
    else
        printf("ended by signal %d, %s |\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
    bench_failed = bench_failed || WIFEXITED(status) || WTERMSIG(status) != SIGXCPU;
}

static void bench_network(const bench *it, const char *shares) {
    static bench_run recorded;
    tn_graph *graph;
    tn_eager_counts counts;
    bench_open(&recorded, it, UINT64_C(1) << 30, true);
    bench_step(&recorded, it);
    tn_eager_count(recorded.n.eager, &counts);
    if (recorded.n.status != TN_OK ||
        tn_eager_recorded(recorded.n.eager, &graph, NULL, &recorded.n.error))
        bench_die(&recorded.n.error);
    for (char *end; *shares != '\0'; shares = *end == ',' ? end + 1 : end) {
        double share = strtod(shares, &end);
        if (end == shares) break;
        bench_limited(it, graph, counts.evict.peak_bytes, share);
    }
    tn_graph_destroy(graph);
    net_close(&recorded.n);
}

int main(int count, char **words) {
    bench it = {.size = 4, .steps = 15, .ahead = true, .plain = true, .limit = 60};
    const char *shares = "1,0.7,0.5,0.35", *name = NULL;
    for (int i = 1; i + 1 < count; i += 2) {
        if (strcmp(words[i], "--size") == 0) it.size = atoi(words[i + 1]);
        if (strcmp(words[i], "--steps") == 0) it.steps = atoi(words[i + 1]);
        if (strcmp(words[i], "--limit") == 0) it.limit = (unsigned)atoi(words[i + 1]);
        if (strcmp(words[i], "--shares") == 0) shares = words[i + 1];
        if (strcmp(words[i], "--policy") == 0) it.policy = words[i + 1];
        if (strcmp(words[i], "--planner") == 0) it.planner = words[i + 1];
        if (strcmp(words[i], "--network") == 0) name = words[i + 1];
        if (strcmp(words[i], "--ahead") == 0) it.ahead = atoi(words[i + 1]) != 0;
        if (strcmp(words[i], "--plain") == 0) it.plain = atoi(words[i + 1]) != 0;
    }
    if (name == NULL) bench_dispatch();
    puts(
        "\n| network | share | budget | peak | plain ms | within | again | search | ahead: bytes | "
        "plain ms | within |\n|---|---|---|---|---|---|---|---|---|---|---|");
    for (size_t k = 0; k < NETWORK_COUNT; k++) {
        it.which = &networks[k];
        if (name == NULL || strcmp(name, networks[k].name) == 0) bench_network(&it, shares);
    }
    return bench_failed;
}
