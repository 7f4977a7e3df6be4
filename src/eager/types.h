/* types.h - what a tensor is, apart from where it lies: element type, extents, and contents that
 * are known to rules of shapes (the new shape of a Reshape, the axes of a sum). Each type has a
 * number, the same whenever the same is asked for, so that comparing types is comparing numbers.
 *
 * A type with known contents is an immediate: all there is of such a tensor. It lies with the
 * interpreter, as an operator's attributes do, and takes none of the budget.
 */
#ifndef TN_EAGER_TYPES_H
#define TN_EAGER_TYPES_H

#include <tenure/graph.h>

#include "base/base.h"

/* Known contents have at most so many elements; larger ones are data. */
#define TN__IMMEDIATE_MOST 256u

typedef struct tn__type {
    tn_dtype dtype;
    uint32_t rank;
    const int64_t *shape; /* [rank] */
    uint64_t bytes;
    const tn_value *value; /* NULL: its contents are data */
    void *data;            /* of an immediate: `bytes`, as kernels read them */
} tn__type;

typedef struct tn__types {
    tn__arena arena;
    tn__names names; /* keys -> numbers */
    const tn__type **of;
    size_t count, room;
    tn__text key; /* of the question in hand */
} tn__types;

void tn__types_init(tn__types *types, const tn_context *context);
void tn__types_release(tn__types *types);
static inline const tn__type *tn__type_of(const tn__types *types, uint32_t type) {
    return types->of[type];
}

/* The number of a type. value: NULL, or its contents, [elements].
 * Errors: E_INVALID (a size that is not known or overflows), E_NO_MEMORY. */
tn_status tn__types_find(tn__types *types, tn_dtype dtype, uint32_t rank, const int64_t *shape,
                         const tn_value *value, uint32_t *type, tn_error *error);
/* The same of an array's bytes: an immediate. Errors: E_INVALID (too many elements, a type whose
 * elements no rule reads). */
tn_status tn__types_immediate(tn__types *types, tn_dtype dtype, uint32_t rank, const int64_t *shape,
                              const void *data, uint32_t *type, tn_error *error);
/* The type of a tensor of a graph, with its contents where they are known and few. */
tn_status tn__types_of_tensor(tn__types *types, const tn_tensor *tensor, uint32_t *type,
                              tn_error *error);
/* Behind the others of a key: the number of a thing, in 4 bytes. */
static inline void tn__key_number(tn__text *key, uint32_t number) {
    tn__text_add(key, (const char *)&number, sizeof number);
}
/* "float32[2,3]" into `text`. */
const char *tn__type_text(const tn__type *type, char *text, size_t size);

#endif
