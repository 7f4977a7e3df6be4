/* ranks.h - one of several ranks that train a model: what its step is, and what ranks tell each
 * other; for who trains and for who estimates that. */
#ifndef TN_CLI_RANKS_H
#define TN_CLI_RANKS_H

#include <tenure/dist.h>
#include <tenure/train.h>

#include "cli/cli.h"

#define CLI_BUCKET_USUAL (UINT64_C(4) << 20)

typedef struct cli_ranks {
    tn_grid grid;
    uint32_t rank;
    tn_shard shard;  /* what those of `data` divide */
    uint64_t bucket; /* bytes of gradients that travel together; 0: as usual */
    bool sequence;   /* what lies between the parts of `tensor` is divided among them, too */
    uint64_t ahead;  /* of parameters that are gathered ahead of need; 0: as the largest bucket */
    tn_pipeline schedule;
    bool scheduled;          /* somebody said which */
    bool whole_sends;        /* between stages, of what ranks of `tensor` have alike */
    const tn_training *step; /* NULL, or what is divided: for stages of a pipeline */
} cli_ranks;
#define CLI_RANKS_INIT                                                                             \
    { .grid = TN_GRID_INIT }

/* Whether mpirun has started several of this process. */
bool cli_ranks_started(void);
/* Such a process cannot begin: all agree on that before anything else, one tells it. Returns the
 * exit status, which is the same on all. */
int cli_ranks_end(const tn_error *error);

/* A child of the parsers of both, for all but the grid; its input is a cli_ranks. */
extern const struct argp cli_ranks_argp;

/* Misuse where what is asked cannot be; budget: of a rank, 0: none. */
void cli_ranks_check(struct argp_state *state, const cli_ranks *ranks, uint64_t budget);

/* The group of those along an axis. */
uint32_t cli_ranks_group(const cli_ranks *ranks, tn_grid_axis axis);
/* The step of this rank. Errors: E_UNSUPPORTED. */
tn_status cli_ranks_step(const cli_ranks *ranks, tn_train_options *options, tn_error *error);
/* What it takes beside tn_world_grid to run the program of cli_ranks_divide. */
tn_status cli_ranks_join(const cli_ranks *ranks, tn_world *world, const tn_context *context,
                         tn_error *error);
/* For tn_divide.divide, with the ranks; where there is more than one. */
tn_status cli_ranks_divide(void *ranks, const tn_program *program, tn_program **divided,
                           tn_error *error);

#endif
