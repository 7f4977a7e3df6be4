/* estimate.h - the parts of `tenure estimate`. It estimates the memory of a model in three ways:
 * from its graph, by formulas for training a large transformer, or from the files of a language
 * model that is run. */
#ifndef TN_ESTIMATE_ESTIMATE_H
#define TN_ESTIMATE_ESTIMATE_H

#include <argp.h>

#include <tenure/dist.h>

#include "cli/answer/facts.h"
#include "cli/model/input.h"
#include "cli/model/opened_model.h"
#include "cli/model/training.h"
#include "graph/rules/dequant.h"

#define CLI_LAYERS_MAX 6u /* largest number of layers that a proposed change can name */

/* A limit of the work of several trials together. Their time is limited by cli_deadline. */
typedef struct cli_limits {
    bool limited;  /* true if the amount of work is limited */
    uint64_t work; /* remaining work in units of the planner, valid if `limited` */
    bool reached;
    tn__text skipped; /* changes that were not tried, or not completely, separated by ", " */
} cli_limits;
/* Returns whether time and work are left. */
bool cli_limits_go_on(cli_limits *limits);
void cli_limits_spend(cli_limits *limits, uint64_t work);
void cli_limits_skip(cli_limits *limits, const char *what);

/* What is estimated: the model, and how it is run. A trial of a change copies the request and edits
 * the copy. */
typedef struct cli_estimate_request {
    cli_input input; /* options for reading the model; its loaded data are not used */
    uint64_t batch;  /* batch size per rank; 0: as in the file */
    bool train, pytorch;
    cli_training training;
    cli_ranks ranks; /* the ranks of a distributed training */
    tn_estimate_options options;
    cli_runner runner;
    cli_choices choices;
    uint64_t limit; /* limit of the memory in bytes; 0: no limit */
    uint64_t fit;   /* budget in bytes for a fitted program; 0: no fitting */
    uint32_t allow; /* techniques (TN_FIT_*) that may meet the budget `fit` */
    double link;    /* bytes per second to and from the host, for swapped tensors */
    bool tries;     /* true while a proposed change is being tried, so that searches are short */
    cli_limits *limits; /* limits of all trials together; NULL: no limits */
    /* [output_count] files to which the plan of the first estimate is written */
    const char *const *outputs;
    uint32_t output_count;
    const tn_hardware *device; /* the device whose memory is `limit` bytes, or NULL */
} cli_estimate_request;

typedef struct cli_stage_memory { /* bytes of memory of one pipeline stage */
    uint64_t arena, fixed;        /* bytes of the arena and outside it, as in tn_estimate */
} cli_stage_memory;

/* the result; with pipeline stages, that of the stage that needs most memory */
typedef struct cli_estimate_result {
    tn_estimate estimate;
    uint32_t steps;
    char peak_op[160]; /* the operator at the peak, such as "Conv 'node_12'" */
    uint64_t batch;    /* batch size per rank; 0: the model has no batch dimension */
    bool joins;        /* true if the model has concatenations that can be fused */
    uint64_t parameters;
    /* sums over weights that DequantizeLinear expands; zeros if there are none */
    tn__dequant_sums packed;
    uint32_t expands; /* number of the weights of `packed` that are expanded before the run */
    /* number of convolutions in the model; normalises: the model has a normalisation operator */
    uint32_t convolutions;
    bool normalises;
    tn_report_kernels kernels; /* description of the kernels; valid if for_kernels */
    bool for_kernels; /* true: the estimate counts kernels of this machine, not the graph alone */
    /* memory saved by operators in pieces; zeros: no operator is in pieces */
    tn_scratch_report pieces;
    /* true: the total is within the limit; for a pool, the pool fits with the limit as its
     * capacity */
    bool fits;
    bool fitted; /* true: a program was fitted, because the unchanged program exceeds `fit` */
    /* if fitted: predicted extra time, as a fraction of the time of the unchanged program */
    double more_time;
    uint64_t host; /* bytes of host memory for swapped tensors, if a program was fitted */
    uint64_t work; /* units of work that the plan and the search for a program took */
    /* Groups of parameters that may be frozen, in the order of the model: the parts of parameter
     * names up to the first dot, such as "layer1.". The last group of the model is never listed,
     * nor are groups beyond CLI_LAYERS_MAX. */
    char layers[CLI_LAYERS_MAX][32];
    uint32_t layer_count;
    /* [pipeline stages] memory of each stage; unused without pipeline stages */
    cli_stage_memory stages[TN_STAGE_PARTS_MAX];
} cli_estimate_result;

tn_status cli_estimate(const cli_estimate_request *request, cli_estimate_result *found,
                       tn_error *error);
/* Estimates the memory as cli_estimate does, but without the evaluation phase of training. */
tn_status cli_estimate_within(const cli_estimate_request *request, cli_estimate_result *found,
                              tn_error *error);
/* Finds the largest batch that fits; sets *batch to 0 if a batch of 1 does not fit. */
tn_status cli_estimate_max_batch(const cli_estimate_request *request, uint64_t *batch,
                                 tn_error *error);

typedef struct cli_change {
    char text[160];   /* options of the command line, such as "--dtype bf16 --fuse-update" */
    uint64_t total;   /* estimated bytes of the model with this change */
    bool priced;      /* true: the extra time of the change was predicted; see more_time */
    double more_time; /* predicted extra time of the change, as a fraction */
} cli_change;
/* cli_changes_add adds each change to the answer, or a line that no change was found. */
extern const cli_facts cli_changes_facts; /* a table of facts for the macro CLI_FACTS_ALSO */
void cli_changes_add(cli_answer *answer, const cli_change *changes, uint32_t count);
/* Finds up to `room` changes that make the model fit into request->limit, cheapest first, and
 * stores them in `changes`. Returns their number. */
uint32_t cli_estimate_changes(const cli_estimate_request *request, const cli_estimate_result *found,
                              cli_change *changes, uint32_t room);

/* Finds the single changes that lower the estimated total, at most `room` of them. Those that
 * cli_estimate_changes also tries come first, in its order. Returns the number of changes. */
uint32_t cli_estimate_each(const cli_estimate_request *request, const cli_estimate_result *found,
                           cli_change *changes, uint32_t room);

/* Fits the program to `budget`, which includes all bytes, and predicts the time. Returns 1 and
 * stores the change, or returns 0 if the unchanged program fits or no program was found. */
uint32_t cli_estimate_fitted(const cli_estimate_request *request, uint64_t budget,
                             cli_change *change);

/* graph.c: estimates the memory of a graph and prints the answer. Returns the exit status. */
extern const cli_facts cli_estimate_facts;
int cli_estimate_graph(cli_estimate_request *request, bool max_batch, bool json, tn_error *error);

/* --- training time on many devices --- */

typedef struct cli_cluster {
    tn_cluster cluster;
    bool asked, search, sweep;
    tn_cluster_found found;
    tn_cluster_time time;
    bool timed; /* true: the time was computed, because the rates of the device are known */
} cli_cluster;
#define CLI_CLUSTER_INIT                                                                           \
    { .cluster = TN_CLUSTER_INIT }

/* The parser of --devices, --per-node, --link-fast, --link-slow and --sweep. Its input is a
 * cli_cluster. */
extern const struct argp cli_cluster_argp;

/* Handles --parallel auto: requests a search for the fastest division among the devices. */
void cli_cluster_search(cli_cluster *cluster);
extern const cli_facts cli_scaling_facts; /* facts of the answer of --sweep */

/* --- training of a large transformer, by formulas --- */

#define CLI_LARGE_CHANGES_MAX 6u

typedef struct cli_large {
    bool asked, split; /* asked: an option of the formulas was given; split: --parallel was given */
    tn_large how;      /* options of the training; the sizes of the model are read from its file */
    tn_large_estimate found;
    /* changes to the options that make the training fit into the limit */
    cli_change changes[CLI_LARGE_CHANGES_MAX];
    uint32_t change_count;
} cli_large;

/* Parses --parallel, such as tensor=8,pipeline=4,data=2, into `large` and `grid`. */
void cli_large_split(struct argp_state *state, cli_large *large, tn_grid *grid, const char *value);
/* cli_estimate_large reads the model, estimates its training with the options in large->how, and
 * prints the answer. It returns the exit status. */
extern const cli_facts cli_large_facts;
int cli_estimate_large(cli_large *large, cli_cluster *cluster, const cli_estimate_request *request,
                       bool json, tn_error *error);

/* --- running a language model --- */

/* The input of this estimate is a folder, or a config.json, .safetensors or .gguf file. */

#define CLI_LLM_CHANGES_MAX 8u

typedef struct cli_llm {
    tn_llm_options options;  /* the requested options, including batch and sequence */
    tn_llm_scheme scheme;    /* how weights are stored, from --weight-type */
    bool runtime_named;      /* true: --runtime was given, such as --runtime llama.cpp */
    uint64_t runtime, limit; /* bytes of the runtime, as given; bytes that a program can use */
    const tn_hardware *device;
    bool most; /* true: --max-batch was given */
    /* results */
    tn_llm *model;
    bool has_model;    /* the family of the model is known; false: only its weights are known */
    char unknown[400]; /* the reason that the cache and the workspace are unknown */
    tn_weights_sum file;
    bool has_file;
    tn_llm_stored *stored; /* bytes of the weights in the files, by layer */
    uint32_t files;
    tn_llm_estimate found;
    uint64_t total; /* estimated bytes, including those of the runtime */
    uint64_t largest_batch, longest;
    /* changes to the options that make the model fit into the limit */
    cli_change changes[CLI_LLM_CHANGES_MAX];
    uint32_t change_count;
} cli_llm;

/* Returns whether a file of this name is a language model that cli_estimate_llm estimates. With
 * --train such a file is estimated by formulas instead. */
bool cli_llm_recognises(const char *path);
extern const cli_facts cli_llm_facts;
/* Estimates running a language model with llm->options, and prints the answer. Returns the exit
 * status. */
int cli_estimate_llm(cli_llm *llm, const cli_estimate_request *request, bool json, tn_error *error);

#endif
