/* claims.h - what is known of techniques that may keep a model to a budget: told by every command
 * that has one. */
#ifndef TN_CLI_CLAIMS_H
#define TN_CLI_CLAIMS_H

#include "base/base.h"
#include "cli/cli.h"

/* As members of a JSON object behind others: "scope", "claims", "not_tried", "would_fit"; nothing
 * where there is no answer. */
void cli_claims_json(const tn_fit_answer *answer, tn__text *text);
/* cli_fail of a command that has a budget. Where the budget was not kept to: the claims as members
 * of the object that --json prints, else the options that would help, a line each, on standard
 * error. */
int cli_claims_fail(const tn_fit_answer *answer, const char *input, const tn_error *error);

#endif
