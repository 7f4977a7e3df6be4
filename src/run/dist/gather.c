/* gather.c - changes the program of a training step for parameters that are divided among ranks.
 * Each rank keeps a part of them, and the whole is gathered only while it is read.
 *
 *     stream 0   reads u, v              reads v, w                 ...   reads v      reads u
 *     stream 1   GATHER v                GATHER w      (u is gone)        GATHER u
 *                         ◀── ahead ──▶
 *
 * A unit is the set of tensors that one GATHER makes: the gathered tensor (`whole`), the model's
 * parameters in it, and their views. The reads of a unit are divided into intervals, in which the
 * unit is resident. A unit stays resident between two reads if at most `most` bytes of units,
 * including its own, are read from the first to the second. So at most `most` bytes are resident,
 * as in a least-recently-used cache of that size. A rule of the user may say that a unit is kept
 * (one interval, in addition to `most` bytes), or gathered again for the backward pass. Each
 * interval begins with a GATHER. It is issued as early as `most` allows, but never before that of
 * an earlier interval, because all ranks must issue GATHERs in one order.
 *
 * Cost: O(instructions + reads x units), memory O(instructions + tensors).
 */
#include "fit/budget/rules.h"
#include "graph/op.h"
#include "run/dist/world.h"

typedef struct gather_unit {
    tn_tensor_id part, whole;
    uint64_t bytes;
    uint32_t update; /* index of the instruction that updates this rank's part of the parameters */
    /* index of the latest interval in which the gathered parameters are resident; GATHER_NONE: none
     * yet */
    uint32_t interval;
    tn_rule_kind rule; /* what a rule of the user says; TN_RULE_COUNT: no rule is about this unit */
    bool is_late;      /* the latest read was in a backward pass, or by a repeat */
    /* list of the resident tensors of this unit (gathered parameters and their views), the newest
     * first; TN_NONE: none */
    tn_tensor_id here;
    /* signal of the latest GATHER of these parameters; 0 after stream 0 has waited for it */
    uint32_t signal;
} gather_unit;

/* Steps in which a unit (the parameters that one GATHER makes) is resident. Indices are those of
 * instructions of the old program. */
typedef struct gather_interval {
    uint32_t unit, start, first, last;
} gather_interval;

typedef struct gather_state {
    const tn_program *program;
    const tn_graph *graph;
    const tn_instruction *from;
    const tn_program_shard_options *options;
    uint32_t count, stream, signal;
    tn_error *error;
    tn__arena arena;
    uint32_t tensors;
    /* for each tensor: the unit to which it belongs, that is, the parameters of one GATHER;
     * GATHER_NONE: none */
    uint32_t *unit_of;
    /* for each tensor: whether it is gathered, or a view of a gathered tensor, and resident */
    bool *here;
    bool *ran; /* for each operator: whether it has run before the present instruction */
    /* for each tensor: the next older resident tensor of its unit (the tensors of one GATHER) */
    tn_tensor_id *older;
    gather_unit *units;
    uint32_t unit_count;
    /* units (the tensors of one GATHER each), sorted by their last read, the latest first */
    uint32_t *recent;
    uint32_t recent_count;
    gather_interval *intervals;
    size_t interval_count, interval_room;
    uint64_t *used; /* for each instruction: bytes of the gathered parameters that are resident */
    uint64_t most;
    tn_instruction *to;
    size_t made, room;
    /* the last instruction of stream 0 in the new program that can give a signal; TN_NONE: none */
    uint32_t last;
} gather_state;

#define GATHER_NONE UINT32_MAX

/* --- units and their tensors --- */

static bool gather_is_join(const gather_state *it, const tn_instruction *in) {
    return in->opcode == TN_APPLY && tn__op_has(it->graph, in->op, TN_RULE_SHARD_WHOLE);
}

/* Whether the operator makes only views of the parameters of one GATHER. *unit becomes their
 * number. */
static bool gather_is_view(const gather_state *it, tn_op_id id, uint32_t *unit) {
    const tn_op *op = tn_graph_op(it->graph, id);
    *unit = GATHER_NONE;
    if (op->output_count == 0 || !tn_op_may_repeat(it->graph, id)) return false;
    for (uint32_t k = 0; k < op->output_count; k++) {
        if (op->outputs[k] == TN_NONE) continue;
        tn_tensor_id source = tn_op_view(it->graph, id, k).source;
        uint32_t of = source != TN_NONE ? it->unit_of[source] : GATHER_NONE;
        if (of == GATHER_NONE || (*unit != GATHER_NONE && *unit != of)) return false;
        *unit = of;
    }
    return *unit != GATHER_NONE;
}

/* Whether the new program omits the instruction, because its results, views of gathered parameters,
 * are computed again where they are needed. */
static bool gather_is_given(const gather_state *it, const tn_instruction *in) {
    uint32_t unit;
    return gather_is_join(it, in) || (in->opcode == TN_APPLY && gather_is_view(it, in->op, &unit));
}

static tn_status gather_add_unit(gather_state *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    const tn_tensor *whole = tn_graph_tensor(it->graph, op->outputs[0]);
    if (it->unit_of[op->outputs[0]] != GATHER_NONE)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "'%.80s' is put together twice: a program that a budget has changed is not divided "
                "by parameters; by gradients it is (`shard` gradients)",
                whole->name);
    it->unit_of[op->outputs[0]] = it->unit_count;
    it->units[it->unit_count++] =
        (gather_unit){.part = op->inputs[0],
                      .whole = op->outputs[0],
                      .bytes = whole->bytes,
                      .here = TN_NONE,
                      .update = GATHER_NONE,
                      .interval = GATHER_NONE,
                      .rule = tn__rules_of(it->options->rules, it->graph, id)};
    return TN_OK;
}

/* Finds the units (the tensors that one GATHER makes, and their views). One pass is sufficient,
 * because a view is computed after its source. */
static tn_status gather_find(gather_state *it) {
    for (uint32_t s = 0; s < it->count; s++) {
        const tn_instruction *in = &it->from[s];
        uint32_t unit;
        if (in->stream > it->stream) it->stream = in->stream;
        if (in->signal > it->signal) it->signal = in->signal;
        if (in->opcode != TN_APPLY) continue;
        const tn_op *op = tn_graph_op(it->graph, in->op);
        if (gather_is_join(it, in)) {
            TN_TRY(gather_add_unit(it, in->op));
            continue;
        }
        if (!gather_is_view(it, in->op, &unit)) continue;
        for (uint32_t k = 0; k < op->output_count; k++)
            if (op->outputs[k] != TN_NONE) it->unit_of[op->outputs[k]] = unit;
    }
    return TN_OK;
}

static void gather_note_update(gather_state *it, uint32_t step) {
    const tn_instruction *in = &it->from[step];
    if (in->opcode != TN_APPLY || !(tn_op_changes(it->graph, in->op) & 1)) return;
    tn_tensor_id changed = tn_graph_op(it->graph, in->op)->inputs[0];
    for (uint32_t u = 0; u < it->unit_count; u++)
        if (it->units[u].part == changed) it->units[u].update = step;
}

/* --- readers --- */

typedef tn_status (*gather_see)(gather_state *it, uint32_t step, tn_tensor_id id);

/* Calls `see` for each tensor of a unit that an instruction reads. Fails if an instruction other
 * than an operator changes, defines or releases such a tensor. */
static tn_status gather_reads(gather_state *it, uint32_t step, gather_see see) {
    const tn_instruction *in = &it->from[step];
    if (in->opcode == TN_APPLY) {
        tn_op_form form = tn_op_form_of(it->graph, in->op, in->again);
        for (uint32_t i = 0; i < form.input_count; i++) {
            tn_tensor_id id = tn_op_form_input(&form, i);
            if (id != TN_NONE && it->unit_of[id] != GATHER_NONE) TN_TRY(see(it, step, id));
        }
        return TN_OK;
    }
    tn_effects does = tn_instruction_effects(in);
    const tn_tensor_id others[] = {does.changes, does.defines, does.releases};
    for (uint32_t i = 0; i < 3; i++)
        if (others[i] != TN_NONE && it->unit_of[others[i]] != GATHER_NONE)
            TN_FAIL(it->error, TN_E_UNSUPPORTED,
                    "'%.80s' is sent, swapped or dropped by the program: such a one, as a stage "
                    "of a pipeline that passes it on, is not divided by parameters; by gradients "
                    "it is (`shard` gradients)",
                    tn_graph_tensor(it->graph, others[i])->name);
    return does.reads != TN_NONE && it->unit_of[does.reads] != GATHER_NONE
               ? see(it, step, does.reads)
               : TN_OK;
}

/* Adds the bytes of a unit to those that the instruction at `step` reads. recent[unit] is step + 1
 * if the unit is already counted. */
static tn_status gather_see_bytes(gather_state *it, uint32_t step, tn_tensor_id id) {
    uint32_t unit = it->unit_of[id];
    if (it->recent[unit] == step + 1) return TN_OK;
    it->recent[unit] = step + 1;
    it->used[step] = tn__add_sat(it->used[step], it->units[unit].bytes);
    if (it->used[step] > it->most) it->most = it->used[step];
    return TN_OK;
}

static tn_status gather_find_most(gather_state *it) {
    uint64_t largest = 0;
    for (uint32_t s = 0; s < it->count; s++)
        if (!gather_is_given(it, &it->from[s])) TN_TRY(gather_reads(it, s, gather_see_bytes));
    memset(it->used, 0, it->count * sizeof *it->used);
    memset(it->recent, 0, it->unit_count * sizeof *it->recent);
    for (uint32_t u = 0; u < it->unit_count; u++)
        if (it->units[u].bytes > largest) largest = it->units[u].bytes;
    uint64_t ahead = it->options->ahead_bytes;
    it->most = tn__add_sat(it->most, ahead > 0 ? ahead : largest);
    return TN_OK;
}

/* --- intervals --- */

/* Marks the unit as the most recently read one. Returns the bytes of all units that were read since
 * it was last read, including its own. */
static uint64_t gather_touch(gather_state *it, uint32_t unit) {
    uint64_t bytes = it->units[unit].bytes;
    uint32_t at = 0;
    for (; at < it->recent_count && it->recent[at] != unit; at++)
        bytes = tn__add_sat(bytes, it->units[it->recent[at]].bytes);
    if (at == it->recent_count) it->recent_count++;
    memmove(it->recent + 1, it->recent, at * sizeof *it->recent);
    it->recent[0] = unit;
    return bytes;
}

/* Whether an operator is a late reader: it belongs to a backward pass, or is repeated. */
static bool gather_is_late(const gather_state *it, const tn_instruction *in) {
    return in->opcode == TN_APPLY && (it->ran[in->op] || tn__rules_is_backward(it->graph, in->op));
}

static tn_status gather_see_interval(gather_state *it, uint32_t step, tn_tensor_id id) {
    uint32_t number = it->unit_of[id];
    gather_unit *unit = &it->units[number];
    uint64_t since = gather_touch(it, number);
    if (it->from[step].stream != 0)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "'%.80s' is read on a stream of its own: such a program is not divided by "
                "parameters; by gradients it is (`shard` gradients)",
                tn_graph_tensor(it->graph, id)->name);
    /* whether this rank's part of the parameters was updated before this step */
    bool updated = unit->update != GATHER_NONE && step > unit->update;
    bool was_late = unit->is_late;
    unit->is_late = gather_is_late(it, &it->from[step]);
    bool stays = unit->rule == TN_RULE_KEEP || since <= it->most;
    if (unit->rule == TN_RULE_RECOMPUTE && unit->is_late && !was_late) stays = false;
    /* the parameters would be gathered only after their update, and ranks would issue such GATHERs
     * in different orders */
    if (updated && unit->interval == GATHER_NONE)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "'%.80s' is read only after its update, as by a rank that is sent it, or where "
                "updates stand among a pipeline's passes: such a program is not divided by "
                "parameters; by gradients it is (`shard` gradients)",
                tn_graph_tensor(it->graph, id)->name);
    if (unit->interval != GATHER_NONE && (stays || updated)) {
        it->intervals[unit->interval].last = step;
        return TN_OK;
    }
    if (!tn__reserve(tn_graph_context(it->graph), &it->intervals, &it->interval_room,
                     it->interval_count + 1, sizeof *it->intervals))
        return tn__no_memory(it->error, "a program of several ranks");
    unit->interval = (uint32_t)it->interval_count;
    it->intervals[it->interval_count++] = (gather_interval){number, step, step, step};
    return TN_OK;
}

/* Moves the start of each interval, its GATHER, as early as the limit on resident bytes allows. */
static void gather_ahead(gather_state *it) {
    for (size_t g = 0; g < it->interval_count; g++)
        for (uint32_t s = it->intervals[g].start; s <= it->intervals[g].last; s++)
            it->used[s] = tn__add_sat(it->used[s], it->units[it->intervals[g].unit].bytes);
    for (uint32_t u = 0; u < it->unit_count; u++) it->units[u].interval = GATHER_NONE;
    for (size_t g = 0; g < it->interval_count; g++) {
        gather_interval *at = &it->intervals[g];
        gather_unit *unit = &it->units[at->unit];
        uint32_t before = g > 0 ? it->intervals[g - 1].start : 0;
        if (unit->interval != GATHER_NONE && it->intervals[unit->interval].last >= before)
            before = it->intervals[unit->interval].last + 1;
        for (; at->start > before && unit->bytes <= it->most &&
               it->used[at->start - 1] <= it->most - unit->bytes;
             at->start--)
            it->used[at->start - 1] += unit->bytes;
        unit->interval = (uint32_t)g;
    }
}

/* --- the instructions of the new program --- */

static tn_status gather_put(gather_state *it, tn_instruction in) {
    if (!tn__reserve(tn_graph_context(it->graph), &it->to, &it->room, it->made + 1, sizeof in))
        return tn__no_memory(it->error, "a program of several ranks");
    if (in.stream == 0 && in.opcode != TN_DROP) it->last = (uint32_t)it->made;
    it->to[it->made++] = in;
    return it->made < TN_NONE ? TN_OK : tn__fail(it->error, TN_E_EXHAUSTED, "2^32 instructions");
}

/* Drops all resident tensors of one GATHER, views before their sources. */
static tn_status gather_drop(gather_state *it, gather_unit *unit) {
    for (; unit->here != TN_NONE; unit->here = it->older[unit->here]) {
        tn_instruction drop = TN_INSTRUCTION_INIT;
        drop.opcode = TN_DROP;
        drop.tensor = unit->here;
        it->here[unit->here] = false;
        TN_TRY(gather_put(it, drop));
    }
    return TN_OK;
}

static void gather_is_here(gather_state *it, gather_unit *unit, tn_tensor_id id) {
    if (id == TN_NONE || it->here[id]) return;
    it->here[id] = true;
    it->older[id] = unit->here;
    unit->here = id;
}

/* Begins an interval in which parameters are resident, with a GATHER that waits for the previous
 * instruction of stream 0. */
static tn_status gather_begin(gather_state *it, uint32_t number) {
    gather_unit *unit = &it->units[number];
    tn_instruction gather = TN_INSTRUCTION_INIT;
    TN_TRY(gather_drop(it, unit));
    if (it->last != TN_NONE && it->to[it->last].signal == 0) it->to[it->last].signal = ++it->signal;
    gather.opcode = TN_GATHER;
    gather.tensor = unit->part;
    gather.other = unit->whole;
    gather.stream = it->stream;
    gather.group = it->options->gather_group;
    gather.wait = it->last != TN_NONE ? it->to[it->last].signal : 0;
    gather.signal = unit->signal = ++it->signal;
    gather_is_here(it, unit, unit->whole);
    return gather_put(it, gather);
}

/* Makes a tensor of a unit resident if it is not, by repeating the operators that make its views,
 * from the gathered tensor on. */
static tn_status gather_see_need(gather_state *it, uint32_t step, tn_tensor_id id) {
    gather_unit *unit = &it->units[it->unit_of[id]];
    (void)step;
    while (!it->here[id]) {
        tn_tensor_id at = id;
        tn_instruction apply = TN_INSTRUCTION_INIT;
        for (;;) {
            tn_op_id maker = tn_graph_tensor(it->graph, at)->producer;
            const tn_op *op = tn_graph_op(it->graph, maker);
            uint32_t k = 0;
            while (op->outputs[k] != at) k++;
            tn_tensor_id source = tn_op_view(it->graph, maker, k).source;
            apply.op = maker;
            if (it->here[source]) break;
            at = source;
        }
        apply.opcode = TN_APPLY;
        apply.wait = unit->signal;
        unit->signal = 0;
        TN_TRY(gather_put(it, apply));
        const tn_op *op = tn_graph_op(it->graph, apply.op);
        for (uint32_t k = 0; k < op->output_count; k++) gather_is_here(it, unit, op->outputs[k]);
    }
    return TN_OK;
}

static tn_status gather_emit(gather_state *it) {
    size_t next = 0;
    it->last = TN_NONE;
    for (uint32_t s = 0; s < it->count; s++) {
        for (; next < it->interval_count && it->intervals[next].start == s; next++)
            TN_TRY(gather_begin(it, it->intervals[next].unit));
        if (gather_is_given(it, &it->from[s])) {
            if (it->from[s].wait != 0 || it->from[s].signal != 0)
                TN_FAIL(it->error, TN_E_UNSUPPORTED,
                        "other ranks wait for parameters, as stages of a pipeline may: such a "
                        "program is not divided by them; by gradients it is (`shard` gradients)");
            continue;
        }
        TN_TRY(gather_reads(it, s, gather_see_need));
        TN_TRY(gather_put(it, it->from[s]));
    }
    return TN_OK;
}

/* --- the new program as a whole --- */

static tn_status gather_room(gather_state *it) {
    uint32_t joins = 0;
    for (uint32_t s = 0; s < it->count; s++) joins += gather_is_join(it, &it->from[s]);
    it->units = tn__arena_array(&it->arena, (size_t)joins + 1, sizeof *it->units);
    it->recent = tn__arena_array(&it->arena, (size_t)joins + 1, sizeof *it->recent);
    it->used = tn__arena_array(&it->arena, (size_t)it->count + 1, sizeof *it->used);
    it->unit_of = tn__arena_array(&it->arena, it->tensors, sizeof *it->unit_of);
    it->here = tn__arena_array(&it->arena, it->tensors, sizeof *it->here);
    it->older = tn__arena_array(&it->arena, it->tensors, sizeof *it->older);
    it->ran = tn__arena_array(&it->arena, tn_graph_op_count(it->graph), sizeof *it->ran);
    if (!it->ran || !it->units || !it->recent || !it->used || !it->unit_of || !it->here ||
        !it->older)
        return tn__no_memory(it->error, "a program of several ranks");
    for (uint32_t i = 0; i < it->tensors; i++) it->unit_of[i] = GATHER_NONE;
    return TN_OK;
}

static tn_status gather_make(gather_state *it, tn_program **gathered) {
    TN_TRY(gather_room(it));
    TN_TRY(gather_find(it));
    if (tn_program_region_count(it->program) > 0)
        TN_FAIL(it->error, TN_E_UNSUPPORTED,
                "a model with control flow is not divided by parameters: divide gradients");
    if (it->options->gather_group != it->options->group) it->stream++;
    if (it->stream >= TN_STREAM_MAX)
        TN_FAIL(it->error, TN_E_INVALID, "there is no stream left for other ranks");
    for (uint32_t s = 0; s < it->count; s++) gather_note_update(it, s);
    TN_TRY(gather_find_most(it));
    for (uint32_t s = 0; s < it->count; s++) {
        if (gather_is_given(it, &it->from[s])) continue;
        TN_TRY(gather_reads(it, s, gather_see_interval));
        if (it->from[s].opcode == TN_APPLY) it->ran[it->from[s].op] = true;
    }
    gather_ahead(it);
    TN_TRY(gather_emit(it));
    return tn_program_from(it->graph, it->to, (uint32_t)it->made, NULL, 0, gathered, it->error);
}

static tn_status gather_program(const tn_program *program, const tn_program_shard_options *options,
                                tn_program **gathered, tn_error *error) {
    gather_state it = {.program = program,
                       .graph = tn_program_graph(program),
                       .from = tn_program_instructions(program),
                       .options = options,
                       .count = tn_program_count(program),
                       .error = error};
    const tn_context *context = tn_graph_context(it.graph);
    it.tensors = tn_graph_tensor_count(it.graph);
    tn__arena_init(&it.arena, context);
    tn_status status = gather_make(&it, gathered);
    tn__free(context, it.intervals, it.interval_room * sizeof *it.intervals);
    tn__free(context, it.to, it.room * sizeof *it.to);
    tn__arena_release(&it.arena);
    return status;
}

tn_status tn_program_shard(const tn_program *program, const tn_program_shard_options *given,
                           tn_program **sharded, tn_error *error) {
    tn_program_shard_options options = TN_PROGRAM_SHARD_OPTIONS_INIT;
    tn_program *averaged;
    tn__options(&options, sizeof options, given);
    if ((unsigned)options.shard >= TN_SHARD_COUNT)
        TN_FAIL(error, TN_E_UNKNOWN, "there is nothing like that to be divided among ranks");
    TN_TRY(tn__program_average(program, options.group, options.shard, &averaged, error));
    if (options.shard < TN_SHARD_PARAMETERS) {
        *sharded = averaged;
        return TN_OK;
    }
    tn_status status = gather_program(averaged, &options, sharded, error);
    tn_program_destroy(averaged);
    return status;
}
