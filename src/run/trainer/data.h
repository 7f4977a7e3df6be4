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
    /* [array_count] arrays with first extent `count`. Their names are those of inputs; or all are
     * NULL, and the arrays are for the inputs of the model in their order, and then for the labels.
     * Text has one array of `count` bytes, because the label of each byte is the byte after it */
    tn_named_array *arrays;
    const char **paths; /* [array_count] file names for error messages */
    uint32_t array_count;
    uint64_t count;
} tn__data_set;

struct tn_data {
    tn_context context;
    tn__arena arena;
    tn__data_set train, test; /* test.count is 0 if there are no test samples */
    bool text;
    /* true: the second array has labels, which are left out if the loss reads none */
    bool labels_apart;
    bool lent; /* true: the caller owns the arrays, so they are not freed with the data set */
};

/* Reads a file of idx format with elements of type unsigned byte, with or without gzip. Free the
 * array's data with tn_array_release. Errors: E_IO, E_INVALID, E_UNSUPPORTED (this build has no
 * zlib), E_NO_MEMORY. */
tn_status tn__idx_load(const char *path, const tn_context *context, tn_array *array,
                       tn_error *error);

/* The tensors that batches fill: [count] inputs of the model, and labels or NULL. */
typedef struct tn__batch_of {
    const tn_tensor *inputs;
    uint32_t count;
    const tn_tensor *labels;
} tn__batch_of;
/* Finds the array of the set for each input and for the labels, by name or by position. from: out,
 * [count + 1]; the last element is unused without labels. Not for text. Errors: E_INVALID (a name
 * that is no input, an input without an array). */
tn_status tn__data_match(const tn_data *data, const tn__data_set *set, const tn__batch_of *batch,
                         uint32_t *from, tn_error *error);
/* Checks that batches of these types and shapes can be made of the set. from: of tn__data_match;
 * NULL for text. Errors: E_INVALID; the message names the file, and the number of the sample if one
 * sample is wrong. */
tn_status tn__data_check(const tn_data *data, const tn__data_set *set, const tn__batch_of *batch,
                         const uint32_t *from, int64_t classes, tn_error *error);

/* Whether a batch can convert elements from type `from` to type `to`. */
bool tn__batch_converts(tn_dtype from, tn_dtype to);

#endif
