/* html_data.c - writes a plan as columns of JSON, which page/data.js decodes.
 *
 * A column with equal rows is stored as one value. An integer that a JavaScript number cannot hold
 * exactly is a string. Times count from the first time of the plan. Equal strings are stored once.
 */
#include "report/html.h"

#define HTML_EXACT ((uint64_t)1 << 53) /* integers below are exact in a double */

/* --- columns --- */

void tn__html_integer(tn__text *text, uint64_t value) {
    if (value >= HTML_EXACT) tn__text_put(text, "\"");
    tn__words_integer(text, value);
    if (value >= HTML_EXACT) tn__text_put(text, "\"");
}

/* A time as its distance from the first time of the plan. */
static uint64_t html_time(const tn__html_page *page, int64_t at) {
    return (uint64_t)at - (uint64_t)page->scene.first;
}

/* The value of a column without an entry; no index of an item or a step has it. */
#define HTML_NONE ((uint64_t)TN_NONE)

static void html_value(tn__text *text, uint64_t value, bool optional) {
    if (optional && value == HTML_NONE)
        tn__text_put(text, "-1");
    else
        tn__html_integer(text, value);
}

void tn__html_column(const tn__html_page *page, const char *name, size_t count, tn__html_get get,
                     bool optional) {
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
    tn__html_column(page, name, count, get, false);
}

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

/* page/data.js: FLAG. */
static uint64_t html_flags(const tn__html_page *page, size_t row) {
    const tn__item *item = &page->scene.items[row];
    bool bounded = item->tensor && item->tensor->flags & TN_TENSOR_BOUND;
    return (uint64_t)bounded | (uint64_t)item->whole << 1 | (uint64_t)item->alias << 2;
}

/* --- the data --- */

static void html_numbers(const tn__html_page *page) {
    tn__text *text = page->text;
    const tn_layout *layout = page->scene.report->layout;
    tn__text_put(text, "{\"planner\":");
    tn__text_json(text, layout->planner ? layout->planner : "");
    tn__text_printf(text, ",\"status\":\"%s\",\"peak\":", tn_verdict_name(layout->verdict));
    tn__html_integer(text, layout->peak);
    tn__text_put(text, ",\"bound\":");
    tn__html_integer(text, layout->lower_bound);
    tn__text_put(text, ",\"naive\":");
    tn__html_integer(text, page->scene.naive);
    tn__text_put(text, ",\"time\":[\"");
    tn__words_signed(text, page->scene.first);
    tn__text_put(text, "\",");
    tn__html_integer(text, html_time(page, page->scene.last));
    tn__text_put(text, "],\"peak_time\":");
    tn__html_integer(
        text, page->curve.count ? html_time(page, tn__peak_at(&page->scene, &page->curve)) : 0);
}

/* The kinds that have bytes or items; the last field says: not in the arena. */
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
        tn__html_integer(page->text, scene->total[kind]);
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
        tn__html_integer(page->text, bank->capacity);
        tn__text_put(page->text, ",");
        tn__html_integer(page->text, report->layout->bank_peak[id]);
        tn__text_put(page->text, "]");
    }
    tn__text_put(page->text, "]");
}

static void html_open(const tn__html_page *page, const char *name, size_t count) {
    tn__text_printf(page->text, ",\n\"%s\":{\"count\":%zu", name, count);
}
static void html_close(const tn__html_page *page) { tn__text_put(page->text, "}"); }

/* Without a model and without marks the bodies are the items, and nothing else is known of them. */
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
        tn__html_item_steps(page, count);
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
        tn__html_column(page, "step", count, html_step, true);
        tn__html_column(page, "source", count, html_source, true);
        html_close(page);
    }
    html_open(page, "step", steps);
    html_column(page, "type", steps, html_step_type);
    html_column(page, "name", steps, html_step_name);
    html_close(page);
}

/* Of a snapshot: [time, bytes of the request, requested, reserved, free on the device]. */
static void html_ooms(const tn__html_page *page) {
    const tn_report *report = page->scene.report;
    if (report->marks == NULL) return;
    tn__text_put(page->text, ",\n\"reserved\":");
    tn__html_integer(page->text, report->reserved_peak);
    tn__text_put(page->text, ",\"ooms\":[");
    for (uint32_t i = 0; i < report->oom_count; i++) {
        const tn_report_oom *oom = &report->ooms[i];
        const uint64_t values[] = {oom->wanted, oom->requested, oom->reserved, oom->device_free};
        tn__text_printf(page->text, "%s[\"", i ? "," : "");
        tn__words_signed(page->text, oom->time);
        tn__text_put(page->text, "\"");
        for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
            tn__text_put(page->text, ",");
            tn__html_integer(page->text, values[k]);
        }
        tn__text_put(page->text, "]");
    }
    tn__text_put(page->text, "]");
}

void tn__html_data(tn__html_page *page) {
    html_numbers(page);
    html_ooms(page);
    html_kinds(page);
    tn__html_roles(page);
    html_banks(page);
    html_bodies(page);
    html_items(page);
    html_open(page, "curve", page->curve.count);
    html_column(page, "at", page->curve.count, html_curve_at);
    html_column(page, "live", page->curve.count, html_curve_live);
    html_close(page);
    tn__html_step(page);
    tn__text_put(page->text, page->fit.size > 0 ? page->fit.data : "");
    tn__text_put(page->text, ",\n\"text\":[");
    for (size_t i = 0; i < page->string_count; i++) {
        if (i > 0) tn__text_add(page->text, ",", 1);
        tn__text_json(page->text, page->strings[i]);
    }
    tn__text_put(page->text, "]}");
}
