/* whom.c - from a choice of kernels to the options of a setup, and to text. */
#include "cli/whom.h"

#include <inttypes.h>
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

void cli_whom_corridor(const cli_whom *whom, tn_rewrite_use use, cli_corridor *corridor) {
    corridor->options = (tn_setup_options)TN_SETUP_OPTIONS_INIT;
    corridor->rewrite = (tn_rewrite_options)TN_REWRITE_OPTIONS_INIT;
    corridor->kernels = (tn_kernels_options)TN_KERNELS_OPTIONS_INIT;
    corridor->rewrite.use = use;
    corridor->kernels.threads = whom->threads;
    corridor->kernels.plain = whom->runner == CLI_RUNNER_PLAIN;
    corridor->options.no_kernels = whom->runner == CLI_RUNNER_NONE;
    corridor->options.kernels = &corridor->kernels;
    corridor->options.fastest = whom->fastest;
    if (cli_whom_rewrites(whom) && !whom->staged)
        corridor->options.rewrite = &corridor->rewrite;
    else
        corridor->rewrite.no_fuse = corridor->rewrite.no_formats = true;
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

const char *cli_whom_pieces(const tn_setup *setup, char text[CLI_PIECES_MAX]) {
    const tn_scratch_report *scratch = setup != NULL ? tn_setup_scratch(setup) : NULL;
    char less[TN_SIZE_TEXT_MAX];
    text[0] = '\0';
    if (scratch != NULL)
        snprintf(text, CLI_PIECES_MAX, "%u operator%s in pieces: %s less", scratch->operators,
                 scratch->operators == 1 ? " runs" : "s run",
                 tn_size_format(scratch->before - scratch->after, less));
    return text;
}

void cli_whom_print(const cli_whom *whom, const tn_setup *setup) {
    tn_report_kernels told;
    char pieces[CLI_PIECES_MAX];
    double cost;
    tn_error error; /* not printed if the machine has no room to measure both variants */
    tn__text text;
    tn__text_init(&text, NULL);
    tn__words_whom(&text, cli_whom_told(whom, setup, &told));
    if (!text.failed) printf("%-15s %.*s\n", "for", (int)text.size, text.data);
    tn__text_release(&text);
    if (cli_whom_pieces(setup, pieces)[0] == '\0') return;
    printf("%-15s %s", "in pieces", pieces);
    if (tn_setup_pieces_cost(setup, &cost, &error) == TN_OK)
        printf(", %.3f ms %s", cost < 0 ? -cost * 1e3 : cost * 1e3, cost < 0 ? "less" : "more");
    printf("\n");
}

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

void cli_fitted_print(const tn_setup *setup) {
    const tn_fit_result *fitted = setup != NULL ? tn_setup_fitted(setup) : NULL;
    char plain[TN_SIZE_TEXT_MAX];
    if (fitted == NULL) return;
    uint32_t again = fitted_repeats(fitted);
    double more =
        fitted->plain_time > 0 ? (double)fitted->time / (double)fitted->plain_time - 1 : 0;
    printf("%-15s by %s from %s: %u operator%s again, %+.1f %% time predicted\n", "fitted",
           fitted->pass, tn_size_format(fitted->plain_bytes, plain), again,
           again == 1 ? " runs" : "s run", 100 * more);
}

void cli_fitted_json(const tn_setup *setup, tn__text *text) {
    const tn_fit_result *fitted = setup != NULL ? tn_setup_fitted(setup) : NULL;
    if (fitted == NULL) return;
    tn__text_printf(text,
                    ",\"fitted\":{\"pass\":\"%s\",\"plain_bytes\":%" PRIu64
                    ",\"again\":%u,\"time\":%" PRIu64 ",\"plain_time\":%" PRIu64 "}",
                    fitted->pass, fitted->plain_bytes, fitted_repeats(fitted), fitted->time,
                    fitted->plain_time);
}
