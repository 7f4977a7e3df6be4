/* session_tell.c - what the answers of run and train both tell about a session. */
#include "cli/session_tell.h"

#include <stdlib.h>

/* The number of recomputed operators, without views. */
static uint32_t fitted_repeats(const tn_fit_result *fitted) {
    const tn_graph *graph = tn_program_graph(fitted->program);
    const tn_instruction *list = tn_program_instructions(fitted->program);
    bool *ran = calloc((size_t)tn_graph_op_count(graph) + 1, sizeof *ran);
    uint32_t count = 0;
    for (uint32_t i = 0; i < tn_program_count(fitted->program) && ran != NULL; i++) {
        if (list[i].opcode != TN_APPLY) continue;
        count += ran[list[i].op] && tn_op_view(graph, list[i].op, 0).source == TN_NONE;
        ran[list[i].op] = true;
    }
    free(ran);
    return count;
}

static const cli_facts fitted_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "pass", "fitted", "the pass that found the program"),
        CLI_FACT(BYTES, "plain_bytes", NULL, "bytes before fitting"),
        CLI_FACT(COUNT, "recomputed", NULL, "number of recomputed operators"),
        CLI_FACT(COUNT, "time", NULL, "predicted time, in picoseconds"),
        CLI_FACT(COUNT, "plain_time", NULL, "predicted time before fitting"), CLI_FACTS_END}};
const cli_facts cli_fitted_facts = {
    .rows = (const cli_fact[]){CLI_FACT_OF(OBJECT, "fitted",
                                           "if the program was changed to meet the budget: how",
                                           &fitted_facts),
                               CLI_FACTS_END}};

/* from: its result compares with the plan of the graph without tiles, the set-up's own with that of
 * the graph in tiles. */
void cli_fitted_tell(cli_answer *answer, const tn_setup *setup, const tn_fit_answer *from) {
    const tn_fit_result *fitted = setup != NULL ? tn_setup_fitted(setup) : NULL;
    char plain[TN_SIZE_TEXT_MAX];
    if (fitted == NULL) return;
    if (from->setup == setup) fitted = &from->result;
    uint32_t again = fitted_repeats(fitted);
    double more =
        fitted->plain_time > 0 ? (double)fitted->time / (double)fitted->plain_time - 1 : 0;
    cli_answer_open(answer, "fitted");
    cli_tell_word(answer, "pass", fitted->pass);
    cli_tell_as(answer, "by %s from %s: %u operator%s recomputed, %+.1f %% time predicted",
                fitted->pass, tn_size_format(fitted->plain_bytes, plain), again,
                again == 1 ? "" : "s", 100 * more);
    cli_tell(answer, "plain_bytes", fitted->plain_bytes);
    cli_tell(answer, "recomputed", again);
    cli_tell(answer, "time", fitted->time);
    cli_tell(answer, "plain_time", fitted->plain_time);
    cli_answer_close(answer);
}

static const cli_facts check_naive_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "naive", "check naive",
                 "equal: every bit equals that of a run in which no tensors share memory"),
        CLI_FACTS_END}};
const cli_facts cli_check_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(OBJECT, "check", "with --check: the comparison", &check_naive_facts),
        CLI_FACT(WORD, "poison", "poison", "with --poison: clean"), CLI_FACTS_END}};

void cli_check_tell(cli_answer *answer, const cli_session *session) {
    if (session->check) {
        cli_answer_open(answer, "check");
        cli_tell_word(answer, "naive", "equal");
        cli_tell_as(answer, "every bit equal without reuse");
        cli_answer_close(answer);
    }
    if (session->poison) cli_tell_word(answer, "poison", "clean");
}
