/* data.h - data sets for training: samples and labels, and which of them make which batch. */
#ifndef TN_CLI_DATA_H
#define TN_CLI_DATA_H

#include "cli/cli.h"

typedef struct cli_set { /* samples one behind the other, as they are kept */
    uint8_t *samples;    /* [count][sample_bytes]; text: the bytes themselves */
    uint8_t *labels;     /* [count][label_bytes]; NULL: text, whose labels are its next bytes */
    uint64_t count, sample_bytes, label_bytes;
    tn_dtype sample_dtype, label_dtype;
} cli_set;

typedef struct cli_data {
    cli_set train, test;      /* test.count 0: there is none */
    int64_t classes;          /* labels are below it; 0: they are no classes */
    uint64_t sample_elements; /* of one sample; text: 0, what the model takes */
    bool text;
} cli_data;

/* fashion-mnist[:DIR], text:FILE, or SAMPLES.npy,LABELS.npy (and :SAMPLES.npy,LABELS.npy to test).
 * Errors: E_IO, E_INVALID (cut short, not of this format, as many labels as samples). */
tn_status cli_data_load(const char *what, cli_data *data, tn_error *error);
void cli_data_release(cli_data *data);

/* Samples of batch `batch` of epoch `epoch`, numbers [size]: another order in each epoch, which
 * follows from the seed alone. Text: places where windows begin. `order` [count] is scratch that
 * keeps the order of *order_epoch (TN_NONE: none yet). */
void cli_data_batch(const cli_data *data, uint64_t seed, uint32_t epoch, uint64_t batch,
                    uint32_t size, uint64_t window, uint32_t *order, uint32_t *order_epoch,
                    uint64_t *numbers);

/* Fills input and labels of a model with these samples. Bytes become reals from 0 to 1 where the
 * model wants reals. Errors: E_INVALID (a model of another shape or type; a label out of range). */
tn_status cli_data_fill(const cli_data *data, const cli_set *set, const uint64_t *numbers,
                        uint32_t size, tn_array *input, tn_array *labels, tn_error *error);

#endif
