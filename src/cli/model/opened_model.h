/* opened_model.h - opens a model for running, in the steps of `tenure run` from the file to an
 * engine. */
#ifndef TN_CLI_OPEN_MODEL_H
#define TN_CLI_OPEN_MODEL_H

#include "cli/model/compile_options.h"
#include "cli/model/input.h"
#include "cli/model/training.h"

typedef struct cli_choices { /* options of a model for the choice of kernels and plan */
    tn_plan_options plan;
    uint32_t threads;
    bool no_rewrite; /* true: keep the operators of the model file as they are, without rewriting */
    bool fastest;    /* true: use the fastest kernels, even if they need more scratch memory */
} cli_choices;
/* Returns the kernel target for these choices, with the kernels of `runner`. */
cli_kernel_target cli_choices_target(const cli_choices *choices, cli_runner runner);
#define CLI_CHOICES_INIT                                                                           \
    { .plan = TN_PLAN_OPTIONS_INIT, .threads = 1 }

typedef struct cli_opened_model cli_opened_model;
struct cli_opened_model {
    cli_input *input; /* how the model is read; its graph may be loaded already */
    /* the training of which each run is a step; NULL: runs are inference */
    const cli_training *training;
    tn_trainer *trained; /* the trainer that supplies the trained parameters, or NULL */
    cli_choices choices;
    bool plain; /* true: run with plain kernels instead of those of oneDNN */
    /* true: compare the run with one in which every tensor has separate memory
     * (cli_opened_model_naive) */
    bool check;
    bool poison, naive; /* naive: give every tensor separate memory */
    const char *pool;
    cli_paths traces; /* files to which the trace of one run is written */
    bool traced;      /* true: record a trace even if it is not written to a file */
    uint64_t budget;  /* budget in bytes for arena and weights together; 0: no budget */
    /* name of the pass that meets the budget; NULL: the default; "none": no pass */
    const char *pass;
    uint32_t codecs;     /* allowed codecs, as bits 1 << tn_codec */
    double max_error;    /* limit of the relative error of a lossy codec; 0: no limit */
    cli_samples samples; /* inputs for a run that counts zeros; zeroed: inputs are generated */
    double link;         /* bytes per second to and from the device; 0: not slowed down */
    double to_swap, from_swap; /* bytes per second to and from the swap device; 0: no swapping */
    const char *swap_device;   /* name of the device that holds swapped tensors; NULL: the host */
    /* allowed techniques (TN_FIT_*); 0: the default ones, and swapping if there is a link */
    uint32_t allow;
    double storage; /* read speed of weight files in bytes per second; 0: measure it */
    bool storage_cache;
    const char *forms_folder;
    uint64_t host_budget; /* bytes of host memory for swapped tensors; 0: no limit */
    double timeout_s; /* time limit of the search for a program within the budget; 0: no limit */
    cli_costs from;   /* source of operator times for fitting; unset: measure them */
    const char *weights_path; /* a file of weights that replace those of the model, or NULL */
    bool weights_made_up;
    uint64_t weights_seed, seed;
    /* type of the weights while the model runs; TN_UNDEFINED: as in the file */
    tn_dtype weights_dtype;
    double prune; /* fraction of the weights to set to zero; 0: no pruning */
    tn_prune_scope prune_scope;
    const tn_divide *divide;     /* the division among several ranks, or NULL */
    const tn_exchange *exchange; /* the callbacks by which the ranks communicate */
    /* results */
    tn_trace *trace;
    /* contents of the model file; generated contents of trained weights */
    tn_contents *contents, *fresh;
    bool own_contents;
    tn_checkpoint *kept; /* `weights_path` opened as a checkpoint, or NULL */
    tn_weights *weights;
    uint32_t weights_taken; /* number of weights taken from `weights` */
    tn_graph *model; /* the rewritten graph that is trained; NULL: the graph as loaded is trained */
    /* the step of `training`; tensors of the model have the same ids in `graph` */
    tn_training step;
    tn_pruning pruning;    /* pruned weights of `graph` before rewriting; count 0: none */
    tn_fit_answer answer;  /* the program that meets the budget; zero if there is no budget */
    float *zeros;          /* measured fractions of zeros in the tensors */
    tn_setup *setup;       /* the compiled model; owned by `answer` if there is a budget */
    const tn_graph *graph; /* the graph that runs */
    tn_engine *engine;
};

/* Tables of options, as children of the commands' parsers. Their inputs are a cli_choices and a
 * cli_opened_model, which contains a cli_choices. */
extern const struct argp cli_choices_argp, cli_opened_model_argp;

/* The tables of --prune and --prune-scope, and of the options for streamed weights (--storage,
 * --storage-cache, --forms), as children of a parser. Their input is a cli_opened_model. */
extern const struct argp cli_pruned_argp, cli_streamed_argp;

/* Returns the kernels that run the model. */
cli_kernel_target cli_opened_model_target(const cli_opened_model *opened);
/* Loads, trains, prunes and compiles the model, up to its plan. */
tn_status cli_opened_model_plan(cli_opened_model *opened, tn_error *error);
/* Returns the source of the initial parameters for a trainer. `opened` must outlive it. */
tn_contents_of cli_opened_model_contents(cli_opened_model *opened);
/* Creates a trace with capacity for the events of `runs` runs. Does nothing if no trace was
 * requested. */
tn_status cli_opened_model_open_trace(cli_opened_model *opened, uint64_t runs, tn_error *error);
tn_status cli_opened_model_write_trace(const cli_opened_model *opened, tn_error *error);
/* Returns engine options by which an engine reads the model's data and stores swapped tensors. */
tn_engine_options cli_opened_model_engine(cli_opened_model *opened);
/* Opens the device and the engine. Errors: E_EXHAUSTED if the budget is too small. */
tn_status cli_opened_model_start(cli_opened_model *opened, tn_error *error);
/* Opens a second engine, in `other`, that runs the program with separate memory for every tensor.
 * `other` must be zeroed. */
tn_status cli_opened_model_naive(const cli_opened_model *opened, cli_opened_model *other,
                                 tn_error *error);
void cli_opened_model_close(cli_opened_model *opened);

#endif
