/* claims.h - the techniques that were tried to meet a budget, and the proofs about them: members of
 * the JSON of `fit` and `run`, and what those and `train` print of a refusal. */
#ifndef TN_CLI_CLAIMS_H
#define TN_CLI_CLAIMS_H

#include "base/base.h"
#include "cli/facts.h"

/* Adds "scope", "claims", "not_tried" and "would_fit" to the answer; nothing if no search was made.
 * Only in the JSON. */
extern const cli_facts cli_claims_facts; /* with CLI_FACTS_ALSO */
void cli_claims_tell(cli_answer *answer, const tn_fit_answer *found);
/* Hints as notes, for a command whose error is not that of tn_fit_graph, which has the hints in
 * its message. `command` has the option --allow, such as "`tenure fit` with ". */
void cli_claims_put_hints(const tn_fit_answer *answer, const char *command);
extern const cli_facts cli_refused_facts; /* of cli_claims_fail, in an error */
/* cli_fail for a command with a budget. If the budget was exceeded, the claims become members of
 * the object of --json. */
int cli_claims_fail(const tn_fit_answer *answer, const char *input, const tn_error *error);
/* Lists what holds the memory of the smallest program found, on standard error, if none fits. */
void cli_claims_holders(const tn_fit_answer *answer);

#endif
