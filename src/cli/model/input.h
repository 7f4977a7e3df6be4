/* input.h - the input of a command: a model, which passes through all stages of compiling, or a
 * problem. */
#ifndef TN_MODEL_INPUT_H
#define TN_MODEL_INPUT_H

#include "cli/cli.h"

enum { /* keys of the shared options; a command uses letters and numbers from 400 */
       CLI_DIM = 300,
       CLI_INPUT_SHAPE,
       CLI_VALUE,
       CLI_PARAMETER,
       CLI_FORMAT,
       CLI_ALIGNMENT,
       CLI_ORDER,
       CLI_STATIC,
       CLI_NO_INPLACE,
       CLI_NO_VIEWS,
       CLI_FUSE_CONCAT,
       CLI_BANK,
       CLI_PARALLEL,
       CLI_KERNELS,
       CLI_NO_REWRITE,
       CLI_FASTEST,
       CLI_MODULE,
       CLI_BATCH, /* from here on: recorded in plans; commands describe them in their own way */
       CLI_TARGET,
       CLI_VARIABLES_OUTSIDE,
       CLI_SPLIT_REGION,
       CLI_SPLIT_AGAIN,
       CLI_KEEP, /* rules about tensors: not recorded in plans, which contain their program */
       CLI_RECOMPUTE,
       CLI_SWAP,
       CLI_SEGMENTS
};

#define CLI_BANKS_MAX 16u /* memories of one device */

/* The kernels that run a .tflite model (kernel_target.h); zero: the reference kernels. */
typedef struct cli_tflm_kernels {
    tn_micro_kernels library;
    char version[24]; /* of the library; "": any */
    tn_micro_compiler compiler;
    uint32_t runtime; /* revision of TensorFlow Lite Micro, as 20250131; 0: any */
    char text[64];    /* as it was given; "": the default */
} cli_tflm_kernels;

typedef enum cli_runner { CLI_RUNNER_NONE, CLI_RUNNER_PLAIN, CLI_RUNNER_ONEDNN } cli_runner;
/* The kernel library to plan for (kernel_target.h); zero: the graph alone. */
typedef struct cli_kernel_target {
    cli_runner runner;
    uint32_t threads; /* of the kernels; 0 means 1 */
    bool no_rewrite;  /* keep the operators of the file */
    bool staged;      /* training with pipeline stages: rewrite before dividing, not after */
    bool fastest;     /* fastest kernels, regardless of their scratch */
} cli_kernel_target;

/* Whether operators run in tiles. */
typedef struct cli_split {
    tn_split_region *regions; /* [region_count] the regions of a plan, with `again` */
    tn_split_again *again;    /* [again_count] */
    uint32_t region_count, again_count;
    bool asked, has_share;
    bool sweeps; /* a curve was requested */
    tn_setup_split options;
} cli_split;

typedef struct cli_input {
    const char *path;
    tn_import_options import;
    tn_occupancy_options occupancy_options;
    bool of_plan;             /* the options are those of a plan of a model */
    uint32_t given;           /* options of the command line, as bits 1 << (key - CLI_DIM) */
    const char *format;       /* --format as given, or NULL */
    const char *module;       /* of a plan of another tool; NULL: the default */
    const char *processor;    /* the microcontroller of `arena`, or NULL */
    uint64_t alignment;       /* 0: the default */
    bool wants_csv;           /* the plan will be written as CSV, which cannot describe every
                               * problem */
    bool ends_work;           /* call cli_interrupt_ends_work after reading */
    const char *order;        /* order of operators; NULL: the order of the file */
    const tn_op_id *sequence; /* the order of a plan, for verify */
    uint32_t sequence_count;
    bool replays;              /* the program comes from a plan; choose nothing */
    const tn_program *program; /* that program, after the graph was made */
    uint64_t *scratch; /* [operators] then the scratch bytes that the plan gives each kernel; NULL:
                        * no kernels */
    tn_bank banks[CLI_BANKS_MAX];
    uint32_t bank_count;
    cli_tflm_kernels tflm_kernels; /* for a .tflite model */
    cli_kernel_target target;
    tn_static_place statics;
    cli_split split;                     /* for plan and run */
    tn_rules rules;                      /* for fit, run, train and estimate */
    const struct cli_training *training; /* NULL, or plan a step of this training */
    uint64_t *workspaces;                /* [operators of a .tflite model] */
    /* loaded */
    tn_graph *graph;
    tn_graph *rewritten; /* the part of `graph` that is trained; NULL: all of it */
    tn_training step;    /* set with `training` */
    tn_setup *setup;     /* set for a model; NULL: none */
    const tn_occupancy *occupancy;
    struct tn_foreign *foreign; /* set for a plan of another tool, with `own` */
    tn_problem *own;            /* set for a problem */
    tn_layout own_layout;
    tn_fit_answer answer; /* of cli_input_fit; then it owns the setup */
    const tn_problem *problem;
    const tn_layout *layout; /* NULL: not planned */
    tn_stage stages[8];
    uint32_t stage_count;
} cli_input;

/* Adds a rule, whose pattern ends with :prefetch=N for SWAP; frees the rules. */
void cli_rule_add(struct argp_state *state, cli_input *input, tn_rule_kind kind, const char *value);
void cli_rules_release(cli_input *input);
/* The options for reading the input, a child of each command's parser. The variants omit options
 * that do not apply when a model runs, or that mean something else in `estimate`. */
extern const struct argp cli_input_argp, cli_input_run_argp, cli_input_fit_argp,
    cli_input_train_argp, cli_input_sizes_argp, cli_input_estimate_argp;
/* Applies an option by name, as recorded in a plan; value NULL: a switch. False: unknown name. */
bool cli_input_apply(cli_input *input, const char *name, const char *value);
/* Stores the input path of a command. `what` ("model", "input") names it in the usage error for a
 * second path. */
void cli_input_take(cli_input *input, struct argp_state *state, const char *what, const char *path);
bool cli_input_is_model(const cli_input *input);
/* The graph that is planned: the model's own, or the rewritten one. */
const tn_graph *cli_input_graph(const cli_input *input);
tn_status cli_input_load(cli_input *input, tn_error *error); /* sets `problem` */
/* Makes the problem of a model again after its memory options changed. */
tn_status cli_input_rebuild(cli_input *input, tn_error *error);
/* The same for input->program instead of the program that was made. */
tn_status cli_input_replay(cli_input *input, tn_error *error);
/* The same for kernels of these options. */
tn_status cli_input_occupy(cli_input *input, const tn_micro_options *micro, tn_error *error);
/* Loads and plans; sets `layout`. With --order auto it keeps the order with the smallest arena. */
tn_status cli_input_plan(cli_input *input, const tn_plan_options *options, tn_error *error);
/* Reads a problem that is not planned again if it has offsets. A model: use cli_input_plan. */
tn_status cli_input_load_layout(cli_input *input, const tn_plan_options *options, tn_error *error);
/* Plans a model within a budget by tn_fit_graph: with operators in tiles if input->split says so,
 * else without changes. `arena`: the budget is for the arena alone. The claims about it are in
 * input->answer. */
tn_status cli_input_fit(cli_input *input, const tn_plan_options *options, uint64_t budget,
                        bool arena, tn_error *error);
/* Loads, and plans with operators in tiles: tn_setup_split_sweep. */
tn_status cli_input_sweep(cli_input *input, const tn_plan_options *options, uint32_t count,
                          tn_setup **setups, uint32_t *found, tn_error *error);
/* Reads a plan of another tool into input->foreign and input->own. `offsets`: as for
 * tn_problem_load. */
tn_status cli_input_read_foreign(cli_input *input, uint64_t **offsets, tn_error *error);
void cli_input_take_setup(cli_input *input, tn_setup *setup); /* now owned by the input */
void cli_input_release(cli_input *input);
void cli_input_release_loaded(
    cli_input *input); /* releases the loaded data and keeps the options */
void cli_stage(cli_input *input, const char *name, double seconds);
#define CLI_TFLITE_ALIGNMENT 16u /* default alignment for plans inside .tflite models */

/* If the input is a .tflite model, lets its report write that model with the plan inside.
 */
void cli_report_model(tn_report *report, cli_input *input);

/* --- operators in tiles --- */

/* The child of a parser whose input is a cli_split. */
extern const struct argp cli_split_argp;
/* NULL without --split; `budget` 0: none. Valid as long as `split`. */
const tn_setup_split *cli_split_of(cli_split *split, uint64_t budget);
/* The value of --extra-work: 10% or 0.1. */
double cli_extra_work(struct argp_state *state, const char *text);

#endif
