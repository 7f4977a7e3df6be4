/* fit.h - `tenure fit`: a model, or a problem, a budget, and the fastest program that keeps to it.
 */
#ifndef TN_CLI_FIT_H
#define TN_CLI_FIT_H

#include "cli/open_model.h"
#include "cli/whom.h"

#define CLI_FIT_OUTPUTS_MAX 16u
#define CLI_FIT_SEGMENTS_MAX 64u
#define CLI_FIT_TEXT 160

/* How it is read and fitted; what was made; copied for other batches before anything is. */
typedef struct cli_fit {
    cli_input input;
    cli_training training;
    cli_choices choices;
    tn_fit_options options;
    const char *segments[CLI_FIT_SEGMENTS_MAX];
    const char *outputs[CLI_FIT_OUTPUTS_MAX];
    uint32_t output_count, sweep; /* points of the curve; 0: one budget */
    const char *problem_path;     /* instead of a model */
    cli_costs from;               /* costs; nobody said: measured */
    double storage;               /* bytes per second, of files of weights; 0: nobody said */
    const char *save_costs;       /* where they are kept; NULL: nowhere */
    uint64_t batch, share;        /* share: permille of the plain bytes, as a budget; 0: none */
    uint64_t runs;                /* of what was found, to see what happens; 0: none */
    const char *swap_device;      /* that keeps what is swapped out; NULL: the host */
    double link;                  /* as it was given; 0: not */
    cli_whom kernels;             /* whose run it, where `has_kernels` */
    bool has_kernels;
    bool train, json, explain, max_batch;
    /* what was made */
    tn_graph *model; /* that is trained; NULL: as it was loaded */
    tn_training step;
    tn_setup *setup;  /* of a model; its program is fitted */
    tn_setup **parts; /* [part_count] others whose programs results are of, with room for one more;
                       * NULL: none */
    uint32_t part_count;
    tn_graph *nodes; /* of a problem */
    tn_program *own; /* of a problem */
    const tn_program *program;
    tn_costs *costs;
    float *zeros; /* shares that were counted; NULL: none were */
    tn_occupancy_options memory;
    tn_fit_answer answer;   /* for one budget, of a model; then setup, costs and the one result are
                             * its own */
    tn_fit_result *results; /* [result_count] the curve, then the answer for the budget */
    uint64_t *budgets;
    uint32_t result_count, chosen; /* that is told and written: of the budget */
    double measured;               /* seconds that measuring took */
    double deadline;               /* of a curve, on cli_clock; 0: none */
    tn_trace *happened;            /* of the last run; NULL: none was asked for */
    tn_engine_usage usage;         /* the same */
} cli_fit;

/* fit.c: whose kernels run it: those here, or nobody's where a device is a model of two rates. */
cli_whom cli_fit_whom(const cli_fit *fit);
/* What a set-up is asked for, and who is taken as the one that is fitted. */
typedef struct cli_fit_asked {
    cli_corridor corridor;
    tn_program_options order;
} cli_fit_asked;
tn_status cli_fit_ask(cli_fit *fit, cli_fit_asked *asked, tn_error *error);
void cli_fit_take(cli_fit *fit, tn_setup *setup);
tn_status cli_fit_find_costs(cli_fit *fit, tn_error *error); /* of what was taken */
/* Everything up to program and costs. */
tn_status cli_fit_open(cli_fit *fit, tn_error *error);
/* The answer, or the curve. Errors: those of tn_fit; that of the budget may then be the least. */
tn_status cli_fit_solve(cli_fit *fit, tn_error *error);
void cli_fit_release(cli_fit *fit); /* what was made; the options stay */
void cli_fit_close(cli_fit *fit);

/* fit_batch.c: the largest batch that fits as it is, and by fitting; 0: not even 1. The second is
 * solved in `fit`. */
tn_status cli_fit_batches(cli_fit *fit, uint64_t *plain, uint64_t *fitted, tn_error *error);

/* fit_parts.c: the curve, and the answer beside it, with operators in parts where those are faster,
 * or nothing else keeps to the budget. status: of that answer without them, which is returned where
 * they do not help. */
tn_status cli_fit_curve(cli_fit *fit, const tn_fit_options *options, tn_status status,
                        tn_error *error);

/* fit_run.c: runs what was found, on contents that are made up. */
tn_status cli_fit_run(cli_fit *fit, tn_error *error);

/* fit_tell.c */
tn_status cli_fit_print(const cli_fit *fit, tn_error *error);
void cli_fit_print_least(const cli_fit *fit); /* who binds it, to standard error */
tn_status cli_fit_write(const cli_fit *fit, tn_error *error);

#endif
