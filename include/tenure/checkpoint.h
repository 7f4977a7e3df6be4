/* checkpoint.h - what a training run left on disk: parameters, state, and where it stood.
 *
 *     // ... run.ck: of tn_trainer_run (trainer.h); graph: of tn_graph_load
 *     if (tn_checkpoint_open("run.ck", NULL, &checkpoint, &error) ||
 *         tn_checkpoint_model(checkpoint, graph, &model, &error))
 *         return 2;
 *     const tn_kept *kept = tn_checkpoint_find(checkpoint, "conv1.weight");
 *     if (kept != NULL) memcpy(numbers, kept->bytes, kept->size);
 *
 * A file is the old checkpoint or the whole new one, whatever kills its writer; damage is found by
 * a hash. Its format:
 *
 *     "TENURECK" | version u32 | count u32 | tn_checkpoint_run | hash of all else u64
 *     for each tensor: length of its name u32, name, 0 u8, role u32, element type u32, rank u32,
 *                      extents i64[rank], bytes u64, contents
 *
 * Ranks that keep parts of the state (tn_train_options.shard) write together: a part each, and the
 * file that names them, which is opened as any other. It cannot be copied by itself: the parts are
 * looked for beside it, and go when the run writes its next checkpoint. To keep one, stop the run
 * and copy it with them, or resume it on one rank, which writes one file. The formats:
 *
 *     "TENURESS" | version u32 | count u32 | tn_checkpoint_run | hash of all else u64
 *     for each part: length of its name u32, name ("run.ck.7.0-of-2"), 0 u8, its bytes u64, its
 *                    hash u64
 *
 *     "TENURESH" | version u32 | count u32 | tn_checkpoint_run | hash of all else u64
 *     for each stretch: number of the tensor u32; its name ... bytes, as above; where in its
 *                       contents the stretch begins u64, bytes u64, contents
 *
 * Numbers are little endian, as the machine has them.
 * Units: bytes.
 * Threads: a checkpoint is only read once it is open, by any number.
 */
#ifndef TENURE_CHECKPOINT_H
#define TENURE_CHECKPOINT_H

#include <tenure/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What must be the same for a run to go on as if it had not stopped, but for the step. */
typedef struct tn_checkpoint_run {
    uint64_t step;  /* updates done */
    uint64_t seed;  /* of the order of samples */
    uint64_t batch; /* samples of a run */
    uint64_t micro_batches;
    uint64_t samples;                /* to train on; 0: they come from elsewhere */
    uint32_t optimizer, dtype, loss; /* tn_optimizer, tn_dtype, tn_loss */
    uint32_t zero;
} tn_checkpoint_run;

typedef enum tn_role {
    TN_ROLE_PARAMETER, /* that is trained */
    TN_ROLE_STATISTIC, /* running mean or variance of a normalisation */
    TN_ROLE_STATE      /* of the optimizer, or of what else goes on between steps */
} tn_role;

typedef struct tn_kept { /* one tensor */
    const char *name;
    tn_role role;
    tn_dtype dtype;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX]; /* outermost first */
    uint64_t size;              /* of `bytes` */
    const uint8_t *bytes;       /* C order, little endian; aligned to nothing */
} tn_kept;

typedef struct tn_checkpoint tn_checkpoint;

/* Maps a file and looks at all of it. All that a checkpoint tells lives until it is closed.
 *
 * context  NULL or outlives the checkpoint
 * Errors: E_IO, E_INVALID (damaged, cut short, not of this version, no regular file),
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_checkpoint_open(const char *path, const tn_context *context,
                                               tn_checkpoint **checkpoint, tn_error *error);
/* The same of a file in memory, which is not copied: it outlives the checkpoint. E_INVALID also of
 * one that names the parts of several ranks: those lie beside a path.
 * name  what messages call it; copied */
TN_API TN_CHECKED tn_status tn_checkpoint_read(const char *name, const void *bytes, size_t size,
                                               const tn_context *context,
                                               tn_checkpoint **checkpoint, tn_error *error);
TN_API void tn_checkpoint_close(tn_checkpoint *checkpoint); /* NULL is fine */

TN_API const tn_checkpoint_run *tn_checkpoint_of_run(const tn_checkpoint *checkpoint);
TN_API uint32_t tn_checkpoint_count(const tn_checkpoint *checkpoint);
TN_API const tn_kept *tn_checkpoint_tensor(const tn_checkpoint *checkpoint, uint32_t index);
/* The parameter or statistic of that name; NULL: it holds none. */
TN_API const tn_kept *tn_checkpoint_find(const tn_checkpoint *checkpoint, const char *name);

/* The model with the parameters that were trained, as tn_train_model makes it: those that a file
 * has as something else are parameters here, and whoever runs it is asked for their contents.
 *
 * graph  the model, as it was loaded; model: out, destroy with tn_graph_destroy
 * Errors: E_INVALID (of another model: a parameter or statistic is not in this one, or of another
 * shape), those of tn_train_model. */
TN_API TN_CHECKED tn_status tn_checkpoint_model(const tn_checkpoint *checkpoint,
                                                const tn_graph *graph, tn_graph **model,
                                                tn_error *error);

#ifdef __cplusplus
}
#endif
#endif
