/* fit.h - `tenure fit`: the fastest program of a model or problem within a budget. */
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

/* The options and the results. A trial of another batch copies the options before anything is
 * made. */
typedef struct cli_fit {
    cli_input input;
    cli_training training;
    cli_choices choices;
    tn_fit_options options;
    const char *segments[CLI_FIT_SEGMENTS_MAX];
    const char *outputs[CLI_FIT_OUTPUTS_MAX];
    uint32_t output_count, sweep; /* points of the curve; 0: one budget */
    const char *problem_path;     /* used instead of a model */
    cli_costs from;               /* source of costs; unset: measure them */
    double storage;               /* bytes per second of weight files; 0: not given */
    const char *save_costs;       /* file for measured costs, or NULL */
    uint64_t batch, share;        /* share: budget in permille of the plain bytes; 0: none */
    uint64_t runs;                /* runs of the result; 0: none */
    const char *swap_device;      /* device for swapped tensors; NULL: the host */
    double link;                  /* as given; 0: not given */
    cli_kernel_target kernels;    /* valid if --kernels was given */
    bool train, json, explain, max_batch;
    /* results */
    tn_graph *model; /* the graph that is trained; NULL: as loaded */
    tn_training step;
    tn_setup *setup; /* for a model; its program is fitted */
    tn_graph *nodes; /* for a problem */
    tn_program *own; /* for a problem */
    tn_costs *costs;
    float *zeros; /* measured fractions of zeros, or NULL */
    tn_occupancy_options memory;
    tn_fit_curve curve;     /* of a model, with --sweep */
    tn_fit_answer answer;   /* of a model; with the curve it owns setup, costs and results */
    tn_fit_result *results; /* [result_count] the curve, then the answer for the budget */
    uint64_t *budgets;
    uint32_t result_count, chosen; /* chosen: the printed and written result */
    double measured;               /* seconds spent measuring */
    tn_trace *happened;            /* trace of the last run, or NULL */
    tn_engine_usage usage;         /* of the last run */
    double max_error;              /* relative error of a lossy form; 0: no limit */
    cli_losses losses;             /* of the runs */
} cli_fit;

/* The kernels to plan for: those of this machine, or none if a device is modelled by two
 * rates. */
cli_kernel_target cli_fit_target(const cli_fit *fit);
/* Loads the model, and makes its training step. */
tn_status cli_fit_open(cli_fit *fit, tn_error *error);
/* Computes the answer or the curve. Errors: those of tn_fit; the result may then be the smallest
 * found. */
tn_status cli_fit_solve(cli_fit *fit, tn_error *error);
void cli_fit_close(cli_fit *fit);

/* The largest batch that fits without changes, and with fitting; 0 if a batch of 1
 * does not fit. `fit` then has the solution for the second. */
tn_status cli_fit_batches(cli_fit *fit, uint64_t *plain, uint64_t *fitted, tn_error *error);

/* fit_problem.c: the same for --problem. */
tn_status cli_fit_open_problem(cli_fit *fit, tn_error *error);
tn_status cli_fit_solve_problem(cli_fit *fit, const tn_fit_options *search, tn_error *error);

/* Runs the result on generated data. */
tn_status cli_fit_run(cli_fit *fit, tn_error *error);

/* fit_answer.c: the answer and its files. */
extern const cli_facts cli_fit_facts;
tn_status cli_fit_print(const cli_fit *fit, tn_error *error);
void cli_fit_print_least(const cli_fit *fit); /* prints the largest tensors at the peak to standard
                                               * error */
tn_status cli_fit_write(const cli_fit *fit, tn_error *error);

#endif
