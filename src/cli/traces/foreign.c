/* foreign.c - reads plans of other tools (XLA's dumps, ExecuTorch's .pte files) as input of plan,
 * verify and diff. */
#include "cli/traces/foreign.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/base.h"

/* --- names --- */

/* Returns the length of a name without the instruction's number, such as that of "fusion" in
 * "fusion.12{}". Compilers number instructions differently in each version of a program. */
static size_t foreign_stem(const char *name) {
    size_t end = strcspn(name, "{"), at = end;
    while (at > 0 && name[at - 1] >= '0' && name[at - 1] <= '9') at--;
    return at > 1 && at < end && name[at - 1] == '.' ? at - 1 : end;
}

/* Returns the length of the operator in a source such as "jit(f)/add, train.py:12". The line number
 * is left out, because lines move when a program is edited. */
static size_t foreign_operator(const char *source) {
    const char *comma = strrchr(source, ',');
    return comma != NULL ? (size_t)(comma - source) : strlen(source);
}

bool cli_foreign_alike(const cli_foreign_named *a, const cli_foreign_named *b) {
    size_t x = foreign_stem(a->name), y = foreign_stem(b->name);
    size_t from = foreign_operator(a->source), to = foreign_operator(b->source);
    return x == y && strncmp(a->name, b->name, x) == 0 &&
           strcmp(a->name + strcspn(a->name, "{"), b->name + strcspn(b->name, "{")) == 0 &&
           from == to && strncmp(a->source, b->source, from) == 0;
}

const char *cli_foreign_source(const tn_foreign *foreign, const char *name) {
    uint32_t count;
    const tn_foreign_value *values = tn_foreign_values(foreign, &count);
    for (uint32_t i = 0; i < count; i++)
        if (values[i].name == name) return values[i].source;
    return "";
}

/* --- holders --- */

/* Returns the index of the planned arena with the most live bytes, or UINT32_MAX if no arena is
 * planned. */
static uint32_t foreign_fullest(const tn_foreign *foreign) {
    uint32_t count, found = UINT32_MAX;
    const tn_foreign_arena *arenas = tn_foreign_arenas(foreign, &count);
    for (uint32_t i = 0; i < count; i++)
        if (arenas[i].use == TN_FOREIGN_PLANNED &&
            (found == UINT32_MAX || arenas[i].live > arenas[found].live))
            found = i;
    return found;
}

tn_status cli_foreign_holders(cli_holders *holders, const tn_foreign *foreign, tn_error *error) {
    uint32_t count, arena = foreign_fullest(foreign);
    const tn_foreign_arena *arenas = tn_foreign_arenas(foreign, &count);
    const tn_foreign_value *values = tn_foreign_values(foreign, &count);
    *holders = (cli_holders){0};
    tn__arena_init(&holders->arena, NULL);
    uint32_t *found = tn__arena_array(&holders->arena, (size_t)count + 1, sizeof *found);
    holders->rows = tn__arena_array(&holders->arena, (size_t)count + 1, sizeof *holders->rows);
    if (found == NULL || holders->rows == NULL) return tn__no_memory(error, "the holders");
    snprintf(holders->title, sizeof holders->title, "no arena is planned");
    if (arena == UINT32_MAX) return TN_OK;
    const tn_foreign_arena *it = &arenas[arena];
    holders->count = tn_foreign_holders(foreign, arena, it->step, found, count);
    for (uint32_t i = 0; i < holders->count; i++) {
        const tn_foreign_value *value = &values[found[i]];
        holders->rows[i] = (tn_holder){.label = {.name = value->name, .kind = "", .op = value->op},
                                       .requested = value->size,
                                       .allocated = value->size};
    }
    snprintf(holders->title, sizeof holders->title,
             "at the peak of %.40s, step %" PRId64 " (%.90s)", it->name, it->step,
             tn_foreign_step(foreign, it->step));
    return TN_OK;
}

/* --- plan --- */

void cli_foreign_note(const cli_input *input) {
    char theirs[TN__GROUPED_MAX], ours[TN__GROUPED_MAX], text[200];
    if (input->foreign == NULL || input->layout == NULL) return;
    const tn_foreign_facts *facts = tn_foreign_facts_of(input->foreign);
    snprintf(text, sizeof text, "the plan of %s takes %s bytes; this plan takes %s", facts->tool,
             tn__grouped(facts->planned, theirs), tn__grouped(input->layout->peak, ours));
    cli_note(text);
    tn__foreign_order order;
    tn_error error = {0};
    char other[TN__FOREIGN_ORDER_TEXT + 40];
    if (strcmp(facts->tool, "XLA") != 0 || cli_tone_asked().brief ||
        tn__foreign_reorder(input->foreign, &order, &error) != TN_OK)
        return;
    size_t length = (size_t)snprintf(other, sizeof other, "another order of the instructions: ");
    tn__foreign_order_text(input->foreign, &order, other + length);
    cli_note(other);
}

static tn_status foreign_write(void *self, const uint64_t *offsets, const char *output,
                               tn_error *error) {
    const cli_input *input = self;
    tn_layout layout;
    TN_TRY(tn_layout_from_offsets(input->problem, offsets, &layout, error));
    tn_status status = tn_foreign_rewrite(input->foreign, &layout, output, error);
    tn_layout_release(&layout);
    return status;
}

void cli_foreign_writes(tn_report *report, cli_input *input) {
    if (input->foreign == NULL || !tn__has_suffix(input->path, ".pte")) return;
    report->write_plan = foreign_write;
    report->write_plan_self = input;
}

/* --- verify --- */

const cli_facts cli_foreign_verify_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "tool", NULL, "for a plan of another tool: that tool"),
        CLI_FACT(WORD, "form", NULL, "for a plan of another tool: the version of its format"),
        CLI_FACT(WORD, "module", NULL, "for a plan of another tool: the module or method"),
        CLI_FACT(COUNT, "values", NULL, "for a plan of another tool: number of its values"),
        CLI_FACT_BRIEF(COUNT, "joined", NULL, "; @ values at the place of an earlier one",
                       "for a plan of another tool: values that share the bytes of an earlier one "
                       "at its offset (in place, views, loops)"),
        CLI_FACT(COUNT, "without_life", NULL,
                 "for a plan of another tool: values without a live range, which count as live "
                 "in all steps"),
        CLI_FACT_BRIEF(COUNT, "lives_alone", NULL,
                       "; @ live ranges name no value: is the assignment cut off?",
                       "for a plan of another tool: live ranges without a value; nothing is known "
                       "about their bytes"),
        CLI_FACTS_END}};

tn_status cli_foreign_check(cli_input *input, tn_error *error) {
    uint64_t *offsets = NULL;
    TN_TRY(cli_input_read_foreign(input, &offsets, error));
    input->problem = input->own;
    tn_status status = tn_layout_from_offsets(input->problem, offsets, &input->own_layout, error);
    tn_offsets_release(input->import.context, offsets, tn_problem_count(input->problem));
    return status == TN_OK ? tn_foreign_verify(input->foreign, NULL, error) : status;
}

void cli_foreign_verify_add(cli_answer *answer, const tn_foreign *foreign, bool valid) {
    const tn_foreign_facts *facts = tn_foreign_facts_of(foreign);
    cli_add_word(answer, "tool", facts->tool);
    cli_add_word(answer, "form", facts->form);
    cli_add_word(answer, "module", facts->module[0] != '\0' ? facts->module : NULL);
    cli_add(answer, "values", facts->value_count);
    cli_add_when(answer, valid && facts->joined > 0, "joined", facts->joined);
    cli_add(answer, "without_life", facts->without_life);
    cli_add_when(answer, facts->lives_alone > 0, "lives_alone", facts->lives_alone);
}
