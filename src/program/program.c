/* program.c - the list of instructions and its regions: built, checked, read. */
#include "program/program.h"

const char *tn_opcode_name(tn_opcode opcode) {
    static const char *const names[] = {
#define TN_X(name, text) [TN_##name] = text,
        TN_OPCODE_TABLE(TN_X)
#undef TN_X
    };
    size_t index = (size_t)opcode;
    return index < sizeof names / sizeof *names ? names[index] : "unknown";
}

bool tn__op_repeats(const tn_op *op) {
    static const char *const once[] = {"CALL", "CALL_ONCE", "IF", "STABLEHLO_COMPOSITE"};
    if (strcmp(op->domain, "tflite") != 0) return strcmp(op->type, "If") != 0;
    for (size_t i = 0; i < sizeof once / sizeof *once; i++)
        if (strcmp(op->type, once[i]) == 0) return false;
    return true;
}

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

static tn_status program_check(const tn_graph *graph, const tn_instruction *it, uint32_t step,
                               tn_error *error) {
    bool applies = it->opcode == TN_APPLY,
         codes = it->opcode == TN_ENCODE || it->opcode == TN_DECODE;
    if ((unsigned)it->opcode > TN_REDUCE)
        TN_FAIL(error, TN_E_INVALID, "instruction %u has no known opcode", step);
    if (applies ? it->op >= tn_graph_op_count(graph) : it->tensor >= tn_graph_tensor_count(graph))
        TN_FAIL(error, TN_E_INVALID, "instruction %u (%s) names no %s of the graph", step,
                tn_opcode_name(it->opcode), applies ? "operator" : "tensor");
    if (codes && it->other >= tn_graph_tensor_count(graph))
        TN_FAIL(error, TN_E_INVALID, "instruction %u (%s) names no compressed form", step,
                tn_opcode_name(it->opcode));
    return TN_OK;
}

tn_status tn_program_from(const tn_graph *graph, const tn_instruction *instructions, uint32_t count,
                          const tn_region *regions, uint32_t region_count, tn_program **program,
                          tn_error *error) {
    tn_program *made = NULL;
    TN_TRY(tn__program_create(graph, &made, error));
    tn_status status = TN_OK;
    for (uint32_t i = 0; i < count && status == TN_OK; i++) {
        status = program_check(graph, &instructions[i], i, error);
        if (status == TN_OK) status = tn__program_add(made, instructions[i], error);
    }
    for (uint32_t i = 0; i < region_count && status == TN_OK; i++) {
        const tn_region *region = &regions[i];
        if (region->first > region->last || region->last > count ||
            region->op >= tn_graph_op_count(graph) || region->block >= tn_graph_block_count(graph))
            status = tn__fail(error, TN_E_INVALID, "region %u lies outside the program", i);
        else
            status = tn__program_add_region(made, *region, error);
    }
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
