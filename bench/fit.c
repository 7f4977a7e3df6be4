/* fit.c - what does a budget cost, as predicted and as measured?
 *
 *     build/bench/fit [--threads N] [--ratios 0.7,0.5,0.35] [--passes joint,...] [--links 0,12e9]
 *                     [--batch N] [--steps N] [--optimizer NAME] [--torch PYTHON]
 *                     [--allow order,recompute,compress,lossy] MODEL...
 *
 * MODEL is a file in ONNX that is trained; what it has no contents for is made up. A row is a
 * budget: all static memory and a part of the arena of the plain program. Costs are measured first.
 * Plain and fitted steps are run by turns, so that a busy machine hurts both; the least of each is
 * told. What the first step gives is compared bit by bit with the plain program's. A link of 0
 * allows no copies, another one allows them. With compress, shares of zeros are counted in one
 * plain step.
 *
 * --torch: beside them, by turns too, PyTorch on the same network, batch, optimizer and threads:
 * plain, and with torch.utils.checkpoint in the segmenting of bench/fit_torch.py that is fastest
 * within the bytes that our program takes. MODEL is DIR/NAME.onnx then, of a NAME that
 * bench/training_torch.py knows, and is written if it is not there. Where PYTHON has no PyTorch,
 * the rows say so.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "bench/kit/net.h"
#include "bench/kit/torch.h"

#define FIT_LIST 16u

typedef struct fit_bench {
    double ratios[FIT_LIST], links[FIT_LIST];
    uint32_t ratio_count, link_count, pass_count, threads, steps, allow;
    const char *passes[FIT_LIST];
    int64_t batch;
    tn_optimizer optimizer;
    float *zeros; /* of the model in hand; NULL: not counted */
    const char *optimizer_name, *python;
    bench_torch torch;
} fit_bench;

typedef struct fit_row {
    double ratio, link;
    const char *pass;
} fit_row;

/* By turns, the least of each. */
typedef struct fit_times {
    double plain_ms, ms;
    bench_torch_step torch_plain, torch;
    bool same;
} fit_times;

static bool fit_same(const bench_net *a, const bench_net *b) {
    for (uint32_t i = 0; i < a->output_count; i++)
        if (memcmp(a->outputs[i].data, b->outputs[i].data, a->outputs[i].bytes) != 0) return false;
    return true;
}

static tn_fit_options fit_options(const fit_bench *bench, const fit_row *row,
                                  const bench_net *net) {
    tn_fit_options options = TN_FIT_OPTIONS_INIT;
    tn_setup_needs need = tn_setup_need(net->setup);
    options.budget = need.statics + (uint64_t)(row->ratio * (double)need.arena);
    options.pass = row->pass;
    options.allow = bench->allow;
    options.zeros = bench->zeros;
    if (row->link > 0) {
        options.allow |= TN_FIT_SWAP;
        options.to_host_bytes_per_s = options.from_host_bytes_per_s = row->link;
    }
    return options;
}

/* --- steps --- */

static tn_status fit_run(const fit_bench *bench, bench_net *plain, bench_net *fitted,
                         fit_times *times, tn_error *error) {
    times->plain_ms = times->ms = 1e30;
    for (uint32_t i = 0; i < bench->steps; i++) {
        double first = 1e30;
        TN_TRY(bench_step(plain, i > 0 ? &times->plain_ms : &first, error));
        TN_TRY(bench_step(fitted, i > 0 ? &times->ms : &first, error));
        if (i == 0) times->same = fit_same(plain, fitted);
        if (i == 0 || bench->torch.process == 0) continue;
        bench_torch_run(&bench->torch, "plain", &times->torch_plain);
        bench_torch_run(&bench->torch, "fitted", &times->torch);
    }
    return TN_OK;
}

static void fit_print_torch(const fit_bench *bench, const fit_times *times, const char *plan) {
    if (bench->python == NULL) return;
    if (times->torch.ms == 0)
        printf(" no PyTorch here | | | | |");
    else
        printf(" %8.1f | %8.1f | %8.1f | %8.1f | %s |", times->torch_plain.ms,
               bench_mib(times->torch_plain.bytes), times->torch.ms, bench_mib(times->torch.bytes),
               plan);
}

static void fit_print(const fit_times *times, const tn_fit_result *result,
                      const tn_engine_usage *usage) {
    /* it is planned anew for the engine, by who stops where that is enough */
    bool planned =
        usage->measured_peak == usage->planned_peak && usage->planned_peak <= result->layout.peak;
    printf(" %8.1f | %8.1f | %6.1f %% | %6.1f %% | %+5.1f %% |", times->plain_ms, times->ms,
           100 * ((double)result->time / (double)result->plain_time - 1),
           100 * (times->ms / times->plain_ms - 1),
           100 * ((double)result->time / 1e9 / times->ms - 1));
    printf(" %+5.1f %% | %6.1f | %6.1f | %s | %s |",
           100 * ((double)result->plain_time / 1e9 / times->plain_ms - 1),
           (double)result->stall / 1e9, 1e3 * usage->stall_seconds, times->same ? "yes" : "NO",
           planned ? "yes" : "NO");
}

static tn_status fit_measure(const fit_bench *bench, const fit_row *row, const bench_net *net,
                             const bench_plan *plan, const tn_fit_result *result, tn_error *error) {
    bench_net fitted = {0}, plain = {0};
    bench_plan within = *plan;
    tn_engine_usage usage;
    fit_times times = {0};
    char answer[128] = "";
    if (bench->torch.process > 0 &&
        !bench_torch_plan(&bench->torch, result->bytes, answer, sizeof answer))
        snprintf(answer, sizeof answer, "it went away");
    within.enough = result->layout.peak;
    tn_status status = bench_open_program(net, &within, result->program, row->link, &fitted, error);
    if (status == TN_OK) /* of its own, so that both begin with the same parameters */
        status = bench_open_program(net, plan, tn_setup_program(net->setup), 0, &plain, error);
    if (status == TN_OK) status = fit_run(bench, &plain, &fitted, &times, error);
    if (status == TN_OK) {
        tn_engine_measure(fitted.engine, &usage);
        fit_print(&times, result, &usage);
        fit_print_torch(bench, &times, answer);
        printf("\n");
    }
    bench_close(&plain);
    bench_close(&fitted);
    return status;
}

static tn_status fit_one(const fit_bench *bench, const fit_row *row, const char *name,
                         const bench_net *net, const bench_plan *plan, const tn_costs *costs,
                         tn_error *error) {
    tn_fit_result result;
    tn_fit_options options = fit_options(bench, row, net);
    tn_status status = bench_fit(net, costs, &options, &result, error);
    printf("| %-20s | %.2f | %4.1f | %-12s | %8.1f | %8.1f | %5.1f |", name, row->ratio,
           row->link / 1e9, row->pass, bench_mib(options.budget), bench_mib(result.bytes),
           result.seconds);
    bool none = status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE;
    if (none) printf(" none: %s |\n", error->message);
    if (status == TN_OK) status = fit_measure(bench, row, net, plan, &result, error);
    fflush(stdout);
    tn_fit_release(&result);
    return none ? TN_OK : status;
}

static tn_status fit_rows(const fit_bench *bench, const char *name, const bench_net *net,
                          const bench_plan *plan, const tn_costs *costs, tn_error *error) {
    for (uint32_t l = 0; l < bench->link_count; l++)
        for (uint32_t r = 0; r < bench->ratio_count; r++)
            for (uint32_t p = 0; p < bench->pass_count; p++) {
                fit_row row = {bench->ratios[r], bench->links[l], bench->passes[p]};
                TN_TRY(fit_one(bench, &row, name, net, plan, costs, error));
            }
    return TN_OK;
}

static tn_status fit_zeros(fit_bench *bench, const bench_net *net, const bench_plan *plan,
                           tn_error *error) {
    uint32_t tensors = tn_graph_tensor_count(tn_setup_graph(net->setup));
    bench_net counted = {0};
    bench_plan counts = *plan;
    double ms = 1e30;
    if (!(bench->allow & TN_FIT_COMPRESS)) return TN_OK;
    counts.zeros = bench->zeros = malloc(tensors * sizeof *bench->zeros);
    for (uint32_t i = 0; i < tensors; i++) bench->zeros[i] = -1;
    tn_status status =
        bench_open_program(net, &counts, tn_setup_program(net->setup), 0, &counted, error);
    if (status == TN_OK) status = bench_step(&counted, &ms, error);
    bench_close(&counted);
    return status;
}

/* Writes the model, too, if it is not there. */
static void fit_open_torch(fit_bench *bench, const char *path) {
    char folder[4096], name[256], batch[24], threads[24];
    const char *slash = strrchr(path, '/');
    if (bench->python == NULL) return;
    snprintf(folder, sizeof folder, "%.*s", slash != NULL ? (int)(slash - path) : 1,
             slash != NULL ? path : ".");
    snprintf(name, sizeof name, "%s", slash != NULL ? slash + 1 : path);
    name[strcspn(name, ".")] = '\0';
    snprintf(batch, sizeof batch, "%lld", (long long)(bench->batch > 0 ? bench->batch : 1));
    snprintf(threads, sizeof threads, "%u", bench->threads);
    const char *const words[] = {TENURE_SOURCE_DIR "/bench/fit_torch.py",
                                 name,
                                 folder,
                                 batch,
                                 threads,
                                 bench->optimizer_name,
                                 NULL};
    if (!bench_torch_open(&bench->torch, bench->python, words))
        fprintf(stderr, "%s: PyTorch is left out: '%s' could not run it\n", path, bench->python);
}

static tn_status fit_model(fit_bench *bench, const char *path, tn_error *error) {
    bench_net net = {0};
    tn_costs *costs = NULL;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    bench_plan plan = {.threads = bench->threads, .order = "auto", .rate = 1e-6f};
    const char *slash = strrchr(path, '/');
    fit_open_torch(bench, path);
    train.optimizer = bench->optimizer;
    train.fuse_update = true;
    import.batch = bench->batch;
    tn_status status = bench_load(&net, path, &import, true, error);
    if (status == TN_OK) status = bench_train(&net, &train, &rewrite, error);
    if (status == TN_OK) status = bench_open(&net, &plan, error);
    if (status == TN_OK) status = bench_costs(&net, &costs, error);
    if (status == TN_OK) status = fit_zeros(bench, &net, &plan, error);
    if (status == TN_OK)
        status = fit_rows(bench, slash != NULL ? slash + 1 : path, &net, &plan, costs, error);
    tn_costs_destroy(costs);
    free(bench->zeros);
    bench->zeros = NULL;
    bench_close(&net);
    bench_torch_close(&bench->torch);
    return status;
}

static bool fit_allow(fit_bench *bench, char *text) {
    static const struct {
        const char *word;
        uint32_t allows;
    } words[] = {{"order", TN_FIT_ORDER},
                 {"recompute", TN_FIT_RECOMPUTE},
                 {"compress", TN_FIT_COMPRESS},
                 {"lossy", TN_FIT_COMPRESS | TN_FIT_LOSSY}};
    bench->allow = 0;
    for (char *at = strtok(text, ","); at != NULL; at = strtok(NULL, ",")) {
        size_t i = 0;
        while (i < 4 && strcmp(words[i].word, at) != 0) i++;
        if (i == 4) return false;
        bench->allow |= words[i].allows;
    }
    return true;
}

static void fit_words(fit_bench *bench, char *text) {
    bench->pass_count = 0;
    for (char *at = strtok(text, ","); at != NULL && bench->pass_count < FIT_LIST;
         at = strtok(NULL, ","))
        bench->passes[bench->pass_count++] = at;
}

static bool fit_option(fit_bench *bench, const char *option, char *value) {
    if (strcmp(option, "--threads") == 0)
        bench->threads = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(option, "--ratios") == 0)
        bench->ratio_count = bench_reals(value, bench->ratios, FIT_LIST);
    else if (strcmp(option, "--links") == 0)
        bench->link_count = bench_reals(value, bench->links, FIT_LIST);
    else if (strcmp(option, "--passes") == 0)
        fit_words(bench, value);
    else if (strcmp(option, "--allow") == 0)
        return fit_allow(bench, value);
    else if (strcmp(option, "--batch") == 0)
        bench->batch = strtol(value, NULL, 10);
    else if (strcmp(option, "--steps") == 0)
        bench->steps = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(option, "--optimizer") == 0)
        bench->optimizer = tn_optimizer_find(bench->optimizer_name = value);
    else if (strcmp(option, "--torch") == 0)
        bench->python = value;
    else
        return false;
    return true;
}

int main(int count, char **words) {
    fit_bench bench = {.ratios = {0.7, 0.5, 0.35},
                       .ratio_count = 3,
                       .link_count = 1,
                       .passes = {"joint"},
                       .pass_count = 1,
                       .threads = 1,
                       .steps = 6,
                       .allow = TN_FIT_ORDER | TN_FIT_RECOMPUTE,
                       .optimizer = TN_OPTIMIZER_ADAM,
                       .optimizer_name = "adam"};
    tn_error error = {0};
    int at = 1;
    while (at + 1 < count && words[at][0] == '-' && fit_option(&bench, words[at], words[at + 1]))
        at += 2;
    if (at >= count || words[at][0] == '-') {
        fprintf(stderr, "usage: fit [options] MODEL...; see bench/fit.c\n");
        return 2;
    }
    printf(
        "| model | ratio | GB/s | pass | budget MiB | takes MiB | search s | plain ms | fitted ms "
        "| predicted | measured | prediction off | plain off | stall ms predicted | measured "
        "| same bits | peak as planned |%s\n"
        "|---|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|---|%s\n",
        bench.python != NULL ? " torch ms | MiB | checkpoint ms | MiB | segmented, of, tried |"
                             : "",
        bench.python != NULL ? "---:|---:|---:|---:|---|" : "");
    for (; at < count; at++)
        if (fit_model(&bench, words[at], &error) != TN_OK) {
            fprintf(stderr, "%s: %s: %s\n", words[at], error.where, error.message);
            return tn_status_exit_code(error.status);
        }
    return 0;
}
