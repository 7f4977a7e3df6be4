/* checkpoint.h - how a run comes to disk and back; the file is described in tenure/checkpoint.h.
 *
 *   checkpoint.c        reads a file, and finds what is in it
 *   checkpoint_run.c    writes that of a run, and puts it back into an engine
 */
#ifndef TN_TRAINER_CHECKPOINT_H
#define TN_TRAINER_CHECKPOINT_H

#include <tenure/checkpoint.h>
#include <tenure/engine.h>

#include "base/base.h"

#define TN__CHECKPOINT_VERSION 3u
#define TN__CHECKPOINT_LEAST 25u /* bytes of a tensor without name, extents and contents */

typedef struct tn__checkpoint_head {
    char magic[8];
    uint32_t version, count;
    tn_checkpoint_run run;
    uint64_t hash;
} tn__checkpoint_head;

struct tn_checkpoint {
    tn_context context;
    tn__arena arena;
    const char *path;
    tn_checkpoint_run run;
    tn_kept *kept;
    uint32_t count;
    const char **parameters; /* [parameter_count] names of that role */
    uint32_t parameter_count;
    tn__file file;
};

/* Of a whole file, but for where the hash itself stands. */
uint64_t tn__checkpoint_hash(const uint8_t *bytes, size_t size);
/* Whether that is this tensor: name, type and shape. */
bool tn__kept_is(const tn_kept *kept, const tn_tensor *tensor);

/* What of a training graph is kept, in the order of the file. */
typedef struct tn__keeping {
    const tn_context *context;
    const tn_graph *graph;
    const tn_tensor_id *ids; /* [count] static tensors */
    const tn_role *roles;    /* [count] */
    uint32_t count;
} tn__keeping;

/* Writes beside and renames: the file is the old checkpoint or the whole new one. bytes: out, of
 * the file. Errors: E_INVALID (a parameter holds what is no number: nothing is written), E_IO,
 * E_NO_MEMORY. */
tn_status tn__checkpoint_save(const char *path, tn_engine *engine, const tn__keeping *keeping,
                              const tn_checkpoint_run *run, uint64_t *bytes, tn_error *error);
/* Into an engine's static memory. run: what must be the same, but for the step.
 * Errors: E_INVALID (of another model, of a run with other settings). */
tn_status tn__checkpoint_restore(const tn_checkpoint *checkpoint, tn_engine *engine,
                                 const tn__keeping *keeping, const tn_checkpoint_run *run,
                                 tn_error *error);

#endif
