/* holders.h - the tensors and blocks that hold the memory, as one table and one JSON array, for a
 * plan, a run or a replay. */
#ifndef TN_CLI_HOLDERS_H
#define TN_CLI_HOLDERS_H

#include <stdio.h>

#include "base/base.h"
#include "cli/answer/facts.h"

typedef struct cli_holders {
    char title[200]; /* the moment of the holders, such as "at the peak, step 8 of 102" */
    tn_holder *rows; /* [count] tensors or blocks that hold memory, the largest first */
    uint32_t count;
    tn__arena arena;
} cli_holders;

/* Finds the tensors that hold memory at a step of a model's plan; with `step` TN_NONE, at its peak.
 * The caller releases the holders, also after an error. */
tn_status cli_holders_of_model(cli_holders *holders, const tn_occupancy *occupancy, uint32_t step,
                               tn_error *error);
/* Finds the buffers of a problem that are live at the first time with the most live bytes. */
tn_status cli_holders_of_problem(cli_holders *holders, const tn_problem *problem, tn_error *error);
/* Finds the blocks of a pool. The pool must outlive the holders, because it owns their names. */
tn_status cli_holders_of_pool(cli_holders *holders, tn_pool *pool, const char *name,
                              tn_holders_when when, tn_error *error);
void cli_holders_release(cli_holders *holders);

/* Prints the `shown` largest rows, and the sums of all rows by kind and by operator. */
void cli_holders_print(const cli_holders *holders, uint32_t shown, FILE *file);
/* For a command that found no plan that fits: prints, on standard error, the holders at the peak of
 * the smallest program found. `of` describes that program in words. `fixed` is the number of bytes
 * of weights and states outside the program's arena. */
void cli_holders_print_least(const tn_occupancy *occupancy, uint64_t fixed, const char *of);
void cli_holders_write(const cli_holders *holders, uint32_t shown, uint32_t columns,
                       tn__text *text);
/* Adds the holders to an answer. The facts of that answer must include
 * CLI_FACTS_ALSO(&cli_holders_facts). */
extern const cli_facts cli_holders_facts;
void cli_holders_add(cli_answer *answer, const cli_holders *holders, uint32_t shown);

#endif
