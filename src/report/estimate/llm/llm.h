/* llm.h - families of transformers: the meaning of a config.json, and the matrices that follow from
 * it.
 *
 *   llm_config.c    reads a config.json: its fields, by name
 *   llm_fields.c    tables of these fields and of their effects
 *   llm_families.c  the families: the parts that each has, and the defaults of its class
 *   llm_layers.c    finds the kind of each layer: full attention or a window, a state, experts
 *   llm_towers.c    counts the parameters of towers that read images
 *   llm_rows.c      the matrices of each kind of layer, and the conditions under which they exist
 *   llm_count.c     computes sizes that follow from those in a file, parameters, and cache
 *   llm_schemes.c   how matrices are stored, and their bytes; llama.cpp's storage types, by tensor
 *   llm_estimate.c  weights, cache, workspace, and the memory of the program that runs the model
 *   llm_place.c     several devices, and parts of the model in host memory
 *   llm_gguf.c      reads sizes from a .gguf file
 */
#ifndef TN_ESTIMATE_LLM_H
#define TN_ESTIMATE_LLM_H

#include <tenure/llm.h>

#include "base/base.h"

#define TN__LLM_MOST (UINT64_C(1) << 40) /* largest value of any size in a file */
#define TN__LLM_LAYERS_MOST 8192u

/* Sizes that a file states. llm_config.c has their names in files. */
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
/* Sizes that are computed from those in a file. */
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
    X(ALTUP) X(ALTUP_ROWS) X(LAYER_INPUTS) X(LAYER_SCALARS) X(EXPERT_SCALES)                       \
    X(FIRST_NORM) X(SECOND_NORM) X(REPLACED)
/* clang-format on */
typedef enum tn__llm_size {
#define TN_X(name) TN__LLM_##name,
    TN__LLM_FIELD_TABLE(TN_X) TN__LLM_DERIVED_TABLE(TN_X)
#undef TN_X
        TN__LLM_SIZE_COUNT
} tn__llm_size;
#define TN__LLM_FIELD_COUNT TN__LLM_ONE

/* Traits: the parts that a family of transformers has. A flag in a file may add or remove traits
 * (tn__llm_flags). */
/* clang-format off */
#define TN__LLM_TRAIT_TABLE(X)                                                                     \
    X(TEXT)           /* layers over tokens, as in all families but T5, WHISPER and VIT */         \
    X(T5) X(WHISPER) X(VIT)                                                                        \
    X(LEARNED)        /* has a table of positions */                                               \
    X(TYPED)          /* has a table of token types */                                             \
    X(POSITIONS_2)    /* the table of positions has two rows more than the field says */           \
    X(GATED)          /* the inner layer has two input matrices */                                 \
    X(SHIFTED)        /* normalisations have a shift and a scale */                                \
    X(NO_NORM)        /* normalisations have neither shift nor scale */                            \
    X(UNTIED)         /* the output matrix is not the embedding table */                           \
    X(QUERY_BIAS) X(OUTPUT_BIAS) X(INNER_BIAS) X(HEAD_BIAS)                                        \
    X(QUERY_NORM)     /* queries and keys are normalised head by head */                           \
    X(WIDE_NORM)      /* queries and keys are normalised over all heads */                         \
    X(FOUR_NORMS)     /* a normalisation before and after each half of a layer */                  \
    X(ONE_NORM)       /* one normalisation per layer: halves are parallel, or a layer is a half */ \
    X(EMBEDDING_NORM) X(NO_FINAL_NORM) X(POOLED)                                                   \
    X(PROJECTS)       /* embeddings may be narrower than the layers */                             \
    X(NARROWED)       /* embeddings are narrower than the layers */                                \
    X(EXPERT)         /* has a mixture of experts */                                               \
    X(NARROW)         /* experts have a field for their width */                                   \
    X(SHARING)        /* has shared experts, which every token uses */                             \
    X(SHARED_GATE)    /* has one shared expert with a gate */                                      \
    X(ROUTER_BIAS) X(EXPERT_BIAS)                                                                  \
    X(CORRECTED)      /* has a correction number for each expert */                                \
    X(MLA)            /* keys and values are compressed */                                         \
    X(LOW_QUERY)      /* with MLA: queries are compressed, too */                                  \
    X(FULL_QUERY)     /* with MLA: queries are not compressed */                                   \
    X(SINKS) X(WINDOW_SINKS)                                                                       \
    X(WINDOWED)       /* attention has a window if the file states one */                          \
    X(WINDOW_ASKED)   /* a window only if a flag is true, from a certain layer on */               \
    X(FUSED)          /* one matrix has query, key and value: other storage rules */               \
    X(ENCODER)        /* has no cache */                                                           \
    X(PARALLEL)       /* the halves of a layer may be parallel (falcon) */                         \
    X(SEES)           /* has a tower for images */                                                 \
    X(QUERY_ALONE)    /* biases only of query, key and value; flags do not matter */               \
    X(QUERY_ASKED)    /* biases only of query, key and value, if a flag is true */                 \
    X(SINGLE)         /* one head of keys and values */                                            \
    X(OUTPUT_GATE)    /* queries have twice the width: half is a gate of the output */             \
    X(MTP)            /* layers that predict further tokens, with their own embeddings */          \
    X(MTP_BARE)       /* layers that predict further tokens, without embeddings */                 \
    /* layers may keep a state, of one of these kinds; llm_layers.c finds which layers do */       \
    X(GDN) X(KDA) X(LIGHTNING) X(MAMBA) X(MAMBA2) X(CONV) X(RWKV)                                  \
    X(BOTH)           /* each layer has attention and a state */                                   \
    X(PURE)           /* no layer has attention */                                                 \
    X(PARTS)          /* a layer is one of: a state, attention, an inner layer, experts */         \
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

/* Parts of a layer, as bits; each layer has a combination of them. */
enum {
    TN__LLM_KIND_FULL = 1,    /* the layer has attention to all earlier tokens */
    TN__LLM_KIND_WINDOW = 2,  /* the layer has attention to a window of tokens */
    TN__LLM_KIND_STATE = 4,   /* a state of constant size; the family's traits say of which kind */
    TN__LLM_KIND_DENSE = 8,   /* the layer has an inner layer (MLP) */
    TN__LLM_KIND_WIDE = 16,   /* the layer has an inner layer of twice the width */
    TN__LLM_KIND_SPARSE = 32, /* the layer has a mixture of experts */
    TN__LLM_KIND_INDEX = 64,  /* attention to tokens that are chosen by an index of keys */
    /* attention that reads the cache of another layer and has none itself */
    TN__LLM_KIND_BORROWS = 128
};

/* Kinds of towers that read images. */
typedef enum tn__llm_tower {
    TN__LLM_TOWER_NONE,
    TN__LLM_TOWER_QWEN2,
    TN__LLM_TOWER_QWEN2_5,
    TN__LLM_TOWER_QWEN3,
    TN__LLM_TOWER_PIXTRAL,
    TN__LLM_TOWER_LLAMA4,
    TN__LLM_TOWER_GEMMA4,
    TN__LLM_TOWER_INTERN,
    TN__LLM_TOWER_OTHER /* a tower with parts that are not known */
} tn__llm_tower;

typedef struct tn__llm_family {
    const char *type;
    uint64_t traits;
    uint32_t pattern; /* which layers have a window: 1: every layer, n: all but every n-th */
    struct {          /* default sizes of the model's class in transformers, for missing fields */
        uint8_t field;
        uint64_t size;
    } otherwise[12]; /* an entry of size 0 ends the array */
    struct {         /* names of sizes that only this family uses */
        uint8_t field;
        const char *name;
    } own[6];
    /* for a wrapper with towers: type of its text model, if the file does not name it */
    const char *text;
    tn__llm_tower tower;
    bool blocks; /* true if a file lists the parts of each layer in "block_configs" */
} tn__llm_family;
/* Returns the family of a model type, or NULL if the type is unknown. */
const tn__llm_family *tn__llm_family_find(const char *type);

/* Returns whether any family has `key` as its own name of a size. */
bool tn__llm_family_names(const char *key);

#define TN__LLM_NAMES 8
typedef struct tn__llm_field { /* a size that a file may state */
    /* the field is an error for families without any of these traits; 0: valid for every family */
    uint64_t belongs;
    uint64_t required; /* families with one of these traits require the field in a file */
    const char *names[TN__LLM_NAMES];
} tn__llm_field;
extern const tn__llm_field tn__llm_fields[TN__LLM_FIELD_COUNT];

typedef struct tn__llm_flag { /* a field of a file that is true or false */
    const char *name;
    uint64_t sets;   /* traits that are added if the flag is true, and removed if it is false */
    uint64_t clears; /* traits that are removed if the flag is true, and added if it is false */
    /* the flag is ignored for families without any of these traits; 0: valid for every family */
    uint64_t belongs;
    const char *only; /* model types to which the flag applies, separated by blanks; NULL: all */
} tn__llm_flag;
extern const tn__llm_flag tn__llm_flags[]; /* an entry without a name ends the array */

/* A part that the estimate does not support, with its field in a file. The part is absent if the
 * field is missing, false, or a number of at most `most`. */
typedef struct tn__llm_part {
    const char *name, *why;
    int64_t most;
    uint64_t unless; /* traits of the families that do support the part */
} tn__llm_part;
extern const tn__llm_part tn__llm_parts[]; /* an entry without a name ends the array */

/* Returns whether `key` is a field that is read here, or one that is known to have no effect on the
 * estimate. */
bool tn__llm_is_known(const char *key);

/* Returns whether `type` is one of the names in `list`, which are separated by blanks. */
bool tn__llm_is_one_of(const char *list, const char *type);

/* Returns whether `key` is a field that makes the estimate smaller and that the class of `family`
 * does not read. The field is then ignored, and reported if it says something. */
bool tn__llm_is_foreign(const char *key, const char *family);

/* The sizes of some layers of a model in which layers differ. */
#define TN__LLM_BLOCKS 64u
typedef struct tn__llm_block {
    uint64_t kv_heads, inner; /* 0: the layers have no attention, no inner layer */
    /* number of normalised parts before attention and before the inner layer, 0 or 1 */
    uint64_t first, second;
    uint64_t replaced; /* number of parts that are replaced by one square matrix */
} tn__llm_block;

typedef struct tn__llm_reading {  /* the model that is being read from one file */
    const tn__llm_family *family; /* family of the text model */
    /* family of the model with its towers; equal to `family` if there are no towers */
    const tn__llm_family *wrapper;
    uint64_t traits;
    /* sizes of the model by tn__llm_size; 0: the file does not have the size */
    uint64_t size[TN__LLM_SIZE_COUNT];
    uint8_t kind[TN__LLM_LAYERS_MOST]; /* bits TN__LLM_KIND_* of each layer */
    bool shares_keys; /* true: keys are also the values, so there is no matrix of values (gemma4) */
    /* true: the inner width is two thirds of the stated one, rounded up (lfm2) */
    bool scaled_width;
    /* true: the inner layer is twice as wide in layers that read the cache of another layer
     * (gemma4) */
    bool double_width;
    bool mixed; /* true if layers have experts in addition to an inner layer (gemma4) */
    tn__llm_block blocks[TN__LLM_BLOCKS];
    uint32_t block_count;               /* 0: all layers of a kind have the same sizes */
    uint8_t block[TN__LLM_LAYERS_MOST]; /* index into `blocks` of each layer */
    uint64_t vision_layers;
    bool drops; /* true if training uses dropout */
} tn__llm_reading;

/* Computes the sizes and traits that follow from those in the file. Errors: E_INVALID if the sizes
 * in the file are inconsistent. */
tn_status tn__llm_derive(tn__llm_reading *it, tn_error *error);
/* the parts of a model in which a matrix may occur */
typedef enum tn__llm_place {
    TN__LLM_ONCE,
    TN__LLM_LAYER,
    TN__LLM_ATTENDS, /* the matrix is in each layer with attention, full or windowed */
    TN__LLM_IN_FULL,
    TN__LLM_IN_WINDOW,
    TN__LLM_STATES_IN, /* the matrix is in each layer with a state */
    TN__LLM_INDEXED,
    TN__LLM_DENSE, /* the matrix is in each layer with an inner layer (MLP) */
    TN__LLM_WIDER,
    TN__LLM_SPARSE, /* the matrix is in each layer with experts */
    TN__LLM_AHEAD,  /* the matrix is only in layers that predict further tokens */
    TN__LLM_ENCODER,
    TN__LLM_DECODER,
    TN__LLM_TOWERS, /* the matrix is in each layer of a tower for images */
    TN__LLM_PLACES
} tn__llm_place;
typedef struct tn__llm_row {
    const char *name;
    tn_llm_role role;
    tn__llm_place place;
    tn__llm_size rows, columns, each;
    /* the row applies to families with all traits of `with` and none of `without` */
    uint64_t with, without;
} tn__llm_row;
/* Returns the rows for a transformer with these traits. */
const tn__llm_row *tn__llm_rows(uint64_t traits, size_t *count);

/* Computes the matrices, the numbers of parameters, and the sizes of the cache. */
tn_status tn__llm_count(tn__llm_reading *it, tn_llm *llm, tn_error *error);
/* Adds layers to the group of the cache that has the given sizes. If there are too many groups, the
 * last group gets the layers, and its sizes become an upper bound for them. */
void tn__llm_cache_add(tn_llm_cache *cache, const tn_llm_cache_group *more);
/* Returns the bytes of weights[index] in layer `layer`. */
uint64_t tn__llm_weight_in(const tn_llm *llm, uint32_t index, const tn_llm_scheme *scheme,
                           uint64_t layer);
/* The number that stands for a mix with an unknown name. */
#define TN__LLM_MIX_NONE UINT32_MAX

/* Replaces the estimate of the whole model by that of the device that needs most memory. */
tn_status tn__llm_divide(const tn_llm *llm, const tn_llm_options *options, tn_llm_estimate *made,
                         tn_error *error);
/* Returns the bytes of a group of the cache, with `tokens` tokens per sequence in each of its
 * layers. */
uint64_t tn__llm_cache_bytes(const tn_llm_cache_group *group, tn_weight_type type, uint64_t tokens);
/* Returns how many entries a group keeps of a sequence. */
uint64_t tn__llm_cache_kept(const tn_llm_cache_group *group, const tn_llm_options *options);

#ifndef TENURE_MINIMAL
#include "base/json.h"
/* Reads how the weights are stored, from "quantization_config" and "dtype". */
tn_status tn__llm_stored(const json_t *root, const json_t *inner, tn_llm *llm, tn_error *error);
/* Finds the kind of each layer. Fields are looked up in `inner`, then in `root`. */
tn_status tn__llm_layers(tn__llm_reading *it, const json_t *inner, const json_t *root, tn_llm *llm,
                         tn_error *error);
/* Counts the parameters of the tower. Errors: E_UNSUPPORTED if its parts are not known. */
tn_status tn__llm_tower_count(tn__llm_reading *it, const json_t *vision, tn_error *error);
#endif

#endif
