/* inner.c - plain kernels on operands that lie channels last (inner.h).
 *
 *     [ inputs ] -> scratch -> the kernel -> scratch -> [ outputs ]
 *
 * Operands that lie in the order of their shape are handed through, so an output may still lie on
 * its input where that is so for both. An output that lies channels last is computed in scratch,
 * so there it does no harm either.
 */
#include "engine/inner.h"

typedef struct inner_state {
    const tn_kernel *kernel;
    void *state;
    tn_op op;                   /* with lists in the arena */
    uint64_t own;               /* scratch of the kernel itself, behind the moved operands */
    uint64_t *inputs, *outputs; /* [count] offsets into scratch; TN_SIZE_UNKNOWN: handed through */
    tn_operand *in, *out;       /* [count] room for the call */
    tn_tensor *in_as, *out_as;  /* [count] operands as the kernel sees them */
    tn__arena arena;
    tn_context context;
} inner_state;

static bool inner_is_last(const tn_tensor *tensor) {
    return tensor != NULL && tensor->format.order == TN_ORDER_NHWC;
}

/* Scratch for the operands that have to be moved. */
static bool inner_place(const tn_kernel_setup *setup, const tn_tensor_id *ids, uint32_t count,
                        bool all, uint64_t *offsets, uint64_t *total) {
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor *tensor = ids[i] == TN_NONE ? NULL : tn_graph_tensor(setup->graph, ids[i]);
        offsets[i] = TN_SIZE_UNKNOWN;
        if (tensor == NULL || (!all && !inner_is_last(tensor))) continue;
        offsets[i] = *total;
        if (!tn__add(*total, tensor->bytes, total) || !tn__align_up(*total, 64, total))
            return false;
    }
    return true;
}

static tn_tensor *inner_tensors(inner_state *inner, const tn_graph *graph, const tn_tensor_id *ids,
                                uint32_t count) {
    tn_tensor *tensors = tn__arena_array(&inner->arena, (size_t)count + 1, sizeof *tensors);
    for (uint32_t i = 0; tensors != NULL && i < count; i++) {
        if (ids[i] == TN_NONE) continue;
        tensors[i] = *tn_graph_tensor(graph, ids[i]);
        tensors[i].format = (tn_format){0};
    }
    return tensors;
}

static tn_status inner_copy(inner_state *inner, const tn_graph *graph, const tn_op *op) {
    tn_op *made = &inner->op;
    *made = *op;
    made->inputs = tn__arena_copy(&inner->arena, op->inputs, op->input_count * sizeof *op->inputs);
    made->outputs =
        tn__arena_copy(&inner->arena, op->outputs, op->output_count * sizeof *op->outputs);
    made->attrs = tn__arena_copy(&inner->arena, op->attrs, op->attr_count * sizeof *op->attrs);
    inner->inputs = tn__arena_array(&inner->arena, (size_t)op->input_count + 1, sizeof(uint64_t));
    inner->outputs = tn__arena_array(&inner->arena, (size_t)op->output_count + 1, sizeof(uint64_t));
    inner->in = tn__arena_array(&inner->arena, (size_t)op->input_count + 1, sizeof *inner->in);
    inner->out = tn__arena_array(&inner->arena, (size_t)op->output_count + 1, sizeof *inner->out);
    inner->in_as = inner_tensors(inner, graph, op->inputs, op->input_count);
    inner->out_as = inner_tensors(inner, graph, op->outputs, op->output_count);
    return inner->in_as != NULL && inner->out_as != NULL && made->inputs != NULL &&
                   made->outputs != NULL && made->attrs != NULL && inner->inputs != NULL &&
                   inner->outputs != NULL && inner->in != NULL && inner->out != NULL
               ? TN_OK
               : TN_E_NO_MEMORY;
}

/* The first plain kernel that takes it, which may not want packed weights. */
static tn_status inner_choose(const tn_kernel_setup *outer, inner_state *inner) {
    tn_kernel_setup setup = *outer;
    setup.op = &inner->op;
    setup.inputs_as = inner->in_as;
    setup.outputs_as = inner->out_as;
    setup.packed = NULL;
    setup.state = NULL;
    for (const tn_kernel *kernel = NULL;;) {
        kernel = tn__kernel_find(&setup, false, kernel);
        if (kernel == NULL) return TN_E_UNSUPPORTED;
        if (kernel->formats || kernel->pack != NULL) continue; /* this one, or one like it */
        setup.workspace = 0;
        tn_status status = TN_OK;
        if (kernel->prepare != NULL)
            status = kernel->prepare(&setup);
        else if (kernel->workspace != NULL)
            setup.workspace = kernel->workspace(&setup);
        if (status == TN_E_UNSUPPORTED) continue;
        if (status != TN_OK) return status;
        inner->kernel = kernel;
        inner->state = setup.state;
        inner->own = setup.workspace;
        return TN_OK;
    }
}

tn_status tn__inner_prepare(tn_kernel_setup *setup, const tn_op *op, bool apart) {
    tn_context context = tn__context(setup->context);
    inner_state *inner = tn__alloc_array(&context, 1, sizeof *inner);
    uint64_t total = 0;
    if (inner == NULL) return tn__no_memory(setup->error, "a kernel");
    inner->context = context;
    tn__arena_init(&inner->arena, &inner->context);
    tn_status status = inner_copy(inner, setup->graph, op);
    if (status == TN_OK && (!inner_place(setup, inner->op.inputs, inner->op.input_count, false,
                                         inner->inputs, &total) ||
                            !inner_place(setup, inner->op.outputs, inner->op.output_count, apart,
                                         inner->outputs, &total)))
        status = TN_E_UNSUPPORTED;
    uint64_t moved = total;
    if (status == TN_OK) status = inner_choose(setup, inner);
    if (status == TN_OK && !tn__add(total, inner->own, &total)) status = TN_E_UNSUPPORTED;
    if (status != TN_OK) {
        tn__inner_release(setup->context, inner);
        return status == TN_E_NO_MEMORY ? tn__no_memory(setup->error, "a kernel") : status;
    }
    inner->own = moved; /* from here on: where it begins */
    setup->state = inner;
    setup->workspace = total;
    return TN_OK;
}

void tn__inner_release(const tn_context *context, void *state) {
    inner_state *inner = state;
    if (inner == NULL) return;
    if (inner->kernel != NULL && inner->kernel->release != NULL && inner->state != NULL)
        inner->kernel->release(context, inner->state);
    tn__arena_release(&inner->arena);
    tn_context own = inner->context;
    tn__free(&own, inner, sizeof *inner);
}

/* --- running --- */

void tn__inner_reorder(const tn_operand *from, void *to, bool to_last) {
    uint64_t channels = from->rank > 1 ? (uint64_t)from->shape[1] : 1;
    uint64_t images = tn__operand_span(from, 0, 1), pixels = tn__operand_span(from, 2, from->rank);
    size_t width = tn_dtype_bits(from->dtype) / 8;
    const char *source = from->data;
    char *target = to;
    for (uint64_t n = 0; n < images; n++)
        for (uint64_t c = 0; c < channels; c++)
            for (uint64_t p = 0; p < pixels; p++) {
                uint64_t first = ((n * channels + c) * pixels + p) * width;
                uint64_t last = ((n * pixels + p) * channels + c) * width;
                memcpy(target + (to_last ? last : first), source + (to_last ? first : last), width);
            }
}

static void inner_enter(const inner_state *inner, const tn_kernel_call *call) {
    char *scratch = call->workspace;
    for (uint32_t i = 0; i < inner->op.input_count; i++) {
        inner->in[i] = call->inputs[i];
        if (inner->inputs[i] == TN_SIZE_UNKNOWN || call->inputs[i].omitted) continue;
        tn__inner_reorder(&call->inputs[i], scratch + inner->inputs[i], false);
        inner->in[i].data = scratch + inner->inputs[i];
        inner->in[i].format.order = TN_ORDER_PLAIN;
    }
    for (uint32_t k = 0; k < inner->op.output_count; k++) {
        inner->out[k] = call->outputs[k];
        if (inner->outputs[k] == TN_SIZE_UNKNOWN) continue;
        inner->out[k].data = scratch + inner->outputs[k];
        inner->out[k].format.order = TN_ORDER_PLAIN;
    }
}

static void inner_add(const tn_operand *summand, float *to, uint64_t count) {
    const float *from = summand->data;
    bool last = summand->format.order == TN_ORDER_NHWC;
    uint64_t channels = last ? (uint64_t)summand->shape[1] : 1;
    uint64_t pixels = last ? tn__operand_span(summand, 2, summand->rank) : 1;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t p = i % pixels, c = i / pixels % channels, n = i / pixels / channels;
        to[i] += from[last ? (n * pixels + p) * channels + c : i];
    }
}

tn_status tn__inner_run_with(tn_kernel_call *call, uint32_t summand,
                             void (*finish)(const tn_op *op, float *elements, uint64_t count)) {
    inner_state *inner = call->state;
    tn_kernel_call own = *call;
    inner_enter(inner, call);
    own.op = &inner->op;
    own.inputs = inner->in;
    own.outputs = inner->out;
    own.input_count = inner->op.input_count;
    own.output_count = inner->op.output_count;
    own.workspace = (char *)call->workspace + inner->own;
    own.workspace_bytes = call->workspace_bytes - inner->own;
    own.state = inner->state;
    TN_TRY(inner->kernel->run(&own));
    uint64_t count = tn__operand_count(&inner->out[0]);
    if (summand != TN_NONE) inner_add(&call->inputs[summand], inner->out[0].data, count);
    if (finish != NULL) finish(call->op, inner->out[0].data, count);
    for (uint32_t k = 0; k < own.output_count; k++)
        if (call->outputs[k].format.order == TN_ORDER_NHWC)
            tn__inner_reorder(&inner->out[k], call->outputs[k].data, true);
        else
            tn__operand_copy(&call->outputs[k], &inner->out[k]);
    return TN_OK;
}

tn_status tn__inner_run(tn_kernel_call *call) { return tn__inner_run_with(call, TN_NONE, NULL); }
