/* objects.h - shared objects for `tenure plan` and `tenure verify`, --form objects. */
#ifndef TN_CLI_OBJECTS_H
#define TN_CLI_OBJECTS_H

#include "cli/cli.h"

/* What is to be given objects: the rows of a CSV of vectors, or the bodies of a problem or model.
 */
typedef struct cli_records {
    tn_object_record *records;
    char **names; /* of a CSV of vectors; NULL: the problem's */
    const tn_problem *problem;
    uint32_t count;
    tn_size_kind kind;
    tn_edges reallocation; /* who may follow whom; vertex_count 0: whenever lives do not meet */
} cli_records;
tn_status cli_records_load(cli_input *input, cli_records *records, tn_error *error);
void cli_records_release(cli_records *records, const tn_context *context); /* zeroed is fine */
const char *cli_records_name(const cli_records *records, uint32_t id, char number[16]);

typedef struct cli_objects {
    cli_input *input;
    const tn_plan_options *options; /* planner (the strategy), capacity, limits */
    const char *const *outputs;
    uint32_t output_count;
    bool json;
} cli_objects;

/* --form: whether it says objects, not offsets. */
bool cli_objects_form(struct argp_state *state, const char *value);
/* Loads, assigns, writes, prints. */
tn_status cli_objects_run(const cli_objects *asked, tn_error *error);

/* Whether the objects of a CSV (columns id, object; rows matched by name) are valid. Prints. */
tn_status cli_objects_verify(cli_input *input, const char *plan, bool json, tn_error *error);

#endif
