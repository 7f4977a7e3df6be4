/* pb.c - reads arrays from files that hold one TensorProto, such as the test data of ONNX models.
 *
 * The format has no magic number: a file is recognised if it parses as a TensorProto with an
 * element type and as many elements as its shape says.
 * Cost: O(bytes).
 */
#include "io/import/array.h"
#include "io/import/onnx_reader.h"

#include <stdio.h>

static tn_status pb_read(onnx_reader *reader, tn__span file, tn_array *array) {
    tn_error *error = reader->importer->error;
    onnx_tensor tensor;
    bool found;
    TN_TRY(tn__onnx_tensor(reader, file, false, &tensor));
    if (tensor.dtype == TN_STRING)
        TN_FAIL(error, TN_E_UNSUPPORTED, "arrays of strings are not read");
    if (tensor.segmented) TN_FAIL(error, TN_E_UNSUPPORTED, "a part of a tensor is not read");
    array->dtype = tensor.dtype;
    array->rank = tensor.rank;
    memcpy(array->shape, tensor.shape, tensor.rank * sizeof *tensor.shape);
    /* The size was checked against the payload, so a small file needs little memory. */
    if (tensor.elements != 0 && tensor.payload == 0)
        TN_FAIL(error, tensor.is_external ? TN_E_UNSUPPORTED : TN_E_INVALID,
                tensor.is_external ? "arrays in a file of their own are not read"
                                   : "it has a shape, but no elements");
    TN_TRY(tn__array_alloc(reader->importer->context, array, error));
    if (array->bytes == 0) return TN_OK;
    onnx_array elements = {.bytes = array->data, .size = array->bytes};
    return tn__onnx_elements(reader, &tensor, &elements, &found);
}

tn_status tn__pb_read(tn__span file, const tn_context *context, tn_array *array, tn_error *error) {
    tn_importer importer = {
        .bytes = file.bytes, .size = file.size, .context = context, .error = error};
    onnx_reader reader = {.importer = &importer};
    tn_status status = pb_read(&reader, file, array);
    if (status != TN_E_INVALID || error == NULL) return status;
    char message[sizeof error->message];
    memcpy(message, error->message, sizeof message);
    snprintf(error->message, sizeof error->message,
             "neither a .npy file nor an ONNX tensor (.pb): %.300s", message);
    return status;
}
