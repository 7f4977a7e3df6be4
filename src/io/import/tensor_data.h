/* tensor_data.h - shared by the files that provide tensor data: tensor_data.c, generate.c,
 * onnx/onnx_data.c. */
#ifndef TN_IMPORT_TENSOR_DATA_H
#define TN_IMPORT_TENSOR_DATA_H

#include "graph/element.h"
#include "io/import/importer.h"

/* --- elements --- */

static inline uint64_t tn__element_get(const void *array, uint32_t bits, uint64_t index) {
    const uint8_t *bytes = array;
    if (bits < 8)
        return (uint32_t)bytes[index * bits / 8] >> (index * bits % 8) & ((1u << bits) - 1);
    return tn__little(bytes + index * (bits / 8), bits / 8);
}

/* --- generate.c: generating tensor data --- */

typedef struct tn__generator {
    const tn_context *context;
    uint64_t seed;
    tn__arena arena; /* holds the texts of the names */
    tn__names index;
    uint32_t *roles; /* roles of each tensor, indexed by the value in `names` */
    size_t role_room, role_count;
} tn__generator;
tn_status tn__generator_create(const tn_graph *graph, uint64_t seed, const tn_context *context,
                               tn__generator **generator, tn_error *error);
void tn__generator_destroy(tn__generator *generator);
tn_status tn__generate(const tn__generator *generator, const tn__wanted *wanted);

#endif
