/* opened_model.h - a model that is opened for running: from its file to an engine, in the steps of
 * `tenure run`. */
#ifndef TN_CLI_OPEN_MODEL_H
#define TN_CLI_OPEN_MODEL_H

#include "cli/model/compile_options.h"
#include "cli/model/input.h"
#include "cli/model/training.h"

typedef struct cli_choices { /* choices of kernels and plan */
    tn_plan_options plan;
    uint32_t threads;
    bool no_rewrite; /* keep the operators of the file */
    bool fastest;    /* fastest kernels, regardless of their scratch */
} cli_choices;
/* With the kernels of `runner`. */
cli_kernel_target cli_choices_target(const cli_choices *choices, cli_runner runner);
#define CLI_CHOICES_INIT                                                                           \
    { .plan = TN_PLAN_OPTIONS_INIT, .threads = 1 }

typedef struct cli_opened_model cli_opened_model;
struct cli_opened_model {
    cli_input *input;             /* how to read the model; its graph may already be loaded */
    const cli_training *training; /* NULL, or each run is a training step */
    tn_trainer *trained;          /* NULL, or the trainer that supplies trained parameters */
    cli_choices choices;
    bool plain;         /* no oneDNN */
    bool check;         /* compare with separate memory for every tensor: cli_opened_model_naive */
    bool poison, naive; /* naive: every tensor has separate memory */
    const char *pool;
    cli_paths traces;          /* output files of the trace of one run */
    bool traced;               /* the trace is also read in memory */
    uint64_t budget;           /* bytes for arena and weights; 0: as needed */
    const char *pass;          /* the pass that meets the budget; NULL: default; "none": none */
    uint32_t codecs;           /* allowed codecs, as bits 1 << tn_codec */
    double max_error;          /* relative error of a lossy form; 0: no limit */
    cli_samples samples;       /* inputs for counting zeros; zeroed: generated inputs */
    double link;               /* bytes per second to and from the device; 0: no limit */
    double to_swap, from_swap; /* bytes per second of the swap device; 0: none */
    const char *swap_device;   /* name of the swap device; NULL: the host */
    uint32_t allow;            /* techniques (TN_FIT_*); 0: the default, and with a link also
                                * swapping */
    double storage;            /* bytes per second of weight files; 0: measure */
    bool storage_cache;
    const char *forms_folder;
    uint64_t host_budget;     /* host bytes for swapped tensors; 0: no limit */
    double timeout_s;         /* time limit of the search for a program within the budget; 0:
                               * none */
    cli_costs from;           /* source of operator times for fitting; unset: measure */
    const char *weights_path; /* NULL, or a weights file that replaces weights of the model */
    bool weights_made_up;
    uint64_t weights_seed, seed;
    tn_dtype weights_dtype; /* type of the weights while it runs; UNDEFINED: as in the file */
    double prune;           /* fraction of the weights to prune; 0: none */
    tn_prune_scope prune_scope;
    const tn_divide *divide;     /* NULL, or the division among several ranks */
    const tn_exchange *exchange; /* that communicate through this world */
    /* results */
    tn_trace *trace;
    tn_contents *contents, *fresh; /* of the model file; generated for trained weights */
    bool own_contents;
    tn_checkpoint *kept; /* of weights_path; or */
    tn_weights *weights;
    uint32_t weights_taken; /* number of trained weights */
    tn_graph *model;        /* the graph that is trained; NULL: as loaded */
    tn_training step;       /* of `training`; tensor ids are the same in the model and in `graph` */
    tn_pruning pruning;     /* of `graph` before rewriting; count 0: none */
    tn_fit_answer answer;   /* for the budget; zero without one */
    float *zeros;           /* measured fractions of zeros */
    tn_setup *setup;        /* owned by the answer, if there is one */
    const tn_graph *graph;  /* the running graph */
    tn_engine *engine;
};

/* Children of parsers. Their inputs are a cli_choices and a cli_opened_model, which contains a
 * cli_choices. */
extern const struct argp cli_choices_argp, cli_opened_model_argp;

/* A child of parsers: --prune, --prune-scope; its input is a cli_opened_model. */
extern const struct argp cli_pruned_argp;

/* The kernel library that runs it. */
cli_kernel_target cli_opened_model_target(const cli_opened_model *opened);
/* Everything up to the plan. */
tn_status cli_opened_model_plan(cli_opened_model *opened, tn_error *error);
/* The initial parameters for a trainer; `opened` outlives it. */
tn_contents_of cli_opened_model_contents(cli_opened_model *opened);
/* Makes room for the events of `runs` runs, and opens the files. Does nothing without `traces`. */
tn_status cli_opened_model_open_trace(cli_opened_model *opened, uint64_t runs, tn_error *error);
tn_status cli_opened_model_write_trace(const cli_opened_model *opened, tn_error *error);
/* How an engine gets data and memory for swapped tensors. */
tn_engine_options cli_opened_model_engine(cli_opened_model *opened);
/* Opens the device and the engine. Errors: E_EXHAUSTED if the budget is too small. */
tn_status cli_opened_model_start(cli_opened_model *opened, tn_error *error);
/* A second engine for the same program with separate memory for every tensor. `other` starts
 * zeroed. */
tn_status cli_opened_model_naive(const cli_opened_model *opened, cli_opened_model *other,
                                 tn_error *error);
void cli_opened_model_close(cli_opened_model *opened);

#endif
