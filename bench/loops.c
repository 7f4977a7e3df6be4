/* loops.c - how fast are our own loops of training, beside a copy and PyTorch's operators?
 *
 *     build/bench/loops [--torch PYTHON] [--turns N] [NAME...]
 *
 * A row is one operator of bench/loops.c's table (or those that are named), one thread, float32, by
 * the first kernel that takes it: oneDNN's if it has one, else our own loops, which are built for
 * several instruction sets. ONEDNN_MAX_CPU_ISA=AVX2 bounds the library's alone; ours are bounded by
 * a build with -DCMAKE_C_FLAGS=-DTN_WIDEST=32. Milliseconds are of the processor, the least of N
 * turns (20), each some 20 ms long. GB/s: each byte that is read or written once.
 * `copy`: a memcpy of as many bytes. --torch: what PyTorch's takes for the same
 * (bench/loops_torch.py), by turns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tenure/tenure.h>

#include "base/base.h"
#include "engine/kernels/dnnl.h"
#include "engine/kernels/kernel.h"

#define LOOPS_INPUTS 10u
#define LOOPS_OUTPUTS 6u

typedef struct loops_row {
    const char *name, *type;
    uint32_t input_count, output_count;
    int64_t shapes[LOOPS_INPUTS][4]; /* ended by 0; begins with it: omitted; -1: a number */
    bool in_place;                   /* outputs lie on inputs 0, 2, 3 */
} loops_row;

/* An LSTM as long as a sentence; a U-Net's or a transformer's largest parameters; activations of
 * 1,024 words. */
static const loops_row loops_rows[] = {
    {"lstm",
     "LSTM",
     7,
     3,
     {{35, 16, 256}, {1, 1024, 256}, {1, 1024, 256}, {1, 2048}, {0}, {1, 16, 256}, {1, 16, 256}},
     false},
    {"lstm_grad",
     "LstmGrad",
     9,
     6,
     {{35, 16, 256},
      {1, 1024, 256},
      {1, 1024, 256},
      {1, 2048},
      {1, 16, 256},
      {1, 16, 256},
      {35, 1, 16, 256},
      {0},
      {0}},
     false},
    {"lstm_cell_grad",
     "LstmGrad",
     9,
     6,
     {{1, 16, 256},
      {1, 1024, 256},
      {1, 1024, 256},
      {1, 2048},
      {1, 16, 256},
      {1, 16, 256},
      {1, 1, 16, 256},
      {0},
      {0}},
     false},
    {"sgd_step", "SgdStep", 3, 1, {{4194304}, {4194304}, {-1}}, true},
    {"momentum_step", "MomentumStep", 4, 2, {{4194304}, {4194304}, {4194304}, {-1}}, true},
    {"momentum_step_small", "MomentumStep", 4, 2, {{32768}, {32768}, {32768}, {-1}}, true},
    {"bias_gelu", "BiasGelu", 2, 1, {{1024, 1024}, {1024}}, false},
    {"bias_gelu_grad", "BiasGeluGrad", 3, 1, {{1024, 1024}, {1024, 1024}, {1024}}, false},
};

typedef struct loops_op {
    tn_graph *graph;
    tn__dnnl *library;
    const tn_kernel *kernel;
    tn_kernel_setup setup;
    uint64_t packed[LOOPS_INPUTS], forms[LOOPS_INPUTS], bytes, random;
    tn_operand inputs[LOOPS_INPUTS], outputs[LOOPS_OUTPUTS];
    int64_t shapes[LOOPS_INPUTS + LOOPS_OUTPUTS][TN_RANK_MAX];
    tn_kernel_call call;
} loops_op;

static double loops_now(void) {
    struct timespec now = {0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *loops_alloc(uint64_t bytes) {
    void *made = aligned_alloc(64, (size_t)(bytes / 64 + 1) * 64);
    if (made != NULL) memset(made, 0, (size_t)bytes);
    return made;
}

/* --- an operator --- */

static tn_status loops_graph(const loops_row *row, loops_op *it, tn_error *error) {
    const bool ours = strcmp(row->type, "LSTM") != 0;
    const tn_attr attrs[] = {
        {.name = "momentum", .type = TN_ATTR_FLOAT, .count = 1, .floats = (const double[]){0.9}},
        {.name = "hidden_size", .type = TN_ATTR_INT, .count = 1, .ints = (const int64_t[]){256}}};
    tn_tensor_id ids[LOOPS_INPUTS], outputs[LOOPS_OUTPUTS];
    TN_TRY(tn_graph_create(NULL, &it->graph, error));
    for (uint32_t i = 0; i < row->input_count; i++) {
        tn_tensor_spec spec = {
            .name = "x", .dtype = TN_FLOAT32, .kind = TN_KIND_INPUT, .shape = row->shapes[i]};
        ids[i] = TN_NONE;
        if (row->shapes[i][0] == 0) continue;
        while (row->shapes[i][0] > 0 && spec.rank < 4 && row->shapes[i][spec.rank] > 0) spec.rank++;
        if (row->in_place && i != 1) spec.kind = TN_KIND_PARAMETER, spec.flags = TN_TENSOR_UPDATED;
        TN_TRY(tn_graph_add_tensor(it->graph, &spec, &ids[i], error));
    }
    for (uint32_t k = 0; k < row->output_count; k++) {
        tn_tensor_spec spec = {.name = "y", .kind = TN_KIND_OUTPUT};
        TN_TRY(tn_graph_add_tensor(it->graph, &spec, &outputs[k], error));
    }
    tn_op_spec spec = {.name = row->name,
                       .type = row->type,
                       .domain = ours ? "tenure" : "",
                       .version = ours ? 1 : 14,
                       .inputs = ids,
                       .outputs = outputs,
                       .attrs = row->in_place ? attrs : attrs + 1,
                       .input_count = row->input_count,
                       .output_count = row->output_count,
                       .attr_count = row->in_place || !ours ? 1 : 0};
    TN_TRY(tn_graph_add_op(it->graph, &spec, NULL, error));
    return tn_graph_infer(it->graph, error);
}

static tn_operand loops_operand(loops_op *it, uint32_t at, tn_tensor_id id) {
    const tn_tensor *tensor = tn_graph_tensor(it->graph, id);
    tn_operand made = {.dtype = tensor->dtype, .rank = tensor->rank, .room = tensor->bytes};
    if (tensor->rank > 0) memcpy(it->shapes[at], tensor->shape, tensor->rank * sizeof(int64_t));
    made.shape = it->shapes[at];
    made.data = loops_alloc(tensor->bytes);
    float *numbers = made.data;
    for (uint64_t k = 0; k < tensor->bytes / sizeof *numbers; k++)
        numbers[k] = (float)((uint32_t)k * 2654435761u) / 4294967296.0f - 0.5f;
    it->bytes += tensor->bytes;
    return made;
}

/* A kernel that says no when it is prepared leaves it to the next. */
static tn_status loops_find(loops_op *it, tn_error *error) {
    const bool library = tn__dnnl_open(NULL, 1, &it->library, error) == TN_OK;
    const tn_op *op = tn_graph_op(it->graph, 0);
    it->setup = (tn_kernel_setup){.graph = it->graph,
                                  .op = op,
                                  .version = op->version,
                                  .context = tn_graph_context(it->graph),
                                  .threads = 1,
                                  .library = library ? it->library : NULL,
                                  .error = error,
                                  .packed = it->packed,
                                  .forms = it->forms};
    tn_status status = TN_E_UNSUPPORTED;
    while (status == TN_E_UNSUPPORTED) {
        it->kernel = tn__kernel_find(&it->setup, library, it->kernel);
        if (it->kernel == NULL) return status;
        status = tn__kernel_prepare(it->kernel, &it->setup);
    }
    if (it->kernel->workspace != NULL) it->setup.workspace = it->kernel->workspace(&it->setup);
    return status;
}

static tn_status loops_open(const loops_row *row, loops_op *it, tn_error *error) {
    TN_TRY(loops_graph(row, it, error));
    TN_TRY(loops_find(it, error));
    const tn_op *op = tn_graph_op(it->graph, 0);
    for (uint32_t i = 0; i < row->input_count; i++)
        it->inputs[i] = op->inputs[i] == TN_NONE ? (tn_operand){.omitted = true}
                                                 : loops_operand(it, i, op->inputs[i]);
    for (uint32_t k = 0; k < row->output_count; k++) {
        it->outputs[k] = loops_operand(it, row->input_count + k, op->outputs[k]);
        if (!row->in_place) continue;
        free(it->outputs[k].data);
        it->outputs[k].data = it->inputs[k == 0 ? 0 : 1 + k].data;
    }
    it->call = (tn_kernel_call){.graph = it->graph,
                                .op = op,
                                .version = it->setup.version,
                                .input_count = row->input_count,
                                .output_count = row->output_count,
                                .inputs = it->inputs,
                                .outputs = it->outputs,
                                .workspace = loops_alloc(it->setup.workspace),
                                .workspace_bytes = it->setup.workspace,
                                .state = it->setup.state,
                                .random = &it->random,
                                .error = error};
    return TN_OK;
}

static void loops_close(const loops_row *row, loops_op *it) {
    for (uint32_t i = 0; i < row->input_count; i++) free(it->inputs[i].data);
    for (uint32_t k = 0; k < row->output_count && !row->in_place; k++) free(it->outputs[k].data);
    free(it->call.workspace);
    if (it->kernel != NULL && it->kernel->release != NULL)
        it->kernel->release(it->setup.context, it->setup.state);
    tn__dnnl_close(it->library);
    tn_graph_destroy(it->graph);
}

/* --- time --- */

typedef struct loops_copy {
    char *from, *to;
    uint64_t bytes; /* read, and as many written */
} loops_copy;

static tn_status loops_call(void *self) {
    loops_op *it = self;
    return it->kernel->run(&it->call);
}
static tn_status loops_call_copy(void *self) {
    const loops_copy *copy = self;
    memcpy(copy->to, copy->from, (size_t)copy->bytes);
    return TN_OK;
}

/* Seconds of one of the calls of a turn of some 20 ms; *best becomes that where it is less. */
static tn_status loops_turn(tn_status (*call)(void *self), void *self, double *best) {
    const double from = loops_now();
    uint32_t count = 0;
    double took;
    do {
        TN_TRY(call(self));
        count++;
        took = loops_now() - from;
    } while (took < 0.02);
    if (took / count < *best) *best = took / count;
    return TN_OK;
}

static double loops_torch(const char *python, const char *name) {
    char command[4096], line[256];
    double ms = 0;
    int length = snprintf(command, sizeof command, "'%s' '%s' %s", python,
                          TENURE_SOURCE_DIR "/bench/loops_torch.py", name);
    FILE *out = length < (int)sizeof command ? popen(command, "r") : NULL;
    while (out != NULL && fgets(line, sizeof line, out) != NULL)
        (void)sscanf(line, "torch_ms %lf", &ms);
    if (out != NULL) pclose(out);
    return ms;
}

static tn_status loops_measure(const loops_row *row, loops_op *it, uint32_t turns, double *seconds,
                               double *copying) {
    loops_copy copy = {.bytes = it->bytes / 2};
    copy.from = loops_alloc(copy.bytes);
    copy.to = loops_alloc(copy.bytes);
    tn_status status = TN_OK;
    for (uint32_t i = 0; i < turns && status == TN_OK; i++) {
        status = loops_turn(loops_call, it, seconds);
        if (status == TN_OK) status = loops_turn(loops_call_copy, &copy, copying);
    }
    free(copy.from);
    free(copy.to);
    (void)row;
    return status;
}

static tn_status loops_run(const loops_row *row, const char *python, uint32_t turns,
                           tn_error *error) {
    loops_op it = {0};
    double seconds = 1e30, copying = 1e30;
    tn_status status = loops_open(row, &it, error);
    if (status == TN_OK) status = loops_measure(row, &it, turns, &seconds, &copying);
    if (status == TN_OK) {
        printf("| %-19s | %-12s | %8.3f | %7.2f | %6.1f | %6.1f | %6.2f |", row->name,
               tn__kernel_family(it.kernel)->name, 1e3 * seconds, (double)it.bytes / 1048576,
               1e-9 * (double)it.bytes / seconds, 1e-9 * (double)it.bytes / copying,
               seconds / copying);
        double ms = python != NULL ? loops_torch(python, row->name) : 0;
        if (ms > 0) printf(" %8.3f | %5.2f |", ms, 1e3 * seconds / ms);
        printf("\n");
        fflush(stdout);
    }
    loops_close(row, &it);
    return status;
}

static bool loops_is_named(const char *name, char **names, int count) {
    for (int i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0) return true;
    return count == 0;
}

int main(int argc, char **argv) {
    const char *python = NULL;
    uint32_t turns = 20;
    tn_error error = {0};
    int i = 1;
    for (; i + 1 < argc && argv[i][0] == '-'; i += 2) {
        if (strcmp(argv[i], "--torch") == 0)
            python = argv[i + 1];
        else if (strcmp(argv[i], "--turns") == 0)
            turns = (uint32_t)strtoul(argv[i + 1], NULL, 10);
        else
            break;
    }
    if (i < argc && argv[i][0] == '-') {
        fprintf(stderr, "loops: see the head of bench/loops.c for its arguments\n");
        return 2;
    }
    printf("| operator | kernel | ms | MiB | GB/s | copy GB/s | times a copy "
           "|%s\n|---|---|---|---|---|---|---|%s\n",
           python != NULL ? " torch ms | time |" : "", python != NULL ? "---|---|" : "");
    for (size_t k = 0; k < sizeof loops_rows / sizeof *loops_rows; k++) {
        const loops_row *row = &loops_rows[k];
        if (!loops_is_named(row->name, argv + i, argc - i)) continue;
        if (loops_run(row, python, turns, &error) != TN_OK)
            printf("| %s | %s: %s |\n", row->name, error.where, error.message);
    }
    return 0;
}
