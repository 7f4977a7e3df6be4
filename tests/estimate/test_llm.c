/* test_llm.c - transformers by their config.json, against what others published: parameters to the
 * last one, bytes of a token's keys and values, sizes of quantised files; and what must be refused.
 */
#include <stdio.h>

#include <tenure/llm.h>

#include "base/base.h"
#include "llm_published.h"
#include "support.h"

#define KNOWN_COUNT (sizeof llm_published / sizeof *llm_published)

static tn_error failure;
static tn_llm model;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

/* Single quotes are double ones. */
static tn_status read_config(const char *text, tn_llm *llm) {
    static char json[8000];
    size_t length = strlen(text);
    assert_true(length < sizeof json);
    for (size_t i = 0; i <= length; i++) json[i] = text[i] == '\'' ? '"' : text[i];
    return tn_llm_config("config.json", json, length, llm, &failure);
}

static const char *known_config(const char *name) {
    for (size_t i = 0; i < KNOWN_COUNT; i++)
        if (strcmp(llm_published[i].name, name) == 0) return llm_published[i].json;
    fail_msg("no %s\n", name);
    return NULL;
}

static tn_llm_estimate estimated(const tn_llm_options *options) {
    tn_llm_estimate made;
    assert_ok(tn_llm_estimate_make(&model, options, &made, &failure));
    return made;
}

static tn_llm_scheme scheme_of(const char *name) {
    tn_llm_scheme scheme;
    assert_ok(tn_llm_scheme_find(name, &scheme, &failure));
    return scheme;
}

static uint64_t bytes_as(const char *name, bool extra) {
    tn_llm_scheme scheme = scheme_of(name);
    tn_llm_options options = TN_LLM_OPTIONS_INIT;
    options.scheme = &scheme;
    options.extra = extra;
    options.sequence = 1;
    return estimated(&options).weights;
}

static void parameters_are_the_published_ones(void **state) {
    (void)state;
    uint32_t count[3] = {0};
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        assert_ok(read_config(llm_published[i].json, &model));
        if (model.parameters != llm_published[i].parameters)
            fail_msg("%s: %llu, published %llu\n", llm_published[i].name,
                     (unsigned long long)model.parameters,
                     (unsigned long long)llm_published[i].parameters);
        if (*model.unread != '\0') fail_msg("%s: %s\n", llm_published[i].name, model.unread);
        count[llm_published[i].known]++;
    }
    print_message("%u published, %u remembered, %u by formula\n", count[0], count[1], count[2]);
    assert_int_equal(count[PUBLISHED], 59);
}

static void a_token_leaves_the_published_bytes(void **state) {
    (void)state;
    uint32_t caches = 0, mixtures = 0;
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        assert_ok(read_config(llm_published[i].json, &model));
        tn_llm_options options = TN_LLM_OPTIONS_INIT;
        options.sequence = 1;
        options.scheme = &(tn_llm_scheme){.packing = TN_PACK_PLAIN, .type = TN_WEIGHT_BF16};
        if (llm_published[i].token > 0) {
            if (estimated(&options).cache_token != llm_published[i].token)
                fail_msg("%s: %llu of %u\n", llm_published[i].name,
                         (unsigned long long)estimated(&options).cache_token,
                         llm_published[i].token);
            caches++;
        }
        if (llm_published[i].active == 0) continue;
        assert_int_equal(model.active, llm_published[i].active);
        mixtures++;
    }
    print_message("%u caches, %u mixtures\n", caches, mixtures);
    assert_true(caches >= 35 && mixtures == 9);
}

/* At 131,072 tokens in 16 bits and elsewhere, as gathered in the reference; the third column is the
 * part of layers that look at all tokens. */
static void caches_with_windows_are_the_published_ones(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t tokens, full, window, cross;
    } rows[] = {
        {"gemma-3-27b", 131072, UINT64_C(10) << 30, UINT64_C(416) << 20, 0},
        {"gpt-oss-20b", 131072, UINT64_C(3) << 30, UINT64_C(3) << 20, 0},
        {"gpt-oss-120b", 131072, UINT64_C(9) << 29, UINT64_C(9) << 19, 0},
        {"mistral-7b-v0.1", 32768, 0, UINT64_C(1) << 29, 0},
        {"gemma-2-9b", 8192, UINT64_C(21) << 26, UINT64_C(21) << 25, 0},
        {"qwen2(.5)-7b", 32768, UINT64_C(57344) * 32768, 0, 0},
        {"qwen3-0.6b", 40960, UINT64_C(114688) * 40960, 0, 0},        /* 4.38 GiB in print */
        {"deepseek-v3 / r1", 163840, UINT64_C(70272) * 163840, 0, 0}, /* 10.72 GiB in print */
        {"whisper-large-v3", 448, UINT64_C(163840) * 448, 0, 245760000},
        {"t5-base", 100, UINT64_C(36864) * 100, 0, UINT64_C(36864) * 100},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_ok(read_config(known_config(rows[i].name), &model));
        tn_llm_options options = TN_LLM_OPTIONS_INIT;
        options.sequence = rows[i].tokens;
        tn_llm_estimate made = estimated(&options);
        if (made.cache_full != rows[i].full || made.cache_window != rows[i].window ||
            made.cache_cross != rows[i].cross)
            fail_msg("%s: %llu, %llu, %llu\n", rows[i].name, (unsigned long long)made.cache_full,
                     (unsigned long long)made.cache_window, (unsigned long long)made.cache_cross);
        options.batch = 3;
        assert_int_equal(estimated(&options).cache, 3 * made.cache);
    }
    assert_ok(read_config(known_config("gemma-3-27b"), &model));
    tn_llm_options all = TN_LLM_OPTIONS_INIT;
    all.sequence = 131072;
    all.keep_all = true;
    assert_int_equal(estimated(&all).cache, UINT64_C(62) << 30);
    all.cache_type = TN_WEIGHT_Q8_0;
    assert_int_equal(estimated(&all).cache, (UINT64_C(31) << 30) / 32 * 34);
}

/* Files that are published: tensors in bytes. */
static void stored_weights_take_the_published_bytes(void **state) {
    (void)state;
    static const struct {
        const char *model, *scheme;
        uint64_t bytes;
    } rows[] = {
        {"gpt-oss-20b", "mxfp4", UINT64_C(13761264768)},
        {"gpt-oss-120b", "mxfp4", UINT64_C(65248815744)},
        {"gpt-oss-20b", "mxfp4_moe", UINT64_C(12096558336)},
        {"llama-2-7b", "gptq", UINT64_C(3893862400)},
        {"llama-2-7b", "awq", UINT64_C(3889307648)},
        {"qwen3-8b", "bf16", UINT64_C(16381470720)},
        {"llama-3-8b, 3.1-8b", "q2_k", UINT64_C(3171295232)},
        {"llama-3-8b, 3.1-8b", "q3_k_s", UINT64_C(3656663040)},
        {"llama-3-8b, 3.1-8b", "q3_k_l", UINT64_C(4314120192)},
        {"llama-3-8b, 3.1-8b", "iq4_xs", UINT64_C(4476526592)},
        {"llama-3-8b, 3.1-8b", "q4_k_s", UINT64_C(4684832768)},
        {"llama-3-8b, 3.1-8b", "Q4_K_M", UINT64_C(4912898048)},
        {"llama-3-8b, 3.1-8b", "q5_k_s", UINT64_C(5591457792)},
        {"llama-3-8b, 3.1-8b", "q5_k_m", UINT64_C(5725151232)},
        {"llama-3-8b, 3.1-8b", "q6_k", UINT64_C(6588170240)},
        {"llama-3-8b, 3.1-8b", "q8_0", UINT64_C(8532934656)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_ok(read_config(known_config(rows[i].model), &model));
        uint64_t bytes = bytes_as(rows[i].scheme, false);
        if (bytes != rows[i].bytes)
            fail_msg("%s as %s: %llu of %llu\n", rows[i].model, rows[i].scheme,
                     (unsigned long long)bytes, (unsigned long long)rows[i].bytes);
    }
    /* in print as 5.31 GiB, with scales that have a scale */
    assert_ok(read_config("{'model_type':'llama','hidden_size':4096,'num_hidden_layers':32,"
                          "'num_attention_heads':32,'num_key_value_heads':8,"
                          "'intermediate_size':14336,'vocab_size':128256,"
                          "'max_position_embeddings':8192,'quantization_config':{"
                          "'quant_method':'bitsandbytes','load_in_4bit':true,"
                          "'bnb_4bit_quant_type':'nf4','bnb_4bit_use_double_quant':true}}",
                          &model));
    tn_llm_options options = TN_LLM_OPTIONS_INIT;
    assert_int_equal((estimated(&options).weights * 100 + (1 << 29)) >> 30, 531);
}

/* DeepSeek-V3's files: numbers of each type, with the layer that predicts a further token and a
 * scale for each tile. */
static void tiles_and_further_layers_are_those_of_the_file(void **state) {
    (void)state;
    uint64_t corrections = 0;
    assert_ok(read_config(known_config("deepseek-v3 / r1"), &model));
    assert_int_equal(model.extra, UINT64_C(13463426304));
    for (uint32_t i = 0; i < model.weight_count; i++)
        if (strcmp(model.weights[i].name, "router_correction") == 0)
            corrections += model.weights[i].layers * model.weights[i].columns;
    assert_int_equal(corrections, 59 * 256);
    uint64_t matrices = model.parameters + model.extra - corrections;
    assert_int_equal(matrices, UINT64_C(3918786560) + UINT64_C(680571043840));
    assert_int_equal(model.stored.packing, TN_PACK_TILES);
    /* 16 bits but for what is packed; corrections in 16 bits here, in 32 there; scales in 32 */
    uint64_t there = UINT64_C(2) * 3918786560 + UINT64_C(680571043840) + UINT64_C(4) * 41555600;
    uint64_t here = bytes_as("f8", true);
    if (here + 2 * corrections != there)
        fail_msg("%llu of %llu\n", (unsigned long long)here, (unsigned long long)there);
}

/* Whatever the packing, an identity: bytes are those of each matrix alone. */
static void packing_follows_from_rows_and_columns(void **state) {
    (void)state;
    assert_ok(read_config("{'model_type':'llama','hidden_size':64,'num_hidden_layers':3,"
                          "'num_attention_heads':4,'intermediate_size':100,'vocab_size':50,"
                          "'max_position_embeddings':32}",
                          &model));
    uint64_t products = 4 * 64 * 64 + 3 * 64 * 100, rows = 5 * 64 + 200;
    uint64_t rest = 2 * 50 * 64 + 7 * 64;
    assert_int_equal(model.parameters, 3 * products + rest);
    assert_int_equal(bytes_as("f32", false), 4 * (3 * products + rest));
    assert_int_equal(bytes_as("bf16", false), 2 * (3 * products + rest));
    assert_int_equal(bytes_as("int8", false), 3 * (products + 4 * rows) + 2 * rest);
    /* groups of 128: one for a row, whether it is 64 or 100 long; 4 + 20/128 bits, up to a byte */
    uint64_t groups = 4 * (64 * 64 / 2 + 64 * 20 / 8) + 2 * (64 * 100 / 2 + 100 * 20 / 8) +
                      (64 * 100 / 2 + 64 * 20 / 8);
    assert_int_equal(bytes_as("int4", false), 3 * groups + 2 * rest);
}

static void what_a_file_says_of_its_weights_is_read(void **state) {
    (void)state;
    static const struct {
        const char *keys;
        tn_llm_packing packing;
        uint32_t bits, group;
        tn_weight_type type;
    } rows[] = {
        {"'torch_dtype':'float16'", TN_PACK_PLAIN, 0, 0, TN_WEIGHT_F16},
        {"'dtype':'float32'", TN_PACK_PLAIN, 0, 0, TN_WEIGHT_F32},
        {"'dtype':'float7'", TN_PACK_UNKNOWN, 0, 0, TN_WEIGHT_BF16},
        {"'quantization_config':{'quant_method':'gptq','bits':8,'group_size':32}", TN_PACK_GROUPS,
         8, 32, TN_WEIGHT_BF16},
        {"'torch_dtype':'float16','quantization_config':{'quant_method':'awq','w_bit':4,"
         "'q_group_size':64}",
         TN_PACK_GROUPS, 4, 64, TN_WEIGHT_F16},
        {"'quantization_config':{'quant_method':'bitsandbytes','load_in_8bit':true}", TN_PACK_ROWS,
         0, 0, TN_WEIGHT_BF16},
        {"'quantization_config':{'quant_method':'compressed-tensors'}", TN_PACK_PLAIN, 0, 0,
         TN_WEIGHT_BF16},
        {"'quantization_config':{'quant_method':'fp8','weight_block_size':[64,64]}", TN_PACK_PLAIN,
         0, 0, TN_WEIGHT_BF16},
        {"'quantization_config':{'quant_method':'fp8','weight_block_size':null}", TN_PACK_ROWS, 0,
         0, TN_WEIGHT_BF16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[600];
        tn_llm_estimate made;
        tn_llm_options options = TN_LLM_OPTIONS_INIT;
        snprintf(text, sizeof text,
                 "{'model_type':'llama','hidden_size':256,'num_hidden_layers':2,"
                 "'num_attention_heads':4,'intermediate_size':512,'vocab_size':1000,"
                 "'max_position_embeddings':64,%s}",
                 rows[i].keys);
        assert_ok(read_config(text, &model));
        assert_int_equal(model.stored.packing, rows[i].packing);
        bool bound = strstr(rows[i].keys, "compressed") != NULL || strstr(rows[i].keys, "64,64");
        assert_int_equal(strstr(model.note, "as not packed") != NULL, bound);
        assert_int_equal(model.stored.bits, rows[i].bits);
        assert_int_equal(model.stored.group, rows[i].group);
        assert_int_equal(model.stored.type, rows[i].type);
        tn_status status = tn_llm_estimate_make(&model, &options, &made, &failure);
        bool unknown = rows[i].packing == TN_PACK_UNKNOWN;
        assert_int_equal(status, unknown ? TN_E_UNSUPPORTED : TN_OK);
        options.weight_bytes = 12345; /* a file says */
        assert_ok(tn_llm_estimate_make(&model, &options, &made, &failure));
        assert_int_equal(made.weights, 12345);
    }
}

#define SMALL                                                                                      \
    "'hidden_size':256,'num_hidden_layers':4,'num_attention_heads':4,'intermediate_size':512,"     \
    "'vocab_size':1000,'max_position_embeddings':64"

/* What changes what is counted, and is not understood, is never passed over. */
#define NAS "{'model_type':'nemotron-nas'," SMALL "}"
#define NAS_OF(blocks) "{'model_type':'nemotron-nas'," SMALL ",'block_configs':" blocks "}"
#define NAS_NONE "{'attention':{'no_op':true},'ffn':{'no_op':true}}"
#define NAS_FIRST(block) NAS_OF("[{" block "}," NAS_NONE "," NAS_NONE "," NAS_NONE "]")

static void what_is_not_understood_is_refused_or_told(void **state) {
    (void)state;
    static const struct {
        const char *json;
        tn_status status;
        const char *says;
    } rows[] = {
        {"{'model_type':'griffin'," SMALL "}", TN_E_UNKNOWN, "griffin"},
        {"{'model_type':'llama'," SMALL ",'num_local_experts':8}", TN_E_UNSUPPORTED,
         "num_local_experts"},
        {"{'model_type':'llama'," SMALL ",'kv_lora_rank':64}", TN_E_UNSUPPORTED, "kv_lora_rank"},
        {"{'model_type':'qwen2'," SMALL ",'num_nextn_predict_layers':2}", TN_E_UNSUPPORTED,
         "num_nextn_predict_layers"},
        {"{'model_type':'llama'," SMALL ",'add_cross_attention':true}", TN_E_UNSUPPORTED,
         "add_cross_attention"},
        {"{'model_type':'llama'," SMALL ",'num_key_value_heads':3}", TN_E_INVALID, "divided"},
        {"{'model_type':'llama'," SMALL ",'num_key_value_heads':[4,4,2,2]}", TN_E_INVALID,
         "num_key_value_heads"},
        {"{'model_type':'mixtral'," SMALL "}", TN_E_INVALID, "num_local_experts"},
        {"{'model_type':'mixtral'," SMALL "}", TN_E_INVALID, "num_experts_per_tok"},
        {"{'model_type':'mixtral'," SMALL ",'num_local_experts':4,'num_experts_per_tok':5}",
         TN_E_INVALID, "5 of 4"},
        {"{'model_type':'deepseek_v2'," SMALL "}", TN_E_INVALID, "kv_lora_rank"},
        {"{'model_type':'deepseek_v3'," SMALL ",'attention_bias':true}", TN_E_UNSUPPORTED,
         "attention_bias"},
        {"{'model_type':'gemma2'," SMALL ",'layer_types':['full_attention']}", TN_E_INVALID,
         "layer_types"},
        {"{'model_type':'gemma2'," SMALL ",'layer_types':['full_attention','linear_attention',"
         "'full_attention','full_attention']}",
         TN_E_UNSUPPORTED, "linear_attention"},
        {"{'model_type':'bert'," SMALL
         ",'type_vocab_size':2,'position_embedding_type':'relative_key'}",
         TN_E_UNSUPPORTED, "relative_key"},
        {"{'model_type':'gemma3','text_config':{" SMALL "}}", TN_E_INVALID, "vision_config"},
        {"{'model_type':'vit','hidden_size':256,'num_hidden_layers':2,'num_attention_heads':4,"
         "'image_size':224,'patch_size':15}",
         TN_E_INVALID, "patches"},
        {"{'hidden_size':1099511627776,'num_hidden_layers':8000,'num_attention_heads':1,"
         "'vocab_size':1099511627776,'n_ctx':9}",
         TN_E_INVALID, "2^64"},
        {"{'model_type':'llama'," SMALL ",'block_configs':[{},{},{},{}]}", TN_E_UNSUPPORTED,
         "block_configs"},
        {NAS, TN_E_INVALID, "needs \"block_configs\""},
        {NAS_OF("[]"), TN_E_INVALID, "needs \"block_configs\""},
        {NAS_OF("[{}]"), TN_E_INVALID, "one item for each of 4 layers"},
        {NAS_OF("[1,2,3,4]"), TN_E_INVALID, "a layer without \"attention\""},
        {NAS_FIRST("'attention':{'n_heads_in_group':1}"), TN_E_INVALID, "a layer without \"ffn\""},
        {NAS_FIRST("'attention':{'n_heads_in_group':3},'ffn':{'no_op':true}"), TN_E_INVALID,
         "does not divide"},
        {NAS_FIRST("'attention':{'n_heads_in_group':-4},'ffn':{'no_op':true}"), TN_E_INVALID,
         "does not divide"},
        {NAS_FIRST("'attention':{},'ffn':{'no_op':true}"), TN_E_INVALID, "does not divide"},
        {NAS_FIRST("'attention':{'no_op':true},'ffn':{}"), TN_E_INVALID, "ffn_mult"},
        {NAS_FIRST("'attention':{'no_op':true},'ffn':{'ffn_mult':-1}"), TN_E_INVALID, "ffn_mult"},
        {NAS_FIRST("'attention':{'no_op':true},'ffn':{'ffn_mult':1e300}"), TN_E_INVALID,
         "ffn_mult"},
        {NAS_FIRST("'attention':{'no_op':true},'ffn':{'intermediate_size':9007199254740992}"),
         TN_E_INVALID, "ffn_mult"},
        {NAS_FIRST("'attention':{'mamba':{}},'ffn':{'no_op':true}"), TN_E_UNSUPPORTED, "mamba"},
        {NAS_FIRST("'attention':{'no_op':true},'ffn':{'moe':{'n':8}}"), TN_E_UNSUPPORTED, "moe"},
        {"[]", TN_E_INVALID, "object"},
        {"{", TN_E_INVALID, "expected"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tn_status status = read_config(rows[i].json, &model);
        if (status != rows[i].status || strstr(failure.message, rows[i].says) == NULL)
            fail_msg("%s: status %d, '%s'\n", rows[i].json, (int)status,
                     status == TN_OK ? "" : failure.message);
    }
    assert_ok(read_config("{'model_type':'llama'," SMALL ",'frobnicate':3,'rope_theta':1e4,"
                          "'hyper_connections':false,'nothing':null}",
                          &model));
    assert_string_equal(model.unread, "frobnicate, hyper_connections");
    /* Python's numbers that are no JSON, and names that look like them */
    assert_ok(read_config("{'model_type':'llama'," SMALL ",'time_step_limit':[0.0,Infinity,"
                          "-Infinity,NaN],'_name_or_path':'Infinity\\\\NaN'}",
                          &model));
    /* a field that says nothing of the kind */
    assert_ok(read_config("{'model_type':'llama'," SMALL ",'num_local_experts':0}", &model));
}

/* Flags move what they name, and nothing else. */
/* A field of another family, a tower that a model of text does not have, or a second number for the
 * same size never makes an estimate smaller, and the model is then not proved to fit. */
static void a_field_of_another_family_never_makes_it_smaller(void **state) {
    (void)state;
    static const struct {
        const char *type, *more, *key;
    } rows[] = {
        {"llama", "'use_cla':true,'cla_share_factor':2", "use_cla"},
        {"llama", "'attention_k_eq_v':true", "attention_k_eq_v"},
        {"llama", "'multi_query':true", "multi_query"},
        {"llama", "'num_kv_heads':1,'num_key_value_heads':4", "num_key_value_heads"},
        {"llama", "'vision_config':{'hidden_size':64}", "vision_config"},
        {"llama", "'audio_config':{'hidden_size':64}", "audio_config"},
        {"mistral", "'sliding_window':null,'swa_num_key_value_heads':2", "swa_num_key_value_heads"},
        {"mixtral", "'num_local_experts':4,'num_experts_per_tok':2,'decoder_sparse_step':2",
         "decoder_sparse_step"},
        {"mixtral", "'num_local_experts':4,'num_experts_per_tok':2,'first_k_dense_replace':3",
         "first_k_dense_replace"},
        {"mixtral", "'num_local_experts':4,'num_experts_per_tok':2,'mlp_only_layers':[0,1,2]",
         "mlp_only_layers"},
        {"mixtral", "'num_local_experts':4,'num_experts_per_tok':2,'moe_layer_freq':[0,0,0,1]",
         "moe_layer_freq"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[600];
        bool experts = strcmp(rows[i].type, "mixtral") == 0;
        snprintf(text, sizeof text, "{'model_type':'%s'," SMALL "%s}", rows[i].type,
                 experts ? ",'num_local_experts':4,'num_experts_per_tok':2" : "");
        assert_ok(read_config(text, &model));
        assert_false(model.unproved);
        uint64_t parameters = model.parameters;
        snprintf(text, sizeof text, "{'model_type':'%s'," SMALL ",%s}", rows[i].type, rows[i].more);
        assert_ok(read_config(text, &model));
        bool rival = strstr(rows[i].more, "num_kv_heads") != NULL;
        if (!rival && model.parameters < parameters) fail_msg("%s\n", rows[i].more);
        assert_int_equal(model.cache.group_count, 1);
        assert_int_equal(model.cache.groups[0].layers, 4);
        assert_string_equal(model.unread, rows[i].key);
        assert_true(model.unproved);
    }
    /* the same fields where they belong, or where they say nothing */
    assert_ok(read_config(
        "{'model_type':'hunyuan_v1_dense'," SMALL ",'use_cla':true,'cla_share_factor':2}", &model));
    assert_int_equal(model.cache.groups[0].layers, 2);
    assert_false(model.unproved);
    assert_ok(read_config("{'model_type':'llama'," SMALL
                          ",'use_cla':false,'multi_query':false,'mlp_only_layers':[],"
                          "'moe_layer_freq':1,'vision_config':null}",
                          &model));
    assert_false(model.unproved);
}

static void flags_move_parameters(void **state) {
    (void)state;
    static const struct {
        const char *with, *without;
        uint64_t more; /* of the first */
    } rows[] = {
        {"'model_type':'llama','tie_word_embeddings':false",
         "'model_type':'llama','tie_word_embeddings':true", 256 * 1000},
        {"'model_type':'llama','attention_bias':true", "'model_type':'llama'", 4 * 4 * 256},
        {"'model_type':'llama','mlp_bias':true", "'model_type':'llama'", 4 * (2 * 512 + 256)},
        {"'model_type':'qwen2'", "'model_type':'llama'", 4 * 3 * 256},
        {"'model_type':'qwen2','attention_bias':false", "'model_type':'llama'", 4 * 3 * 256},
        {"'model_type':'gemma2','head_dim':64,'tie_word_embeddings':false", "'model_type':'llama'",
         4 * 2 * 256},
        {"'model_type':'llama','head_dim':128", "'model_type':'llama'", 4 * 4 * 64 * 4 * 256},
        {"'model_type':'llama'", "'model_type':'llama','num_key_value_heads':1",
         4 * 2 * 3 * 64 * 256},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[600];
        snprintf(text, sizeof text, "{%s," SMALL "}", rows[i].with);
        assert_ok(read_config(text, &model));
        uint64_t with = model.parameters;
        snprintf(text, sizeof text, "{%s," SMALL "}", rows[i].without);
        assert_ok(read_config(text, &model));
        if (with - model.parameters != rows[i].more)
            fail_msg("%s: %lld more\n", rows[i].with, (long long)(with - model.parameters));
    }
}

/* More of anything is never less, parts add up, and the most that fits is what trial finds. */
/* One layer of each kind of nemotron-nas: attention and a matrix in the place of the inner layer, a
 * matrix in the place of attention, nothing, and all. */
static void layers_of_different_sizes_are_counted_one_by_one(void **state) {
    (void)state;
    const uint64_t d = 64, head = 16, words = 100;
    assert_int_equal(
        read_config("{'model_type':'nemotron-nas','hidden_size':64,'num_hidden_layers':4,"
                    "'num_attention_heads':4,'vocab_size':100,'max_position_embeddings':128,"
                    "'tie_word_embeddings':false,'block_configs':["
                    "{'attention':{'n_heads_in_group':2},'ffn':{'replace_with_linear':true}},"
                    "{'attention':{'replace_with_linear':true},'ffn':{'ffn_mult':0.5}}," NAS_NONE
                    ",{'attention':{'n_heads_in_group':4},'ffn':{'intermediate_size':96}}]}",
                    &model),
        TN_OK);
    uint64_t sum = 2 * words * d + d;
    sum += 2 * d * d + 2 * 2 * head * d + d * d + 2 * d;
    sum += d * d + 3 * d * 256 + 2 * d; /* 2 x 0.5 x 64 / 3 = 21, rounded up to 256 */
    sum += 2 * d * d + 2 * head * d + 3 * d * 96 + 2 * d;
    assert_int_equal(model.parameters, sum);
    tn_llm_options options = TN_LLM_OPTIONS_INIT;
    tn_llm_estimate made;
    options.sequence = 1;
    assert_int_equal(tn_llm_estimate_make(&model, &options, &made, &failure), TN_OK);
    assert_int_equal(made.cache, 2 * 2 * (2 * head + head));
}

static void the_most_that_fits_fits(void **state) {
    (void)state;
    tn__random random = {.state = 11};
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        tn_llm_options options = TN_LLM_OPTIONS_INIT;
        tn_llm_scheme scheme = scheme_of("int4");
        assert_ok(read_config(llm_published[i].json, &model));
        if (model.cache.group_count == 0) continue;
        options.scheme = &scheme;
        options.sequence = 64;
        tn_llm_estimate one = estimated(&options);
        assert_int_equal(one.total, one.weights + one.cache + one.workspace);
        uint64_t limit = one.total + tn__random_below(&random, 40 * one.cache + 1);
        options.batch = tn_llm_most(&model, &options, limit, false);
        assert_true(options.batch >= 1 && estimated(&options).total <= limit);
        options.batch++;
        assert_true(estimated(&options).total > limit);
        options.batch = 1;
        options.sequence = tn_llm_most(&model, &options, limit, true);
        assert_true(options.sequence >= 64 && estimated(&options).total <= limit);
        options.sequence++;
        bool whole = model.model.positions > 0 && options.sequence > model.model.positions;
        if (!whole) assert_true(estimated(&options).total > limit);
        assert_int_equal(tn_llm_most(&model, &options, one.weights, false), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_the_published_ones),
        cmocka_unit_test(a_token_leaves_the_published_bytes),
        cmocka_unit_test(caches_with_windows_are_the_published_ones),
        cmocka_unit_test(stored_weights_take_the_published_bytes),
        cmocka_unit_test(tiles_and_further_layers_are_those_of_the_file),
        cmocka_unit_test(packing_follows_from_rows_and_columns),
        cmocka_unit_test(what_a_file_says_of_its_weights_is_read),
        cmocka_unit_test(what_is_not_understood_is_refused_or_told),
        cmocka_unit_test(a_field_of_another_family_never_makes_it_smaller),
        cmocka_unit_test(flags_move_parameters),
        cmocka_unit_test(layers_of_different_sizes_are_counted_one_by_one),
        cmocka_unit_test(the_most_that_fits_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
