/* llm.h - estimates the memory to run a transformer from its config.json: weights, KV cache,
 * workspace.
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
 * A model family ("model_type") is a row of a table with its kinds of layers and the matrices of
 * each kind. Parameters are counted matrix by matrix. A family that is not in the table is an
 * error, and so is a field that changes the count but has no known meaning in the family. Unknown
 * fields are named (tn_llm.unread). An uncertain size is counted at its upper bound or reported as
 * unknown.
 * Units: bytes, tokens. Threads: everything is read only.
 */
#ifndef TENURE_LLM_H
#define TENURE_LLM_H

#include <tenure/transformer.h>
#include <tenure/weights.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The role of a matrix, which decides how it is stored: X(name, text). */
/* clang-format off */
#define TN_LLM_ROLE_TABLE(X)                                                                       \
    X(EMBEDDING, "embedding")   /* token embeddings; also the output matrix if tied */             \
    X(TABLE, "positions")       /* embeddings of positions and token types */                      \
    X(ATTENTION, "attention")   X(INNER, "inner")         /* products of the layers */             \
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

typedef struct tn_llm_weight { /* matrices of the same size */
    const char *name;          /* "q_proj" */
    tn_llm_role role;
    uint64_t rows, columns; /* outputs and inputs; for a vector 1 and its length */
    /* the first layer and the number of layers; layers 0: outside the layers */
    uint64_t first, layers;
    uint64_t each; /* matrices per layer: number of experts, else 1 */
    /* Belongs to a layer that predicts further tokens (multi-token prediction); most runtimes do
     * not load it. */
    bool extra;
    bool scattered; /* its layers are not consecutive */
} tn_llm_weight;

#define TN_LLM_WEIGHTS_MAX 240u
#define TN_LLM_GROUPS_MAX 32u

/* Layers that keep the same amount of data per token. */
typedef struct tn_llm_cache_group {
    uint64_t layers;
    uint64_t window; /* only the last `window` tokens are kept; 0: all tokens */
    /* Elements per token and layer. With compressed attention there is only `key`. */
    uint64_t key, value;
} tn_llm_cache_group;

/* The cache of one sequence. */
typedef struct tn_llm_cache {
    tn_llm_cache_group groups[TN_LLM_GROUPS_MAX];
    uint32_t group_count;  /* 0 without state_layers and cross_layers: an encoder, without cache */
    uint64_t state_layers; /* layers with a state that does not grow with the sequence */
    uint64_t state;        /* elements of these states in all layers; kept as float32 */
    uint64_t cross_layers; /* layers that attend to the tokens of an encoder */
    uint64_t cross_tokens; /* tokens of the encoder; 0: as many as the sequence has */
    uint64_t cross_key;    /* elements of a key there; a value has the same number */
} tn_llm_cache;
/* The number of layers that keep all tokens, or (windowed) only a window. */
TN_API uint64_t tn_llm_cache_layers(const tn_llm_cache *cache, bool windowed);

/* How weights are stored. */
typedef enum tn_llm_packing {
    TN_PACK_PLAIN,   /* all weights in `type` */
    TN_PACK_GROUPS,  /* products in `bits`, with scales per group; the rest in `type` */
    TN_PACK_ROWS,    /* products in 8 bits, with a 4-byte scale per row; the rest in `type` */
    TN_PACK_TILES,   /* all in 8 bits, with a 4-byte scale per tile of 128 x 128 */
    TN_PACK_EXPERTS, /* experts in MXFP4; the rest in `type` */
    TN_PACK_MIX,     /* by the rules of llama.cpp, tensor by tensor */
    TN_PACK_UNKNOWN  /* the file names an unsupported packing (see `name`) */
} tn_llm_packing;
typedef struct tn_llm_scheme {
    tn_llm_packing packing;
    tn_weight_type type;
    uint32_t mix;               /* for TN_PACK_MIX */
    uint32_t bits;              /* for TN_PACK_GROUPS */
    uint32_t group, group_bits; /* elements of a group; bits of its scale data */
    /* elements of a group of groups; bits of its scale data; 0: not used */
    uint32_t outer, outer_bits;
    uint32_t input_bits; /* bits stored per input of a product */
    char name[24];       /* "bf16", "int4", "q4_k_m" */
} tn_llm_scheme;
/* Finds a scheme by name: f32, f16, bf16, f8, int8, int4, nf4, gptq, awq, mxfp4, and the mixes of
 * llama.cpp (q8_0, q4_k_m, ...). Errors: E_UNKNOWN (the message lists all names). */
TN_API TN_CHECKED tn_status tn_llm_scheme_find(const char *name, tn_llm_scheme *scheme,
                                               tn_error *error);

typedef struct tn_llm {
    char type[40]; /* "llama" */
    bool guessed;  /* there is no "model_type"; the kind was inferred from the keys */
    /* A .gguf file states its members from `hidden` to `positions`; the others are then 0, and
     * `gated` is assumed. */
    tn_transformer model;
    /* width of queries and of keys per token; the widest, if layers differ */
    uint64_t query_width, key_width;
    uint64_t experts, chosen; /* per layer; 0: no experts */
    tn_llm_cache cache;       /* all 0: an encoder, without cache */
    uint64_t parameters;      /* each counted once, without the extra ones */
    uint64_t active;          /* parameters used per token, counting only the chosen experts */
    uint64_t extra;           /* parameters of layers that predict further tokens */
    uint64_t missing;         /* layers without any tensor in a .gguf file */
    tn_llm_scheme stored;     /* the packing stated by the file */
    /* Unknown keys, separated by commas. If one of them changes the count, that change is missing.
     */
    char unread[400];
    /* The model may need more than is counted: a key of a config.json or the architecture of a
     * .gguf file is unknown, or a file next to it is not counted. A total below a limit then proves
     * nothing. */
    bool unproved;
    char note[200]; /* a conservative assumption, as a sentence; empty: not needed */
    /* A component with an unknown number of parameters; empty: everything is counted. If not empty,
     * the bytes of the weights must come from a file (tn_llm_options.weight_bytes). */
    char uncounted[96];
    tn_llm_weight weights[TN_LLM_WEIGHTS_MAX];
    uint32_t weight_count;
} tn_llm;

/* Reads a config.json of Hugging Face. docs/llm.md lists families and fields.
 *
 * name  used in messages
 * Errors: E_INVALID (not JSON; missing or implausible fields; all missing fields are listed),
 * E_UNKNOWN (the model_type is not in the table), E_UNSUPPORTED (a field that changes the count and
 * is not known for this family; built without jansson), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_llm_config(const char *name, const void *bytes, size_t size,
                                          tn_llm *llm, tn_error *error);
/* The known families (`tenure list families`); NULL if the index is out of range. */
TN_API const char *tn_llm_family(uint32_t index);
/* Reads the description in a .gguf file. Sizes, cache and workspace are known, and weights are
 * those of the file (tn_weights_total). The cache is that of llama.cpp: windows and states by
 * architecture. In an unknown architecture every layer is counted in full (see `note`).
 * Errors: E_INVALID (a missing or implausible key), E_UNSUPPORTED (an unknown architecture with
 * layers that keep a state). */
TN_API TN_CHECKED tn_status tn_llm_gguf(const tn_weights *weights, tn_llm *llm, tn_error *error);

/* Bytes of all matrices of weights[index] in this scheme. UINT64_MAX: overflow. */
TN_API uint64_t tn_llm_weight_bytes(const tn_llm *llm, uint32_t index, const tn_llm_scheme *scheme);

/* Runtimes. Each of them uses memory beyond weights, cache and workspace: X(name, text). */
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
TN_API tn_llm_runtime tn_llm_runtime_find(const char *name); /* TN_LLM_RUNTIME_COUNT: not found */
/* The bytes of a device with `capacity` bytes that this runtime uses by default (vllm: 90 %). */
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
/* Reads the layer of a tensor from its name ("blk.3.attn_q.weight", "model.layers.3.mlp.weight").
 * Cost: O(tensors). */
TN_API void tn_llm_stored_read(const tn_weights *weights, tn_llm_stored *stored);

typedef struct tn_llm_options {
    size_t struct_size;
    uint64_t batch;    /* concurrent sequences; 0: 1 */
    uint64_t sequence; /* tokens per sequence; 0: the model's maximum */
    /* Tokens of one pass through the layers, over all sequences; 0: the default of the runtime
     * (none 2048, llama.cpp 512, vllm 8192, transformers all). */
    uint64_t pass;
    const tn_llm_scheme *scheme; /* how weights are stored; NULL: as the file states */
    uint64_t weight_bytes;       /* bytes of the weights if known, as from a file; 0: counted */
    tn_weight_type cache_type;   /* TN_WEIGHT_TYPE_COUNT: bf16 */
    bool keep_all;               /* layers with a window keep all tokens, as in some runtimes */
    bool extra;                  /* include the layers that predict further tokens */
    tn_llm_runtime runtime;
    /* Several devices, and host memory: the estimate is that of the fullest device. */
    uint32_t devices;      /* equal devices that share the model; 0: 1 */
    bool by_tensor;        /* each device holds a part of every matrix; false: whole layers */
    uint64_t host_layers;  /* the first so many layers stay in host memory with their cache */
    uint64_t host_experts; /* of the first so many layers the routed experts stay in host memory */
    const tn_llm_stored *stored; /* `weight_bytes` by layer; NULL: layers are counted */
} tn_llm_options;
#define TN_LLM_OPTIONS_INIT                                                                        \
    TN_INIT(tn_llm_options,                                                                        \
            TN_SET(struct_size, sizeof(tn_llm_options)) TN_SET(cache_type, TN_WEIGHT_TYPE_COUNT))

typedef struct tn_llm_estimate {
    uint64_t weights, cache, workspace;
    /* Memory of the runtime beyond those three: its context on a device, wider buffers, rounding of
     * the cache. */
    uint64_t runtime;
    uint64_t total;                                              /* the sum of the four */
    uint64_t batch, sequence, pass;                              /* the values used */
    uint64_t cache_full, cache_window, cache_state, cache_cross; /* categories of `cache` */
    /* bytes per additional token of one sequence while windows are not full */
    uint64_t cache_token;
    uint64_t cache_allocated; /* the cache as the runtime rounds it */
    uint64_t context;         /* part of `runtime`: the context on the device */
    const char *workspace_at; /* the step that needs most: "attention", "inner", "output" */
    uint32_t devices;         /* the value used */
    uint64_t host_weights, host_cache; /* bytes in host memory, at most; not part of `total` */
} tn_llm_estimate;

/* Estimates the memory to run a model. Workspace is the bytes that one step of a pass reads and
 * writes at once, in elements of 2 bytes (logits, for one token per sequence, in 4), with attention
 * that stores no score matrix: a lower bound for every runtime. `runtime` is an upper estimate by
 * formulas from the source of the runtime (docs/llm.md); with TN_LLM_RUN_NONE the total is a lower
 * bound. Errors: E_INVALID (no sequence length in options and file; a sequence longer than the
 * table of learned positions; 2^64 bytes or more; a size above 2^40; a number of devices that does
 * not divide the attention heads), E_UNSUPPORTED (weights with unknown bytes, or with unknown bytes
 * by layer if the model is divided).
 *
 * With several devices or with parts in host memory, `weights`, `cache`, `runtime` and `total` are
 * upper bounds for the fullest device: each device holds ceil(layers / devices) layers in a row;
 * the layers with the largest caches count for one device; tensors outside of the layers count on
 * it; buffers are not divided. cache_full, cache_window, cache_state and cache_cross describe the
 * whole model. */
TN_API TN_CHECKED tn_status tn_llm_estimate_make(const tn_llm *llm, const tn_llm_options *options,
                                                 tn_llm_estimate *estimate, tn_error *error);
/* The largest batch (longest false) or sequence (longest true) within `limit` bytes, with all other
 * `options`; 0: not even 1 fits. */
TN_API uint64_t tn_llm_most(const tn_llm *llm, const tn_llm_options *options, uint64_t limit,
                            bool longest);

#ifdef __cplusplus
}
#endif
#endif
