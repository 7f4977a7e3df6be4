/* tricks.c - what does each trick of training save, what does it cost, does it change a bit?
 *
 *     build/bench/tricks [--batch N] [--threads N] [--repeat N] [--freeze PATTERN] MODEL.onnx...
 *
 * A row is one trick alone on a step of SGD with momentum as it is without any: no operator writes
 * over its operand, gradients live until all are there, the model's outputs are kept, dropout draws
 * its mask again in the backward pass, operators are those of the differentiation with channels
 * last, in the order of the file. The last rows have all of them but frozen parameters and kept
 * masks. Bytes are those of the planned arena, which the run does not exceed; "all tensors" are
 * what it would be with memory of its own for each of them: what a fused operator takes away,
 * though it be none of those that stand at the peak.
 *
 * Time: the fastest of `repeat` steps, over the fastest of as many steps without any trick that
 * were run in turns with them, so that a busy machine hurts both. `bits`: after two steps loss,
 * parameters, velocities and running statistics are the same as without, bit by bit; else the
 * largest difference, over the largest number of its tensor. What the file has no contents of is
 * made up.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "bench/kit/net.h"

typedef struct bench_trick {
    const char *name;
    const char *rewrites; /* that run on the step, beside formats */
    bool inplace, fuse_update, drop_outputs, dropout_bits, frozen;
    double again; /* share of work */
    const char *only;
    bool cheap;
    const char *order;
} bench_trick;

#define EVERY                                                                                      \
    "scale,transpose,bias,mask_softmax,dropout_add,residual,activation,bias_gelu,norm_relu"
static const bench_trick tricks[] = {
    {.name = "without any"},
    {.name = "in place: ReLU, sums, gradients", .inplace = true},
    {.name = "BatchNorm and ReLU in one buffer", .again = 1e3, .only = "BatchNormTrain,Relu"},
    {.name = "cheap operators again", .again = 1e3, .cheap = true},
    {.name = "0.15 of the work again", .again = 0.15},
    {.name = "outputs of the model freed at once", .drop_outputs = true},
    {.name = "updates at once", .fuse_update = true},
    {.name = "dropout keeps its masks as bits", .dropout_bits = true},
    {.name = "three quarters frozen", .frozen = true},
    {.name = "order of operators", .order = "auto"},
    {.name = "fused: BatchNorm, ReLU", .rewrites = "norm_relu"},
    {.name = "fused: bias, GELU", .rewrites = "bias,bias_gelu"},
    {.name = "fused: bias, dropout, residual add", .rewrites = "bias,dropout_add,residual"},
    {.name = "fused: scale, mask, softmax", .rewrites = "scale,mask_softmax"},
    {.name = "attention without transposes", .rewrites = "transpose"},
    {.name = "all, cheap operators again",
     .rewrites = EVERY,
     .inplace = true,
     .fuse_update = true,
     .drop_outputs = true,
     .again = 1e3,
     .cheap = true,
     .order = "auto"},
    {.name = "all, 0.15 of the work again",
     .rewrites = EVERY,
     .inplace = true,
     .fuse_update = true,
     .drop_outputs = true,
     .again = 0.15,
     .order = "auto"},
};
#define TRICKS (sizeof tricks / sizeof *tricks)

typedef struct bench_setup {
    uint32_t batch, threads, repeat;
    const char *freeze;
} bench_setup;

typedef struct bench_left { /* after two steps */
    char *bytes;
    uint64_t *starts; /* [count + 1] of each tensor */
    uint32_t count;
    float loss;
} bench_left;

/* --- the graph --- */

static bool bench_is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at != NULL && (at = strstr(at, name)) != NULL; at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0')) return true;
    return false;
}

/* The rewrites that a trick does without; room for all names. */
static void bench_without(const bench_trick *trick, char *without, size_t room) {
    without[0] = '\0';
    for (uint32_t i = 0; i < tn_rewrite_count(); i++) {
        const char *name = tn_rewrite_name(i);
        size_t used = strlen(without);
        if (strcmp(name, "formats") == 0 || bench_is_listed(trick->rewrites, name)) continue;
        snprintf(without + used, room - used, "%s%s", used > 0 ? "," : "", name);
    }
}

/* Names of the first three quarters of the parameters, by bytes; the caller frees the list. */
static const char **bench_frozen(const tn_graph *graph, uint32_t *count) {
    uint32_t tensors = tn_graph_tensor_count(graph);
    const char **names = calloc((size_t)tensors + 2, sizeof *names);
    uint64_t total = 0, sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (tn_tensor_id id = 0; id < tensors; id++) {
            const tn_tensor *tensor = tn_graph_tensor(graph, id);
            if (tensor->kind != TN_KIND_PARAMETER || tensor->dtype != TN_FLOAT32) continue;
            if (pass == 0) total += tensor->bytes;
            if (pass == 1 && 4 * (sum += tensor->bytes) <= 3 * total)
                names[(*count)++] = tensor->name;
        }
    return names;
}

static tn_status bench_differentiate(const bench_setup *setup, const bench_trick *trick,
                                     bench_net *net, tn_error *error) {
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    const char *given[] = {setup->freeze}, **names = NULL;
    char without[1000];
    train.optimizer = TN_OPTIMIZER_MOMENTUM;
    train.fuse_update = trick->fuse_update;
    train.dropout_bits = trick->dropout_bits;
    train.keep_outputs = !trick->drop_outputs;
    train.freeze = given;
    train.freeze_count = setup->freeze != NULL;
    if (trick->frozen) {
        train.freeze_count = 0;
        names = bench_frozen(net->model, &train.freeze_count);
        if (setup->freeze != NULL) names[train.freeze_count++] = setup->freeze;
        train.freeze = names;
    }
    bench_without(trick, without, sizeof without);
    rewrite.without = without;
    tn_status status = bench_train(net, &train, &rewrite, error);
    free(names);
    return status;
}

static tn_status bench_set_up(const bench_setup *setup, const bench_trick *trick, const char *path,
                              bench_net *net, tn_error *error) {
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    bench_plan plan = {.threads = setup->threads, .order = trick->order, .rate = 1e-3f};
    import.batch = setup->batch;
    plan.inplace = trick->inplace ? TN_INPLACE_CHOOSE : TN_INPLACE_NONE;
    plan.again.share = trick->again;
    plan.again.only = trick->only;
    plan.again.cheap = trick->cheap;
    TN_TRY(bench_load(net, path, &import, true, error));
    TN_TRY(bench_model_to_train(net, error));
    TN_TRY(bench_differentiate(setup, trick, net, error));
    return bench_open(net, &plan, error);
}

/* --- what is left after two steps --- */

/* The i-th tensor that a step writes into: TN_NONE: there is none. */
static tn_tensor_id bench_written(const tn_training *training, uint32_t i) {
    uint32_t parameters = training->parameter_count;
    if (i >= 2 * parameters) return training->statistics[i - 2 * parameters];
    const tn_trained *trained = &training->parameters[i / 2];
    return i % 2 ? trained->state[0] : trained->parameter;
}

static tn_status bench_keep(const bench_net *net, bench_left *left, tn_error *error) {
    uint32_t count = 2 * net->training.parameter_count + net->training.statistic_count;
    uint64_t total = 0;
    left->starts = calloc((size_t)count + 1, sizeof *left->starts);
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) left->bytes = calloc(1, total + 1);
        total = left->count = 0;
        for (uint32_t i = 0; i < count; i++) {
            tn_tensor_id id = bench_written(&net->training, i);
            uint64_t bytes = id != TN_NONE ? tn_graph_tensor(net->graph, id)->bytes : 0;
            if (pass == 1 && bytes > 0)
                TN_TRY(tn_engine_get_static(net->engine, id, left->bytes + total, bytes, error));
            left->starts[left->count++] = total;
            total += bytes;
        }
        left->starts[left->count] = total;
    }
    memcpy(&left->loss, net->outputs[0].data, sizeof left->loss); /* train.h: the first */
    return TN_OK;
}

static void bench_forget(bench_left *left) {
    free(left->bytes);
    free(left->starts);
}

/* Largest difference over the largest number of its tensor; 0: not a bit. */
static double bench_apart(const bench_left *a, const bench_left *b) {
    double worst = 0;
    if (a->count != b->count || a->starts[a->count] != b->starts[b->count]) return INFINITY;
    if (memcmp(&a->loss, &b->loss, sizeof a->loss) == 0 &&
        memcmp(a->bytes, b->bytes, a->starts[a->count]) == 0)
        return 0;
    worst = fabs((double)a->loss - (double)b->loss) / fabs((double)a->loss);
    for (uint32_t i = 0; i < a->count; i++) {
        const float *x = (const float *)(const void *)(a->bytes + a->starts[i]);
        const float *y = (const float *)(const void *)(b->bytes + b->starts[i]);
        double size = 0, apart = 0;
        for (uint64_t k = 0; k < (a->starts[i + 1] - a->starts[i]) / sizeof *x; k++) {
            size = fmax(size, fabs((double)x[k]));
            apart = fmax(apart, fabs((double)x[k] - (double)y[k]));
        }
        if (size > 0) worst = fmax(worst, apart / size);
    }
    return worst;
}

/* --- the table --- */

typedef struct bench_row {
    bench_net net;
    bench_left left;
    double ms, base_ms; /* of the trick, and of none beside it */
} bench_row;

/* Sets up and runs the two steps that are compared. */
static tn_status bench_begin(const bench_setup *setup, const bench_trick *trick, const char *path,
                             bench_row *row, tn_error *error) {
    double ms = INFINITY;
    TN_TRY(bench_set_up(setup, trick, path, &row->net, error));
    for (int i = 0; i < 2; i++) TN_TRY(bench_step(&row->net, &ms, error));
    return bench_keep(&row->net, &row->left, error);
}

static tn_status bench_measure(const bench_setup *setup, bench_row *base, bench_row *row,
                               tn_error *error) {
    tn_engine_usage usage;
    row->ms = row->base_ms = INFINITY;
    for (uint32_t i = 0; i < setup->repeat; i++) {
        TN_TRY(bench_step(&base->net, &row->base_ms, error));
        TN_TRY(bench_step(&row->net, &row->ms, error));
    }
    tn_engine_measure(row->net.engine, &usage);
    if (usage.measured_peak != usage.planned_peak)
        TN_FAIL(error, TN_E_INTERNAL, "the run took other memory than planned");
    return TN_OK;
}

static void bench_print(const bench_trick *trick, const bench_row *base, const bench_row *row) {
    uint64_t arena = tn_setup_need(row->net.setup).arena;
    double first = (double)tn_setup_need(base->net.setup).arena, saved = first - (double)arena;
    double apart = bench_apart(&base->left, &row->left);
    printf("| %s | %u | %.1f | %.1f | %.1f | %.0f %% | %.0f | %.2f | ", trick->name,
           tn_graph_block(row->net.graph, 0)->op_count,
           bench_mib(tn_occupancy_summary(tn_setup_occupancy(row->net.setup)).naive),
           bench_mib(arena), saved / 1048576, 100 * saved / first, row->ms, row->ms / row->base_ms);
    if (trick->frozen)
        printf("trains less |\n");
    else if (apart == 0)
        printf("equal |\n");
    else
        printf("%.0e |\n", apart);
    fflush(stdout);
}

/* The first row is without any trick; it stays, for the others to be measured against. */
static void bench_model(const bench_setup *setup, const char *path) {
    bench_row base = {0};
    printf("\n%s, batch %u, threads %u\n\n", path, setup->batch, setup->threads);
    printf("| trick | operators | all tensors MiB | arena MiB | saved MiB | of it | ms | time | "
           "bits |\n|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < TRICKS; i++) {
        bench_row made = {0}, *row = i == 0 ? &base : &made;
        tn_error error = {0};
        tn_status status = bench_begin(setup, &tricks[i], path, row, &error);
        if (status == TN_OK) status = bench_measure(setup, &base, row, &error);
        if (status == TN_OK)
            bench_print(&tricks[i], &base, row);
        else
            printf("| %s | %s: %s |\n", tricks[i].name, error.where, error.message);
        bench_forget(&made.left);
        bench_close(&made.net);
        if (i == 0 && status != TN_OK) break;
    }
    bench_forget(&base.left);
    bench_close(&base.net);
}

int main(int argc, char **argv) {
    bench_setup setup = {.batch = 1, .threads = 1, .repeat = 2};
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        uint32_t number = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--batch") == 0)
            setup.batch = number;
        else if (strcmp(argv[i], "--threads") == 0)
            setup.threads = number;
        else if (strcmp(argv[i], "--repeat") == 0)
            setup.repeat = number;
        else if (strcmp(argv[i], "--freeze") == 0)
            setup.freeze = argv[i + 1];
        else
            break;
    }
    if (i >= argc || argv[i][0] == '-') {
        fprintf(stderr, "tricks: see the head of bench/tricks.c for its arguments\n");
        return 2;
    }
    for (; i < argc; i++) bench_model(&setup, argv[i]);
    return 0;
}
