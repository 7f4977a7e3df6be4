/* walk.c - runs the instructions of a program in order.
 *
 * Each step is followed by the next one, except for control flow. At the first step of a region,
 * the operator with the region decides whether the region runs. At the end of a region, the
 * operator decides whether it runs once more.
 *
 *   If     c? ─▶ [then] ─┐   [else] ─┐   own
 *                        └───────────┴────▶
 *   Loop   ──▶ [body] ─▶ own
 *                 ◀──┘
 *
 * (`own` is the step of the operator itself.) A stack of frames has the regions that are being run;
 * it is at most as deep as the number of operators with blocks. Before a step runs, the operands of
 * the live ranges that begin at the step get their addresses.
 * Cost: O(instructions that run + operands).
 */
#include "engine/on_demand.h"

tn_status tn__engine_where(const tn_engine *engine, tn_status status, uint32_t step) {
    const tn_instruction *it = &tn_program_instructions(engine->program)[step];
    const tn_graph *graph = engine->executor.graph;
    if (it->op != TN_NONE) {
        const tn_op *op = tn_graph_op(graph, it->op);
        return tn__where(engine->executor.error, status, "step %u, node '%.60s' (%.30s)", step,
                         op->name, op->type);
    }
    const char *name = it->tensor == TN_NONE ? "" : tn_graph_tensor(graph, it->tensor)->name;
    return tn__where(engine->executor.error, status, "step %u, %s of '%.60s'", step,
                     tn_opcode_name(it->opcode), name);
}

/* --- running one instruction --- */

static void walk_bind(tn_engine *engine, uint32_t step) {
    const tn__places *places = &engine->places;
    const tn_life *lives = tn_occupancy_lives(places->occupancy);
    for (uint32_t i = places->life_at[step]; i < places->life_at[step + 1]; i++) {
        const tn_life *life = &lives[i];
        uint64_t at = tn__places_of(places, life);
        /* the address of a static tensor never changes, so it is not set here */
        if (life->tensor != TN_NONE && !life->is_static)
            engine->executor.operands[life->tensor].data = places->arena + at;
        if (life->bytes > 0 && at + life->bytes > engine->highest)
            engine->highest = at + life->bytes;
    }
}

static void *walk_workspace(const tn__places *places, uint32_t step, tn_op_id op) {
    const tn_life *lives = tn_occupancy_lives(places->occupancy);
    for (uint32_t i = places->life_at[step]; i < places->life_at[step + 1]; i++)
        if (lives[i].tensor == TN_NONE && lives[i].op == op)
            return places->arena + tn__places_of(places, &lives[i]);
    return NULL;
}

/* Checks that no byte next to the buffers that begin at this step was written. Does nothing without
 * the option tn_engine_options.poison. */
static tn_status walk_around(const tn_engine *engine, uint32_t step) {
    const tn__places *places = &engine->places;
    const tn_life *lives = tn_occupancy_lives(places->occupancy);
    if (engine->spans.owned == NULL) return TN_OK;
    for (uint32_t i = places->life_at[step]; i < places->life_at[step + 1]; i++) {
        tn_tensor_id id = lives[i].tensor;
        const char *name =
            id == TN_NONE ? "scratch" : tn_graph_tensor(engine->executor.graph, id)->name;
        TN_TRY(tn__spans_around(&engine->spans, tn__places_of(places, &lives[i]), lives[i].bytes,
                                name, engine->executor.error));
    }
    return TN_OK;
}

/* Runs the kernel of an operator. `again`: the operator is recomputed. */
static tn_status walk_call(tn_engine *engine, uint32_t step, tn_op_id op, bool again) {
    const tn_kernels *kernels = engine->kernels;
    void *workspace = walk_workspace(&engine->places, step, op);
    if (again && kernels->again_of[op] != NULL)
        return tn__executor_again(&engine->executor, op, &kernels->again, kernels->again_of[op],
                                  workspace);
    return tn__executor_call(&engine->executor, op, kernels->of[op],
                             tn__statics_packed(&engine->statics, op), workspace);
}

static tn_status walk_apply(tn_engine *engine, uint32_t step, tn_op_id op, bool again) {
    if (engine->flow.control_of[op] != TN_NONE)
        return tn__control_end(&engine->flow, engine->flow.control_of[op]);
    /* the operator has no kernel, because nothing reads its outputs */
    if (engine->kernels->of[op] == NULL) return TN_OK;
    TN_TRY(walk_call(engine, step, op, again));
    if (engine->options.zeros != NULL && !again) tn__engine_count_zeros(engine, op);
    return walk_around(engine, step);
}

static tn_status walk_instruction(tn_engine *engine, uint32_t step) {
    const tn_instruction *it = &tn_program_instructions(engine->program)[step];
    switch (it->opcode) {
    case TN_PUT:
        return tn__io_put(&engine->io, it->tensor);
    case TN_APPLY:
        return walk_apply(engine, step, it->op, it->again);
    case TN_GET:
        return tn__io_get(&engine->io, it->tensor);
    case TN_SWAP_OUT:
    case TN_SWAP_IN:
        return tn__streams_swap(&engine->streams, step);
    case TN_FETCH:
        return tn__streams_fetch(&engine->streams, step);
    case TN_SEND:
    case TN_RECV:
    case TN_REDUCE:
    case TN_GATHER:
    case TN_SCATTER:
        return tn__streams_talk(&engine->streams, step);
    case TN_ENCODE:
    case TN_DECODE:
        TN_TRY(tn__forms_code(&engine->forms, it));
        return walk_around(engine, step);
    /* The remaining opcodes need no work; tn__engine_check has refused those that cannot run. */
    default:
        return TN_OK;
    }
}

/* Bytes that the instruction copies over a link; 0 if it uses no link. */
static uint64_t walk_moved(const tn_engine *engine, uint32_t step) {
    const tn_instruction *it = &tn_program_instructions(engine->program)[step];
    bool across = tn_opcode_facts_of(it->opcode)->link != TN_LINK_NONE;
    return across ? tn__operand_bytes(&engine->executor.operands[it->tensor]) : 0;
}

/* --- the order of steps: control flow --- */

typedef struct walk_place {
    uint32_t step;
    /* index into tn__flow.entering: the next operator with regions that may begin at this step */
    uint32_t next;
} walk_place;

static tn_status walk_go(tn_engine *engine, walk_place *place, uint32_t from, uint32_t to,
                         uint32_t next) {
    place->step = to;
    place->next = next;
    tn__known_arrive(&engine->streams, to);
    tn__on_demand_arrive(engine->places.on_demand, to);
    TN_TRY(tn__spans_move(&engine->spans, from, to, engine->executor.error));
    TN_TRY(tn__on_demand_enter(engine->places.on_demand));
    walk_bind(engine, to);
    return TN_OK;
}

/* Begins the operator with regions at place->next: goes to the first step of the region that runs,
 * or to the operator's own step if no region runs. */
static tn_status walk_enter(tn_engine *engine, walk_place *place) {
    tn__flow *flow = &engine->flow;
    uint32_t index = flow->entering[place->next++], region, step = place->step;
    const tn__control *control = &flow->controls[index];
    TN_TRY(tn__control_begin(flow, index, &region));
    uint32_t to = region == TN_NONE ? control->own : flow->regions[region].first;
    if (to != step) TN_TRY(walk_go(engine, place, step, to, flow->entering_at[to]));
    if (region == TN_NONE) return TN_OK;
    flow->frames[flow->frame_count++] = (tn__region_frame){index, region, place->next};
    return TN_OK;
}

/* Called at the end of the innermost region: goes back to its first step, or on to the step of the
 * operator that has the region. `from` is the step that ran last. */
static tn_status walk_leave(tn_engine *engine, walk_place *place, uint32_t from) {
    tn__flow *flow = &engine->flow;
    tn__region_frame frame = flow->frames[flow->frame_count - 1];
    bool again;
    TN_TRY(tn__control_turn(flow, frame.control, &again));
    if (again) return walk_go(engine, place, from, flow->regions[frame.region].first, frame.inner);
    uint32_t own = flow->controls[frame.control].own;
    flow->frame_count--;
    return walk_go(engine, place, from, own, flow->entering_at[own + 1]);
}

/* Runs one instruction in the calling thread, after the items for which it must wait, or queues it
 * on its stream. In the trace, a WAIT begins when it begins to wait, and all other instructions
 * begin after their waits. */
static tn_status walk_do(tn_engine *engine, uint32_t step) {
    bool told = engine->tell.trace != NULL;
    if (tn__streams_apart(&engine->streams, step)) return tn__streams_queue(&engine->streams, step);
    double start = told ? tn__clock_s() : 0;
    TN_TRY(tn__streams_before(&engine->streams, step));
    if (told && tn_program_instructions(engine->program)[step].opcode != TN_WAIT)
        start = tn__clock_s();
    tn_status status = walk_instruction(engine, step);
    if (told) tn__tell_step(&engine->tell, step, start, walk_moved(engine, step));
    return status;
}

/* Runs the instruction at place->step and moves place->step to the next step. */
static tn_status walk_run(tn_engine *engine, walk_place *place) {
    const tn__flow *flow = &engine->flow;
    uint32_t step = place->step, count = tn_program_count(engine->program);
    TN_TRY(walk_do(engine, step));
    if (flow->frame_count > 0 &&
        flow->regions[flow->frames[flow->frame_count - 1].region].last == step + 1)
        return walk_leave(engine, place, step);
    if (step + 1 < count)
        return walk_go(engine, place, step, step + 1, flow->entering_at[step + 1]);
    place->step = count;
    return TN_OK;
}

tn_status tn__engine_steps(tn_engine *engine) {
    const uint32_t *entering_at = engine->flow.entering_at;
    uint32_t count = tn_program_count(engine->program);
    walk_place place = {0};
    engine->flow.frame_count = 0;
    if (count == 0) return TN_OK;
    TN_TRY(walk_go(engine, &place, TN_NONE, 0, entering_at[0]));
    while (place.step < count) {
        uint32_t step = place.step;
        bool enters = place.next < entering_at[step + 1];
        tn_status status = enters ? walk_enter(engine, &place) : walk_run(engine, &place);
        if (status != TN_OK) return tn__engine_where(engine, status, step);
    }
    return TN_OK;
}
