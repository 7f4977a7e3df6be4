/* llm_count.c - from the sizes of a file to matrices, parameters and the cache of a token. */
#include <stdio.h>

#include "estimate/llm.h"

#define HAS(it, name) (((it)->traits & TN__LLM_TRAIT(name)) != 0)
#define SIZE(it, name) (it)->size[TN__LLM_##name]

/* --- sizes that follow --- */

static tn_status count_heads(tn__llm_reading *it, tn_error *error) {
    uint64_t hidden = SIZE(it, HIDDEN), heads = SIZE(it, HEADS);
    if (SIZE(it, HEAD_SIZE) == 0 && hidden % heads != 0)
        TN_FAIL(error, TN_E_INVALID, "hidden size %llu cannot be divided by heads %llu",
                (unsigned long long)hidden, (unsigned long long)heads);
    if (SIZE(it, HEAD_SIZE) == 0) SIZE(it, HEAD_SIZE) = hidden / heads;
    if (SIZE(it, KV_HEADS) == 0) SIZE(it, KV_HEADS) = heads;
    if (HAS(it, SINGLE)) SIZE(it, KV_HEADS) = 1;
    if (heads % SIZE(it, KV_HEADS) != 0)
        TN_FAIL(error, TN_E_INVALID, "heads %llu cannot be divided by key and value heads %llu",
                (unsigned long long)heads, (unsigned long long)SIZE(it, KV_HEADS));
    SIZE(it, QUERY) = tn__mul_sat(heads, SIZE(it, HEAD_SIZE));
    SIZE(it, KEY) = tn__mul_sat(SIZE(it, KV_HEADS), SIZE(it, HEAD_SIZE));
    return TN_OK;
}

static void count_compressed(tn__llm_reading *it) {
    uint64_t heads = SIZE(it, HEADS), nope = SIZE(it, NOPE), value = SIZE(it, VALUE);
    if (!HAS(it, MLA)) return;
    it->traits |= SIZE(it, Q_RANK) > 0 ? TN__LLM_TRAIT(LOW_QUERY) : TN__LLM_TRAIT(FULL_QUERY);
    SIZE(it, ROTATED_QUERY) = tn__mul_sat(heads, nope + SIZE(it, ROPE));
    SIZE(it, DOWN) = SIZE(it, KV_RANK) + SIZE(it, ROPE);
    SIZE(it, UP) = tn__mul_sat(heads, nope + value);
    SIZE(it, OUT) = tn__mul_sat(heads, value);
}

static void count_experts(tn__llm_reading *it) {
    bool narrow = HAS(it, NARROW);
    if (!HAS(it, EXPERT)) return;
    SIZE(it, EXPERT_WIDTH) = narrow ? SIZE(it, EXPERT_INNER) : SIZE(it, INNER);
    SIZE(it, SHARED_WIDTH) = HAS(it, SHARED_GATE)
                                 ? SIZE(it, SHARED_INNER)
                                 : tn__mul_sat(SIZE(it, SHARED), SIZE(it, EXPERT_INNER));
    SIZE(it, BIASES) = 2 * SIZE(it, EXPERT_WIDTH) + SIZE(it, HIDDEN);
}

static tn_status count_images(tn__llm_reading *it, tn_error *error) {
    uint64_t side = SIZE(it, PATCH) > 0 ? SIZE(it, IMAGE) / SIZE(it, PATCH) : 0;
    if (!HAS(it, VIT)) return TN_OK;
    if (side * SIZE(it, PATCH) != SIZE(it, IMAGE))
        TN_FAIL(error, TN_E_INVALID, "an image of %llu cannot be divided by patches of %llu",
                (unsigned long long)SIZE(it, IMAGE), (unsigned long long)SIZE(it, PATCH));
    uint64_t patch = tn__mul_sat(SIZE(it, PATCH), SIZE(it, PATCH));
    SIZE(it, POSITIONS) = SIZE(it, POSITION_ROWS) = tn__add_sat(1, tn__mul_sat(side, side));
    SIZE(it, PATCH_SIZE) = tn__mul_sat(SIZE(it, CHANNELS), patch);
    SIZE(it, BIASES) = 4; /* of attention's products */
    return TN_OK;
}

tn_status tn__llm_derive(tn__llm_reading *it, tn_error *error) {
    uint64_t hidden = SIZE(it, HIDDEN), projected = SIZE(it, PROJECTED);
    TN_TRY(count_heads(it, error));
    if (SIZE(it, INNER) == 0) SIZE(it, INNER) = 4 * hidden;
    if (SIZE(it, DECODERS) == 0) SIZE(it, DECODERS) = SIZE(it, LAYERS);
    if (HAS(it, T5) && SIZE(it, DECODER_INNER) == 0) SIZE(it, DECODER_INNER) = SIZE(it, INNER);
    if (projected != 0 && projected != hidden) it->traits |= TN__LLM_TRAIT(NARROWED);
    SIZE(it, ONE) = 1;
    SIZE(it, NORM) = HAS(it, NO_NORM) ? 0 : HAS(it, SHIFTED) ? 2 : 1;
    SIZE(it, EMBEDDED) = projected != 0 ? projected : hidden;
    SIZE(it, POSITION_ROWS) = SIZE(it, POSITIONS) + (HAS(it, POSITIONS_2) ? 2 : 0);
    SIZE(it, TWICE_HIDDEN) = 2 * hidden;
    SIZE(it, HIDDEN_3) = 3 * hidden;
    SIZE(it, MEL_3) = 3 * SIZE(it, MEL);
    count_compressed(it);
    count_experts(it);
    if (HAS(it, SEES)) SIZE(it, BIASES) = 9; /* of attention, of the way back, of two norms */
    return count_images(it, error);
}

/* --- matrices --- */

typedef struct count_span { /* layers of a place */
    uint64_t first, layers;
} count_span;

static void count_spans(const tn__llm_reading *it, count_span spans[TN__LLM_PLACES]) {
    uint64_t layers = SIZE(it, LAYERS), sparse = 0, step = SIZE(it, SPARSE_STEP);
    if (HAS(it, EXPERT)) sparse = step > 1 ? layers / step : layers;
    uint64_t dense = SIZE(it, DENSE_FIRST) < sparse ? SIZE(it, DENSE_FIRST) : sparse;
    if (HAS(it, MLA)) sparse -= dense;
    spans[TN__LLM_ONCE] = (count_span){0, 0};
    spans[TN__LLM_LAYER] = spans[TN__LLM_ENCODER] = (count_span){0, layers};
    spans[TN__LLM_DENSE] = (count_span){0, layers - sparse};
    spans[TN__LLM_SPARSE] = (count_span){layers - sparse, sparse};
    spans[TN__LLM_AHEAD] = (count_span){layers, SIZE(it, FURTHER)};
    spans[TN__LLM_DECODER] = (count_span){0, SIZE(it, DECODERS)};
    spans[TN__LLM_TOWER] = (count_span){0, it->vision_layers};
}

static void count_row(const tn__llm_reading *it, const tn__llm_row *row, count_span span,
                      bool extra, tn_llm *llm) {
    tn_llm_weight made = {.name = row->name,
                          .role = row->role,
                          .rows = it->size[row->rows],
                          .columns = it->size[row->columns],
                          .first = span.first,
                          .layers = span.layers,
                          .each = it->size[row->each],
                          .extra = extra};
    bool outside = row->place == TN__LLM_ONCE;
    if (made.rows == 0 || made.columns == 0 || made.each == 0 || (!outside && span.layers == 0))
        return;
    tn_assert(llm->weight_count < TN_LLM_WEIGHTS_MAX);
    if (llm->weight_count < TN_LLM_WEIGHTS_MAX) llm->weights[llm->weight_count++] = made;
}

static void count_rows(const tn__llm_reading *it, tn_llm *llm) {
    count_span spans[TN__LLM_PLACES];
    size_t count;
    const tn__llm_row *rows = tn__llm_rows(it->traits, &count);
    count_spans(it, spans);
    for (uint32_t extra = 0; extra < 2; extra++)
        for (size_t i = 0; i < count; i++) {
            const tn__llm_row *row = &rows[i];
            bool there = (it->traits & row->with) == row->with && !(it->traits & row->without);
            bool layer = row->place == TN__LLM_LAYER || row->place == TN__LLM_SPARSE;
            bool ahead = row->place == TN__LLM_AHEAD;
            if (!there || (extra ? !layer && !ahead : ahead)) continue;
            count_row(it, row, spans[extra ? TN__LLM_AHEAD : row->place], extra != 0, llm);
        }
}

static tn_status count_parameters(tn_llm *llm, tn_error *error) {
    for (uint32_t i = 0; i < llm->weight_count; i++) {
        const tn_llm_weight *weight = &llm->weights[i];
        uint64_t layers = weight->layers > 0 ? weight->layers : 1;
        uint64_t one = tn__mul_sat(layers, tn__mul_sat(weight->rows, weight->columns));
        bool expert = weight->role == TN_LLM_EXPERTS || strcmp(weight->name, "expert_bias") == 0;
        uint64_t met = expert ? llm->chosen : weight->each;
        uint64_t *sum = weight->extra ? &llm->extra : &llm->parameters;
        *sum = tn__add_sat(*sum, tn__mul_sat(one, weight->each));
        if (!weight->extra) llm->active = tn__add_sat(llm->active, tn__mul_sat(one, met));
    }
    if (llm->parameters == UINT64_MAX || llm->extra == UINT64_MAX)
        TN_FAIL(error, TN_E_INVALID, "2^64 parameters or more");
    return TN_OK;
}

/* --- the cache --- */

static uint64_t count_window_layers(const tn__llm_reading *it) {
    uint64_t layers = SIZE(it, LAYERS), from = SIZE(it, WINDOW_FROM);
    uint64_t pattern = SIZE(it, PATTERN) > 0 ? SIZE(it, PATTERN) : it->family->pattern;
    bool off = !HAS(it, WINDOWED) || HAS(it, WINDOW_ASKED) || SIZE(it, WINDOW) == 0;
    if (off) return 0;
    if (it->listed) return it->window_layers;
    if (from > 0) return from < layers ? layers - from : 0;
    return pattern > 1 ? layers - layers / pattern : layers;
}

static void count_cache(const tn__llm_reading *it, tn_llm_cache *cache) {
    bool encodes = HAS(it, T5) || HAS(it, WHISPER);
    if (HAS(it, ENCODER)) return;
    cache->window_layers = count_window_layers(it);
    cache->window = cache->window_layers > 0 ? SIZE(it, WINDOW) : 0;
    cache->full_layers = (encodes ? SIZE(it, DECODERS) : SIZE(it, LAYERS)) - cache->window_layers;
    cache->key = HAS(it, MLA) ? SIZE(it, DOWN) : encodes ? SIZE(it, QUERY) : SIZE(it, KEY);
    cache->value = HAS(it, MLA) ? 0 : cache->key;
    cache->cross_layers = encodes ? SIZE(it, DECODERS) : 0;
    cache->cross_tokens = HAS(it, WHISPER) ? SIZE(it, SOURCE) : 0;
}

/* --- all of it --- */

static void count_sizes(const tn__llm_reading *it, tn_llm *llm) {
    llm->hidden = SIZE(it, HIDDEN);
    llm->layers = SIZE(it, LAYERS);
    llm->heads = SIZE(it, HEADS);
    llm->kv_heads = SIZE(it, KV_HEADS);
    llm->vocabulary = SIZE(it, VOCABULARY);
    llm->query_width = HAS(it, MLA) ? SIZE(it, ROTATED_QUERY) : SIZE(it, QUERY);
    llm->key_width = HAS(it, MLA) ? SIZE(it, DOWN) : SIZE(it, KEY);
    llm->gated = HAS(it, GATED);
    llm->experts = HAS(it, EXPERT) ? SIZE(it, EXPERTS) : 0;
    llm->chosen = HAS(it, EXPERT) ? SIZE(it, CHOSEN) : 0;
    uint64_t chosen =
        tn__add_sat(tn__mul_sat(llm->chosen, SIZE(it, EXPERT_WIDTH)), SIZE(it, SHARED_WIDTH));
    bool dense = !HAS(it, EXPERT) || SIZE(it, DENSE_FIRST) > 0 || SIZE(it, SPARSE_STEP) > 1;
    llm->inner = dense && SIZE(it, INNER) > chosen ? SIZE(it, INNER) : chosen;
    llm->positions = HAS(it, WHISPER) ? SIZE(it, TARGET) : SIZE(it, POSITIONS);
}

tn_status tn__llm_count(const tn__llm_reading *it, tn_llm *llm, tn_error *error) {
    if (it->listed && it->window_layers > SIZE(it, LAYERS))
        TN_FAIL(error, TN_E_INVALID, "\"layer_types\" lists more layers than there are");
    if (HAS(it, EXPERT) && SIZE(it, CHOSEN) > SIZE(it, EXPERTS))
        TN_FAIL(error, TN_E_INVALID, "%llu of %llu experts cannot be chosen",
                (unsigned long long)SIZE(it, CHOSEN), (unsigned long long)SIZE(it, EXPERTS));
    count_sizes(it, llm);
    count_cache(it, &llm->cache);
    count_rows(it, llm);
    return count_parameters(llm, error);
}
