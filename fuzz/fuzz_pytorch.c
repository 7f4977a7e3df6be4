/* fuzz_pytorch.c - any bytes as an ONNX model, and its training step as PyTorch runs it: a graph
 * that can be planned, or an error with a message; nothing stays allocated. */
#include <tenure/estimate.h>
#include <tenure/occupancy.h>

#include "fuzz_model.h"

static void fuzz_step(void *self, const tn_graph *graph) {
    tn_pytorch_options options = TN_PYTORCH_OPTIONS_INIT;
    tn_pytorch step = {0};
    tn_error error = {0};
    const uint8_t *pick = self;
    options.state_count = *pick % 3;
    options.scratch_count = *pick / 3 % 3;
    if (tn_pytorch_make(graph, &options, &step, &error) != TN_OK) {
        fuzz_must(step.graph == NULL && error.message[0] != '\0');
        return;
    }
    fuzz_accept();
    fuzz_read(step.graph);
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    tn_program *program = NULL;
    tn_occupancy *occupancy = NULL;
    memory.inplace = TN_INPLACE_NONE;
    memory.workspaces = step.workspaces;
    if (tn_program_create(step.graph, NULL, &program, &error) == TN_OK &&
        tn_occupancy_create(program, &memory, &occupancy, &error) == TN_OK)
        fuzz_must(tn_occupancy_summary(occupancy).naive >=
                  tn_occupancy_summary(occupancy).peak_live);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_pytorch_release(&step);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const tn_dim known[] = {{"N", 2}};
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    uint8_t pick = size > 0 ? data[size - 1] : 0;
    options.dims = known;
    options.dim_count = 1;
    fuzz_load("f.onnx", data, size, options, fuzz_step, &pick);
    return 0;
}
