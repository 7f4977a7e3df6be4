/* llm_families.c - the table of families of transformers, by their "model_type".
 *
 * A row describes a family completely: its parts (traits), the kinds of its layers, the defaults of
 * its class, and the names of sizes that only this family uses. A new family with parts that are
 * already known needs only a new row. tests/estimate/test_families.c compares the rows with
 * published counts.
 */
#include "report/estimate/llm/llm.h"

#define HAS(name) TN__LLM_TRAIT(name)
#define S(name) TN__LLM_##name
#define PLAIN_BIASES (HAS(QUERY_BIAS) | HAS(OUTPUT_BIAS) | HAS(INNER_BIAS))
#define GPT (HAS(TEXT) | HAS(SHIFTED) | PLAIN_BIASES)
#define LLAMA_TIED (HAS(TEXT) | HAS(GATED))
#define LLAMA (LLAMA_TIED | HAS(UNTIED))
#define BERT (GPT | HAS(LEARNED) | HAS(EMBEDDING_NORM) | HAS(NO_FINAL_NORM) | HAS(ENCODER))
#define MIXTURE_TIED (HAS(TEXT) | HAS(GATED) | HAS(EXPERT))
#define MIXTURE (MIXTURE_TIED | HAS(UNTIED))
#define DEEPSEEK (MIXTURE | HAS(NARROW) | HAS(SHARING) | HAS(MLA))
#define DEEPSEEK3 (DEEPSEEK | HAS(CORRECTED) | HAS(MTP))
#define GEMMA3 (LLAMA_TIED | HAS(FOUR_NORMS) | HAS(QUERY_NORM) | HAS(WINDOWED))
#define QWEN2 (LLAMA | HAS(QUERY_BIAS) | HAS(QUERY_ALONE) | HAS(WINDOWED) | HAS(WINDOW_ASKED))
#define QWEN3 (LLAMA | HAS(QUERY_NORM) | HAS(WINDOWED) | HAS(WINDOW_ASKED))
#define QWEN3_MOE (MIXTURE | HAS(QUERY_NORM) | HAS(NARROW) | HAS(WINDOWED) | HAS(WINDOW_ASKED))
#define GLM4_MOE                                                                                   \
    (MIXTURE | HAS(NARROW) | HAS(SHARING) | HAS(CORRECTED) | HAS(MTP) | HAS(QUERY_ASKED))
#define DELTA (HAS(GDN) | HAS(QUERY_NORM) | HAS(OUTPUT_GATE) | HAS(MTP_BARE))
#define QWEN3_NEXT (MIXTURE | HAS(NARROW) | HAS(SHARED_GATE) | DELTA)
#define MAMBA1 (HAS(TEXT) | HAS(MAMBA) | HAS(STATE_BIAS))
#define MAMBA_2 (HAS(MAMBA2) | HAS(STATE_BIAS) | HAS(STATE_NORM))
#define MINIMAX (MIXTURE | HAS(LIGHTNING))
#define GEMMA4_TEXT (LLAMA_TIED | HAS(FOUR_NORMS) | HAS(QUERY_NORM) | HAS(WINDOWED) | HAS(GEMMA4))

#define OTHERWISE(...) .otherwise = {__VA_ARGS__}
#define OWN(...) .own = {__VA_ARGS__}
#define GEMMA3_CLASS                                                                               \
    OTHERWISE({S(HEADS), 8}, {S(KV_HEADS), 4}, {S(HEAD_SIZE), 256}, {S(VOCABULARY), 262208},       \
              {S(POSITIONS), 131072}, {S(WINDOW), 4096})
#define WINDOW_28 OTHERWISE({S(WINDOW_FROM), 28})
#define HEAD_128 OTHERWISE({S(HEAD_SIZE), 128}, {S(WINDOW_FROM), 28})
#define DELTA_CLASS                                                                                \
    OTHERWISE({S(HEAD_SIZE), 256}, {S(INTERVAL), 4}, {S(LINEAR_KERNEL), 4},                        \
              {S(LINEAR_KEY_SIZE), 128}, {S(LINEAR_VALUE_SIZE), 128}, {S(LINEAR_KEYS), 16},        \
              {S(LINEAR_VALUES), 32})
#define MAMBA1_CLASS OTHERWISE({S(STATE_SIZE), 16}, {S(STATE_KERNEL), 4}, {S(STATE_EXPAND), 2})
#define MAMBA2_CLASS                                                                               \
    OTHERWISE({S(STATE_SIZE), 128}, {S(STATE_KERNEL), 4}, {S(STATE_GROUPS), 1},                    \
              {S(STATE_EXPAND), 2})
#define MAMBA_NAMES OWN({S(STATE_INNER), "intermediate_size"}, {S(STATE_INNER), "d_inner"})
#define LFM2 OWN({S(INNER), "block_ff_dim"}, {S(DENSE_FIRST), "num_dense_layers"})
#define ERNIE_NAMES                                                                                \
    OWN({S(EXPERTS), "moe_num_experts"}, {S(CHOSEN), "moe_k"},                                     \
        {S(SHARED), "moe_num_shared_experts"}, {S(DENSE_FIRST), "moe_layer_start_index"},          \
        {S(SPARSE_STEP), "moe_layer_interval"})
#define GEMMA4_CLASS                                                                               \
    OTHERWISE({S(HEAD_SIZE), 256}, {S(GLOBAL_HEAD_SIZE), 512}, {S(WINDOW), 512},                   \
              {S(VOCABULARY), 262144}, {S(INPUT_ROWS), 262144})
#define GEMMA3N_CLASS                                                                              \
    OTHERWISE({S(HEAD_SIZE), 256}, {S(WINDOW), 512}, {S(INPUT_SIZE), 256},                         \
              {S(INPUT_ROWS), 262144}, {S(INPUTS), 4}, {S(LAUREL), 64}, {S(VOCABULARY), 262400},   \
              {S(HEADS), 8}, {S(KV_HEADS), 2})
#define LLAMA4_CLASS                                                                               \
    OTHERWISE({S(WINDOW), 8192}, {S(SHARED), 1}, {S(HEAD_SIZE), 128}, {S(SPARSE_STEP), 1})
#define LLAMA4_NAMES                                                                               \
    OWN({S(EXPERT_INNER), "intermediate_size"}, {S(INNER), "intermediate_size_mlp"},               \
        {S(SPARSE_STEP), "interleave_moe_layer_step"}, {S(WINDOW), "attention_chunk_size"})

/* clang-format off */
static const tn__llm_family families[] = {
    {.type = "apertus", .traits = HAS(TEXT) | HAS(UNTIED) | HAS(QUERY_NORM)},
    {.type = "arcee", .traits = HAS(TEXT) | HAS(UNTIED)},
    {.type = "bamba", .traits = LLAMA | MAMBA_2, MAMBA2_CLASS},
    {.type = "bert", .traits = BERT | HAS(TYPED) | HAS(POOLED)},
    {.type = "bloom", .traits = GPT | HAS(EMBEDDING_NORM) | HAS(FUSED)},
    {.type = "cohere", .traits = LLAMA_TIED | HAS(ONE_NORM)},
    {.type = "cohere2", .traits = LLAMA_TIED | HAS(ONE_NORM) | HAS(WINDOWED), .pattern = 4,
     OTHERWISE({S(WINDOW), 4096})},
    {.type = "deepseek_v2", .traits = DEEPSEEK},
    {.type = "deepseek_v3", .traits = DEEPSEEK3},
    {.type = "deepseek_v32", .traits = DEEPSEEK3},
    {.type = "distilbert", .traits = BERT},
    {.type = "dots1", .traits = GLM4_MOE | HAS(QUERY_NORM)},
    {.type = "ernie4_5", .traits = LLAMA_TIED},
    {.type = "ernie4_5_moe", .traits = MIXTURE_TIED | HAS(NARROW) | HAS(SHARING) | HAS(CORRECTED),
     ERNIE_NAMES},
    {.type = "exaone4", .traits = LLAMA | HAS(QUERY_NORM) | HAS(WINDOWED), .pattern = 4},
    {.type = "falcon", .traits = HAS(TEXT) | HAS(SHIFTED) | HAS(PARALLEL) | HAS(ONE_NORM) |
                                 HAS(SINGLE) | HAS(FUSED)},
    {.type = "falcon_h1", .traits = LLAMA | HAS(MAMBA2) | HAS(STATE_BIAS) | HAS(BOTH), MAMBA2_CLASS},
    {.type = "falcon_mamba", .traits = MAMBA1 | HAS(PURE) | HAS(ONE_NORM) | HAS(UNTIED), MAMBA_NAMES,
     MAMBA1_CLASS},
    {.type = "gemma", .traits = LLAMA_TIED, OTHERWISE({S(HEAD_SIZE), 256})},
    {.type = "gemma2", .traits = LLAMA_TIED | HAS(FOUR_NORMS) | HAS(WINDOWED), .pattern = 2,
     OTHERWISE({S(HEAD_SIZE), 256}, {S(WINDOW), 4096})},
    {.type = "gemma3", .traits = GEMMA3 | HAS(SEES), .pattern = 6, GEMMA3_CLASS},
    {.type = "gemma3_text", .traits = GEMMA3, .pattern = 6, GEMMA3_CLASS},
    {.type = "gemma3n", .text = "gemma3n_text", .tower = TN__LLM_TOWER_OTHER},
    {.type = "gemma3n_text", .traits = GEMMA3 | HAS(GEMMA3N), .pattern = 5, GEMMA3N_CLASS},
    {.type = "gemma4", .text = "gemma4_text", .tower = TN__LLM_TOWER_GEMMA4},
    {.type = "gemma4_text", .traits = GEMMA4_TEXT, .pattern = 6, GEMMA4_CLASS},
    {.type = "gemma4_unified", .text = "gemma4_text", .tower = TN__LLM_TOWER_GEMMA4},
    {.type = "glm", .traits = LLAMA | HAS(QUERY_ASKED)},
    {.type = "glm4", .traits = LLAMA | HAS(QUERY_ASKED) | HAS(FOUR_NORMS)},
    {.type = "glm4_moe", .traits = GLM4_MOE},
    {.type = "glm4_moe_lite", .traits = DEEPSEEK3},
    {.type = "glm_moe_dsa", .traits = DEEPSEEK | HAS(CORRECTED) | HAS(MTP_BARE)},
    {.type = "gpt2", .traits = GPT | HAS(LEARNED) | HAS(FUSED)},
    {.type = "gpt_bigcode", .traits = GPT | HAS(LEARNED) | HAS(FUSED) | HAS(SINGLE)},
    {.type = "gpt_neo", .traits = HAS(TEXT) | HAS(SHIFTED) | HAS(OUTPUT_BIAS) | HAS(INNER_BIAS) |
                                  HAS(LEARNED)},
    {.type = "gpt_neox", .traits = GPT | HAS(UNTIED) | HAS(FUSED)},
    {.type = "gpt_oss", .traits = MIXTURE | HAS(QUERY_BIAS) | HAS(OUTPUT_BIAS) | HAS(SINKS) |
                                  HAS(ROUTER_BIAS) | HAS(EXPERT_BIAS) | HAS(WINDOWED),
     .pattern = 2, OTHERWISE({S(HEAD_SIZE), 64}, {S(WINDOW), 128})},
    {.type = "granite", .traits = LLAMA_TIED},
    {.type = "granitemoe", .traits = MIXTURE_TIED},
    {.type = "granitemoehybrid", .traits = MIXTURE_TIED | MAMBA_2, MAMBA2_CLASS,
     OWN({S(SHARED_INNER), "shared_intermediate_size"})},
    {.type = "hunyuan_v1_dense", .traits = LLAMA_TIED | HAS(QUERY_NORM)},
    {.type = "hunyuan_v1_moe", .traits = MIXTURE_TIED | HAS(NARROW) | HAS(SHARING) | HAS(QUERY_NORM),
     OWN({S(CHOSEN), "moe_topk"}, {S(SHARED), "num_shared_expert"})},
    {.type = "internlm2", .traits = LLAMA | HAS(FUSED)},
    {.type = "internlm3", .traits = LLAMA},
    {.type = "internvl", .text = "qwen2", .tower = TN__LLM_TOWER_INTERN},
    {.type = "internvl_chat", .text = "qwen2", .tower = TN__LLM_TOWER_INTERN},
    {.type = "jamba", .traits = MIXTURE | HAS(MAMBA) | HAS(STATE_BIAS) | HAS(STATE_NORMS),
     OTHERWISE({S(STATE_SIZE), 16}, {S(STATE_KERNEL), 4}, {S(STATE_EXPAND), 2}, {S(PERIOD), 8},
               {S(OFFSET), 4}, {S(EXPERT_PERIOD), 2}, {S(EXPERT_OFFSET), 1}, {S(EXPERTS), 16},
               {S(CHOSEN), 2})},
    {.type = "kimi_k2", .traits = DEEPSEEK3},
    {.type = "kimi_k25", .text = "kimi_k2", .tower = TN__LLM_TOWER_OTHER},
    {.type = "kimi_linear", .traits = DEEPSEEK | HAS(CORRECTED) | HAS(KDA),
     OWN({S(CHOSEN), "num_experts_per_token"}, {S(SHARED), "num_shared_experts"})},
    {.type = "lfm2", .traits = LLAMA_TIED | HAS(QUERY_NORM) | HAS(CONV), LFM2,
     OTHERWISE({S(CONV_KERNEL), 3}, {S(MULTIPLE), 256})},
    {.type = "lfm2_moe", .traits = MIXTURE_TIED | HAS(NARROW) | HAS(QUERY_NORM) | HAS(CONV) |
                                   HAS(CORRECTED),
     OWN({S(DENSE_FIRST), "num_dense_layers"}), OTHERWISE({S(CONV_KERNEL), 3})},
    {.type = "llama", .traits = LLAMA},
    {.type = "llama4", .text = "llama4_text", .tower = TN__LLM_TOWER_LLAMA4},
    {.type = "llama4_text", .traits = MIXTURE | HAS(NARROW) | HAS(SHARING) | HAS(WINDOWED) |
                                      HAS(LLAMA4),
     .pattern = 4, LLAMA4_CLASS, LLAMA4_NAMES},
    {.type = "mamba", .traits = MAMBA1 | HAS(PURE) | HAS(ONE_NORM), MAMBA_NAMES, MAMBA1_CLASS},
    {.type = "mamba2", .traits = HAS(TEXT) | MAMBA_2 | HAS(PURE) | HAS(ONE_NORM), MAMBA2_CLASS,
     OWN({S(STATE_HEADS), "num_heads"}, {S(STATE_HEAD_SIZE), "head_dim"})},
    {.type = "mimo", .traits = LLAMA | HAS(QUERY_BIAS) | HAS(QUERY_ALONE) | HAS(WINDOWED) |
                               HAS(WINDOW_ASKED) | HAS(MTP_BARE), WINDOW_28},
    {.type = "mimo_v2_flash", .traits = MIXTURE | HAS(NARROW) | HAS(SHARING) | HAS(CORRECTED) |
                                        HAS(WINDOWED) | HAS(WINDOW_SINKS) | HAS(MTP_BARE),
     .pattern = 6, OTHERWISE({S(WINDOW), 128})},
    {.type = "minimax", .traits = MINIMAX},
    {.type = "minimax_m1", .traits = MINIMAX},
    {.type = "minimax_m2", .traits = MIXTURE | HAS(WIDE_NORM) | HAS(CORRECTED)},
    {.type = "minimax_text_01", .traits = MINIMAX},
    {.type = "ministral3", .traits = LLAMA | HAS(WINDOWED), .pattern = 1},
    {.type = "mistral", .traits = LLAMA | HAS(WINDOWED), .pattern = 1,
     OTHERWISE({S(WINDOW), 4096})},
    {.type = "mistral3", .text = "mistral", .tower = TN__LLM_TOWER_PIXTRAL},
    {.type = "mixtral", .traits = MIXTURE | HAS(WINDOWED), .pattern = 1},
    {.type = "modernbert", .traits = LLAMA_TIED | HAS(ENCODER) | HAS(POOLED) | HAS(HEAD_BIAS)},
    {.type = "nemotron", .traits = HAS(TEXT) | HAS(UNTIED) | HAS(SHIFTED)},
    {.type = "nemotron-nas", .traits = LLAMA, .blocks = true},
    {.type = "nemotron_h", .traits = HAS(TEXT) | HAS(UNTIED) | HAS(EXPERT) | HAS(NARROW) |
                                     HAS(SHARING) | HAS(CORRECTED) | HAS(ONE_NORM) | HAS(PARTS) | MAMBA_2,
     OTHERWISE({S(STATE_KERNEL), 4}, {S(STATE_SIZE), 128}, {S(STATE_GROUPS), 8}),
     OWN({S(SHARED_INNER), "moe_shared_expert_intermediate_size"},
         {S(HEAD_SIZE), "attention_head_dim"})},
    {.type = "olmo", .traits = LLAMA | HAS(NO_NORM)},
    {.type = "olmo2", .traits = LLAMA | HAS(WIDE_NORM)},
    {.type = "olmo3", .traits = LLAMA | HAS(WIDE_NORM) | HAS(WINDOWED), .pattern = 4,
     OTHERWISE({S(WINDOW), 4096})},
    {.type = "olmoe", .traits = MIXTURE | HAS(WIDE_NORM)},
    {.type = "opt", .traits = GPT | HAS(LEARNED) | HAS(POSITIONS_2) | HAS(PROJECTS)},
    {.type = "phi", .traits = GPT | HAS(UNTIED) | HAS(HEAD_BIAS) | HAS(ONE_NORM)},
    {.type = "phi3", .traits = LLAMA | HAS(WINDOWED) | HAS(FUSED), .pattern = 1},
    {.type = "phimoe", .traits = MIXTURE | HAS(SHIFTED) | HAS(WINDOWED), .pattern = 1},
    {.type = "qwen2", .traits = QWEN2, .pattern = 1, WINDOW_28},
    {.type = "qwen2_5_vl", .text = "qwen2", .tower = TN__LLM_TOWER_QWEN2_5},
    {.type = "qwen2_moe", .traits = MIXTURE | HAS(QUERY_BIAS) | HAS(QUERY_ALONE) | HAS(NARROW) |
                                    HAS(SHARED_GATE) | HAS(WINDOWED) | HAS(WINDOW_ASKED),
     .pattern = 1, WINDOW_28},
    {.type = "qwen2_vl", .text = "qwen2", .tower = TN__LLM_TOWER_QWEN2},
    {.type = "qwen3", .traits = QWEN3, .pattern = 1, HEAD_128},
    {.type = "qwen3_5", .text = "qwen3_5_text", .tower = TN__LLM_TOWER_QWEN3},
    {.type = "qwen3_5_moe", .text = "qwen3_5_moe_text", .tower = TN__LLM_TOWER_QWEN3},
    {.type = "qwen3_5_moe_text", .traits = QWEN3_NEXT, DELTA_CLASS},
    {.type = "qwen3_5_text", .traits = LLAMA | DELTA, DELTA_CLASS},
    {.type = "qwen3_moe", .traits = QWEN3_MOE, .pattern = 1, HEAD_128},
    {.type = "qwen3_next", .traits = QWEN3_NEXT, DELTA_CLASS},
    {.type = "qwen3_vl", .text = "qwen3", .tower = TN__LLM_TOWER_QWEN3},
    {.type = "qwen3_vl_moe", .text = "qwen3_moe", .tower = TN__LLM_TOWER_QWEN3},
    {.type = "roberta", .traits = BERT | HAS(TYPED) | HAS(POOLED)},
    {.type = "rwkv", .traits = HAS(TEXT) | HAS(SHIFTED) | HAS(UNTIED) | HAS(RWKV) | HAS(PURE) |
                               HAS(EMBEDDING_NORM)},
    {.type = "seed_oss", .traits = LLAMA | HAS(QUERY_ASKED)},
    {.type = "smollm3", .traits = LLAMA_TIED | HAS(WINDOWED) | HAS(WINDOW_ASKED), .pattern = 1},
    {.type = "solar_open", .traits = GLM4_MOE},
    {.type = "stablelm", .traits = LLAMA | HAS(SHIFTED)},
    {.type = "starcoder2", .traits = GPT | HAS(WINDOWED), .pattern = 1},
    {.type = "t5", .traits = HAS(T5), OTHERWISE({S(BUCKETS), 32})},
    {.type = "vit", .traits = HAS(VIT) | HAS(SHIFTED) | HAS(ENCODER), OTHERWISE({S(CHANNELS), 3})},
    {.type = "whisper", .traits = HAS(WHISPER) | HAS(SHIFTED)},
    {.type = "xlm-roberta", .traits = BERT | HAS(TYPED) | HAS(POOLED)},
};
/* clang-format on */

/* Returns whether `type` is `row`, or `row` without "_text": the text model of "x" may have the
 * type "x_text". */
static bool families_is(const char *row, const char *type) {
    size_t length = strlen(row);
    return strncmp(row, type, length) == 0 &&
           (type[length] == '\0' || strcmp(type + length, "_text") == 0);
}

const tn__llm_family *tn__llm_family_find(const char *type) {
    const tn__llm_family *near = NULL;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        if (strcmp(families[i].type, type) == 0) return &families[i];
        if (families[i].text == NULL && families_is(families[i].type, type)) near = &families[i];
    }
    return near;
}

bool tn__llm_family_names(const char *key) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        for (size_t n = 0; n < 6 && families[i].own[n].name != NULL; n++)
            if (strcmp(families[i].own[n].name, key) == 0) return true;
    return false;
}

const char *tn_llm_family(uint32_t index) {
    return index < sizeof families / sizeof *families ? families[index].type : NULL;
}
