/* llm_schemes.c - quantisation schemes, and llama.cpp's mixes of storage types: which matrices they
 * quantise, and how many bytes these take.
 *
 * The matrix products of layers are quantised. Embeddings, the output matrix, the router,
 * normalisations and biases are not. The scales take these bits: GPTQ and AWQ have a 16-bit scale
 * per group, and a zero point with as many bits as a weight. GPTQ also has a 32-bit number per
 * input. NF4 has a 32-bit scale per 64 weights, or an 8-bit scale and 32 bits per 256 of these
 * scales. LLM.int8 has a 32-bit scale per row. DeepSeek's 8-bit weights have a 32-bit scale per
 * tile of 128 x 128. MXFP4 has an 8-bit scale per 32 weights.
 */
#include "report/estimate/llm/llm.h"

#include <stdio.h>
#include <strings.h>

/* --- llama.cpp's mixes ------------------------------------------------------------------------ */

/* Llama.cpp's mixes: the storage type of each tensor in a .gguf file.
 *
 * Vectors, the router and tables of positions are stored in 32 bits. For the other tensors each mix
 * has a main type. It has other types for the tensors that lose most from quantisation, in some or
 * all layers: the output matrix, the matrix of values and the down projection. If a row is not a
 * whole number of blocks, a type of smaller blocks is used. Source: the rules of llama-quant.cpp
 * without an importance matrix. tests/estimate/test_llm.c has the published sizes.
 */

typedef enum mix_when {
    NEVER,
    ALWAYS,
    /* the rule applies to the first and the last eighth of the layers, and to every third layer in
     * between */
    MORE,
    FIRST_4, /* the rule applies to the first four layers */
    EIGHTH,  /* the rule applies to the first eighth of the layers */
    SHARED   /* the rule applies if at least four heads of queries share one head of values */
} mix_when;

/* Stands for a layer of unknown number. Every rule that may apply to some layer is applied, which
 * gives an upper bound of the bytes. */
#define MIX_ANY UINT64_MAX

typedef struct mix_rule {
    tn_weight_type type;
    mix_when when;
} mix_rule;

typedef struct mix_row {
    const char *name;
    tn_weight_type type, head;
    /* rules for the matrix of values, the down projection and the output of attention */
    mix_rule value, down, output;
    tn_weight_type otherwise; /* type of the matrix of values if its rule does not apply */
    /* true: a mix of 2 to 4 bits, which has further rules for models with 8 experts or 80 layers */
    bool few;
    tn_weight_type experts;
} mix_row;

#define TYPE(name) TN_WEIGHT_##name
#define NO                                                                                         \
    { TYPE(F32), NEVER }

static const mix_row mix_rows[] = {
    {"q8_0", TYPE(Q8_0), TYPE(Q8_0), NO, NO, NO, TYPE(Q8_0), false, TYPE(Q8_0)},
    {"q6_k", TYPE(Q6_K), TYPE(Q6_K), NO, NO, NO, TYPE(Q6_K), false, TYPE(Q6_K)},
    {"q5_k_m",
     TYPE(Q5_K),
     TYPE(Q6_K),
     {TYPE(Q6_K), MORE},
     {TYPE(Q6_K), MORE},
     NO,
     TYPE(Q5_K),
     false,
     TYPE(Q5_K)},
    {"q5_k_s", TYPE(Q5_K), TYPE(Q6_K), NO, NO, NO, TYPE(Q5_K), false, TYPE(Q5_K)},
    {"q4_k_m",
     TYPE(Q4_K),
     TYPE(Q6_K),
     {TYPE(Q6_K), MORE},
     {TYPE(Q6_K), MORE},
     NO,
     TYPE(Q4_K),
     true,
     TYPE(Q4_K)},
    {"q4_k_s",
     TYPE(Q4_K),
     TYPE(Q6_K),
     {TYPE(Q5_K), FIRST_4},
     {TYPE(Q5_K), EIGHTH},
     NO,
     TYPE(Q4_K),
     true,
     TYPE(Q4_K)},
    {"iq4_xs",
     TYPE(IQ4_XS),
     TYPE(Q6_K),
     {TYPE(Q5_K), SHARED},
     {TYPE(Q5_K), EIGHTH},
     NO,
     TYPE(IQ4_XS),
     true,
     TYPE(IQ4_XS)},
    {"q3_k_l",
     TYPE(Q3_K),
     TYPE(Q6_K),
     {TYPE(Q5_K), ALWAYS},
     {TYPE(Q5_K), ALWAYS},
     {TYPE(Q5_K), ALWAYS},
     TYPE(Q3_K),
     true,
     TYPE(Q3_K)},
    {"q3_k_s", TYPE(Q3_K), TYPE(Q6_K), NO, NO, NO, TYPE(Q3_K), true, TYPE(Q3_K)},
    {"q2_k",
     TYPE(Q2_K),
     TYPE(Q6_K),
     {TYPE(Q4_K), SHARED},
     {TYPE(Q3_K), ALWAYS},
     {TYPE(Q3_K), ALWAYS},
     TYPE(Q3_K),
     true,
     TYPE(Q2_K)},
    {"mxfp4_moe", TYPE(Q8_0), TYPE(Q8_0), NO, NO, NO, TYPE(Q8_0), false, TYPE(MXFP4)},
};

static uint32_t llm_mix_find(const char *name) {
    for (uint32_t i = 0; i < sizeof mix_rows / sizeof *mix_rows; i++)
        if (strcasecmp(mix_rows[i].name, name) == 0) return i;
    return TN__LLM_MIX_NONE;
}

/* Returns the name of a mix of weight types, or NULL if no mix has this number. */
static const char *llm_mix_name(uint32_t mix) {
    return mix < sizeof mix_rows / sizeof *mix_rows ? mix_rows[mix].name : NULL;
}

static bool mix_holds(const tn_llm *llm, mix_when when, uint64_t layer) {
    uint64_t layers = llm->model.layers;
    switch (when) {
    case ALWAYS:
        return true;
    case MORE:
        return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
    case FIRST_4:
        return layer < 4;
    case EIGHTH:
        return layer < layers / 8;
    case SHARED:
        return llm->model.kv_heads > 0 && llm->model.heads / llm->model.kv_heads >= 4;
    default:
        return false;
    }
}

static tn_weight_type mix_of(const tn_llm *llm, mix_rule rule, uint64_t layer,
                             tn_weight_type otherwise) {
    if (layer == MIX_ANY) return rule.when != NEVER ? rule.type : otherwise;
    return mix_holds(llm, rule.when, layer) ? rule.type : otherwise;
}

static tn_weight_type mix_value(const tn_llm *llm, const mix_row *mix, uint64_t layer) {
    tn_weight_type type = mix_of(llm, mix->value, layer, mix->otherwise);
    if (!mix->few) return type;
    if (llm->model.layers == 80 && (type == TYPE(Q3_K) || type == TYPE(Q4_K))) type = TYPE(Q5_K);
    return llm->experts == 8 ? TYPE(Q8_0) : type;
}

static bool mix_is(const tn_llm_weight *weight, const char *name) {
    return strcmp(weight->name, name) == 0;
}

static bool mix_is_tied(const tn_llm *llm) {
    for (uint32_t i = 0; i < llm->weight_count; i++)
        if (llm->weights[i].role == TN_LLM_HEAD) return false;
    return true;
}

/* Returns whether any mix stores the matrix in different types in different layers. */
static bool llm_mix_varies(const tn_llm_weight *weight) {
    return !weight->scattered && (mix_is(weight, "v_proj") || mix_is(weight, "kv_b_proj") ||
                                  mix_is(weight, "o_proj") || mix_is(weight, "down_proj"));
}

static tn_weight_type mix_type(const tn_llm *llm, const tn_llm_weight *weight, const mix_row *mix,
                               uint64_t layer) {
    bool product = weight->role == TN_LLM_ATTENTION || weight->role == TN_LLM_INNER ||
                   weight->role == TN_LLM_EXPERTS;
    if (weight->role == TN_LLM_HEAD) return mix->head;
    if (weight->role == TN_LLM_EMBEDDING) return mix_is_tied(llm) ? mix->head : mix->type;
    if (weight->role == TN_LLM_VISION) return TYPE(F16);
    if (!product) return TYPE(F32);
    bool eight = mix->few && llm->experts == 8;
    if (mix_is(weight, "v_proj") || mix_is(weight, "kv_b_proj")) return mix_value(llm, mix, layer);
    if (mix_is(weight, "k_proj") && eight) return TYPE(Q8_0);
    if (mix_is(weight, "o_proj"))
        return eight ? TYPE(Q5_K) : mix_of(llm, mix->output, layer, mix->type);
    tn_weight_type base = weight->role == TN_LLM_EXPERTS ? mix->experts : mix->type;
    return mix_is(weight, "down_proj") ? mix_of(llm, mix->down, layer, base) : base;
}

/* Returns `type`, or a type of smaller blocks if a row is not a whole number of blocks. */
static tn_weight_type mix_fitting(tn_weight_type type, uint64_t columns) {
    if (columns % tn_weight_type_block(type) == 0) return type;
    switch (type) {
    case TYPE(Q4_K):
        type = TYPE(Q5_0);
        break;
    case TYPE(Q5_K):
        type = TYPE(Q5_1);
        break;
    case TYPE(Q6_K):
        type = TYPE(Q8_0);
        break;
    case TYPE(IQ4_XS):
        type = TYPE(IQ4_NL);
        break;
    default:
        type = TYPE(Q4_0);
    }
    return columns % tn_weight_type_block(type) == 0 ? type : TYPE(F16);
}

/* Returns the bytes of a matrix in layer `layer` if it is stored by a mix. */
static uint64_t llm_mix_bytes(const tn_llm *llm, const tn_llm_weight *weight, uint32_t mix,
                              uint64_t layer) {
    if (weight->scattered) layer = MIX_ANY;
    tn_weight_type type = mix_type(llm, weight, &mix_rows[mix], layer);
    return tn_weight_type_bytes(mix_fitting(type, weight->columns), weight->rows, weight->columns);
}

/* --- schemes ---------------------------------------------------------------------------------- */

static const tn_llm_scheme schemes_table[] = {
    {TN_PACK_PLAIN, TN_WEIGHT_F32, .name = "f32"},
    {TN_PACK_PLAIN, TN_WEIGHT_F16, .name = "f16"},
    {TN_PACK_PLAIN, TN_WEIGHT_BF16, .name = "bf16"},
    {TN_PACK_TILES, TN_WEIGHT_BF16, .name = "f8"},
    {TN_PACK_ROWS, TN_WEIGHT_BF16, .name = "int8"},
    {TN_PACK_GROUPS, TN_WEIGHT_BF16, .bits = 4, .group = 128, .group_bits = 20, .name = "int4"},
    {TN_PACK_GROUPS, TN_WEIGHT_BF16, .bits = 4, .group = 64, .group_bits = 32, .name = "nf4"},
    {TN_PACK_GROUPS, TN_WEIGHT_F16, .bits = 4, .group = 128, .group_bits = 20, .input_bits = 32,
     .name = "gptq"},
    {TN_PACK_GROUPS, TN_WEIGHT_F16, .bits = 4, .group = 128, .group_bits = 20, .name = "awq"},
    {TN_PACK_EXPERTS, TN_WEIGHT_BF16, .name = "mxfp4"},
};
#define SCHEMES_COUNT (sizeof schemes_table / sizeof *schemes_table)

tn_status tn_llm_scheme_find(const char *name, tn_llm_scheme *scheme, tn_error *error) {
    for (size_t i = 0; i < SCHEMES_COUNT; i++)
        if (strcasecmp(schemes_table[i].name, name) == 0) {
            *scheme = schemes_table[i];
            return TN_OK;
        }
    uint32_t mix = llm_mix_find(name);
    if (mix != TN__LLM_MIX_NONE) {
        *scheme = (tn_llm_scheme){.packing = TN_PACK_MIX, .type = TN_WEIGHT_F32, .mix = mix};
        snprintf(scheme->name, sizeof scheme->name, "%s", llm_mix_name(mix));
        return TN_OK;
    }
    char list[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < SCHEMES_COUNT; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s, ", schemes_table[i].name);
    for (uint32_t i = 0; llm_mix_name(i) != NULL && used + 24 < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "",
                                 llm_mix_name(i));
    TN_FAIL(error, TN_E_UNKNOWN, "weights are not stored as '%.40s'; known are %s", name, list);
}

/* --- bytes --- */

static bool schemes_is_product(const tn_llm_weight *weight) {
    return weight->role == TN_LLM_ATTENTION || weight->role == TN_LLM_INNER ||
           weight->role == TN_LLM_EXPERTS;
}

static uint64_t schemes_part(uint64_t count, uint64_t of) { return count / of + (count % of != 0); }

static uint64_t schemes_groups(const tn_llm_scheme *scheme, uint64_t rows, uint64_t columns) {
    uint64_t elements = tn__mul_sat(rows, columns);
    uint64_t bits = tn__mul_sat(elements, scheme->bits);
    uint64_t groups = tn__mul_sat(rows, schemes_part(columns, scheme->group));
    bits = tn__add_sat(bits, tn__mul_sat(groups, scheme->group_bits));
    if (scheme->outer > 0)
        bits =
            tn__add_sat(bits, tn__mul_sat(schemes_part(groups, scheme->outer), scheme->outer_bits));
    bits = tn__add_sat(bits, tn__mul_sat(columns, scheme->input_bits));
    return bits == UINT64_MAX ? bits : schemes_part(bits, 8);
}

static uint64_t schemes_tiles(uint64_t rows, uint64_t columns) {
    uint64_t tiles = tn__mul_sat(schemes_part(rows, 128), schemes_part(columns, 128));
    return tn__add_sat(tn__mul_sat(rows, columns), tn__mul_sat(4, tiles));
}

/* Returns the bytes of one matrix that is stored by a scheme other than a mix. */
static uint64_t schemes_one(const tn_llm_weight *weight, const tn_llm_scheme *scheme) {
    uint64_t rows = weight->rows, columns = weight->columns;
    bool product = schemes_is_product(weight);
    uint64_t plain = tn_weight_type_bytes(scheme->type, rows, columns);
    switch (scheme->packing) {
    case TN_PACK_GROUPS:
        return product ? schemes_groups(scheme, rows, columns) : plain;
    case TN_PACK_ROWS:
        return product ? tn__add_sat(tn__mul_sat(rows, columns), tn__mul_sat(4, rows)) : plain;
    case TN_PACK_TILES:
        return product ? schemes_tiles(rows, columns) : plain;
    case TN_PACK_EXPERTS:
        return weight->role == TN_LLM_EXPERTS ? tn_weight_type_bytes(TN_WEIGHT_MXFP4, rows, columns)
                                              : plain;
    default:
        return plain;
    }
}

uint64_t tn_llm_weight_bytes(const tn_llm *llm, uint32_t index, const tn_llm_scheme *scheme) {
    if (index >= llm->weight_count) return 0;
    const tn_llm_weight *weight = &llm->weights[index];
    uint64_t layers = weight->layers > 0 ? weight->layers : 1, sum = 0;
    if (scheme->packing != TN_PACK_MIX)
        return tn__mul_sat(tn__mul_sat(layers, weight->each), schemes_one(weight, scheme));
    if (layers > 1 << 16) return UINT64_MAX;
    if (!llm_mix_varies(weight)) {
        uint64_t one = llm_mix_bytes(llm, weight, scheme->mix, weight->first);
        return tn__mul_sat(tn__mul_sat(layers, weight->each), one);
    }
    for (uint64_t layer = 0; layer < layers; layer++)
        sum = tn__add_sat(sum, llm_mix_bytes(llm, weight, scheme->mix, weight->first + layer));
    return tn__mul_sat(sum, weight->each);
}

uint64_t tn__llm_weight_in(const tn_llm *llm, uint32_t index, const tn_llm_scheme *scheme,
                           uint64_t layer) {
    const tn_llm_weight *weight = &llm->weights[index];
    uint64_t one = scheme->packing == TN_PACK_MIX ? llm_mix_bytes(llm, weight, scheme->mix, layer)
                                                  : schemes_one(weight, scheme);
    return tn__mul_sat(weight->each, one);
}

/* --- the scheme that a config.json states --- */

#ifndef TENURE_MINIMAL

static void schemes_take(tn_llm *llm, const char *name) {
    tn_weight_type rest = llm->stored.type;
    if (tn_llm_scheme_find(name, &llm->stored, NULL) == TN_OK &&
        llm->stored.packing != TN_PACK_PLAIN)
        llm->stored.type = rest;
}

static uint32_t schemes_number(const json_t *object, const char *key, uint32_t otherwise) {
    const json_t *value = json_object_get(object, key);
    json_int_t number = json_is_integer(value) ? json_integer_value(value) : 0;
    return number > 0 && number <= 1 << 20 ? (uint32_t)number : otherwise;
}

static void schemes_grouped(const json_t *quantised, tn_llm *llm) {
    uint32_t bits = schemes_number(quantised, "bits", schemes_number(quantised, "w_bit", 4));
    uint32_t group =
        schemes_number(quantised, "group_size", schemes_number(quantised, "q_group_size", 0));
    json_int_t said = json_integer_value(json_object_get(quantised, "group_size"));
    tn_llm_scheme *scheme = &llm->stored;
    scheme->bits = bits;
    /* a stated group size of -1 means one group per row */
    scheme->group = group > 0 ? group : said < 0 ? UINT32_MAX : 128;
    scheme->group_bits = 16 + bits;
    size_t used = strlen(scheme->name);
    snprintf(scheme->name + used, sizeof scheme->name - used, " %u bits", bits);
}

static void schemes_bitsandbytes(const json_t *quantised, tn_llm *llm) {
    bool eight = json_is_true(json_object_get(quantised, "load_in_8bit"));
    schemes_take(llm, eight ? "int8" : "nf4");
    if (eight || !json_is_true(json_object_get(quantised, "bnb_4bit_use_double_quant"))) return;
    llm->stored.group_bits = 8;
    llm->stored.outer = 256;
    llm->stored.outer_bits = 32;
}

/* Returns whether weights have 8 bits with one scale per tensor or per row. */
static bool schemes_is_f8(const json_t *quantised, const char *method) {
    const char *how = json_string_value(json_object_get(quantised, "quant_algo"));
    const json_t *tile = json_object_get(quantised, "weight_block_size");
    bool whole = tile == NULL || json_is_null(tile);
    return (strcmp(method, "fp8") == 0 && whole) ||
           (strcmp(method, "modelopt") == 0 && how != NULL && strcmp(how, "FP8") == 0);
}

static tn_status schemes_quantised(const json_t *quantised, tn_llm *llm, tn_error *error) {
    const char *method = json_string_value(json_object_get(quantised, "quant_method"));
    const json_t *tile = json_object_get(quantised, "weight_block_size");
    if (method == NULL) method = json_string_value(json_object_get(quantised, "quant_algo"));
    if (method == NULL) method = "unnamed";
    if (strcmp(method, "gptq") == 0 || strcmp(method, "awq") == 0) {
        schemes_take(llm, method);
        schemes_grouped(quantised, llm);
        if (llm->stored.bits > 8)
            TN_FAIL(error, TN_E_INVALID, "\"quantization_config\": weights of %u bits",
                    llm->stored.bits);
    } else if (strcmp(method, "bitsandbytes") == 0)
        schemes_bitsandbytes(quantised, llm);
    else if (strcmp(method, "mxfp4") == 0)
        schemes_take(llm, "mxfp4");
    else if (strcmp(method, "fp8") == 0 && json_integer_value(json_array_get(tile, 0)) == 128 &&
             json_integer_value(json_array_get(tile, 1)) == 128)
        schemes_take(llm, "f8");
    else if (schemes_is_f8(quantised, method)) {
        /* float8 weights with scales per row need as much as int8: 8 bits per weight, and at most
         * one scale of 4 bytes per row */
        schemes_take(llm, "int8");
        snprintf(llm->stored.name, sizeof llm->stored.name, "f8, scales of rows");
        /* weights of an unknown packing are counted as not packed, an upper bound */
    } else if (*llm->note == '\0')
        snprintf(
            llm->note, sizeof llm->note,
            "the packing '%.40s' is not known; without files of weights, each weight is counted "
            "as not packed",
            method);
    return TN_OK;
}

tn_status tn__llm_stored(const json_t *root, const json_t *inner, tn_llm *llm, tn_error *error) {
    static const char *const types[][2] = {
        {"bfloat16", "bf16"}, {"float16", "f16"}, {"float32", "f32"}, {"auto", "bf16"}};
    static const char *const keys[] = {"dtype", "torch_dtype"};
    const json_t *objects[] = {inner, root};
    const char *said = "bfloat16";
    for (size_t i = 0; i < 4; i++) {
        const char *text = json_string_value(json_object_get(objects[i / 2], keys[i % 2]));
        if (text != NULL) {
            said = text;
            break;
        }
    }
    said = strncmp(said, "torch.", 6) == 0 ? said + 6 : said;
    llm->stored = (tn_llm_scheme){.packing = TN_PACK_UNKNOWN, .type = TN_WEIGHT_BF16};
    snprintf(llm->stored.name, sizeof llm->stored.name, "%.23s", said);
    for (size_t i = 0; i < 4; i++)
        if (strcmp(types[i][0], said) == 0) schemes_take(llm, types[i][1]);
    const json_t *quantised = json_object_get(root, "quantization_config");
    if (quantised == NULL) quantised = json_object_get(inner, "quantization_config");
    if (quantised == NULL) quantised = json_object_get(root, "quantization"); /* mlx */
    return json_is_object(quantised) ? schemes_quantised(quantised, llm, error) : TN_OK;
}
#endif
