/* emit_copies.c - chooses the acts after which copies out are made. An instruction cannot read a
 * tensor that was handed to a copy out. If the value is read between OUT and SETTLE, it is
 * therefore copied after the last of these reads; a value that is not copied back is not copied
 * out. Cost: O(acts + operands).
 */
#include "fit/budget/emit.h"

typedef struct copies_state {
    const tn__work *work;
    const tn__schedule *schedule;
    tn__emit_copies *to;
    bool *ran; /* [jobs] */
    /* acts of values that were not copied back yet, by value; TN_NONE */
    uint32_t *leaving, *unwanted, *encoded;
} copies_state;

/* Removes a copy, or an encoded form, that was not used before the next one is made. */
static void copies_forget(const copies_state *s, uint32_t *unwanted, uint32_t act) {
    if (*unwanted != TN_NONE) s->to->at[*unwanted] = TN_NONE;
    *unwanted = act;
}

static void copies_run(const copies_state *s, uint32_t act, uint32_t job) {
    uint32_t count;
    const uint32_t *inputs = tn__job_inputs(s->work, job, s->ran[job], &count);
    s->ran[job] = true;
    for (uint32_t k = 0; k < count; k++)
        if (s->leaving[inputs[k]] != TN_NONE) s->to->at[s->leaving[inputs[k]]] = act;
}

static void copies_act(const copies_state *s, uint32_t i) {
    const tn__act *act = &s->schedule->acts[i];
    s->to->at[i] = i;
    switch (act->kind) {
    case TN__RUN:
        copies_run(s, i, act->what);
        break;
    case TN__OUT:
        s->leaving[act->what] = i;
        copies_forget(s, &s->unwanted[act->what], i);
        break;
    case TN__SETTLE:
        s->leaving[act->what] = TN_NONE;
        break;
    case TN__IN:
        s->unwanted[act->what] = TN_NONE;
        break;
    case TN__ENCODE:
        if (s->leaving[act->what] != TN_NONE) s->to->at[s->leaving[act->what]] = i;
        copies_forget(s, &s->encoded[act->what], i);
        break;
    default:
        s->encoded[act->what] = TN_NONE;
    }
}

/* Places the copy after the last act that reads the value before it is settled; only if it is
 * copied back. */
static void copies_find(const copies_state *s) {
    for (uint32_t v = 0; v < s->work->value_count; v++)
        s->leaving[v] = s->unwanted[v] = s->encoded[v] = TN_NONE;
    for (uint32_t i = 0; i < s->schedule->count; i++) {
        s->to->due[i] = TN_NONE;
        copies_act(s, i);
    }
    for (uint32_t v = 0; v < s->work->value_count; v++) {
        copies_forget(s, &s->unwanted[v], TN_NONE);
        copies_forget(s, &s->encoded[v], TN_NONE);
    }
    for (uint32_t i = s->schedule->count; i-- > 0;) {
        uint32_t at = s->to->at[i];
        if (s->schedule->acts[i].kind != TN__OUT || at == TN_NONE) continue;
        s->to->next_due[i] = s->to->due[at];
        s->to->due[at] = i;
    }
}

tn_status tn__emit_find_copies(const tn__work *work, const tn__schedule *schedule, tn__arena *arena,
                               tn__emit_copies *copies, tn_error *error) {
    size_t values = work->value_count + (size_t)1, acts = schedule->count + (size_t)1;
    copies_state s = {.work = work, .schedule = schedule, .to = copies};
    copies->at = tn__arena_array(arena, acts, sizeof *copies->at);
    copies->due = tn__arena_array(arena, acts, sizeof *copies->due);
    copies->next_due = tn__arena_array(arena, acts, sizeof *copies->next_due);
    s.ran = tn__arena_array(arena, work->job_count + (size_t)1, sizeof *s.ran);
    s.leaving = tn__arena_array(arena, values, sizeof *s.leaving);
    s.unwanted = tn__arena_array(arena, values, sizeof *s.unwanted);
    s.encoded = tn__arena_array(arena, values, sizeof *s.encoded);
    if (!copies->at || !copies->due || !copies->next_due || !s.ran || !s.leaving || !s.unwanted ||
        !s.encoded)
        return tn__no_memory(error, "a program");
    copies_find(&s);
    return TN_OK;
}
