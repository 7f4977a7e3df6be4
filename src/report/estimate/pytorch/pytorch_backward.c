/* pytorch_backward.c - adds gradients to the training step in PyTorch's order: operators are
 * processed in reverse, each as soon as the gradient of its result is complete. The file also has
 * the table of the tensors that PyTorch saves for gradients. */
#include "report/estimate/pytorch/pytorch.h"
#include "graph/attr.h"

#include <stdio.h>

/* --- saved tensors ---------------------------------------------------------------------------- */

/* For each type of operator, the tensors that PyTorch saves for its gradient. Source: PyTorch 1.13,
 * tools/autograd/derivatives.yaml. */

static const pytorch_rule pytorch_rules[] = {
    {"Abs", PYTORCH_SAME, SAVES_0},
    {"Add", PYTORCH_ADD, SAVES_NOTHING},
    {"AveragePool", PYTORCH_COMPUTE, SAVES_0},
    {"BatchNormalization", PYTORCH_COMPUTE, SAVES_0 | SAVES_1},
    {"Cast", PYTORCH_SAME, SAVES_NOTHING},
    {"Clip", PYTORCH_SAME, SAVES_0},
    {"Concat", PYTORCH_CONCAT, SAVES_NOTHING},
    {"Conv", PYTORCH_CONV, SAVES_0 | SAVES_1},
    {"ConvTranspose", PYTORCH_CONV, SAVES_0 | SAVES_1},
    {"DepthToSpace", PYTORCH_COMPUTE, SAVES_NOTHING},
    {"Div", PYTORCH_PRODUCT, SAVES_0 | SAVES_1},
    {"Dropout", PYTORCH_SAME, SAVES_MASK},
    {"Elu", PYTORCH_SAME, SAVES_OUTPUT},
    {"Erf", PYTORCH_SAME, SAVES_0},
    {"Exp", PYTORCH_SAME, SAVES_OUTPUT},
    {"Expand", PYTORCH_PART, SAVES_NOTHING},
    {"Flatten", PYTORCH_VIEW, SAVES_NOTHING},
    {"Gather", PYTORCH_GATHER, SAVES_1},
    {"Gelu", PYTORCH_SAME, SAVES_0},
    {"Gemm", PYTORCH_COMPUTE, SAVES_0 | SAVES_1},
    {"GlobalAveragePool", PYTORCH_COMPUTE, SAVES_NOTHING},
    {"GroupNormalization", PYTORCH_COMPUTE, SAVES_0 | SAVES_1},
    {"HardSigmoid", PYTORCH_SAME, SAVES_0},
    {"HardSwish", PYTORCH_SAME, SAVES_0},
    {"Identity", PYTORCH_VIEW, SAVES_NOTHING},
    {"InstanceNormalization", PYTORCH_COMPUTE, SAVES_0 | SAVES_1},
    {"LSTM", PYTORCH_LSTM, SAVES_0 | SAVES_1},
    {"LayerNormalization", PYTORCH_COMPUTE, SAVES_0 | SAVES_1},
    {"LeakyRelu", PYTORCH_SAME, SAVES_0},
    {"Log", PYTORCH_SAME, SAVES_0},
    {"LogSoftmax", PYTORCH_COMPUTE, SAVES_OUTPUT},
    {"MatMul", PYTORCH_MATMUL, SAVES_0 | SAVES_1},
    {"MaxPool", PYTORCH_COMPUTE, SAVES_0 | SAVES_INDICES},
    {"Mul", PYTORCH_PRODUCT, SAVES_0 | SAVES_1},
    {"Neg", PYTORCH_SAME, SAVES_NOTHING},
    {"PRelu", PYTORCH_SAME, SAVES_0 | SAVES_1},
    {"Pad", PYTORCH_COMPUTE, SAVES_NOTHING},
    {"Pow", PYTORCH_SAME, SAVES_0},
    {"ReduceMean", PYTORCH_COMPUTE, SAVES_NOTHING},
    {"ReduceSum", PYTORCH_COMPUTE, SAVES_NOTHING},
    {"Relu", PYTORCH_SAME, SAVES_OUTPUT},
    {"Reshape", PYTORCH_VIEW, SAVES_NOTHING},
    {"Resize", PYTORCH_COMPUTE, SAVES_NOTHING},
    {"Selu", PYTORCH_SAME, SAVES_OUTPUT},
    {"Sigmoid", PYTORCH_SAME, SAVES_OUTPUT},
    {"Slice", PYTORCH_SLICE, SAVES_NOTHING},
    {"Softmax", PYTORCH_COMPUTE, SAVES_OUTPUT},
    {"Softplus", PYTORCH_SAME, SAVES_0},
    {"SpaceToDepth", PYTORCH_COMPUTE, SAVES_NOTHING},
    {"Split", PYTORCH_PART, SAVES_NOTHING},
    {"Sqrt", PYTORCH_SAME, SAVES_OUTPUT},
    {"Squeeze", PYTORCH_VIEW, SAVES_NOTHING},
    {"Sub", PYTORCH_ADD, SAVES_NOTHING},
    {"Tanh", PYTORCH_SAME, SAVES_OUTPUT},
    {"Transpose", PYTORCH_TURN, SAVES_NOTHING},
    {"Unsqueeze", PYTORCH_VIEW, SAVES_NOTHING},
    {"Where", PYTORCH_SAME, SAVES_0},
};

static const pytorch_rule pytorch_nothing = {"Identity", PYTORCH_VIEW, SAVES_NOTHING};

/* Returns whether a Dropout can change its input. With probability 0, PyTorch returns the input
 * itself. */
static bool pytorch_drops(const tn_graph *graph, const tn_op *op) {
    if (op->input_count > 1 && op->inputs[1] != TN_NONE) {
        const tn_value *ratio = tn_graph_tensor(graph, op->inputs[1])->value;
        return ratio == NULL || ratio->count != 1 || ratio->floats == NULL || ratio->floats[0] != 0;
    }
    return tn__attr_float(op, "ratio", 0.5) != 0;
}

/* Returns the number of inputs that an operator of this kind must have. */
static uint32_t pytorch_needs(pytorch_how how) {
    bool two = how == PYTORCH_CONV || how == PYTORCH_MATMUL || how == PYTORCH_GATHER;
    return how == PYTORCH_LSTM ? 3 : two ? 2 : 1;
}

const pytorch_rule *tn__pytorch_find(const tn__pytorch *it, const tn_op *op) {
    if (op->output_count == 0) return NULL;
    for (size_t i = 0; i < sizeof pytorch_rules / sizeof *pytorch_rules; i++) {
        if (!tn__op_is(op, pytorch_rules[i].type)) continue;
        for (uint32_t k = 0; k < pytorch_needs(pytorch_rules[i].how); k++)
            if (k >= op->input_count || op->inputs[k] == TN_NONE) return NULL;
        bool drops = !(pytorch_rules[i].saves & SAVES_MASK) || pytorch_drops(it->model, op);
        return drops ? &pytorch_rules[i] : &pytorch_nothing;
    }
    return NULL;
}

/* --- gradients -------------------------------------------------------------------------------- */

bool tn__pytorch_selects(const tn__pytorch *it, const tn_op *op) {
    const pytorch_rule *rule = tn__pytorch_find(it, op);
    if (rule == NULL || rule->how != PYTORCH_GATHER) return false;
    const tn_tensor *index = tn__pytorch_tensor(it, op->inputs[1]);
    uint64_t bits = tn_dtype_bits(index->dtype);
    return tn__pytorch_tensor(it, op->inputs[0])->kind != TN_KIND_PARAMETER && bits > 0 &&
           index->bytes == bits / 8;
}

/* --- sums --- */

/* Adds a tensor for the gradient of `of`. If `of` is a view of a whole parameter, the gradient has
 * the shape of the parameter. If it is a tensor that a pool pads, the gradient has the shape before
 * padding. */
tn_status tn__pytorch_gradient(tn__pytorch *it, tn_tensor_id of, tn_tensor_id *id) {
    tn_op_id by = tn__pytorch_tensor(it, of)->producer;
    if (by != TN_NONE && it->fused[by]) of = tn_graph_op(it->model, by)->inputs[0];
    tn_tensor_id base = it->place[of].id;
    if (base != TN_NONE && base < it->tensors &&
        tn__pytorch_tensor(it, base)->kind == TN_KIND_PARAMETER &&
        tn__pytorch_tensor(it, base)->bytes == tn__pytorch_tensor(it, of)->bytes)
        of = base;
    return tn__pytorch_like(it, of, tn__pytorch_tensor(it, of)->dtype, TN_KIND_GRADIENT, "grad",
                            id);
}

/* The sum is computed in place, unless the bytes of the gradient so far are shared with another
 * gradient or are a part of a tensor. */
tn_status tn__pytorch_give(tn__pytorch *it, tn_tensor_id of, pytorch_place gradient) {
    pytorch_place *so_far = &it->given[of];
    if (so_far->id == TN_NONE) {
        *so_far = gradient;
        it->holders[gradient.id]++;
        return TN_OK;
    }
    tn_tensor_id sum, both[] = {so_far->id, gradient.id};
    bool inplace = !so_far->part && it->holders[so_far->id] == 1;
    TN_TRY(tn__pytorch_gradient(it, of, &sum));
    TN_TRY(tn__pytorch_emit(it, "accumulate", inplace ? "add_.Tensor" : "add.Tensor", both, 2, &sum,
                            1, 0));
    it->holders[so_far->id]--;
    it->holders[sum] = 1;
    *so_far = (pytorch_place){.id = sum, .strides = inplace ? so_far->strides : NULL};
    return TN_OK;
}

/* --- operators --- */

typedef struct pytorch_call { /* a backward operator that is being built */
    tn_tensor_id inputs[8], outputs[16];
    tn_tensor_id of[16]; /* the tensors of the model to which the gradients in `outputs` belong */
    uint32_t input_count, output_count;
} pytorch_call;

static void pytorch_save(pytorch_call *call, tn_tensor_id id) {
    if (id != TN_NONE && call->input_count < 8) call->inputs[call->input_count++] = id;
}

static bool pytorch_wants(const tn__pytorch *it, const tn_op *op, uint32_t k) {
    return k < op->input_count && op->inputs[k] != TN_NONE && it->wanted[op->inputs[k]];
}

static tn_status pytorch_sum_to(tn__pytorch *it, const tn_op *op, tn_tensor_id x,
                                const pytorch_place *gradient) {
    tn_tensor_id small; /* gradient of the operand, which was broadcast */
    TN_TRY(tn__pytorch_gradient(it, x, &small));
    TN_TRY(tn__pytorch_emit(it, op->name, "SumBackward", &gradient->id, 1, &small, 1, 0));
    return tn__pytorch_give(it, x, (pytorch_place){.id = small});
}

static tn_status pytorch_backward_add(tn__pytorch *it, const tn_op *op, pytorch_place gradient) {
    const tn_tensor *y = tn__pytorch_tensor(it, op->outputs[0]);
    for (uint32_t k = 0; k < op->input_count; k++) {
        if (!pytorch_wants(it, op, k)) continue;
        if (tn__pytorch_tensor(it, op->inputs[k])->bytes == y->bytes)
            TN_TRY(tn__pytorch_give(it, op->inputs[k], gradient));
        else
            TN_TRY(pytorch_sum_to(it, op, op->inputs[k], &gradient));
    }
    return TN_OK;
}

static tn_status pytorch_backward_concat(tn__pytorch *it, const tn_op *op, pytorch_place gradient) {
    const tn_tensor *y = tn__pytorch_tensor(it, op->outputs[0]);
    for (uint32_t k = 0; k < op->input_count; k++) {
        tn_tensor_id x = op->inputs[k];
        pytorch_place part = gradient;
        if (!pytorch_wants(it, op, k)) continue;
        if (!tn__pytorch_part(it, y, tn__pytorch_tensor(it, x), &part))
            part = (pytorch_place){.id = gradient.id, .part = true};
        TN_TRY(tn__pytorch_give(it, x, part));
    }
    return TN_OK;
}

static tn_status pytorch_backward_view(tn__pytorch *it, const tn_op *op, const pytorch_rule *rule,
                                       pytorch_place gradient) {
    tn_tensor_id x = op->inputs[0], y = op->outputs[0];
    const tn_tensor *from = tn__pytorch_tensor(it, x), *to = tn__pytorch_tensor(it, y);
    if (!it->wanted[x]) return TN_OK;
    bool seen = rule->how == PYTORCH_TURN ? tn__pytorch_permute(it, op, true, &gradient)
                                          : tn__pytorch_regroup(it, to, from, &gradient);
    if (!seen) {
        gradient.part = true; /* a gradient that is marked as a part of a tensor is copied */
        TN_TRY(tn__pytorch_contiguous(it, x, TN_KIND_GRADIENT, &gradient));
    }
    return tn__pytorch_give(it, x, gradient);
}

/* Adds the gradient of a tensor that is read in parts: by a Split, or by Slice operators. PyTorch
 * joins the gradients of all outputs of a Split in one operator, and those of all Slices if the
 * tensor has no other readers. Otherwise each Slice makes a gradient of the whole tensor, which is
 * zero outside its part. */
static tn_status pytorch_backward_part(tn__pytorch *it, tn_op_id id, const tn_op *op,
                                       const pytorch_rule *rule) {
    tn_tensor_id x = op->inputs[0], whole;
    bool all = rule->how == PYTORCH_SLICE && it->slices[x] == it->readers[x];
    if (!it->wanted[x] || (all && it->slice_before[id] != TN_NONE))
        return TN_OK; /* The first Slice of a tensor adds the gradients of all its Slices. */
    size_t room = op->output_count + (all ? it->slices[x] : 0);
    tn_tensor_id *parts = tn__arena_array(&it->arena, room, sizeof *parts);
    uint32_t count = 0;
    if (parts == NULL) return tn__no_memory(it->error, "gradients");
    for (uint32_t k = 0; k < op->output_count && !all; k++)
        if (op->outputs[k] != TN_NONE && it->given[op->outputs[k]].id != TN_NONE)
            parts[count++] = it->given[op->outputs[k]].id;
    for (tn_op_id s = it->slice_last[x]; all && s != TN_NONE; s = it->slice_before[s]) {
        tn_tensor_id y = tn_graph_op(it->model, s)->outputs[0];
        if (y != TN_NONE && it->given[y].id != TN_NONE) parts[count++] = it->given[y].id;
    }
    if (count == 0) return TN_OK;
    /* a parameter whose parts the exporter reordered: PyTorch has one gradient for the parameter */
    bool joined = tn__pytorch_tensor(it, x)->kind == TN_KIND_PARAMETER;
    for (uint32_t i = 1; i < count; i++) joined = joined && parts[i] == parts[0];
    if (joined && all && count > 1)
        return tn__pytorch_give(it, x, (pytorch_place){.id = parts[0], .part = true});
    TN_TRY(tn__pytorch_gradient(it, x, &whole));
    TN_TRY(tn__pytorch_emit(it, op->name, "PartBackward", parts, count, &whole, 1, 0));
    return tn__pytorch_give(it, x, (pytorch_place){.id = whole});
}

static void pytorch_saved(const tn__pytorch *it, tn_op_id id, const tn_op *op,
                          const pytorch_rule *rule, pytorch_call *call) {
    bool product = rule->how == PYTORCH_PRODUCT;
    bool matrices = rule->how == PYTORCH_MATMUL || rule->how == PYTORCH_LSTM;
    /* an activation (SiLU, hard swish), which saves its argument */
    bool gated = tn__pytorch_gate(it, op) != TN_NONE;
    for (uint32_t k = 0; k < 2 && k < op->input_count; k++) {
        tn_tensor_id x = op->inputs[k];
        if (!(rule->saves & (k == 0 ? SAVES_0 : SAVES_1)) || x == TN_NONE) continue;
        if (product && !gated && !pytorch_wants(it, op, 1 - k)) continue;
        pytorch_save(call, matrices ? it->operands[2 * (size_t)id + k] : it->place[x].id);
    }
    if (rule->saves & SAVES_OUTPUT) pytorch_save(call, it->place[op->outputs[0]].id);
    pytorch_save(call, it->extra[id]);
}

/* Returns the scratch bytes of the backward operator of an LSTM. While it goes back through the
 * time steps, three gradients of the recurrent weights R exist at once: that of the step, the sum
 * so far, and the next sum. The gradients of x and of the weights W are computed after the steps.
 * By then the saved tensors of the steps (7 numbers per cell) have become the gradients of the
 * products, in pieces and joined (8 numbers per cell). */
static uint64_t pytorch_scratch_lstm(const tn__pytorch *it, const tn_op *op) {
    uint64_t steps = tn__pytorch_tensor(it, op->outputs[0])->bytes;
    uint64_t sums = tn__mul_sat(2, tn__pytorch_tensor(it, op->inputs[2])->bytes), later = 0;
    for (uint32_t k = 0; k < 2; k++)
        if (pytorch_wants(it, op, k))
            later = tn__add_sat(later, tn__pytorch_tensor(it, op->inputs[k])->bytes);
    uint64_t first = sums > later ? sums - later : 0;
    return first > steps ? first : steps;
}

static uint64_t pytorch_scratch(const tn__pytorch *it, const tn_op *op, const pytorch_rule *rule,
                                const pytorch_place *gradient) {
    const tn_tensor *y = tn__pytorch_tensor(it, op->outputs[0]);
    bool matrices = rule->how == PYTORCH_MATMUL;
    uint64_t scratch = 0;
    if (rule->how == PYTORCH_LSTM) return pytorch_scratch_lstm(it, op);
    if (rule->how == PYTORCH_CONV)
        scratch =
            tn__pytorch_conv_scratch(it, op, true, !gradient->part && gradient->strides != NULL);
    bool copied = rule->how == PYTORCH_CONV || rule->how == PYTORCH_COMPUTE;
    uint32_t front = y->rank != TN_RANK_UNKNOWN && y->rank > 2 ? y->rank - 2 : 0;
    if (copied ? gradient->strides != NULL : matrices && !tn__pytorch_collapses(y, gradient, front))
        scratch = tn__add_sat(scratch, y->bytes);
    for (uint32_t k = 0; k < op->input_count && rule->how == PYTORCH_PRODUCT; k++)
        if (pytorch_wants(it, op, k) && tn__pytorch_tensor(it, op->inputs[k])->bytes != y->bytes)
            scratch = tn__add_sat(scratch, y->bytes);
    return scratch;
}

static tn_status pytorch_backward_compute(tn__pytorch *it, tn_op_id id, const tn_op *op,
                                          const pytorch_rule *rule, pytorch_place gradient) {
    pytorch_call call = {.inputs = {gradient.id}, .input_count = 1};
    tn_tensor_id gate = tn__pytorch_gate(it, op);
    char type[80];
    pytorch_saved(it, id, op, rule, &call);
    for (uint32_t k = 0; k < op->input_count && call.output_count < 16; k++) {
        tn_tensor_id x = op->inputs[k];
        if (!pytorch_wants(it, op, k) || x == gate) continue;
        call.of[call.output_count] = x;
        TN_TRY(tn__pytorch_gradient(it, x, &call.outputs[call.output_count++]));
    }
    if (call.output_count == 0) return TN_OK;
    snprintf(type, sizeof type, "%.60sBackward", op->type);
    TN_TRY(tn__pytorch_emit(it, op->name, type, call.inputs, call.input_count, call.outputs,
                            call.output_count, pytorch_scratch(it, op, rule, &gradient)));
    bool same = rule->how == PYTORCH_SAME || rule->how == PYTORCH_PRODUCT;
    for (uint32_t k = 0; k < call.output_count; k++) {
        pytorch_place made = {.id = call.outputs[k]};
        if (same && !gradient.part &&
            tn__pytorch_tensor(it, call.of[k])->rank ==
                tn__pytorch_tensor(it, op->outputs[0])->rank &&
            tn__pytorch_tensor(it, call.of[k])->bytes ==
                tn__pytorch_tensor(it, op->outputs[0])->bytes)
            made.strides = gradient.strides;
        TN_TRY(tn__pytorch_give(it, call.of[k], made));
    }
    return TN_OK;
}

static tn_status pytorch_backward_one(tn__pytorch *it, tn_op_id id, const tn_op *op) {
    pytorch_place gradient = it->given[op->outputs[0]];
    const pytorch_rule *rule = tn__pytorch_find(it, op);
    if (rule == NULL) {
        tn_status status =
            tn__fail(it->error, TN_E_UNSUPPORTED,
                     "what PyTorch keeps for the gradient of %.60s is not known here", op->type);
        return tn__where(it->error, status, "node '%.80s'", op->name);
    }
    /* the padding of a pool: the gradient of the pool is already that of its unpadded operand */
    if (it->fused[id])
        return gradient.id != TN_NONE ? tn__pytorch_give(it, op->inputs[0], gradient) : TN_OK;
    if (rule->how == PYTORCH_PART || rule->how == PYTORCH_SLICE || tn__pytorch_selects(it, op))
        return pytorch_backward_part(it, id, op, rule);
    /* only other outputs of this operator have gradients, so there is nothing to add */
    if (gradient.id == TN_NONE) return TN_OK;
    switch (rule->how) {
    case PYTORCH_ADD:
        return pytorch_backward_add(it, op, gradient);
    case PYTORCH_CONCAT:
        return pytorch_backward_concat(it, op, gradient);
    case PYTORCH_VIEW:
    case PYTORCH_TURN:
        return pytorch_backward_view(it, op, rule, gradient);
    default:
        return pytorch_backward_compute(it, id, op, rule, gradient);
    }
}

tn_status tn__pytorch_backward(tn__pytorch *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->model, id);
    bool any = false;
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id y = op->outputs[k];
        any = any || (y != TN_NONE && it->wanted[y] && it->given[y].id != TN_NONE);
    }
    if (!any || op->outputs[0] == TN_NONE) return TN_OK;
    TN_TRY(pytorch_backward_one(it, id, op));
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id y = op->outputs[k];
        if (y != TN_NONE && it->given[y].id != TN_NONE) it->holders[it->given[y].id]--;
    }
    return TN_OK;
}
