/* html.c - the picture as one page that opens without a network.
 *
 * The page itself lies in report/page and is embedded in the library; this file fills its template
 * in and writes the plan as columns of JSON, which page/data.js decodes. A column whose rows are
 * all equal is one value; an integer that a JavaScript number cannot hold exactly is a string;
 * times count from the first. Equal strings are stored once.
 *
 * Cost: O(bytes written); about 60 bytes per tensor.
 */
#include "report/format.h"

#define HTML_EXACT ((uint64_t)1 << 53) /* integers below are exact in a double */

#define HTML_FILE(name)                                                                            \
    extern const unsigned char tn__##name[];                                                       \
    extern const size_t tn__##name##_size;
HTML_FILE(plan_html)
HTML_FILE(plan_css)
HTML_FILE(data_js)
HTML_FILE(map_js)
HTML_FILE(curve_js)
HTML_FILE(find_js)
HTML_FILE(table_js)
HTML_FILE(fit_js)
HTML_FILE(link_js)
HTML_FILE(page_js)

typedef struct html_page {
    tn__text *text;
    tn__scene scene;
    tn__curve curve;
    tn__text fit;         /* rendered before, as it may fail */
    tn__names names;      /* string -> its number in strings */
    const char **strings; /* [string_count] */
    size_t string_count, string_room;
    uint32_t *item_name, *item_type, *item_shape; /* [item_count], numbers of strings */
    uint32_t *item_note;                          /* the same of marks */
    uint32_t *step_type, *step_name;              /* [step_count] */
    uint32_t kind_number[TN__KIND_COUNT];         /* place in the list of kinds that occur */
} html_page;

/* --- strings --- */

static tn_status html_string(html_page *page, const char *string, uint32_t *number,
                             tn_error *error) {
    uint32_t existing, fresh = (uint32_t)page->string_count;
    const tn_context *context = page->scene.report->context;
    if (!tn__reserve(context, &page->strings, &page->string_room, page->string_count + 1,
                     sizeof *page->strings) ||
        !tn__names_add(&page->names, string, strlen(string), fresh, &existing))
        return tn__no_memory(error, "the strings of a page");
    *number = existing == TN__NAMES_NONE ? fresh : existing;
    if (existing == TN__NAMES_NONE) page->strings[page->string_count++] = string;
    return TN_OK;
}

static tn_status html_shape(html_page *page, const tn__item *item, uint32_t *number,
                            tn_error *error) {
    tn__text shape;
    tn__text_init(&shape, page->scene.report->context);
    tn__words_shape(&shape, item->tensor);
    const char *kept =
        shape.size ? tn__arena_string(&page->scene.arena, shape.data, shape.size) : "";
    tn_status status = shape.failed || kept == NULL ? tn__no_memory(error, "the strings of a page")
                                                    : html_string(page, kept, number, error);
    tn__text_release(&shape);
    return status;
}

static tn_status html_strings(html_page *page, tn_error *error) {
    tn__scene *scene = &page->scene;
    uint32_t items = scene->item_count, steps = tn__step_count(scene->report), none;
    uint32_t *numbers =
        tn__arena_array(&scene->arena, 4 * (size_t)items + 2 * (size_t)steps + 1, sizeof *numbers);
    if (numbers == NULL) return tn__no_memory(error, "the strings of a page");
    page->item_name = numbers;
    page->item_type = page->item_name + items;
    page->item_shape = page->item_type + items;
    page->item_note = page->item_shape + items;
    page->step_type = page->item_note + items;
    page->step_name = page->step_type + steps;
    TN_TRY(html_string(page, "", &none, error)); /* number 0 */
    for (uint32_t i = 0; i < items; i++) {
        const tn__item *item = &scene->items[i];
        const char *type = item->tensor ? tn_dtype_name(item->tensor->dtype) : "";
        TN_TRY(html_string(page, item->name, &page->item_name[i], error));
        TN_TRY(html_string(page, type, &page->item_type[i], error));
        TN_TRY(html_shape(page, item, &page->item_shape[i], error));
        if (item->note) TN_TRY(html_string(page, item->note, &page->item_note[i], error));
    }
    for (uint32_t i = 0; i < steps; i++) {
        tn__step step = tn__step_of(scene->report, i);
        TN_TRY(html_string(page, step.type, &page->step_type[i], error));
        TN_TRY(html_string(page, step.name, &page->step_name[i], error));
    }
    return TN_OK;
}

/* --- columns --- */

static void html_integer(tn__text *text, uint64_t value) {
    if (value >= HTML_EXACT) tn__text_put(text, "\"");
    tn__words_integer(text, value);
    if (value >= HTML_EXACT) tn__text_put(text, "\"");
}

/* An instant as the distance from the first. */
static uint64_t html_time(const html_page *page, int64_t at) {
    return (uint64_t)at - (uint64_t)page->scene.first;
}

typedef uint64_t (*html_get)(const html_page *page, size_t row);

/* What a column gives where it has nothing; no such value is a number of an item or a step. */
#define HTML_NONE ((uint64_t)TN_NONE)

static void html_value(tn__text *text, uint64_t value, bool optional) {
    if (optional && value == HTML_NONE)
        tn__text_put(text, "-1");
    else
        html_integer(text, value);
}

static void html_any_column(const html_page *page, const char *name, size_t count, html_get get,
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
static void html_column(const html_page *page, const char *name, size_t count, html_get get) {
    html_any_column(page, name, count, get, false);
}

static const tn_body *html_body(const html_page *page, size_t row) {
    return tn_problem_body(page->scene.report->problem, (tn_body_id)row);
}
#define HTML_GET(name, expression)                                                                 \
    static uint64_t html_##name(const html_page *page, size_t row) { return expression; }
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
static uint64_t html_flags(const html_page *page, size_t row) {
    const tn__item *item = &page->scene.items[row];
    bool bounded = item->tensor && item->tensor->flags & TN_TENSOR_BOUND;
    return (uint64_t)bounded | (uint64_t)item->whole << 1 | (uint64_t)item->alias << 2;
}

/* --- the data --- */

static void html_numbers(const html_page *page) {
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

/* The kinds that have bytes or items; the last field says: not in the arena. */
static void html_kinds(html_page *page) {
    tn__text_put(page->text, ",\n\"kinds\":[");
    uint32_t number = 0;
    for (uint32_t kind = 0; kind < TN__KIND_COUNT; kind++) {
        const tn__scene *scene = &page->scene;
        if (scene->total[kind] == 0 && !scene->occurs[kind]) continue;
        page->kind_number[kind] = number;
        tn__text_printf(page->text, "%s[\"%s\",", number ? "," : "", tn__kind_text(kind));
        html_integer(page->text, scene->total[kind]);
        tn__text_put(page->text, scene->occurs[kind] ? ",false]" : ",true]");
        number++;
    }
    tn__text_put(page->text, "]");
}

static void html_banks(const html_page *page) {
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

static void html_open(const html_page *page, const char *name, size_t count) {
    tn__text_printf(page->text, ",\n\"%s\":{\"count\":%zu", name, count);
}
static void html_close(const html_page *page) { tn__text_put(page->text, "}"); }

/* Without a model and without marks the bodies are the items, and nothing more is known of them. */
static bool html_has_items(const html_page *page) {
    return page->scene.report->occupancy != NULL || page->scene.report->marks != NULL;
}

static void html_bodies(const html_page *page) {
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

static void html_items(const html_page *page) {
    size_t count = page->scene.item_count, steps = tn__step_count(page->scene.report);
    if (!html_has_items(page)) {
        tn__text_put(page->text, ",\n\"item\":null");
    } else {
        html_open(page, "item", count);
        html_column(page, "name", count, html_name);
        html_column(page, "kind", count, html_kind);
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
        html_any_column(page, "step", count, html_step, true);
        html_any_column(page, "source", count, html_source, true);
        html_close(page);
    }
    html_open(page, "step", steps);
    html_column(page, "type", steps, html_step_type);
    html_column(page, "name", steps, html_step_name);
    html_close(page);
}

static void html_data(html_page *page) {
    html_numbers(page);
    html_kinds(page);
    html_banks(page);
    html_bodies(page);
    html_items(page);
    html_open(page, "curve", page->curve.count);
    html_column(page, "at", page->curve.count, html_curve_at);
    html_column(page, "live", page->curve.count, html_curve_live);
    html_close(page);
    tn__text_put(page->text, page->fit.size > 0 ? page->fit.data : "");
    tn__text_put(page->text, ",\n\"text\":[");
    for (size_t i = 0; i < page->string_count; i++) {
        if (i > 0) tn__text_add(page->text, ",", 1);
        tn__text_json(page->text, page->strings[i]);
    }
    tn__text_put(page->text, "]}");
}

/* --- the template --- */

static void html_file(tn__text *text, const unsigned char *bytes, size_t size) {
    tn__text_add(text, (const char *)bytes, size);
}

static void html_script(tn__text *text) {
    html_file(text, tn__data_js, tn__data_js_size);
    html_file(text, tn__map_js, tn__map_js_size);
    html_file(text, tn__curve_js, tn__curve_js_size);
    html_file(text, tn__find_js, tn__find_js_size);
    html_file(text, tn__table_js, tn__table_js_size);
    html_file(text, tn__fit_js, tn__fit_js_size);
    html_file(text, tn__link_js, tn__link_js_size);
    html_file(text, tn__page_js, tn__page_js_size);
}

/* Nothing may be loaded, and no script may run but ours. */
static void html_policy(html_page *page) {
    char source[TN__SHA256_SOURCE_MAX];
    tn__text script;
    tn__text_init(&script, page->scene.report->context);
    html_script(&script);
    if (script.failed) {
        page->text->failed = true;
    } else {
        tn__sha256_source(script.data, script.size, source);
        tn__text_printf(page->text,
                        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
                        "style-src 'unsafe-inline'; script-src '%s'",
                        source);
    }
    tn__text_release(&script);
}

/* Adds what stands for {{name}} in the template; a name that there is not adds nothing. */
static void html_fill(html_page *page, const char *name, size_t length) {
    static const char *const names[] = {"title", "style", "policy", "script", "data"};
    size_t part = 0;
    while (part < 5 && (strlen(names[part]) != length || memcmp(names[part], name, length) != 0))
        part++;
    tn_assert(part < 5);
    if (part == 0) tn__text_xml(page->text, page->scene.report->input);
    if (part == 1) html_file(page->text, tn__plan_css, tn__plan_css_size);
    if (part == 2) html_policy(page);
    if (part == 3) html_script(page->text);
    if (part == 4) html_data(page);
}

static void html_template(html_page *page) {
    const char *at = (const char *)tn__plan_html; /* embedded files end with a NUL */
    for (const char *open; (open = strstr(at, "{{")) != NULL;) {
        const char *close = strstr(open, "}}");
        tn_assert(close != NULL);
        tn__text_add(page->text, at, (size_t)(open - at));
        html_fill(page, open + 2, (size_t)(close - open - 2));
        at = close + 2;
    }
    tn__text_put(page->text, at);
}

static tn_status html_render(const tn_report *report, tn__text *text, tn_error *error) {
    html_page page = {.text = text};
    tn__names_init(&page.names, report->context);
    tn_status status = tn__scene_make(&page.scene, report, error);
    if (status == TN_OK)
        status = tn__curve_make(&page.curve, report->problem, report->context, error);
    if (status == TN_OK) status = html_strings(&page, error);
    if (status == TN_OK) status = tn__scene_pieces(&page.scene, error);
    tn__text_init(&page.fit, report->context);
    if (status == TN_OK) status = tn__html_fit(&page.scene, &page.fit, error);
    if (status == TN_OK && page.fit.failed) status = tn__no_memory(error, "a page");
    if (status == TN_OK) html_template(&page);
    tn__text_release(&page.fit);
    tn__free(report->context, page.strings, page.string_room * sizeof *page.strings);
    tn__names_release(&page.names);
    tn__curve_release(&page.curve);
    tn__scene_release(&page.scene);
    return status;
}

const tn_report_format tn__report_format_html = {
    .name = "html",
    .suffix = ".html",
    .summary = "the picture as one page: zoom, search, with and without reuse",
    .render = html_render,
};
