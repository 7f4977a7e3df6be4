/* llm_published.h - config fields and parameter counts of public models: facts, gathered in
 * ../shared/reference/llm_configs.md with their sources. Quotes of the JSON are single here.
 */
#ifndef TN_TESTS_LLM_PUBLISHED_H
#define TN_TESTS_LLM_PUBLISHED_H

#include <stdint.h>

typedef enum llm_known {
    PUBLISHED,  /* the count was found in print */
    REMEMBERED, /* recalled, not found in print */
    FORMULA     /* from the reference's own formula alone */
} llm_known;

#define ALTERNATING_2 "'sliding_attention','full_attention'"
#define ALTERNATING_6 ALTERNATING_2 "," ALTERNATING_2 "," ALTERNATING_2
#define ALTERNATING_12 ALTERNATING_6 "," ALTERNATING_6
#define ALTERNATING_24 "[" ALTERNATING_12 "," ALTERNATING_12 "]"
#define ALTERNATING_36 "[" ALTERNATING_12 "," ALTERNATING_12 "," ALTERNATING_12 "]"

static const struct {
    const char *name, *json;
    uint64_t parameters;
    llm_known known;
    uint32_t token; /* bytes of a token's keys and values in all layers, 16 bits; 0: not gathered */
    uint64_t active; /* parameters that a token meets; 0: not gathered */
} llm_published[] = {
    {"gpt2",
     "{'model_type':'gpt2','n_embd':768,'n_layer':12,'n_head':12,'n_positions':1024,'n_inner':null,"
     "'vocab_size':50257}",
     UINT64_C(124439808), PUBLISHED, 36864, UINT64_C(0)},
    {"gpt2-medium",
     "{'model_type':'gpt2','n_embd':1024,'n_layer':24,'n_head':16,'n_positions':1024,'n_inner':"
     "null,'vocab_size':50257}",
     UINT64_C(354823168), REMEMBERED, 0, UINT64_C(0)},
    {"gpt2-large",
     "{'model_type':'gpt2','n_embd':1280,'n_layer':36,'n_head':20,'n_positions':1024,'n_inner':"
     "null,'vocab_size':50257}",
     UINT64_C(774030080), REMEMBERED, 0, UINT64_C(0)},
    {"gpt2-xl",
     "{'model_type':'gpt2','n_embd':1600,'n_layer':48,'n_head':25,'n_positions':1024,'n_inner':"
     "null,'vocab_size':50257}",
     UINT64_C(1557611200), REMEMBERED, 0, UINT64_C(0)},
    {"pythia-70m",
     "{'model_type':'gpt_neox','hidden_size':512,'num_hidden_layers':6,'num_attention_heads':8,'"
     "intermediate_size':2048,'vocab_size':50304,'max_position_embeddings':2048}",
     UINT64_C(70426624), PUBLISHED, 0, UINT64_C(0)},
    {"pythia-160m",
     "{'model_type':'gpt_neox','hidden_size':768,'num_hidden_layers':12,'num_attention_heads':12,'"
     "intermediate_size':3072,'vocab_size':50304,'max_position_embeddings':2048}",
     UINT64_C(162322944), PUBLISHED, 0, UINT64_C(0)},
    {"pythia-410m",
     "{'model_type':'gpt_neox','hidden_size':1024,'num_hidden_layers':24,'num_attention_heads':16,'"
     "intermediate_size':4096,'vocab_size':50304,'max_position_embeddings':2048}",
     UINT64_C(405334016), PUBLISHED, 0, UINT64_C(0)},
    {"pythia-1b",
     "{'model_type':'gpt_neox','hidden_size':2048,'num_hidden_layers':16,'num_attention_heads':8,'"
     "intermediate_size':8192,'vocab_size':50304,'max_position_embeddings':2048}",
     UINT64_C(1011781632), PUBLISHED, 0, UINT64_C(0)},
    {"pythia-1.4b",
     "{'model_type':'gpt_neox','hidden_size':2048,'num_hidden_layers':24,'num_attention_heads':16,'"
     "intermediate_size':8192,'vocab_size':50304,'max_position_embeddings':2048}",
     UINT64_C(1414647808), PUBLISHED, 0, UINT64_C(0)},
    {"pythia-2.8b",
     "{'model_type':'gpt_neox','hidden_size':2560,'num_hidden_layers':32,'num_attention_heads':32,'"
     "intermediate_size':10240,'vocab_size':50304,'max_position_embeddings':2048}",
     UINT64_C(2775208960), PUBLISHED, 0, UINT64_C(0)},
    {"pythia-6.9b",
     "{'model_type':'gpt_neox','hidden_size':4096,'num_hidden_layers':32,'num_attention_heads':32,'"
     "intermediate_size':16384,'vocab_size':50432,'max_position_embeddings':2048}",
     UINT64_C(6857302016), PUBLISHED, 0, UINT64_C(0)},
    {"pythia-12b",
     "{'model_type':'gpt_neox','hidden_size':5120,'num_hidden_layers':36,'num_attention_heads':40,'"
     "intermediate_size':20480,'vocab_size':50688,'max_position_embeddings':2048}",
     UINT64_C(11846072320), PUBLISHED, 737280, UINT64_C(0)},
    {"opt-125m",
     "{'model_type':'opt','hidden_size':768,'num_hidden_layers':12,'num_attention_heads':12,'ffn_"
     "dim':3072,'vocab_size':50272,'max_position_embeddings':2048,'word_embed_proj_dim':768,'do_"
     "layer_norm_before':true}",
     UINT64_C(125239296), REMEMBERED, 0, UINT64_C(0)},
    {"opt-350m",
     "{'model_type':'opt','hidden_size':1024,'num_hidden_layers':24,'num_attention_heads':16,'ffn_"
     "dim':4096,'vocab_size':50272,'max_position_embeddings':2048,'word_embed_proj_dim':512,'do_"
     "layer_norm_before':false}",
     UINT64_C(331196416), REMEMBERED, 0, UINT64_C(0)},
    {"opt-6.7b",
     "{'model_type':'opt','hidden_size':4096,'num_hidden_layers':32,'num_attention_heads':32,'ffn_"
     "dim':16384,'vocab_size':50272,'max_position_embeddings':2048,'word_embed_proj_dim':4096,'do_"
     "layer_norm_before':true}",
     UINT64_C(6658473984), REMEMBERED, 524288, UINT64_C(0)},
    {"opt-30b",
     "{'model_type':'opt','hidden_size':7168,'num_hidden_layers':48,'num_attention_heads':56,'ffn_"
     "dim':28672,'vocab_size':50272,'max_position_embeddings':2048,'word_embed_proj_dim':7168,'do_"
     "layer_norm_before':true}",
     UINT64_C(29974540288), REMEMBERED, 0, UINT64_C(0)},
    {"bloom-560m",
     "{'model_type':'bloom','hidden_size':1024,'n_layer':24,'n_head':16,'vocab_size':250880,'seq_"
     "length':2048}",
     UINT64_C(559214592), PUBLISHED, 0, UINT64_C(0)},
    {"bloom-7b1",
     "{'model_type':'bloom','hidden_size':4096,'n_layer':30,'n_head':32,'vocab_size':250880,'seq_"
     "length':2048}",
     UINT64_C(7069016064), PUBLISHED, 0, UINT64_C(0)},
    {"bloom (176B)",
     "{'model_type':'bloom','hidden_size':14336,'n_layer':70,'n_head':112,'vocab_size':250880,'seq_"
     "length':2048}",
     UINT64_C(176247271424), PUBLISHED, 4014080, UINT64_C(0)},
    {"llama-7b",
     "{'model_type':'llama','hidden_size':4096,'num_hidden_layers':32,'num_attention_heads':32,'"
     "intermediate_size':11008,'vocab_size':32000,'max_position_embeddings':2048}",
     UINT64_C(6738415616), REMEMBERED, 0, UINT64_C(0)},
    {"llama-13b / llama-2-13b",
     "{'model_type':'llama','hidden_size':5120,'num_hidden_layers':40,'num_attention_heads':40,'"
     "intermediate_size':13824,'vocab_size':32000,'max_position_embeddings':2048,'num_key_value_"
     "heads':40}",
     UINT64_C(13015864320), PUBLISHED, 0, UINT64_C(0)},
    {"llama-65b",
     "{'model_type':'llama','hidden_size':8192,'num_hidden_layers':80,'num_attention_heads':64,'"
     "intermediate_size':22016,'vocab_size':32000,'max_position_embeddings':2048}",
     UINT64_C(65285660672), REMEMBERED, 0, UINT64_C(0)},
    {"llama-2-7b",
     "{'model_type':'llama','hidden_size':4096,'num_hidden_layers':32,'num_attention_heads':32,'"
     "intermediate_size':11008,'vocab_size':32000,'max_position_embeddings':4096,'num_key_value_"
     "heads':32}",
     UINT64_C(6738415616), PUBLISHED, 524288, UINT64_C(0)},
    {"llama-2-70b",
     "{'model_type':'llama','hidden_size':8192,'num_hidden_layers':80,'num_attention_heads':64,'"
     "intermediate_size':28672,'vocab_size':32000,'max_position_embeddings':4096,'num_key_value_"
     "heads':8}",
     UINT64_C(68976648192), PUBLISHED, 327680, UINT64_C(0)},
    {"llama-3-8b, 3.1-8b",
     "{'model_type':'llama','hidden_size':4096,'num_hidden_layers':32,'num_attention_heads':32,'"
     "intermediate_size':14336,'vocab_size':128256,'max_position_embeddings':8192,'num_key_value_"
     "heads':8}",
     UINT64_C(8030261248), PUBLISHED, 131072, UINT64_C(0)},
    {"llama-3.x-70b",
     "{'model_type':'llama','hidden_size':8192,'num_hidden_layers':80,'num_attention_heads':64,'"
     "intermediate_size':28672,'vocab_size':128256,'max_position_embeddings':8192,'num_key_value_"
     "heads':8}",
     UINT64_C(70553706496), PUBLISHED, 327680, UINT64_C(0)},
    {"llama-3.1-405b",
     "{'model_type':'llama','hidden_size':16384,'num_hidden_layers':126,'num_attention_heads':128,'"
     "intermediate_size':53248,'vocab_size':128256,'max_position_embeddings':131072,'num_key_value_"
     "heads':8}",
     UINT64_C(405853388800), PUBLISHED, 516096, UINT64_C(0)},
    {"llama-3.2-1b",
     "{'model_type':'llama','hidden_size':2048,'num_hidden_layers':16,'num_attention_heads':32,'"
     "intermediate_size':8192,'vocab_size':128256,'max_position_embeddings':131072,'num_key_value_"
     "heads':8,'tie_word_embeddings':true}",
     UINT64_C(1235814400), PUBLISHED, 32768, UINT64_C(0)},
    {"llama-3.2-3b",
     "{'model_type':'llama','hidden_size':3072,'num_hidden_layers':28,'num_attention_heads':24,'"
     "intermediate_size':8192,'vocab_size':128256,'max_position_embeddings':131072,'num_key_value_"
     "heads':8,'tie_word_embeddings':true}",
     UINT64_C(3212749824), PUBLISHED, 114688, UINT64_C(0)},
    {"mistral-7b-v0.1",
     "{'model_type':'mistral','hidden_size':4096,'num_hidden_layers':32,'num_attention_heads':32,'"
     "intermediate_size':14336,'vocab_size':32000,'max_position_embeddings':32768,'num_key_value_"
     "heads':8,'sliding_window':4096}",
     UINT64_C(7241732096), PUBLISHED, 131072, UINT64_C(0)},
    {"mistral-7b-v0.3",
     "{'model_type':'mistral','hidden_size':4096,'num_hidden_layers':32,'num_attention_heads':32,'"
     "intermediate_size':14336,'vocab_size':32768,'max_position_embeddings':32768,'num_key_value_"
     "heads':8,'sliding_window':null}",
     UINT64_C(7248023552), PUBLISHED, 0, UINT64_C(0)},
    {"mixtral-8x7b",
     "{'model_type':'mixtral','hidden_size':4096,'num_hidden_layers':32,'num_attention_heads':32,'"
     "intermediate_size':14336,'vocab_size':32000,'max_position_embeddings':32768,'num_key_value_"
     "heads':8,'num_local_experts':8,'num_experts_per_tok':2,'sliding_window':null}",
     UINT64_C(46702792704), PUBLISHED, 131072, UINT64_C(12879925248)},
    {"mixtral-8x22b",
     "{'model_type':'mixtral','hidden_size':6144,'num_hidden_layers':56,'num_attention_heads':48,'"
     "intermediate_size':16384,'vocab_size':32000,'max_position_embeddings':65536,'num_key_value_"
     "heads':8,'num_local_experts':8,'num_experts_per_tok':2,'sliding_window':null}",
     UINT64_C(140620634112), REMEMBERED, 229376, UINT64_C(39152031744)},
    {"gemma-2b",
     "{'model_type':'gemma','hidden_size':2048,'num_hidden_layers':18,'num_attention_heads':8,'"
     "intermediate_size':16384,'vocab_size':256000,'max_position_embeddings':8192,'num_key_value_"
     "heads':1,'head_dim':256,'sliding_window':4096}",
     UINT64_C(2506172416), REMEMBERED, 18432, UINT64_C(0)},
    {"gemma-7b",
     "{'model_type':'gemma','hidden_size':3072,'num_hidden_layers':28,'num_attention_heads':16,'"
     "intermediate_size':24576,'vocab_size':256000,'max_position_embeddings':8192,'num_key_value_"
     "heads':16,'head_dim':256}",
     UINT64_C(8537680896), REMEMBERED, 458752, UINT64_C(0)},
    {"gemma-2-2b",
     "{'model_type':'gemma2','hidden_size':2304,'num_hidden_layers':26,'num_attention_heads':8,'"
     "intermediate_size':9216,'vocab_size':256000,'max_position_embeddings':8192,'num_key_value_"
     "heads':4,'head_dim':256,'sliding_window':4096}",
     UINT64_C(2614341888), PUBLISHED, 0, UINT64_C(0)},
    {"gemma-2-9b",
     "{'model_type':'gemma2','hidden_size':3584,'num_hidden_layers':42,'num_attention_heads':16,'"
     "intermediate_size':14336,'vocab_size':256000,'max_position_embeddings':8192,'num_key_value_"
     "heads':8,'head_dim':256,'sliding_window':4096}",
     UINT64_C(9241705984), PUBLISHED, 344064, UINT64_C(0)},
    {"gemma-2-27b",
     "{'model_type':'gemma2','hidden_size':4608,'num_hidden_layers':46,'num_attention_heads':32,'"
     "intermediate_size':36864,'vocab_size':256000,'max_position_embeddings':8192,'num_key_value_"
     "heads':16,'head_dim':128,'sliding_window':4096}",
     UINT64_C(27227128320), PUBLISHED, 0, UINT64_C(0)},
    {"gemma-3-1b",
     "{'model_type':'gemma3_text','hidden_size':1152,'num_hidden_layers':26,'num_attention_heads':"
     "4,'intermediate_size':6912,'vocab_size':262144,'max_position_embeddings':32768,'num_key_"
     "value_heads':1,'head_dim':256,'sliding_window':512,'sliding_window_pattern':6}",
     UINT64_C(999885952), PUBLISHED, 0, UINT64_C(0)},
    {"gemma-3-4b",
     "{'model_type':'gemma3','text_config':{'model_type':'gemma3_text','hidden_size':2560,'num_"
     "hidden_layers':34,'intermediate_size':10240,'sliding_window':1024},'vision_config':{'hidden_"
     "size':1152,'intermediate_size':4304,'num_hidden_layers':27,'num_attention_heads':16,'image_"
     "size':896,'patch_size':14,'vision_use_head':false}}",
     UINT64_C(4300079472), PUBLISHED, 0, UINT64_C(0)},
    {"gemma-3-12b",
     "{'model_type':'gemma3','text_config':{'model_type':'gemma3_text','hidden_size':3840,'num_"
     "hidden_layers':48,'num_attention_heads':16,'intermediate_size':15360,'vocab_size':262208,'"
     "max_position_embeddings':131072,'num_key_value_heads':8,'sliding_window':1024,'sliding_"
     "window_pattern':6,'head_dim':256},'vision_config':{'hidden_size':1152,'intermediate_size':"
     "4304,'num_hidden_layers':27,'num_attention_heads':16,'image_size':896,'patch_size':14,'"
     "vision_use_head':false}}",
     UINT64_C(12187325040), PUBLISHED, 0, UINT64_C(0)},
    {"gemma-3-27b",
     "{'model_type':'gemma3','text_config':{'model_type':'gemma3_text','hidden_size':5376,'num_"
     "hidden_layers':62,'num_attention_heads':32,'intermediate_size':21504,'vocab_size':262208,'"
     "max_position_embeddings':131072,'num_key_value_heads':16,'sliding_window':1024,'sliding_"
     "window_pattern':6,'head_dim':128},'vision_config':{'hidden_size':1152,'intermediate_size':"
     "4304,'num_hidden_layers':27,'num_attention_heads':16,'image_size':896,'patch_size':14,'"
     "vision_use_head':false}}",
     UINT64_C(27432406640), PUBLISHED, 507904, UINT64_C(0)},
    {"qwen2(.5)-0.5b",
     "{'model_type':'qwen2','hidden_size':896,'num_hidden_layers':24,'num_attention_heads':14,'"
     "intermediate_size':4864,'vocab_size':151936,'max_position_embeddings':32768,'num_key_value_"
     "heads':2,'use_sliding_window':false,'sliding_window':32768,'max_window_layers':24,'tie_word_"
     "embeddings':true}",
     UINT64_C(494032768), PUBLISHED, 0, UINT64_C(0)},
    {"qwen2(.5)-1.5b",
     "{'model_type':'qwen2','hidden_size':1536,'num_hidden_layers':28,'num_attention_heads':12,'"
     "intermediate_size':8960,'vocab_size':151936,'max_position_embeddings':32768,'num_key_value_"
     "heads':2,'use_sliding_window':false,'sliding_window':32768,'max_window_layers':28,'tie_word_"
     "embeddings':true}",
     UINT64_C(1543714304), PUBLISHED, 0, UINT64_C(0)},
    {"qwen2.5-3b",
     "{'model_type':'qwen2','hidden_size':2048,'num_hidden_layers':36,'num_attention_heads':16,'"
     "intermediate_size':11008,'vocab_size':151936,'max_position_embeddings':32768,'num_key_value_"
     "heads':2,'use_sliding_window':false,'sliding_window':32768,'max_window_layers':36,'tie_word_"
     "embeddings':true}",
     UINT64_C(3085938688), PUBLISHED, 0, UINT64_C(0)},
    {"qwen2(.5)-7b",
     "{'model_type':'qwen2','hidden_size':3584,'num_hidden_layers':28,'num_attention_heads':28,'"
     "intermediate_size':18944,'vocab_size':152064,'max_position_embeddings':32768,'num_key_value_"
     "heads':4,'use_sliding_window':false,'sliding_window':131072,'max_window_layers':28}",
     UINT64_C(7615616512), PUBLISHED, 57344, UINT64_C(0)},
    {"qwen2.5-14b",
     "{'model_type':'qwen2','hidden_size':5120,'num_hidden_layers':48,'num_attention_heads':40,'"
     "intermediate_size':13824,'vocab_size':152064,'max_position_embeddings':32768,'num_key_value_"
     "heads':8,'use_sliding_window':false,'sliding_window':32768,'max_window_layers':48}",
     UINT64_C(14770033664), REMEMBERED, 0, UINT64_C(0)},
    {"qwen2.5-32b",
     "{'model_type':'qwen2','hidden_size':5120,'num_hidden_layers':64,'num_attention_heads':40,'"
     "intermediate_size':27648,'vocab_size':152064,'max_position_embeddings':32768,'num_key_value_"
     "heads':8,'use_sliding_window':false,'sliding_window':32768,'max_window_layers':64}",
     UINT64_C(32763876352), REMEMBERED, 0, UINT64_C(0)},
    {"qwen2.5-72b",
     "{'model_type':'qwen2','hidden_size':8192,'num_hidden_layers':80,'num_attention_heads':64,'"
     "intermediate_size':29568,'vocab_size':152064,'max_position_embeddings':32768,'num_key_value_"
     "heads':8,'use_sliding_window':false,'sliding_window':32768,'max_window_layers':80}",
     UINT64_C(72706203648), PUBLISHED, 327680, UINT64_C(0)},
    {"qwen3-0.6b",
     "{'model_type':'qwen3','hidden_size':1024,'num_hidden_layers':28,'num_attention_heads':16,'"
     "intermediate_size':3072,'vocab_size':151936,'max_position_embeddings':40960,'num_key_value_"
     "heads':8,'head_dim':128,'tie_word_embeddings':true}",
     UINT64_C(596049920), PUBLISHED, 114688, UINT64_C(0)},
    {"qwen3-1.7b",
     "{'model_type':'qwen3','hidden_size':2048,'num_hidden_layers':28,'num_attention_heads':16,'"
     "intermediate_size':6144,'vocab_size':151936,'max_position_embeddings':40960,'num_key_value_"
     "heads':8,'head_dim':128,'tie_word_embeddings':true}",
     UINT64_C(1720574976), PUBLISHED, 0, UINT64_C(0)},
    {"qwen3-4b",
     "{'model_type':'qwen3','hidden_size':2560,'num_hidden_layers':36,'num_attention_heads':32,'"
     "intermediate_size':9728,'vocab_size':151936,'max_position_embeddings':40960,'num_key_value_"
     "heads':8,'head_dim':128,'tie_word_embeddings':true}",
     UINT64_C(4022468096), PUBLISHED, 0, UINT64_C(0)},
    {"qwen3-8b",
     "{'model_type':'qwen3','hidden_size':4096,'num_hidden_layers':36,'num_attention_heads':32,'"
     "intermediate_size':12288,'vocab_size':151936,'max_position_embeddings':40960,'num_key_value_"
     "heads':8,'head_dim':128}",
     UINT64_C(8190735360), PUBLISHED, 147456, UINT64_C(0)},
    {"qwen3-14b",
     "{'model_type':'qwen3','hidden_size':5120,'num_hidden_layers':40,'num_attention_heads':40,'"
     "intermediate_size':17408,'vocab_size':151936,'max_position_embeddings':40960,'num_key_value_"
     "heads':8,'head_dim':128}",
     UINT64_C(14768307200), REMEMBERED, 0, UINT64_C(0)},
    {"qwen3-32b",
     "{'model_type':'qwen3','hidden_size':5120,'num_hidden_layers':64,'num_attention_heads':64,'"
     "intermediate_size':25600,'vocab_size':151936,'max_position_embeddings':40960,'num_key_value_"
     "heads':8,'head_dim':128}",
     UINT64_C(32762123264), PUBLISHED, 0, UINT64_C(0)},
    {"qwen3-30b-a3b",
     "{'model_type':'qwen3_moe','hidden_size':2048,'num_hidden_layers':48,'num_attention_heads':32,"
     "'intermediate_size':6144,'vocab_size':151936,'max_position_embeddings':40960,'num_key_value_"
     "heads':4,'head_dim':128,'num_experts':128,'num_experts_per_tok':8,'moe_intermediate_size':"
     "768}",
     UINT64_C(30532122624), PUBLISHED, 98304, UINT64_C(3353032704)},
    {"qwen3-235b-a22b",
     "{'model_type':'qwen3_moe','hidden_size':4096,'num_hidden_layers':94,'num_attention_heads':64,"
     "'intermediate_size':12288,'vocab_size':151936,'max_position_embeddings':40960,'num_key_value_"
     "heads':4,'head_dim':128,'num_experts':128,'num_experts_per_tok':8,'moe_intermediate_size':"
     "1536}",
     UINT64_C(235093634560), PUBLISHED, 192512, UINT64_C(22190763520)},
    {"phi-2",
     "{'model_type':'phi','hidden_size':2560,'num_hidden_layers':32,'num_attention_heads':32,'num_"
     "key_value_heads':null,'intermediate_size':10240,'vocab_size':51200,'max_position_embeddings':"
     "2048,'partial_rotary_factor':0.4,'qk_layernorm':false,'tie_word_embeddings':false}",
     UINT64_C(2779683840), REMEMBERED, 327680, UINT64_C(0)},
    {"phi-3-mini, 3.5-mini",
     "{'model_type':'phi3','hidden_size':3072,'num_hidden_layers':32,'num_attention_heads':32,'"
     "intermediate_size':8192,'vocab_size':32064,'max_position_embeddings':4096,'num_key_value_"
     "heads':32,'sliding_window':2047}",
     UINT64_C(3821079552), PUBLISHED, 393216, UINT64_C(0)},
    {"phi-4",
     "{'model_type':'phi3','hidden_size':5120,'num_hidden_layers':40,'num_attention_heads':40,'"
     "intermediate_size':17920,'vocab_size':100352,'max_position_embeddings':16384,'num_key_value_"
     "heads':10,'sliding_window':null}",
     UINT64_C(14659507200), PUBLISHED, 0, UINT64_C(0)},
    {"phi-4-mini",
     "{'model_type':'phi3','hidden_size':3072,'num_hidden_layers':32,'num_attention_heads':24,'"
     "intermediate_size':8192,'vocab_size':200064,'max_position_embeddings':131072,'num_key_value_"
     "heads':8,'sliding_window':null,'tie_word_embeddings':true}",
     UINT64_C(3836021760), PUBLISHED, 0, UINT64_C(0)},
    {"phi-3.5-moe",
     "{'model_type':'phimoe','hidden_size':4096,'num_hidden_layers':32,'num_attention_heads':32,'"
     "intermediate_size':6400,'vocab_size':32064,'max_position_embeddings':131072,'num_key_value_"
     "heads':8,'num_local_experts':16,'num_experts_per_tok':2,'attention_bias':true,'lm_head_bias':"
     "true}",
     UINT64_C(41873153344), REMEMBERED, 131072, UINT64_C(6640999744)},
    {"falcon-7b",
     "{'model_type':'falcon','hidden_size':4544,'num_hidden_layers':32,'num_attention_heads':71,'"
     "vocab_size':65024,'bias':false,'alibi':false,'parallel_attn':true,'multi_query':true,'new_"
     "decoder_architecture':false,'num_kv_heads':71}",
     UINT64_C(6921720704), REMEMBERED, 8192, UINT64_C(0)},
    {"falcon-40b",
     "{'model_type':'falcon','hidden_size':8192,'num_hidden_layers':60,'num_attention_heads':128,'"
     "vocab_size':65024,'bias':false,'alibi':false,'parallel_attn':true,'multi_query':true,'new_"
     "decoder_architecture':true,'num_kv_heads':8}",
     UINT64_C(41303293952), FORMULA, 122880, UINT64_C(0)},
    {"falcon-180b",
     "{'model_type':'falcon','hidden_size':14848,'num_hidden_layers':80,'num_attention_heads':232,'"
     "vocab_size':65024,'bias':false,'alibi':false,'parallel_attn':true,'multi_query':true,'new_"
     "decoder_architecture':true,'num_kv_heads':8}",
     UINT64_C(178557088768), PUBLISHED, 0, UINT64_C(0)},
    {"deepseek-v2-lite",
     "{'model_type':'deepseek_v2','hidden_size':2048,'num_hidden_layers':27,'num_attention_heads':"
     "16,'num_key_value_heads':16,'intermediate_size':10944,'vocab_size':102400,'max_position_"
     "embeddings':163840,'q_lora_rank':null,'kv_lora_rank':512,'qk_nope_head_dim':128,'qk_rope_"
     "head_dim':64,'v_head_dim':128,'n_routed_experts':64,'n_shared_experts':2,'num_experts_per_"
     "tok':6,'moe_intermediate_size':1408,'first_k_dense_replace':1,'moe_layer_freq':1,'tie_word_"
     "embeddings':false}",
     UINT64_C(15706484224), PUBLISHED, 31104, UINT64_C(2661150208)},
    {"deepseek-v2",
     "{'model_type':'deepseek_v2','hidden_size':5120,'num_hidden_layers':60,'num_attention_heads':"
     "128,'num_key_value_heads':128,'intermediate_size':12288,'vocab_size':102400,'max_position_"
     "embeddings':163840,'q_lora_rank':1536,'kv_lora_rank':512,'qk_nope_head_dim':128,'qk_rope_"
     "head_dim':64,'v_head_dim':128,'n_routed_experts':160,'n_shared_experts':2,'num_experts_per_"
     "tok':6,'moe_intermediate_size':1536,'first_k_dense_replace':1,'moe_layer_freq':1,'tie_word_"
     "embeddings':false}",
     UINT64_C(235741434880), PUBLISHED, 69120, UINT64_C(21375800320)},
    {"deepseek-v3 / r1",
     "{'model_type':'deepseek_v3','hidden_size':7168,'num_hidden_layers':61,'num_attention_heads':"
     "128,'num_key_value_heads':128,'intermediate_size':18432,'vocab_size':129280,'max_position_"
     "embeddings':163840,'q_lora_rank':1536,'kv_lora_rank':512,'qk_nope_head_dim':128,'qk_rope_"
     "head_dim':64,'v_head_dim':128,'n_routed_experts':256,'n_shared_experts':1,'num_experts_per_"
     "tok':8,'moe_intermediate_size':2048,'first_k_dense_replace':3,'moe_layer_freq':1,'tie_word_"
     "embeddings':false,'num_nextn_predict_layers':1,'quantization_config':{'quant_method':'fp8','"
     "weight_block_size':[128,128]}}",
     UINT64_C(671026419200), PUBLISHED, 70272, UINT64_C(37552297472)},
    {"olmo-1b-hf",
     "{'model_type':'olmo','hidden_size':2048,'num_hidden_layers':16,'num_attention_heads':16,'"
     "intermediate_size':8192,'vocab_size':50304,'max_position_embeddings':2048,'tie_word_"
     "embeddings':true}",
     UINT64_C(1176764416), REMEMBERED, 0, UINT64_C(0)},
    {"olmo-7b-hf",
     "{'model_type':'olmo','hidden_size':4096,'num_hidden_layers':32,'num_attention_heads':32,'"
     "intermediate_size':11008,'vocab_size':50304,'max_position_embeddings':2048,'num_key_value_"
     "heads':32}",
     UINT64_C(6888095744), REMEMBERED, 0, UINT64_C(0)},
    {"olmo-2-7b",
     "{'model_type':'olmo2','hidden_size':4096,'num_hidden_layers':32,'num_attention_heads':32,'"
     "intermediate_size':11008,'vocab_size':100352,'max_position_embeddings':4096,'num_key_value_"
     "heads':32}",
     UINT64_C(7298617344), PUBLISHED, 0, UINT64_C(0)},
    {"olmo-2-13b",
     "{'model_type':'olmo2','hidden_size':5120,'num_hidden_layers':40,'num_attention_heads':40,'"
     "intermediate_size':13824,'vocab_size':100352,'max_position_embeddings':4096,'num_key_value_"
     "heads':40}",
     UINT64_C(13716198400), PUBLISHED, 0, UINT64_C(0)},
    {"olmoe-1b-7b",
     "{'model_type':'olmoe','hidden_size':2048,'num_hidden_layers':16,'num_attention_heads':16,'"
     "intermediate_size':1024,'vocab_size':50304,'max_position_embeddings':4096,'num_key_value_"
     "heads':16,'num_experts':64,'num_experts_per_tok':8}",
     UINT64_C(6919161856), REMEMBERED, 131072, UINT64_C(1282017280)},
    {"gpt-oss-20b",
     "{'model_type':'gpt_oss','hidden_size':2880,'num_hidden_layers':24,'num_attention_heads':64,'"
     "intermediate_size':2880,'vocab_size':201088,'max_position_embeddings':131072,'num_key_value_"
     "heads':8,'head_dim':64,'num_local_experts':32,'num_experts_per_tok':4,'sliding_window':128,'"
     "attention_bias':true,'layer_types':" ALTERNATING_24
     ",'quantization_config':{'quant_method':'mxfp4'}}",
     UINT64_C(20914757184), PUBLISHED, 49152, UINT64_C(0)},
    {"gpt-oss-120b",
     "{'model_type':'gpt_oss','hidden_size':2880,'num_hidden_layers':36,'num_attention_heads':64,'"
     "intermediate_size':2880,'vocab_size':201088,'max_position_embeddings':131072,'num_key_value_"
     "heads':8,'head_dim':64,'num_local_experts':128,'num_experts_per_tok':4,'sliding_window':128,'"
     "attention_bias':true,'layer_types':" ALTERNATING_36
     ",'quantization_config':{'quant_method':'mxfp4'}}",
     UINT64_C(116829156672), PUBLISHED, 73728, UINT64_C(0)},
    {"bert-base-uncased",
     "{'model_type':'bert','hidden_size':768,'num_hidden_layers':12,'num_attention_heads':12,'"
     "intermediate_size':3072,'vocab_size':30522,'max_position_embeddings':512,'type_vocab_size':2,"
     "'position_embedding_type':'absolute'}",
     UINT64_C(109482240), PUBLISHED, 0, UINT64_C(0)},
    {"bert-large-uncased",
     "{'model_type':'bert','hidden_size':1024,'num_hidden_layers':24,'num_attention_heads':16,'"
     "intermediate_size':4096,'vocab_size':30522,'max_position_embeddings':512,'type_vocab_size':2,"
     "'position_embedding_type':'absolute'}",
     UINT64_C(335141888), PUBLISHED, 0, UINT64_C(0)},
    {"roberta-base",
     "{'model_type':'roberta','hidden_size':768,'num_hidden_layers':12,'num_attention_heads':12,'"
     "intermediate_size':3072,'vocab_size':50265,'max_position_embeddings':514,'type_vocab_size':1,"
     "'position_embedding_type':'absolute'}",
     UINT64_C(124645632), PUBLISHED, 0, UINT64_C(0)},
    {"roberta-large",
     "{'model_type':'roberta','hidden_size':1024,'num_hidden_layers':24,'num_attention_heads':16,'"
     "intermediate_size':4096,'vocab_size':50265,'max_position_embeddings':514,'type_vocab_size':1,"
     "'position_embedding_type':'absolute'}",
     UINT64_C(355359744), PUBLISHED, 0, UINT64_C(0)},
    {"t5-small",
     "{'model_type':'t5','d_model':512,'num_layers':6,'num_decoder_layers':6,'num_heads':8,'d_kv':"
     "64,'d_ff':2048,'vocab_size':32128,'relative_attention_num_buckets':32,'is_encoder_decoder':"
     "true,'feed_forward_proj':'relu'}",
     UINT64_C(60506624), REMEMBERED, 0, UINT64_C(0)},
    {"t5-base",
     "{'model_type':'t5','d_model':768,'num_layers':12,'num_decoder_layers':12,'num_heads':12,'d_"
     "kv':64,'d_ff':3072,'vocab_size':32128,'relative_attention_num_buckets':32,'is_encoder_"
     "decoder':true,'feed_forward_proj':'relu'}",
     UINT64_C(222903552), REMEMBERED, 0, UINT64_C(0)},
    {"t5-large",
     "{'model_type':'t5','d_model':1024,'num_layers':24,'num_decoder_layers':24,'num_heads':16,'d_"
     "kv':64,'d_ff':4096,'vocab_size':32128,'relative_attention_num_buckets':32,'is_encoder_"
     "decoder':true,'feed_forward_proj':'relu'}",
     UINT64_C(737668096), REMEMBERED, 0, UINT64_C(0)},
    {"flan-t5-base",
     "{'model_type':'t5','d_model':768,'num_layers':12,'num_decoder_layers':12,'num_heads':12,'d_"
     "kv':64,'d_ff':2048,'vocab_size':32128,'relative_attention_num_buckets':32,'is_encoder_"
     "decoder':true,'feed_forward_proj':'gated-gelu','tie_word_embeddings':false}",
     UINT64_C(247577856), REMEMBERED, 0, UINT64_C(0)},
    {"vit-base-patch16-224",
     "{'model_type':'vit','hidden_size':768,'num_hidden_layers':12,'num_attention_heads':12,'"
     "intermediate_size':3072,'image_size':224,'patch_size':16,'num_channels':3,'num_labels':1000}",
     UINT64_C(86567656), REMEMBERED, 0, UINT64_C(0)},
    {"vit-large-patch16-224",
     "{'model_type':'vit','hidden_size':1024,'num_hidden_layers':24,'num_attention_heads':16,'"
     "intermediate_size':4096,'image_size':224,'patch_size':16,'num_channels':3,'num_labels':1000}",
     UINT64_C(304326632), REMEMBERED, 0, UINT64_C(0)},
    {"whisper-tiny",
     "{'model_type':'whisper','d_model':384,'encoder_layers':4,'decoder_layers':4,'encoder_"
     "attention_heads':6,'decoder_attention_heads':6,'encoder_ffn_dim':1536,'decoder_ffn_dim':1536,"
     "'vocab_size':51865,'num_mel_bins':80,'max_source_positions':1500,'max_target_positions':448,'"
     "is_encoder_decoder':true}",
     UINT64_C(37760640), REMEMBERED, 0, UINT64_C(0)},
    {"whisper-small",
     "{'model_type':'whisper','d_model':768,'encoder_layers':12,'decoder_layers':12,'encoder_"
     "attention_heads':12,'decoder_attention_heads':12,'encoder_ffn_dim':3072,'decoder_ffn_dim':"
     "3072,'vocab_size':51865,'num_mel_bins':80,'max_source_positions':1500,'max_target_positions':"
     "448,'is_encoder_decoder':true}",
     UINT64_C(241734912), REMEMBERED, 0, UINT64_C(0)},
    {"whisper-large-v3",
     "{'model_type':'whisper','d_model':1280,'encoder_layers':32,'decoder_layers':32,'encoder_"
     "attention_heads':20,'decoder_attention_heads':20,'encoder_ffn_dim':5120,'decoder_ffn_dim':"
     "5120,'vocab_size':51866,'num_mel_bins':128,'max_source_positions':1500,'max_target_positions'"
     ":448,'is_encoder_decoder':true}",
     UINT64_C(1543490560), PUBLISHED, 0, UINT64_C(0)},
    {"whisper-large-v3-turbo",
     "{'model_type':'whisper','d_model':1280,'encoder_layers':32,'decoder_layers':4,'encoder_"
     "attention_heads':20,'decoder_attention_heads':20,'encoder_ffn_dim':5120,'decoder_ffn_dim':"
     "5120,'vocab_size':51866,'num_mel_bins':128,'max_source_positions':1500,'max_target_positions'"
     ":448,'is_encoder_decoder':true}",
     UINT64_C(808878080), PUBLISHED, 0, UINT64_C(0)},
};

#endif
