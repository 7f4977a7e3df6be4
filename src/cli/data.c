/* data.c - data sets for training: Fashion-MNIST as Debian ships it, .npy pairs, text as bytes. */
#include "cli/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifndef TENURE_MINIMAL
#include <zlib.h>
#endif

#include "base/base.h"

#define DATA_FASHION "/usr/share/datasets/fashion-mnist"
#define DATA_MOST (UINT64_C(1) << 36)

/* --- idx files, packed --- */

#ifndef TENURE_MINIMAL
static uint32_t data_big_endian(const uint8_t *at) {
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static tn_status data_unpack(const char *path, void *bytes, size_t size, gzFile file,
                             tn_error *error) {
    uint8_t *at = bytes;
    while (size > 0) {
        int got = gzread(file, at, size > 1u << 30 ? 1u << 30 : (unsigned)size);
        if (got <= 0) TN_FAIL(error, TN_E_INVALID, "%.200s is cut short or damaged", path);
        at += got;
        size -= (size_t)got;
    }
    return TN_OK;
}

/* Elements of unsigned bytes: a head of magic and extents, then the bytes. */
static tn_status data_read_idx(const char *folder, const char *name, uint32_t rank, uint8_t **bytes,
                               uint64_t *count, uint64_t *each, tn_error *error) {
    char path[4096];
    uint8_t head[16];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path)
        TN_FAIL(error, TN_E_INVALID, "the path of the data is too long");
    gzFile file = gzopen(path, "rb");
    if (file == NULL)
        TN_FAIL(error, TN_E_IO,
                "cannot open %.200s; Debian has it in the package dataset-fashion-mnist", path);
    tn_status status = data_unpack(path, head, 4 + 4 * (size_t)rank, file, error);
    if (status == TN_OK && data_big_endian(head) != (0x800u | rank))
        status =
            tn__fail(error, TN_E_INVALID, "%.200s is no idx file of bytes of rank %u", path, rank);
    *each = 1;
    for (uint32_t d = 1; d < rank && status == TN_OK; d++)
        *each = tn__mul_sat(*each, data_big_endian(head + 4 + 4 * d));
    if (status == TN_OK) {
        *count = data_big_endian(head + 4);
        uint64_t size = tn__mul_sat(*count, *each);
        if (size > DATA_MOST)
            status = tn__fail(error, TN_E_INVALID, "%.200s states an absurd size", path);
        else if ((*bytes = malloc(size + 1)) == NULL)
            status = tn__no_memory(error, "the data set");
        else
            status = data_unpack(path, *bytes, size, file, error);
    }
    gzclose(file);
    return status;
}

static tn_status data_load_part(const char *folder, const char *images, const char *labels,
                                cli_set *set, tn_error *error) {
    uint64_t label_count = 0;
    set->sample_dtype = set->label_dtype = TN_UINT8;
    TN_TRY(data_read_idx(folder, images, 3, &set->samples, &set->count, &set->sample_bytes, error));
    TN_TRY(data_read_idx(folder, labels, 1, &set->labels, &label_count, &set->label_bytes, error));
    if (label_count != set->count)
        TN_FAIL(error, TN_E_INVALID, "%s: %llu images, but %llu labels", folder,
                (unsigned long long)set->count, (unsigned long long)label_count);
    return TN_OK;
}

static tn_status data_load_fashion(const char *folder, cli_data *data, tn_error *error) {
    TN_TRY(data_load_part(folder, "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                          &data->train, error));
    TN_TRY(data_load_part(folder, "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz",
                          &data->test, error));
    data->sample_elements = data->train.sample_bytes;
    data->classes = 10;
    return TN_OK;
}
#else
static tn_status data_load_fashion(const char *folder, cli_data *data, tn_error *error) {
    (void)folder;
    (void)data;
    TN_FAIL(error, TN_E_UNSUPPORTED, "this build reads no packed data; build with zlib1g-dev");
}
#endif

/* --- text --- */

static tn_status data_load_text(const char *path, cli_data *data, tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map(path, &file, error));
    data->text = true;
    data->classes = 256;
    data->train.sample_dtype = data->train.label_dtype = TN_UINT8;
    data->test.sample_dtype = data->test.label_dtype = TN_UINT8;
    /* the last tenth is for testing */
    uint64_t held_out = file.size / 10;
    data->train.count = file.size - held_out;
    data->test.count = held_out;
    data->train.samples = malloc(data->train.count + 1);
    data->test.samples = malloc(held_out + 1);
    tn_status status = TN_OK;
    if (data->train.samples == NULL || data->test.samples == NULL)
        status = tn__no_memory(error, "the text");
    else {
        memcpy(data->train.samples, file.bytes, data->train.count);
        memcpy(data->test.samples, file.bytes + data->train.count, held_out);
    }
    tn__file_unmap(&file);
    return status;
}

/* --- .npy pairs --- */

static tn_status data_take_array(const char *path, uint8_t **bytes, uint64_t *count, uint64_t *each,
                                 tn_dtype *dtype, tn_error *error) {
    tn_array array = {0};
    TN_TRY(tn_array_load(path, NULL, &array, error));
    tn_status status = TN_OK;
    if (array.rank == 0 || array.shape[0] <= 0)
        status = tn__fail(error, TN_E_INVALID, "%.200s holds no samples", path);
    if (status == TN_OK && (*bytes = malloc(array.bytes + 1)) == NULL)
        status = tn__no_memory(error, "the data set");
    if (status == TN_OK) {
        memcpy(*bytes, array.data, array.bytes);
        *count = (uint64_t)array.shape[0];
        *each = array.bytes / *count;
        *dtype = array.dtype;
    }
    tn_array_release(&array, NULL);
    return status;
}

static tn_status data_load_pair(const char *what, size_t length, cli_set *set, tn_error *error) {
    char samples[2048];
    const char *comma = memchr(what, ',', length);
    size_t first = comma != NULL ? (size_t)(comma - what) : length;
    uint64_t label_count = 0;
    if (comma == NULL || first >= sizeof samples || length - first >= sizeof samples)
        TN_FAIL(error, TN_E_INVALID,
                "--data: '%.100s' is neither fashion-mnist, text:FILE nor SAMPLES.npy,LABELS.npy",
                what);
    snprintf(samples, sizeof samples, "%.*s", (int)first, what);
    TN_TRY(data_take_array(samples, &set->samples, &set->count, &set->sample_bytes,
                           &set->sample_dtype, error));
    snprintf(samples, sizeof samples, "%.*s", (int)(length - first - 1), comma + 1);
    TN_TRY(data_take_array(samples, &set->labels, &label_count, &set->label_bytes,
                           &set->label_dtype, error));
    if (label_count != set->count)
        TN_FAIL(error, TN_E_INVALID, "%llu samples, but %llu labels",
                (unsigned long long)set->count, (unsigned long long)label_count);
    return TN_OK;
}

tn_status cli_data_load(const char *what, cli_data *data, tn_error *error) {
    static const char fashion[] = "fashion-mnist";
    size_t name = sizeof fashion - 1;
    *data = (cli_data){0};
    if (strncmp(what, fashion, name) == 0 && (what[name] == '\0' || what[name] == ':'))
        return data_load_fashion(what[name] == ':' ? what + name + 1 : DATA_FASHION, data, error);
    if (strncmp(what, "text:", 5) == 0) return data_load_text(what + 5, data, error);
    const char *colon = strchr(what, ':');
    size_t length = colon != NULL ? (size_t)(colon - what) : strlen(what);
    TN_TRY(data_load_pair(what, length, &data->train, error));
    if (colon != NULL) TN_TRY(data_load_pair(colon + 1, strlen(colon + 1), &data->test, error));
    uint32_t bits = tn_dtype_bits(data->train.sample_dtype);
    data->sample_elements = bits > 0 ? data->train.sample_bytes * 8 / bits : 0;
    if (colon != NULL && (data->test.sample_bytes != data->train.sample_bytes ||
                          data->test.sample_dtype != data->train.sample_dtype))
        TN_FAIL(error, TN_E_INVALID, "samples to test have another shape than those to train");
    return TN_OK;
}

void cli_data_release(cli_data *data) {
    free(data->train.samples);
    free(data->train.labels);
    free(data->test.samples);
    free(data->test.labels);
    *data = (cli_data){0};
}

/* --- batches --- */

static void data_shuffle(uint32_t *order, uint64_t count, uint64_t seed, uint32_t epoch) {
    tn__random random = {.state = seed ^ (0x9e3779b97f4a7c15u * (epoch + 1u))};
    for (uint64_t i = 0; i < count; i++) order[i] = (uint32_t)i;
    for (uint64_t i = count; i > 1; i--) {
        uint64_t k = tn__random_below(&random, i);
        uint32_t kept = order[i - 1];
        order[i - 1] = order[k];
        order[k] = kept;
    }
}

void cli_data_batch(const cli_data *data, uint64_t seed, uint32_t epoch, uint64_t batch,
                    uint32_t size, uint64_t window, uint32_t *order, uint32_t *order_epoch,
                    uint64_t *numbers) {
    uint64_t count = data->train.count;
    if (data->text) { /* places drawn anew for each batch */
        tn__random random = {.state = seed + 0x632be59bd9b4e019u * (batch + 1) + epoch};
        for (uint32_t i = 0; i < size; i++) numbers[i] = tn__random_below(&random, count - window);
        return;
    }
    if (*order_epoch != epoch) data_shuffle(order, count, seed, epoch);
    *order_epoch = epoch;
    for (uint32_t i = 0; i < size; i++) numbers[i] = order[(batch * size + i) % count];
}

/* --- into the model's inputs --- */

static int64_t data_integer(const uint8_t *at, tn_dtype dtype, uint64_t index) {
    switch (dtype) {
    case TN_UINT8:
        return at[index];
    case TN_INT8:
        return (int8_t)at[index];
    case TN_INT32: {
        int32_t value;
        memcpy(&value, at + 4 * index, 4);
        return value;
    }
    case TN_INT64: {
        int64_t value;
        memcpy(&value, at + 8 * index, 8);
        return value;
    }
    default:
        return INT64_MIN;
    }
}

/* One element of a sample into the model's type. False: no such conversion. */
static bool data_put(tn_array *array, uint64_t place, const uint8_t *from, tn_dtype dtype,
                     uint64_t index) {
    uint64_t width = tn_dtype_bits(array->dtype) / 8;
    uint8_t *to = (uint8_t *)array->data + place * width;
    if (array->dtype == dtype) {
        memcpy(to, from + index * width, width);
        return true;
    }
    if (array->dtype == TN_FLOAT32 && dtype == TN_UINT8) {
        memcpy(to, &(float){(float)from[index] / 255}, 4);
        return true;
    }
    int64_t value = data_integer(from, dtype, index);
    if (value == INT64_MIN) return false;
    if (array->dtype == TN_INT64)
        memcpy(to, &value, 8);
    else if (array->dtype == TN_INT32)
        memcpy(to, &(int32_t){(int32_t)value}, 4);
    else
        return false;
    return true;
}

static tn_status data_fill_text(const cli_set *set, const uint64_t *numbers, uint32_t size,
                                tn_array *input, tn_array *labels, tn_error *error) {
    uint64_t window = tn_dtype_bits(input->dtype) == 0
                          ? 0
                          : input->bytes * 8 / tn_dtype_bits(input->dtype) / size;
    bool fits = window > 0 && labels->bytes * 8 / tn_dtype_bits(labels->dtype) / size == window;
    for (uint32_t i = 0; i < size && fits; i++)
        for (uint64_t k = 0; k < window && fits; k++)
            fits = data_put(input, i * window + k, set->samples, TN_UINT8, numbers[i] + k) &&
                   data_put(labels, i * window + k, set->samples, TN_UINT8, numbers[i] + k + 1);
    if (!fits)
        TN_FAIL(error, TN_E_INVALID,
                "text is for models that take whole numbers [batch, time] and give scores of 256 "
                "bytes for each");
    return TN_OK;
}

tn_status cli_data_fill(const cli_data *data, const cli_set *set, const uint64_t *numbers,
                        uint32_t size, tn_array *input, tn_array *labels, tn_error *error) {
    if (data->text) return data_fill_text(set, numbers, size, input, labels, error);
    uint64_t each = data->sample_elements;
    uint64_t wide = set->label_bytes * 8 / tn_dtype_bits(set->label_dtype);
    if (input->bytes * 8 / tn_dtype_bits(input->dtype) != each * size)
        TN_FAIL(error, TN_E_INVALID,
                "the model takes %llu numbers for %u samples, the data has %llu for each",
                (unsigned long long)(input->bytes * 8 / tn_dtype_bits(input->dtype)), size,
                (unsigned long long)each);
    if (labels->bytes * 8 / tn_dtype_bits(labels->dtype) != wide * size)
        TN_FAIL(error, TN_E_INVALID, "the loss takes other labels than the %llu numbers of each",
                (unsigned long long)wide);
    for (uint32_t i = 0; i < size; i++) {
        const uint8_t *sample = set->samples + numbers[i] * set->sample_bytes;
        const uint8_t *label = set->labels + numbers[i] * set->label_bytes;
        bool fits = true;
        for (uint64_t k = 0; k < each && fits; k++)
            fits = data_put(input, i * each + k, sample, set->sample_dtype, k);
        for (uint64_t k = 0; k < wide && fits; k++) {
            int64_t value = data->classes > 0 ? data_integer(label, set->label_dtype, k) : 0;
            if (data->classes > 0 && (value < 0 || value >= data->classes))
                TN_FAIL(error, TN_E_INVALID, "sample %llu has label %lld; there are %lld classes",
                        (unsigned long long)numbers[i], (long long)value, (long long)data->classes);
            fits = data_put(labels, i * wide + k, label, set->label_dtype, k);
        }
        if (!fits)
            TN_FAIL(error, TN_E_INVALID, "samples are %s and labels %s, the model takes %s and %s",
                    tn_dtype_name(set->sample_dtype), tn_dtype_name(set->label_dtype),
                    tn_dtype_name(input->dtype), tn_dtype_name(labels->dtype));
    }
    return TN_OK;
}
