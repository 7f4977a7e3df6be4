/* data.h - data sets, and which of their samples make which batch of a training run.
 *
 *     uint8_t pixels[6][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}};
 *     uint8_t sorts[6] = {0, 1, 2, 0, 1, 2};
 *     tn_samples clothes = {
 *         .samples = {.dtype = TN_UINT8, .rank = 2, .shape = {6, 2}, .bytes = 12, .data = pixels},
 *         .labels = {.dtype = TN_UINT8, .rank = 1, .shape = {6}, .bytes = 6, .data = sorts}};
 *     float x[2][2]; // what a model takes at once: two of them, and their sorts
 *     int64_t y[2], pairs[] = {2, 2};
 *     tn_tensor takes = {.name = "x", .dtype = TN_FLOAT32, .rank = 2, .shape = pairs, .bytes = 16};
 *     tn_tensor sort = {.name = "y", .dtype = TN_INT64, .rank = 1, .shape = pairs, .bytes = 16};
 *     tn_array samples = {.dtype = TN_FLOAT32, .rank = 2, .shape = {2, 2}, .bytes = 16, .data = x};
 *     tn_array labels = {.dtype = TN_INT64, .rank = 1, .shape = {2}, .bytes = 16, .data = y};
 *     tn_batches_options options = TN_BATCHES_OPTIONS_INIT;
 *     tn_data *data;
 *     tn_batches *batches;
 *     tn_error error;
 *     options.classes = 3;
 *     if (tn_data_create(&clothes, NULL, NULL, &data, &error) ||
 *         tn_batches_create(data, &takes, &sort, &options, &batches, &error))
 *         return fprintf(stderr, "%s\n", error.message), 2;
 *     for (uint64_t run = 0; run < tn_batches_per_epoch(batches); run++) {
 *         tn_batches_fill(batches, run, &samples, &labels); // bytes become reals from 0 to 1
 *         printf("%lld %lld\n", (long long)y[0], (long long)y[1]);
 *     }
 *     tn_batches_destroy(batches);
 *     tn_data_destroy(data);
 *
 * A batch follows from the data, the seed and its number alone, so a run that is resumed sees what
 * it would have seen. Everything is looked at before the first batch is filled: shapes, types,
 * every label, numbers that are none.
 *
 * Units: samples, batches.
 * Threads: data are only read once they are there, by any number; batches are used by one thread at
 * a time.
 */
#ifndef TENURE_DATA_H
#define TENURE_DATA_H

#include <tenure/array.h>
#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- data sets ---------------------------------------------------------------------------------
 */

typedef struct tn_data tn_data;

/* Loads a data set by name:
 *
 *   fashion-mnist[:DIR]   the four idx files of Debian's dataset-fashion-mnist, or files of these
 *                         names in DIR, packed by gzip or not; ten thousand are held out
 *   X.npy,Y.npy           samples and labels by their first extent; behind a colon another pair,
 *                         which is held out
 *   text:FILE             bytes to foretell the next of; the last tenth is held out
 *
 * context  NULL or outlives the data
 * data     out; destroy with tn_data_destroy
 * Errors: E_IO, E_INVALID (none of these; damaged; not as many labels as samples), E_UNSUPPORTED
 * (packed files, in a build without zlib), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_data_load(const char *what, const tn_context *context,
                                         tn_data **data, tn_error *error);
typedef struct tn_samples {
    tn_array samples, labels; /* first extent: samples, of both */
} tn_samples;

/* The same of arrays, which are not copied: they outlive the data.
 *
 * train, test  to train on, and held out; test NULL: none are
 * Errors: E_INVALID (no samples, another number of labels, bytes that do not fit the shape),
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_data_create(const tn_samples *train, const tn_samples *test,
                                           const tn_context *context, tn_data **data,
                                           tn_error *error);
TN_API void tn_data_destroy(tn_data *data); /* NULL is fine; after its batches */

TN_API uint64_t tn_data_count(const tn_data *data);      /* samples to train on; of text, bytes */
TN_API uint64_t tn_data_test_count(const tn_data *data); /* held out; 0: none */
TN_API bool tn_data_is_text(const tn_data *data);
/* What there is to train on, or what is held out, for who makes batches of his own; it lives as
 * long as the data. Of text the samples are all bytes, and there are no labels. */
TN_API tn_samples tn_data_samples(const tn_data *data, bool held_out);

/* --- batches -----------------------------------------------------------------------------------
 */

typedef struct tn_batches tn_batches;

typedef struct tn_batches_options {
    size_t struct_size;
    const tn_context *context; /* NULL or outlives the batches */
    int64_t classes;           /* labels must be below it; 0: they are no class numbers */
    uint64_t seed;             /* of the order of samples */
    /* Each batch is part `part` of a whole one of `parts` times as many samples: ranks that train
     * the same see together what one would. 0: it is the whole */
    uint32_t part, parts;
} tn_batches_options;
#define TN_BATCHES_OPTIONS_INIT                                                                    \
    TN_INIT(tn_batches_options, TN_SET(struct_size, sizeof(tn_batches_options)))

/* Batches for an input and labels of these types and shapes; the first extent is the batch. One
 * sample has the shape that the model takes, extents of 1 aside, or the model takes vectors. Bytes
 * become reals from 0 to 1 where the model wants reals; float64 becomes float32, whole numbers
 * wider ones.
 *
 * data           outlives the batches
 * input, labels  as in the graph of tn_train; not needed after the call
 * options        NULL: defaults
 * Errors: E_INVALID (data that the model does not take, with the file, and the sample where it is
 * one; fewer samples than a batch has), E_NO_MEMORY. Cost: all of the data is read once. */
TN_API TN_CHECKED tn_status tn_batches_create(const tn_data *data, const tn_tensor *input,
                                              const tn_tensor *labels,
                                              const tn_batches_options *options,
                                              tn_batches **batches, tn_error *error);
TN_API void tn_batches_destroy(tn_batches *batches); /* NULL is fine */

/* Batches in which every sample is seen once; what does not fill the last one is left out. Of text,
 * as many as make up its length. */
TN_API uint64_t tn_batches_per_epoch(const tn_batches *batches);
/* Labels of a sample: 1, of text the length of a window, of pictures the pixels with a label. */
TN_API uint64_t tn_batches_labels(const tn_batches *batches);

/* Fills batch `number`, counted from the beginning of training. Another order in each epoch; of
 * text, windows that begin anywhere. The arrays have the types and shapes of `create`. */
TN_API void tn_batches_fill(tn_batches *batches, uint64_t number, tn_array *samples,
                            tn_array *labels);

/* Batches of what was held out, in its order; of text, windows side by side. */
TN_API uint64_t tn_batches_test_count(const tn_batches *batches);
/* Fills one of them and returns how many of its samples are real: the last batch is filled up. */
TN_API uint32_t tn_batches_fill_test(tn_batches *batches, uint64_t number, tn_array *samples,
                                     tn_array *labels);

#ifdef __cplusplus
}
#endif
#endif
