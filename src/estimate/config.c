/* config.c - the sizes of a transformer from a config.json of Hugging Face.
 *
 * Families name the same things differently: GPT-2 says n_embd, n_layer, n_head, n_positions, BERT
 * and LLaMA hidden_size, num_hidden_layers, num_attention_heads, max_position_embeddings. Every
 * name is looked for, so other models that keep to one of these ways are read as well. What tells
 * the families apart is not the name of the model but its keys: rms_norm_eps means normalisation
 * without shift, a gated inner layer and no learned positions, type_vocab_size BERT's third
 * embedding.
 */
#include <stdio.h>

#include "base/base.h"

#include <tenure/estimate.h>

#ifdef TENURE_MINIMAL
tn_status tn_large_config(const char *name, const void *bytes, size_t size,
                          const tn_context *context, tn_large *large, tn_error *error) {
    (void)bytes, (void)size, (void)context, (void)large;
    TN_FAIL(error, TN_E_UNSUPPORTED, "%s: this build reads no JSON", name);
}
#else
#include <jansson.h>

#define CONFIG_MOST (INT64_C(1) << 40)

typedef struct config_reading {
    const json_t *root;
    const char *name;
    tn_error *error;
} config_reading;

/* The first of these keys that is there and not null; NULL: none. */
static const json_t *config_find(const config_reading *it, const char *const *keys,
                                 const char **key) {
    for (; *keys != NULL; keys++) {
        const json_t *value = json_object_get(it->root, *keys);
        *key = *keys;
        if (value != NULL && !json_is_null(value)) return value;
    }
    return NULL;
}

/* A size of at least 1. Absent: an error when it is needed, else left alone. */
static tn_status config_size(const config_reading *it, const char *const *keys, bool needed,
                             uint64_t *size) {
    const char *key;
    const json_t *value = config_find(it, keys, &key);
    if (value == NULL && !needed) return TN_OK;
    if (value == NULL)
        TN_FAIL(it->error, TN_E_INVALID,
                "no \"%s\" (nor any other name of it); is this a transformer?", keys[0]);
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
    if (number < 1 || number > CONFIG_MOST)
        TN_FAIL(it->error, TN_E_INVALID, "\"%s\" must be a whole number from 1 to 2^40", key);
    *size = (uint64_t)number;
    return TN_OK;
}

static bool config_has(const config_reading *it, const char *key) {
    const json_t *value = json_object_get(it->root, key);
    return value != NULL && !json_is_null(value);
}

#define CONFIG_KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

static tn_status config_read(const config_reading *it, tn_large *large) {
    TN_TRY(config_size(it, CONFIG_KEYS("hidden_size", "n_embd", "d_model"), true, &large->hidden));
    TN_TRY(config_size(it, CONFIG_KEYS("num_hidden_layers", "n_layer", "num_layers"), true,
                       &large->layers));
    TN_TRY(config_size(it, CONFIG_KEYS("num_attention_heads", "n_head", "num_heads"), true,
                       &large->heads));
    TN_TRY(config_size(it, CONFIG_KEYS("vocab_size"), true, &large->vocabulary));
    TN_TRY(config_size(it, CONFIG_KEYS("num_key_value_heads"), false, &large->kv_heads));
    TN_TRY(config_size(it, CONFIG_KEYS("intermediate_size", "n_inner", "ffn_dim"), false,
                       &large->ffn));
    bool llama = config_has(it, "rms_norm_eps");
    uint64_t positions = 0;
    TN_TRY(config_size(
        it, CONFIG_KEYS("n_positions", "max_position_embeddings", "n_ctx", "max_sequence_length"),
        large->sequence == 0, &positions));
    if (large->sequence == 0) large->sequence = positions;
    large->positions = llama ? 0 : positions > 0 ? positions : large->sequence;
    large->gated = large->rms_norm = llama;
    TN_TRY(config_size(it, CONFIG_KEYS("type_vocab_size"), false, &large->types));
    const json_t *tied = json_object_get(it->root, "tie_word_embeddings");
    if (tied != NULL && !json_is_boolean(tied))
        TN_FAIL(it->error, TN_E_INVALID, "\"tie_word_embeddings\" must be true or false");
    large->untied = tied != NULL ? json_is_false(tied) : llama; /* the families' own defaults */
    if (!llama && positions > 0 && large->sequence > positions)
        TN_FAIL(it->error, TN_E_INVALID, "a sequence of %llu, but only %llu positions",
                (unsigned long long)large->sequence, (unsigned long long)positions);
    return TN_OK;
}

tn_status tn_large_config(const char *name, const void *bytes, size_t size,
                          const tn_context *context, tn_large *large, tn_error *error) {
    json_error_t problem;
    tn_large made = *large;
    (void)context; /* jansson keeps to its own allocator */
    json_t *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &problem);
    if (root == NULL) {
        tn_status status = tn__fail(error, TN_E_INVALID, "%s", problem.text);
        return tn__where(error, status, "%s:%d", name, problem.line);
    }
    config_reading it = {.root = root, .name = name, .error = error};
    tn_status status = json_is_object(root) ? config_read(&it, &made)
                                            : tn__fail(error, TN_E_INVALID, "it is no JSON object");
    json_decref(root);
    if (status != TN_OK) return tn__where(error, status, "%s", name);
    *large = made;
    return TN_OK;
}
#endif
