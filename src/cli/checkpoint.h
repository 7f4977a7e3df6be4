/* checkpoint.h - a training run on disk: what is in static memory and where it stood. */
#ifndef TN_CLI_CHECKPOINT_H
#define TN_CLI_CHECKPOINT_H

#include "cli/cli.h"

/* What must be the same for a run to go on as if it had not stopped. */
typedef struct cli_progress_of_run {
    uint64_t step;                       /* updates done */
    uint64_t seed, batch, micro_batches; /* order of samples */
    uint32_t optimizer, dtype;
} cli_progress_of_run;

/* Writes beside and renames: the file is the old checkpoint or the whole new one.
 * `ids` [count]: static tensors of the engine's graph. */
tn_status cli_checkpoint_save(const char *path, tn_engine *engine, const tn_graph *graph,
                              const tn_tensor_id *ids, uint32_t count,
                              const cli_progress_of_run *run, tn_error *error);
/* Errors: E_INVALID (damaged, of another model, of a run with other settings). */
tn_status cli_checkpoint_load(const char *path, tn_engine *engine, const tn_graph *graph,
                              const tn_tensor_id *ids, uint32_t count, cli_progress_of_run *run,
                              tn_error *error);

#endif
