/* program.c - the list of instructions and its regions: creation, checks, accessors, and two lists
 * that are derived from it: the uses of each tensor, and the static tensors.
 */
#include "graph/rules/dequant.h"
#include "graph/derived.h"
#include "program/program.h"

#include <stdio.h>

/* --- instructions and regions ----------------------------------------------------------------- */

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

/* Checks an encoded form, and computes its bytes: the given number, or else the most that any data
 * can need. */
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

#define PROGRAM_NAME_MAX 256u /* bytes of a form's name; longer tensor names are cut */

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

/* --- uses of tensors -------------------------------------------------------------------------- */

/* Lists the steps that use each tensor of a program. Cost: O(instructions + operands). */

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

/* --- static tensors --------------------------------------------------------------------------- */

/* Lists the static tensors that a program reads or returns, in their stored form.
 *
 * Views of static tensors have no bytes of their own: the tensor at their root counts, once.
 * Kernels may want another form of a tensor; this file does not know those forms
 * (tn_engine_static_blocks).
 *
 * Cost: O(instructions + operands x length of chains of views).
 */

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

/* Counts a weight that DequantizeLinear expands in its stored form. The expanded form counts as
 * well, unless kernels expand the weight while they read it. */
static void statics_pack(const tn_graph *graph, const uint8_t *how, uint8_t *needed) {
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        tn_tensor_id made = op->output_count == 1 ? op->outputs[0] : TN_NONE;
        if (made == TN_NONE || how[made] == TN__DEQUANT_NOT) continue;
        if (how[made] == TN__DEQUANT_FUSED && !needed[made]) continue;
        for (uint32_t i = 0; i < op->input_count; i++)
            if (op->inputs[i] != TN_NONE) needed[op->inputs[i]] = 1;
        if (how[made] == TN__DEQUANT_FUSED) needed[made] = 0;
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
    tn__graph_dequant(graph, how);
    statics_pack(graph, how, needed);
    *blocks = made;
    *count = 0;
    for (tn_tensor_id t = 0; t < tensors; t++)
        if (needed[t] && (tn_graph_tensor(graph, t)->flags & TN_TENSOR_IN_FILE) == 0)
            made[(*count)++] = (tn_static_block){t, TN_NONE, tn_graph_tensor(graph, t)->bytes};
    return TN_OK;
}
