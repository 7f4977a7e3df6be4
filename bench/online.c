/* online.c - what does a budget cost that is met while a step runs, next to one that is planned?
 *
 *     build/bench/online [--threads N] [--ratio 0.6] [--links 1e9,4e9,16e9] [--batch N]
 *                        [--rounds N] [--repeats N] [--timeout SECONDS] MODEL...
 *
 * MODEL is a file in ONNX that is trained; what it has no contents for is made up. The budget is
 * all static memory and a part of the arena of the plain program. Three engines run a step each by
 * turns: the plain program, the program that `joint` plans for the budget with measured costs, and
 * the online run (tenure/online.h), which begins in passive mode. All of that is repeated. Columns
 * are the least processor time of a step, with its copies, divided by that of the plain step, and
 * the median of the time that a step waits for copies, because other programs change the wall time
 * of a busy machine. "Settled" is the last round with a new program in any repeat. The outputs are
 * compared bit by bit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tenure/online.h>

#include "base/base.h"
#include "bench/kit/net.h"

#define ONLINE_LIST 8u
#define ONLINE_ROUNDS 100u
#define ONLINE_REPEATS 9u

typedef struct online_bench {
    double ratio, links[ONLINE_LIST];
    uint32_t link_count, threads, rounds, repeats;
    int64_t batch;
    double timeout_s; /* of the search of `joint` */
} online_bench;

typedef struct online_list {
    double numbers[ONLINE_ROUNDS * ONLINE_REPEATS];
    uint32_t count;
} online_list;

typedef struct online_row {
    double plain, joint, passive, guided; /* the least processor ms of a step */
    online_list waits[4]; /* ms of waiting for copies: joint, passive, both halves */
    uint64_t settled;
    uint32_t late_copies, late_steps; /* of the second halves */
    uint32_t swapped, recomputed;     /* in the last repeat */
    bool same, within, guided_by_policy;
} online_row;

static tn_status online_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                             uint64_t size, tn_error *error) {
    const bench_net *net = self;
    bool model = id < tn_graph_tensor_count(net->model); /* a step keeps the ids of its model */
    if (model || tn_graph_tensor(graph, id)->value != NULL)
        return tn_contents_read(net->contents, model ? net->model : graph, id, bytes, size, error);
    memset(bytes, 0, size); /* state of the optimizer */
    return TN_OK;
}

/* --- the outputs of the online run --- */

static tn_array *online_outputs(const bench_net *net) {
    tn_array *made = calloc(net->output_count + 1u, sizeof *made);
    for (uint32_t k = 0; k < net->output_count; k++) {
        made[k] = net->outputs[k];
        made[k].data = calloc(1, net->outputs[k].bytes + 1);
    }
    return made;
}

static void online_outputs_free(tn_array *outputs, uint32_t count) {
    for (uint32_t k = 0; outputs != NULL && k < count; k++) free(outputs[k].data);
    free(outputs);
}

static bool online_same(const bench_net *net, const tn_array *outputs) {
    for (uint32_t k = 0; k < net->output_count; k++)
        if (memcmp(net->outputs[k].data, outputs[k].data, outputs[k].bytes) != 0) return false;
    return true;
}

/* --- rounds --- */

static int online_less(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double online_median(online_list *list) {
    if (list->count == 0) return 0;
    qsort(list->numbers, list->count, sizeof *list->numbers, online_less);
    return list->numbers[list->count / 2];
}

static void online_add(online_list *list, double number) { list->numbers[list->count++] = number; }

static void online_least(double *least, double number) {
    if (number < *least) *least = number;
}

static double online_processor_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* A step of the online run. The work between steps counts as none of them. */
static tn_status online_step(uint32_t round, bool first_half, const bench_net *plain,
                             tn_online *online, tn_array *outputs, online_row *row,
                             tn_error *error) {
    uint32_t count;
    double before = online_processor_ms();
    TN_TRY(tn_online_run(online, plain->inputs, plain->input_count, outputs, plain->output_count,
                         error));
    double took = online_processor_ms() - before;
    const tn_online_iteration *list = tn_online_iterations(online, &count);
    const tn_online_iteration *it = &list[count - 1];
    bool alone = round == 0 || (it->make_seconds == 0 && list[count - 2].late == 0);
    online_add(&row->waits[round == 0 ? 1 : first_half ? 2 : 3], 1e3 * it->stall_seconds);
    if (alone) online_least(round == 0 ? &row->passive : &row->guided, took);
    return TN_OK;
}

static tn_status online_rounds(const online_bench *bench, bench_net *plain, bench_net *joint,
                               tn_online *online, tn_array *outputs, online_row *row,
                               tn_error *error) {
    double first = 1e30;
    for (uint32_t i = 0; i < bench->rounds; i++) {
        tn_engine_usage usage;
        TN_TRY(bench_step(plain, i > 0 ? &row->plain : &first, error));
        if (joint->engine != NULL) {
            TN_TRY(bench_step(joint, i > 0 ? &row->joint : &first, error));
            tn_engine_measure(joint->engine, &usage);
            online_add(&row->waits[0], 1e3 * usage.stall_seconds);
        }
        TN_TRY(online_step(i, i < bench->rounds / 2, plain, online, outputs, row, error));
        row->same = row->same && online_same(plain, outputs);
    }
    return TN_OK;
}

static void online_note(const online_bench *bench, const tn_online *online, online_row *row) {
    tn_online_usage usage;
    uint32_t count;
    const tn_online_iteration *list = tn_online_iterations(online, &count);
    tn_online_measure(online, &usage);
    for (uint32_t i = bench->rounds / 2; i < count; i++, row->late_steps++)
        row->late_copies += list[i].late;
    if (usage.settled > row->settled) row->settled = usage.settled;
    row->swapped = usage.swapped;
    row->recomputed = usage.recomputed;
    row->guided_by_policy = row->guided_by_policy && usage.guided;
    row->within = row->within && usage.peak <= usage.budget;
}

static void online_print(const char *name, double link, uint64_t budget, uint64_t plain,
                         online_row *row) {
    printf("| %-22s | %4.0f | %7.1f of %7.1f | %8.1f |", name, link / 1e9, bench_mib(budget),
           bench_mib(plain), row->plain);
    if (row->joint < 1e30)
        printf(" %5.2f, %6.1f |", row->joint / row->plain, online_median(&row->waits[0]));
    else
        printf(" none |");
    printf(" %5.2f, %6.1f | %6.1f |", row->passive / row->plain, online_median(&row->waits[1]),
           online_median(&row->waits[2]));
    if (row->guided < 1e30)
        printf(" %5.2f,", row->guided / row->plain);
    else
        printf(" never settled,");
    printf(" %6.1f | %llu | %u, %u%s | %.1f | %s | %s |\n", online_median(&row->waits[3]),
           (unsigned long long)row->settled, row->swapped, row->recomputed,
           row->guided_by_policy ? "" : " (passive)",
           (double)row->late_copies / (row->late_steps > 0 ? row->late_steps : 1),
           row->same ? "yes" : "NO", row->within ? "yes" : "NO");
    fflush(stdout);
}

/* --- one link --- */

/* All three engines begin with the same parameters. */
static tn_status online_repeat(const online_bench *bench, const bench_net *net,
                               const bench_plan *plan, const tn_fit_result *joint_program,
                               const tn_online_options *options, online_row *row, tn_error *error) {
    bench_net plain = {0}, joint = {0};
    tn_online *online = NULL;
    tn_array *outputs = NULL;
    bench_plan within = *plan;
    tn_status status = TN_OK;
    within.enough = joint_program->layout.peak;
    if (joint_program->program != NULL)
        status = bench_open_program(net, &within, joint_program->program, options->link_bytes_per_s,
                                    &joint, error);
    if (status == TN_OK)
        status = bench_open_program(net, plan, tn_setup_program(net->setup), 0, &plain, error);
    if (status == TN_OK) status = tn_online_create(net->setup, options, &online, error);
    if (status == TN_OK) outputs = online_outputs(&plain);
    if (status == TN_OK) status = online_rounds(bench, &plain, &joint, online, outputs, row, error);
    if (status == TN_OK) online_note(bench, online, row);
    online_outputs_free(outputs, plain.output_count);
    tn_online_destroy(online);
    bench_close(&plain);
    bench_close(&joint);
    return status;
}

static tn_status online_link(const online_bench *bench, const char *name, const bench_net *net,
                             const bench_plan *plan, const tn_costs *costs, double link,
                             tn_error *error) {
    tn_fit_options fit = TN_FIT_OPTIONS_INIT;
    tn_online_options options = TN_ONLINE_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    tn_fit_result result = {0};
    tn_setup_needs need = tn_setup_need(net->setup);
    static online_row row;
    row = (online_row){.plain = 1e30,
                       .joint = 1e30,
                       .passive = 1e30,
                       .guided = 1e30,
                       .same = true,
                       .within = true,
                       .guided_by_policy = true};
    fit.budget = need.statics + (uint64_t)(bench->ratio * (double)need.arena);
    fit.allow = TN_FIT_ORDER | TN_FIT_RECOMPUTE | TN_FIT_SWAP;
    fit.to_host_bytes_per_s = fit.from_host_bytes_per_s = link;
    fit.timeout_s = bench->timeout_s;
    engine.read = online_read;
    engine.self = (void *)net;
    options.budget = fit.budget;
    options.link_bytes_per_s = link;
    options.engine = &engine;
    tn_status status = bench_fit(net, costs, &fit, &result, error);
    if (status != TN_OK) { /* no program of `joint`; the smallest one is not of interest */
        bool none = status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE;
        tn_fit_release(&result);
        result = (tn_fit_result){0};
        if (none || status == TN_E_STOPPED) status = TN_OK;
    }
    for (uint32_t i = 0; i < bench->repeats && status == TN_OK; i++)
        status = online_repeat(bench, net, plan, &result, &options, &row, error);
    if (status == TN_OK) online_print(name, link, fit.budget, need.total, &row);
    tn_fit_release(&result);
    return status;
}

static tn_status online_model(const online_bench *bench, const char *path, tn_error *error) {
    bench_net net = {0};
    tn_costs *costs = NULL;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    bench_plan plan = {
        .threads = bench->threads, .order = "auto", .rate = 1e-6f, .processor = true};
    const char *slash = strrchr(path, '/');
    train.optimizer = TN_OPTIMIZER_ADAM;
    train.fuse_update = true;
    import.batch = bench->batch;
    tn_status status = bench_load(&net, path, &import, true, error);
    if (status == TN_OK) status = bench_train(&net, &train, &rewrite, error);
    if (status == TN_OK) status = bench_open(&net, &plan, error);
    if (status == TN_OK) status = bench_costs(&net, &costs, error);
    for (uint32_t l = 0; l < bench->link_count && status == TN_OK; l++)
        status = online_link(bench, slash != NULL ? slash + 1 : path, &net, &plan, costs,
                             bench->links[l], error);
    tn_costs_destroy(costs);
    bench_close(&net);
    return status;
}

/* --- the command --- */

static bool online_option(online_bench *bench, const char *option, char *value) {
    if (strcmp(option, "--threads") == 0)
        bench->threads = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(option, "--ratio") == 0)
        bench->ratio = strtod(value, NULL);
    else if (strcmp(option, "--links") == 0)
        bench->link_count = bench_reals(value, bench->links, ONLINE_LIST);
    else if (strcmp(option, "--batch") == 0)
        bench->batch = strtol(value, NULL, 10);
    else if (strcmp(option, "--repeats") == 0)
        bench->repeats = (uint32_t)strtoul(value, NULL, 10);
    else if (strcmp(option, "--timeout") == 0)
        bench->timeout_s = strtod(value, NULL);
    else if (strcmp(option, "--rounds") == 0)
        bench->rounds = (uint32_t)strtoul(value, NULL, 10);
    else
        return false;
    return bench->rounds >= 4 && bench->rounds <= ONLINE_ROUNDS && bench->repeats >= 1 &&
           bench->repeats <= ONLINE_REPEATS;
}

int main(int count, char **words) {
    online_bench bench = {.ratio = 0.6,
                          .links = {1e9, 4e9, 16e9},
                          .link_count = 3,
                          .threads = 1,
                          .rounds = 16,
                          .repeats = 3};
    tn_error error = {0};
    int at = 1;
    while (at + 1 < count && words[at][0] == '-' && online_option(&bench, words[at], words[at + 1]))
        at += 2;
    if (at >= count || words[at][0] == '-') {
        fprintf(stderr, "usage: online [options] MODEL...; see bench/online.c\n");
        return 2;
    }
    printf("| model | GB/s | budget MiB | plain ms | joint | passive | waiting ms, first half | "
           "second half | settled | swapped, recomputed | late a step | same bits | within |\n"
           "|---|---:|---|---:|---:|---:|---:|---:|---:|---|---:|---|---|\n");
    for (; at < count; at++)
        if (online_model(&bench, words[at], &error) != TN_OK)
            fprintf(stderr, "%s: %s: %s\n", words[at], error.where, error.message);
    return 0;
}
