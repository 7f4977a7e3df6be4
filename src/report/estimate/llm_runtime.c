/* llm_runtime.c - the memory of the program that runs a model: bytes beyond weights, cache and the
 * workspace that every run time needs.
 *
 * Each is an upper estimate, by formulas from the program's source or from published logs
 * (docs/llm.md has the sources): a context on the device, wider buffers, a cache that is rounded
 * up.
 *
 *   llama.cpp     one graph of u tokens (n_ubatch) is laid out for the worst case. Logits of all of
 *                 them, 4 u (V + 2 d + 1), or the widest layer with the mask of attention,
 *                 4 u (3 f + 4 d + 6) + 2 u cells; experts 10 % more; with compressed attention
 *                 also queries as wide as the cache. Cells are rounded up to 256, windows have u
 *                 cells more.
 *   vLLM          uses 90 % of a device. Pages of 16 tokens; windows also keep the tokens of a
 *                 pass; the profile run computes logits of 256 sequences in float32, three times.
 *   transformers  eager: normalisation in float32, gate, activation, product; keys and values are
 *                 repeated for each head and copied when a layer's cache grows.
 */
#include <strings.h>

#include <tenure/estimate.h>

#include "report/estimate/llm.h"

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

uint64_t tn__llm_runtime_pass(const tn_llm_options *options, uint64_t tokens) {
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

/* The cache with the tokens of each group rounded as the run time does; states are not rounded. */
static uint64_t runtime_cache(const tn_llm *llm, const tn_llm_options *it,
                              const tn_llm_estimate *made, uint64_t page, uint64_t more) {
    uint64_t sum = tn__add_sat(made->cache_state, made->cache_cross);
    for (uint32_t i = 0; i < llm->cache.group_count; i++) {
        const tn_llm_cache_group *group = &llm->cache.groups[i];
        uint64_t full = runtime_up(it->sequence, page), kept = full;
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
    if (compressed) /* queries mapped into the space of the cache, and back */
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
    uint64_t repeated = attends ? tn__mul_sat(4, llm->query_width) : 0; /* keys and values */
    uint64_t grown = tn__mul_sat(tokens, tn__add_sat(widest, repeated));
    uint64_t logits = tn__mul_sat(10, tn__mul_sat(it->batch, llm->model.vocabulary));
    return tn__add_sat(tn__add_sat(tn__mul_sat(it->pass, layer), grown), logits);
}

void tn__llm_runtime_add(const tn_llm *llm, const tn_llm_options *it, tn_llm_estimate *made) {
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
