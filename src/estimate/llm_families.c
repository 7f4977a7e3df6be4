/* llm_families.c - what each family of transformers is made of, by its "model_type".
 *
 * A row is all that is known of a family; a family whose parts are known already is one row more.
 * Facts: the config.json files of published models; counts of published checkpoints are in
 * tests/estimate/llm_published.h.
 */
#include "estimate/llm.h"

#define HAS(name) TN__LLM_TRAIT(name)
#define PLAIN_BIASES (HAS(QUERY_BIAS) | HAS(OUTPUT_BIAS) | HAS(INNER_BIAS))
#define GPT (HAS(TEXT) | HAS(SHIFTED) | PLAIN_BIASES)
#define LLAMA (HAS(TEXT) | HAS(GATED))
#define BERT (GPT | HAS(LEARNED) | HAS(EMBEDDING_NORM) | HAS(NO_FINAL_NORM) | HAS(ENCODER))
#define MIXTURE (HAS(TEXT) | HAS(GATED) | HAS(EXPERT))
#define DEEPSEEK (MIXTURE | HAS(NARROW) | HAS(SHARING) | HAS(MLA) | HAS(UNTIED))
#define GEMMA3 (LLAMA | HAS(FOUR_NORMS) | HAS(QUERY_NORM) | HAS(WINDOWED))

#define GEMMA3_CLASS                                                                               \
    {                                                                                              \
        {TN__LLM_HEADS, 8}, {TN__LLM_KV_HEADS, 4}, {TN__LLM_HEAD_SIZE, 256},                       \
            {TN__LLM_VOCABULARY, 262208}, {TN__LLM_POSITIONS, 131072}, {                           \
            TN__LLM_WINDOW, 4096                                                                   \
        }                                                                                          \
    }

static const tn__llm_family families[] = {
    {"bert", BERT | HAS(TYPED) | HAS(POOLED), 0, {{0}}},
    {"bloom", GPT | HAS(EMBEDDING_NORM) | HAS(FUSED), 0, {{0}}},
    {"deepseek_v2", DEEPSEEK, 0, {{0}}},
    {"deepseek_v3", DEEPSEEK | HAS(CORRECTED), 0, {{0}}},
    {"distilbert", BERT, 0, {{0}}},
    {"falcon",
     HAS(TEXT) | HAS(SHIFTED) | HAS(PARALLEL) | HAS(ONE_NORM) | HAS(SINGLE) | HAS(FUSED),
     0,
     {{0}}},
    {"gemma", LLAMA, 0, {{TN__LLM_HEAD_SIZE, 256}}},
    {"gemma2",
     LLAMA | HAS(FOUR_NORMS) | HAS(WINDOWED),
     2,
     {{TN__LLM_HEAD_SIZE, 256}, {TN__LLM_WINDOW, 4096}}},
    {"gemma3", GEMMA3 | HAS(SEES), 6, GEMMA3_CLASS},
    {"gemma3_text", GEMMA3, 6, GEMMA3_CLASS},
    {"gpt2", GPT | HAS(LEARNED) | HAS(FUSED), 0, {{0}}},
    {"gpt_bigcode", GPT | HAS(LEARNED) | HAS(FUSED) | HAS(SINGLE), 0, {{0}}},
    {"gpt_neo",
     HAS(TEXT) | HAS(SHIFTED) | HAS(OUTPUT_BIAS) | HAS(INNER_BIAS) | HAS(LEARNED),
     0,
     {{0}}},
    {"gpt_neox", GPT | HAS(UNTIED) | HAS(FUSED), 0, {{0}}},
    {"gpt_oss",
     MIXTURE | HAS(UNTIED) | HAS(QUERY_BIAS) | HAS(OUTPUT_BIAS) | HAS(SINKS) | HAS(ROUTER_BIAS) |
         HAS(EXPERT_BIAS) | HAS(WINDOWED),
     2,
     {{TN__LLM_HEAD_SIZE, 64}, {TN__LLM_WINDOW, 128}}},
    {"llama", LLAMA | HAS(UNTIED), 0, {{0}}},
    {"mistral", LLAMA | HAS(UNTIED) | HAS(WINDOWED), 1, {{TN__LLM_WINDOW, 4096}}},
    {"mixtral", MIXTURE | HAS(UNTIED) | HAS(WINDOWED), 1, {{0}}},
    {"olmo", LLAMA | HAS(UNTIED) | HAS(NO_NORM), 0, {{0}}},
    {"olmo2", LLAMA | HAS(UNTIED) | HAS(WIDE_NORM), 0, {{0}}},
    {"olmoe", MIXTURE | HAS(UNTIED) | HAS(WIDE_NORM), 0, {{0}}},
    {"opt", GPT | HAS(LEARNED) | HAS(POSITIONS_2) | HAS(PROJECTS), 0, {{0}}},
    {"phi", GPT | HAS(UNTIED) | HAS(HEAD_BIAS) | HAS(ONE_NORM), 0, {{0}}},
    {"phi3", LLAMA | HAS(UNTIED) | HAS(WINDOWED) | HAS(FUSED), 1, {{0}}},
    {"phimoe", MIXTURE | HAS(UNTIED) | HAS(SHIFTED) | HAS(WINDOWED), 1, {{0}}},
    {"qwen2",
     LLAMA | HAS(UNTIED) | HAS(QUERY_BIAS) | HAS(QUERY_ALONE) | HAS(WINDOWED) | HAS(WINDOW_ASKED),
     1,
     {{TN__LLM_WINDOW_FROM, 28}}},
    {"qwen2_moe",
     MIXTURE | HAS(UNTIED) | HAS(QUERY_BIAS) | HAS(QUERY_ALONE) | HAS(NARROW) | HAS(SHARED_GATE) |
         HAS(WINDOWED) | HAS(WINDOW_ASKED),
     1,
     {{TN__LLM_WINDOW_FROM, 28}}},
    {"qwen3",
     LLAMA | HAS(UNTIED) | HAS(QUERY_NORM) | HAS(WINDOWED) | HAS(WINDOW_ASKED),
     1,
     {{TN__LLM_HEAD_SIZE, 128}, {TN__LLM_WINDOW_FROM, 28}}},
    {"qwen3_moe",
     MIXTURE | HAS(UNTIED) | HAS(QUERY_NORM) | HAS(NARROW) | HAS(WINDOWED) | HAS(WINDOW_ASKED),
     1,
     {{TN__LLM_HEAD_SIZE, 128}, {TN__LLM_WINDOW_FROM, 28}}},
    {"roberta", BERT | HAS(TYPED) | HAS(POOLED), 0, {{0}}},
    {"starcoder2", GPT | HAS(WINDOWED), 1, {{0}}},
    {"t5", HAS(T5), 0, {{TN__LLM_BUCKETS, 32}}},
    {"vit", HAS(VIT) | HAS(SHIFTED) | HAS(ENCODER), 0, {{TN__LLM_CHANNELS, 3}}},
    {"whisper", HAS(WHISPER) | HAS(SHIFTED), 0, {{0}}},
    {"xlm-roberta", BERT | HAS(TYPED) | HAS(POOLED), 0, {{0}}},
};

const tn__llm_family *tn__llm_family_find(const char *type) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (strcmp(families[i].type, type) == 0) return &families[i];
    return NULL;
}

const char *tn_llm_family(uint32_t index) {
    return index < sizeof families / sizeof *families ? families[index].type : NULL;
}
