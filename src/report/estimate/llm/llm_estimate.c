/* llm_estimate.c - estimates the bytes for running a transformer: weights, cache, workspace, and
 * the memory of the program that runs it. */
#include <tenure/estimate.h>
#include "report/estimate/llm/llm.h"

#include <stdio.h>
#include <strings.h>

/* --- the memory of the program that runs a model ---------------------------------------------- */

/* The memory of the program that runs a model: the bytes in addition to weights, cache and the
 * workspace that every such program needs.
 *
 * Each number is an upper estimate. It comes from the source of the program or from published logs
 * (docs/llm.md has the sources). It includes a context on the device, wider buffers, and a cache
 * that is rounded up. In the formulas, u is the number of tokens in a pass, V the size of the
 * vocabulary, d the hidden size and f the inner size.
 *
 *   llama.cpp     allocates the graph of a pass of u tokens (n_ubatch) for the worst case. That is
 *                 either the logits of all tokens, 4 u (V + 2 d + 1), or the widest layer with the
 *                 mask of attention, 4 u (3 f + 4 d + 6) + 2 u cells. Experts need 10 % more. With
 *                 compressed attention, queries as wide as the cache are added. The number of cells
 *                 of the cache is rounded up to 256, and windows have u additional cells.
 *   vLLM          uses 90 % of a device. The cache has pages of 16 tokens, and windows also keep
 *                 the tokens of a pass. A profile run computes the logits of 256 sequences in
 *                 float32, three times.
 *   transformers  runs operators one by one: normalisation in float32, gate, activation, product.
 *                 Keys and values are repeated for each head, and are copied when the cache of a
 *                 layer grows.
 */

#define RUNTIME_MIB (UINT64_C(1) << 20)

static const char *const runtime_names[] = {
#define TN_X(name, text) text,
    TN_LLM_RUNTIME_TABLE(TN_X)
#undef TN_X
};

const char *tn_llm_runtime_name(tn_llm_runtime runtime) {
    return (uint32_t)runtime < TN_LLM_RUNTIME_COUNT ? runtime_names[runtime] : "?";
}

tn_llm_runtime tn_llm_runtime_find(const char *name) {
    uint32_t i = 0;
    while (i < TN_LLM_RUNTIME_COUNT && strcasecmp(runtime_names[i], name) != 0) i++;
    return (tn_llm_runtime)i;
}

uint64_t tn_llm_runtime_usable(tn_llm_runtime runtime, uint64_t capacity) {
    return runtime == TN_LLM_RUN_VLLM ? capacity / 10 * 9 : capacity;
}

static uint64_t llm_runtime_pass(const tn_llm_options *options, uint64_t tokens) {
    static const uint64_t passes[TN_LLM_RUNTIME_COUNT] = {
        [TN_LLM_RUN_NONE] = 2048, [TN_LLM_RUN_LLAMA_CPP] = 512, [TN_LLM_RUN_VLLM] = 8192};
    uint64_t pass = passes[options->runtime];
    return pass > 0 ? pass : tokens;
}

static uint64_t runtime_up(uint64_t count, uint64_t to) {
    uint64_t parts = count / to + (count % to != 0);
    return tn__mul_sat(parts, to);
}

static uint64_t runtime_most(uint64_t a, uint64_t b) { return a > b ? a : b; }

/* Returns the bytes of the cache, with the tokens of each group rounded up to `page`. A window has
 * `more` additional tokens. States are not rounded. */
static uint64_t runtime_cache(const tn_llm *llm, const tn_llm_options *it,
                              const tn_llm_estimate *made, uint64_t page, uint64_t more) {
    uint64_t sum = tn__add_sat(made->cache_state, made->cache_cross);
    for (uint32_t i = 0; i < llm->cache.group_count; i++) {
        const tn_llm_cache_group *group = &llm->cache.groups[i];
        uint64_t full = runtime_up(it->sequence, page), kept = full;
        if (group->every > 1)
            kept = runtime_up(full / group->every + (full % group->every != 0), page);
        uint64_t window = runtime_up(tn__add_sat(group->window, more), page);
        if (group->window > 0 && !it->keep_all && window < full) kept = window;
        uint64_t bytes = tn__llm_cache_bytes(group, it->cache_type, kept);
        sum = tn__add_sat(sum, tn__mul_sat(it->batch, bytes));
    }
    return sum;
}

static uint64_t runtime_llama_cpp(const tn_llm *llm, const tn_llm_options *it) {
    uint64_t u = it->pass, d = llm->model.hidden, cells = runtime_up(it->sequence, 256);
    uint64_t streams = tn__mul_sat(it->batch, cells);
    uint64_t logits = tn__mul_sat(4 * u, tn__add_sat(llm->model.vocabulary, 2 * d + 1));
    uint64_t wide = tn__add_sat(tn__mul_sat(llm->model.gated ? 3 : 2, llm->model.inner), 4 * d + 6);
    uint64_t queries = tn__add_sat(tn__mul_sat(3, llm->query_width), 4 * d + 6);
    bool compressed = llm->cache.group_count > 0 && llm->cache.groups[0].value == 0;
    /* llama.cpp maps queries to the width of the compressed cache, and the result back */
    if (compressed)
        queries = tn__add_sat(queries, tn__mul_sat(2 * llm->model.heads, llm->cache.groups[0].key));
    uint64_t layer = tn__mul_sat(4 * u, runtime_most(wide, queries));
    if (llm->experts > 0) layer = tn__add_sat(layer, layer / 10);
    uint64_t masks = tn__mul_sat(2 * u, streams);
    if (tn_llm_cache_layers(&llm->cache, true) > 0) masks = tn__mul_sat(2, masks);
    return runtime_most(logits, tn__add_sat(layer, tn__add_sat(masks, 32)));
}

static uint64_t runtime_vllm(const tn_llm *llm, const tn_llm_options *it, uint64_t workspace) {
    uint64_t rows = it->batch > 256 ? it->batch : 256;
    uint64_t logits = tn__mul_sat(12, tn__mul_sat(rows, llm->model.vocabulary));
    uint64_t hidden = tn__mul_sat(tn__mul_sat(4, it->pass), llm->model.hidden);
    return tn__add_sat(tn__add_sat(workspace, hidden), logits);
}

static uint64_t runtime_transformers(const tn_llm *llm, const tn_llm_options *it) {
    uint64_t d = llm->model.hidden, inner = tn__mul_sat(llm->model.gated ? 4 : 2, llm->model.inner),
             widest = 0;
    uint64_t attention = tn__add_sat(tn__mul_sat(3, llm->query_width), 2 * llm->key_width);
    uint64_t layer = tn__add_sat(tn__mul_sat(2, runtime_most(inner, attention)), 12 * d);
    uint64_t tokens = tn__mul_sat(it->batch, it->sequence);
    for (uint32_t i = 0; i < llm->cache.group_count; i++) {
        tn_llm_cache_group one = llm->cache.groups[i];
        one.layers = 1;
        widest = runtime_most(widest, tn__llm_cache_bytes(&one, it->cache_type, 1));
    }
    bool attends = llm->cache.group_count > 0;
    /* keys and values, repeated for each head of queries */
    uint64_t repeated = attends ? tn__mul_sat(4, llm->query_width) : 0;
    uint64_t grown = tn__mul_sat(tokens, tn__add_sat(widest, repeated));
    uint64_t logits = tn__mul_sat(10, tn__mul_sat(it->batch, llm->model.vocabulary));
    return tn__add_sat(tn__add_sat(tn__mul_sat(it->pass, layer), grown), logits);
}

/* Adds the memory of the program that runs the model to an estimate that has weights, cache and
 * workspace. */
static void llm_runtime_add(const tn_llm *llm, const tn_llm_options *it, tn_llm_estimate *made) {
    uint64_t buffers = made->workspace;
    made->cache_allocated = made->cache;
    switch (it->runtime) {
    case TN_LLM_RUN_LLAMA_CPP:
        buffers = runtime_llama_cpp(llm, it);
        made->cache_allocated = runtime_cache(llm, it, made, 256, it->pass);
        made->context = TN_HARDWARE_CONTEXT;
        break;
    case TN_LLM_RUN_VLLM:
        buffers = runtime_vllm(llm, it, made->workspace);
        made->cache_allocated = runtime_cache(llm, it, made, 16, it->pass + 16);
        made->context = 1024 * RUNTIME_MIB;
        break;
    case TN_LLM_RUN_TRANSFORMERS:
        buffers = runtime_transformers(llm, it);
        made->context = 1024 * RUNTIME_MIB;
        break;
    default:
        return;
    }
    uint64_t more = buffers > made->workspace ? buffers - made->workspace : 0;
    uint64_t rounded =
        made->cache_allocated > made->cache ? made->cache_allocated - made->cache : 0;
    made->runtime = tn__add_sat(made->context, tn__add_sat(more, rounded));
}

/* --- the bytes of weights, cache and workspace ------------------------------------------------ */

const char *tn_llm_role_name(tn_llm_role role) {
    static const char *const names[] = {
#define TN_X(name, text) text,
        TN_LLM_ROLE_TABLE(TN_X)
#undef TN_X
    };
    return (uint32_t)role < TN_LLM_ROLE_COUNT ? names[role] : "?";
}

/* --- defaults --- */

static tn_status estimate_complete(const tn_llm *llm, const tn_llm_options *given,
                                   tn_llm_options *it, tn_error *error) {
    *it = (tn_llm_options)TN_LLM_OPTIONS_INIT;
    tn__options(it, sizeof *it, given);
    if (it->batch == 0) it->batch = 1;
    if (it->sequence == 0) it->sequence = llm->model.positions;
    if (it->scheme == NULL) it->scheme = &llm->stored;
    if (it->cache_type == TN_WEIGHT_TYPE_COUNT) it->cache_type = TN_WEIGHT_BF16;
    if (it->sequence == 0)
        TN_FAIL(error, TN_E_INVALID,
                "the file does not state a maximum number of tokens; state `sequence`");
    uint64_t tokens = tn__mul_sat(it->batch, it->sequence);
    if ((uint32_t)it->runtime >= TN_LLM_RUNTIME_COUNT)
        TN_FAIL(error, TN_E_INVALID, "run time %u does not exist", (unsigned)it->runtime);
    if (it->pass == 0) it->pass = llm_runtime_pass(it, tokens);
    if (it->pass < it->batch) it->pass = it->batch;
    if (it->pass > tokens) it->pass = tokens;
    /* an encoder processes all its tokens in one pass */
    if (it->pass < llm->cache.cross_tokens) it->pass = llm->cache.cross_tokens;
    if (it->batch > TN__LLM_MOST || it->sequence > TN__LLM_MOST)
        TN_FAIL(error, TN_E_INVALID, "%llu sequences of %llu tokens make no sense",
                (unsigned long long)it->batch, (unsigned long long)it->sequence);
    return TN_OK;
}

static tn_status estimate_check(const tn_llm *llm, const tn_llm_options *it, tn_error *error) {
    bool table = false;
    for (uint32_t i = 0; i < llm->weight_count; i++)
        table = table || (llm->weights[i].role == TN_LLM_TABLE && llm->weights[i].layers == 0);
    if (table && llm->model.positions > 0 && it->sequence > llm->model.positions)
        TN_FAIL(error, TN_E_INVALID, "a sequence of %llu, but only %llu positions",
                (unsigned long long)it->sequence, (unsigned long long)llm->model.positions);
    if (it->weight_bytes == 0 && it->scheme->packing == TN_PACK_UNKNOWN)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "the file stores its weights as '%s', whose bytes are not known; say how they are "
                "stored (bf16, int8, int4, ...), or give the files of the weights",
                it->scheme->name);
    if (it->weight_bytes == 0 && *llm->uncounted != '\0')
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "the parameters of %s are not known; give the files of the weights",
                llm->uncounted);
    return TN_OK;
}

/* --- parts --- */

static uint64_t estimate_weights(const tn_llm *llm, const tn_llm_options *it) {
    uint64_t sum = 0;
    if (it->weight_bytes > 0) return it->weight_bytes;
    for (uint32_t i = 0; i < llm->weight_count; i++)
        if (it->extra || !llm->weights[i].extra)
            sum = tn__add_sat(sum, tn_llm_weight_bytes(llm, i, it->scheme));
    return sum;
}

/* Returns the bytes of the keys and values of one token in one layer. */
static uint64_t estimate_token(const tn_llm_cache_group *group, tn_weight_type type) {
    uint64_t key = tn_weight_type_bytes(type, 1, group->key);
    return tn__add_sat(key, tn_weight_type_bytes(type, 1, group->value));
}

uint64_t tn__llm_cache_bytes(const tn_llm_cache_group *group, tn_weight_type type,
                             uint64_t tokens) {
    return tn__mul_sat(tn__mul_sat(estimate_token(group, type), tokens), group->layers);
}

uint64_t tn__llm_cache_kept(const tn_llm_cache_group *group, const tn_llm_options *options) {
    const uint64_t all = options->sequence;
    if (group->every > 1) return all / group->every + (all % group->every != 0);
    bool cut = !options->keep_all && group->window > 0 && group->window < all;
    return cut ? group->window : all;
}

static void estimate_cache(const tn_llm *llm, const tn_llm_options *it, tn_llm_estimate *made) {
    const tn_llm_cache *cache = &llm->cache;
    uint64_t cross = cache->cross_tokens > 0 ? cache->cross_tokens : it->sequence;
    for (uint32_t i = 0; i < cache->group_count; i++) {
        const tn_llm_cache_group *group = &cache->groups[i];
        uint64_t kept = tn__llm_cache_kept(group, it), every = group->every > 1 ? group->every : 1;
        uint64_t *part = group->window > 0 ? &made->cache_window : &made->cache_full;
        uint64_t bytes = tn__llm_cache_bytes(group, it->cache_type, kept);
        *part = tn__add_sat(*part, tn__mul_sat(it->batch, bytes));
        uint64_t entry = tn__llm_cache_bytes(group, it->cache_type, 1);
        made->cache_token = tn__add_sat(made->cache_token, entry / every + (entry % every != 0));
    }
    made->cache_state = tn__mul_sat(it->batch, tn__mul_sat(4, cache->state));
    tn_llm_cache_group crossed = {
        .layers = cache->cross_layers, .key = cache->cross_key, .value = cache->cross_key};
    made->cache_cross =
        tn__mul_sat(it->batch, tn__llm_cache_bytes(&crossed, it->cache_type, cross));
    made->cache = tn__add_sat(tn__add_sat(made->cache_full, made->cache_window),
                              tn__add_sat(made->cache_state, made->cache_cross));
}

/* Computes the workspace: the bytes that the widest operator reads and writes, plus the hidden
 * state of the residual connection. */
static void estimate_workspace(const tn_llm *llm, const tn_llm_options *it, tn_llm_estimate *made) {
    uint64_t hidden = llm->model.hidden, query = llm->query_width, keys = 2 * llm->key_width;
    uint64_t attention = tn__add_sat(tn__mul_sat(2, query), keys);
    uint64_t inner = tn__add_sat(hidden, tn__mul_sat(llm->model.gated ? 2 : 1, llm->model.inner));
    uint64_t wide = attention > inner ? attention : inner;
    uint64_t layer = tn__mul_sat(tn__mul_sat(2, it->pass), tn__add_sat(hidden, wide));
    uint64_t ends = tn__mul_sat(tn__mul_sat(2, it->pass), hidden);
    uint64_t output =
        tn__add_sat(ends, tn__mul_sat(tn__mul_sat(4, it->batch), llm->model.vocabulary));
    made->workspace_at = output > layer ? "output" : attention > inner ? "attention" : "inner";
    made->workspace = output > layer ? output : layer;
}

tn_status tn_llm_estimate_make(const tn_llm *llm, const tn_llm_options *options,
                               tn_llm_estimate *estimate, tn_error *error) {
    tn_llm_options it;
    TN_TRY(estimate_complete(llm, options, &it, error));
    TN_TRY(estimate_check(llm, &it, error));
    tn_llm_estimate made = {.batch = it.batch, .sequence = it.sequence, .pass = it.pass};
    made.weights = estimate_weights(llm, &it);
    estimate_cache(llm, &it, &made);
    estimate_workspace(llm, &it, &made);
    llm_runtime_add(llm, &it, &made);
    TN_TRY(tn__llm_divide(llm, &it, &made, error));
    made.total = tn__add_sat(tn__add_sat(made.weights, made.cache),
                             tn__add_sat(made.workspace, made.runtime));
    if (made.total == UINT64_MAX) TN_FAIL(error, TN_E_INVALID, "2^64 bytes or more");
    *estimate = made;
    return TN_OK;
}

/* --- the largest configuration that fits --- */

static bool estimate_fits(const tn_llm *llm, const tn_llm_options *options, uint64_t limit,
                          bool longest, uint64_t count) {
    tn_llm_options tried = *options;
    tn_llm_estimate made;
    *(longest ? &tried.sequence : &tried.batch) = count;
    return tn_llm_estimate_make(llm, &tried, &made, NULL) == TN_OK && made.total <= limit;
}

uint64_t tn_llm_most(const tn_llm *llm, const tn_llm_options *options, uint64_t limit,
                     bool longest) {
    uint64_t low = 0, high = 1;
    uint64_t most = longest && llm->model.positions > 0 ? llm->model.positions : UINT64_C(1) << 32;
    while (high <= most && estimate_fits(llm, options, limit, longest, high)) {
        low = high;
        high *= 2;
    }
    if (high > most + 1) high = most + 1;
    while (high - low > 1) { /* `low` fits; `high` does not fit, or is above the maximum */
        uint64_t middle = low + (high - low) / 2;
        if (estimate_fits(llm, options, limit, longest, middle))
            low = middle;
        else
            high = middle;
    }
    return low;
}
