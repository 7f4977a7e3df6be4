/* tricks.c - what does each trick of training save, what does it cost, does it change a bit?
 *
 *     build/bench/tricks [--batch N] [--threads N] [--repeat N] [--freeze PATTERN] MODEL.onnx...
 *
 * A row is one trick alone on a step of SGD with momentum as it is without any: no operator writes
 * over its operand, gradients live until all are there, the model's outputs are kept, operators
 * are those of the differentiation with channels last, in the order of the file. The last row has
 * all of them but frozen parameters. Bytes are those of the planned arena, which the run does not
 * exceed; time is the fastest of `repeat` steps. `bits`: after two steps loss, parameters and
 * velocities are the same as without, bit by bit; else the largest difference, over the largest
 * number of its tensor. What the file has no contents of is made up.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/tenure.h>
#include <tenure/train.h>

#include "base/base.h"

typedef struct bench_trick {
    const char *name;
    const char *rewrites; /* that run on the step, beside formats */
    bool inplace, fuse_update, drop_outputs, frozen;
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

typedef struct bench_net {
    tn_graph *file, *loaded;
    tn_contents *contents;
    tn_training training;
    tn_kernels *kernels;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
    tn_device *device;
    tn_engine *engine;
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
} bench_net;

/* --- the graph --- */

static bool bench_is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = list; at != NULL && (at = strstr(at, name)) != NULL; at += length)
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == '\0')) return true;
    return false;
}

static tn_status bench_rewrite(const bench_trick *trick, bench_net *net, tn_error *error) {
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    char without[1000] = "";
    tn_graph *made;
    for (uint32_t i = 0; i < tn_rewrite_count(); i++) {
        const char *name = tn_rewrite_name(i);
        size_t used = strlen(without);
        if (strcmp(name, "formats") == 0 || bench_is_listed(trick->rewrites, name)) continue;
        snprintf(without + used, sizeof without - used, "%s%s", used > 0 ? "," : "", name);
    }
    rewrite.use = TN_REWRITE_TRAINED;
    rewrite.without = without;
    TN_TRY(tn_engine_rewrite(net->training.graph, &rewrite, &made, error));
    tn_graph_destroy(net->training.graph);
    net->training.graph = made;
    return TN_OK;
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

static tn_status bench_load(const bench_setup *setup, const bench_trick *trick, const char *path,
                            bench_net *net, tn_error *error) {
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    const char *given[] = {setup->freeze}, **names = NULL;
    import.batch = setup->batch;
    train.optimizer = TN_OPTIMIZER_MOMENTUM;
    train.fuse_update = trick->fuse_update;
    train.keep_outputs = !trick->drop_outputs;
    train.freeze = given;
    train.freeze_count = setup->freeze != NULL;
    TN_TRY(tn_graph_load(path, &import, &net->file, error));
    TN_TRY(tn_contents_generate(path, net->file, 1, NULL, &net->contents, error));
    rewrite.use = TN_REWRITE_TO_TRAIN;
    TN_TRY(tn_engine_rewrite(net->file, &rewrite, &net->loaded, error));
    if (trick->frozen) {
        train.freeze_count = 0;
        names = bench_frozen(net->loaded, &train.freeze_count);
        if (setup->freeze != NULL) names[train.freeze_count++] = setup->freeze;
        train.freeze = names;
    }
    tn_status status = tn_train(net->loaded, &train, &net->training, error);
    free(names);
    return status != TN_OK ? status : bench_rewrite(trick, net, error);
}

/* --- plan and engine --- */

static tn_status bench_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                            uint64_t size, tn_error *error) {
    const bench_net *net = self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    if (id < tn_graph_tensor_count(net->loaded))
        return tn_contents_read(net->contents, net->loaded, id, bytes, size, error);
    if (tensor->value != NULL)
        return tn_contents_read(net->contents, graph, id, bytes, size, error);
    memset(bytes, 0, size); /* velocities */
    return TN_OK;
}

static tn_status bench_again(const bench_trick *trick, const tn_kernels_options *kernels,
                             tn_occupancy_options *memory, bench_net *net, tn_error *error) {
    tn_recompute_options again = TN_RECOMPUTE_OPTIONS_INIT;
    tn_graph *made;
    if (trick->again == 0) return TN_OK;
    again.share = trick->again;
    again.only = trick->only;
    again.cheap = trick->cheap;
    again.memory = memory;
    TN_TRY(tn_engine_recompute(net->training.graph, &again, &made, NULL, error));
    tn_kernels_destroy(net->kernels);
    net->kernels = NULL;
    tn_graph_destroy(net->training.graph);
    net->training.graph = made;
    TN_TRY(tn_kernels_create(made, kernels, &net->kernels, error));
    memory->workspaces = tn_kernels_workspaces(net->kernels);
    return TN_OK;
}

static tn_status bench_open(const bench_setup *setup, const bench_trick *trick, const char *path,
                            bench_net *net, tn_error *error) {
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_program_options program = TN_PROGRAM_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    TN_TRY(bench_load(setup, trick, path, net, error));
    kernels.threads = setup->threads;
    TN_TRY(tn_kernels_create(net->training.graph, &kernels, &net->kernels, error));
    memory.workspaces = tn_kernels_workspaces(net->kernels);
    memory.inplace = trick->inplace ? TN_INPLACE_CHOOSE : TN_INPLACE_NONE;
    TN_TRY(bench_again(trick, &kernels, &memory, net, error));
    program.order = trick->order;
    program.memory = &memory;
    TN_TRY(tn_program_plan(net->training.graph, &program, &memory, NULL, &net->program,
                           &net->occupancy, &net->layout, error));
    TN_TRY(tn_device_create(NULL, &net->device, error));
    engine.read = bench_read;
    engine.self = net;
    return tn_engine_create(net->occupancy, &net->layout, net->kernels, net->device, &engine,
                            &net->engine, error);
}

static void bench_arrays(bench_net *net) {
    const tn_graph *graph = net->training.graph;
    const tn_block *block = tn_graph_block(graph, 0);
    net->inputs = calloc((size_t)block->input_count + 1, sizeof *net->inputs);
    net->outputs = calloc((size_t)block->output_count + 1, sizeof *net->outputs);
    for (uint32_t i = 0; i < block->input_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, block->inputs[i]);
        if (tn_tensor_is_static(tensor)) continue;
        tn_array *array = &net->inputs[net->input_count++];
        *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
        if (tensor->rank > 0)
            memcpy(array->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
        array->data = calloc(1, tensor->bytes + 1);
        for (uint64_t k = 0; tensor->dtype == TN_FLOAT32 && k < tensor->bytes / 4; k++)
            ((float *)array->data)[k] =
                tensor->rank == 0 ? 1e-3f : (float)((uint32_t)k * 2654435761u) / 2147483648.0f - 1;
    }
    net->output_count = block->output_count;
    for (uint32_t k = 0; k < block->output_count; k++) {
        uint64_t bytes = tn_graph_tensor(graph, block->outputs[k])->bytes;
        net->outputs[k] = (tn_array){.bytes = bytes, .data = calloc(1, bytes + 1)};
    }
}

static void bench_close(bench_net *net) {
    for (uint32_t i = 0; i < net->input_count; i++) free(net->inputs[i].data);
    for (uint32_t k = 0; k < net->output_count; k++) free(net->outputs[k].data);
    free(net->inputs);
    free(net->outputs);
    tn_engine_destroy(net->engine);
    tn_device_destroy(net->device);
    tn_layout_release(&net->layout);
    tn_occupancy_destroy(net->occupancy);
    tn_program_destroy(net->program);
    tn_kernels_destroy(net->kernels);
    tn_training_release(&net->training);
    tn_contents_close(net->contents);
    tn_graph_destroy(net->loaded);
    tn_graph_destroy(net->file);
}

/* --- what is left after two steps --- */

static tn_status bench_keep(const bench_net *net, bench_left *left, tn_error *error) {
    const tn_training *training = &net->training;
    uint32_t count = 2 * training->parameter_count;
    uint64_t total = 0;
    left->starts = calloc((size_t)count + 1, sizeof *left->starts);
    for (int pass = 0; pass < 2; pass++) {
        if (pass == 1) left->bytes = calloc(1, total + 1);
        total = left->count = 0;
        for (uint32_t i = 0; i < count; i++) {
            const tn_trained *trained = &training->parameters[i / 2];
            tn_tensor_id id = i % 2 ? trained->state[0] : trained->parameter;
            uint64_t bytes = id != TN_NONE ? tn_graph_tensor(training->graph, id)->bytes : 0;
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

static tn_status bench_run(const bench_setup *setup, bench_net *net, bench_left *left, double *ms,
                           tn_error *error) {
    tn_engine_usage usage;
    bench_arrays(net);
    *ms = 1e30;
    for (uint32_t i = 0; i < 2 + setup->repeat; i++) {
        TN_TRY(tn_engine_run(net->engine, net->inputs, net->input_count, net->outputs,
                             net->output_count, error));
        tn_engine_measure(net->engine, &usage);
        if (i > 0) *ms = fmin(*ms, 1e3 * usage.seconds);
        if (i == 1) TN_TRY(bench_keep(net, left, error));
    }
    if (usage.measured_peak != usage.planned_peak)
        TN_FAIL(error, TN_E_INTERNAL, "the run took other memory than planned");
    return TN_OK;
}

/* --- the table --- */

static void bench_model(const bench_setup *setup, const char *path) {
    bench_left first = {0};
    double ms = 0, first_ms = 0;
    uint64_t first_peak = 0;
    printf("\n%s, batch %u, threads %u\n\n", path, setup->batch, setup->threads);
    printf("| trick | operators | arena MiB | saved MiB | of it | ms | time | bits |\n");
    printf("|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < TRICKS; i++) {
        bench_net net = {0};
        bench_left left = {0};
        tn_error error = {0};
        tn_status status = bench_open(setup, &tricks[i], path, &net, &error);
        if (status == TN_OK) status = bench_run(setup, &net, &left, &ms, &error);
        if (status != TN_OK) {
            printf("| %s | %s: %s |\n", tricks[i].name, error.where, error.message);
            bench_close(&net);
            continue;
        }
        uint64_t peak = net.layout.peak;
        if (i == 0) first = left, first_ms = ms, first_peak = peak;
        double saved = (double)first_peak - (double)peak, apart = bench_apart(&first, &left);
        printf("| %s | %u | %.1f | %.1f | %.0f %% | %.0f | %.2f | ", tricks[i].name,
               tn_graph_block(net.training.graph, 0)->op_count, (double)peak / 1048576,
               saved / 1048576, 100 * saved / (double)first_peak, ms, ms / first_ms);
        if (tricks[i].frozen)
            printf("trains less |\n");
        else if (apart == 0)
            printf("equal |\n");
        else
            printf("%.0e |\n", apart);
        fflush(stdout);
        if (i > 0) free(left.bytes);
        if (i > 0) free(left.starts);
        bench_close(&net);
    }
    free(first.bytes);
    free(first.starts);
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
