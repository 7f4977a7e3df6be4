/* explain.c - `tenure plan MODEL --explain=tags`: prints the events of tn_occupancy_tags as
 * sentences.
 *
 * One line per event, with its step and operator. Names come from untrusted files; tn__words_cell
 * keeps control characters away from the terminal.
 */
#include "cli/explain.h"

#include <stdio.h>

#include "report/format.h"

#define EXPLAIN_NAME 72u     /* column widths: of the step */
#define EXPLAIN_OPERATOR 14u /* and of the operator; a line has 100 columns */

typedef struct explain {
    const tn_graph *graph;
    tn__text text;
    uint32_t step; /* step of the current line; UINT32_MAX: none */
} explain;

static void explain_name(explain *to, tn_tensor_id tensor) {
    if (tensor == TN_NONE) {
        tn__text_put(&to->text, "its workspace");
        return;
    }
    tn__words_cell(&to->text, tn_graph_tensor(to->graph, tensor)->name, EXPLAIN_NAME, false);
    while (!to->text.failed && to->text.size > 0 && to->text.data[to->text.size - 1] == ' ')
        to->text.data[--to->text.size] = '\0';
}

static void explain_uses(explain *to, uint32_t uses) {
    tn__text_printf(&to->text, "%u more use%s", uses, uses == 1 ? "" : "s");
}

static void explain_step(explain *to, const tn_tag_event *event) {
    const tn_op *op = event->op != TN_NONE ? tn_graph_op(to->graph, event->op) : NULL;
    bool same = event->step == to->step;
    to->step = event->step;
    if (same)
        tn__text_put(&to->text, "        ");
    else
        tn__text_printf(&to->text, "%6u  ", event->step);
    tn__words_cell(&to->text, op != NULL && !same ? op->type : "", EXPLAIN_OPERATOR, false);
    tn__text_put(&to->text, " ");
}

static bool explain_event(void *self, const tn_tag_event *event) {
    explain *to = self;
    explain_step(to, event);
    explain_name(to, event->tensor);
    switch (event->kind) {
    case TN_TAG_OUTSIDE:
        tn__text_put(&to->text, " is an input or a weight: no tag");
        break;
    case TN_TAG_NEW:
        tn__text_printf(&to->text, " gets tag %u, a new one: ", event->tag);
        if (event->other != TN_NONE) explain_name(to, event->other);
        tn__text_put(&to->text, event->other != TN_NONE ? " is still live" : "none is free");
        break;
    case TN_TAG_TAKEN:
        tn__text_printf(&to->text, " takes tag %u from the queue", event->tag);
        break;
    case TN_TAG_VIEW:
    case TN_TAG_INPLACE:
        tn__text_put(&to->text,
                     event->kind == TN_TAG_VIEW ? " lies in " : " works in place, over ");
        explain_name(to, event->other);
        if (event->tag != TN_NONE) tn__text_printf(&to->text, ", tag %u", event->tag);
        break;
    case TN_TAG_KEPT:
        tn__text_put(&to->text, " stays live: ");
        explain_uses(to, event->uses);
        break;
    case TN_TAG_FREED:
        tn__text_printf(&to->text, " is dead: tag %u returns to the queue", event->tag);
        break;
    }
    tn__text_put(&to->text, "\n");
    return !to->text.failed;
}

tn_status cli_explain_tags(const tn_occupancy *occupancy, tn_error *error) {
    explain to = {.graph = tn_program_graph(tn_occupancy_program(occupancy)), .step = UINT32_MAX};
    tn_tag_summary summary;
    char size[TN_SIZE_TEXT_MAX];
    tn__text_init(&to.text, NULL);
    tn__text_put(&to.text, "  step  operator       event\n");
    tn_status status = tn_occupancy_tags(occupancy, explain_event, &to, &summary, error);
    if (status == TN_OK)
        tn__text_printf(&to.text, "\n  %u tag%s end to end: %s\n\n", summary.tag_count,
                        summary.tag_count == 1 ? "" : "s", tn_size_format(summary.bytes, size));
    if (to.text.failed) status = tn__no_memory(error, "the explanation");
    cli_progress_end();
    if (status == TN_OK) fwrite(to.text.data, 1, to.text.size, stdout);
    tn__text_release(&to.text);
    return status;
}
