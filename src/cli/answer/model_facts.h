/* model_facts.h - the facts about a compiled model that the answers of several commands have:
 * kernels, tiles, weight streaming, lossy codecs, pruning, and how a budget was met or why it was
 * not met.
 *
 * Each part has a table of facts and a function that adds the values. A command includes the table
 * in the table of its own answer with CLI_FACTS_ALSO.
 */
#ifndef TN_ANSWER_MODEL_FACTS_H
#define TN_ANSWER_MODEL_FACTS_H

#include <tenure/engine.h>

#include "base/base.h"
#include "cli/answer/facts.h"
#include "cli/model/input.h"
#include "cli/model/opened_model.h"

/* Writes how many operators run in pieces and how much memory that saves; "" if none runs in
 * pieces. */
#define CLI_PIECES_MAX 160
const char *cli_pieces_words(const tn_setup *setup, char text[CLI_PIECES_MAX]);
/* cli_kernels_add adds the description of the kernels to the answer. */
extern const cli_facts cli_kernels_facts; /* a table of facts for the macro CLI_FACTS_ALSO */
void cli_kernels_add(cli_answer *answer, const tn_report_kernels *kernels);
/* cli_kernel_target_add adds the kernels, and the operators that run in pieces with the measured
 * cost of the pieces, to the answer. */
extern const cli_facts cli_kernel_target_facts; /* a table of facts for the macro CLI_FACTS_ALSO */
void cli_kernel_target_add(cli_answer *answer, const cli_kernel_target *target,
                           const tn_setup *setup);
/* The two parts of cli_kernel_target_add, for callers without a setup: the line about the kernels
 * in the table, and the operators that run in pieces. `seconds` is the measured cost of the pieces,
 * NAN if it is unknown. */
void cli_kernels_line(cli_answer *answer, const tn_report_kernels *kernels);
void cli_pieces_add(cli_answer *answer, const tn_scratch_report *scratch, double seconds);

/* --- operators in tiles --- */

/* Writes a summary of the tiles, such as "1 region, +2.0 % operations, 3.1 MiB more moved"; nothing
 * if the graph has no tiles. */
void cli_split_words(const tn_setup *setup, tn__text *text);
/* cli_split_add adds the tiles to the answer; it does nothing if the graph has no tiles. */
extern const cli_facts cli_split_facts; /* a table of facts for the macro CLI_FACTS_ALSO */
void cli_split_add(cli_answer *answer, const tn_setup *setup);

/* The cost of tiles: additional operations, as a fraction of the model's operations, and additional
 * bytes that are moved. */
double cli_split_extra(const tn_split_report *report);
uint64_t cli_split_moved(const tn_split_report *report);

/* --- weight streaming --- */

/* With weight streaming, weights are read from their file when an operator needs them. */

extern const cli_facts cli_stream_facts; /* a table of facts for the macro CLI_FACTS_ALSO */
/* Adds the facts of weight streaming; does nothing if no weight is streamed. `usage` is NULL if the
 * model has not run. */
void cli_stream_add(cli_answer *answer, const tn_setup *setup, const tn_engine_usage *usage);

/* --- experts in a cache --- */

/* Tables of facts for the macro CLI_FACTS_ALSO: of a run, and of a plan alone. */
extern const cli_facts cli_experts_facts, cli_experts_planned_facts;
/* Adds the facts of the cache of experts; does nothing if all experts are in memory. `usage` is
 * NULL if the model has not run. */
void cli_experts_add(cli_answer *answer, const tn_setup *setup, const tn_engine_usage *usage);

/* --- operators on streams --- */

/* Adds on how many streams the kernels ran, and, if several were asked for, why they did not. */
void cli_streams_add(cli_answer *answer, const cli_streams *asked, const tn_setup *setup,
                     const tn_engine_usage *usage);
extern const cli_facts cli_streams_facts; /* a table of facts for the macro CLI_FACTS_ALSO */

/* --- errors of lossy codecs --- */

typedef struct cli_losses {
    /* [count] errors of encoded tensors, the largest relative error first; the program owns the
     * names */
    tn_engine_loss *rows;
    uint32_t count;
} cli_losses;

/* Reads the errors of the tensors that the engine encoded. If memory ran out, `losses` has no rows.
 * The caller releases `losses` in any case. */
void cli_losses_read(cli_losses *losses, const tn_engine *engine);
void cli_losses_release(cli_losses *losses);

extern const cli_facts cli_losses_facts; /* a table of facts for the macro CLI_FACTS_ALSO */
/* Adds the errors to the answer; does nothing if no tensor was encoded. */
void cli_losses_add(cli_answer *answer, const cli_losses *losses);
/* Reads the errors of an engine and adds them to the answer. */
void cli_engine_losses_add(cli_answer *answer, const tn_engine *engine);

/* --- pruning --- */

/* cli_pruned_add adds a summary of pruning and one row per pruned weight to the answer; it does
 * nothing without pruning. */
extern const cli_facts cli_pruned_facts; /* a table of facts for the macro CLI_FACTS_ALSO */
void cli_pruned_add(cli_answer *answer, const cli_opened_model *opened);

/* --- how a budget was met; results of --check and --poison --- */

/* cli_fitted_add adds how a budget was met; it does nothing if the program met it without a
 * change. */
extern const cli_facts cli_fitted_facts; /* a table of facts for the macro CLI_FACTS_ALSO */
void cli_fitted_add(cli_answer *answer, const tn_setup *setup, const tn_fit_answer *from);
/* cli_check_add adds the results of --check and --poison. */
extern const cli_facts cli_check_facts; /* a table of facts for the macro CLI_FACTS_ALSO */
void cli_check_add(cli_answer *answer, const cli_opened_model *opened);

/* --- claims: the techniques that were tried to meet a budget, and the proofs about them --- */

/* Claims are members of the JSON of `fit` and `run`. If a budget is not met, `train` prints them as
 * messages, too. */

/* cli_claims_add adds the members "scope", "claims", "not_tried" and "would_fit" to the JSON; it
 * does nothing if no search was made. */
extern const cli_facts cli_claims_facts; /* a table of facts for the macro CLI_FACTS_ALSO */
void cli_claims_add(cli_answer *answer, const tn_fit_answer *found);
/* Prints each hint of the answer as a note with a complete command line. It is for commands with an
 * error message that does not come from tn_fit_graph, because tn_fit_graph puts the hints into its
 * message. `command` is the text before "--budget", such as "`tenure fit` with ", of a command that
 * has the option --allow. */
void cli_claims_put_hints(const tn_fit_answer *answer, const char *command);
/* table of the members that cli_claims_fail adds to the JSON object of an error */
extern const cli_facts cli_refused_facts;
/* Prints an error as cli_fail does and returns the exit status, for a command with a budget. If the
 * budget was exceeded, the claims become members of the JSON object of the error. */
int cli_claims_fail(const tn_fit_answer *answer, const char *input, const tn_error *error);
/* If no program fits the budget: prints the largest tensors of the smallest program found, on
 * standard error. */
void cli_claims_holders(const tn_fit_answer *answer);

#endif
