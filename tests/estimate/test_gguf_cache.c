/* test_gguf_cache.c - the cache of .gguf files: bytes that llama.cpp b10256 itself told for files
 * of these keys, and the same without its rounding, by hand (../shared/reference/llm_2026.md, 3).
 */
#include <stdio.h>
#include <stdlib.h>

#include <tenure/llm.h>

#include "base/base.h"
#include "support.h"

static tn_error failure;
static tn_llm model;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

/* --- writing a file of keys alone --- */

static uint8_t file[1 << 16];
static size_t file_size, key_count_at;
static uint64_t key_count;
static const char *arch;

static void put(const void *from, size_t size) {
    assert_true(file_size + size <= sizeof file);
    memcpy(file + file_size, from, size);
    file_size += size;
}
static void put_number(uint64_t number, uint32_t width) {
    for (uint32_t i = 0; i < width; i++) put(&(uint8_t){(uint8_t)(number >> (8 * i))}, 1);
}
static void put_string(const char *text) {
    put_number(strlen(text), 8);
    put(text, strlen(text));
}
static void put_key(const char *name) {
    char key[100];
    snprintf(key, sizeof key, "%s.%s", arch, name);
    put_string(key);
    key_count++;
}

static void begin(const char *type) {
    arch = type;
    file_size = 0;
    key_count = 1;
    put("GGUF", 4);
    put_number(3, 4);
    put_number(0, 8); /* tensors */
    key_count_at = file_size;
    put_number(0, 8);
    put_string("general.architecture"), put_number(8, 4), put_string(type);
}

static tn_status end(tn_llm *llm) {
    tn_weights *weights;
    for (uint32_t i = 0; i < 8; i++) file[key_count_at + i] = (uint8_t)(key_count >> (8 * i));
    while (file_size % 32 != 0) put_number(0, 1);
    assert_ok(tn_weights_read("m.gguf", file, file_size, NULL, &weights, &failure));
    tn_status status = tn_llm_gguf(weights, llm, &failure);
    tn_weights_close(weights);
    return status;
}

/* "name=7 list=1,0x3,5" - numbers, and lists with repetitions; "b:list=" of booleans. */
static void put_keys(const char *text) {
    char words[1600], *save = NULL;
    snprintf(words, sizeof words, "%s", text);
    for (char *word = strtok_r(words, " ", &save); word != NULL;
         word = strtok_r(NULL, " ", &save)) {
        char *value = strchr(word, '=');
        bool boolean = strncmp(word, "b:", 2) == 0;
        *value++ = '\0';
        put_key(boolean ? word + 2 : word);
        if (strchr(value, ',') == NULL) {
            put_number(4, 4), put_number(strtoull(value, NULL, 10), 4);
            continue;
        }
        uint64_t items[512], count = 0;
        for (char *at = value; *at != '\0';) {
            uint64_t item = strtoull(at, &at, 10), times = 1;
            if (*at == 'x') times = strtoull(at + 1, &at, 10);
            for (uint64_t i = 0; i < times && count < 512; i++) items[count++] = item;
            if (*at == ',') at++;
        }
        put_number(9, 4), put_number(boolean ? 7 : 5, 4), put_number(count, 8);
        for (uint64_t i = 0; i < count; i++) put_number(items[i], boolean ? 1 : 4);
    }
}

#define BASE(d, l, h, k, size)                                                                     \
    "embedding_length=" #d " block_count=" #l " attention.head_count=" #h                          \
    " attention.head_count_kv=" #k " attention.key_length=" #size " attention.value_length=" #size \
    " context_length=1048576 feed_forward_length=64 "

#define GEMMA4_31B                                                                                 \
    "embedding_length=5376 block_count=60 attention.head_count=32 feed_forward_length=64 "         \
    "context_length=262144 attention.head_count_kv="                                               \
    "16x5,4,16x5,4,16x5,4,16x5,4,16x5,4,16x5,4,16x5,4,16x5,4,16x5,4,16x5,4 "                       \
    "attention.key_length=512 attention.value_length=512 attention.key_length_swa=256 "            \
    "attention.value_length_swa=256 attention.sliding_window=1024 "                                \
    "b:attention.sliding_window_pattern="                                                          \
    "1x5,0,1x5,0,1x5,0,1x5,0,1x5,0,1x5,0,1x5,0,1x5,0,1x5,0,1x5,0"

#define QWEN35MOE                                                                                  \
    BASE(2048, 40, 16, 2, 256)                                                                     \
    "ssm.conv_kernel=4 ssm.inner_size=4096 ssm.state_size=128 ssm.group_count=16 "                 \
    "ssm.time_step_rank=32"

/* 21 layers compress by 4, 20 by 128. llama.cpp told the bytes of the keys; the states are a sum by
 * hand. */
#define DEEPSEEK4                                                                                  \
    "embedding_length=4096 block_count=43 attention.head_count=64 attention.head_count_kv=1 "      \
    "attention.key_length=512 attention.value_length=512 attention.sliding_window=128 "            \
    "attention.indexer.key_length=128 context_length=1048576 feed_forward_length=64 "              \
    "attention.compress_ratios="                                                                   \
    "0x2,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,4,128,"     \
    "4,128,4,128,4,128,4,128,4,128,4,128,4"
#define DEEPSEEK4_STATES                                                                           \
    (4 * (21 * (2 * (2 * 512 * 8) + 2 * (2 * 128 * 8)) + 20 * (2 * (512 * 128))))

static void caches_are_those_of_llama_cpp(void **state) {
    (void)state;
    static const struct {
        const char *name, *arch, *keys;
        uint64_t tokens, allocated, ideal; /* ideal 0: the same */
        tn_weight_type type;
        uint64_t pass; /* 0: 512 */
    } rows[] = {
        {"Llama 3.1 8B", "llama", BASE(4096, 32, 32, 8, 128), 32768, UINT64_C(4294967296), 0,
         TN_WEIGHT_F16, 0},
        {"Llama 3.1 8B, 1,000 tokens", "llama", BASE(4096, 32, 32, 8, 128), 1000, 134217728,
         131072000, TN_WEIGHT_F16, 0},
        {"Llama 3.1 8B, q8_0", "llama", BASE(4096, 32, 32, 8, 128), 32768, UINT64_C(2281701376), 0,
         TN_WEIGHT_Q8_0, 0},
        {"Llama 3.1 8B, q4_0", "llama", BASE(4096, 32, 32, 8, 128), 32768, UINT64_C(1207959552), 0,
         TN_WEIGHT_Q4_0, 0},
        {"Mistral 7B v0.1", "llama", BASE(4096, 32, 32, 8, 128) "attention.sliding_window=4096",
         32768, UINT64_C(4294967296), 0, TN_WEIGHT_F16, 0},
        {"Phi-3 mini", "phi3", BASE(3072, 32, 32, 32, 96) "attention.sliding_window=2047", 32768,
         UINT64_C(12884901888), 0, TN_WEIGHT_F16, 0},
        {"Gemma 3 27B", "gemma3", BASE(5376, 62, 32, 16, 128) "attention.sliding_window=1024",
         32768, UINT64_C(3338665984), UINT64_C(3120562176), TN_WEIGHT_F16, 0},
        {"Gemma 3 27B, 8,192 tokens, passes of 2,048", "gemma3",
         BASE(5376, 62, 32, 16, 128) "attention.sliding_window=1024", 8192, UINT64_C(1979711488),
         UINT64_C(10) * 8192 * 8192 + UINT64_C(52) * 1024 * 8192, TN_WEIGHT_F16, 2048},
        {"Gemma 3 27B, 1,024 tokens", "gemma3",
         BASE(5376, 62, 32, 16, 128) "attention.sliding_window=1024", 1024, 520093696, 0,
         TN_WEIGHT_F16, 0},
        {"Gemma 4 31B", "gemma4", GEMMA4_31B, 32768, UINT64_C(3942645760), UINT64_C(3523215360),
         TN_WEIGHT_F16, 0},
        {"Gemma 4 31B, 262,144 tokens", "gemma4", GEMMA4_31B, 262144, UINT64_C(22733127680),
         UINT64_C(22313697280), TN_WEIGHT_F16, 0},
        {"Gemma 4 E2B", "gemma4",
         "embedding_length=1536 block_count=35 attention.head_count=8 attention.head_count_kv=1 "
         "attention.key_length=512 attention.value_length=512 attention.key_length_swa=256 "
         "attention.value_length_swa=256 attention.sliding_window=512 feed_forward_length=64 "
         "attention.shared_kv_layers=20 b:attention.sliding_window_pattern="
         "1x4,0,1x4,0,1x4,0,1x4,0,1x4,0,1x4,0,1x4,0",
         32768, 213909504, 207618048, TN_WEIGHT_F16, 0},
        {"Gemma 3n E4B", "gemma3n", BASE(2048, 35, 8, 2, 256) "attention.sliding_window=512", 32768,
         301989888, 285212672, TN_WEIGHT_F16, 0},
        {"Command R7B", "cohere2", BASE(4096, 32, 32, 8, 128) "attention.sliding_window=4096",
         131072, UINT64_C(4747952128), UINT64_C(4697620480), TN_WEIGHT_F16, 0},
        {"OLMo 3 7B", "olmo2", BASE(4096, 32, 32, 32, 128) "attention.sliding_window=4096", 65536,
         UINT64_C(10401873920), UINT64_C(10200547328), TN_WEIGHT_F16, 0},
        {"gpt-oss 20B", "gpt-oss", BASE(2880, 24, 64, 8, 64) "attention.sliding_window=128", 131072,
         UINT64_C(3240099840), UINT64_C(3224371200), TN_WEIGHT_F16, 0},
        {"gpt-oss 20B, passes of 2,048", "gpt-oss",
         BASE(2880, 24, 64, 8, 64) "attention.sliding_window=128", 131072, UINT64_C(3277848576),
         UINT64_C(3224371200), TN_WEIGHT_F16, 2048},
        {"Llama 4 Scout", "llama4", BASE(5120, 48, 40, 8, 128), 32768, UINT64_C(2894069760),
         UINT64_C(2818572288), TN_WEIGHT_F16, 0},
        {"EXAONE 4 32B", "exaone4", BASE(5120, 64, 40, 8, 128) "attention.sliding_window=4096",
         32768, UINT64_C(3053453312), UINT64_C(2952790016), TN_WEIGHT_F16, 0},
        {"EXAONE 4, 30 layers", "exaone4",
         BASE(2048, 30, 32, 8, 64) "attention.sliding_window=4096", 32768,
         UINT64_C(30) * 2 * 512 * 2 * 32768, 0, TN_WEIGHT_F16, 0},
        {"DeepSeek-V3", "deepseek2",
         "embedding_length=7168 block_count=61 attention.head_count=128 attention.head_count_kv=1 "
         "attention.key_length=576 attention.value_length=512 attention.key_length_mla=192 "
         "attention.value_length_mla=128 attention.kv_lora_rank=512 feed_forward_length=64",
         163840, UINT64_C(11513364480), 0, TN_WEIGHT_F16, 0},
        {"GLM-5", "glm-dsa",
         "embedding_length=6144 block_count=79 nextn_predict_layers=1 attention.head_count=64 "
         "attention.head_count_kv=1 attention.key_length=576 attention.value_length=512 "
         "attention.key_length_mla=256 attention.value_length_mla=256 context_length=202752 "
         "attention.indexer.key_length=128 feed_forward_length=64",
         32768, UINT64_C(3598712832), 0, TN_WEIGHT_F16, 0},
        {"Qwen3.5 35B-A3B", "qwen35moe", QWEN35MOE, 32768, 736952320, 0, TN_WEIGHT_F16, 0},
        {"Qwen3.5 35B-A3B, 262,144 tokens", "qwen35moe", QWEN35MOE, 262144, UINT64_C(5434572800), 0,
         TN_WEIGHT_F16, 0},
        {"Qwen3.5 35B-A3B with a layer that predicts a further token", "qwen35moe",
         BASE(2048, 41, 16, 2, 256) "nextn_predict_layers=1 ssm.conv_kernel=4 ssm.inner_size=4096 "
                                    "ssm.state_size=128 ssm.group_count=16",
         32768, 736952320, 0, TN_WEIGHT_F16, 0},
        {"Qwen3.5 27B", "qwen35",
         BASE(5120, 64, 24, 4, 256) "ssm.conv_kernel=4 ssm.inner_size=6144 ssm.state_size=128 "
                                    "ssm.group_count=16",
         32768, UINT64_C(2304376832), 0, TN_WEIGHT_F16, 0},
        {"Nemotron-3 Nano", "nemotron_h_moe",
         "embedding_length=2688 block_count=52 attention.head_count=32 attention.key_length=128 "
         "attention.value_length=128 ssm.conv_kernel=4 ssm.inner_size=4096 ssm.state_size=128 "
         "ssm.group_count=8 attention.head_count_kv="
         "0x5,2,0x6,2,0x6,2,0x6,2,0x6,2,0x8,2,0x9 feed_forward_length="
         "0,64,0,64,0,0,64,0,64,0,64,0,0,64,0,64,0,64,0,0,64,0,64,0,64,0,0,64,0,64,0,64,0,0,64,0,"
         "64,"
         "0,64,0,64,0,0,64,0,64,0,64,0,64,0,64",
         32768, 251256832, 0, TN_WEIGHT_F16, 0},
        {"Granite 4 h-small", "granitehybrid",
         "embedding_length=4096 block_count=40 attention.head_count=32 attention.key_length=128 "
         "attention.value_length=128 ssm.conv_kernel=4 ssm.inner_size=8192 ssm.state_size=128 "
         "ssm.group_count=1 feed_forward_length=64 attention.head_count_kv="
         "0x5,8,0x9,8,0x9,8,0x9,8,0x4",
         32768, 691515392, 0, TN_WEIGHT_F16, 0},
        {"LFM2 1.2B", "lfm2",
         "embedding_length=2048 block_count=16 attention.head_count=32 attention.key_length=64 "
         "attention.value_length=64 shortconv.l_cache=3 feed_forward_length=64 "
         "attention.head_count_kv=0x2,8,0x2,8,0x2,8,0,8,0,8,0,8,0",
         32768, 402817024, 0, TN_WEIGHT_F16, 0},
        {"Falcon-H1 34B", "falcon-h1",
         BASE(5120, 72, 20, 4, 128) "ssm.conv_kernel=4 ssm.inner_size=4096 ssm.state_size=256 "
                                    "ssm.group_count=2",
         32768, UINT64_C(5138251776), 0, TN_WEIGHT_F16, 0},
        {"Mamba-2 2.7B", "mamba2",
         "embedding_length=2560 block_count=64 attention.head_count=0 ssm.conv_kernel=4 "
         "ssm.inner_size=5120 ssm.state_size=128 ssm.group_count=1",
         4096, 171900928, 0, TN_WEIGHT_F16, 0},
        {"RWKV-7 2.9B", "rwkv7",
         "embedding_length=2560 block_count=32 attention.head_count=0 wkv.head_size=64 "
         "token_shift_count=2",
         4096, 21626880, 0, TN_WEIGHT_F16, 0},
        {"DeepSeek-V4-Flash", "deepseek4", DEEPSEEK4, 32768,
         33816576 + 176160768 + 5242880 + 44040192 + DEEPSEEK4_STATES,
         43 * 128 * 1024 + 176160768 + 5242880 + 44040192 + DEEPSEEK4_STATES, TN_WEIGHT_F16, 0},
        {"Nanbeige, layers that run twice", "nanbeige", BASE(2560, 24, 20, 4, 128) "num_loops=2",
         4096, UINT64_C(2) * 24 * 4096 * 2 * 512 * 2, 0, TN_WEIGHT_F16, 0},
        {"GLM-4.5-Air: its further layer has a cache, too", "glm4moe",
         BASE(4096, 47, 96, 8, 128) "nextn_predict_layers=1", 1024,
         UINT64_C(47) * 1024 * 2 * 1024 * 2, 0, TN_WEIGHT_F16, 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tn_llm_options options = TN_LLM_OPTIONS_INIT;
        tn_llm_estimate made;
        begin(rows[i].arch);
        put_keys(rows[i].keys);
        if (end(&model) != TN_OK) fail_msg("%s: %s\n", rows[i].name, failure.message);
        options.sequence = rows[i].tokens;
        options.cache_type = rows[i].type;
        options.pass = rows[i].pass;
        options.weight_bytes = 1;
        options.runtime = TN_LLM_RUN_LLAMA_CPP;
        assert_ok(tn_llm_estimate_make(&model, &options, &made, &failure));
        uint64_t ideal = rows[i].ideal > 0 ? rows[i].ideal : rows[i].allocated;
        if (made.cache_allocated != rows[i].allocated || made.cache != ideal)
            fail_msg("%s: %llu allocated, %llu ideal\n", rows[i].name,
                     (unsigned long long)made.cache_allocated, (unsigned long long)made.cache);
        if (*model.note != '\0') fail_msg("%s: %s\n", rows[i].name, model.note);
    }
}

/* An unknown is never on the unsafe side. */
static void an_architecture_that_is_not_known_is_counted_in_full(void **state) {
    (void)state;
    tn_llm_options options = TN_LLM_OPTIONS_INIT;
    tn_llm_estimate made;
    begin("newarch");
    put_keys(BASE(4096, 32, 32, 8,
                  128) "attention.sliding_window=128 attention.sliding_window_pattern=6");
    assert_ok(end(&model));
    assert_non_null(strstr(model.note, "newarch"));
    options.sequence = 32768;
    options.cache_type = TN_WEIGHT_F16;
    options.weight_bytes = 1;
    assert_ok(tn_llm_estimate_make(&model, &options, &made, &failure));
    assert_int_equal(made.cache, UINT64_C(4294967296));
    assert_true(model.unproved);
    static const char *const states[] = {"ssm.state_size=128",
                                         "wkv.head_size=64",
                                         "shortconv.l_cache=3",
                                         "ssm.inner_size=64",
                                         "b:attention.recurrent_layers=1x32,",
                                         "attention.indexer.key_length=128"};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        begin("newarch");
        put_keys(BASE(4096, 32, 32, 8, 128));
        put_keys(states[i]);
        assert_int_equal(end(&model), TN_E_UNSUPPORTED);
        assert_non_null(strstr(failure.message, "newarch"));
    }
}

/* What a layer without KV heads keeps is unknown, and a decoder may have more layers than the file
 * states first. */
static void layers_that_are_not_known_are_not_left_out(void **state) {
    (void)state;
    tn_llm_options options = TN_LLM_OPTIONS_INIT;
    tn_llm_estimate made;
    begin("newarch");
    put_keys("embedding_length=64 block_count=4 attention.head_count=4 attention.head_count_kv=0");
    assert_int_equal(end(&model), TN_E_UNSUPPORTED);
    assert_non_null(strstr(failure.message, "no KV heads"));
    begin("t5");
    put_keys("embedding_length=64 block_count=4 decoder_block_count=12 attention.head_count=4");
    assert_ok(end(&model));
    assert_true(model.unproved);
    options.sequence = 256;
    options.cache_type = TN_WEIGHT_F16;
    options.weight_bytes = 1;
    assert_ok(tn_llm_estimate_make(&model, &options, &made, &failure));
    assert_int_equal(made.cache, 12 * 256 * 2 * 64 * 2);
    begin("lfm2");
    put_keys("embedding_length=64 block_count=2 attention.head_count=4 "
             "attention.head_count_kv=0,4");
    assert_int_equal(end(&model), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "lfm2.shortconv.l_cache"));
}

/* Layers with fewer heads are divided among fewer devices; the others keep a copy of a head. */
static void each_layer_is_divided_by_its_own_heads(void **state) {
    (void)state;
    static const struct {
        uint32_t devices;
        uint64_t windowed, full; /* heads on a device of layers with 16 and with 4 */
    } rows[] = {{2, 8, 2}, {4, 4, 1}, {8, 2, 1}, {16, 1, 1}};
    begin("gemma4");
    put_keys("embedding_length=64 block_count=2 attention.head_count=32 "
             "attention.head_count_kv=16,4 attention.key_length=512 attention.value_length=512 "
             "attention.key_length_swa=256 attention.value_length_swa=256 "
             "attention.sliding_window=100 b:attention.sliding_window_pattern=1,0");
    assert_ok(end(&model));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tn_llm_options options = TN_LLM_OPTIONS_INIT;
        tn_llm_estimate made;
        options.sequence = 1000;
        options.cache_type = TN_WEIGHT_F16;
        options.weight_bytes = 1000;
        options.devices = rows[i].devices;
        options.by_tensor = true;
        static tn_llm_stored stored;
        stored = (tn_llm_stored){.layers = 2, .outside = 1000};
        options.stored = &stored;
        assert_ok(tn_llm_estimate_make(&model, &options, &made, &failure));
        uint64_t windowed = 100 * 2 * 256 * 2 * rows[i].windowed;
        assert_int_equal(made.cache, windowed + 1000 * 2 * 512 * 2 * rows[i].full);
    }
}

static void hostile_keys_are_refused_or_bounded(void **state) {
    (void)state;
    static const struct {
        const char *arch, *keys, *says;
    } rows[] = {
        {"llama", "embedding_length=64", "block_count"},
        {"llama", "embedding_length=64 block_count=4000000000 attention.head_count=1", "layers"},
        {"llama", "embedding_length=64 block_count=4 attention.head_count=0", "head_count"},
        {"llama",
         "embedding_length=64 block_count=4 attention.head_count=4 "
         "attention.head_count_kv=1,2,3",
         "fewer than 4 layers"},
        {"mamba", "embedding_length=64 block_count=4 ssm.conv_kernel=0", "ssm.conv_kernel"},
        {"qwen35",
         "embedding_length=64 block_count=4 attention.head_count=4 "
         "nextn_predict_layers=4",
         "further"},
        {"deepseek4", "embedding_length=64 block_count=3 attention.head_count=4",
         "no list deepseek4.attention.compress_ratios"},
        {"deepseek4",
         "embedding_length=64 block_count=3 attention.head_count=4 attention.head_count_kv=1 "
         "attention.compress_ratios=0,4,128",
         "attention.indexer.key_length"},
        {"deepseek4",
         "embedding_length=64 block_count=3 attention.head_count=4 attention.head_count_kv=1 "
         "attention.indexer.key_length=8 attention.compress_ratios=0,4,64",
         "only 4 and 128"},
        {"deepseek4",
         "embedding_length=64 block_count=3 attention.head_count=4 attention.head_count_kv=1 "
         "attention.indexer.key_length=8 attention.compress_ratios=0,4",
         "fewer than 3 layers"},
        {"llama", "embedding_length=64 block_count=3 attention.head_count=4 num_loops=2",
         "several times"},
        {"nanbeige", "embedding_length=64 block_count=3 attention.head_count=4 num_loops=99999",
         "99999 times"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        begin(rows[i].arch);
        put_keys(rows[i].keys);
        if (end(&model) == TN_OK || strstr(failure.message, rows[i].says) == NULL)
            fail_msg("%s: '%s'\n", rows[i].keys, failure.message);
    }
    /* widths of the largest numbers add up without wrapping */
    begin("llama");
    put_keys("embedding_length=4294967295 block_count=8000 attention.head_count=4294967295 "
             "attention.key_length=4294967295 attention.value_length=4294967295");
    assert_ok(end(&model));
    tn_llm_options options = TN_LLM_OPTIONS_INIT;
    tn_llm_estimate made;
    options.sequence = UINT64_C(1) << 40;
    options.weight_bytes = 1;
    assert_int_equal(tn_llm_estimate_make(&model, &options, &made, &failure), TN_E_INVALID);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(caches_are_those_of_llama_cpp),
        cmocka_unit_test(an_architecture_that_is_not_known_is_counted_in_full),
        cmocka_unit_test(layers_that_are_not_known_are_not_left_out),
        cmocka_unit_test(each_layer_is_divided_by_its_own_heads),
        cmocka_unit_test(hostile_keys_are_refused_or_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
