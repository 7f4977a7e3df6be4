/* model_facts.h - parts of answers that several commands print about a compiled model: kernels,
 * tiles, weight streaming, lossy codecs, pruning, and how a budget was met or refused.
 *
 * Each part has a table of facts, which the answer of a command includes with CLI_FACTS_ALSO, and a
 * function that adds the values.
 */
#ifndef TN_ANSWER_MODEL_FACTS_H
#define TN_ANSWER_MODEL_FACTS_H

#include <tenure/engine.h>

#include "base/base.h"
#include "cli/answer/facts.h"
#include "cli/model/input.h"
#include "cli/model/opened_model.h"

/* The memory saved by operators in pieces, as text, or "". */
#define CLI_PIECES_MAX 160
const char *cli_pieces_words(const tn_setup *setup, char text[CLI_PIECES_MAX]);
/* Adds the kernels to the answer. */
extern const cli_facts cli_kernels_facts; /* with CLI_FACTS_ALSO */
void cli_kernels_add(cli_answer *answer, const tn_report_kernels *kernels);
/* Adds the kernels, and the operators in pieces with their measured cost, to the answer. */
extern const cli_facts cli_kernel_target_facts; /* with CLI_FACTS_ALSO */
void cli_kernel_target_add(cli_answer *answer, const cli_kernel_target *target,
                           const tn_setup *setup);
/* Its parts without a setup: the line of the table; operators in pieces (seconds NAN: unknown). */
void cli_kernels_line(cli_answer *answer, const tn_report_kernels *kernels);
void cli_pieces_add(cli_answer *answer, const tn_scratch_report *scratch, double seconds);

/* --- operators in tiles --- */

/* "1 region, +2.0 % operations, 3.1 MiB more moved"; empty without tiles. */
void cli_split_words(const tn_setup *setup, tn__text *text);
/* Adds the tiles to the answer; nothing without tiles. */
extern const cli_facts cli_split_facts; /* with CLI_FACTS_ALSO */
void cli_split_add(cli_answer *answer, const tn_setup *setup);

/* Additional operations as a fraction of the model's, and additional bytes moved. */
double cli_split_extra(const tn_split_report *report);
uint64_t cli_split_moved(const tn_split_report *report);

/* --- weight streaming --- */

/* Weights are read from their file when they are needed. */

extern const cli_facts cli_stream_facts; /* with CLI_FACTS_ALSO */
/* Does nothing without streaming. usage NULL: the model has not run. */
void cli_stream_add(cli_answer *answer, const tn_setup *setup, const tn_engine_usage *usage);

/* --- errors of lossy codecs --- */

typedef struct cli_losses {
    tn_engine_loss *rows; /* [count] falling in relative error; names belong to the program */
    uint32_t count;
} cli_losses;

/* Without memory it has no rows. Release it in any case. */
void cli_losses_read(cli_losses *losses, const tn_engine *engine);
void cli_losses_release(cli_losses *losses);

extern const cli_facts cli_losses_facts; /* with CLI_FACTS_ALSO */
/* Nothing if nothing was encoded. */
void cli_losses_add(cli_answer *answer, const cli_losses *losses);
/* The same for an engine. */
void cli_engine_losses_add(cli_answer *answer, const tn_engine *engine);

/* --- pruning --- */

/* Adds a summary and a row per weight to the answer; nothing without pruning. */
extern const cli_facts cli_pruned_facts; /* with CLI_FACTS_ALSO */
void cli_pruned_add(cli_answer *answer, const cli_opened_model *opened);

/* --- a budget that was met; --check and --poison --- */

/* How a budget was met; nothing if no change was needed. */
extern const cli_facts cli_fitted_facts; /* with CLI_FACTS_ALSO */
void cli_fitted_add(cli_answer *answer, const tn_setup *setup, const tn_fit_answer *from);
/* The results of --check and --poison. */
extern const cli_facts cli_check_facts; /* with CLI_FACTS_ALSO */
void cli_check_add(cli_answer *answer, const cli_opened_model *opened);

/* --- claims: the techniques that were tried to meet a budget, and the proofs about them --- */

/* They are members of the JSON of `fit` and `run`, and messages of `train`, too, if a budget is not
 * met. */

/* Adds "scope", "claims", "not_tried" and "would_fit" to the answer; nothing if no search was made.
 * Only in the JSON. */
extern const cli_facts cli_claims_facts; /* with CLI_FACTS_ALSO */
void cli_claims_add(cli_answer *answer, const tn_fit_answer *found);
/* Hints as notes, for a command whose error is not that of tn_fit_graph, which has the hints in
 * its message. `command` has the option --allow, such as "`tenure fit` with ". */
void cli_claims_put_hints(const tn_fit_answer *answer, const char *command);
extern const cli_facts cli_refused_facts; /* of cli_claims_fail, in an error */
/* cli_fail for a command with a budget. If the budget was exceeded, the claims become members of
 * the object of --json. */
int cli_claims_fail(const tn_fit_answer *answer, const char *input, const tn_error *error);
/* Lists the largest tensors of the smallest program found, on standard error, if no program fits.
 */
void cli_claims_holders(const tn_fit_answer *answer);

#endif
