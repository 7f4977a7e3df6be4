/* claims.h - what is known of techniques that may keep a model to a budget: told by every command
 * that has one. */
#ifndef TN_CLI_CLAIMS_H
#define TN_CLI_CLAIMS_H

#include "base/base.h"
#include "cli/cli.h"

/* As members of a JSON object behind others: "scope", "claims", "not_tried", "would_fit"; nothing
 * where there is no answer. */
void cli_claims_json(const tn_fit_answer *answer, tn__text *text);
/* A budget that was not kept to: with --json one object that says so on standard output; else the
 * options that would help, a line each, on standard error. */
void cli_claims_refused(const tn_fit_answer *answer, const char *input, const tn_error *error,
                        bool json);

#endif
