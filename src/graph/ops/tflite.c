/* tflite.c - TensorFlow Lite's operators, as .tflite files name them.
 *
 * Files state every shape, and the run time plans with it, so rules only fill what a file leaves
 * open. What counts is who may share memory, and what the operators do beside their outputs.
 *
 * Views: RESHAPE, SQUEEZE, EXPAND_DIMS and BITCAST copy their bytes; when both addresses are the
 * same their kernels copy nothing, or each byte onto itself. In place: operators whose reference
 * kernels read an element before they write the element of the same place, and nothing else; those
 * with types of another width, with windows or with rescaling by rows are left out.
 *
 * Folded are DEQUANTIZE and DENSIFY of constants alone: the run time computes those once. All other
 * operators run each time, also on constants, and their results are in the arena.
 *
 * Ordered: what writes variables, tables or random state, and custom operators, which may.
 * Source: the kernels' registrations (inplace_operator) and reference loops in tensorflow/lite and
 * tflite-micro.
 */
#include "graph/fold.h"
#include "graph/window.h"

/* A view of a constant is none: the copy runs, into the arena. */
static tn_view tflite_view(tn_infer *infer, uint32_t output) {
    const tn_tensor *from = tn__input(infer, 0);
    if (output || !from || tn_tensor_is_static(from)) return tn__no_view;
    return tn__view_input(infer, 0, 0);
}

static uint64_t tflite_inplace_pair(tn_infer *infer, uint32_t output) {
    const tn_tensor *to = tn__output(infer, output);
    uint64_t mask = 0;
    for (uint32_t i = 0; i < 2 && output == 0; i++) {
        const tn_tensor *from = tn__input(infer, i);
        if (from && to && from->dtype == to->dtype) mask |= UINT64_C(1) << i;
    }
    return tn__inplace_broadcast(infer, mask);
}

static uint64_t tflite_inplace_first(tn_infer *infer, uint32_t output) {
    const tn_tensor *from = tn__input(infer, 0), *to = tn__output(infer, output);
    return output == 0 && from && to && from->dtype == to->dtype;
}

/* --- operations, multiply-add = 2 ----------------------------------------------------------- */

static uint64_t tflite_flops_unknown(tn_infer *infer) {
    (void)infer;
    return TN_SIZE_UNKNOWN;
}

/* Every output element sums `weights / rows` products, rows being one extent of the weights. */
static uint64_t tflite_flops_rows(tn_infer *infer, uint32_t axis) {
    const tn_tensor *w = tn__input(infer, 1);
    uint64_t outputs = tn__elements(tn__output(infer, 0)), weights = tn__elements(w);
    if (!tn__shape_known(w) || axis >= w->rank || w->shape[axis] <= 0 || weights == TN_SIZE_UNKNOWN)
        return TN_SIZE_UNKNOWN;
    return tn__count_mul(outputs, 2 * (weights / (uint64_t)w->shape[axis]));
}
static uint64_t tflite_flops_first(tn_infer *infer) { return tflite_flops_rows(infer, 0); }
static uint64_t tflite_flops_depthwise(tn_infer *infer) { return tflite_flops_rows(infer, 3); }

/* clang-format off */
#define TFLITE(name) .type = #name, .inputs_max = UINT32_MAX, .outputs_max = UINT32_MAX
#define TFLITE_FIRST(name) .type = #name, .inputs_min = 1, .inputs_max = UINT32_MAX, \
    .outputs_max = UINT32_MAX, .flags = TN_RULE_RANDOM
#define TFLITE_EACH(name, cost) TFLITE_FIRST(name), .flops_per = cost, \
    .inplace_of = tflite_inplace_first
#define TFLITE_PAIR(name) .type = #name, .inputs_min = 2, .inputs_max = 2, .outputs_max = 1, \
    .flags = TN_RULE_RANDOM, .flops_per = 1, .inplace_of = tflite_inplace_pair
#define TFLITE_VIEW(name) TFLITE_FIRST(name), .view = tflite_view, .inplace = 1
#define TFLITE_EFFECT(name) TFLITE(name), .flags = TN_RULE_RANDOM | TN_RULE_ORDERED, \
    .flops = tflite_flops_unknown
static const tn_op_rule tflite_rules[] = {
    {TFLITE_EACH(ABS, 1)},
    {TFLITE_PAIR(ADD)},
    {TFLITE_EFFECT(ASSIGN_VARIABLE)},
    {TFLITE_EFFECT(BIDIRECTIONAL_SEQUENCE_LSTM)},
    {TFLITE_EFFECT(BIDIRECTIONAL_SEQUENCE_RNN)},
    {TFLITE_VIEW(BITCAST)},
    {TFLITE_EFFECT(CALL)},
    {TFLITE_EFFECT(CALL_ONCE)},
    {TFLITE_EACH(CEIL, 1)},
    {TFLITE_FIRST(CONV_2D), .flops = tflite_flops_first},
    {TFLITE_EACH(COS, 10)},
    {TFLITE(DENSIFY), .inputs_min = 1},
    {TFLITE_FIRST(DEPTHWISE_CONV_2D), .flops = tflite_flops_depthwise},
    {TFLITE(DEQUANTIZE), .inputs_min = 1, .flops_per = 2},
    {TFLITE_PAIR(DIV)},
    {TFLITE_EACH(ELU, 12)},
    {TFLITE_EACH(EXP, 10)},
    {TFLITE_VIEW(EXPAND_DIMS)},
    {TFLITE_EACH(FLOOR, 1)},
    {TFLITE_FIRST(FULLY_CONNECTED), .flops = tflite_flops_first},
    {TFLITE_EACH(HARD_SWISH, 5)},
    {TFLITE_EFFECT(HASHTABLE)},
    {TFLITE_EFFECT(HASHTABLE_FIND)},
    {TFLITE_EFFECT(HASHTABLE_IMPORT)},
    {TFLITE_EFFECT(HASHTABLE_SIZE)},
    {TFLITE_EFFECT(IF)},
    {TFLITE_EACH(LEAKY_RELU, 2)},
    {TFLITE_EACH(LOG, 10)},
    {TFLITE_EACH(LOGICAL_NOT, 1)},
    {TFLITE_EACH(LOGISTIC, 12)},
    {TFLITE_EFFECT(LSTM)},
    {TFLITE_PAIR(MUL)},
    {TFLITE_EFFECT(MULTINOMIAL)},
    {TFLITE_EACH(NEG, 1)},
    {TFLITE_EFFECT(RANDOM_STANDARD_NORMAL)},
    {TFLITE_EFFECT(RANDOM_UNIFORM)},
    {TFLITE_EFFECT(READ_VARIABLE)},
    {TFLITE_EACH(RELU, 1)},
    {TFLITE_EACH(RELU6, 1)},
    {TFLITE_EACH(RELU_0_TO_1, 1)},
    {TFLITE_EACH(RELU_N1_TO_1, 1)},
    {TFLITE_VIEW(RESHAPE)},
    {TFLITE_EFFECT(RNN)},
    {TFLITE_EACH(ROUND, 1)},
    {TFLITE_EACH(RSQRT, 10)},
    {TFLITE_EACH(SIN, 10)},
    {TFLITE_EACH(SOFTMAX, 12)},
    {TFLITE_EACH(SQRT, 10)},
    {TFLITE_EACH(SQUARE, 1)},
    {TFLITE_VIEW(SQUEEZE)},
    {TFLITE_EFFECT(STABLEHLO_COMPOSITE)},
    {TFLITE_EFFECT(STABLEHLO_RNG_BIT_GENERATOR)},
    {TFLITE_EFFECT(STABLEHLO_WHILE)},
    {TFLITE_PAIR(SUB)},
    {TFLITE_EFFECT(SVDF)},
    {TFLITE_EACH(TANH, 12)},
    {TFLITE_EFFECT(UNIDIRECTIONAL_SEQUENCE_LSTM)},
    {TFLITE_EFFECT(UNIDIRECTIONAL_SEQUENCE_RNN)},
    {TFLITE_EFFECT(VAR_HANDLE)},
    {TFLITE_EFFECT(WHILE)},
};
/* clang-format on */

static const tn_op_rule tflite_custom = {
    .type = "CUSTOM:*",
    .inputs_max = UINT32_MAX,
    .outputs_max = UINT32_MAX,
    .flops = tflite_flops_unknown,
    .flags = TN_RULE_RANDOM | TN_RULE_ORDERED,
};

static const tn_op_rule tflite_other = {
    .type = "*",
    .inputs_max = UINT32_MAX,
    .outputs_max = UINT32_MAX,
    .flops = tflite_flops_unknown,
    .flags = TN_RULE_RANDOM,
};

static const tn_op_rule *tflite_match(const char *type) {
    return strncmp(type, "CUSTOM:", 7) == 0 ? &tflite_custom : &tflite_other;
}

const tn_op_family tn__ops_tflite = {
    .name = "tflite",
    .domain = "tflite",
    .rules = tflite_rules,
    .rule_count = sizeof tflite_rules / sizeof *tflite_rules,
    .match = tflite_match,
};
