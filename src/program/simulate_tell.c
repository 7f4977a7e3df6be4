/* simulate_tell.c - reports the events of a simulation in the form of a run (engine/tell.c,
 * spans.c).
 *
 * When the walk comes to a step, bodies that end there are freed and bodies that begin there are
 * allocated. If the walk skips steps, only the bodies that are live at its new step are
 * allocated. Static memory is not part of a run, so it has no events.
 *
 * Cost: O(instructions + bodies), and that of tn_occupancy_live.
 */
#include "program/simulate.h"

#define TELL_PS 1e12

static tn_status tell_list(tn__simulate_tell *tell, tn__arena *arena, tn_error *error) {
    const tn_problem *problem = tn_occupancy_problem(tell->options->occupancy);
    const tn_life *lives = tn_occupancy_lives(tell->options->occupancy);
    for (uint32_t i = tn_occupancy_life_count(tell->options->occupancy); i-- > 0;)
        tell->named[lives[i].body] = i;
    for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
        const tn_body *body = tn_problem_body(problem, b);
        uint32_t index = tell->named[b];
        if (index == TN_NONE || lives[index].is_static || body->size == 0) continue;
        tell->begins[tell->count] = (tn__sort_item){tn__sort_key(body->first), b};
        tell->ends[tell->count++] = (tn__sort_item){tn__sort_key(body->last), b};
    }
    if (!tn__sort_items(arena->context, tell->begins, tell->count) ||
        !tn__sort_items(arena->context, tell->ends, tell->count))
        return tn__no_memory(error, "events");
    return TN_OK;
}

tn_status tn__simulate_tell_make(tn__simulate_tell *tell, const tn_program *program,
                                 const tn_simulate_options *options, tn__arena *arena,
                                 tn_error *error) {
    *tell = (tn__simulate_tell){.program = program, .options = options};
    if (options->trace == NULL || options->occupancy == NULL) return TN_OK;
    size_t bodies = tn_problem_count(tn_occupancy_problem(options->occupancy));
    tell->live = tn__arena_array(arena, program->count + 1, sizeof *tell->live);
    tell->begins = tn__arena_array(arena, bodies + 1, sizeof *tell->begins);
    tell->ends = tn__arena_array(arena, bodies + 1, sizeof *tell->ends);
    tell->named = tn__arena_array(arena, bodies + 1, sizeof *tell->named);
    tell->there = tn__arena_array(arena, bodies + 1, sizeof *tell->there);
    if (tell->live == NULL || tell->begins == NULL || tell->ends == NULL || tell->named == NULL ||
        tell->there == NULL)
        return tn__no_memory(error, "events");
    memset(tell->named, 0xff, bodies * sizeof *tell->named);
    TN_TRY(tell_list(tell, arena, error));
    return tn_occupancy_live(options->occupancy, tell->live, error);
}

static void tell_block(tn__simulate_tell *tell, tn_body_id body, uint32_t step, uint64_t at_ps,
                       bool frees) {
    const tn_occupancy *occupancy = tell->options->occupancy;
    const tn_life *life = &tn_occupancy_lives(occupancy)[tell->named[body]];
    uint64_t bytes = tn_problem_body(tn_occupancy_problem(occupancy), body)->size;
    tn_kind kind = life->tensor == TN_NONE
                       ? TN_KIND_WORKSPACE
                       : tn_graph_tensor(tell->program->graph, life->tensor)->kind;
    tn_event event = {.kind = frees ? TN_EVENT_FREE : TN_EVENT_ALLOC,
                      .opcode = tell->program->instructions[step].opcode,
                      .step = step,
                      .run = tell->options->run,
                      .op = life->op,
                      .tensor = life->tensor,
                      .body = body,
                      .bytes = bytes,
                      .start_s = tell->options->start_s + (double)at_ps / TELL_PS};
    tell->there[body] = !frees;
    tell->now[kind] += frees ? 0 - bytes : bytes;
    memcpy(event.live, tell->now, sizeof event.live);
    tn_trace_add(tell->options->trace, &event);
}

void tn__simulate_tell_blocks(tn__simulate_tell *tell, uint32_t step, uint64_t at_ps) {
    uint64_t now = tn__sort_key(step);
    uint32_t count = (uint32_t)tell->program->count, told = step < count ? step : count - 1;
    for (; tell->end < tell->count && tell->ends[tell->end].key <= now; tell->end++)
        if (tell->there[tell->ends[tell->end].id])
            tell_block(tell, tell->ends[tell->end].id, told, at_ps, true);
    for (; tell->begin < tell->count && tell->begins[tell->begin].key <= now; tell->begin++) {
        tn_body_id body = tell->begins[tell->begin].id;
        const tn_problem *problem = tn_occupancy_problem(tell->options->occupancy);
        if (tn_problem_body(problem, body)->last > (int64_t)step)
            tell_block(tell, body, told, at_ps, false);
    }
}

void tn__simulate_tell_step(const tn__simulate_tell *tell, uint32_t step, uint64_t start_ps,
                            uint64_t duration_ps, uint64_t bytes) {
    const tn_instruction *it = &tell->program->instructions[step];
    if (tell->options->trace == NULL) return;
    tn_event event = {.kind = TN_EVENT_STEP,
                      .opcode = it->opcode,
                      .step = step,
                      .run = tell->options->run,
                      .stream = it->stream,
                      .op = it->op,
                      .tensor = it->tensor,
                      .body = TN_NONE,
                      .bytes = bytes,
                      .start_s = tell->options->start_s + (double)start_ps / TELL_PS,
                      .duration_s = (double)duration_ps / TELL_PS};
    if (tell->live != NULL) memcpy(event.live, tell->live[step], sizeof event.live);
    tn_trace_add(tell->options->trace, &event);
}
