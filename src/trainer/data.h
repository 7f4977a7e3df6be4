/* data.h - what a data set is inside.
 *
 *   data.c         reads it, by name or from arrays
 *   idx.c          files of idx format
 *   data_check.c   is it what the model takes? Looked at before anything runs
 *   batches.c      fills batches, without another look
 */
#ifndef TN_TRAINER_DATA_H
#define TN_TRAINER_DATA_H

#include <tenure/data.h>

#include "base/base.h"

typedef struct tn__set {
    tn_array samples, labels; /* [count, ...]; text: samples [count] bytes, and no labels, which are
                               * the next bytes */
    const char *samples_path, *labels_path; /* for messages */
    uint64_t count;
} tn__set;

struct tn_data {
    tn_context context;
    tn__arena arena;
    tn__set train, test; /* test.count 0: there is none */
    bool text;
    bool lent; /* arrays are the caller's */
};

/* A file of idx format, of unsigned bytes, packed by gzip or not; give its data back with
 * tn_array_release. Errors: E_IO, E_INVALID, E_UNSUPPORTED (a build without zlib), E_NO_MEMORY. */
tn_status tn__idx_load(const char *path, const tn_context *context, tn_array *array,
                       tn_error *error);

/* Whether batches can be made of it for an input and labels of these types and shapes.
 * Errors: E_INVALID, with the file, and the sample where it is one. */
tn_status tn__data_check(const tn_data *data, const tn_tensor *input, const tn_tensor *labels,
                         int64_t classes, tn_error *error);

/* Whether elements of one type can become those of another in a batch. */
bool tn__batch_converts(tn_dtype from, tn_dtype to);

#endif
