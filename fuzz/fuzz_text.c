/* fuzz_text.c - any bytes as a text to train on.
 *
 * The first byte is the length of a window, the second the batch, the third the number of classes.
 * What must hold: the text and its held-out tenth are the file's bytes; batches contain bytes of
 * the text, and labels below the number of classes; otherwise an error with a message.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tenure/train.h>

#include "fuzz.h"
#include "base/base.h"

#define TEXT_MOST 64u

static void text_judge(tn_status status, const tn_error *error) {
    fuzz_must(status != TN_E_INTERNAL);
    fuzz_must(status == TN_OK || (error->status == status && error->message[0]));
}

static void text_batches(const tn_data *data, uint32_t window, uint32_t batch, uint32_t classes) {
    const int64_t shape[] = {batch, window};
    uint64_t count = (uint64_t)batch * window;
    int64_t samples[TEXT_MOST * TEXT_MOST], labels[TEXT_MOST * TEXT_MOST];
    tn_tensor tensor = {.name = "x", .dtype = TN_INT64, .rank = 2, .shape = shape};
    tn_batches_options options = TN_BATCHES_OPTIONS_INIT;
    tn_batches *batches;
    tn_error error = {0};
    tensor.bytes = count * sizeof *samples;
    options.classes = classes;
    tn_status status = tn_batches_create(data, &tensor, &tensor, &options, &batches, &error);
    text_judge(status, &error);
    if (status != TN_OK) return;
    fuzz_accept();
    tn_array x = {.dtype = TN_INT64, .rank = 2, .shape = {batch, window}, .data = samples};
    tn_array y = {.dtype = TN_INT64, .rank = 2, .shape = {batch, window}, .data = labels};
    x.bytes = y.bytes = count * sizeof *samples;
    for (uint64_t number = 0; number < 3; number++) {
        tn_batches_fill(batches, number, &x, &y);
        for (uint64_t i = 0; i < count; i++) {
            fuzz_must(samples[i] >= 0 && samples[i] < 256);
            fuzz_must(labels[i] >= 0 && labels[i] < (classes != 0 ? (int64_t)classes : 256));
        }
    }
    tn_batches_destroy(batches);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    char what[64];
    tn_data *data = NULL;
    tn_error error = {0};
    if (size < 3) return 0;
    uint32_t window = 1 + bytes[0] % TEXT_MOST, batch = 1 + bytes[1] % TEXT_MOST;
    uint32_t classes = bytes[2] != 0 ? bytes[2] + 1u : 0;
    size -= 3;
    int descriptor = memfd_create("text", MFD_CLOEXEC);
    fuzz_must(descriptor >= 0 && write(descriptor, bytes + 3, size) == (ssize_t)size);
    snprintf(what, sizeof what, "text:/proc/self/fd/%d", descriptor);
    tn_status status = tn_data_load(what, NULL, &data, &error);
    close(descriptor);
    text_judge(status, &error);
    if (status != TN_OK) return 0;
    uint64_t held_out = tn_data_test_count(data), count = tn_data_count(data);
    fuzz_must(tn_data_is_text(data) && held_out == size / 10 && count + held_out == size);
    fuzz_must(memcmp(tn_data_samples(data, false).samples.data, bytes + 3, count) == 0);
    if (held_out > 0)
        fuzz_must(!memcmp(tn_data_samples(data, true).samples.data, bytes + 3 + count, held_out));
    text_batches(data, window, batch, classes);
    tn_data_destroy(data);
    return 0;
}
