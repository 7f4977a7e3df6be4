/* streams.c - puts the operators of a program on several streams that work at the same time.
 *
 * Operators are taken in the order of the program. Each goes to the stream on which it can start
 * first, by the times of the operators (list scheduling), or to the stream that the caller chose.
 * An operator waits for the signal of an operator on another stream if it depends on that operator:
 * a reader on its producer, a writer on earlier readers. A vector clock records how far each stream
 * knows the others to be, so a wait that another wait implies is left out.
 * Cost: O(operators * streams^2 + dependencies).
 * Source: Graham 1969, Bounds on Multiprocessing Timing Anomalies; vector clocks: Fidge 1988.
 */
#include "graph/takes.h"
#include "program/order/order.h"
#include "program/program.h"

typedef struct streams_state {
    const tn_program *from;
    const tn_program_streams_options *options;
    tn_error *error;
    tn__arena arena; /* memory of all arrays of this struct */
    tn__order_model model;
    uint32_t count, width; /* number of instructions of the given program, and number of streams */
    uint32_t *node_of;     /* [operators] number of the operator's node in `model` */
    /* [operators] the instruction of the given program that runs the operator; TN_NONE: no
     * instruction does */
    uint32_t *step_of;
    /* [tensors] the instruction that puts the tensor (an input); TN_NONE: no instruction does */
    uint32_t *put_of;
    const tn_dependency **after; /* the caller's pairs, by their second operators */
    /* [operators + 1] the pairs of operator k are after[after_at[k]] ... after[after_at[k + 1] - 1]
     */
    uint64_t *after_at;
    uint32_t *ruled;  /* [operators] the stream that rules state; TN_NONE: none does */
    uint32_t *stream; /* [count] the stream chosen for each instruction */
    uint64_t *end;    /* [count] time at which each instruction ends, in picoseconds */
    uint64_t *idle;   /* [width] time at which the last instruction of each stream ends */
    uint32_t *last;   /* [width] 1 plus the last instruction of each stream */
    /* [width][width] known[a][b]: the position in the given program up to which stream a knows that
     * the instructions of stream b have ended */
    uint32_t *known;
    /* [count][width] the row of `known` of an instruction's stream when the instruction ends */
    uint32_t *clock;
    /* [width] for the current instruction: on each stream, 1 plus the position of the last
     * instruction that it must follow */
    uint32_t *needed;
    uint32_t *place; /* [count] the instruction's position in the new list */
    tn_instruction *list;
    size_t made, room;
    uint32_t signals;
} streams_state;

/* --- reading the program --- */

static tn_status streams_refuse(const streams_state *s, const char *why) {
    TN_FAIL(s->error, TN_E_UNSUPPORTED, "%s", why);
}

static tn_status streams_allocate(streams_state *s) {
    const tn_graph *graph = tn_program_graph(s->from);
    size_t width = s->width, count = s->count, ops = tn_graph_op_count(graph);
    s->room = count * (width + 1) + 1;
    s->node_of = tn__arena_array(&s->arena, ops + 1, sizeof *s->node_of);
    s->step_of = tn__arena_array(&s->arena, ops + 1, sizeof *s->step_of);
    s->put_of = tn__arena_array(&s->arena, tn_graph_tensor_count(graph) + 1u, sizeof *s->put_of);
    s->stream = tn__arena_array(&s->arena, count + 1, sizeof *s->stream);
    s->end = tn__arena_array(&s->arena, count + 1, sizeof *s->end);
    s->idle = tn__arena_array(&s->arena, width, sizeof *s->idle);
    s->last = tn__arena_array(&s->arena, width, sizeof *s->last);
    s->known = tn__arena_array(&s->arena, width * width, sizeof *s->known);
    s->clock = tn__arena_array(&s->arena, (count + 1) * width, sizeof *s->clock);
    s->needed = tn__arena_array(&s->arena, width, sizeof *s->needed);
    s->place = tn__arena_array(&s->arena, count + 1, sizeof *s->place);
    s->list = tn__arena_array(&s->arena, s->room, sizeof *s->list);
    s->after = tn__arena_array(&s->arena, s->options->after_count + 1, sizeof *s->after);
    s->after_at = tn__arena_array(&s->arena, ops + 2, sizeof *s->after_at);
    s->ruled = tn__arena_array(&s->arena, ops + 1, sizeof *s->ruled);
    if (s->after == NULL || s->after_at == NULL || s->ruled == NULL)
        return tn__no_memory(s->error, "streams of operators");
    bool all = s->node_of && s->step_of && s->put_of && s->stream && s->end && s->idle && s->last &&
               s->known && s->clock && s->needed && s->place && s->list;
    return all ? TN_OK : tn__no_memory(s->error, "streams of operators");
}

static tn_status streams_read(streams_state *s) {
    const tn_graph *graph = tn_program_graph(s->from);
    const tn_instruction *list = tn_program_instructions(s->from);
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) s->step_of[id] = TN_NONE;
    for (tn_tensor_id t = 0; t < tn_graph_tensor_count(graph); t++) s->put_of[t] = TN_NONE;
    for (uint32_t i = 0; i < s->count; i++) {
        bool known =
            list[i].opcode == TN_PUT || list[i].opcode == TN_APPLY || list[i].opcode == TN_GET;
        bool again = list[i].opcode == TN_APPLY && list[i].again;
        if (!known || again || list[i].stream != 0 || list[i].wait != 0 || list[i].signal != 0)
            return streams_refuse(s, "streams are for programs that only run operators, one after "
                                     "the other: without swaps, recomputation and messages");
        if (list[i].opcode == TN_APPLY) s->step_of[list[i].op] = i;
        if (list[i].opcode == TN_PUT) s->put_of[list[i].tensor] = i;
    }
    for (uint32_t p = 0; p < s->model.count; p++) s->node_of[s->model.ops[p]] = p;
    return TN_OK;
}

/* Sorts the caller's pairs by their second operators. */
static tn_status streams_read_after(streams_state *s) {
    const tn_graph *graph = tn_program_graph(s->from);
    uint32_t ops = tn_graph_op_count(graph);
    uint64_t count = s->options->after_count;
    for (uint64_t i = 0; i < count; i++) {
        const tn_dependency *pair = &s->options->after[i];
        bool known = pair->before < ops && pair->after < ops &&
                     s->step_of[pair->before] != TN_NONE && s->step_of[pair->after] != TN_NONE;
        if (!known || s->step_of[pair->before] >= s->step_of[pair->after])
            TN_FAIL(s->error, TN_E_INVALID,
                    "operator %u cannot wait for operator %u, which does not come before it",
                    pair->after, pair->before);
        s->after_at[pair->after + 2]++;
    }
    for (uint32_t id = 0; id < ops; id++) s->after_at[id + 2] += s->after_at[id + 1];
    for (uint64_t i = 0; i < count; i++)
        s->after[s->after_at[s->options->after[i].after + 1]++] = &s->options->after[i];
    return TN_OK;
}

/* --- rules --- */

static bool streams_matches(const char *pattern, const tn_op *op) {
    bool type = strncmp(pattern, "type:", 5) == 0;
    return tn__glob(pattern + (type ? 5 : 0), type ? op->type : op->name);
}

static tn_status streams_read_rule(streams_state *s, const tn_stream_rule *rule) {
    const tn_graph *graph = tn_program_graph(s->from);
    uint32_t count = tn_graph_op_count(graph);
    bool any = false;
    if (rule->stream >= s->width)
        TN_FAIL(s->error, TN_E_INVALID,
                "`tn_stream_rule`: '%.80s': there is no stream %u; %u streams are 0 to %u",
                rule->pattern, rule->stream, s->width, s->width - 1);
    for (tn_op_id id = 0; id < count; id++) {
        if (!streams_matches(rule->pattern, tn_graph_op(graph, id))) continue;
        s->ruled[id] = rule->stream;
        any = true;
    }
    if (any) return TN_OK;
    const tn_op *first = count > 0 ? tn_graph_op(graph, 0) : NULL;
    TN_FAIL(
        s->error, TN_E_INVALID,
        "`tn_stream_rule`: no operator matches '%.80s'; the first of %u operators is '%.80s' of "
        "type %.40s",
        rule->pattern, count, first != NULL ? first->name : "", first != NULL ? first->type : "");
}

static tn_status streams_read_rules(streams_state *s) {
    const uint32_t *given = s->options->stream_of;
    for (tn_op_id id = 0; id < tn_graph_op_count(tn_program_graph(s->from)); id++)
        s->ruled[id] = given != NULL ? given[id] : TN_NONE;
    for (uint32_t r = 0; r < s->options->rule_count; r++)
        TN_TRY(streams_read_rule(s, &s->options->rules[r]));
    return TN_OK;
}

/* --- dependencies --- */

static void streams_follow(streams_state *s, uint32_t step, uint64_t *ready) {
    if (step == TN_NONE) return;
    uint32_t *needed = &s->needed[s->stream[step]];
    if (step + 1 > *needed) *needed = step + 1;
    if (s->end[step] > *ready) *ready = s->end[step];
}

/* Computes `needed` for an instruction; returns the time at which all instructions that it must
 * follow have ended. */
static uint64_t streams_needs(streams_state *s, uint32_t step) {
    const tn_graph *graph = tn_program_graph(s->from);
    const tn_instruction *it = &tn_program_instructions(s->from)[step];
    uint64_t ready = 0;
    memset(s->needed, 0, s->width * sizeof *s->needed);
    /* an instruction GET must follow the last instruction of every stream */
    if (it->opcode == TN_GET) {
        for (uint32_t k = 0; k < s->width; k++)
            if (s->last[k] > 0) streams_follow(s, s->last[k] - 1, &ready);
        return ready;
    }
    if (it->opcode != TN_APPLY) return ready;
    uint32_t node = s->node_of[it->op];
    for (uint32_t k = s->model.before_at[node]; k < s->model.before_at[node + 1]; k++)
        streams_follow(s, s->step_of[s->model.ops[s->model.before[k]]], &ready);
    tn_op_form form = tn_op_form_of(graph, it->op, false);
    for (uint32_t i = 0; i < form.input_count; i++)
        if (tn_op_form_input(&form, i) != TN_NONE)
            streams_follow(s, s->put_of[tn_op_form_input(&form, i)], &ready);
    for (uint64_t i = s->after_at[it->op]; i < s->after_at[it->op + 1]; i++)
        streams_follow(s, s->step_of[s->after[i]->before], &ready);
    return ready;
}

/* Whether the instruction on stream `giver`, for which the current instruction waits, began after
 * the one on stream `k` had ended. */
static bool streams_implies(const streams_state *s, const uint32_t *row, uint32_t giver,
                            uint32_t k) {
    if (giver == k || s->needed[giver] <= row[giver]) return false;
    return s->clock[(size_t)(s->needed[giver] - 1) * s->width + k] >= s->needed[k];
}

/* Sets to 0 the entries of `needed` that another wait of the same instruction implies. */
static void streams_reduce(streams_state *s, uint32_t stream) {
    const uint32_t *row = &s->known[(size_t)stream * s->width];
    for (uint32_t k = 0; k < s->width; k++)
        for (uint32_t j = 0; j < s->width && s->needed[k] > row[k]; j++)
            if (j != stream && streams_implies(s, row, j, k)) s->needed[k] = 0;
}

/* --- the choice of a stream --- */

static uint64_t streams_time(const tn_graph *graph, const uint64_t *times, tn_op_id op) {
    tn__machine machine = TN__PLAIN_MACHINE;
    if (times != NULL) return times[op];
    double picoseconds = 1e12 * tn__op_takes(graph, op, &machine, NULL);
    return picoseconds < 9e18 ? (uint64_t)(picoseconds + 0.5) : (uint64_t)9e18;
}

/* Returns the stream that the caller chose for the operator, otherwise the one on which it can
 * start first. Of equal ones it takes the stream of the last operator that this one follows, so
 * that no signal is needed. */
static uint32_t streams_choose(const streams_state *s, tn_op_id op, uint64_t ready) {
    if (s->ruled[op] != TN_NONE) return s->ruled[op];
    uint32_t best = 0, latest = 0;
    for (uint32_t k = 1; k < s->width; k++) {
        if (s->needed[k] > s->needed[latest]) latest = k;
        uint64_t start = s->idle[k] > ready ? s->idle[k] : ready;
        if (start < (s->idle[best] > ready ? s->idle[best] : ready)) best = k;
    }
    uint64_t start = s->idle[best] > ready ? s->idle[best] : ready;
    return s->idle[latest] <= start && s->needed[latest] > 0 ? latest : best;
}

/* --- the new list --- */

static void streams_learn(uint32_t *row, const uint32_t *from, uint32_t width) {
    for (uint32_t k = 0; k < width; k++)
        if (from[k] > row[k]) row[k] = from[k];
}

static void streams_emit(streams_state *s, tn_instruction made) { s->list[s->made++] = made; }

/* Writes an instruction, with the waits for instructions on other streams that it must follow. */
static void streams_issue(streams_state *s, uint32_t step, uint32_t stream) {
    tn_instruction made = tn_program_instructions(s->from)[step];
    uint32_t *row = &s->known[(size_t)stream * s->width];
    made.stream = stream;
    streams_reduce(s, stream);
    for (uint32_t k = 0; k < s->width; k++) {
        if (k == stream || s->needed[k] <= row[k]) continue;
        uint32_t giver = s->needed[k] - 1;
        tn_instruction *gives = &s->list[s->place[giver]];
        if (gives->signal == 0) gives->signal = ++s->signals;
        if (made.wait != 0) {
            tn_instruction wait = TN_INSTRUCTION_INIT;
            wait.opcode = TN_WAIT;
            wait.stream = stream;
            wait.wait = made.wait;
            streams_emit(s, wait);
        }
        made.wait = gives->signal;
        streams_learn(row, &s->clock[(size_t)giver * s->width], s->width);
    }
    s->place[step] = (uint32_t)s->made;
    streams_emit(s, made);
    row[stream] = step + 1;
    memcpy(&s->clock[(size_t)step * s->width], row, s->width * sizeof *row);
    s->stream[step] = stream;
    s->last[stream] = step + 1;
}

static tn_status streams_place(streams_state *s) {
    const tn_instruction *list = tn_program_instructions(s->from);
    for (uint32_t step = 0; step < s->count; step++) {
        bool runs = list[step].opcode == TN_APPLY;
        uint64_t ready = streams_needs(s, step);
        uint32_t stream = runs ? streams_choose(s, list[step].op, ready) : 0;
        if (stream >= s->width)
            TN_FAIL(s->error, TN_E_INVALID, "operator %u is on stream %u of %u", list[step].op,
                    stream, s->width);
        uint64_t start = s->idle[stream] > ready ? s->idle[stream] : ready;
        uint64_t time =
            runs ? streams_time(tn_program_graph(s->from), s->options->times, list[step].op) : 0;
        s->end[step] = tn__add_sat(start, time);
        s->idle[stream] = s->end[step];
        streams_issue(s, step, stream);
    }
    return TN_OK;
}

/* --- making the new program --- */

static tn_status streams_run(streams_state *s, tn_program **made) {
    const tn_graph *graph = tn_program_graph(s->from);
    tn_order_task task = {.graph = graph};
    if (tn_program_region_count(s->from) > 0)
        return streams_refuse(s, "streams are for models without control flow");
    TN_TRY(tn__occupancy_options(NULL, &task.memory, s->error));
    TN_TRY(streams_allocate(s));
    TN_TRY(tn__order_model_make(&task, &s->model, s->error));
    TN_TRY(streams_read(s));
    TN_TRY(streams_read_rules(s));
    TN_TRY(streams_read_after(s));
    TN_TRY(streams_place(s));
    TN_TRY(tn_program_from(graph, s->list, (uint32_t)s->made, NULL, 0, made, s->error));
    (*made)->order = s->from->order;
    return TN_OK;
}

tn_status tn_program_on_streams(const tn_program *program,
                                const tn_program_streams_options *options, tn_program **made,
                                tn_error *error) {
    tn_program_streams_options asked = TN_PROGRAM_STREAMS_OPTIONS_INIT;
    tn__options(&asked, sizeof asked, options);
    if (asked.count < 1 || asked.count > TN_STREAM_MAX)
        TN_FAIL(error, TN_E_INVALID, "%u streams; there are from 1 to %u", asked.count,
                TN_STREAM_MAX);
    streams_state s = {.from = program,
                       .options = &asked,
                       .error = error,
                       .arena = {.context = &program->context},
                       .count = tn_program_count(program),
                       .width = asked.count};
    tn_status status = streams_run(&s, made);
    tn__order_model_release(&s.model);
    tn__arena_release(&s.arena);
    return status;
}

/* --- the report --- */

/* Computes the time at which each instruction ends, and the times in the report. An instruction
 * begins after the one before it on its stream, and after the instruction whose signal it waits
 * for. */
static void streams_time_all(const tn_program *program, const uint64_t *times, uint64_t *given,
                             tn_program_streams_report *report) {
    const tn_instruction *list = tn_program_instructions(program);
    uint64_t idle[TN_STREAM_MAX] = {0};
    bool runs[TN_STREAM_MAX] = {false};
    for (uint32_t i = 0; i < tn_program_count(program); i++) {
        const tn_instruction *it = &list[i];
        bool applies = it->opcode == TN_APPLY;
        uint64_t time = applies ? streams_time(tn_program_graph(program), times, it->op) : 0;
        uint64_t *end = &idle[it->stream];
        if (it->wait != 0 && given[it->wait] > *end) *end = given[it->wait];
        *end = tn__add_sat(*end, time);
        if (it->signal != 0) given[it->signal] = *end;
        if (*end > report->total_ps) report->total_ps = *end;
        report->serial_ps = tn__add_sat(report->serial_ps, time);
        report->waits += it->wait != 0;
        runs[it->stream] |= applies;
    }
    for (uint32_t k = 0; k < TN_STREAM_MAX; k++) report->streams += runs[k];
}

tn_status tn_program_streams_of(const tn_program *program, const uint64_t *times,
                                tn_program_streams_report *report, tn_error *error) {
    const tn_instruction *list = tn_program_instructions(program);
    uint32_t signals = 0;
    *report = (tn_program_streams_report){0};
    for (uint32_t i = 0; i < tn_program_count(program); i++)
        if (list[i].signal > signals) signals = list[i].signal;
    size_t room = (size_t)signals + 1;
    uint64_t *given = tn__alloc_array(&program->context, room, sizeof *given);
    if (given == NULL) return tn__no_memory(error, "the times of signals");
    memset(given, 0, room * sizeof *given);
    streams_time_all(program, times, given, report);
    tn__free(&program->context, given, room * sizeof *given);
    return TN_OK;
}
