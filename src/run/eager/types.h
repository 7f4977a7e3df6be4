/* types.h - the type of a tensor: element type, extents, and the data if shape rules need it (the
 * new shape of a Reshape, the axes of a sum). Equal types have the same number, so comparing types
 * means comparing numbers.
 *
 * A type with known data is an immediate: the type is all there is to such a tensor. The
 * interpreter stores it like an operator's attributes, outside the budget.
 */
#ifndef TN_EAGER_TYPES_H
#define TN_EAGER_TYPES_H

#include <tenure/graph.h>

#include "base/base.h"

/* An immediate has at most this number of elements; larger tensors are data. */
#define TN__IMMEDIATE_MOST 256u

typedef struct tn__type {
    tn_dtype dtype;
    uint32_t rank;
    const int64_t *shape; /* [rank] */
    uint64_t bytes;
    const tn_value *value; /* NULL: not an immediate */
    void *data;            /* for an immediate: `bytes` of data, as kernels read them */
} tn__type;

typedef struct tn__types {
    tn__arena arena;
    tn__names names; /* keys -> numbers */
    const tn__type **of;
    size_t count, room;
    tn__text key; /* key of the current request */
} tn__types;

void tn__types_init(tn__types *types, const tn_context *context);
void tn__types_release(tn__types *types);
static inline const tn__type *tn__type_of(const tn__types *types, uint32_t type) {
    return types->of[type];
}

/* The number of a type. value: NULL, or the known data, [elements].
 * Errors: E_INVALID (a size that is not known or overflows), E_NO_MEMORY.
 */
tn_status tn__types_find(tn__types *types, tn_dtype dtype, uint32_t rank, const int64_t *shape,
                         const tn_value *value, uint32_t *type, tn_error *error);
/* The same from an array's bytes: an immediate. Errors: E_INVALID (too many elements, a type whose
 * elements shape rules cannot read). */
tn_status tn__types_immediate(tn__types *types, tn_dtype dtype, uint32_t rank, const int64_t *shape,
                              const void *data, uint32_t *type, tn_error *error);
/* The type of a graph's tensor, with its data if that is known and small. */
tn_status tn__types_of_tensor(tn__types *types, const tn_tensor *tensor, uint32_t *type,
                              tn_error *error);
/* Appends a number to a key, in 4 bytes. */
static inline void tn__key_number(tn__text *key, uint32_t number) {
    tn__text_add(key, (const char *)&number, sizeof number);
}
/* "float32[2,3]" into `text`. */
const char *tn__type_text(const tn__type *type, char *text, size_t size);

#endif
