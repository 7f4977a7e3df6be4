/* run_events.c - reads the events of a run: its copies and waits, and the names of its events. */
#include "report/format.h"

#include <math.h>

/* --- copies of a run, and waits for them ------------------------------------------------------ */

/* Finds, in a trace, the copies to and from the host, and the times at which the main stream waits
 * for them.
 *
 * Instructions on stream 0 are executed by the thread that goes through the program. Copies on
 * other streams run at the same time. If a step ran several times, as in a loop, its last time
 * counts. Cost: O(events + steps).
 */

#define LINK_PS 1e12

static uint64_t link_ps(double seconds) {
    double ps = round(seconds * LINK_PS);
    return ps > 0 ? (ps < 1.8e19 ? (uint64_t)ps : UINT64_MAX) : 0;
}

/* Returns the events of the last run in the trace. Sets *count to their number and *began to the
 * time when the run began. */
static const tn_event *link_events(const tn_trace *trace, uint64_t *count, double *began) {
    uint64_t all, first = 0;
    const tn_event *events = tn_trace_events(trace, &all);
    for (uint64_t i = 1; i < all; i++)
        if (events[i].run != events[i - 1].run) first = i;
    *count = all - first;
    *began = all > first ? events[first].start_s : 0;
    for (uint64_t i = first; i < all; i++) *began = fmin(*began, events[i].start_s);
    return events + first;
}

static tn_status link_room(tn__scene *scene, uint64_t events, tn__run_times *link,
                           tn_error *error) {
    size_t steps = (size_t)tn__step_count(scene->report) + 1, room = (size_t)events + 1;
    link->reach = tn__arena_array(&scene->arena, steps, sizeof *link->reach);
    link->copies = tn__arena_array(&scene->arena, room, sizeof *link->copies);
    link->waits = tn__arena_array(&scene->arena, room, sizeof *link->waits);
    if (link->reach && link->copies && link->waits) return TN_OK;
    return tn__no_memory(error, "the link of a fit");
}

static bool link_is_swap(tn_opcode opcode) { return opcode == TN_SWAP_OUT || opcode == TN_SWAP_IN; }

/* Returns whether the thread that goes through the program executes the event itself, instead of
 * handing it to another stream and continuing. */
static bool link_inline(const tn_event *event) {
    return event->stream == 0 || tn_opcode_facts_of(event->opcode)->blocks == TN_BLOCKS_CALLER;
}

/* Records that the main stream executed an event. The time since the end of the previous event is
 * waiting; in a real run, only if the step waits for a signal. */
static void link_walk(tn__run_times *link, const tn_event *event, const tn_instruction *it,
                      bool measured, uint64_t start, uint64_t end, uint64_t *clock) {
    uint64_t since = *clock < start ? *clock : start, until = start;
    if (event->opcode == TN_WAIT) until = end;
    bool waits = !measured || it->wait != 0;
    if (waits && until > since) {
        link->waits[link->wait_count++] = (tn__wait){event->step, since, until - since};
        link->waited += until - since;
    }
    link->reach[event->step + 1] = end;
    *clock = end;
}

tn_status tn__run_times_make(tn__scene *scene, const tn_trace *trace, bool measured,
                             tn__run_times *link, tn_error *error) {
    const tn_program *program = tn_occupancy_program(scene->report->occupancy);
    uint32_t steps = tn_program_count(program);
    uint64_t count, clock = 0, last = 0;
    double began;
    *link = (tn__run_times){0};
    const tn_event *events = link_events(trace, &count, &began);
    TN_TRY(link_room(scene, count, link, error));
    for (uint64_t i = 0; i < count; i++) {
        const tn_event *event = &events[i];
        if (event->kind != TN_EVENT_STEP || event->step >= steps) continue;
        uint64_t start = link_ps(event->start_s - began);
        uint64_t end = tn__add_sat(start, link_ps(event->duration_s));
        if (link_is_swap(event->opcode))
            link->copies[link->copy_count++] =
                (tn__copy){event->step, event->opcode == TN_SWAP_OUT, event->bytes, start, end};
        if (link_inline(event))
            link_walk(link, event, &tn_program_instructions(program)[event->step], measured, start,
                      end, &clock);
        last = end > last ? end : last;
    }
    for (uint32_t step = 0; step < steps; step++)
        if (link->reach[step + 1] < link->reach[step]) link->reach[step + 1] = link->reach[step];
    if (steps > 0 && last > link->reach[steps]) link->reach[steps] = last;
    return TN_OK;
}

/* --- names of events -------------------------------------------------------------------------- */

/* The names that pages and traces show for the events of a run. */

/* Returns the name of an operator, or its type if the name is "". */
static const char *event_op(const tn_graph *graph, tn_op_id id) {
    if (id >= tn_graph_op_count(graph)) return "";
    const tn_op *op = tn_graph_op(graph, id);
    return op->name[0] != '\0' ? op->name : op->type;
}

tn__event_words tn__event_words_of(const tn_report *report, const tn_event *event) {
    const tn_graph *graph = tn_program_graph(tn_occupancy_program(report->occupancy));
    tn__event_words words = {
        .op = event_op(graph, event->op), .type = "", .kind = "", .tensor = ""};
    bool step = event->kind == TN_EVENT_STEP;
    if (event->op < tn_graph_op_count(graph)) words.type = tn_graph_op(graph, event->op)->type;
    if (event->tensor < tn_graph_tensor_count(graph)) {
        const tn_tensor *tensor = tn_graph_tensor(graph, event->tensor);
        words.tensor = tensor->name;
        words.kind = tn_kind_name(tensor->kind);
    } else if (!step) {
        words.tensor = "workspace";
        words.kind = tn_kind_name(TN_KIND_WORKSPACE);
    }
    if (!step)
        words.category = event->kind == TN_EVENT_ALLOC ? "alloc" : "free";
    else if (event->opcode == TN_APPLY && words.type[0] != '\0')
        words.category = words.type;
    else
        words.category = tn_opcode_name(event->opcode);
    words.name = step && words.op[0] != '\0' ? words.op : words.tensor;
    if (words.name[0] == '\0') words.name = words.category;
    return words;
}
