/* foreign_report.c - `tenure report` for a plan of another tool. It reports the arenas, whether the
 * plan is valid, its distance from the lower bound and from a plan of Tenure, and the values that
 * are live at the peak. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "cli/traces/foreign.h"

typedef struct foreign_reading {
    cli_report *report;
    tn_foreign *foreign;
    tn_problem *problem; /* buffers of the plan; NULL: the file has no live ranges */
    tn_layout theirs, ours;
    bool is_planned, is_ordered;
    tn_status status; /* verdict on the plan; TN_E_UNSUPPORTED: unknown */
    tn__foreign_order order;
    tn_error conflict;
} foreign_reading;

/* --- the table of facts --- */

#define FOREIGN_LABELS 19u

static const cli_facts foreign_arena_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "size", "bytes", "its bytes"),
        CLI_FACT(BYTES, "live", "live", "the most bytes that are live at once"),
        CLI_FACT(BYTES, "lower_bound", NULL, "no layout with its alignment takes less"),
        CLI_FACT(BYTES, "alignment", NULL, "alignment of all its offsets"),
        CLI_FACT(COUNT, "step", "step", "the first step with the most live bytes"),
        CLI_FACT(WORD, "instruction", NULL, "instruction of that step"),
        CLI_FACT(WORD, "name", "planned arena", "its name"), CLI_FACTS_END}};
static const cli_facts foreign_holder_facts = {
    .indent = 2,
    .columns = true,
    .rows = (const cli_fact[]){
        CLI_FACT(BYTES, "bytes", "bytes", "its bytes"),
        CLI_FACT(SHARE, "share", "share", "the same / live bytes"),
        CLI_FACT(COUNT, "offset", NULL, "its offset in the arena"),
        CLI_FACT(WORD, "op", "operator", "type of the instruction that defines it"),
        CLI_FACT(WORD, "name", "value", "its name"),
        CLI_FACT(WORD, "source", "source", "operator of the user's program, with file and line"),
        CLI_FACTS_END}};

#define FOREIGN_KEY_PLANNED "planned"
#define FOREIGN_KEY_PARAMETER "parameters"
#define FOREIGN_KEY_DONATED "donated_parameters"
#define FOREIGN_KEY_OUTPUT "outputs"
#define FOREIGN_KEY_CONSTANT "constants"
#define FOREIGN_KEY_THREAD_LOCAL "thread_local"
#define FOREIGN_KEY_OTHER "other"
#define FOREIGN_ROW(name, word) CLI_FACT(BYTES, FOREIGN_KEY_##name, NULL, "bytes of use: " word),
static const cli_facts foreign_use_facts = {
    .rows = (const cli_fact[]){TN_FOREIGN_USE_TABLE(FOREIGN_ROW) CLI_FACTS_END}};

const cli_facts cli_foreign_facts = {
    .name = "foreign-plan",
    .indent = 2,
    .width = FOREIGN_LABELS,
    .rows = (const cli_fact[]){
        CLI_FACT_BRIEF(WORD, "input", NULL, "@: ", "path of the file or folder"),
        CLI_FACT(WORD, "tool", "tool", "XLA or ExecuTorch"),
        CLI_FACT(WORD, "form", NULL, "version of its format"),
        CLI_FACT(WORD, "module", "module", "name of the module or method"),
        CLI_FACT(COUNT, "modules", NULL, "number of modules or methods in the folder or file"),
        CLI_FACT(COUNT, "steps", NULL, "number of instructions"),
        CLI_FACT(COUNT, "arenas", NULL, "number of arenas: allocations or memories"),
        CLI_FACT(COUNT, "values", "values", "number of values"),
        CLI_FACT(COUNT, "joined", NULL,
                 "values that share the bytes of an earlier one at its offset"),
        CLI_FACT(COUNT, "joined_seen", NULL,
                 "of these, values whose instruction reads the earlier one, as far as the text of "
                 "the module shows"),
        CLI_FACT(COUNT, "without_life", NULL, "values without a live range"),
        CLI_FACT(COUNT, "lives_alone", NULL, "live ranges without a value"),
        CLI_FACT_OF(OBJECT, "bytes", "bytes of the arenas by use", &foreign_use_facts),
        CLI_FACT_BRIEF(BYTES, "planned", "planned", "@", "bytes of the planned arenas"),
        CLI_FACT_BRIEF(YES, "valid", NULL, NULL, "whether the plan is valid; null: unknown"),
        CLI_FACT_BRIEF(WORD, "conflict", "NOT VALID", "; not valid: @",
                       "the first conflict, or null"),
        CLI_FACT_BRIEF(WORD, "doubt", "UNKNOWN", "; unknown whether valid: @",
                       "why the file does not show whether the plan is valid, or null"),
        CLI_FACT(BYTES, "live", "live", "the most bytes that are live at once"),
        CLI_FACT_BRIEF(BYTES, "lower_bound", "lower bound", "; the lower bound is @",
                       "no layout of these buffers takes less"),
        CLI_FACT_BRIEF(SHARE, "gap", "gap", ", the gap @", "`planned` / `lower_bound` - 1"),
        CLI_FACT(BYTES, "tenure", "planned here", "bytes of a plan of Tenure"),
        CLI_FACT(WORD, "planner", NULL, "the planner of that plan"),
        CLI_FACT(BYTES, "other_order", NULL,
                 "XLA with the text of the module: the least live bytes that were found for an "
                 "order of the same instructions"),
        CLI_FACT(BYTES, "other_order_bound", NULL,
                 "no order with the same values in place needs less, or null if no bound is known"),
        CLI_FACT(WORD, "other_order_missing", NULL, "why these are unknown, or null"),
        CLI_FACT_OF(LIST, "planned_arenas", "the planned arenas", &foreign_arena_facts),
        CLI_FACT(COUNT, "holder_count", NULL,
                 "buffers that are live at the peak of the fullest planned arena"),
        CLI_FACT_OF(LIST, "holders", "the `--top` largest of them", &foreign_holder_facts),
        CLI_FACTS_END}};

/* --- printing the answer --- */

static void foreign_add_module(cli_answer *answer, const tn_foreign_facts *facts) {
    cli_add_word(answer, "tool", facts->tool);
    cli_add_more(answer, " (%s)", facts->form);
    cli_add_word(answer, "form", facts->form);
    cli_add_word(answer, "module", facts->module[0] != '\0' ? facts->module : NULL);
    if (facts->modules > 1)
        cli_add_more(answer, ", one of %u; --module reads another", facts->modules);
    cli_add(answer, "modules", facts->modules);
    cli_add(answer, "steps", facts->step_count);
    cli_add(answer, "arenas", facts->arena_count);
    cli_add(answer, "values", facts->value_count);
    cli_add_more(answer, " in %u arena%s, %u instructions", facts->arena_count,
                 facts->arena_count == 1 ? "" : "s", facts->step_count);
    char seen[60] = "";
    if (facts->joined_seen > 0)
        snprintf(seen, sizeof seen, "; %u of them read it", facts->joined_seen);
    cli_add(answer, "joined", facts->joined);
    cli_add(answer, "joined_seen", facts->joined_seen);
    cli_add(answer, "without_life", facts->without_life);
    cli_add(answer, "lives_alone", facts->lives_alone);
    if (facts->joined > 0)
        cli_add_line(answer, "in place", "%u values at the place of an earlier one%s",
                     facts->joined, seen);
    if (facts->without_life > 0)
        cli_add_line(answer, "no live range", "%u values, which count as live in all steps",
                     facts->without_life);
}

static void foreign_add_bytes(cli_answer *answer, const tn_foreign_facts *facts) {
    static const char *const keys[] = {
#define TN_X(name, word) FOREIGN_KEY_##name,
        TN_FOREIGN_USE_TABLE(TN_X)
#undef TN_X
    };
    char size[TN_SIZE_TEXT_MAX];
    cli_answer_open(answer, "bytes");
    for (uint32_t i = 0; i < TN_FOREIGN_USE_COUNT; i++) cli_add(answer, keys[i], facts->bytes[i]);
    cli_answer_close(answer);
    for (uint32_t i = 1; i < TN_FOREIGN_USE_COUNT; i++)
        if (facts->bytes[i] > 0)
            cli_add_line(answer, tn_foreign_use_name(i), "%s",
                         tn_size_format(facts->bytes[i], size));
}

static void foreign_add_plan(cli_answer *answer, const foreign_reading *reading) {
    const tn_foreign_facts *facts = tn_foreign_facts_of(reading->foreign);
    cli_add(answer, "planned", facts->planned);
    if (reading->problem == NULL) {
        cli_add_null(answer, "valid");
        cli_add_line(answer, "live ranges", "not in these files, so only sums are known");
        return;
    }
    if (reading->status == TN_OK) cli_add_more(answer, ", valid");
    if (reading->status == TN_E_UNSUPPORTED)
        cli_add_null(answer, "valid");
    else
        cli_add(answer, "valid", reading->status == TN_OK);
    cli_add_word(answer, "conflict",
                 reading->status == TN_E_CONFLICT ? reading->conflict.message : NULL);
    cli_add_word(answer, "doubt", reading->status == TN_E_UNSUPPORTED ? facts->doubt : NULL);
    cli_add(answer, "live", facts->live);
    cli_add(answer, "lower_bound", facts->bound);
    if (facts->bound > 0)
        cli_add_real(answer, "gap", (double)facts->planned / (double)facts->bound - 1);
    if (!reading->is_planned) return;
    cli_add(answer, "tenure", reading->ours.peak);
    cli_add_more(answer, ", %s by %s",
                 reading->ours.peak == reading->ours.lower_bound ? "optimal for these live ranges"
                                                                 : "valid",
                 reading->ours.planner);
    cli_add_word(answer, "planner", reading->ours.planner);
    if (!reading->is_ordered) return;
    char text[TN__FOREIGN_ORDER_TEXT];
    const tn__foreign_order *order = &reading->order;
    tn__foreign_order_text(reading->foreign, order, text);
    cli_add_line(answer, "another order", "%s", text);
    if (order->missing == NULL)
        cli_add(answer, "other_order", order->found);
    else
        cli_add_null(answer, "other_order");
    if (order->missing == NULL && order->exact)
        cli_add(answer, "other_order_bound", order->bound);
    else
        cli_add_null(answer, "other_order_bound");
    cli_add_word(answer, "other_order_missing", order->missing);
}

static void foreign_add_arenas(cli_answer *answer, const tn_foreign *foreign) {
    uint32_t count, shown = 0;
    const tn_foreign_arena *arenas = tn_foreign_arenas(foreign, &count);
    cli_add_gap(answer);
    cli_answer_open(answer, "planned_arenas");
    for (uint32_t i = 0; i < count; i++) {
        if (arenas[i].use != TN_FOREIGN_PLANNED) continue;
        if (cli_answer_table(answer) != NULL && shown++ == 20) break;
        cli_answer_open(answer, NULL);
        cli_add(answer, "size", arenas[i].size);
        cli_add(answer, "live", arenas[i].live);
        cli_add(answer, "lower_bound", arenas[i].bound);
        cli_add(answer, "alignment", arenas[i].alignment);
        cli_add(answer, "step", (uint64_t)arenas[i].step);
        cli_add_word(answer, "instruction", tn_foreign_step(foreign, arenas[i].step));
        cli_add_word(answer, "name", arenas[i].name);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
}

/* Adds the values at the peak: for each holder the value of the foreign plan with the holder's
 * name. */
static tn_status foreign_add_holders(cli_answer *answer, const foreign_reading *reading,
                                     tn_error *error) {
    cli_holders holders;
    uint32_t count;
    uint64_t live = 0;
    const tn_foreign_value *values = tn_foreign_values(reading->foreign, &count);
    tn__names names;
    tn_status status = cli_foreign_holders(&holders, reading->foreign, error);
    tn__names_init(&names, NULL);
    for (uint32_t i = 0; i < count && status == TN_OK; i++)
        if (!tn__names_add(&names, values[i].name, strlen(values[i].name), i, NULL))
            status = tn__no_memory(error, "the holders");
    for (uint32_t i = 0; i < holders.count; i++)
        live = tn__add_sat(live, holders.rows[i].allocated);
    cli_add_gap(answer);
    cli_add_text(answer, "  %s: %u buffers\n", holders.title, holders.count);
    cli_add(answer, "holder_count", holders.count);
    cli_answer_open(answer, "holders");
    for (uint32_t i = 0; i < holders.count && i < reading->report->top && status == TN_OK; i++) {
        const char *name = holders.rows[i].label.name;
        const tn_foreign_value *value = &values[tn__names_find(&names, name, strlen(name))];
        cli_answer_open(answer, NULL);
        cli_add(answer, "bytes", value->size);
        cli_add_real(answer, "share", live > 0 ? (double)value->size / (double)live : 0);
        cli_add(answer, "offset", value->offset);
        cli_add_word(answer, "op", value->op);
        cli_add_word(answer, "name", value->name);
        cli_add_word(answer, "source", value->source);
        cli_answer_close(answer);
    }
    cli_answer_close(answer);
    tn__names_release(&names);
    cli_holders_release(&holders);
    return status;
}

static tn_status foreign_print(const foreign_reading *reading, tn_error *error) {
    const tn_foreign_facts *facts = tn_foreign_facts_of(reading->foreign);
    tn_status status = TN_OK;
    cli_answer answer;
    cli_progress_end();
    cli_answer_begin(&answer, &cli_foreign_facts, reading->report->json);
    cli_add_word(&answer, "input", cli_shown_path(reading->report->path));
    foreign_add_module(&answer, facts);
    foreign_add_bytes(&answer, facts);
    foreign_add_plan(&answer, reading);
    if (reading->problem != NULL && !cli_tone_asked().brief) {
        foreign_add_arenas(&answer, reading->foreign);
        status = foreign_add_holders(&answer, reading, error);
    }
    if (status == TN_OK) return cli_answer_end(&answer, error);
    cli_answer_release(&answer);
    return status;
}

/* --- reading the plan and drawing it --- */

static tn_status foreign_plan_here(foreign_reading *reading) {
    cli_report *report = reading->report;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    if (report->no_pools) return TN_OK;
    options.context = &report->context;
    options.timeout_s = report->timeout_s;
    tn_status status = tn_plan(reading->problem, &options, &reading->ours, report->error);
    reading->is_planned = status == TN_OK;
    if (status != TN_OK) return status == TN_E_STOPPED ? TN_OK : status;
    reading->is_ordered = strcmp(tn_foreign_facts_of(reading->foreign)->tool, "XLA") == 0;
    if (!reading->is_ordered) return TN_OK;
    return tn__foreign_reorder(reading->foreign, &reading->order, report->error);
}

static tn_status foreign_work(foreign_reading *reading) {
    cli_report *report = reading->report;
    tn_foreign_options options = TN_FOREIGN_OPTIONS_INIT;
    uint64_t *offsets = NULL;
    options.module = report->module;
    options.context = &report->context;
    TN_TRY(tn_foreign_load(report->path, &options, &reading->foreign, report->error));
    if (!tn_foreign_facts_of(reading->foreign)->has_lives) return TN_OK;
    TN_TRY(tn_foreign_problem(reading->foreign, &reading->problem, &offsets, report->error));
    tn_status status =
        tn_layout_from_offsets(reading->problem, offsets, &reading->theirs, report->error);
    tn_offsets_release(&report->context, offsets, tn_problem_count(reading->problem));
    if (status == TN_OK) status = tn_foreign_verify(reading->foreign, NULL, &reading->conflict);
    reading->status = status;
    if (status != TN_OK && status != TN_E_CONFLICT && status != TN_E_UNSUPPORTED) {
        *report->error = reading->conflict;
        return status;
    }
    return foreign_plan_here(reading);
}

/* Returns the marks of the page: the operator and the source line of each buffer. */
static tn_report_mark *foreign_marks(const foreign_reading *reading, tn__arena *arena) {
    uint32_t count;
    const tn_foreign_value *values = tn_foreign_values(reading->foreign, &count);
    size_t bodies = (size_t)tn_problem_count(reading->problem) + 1;
    tn_report_mark *marks = tn__arena_array(arena, bodies, sizeof *marks);
    for (size_t i = 0; i < bodies && marks != NULL; i++) marks[i].kind = TN_KIND_COUNT;
    for (uint32_t i = 0; i < count && marks != NULL; i++) {
        const tn_foreign_value *value = &values[i];
        if (value->buffer == UINT32_MAX || marks[value->buffer].note != NULL) continue;
        size_t size = strlen(value->op) + strlen(value->source) + 2;
        char *note = tn__arena_alloc(arena, size);
        if (note == NULL) return NULL;
        snprintf(note, size, "%s\n%s", value->op, value->source);
        marks[value->buffer].note = note;
    }
    return marks;
}

static tn_status foreign_draw(const foreign_reading *reading) {
    const cli_report *report = reading->report;
    tn__arena arena;
    if (report->output_count == 0) return TN_OK;
    if (reading->problem == NULL)
        TN_FAIL(report->error, TN_E_UNSUPPORTED, "the files have no live ranges to draw");
    tn__arena_init(&arena, &report->context);
    const tn_report made = {.struct_size = sizeof made,
                            .input = cli_shown_path(report->path),
                            .problem = reading->problem,
                            .layout = &reading->theirs,
                            .marks = foreign_marks(reading, &arena)};
    tn_status status =
        made.marks != NULL ? TN_OK : tn__no_memory(report->error, "the notes of a picture");
    for (uint32_t i = 0; i < report->output_count && status == TN_OK; i++)
        status = tn_report_write(&made, report->outputs[i], report->error);
    tn__arena_release(&arena);
    for (uint32_t i = 0; i < report->output_count && status == TN_OK && !report->json; i++)
        printf("%s  wrote %s\n", i == 0 ? "\n" : "", report->outputs[i]);
    return status;
}

int cli_foreign_report(cli_report *report) {
    foreign_reading reading = {.report = report};
    tn_status status = foreign_work(&reading);
    if (status == TN_OK) status = foreign_print(&reading, report->error);
    if (status == TN_OK) status = foreign_draw(&reading);
    int code = status == TN_OK ? 0 : cli_fail(report->error);
    tn_layout_release(&reading.ours);
    tn_layout_release(&reading.theirs);
    tn_problem_destroy(reading.problem);
    tn_foreign_destroy(reading.foreign);
    return code;
}
