/* tflite.c - writes the model with the plan inside, in the form that TensorFlow Lite Micro reads:
 * one offset per tensor.
 *
 * This file checks that the format can express the plan: the plan has one arena, the operators run
 * in the order of the file, and each tensor has one offset. The offsets are written by the code
 * that read the model (report.h, write_plan), so this folder does not depend on a reader of models.
 *
 * Cost: O(instructions + live ranges), and that of writing the file.
 */
#include "report/format.h"

/* Checks that the program runs the operators in the order of the file, because a .tflite file can
 * only store a plan for that order. */
static tn_status tflite_check_order(const tn_report *report, tn_error *error) {
    const tn_program *program = tn_occupancy_program(report->occupancy);
    const tn_graph *graph = tn_program_graph(program);
    size_t blocks = (size_t)tn_graph_block_count(graph) + 1;
    tn_context context = tn__context(report->context);
    /* [blocks] 1 + the number of the operator that ran last in each block */
    tn_op_id *last = tn__alloc_array(&context, blocks, sizeof *last);
    tn_status status = last != NULL ? TN_OK : tn__no_memory(error, "the order");
    for (uint32_t i = 0; i < tn_program_count(program) && status == TN_OK; i++) {
        const tn_instruction *at = &tn_program_instructions(program)[i];
        if (at->opcode != TN_APPLY) continue;
        tn_op_id *before = &last[tn_graph_op(graph, at->op)->block];
        if (at->op < *before)
            status = tn__fail(error, TN_E_UNSUPPORTED,
                              "a .tflite file keeps its operators in their order; plan with "
                              "`order` file, or write .json");
        *before = at->op + 1;
    }
    tn__free(&context, last, blocks * sizeof *last);
    return status;
}

static tn_status tflite_check_statics(const tn_occupancy *occupancy, tn_error *error) {
    const tn_life *lives = tn_occupancy_lives(occupancy);
    for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++)
        if (lives[i].is_static)
            TN_FAIL(error, TN_E_UNSUPPORTED, "weights lie in the file, not in the arena");
    return TN_OK;
}

tn_status tn__report_offsets(const tn_occupancy *occupancy, const tn_layout *layout,
                             uint64_t *offsets, tn_error *error) {
    const tn_graph *graph = tn_program_graph(tn_occupancy_program(occupancy));
    const tn_life *lives = tn_occupancy_lives(occupancy);
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(graph); id++)
        offsets[id] = TN_SIZE_UNKNOWN;
    for (uint32_t i = 0; i < tn_occupancy_life_count(occupancy); i++) {
        const tn_life *life = &lives[i];
        if (life->tensor == TN_NONE || life->whole || life->is_static) continue;
        uint64_t offset = layout->offset[life->body] + life->delta;
        if (offsets[life->tensor] != TN_SIZE_UNKNOWN && offsets[life->tensor] != offset)
            TN_FAIL(error, TN_E_UNSUPPORTED,
                    "'%.80s' lives twice, at two places, and a .tflite file has one for it",
                    tn_graph_tensor(graph, life->tensor)->name);
        offsets[life->tensor] = offset;
    }
    return TN_OK;
}

static tn_status tflite_write(const tn_report *report, const char *path, tn_error *error) {
    if (report->occupancy == NULL || report->write_plan == NULL)
        TN_FAIL(error, TN_E_UNSUPPORTED, "the input is not a .tflite model");
    if (report->layout->bank_count > 1)
        TN_FAIL(error, TN_E_UNSUPPORTED, "the format has one arena, no banks");
    TN_TRY(tflite_check_statics(report->occupancy, error));
    TN_TRY(tflite_check_order(report, error));
    const tn_graph *graph = tn_program_graph(tn_occupancy_program(report->occupancy));
    size_t tensors = (size_t)tn_graph_tensor_count(graph) + 1;
    tn_context context = tn__context(report->context);
    uint64_t *offsets = tn__alloc_array(&context, tensors, sizeof *offsets);
    if (offsets == NULL) return tn__no_memory(error, "offsets");
    tn_status status = tn__report_offsets(report->occupancy, report->layout, offsets, error);
    if (status == TN_OK) status = report->write_plan(report->write_plan_self, offsets, path, error);
    tn__free(&context, offsets, tensors * sizeof *offsets);
    return status;
}

const tn_report_format tn__report_format_tflite = {
    .name = "tflite",
    .suffix = ".tflite",
    .summary = "the .tflite model with the plan inside, for TensorFlow Lite Micro",
    .write = tflite_write,
};
