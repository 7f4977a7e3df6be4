/* llm_towers.c - counts the parameters of towers that read images, by a formula for each kind of
 * tower.
 *
 * A row of the table has the sizes of a kind of tower, with their names in files and the defaults
 * of its class, and a function that sums its matrices. D is the width of the tower, F its inner
 * width, L its number of layers, P the edge of a patch in pixels, and O the width of the text
 * model. Source: the published totals in docs/llm-evidence.md, which the sums match exactly.
 */
#include <stdio.h>

#include "report/estimate/llm/llm.h"

#ifndef TENURE_MINIMAL

typedef enum towers_size {
    D,
    F,
    L,
    P,
    T,
    O,
    POSITIONS,
    IMAGE,
    DEEP,
    MERGE,
    TOWERS_SIZES
} towers_size;

#define TOWERS_NAMES 3
typedef struct towers_row {
    /* the "model_type" of a vision_config that identifies this tower in any wrapper, or NULL */
    const char *model;
    const char *names[TOWERS_SIZES][TOWERS_NAMES];
    /* default sizes of the tower; 0: the file must state the size */
    uint64_t otherwise[TOWERS_SIZES];
    uint64_t (*count)(const uint64_t size[TOWERS_SIZES], uint64_t text);
} towers_row;

static uint64_t towers_product(uint64_t a, uint64_t b) { return tn__mul_sat(a, b); }

static uint64_t towers_sum(const uint64_t *terms, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) sum = tn__add_sat(sum, terms[i]);
    return sum;
}
#define SUM(...)                                                                                   \
    towers_sum((const uint64_t[]){__VA_ARGS__},                                                    \
               sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))
#define X2(a, b) towers_product(a, b)
#define X3(a, b, c) towers_product(a, towers_product(b, c))

/* Returns the parameters of a layer that has biases, and two normalisations with a shift. */
static uint64_t towers_layer(uint64_t d, uint64_t f) {
    return SUM(X3(4, d, d), X2(4, d), X3(2, d, f), f, d, X2(4, d));
}

static uint64_t towers_patches(const uint64_t *s) { return X3(3, s[T], X3(s[P], s[P], s[D])); }

/* Returns the parameters of the merger, which joins `merge` x `merge` patches to one token. */
static uint64_t towers_merger(const uint64_t *s) {
    uint64_t m = X3(s[MERGE], s[MERGE], s[D]);
    return SUM(X2(m, m), m, X2(m, s[O]), s[O]);
}

static uint64_t towers_qwen2(const uint64_t *s, uint64_t text) {
    (void)text;
    return SUM(towers_patches(s), X2(s[L], towers_layer(s[D], s[F])), 2 * s[D], towers_merger(s));
}

static uint64_t towers_qwen2_5(const uint64_t *s, uint64_t text) {
    uint64_t layer = SUM(X3(4, s[D], s[D]), X2(4, s[D]), X3(3, s[D], s[F]), 2 * s[F], 3 * s[D]);
    (void)text;
    return SUM(towers_patches(s), X2(s[L], layer), s[D], towers_merger(s));
}

static uint64_t towers_qwen3(const uint64_t *s, uint64_t text) {
    uint64_t m = X3(s[MERGE], s[MERGE], s[D]);
    (void)text;
    return SUM(towers_patches(s), s[D], X2(s[POSITIONS], s[D]), X2(s[L], towers_layer(s[D], s[F])),
               2 * s[D], towers_merger(s), X2(s[DEEP], SUM(2 * m, towers_merger(s))));
}

static uint64_t towers_pixtral(const uint64_t *s, uint64_t text) {
    uint64_t layer = SUM(X3(4, s[D], s[D]), X3(3, s[D], s[F]), 2 * s[D]);
    return SUM(towers_patches(s), s[D], X2(s[L], layer), s[D], X3(4, s[D], s[D]), X2(s[D], text),
               X2(text, text));
}

static uint64_t towers_llama4(const uint64_t *s, uint64_t text) {
    uint64_t side = s[IMAGE] / s[P], places = SUM(1, X2(side, side));
    return SUM(towers_patches(s), s[D], X2(places, s[D]), 4 * s[D],
               X2(s[L], towers_layer(s[D], s[F])), X2(s[F], s[O]), X2(s[O], s[O]), X2(s[O], text));
}

static uint64_t towers_gemma4(const uint64_t *s, uint64_t text) {
    uint64_t layer = SUM(X3(4, s[D], s[D]), X3(3, s[D], s[F]), X2(4, s[D]), 2 * 72);
    return SUM(towers_patches(s), X3(2, s[POSITIONS], s[D]), X2(s[L], layer), 2 * s[D],
               X2(s[D], text));
}

static uint64_t towers_intern(const uint64_t *s, uint64_t text) {
    uint64_t side = s[IMAGE] / s[P], places = SUM(1, X2(side, side));
    uint64_t merged = X2(4, s[D]);
    return SUM(towers_patches(s), s[D], s[D], X2(places, s[D]),
               X2(s[L], SUM(towers_layer(s[D], s[F]), 2 * s[D])), 2 * merged, X2(merged, text),
               text, X2(text, text), text);
}

#define NAMES_COMMON                                                                               \
    [F] = {"intermediate_size"}, [L] = {"num_hidden_layers", "depth"}, [P] = {"patch_size"},       \
    [T] = {"temporal_patch_size"}, [IMAGE] = {"image_size"}, [MERGE] = {"spatial_merge_size"}

static const towers_row towers_rows[] = {
    [TN__LLM_TOWER_QWEN2] = {"qwen2_vl",
                             {NAMES_COMMON, [D] = {"embed_dim"}, [O] = {"hidden_size"}},
                             {[D] = 1280, [F] = 5120, [L] = 32, [P] = 14, [T] = 2, [MERGE] = 2},
                             towers_qwen2},
    [TN__LLM_TOWER_QWEN2_5] = {"qwen2_5_vl",
                               {NAMES_COMMON, [D] = {"hidden_size"}, [O] = {"out_hidden_size"}},
                               {[D] = 1280, [F] = 3420, [L] = 32, [P] = 14, [T] = 2, [MERGE] = 2},
                               towers_qwen2_5},
    [TN__LLM_TOWER_QWEN3] =
        {"qwen3_vl",
         {NAMES_COMMON, [D] = {"hidden_size"}, [O] = {"out_hidden_size"},
          [POSITIONS] = {"num_position_embeddings"}},
         {[D] = 1152, [F] = 4304, [L] = 27, [P] = 16, [T] = 2, [MERGE] = 2, [POSITIONS] = 2304},
         towers_qwen3},
    [TN__LLM_TOWER_PIXTRAL] = {"pixtral",
                               {NAMES_COMMON, [D] = {"hidden_size"}},
                               {[D] = 1024, [F] = 4096, [L] = 24, [P] = 14},
                               towers_pixtral},
    [TN__LLM_TOWER_LLAMA4] =
        {"llama4_vision_model",
         {NAMES_COMMON, [D] = {"hidden_size"}, [O] = {"vision_output_dim", "projector_output_dim"}},
         {[D] = 1408, [F] = 5632, [L] = 34, [P] = 14, [IMAGE] = 336, [O] = 4096},
         towers_llama4},
    [TN__LLM_TOWER_GEMMA4] =
        {"gemma4_vision",
         {NAMES_COMMON, [D] = {"hidden_size"}, [POSITIONS] = {"position_embedding_size"}},
         {[D] = 1152, [F] = 4304, [L] = 27, [P] = 16, [POSITIONS] = 10240},
         towers_gemma4},
    [TN__LLM_TOWER_INTERN] = {"intern_vit_6b",
                              {NAMES_COMMON, [D] = {"hidden_size"}},
                              {[D] = 1024, [F] = 4096, [L] = 24, [P] = 14, [IMAGE] = 448},
                              towers_intern},
};

/* Returns a number, or the first number of a list, because some files write [14, 14]. */
static json_int_t towers_number(const json_t *value) {
    if (json_is_array(value)) value = json_array_get(value, 0);
    return json_is_integer(value) ? json_integer_value(value) : 0;
}

static tn_status towers_read(const towers_row *row, const json_t *vision, uint64_t text,
                             uint64_t size[TOWERS_SIZES], tn_error *error) {
    for (uint32_t i = 0; i < TOWERS_SIZES; i++) {
        json_int_t number = 0;
        const char *name = NULL;
        for (uint32_t n = 0; n < TOWERS_NAMES && row->names[i][n] != NULL && number == 0; n++) {
            name = row->names[i][n];
            number = towers_number(json_object_get(vision, name));
        }
        if (number < 0 || number > 1 << 24)
            TN_FAIL(error, TN_E_INVALID, "\"vision_config\": \"%s\" makes no sense", name);
        size[i] = number > 0 ? (uint64_t)number : row->otherwise[i];
    }
    if (size[T] == 0) size[T] = 1;
    if (size[O] == 0) size[O] = text;
    const json_t *deep = json_object_get(vision, "deepstack_visual_indexes");
    size[DEEP] = json_array_size(deep);
    const json_t *ratio = json_object_get(vision, "mlp_ratio");
    if (json_is_number(ratio) && json_object_get(vision, "intermediate_size") == NULL) {
        double width = json_number_value(ratio) * (double)size[D];
        if (!(width >= 1 && width < 1 << 24))
            TN_FAIL(error, TN_E_INVALID, "\"vision_config\": \"mlp_ratio\" makes no sense");
        size[F] = (uint64_t)width;
    }
    return TN_OK;
}

tn_status tn__llm_tower_count(tn__llm_reading *it, const json_t *vision, tn_error *error) {
    tn__llm_tower tower = it->wrapper->tower;
    const char *model = json_string_value(json_object_get(vision, "model_type"));
    for (uint32_t i = 1; model != NULL && i < TN__LLM_TOWER_OTHER; i++)
        if (strcmp(towers_rows[i].model, model) == 0) tower = (tn__llm_tower)i;
    if (tower == TN__LLM_TOWER_OTHER)
        TN_FAIL(error, TN_E_UNSUPPORTED, "the vision tower of model_type %s", it->wrapper->type);
    uint64_t size[TOWERS_SIZES], text = it->size[TN__LLM_HIDDEN];
    TN_TRY(towers_read(&towers_rows[tower], vision, text, size, error));
    it->size[TN__LLM_TOWER] = towers_rows[tower].count(size, text);
    return TN_OK;
}
#endif
