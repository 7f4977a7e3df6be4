/* preview.c - operators of domain ai.onnx.preview: FlexAttention, with graphs that change scores
 * and probabilities element by element.
 * Source: operator text of ONNX, ai.onnx.preview 1.
 */
#include "graph/rules/fold.h"

/* Sets the shape of FlexAttention: Q [B, Hq, S, D], K [B, Hk, L, D] and V [B, Hk, L, Dv] give [B,
 * Hq, S, Dv]. */
static tn_status preview_shape_attention(tn_infer *infer) {
    const tn_tensor *q = tn__input(infer, 0), *v = tn__input(infer, 2);
    for (uint32_t i = 0; i < 3; i++) TN_TRY(tn__rank_between(infer, i, 4, 4));
    TN_TRY(tn__extents_agree(infer, 0, 0, 1, 0));
    TN_TRY(tn__extents_agree(infer, 0, 3, 1, 3));
    TN_TRY(tn__extents_agree(infer, 1, 2, 2, 2));
    int64_t shape[4] = {tn__extent(q, 0), tn__extent(q, 1), tn__extent(q, 2), tn__extent(v, 3)};
    return tn__set_output(infer, 0, q->dtype, 4, shape);
}

static const tn_op_rule preview_rules[] = {
    {.type = "FlexAttention",
     .inputs_min = 3,
     .inputs_max = 3,
     .outputs_max = 1,
     .shape = preview_shape_attention,
     .flags = TN_RULE_MATMUL_LIKE},
};

TN_OP_FAMILY(preview, "ai.onnx.preview");
