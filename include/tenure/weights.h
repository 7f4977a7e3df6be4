/* weights.h - files of weights: what is in a .safetensors or .gguf file, and its numbers by name.
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
 * Opening reads headers alone: contents are mapped, and touched when they are read. Files are
 * hostile until proved otherwise: every count, offset and size is held against the file.
 * Units: bytes.
 * Threads: weights are only read once they are open, by any number.
 */
#ifndef TENURE_WEIGHTS_H
#define TENURE_WEIGHTS_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How numbers are stored: X(name, text, number in .gguf files or -1, name in .safetensors files or
 * "", numbers in a block, bytes of a block, element type or UNDEFINED: a block has a scale of its
 * own, or there is no such type). */
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
TN_API const char *tn_weight_type_name(tn_weight_type type); /* "q4_k"; "?" outside */
/* By that name, ignoring case; TN_WEIGHT_TYPE_COUNT: none. */
TN_API tn_weight_type tn_weight_type_find(const char *name);
TN_API tn_dtype tn_weight_type_dtype(tn_weight_type type); /* UNDEFINED: there is none */
TN_API uint32_t tn_weight_type_block(tn_weight_type type); /* numbers in a block; 0 outside */
/* Of `rows` rows of `columns` numbers. A row is a whole number of blocks: what is left over takes
 * one. UINT64_MAX where it is more than that. */
TN_API uint64_t tn_weight_type_bytes(tn_weight_type type, uint64_t rows, uint64_t columns);

typedef struct tn_weight { /* one tensor of a file */
    const char *name;      /* UTF-8 */
    tn_weight_type type;
    uint32_t rank;
    const int64_t *shape; /* [rank], outermost first (.gguf files have it the other way round) */
    uint64_t elements;
    uint64_t size;        /* bytes */
    const uint8_t *bytes; /* [size], aligned to nothing; NULL: the file is not there, its header
                           * alone, or an index without it */
} tn_weight;

typedef struct tn_weights tn_weights;

/* Maps a .safetensors or .gguf file and reads its header, by content; a `.safetensors.index.json`
 * and the first part of a .gguf file in several mean all their parts in the same folder. A folder
 * means its index, its only file, or the numbered parts of its only model.
 *
 * context  NULL or outlives the weights
 * Errors: E_IO (a part that is absent, too), E_INVALID (damaged, cut short; what and where; a
 * folder with several models or without one of the parts), E_UNKNOWN (a folder without weights),
 * E_UNSUPPORTED (another format; of those that are known by name how to export them; a type that is
 * not in the table), E_NO_MEMORY. Cost: O(headers). */
TN_API TN_CHECKED tn_status tn_weights_open(const char *path, const tn_context *context,
                                            tn_weights **weights, tn_error *error);
/* The same of one file in memory, which is not copied: it outlives the weights.
 * name  what messages call it; copied */
TN_API TN_CHECKED tn_status tn_weights_read(const char *name, const void *bytes, size_t size,
                                            const tn_context *context, tn_weights **weights,
                                            tn_error *error);
TN_API void tn_weights_close(tn_weights *weights); /* NULL is fine */

/* Whether tn_weights_open takes a file of this name, by suffix. */
TN_API bool tn_weights_recognises(const char *path);
/* Whether this is a folder, which may hold a model. */
TN_API bool tn_weights_is_folder(const char *path);
/* How to export a model that no reader here takes, by the suffix of its file; NULL: nothing is
 * known of it (or it is taken). One sentence, for messages. */
TN_API const char *tn_weights_how_to_export(const char *path);

TN_API const char *tn_weights_format(const tn_weights *weights); /* "safetensors", "gguf" */
TN_API uint32_t tn_weights_files(const tn_weights *weights);     /* parts */
TN_API uint32_t tn_weights_count(const tn_weights *weights);
TN_API const tn_weight *tn_weights_at(const tn_weights *weights, uint32_t index); /* NULL outside */
TN_API const tn_weight *tn_weights_find(const tn_weights *weights, const char *name);

typedef struct tn_weights_sum {
    uint64_t tensors, elements, bytes; /* bytes of contents, without padding and headers */
    uint64_t type_tensors[TN_WEIGHT_TYPE_COUNT];
    uint64_t type_elements[TN_WEIGHT_TYPE_COUNT];
    uint64_t type_bytes[TN_WEIGHT_TYPE_COUNT];
} tn_weights_sum;
TN_API tn_weights_sum tn_weights_total(const tn_weights *weights);

/* What a .gguf file says of itself: "llama.block_count", "general.architecture". Whole numbers of
 * any width, bools as 0 and 1. False: no such key, or of another kind, or less than 0. */
TN_API bool tn_weights_number(const tn_weights *weights, const char *key, uint64_t *number);
/* NULL: no such key. In a list the number at `index`. */
TN_API const char *tn_weights_text(const tn_weights *weights, const char *key);
TN_API bool tn_weights_number_at(const tn_weights *weights, const char *key, uint64_t index,
                                 uint64_t *number);

/* --- as the weights of a graph ------------------------------------------------------------------
 */

/* Prepares a graph for these weights: every tensor of the file that bears the name of a parameter
 * or constant of `graph` takes its place. Nothing is known of its contents any more, so that
 * whoever runs the graph asks for them (tn_engine_options.read) and gets them by tn_weights_fill.
 *
 * taken  out, may be NULL: how many
 * Errors: E_INVALID (none is in the graph; one is of another shape, which is told), E_UNSUPPORTED
 * (a type that does not become the graph's without loss), E_NO_MEMORY. The graph is then no longer
 * usable. */
TN_API TN_CHECKED tn_status tn_weights_bind(const tn_weights *weights, tn_graph *graph,
                                            uint32_t *taken, tn_error *error);
/* The contents of `tensor`, in its type. The file's numbers are taken as they are, or widened
 * without loss: float16 and bfloat16 to float32, these to float64.
 * False: the file has no such tensor, or not of that shape, or of a type that is not. */
TN_API bool tn_weights_fill(const tn_weights *weights, const tn_tensor *tensor, void *bytes,
                            uint64_t size);
/* Where in which file those are, if they are there as they are wanted: nothing has to be widened.
 * range  out, its path lives as long as the weights */
TN_API bool tn_weights_where(const tn_weights *weights, const tn_tensor *tensor,
                             tn_file_range *range);

#ifdef __cplusplus
}
#endif
#endif
