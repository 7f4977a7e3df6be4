/* ranks.h - one of several ranks that train a model: its step and its communication, for `train`
 * and `estimate`. */
#ifndef TN_CLI_RANKS_H
#define TN_CLI_RANKS_H

#include <tenure/dist.h>
#include <tenure/train.h>

#include "cli/cli.h"

#define CLI_BUCKET_USUAL (UINT64_C(4) << 20)

typedef struct cli_ranks {
    tn_grid grid;
    uint32_t rank;
    tn_shard shard;  /* state divided among data ranks */
    uint64_t bucket; /* bytes of gradients exchanged together; 0: the default */
    bool sequence;   /* sequence parallelism between tensor ranks */
    uint64_t ahead;  /* bytes of parameters gathered ahead; 0: the largest bucket */
    tn_pipeline schedule;
    bool scheduled;          /* --schedule was given */
    bool whole_sends;        /* --whole-sends */
    const tn_training *step; /* NULL, or the step that is divided into pipeline stages */
} cli_ranks;
#define CLI_RANKS_INIT                                                                             \
    { .grid = TN_GRID_INIT }

/* Whether mpirun has started several processes. */
bool cli_ranks_started(void);
/* Ends a process that cannot begin: all processes agree on the error, and one prints it. Returns
 * the exit status, which is equal on all. */
int cli_ranks_end(const tn_error *error);

/* A child of both parsers, for all options except the grid; its input is a cli_ranks. */
extern const struct argp cli_ranks_argp;

/* Sets the conditions of combine.h about ranks. several_data: several ranks divide a batch. */
void cli_ranks_conditions(const cli_ranks *ranks, bool several_data);

/* The group of this rank along an axis. */
uint32_t cli_ranks_group(const cli_ranks *ranks, tn_grid_axis axis);
/* The step of this rank. Errors: E_UNSUPPORTED. */
tn_status cli_ranks_step(const cli_ranks *ranks, tn_train_options *options, tn_error *error);
/* Joins the groups that cli_ranks_divide needs in addition to those of tn_world_grid. */
tn_status cli_ranks_join(const cli_ranks *ranks, tn_world *world, const tn_context *context,
                         tn_error *error);
/* The callback tn_divide.divide, for more than one rank. */
tn_status cli_ranks_divide(void *ranks, const tn_program *program, tn_program **divided,
                           tn_error *error);

#endif
