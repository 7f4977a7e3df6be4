/* types.c - the storage types of numbers: block sizes as in ggml's structures and the format of
 * safetensors. */
#include <strings.h>

#include "io/weights/weights.h"

typedef struct types_row {
    const char *text, *safetensors;
    int32_t gguf;
    uint32_t block, bytes;
    tn_dtype dtype;
} types_row;

static const types_row types_rows[] = {
#define TN_X(name, text, gguf, safetensors, block, bytes, dtype)                                   \
    {text, safetensors, gguf, block, bytes, TN_##dtype},
    TN_WEIGHT_TYPE_TABLE(TN_X)
#undef TN_X
};

const char *tn_weight_type_name(tn_weight_type type) {
    return (uint32_t)type < TN_WEIGHT_TYPE_COUNT ? types_rows[type].text : "?";
}

tn_weight_type tn_weight_type_find(const char *name) {
    uint32_t i = 0;
    while (i < TN_WEIGHT_TYPE_COUNT && strcasecmp(types_rows[i].text, name) != 0) i++;
    return (tn_weight_type)i;
}

tn_dtype tn_weight_type_dtype(tn_weight_type type) {
    return (uint32_t)type < TN_WEIGHT_TYPE_COUNT ? types_rows[type].dtype : TN_UNDEFINED;
}

uint32_t tn_weight_type_block(tn_weight_type type) {
    return (uint32_t)type < TN_WEIGHT_TYPE_COUNT ? types_rows[type].block : 0;
}

uint64_t tn_weight_type_bytes(tn_weight_type type, uint64_t rows, uint64_t columns) {
    if ((uint32_t)type >= TN_WEIGHT_TYPE_COUNT) return UINT64_MAX;
    uint64_t block = types_rows[type].block;
    uint64_t blocks = columns / block + (columns % block != 0);
    return tn__mul_sat(rows, tn__mul_sat(blocks, types_rows[type].bytes));
}

tn_weight_type tn__weight_type_of_gguf(uint32_t number) {
    uint32_t i = 0;
    while (i < TN_WEIGHT_TYPE_COUNT && (int64_t)types_rows[i].gguf != (int64_t)number) i++;
    return (tn_weight_type)i;
}

tn_weight_type tn__weight_type_of_safetensors(const char *name) {
    uint32_t i = 0;
    while (i < TN_WEIGHT_TYPE_COUNT &&
           (*types_rows[i].safetensors == '\0' || strcmp(types_rows[i].safetensors, name) != 0))
        i++;
    return (tn_weight_type)i;
}
