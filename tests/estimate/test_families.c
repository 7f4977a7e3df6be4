/* test_families.c - families of language models of 2024 to 2026: parameters against published
 * counts, the cache of a token and the states of a sequence against sums by hand.
 *
 *     test_estimate_families --table     prints the table of docs/llm-evidence.md
 */
#include <stdio.h>

#include <tenure/llm.h>

#include "base/base.h"
#include "llm_families.h"
#include "support.h"

#define FAMILY_COUNT (sizeof llm_families / sizeof *llm_families)

static tn_error failure;
static tn_llm model;

static tn_status read_row(size_t index, tn_llm *llm) {
    static char json[12000];
    size_t length = llm_family_json(index, json, sizeof json);
    assert_true(length + 80 < sizeof json);
    for (size_t i = 0; i < length; i++)
        if (json[i] == '\'') json[i] = '"';
    return tn_llm_config("config.json", json, length, llm, &failure);
}

static void families_have_the_published_parameters_and_caches(void **state) {
    (void)state;
    uint32_t wrong = 0;
    for (size_t i = 0; i < FAMILY_COUNT; i++) {
        const char *name = llm_families[i].name;
        tn_llm_options options = TN_LLM_OPTIONS_INIT;
        tn_llm_estimate made = {0};
        options.sequence = 1;
        options.weight_bytes = 1;
        if (read_row(i, &model) != TN_OK ||
            tn_llm_estimate_make(&model, &options, &made, &failure) != TN_OK) {
            print_message("%s: %s\n", name, failure.message);
            wrong++;
            continue;
        }
        struct {
            const char *what;
            uint64_t ours, there;
        } pairs[] = {{"parameters", model.parameters, llm_families[i].parameters},
                     {"cache of a token", made.cache_token, llm_families[i].token},
                     {"state", model.cache.state, llm_families[i].state},
                     {"further layers", model.extra, llm_families[i].extra}};
        for (size_t k = 0; k < 4; k++) {
            bool unknown = k == 3 && pairs[k].there == 0; /* not published */
            if (pairs[k].ours == pairs[k].there || unknown) continue;
            print_message("%s: %s %llu, published %llu (%+lld)\n", name, pairs[k].what,
                          (unsigned long long)pairs[k].ours, (unsigned long long)pairs[k].there,
                          (long long)(pairs[k].ours - pairs[k].there));
            wrong++;
        }
        if (*model.unread != '\0') {
            print_message("%s: not read: %s\n", name, model.unread);
            wrong++;
        }
    }
    assert_int_equal(wrong, 0);
}

/* --- the table of the documents --- */

/* Writes a number with commas between groups of three digits. */
static void grouped(uint64_t number, char text[40]) {
    char digits[32];
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)number), used = 0;
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0) text[used++] = ',';
        text[used++] = digits[i];
    }
    text[used] = 0;
}

static void table_row(size_t i, char *line, size_t room) {
    static const char *const sources[] = {"files", "enumerated", "recalled", "formula"};
    char published[40], counted[40] = "refused", token[40] = "", state[40] = "";
    tn_llm_options options = TN_LLM_OPTIONS_INIT;
    tn_llm_estimate made = {0};
    options.sequence = 1;
    options.weight_bytes = 1;
    grouped(llm_families[i].parameters, published);
    if (read_row(i, &model) == TN_OK &&
        tn_llm_estimate_make(&model, &options, &made, &failure) == TN_OK) {
        grouped(model.parameters, counted);
        grouped(made.cache_token, token);
        if (model.cache.state > 0) grouped(4 * model.cache.state, state);
    }
    snprintf(line, room, "| %s | `%s` | %s | %s | %s | %s | %s |\n", llm_families[i].name,
             llm_families[i].type, published, counted, sources[llm_families[i].source], token,
             state);
}

/* Every row stands in docs/llm-evidence.md, in this order, and the page has no other. */
static void the_page_has_this_table(void **state) {
    char line[500], row[500];
    size_t next = 0;
    (void)state;
    FILE *file = fopen(TENURE_SOURCE_DIR "/docs/llm-evidence.md", "r");
    assert_non_null(file);
    bool inside = false;
    while (fgets(line, sizeof line, file) != NULL) {
        if (strncmp(line, "| model | family |", 18) == 0) inside = true;
        if (line[0] != '|') inside = false;
        if (!inside || strncmp(line, "| model", 7) == 0 || strncmp(line, "|---", 4) == 0) continue;
        assert_true(next < FAMILY_COUNT);
        table_row(next++, row, sizeof row);
        if (strcmp(line, row) != 0) fail_msg("the page has\n%sinstead of\n%s", line, row);
    }
    fclose(file);
    assert_int_equal(next, FAMILY_COUNT);
}

int main(int argc, char **argv) {
    char row[500];
    for (size_t i = 0; argc > 1 && strcmp(argv[1], "--table") == 0 && i < FAMILY_COUNT; i++) {
        table_row(i, row, sizeof row);
        printf("%s", row);
    }
    if (argc > 1) return 0;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_have_the_published_parameters_and_caches),
        cmocka_unit_test(the_page_has_this_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
