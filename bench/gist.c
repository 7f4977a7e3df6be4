/* gist.c - what does it save to keep encoded what waits for the backward pass, and what does it
 * cost?
 *
 *     build/bench/gist [--batch N] [--threads N] [--optimizer NAME] [--steps N] [--trained N]
 *                      [--rate X] MODEL...
 *
 * MODEL is a file in ONNX that is trained; what it has no contents for is made up, and so are its
 * inputs. Rows:
 *
 *     as it was    the gradient of a maximum pool reads what the pool read (keep_pool_inputs)
 *     plain        pools keep which of each window won; the other rows have that, too
 *     bits, csr, lossless   encoded by `gist`, without loss
 *     float16, float10, float8   these, too; the results change
 *
 * Each is the program that needs least (tn_fit_least). Arena: its verified peak. Waiting: bytes
 * that live when the loss is computed, so what the forward pass leaves to the backward pass. Both
 * with how many times less they are than as it was. Shares of zeros are measured by one run, behind
 * --trained steps. Time: predicted by measured costs; --steps: also measured, by turns with the
 * plain program, the least of each; and whether what a step gives has the same bits.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "bench/kit/net.h"

typedef struct gist_bench {
    uint32_t threads, steps, trained;
    int64_t batch;
    float rate;
    tn_optimizer optimizer;
} gist_bench;

typedef struct gist_row {
    const char *name;
    uint32_t codecs;
    bool lossy;
} gist_row;

static const gist_row gist_rows[] = {
    {"bits", 1u << TN_CODEC_BITS, false},
    {"csr", 1u << TN_CODEC_CSR, false},
    {"lossless", 1u << TN_CODEC_BITS | 1u << TN_CODEC_CSR, false},
    {"float16", 1u << TN_CODEC_BITS | 1u << TN_CODEC_CSR | 1u << TN_CODEC_FLOAT16, true},
    {"float10", 1u << TN_CODEC_BITS | 1u << TN_CODEC_CSR | 1u << TN_CODEC_FLOAT10, true},
    {"float8", 1u << TN_CODEC_BITS | 1u << TN_CODEC_CSR | 1u << TN_CODEC_FLOAT8, true},
};

typedef struct gist_model {
    const gist_bench *bench;
    const char *name;
    bench_net net;
    bench_plan plan;
    tn_costs *costs;
    float *zeros;
    uint64_t arena, waiting; /* as it was */
} gist_model;

/* Bytes of the arena that live when the loss is computed. */
static tn_status gist_waiting(const tn_occupancy *occupancy, tn_tensor_id loss, uint64_t *bytes,
                              tn_error *error) {
    const tn_program *program = tn_occupancy_program(occupancy);
    tn_op_id maker = tn_graph_tensor(tn_program_graph(program), loss)->producer;
    uint32_t step = 0, count = tn_program_count(program);
    uint64_t(*live)[TN_KIND_COUNT] = calloc(count, sizeof *live);
    tn_status status = tn_occupancy_live(occupancy, live, error);
    while (step + 1 < count && tn_program_instructions(program)[step].op != maker) step++;
    *bytes = 0;
    for (int kind = 0; kind < TN_KIND_COUNT && status == TN_OK; kind++) *bytes += live[step][kind];
    free(live);
    return status;
}

static void gist_tell(const gist_model *it, const char *row, uint64_t arena, uint64_t waiting) {
    printf("| %-20s | %-9s | %9.1f | %5.2f | %9.1f | %5.2f |", it->name, row, bench_mib(arena),
           (double)it->arena / (double)arena, bench_mib(waiting),
           (double)it->waiting / (double)waiting);
}

/* --- a model --- */

static tn_status gist_open(const gist_bench *bench, const char *path, bool keep, bench_net *net,
                           const bench_plan *plan, tn_error *error) {
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    train.optimizer = bench->optimizer;
    train.fuse_update = true;
    train.keep_pool_inputs = keep;
    import.batch = bench->batch;
    TN_TRY(bench_load(net, path, &import, true, error));
    TN_TRY(bench_train(net, &train, &rewrite, error));
    return bench_open(net, plan, error);
}

static tn_status gist_as_it_was(gist_model *it, const char *path, tn_error *error) {
    bench_net net = {0};
    tn_status status = gist_open(it->bench, path, true, &net, &it->plan, error);
    if (status == TN_OK) {
        it->arena = tn_setup_need(net.setup).arena;
        status =
            gist_waiting(tn_setup_occupancy(net.setup), net.training.loss, &it->waiting, error);
    }
    if (status == TN_OK) {
        gist_tell(it, "as it was", it->arena, it->waiting);
        printf(" | | |\n");
    }
    bench_close(&net);
    return status;
}

/* Shares of zeros of the last step. */
static tn_status gist_zeros(gist_model *it, tn_error *error) {
    uint32_t tensors = tn_graph_tensor_count(tn_setup_graph(it->net.setup));
    bench_net counted = {0};
    bench_plan plan = it->plan;
    double ms = 1e30;
    plan.zeros = it->zeros = malloc(tensors * sizeof *it->zeros);
    tn_status status =
        bench_open_program(&it->net, &plan, tn_setup_program(it->net.setup), 0, &counted, error);
    for (uint32_t step = 0; step <= it->bench->trained && status == TN_OK; step++) {
        for (uint32_t i = 0; i < tensors; i++) it->zeros[i] = -1;
        status = bench_step(&counted, &ms, error);
    }
    bench_close(&counted);
    return status;
}

static tn_status gist_measure(gist_model *it, tn_error *error) {
    tn_measure_options measure = TN_MEASURE_OPTIONS_INIT;
    measure.occupancy = tn_setup_occupancy(it->net.setup);
    return tn_costs_measure(tn_setup_kernels(it->net.setup), &measure, &it->costs, NULL, error);
}

/* --- a row --- */

static bool gist_same(const bench_net *a, const bench_net *b) {
    for (uint32_t i = 0; i < a->output_count; i++)
        if (memcmp(a->outputs[i].data, b->outputs[i].data, a->outputs[i].bytes) != 0) return false;
    return true;
}

/* Losses of some steps, and the parameters that they leave. */
static tn_status gist_compare(const gist_model *it, bench_net *plain, bench_net *coded, bool *same,
                              tn_error *error) {
    const tn_training *made = &it->net.training;
    *same = gist_same(plain, coded);
    for (uint32_t i = 0; i < made->parameter_count && *same; i++) {
        tn_tensor_id id = made->parameters[i].parameter;
        uint64_t bytes = tn_graph_tensor(it->net.graph, id)->bytes;
        void *a = malloc(bytes), *b = malloc(bytes);
        tn_status status = tn_engine_get_static(plain->engine, id, a, bytes, error);
        if (status == TN_OK) status = tn_engine_get_static(coded->engine, id, b, bytes, error);
        *same = status == TN_OK && memcmp(a, b, bytes) == 0;
        free(a);
        free(b);
        TN_TRY(status);
    }
    return TN_OK;
}

static tn_status gist_steps(const gist_model *it, bench_net *plain, bench_net *coded,
                            tn_error *error) {
    double plain_ms = 1e30, ms = 1e30, first = 1e30;
    bool same = false;
    for (uint32_t i = 0; i < it->bench->steps; i++) {
        TN_TRY(bench_step(plain, i > 0 ? &plain_ms : &first, error));
        TN_TRY(bench_step(coded, i > 0 ? &ms : &first, error));
    }
    TN_TRY(gist_compare(it, plain, coded, &same, error));
    printf(" %+5.1f %% | %s |\n", 100 * (ms / plain_ms - 1), same ? "yes" : "no");
    return TN_OK;
}

static tn_status gist_run(gist_model *it, const tn_program *program, tn_error *error) {
    bench_net plain = {0}, coded = {0};
    tn_status status = bench_open_program(&it->net, &it->plan, program, 0, &coded, error);
    if (status == TN_OK) /* of its own, so that both begin with the same parameters */
        status = bench_open_program(&it->net, &it->plan, tn_setup_program(it->net.setup), 0, &plain,
                                    error);
    if (status == TN_OK) status = gist_steps(it, &plain, &coded, error);
    bench_close(&plain);
    bench_close(&coded);
    return status;
}

static tn_status gist_row_of(gist_model *it, const gist_row *row, tn_error *error) {
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_fit_options options = TN_FIT_OPTIONS_INIT;
    tn_fit_result result;
    uint64_t waiting;
    memory.workspaces = tn_kernels_workspaces(tn_setup_kernels(it->net.setup));
    memory.workspaces_again = tn_kernels_workspaces_again(tn_setup_kernels(it->net.setup));
    options.memory = &memory;
    options.pass = "gist";
    options.allow = TN_FIT_COMPRESS | (row->lossy ? TN_FIT_LOSSY : 0);
    options.codecs = row->codecs;
    options.zeros = it->zeros;
    tn_status status =
        tn_fit_least(tn_setup_program(it->net.setup), it->costs, &options, &result, error);
    if (status == TN_OK)
        status = gist_waiting(result.occupancy, it->net.training.loss, &waiting, error);
    if (status == TN_OK) {
        gist_tell(it, row->name, result.layout.peak, waiting);
        printf(" %+5.1f %% |", 100 * ((double)result.time / (double)result.plain_time - 1));
        if (it->bench->steps > 1)
            status = gist_run(it, result.program, error);
        else
            printf(" | |\n");
    }
    fflush(stdout);
    tn_fit_release(&result);
    return status;
}

static tn_status gist_rows_of(gist_model *it, tn_error *error) {
    uint64_t waiting;
    TN_TRY(gist_waiting(tn_setup_occupancy(it->net.setup), it->net.training.loss, &waiting, error));
    gist_tell(it, "plain", tn_setup_need(it->net.setup).arena, waiting);
    printf(" | | |\n");
    TN_TRY(gist_zeros(it, error));
    TN_TRY(gist_measure(it, error));
    for (size_t i = 0; i < sizeof gist_rows / sizeof *gist_rows; i++)
        TN_TRY(gist_row_of(it, &gist_rows[i], error));
    return TN_OK;
}

static tn_status gist_model_of(const gist_bench *bench, const char *path, tn_error *error) {
    const char *slash = strrchr(path, '/');
    gist_model it = {.bench = bench, .name = slash != NULL ? slash + 1 : path};
    it.plan = (bench_plan){.threads = bench->threads, .order = "auto", .rate = bench->rate};
    TN_TRY(gist_as_it_was(&it, path, error));
    tn_status status = gist_open(bench, path, false, &it.net, &it.plan, error);
    if (status == TN_OK) status = gist_rows_of(&it, error);
    tn_costs_destroy(it.costs);
    free(it.zeros);
    bench_close(&it.net);
    return status;
}

static bool gist_option(gist_bench *bench, const char *option, const char *value) {
    if (strcmp(option, "--threads") == 0)
        bench->threads = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(option, "--batch") == 0)
        bench->batch = strtol(value, NULL, 10);
    else if (strcmp(option, "--steps") == 0)
        bench->steps = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(option, "--trained") == 0)
        bench->trained = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(option, "--rate") == 0)
        bench->rate = strtof(value, NULL);
    else if (strcmp(option, "--optimizer") == 0)
        bench->optimizer = tn_optimizer_find(value);
    else
        return false;
    return true;
}

int main(int count, char **words) {
    gist_bench bench = {.threads = 1, .rate = 1e-6f, .optimizer = TN_OPTIMIZER_MOMENTUM};
    tn_error error = {0};
    int at = 1;
    while (at + 1 < count && words[at][0] == '-' && gist_option(&bench, words[at], words[at + 1]))
        at += 2;
    if (at >= count || words[at][0] == '-') {
        fprintf(stderr, "usage: gist [options] MODEL...; see bench/gist.c\n");
        return 2;
    }
    printf("| model | encoded | arena MiB | times less | waiting MiB | times less | predicted "
           "| measured | same bits |\n|---|---|---:|---:|---:|---:|---:|---:|---|\n");
    for (; at < count; at++)
        if (gist_model_of(&bench, words[at], &error) != TN_OK) {
            fprintf(stderr, "%s: %s: %s\n", words[at], error.where, error.message);
            return tn_status_exit_code(error.status);
        }
    return 0;
}
