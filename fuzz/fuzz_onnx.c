/* fuzz_onnx.c - any bytes as an ONNX model, under options that the bytes choose.
 *
 * The last byte picks options, so that files with symbolic dimensions get past them (the seeds end
 * with an unknown field that holds it). Then the contents of small tensors are read. What must
 * hold: fuzz_model.h.
 */
#include "fuzz_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const tn_dim known[] = {{"N", 2}, {"batch", 3}, {"T", 7}};
    static const int64_t extents[] = {2, 3, 4};
    static const tn_input_shape shape = {"x", 3, extents};
    static const char *const globs[] = {"w*"};
    static const double number[] = {3};
    static const tn_input_value value = {"n", 1, number};
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    uint8_t pick = size ? data[size - 1] : 0;
    tn_dim dims[3];
    for (uint32_t i = 0; i < 3; i++)
        if (pick >> i & 1) dims[options.dim_count++] = known[i];
    options.dims = dims;
    options.input_shapes = &shape;
    options.input_shape_count = pick >> 3 & 1;
    options.parameters = globs;
    options.parameter_count = pick >> 4 & 1;
    options.values = &value;
    options.value_count = pick >> 6 & 1;
    if (pick & 32) options.format = (tn_format){.order = TN_ORDER_NCHW, .block = 8};
    if ((pick & 40) == 40) { /* instead of both */
        options.input_shape_count = 0;
        options.format = (tn_format){0};
        options.batch = 4;
    }
    fuzz_file file = {"f.onnx", data, size};
    fuzz_load("f.onnx", data, size, options, fuzz_contents, &file);
    return 0;
}
