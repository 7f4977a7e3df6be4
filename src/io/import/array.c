/* array.c - recognises the format of array files, and frees an array's data. */
#include "io/import/array.h"

#include <stdio.h>

tn_status tn__array_alloc(const tn_context *context, tn_array *array, tn_error *error) {
    TN_TRY(tn_tensor_size(array->dtype, (tn_format){0}, array->rank, array->shape, &array->bytes,
                          error));
    if (array->bytes > PTRDIFF_MAX)
        TN_FAIL(error, TN_E_INVALID, "it has %llu bytes", (unsigned long long)array->bytes);
    array->data = tn__alloc(context, (size_t)array->bytes);
    return array->data != NULL ? TN_OK : tn__no_memory(error, "an array");
}

void tn_array_release(tn_array *array, const tn_context *given) {
    tn_context context = tn__context(given);
    if (array == NULL) return;
    tn__free(&context, array->data, (size_t)array->bytes);
    *array = (tn_array){0};
}

tn_status tn__array_read(const char *name, tn__span file, const tn_context *given, tn_array *array,
                         tn_error *error) {
    tn_context context = tn__context(given);
    tn_array read = {0};
    tn_status status = tn__npy_probe(file) ? tn__npy_read(file, &context, &read, error)
                                           : tn__pb_read(file, &context, &read, error);
    if (status == TN_OK) {
        *array = read;
        return TN_OK;
    }
    tn_array_release(&read, &context);
    if (error == NULL) return status;
    char where[sizeof error->where];
    memcpy(where, error->where, sizeof where);
    size_t length = strlen(name);
    const char *tail = length > 100 ? name + length - 100 : name;
    snprintf(error->where, sizeof error->where, "%s%s%.80s", tail, where[0] != 0 ? ": " : "",
             where);
    return status;
}

tn_status tn_array_load(const char *path, const tn_context *context, tn_array *array,
                        tn_error *error) {
    tn__file file;
    TN_TRY(tn__file_map_most(path, tn__context(context).read_limit, &file, error));
    tn__span bytes = {file.bytes, file.size};
    tn_status status = tn__array_read(path, bytes, context, array, error);
    tn__file_unmap(&file);
    return status;
}
