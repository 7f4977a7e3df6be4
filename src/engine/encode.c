/* encode.c - runs the instructions ENCODE and DECODE, which store a tensor in a smaller encoded
 * form for a while.
 *
 * The planned size of a CSR form follows from the measured share of zeros. A tensor with fewer
 * zeros does not fit; it is copied unencoded to host memory, and back at its DECODE. The copies
 * take longer, but the bits of the tensor and the planned bytes of the device stay the same. A
 * tensor is also copied unencoded if a lossy form would change it by more than the error limit.
 * Host memory is allocated when it is first needed and kept for later runs. A run allocates no
 * other memory.
 */
#include <math.h>

#include "engine/codecs/codec.h"
#include "engine/engine.h"

/* if there is no error limit, lossy forms are measured only in one of this many runs */
#define FORMS_MEASURED 16u

tn_status tn__forms_make(tn__forms *forms, const tn_program *program, tn__executor *executor,
                         const tn_context *context, uint64_t host_left, double error_limit,
                         tn__arena *arena) {
    const tn_instruction *list = tn_program_instructions(program);
    forms->executor = executor;
    forms->context = context;
    forms->host_left = host_left;
    forms->error_limit = error_limit;
    for (uint32_t i = 0; i < tn_program_count(program) && forms->count == 0; i++)
        if (list[i].opcode == TN_ENCODE) forms->count = tn_graph_tensor_count(executor->graph);
    forms->spills = tn__arena_array(arena, (size_t)forms->count + 1, sizeof *forms->spills);
    forms->losses = tn__arena_array(arena, (size_t)forms->count + 1, sizeof *forms->losses);
    if (forms->spills == NULL || forms->losses == NULL)
        return tn__no_memory(executor->error, "encoded forms");
    return TN_OK;
}

void tn__forms_release(tn__forms *forms) {
    for (uint32_t i = 0; i < forms->count; i++)
        tn__free(forms->context, forms->spills[i].bytes, (size_t)forms->spills[i].room);
}

void tn__forms_start(tn__forms *forms) {
    forms->raw_count = forms->spill_count = 0;
    forms->run++;
    for (uint32_t i = 0; i < forms->count; i++) forms->spills[i].here = false;
}

/* Enlarges the host memory of one form to at least `bytes`. This may be needed in a later run,
 * because an encoded form may be used for tensors of several sizes. Returns false if the limit on
 * host memory or the allocator does not allow it. */
static bool forms_room(tn__forms *forms, tn__spill *spill, uint64_t bytes) {
    uint64_t more = bytes - spill->room;
    if (more > forms->host_left) return false;
    tn__free(forms->context, spill->bytes, (size_t)spill->room);
    forms->host_left += spill->room;
    forms->host_bytes -= spill->room;
    spill->room = 0;
    spill->bytes = tn__alloc(forms->context, (size_t)bytes);
    if (spill->bytes == NULL) return false;
    spill->room = bytes;
    forms->host_left -= bytes;
    forms->host_bytes += bytes;
    return true;
}

static tn_status forms_spill(tn__forms *forms, tn__spill *spill, const tn__form *form) {
    uint64_t bytes = form->count * TN__CODED_BYTES;
    if (spill->room < bytes && !forms_room(forms, spill, bytes)) return TN_E_EXHAUSTED;
    memcpy(spill->bytes, form->plain, (size_t)bytes);
    spill->here = true;
    forms->spill_count++;
    return TN_OK;
}

/* Measures the error of a lossy form and records it in forms->losses. Returns E_EXHAUSTED if the
 * error is above the limit. */
static tn_status forms_measure(tn__forms *forms, const tn_instruction *it, const tn__coder *coder,
                               const tn__form *form) {
    tn__loss *loss = &forms->losses[it->other];
    tn__difference found;
    TN_TRY(tn__coder_measure(coder, it->codec, form, &found, forms->executor->error));
    double relative = found.squares == 0 ? 0 : sqrt(found.squares / found.of_squares);
    loss->tensor = it->tensor;
    loss->codec = it->codec;
    loss->bytes = form->count * TN__CODED_BYTES;
    loss->form_bytes = form->room;
    loss->measured++;
    if (!(found.largest <= loss->largest)) loss->largest = found.largest;
    if (!(relative <= loss->relative)) loss->relative = relative;
    if (forms->error_limit == 0 || relative <= forms->error_limit) return TN_OK;
    loss->kept++;
    TN_FAIL(forms->executor->error, TN_E_EXHAUSTED,
            "the relative error of '%.80s' as %s is %.3g, above the limit %.3g, and the host has "
            "no room for it",
            tn_graph_tensor(forms->executor->graph, it->tensor)->name, tn_codec_name(it->codec),
            relative, forms->error_limit);
}

static tn_status forms_encode(tn__forms *forms, const tn_instruction *it, tn__spill *spill,
                              const tn__coder *coder, tn__form *form) {
    bool measures = forms->error_limit > 0 || (forms->run - 1) % FORMS_MEASURED == 0;
    tn_status status = coder->encode(form, forms->executor->error);
    spill->here = false;
    if (status == TN_OK && coder->lossy && measures) status = forms_measure(forms, it, coder, form);
    forms->raw_count += status == TN_OK && form->raw;
    return status == TN_E_EXHAUSTED ? forms_spill(forms, spill, form) : status;
}

tn_status tn__forms_code(tn__forms *forms, const tn_instruction *it) {
    tn_error *error = forms->executor->error;
    const tn_operand *plain = &forms->executor->operands[it->tensor];
    const tn_operand *code = &forms->executor->operands[it->other];
    const tn__coder *coder = tn__coder_find(it->codec);
    tn__spill *spill = &forms->spills[it->other];
    tn__form form = {.plain = plain->data,
                     .count = tn__operand_bytes(plain) / TN__CODED_BYTES,
                     .code = code->data,
                     .room = tn__operand_bytes(code)};
    if (it->opcode == TN_ENCODE) return forms_encode(forms, it, spill, coder, &form);
    if (!spill->here) return coder->decode(&form, error);
    memcpy(form.plain, spill->bytes, (size_t)form.count * TN__CODED_BYTES);
    return TN_OK;
}

/* --- counts the share of zeros in each tensor that operators write ---
 *
 * An element counts as zero if all its bits are zero, as in the CSR codec. If several runs are
 * measured, the smallest share is kept.
 * Cost: one pass over the outputs of every operator.
 */

void tn__engine_count_zeros(const tn_engine *engine, tn_op_id id) {
    const tn_op *op = tn_graph_op(engine->executor.graph, id);
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id output = op->outputs[k];
        const tn_operand *operand = output != TN_NONE ? &engine->executor.operands[output] : NULL;
        if (operand == NULL || operand->data == NULL || operand->dtype != TN_FLOAT32) continue;
        uint64_t count = tn__operand_count(operand);
        if (count == 0) continue;
        uint64_t filled = tn__csr_filled(operand->data, count);
        float *zeros = &engine->options.zeros[output];
        float share = (float)(1 - (double)filled / (double)count);
        if (!(*zeros >= 0) || share < *zeros) *zeros = share;
    }
}
