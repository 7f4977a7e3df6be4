/* check.c - checks, before the first run, that the engine can run every instruction of a program.
 *
 * The engine runs one list of instructions on one device. Its partners are the host's memory and
 * other ranks. Static memory never moves. An operator with blocks (If, Loop, Scan), and every
 * instruction inside its blocks, must be on stream 0, because the engine decides at the operator's
 * first step which block runs. tn_program_verify has checked that an instruction inside a block
 * neither waits for a signal nor gives one.
 */
#include "engine/codecs/codec.h"
#include "engine/engine.h"
#include "program/program.h"

static tn_status check_refuse(const tn_engine *engine, uint32_t step, const char *why) {
    tn__fail(engine->executor.error, TN_E_UNSUPPORTED, "%s", why);
    return tn__engine_where(engine, TN_E_UNSUPPORTED, step);
}

/* Whether the engine can run this opcode. Opcodes that touch no tensor data need no work at their
 * step: a live range ends without a call, and the engine waits for signals before every step. */
static bool check_runs(tn_opcode opcode) {
    const tn_opcode_facts *facts = tn_opcode_facts_of(opcode);
    switch (opcode) {
    case TN_PUT:
    case TN_APPLY:
    case TN_GET:
    case TN_SWAP_OUT:
    case TN_SWAP_IN:
    case TN_ENCODE:
    case TN_DECODE:
    case TN_SEND:
    case TN_RECV:
    case TN_REDUCE:
    case TN_GATHER:
    case TN_SCATTER:
    case TN_FETCH:
        return true;
    default:
        return facts->reads == TN_AFFECTS_NONE && facts->changes == TN_AFFECTS_NONE &&
               facts->defines == TN_AFFECTS_NONE && opcode < TN_OPCODE_COUNT;
    }
}

static bool check_is_static(const tn_engine *engine, tn_tensor_id id) {
    return id != TN_NONE && tn_tensor_is_static(tn_graph_tensor(engine->executor.graph, id));
}

/* Checks that an instruction does not overwrite static memory (as DECODE or RECV would) and does
 * not swap it, because static memory outlives the run. Fetches are allowed, because fetched memory
 * does not outlive the run. */
static tn_status check_statics(const tn_engine *engine, uint32_t step) {
    const tn_instruction *it = &tn_program_instructions(engine->program)[step];
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    tn_effects does = tn_instruction_effects(it);
    bool swaps = (facts->flags & TN_USES_SLOT) != 0;
    bool fetches = facts->link == TN_LINK_FROM_STORAGE;
    if ((!fetches && check_is_static(engine, does.defines)) ||
        (swaps && check_is_static(engine, it->tensor)))
        return check_refuse(engine, step,
                            "this engine leaves what is static where it is, or fetches it: it is "
                            "neither swapped nor decoded nor received");
    return TN_OK;
}

static tn_status check_codec(const tn_engine *engine, uint32_t step) {
    const tn_instruction *it = &tn_program_instructions(engine->program)[step];
    const tn__coder *coder = tn__coder_find(it->codec);
    const tn_tensor *plain = tn_graph_tensor(engine->executor.graph, it->tensor);
    const tn_tensor *code = tn_graph_tensor(engine->executor.graph, it->other);
    tn_error *error = engine->executor.error;
    if (coder == NULL) return check_refuse(engine, step, "this engine does not know the codec");
    uint64_t count = plain->bytes / TN__CODED_BYTES, least = tn_codec_bytes(it->codec, count, 0);
    bool taken = coder->any_type ? tn_dtype_bits(plain->dtype) == 8 * TN__CODED_BYTES
                                 : plain->dtype == TN_FLOAT32;
    if (!taken) {
        tn__fail(error, TN_E_UNSUPPORTED, "codec %s does not take %s", tn_codec_name(it->codec),
                 tn_dtype_name(plain->dtype));
        return tn__engine_where(engine, TN_E_UNSUPPORTED, step);
    }
    if (code->bytes >= least) return TN_OK;
    tn__fail(error, TN_E_INVALID, "codec %s makes at least %llu bytes of it; '%.60s' has %llu",
             tn_codec_name(it->codec), (unsigned long long)least, code->name,
             (unsigned long long)code->bytes);
    return tn__engine_where(engine, TN_E_INVALID, step);
}

static tn_status check_talk(const tn_engine *engine, uint32_t step) {
    const tn_instruction *it = &tn_program_instructions(engine->program)[step];
    tn_status status = tn__talk_check(engine->options.exchange, engine->executor.graph, it,
                                      engine->executor.error);
    return status == TN_OK ? TN_OK : tn__engine_where(engine, status, step);
}

static tn_status check_step(const tn_engine *engine, uint32_t step) {
    const tn_instruction *it = &tn_program_instructions(engine->program)[step];
    bool runs_blocks = it->opcode == TN_APPLY && engine->flow.control_of[it->op] != TN_NONE;
    if (!check_runs(it->opcode)) {
        tn__fail(engine->executor.error, TN_E_UNSUPPORTED, "this engine does not run '%s'",
                 tn_opcode_name(it->opcode));
        return tn__engine_where(engine, TN_E_UNSUPPORTED, step);
    }
    if (runs_blocks && it->stream != 0)
        return check_refuse(engine, step, "this engine runs control flow on stream 0 alone");
    if (tn_opcode_facts_of(it->opcode)->flags & TN_USES_CODEC) TN_TRY(check_codec(engine, step));
    if (tn__instruction_talks(it)) TN_TRY(check_talk(engine, step));
    return it->opcode == TN_APPLY ? TN_OK : check_statics(engine, step);
}

tn_status tn__engine_check(const tn_engine *engine) {
    for (uint32_t s = 0; s < tn_program_count(engine->program); s++) TN_TRY(check_step(engine, s));
    return TN_OK;
}
