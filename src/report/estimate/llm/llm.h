/* llm.h - families of transformers: the meaning of a config.json, and the matrices that follow from
 * it.
 *
 *   llm_config.c    a config.json: its fields, by name
 *   llm_fields.c    those fields, and their effects
 *   llm_families.c  the families: parts of each, and the defaults of its class
 *   llm_layers.c    the kind of each layer: attention in full or in a window, a state, experts
 *   llm_towers.c    the towers that read images: parameters of each kind
 *   llm_rows.c      the matrices of each kind of layer, and their conditions
 *   llm_count.c     sizes that follow from those of a file; parameters, cache
 *   llm_schemes.c   how matrices are stored, and their bytes; llama.cpp's rules for storage types,
 *                   tensor by tensor
 *   llm_estimate.c  weights, cache, workspace; the memory of the program that runs the model
 *   llm_place.c     several devices, and parts of the model in host memory
 *   llm_gguf.c      the same sizes from a .gguf file
 */
#ifndef TN_ESTIMATE_LLM_H
#define TN_ESTIMATE_LLM_H

#include <tenure/llm.h>

#include "base/base.h"

#define TN__LLM_MOST (UINT64_C(1) << 40) /* limit of any size in a file */
#define TN__LLM_LAYERS_MOST 8192u

/* Sizes that a file says (llm_config.c has their names). */
/* clang-format off */
#define TN__LLM_FIELD_TABLE(X) \
    X(HIDDEN) X(LAYERS) X(HEADS) X(KV_HEADS) X(HEAD_SIZE) X(INNER) X(VOCABULARY) X(POSITIONS) \
    X(TYPES) X(WINDOW) X(PATTERN) X(WINDOW_FROM) X(EXPERTS) X(CHOSEN) X(EXPERT_INNER) X(SHARED) \
    X(SHARED_INNER) X(DENSE_FIRST) X(SPARSE_STEP) X(Q_RANK) X(KV_RANK) X(NOPE) X(ROPE) X(VALUE) \
    X(FURTHER) X(PROJECTED) X(PARALLEL_NORMS) X(DECODERS) X(BUCKETS) X(MEL) X(SOURCE) X(TARGET) \
    X(DECODER_INNER) X(IMAGE) X(PATCH) X(CHANNELS) X(LABELS) \
    X(GLOBAL_KV_HEADS) X(GLOBAL_HEAD_SIZE) X(WINDOW_HEADS) X(WINDOW_KV_HEADS) X(WINDOW_HEAD_SIZE) \
    X(WINDOW_VALUE) X(INDEX_HEADS) X(INDEX_SIZE) \
    X(LINEAR_KEYS) X(LINEAR_VALUES) X(LINEAR_KEY_SIZE) X(LINEAR_VALUE_SIZE) X(LINEAR_KERNEL) \
    X(INTERVAL) X(PERIOD) X(OFFSET) X(EXPERT_PERIOD) X(EXPERT_OFFSET) \
    X(STATE_HEADS) X(STATE_HEAD_SIZE) X(STATE_SIZE) X(STATE_GROUPS) X(STATE_KERNEL) \
    X(STATE_EXPAND) X(STATE_INNER) X(STATE_RANK) X(CONV_KERNEL) \
    X(BORROWERS) X(INPUTS) X(INPUT_SIZE) X(INPUT_ROWS) X(LAUREL) X(MULTIPLE) X(CLA_FACTOR)
/* Sizes that follow. */
#define TN__LLM_DERIVED_TABLE(X)                                                                   \
    X(ONE) X(NORM) X(QUERY) X(KEY) X(VALUES) X(VALUE_ROWS) X(ATTENDED)                             \
    X(WINDOW_QUERY) X(WINDOW_KEY) X(WINDOW_VALUES) X(WINDOW_ATTENDED)                              \
    X(EMBEDDED) X(POSITION_ROWS) X(ROTATED_QUERY) X(DOWN) X(UP)                                    \
    X(OUT) X(SHARED_WIDTH) X(EXPERT_WIDTH) X(TWICE_HIDDEN) X(BIASES) X(PATCHES) X(PATCH_SIZE)      \
    X(VISION) X(VISION_INNER) X(VISION_PATCHES) X(VISION_PATCH) X(MEL_3) X(HIDDEN_3) X(HIDDEN_7)   \
    X(WIDE_INNER) X(TOWER) X(INDEX_WIDTH) X(INDEX_NORM)                                            \
    X(GDN_IN) X(GDN_GATES) X(GDN_MIXED) X(GDN_OUT)                                                 \
    X(STATE_IN) X(STATE_MIXED) X(STATE_TAPS) X(STATE_VECTORS) X(STATE_GATED) X(STATE_TURNED)       \
    X(KDA_WIDTH) X(KDA_MIXED) X(KDA_VECTORS) X(LIGHT_WIDTH)                                        \
    X(ALTUP) X(ALTUP_ROWS) X(LAYER_INPUTS) X(LAYER_SCALARS) X(EXPERT_SCALES)
/* clang-format on */
typedef enum tn__llm_size {
#define TN_X(name) TN__LLM_##name,
    TN__LLM_FIELD_TABLE(TN_X) TN__LLM_DERIVED_TABLE(TN_X)
#undef TN_X
        TN__LLM_SIZE_COUNT
} tn__llm_size;
#define TN__LLM_FIELD_COUNT TN__LLM_ONE

/* Parts of a family. A file may switch some of them (tn__llm_flags). */
/* clang-format off */
#define TN__LLM_TRAIT_TABLE(X)                                                                     \
    X(TEXT)           /* layers over tokens: all families but T5, WHISPER and VIT */               \
    X(T5) X(WHISPER) X(VIT)                                                                        \
    X(LEARNED)        /* has a table of positions */                                               \
    X(TYPED)          /* has a table of token types */                                             \
    X(POSITIONS_2)    /* the table of positions has two rows more than the field says */           \
    X(GATED)          /* the inner layer has two input matrices */                                 \
    X(SHIFTED)        /* normalisations have a shift and a scale */                                \
    X(NO_NORM)        /* normalisations have neither shift nor scale */                            \
    X(UNTIED)         /* the output matrix is not the embedding table */                           \
    X(QUERY_BIAS) X(OUTPUT_BIAS) X(INNER_BIAS) X(HEAD_BIAS)                                        \
    X(QUERY_NORM)     /* query and key are normalised head by head */                              \
    X(WIDE_NORM)      /* query and key are normalised over all heads */                            \
    X(FOUR_NORMS)     /* a normalisation before and after each half of a layer */                  \
    X(ONE_NORM)       /* one for both halves, which are parallel; or a layer is one half */        \
    X(EMBEDDING_NORM) X(NO_FINAL_NORM) X(POOLED)                                                   \
    X(PROJECTS)       /* embeddings may be narrower than layers */                                 \
    X(NARROWED)       /* embeddings are narrower than layers */                                    \
    X(EXPERT)         /* a mixture of experts */                                                   \
    X(NARROW)         /* experts have a field for their width */                                   \
    X(SHARING)        /* shared experts: every token uses them */                                  \
    X(SHARED_GATE)    /* or one shared expert with a gate */                                       \
    X(ROUTER_BIAS) X(EXPERT_BIAS)                                                                  \
    X(CORRECTED)      /* a correction for each expert */                                           \
    X(MLA)            /* keys and values are compressed */                                         \
    X(LOW_QUERY)      /* queries are compressed, too */                                            \
    X(FULL_QUERY)     /* queries are not compressed */                                             \
    X(SINKS) X(WINDOW_SINKS)                                                                       \
    X(WINDOWED)       /* attention has a window if the file gives one */                           \
    X(WINDOW_ASKED)   /* a window only if a flag asks for it, from a certain layer on */           \
    X(FUSED)          /* query, key, value are one matrix: some storage rules differ */            \
    X(ENCODER)        /* has no cache */                                                           \
    X(PARALLEL)       /* halves of a layer may be parallel (falcon) */                             \
    X(SEES)           /* has a tower for images */                                                 \
    X(QUERY_ALONE)    /* only queries, keys and values have a bias, for any flag */                \
    X(QUERY_ASKED)    /* only these have a bias, if a flag says so */                              \
    X(SINGLE)         /* one head of keys and values */                                            \
    X(OUTPUT_GATE)    /* queries are twice as wide: a gate of the output of attention */           \
    X(MTP)            /* layers that predict further tokens, with embeddings of their own */       \
    X(MTP_BARE)       /* such layers without embeddings of their own */                            \
    /* layers that keep a state; llm_layers.c finds which */                                       \
    X(GDN) X(KDA) X(LIGHTNING) X(MAMBA) X(MAMBA2) X(CONV) X(RWKV)                                  \
    X(BOTH)           /* each layer has attention and a state */                                   \
    X(PURE)           /* layers have no attention */                                               \
    X(PARTS)          /* a layer is one part: a state, attention, an inner layer, experts */       \
    X(STATE_NORM) X(STATE_BIAS) X(STATE_NORMS)                                                     \
    X(GEMMA3N) X(GEMMA4) X(LLAMA4)
/* clang-format on */
enum {
#define TN_X(name) TN__LLM_BIT_##name,
    TN__LLM_TRAIT_TABLE(TN_X)
#undef TN_X
        TN__LLM_TRAITS
};
#define TN__LLM_TRAIT(name) (UINT64_C(1) << TN__LLM_BIT_##name)
#define TN__LLM_ALL UINT64_MAX
#define TN__LLM_STATES                                                                             \
    (TN__LLM_TRAIT(GDN) | TN__LLM_TRAIT(KDA) | TN__LLM_TRAIT(LIGHTNING) | TN__LLM_TRAIT(MAMBA) |   \
     TN__LLM_TRAIT(MAMBA2) | TN__LLM_TRAIT(CONV) | TN__LLM_TRAIT(RWKV))

/* Kinds of layers, as bits: a layer has the parts of each of its bits. */
enum {
    TN__LLM_KIND_FULL = 1,     /* attention to all tokens */
    TN__LLM_KIND_WINDOW = 2,   /* or to a window of them */
    TN__LLM_KIND_STATE = 4,    /* a state of a constant size, as the family has it */
    TN__LLM_KIND_DENSE = 8,    /* an inner layer */
    TN__LLM_KIND_WIDE = 16,    /* or one of twice the width */
    TN__LLM_KIND_SPARSE = 32,  /* or experts */
    TN__LLM_KIND_INDEX = 64,   /* attention chooses tokens by an index of keys */
    TN__LLM_KIND_BORROWS = 128 /* attention reads the cache of another layer */
};

/* Towers that read images. */
typedef enum tn__llm_tower {
    TN__LLM_TOWER_NONE,
    TN__LLM_TOWER_QWEN2,
    TN__LLM_TOWER_QWEN2_5,
    TN__LLM_TOWER_QWEN3,
    TN__LLM_TOWER_PIXTRAL,
    TN__LLM_TOWER_LLAMA4,
    TN__LLM_TOWER_GEMMA4,
    TN__LLM_TOWER_INTERN,
    TN__LLM_TOWER_OTHER /* a tower with unknown parts */
} tn__llm_tower;

typedef struct tn__llm_family {
    const char *type;
    uint64_t traits;
    uint32_t pattern; /* window pattern: 1 every layer, n all but each n-th */
    struct {          /* defaults of the class, for missing fields */
        uint8_t field;
        uint64_t size;
    } otherwise[12]; /* size 0: no more */
    struct {         /* names of a size that only this family uses */
        uint8_t field;
        const char *name;
    } own[6];
    const char *text; /* a wrapper: the family of its text, if the file does not name it */
    tn__llm_tower tower;
} tn__llm_family;
const tn__llm_family *tn__llm_family_find(const char *type); /* NULL: not known */

/* Does a family use this name for a size? */
bool tn__llm_family_names(const char *key);

#define TN__LLM_NAMES 8
typedef struct tn__llm_field { /* a size */
    uint64_t belongs;  /* families without these traits refuse it; 0: valid for every family */
    uint64_t required; /* families with one of these traits require it */
    const char *names[TN__LLM_NAMES];
} tn__llm_field;
extern const tn__llm_field tn__llm_fields[TN__LLM_FIELD_COUNT];

typedef struct tn__llm_flag { /* true or false */
    const char *name;
    uint64_t sets;    /* traits that exist if the flag is true, and not if it is false */
    uint64_t clears;  /* traits that exist if it is false, and not if it is true */
    uint64_t belongs; /* as for a size, but the flag is ignored */
    const char *only; /* model types, separated by blanks; NULL: all */
} tn__llm_flag;
extern const tn__llm_flag tn__llm_flags[]; /* ends with an entry without a name */

/* Parts that no family here supports; a false flag, or a number of at most `most`, means that the
 * part is absent.
 */
typedef struct tn__llm_part {
    const char *name, *why;
    int64_t most;
    uint64_t unless; /* traits of families that support it */
} tn__llm_part;
extern const tn__llm_part tn__llm_parts[]; /* ends with an entry without a name */

/* Is the field one of these, or known to have no effect here? */
bool tn__llm_is_known(const char *key);

typedef struct tn__llm_reading {   /* the state of reading one file */
    const tn__llm_family *family;  /* family of the text */
    const tn__llm_family *wrapper; /* family of the wrapper; without one, the same */
    uint64_t traits;
    uint64_t size[TN__LLM_SIZE_COUNT]; /* 0: not there */
    uint8_t kind[TN__LLM_LAYERS_MOST]; /* kind of each layer */
    bool shares_keys;                  /* keys serve as values: no matrix of values (gemma4) */
    bool scaled_width;                 /* lfm2: the width is two thirds, rounded up */
    bool double_width;                 /* gemma4: layers that borrow a cache are twice as wide */
    bool mixed;                        /* experts next to an inner layer (gemma4) */
    uint64_t vision_layers;
    bool drops; /* dropout, in training */
} tn__llm_reading;

/* Computes sizes and traits that follow from those of the file. E_INVALID: they are
 * inconsistent. */
tn_status tn__llm_derive(tn__llm_reading *it, tn_error *error);
typedef enum tn__llm_place { /* where matrices occur; X in the table of rows */
                             TN__LLM_ONCE,
                             TN__LLM_LAYER,
                             TN__LLM_ATTENDS, /* in each layer with attention, full or windowed */
                             TN__LLM_IN_FULL,
                             TN__LLM_IN_WINDOW,
                             TN__LLM_STATES_IN, /* layers with a state */
                             TN__LLM_INDEXED,
                             TN__LLM_DENSE, /* layers without experts */
                             TN__LLM_WIDER,
                             TN__LLM_SPARSE, /* layers with experts */
                             TN__LLM_AHEAD,  /* layers that predict further tokens: in addition to
                                                the parts of all layers */
                             TN__LLM_ENCODER,
                             TN__LLM_DECODER,
                             TN__LLM_TOWERS, /* of vision */
                             TN__LLM_PLACES
} tn__llm_place;
typedef struct tn__llm_row {
    const char *name;
    tn_llm_role role;
    tn__llm_place place;
    tn__llm_size rows, columns, each;
    uint64_t with, without; /* traits: it needs all of the first and none of the second */
} tn__llm_row;
/* The rows of this kind of transformer. */
const tn__llm_row *tn__llm_rows(uint64_t traits, size_t *count);

/* Matrices, counts, cache. */
tn_status tn__llm_count(const tn__llm_reading *it, tn_llm *llm, tn_error *error);
/* Adds layers to the group of the cache with the same sizes; if there are too many groups, to one
 * with at least these sizes. */
void tn__llm_cache_add(tn_llm_cache *cache, uint64_t layers, uint64_t window, uint64_t key,
                       uint64_t value);
/* Bytes of weights[index] in one of its layers. */
uint64_t tn__llm_weight_in(const tn_llm *llm, uint32_t index, const tn_llm_scheme *scheme,
                           uint64_t layer);
/* TN__LLM_MIX_NONE: no such name. */
#define TN__LLM_MIX_NONE UINT32_MAX

/* Turns the estimate of the whole model into that of the fullest device. */
tn_status tn__llm_divide(const tn_llm *llm, const tn_llm_options *options, tn_llm_estimate *made,
                         tn_error *error);
/* Bytes of the cache with `tokens` per sequence in layers without a window. */
uint64_t tn__llm_cache_bytes(const tn_llm_cache_group *group, tn_weight_type type, uint64_t tokens);

#ifndef TENURE_MINIMAL
#include "base/json.h"
/* "quantization_config", "dtype". */
tn_status tn__llm_stored(const json_t *root, const json_t *inner, tn_llm *llm, tn_error *error);
/* The kinds of all layers, from the fields of `inner` (else `root`). */
tn_status tn__llm_layers(tn__llm_reading *it, const json_t *inner, const json_t *root, tn_llm *llm,
                         tn_error *error);
/* Parameters of the tower; E_UNSUPPORTED: its parts are unknown. */
tn_status tn__llm_tower_count(tn__llm_reading *it, const json_t *vision, tn_error *error);
#endif

#endif
