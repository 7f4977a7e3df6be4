/* autograd.c - a training step as eager PyTorch runs it, as a Graph for the same machinery.
 *
 * Nothing works in place but the summing of gradients, every tensor is released after its last use,
 * and what an operator's backward function saved in the forward pass is an operand of its backward
 * operator, so that lifetimes follow by themselves. Which operands those are is the table below,
 * from PyTorch's derivatives.yaml. Gradients of parameters are outputs: they stay to the end.
 *
 *     x ──▶ Conv ──▶ Relu ──▶ ... loss           saved:  Conv: x, weights    Relu: its output
 *            ▲ x       ▲ y                                Add, Flatten: nothing
 *     gx ◀── ConvBackward ◀── ReluBackward ◀── g
 *
 * On the CPU convolutions go through oneDNN, which works in blocked formats: input, weights and
 * output are copied into those, and back. Those copies are PyTorch allocations and count as
 * workspace here: forward max(x + w, y), backward x + gy. Blocked formats round channels up to 16;
 * an input of fewer channels is read as it is. Cost: O(operands). Source: PyTorch 1.13,
 * tools/autograd/derivatives.yaml, and its allocations as the profiler shows them.
 */
#include <stdio.h>

#include <tenure/estimate.h>

#include "base/base.h"

#define AUTOGRAD_CHANNELS 16u /* of a block */

typedef enum autograd_how {
    AUTOGRAD_COMPUTE, /* gradients of the inputs are new */
    AUTOGRAD_ALIAS,   /* the gradient of the output is that of the inputs */
    AUTOGRAD_NARROW,  /* each input's is a view of a part of it */
    AUTOGRAD_PRODUCT, /* Mul, Div: needs the other input for each, and sums where it was broadcast
                       */
    AUTOGRAD_CONV
} autograd_how;

enum { SAVES_NOTHING = 0, SAVES_0 = 1, SAVES_1 = 2, SAVES_OUTPUT = 4, SAVES_INDICES = 8 };

typedef struct autograd_rule {
    const char *type;
    autograd_how how;
    uint32_t saves;
} autograd_rule;

static const autograd_rule autograd_rules[] = {
    {"Add", AUTOGRAD_ALIAS, SAVES_NOTHING},
    {"AveragePool", AUTOGRAD_COMPUTE, SAVES_0},
    {"BatchNormalization", AUTOGRAD_COMPUTE, SAVES_0 | SAVES_1},
    {"Clip", AUTOGRAD_COMPUTE, SAVES_0},
    {"Concat", AUTOGRAD_NARROW, SAVES_NOTHING},
    {"Conv", AUTOGRAD_CONV, SAVES_0 | SAVES_1},
    {"ConvTranspose", AUTOGRAD_CONV, SAVES_0 | SAVES_1},
    {"Dropout", AUTOGRAD_ALIAS, SAVES_NOTHING}, /* as exported for inference */
    {"Elu", AUTOGRAD_COMPUTE, SAVES_OUTPUT},
    {"Exp", AUTOGRAD_COMPUTE, SAVES_OUTPUT},
    {"Flatten", AUTOGRAD_ALIAS, SAVES_NOTHING},
    {"Gelu", AUTOGRAD_COMPUTE, SAVES_0},
    {"Gemm", AUTOGRAD_COMPUTE, SAVES_0 | SAVES_1},
    {"GlobalAveragePool", AUTOGRAD_COMPUTE, SAVES_NOTHING},
    {"HardSigmoid", AUTOGRAD_COMPUTE, SAVES_0},
    {"HardSwish", AUTOGRAD_COMPUTE, SAVES_0},
    {"Identity", AUTOGRAD_ALIAS, SAVES_NOTHING},
    {"LeakyRelu", AUTOGRAD_COMPUTE, SAVES_0},
    {"LogSoftmax", AUTOGRAD_COMPUTE, SAVES_OUTPUT},
    {"MatMul", AUTOGRAD_COMPUTE, SAVES_0 | SAVES_1},
    {"MaxPool", AUTOGRAD_COMPUTE, SAVES_0 | SAVES_INDICES},
    {"Mul", AUTOGRAD_PRODUCT, SAVES_0 | SAVES_1},
    {"Pad", AUTOGRAD_COMPUTE, SAVES_NOTHING},
    {"ReduceMean", AUTOGRAD_COMPUTE, SAVES_NOTHING},
    {"Relu", AUTOGRAD_COMPUTE, SAVES_OUTPUT},
    {"Reshape", AUTOGRAD_ALIAS, SAVES_NOTHING},
    {"Sigmoid", AUTOGRAD_COMPUTE, SAVES_OUTPUT},
    {"Softmax", AUTOGRAD_COMPUTE, SAVES_OUTPUT},
    {"Sqrt", AUTOGRAD_COMPUTE, SAVES_OUTPUT},
    {"Squeeze", AUTOGRAD_ALIAS, SAVES_NOTHING},
    {"Tanh", AUTOGRAD_COMPUTE, SAVES_OUTPUT},
    {"Unsqueeze", AUTOGRAD_ALIAS, SAVES_NOTHING},
};

typedef struct autograd {
    tn_context context;
    const tn_graph *model;
    const tn_autograd_options *options;
    tn_error *error;
    tn__arena arena;
    tn_graph *graph;
    uint32_t tensors, ops; /* of the model */
    bool *wanted;          /* [tensors] a gradient flows to it */
    tn_tensor_id *given;   /* [tensors] its gradient so far; TN_NONE */
    bool *narrow;          /* [tensors] that gradient is a view of a part */
    tn_tensor_id *indices; /* [ops] of a MaxPool */
    uint64_t *workspaces;  /* of the new graph, grown */
    size_t workspace_room;
    tn_tensor_id loss, rate, step;
} autograd;

static const tn_tensor *autograd_tensor(const autograd *it, tn_tensor_id id) {
    return tn_graph_tensor(it->model, id);
}

static const autograd_rule *autograd_find(const char *type) {
    for (size_t i = 0; i < sizeof autograd_rules / sizeof *autograd_rules; i++)
        if (strcmp(autograd_rules[i].type, type) == 0) return &autograd_rules[i];
    return NULL;
}

/* --- adding --- */

static tn_status autograd_add(autograd *it, const tn_op_spec *spec, uint64_t workspace) {
    tn_op_id id;
    TN_TRY(tn_graph_add_op(it->graph, spec, &id, it->error));
    if (!tn__reserve(&it->context, &it->workspaces, &it->workspace_room, (size_t)id + 1,
                     sizeof *it->workspaces))
        return tn__no_memory(it->error, "workspaces");
    it->workspaces[id] = workspace;
    return TN_OK;
}

/* A tensor with the shape of one of the model. */
static tn_status autograd_like(autograd *it, tn_tensor_id like, tn_dtype dtype, tn_kind kind,
                               const char *prefix, tn_tensor_id *id) {
    const tn_tensor *tensor = autograd_tensor(it, like);
    char name[200];
    snprintf(name, sizeof name, "%s.%.150s", prefix, tensor->name);
    tn_tensor_spec spec = {.name = name,
                           .dtype = dtype,
                           .kind = kind,
                           .flags = TN_TENSOR_STATED,
                           .rank = tensor->rank,
                           .shape = tensor->shape};
    return tn_graph_add_tensor(it->graph, &spec, id, it->error);
}

static tn_status autograd_gradient(autograd *it, tn_tensor_id of, tn_tensor_id *id) {
    return autograd_like(it, of, autograd_tensor(it, of)->dtype, TN_KIND_GRADIENT, "grad", id);
}

/* Adds to the gradient of `of`: in place, but not where it is a view of a part. */
static tn_status autograd_give(autograd *it, tn_tensor_id of, tn_tensor_id gradient, bool narrow) {
    if (it->given[of] == TN_NONE) {
        it->given[of] = gradient;
        it->narrow[of] = narrow;
        return TN_OK;
    }
    tn_tensor_id sum, both[] = {it->given[of], gradient};
    TN_TRY(autograd_gradient(it, of, &sum));
    tn_op_spec spec = {.name = "accumulate",
                       .type = it->narrow[of] ? "add.Tensor" : "add_.Tensor",
                       .domain = "aten",
                       .inputs = both,
                       .outputs = &sum,
                       .input_count = 2,
                       .output_count = 1};
    it->given[of] = sum;
    it->narrow[of] = false;
    return autograd_add(it, &spec, 0);
}

/* --- forward --- */

static tn_status autograd_copy_tensors(autograd *it) {
    for (tn_tensor_id t = 0; t < it->tensors; t++) {
        const tn_tensor *tensor = autograd_tensor(it, t);
        tn_tensor_id made;
        bool leaf = tensor->producer == TN_NONE;
        tn_tensor_spec spec = {.name = tensor->name,
                               .dtype = tensor->dtype,
                               .kind = tensor->kind,
                               .format = tensor->format,
                               .flags = leaf ? 0 : TN_TENSOR_STATED,
                               .rank = tensor->rank,
                               .shape = tensor->shape};
        if (leaf && tensor->value != NULL) spec.value = *tensor->value;
        if (tensor->kind == TN_KIND_PARAMETER && tn_dtype_bits(tensor->dtype) >= 16 && leaf)
            spec.flags |= TN_TENSOR_UPDATED;
        TN_TRY(tn_graph_add_tensor(it->graph, &spec, &made, it->error));
    }
    return TN_OK;
}

static bool autograd_is_float(tn_dtype dtype) {
    return dtype == TN_FLOAT32 || dtype == TN_FLOAT64 || dtype == TN_FLOAT16 ||
           dtype == TN_BFLOAT16;
}

/* Bytes in a blocked format: channels, dimension 1, rounded up. */
static uint64_t autograd_blocked(const tn_tensor *tensor, bool both) {
    uint64_t bytes = tensor->bytes;
    for (uint32_t d = both ? 0 : 1; d < 2 && d < tensor->rank && bytes != TN_SIZE_UNKNOWN; d++) {
        uint64_t extent = (uint64_t)tensor->shape[d], round = AUTOGRAD_CHANNELS;
        if (extent > 0) bytes = tn__mul_sat(bytes / extent, (extent + round - 1) / round * round);
    }
    return bytes;
}

typedef struct autograd_copies { /* of a convolution's operands in blocked formats */
    uint64_t x, w, y;
} autograd_copies;

static autograd_copies autograd_conv(const autograd *it, const tn_op *op) {
    const tn_tensor *x = autograd_tensor(it, op->inputs[0]),
                    *w = autograd_tensor(it, op->inputs[1]);
    const tn_tensor *y = autograd_tensor(it, op->outputs[0]);
    bool few = x->rank > 1 && x->shape[1] < (int64_t)AUTOGRAD_CHANNELS;
    bool depthwise = w->rank > 1 && w->shape[1] == 1;
    return (autograd_copies){.x = few ? 0 : autograd_blocked(x, false),
                             .w = depthwise ? w->bytes : autograd_blocked(w, !few),
                             .y = autograd_blocked(y, false)};
}

static tn_status autograd_forward(autograd *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->model, id);
    const autograd_rule *rule = autograd_find(op->type);
    tn_tensor_id outputs[2] = {op->output_count > 0 ? op->outputs[0] : TN_NONE, TN_NONE};
    tn_op_spec spec = {.name = op->name,
                       .type = op->type,
                       .domain = op->domain,
                       .version = op->version,
                       .inputs = op->inputs,
                       .outputs = op->outputs,
                       .attrs = op->attrs,
                       .input_count = op->input_count,
                       .output_count = op->output_count,
                       .attr_count = op->attr_count};
    uint64_t workspace = 0;
    bool flows = op->output_count > 0 && op->outputs[0] != TN_NONE && it->wanted[op->outputs[0]];
    if (flows && rule != NULL && (rule->saves & SAVES_INDICES) && op->output_count == 1) {
        TN_TRY(autograd_like(it, outputs[0], TN_INT64, TN_KIND_ACTIVATION, "indices", &outputs[1]));
        it->indices[id] = outputs[1];
        spec.outputs = outputs;
        spec.output_count = 2;
    }
    if (rule != NULL && rule->how == AUTOGRAD_CONV) {
        autograd_copies copies = autograd_conv(it, op);
        workspace = tn__add_sat(copies.x, copies.w);
        if (copies.y > workspace) workspace = copies.y;
    }
    return autograd_add(it, &spec, workspace);
}

static void autograd_want(autograd *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    for (tn_tensor_id t = 0; t < it->tensors; t++) {
        const tn_tensor *tensor = autograd_tensor(it, t);
        it->wanted[t] = tensor->kind == TN_KIND_PARAMETER && tensor->producer == TN_NONE &&
                        autograd_is_float(tensor->dtype) && tensor->rank > 0;
    }
    for (uint32_t i = 0; i < block->op_count; i++) {
        const tn_op *op = tn_graph_op(it->model, block->ops[i]);
        bool any = false, statistics = strcmp(op->type, "BatchNormalization") == 0;
        for (uint32_t k = 0; k < op->input_count; k++) {
            if (statistics && k >= 3 && op->inputs[k] != TN_NONE) it->wanted[op->inputs[k]] = false;
            any = any || (op->inputs[k] != TN_NONE && it->wanted[op->inputs[k]]);
        }
        for (uint32_t k = 0; k < op->output_count; k++)
            if (op->outputs[k] != TN_NONE)
                it->wanted[op->outputs[k]] =
                    any && autograd_is_float(autograd_tensor(it, op->outputs[k])->dtype);
    }
}

/* --- backward --- */

typedef struct autograd_call { /* a backward operator in the making */
    tn_tensor_id inputs[8], outputs[64];
    tn_tensor_id of[64]; /* whose gradients the outputs are */
    uint32_t input_count, output_count;
    uint64_t workspace;
} autograd_call;

static void autograd_save(autograd_call *call, tn_tensor_id id) {
    if (id != TN_NONE && call->input_count < 8) call->inputs[call->input_count++] = id;
}

static bool autograd_same_shape(const tn_tensor *a, const tn_tensor *b) {
    return a->bytes == b->bytes;
}

static tn_status autograd_alias(autograd *it, const tn_op *op, tn_tensor_id gradient) {
    const tn_tensor *y = autograd_tensor(it, op->outputs[0]);
    for (uint32_t k = 0; k < op->input_count; k++) {
        tn_tensor_id x = op->inputs[k], small;
        if (x == TN_NONE || !it->wanted[x]) continue;
        if (autograd_same_shape(autograd_tensor(it, x), y)) {
            TN_TRY(autograd_give(it, x, gradient, it->narrow[op->outputs[0]]));
            continue;
        }
        TN_TRY(autograd_gradient(it, x, &small)); /* was broadcast: summed */
        tn_op_spec spec = {.name = op->name,
                           .type = "SumBackward",
                           .domain = "pytorch",
                           .inputs = &gradient,
                           .outputs = &small,
                           .input_count = 1,
                           .output_count = 1};
        TN_TRY(autograd_add(it, &spec, 0));
        TN_TRY(autograd_give(it, x, small, false));
    }
    return TN_OK;
}

static tn_status autograd_narrow(autograd *it, const tn_op *op, tn_tensor_id gradient) {
    for (uint32_t k = 0; k < op->input_count; k++) {
        tn_tensor_id x = op->inputs[k], part;
        if (x == TN_NONE || !it->wanted[x]) continue;
        TN_TRY(autograd_gradient(it, x, &part));
        tn_op_spec spec = {.name = op->name,
                           .type = "slice.Tensor",
                           .domain = "aten",
                           .inputs = &gradient,
                           .outputs = &part,
                           .input_count = 1,
                           .output_count = 1};
        TN_TRY(autograd_add(it, &spec, 0));
        TN_TRY(autograd_give(it, x, part, true));
    }
    return TN_OK;
}

static void autograd_saved(const autograd *it, tn_op_id id, const tn_op *op,
                           const autograd_rule *rule, autograd_call *call) {
    bool product = rule->how == AUTOGRAD_PRODUCT;
    for (uint32_t k = 0; k < 2 && k < op->input_count; k++) {
        bool other =
            op->input_count > 1 && op->inputs[1 - k] != TN_NONE && it->wanted[op->inputs[1 - k]];
        if ((rule->saves & (k == 0 ? SAVES_0 : SAVES_1)) && (!product || other))
            autograd_save(call, op->inputs[k]);
    }
    if (rule->saves & SAVES_OUTPUT) autograd_save(call, op->outputs[0]);
    if (rule->saves & SAVES_INDICES) autograd_save(call, it->indices[id]);
}

static uint64_t autograd_scratch(const autograd *it, const tn_op *op, const autograd_rule *rule) {
    const tn_tensor *y = autograd_tensor(it, op->outputs[0]);
    uint64_t scratch = 0;
    if (rule->how == AUTOGRAD_CONV) {
        autograd_copies copies = autograd_conv(it, op);
        uint64_t w = autograd_tensor(it, op->inputs[1])->bytes; /* made after the copies are gone */
        scratch = tn__add_sat(copies.x, copies.y);
        if (copies.w > w) scratch = tn__add_sat(scratch, copies.w - w);
        if (it->narrow[op->outputs[0]]) scratch = tn__add_sat(scratch, y->bytes);
    }
    for (uint32_t k = 0; k < op->input_count && rule->how == AUTOGRAD_PRODUCT; k++)
        if (op->inputs[k] != TN_NONE && it->wanted[op->inputs[k]] &&
            !autograd_same_shape(autograd_tensor(it, op->inputs[k]), y))
            scratch = tn__add_sat(scratch, y->bytes);
    return scratch;
}

static tn_status autograd_compute(autograd *it, tn_op_id id, const tn_op *op,
                                  const autograd_rule *rule, tn_tensor_id gradient) {
    autograd_call call = {.inputs = {gradient}, .input_count = 1};
    char type[80];
    autograd_saved(it, id, op, rule, &call);
    for (uint32_t k = 0; k < op->input_count && call.output_count < 64; k++) {
        tn_tensor_id x = op->inputs[k];
        if (x == TN_NONE || !it->wanted[x]) continue;
        call.of[call.output_count] = x;
        TN_TRY(autograd_gradient(it, x, &call.outputs[call.output_count++]));
    }
    if (call.output_count == 0) return TN_OK;
    snprintf(type, sizeof type, "%.60sBackward", op->type);
    tn_op_spec spec = {.name = op->name,
                       .type = type,
                       .domain = "pytorch",
                       .inputs = call.inputs,
                       .outputs = call.outputs,
                       .input_count = call.input_count,
                       .output_count = call.output_count};
    TN_TRY(autograd_add(it, &spec, autograd_scratch(it, op, rule)));
    for (uint32_t k = 0; k < call.output_count; k++)
        TN_TRY(autograd_give(it, call.of[k], call.outputs[k], false));
    return TN_OK;
}

static tn_status autograd_backward(autograd *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->model, id);
    if (op->output_count == 0 || op->outputs[0] == TN_NONE) return TN_OK;
    tn_tensor_id gradient = it->given[op->outputs[0]];
    if (gradient == TN_NONE || !it->wanted[op->outputs[0]]) return TN_OK;
    const autograd_rule *rule = autograd_find(op->type);
    if (rule == NULL || op->domain[0] != '\0') {
        tn_status status =
            tn__fail(it->error, TN_E_UNSUPPORTED,
                     "what PyTorch keeps for the gradient of %.60s is not known here", op->type);
        return tn__where(it->error, status, "node '%.80s'", op->name);
    }
    if (rule->how == AUTOGRAD_ALIAS) return autograd_alias(it, op, gradient);
    if (rule->how == AUTOGRAD_NARROW) return autograd_narrow(it, op, gradient);
    return autograd_compute(it, id, op, rule, gradient);
}

/* Softmax cross-entropy of the first output: keeps the logarithms of the probabilities. */
static tn_status autograd_loss(autograd *it) {
    tn_tensor_id scores = tn_graph_block(it->model, 0)->outputs[0], logs, gradient;
    uint64_t bytes = autograd_tensor(it, scores)->bytes;
    tn_tensor_spec scalar = {.name = "loss", .dtype = TN_FLOAT32, .flags = TN_TENSOR_STATED};
    TN_TRY(autograd_like(it, scores, autograd_tensor(it, scores)->dtype, TN_KIND_ACTIVATION, "logs",
                         &logs));
    TN_TRY(tn_graph_add_tensor(it->graph, &scalar, &it->loss, it->error));
    TN_TRY(autograd_gradient(it, scores, &gradient));
    tn_tensor_id made[] = {it->loss, logs}, kept[] = {logs, it->loss};
    tn_op_spec forward = {.name = "loss",
                          .type = "CrossEntropy",
                          .domain = "pytorch",
                          .inputs = &scores,
                          .outputs = made,
                          .input_count = 1,
                          .output_count = 2};
    tn_op_spec backward = {.name = "loss",
                           .type = "CrossEntropyBackward",
                           .domain = "pytorch",
                           .inputs = kept,
                           .outputs = &gradient,
                           .input_count = 2,
                           .output_count = 1};
    TN_TRY(autograd_add(it, &forward, 0));
    TN_TRY(autograd_add(it, &backward, bytes));
    return autograd_give(it, scores, gradient, false);
}

/* --- update --- */

static tn_status autograd_update(autograd *it, tn_tensor_id parameter) {
    static const char *const types[] = {"SgdStep", "MomentumStep", "AdamStep"};
    uint32_t states = it->options->state_count, count = 0, made = 0;
    tn_tensor_id inputs[6], outputs[3];
    inputs[count++] = parameter;
    inputs[count++] = it->given[parameter];
    for (uint32_t k = 0; k < states; k++) {
        TN_TRY(autograd_like(it, parameter, autograd_tensor(it, parameter)->dtype,
                             TN_KIND_OPTIMIZER_STATE, k == 0 ? "first" : "second", &inputs[count]));
        count++;
    }
    inputs[count++] = it->rate;
    if (states == 2) inputs[count++] = it->step;
    for (uint32_t k = 0; k <= states; k++)
        TN_TRY(autograd_like(it, parameter, autograd_tensor(it, parameter)->dtype,
                             TN_KIND_ACTIVATION, "updated", &outputs[made++]));
    tn_op_spec spec = {.name = autograd_tensor(it, parameter)->name,
                       .type = types[states],
                       .domain = "tenure",
                       .inputs = inputs,
                       .outputs = outputs,
                       .input_count = count,
                       .output_count = made};
    uint64_t bytes = autograd_tensor(it, parameter)->bytes;
    return autograd_add(it, &spec, tn__mul_sat(bytes, it->options->scratch_count));
}

static tn_status autograd_finish(autograd *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    size_t room = 2 * (size_t)it->tensors + 4, inputs = 0, outputs;
    tn_tensor_id *list = tn__arena_array(&it->arena, 2 * room, sizeof *list);
    tn_tensor_spec rate = {.name = "learning_rate", .dtype = TN_FLOAT32};
    tn_tensor_spec step = {.name = "step", .dtype = TN_INT64};
    if (list == NULL) return tn__no_memory(it->error, "outputs");
    TN_TRY(tn_graph_add_tensor(it->graph, &rate, &it->rate, it->error));
    TN_TRY(tn_graph_add_tensor(it->graph, &step, &it->step, it->error));
    for (uint32_t i = 0; i < block->input_count; i++)
        if (!tn_tensor_is_static(autograd_tensor(it, block->inputs[i])))
            list[inputs++] = block->inputs[i];
    size_t data = inputs; /* the caller keeps them: they are outputs as well */
    list[inputs++] = it->rate;
    list[inputs++] = it->step;
    outputs = inputs;
    for (size_t i = 0; i < data; i++) list[outputs++] = list[i];
    for (uint32_t i = 0; i < block->output_count; i++) list[outputs++] = block->outputs[i];
    list[outputs++] = it->loss;
    for (tn_tensor_id t = 0; t < it->tensors; t++) {
        if (autograd_tensor(it, t)->producer != TN_NONE || it->given[t] == TN_NONE ||
            !it->wanted[t])
            continue;
        list[outputs++] = it->given[t];
        if (it->options->state_count <= 2) TN_TRY(autograd_update(it, t));
    }
    TN_TRY(tn_graph_set_block_io(it->graph, 0, list, (uint32_t)inputs, list + inputs,
                                 (uint32_t)(outputs - inputs), it->error));
    return tn_graph_infer(it->graph, it->error);
}

/* --- all of it --- */

static tn_status autograd_make(autograd *it) {
    const tn_block *block = tn_graph_block(it->model, 0);
    size_t tensors = (size_t)it->tensors + 1;
    if (tn_graph_block_count(it->model) > 1)
        TN_FAIL(it->error, TN_E_UNSUPPORTED, "a model with If, Loop or Scan is not followed");
    if (block->output_count == 0) TN_FAIL(it->error, TN_E_INVALID, "the model has no output");
    it->wanted = tn__arena_array(&it->arena, tensors, sizeof *it->wanted);
    it->narrow = tn__arena_array(&it->arena, tensors, sizeof *it->narrow);
    it->given = tn__arena_array(&it->arena, tensors, sizeof *it->given);
    it->indices = tn__arena_array(&it->arena, (size_t)it->ops + 1, sizeof *it->indices);
    if (it->wanted == NULL || it->narrow == NULL || it->given == NULL || it->indices == NULL)
        return tn__no_memory(it->error, "gradients");
    for (tn_tensor_id t = 0; t < it->tensors; t++) it->given[t] = TN_NONE;
    for (tn_op_id i = 0; i < it->ops; i++) it->indices[i] = TN_NONE;
    autograd_want(it);
    if (!it->wanted[block->outputs[0]])
        TN_FAIL(it->error, TN_E_INVALID, "the first output depends on no parameter");
    TN_TRY(tn_graph_create(&it->context, &it->graph, it->error));
    TN_TRY(autograd_copy_tensors(it));
    for (uint32_t i = 0; i < block->op_count; i++) TN_TRY(autograd_forward(it, block->ops[i]));
    TN_TRY(autograd_loss(it));
    for (uint32_t i = block->op_count; i-- > 0;) TN_TRY(autograd_backward(it, block->ops[i]));
    return autograd_finish(it);
}

tn_status tn_autograd_make(const tn_graph *graph, const tn_autograd_options *options,
                           tn_autograd *made, tn_error *error) {
    tn_autograd_options asked = TN_AUTOGRAD_OPTIONS_INIT;
    if (options != NULL)
        memcpy(&asked, options,
               options->struct_size < sizeof asked ? options->struct_size : sizeof asked);
    autograd it = {.context = *tn_graph_context(graph),
                   .model = graph,
                   .options = &asked,
                   .error = error,
                   .tensors = tn_graph_tensor_count(graph),
                   .ops = tn_graph_op_count(graph)};
    if (asked.state_count > 2) TN_FAIL(error, TN_E_INVALID, "an optimizer keeps 0 to 2 tensors");
    tn__arena_init(&it.arena, &it.context);
    tn_status status = autograd_make(&it);
    tn__arena_release(&it.arena);
    if (status == TN_OK) {
        *made = (tn_autograd){
            .graph = it.graph, .workspaces = it.workspaces, .workspace_room = it.workspace_room};
        return TN_OK;
    }
    tn__free(&it.context, it.workspaces, it.workspace_room * sizeof *it.workspaces);
    tn_graph_destroy(it.graph);
    return status;
}

void tn_autograd_release(tn_autograd *made) {
    if (made == NULL || made->graph == NULL) return;
    tn_context context = *tn_graph_context(made->graph);
    tn__free(&context, made->workspaces, made->workspace_room * sizeof *made->workspaces);
    tn_graph_destroy(made->graph);
    *made = (tn_autograd){0};
}
