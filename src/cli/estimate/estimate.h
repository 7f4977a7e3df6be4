/* estimate.h - `tenure estimate`: the memory of a model, from its graph (with trials of other
 * batches and options), from formulas for large transformers, or from the files of a language
 * model. */
#ifndef TN_ESTIMATE_ESTIMATE_H
#define TN_ESTIMATE_ESTIMATE_H

#include <argp.h>

#include <tenure/dist.h>

#include "cli/answer/facts.h"
#include "cli/model/input.h"
#include "cli/model/opened_model.h"
#include "cli/model/training.h"
#include "graph/rules/dequant.h"

#define CLI_LAYERS_MAX 6u /* layers that a suggestion can name */

/* The work that all trials of an explanation may take together; cli_deadline limits their time. */
typedef struct cli_limits {
    bool limited;  /* in work */
    uint64_t work; /* remaining units */
    bool reached;
    tn__text skipped; /* ", "-separated: changes that were not tried, or not to the end */
} cli_limits;
/* Whether any time and work is left. */
bool cli_limits_go_on(cli_limits *limits);
void cli_limits_spend(cli_limits *limits, uint64_t work);
void cli_limits_skip(cli_limits *limits, const char *what);

/* How the model is read and run; a trial changes a copy. */
typedef struct cli_estimate_request {
    cli_input input; /* only its options are used */
    uint64_t batch;  /* per rank; 0: as in the file */
    bool train, pytorch;
    cli_training training;
    cli_ranks ranks; /* the ranks of training */
    tn_estimate_options options;
    cli_runner runner;
    cli_choices choices;
    uint64_t limit;             /* limit in bytes; 0: none */
    uint64_t fit;               /* budget in bytes for a fitted program; 0: no fitting */
    uint32_t allow;             /* techniques (TN_FIT_*) for that budget */
    double link;                /* bytes per second to and from the host, for swaps */
    bool tries;                 /* a suggestion is tried: use short searches */
    cli_limits *limits;         /* of all trials; NULL: none */
    const char *const *outputs; /* [output_count] output files for the first plan */
    uint32_t output_count;
    const tn_hardware *device; /* the device of the limit, or NULL */
} cli_estimate_request;

typedef struct cli_stage_memory { /* memory of one pipeline stage */
    uint64_t arena, fixed;        /* as in tn_estimate */
} cli_stage_memory;

typedef struct cli_estimate_result { /* the result; for a pipeline, that of its largest stage */
    tn_estimate estimate;
    uint32_t steps;
    char peak_op[160]; /* "Conv 'node_12'" */
    uint64_t batch;    /* batch size per rank; 0: no batch dimension */
    bool joins;        /* it has concatenations that can be fused */
    uint64_t parameters;
    tn__dequant_sums packed; /* weights expanded by DequantizeLinear, if any */
    uint32_t expands;        /* how many of these weights are expanded before the run */
    uint32_t convolutions;   /* in the model; normalises: it has a normalisation operator */
    bool normalises;
    tn_report_kernels kernels; /* set with for_kernels */
    bool for_kernels;          /* kernels of this machine; else the graph alone */
    tn_scratch_report pieces;  /* operators in pieces; zeros: none */
    bool fits;                 /* within the limit, which is also a pool's capacity */
    bool fitted;               /* a program was fitted, because the plain one exceeds `fit` */
    double more_time;          /* then the predicted extra time, relative to the plain program */
    uint64_t host;             /* then the host bytes for swapped tensors */
    uint64_t work;             /* units of work of the plan and of the search for a program */
    /* the prefixes of parameter names up to the first dot ("layer1."), in order, which may be
     * frozen. The last prefix, and any beyond the capacity, are not listed. */
    char layers[CLI_LAYERS_MAX][32];
    uint32_t layer_count;
    cli_stage_memory stages[TN_STAGE_PARTS_MAX]; /* [pipeline stages]; unused without a pipeline */
} cli_estimate_result;

tn_status cli_estimate(const cli_estimate_request *request, cli_estimate_result *found,
                       tn_error *error);
/* The same without the evaluation phase of training. */
tn_status cli_estimate_within(const cli_estimate_request *request, cli_estimate_result *found,
                              tn_error *error);
/* The largest batch that fits; 0 if a batch of 1 does not fit. */
tn_status cli_estimate_max_batch(const cli_estimate_request *request, uint64_t *batch,
                                 tn_error *error);

typedef struct cli_change {
    char text[160];   /* "--dtype bf16 --fuse-update" */
    uint64_t total;   /* bytes with it */
    bool priced;      /* it recomputes; more_time is known */
    double more_time; /* predicted extra time, as a fraction */
} cli_change;
/* Adds each change to the answer, or a line that says that none was found. */
extern const cli_facts cli_changes_facts; /* with CLI_FACTS_ALSO */
void cli_changes_add(cli_answer *answer, const cli_change *changes, uint32_t count);
/* Finds up to `room` of the cheapest changes that make it fit; returns their number. */
uint32_t cli_estimate_changes(const cli_estimate_request *request, const cli_estimate_result *found,
                              cli_change *changes, uint32_t room);

/* Finds each single change that lowers the total, cheapest first; returns their number. */
uint32_t cli_estimate_each(const cli_estimate_request *request, const cli_estimate_result *found,
                           cli_change *changes, uint32_t room);

/* Recomputation that meets a budget for all bytes, with its predicted time. Returns 0 if it is not
 * needed or was not found. */
uint32_t cli_estimate_fitted(const cli_estimate_request *request, uint64_t budget,
                             cli_change *change);

/* graph.c: the whole path of a graph, from the estimate to the answer. Returns the exit
 * status. */
extern const cli_facts cli_estimate_facts;
int cli_estimate_graph(cli_estimate_request *request, bool max_batch, bool json, tn_error *error);

/* --- training time on many devices --- */

typedef struct cli_cluster {
    tn_cluster cluster;
    bool asked, search, sweep;
    tn_cluster_found found;
    tn_cluster_time time;
    bool timed; /* the time is known, because the device's rates are */
} cli_cluster;
#define CLI_CLUSTER_INIT                                                                           \
    { .cluster = TN_CLUSTER_INIT }

/* --devices, --per-node, --link-fast, --link-slow, --sweep; its input is a cli_cluster. */
extern const struct argp cli_cluster_argp;

/* --parallel auto. */
void cli_cluster_search(cli_cluster *cluster);
extern const cli_facts cli_scaling_facts; /* of --sweep */

/* --- training of a large transformer, by formulas --- */

#define CLI_LARGE_CHANGES_MAX 6u

typedef struct cli_large {
    bool asked, split; /* given: an option of formulas was set; has_ranks: ranks were given */
    tn_large how;      /* options; the sizes come from the file */
    tn_large_estimate found;
    cli_change changes[CLI_LARGE_CHANGES_MAX]; /* changes that make it fit */
    uint32_t change_count;
} cli_large;

/* --parallel tensor=8,pipeline=4,data=2 */
void cli_large_split(struct argp_state *state, cli_large *large, tn_grid *grid, const char *value);
/* The whole path, from `how` to the answer. Returns the exit status. */
extern const cli_facts cli_large_facts;
int cli_estimate_large(cli_large *large, cli_cluster *cluster, const cli_estimate_request *request,
                       bool json, tn_error *error);

/* --- running a language model --- */

/* Its input is a folder, or a config.json, .safetensors or .gguf file. */

#define CLI_LLM_CHANGES_MAX 8u

typedef struct cli_llm {
    tn_llm_options options;  /* as requested, including batch and sequence */
    tn_llm_scheme scheme;    /* --weight-type */
    bool runtime_named;      /* --runtime llama.cpp */
    uint64_t runtime, limit; /* given bytes of the runtime; usable bytes */
    const tn_hardware *device;
    bool most; /* --max-batch */
    /* results */
    tn_llm *model;
    bool has_model;    /* else only the weights are known */
    char unknown[400]; /* why the cache and the workspace are unknown */
    tn_weights_sum file;
    bool has_file;
    tn_llm_stored *stored; /* bytes of the files by layer */
    uint32_t files;
    tn_llm_estimate found;
    uint64_t total; /* including the runtime */
    uint64_t largest_batch, longest;
    cli_change changes[CLI_LLM_CHANGES_MAX]; /* changes that make it fit */
    uint32_t change_count;
} cli_llm;

/* Whether a file of this name is estimated here (except with --train). */
bool cli_llm_recognises(const char *path);
extern const cli_facts cli_llm_facts;
/* The whole path, from `options` to the answer. Returns the exit status. */
int cli_estimate_llm(cli_llm *llm, const cli_estimate_request *request, bool json, tn_error *error);

#endif
