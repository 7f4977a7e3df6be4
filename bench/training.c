/* training.c - how fast is a training step, and how much memory does it take?
 *
 *     build/bench/training [--torch PYTHON] [--threads N,N] [--repeat N] [--rounds N]
 *                          [--no-formats] [--without REWRITE,...] [--batch N]
 *                          [--dtype f32|bf16|f16] [--recompute SHARE] [--profile] DIR NAME...
 *
 * NAME is a network of bench/training_torch.py (resnet18, resnet50, unet, gpt-tiny), which writes
 * DIR/NAME.onnx when it is not there (--torch, a python3 with torch and torchvision) and measures
 * PyTorch on the same network, batch and optimizer (SGD with momentum), in a process of its own per
 * round, the two in turns so that a busy machine hurts both. A row is one network and one number of
 * threads: the fastest of `repeat` x `rounds` steps, forward, backward and update.
 *
 * Memory: ours is the peak of the plan, which the run does not exceed, and all static memory
 * (parameters, velocities, statistics). PyTorch's is the most bytes that its tensors held at once
 * in a step, parameters and velocities with them, as its profiler tells allocations; the batch
 * itself is in neither. Contents are made up: they change no time.
 * --dtype: of activations and gradients; PyTorch's stay float32.
 * --profile prints where the time of one step goes, by operator and kernel.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/tenure.h>
#include <tenure/train.h>

#include "base/base.h"

typedef struct bench_setup {
    const char *python, *folder, *without;
    uint32_t threads[8], thread_count, repeat, rounds, batch;
    double recompute; /* share of the step's work that may be done twice */
    bool no_formats, profile;
    tn_dtype dtype;
} bench_setup;

typedef struct bench_row {
    double ms, torch_ms;
    uint64_t arena, statics, torch_peak;
} bench_row;

typedef struct bench_net {
    tn_graph *file, *loaded; /* as it was, and as it is trained */
    tn_contents *contents;
    tn_training training;
    tn_kernels *kernels;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_layout layout;
    tn_device *device;
    tn_engine *engine;
    tn_trace *trace;
    tn_array *inputs, *outputs;
    uint32_t input_count, output_count;
} bench_net;

static tn_status bench_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                            uint64_t size, tn_error *error) {
    const bench_net *net = self;
    const tn_tensor *tensor = tn_graph_tensor(graph, id);
    if (id < tn_graph_tensor_count(net->loaded))
        return tn_contents_read(net->contents, net->loaded, id, bytes, size, error);
    if (tensor->value != NULL)
        return tn_contents_read(net->contents, graph, id, bytes, size, error);
    memset(bytes, 0, size); /* optimizer state */
    return TN_OK;
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
                tensor->rank == 0 ? 1e-6f : (float)((uint32_t)k * 2654435761u) / 2147483648.0f - 1;
    }
    net->output_count = block->output_count;
    for (uint32_t i = 0; i < block->output_count; i++) {
        uint64_t bytes = tn_graph_tensor(graph, block->outputs[i])->bytes;
        net->outputs[i] = (tn_array){.bytes = bytes, .data = calloc(1, bytes + 1)};
    }
}

static tn_status bench_load(const bench_setup *setup, const char *path, bench_net *net,
                            tn_error *error) {
    tn_train_options train = TN_TRAIN_OPTIONS_INIT;
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    tn_graph *fast;
    train.optimizer = TN_OPTIMIZER_MOMENTUM;
    train.fuse_update = true;
    train.dtype = setup->dtype;
    TN_TRY(tn_graph_load(path, NULL, &net->file, error));
    TN_TRY(tn_contents_open(path, NULL, &net->contents, error));
    rewrite.use = TN_REWRITE_TO_TRAIN;
    TN_TRY(tn_engine_rewrite(net->file, &rewrite, &net->loaded, error));
    TN_TRY(tn_train(net->loaded, &train, &net->training, error));
    rewrite.use = TN_REWRITE_TRAINED;
    rewrite.without = setup->without;
    rewrite.no_formats = setup->no_formats;
    TN_TRY(tn_engine_rewrite(net->training.graph, &rewrite, &fast, error));
    tn_graph_destroy(net->training.graph);
    net->training.graph = fast;
    return TN_OK;
}

/* The scratch of kernels is part of the peak. */
static tn_status bench_recompute(const bench_setup *setup, const tn_kernels_options *options,
                                 bench_net *net, tn_error *error) {
    tn_recompute_options again = TN_RECOMPUTE_OPTIONS_INIT;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_recompute_report report;
    tn_kernels *kernels;
    tn_graph *made;
    if (setup->recompute == 0) return TN_OK;
    TN_TRY(tn_kernels_create(net->training.graph, options, &kernels, error));
    memory.workspaces = tn_kernels_workspaces(kernels);
    again.memory = &memory;
    again.share = setup->recompute;
    tn_status status = tn_engine_recompute(net->training.graph, &again, &made, &report, error);
    tn_kernels_destroy(kernels);
    if (status != TN_OK) return status;
    tn_graph_destroy(net->training.graph);
    net->training.graph = made;
    if (setup->profile)
        printf("    %u operators run again: %.3f of the work; live bytes %.1f to %.1f MiB\n",
               report.operators, report.share, (double)report.before / 1048576,
               (double)report.after / 1048576);
    return TN_OK;
}

static tn_status bench_open(const bench_setup *setup, const char *path, uint32_t threads,
                            bench_net *net, tn_error *error) {
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_program_options program = TN_PROGRAM_OPTIONS_INIT;
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    TN_TRY(bench_load(setup, path, net, error));
    kernels.threads = threads;
    TN_TRY(bench_recompute(setup, &kernels, net, error));
    TN_TRY(tn_kernels_create(net->training.graph, &kernels, &net->kernels, error));
    memory.workspaces = tn_kernels_workspaces(net->kernels);
    program.order = "auto";
    program.memory = &memory;
    TN_TRY(tn_program_plan(net->training.graph, &program, &memory, NULL, &net->program,
                           &net->occupancy, &net->layout, error));
    TN_TRY(tn_device_create(&device, &net->device, error));
    if (setup->profile)
        TN_TRY(tn_trace_create(NULL, 64 * (uint64_t)tn_program_count(net->program) + 64,
                               &net->trace, error));
    engine.read = bench_read;
    engine.self = net;
    engine.trace = net->trace;
    TN_TRY(tn_engine_create(net->occupancy, &net->layout, net->kernels, net->device, &engine,
                            &net->engine, error));
    bench_arrays(net);
    return TN_OK;
}

static void bench_close(bench_net *net) {
    for (uint32_t i = 0; i < net->input_count; i++) free(net->inputs[i].data);
    for (uint32_t i = 0; i < net->output_count; i++) free(net->outputs[i].data);
    free(net->inputs);
    free(net->outputs);
    tn_engine_destroy(net->engine);
    tn_trace_destroy(net->trace);
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

static tn_status bench_run(bench_net *net, uint32_t repeat, bench_row *row, tn_error *error) {
    tn_engine_usage usage;
    for (uint32_t i = 0; i < repeat; i++) {
        TN_TRY(tn_engine_run(net->engine, net->inputs, net->input_count, net->outputs,
                             net->output_count, error));
        tn_engine_measure(net->engine, &usage);
        if (1e3 * usage.seconds < row->ms) row->ms = 1e3 * usage.seconds;
        row->arena = usage.arena;
        row->statics = usage.static_bytes;
    }
    return TN_OK;
}

/* --- where the time goes --- */

typedef struct bench_share {
    char name[96];
    double seconds;
    uint32_t count;
} bench_share;

static int bench_by_time(const void *left, const void *right) {
    const bench_share *a = left, *b = right;
    return a->seconds != b->seconds ? (a->seconds < b->seconds ? 1 : -1) : strcmp(a->name, b->name);
}

static void bench_profile(const bench_net *net) {
    bench_share shares[256] = {0};
    uint32_t used = 0;
    uint64_t count;
    const tn_event *events = tn_trace_events(net->trace, &count);
    for (uint64_t i = 0; i < count; i++) {
        char name[96] = "(other)";
        if (events[i].kind != TN_EVENT_STEP || events[i].run != 1) continue;
        if (events[i].op != TN_NONE)
            snprintf(name, sizeof name, "%s by %s %s",
                     tn_graph_op(net->training.graph, events[i].op)->type,
                     tn_kernels_name(net->kernels, events[i].op),
                     tn_kernels_detail(net->kernels, events[i].op));
        uint32_t at = 0;
        while (at < used && strcmp(shares[at].name, name) != 0) at++;
        if (at == used && used++ == 255) break;
        snprintf(shares[at].name, sizeof shares[at].name, "%s", name);
        shares[at].seconds += events[i].duration_s;
        shares[at].count++;
    }
    qsort(shares, used, sizeof *shares, bench_by_time);
    for (uint32_t i = 0; i < used && i < 24; i++)
        printf("    %9.3f ms %5u x %s\n", 1e3 * shares[i].seconds, shares[i].count, shares[i].name);
}

/* Who holds the arena at its worst step. */
static void bench_holders(const bench_net *net) {
    tn_occupant holders[12];
    uint32_t count = tn_occupancy_holders(net->occupancy, TN_NONE, holders, 12);
    tn_memory_summary summary = tn_occupancy_summary(net->occupancy);
    const tn_instruction *at = &tn_program_instructions(net->program)[summary.peak_step];
    printf("    peak at step %u of %u, %s; order %s\n", summary.peak_step,
           tn_program_count(net->program),
           at->op != TN_NONE ? tn_graph_op(net->training.graph, at->op)->name : "-",
           tn_program_order_of(net->program).name);
    for (uint32_t i = 0; i < count && i < 12; i++) {
        const tn_life *life = &tn_occupancy_lives(net->occupancy)[holders[i].life];
        const char *name = life->tensor == TN_NONE
                               ? "(scratch)"
                               : tn_graph_tensor(net->training.graph, life->tensor)->name;
        printf("    %9.2f MiB  [%u, %u) %s\n", (double)holders[i].bytes / 1048576, life->first,
               life->last, name);
    }
}

/* --- PyTorch --- */

/* Writes the model when repeat is 0, else measures. */
static void bench_torch(const bench_setup *setup, const char *name, uint32_t threads,
                        uint32_t repeat, bench_row *row) {
    char command[4096], line[256];
    int length = snprintf(command, sizeof command, "'%s' '%s' '%s' '%s' %u %u %u", setup->python,
                          TENURE_SOURCE_DIR "/bench/training_torch.py", name, setup->folder,
                          setup->batch, threads, repeat);
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
           (double)row->arena / 1048576, (double)row->statics / 1048576, (double)own / 1048576);
    if (setup->python != NULL && row->torch_peak > 0)
        printf(" %9.1f | %8.1f | %5.2f | %5.2f |", row->torch_ms, (double)row->torch_peak / 1048576,
               row->ms / row->torch_ms, (double)own / (double)row->torch_peak);
    printf("\n");
    fflush(stdout);
}

static void bench_model(const bench_setup *setup, const char *name, uint32_t threads) {
    bench_net net = {0};
    bench_row row = {.ms = 1e30};
    tn_error error = {0};
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.onnx", setup->folder, name);
    if (setup->python != NULL) bench_torch(setup, name, threads, 0, &row);
    tn_status status = bench_open(setup, path, threads, &net, &error);
    for (uint32_t i = 0; i < setup->rounds && status == TN_OK; i++) {
        status = bench_run(&net, setup->repeat, &row, &error);
        if (setup->python != NULL) bench_torch(setup, name, threads, setup->repeat, &row);
    }
    if (status != TN_OK)
        printf("| %s | %u | %s: %s |\n", name, threads, error.where, error.message);
    else
        bench_print(setup, name, threads, &row);
    if (status == TN_OK && setup->profile) bench_profile(&net);
    if (status == TN_OK && setup->profile) bench_holders(&net);
    bench_close(&net);
}

static void bench_numbers(bench_setup *setup, const char *text) {
    for (setup->thread_count = 0; *text != '\0' && setup->thread_count < 8;) {
        char *end;
        setup->threads[setup->thread_count++] = (uint32_t)strtoul(text, &end, 10);
        text = *end == ',' ? end + 1 : "";
    }
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
            bench_numbers(&setup, argv[++i]);
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
    for (; i < argc; i++)
        for (uint32_t k = 0; k < setup.thread_count; k++)
            bench_model(&setup, argv[i], setup.threads[k]);
    return 0;
}
