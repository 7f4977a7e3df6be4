/* array.h - arrays on the host: inputs and outputs of a run, and their files.
 *
 *     tn_array array = {0};
 *     tn_error error;
 *     float numbers[] = {1, 2, 3, 4, 5, 6};
 *     tn_array matrix = {.dtype = TN_FLOAT32, .rank = 2, .shape = {2, 3}, .bytes = sizeof numbers,
 *                        .data = numbers};
 *     if (tn_array_save("matrix.npy", &matrix, NULL, &error) ||
 *         tn_array_load("matrix.npy", NULL, &array, &error))
 *         return fprintf(stderr, "%s: %s\n", error.where, error.message), 2;
 *     printf("%lld columns\n", (long long)array.shape[1]);
 *     tn_array_release(&array, NULL);
 *     remove("matrix.npy");
 *
 * Units: bytes; shapes list the outermost dimension first.
 * Threads: any number of threads at once, each with its own array; unchanged arrays can be shared.
 */
#ifndef TENURE_ARRAY_H
#define TENURE_ARRAY_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_array {
    tn_dtype dtype;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX]; /* outermost first */
    uint64_t bytes;             /* of `data`; for an output of a run: the space in `data` */
    void *data;                 /* C order, little endian; owned by the caller */
} tn_array;

/* Reads a .npy file (versions 1 to 3, C or Fortran order, little endian) or an ONNX TensorProto
 * (.pb, as in ONNX's test data). The format is recognised by content.
 *
 * context  NULL, or the one that is passed to tn_array_release
 * array    out; free its data with tn_array_release
 * Errors: E_IO, E_INVALID (damaged, or neither format), E_UNSUPPORTED (big endian, strings,
 * structs, pickled objects, numpy extensions such as bfloat16), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_array_load(const char *path, const tn_context *context,
                                          tn_array *array, tn_error *error);
/* Frees the data of a loaded array and clears it; a cleared array is fine. */
TN_API void tn_array_release(tn_array *array, const tn_context *context);

/* Writes a .npy file, completely or not at all.
 *
 * Errors: E_IO, E_INVALID (`bytes` does not match type and shape), E_UNSUPPORTED (a type that numpy
 * does not have: bfloat16, float8, types smaller than a byte), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_array_save(const char *path, const tn_array *array,
                                          const tn_context *context, tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
