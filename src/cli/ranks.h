/* ranks.h - one of several ranks that train a model: what its step is, and what ranks tell each
 * other; for who trains and for who estimates that. */
#ifndef TN_CLI_RANKS_H
#define TN_CLI_RANKS_H

#include <tenure/dist.h>
#include <tenure/train.h>

#define CLI_BUCKET_USUAL (UINT64_C(4) << 20)

typedef struct cli_ranks {
    tn_grid grid;
    uint32_t rank;
} cli_ranks;
#define CLI_RANKS_INIT                                                                             \
    { .grid = TN_GRID_INIT }

/* The group of those along an axis. */
uint32_t cli_ranks_group(const cli_ranks *ranks, tn_grid_axis axis);
/* The step of this rank; bucket: bytes of gradients that travel together. Errors: E_UNSUPPORTED. */
tn_status cli_ranks_step(const cli_ranks *ranks, uint64_t bucket, tn_train_options *options,
                         tn_error *error);
/* For tn_divide.divide, with the ranks; where there is more than one. */
tn_status cli_ranks_divide(void *ranks, const tn_program *program, tn_program **divided,
                           tn_error *error);

#endif
