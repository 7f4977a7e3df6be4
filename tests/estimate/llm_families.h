/* llm_families.h - config fields of models of 2024 to 2026, their published parameter counts, and
 * the cache of a token by hand: facts, gathered in ../shared/reference/llm_2026.md with their
 * sources. Quotes of the JSON are single here.
 */
#ifndef TN_TESTS_LLM_FAMILIES_H
#define TN_TESTS_LLM_FAMILIES_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef enum family_source {
    FILE_TOTAL, /* the total of the published files */
    ENUMERATED, /* the arrays of MLX's class, multiplied out by another program */
    RECALLED,   /* known from memory of the hub */
    BY_FORMULA  /* the formula of the reference alone */
} family_source;

#define SIZES(d, l, h, k, f, v)                                                                    \
    "'hidden_size':" #d ",'num_hidden_layers':" #l ",'num_attention_heads':" #h                    \
    ",'num_key_value_heads':" #k ",'intermediate_size':" #f ",'vocab_size':" #v                    \
    ",'max_position_embeddings':32768"
#define HEAD(n) ",'head_dim':" #n
#define MLA(q, c, n, r, v)                                                                         \
    ",'q_lora_rank':" #q ",'kv_lora_rank':" #c ",'qk_nope_head_dim':" #n ",'qk_rope_head_dim':" #r \
    ",'v_head_dim':" #v
#define ROUTED(e, k, w)                                                                            \
    ",'n_routed_experts':" #e ",'num_experts_per_tok':" #k ",'moe_intermediate_size':" #w
#define DELTA(a, b)                                                                                \
    ",'linear_num_key_heads':" #a ",'linear_num_value_heads':" #b                                  \
    ",'linear_key_head_dim':128,'linear_value_head_dim':128,'linear_conv_kernel_dim':4"
#define MAMBA(heads, head, groups, n)                                                              \
    ",'mamba_num_heads':" #heads ",'mamba_head_dim':" #head ",'n_groups':" #groups                 \
    ",'ssm_state_size':" #n ",'conv_kernel':4"

static const struct {
    const char *type, *name, *json; /* without model_type, which is `type` */
    uint64_t parameters;
    family_source source;
    uint64_t token; /* bytes of a token's cache in 16 bits, no window full yet */
    uint64_t state; /* numbers of the constant states of a sequence */
    uint64_t extra; /* parameters of layers that predict further tokens */
} llm_families[] = {
    {"glm", "glm-4-9b", SIZES(4096, 40, 32, 2, 13696, 151552) HEAD(128) ",'attention_bias':true",
     UINT64_C(9399951360), ENUMERATED, 2 * 2 * 2 * 128 * 40, 0, 0},
    {"glm4", "GLM-4-9B-0414",
     SIZES(4096, 40, 32, 2, 13696, 151552) HEAD(128) ",'attention_bias':true", UINT64_C(9400279040),
     ENUMERATED, 2 * 2 * 2 * 128 * 40, 0, 0},
    {"glm4", "GLM-4-32B-0414",
     SIZES(6144, 61, 48, 2, 23040, 151552) HEAD(128) ",'attention_bias':false",
     UINT64_C(32566081536), ENUMERATED, 2 * 2 * 2 * 128 * 61, 0, 0},
    {"glm4_moe", "GLM-4.5-Air",
     SIZES(4096, 46, 96, 8, 10944, 151552) HEAD(128)
         ROUTED(128, 8, 1408) ",'n_shared_experts':1,"
                              "'first_k_dense_replace':1,'attention_bias':true,'use_qk_norm':false,"
                              "'num_nextn_predict_layers':1",
     UINT64_C(106852251264), FILE_TOTAL, 2 * 2 * 8 * 128 * 46, 0,
     UINT64_C(110468824832) - UINT64_C(106852251264)},
    {"glm4_moe_lite", "GLM-4.7-Flash",
     SIZES(2048, 47, 20, 20, 10240, 154880) MLA(768, 512, 192, 64, 256)
         ROUTED(64, 4, 1536) ",'n_shared_experts':1,'first_k_dense_replace':1",
     UINT64_C(29943393920), ENUMERATED, 2 * 576 * 47, 0, 0},
    {"glm_moe_dsa", "GLM-5",
     SIZES(6144, 78, 64, 64, 12288, 154880) MLA(2048, 512, 192, 64, 256)
         ROUTED(256, 8, 2048) ",'n_shared_experts':1,'first_k_dense_replace':3,'index_n_heads':32,'"
                              "index_head_dim':128,"
                              "'num_nextn_predict_layers':1",
     UINT64_C(743911218432), FILE_TOTAL, 2 * (576 + 128) * 78, 0,
     UINT64_C(753864139008) - UINT64_C(743911218432)},
    {"deepseek_v32", "DeepSeek-V3.2",
     SIZES(7168, 61, 128, 128, 18432, 129280) MLA(1536, 512, 128, 64, 128)
         ROUTED(256, 8, 2048) ",'n_shared_experts':1,'first_k_dense_replace':3,'index_n_heads':64,'"
                              "index_head_dim':128,"
                              "'num_nextn_predict_layers':1",
     UINT64_C(671877944064), FILE_TOTAL, 2 * (576 + 128) * 61, 0,
     UINT64_C(685355329792) - UINT64_C(671877944064)},
    {"kimi_k2", "Kimi-K2",
     SIZES(7168, 61, 64, 64, 18432, 163840) MLA(1536, 512, 128, 64, 128) ROUTED(
         384, 8,
         2048) ",'n_shared_experts':1,'first_k_dense_replace':1,'num_nextn_predict_layers':0",
     UINT64_C(1026408232448), ENUMERATED, 2 * 576 * 61, 0, 0},
    {"qwen3_next", "Qwen3-Next-80B-A3B",
     SIZES(2048, 48, 16, 2, 5120, 151936) HEAD(256)
         DELTA(16, 32) ",'num_experts':512,"
                       "'num_experts_per_tok':10,'moe_intermediate_size':512,'shared_expert_"
                       "intermediate_size':512,"
                       "'full_attention_interval':4,'decoder_sparse_step':1,'mlp_only_layers':[]",
     UINT64_C(79674391296), FILE_TOTAL, 2 * 2 * 2 * 256 * 12,
     36 * (32 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128)), 0},
    {"qwen3_5_text", "Qwen3.5-27B, text",
     SIZES(5120, 64, 24, 4, 17408, 248320) HEAD(256) DELTA(16, 48), UINT64_C(26895998464),
     ENUMERATED, 2 * 2 * 4 * 256 * 16, 48 * (48 * 128 * 128 + 3 * (2 * 16 * 128 + 48 * 128)), 0},
    {"qwen3_5_moe_text", "Qwen3.5-35B-A3B, text",
     SIZES(2048, 40, 16, 2, 512, 248320) HEAD(256)
         DELTA(16, 32) ",'num_experts':256,"
                       "'num_experts_per_tok':8,'moe_intermediate_size':512,'shared_expert_"
                       "intermediate_size':512,"
                       "'mtp_num_hidden_layers':1",
     UINT64_C(34660610688), ENUMERATED, 2 * 2 * 2 * 256 * 10,
     30 * (32 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128)), UINT64_C(844640768)},
    {"qwen3_5", "Qwen3.5-27B",
     "'text_config':{'model_type':'qwen3_5_text'," SIZES(5120, 64, 24, 4, 17408, 248320) HEAD(256)
         DELTA(16,
               48) ",'mtp_num_hidden_layers':1},'vision_config':{'hidden_size':1152,"
                   "'intermediate_size':4304,'depth':27,'patch_size':16,'temporal_patch_size':2,"
                   "'out_hidden_size':5120,'num_position_embeddings':2304,'deepstack_visual_"
                   "indexes':[]}",
     UINT64_C(26895998464) + UINT64_C(460730096), FILE_TOTAL, 2 * 2 * 4 * 256 * 16,
     48 * (48 * 128 * 128 + 3 * (2 * 16 * 128 + 48 * 128)),
     UINT64_C(27781427952) - UINT64_C(26895998464) - UINT64_C(460730096)},
    {"qwen3_5_moe", "Qwen3.5-35B-A3B",
     "'text_config':{'model_type':'qwen3_5_moe_text'," SIZES(2048, 40, 16, 2, 512, 248320) HEAD(256)
         DELTA(16,
               32) ",'num_experts':256,'num_experts_per_tok':8,'moe_intermediate_size':512,"
                   "'shared_expert_intermediate_size':512,'mtp_num_hidden_layers':1},'vision_"
                   "config':{"
                   "'hidden_size':1152,'intermediate_size':4304,'depth':27,'out_hidden_size':2048}",
     UINT64_C(35951822704) - UINT64_C(844640768), FILE_TOTAL, 2 * 2 * 2 * 256 * 10,
     30 * (32 * 128 * 128 + 3 * (2 * 16 * 128 + 32 * 128)), UINT64_C(844640768)},
    {"qwen2_vl", "Qwen2-VL-7B",
     SIZES(3584, 28, 28, 4, 18944,
           152064) ",'vision_config':{'embed_dim':1280,'depth':32,"
                   "'mlp_ratio':4,'patch_size':14,'temporal_patch_size':2,'spatial_merge_size':2,"
                   "'hidden_size':3584}",
     UINT64_C(8291375616), RECALLED, 57344, 0, 0},
    {"qwen2_5_vl", "Qwen2.5-VL-7B",
     SIZES(3584, 28, 28, 4, 18944, 152064) ",'vision_config':{'hidden_size':1280,'depth':32,"
                                           "'intermediate_size':3420,'patch_size':14,'temporal_"
                                           "patch_size':2,'out_hidden_size':3584}",
     UINT64_C(8292166656), RECALLED, 57344, 0, 0},
    {"qwen2_5_vl", "Qwen2.5-VL-3B",
     "'text_config':{'model_type':'qwen2_5_vl_text'," SIZES(
         2048, 36, 16, 2, 11008, 151936) "},'tie_word_embeddings':true,'vision_config':{'hidden_"
                                         "size':1280,'out_hidden_size':2048}",
     UINT64_C(3754622976), RECALLED, 2 * 2 * 2 * 128 * 36, 0, 0},
    {"qwen3_vl", "Qwen3-VL-4B",
     "'tie_word_embeddings':true,'text_config':{'model_type':'qwen3_vl_text'," SIZES(
         2560, 36, 32, 8, 9728, 151936)
         HEAD(128) "},'vision_config':{'hidden_size':1024,"
                   "'intermediate_size':4096,'depth':24,'out_hidden_size':2560,"
                   "'deepstack_visual_indexes':[5,11,17]}",
     UINT64_C(4437815808), RECALLED, 147456, 0, 0},
    {"qwen3_vl_moe", "Qwen3-VL-30B-A3B",
     "'text_config':{'model_type':'qwen3_vl_moe_text'," SIZES(2048, 48, 32, 4, 6144, 151936)
         HEAD(128) ",'num_experts':128,'num_experts_per_tok':8,'moe_intermediate_size':768},"
                   "'vision_config':{'hidden_size':1152,'intermediate_size':4304,'depth':27,"
                   "'out_hidden_size':2048,'deepstack_visual_indexes':[8,16,24]}",
     UINT64_C(31070754032), RECALLED, 98304, 0, 0},
    {"mistral3", "Mistral-Small-3.2-24B",
     "'text_config':{'model_type':'mistral'," SIZES(5120, 40, 32, 8, 32768, 131072) HEAD(
         128) ",'sliding_window':null},'vision_config':{'model_type':'pixtral','hidden_size':1024,"
              "'intermediate_size':4096,'num_hidden_layers':24,'patch_size':14}",
     UINT64_C(24011361280), FILE_TOTAL, 2 * 2 * 8 * 128 * 40, 0, 0},
    {"internvl_chat", "InternVL3-8B",
     "'llm_config':{'model_type':'qwen2'," SIZES(
         3584, 28, 28, 4, 18944, 151674) "},"
                                         "'vision_config':{'model_type':'intern_vit_6b','hidden_"
                                         "size':1024,'intermediate_size':4096,"
                                         "'num_hidden_layers':24,'patch_size':14,'image_size':448}",
     UINT64_C(7944373760), RECALLED, 57344, 0, 0},
    {"llama4", "Llama-4-Scout",
     "'text_config':{'model_type':'llama4_text'," SIZES(5120, 48, 40, 8, 8192, 202048) HEAD(
         128) ",'intermediate_size_mlp':16384,'num_local_experts':16,'num_experts_per_tok':1,"
              "'interleave_moe_layer_step':1,'attention_chunk_size':8192},'vision_config':{"
              "'hidden_size':1408,'intermediate_size':5632,'num_hidden_layers':34,'image_size':336,"
              "'patch_size':14,'vision_output_dim':4096}",
     UINT64_C(108641793536), FILE_TOTAL, 2 * 2 * 8 * 128 * 48, 0, 0},
    {"gemma3n_text", "Gemma-3n-E4B, text",
     SIZES(2048, 35, 8, 2, 16384, 262400)
         HEAD(256) ",'sliding_window':512,"
                   "'num_kv_shared_layers':15,'altup_num_inputs':4,'laurel_rank':64,"
                   "'hidden_size_per_layer_input':256,'vocab_size_per_layer_input':262144",
     UINT64_C(6866696688), ENUMERATED, 2 * 2 * 2 * 256 * 20, 0, 0},
    {"gemma3n_text", "Gemma-3n-E2B, text",
     SIZES(2048, 30, 8, 2, 8192, 262400)
         HEAD(256) ",'sliding_window':512,"
                   "'num_kv_shared_layers':10,'altup_num_inputs':4,'laurel_rank':64,"
                   "'hidden_size_per_layer_input':256,'vocab_size_per_layer_input':262144",
     UINT64_C(4456156768), ENUMERATED, 2 * 2 * 2 * 256 * 20, 0, 0},
    {"gemma4", "Gemma-4-31B",
     "'text_config':{'model_type':'gemma4_text'," SIZES(5376, 60, 32, 16, 21504, 262144) HEAD(
         256) ",'global_head_dim':512,'num_global_key_value_heads':4,'attention_k_eq_v':true,"
              "'sliding_window':1024,'hidden_size_per_layer_input':0,'num_kv_shared_layers':0},"
              "'vision_config':{'hidden_size':1152,'intermediate_size':4304,'num_hidden_layers':27,"
              "'patch_size':16,'position_embedding_size':10240}",
     UINT64_C(31273088876), FILE_TOTAL, 2 * (10 * 4 * 512 * 2 + 50 * 16 * 256 * 2), 0, 0},
    {"gemma4", "Gemma-4-26B-A4B",
     "'text_config':{'model_type':'gemma4_text'," SIZES(2816, 30, 16, 8, 2112, 262144) HEAD(
         256) ",'global_head_dim':512,'num_global_key_value_heads':2,'attention_k_eq_v':true,"
              "'sliding_window':1024,'enable_moe_block':true,'num_experts':128,'top_k_experts':8,"
              "'moe_intermediate_size':704},'vision_config':{'hidden_size':1152,'intermediate_size'"
              ":4304,"
              "'num_hidden_layers':27,'patch_size':16}",
     UINT64_C(25805936206), FILE_TOTAL, 2 * (5 * 2 * 512 * 2 + 25 * 8 * 256 * 2), 0, 0},
    {"gemma4_text", "Gemma-4-E2B, text",
     SIZES(1536, 35, 8, 1, 6144, 262144) HEAD(
         256) ",'global_head_dim':512,'sliding_window':512,"
              "'sliding_window_pattern':5,'num_kv_shared_layers':20,'use_double_wide_mlp':true,"
              "'hidden_size_per_layer_input':256,'vocab_size_per_layer_input':262144",
     UINT64_C(5123178051) - UINT64_C(472189216) - 2304 * 1536, FILE_TOTAL,
     2 * (3 * 512 * 2 + 12 * 256 * 2), 0, 0},
    {"minimax_m2", "MiniMax-M2",
     SIZES(3072, 62, 48, 8, 1536, 200064) HEAD(128) ",'num_local_experts':256,"
                                                    "'num_experts_per_tok':8,'use_qk_norm':true",
     UINT64_C(228689764864), FILE_TOTAL, 2 * 2 * 8 * 128 * 62, 0, 0},
    {"minimax_m1", "MiniMax-Text-01",
     SIZES(6144, 80, 64, 8, 9216, 200064) HEAD(
         128) ",'num_local_experts':32,"
              "'num_experts_per_tok':2,'attn_type_list':[0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,"
              "0,0,1,"
              "0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1,"
              "0,0,0,0,0,0,0,1,0,0,0,0,0,0,0,1]",
     UINT64_C(456089655296), RECALLED, 2 * 2 * 8 * 128 * 10, UINT64_C(70) * 64 * 128 * 128, 0},
    {"jamba", "Jamba-v0.1",
     SIZES(4096, 32, 32, 8, 14336,
           65536) ",'num_experts':16,'num_experts_per_tok':2,"
                  "'mamba_d_state':16,'mamba_d_conv':4,'mamba_expand':2,'mamba_dt_rank':256,"
                  "'attn_layer_period':8,'attn_layer_offset':4,'expert_layer_period':2,'expert_"
                  "layer_offset':1",
     UINT64_C(51570323328), ENUMERATED, 2 * 2 * 8 * 128 * 4, 28 * (8192 * 16 + 3 * 8192), 0},
    {"mamba", "mamba-130m",
     "'hidden_size':768,'num_hidden_layers':24,'intermediate_size':1536,'state_size':16,"
     "'time_step_rank':48,'conv_kernel':4,'vocab_size':50280",
     UINT64_C(129135360), ENUMERATED, 0, 24 * (1536 * 16 + 3 * 1536), 0},
    {"mamba2", "mamba2-2.7b",
     "'hidden_size':2560,'num_hidden_layers':64,'num_heads':80,'head_dim':64,'n_groups':1,"
     "'state_size':128,'expand':2,'conv_kernel':4,'vocab_size':50288,'tie_word_embeddings':true",
     UINT64_C(2702599680), ENUMERATED, 0, 64 * (5120 * 128 + 3 * (5120 + 256)), 0},
    {"mamba2", "Mamba-Codestral-7B",
     "'hidden_size':4096,'num_hidden_layers':64,'num_heads':128,'head_dim':64,'n_groups':8,"
     "'state_size':128,'expand':2,'conv_kernel':4,'vocab_size':32768,'tie_word_embeddings':false",
     UINT64_C(7285403648), ENUMERATED, 0, 64 * (8192 * 128 + 3 * (8192 + 2048)), 0},
    {"nemotron_h", "Nemotron-3-Nano-30B",
     SIZES(2688, 52, 32, 2, 1856, 131072) HEAD(128) MAMBA(64, 64, 8, 128)
         ROUTED(128, 6, 1856) ",'moe_shared_expert_intermediate_size':3712,'n_shared_experts':1,'"
                              "hybrid_override_pattern':"
                              "'MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME'",
     UINT64_C(31577940288), ENUMERATED, 2 * 2 * 2 * 128 * 6, 23 * (4096 * 128 + 3 * (4096 + 2048)),
     0},
    {"granite", "granite-3.1-8b",
     SIZES(4096, 40, 32, 8, 12800, 49155) ",'tie_word_embeddings':true", UINT64_C(8170848256),
     ENUMERATED, 2 * 2 * 8 * 128 * 40, 0, 0},
    {"granite", "granite-3.3-8b", SIZES(4096, 40, 32, 8, 12800, 49159), UINT64_C(8170864640),
     FILE_TOTAL, 2 * 2 * 8 * 128 * 40, 0, 0},
    {"granitemoe", "granite-3.1-1b-a400m",
     SIZES(1024, 24, 16, 8, 512, 49155) ",'num_local_experts':32,'num_experts_per_tok':8",
     UINT64_C(1334628352), ENUMERATED, 2 * 2 * 8 * 64 * 24, 0, 0},
    {"granitemoehybrid", "granite-4.0-h-small",
     SIZES(4096, 40, 32, 8, 768,
           100352) ",'mamba_n_heads':128,'mamba_d_head':64,"
                   "'mamba_n_groups':1,'mamba_d_state':128,'mamba_d_conv':4,'num_local_experts':72,"
                   "'num_experts_per_tok':10,'shared_intermediate_size':1536,'layer_types':['mamba'"
                   ",'mamba',"
                   "'mamba','mamba','mamba','attention','mamba','mamba','mamba','mamba','mamba','"
                   "mamba','mamba',"
                   "'mamba','mamba','attention','mamba','mamba','mamba','mamba','mamba','mamba','"
                   "mamba','mamba',"
                   "'mamba','attention','mamba','mamba','mamba','mamba','mamba','mamba','mamba','"
                   "mamba','mamba',"
                   "'attention','mamba','mamba','mamba','mamba']",
     UINT64_C(32207337984), FILE_TOTAL, 2 * 2 * 8 * 128 * 4, 36 * (8192 * 128 + 3 * (8192 + 256)),
     0},
    {"bamba", "Bamba-9B",
     SIZES(4096, 32, 32, 8, 14336, 128256) ",'mamba_n_heads':128,'mamba_d_head':64,"
                                           "'mamba_n_groups':1,'mamba_d_state':128,'mamba_d_conv':"
                                           "4,'attn_layer_indices':[9,18,27]",
     UINT64_C(9780235392), BY_FORMULA, 2 * 2 * 8 * 128 * 3, 29 * (8192 * 128 + 3 * (8192 + 256)),
     0},
    {"falcon_h1", "Falcon-H1-0.5B",
     SIZES(1024, 36, 8, 2, 2048, 32784)
         HEAD(64) ",'mamba_d_ssm':1536,'mamba_n_heads':24,"
                  "'mamba_d_head':64,'mamba_n_groups':1,'mamba_d_state':128,'mamba_d_conv':4,"
                  "'mamba_rms_norm':false",
     UINT64_C(521411104), FILE_TOTAL, 2 * 2 * 2 * 64 * 36, 36 * (1536 * 128 + 3 * (1536 + 256)), 0},
    {"lfm2", "LFM2-700M",
     "'hidden_size':1536,'num_hidden_layers':16,'num_attention_heads':24,'num_key_value_heads':8,"
     "'vocab_size':65536,'block_ff_dim':10240,'block_multiple_of':256,'block_ffn_dim_multiplier':"
     "1.0,'block_auto_adjust_ff_dim':true,'conv_L_cache':3,'full_attn_idxs':[2,5,8,10,12,14]",
     UINT64_C(742489344), FILE_TOTAL, 2 * 2 * 8 * 64 * 6, 10 * 2 * 1536, 0},
    {"lfm2_moe", "LFM2-8B-A1B",
     SIZES(2048, 24, 32, 8, 7168,
           65536) ",'num_experts':32,'num_experts_per_tok':4,"
                  "'moe_intermediate_size':1792,'num_dense_layers':2,'use_expert_bias':true,'conv_"
                  "L_cache':3,"
                  "'layer_types':['conv','conv','full_attention','conv','conv','conv','full_"
                  "attention','conv',"
                  "'conv','conv','full_attention','conv','conv','conv','full_attention','conv','"
                  "conv','conv',"
                  "'full_attention','conv','conv','full_attention','conv','conv']",
     UINT64_C(8339930560), FILE_TOTAL, 2 * 2 * 8 * 64 * 6, 18 * 2 * 2048, 0},
    {"smollm3", "SmolLM3-3B", SIZES(2048, 36, 16, 4, 11008, 128256), UINT64_C(3075098624),
     FILE_TOTAL, 2 * 2 * 4 * 128 * 36, 0, 0},
    {"seed_oss", "Seed-OSS-36B",
     SIZES(5120, 64, 80, 8, 27648, 155136) HEAD(128) ",'attention_bias':true,"
                                                     "'attention_out_bias':false",
     UINT64_C(36151104512), FILE_TOTAL, 2 * 2 * 8 * 128 * 64, 0, 0},
    {"ernie4_5", "ERNIE-4.5-0.3B", SIZES(1024, 18, 16, 2, 3072, 103424) HEAD(128),
     UINT64_C(360748032), ENUMERATED, 2 * 2 * 2 * 128 * 18, 0, 0},
    {"ernie4_5_moe", "ERNIE-4.5-21B-A3B",
     SIZES(2560, 28, 20, 4, 12288, 103424) HEAD(
         128) ",'moe_num_experts':64,'moe_k':6,"
              "'moe_intermediate_size':1536,'moe_num_shared_experts':2,'moe_layer_start_index':1,"
              "'moe_layer_interval':1",
     UINT64_C(21825437888), RECALLED, 2 * 2 * 4 * 128 * 28, 0, 0},
    {"exaone4", "EXAONE-4.0-32B",
     SIZES(5120, 64, 40, 8, 27392, 102400) ",'sliding_window':4096,'sliding_window_pattern':'LLLG'",
     UINT64_C(32003216384), ENUMERATED, 2 * 2 * 8 * 128 * 64, 0, 0},
    {"olmo3", "Olmo-3-7B", SIZES(4096, 32, 32, 32, 11008, 100278) ",'sliding_window':4096",
     UINT64_C(7298011136), ENUMERATED, 2 * 2 * 32 * 128 * 32, 0, 0},
    {"cohere", "c4ai-command-r", SIZES(8192, 40, 64, 64, 22528, 256000), UINT64_C(34980831232),
     ENUMERATED, 2 * 2 * 64 * 128 * 40, 0, 0},
    {"cohere", "c4ai-command-r-plus", SIZES(12288, 64, 96, 8, 33792, 256000) ",'use_qk_norm':true",
     UINT64_C(103810674688), ENUMERATED, 2 * 2 * 8 * 128 * 64, 0, 0},
    {"cohere2", "c4ai-command-r7b", SIZES(4096, 32, 32, 8, 14336, 256000), UINT64_C(8028033024),
     ENUMERATED, 2 * 2 * 8 * 128 * 32, 0, 0},
    {"hunyuan_v1_dense", "Hunyuan-0.5B",
     SIZES(1024, 24, 16, 8, 3584, 120818) HEAD(128) ",'use_qk_norm':true", UINT64_C(539010048),
     ENUMERATED, 2 * 2 * 8 * 128 * 24, 0, 0},
    {"hunyuan_v1_moe", "Hunyuan-A13B",
     SIZES(4096, 32, 32, 8, 3072, 128167) HEAD(128) ",'num_experts':64,'moe_topk':[8,8,8],"
                                                    "'moe_intermediate_size':[3072,3072,3072],'num_"
                                                    "shared_expert':[1,1,1],'use_qk_norm':true",
     UINT64_C(80393183232), RECALLED, 2 * 2 * 8 * 128 * 32, 0, 0},
    {"dots1", "dots.llm1",
     SIZES(4096, 62, 32, 32, 10944, 152064) HEAD(128)
         ROUTED(128, 6, 1408) ",'n_shared_experts':2,"
                              "'first_k_dense_replace':1",
     UINT64_C(142774381696), ENUMERATED, 2 * 2 * 32 * 128 * 62, 0, 0},
    {"mimo", "MiMo-7B", SIZES(4096, 36, 32, 8, 11008, 151680) ",'num_nextn_predict_layers':1",
     UINT64_C(7622619136), ENUMERATED, 2 * 2 * 8 * 128 * 36, 0, 0},
    {"mimo_v2_flash", "MiMo-V2-Flash",
     SIZES(4096, 48, 64, 4, 16384, 152576)
         HEAD(192) ",'v_head_dim':128,'swa_head_dim':192,"
                   "'swa_v_head_dim':128,'swa_num_key_value_heads':8,'sliding_window':128,"
                   "'n_routed_experts':256,'num_experts_per_tok':8,'moe_intermediate_size':2048,"
                   "'hybrid_layer_pattern':[0,1,1,1,1,0,1,1,1,1,1,0,1,1,1,1,1,0,1,1,1,1,1,0,1,1,1,"
                   "1,1,0,1,1,1,1,"
                   "1,0,1,1,1,1,1,0,1,1,1,1,1,0],'moe_layer_freq':[0,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,"
                   "1,1,1,1,1,1,"
                   "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
     UINT64_C(308778780864), FILE_TOTAL, 2 * (9 * 4 * 320 + 39 * 8 * 320), 0, 0},
    {"apertus", "Apertus-8B", SIZES(4096, 32, 32, 8, 21504, 131072), UINT64_C(8053338112),
     ENUMERATED, 2 * 2 * 8 * 128 * 32, 0, 0},
    {"internlm2", "internlm2_5-7b", SIZES(4096, 32, 32, 8, 14336, 92544) ",'bias':false",
     UINT64_C(7737708544), ENUMERATED, 2 * 2 * 8 * 128 * 32, 0, 0},
    {"internlm3", "internlm3-8b",
     SIZES(4096, 48, 32, 2, 10240, 128512) HEAD(128) ",'qkv_bias':false", UINT64_C(8804241408),
     ENUMERATED, 2 * 2 * 2 * 128 * 48, 0, 0},
    {"stablelm", "stablelm-2-1.6b", SIZES(2048, 24, 32, 32, 5632, 100352) ",'use_qkv_bias':true",
     UINT64_C(1644515328), ENUMERATED, 2 * 2 * 32 * 64 * 24, 0, 0},
    {"stablelm", "stablelm-2-12b",
     SIZES(5120, 40, 32, 8, 13824, 100352) ",'use_parallel_residual':true,'qk_layernorm':true",
     UINT64_C(12143185920), ENUMERATED, 2 * 2 * 8 * 160 * 40, 0, 0},
    {"rwkv", "rwkv-4-169m",
     "'hidden_size':768,'num_hidden_layers':12,'attention_hidden_size':768,'vocab_size':50277,"
     "'intermediate_size':null,'context_length':1024",
     UINT64_C(169342464), RECALLED, 0, 12 * 5 * 768, 0},
    {"modernbert", "ModernBERT-base", SIZES(768, 22, 12, 12, 1152, 50368), UINT64_C(149655232),
     RECALLED, 0, 0, 0},
    {"modernbert", "ModernBERT-large", SIZES(1024, 28, 16, 16, 2624, 50368), UINT64_C(395881664),
     RECALLED, 0, 0, 0},
    {"qwen3_moe", "Qwen3-Coder-480B-A35B",
     SIZES(6144, 62, 96, 8, 8192, 151936) HEAD(
         128) ",'num_experts':160,'num_experts_per_tok':8,"
              "'moe_intermediate_size':2560,'shared_expert_intermediate_size':0,'use_qk_norm':true,"
              "'decoder_sparse_step':1,'mlp_only_layers':[],'qkv_bias':false",
     UINT64_C(480154875392), FILE_TOTAL, 2 * 2 * 8 * 128 * 62, 0, 0},
    {"kimi_linear", "Kimi-Linear-48B-A3B",
     SIZES(
         2304, 27, 32, 32, 9216,
         163840) ",'kv_lora_rank':512,'q_lora_rank':null,"
                 "'qk_nope_head_dim':128,'qk_rope_head_dim':64,'v_head_dim':128,'num_experts':256,"
                 "'num_experts_per_token':8,'moe_intermediate_size':1024,'num_shared_experts':1,"
                 "'first_k_dense_replace':1,'linear_attn_config':{'full_attn_layers':[4,8,12,16,20,"
                 "24,27],"
                 "'kda_layers':[1,2,3,5,6,7,9,10,11,13,14,15,17,18,19,21,22,23,25,26],'head_dim':"
                 "128,"
                 "'num_heads':32,'short_conv_kernel_size':4}",
     UINT64_C(49122681728), RECALLED, 2 * 576 * 7, 20 * (32 * 128 * 128 + 3 * 3 * 32 * 128), 0},
    {"nemotron-nas", "Llama-3.3-Nemotron-Super-49B",
     "'hidden_size':8192,'num_hidden_layers':80,'num_attention_heads':64,'num_key_value_heads':"
     "null,'intermediate_size':null,'vocab_size':128256,'tie_word_embeddings':false,"
     "'block_configs':[<1 8 2.625><5 8 5.25><2 0 2.625><3 8 5.25><1 0 3.28125><30 8 5.25>"
     "<1 0 1.3125><2 0 2.625><1 0 1.3125><1 0 5.25><1 0 1.3125><1 0 2.625><3 0 1.3125><1 8 5.25>"
     "<1 0 1.3125><2 0 1><1 0 1.3125><3 0 1><2 0 1.3125><2 0 0.5><2 0 1><2 0 0.5><1 0 1>"
     "<2 0 0.5><9 8 5.25>]",
     UINT64_C(49867145216), FILE_TOTAL, 2 * 2 * 8 * 128 * 49, 0, 0},
};

/* Writes the config.json of a row. `<5 8 2.5>` in a row is 5 layers of nemotron-nas with 8 heads in
 * a group, or without attention if 0, and 2.5 as multiple of the inner width. */
static inline size_t llm_family_json(size_t index, char *text, size_t room) {
    size_t used = (size_t)snprintf(text, room, "{'model_type':'%s',", llm_families[index].type);
    for (const char *at = llm_families[index].json; *at != '\0' && used + 80 < room; at++) {
        unsigned times, heads;
        double width;
        if (sscanf(at, "<%u %u %lf>", &times, &heads, &width) != 3) {
            text[used++] = *at;
            continue;
        }
        for (; times > 0 && used + 80 < room; times--)
            used += (size_t)snprintf(
                text + used, room - used,
                "%s{'attention':{'n_heads_in_group':%u,'no_op':%s},'ffn':{'ffn_mult':%g}}",
                text[used - 1] == '[' ? "" : ",", heads, heads == 0 ? "true" : "false", width);
        at = strchr(at, '>');
    }
    used += (size_t)snprintf(text + used, room - used, "}");
    return used;
}

#endif
