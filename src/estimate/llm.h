/* llm.h - families of transformers: what a config.json says, and what matrices follow.
 *
 *   llm_config.c    a config.json: its fields, by name
 *   llm_fields.c    those fields, and what they decide
 *   llm_families.c  the families: what each is made of, and what its class says where a file is
 * silent llm_rows.c      the matrices of each kind, and when they are there llm_count.c     sizes
 * that follow from those of a file; parameters, cache llm_schemes.c   how matrices are stored, and
 * what that takes llm_mix.c       llama.cpp's rules for that, tensor by tensor llm_estimate.c
 * weights, cache, workspace llm_gguf.c      the same sizes from a .gguf file
 */
#ifndef TN_ESTIMATE_LLM_H
#define TN_ESTIMATE_LLM_H

#include <tenure/llm.h>

#include "base/base.h"

#define TN__LLM_MOST (UINT64_C(1) << 40) /* of any size in a file */

/* Sizes that a file says (llm_config.c has their names). */
/* clang-format off */
#define TN__LLM_FIELD_TABLE(X) \
    X(HIDDEN) X(LAYERS) X(HEADS) X(KV_HEADS) X(HEAD_SIZE) X(INNER) X(VOCABULARY) X(POSITIONS) \
    X(TYPES) X(WINDOW) X(PATTERN) X(WINDOW_FROM) X(EXPERTS) X(CHOSEN) X(EXPERT_INNER) X(SHARED) \
    X(SHARED_INNER) X(DENSE_FIRST) X(SPARSE_STEP) X(Q_RANK) X(KV_RANK) X(NOPE) X(ROPE) X(VALUE) \
    X(FURTHER) X(PROJECTED) X(PARALLEL_NORMS) X(DECODERS) X(BUCKETS) X(MEL) X(SOURCE) X(TARGET) \
    X(DECODER_INNER) X(IMAGE) X(PATCH) X(CHANNELS) X(LABELS)
/* Sizes that follow. */
#define TN__LLM_DERIVED_TABLE(X)                                                                   \
    X(ONE) X(NORM) X(QUERY) X(KEY) X(EMBEDDED) X(POSITION_ROWS) X(ROTATED_QUERY) X(DOWN) X(UP)     \
    X(OUT) X(SHARED_WIDTH) X(EXPERT_WIDTH) X(TWICE_HIDDEN) X(BIASES) X(PATCHES) X(PATCH_SIZE)      \
    X(VISION) X(VISION_INNER) X(VISION_PATCHES) X(VISION_PATCH) X(MEL_3) X(HIDDEN_3)
/* clang-format on */
typedef enum tn__llm_size {
#define TN_X(name) TN__LLM_##name,
    TN__LLM_FIELD_TABLE(TN_X) TN__LLM_DERIVED_TABLE(TN_X)
#undef TN_X
        TN__LLM_SIZE_COUNT
} tn__llm_size;
#define TN__LLM_FIELD_COUNT TN__LLM_ONE

/* What a family has. Some of it a file may switch (tn__llm_flags). */
/* clang-format off */
#define TN__LLM_TRAIT_TABLE(X)                                                                     \
    X(TEXT)           /* layers over tokens: all but the next three */                             \
    X(T5) X(WHISPER) X(VIT)                                                                        \
    X(LEARNED)        /* a table of positions */                                                   \
    X(TYPED)          /* and one of token types */                                                 \
    X(POSITIONS_2)    /* two rows more than the field says */                                      \
    X(GATED)          /* two matrices into the inner layer */                                      \
    X(SHIFTED)        /* normalisations have a shift beside the scale */                           \
    X(NO_NORM)        /* or neither */                                                             \
    X(UNTIED)         /* an output matrix of its own */                                            \
    X(QUERY_BIAS) X(OUTPUT_BIAS) X(INNER_BIAS) X(HEAD_BIAS)                                        \
    X(QUERY_NORM)     /* query and key are normalised head by head */                              \
    X(WIDE_NORM)      /* or over all heads */                                                      \
    X(FOUR_NORMS)     /* before and after each half of a layer */                                  \
    X(ONE_NORM)       /* for both halves, which are parallel */                                    \
    X(EMBEDDING_NORM) X(NO_FINAL_NORM) X(POOLED)                                                   \
    X(PROJECTS)       /* embeddings may be narrower than layers */                                 \
    X(NARROWED)       /* and are */                                                                \
    X(EXPERT)         /* a mixture of experts */                                                   \
    X(NARROW)         /* whose width has a field of its own */                                     \
    X(SHARING)        /* some of which every token takes */                                        \
    X(SHARED_GATE)    /* or one, behind a gate */                                                  \
    X(ROUTER_BIAS) X(EXPERT_BIAS)                                                                  \
    X(CORRECTED)      /* a correction for each expert, layers that predict further tokens */       \
    X(MLA)            /* keys and values are compressed */                                         \
    X(LOW_QUERY)      /* queries, too */                                                           \
    X(FULL_QUERY)     /* or not */                                                                 \
    X(SINKS)                                                                                       \
    X(WINDOWED)       /* a window where the file gives one */                                      \
    X(WINDOW_ASKED)   /* only where a flag asks for it, from a certain layer on */                 \
    X(FUSED)          /* query, key, value are one matrix: some rules of storage care */           \
    X(ENCODER)        /* keeps no cache */                                                         \
    X(PARALLEL)       /* halves of a layer may be parallel (falcon) */                             \
    X(SEES)           /* a tower that looks at images */                                           \
    X(QUERY_ALONE)    /* only queries, keys and values have a bias, whatever a flag says */         \
    X(SINGLE)         /* one head of keys and values */
/* clang-format on */
enum {
#define TN_X(name) TN__LLM_BIT_##name,
    TN__LLM_TRAIT_TABLE(TN_X)
#undef TN_X
        TN__LLM_TRAITS
};
#define TN__LLM_TRAIT(name) (UINT64_C(1) << TN__LLM_BIT_##name)
#define TN__LLM_ALL UINT64_MAX

typedef struct tn__llm_family {
    const char *type;
    uint64_t traits;
    uint32_t pattern; /* of a window: 1 every layer, n all but each n-th */
    struct {          /* what the class says where a file is silent */
        uint8_t field;
        uint64_t size;
    } otherwise[8]; /* size 0: no more */
} tn__llm_family;
const tn__llm_family *tn__llm_family_find(const char *type); /* NULL: not known */

#define TN__LLM_NAMES 8
typedef struct tn__llm_field { /* a size */
    uint64_t belongs;  /* families with none of these traits refuse it; 0: it is every family's */
    uint64_t required; /* families with one of these need it */
    const char *names[TN__LLM_NAMES];
} tn__llm_field;
extern const tn__llm_field tn__llm_fields[TN__LLM_FIELD_COUNT];

typedef struct tn__llm_flag { /* true or false */
    const char *name;
    uint64_t sets;    /* traits that are there when it is true, and not when it is false */
    uint64_t clears;  /* and the other way round */
    uint64_t belongs; /* as of a size, but it is passed over */
} tn__llm_flag;
extern const tn__llm_flag tn__llm_flags[]; /* to one without a name */

/* What no family here has; a flag that is false, or a number of at most `most`, means none. */
typedef struct tn__llm_part {
    const char *name, *why;
    int64_t most;
    uint64_t unless; /* traits of families that do have it */
} tn__llm_part;
extern const tn__llm_part tn__llm_parts[]; /* to one without a name */

/* Whether a field is one of these, or known to change nothing here. */
bool tn__llm_is_known(const char *key);

typedef struct tn__llm_reading { /* of one file */
    const tn__llm_family *family;
    uint64_t traits;
    uint64_t size[TN__LLM_SIZE_COUNT]; /* 0: not there */
    uint64_t window_layers;            /* counted from a list of layers */
    bool listed;                       /* there is one */
    uint64_t vision_layers;
    bool drops; /* dropout, in training */
} tn__llm_reading;

/* Sizes that follow from those of the file, and traits. E_INVALID: they do not fit together. */
tn_status tn__llm_derive(tn__llm_reading *it, tn_error *error);
typedef enum tn__llm_place { /* where matrices are; X in the table of rows */
                             TN__LLM_ONCE,
                             TN__LLM_LAYER,
                             TN__LLM_DENSE,  /* layers without experts */
                             TN__LLM_SPARSE, /* with them */
                             TN__LLM_AHEAD,  /* layers that predict further tokens: beside what all
                                                layers have */
                             TN__LLM_ENCODER,
                             TN__LLM_DECODER,
                             TN__LLM_TOWER, /* of vision */
                             TN__LLM_PLACES
} tn__llm_place;
typedef struct tn__llm_row {
    const char *name;
    tn_llm_role role;
    tn__llm_place place;
    tn__llm_size rows, columns, each;
    uint64_t with, without; /* traits: all of the first, none of the second */
} tn__llm_row;
/* The rows of this kind of transformer. */
const tn__llm_row *tn__llm_rows(uint64_t traits, size_t *count);

/* Matrices, counts, cache. */
tn_status tn__llm_count(const tn__llm_reading *it, tn_llm *llm, tn_error *error);
/* Bytes of a matrix of `index` in layer `layer` under a mix. */
uint64_t tn__llm_mix_bytes(const tn_llm *llm, const tn_llm_weight *weight, uint32_t mix,
                           uint64_t layer);
/* TN__LLM_MIX_NONE: no such name. */
#define TN__LLM_MIX_NONE UINT32_MAX
uint32_t tn__llm_mix_find(const char *name);
const char *tn__llm_mix_name(uint32_t mix); /* NULL: outside */

#ifndef TENURE_MINIMAL
#include "base/json.h"
/* tn_llm_config, and what it read. */
tn_status tn__llm_config_read(const char *name, const void *bytes, size_t size,
                              tn__llm_reading *reading, tn_llm *llm, tn_error *error);
/* "quantization_config", "dtype". */
tn_status tn__llm_stored(const json_t *root, const json_t *inner, tn_llm *llm, tn_error *error);
#endif

#endif
