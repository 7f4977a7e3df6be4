/* data.c - data sets for training: Fashion-MNIST as Debian ships it, .npy pairs, text as bytes. */
#include "cli/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"

#define DATA_FASHION "/usr/share/datasets/fashion-mnist"

/* --- reading --- */

static tn_status data_path(const char *text, size_t length, char **path, tn_error *error) {
    *path = strndup(text, length);
    return *path != NULL ? TN_OK : tn__no_memory(error, "the data");
}

static tn_status data_count(cli_set *set, tn_error *error) {
    if (set->samples.rank == 0 || set->samples.shape[0] <= 0)
        TN_FAIL(error, TN_E_INVALID, "%.200s holds no samples", set->samples_path);
    set->count = (uint64_t)set->samples.shape[0];
    if (set->count >= UINT32_MAX)
        TN_FAIL(error, TN_E_INVALID, "%.200s holds more than 2^32 samples", set->samples_path);
    if (set->labels.rank == 0 || (uint64_t)set->labels.shape[0] != set->count)
        TN_FAIL(error, TN_E_INVALID, "%.200s has %llu samples, but %.200s %lld labels",
                set->samples_path, (unsigned long long)set->count, set->labels_path,
                (long long)(set->labels.rank > 0 ? set->labels.shape[0] : 0));
    return TN_OK;
}

static tn_status data_load_idx(const char *folder, const char *images, const char *labels,
                               cli_set *set, tn_error *error) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, images) >= (int)sizeof path)
        TN_FAIL(error, TN_E_INVALID, "the path of the data is too long");
    TN_TRY(data_path(path, strlen(path), &set->samples_path, error));
    snprintf(path, sizeof path, "%s/%s", folder, labels);
    TN_TRY(data_path(path, strlen(path), &set->labels_path, error));
    TN_TRY(cli_idx_load(set->samples_path, &set->samples, error));
    TN_TRY(cli_idx_load(set->labels_path, &set->labels, error));
    return data_count(set, error);
}

static tn_status data_load_pair(const char *what, size_t length, cli_set *set, tn_error *error) {
    const char *comma = memchr(what, ',', length);
    if (comma == NULL)
        TN_FAIL(error, TN_E_INVALID,
                "--data: '%.100s' is neither fashion-mnist, text:FILE nor SAMPLES.npy,LABELS.npy",
                what);
    size_t first = (size_t)(comma - what);
    TN_TRY(data_path(what, first, &set->samples_path, error));
    TN_TRY(data_path(comma + 1, length - first - 1, &set->labels_path, error));
    TN_TRY(tn_array_load(set->samples_path, NULL, &set->samples, error));
    TN_TRY(tn_array_load(set->labels_path, NULL, &set->labels, error));
    return data_count(set, error);
}

static tn_status data_take_text(const char *path, const uint8_t *bytes, uint64_t size, cli_set *set,
                                tn_error *error) {
    TN_TRY(data_path(path, strlen(path), &set->samples_path, error));
    set->samples = (tn_array){.dtype = TN_UINT8,
                              .rank = 1,
                              .shape = {(int64_t)size},
                              .bytes = size,
                              .data = malloc(size + 1)};
    if (set->samples.data == NULL) return tn__no_memory(error, "the text");
    if (size > 0) memcpy(set->samples.data, bytes, size);
    set->count = size;
    return TN_OK;
}

/* The last tenth is for testing. */
static tn_status data_load_text(const char *path, cli_data *data, tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map(path, &file, error));
    uint64_t held_out = file.size / 10, size = file.size - held_out;
    const uint8_t *bytes = file.bytes;
    data->text = true;
    tn_status status = data_take_text(path, bytes, size, &data->train, error);
    if (status == TN_OK && held_out > 0)
        status = data_take_text(path, bytes + size, held_out, &data->test, error);
    tn__file_unmap(&file);
    return status;
}

tn_status cli_data_load(const char *what, cli_data *data, tn_error *error) {
    static const char fashion[] = "fashion-mnist";
    size_t name = sizeof fashion - 1;
    *data = (cli_data){0};
    if (strncmp(what, fashion, name) == 0 && (what[name] == '\0' || what[name] == ':')) {
        const char *folder = what[name] == ':' ? what + name + 1 : DATA_FASHION;
        TN_TRY(data_load_idx(folder, "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                             &data->train, error));
        return data_load_idx(folder, "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz",
                             &data->test, error);
    }
    if (strncmp(what, "text:", 5) == 0) return data_load_text(what + 5, data, error);
    const char *colon = strchr(what, ':');
    TN_TRY(data_load_pair(what, colon != NULL ? (size_t)(colon - what) : strlen(what), &data->train,
                          error));
    return colon != NULL ? data_load_pair(colon + 1, strlen(colon + 1), &data->test, error) : TN_OK;
}

static void data_release_set(cli_set *set) {
    tn_array_release(&set->samples, NULL);
    tn_array_release(&set->labels, NULL);
    free(set->samples_path);
    free(set->labels_path);
}

void cli_data_release(cli_data *data) {
    data_release_set(&data->train);
    data_release_set(&data->test);
    *data = (cli_data){0};
}

/* --- is it what the model takes? --- */

/* "uint8 [28,28]", without the first extent. */
static void data_describe(tn_dtype dtype, uint32_t rank, const int64_t *shape, char text[160]) {
    size_t used = (size_t)snprintf(text, 160, "%s [", tn_dtype_name(dtype));
    for (uint32_t d = 1; d < rank && used < 130; d++)
        used += (size_t)snprintf(text + used, 160 - used, "%s%lld", d > 1 ? "," : "",
                                 (long long)shape[d]);
    snprintf(text + used, 160 - used, "]");
}

/* One sample has the shape that the model takes, extents of 1 aside; or the model takes it as a
 * vector. */
static bool data_same_shape(const tn_array *array, const tn_tensor *tensor) {
    uint32_t a = 1, b = 1;
    uint64_t bits = tn_dtype_bits(array->dtype);
    uint64_t elements = bits > 0 ? array->bytes * 8 / bits / (uint64_t)array->shape[0] : 0;
    if (tensor->rank == 2 && (uint64_t)tensor->shape[1] == elements) return true;
    for (;; a++, b++) {
        while (a < array->rank && array->shape[a] == 1) a++;
        while (b < tensor->rank && tensor->shape[b] == 1) b++;
        if (a == array->rank || b == tensor->rank) return a == array->rank && b == tensor->rank;
        if (array->shape[a] != tensor->shape[b]) return false;
    }
}

static tn_status data_check_numbers(const tn_array *array, const char *path, const char *what,
                                    tn_error *error) {
    uint64_t odd = cli_first_odd(array->data, array->bytes, array->dtype);
    if (odd == TN_SIZE_UNKNOWN) return TN_OK;
    uint64_t elements = array->bytes * 8 / tn_dtype_bits(array->dtype);
    TN_FAIL(error, TN_E_INVALID,
            "%.200s: number %llu of its %s has an element that is infinite or NaN", path,
            (unsigned long long)(odd / (elements / (uint64_t)array->shape[0])), what);
}

static tn_status data_check_array(const tn_array *array, const char *path, const tn_tensor *tensor,
                                  const char *what, tn_error *error) {
    char has[160], wants[160];
    if (data_same_shape(array, tensor) && cli_batch_converts(array->dtype, tensor->dtype))
        return data_check_numbers(array, path, what, error);
    data_describe(array->dtype, array->rank, array->shape, has);
    data_describe(tensor->dtype, tensor->rank, tensor->shape, wants);
    TN_FAIL(error, TN_E_INVALID, "%.200s: each of its %s is %s; the model takes '%.60s' of %s",
            path, what, has, tensor->name, wants);
}

static int64_t data_class(const tn_array *labels, uint64_t i) {
    int64_t wide = 0;
    int32_t narrow;
    if (labels->dtype == TN_UINT8) return ((const uint8_t *)labels->data)[i];
    if (labels->dtype == TN_INT8) return ((const int8_t *)labels->data)[i];
    if (labels->dtype == TN_INT64) memcpy(&wide, (const uint8_t *)labels->data + 8 * i, 8);
    if (labels->dtype != TN_INT32) return wide;
    memcpy(&narrow, (const uint8_t *)labels->data + 4 * i, 4);
    return narrow;
}

static tn_status data_check_classes(const cli_set *set, int64_t classes, tn_error *error) {
    uint64_t all = set->labels.bytes * 8 / tn_dtype_bits(set->labels.dtype);
    for (uint64_t i = 0; i < all; i++) {
        int64_t label = data_class(&set->labels, i);
        if (label >= 0 && label < classes) continue;
        TN_FAIL(error, TN_E_INVALID,
                "%.200s: sample %llu has label %lld; the model has %lld classes, from 0 to %lld",
                set->labels_path, (unsigned long long)(i / (all / set->count)), (long long)label,
                (long long)classes, (long long)classes - 1);
    }
    return TN_OK;
}

static tn_status data_check_text(const cli_set *set, int64_t classes, tn_error *error) {
    const uint8_t *bytes = set->samples.data;
    for (uint64_t i = 0; i < set->count && classes < 256; i++)
        if (bytes[i] >= classes)
            TN_FAIL(error, TN_E_INVALID,
                    "%.200s: byte %llu is %u; the model scores %lld, and text needs 256",
                    set->samples_path, (unsigned long long)i, bytes[i], (long long)classes);
    return TN_OK;
}

static tn_status data_check_set(const cli_set *set, const tn_tensor *input, const tn_tensor *labels,
                                int64_t classes, tn_error *error) {
    if (set->count == 0) return TN_OK;
    TN_TRY(data_check_array(&set->samples, set->samples_path, input, "samples", error));
    TN_TRY(data_check_array(&set->labels, set->labels_path, labels, "labels", error));
    return classes > 0 ? data_check_classes(set, classes, error) : TN_OK;
}

tn_status cli_data_check(const cli_data *data, const tn_tensor *input, const tn_tensor *labels,
                         int64_t classes, tn_error *error) {
    if (!data->text) {
        TN_TRY(data_check_set(&data->train, input, labels, classes, error));
        return data_check_set(&data->test, input, labels, classes, error);
    }
    if (!cli_batch_converts(TN_UINT8, input->dtype) || input->dtype == TN_FLOAT32 ||
        labels->dtype != TN_INT64 || input->rank != 2 || labels->rank != 2 ||
        input->shape[1] != labels->shape[1])
        TN_FAIL(error, TN_E_INVALID,
                "text is for models that take whole numbers [batch, time] and score 256 bytes for "
                "each of them");
    TN_TRY(data_check_text(&data->train, classes, error));
    return data_check_text(&data->test, classes, error);
}
