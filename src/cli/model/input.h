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
       CLI_KEEP_ATEN,
       CLI_BANK,
       CLI_PARALLEL,
       CLI_KERNELS,
       CLI_NO_REWRITE,
       CLI_FASTEST,
       CLI_MODULE,
       /* From CLI_BATCH on: options that plans record, and that commands describe in their own
        * words. */
       CLI_BATCH,
       CLI_TARGET,
       CLI_VARIABLES_OUTSIDE,
       CLI_SPLIT_REGION,
       CLI_SPLIT_AGAIN,
       /* From CLI_KEEP on: rules about tensors. Plans do not record them, because a plan contains
        * its program. */
       CLI_KEEP,
       CLI_RECOMPUTE,
       CLI_SWAP,
       CLI_SEGMENTS
};

#define CLI_BANKS_MAX 16u /* largest number of memory banks of a device */
#define CLI_STREAM_RULES_MAX 64u

/* The kernels that run a .tflite model on a microcontroller (kernel_target.h). A zeroed struct
 * means the reference kernels. */
typedef struct cli_tflm_kernels {
    tn_micro_kernels library;
    char version[24]; /* version of the kernel library; "": any version */
    tn_micro_compiler compiler;
    /* revision of TensorFlow Lite Micro as a number, such as 20250131; 0: any revision */
    uint32_t runtime;
    char text[64]; /* the value of --kernels as given; "": not given */
} cli_tflm_kernels;

typedef enum cli_runner { CLI_RUNNER_NONE, CLI_RUNNER_PLAIN, CLI_RUNNER_ONEDNN } cli_runner;
/* The kernel library to plan for (kernel_target.h). A zeroed struct means no kernel library: the
 * graph alone. */
typedef struct cli_kernel_target {
    cli_runner runner;
    uint32_t threads; /* number of threads of the kernels; 0 means 1 */
    bool no_rewrite; /* true: keep the operators of the model file as they are, without rewriting */
    /* true: in a training with pipeline stages, rewrite the graph before it is divided into stages,
     * not after */
    bool staged;
    bool fastest; /* true: use the fastest kernels, even if they need more scratch memory */
} cli_kernel_target;

/* Whether and how operators run in tiles. */
typedef struct cli_split {
    /* [region_count] the regions of operators that run in tiles, as a plan file states them */
    tn_split_region *regions;
    tn_split_again *again; /* [again_count] tensors that are recomputed for late readers */
    uint32_t region_count, again_count;
    bool asked, has_share;
    bool sweeps; /* true if the curve of memory against work was requested */
    tn_setup_split options;
} cli_split;

/* The streams on which operators run, and the tensors that lie one after another. */
typedef struct cli_streams {
    uint32_t count; /* number of streams; 0: one stream */
    uint32_t rule_count, adjacent_count;
    tn_stream_rule rules[CLI_STREAM_RULES_MAX]; /* --stream PATTERN=K, in the order given */
    const char *adjacent[CLI_STREAM_RULES_MAX]; /* --adjacent PATTERN */
} cli_streams;
extern const struct argp cli_streams_argp; /* its input is a cli_streams */

typedef struct cli_input {
    const char *path;
    tn_import_options import;
    tn_occupancy_options occupancy_options;
    bool of_plan;       /* true if the options come from a plan file that was made for a model */
    uint32_t given;     /* options given on the command line, as bits 1 << (key - CLI_DIM) */
    const char *format; /* value of the option --format, or NULL if it was not given */
    /* name of the module in a plan of another tool; NULL: the default module */
    const char *module;
    const char *processor; /* name of the processor for `tenure arena`, or NULL */
    /* the problem of an input that is a solution of dsa-solver, or NULL */
    const char *problem_path;
    uint64_t alignment;    /* alignment of buffers in bytes; 0: the default */
    bool wants_csv; /* true: the plan will be written as CSV, which cannot describe every problem */
    /* true: after the input is read, Ctrl-C stops searches (cli_interrupt_ends_work) */
    bool ends_work;
    const char *order; /* name of the order of operators; NULL: the order of the file */
    /* [sequence_count] the order of the operators in a plan that `verify` checks */
    const tn_op_id *sequence;
    uint32_t sequence_count;
    /* true: the program comes from a plan, so neither order nor recomputation is chosen */
    bool replays;
    const tn_program *program; /* the program of the plan; set after the graph was made */
    /* [operators] if the program comes from a plan: the scratch bytes that the plan gives each
     * kernel; NULL: no kernels */
    uint64_t *scratch;
    tn_bank banks[CLI_BANKS_MAX];
    uint32_t bank_count;
    cli_tflm_kernels tflm_kernels; /* kernels that run a .tflite model */
    cli_kernel_target target;
    tn_static_place statics;
    cli_streams streams; /* for `plan` and `run` */
    cli_split split;     /* options about tiles, for `plan` and `run` */
    tn_rules rules;      /* rules about tensors, for `fit`, `run`, `train` and `estimate` */
    /* the training of which a step is planned; NULL: inference */
    const struct cli_training *training;
    /* [operators] scratch bytes of the kernels of a .tflite model, or NULL */
    uint64_t *workspaces;
    /* loaded */
    tn_graph *graph;
    /* the rewritten graph that is trained; NULL: `graph` is trained as it is */
    tn_graph *rewritten;
    tn_training step; /* the training step; valid if `training` is not NULL */
    tn_setup *setup;  /* the compiled model; NULL if the input is a problem file */
    const tn_occupancy *occupancy;
    struct tn_foreign *foreign; /* a plan of another tool, with its buffers in `own`; NULL: none */
    tn_problem *own;            /* the problem that was loaded; NULL if the input is a model */
    tn_layout own_layout;
    tn_fit_answer answer; /* result of cli_input_fit, which then owns `setup` */
    const tn_problem *problem;
    const tn_layout *layout; /* the plan of the input; NULL: it has not been planned */
    tn_stage stages[8];
    uint32_t stage_count;
} cli_input;

/* Adds a rule about the tensors that match a pattern. For TN_RULE_SWAP the pattern may end with
 * ":prefetch=N". cli_rules_release frees all rules. */
void cli_rule_add(struct argp_state *state, cli_input *input, tn_rule_kind kind, const char *value);
void cli_rules_release(cli_input *input);
/* The tables of options for reading the input, which are children of the commands' parsers. There
 * are several, because some options do not apply if a model runs, or mean something else in
 * `estimate`. */
extern const struct argp cli_input_argp, cli_input_run_argp, cli_input_fit_argp,
    cli_input_train_argp, cli_input_sizes_argp, cli_input_estimate_argp;
/* Applies an option that a plan records under this name. `value` is NULL for an option without a
 * value. Returns false for an unknown name. */
bool cli_input_apply(cli_input *input, const char *name, const char *value);
/* Stores the path of the command's input. A second path is a usage error, in which `what` ("model"
 * or "input") names the kind of input. */
void cli_input_take(cli_input *input, struct argp_state *state, const char *what, const char *path);
bool cli_input_is_model(const cli_input *input);
/* Whether models of this format have a batch that --batch sets. */
bool cli_input_takes_batch(const char *path);
/* Returns the graph that is planned: the graph of the compiled model, else the graph as loaded. */
const tn_graph *cli_input_graph(const cli_input *input);
/* Reads the input file and sets input->problem. */
tn_status cli_input_load(cli_input *input, tn_error *error);
/* Makes the problem of a model again, after its memory options changed. */
tn_status cli_input_rebuild(cli_input *input, tn_error *error);
/* Makes the problem of a model again, with input->program instead of the program that was
 * chosen. */
tn_status cli_input_replay(cli_input *input, tn_error *error);
/* Makes the problem of a model again, with the scratch memory of these kernels for
 * microcontrollers. */
tn_status cli_input_occupy(cli_input *input, const tn_micro_options *micro, tn_error *error);
/* Loads the input and plans it; sets `layout`. With --order auto it keeps the order with the
 * smallest plan. */
tn_status cli_input_plan(cli_input *input, const tn_plan_options *options, tn_error *error);
/* Loads a problem and sets `layout`: to the offsets in the file if it is a plan, or a solution for
 * the problem of input->problem_path, else to a new plan. For a model, use cli_input_plan. */
tn_status cli_input_load_layout(cli_input *input, const tn_plan_options *options, tn_error *error);
/* Plans a model within a budget by tn_fit_graph: with operators in tiles if input->split asks for
 * them, else without changes. With `arena` true the budget is for the arena alone, not for the
 * weights. input->answer has the claims about the budget. */
tn_status cli_input_fit(cli_input *input, const tn_plan_options *options, uint64_t budget,
                        bool arena, tn_error *error);
/* Loads a model and plans it with operators in tiles, for `count` limits of extra work, by
 * tn_setup_split_sweep. */
tn_status cli_input_sweep(cli_input *input, const tn_plan_options *options, uint32_t count,
                          tn_setup **setups, uint32_t *found, tn_error *error);
/* Reads a plan of another tool into input->foreign and input->own. `offsets` has the meaning that
 * it has for tn_problem_load. */
tn_status cli_input_read_foreign(cli_input *input, uint64_t **offsets, tn_error *error);
/* Makes `input` the owner of the compiled model `setup`. */
void cli_input_take_setup(cli_input *input, tn_setup *setup);
void cli_input_release(cli_input *input);
void cli_input_release_loaded(
    cli_input *input); /* releases the loaded data of `input` and keeps its options */
void cli_stage(cli_input *input, const char *name, double seconds);
#define CLI_TFLITE_ALIGNMENT 16u /* default alignment for plans inside .tflite models */

/* If the input is a .tflite model: sets up the report so that it can write the model with the plan
 * inside. */
void cli_report_model(tn_report *report, cli_input *input);

/* --- operators in tiles --- */

/* The table of options about tiles, a child of parsers. Its input is a cli_split. */
extern const struct argp cli_split_argp;
/* Returns the options for tiles within `budget` (0: no budget), or NULL if --split was not given.
 * The result points into `split`. */
const tn_setup_split *cli_split_of(cli_split *split, uint64_t budget);
/* Parses the value of --extra-work, such as "10%" or "0.1". */
double cli_extra_work(struct argp_state *state, const char *text);

#endif
