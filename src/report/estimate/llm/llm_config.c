/* llm_config.c - reads a config.json of Hugging Face. Every field is used, refused, known to have
 * no effect on the estimate, or reported as unknown.
 *
 * Families name one size differently, so a size has a list of possible names. The fields of a text
 * model may be in an inner object ("text_config"), next to a "vision_config".
 */
#include <stdio.h>
#include <stdlib.h>

#include "report/estimate/llm/llm.h"

#ifdef TENURE_MINIMAL
tn_status tn_llm_config(const char *name, const void *bytes, size_t size, tn_llm *llm,
                        tn_error *error) {
    (void)bytes, (void)size, (void)llm;
    TN_FAIL(error, TN_E_UNSUPPORTED, "%s: this build reads no JSON", name);
}
#else

typedef struct config_reading {
    /* the document, and its object "text_config" if there is one, else the document */
    const json_t *root, *inner;
    tn__llm_reading *to;
    tn_llm *llm;
    tn_error *error;
} config_reading;

#define HAS(name) TN__LLM_TRAIT(name)
#define BIASES (HAS(QUERY_BIAS) | HAS(OUTPUT_BIAS) | HAS(INNER_BIAS))

/* --- values --- */

static const json_t *config_get(const config_reading *it, const char *key) {
    const tn__llm_family *family = it->to->family;
    if (family != NULL && tn__llm_is_foreign(key, family->type)) return NULL;
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

/* Returns whether the model has no attention. In such a model "num_heads" and "head_dim" describe a
 * state. */
static bool config_is_pure(const config_reading *it) { return (it->to->traits & HAS(PURE)) != 0; }

static const char *config_name(const config_reading *it, uint32_t field, const json_t **value) {
    for (uint32_t i = 0; i < 6 && it->to->family->own[i].name != NULL; i++) {
        if (it->to->family->own[i].field != field) continue;
        *value = config_get(it, it->to->family->own[i].name);
        if (*value != NULL) return it->to->family->own[i].name;
    }
    if (field <= TN__LLM_HEAD_SIZE && field >= TN__LLM_HEADS && config_is_pure(it)) return NULL;
    const char *const *names = tn__llm_fields[field].names;
    for (uint32_t i = 0; i < TN__LLM_NAMES && names[i] != NULL; i++) {
        *value = config_get(it, names[i]);
        if (*value != NULL) return names[i];
    }
    return NULL;
}

/* Returns whether a size must be at least 1 if the file states it. */
static bool config_is_basic(uint32_t field) {
    return field == TN__LLM_HIDDEN || field == TN__LLM_LAYERS || field == TN__LLM_HEADS ||
           field == TN__LLM_VOCABULARY;
}

/* Returns whether a file may state the size as a list with one number per layer. The largest number
 * is then used. */
static bool config_may_be_list(uint32_t field) {
    return field == TN__LLM_INNER || field == TN__LLM_EXPERT_INNER || field == TN__LLM_CHOSEN ||
           field == TN__LLM_EXPERTS || field == TN__LLM_SHARED || field == TN__LLM_SHARED_INNER;
}

/* Returns the number of a field, or -1 if it is invalid. false, [] and "auto" give 0, like the
 * number 0, and so does any string in the field of the pattern of windows. */
static json_int_t config_number(uint32_t field, const json_t *value) {
    if (json_is_integer(value)) return json_integer_value(value);
    bool automatic = json_is_string(value) &&
                     (strcmp(json_string_value(value), "auto") == 0 || field == TN__LLM_PATTERN);
    if (json_is_false(value) || automatic) return 0;
    if (!json_is_array(value)) return -1;
    json_int_t most = 0;
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        json_int_t number = json_is_integer(item) ? json_integer_value(item) : -1;
        if (number < 0) return -1;
        if (number > most) most = number;
    }
    return json_array_size(value) == 0 || config_may_be_list(field) ? most : -1;
}

/* Adds a note if a list has different numbers for different layers. Every layer is then counted
 * with the largest number, which is an upper bound. */
static void config_note_list(const config_reading *it, const char *name, const json_t *value) {
    for (size_t i = 1; i < json_array_size(value); i++)
        if (!json_equal(json_array_get(value, 0), json_array_get(value, i))) {
            snprintf(it->llm->note, sizeof it->llm->note,
                     "\"%.40s\" differs between layers; every layer is counted at the largest",
                     name);
            return;
        }
}

/* Adds a field to the list of those that are not read, unless the list is full. */
static bool config_name_unread(const config_reading *it, const char *key) {
    char *list = it->llm->unread;
    size_t used = strlen(list), room = sizeof it->llm->unread;
    bool fits = used + strlen(key) + 8 <= room;
    if (fits)
        snprintf(list + used, room - used, "%s%s", used > 0 ? ", " : "", key);
    else
        snprintf(list + used, room - used, ", ...");
    return fits;
}

/* Reports other names of a size that state another number. Which of the two is true is unknown.
 * Left out are the context length, which old files state several times, for different lengths, and
 * the inner width of a family with a name of its own for it. */
static void config_rivals(const config_reading *it, uint32_t field, json_int_t number) {
    const char *const *names = tn__llm_fields[field].names;
    bool named = field == TN__LLM_INNER && it->to->family->own[0].name != NULL;
    if (named || field == TN__LLM_POSITIONS) return;
    for (uint32_t i = 0; i < TN__LLM_NAMES && names[i] != NULL; i++) {
        const json_t *value = config_get(it, names[i]);
        bool own = false;
        for (uint32_t k = 0; k < 6 && it->to->family->own[k].name != NULL; k++)
            own = own || strcmp(it->to->family->own[k].name, names[i]) == 0;
        if (!own && json_is_integer(value) && json_integer_value(value) != number)
            config_name_unread(it, names[i]);
    }
}

static tn_status config_field(const config_reading *it, uint32_t field) {
    const json_t *value;
    const char *name = config_name(it, field, &value);
    uint64_t belongs = tn__llm_fields[field].belongs;
    if (name == NULL) return TN_OK;
    json_int_t number = config_number(field, value);
    json_int_t least = config_is_basic(field) ? 1 : 0;
    if (number < least || (uint64_t)number > TN__LLM_MOST)
        return config_nonsense(it, name, value, "a whole number from 1 to 2^40");
    it->to->size[field] = (uint64_t)number;
    bool own = belongs == 0 || (it->to->traits & belongs) != 0;
    for (uint32_t i = 0; i < 6 && it->to->family->own[i].name != NULL; i++)
        own = own || strcmp(it->to->family->own[i].name, name) == 0;
    if (own) {
        config_note_list(it, name, value);
        if (json_is_integer(value)) config_rivals(it, field, number);
        return TN_OK;
    }
    bool windows =
        field == TN__LLM_WINDOW || field == TN__LLM_PATTERN || field == TN__LLM_WINDOW_FROM;
    it->to->size[field] = 0;
    if (number <= 1 || windows ||
        (field == TN__LLM_PROJECTED && (uint64_t)number == it->to->size[TN__LLM_HIDDEN]))
        return TN_OK;
    TN_FAIL(it->error, TN_E_UNSUPPORTED,
            "\"%s\" is %lld, but a model_type %s is not known to have such a part; its parameters "
            "would be counted wrongly",
            name, (long long)number, it->llm->type);
}

static bool config_asks(uint64_t required, uint64_t traits) { return (required & traits) != 0; }

/* Reports all required sizes that are missing, in one message. */
static tn_status config_missing(const config_reading *it) {
    char list[360] = "";
    size_t used = 0;
    for (uint32_t field = 0; field < TN__LLM_FIELD_COUNT; field++) {
        uint64_t required = tn__llm_fields[field].required;
        bool needed = required == TN__LLM_ALL || config_asks(required, it->to->traits);
        bool later = (it->to->traits & HAS(KDA)) != 0 && field >= TN__LLM_LINEAR_KEYS &&
                     /* sizes that are in an object of their own in the file */
                     field <= TN__LLM_LINEAR_KERNEL;
        bool sparse = field == TN__LLM_INNER && (it->to->traits & HAS(NARROW)) != 0 &&
                      (it->to->traits & HAS(GEMMA4)) == 0 && it->to->size[TN__LLM_DENSE_FIRST] == 0;
        bool blocks = field == TN__LLM_INNER && it->to->family->blocks;
        if (later || sparse || blocks || (field == TN__LLM_HEADS && config_is_pure(it))) continue;
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

/* --- flags, and parts of a model --- */

static tn_status config_flag(const config_reading *it, size_t index) {
    const char *name = tn__llm_flags[index].name, *only = tn__llm_flags[index].only;
    const json_t *value = config_get(it, name);
    if (value == NULL || (only != NULL && !tn__llm_is_one_of(only, it->to->family->type)))
        return TN_OK;
    if (!json_is_boolean(value)) return config_nonsense(it, name, value, "true or false");
    uint64_t *traits = &it->to->traits, belongs = tn__llm_flags[index].belongs;
    uint64_t sets = tn__llm_flags[index].sets, clears = tn__llm_flags[index].clears;
    if ((*traits & HAS(QUERY_ASKED)) != 0 && (sets & HAS(QUERY_BIAS)) != 0)
        sets &= ~HAS(OUTPUT_BIAS);
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
        (json_is_array(value) && json_array_size(value) == 0) ||
        (json_is_object(value) && json_object_size(value) == 0);
    if (none) return TN_OK;
    TN_FAIL(it->error, TN_E_UNSUPPORTED, "\"%s\" means %s, which is not counted", name,
            tn__llm_parts[index].why);
}

/* Handles Falcon's two architectures. In the newer one several heads have keys and values, and the
 * two halves of a layer have normalisations of their own. */
static void config_falcon(const config_reading *it) {
    const json_t *later = config_get(it, "new_decoder_architecture");
    if ((it->to->traits & HAS(PARALLEL)) == 0) return;
    if (json_is_true(later)) {
        it->to->traits &= ~HAS(SINGLE);
        if (it->to->size[TN__LLM_PARALLEL_NORMS] != 1) it->to->traits &= ~HAS(ONE_NORM);
    } else if ((it->to->traits & HAS(SINGLE)) == 0)
        /* in the older architecture this means as many heads as queries have; the field is
         * ignored */
        it->to->size[TN__LLM_KV_HEADS] = 0;
}

static tn_status config_positions(const config_reading *it) {
    const char *kind = json_string_value(config_get(it, "position_embedding_type"));
    bool encoder = (it->to->traits & HAS(TYPED)) != 0;
    if (encoder && kind != NULL && strcmp(kind, "absolute") != 0)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "\"position_embedding_type\" %.40s is not counted here", kind);
    return TN_OK;
}

/* Counts the towers. If the parts of a tower are not known, the number of parameters is unknown,
 * but the cache is still known. */
static tn_status config_tower(const config_reading *it, const json_t *vision) {
    const json_t *audio = json_object_get(it->root, "audio_config");
    tn_error why;
    if (json_is_object(audio) && json_object_size(audio) > 0)
        snprintf(it->llm->uncounted, sizeof it->llm->uncounted, "the audio tower");
    /* a field that is null means that the model has no tower */
    if (json_is_null(vision)) return TN_OK;
    if (vision == NULL && it->to->wrapper->tower != TN__LLM_TOWER_OTHER)
        snprintf(it->llm->note, sizeof it->llm->note,
                 "there is no \"vision_config\"; the default tower of the class is counted");
    tn_status status = tn__llm_tower_count(it->to, vision, &why);
    if (status == TN_E_UNSUPPORTED)
        snprintf(it->llm->uncounted, sizeof it->llm->uncounted, "%.90s", why.message);
    else if (status != TN_OK)
        TN_FAIL(it->error, status, "%s", why.message);
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
    if (it->to->wrapper->tower != TN__LLM_TOWER_NONE) return config_tower(it, vision);
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

/* --- fields of the file that are not known --- */

/* Returns whether a known field describes a part that this family does not have: a tower next to a
 * model that has only text, or a field of another family that would make the estimate smaller. */
static bool config_is_stray(const config_reading *it, const char *key, const json_t *value) {
    bool tower = strcmp(key, "vision_config") == 0 || strcmp(key, "audio_config") == 0;
    bool text = it->to->wrapper->tower == TN__LLM_TOWER_NONE && (it->to->traits & HAS(SEES)) == 0;
    if (tower) return text && *it->llm->uncounted == '\0';
    bool none = json_is_false(value) || (json_is_integer(value) && json_integer_value(value) <= 1);
    return !none && tn__llm_is_foreign(key, it->to->family->type);
}

static void config_unread(const config_reading *it, const json_t *object) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        bool empty = json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0) ||
                     (json_is_object(value) && json_object_size(value) == 0);
        bool known = tn__llm_is_known(key) && !config_is_stray(it, key, value);
        if (!empty && !known && !config_name_unread(it, key)) return;
    }
}

/* Finds out whether training uses dropout. If no field about dropout is stated, it does, except in
 * families with a gated inner layer. */
static tn_status config_drops(const config_reading *it) {
    static const char *const keys[] = {"attention_dropout",
                                       "attn_pdrop",
                                       "attention_probs_dropout_prob",
                                       "hidden_dropout",
                                       "resid_pdrop",
                                       "hidden_dropout_prob",
                                       "dropout"};
    bool is_stated = false, any = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const json_t *value = config_get(it, keys[i]);
        if (value == NULL) continue;
        double share = json_is_number(value) ? json_number_value(value) : -1;
        if (!(share >= 0 && share <= 1))
            return config_nonsense(it, keys[i], value, "a number from 0 to 1");
        is_stated = true;
        any = any || share > 0;
    }
    it->to->drops = is_stated ? any : (it->to->traits & HAS(GATED)) == 0;
    return TN_OK;
}

/* --- the config.json as a whole --- */

/* Returns the family of a file without "model_type": a family like LLaMA, BERT or GPT-2, which are
 * recognised by their fields. */
static const char *config_guess(const config_reading *it) {
    it->llm->guessed = true;
    return config_get(it, "rms_norm_eps") != NULL      ? "llama"
           : config_get(it, "type_vocab_size") != NULL ? "bert"
                                                       : "gpt2";
}

/* Returns the family of the text model. A wrapper with towers has a text model of another family,
 * which the file names or the wrapper implies. */
static const tn__llm_family *config_text(const config_reading *it, const tn__llm_family *wrapper) {
    const char *type = json_string_value(json_object_get(it->inner, "model_type"));
    const tn__llm_family *text = NULL;
    if (wrapper->text == NULL) return wrapper;
    if (it->inner != it->root && type != NULL) text = tn__llm_family_find(type);
    if (text != NULL && text->text != NULL) text = tn__llm_family_find(text->text);
    return text != NULL ? text : tn__llm_family_find(wrapper->text);
}

static tn_status config_type(config_reading *it) {
    const json_t *type = json_object_get(it->root, "model_type");
    const char *name = json_is_string(type) ? json_string_value(type) : "?";
    if (type == NULL || json_is_null(type))
        name = config_guess(it);
    else if (!json_is_string(type))
        return config_nonsense(it, "model_type", type, "a string");
    const tn__llm_family *family = tn__llm_family_find(name);
    snprintf(it->llm->type, sizeof it->llm->type, "%.39s", name);
    /* If only the text model is of a known family, its cache is known, but the parameters of the
     * whole model are not. */
    const char *inner = json_string_value(json_object_get(it->inner, "model_type"));
    if (family == NULL && it->inner != it->root && inner != NULL) {
        family = tn__llm_family_find(inner);
        if (family != NULL)
            snprintf(it->llm->uncounted, sizeof it->llm->uncounted,
                     "the parts of model_type %.39s other than its text", name);
    }
    if (family == NULL)
        TN_FAIL(it->error, TN_E_UNKNOWN, "model_type \"%.60s\" is not supported", name);
    it->to->wrapper = family;
    it->to->family = config_text(it, family);
    it->to->traits = it->to->family->traits;
    return TN_OK;
}

/* Sets missing sizes to the defaults of the model's class. A window that the file states as null is
 * off and gets no default. */
static void config_otherwise(const config_reading *it) {
    for (uint32_t i = 0; i < 12 && it->to->family->otherwise[i].size > 0; i++) {
        uint32_t field = it->to->family->otherwise[i].field;
        const char *name = tn__llm_fields[field].names[0];
        const json_t *value;
        bool off = json_is_null(json_object_get(it->inner, name)) && field == TN__LLM_WINDOW;
        bool pure = field <= TN__LLM_HEAD_SIZE && field >= TN__LLM_HEADS && config_is_pure(it);
        if (off || pure || config_name(it, field, &value) != NULL) continue;
        it->to->size[field] = it->to->family->otherwise[i].size;
    }
}

/* Sets the number of layers to the length of a list or string with one entry per layer, if the file
 * does not state the number. */
static void config_layer_count(const config_reading *it) {
    const json_t *list = config_get(it, "layers_block_type");
    const json_t *text = config_get(it, "hybrid_override_pattern");
    uint64_t *layers = &it->to->size[TN__LLM_LAYERS];
    if (*layers > 0 || (it->to->traits & HAS(PARTS)) == 0) return;
    *layers = json_is_array(list) ? json_array_size(list) : json_string_length(text);
}

/* Reads flags and small objects that affect sizes. */
static void config_switches(const config_reading *it) {
    uint64_t *size = it->to->size;
    uint64_t experts = HAS(EXPERT) | HAS(NARROW) | HAS(CORRECTED);
    bool hybrid = (it->to->traits & TN__LLM_STATES) != 0;
    if (hybrid && (it->to->traits & HAS(EXPERT)) != 0 && size[TN__LLM_EXPERTS] <= 1) {
        it->to->traits &= ~experts; /* a model without experts in a family that usually has them */
        if ((it->to->traits & HAS(PARTS)) == 0 && size[TN__LLM_SHARED_INNER] > 0)
            size[TN__LLM_INNER] = size[TN__LLM_SHARED_INNER];
    }
    const json_t *shared = config_get(it, "shared_expert_intermediate_size");
    if (json_is_integer(shared) && json_integer_value(shared) == 0)
        it->to->traits &= ~HAS(SHARED_GATE);
    it->to->shares_keys = json_is_true(config_get(it, "attention_k_eq_v"));
    it->to->scaled_width = (it->to->traits & HAS(CONV)) != 0 &&
                           config_get(it, "block_ff_dim") != NULL &&
                           !json_is_false(config_get(it, "block_auto_adjust_ff_dim"));
    const json_t *ratio = config_get(it, "block_ffn_dim_multiplier");
    double width = json_is_number(ratio) ? json_number_value(ratio) : 1;
    if (!it->to->scaled_width || !(width > 0 && width < 1e6)) return;
    size[TN__LLM_INNER] = (uint64_t)((double)(2 * size[TN__LLM_INNER] / 3) * width);
    uint64_t multiple = size[TN__LLM_MULTIPLE] > 0 ? size[TN__LLM_MULTIPLE] : 1;
    uint64_t parts = size[TN__LLM_INNER] / multiple + (size[TN__LLM_INNER] % multiple != 0);
    size[TN__LLM_INNER] = tn__mul_sat(parts, multiple);
}

static void config_gated(const config_reading *it) {
    const char *how = json_string_value(config_get(it, "feed_forward_proj"));
    if ((it->to->traits & HAS(T5)) != 0 && how != NULL && strncmp(how, "gated-", 6) == 0)
        it->to->traits |= HAS(GATED);
}

/* Sets the number of classes of a classifier to the number of class names. */
static void config_labels(const config_reading *it) {
    const json_t *labels = config_get(it, "id2label");
    uint64_t *size = it->to->size;
    if ((it->to->traits & HAS(VIT)) != 0 && size[TN__LLM_LABELS] == 0)
        size[TN__LLM_LABELS] = json_is_object(labels) ? json_object_size(labels) : 0;
}

static tn_status config_read(config_reading *it) {
    static const char *const texts[] = {"text_config", "llm_config", "language_config"};
    it->inner = it->root;
    for (size_t i = 0; i < 3 && it->inner == it->root; i++) {
        const json_t *text = json_object_get(it->root, texts[i]);
        if (json_is_object(text)) it->inner = text;
    }
    TN_TRY(config_type(it));
    for (uint32_t field = 0; field < TN__LLM_FIELD_COUNT; field++) TN_TRY(config_field(it, field));
    for (size_t i = 0; tn__llm_flags[i].name != NULL; i++) TN_TRY(config_flag(it, i));
    for (size_t i = 0; tn__llm_parts[i].name != NULL; i++) TN_TRY(config_part(it, i));
    config_falcon(it);
    config_otherwise(it);
    config_layer_count(it);
    config_switches(it);
    config_gated(it);
    config_labels(it);
    TN_TRY(config_missing(it));
    TN_TRY(config_positions(it));
    TN_TRY(tn__llm_layers(it->to, it->inner, it->root, it->llm, it->error));
    TN_TRY(config_vision(it));
    TN_TRY(config_drops(it));
    TN_TRY(tn__llm_derive(it->to, it->error));
    config_unread(it, it->root);
    if (it->inner != it->root) config_unread(it, it->inner);
    it->llm->unproved = *it->llm->unread != '\0';
    TN_TRY(tn__llm_stored(it->root, it->inner, it->llm, it->error));
    return tn__llm_count(it->to, it->llm, it->error);
}

/* Replaces Infinity and NaN, which Python writes but which are not JSON, by numbers of equal
 * length. */
static void config_numbers(char *text, size_t size) {
    bool inside = false;
    for (size_t i = 0; i < size; i++) {
        if (inside && text[i] == '\\') {
            i++;
            continue;
        }
        if (text[i] == '"') inside = !inside;
        if (inside) continue;
        if (size - i >= 8 && memcmp(text + i, "Infinity", 8) == 0) memcpy(text + i, "1.0e+300", 8);
        if (size - i >= 3 && memcmp(text + i, "NaN", 3) == 0) memcpy(text + i, "0.0", 3);
    }
}

static json_t *config_parse(const void *bytes, size_t size, json_error_t *problem,
                            tn_status *status) {
    char *copy = malloc(size + 1);
    if (copy == NULL) {
        *problem = (json_error_t){.text = "out of memory"};
        *status = TN_E_NO_MEMORY;
        return NULL;
    }
    if (size > 0) memcpy(copy, bytes, size);
    config_numbers(copy, size);
    json_t *root = tn__json_parse(copy, size, problem, status);
    free(copy);
    return root;
}

tn_status tn_llm_config(const char *name, const void *bytes, size_t size, tn_llm *llm,
                        tn_error *error) {
    tn__llm_reading reading = {0};
    json_error_t problem;
    *llm = (tn_llm){0};
    tn_status status;
    json_t *root = config_parse(bytes, size, &problem, &status);
    if (root == NULL) {
        tn__fail(error, status, "%s", problem.text);
        return tn__where(error, status, "%s:%d", name, problem.line);
    }
    config_reading it = {.root = root, .to = &reading, .llm = llm, .error = error};
    status = json_is_object(root) ? config_read(&it)
                                  : tn__fail(error, TN_E_INVALID, "it is no JSON object");
    json_decref(root);
    return status == TN_OK ? TN_OK : tn__where(error, status, "%s", name);
}
#endif
