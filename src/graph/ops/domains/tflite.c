/* tflite.c - TensorFlow Lite's operators, as .tflite files name them.
 *
 * Files state every shape, and the run time plans with it, so the rules for shapes
 * (tflite_shapes.h) decide only if a changed input shape made those stale. The rules here decide
 * which tensors may share memory, and the side effects of operators.
 *
 * Views: RESHAPE, SQUEEZE, EXPAND_DIMS and BITCAST copy their bytes; if both addresses are the
 * same, their kernels copy nothing, or each byte onto itself. In place: operators with reference
 * kernels that read an element right before they write the element at the same place, and read no
 * others; operators with types of another width, with windows or with rescaling by rows are left
 * out.
 *
 * Only DEQUANTIZE and DENSIFY of constants are folded: the run time computes those once. All other
 * operators run each time, also on constants, and their results are in the arena.
 *
 * Ordered: operators that write variables, tables or random state, and custom operators, which may
 * do so.
 * Source: the kernels' registrations (inplace_operator) and reference loops in tensorflow/lite and
 * tflite-micro.
 */
#include "graph/rules/fold.h"
#include "graph/rules/tflite_shapes.h"
#include "graph/rules/window.h"
#include "graph/tiles/split.h"

/* The view that an operator's output is. If the source is a constant, the output is not a view,
 * because the operator copies the constant into the arena. */
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

/* --- numbers of operations; a multiply-add counts as 2 -------------------------------------- */

static uint64_t tflite_flops_unknown(tn_infer *infer) {
    (void)infer;
    return TN_SIZE_UNKNOWN;
}

/* Operations of a product: each output element sums `weights / rows` products, where `rows` is an
 * extent of the weights. */
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
    .inplace_of = tflite_inplace_first, .shape = tn__tflite_like_first
#define TFLITE_PAIR(name) .type = #name, .inputs_min = 2, .inputs_max = 2, .outputs_max = 1, \
    .flags = TN_RULE_RANDOM, .flops_per = 1, .inplace_of = tflite_inplace_pair, \
    .shape = tn__tflite_arithmetic
#define TFLITE_SHAPE(name, rule) TFLITE(name), .flags = TN_RULE_RANDOM, \
    .flops = tflite_flops_unknown, .shape = tn__tflite_##rule
#define TFLITE_VIEW(name) TFLITE_FIRST(name), .view = tflite_view, .inplace = 1
#define TFLITE_EFFECT(name) TFLITE(name), .flags = TN_RULE_RANDOM | TN_RULE_ORDERED, \
    .flops = tflite_flops_unknown
/* An operator with blocks. The run time may read the inputs of WHILE in every iteration, and early
 * versions write the inputs of IF back at its end. */
#define TFLITE_BLOCKS(name, more) TFLITE(name), .flops = tflite_flops_unknown, \
    .flags = TN_RULE_RANDOM | TN_RULE_ORDERED | TN_RULE_HOLDS | (more)
static const tn_op_rule tflite_rules[] = {
    {TFLITE_EACH(ABS, 1), .split = tn__split_first},
    {TFLITE_PAIR(ADD), .split = tn__split_each},
    {TFLITE_SHAPE(ADD_N, like_first)},
    {TFLITE_SHAPE(ARG_MAX, arg)},
    {TFLITE_SHAPE(ARG_MIN, arg)},
    {TFLITE_EFFECT(ASSIGN_VARIABLE)},
    {TFLITE_SHAPE(ATAN2, broadcast)},
    {TFLITE_SHAPE(AVERAGE_POOL_2D, pool), .split = tn__split_band, .part_form = TN__FORM_BAND},
    {TFLITE_SHAPE(BATCH_MATMUL, batch_matmul)},
    {TFLITE_SHAPE(BATCH_TO_SPACE_ND, batch_to_space)},
    {TFLITE_EFFECT(BIDIRECTIONAL_SEQUENCE_LSTM), .shape = tn__tflite_bidirectional},
    {TFLITE_EFFECT(BIDIRECTIONAL_SEQUENCE_RNN), .shape = tn__tflite_bidirectional},
    {TFLITE_VIEW(BITCAST)},
    {TFLITE_SHAPE(BITWISE_XOR, broadcast)},
    {TFLITE_SHAPE(BROADCAST_ARGS, broadcast_args)},
    {TFLITE_SHAPE(BROADCAST_TO, by_second)},
    {TFLITE_BLOCKS(CALL, TN_RULE_ONCE)},
    {TFLITE_BLOCKS(CALL_ONCE, TN_RULE_ONCE)},
    {TFLITE_SHAPE(CAST, cast), .split = tn__split_first},
    {TFLITE_EACH(CEIL, 1), .split = tn__split_first},
    {TFLITE_SHAPE(COMPLEX_ABS, like_first)},
    {TFLITE_SHAPE(CONCATENATION, concatenation), .split = tn__split_tflite_concat},
    {TFLITE_FIRST(CONV_2D), .flops = tflite_flops_first, .shape = tn__tflite_convolution, .split = tn__split_band, .part_form = TN__FORM_BAND},
    {TFLITE_SHAPE(CONV_3D, volume)},
    {TFLITE_SHAPE(CONV_3D_TRANSPOSE, by_first)},
    {TFLITE_EACH(COS, 10), .split = tn__split_first},
    {TFLITE_SHAPE(CUMSUM, like_first)},
    {TFLITE(DENSIFY), .inputs_min = 1, .shape = tn__tflite_like_first},
    {TFLITE_FIRST(DEPTHWISE_CONV_2D), .flops = tflite_flops_depthwise, .shape = tn__tflite_depthwise, .split = tn__split_band, .part_form = TN__FORM_BAND},
    {TFLITE_SHAPE(DEPTH_TO_SPACE, depth_to_space)},
    {TFLITE(DEQUANTIZE), .inputs_min = 1, .flops_per = 2, .shape = tn__tflite_like_first, .split = tn__split_first},
    {TFLITE_PAIR(DIV), .split = tn__split_each},
    {TFLITE_SHAPE(DYNAMIC_UPDATE_SLICE, like_first)},
    {TFLITE_EACH(ELU, 12), .split = tn__split_first},
    {TFLITE_SHAPE(EMBEDDING_LOOKUP, lookup)},
    {TFLITE_SHAPE(EQUAL, broadcast), .split = tn__split_each},
    {TFLITE_EACH(EXP, 10), .split = tn__split_first},
    {TFLITE_VIEW(EXPAND_DIMS), .shape = tn__tflite_expand_dims},
    {TFLITE_SHAPE(FAKE_QUANT, like_first)},
    {TFLITE_SHAPE(FILL, by_first)},
    {TFLITE_EACH(FLOOR, 1), .split = tn__split_first},
    {TFLITE_SHAPE(FLOOR_DIV, arithmetic), .split = tn__split_each},
    {TFLITE_SHAPE(FLOOR_MOD, broadcast), .split = tn__split_each},
    {TFLITE_FIRST(FULLY_CONNECTED), .flops = tflite_flops_first, .shape = tn__tflite_dense, .split = tn__split_tflite_rows},
    {TFLITE_SHAPE(GATHER, gather)},
    {TFLITE_SHAPE(GATHER_ND, gather_nd)},
    {TFLITE_SHAPE(GELU, like_first), .split = tn__split_first},
    {TFLITE_SHAPE(GREATER, broadcast), .split = tn__split_each},
    {TFLITE_SHAPE(GREATER_EQUAL, broadcast), .split = tn__split_each},
    {TFLITE_EACH(HARD_SWISH, 5), .split = tn__split_first},
    {TFLITE_EFFECT(HASHTABLE)},
    {TFLITE_EFFECT(HASHTABLE_FIND), .shape = tn__tflite_like_second},
    {TFLITE_EFFECT(HASHTABLE_IMPORT)},
    {TFLITE_EFFECT(HASHTABLE_SIZE), .shape = tn__tflite_scalar},
    {TFLITE_BLOCKS(IF, TN_RULE_ONCE)},
    {TFLITE_SHAPE(IMAG, like_first)},
    {TFLITE_SHAPE(L2_NORMALIZATION, like_first), .split = tn__split_tflite_rows},
    {TFLITE_SHAPE(L2_POOL_2D, pool), .split = tn__split_band, .part_form = TN__FORM_BAND},
    {TFLITE_EACH(LEAKY_RELU, 2), .split = tn__split_first},
    {TFLITE_SHAPE(LESS, broadcast), .split = tn__split_each},
    {TFLITE_SHAPE(LESS_EQUAL, broadcast), .split = tn__split_each},
    {TFLITE_SHAPE(LOCAL_RESPONSE_NORMALIZATION, like_first)},
    {TFLITE_EACH(LOG, 10), .split = tn__split_first},
    {TFLITE_SHAPE(LOGICAL_AND, broadcast), .split = tn__split_each},
    {TFLITE_EACH(LOGICAL_NOT, 1), .split = tn__split_first},
    {TFLITE_SHAPE(LOGICAL_OR, broadcast), .split = tn__split_each},
    {TFLITE_EACH(LOGISTIC, 12), .split = tn__split_first},
    {TFLITE_SHAPE(LOG_SOFTMAX, like_first), .split = tn__split_tflite_rows},
    {TFLITE_EFFECT(LSTM), .shape = tn__tflite_lstm},
    {TFLITE_SHAPE(MATRIX_DIAG, diagonal)},
    {TFLITE_SHAPE(MATRIX_SET_DIAG, like_first)},
    {TFLITE_SHAPE(MAXIMUM, broadcast), .split = tn__split_each},
    {TFLITE_SHAPE(MAX_POOL_2D, pool), .split = tn__split_band, .part_form = TN__FORM_BAND},
    {TFLITE_SHAPE(MEAN, reduce), .split = tn__split_tflite_reduce},
    {TFLITE_SHAPE(MINIMUM, broadcast), .split = tn__split_each},
    {TFLITE_SHAPE(MIRROR_PAD, pad)},
    {TFLITE_PAIR(MUL), .split = tn__split_each},
    {TFLITE_EFFECT(MULTINOMIAL)},
    {TFLITE_EACH(NEG, 1), .split = tn__split_first},
    {TFLITE_SHAPE(NON_MAX_SUPPRESSION_V4, suppression)},
    {TFLITE_SHAPE(NON_MAX_SUPPRESSION_V5, suppression)},
    {TFLITE_SHAPE(NOT_EQUAL, broadcast), .split = tn__split_each},
    {TFLITE_SHAPE(ONE_HOT, one_hot)},
    {TFLITE_SHAPE(PACK, pack)},
    {TFLITE_SHAPE(PAD, pad), .split = tn__split_tflite_pad, .part_form = TN__FORM_PAD},
    {TFLITE_SHAPE(PADV2, pad)},
    {TFLITE_SHAPE(POW, broadcast), .split = tn__split_each},
    {TFLITE_SHAPE(PRELU, like_first), .split = tn__split_each},
    {TFLITE_SHAPE(QUANTIZE, like_first), .split = tn__split_first},
    {TFLITE_EFFECT(RANDOM_STANDARD_NORMAL), .shape = tn__tflite_by_first},
    {TFLITE_EFFECT(RANDOM_UNIFORM), .shape = tn__tflite_by_first},
    {TFLITE_SHAPE(RANGE, range)},
    {TFLITE_SHAPE(RANK, rank)},
    {TFLITE_EFFECT(READ_VARIABLE)},
    {TFLITE_SHAPE(REAL, like_first)},
    {TFLITE_SHAPE(REDUCE_ALL, reduce), .split = tn__split_tflite_reduce},
    {TFLITE_SHAPE(REDUCE_ANY, reduce), .split = tn__split_tflite_reduce},
    {TFLITE_SHAPE(REDUCE_MAX, reduce), .split = tn__split_tflite_reduce},
    {TFLITE_SHAPE(REDUCE_MIN, reduce), .split = tn__split_tflite_reduce},
    {TFLITE_SHAPE(REDUCE_PROD, reduce), .split = tn__split_tflite_reduce},
    {TFLITE_EACH(RELU, 1), .split = tn__split_first},
    {TFLITE_EACH(RELU6, 1), .split = tn__split_first},
    {TFLITE_EACH(RELU_0_TO_1, 1), .split = tn__split_first},
    {TFLITE_EACH(RELU_N1_TO_1, 1), .split = tn__split_first},
    {TFLITE_VIEW(RESHAPE), .shape = tn__tflite_reshape},
    {TFLITE_SHAPE(RESIZE_BILINEAR, resize)},
    {TFLITE_SHAPE(RESIZE_NEAREST_NEIGHBOR, resize)},
    {TFLITE_SHAPE(REVERSE_SEQUENCE, like_first)},
    {TFLITE_SHAPE(REVERSE_V2, like_first)},
    {TFLITE_SHAPE(RIGHT_SHIFT, broadcast)},
    {TFLITE_EFFECT(RNN), .shape = tn__tflite_rnn},
    {TFLITE_EACH(ROUND, 1), .split = tn__split_first},
    {TFLITE_EACH(RSQRT, 10), .split = tn__split_first},
    {TFLITE_SHAPE(SCATTER_ND, by_third)},
    {TFLITE_SHAPE(SELECT, like_second)},
    {TFLITE_SHAPE(SELECT_V2, broadcast), .split = tn__split_each},
    {TFLITE_SHAPE(SHAPE, shape)},
    {TFLITE_SHAPE(SIGN, like_first), .split = tn__split_first},
    {TFLITE_EACH(SIN, 10), .split = tn__split_first},
    {TFLITE_SHAPE(SLICE, slice)},
    {TFLITE_EACH(SOFTMAX, 12), .split = tn__split_tflite_rows},
    {TFLITE_SHAPE(SPACE_TO_BATCH_ND, space_to_batch)},
    {TFLITE_SHAPE(SPACE_TO_DEPTH, space_to_depth)},
    {TFLITE_SHAPE(SPARSE_TO_DENSE, by_second)},
    {TFLITE_SHAPE(SPLIT, split)},
    {TFLITE_SHAPE(SPLIT_V, split_v)},
    {TFLITE_EACH(SQRT, 10), .split = tn__split_first},
    {TFLITE_EACH(SQUARE, 1), .split = tn__split_first},
    {TFLITE_SHAPE(SQUARED_DIFFERENCE, broadcast), .split = tn__split_each},
    {TFLITE_VIEW(SQUEEZE), .shape = tn__tflite_squeeze},
    {TFLITE_BLOCKS(STABLEHLO_COMPOSITE, TN_RULE_ONCE)},
    {TFLITE_EFFECT(STABLEHLO_RNG_BIT_GENERATOR)},
    {TFLITE_BLOCKS(STABLEHLO_WHILE, 0)},
    {TFLITE_SHAPE(STRIDED_SLICE, strided_slice)},
    {TFLITE_PAIR(SUB), .split = tn__split_each},
    {TFLITE_SHAPE(SUM, reduce), .split = tn__split_tflite_reduce},
    {TFLITE_EFFECT(SVDF), .shape = tn__tflite_svdf},
    {TFLITE_EACH(TANH, 12), .split = tn__split_first},
    {TFLITE_SHAPE(TILE, tile)},
    {TFLITE_SHAPE(TOPK_V2, top)},
    {TFLITE_SHAPE(TRANSPOSE, transpose), .split = tn__split_tflite_transpose},
    {TFLITE_SHAPE(TRANSPOSE_CONV, transposed)},
    {TFLITE_EFFECT(UNIDIRECTIONAL_SEQUENCE_LSTM), .shape = tn__tflite_lstm},
    {TFLITE_EFFECT(UNIDIRECTIONAL_SEQUENCE_RNN), .shape = tn__tflite_rnn},
    {TFLITE_SHAPE(UNPACK, unpack)},
    {TFLITE_EFFECT(VAR_HANDLE)},
    {TFLITE_BLOCKS(WHILE, 0)},
    {TFLITE_SHAPE(ZEROS_LIKE, like_first), .split = tn__split_first},
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
