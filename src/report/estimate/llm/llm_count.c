/* llm_count.c - computes the matrices, the parameters and the cache of a transformer from the sizes
 * in a file. */
#include <stdio.h>

#include "report/estimate/llm/llm.h"

#define HAS(it, name) (((it)->traits & TN__LLM_TRAIT(name)) != 0)
#define SIZE(it, name) (it)->size[TN__LLM_##name]

/* --- sizes that follow from those in the file --- */

/* Computes the widths of attention. Layers with a window may have other numbers and sizes of heads
 * than layers with full attention. */
static void count_widths(tn__llm_reading *it) {
    uint64_t heads = SIZE(it, HEADS), value = SIZE(it, VALUE);
    if (SIZE(it, WINDOW_HEADS) == 0) SIZE(it, WINDOW_HEADS) = heads;
    if (SIZE(it, WINDOW_KV_HEADS) == 0) SIZE(it, WINDOW_KV_HEADS) = SIZE(it, KV_HEADS);
    if (SIZE(it, WINDOW_HEAD_SIZE) == 0) SIZE(it, WINDOW_HEAD_SIZE) = SIZE(it, HEAD_SIZE);
    if (HAS(it, GEMMA4)) { /* in files of gemma4, the plain fields describe layers with a window */
        if (SIZE(it, GLOBAL_KV_HEADS) > 0) SIZE(it, KV_HEADS) = SIZE(it, GLOBAL_KV_HEADS);
        if (SIZE(it, GLOBAL_HEAD_SIZE) > 0) SIZE(it, HEAD_SIZE) = SIZE(it, GLOBAL_HEAD_SIZE);
    }
    if (HAS(it, MLA) || value == 0) value = SIZE(it, HEAD_SIZE);
    if (SIZE(it, WINDOW_VALUE) == 0)
        SIZE(it, WINDOW_VALUE) = SIZE(it, VALUE) > 0 ? value : SIZE(it, WINDOW_HEAD_SIZE);
    SIZE(it, QUERY) = tn__mul_sat(heads, SIZE(it, HEAD_SIZE));
    SIZE(it, KEY) = tn__mul_sat(SIZE(it, KV_HEADS), SIZE(it, HEAD_SIZE));
    SIZE(it, VALUES) = tn__mul_sat(SIZE(it, KV_HEADS), value);
    SIZE(it, VALUE_ROWS) = it->shares_keys ? 0 : SIZE(it, VALUES);
    SIZE(it, ATTENDED) = tn__mul_sat(heads, value);
    SIZE(it, WINDOW_QUERY) = tn__mul_sat(SIZE(it, WINDOW_HEADS), SIZE(it, WINDOW_HEAD_SIZE));
    SIZE(it, WINDOW_KEY) = tn__mul_sat(SIZE(it, WINDOW_KV_HEADS), SIZE(it, WINDOW_HEAD_SIZE));
    SIZE(it, WINDOW_VALUES) = tn__mul_sat(SIZE(it, WINDOW_KV_HEADS), SIZE(it, WINDOW_VALUE));
    SIZE(it, WINDOW_ATTENDED) = tn__mul_sat(SIZE(it, WINDOW_HEADS), SIZE(it, WINDOW_VALUE));
}

static tn_status count_heads(tn__llm_reading *it, tn_error *error) {
    uint64_t hidden = SIZE(it, HIDDEN), heads = SIZE(it, HEADS);
    if (HAS(it, PURE)) return TN_OK;
    if (SIZE(it, HEAD_SIZE) == 0 && hidden % heads != 0 && !HAS(it, MLA))
        TN_FAIL(error, TN_E_INVALID, "hidden size %llu cannot be divided by heads %llu",
                (unsigned long long)hidden, (unsigned long long)heads);
    if (SIZE(it, HEAD_SIZE) == 0) SIZE(it, HEAD_SIZE) = hidden / heads;
    if (SIZE(it, KV_HEADS) == 0) SIZE(it, KV_HEADS) = heads;
    if (HAS(it, SINGLE)) SIZE(it, KV_HEADS) = 1;
    if (heads % SIZE(it, KV_HEADS) != 0)
        TN_FAIL(error, TN_E_INVALID, "heads %llu cannot be divided by key and value heads %llu",
                (unsigned long long)heads, (unsigned long long)SIZE(it, KV_HEADS));
    count_widths(it);
    return TN_OK;
}

/* --- sizes of the states that layers keep --- */

/* Sources: for Mamba, Gu and Dao (2023) and Dao and Gu (2024); for the gated delta net, Yang et al.
 * (2024). */

static void count_states(tn__llm_reading *it) {
    uint64_t hidden = SIZE(it, HIDDEN), inner = SIZE(it, STATE_INNER), n = SIZE(it, STATE_SIZE);
    uint64_t heads = SIZE(it, STATE_HEADS), head = SIZE(it, STATE_HEAD_SIZE);
    uint64_t groups = SIZE(it, STATE_GROUPS) > 0 ? SIZE(it, STATE_GROUPS) : 1;
    if (!HAS(it, MAMBA) && !HAS(it, MAMBA2)) return;
    if (HAS(it, MAMBA2) && head > 0) inner = tn__mul_sat(heads, head);
    if (inner == 0) inner = tn__mul_sat(SIZE(it, STATE_EXPAND), hidden);
    SIZE(it, STATE_INNER) = inner;
    SIZE(it, STATE_GROUPS) = groups;
    SIZE(it, STATE_TAPS) = SIZE(it, STATE_KERNEL) + (HAS(it, STATE_BIAS) ? 1 : 0);
    if (HAS(it, MAMBA2)) {
        uint64_t mixed = tn__add_sat(inner, tn__mul_sat(2, tn__mul_sat(groups, n)));
        SIZE(it, STATE_MIXED) = mixed;
        SIZE(it, STATE_IN) = tn__add_sat(tn__add_sat(inner, mixed), heads);
        SIZE(it, STATE_VECTORS) = tn__mul_sat(3, heads);
        return;
    }
    if (SIZE(it, STATE_RANK) == 0) SIZE(it, STATE_RANK) = hidden / 16 + (hidden % 16 != 0);
    SIZE(it, STATE_MIXED) = inner;
    SIZE(it, STATE_IN) = tn__mul_sat(2, inner);
    SIZE(it, STATE_TURNED) = tn__add_sat(SIZE(it, STATE_RANK), 2 * n);
    SIZE(it, STATE_VECTORS) = tn__mul_sat(inner, n + 2);
}

static void count_linear(tn__llm_reading *it) {
    uint64_t keys = tn__mul_sat(SIZE(it, LINEAR_KEYS), SIZE(it, LINEAR_KEY_SIZE));
    uint64_t values = tn__mul_sat(SIZE(it, LINEAR_VALUES), SIZE(it, LINEAR_VALUE_SIZE));
    if (HAS(it, GDN)) {
        SIZE(it, GDN_MIXED) = tn__add_sat(tn__mul_sat(2, keys), values);
        SIZE(it, GDN_IN) = tn__add_sat(SIZE(it, GDN_MIXED), values);
        SIZE(it, GDN_GATES) = 2 * SIZE(it, LINEAR_VALUES);
        SIZE(it, GDN_OUT) = values;
    }
    if (HAS(it, KDA)) {
        uint64_t width = tn__mul_sat(SIZE(it, LINEAR_VALUES), SIZE(it, LINEAR_KEY_SIZE));
        SIZE(it, KDA_WIDTH) = width;
        SIZE(it, KDA_MIXED) = tn__mul_sat(3, width);
        SIZE(it, KDA_VECTORS) =
            tn__add_sat(width, SIZE(it, LINEAR_VALUES) + SIZE(it, LINEAR_KEY_SIZE));
    }
    SIZE(it, LIGHT_WIDTH) = SIZE(it, QUERY);
}

/* Returns how many numbers the state of one layer has. */
static uint64_t count_state(const tn__llm_reading *it) {
    uint64_t hidden = SIZE(it, HIDDEN), inner = SIZE(it, STATE_INNER), keys, taps;
    if (HAS(it, MAMBA) || HAS(it, MAMBA2)) {
        taps = SIZE(it, STATE_KERNEL) > 0 ? SIZE(it, STATE_KERNEL) - 1 : 0;
        return tn__add_sat(tn__mul_sat(inner, SIZE(it, STATE_SIZE)),
                           tn__mul_sat(taps, SIZE(it, STATE_MIXED)));
    }
    taps = SIZE(it, LINEAR_KERNEL) > 0 ? SIZE(it, LINEAR_KERNEL) - 1 : 0;
    if (HAS(it, GDN)) {
        keys = tn__mul_sat(SIZE(it, LINEAR_KEY_SIZE), SIZE(it, LINEAR_VALUE_SIZE));
        return tn__add_sat(tn__mul_sat(SIZE(it, LINEAR_VALUES), keys),
                           tn__mul_sat(taps, SIZE(it, GDN_MIXED)));
    }
    if (HAS(it, KDA))
        return tn__add_sat(tn__mul_sat(SIZE(it, KDA_WIDTH), SIZE(it, LINEAR_KEY_SIZE)),
                           tn__mul_sat(taps, SIZE(it, KDA_MIXED)));
    if (HAS(it, LIGHTNING)) return tn__mul_sat(SIZE(it, QUERY), SIZE(it, HEAD_SIZE));
    if (HAS(it, CONV))
        return tn__mul_sat(SIZE(it, CONV_KERNEL) > 0 ? SIZE(it, CONV_KERNEL) - 1 : 0, hidden);
    return tn__mul_sat(5, hidden); /* RWKV-4 */
}

/* --- sizes of per-layer inputs (gemma3n, gemma4), experts and towers for images --- */

static void count_inputs(tn__llm_reading *it) {
    uint64_t hidden = SIZE(it, HIDDEN), input = SIZE(it, INPUT_SIZE), a = SIZE(it, INPUTS);
    bool has = HAS(it, GEMMA3N) || HAS(it, GEMMA4);
    if (!has) SIZE(it, INPUT_SIZE) = SIZE(it, INPUT_ROWS) = input = 0;
    if (input == 0) SIZE(it, INPUT_ROWS) = 0;
    SIZE(it, LAYER_INPUTS) = tn__mul_sat(input, SIZE(it, LAYERS));
    SIZE(it, LAYER_SCALARS) = (input > 0 ? hidden : 0) + (HAS(it, GEMMA4) ? 1 : 0);
    if (HAS(it, GEMMA3N) && SIZE(it, LAUREL) > 0) SIZE(it, LAYER_SCALARS) += hidden;
    if (HAS(it, GEMMA3N) && a > 1 && a < 1024) {
        SIZE(it, ALTUP) = tn__add_sat(a * a + a * a * a, tn__mul_sat(hidden, a + 2));
        SIZE(it, ALTUP_ROWS) = tn__mul_sat(2 * (a - 1), hidden);
    }
    SIZE(it, EXPERT_SCALES) = tn__add_sat(SIZE(it, EXPERTS), tn__mul_sat(4, hidden));
    SIZE(it, WIDE_INNER) = tn__mul_sat(2, SIZE(it, INNER));
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
    SIZE(it, SHARED_WIDTH) = SIZE(it, SHARED_INNER) > 0
                                 ? SIZE(it, SHARED_INNER)
                                 : tn__mul_sat(SIZE(it, SHARED), SIZE(it, EXPERT_WIDTH));
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
    SIZE(it, BIASES) = 4; /* biases of the four matrix products of attention */
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
    SIZE(it, HIDDEN_7) = 7 * hidden;
    SIZE(it, FIRST_NORM) = SIZE(it, SECOND_NORM) = hidden;
    SIZE(it, INDEX_WIDTH) = tn__mul_sat(SIZE(it, INDEX_HEADS), SIZE(it, INDEX_SIZE));
    SIZE(it, INDEX_NORM) = 2 * SIZE(it, INDEX_SIZE);
    count_compressed(it);
    count_experts(it);
    count_states(it);
    count_linear(it);
    count_inputs(it);
    /* biases of SigLIP: 4 of attention, 1 of the down projection, 4 vectors of two
     * normalisations */
    if (HAS(it, SEES)) SIZE(it, BIASES) = 9;
    return count_images(it, error);
}

/* --- matrices --- */

typedef struct count_span { /* the layers that have the matrices of a tn__llm_place */
    uint64_t first, layers;
    bool scattered;
    uint32_t block; /* as in tn_llm_weight */
} count_span;

/* For each place, the kinds of layers that have it. 0 means that the place is not in the layers
 * over tokens. */
static const uint8_t count_kinds[TN__LLM_PLACES] = {
    [TN__LLM_LAYER] = UINT8_MAX,
    [TN__LLM_ATTENDS] = TN__LLM_KIND_FULL | TN__LLM_KIND_WINDOW,
    [TN__LLM_IN_FULL] = TN__LLM_KIND_FULL,
    [TN__LLM_IN_WINDOW] = TN__LLM_KIND_WINDOW,
    [TN__LLM_STATES_IN] = TN__LLM_KIND_STATE,
    [TN__LLM_INDEXED] = TN__LLM_KIND_INDEX,
    [TN__LLM_DENSE] = TN__LLM_KIND_DENSE,
    [TN__LLM_WIDER] = TN__LLM_KIND_WIDE,
    [TN__LLM_SPARSE] = TN__LLM_KIND_SPARSE,
};

/* Returns the layers that have this place. If layers differ, only those of blocks[block]. */
static count_span count_span_of(const tn__llm_reading *it, tn__llm_place place, uint32_t block) {
    uint64_t layers = SIZE(it, LAYERS), last = 0;
    count_span span = {0};
    if (place == TN__LLM_ENCODER) return (count_span){.layers = layers};
    if (place == TN__LLM_DECODER) return (count_span){.layers = SIZE(it, DECODERS)};
    if (place == TN__LLM_TOWERS) return (count_span){.layers = it->vision_layers};
    for (uint64_t i = 0; i < layers && count_kinds[place] != 0; i++) {
        if (it->block_count > 0 && it->block[i] != block) continue;
        if (place != TN__LLM_LAYER && (it->kind[i] & count_kinds[place]) == 0) continue;
        if (span.layers++ == 0) span.first = i;
        last = i;
    }
    span.scattered = span.layers > 0 && last - span.first + 1 != span.layers;
    if (it->block_count > 0) {
        span.scattered = true;
        span.block = block + 1;
    }
    return span;
}

/* Returns the layers that predict further tokens and have this place. Such a layer has full
 * attention, and experts if the family has them. */
static count_span count_span_ahead(const tn__llm_reading *it, tn__llm_place place) {
    uint8_t kind = TN__LLM_KIND_FULL;
    kind |= HAS(it, EXPERT) ? TN__LLM_KIND_SPARSE : TN__LLM_KIND_DENSE;
    if (SIZE(it, INDEX_SIZE) > 0) kind |= TN__LLM_KIND_INDEX;
    bool there = place == TN__LLM_AHEAD || (count_kinds[place] & kind) != 0;
    return (count_span){.first = SIZE(it, LAYERS), .layers = there ? SIZE(it, FURTHER) : 0};
}

static tn_status count_row(const tn__llm_reading *it, const tn__llm_row *row, count_span span,
                           bool extra, tn_llm *llm, tn_error *error) {
    tn_llm_weight made = {.name = row->name,
                          .role = row->role,
                          .rows = it->size[row->rows],
                          .columns = it->size[row->columns],
                          .first = span.first,
                          .layers = span.layers,
                          .each = it->size[row->each],
                          .extra = extra,
                          .scattered = span.scattered,
                          .block = span.block};
    bool outside = row->place == TN__LLM_ONCE;
    if (made.rows == 0 || made.columns == 0 || made.each == 0 || (!outside && span.layers == 0))
        return TN_OK;
    if (llm->weight_count == TN_LLM_WEIGHTS_MAX)
        TN_FAIL(error, TN_E_UNSUPPORTED, "layers of so many sizes that %u matrices differ",
                TN_LLM_WEIGHTS_MAX);
    llm->weights[llm->weight_count++] = made;
    return TN_OK;
}

/* Sets the sizes that differ between layers to those of one block. */
static void count_use_block(tn__llm_reading *it, uint32_t index) {
    const tn__llm_block *block = &it->blocks[index];
    SIZE(it, KV_HEADS) = SIZE(it, WINDOW_KV_HEADS) = block->kv_heads;
    SIZE(it, INNER) = block->inner;
    count_widths(it);
    SIZE(it, FIRST_NORM) = block->first * SIZE(it, HIDDEN);
    SIZE(it, SECOND_NORM) = block->second * SIZE(it, HIDDEN);
    SIZE(it, REPLACED) = block->replaced * SIZE(it, HIDDEN);
}

static tn_status count_rows(tn__llm_reading *it, tn_llm *llm, tn_error *error) {
    size_t count;
    const tn__llm_row *rows = tn__llm_rows(it->traits, &count);
    for (uint32_t extra = 0; extra < 2; extra++)
        for (size_t i = 0; i < count; i++) {
            const tn__llm_row *row = &rows[i];
            bool there = (it->traits & row->with) == row->with && !(it->traits & row->without);
            if (!there || (extra ? row->place == TN__LLM_ONCE : row->place == TN__LLM_AHEAD))
                continue;
            bool differs = it->block_count > 0 && count_kinds[row->place] != 0;
            for (uint32_t b = 0; b < (differs ? it->block_count : 1); b++) {
                if (differs) count_use_block(it, b);
                const count_span span =
                    extra ? count_span_ahead(it, row->place) : count_span_of(it, row->place, b);
                TN_TRY(count_row(it, row, span, extra != 0, llm, error));
            }
        }
    return TN_OK;
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

/* --- the groups of layers in the cache --- */

uint64_t tn_llm_cache_layers(const tn_llm_cache *cache, bool windowed) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < cache->group_count; i++)
        if ((cache->groups[i].window > 0) == windowed && !cache->groups[i].beside)
            sum = tn__add_sat(sum, cache->groups[i].layers);
    return sum;
}

void tn__llm_cache_add(tn_llm_cache *cache, const tn_llm_cache_group *more) {
    for (uint32_t i = 0; i < cache->group_count; i++) {
        tn_llm_cache_group *group = &cache->groups[i];
        bool same = group->window == more->window && group->beside == more->beside &&
                    group->heads == more->heads && group->every == more->every;
        if (!same || group->key != more->key || group->value != more->value) continue;
        group->layers = tn__add_sat(group->layers, more->layers);
        return;
    }
    if (cache->group_count < TN_LLM_GROUPS_MAX) {
        cache->groups[cache->group_count++] = *more;
        return;
    }
    /* with too many groups, the last one gets sizes that are an upper bound for all its layers */
    tn_llm_cache_group *last = &cache->groups[TN_LLM_GROUPS_MAX - 1];
    last->layers = tn__add_sat(last->layers, more->layers);
    if (last->window > 0)
        last->window =
            more->window == 0 || more->window > last->window ? more->window : last->window;
    if (more->key > last->key) last->key = more->key;
    if (more->value > last->value) last->value = more->value;
    if (more->heads != last->heads) last->heads = 0;
    if (more->every < last->every) last->every = more->every;
    last->beside = last->beside || more->beside;
}

static void count_cache_layers(const tn__llm_reading *it, tn_llm_cache *cache) {
    const bool mla = HAS(it, MLA);
    const tn_llm_cache_group vector = {.layers = 1, .key = SIZE(it, DOWN)};
    const tn_llm_cache_group index = {.layers = 1, .key = SIZE(it, INDEX_SIZE), .beside = true};
    tn_llm_cache_group full = {.layers = 1, .key = SIZE(it, KEY), .value = SIZE(it, VALUES)};
    tn_llm_cache_group window = {
        .layers = 1, .key = SIZE(it, WINDOW_KEY), .value = SIZE(it, WINDOW_VALUES)};
    full.heads = SIZE(it, KV_HEADS);
    window.heads = SIZE(it, WINDOW_KV_HEADS);
    if (mla) full = window = vector;
    window.window = SIZE(it, WINDOW);
    for (uint64_t i = 0; i < SIZE(it, LAYERS); i++) {
        uint8_t kind = it->kind[i];
        bool fully = (kind & TN__LLM_KIND_FULL) != 0, windowed = (kind & TN__LLM_KIND_WINDOW) != 0;
        bool borrows = (kind & TN__LLM_KIND_BORROWS) != 0;
        if (it->block_count > 0) {
            full.heads = it->blocks[it->block[i]].kv_heads;
            full.key = full.value = tn__mul_sat(full.heads, SIZE(it, HEAD_SIZE));
        }
        if ((kind & TN__LLM_KIND_STATE) != 0) cache->state_layers++;
        if ((kind & TN__LLM_KIND_STATE) != 0 && (fully || windowed)) cache->state_beside = true;
        if (fully && !borrows) tn__llm_cache_add(cache, &full);
        if (windowed && !borrows) tn__llm_cache_add(cache, &window);
        if ((kind & TN__LLM_KIND_INDEX) != 0) tn__llm_cache_add(cache, &index);
    }
    if (cache->state_layers > 0) cache->state = tn__mul_sat(cache->state_layers, count_state(it));
}

static void count_cache(const tn__llm_reading *it, tn_llm_cache *cache) {
    bool encodes = HAS(it, T5) || HAS(it, WHISPER);
    if (HAS(it, ENCODER)) return;
    if (!encodes) {
        count_cache_layers(it, cache);
        return;
    }
    const tn_llm_cache_group decoder = {.layers = SIZE(it, DECODERS),
                                        .key = SIZE(it, QUERY),
                                        .value = SIZE(it, QUERY),
                                        .heads = SIZE(it, HEADS)};
    tn__llm_cache_add(cache, &decoder);
    cache->cross_layers = SIZE(it, DECODERS);
    cache->cross_key = SIZE(it, QUERY);
    cache->cross_tokens = HAS(it, WHISPER) ? SIZE(it, SOURCE) : 0;
}

/* --- all counts of a model --- */

static uint64_t count_widest(uint64_t a, uint64_t b) { return a > b ? a : b; }

static bool count_has(const tn__llm_reading *it, uint8_t kind) {
    for (uint64_t i = 0; i < SIZE(it, LAYERS); i++)
        if ((it->kind[i] & kind) != 0) return true;
    return false;
}

static void count_parts(const tn__llm_reading *it, tn_transformer *model) {
    model->gated = HAS(it, GATED);
    model->rms_norm = !HAS(it, SHIFTED);
    model->no_query_bias = !HAS(it, QUERY_BIAS);
    model->no_output_bias = !HAS(it, OUTPUT_BIAS);
    model->no_inner_bias = !HAS(it, INNER_BIAS);
    model->query_norm = HAS(it, QUERY_NORM);
    model->embedding_norm = HAS(it, EMBEDDING_NORM) && !HAS(it, NO_FINAL_NORM);
    model->pooled = HAS(it, POOLED);
    model->untied = HAS(it, UNTIED);
    model->no_dropout = !it->drops;
}

static void count_sizes(const tn__llm_reading *it, tn_llm *llm) {
    bool encodes = HAS(it, T5) || HAS(it, WHISPER), state = count_has(it, TN__LLM_KIND_STATE);
    llm->model.hidden = SIZE(it, HIDDEN);
    llm->model.layers = SIZE(it, LAYERS);
    llm->model.heads = SIZE(it, HEADS);
    llm->model.kv_heads = SIZE(it, KV_HEADS);
    llm->model.head_size = SIZE(it, HEAD_SIZE);
    llm->model.types = SIZE(it, TYPES);
    llm->model.position_rows = HAS(it, LEARNED) ? SIZE(it, POSITION_ROWS) : 0;
    llm->model.vocabulary = SIZE(it, VOCABULARY);
    llm->query_width = HAS(it, MLA) ? SIZE(it, ROTATED_QUERY)
                                    : count_widest(SIZE(it, QUERY), SIZE(it, WINDOW_QUERY));
    llm->key_width =
        HAS(it, MLA) ? SIZE(it, DOWN) : count_widest(SIZE(it, KEY), SIZE(it, WINDOW_KEY));
    if (state) { /* the output of a state's projection is in memory like queries and keys */
        uint64_t in = count_widest(SIZE(it, GDN_IN), SIZE(it, STATE_IN));
        llm->query_width = count_widest(llm->query_width, in);
        llm->query_width = count_widest(llm->query_width, SIZE(it, KDA_WIDTH));
    }
    llm->experts = HAS(it, EXPERT) ? SIZE(it, EXPERTS) : 0;
    llm->chosen = HAS(it, EXPERT) ? SIZE(it, CHOSEN) : 0;
    uint64_t chosen =
        tn__add_sat(tn__mul_sat(llm->chosen, SIZE(it, EXPERT_WIDTH)), SIZE(it, SHARED_WIDTH));
    bool dense = encodes || count_has(it, TN__LLM_KIND_DENSE);
    llm->model.inner = dense ? count_widest(SIZE(it, INNER), chosen) : chosen;
    if (count_has(it, TN__LLM_KIND_WIDE))
        llm->model.inner = count_widest(llm->model.inner, SIZE(it, WIDE_INNER));
    llm->model.positions = HAS(it, WHISPER) ? SIZE(it, TARGET) : SIZE(it, POSITIONS);
}

tn_status tn__llm_count(tn__llm_reading *it, tn_llm *llm, tn_error *error) {
    if (HAS(it, EXPERT) && SIZE(it, CHOSEN) > SIZE(it, EXPERTS))
        TN_FAIL(error, TN_E_INVALID, "%llu of %llu experts cannot be chosen",
                (unsigned long long)SIZE(it, CHOSEN), (unsigned long long)SIZE(it, EXPERTS));
    count_sizes(it, llm);
    count_parts(it, &llm->model);
    count_cache(it, &llm->cache);
    TN_TRY(count_rows(it, llm, error));
    return count_parameters(llm, error);
}
