/* phases.c - finds the phase of a training step that each instruction belongs to.
 *
 * The backward pass begins with the first operator that defines a gradient. An operator that reads
 * a gradient and writes into a parameter or the optimizer's state belongs to the update. Graphs
 * traced from PyTorch have no kinds: there the first `..._backward` begins the backward pass. An
 * instruction without an operator has the phase of the previous one.
 */
#include "report/estimate/phases.h"

#include <string.h>

static bool phases_is_update(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    uint64_t changes = tn_op_changes(graph, id);
    bool reads = false, writes = false;
    for (uint32_t i = 0; i < op->input_count && changes != 0; i++) {
        if (op->inputs[i] == TN_NONE) continue;
        const tn_tensor *tensor = tn_graph_tensor(graph, op->inputs[i]);
        bool changed = i < 64 && (changes >> i & 1);
        reads = reads || tensor->kind == TN_KIND_GRADIENT;
        writes = writes || (changed && (tensor->kind == TN_KIND_PARAMETER ||
                                        tensor->kind == TN_KIND_OPTIMIZER_STATE));
    }
    return reads && writes;
}

static bool phases_is_backward(const tn_graph *graph, tn_op_id id) {
    const tn_op *op = tn_graph_op(graph, id);
    for (uint32_t k = 0; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE &&
            tn_graph_tensor(graph, op->outputs[k])->kind == TN_KIND_GRADIENT)
            return true;
    return strcmp(op->domain, "aten") == 0 && strstr(op->type, "_backward") != NULL;
}

void tn__phases_of(const tn_program *program, uint8_t *phases) {
    const tn_graph *graph = tn_program_graph(program);
    const tn_instruction *instructions = tn_program_instructions(program);
    bool backward = false;
    for (uint32_t s = 0; s < tn_program_count(program); s++) {
        bool applies = instructions[s].opcode == TN_APPLY;
        bool update = applies && phases_is_update(graph, instructions[s].op);
        if (applies && !update && !backward)
            backward = phases_is_backward(graph, instructions[s].op);
        phases[s] = update ? TN_PHASE_UPDATE : backward ? TN_PHASE_BACKWARD : TN_PHASE_FORWARD;
    }
}
