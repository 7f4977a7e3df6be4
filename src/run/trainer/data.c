/* data.c - loads data sets (Fashion-MNIST as Debian ships it, pairs of .npy files, text as bytes,
 * arrays), and checks them against a model. */
#include "run/trainer/data.h"
#include "graph/element.h"

#include <stdio.h>

/* --- checking data against the model ---------------------------------------------------------- */

/* Checks that a data set fits the model: shapes, types, numbers, and every label.
 *
 * Cost: all of the data is read once. */

/* Writes type and shape of one sample to `text`, for example "uint8 [28,28]". The first extent is
 * left out, because it counts samples. */
static void data_describe(tn_dtype dtype, uint32_t rank, const int64_t *shape, char text[160]) {
    size_t used = (size_t)snprintf(text, 160, "%s [", tn_dtype_name(dtype));
    for (uint32_t d = 1; d < rank && used < 130; d++)
        used += (size_t)snprintf(text + used, 160 - used, "%s%lld", d > 1 ? "," : "",
                                 (long long)shape[d]);
    snprintf(text + used, 160 - used, "]");
}

/* Whether the samples of an array have the shape that the model reads. Extents of 1 are ignored,
 * and a model that reads vectors may get samples of any shape with the same number of elements. */
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
    uint64_t odd = tn__first_odd(array->data, array->bytes, array->dtype);
    if (odd == TN_SIZE_UNKNOWN) return TN_OK;
    uint64_t elements = array->bytes * 8 / tn_dtype_bits(array->dtype);
    TN_FAIL(error, TN_E_INVALID,
            "%.200s: number %llu of its %s has an element that is infinite or NaN", path,
            (unsigned long long)(odd / (elements / (uint64_t)array->shape[0])), what);
}

static tn_status data_check_array(const tn_array *array, const char *path, const tn_tensor *tensor,
                                  const char *what, tn_error *error) {
    char has[160], wants[160];
    if (data_same_shape(array, tensor) && tn__batch_converts(array->dtype, tensor->dtype))
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

static tn_status data_check_classes(const tn__data_set *set, int64_t classes, tn_error *error) {
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

static tn_status data_check_text(const tn__data_set *set, int64_t classes, tn_error *error) {
    const uint8_t *bytes = set->samples.data;
    for (uint64_t i = 0; i < set->count && classes > 0 && classes < 256; i++)
        if (bytes[i] >= classes)
            TN_FAIL(error, TN_E_INVALID,
                    "%.200s: byte %llu is %u; the model scores %lld, and text needs 256",
                    set->samples_path, (unsigned long long)i, bytes[i], (long long)classes);
    return TN_OK;
}

static tn_status data_check_set(const tn__data_set *set, const tn_tensor *input,
                                const tn_tensor *labels, int64_t classes, tn_error *error) {
    if (set->count == 0) return TN_OK;
    TN_TRY(data_check_array(&set->samples, set->samples_path, input, "samples", error));
    TN_TRY(data_check_array(&set->labels, set->labels_path, labels, "labels", error));
    return classes > 0 ? data_check_classes(set, classes, error) : TN_OK;
}

tn_status tn__data_check(const tn_data *data, const tn_tensor *input, const tn_tensor *labels,
                         int64_t classes, tn_error *error) {
    if (!data->text) {
        TN_TRY(data_check_set(&data->train, input, labels, classes, error));
        return data_check_set(&data->test, input, labels, classes, error);
    }
    if (!tn__batch_converts(TN_UINT8, input->dtype) || input->dtype == TN_FLOAT32 ||
        labels->dtype != TN_INT64 || input->rank != 2 || labels->rank != 2 ||
        input->shape[1] != labels->shape[1])
        TN_FAIL(error, TN_E_INVALID,
                "text is for models that take whole numbers [batch, time] and score 256 bytes for "
                "each of them");
    TN_TRY(data_check_text(&data->train, classes, error));
    return data_check_text(&data->test, classes, error);
}

/* --- loading ---------------------------------------------------------------------------------- */

#define DATA_FASHION "/usr/share/datasets/fashion-mnist"

static tn_status data_path(tn_data *data, const char *text, size_t length, const char **path,
                           tn_error *error) {
    *path = tn__arena_string(&data->arena, text, length);
    return *path != NULL ? TN_OK : tn__no_memory(error, "the data");
}

static tn_status data_count(tn__data_set *set, tn_error *error) {
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

/* --- files --- */

static tn_status data_load_idx(tn_data *data, const char *folder, const char *images,
                               const char *labels, tn__data_set *set, tn_error *error) {
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, images) >= (int)sizeof path)
        TN_FAIL(error, TN_E_INVALID, "the path of the data is too long");
    TN_TRY(data_path(data, path, strlen(path), &set->samples_path, error));
    snprintf(path, sizeof path, "%s/%s", folder, labels);
    TN_TRY(data_path(data, path, strlen(path), &set->labels_path, error));
    TN_TRY(tn__idx_load(set->samples_path, &data->context, &set->samples, error));
    TN_TRY(tn__idx_load(set->labels_path, &data->context, &set->labels, error));
    return data_count(set, error);
}

static tn_status data_load_fashion(tn_data *data, const char *folder, tn_error *error) {
    TN_TRY(data_load_idx(data, folder, "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz",
                         &data->train, error));
    return data_load_idx(data, folder, "t10k-images-idx3-ubyte.gz", "t10k-labels-idx1-ubyte.gz",
                         &data->test, error);
}

static tn_status data_load_pair(tn_data *data, const char *what, size_t length, tn__data_set *set,
                                tn_error *error) {
    const char *comma = memchr(what, ',', length);
    if (comma == NULL)
        TN_FAIL(error, TN_E_INVALID,
                "'%.100s' is neither fashion-mnist, text:FILE nor SAMPLES.npy,LABELS.npy", what);
    size_t first = (size_t)(comma - what);
    TN_TRY(data_path(data, what, first, &set->samples_path, error));
    TN_TRY(data_path(data, comma + 1, length - first - 1, &set->labels_path, error));
    TN_TRY(tn_array_load(set->samples_path, &data->context, &set->samples, error));
    TN_TRY(tn_array_load(set->labels_path, &data->context, &set->labels, error));
    return data_count(set, error);
}

static tn_status data_load_pairs(tn_data *data, const char *what, tn_error *error) {
    const char *colon = strchr(what, ':');
    size_t first = colon != NULL ? (size_t)(colon - what) : strlen(what);
    TN_TRY(data_load_pair(data, what, first, &data->train, error));
    if (colon == NULL) return TN_OK;
    return data_load_pair(data, colon + 1, strlen(colon + 1), &data->test, error);
}

static tn_status data_take_text(tn_data *data, const char *path, const uint8_t *bytes,
                                uint64_t size, tn__data_set *set, tn_error *error) {
    TN_TRY(data_path(data, path, strlen(path), &set->samples_path, error));
    set->samples = (tn_array){.dtype = TN_UINT8,
                              .rank = 1,
                              .shape = {(int64_t)size},
                              .bytes = size,
                              .data = tn__alloc(&data->context, size)};
    if (set->samples.data == NULL) return tn__no_memory(error, "the text");
    if (size > 0) memcpy(set->samples.data, bytes, size);
    set->count = size;
    return TN_OK;
}

/* Loads a text file. The last tenth of the text is for testing, the rest for training. */
static tn_status data_load_text(tn_data *data, const char *path, tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map_most(path, data->context.read_limit, &file, error));
    uint64_t held_out = file.size / 10, size = file.size - held_out;
    const uint8_t *bytes = file.bytes;
    data->text = true;
    tn_status status = data_take_text(data, path, bytes, size, &data->train, error);
    if (status == TN_OK && held_out > 0)
        status = data_take_text(data, path, bytes + size, held_out, &data->test, error);
    tn__file_unmap(&file);
    return status;
}

static tn_status data_load(tn_data *data, const char *what, tn_error *error) {
    static const char fashion[] = "fashion-mnist";
    const char *behind = what + sizeof fashion - 1;
    if (strncmp(what, fashion, sizeof fashion - 1) == 0 && (*behind == '\0' || *behind == ':'))
        return data_load_fashion(data, *behind == ':' ? behind + 1 : DATA_FASHION, error);
    if (strncmp(what, "text:", 5) == 0) return data_load_text(data, what + 5, error);
    return data_load_pairs(data, what, error);
}

/* --- arrays --- */

static tn_status data_lend_array(const tn_array *array, tn_array *mine, tn_error *error) {
    uint64_t bytes;
    if (array->rank > TN_RANK_MAX) TN_FAIL(error, TN_E_INVALID, "an array of rank %u", array->rank);
    TN_TRY(tn_tensor_size(array->dtype, (tn_format){0}, array->rank, array->shape, &bytes, error));
    if (bytes != array->bytes)
        TN_FAIL(error, TN_E_INVALID, "an array has %llu bytes; its type and shape need %llu",
                (unsigned long long)array->bytes, (unsigned long long)bytes);
    *mine = *array;
    return TN_OK;
}

static tn_status data_lend(const tn_samples *given, tn__data_set *set, tn_error *error) {
    set->samples_path = set->labels_path = "the data";
    TN_TRY(data_lend_array(&given->samples, &set->samples, error));
    TN_TRY(data_lend_array(&given->labels, &set->labels, error));
    return data_count(set, error);
}

/* --- creating and destroying a data set --- */

static tn_data *data_make(const tn_context *given) {
    tn_context context = tn__context(given);
    tn_data *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return NULL;
    made->context = context;
    tn__arena_init(&made->arena, &made->context);
    return made;
}

static tn_status data_finish(tn_data *made, tn_status status, tn_data **data) {
    if (status == TN_OK)
        *data = made;
    else
        tn_data_destroy(made);
    return status;
}

tn_status tn_data_load(const char *what, const tn_context *context, tn_data **data,
                       tn_error *error) {
    tn_data *made = data_make(context);
    if (made == NULL) return tn__no_memory(error, "the data");
    return data_finish(made, data_load(made, what, error), data);
}

tn_status tn_data_create(const tn_samples *train, const tn_samples *test, const tn_context *context,
                         tn_data **data, tn_error *error) {
    tn_data *made = data_make(context);
    if (made == NULL) return tn__no_memory(error, "the data");
    made->lent = true;
    tn_status status = data_lend(train, &made->train, error);
    if (status == TN_OK && test != NULL) status = data_lend(test, &made->test, error);
    return data_finish(made, status, data);
}

static void data_release_set(tn_data *data, tn__data_set *set) {
    tn_array_release(&set->samples, &data->context);
    tn_array_release(&set->labels, &data->context);
}

void tn_data_destroy(tn_data *data) {
    if (data == NULL) return;
    tn_context context = data->context;
    if (!data->lent) data_release_set(data, &data->train);
    if (!data->lent) data_release_set(data, &data->test);
    tn__arena_release(&data->arena);
    tn__free(&context, data, sizeof *data);
}

uint64_t tn_data_count(const tn_data *data) { return data->train.count; }
uint64_t tn_data_test_count(const tn_data *data) { return data->test.count; }
bool tn_data_is_text(const tn_data *data) { return data->text; }

tn_samples tn_data_samples(const tn_data *data, bool held_out) {
    const tn__data_set *set = held_out ? &data->test : &data->train;
    return (tn_samples){.samples = set->samples, .labels = set->labels};
}
