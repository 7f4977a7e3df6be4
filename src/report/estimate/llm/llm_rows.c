/* llm_rows.c - the tables of the matrices of transformers. A row has one matrix, with the layers in
 * which it occurs and the traits of the families that have it.
 *
 * A row with a size of 0 is ignored, so an optional part needs no trait of its own. The parameters,
 * the bytes and the cache of a family follow from its rows.
 */
#include "report/estimate/llm/llm.h"

#define S(name) TN__LLM_##name
#define HAS(name) TN__LLM_TRAIT(name)
#define MATRIX(name, role, place, rows, columns, with, without)                                    \
    { name, TN_LLM_##role, TN__LLM_##place, S(rows), S(columns), S(ONE), with, without }
#define EXPERTS_OF(name, rows, columns, with)                                                      \
    { name, TN_LLM_EXPERTS, TN__LLM_SPARSE, S(rows), S(columns), S(EXPERTS), HAS(EXPERT) | with, 0 }
/* A small matrix that is never quantised, such as the taps of a convolution. */
#define TAPS(name, place, rows, columns, with)                                                     \
    { name, TN_LLM_VECTOR, TN__LLM_##place, S(rows), S(columns), S(ONE), with, 0 }
/* A vector is counted as one row. A normalisation (NORM_OF) is counted once per vector that it
 * has. */
#define VECTOR(name, place, length, with, without)                                                 \
    { name, TN_LLM_VECTOR, TN__LLM_##place, S(ONE), S(length), S(ONE), with, without }
#define NORM_OF(name, place, length, with, without)                                                \
    { name, TN_LLM_VECTOR, TN__LLM_##place, S(ONE), S(length), S(NORM), with, without }

static const tn__llm_row rows_text[] = {
    MATRIX("embed_tokens", EMBEDDING, ONCE, VOCABULARY, EMBEDDED, 0, 0),
    MATRIX("embed_positions", TABLE, ONCE, POSITION_ROWS, HIDDEN, HAS(LEARNED), 0),
    MATRIX("embed_types", TABLE, ONCE, TYPES, HIDDEN, HAS(TYPED), 0),
    NORM_OF("embed_norm", ONCE, HIDDEN, HAS(EMBEDDING_NORM), 0),
    MATRIX("project_in", ATTENTION, ONCE, HIDDEN, EMBEDDED, HAS(NARROWED), 0),
    /* attention */
    MATRIX("q_proj", ATTENTION, IN_FULL, QUERY, HIDDEN, 0, HAS(MLA)),
    MATRIX("k_proj", ATTENTION, IN_FULL, KEY, HIDDEN, 0, HAS(MLA)),
    MATRIX("v_proj", ATTENTION, IN_FULL, VALUE_ROWS, HIDDEN, 0, HAS(MLA)),
    MATRIX("o_proj", ATTENTION, IN_FULL, HIDDEN, ATTENDED, 0, HAS(MLA)),
    MATRIX("q_proj", ATTENTION, IN_WINDOW, WINDOW_QUERY, HIDDEN, 0, HAS(MLA)),
    MATRIX("k_proj", ATTENTION, IN_WINDOW, WINDOW_KEY, HIDDEN, 0, HAS(MLA)),
    MATRIX("v_proj", ATTENTION, IN_WINDOW, WINDOW_VALUES, HIDDEN, 0, HAS(MLA)),
    MATRIX("o_proj", ATTENTION, IN_WINDOW, HIDDEN, WINDOW_ATTENDED, 0, HAS(MLA)),
    MATRIX("q_gate", ATTENTION, ATTENDS, QUERY, HIDDEN, HAS(OUTPUT_GATE), 0),
    VECTOR("q_bias", ATTENDS, QUERY, HAS(QUERY_BIAS), HAS(MLA)),
    VECTOR("k_bias", ATTENDS, KEY, HAS(QUERY_BIAS), HAS(MLA)),
    VECTOR("v_bias", ATTENDS, KEY, HAS(QUERY_BIAS), HAS(MLA)),
    VECTOR("o_bias", ATTENDS, HIDDEN, HAS(OUTPUT_BIAS), HAS(MLA)),
    VECTOR("q_norm", IN_FULL, HEAD_SIZE, HAS(QUERY_NORM), 0),
    VECTOR("k_norm", IN_FULL, HEAD_SIZE, HAS(QUERY_NORM), 0),
    VECTOR("q_norm", IN_WINDOW, WINDOW_HEAD_SIZE, HAS(QUERY_NORM), 0),
    VECTOR("k_norm", IN_WINDOW, WINDOW_HEAD_SIZE, HAS(QUERY_NORM), 0),
    VECTOR("q_norm", ATTENDS, QUERY, HAS(WIDE_NORM), 0),
    VECTOR("k_norm", ATTENDS, KEY, HAS(WIDE_NORM), 0),
    VECTOR("sinks", ATTENDS, HEADS, HAS(SINKS), 0),
    VECTOR("sinks", IN_WINDOW, HEADS, HAS(WINDOW_SINKS), 0),
    MATRIX("q_proj", ATTENTION, ATTENDS, ROTATED_QUERY, HIDDEN, HAS(FULL_QUERY), 0),
    MATRIX("q_a_proj", ATTENTION, ATTENDS, Q_RANK, HIDDEN, HAS(LOW_QUERY), 0),
    VECTOR("q_a_norm", ATTENDS, Q_RANK, HAS(LOW_QUERY), 0),
    MATRIX("q_b_proj", ATTENTION, ATTENDS, ROTATED_QUERY, Q_RANK, HAS(LOW_QUERY), 0),
    MATRIX("kv_a_proj", ATTENTION, ATTENDS, DOWN, HIDDEN, HAS(MLA), 0),
    VECTOR("kv_a_norm", ATTENDS, KV_RANK, HAS(MLA), 0),
    MATRIX("kv_b_proj", ATTENTION, ATTENDS, UP, KV_RANK, HAS(MLA), 0),
    MATRIX("o_proj", ATTENTION, ATTENDS, HIDDEN, OUT, HAS(MLA), 0),
    /* an index of keys, which chooses the tokens for attention */
    MATRIX("index_q", ATTENTION, INDEXED, INDEX_WIDTH, Q_RANK, 0, 0),
    MATRIX("index_k", ATTENTION, INDEXED, INDEX_SIZE, HIDDEN, 0, 0),
    VECTOR("index_norm", INDEXED, INDEX_NORM, 0, 0),
    MATRIX("index_weights", ROUTER, INDEXED, INDEX_HEADS, HIDDEN, 0, 0),
    /* matrices of a gated delta net */
    MATRIX("in_proj", ATTENTION, STATES_IN, GDN_IN, HIDDEN, HAS(GDN), 0),
    MATRIX("in_proj_gates", ATTENTION, STATES_IN, GDN_GATES, HIDDEN, HAS(GDN), 0),
    TAPS("conv1d", STATES_IN, GDN_MIXED, LINEAR_KERNEL, HAS(GDN)),
    VECTOR("decay", STATES_IN, GDN_GATES, HAS(GDN), 0),
    VECTOR("state_norm", STATES_IN, LINEAR_VALUE_SIZE, HAS(GDN), 0),
    MATRIX("out_proj", ATTENTION, STATES_IN, HIDDEN, GDN_OUT, HAS(GDN), 0),
    /* matrices of Kimi's delta attention */
    MATRIX("q_proj", ATTENTION, STATES_IN, KDA_WIDTH, HIDDEN, HAS(KDA), 0),
    MATRIX("k_proj", ATTENTION, STATES_IN, KDA_WIDTH, HIDDEN, HAS(KDA), 0),
    MATRIX("v_proj", ATTENTION, STATES_IN, KDA_WIDTH, HIDDEN, HAS(KDA), 0),
    MATRIX("o_proj", ATTENTION, STATES_IN, HIDDEN, KDA_WIDTH, HAS(KDA), 0),
    TAPS("conv1d", STATES_IN, KDA_MIXED, LINEAR_KERNEL, HAS(KDA)),
    MATRIX("f_a_proj", ATTENTION, STATES_IN, LINEAR_KEY_SIZE, HIDDEN, HAS(KDA), 0),
    MATRIX("f_b_proj", ATTENTION, STATES_IN, KDA_WIDTH, LINEAR_KEY_SIZE, HAS(KDA), 0),
    MATRIX("g_a_proj", ATTENTION, STATES_IN, LINEAR_KEY_SIZE, HIDDEN, HAS(KDA), 0),
    MATRIX("g_b_proj", ATTENTION, STATES_IN, KDA_WIDTH, LINEAR_KEY_SIZE, HAS(KDA), 0),
    MATRIX("b_proj", ATTENTION, STATES_IN, LINEAR_VALUES, HIDDEN, HAS(KDA), 0),
    VECTOR("decay", STATES_IN, KDA_VECTORS, HAS(KDA), 0),
    /* matrices of lightning attention */
    MATRIX("q_proj", ATTENTION, STATES_IN, LIGHT_WIDTH, HIDDEN, HAS(LIGHTNING), 0),
    MATRIX("k_proj", ATTENTION, STATES_IN, LIGHT_WIDTH, HIDDEN, HAS(LIGHTNING), 0),
    MATRIX("v_proj", ATTENTION, STATES_IN, LIGHT_WIDTH, HIDDEN, HAS(LIGHTNING), 0),
    MATRIX("output_gate", ATTENTION, STATES_IN, LIGHT_WIDTH, HIDDEN, HAS(LIGHTNING), 0),
    MATRIX("out_proj", ATTENTION, STATES_IN, HIDDEN, LIGHT_WIDTH, HAS(LIGHTNING), 0),
    VECTOR("state_norm", STATES_IN, LIGHT_WIDTH, HAS(LIGHTNING), 0),
    /* matrices of Mamba 2, then those of Mamba 1 */
    MATRIX("in_proj", ATTENTION, STATES_IN, STATE_IN, HIDDEN, HAS(MAMBA2), 0),
    TAPS("conv1d", STATES_IN, STATE_MIXED, STATE_TAPS, HAS(MAMBA2)),
    VECTOR("decay", STATES_IN, STATE_VECTORS, HAS(MAMBA2), 0),
    VECTOR("state_norm", STATES_IN, STATE_INNER, HAS(MAMBA2) | HAS(STATE_NORM), 0),
    MATRIX("out_proj", ATTENTION, STATES_IN, HIDDEN, STATE_INNER, HAS(MAMBA2), 0),
    MATRIX("in_proj", ATTENTION, STATES_IN, STATE_IN, HIDDEN, HAS(MAMBA), 0),
    TAPS("conv1d", STATES_IN, STATE_MIXED, STATE_TAPS, HAS(MAMBA)),
    MATRIX("x_proj", ATTENTION, STATES_IN, STATE_TURNED, STATE_INNER, HAS(MAMBA), 0),
    MATRIX("dt_proj", ATTENTION, STATES_IN, STATE_INNER, STATE_RANK, HAS(MAMBA), 0),
    VECTOR("decay", STATES_IN, STATE_VECTORS, HAS(MAMBA), 0),
    VECTOR("state_norms", STATES_IN, STATE_TURNED, HAS(MAMBA) | HAS(STATE_NORMS), 0),
    MATRIX("out_proj", ATTENTION, STATES_IN, HIDDEN, STATE_INNER, HAS(MAMBA), 0),
    /* matrices of a short convolution */
    MATRIX("in_proj", ATTENTION, STATES_IN, HIDDEN_3, HIDDEN, HAS(CONV), 0),
    TAPS("conv", STATES_IN, HIDDEN, CONV_KERNEL, HAS(CONV)),
    MATRIX("out_proj", ATTENTION, STATES_IN, HIDDEN, HIDDEN, HAS(CONV), 0),
    /* RWKV-4 */
    MATRIX("receptance", ATTENTION, STATES_IN, HIDDEN, HIDDEN, HAS(RWKV), 0),
    MATRIX("key", ATTENTION, STATES_IN, HIDDEN, HIDDEN, HAS(RWKV), 0),
    MATRIX("value", ATTENTION, STATES_IN, HIDDEN, HIDDEN, HAS(RWKV), 0),
    MATRIX("output", ATTENTION, STATES_IN, HIDDEN, HIDDEN, HAS(RWKV), 0),
    MATRIX("inner_receptance", INNER, STATES_IN, HIDDEN, HIDDEN, HAS(RWKV), 0),
    VECTOR("decay", STATES_IN, HIDDEN_7, HAS(RWKV), 0),
    /* matrices of the inner layer (MLP) */
    MATRIX("gate_proj", INNER, DENSE, INNER, HIDDEN, HAS(GATED), 0),
    MATRIX("up_proj", INNER, DENSE, INNER, HIDDEN, 0, 0),
    MATRIX("down_proj", INNER, DENSE, HIDDEN, INNER, 0, 0),
    VECTOR("gate_bias", DENSE, INNER, HAS(GATED) | HAS(INNER_BIAS), 0),
    VECTOR("up_bias", DENSE, INNER, HAS(INNER_BIAS), 0),
    VECTOR("down_bias", DENSE, HIDDEN, HAS(INNER_BIAS), 0),
    MATRIX("gate_proj", INNER, WIDER, WIDE_INNER, HIDDEN, HAS(GATED), 0),
    MATRIX("up_proj", INNER, WIDER, WIDE_INNER, HIDDEN, 0, 0),
    MATRIX("down_proj", INNER, WIDER, HIDDEN, WIDE_INNER, 0, 0),
    /* one matrix in the place of attention or of the inner layer */
    MATRIX("linear", INNER, LAYER, REPLACED, HIDDEN, 0, 0),
    /* experts */
    MATRIX("router", ROUTER, SPARSE, EXPERTS, HIDDEN, HAS(EXPERT), 0),
    VECTOR("router_bias", SPARSE, EXPERTS, HAS(ROUTER_BIAS), 0),
    VECTOR("router_correction", SPARSE, EXPERTS, HAS(CORRECTED), 0),
    EXPERTS_OF("gate_proj", EXPERT_WIDTH, HIDDEN, HAS(GATED)),
    EXPERTS_OF("up_proj", EXPERT_WIDTH, HIDDEN, 0),
    EXPERTS_OF("down_proj", HIDDEN, EXPERT_WIDTH, 0),
    {"expert_bias", TN_LLM_VECTOR, TN__LLM_SPARSE, S(ONE), S(BIASES), S(EXPERTS), HAS(EXPERT_BIAS),
     0},
    MATRIX("shared_gate_proj", INNER, SPARSE, SHARED_WIDTH, HIDDEN, HAS(EXPERT) | HAS(GATED), 0),
    MATRIX("shared_up_proj", INNER, SPARSE, SHARED_WIDTH, HIDDEN, HAS(EXPERT), 0),
    MATRIX("shared_down_proj", INNER, SPARSE, HIDDEN, SHARED_WIDTH, HAS(EXPERT), 0),
    MATRIX("shared_router", ROUTER, SPARSE, ONE, HIDDEN, HAS(SHARED_GATE), 0),
    VECTOR("expert_scales", SPARSE, EXPERT_SCALES, HAS(GEMMA4), 0),
    /* inputs of each layer, and several streams of hidden states (gemma3n, gemma4) */
    MATRIX("input_gate", INNER, LAYER, INPUT_SIZE, HIDDEN, 0, 0),
    MATRIX("input_proj", INNER, LAYER, HIDDEN, INPUT_SIZE, 0, 0),
    VECTOR("layer_vectors", LAYER, LAYER_SCALARS, 0, 0),
    VECTOR("altup", LAYER, ALTUP, HAS(GEMMA3N), 0),
    MATRIX("laurel_left", INNER, LAYER, LAUREL, HIDDEN, HAS(GEMMA3N), 0),
    MATRIX("laurel_right", INNER, LAYER, HIDDEN, LAUREL, HAS(GEMMA3N), 0),
    MATRIX("embed_layers", TABLE, ONCE, INPUT_ROWS, LAYER_INPUTS, 0, 0),
    MATRIX("project_layers", INNER, ONCE, LAYER_INPUTS, HIDDEN, 0, 0),
    VECTOR("layers_norm", ONCE, INPUT_SIZE, 0, 0),
    MATRIX("altup_proj", INNER, ONCE, ALTUP_ROWS, HIDDEN, HAS(GEMMA3N), 0),
    /* normalisations */
    NORM_OF("input_norm", LAYER, FIRST_NORM, 0, 0),
    NORM_OF("post_attention_norm", LAYER, SECOND_NORM, 0, HAS(ONE_NORM)),
    NORM_OF("pre_inner_norm", LAYER, HIDDEN, HAS(FOUR_NORMS), 0),
    NORM_OF("post_inner_norm", LAYER, HIDDEN, HAS(FOUR_NORMS), 0),
    /* matrices after the last layer */
    MATRIX("project_out", ATTENTION, ONCE, EMBEDDED, HIDDEN, HAS(NARROWED), 0),
    NORM_OF("final_norm", ONCE, HIDDEN, 0, HAS(NO_FINAL_NORM)),
    MATRIX("lm_head", HEAD, ONCE, VOCABULARY, EMBEDDED, HAS(UNTIED), 0),
    VECTOR("lm_head_bias", ONCE, VOCABULARY, HAS(HEAD_BIAS), 0),
    MATRIX("pooler", ATTENTION, ONCE, HIDDEN, HIDDEN, HAS(POOLED), 0),
    VECTOR("pooler_bias", ONCE, HIDDEN, HAS(POOLED), 0),
    /* what a layer that predicts a further token has in addition to the matrices of a layer */
    MATRIX("further_proj", HEAD, AHEAD, HIDDEN, TWICE_HIDDEN, 0, 0),
    MATRIX("further_embed", EMBEDDING, AHEAD, VOCABULARY, HIDDEN, HAS(MTP), 0),
    MATRIX("further_head", HEAD, AHEAD, VOCABULARY, HIDDEN, HAS(MTP), 0),
    VECTOR("further_norms", AHEAD, HIDDEN_3, 0, 0),
    /* a tower for images that llm_towers.c counts as a whole */
    MATRIX("vision_tower", VISION, ONCE, ONE, TOWER, 0, 0),
    /* matrices of the vision tower SigLIP and its projector */
    MATRIX("vision_patches", VISION, ONCE, VISION, VISION_PATCH, HAS(SEES), 0),
    VECTOR("vision_patches_bias", ONCE, VISION, HAS(SEES), 0),
    MATRIX("vision_positions", VISION, ONCE, VISION_PATCHES, VISION, HAS(SEES), 0),
    MATRIX("vision_attention", VISION, TOWERS, VISION, VISION, HAS(SEES), 0),
    MATRIX("vision_attention", VISION, TOWERS, VISION, VISION, HAS(SEES), 0),
    MATRIX("vision_attention", VISION, TOWERS, VISION, VISION, HAS(SEES), 0),
    MATRIX("vision_attention", VISION, TOWERS, VISION, VISION, HAS(SEES), 0),
    {"vision_biases", TN_LLM_VECTOR, TN__LLM_TOWERS, S(ONE), S(VISION), S(BIASES), HAS(SEES), 0},
    MATRIX("vision_up", VISION, TOWERS, VISION_INNER, VISION, HAS(SEES), 0),
    MATRIX("vision_down", VISION, TOWERS, VISION, VISION_INNER, HAS(SEES), 0),
    VECTOR("vision_up_bias", TOWERS, VISION_INNER, HAS(SEES), 0),
    VECTOR("vision_norm", ONCE, VISION, HAS(SEES), 0),
    VECTOR("vision_norm", ONCE, VISION, HAS(SEES), 0),
    MATRIX("vision_projector", VISION, ONCE, HIDDEN, VISION, HAS(SEES), 0),
    VECTOR("vision_projector_norm", ONCE, VISION, HAS(SEES), 0),
};

#define ATTENTION_OF(place)                                                                        \
    MATRIX("q_proj", ATTENTION, place, QUERY, HIDDEN, 0, 0),                                       \
        MATRIX("k_proj", ATTENTION, place, QUERY, HIDDEN, 0, 0),                                   \
        MATRIX("v_proj", ATTENTION, place, QUERY, HIDDEN, 0, 0),                                   \
        MATRIX("o_proj", ATTENTION, place, HIDDEN, QUERY, 0, 0)

static const tn__llm_row rows_t5[] = {
    MATRIX("shared", EMBEDDING, ONCE, VOCABULARY, HIDDEN, 0, 0),
    ATTENTION_OF(ENCODER),
    ATTENTION_OF(DECODER),
    ATTENTION_OF(DECODER), /* matrices of the cross-attention to the encoder's tokens */
    MATRIX("relative_bias", TABLE, ONCE, BUCKETS, HEADS, 0, 0),
    MATRIX("relative_bias", TABLE, ONCE, BUCKETS, HEADS, 0, 0),
    MATRIX("wi_0", INNER, ENCODER, INNER, HIDDEN, HAS(GATED), 0),
    MATRIX("wi", INNER, ENCODER, INNER, HIDDEN, 0, 0),
    MATRIX("wo", INNER, ENCODER, HIDDEN, INNER, 0, 0),
    MATRIX("wi_0", INNER, DECODER, INNER, HIDDEN, HAS(GATED), 0),
    MATRIX("wi", INNER, DECODER, INNER, HIDDEN, 0, 0),
    MATRIX("wo", INNER, DECODER, HIDDEN, INNER, 0, 0),
    NORM_OF("norm", ENCODER, HIDDEN, 0, 0),
    NORM_OF("norm", ENCODER, HIDDEN, 0, 0),
    NORM_OF("norm", DECODER, HIDDEN, 0, 0),
    NORM_OF("norm", DECODER, HIDDEN, 0, 0),
    NORM_OF("norm", DECODER, HIDDEN, 0, 0),
    NORM_OF("encoder_norm", ONCE, HIDDEN, 0, 0),
    NORM_OF("decoder_norm", ONCE, HIDDEN, 0, 0),
    MATRIX("lm_head", HEAD, ONCE, VOCABULARY, HIDDEN, HAS(UNTIED), 0),
};

/* Biases of an attention; in Whisper, keys have no bias. */
#define WHISPER_BIASES(place)                                                                      \
    VECTOR("q_bias", place, HIDDEN, 0, 0), VECTOR("v_bias", place, HIDDEN, 0, 0),                  \
        VECTOR("o_bias", place, HIDDEN, 0, 0)

static const tn__llm_row rows_whisper[] = {
    MATRIX("conv1", TABLE, ONCE, HIDDEN, MEL_3, 0, 0),
    VECTOR("conv1_bias", ONCE, HIDDEN, 0, 0),
    MATRIX("conv2", TABLE, ONCE, HIDDEN, HIDDEN_3, 0, 0),
    VECTOR("conv2_bias", ONCE, HIDDEN, 0, 0),
    MATRIX("encoder_positions", TABLE, ONCE, SOURCE, HIDDEN, 0, 0),
    MATRIX("embed_tokens", EMBEDDING, ONCE, VOCABULARY, HIDDEN, 0, 0),
    MATRIX("decoder_positions", TABLE, ONCE, TARGET, HIDDEN, 0, 0),
    ATTENTION_OF(ENCODER),
    WHISPER_BIASES(ENCODER),
    ATTENTION_OF(DECODER),
    WHISPER_BIASES(DECODER),
    ATTENTION_OF(DECODER), /* matrices of the cross-attention to the encoder's tokens */
    WHISPER_BIASES(DECODER),
    MATRIX("fc1", INNER, ENCODER, INNER, HIDDEN, 0, 0),
    VECTOR("fc1_bias", ENCODER, INNER, 0, 0),
    MATRIX("fc2", INNER, ENCODER, HIDDEN, INNER, 0, 0),
    VECTOR("fc2_bias", ENCODER, HIDDEN, 0, 0),
    MATRIX("fc1", INNER, DECODER, DECODER_INNER, HIDDEN, 0, 0),
    VECTOR("fc1_bias", DECODER, DECODER_INNER, 0, 0),
    MATRIX("fc2", INNER, DECODER, HIDDEN, DECODER_INNER, 0, 0),
    VECTOR("fc2_bias", DECODER, HIDDEN, 0, 0),
    NORM_OF("norm", ENCODER, HIDDEN, 0, 0),
    NORM_OF("norm", ENCODER, HIDDEN, 0, 0),
    NORM_OF("norm", DECODER, HIDDEN, 0, 0),
    NORM_OF("norm", DECODER, HIDDEN, 0, 0),
    NORM_OF("norm", DECODER, HIDDEN, 0, 0),
    NORM_OF("encoder_norm", ONCE, HIDDEN, 0, 0),
    NORM_OF("decoder_norm", ONCE, HIDDEN, 0, 0),
};

static const tn__llm_row rows_vit[] = {
    VECTOR("class_token", ONCE, HIDDEN, 0, 0),
    MATRIX("positions", TABLE, ONCE, POSITION_ROWS, HIDDEN, 0, 0),
    MATRIX("patches", TABLE, ONCE, HIDDEN, PATCH_SIZE, 0, 0),
    VECTOR("patches_bias", ONCE, HIDDEN, 0, 0),
    ATTENTION_OF(LAYER),
    {"attention_biases", TN_LLM_VECTOR, TN__LLM_LAYER, S(ONE), S(HIDDEN), S(BIASES), 0, 0},
    MATRIX("up_proj", INNER, LAYER, INNER, HIDDEN, 0, 0),
    MATRIX("down_proj", INNER, LAYER, HIDDEN, INNER, 0, 0),
    VECTOR("up_bias", LAYER, INNER, 0, 0),
    VECTOR("down_bias", LAYER, HIDDEN, 0, 0),
    NORM_OF("norm_before", LAYER, HIDDEN, 0, 0),
    NORM_OF("norm_after", LAYER, HIDDEN, 0, 0),
    NORM_OF("final_norm", ONCE, HIDDEN, 0, 0),
    MATRIX("classifier", HEAD, ONCE, LABELS, HIDDEN, 0, 0),
    VECTOR("classifier_bias", ONCE, LABELS, 0, 0),
};

#define ROWS(rows) (*count = sizeof(rows) / sizeof *(rows), rows)

const tn__llm_row *tn__llm_rows(uint64_t traits, size_t *count) {
    if (traits & HAS(T5)) return ROWS(rows_t5);
    if (traits & HAS(WHISPER)) return ROWS(rows_whisper);
    if (traits & HAS(VIT)) return ROWS(rows_vit);
    return ROWS(rows_text);
}
