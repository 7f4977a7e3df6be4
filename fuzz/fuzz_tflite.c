/* fuzz_tflite.c - any bytes as a .tflite model, under options that the last byte chooses.
 *
 * What loads is lowered and its lives are found as well: control flow of .tflite has its own rules
 * there. Seeds: `test_import_tflite --corpus FOLDER`. What must hold: fuzz_model.h.
 */
#include "fuzz_model.h"

#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "io/import/tflm/tflm.h"

#define FUZZ_OPS_MAX 2000u

/* The file in hand, for what reads it again. */
typedef struct fuzz_again {
    fuzz_file file; /* first: fuzz_contents gets it */
    const tn_import_options *options;
} fuzz_again;

/* The run time of microcontrollers on several targets, with the plan inside or without any. */
static void fuzz_arena(const fuzz_again *again, const tn_graph *graph) {
    tn_error error = {0};
    tn_micro_arena arena;
    tn_micro_options options = TN_MICRO_OPTIONS_INIT;
    size_t tensors = (size_t)tn_graph_tensor_count(graph) + 1;
    uint64_t *placed = malloc(tensors * sizeof *placed);
    static const struct {
        tn_micro_target target;
        tn_micro_kernels kernels;
    } ways[] = {{TN_MICRO_CORTEX_M, TN_MICRO_REFERENCE},
                {TN_MICRO_X86_64, TN_MICRO_CMSIS_NN},
                {TN_MICRO_CORTEX_M_HELIUM, TN_MICRO_ANY},
                {TN_MICRO_ESP32_S3, TN_MICRO_ANY},
                {TN_MICRO_ESP32_P4, TN_MICRO_ESP_NN}};
    for (size_t i = 0; placed != NULL && i < sizeof ways / sizeof *ways; i++) {
        options.target = ways[i].target;
        options.kernels = ways[i].kernels;
        options.most = i > 0;
        tn_status status =
            tn__tflm_arena_from(again->file.name, (tn__span){again->file.data, again->file.size},
                                again->options, graph, NULL, &options, &arena, placed, &error);
        fuzz_must(status != TN_E_INTERNAL);
        if (status == TN_OK) fuzz_must(arena.total >= arena.used && arena.used >= arena.head);
    }
    free(placed);
}

static void fuzz_lives(void *file, const tn_graph *graph) {
    fuzz_contents(file, graph);
    tn_program *program = NULL;
    tn_occupancy *occupancy = NULL;
    tn_error error = {0};
    if (tn_graph_op_count(graph) > FUZZ_OPS_MAX) return;
    if (tn_program_create(graph, NULL, &program, &error) == TN_OK) {
        tn_status status = tn_occupancy_create(program, NULL, &occupancy, &error);
        fuzz_must(status != TN_E_INTERNAL);
        if (status == TN_OK)
            for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++)
                fuzz_must(tn_occupancy_lives(occupancy)[i].last <= tn_program_count(program));
    }
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    fuzz_arena(file, graph);
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
    fuzz_again again = {{"f.tflite", data, size}, &options};
    fuzz_load("f.tflite", data, size, options, fuzz_lives, &again);
    return 0;
}
