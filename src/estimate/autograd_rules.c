/* autograd_rules.c - what PyTorch keeps of each operator for its gradient.
 * Source: PyTorch 1.13, tools/autograd/derivatives.yaml. */
#include "estimate/autograd.h"

static const autograd_rule autograd_rules[] = {
    {"Abs", AUTOGRAD_SAME, SAVES_0},
    {"Add", AUTOGRAD_ADD, SAVES_NOTHING},
    {"AveragePool", AUTOGRAD_COMPUTE, SAVES_0},
    {"BatchNormalization", AUTOGRAD_COMPUTE, SAVES_0 | SAVES_1},
    {"Cast", AUTOGRAD_SAME, SAVES_NOTHING},
    {"Clip", AUTOGRAD_SAME, SAVES_0},
    {"Concat", AUTOGRAD_CONCAT, SAVES_NOTHING},
    {"Conv", AUTOGRAD_CONV, SAVES_0 | SAVES_1},
    {"ConvTranspose", AUTOGRAD_CONV, SAVES_0 | SAVES_1},
    {"DepthToSpace", AUTOGRAD_COMPUTE, SAVES_NOTHING},
    {"Div", AUTOGRAD_PRODUCT, SAVES_0 | SAVES_1},
    {"Dropout", AUTOGRAD_SAME, SAVES_MASK},
    {"Elu", AUTOGRAD_SAME, SAVES_OUTPUT},
    {"Erf", AUTOGRAD_SAME, SAVES_0},
    {"Exp", AUTOGRAD_SAME, SAVES_OUTPUT},
    {"Expand", AUTOGRAD_PART, SAVES_NOTHING},
    {"Flatten", AUTOGRAD_VIEW, SAVES_NOTHING},
    {"Gather", AUTOGRAD_GATHER, SAVES_1},
    {"Gelu", AUTOGRAD_SAME, SAVES_0},
    {"Gemm", AUTOGRAD_COMPUTE, SAVES_0 | SAVES_1},
    {"GlobalAveragePool", AUTOGRAD_COMPUTE, SAVES_NOTHING},
    {"GroupNormalization", AUTOGRAD_COMPUTE, SAVES_0 | SAVES_1},
    {"HardSigmoid", AUTOGRAD_SAME, SAVES_0},
    {"HardSwish", AUTOGRAD_SAME, SAVES_0},
    {"Identity", AUTOGRAD_VIEW, SAVES_NOTHING},
    {"InstanceNormalization", AUTOGRAD_COMPUTE, SAVES_0 | SAVES_1},
    {"LSTM", AUTOGRAD_LSTM, SAVES_0 | SAVES_1},
    {"LayerNormalization", AUTOGRAD_COMPUTE, SAVES_0 | SAVES_1},
    {"LeakyRelu", AUTOGRAD_SAME, SAVES_0},
    {"Log", AUTOGRAD_SAME, SAVES_0},
    {"LogSoftmax", AUTOGRAD_COMPUTE, SAVES_OUTPUT},
    {"MatMul", AUTOGRAD_MATMUL, SAVES_0 | SAVES_1},
    {"MaxPool", AUTOGRAD_COMPUTE, SAVES_0 | SAVES_INDICES},
    {"Mul", AUTOGRAD_PRODUCT, SAVES_0 | SAVES_1},
    {"Neg", AUTOGRAD_SAME, SAVES_NOTHING},
    {"PRelu", AUTOGRAD_SAME, SAVES_0 | SAVES_1},
    {"Pad", AUTOGRAD_COMPUTE, SAVES_NOTHING},
    {"Pow", AUTOGRAD_SAME, SAVES_0},
    {"ReduceMean", AUTOGRAD_COMPUTE, SAVES_NOTHING},
    {"ReduceSum", AUTOGRAD_COMPUTE, SAVES_NOTHING},
    {"Relu", AUTOGRAD_SAME, SAVES_OUTPUT},
    {"Reshape", AUTOGRAD_VIEW, SAVES_NOTHING},
    {"Resize", AUTOGRAD_COMPUTE, SAVES_NOTHING},
    {"Selu", AUTOGRAD_SAME, SAVES_OUTPUT},
    {"Sigmoid", AUTOGRAD_SAME, SAVES_OUTPUT},
    {"Slice", AUTOGRAD_PART, SAVES_NOTHING},
    {"Softmax", AUTOGRAD_COMPUTE, SAVES_OUTPUT},
    {"Softplus", AUTOGRAD_SAME, SAVES_0},
    {"SpaceToDepth", AUTOGRAD_COMPUTE, SAVES_NOTHING},
    {"Split", AUTOGRAD_PART, SAVES_NOTHING},
    {"Sqrt", AUTOGRAD_SAME, SAVES_OUTPUT},
    {"Squeeze", AUTOGRAD_VIEW, SAVES_NOTHING},
    {"Sub", AUTOGRAD_ADD, SAVES_NOTHING},
    {"Tanh", AUTOGRAD_SAME, SAVES_OUTPUT},
    {"Transpose", AUTOGRAD_VIEW, SAVES_NOTHING},
    {"Unsqueeze", AUTOGRAD_VIEW, SAVES_NOTHING},
    {"Where", AUTOGRAD_SAME, SAVES_0},
};

static const autograd_rule autograd_nothing = {"Identity", AUTOGRAD_VIEW, SAVES_NOTHING};

/* A dropout that drops nothing: PyTorch hands its input on. */
static bool autograd_drops(const tn_graph *graph, const tn_op *op) {
    if (op->input_count > 1 && op->inputs[1] != TN_NONE) {
        const tn_value *ratio = tn_graph_tensor(graph, op->inputs[1])->value;
        return ratio == NULL || ratio->count != 1 || ratio->floats == NULL || ratio->floats[0] != 0;
    }
    for (uint32_t i = 0; i < op->attr_count; i++)
        if (strcmp(op->attrs[i].name, "ratio") == 0 && op->attrs[i].floats != NULL)
            return op->attrs[i].floats[0] != 0;
    return true;
}

/* Inputs that an operator cannot be without. */
static uint32_t autograd_needs(autograd_how how) {
    bool two = how == AUTOGRAD_CONV || how == AUTOGRAD_MATMUL || how == AUTOGRAD_GATHER;
    return how == AUTOGRAD_LSTM ? 3 : two ? 2 : 1;
}

const autograd_rule *tn__autograd_find(const tn__autograd *it, const tn_op *op) {
    if (op->domain[0] != '\0' || op->output_count == 0) return NULL;
    for (size_t i = 0; i < sizeof autograd_rules / sizeof *autograd_rules; i++) {
        if (strcmp(autograd_rules[i].type, op->type) != 0) continue;
        for (uint32_t k = 0; k < autograd_needs(autograd_rules[i].how); k++)
            if (k >= op->input_count || op->inputs[k] == TN_NONE) return NULL;
        bool drops = !(autograd_rules[i].saves & SAVES_MASK) || autograd_drops(it->model, op);
        return drops ? &autograd_rules[i] : &autograd_nothing;
    }
    return NULL;
}
