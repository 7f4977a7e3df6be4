/* plan_tell.h - the answer of `tenure plan`. */
#ifndef TN_CLI_PLAN_TELL_H
#define TN_CLI_PLAN_TELL_H

#include <tenure/report.h>

#include "cli/facts.h"
#include "cli/holders.h"

extern const cli_facts cli_plan_facts;
/* Prints the plan of a report, with the `shown` largest holders; 0: none. `setup` is NULL for a
 * problem. */
tn_status cli_plan_print(const tn_report *report, const tn_setup *setup, const cli_holders *holders,
                         uint32_t shown, bool json, tn_error *error);

#endif
