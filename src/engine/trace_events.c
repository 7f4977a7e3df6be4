/* trace_events.c - records the events of a run in a trace; does nothing without a trace.
 *
 * The event of a step has the planned live bytes at that step. The event of an allocated or freed
 * block has the bytes that are in use after it. Both are divided by the kind of tensor; a buffer
 * counts as the kind of its first live range. Weights are recorded once, when the engine is
 * created.
 */
#include "engine/engine.h"

static const tn_program *tell_program(const tn__tell *tell) {
    return tn_occupancy_program(tell->occupancy);
}

static tn_kind tell_kind(const tn__tell *tell, tn_tensor_id tensor) {
    if (tensor == TN_NONE) return TN_KIND_WORKSPACE;
    return tn_graph_tensor(tn_program_graph(tell_program(tell)), tensor)->kind;
}

tn_status tn__tell_make(tn__tell *tell, tn_trace *trace, const tn_occupancy *occupancy,
                        tn__arena *arena, tn_error *error) {
    *tell = (tn__tell){.trace = trace, .occupancy = occupancy};
    if (trace == NULL) return TN_OK;
    tell->live = tn__arena_array(arena, tn_program_count(tell_program(tell)), sizeof *tell->live);
    if (tell->live == NULL) return tn__no_memory(error, "a trace");
    return tn_occupancy_live(occupancy, tell->live, error);
}

void tn__tell_step(tn__tell *tell, uint32_t step, double start_s, uint64_t bytes) {
    if (tell->trace == NULL) return;
    const tn_instruction *it = &tn_program_instructions(tell_program(tell))[step];
    tn_event event = {.kind = TN_EVENT_STEP,
                      .opcode = it->opcode,
                      .step = step,
                      .run = tell->run,
                      .stream = it->stream,
                      .op = it->op,
                      .tensor = it->tensor,
                      .body = TN_NONE,
                      .bytes = bytes,
                      .start_s = start_s,
                      .duration_s = tn__clock_s() - start_s};
    memcpy(event.live, tell->live[step], sizeof event.live);
    tn_trace_add(tell->trace, &event);
}

static void tell_memory(tn__tell *tell, tn_event *event, bool frees) {
    event->kind = frees ? TN_EVENT_FREE : TN_EVENT_ALLOC;
    event->run = tell->run;
    event->start_s = tn__clock_s();
    tell->now[tell_kind(tell, event->tensor)] += frees ? 0 - event->bytes : event->bytes;
    memcpy(event->live, tell->now, sizeof event->live);
    tn_trace_add(tell->trace, event);
}

void tn__tell_block(tn__tell *tell, uint32_t step, tn_body_id body, const tn_life *life,
                    bool frees) {
    if (tell->trace == NULL || life == NULL) return;
    uint64_t bytes = tn_problem_body(tn_occupancy_problem(tell->occupancy), body)->size;
    if (bytes == 0) return;
    tn_event event = {.opcode = tn_program_instructions(tell_program(tell))[step].opcode,
                      .step = step,
                      .op = life->op,
                      .tensor = life->tensor,
                      .body = body,
                      .bytes = bytes};
    tell_memory(tell, &event, frees);
}

void tn__tell_static(void *self, tn_tensor_id tensor, uint64_t bytes) {
    tn__tell *tell = self;
    tn_event event = {.op = TN_NONE, .tensor = tensor, .body = TN_NONE, .bytes = bytes};
    if (tell->trace != NULL && bytes > 0) tell_memory(tell, &event, false);
}
