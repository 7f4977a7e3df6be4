/* verify.c - checks that a program can run and that it computes the outputs of its graph.
 *
 * It makes four passes, and each may rely on those before it. The first checks the operands of
 * every instruction against the table of opcodes (here). The second checks that control flow is
 * nested. The third derives from streams and signals which instructions are over when an
 * instruction starts. The fourth walks the list and tracks which tensors exist, with which
 * contents, on the device, in the host pool and encoded.
 *
 * Cost: O(n + operands) for a program of one stream; with s streams and w waits, s w more.
 */
#include "program/verify.h"

#include <stdio.h>

tn_status tn__verify_where(const verify_state *verify, tn_status status, uint32_t step,
                           tn_tensor_id tensor) {
    const tn_instruction *it = &verify->instructions[step];
    const char *name = tn_opcode_name(it->opcode), *of = "";
    char rank[24] = "";
    if (verify->rank != VERIFY_NONE) snprintf(rank, sizeof rank, "rank %u, ", verify->rank);
    if (tensor < verify->tensor_count) of = tn_graph_tensor(verify->graph, tensor)->name;
    if (it->opcode == TN_APPLY && it->op < tn_graph_op_count(verify->graph)) {
        const tn_op *op = tn_graph_op(verify->graph, it->op);
        return tn__where(verify->error, status,
                         "%sinstruction %u (%s), node '%.40s' (%.24s), tensor '%.40s'", rank, step,
                         name, op->name, op->type, of);
    }
    return tn__where(verify->error, status, "%sinstruction %u (%s), tensor '%.60s'", rank, step,
                     name, of);
}

tn_status tn__verify_no_memory(const verify_state *verify) {
    return tn__no_memory(verify->error, "the check of a program");
}

void tn__verify_begin(verify_state *verify, const tn_program *program, uint32_t rank,
                      tn_error *error) {
    *verify = (verify_state){.program = program,
                             .graph = program->graph,
                             .instructions = program->instructions,
                             .regions = program->regions,
                             .count = (uint32_t)program->count,
                             .region_count = (uint32_t)program->region_count,
                             .tensor_count = tn_graph_tensor_count(program->graph),
                             .rank = rank,
                             .error = error};
    tn__arena_init(&verify->arena, &program->context);
}

/* --- operands of an instruction --- */

static bool verify_uses(const tn_opcode_facts *facts, tn_affects part) {
    return facts->reads == part || facts->changes == part || facts->defines == part ||
           facts->releases == part;
}

/* An id is one of `count` where the opcode uses it, and TN_NONE where it does not. */
static tn_status verify_id(const verify_state *verify, uint32_t step, bool used, uint32_t id,
                           uint32_t count, const char *what) {
    if (used && id >= count)
        VERIFY_FAIL(verify, step, TN_NONE, "it names no %s of the graph", what);
    if (!used && id != TN_NONE)
        VERIFY_FAIL(verify, step, TN_NONE, "it uses no %s: set it to TN_NONE", what);
    return TN_OK;
}

static tn_status verify_number(const verify_state *verify, uint32_t step, uint32_t uses,
                               uint32_t flag, uint32_t value, const char *what) {
    if (!(uses & flag) && value != 0)
        VERIFY_FAIL(verify, step, TN_NONE, "it uses no %s: set it to 0", what);
    return TN_OK;
}

static tn_status verify_ids(const verify_state *verify, uint32_t step) {
    const tn_instruction *it = &verify->instructions[step];
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    bool other = verify_uses(facts, TN_AFFECTS_OTHER) &&
                 !((facts->flags & TN_MAY_CHANGE) && it->other == TN_NONE);
    TN_TRY(verify_id(verify, step, verify_uses(facts, TN_AFFECTS_OPERATOR), it->op,
                     tn_graph_op_count(verify->graph), "operator"));
    TN_TRY(verify_id(verify, step, verify_uses(facts, TN_AFFECTS_TENSOR), it->tensor,
                     verify->tensor_count, "tensor"));
    TN_TRY(verify_id(verify, step, other, it->other, verify->tensor_count, "other tensor"));
    if (other && it->other == it->tensor)
        VERIFY_FAIL(verify, step, it->tensor, "both its tensors are one: it needs two");
    return TN_OK;
}

/* An encoded form may only be encoded, decoded, moved and released, with its own tensor and
 * codec. */
static tn_status verify_encoded(const verify_state *verify, uint32_t step) {
    const tn_instruction *it = &verify->instructions[step];
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    tn_tensor_id first = tn__program_first_encoded(verify->program);
    bool is_form = it->tensor != TN_NONE && it->tensor >= first;
    bool moves = (facts->flags & TN_USES_SLOT) || facts->reads == TN_AFFECTS_NONE;
    if (is_form && (!moves || facts->blocks != TN_BLOCKS_NOBODY))
        VERIFY_FAIL(verify, step, it->tensor, "it is an encoded form: DECODE it");
    if (it->other == TN_NONE || it->other < first) return TN_OK;
    const tn_encoded *form = &verify->program->encoded[it->other - first];
    if (!(facts->flags & TN_USES_CODEC) || form->tensor != it->tensor || form->codec != it->codec)
        VERIFY_FAIL(verify, step, it->other, "it is for '%.60s' by codec %s alone",
                    tn_graph_tensor(verify->graph, form->tensor)->name, tn_codec_name(form->codec));
    return TN_OK;
}

static tn_status verify_numbers(const verify_state *verify, uint32_t step) {
    const tn_instruction *it = &verify->instructions[step];
    uint32_t uses = tn_opcode_facts_of(it->opcode)->flags;
    TN_TRY(verify_number(verify, step, uses, TN_USES_SLOT, it->slot, "host buffer"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_PEER, it->peer, "peer"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_PEER, it->tag, "tag"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_PEER, it->part, "part"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_PEER, it->parts, "parts"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_GROUP, it->group, "group"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_CODEC, it->codec, "codec"));
    TN_TRY(verify_number(verify, step, uses, TN_USES_REDUCTION, it->reduction, "reduction"));
    if (it->stream >= TN_STREAM_MAX)
        VERIFY_FAIL(verify, step, it->tensor, "stream %u: there are %u", it->stream, TN_STREAM_MAX);
    if (it->slot > verify->count)
        VERIFY_FAIL(verify, step, it->tensor,
                    "host buffer %u: number them from 1, without more of them than instructions",
                    it->slot);
    if ((uses & TN_USES_CODEC) && (it->codec == TN_CODEC_NONE || it->codec >= TN_CODEC_COUNT))
        VERIFY_FAIL(verify, step, it->tensor, "it names no codec");
    if (it->again && it->opcode != TN_APPLY)
        VERIFY_FAIL(verify, step, it->tensor, "it runs no operator: it cannot do so again");
    if (it->reduction >= TN_REDUCTION_COUNT)
        VERIFY_FAIL(verify, step, it->tensor, "it names no reduction");
    uint64_t bytes = it->parts > 0 ? tn_graph_tensor(verify->graph, it->tensor)->bytes : 0;
    if (it->part > 0 && it->part >= it->parts)
        VERIFY_FAIL(verify, step, it->tensor, "part %u of %u", it->part, it->parts);
    if (it->parts > 0 && bytes % it->parts != 0)
        VERIFY_FAIL(verify, step, it->tensor, "%llu bytes are not %u equal parts",
                    (unsigned long long)bytes, it->parts);
    if ((uses & TN_USES_WAIT) && it->wait == 0)
        VERIFY_FAIL(verify, step, TN_NONE, "it waits for nothing: name a signal, or leave it out");
    return TN_OK;
}

static tn_status verify_fields(const verify_state *verify) {
    for (uint32_t step = 0; step < verify->count; step++) {
        if ((size_t)verify->instructions[step].opcode >= TN_OPCODE_COUNT)
            VERIFY_FAIL(verify, step, TN_NONE, "there is no opcode %u",
                        (unsigned)verify->instructions[step].opcode);
        TN_TRY(verify_ids(verify, step));
        TN_TRY(verify_numbers(verify, step));
        TN_TRY(verify_encoded(verify, step));
    }
    return TN_OK;
}

/* --- entry points --- */

tn_status tn__verify_program(verify_state *verify) {
    TN_TRY(verify_fields(verify));
    TN_TRY(tn__verify_regions(verify));
    TN_TRY(tn__verify_order(verify));
    TN_TRY(tn__verify_talks(verify));
    return tn__verify_walk(verify);
}

tn_status tn_program_verify(const tn_program *program, tn_error *error) {
    verify_state verify;
    tn__verify_begin(&verify, program, VERIFY_NONE, error);
    tn_status status = tn__verify_program(&verify);
    tn__arena_release(&verify.arena);
    return status;
}
