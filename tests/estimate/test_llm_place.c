/* test_llm_place.c - a language model on several devices, or partly in host memory: sizes counted
 * by hand, and properties of any division: no byte is lost, and a larger part elsewhere never
 * leaves more on the device.
 */
#include <stdio.h>

#include <tenure/llm.h>

#include "base/base.h"
#include "llm_families.h"
#include "llm_published.h"
#include "support.h"

#define KNOWN_COUNT (sizeof llm_published / sizeof *llm_published)
#define LAYER (UINT64_C(2) * (2 * 4096 * 4096 + 2 * 1024 * 4096 + 3 * 4096 * 14336 + 2 * 4096))
#define TABLE (UINT64_C(2) * 128256 * 4096) /* embedding, and as much for the output */
#define NORM UINT64_C(8192)                 /* of the last layer's result */

static tn_error failure;
static tn_llm model;
static const char llama[] =
    "{\"model_type\": \"llama\", \"hidden_size\": 4096, \"vocab_size\": 128256, \"torch_dtype\": "
    "\"bfloat16\", \"num_hidden_layers\": 32, \"num_attention_heads\": 32, "
    "\"num_key_value_heads\": 8, \"intermediate_size\": 14336, \"max_position_embeddings\": 8192}";

#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

static tn_llm_options divided(uint32_t devices, bool by_tensor, uint64_t layers, uint64_t experts) {
    tn_llm_options options = TN_LLM_OPTIONS_INIT;
    options.sequence = 1000;
    options.devices = devices;
    options.by_tensor = by_tensor;
    options.host_layers = layers;
    options.host_experts = experts;
    return options;
}

static tn_llm_estimate estimated(const tn_llm_options *options) {
    tn_llm_estimate made;
    assert_ok(tn_llm_estimate_make(&model, options, &made, &failure));
    return made;
}

static void sizes_are_those_counted_by_hand(void **state) {
    (void)state;
    const uint64_t token = 2 * 2 * 8 * 128; /* keys and values of a layer in 16 bits */
    assert_ok(tn_llm_config("config.json", llama, sizeof llama - 1, &model, &failure));
    tn_llm_options options = divided(1, false, 0, 0);
    tn_llm_estimate whole = estimated(&options);
    assert_int_equal(whole.weights, 32 * LAYER + 2 * TABLE + NORM);
    options = divided(2, false, 0, 0);
    tn_llm_estimate made = estimated(&options);
    assert_int_equal(made.weights, 16 * LAYER + 2 * TABLE + NORM);
    assert_int_equal(made.cache, 16 * token * 1000);
    assert_int_equal(made.host_weights + made.host_cache, 0);
    options = divided(3, false, 0, 0); /* 11, 11 and 10 layers */
    assert_int_equal(estimated(&options).weights, 11 * LAYER + 2 * TABLE + NORM);
    options = divided(1, false, 12, 0);
    made = estimated(&options);
    assert_int_equal(made.weights, 20 * LAYER + 2 * TABLE + NORM);
    assert_int_equal(made.cache, 20 * token * 1000);
    assert_int_equal(made.host_weights, 12 * LAYER);
    assert_int_equal(made.host_cache, 12 * token * 1000);
    options = divided(1, false, 32, 0); /* llama.cpp's -ngl 1: the output matrix alone */
    made = estimated(&options);
    assert_int_equal(made.weights, 2 * TABLE + NORM);
    assert_int_equal(made.cache, 0);
    assert_int_equal(made.host_weights, 32 * LAYER);
    options = divided(1, false, 33, 0); /* -ngl 0 */
    made = estimated(&options);
    assert_int_equal(made.weights + made.cache, 0);
    assert_int_equal(made.host_weights, whole.weights);
    const uint64_t vectors = 64 * NORM + NORM; /* copied to every device */
    options = divided(4, true, 0, 0);
    made = estimated(&options);
    assert_int_equal(made.weights, (whole.weights - vectors) / 4 + vectors);
    assert_int_equal(made.cache, whole.cache / 4);
    options = divided(32, true, 0, 0); /* 8 heads of keys: each on four devices */
    made = estimated(&options);
    assert_int_equal(made.cache, whole.cache / 8);
    const uint64_t keys = 32 * UINT64_C(2) * (2 * 1024 * 4096);
    assert_int_equal(made.weights, (whole.weights - vectors - keys) / 32 + keys / 8 + vectors);
    options = divided(5, true, 0, 0);
    assert_int_equal(tn_llm_estimate_make(&model, &options, &made, &failure), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "5 devices do not divide 32"));
}

/* gpt-oss-20b: 24 layers of 32 experts, of which a token uses 4; each expert has three matrices of
 * 2880 x 2880 in MXFP4, 17 bytes for 32 numbers. */
static void copies_of_experts_are_those_counted_by_hand(void **state) {
    (void)state;
    static const char oss[] =
        "{\"model_type\": \"gpt_oss\", \"hidden_size\": 2880, \"num_hidden_layers\": 24, "
        "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"head_dim\": 64, "
        "\"intermediate_size\": 2880, \"num_local_experts\": 32, \"num_experts_per_tok\": 4, "
        "\"vocab_size\": 201088, \"quantization_config\": {\"quant_method\": \"mxfp4\"}}";
    const uint64_t one = UINT64_C(3) * 2880 * 2880 / 32 * 17;
    assert_ok(tn_llm_config("config.json", oss, sizeof oss - 1, &model, &failure));
    tn_llm_options options = divided(1, false, 0, 0);
    const uint64_t whole = estimated(&options).weights;
    for (uint64_t layers = 1; layers <= 24; layers += 23)
        for (uint64_t cached = 0; cached <= 32; cached++) {
            options = divided(1, false, 0, layers);
            options.cached_experts = cached;
            tn_llm_estimate made = estimated(&options);
            assert_int_equal(made.expert_bytes, one);
            assert_int_equal(made.cached_bytes, layers * cached * one);
            assert_int_equal(made.token_experts, layers * 4 * one);
            assert_int_equal(made.host_weights, layers * 32 * one);
            assert_int_equal(made.weights, whole - layers * (32 - cached) * one);
        }
    tn_llm_estimate unused;
    options.cached_experts = 33;
    assert_int_equal(tn_llm_estimate_make(&model, &options, &unused, &failure), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "33 experts"));
    options = divided(1, false, 0, 0);
    options.cached_experts = 1;
    assert_int_equal(tn_llm_estimate_make(&model, &options, &unused, &failure), TN_E_INVALID);
}

/* The matrices that compress queries, keys and values, and routers, are not divided. */
static void compressing_matrices_are_copied(void **state) {
    (void)state;
    static const char mla[] =
        "{\"model_type\":\"deepseek_v2\",\"hidden_size\":64,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":4,\"intermediate_size\":128,\"vocab_size\":100,"
        "\"q_lora_rank\":32,\"kv_lora_rank\":16,\"qk_nope_head_dim\":16,"
        "\"qk_rope_head_dim\":8,\"v_head_dim\":16,\"n_routed_experts\":4,"
        "\"num_experts_per_tok\":2,\"moe_intermediate_size\":24,\"first_k_dense_replace\":1,"
        "\"max_position_embeddings\":64}";
    assert_ok(tn_llm_config("config.json", mla, sizeof mla - 1, &model, &failure));
    tn_llm_options options = divided(1, false, 0, 0);
    options.sequence = 10;
    const uint64_t whole = estimated(&options).weights;
    const uint64_t norms = 2 * (2 * 64 + 32 + 16) + 64, router = 4 * 64;
    const uint64_t copied = 2 * (norms + router + 2 * (64 * 32 + 64 * (16 + 8)));
    options = divided(4, true, 0, 0);
    options.sequence = 10;
    assert_int_equal(estimated(&options).weights, (whole - copied) / 4 + copied);
}

/* Divides one published model in random ways, and returns their number. Adds to `cached` the ways
 * with copies of experts. Single quotes in `text` are double ones. */
static uint32_t lose_nothing(const char *name, const char *text, tn__random *random,
                             uint32_t *cached) {
    static char json[8000];
    tn_llm_estimate whole, made, further;
    size_t length = strlen(text);
    assert_true(length < sizeof json);
    for (size_t k = 0; k <= length; k++) json[k] = text[k] == '\'' ? '"' : text[k];
    if (tn_llm_config("config.json", json, length, &model, &failure) != TN_OK) return 0;
    tn_llm_options options = divided(1, false, 0, 0);
    if (tn_llm_estimate_make(&model, &options, &whole, &failure) != TN_OK) return 0;
    for (int turn = 0; turn < 30; turn++) {
        uint32_t devices = 1 + (uint32_t)tn__random_below(random, 9);
        uint64_t away = tn__random_below(random, model.model.layers + 2);
        uint64_t experts = tn__random_below(random, model.model.layers + 2);
        options = divided(devices, false, away, experts);
        assert_ok(tn_llm_estimate_make(&model, &options, &made, &failure));
        assert_true(made.weights <= whole.weights && made.cache <= whole.cache);
        if (devices * made.weights + made.host_weights < whole.weights ||
            devices * made.cache + made.host_cache < whole.cache)
            fail_msg("%s: %u devices, %d layers and %d layers' experts away: bytes are missing",
                     name, devices, (int)away, (int)experts);
        options = divided(devices, false, away + 1, experts);
        assert_ok(tn_llm_estimate_make(&model, &options, &further, &failure));
        assert_true(further.total <= made.total);
        options = divided(devices, false, away, experts + 1);
        assert_ok(tn_llm_estimate_make(&model, &options, &further, &failure));
        assert_true(further.total <= made.total);
        options = divided(devices + 1, false, away, experts);
        assert_ok(tn_llm_estimate_make(&model, &options, &further, &failure));
        assert_true(further.total <= made.total);
        if (model.experts == 0 || experts == 0) continue;
        options = divided(devices, false, away, experts);
        options.cached_experts = 1 + tn__random_below(random, model.experts);
        assert_ok(tn_llm_estimate_make(&model, &options, &further, &failure));
        assert_true(further.total >= made.total && further.weights <= whole.weights);
        assert_int_equal(further.host_weights, made.host_weights);
        *cached += further.cached_bytes > 0;
    }
    return 30;
}

/* Of every published model, however it is divided. In some, a layer has two parts of the cache:
 * keys and a state, or keys and their index. */
static void nothing_is_lost(void **state) {
    (void)state;
    uint32_t tried = 0, cached = 0;
    tn__random random = {.state = 7};
    for (size_t i = 0; i < KNOWN_COUNT; i++)
        tried += lose_nothing(llm_published[i].name, llm_published[i].json, &random, &cached);
    for (size_t i = 0; i < sizeof llm_families / sizeof *llm_families; i++) {
        char text[12000];
        assert_true(llm_family_json(i, text, sizeof text) + 80 < sizeof text);
        tried += lose_nothing(llm_families[i].name, text, &random, &cached);
    }
    print_message("%u divisions\n", tried);
    assert_true(tried > 3000 && cached > 100);
}

static void put_tensor(char *json, size_t room, uint64_t *at, const char *name, uint64_t rows,
                       uint64_t columns) {
    size_t used = strlen(json);
    uint64_t size = 2 * rows * columns;
    char shape[48];
    if (rows == 1)
        snprintf(shape, sizeof shape, "%llu", (unsigned long long)columns);
    else
        snprintf(shape, sizeof shape, "%llu,%llu", (unsigned long long)rows,
                 (unsigned long long)columns);
    snprintf(json + used, room - used,
             "%s\"%s\":{\"dtype\":\"BF16\",\"shape\":[%s],\"data_offsets\":[%llu,%llu]}",
             used > 1 ? "," : "", name, shape, (unsigned long long)*at,
             (unsigned long long)(*at + size));
    *at += size;
}

/* Names of tensors contain their layers. */
/* The names of tensors say whether a tensor-parallel run copies or divides them. */
static void uneven_matrices_are_read_from_names(void **state) {
    (void)state;
    static const struct {
        const char *name;
        bool copied, keys;
    } rows[] = {
        {"model.layers.0.self_attn.q_proj.weight", false, false},
        {"model.layers.0.self_attn.o_proj.weight", false, false},
        {"model.layers.0.self_attn.k_proj.weight", false, true},
        {"model.layers.0.self_attn.v_proj.qweight", false, true},
        {"model.layers.0.self_attn.qkv_proj.weight", false, true},
        {"transformer.h.0.self_attention.query_key_value.weight", false, true},
        {"blk.0.attn_k.weight", false, true},
        {"blk.0.attn_qkv.weight", false, true},
        {"blk.0.attn_kv_a_mqa.weight", true, false},
        {"blk.0.attn_kv_b.weight", false, false},
        {"blk.0.ffn_gate_inp.weight", true, false},
        {"blk.0.ffn_gate.weight", false, false},
        {"model.layers.0.self_attn.kv_a_proj_with_mqa.weight", true, false},
        {"model.layers.0.self_attn.q_a_proj.weight", true, false},
        {"model.layers.0.mlp.gate.weight", true, false},
        {"model.layers.0.mlp.gate_proj.weight", false, false},
        {"model.layers.0.block_sparse_moe.gate.weight", true, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        static unsigned char file[4096];
        static tn_llm_stored stored;
        char *json = (char *)file + 8;
        uint64_t at = 0, length;
        tn_weights *weights;
        json[0] = '{', json[1] = '\0';
        put_tensor(json, 2000, &at, rows[i].name, 3, 4);
        strcat(json, "}");
        length = strlen(json);
        for (int k = 0; k < 8; k++) file[k] = (unsigned char)(length >> 8 * k);
        assert_ok(
            tn_weights_read("m.safetensors", file, 8 + length + at, NULL, &weights, &failure));
        tn_llm_stored_read(weights, &stored);
        tn_weights_close(weights);
        if (stored.vectors != (rows[i].copied ? at : 0) || stored.keys != (rows[i].keys ? at : 0))
            fail_msg("%s\n", rows[i].name);
    }
}

static void layers_are_read_from_names(void **state) {
    (void)state;
    static unsigned char file[1 << 16];
    char *json = (char *)file + 8;
    uint64_t at = 0;
    json[0] = '{', json[1] = '\0';
    put_tensor(json, 8000, &at, "model.embed_tokens.weight", 10, 4);
    put_tensor(json, 8000, &at, "model.layers.0.mlp.up_proj.weight", 8, 4);
    put_tensor(json, 8000, &at, "model.layers.1.mlp.experts.7.up_proj.weight", 6, 4);
    put_tensor(json, 8000, &at, "model.layers.1.mlp.shared_experts.up_proj.weight", 5, 4);
    put_tensor(json, 8000, &at, "model.layers.1.input_layernorm.weight", 1, 4);
    put_tensor(json, 8000, &at, "blk.2.ffn_up_exps.weight", 3, 4);
    put_tensor(json, 8000, &at, "vision_tower.layers.9.weight", 2, 4);
    strcat(json, "}");
    uint64_t length = strlen(json);
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)(length >> 8 * i);
    tn_weights *weights;
    static tn_llm_stored stored;
    assert_ok(tn_weights_read("m.safetensors", file, 8 + length + at, NULL, &weights, &failure));
    tn_llm_stored_read(weights, &stored);
    assert_int_equal(stored.layers, 3);
    assert_int_equal(stored.outside, 2 * 4 * (10 + 2));
    assert_int_equal(stored.layer[0], 2 * 4 * 8);
    assert_int_equal(stored.layer[1], 2 * 4 * (6 + 5 + 1));
    assert_int_equal(stored.layer[2], 2 * 4 * 3);
    assert_int_equal(stored.experts[0], 0);
    assert_int_equal(stored.experts[1], 2 * 4 * 6);
    assert_int_equal(stored.experts[2], 2 * 4 * 3);
    assert_int_equal(stored.vectors, 2 * 4);
    tn_weights_close(weights);
    /* the file's bytes are divided by these layers */
    assert_ok(tn_llm_config("config.json", llama, sizeof llama - 1, &model, &failure));
    tn_llm_options options = divided(1, false, 1, 0);
    options.weight_bytes = at;
    tn_llm_estimate made;
    assert_int_equal(tn_llm_estimate_make(&model, &options, &made, &failure), TN_E_UNSUPPORTED);
    options.stored = &stored;
    made = estimated(&options);
    assert_int_equal(made.weights, at - 2 * 4 * 8);
    assert_int_equal(made.host_weights, 2 * 4 * 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_counted_by_hand),
        cmocka_unit_test(copies_of_experts_are_those_counted_by_hand),
        cmocka_unit_test(compressing_matrices_are_copied),
        cmocka_unit_test(nothing_is_lost),
        cmocka_unit_test(uneven_matrices_are_read_from_names),
        cmocka_unit_test(layers_are_read_from_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
