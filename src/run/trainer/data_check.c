/* data_check.c - checks that a data set fits the model: shapes, types, numbers, and every label.
 *
 * Cost: all of the data is read once.
 */
#include "run/trainer/data.h"

#include <stdio.h>

#include "graph/element.h"

/* "uint8 [28,28]", without the first extent. */
static void data_describe(tn_dtype dtype, uint32_t rank, const int64_t *shape, char text[160]) {
    size_t used = (size_t)snprintf(text, 160, "%s [", tn_dtype_name(dtype));
    for (uint32_t d = 1; d < rank && used < 130; d++)
        used += (size_t)snprintf(text + used, 160 - used, "%s%lld", d > 1 ? "," : "",
                                 (long long)shape[d]);
    snprintf(text + used, 160 - used, "]");
}

/* One sample has the model's input shape, ignoring extents of 1; or the model takes it as a
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

static tn_status data_check_classes(const tn__set *set, int64_t classes, tn_error *error) {
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

static tn_status data_check_text(const tn__set *set, int64_t classes, tn_error *error) {
    const uint8_t *bytes = set->samples.data;
    for (uint64_t i = 0; i < set->count && classes > 0 && classes < 256; i++)
        if (bytes[i] >= classes)
            TN_FAIL(error, TN_E_INVALID,
                    "%.200s: byte %llu is %u; the model scores %lld, and text needs 256",
                    set->samples_path, (unsigned long long)i, bytes[i], (long long)classes);
    return TN_OK;
}

static tn_status data_check_set(const tn__set *set, const tn_tensor *input, const tn_tensor *labels,
                                int64_t classes, tn_error *error) {
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
