/* llm.h - estimates the memory to run a transformer, and reads files of weights.
 */
#ifndef TENURE_LLM_H
#define TENURE_LLM_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/llm.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

#include <tenure/estimate.h>
#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- weights --------------------------------------------------------------------------------- */

/* Reads files of weights (.safetensors, .gguf): their tensors, by name.
 *
 *     tn_weights *weights;
 *     tn_error error;
 *     if (tn_weights_open("no-such-model.safetensors", NULL, &weights, &error) == TN_OK) {
 *         tn_weights_sum sum = tn_weights_total(weights);
 *         printf("%llu numbers in %llu bytes\n", (unsigned long long)sum.elements,
 *                (unsigned long long)sum.bytes);
 *         tn_weights_close(weights);
 *     } else
 *         printf("%s: %s\n", error.where, error.message);
 *
 * Opening reads only the headers; the data are mapped, and read from disk when they are used. Files
 * are not trusted: every count, offset and size is checked against the file.
 * Units: bytes.
 * Threads: any number of threads may read open weights.
 */

/* Storage types of numbers: X(name, text, number in .gguf files or -1, name in .safetensors files
 * or "", numbers per block, bytes per block, element type or UNDEFINED if blocks have scales or the
 * type has no tn_dtype). */
/* clang-format off */
#define TN_WEIGHT_TYPE_TABLE(X)                                                                    \
    X(F32, "f32", 0, "F32", 1, 4, FLOAT32)       X(F16, "f16", 1, "F16", 1, 2, FLOAT16)            \
    X(BF16, "bf16", 30, "BF16", 1, 2, BFLOAT16)  X(F64, "f64", 28, "F64", 1, 8, FLOAT64)           \
    X(I8, "i8", 24, "I8", 1, 1, INT8)            X(U8, "u8", -1, "U8", 1, 1, UINT8)                \
    X(I16, "i16", 25, "I16", 1, 2, INT16)        X(U16, "u16", -1, "U16", 1, 2, UINT16)            \
    X(I32, "i32", 26, "I32", 1, 4, INT32)        X(U32, "u32", -1, "U32", 1, 4, UINT32)            \
    X(I64, "i64", 27, "I64", 1, 8, INT64)        X(U64, "u64", -1, "U64", 1, 8, UINT64)            \
    X(BOOL, "bool", -1, "BOOL", 1, 1, BOOL)      X(C64, "c64", -1, "C64", 1, 8, COMPLEX64)         \
    X(F8_E4M3, "f8_e4m3", -1, "F8_E4M3", 1, 1, FLOAT8E4M3FN)                                       \
    X(F8_E5M2, "f8_e5m2", -1, "F8_E5M2", 1, 1, FLOAT8E5M2)                                         \
    X(F8_E8M0, "f8_e8m0", -1, "F8_E8M0", 1, 1, FLOAT8E8M0)                                         \
    X(F6_E2M3, "f6_e2m3", -1, "F6_E2M3", 4, 3, UNDEFINED)                                          \
    X(F6_E3M2, "f6_e3m2", -1, "F6_E3M2", 4, 3, UNDEFINED)                                          \
    X(F4, "f4", -1, "F4", 2, 1, FLOAT4E2M1)                                                        \
    X(Q8_0, "q8_0", 8, "", 32, 34, UNDEFINED)    X(Q4_0, "q4_0", 2, "", 32, 18, UNDEFINED)         \
    X(Q4_1, "q4_1", 3, "", 32, 20, UNDEFINED)    X(Q5_0, "q5_0", 6, "", 32, 22, UNDEFINED)         \
    X(Q5_1, "q5_1", 7, "", 32, 24, UNDEFINED)    X(Q2_K, "q2_k", 10, "", 256, 84, UNDEFINED)       \
    X(Q3_K, "q3_k", 11, "", 256, 110, UNDEFINED) X(Q4_K, "q4_k", 12, "", 256, 144, UNDEFINED)      \
    X(Q5_K, "q5_k", 13, "", 256, 176, UNDEFINED) X(Q6_K, "q6_k", 14, "", 256, 210, UNDEFINED)      \
    X(IQ2_XXS, "iq2_xxs", 16, "", 256, 66, UNDEFINED)                                              \
    X(IQ2_XS, "iq2_xs", 17, "", 256, 74, UNDEFINED)                                                \
    X(IQ3_XXS, "iq3_xxs", 18, "", 256, 98, UNDEFINED)                                              \
    X(IQ1_S, "iq1_s", 19, "", 256, 50, UNDEFINED)                                                  \
    X(IQ4_NL, "iq4_nl", 20, "", 32, 18, UNDEFINED)                                                 \
    X(IQ3_S, "iq3_s", 21, "", 256, 110, UNDEFINED)                                                 \
    X(IQ2_S, "iq2_s", 22, "", 256, 82, UNDEFINED)                                                  \
    X(IQ4_XS, "iq4_xs", 23, "", 256, 136, UNDEFINED)                                               \
    X(IQ1_M, "iq1_m", 29, "", 256, 56, UNDEFINED)                                                  \
    X(TQ1_0, "tq1_0", 34, "", 256, 54, UNDEFINED)                                                  \
    X(TQ2_0, "tq2_0", 35, "", 256, 66, UNDEFINED)                                                  \
    X(MXFP4, "mxfp4", 39, "", 32, 17, UNDEFINED) X(NVFP4, "nvfp4", 40, "", 64, 36, UNDEFINED)
/* clang-format on */
typedef enum tn_weight_type {
#define TN_X(name, text, gguf, safetensors, block, bytes, dtype) TN_WEIGHT_##name,
    TN_WEIGHT_TYPE_TABLE(TN_X)
#undef TN_X
        TN_WEIGHT_TYPE_COUNT
} tn_weight_type;
/* Returns the name of a storage type, such as "q4_k"; "?" if the value is out of range. */
TN_API const char *tn_weight_type_name(tn_weight_type type);
/* Finds a storage type by its name, ignoring case; TN_WEIGHT_TYPE_COUNT: not known. */
TN_API tn_weight_type tn_weight_type_find(const char *name);
/* Returns the element type of a storage type; UNDEFINED: no tn_dtype corresponds to it. */
TN_API tn_dtype tn_weight_type_dtype(tn_weight_type type);
/* Returns the numbers per block; 0: the value is out of range. */
TN_API uint32_t tn_weight_type_block(tn_weight_type type);
/* Returns the bytes of `rows` rows of `columns` numbers. A row is a whole number of blocks, rounded
 * up. Saturates at UINT64_MAX. */
TN_API uint64_t tn_weight_type_bytes(tn_weight_type type, uint64_t rows, uint64_t columns);

typedef struct tn_weight { /* A tensor in a file of weights. */
    const char *name;      /* UTF-8 */
    tn_weight_type type;
    uint32_t rank;
    /* [rank] the extents, outermost first (.gguf files store the reverse order) */
    const int64_t *shape;
    uint64_t elements;
    uint64_t size; /* bytes */
    /* [size] the data, unaligned; NULL: only a header or an index is present, without the data */
    const uint8_t *bytes;
} tn_weight;

typedef struct tn_weights tn_weights;

/* Maps a .safetensors or .gguf file, recognised by its content, and reads its header. A
 * `.safetensors.index.json` and the first part of a multi-part .gguf file stand for all their parts
 * in the same folder. A folder stands for its index, its only file, or the numbered parts of its
 * only model.
 *
 * context  NULL or outlives the weights
 *
 * Errors: E_IO (also for a missing part), E_INVALID (a damaged or truncated file, with the fault
 * and its position; a folder with several models or with a missing part), E_UNKNOWN (a folder
 * without weights), E_UNSUPPORTED (another format, for known ones with advice how to export; a type
 * that is not in the table), E_NO_MEMORY. Cost: O(headers). */
TN_API TN_CHECKED tn_status tn_weights_open(const char *path, const tn_context *context,
                                            tn_weights **weights, tn_error *error);
/* Reads weights from one file in memory; otherwise like tn_weights_open. The memory is not copied
 * and must outlive the weights.
 *
 * name  for messages; copied
 */
TN_API TN_CHECKED tn_status tn_weights_read(const char *name, const void *bytes, size_t size,
                                            const tn_context *context, tn_weights **weights,
                                            tn_error *error);
TN_API void tn_weights_close(tn_weights *weights); /* Closes weights; NULL has no effect. */

/* Whether the suffix of a file name is one that tn_weights_open supports. */
TN_API bool tn_weights_recognises(const char *path);
/* Whether a path is a folder, which may contain a model. */
TN_API bool tn_weights_is_folder(const char *path);
/* Returns advice how to export a model of an unsupported format, by the suffix of its file: one
 * sentence for messages. NULL: there is no advice, or the format is supported. */
TN_API const char *tn_weights_how_to_export(const char *path);

/* Returns the format: "safetensors", "gguf". */
TN_API const char *tn_weights_format(const tn_weights *weights);
/* Returns the number of files of which the model consists. */
TN_API uint32_t tn_weights_files(const tn_weights *weights);
TN_API uint32_t tn_weights_count(const tn_weights *weights);
/* Returns a tensor by its index; NULL if the index is out of range. */
TN_API const tn_weight *tn_weights_at(const tn_weights *weights, uint32_t index);
TN_API const tn_weight *tn_weights_find(const tn_weights *weights, const char *name);

typedef struct tn_weights_sum {
    /* numbers of tensors and elements; bytes of tensor data, without padding and headers */
    uint64_t tensors, elements, bytes;
    uint64_t type_tensors[TN_WEIGHT_TYPE_COUNT];
    uint64_t type_elements[TN_WEIGHT_TYPE_COUNT];
    uint64_t type_bytes[TN_WEIGHT_TYPE_COUNT];
} tn_weights_sum;
TN_API tn_weights_sum tn_weights_total(const tn_weights *weights);

/* Reads a metadata number of a .gguf file by its key, such as "llama.block_count": integers of
 * every width, and bools as 0 and 1. False: there is no such key, or its value is of another kind
 * or a negative number. */
TN_API bool tn_weights_number(const tn_weights *weights, const char *key, uint64_t *number);
/* Returns a metadata string of a .gguf file, such as "general.architecture". NULL: there is no such
 * key. */
TN_API const char *tn_weights_text(const tn_weights *weights, const char *key);
/* Reads the number at `index` of a metadata list of a .gguf file. */
TN_API bool tn_weights_number_at(const tn_weights *weights, const char *key, uint64_t index,
                                 uint64_t *number);

/* --- files of weights as the data of a graph ----------------------------------------------------
 */

/* Prepares a graph for weights: every parameter or constant of `graph` that has the name of a
 * tensor of the file takes its data from the file. The graph's own data for that parameter or
 * constant is dropped, so that an engine asks for the data (tn_engine_options.read), and
 * tn_weights_fill provides it.
 *
 * taken  out, may be NULL: the number of such parameters and constants
 *
 * Errors: E_INVALID (no tensor of the file is in the graph; a shape differs, and the message gives
 * both), E_UNSUPPORTED (a type that does not convert to the graph's without loss), E_NO_MEMORY.
 * After an error the graph is not usable.
 */
TN_API TN_CHECKED tn_status tn_weights_bind(const tn_weights *weights, tn_graph *graph,
                                            uint32_t *taken, tn_error *error);
/* Provides the data of `tensor`, in the type of `tensor`. The file's numbers are copied, or widened
 * without loss: float16 and bfloat16 to float32, these to float64. False: the file has no such
 * tensor, or its shape differs, or its type does not convert. */
TN_API bool tn_weights_fill(const tn_weights *weights, const tn_tensor *tensor, void *bytes,
                            uint64_t size);
/* Finds the range of a tensor's data in its file, if the data is stored in the type of `tensor`.
 *
 * range  out; its path is valid as long as the weights
 */
TN_API bool tn_weights_where(const tn_weights *weights, const tn_tensor *tensor,
                             tn_file_range *range);

/* --- llm ------------------------------------------------------------------------------------- */

/* Estimates the memory to run a transformer from its config.json: weights, KV cache,
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

typedef struct tn_llm_weight { /* A group of matrices of equal size. */
    const char *name;          /* "q_proj" */
    tn_llm_role role;
    uint64_t rows, columns; /* number of outputs and of inputs; for a vector 1 and its length */
    /* the first layer and the number of layers; layers 0: the matrices are outside the layers */
    uint64_t first, layers;
    uint64_t each; /* number of matrices per layer: the number of experts, otherwise 1 */
    /* The matrices belong to a layer that predicts further tokens (multi-token prediction); most
     * runtimes do not load them. */
    bool extra;
    bool scattered; /* whether the layers of the group are not consecutive */
    /* In a model in which layers of one kind have different sizes: number of the layers with equal
     * sizes. Groups with different numbers are in different layers. 0: not such a model */
    uint32_t block;
} tn_llm_weight;

#define TN_LLM_WEIGHTS_MAX 240u
#define TN_LLM_GROUPS_MAX 32u

/* Layers that keep the same amount of data per token. */
typedef struct tn_llm_cache_group {
    uint64_t layers;
    uint64_t window; /* number of last tokens that are kept; 0: all tokens */
    /* Elements of keys and of values per token and layer. With compressed attention there is only
     * `key`. */
    uint64_t key, value;
    uint64_t heads; /* heads of keys; 0: one vector that is not divided among heads */
    /* whether these layers are in another group, too: an index of keys next to the keys */
    bool beside;
    /* number of tokens whose keys are compressed into one entry of the cache; 0: 1 */
    uint64_t every;
} tn_llm_cache_group;

/* The cache of one sequence. */
typedef struct tn_llm_cache {
    tn_llm_cache_group groups[TN_LLM_GROUPS_MAX];
    /* number of groups; 0 without state_layers and cross_layers: the model is an encoder, without
     * cache */
    uint32_t group_count;
    uint64_t state_layers; /* number of layers with a state that does not grow with the sequence */
    /* number of elements of the states of all these layers together; they are kept as float32 */
    uint64_t state;
    bool state_beside;     /* whether layers with a state may be in a group, too */
    uint64_t cross_layers; /* number of layers that attend to the tokens of an encoder */
    uint64_t cross_tokens; /* number of tokens of the encoder; 0: as many as the sequence has */
    /* number of elements of a key in the layers that attend to an encoder; a value has as many */
    uint64_t cross_key;
} tn_llm_cache;
/* Returns the number of layers that keep all tokens, or with `windowed` only a window. */
TN_API uint64_t tn_llm_cache_layers(const tn_llm_cache *cache, bool windowed);

/* How the weights of a model are stored. */
typedef enum tn_llm_packing {
    TN_PACK_PLAIN, /* all weights are stored in `type` */
    /* products are stored in `bits`, with scales per group; the other weights in `type` */
    TN_PACK_GROUPS,
    /* products are stored in 8 bits, with a 4-byte scale per row; the other weights in `type` */
    TN_PACK_ROWS,
    TN_PACK_TILES, /* all weights are stored in 8 bits, with a 4-byte scale per tile of 128 x 128 */
    TN_PACK_EXPERTS, /* experts are stored in MXFP4; the other weights in `type` */
    TN_PACK_MIX,     /* weights are stored by the rules of llama.cpp, tensor by tensor */
    TN_PACK_UNKNOWN  /* the file names an unsupported packing (see `name`) */
} tn_llm_packing;
typedef struct tn_llm_scheme {
    tn_llm_packing packing;
    tn_weight_type type;
    uint32_t mix;               /* number of the mix, for TN_PACK_MIX */
    uint32_t bits;              /* bits per element, for TN_PACK_GROUPS */
    uint32_t group, group_bits; /* elements of a group; bits of the scale data of a group */
    /* elements of a group of groups; bits of the scale data of a group of groups; 0: not used */
    uint32_t outer, outer_bits;
    uint32_t input_bits; /* bits stored per input of a product */
    char name[24];       /* name of the scheme: "bf16", "int4", "q4_k_m" */
} tn_llm_scheme;
/* Finds a scheme by its name: f32, f16, bf16, f8, int8, int4, nf4, gptq, awq, mxfp4, and the mixes
 * of llama.cpp (q8_0, q4_k_m, ...). Errors: E_UNKNOWN (the message lists all names). */
TN_API TN_CHECKED tn_status tn_llm_scheme_find(const char *name, tn_llm_scheme *scheme,
                                               tn_error *error);

typedef struct tn_llm {
    char type[40]; /* "llama" */
    /* whether the file has no "model_type", so that the kind was inferred from the keys */
    bool guessed;
    /* Sizes of the model. A .gguf file states the members from `hidden` to `positions`; the others
     * are then 0, and `gated` is assumed. */
    tn_transformer model;
    /* width of queries and of keys per token; the largest width, if layers differ */
    uint64_t query_width, key_width;
    /* number of experts per layer, and of those chosen for a token; 0: no experts */
    uint64_t experts, chosen;
    /* cache of one sequence; all members 0: the model is an encoder, without cache */
    tn_llm_cache cache;
    uint64_t parameters; /* number of parameters, each counted once, without those in `extra` */
    /* number of parameters that are used per token, counting only the chosen experts */
    uint64_t active;
    uint64_t extra;       /* number of parameters of layers that predict further tokens */
    uint64_t missing;     /* number of layers without any tensor in the files of weights */
    tn_llm_scheme stored; /* the packing that the file states */
    /* Unknown keys, separated by commas. If such a key changes the number of parameters, that
     * change is not counted. */
    char unread[400];
    /* If true, the model may need more memory than is counted: a key of a config.json or the
     * architecture of a .gguf file is not known, or a file next to it is not counted. A total below
     * a limit then proves nothing. */
    bool unproved;
    /* a conservative assumption that was made, as a sentence; empty: no assumption was needed */
    char note[200];
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
/* Returns the name of a known family (`tenure list families`); NULL if the index is out of
 * range. */
TN_API const char *tn_llm_family(uint32_t index);
/* Reads the description of a model in a .gguf file. Sizes, cache and workspace are known, and
 * weights are those of the file (tn_weights_total). The cache is that of llama.cpp: windows and
 * states by architecture. In an unknown architecture every layer is counted in full (see `note`).
 * Errors: E_INVALID (a missing or implausible key), E_UNSUPPORTED (an unknown architecture with
 * layers that keep a state). */
TN_API TN_CHECKED tn_status tn_llm_gguf(const tn_weights *weights, tn_llm *llm, tn_error *error);

/* Returns the bytes of all matrices of weights[index] in a scheme. UINT64_MAX: overflow. */
TN_API uint64_t tn_llm_weight_bytes(const tn_llm *llm, uint32_t index, const tn_llm_scheme *scheme);

/* Runtimes, in the form X(name, text). Each of them uses memory in addition to weights, cache and
 * workspace. */
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
/* Finds a runtime by its name; TN_LLM_RUNTIME_COUNT: not found. */
TN_API tn_llm_runtime tn_llm_runtime_find(const char *name);
/* Returns the bytes of a device with `capacity` bytes that a runtime uses by default (vllm: 90
 * %). */
TN_API uint64_t tn_llm_runtime_usable(tn_llm_runtime runtime, uint64_t capacity);

/* Bytes of the weights of each layer, as the files of a model store them. */
#define TN_LLM_LAYERS_MAX 1024u
typedef struct tn_llm_stored {
    /* one more than the largest index of a layer; 0: no name of a tensor contains an index */
    uint32_t layers;
    uint64_t outside; /* bytes of tensors outside of the layers: embeddings, output, towers */
    /* bytes of tensors that every device of a tensor-parallel run stores whole: those with one row,
     * routers, and the matrices that compress queries, keys and values */
    uint64_t vectors;
    uint64_t keys; /* bytes of the matrices of keys and values, which are divided by heads */
    uint64_t layer[TN_LLM_LAYERS_MAX];   /* bytes of each layer, with its experts */
    uint64_t experts[TN_LLM_LAYERS_MAX]; /* bytes of the routed experts of each layer */
} tn_llm_stored;
/* Reads the layer of each tensor from its name ("blk.3.attn_q.weight",
 * "model.layers.3.mlp.weight"), and adds up the bytes by layer. Cost: O(tensors). */
TN_API void tn_llm_stored_read(const tn_weights *weights, tn_llm_stored *stored);
/* Returns how many of the first `layers` layers have no tensor in `stored`, for tn_llm.missing. It
 * is 0 if no name of a tensor contains an index. */
TN_API uint64_t tn_llm_stored_missing(const tn_llm_stored *stored, uint64_t layers);

typedef struct tn_llm_options {
    size_t struct_size;
    uint64_t batch;    /* number of concurrent sequences; 0: 1 */
    uint64_t sequence; /* number of tokens per sequence; 0: the model's maximum */
    /* Number of tokens of one pass through the layers, over all sequences; 0: the default of the
     * runtime (none 2048, llama.cpp 512, vllm 8192, transformers all). */
    uint64_t pass;
    const tn_llm_scheme *scheme; /* how weights are stored; NULL: as the file states */
    /* bytes of the weights if they are known, as from a file; 0: they are counted */
    uint64_t weight_bytes;
    tn_weight_type cache_type; /* element type of the cache; TN_WEIGHT_TYPE_COUNT: bf16 */
    bool keep_all;             /* true: layers with a window keep all tokens, as some runtimes do */
    bool extra;                /* true: layers that predict further tokens are included */
    tn_llm_runtime runtime;
    /* number of equal devices that share the model; 0: 1. With several devices the estimate is that
     * of the fullest device */
    uint32_t devices;
    /* true: each device stores a section of every matrix; false: each device stores whole layers */
    bool by_tensor;
    /* this number of first layers stays in host memory, with their cache. If it is above the number
     * of layers, everything does; otherwise the matrices outside of layers are on the device */
    uint64_t host_layers;
    /* in this number of first layers the routed experts stay in host memory */
    uint64_t host_experts;
    /* bytes of the weights by layer; NULL: the weights of layers are counted */
    const tn_llm_stored *stored;
    /* Number of experts of each of these layers that the device keeps a copy of. The other experts
     * are copied to it when a token uses them. */
    uint64_t cached_experts;
} tn_llm_options;
#define TN_LLM_OPTIONS_INIT                                                                        \
    TN_INIT(tn_llm_options,                                                                        \
            TN_SET(struct_size, sizeof(tn_llm_options)) TN_SET(cache_type, TN_WEIGHT_TYPE_COUNT))

typedef struct tn_llm_estimate {
    uint64_t weights, cache, workspace;
    /* Bytes of the runtime in addition to weights, cache and workspace: its context on a device,
     * wider buffers, rounding of the cache. */
    uint64_t runtime;
    uint64_t total;                 /* sum of weights, cache, workspace and runtime */
    uint64_t batch, sequence, pass; /* the values that were used */
    /* categories of `cache`: full attention, windows, states, cross attention */
    uint64_t cache_full, cache_window, cache_state, cache_cross;
    /* bytes for each additional token of one sequence while windows are not full */
    uint64_t cache_token;
    uint64_t cache_allocated; /* bytes of the cache as the runtime rounds it */
    uint64_t context;         /* section of `runtime`: the context on the device */
    /* the step that needs most workspace: "attention", "inner", "output" */
    const char *workspace_at;
    uint32_t devices; /* the number of devices that was used */
    /* upper bounds of the bytes in host memory, which are not in `total` */
    uint64_t host_weights, host_cache;
    /* With host_experts: bytes of the largest routed expert; upper bounds of the bytes of the
     * copies on the device, which are in `weights`, and of the bytes of the experts that one token
     * uses in all these layers. */
    uint64_t expert_bytes, cached_bytes, token_experts;
} tn_llm_estimate;

/* Estimates the memory to run a model. Workspace is the bytes that one step of a pass reads and
 * writes at once, in elements of 2 bytes (logits, for one token per sequence, in 4), with attention
 * that stores no score matrix: a lower bound for every runtime. `runtime` is an upper estimate by
 * formulas from the source of the runtime (docs/llm.md); with TN_LLM_RUN_NONE the total is a lower
 * bound. Errors: E_INVALID (no sequence length in options and file; a sequence longer than the
 * table of learned positions; 2^64 bytes or more; a size above 2^40; a number of devices that does
 * not divide the attention heads; cached_experts without host_experts, or more than the model
 * has), E_UNSUPPORTED (weights with unknown bytes, or with unknown bytes
 * by layer if the model is divided).
 *
 * With several devices or with parts in host memory, `weights`, `cache`, `runtime` and `total` are
 * upper bounds for the fullest device: each device stores ceil(layers / devices) layers in a row;
 * the layers with the largest caches count for one device; tensors outside of the layers count on
 * it; buffers are not divided. cache_full, cache_window, cache_state and cache_cross describe the
 * whole model. */
TN_API TN_CHECKED tn_status tn_llm_estimate_make(const tn_llm *llm, const tn_llm_options *options,
                                                 tn_llm_estimate *estimate, tn_error *error);
/* Returns the largest batch (longest false) or sequence (longest true) within `limit` bytes, with
 * all other `options`; 0: not even 1 fits. */
TN_API uint64_t tn_llm_most(const tn_llm *llm, const tn_llm_options *options, uint64_t limit,
                            bool longest);

#ifdef __cplusplus
}
#endif
#endif
