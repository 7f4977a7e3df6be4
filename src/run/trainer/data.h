/* data.h - the internals of a data set.
 *
 *   data.c      loads a data set, by name or from arrays; checks it against the model, before
 *               anything runs
 *   idx.c       reads files of idx format
 *   batches.c   fills batches from a data set, without further checks
 */
#ifndef TN_TRAINER_DATA_H
#define TN_TRAINER_DATA_H

#include <tenure/train.h>

#include "base/base.h"

typedef struct tn__data_set {
    /* arrays with first extent `count`. Text has one array `samples` of `count` bytes and no
     * labels, because the label of each byte is the byte after it */
    tn_array samples, labels;
    const char *samples_path, *labels_path; /* file names for error messages */
    uint64_t count;
} tn__data_set;

struct tn_data {
    tn_context context;
    tn__arena arena;
    tn__data_set train, test; /* test.count is 0 if there are no test samples */
    bool text;
    bool lent; /* true: the caller owns the arrays, so they are not freed with the data set */
};

/* Reads a file of idx format with elements of type unsigned byte, with or without gzip. Free the
 * array's data with tn_array_release. Errors: E_IO, E_INVALID, E_UNSUPPORTED (this build has no
 * zlib), E_NO_MEMORY. */
tn_status tn__idx_load(const char *path, const tn_context *context, tn_array *array,
                       tn_error *error);

/* Checks that batches for an input and labels of these types and shapes can be made of the data
 * set. Errors: E_INVALID; the message names the file, and the number of the sample if one sample is
 * wrong. */
tn_status tn__data_check(const tn_data *data, const tn_tensor *input, const tn_tensor *labels,
                         int64_t classes, tn_error *error);

/* Whether a batch can convert elements from type `from` to type `to`. */
bool tn__batch_converts(tn_dtype from, tn_dtype to);

#endif
