/* timeline.c - collects the runs of several ranks as spans, computes their totals, and packs a rank
 * as bytes for the process that draws all ranks.
 *
 * A span is an instruction that takes time: an operator, a call in which several ranks take part,
 * or a copy. The phase of a span follows from its operator and not from its position, because the
 * passes of a pipeline alternate. An operator that depends on gradients belongs to the backward
 * pass. An operator that changes parameters by gradients belongs to the update.
 */
#include "report/timeline/timeline.h"
#include "report/format.h"

#include <math.h>
#include <stdio.h>

const char *tn__track_name(tn__track lane) {
    static const char *const names[] = {
#define TN_X(NAME, name, words) name,
        TN__TRACK_TABLE(TN_X)
#undef TN_X
    };
    return names[lane];
}

const char *tn__line_kind(tn_timeline_kind kind) {
    return kind == TN_TIMELINE_PREDICTED ? "predicted" : "measured";
}

/* --- creating a time line --- */

tn_status tn_timeline_create(const tn_context *given, const char *input, uint32_t ranks,
                             tn_timeline **line, tn_error *error) {
    tn_context context = tn__context(given);
    if (ranks == 0 || input == NULL) TN_FAIL(error, TN_E_INVALID, "a time line of no ranks");
    tn_timeline *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "a time line");
    *made = (tn_timeline){.context = context, .count = ranks, .input_size = strlen(input) + 1};
    made->ranks = tn__alloc_array(&context, ranks, sizeof *made->ranks);
    made->input = tn__alloc(&context, made->input_size);
    if (made->ranks == NULL || made->input == NULL) {
        tn_timeline_destroy(made);
        return tn__no_memory(error, "a time line");
    }
    memcpy(made->input, input, made->input_size);
    for (uint32_t r = 0; r < ranks; r++)
        for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++)
            tn__text_init(&made->ranks[r].runs[kind].strings, &made->context);
    *line = made;
    return TN_OK;
}

static void timeline_run_release(const tn_context *context, tn__line_run *run) {
    tn__free(context, run->spans, run->room * sizeof *run->spans);
    tn__free(context, run->steps, run->step_count * sizeof *run->steps);
    tn__text_release(&run->strings);
}

void tn_timeline_destroy(tn_timeline *line) {
    if (line == NULL) return;
    tn_context context = line->context;
    for (uint32_t r = 0; r < line->count && line->ranks != NULL; r++)
        for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++)
            timeline_run_release(&context, &line->ranks[r].runs[kind]);
    tn__free(&context, line->ranks, line->count * sizeof *line->ranks);
    tn__free(&context, line->input, line->input_size);
    tn__free(&context, line, sizeof *line);
}

uint32_t tn_timeline_ranks(const tn_timeline *line) { return line->count; }

static tn_status timeline_find(const tn_timeline *line, uint32_t rank, tn_error *error) {
    if (rank < line->count) return TN_OK;
    TN_FAIL(error, TN_E_INVALID, "there is no rank %u in a time line of %u", rank, line->count);
}

tn_status tn_timeline_rank(tn_timeline *line, uint32_t rank, const char *label,
                           uint64_t planned_peak, tn_error *error) {
    TN_TRY(timeline_find(line, rank, error));
    tn__line_rank *to = &line->ranks[rank];
    snprintf(to->label, sizeof to->label, "%s", label != NULL ? label : "");
    to->planned = planned_peak;
    return TN_OK;
}

/* --- a run --- */

typedef struct line_adding {
    const tn_program *program;
    const tn_graph *graph;
    const tn_trace *trace;
    uint32_t run;
    double shift_s;
    uint8_t *phases;   /* [operators] */
    uint8_t *backward; /* [tensors] whether the tensor depends on gradients */
    tn__line_run made;
    const tn_context *context;
    tn__arena arena;
    tn_error *error;
} line_adding;

static bool line_is_gradient(const line_adding *it, tn_tensor_id id) {
    return id != TN_NONE &&
           (it->backward[id] != 0 || tn_graph_tensor(it->graph, id)->kind == TN_KIND_GRADIENT);
}

static void line_phase(line_adding *it, tn_op_id id) {
    const tn_op *op = tn_graph_op(it->graph, id);
    uint64_t changes = tn_op_changes(it->graph, id);
    bool back = false, updates = false;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE) continue;
        tn_kind kind = tn_graph_tensor(it->graph, op->inputs[i])->kind;
        bool keeps = kind == TN_KIND_PARAMETER || kind == TN_KIND_OPTIMIZER_STATE;
        back = back || line_is_gradient(it, op->inputs[i]);
        updates = updates || (keeps && i < 64 && (changes >> i & 1) != 0);
    }
    for (uint32_t k = 0; k < op->output_count; k++)
        back = back || line_is_gradient(it, op->outputs[k]);
    for (uint32_t k = 0; k < op->output_count && back; k++)
        if (op->outputs[k] != TN_NONE) it->backward[op->outputs[k]] = 1;
    it->phases[id] = !back ? TN__SPAN_FORWARD : updates ? TN__SPAN_UPDATE : TN__SPAN_BACKWARD;
}

static tn_status line_phases(line_adding *it) {
    const tn_instruction *list = tn_program_instructions(it->program);
    it->phases = tn__arena_array(&it->arena, (size_t)tn_graph_op_count(it->graph) + 1, 1);
    it->backward = tn__arena_array(&it->arena, (size_t)tn_graph_tensor_count(it->graph) + 1, 1);
    if (it->phases == NULL || it->backward == NULL) return tn__no_memory(it->error, "a time line");
    for (uint32_t s = 0; s < tn_program_count(it->program); s++)
        if (list[s].opcode == TN_APPLY) line_phase(it, list[s].op);
    return TN_OK;
}

/* Sets *lane to the lane in which an instruction is drawn. Returns false for instructions that take
 * no time or only wait. */
static bool line_lane(tn_opcode opcode, uint8_t *lane) {
    const tn_opcode_facts *facts = tn_opcode_facts_of(opcode);
    switch (facts->link) {
    case TN_LINK_FROM_PEER:
    case TN_LINK_TO_PEER:
    case TN_LINK_GROUP:
        *lane = TN__TRACK_CALL;
        return true;
    case TN_LINK_NONE:
        *lane = TN__TRACK_COMPUTE;
        return opcode == TN_APPLY || (facts->flags & TN_USES_CODEC) != 0;
    default:
        *lane = TN__TRACK_COPY;
        return true;
    }
}

static uint32_t line_string(line_adding *it, const char *text) {
    uint32_t at = (uint32_t)it->made.strings.size;
    tn__text_add(&it->made.strings, text, strlen(text) + 1);
    return at;
}

static tn_status line_event(line_adding *it, const tn_event *event) {
    tn__timeline_span span = {.start_s = event->start_s + it->shift_s,
                              .duration_s = event->duration_s,
                              .bytes = event->bytes,
                              .stream = event->stream,
                              .step = it->made.step_count > 0 ? event->step : TN_NONE};
    if (it->made.step_count > 0) it->made.steps[event->step].duration_s = event->duration_s;
    if (!line_lane(event->opcode, &span.lane)) return TN_OK;
    for (int kind = 0; kind < TN_KIND_COUNT; kind++)
        span.live = tn__add_sat(span.live, event->live[kind]);
    tn_op_id op = tn_program_instructions(it->program)[event->step].op;
    const char *name = "", *type = tn_opcode_name(event->opcode);
    if (op != TN_NONE) {
        span.phase = it->phases[op];
        name = tn_graph_op(it->graph, op)->name;
        type = tn_graph_op(it->graph, op)->type;
    } else if (event->tensor != TN_NONE) {
        name = tn_graph_tensor(it->graph, event->tensor)->name;
    }
    if (!tn__reserve(it->context, &it->made.spans, &it->made.room, it->made.count + 1,
                     sizeof span) ||
        it->made.strings.size > UINT32_MAX / 2)
        return tn__no_memory(it->error, "a time line");
    span.name = line_string(it, name);
    span.type = line_string(it, type);
    it->made.spans[it->made.count++] = span;
    return TN_OK;
}

static uint8_t line_call(tn_link link) {
    return link == TN_LINK_TO_PEER     ? TN__STEP_SEND
           : link == TN_LINK_FROM_PEER ? TN__STEP_RECV
           : link == TN_LINK_GROUP     ? TN__STEP_GROUP
                                       : TN__STEP_ALONE;
}

/* Records the signals and waits of all instructions, if the program has no loops or branches, so
 * that each instruction runs once. */
static tn_status line_steps(line_adding *it) {
    uint32_t count = tn_program_count(it->program);
    if (tn_program_region_count(it->program) > 0 || count == 0) return TN_OK;
    it->made.steps = tn__alloc_array(it->context, count, sizeof *it->made.steps);
    if (it->made.steps == NULL) return tn__no_memory(it->error, "a time line");
    it->made.step_count = count;
    for (uint32_t s = 0; s < count; s++) {
        const tn_instruction *in = &tn_program_instructions(it->program)[s];
        const tn_opcode_facts *facts = tn_opcode_facts_of(in->opcode);
        it->made.steps[s] =
            (tn__line_step){.stream = in->stream,
                            .wait = in->wait,
                            .signal = in->signal,
                            .peer = in->peer,
                            .tag = in->tag,
                            .group = in->group,
                            .call = line_call(facts->link),
                            .link = (uint8_t)facts->link,
                            .walks = in->stream == 0 || facts->blocks == TN_BLOCKS_CALLER};
    }
    return TN_OK;
}

static tn_status line_events(line_adding *it) {
    uint64_t count;
    const tn_event *events = tn_trace_events(it->trace, &count);
    for (uint64_t i = 0; i < count; i++) {
        if (events[i].kind != TN_EVENT_STEP || events[i].run != it->run) continue;
        if (events[i].step >= tn_program_count(it->program))
            TN_FAIL(it->error, TN_E_INVALID, "the trace is of another program: it has a step %u",
                    events[i].step);
        TN_TRY(line_event(it, &events[i]));
    }
    if (it->made.strings.failed) return tn__no_memory(it->error, "a time line");
    if (it->made.count == 0)
        TN_FAIL(it->error, TN_E_INVALID, "the trace has no events of run %u", it->run);
    return tn__line_run_sort(it->context, &it->made, it->error);
}

/* Sorts the spans by start. The sort keys are the bits of the times since the first start, because
 * the bits of non-negative doubles have the order of the doubles. */
tn_status tn__line_run_sort(const tn_context *context, tn__line_run *run, tn_error *error) {
    if (run->count == 0) return TN_OK; /* a rank may send a run without events */
    tn__sort_item *items = tn__alloc_array(context, run->count + 1, sizeof *items);
    tn__timeline_span *sorted = tn__alloc_array(context, run->count + 1, sizeof *sorted);
    double first = 0;
    for (size_t i = 0; i < run->count; i++)
        first = i == 0 ? run->spans[i].start_s : fmin(first, run->spans[i].start_s);
    for (size_t i = 0; i < run->count && items != NULL; i++) {
        double since = run->spans[i].start_s - first;
        items[i].id = (uint32_t)i;
        memcpy(&items[i].key, &since, sizeof since);
    }
    bool done = items != NULL && sorted != NULL && tn__sort_items(context, items, run->count);
    for (size_t i = 0; i < run->count && done; i++) sorted[i] = run->spans[items[i].id];
    if (done) memcpy(run->spans, sorted, run->count * sizeof *sorted);
    tn__free(context, items, (run->count + 1) * sizeof *items);
    tn__free(context, sorted, (run->count + 1) * sizeof *sorted);
    return done ? TN_OK : tn__no_memory(error, "a time line");
}

tn_status tn_timeline_add(tn_timeline *line, uint32_t rank, tn_timeline_kind kind,
                          const tn_occupancy *occupancy, const tn_trace *trace, uint32_t run,
                          double shift_s, tn_error *error) {
    TN_TRY(timeline_find(line, rank, error));
    if ((unsigned)kind >= TN_TIMELINE_KINDS || !isfinite(shift_s))
        TN_FAIL(error, TN_E_INVALID, "a time line shows what was predicted and what was measured");
    line_adding it = {.program = tn_occupancy_program(occupancy),
                      .trace = trace,
                      .run = run,
                      .made.number = run,
                      .shift_s = shift_s,
                      .context = &line->context,
                      .error = error};
    it.graph = tn_program_graph(it.program);
    tn__arena_init(&it.arena, &line->context);
    tn__text_init(&it.made.strings, &line->context);
    tn_status status = line_phases(&it);
    if (status == TN_OK && kind == TN_TIMELINE_PREDICTED) status = line_steps(&it);
    if (status == TN_OK) status = line_events(&it);
    tn__line_run *to = &line->ranks[rank].runs[kind];
    timeline_run_release(&line->context, status == TN_OK ? to : &it.made);
    if (status == TN_OK) *to = it.made;
    tn__arena_release(&it.arena);
    return status;
}

/* --- totals --- */

bool tn__line_span(const tn_timeline *line, tn_timeline_kind kind, double *start_s,
                   double *span_s) {
    double first = INFINITY, last = -INFINITY;
    for (uint32_t r = 0; r < line->count; r++) {
        const tn__line_run *run = &line->ranks[r].runs[kind];
        for (size_t i = 0; i < run->count; i++) {
            first = fmin(first, run->spans[i].start_s);
            last = fmax(last, run->spans[i].start_s + run->spans[i].duration_s);
        }
    }
    *start_s = first;
    *span_s = last - first;
    return last >= first;
}

/* An iterator over the times that the spans of one lane cover. Overlapping spans are joined, so the
 * ranges [from, to] do not overlap. */
typedef struct line_stretch {
    const tn__line_run *run;
    tn__track lane;
    size_t next;
    double from, to; /* the present range in time; to < from after the last range */
} line_stretch;

static void line_step(line_stretch *it) {
    const tn__timeline_span *spans = it->run->spans;
    size_t count = it->run->count, i = it->next;
    while (i < count && spans[i].lane != it->lane) i++;
    it->from = i < count ? spans[i].start_s : INFINITY;
    it->to = i < count ? spans[i].start_s + spans[i].duration_s : -INFINITY;
    for (i = i < count ? i + 1 : i; i < count; i++) {
        if (spans[i].lane != it->lane) continue;
        if (spans[i].start_s > it->to) break;
        it->to = fmax(it->to, spans[i].start_s + spans[i].duration_s);
    }
    it->next = i;
}

static double line_covered(const tn__line_run *run, tn__track lane) {
    double sum = 0;
    line_stretch at = {.run = run, .lane = lane};
    for (line_step(&at); at.to >= at.from; line_step(&at)) sum += at.to - at.from;
    return sum;
}

static double line_both(const tn__line_run *run) {
    double sum = 0;
    line_stretch a = {.run = run, .lane = TN__TRACK_COMPUTE},
                 b = {.run = run, .lane = TN__TRACK_CALL};
    line_step(&a);
    line_step(&b);
    while (a.to >= a.from && b.to >= b.from) {
        sum += fmax(fmin(a.to, b.to) - fmax(a.from, b.from), 0);
        line_step(a.to < b.to ? &a : &b);
    }
    return sum;
}

tn_timeline_sums tn_timeline_measure(const tn_timeline *line, uint32_t rank,
                                     tn_timeline_kind kind) {
    tn_timeline_sums sums = {0};
    if (rank >= line->count || (unsigned)kind >= TN_TIMELINE_KINDS) return sums;
    const tn__line_run *run = &line->ranks[rank].runs[kind];
    double last = run->count > 0 ? run->spans[0].start_s : 0;
    for (size_t i = 0; i < run->count; i++) {
        const tn__timeline_span *span = &run->spans[i];
        last = fmax(last, span->start_s + span->duration_s);
        if (span->live > sums.peak) sums.peak = span->live;
        if (span->lane != TN__TRACK_CALL) continue;
        sums.sent = tn__add_sat(sums.sent, span->bytes);
        sums.talks++;
    }
    if (run->count > 0) sums.span_s = last - run->spans[0].start_s;
    sums.compute_s = line_covered(run, TN__TRACK_COMPUTE);
    sums.talk_s = line_covered(run, TN__TRACK_CALL);
    sums.hidden_s = line_both(run);
    double start_s, step_s;
    if (run->count > 0 && tn__line_span(line, kind, &start_s, &step_s))
        sums.idle_s = step_s - sums.compute_s;
    return sums;
}

/* --- files --- */

static const struct {
    const char *suffix;
    void (*render)(const tn_timeline *line, tn__text *text);
} line_formats[] = {{".html", tn__line_page}, {".svg", tn__line_svg}, {".json", tn__line_json}};
#define LINE_FORMATS (sizeof line_formats / sizeof *line_formats)

static size_t line_format(const char *path) {
    size_t f = 0;
    while (f < LINE_FORMATS && !tn__has_suffix(path, line_formats[f].suffix)) f++;
    return f;
}

bool tn_timeline_writes(const char *path) { return line_format(path) < LINE_FORMATS; }

tn_status tn_timeline_write(const tn_timeline *line, const char *path, tn_error *error) {
    size_t format = line_format(path);
    tn__text text;
    if (format == LINE_FORMATS)
        TN_FAIL(error, TN_E_UNSUPPORTED,
                "the end of '%s' names no picture of ranks; use one of .html .svg .json", path);
    tn__text_init(&text, &line->context);
    line_formats[format].render(line, &text);
    tn_status status = text.failed ? tn__no_memory(error, "a time line")
                                   : tn__file_write(path, text.data, text.size, error);
    tn__text_release(&text);
    return status;
}

/* --- lanes ------------------------------------------------------------------------------------ */

/* The functions below find the lanes of a rank. */

static bool lanes_same(const tn__line_lane *lane, const tn__timeline_span *span) {
    return lane->lane == (tn__track)span->lane && lane->stream == span->stream;
}

static bool lanes_before(const tn__line_lane *lane, const tn__timeline_span *span) {
    if (lane->lane != (tn__track)span->lane) return lane->lane < (tn__track)span->lane;
    return lane->stream < span->stream;
}

uint32_t tn__line_lane_of(const tn__line_lane *lanes, uint32_t count,
                          const tn__timeline_span *span) {
    uint32_t at = 0;
    while (at + 1 < count && !lanes_same(&lanes[at], span)) at++;
    return at;
}

/* Inserts each lane in its order. Lanes beyond TN__LINE_LANES_MOST are drawn in the last lane. */
uint32_t tn__line_lanes(const tn__line_run *run, tn__line_lane lanes[TN__LINE_LANES_MOST]) {
    uint32_t count = 0;
    for (size_t i = 0; i < run->count; i++) {
        const tn__timeline_span *span = &run->spans[i];
        uint32_t at = 0;
        while (at < count && lanes_before(&lanes[at], span)) at++;
        if ((at < count && lanes_same(&lanes[at], span)) || count == TN__LINE_LANES_MOST) continue;
        memmove(&lanes[at + 1], &lanes[at], (count - at) * sizeof *lanes);
        lanes[at] = (tn__line_lane){(tn__track)span->lane, span->stream};
        count++;
    }
    return count;
}

/* --- packing a rank as bytes ------------------------------------------------------------------ */

/* Packs the spans of a rank as bytes, for the process that draws all ranks.
 *
 * Numbers are in the byte order of this machine. Received bytes are checked before they are used:
 * the sizes must add up, offsets must be within the strings, and times must be finite.
 */

#define PACK_MAGIC UINT64_C(0x32656e696c6e7401) /* "\1tnline2" */

typedef struct pack_head {
    uint64_t magic, planned;
    /* number of spans, and bytes of strings, per kind of run */
    uint64_t spans[TN_TIMELINE_KINDS], strings[TN_TIMELINE_KINDS];
    uint64_t steps[TN_TIMELINE_KINDS], number[TN_TIMELINE_KINDS];
    char label[64];
} pack_head;

static uint8_t *pack_put(uint8_t *at, const void *bytes, size_t size) {
    if (size > 0) memcpy(at, bytes, size);
    return at + size;
}

tn_status tn_timeline_pack(const tn_timeline *line, uint32_t rank, void **bytes, uint64_t *size,
                           tn_error *error) {
    TN_TRY(timeline_find(line, rank, error));
    const tn__line_rank *from = &line->ranks[rank];
    pack_head head = {.magic = PACK_MAGIC, .planned = from->planned};
    size_t all = sizeof head;
    memcpy(head.label, from->label, sizeof head.label);
    for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++) {
        head.spans[kind] = from->runs[kind].count;
        head.strings[kind] = from->runs[kind].strings.size;
        head.steps[kind] = from->runs[kind].step_count;
        head.number[kind] = from->runs[kind].number;
        all += from->runs[kind].count * sizeof(tn__timeline_span) + from->runs[kind].strings.size +
               from->runs[kind].step_count * sizeof(tn__line_step);
    }
    uint8_t *to = tn__alloc(&line->context, all), *at = to;
    if (to == NULL) return tn__no_memory(error, "a time line");
    memcpy(at, &head, sizeof head);
    at += sizeof head;
    for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++) {
        const tn__line_run *run = &from->runs[kind];
        at = pack_put(at, run->spans, run->count * sizeof *run->spans);
        at = pack_put(at, run->steps, run->step_count * sizeof *run->steps);
        at = pack_put(at, run->strings.data, run->strings.size);
    }
    *bytes = to;
    *size = all;
    return TN_OK;
}

void tn_timeline_release(const tn_timeline *line, void *bytes, uint64_t size) {
    tn__free(&line->context, bytes, size);
}

/* largest time that is accepted, in seconds; clocks may count from 1970 */
#define PACK_LONGEST 1e12

static bool pack_is_span(const tn__timeline_span *span, uint64_t strings) {
    return fabs(span->start_s) <= PACK_LONGEST && span->duration_s <= PACK_LONGEST &&
           span->duration_s >= 0 && span->name < strings && span->type < strings &&
           span->lane < TN__TRACK_COUNT && span->phase < TN__SPAN_PHASES &&
           span->stream < TN_STREAM_MAX;
}

static bool pack_is_step(const tn__line_step *step) {
    return step->duration_s <= PACK_LONGEST && step->duration_s >= 0 &&
           step->stream < TN_STREAM_MAX && step->call < TN__STEP_CALLS &&
           step->link <= TN_LINK_FROM_STORAGE;
}

/* Reads one run from *at and advances *at to the bytes after it. */
static tn_status pack_run(const tn_context *context, uint64_t count, uint64_t steps,
                          uint64_t strings, const uint8_t **at, tn__line_run *run,
                          tn_error *error) {
    run->spans = tn__alloc_array(context, count + 1, sizeof *run->spans);
    if (run->spans == NULL) return tn__no_memory(error, "a time line");
    run->room = count + 1;
    run->count = count;
    if (count > 0) memcpy(run->spans, *at, count * sizeof *run->spans);
    *at += count * sizeof *run->spans;
    if (steps > 0) {
        run->steps = tn__alloc_array(context, steps, sizeof *run->steps);
        if (run->steps == NULL) return tn__no_memory(error, "a time line");
        run->step_count = steps;
        memcpy(run->steps, *at, steps * sizeof *run->steps);
        *at += steps * sizeof *run->steps;
    }
    tn__text_add(&run->strings, (const char *)*at, strings);
    *at += strings;
    if (run->strings.failed) return tn__no_memory(error, "a time line");
    bool whole = strings == 0 || run->strings.data[strings - 1] == '\0';
    for (uint64_t i = 0; i < count && whole; i++) whole = pack_is_span(&run->spans[i], strings);
    for (uint64_t i = 0; i < steps && whole; i++) whole = pack_is_step(&run->steps[i]);
    whole = whole && steps < TN_NONE;
    if (!whole) TN_FAIL(error, TN_E_INVALID, "these bytes are no rank of a time line");
    return tn__line_run_sort(context, run, error);
}

/* Returns whether the sizes in the head add up to the number of received bytes. */
static bool pack_fits(const pack_head *head, uint64_t size) {
    uint64_t all = sizeof *head;
    for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++)
        all = tn__add_sat(tn__add_sat(all, tn__mul_sat(head->steps[kind], sizeof(tn__line_step))),
                          tn__add_sat(tn__mul_sat(head->spans[kind], sizeof(tn__timeline_span)),
                                      head->strings[kind]));
    return head->magic == PACK_MAGIC && all == size &&
           memchr(head->label, '\0', sizeof head->label) != NULL;
}

tn_status tn_timeline_unpack(tn_timeline *line, uint32_t rank, const void *bytes, uint64_t size,
                             tn_error *error) {
    pack_head head = {0};
    tn__line_rank made = {0};
    tn_status status = TN_OK;
    TN_TRY(timeline_find(line, rank, error));
    if (size >= sizeof head) memcpy(&head, bytes, sizeof head);
    if (!pack_fits(&head, size))
        TN_FAIL(error, TN_E_INVALID, "these bytes are no rank of a time line");
    const uint8_t *at = (const uint8_t *)bytes + sizeof head;
    memcpy(made.label, head.label, sizeof made.label);
    made.planned = head.planned;
    for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++) {
        tn__text_init(&made.runs[kind].strings, &line->context);
        made.runs[kind].number = (uint32_t)head.number[kind];
        if (status == TN_OK)
            status = pack_run(&line->context, head.spans[kind], head.steps[kind],
                              head.strings[kind], &at, &made.runs[kind], error);
    }
    tn__line_rank *to = &line->ranks[rank];
    for (int kind = 0; kind < TN_TIMELINE_KINDS; kind++)
        timeline_run_release(&line->context, status == TN_OK ? &to->runs[kind] : &made.runs[kind]);
    if (status == TN_OK) *to = made;
    return status;
}
