/* training.c - how fast is a training step, and how much memory does it take?
 *
 *     build/bench/training [--torch PYTHON] [--threads N,N] [--repeat N] [--rounds N]
 *                          [--no-formats] [--without REWRITE,...] [--batch N]
 *                          [--dtype f32|bf16|f16] [--recompute SHARE | --budget MIB,...]
 *                          [--processor] [--profile] DIR NAME...
 *
 * NAME is a network of bench/training_torch.py (resnet18, resnet50, unet, gpt-tiny, r3d_18, ...),
 * which writes DIR/NAME.onnx when it is not there (--torch, a python3 with torch and torchvision)
 * and measures PyTorch on the same network, batch and optimizer (SGD with momentum), in a process
 * of its own per round, the two in turns so that a busy machine hurts both. A row is one network
 * and one number of threads: the fastest of `repeat` x `rounds` steps, forward, backward and
 * update.
 *
 * Memory: ours is the peak of the plan, which the run does not exceed, and all static memory
 * (parameters, velocities, statistics). PyTorch's is the most bytes that its tensors held at once
 * in a step, parameters and velocities with them, as its profiler tells allocations; the batch
 * itself is in neither. Contents are made up: they change no time.
 * --dtype: of activations and gradients; PyTorch's stay float32.
 * --budget: the fastest program within so many MiB, of costs measured here (`tenure fit`): one
 * number for each NAME, of which the last stands for those behind it; 0: nothing is computed again.
 * --processor: milliseconds of the processor, of all threads, ours and PyTorch's: for one thread on
 * a machine that others use.
 * --profile prints where the time of one step goes, by operator and kernel.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "bench/kit/net.h"

typedef struct bench_setup {
    const char *python, *folder, *without;
    uint32_t threads[8], thread_count, repeat, rounds, batch;
    double recompute;   /* share of the step's work that may be done twice */
    double budgets[16]; /* MiB, one for each network; 0: none */
    uint32_t budget_count;
    bool no_formats, profile, processor;
    tn_dtype dtype;
} bench_setup;

typedef struct bench_row {
    double ms, torch_ms;
    uint64_t arena, statics, torch_peak;
} bench_row;

/* `fitted` runs the fastest program within so many MiB: that of the result, which outlives it. */
static tn_status bench_open_fitted(const bench_net *net, const bench_plan *plan, double mib,
                                   tn_fit_result *result, bench_net *fitted, tn_error *error) {
    tn_fit_options options = TN_FIT_OPTIONS_INIT;
    bench_plan within = *plan;
    tn_costs *costs = NULL;
    options.budget = (uint64_t)(mib * 1048576);
    tn_status status = bench_costs(net, &costs, error);
    if (status == TN_OK) status = bench_fit(net, costs, &options, result, error);
    within.enough = result->layout.peak;
    if (status == TN_OK)
        status = bench_open_program(net, &within, result->program, 0, fitted, error);
    if (status == TN_OK && plan->traced)
        printf(
            "    within %.1f MiB by %s: %.3f of the plain time is predicted, no program within it "
            "takes less than %.3f; %.1f s of search\n",
            mib, result->pass, (double)result->time / (double)result->plain_time,
            (double)result->time_bound / (double)result->plain_time, result->seconds);
    tn_costs_destroy(costs);
    return status;
}

static tn_status bench_set_up(const bench_setup *setup, const char *path, const bench_plan *plan,
                              bench_net *net, tn_error *error) {
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    train.optimizer = TN_OPTIMIZER_MOMENTUM;
    train.fuse_update = true;
    train.dtype = setup->dtype;
    rewrite.without = setup->without;
    rewrite.no_formats = setup->no_formats;
    TN_TRY(bench_load(net, path, NULL, false, error));
    TN_TRY(bench_train(net, &train, &rewrite, error));
    TN_TRY(bench_open(net, plan, error));
    const tn_recompute_report *again = tn_setup_recomputed(net->setup);
    if (setup->profile && again != NULL)
        printf("    %u operators run again: %.3f of the work; live bytes %.1f to %.1f MiB\n",
               again->operators, again->share, bench_mib(again->before), bench_mib(again->after));
    return TN_OK;
}

static tn_status bench_run(bench_net *net, uint32_t repeat, bench_row *row, tn_error *error) {
    tn_engine_usage usage;
    for (uint32_t i = 0; i < repeat; i++) TN_TRY(bench_step(net, &row->ms, error));
    tn_engine_measure(net->engine, &usage);
    row->arena = usage.arena;
    row->statics = usage.static_bytes;
    return TN_OK;
}

/* Who holds the arena at its worst step. */
static void bench_holders(const bench_net *net) {
    tn_occupant holders[12];
    const tn_occupancy *occupancy = tn_setup_occupancy(net->setup);
    const tn_program *program = tn_setup_program(net->setup);
    uint32_t count = tn_occupancy_holders(occupancy, TN_NONE, holders, 12);
    tn_memory_summary summary = tn_occupancy_summary(occupancy);
    const tn_instruction *at = &tn_program_instructions(program)[summary.peak_step];
    printf("    peak at step %u of %u, %s; order %s\n", summary.peak_step,
           tn_program_count(program),
           at->op != TN_NONE ? tn_graph_op(net->graph, at->op)->name : "-",
           tn_program_order_of(program).name);
    for (uint32_t i = 0; i < count && i < 12; i++) {
        const tn_life *life = &tn_occupancy_lives(occupancy)[holders[i].life];
        const char *name =
            life->tensor == TN_NONE ? "(scratch)" : tn_graph_tensor(net->graph, life->tensor)->name;
        printf("    %9.2f MiB  [%u, %u) %s\n", bench_mib(holders[i].bytes), life->first, life->last,
               name);
    }
}

/* --- PyTorch --- */

/* Writes the model when repeat is 0, else measures. */
static void bench_torch(const bench_setup *setup, const char *name, uint32_t threads,
                        uint32_t repeat, bench_row *row) {
    char command[4096], line[256];
    int length = snprintf(command, sizeof command, "'%s' '%s' '%s' '%s' %u %u %u %s", setup->python,
                          TENURE_SOURCE_DIR "/bench/training_torch.py", name, setup->folder,
                          setup->batch, threads, repeat, setup->processor ? "processor" : "");
    FILE *out = length < (int)sizeof command ? popen(command, "r") : NULL;
    while (out != NULL && fgets(line, sizeof line, out) != NULL) {
        double ms, peak;
        if (sscanf(line, "torch_ms %lf torch_peak %lf", &ms, &peak) != 2) continue;
        if (row->torch_ms == 0 || ms < row->torch_ms) row->torch_ms = ms;
        row->torch_peak = (uint64_t)peak;
    }
    if (out != NULL) pclose(out);
}

static void bench_print(const bench_setup *setup, const char *name, uint32_t threads,
                        const bench_row *row) {
    uint64_t own = row->arena + row->statics;
    printf("| %-9s | %u | %9.1f | %8.1f | %8.1f | %8.1f |", name, threads, row->ms,
           bench_mib(row->arena), bench_mib(row->statics), bench_mib(own));
    if (setup->python != NULL && row->torch_peak > 0)
        printf(" %9.1f | %8.1f | %5.2f | %5.2f |", row->torch_ms, bench_mib(row->torch_peak),
               row->ms / row->torch_ms, (double)own / (double)row->torch_peak);
    printf("\n");
    fflush(stdout);
}

/* `at`: of the names. */
static void bench_model(const bench_setup *setup, uint32_t at, const char *name, uint32_t threads) {
    const uint32_t budgets = setup->budget_count;
    const double mib = budgets == 0 ? 0 : setup->budgets[at < budgets ? at : budgets - 1];
    bench_net net = {0}, fitted = {0}, *runs = mib > 0 ? &fitted : &net;
    bench_plan plan = {.threads = threads, .order = "auto", .rate = 1e-6f};
    bench_row row = {.ms = 1e30};
    tn_fit_result result = {0};
    tn_error error = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.onnx", setup->folder, name);
    if (setup->python != NULL) bench_torch(setup, name, threads, 0, &row);
    plan.traced = setup->profile;
    plan.again.share = setup->recompute;
    plan.processor = setup->processor;
    tn_status status = bench_set_up(setup, path, &plan, &net, &error);
    if (status == TN_OK && mib > 0)
        status = bench_open_fitted(&net, &plan, mib, &result, &fitted, &error);
    for (uint32_t i = 0; i < setup->rounds && status == TN_OK; i++) {
        status = bench_run(runs, setup->repeat, &row, &error);
        if (setup->python != NULL) bench_torch(setup, name, threads, setup->repeat, &row);
    }
    if (status != TN_OK)
        printf("| %s | %u | %s: %s |\n", name, threads, error.where, error.message);
    else
        bench_print(setup, name, threads, &row);
    if (status == TN_OK && setup->profile) bench_profile(runs, 24);
    if (status == TN_OK && setup->profile) bench_holders(runs);
    bench_close(&fitted);
    tn_fit_release(&result);
    bench_close(&net);
}

int main(int argc, char **argv) {
    bench_setup setup = {
        .threads = {1, 2}, .thread_count = 2, .repeat = 3, .rounds = 2, .batch = 8};
    int i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        bool more = i + 1 < argc;
        if (more && strcmp(argv[i], "--torch") == 0)
            setup.python = argv[++i];
        else if (more && strcmp(argv[i], "--threads") == 0)
            setup.thread_count = bench_numbers(argv[++i], setup.threads, 8);
        else if (more && strcmp(argv[i], "--repeat") == 0)
            setup.repeat = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--rounds") == 0)
            setup.rounds = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--batch") == 0)
            setup.batch = (uint32_t)strtoul(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--without") == 0)
            setup.without = argv[++i];
        else if (more && strcmp(argv[i], "--dtype") == 0)
            setup.dtype = strcmp(argv[++i], "bf16") == 0 ? TN_BFLOAT16
                          : strcmp(argv[i], "f16") == 0  ? TN_FLOAT16
                                                         : TN_FLOAT32;
        else if (more && strcmp(argv[i], "--recompute") == 0)
            setup.recompute = strtod(argv[++i], NULL);
        else if (more && strcmp(argv[i], "--budget") == 0)
            setup.budget_count = bench_reals(argv[++i], setup.budgets, 16);
        else if (strcmp(argv[i], "--processor") == 0)
            setup.processor = true;
        else if (strcmp(argv[i], "--no-formats") == 0)
            setup.no_formats = true;
        else if (strcmp(argv[i], "--profile") == 0)
            setup.profile = true;
        else
            i = argc;
    }
    if (i + 1 >= argc) {
        fprintf(stderr, "training: see the head of bench/training.c for its arguments\n");
        return 2;
    }
    setup.folder = argv[i++];
    printf("| network | threads | ms | arena MiB | static MiB | both |%s\n",
           setup.python != NULL ? " torch ms | torch MiB | time | memory |" : "");
    printf("|---|---|---|---|---|---|%s\n", setup.python != NULL ? "---|---|---|---|" : "");
    for (uint32_t at = 0; i < argc; i++, at++)
        for (uint32_t k = 0; k < setup.thread_count; k++)
            bench_model(&setup, at, argv[i], setup.threads[k]);
    return 0;
}
