/* program.c - the list of instructions and its regions: creation, checks, accessors. */
#include "program/program.h"

#include <stdio.h>

#include "graph/extend.h"

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
    tn_graph_destroy(program->own);
    tn__free(&context, program->encoded, program->encoded_count * sizeof *program->encoded);
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

/* --- encoded forms --- */

/* The bytes of a form: the given number, or the most that any contents need. */
static tn_status program_form_bytes(const tn_graph *graph, const tn_encoded *form, uint64_t *bytes,
                                    tn_error *error) {
    if (form->tensor >= tn_graph_tensor_count(graph))
        TN_FAIL(error, TN_E_INVALID, "an encoded form is of tensor %u, which there is not",
                form->tensor);
    const tn_tensor *tensor = tn_graph_tensor(graph, form->tensor);
    uint32_t bits = tn_dtype_bits(tensor->dtype);
    if (form->codec == TN_CODEC_NONE || (size_t)form->codec >= TN_CODEC_COUNT)
        TN_FAIL(error, TN_E_INVALID, "an encoded form of '%.80s' names no codec", tensor->name);
    if (tensor->bytes == TN_SIZE_UNKNOWN || bits < 8)
        TN_FAIL(error, TN_E_INVALID, "'%.80s' has no elements of whole bytes to encode",
                tensor->name);
    uint64_t count = tensor->bytes / (bits / 8), least = tn_codec_bytes(form->codec, count, 0);
    *bytes = form->bytes != 0 ? form->bytes : tn_codec_bytes(form->codec, count, count);
    if (*bytes < least)
        TN_FAIL(error, TN_E_INVALID, "%llu bytes are none for '%.80s' by codec %s: at least %llu",
                (unsigned long long)*bytes, tensor->name, tn_codec_name(form->codec),
                (unsigned long long)least);
    return TN_OK;
}

#define PROGRAM_NAME_MAX 256u /* of a form: longer tensor names are cut */

static tn_status program_extend(tn_program *made, tn__extra *extras, char *names,
                                const tn_encoded *encoded, uint32_t count, tn_error *error) {
    for (uint32_t k = 0; k < count; k++, names += PROGRAM_NAME_MAX) {
        TN_TRY(program_form_bytes(made->graph, &encoded[k], &extras[k].bytes, error));
        made->encoded[k] = encoded[k];
        made->encoded[k].bytes = extras[k].bytes;
        snprintf(names, PROGRAM_NAME_MAX, "%.200s.%s",
                 tn_graph_tensor(made->graph, encoded[k].tensor)->name,
                 tn_codec_name(encoded[k].codec));
        extras[k].name = names;
    }
    TN_TRY(tn__graph_extend(made->graph, extras, count, &made->own, error));
    made->graph = made->own;
    return TN_OK;
}

static tn_status program_own(tn_program *made, const tn_encoded *encoded, uint32_t count,
                             tn_error *error) {
    if (count == 0) return TN_OK;
    tn__arena arena;
    tn__arena_init(&arena, &made->context);
    tn__extra *extras = tn__arena_array(&arena, count, sizeof *extras);
    char *names = tn__arena_array(&arena, count, PROGRAM_NAME_MAX);
    made->encoded = tn__alloc_array(&made->context, count, sizeof *made->encoded);
    made->encoded_count = count;
    tn_status status = extras != NULL && names != NULL && made->encoded != NULL
                           ? program_extend(made, extras, names, encoded, count, error)
                           : tn__no_memory(error, "encoded forms");
    tn__arena_release(&arena);
    return status;
}

/* --- entry points --- */

tn_status tn_program_from_encoded(const tn_graph *graph, const tn_encoded *encoded,
                                  uint32_t encoded_count, const tn_instruction *instructions,
                                  uint32_t count, const tn_region *regions, uint32_t region_count,
                                  tn_program **program, tn_error *error) {
    tn_program *made = NULL;
    TN_TRY(tn__program_create(graph, &made, error));
    tn_status status = program_own(made, encoded, encoded_count, error);
    if (status == TN_OK)
        status = program_take(made, instructions, count, regions, region_count, error);
    if (status != TN_OK)
        tn_program_destroy(made);
    else
        *program = made;
    return status;
}

tn_status tn_program_from(const tn_graph *graph, const tn_instruction *instructions, uint32_t count,
                          const tn_region *regions, uint32_t region_count, tn_program **program,
                          tn_error *error) {
    return tn_program_from_encoded(graph, NULL, 0, instructions, count, regions, region_count,
                                   program, error);
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
const tn_encoded *tn_program_encoded(const tn_program *program, uint32_t *count) {
    *count = program->encoded_count;
    return program->encoded;
}
