/* estimate.h - `tenure estimate`: from a way to run a model to the bytes that it takes, as often as
 * batches and changes are tried. */
#ifndef TN_CLI_ESTIMATE_H
#define TN_CLI_ESTIMATE_H

#include "graph/packed.h"
#include "cli/open_model.h"
#include "cli/ranks.h"
#include "cli/whom.h"

#define CLI_LAYERS_MAX 6u /* that a line of advice can name */

/* What all trials of an explanation may take together; the time is cli_deadline's. */
typedef struct cli_limits {
    bool limited;  /* in work */
    uint64_t work; /* units that are left */
    bool reached;
    tn__text skipped; /* ", "-separated: what was not tried, or not to its end */
} cli_limits;
/* Whether there is anything left of time and work. */
bool cli_limits_go_on(cli_limits *limits);
void cli_limits_spend(cli_limits *limits, uint64_t work);
void cli_limits_skip(cli_limits *limits, const char *what);

/* How the model is read and run; copied and changed to try something else. */
typedef struct cli_way {
    cli_input input; /* only its options are used */
    uint64_t batch;  /* of a rank; 0: as the file says */
    bool train, pytorch;
    cli_training training;
    cli_ranks ranks; /* that train it */
    tn_estimate_options options;
    cli_runner runner;
    cli_choices choices;
    uint64_t limit;     /* bytes that it must fit into; 0: none */
    uint64_t fit;       /* bytes that a program is looked for that keeps to them; 0: as it is */
    uint32_t allow;     /* TN_FIT_* that may keep to it */
    double link;        /* bytes a second to the host and back, for swaps */
    bool tries;         /* a change is looked at: no search lasts long */
    cli_limits *limits; /* of all trials; NULL: none */
    const char *const *outputs; /* [output_count] files for the plan of the first trial */
    uint32_t output_count;
    const tn_hardware *device; /* what the limit is of; NULL: none that is known */
} cli_way;

typedef struct cli_staged { /* what a stage of a pipeline takes */
    uint64_t arena, fixed;  /* as in tn_estimate */
} cli_staged;

typedef struct cli_found { /* what one way takes; of a pipeline, its stage that takes most */
    tn_estimate estimate;
    uint32_t steps;
    char peak_op[160]; /* "Conv 'node_12'" */
    uint64_t batch;    /* first extent of the first input, of a rank; 0: there is none */
    bool joins;        /* it has concatenations that may be fused */
    uint64_t parameters;
    tn__packed_sums packed; /* weights that DequantizeLinear expands; 0 results: there are none */
    uint32_t convolutions;  /* of the model, and whether any operator normalises */
    bool normalises;
    tn_report_kernels kernels; /* with for_kernels */
    bool for_kernels;          /* of this machine; else for the graph alone */
    char pieces[CLI_PIECES_MAX];
    bool fits;        /* into the limit: a pool, when it may take no more */
    bool fitted;      /* to `fit`, which the plain program exceeds */
    double more_time; /* then, as a share of the plain program's, by a model of the device */
    uint64_t host;    /* then, bytes on the host for what is swapped */
    uint64_t work;    /* units of work of the plan and of a search for a program */
    /* what the names of parameters begin with, up to a dot, in order ("layer1."): what may be
     * frozen; the last one, or what is beyond the room, is not listed */
    char layers[CLI_LAYERS_MAX][32];
    uint32_t layer_count;
    cli_staged stages[TN_STAGE_PARTS_MAX]; /* [those of the pipeline; none: there is none] */
} cli_found;

tn_status cli_estimate(const cli_way *way, cli_found *found, tn_error *error);
/* The same without the evaluation beside training. */
tn_status cli_estimate_within(const cli_way *way, cli_found *found, tn_error *error);
/* The largest batch that fits; 0: not even 1. */
tn_status cli_estimate_max_batch(const cli_way *way, uint64_t *batch, tn_error *error);

typedef struct cli_change {
    char text[160];   /* "--dtype bf16 --fuse-update" */
    uint64_t total;   /* bytes with it */
    bool priced;      /* it computes again, and takes ... */
    double more_time; /* ... so much longer, as a share; predicted */
} cli_change;
/* "would fit with --dtype bf16: ...", a line each; where there is none, that nothing does. */
void cli_changes_tell(const cli_change *changes, uint32_t count);
/* As a member: ,"changes":[{"change":"--dtype bf16","total":N},..]. */
void cli_changes_json(const cli_change *changes, uint32_t count, tn__text *text);
/* Up to `room` of the cheapest changes after which it fits; how many. */
uint32_t cli_estimate_changes(const cli_way *way, const cli_found *found, cli_change *changes,
                              uint32_t room);

/* Each change that lowers the total, by itself, the cheapest first; how many. */
uint32_t cli_estimate_each(const cli_way *way, const cli_found *found, cli_change *changes,
                           uint32_t room);

/* Computing again to keep to a budget of all bytes, with its price; 0: not needed, or not found. */
uint32_t cli_estimate_fitted(const cli_way *way, uint64_t budget, cli_change *change);

#endif
