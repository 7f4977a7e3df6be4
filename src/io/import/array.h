/* array.h - the formats of array files. Each fills in an array; its data is allocated from the
 * context. */
#ifndef TN_IMPORT_ARRAY_H
#define TN_IMPORT_ARRAY_H

#include <tenure/array.h>

#include "base/base.h"
#include "io/import/wire.h"

/* npy.c */
bool tn__npy_probe(tn__span file);
tn_status tn__npy_read(tn__span file, const tn_context *context, tn_array *array, tn_error *error);
/* pb.c */
tn_status tn__pb_read(tn__span file, const tn_context *context, tn_array *array, tn_error *error);

/* array.c: reads any of the formats; `name` is for messages. */
tn_status tn__array_read(const char *name, tn__span file, const tn_context *context,
                         tn_array *array, tn_error *error);
/* Allocates the data of an array with type and shape set. At least one byte. */
tn_status tn__array_alloc(const tn_context *context, tn_array *array, tn_error *error);

#endif
