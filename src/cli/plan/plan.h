/* plan.h - the parts of `tenure plan` that do more than print one layout: curves (--sweep),
 * explanations (--explain), and shared objects (--form objects). It also has the part of `tenure
 * verify` that matches the rows of a plan. */
#ifndef TN_PLAN_PLAN_H
#define TN_PLAN_PLAN_H

#include "cli/answer/facts.h"
#include "cli/model/input.h"
#include "cli/model/plan_file.h"
#include "cli/model/training.h"

#define CLI_CURVE_MOST 10000u

typedef struct cli_split_curve {
    cli_input *input;
    /* bytes of arena and weights that the drawn plan may have; 0: no budget, see `options` */
    uint64_t budget;
    /* without a budget, options->capacity limits the arena of the drawn plan; 0: draw the smallest
     * plan */
    const tn_plan_options *options;
    uint32_t count;
    const char *const *outputs;
    uint32_t output_count;
    bool json;
} cli_split_curve;

extern const cli_facts cli_split_curve_facts;
/* Prints the curve and writes the output files. Errors: E_EXHAUSTED (no point of the curve fits),
 * and those of tn_setup_split_sweep and tn_report_write. */
tn_status cli_split_curve_run(const cli_split_curve *asked, tn_error *error);

/* --- the curve of bytes against waits, time or reuse cost --- */

/* For `tenure plan --objective pairs|waits|time --sweep`. */

typedef struct cli_wait_curve {
    cli_input *input;
    /* all plans of the curve together share its limits of time and work */
    const tn_plan_options *options;
    uint32_t count; /* number of points of the curve, at least 2 */
    const char *const *outputs;
    uint32_t output_count;
    bool json;
} cli_wait_curve;

extern const cli_facts cli_wait_curve_facts;
/* Prints the curve and writes the output files. Errors: those of tn_plan and of writing files. */
tn_status cli_wait_curve_run(const cli_wait_curve *asked, tn_error *error);

/* --- --explain --- */

/* For --explain=tags: prints, step by step, how memory tags serve the program, and their total
 * size. */
tn_status cli_explain_tags(const tn_occupancy *occupancy, tn_error *error);

/* What cli_explain_plan explains, for --explain. The function prints why the plan has its peak,
 * which changes would lower it (each one is planned), and why its buffers have their offsets. */
typedef struct cli_explained {
    const cli_input *input; /* the input, which is already planned */
    const tn_plan_options *options;
    /* the training of which one step is planned; NULL: the model is planned for inference */
    const cli_training *training;
    const tn_hardware *device; /* the device for which times are predicted, or NULL */
    /* when the plan and all trials must end, on the clock of cli_clock; 0: no limit */
    double deadline;
} cli_explained;
tn_status cli_explain_plan(const cli_explained *of, tn_error *error);

/* --- --form objects --- */

/* `tenure verify` checks shared objects by cli_objects_verify. */

typedef struct cli_objects {
    cli_input *input;
    /* the planner (here a strategy of assignment), the capacity and the limits */
    const tn_plan_options *options;
    const char *const *outputs;
    uint32_t output_count;
    bool json;
} cli_objects;

/* Parses the value of --form: true for objects, false for offsets. */
bool cli_objects_form(struct argp_state *state, const char *value);
/* Loads the input, assigns its buffers to objects, writes the files and prints the answer. */
tn_status cli_objects_run(const cli_objects *asked, tn_error *error);

/* cli_objects_verify checks the objects in a CSV with the columns id and object. Rows are matched
 * by name. The function adds the result to the answer. Errors: E_CONFLICT if they are not valid. */
extern const cli_facts cli_objects_verify_facts; /* a table of facts for the macro CLI_FACTS_ALSO */
tn_status cli_objects_verify(cli_input *input, const char *plan, cli_answer *answer,
                             tn_error *error);
extern const cli_facts cli_objects_facts; /* facts of the answer of cli_objects_run */

/* --- the rows of a plan, for `tenure verify` (match_rows.c) --- */

typedef struct cli_verify {
    cli_input input;
    const char *plan_path;
    bool json, objects;
    tn_problem *plan; /* the rows of the plan, as buffers of a problem */
    uint64_t *plan_offsets;
    tn__names rows; /* maps a name to the first row of the plan with that name */
    uint32_t *next; /* [rows] next row of the plan with the same name, or TN__NAMES_NONE */
    /* [rows] at the first row of a name: the row with that name to match next, or TN__NAMES_NONE */
    uint32_t *turn;
    uint64_t *offsets; /* [body_count] offset of each buffer */
    tn_bank_id *banks; /* [body_count] for a buffer that may be in any bank: the bank of its row */
    uint64_t *claimed; /* [tensors of the graph] claimed offset, or TN_SIZE_UNKNOWN */
    cli_plan_file file;
    cli_training training;      /* options of a training on the command line */
    cli_training plan_training; /* options of a training that the plan file records */
    bool trains, repeats;       /* repeats: several rows have one name */
    bool is_placed;             /* true if every row is large enough for the tensor that it names */
    /* true: row i is buffer i for all rows, so no option is missing on the command line */
    bool has_rows;
    tn_program *program; /* the program that the plan contains, or NULL */
    uint32_t body_count;
    /* For a plan inside a model: the end of its head, and the offset at which the next tensor
     * without an offset is placed. */
    uint64_t head, tail;
    uint32_t tail_count;
    /* true: the plan inside a model leaves some tensors to the runtime, so lower bounds do not
     * apply */
    bool is_partial;
    tn_error *error;
} cli_verify;

/* Reads the model or problem and the plan, and finds the offset of each buffer in the rows of the
 * plan. Errors: those of reading; E_CONFLICT and E_INVALID for rows that do not fit the buffers. */
tn_status cli_verify_load(cli_verify *arguments);
/* Checks that the offsets of tensors and the peak that the plan states agree with its buffers. */
tn_status cli_verify_agree(const cli_verify *arguments, const tn_layout *layout);
/* Checks everything else that a plan of Tenure states (sizes, live ranges, peaks of pools, shapes),
 * except how it was found, by writing the plan again (match_document.c). Errors: E_CONFLICT (a
 * member differs), and those of rendering the plan. */
tn_status cli_verify_document(const cli_verify *arguments, const tn_layout *layout);
/* If the rows show which option is missing on the command line, replaces the error "not valid" by
 * one that names the option. */
tn_status cli_verify_missing(const cli_verify *arguments, tn_status status);

#endif
