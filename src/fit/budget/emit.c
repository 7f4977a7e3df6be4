/* emit.c - writes a schedule as a Program.
 *
 *     stream 0   APPLY a  APPLY b  DROP  APPLY c          WAIT   APPLY d      APPLY e(a)
 *     stream 1                     [-- SWAP_OUT a --]----^
 *     stream 2                                            [-- SWAP_IN a --]--^
 *
 * A tensor that is defined while it still exists is dropped right before, including its views. Live
 * ranges end with their last readers, so no other drops are needed. A view that does not exist is
 * applied before its reader. A copy starts when the preceding instruction on stream 0 has ended; a
 * reader of a copied value waits for the copy; SETTLE is a WAIT.
 *
 * A view that is smaller than its root is applied at once, so that the rest of the root can end.
 *
 * The communication of a rank (work_talk.c) keeps its place and its signals. The only change: a
 * receive also waits for a repeat directly before it, because its memory begins there. Cost: O(acts
 * + operands).
 */
#include "fit/budget/emit.h"
#include "fit/budget/map.h"

#include "graph/attr.h"

/* Streams; those of copies follow the streams of messages. */
enum { EMIT_COMPUTE, EMIT_OUT, EMIT_IN };

typedef struct emit_state {
    const tn__work_map *map;
    const tn__work *work;
    const tn__schedule *schedule;
    const tn_instruction *old;
    tn_instruction *list;
    tn_region *regions;
    tn_encoded *forms;
    size_t count, room, region_count, region_room, form_count, form_room;
    tn__arena arena;
    bool *here;               /* [tensors] */
    bool *ran;                /* [jobs] */
    tn_tensor_id *views;      /* [values] the latest view that exists; TN_NONE */
    tn_tensor_id *next_view;  /* [tensors] the previous view; TN_NONE */
    uint32_t *arrives, *left; /* [values] signal of the last copy in, and out; 0: no wait is
                               * needed */
    uint32_t *form;           /* [values] its latest encoded form, a tensor */
    tn__emit_copies copies;
    uint32_t last; /* last instruction on stream 0; TN_NONE: none yet */
    uint32_t signals;
    uint32_t beside; /* streams of the program other than stream 0 */
    uint32_t *gave;  /* [signals of the program + 1] the instruction that gives the signal;
                      * TN_NONE */
    uint32_t given;  /* the last of these instructions; */
    uint32_t said;   /* on stream 0, the last communication; TN_NONE */
    tn_error *error;
} emit_state;

/* --- instructions --- */

static tn_status emit_add(emit_state *s, tn_instruction it) {
    if (!tn__reserve(&s->schedule->context, &s->list, &s->room, s->count + 1, sizeof it))
        return tn__no_memory(s->error, "a program");
    if (it.stream == EMIT_COMPUTE && it.opcode != TN_DROP) s->last = (uint32_t)s->count;
    if (it.signal != 0 && it.signal <= s->given) s->gave[it.signal] = (uint32_t)s->count;
    s->list[s->count++] = it;
    return s->count < TN_NONE ? TN_OK : tn__fail(s->error, TN_E_EXHAUSTED, "2^32 instructions");
}

static tn_status emit_of(emit_state *s, tn_opcode opcode, tn_tensor_id tensor) {
    tn_instruction it = TN_INSTRUCTION_INIT;
    it.opcode = opcode;
    it.tensor = tensor;
    return emit_add(s, it);
}

static tn_status emit_wait(emit_state *s, uint32_t *signal) {
    tn_instruction it = TN_INSTRUCTION_INIT;
    if (*signal == 0) return TN_OK;
    it.opcode = TN_WAIT;
    it.wait = *signal;
    *signal = 0;
    return emit_add(s, it);
}

/* The signal for the end of the last instruction on stream 0. */
static uint32_t emit_signal(emit_state *s) {
    if (s->last == TN_NONE) return 0;
    tn_instruction *it = &s->list[s->last];
    if (it->signal == 0) it->signal = ++s->signals;
    return it->signal;
}

/* --- tensors that exist --- */

/* Drops a tensor and its views after the last reader. */
static tn_status emit_drop(emit_state *s, tn_tensor_id id) {
    uint32_t value = s->map->value[id];
    bool is_root = s->map->root[id] == id && value != TN_NONE;
    for (tn_tensor_id view = is_root ? s->views[value] : TN_NONE; view != TN_NONE;
         view = s->next_view[view]) {
        s->here[view] = false;
        TN_TRY(emit_of(s, TN_DROP, view));
    }
    if (is_root) s->views[value] = TN_NONE;
    if (!s->here[id]) return TN_OK;
    if (is_root) TN_TRY(emit_wait(s, &s->arrives[value])); /* the copy may still be running */
    s->here[id] = false;
    return emit_of(s, TN_DROP, id);
}

static void emit_is_here(emit_state *s, tn_tensor_id id) {
    uint32_t value = s->map->value[id];
    s->here[id] = true;
    if (value == TN_NONE || s->map->root[id] == id) return;
    s->next_view[id] = s->views[value];
    s->views[value] = id;
}

/* old: NULL, or the original instruction. */
static tn_status emit_apply(emit_state *s, tn_op_id id, bool again, const tn_instruction *old) {
    tn_op_form form = tn_op_form_of(s->map->graph, id, again);
    tn_instruction it = TN_INSTRUCTION_INIT;
    for (uint32_t k = 0; k < form.output_count; k++)
        if (form.op->outputs[k] != TN_NONE && s->here[form.op->outputs[k]])
            TN_TRY(emit_drop(s, form.op->outputs[k]));
    it.opcode = TN_APPLY;
    it.op = id;
    it.again = again && form.found != 0;
    it.wait = old != NULL ? old->wait : 0;
    it.signal = old != NULL ? old->signal : 0;
    TN_TRY(emit_add(s, it));
    for (uint32_t k = 0; k < form.output_count; k++)
        if (form.op->outputs[k] != TN_NONE) emit_is_here(s, form.op->outputs[k]);
    return TN_OK;
}

/* --- views --- */

/* The source of a view. */
static tn_tensor_id emit_source(const emit_state *s, tn_tensor_id id) {
    tn_op_id maker = tn_graph_tensor(s->map->graph, id)->producer;
    const tn_op *op = tn_graph_op(s->map->graph, maker);
    uint32_t k = 0;
    while (op->outputs[k] != id) k++;
    return tn_op_view(s->map->graph, maker, k).source;
}

/* Makes a tensor exist before it is read: applies missing views, from the innermost outwards. An
 * operator may make several views, and all of them are applied again. A view that existed already
 * may be an input of the same reader, but it exists again afterwards. */
static tn_status emit_need(emit_state *s, tn_tensor_id id) {
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

/* Applies the views that are smaller than a tensor which exists now, so that the unread rest of it
 * can end. */
static tn_status emit_parts(emit_state *s, tn_tensor_id root) {
    for (tn_op_id id = s->map->part[root]; id != TN_NONE; id = s->map->next_part[id]) {
        const tn_op *op = tn_graph_op(s->map->graph, id);
        for (uint32_t k = 0; k < op->output_count; k++)
            if (op->outputs[k] != TN_NONE) TN_TRY(emit_need(s, op->outputs[k]));
    }
    return TN_OK;
}

/* --- acts --- */

/* Writes the regions of operators with blocks, at the new places of their instructions. */
static tn_status emit_regions(emit_state *s, uint32_t job, uint32_t first) {
    const tn__work_map *map = s->map;
    const tn_region *regions = tn_program_regions(map->program);
    tn_op_id op = s->work->jobs[job].op;
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

/* Makes a receive wait for the end of the instruction right before it, which implies the end of the
 * one that it waited for originally. If a communication lies in between, the receive keeps its
 * original wait, because the other rank may wait for this one first. */
static void emit_follow(emit_state *s, uint32_t before, tn_instruction *it) {
    uint32_t from = it->wait != 0 ? s->gave[it->wait] : TN_NONE;
    bool comes = it->stream != EMIT_COMPUTE && tn_instruction_effects(it).defines != TN_NONE;
    if (!comes || from == TN_NONE || before == TN_NONE || from >= before) return;
    if (s->list[from].stream != EMIT_COMPUTE || (s->said != TN_NONE && s->said > from)) return;
    if (s->list[before].signal == 0) s->list[before].signal = ++s->signals;
    it->wait = s->list[before].signal;
}

/* Writes the communication with other ranks or with the caller. */
static tn_status emit_talk(emit_state *s, uint32_t job) {
    const tn__work_map *map = s->map;
    for (uint32_t i = 0; i < map->read_count[job]; i++)
        TN_TRY(emit_need(s, map->reads[map->read_first[job] + i]));
    uint32_t before = s->last, said = TN_NONE;
    for (uint32_t step = map->first[job]; step < map->last[job]; step++) {
        tn_instruction it = s->old[step];
        tn_tensor_id made = tn_instruction_effects(&it).defines;
        if (it.opcode == TN_DROP) continue; /* like every tensor that is defined while it exists */
        if (made != TN_NONE && map->value[made] != TN_NONE) TN_TRY(emit_drop(s, made));
        emit_follow(s, before, &it);
        if (it.stream == EMIT_COMPUTE) said = (uint32_t)s->count;
        TN_TRY(emit_add(s, it));
        if (made != TN_NONE) emit_is_here(s, made);
    }
    if (said != TN_NONE) s->said = said;
    return TN_OK;
}

static tn_status emit_run(emit_state *s, uint32_t job) {
    const tn__work_map *map = s->map;
    tn_op_id op = s->work->jobs[job].op;
    if (op == TN_NONE) return emit_talk(s, job);
    bool again = s->ran[job];
    tn_op_form form = tn_op_form_of(map->graph, op, again);
    s->ran[job] = true;
    for (uint32_t i = 0; again && i < form.input_count; i++)
        TN_TRY(emit_need(s, tn_op_form_input(&form, i)));
    for (uint32_t i = 0; !again && i < map->read_count[job]; i++)
        TN_TRY(emit_need(s, map->reads[map->read_first[job] + i]));
    uint32_t first = (uint32_t)s->count;
    for (uint32_t step = map->first[job]; step + 1 < map->last[job]; step++)
        TN_TRY(emit_add(s, s->old[step]));
    TN_TRY(emit_apply(s, op, again, again ? NULL : &s->old[map->last[job] - 1]));
    TN_TRY(emit_regions(s, job, first));
    for (uint32_t k = 0; k < form.output_count; k++)
        if (form.op->outputs[k] != TN_NONE) TN_TRY(emit_parts(s, form.op->outputs[k]));
    return TN_OK;
}

static tn_status emit_copy(emit_state *s, tn_opcode opcode, uint32_t stream, uint32_t value,
                           uint32_t *signal) {
    tn_instruction it = TN_INSTRUCTION_INIT;
    it.opcode = opcode;
    it.stream = stream + s->beside;
    it.tensor = s->work->values[value].tensor;
    it.wait = emit_signal(s);
    it.signal = *signal = ++s->signals;
    return emit_add(s, it);
}

static tn_status emit_drop_views(emit_state *s, uint32_t value) {
    for (tn_tensor_id view = s->views[value]; view != TN_NONE; view = s->next_view[view]) {
        s->here[view] = false;
        TN_TRY(emit_of(s, TN_DROP, view));
    }
    s->views[value] = TN_NONE;
    return TN_OK;
}

static tn_status emit_out(emit_state *s, uint32_t value) {
    TN_TRY(emit_wait(s, &s->arrives[value]));
    TN_TRY(emit_drop_views(s, value));
    s->here[s->work->values[value].tensor] = false;
    return emit_copy(s, TN_SWAP_OUT, EMIT_OUT, value, &s->left[value]);
}

static tn_status emit_settle(emit_state *s, uint32_t value) {
    if (s->here[s->work->values[value].tensor]) /* it is not copied back */
        return emit_drop(s, s->work->values[value].tensor);
    return emit_wait(s, &s->left[value]);
}

static tn_status emit_in(emit_state *s, uint32_t value) {
    TN_TRY(emit_drop(s, s->work->values[value].tensor));
    TN_TRY(emit_copy(s, TN_SWAP_IN, EMIT_IN, value, &s->arrives[value]));
    s->here[s->work->values[value].tensor] = true;
    return TN_OK;
}

static tn_status emit_code(emit_state *s, tn_opcode opcode, const tn__act *act) {
    tn_instruction it = TN_INSTRUCTION_INIT;
    it.opcode = opcode;
    it.tensor = s->work->values[act->what].tensor;
    it.other = s->form[act->what];
    it.codec = (tn_codec)act->codec;
    return emit_add(s, it);
}

static tn_status emit_encode(emit_state *s, const tn__act *act) {
    tn_encoded form = {s->work->values[act->what].tensor, (tn_codec)act->codec, act->bytes};
    if (!tn__reserve(&s->schedule->context, &s->forms, &s->form_room, s->form_count + 1,
                     sizeof form))
        return tn__no_memory(s->error, "a program");
    s->form[act->what] = tn_graph_tensor_count(s->map->graph) + (uint32_t)s->form_count;
    s->forms[s->form_count++] = form;
    TN_TRY(emit_wait(s, &s->arrives[act->what]));
    return emit_code(s, TN_ENCODE, act);
}

static tn_status emit_decode(emit_state *s, const tn__act *act) {
    tn_tensor_id tensor = s->work->values[act->what].tensor;
    TN_TRY(emit_drop(s, tensor));
    TN_TRY(emit_code(s, TN_DECODE, act));
    s->here[tensor] = true;
    return TN_OK;
}

static tn_status emit_act(emit_state *s, uint32_t index) {
    const tn__act *act = &s->schedule->acts[index];
    switch (act->kind) {
    case TN__RUN:
        TN_TRY(emit_run(s, act->what));
        break;
    case TN__OUT:
        break;
    case TN__SETTLE:
        TN_TRY(emit_settle(s, act->what));
        break;
    case TN__IN:
        TN_TRY(emit_in(s, act->what));
        break;
    case TN__ENCODE:
        if (s->copies.at[index] != TN_NONE) TN_TRY(emit_encode(s, act));
        break;
    default:
        TN_TRY(emit_decode(s, act));
    }
    for (uint32_t out = s->copies.due[index]; out != TN_NONE; out = s->copies.next_due[out])
        TN_TRY(emit_out(s, s->schedule->acts[out].what));
    return TN_OK;
}

/* --- the whole --- */

/* Finds the numbers of streams and signals that are in use. */
static tn_status emit_room_talks(emit_state *s) {
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

static tn_status emit_room(emit_state *s) {
    size_t tensors = tn_graph_tensor_count(s->map->graph) + (size_t)1;
    size_t values = s->work->value_count + (size_t)1;
    tn__arena *arena = &s->arena;
    s->here = tn__arena_array(arena, tensors, sizeof *s->here);
    s->next_view = tn__arena_array(arena, tensors, sizeof *s->next_view);
    s->ran = tn__arena_array(arena, s->work->job_count + (size_t)1, sizeof *s->ran);
    s->views = tn__arena_array(arena, values, sizeof *s->views);
    s->arrives = tn__arena_array(arena, values, sizeof *s->arrives);
    s->left = tn__arena_array(arena, values, sizeof *s->left);
    s->form = tn__arena_array(arena, values, sizeof *s->form);
    if (!s->here || !s->next_view || !s->ran || !s->views || !s->arrives || !s->left || !s->form)
        return tn__no_memory(s->error, "a program");
    for (uint32_t v = 0; v < s->work->value_count; v++) s->views[v] = TN_NONE;
    TN_TRY(emit_room_talks(s));
    return tn__emit_find_copies(s->work, s->schedule, arena, &s->copies, s->error);
}

static tn_status emit_all(emit_state *s, tn_program **program) {
    const tn__work_map *map = s->map;
    TN_TRY(emit_room(s));
    for (uint32_t i = 0; i < map->put_count; i++) {
        TN_TRY(emit_of(s, TN_PUT, map->puts[i]));
        s->here[map->puts[i]] = true;
        TN_TRY(emit_parts(s, map->puts[i]));
    }
    for (uint32_t i = 0; i < s->schedule->count; i++) TN_TRY(emit_act(s, i));
    for (uint32_t i = 0; i < map->get_count; i++) {
        TN_TRY(emit_need(s, map->gets[i]));
        TN_TRY(emit_of(s, TN_GET, map->gets[i]));
    }
    return tn_program_from_encoded(map->graph, s->forms, (uint32_t)s->form_count, s->list,
                                   (uint32_t)s->count, s->regions, (uint32_t)s->region_count,
                                   program, s->error);
}

tn_status tn__schedule_emit(const tn__work_map *map, const tn__work *work,
                            const tn__schedule *schedule, tn_program **program, tn_error *error) {
    emit_state state = {.map = map,
                        .work = work,
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
