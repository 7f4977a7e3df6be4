/* data.h - the internals of a data set.
 *
 *   data.c      loads it, by name or from arrays; checks it against the model, before anything runs
 *   idx.c       files of idx format
 *   batches.c   fills batches, without further checks
 */
#ifndef TN_TRAINER_DATA_H
#define TN_TRAINER_DATA_H

#include <tenure/train.h>

#include "base/base.h"

typedef struct tn__data_set {
    tn_array samples, labels; /* [count, ...]; text: samples [count] bytes, and no labels, because
                               * the next bytes are the labels */
    const char *samples_path, *labels_path; /* for messages */
    uint64_t count;
} tn__data_set;

struct tn_data {
    tn_context context;
    tn__arena arena;
    tn__data_set train, test; /* test.count 0: no test samples */
    bool text;
    bool lent; /* the arrays belong to the caller */
};

/* A file of idx format, of unsigned bytes, with or without gzip; free its data with
 * tn_array_release. Errors: E_IO, E_INVALID, E_UNSUPPORTED (a build without zlib), E_NO_MEMORY. */
tn_status tn__idx_load(const char *path, const tn_context *context, tn_array *array,
                       tn_error *error);

/* Can batches be made of it for an input and labels of these types and shapes? Errors: E_INVALID,
 * with the file, and the number of the sample if one sample is wrong. */
tn_status tn__data_check(const tn_data *data, const tn_tensor *input, const tn_tensor *labels,
                         int64_t classes, tn_error *error);

/* Can a batch convert elements from one type to the other? */
bool tn__batch_converts(tn_dtype from, tn_dtype to);

#endif
