/* test_families.c - families of language models of 2024 to 2026: parameters against published
 * counts, the cache of a token and the states of a sequence against sums by hand.
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
    static char json[8000];
    int length = snprintf(json, sizeof json, "{'model_type':'%s',%s}", llm_families[index].type,
                          llm_families[index].json);
    assert_true(length > 0 && (size_t)length < sizeof json);
    for (int i = 0; i < length; i++)
        if (json[i] == '\'') json[i] = '"';
    return tn_llm_config("config.json", json, (size_t)length, llm, &failure);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(families_have_the_published_parameters_and_caches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
