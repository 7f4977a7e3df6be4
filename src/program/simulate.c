/* simulate.c - predicts the time of a program in one pass, with a clock for each stream, and
 * reports the events of that run.
 *
 * A signal comes before the instructions that wait for it, and streams and transfer directions
 * serve in the order of the list. So when the walk comes to an instruction, the end of every
 * instruction that it may wait for is known, and events need not be sorted by time. Streams and
 * links are the lanes of the clock (clock.h).
 *
 * Cost: O(instructions depth + regions^2 + buffers), where depth is the nesting of regions; with
 * signals O(signals log signals) more, and that of tn_occupancy_live for events.
 */
#include <tenure/occupancy.h>
#include <tenure/program.h>

#include "base/sorted.h"
#include "graph/attr.h"
#include "graph/op.h"
#include "program/clock.h"
#include "program/program.h"

/* --- time ------------------------------------------------------------------------------------- */

/* Computes how often each instruction runs.
 *
 *   durations  [instructions] of one run of each; a loop multiplies them by its turns,
 *              the number of its iterations
 *   turns      out [instructions]; 0: in a branch that is not taken
 *   guesses    out: operators with a branch or turns that are not known before the run
 *
 * Errors: E_NO_MEMORY. Cost: O(instructions depth + regions^2).
 */
static tn_status simulate_count_turns(const tn_program *program, uint64_t *durations,
                                      uint64_t *turns, uint32_t *guesses, tn__arena *arena,
                                      tn_error *error);

/* The events of a simulated run, as they are written. */
typedef struct simulate_events {
    const tn_program *program;
    const tn_simulate_options *options;
    /* [instructions] live bytes by kind; NULL: no occupancy is given */
    uint64_t (*live)[TN_KIND_COUNT];
    uint64_t now[TN_KIND_COUNT];  /* bytes of the buffers that are live now, by kind */
    tn__sort_item *begins, *ends; /* [count] the buffers, sorted by first step and by last step */
    /* count: number of buffers. begin, end: index of the next buffer in `begins` and in `ends` */
    uint32_t count, begin, end;
    uint32_t *named; /* [buffers] the live range that names the buffer, or TN_NONE */
    bool *there;     /* [buffers] true: the begin of the buffer was reported, and its end was not */
} simulate_events;

#define SIMULATE_PS 1e12

typedef struct simulate_state {
    const tn_program *program;
    const tn_instruction *list;
    uint32_t count;
    tn_simulate_options options;
    uint64_t latency, storage_latency, peer_latency;
    tn__arena arena;
    /* [count] per instruction: duration of one run, or of all iterations of a loop together; and
     * number of iterations */
    uint64_t *durations, *turns;
    bool *ran; /* [operators] the operator has been run by an earlier instruction */
    /* the program's signals, sorted by number; `id` is the step that gives the signal */
    tn__sort_item *signals;
    size_t signal_count;
    tn__lane *done;  /* [count] time at which each step ends */
    tn__clock clock; /* the clock; its stream 0 is the thread that walks the list */
    simulate_events events;
    tn_simulation *made;
    tn_error *error;
} simulate_state;

/* --- time of one instruction --- */

static uint64_t simulate_bytes_of(const simulate_state *s, tn_tensor_id id) {
    return id == TN_NONE ? 0 : tn_graph_tensor(s->program->graph, id)->bytes;
}

/* Bytes that cross a link, or that a codec reads and writes. */
static uint64_t simulate_bytes(const simulate_state *s, const tn_instruction *it) {
    const tn_opcode_facts *facts = tn_opcode_facts_of(it->opcode);
    if (facts->flags & TN_USES_CODEC)
        return tn__add_sat(simulate_bytes_of(s, it->tensor), simulate_bytes_of(s, it->other));
    if (facts->link == TN_LINK_FROM_STORAGE && s->options.fetch_bytes != NULL)
        return s->options.fetch_bytes[it->tensor];
    uint64_t bytes = facts->link != TN_LINK_NONE ? simulate_bytes_of(s, it->tensor) : 0;
    return it->parts > 0 ? bytes / it->parts : bytes;
}

static uint64_t simulate_move(uint64_t bytes, double bytes_per_s) {
    return tn__lane_bytes(bytes, bytes_per_s / SIMULATE_PS);
}

/* Whether an instruction recomputes its operator. `again` marks that, except that an operator
 * without a repeat form is recomputed in its own form; then an earlier run of the operator shows
 * it. */
static bool simulate_is_recomputed(const simulate_state *s, const tn_instruction *it) {
    if (it->again || !s->ran[it->op]) return it->again;
    return tn_op_form_of(s->program->graph, it->op, true).found == 0;
}

static uint64_t simulate_apply(simulate_state *s, const tn_instruction *it) {
    bool again = s->options.again != NULL && simulate_is_recomputed(s, it);
    const uint64_t *costs = again ? s->options.again : s->options.costs;
    s->ran[it->op] = true;
    return costs != NULL ? costs[it->op] : 0;
}

static uint64_t simulate_one(simulate_state *s, const tn_instruction *it) {
    const tn_simulate_options *options = &s->options;
    uint64_t bytes = simulate_bytes(s, it);
    switch (tn_opcode_facts_of(it->opcode)->link) {
    case TN_LINK_TO_HOST:
        return tn__add_sat(s->latency, simulate_move(bytes, options->to_host_bytes_per_s));
    case TN_LINK_FROM_HOST:
        return tn__add_sat(s->latency, simulate_move(bytes, options->from_host_bytes_per_s));
    case TN_LINK_FROM_STORAGE:
        return tn__add_sat(s->storage_latency,
                           simulate_move(bytes, options->from_storage_bytes_per_s));
    case TN_LINK_NONE:
        if (it->opcode == TN_APPLY) return simulate_apply(s, it);
        return simulate_move(bytes, options->codec_bytes_per_s);
    default:
        return tn__add_sat(s->latency + s->peer_latency,
                           simulate_move(bytes, options->peer_bytes_per_s));
    }
}

static tn_status simulate_durations(simulate_state *s) {
    for (uint32_t step = 0; step < s->count; step++)
        s->durations[step] = simulate_one(s, &s->list[step]);
    return simulate_count_turns(s->program, s->durations, s->turns, &s->made->guesses, &s->arena,
                                s->error);
}

/* --- signals --- */

static tn_status simulate_signals(simulate_state *s) {
    for (uint32_t step = 0; step < s->count; step++)
        if (s->list[step].signal != 0)
            s->signals[s->signal_count++] = (tn__sort_item){s->list[step].signal, step};
    if (!tn__sort_items(s->options.context, s->signals, s->signal_count))
        return tn__no_memory(s->error, "a simulation");
    return TN_OK;
}

static tn__lane simulate_given(const simulate_state *s, uint32_t signal) {
    size_t low = tn__sorted_find(s->signals, s->signal_count, signal);
    bool found = low < s->signal_count && s->signals[low].key == signal;
    return found ? s->done[s->signals[low].id] : (tn__lane){0, TN_NONE};
}

/* --- the walk --- */

/* Whether the thread that walks the list executes the instruction itself. */
static bool simulate_inline(const tn_instruction *it) {
    return it->stream == 0 || tn_opcode_facts_of(it->opcode)->blocks == TN_BLOCKS_CALLER;
}

static void simulate_count(simulate_state *s, uint32_t step) {
    const tn_instruction *it = &s->list[step];
    tn_simulation *made = s->made;
    uint64_t duration = s->durations[step];
    uint64_t bytes = tn__mul_sat(simulate_bytes(s, it), s->turns[step]);
    switch (tn_opcode_facts_of(it->opcode)->link) {
    case TN_LINK_TO_HOST:
        made->to_host_ps = tn__add_sat(made->to_host_ps, duration);
        made->to_host_bytes = tn__add_sat(made->to_host_bytes, bytes);
        break;
    case TN_LINK_FROM_HOST:
        made->from_host_ps = tn__add_sat(made->from_host_ps, duration);
        made->from_host_bytes = tn__add_sat(made->from_host_bytes, bytes);
        break;
    case TN_LINK_FROM_STORAGE:
        made->from_storage_ps = tn__add_sat(made->from_storage_ps, duration);
        made->from_storage_bytes = tn__add_sat(made->from_storage_bytes, bytes);
        break;
    case TN_LINK_NONE:
        made->compute_ps = tn__add_sat(made->compute_ps, duration);
        break;
    default:
        made->peer_bytes = tn__add_sat(made->peer_bytes, bytes);
    }
}

static void simulate_stall(simulate_state *s, uint32_t step, tn__lane start) {
    tn_simulation *made = s->made;
    const uint64_t at = s->clock.lanes[TN__LANE_COMPUTE].at, waited = start.at - at;
    if (waited == 0) return;
    made->stall_ps = tn__add_sat(made->stall_ps, waited);
    made->stalls[made->stall_count++] = (tn_stall){step, start.by, at, waited};
}

static void simulate_events_blocks(simulate_events *events, uint32_t step, uint64_t at_ps);

static void simulate_events_step(const simulate_events *events, uint32_t step, uint64_t start_ps,
                                 uint64_t duration_ps, uint64_t bytes);

static void simulate_step(simulate_state *s, uint32_t step) {
    const tn_instruction *it = &s->list[step];
    tn__lane *walk = &s->clock.lanes[TN__LANE_COMPUTE], ready = *walk;
    const uint32_t link = tn__clock_link(tn_opcode_facts_of(it->opcode)->link);
    if (s->turns[step] == 0) {
        s->done[step] = ready;
        return;
    }
    simulate_events_blocks(&s->events, step, ready.at);
    if (it->wait != 0) tn__lane_wait(&ready, simulate_given(s, it->wait));
    const tn__lane start = tn__clock_begin(&s->clock, it->stream, link, ready);
    if (simulate_inline(it)) simulate_stall(s, step, start);
    const tn__lane end =
        tn__clock_put(&s->clock, it->stream, link, start, s->durations[step], step);
    s->done[step] = end;
    if (simulate_inline(it)) *walk = end;
    s->made->total_ps = end.at > s->made->total_ps ? end.at : s->made->total_ps;
    simulate_count(s, step);
    bool across = tn_opcode_facts_of(it->opcode)->link != TN_LINK_NONE;
    simulate_events_step(&s->events, step, start.at, s->durations[step],
                         across ? simulate_bytes(s, it) : 0);
}

/* --- entry points --- */

static tn_status simulate_check(const tn_program *program, const tn_simulate_options *options,
                                tn_error *error) {
    const double rates[] = {options->to_host_bytes_per_s, options->from_host_bytes_per_s,
                            options->peer_bytes_per_s, options->codec_bytes_per_s,
                            options->from_storage_bytes_per_s};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (!isfinite(rates[i]) || rates[i] < 0)
            TN_FAIL(error, TN_E_INVALID, "%g bytes a second is not a rate", rates[i]);
    if (!(options->latency_s >= 0 && options->latency_s <= 1e6))
        TN_FAIL(error, TN_E_INVALID, "a latency of %g s", options->latency_s);
    if (!(options->peer_latency_s >= 0 && options->peer_latency_s <= 1e6))
        TN_FAIL(error, TN_E_INVALID, "a latency of %g s", options->peer_latency_s);
    if (!(options->storage_latency_s >= 0 && options->storage_latency_s <= 1e6))
        TN_FAIL(error, TN_E_INVALID, "a latency of %g s", options->storage_latency_s);
    if (options->occupancy != NULL && tn_occupancy_program(options->occupancy) != program)
        TN_FAIL(error, TN_E_INVALID, "the occupancy is of another program");
    return TN_OK;
}

static tn_status simulate_room(simulate_state *s) {
    size_t room = (size_t)s->count + 1;
    s->durations = tn__arena_array(&s->arena, room, sizeof *s->durations);
    s->turns = tn__arena_array(&s->arena, room, sizeof *s->turns);
    s->ran = tn__arena_array(&s->arena, (size_t)tn_graph_op_count(s->program->graph) + 1,
                             sizeof *s->ran);
    s->signals = tn__arena_array(&s->arena, room, sizeof *s->signals);
    s->done = tn__arena_array(&s->arena, room, sizeof *s->done);
    s->made->stalls = malloc(room * sizeof *s->made->stalls);
    if (s->durations == NULL || s->turns == NULL || s->ran == NULL || s->signals == NULL ||
        s->done == NULL || s->made->stalls == NULL)
        return tn__no_memory(s->error, "a simulation");
    return TN_OK;
}

static tn_status simulate_events_make(simulate_events *events, const tn_program *program,
                                      const tn_simulate_options *options, tn__arena *arena,
                                      tn_error *error);

static tn_status simulate_run(simulate_state *s) {
    TN_TRY(simulate_room(s));
    TN_TRY(simulate_durations(s));
    TN_TRY(simulate_signals(s));
    TN_TRY(simulate_events_make(&s->events, s->program, &s->options, &s->arena, s->error));
    for (uint32_t step = 0; step < s->count; step++) simulate_step(s, step);
    simulate_events_blocks(&s->events, s->count, s->made->total_ps);
    return TN_OK;
}

tn_status tn_simulate(const tn_program *program, const tn_simulate_options *given,
                      tn_simulation *simulation, tn_error *error) {
    tn_simulation made = {0};
    simulate_state s = {.program = program,
                        .list = program->instructions,
                        .count = (uint32_t)program->count,
                        .options = TN_SIMULATE_OPTIONS_INIT,
                        .made = &made,
                        .error = error};
    tn__options(&s.options, sizeof s.options, given);
    TN_TRY(simulate_check(program, &s.options, error));
    tn_context context = tn__context(s.options.context);
    s.options.context = &context;
    s.latency = (uint64_t)round(s.options.latency_s * SIMULATE_PS);
    s.peer_latency = (uint64_t)round(s.options.peer_latency_s * SIMULATE_PS);
    s.storage_latency = (uint64_t)round(s.options.storage_latency_s * SIMULATE_PS);
    tn__arena_init(&s.arena, &context);
    tn_status status = simulate_run(&s);
    tn__arena_release(&s.arena);
    if (status == TN_OK)
        *simulation = made;
    else
        tn_simulation_release(&made);
    return status;
}

void tn_simulation_release(tn_simulation *simulation) {
    if (simulation == NULL) return;
    free(simulation->stalls);
    *simulation = (tn_simulation){0};
}

/* --- how often each instruction runs ---------------------------------------------------------- */

/* Computes how often each instruction runs, as far as that is known before a run.
 *
 * It visits regions from the inside out. From the branches of one operator it keeps the longest.
 * It multiplies the instructions of a loop by its turns. The turns of a Loop are known if its
 * maximum is known and its body computes no condition that can end it sooner. The turns of a
 * Scan are the extent that it slices.
 *
 * Cost: O(instructions depth + regions log regions).
 */

typedef struct turns_state {
    const tn_program *program;
    /* per instruction, duration of one run and number of runs (turns); per region, the total
     * time */
    uint64_t *durations, *turns, *totals;
    /* the regions, sorted by length, so that inner regions come before outer ones */
    tn__sort_item *order;
    bool *done; /* [regions] true: the total time of the region is known */
} turns_state;

/* Whether a condition is known to be true: it is absent, or its value is known to be true. */
static bool turns_holds(const tn_graph *graph, tn_tensor_id id) {
    if (id == TN_NONE) return true;
    const tn_value *value = tn_graph_tensor(graph, id)->value;
    return value != NULL && value->ints != NULL && value->count > 0 && value->ints[0] != 0;
}

static bool turns_of_loop(const tn_graph *graph, const tn_op *op, const tn_block *body,
                          uint64_t *turns) {
    tn_tensor_id most = op->input_count > 0 ? op->inputs[0] : TN_NONE;
    tn_tensor_id first = op->input_count > 1 ? op->inputs[1] : TN_NONE;
    const tn_value *value = most != TN_NONE ? tn_graph_tensor(graph, most)->value : NULL;
    bool passed_on =
        body->input_count > 1 && body->output_count > 0 && body->outputs[0] == body->inputs[1];
    if (value == NULL || value->ints == NULL || value->count == 0) return false;
    if (!turns_holds(graph, first) || body->output_count == 0) return false;
    if (!passed_on && !turns_holds(graph, body->outputs[0])) return false;
    *turns = value->ints[0] > 0 ? (uint64_t)value->ints[0] : 0;
    return true;
}

static bool turns_of_scan(const tn_graph *graph, const tn_op *op, uint32_t first, uint64_t *turns) {
    const tn_tensor *tensor =
        first < op->input_count ? tn_graph_tensor(graph, op->inputs[first]) : NULL;
    uint32_t count;
    const int64_t *axes = tn__attr_ints(op, "scan_input_axes", &count);
    int64_t axis = count > 0 ? axes[0] : 0;
    if (tensor == NULL || tensor->rank == TN_RANK_UNKNOWN) return false;
    if (axis < 0) axis += tensor->rank;
    if (axis < 0 || axis >= (int64_t)tensor->rank || tensor->shape[axis] < 0) return false;
    *turns = (uint64_t)tensor->shape[axis];
    return (tensor->flags & TN_TENSOR_BOUND) == 0;
}

static bool turns_of(const tn_graph *graph, const tn_region *region, uint64_t *turns) {
    const tn_op *op = tn_graph_op(graph, region->op);
    const tn_op_rule *rule = tn__rule_of(graph, region->op);
    const tn_block *body = tn_graph_block(graph, region->block);
    *turns = 1;
    if (rule == NULL || rule->turns == NULL) return false;
    tn__loop_values how = rule->turns(op, body);
    if (how.batch) return false;
    return how.formal > 0 ? turns_of_loop(graph, op, body, turns)
                          : turns_of_scan(graph, op, how.carried, turns);
}

static void turns_multiply(turns_state *s, const tn_region *region, uint64_t by) {
    for (uint32_t step = region->first; step < region->last; step++) {
        s->turns[step] = tn__mul_sat(s->turns[step], by);
        s->durations[step] = tn__mul_sat(s->durations[step], by);
    }
}

/* When the times of all branches of one operator are known, removes all but the longest. Returns
 * whether there was more than one branch. */
static bool turns_branch(turns_state *s, uint32_t index) {
    const tn_region *regions = s->program->regions;
    uint32_t longest = index, others = 0;
    for (uint32_t r = 0; r < s->program->region_count; r++) {
        if (regions[r].op != regions[index].op) continue;
        if (!s->done[r]) return false; /* until the last branch is done, the longest is unknown */
        if (s->totals[r] > s->totals[longest] ||
            (s->totals[r] == s->totals[longest] && r < longest))
            longest = r;
    }
    for (uint32_t r = 0; r < s->program->region_count; r++)
        if (regions[r].op == regions[index].op && r != longest) {
            turns_multiply(s, &regions[r], 0);
            others++;
        }
    return others > 0;
}

static void turns_region(turns_state *s, uint32_t index, uint32_t *guesses) {
    const tn_region *region = &s->program->regions[index];
    uint64_t turns;
    for (uint32_t step = region->first; step < region->last; step++)
        s->totals[index] = tn__add_sat(s->totals[index], s->durations[step]);
    s->done[index] = true;
    if (!region->repeats) {
        *guesses += turns_branch(s, index);
        return;
    }
    if (!turns_of(s->program->graph, region, &turns)) ++*guesses;
    turns_multiply(s, region, turns);
}

static tn_status simulate_count_turns(const tn_program *program, uint64_t *durations,
                                      uint64_t *turns, uint32_t *guesses, tn__arena *arena,
                                      tn_error *error) {
    turns_state s = {.program = program, .durations = durations, .turns = turns};
    size_t regions = program->region_count;
    s.totals = tn__arena_array(arena, regions + 1, sizeof *s.totals);
    s.order = tn__arena_array(arena, regions + 1, sizeof *s.order);
    s.done = tn__arena_array(arena, regions + 1, sizeof *s.done);
    if (s.totals == NULL || s.order == NULL || s.done == NULL)
        return tn__no_memory(error, "a simulation");
    for (size_t step = 0; step < program->count; step++) turns[step] = 1;
    for (uint32_t r = 0; r < regions; r++) {
        const tn_region *region = &program->regions[r];
        s.order[r] = (tn__sort_item){region->last - region->first, r};
    }
    if (!tn__sort_items(arena->context, s.order, regions))
        return tn__no_memory(error, "a simulation");
    *guesses = 0;
    for (size_t r = 0; r < regions; r++) turns_region(&s, s.order[r].id, guesses);
    return TN_OK;
}

/* --- events ----------------------------------------------------------------------------------- */

/* Reports the events of a simulation in the form of a run (engine/trace_events.c, engine/spans.c).
 *
 * When the walk comes to a step, buffers that end there are freed and buffers that begin there are
 * allocated. If the walk skips steps, only the buffers that are live at its new step are allocated.
 * Static memory is not part of a run, so it has no events.
 *
 * Cost: O(instructions + buffers), and that of tn_occupancy_live.
 */

#define TELL_PS 1e12

static tn_status events_list(simulate_events *events, tn__arena *arena, tn_error *error) {
    const tn_problem *problem = tn_occupancy_problem(events->options->occupancy);
    const tn_life *lives = tn_occupancy_lives(events->options->occupancy);
    for (uint32_t i = tn_occupancy_life_count(events->options->occupancy); i-- > 0;)
        events->named[lives[i].body] = i;
    for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
        const tn_body *body = tn_problem_body(problem, b);
        uint32_t index = events->named[b];
        if (index == TN_NONE || lives[index].is_static || body->size == 0) continue;
        events->begins[events->count] = (tn__sort_item){tn__sort_key(body->first), b};
        events->ends[events->count++] = (tn__sort_item){tn__sort_key(body->last), b};
    }
    if (!tn__sort_items(arena->context, events->begins, events->count) ||
        !tn__sort_items(arena->context, events->ends, events->count))
        return tn__no_memory(error, "events");
    return TN_OK;
}

static tn_status simulate_events_make(simulate_events *events, const tn_program *program,
                                      const tn_simulate_options *options, tn__arena *arena,
                                      tn_error *error) {
    *events = (simulate_events){.program = program, .options = options};
    if (options->trace == NULL || options->occupancy == NULL) return TN_OK;
    size_t bodies = tn_problem_count(tn_occupancy_problem(options->occupancy));
    events->live = tn__arena_array(arena, program->count + 1, sizeof *events->live);
    events->begins = tn__arena_array(arena, bodies + 1, sizeof *events->begins);
    events->ends = tn__arena_array(arena, bodies + 1, sizeof *events->ends);
    events->named = tn__arena_array(arena, bodies + 1, sizeof *events->named);
    events->there = tn__arena_array(arena, bodies + 1, sizeof *events->there);
    if (events->live == NULL || events->begins == NULL || events->ends == NULL ||
        events->named == NULL || events->there == NULL)
        return tn__no_memory(error, "events");
    memset(events->named, 0xff, bodies * sizeof *events->named);
    TN_TRY(events_list(events, arena, error));
    return tn_occupancy_live(options->occupancy, events->live, error);
}

static void events_block(simulate_events *events, tn_body_id body, uint32_t step, uint64_t at_ps,
                         bool frees) {
    const tn_occupancy *occupancy = events->options->occupancy;
    const tn_life *life = &tn_occupancy_lives(occupancy)[events->named[body]];
    uint64_t bytes = tn_problem_body(tn_occupancy_problem(occupancy), body)->size;
    tn_kind kind = life->tensor == TN_NONE
                       ? TN_KIND_WORKSPACE
                       : tn_graph_tensor(events->program->graph, life->tensor)->kind;
    tn_event event = {.kind = frees ? TN_EVENT_FREE : TN_EVENT_ALLOC,
                      .opcode = events->program->instructions[step].opcode,
                      .step = step,
                      .run = events->options->run,
                      .op = life->op,
                      .tensor = life->tensor,
                      .body = body,
                      .bytes = bytes,
                      .start_s = events->options->start_s + (double)at_ps / TELL_PS};
    events->there[body] = !frees;
    events->now[kind] += frees ? 0 - bytes : bytes;
    memcpy(event.live, events->now, sizeof event.live);
    tn_trace_add(events->options->trace, &event);
}

/* Writes the events of buffers that end and begin. It is called when the walk comes to a step, and
 * once after the last step. */
static void simulate_events_blocks(simulate_events *events, uint32_t step, uint64_t at_ps) {
    uint64_t now = tn__sort_key(step);
    uint32_t count = (uint32_t)events->program->count, reported = step < count ? step : count - 1;
    for (; events->end < events->count && events->ends[events->end].key <= now; events->end++)
        if (events->there[events->ends[events->end].id])
            events_block(events, events->ends[events->end].id, reported, at_ps, true);
    for (; events->begin < events->count && events->begins[events->begin].key <= now;
         events->begin++) {
        tn_body_id body = events->begins[events->begin].id;
        const tn_problem *problem = tn_occupancy_problem(events->options->occupancy);
        if (tn_problem_body(problem, body)->last > (int64_t)step)
            events_block(events, body, reported, at_ps, false);
    }
}

static void simulate_events_step(const simulate_events *events, uint32_t step, uint64_t start_ps,
                                 uint64_t duration_ps, uint64_t bytes) {
    const tn_instruction *it = &events->program->instructions[step];
    if (events->options->trace == NULL) return;
    tn_event event = {.kind = TN_EVENT_STEP,
                      .opcode = it->opcode,
                      .step = step,
                      .run = events->options->run,
                      .stream = it->stream,
                      .op = it->op,
                      .tensor = it->tensor,
                      .body = TN_NONE,
                      .bytes = bytes,
                      .start_s = events->options->start_s + (double)start_ps / TELL_PS,
                      .duration_s = (double)duration_ps / TELL_PS};
    if (events->live != NULL) memcpy(event.live, events->live[step], sizeof event.live);
    tn_trace_add(events->options->trace, &event);
}
