/* llm_gguf.c - sizes of a transformer from what a .gguf file says of itself. */
#include <stdio.h>

#include "estimate/llm.h"

typedef struct gguf_reading {
    const tn_weights *weights;
    const char *type;
    tn_error *error;
} gguf_reading;

static bool gguf_find(const gguf_reading *it, const char *name, uint64_t *number) {
    char key[120];
    snprintf(key, sizeof key, "%.39s.%s", it->type, name);
    return tn_weights_number(it->weights, key, number);
}

/* A key that must be there. */
static tn_status gguf_need(const gguf_reading *it, const char *name, uint64_t *number) {
    if (gguf_find(it, name, number) && *number >= 1 && *number <= TN__LLM_MOST) return TN_OK;
    TN_FAIL(it->error, TN_E_INVALID, "the file says no %.39s.%s that makes sense", it->type, name);
}

/* One for all layers, or a list of one for each: their sum. */
static tn_status gguf_kv_heads(const gguf_reading *it, const tn_llm *llm, uint64_t *sum) {
    char key[120];
    uint64_t one = llm->heads, at;
    snprintf(key, sizeof key, "%.39s.attention.head_count_kv", it->type);
    if (tn_weights_number_at(it->weights, key, 0, &at)) {
        *sum = 0;
        for (uint64_t layer = 0; layer < llm->layers; layer++) {
            if (!tn_weights_number_at(it->weights, key, layer, &at))
                TN_FAIL(it->error, TN_E_INVALID, "%s lists less than %llu layers", key,
                        (unsigned long long)llm->layers);
            *sum = tn__add_sat(*sum, at);
        }
        return TN_OK;
    }
    tn_weights_number(it->weights, key, &one);
    *sum = tn__mul_sat(one, llm->layers);
    return TN_OK;
}

/* Which layers look at a window: of those families that the table of families knows. */
static uint64_t gguf_window_layers(const gguf_reading *it, uint64_t layers) {
    static const char *const names[][2] = {
        {"gemma2", "gemma2"}, {"gemma3", "gemma3_text"}, {"gpt-oss", "gpt_oss"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i][0], it->type) == 0)
            return layers - layers / tn__llm_family_find(names[i][1])->pattern;
    return layers;
}

static tn_status gguf_cache(const gguf_reading *it, tn_llm *llm) {
    uint64_t size = llm->hidden / llm->heads, value = 0, heads = 0, rank = 0, turned = 0;
    tn_llm_cache *cache = &llm->cache;
    gguf_find(it, "attention.key_length", &size);
    if (!gguf_find(it, "attention.value_length", &value)) value = size;
    TN_TRY(gguf_kv_heads(it, llm, &heads));
    if (gguf_find(it, "ssm.state_size", &turned))
        TN_FAIL(it->error, TN_E_UNSUPPORTED, "layers that keep a state: not counted here");
    if (size > TN__LLM_MOST || value > TN__LLM_MOST || heads % llm->layers != 0)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "layers with different numbers of keys and values are not counted here");
    llm->kv_heads = heads / llm->layers;
    llm->query_width = tn__mul_sat(llm->heads, size);
    llm->key_width = cache->key = tn__mul_sat(llm->kv_heads, size);
    cache->value = tn__mul_sat(llm->kv_heads, value);
    cache->full_layers = llm->layers;
    if (gguf_find(it, "attention.kv_lora_rank", &rank) && rank > 0) {
        TN_TRY(gguf_need(it, "rope.dimension_count", &turned));
        llm->key_width = cache->key = tn__add_sat(rank, turned);
        cache->value = 0;
    }
    if (gguf_find(it, "attention.sliding_window", &cache->window) && cache->window > 0) {
        cache->window_layers = gguf_window_layers(it, llm->layers);
        cache->full_layers -= cache->window_layers;
    }
    return TN_OK;
}

static tn_status gguf_inner(const gguf_reading *it, tn_llm *llm) {
    uint64_t width = 0;
    gguf_find(it, "expert_count", &llm->experts);
    gguf_find(it, "expert_used_count", &llm->chosen);
    if (llm->experts > TN__LLM_MOST || llm->chosen > llm->experts)
        TN_FAIL(it->error, TN_E_INVALID, "%llu of %llu experts cannot be chosen",
                (unsigned long long)llm->chosen, (unsigned long long)llm->experts);
    if (!gguf_find(it, "feed_forward_length", &llm->inner)) llm->inner = 4 * llm->hidden;
    if (llm->chosen == 0) return TN_OK;
    if (!gguf_find(it, "expert_feed_forward_length", &width)) width = llm->inner;
    width = tn__mul_sat(width, llm->chosen);
    if (width > llm->inner) llm->inner = width;
    return TN_OK;
}

tn_status tn_llm_gguf(const tn_weights *weights, tn_llm *llm, tn_error *error) {
    const char *type = tn_weights_text(weights, "general.architecture");
    gguf_reading it = {.weights = weights, .type = type, .error = error};
    const tn_weight *table = tn_weights_find(weights, "token_embd.weight");
    *llm = (tn_llm){.stored = {.packing = TN_PACK_UNKNOWN, .name = "gguf"}};
    if (type == NULL)
        TN_FAIL(error, TN_E_INVALID, "the file says no general.architecture: no model");
    snprintf(llm->type, sizeof llm->type, "%.39s", type);
    TN_TRY(gguf_need(&it, "embedding_length", &llm->hidden));
    TN_TRY(gguf_need(&it, "block_count", &llm->layers));
    TN_TRY(gguf_need(&it, "attention.head_count", &llm->heads));
    gguf_find(&it, "context_length", &llm->positions);
    if (llm->layers > 1 << 20)
        TN_FAIL(error, TN_E_INVALID, "%llu layers make no sense", (unsigned long long)llm->layers);
    if (table != NULL && table->rank == 2) llm->vocabulary = (uint64_t)table->shape[0];
    llm->gated = tn_weights_find(weights, "blk.0.ffn_gate.weight") != NULL ||
                 tn_weights_find(weights, "blk.0.ffn_gate_exps.weight") != NULL;
    TN_TRY(gguf_inner(&it, llm));
    TN_TRY(gguf_cache(&it, llm));
    llm->parameters = llm->active = tn_weights_total(weights).elements;
    return TN_OK;
}
