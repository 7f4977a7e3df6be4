/* transformer.h - the sizes and parts of a transformer. Estimates of training (tn_large in
 * tenure/estimate.h) and of running a model (tn_llm in tenure/llm.h) both contain this struct.
 *
 *     const tn_transformer gpt2 = {.hidden = 768, .layers = 12, .heads = 12, .vocabulary = 50257,
 *                                  .positions = 1024, .position_rows = 1024};
 *     printf("%llu layers\n", (unsigned long long)gpt2.layers);
 *
 * Zero is the default of each member: a part with the value false is the part of GPT-2.
 */
#ifndef TENURE_TRANSFORMER_H
#define TENURE_TRANSFORMER_H

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_transformer {
    uint64_t hidden, layers, heads, vocabulary;
    uint64_t kv_heads;  /* KV heads; 0: heads */
    uint64_t head_size; /* size of a query head; 0: hidden / heads */
    /* Width of the inner layer per token; 0: 4 hidden. With experts, the sum of the widths of the
     * chosen ones; if layers differ, the largest. */
    uint64_t inner;
    uint64_t positions;     /* maximum number of tokens of the model; 0: not stated */
    uint64_t position_rows; /* learned position embeddings; 0: none */
    uint64_t types;         /* token type embeddings (BERT) */
    bool gated;             /* three matrices in the inner layer (LLaMA) */
    bool rms_norm;          /* normalisation without bias (LLaMA) */
    /* No bias in the query, key and value products, in the output product of attention, and in the
     * inner layer (LLaMA has no biases). */
    bool no_query_bias, no_output_bias, no_inner_bias;
    bool query_norm;     /* query and key are normalised per head (Qwen3) */
    bool embedding_norm; /* an additional normalisation after the embeddings (BLOOM) */
    bool pooled;         /* an additional product at the end (BERT) */
    bool no_dropout;     /* training stores no dropout masks */
    bool untied;         /* the output matrix is not tied to the embeddings */
} tn_transformer;

#ifdef __cplusplus
}
#endif
#endif
