/* simulate.c - predicts the time of a program in one pass, with a clock for each stream.
 *
 * A signal comes before the instructions that wait for it, and streams and transfer directions
 * serve in the order of the list. So when the walk comes to an instruction, the end of every
 * instruction that it may wait for is known, and events need not be sorted by time. Streams and
 * links are the lanes of the clock (clock.h).
 *
 * Cost: O(instructions); with signals O(signals log signals) more.
 */
#include "program/simulate.h"

#include "base/sorted.h"
#include "program/clock.h"

#define SIMULATE_PS 1e12

typedef struct simulate_state {
    const tn_program *program;
    const tn_instruction *list;
    uint32_t count;
    tn_simulate_options options;
    uint64_t latency, storage_latency, peer_latency;
    tn__arena arena;
    uint64_t *durations, *turns; /* [count] of all turns of a loop together */
    bool *ran;                   /* [operators] an earlier instruction ran it */
    tn__sort_item *signals;      /* by number; id: step */
    size_t signal_count;
    tn__lane *done;  /* [count] end of each step */
    tn__clock clock; /* its stream 0 is the walk itself */
    tn__simulate_tell tell;
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

/* An operator without a repeat form is recomputed in its own form; only its place shows that. */
static bool simulate_is_again(const simulate_state *s, const tn_instruction *it) {
    if (it->again || !s->ran[it->op]) return it->again;
    return tn_op_form_of(s->program->graph, it->op, true).found == 0;
}

static uint64_t simulate_apply(simulate_state *s, const tn_instruction *it) {
    bool again = s->options.again != NULL && simulate_is_again(s, it);
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
    return tn__simulate_turns(s->program, s->durations, s->turns, &s->made->guesses, &s->arena,
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

/* Whether the walk itself executes the instruction. */
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

static void simulate_step(simulate_state *s, uint32_t step) {
    const tn_instruction *it = &s->list[step];
    tn__lane *walk = &s->clock.lanes[TN__LANE_COMPUTE], ready = *walk;
    const uint32_t link = tn__clock_link(tn_opcode_facts_of(it->opcode)->link);
    if (s->turns[step] == 0) {
        s->done[step] = ready;
        return;
    }
    tn__simulate_tell_blocks(&s->tell, step, ready.at);
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
    tn__simulate_tell_step(&s->tell, step, start.at, s->durations[step],
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

static tn_status simulate_run(simulate_state *s) {
    TN_TRY(simulate_room(s));
    TN_TRY(simulate_durations(s));
    TN_TRY(simulate_signals(s));
    TN_TRY(tn__simulate_tell_make(&s->tell, s->program, &s->options, &s->arena, s->error));
    for (uint32_t step = 0; step < s->count; step++) simulate_step(s, step);
    tn__simulate_tell_blocks(&s->tell, s->count, s->made->total_ps);
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
