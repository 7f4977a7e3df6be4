/* whom.h - for whose kernels memory is planned: the one notion that plan, verify, estimate, run and
 * train have of it.
 *
 * For the graph alone: operators and tensors as they are in the file, scratch by the operators'
 * rules. The answer is the same on every machine. For this machine's kernels: the graph rewritten
 * for them, their scratch, weights in their forms, chosen for a number of threads and the
 * instruction set that there is. That is what a run takes, to the byte.
 */
#ifndef TN_CLI_WHOM_H
#define TN_CLI_WHOM_H

#include "base/base.h"
#include "cli/cli.h"

typedef struct cli_corridor { /* what options of a set-up point to: where it is, it stays */
    tn_setup_options options;
    tn_rewrite_options rewrite;
    tn_kernels_options kernels;
} cli_corridor;

/* "none", "plain", "onednn", the last two with ":THREADS" behind them where they are wanted; false:
 * another word. */
bool cli_whom_parse(struct argp_state *state, const char *text, cli_whom *whom);
/* Whether the graph is rewritten for them. */
bool cli_whom_rewrites(const cli_whom *whom);
/* The options of the stages REWRITE, KERNELS and SCRATCH; of the others the defaults. */
void cli_whom_corridor(const cli_whom *whom, tn_rewrite_use use, cli_corridor *corridor);
/* E_UNSUPPORTED, with what to install: oneDNN's kernels are asked for by name and not there. */
tn_status cli_whom_check(const cli_whom *whom, tn_error *error);
/* What was made in words of a report; NULL: the graph alone. `told` is filled. */
const tn_report_kernels *cli_whom_told(const cli_whom *whom, const tn_setup *setup,
                                       tn_report_kernels *told);
/* How much less memory operators in pieces need; "" where there are none. */
#define CLI_PIECES_MAX 160
const char *cli_whom_pieces(const tn_setup *setup, char text[CLI_PIECES_MAX]);
/* The first lines of a run's answer: for whom it was planned; what runs in pieces, which is
 * measured for it. */
void cli_whom_print(const cli_whom *whom, const tn_setup *setup);
/* How a budget was met, as a line, or as a member of a JSON object behind others; nothing where
 * nobody had to. */
void cli_fitted_print(const tn_setup *setup);
void cli_fitted_json(const tn_setup *setup, tn__text *text);

#endif
