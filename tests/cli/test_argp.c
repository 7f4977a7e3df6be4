/* test_argp.c - the command's own argp, for C libraries without one, compared with glibc's.
 *
 * Both parse the same random lines by the same tables; the calls of the parsers must agree. */
#include <argp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOG_MAX 8192

/* The calls of the parsers, one line each. */
static char calls[LOG_MAX];
static size_t calls_size;

static void note(const char *table, int key, const char *value, unsigned taken) {
    int length = snprintf(calls + calls_size, LOG_MAX - calls_size, "%s %x %s %u\n", table, key,
                          value != NULL ? value : "(none)", taken);
    calls_size += (size_t)length;
}

/* The same tables and parsers for both: the macros below rename the types of the second. */
#define TABLES(prefix)                                                                             \
    static error_t prefix##_shared_parse(int key, char *value, struct argp_state *state) {         \
        if (key == ARGP_KEY_INIT || key == ARGP_KEY_END || key == 'q' || key == 600)               \
            note("shared", key, value, state->arg_num);                                            \
        else                                                                                       \
            return ARGP_ERR_UNKNOWN;                                                               \
        return 0;                                                                                  \
    }                                                                                              \
    static const struct argp_option prefix##_shared_options[] = {                                  \
        {"quiet", 'q', 0, 0, "", 0}, {"limit", 600, "N", 0, "", 0}, {0}};                          \
    static const struct argp prefix##_shared = {.options = prefix##_shared_options,                \
                                                .parser = prefix##_shared_parse};                  \
    static const struct argp_child prefix##_children[] = {{&prefix##_shared, 0, "", 0}, {0}};      \
    static error_t prefix##_parse(int key, char *value, struct argp_state *state) {                \
        if (key == ARGP_KEY_ARG && state->arg_num == 3) return ARGP_ERR_UNKNOWN;                   \
        if (key == ARGP_KEY_INIT) state->child_inputs[0] = state->input;                           \
        if (key == ARGP_KEY_INIT || key == ARGP_KEY_END || key == ARGP_KEY_ARG || key == 'o' ||    \
            key == 'b' || (key >= 500 && key < 505))                                               \
            note("first", key, value, state->arg_num);                                             \
        else                                                                                       \
            return ARGP_ERR_UNKNOWN;                                                               \
        return 0;                                                                                  \
    }                                                                                              \
    static const struct argp_option prefix##_options[] = {                                         \
        {"output", 'o', "FILE", 0, "", 0}, {"brief", 'b', 0, 0, "", 0},                            \
        {"json", 500, 0, 0, "", 0},        {"explain", 501, "X", OPTION_ARG_OPTIONAL, "", 0},      \
        {"batch", 502, "N", 0, "", 0},     {0}};                                                   \
    static const struct argp prefix##_root = {                                                     \
        .options = prefix##_options, .parser = prefix##_parse, .children = prefix##_children};     \
    static void prefix##_run(int count, char **words) {                                            \
        argp_parse(&prefix##_root, count, words, ARGP_NO_HELP, NULL, &calls_size);                 \
    }

TABLES(glibc)

#define argp ours
#define argp_option ours_option
#define argp_child ours_child
#define argp_state ours_state
#define argp_parse ours_parse_line
#define argp_failure ours_failure
#include "cli/argp/argp.c"

TABLES(own)

#include "support.h"

static const char *const words_known[] = {
    "a",       "b.csv",       "-",       "--json",   "--js",   "--explain", "--explain=tags",
    "-q",      "-bq",         "-ofile",  "-bqofile", "-o",     "x",         "--output",
    "-y",      "--output=-z", "--batch", "3",        "--bat=", "--limit",   "--",
    "--quiet", "--lim=8"};
#define WORDS_COUNT (sizeof words_known / sizeof *words_known)

/* Whether the word takes the next one as its value. */
static bool takes(const char *word) {
    static const char *const all[] = {"-o", "--output", "--batch", "--limit"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(word, all[i]) == 0) return true;
    return false;
}

/* A line that both accept: a value for each option that needs one, no unknown option, at most
 * three arguments. */
static bool is_valid(int count, char **words) {
    int arguments = 0;
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--") == 0) return arguments + count - i - 1 <= 3;
        if (strcmp(words[i], "-y") == 0) return false;
        if (words[i][0] != '-' || words[i][1] == '\0') arguments++;
        if (takes(words[i]) && ++i == count) return false;
    }
    return arguments <= 3;
}

static void calls_are_those_of_glibc(void **unused) {
    (void)unused;
    uint32_t random = 1, valid = 0;
    for (int line = 0; line < 20000; line++) {
        char *words[9] = {(char *)"tenure"}, *again[9];
        int count = 1 + (int)(line % 8);
        for (int i = 1; i < count; i++) {
            random = random * 1103515245 + 12345;
            words[i] = (char *)words_known[(random >> 16) % WORDS_COUNT];
        }
        if (!is_valid(count, words)) continue;
        memcpy(again, words, sizeof words); /* glibc moves the words */
        char expected[LOG_MAX];
        calls_size = 0;
        glibc_run(count, again);
        memcpy(expected, calls, calls_size + 1);
        calls_size = 0;
        own_run(count, words);
        assert_string_equal(calls, expected);
        valid++;
    }
    assert_true(valid > 2000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls_are_those_of_glibc)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
