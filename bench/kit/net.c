#include "bench/kit/net.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/base.h"

/* --- the graph --- */

tn_status bench_load(bench_net *net, const char *path, const tn_import_options *import,
                     bool made_up, tn_error *error) {
    TN_TRY(tn_graph_load(path, import, &net->file, error));
    return made_up ? tn_contents_generate(path, net->file, 1, NULL, &net->contents, error)
                   : tn_contents_open(path, NULL, &net->contents, error);
}

tn_status bench_infer(bench_net *net, const tn_rewrite_options *rewrite, tn_error *error) {
    return tn_graph_rewrite(net->file, rewrite, &net->rewritten, error);
}

tn_status bench_model_to_train(bench_net *net, tn_error *error) {
    tn_rewrite_options rewrite = TN_REWRITE_OPTIONS_INIT;
    rewrite.use = TN_REWRITE_TO_TRAIN;
    return tn_graph_rewrite(net->file, &rewrite, &net->model, error);
}

tn_status bench_train(bench_net *net, const tn_train_options *train,
                      const tn_rewrite_options *rewrite, tn_error *error) {
    tn_rewrite_options trained = *rewrite;
    trained.use = TN_REWRITE_TRAINED;
    if (net->model == NULL) TN_TRY(bench_model_to_train(net, error));
    TN_TRY(tn_train(net->model, train, &net->training, error));
    return tn_graph_rewrite(net->training.graph, &trained, &net->rewritten, error);
}

/* --- plan and engine --- */

static tn_status net_read(void *self, const tn_graph *graph, tn_tensor_id id, void *bytes,
                          uint64_t size, tn_error *error) {
    const bench_net *net = self;
    if (net->model != NULL && id < tn_graph_tensor_count(net->model))
        return tn_contents_read(net->contents, net->model, id, bytes, size, error);
    if (net->model == NULL || tn_graph_tensor(graph, id)->value != NULL)
        return tn_contents_read(net->contents, graph, id, bytes, size, error);
    memset(bytes, 0, size); /* state of the optimizer */
    return TN_OK;
}

static tn_status net_set_up(bench_net *net, const bench_plan *plan, tn_error *error) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_kernels_options kernels = TN_KERNELS_OPTIONS_INIT;
    tn_recompute_options again = plan->again;
    tn_program_options program = TN_PROGRAM_OPTIONS_INIT;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    kernels.threads = plan->threads;
    again.struct_size = sizeof again;
    program.order = plan->order;
    memory.inplace = plan->inplace;
    options.kernels = &kernels;
    options.recompute = &again;
    options.program = &program;
    options.memory = &memory;
    return tn_setup_create(net->rewritten, &options, &net->setup, error);
}

static void net_fill(tn_array *array, const tn_tensor *tensor, const float *rate) {
    *array = (tn_array){.dtype = tensor->dtype, .rank = tensor->rank, .bytes = tensor->bytes};
    if (tensor->rank > 0) memcpy(array->shape, tensor->shape, tensor->rank * sizeof *array->shape);
    array->data = calloc(1, tensor->bytes + 1);
    float *numbers = array->data;
    for (uint64_t k = 0; tensor->dtype == TN_FLOAT32 && k < tensor->bytes / sizeof *numbers; k++)
        numbers[k] = rate != NULL ? *rate : (float)((uint32_t)k * 2654435761u) / 2147483648.0f - 1;
}

static void net_arrays(bench_net *net, const bench_plan *plan) {
    const tn_block *block = tn_graph_block(net->graph, 0);
    net->inputs = calloc((size_t)block->input_count + 1, sizeof *net->inputs);
    net->outputs = calloc((size_t)block->output_count + 1, sizeof *net->outputs);
    for (uint32_t i = 0; i < block->input_count; i++) {
        tn_tensor_id id = block->inputs[i];
        const tn_tensor *tensor = tn_graph_tensor(net->graph, id);
        bool is_rate = net->model != NULL && id == net->training.learning_rate;
        if (!tn_tensor_is_static(tensor))
            net_fill(&net->inputs[net->input_count++], tensor, is_rate ? &plan->rate : NULL);
    }
    for (uint32_t k = 0; k < block->output_count; k++) {
        uint64_t bytes = tn_graph_tensor(net->graph, block->outputs[k])->bytes;
        net->outputs[net->output_count++] =
            (tn_array){.bytes = bytes, .data = calloc(1, bytes + 1)};
    }
}

tn_status bench_open(bench_net *net, const bench_plan *plan, tn_error *error) {
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    TN_TRY(net_set_up(net, plan, error));
    net->graph = tn_setup_graph(net->setup);
    uint64_t steps = tn_program_count(tn_setup_program(net->setup));
    if (plan->traced) TN_TRY(tn_trace_create(NULL, 64 * steps + 64, &net->trace, error));
    engine.read = net_read;
    engine.self = net;
    engine.trace = net->trace;
    engine.zeros = plan->zeros;
    TN_TRY(tn_setup_open(net->setup, NULL, &engine, &net->engine, error));
    net_arrays(net, plan);
    net->processor = plan->processor;
    return TN_OK;
}

tn_status bench_open_program(const bench_net *net, const bench_plan *plan,
                             const tn_program *program, double link, bench_net *other,
                             tn_error *error) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_plan_options layout = TN_PLAN_OPTIONS_INIT;
    tn_device_options device = TN_DEVICE_OPTIONS_INIT;
    tn_engine_options engine = TN_ENGINE_OPTIONS_INIT;
    memory.inplace = plan->inplace;
    layout.enough = plan->enough;
    options.given_program = program;
    options.memory = &memory;
    options.plan = &layout;
    device.link_bytes_per_s = link;
    engine.read = net_read;
    engine.self = (void *)net;
    engine.zeros = plan->zeros;
    TN_TRY(tn_setup_from(net->setup, TN_SETUP_ORDER, &options, &other->setup, error));
    other->graph = net->graph;
    uint64_t steps = tn_program_count(program);
    if (plan->traced) TN_TRY(tn_trace_create(NULL, 64 * steps + 64, &other->trace, error));
    engine.trace = other->trace;
    TN_TRY(tn_setup_open(other->setup, &device, &engine, &other->engine, error));
    other->model = net->model;
    other->training = net->training;
    net_arrays(other, plan);
    other->processor = plan->processor;
    other->model = NULL;
    other->training = (tn_training){0};
    return TN_OK;
}

void bench_close(bench_net *net) {
    for (uint32_t i = 0; i < net->input_count; i++) free(net->inputs[i].data);
    for (uint32_t k = 0; k < net->output_count; k++) free(net->outputs[k].data);
    free(net->inputs);
    free(net->outputs);
    tn_engine_destroy(net->engine);
    tn_trace_destroy(net->trace);
    tn_setup_destroy(net->setup);
    tn_graph_destroy(net->rewritten);
    tn_training_release(&net->training);
    tn_graph_destroy(net->model);
    tn_contents_close(net->contents);
    tn_graph_destroy(net->file);
}

tn_status bench_costs(const bench_net *net, tn_costs **costs, tn_error *error) {
    tn_measure_options measure = TN_MEASURE_OPTIONS_INIT;
    measure.occupancy = tn_setup_occupancy(net->setup);
    measure.setup = net->setup;
    return tn_costs_measure(tn_setup_kernels(net->setup), &measure, costs, NULL, error);
}

tn_status bench_fit(const bench_net *net, const tn_costs *costs, const tn_fit_options *options,
                    tn_fit_result *result, tn_error *error) {
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_fit_options fit = *options;
    memory.workspaces = tn_kernels_workspaces(tn_setup_kernels(net->setup));
    memory.workspaces_again = tn_kernels_workspaces_again(tn_setup_kernels(net->setup));
    fit.memory = &memory;
    fit.fixed_bytes = tn_setup_need(net->setup).statics;
    return tn_fit(tn_setup_program(net->setup), costs, &fit, result, error);
}

static double net_processor_ms(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

tn_status bench_step(bench_net *net, double *ms, tn_error *error) {
    tn_engine_usage usage;
    const double before = net_processor_ms();
    TN_TRY(tn_engine_run(net->engine, net->inputs, net->input_count, net->outputs,
                         net->output_count, error));
    tn_engine_measure(net->engine, &usage);
    double took = net->processor ? net_processor_ms() - before : 1e3 * usage.seconds;
    if (took < *ms) *ms = took;
    return TN_OK;
}

/* --- where the time goes --- */

typedef struct net_share {
    char name[96];
    double seconds;
    uint32_t count;
} net_share;

static int net_by_time(const void *left, const void *right) {
    const net_share *a = left, *b = right;
    return a->seconds != b->seconds ? (a->seconds < b->seconds ? 1 : -1) : strcmp(a->name, b->name);
}

void bench_profile(const bench_net *net, uint32_t rows) {
    net_share shares[256] = {0};
    uint32_t used = 0;
    uint64_t count;
    const tn_event *events = tn_trace_events(net->trace, &count);
    for (uint64_t i = 0; i < count; i++) {
        char name[sizeof shares->name];
        if (events[i].kind != TN_EVENT_STEP || events[i].run != 1) continue;
        if (events[i].op == TN_NONE)
            snprintf(name, sizeof name, "(%s)", tn_opcode_name(events[i].opcode));
        else
            snprintf(name, sizeof name, "%s by %s %s", tn_graph_op(net->graph, events[i].op)->type,
                     tn_kernels_name(tn_setup_kernels(net->setup), events[i].op),
                     tn_kernels_detail(tn_setup_kernels(net->setup), events[i].op));
        uint32_t at = 0;
        while (at < used && strcmp(shares[at].name, name) != 0) at++;
        if (at == used && used++ == 255) break;
        snprintf(shares[at].name, sizeof shares[at].name, "%s", name);
        shares[at].seconds += events[i].duration_s;
        shares[at].count++;
    }
    qsort(shares, used, sizeof *shares, net_by_time);
    for (uint32_t i = 0; i < used && i < rows; i++)
        printf("    %9.3f ms %5u x %s\n", 1e3 * shares[i].seconds, shares[i].count, shares[i].name);
}

/* --- arguments and numbers --- */

uint32_t bench_numbers(const char *text, uint32_t *numbers, uint32_t room) {
    uint32_t count = 0;
    while (*text != '\0' && count < room) {
        char *end;
        numbers[count++] = (uint32_t)strtoul(text, &end, 10);
        text = *end == ',' ? end + 1 : "";
    }
    return count;
}

uint32_t bench_reals(const char *text, double *numbers, uint32_t room) {
    uint32_t count = 0;
    while (*text != '\0' && count < room) {
        char *end;
        numbers[count++] = strtod(text, &end);
        text = *end == ',' ? end + 1 : "";
    }
    return count;
}

double bench_mib(uint64_t bytes) { return (double)bytes / 1048576; }
