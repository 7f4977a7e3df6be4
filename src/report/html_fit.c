/* html_fit.c - writes the data of a fit for the page: decisions, actions on tensors with their
 * steps, transfers, the curve of memory against time. page/fit.js and page/link.js read it.
 *
 * Cost: O(items + instructions + operands + events).
 */
#include "report/format.h"

#define HTML_EXACT ((uint64_t)1 << 53) /* integers below are exact in a double */

enum { HTML_MADE, HTML_OUT, HTML_IN, HTML_ENCODED, HTML_DECODED }; /* page/fit.js: ACTS */

static void html_number(tn__text *text, uint64_t value) {
    bool exact = value < HTML_EXACT;
    if (!exact) tn__text_put(text, "\"");
    tn__words_integer(text, value);
    if (!exact) tn__text_put(text, "\"");
}

static void html_field(tn__text *text, const char *name, uint64_t value) {
    tn__text_printf(text, ",\"%s\":", name);
    html_number(text, value);
}

static void html_row(tn__text *text, bool first, const uint64_t *values, int count) {
    tn__text_put(text, first ? "[" : ",[");
    for (int i = 0; i < count; i++) {
        if (i > 0) tn__text_put(text, ",");
        html_number(text, values[i]);
    }
    tn__text_put(text, "]");
}

/* --- fates --- */

static void html_fates(const tn__scene *scene, tn__text *text) {
    const tn_life *lives = tn_occupancy_lives(scene->report->occupancy);
    tn__text_put(text, ",\n\"fates\":[");
    for (uint32_t fate = 0; fate < TN_FATE_COUNT; fate++) {
        tn__text_printf(text, "%s[\"%s\",%u,", fate ? "," : "", tn_fate_name((tn_fate)fate),
                        scene->fates.tensors[fate]);
        html_number(text, scene->fates.bytes[fate]);
        tn__text_put(text, "]");
    }
    tn__text_put(text, "],\n\"fate\":[");
    for (uint32_t i = 0; i < scene->item_count; i++)
        tn__text_printf(text, "%s%d", i ? "," : "", (int)scene->items[i].fate);
    tn__text_put(text, "],\n\"tensor\":[");
    for (uint32_t i = 0; i < scene->item_count; i++) {
        if (i > 0) tn__text_put(text, ",");
        tn__words_signed(text, lives[i].tensor == TN_NONE ? -1 : (int64_t)lives[i].tensor);
    }
    tn__text_put(text, "]");
}

/* --- actions --- */

static void html_act(tn__text *text, bool *first, int what, uint32_t step, tn_tensor_id tensor) {
    if (tensor == TN_NONE) return;
    html_row(text, *first, (const uint64_t[]){(uint64_t)what, step, tensor}, 3);
    *first = false;
}

static void html_made(tn__text *text, bool *first, const tn_graph *graph, uint32_t step,
                      const tn_instruction *it) {
    const tn_op *op = tn_graph_op(graph, it->op);
    for (uint32_t k = 0; k < (it->again && op->output_count > 0 ? 1 : op->output_count); k++)
        html_act(text, first, HTML_MADE, step, op->outputs[k]);
}

/* Rows [action, step, tensor]. */
static void html_acts(const tn__scene *scene, tn__text *text) {
    const tn_program *program = tn_occupancy_program(scene->report->occupancy);
    bool first = true;
    tn__text_put(text, ",\n\"act\":[");
    for (uint32_t step = 0; step < tn_program_count(program); step++) {
        const tn_instruction *it = &tn_program_instructions(program)[step];
        if (it->opcode == TN_APPLY) html_made(text, &first, tn_program_graph(program), step, it);
        if (it->opcode == TN_SWAP_OUT) html_act(text, &first, HTML_OUT, step, it->tensor);
        if (it->opcode == TN_SWAP_IN) html_act(text, &first, HTML_IN, step, it->tensor);
        if (it->opcode == TN_ENCODE) html_act(text, &first, HTML_ENCODED, step, it->tensor);
        if (it->opcode == TN_DECODE) html_act(text, &first, HTML_DECODED, step, it->tensor);
    }
    tn__text_put(text, "]");
}

/* --- transfers --- */

static tn_status html_link(tn__scene *scene, tn__text *text, const tn_trace *trace, bool measured,
                           tn_error *error) {
    tn__link link;
    TN_TRY(tn__link_make(scene, trace, measured, &link, error));
    tn__text_printf(text, "{\"name\":\"%s\",\"reach\":[", measured ? "measured" : "predicted");
    for (uint32_t i = 0; i <= tn__step_count(scene->report); i++) {
        if (i > 0) tn__text_put(text, ",");
        html_number(text, link.reach[i]);
    }
    tn__text_put(text, "],\"copies\":[");
    for (uint32_t i = 0; i < link.copy_count; i++) {
        const tn__copy *copy = &link.copies[i];
        html_row(text, i == 0,
                 (const uint64_t[]){copy->step, copy->out, copy->bytes, copy->start, copy->end}, 5);
    }
    tn__text_put(text, "],\"waits\":[");
    for (uint32_t i = 0; i < link.wait_count; i++) {
        const tn__wait *wait = &link.waits[i];
        html_row(text, i == 0, (const uint64_t[]){wait->step, wait->start, wait->duration}, 3);
    }
    tn__text_put(text, "]");
    html_field(text, "waited", link.waited);
    tn__text_put(text, "}");
    return TN_OK;
}

static tn_status html_links(tn__scene *scene, tn__text *text, tn_error *error) {
    const tn_report_fit *fit = scene->report->fit;
    tn__text_put(text, ",\n\"links\":[");
    if (fit->predicted) TN_TRY(html_link(scene, text, fit->predicted, false, error));
    if (fit->predicted && fit->measured) tn__text_put(text, ",\n");
    if (fit->measured) TN_TRY(html_link(scene, text, fit->measured, true, error));
    tn__text_put(text, "]");
    return TN_OK;
}

/* --- the result --- */

static void html_answer(tn__text *text, const tn_report_fit *fit) {
    const tn_fit_result *it = fit->result;
    tn__fit_fact facts[TN__FIT_FACTS];
    tn__text_printf(text, ",\n\"fit\":{\"pass\":\"%s\",\"abstract\":%s,\"work\":%s,\"stopped\":%s",
                    it->pass ? it->pass : "", fit->abstract ? "true" : "false",
                    fit->work ? "true" : "false", it->stopped ? "true" : "false");
    tn__fit_facts(fit, facts);
    for (size_t i = 0; i < TN__FIT_FACTS; i++) html_field(text, facts[i].name, facts[i].value);
    tn__text_put(text, ",\"points\":[");
    for (uint32_t i = 0; i < fit->point_count; i++) {
        const tn_report_point *point = &fit->points[i];
        html_row(text, i == 0,
                 (const uint64_t[]){point->budget, point->bytes, point->time, point->time_bound},
                 4);
    }
    tn__text_put(text, "]}");
}

tn_status tn__html_fit(tn__scene *scene, tn__text *text, tn_error *error) {
    if (scene->report->fit == NULL) {
        tn__text_put(text, ",\n\"fit\":null");
        return TN_OK;
    }
    html_answer(text, scene->report->fit);
    html_fates(scene, text);
    html_acts(scene, text);
    return html_links(scene, text, error);
}
