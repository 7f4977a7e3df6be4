/* program.c - the list of instructions and its regions: built, checked, read. */
#include "program/program.h"

tn_status tn__program_create(const tn_graph *graph, tn_program **program, tn_error *error) {
    const tn_context *context = tn_graph_context(graph);
    tn_program *made = tn__alloc_array(context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a program");
    made->context = tn__context(context);
    made->graph = graph;
    made->order.name = "";
    *program = made;
    return TN_OK;
}

void tn_program_destroy(tn_program *program) {
    if (program == NULL) return;
    tn_context context = program->context;
    tn__free(&context, program->instructions, program->room * sizeof *program->instructions);
    tn__free(&context, program->regions, program->region_room * sizeof *program->regions);
    tn__free(&context, program, sizeof *program);
}

tn_status tn__program_add(tn_program *program, tn_instruction instruction, tn_error *error) {
    if (program->count >= UINT32_MAX - 1)
        TN_FAIL(error, TN_E_INVALID, "more than 2^32 instructions");
    if (!tn__reserve(&program->context, &program->instructions, &program->room, program->count + 1,
                     sizeof *program->instructions))
        return tn__no_memory(error, "a program");
    program->instructions[program->count++] = instruction;
    return TN_OK;
}

tn_status tn__program_add_region(tn_program *program, tn_region region, tn_error *error) {
    if (!tn__reserve(&program->context, &program->regions, &program->region_room,
                     program->region_count + 1, sizeof *program->regions))
        return tn__no_memory(error, "a program");
    program->regions[program->region_count++] = region;
    return TN_OK;
}

static tn_status program_take(tn_program *made, const tn_instruction *instructions, uint32_t count,
                              const tn_region *regions, uint32_t region_count, tn_error *error) {
    for (uint32_t i = 0; i < count; i++) TN_TRY(tn__program_add(made, instructions[i], error));
    for (uint32_t i = 0; i < region_count; i++)
        TN_TRY(tn__program_add_region(made, regions[i], error));
    return tn_program_verify(made, error);
}

tn_status tn_program_from(const tn_graph *graph, const tn_instruction *instructions, uint32_t count,
                          const tn_region *regions, uint32_t region_count, tn_program **program,
                          tn_error *error) {
    tn_program *made = NULL;
    TN_TRY(tn__program_create(graph, &made, error));
    tn_status status = program_take(made, instructions, count, regions, region_count, error);
    if (status != TN_OK)
        tn_program_destroy(made);
    else
        *program = made;
    return status;
}

tn_program_order tn_program_order_of(const tn_program *program) { return program->order; }
const tn_graph *tn_program_graph(const tn_program *program) { return program->graph; }
uint32_t tn_program_count(const tn_program *program) { return (uint32_t)program->count; }
const tn_instruction *tn_program_instructions(const tn_program *program) {
    return program->instructions;
}
uint32_t tn_program_region_count(const tn_program *program) {
    return (uint32_t)program->region_count;
}
const tn_region *tn_program_regions(const tn_program *program) { return program->regions; }
