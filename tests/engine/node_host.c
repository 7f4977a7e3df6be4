/* node_host.c - runs the main block of a model on host memory, kernel after kernel, without a
 * program or a plan: for kernels alone, until the engine runs node_tests.c.
 *
 * Shapes are the graph's; where they are upper bounds, an output of the graph gets the expected
 * extents, in place of the rule that the engine asks. Control flow is not run.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/import.h>

#include "engine/kernel.h"
#include "node_run.h"

typedef struct host_tensor {
    void *data; /* exactly `room` bytes, so that sanitizers see what goes beyond */
    uint64_t room;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX];
} host_tensor;

typedef struct host {
    tn_graph *graph;
    tn_contents *contents;
    host_tensor *tensors;
    uint64_t random;
    tn_error *error;
} host;

static void *host_alloc(uint64_t size) {
    void *bytes = malloc(size);
    if (bytes == NULL) abort();
    memset(bytes, 0xa5, size);
    return bytes;
}

static tn_status host_make(host *self, tn_tensor_id id, const tn_array *from) {
    const tn_tensor *tensor = tn_graph_tensor(self->graph, id);
    host_tensor *made = &self->tensors[id];
    if (tensor->rank == TN_RANK_UNKNOWN || tensor->bytes == TN_SIZE_UNKNOWN)
        return tn__fail(self->error, TN_E_UNKNOWN, "the size of '%s' is not known", tensor->name);
    made->room = tensor->bytes;
    made->rank = tensor->rank;
    memcpy(made->shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
    if (from != NULL && from->rank == tensor->rank && from->bytes <= made->room) {
        made->room = from->bytes;
        memcpy(made->shape, from->shape, from->rank * sizeof *from->shape);
    }
    made->data = host_alloc(made->room);
    return TN_OK;
}

static tn_operand host_operand(const host *self, tn_tensor_id id) {
    if (id == TN_NONE) return (tn_operand){.omitted = true};
    host_tensor *tensor = &self->tensors[id];
    return (tn_operand){.data = tensor->data,
                        .room = tensor->room,
                        .dtype = tn_graph_tensor(self->graph, id)->dtype,
                        .rank = tensor->rank,
                        .shape = tensor->shape};
}

static tn_status host_pack(const host *self, const tn_kernel *kernel, tn_kernel_setup *setup,
                           tn_operand *inputs, void **packed) {
    for (uint32_t i = 0; i < setup->op->input_count; i++) {
        if (setup->packed[i] == 0) continue;
        packed[i] = host_alloc(setup->packed[i]);
        TN_TRY(kernel->pack(setup, i, inputs[i].data, packed[i]));
        inputs[i].data = packed[i];
    }
    (void)self;
    return TN_OK;
}

static tn_status host_kernel(host *self, const tn_kernel *kernel, tn_kernel_setup *setup,
                             tn_kernel_call *call, tn_operand *inputs) {
    void *packed[64] = {0};
    tn_status status = host_pack(self, kernel, setup, inputs, packed);
    call->inputs = inputs;
    call->state = setup->state;
    call->workspace_bytes = setup->workspace;
    call->workspace = aligned_alloc(64, (setup->workspace + 127) / 64 * 64);
    if (status == TN_OK) status = kernel->run(call);
    free(call->workspace);
    for (uint32_t i = 0; i < 64; i++) free(packed[i]);
    if (kernel->release != NULL) kernel->release(setup->context, setup->state);
    return status;
}

static tn_status host_op(host *self, tn_op_id id) {
    const tn_op *op = tn_graph_op(self->graph, id);
    uint64_t packed[64] = {0};
    tn_operand inputs[64] = {0}, outputs[64] = {0};
    if (op->input_count > 64 || op->output_count > 64) abort();
    tn_kernel_setup setup = {.graph = self->graph,
                             .op = op,
                             .id = id,
                             .version = op->version != 0 ? op->version : UINT32_MAX,
                             .context = tn_graph_context(self->graph),
                             .threads = 1,
                             .error = self->error,
                             .packed = packed};
    tn_kernel_call call = {.graph = self->graph,
                           .op = op,
                           .id = id,
                           .version = setup.version,
                           .input_count = op->input_count,
                           .output_count = op->output_count,
                           .outputs = outputs,
                           .random = &self->random,
                           .error = self->error};
    for (uint32_t i = 0; i < op->input_count; i++) inputs[i] = host_operand(self, op->inputs[i]);
    for (uint32_t i = 0; i < op->output_count; i++) outputs[i] = host_operand(self, op->outputs[i]);
    const tn_kernel *kernel = NULL;
    while ((kernel = tn__kernel_find(&setup, false, kernel)) != NULL) {
        tn_status status = kernel->prepare != NULL ? kernel->prepare(&setup) : TN_OK;
        if (status == TN_E_UNSUPPORTED) continue;
        if (status != TN_OK) return status;
        if (kernel->workspace != NULL && setup.workspace == 0)
            setup.workspace = kernel->workspace(&setup);
        return host_kernel(self, kernel, &setup, &call, inputs);
    }
    return tn__fail(self->error, TN_E_UNSUPPORTED, "no kernel for %s", op->type);
}

/* Memory and contents for every tensor: given, constant, or to be computed. */
static tn_status host_fill(host *self, const tn_array *inputs, uint32_t input_count,
                           const tn_array *expected, uint32_t output_count) {
    const tn_block *block = tn_graph_block(self->graph, 0);
    if (input_count != block->input_count || output_count != block->output_count)
        return tn__fail(self->error, TN_E_INVALID, "%u inputs and %u outputs, not %u and %u",
                        block->input_count, block->output_count, input_count, output_count);
    for (uint32_t i = 0; i < input_count; i++) {
        TN_TRY(host_make(self, block->inputs[i], &inputs[i]));
        host_tensor *tensor = &self->tensors[block->inputs[i]];
        if (tensor->room != inputs[i].bytes)
            return tn__fail(self->error, TN_E_INVALID, "input %u is of another size", i);
        memcpy(tensor->data, inputs[i].data, inputs[i].bytes);
    }
    for (uint32_t i = 0; i < output_count; i++)
        if (self->tensors[block->outputs[i]].data == NULL)
            TN_TRY(host_make(self, block->outputs[i], &expected[i]));
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(self->graph); id++) {
        const tn_tensor *tensor = tn_graph_tensor(self->graph, id);
        if (tensor->block != 0 || self->tensors[id].data != NULL) continue;
        TN_TRY(host_make(self, id, NULL));
        if (tensor->kind == TN_KIND_PARAMETER || tensor->kind == TN_KIND_CONSTANT)
            TN_TRY(tn_contents_read(self->contents, self->graph, id, self->tensors[id].data,
                                    self->tensors[id].room, self->error));
    }
    return TN_OK;
}

static tn_status host_run(host *self, const tn_array *inputs, uint32_t input_count,
                          const tn_array *expected, tn_array *outputs, uint32_t output_count) {
    const tn_block *block = tn_graph_block(self->graph, 0);
    TN_TRY(host_fill(self, inputs, input_count, expected, output_count));
    for (uint32_t i = 0; i < block->op_count; i++) TN_TRY(host_op(self, block->ops[i]));
    for (uint32_t i = 0; i < output_count; i++) {
        tn_operand operand = host_operand(self, block->outputs[i]);
        tn_array *output = &outputs[i];
        *output = (tn_array){.dtype = operand.dtype, .rank = operand.rank};
        memcpy(output->shape, operand.shape, operand.rank * sizeof *operand.shape);
        output->bytes = tn__operand_bytes(&operand);
        output->data = host_alloc(output->bytes + 1);
        memcpy(output->data, operand.data, output->bytes);
    }
    return TN_OK;
}

tn_status node_run(const char *path, const tn_array *inputs, uint32_t input_count,
                   const tn_array *expected, tn_array *outputs, uint32_t output_count,
                   tn_error *error) {
    host run = {.error = error};
    TN_TRY(tn_graph_load(path, NULL, &run.graph, error));
    uint32_t count = tn_graph_tensor_count(run.graph);
    run.tensors = calloc(count + 1, sizeof *run.tensors);
    if (run.tensors == NULL) abort();
    tn_status status = tn_contents_open(path, NULL, &run.contents, error);
    if (status == TN_OK)
        status = host_run(&run, inputs, input_count, expected, outputs, output_count);
    for (uint32_t i = 0; i < count; i++) free(run.tensors[i].data);
    free(run.tensors);
    tn_contents_close(run.contents);
    tn_graph_destroy(run.graph);
    return status;
}
