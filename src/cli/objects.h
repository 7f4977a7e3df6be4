/* objects.h - what `tenure plan --form objects` hands to objects.c. */
#ifndef TN_CLI_OBJECTS_H
#define TN_CLI_OBJECTS_H

#include "cli/cli.h"

typedef struct cli_objects {
    cli_input *input;
    const tn_plan_options *options; /* planner (the strategy), capacity, limits */
    const char *const *outputs;
    uint32_t output_count;
    bool json;
} cli_objects;

/* Loads, assigns, writes, prints. */
tn_status cli_objects_run(const cli_objects *asked, tn_error *error);

#endif
