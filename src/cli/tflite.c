/* tflite.c - offsets of a plan as a .tflite file keeps them: one for each tensor. */
#include "cli/cli.h"

#include <stdlib.h>

#include "base/base.h"

/* The file keeps its operators in their order, so only a plan for that order can stand in it. */
static tn_status tflite_check_order(const cli_input *input, tn_error *error) {
    const tn_program *program = tn_occupancy_program(input->occupancy);
    uint32_t blocks = tn_graph_block_count(input->graph);
    tn_op_id *last = calloc((size_t)blocks + 1, sizeof *last); /* one above the last of a block */
    tn_status status = last != NULL ? TN_OK : tn__no_memory(error, "the order");
    for (uint32_t i = 0; i < tn_program_count(program) && status == TN_OK; i++) {
        const tn_instruction *at = &tn_program_instructions(program)[i];
        if (at->opcode != TN_APPLY) continue;
        tn_op_id *before = &last[tn_graph_op(input->graph, at->op)->block];
        if (at->op < *before)
            status = tn__fail(error, TN_E_UNSUPPORTED,
                              "a .tflite file keeps its operators in their order; plan with "
                              "--order file, or write .json");
        *before = at->op + 1;
    }
    free(last);
    return status;
}

tn_status cli_tflite_offsets(const cli_input *input, const tn_layout *layout, uint64_t *offsets,
                             tn_error *error) {
    const tn_life *lives = tn_occupancy_lives(input->occupancy);
    for (tn_tensor_id id = 0; id < tn_graph_tensor_count(input->graph); id++)
        offsets[id] = TN_SIZE_UNKNOWN;
    for (uint32_t i = 0; i < tn_occupancy_life_count(input->occupancy); i++) {
        const tn_life *life = &lives[i];
        if (life->tensor == TN_NONE || life->whole || life->is_static) continue;
        uint64_t offset = layout->offset[life->body] + life->delta;
        if (offsets[life->tensor] != TN_SIZE_UNKNOWN && offsets[life->tensor] != offset)
            TN_FAIL(error, TN_E_UNSUPPORTED,
                    "'%.80s' lives twice, at two places, and a .tflite file has one for it",
                    tn_graph_tensor(input->graph, life->tensor)->name);
        offsets[life->tensor] = offset;
    }
    return TN_OK;
}

tn_status cli_write_tflite(const cli_input *input, const tn_layout *layout, const char *path,
                           tn_error *error) {
    if (input->occupancy == NULL || !tn__has_suffix(input->path, ".tflite"))
        TN_FAIL(error, TN_E_UNSUPPORTED, "-o %.100s: the input is no .tflite model", path);
    if (input->statics != TN_STATIC_APART)
        TN_FAIL(error, TN_E_UNSUPPORTED, "-o %.100s: weights lie in the file, not in the arena",
                path);
    if (layout->bank_count > 1)
        TN_FAIL(error, TN_E_UNSUPPORTED, "-o %.100s: the format has one arena, no banks", path);
    TN_TRY(tflite_check_order(input, error));
    size_t tensors = (size_t)tn_graph_tensor_count(input->graph) + 1;
    uint64_t *offsets = calloc(tensors, sizeof *offsets);
    if (offsets == NULL) return tn__no_memory(error, "offsets");
    tn_status status = cli_tflite_offsets(input, layout, offsets, error);
    if (status == TN_OK)
        status =
            tn_tflite_write_plan(input->path, &input->import, input->graph, offsets, path, error);
    free(offsets);
    return status;
}
