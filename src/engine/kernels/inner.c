/* inner.c - runs kernels on copies of operands: in C order, or in float32 (inner.h).
 *
 *   [ inputs ] -> scratch -> the kernel -> scratch -> [ outputs ]
 *
 * Operands that need no copy are passed to the kernel directly, so an output may have the address
 * of an input if neither is copied. An output that is copied is computed in scratch memory, which
 * overlaps no input. The state refers to nothing of the operator for which it was prepared, so that
 * operators can share it.
 */
#include "engine/kernels/inner.h"

#include <pthread.h>

#include "engine/kernels/convert.h"

typedef struct inner_state {
    const tn_kernel *kernel;
    void *state;
    /* whether the kernel runs an operator of ONNX in place of the graph's own operator */
    bool of_onnx;
    /* version and numbers of operands of the operator that the kernel runs */
    uint32_t version, input_count, output_count;
    const char *detail; /* name of the implementation in oneDNN */
    /* scratch memory that the kernel itself needs: first the number of bytes, later the offset of
     * this memory after the copied operands */
    uint64_t own;
    /* for each operand: offset of its copy in scratch; TN_SIZE_UNKNOWN: it is not copied */
    uint64_t *inputs, *outputs;
    tn_operand *in, *out; /* the operands in the form that the kernel reads, during a run */
    pthread_mutex_t lock; /* protects `in` and `out`, so that one run at a time uses them */
    bool wide;            /* true: copies are in float32; false: copies are in C order */
    tn__arena arena;
    tn_context context;
} inner_state;

static const tn_tensor *inner_operand(const tn_kernel_setup *setup, bool in, uint32_t index) {
    return in ? tn__setup_input(setup, index) : tn__setup_output(setup, index);
}

static bool inner_is_narrow(const tn_tensor *tensor) {
    return tensor->dtype == TN_FLOAT16 || tensor->dtype == TN_BFLOAT16;
}

static bool inner_needs(const inner_state *inner, const tn_tensor *tensor) {
    return inner->wide ? inner_is_narrow(tensor) : tensor->format.order == TN_ORDER_NHWC;
}

/* Assigns scratch offsets to the inputs or outputs that must be copied. Returns false if the size
 * of one of them is not known. */
static bool inner_place(const inner_state *inner, const tn_kernel_setup *setup, bool in, bool all,
                        uint64_t *total) {
    uint32_t count = in ? inner->input_count : inner->output_count;
    for (uint32_t i = 0; i < count; i++) {
        const tn_tensor *tensor = inner_operand(setup, in, i);
        uint64_t *offset = in ? &inner->inputs[i] : &inner->outputs[i];
        *offset = TN_SIZE_UNKNOWN;
        if (tensor == NULL || (!all && !inner_needs(inner, tensor))) continue;
        *offset = *total;
        uint64_t bytes = inner->wide ? tn__mul_sat(tensor->bytes, 2) : tensor->bytes;
        if (!tn__add(*total, bytes, total) || !tn__align_up(*total, 64, total)) return false;
    }
    return true;
}

/* Describes the operands as the kernel will get them. */
static tn_tensor *inner_tensors(const inner_state *inner, tn__arena *arena,
                                const tn_kernel_setup *setup, bool in) {
    uint32_t count = in ? inner->input_count : inner->output_count;
    tn_tensor *tensors = tn__arena_array(arena, (size_t)count + 1, sizeof *tensors);
    for (uint32_t i = 0; tensors != NULL && i < count; i++) {
        if (inner_operand(setup, in, i) == NULL) continue;
        tensors[i] = *inner_operand(setup, in, i);
        if (!inner->wide) tensors[i].format = (tn_format){0};
        if (!inner->wide) continue;
        /* this flag keeps the kernel from asking for a packed input, which a copy cannot be */
        tensors[i].flags |= TN_TENSOR_UPDATED;
        if (!inner_is_narrow(&tensors[i])) continue;
        tensors[i].dtype = TN_FLOAT32;
        tensors[i].bytes = tn__mul_sat(tensors[i].bytes, 2);
    }
    return tensors;
}

static tn_status inner_tables(inner_state *inner) {
    size_t inputs = (size_t)inner->input_count + 1, outputs = (size_t)inner->output_count + 1;
    inner->inputs = tn__arena_array(&inner->arena, inputs, sizeof *inner->inputs);
    inner->outputs = tn__arena_array(&inner->arena, outputs, sizeof *inner->outputs);
    inner->in = tn__arena_array(&inner->arena, inputs, sizeof *inner->in);
    inner->out = tn__arena_array(&inner->arena, outputs, sizeof *inner->out);
    return inner->inputs != NULL && inner->outputs != NULL && inner->in != NULL &&
                   inner->out != NULL
               ? TN_OK
               : TN_E_NO_MEMORY;
}

/* Finds the first kernel that accepts the operator with the copied operands. Kernels that pack
 * weights are not used. */
static tn_status inner_choose(tn_kernel_setup *setup, bool library, inner_state *inner) {
    for (const tn_kernel *kernel = NULL;;) {
        kernel = tn__kernel_find(setup, inner->wide && setup->library != NULL, kernel);
        if (kernel == NULL) return TN_E_UNSUPPORTED;
        if (library && !tn__kernel_family(kernel)->library) return TN_E_UNSUPPORTED;
        /* Skip kernels of other formats and kernels that pack, because these would again run a
         * kernel on copies. */
        if (!inner->wide && (kernel->formats || kernel->pack != NULL)) continue;
        setup->workspace = 0;
        tn_status status = tn__kernel_prepare(kernel, setup);
        if (status == TN_E_UNSUPPORTED) continue;
        if (status != TN_OK) return status;
        inner->kernel = kernel;
        inner->state = setup->state;
        inner->own = setup->workspace;
        inner->detail = setup->detail;
        return TN_OK;
    }
}

static tn_status inner_choose_for(const tn_kernel_setup *outer, const tn_op *op, bool library,
                                  inner_state *inner) {
    tn_kernel_setup setup = *outer;
    tn__arena arena;
    tn__arena_init(&arena, &inner->context);
    setup.op = op;
    setup.inputs_as = inner_tensors(inner, &arena, outer, true);
    setup.outputs_as = inner_tensors(inner, &arena, outer, false);
    setup.packed = NULL;
    setup.state = NULL;
    tn_status status = TN_E_NO_MEMORY;
    if (setup.inputs_as != NULL && setup.outputs_as != NULL)
        status = inner_choose(&setup, library, inner);
    tn__arena_release(&arena);
    return status;
}

static tn_status inner_make(inner_state *inner, tn_kernel_setup *setup, const tn_op *op, bool apart,
                            bool library) {
    uint64_t total = 0;
    inner->of_onnx = op != setup->op;
    inner->version = op->version;
    inner->input_count = op->input_count;
    inner->output_count = op->output_count;
    TN_TRY(inner_tables(inner));
    if (!inner_place(inner, setup, true, false, &total) ||
        !inner_place(inner, setup, false, apart, &total))
        return TN_E_UNSUPPORTED;
    uint64_t moved = total;
    TN_TRY(inner_choose_for(setup, op, library, inner));
    if (!tn__add(total, inner->own, &total)) return TN_E_UNSUPPORTED;
    /* From now on, `own` is the offset of the kernel's own scratch memory, no longer its size. */
    inner->own = moved;
    setup->workspace = total;
    return TN_OK;
}

static tn_status inner_prepare(tn_kernel_setup *setup, const tn_op *op, bool apart, bool wide,
                               bool library) {
    tn_context context = tn__context(setup->context);
    inner_state *inner = tn__alloc_array(&context, 1, sizeof *inner);
    if (inner == NULL) return tn__no_memory(setup->error, "a kernel");
    inner->context = context;
    inner->wide = wide;
    tn__arena_init(&inner->arena, &inner->context);
    /* this call cannot fail, because the mutex has no attributes */
    pthread_mutex_init(&inner->lock, NULL);
    tn_status status = inner_make(inner, setup, op, apart, library);
    if (status != TN_OK) {
        tn__inner_release(setup->context, inner);
        return status == TN_E_NO_MEMORY ? tn__no_memory(setup->error, "a kernel") : status;
    }
    setup->state = inner;
    setup->detail = inner->detail;
    return TN_OK;
}

tn_status tn__inner_prepare(tn_kernel_setup *setup, const tn_op *op, bool apart) {
    return inner_prepare(setup, op, apart, false, false);
}

/* Whether the 16-bit operands of an operator can be copied as float32. An operand that the operator
 * changes in place, or an output that must be a view, cannot. */
static bool inner_may_widen(const tn_kernel_setup *setup) {
    uint64_t changes = tn__setup_changes(setup);
    bool any = false;
    for (uint32_t i = 0; i < setup->op->input_count; i++) {
        const tn_tensor *input = tn__setup_input(setup, i);
        if (input == NULL || !inner_is_narrow(input)) continue;
        any = true;
        if (input->bytes == TN_SIZE_UNKNOWN || (i < 64 && (changes >> i & 1))) return false;
    }
    for (uint32_t k = 0; k < setup->op->output_count; k++) {
        const tn_tensor *output = tn__setup_output(setup, k);
        if (output == NULL || !inner_is_narrow(output)) continue;
        any = true;
        if (output->bytes == TN_SIZE_UNKNOWN || tn__setup_view(setup, k).must) return false;
    }
    return any;
}

tn_status tn__inner_prepare_wide(tn_kernel_setup *setup, bool library) {
    if (!inner_may_widen(setup)) return TN_E_UNSUPPORTED;
    return inner_prepare(setup, setup->op, false, true, library);
}

void tn__inner_release(const tn_context *context, void *state) {
    inner_state *inner = state;
    if (inner == NULL) return;
    if (inner->kernel != NULL && inner->kernel->release != NULL && inner->state != NULL)
        inner->kernel->release(context, inner->state);
    pthread_mutex_destroy(&inner->lock);
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

/* Changes an operand to its copy in scratch at `data`: address, type and format. */
static void inner_see(const inner_state *inner, tn_operand *operand, void *data) {
    operand->data = data;
    if (inner->wide) {
        operand->dtype = TN_FLOAT32;
        operand->room *= 2;
    } else {
        operand->format.order = TN_ORDER_PLAIN;
    }
}

static void inner_enter(const inner_state *inner, const tn_kernel_call *call) {
    char *scratch = call->workspace;
    for (uint32_t i = 0; i < inner->input_count; i++) {
        const tn_operand *from = &call->inputs[i];
        inner->in[i] = *from;
        if (inner->inputs[i] == TN_SIZE_UNKNOWN || from->omitted) continue;
        void *to = scratch + inner->inputs[i];
        if (inner->wide)
            tn__convert(from->dtype, from->data, TN_FLOAT32, to, tn__operand_count(from));
        else
            tn__inner_reorder(from, to, false);
        inner_see(inner, &inner->in[i], to);
    }
    for (uint32_t k = 0; k < inner->output_count; k++) {
        inner->out[k] = call->outputs[k];
        if (inner->outputs[k] == TN_SIZE_UNKNOWN) continue;
        inner_see(inner, &inner->out[k], scratch + inner->outputs[k]);
    }
}

static void inner_leave(const inner_state *inner, tn_kernel_call *call) {
    for (uint32_t k = 0; k < inner->output_count; k++) {
        tn_operand *to = &call->outputs[k];
        const tn_operand *from = &inner->out[k];
        if (to->omitted) continue;
        if (inner->wide && inner->outputs[k] != TN_SIZE_UNKNOWN)
            tn__convert(TN_FLOAT32, from->data, to->dtype, to->data, tn__operand_count(to));
        else if (!inner->wide && to->format.order == TN_ORDER_NHWC)
            tn__inner_reorder(from, to->data, true);
        else
            tn__operand_copy(to, from);
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

/* Returns the operator as the kernel sees it: `op`, or the ONNX operator for which the kernel was
 * prepared. */
static tn_op inner_op(const inner_state *inner, const tn_op *op) {
    tn_op seen = *op;
    if (!inner->of_onnx) return seen;
    seen.domain = "";
    seen.version = inner->version;
    seen.input_count = inner->input_count;
    return seen;
}

static tn_status inner_run(inner_state *inner, tn_kernel_call *call, uint32_t summand,
                           void (*finish)(const tn_op *op, float *elements, uint64_t count)) {
    tn_kernel_call own = *call;
    const tn_op op = inner_op(inner, call->op);
    inner_enter(inner, call);
    own.op = &op;
    own.inputs = inner->in;
    own.outputs = inner->out;
    own.input_count = inner->input_count;
    own.output_count = inner->output_count;
    own.workspace = (char *)call->workspace + inner->own;
    own.workspace_bytes = call->workspace_bytes - inner->own;
    own.state = inner->state;
    TN_TRY(inner->kernel->run(&own));
    uint64_t count = tn__operand_count(&inner->out[0]);
    if (summand != TN_NONE) inner_add(&call->inputs[summand], inner->out[0].data, count);
    if (finish != NULL) finish(call->op, inner->out[0].data, count);
    inner_leave(inner, call);
    return TN_OK;
}

tn_status tn__inner_run_with(tn_kernel_call *call, uint32_t summand,
                             void (*finish)(const tn_op *op, float *elements, uint64_t count)) {
    inner_state *inner = call->state;
    pthread_mutex_lock(&inner->lock);
    tn_status status = inner_run(inner, call, summand, finish);
    pthread_mutex_unlock(&inner->lock);
    return status;
}

tn_status tn__inner_run(tn_kernel_call *call) { return tn__inner_run_with(call, TN_NONE, NULL); }
