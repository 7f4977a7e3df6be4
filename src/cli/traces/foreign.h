/* foreign.h - plans of other tools as input of plan, verify, report and diff. */
#ifndef TN_CLI_FOREIGN_H
#define TN_CLI_FOREIGN_H

#include <tenure/foreign.h>

#include "cli/answer/holders.h"
#include "cli/model/input.h"
#include "cli/traces/report.h"
#include "report/foreign_order.h"

/* Finds the values that are in the planned arena at its peak. If several arenas are planned, it
 * uses the one with the most live bytes. The caller releases the holders, also after an error. */
tn_status cli_foreign_holders(cli_holders *holders, const tn_foreign *foreign, tn_error *error);
/* A value in a dump of a program. cli_foreign_alike returns whether two values of two dumps of one
 * program correspond: their names without numbers are equal, and so are their operators of the
 * user's program. */
typedef struct cli_foreign_named {
    const char *name, *source;
} cli_foreign_named;
bool cli_foreign_alike(const cli_foreign_named *a, const cli_foreign_named *b);
/* Returns the source of the value with the name `name`. Names are compared by pointer, so `name`
 * must be the pointer in the value. */
const char *cli_foreign_source(const tn_foreign *foreign, const char *name);
/* Prints notes with the bytes of the other tool's plan and of this plan, and for XLA those of
 * another order. */
void cli_foreign_note(const cli_input *input);
/* Sets up a report so that it can write the .pte file that was read, with another plan. */
void cli_foreign_writes(tn_report *report, cli_input *input);
/* Checks the plan of the other tool. Errors: E_CONFLICT if it is not valid. cli_foreign_verify_add
 * adds the members about the plan to the answer. */
tn_status cli_foreign_check(cli_input *input, tn_error *error);
extern const cli_facts cli_foreign_verify_facts;
void cli_foreign_verify_add(cli_answer *answer, const tn_foreign *foreign, bool valid);

/* foreign_report.c: does the work of `tenure report` for a plan of another tool, and returns the
 * exit status. */
extern const cli_facts cli_foreign_facts;
int cli_foreign_report(cli_report *report);

#endif
