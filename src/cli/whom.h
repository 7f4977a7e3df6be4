/* whom.h - the kernel library to plan for, shared by plan, verify, estimate, run and train.
 *
 * For the graph alone, operators and tensors stay as in the file, and rules of the operators give
 * the scratch. The answer is the same on every machine. For this machine's kernels, the graph is
 * rewritten for them, with their scratch and weight layouts for a number of threads and the
 * available instruction set. That is the memory of a run, to the byte.
 */
#ifndef TN_CLI_WHOM_H
#define TN_CLI_WHOM_H

#include "base/base.h"
#include "cli/facts.h"

/* Parses "none", "plain" or "onednn", the last two with an optional ":THREADS". False: another
 * word. */
bool cli_whom_parse(struct argp_state *state, const char *text, cli_whom *whom);
/* Whether the graph is rewritten for the kernels. */
bool cli_whom_rewrites(const cli_whom *whom);
/* E_UNSUPPORTED, with the package to install, if oneDNN is requested and missing. */
tn_status cli_whom_check(const cli_whom *whom, tn_error *error);
/* Fills and returns `told`, the kernels for a report; NULL: the graph alone. */
const tn_report_kernels *cli_whom_told(const cli_whom *whom, const tn_setup *setup,
                                       tn_report_kernels *told);
/* The memory saved by operators in pieces, as text, or "". */
#define CLI_PIECES_MAX 160
const char *cli_whom_pieces(const tn_setup *setup, char text[CLI_PIECES_MAX]);
/* Adds the kernels to the answer. */
extern const cli_facts cli_kernels_facts; /* with CLI_FACTS_ALSO */
void cli_kernels_tell(cli_answer *answer, const tn_report_kernels *kernels);
/* Adds the kernels, and the operators in pieces with their measured cost, to the answer. */
extern const cli_facts cli_whom_facts; /* with CLI_FACTS_ALSO */
void cli_whom_tell(cli_answer *answer, const cli_whom *whom, const tn_setup *setup);
/* Its parts without a setup: the line of the table; operators in pieces (seconds NAN: unknown). */
void cli_kernels_line(cli_answer *answer, const tn_report_kernels *kernels);
void cli_pieces_tell(cli_answer *answer, const tn_scratch_report *scratch, double seconds);

#endif
