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
 * A family of models ("model_type") is a row of a table that names the matrices that it has; so
 * parameters are counted matrix by matrix, and how each is stored is known of each. A family that
 * is not in the table is refused, a field that changes what is counted and means nothing to the
 * family is refused, and a field that nobody here knows is named (tn_llm.unread).
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
    bool extra; /* of a layer that predicts further tokens: most run times leave it out */
} tn_llm_weight;

#define TN_LLM_WEIGHTS_MAX 160u

/* What a token leaves behind for those after it, in numbers, for one sequence. */
typedef struct tn_llm_cache {
    uint64_t full_layers;   /* that look at all tokens */
    uint64_t window_layers; /* that look at the last `window` */
    uint64_t window;
    uint64_t key, value; /* numbers of a token in a layer; of compressed attention the key alone */
    uint64_t cross_layers; /* that look at an encoder's tokens */
    uint64_t cross_tokens; /* of which there are; 0: as many as the sequence has */
} tn_llm_cache;

/* How weights are stored. */
typedef enum tn_llm_packing {
    TN_PACK_PLAIN,  /* all in `type` */
    TN_PACK_GROUPS, /* products in `bits`, with scales of groups; the rest in `type` */
    TN_PACK_ROWS,   /* products in 8 bits, with a scale of 4 bytes a row; the rest in `type` */
    TN_PACK_TILES, /* products in 8 bits, with a scale of 4 bytes for 128 x 128; the rest so, too */
    TN_PACK_EXPERTS, /* experts in MXFP4; the rest in `type` */
    TN_PACK_MIX,     /* by llama.cpp's rules, tensor by tensor */
    TN_PACK_UNKNOWN  /* the file says something that nobody here knows (its name) */
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
    tn_llm_scheme stored;            /* as the file says */
    char unread[400]; /* keys that nobody here knows, with commas; what they change, if
                       * anything, is not counted */
    tn_llm_weight weights[TN_LLM_WEIGHTS_MAX];
    uint32_t weight_count;
} tn_llm;

/* Reads a config.json of Hugging Face. docs/llm.md lists families and fields.
 *
 * name  for messages
 * Errors: E_INVALID (no JSON; fields that are missing or make no sense, all that are missing at
 * once; a model_type that is not known), E_UNSUPPORTED (a field that changes what is counted, and
 * is not part of this family as it is known here; built without jansson), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_llm_config(const char *name, const void *bytes, size_t size,
                                          tn_llm *llm, tn_error *error);
/* The families that are known, for `tenure list families`; NULL outside. */
TN_API const char *tn_llm_family(uint32_t index);
/* The same from what a .gguf file says of itself: sizes, cache and workspace are known, weights are
 * those of the file (tn_weights_total). Errors: E_INVALID (a key that is missing), E_UNSUPPORTED
 * (states of another kind than keys and values). */
TN_API TN_CHECKED tn_status tn_llm_gguf(const tn_weights *weights, tn_llm *llm, tn_error *error);

/* Bytes of weights[index], all of them, stored so. UINT64_MAX: more than that. */
TN_API uint64_t tn_llm_weight_bytes(const tn_llm *llm, uint32_t index, const tn_llm_scheme *scheme);

typedef struct tn_llm_options {
    size_t struct_size;
    uint64_t batch;    /* sequences at once; 0: 1 */
    uint64_t sequence; /* tokens of each; 0: as many as it was made for */
    uint64_t pass;     /* tokens of one pass through the layers, of all sequences; 0: 2048,
                        * but no more than there are */
    const tn_llm_scheme *scheme; /* of weights; NULL: as the file says */
    uint64_t weight_bytes;       /* of weights, where they are known: a file's; 0: counted */
    tn_weight_type cache_type;   /* TN_WEIGHT_TYPE_COUNT: bf16 */
    bool keep_all;               /* layers with a window keep all tokens, as some run times do */
    bool extra;                  /* with the layers that predict further tokens */
} tn_llm_options;
#define TN_LLM_OPTIONS_INIT                                                                        \
    TN_INIT(tn_llm_options,                                                                        \
            TN_SET(struct_size, sizeof(tn_llm_options)) TN_SET(cache_type, TN_WEIGHT_TYPE_COUNT))

typedef struct tn_llm_estimate {
    uint64_t weights, cache, workspace, total;
    uint64_t batch, sequence, pass;                 /* as they were taken */
    uint64_t cache_full, cache_window, cache_cross; /* of `cache` */
    uint64_t cache_token;     /* bytes of one more token of one sequence, windows not yet full */
    const char *workspace_at; /* the step that needs the most: "attention", "inner", "output" */
} tn_llm_estimate;

/* Workspace is what one step of a pass reads and writes at once, in numbers of 2 bytes (logits, of
 * one token a sequence, in 4), with attention that writes no matrix of scores: a run time needs no
 * less. What it keeps beyond that is its own.
 * Errors: E_INVALID (no sequence is given and the file says none; more positions than there are;
 * 2^64 bytes or more; a size above 2^40). */
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
