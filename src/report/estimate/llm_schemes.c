/* llm_schemes.c - quantisation schemes: which matrices are packed, and their bytes.
 *
 * Products of layers are packed; embeddings, output matrix, router, normalisations and biases are
 * not. Bits of scales: GPTQ and AWQ have a 16-bit scale for each group, and a zero point with as
 * many bits as a weight; GPTQ also a 32-bit number for each input. NF4 has a 32-bit scale for 64
 * weights (or one of 8 bits, with 32 bits for 256 of those). LLM.int8 has a 32-bit scale for each
 * row; DeepSeek's 8 bits have one for each tile of 128 x 128; MXFP4 has one of 8 bits for 32.
 */
#include <stdio.h>
#include <strings.h>

#include "report/estimate/llm.h"

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
    uint32_t mix = tn__llm_mix_find(name);
    if (mix != TN__LLM_MIX_NONE) {
        *scheme = (tn_llm_scheme){.packing = TN_PACK_MIX, .type = TN_WEIGHT_F32, .mix = mix};
        snprintf(scheme->name, sizeof scheme->name, "%s", tn__llm_mix_name(mix));
        return TN_OK;
    }
    char list[400] = "";
    size_t used = 0;
    for (size_t i = 0; i < SCHEMES_COUNT; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s, ", schemes_table[i].name);
    for (uint32_t i = 0; tn__llm_mix_name(i) != NULL && used + 24 < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "",
                                 tn__llm_mix_name(i));
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

/* Bytes of one matrix, except under a mix. */
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
    if (!tn__llm_mix_varies(weight)) {
        uint64_t one = tn__llm_mix_bytes(llm, weight, scheme->mix, weight->first);
        return tn__mul_sat(tn__mul_sat(layers, weight->each), one);
    }
    for (uint64_t layer = 0; layer < layers; layer++)
        sum = tn__add_sat(sum, tn__llm_mix_bytes(llm, weight, scheme->mix, weight->first + layer));
    return tn__mul_sat(sum, weight->each);
}

uint64_t tn__llm_weight_in(const tn_llm *llm, uint32_t index, const tn_llm_scheme *scheme,
                           uint64_t layer) {
    const tn_llm_weight *weight = &llm->weights[index];
    uint64_t one = scheme->packing == TN_PACK_MIX
                       ? tn__llm_mix_bytes(llm, weight, scheme->mix, layer)
                       : schemes_one(weight, scheme);
    return tn__mul_sat(weight->each, one);
}

/* --- as stated in a file --- */

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
    scheme->group = group > 0 ? group : said < 0 ? UINT32_MAX : 128; /* -1: one for a row */
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

/* 8 bits with a scale for a tensor or a row. */
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
        schemes_take(llm, "int8"); /* 8 bits; at most a scale of 4 bytes for a row */
        snprintf(llm->stored.name, sizeof llm->stored.name, "f8, scales of rows");
    } else if (*llm->note == '\0') /* unpacked: an upper bound */
        snprintf(llm->note, sizeof llm->note,
                 "the packing '%.40s' is not known; weights are counted before packing", method);
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
