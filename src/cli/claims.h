/* claims.h - the techniques that were tried to meet a budget, and the proofs about them. Every
 * command with a budget prints this. */
#ifndef TN_CLI_CLAIMS_H
#define TN_CLI_CLAIMS_H

#include "base/base.h"
#include "cli/cli.h"

/* Appends the members "scope", "claims", "not_tried" and "would_fit" to a JSON object, or nothing
 * if there is no answer. */
void cli_claims_json(const tn_fit_answer *answer, tn__text *text);
/* cli_fail for a command with a budget. If the budget was exceeded, the claims become members of
 * the object of --json. Without --json the options that would help go to standard error, one per
 * line. */
int cli_claims_fail(const tn_fit_answer *answer, const char *input, const tn_error *error);

#endif
