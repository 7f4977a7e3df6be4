/* fuzz_npy.c - any bytes as a file of one array: .npy, or an ONNX tensor.
 *
 * What must hold: an array whose size fits its type and shape, or an error with a message; and no
 * more memory than a multiple of the file.
 */
#include "fuzz_model.h"

#include <tenure/graph.h>

#include "io/import/importer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_memory memory = {0};
    tn_context context = TN_CONTEXT_INIT;
    tn_array array = {0};
    tn_error error = {0};
    uint64_t bytes, sum = 0;
    context.allocator = (tn_allocator){fuzz_resize, &memory};
    tn_status status = tn__array_read("f.npy", (tn__span){data, size}, &context, &array, &error);
    fuzz_must(status != TN_E_INTERNAL);
    if (status == TN_OK) {
        fuzz_accept();
        fuzz_must(tn_tensor_size(array.dtype, (tn_format){0}, array.rank, array.shape, &bytes,
                                 NULL) == TN_OK &&
                  bytes == array.bytes);
        for (uint64_t i = 0; i < bytes; i++) sum += ((const uint8_t *)array.data)[i];
    } else {
        fuzz_must(error.status == status && error.message[0] && error.where[0]);
        fuzz_must(array.data == NULL);
    }
    volatile uint64_t sink = sum; /* so that the reading is not left out */
    (void)sink;
    tn_array_release(&array, &context);
    fuzz_must(memory.held == 0);
    fuzz_must(memory.most <= 4096 + 64 * size);
    return 0;
}
