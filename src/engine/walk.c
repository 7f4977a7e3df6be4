/* walk.c - the walk over instructions.
 *
 * Steps follow each other but where control flow says otherwise: at the first step of a region its
 * operator decides whether and where to go on, at the end of a region whether it turns again.
 *
 *     If     c? ─▶ [then] ─┐   [else] ─┐   own
 *                          └───────────┴────▶
 *     Loop   ──▶ [body] ─▶ own
 *                ◀──┘
 *
 * Frames are the regions that the walk is inside of; there are never more than operators with
 * blocks. Before a step runs, the tensors whose lives begin there are bound to their places.
 * Cost: O(instructions that run + operands).
 */
#include "engine/engine.h"

static void steps_bind(tn_engine *engine, const tn_life *life) {
    uint64_t at = engine->body_offset[life->body] + life->delta;
    if (life->tensor != TN_NONE) engine->operands[life->tensor].data = engine->arena + at;
    if (life->bytes > 0 && at + life->bytes > engine->measured) engine->measured = at + life->bytes;
}

void tn__engine_bind(tn_engine *engine, uint32_t step) {
    const tn_life *lives = tn_occupancy_lives(engine->occupancy);
    for (uint32_t i = engine->life_at[step]; i < engine->life_at[step + 1]; i++)
        steps_bind(engine, &lives[i]);
}

static void *steps_workspace(const tn_engine *engine, uint32_t step, tn_op_id op) {
    const tn_life *lives = tn_occupancy_lives(engine->occupancy);
    for (uint32_t i = engine->life_at[step]; i < engine->life_at[step + 1]; i++)
        if (lives[i].tensor == TN_NONE && lives[i].op == op)
            return engine->arena + engine->body_offset[lives[i].body] + lives[i].delta;
    return NULL;
}

static const char *steps_name(const tn_engine *engine, const tn_life *life) {
    return life->tensor == TN_NONE ? "scratch" : tn_graph_tensor(engine->graph, life->tensor)->name;
}

static tn_status steps_apply(tn_engine *engine, uint32_t step, tn_op_id op) {
    if (engine->control_of[op] != ENGINE_NONE)
        return tn__control_end(engine, engine->control_of[op]);
    if (engine->kernels->choices[op].kernel == NULL) return TN_OK; /* nobody wants its outputs */
    TN_TRY(tn__engine_call(engine, op, steps_workspace(engine, step, op)));
    const tn_life *lives = tn_occupancy_lives(engine->occupancy);
    for (uint32_t i = engine->life_at[step]; i < engine->life_at[step + 1]; i++)
        TN_TRY(tn__spans_around(engine,
                                engine->arena + engine->body_offset[lives[i].body] + lives[i].delta,
                                lives[i].bytes, steps_name(engine, &lives[i])));
    return TN_OK;
}

static tn_status steps_instruction(tn_engine *engine, uint32_t step) {
    const tn_instruction *it = &tn_program_instructions(engine->program)[step];
    switch (it->opcode) {
    case TN_PUT:
        return tn__engine_put(engine, it->tensor);
    case TN_APPLY:
        return steps_apply(engine, step, it->op);
    case TN_GET:
        return tn__engine_get(engine, it->tensor);
    default: /* lives end by themselves, waits are over in the order of the list; others were
              * refused at set-up */
        return TN_OK;
    }
}

/* --- control flow --- */

typedef struct steps_place {
    uint32_t step;
    uint32_t next; /* index into entering: what may begin at this step and has not */
} steps_place;

static tn_status steps_go(tn_engine *engine, steps_place *place, uint32_t from, uint32_t to,
                          uint32_t next) {
    place->step = to;
    place->next = next;
    TN_TRY(tn__spans_move(engine, from, to));
    tn__engine_bind(engine, to);
    return TN_OK;
}

/* The operator at place->next begins: into one of its regions, or past all of them. */
static tn_status steps_enter(tn_engine *engine, steps_place *place) {
    uint32_t index = engine->entering[place->next++], region, step = place->step;
    const tn__control *control = &engine->controls[index];
    TN_TRY(tn__control_begin(engine, index, &region));
    uint32_t to = region == ENGINE_NONE ? control->own : engine->regions[region].first;
    if (to != step) TN_TRY(steps_go(engine, place, step, to, engine->entering_at[to]));
    if (region == ENGINE_NONE) return TN_OK;
    engine->frames[engine->frame_count++] = (tn__frame){index, region, place->next};
    return TN_OK;
}

/* The region on top has run through: again, or on to its operator's own step. `from` is the step
 * that ran last. */
static tn_status steps_leave(tn_engine *engine, steps_place *place, uint32_t from) {
    tn__frame frame = engine->frames[engine->frame_count - 1];
    bool again;
    TN_TRY(tn__control_turn(engine, frame.control, &again));
    if (again)
        return steps_go(engine, place, from, engine->regions[frame.region].first, frame.inner);
    uint32_t own = engine->controls[frame.control].own;
    engine->frame_count--;
    return steps_go(engine, place, from, own, engine->entering_at[own + 1]);
}

tn_status tn__engine_steps(tn_engine *engine) {
    uint32_t count = tn_program_count(engine->program);
    steps_place place = {0};
    engine->frame_count = 0;
    if (count == 0) return TN_OK;
    TN_TRY(steps_go(engine, &place, ENGINE_NONE, 0, engine->entering_at[0]));
    while (place.step < count) {
        uint32_t step = place.step;
        tn_status status;
        if (place.next < engine->entering_at[step + 1]) {
            status = steps_enter(engine, &place);
        } else {
            double start = engine->options.trace != NULL ? tn__clock_s() : 0;
            status = steps_instruction(engine, step);
            if (engine->options.trace != NULL) tn__tell_step(engine, step, start);
            bool ends =
                engine->frame_count > 0 &&
                engine->regions[engine->frames[engine->frame_count - 1].region].last == step + 1;
            if (status != TN_OK)
                ;
            else if (ends)
                status = steps_leave(engine, &place, step);
            else if (step + 1 < count)
                status = steps_go(engine, &place, step, step + 1, engine->entering_at[step + 1]);
            else
                place.step = count;
        }
        if (status != TN_OK) return tn__engine_where(engine, status, step);
    }
    return TN_OK;
}
