/* explain.h - what `tenure plan --explain` calls. */
#ifndef TN_CLI_EXPLAIN_H
#define TN_CLI_EXPLAIN_H

#include "cli/cli.h"

/* Prints step by step how tags serve the program, and what they take in sum. */
tn_status cli_explain(const tn_occupancy *occupancy, tn_error *error);

#endif
