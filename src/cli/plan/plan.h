/* plan.h - the parts of `tenure plan` that do more than one layout: curves (--sweep), explanations
 * (--explain), and shared objects (--form objects); and the rows of a plan that `tenure verify`
 * checks. */
#ifndef TN_PLAN_PLAN_H
#define TN_PLAN_PLAN_H

#include "cli/answer/facts.h"
#include "cli/model/input.h"
#include "cli/model/plan_file.h"
#include "cli/model/training.h"

#define CLI_CURVE_MOST 10000u

typedef struct cli_split_curve {
    cli_input *input;
    uint64_t budget; /* limits the plan that is drawn, with its weights; 0: see `options` */
    const tn_plan_options *options; /* its capacity limits the arena that is drawn; 0: draw the
                                     * smallest */
    uint32_t count;
    const char *const *outputs;
    uint32_t output_count;
    bool json;
} cli_split_curve;

extern const cli_facts cli_split_curve_facts;
/* Prints the curve and writes the outputs. Errors: E_EXHAUSTED (no point fits in the capacity), and
 * those of tn_setup_split_sweep and tn_report_write. */
tn_status cli_split_curve_run(const cli_split_curve *asked, tn_error *error);

/* --- the curve of bytes against waits, time or reuse cost --- */

/* `tenure plan --objective pairs|waits|time --sweep`. */

typedef struct cli_wait_curve {
    cli_input *input;
    const tn_plan_options *options; /* its limits are divided by the plans */
    uint32_t count;                 /* points, at least 2 */
    const char *const *outputs;
    uint32_t output_count;
    bool json;
} cli_wait_curve;

extern const cli_facts cli_wait_curve_facts;
/* Prints the curve and writes the outputs. Errors: those of tn_plan and of files. */
tn_status cli_wait_curve_run(const cli_wait_curve *asked, tn_error *error);

/* --- --explain --- */

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

/* --- --form objects --- */

/* `tenure verify` checks the same objects. */

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

/* Checks the objects of a CSV (columns id and object, rows matched by name) and adds the result,
 * valid or E_CONFLICT. */
extern const cli_facts cli_objects_verify_facts; /* with CLI_FACTS_ALSO */
tn_status cli_objects_verify(cli_input *input, const char *plan, cli_answer *answer,
                             tn_error *error);
extern const cli_facts cli_objects_facts; /* of cli_objects_run */

/* --- the rows of a plan, for `tenure verify` (match_rows.c) --- */

typedef struct cli_verify {
    cli_input input;
    const char *plan_path;
    bool json, objects;
    tn_problem *plan; /* the rows of the plan */
    uint64_t *plan_offsets;
    tn__names rows;    /* name -> row of the plan, the first of that name */
    uint32_t *next;    /* [rows], the next row of the same name, or TN__NAMES_NONE */
    uint32_t *turn;    /* [rows], indexed by the first row of a name: the row to match next, or
                        * NONE */
    uint64_t *offsets; /* [bodies] */
    tn_bank_id *banks; /* [buffers]: banks from the rows, where buffers may choose */
    uint64_t *claimed; /* [tensors] */
    cli_plan_file file;
    cli_training training;      /* of the command line */
    cli_training plan_training; /* of the plan */
    bool trains, repeats;       /* repeats: a name has several rows */
    bool is_placed;             /* all rows fit the tensors that they name */
    bool has_rows;              /* each row is the buffer of the same number: no option is
                                 * missing */
    tn_program *program;        /* the program in the plan, or NULL */
    uint32_t body_count;
    /* for a plan inside a model: its end, where tensors without an offset are placed */
    uint64_t head, tail;
    uint32_t tail_count;
    bool is_partial; /* a plan inside a model that leaves tensors to the runtime: bounds do not
                      * apply */
    tn_error *error;
} cli_verify;

/* Reads the model or problem and the plan, and finds the offset of each buffer in the rows. Errors:
 * those of reading; E_CONFLICT and E_INVALID of rows that do not fit. */
tn_status cli_verify_load(cli_verify *arguments);
/* The recorded places of tensors, and the peak, must agree with the buffers. */
tn_status cli_verify_agree(const cli_verify *arguments, const tn_layout *layout);
/* Replaces "not valid" by the missing option, if the rows show one. */
tn_status cli_verify_missing(const cli_verify *arguments, tn_status status);

#endif
