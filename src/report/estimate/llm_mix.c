/* llm_mix.c - llama.cpp's mixes: the storage type of each tensor of a .gguf file.
 *
 * Vectors, the router and tables of positions stay in 32 bits. For the rest each mix has a main
 * type, and other types for tensors that lose most from quantisation: the output matrix, values,
 * the down projection, in some layers or all. A row that is not a whole number of blocks gets a
 * type of smaller blocks.
 * Source: the rules of llama-quant.cpp, without an importance matrix; tests/estimate/test_llm.c has
 * the published sizes.
 */
#include <strings.h>

#include "report/estimate/llm.h"

typedef enum mix_when {
    NEVER,
    ALWAYS,
    MORE,    /* an eighth of the layers at both ends, and every third in between */
    FIRST_4, /* layers */
    EIGHTH,  /* the first eighth of the layers */
    SHARED   /* four or more heads of queries share one of values */
} mix_when;

/* A layer with an unknown number: every rule that may apply does, which takes the most bytes. */
#define MIX_ANY UINT64_MAX

typedef struct mix_rule {
    tn_weight_type type;
    mix_when when;
} mix_rule;

typedef struct mix_row {
    const char *name;
    tn_weight_type type, head;
    /* of attention's value, of the down projection, of attention's output */
    mix_rule value, down, output;
    tn_weight_type otherwise; /* of values, if its rule does not apply */
    bool few;                 /* 2 to 4 bits: rules for 8 experts and 80 layers */
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

uint32_t tn__llm_mix_find(const char *name) {
    for (uint32_t i = 0; i < sizeof mix_rows / sizeof *mix_rows; i++)
        if (strcasecmp(mix_rows[i].name, name) == 0) return i;
    return TN__LLM_MIX_NONE;
}

const char *tn__llm_mix_name(uint32_t mix) {
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

/* Does some mix store it in different types in different layers? */
bool tn__llm_mix_varies(const tn_llm_weight *weight) {
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

/* A type whose blocks divide a row. */
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

uint64_t tn__llm_mix_bytes(const tn_llm *llm, const tn_llm_weight *weight, uint32_t mix,
                           uint64_t layer) {
    if (weight->scattered) layer = MIX_ANY;
    tn_weight_type type = mix_type(llm, weight, &mix_rows[mix], layer);
    return tn_weight_type_bytes(mix_fitting(type, weight->columns), weight->rows, weight->columns);
}
