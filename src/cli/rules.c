/* rules.c - the options --keep, --recompute, --swap and --segments, as the rules of tenure/rules.h.
 */
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/cli.h"

#define RULES_PREFETCH ":prefetch="
#define RULES_MOST 4096u /* operators */

static const char *const rules_options[TN_RULE_COUNT] = {"keep", "recompute", "swap"};

/* Splits PATTERN:prefetch=N. */
static uint32_t rules_prefetch(struct argp_state *state, char *pattern) {
    char *at = pattern, *last = NULL, *end;
    while ((at = strstr(at, RULES_PREFETCH)) != NULL) last = at++;
    if (last == NULL) return 0;
    const char *number = last + sizeof RULES_PREFETCH - 1;
    unsigned long long value = strtoull(number, &end, 10);
    if (*number < '0' || *number > '9' || *end != '\0' || value == 0 || value > RULES_MOST)
        cli_misuse(state, "--swap: '%s' is not a number of operators from 1 to %u", number,
                   RULES_MOST);
    *last = '\0';
    return (uint32_t)value;
}

void cli_rule_add(struct argp_state *state, cli_input *input, tn_rule_kind kind,
                  const char *value) {
    const size_t count = (size_t)input->rules.count + 1;
    tn_rule *list = realloc((void *)(uintptr_t)input->rules.list, count * sizeof *list);
    char *pattern = strdup(value);
    if (list == NULL || pattern == NULL) argp_failure(state, 4, 0, "out of memory");
    const uint32_t prefetch = kind == TN_RULE_SWAP ? rules_prefetch(state, pattern) : 0;
    if (*pattern == '\0' || strcmp(pattern, "type:") == 0)
        cli_misuse(state, "--%s: the pattern is empty; write a name, or type: and an operator type",
                   rules_options[kind]);
    list[input->rules.count++] = (tn_rule){pattern, kind, prefetch};
    input->rules.list = list;
    input->rules.struct_size = sizeof input->rules;
}

void cli_rules_release(cli_input *input) {
    for (uint32_t i = 0; i < input->rules.count; i++)
        free((char *)(uintptr_t)input->rules.list[i].pattern);
    free((void *)(uintptr_t)input->rules.list);
    input->rules = (tn_rules){0};
}
