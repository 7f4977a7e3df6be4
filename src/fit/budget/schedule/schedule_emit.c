/* schedule_emit.c - writes a schedule as a Program.
 *
 *     stream 0   APPLY a  APPLY b  DROP  APPLY c          WAIT   APPLY d      APPLY e(a)
 *     stream 1                     [-- SWAP_OUT a --]----^
 *     stream 2                                            [-- SWAP_IN a --]--^
 *
 * A tensor that is defined while it still exists is dropped directly before, together with its
 * views. No other drops are needed, because live ranges end with their last readers. A view that
 * does not exist is applied before its reader. A view that is smaller than its root is applied as
 * soon as the root exists, so that the memory of the root can be released earlier. A copy starts
 * when the preceding instruction on stream 0 has ended. A reader of a copied value waits for the
 * copy. SETTLE becomes a WAIT.
 *
 * The communication of a rank (read_messages.c) keeps its place and its signals, with one change: a
 * receive also waits for a repeat directly before it, because the memory of the received tensor
 * begins there. Cost: O(actions + operands).
 */
#include "fit/budget/schedule/lower.h"

#include "fit/budget/schedule/schedule_graph.h"
#include "graph/attr.h"
#include "program/program.h"

typedef struct tn__emit_copies {
    /* [actions] for OUT, the action after which the value is copied; for ENCODE, the action itself;
     * TN_NONE: never, because the value is not read back */
    uint32_t *at;
    uint32_t *due,
        /* [actions] linked lists of the OUTs that are copied after each action; TN_NONE: end of the
         * list */
        *next_due;
} tn__emit_copies;

/* --- places of the copies out ----------------------------------------------------------------- */

/* Chooses the action after which each copy out is made. An instruction cannot read a tensor that
 * was handed to a copy out. Therefore, if the value is read between OUT and SETTLE, it is copied
 * after the last of these reads. A value that is never copied back is not copied out. Cost:
 * O(actions + operands). */

typedef struct copies_state {
    const tn__dag *dag;
    const tn__schedule *schedule;
    tn__emit_copies *to;
    bool *ran; /* [jobs] */
    /* [values] the last OUT that is not settled, OUT that is not copied back, and ENCODE that is
     * not decoded; TN_NONE: no such action */
    uint32_t *leaving, *unwanted, *encoded;
} copies_state;

/* Removes the previous copy out or encoded form of a value if it was never used, and notes that
 * `action` made the new one. */
static void copies_forget(const copies_state *s, uint32_t *unwanted, uint32_t action) {
    if (*unwanted != TN_NONE) s->to->at[*unwanted] = TN_NONE;
    *unwanted = action;
}

static void copies_run(const copies_state *s, uint32_t action, uint32_t job) {
    uint32_t count;
    const uint32_t *inputs = tn__job_inputs(s->dag, job, s->ran[job], &count);
    s->ran[job] = true;
    for (uint32_t k = 0; k < count; k++)
        if (s->leaving[inputs[k]] != TN_NONE) s->to->at[s->leaving[inputs[k]]] = action;
}

static void copies_action(const copies_state *s, uint32_t i) {
    const tn__action *action = &s->schedule->actions[i];
    s->to->at[i] = i;
    switch (action->kind) {
    case TN__RUN:
        copies_run(s, i, action->what);
        break;
    case TN__OUT:
        s->leaving[action->what] = i;
        copies_forget(s, &s->unwanted[action->what], i);
        break;
    case TN__SETTLE:
        s->leaving[action->what] = TN_NONE;
        break;
    case TN__IN:
        s->unwanted[action->what] = TN_NONE;
        break;
    case TN__ENCODE:
        if (s->leaving[action->what] != TN_NONE) s->to->at[s->leaving[action->what]] = i;
        copies_forget(s, &s->encoded[action->what], i);
        break;
    default:
        s->encoded[action->what] = TN_NONE;
    }
}

/* Places each copy out after the last action that reads the value before the copy is settled.
 * Removes copies and encoded forms that are never used. */
static void copies_find(const copies_state *s) {
    for (uint32_t v = 0; v < s->dag->value_count; v++)
        s->leaving[v] = s->unwanted[v] = s->encoded[v] = TN_NONE;
    for (uint32_t i = 0; i < s->schedule->count; i++) {
        s->to->due[i] = TN_NONE;
        copies_action(s, i);
    }
    for (uint32_t v = 0; v < s->dag->value_count; v++) {
        copies_forget(s, &s->unwanted[v], TN_NONE);
        copies_forget(s, &s->encoded[v], TN_NONE);
    }
    for (uint32_t i = s->schedule->count; i-- > 0;) {
        uint32_t at = s->to->at[i];
        if (s->schedule->actions[i].kind != TN__OUT || at == TN_NONE) continue;
        s->to->next_due[i] = s->to->due[at];
        s->to->due[at] = i;
    }
}

/* Finds where copies out are made. Errors: E_NO_MEMORY. Cost: O(actions + operands). */
static tn_status emit_find_copies(const tn__dag *dag, const tn__schedule *schedule,
                                  tn__arena *arena, tn__emit_copies *copies, tn_error *error) {
    size_t values = dag->value_count + (size_t)1, actions = schedule->count + (size_t)1;
    copies_state s = {.dag = dag, .schedule = schedule, .to = copies};
    copies->at = tn__arena_array(arena, actions, sizeof *copies->at);
    copies->due = tn__arena_array(arena, actions, sizeof *copies->due);
    copies->next_due = tn__arena_array(arena, actions, sizeof *copies->next_due);
    s.ran = tn__arena_array(arena, dag->job_count + (size_t)1, sizeof *s.ran);
    s.leaving = tn__arena_array(arena, values, sizeof *s.leaving);
    s.unwanted = tn__arena_array(arena, values, sizeof *s.unwanted);
    s.encoded = tn__arena_array(arena, values, sizeof *s.encoded);
    if (!copies->at || !copies->due || !copies->next_due || !s.ran || !s.leaving || !s.unwanted ||
        !s.encoded)
        return tn__no_memory(error, "a program");
    copies_find(&s);
    return TN_OK;
}

/* --- instructions ----------------------------------------------------------------------------- */

/* Streams. In the program of a rank, the streams of messages are between EMIT_COMPUTE and the
 * streams of copies. */
enum { EMIT_COMPUTE, EMIT_OUT, EMIT_IN };

typedef struct emit_program {
    const tn__dag_map *map;
    const tn__dag *dag;
    const tn__schedule *schedule;
    const tn_instruction *old;
    tn_instruction *list;
    tn_region *regions;
    tn_encoded *forms;
    size_t count, room, region_count, region_room, form_count, form_room;
    tn__arena arena;
    bool *here; /* [tensors] */
    bool *ran;  /* [jobs] */
    /* [values] the view of the value that was made last and exists; TN_NONE: no view exists */
    tn_tensor_id *views;
    /* [tensors] for an existing view of a value: the existing view that was made before it;
     * TN_NONE: this view was made first */
    tn_tensor_id *next_view;
    /* [values] signals of the last copy in (arrives) and copy out (left); 0: no wait is needed */
    uint32_t *arrives, *left;
    uint32_t *form; /* [values] the tensor that is the value's newest encoded form */
    tn__emit_copies copies;
    uint32_t last; /* the last instruction on stream 0; TN_NONE: no instruction yet */
    uint32_t signals;
    uint32_t beside; /* number of streams of the original program other than stream 0 */
    /* [signals of the original program + 1] the instruction that gives the signal; TN_NONE: not
     * written yet */
    uint32_t *gave;
    uint32_t given; /* the last instruction that gives a signal of the original program */
    /* the last instruction of a communication on stream 0; TN_NONE: no such instruction yet */
    uint32_t said;
    tn_error *error;
} emit_program;

/* --- instructions --- */

static tn_status emit_add(emit_program *s, tn_instruction it) {
    if (!tn__reserve(&s->schedule->context, &s->list, &s->room, s->count + 1, sizeof it))
        return tn__no_memory(s->error, "a program");
    if (it.stream == EMIT_COMPUTE && it.opcode != TN_DROP) s->last = (uint32_t)s->count;
    if (it.signal != 0 && it.signal <= s->given) s->gave[it.signal] = (uint32_t)s->count;
    s->list[s->count++] = it;
    return s->count < TN_NONE ? TN_OK : tn__fail(s->error, TN_E_EXHAUSTED, "2^32 instructions");
}

static tn_status emit_of(emit_program *s, tn_opcode opcode, tn_tensor_id tensor) {
    tn_instruction it = TN_INSTRUCTION_INIT;
    it.opcode = opcode;
    it.tensor = tensor;
    return emit_add(s, it);
}

static tn_status emit_wait(emit_program *s, uint32_t *signal) {
    tn_instruction it = TN_INSTRUCTION_INIT;
    if (*signal == 0) return TN_OK;
    it.opcode = TN_WAIT;
    it.wait = *signal;
    *signal = 0;
    return emit_add(s, it);
}

/* Returns a signal for the end of the last instruction on stream 0; 0 if there is no instruction
 * yet. */
static uint32_t emit_signal(emit_program *s) {
    if (s->last == TN_NONE) return 0;
    tn_instruction *it = &s->list[s->last];
    if (it->signal == 0) it->signal = ++s->signals;
    return it->signal;
}

/* --- tensors that exist --- */

/* Drops a tensor, if it exists. Before that, if the tensor owns the memory of a value, drops the
 * existing views of the value. */
static tn_status emit_drop(emit_program *s, tn_tensor_id id) {
    uint32_t value = s->map->value[id];
    bool is_root = s->map->root[id] == id && value != TN_NONE;
    for (tn_tensor_id view = is_root ? s->views[value] : TN_NONE; view != TN_NONE;
         view = s->next_view[view]) {
        s->here[view] = false;
        TN_TRY(emit_of(s, TN_DROP, view));
    }
    if (is_root) s->views[value] = TN_NONE;
    if (!s->here[id]) return TN_OK;
    /* the copy back of the value may still be in progress, so waits for it */
    if (is_root) TN_TRY(emit_wait(s, &s->arrives[value]));
    s->here[id] = false;
    return emit_of(s, TN_DROP, id);
}

static void emit_is_here(emit_program *s, tn_tensor_id id) {
    uint32_t value = s->map->value[id];
    s->here[id] = true;
    if (value == TN_NONE || s->map->root[id] == id) return;
    s->next_view[id] = s->views[value];
    s->views[value] = id;
}

/* Drops the outputs of an operator that exist, and writes its APPLY. `old` is NULL, or the original
 * instruction; its wait and its signal are copied. */
static tn_status emit_apply(emit_program *s, tn_op_id id, bool recompute,
                            const tn_instruction *old) {
    tn_op_form form = tn_op_form_of(s->map->graph, id, recompute);
    tn_instruction it = TN_INSTRUCTION_INIT;
    for (uint32_t k = 0; k < form.output_count; k++)
        if (form.op->outputs[k] != TN_NONE && s->here[form.op->outputs[k]])
            TN_TRY(emit_drop(s, form.op->outputs[k]));
    it.opcode = TN_APPLY;
    it.op = id;
    it.again = recompute && form.found != 0;
    it.wait = old != NULL ? old->wait : 0;
    it.signal = old != NULL ? old->signal : 0;
    TN_TRY(emit_add(s, it));
    for (uint32_t k = 0; k < form.output_count; k++)
        if (form.op->outputs[k] != TN_NONE) emit_is_here(s, form.op->outputs[k]);
    return TN_OK;
}

/* --- views --- */

/* Returns the tensor of which a tensor is a view. */
static tn_tensor_id emit_source(const emit_program *s, tn_tensor_id id) {
    tn_op_id maker = tn_graph_tensor(s->map->graph, id)->producer;
    const tn_op *op = tn_graph_op(s->map->graph, maker);
    uint32_t k = 0;
    while (op->outputs[k] != id) k++;
    return tn_op_view(s->map->graph, maker, k).source;
}

/* Makes a tensor exist before it is read: waits for a copy of its value that is under way, and
 * applies missing views, beginning with the one closest to the root. An operator may make several
 * views, and all of them are applied again; a view that existed before, and that the same reader
 * may also read, exists again afterwards. */
static tn_status emit_need(emit_program *s, tn_tensor_id id) {
    if (id == TN_NONE) return TN_OK;
    uint32_t value = s->map->value[id];
    if (value != TN_NONE) TN_TRY(emit_wait(s, &s->arrives[value]));
    while (s->map->is_view[id] && !s->here[id]) {
        tn_tensor_id at = id;
        for (;;) {
            tn_tensor_id source = emit_source(s, at);
            if (!s->map->is_view[source] || s->here[source]) break;
            at = source;
        }
        TN_TRY(emit_apply(s, tn_graph_tensor(s->map->graph, at)->producer, false, NULL));
    }
    return TN_OK;
}

/* Applies the views that are smaller than a root which exists now, so that the memory of the root
 * that nothing reads can be released. */
static tn_status emit_parts(emit_program *s, tn_tensor_id root) {
    for (tn_op_id id = s->map->part[root]; id != TN_NONE; id = s->map->next_part[id]) {
        const tn_op *op = tn_graph_op(s->map->graph, id);
        for (uint32_t k = 0; k < op->output_count; k++)
            if (op->outputs[k] != TN_NONE) TN_TRY(emit_need(s, op->outputs[k]));
    }
    return TN_OK;
}

/* --- actions --- */

/* Writes the regions of an operator with blocks, with the new positions of its instructions. */
static tn_status emit_regions(emit_program *s, uint32_t job, uint32_t first) {
    const tn__dag_map *map = s->map;
    const tn_region *regions = tn_program_regions(map->program);
    tn_op_id op = s->dag->jobs[job].op;
    if (!tn__op_has_blocks(tn_graph_op(map->graph, op))) return TN_OK;
    for (uint32_t r = 0; r < tn_program_region_count(map->program); r++) {
        tn_region region = regions[r];
        if (!tn__region_is_of(map->graph, &region, op)) continue;
        region.first = first + (region.first - map->first[job]);
        region.last = first + (region.last - map->first[job]);
        if (!tn__reserve(&s->schedule->context, &s->regions, &s->region_room, s->region_count + 1,
                         sizeof region))
            return tn__no_memory(s->error, "a program");
        s->regions[s->region_count++] = region;
    }
    return TN_OK;
}

/* Makes a receive wait for the end of the instruction directly before it on stream 0, which implies
 * the end of the instruction for which it waited originally. If there is a communication in
 * between, the receive keeps its original wait, because the other rank may wait for this receive
 * first. */
static void emit_follow(emit_program *s, uint32_t before, tn_instruction *it) {
    uint32_t from = it->wait != 0 ? s->gave[it->wait] : TN_NONE;
    bool comes = it->stream != EMIT_COMPUTE && tn_instruction_effects(it).defines != TN_NONE;
    if (!comes || from == TN_NONE || before == TN_NONE || from >= before) return;
    if (s->list[from].stream != EMIT_COMPUTE || (s->said != TN_NONE && s->said > from)) return;
    if (s->list[before].signal == 0) s->list[before].signal = ++s->signals;
    it->wait = s->list[before].signal;
}

/* Writes the instructions of a job of messages: communication with other ranks or with the
 * caller. */
static tn_status emit_messages(emit_program *s, uint32_t job) {
    const tn__dag_map *map = s->map;
    for (uint32_t i = 0; i < map->read_count[job]; i++)
        TN_TRY(emit_need(s, map->reads[map->read_first[job] + i]));
    uint32_t before = s->last, said = TN_NONE;
    for (uint32_t step = map->first[job]; step < map->last[job]; step++) {
        tn_instruction it = s->old[step];
        tn_tensor_id made = tn_instruction_effects(&it).defines;
        /* drops are not copied: a tensor is dropped when it is defined again while it exists */
        if (it.opcode == TN_DROP) continue;
        if (made != TN_NONE && map->value[made] != TN_NONE) TN_TRY(emit_drop(s, made));
        emit_follow(s, before, &it);
        if (it.stream == EMIT_COMPUTE) said = (uint32_t)s->count;
        TN_TRY(emit_add(s, it));
        if (made != TN_NONE) emit_is_here(s, made);
    }
    if (said != TN_NONE) s->said = said;
    return TN_OK;
}

/* Whether the ranks combine the result of a job's operator, in an instruction of the job. */
static bool emit_is_combined(const emit_program *s, uint32_t job) {
    return tn__instruction_talks(&s->old[s->map->last[job] - 1]);
}

/* Writes the instructions of a job whose result the ranks combine. In a repeat, they wait for
 * nothing and give no signals. */
static tn_status emit_combined(emit_program *s, uint32_t job, bool recompute) {
    const uint32_t first = s->map->first[job], last = s->map->last[job] - 1;
    tn_instruction it = s->old[last];
    if (first < last)
        TN_TRY(emit_apply(s, s->dag->jobs[job].op, recompute, recompute ? NULL : &s->old[first]));
    if (it.opcode == TN_SCATTER) TN_TRY(emit_drop(s, it.other));
    if (recompute) it.wait = it.signal = 0;
    s->said = (uint32_t)s->count;
    TN_TRY(emit_add(s, it));
    if (it.opcode == TN_SCATTER) emit_is_here(s, it.other);
    return TN_OK;
}

static tn_status emit_run(emit_program *s, uint32_t job) {
    const tn__dag_map *map = s->map;
    tn_op_id op = s->dag->jobs[job].op;
    if (op == TN_NONE) return emit_messages(s, job);
    bool recompute = s->ran[job];
    tn_op_form form = tn_op_form_of(map->graph, op, recompute);
    s->ran[job] = true;
    for (uint32_t i = 0; recompute && i < form.input_count; i++)
        TN_TRY(emit_need(s, tn_op_form_input(&form, i)));
    for (uint32_t i = 0; !recompute && i < map->read_count[job]; i++)
        TN_TRY(emit_need(s, map->reads[map->read_first[job] + i]));
    uint32_t first = (uint32_t)s->count;
    if (emit_is_combined(s, job)) {
        TN_TRY(emit_combined(s, job, recompute));
    } else {
        for (uint32_t step = map->first[job]; step + 1 < map->last[job]; step++)
            TN_TRY(emit_add(s, s->old[step]));
        TN_TRY(emit_apply(s, op, recompute, recompute ? NULL : &s->old[map->last[job] - 1]));
        TN_TRY(emit_regions(s, job, first));
    }
    for (uint32_t k = 0; k < form.output_count; k++)
        if (form.op->outputs[k] != TN_NONE) TN_TRY(emit_parts(s, form.op->outputs[k]));
    return TN_OK;
}

static tn_status emit_copy(emit_program *s, tn_opcode opcode, uint32_t stream, uint32_t value,
                           uint32_t *signal) {
    tn_instruction it = TN_INSTRUCTION_INIT;
    it.opcode = opcode;
    it.stream = stream + s->beside;
    it.tensor = s->dag->values[value].tensor;
    it.wait = emit_signal(s);
    it.signal = *signal = ++s->signals;
    return emit_add(s, it);
}

static tn_status emit_drop_views(emit_program *s, uint32_t value) {
    for (tn_tensor_id view = s->views[value]; view != TN_NONE; view = s->next_view[view]) {
        s->here[view] = false;
        TN_TRY(emit_of(s, TN_DROP, view));
    }
    s->views[value] = TN_NONE;
    return TN_OK;
}

static tn_status emit_out(emit_program *s, uint32_t value) {
    TN_TRY(emit_wait(s, &s->arrives[value]));
    TN_TRY(emit_drop_views(s, value));
    s->here[s->dag->values[value].tensor] = false;
    return emit_copy(s, TN_SWAP_OUT, EMIT_OUT, value, &s->left[value]);
}

static tn_status emit_settle(emit_program *s, uint32_t value) {
    /* the value is never copied back, so it was not copied out */
    if (s->here[s->dag->values[value].tensor]) return emit_drop(s, s->dag->values[value].tensor);
    return emit_wait(s, &s->left[value]);
}

static tn_status emit_in(emit_program *s, uint32_t value) {
    TN_TRY(emit_drop(s, s->dag->values[value].tensor));
    TN_TRY(emit_copy(s, TN_SWAP_IN, EMIT_IN, value, &s->arrives[value]));
    s->here[s->dag->values[value].tensor] = true;
    return TN_OK;
}

static tn_status emit_code(emit_program *s, tn_opcode opcode, const tn__action *action) {
    tn_instruction it = TN_INSTRUCTION_INIT;
    it.opcode = opcode;
    it.tensor = s->dag->values[action->what].tensor;
    it.other = s->form[action->what];
    it.codec = (tn_codec)action->codec;
    return emit_add(s, it);
}

static tn_status emit_encode(emit_program *s, const tn__action *action) {
    tn_encoded form = {s->dag->values[action->what].tensor, (tn_codec)action->codec, action->bytes};
    if (!tn__reserve(&s->schedule->context, &s->forms, &s->form_room, s->form_count + 1,
                     sizeof form))
        return tn__no_memory(s->error, "a program");
    s->form[action->what] = tn_graph_tensor_count(s->map->graph) + (uint32_t)s->form_count;
    s->forms[s->form_count++] = form;
    TN_TRY(emit_wait(s, &s->arrives[action->what]));
    return emit_code(s, TN_ENCODE, action);
}

static tn_status emit_decode(emit_program *s, const tn__action *action) {
    tn_tensor_id tensor = s->dag->values[action->what].tensor;
    TN_TRY(emit_drop(s, tensor));
    TN_TRY(emit_code(s, TN_DECODE, action));
    s->here[tensor] = true;
    return TN_OK;
}

static tn_status emit_action(emit_program *s, uint32_t index) {
    const tn__action *action = &s->schedule->actions[index];
    switch (action->kind) {
    case TN__RUN:
        TN_TRY(emit_run(s, action->what));
        break;
    case TN__OUT:
        break;
    case TN__SETTLE:
        TN_TRY(emit_settle(s, action->what));
        break;
    case TN__IN:
        TN_TRY(emit_in(s, action->what));
        break;
    case TN__ENCODE:
        if (s->copies.at[index] != TN_NONE) TN_TRY(emit_encode(s, action));
        break;
    default:
        TN_TRY(emit_decode(s, action));
    }
    for (uint32_t out = s->copies.due[index]; out != TN_NONE; out = s->copies.next_due[out])
        TN_TRY(emit_out(s, s->schedule->actions[out].what));
    return TN_OK;
}

/* --- the whole program --- */

/* Finds the highest numbers of a stream and of a signal in the original program. Fails if no stream
 * is left for copies. */
static tn_status emit_room_messages(emit_program *s) {
    uint32_t count = tn_program_count(s->map->program);
    for (uint32_t step = 0; step < count; step++) {
        if (s->old[step].stream > s->beside) s->beside = s->old[step].stream;
        if (s->old[step].signal > s->given) s->given = s->old[step].signal;
    }
    if (s->beside + EMIT_IN >= TN_STREAM_MAX || s->given > UINT32_MAX / 2)
        TN_FAIL(s->error, TN_E_UNSUPPORTED, "there is no stream left for copies");
    s->signals = s->given;
    s->gave = tn__arena_array(&s->arena, (size_t)s->given + 1, sizeof *s->gave);
    if (s->gave == NULL) return tn__no_memory(s->error, "a program");
    for (uint32_t i = 0; i <= s->given; i++) s->gave[i] = TN_NONE;
    return TN_OK;
}

static tn_status emit_room(emit_program *s) {
    size_t tensors = tn_graph_tensor_count(s->map->graph) + (size_t)1;
    size_t values = s->dag->value_count + (size_t)1;
    tn__arena *arena = &s->arena;
    s->here = tn__arena_array(arena, tensors, sizeof *s->here);
    s->next_view = tn__arena_array(arena, tensors, sizeof *s->next_view);
    s->ran = tn__arena_array(arena, s->dag->job_count + (size_t)1, sizeof *s->ran);
    s->views = tn__arena_array(arena, values, sizeof *s->views);
    s->arrives = tn__arena_array(arena, values, sizeof *s->arrives);
    s->left = tn__arena_array(arena, values, sizeof *s->left);
    s->form = tn__arena_array(arena, values, sizeof *s->form);
    if (!s->here || !s->next_view || !s->ran || !s->views || !s->arrives || !s->left || !s->form)
        return tn__no_memory(s->error, "a program");
    for (uint32_t v = 0; v < s->dag->value_count; v++) s->views[v] = TN_NONE;
    TN_TRY(emit_room_messages(s));
    return emit_find_copies(s->dag, s->schedule, arena, &s->copies, s->error);
}

static tn_status emit_all(emit_program *s, tn_program **program) {
    const tn__dag_map *map = s->map;
    TN_TRY(emit_room(s));
    for (uint32_t i = 0; i < map->put_count; i++) {
        TN_TRY(emit_of(s, TN_PUT, map->puts[i]));
        s->here[map->puts[i]] = true;
        TN_TRY(emit_parts(s, map->puts[i]));
    }
    for (uint32_t i = 0; i < s->schedule->count; i++) TN_TRY(emit_action(s, i));
    for (uint32_t i = 0; i < map->get_count; i++) {
        TN_TRY(emit_need(s, map->gets[i]));
        TN_TRY(emit_of(s, TN_GET, map->gets[i]));
    }
    return tn_program_from_encoded(map->graph, s->forms, (uint32_t)s->form_count, s->list,
                                   (uint32_t)s->count, s->regions, (uint32_t)s->region_count,
                                   program, s->error);
}

tn_status tn__schedule_emit(const tn__dag_map *map, const tn__dag *dag,
                            const tn__schedule *schedule, tn_program **program, tn_error *error) {
    emit_program state = {.map = map,
                          .dag = dag,
                          .schedule = schedule,
                          .old = tn_program_instructions(map->program),
                          .last = TN_NONE,
                          .said = TN_NONE,
                          .error = error};
    tn__arena_init(&state.arena, &schedule->context);
    tn_status status = emit_all(&state, program);
    const tn_context *context = &schedule->context;
    tn__free(context, state.list, state.room * sizeof *state.list);
    tn__free(context, state.regions, state.region_room * sizeof *state.regions);
    tn__free(context, state.forms, state.form_room * sizeof *state.forms);
    tn__arena_release(&state.arena);
    return status;
}
