/* weights.h - reads files of weights (.safetensors, .gguf): their tensors, by name.
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
#ifndef TENURE_WEIGHTS_H
#define TENURE_WEIGHTS_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

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
TN_API const char *tn_weight_type_name(tn_weight_type type); /* "q4_k"; "?" if out of range */
/* Finds a type by that name, ignoring case; TN_WEIGHT_TYPE_COUNT: unknown. */
TN_API tn_weight_type tn_weight_type_find(const char *name);
TN_API tn_dtype tn_weight_type_dtype(tn_weight_type type); /* UNDEFINED: no such tn_dtype */
TN_API uint32_t tn_weight_type_block(tn_weight_type type); /* numbers per block; 0: out of range */
/* The bytes of `rows` rows of `columns` numbers. A row is a whole number of blocks, rounded up.
 * Saturates at UINT64_MAX. */
TN_API uint64_t tn_weight_type_bytes(tn_weight_type type, uint64_t rows, uint64_t columns);

typedef struct tn_weight { /* one tensor of a file */
    const char *name;      /* UTF-8 */
    tn_weight_type type;
    uint32_t rank;
    const int64_t *shape; /* [rank], outermost first (.gguf files store the reverse) */
    uint64_t elements;
    uint64_t size;        /* bytes */
    const uint8_t *bytes; /* [size], unaligned; NULL: only a header or an index is present, without
                           * the data */
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
/* As tn_weights_open, for one file in memory, which is not copied and must outlive the weights.
 *
 * name  for messages; copied */
TN_API TN_CHECKED tn_status tn_weights_read(const char *name, const void *bytes, size_t size,
                                            const tn_context *context, tn_weights **weights,
                                            tn_error *error);
TN_API void tn_weights_close(tn_weights *weights); /* NULL is fine */

/* Whether tn_weights_open supports a file of this name, by suffix. */
TN_API bool tn_weights_recognises(const char *path);
/* Whether this path is a folder, which may hold a model. */
TN_API bool tn_weights_is_folder(const char *path);
/* Advice how to export a model of an unsupported format, by the suffix of its file: one sentence
 * for messages. NULL: no advice, or the format is supported. */
TN_API const char *tn_weights_how_to_export(const char *path);

TN_API const char *tn_weights_format(const tn_weights *weights); /* "safetensors", "gguf" */
TN_API uint32_t tn_weights_files(const tn_weights *weights);     /* number of parts */
TN_API uint32_t tn_weights_count(const tn_weights *weights);
TN_API const tn_weight *tn_weights_at(const tn_weights *weights, uint32_t index); /* NULL outside */
TN_API const tn_weight *tn_weights_find(const tn_weights *weights, const char *name);

typedef struct tn_weights_sum {
    uint64_t tensors, elements, bytes; /* bytes of tensor data, without padding and headers */
    uint64_t type_tensors[TN_WEIGHT_TYPE_COUNT];
    uint64_t type_elements[TN_WEIGHT_TYPE_COUNT];
    uint64_t type_bytes[TN_WEIGHT_TYPE_COUNT];
} tn_weights_sum;
TN_API tn_weights_sum tn_weights_total(const tn_weights *weights);

/* A metadata number of a .gguf file by its key, such as "llama.block_count". Integers of every
 * width; bools as 0 and 1. False: no such key, another kind of value, or a negative number. */
TN_API bool tn_weights_number(const tn_weights *weights, const char *key, uint64_t *number);
/* A metadata string, such as "general.architecture". NULL: no such key. */
TN_API const char *tn_weights_text(const tn_weights *weights, const char *key);
/* The number at `index` of a metadata list. */
TN_API bool tn_weights_number_at(const tn_weights *weights, const char *key, uint64_t index,
                                 uint64_t *number);

/* --- as the weights of a graph ------------------------------------------------------------------
 */

/* Prepares a graph for these weights: every parameter or constant of `graph` with the name of a
 * tensor of the file takes its data from the file. The graph's own data for it are dropped, so that
 * an engine asks for them (tn_engine_options.read), and tn_weights_fill provides them.
 *
 * taken  out, may be NULL: the number of such tensors
 *
 * Errors: E_INVALID (no tensor of the file is in the graph; a shape differs, and the message gives
 * both), E_UNSUPPORTED (a type that does not convert to the graph's without loss), E_NO_MEMORY.
 * After an error the graph is not usable. */
TN_API TN_CHECKED tn_status tn_weights_bind(const tn_weights *weights, tn_graph *graph,
                                            uint32_t *taken, tn_error *error);
/* Provides the data of `tensor`, in its type. The file's numbers are copied, or widened without
 * loss: float16 and bfloat16 to float32, these to float64.
 * False: the file has no such tensor, or its shape differs, or its type does not convert. */
TN_API bool tn_weights_fill(const tn_weights *weights, const tn_tensor *tensor, void *bytes,
                            uint64_t size);
/* Finds the position of these data in their file, if they are stored in the type of `tensor`.
 *
 * range  out; its path is valid as long as the weights */
TN_API bool tn_weights_where(const tn_weights *weights, const tn_tensor *tensor,
                             tn_file_range *range);

#ifdef __cplusplus
}
#endif
#endif
