/* llm_layers.c - finds the kind of each layer: full attention or a window, a state of constant
 * size, an inner layer or experts, a cache of its own or the cache of another layer.
 *
 * Files describe this in many ways, such as lists of names, strings of letters, lists of numbers
 * and periods. For each way there is a function that sets the kinds if its field exists. The first
 * function that finds its field decides. A layer of an unknown type is counted as full attention,
 * and the type is reported.
 */
#include <stdio.h>

#include "report/estimate/llm/llm.h"

#ifndef TENURE_MINIMAL

#define HAS(it, name) (((it)->to->traits & TN__LLM_TRAIT(name)) != 0)
#define SIZE(it, name) (it)->to->size[TN__LLM_##name]
#define FULL TN__LLM_KIND_FULL
#define WINDOW TN__LLM_KIND_WINDOW
#define STATE TN__LLM_KIND_STATE
#define DENSE TN__LLM_KIND_DENSE
#define SPARSE TN__LLM_KIND_SPARSE

typedef struct layers_reading {
    tn__llm_reading *to;
    const json_t *inner, *root;
    tn_llm *llm;
    tn_error *error;
    uint64_t count;
} layers_reading;

static const json_t *layers_get(const layers_reading *it, const char *key) {
    if (tn__llm_is_foreign(key, it->to->family->type)) return NULL;
    const json_t *value = json_object_get(it->inner, key);
    if (value == NULL) value = json_object_get(it->root, key);
    return value != NULL && !json_is_null(value) ? value : NULL;
}

/* Finds a list that has one item per layer. *list is NULL if the file does not have the list or if
 * it is empty. */
static tn_status layers_list(const layers_reading *it, const char *key, const json_t **list) {
    *list = layers_get(it, key);
    if (*list == NULL || (json_is_array(*list) && json_array_size(*list) == 0)) {
        *list = NULL;
        return TN_OK;
    }
    if (!json_is_array(*list) || json_array_size(*list) != it->count)
        TN_FAIL(it->error, TN_E_INVALID,
                "\"%s\" must be a list with one item for each of %llu layers", key,
                (unsigned long long)it->count);
    return TN_OK;
}

static void layers_name(const layers_reading *it, const char *word) {
    size_t used = strlen(it->llm->unread), room = sizeof it->llm->unread;
    if (strstr(it->llm->unread, word) != NULL || used + strlen(word) + 3 > room) return;
    snprintf(it->llm->unread + used, room - used, "%s%s", used > 0 ? ", " : "", word);
}

/* --- layers with attention or a state --- */

typedef struct layers_word {
    const char *word;
    uint8_t kind; /* bits TN__LLM_KIND_* of a layer with this name of a type */
    bool state, expert;
} layers_word;

static const layers_word layers_words[] = {
    {"full_attention", FULL, false, false},
    {"attention", FULL, false, false},
    {"global_attention", FULL, false, false},
    {"sliding_attention", WINDOW, false, false},
    {"chunked_attention", WINDOW, false, false},
    {"local_attention", WINDOW, false, false},
    {"linear_attention", STATE, true, false},
    {"conv", STATE, true, false},
    {"mamba", STATE, true, false},
    {"mamba2", STATE, true, false},
    {"recurrent", STATE, true, false},
    {"hybrid", FULL | STATE, true, false},
    {"moe", SPARSE, false, true},
    {"mlp", DENSE, false, false},
};

static tn_status layers_word_read(const layers_reading *it, const char *key, const json_t *item,
                                  uint8_t *kind) {
    const char *word = json_is_string(item) ? json_string_value(item) : "?";
    for (size_t i = 0; i < sizeof layers_words / sizeof *layers_words; i++) {
        const layers_word *row = &layers_words[i];
        if (strcmp(row->word, word) != 0) continue;
        bool part = row->kind == SPARSE || row->kind == DENSE;
        bool missing = (row->state && (it->to->traits & TN__LLM_STATES) == 0) ||
                       (row->expert && !HAS(it, EXPERT)) || (part && !HAS(it, PARTS));
        if (missing)
            TN_FAIL(it->error, TN_E_UNSUPPORTED, "\"%s\": %.40s is no layer of model_type %s", key,
                    word, it->to->family->type);
        *kind = row->kind;
        return TN_OK;
    }
    layers_name(it, word);
    *kind = FULL;
    return TN_OK;
}

/* Reads a list of names of layer types, one per layer. */
static tn_status layers_types(const layers_reading *it, bool *found) {
    static const char *const keys[] = {"layer_types", "layers_block_type", "attention_layer_types"};
    for (size_t k = 0; k < 3 && !*found; k++) {
        const json_t *list;
        TN_TRY(layers_list(it, keys[k], &list));
        for (size_t i = 0; list != NULL && i < it->count; i++)
            TN_TRY(layers_word_read(it, keys[k], json_array_get(list, i), &it->to->kind[i]));
        *found = list != NULL;
    }
    return TN_OK;
}

/* Reads a string with one letter per layer, such as "M-M*-E". */
static tn_status layers_letters(const layers_reading *it, bool *found) {
    const char *text = json_string_value(layers_get(it, "hybrid_override_pattern"));
    if (*found || text == NULL || !HAS(it, PARTS)) return TN_OK;
    if (strlen(text) != it->count)
        TN_FAIL(it->error, TN_E_INVALID,
                "\"hybrid_override_pattern\" has %zu letters for %llu layers", strlen(text),
                (unsigned long long)it->count);
    for (uint64_t i = 0; i < it->count; i++) {
        const char *at = strchr("M*-E", text[i]);
        static const uint8_t kinds[] = {STATE, FULL, DENSE, SPARSE};
        if (at == NULL)
            TN_FAIL(it->error, TN_E_UNSUPPORTED,
                    "\"hybrid_override_pattern\": the letter '%c' is not known", text[i]);
        it->to->kind[i] = kinds[at - "M*-E"];
    }
    *found = true;
    return TN_OK;
}

/* Reads a list of numbers, one per layer. Layers with a number other than 0 get the kind `one`, the
 * others `zero`. */
static tn_status layers_numbers(const layers_reading *it, const char *key, uint8_t one,
                                uint8_t zero, bool *found) {
    const json_t *list;
    if (*found) return TN_OK;
    TN_TRY(layers_list(it, key, &list));
    for (size_t i = 0; list != NULL && i < it->count; i++) {
        const json_t *item = json_array_get(list, i);
        bool set = json_is_true(item) || json_integer_value(item) != 0;
        it->to->kind[i] = set ? one : zero;
    }
    *found = list != NULL;
    return TN_OK;
}

/* Reads a list of the numbers of layers with attention, which count from `base`. All other layers
 * keep a state. */
static tn_status layers_numbered(const layers_reading *it, const char *key, const json_t *list,
                                 int64_t base, bool *found) {
    if (*found || !json_is_array(list)) return TN_OK;
    for (uint64_t i = 0; i < it->count; i++) it->to->kind[i] = STATE;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        json_int_t layer = json_is_integer(item) ? json_integer_value(item) : -1;
        if (layer < base || (uint64_t)(layer - base) >= it->count)
            TN_FAIL(it->error, TN_E_INVALID, "\"%s\": there is no such layer", key);
        it->to->kind[layer - base] = FULL;
    }
    *found = true;
    return TN_OK;
}

static tn_status layers_kda(const layers_reading *it, bool *found) {
    const json_t *part = layers_get(it, "linear_attn_config");
    static const struct {
        const char *name;
        tn__llm_size to;
    } sizes[] = {{"num_heads", TN__LLM_LINEAR_VALUES},
                 {"head_dim", TN__LLM_LINEAR_KEY_SIZE},
                 {"short_conv_kernel_size", TN__LLM_LINEAR_KERNEL}};
    if (!HAS(it, KDA)) return TN_OK;
    for (size_t i = 0; i < 3; i++) {
        const json_t *value = json_object_get(part, sizes[i].name);
        json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
        if (number < 1 || number > 1 << 24)
            TN_FAIL(it->error, TN_E_INVALID, "\"linear_attn_config\" needs \"%s\"", sizes[i].name);
        it->to->size[sizes[i].to] = (uint64_t)number;
    }
    const json_t *full = json_object_get(part, "full_attn_layers");
    if (!json_is_array(full))
        TN_FAIL(it->error, TN_E_INVALID, "\"linear_attn_config\" needs \"full_attn_layers\"");
    return layers_numbered(it, "full_attn_layers", full, 1, found);
}

/* Reads a string that is repeated over the layers, such as "LLLG", where L is a layer with a
 * window. */
static bool layers_pattern_text(const layers_reading *it) {
    const char *text = json_string_value(layers_get(it, "sliding_window_pattern"));
    size_t length = text != NULL ? strlen(text) : 0;
    if (length == 0) return false;
    for (uint64_t i = 0; i < it->count; i++)
        it->to->kind[i] = text[i % length] == 'L' ? WINDOW : FULL;
    return true;
}

static bool layers_has_window(const layers_reading *it) {
    return HAS(it, WINDOWED) && !HAS(it, WINDOW_ASKED) && SIZE(it, WINDOW) > 0;
}

static void layers_windows(const layers_reading *it) {
    uint64_t from = SIZE(it, WINDOW_FROM);
    uint64_t every = SIZE(it, PATTERN) > 0 ? SIZE(it, PATTERN) : it->to->family->pattern;
    if (layers_pattern_text(it)) return;
    for (uint64_t i = 0; i < it->count; i++) {
        bool window = from > 0 ? i >= from : every <= 1 || (i + 1) % every != 0;
        it->to->kind[i] = window ? WINDOW : FULL;
    }
}

static void layers_periods(const layers_reading *it) {
    uint64_t period = SIZE(it, PERIOD), offset = SIZE(it, OFFSET), interval = SIZE(it, INTERVAL);
    bool states = (it->to->traits & TN__LLM_STATES) != 0 && !HAS(it, BOTH);
    if (!states && layers_has_window(it)) {
        layers_windows(it);
        return;
    }
    for (uint64_t i = 0; i < it->count; i++) {
        bool full = !states || (period > 0 && i % period == offset) ||
                    (interval > 0 && (i + 1) % interval == 0);
        it->to->kind[i] = HAS(it, PURE) ? STATE : full ? FULL : STATE;
    }
}

static tn_status layers_mixers(const layers_reading *it) {
    bool found = false, llama4 = HAS(it, LLAMA4);
    bool sinks = HAS(it, WINDOW_SINKS), light = HAS(it, LIGHTNING);
    if (!HAS(it, PURE)) {
        TN_TRY(layers_types(it, &found));
        TN_TRY(layers_letters(it, &found));
        if (light) TN_TRY(layers_numbers(it, "attn_type_list", FULL, STATE, &found));
        if (sinks) TN_TRY(layers_numbers(it, "hybrid_layer_pattern", WINDOW, FULL, &found));
        if (llama4) TN_TRY(layers_numbers(it, "no_rope_layers", WINDOW, FULL, &found));
        TN_TRY(layers_kda(it, &found));
        if ((it->to->traits & TN__LLM_STATES) != 0) {
            static const char *const keys[] = {"attn_layer_indices", "full_attn_idxs"};
            for (size_t k = 0; k < 2; k++)
                TN_TRY(layers_numbered(it, keys[k], layers_get(it, keys[k]), 0, &found));
        }
    }
    if (!found && HAS(it, PARTS))
        TN_FAIL(it->error, TN_E_INVALID,
                "model_type %s needs \"hybrid_override_pattern\" or \"layers_block_type\"",
                it->to->family->type);
    if (!found) layers_periods(it);
    for (uint64_t i = 0; i < it->count; i++) {
        uint8_t *kind = &it->to->kind[i];
        if (HAS(it, BOTH)) *kind |= STATE;
        if ((*kind & WINDOW) != 0 && !layers_has_window(it))
            *kind = (uint8_t)((*kind & ~WINDOW) | FULL);
    }
    return TN_OK;
}

/* --- layers with an inner layer or experts --- */

static bool layers_listed(const json_t *list, uint64_t layer) {
    for (size_t i = 0; i < json_array_size(list); i++)
        if (json_is_integer(json_array_get(list, i)) &&
            (uint64_t)json_integer_value(json_array_get(list, i)) == layer)
            return true;
    return false;
}

/* Reads "moe_layer_freq": into *every if it is one number, into *list if it is a list with one
 * number per layer. */
static tn_status layers_frequency(const layers_reading *it, uint64_t *every, const json_t **list) {
    const json_t *value = layers_get(it, "moe_layer_freq");
    *list = NULL;
    if (json_is_array(value)) return layers_list(it, "moe_layer_freq", list);
    if (json_is_integer(value) && json_integer_value(value) > 1)
        *every = (uint64_t)json_integer_value(value);
    return TN_OK;
}

static tn_status layers_inner(const layers_reading *it) {
    bool experts = HAS(it, EXPERT) && SIZE(it, EXPERTS) > 0;
    uint64_t step = SIZE(it, SPARSE_STEP), first = SIZE(it, DENSE_FIRST), every = 0;
    uint64_t period = SIZE(it, EXPERT_PERIOD), offset = SIZE(it, EXPERT_OFFSET);
    const json_t *only = layers_get(it, "mlp_only_layers"), *list, *chosen, *words;
    TN_TRY(layers_frequency(it, &every, &list));
    TN_TRY(layers_list(it, "mlp_layer_types", &words));
    chosen = layers_get(it, "moe_layers");
    if (period > 0 && SIZE(it, EXPERTS) <= 1) experts = false;
    for (uint64_t i = 0; i < it->count; i++) {
        bool sparse = experts && i >= first && (step <= 1 || (i + 1) % step == 0) &&
                      (every == 0 || i % every == 0) && !layers_listed(only, i) &&
                      (period == 0 || i % period == offset);
        if (list != NULL) sparse = experts && json_integer_value(json_array_get(list, i)) != 0;
        const char *word = json_string_value(json_array_get(words, i));
        if (word != NULL) sparse = experts && strcmp(word, "dense") != 0;
        if (HAS(it, LLAMA4) && json_array_size(chosen) > 0)
            sparse = experts && layers_listed(chosen, i);
        it->to->kind[i] |= sparse ? SPARSE : DENSE;
        if (HAS(it, GEMMA4)) it->to->kind[i] |= DENSE;
    }
    return TN_OK;
}

/* --- layers of different sizes --- */

/* Returns the inner width of a layer of nemotron-nas: two thirds of a multiple of twice the hidden
 * size, rounded up to 256, as in its class DeciLMMLP. 0: it has no inner layer, or the file is
 * wrong. */
static uint64_t layers_block_inner(const layers_reading *it, const json_t *part) {
    const json_t *ratio = json_object_get(part, "ffn_mult");
    const json_t *stated = json_object_get(part, "intermediate_size");
    if (json_is_integer(stated) && json_integer_value(stated) > 0)
        return (uint64_t)json_integer_value(stated);
    double times = json_is_number(ratio) ? json_number_value(ratio) : 0;
    if (!(times > 0 && times < 1e4)) return 0;
    uint64_t width = (uint64_t)(2 * times * (double)SIZE(it, HIDDEN) / 3);
    return width / 256 * 256 + (width % 256 != 0 ? 256 : 0);
}

/* Reads one part of a layer, "attention" or "ffn": whether it is there, and whether a matrix
 * replaces it. */
static tn_status layers_block_part(const layers_reading *it, const json_t *block, const char *name,
                                   const json_t **part, bool *there, bool *replaced) {
    static const char *const others[] = {"mamba", "moe", "llama4"};
    *part = json_object_get(block, name);
    if (!json_is_object(*part))
        TN_FAIL(it->error, TN_E_INVALID, "\"block_configs\": a layer without \"%s\"", name);
    for (size_t i = 0; i < 3; i++) {
        const json_t *other = json_object_get(*part, others[i]);
        if (other != NULL && !json_is_null(other) && !json_is_false(other))
            TN_FAIL(it->error, TN_E_UNSUPPORTED, "\"block_configs\": \"%s\" is not counted",
                    others[i]);
    }
    *there = !json_is_true(json_object_get(*part, "no_op"));
    *replaced = *there && json_is_true(json_object_get(*part, "replace_with_linear"));
    return TN_OK;
}

static tn_status layers_block_read(const layers_reading *it, const json_t *item,
                                   tn__llm_block *to) {
    const json_t *attention, *inner;
    bool attends, linear, wide, narrow;
    TN_TRY(layers_block_part(it, item, "attention", &attention, &attends, &linear));
    TN_TRY(layers_block_part(it, item, "ffn", &inner, &wide, &narrow));
    *to = (tn__llm_block){.first = attends, .second = wide, .replaced = linear + narrow};
    if (attends && !linear) {
        const json_t *heads = json_object_get(attention, "n_heads_in_group");
        json_int_t each = json_is_integer(heads) ? json_integer_value(heads) : 0;
        if (each < 1 || (uint64_t)each > SIZE(it, HEADS) || SIZE(it, HEADS) % (uint64_t)each != 0)
            TN_FAIL(it->error, TN_E_INVALID,
                    "\"n_heads_in_group\" of a layer does not divide %llu heads",
                    (unsigned long long)SIZE(it, HEADS));
        to->kv_heads = SIZE(it, HEADS) / (uint64_t)each;
    }
    if (wide && !narrow) to->inner = layers_block_inner(it, inner);
    if (wide && !narrow && (to->inner == 0 || to->inner > TN__LLM_MOST))
        TN_FAIL(it->error, TN_E_INVALID, "\"ffn_mult\" of a layer is not a number above 0");
    return TN_OK;
}

/* Reads "block_configs": an object for each layer, with the sizes of its parts. */
static tn_status layers_blocks(const layers_reading *it) {
    tn__llm_reading *to = it->to;
    const json_t *list;
    TN_TRY(layers_list(it, "block_configs", &list));
    if (list != NULL && !to->family->blocks)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "\"block_configs\" means layers of different widths, which is not counted");
    if (list == NULL && to->family->blocks)
        TN_FAIL(it->error, TN_E_INVALID, "model_type %s needs \"block_configs\"", to->family->type);
    if (list == NULL) return TN_OK;
    SIZE(it, KV_HEADS) = SIZE(it, INNER) = 1; /* then the largest of all layers */
    for (uint64_t i = 0; i < it->count; i++) {
        tn__llm_block read;
        uint32_t at = 0;
        TN_TRY(layers_block_read(it, json_array_get(list, i), &read));
        while (at < to->block_count && memcmp(&to->blocks[at], &read, sizeof read) != 0) at++;
        if (at == TN__LLM_BLOCKS)
            TN_FAIL(it->error, TN_E_UNSUPPORTED, "layers of more than %u different sizes",
                    TN__LLM_BLOCKS);
        if (at == to->block_count) to->blocks[to->block_count++] = read;
        to->block[i] = (uint8_t)at;
        to->kind[i] = (uint8_t)((read.kv_heads > 0 ? FULL : 0) | (read.inner > 0 ? DENSE : 0));
        if (read.kv_heads > SIZE(it, KV_HEADS)) SIZE(it, KV_HEADS) = read.kv_heads;
        if (read.inner > SIZE(it, INNER)) SIZE(it, INNER) = read.inner;
    }
    return TN_OK;
}

/* --- layers that read the cache of another layer, and indexes of keys --- */

static void layers_borrow(const layers_reading *it) {
    uint64_t count = SIZE(it, BORROWERS), factor = SIZE(it, CLA_FACTOR);
    bool across = json_is_true(layers_get(it, "use_cla")) && factor > 1;
    it->to->double_width = json_is_true(layers_get(it, "use_double_wide_mlp"));
    for (uint64_t i = 0; i < it->count; i++) {
        uint8_t *kind = &it->to->kind[i];
        bool last = count < it->count && i >= it->count - count;
        if (!last && !(across && i % factor != 0)) continue;
        *kind |= TN__LLM_KIND_BORROWS;
        if (last && it->to->double_width && HAS(it, GEMMA4))
            *kind = (uint8_t)((*kind & ~DENSE) | TN__LLM_KIND_WIDE);
    }
}

static tn_status layers_index(const layers_reading *it) {
    const json_t *list;
    if (SIZE(it, INDEX_SIZE) == 0) return TN_OK;
    TN_TRY(layers_list(it, "indexer_types", &list));
    for (uint64_t i = 0; i < it->count; i++) {
        const char *word = json_string_value(json_array_get(list, i));
        if (word == NULL || strcmp(word, "shared") != 0) it->to->kind[i] |= TN__LLM_KIND_INDEX;
    }
    return TN_OK;
}

tn_status tn__llm_layers(tn__llm_reading *to, const json_t *inner, const json_t *root, tn_llm *llm,
                         tn_error *error) {
    layers_reading it = {.to = to,
                         .inner = inner,
                         .root = root,
                         .llm = llm,
                         .error = error,
                         .count = to->size[TN__LLM_LAYERS]};
    if (it.count > TN__LLM_LAYERS_MOST)
        TN_FAIL(error, TN_E_INVALID, "%llu layers; at most %u are counted",
                (unsigned long long)it.count, TN__LLM_LAYERS_MOST);
    TN_TRY(layers_mixers(&it));
    if (!HAS(&it, PARTS) && (!HAS(&it, PURE) || HAS(&it, RWKV))) TN_TRY(layers_inner(&it));
    layers_borrow(&it);
    TN_TRY(layers_blocks(&it));
    return layers_index(&it);
}
#endif
