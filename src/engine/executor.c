/* executor.c - binds the operands of operators and calls kernels on them (executor.h). */
#include "engine/executor.h"

/* --- extents that are known only during the run ---
 *
 * The graph may have upper bounds instead of extents for the outputs of an operator. Before such an
 * operator runs, its shape rule computes the current extents: a small graph with only this operator
 * is built from the current extents of its inputs, with the data of inputs that have few elements,
 * and its shapes are inferred. The small graph lives in memory that was allocated beforehand, so a
 * run allocates nothing. If an extent depends on more data than that, it keeps its upper bound, and
 * the kernel sets the current extent.
 * Cost: a few microseconds for each operator with such outputs.
 */

/* inputs with more elements than this are not read when the extents of outputs are computed */
#define RESHAPE_VALUES 1024u
/* bytes of the memory in which the small graph, and the copied data of its inputs, are allocated */
#define RESHAPE_SCRATCH (UINT64_C(1) << 20)
#define RESHAPE_CONTENTS (RESHAPE_SCRATCH / 8)

/* An allocator for the small graph: it allocates from the front of executor->scratch and never
 * frees. All memory is released at once when the next operator begins. */
static void *reshape_resize(void *self, void *pointer, size_t old_size, size_t new_size,
                            size_t alignment) {
    tn__executor *executor = self;
    if (new_size == 0) return NULL;
    size_t at = (executor->scratch_used + alignment - 1) & ~(alignment - 1);
    if (new_size > RESHAPE_SCRATCH || at > RESHAPE_SCRATCH - new_size) return NULL;
    executor->scratch_used = at + new_size;
    if (pointer != NULL) memcpy(executor->scratch + at, pointer, old_size);
    return executor->scratch + at;
}

static bool reshape_is_integer(tn_dtype dtype) {
    switch (dtype) {
    case TN_UINT8:
    case TN_INT8:
    case TN_UINT16:
    case TN_INT16:
    case TN_INT32:
    case TN_INT64:
    case TN_UINT32:
    case TN_BOOL:
        return true;
    default:
        return false;
    }
}

static void *reshape_take(tn__executor *executor, size_t bytes) {
    return reshape_resize(executor, NULL, 0, bytes > 0 ? bytes : 1, 16);
}

/* Returns the values of an operand for shape inference. Returns no values if the operand has more
 * than RESHAPE_VALUES elements, if its values need more than `left` bytes, or if its type is
 * neither an integer nor a float type that shape rules read. */
static tn_value reshape_value(tn__executor *executor, const tn_operand *operand, uint64_t *left) {
    tn_value value = {0};
    uint64_t count = tn__operand_count(operand);
    bool real = operand->dtype == TN_FLOAT32 || operand->dtype == TN_FLOAT64;
    if (operand->data == NULL || count == 0 || count > RESHAPE_VALUES || count * 8 > *left ||
        (!real && !reshape_is_integer(operand->dtype)))
        return value;
    *left -= count * 8;
    if (real) {
        double *floats = reshape_take(executor, count * sizeof *floats);
        for (uint64_t i = 0; i < count && floats != NULL; i++)
            floats[i] = tn__operand_float(operand, i);
        return (tn_value){.count = floats ? (uint32_t)count : 0, .floats = floats};
    }
    int64_t *ints = reshape_take(executor, count * sizeof *ints);
    for (uint64_t i = 0; i < count && ints != NULL; i++) ints[i] = tn__operand_int(operand, i);
    return (tn_value){.count = ints ? (uint32_t)count : 0, .ints = ints};
}

static tn_status reshape_input(tn__executor *executor, tn_graph *graph, tn_tensor_id from,
                               uint64_t *left, tn_tensor_id *id) {
    *id = TN_NONE;
    if (from == TN_NONE) return TN_OK;
    const tn_operand *operand = &executor->operands[from];
    tn_tensor_spec spec = {.dtype = operand->dtype,
                           .kind = TN_KIND_INPUT,
                           .rank = operand->rank,
                           .shape = operand->shape,
                           .value = reshape_value(executor, operand, left)};
    if (spec.value.count > 0) spec.kind = TN_KIND_CONSTANT;
    return tn_graph_add_tensor(graph, &spec, id, executor->error);
}

/* Copies the attributes of an operator for the small graph. Attributes that refer to a tensor get a
 * copy of the tensor in the small graph. */
static tn_status reshape_attrs(tn__executor *executor, tn_graph *graph, const tn_op *op,
                               tn_attr *attrs) {
    for (uint32_t i = 0; i < op->attr_count; i++) {
        attrs[i] = op->attrs[i];
        if (attrs[i].type != TN_ATTR_TENSOR) continue;
        const tn_tensor *tensor = tn_graph_tensor(executor->graph, attrs[i].tensor);
        tn_tensor_spec spec = {.dtype = tensor->dtype,
                               .kind = TN_KIND_CONSTANT,
                               .rank = tensor->rank,
                               .shape = tensor->shape};
        if (tensor->value != NULL) spec.value = *tensor->value;
        TN_TRY(tn_graph_add_tensor(graph, &spec, &attrs[i].tensor, executor->error));
    }
    return TN_OK;
}

static tn_status reshape_build(tn__executor *executor, tn_graph *graph, const tn_op *op,
                               tn_tensor_id *outputs) {
    tn_tensor_id *inputs = reshape_take(executor, op->input_count * sizeof *inputs);
    tn_attr *attrs = reshape_take(executor, op->attr_count * sizeof *attrs);
    if (inputs == NULL || attrs == NULL) return tn__no_memory(executor->error, "extents");
    uint64_t left = RESHAPE_CONTENTS;
    for (uint32_t i = 0; i < op->input_count; i++)
        TN_TRY(reshape_input(executor, graph, op->inputs[i], &left, &inputs[i]));
    TN_TRY(reshape_attrs(executor, graph, op, attrs));
    for (uint32_t k = 0; k < op->output_count; k++) {
        outputs[k] = TN_NONE;
        if (op->outputs[k] == TN_NONE) continue;
        tn_tensor_spec spec = {.kind = TN_KIND_OUTPUT};
        TN_TRY(tn_graph_add_tensor(graph, &spec, &outputs[k], executor->error));
    }
    tn_op_spec spec = {.name = op->name,
                       .type = op->type,
                       .domain = op->domain,
                       .version = op->version,
                       .inputs = inputs,
                       .outputs = outputs,
                       .attrs = attrs,
                       .input_count = op->input_count,
                       .output_count = op->output_count,
                       .attr_count = op->attr_count};
    return tn_graph_add_op(graph, &spec, NULL, executor->error);
}

/* Sets the extents of an operator's outputs to those that its shape rule found. Fails if an output
 * then needs more bytes than are planned for it. */
static tn_status reshape_apply(tn__executor *executor, const tn_graph *graph, const tn_op *op,
                               const tn_tensor_id *outputs) {
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (outputs[k] == TN_NONE) continue;
        const tn_tensor *found = tn_graph_tensor(graph, outputs[k]);
        tn_operand *operand = &executor->operands[op->outputs[k]];
        if (found->rank == TN_RANK_UNKNOWN) continue;
        if (found->rank != operand->rank)
            TN_FAIL(executor->error, TN_E_UNSUPPORTED,
                    "'%.60s' has rank %u now and %u in the plan, as extents are 1 that the plan "
                    "knows bounds of; name the axes",
                    tn_graph_tensor(executor->graph, op->outputs[k])->name, found->rank,
                    operand->rank);
        for (uint32_t d = 0; d < found->rank; d++)
            if (found->shape[d] >= 0) operand->shape[d] = found->shape[d];
        if (tn__operand_bytes(operand) > operand->room)
            TN_FAIL(executor->error, TN_E_INVALID, "'%.60s' takes %llu bytes now, %llu are planned",
                    tn_graph_tensor(executor->graph, op->outputs[k])->name,
                    (unsigned long long)tn__operand_bytes(operand),
                    (unsigned long long)operand->room);
    }
    return TN_OK;
}

/* Computes the current extents of an operator's outputs, with its shape rule and its current
 * inputs. */
static tn_status executor_reshape(tn__executor *executor, tn_op_id id) {
    const tn_op *op = tn_graph_op(executor->graph, id);
    tn_context context = TN_CONTEXT_INIT;
    tn_graph *graph;
    context.allocator.resize = reshape_resize;
    context.allocator.self = executor;
    executor->scratch_used = 0;
    /* an earlier run may have left other extents: begin with the upper bounds */
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        const tn_tensor *tensor = tn_graph_tensor(executor->graph, op->outputs[k]);
        for (uint32_t d = 0; d < tensor->rank; d++)
            executor->operands[op->outputs[k]].shape[d] = tensor->shape[d];
    }
    TN_TRY(tn_graph_create(&context, &graph, executor->error));
    tn_tensor_id *outputs = reshape_take(executor, op->output_count * sizeof *outputs);
    tn_status status = outputs == NULL ? tn__no_memory(executor->error, "extents") : TN_OK;
    if (status == TN_OK) status = reshape_build(executor, graph, op, outputs);
    if (status == TN_OK) status = tn_graph_infer(graph, executor->error);
    /* TN_E_UNKNOWN: an extent is still unknown; it keeps its upper bound and the kernel sets it */
    if (status == TN_OK || status == TN_E_UNKNOWN)
        status = reshape_apply(executor, graph, op, outputs);
    tn_graph_destroy(graph);
    return status;
}

/* --- addresses of operands, and calls of kernels --- */

/* number of operands for which the first tables have space */
#define EXECUTOR_LEAST 8u

void tn__executor_open(tn__executor *executor, const tn_context *context, const tn_graph *graph) {
    *executor = (tn__executor){.graph = graph};
    tn__arena_init(&executor->arena, context);
}

void tn__executor_close(tn__executor *executor) { tn__arena_release(&executor->arena); }

/* --- operands --- */

static uint32_t executor_rank(const tn_tensor *tensor) {
    return tensor->rank != TN_RANK_UNKNOWN ? tensor->rank : 0;
}

/* Allocates a table for `count` operands and copies the bound operands into it. The old table stays
 * in the arena. Each table is at least twice as large as the one before, so all old tables together
 * are smaller than the current one. */
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

/* Whether an output of the operator has only upper bounds for its extents in the graph. */
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
        executor->scratch = tn__arena_alloc(&executor->arena, RESHAPE_SCRATCH);
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

static tn_kernel_call executor_kernel_call(const tn_graph *graph, const tn_op *op,
                                           const tn__bound_call *bound, tn_error *error) {
    return (tn_kernel_call){.graph = graph,
                            .op = op,
                            .version = op->version ? op->version : UINT32_MAX,
                            .input_count = op->input_count,
                            .output_count = op->output_count,
                            .inputs = bound->inputs,
                            .outputs = bound->outputs,
                            .workspace = bound->workspace,
                            .workspace_bytes = bound->prepared->workspace,
                            .state = bound->prepared->state,
                            .error = error};
}

void tn__executor_bind(const tn__executor *executor, void *const *packed, tn__bound_call *call) {
    const tn_op *op = tn_graph_op(executor->graph, call->op);
    executor_operands(executor, op->inputs, op->input_count, call->inputs);
    executor_operands(executor, op->outputs, op->output_count, call->outputs);
    for (uint32_t i = 0; i < op->input_count && packed != NULL; i++)
        if (packed[i] != NULL) call->inputs[i].data = packed[i];
}

tn_status tn__executor_run_bound(const tn__executor *executor, const tn__bound_call *call,
                                 tn_error *error) {
    tn_kernel_call made =
        executor_kernel_call(executor->graph, tn_graph_op(executor->graph, call->op), call, error);
    return call->prepared->kernel->run(&made);
}

/* Runs a kernel on the operands that are in executor->inputs and executor->outputs. */
static tn_status executor_run(tn__executor *executor, const tn_graph *graph, const tn_op *op,
                              const tn__prepared *prepared, void *workspace) {
    const tn__bound_call bound = {.prepared = prepared,
                                  .inputs = executor->inputs,
                                  .outputs = executor->outputs,
                                  .workspace = workspace};
    tn_kernel_call call = executor_kernel_call(graph, op, &bound, executor->error);
    call.random = &executor->random;
    call.rows = executor->rows;
    return prepared->kernel->run(&call);
}

tn_status tn__executor_call(tn__executor *executor, tn_op_id id, const tn__prepared *prepared,
                            void *const *packed, void *workspace) {
    const tn_op *op = tn_graph_op(executor->graph, id);
    tn__bound_call call = {.op = id, .inputs = executor->inputs, .outputs = executor->outputs};
    if (executor_is_bound(executor->graph, op)) TN_TRY(executor_reshape(executor, id));
    tn__executor_bind(executor, packed, &call);
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
