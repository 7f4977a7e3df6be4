/* html.c - writes the plan as one HTML page that needs no network.
 *
 * The template and the scripts of the page are in report/page and are embedded in the library. This
 * file fills in the template and numbers the strings of the plan, so that equal ones are stored
 * once. html_data.c writes the plan as columns of JSON, which page/data.js decodes.
 *
 * Cost: O(bytes written).
 */
#include "report/html.h"

#define HTML_FILE(name)                                                                            \
    extern const unsigned char tn__##name[];                                                       \
    extern const size_t tn__##name##_size;
HTML_FILE(plan_html)
HTML_FILE(plan_css)
HTML_FILE(compare_html)
HTML_FILE(compare_css)
HTML_FILE(compare_js)
/* The scripts of the page, in the order in which the browser reads them. */
/* clang-format off */
#define HTML_SCRIPTS(X)                                                                            \
    X(data_js) X(rects_js) X(groups_js) X(map_js) X(axes_js) X(curve_js) X(find_js) X(table_js)    \
    X(details_js) X(search_js) X(fit_js) X(link_js) X(address_js) X(keys_js) X(page_js)
/* clang-format on */
HTML_SCRIPTS(HTML_FILE)

/* --- strings --- */

static tn_status html_string(tn__html_page *page, const char *string, uint32_t *number,
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

static tn_status html_shape(tn__html_page *page, const tn__report_item *item, uint32_t *number,
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

static tn_status html_strings(tn__html_page *page, tn_error *error) {
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
    TN_TRY(html_string(page, "", &none, error)); /* the empty string gets number 0 */
    for (uint32_t i = 0; i < items; i++) {
        const tn__report_item *item = &scene->items[i];
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

/* --- filling the template of a page --- */

static void html_file(tn__text *text, const unsigned char *bytes, size_t size) {
    tn__text_add(text, (const char *)bytes, size);
}

static void html_script(tn__text *text) {
#define HTML_ADD(name) html_file(text, tn__##name, tn__##name##_size);
    HTML_SCRIPTS(HTML_ADD)
#undef HTML_ADD
}

/* Adds the digest of a script to the policy, which allows the browser to run that script. */
static void html_allow(tn__text *text, bool compares) {
    char source[TN__SHA256_SOURCE_MAX];
    tn__text script;
    tn__text_init(&script, text->context);
    if (compares)
        html_file(&script, tn__compare_js, tn__compare_js_size);
    else
        html_script(&script);
    if (script.failed)
        text->failed = true;
    else
        tn__text_printf(text, " '%s'", tn__sha256_source(script.data, script.size, source));
    tn__text_release(&script);
}

/* Writes the content security policy: nothing may be loaded, and only the page's own scripts may
 * run. Frames inherit this policy. */
static void html_policy(tn__text *text, bool compares) {
    tn__text_put(text, "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
                       "style-src 'unsafe-inline'; script-src");
    html_allow(text, false);
    if (compares) html_allow(text, true);
}

bool tn__html_is(const char *name, size_t length, const char *wanted) {
    return strlen(wanted) == length && memcmp(wanted, name, length) == 0;
}

void tn__html_template(tn__text *text, const unsigned char *file, tn__html_filler fill,
                       void *self) {
    const char *at = (const char *)file; /* an embedded file ends with a NUL */
    for (const char *open; (open = strstr(at, "{{")) != NULL;) {
        const char *close = strstr(open, "}}");
        tn_assert(close != NULL);
        tn__text_add(text, at, (size_t)(open - at));
        fill(self, open + 2, (size_t)(close - open - 2), text);
        at = close + 2;
    }
    tn__text_put(text, at);
}

/* --- a page with one plan --- */

static void html_text(const char *lines, tn__text *text) {
    if (lines == NULL) return;
    tn__text_put(text, "<details id=\"text\"><summary>Tables</summary><pre>");
    tn__text_xml(text, lines);
    tn__text_put(text, "</pre></details>");
}

static void html_fill(void *self, const char *name, size_t length, tn__text *text) {
    tn__html_page *page = self;
    if (tn__html_is(name, length, "title")) tn__text_xml(text, page->scene.report->input);
    if (tn__html_is(name, length, "style")) html_file(text, tn__plan_css, tn__plan_css_size);
    if (tn__html_is(name, length, "policy")) html_policy(text, false);
    if (tn__html_is(name, length, "script")) html_script(text);
    if (tn__html_is(name, length, "data")) tn__html_data(page);
    if (tn__html_is(name, length, "text")) html_text(page->scene.report->text, text);
}

static tn_status html_one(const tn_report *report, tn__text *text, tn_error *error) {
    tn__html_page page = {.text = text};
    tn__names_init(&page.names, report->context);
    tn_status status = tn__scene_make(&page.scene, report, error);
    if (status == TN_OK)
        status = tn__curve_make(&page.curve, report->problem, report->context, error);
    if (status == TN_OK) status = html_strings(&page, error);
    if (status == TN_OK) status = tn__scene_pieces(&page.scene, error);
    if (status == TN_OK) status = tn__html_step_make(&page, error);
    tn__text_init(&page.fit, report->context);
    if (status == TN_OK) status = tn__html_fit(&page.scene, &page.fit, error);
    if (status == TN_OK && page.fit.failed) status = tn__no_memory(error, "a page");
    if (status == TN_OK) tn__html_template(text, tn__plan_html, html_fill, &page);
    tn__text_release(&page.fit);
    tn__free(report->context, page.strings, page.string_room * sizeof *page.strings);
    tn__names_release(&page.names);
    tn__curve_release(&page.curve);
    tn__scene_release(&page.scene);
    return status;
}

/* --- a page that compares two plans --- */

typedef struct html_pair {
    const tn_report *reports[2]; /* the earlier plan and the new plan */
    tn__text pages[2];
} html_pair;

/* Writes the two pages as JSON: {"old":{"name":...,"page":"<!doctype html>..."},"new":...}. */
static void html_pair_pages(const html_pair *pair, tn__text *text) {
    for (int k = 0; k < 2; k++) {
        tn__text_put(text, k == 0 ? "{\"old\":{\"name\":" : ",\"new\":{\"name\":");
        tn__text_json(text, pair->reports[k]->input);
        tn__text_put(text, ",\"page\":");
        tn__text_json(text, pair->pages[k].data);
        tn__text_put(text, "}");
    }
    tn__text_put(text, "}");
}

static void html_pair_fill(void *self, const char *name, size_t length, tn__text *text) {
    const html_pair *pair = self;
    if (tn__html_is(name, length, "title")) tn__text_xml(text, pair->reports[1]->input);
    if (tn__html_is(name, length, "style")) html_file(text, tn__compare_css, tn__compare_css_size);
    if (tn__html_is(name, length, "policy")) html_policy(text, true);
    if (tn__html_is(name, length, "pages")) html_pair_pages(pair, text);
    if (tn__html_is(name, length, "script")) html_file(text, tn__compare_js, tn__compare_js_size);
}

static tn_status html_render(const tn_report *report, tn__text *text, tn_error *error) {
    if (report->before == NULL) return html_one(report, text, error);
    html_pair pair = {.reports = {report->before, report}};
    tn_status status = TN_OK;
    for (int k = 0; k < 2; k++) tn__text_init(&pair.pages[k], report->context);
    for (int k = 0; k < 2 && status == TN_OK; k++) {
        status = html_one(pair.reports[k], &pair.pages[k], error);
        if (status == TN_OK && pair.pages[k].failed) status = tn__no_memory(error, "a page");
    }
    if (status == TN_OK) tn__html_template(text, tn__compare_html, html_pair_fill, &pair);
    for (int k = 0; k < 2; k++) tn__text_release(&pair.pages[k]);
    return status;
}

const tn_report_format tn__report_format_html = {
    .name = "html",
    .suffix = ".html",
    .summary = "the picture as one page with zoom and search",
    .render = html_render,
};
