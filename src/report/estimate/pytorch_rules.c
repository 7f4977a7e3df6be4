/* pytorch_rules.c - the table of tensors that PyTorch saves of each operator for its gradient.
 * Source: PyTorch 1.13, tools/autograd/derivatives.yaml. */
#include "report/estimate/pytorch.h"

#include "graph/attr.h"

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

/* A dropout with probability 0: PyTorch returns its input. */
static bool pytorch_drops(const tn_graph *graph, const tn_op *op) {
    if (op->input_count > 1 && op->inputs[1] != TN_NONE) {
        const tn_value *ratio = tn_graph_tensor(graph, op->inputs[1])->value;
        return ratio == NULL || ratio->count != 1 || ratio->floats == NULL || ratio->floats[0] != 0;
    }
    return tn__attr_float(op, "ratio", 0.5) != 0;
}

/* Inputs that an operator must have. */
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
