/* test_parts.c - what the formats are made of: numbers and names as text, the digest, the curve. */
#include "report_tools.h"

#include <locale.h>
#include <math.h>

/* --- words --- */

static void short_sizes_agree_with_tn_size_format(void **state) {
    (void)state;
    tn__random random = {11};
    for (int i = 0; i < 2000; i++) {
        uint64_t bytes = tn__random_next(&random) >> (i % 64);
        char iec[TN__WORDS_MAX], exact[TN__WORDS_MAX], both[TN_SIZE_TEXT_MAX], ours[96];
        if (bytes == TN_SIZE_UNKNOWN) continue;
        tn__words_iec(bytes, iec);
        tn__grouped(bytes, exact);
        if (bytes < 1024)
            snprintf(ours, sizeof ours, "%s", iec);
        else
            snprintf(ours, sizeof ours, "%s (%s bytes)", iec, exact);
        assert_string_equal(ours, tn_size_format(bytes, both));
    }
}

static void integers_are_written_in_full(void **state) {
    (void)state;
    const int64_t values[] = {0, 1, -1, 9, 10, -10, 1234567890123, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        char expected[32];
        tn__text text;
        tn__text_init(&text, NULL);
        tn__words_signed(&text, values[i]);
        snprintf(expected, sizeof expected, "%lld", (long long)values[i]);
        assert_string_equal(text.data, expected);
        tn__text_release(&text);
    }
    tn__text text;
    tn__text_init(&text, NULL);
    tn__words_integer(&text, UINT64_MAX);
    assert_string_equal(text.data, "18446744073709551615");
    tn__text_release(&text);
}

static void numbers_read_back_the_same_and_short(void **state) {
    (void)state;
    tn__random random = {5};
    for (int i = 0; i < 2000; i++) {
        double value =
            (double)tn__random_next(&random) / (double)(1 + tn__random_below(&random, 1000));
        tn__text text;
        tn__text_init(&text, NULL);
        tn__words_number(&text, value);
        assert_true(strtod(text.data, NULL) == value);
        assert_null(strchr(text.data, ','));
        tn__text_release(&text);
    }
    tn__text text;
    tn__text_init(&text, NULL);
    tn__words_number(&text, 0.1);
    tn__text_put(&text, " ");
    tn__words_number(&text, INFINITY);
    assert_string_equal(text.data, "0.1 null");
    tn__text_release(&text);
}

static void numbers_have_a_point_in_every_locale(void **state) {
    (void)state;
    const char *commas[] = {"de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "nl_NL.UTF-8"};
    const char *found = NULL;
    for (size_t i = 0; i < 4 && !found; i++) found = setlocale(LC_NUMERIC, commas[i]);
    if (!found) print_message("SKIP: no locale with a decimal comma is installed\n");
    tn__text text;
    tn__text_init(&text, NULL);
    tn__words_number(&text, 1.5);
    setlocale(LC_NUMERIC, "C");
    assert_string_equal(text.data, "1.5");
    tn__text_release(&text);
}

static void assert_cell(const char *string, size_t width, bool right, const char *expected) {
    tn__text text;
    tn__text_init(&text, NULL);
    tn__text_put(&text, "");
    tn__words_cell(&text, string, width, right);
    assert_string_equal(text.data, expected);
    tn__text_release(&text);
}

static void cells_have_the_width_asked_for(void **state) {
    (void)state;
    assert_cell("name", 6, false, "name  ");
    assert_cell("name", 6, true, "  name");
    assert_cell("abcdefghij", 6, false, "a..hij");
    assert_cell("abcdefghij", 7, false, "a..ghij");
    assert_cell("", 3, false, "   ");
    assert_cell("abcdef", 0, false, "");
    assert_cell("\xc3\xa9t\xc3\xa9", 4, false, "\xc3\xa9t\xc3\xa9 "); /* accents: one column */
    assert_cell("\xe5\xb1\x82\xe4\xb8\x80", 5, false, "\xe5\xb1\x82\xe4\xb8\x80 "); /* two each */
    assert_cell("e\xcc\x81x", 3, false, "e\xcc\x81x "); /* a combining accent takes none */
}

static void cells_hold_back_what_a_terminal_would_obey(void **state) {
    (void)state;
    assert_cell("\x1b[31mred", 8, false, "?[31mred");
    assert_cell("a\r\n\tb\x7f", 6, false, "a???b?");
    assert_cell("\xc2\x9b"
                "31m",
                4, false, "?31m"); /* C1 control */
    assert_cell("a\xe2\x80\xae"
                "b",
                3, false, "a?b");                 /* right-to-left override */
    assert_cell("\xff\xfe\x80", 3, false, "???"); /* no UTF-8 at all */
    assert_cell("\xc0\xafx", 3, false, "??x");    /* overlong */
    assert_cell("\xe2\x82", 2, false, "??");      /* cut off */
    assert_cell("\xed\xa0\x80", 3, false, "???"); /* a surrogate */
}

/* --- digest --- */

static void the_digest_is_that_of_fips_180(void **state) {
    (void)state;
    static const struct {
        const char *text, *source;
    } known[] = {
        {"abc", "sha256-ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0="},
        {"", "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "sha256-JI1qYdIGOLjlwCaTDD5gOaM85Flk/yFn9uzt1BnbBsE="},
    };
    char text[TN__SHA256_SOURCE_MAX];
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_string_equal(tn__sha256_source(known[i].text, strlen(known[i].text), text),
                            known[i].source);
}

/* --- curve --- */

static uint64_t live_bytes_at(const tn_problem *problem, int64_t at) {
    uint64_t bytes = 0;
    for (tn_body_id b = 0; b < tn_problem_count(problem); b++) {
        const tn_body *body = tn_problem_body(problem, b);
        for (uint32_t p = 0; p < body->piece_count; p++) {
            const tn_piece *piece = &body->pieces[p];
            if (piece->first <= at && at < piece->last) bytes += piece->hi - piece->lo;
        }
    }
    return bytes;
}

static void the_curve_agrees_with_counting_at_every_step(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        tn_problem *problem = random_problem(seed, (uint32_t)(seed % 30));
        tn__curve curve;
        assert_ok(tn__curve_make(&curve, problem, NULL, &failure));
        uint64_t most = 0;
        int64_t most_at = 0;
        size_t at = 0;
        for (int64_t step = -120; step < 160; step++) {
            while (at < curve.count && curve.at[at] <= step) at++;
            uint64_t live = at == 0 ? 0 : curve.live[at - 1],
                     counted = live_bytes_at(problem, step);
            if (live != counted)
                print_error("seed %llu step %lld\n", (unsigned long long)seed, (long long)step);
            assert_int_equal(live, counted);
            if (counted > most) {
                most = counted;
                most_at = step;
            }
        }
        assert_int_equal(curve.peak, most);
        if (curve.count > 0) assert_true(curve.peak_at == most_at);
        tn__curve_release(&curve);
        tn_problem_destroy(problem);
    }
}

static void the_curve_reaches_from_one_end_of_time_to_the_other(void **state) {
    (void)state;
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    tn_body always = {.size = (uint64_t)1 << 62, .first = INT64_MIN, .last = INT64_MAX};
    for (int i = 0; i < 8; i++) assert_ok(tn_problem_add(problem, &always, NULL, &failure));
    tn__curve curve;
    assert_ok(tn__curve_make(&curve, problem, NULL, &failure));
    assert_int_equal(curve.count, 2);
    assert_true(curve.at[0] == INT64_MIN && curve.at[1] == INT64_MAX);
    assert_true(curve.live[0] == UINT64_MAX); /* 2^65 does not fit: saturated, not wrapped */
    assert_int_equal(curve.live[1], 0);
    tn__curve_release(&curve);
    tn_problem_destroy(problem);
}

static void the_holders_share_out_the_live_bytes(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        tn_problem *problem = random_problem(seed, 25);
        tn_layout layout = stacked_layout(problem);
        tn_report report = report_of(problem, &layout);
        tn__scene scene;
        assert_ok(tn__scene_make(&scene, &report, &failure));
        for (int64_t step = -110; step < 150; step += 7) {
            const tn__holder *holders;
            uint32_t count;
            uint64_t sum = 0, before = UINT64_MAX;
            assert_ok(tn__holders_at(&scene, step, &holders, &count, &failure));
            for (uint32_t i = 0; i < count; i++) {
                assert_true(holders[i].bytes > 0 && holders[i].bytes <= before);
                assert_int_equal(scene.items[holders[i].item].body, holders[i].body);
                before = holders[i].bytes;
                sum += before;
            }
            assert_int_equal(sum, live_bytes_at(problem, step));
        }
        tn__scene_release(&scene);
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_sizes_agree_with_tn_size_format),
        cmocka_unit_test(integers_are_written_in_full),
        cmocka_unit_test(numbers_read_back_the_same_and_short),
        cmocka_unit_test(numbers_have_a_point_in_every_locale),
        cmocka_unit_test(cells_have_the_width_asked_for),
        cmocka_unit_test(cells_hold_back_what_a_terminal_would_obey),
        cmocka_unit_test(the_digest_is_that_of_fips_180),
        cmocka_unit_test(the_curve_agrees_with_counting_at_every_step),
        cmocka_unit_test(the_curve_reaches_from_one_end_of_time_to_the_other),
        cmocka_unit_test(the_holders_share_out_the_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
