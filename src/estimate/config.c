/* config.c - the sizes of a transformer from a config.json of Hugging Face.
 *
 * Families name the same things differently: GPT-2 says n_embd, n_layer, n_head, n_positions, BERT
 * and LLaMA hidden_size, num_hidden_layers, num_attention_heads, max_position_embeddings. Every
 * name is looked for. What a family is made of - which products have a bias, whether positions are
 * learned - no key says: the table below does, by "model_type". A model_type that is not in it is
 * refused. Without one, rms_norm_eps tells LLaMA's kind from GPT-2's, type_vocab_size BERT's.
 */
#include <stdio.h>
#include <stdlib.h>

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
    if (number < 1 || number > CONFIG_MOST) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        tn_status status = tn__fail(it->error, TN_E_INVALID,
                                    "\"%s\": %.40s; it must be a whole number from 1 to 2^40", key,
                                    text != NULL ? text : "?");
        free(text);
        return status;
    }
    *size = (uint64_t)number;
    return TN_OK;
}

static bool config_has(const config_reading *it, const char *key) {
    const json_t *value = json_object_get(it->root, key);
    return value != NULL && !json_is_null(value);
}

#define CONFIG_KEYS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* --- families --- */

enum {                      /* of a family */
       ROTARY = 1,          /* no table of positions */
       GATED = 2,           /* and normalisation without shift, no bias: LLaMA's kind */
       UNTIED = 4,          /* unless a key says otherwise */
       QUERY_BIAS = 8,      /* but query, key and value have one */
       QUERY_NORM = 16,     /* query and key are normalised */
       NO_QUERY_BIAS = 32,  /* all but these have one */
       EMBEDDING_NORM = 64, /* another normalisation behind the embeddings */
       POOLED = 128,        /* a product of the first token at the end */
       POSITIONS_2 = 256    /* two positions more than the key says */
};

typedef struct config_family {
    const char *type;
    uint32_t traits;
} config_family;

static const config_family config_families[] = {
    {"bert", POOLED},
    {"bloom", ROTARY | EMBEDDING_NORM},
    {"distilbert", 0},
    {"gemma", GATED | ROTARY},
    {"gpt2", 0},
    {"gpt_bigcode", 0},
    {"gpt_neo", NO_QUERY_BIAS},
    {"gpt_neox", ROTARY | UNTIED},
    {"llama", GATED | ROTARY | UNTIED},
    {"mistral", GATED | ROTARY | UNTIED},
    {"opt", POSITIONS_2},
    {"phi3", GATED | ROTARY | UNTIED},
    {"qwen2", GATED | ROTARY | UNTIED | QUERY_BIAS},
    {"qwen3", GATED | ROTARY | UNTIED | QUERY_NORM},
    {"roberta", POOLED},
    {"starcoder2", ROTARY},
    {"xlm-roberta", POOLED},
};

static tn_status config_traits(const config_reading *it, uint32_t *traits) {
    const json_t *type = json_object_get(it->root, "model_type");
    if (type == NULL || json_is_null(type)) {
        *traits = config_has(it, "rms_norm_eps")      ? GATED | ROTARY | UNTIED
                  : config_has(it, "type_vocab_size") ? POOLED
                                                      : 0;
        return TN_OK;
    }
    const char *name = json_is_string(type) ? json_string_value(type) : "?";
    for (size_t i = 0; i < sizeof config_families / sizeof *config_families; i++)
        if (strcmp(config_families[i].type, name) == 0) {
            *traits = config_families[i].traits;
            return TN_OK;
        }
    char list[300] = "";
    for (size_t i = 0, used = 0; i < sizeof config_families / sizeof *config_families; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "",
                                 config_families[i].type);
    TN_FAIL(it->error, TN_E_INVALID, "what \"model_type\" %.60s is made of is not known here (%s)",
            name, list);
}

/* What none of the families has: parts that would be counted wrongly. */
static tn_status config_refuse(const config_reading *it, uint64_t hidden) {
    static const struct {
        const char *key, *why;
    } parts[] = {{"num_local_experts", "a mixture of experts"},
                 {"num_experts", "a mixture of experts"},
                 {"n_routed_experts", "a mixture of experts"},
                 {"is_encoder_decoder", "an encoder and a decoder"},
                 {"kv_lora_rank", "compressed keys and values"},
                 {"num_hidden_groups", "layers that share their parameters"},
                 {"relative_attention", "relative attention"}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const json_t *value = json_object_get(it->root, parts[i].key);
        if (json_is_true(value) || (json_is_integer(value) && json_integer_value(value) > 1))
            TN_FAIL(it->error, TN_E_UNSUPPORTED, "\"%s\" means %s, which is not counted here",
                    parts[i].key, parts[i].why);
    }
    const char *key;
    const json_t *width =
        config_find(it, CONFIG_KEYS("embedding_size", "word_embed_proj_dim"), &key);
    if (width != NULL && (uint64_t)json_integer_value(width) != hidden)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "\"%s\" is not the hidden size, which is not counted here", key);
    return TN_OK;
}

/* --- reading --- */

/* True, false, or as it is when the key is not there. */
static tn_status config_flag(const config_reading *it, const char *key, bool *flag) {
    const json_t *value = json_object_get(it->root, key);
    if (value == NULL || json_is_null(value)) return TN_OK;
    if (!json_is_boolean(value))
        TN_FAIL(it->error, TN_E_INVALID, "\"%s\" must be true or false", key);
    *flag = json_is_true(value);
    return TN_OK;
}

static tn_status config_sizes(const config_reading *it, bool gated, tn_large *large) {
    TN_TRY(config_size(it, CONFIG_KEYS("hidden_size", "n_embd", "d_model", "dim"), true,
                       &large->hidden));
    TN_TRY(config_size(it, CONFIG_KEYS("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
                       true, &large->layers));
    TN_TRY(config_size(it, CONFIG_KEYS("num_attention_heads", "n_head", "num_heads", "n_heads"),
                       true, &large->heads));
    TN_TRY(config_size(it, CONFIG_KEYS("vocab_size"), true, &large->vocabulary));
    TN_TRY(config_size(it, CONFIG_KEYS("num_key_value_heads"), false, &large->kv_heads));
    TN_TRY(config_size(it, CONFIG_KEYS("head_dim"), false, &large->head_size));
    TN_TRY(config_size(it, CONFIG_KEYS("intermediate_size", "n_inner", "ffn_dim", "hidden_dim"),
                       gated, &large->ffn));
    return config_size(it, CONFIG_KEYS("type_vocab_size"), false, &large->types);
}

static tn_status config_positions(const config_reading *it, uint32_t traits, tn_large *large) {
    uint64_t positions = 0;
    TN_TRY(config_size(it,
                       CONFIG_KEYS("n_positions", "max_position_embeddings", "n_ctx",
                                   "max_sequence_length", "seq_length"),
                       large->sequence == 0, &positions));
    if (large->sequence == 0) large->sequence = positions;
    large->positions = positions > 0 ? positions : large->sequence;
    if (traits & POSITIONS_2) large->positions += 2;
    if (traits & ROTARY) large->positions = 0;
    if (!(traits & ROTARY) && positions > 0 && large->sequence > positions)
        TN_FAIL(it->error, TN_E_INVALID, "a sequence of %llu, but only %llu positions",
                (unsigned long long)large->sequence, (unsigned long long)positions);
    return TN_OK;
}

/* Masks of dropout are kept unless every key about it says 0; LLaMA's kind has none by itself. */
static tn_status config_drops(const config_reading *it, uint32_t traits, bool *drops) {
    static const char *const keys[] = {"attention_dropout",
                                       "attn_pdrop",
                                       "attention_probs_dropout_prob",
                                       "hidden_dropout",
                                       "resid_pdrop",
                                       "hidden_dropout_prob",
                                       "dropout"};
    bool told = false, any = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = json_object_get(it->root, keys[i]);
        if (value == NULL || json_is_null(value)) continue;
        double share = json_is_number(value) ? json_number_value(value) : -1;
        if (!(share >= 0 && share <= 1))
            TN_FAIL(it->error, TN_E_INVALID, "\"%s\" must be a number from 0 to 1", keys[i]);
        told = true;
        any = any || share > 0;
    }
    *drops = told ? any : !(traits & GATED);
    return TN_OK;
}

static tn_status config_read(const config_reading *it, tn_large *large) {
    uint32_t traits = 0;
    TN_TRY(config_traits(it, &traits));
    TN_TRY(config_sizes(it, traits & GATED, large));
    TN_TRY(config_refuse(it, large->hidden));
    TN_TRY(config_positions(it, traits, large));
    large->gated = large->rms_norm = traits & GATED;
    bool attention_bias = !(traits & GATED), inner_bias = !(traits & GATED);
    TN_TRY(config_flag(it, "attention_bias", &attention_bias));
    TN_TRY(config_flag(it, "mlp_bias", &inner_bias));
    large->no_query_bias = (traits & NO_QUERY_BIAS) || !(attention_bias || (traits & QUERY_BIAS));
    large->no_output_bias = !attention_bias;
    large->no_inner_bias = !inner_bias;
    large->query_norm = traits & QUERY_NORM;
    large->embedding_norm = traits & EMBEDDING_NORM;
    large->pooled = traits & POOLED;
    bool drops = true;
    TN_TRY(config_drops(it, traits, &drops));
    large->no_dropout = !drops;
    bool tied = !(traits & UNTIED);
    TN_TRY(config_flag(it, "tie_word_embeddings", &tied));
    large->untied = !tied;
    bool single = false;
    TN_TRY(config_flag(it, "multi_query", &single));
    if (single) large->kv_heads = 1;
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
