/* fuzz_tflite.c - any bytes as a .tflite model, under options that the last byte chooses.
 *
 * What loads is lowered and its lives are found as well: control flow of .tflite has its own rules
 * there. Seeds: `test_import_tflite --corpus FOLDER`. What must hold: fuzz_model.h.
 */
#include "fuzz_model.h"

#include <tenure/program.h>

#define FUZZ_OPS_MAX 2000u

static void fuzz_lives(void *file, const tn_graph *graph) {
    fuzz_contents(file, graph);
    tn_program *program = NULL;
    tn_occupancy *occupancy = NULL;
    tn_error error = {0};
    if (tn_graph_op_count(graph) > FUZZ_OPS_MAX) return;
    if (tn_program_create(graph, NULL, &program, &error) == TN_OK) {
        tn_status status = tn_occupancy_create(program, NULL, &occupancy, &error);
        fuzz_check(status != TN_E_INTERNAL);
        if (status == TN_OK)
            for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++)
                fuzz_check(tn_occupancy_lives(occupancy)[i].last <= tn_program_count(program));
    }
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const int64_t extents[] = {2, 8, 8, 3};
    static const tn_input_shape shape = {"x", 4, extents};
    static const char *const globs[] = {"*"};
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    uint8_t pick = size ? data[size - 1] : 0;
    options.input_shapes = &shape;
    options.input_shape_count = pick == 1;
    options.parameters = globs;
    options.parameter_count = pick == 2;
    if (pick == 3) options.format = (tn_format){.order = TN_ORDER_NHWC, .block = 8};
    fuzz_file file = {"f.tflite", data, size};
    fuzz_load("f.tflite", data, size, options, fuzz_lives, &file);
    return 0;
}
