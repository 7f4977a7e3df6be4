/* data.h - data sets for training: samples and labels, and which of them make which batch.
 *
 * data.c reads them and looks at them before anything runs: whether they are what the model takes,
 * and every label. batch.c then fills batches without another look.
 */
#ifndef TN_CLI_DATA_H
#define TN_CLI_DATA_H

#include "cli/cli.h"

typedef struct cli_set {
    tn_array samples, labels; /* [count, ...]; text: samples [count] bytes, and no labels, which are
                               * the next bytes */
    char *samples_path, *labels_path; /* for messages */
    uint64_t count;
} cli_set;

typedef struct cli_data {
    cli_set train, test; /* test.count 0: there is none */
    bool text;
} cli_data;

/* fashion-mnist[:DIR], text:FILE, or SAMPLES.npy,LABELS.npy (and :SAMPLES.npy,LABELS.npy to test).
 * Errors: E_IO, E_INVALID (cut short, not of this format, not as many labels as samples). */
tn_status cli_data_load(const char *what, cli_data *data, tn_error *error);
void cli_data_release(cli_data *data);

/* Whether batches can be made of it for an input and labels of these types and shapes.
 * classes  labels must be below it; 0: they are no class numbers
 * Errors: E_INVALID, with the file, and the sample where it is one. */
tn_status cli_data_check(const cli_data *data, const tn_tensor *input, const tn_tensor *labels,
                         int64_t classes, tn_error *error);

/* idx.c: a file of idx format, of unsigned bytes, packed by gzip or not. */
tn_status cli_idx_load(const char *path, tn_array *array, tn_error *error);

/* --- batch.c --- */

/* Samples of batch `batch` of epoch `epoch`, numbers [size]: another order in each epoch, which
 * follows from the seed alone. Text: places where windows begin. `order` [count] is scratch that
 * keeps the order of *order_epoch (TN_NONE: none yet). */
void cli_batch_choose(const cli_data *data, uint64_t seed, uint32_t epoch, uint64_t batch,
                      uint32_t size, uint64_t window, uint32_t *order, uint32_t *order_epoch,
                      uint64_t *numbers);
/* Fills input and labels of a model with these samples of a set that was checked. Bytes become
 * reals from 0 to 1 where the model wants reals. */
void cli_batch_fill(const cli_data *data, const cli_set *set, const uint64_t *numbers,
                    uint32_t size, tn_array *input, tn_array *labels);
/* Whether elements of one type can become those of another there. */
bool cli_batch_converts(tn_dtype from, tn_dtype to);

#endif
