/* llm.h - what a transformer takes to run: weights, cache of keys and values, workspace; from its
 * config.json.
 *
 *     const char json[] =
 *         "{\"model_type\": \"llama\", \"hidden_size\": 2048, \"vocab_size\": 128256,"
 *         " \"num_hidden_layers\": 16, \"num_attention_heads\": 32,"
 *         " \"num_key_value_heads\": 8, \"intermediate_size\": 8192,"
 *         " \"max_position_embeddings\": 131072, \"tie_word_embeddings\": true}";
 *     static tn_llm llm; // large: not on a small stack
 *     tn_llm_options options = TN_LLM_OPTIONS_INIT;
 *     tn_llm_estimate estimate;
 *     tn_error error;
 *     options.batch = 8;
 *     if (tn_llm_config("config.json", json, sizeof json - 1, &llm, &error) ||
 *         tn_llm_estimate_make(&llm, &options, &estimate, &error))
 *         return fprintf(stderr, "%s: %s\n", error.where, error.message), 2;
 *     printf("%llu parameters, %llu bytes\n", (unsigned long long)llm.parameters,
 *            (unsigned long long)estimate.total);
 *
 * A family of models ("model_type") is a row of a table: which kinds of layers it has, and which
 * matrices each kind has. Parameters are counted matrix by matrix. A family that is not in the
 * table is refused, a field that changes the count and has no meaning in the family is refused,
 * and a field that the reader does not know is named (tn_llm.unread). Whatever is not certain is
 * counted at its upper bound, or reported as unknown.
 * Units: bytes, tokens. Threads: everything is read only.
 */
#ifndef TENURE_LLM_H
#define TENURE_LLM_H

#include <tenure/weights.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a matrix is for: it decides how it is stored. X(name, text). */
/* clang-format off */
#define TN_LLM_ROLE_TABLE(X)                                                                       \
    X(EMBEDDING, "embedding")   /* of tokens; it is the output matrix, too, where that is tied */  \
    X(TABLE, "positions")       /* of positions, of token types: other tables */                   \
    X(ATTENTION, "attention")   X(INNER, "inner")         /* the layers' products */               \
    X(EXPERTS, "experts")       X(ROUTER, "router")                                                \
    X(VECTOR, "norms, biases")  X(HEAD, "output")         X(VISION, "vision")
/* clang-format on */
typedef enum tn_llm_role {
#define TN_X(name, text) TN_LLM_##name,
    TN_LLM_ROLE_TABLE(TN_X)
#undef TN_X
        TN_LLM_ROLE_COUNT
} tn_llm_role;
TN_API const char *tn_llm_role_name(tn_llm_role role);

typedef struct tn_llm_weight { /* matrices of one size */
    const char *name;          /* "q_proj" */
    tn_llm_role role;
    uint64_t rows, columns; /* outputs, inputs; of a vector: 1, its length */
    uint64_t first, layers; /* in which layers; layers 0: outside of them */
    uint64_t each;          /* in each: experts, else 1 */
    bool extra;     /* of a layer that predicts further tokens: most run times do not load it */
    bool scattered; /* the layers do not follow each other */
} tn_llm_weight;

#define TN_LLM_WEIGHTS_MAX 240u
#define TN_LLM_GROUPS_MAX 32u

/* Layers that keep the same numbers of each token. */
typedef struct tn_llm_cache_group {
    uint64_t layers;
    uint64_t window;     /* they keep the last `window` tokens; 0: all tokens */
    uint64_t key, value; /* numbers of a token in a layer; compressed attention: the key alone */
} tn_llm_cache_group;

/* The numbers that one sequence keeps between tokens. */
typedef struct tn_llm_cache {
    tn_llm_cache_group groups[TN_LLM_GROUPS_MAX];
    uint32_t group_count;  /* 0, with no state and no cross_layers: an encoder, which keeps none */
    uint64_t state_layers; /* layers with a state that does not grow with the sequence */
    uint64_t state;        /* numbers of those states, all layers; kept as float32 */
    uint64_t cross_layers; /* layers that attend to the tokens of an encoder */
    uint64_t cross_tokens; /* tokens of the encoder; 0: as many as the sequence has */
    uint64_t cross_key;    /* numbers of a key there; its value has as many */
} tn_llm_cache;
/* Layers that keep all tokens, and layers that keep a window of them. */
TN_API uint64_t tn_llm_cache_layers(const tn_llm_cache *cache, bool windowed);

/* How weights are stored. */
typedef enum tn_llm_packing {
    TN_PACK_PLAIN,  /* all in `type` */
    TN_PACK_GROUPS, /* products in `bits`, with scales of groups; the rest in `type` */
    TN_PACK_ROWS,   /* products in 8 bits, with a scale of 4 bytes a row; the rest in `type` */
    TN_PACK_TILES, /* products in 8 bits, with a scale of 4 bytes for 128 x 128; the rest so, too */
    TN_PACK_EXPERTS, /* experts in MXFP4; the rest in `type` */
    TN_PACK_MIX,     /* by llama.cpp's rules, tensor by tensor */
    TN_PACK_UNKNOWN  /* the file names a packing that is not supported (its name) */
} tn_llm_packing;
typedef struct tn_llm_scheme {
    tn_llm_packing packing;
    tn_weight_type type;
    uint32_t mix;               /* of TN_PACK_MIX */
    uint32_t bits;              /* of TN_PACK_GROUPS */
    uint32_t group, group_bits; /* numbers of a group; what is kept of it, in bits */
    uint32_t outer, outer_bits; /* numbers of a group of groups, and so on; 0: none */
    uint32_t input_bits;        /* what is kept of each input of a product, in bits */
    char name[24];              /* "bf16", "int4", "q4_k_m" */
} tn_llm_scheme;
/* By name: f32, f16, bf16, f8, int8, int4, nf4, gptq, awq, mxfp4, and the mixes of llama.cpp (q8_0,
 * q4_k_m, ...). Errors: E_UNKNOWN (those that there are are listed). */
TN_API TN_CHECKED tn_status tn_llm_scheme_find(const char *name, tn_llm_scheme *scheme,
                                               tn_error *error);

typedef struct tn_llm {
    char type[40]; /* "llama" */
    bool guessed;  /* no "model_type": the keys tell which kind it is */
    uint64_t hidden, layers, heads, kv_heads, vocabulary;
    uint64_t query_width, key_width; /* of a token, as products make them; keys once */
    uint64_t inner;                  /* width of the products that a token takes between: of experts
                                      * those that are chosen */
    bool gated;                      /* two such products, and one back */
    uint64_t experts, chosen;        /* 0: none */
    uint64_t positions;              /* the most tokens that it was made for; 0: not said */
    tn_llm_cache cache;              /* all 0: an encoder, which keeps none */
    uint64_t parameters;             /* each once, without the extra ones */
    uint64_t active;                 /* that a token meets: of experts those that are chosen */
    uint64_t extra;                  /* of layers that predict further tokens */
    uint64_t missing;                /* layers of which a .gguf file has no tensor */
    tn_llm_scheme stored;            /* as the file says */
    char unread[400];   /* keys that are not known, with commas; a change of the count that they
                         * stand for, if any, is missing */
    char note[200];     /* an assumption on the safe side, as a sentence; empty: none */
    char uncounted[96]; /* a part whose parameters are not known; empty: none. Then the bytes of
                         * the weights must come from a file (tn_llm_options.weight_bytes) */
    tn_llm_weight weights[TN_LLM_WEIGHTS_MAX];
    uint32_t weight_count;
} tn_llm;

/* Reads a config.json of Hugging Face. docs/llm.md lists families and fields.
 * E_UNKNOWN: the model_type is not in the table.
 *
 * name  for messages
 * Errors: E_INVALID (no JSON; fields that are missing or make no sense, all that are missing at
 * once), E_UNKNOWN (the model_type), E_UNSUPPORTED (a field that changes what is counted, and
 * is not part of this family as it is known here; built without jansson), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_llm_config(const char *name, const void *bytes, size_t size,
                                          tn_llm *llm, tn_error *error);
/* The families that are known, for `tenure list families`; NULL outside. */
TN_API const char *tn_llm_family(uint32_t index);
/* The same from what a .gguf file says of itself: sizes, cache and workspace are known, weights are
 * those of the file (tn_weights_total). The cache is that of llama.cpp: windows and states by
 * architecture; every layer of an architecture that is not known is counted in full (`note`).
 * Errors: E_INVALID (a key that is missing or makes no sense), E_UNSUPPORTED (an architecture that
 * is not known with layers that keep a state). */
TN_API TN_CHECKED tn_status tn_llm_gguf(const tn_weights *weights, tn_llm *llm, tn_error *error);

/* Bytes of weights[index], all of them, stored so. UINT64_MAX: more than that. */
TN_API uint64_t tn_llm_weight_bytes(const tn_llm *llm, uint32_t index, const tn_llm_scheme *scheme);

/* Programs that run a model. Each keeps more than weights, cache and workspace: X(name, text). */
/* clang-format off */
#define TN_LLM_RUNTIME_TABLE(X)                                                                    \
    X(NONE, "none")                   /* nothing is added: a lower bound */                        \
    X(LLAMA_CPP, "llama.cpp")         /* with flash attention */                                   \
    X(VLLM, "vllm")                   X(TRANSFORMERS, "transformers")
/* clang-format on */
typedef enum tn_llm_runtime {
#define TN_X(name, text) TN_LLM_RUN_##name,
    TN_LLM_RUNTIME_TABLE(TN_X)
#undef TN_X
        TN_LLM_RUNTIME_COUNT
} tn_llm_runtime;
TN_API const char *tn_llm_runtime_name(tn_llm_runtime runtime);
TN_API tn_llm_runtime tn_llm_runtime_find(const char *name); /* TN_LLM_RUNTIME_COUNT: none */
/* The bytes of a device of `capacity` bytes that this program uses by default (vllm: 90 %). */
TN_API uint64_t tn_llm_runtime_usable(tn_llm_runtime runtime, uint64_t capacity);

/* Bytes of weights by layer, as the files of a model store them. */
#define TN_LLM_LAYERS_MAX 1024u
typedef struct tn_llm_stored {
    uint32_t layers;  /* one more than the largest index of a layer; 0: no name contains one */
    uint64_t outside; /* tensors outside of the layers: embeddings, output, towers */
    uint64_t vectors; /* tensors of one row, which every device of a tensor-parallel run holds */
    uint64_t layer[TN_LLM_LAYERS_MAX];   /* each layer, with its experts */
    uint64_t experts[TN_LLM_LAYERS_MAX]; /* the routed experts of each layer */
} tn_llm_stored;
/* Reads the layer of a tensor from its name ("blk.3.attn_q.weight", "model.layers.3.mlp.up.weight").
 * Cost: O(tensors). */
TN_API void tn_llm_stored_read(const tn_weights *weights, tn_llm_stored *stored);

typedef struct tn_llm_options {
    size_t struct_size;
    uint64_t batch;    /* sequences at once; 0: 1 */
    uint64_t sequence; /* tokens of each; 0: as many as it was made for */
    uint64_t pass;     /* tokens of one pass through the layers, of all sequences; 0: the default
                        * of the run time (none 2048, llama.cpp 512, vllm 8192, transformers all) */
    const tn_llm_scheme *scheme; /* of weights; NULL: as the file says */
    uint64_t weight_bytes;       /* of weights, where they are known: a file's; 0: counted */
    tn_weight_type cache_type;   /* TN_WEIGHT_TYPE_COUNT: bf16 */
    bool keep_all;               /* layers with a window keep all tokens, as some run times do */
    bool extra;                  /* with the layers that predict further tokens */
    tn_llm_runtime runtime;
    /* Several devices, and the host. The estimate is then that of the fullest device. */
    uint32_t devices;      /* equal devices that share the model; 0: 1 */
    bool by_tensor;        /* each device holds a part of every matrix; false: whole layers */
    uint64_t host_layers;  /* the first so many layers stay in host memory with their cache */
    uint64_t host_experts; /* of the first so many layers the routed experts stay in host memory */
    const tn_llm_stored *stored; /* with `weight_bytes`, by layer; else the layers are counted */
} tn_llm_options;
#define TN_LLM_OPTIONS_INIT                                                                        \
    TN_INIT(tn_llm_options,                                                                        \
            TN_SET(struct_size, sizeof(tn_llm_options)) TN_SET(cache_type, TN_WEIGHT_TYPE_COUNT))

typedef struct tn_llm_estimate {
    uint64_t weights, cache, workspace;
    uint64_t runtime; /* what the run time keeps beyond those three: its context on a device, wider
                       * buffers, a cache that is rounded up */
    uint64_t total;   /* of the four */
    uint64_t batch, sequence, pass;                              /* as they were taken */
    uint64_t cache_full, cache_window, cache_state, cache_cross; /* of `cache` */
    uint64_t cache_token;     /* bytes of one more token of one sequence, windows not yet full */
    uint64_t cache_allocated; /* the cache with the rounding of the run time */
    uint64_t context;         /* of `runtime`: the context on the device */
    const char *workspace_at; /* the step that needs the most: "attention", "inner", "output" */
    uint32_t devices;         /* as they were taken */
    uint64_t host_weights, host_cache; /* bytes in host memory, at most; beside `total` */
} tn_llm_estimate;

/* Workspace is the bytes that one step of a pass reads and writes at once, in numbers of 2 bytes
 * (logits, of one token a sequence, in 4), with attention that writes no matrix of scores: a lower
 * bound for every run time. The share of a run time is an upper estimate by formulas from its
 * source (docs/llm.md); with TN_LLM_RUN_NONE the total is a lower bound. Errors: E_INVALID (no
 * sequence is given and the file says none; more positions than there are; 2^64 bytes or more; a
 * size above 2^40; devices that do not divide the heads), E_UNSUPPORTED (weights whose bytes are not
 * known, or not known by layer where that is needed).
 *
 * With several devices or with layers on the host, `weights`, `cache`, `runtime` and `total` are of
 * the fullest device, at most: devices hold runs of ceil(layers / devices) layers, the layers of the
 * largest caches are taken for those of one device, tensors outside of the layers count on it, and
 * buffers are not divided. cache_full, cache_window, cache_state and cache_cross stay those of the
 * whole model. */
TN_API TN_CHECKED tn_status tn_llm_estimate_make(const tn_llm *llm, const tn_llm_options *options,
                                                 tn_llm_estimate *estimate, tn_error *error);
/* The largest batch (with longest false) or sequence (true) within `limit` bytes beside what else
 * `options` say; 0: not even 1. */
TN_API uint64_t tn_llm_most(const tn_llm *llm, const tn_llm_options *options, uint64_t limit,
                            bool longest);

#ifdef __cplusplus
}
#endif
#endif
