/* checkpoint.h - reads the checkpoint of a training run: parameters, optimizer state, and progress.
 *
 *     // ... run.ck: of tn_trainer_run (trainer.h); graph: of tn_graph_load
 *     if (tn_checkpoint_open("run.ck", NULL, &checkpoint, &error) ||
 *         tn_checkpoint_model(checkpoint, graph, &model, &error))
 *         return 2;
 *     const tn_kept *kept = tn_checkpoint_find(checkpoint, "conv1.weight");
 *     if (kept != NULL) memcpy(numbers, kept->bytes, kept->size);
 *
 * A file is either the old checkpoint or the complete new one, even if its writer is killed. A hash
 * detects damage. The format:
 *
 *     "TENURECK" | version u32 | count u32 | tn_checkpoint_run | hash of all else u64
 *     for each tensor: length of its name u32, name, 0 u8, role u32, element type u32, rank u32,
 *                      extents i64[rank], bytes u64, data
 *
 * Ranks that shard the state (tn_train_options.shard) write one shard file each, and a main file
 * with their names, which is opened like any other checkpoint. The shard files must be next to the
 * main file, and they are removed when the run writes its next checkpoint. To keep such a
 * checkpoint, stop the run and copy all files, or resume it on one rank, which writes a single
 * file. The formats of main file and shard file:
 *
 *     "TENURESS" | version u32 | count u32 | tn_checkpoint_run | hash of all else u64
 *     for each shard: length of its name u32, name ("run.ck.7.0-of-2"), 0 u8, its bytes u64, its
 *                     hash u64
 *
 *     "TENURESH" | version u32 | count u32 | tn_checkpoint_run | hash of all else u64
 *     for each section: number of the tensor u32; its name ... bytes, as above; start of the
 *                       section in the tensor's data u64, bytes u64, data
 *
 * Numbers are little endian, as on the machine.
 * Units: bytes.
 * Threads: any number of threads may read an open checkpoint.
 */
#ifndef TENURE_CHECKPOINT_H
#define TENURE_CHECKPOINT_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The settings of a run. All of them except `step` must be the same when it is resumed. */
typedef struct tn_checkpoint_run {
    uint64_t step;  /* updates done */
    uint64_t seed;  /* for the order of samples */
    uint64_t batch; /* samples per run */
    uint64_t micro_batches;
    uint64_t samples;                /* number of training samples; 0: not from a data set */
    uint32_t optimizer, dtype, loss; /* tn_optimizer, tn_dtype, tn_loss */
    uint32_t zero;
} tn_checkpoint_run;

typedef enum tn_role {
    TN_ROLE_PARAMETER, /* trained */
    TN_ROLE_STATISTIC, /* running mean or variance of a normalisation */
    TN_ROLE_STATE      /* of the optimizer, or other state between steps */
} tn_role;

typedef struct tn_kept { /* one tensor */
    const char *name;
    tn_role role;
    tn_dtype dtype;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX]; /* outermost first */
    uint64_t size;              /* of `bytes` */
    const uint8_t *bytes;       /* C order, little endian; not aligned */
} tn_kept;

typedef struct tn_checkpoint tn_checkpoint;

/* Opens (maps) a file and verifies all of it. Pointers that a checkpoint returns are valid until it
 * is closed.
 *
 * context     NULL, or must outlive the checkpoint
 * checkpoint  out; close it with tn_checkpoint_close
 * Errors: E_IO, E_INVALID (damaged, truncated, another version, not a regular file), E_NO_MEMORY.
 */
TN_API TN_CHECKED tn_status tn_checkpoint_open(const char *path, const tn_context *context,
                                               tn_checkpoint **checkpoint, tn_error *error);
/* Like tn_checkpoint_open, from memory that is not copied and must outlive the checkpoint.
 * E_INVALID also for the main file of several ranks, because its shards are found by path.
 * name  used in messages; copied */
TN_API TN_CHECKED tn_status tn_checkpoint_read(const char *name, const void *bytes, size_t size,
                                               const tn_context *context,
                                               tn_checkpoint **checkpoint, tn_error *error);
TN_API void tn_checkpoint_close(tn_checkpoint *checkpoint); /* NULL is fine */

/* The settings and the tensors of a checkpoint; NULL for an index out of range. */
TN_API const tn_checkpoint_run *tn_checkpoint_of_run(const tn_checkpoint *checkpoint);
TN_API uint32_t tn_checkpoint_count(const tn_checkpoint *checkpoint);
TN_API const tn_kept *tn_checkpoint_tensor(const tn_checkpoint *checkpoint, uint32_t index);
/* The parameter or statistic with this name; NULL: not found. */
TN_API const tn_kept *tn_checkpoint_find(const tn_checkpoint *checkpoint, const char *name);

/* Makes the model with the trained parameters, as tn_train_model does. Every trained tensor is a
 * parameter there, even if the file has another kind; the caller provides its data when the model
 * is run.
 *
 * graph  the model as it was loaded
 * model  out; destroy it with tn_graph_destroy
 * Errors: E_INVALID (a checkpoint of another model: a parameter or statistic is missing there or
 * has another shape), those of tn_train_model. */
TN_API TN_CHECKED tn_status tn_checkpoint_model(const tn_checkpoint *checkpoint,
                                                const tn_graph *graph, tn_graph **model,
                                                tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
