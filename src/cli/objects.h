/* objects.h - shared objects for `tenure plan` and `tenure verify`, --form objects. */
#ifndef TN_CLI_OBJECTS_H
#define TN_CLI_OBJECTS_H

#include "cli/facts.h"

/* The buffers to assign: the rows of a CSV of vectors, or the buffers of a problem or model.
 */
typedef struct cli_records {
    tn_object_record *records;
    char **names; /* names in a CSV of vectors; NULL: those of the problem */
    const tn_problem *problem;
    uint32_t count;
    tn_size_kind kind;
    tn_edges reallocation; /* allowed reuse; vertex_count 0: buffers with disjoint live ranges */
} cli_records;
tn_status cli_records_load(cli_input *input, cli_records *records, tn_error *error);
void cli_records_release(cli_records *records, const tn_context *context); /* accepts zeroed
                                                                            * records */
const char *cli_records_name(const cli_records *records, uint32_t id, char number[16]);

typedef struct cli_objects {
    cli_input *input;
    const tn_plan_options *options; /* planner (the strategy), capacity, limits */
    const char *const *outputs;
    uint32_t output_count;
    bool json;
} cli_objects;

/* --form: true for objects, false for offsets. */
bool cli_objects_form(struct argp_state *state, const char *value);
/* Loads, assigns, writes, prints. */
tn_status cli_objects_run(const cli_objects *asked, tn_error *error);

/* Checks the objects of a CSV (columns id and object, rows matched by name) and tells the result,
 * valid or E_CONFLICT. */
extern const cli_facts cli_objects_verify_facts; /* with CLI_FACTS_ALSO */
tn_status cli_objects_verify(cli_input *input, const char *plan, cli_answer *answer,
                             tn_error *error);
extern const cli_facts cli_objects_facts; /* of cli_objects_run */

#endif
