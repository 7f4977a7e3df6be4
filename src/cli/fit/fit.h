/* fit.h - the parts of `tenure fit`, which finds the fastest program of a model or problem within a
 * budget. */
#ifndef TN_CLI_FIT_H
#define TN_CLI_FIT_H

#include "cli/answer/model_facts.h"
#include "cli/model/compile_options.h"
#include "cli/model/input.h"
#include "cli/model/kernel_target.h"
#include "cli/model/opened_model.h"

#define CLI_FIT_OUTPUTS_MAX 16u
#define CLI_FIT_SEGMENTS_MAX 64u
#define CLI_FIT_TEXT 160

/* The options of `tenure fit` and its results. A trial of another batch size is a copy of this
 * struct that is made before there are results. */
typedef struct cli_fit {
    cli_input input;
    cli_training training;
    cli_choices choices;
    tn_fit_options options;
    const char *segments[CLI_FIT_SEGMENTS_MAX];
    const char *outputs[CLI_FIT_OUTPUTS_MAX];
    uint32_t output_count, sweep; /* sweep: number of points of the curve; 0: one budget */
    const char *problem_path;     /* file of a problem, for --problem; NULL: fit a model */
    cli_costs from;               /* source of operator times; unset: measure them */
    double storage;               /* read speed of weight files in bytes per second; 0: not given */
    const char *save_costs;       /* file to which measured costs are written, or NULL */
    /* share: the budget in permille of the bytes of the unchanged program; 0: not given */
    uint64_t batch, share;
    uint64_t runs;             /* how many times the resulting program is run; 0: not at all */
    const char *swap_device;   /* device that holds swapped tensors; NULL: the host */
    double link;               /* bytes per second of --link; 0: not given */
    cli_kernel_target kernels; /* kernels to plan for; valid if --kernels was given */
    bool train, json, explain, max_batch;
    /* results */
    tn_graph *model; /* the rewritten graph that is trained; NULL: the graph as loaded is trained */
    tn_training step;
    tn_setup *setup; /* the compiled model with the fitted program; NULL for a problem */
    tn_graph *nodes; /* the operators of a problem; NULL for a model */
    tn_program *own; /* the unchanged program of a problem; NULL for a model */
    tn_costs *costs;
    float *zeros; /* measured fractions of zeros, or NULL */
    tn_occupancy_options memory;
    tn_fit_curve curve; /* the curve of a model, with --sweep */
    /* the answer for a model; answer and curve own setup, costs and results */
    tn_fit_answer answer;
    /* [result_count] the points of the curve, then the answer for the budget */
    tn_fit_result *results;
    uint64_t *budgets;
    uint32_t result_count, chosen; /* chosen: index of the result that is printed and written */
    double measured;               /* seconds spent on measuring costs */
    tn_trace *happened;            /* trace of the last run of the resulting program, or NULL */
    tn_engine_usage usage;         /* measurements of the last run of the resulting program */
    double max_error;              /* limit of the relative error of a lossy codec; 0: no limit */
    cli_losses losses;             /* errors that lossy codecs made in the runs */
} cli_fit;

/* Returns the kernels to plan for: those of --kernels if the option was given. Without it they are
 * those of this machine, or none if the costs are those of another device, which are modelled by
 * two rates. */
cli_kernel_target cli_fit_target(const cli_fit *fit);
/* Loads the model or problem, and makes the training step of a model. */
tn_status cli_fit_open(cli_fit *fit, tn_error *error);
/* Computes the answer for the budget, or the curve. Errors: those of tn_fit. After an error, `fit`
 * may have the smallest program found as its result. */
tn_status cli_fit_solve(cli_fit *fit, tn_error *error);
void cli_fit_close(cli_fit *fit);

/* Finds the largest batch that fits without changes (*plain) and the largest that fits with fitting
 * (*fitted). Each is 0 if a batch of 1 does not fit. `fit` then has the answer for the batch
 * *fitted. */
tn_status cli_fit_batches(cli_fit *fit, uint64_t *plain, uint64_t *fitted, tn_error *error);

/* fit_problem.c: these functions do the work of cli_fit_open and cli_fit_solve for --problem. */
tn_status cli_fit_open_problem(cli_fit *fit, tn_error *error);
tn_status cli_fit_solve_problem(cli_fit *fit, const tn_fit_options *search, tn_error *error);

/* Runs the chosen result on generated data. */
tn_status cli_fit_run(cli_fit *fit, tn_error *error);

/* fit_answer.c prints the answer and writes files. */
extern const cli_facts cli_fit_facts;
tn_status cli_fit_print(const cli_fit *fit, tn_error *error);
/* prints the largest tensors at the peak on standard error */
void cli_fit_print_least(const cli_fit *fit);
tn_status cli_fit_write(const cli_fit *fit, tn_error *error);

#endif
