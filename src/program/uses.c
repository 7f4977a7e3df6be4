/* uses.c - lists the steps that use each tensor of a program. Cost: O(instructions + operands). */
#include "program/program.h"

static void uses_add(tn__lists *uses, tn_tensor_id tensor, uint32_t step) {
    if (tensor != TN_NONE) tn__lists_add(uses, tensor, step);
}

static void uses_fill(void *self, tn__lists *uses) {
    const tn_program *program = self;
    for (uint32_t step = 0; step < program->count; step++) {
        const tn_instruction *it = &program->instructions[step];
        tn_effects effects = tn_instruction_effects(it);
        if (it->opcode != TN_APPLY) {
            uses_add(uses, effects.reads, step);
            uses_add(uses, effects.changes, step);
            continue;
        }
        tn_op_form form = tn_op_form_of(program->graph, it->op, it->again);
        for (uint32_t i = 0; i < form.input_count; i++)
            uses_add(uses, tn_op_form_input(&form, i), step);
    }
}

tn_status tn__program_uses(const tn_program *program, tn__arena *arena, tn__lists *uses,
                           tn_error *error) {
    bool made = tn__lists_make(uses, tn_graph_tensor_count(program->graph), arena, uses_fill,
                               (void *)program);
    return made ? TN_OK : tn__no_memory(error, "the uses of tensors");
}
