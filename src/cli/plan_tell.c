/* plan_tell.c - prints the answer of `tenure plan`: the numbers of the plan, as JSON and in one
 * line. The text is the library's format "table", which other callers of the library print, too. */
#include "cli/plan_tell.h"

#include "base/base.h"
#include "cli/split.h"
#include "cli/whom.h"
#include "report/format.h"

#define PLAN_KIND(name, text) CLI_FACT(BYTES, text, NULL, "bytes of kind " text),
static const cli_facts plan_kinds_facts = {
    .rows = (const cli_fact[]){TN_KIND_TABLE(PLAN_KIND) CLI_FACTS_END}};
static const cli_facts plan_bank_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "name", NULL, "name of the bank"), CLI_FACT(BYTES, "peak", NULL, "its peak"),
        CLI_FACT(BYTES, "lower_bound", NULL, "no layout of its buffers takes less"),
        CLI_FACT(BYTES, "capacity", NULL, "its capacity, or null"),
        CLI_FACT(BYTES, "traffic", NULL, "with several banks: bytes read and written in it"),
        CLI_FACT(REAL, "bytes_per_s", NULL, "its speed, if given"), CLI_FACTS_END}};
static const cli_facts plan_seconds_facts = {
    .rows = (const cli_fact[]){CLI_FACT(SECONDS, "import", NULL, "reading the input"),
                               CLI_FACT(SECONDS, "train", NULL, "making the training step"),
                               CLI_FACT(SECONDS, "order", NULL, "ordering the operators"),
                               CLI_FACT(SECONDS, "program", NULL, "making the program"),
                               CLI_FACT(SECONDS, "occupancy", NULL, "assigning buffers"),
                               CLI_FACT(SECONDS, "plan", NULL, "planning the buffers"),
                               CLI_FACT(SECONDS, "write", NULL, "writing files"), CLI_FACTS_END}};
const cli_facts cli_plan_facts = {
    .name = "plan",
    .rows = (const cli_fact[]){
        CLI_FACT_BRIEF(WORD, "input", NULL, "@: ", "path of the model or problem"),
        CLI_FACTS_ALSO(&cli_kernels_facts),
        CLI_FACT(WORD, "planner", NULL, "the planner that found the plan"),
        CLI_FACT(WORD, "status", NULL,
                 "optimal: no plan of these buffers has a lower peak (for a model, of this order "
                 "with these in-place choices; with `--objective pairs`: no plan within the "
                 "capacity has a lower reuse cost); or feasible"),
        CLI_FACT(WORD, "order", NULL, "for models: the order of the operators"),
        CLI_FACT(YES, "order_proved", NULL,
                 "for models: whether no order has a lower peak of live bytes"),
        CLI_FACT_BRIEF(BYTES, "peak", NULL, "@", "bytes of the arena"),
        CLI_FACT(BYTES, "lower_bound", NULL, "no plan of these buffers takes less"),
        CLI_FACT_BRIEF(SHARE, "gap", NULL, ", gap @", "`peak` / `lower_bound` - 1"),
        CLI_FACT(COUNT, "reuse_cost", NULL,
                 "for problems with reuse costs: the sum of the costs of the pairs that share "
                 "bytes"),
        CLI_FACT(COUNT, "reuse_cost_bound", NULL,
                 "with `--objective pairs`: no plan within the capacity has a lower reuse cost; "
                 "else 0"),
        CLI_FACT(BYTES, "naive", NULL, "bytes without reuse"),
        CLI_FACT(BYTES, "static", NULL, "for models: bytes outside the arena, such as weights"),
        CLI_FACT(BYTES, "caching_pool", NULL,
                 "bytes that a caching pool would have reserved for the same run, with weights; "
                 "absent if it cannot be simulated"),
        CLI_FACT(BYTES, "device", NULL, "with `--device`: bytes of the device"),
        CLI_FACT(YES, "fits", NULL, "with `--device`: whether arena and weights fit"),
        CLI_FACT_OF(LIST, "banks", "the banks of memory", &plan_bank_facts),
        CLI_FACT_OF(OBJECT, "by_kind", "for models: bytes of all tensors of each kind that occurs",
                    &plan_kinds_facts),
        CLI_FACT_OF(OBJECT, "at_peak", "for models: bytes of each kind at the peak",
                    &plan_kinds_facts),
        CLI_FACT(COUNT, "buffers", NULL, "number of buffers"),
        CLI_FACT(COUNT, "tensors", NULL, "number of live ranges of tensors; null: a problem"),
        CLI_FACT(COUNT, "bounded", NULL, "number of tensors with an upper bound as their size"),
        CLI_FACT(COUNT, "dependencies_added", NULL,
                 "pairs of operators that can run at the same time in the graph but not in this "
                 "plan; null: a problem, or a graph too wide to count"),
        CLI_FACT_OF(OBJECT, "seconds", "wall time by stage", &plan_seconds_facts),
        CLI_FACT(COUNT, "seed", NULL, "seed of randomised planners"),
        CLI_FACT(COUNT, "work", NULL,
                 "effort of the planner in units of work, the same on every machine"),
        CLI_FACTS_ALSO(&cli_holders_facts),
        CLI_FACTS_ALSO(&cli_split_facts),
        CLI_FACTS_END}};

static void plan_tell_status(cli_answer *answer, const tn_report *report) {
    const tn_layout *layout = report->layout;
    bool optimal = layout->verdict == TN_VERDICT_OPTIMAL;
    cli_tell_word(answer, "input", cli_shown_path(report->input));
    if (report->occupancy != NULL) cli_kernels_tell(answer, report->kernels);
    cli_tell_word(answer, "planner", layout->planner);
    cli_tell_word(answer, "status", tn_verdict_name(layout->verdict));
    if (report->occupancy != NULL) {
        tn_program_order order = tn_program_order_of(tn_occupancy_program(report->occupancy));
        cli_tell_word(answer, "order", order.name);
        cli_tell(answer, "order_proved", order.proved);
    }
    cli_tell(answer, "peak", layout->peak);
    cli_tell_brief(answer, ", %s by %s", optimal ? "optimal" : "valid", layout->planner);
    cli_tell(answer, "lower_bound", layout->lower_bound);
    cli_tell_real(answer, "gap", tn__words_gap(layout->peak, layout->lower_bound));
    uint32_t costs;
    tn_problem_reuse_costs(report->problem, &costs);
    if (costs == 0) return;
    cli_tell(answer, "reuse_cost", layout->reuse_cost);
    cli_tell(answer, "reuse_cost_bound", layout->reuse_cost_bound);
}

static void plan_tell_device(cli_answer *answer, const tn_report *report) {
    uint64_t pool = tn__caching_pool(report);
    if (report->occupancy != NULL) cli_tell(answer, "static", report->static_bytes);
    if (pool > 0) cli_tell(answer, "caching_pool", pool);
    if (report->device_bytes == 0) return;
    cli_tell(answer, "device", report->device_bytes);
    cli_tell(answer, "fits",
             tn__add_sat(report->layout->peak, report->static_bytes) <= report->device_bytes);
}

static void plan_tell_bank(cli_answer *answer, const tn_report *report, tn_bank_id id) {
    const tn_bank *bank = tn_problem_bank(report->problem, id);
    const tn_layout *layout = report->layout;
    cli_answer_open(answer, NULL);
    cli_tell_word(answer, "name", bank->name);
    cli_tell(answer, "peak", layout->bank_peak[id]);
    cli_tell(answer, "lower_bound", layout->bank_lower_bound[id]);
    if (bank->capacity > 0)
        cli_tell(answer, "capacity", bank->capacity);
    else
        cli_tell_null(answer, "capacity");
    if (layout->bank_count > 1) cli_tell(answer, "traffic", layout->bank_traffic[id]);
    if (bank->bytes_per_s > 0) cli_tell_real(answer, "bytes_per_s", bank->bytes_per_s);
    cli_answer_close(answer);
}

static void plan_tell_kinds(cli_answer *answer, const char *key, const uint64_t *bytes) {
    cli_answer_open(answer, key);
    for (uint32_t kind = 0; kind < TN_KIND_COUNT; kind++)
        if (bytes[kind] > 0) cli_tell(answer, tn_kind_name((tn_kind)kind), bytes[kind]);
    cli_answer_close(answer);
}

static void plan_tell_model(cli_answer *answer, const tn_report *report) {
    const tn_occupancy *occupancy = report->occupancy;
    tn_memory_summary memory = {.naive = tn_problem_naive(report->problem)};
    uint64_t added;
    tn_error why;
    if (occupancy != NULL) memory = tn_occupancy_summary(occupancy);
    cli_tell(answer, "naive", memory.naive);
    plan_tell_kinds(answer, "by_kind", memory.total);
    plan_tell_kinds(answer, "at_peak", memory.at_peak);
    cli_tell(answer, "bounded", memory.bounded);
    if (occupancy != NULL)
        cli_tell(answer, "tensors", tn_occupancy_life_count(occupancy));
    else
        cli_tell_null(answer, "tensors");
    if (occupancy != NULL &&
        tn_plan_dependencies(occupancy, report->layout, NULL, &added, &why) == TN_OK)
        cli_tell(answer, "dependencies_added", added);
    else
        cli_tell_null(answer, "dependencies_added");
}

static void plan_tell(cli_answer *answer, const tn_report *report) {
    const tn_layout *layout = report->layout;
    plan_tell_status(answer, report);
    if (answer->style != CLI_STYLE_JSON) return; /* the rest takes time, and is only there */
    plan_tell_device(answer, report);
    plan_tell_model(answer, report);
    cli_answer_open(answer, "banks");
    for (tn_bank_id id = 0; id < layout->bank_count; id++) plan_tell_bank(answer, report, id);
    cli_answer_close(answer);
    cli_tell(answer, "buffers", layout->body_count);
    cli_answer_open(answer, "seconds");
    for (uint32_t i = 0; i < report->stage_count; i++)
        cli_tell_real(answer, report->stages[i].name, report->stages[i].seconds);
    cli_answer_close(answer);
    cli_tell(answer, "seed", layout->seed);
    cli_tell(answer, "work", layout->work);
}

static tn_status plan_put_table(tn__text *table, const tn_report *report, tn_error *error) {
    char *text;
    size_t size;
    TN_TRY(tn_report_render(report, "table", &text, &size, error));
    tn__text_add(table, text, size);
    tn_report_release(text);
    return TN_OK;
}

tn_status cli_plan_print(const tn_report *report, const tn_setup *setup, const cli_holders *holders,
                         uint32_t shown, bool json, tn_error *error) {
    char pieces[CLI_PIECES_MAX];
    tn_status status = TN_OK;
    cli_answer answer;
    cli_progress_end();
    cli_answer_begin(&answer, &cli_plan_facts, json);
    tn__text *table = cli_answer_table(&answer);
    if (table != NULL)
        status = plan_put_table(table, report, error);
    else
        plan_tell(&answer, report);
    if (table != NULL && shown > 0) tn__text_put(table, "\n");
    if (shown > 0) cli_holders_tell(&answer, holders, shown);
    if (table != NULL && cli_whom_pieces(setup, pieces)[0] != '\0')
        tn__text_printf(table, "  %s\n", pieces);
    cli_split_tell(&answer, setup);
    if (status == TN_OK) return cli_answer_end(&answer, error);
    cli_answer_release(&answer);
    return status;
}
