/* triggers.c - finds copies back that were late in a trace, and earlier places for them.
 *
 *     stream 0   APPLY a   WAIT (x is out)   APPLY b   APPLY c    WAIT (x is back)   APPLY d(x)
 *     stream 2                                         [-- SWAP_IN x --]
 *                                            ^ in-trigger: after b   ^ back-access
 *
 * A copy back begins after an instruction of stream 0, its in-trigger. If the copy ends after its
 * reader on stream 0 began to wait for it, it was late, and should begin earlier by 5 % of its own
 * time. The last instruction that had ended at that earlier time becomes the new in-trigger. A copy
 * back is never moved before the wait for its copy out, because its data is not on the host yet.
 *
 * Cost: O(instructions) for each move.
 * Source: Peng et al., "Capuchin" (2020), feedback-driven adjustment.
 */
#include "run/online/online.h"

/* a late copy back starts earlier by this fraction of its own time in each iteration */
#define TRIGGERS_SHARE 0.05
#define TRIGGERS_CLOCK 1e-5 /* seconds; a reader that waits for a shorter time was not delayed */

tn_status tn__triggers_make(tn__triggers *triggers, const tn_program *program,
                            const tn_context *context, tn_error *error) {
    const tn_instruction *list = tn_program_instructions(program);
    uint32_t count = tn_program_count(program);
    *triggers = (tn__triggers){.context = context, .count = count};
    for (uint32_t s = 0; s < count; s++)
        triggers->trigger_count += list[s].opcode == TN_SWAP_IN && list[s].signal != 0;
    triggers->list = tn__alloc_array(context, (size_t)count + 1, sizeof *triggers->list);
    triggers->next = tn__alloc_array(context, (size_t)count + 1, sizeof *triggers->next);
    triggers->all =
        tn__alloc_array(context, (size_t)triggers->trigger_count + 1, sizeof *triggers->all);
    if (triggers->list == NULL || triggers->next == NULL || triggers->all == NULL)
        return tn__no_memory(error, "copies back");
    for (uint32_t s = 0, t = 0; s < count; s++) {
        triggers->list[s].it = list[s];
        if (list[s].opcode == TN_SWAP_IN && list[s].signal != 0)
            triggers->all[t++].arrival = list[s].signal;
    }
    return TN_OK;
}

void tn__triggers_release(tn__triggers *triggers) {
    if (triggers->context == NULL) return;
    size_t room = (size_t)triggers->count + 1;
    tn__free(triggers->context, triggers->list, room * sizeof *triggers->list);
    tn__free(triggers->context, triggers->next, room * sizeof *triggers->next);
    tn__free(triggers->context, triggers->all,
             ((size_t)triggers->trigger_count + 1) * sizeof *triggers->all);
}

void tn__triggers_begin(tn__triggers *triggers) {
    memcpy(triggers->next, triggers->list, triggers->count * sizeof *triggers->list);
}

void tn__triggers_take(tn__triggers *triggers) {
    memcpy(triggers->list, triggers->next, triggers->count * sizeof *triggers->list);
}

/* --- finding the copies back that were late --------------------------------------------------- */

static uint32_t triggers_find(const tn__timed *list, uint32_t count, uint32_t arrival) {
    uint32_t at = 0;
    while (at < count && list[at].it.signal != arrival) at++;
    return at;
}

uint32_t tn__triggers_read(tn__triggers *triggers, const tn_trace *trace) {
    uint64_t count;
    const tn_event *events = tn_trace_events(trace, &count);
    uint32_t late = 0;
    for (uint64_t e = 0; e < count; e++) {
        if (events[e].kind != TN_EVENT_STEP || events[e].step >= triggers->count) continue;
        tn__timed *timed = &triggers->list[events[e].step];
        timed->start_s = events[e].start_s;
        timed->end_s = events[e].start_s + events[e].duration_s;
    }
    for (uint32_t t = 0; t < triggers->trigger_count; t++) {
        tn__trigger *trigger = &triggers->all[t];
        uint32_t in = triggers_find(triggers->list, triggers->count, trigger->arrival), back = in;
        while (back < triggers->count && triggers->list[back].it.wait != trigger->arrival) back++;
        trigger->late = false;
        if (back == triggers->count) continue;
        trigger->copy_s = triggers->list[in].end_s - triggers->list[in].start_s;
        trigger->late_s = triggers->list[in].end_s - triggers->list[back].start_s;
        trigger->late = trigger->late_s > TRIGGERS_CLOCK;
        late += trigger->late;
    }
    return late;
}

/* --- moving a copy back to an earlier position ------------------------------------------------ */

static bool triggers_computes(const tn__timed *timed) {
    return timed->it.stream == 0 && timed->it.opcode != TN_DROP;
}

/* Returns the instruction after which the copy back of a tensor may begin at the earliest: the wait
 * for its copy out, or a later instruction that names the tensor. TN_NONE: no instruction waits for
 * its copy out. */
static uint32_t triggers_floor(const tn__timed *list, uint32_t in) {
    tn_tensor_id tensor = list[in].it.tensor;
    uint32_t out = in;
    while (out > 0 && (list[out].it.opcode != TN_SWAP_OUT || list[out].it.tensor != tensor)) out--;
    if (list[out].it.opcode != TN_SWAP_OUT || list[out].it.tensor != tensor) return TN_NONE;
    uint32_t floor = out;
    while (floor < in && (list[floor].it.stream != 0 || list[floor].it.wait == 0 ||
                          list[floor].it.wait != list[out].it.signal))
        floor++;
    if (floor == in) return TN_NONE;
    for (uint32_t s = floor; s < in; s++)
        if (list[s].it.tensor == tensor) floor = s;
    return floor;
}

static uint32_t triggers_signal(tn__timed *list, uint32_t count, uint32_t at) {
    uint32_t last = 0;
    if (list[at].it.signal != 0) return list[at].it.signal;
    for (uint32_t s = 0; s < count; s++)
        if (list[s].it.signal > last) last = list[s].it.signal;
    return list[at].it.signal = last + 1;
}

bool tn__triggers_move(tn__triggers *triggers, tn__trigger *trigger, uint32_t *from, uint32_t *to) {
    tn__timed *list = triggers->next;
    uint32_t in = triggers_find(list, triggers->count, trigger->arrival), now = in;
    while (now > 0 && !triggers_computes(&list[now])) now--;
    uint32_t floor = triggers_floor(list, in), at = now;
    trigger->blocked = floor == TN_NONE || floor >= now || !triggers_computes(&list[now]);
    if (trigger->blocked) return false;
    double target = list[now].end_s - TRIGGERS_SHARE * trigger->copy_s;
    while (at > floor && (!triggers_computes(&list[at]) || list[at].end_s > target)) at--;
    /* the earliest position may be a release, after which no copy can be placed */
    while (at < now && !triggers_computes(&list[at])) at++;
    trigger->blocked = at >= now;
    if (trigger->blocked) return false;
    const tn__timed copy = list[in];
    memmove(&list[at + 2], &list[at + 1], (in - at - 1) * sizeof *list);
    list[at + 1] = copy;
    list[at + 1].it.wait = triggers_signal(list, triggers->count, at);
    *from = now;
    *to = at;
    return true;
}

tn_status tn__triggers_program(const tn__triggers *triggers, const tn_graph *graph,
                               tn_program **program, tn_error *error) {
    size_t room = (size_t)triggers->count + 1;
    tn_instruction *list = tn__alloc_array(triggers->context, room, sizeof *list);
    if (list == NULL) return tn__no_memory(error, "a program");
    for (uint32_t s = 0; s < triggers->count; s++) list[s] = triggers->next[s].it;
    tn_status status = tn_program_from(graph, list, triggers->count, NULL, 0, program, error);
    tn__free(triggers->context, list, room * sizeof *list);
    return status;
}
