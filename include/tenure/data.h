/* data.h - data sets, and the division of their samples into batches for training.
 *
 *     uint8_t pixels[6][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}, {10, 11}};
 *     uint8_t sorts[6] = {0, 1, 2, 0, 1, 2};
 *     tn_samples clothes = {
 *         .samples = {.dtype = TN_UINT8, .rank = 2, .shape = {6, 2}, .bytes = 12, .data = pixels},
 *         .labels = {.dtype = TN_UINT8, .rank = 1, .shape = {6}, .bytes = 6, .data = sorts}};
 *     float x[2][2]; // a batch of the model: two samples and their labels
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
 * A batch depends only on the data, the seed and its number, so a resumed run sees the same
 * batches. All data is checked before the first batch is filled: shapes, types, every label, and
 * numbers that are not finite.
 *
 * Units: samples, batches.
 * Threads: any number of threads may read data; one thread at a time uses batches.
 */
#ifndef TENURE_DATA_H
#define TENURE_DATA_H

#include <tenure/array.h>
#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- data sets --- */

typedef struct tn_data tn_data;

/* Loads a data set by name:
 *
 * fashion-mnist[:DIR]  the four idx files of Debian's dataset-fashion-mnist, or files with these
 *                      names in DIR, compressed by gzip or not; ten thousand samples are held out
 * X.npy,Y.npy          samples and labels, by their first extent; a second pair after a colon is
 *                      held out
 * text:FILE            bytes, to predict the next one; the last tenth is held out
 *
 * context  NULL, or must outlive the data
 * data     out; destroy it with tn_data_destroy
 * Errors: E_IO, E_INVALID (not a data set; damaged; different numbers of labels and samples),
 * E_UNSUPPORTED (compressed files in a build without zlib), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_data_load(const char *what, const tn_context *context,
                                         tn_data **data, tn_error *error);
typedef struct tn_samples {
    tn_array samples, labels; /* the first extent of both is the number of samples */
} tn_samples;

/* Creates a data set from arrays, which are not copied and must outlive the data.
 *
 * train, test  samples to train on, and held-out samples; test NULL: nothing is held out
 * data         out; destroy it with tn_data_destroy
 * Errors: E_INVALID (no samples, a different number of labels, bytes that do not match the shape),
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_data_create(const tn_samples *train, const tn_samples *test,
                                           const tn_context *context, tn_data **data,
                                           tn_error *error);
TN_API void tn_data_destroy(tn_data *data); /* NULL is fine; destroy its batches first */

TN_API uint64_t tn_data_count(const tn_data *data); /* training samples; for text, bytes */
/* held-out samples; 0: nothing is held out */
TN_API uint64_t tn_data_test_count(const tn_data *data);
TN_API bool tn_data_is_text(const tn_data *data);
/* The training samples or the held-out samples, for callers that make their own batches; they live
 * as long as the data. For text the samples are all bytes, and there are no labels. */
TN_API tn_samples tn_data_samples(const tn_data *data, bool held_out);

/* --- batches -----------------------------------------------------------------------------------
 */

typedef struct tn_batches tn_batches;

typedef struct tn_batches_options {
    size_t struct_size;
    const tn_context *context; /* NULL, or must outlive the batches */
    int64_t classes;           /* labels must be below it; 0: labels are not class numbers */
    uint64_t seed;             /* for the order of samples */
    /* Each batch is part number `part` of a batch with `parts` times as many samples, so that
     * data-parallel ranks together see the batches of a single rank. parts 0: the whole batch. */
    uint32_t part, parts;
} tn_batches_options;
#define TN_BATCHES_OPTIONS_INIT                                                                    \
    TN_INIT(tn_batches_options, TN_SET(struct_size, sizeof(tn_batches_options)))

/* Makes batches for an input and labels with the given types and shapes; the first extent is the
 * batch. A sample has the shape that the model accepts, except for extents of 1, or the model
 * accepts vectors. Bytes become reals from 0 to 1 if the model needs reals; float64 becomes
 * float32, and integers become wider integers.
 *
 * data           must outlive the batches
 * input, labels  as in the graph of tn_train; not needed after the call
 * options        NULL: defaults
 * batches        out; destroy them with tn_batches_destroy
 * Errors: E_INVALID (data that the model does not accept, with the file and, if possible, the
 * sample; fewer samples than a batch has), E_NO_MEMORY. Cost: one pass over all data. */
TN_API TN_CHECKED tn_status tn_batches_create(const tn_data *data, const tn_tensor *input,
                                              const tn_tensor *labels,
                                              const tn_batches_options *options,
                                              tn_batches **batches, tn_error *error);
TN_API void tn_batches_destroy(tn_batches *batches); /* NULL is fine */

/* Number of batches in which every sample is seen once; samples that do not fill the last batch are
 * left out. For text, the number of batches with as many bytes as the text. */
TN_API uint64_t tn_batches_per_epoch(const tn_batches *batches);
/* Number of labels per sample: 1; for text the length of a window; for images with one
 * label per pixel the number of pixels. */
TN_API uint64_t tn_batches_labels(const tn_batches *batches);

/* Fills batch `number`, counted from the beginning of training. The order differs in each epoch;
 * for text, windows begin anywhere. The arrays have the types and shapes of tn_batches_create. */
TN_API void tn_batches_fill(tn_batches *batches, uint64_t number, tn_array *samples,
                            tn_array *labels);

/* Number of batches of held-out samples, in their order; for text, of adjacent windows. */
TN_API uint64_t tn_batches_test_count(const tn_batches *batches);
/* Fills one of them and returns the number of real samples: the last batch is padded. */
TN_API uint32_t tn_batches_fill_test(tn_batches *batches, uint64_t number, tn_array *samples,
                                     tn_array *labels);

#ifdef __cplusplus
}
#endif
#endif
