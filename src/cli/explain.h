/* explain.h - the functions of `tenure plan --explain`. */
#ifndef TN_CLI_EXPLAIN_H
#define TN_CLI_EXPLAIN_H

#include "cli/cli.h"
#include "cli/train_options.h"

/* --explain=tags: prints step by step how memory tags serve the program, and their total size. */
tn_status cli_explain_tags(const tn_occupancy *occupancy, tn_error *error);

/* --explain: prints the reason for the peak, changes that would lower it (each one is planned), and
 * the reason for the offsets of the buffers at the peak. */
typedef struct cli_explained {
    const cli_input *input; /* planned */
    const tn_plan_options *options;
    const cli_training *training; /* NULL: no training step */
    const tn_hardware *device;    /* the device that predicts times, or NULL */
    double deadline;              /* of cli_clock, for the plan and all trials; 0: none */
} cli_explained;
tn_status cli_explain_plan(const cli_explained *of, tn_error *error);

/* explain_rests.c: stores `top`, the buffer below it, and so on to the bottom in bodies[room];
 * returns their number. Cost: O(sections) per buffer. */
uint32_t cli_explain_stack(const tn_problem *problem, const tn_layout *layout, tn_body_id top,
                           tn_body_id *bodies, uint32_t room);
/* The buffer that ends at the end of the arena, or TN_NONE. */
tn_body_id cli_explain_highest(const tn_problem *problem, const tn_layout *layout, tn_bank_id bank);
/* The buffer directly below a body during its live range; TN_NONE: it is at the bottom. */
tn_body_id cli_explain_below(const tn_problem *problem, const tn_layout *layout, tn_body_id body);

#endif
