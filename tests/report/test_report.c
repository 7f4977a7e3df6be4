/* test_report.c - every format of a problem without a model: what is written is what was planned,
 * always the same bytes, and hostile names stay names. */
#include "report_tools.h"

#include <jansson.h>
#include <unistd.h>

#define HOSTILE_COUNT 8
static const char *const hostile[HOSTILE_COUNT] = {
    "</script><script>alert(1)</script>",
    "\"quoted\" 'single' \\back\\",
    "<!-- <b> & ]]> -->",
    "line\nfeed\ttab\r\x01\x1b[31m",
    "bad \xff\xc0\xaf utf-8 \xed\xa0\x80",
    "\xe5\xb1\x82\xe4\xb8\x80 caf\xc3\xa9 \xf0\x9f\x98\x80",
    "",
    ("a very long name that goes on and on, longer than any column of any table, and then some more"
     " of it so that nobody can say that it was not long enough to be shortened in the middle"),
};

static tn_problem *hostile_problem(void) {
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (int i = 0; i < HOSTILE_COUNT; i++) {
        tn_body body = {.size = 1000u + (uint64_t)i, .first = i, .last = i + 5, .name = hostile[i]};
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    }
    return problem;
}

/* Times at the ends of int64 and sizes beyond what a double holds exactly. */
static tn_problem *huge_problem(void) {
    tn_problem *problem;
    const tn_body bodies[] = {
        {.size = ((uint64_t)1 << 60) + 1, .first = INT64_MIN, .last = -7, .name = "before"},
        {.size = ((uint64_t)1 << 61) + 3, .first = -1, .last = INT64_MAX, .name = "after"},
        {.size = 0, .first = 0, .last = 1, .name = "nothing"},
        {.size = 1, .first = INT64_MAX - 1, .last = INT64_MAX, .name = "end"},
    };
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++)
        assert_ok(tn_problem_add(problem, &bodies[i], NULL, &failure));
    return problem;
}

static const char *const all_formats[] = {"table", "summary", "json", "csv", "html", "svg"};

static json_t *parsed(const char *text, size_t size) {
    json_error_t error;
    json_t *root = json_loadb(text, size, 0, &error);
    if (root == NULL) print_error("%d:%d: %s\n", error.line, error.column, error.text);
    assert_non_null(root);
    return root;
}

static uint64_t integer_of(const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

/* --- json --- */

static void assert_pieces(const json_t *buffer, const tn_body *body) {
    const json_t *pieces = json_object_get(buffer, "pieces");
    bool full = body->piece_count == 1 && body->pieces->lo == 0 && body->pieces->hi == body->size;
    if (body->size == 0 || full) {
        assert_null(pieces);
        return;
    }
    assert_int_equal(json_array_size(pieces), body->piece_count);
    for (uint32_t p = 0; p < body->piece_count; p++) {
        const json_t *piece = json_array_get(pieces, p);
        assert_int_equal(json_integer_value(json_array_get(piece, 0)), body->pieces[p].first);
        assert_int_equal(json_integer_value(json_array_get(piece, 1)), body->pieces[p].last);
        assert_int_equal(json_integer_value(json_array_get(piece, 2)), body->pieces[p].lo);
        assert_int_equal(json_integer_value(json_array_get(piece, 3)), body->pieces[p].hi);
    }
}

static void the_json_plan_holds_the_problem_and_its_offsets(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        tn_problem *problem = random_problem(seed, (uint32_t)seed % 23);
        tn_layout layout = stacked_layout(problem);
        tn_report report = report_of(problem, &layout);
        char *text = rendered(&report, "json");
        json_t *root = parsed(text, strlen(text));
        assert_string_equal(json_string_value(json_object_get(root, "format")), "mem-plan");
        const json_t *pools = json_object_get(root, "pools");
        assert_int_equal(json_array_size(pools), tn_problem_bank_count(problem));
        for (uint32_t id = 0; id < tn_problem_bank_count(problem); id++) {
            const json_t *pool = json_array_get(pools, id);
            uint64_t capacity = tn_problem_bank(problem, id)->capacity;
            assert_int_equal(integer_of(pool, "peak"), layout.bank_peak[id]);
            assert_int_equal(integer_of(pool, "lower_bound"), layout.bank_lower_bound[id]);
            if (capacity)
                assert_int_equal(integer_of(pool, "capacity"), capacity);
            else
                assert_true(json_is_null(json_object_get(pool, "capacity")));
        }
        const json_t *buffers = json_object_get(root, "buffers");
        assert_int_equal(json_array_size(buffers), tn_problem_count(problem));
        for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
            const tn_body *body = tn_problem_body(problem, b);
            const json_t *buffer = json_array_get(buffers, b);
            assert_int_equal(integer_of(buffer, "id"), b);
            assert_int_equal(integer_of(buffer, "size"), body->size);
            assert_int_equal(integer_of(buffer, "first"), body->first);
            assert_int_equal(integer_of(buffer, "last_excl"), body->last);
            assert_int_equal(integer_of(buffer, "pool"), body->bank);
            assert_int_equal(integer_of(buffer, "offset"), layout.offset[b]);
            assert_int_equal(integer_of(buffer, "alignment"), body->alignment);
            assert_string_equal(json_string_value(json_object_get(buffer, "kind")), "buffer");
            assert_pieces(buffer, body);
        }
        const json_t *result = json_object_get(root, "result");
        assert_int_equal(integer_of(result, "peak"), layout.peak);
        assert_int_equal(integer_of(result, "naive"), tn_problem_naive(problem));
        json_decref(root);
        tn_report_release(text);
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

static void hostile_names_come_back_from_json(void **state) {
    (void)state;
    tn_problem *problem = hostile_problem();
    tn_layout layout = stacked_layout(problem);
    tn_report report = report_of(problem, &layout);
    report.input = hostile[0];
    char *text = rendered(&report, "json");
    json_t *root = parsed(text, strlen(text));
    assert_string_equal(json_string_value(json_object_get(root, "input")), hostile[0]);
    const json_t *buffers = json_object_get(root, "buffers");
    for (int i = 0; i < HOSTILE_COUNT; i++) {
        if (i == 4) continue; /* bad UTF-8 has no place in JSON: replaced */
        const json_t *name = json_object_get(json_array_get(buffers, (size_t)i), "name");
        assert_string_equal(json_string_value(name), hostile[i]);
    }
    json_decref(root);
    tn_report_release(text);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

/* --- summary --- */

static void the_summary_has_exactly_its_keys(void **state) {
    (void)state;
    static const char *const keys[] = {
        "format",      "version", "input", "planner", "status",  "objective",         "peak",
        "lower_bound", "gap",     "naive", "by_kind", "at_peak", "buffers",           "tensors",
        "bounded",     "seconds", "seed",  "work",    "banks",   "dependencies_added"};
    tn_problem *problem = random_problem(3, 20);
    tn_layout layout = stacked_layout(problem);
    const tn_stage stages[] = {{"import", 0.0123456}, {"plan", 1.5}};
    tn_report report = report_of(problem, &layout);
    report.stages = stages;
    report.stage_count = 2;
    char *text = rendered(&report, "summary");
    json_t *root = parsed(text, strlen(text));
    assert_int_equal(json_object_size(root), sizeof keys / sizeof *keys);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        assert_non_null(json_object_get(root, keys[i]));
    assert_string_equal(json_string_value(json_object_get(root, "format")), "tenure-plan");
    assert_int_equal(integer_of(root, "version"), 1);
    assert_int_equal(integer_of(root, "peak"), layout.peak);
    assert_int_equal(integer_of(root, "lower_bound"), layout.lower_bound);
    assert_int_equal(integer_of(root, "naive"), tn_problem_naive(problem));
    assert_int_equal(integer_of(root, "buffers"), 20);
    assert_true(json_is_null(json_object_get(root, "tensors")));
    assert_int_equal(json_object_size(json_object_get(root, "by_kind")), 0);
    double gap = json_number_value(json_object_get(root, "gap"));
    assert_true(gap == (double)layout.peak / (double)layout.lower_bound - 1);
    const json_t *seconds = json_object_get(root, "seconds");
    assert_true(json_number_value(json_object_get(seconds, "import")) == 0.012346);
    assert_true(json_number_value(json_object_get(seconds, "plan")) == 1.5);
    json_decref(root);
    tn_report_release(text);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

static void the_gap_of_nothing_is_zero(void **state) {
    (void)state;
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    tn_layout layout = stacked_layout(problem);
    tn_report report = report_of(problem, &layout);
    char *text = rendered(&report, "summary");
    json_t *root = parsed(text, strlen(text));
    assert_true(json_number_value(json_object_get(root, "gap")) == 0);
    json_decref(root);
    tn_report_release(text);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

/* --- html --- */

static json_t *page_data(const char *page) {
    static const char open[] = "<script type=\"application/json\" id=\"data\">";
    const char *start = strstr(page, open);
    assert_non_null(start);
    start += sizeof open - 1;
    const char *end = strstr(start, "</script>");
    assert_non_null(end);
    return parsed(start, (size_t)(end - start));
}

/* Row of a column: an array, or one value for all rows; integers beyond 2^53 are strings. */
static uint64_t row_of(const json_t *object, const char *table, const char *column, size_t row) {
    const json_t *value = json_object_get(json_object_get(object, table), column);
    if (json_is_array(value)) value = json_array_get(value, row);
    if (json_is_string(value)) return strtoull(json_string_value(value), NULL, 10);
    assert_true(json_is_integer(value));
    assert_true(json_integer_value(value) < (json_int_t)1 << 53);
    return (uint64_t)json_integer_value(value);
}

static void assert_page(const tn_problem *problem, const tn_layout *layout, const char *page) {
    json_t *data = page_data(page);
    int64_t zero = (int64_t)strtoll(
        json_string_value(json_array_get(json_object_get(data, "time"), 0)), NULL, 10);
    for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
        const tn_body *body = tn_problem_body(problem, b);
        assert_true(row_of(data, "body", "offset", b) == layout->offset[b]);
        assert_true(row_of(data, "body", "size", b) == body->size);
        assert_true(row_of(data, "body", "bank", b) == body->bank);
        assert_true((int64_t)(row_of(data, "body", "first", b) + (uint64_t)zero) == body->first);
        assert_true((int64_t)(row_of(data, "body", "last", b) + (uint64_t)zero) == body->last);
        const json_t *text = json_object_get(data, "text");
        const char *name = json_string_value(json_array_get(text, row_of(data, "body", "name", b)));
        if (body->name && strstr(body->name, "utf-8") == NULL)
            assert_string_equal(name, body->name);
    }
    json_decref(data);
}

static void the_page_holds_every_body_exactly(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed <= 30; seed++) {
        tn_problem *problem = seed == 0 ? huge_problem() : random_problem(seed, (uint32_t)seed);
        tn_layout layout = stacked_layout(problem);
        tn_report report = report_of(problem, &layout);
        char *page = rendered(&report, "html");
        assert_page(problem, &layout, page);
        tn_report_release(page);
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

static size_t occurrences(const char *text, const char *word) {
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) count++;
    return count;
}

static void names_cannot_break_out_of_the_page(void **state) {
    (void)state;
    tn_problem *plain = random_problem(1, 5), *problem = hostile_problem();
    tn_layout plain_layout = stacked_layout(plain), layout = stacked_layout(problem);
    tn_report plain_report = report_of(plain, &plain_layout), report = report_of(problem, &layout);
    report.input = hostile[0];
    report.text = "</pre><script>&\n<b>";
    char *expected = rendered(&plain_report, "html"), *page = rendered(&report, "html");
    assert_non_null(strstr(page, "<pre>&lt;/pre&gt;&lt;script&gt;&amp;\n&lt;b&gt;</pre>"));
    assert_null(strstr(expected, "<pre>"));
    static const char *const marks[] = {"<script", "</script", "<!--", "<b>", "\x1b"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        assert_int_equal(occurrences(page, marks[i]), occurrences(expected, marks[i]));
    assert_page(problem, &layout, page);
    tn_report_release(expected);
    tn_report_release(page);
    tn_layout_release(&plain_layout);
    tn_layout_release(&layout);
    tn_problem_destroy(plain);
    tn_problem_destroy(problem);
}

static void the_policy_names_the_script_of_the_page(void **state) {
    (void)state;
    tn_problem *problem = random_problem(2, 3);
    tn_layout layout = stacked_layout(problem);
    tn_report report = report_of(problem, &layout);
    char *page = rendered(&report, "html"), source[TN__SHA256_SOURCE_MAX];
    const char *script = strstr(page, "<script>") + strlen("<script>");
    const char *end = strstr(script, "</script>");
    tn__sha256_source(script, (size_t)(end - script), source);
    assert_non_null(strstr(page, source));
    assert_non_null(strstr(page, "default-src 'none'"));
    static const char *const outside[] = {"http://", "https://", "src=", "@import", "url("};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        assert_int_equal(occurrences(page, outside[i]), 0);
    tn_report_release(page);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

/* --- svg: a small check that XML is well formed --- */

static const char *xml_text(const char *at, char until) {
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (; *at && *at != until; at++) {
        unsigned char c = (unsigned char)*at;
        bool known = c != '&';
        for (int i = 0; i < 5 && !known; i++)
            known = strncmp(at, entities[i], strlen(entities[i])) == 0;
        assert_true(known);
        assert_true(c != '<' || until == '<');
        assert_true(c >= 0x20 || c == '\n' || c == '\t' || c == '\r');
    }
    return at;
}

/* Tags nest, attributes are quoted, entities are known, no character that XML forbids. */
static void assert_xml(const char *text) {
    const char *open[64];
    size_t lengths[64], depth = 0;
    for (const char *at = text; *(at = xml_text(at, '<'));) {
        bool closing = at[1] == '/';
        const char *name = at + 1 + closing;
        size_t length = strcspn(name, " />\n");
        assert_true(length > 0);
        if (closing) {
            assert_true(depth > 0 && lengths[depth - 1] == length);
            assert_memory_equal(open[depth - 1], name, length);
            depth--;
            at = strchr(name, '>') + 1;
            continue;
        }
        for (at = name + length; *at == ' ';) {
            at = strchr(at, '=');
            assert_non_null(at);
            assert_int_equal(at[1], '"');
            at = xml_text(at + 2, '"') + 1;
        }
        if (*at == '/') {
            at += 2;
            continue;
        }
        assert_int_equal(*at++, '>');
        assert_true(depth < 64);
        open[depth] = name;
        lengths[depth++] = length;
    }
    assert_int_equal(depth, 0);
}

static void the_svg_is_well_formed_whatever_the_names(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed <= 12; seed++) {
        tn_problem *problem = seed == 0   ? huge_problem()
                              : seed == 1 ? hostile_problem()
                                          : random_problem(seed, (uint32_t)(seed - 2) * 50);
        tn_layout layout = stacked_layout(problem);
        tn_report report = report_of(problem, &layout);
        report.input = hostile[seed % HOSTILE_COUNT];
        char *text = rendered(&report, "svg");
        assert_xml(text);
        tn_report_release(text);
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

static void the_svg_tells_how_many_rectangles_it_drew(void **state) {
    (void)state;
    for (uint32_t count = 10; count <= 20000; count = count * 20 + 100) {
        tn_problem *problem;
        uint64_t *offsets = calloc(count, sizeof *offsets);
        assert_ok(tn_problem_create(NULL, &problem, &failure));
        for (uint32_t i = 0; i < count; i++) {
            tn_body body = {.size = 1u + i % 7, .first = i, .last = i + 1 + i % 5};
            assert_ok(tn_problem_add(problem, &body, NULL, &failure));
            offsets[i] = (uint64_t)(i % 5) * 8;
        }
        tn_layout layout;
        assert_ok(tn_layout_from_offsets(problem, offsets, &layout, &failure));
        tn_report report = report_of(problem, &layout);
        char *text = rendered(&report, "svg");
        unsigned items, buffers, rects, single, merged;
        const char *desc = strstr(text, "<desc>");
        assert_int_equal(sscanf(desc,
                                "<desc>%u items in %u buffers. Of %u rectangles, %u are drawn one "
                                "by one; %u",
                                &items, &buffers, &rects, &single, &merged),
                         5);
        assert_int_equal(buffers, count);
        assert_int_equal(rects, count);
        assert_int_equal(single + merged, rects);
        assert_int_equal(occurrences(desc, "<title>"), single); /* one tooltip each */
        assert_true(strlen(text) < 2000000);
        tn_report_release(text);
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
        free(offsets);
    }
}

/* --- table --- */

static void the_table_keeps_to_its_width_and_to_printable_text(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed <= 12; seed++) {
        tn_problem *problem = seed == 0   ? huge_problem()
                              : seed == 1 ? hostile_problem()
                                          : random_problem(seed, (uint32_t)(seed - 2) * 9);
        tn_layout layout = stacked_layout(problem);
        tn_report report = report_of(problem, &layout);
        report.input = hostile[seed % HOSTILE_COUNT];
        char *text = rendered(&report, "table");
        size_t columns = 0;
        for (const char *at = text; *at; at++) {
            unsigned char c = (unsigned char)*at;
            assert_true(c >= 0x20 || c == '\n');
            if ((c & 0xc0) != 0x80) columns = c == '\n' ? 0 : columns + 1;
            assert_true(columns <= 100 || seed == 0); /* huge numbers may be wider */
        }
        tn_report_release(text);
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

/* --- all formats --- */

static void the_same_plan_gives_the_same_bytes(void **state) {
    (void)state;
    for (size_t f = 0; f < sizeof all_formats / sizeof *all_formats; f++) {
        char *texts[2];
        for (int round = 0; round < 2; round++) {
            bool csv = strcmp(all_formats[f], "csv") == 0;
            tn_problem *problem = csv ? plain_problem(77, 300) : random_problem(77, 300);
            tn_layout layout = stacked_layout(problem);
            layout.seconds = round; /* the clock is no part of a plan */
            tn_report report = report_of(problem, &layout);
            texts[round] = rendered(&report, all_formats[f]);
            tn_layout_release(&layout);
            tn_problem_destroy(problem);
        }
        assert_string_equal(texts[0], texts[1]);
        tn_report_release(texts[0]);
        tn_report_release(texts[1]);
    }
}

static void assert_survives(const tn_report *given, const char *format) {
    size_t failures = 0;
    for (size_t fail_at = 1;; fail_at++) {
        counting count = {.fail_at = fail_at};
        tn_context context = counting_context(&count);
        tn_report report = *given;
        report.context = &context;
        char *text = (char *)0x1;
        size_t size = 12345;
        tn_status status = tn_report_render(&report, format, &text, &size, &failure);
        if (status == TN_OK) tn_report_release(text);
        assert_int_equal(count.blocks, 0);
        assert_int_equal(count.bytes, 0);
        if (status == TN_OK) break;
        assert_int_equal(status, TN_E_NO_MEMORY);
        assert_int_equal(failure.status, TN_E_NO_MEMORY);
        assert_ptr_equal(text, (char *)0x1);
        assert_int_equal(size, 12345);
        failures++;
    }
    assert_true(failures > 0);
}

static void a_report_that_runs_out_of_memory_leaves_nothing(void **state) {
    (void)state;
    tn_problem *problems[] = {random_problem(9, 40), plain_problem(9, 40)};
    for (int p = 0; p < 2; p++) {
        tn_layout layout = stacked_layout(problems[p]);
        tn_report report = report_of(problems[p], &layout);
        for (size_t f = 0; f < sizeof all_formats / sizeof *all_formats; f++) {
            if (p == 1 || strcmp(all_formats[f], "csv") != 0)
                assert_survives(&report, all_formats[f]);
        }
        tn_layout_release(&layout);
        tn_problem_destroy(problems[p]);
    }
}

static void every_format_is_listed_with_its_words(void **state) {
    (void)state;
    uint32_t files = 0;
    for (uint32_t i = 0; i < tn_report_format_count(); i++) {
        assert_true(strlen(tn_report_format_name(i)) > 0);
        assert_true(strlen(tn_report_format_summary(i)) > 0);
        files += tn_report_format_suffix(i)[0] == '.';
    }
    assert_true(files >= 4);
    assert_string_equal(tn_report_format_name(tn_report_format_count()), "");
}

static void what_cannot_be_reported_is_said(void **state) {
    (void)state;
    tn_problem *problem = random_problem(4, 6), *other = random_problem(4, 7);
    tn_layout layout = stacked_layout(problem);
    tn_report report = report_of(problem, &layout);
    char *text = NULL;
    assert_int_equal(tn_report_render(&report, "docx", &text, NULL, &failure), TN_E_UNKNOWN);
    assert_non_null(strstr(failure.message, "html"));
    assert_int_equal(tn_report_write(&report, "plan.docx", &failure), TN_E_UNSUPPORTED);
    assert_non_null(strstr(failure.message, ".json"));
    assert_non_null(strstr(failure.message, ".svg"));
    report.problem = other;
    assert_int_equal(tn_report_render(&report, "json", &text, NULL, &failure), TN_E_INVALID);
    report.problem = NULL;
    assert_int_equal(tn_report_render(&report, "json", &text, NULL, &failure), TN_E_INVALID);
    assert_null(text);
    tn_report_release(NULL);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
    tn_problem_destroy(other);
}

static void files_hold_what_is_rendered(void **state) {
    (void)state;
    tn_problem *problem = plain_problem(6, 30);
    tn_layout layout = stacked_layout(problem);
    tn_report report = report_of(problem, &layout);
    for (uint32_t i = 0; i < tn_report_format_count(); i++) {
        const char *suffix = tn_report_format_suffix(i);
        char path[80];
        if (*suffix == '\0' || tn_report_format_of_run(i)) continue; /* printed; of runs */
        if (strcmp(suffix, ".tflite") == 0) continue;                /* test_model.c */
        if (strcmp(suffix, ".pte") == 0) continue;                   /* tests/foreign/pte.py */
        if (strcmp(suffix, ".nodes.json") == 0) continue;            /* tests/cli/node_data.py */
        snprintf(path, sizeof path, "/tmp/tenure-report-%ld%s", (long)getpid(), suffix);
        char *text = rendered(&report, tn_report_format_name(i));
        assert_ok(tn_report_write(&report, path, &failure));
        tn__file file;
        assert_ok(tn__file_map(path, &file, &failure));
        assert_int_equal(file.size, strlen(text));
        assert_memory_equal(file.bytes, text, file.size);
        tn__file_unmap(&file);
        unlink(path);
        tn_report_release(text);
    }
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

static void plans_read_back_have_the_same_offsets(void **state) {
    (void)state;
    static const char *const names[] = {"plan.json", "plan.csv"};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        tn_problem *problem = plain_problem(seed, (uint32_t)seed);
        tn_layout layout = stacked_layout(problem);
        tn_report report = report_of(problem, &layout);
        for (int n = 0; n < 2; n++) {
            tn_problem *again = NULL;
            uint64_t *offsets = NULL;
            char *text = rendered(&report, names[n] + 5);
            assert_ok(tn_problem_load_memory(names[n], text, strlen(text), NULL, &again, &offsets,
                                             &failure));
            assert_int_equal(tn_problem_count(again), seed);
            assert_non_null(offsets);
            for (uint32_t i = 0; i < seed; i++) {
                assert_int_equal(offsets[i], layout.offset[i]);
                assert_int_equal(tn_problem_body(again, i)->size,
                                 tn_problem_body(problem, i)->size);
                assert_string_equal(tn_problem_body(again, i)->name,
                                    tn_problem_body(problem, i)->name);
            }
            tn_offsets_release(NULL, offsets, (uint32_t)seed);
            tn_problem_destroy(again);
            tn_report_release(text);
        }
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_json_plan_holds_the_problem_and_its_offsets),
        cmocka_unit_test(hostile_names_come_back_from_json),
        cmocka_unit_test(the_summary_has_exactly_its_keys),
        cmocka_unit_test(the_gap_of_nothing_is_zero),
        cmocka_unit_test(the_page_holds_every_body_exactly),
        cmocka_unit_test(names_cannot_break_out_of_the_page),
        cmocka_unit_test(the_policy_names_the_script_of_the_page),
        cmocka_unit_test(the_svg_is_well_formed_whatever_the_names),
        cmocka_unit_test(the_svg_tells_how_many_rectangles_it_drew),
        cmocka_unit_test(the_table_keeps_to_its_width_and_to_printable_text),
        cmocka_unit_test(the_same_plan_gives_the_same_bytes),
        cmocka_unit_test(a_report_that_runs_out_of_memory_leaves_nothing),
        cmocka_unit_test(every_format_is_listed_with_its_words),
        cmocka_unit_test(what_cannot_be_reported_is_said),
        cmocka_unit_test(files_hold_what_is_rendered),
        cmocka_unit_test(plans_read_back_have_the_same_offsets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
