/* executor.c - binds the operands of operators and calls kernels on them (executor.h). */
#include "engine/executor.h"

#define EXECUTOR_LEAST 8u /* a call always has room for this number of operands */

void tn__executor_open(tn__executor *executor, const tn_context *context, const tn_graph *graph) {
    *executor = (tn__executor){.graph = graph};
    tn__arena_init(&executor->arena, context);
}

void tn__executor_close(tn__executor *executor) { tn__arena_release(&executor->arena); }

/* --- operands --- */

static uint32_t executor_rank(const tn_tensor *tensor) {
    return tensor->rank != TN_RANK_UNKNOWN ? tensor->rank : 0;
}

/* Makes a larger table and copies the bound operands into it. The old table stays in the arena:
 * each table is twice as large as the one before, so all old ones together are smaller than the
 * current one. */
static bool executor_grow(tn__executor *executor, uint32_t count) {
    if (count <= executor->tensor_room) return true;
    uint32_t room = executor->tensor_room == 0 ? count : 2 * executor->tensor_room;
    if (room < count) room = count;
    tn_operand *operands = tn__arena_array(&executor->arena, room, sizeof *operands);
    if (operands == NULL) return false;
    if (executor->tensor_count > 0)
        memcpy(operands, executor->operands, executor->tensor_count * sizeof *operands);
    executor->operands = operands;
    executor->tensor_room = room;
    return true;
}

static tn_status executor_cover_tensors(tn__executor *executor) {
    uint32_t first = executor->tensor_count, count = tn_graph_tensor_count(executor->graph);
    size_t extents = 0;
    for (tn_tensor_id t = first; t < count; t++)
        extents += executor_rank(tn_graph_tensor(executor->graph, t));
    int64_t *at = tn__arena_array(&executor->arena, extents, sizeof *at);
    if (at == NULL || !executor_grow(executor, count))
        return tn__no_memory(executor->error, "operands");
    for (tn_tensor_id t = first; t < count; t++) {
        const tn_tensor *tensor = tn_graph_tensor(executor->graph, t);
        uint32_t rank = executor_rank(tensor);
        executor->operands[t] = (tn_operand){.room = tensor->bytes,
                                             .dtype = tensor->dtype,
                                             .format = tensor->format,
                                             .rank = rank,
                                             .shape = at};
        for (uint32_t d = 0; d < rank; d++) *at++ = tensor->shape[d];
    }
    executor->tensor_count = count;
    return TN_OK;
}

/* Whether extents of its outputs follow from the run. */
static bool executor_is_bound(const tn_graph *graph, const tn_op *op) {
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE &&
            (tn_graph_tensor(graph, op->outputs[k])->flags & TN_TENSOR_BOUND) != 0)
            return true;
    return false;
}

static bool executor_room(tn__executor *executor, uint32_t need, uint32_t *room,
                          tn_operand **operands) {
    if (need <= *room) return true;
    need = need < EXECUTOR_LEAST ? EXECUTOR_LEAST : need;
    *operands = tn__arena_array(&executor->arena, need, sizeof **operands);
    *room = *operands != NULL ? need : 0;
    return *operands != NULL;
}

static tn_status executor_cover_ops(tn__executor *executor) {
    uint32_t count = tn_graph_op_count(executor->graph), inputs = 1, outputs = 1;
    bool bound = false;
    for (tn_op_id id = executor->op_count; id < count; id++) {
        const tn_op *op = tn_graph_op(executor->graph, id);
        if (op->input_count > inputs) inputs = op->input_count;
        if (op->output_count > outputs) outputs = op->output_count;
        bound = bound || executor_is_bound(executor->graph, op);
    }
    if (bound && executor->scratch == NULL)
        executor->scratch = tn__arena_alloc(&executor->arena, TN__RESHAPE_SCRATCH);
    if (!executor_room(executor, inputs, &executor->input_room, &executor->inputs) ||
        !executor_room(executor, outputs, &executor->output_room, &executor->outputs) ||
        (bound && executor->scratch == NULL))
        return tn__no_memory(executor->error, "operands");
    executor->op_count = count;
    return TN_OK;
}

tn_status tn__executor_cover(tn__executor *executor) {
    TN_TRY(executor_cover_tensors(executor));
    return executor_cover_ops(executor);
}

void tn__executor_reset(tn__executor *executor) {
    for (tn_tensor_id t = 0; t < executor->tensor_count; t++) {
        const tn_tensor *tensor = tn_graph_tensor(executor->graph, t);
        if (!(tensor->flags & TN_TENSOR_BOUND) || tn_tensor_is_static(tensor)) continue;
        for (uint32_t d = 0; d < tensor->rank; d++)
            executor->operands[t].shape[d] = tensor->shape[d];
    }
}

/* --- a call --- */

static void executor_operands(const tn__executor *executor, const tn_tensor_id *ids, uint32_t count,
                              tn_operand *operands) {
    for (uint32_t i = 0; i < count; i++)
        operands[i] =
            ids[i] == TN_NONE ? (tn_operand){.omitted = true} : executor->operands[ids[i]];
}

/* On the operands in executor->inputs and outputs. */
static tn_status executor_run(tn__executor *executor, const tn_graph *graph, const tn_op *op,
                              const tn__prepared *prepared, void *workspace) {
    tn_kernel_call call = {.graph = graph,
                           .op = op,
                           .version = op->version ? op->version : UINT32_MAX,
                           .input_count = op->input_count,
                           .output_count = op->output_count,
                           .inputs = executor->inputs,
                           .outputs = executor->outputs,
                           .workspace = workspace,
                           .workspace_bytes = prepared->workspace,
                           .state = prepared->state,
                           .random = &executor->random,
                           .error = executor->error};
    return prepared->kernel->run(&call);
}

tn_status tn__executor_call(tn__executor *executor, tn_op_id id, const tn__prepared *prepared,
                            void *const *packed, void *workspace) {
    const tn_op *op = tn_graph_op(executor->graph, id);
    if (executor_is_bound(executor->graph, op)) TN_TRY(tn__executor_reshape(executor, id));
    executor_operands(executor, op->inputs, op->input_count, executor->inputs);
    executor_operands(executor, op->outputs, op->output_count, executor->outputs);
    for (uint32_t i = 0; i < op->input_count && packed != NULL; i++)
        if (packed[i] != NULL) executor->inputs[i].data = packed[i];
    return executor_run(executor, executor->graph, op, prepared, workspace);
}

tn_status tn__executor_again(tn__executor *executor, tn_op_id id, const tn__repeats *repeats,
                             const tn__prepared *prepared, void *workspace) {
    tn_op_form form = tn_op_form_of(executor->graph, id, true);
    for (uint32_t i = 0; i < form.input_count; i++) {
        tn_tensor_id input = tn_op_form_input(&form, i);
        executor_operands(executor, &input, 1, &executor->inputs[i]);
    }
    executor_operands(executor, form.op->outputs, form.output_count, executor->outputs);
    const tn_op *as = tn_graph_op(repeats->graph, tn__repeats_of(repeats, id));
    return executor_run(executor, repeats->graph, as, prepared, workspace);
}
