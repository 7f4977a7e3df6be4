/* contrib_vision.c - convolutions and pools of ONNX Runtime's domain com.microsoft: with an
 * activation, with channels last, quantised. The file also lists operators of that domain that
 * cannot be planned, with the reason.
 *
 * ONNX Runtime's optimizer writes the convolutions with an activation. Quantised graphs have
 * operators with channels last between two Transposes. Weights of NhwcConv have their channels last
 * as well, as far as their extents show. Source: docs/ContribOperators.md and
 * core/graph/contrib_ops of ONNX Runtime, 2026.
 */
#include "graph/rules/fold.h"
#include "graph/rules/window.h"
#include "graph/tiles/split.h"

static tn_status vision_shape_conv(tn_infer *infer) {
    return tn__shape_conv(infer, 0, 1, tn__input(infer, 0)->dtype);
}

/* Sets the shape of a sliding window over x [N, spatial..., C]; the extents of the kernel begin at
 * axis `kernel` of the weights [M, ...]. */
static tn_status vision_slide(tn_infer *infer, const tn_tensor *x, const tn_tensor *w,
                              const int64_t *kernel, tn_dtype dtype) {
    int64_t shape[TN_RANK_MAX];
    tn__window window;
    TN_TRY(tn__window_read(infer, x->rank - 2, kernel, &window));
    TN_TRY(tn__window_slide(infer, &window, x->shape + 1, shape + 1));
    shape[0] = x->shape[0];
    shape[x->rank - 1] = w->shape[0];
    return tn__set_output(infer, 0, dtype, x->rank, shape);
}

static tn_status vision_check_ranks(tn_infer *infer, const tn_tensor *x, const tn_tensor *w) {
    if (x->rank >= 3 && w->rank == x->rank) return TN_OK;
    return tn__infer_fail(infer, "input '%.60s' has rank %u and weights '%.60s' rank %u", x->name,
                          x->rank, w->name, w->rank);
}

static tn_status vision_shape_last(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, 1);
    if (!tn__rank_known(x) || !tn__rank_known(w)) return tn__set_dtype(infer, 0, x->dtype);
    TN_TRY(vision_check_ranks(infer, x, w));
    int64_t group = tn__attr_int(infer->op, "group", 1), channels = x->shape[x->rank - 1];
    bool first = tn__extent_mul(w->shape[w->rank - 1], group) != channels &&
                 tn__extent_mul(w->shape[1], group) == channels;
    return vision_slide(infer, x, w, w->shape + (first ? 2 : 1), x->dtype);
}

static tn_status vision_shape_qlinear(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, 3), *zero = tn__input(infer, 7);
    tn_dtype dtype = zero != NULL ? zero->dtype : x->dtype;
    if (tn__attr_int(infer->op, "channels_last", 0) == 0) return tn__shape_conv(infer, 0, 3, dtype);
    if (!tn__rank_known(x) || !tn__rank_known(w)) return tn__set_dtype(infer, 0, dtype);
    TN_TRY(vision_check_ranks(infer, x, w));
    return vision_slide(infer, x, w, w->shape + 2, dtype);
}

static tn_status vision_shape_pool(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    TN_TRY(tn__window_pool(infer, x, shape));
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

static tn_status vision_shape_pool_last(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    tn__window window;
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    if (x->rank < 3)
        return tn__infer_fail(infer, "'%.60s' has rank %u; a pool needs 3 or more", x->name,
                              x->rank);
    TN_TRY(tn__window_read(infer, x->rank - 2, NULL, &window));
    TN_TRY(tn__window_slide(infer, &window, x->shape + 1, shape + 1));
    shape[0] = x->shape[0];
    shape[x->rank - 1] = x->shape[x->rank - 1];
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

static uint64_t vision_flops(tn_infer *infer, uint32_t weights, uint32_t channel) {
    const tn_tensor *w = tn__input(infer, weights), *y = tn__output(infer, 0);
    if (!tn__shape_known(w) || !tn__shape_known(y) || y->rank < 3 || w->rank < 3)
        return TN_SIZE_UNKNOWN;
    int64_t made = y->shape[channel == 1 ? 1 : y->rank - 1];
    uint64_t positions = made > 0 ? tn__elements(y) / (uint64_t)made : 0;
    return tn__mul_sat(tn__mul_sat(2, positions), tn__elements(w));
}
static uint64_t vision_flops_conv(tn_infer *infer) { return vision_flops(infer, 1, 1); }
static uint64_t vision_flops_last(tn_infer *infer) { return vision_flops(infer, 1, 0); }
static uint64_t vision_flops_qlinear(tn_infer *infer) {
    return vision_flops(infer, 3, tn__attr_int(infer->op, "channels_last", 0) == 0);
}

/* The result of a fused convolution may overwrite its summand, which has the same shape. */
static uint64_t vision_inplace_conv(tn_infer *infer, uint32_t output) {
    (void)infer;
    return output == 0 ? 1u << 3 : 0;
}

/* --- operators that cannot be planned --- */

/* Refuses operators that generate text by running their graphs an unknown number of times. */
static tn_status vision_refuse_search(tn_infer *infer, uint32_t round, bool *again) {
    (void)round;
    *again = false;
    TN_FAIL(
        infer->error, TN_E_UNSUPPORTED,
        "%.40s runs the graphs of its attributes (encoder, decoder, init_decoder) in a loop and "
        "allocates their caches itself; write the graph of attribute 'decoder' as a model of its "
        "own and plan that",
        infer->op->type);
}

static tn_status vision_refuse_opaque(tn_infer *infer) {
    TN_FAIL(infer->error, TN_E_UNSUPPORTED,
            "%.40s holds a program of another library (a compiled network, or a search in strings) "
            "whose memory is not known; export the model without it",
            infer->op->type);
}

/* clang-format off */
#define VISION(name, least, most, rule, cost) .type = #name, .inputs_min = least, \
    .inputs_max = most, .outputs_max = 1, .shape = rule, .flops = cost
#define SEARCH(name) .type = #name, .inputs_max = UINT32_MAX, .outputs_max = UINT32_MAX, \
    .flags = TN_RULE_CONTROL, .enter = vision_refuse_search
#define OPAQUE(name) .type = #name, .inputs_max = UINT32_MAX, .outputs_max = UINT32_MAX, \
    .shape = vision_refuse_opaque
static const tn_op_rule contrib_vision_rules[] = {
    {SEARCH(BeamSearch)},
    {OPAQUE(EPContext)},
    {VISION(FusedConv, 2, 4, vision_shape_conv, vision_flops_conv),
     .inplace_of = vision_inplace_conv, .weights = 2 | 4, .flags = TN_RULE_CONV_LIKE},
    {SEARCH(GreedySearch)},
    {VISION(MaxpoolWithMask, 2, 2, vision_shape_pool, NULL), .flops_per = 4},
    {VISION(NhwcConv, 2, 3, vision_shape_last, vision_flops_last), .weights = 2 | 4,
     .flags = TN_RULE_CONV_LIKE},
    {VISION(NhwcFusedConv, 2, 4, vision_shape_last, vision_flops_last), .weights = 2 | 4,
     .flags = TN_RULE_CONV_LIKE},
    {VISION(NhwcMaxPool, 1, 1, vision_shape_pool_last, NULL), .flops_per = 4},
    {VISION(QLinearConv, 4, 9, vision_shape_qlinear, vision_flops_qlinear), .flags = TN_RULE_CONV_LIKE},
    {SEARCH(Sampling)},
    {OPAQUE(Snpe)},
    {OPAQUE(Tokenizer)},
    {SEARCH(WhisperBeamSearch)},
    {OPAQUE(WordConvEmbedding)},
};
/* clang-format on */

TN_OP_FAMILY(contrib_vision, "com.microsoft");
