/* html_step.c - writes the data of steps for the page: the purpose of each tensor of a training
 * step, its phases, readers, the time at which a run reached each step, and memory outside the
 * arena.
 */
#include "report/html.h"

tn_status tn__html_step_make(tn__html_page *page, tn_error *error) {
    tn__scene *scene = &page->scene;
    const tn_report *report = scene->report;
    if (report->occupancy == NULL) return TN_OK;
    TN_TRY(tn__uses_make(scene, &page->uses, error));
    const tn_trace *trace = report->trace;
    if (trace == NULL && report->fit != NULL) trace = report->fit->measured;
    page->measured = trace != NULL;
    if (trace == NULL && report->fit != NULL && !report->fit->abstract)
        trace = report->fit->predicted;
    return trace != NULL ? tn__link_make(scene, trace, page->measured, &page->run, error) : TN_OK;
}

static uint64_t step_role(const tn__html_page *page, size_t row) {
    return page->role_number[page->scene.items[row].role];
}
static uint64_t step_reads(const tn__html_page *page, size_t row) {
    return page->uses.start[row + 1] - page->uses.start[row];
}
static uint64_t step_reader(const tn__html_page *page, size_t row) { return page->uses.steps[row]; }
static uint64_t step_reach(const tn__html_page *page, size_t row) { return page->run.reach[row]; }

/* The roles that occur; the last field says: not in the arena. */
void tn__html_roles(tn__html_page *page) {
    const tn__scene *scene = &page->scene;
    uint32_t number = 0;
    bool inside[TN__ROLE_COUNT] = {false};
    if (scene->phases == NULL) {
        tn__text_put(page->text, ",\n\"roles\":null");
        return;
    }
    for (uint32_t i = 0; i < scene->item_count; i++) inside[scene->items[i].role] = true;
    tn__text_put(page->text, ",\n\"roles\":[");
    for (uint32_t role = 0; role < TN__ROLE_COUNT; role++) {
        if (scene->role_total[role] == 0 && !inside[role]) continue;
        page->role_number[role] = number;
        tn__text_printf(page->text, "%s[\"%s\",\"%s\",", number ? "," : "",
                        tn__role_name((tn__role)role), tn__role_words((tn__role)role));
        tn__html_integer(page->text, scene->role_total[role]);
        tn__text_put(page->text, inside[role] ? ",false]" : ",true]");
        number++;
    }
    tn__text_put(page->text, "]");
}

void tn__html_item_steps(const tn__html_page *page, size_t count) {
    if (page->scene.phases != NULL) tn__html_column(page, "role", count, step_role, false);
}

/* The beginnings of phases: [step, name] at each change. */
static void step_phases(const tn__html_page *page) {
    const uint8_t *phases = page->scene.phases;
    if (phases == NULL) {
        tn__text_put(page->text, ",\n\"phases\":null");
        return;
    }
    tn__text_put(page->text, ",\n\"phases\":[");
    for (uint32_t step = 0; step < tn__step_count(page->scene.report); step++)
        if (step == 0 || phases[step] != phases[step - 1])
            tn__text_printf(page->text, "%s[%u,\"%s\"]", step > 0 ? "," : "", step,
                            tn__phase_words(phases[step]));
    tn__text_put(page->text, "]");
}

static void step_uses(const tn__html_page *page) {
    size_t items = page->scene.item_count, reads = page->uses.start[items];
    tn__text_printf(page->text, ",\n\"use\":{\"count\":%zu", reads);
    tn__html_column(page, "reads", items, step_reads, false);
    tn__html_column(page, "step", reads, step_reader, false);
    tn__text_put(page->text, "}");
}

/* Picoseconds from the start of the run; an array even if all are equal. */
static void step_clock(const tn__html_page *page) {
    tn__text_printf(page->text, ",\n\"clock\":{\"name\":\"%s\",\"reach\":[",
                    page->measured ? "measured" : "predicted");
    for (size_t row = 0; row <= tn__step_count(page->scene.report); row++) {
        if (row > 0) tn__text_put(page->text, ",");
        tn__html_integer(page->text, step_reach(page, row));
    }
    tn__text_put(page->text, "]}");
}

void tn__html_step(const tn__html_page *page) {
    const tn_report *report = page->scene.report;
    step_phases(page);
    if (report->occupancy != NULL) step_uses(page);
    if (page->run.reach != NULL) step_clock(page);
    if (report->static_bytes > 0) {
        tn__text_put(page->text, ",\n\"static\":");
        tn__html_integer(page->text, report->static_bytes);
    }
    if (report->device_bytes == 0) return;
    tn__text_put(page->text, ",\n\"device\":[");
    tn__text_json(page->text, report->device != NULL ? report->device : "");
    tn__text_put(page->text, ",");
    tn__html_integer(page->text, report->device_bytes);
    tn__text_put(page->text, "]");
}
