/* llm_place.c - divides a model among several devices, or partly into host memory, and computes the
 * bytes of the device that needs most memory.
 *
 * Each device gets consecutive whole layers, as in llama.cpp (split mode "layer") and transformers
 * (device_map). With tensor parallelism (vLLM, llama.cpp's split mode "row") each device has a part
 * of every matrix. Vectors are copied to all devices. If there are more devices than heads of keys,
 * the keys and values of a head are copied, too.
 *
 * Every number is an upper bound for one device. It is not known which layers have which cache, so
 * the largest caches are counted for the layers of a device. Tensors outside the layers are counted
 * on the device that needs most memory. This includes the embedding, which llama.cpp keeps in host
 * memory. Buffers are not divided. Cost: O(weights + layers).
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "report/estimate/llm/llm.h"

/* --- bytes of the weights by layer --- */

/* matrices that only some layers have; it is not known which ones */
typedef struct place_loose {
    /* number of layers that have the matrices; bytes in each of these layers */
    uint64_t layers, bytes;
    uint32_t block; /* as in tn_llm_weight */
    bool experts;
} place_loose;

typedef struct place_weights {
    /* routed experts of a layer: their number, and the number of copies that a device keeps if the
     * experts are in host memory */
    uint64_t experts, cached;
    tn_llm_stored stored;
    place_loose loose[TN_LLM_WEIGHTS_MAX];
    uint32_t loose_count;
} place_weights;

/* Returns whether a tensor-parallel run copies a matrix to all devices instead of dividing it. */
static bool place_is_copied(const char *name) {
    static const char *const words[] = {"q_a_proj",  "kv_a_proj", "attn_q_a.",     "attn_kv_a",
                                        "indexer",   "index_",    "ffn_gate_inp.", "router",
                                        "mlp.gate.", "moe.gate."};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]) != NULL) return true;
    return false;
}

/* Returns whether a matrix makes keys or values, alone or together with queries. Each device has
 * those of its heads. For queries in the same matrix this is an upper bound. */
static bool place_is_keys(const char *name) {
    static const char *const words[] = {"k_proj", "v_proj",          "attn_k.", "attn_v.",
                                        "qkv",    "query_key_value", "c_attn"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]) != NULL) return true;
    return false;
}

/* Adds the bytes of a matrix to those that a tensor-parallel run does not divide evenly. */
static void place_uneven(tn_llm_stored *stored, const char *name, bool vector, uint64_t bytes) {
    bool whole = vector || place_is_copied(name);
    uint64_t *sum = whole ? &stored->vectors : place_is_keys(name) ? &stored->keys : NULL;
    if (sum != NULL) *sum = tn__add_sat(*sum, bytes);
}

static tn_status place_count(const tn_llm *llm, const tn_llm_options *it, place_weights *to,
                             tn_error *error) {
    for (uint32_t i = 0; i < llm->weight_count; i++) {
        const tn_llm_weight *weight = &llm->weights[i];
        bool experts = weight->role == TN_LLM_EXPERTS;
        uint64_t all = tn_llm_weight_bytes(llm, i, it->scheme);
        if (weight->extra && !it->extra) continue;
        bool whole = weight->rows == 1 || weight->role == TN_LLM_ROUTER;
        place_uneven(&to->stored, weight->name, whole, all);
        if (weight->layers == 0) {
            to->stored.outside = tn__add_sat(to->stored.outside, all);
            continue;
        }
        if (weight->first >= TN_LLM_LAYERS_MAX ||
            weight->layers > TN_LLM_LAYERS_MAX - weight->first)
            TN_FAIL(error, TN_E_UNSUPPORTED, "a model of more than %u layers cannot be divided",
                    TN_LLM_LAYERS_MAX);
        uint32_t end = (uint32_t)(weight->first + weight->layers);
        if (end > to->stored.layers) to->stored.layers = end;
        if (weight->scattered) {
            uint64_t each = tn__llm_weight_in(llm, i, it->scheme, weight->first);
            to->loose[to->loose_count++] =
                (place_loose){weight->layers, each, weight->block, experts};
            continue;
        }
        for (uint64_t layer = weight->first; layer < end; layer++) {
            uint64_t bytes = tn__llm_weight_in(llm, i, it->scheme, layer);
            to->stored.layer[layer] = tn__add_sat(to->stored.layer[layer], bytes);
            if (experts) to->stored.experts[layer] = tn__add_sat(to->stored.experts[layer], bytes);
        }
    }
    if (llm->model.layers <= TN_LLM_LAYERS_MAX && llm->model.layers > to->stored.layers)
        to->stored.layers = (uint32_t)llm->model.layers;
    return TN_OK;
}

static tn_status place_find(const tn_llm *llm, const tn_llm_options *it, place_weights *to,
                            tn_error *error) {
    to->loose_count = 0;
    to->stored = (tn_llm_stored){0};
    if (it->weight_bytes == 0) return place_count(llm, it, to, error);
    if (it->stored == NULL || it->stored->layers == 0)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "the bytes of single layers are not known: no name of a tensor contains a layer");
    to->stored = *it->stored;
    return TN_OK;
}

static uint64_t place_up(uint64_t bytes, uint64_t parts) {
    return bytes / parts + (bytes % parts != 0);
}

/* Returns the bytes of `count` of the routed experts of a layer, of which all have `bytes`. */
static uint64_t place_some(const place_weights *weights, uint64_t bytes, uint64_t count) {
    return weights->experts > 0 ? tn__mul_sat(place_up(bytes, weights->experts), count) : 0;
}

/* Returns the bytes of a layer. Of the routed experts of the first `experts` layers only the copies
 * are counted. */
static uint64_t place_layer(const place_weights *weights, uint64_t layer, uint64_t experts) {
    const tn_llm_stored *stored = &weights->stored;
    const uint64_t bytes = stored->experts[layer];
    if (layer >= experts) return stored->layer[layer];
    return tn__add_sat(stored->layer[layer] - bytes, place_some(weights, bytes, weights->cached));
}

/* Returns the bytes of the `count` largest layers, where each layer belongs to one block. */
static uint64_t place_blocks(const place_weights *weights, uint64_t count) {
    uint64_t bytes[TN__LLM_BLOCKS + 1] = {0}, layers[TN__LLM_BLOCKS + 1] = {0}, sum = 0;
    for (uint32_t i = 0; i < weights->loose_count; i++) {
        const place_loose *loose = &weights->loose[i];
        if (loose->block == 0 || loose->block > TN__LLM_BLOCKS) continue;
        bytes[loose->block] = tn__add_sat(bytes[loose->block], loose->bytes);
        layers[loose->block] = loose->layers;
    }
    while (count > 0) {
        uint32_t most = 0;
        for (uint32_t b = 1; b <= TN__LLM_BLOCKS; b++)
            if (layers[b] > 0 && (most == 0 || bytes[b] > bytes[most])) most = b;
        if (most == 0) break;
        uint64_t taken = count < layers[most] ? count : layers[most];
        sum = tn__add_sat(sum, tn__mul_sat(taken, bytes[most]));
        count -= taken;
        layers[most] = 0;
    }
    return sum;
}

/* Returns an upper bound of the bytes of `run` consecutive layers that begin with layer `from` or
 * later. */
static uint64_t place_run(const place_weights *weights, uint64_t from, uint64_t run,
                          uint64_t experts) {
    const uint64_t layers = weights->stored.layers;
    uint64_t sum = 0, most = 0;
    for (uint64_t i = from; i < layers; i++) {
        sum = tn__add_sat(sum, place_layer(weights, i, experts));
        if (i - from >= run) sum -= place_layer(weights, i - run, experts);
        most = sum > most ? sum : most;
    }
    most = tn__add_sat(most, place_blocks(weights, run));
    for (uint32_t i = 0; i < weights->loose_count; i++) {
        const place_loose *loose = &weights->loose[i];
        uint64_t count = run < loose->layers ? run : loose->layers;
        if (loose->block > 0) continue;
        bool away = loose->experts && experts >= layers;
        uint64_t each = away ? place_some(weights, loose->bytes, weights->cached) : loose->bytes;
        most = tn__add_sat(most, tn__mul_sat(count, each));
    }
    return most;
}

/* Returns the bytes of the first `count` layers. */
static uint64_t place_first(const place_weights *weights, uint64_t count) {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) sum = tn__add_sat(sum, place_layer(weights, i, 0));
    sum = tn__add_sat(sum, place_blocks(weights, count));
    for (uint32_t i = 0; i < weights->loose_count; i++) {
        const place_loose *loose = &weights->loose[i];
        if (loose->block > 0) continue;
        uint64_t held = count < loose->layers ? count : loose->layers;
        sum = tn__add_sat(sum, tn__mul_sat(held, loose->bytes));
    }
    return sum;
}

/* Returns the bytes of the routed experts of the layers from `from` up to, but not including,
 * `to`. */
static uint64_t place_experts(const place_weights *weights, uint64_t from, uint64_t to) {
    uint64_t sum = 0;
    for (uint64_t i = from; i < to; i++) sum = tn__add_sat(sum, weights->stored.experts[i]);
    for (uint32_t i = 0; i < weights->loose_count && from < to; i++) {
        const place_loose *loose = &weights->loose[i];
        uint64_t count = to - from < loose->layers ? to - from : loose->layers;
        if (loose->experts) sum = tn__add_sat(sum, tn__mul_sat(count, loose->bytes));
    }
    return sum;
}

/* Fills the facts about experts in host memory, those of the layers from `from` to `to`. */
static void place_tell_experts(const place_weights *weights, const tn_llm *llm, uint64_t from,
                               uint64_t to, tn_llm_estimate *made) {
    const uint64_t all = place_experts(weights, from, to);
    if (all == 0 || weights->experts == 0) return;
    for (uint64_t i = from; i < to; i++) {
        uint64_t one = place_some(weights, weights->stored.experts[i], 1);
        if (one > made->expert_bytes) made->expert_bytes = one;
        uint64_t copies = place_some(weights, weights->stored.experts[i], weights->cached);
        made->cached_bytes = tn__add_sat(made->cached_bytes, copies);
    }
    for (uint32_t i = 0; i < weights->loose_count; i++) {
        const place_loose *loose = &weights->loose[i];
        uint64_t count = to - from < loose->layers ? to - from : loose->layers;
        if (!loose->experts) continue;
        /* the matrices of an expert are separate entries of the list */
        made->expert_bytes = tn__add_sat(made->expert_bytes, place_some(weights, loose->bytes, 1));
        made->cached_bytes =
            tn__add_sat(made->cached_bytes,
                        tn__mul_sat(count, place_some(weights, loose->bytes, weights->cached)));
    }
    made->token_experts = place_some(weights, all, llm->chosen);
}

/* --- the part of the cache on one device --- */

/* A part of the cache: its number of layers, and the bytes of all of them. */
typedef struct place_part {
    uint64_t layers, bytes;
} place_part;

/* Returns the bytes of the `count` largest layers of a part. */
static uint64_t place_largest(const place_part *part, uint64_t count) {
    uint64_t taken = count < part->layers ? count : part->layers;
    return taken == 0 ? 0 : tn__mul_sat(place_up(part->bytes, part->layers), taken);
}

/* Returns the part of `bytes` that one of several devices keeps if they divide `heads`. If there
 * are fewer heads than devices, a head is copied to several devices. 0 heads: every device keeps
 * all bytes. */
static uint64_t place_share(uint64_t bytes, uint64_t heads, uint64_t devices) {
    if (heads == 0 || devices <= 1) return bytes;
    uint64_t part = tn__mul_sat(place_up(bytes, heads), place_up(heads, devices));
    return part < bytes ? part : bytes;
}

/* Returns the heads of keys in the layers that have the fewest. */
static uint64_t place_fewest(const tn_llm *llm) {
    uint64_t fewest = llm->model.kv_heads > 0 ? llm->model.kv_heads : llm->model.heads;
    for (uint32_t i = 0; i < llm->cache.group_count; i++) {
        uint64_t heads = llm->cache.groups[i].heads;
        if (heads > 0 && heads < fewest) fewest = heads;
    }
    return fewest;
}

/* Returns an upper bound of the bytes of the cache of `count` layers on one of `devices` that
 * divide its heads: the bytes of the layers with the largest caches. What layers have beside
 * another cache is added: an index, the state of a layer that also attends, and the keys of an
 * encoder. */
static uint64_t place_cache(const tn_llm *llm, const tn_llm_options *it,
                            const tn_llm_estimate *made, uint64_t count, uint64_t devices) {
    const tn_llm_cache *cache = &llm->cache;
    const uint64_t heads = llm->model.kv_heads > 0 ? llm->model.kv_heads : llm->model.heads;
    place_part parts[TN_LLM_GROUPS_MAX + 1];
    uint32_t part_count = 0;
    const place_part cross = {cache->cross_layers,
                              place_share(made->cache_cross, llm->model.heads, devices)};
    const place_part states = {cache->state_layers, place_share(made->cache_state, heads, devices)};
    uint64_t sum = place_largest(&cross, count), left = count;
    for (uint32_t i = 0; i < cache->group_count; i++) {
        const tn_llm_cache_group *group = &cache->groups[i];
        uint64_t tokens = tn__mul_sat(it->batch, tn__llm_cache_kept(group, it));
        uint64_t bytes = tn__llm_cache_bytes(group, it->cache_type, tokens);
        const place_part part = {group->layers, place_share(bytes, group->heads, devices)};
        if (group->beside)
            sum = tn__add_sat(sum, place_largest(&part, count));
        else
            parts[part_count++] = part;
    }
    if (cache->state_beside)
        sum = tn__add_sat(sum, place_largest(&states, count));
    else
        parts[part_count++] = states;
    while (left > 0) {
        place_part *most = NULL;
        for (uint32_t i = 0; i < part_count; i++)
            if (parts[i].layers > 0 &&
                (most == NULL || parts[i].bytes / parts[i].layers > most->bytes / most->layers))
                most = &parts[i];
        if (most == NULL) break;
        sum = tn__add_sat(sum, place_largest(most, left));
        left -= left < most->layers ? left : most->layers;
        most->layers = 0;
    }
    return sum < made->cache ? sum : made->cache;
}

/* --- the device that needs most memory --- */

static tn_status place_check(const tn_llm *llm, const tn_llm_options *it, tn_error *error) {
    if (it->devices > 65536)
        TN_FAIL(error, TN_E_INVALID, "%u devices are more than 65,536", it->devices);
    if (it->by_tensor && llm->model.heads > 0 && llm->model.heads % it->devices != 0)
        TN_FAIL(error, TN_E_INVALID, "%u devices do not divide %llu attention heads", it->devices,
                (unsigned long long)llm->model.heads);
    if (it->cached_experts > llm->experts)
        TN_FAIL(error, TN_E_INVALID, "%llu experts of a layer are to be cached; it has %llu",
                (unsigned long long)it->cached_experts, (unsigned long long)llm->experts);
    if (it->cached_experts > 0 && it->host_experts == 0)
        TN_FAIL(error, TN_E_INVALID, "experts are cached only if they are in host memory");
    return TN_OK;
}

static void place_runtime(const tn_llm_estimate *whole, uint64_t cache, tn_llm_estimate *made) {
    uint64_t rounded =
        whole->cache_allocated > whole->cache ? whole->cache_allocated - whole->cache : 0;
    double share = whole->cache > 0 ? (double)cache / (double)whole->cache : 0;
    uint64_t here = (uint64_t)((double)rounded * share) + (rounded > 0 && cache > 0);
    made->runtime = whole->runtime - rounded + (here < rounded ? here : rounded);
    made->cache_allocated = tn__add_sat(cache, here < rounded ? here : rounded);
}

tn_status tn__llm_divide(const tn_llm *llm, const tn_llm_options *it, tn_llm_estimate *made,
                         tn_error *error) {
    const tn_llm_estimate whole = *made;
    tn_llm_options placed = *it;
    place_weights weights;
    if (placed.devices == 0) placed.devices = 1;
    made->devices = placed.devices;
    if (it->cached_experts > 0) TN_TRY(place_check(llm, &placed, error));
    if (placed.devices == 1 && it->host_layers == 0 && it->host_experts == 0) return TN_OK;
    TN_TRY(place_check(llm, &placed, error));
    TN_TRY(place_find(llm, &placed, &weights, error));
    weights.experts = llm->experts;
    weights.cached = it->cached_experts;
    const uint64_t layers = weights.stored.layers;
    const uint64_t host = it->host_layers < layers ? it->host_layers : layers;
    const uint64_t experts = it->host_experts < layers ? it->host_experts : layers;
    const uint64_t here = layers - host;
    const uint64_t run = it->by_tensor ? here : place_up(here, placed.devices);
    uint64_t most = run > 0 ? place_run(&weights, host, run, experts) : 0;
    /* like llama.cpp, which counts the output matrix as one layer more than the last */
    const bool is_empty = it->host_layers > layers;
    if (!is_empty) most = tn__add_sat(most, weights.stored.outside);
    made->cache = place_cache(llm, it, &whole, run, it->by_tensor ? placed.devices : 1);
    if (it->by_tensor) {
        uint64_t vectors = weights.stored.vectors < most ? weights.stored.vectors : most;
        uint64_t rest = most - vectors, keys = weights.stored.keys;
        if (keys > rest) keys = rest;
        most = place_up(rest - keys, placed.devices) + vectors;
        most = tn__add_sat(most, place_share(keys, place_fewest(llm), placed.devices));
    }
    made->weights = most < whole.weights ? most : whole.weights;
    uint64_t away = tn__add_sat(place_first(&weights, host),
                                place_experts(&weights, host, experts > host ? experts : host));
    if (is_empty) away = whole.weights;
    made->host_weights = away < whole.weights ? away : whole.weights;
    made->host_cache = host > 0 ? place_cache(llm, it, &whole, host, 1) : 0;
    if (experts > host) place_tell_experts(&weights, llm, host, experts, made);
    place_runtime(&whole, made->cache, made);
    return TN_OK;
}

/* --- bytes by layer from the tensors of a file --- */

static bool place_is_word(const char *word, size_t length) {
    static const char *const words[] = {"blk", "layers", "layer", "h", "blocks", "block"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == length && memcmp(words[i], word, length) == 0) return true;
    return false;
}

/* Returns the number of the layer in a tensor's name: the number after the first "layers." or a
 * similar part. Returns UINT32_MAX if there is no number, or if the tensor is part of a tower for
 * images. */
static uint32_t place_named(const char *name) {
    if (strncmp(name, "v.", 2) == 0 || strstr(name, "vision") != NULL ||
        strstr(name, "visual") != NULL)
        return UINT32_MAX;
    for (const char *at = name; *at != '\0';) {
        size_t length = strcspn(at, "./");
        const char *next = at + length;
        if (*next == '\0') break;
        next++;
        if (place_is_word(at, length) && isdigit((unsigned char)*next)) {
            uint32_t layer = 0;
            while (isdigit((unsigned char)*next) && layer < TN_LLM_LAYERS_MAX)
                layer = 10 * layer + (uint32_t)(*next++ - '0');
            return layer < TN_LLM_LAYERS_MAX ? layer : UINT32_MAX;
        }
        at = next;
    }
    return UINT32_MAX;
}

static bool place_is_expert(const char *name) {
    return strstr(name, "_exps.") != NULL ||
           (strstr(name, ".experts.") != NULL && strstr(name, "shared") == NULL);
}

uint64_t tn_llm_stored_missing(const tn_llm_stored *stored, uint64_t layers) {
    uint64_t missing = 0;
    if (stored->layers == 0) return 0;
    for (uint64_t i = 0; i < layers; i++) missing += i >= stored->layers || stored->layer[i] == 0;
    return missing;
}

void tn_llm_stored_read(const tn_weights *weights, tn_llm_stored *stored) {
    *stored = (tn_llm_stored){0};
    for (uint32_t i = 0; i < tn_weights_count(weights); i++) {
        const tn_weight *weight = tn_weights_at(weights, i);
        uint32_t layer = place_named(weight->name);
        place_uneven(stored, weight->name, weight->rank <= 1, weight->size);
        if (layer == UINT32_MAX) {
            stored->outside = tn__add_sat(stored->outside, weight->size);
            continue;
        }
        if (layer >= stored->layers) stored->layers = layer + 1;
        stored->layer[layer] = tn__add_sat(stored->layer[layer], weight->size);
        if (place_is_expert(weight->name))
            stored->experts[layer] = tn__add_sat(stored->experts[layer], weight->size);
    }
}
