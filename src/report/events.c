/* events.c - names for the events of a run. */
#include "report/format.h"

/* An operator's name, which may be "", or its type. */
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
