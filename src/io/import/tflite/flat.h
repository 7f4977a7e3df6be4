/* flat.h - a bounded reader of the FlatBuffers wire format: no copy, no recursion, no allocation.
 *
 * A file is verified once, whole, against a schema: every table with its vtable, every offset,
 * vector, string and union in the schema, including unused ones, so that a truncated file is
 * rejected. After that the accessors below are plain reads.
 *
 * These are errors: a reference outside the file, a vtable shorter than its head, a field outside
 * its table, a string without its NUL, a vector longer than the file, tables nested deeper than the
 * schema (which has no cycle), and reading more than FLAT_SHARING times the file and a megabyte,
 * because many offsets may point to the same bytes. Fields that are not in the schema are ignored,
 * because later versions add fields. Misaligned values are read all the same.
 *
 * Source: the internals page of the FlatBuffers documentation.
 */
#ifndef TN_IMPORT_FLAT_H
#define TN_IMPORT_FLAT_H

#include "base/base.h"
#include "io/import/onnx/wire.h"

typedef enum tn__flat_kind {
    TN_FLAT_UNKNOWN, /* ignored */
    TN_FLAT_SCALAR,  /* a scalar of `width` bytes */
    TN_FLAT_STRING,
    TN_FLAT_SCALARS, /* vector of scalars of `width` bytes */
    TN_FLAT_TABLE,   /* a table of schema `child` */
    TN_FLAT_TABLES,  /* vector of tables of schema `child` */
    /* A table without a fixed schema: `child` has the fields that all of them share, or is NULL.
     * With `members`, the number in the field before it selects the schema of the table. */
    TN_FLAT_UNION
} tn__flat_kind;

#define TN_FLAT_FIELDS 16u
#define TN_FLAT_DEPTH 8u /* limit of nesting of schemas */

typedef struct tn__flat_schema tn__flat_schema;
typedef struct tn__flat_field {
    tn__flat_kind kind;
    uint32_t width;
    const tn__flat_schema *child; /* schema of the table; NULL: only the table itself is verified */
    const tn__flat_schema *const *members; /* [member_count] schemas of a union, or NULL */
    uint32_t member_count;
} tn__flat_field;
struct tn__flat_schema {
    const char *name; /* name of the table in the schema, such as "SubGraph" */
    uint32_t field_count;
    tn__flat_field fields[TN_FLAT_FIELDS]; /* [field number] the fields */
};

typedef struct tn__flat_table {
    const uint8_t *bytes; /* start of the table; NULL: absent */
    const uint8_t *vtable;
    uint32_t vtable_size, size;
} tn__flat_table;

typedef struct tn__flat_vector {
    const uint8_t *items; /* start of the `count` items */
    uint32_t count;       /* number of items; 0 also if the vector is absent */
} tn__flat_vector;

/* Verifies a file from the root table on. *end receives the end of the last byte used. Errors:
 * E_INVALID with "byte N" in `where`. */
tn_status tn__flat_verify(tn__span file, const tn__flat_schema *root, size_t *end, tn_error *error);

/* --- reading verified data; absent fields give `otherwise`, NULL or an empty result --- */
tn__flat_table tn__flat_root(tn__span file);
bool tn__flat_has(const tn__flat_table *table, uint32_t field);
uint64_t tn__flat_uint(const tn__flat_table *table, uint32_t field, uint32_t width,
                       uint64_t otherwise);
int64_t tn__flat_int(const tn__flat_table *table, uint32_t field, uint32_t width,
                     int64_t otherwise);
tn__span tn__flat_string(const tn__flat_table *table, uint32_t field);
tn__flat_table tn__flat_child(const tn__flat_table *table, uint32_t field);
/* Returns the table of a union if its type has this number. */
tn__flat_table tn__flat_member(const tn__flat_table *table, uint32_t field, uint32_t type);
tn__flat_vector tn__flat_list(const tn__flat_table *table, uint32_t field);
tn__flat_table tn__flat_item(const tn__flat_vector *tables, uint32_t index);
static inline int32_t tn__flat_int32(const tn__flat_vector *ints, uint32_t index) {
    return (int32_t)(uint32_t)tn__little(ints->items + (size_t)4 * index, 4);
}

#endif
