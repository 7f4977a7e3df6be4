/* test_base.c - sizes, text, names, memory, files: what every room stands on. */
#include "../support.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"

static tn_error failure;

static void sizes_are_read_rounded_down_or_refused(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } good[] = {{"4096", 4096},
                {"0", 0},
                {"7 B", 7},
                {"96KiB", 98304},
                {"1.5 GiB", 1610612736},
                {"24GB", 24000000000},
                {"0.5KiB", 512},
                {"1.001kB", 1001},
                {"1.3MiB", 1363148},
                {"2.2GiB", 2362232012},
                {"182.4 MiB", 191260262},
                {"0.1KiB", 102},
                {"1.0005kB", 1000},
                {"1.999999999999999999PiB", 2251799813685247},
                {"16383.999999999999999PiB", UINT64_MAX - 1},
                {"1.0", 1},
                {" 2MiB ", 2097152},
                {"18446744073709551614", UINT64_MAX - 1}};
    static const char *const bad[] = {"",
                                      "KiB",
                                      "10K",
                                      "1M",
                                      "2g",
                                      "1e3",
                                      "-1",
                                      "1.5",
                                      "0.5B",
                                      "16384PiB",
                                      "7x",
                                      "1.2.3MiB",
                                      "18446744073709551616",
                                      "99999999999PiB",
                                      "1 2"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t bytes = 1;
        if (tn_size_parse(good[i].text, &bytes, &failure) != TN_OK || bytes != good[i].bytes)
            fail_msg("'%s': %s\n", good[i].text, failure.message);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t bytes = 77;
        if (tn_size_parse(bad[i], &bytes, &failure) != TN_E_INVALID || bytes != 77)
            fail_msg("'%s' was taken\n", bad[i]);
    }
    assert_int_equal(tn_size_parse("10K", &(uint64_t){0}, &failure), TN_E_INVALID);
    assert_true(strstr(failure.message, "kB") != NULL && strstr(failure.message, "KiB") != NULL);
}

static void sizes_are_written_with_their_bytes(void **state) {
    (void)state;
    char text[TN_SIZE_TEXT_MAX];
    assert_string_equal(tn_size_format(11112448, text), "10.6 MiB (11,112,448 bytes)");
    assert_string_equal(tn_size_format(1, text), "1 byte");
    assert_string_equal(tn_size_format(1023, text), "1,023 bytes");
    assert_string_equal(tn_size_format(TN_SIZE_UNKNOWN, text), "unknown");
    for (uint64_t seed = 1; seed < 2000;
         seed++) { /* never longer than the room, never a unit too small */
        tn__random random = {.state = seed};
        uint64_t bytes = tn__random_next(&random) >> (seed % 64);
        tn_size_format(bytes, text);
        assert_true(strlen(text) < TN_SIZE_TEXT_MAX && strstr(text, "1024.0") == NULL);
    }
}

static void checked_arithmetic_notices_every_overflow(void **state) {
    (void)state;
    uint64_t result = 5;
    assert_false(tn__add(UINT64_MAX, 1, &result));
    assert_false(tn__mul(1ull << 32, 1ull << 32, &result));
    assert_false(tn__align_up(UINT64_MAX - 2, 64, &result));
    assert_int_equal(result, 5);
    assert_true(tn__align_up(65, 64, &result) && result == 128);
    assert_true(tn__add_sat(UINT64_MAX, 9) == UINT64_MAX &&
                tn__mul_sat(UINT64_MAX, 2) == UINT64_MAX);
}

static void json_and_xml_take_any_bytes(void **state) {
    (void)state;
    tn__text text;
    tn__text_init(&text, NULL);
    tn__text_json(&text, "a\"\\</script>\n\x01\xff\xc0\xaf\xed\xa0\x80\xe2\x82\xac");
    assert_string_equal(
        text.data, "\"a\\\"\\\\\\u003c/script>\\u000a\\u0001\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
                   "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xe2\x82\xac\"");
    text.size = 0;
    tn__text_xml(&text, "<&\"'>\x02z\xf0\x9f");
    assert_string_equal(text.data, "&lt;&amp;&quot;&#39;&gt;\xef\xbf\xbdz\xef\xbf\xbd\xef\xbf\xbd");
    tn__text_release(&text);
}

static void names_find_what_was_added(void **state) {
    (void)state;
    tn__names names;
    static char keys[5000][8];
    uint32_t existing;
    tn__names_init(&names, NULL);
    assert_int_equal(tn__names_find(&names, "x", 1), TN__NAMES_NONE);
    for (uint32_t i = 0; i < 5000; i++) {
        snprintf(keys[i], sizeof keys[i], "k%u", i);
        assert_true(tn__names_add(&names, keys[i], strlen(keys[i]), i, &existing));
        assert_int_equal(existing, TN__NAMES_NONE);
    }
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(tn__names_find(&names, keys[i], strlen(keys[i])), i);
    assert_true(tn__names_add(&names, "k7", 2, 9, &existing));
    assert_int_equal(existing, 7);
    assert_int_equal(tn__names_find(&names, "k7", 2), 7); /* the first stays */
    assert_int_equal(tn__names_find(&names, "k", 1), TN__NAMES_NONE);
    tn__names_release(&names);
}

static void the_arena_gives_zeroed_aligned_memory_and_gives_it_back(void **state) {
    (void)state;
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn__arena arena;
    tn__arena_init(&arena, &context);
    for (size_t size = 0; size < 5000; size += 7) {
        char *block = tn__arena_alloc(&arena, size);
        assert_true(block != NULL && (uintptr_t)block % 16 == 0);
        for (size_t i = 0; i < size; i++) assert_true(block[i] == 0);
        memset(block, 1, size);
    }
    assert_null(tn__arena_array(&arena, SIZE_MAX / 2, 3));
    assert_string_equal(tn__arena_string(&arena, "abcdef", 3), "abc");
    tn__arena_release(&arena);
    assert_int_equal(memory.held, 0);
}

static void globs_match_as_shells_do(void **state) {
    (void)state;
    assert_true(tn__glob("*", "") && tn__glob("a*b?c", "aXXbYc") && tn__glob("param_*", "param_1"));
    assert_true(tn__glob("*a*b*", "xaybz") && !tn__glob("a*", "b") && !tn__glob("a?", "a"));
    /* brackets and backslashes are literal: names of tensors contain them */
    assert_true(tn__glob("x[0]", "x[0]") && !tn__glob("x[0]", "x0") && !tn__glob("[ab]", "a"));
    assert_true(tn__glob("a\\*", "a\\b") && !tn__glob("a\\*", "a*"));
    assert_false(tn__glob("*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
}

/* A file is the old one or the whole new one, and keeps its mode. */
static const char *const near_names[] = {"plan", "verify", "estimate", "best-fit",
                                         "greedy-by-size"};
static const char *near_name(uint32_t index) { return near_names[index]; }

static const char *near_of(const char *word) {
    tn__near near = tn__near_begin(word);
    for (uint32_t i = 0; i < 5; i++) tn__near_try(&near, near_names[i]);
    return near.name != NULL ? near.name : "";
}

/* Any one letter wrong, left out, put in, or swapped with the next. */
static void one_slip_is_understood_and_a_guess_is_not_made(void **state) {
    (void)state;
    char word[40];
    for (uint32_t i = 0; i < 5; i++) {
        size_t length = strlen(near_names[i]);
        for (size_t at = 0; at < length; at++) {
            snprintf(word, sizeof word, "%s", near_names[i]);
            word[at] = 'q';
            assert_string_equal(near_of(word), near_names[i]);
            snprintf(word, sizeof word, "%.*s%s", (int)at, near_names[i], near_names[i] + at + 1);
            assert_string_equal(near_of(word), near_names[i]);
            snprintf(word, sizeof word, "%.*sx%s", (int)at, near_names[i], near_names[i] + at);
            assert_string_equal(near_of(word), near_names[i]);
            if (at + 1 == length) break;
            snprintf(word, sizeof word, "%.*s%c%c%s", (int)at, near_names[i], near_names[i][at + 1],
                     near_names[i][at], near_names[i] + at + 2);
            assert_string_equal(near_of(word), near_names[i]);
        }
    }
    assert_string_equal(near_of("Best_Fit"), "best-fit");
    assert_string_equal(near_of("greddy"), "greedy-by-size");
    for (const char *const *far = (const char *const[]){"", "x", "model.onnx", "zebra", NULL};
         *far != NULL; far++)
        assert_string_equal(near_of(*far), "");
    assert_true(tn__alike("A100_40", "a100-40") && tn__alike("rtx4090", "RTX-4090"));
    assert_true(!tn__alike("a100", "a100-40") && !tn__alike("l4", "l40"));
    char text[TN__NEAR_TEXT];
    assert_string_equal(tn__near_of("plam", 5, near_name, "look", text), "did you mean 'plan'?");
    assert_string_equal(tn__near_of("zebra", 5, near_name, "look", text), "look");
}

static void files_are_written_whole_or_not_at_all(void **state) {
    (void)state;
    char folder[] = "/tmp/tenure-test-XXXXXX", path[64], missing[64];
    struct stat facts;
    tn__file file;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/a.txt", folder);
    snprintf(missing, sizeof missing, "%s/no/a.txt", folder);
    assert_int_equal(tn__file_write(path, "old", 3, &failure), TN_OK);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(tn__file_write(path, "newer", 5, &failure), TN_OK);
    assert_int_equal(stat(path, &facts), 0);
    assert_int_equal(facts.st_mode & 0777, 0640);
    assert_int_equal(tn__file_map(path, &file, &failure), TN_OK);
    assert_true(file.size == 5 && memcmp(file.bytes, "newer", 5) == 0);
    tn__file_unmap(&file);
    assert_int_equal(tn__file_write(missing, "x", 1, &failure), TN_E_IO);
    assert_string_equal(failure.where, missing);
    assert_int_equal(tn__file_map(missing, &file, &failure), TN_E_IO);
    assert_int_equal(tn__file_map(folder, &file, &failure), TN_E_IO);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing half-written was left beside */
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_read_rounded_down_or_refused),
        cmocka_unit_test(sizes_are_written_with_their_bytes),
        cmocka_unit_test(checked_arithmetic_notices_every_overflow),
        cmocka_unit_test(json_and_xml_take_any_bytes),
        cmocka_unit_test(names_find_what_was_added),
        cmocka_unit_test(the_arena_gives_zeroed_aligned_memory_and_gives_it_back),
        cmocka_unit_test(globs_match_as_shells_do),
        cmocka_unit_test(one_slip_is_understood_and_a_guess_is_not_made),
        cmocka_unit_test(files_are_written_whole_or_not_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
