/* checkpoint.h - a training run on disk: what is in static memory and where it stood.
 *
 *     "TENURECK" | version u32 | count u32 | cli_progress_of_run | hash of all else u64
 *     for each tensor: length of its name u32, name, 0 u8, role u32, element type u32, rank u32,
 *                      extents i64[rank], bytes u64, contents
 *
 * Numbers are little endian, as the machine has them.
 */
#ifndef TN_CLI_CHECKPOINT_H
#define TN_CLI_CHECKPOINT_H

#include "base/base.h"
#include "cli/cli.h"

/* What must be the same for a run to go on as if it had not stopped. */
typedef struct cli_progress_of_run {
    uint64_t step;                                /* updates done */
    uint64_t seed, batch, micro_batches, samples; /* order of samples */
    uint32_t optimizer, dtype, loss;
    uint32_t zero;
} cli_progress_of_run;

typedef enum cli_role { CLI_ROLE_PARAMETER, CLI_ROLE_STATISTIC, CLI_ROLE_STATE } cli_role;

typedef struct cli_kept { /* one tensor of a checkpoint */
    const char *name;
    cli_role role;
    tn_dtype dtype;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX];
    uint64_t size;
    const uint8_t *bytes;
} cli_kept;

typedef struct cli_checkpoint {
    const char *path;
    cli_progress_of_run run;
    cli_kept *kept;
    uint32_t count;
    const char **parameters; /* [parameter_count] names of that role */
    uint32_t parameter_count;
    tn__file file;
} cli_checkpoint;

/* Writes beside and renames: the file is the old checkpoint or the whole new one.
 * `ids`, `roles` [count]: static tensors of the engine's graph. bytes: out, of the file.
 * Errors: E_INVALID (a parameter holds what is no number: nothing is written), E_IO, E_NO_MEMORY.
 */
tn_status cli_checkpoint_save(const char *path, tn_engine *engine, const tn_graph *graph,
                              const tn_tensor_id *ids, const cli_role *roles, uint32_t count,
                              const cli_progress_of_run *run, uint64_t *bytes, tn_error *error);

/* Errors: E_IO, E_INVALID (damaged, cut short, not of this version). */
tn_status cli_checkpoint_open(const char *path, cli_checkpoint *checkpoint, tn_error *error);
/* The same from memory, which stays the caller's. */
tn_status cli_checkpoint_read(const char *path, const uint8_t *bytes, size_t size,
                              cli_checkpoint *checkpoint, tn_error *error);
void cli_checkpoint_close(cli_checkpoint *checkpoint);
/* Of a whole file, but for where the hash itself stands. */
uint64_t cli_checkpoint_hash(const uint8_t *bytes, size_t size);

/* Into an engine's static memory; *run is what must be the same, and gets the step.
 * Errors: E_INVALID (of another model, of a run with other settings). */
tn_status cli_checkpoint_restore(const cli_checkpoint *checkpoint, tn_engine *engine,
                                 const tn_graph *graph, const tn_tensor_id *ids,
                                 const cli_role *roles, uint32_t count, cli_progress_of_run *run,
                                 tn_error *error);
/* Whether every parameter and statistic that it holds is one of the model. Errors: E_INVALID. */
tn_status cli_checkpoint_check(const cli_checkpoint *checkpoint, const tn_graph *model,
                               tn_error *error);
/* The parameter or statistic of that name; NULL: it holds none. */
const cli_kept *cli_checkpoint_find(const cli_checkpoint *checkpoint, const char *name);

#endif
