/* html_data.c - writes the data of a page: a plan as columns of JSON, which page/data.js decodes,
 * its steps, and a fit.
 *
 * A column with equal values in all rows is stored as one value. An integer that a JavaScript
 * number cannot hold exactly is a string. Times count from the first time of the plan. Equal
 * strings are stored once.
 */
#include "report/format.h"
#include "report/html.h"

/* --- columns ---------------------------------------------------------------------------------- */

#define HTML_EXACT ((uint64_t)1 << 53) /* integers below this number are exact in a double */

/* Adds an integer, as a string if a JavaScript number cannot hold it exactly. */
static void html_integer(tn__text *text, uint64_t value) {
    if (value >= HTML_EXACT) tn__text_put(text, "\"");
    tn__words_integer(text, value);
    if (value >= HTML_EXACT) tn__text_put(text, "\"");
}

/* Returns the distance of a time from the first time of the plan. */
static uint64_t html_time(const tn__html_page *page, int64_t at) {
    return (uint64_t)at - (uint64_t)page->scene.first;
}

/* The value of a row without an entry; no item and no step has this index. */
#define HTML_NONE ((uint64_t)TN_NONE)

static void html_value(tn__text *text, uint64_t value, bool optional) {
    if (optional && value == HTML_NONE)
        tn__text_put(text, "-1");
    else
        html_integer(text, value);
}

/* Adds `,"name":` and a column with a value for each of `count` rows. With `optional` true,
 * HTML_NONE is written as -1. */
static void html_column_of(const tn__html_page *page, const char *name, size_t count,
                           tn__html_get get, bool optional) {
    tn__text_printf(page->text, ",\"%s\":", name);
    bool equal = true;
    for (size_t i = 1; i < count && equal; i++) equal = get(page, i) == get(page, 0);
    if (equal) {
        html_value(page->text, count ? get(page, 0) : 0, optional);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        tn__text_add(page->text, i ? "," : "[", 1);
        html_value(page->text, get(page, i), optional);
    }
    tn__text_add(page->text, "]", 1);
}
static void html_column(const tn__html_page *page, const char *name, size_t count,
                        tn__html_get get) {
    html_column_of(page, name, count, get, false);
}

/* --- the data of a fit ------------------------------------------------------------------------ */

/* Writes the data of a fit for the page: decisions, actions on tensors with their steps, transfers,
 * and the curve of memory against time. page/fit.js and page/link.js read them.
 *
 * Cost: O(items + instructions + operands + events).
 */

/* the actions, in the order of ACTS in page/fit.js */
enum { HTML_MADE, HTML_OUT, HTML_IN, HTML_ENCODED, HTML_DECODED };

static void html_field(tn__text *text, const char *name, uint64_t value) {
    tn__text_printf(text, ",\"%s\":", name);
    html_integer(text, value);
}

static void html_row(tn__text *text, bool first, const uint64_t *values, int count) {
    tn__text_put(text, first ? "[" : ",[");
    for (int i = 0; i < count; i++) {
        if (i > 0) tn__text_put(text, ",");
        html_integer(text, values[i]);
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
        html_integer(text, scene->fates.bytes[fate]);
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

/* Adds the actions on tensors, as rows [action, step, tensor]. */
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
    tn__run_times link;
    TN_TRY(tn__run_times_make(scene, trace, measured, &link, error));
    tn__text_printf(text, "{\"name\":\"%s\",\"reach\":[", measured ? "measured" : "predicted");
    for (uint32_t i = 0; i <= tn__step_count(scene->report); i++) {
        if (i > 0) tn__text_put(text, ",");
        html_integer(text, link.reach[i]);
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

/* --- the result of a fit --- */

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

/* --- steps ------------------------------------------------------------------------------------ */

/* The functions below write the data of steps for the page. These are the purpose of each tensor of
 * a training step, the phases, the readers of each item, the time at which a run reached each step,
 * and memory outside the arena. */

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
    return trace != NULL ? tn__run_times_make(scene, trace, page->measured, &page->run, error)
                         : TN_OK;
}

static uint64_t step_role(const tn__html_page *page, size_t row) {
    return page->role_number[page->scene.items[row].role];
}
static uint64_t step_reads(const tn__html_page *page, size_t row) {
    return page->uses.start[row + 1] - page->uses.start[row];
}
static uint64_t step_reader(const tn__html_page *page, size_t row) { return page->uses.steps[row]; }
static uint64_t step_reach(const tn__html_page *page, size_t row) { return page->run.reach[row]; }

/* Adds the roles that occur. The last field of a row says whether the role is outside the arena.
 * html_item_steps must be called later, because it uses the numbers of roles that are set here. */
static void html_roles(tn__html_page *page) {
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
        html_integer(page->text, scene->role_total[role]);
        tn__text_put(page->text, inside[role] ? ",false]" : ",true]");
        number++;
    }
    tn__text_put(page->text, "]");
}

static void html_item_steps(const tn__html_page *page, size_t count) {
    if (page->scene.phases != NULL) html_column_of(page, "role", count, step_role, false);
}

/* Adds a row [step, name] for each step at which a phase begins. */
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
    html_column_of(page, "reads", items, step_reads, false);
    html_column_of(page, "step", reads, step_reader, false);
    tn__text_put(page->text, "}");
}

/* Adds the times at which a run reached each step, in picoseconds from its start. They are always
 * an array, even if all are equal. */
static void step_clock(const tn__html_page *page) {
    tn__text_printf(page->text, ",\n\"clock\":{\"name\":\"%s\",\"reach\":[",
                    page->measured ? "measured" : "predicted");
    for (size_t row = 0; row <= tn__step_count(page->scene.report); row++) {
        if (row > 0) tn__text_put(page->text, ",");
        html_integer(page->text, step_reach(page, row));
    }
    tn__text_put(page->text, "]}");
}

static void html_steps(const tn__html_page *page) {
    const tn_report *report = page->scene.report;
    step_phases(page);
    if (report->occupancy != NULL) step_uses(page);
    if (page->run.reach != NULL) step_clock(page);
    if (report->static_bytes > 0) {
        tn__text_put(page->text, ",\n\"static\":");
        html_integer(page->text, report->static_bytes);
    }
    if (report->device_bytes == 0) return;
    tn__text_put(page->text, ",\n\"device\":[");
    tn__text_json(page->text, report->device != NULL ? report->device : "");
    tn__text_put(page->text, ",");
    html_integer(page->text, report->device_bytes);
    tn__text_put(page->text, "]");
}

/* --- the plan as columns of JSON -------------------------------------------------------------- */

static const tn_body *html_body(const tn__html_page *page, size_t row) {
    return tn_problem_body(page->scene.report->problem, (tn_body_id)row);
}
#define HTML_GET(name, expression)                                                                 \
    static uint64_t html_##name(const tn__html_page *page, size_t row) { return expression; }
HTML_GET(body_size, html_body(page, row)->size)
HTML_GET(body_bank, page->scene.report->layout->bank[row])
HTML_GET(body_align, html_body(page, row)->alignment)
HTML_GET(body_first, html_time(page, html_body(page, row)->first))
HTML_GET(body_last, html_time(page, html_body(page, row)->last))
HTML_GET(body_offset, page->scene.report->layout->offset[row])
HTML_GET(piece_body, page->scene.pieces[row].body)
HTML_GET(piece_first, html_time(page, page->scene.pieces[row].piece.first))
HTML_GET(piece_last, html_time(page, page->scene.pieces[row].piece.last))
HTML_GET(piece_lo, page->scene.pieces[row].piece.lo)
HTML_GET(piece_hi, page->scene.pieces[row].piece.hi)
HTML_GET(name, page->item_name[row])
HTML_GET(type, page->item_type[row])
HTML_GET(shape_of, page->item_shape[row])
HTML_GET(note, page->item_note[row])
HTML_GET(kind, page->kind_number[page->scene.items[row].kind])
HTML_GET(body_of, page->scene.items[row].body)
HTML_GET(first, html_time(page, page->scene.items[row].first))
HTML_GET(last, html_time(page, page->scene.items[row].last))
HTML_GET(lo, page->scene.items[row].lo)
HTML_GET(hi, page->scene.items[row].hi)
HTML_GET(bytes, page->scene.items[row].bytes)
HTML_GET(share, page->scene.items[row].share)
HTML_GET(step, page->scene.items[row].step)
HTML_GET(source, page->scene.items[row].source)
HTML_GET(step_type, page->step_type[row])
HTML_GET(step_name, page->step_name[row])
HTML_GET(curve_at, html_time(page, page->curve.at[row]))
HTML_GET(curve_live, page->curve.live[row])

/* Returns the flags of an item as bits, in the order of FLAG in page/data.js. */
static uint64_t html_flags(const tn__html_page *page, size_t row) {
    const tn__report_item *item = &page->scene.items[row];
    bool bounded = item->tensor && item->tensor->flags & TN_TENSOR_BOUND;
    return (uint64_t)bounded | (uint64_t)item->whole << 1 | (uint64_t)item->alias << 2;
}

/* --- the data of the page as a whole --- */

static void html_numbers(const tn__html_page *page) {
    tn__text *text = page->text;
    const tn_layout *layout = page->scene.report->layout;
    tn__text_put(text, "{\"planner\":");
    tn__text_json(text, layout->planner ? layout->planner : "");
    tn__text_printf(text, ",\"status\":\"%s\",\"peak\":", tn_verdict_name(layout->verdict));
    html_integer(text, layout->peak);
    tn__text_put(text, ",\"bound\":");
    html_integer(text, layout->lower_bound);
    tn__text_put(text, ",\"naive\":");
    html_integer(text, page->scene.naive);
    tn__text_put(text, ",\"time\":[\"");
    tn__words_signed(text, page->scene.first);
    tn__text_put(text, "\",");
    html_integer(text, html_time(page, page->scene.last));
    tn__text_put(text, "],\"peak_time\":");
    html_integer(text,
                 page->curve.count ? html_time(page, tn__peak_at(&page->scene, &page->curve)) : 0);
}

/* Adds the kinds that have bytes or items. The last field of a row says whether the kind is outside
 * the arena. */
static void html_kinds(tn__html_page *page) {
    tn__text_put(page->text, ",\n\"kinds\":[");
    uint32_t number = 0;
    for (uint32_t kind = 0; kind < TN__KIND_COUNT; kind++) {
        const tn__scene *scene = &page->scene;
        if (scene->total[kind] == 0 && !scene->occurs[kind]) continue;
        page->kind_number[kind] = number;
        const bool is_unknown = kind == TN__KIND_BUFFER && scene->report->marks != NULL;
        tn__text_printf(page->text, "%s[\"%s\",", number ? "," : "",
                        is_unknown ? "unknown" : tn__kind_text(kind));
        html_integer(page->text, scene->total[kind]);
        tn__text_put(page->text, scene->occurs[kind] ? ",false]" : ",true]");
        number++;
    }
    tn__text_put(page->text, "]");
}

static void html_banks(const tn__html_page *page) {
    const tn_report *report = page->scene.report;
    tn__text_put(page->text, ",\n\"banks\":[");
    for (tn_bank_id id = 0; id < tn_problem_bank_count(report->problem); id++) {
        const tn_bank *bank = tn_problem_bank(report->problem, id);
        tn__text_put(page->text, id ? ",[" : "[");
        tn__text_json(page->text, bank->name);
        tn__text_put(page->text, ",");
        html_integer(page->text, bank->capacity);
        tn__text_put(page->text, ",");
        html_integer(page->text, report->layout->bank_peak[id]);
        tn__text_put(page->text, "]");
    }
    tn__text_put(page->text, "]");
}

static void html_open(const tn__html_page *page, const char *name, size_t count) {
    tn__text_printf(page->text, ",\n\"%s\":{\"count\":%zu", name, count);
}
static void html_close(const tn__html_page *page) { tn__text_put(page->text, "}"); }

/* Returns whether the page has a table of items. Without a model and without marks the items are
 * the buffers, and nothing else is known about them. */
static bool html_has_items(const tn__html_page *page) {
    return page->scene.report->occupancy != NULL || page->scene.report->marks != NULL;
}

static void html_bodies(const tn__html_page *page) {
    size_t count = tn_problem_count(page->scene.report->problem);
    html_open(page, "body", count);
    html_column(page, "size", count, html_body_size);
    html_column(page, "offset", count, html_body_offset);
    html_column(page, "bank", count, html_body_bank);
    html_column(page, "align", count, html_body_align);
    if (!html_has_items(page)) {
        html_column(page, "name", count, html_name);
        html_column(page, "first", count, html_body_first);
        html_column(page, "last", count, html_body_last);
    }
    html_close(page);
    html_open(page, "piece", page->scene.piece_count);
    html_column(page, "body", page->scene.piece_count, html_piece_body);
    html_column(page, "first", page->scene.piece_count, html_piece_first);
    html_column(page, "last", page->scene.piece_count, html_piece_last);
    html_column(page, "lo", page->scene.piece_count, html_piece_lo);
    html_column(page, "hi", page->scene.piece_count, html_piece_hi);
    html_close(page);
}

static void html_items(const tn__html_page *page) {
    size_t count = page->scene.item_count, steps = tn__step_count(page->scene.report);
    if (!html_has_items(page)) {
        tn__text_put(page->text, ",\n\"item\":null");
    } else {
        html_open(page, "item", count);
        html_column(page, "name", count, html_name);
        html_column(page, "kind", count, html_kind);
        html_item_steps(page, count);
        html_column(page, "body", count, html_body_of);
        html_column(page, "first", count, html_first);
        html_column(page, "last", count, html_last);
        html_column(page, "lo", count, html_lo);
        html_column(page, "hi", count, html_hi);
        html_column(page, "bytes", count, html_bytes);
        html_column(page, "share", count, html_share);
        html_column(page, "type", count, html_type);
        html_column(page, "shape", count, html_shape_of);
        html_column(page, "flags", count, html_flags);
        if (page->scene.report->marks) html_column(page, "note", count, html_note);
        html_column_of(page, "step", count, html_step, true);
        html_column_of(page, "source", count, html_source, true);
        html_close(page);
    }
    html_open(page, "step", steps);
    html_column(page, "type", steps, html_step_type);
    html_column(page, "name", steps, html_step_name);
    html_close(page);
}

/* For a snapshot: adds the failed requests, as rows [time, bytes of the request, requested bytes,
 * reserved bytes, free bytes of the device]. */
static void html_ooms(const tn__html_page *page) {
    const tn_report *report = page->scene.report;
    if (report->marks == NULL) return;
    tn__text_put(page->text, ",\n\"reserved\":");
    html_integer(page->text, report->reserved_peak);
    tn__text_put(page->text, ",\"ooms\":[");
    for (uint32_t i = 0; i < report->oom_count; i++) {
        const tn_report_oom *oom = &report->ooms[i];
        const uint64_t values[] = {oom->wanted, oom->requested, oom->reserved, oom->device_free};
        tn__text_printf(page->text, "%s[\"", i ? "," : "");
        tn__words_signed(page->text, oom->time);
        tn__text_put(page->text, "\"");
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            tn__text_put(page->text, ",");
            html_integer(page->text, values[k]);
        }
        tn__text_put(page->text, "]");
    }
    tn__text_put(page->text, "]");
}

void tn__html_data(tn__html_page *page) {
    html_numbers(page);
    html_ooms(page);
    html_kinds(page);
    html_roles(page);
    html_banks(page);
    html_bodies(page);
    html_items(page);
    html_open(page, "curve", page->curve.count);
    html_column(page, "at", page->curve.count, html_curve_at);
    html_column(page, "live", page->curve.count, html_curve_live);
    html_close(page);
    html_steps(page);
    tn__text_put(page->text, page->fit.size > 0 ? page->fit.data : "");
    tn__text_put(page->text, ",\n\"text\":[");
    for (size_t i = 0; i < page->string_count; i++) {
        if (i > 0) tn__text_add(page->text, ",", 1);
        tn__text_json(page->text, page->strings[i]);
    }
    tn__text_put(page->text, "]}");
}
