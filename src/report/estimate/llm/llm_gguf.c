/* llm_gguf.c - reads the sizes and the cache of a transformer from the keys of a .gguf file, as
 * llama.cpp does.
 *
 * The windows and states of an architecture are compiled into llama.cpp and need not be in the
 * file. The table gguf_archs has them, with a row for each architecture. For an architecture
 * without a row, all layers are counted with full attention, as llama.cpp does. That is an upper
 * bound, and the result says so unless the architecture is known to have full attention only. If an
 * architecture without a row has keys about states or an index, the result is an error, because its
 * cache is not known. Source: llama.cpp b10256 (llama-model.cpp, llama-hparams.cpp,
 * llama-kv-cache.cpp, llama-memory-recurrent.cpp). tests/estimate/test_gguf_cache.c has the context
 * sizes that llama.cpp itself reports for real files.
 */
#include <stdio.h>

#include "report/estimate/llm/llm.h"

typedef enum gguf_state { /* which layers of an architecture keep a state of constant size */
                          GGUF_NONE,
                          GGUF_ALL,  /* every layer keeps a state, and no layer has attention */
                          GGUF_BOTH, /* every layer keeps a state in addition to its attention */
                          GGUF_NO_HEADS, /* layers with 0 heads of keys keep a state */
                          /* layers with neither heads of keys nor an inner layer keep a state */
                          GGUF_NO_PARTS,
                          /* all layers but every full_attention_interval-th keep a state */
                          GGUF_INTERVAL
} gguf_state;

typedef enum gguf_list { /* effect of a list in the key sliding_window_pattern */
                         /* the list is ignored; the pattern compiled into llama.cpp applies */
                         GGUF_COMPILED,
                         GGUF_LISTED, /* the list replaces the compiled pattern */
                         /* only a list in the file applies, because there is no compiled pattern */
                         GGUF_ONLY
} gguf_list;

typedef enum gguf_index {
    GGUF_NO_INDEX,
    GGUF_INDEX,
    GGUF_INDEX_TYPES,
    GGUF_INDEX_VALUES
} gguf_index;

typedef struct gguf_arch {
    const char *name;
    uint32_t window; /* window in tokens if the file has no key for it; 0: no window */
    uint32_t period; /* one layer per period has full attention; 1: every layer has a window */
    bool first; /* true: the layer with full attention is the first of its period, not the last */
    /* true: the compiled window applies, except if the key is 0, which means no window */
    bool fixed;
    gguf_list list;
    gguf_state state;
    gguf_index index;
    bool loops; /* true if layers run num_loops times, each time with a cache of its own */
    /* true if keys are also kept in compressed form, by the list attention.compress_ratios */
    bool compresses;
    bool not_further; /* true if layers that predict further tokens have no cache */
    bool encoder;     /* true if the architecture is an encoder, which has no cache */
} gguf_arch;

static const gguf_arch gguf_archs[] = {
    {"afmoe", .period = 4},
    {"arwkv7", .state = GGUF_ALL},
    {"bert", .encoder = true},
    {"cohere2", .period = 4},
    {"cohere2moe", .period = 4, .first = true, .list = GGUF_LISTED},
    {"deepseek4", .period = 1, .compresses = true},
    {"deepseek32", .index = GGUF_INDEX, .not_further = true},
    {"exaone-moe", .window = 128, .period = 4},
    {"exaone4", .window = 4096, .period = 4},
    {"falcon-h1", .state = GGUF_BOTH},
    {"gemma-embedding", .encoder = true},
    {"gemma2", .window = 4096, .period = 2},
    {"gemma3", .period = 6},
    {"gemma3n", .period = 5},
    {"gemma4", .list = GGUF_ONLY},
    {"gemma4-assistant", .list = GGUF_ONLY},
    {"glm-dsa", .index = GGUF_INDEX_TYPES, .not_further = true},
    {"gpt-oss", .period = 2},
    {"granitehybrid", .state = GGUF_NO_HEADS},
    {"hy_v3", .not_further = true},
    {"hy-v3", .not_further = true},
    {"jamba", .state = GGUF_NO_HEADS},
    {"jina-bert-v2", .encoder = true},
    {"kimi-linear", .state = GGUF_NO_HEADS},
    {"laguna", .period = 4, .first = true},
    {"lfm2", .period = 1, .state = GGUF_NO_HEADS},
    {"lfm2moe", .state = GGUF_NO_HEADS},
    {"llama4", .window = 8192, .period = 4, .fixed = true},
    {"mamba", .state = GGUF_ALL},
    {"mamba2", .state = GGUF_ALL},
    {"mellum", .period = 4, .list = GGUF_LISTED},
    {"mimo2", .list = GGUF_ONLY, .not_further = true},
    {"minimax-m3", .index = GGUF_INDEX_VALUES},
    {"modern-bert", .encoder = true},
    {"nanbeige", .loops = true},
    {"nemotron_h", .state = GGUF_NO_PARTS},
    {"nemotron_h_moe", .state = GGUF_NO_PARTS},
    {"nomic-bert", .encoder = true},
    {"nomic-bert-moe", .encoder = true},
    {"olmo2", .period = 4},
    {"plamo2", .state = GGUF_NO_HEADS},
    {"plamo3", .period = 8},
    {"qwen35", .state = GGUF_INTERVAL, .not_further = true},
    {"qwen35moe", .state = GGUF_INTERVAL, .not_further = true},
    {"qwen3next", .state = GGUF_INTERVAL, .not_further = true},
    {"rwkv6", .state = GGUF_ALL},
    {"rwkv6qwen2", .state = GGUF_ALL},
    {"rwkv7", .state = GGUF_ALL},
    {"smallthinker", .window = 4096, .period = 4, .first = true, .fixed = true},
    {"step35", .list = GGUF_ONLY, .not_further = true},
};

/* Architectures that have full attention in all layers. For them no note is printed. */
static const char *const gguf_plain[] = {
    "apertus",     "arcee",     "arctic",     "baichuan",   "bailingmoe", "bailingmoe2",
    "bloom",       "chatglm",   "codeshell",  "cogvlm",     "command-r",  "dbrx",
    "deci",        "deepseek",  "deepseek2",  "dots1",      "ernie4_5",   "ernie4_5-moe",
    "exaone",      "falcon",    "gemma",      "glm4",       "glm4moe",    "gpt2",
    "gptj",        "gptneox",   "granite",    "granitemoe", "grok",       "hunyuan-dense",
    "hunyuan-moe", "internlm2", "jais",       "llama",      "minicpm",    "minicpm3",
    "minimax-m2",  "mistral3",  "mpt",        "nemotron",   "olmo",       "olmoe",
    "openelm",     "opt",       "orion",      "phi2",       "phi3",       "phimoe",
    "plamo",       "qwen",      "qwen2",      "qwen2moe",   "qwen2vl",    "qwen3",
    "qwen3moe",    "qwen3vl",   "qwen3vlmoe", "refact",     "seed_oss",   "smollm3",
    "stablelm",    "starcoder", "starcoder2", "xverse",
};

typedef struct gguf_reading {
    const tn_weights *weights;
    const char *type;
    const gguf_arch *arch; /* the row for the architecture in gguf_archs, or NULL */
    uint64_t cached;       /* number of layers that may have a cache */
    uint64_t loops;        /* number of caches of each layer */
    uint64_t window, interval, borrowed;
    tn_error *error;
} gguf_reading;

/* --- keys --- */

#define GGUF_KEY 120
static void gguf_key(const gguf_reading *it, const char *name, char key[GGUF_KEY]) {
    snprintf(key, GGUF_KEY, "%.39s.%s", it->type, name);
}

static bool gguf_find(const gguf_reading *it, const char *name, uint64_t *number) {
    char key[GGUF_KEY];
    gguf_key(it, name, key);
    return tn_weights_number(it->weights, key, number);
}

/* Reads a key that must exist and must be at least 1. */
static tn_status gguf_need(const gguf_reading *it, const char *name, uint64_t *number) {
    if (gguf_find(it, name, number) && *number >= 1 && *number <= TN__LLM_MOST) return TN_OK;
    TN_FAIL(it->error, TN_E_INVALID, "the file has no key %.39s.%s with a number above 0", it->type,
            name);
}

/* Returns whether a key has a list with one number per layer, instead of one number for all
 * layers. */
static bool gguf_is_list(const gguf_reading *it, const char *name) {
    char key[GGUF_KEY];
    uint64_t first;
    gguf_key(it, name, key);
    return tn_weights_number_at(it->weights, key, 0, &first);
}

static tn_status gguf_at(const gguf_reading *it, const char *name, uint64_t layer,
                         uint64_t otherwise, uint64_t *number) {
    char key[GGUF_KEY];
    *number = otherwise;
    if (!gguf_is_list(it, name)) {
        gguf_find(it, name, number);
    } else {
        gguf_key(it, name, key);
        if (!tn_weights_number_at(it->weights, key, layer, number))
            TN_FAIL(it->error, TN_E_INVALID, "%s lists fewer than %llu layers", key,
                    (unsigned long long)layer + 1);
    }
    if (*number > TN__LLM_MOST)
        TN_FAIL(it->error, TN_E_INVALID, "%.39s.%s is out of range", it->type, name);
    return TN_OK;
}

static bool gguf_is(const gguf_reading *it, const char *type) {
    return strcmp(it->type, type) == 0;
}

static bool gguf_is_plain(const char *type) {
    for (size_t i = 0; i < sizeof gguf_plain / sizeof *gguf_plain; i++)
        if (strcmp(gguf_plain[i], type) == 0) return true;
    return false;
}

/* --- windows --- */

/* Returns the window of the layers that have one, in tokens, or 0 if no layer has a window. */
static uint64_t gguf_window(const gguf_reading *it, uint64_t layers) {
    const gguf_arch *arch = it->arch;
    uint64_t window = 0;
    if (arch == NULL || (arch->period == 0 && arch->list != GGUF_ONLY)) return 0;
    bool is_stated = gguf_find(it, "attention.sliding_window", &window);
    if (gguf_is(it, "exaone4") && layers != 64) return 0;
    if (is_stated && window == 0) return 0;
    if (gguf_is(it, "smallthinker") && !is_stated) return 0;
    if (!is_stated || arch->fixed) window = arch->window;
    return window;
}

static tn_status gguf_is_windowed(const gguf_reading *it, uint64_t layer, bool *windowed) {
    const char *name = "attention.sliding_window_pattern";
    const gguf_arch *arch = it->arch;
    uint64_t value = 0, period;
    *windowed = false;
    if (it->window == 0) return TN_OK;
    if (arch->list != GGUF_COMPILED && gguf_is_list(it, name)) {
        TN_TRY(gguf_at(it, name, layer, 0, &value));
        *windowed = value != 0;
        return TN_OK;
    }
    /* a number other than 0 means that all layers have a window; without the key all are counted
     * with full attention, an upper bound */
    if (arch->list == GGUF_ONLY) {
        *windowed = gguf_find(it, name, &value) && value != 0;
        return TN_OK;
    }
    if (arch->period == 1) { /* every layer has a window; the key is ignored */
        *windowed = true;
        return TN_OK;
    }
    bool is_stated = gguf_find(it, name, &value) && value > 0;
    /* for cohere2moe, llama.cpp has no compiled pattern of windows */
    if (gguf_is(it, "cohere2moe") && !is_stated) return TN_OK;
    period = is_stated ? value : arch->period;
    uint64_t at = layer % period;
    *windowed = period == 1 || (arch->first ? at != 0 : at != period - 1);
    return TN_OK;
}

/* --- states --- */

static tn_status gguf_has_state(const gguf_reading *it, uint64_t layer, uint64_t kv_heads,
                                bool *state) {
    gguf_state kind = it->arch != NULL ? it->arch->state : GGUF_NONE;
    uint64_t inner = 0, listed = 0;
    switch (kind) {
    case GGUF_NO_PARTS:
        TN_TRY(gguf_at(it, "feed_forward_length", layer, 0, &inner));
        *state = kv_heads == 0 && inner == 0;
        return TN_OK;
    case GGUF_INTERVAL:
        *state = (layer + 1) % it->interval != 0;
        if (!gguf_is_list(it, "attention.recurrent_layers")) return TN_OK;
        TN_TRY(gguf_at(it, "attention.recurrent_layers", layer, 0, &listed));
        *state = listed != 0;
        return TN_OK;
    default:
        *state = kind == GGUF_ALL || kind == GGUF_BOTH || (kind == GGUF_NO_HEADS && kv_heads == 0);
        return TN_OK;
    }
}

/* Computes how many numbers the state of one layer has. The kind of state follows from the keys in
 * the file. */
static tn_status gguf_state_size(const gguf_reading *it, const tn_llm *llm, uint64_t *size) {
    uint64_t k = 0, inner = 0, n = 0, groups = 0, head = 0, taps;
    if (gguf_find(it, "wkv.head_size", &head)) {
        uint64_t shifts = 2;
        gguf_find(it, "token_shift_count", &shifts);
        *size = tn__mul_sat(llm->model.hidden, tn__add_sat(head, shifts));
        return TN_OK;
    }
    if (gguf_find(it, "shortconv.l_cache", &k)) {
        *size = tn__mul_sat(llm->model.hidden, k > 0 ? k - 1 : 0);
        return TN_OK;
    }
    if (strncmp(it->type, "lfm2", 4) == 0) return gguf_need(it, "shortconv.l_cache", &k);
    TN_TRY(gguf_need(it, "ssm.conv_kernel", &k));
    taps = k > 0 ? k - 1 : 0;
    if (gguf_find(it, "kda.head_dim", &head)) {
        uint64_t width = tn__mul_sat(llm->model.heads, head);
        *size = tn__mul_sat(width, tn__add_sat(head, tn__mul_sat(3, taps)));
        return TN_OK;
    }
    TN_TRY(gguf_need(it, "ssm.inner_size", &inner));
    TN_TRY(gguf_need(it, "ssm.state_size", &n));
    gguf_find(it, "ssm.group_count", &groups);
    uint64_t mixed = tn__add_sat(inner, tn__mul_sat(2, tn__mul_sat(groups, n)));
    *size = tn__add_sat(tn__mul_sat(taps, mixed), tn__mul_sat(n, inner));
    return TN_OK;
}

/* For an architecture without a row: returns the first key of the file that is about states, an
 * index or a compressed cache, or NULL if there is none. */
static const char *gguf_unknown_part(const gguf_reading *it) {
    static const char *const names[] = {"ssm.state_size",
                                        "ssm.inner_size",
                                        "ssm.conv_kernel",
                                        "wkv.head_size",
                                        "shortconv.l_cache",
                                        "kda.head_dim",
                                        "full_attention_interval",
                                        "attention.recurrent_layers",
                                        "attention.indexer.key_length",
                                        "attention.compress_ratios"};
    uint64_t value = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (gguf_is_list(it, names[i]) || (gguf_find(it, names[i], &value) && value > 0))
            return names[i];
    return NULL;
}

/* --- the cache of each layer --- */

typedef struct gguf_widths { /* widths of keys and values of one head */
    uint64_t key, value, window_key, window_value;
    bool compressed; /* true: the cache has only one compressed vector per token, counted as key */
} gguf_widths;

static tn_status gguf_read_widths(const gguf_reading *it, const tn_llm *llm, gguf_widths *to) {
    uint64_t heads = llm->model.heads > 0 ? llm->model.heads : 1, mla_key = 0, mla_value = 0;
    uint64_t plain = llm->model.hidden / heads + (llm->model.hidden % heads != 0);
    *to = (gguf_widths){.key = plain, .value = plain};
    gguf_find(it, "attention.key_length", &to->key);
    gguf_find(it, "attention.value_length", &to->value);
    to->window_key = to->key;
    to->window_value = to->value;
    gguf_find(it, "attention.key_length_swa", &to->window_key);
    gguf_find(it, "attention.value_length_swa", &to->window_value);
    to->compressed = gguf_find(it, "attention.key_length_mla", &mla_key) &&
                     gguf_find(it, "attention.value_length_mla", &mla_value) && mla_key > 0 &&
                     mla_value > 0;
    uint64_t most = to->key | to->value | to->window_key | to->window_value;
    if (most > TN__LLM_MOST)
        TN_FAIL(it->error, TN_E_INVALID, "a head of 2^40 numbers or more is out of range");
    return TN_OK;
}

static tn_status gguf_add_index(const gguf_reading *it, const gguf_widths *widths, uint64_t layer,
                                tn_llm_cache *cache) {
    gguf_index index = it->arch != NULL ? it->arch->index : GGUF_NO_INDEX;
    uint64_t size = 0, first = 0, listed = 1;
    if (index == GGUF_NO_INDEX || !gguf_find(it, "attention.indexer.key_length", &size))
        return TN_OK;
    if (size > TN__LLM_MOST) TN_FAIL(it->error, TN_E_INVALID, "an index of 2^40 numbers or more");
    if (index == GGUF_INDEX_VALUES) {
        gguf_find(it, "leading_dense_block_count", &first);
        if (layer < first) return TN_OK;
    }
    if (index == GGUF_INDEX_TYPES && gguf_is_list(it, "attention.indexer.types"))
        TN_TRY(gguf_at(it, "attention.indexer.types", layer, 1, &listed));
    uint64_t value = index == GGUF_INDEX_VALUES ? widths->value : 0;
    const tn_llm_cache_group keys = {.layers = 1, .key = size, .value = value, .beside = true};
    if (listed != 0 && size > 0) tn__llm_cache_add(cache, &keys);
    return TN_OK;
}

/* Adds what a layer of deepseek4 has in addition to its window: compressed keys and index keys, and
 * the states of the tokens that are being compressed. With a ratio of 4, states overlap. */
static tn_status gguf_add_compressed(const gguf_reading *it, uint64_t key, uint64_t layer,
                                     tn_llm_cache *cache) {
    uint64_t ratio = 0, index = 0, state = 0;
    if (it->arch == NULL || !it->arch->compresses) return TN_OK;
    if (!gguf_is_list(it, "attention.compress_ratios"))
        TN_FAIL(it->error, TN_E_INVALID, "the file has no list %.39s.attention.compress_ratios",
                it->type);
    TN_TRY(gguf_at(it, "attention.compress_ratios", layer, 0, &ratio));
    if (ratio == 0) return TN_OK;
    if (ratio != 4 && ratio != 128)
        TN_FAIL(it->error, TN_E_UNSUPPORTED, "keys compressed by %llu: only 4 and 128 are known",
                (unsigned long long)ratio);
    const tn_llm_cache_group keys = {.layers = 1, .key = key, .beside = true, .every = ratio};
    tn__llm_cache_add(cache, &keys);
    if (ratio == 4) {
        TN_TRY(gguf_need(it, "attention.indexer.key_length", &index));
        const tn_llm_cache_group indices = {
            .layers = 1, .key = index, .beside = true, .every = ratio};
        tn__llm_cache_add(cache, &indices);
        state = tn__mul_sat(32, tn__add_sat(key, index));
    } else {
        state = tn__mul_sat(256, key);
    }
    cache->state = tn__add_sat(cache->state, state);
    cache->state_layers++;
    cache->state_beside = true;
    return TN_OK;
}

/* Adds the cache of one layer, which may have full attention, a window, a state, or none of
 * them. */
static tn_status gguf_add_layer(const gguf_reading *it, const gguf_widths *widths, uint64_t layer,
                                tn_llm *llm) {
    uint64_t heads = 0, query_heads = 0;
    bool windowed, state;
    TN_TRY(gguf_at(it, "attention.head_count", layer, 0, &query_heads));
    TN_TRY(gguf_at(it, "attention.head_count_kv", layer, query_heads, &heads));
    TN_TRY(gguf_has_state(it, layer, heads, &state));
    TN_TRY(gguf_is_windowed(it, layer, &windowed));
    if (state) llm->cache.state_layers++;
    if (state && it->arch->state == GGUF_BOTH) llm->cache.state_beside = true;
    if (heads > llm->model.kv_heads) llm->model.kv_heads = heads;
    bool attends = !state || (it->arch != NULL && it->arch->state == GGUF_BOTH);
    bool borrows = layer >= it->cached - it->borrowed;
    /* for an unknown architecture, the state that such a layer keeps instead of keys is unknown */
    if (heads == 0 && it->arch == NULL && !gguf_is_plain(it->type))
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "architecture %.39s is not known, and a layer has no KV heads: its cache",
                it->type);
    if (!attends || heads == 0 || borrows) return TN_OK;
    uint64_t key = tn__mul_sat(heads, windowed ? widths->window_key : widths->key);
    uint64_t value = tn__mul_sat(heads, windowed ? widths->window_value : widths->value);
    bool alone = widths->compressed || (it->arch != NULL && it->arch->compresses);
    if (alone) value = 0;
    const tn_llm_cache_group one = {.layers = it->loops,
                                    .window = windowed ? it->window : 0,
                                    .key = key,
                                    .value = value,
                                    .heads = alone ? 0 : heads};
    tn__llm_cache_add(&llm->cache, &one);
    if (key > llm->key_width) llm->key_width = key;
    TN_TRY(gguf_add_compressed(it, key, layer, &llm->cache));
    return gguf_add_index(it, widths, layer, &llm->cache);
}

/* Finds how many layers may have a cache. Layers that predict further tokens are not run, but in
 * most architectures they have a cache. */
static tn_status gguf_layers(gguf_reading *it, const tn_llm *llm) {
    uint64_t further = 0, decoders = 0;
    gguf_find(it, "nextn_predict_layers", &further);
    it->cached = llm->model.layers;
    if (it->arch == NULL && gguf_find(it, "decoder_block_count", &decoders) &&
        decoders > it->cached) {
        if (decoders > TN__LLM_LAYERS_MOST)
            TN_FAIL(it->error, TN_E_INVALID, "%llu layers; at most %u are counted",
                    (unsigned long long)decoders, TN__LLM_LAYERS_MOST);
        it->cached = decoders;
    }
    if (it->arch != NULL && it->arch->not_further) {
        if (further >= it->cached)
            TN_FAIL(it->error, TN_E_INVALID, "%llu of %llu layers predict further tokens",
                    (unsigned long long)further, (unsigned long long)it->cached);
        it->cached -= further;
    }
    if (gguf_is(it, "gemma3n")) it->borrowed = it->cached > 20 ? it->cached - 20 : 0;
    if (gguf_is(it, "gemma4")) gguf_find(it, "attention.shared_kv_layers", &it->borrowed);
    if (it->borrowed >= it->cached) it->borrowed = 0;
    it->interval = 4;
    gguf_find(it, "full_attention_interval", &it->interval);
    if (it->interval == 0) it->interval = 4;
    if (!gguf_find(it, "num_loops", &it->loops) || it->loops == 0) it->loops = 1;
    if (it->loops > TN__LLM_LAYERS_MOST)
        TN_FAIL(it->error, TN_E_INVALID, "layers that run %llu times",
                (unsigned long long)it->loops);
    if (it->loops > 1 && (it->arch == NULL || !it->arch->loops))
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "layers that run several times: their cache is not known for architecture %.39s",
                it->type);
    it->window = gguf_window(it, it->cached);
    return TN_OK;
}

static tn_status gguf_cache(gguf_reading *it, tn_llm *llm) {
    gguf_widths widths;
    uint64_t state = 0;
    const char *unknown = it->arch == NULL ? gguf_unknown_part(it) : NULL;
    if (it->arch != NULL && it->arch->encoder) return TN_OK;
    if (unknown != NULL)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "architecture %.39s keeps states or an index that are not known (%s)", it->type,
                unknown);
    TN_TRY(gguf_read_widths(it, llm, &widths));
    TN_TRY(gguf_layers(it, llm));
    for (uint64_t layer = 0; layer < it->cached; layer++)
        TN_TRY(gguf_add_layer(it, &widths, layer, llm));
    uint64_t width = widths.key > widths.window_key ? widths.key : widths.window_key;
    llm->query_width = tn__mul_sat(llm->model.heads, width);
    llm->model.head_size = width;
    if (it->arch == NULL && !gguf_is_plain(it->type)) {
        snprintf(llm->note, sizeof llm->note,
                 "architecture %.39s is not known: every layer is counted in full, without windows",
                 it->type);
        llm->unproved = true;
    }
    if (llm->cache.state_layers == 0 || llm->cache.state > 0) return TN_OK;
    TN_TRY(gguf_state_size(it, llm, &state));
    llm->cache.state = tn__mul_sat(llm->cache.state_layers, state);
    return TN_OK;
}

/* --- sizes --- */

/* Reads a key as one number: the largest one of a list. */
static tn_status gguf_largest(const gguf_reading *it, const char *name, uint64_t layers,
                              uint64_t *most) {
    uint64_t value = 0;
    if (!gguf_is_list(it, name)) {
        TN_TRY(gguf_at(it, name, 0, *most, most));
        return TN_OK;
    }
    *most = 0;
    for (uint64_t i = 0; i < layers; i++) {
        TN_TRY(gguf_at(it, name, i, 0, &value));
        if (value > *most) *most = value;
    }
    return TN_OK;
}

static tn_status gguf_inner(const gguf_reading *it, tn_llm *llm) {
    uint64_t width = 0, shared = 0, count = 0;
    gguf_find(it, "expert_count", &llm->experts);
    gguf_find(it, "expert_used_count", &llm->chosen);
    if (llm->experts > TN__LLM_MOST || llm->chosen > llm->experts)
        TN_FAIL(it->error, TN_E_INVALID, "%llu of %llu experts cannot be chosen",
                (unsigned long long)llm->chosen, (unsigned long long)llm->experts);
    llm->model.inner = 4 * llm->model.hidden;
    TN_TRY(gguf_largest(it, "feed_forward_length", llm->model.layers, &llm->model.inner));
    if (llm->chosen == 0) return TN_OK;
    if (!gguf_find(it, "expert_feed_forward_length", &width)) width = llm->model.inner;
    if (gguf_find(it, "expert_shared_count", &count)) shared = tn__mul_sat(count, width);
    gguf_find(it, "expert_shared_feed_forward_length", &shared);
    width = tn__add_sat(tn__mul_sat(width, llm->chosen), shared);
    if (width > llm->model.inner) llm->model.inner = width;
    if (llm->model.inner > TN__LLM_MOST)
        TN_FAIL(it->error, TN_E_INVALID, "experts of 2^40 or wider");
    return TN_OK;
}

static const gguf_arch *gguf_arch_find(const char *type) {
    for (size_t i = 0; i < sizeof gguf_archs / sizeof *gguf_archs; i++)
        if (strcmp(gguf_archs[i].name, type) == 0) return &gguf_archs[i];
    return NULL;
}

static tn_status gguf_heads(const gguf_reading *it, tn_llm *llm) {
    bool none = it->arch != NULL && it->arch->state == GGUF_ALL;
    TN_TRY(gguf_largest(it, "attention.head_count", llm->model.layers, &llm->model.heads));
    if (llm->model.heads > 0 || none) return TN_OK;
    TN_FAIL(it->error, TN_E_INVALID,
            "the file has no key %.39s.attention.head_count with a number above 0", it->type);
}

/* Returns how many layers have no tensor in the files. If there are any, the files are only a part
 * of the model. */
static uint64_t gguf_missing(const tn_weights *weights, uint64_t layers) {
    bool seen[TN__LLM_LAYERS_MOST] = {false};
    uint64_t missing = 0;
    for (uint32_t i = 0; i < tn_weights_count(weights); i++) {
        const char *at = tn_weights_at(weights, i)->name;
        uint64_t layer = 0;
        if (strncmp(at, "blk.", 4) != 0) continue;
        for (at += 4; *at >= '0' && *at <= '9' && layer < layers; at++)
            layer = 10 * layer + (uint64_t)(*at - '0');
        if (*at == '.' && layer < layers) seen[layer] = true;
    }
    for (uint64_t layer = 0; layer < layers; layer++) missing += !seen[layer];
    return missing;
}

tn_status tn_llm_gguf(const tn_weights *weights, tn_llm *llm, tn_error *error) {
    const char *type = tn_weights_text(weights, "general.architecture");
    gguf_reading it = {.weights = weights, .type = type, .error = error};
    const tn_weight *table = tn_weights_find(weights, "token_embd.weight");
    *llm = (tn_llm){.stored = {.packing = TN_PACK_UNKNOWN, .name = "gguf"}};
    if (type == NULL)
        TN_FAIL(error, TN_E_INVALID, "the file has no key general.architecture: it is no model");
    it.arch = gguf_arch_find(type);
    snprintf(llm->type, sizeof llm->type, "%.39s", type);
    TN_TRY(gguf_need(&it, "embedding_length", &llm->model.hidden));
    TN_TRY(gguf_need(&it, "block_count", &llm->model.layers));
    if (llm->model.layers > TN__LLM_LAYERS_MOST)
        TN_FAIL(error, TN_E_INVALID, "%llu layers; at most %u are counted",
                (unsigned long long)llm->model.layers, TN__LLM_LAYERS_MOST);
    TN_TRY(gguf_heads(&it, llm));
    gguf_find(&it, "context_length", &llm->model.positions);
    if (table != NULL && table->rank == 2) llm->model.vocabulary = (uint64_t)table->shape[0];
    if (llm->model.vocabulary == 0) gguf_find(&it, "vocab_size", &llm->model.vocabulary);
    if (llm->model.vocabulary > TN__LLM_MOST)
        TN_FAIL(error, TN_E_INVALID, "a vocabulary above 2^40");
    llm->model.gated = true; /* an upper bound: an inner layer without a gate needs less */
    TN_TRY(gguf_inner(&it, llm));
    TN_TRY(gguf_cache(&it, llm));
    llm->missing = gguf_missing(weights, llm->model.layers);
    llm->parameters = llm->active = tn_weights_total(weights).elements;
    return TN_OK;
}
