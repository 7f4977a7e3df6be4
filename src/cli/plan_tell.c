/* plan_tell.c - prints the answer of `tenure plan`. The facts are those of the library
 * (report/plan_facts.h), and the table is its format "table"; the command adds the largest holders
 * and operators in tiles. */
#include "cli/plan_tell.h"

#include "base/base.h"
#include "cli/split.h"
#include "cli/whom.h"
#include "report/plan_facts.h"

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
#define PLAN_ROW(unit, name, key, label, brief, help)                                              \
    {key, NULL, PLAN_UNIT_##unit, brief, help, PLAN_MEMBERS_##unit},
#define PLAN_UNIT_BYTES CLI_UNIT_BYTES
#define PLAN_UNIT_COUNT CLI_UNIT_COUNT
#define PLAN_UNIT_SHARE CLI_UNIT_SHARE
#define PLAN_UNIT_WORD CLI_UNIT_WORD
#define PLAN_UNIT_YES CLI_UNIT_YES
#define PLAN_UNIT_BANKS CLI_UNIT_LIST
#define PLAN_UNIT_KINDS CLI_UNIT_OBJECT
#define PLAN_UNIT_STAGES CLI_UNIT_OBJECT
#define PLAN_MEMBERS_BYTES NULL
#define PLAN_MEMBERS_COUNT NULL
#define PLAN_MEMBERS_SHARE NULL
#define PLAN_MEMBERS_WORD NULL
#define PLAN_MEMBERS_YES NULL
#define PLAN_MEMBERS_BANKS &plan_bank_facts
#define PLAN_MEMBERS_KINDS &plan_kinds_facts
#define PLAN_MEMBERS_STAGES &plan_seconds_facts
const cli_facts cli_plan_facts = {
    .name = "plan",
    .rows = (const cli_fact[]){
        CLI_FACT_BRIEF(WORD, "input", NULL, "@: ", "path of the model or problem"),
        CLI_FACTS_ALSO(&cli_kernels_facts),
        TN__PLAN_FACTS(PLAN_ROW) CLI_FACTS_ALSO(&cli_holders_facts),
        CLI_FACTS_ALSO(&cli_split_facts), CLI_FACTS_END}};

static void plan_tell_fact(cli_answer *answer, const tn_report *report, tn__plan_fact_id id) {
    tn__plan_fact fact = tn__plan_fact_of(report, id);
    tn__text json;
    if (fact.absent) return;
    tn__text_init(&json, NULL);
    tn__plan_fact_json(&json, report, id, &fact);
    if (answer->style == CLI_STYLE_JSON)
        cli_tell_json(answer, fact.key, json.failed ? "null" : json.data);
    else if (fact.unit == TN__PLAN_UNIT_SHARE)
        cli_tell_real(answer, fact.key, fact.real);
    else
        cli_tell(answer, fact.key, fact.whole);
    if (json.failed) answer->out.failed = true;
    tn__text_release(&json);
}

/* In the JSON all facts, else those of the brief line: the others take time. */
static void plan_tell(cli_answer *answer, const tn_report *report) {
    static const bool brief[] = {
#define TN_X(unit, name, key, label, words, help) (words) != NULL,
        TN__PLAN_FACTS(TN_X)
#undef TN_X
    };
    bool optimal = report->layout->verdict == TN_VERDICT_OPTIMAL;
    cli_tell_word(answer, "input", cli_shown_path(report->input));
    if (report->occupancy != NULL) cli_kernels_tell(answer, report->kernels);
    for (tn__plan_fact_id id = 0; id < TN__PLAN_FACT_COUNT; id++) {
        if (answer->style == CLI_STYLE_JSON || brief[id]) plan_tell_fact(answer, report, id);
        if (id == TN__PLAN_PEAK)
            cli_tell_brief(answer, ", %s by %s", optimal ? tn__words_verdict(report) : "valid",
                           report->layout->planner);
    }
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
