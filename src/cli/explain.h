/* explain.h - what `tenure plan --explain` calls. */
#ifndef TN_CLI_EXPLAIN_H
#define TN_CLI_EXPLAIN_H

#include "cli/cli.h"
#include "cli/train_options.h"

/* --explain=tags: prints step by step how tags serve the program, and what they take in sum. */
tn_status cli_explain_tags(const tn_occupancy *occupancy, tn_error *error);

/* --explain: prints why the peak of the plan of `input` is what it is, what would lower it, each
 * planned, and why the buffers at the peak lie where they do. */
typedef struct cli_explained {
    const cli_input *input; /* planned */
    const tn_plan_options *options;
    const cli_training *training; /* NULL: it is no step of training */
    const tn_hardware *device;    /* whose rates predict times; NULL: of no device */
    double deadline;              /* of cli_clock, for the plan and all that is tried; 0: none */
} cli_explained;
tn_status cli_explain_plan(const cli_explained *of, tn_error *error);

/* explain_rests.c: `top`, what it rests on, and so on down to the bottom: bodies[room]; how many.
 * Cost: O(pieces) a body. */
uint32_t cli_explain_stack(const tn_problem *problem, const tn_layout *layout, tn_body_id top,
                           tn_body_id *bodies, uint32_t room);
/* The body whose last byte is the arena's; TN_NONE: there is none. */
tn_body_id cli_explain_highest(const tn_problem *problem, const tn_layout *layout, tn_bank_id bank);
/* What lies directly below a body while it lives; TN_NONE: the bottom of the memory. */
tn_body_id cli_explain_below(const tn_problem *problem, const tn_layout *layout, tn_body_id body);

#endif
