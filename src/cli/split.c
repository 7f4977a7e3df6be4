/* split.c - `--split` and `--extra-work`, and the report of a setup with operators in tiles. */
#include "cli/split.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SPLIT_SHARE 0.25     /* the default extra work */
#define SPLIT_SHARE_MOST 0.5 /* the default for a curve */

enum { SPLIT_SPLIT = 1500, SPLIT_WORK };

#define SPLIT_OPTIONS(X)                                                                           \
    X(SPLIT_SPLIT, "split", NULL,                                                                  \
      "run operators in tiles, so that tensors between them never exist as a whole: to meet the "  \
      "budget, or to use as little memory as --extra-work allows")                                 \
    X(SPLIT_WORK, "extra-work", "SHARE",                                                           \
      "with --split: most additional work, such as 10% or 0.1 of the model's; a byte that is "     \
      "copied or read twice counts as eight operations (default: 25%, for a curve 50%, with a "    \
      "budget no limit)")

double cli_extra_work(struct argp_state *state, const char *text) {
    double work = cli_share(state, "extra-work", text);
    if (work > 1000)
        cli_misuse(state, "--extra-work: '%.60s' is more than 1000 times the work; use less", text);
    return work;
}

static error_t split_parse(int key, char *value, struct argp_state *state) {
    cli_split *split = state->input;
    switch (key) {
    case SPLIT_SPLIT:
        split->asked = true;
        return 0;
    case SPLIT_WORK:
        split->options.share = fmax(cli_extra_work(state, value), DBL_MIN);
        split->has_share = true;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option split_options[] = {SPLIT_OPTIONS(CLI_OPTION){0}};
const struct argp cli_split_argp = {.options = split_options, .parser = split_parse};

const tn_setup_split *cli_split_of(cli_split *split, uint64_t budget) {
    if (!split->asked) return NULL;
    split->options.budget = budget;
    if (split->sweeps && !split->has_share) split->options.share = SPLIT_SHARE_MOST;
    if (budget == 0 && !split->sweeps && !split->has_share) split->options.share = SPLIT_SHARE;
    return &split->options;
}

double cli_split_extra(const tn_split_report *report) {
    double whole = (double)report->whole.flops;
    return whole > 0 ? (double)report->parts.flops / whole - 1 : 0;
}

uint64_t cli_split_moved(const tn_split_report *report) {
    uint64_t parts = report->parts.bytes_moved, whole = report->whole.bytes_moved;
    return parts > whole ? parts - whole : 0;
}

void cli_split_words(const tn_setup *setup, tn__text *text) {
    const tn_split_report *report = setup != NULL ? tn_setup_splits(setup) : NULL;
    char moved[TN_SIZE_TEXT_MAX];
    if (report == NULL) return;
    tn__text_printf(text, "%u region%s", report->count, report->count == 1 ? "" : "s");
    if (report->again_count > 0)
        tn__text_printf(text, ", %u tensor%s recomputed", report->again_count,
                        report->again_count == 1 ? "" : "s");
    tn__text_printf(text, ": %+.1f %% operations, %s more moved", 100 * cli_split_extra(report),
                    tn_size_format(cli_split_moved(report), moved));
}

static const cli_facts split_facts = {
    .width = 15,
    .rows = (const cli_fact[]){
        CLI_FACT(COUNT, "regions", "in parts", "regions of operators in tiles"),
        CLI_FACT(COUNT, "recomputed", NULL, "recomputed tensors"),
        CLI_FACT(SHARE, "extra_operations", NULL,
                 "additional operations, as a fraction of those of the model without tiles"),
        CLI_FACT(COUNT, "operations", NULL, "operations of the program with tiles"),
        CLI_FACT(BYTES, "more_bytes_moved", NULL,
                 "bytes read and written in addition to those of the program without tiles"),
        CLI_FACT(BYTES, "whole_arena", NULL, "bytes of the arena without tiles"), CLI_FACTS_END}};
const cli_facts cli_split_facts = {
    .rows = (const cli_fact[]){
        CLI_FACT_OF(OBJECT, "split", "with tiles: the tiles and their cost", &split_facts),
        CLI_FACTS_END}};

void cli_split_tell(cli_answer *answer, const tn_setup *setup) {
    const tn_split_report *report = setup != NULL ? tn_setup_splits(setup) : NULL;
    char before[TN_SIZE_TEXT_MAX], after[TN_SIZE_TEXT_MAX];
    uint64_t arena = setup != NULL ? tn_setup_need(setup).arena : 0;
    tn__text words;
    if (report == NULL) return;
    tn__text_init(&words, NULL);
    cli_split_words(setup, &words);
    cli_answer_open(answer, "split");
    cli_tell(answer, "regions", report->count);
    cli_tell_as(answer, "%s; arena %s, whole %s (%.2f x)", words.failed ? "" : words.data,
                tn_size_format(arena, after), tn_size_format(report->whole_arena, before),
                arena > 0 ? (double)report->whole_arena / (double)arena : 0);
    cli_tell(answer, "recomputed", report->again_count);
    cli_tell_real(answer, "extra_operations", cli_split_extra(report));
    cli_tell(answer, "operations", report->parts.flops);
    cli_tell(answer, "more_bytes_moved", cli_split_moved(report));
    cli_tell(answer, "whole_arena", report->whole_arena);
    cli_answer_close(answer);
    tn__text_release(&words);
}
