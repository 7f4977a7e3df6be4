/* contents.h - what the files that give contents of tensors share. */
#ifndef TN_IMPORT_CONTENTS_H
#define TN_IMPORT_CONTENTS_H

#include "import/importer.h"

/* --- elements --- */

/* Writes the low `bits` bits of `element` at position `index` of a plain array; below a byte the
 * others of that byte stay. */
static inline void tn__element_put(void *array, uint32_t bits, uint64_t index, uint64_t element) {
    uint8_t *bytes = array;
    if (bits < 8) {
        uint32_t shift = (uint32_t)(index * bits % 8), mask = ((1u << bits) - 1) << shift;
        uint8_t *at = bytes + index * bits / 8;
        *at = (uint8_t)((*at & ~mask) | ((uint32_t)(element << shift) & mask));
        return;
    }
    bytes += index * (bits / 8);
    for (uint32_t i = 0; i < bits / 8 && i < 8; i++) bytes[i] = (uint8_t)(element >> (8 * i));
}

static inline uint64_t tn__element_get(const void *array, uint32_t bits, uint64_t index) {
    const uint8_t *bytes = array;
    if (bits < 8)
        return (uint32_t)bytes[index * bits / 8] >> (index * bits % 8) & ((1u << bits) - 1);
    return tn__little(bytes + index * (bits / 8), bits / 8);
}

/* The bits of a number as float16, bfloat16, float32 or float64, rounded to nearest even. */
uint64_t tn__element_of(tn_dtype dtype, double value);

/* --- generate.c: contents that are made up --- */

typedef struct tn__generator tn__generator;
tn_status tn__generator_create(const tn_graph *graph, uint64_t seed, const tn_context *context,
                               tn__generator **generator, tn_error *error);
void tn__generator_destroy(tn__generator *generator);
tn_status tn__generate(const tn__generator *generator, const tn__wanted *wanted);

#endif
