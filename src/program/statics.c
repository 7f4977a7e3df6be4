/* statics.c - lists the static tensors that a program reads or hands out, in their stored form.
 *
 * Views of static tensors have no bytes of their own: the tensor at their root counts, once.
 * Kernels may want another form of a tensor; this file does not know those forms
 * (tn_engine_static_blocks).
 *
 * Cost: O(instructions + operands x length of chains of views).
 */
#include "graph/packed.h"
#include "program/program.h"

/* The tensor that owns the bytes of `id`. */
static tn_tensor_id statics_base(const tn_graph *graph, tn_tensor_id id) {
    for (uint32_t hops = 0; hops < tn_graph_op_count(graph); hops++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, id);
        if (tensor->producer == TN_NONE || tensor->value != NULL) return id;
        const tn_op *op = tn_graph_op(graph, tensor->producer);
        uint32_t k = 0;
        while (op->outputs[k] != id) k++;
        tn_view view = tn_op_view(graph, tensor->producer, k);
        if (view.source == TN_NONE || view.whole ||
            !tn_tensor_is_static(tn_graph_tensor(graph, view.source)))
            return id;
        id = view.source;
    }
    return id;
}

/* Weights that DequantizeLinear expands are counted as stored, or in addition to their expanded
 * form. */
static void statics_pack(const tn_graph *graph, const uint8_t *how, uint8_t *needed) {
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        tn_tensor_id made = op->output_count == 1 ? op->outputs[0] : TN_NONE;
        if (made == TN_NONE || how[made] == TN__PACKED_NOT) continue;
        if (how[made] == TN__PACKED_FUSED && !needed[made]) continue;
        for (uint32_t i = 0; i < op->input_count; i++)
            if (op->inputs[i] != TN_NONE) needed[op->inputs[i]] = 1;
        if (how[made] == TN__PACKED_FUSED) needed[made] = 0;
    }
}

static void statics_need(const tn_graph *graph, const tn_tensor_id *ids, uint32_t count,
                         uint8_t *needed) {
    for (uint32_t i = 0; i < count; i++)
        if (ids[i] != TN_NONE && tn_tensor_is_static(tn_graph_tensor(graph, ids[i])))
            needed[statics_base(graph, ids[i])] = 1;
}

tn_status tn__program_statics(const tn_program *program, tn__arena *arena, tn_static_block **blocks,
                              uint32_t *count, tn_error *error) {
    const tn_graph *graph = tn_program_graph(program);
    const tn_instruction *instructions = tn_program_instructions(program);
    const tn_region *regions = tn_program_regions(program);
    uint32_t tensors = tn_graph_tensor_count(graph);
    uint8_t *needed = tn__arena_array(arena, tensors, 1);
    tn_static_block *made = tn__arena_array(arena, tensors, sizeof *made);
    uint8_t *how = tn__arena_array(arena, tensors, 1);
    if (needed == NULL || made == NULL || how == NULL) return tn__no_memory(error, "static memory");
    const tn_block *block = tn_graph_block(graph, 0);
    statics_need(graph, block->outputs, block->output_count, needed);
    for (uint32_t r = 0; r < tn_program_region_count(program); r++) {
        block = tn_graph_block(graph, regions[r].block);
        statics_need(graph, block->outputs, block->output_count, needed);
    }
    for (uint32_t s = 0; s < tn_program_count(program); s++) {
        if (instructions[s].opcode != TN_APPLY) continue;
        tn_op_form form = tn_op_form_of(graph, instructions[s].op, instructions[s].again);
        for (uint32_t i = 0; i < form.input_count; i++) {
            tn_tensor_id input = tn_op_form_input(&form, i);
            statics_need(graph, &input, 1, needed);
        }
    }
    tn__graph_packed(graph, how);
    statics_pack(graph, how, needed);
    *blocks = made;
    *count = 0;
    for (tn_tensor_id t = 0; t < tensors; t++)
        if (needed[t])
            made[(*count)++] = (tn_static_block){t, TN_NONE, tn_graph_tensor(graph, t)->bytes};
    return TN_OK;
}
