/* whom.c - from a choice of kernels to the options of a setup, and to text. */
#include "cli/whom.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "report/format.h"

#define WHOM_THREADS_MOST 1024u

bool cli_whom_parse(struct argp_state *state, const char *text, cli_whom *whom) {
    static const struct {
        const char *word;
        cli_runner runner;
    } words[] = {
        {"none", CLI_RUNNER_NONE}, {"plain", CLI_RUNNER_PLAIN}, {"onednn", CLI_RUNNER_ONEDNN}};
    const char *colon = strchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strlen(words[i].word) != length || strncmp(text, words[i].word, length) != 0) continue;
        whom->runner = words[i].runner;
        if (colon != NULL)
            whom->threads = (uint32_t)cli_count(state, "kernels", colon + 1, WHOM_THREADS_MOST);
        return true;
    }
    return false;
}

bool cli_whom_rewrites(const cli_whom *whom) {
    return whom->runner == CLI_RUNNER_ONEDNN && !whom->no_rewrite;
}

tn_status cli_whom_check(const cli_whom *whom, tn_error *error) {
    tn_error missing;
    if (whom->runner != CLI_RUNNER_ONEDNN || tn_kernels_library(NULL, &missing)) return TN_OK;
    *error = missing;
    return missing.status;
}

const tn_report_kernels *cli_whom_told(const cli_whom *whom, const tn_setup *setup,
                                       tn_report_kernels *told) {
    if (setup == NULL || tn_setup_kernels(setup) == NULL) return NULL;
    const char *isa = tn_kernels_isa(tn_setup_kernels(setup));
    *told = (tn_report_kernels){.library = isa[0] != '\0' ? "onednn" : "plain",
                                .isa = isa,
                                .threads = whom->threads > 0 ? whom->threads : 1,
                                .rewritten = cli_whom_rewrites(whom),
                                .fastest = whom->fastest};
    return told;
}

static const char *whom_pieces(const tn_scratch_report *scratch, char text[CLI_PIECES_MAX]) {
    char less[TN_SIZE_TEXT_MAX];
    text[0] = '\0';
    if (scratch != NULL)
        snprintf(text, CLI_PIECES_MAX, "%u operator%s in pieces: %s less", scratch->operators,
                 scratch->operators == 1 ? " runs" : "s run",
                 tn_size_format(scratch->before - scratch->after, less));
    return text;
}

const char *cli_whom_pieces(const tn_setup *setup, char text[CLI_PIECES_MAX]) {
    return whom_pieces(setup != NULL ? tn_setup_scratch(setup) : NULL, text);
}

static const cli_facts whom_kernels_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(WORD, "library", NULL, "onednn or plain"),
        CLI_FACT(WORD, "isa", NULL, "instruction set of oneDNN"),
        CLI_FACT(COUNT, "threads", NULL, "number of threads"),
        CLI_FACT(YES, "rewritten", NULL, "whether the graph is rewritten for them"),
        CLI_FACT(YES, "fastest", NULL, "whether the fastest kernels were chosen"), CLI_FACTS_END}};
static const cli_facts whom_pieces_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "operators", "in pieces", "number of operators in pieces"),
        CLI_FACT(BYTES, "saved", NULL, "bytes of memory saved"),
        CLI_FACT(SECONDS, "seconds", NULL, "measured additional time of a run, or null"),
        CLI_FACTS_END}};
const cli_facts cli_kernels_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(OBJECT, "kernels",
                    "the kernels of this machine that were planned for; null: the graph alone",
                    &whom_kernels_facts),
        CLI_FACTS_END}};
const cli_facts cli_whom_facts = {
    .width = 15,
    .rows =
        (const cli_fact[]){CLI_FACTS_ALSO(&cli_kernels_facts),
                           CLI_FACT_OF(OBJECT, "in_pieces",
                                       "operators that run in pieces, to need less scratch memory",
                                       &whom_pieces_facts),
                           CLI_FACTS_END}};

void cli_kernels_tell(cli_answer *answer, const tn_report_kernels *told) {
    if (told == NULL) {
        cli_tell_null(answer, "kernels");
        return;
    }
    cli_answer_open(answer, "kernels");
    cli_tell_word(answer, "library", told->library);
    cli_tell_word(answer, "isa", told->isa);
    cli_tell(answer, "threads", told->threads);
    cli_tell(answer, "rewritten", told->rewritten);
    cli_tell(answer, "fastest", told->fastest);
    cli_answer_close(answer);
}

void cli_kernels_line(cli_answer *answer, const tn_report_kernels *kernels) {
    tn__text text;
    tn__text_init(&text, NULL);
    tn__words_whom(&text, kernels);
    cli_tell_line(answer, "for", "%s", text.failed ? "" : text.data);
    tn__text_release(&text);
}

void cli_pieces_tell(cli_answer *answer, const tn_scratch_report *scratch, double seconds) {
    char pieces[CLI_PIECES_MAX];
    cli_answer_open(answer, "in_pieces");
    cli_tell(answer, "operators", scratch->operators);
    cli_tell_as(answer, "%s", whom_pieces(scratch, pieces));
    if (isfinite(seconds))
        cli_tell_more(answer, ", %.3f ms %s", fabs(seconds) * 1e3, seconds < 0 ? "less" : "more");
    cli_tell(answer, "saved", scratch->before - scratch->after);
    cli_tell_real(answer, "seconds", seconds);
    cli_answer_close(answer);
}

void cli_whom_tell(cli_answer *answer, const cli_whom *whom, const tn_setup *setup) {
    const tn_scratch_report *scratch = setup != NULL ? tn_setup_scratch(setup) : NULL;
    tn_report_kernels told;
    const tn_report_kernels *kernels = cli_whom_told(whom, setup, &told);
    double cost;
    tn_error error; /* not printed if the machine has no room to measure both variants */
    cli_kernels_line(answer, kernels);
    cli_kernels_tell(answer, kernels);
    if (scratch == NULL) return;
    bool known = tn_setup_pieces_cost(setup, &cost, &error) == TN_OK;
    cli_pieces_tell(answer, scratch, known ? cost : NAN);
}
