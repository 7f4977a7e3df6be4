/* foreign.h - plans of other tools as input of plan, verify, report and diff. */
#ifndef TN_CLI_FOREIGN_H
#define TN_CLI_FOREIGN_H

#include <tenure/foreign.h>

#include "cli/answer/holders.h"
#include "cli/model/input.h"
#include "cli/traces/report.h"
#include "report/foreign_order.h"

/* The values that hold the planned arena at its peak; of several arenas, the one with the most live
 * bytes. Release also after an error. */
tn_status cli_foreign_holders(cli_holders *holders, const tn_foreign *foreign, tn_error *error);
/* Two dumps of one program: whether two values have the same name, without its number, and the same
 * operator of the user's program. */
typedef struct cli_foreign_named {
    const char *name, *source;
} cli_foreign_named;
bool cli_foreign_alike(const cli_foreign_named *a, const cli_foreign_named *b);
/* The source of a value with this name, which must be the pointer of its value. */
const char *cli_foreign_source(const tn_foreign *foreign, const char *name);
/* Prints a note with the bytes of the other tool's plan, and of another order. */
void cli_foreign_note(const cli_input *input);
/* Lets a report write the .pte file that was read. */
void cli_foreign_writes(tn_report *report, cli_input *input);
/* Checks the plan of the other tool; E_CONFLICT: not valid. Adds the members after "conflict". */
tn_status cli_foreign_check(cli_input *input, tn_error *error);
extern const cli_facts cli_foreign_verify_facts;
void cli_foreign_verify_add(cli_answer *answer, const tn_foreign *foreign, bool valid);

/* foreign_report.c: `tenure report` of such a plan; returns the exit status. */
extern const cli_facts cli_foreign_facts;
int cli_foreign_report(cli_report *report);

#endif
