/* estimate.h - `tenure estimate`: computes the bytes of one way to run a model, also for trial
 * batches and suggested changes. */
#ifndef TN_CLI_ESTIMATE_H
#define TN_CLI_ESTIMATE_H

#include "graph/rules/dequant.h"
#include "cli/open_model.h"
#include "cli/ranks.h"
#include "cli/whom.h"

#define CLI_LAYERS_MAX 6u /* layers that a suggestion can name */

/* What all trials of an explanation may take together; the time limit is cli_deadline's. */
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
typedef struct cli_way {
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
} cli_way;

typedef struct cli_staged { /* memory of one pipeline stage */
    uint64_t arena, fixed;  /* as in tn_estimate */
} cli_staged;

typedef struct cli_found { /* the result; for a pipeline, that of its largest stage */
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
    cli_staged stages[TN_STAGE_PARTS_MAX]; /* [pipeline stages]; unused without a pipeline */
} cli_found;

tn_status cli_estimate(const cli_way *way, cli_found *found, tn_error *error);
/* The same without the evaluation phase of training. */
tn_status cli_estimate_within(const cli_way *way, cli_found *found, tn_error *error);
/* The largest batch that fits; 0 if a batch of 1 does not fit. */
tn_status cli_estimate_max_batch(const cli_way *way, uint64_t *batch, tn_error *error);

typedef struct cli_change {
    char text[160];   /* "--dtype bf16 --fuse-update" */
    uint64_t total;   /* bytes with it */
    bool priced;      /* it recomputes; more_time is known */
    double more_time; /* predicted extra time, as a fraction */
} cli_change;
/* Adds each change to the answer, or a line that says that none was found. */
extern const cli_facts cli_changes_facts; /* with CLI_FACTS_ALSO */
void cli_changes_tell(cli_answer *answer, const cli_change *changes, uint32_t count);
/* Finds up to `room` of the cheapest changes that make it fit; returns their number. */
uint32_t cli_estimate_changes(const cli_way *way, const cli_found *found, cli_change *changes,
                              uint32_t room);

/* Finds each single change that lowers the total, cheapest first; returns their number. */
uint32_t cli_estimate_each(const cli_way *way, const cli_found *found, cli_change *changes,
                           uint32_t room);

/* Recomputation that meets a budget for all bytes, with its predicted time. Returns 0 if it is not
 * needed or was not found. */
uint32_t cli_estimate_fitted(const cli_way *way, uint64_t budget, cli_change *change);

/* estimate_graph.c: the whole path of a graph, from the estimate to the answer. Returns the exit
 * status. */
extern const cli_facts cli_estimate_facts;
int cli_estimate_graph(cli_way *way, bool max_batch, bool json, tn_error *error);

#endif
