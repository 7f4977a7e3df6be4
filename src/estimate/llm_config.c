/* llm_config.c - a config.json of Hugging Face: every field is read, refused, known to change
 * nothing here, or named as not known.
 *
 * Families name the same things differently, so a size has several names. Text may be an object of
 * its own inside ("text_config"), where "vision_config" stands beside it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "estimate/llm.h"

#ifdef TENURE_MINIMAL
tn_status tn_llm_config(const char *name, const void *bytes, size_t size, tn_llm *llm,
                        tn_error *error) {
    (void)bytes, (void)size, (void)llm;
    TN_FAIL(error, TN_E_UNSUPPORTED, "%s: this build reads no JSON", name);
}
#else

typedef struct config_reading {
    const json_t *root, *inner; /* the same, or "text_config" of the first */
    tn__llm_reading *to;
    tn_llm *llm;
    tn_error *error;
} config_reading;

#define HAS(name) TN__LLM_TRAIT(name)
#define BIASES (HAS(QUERY_BIAS) | HAS(OUTPUT_BIAS) | HAS(INNER_BIAS))

/* --- values --- */

static const json_t *config_get(const config_reading *it, const char *key) {
    const json_t *value = json_object_get(it->inner, key);
    if (value == NULL) value = json_object_get(it->root, key);
    return value != NULL && !json_is_null(value) ? value : NULL;
}

static tn_status config_nonsense(const config_reading *it, const char *key, const json_t *value,
                                 const char *must) {
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    tn_status status = tn__fail(it->error, TN_E_INVALID, "\"%s\": %.40s; it must be %s", key,
                                text != NULL ? text : "?", must);
    free(text);
    return status;
}

static const char *config_name(const config_reading *it, uint32_t field, const json_t **value) {
    const char *const *names = tn__llm_fields[field].names;
    for (uint32_t i = 0; i < TN__LLM_NAMES && names[i] != NULL; i++) {
        *value = config_get(it, names[i]);
        if (*value != NULL) return names[i];
    }
    return NULL;
}

/* A size that may be 0 means that there is none of it. */
static bool config_may_be_none(uint32_t field) {
    return field == TN__LLM_DENSE_FIRST || field == TN__LLM_SHARED || field == TN__LLM_FURTHER ||
           field == TN__LLM_EXPERTS || field == TN__LLM_CHOSEN || field == TN__LLM_TYPES ||
           field == TN__LLM_WINDOW_FROM;
}

static tn_status config_field(const config_reading *it, uint32_t field) {
    const json_t *value;
    const char *name = config_name(it, field, &value);
    uint64_t belongs = tn__llm_fields[field].belongs;
    if (name == NULL) return TN_OK;
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : -1;
    json_int_t least = config_may_be_none(field) ? 0 : 1;
    if (number < least || (uint64_t)number > TN__LLM_MOST)
        return config_nonsense(it, name, value, "a whole number from 1 to 2^40");
    it->to->size[field] = (uint64_t)number;
    if (belongs == 0 || (it->to->traits & belongs) != 0) return TN_OK;
    bool windows =
        field == TN__LLM_WINDOW || field == TN__LLM_PATTERN || field == TN__LLM_WINDOW_FROM;
    it->to->size[field] = 0;
    if (number <= 1 || windows ||
        (field == TN__LLM_PROJECTED && (uint64_t)number == it->to->size[TN__LLM_HIDDEN]))
        return TN_OK;
    TN_FAIL(it->error, TN_E_UNSUPPORTED,
            "\"%s\" is %lld, but nothing of model_type %s, as it is known here, follows from it; "
            "parameters would be counted wrongly",
            name, (long long)number, it->llm->type);
}

static bool config_asks(uint64_t required, uint64_t traits) { return (required & traits) != 0; }

/* All that are missing, at once. */
static tn_status config_missing(const config_reading *it) {
    char list[360] = "";
    size_t used = 0;
    for (uint32_t field = 0; field < TN__LLM_FIELD_COUNT; field++) {
        uint64_t required = tn__llm_fields[field].required;
        bool needed = required == TN__LLM_ALL || config_asks(required, it->to->traits);
        if (!needed || it->to->size[field] > 0) continue;
        const char *const *names = tn__llm_fields[field].names;
        if (used + 60 >= sizeof list) break;
        used += (size_t)snprintf(list + used, sizeof list - used, "%s\"%s\"", used > 0 ? ", " : "",
                                 names[0]);
        for (uint32_t i = 1; i < 3 && names[i] != NULL && used + 30 < sizeof list; i++)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%s%s", i == 1 ? " (or " : ", ",
                                 names[i], i == 2 || names[i + 1] == NULL ? ")" : "");
    }
    if (used == 0) return TN_OK;
    TN_FAIL(it->error, TN_E_INVALID, "model_type %s%s needs %s; is this a transformer?",
            it->llm->type, it->llm->guessed ? " (guessed: the file has none)" : "", list);
}

/* --- flags, parts --- */

static tn_status config_flag(const config_reading *it, size_t index) {
    const char *name = tn__llm_flags[index].name;
    const json_t *value = config_get(it, name);
    if (value == NULL) return TN_OK;
    if (!json_is_boolean(value)) return config_nonsense(it, name, value, "true or false");
    uint64_t *traits = &it->to->traits, belongs = tn__llm_flags[index].belongs;
    uint64_t sets = tn__llm_flags[index].sets, clears = tn__llm_flags[index].clears;
    bool alone = (*traits & HAS(QUERY_ALONE)) != 0 && (sets & HAS(QUERY_BIAS)) != 0;
    if ((belongs != 0 && (*traits & belongs) == 0) || alone) return TN_OK;
    bool on = json_is_true(value);
    bool biased = (sets & BIASES) != 0, mixed = (*traits & (HAS(MLA) | HAS(EXPERT))) != 0;
    if (on && biased && ((*traits & HAS(MLA)) != 0 || (mixed && (sets & HAS(INNER_BIAS)) != 0)))
        TN_FAIL(it->error, TN_E_UNSUPPORTED, "\"%s\": biases that are not known of model_type %s",
                name, it->llm->type);
    *traits = on ? (*traits | sets) & ~clears : (*traits & ~sets) | clears;
    return TN_OK;
}

static tn_status config_part(const config_reading *it, size_t index) {
    const char *name = tn__llm_parts[index].name;
    const json_t *value = config_get(it, name);
    if (value == NULL || (it->to->traits & tn__llm_parts[index].unless) != 0) return TN_OK;
    bool none =
        json_is_false(value) ||
        (json_is_integer(value) && json_integer_value(value) <= tn__llm_parts[index].most) ||
        (json_is_array(value) && json_array_size(value) == 0);
    if (none) return TN_OK;
    TN_FAIL(it->error, TN_E_UNSUPPORTED, "\"%s\" means %s, which is not counted here", name,
            tn__llm_parts[index].why);
}

/* Falcon's later models: keys and values of several heads, two normalisations side by side. */
static void config_falcon(const config_reading *it) {
    const json_t *later = config_get(it, "new_decoder_architecture");
    if ((it->to->traits & HAS(PARALLEL)) == 0) return;
    if (json_is_true(later)) {
        it->to->traits &= ~HAS(SINGLE);
        if (it->to->size[TN__LLM_PARALLEL_NORMS] != 1) it->to->traits &= ~HAS(ONE_NORM);
    } else if ((it->to->traits & HAS(SINGLE)) == 0)
        it->to->size[TN__LLM_KV_HEADS] = 0; /* as many as of queries, whatever the field says */
}

static tn_status config_positions(const config_reading *it) {
    const char *kind = json_string_value(config_get(it, "position_embedding_type"));
    bool encoder = (it->to->traits & HAS(TYPED)) != 0;
    if (encoder && kind != NULL && strcmp(kind, "absolute") != 0)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "\"position_embedding_type\" %.40s is not counted here", kind);
    return TN_OK;
}

/* "layer_types": of each layer, whether it looks at all tokens. */
static tn_status config_layers(const config_reading *it) {
    const json_t *list = config_get(it, "layer_types");
    size_t i;
    json_t *layer;
    if (list == NULL) return TN_OK;
    if (json_array_size(list) != it->to->size[TN__LLM_LAYERS])
        TN_FAIL(it->error, TN_E_INVALID,
                "\"layer_types\" is no list of as many layers as there are");
    json_array_foreach(list, i, layer) {
        const char *kind = json_is_string(layer) ? json_string_value(layer) : "?";
        if (strcmp(kind, "sliding_attention") == 0)
            it->to->window_layers++;
        else if (strcmp(kind, "full_attention") != 0)
            TN_FAIL(it->error, TN_E_UNSUPPORTED, "\"layer_types\": %.40s is not counted here",
                    kind);
    }
    it->to->listed = true;
    return TN_OK;
}

static tn_status config_vision(const config_reading *it) {
    static const struct {
        const char *name;
        tn__llm_size to;
    } sizes[] = {{"hidden_size", TN__LLM_VISION},
                 {"intermediate_size", TN__LLM_VISION_INNER},
                 {"num_hidden_layers", TN__LLM_ONE},
                 {"image_size", TN__LLM_PATCHES},
                 {"patch_size", TN__LLM_VISION_PATCH}};
    const json_t *vision = json_object_get(it->root, "vision_config");
    uint64_t found[5], *size = it->to->size;
    if ((it->to->traits & HAS(SEES)) == 0) return TN_OK;
    for (size_t i = 0; i < 5; i++) {
        const json_t *value = json_object_get(vision, sizes[i].name);
        json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
        if (number < 1 || number > 1 << 24)
            TN_FAIL(it->error, TN_E_INVALID, "\"vision_config\" needs \"%s\"", sizes[i].name);
        found[i] = (uint64_t)number;
    }
    if (json_is_true(json_object_get(vision, "vision_use_head")))
        TN_FAIL(it->error, TN_E_UNSUPPORTED, "\"vision_use_head\" is not counted here");
    uint64_t side = found[3] / found[4];
    size[TN__LLM_VISION] = found[0];
    size[TN__LLM_VISION_INNER] = found[1];
    it->to->vision_layers = found[2];
    size[TN__LLM_VISION_PATCHES] = tn__mul_sat(side, side);
    size[TN__LLM_VISION_PATCH] = tn__mul_sat(3, tn__mul_sat(found[4], found[4]));
    return TN_OK;
}

/* --- what nobody knows --- */

static void config_unread(const config_reading *it, const json_t *object) {
    char *list = it->llm->unread;
    size_t used = strlen(list), room = sizeof it->llm->unread;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        bool empty = json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0) ||
                     (json_is_object(value) && json_object_size(value) == 0);
        if (empty || tn__llm_is_known(key)) continue;
        if (used + strlen(key) + 8 > room) {
            snprintf(list + used, room - used, ", ...");
            return;
        }
        used += (size_t)snprintf(list + used, room - used, "%s%s", used > 0 ? ", " : "", key);
    }
}

/* Masks of dropout are kept by training unless every key about it says 0. */
static tn_status config_drops(const config_reading *it) {
    static const char *const keys[] = {"attention_dropout",
                                       "attn_pdrop",
                                       "attention_probs_dropout_prob",
                                       "hidden_dropout",
                                       "resid_pdrop",
                                       "hidden_dropout_prob",
                                       "dropout"};
    bool told = false, any = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = config_get(it, keys[i]);
        if (value == NULL) continue;
        double share = json_is_number(value) ? json_number_value(value) : -1;
        if (!(share >= 0 && share <= 1))
            return config_nonsense(it, keys[i], value, "a number from 0 to 1");
        told = true;
        any = any || share > 0;
    }
    it->to->drops = told ? any : (it->to->traits & HAS(GATED)) == 0;
    return TN_OK;
}

/* --- all of it --- */

/* Without a "model_type" the keys tell LLaMA's kind, BERT's and GPT-2's. */
static const char *config_guess(const config_reading *it) {
    it->llm->guessed = true;
    return config_get(it, "rms_norm_eps") != NULL      ? "llama"
           : config_get(it, "type_vocab_size") != NULL ? "bert"
                                                       : "gpt2";
}

static tn_status config_type(config_reading *it) {
    const json_t *type = json_object_get(it->root, "model_type");
    const char *name = json_is_string(type) ? json_string_value(type) : "?";
    if (type == NULL || json_is_null(type)) name = config_guess(it);
    it->to->family = tn__llm_family_find(name);
    snprintf(it->llm->type, sizeof it->llm->type, "%.39s", name);
    if (it->to->family == NULL) {
        char list[400] = "";
        for (uint32_t i = 0, used = 0; tn_llm_family(i) != NULL; i++)
            used += (uint32_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "",
                                       tn_llm_family(i));
        TN_FAIL(it->error, TN_E_INVALID,
                "what \"model_type\" %.60s is made of is not known here; a file of its weights "
                "(.safetensors, .gguf) tells. Known are %s",
                name, list);
    }
    it->to->traits = it->to->family->traits;
    return TN_OK;
}

/* What the class says where the file has no such field. One that is null is off. */
static void config_otherwise(const config_reading *it) {
    for (uint32_t i = 0; i < 8 && it->to->family->otherwise[i].size > 0; i++) {
        uint32_t field = it->to->family->otherwise[i].field;
        const char *name = tn__llm_fields[field].names[0];
        bool off = json_is_null(json_object_get(it->inner, name));
        if (it->to->size[field] == 0 && !(off && field == TN__LLM_WINDOW))
            it->to->size[field] = it->to->family->otherwise[i].size;
    }
}

static void config_gated(const config_reading *it) {
    const char *how = json_string_value(config_get(it, "feed_forward_proj"));
    if ((it->to->traits & HAS(T5)) != 0 && how != NULL && strncmp(how, "gated-", 6) == 0)
        it->to->traits |= HAS(GATED);
}

/* Of a classifier: as many names as it tells apart. */
static void config_labels(const config_reading *it) {
    const json_t *labels = config_get(it, "id2label");
    uint64_t *size = it->to->size;
    if ((it->to->traits & HAS(VIT)) != 0 && size[TN__LLM_LABELS] == 0)
        size[TN__LLM_LABELS] = json_is_object(labels) ? json_object_size(labels) : 0;
}

static tn_status config_read(config_reading *it) {
    const json_t *text = json_object_get(it->root, "text_config");
    it->inner = json_is_object(text) ? text : it->root;
    TN_TRY(config_type(it));
    for (uint32_t field = 0; field < TN__LLM_FIELD_COUNT; field++) TN_TRY(config_field(it, field));
    for (size_t i = 0; tn__llm_flags[i].name != NULL; i++) TN_TRY(config_flag(it, i));
    for (size_t i = 0; tn__llm_parts[i].name != NULL; i++) TN_TRY(config_part(it, i));
    config_falcon(it);
    config_otherwise(it);
    config_gated(it);
    config_labels(it);
    TN_TRY(config_missing(it));
    TN_TRY(config_positions(it));
    TN_TRY(config_layers(it));
    TN_TRY(config_vision(it));
    TN_TRY(config_drops(it));
    TN_TRY(tn__llm_derive(it->to, it->error));
    config_unread(it, it->root);
    if (it->inner != it->root) config_unread(it, it->inner);
    TN_TRY(tn__llm_stored(it->root, it->inner, it->llm, it->error));
    return tn__llm_count(it->to, it->llm, it->error);
}

tn_status tn__llm_config_read(const char *name, const void *bytes, size_t size,
                              tn__llm_reading *reading, tn_llm *llm, tn_error *error) {
    json_error_t problem;
    *llm = (tn_llm){0};
    *reading = (tn__llm_reading){0};
    tn_status status;
    json_t *root = tn__json_parse(bytes, size, &problem, &status);
    if (root == NULL) {
        tn__fail(error, status, "%s", problem.text);
        return tn__where(error, status, "%s:%d", name, problem.line);
    }
    config_reading it = {.root = root, .to = reading, .llm = llm, .error = error};
    status = json_is_object(root) ? config_read(&it)
                                  : tn__fail(error, TN_E_INVALID, "it is no JSON object");
    json_decref(root);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%s", name);
}

tn_status tn_llm_config(const char *name, const void *bytes, size_t size, tn_llm *llm,
                        tn_error *error) {
    tn__llm_reading reading;
    return tn__llm_config_read(name, bytes, size, &reading, llm, error);
}
#endif
