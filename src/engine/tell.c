/* tell.c - what happens, as events of a trace.
 *
 * A step is told with the plan's curve, a block with what is in use after it, by the kind of what
 * lives there first. Weights are told once, at set-up. Without a trace nothing is kept.
 */
#include "engine/engine.h"

tn_status tn__tell_make(tn_engine *engine) {
    if (engine->options.trace == NULL) return TN_OK;
    uint32_t steps = tn_program_count(engine->program);
    engine->live = tn__alloc_array(&engine->context, steps, sizeof *engine->live);
    if (engine->live == NULL) return tn__no_memory(engine->error, "a trace");
    return tn_occupancy_live(engine->occupancy, engine->live, engine->error);
}

void tn__tell_release(tn_engine *engine) {
    tn__free(&engine->context, engine->live,
             tn_program_count(engine->program) * sizeof *engine->live);
}

void tn__tell_step(tn_engine *engine, uint32_t step, double start_s) {
    const tn_instruction *it = &tn_program_instructions(engine->program)[step];
    tn_event event = {.kind = TN_EVENT_STEP,
                      .opcode = it->opcode,
                      .step = step,
                      .run = engine->trace_run,
                      .stream = it->stream,
                      .op = it->op,
                      .tensor = it->tensor,
                      .body = TN_NONE,
                      .start_s = start_s,
                      .duration_s = tn__clock_s() - start_s};
    if (tn_opcode_facts_of(it->opcode)->link != TN_LINK_NONE)
        event.bytes = tn__operand_bytes(&engine->operands[it->tensor]);
    memcpy(event.live, engine->live[step], sizeof event.live);
    tn_trace_add(engine->options.trace, &event);
}

static void tell_memory(tn_engine *engine, tn_event *event, tn_kind kind, bool frees) {
    event->kind = frees ? TN_EVENT_FREE : TN_EVENT_ALLOC;
    event->run = engine->trace_run;
    event->start_s = tn__clock_s();
    engine->live_now[kind] += frees ? 0 - event->bytes : event->bytes;
    memcpy(event->live, engine->live_now, sizeof event->live);
    tn_trace_add(engine->options.trace, event);
}

void tn__tell_block(tn_engine *engine, uint32_t step, tn_body_id body, bool frees) {
    uint64_t bytes = tn_problem_body(tn_occupancy_problem(engine->occupancy), body)->size;
    if (engine->options.trace == NULL || bytes == 0 || engine->body_life[body] == ENGINE_NONE)
        return;
    const tn_life *life = &tn_occupancy_lives(engine->occupancy)[engine->body_life[body]];
    tn_event event = {.opcode = tn_program_instructions(engine->program)[step].opcode,
                      .step = step,
                      .op = life->op,
                      .tensor = life->tensor,
                      .body = body,
                      .bytes = bytes};
    tell_memory(engine, &event,
                life->tensor == TN_NONE ? TN_KIND_WORKSPACE
                                        : tn_graph_tensor(engine->graph, life->tensor)->kind,
                frees);
}

void tn__tell_static(tn_engine *engine, tn_tensor_id tensor, uint64_t bytes) {
    tn_event event = {.op = TN_NONE, .tensor = tensor, .body = TN_NONE, .bytes = bytes};
    if (engine->options.trace == NULL || bytes == 0) return;
    tell_memory(engine, &event, tn_graph_tensor(engine->graph, tensor)->kind, false);
}
