/* checkpoint.h - writes a training run to disk and reads it back; the file format is described in
 * tenure/train.h.
 *
 *   checkpoint.c   reads a checkpoint file and finds its tensors; writes the state of a run, and
 *                  restores it into an engine
 *   keeping.c      lists the tensors of a checkpoint, and where a rank holds them
 *   shards.c       writes a checkpoint of several ranks to several files, and reads them as one
 *                  checkpoint
 */
#ifndef TN_TRAINER_CHECKPOINT_H
#define TN_TRAINER_CHECKPOINT_H

#include <tenure/engine.h>
#include <tenure/train.h>

#include "base/base.h"

#define TN__CHECKPOINT_VERSION 4u
/* the oldest version that is read: without the settings after `output` of tn_checkpoint_run */
#define TN__CHECKPOINT_OLDEST 3u
#define TN__CHECKPOINT_RUN_OLDEST 56u /* bytes of tn_checkpoint_run in a file of that version */
/* smallest size of a tensor in a checkpoint file, in bytes: without name, extents and data */
#define TN__CHECKPOINT_LEAST 25u
#define TN__SHARD_LEAST 45u /* smallest size of a piece of a tensor in a shard file, in bytes */
#define TN__SHARD_NAMED 21u /* smallest size of an entry for one shard in an index file, in bytes */
#define TN__SHARD_MAGIC "TENURESH"
#define TN__SHARDS_MAGIC "TENURESS"

/* The head of a file. A file of version 3 ends it after the hash, so the hash is at the same offset
 * in both versions. */
typedef struct tn__checkpoint_head {
    char magic[8];
    uint32_t version, count;
    uint8_t run[TN__CHECKPOINT_RUN_OLDEST]; /* the first bytes of a tn_checkpoint_run */
    uint64_t hash;
    uint8_t more[sizeof(tn_checkpoint_run) - TN__CHECKPOINT_RUN_OLDEST]; /* all other bytes of it */
} tn__checkpoint_head;

struct tn_checkpoint {
    tn_context context;
    tn__arena arena;
    const char *path;
    uint32_t version; /* version of the file's format */
    tn_checkpoint_run run;
    tn_kept *kept;
    uint32_t count;
    /* array of `parameter_count` names: all tensors in `kept` with role TN_ROLE_PARAMETER */
    const char **parameters;
    uint32_t parameter_count;
    tn__file file;
    tn__file *shards; /* array of `shard_count` files, if several ranks wrote the checkpoint */
    uint32_t shard_count;
};

/* Reading a checkpoint file (checkpoint.c). Every value in the file is checked before it is
 * used. */
typedef struct tn__checkpoint_reader {
    const char *path;
    const uint8_t *start, *at;
    size_t left;
    tn_error *error;
} tn__checkpoint_reader;
tn_status tn__checkpoint_take(tn__checkpoint_reader *reader, size_t size, const uint8_t **bytes);
tn_status tn__checkpoint_copy(tn__checkpoint_reader *reader, void *to, size_t size);
tn_status tn__checkpoint_damaged(const tn__checkpoint_reader *reader);
/* Fails if the path exists and is not a regular file, because a device may have no end. */
tn_status tn__checkpoint_is_file(const char *path, tn_error *error);
/* Makes the head of a file with an 8-byte magic. Its hash is set by tn__checkpoint_seal. */
tn__checkpoint_head tn__checkpoint_head_make(const char *magic, uint32_t count,
                                             const tn_checkpoint_run *run);
/* Returns the settings in a head. Those that a file of an older version lacks are 0. */
tn_checkpoint_run tn__checkpoint_run_of(const tn__checkpoint_head *head);
/* Reads the head of a file, and checks its magic, version and hash, and that the file is long
 * enough for as many entries as the head states, of at least `least` bytes each. */
tn_status tn__checkpoint_head_of(tn__checkpoint_reader *reader, const char *magic, uint64_t least,
                                 tn__checkpoint_head *head);
/* Reads the description of a tensor, which precedes the data of the tensor. */
tn_status tn__checkpoint_facts(tn__checkpoint_reader *reader, tn_kept *kept);
/* tn__checkpoint_room allocates memory for `count` tensors; the function after it adds one
 * tensor. */
tn_status tn__checkpoint_room(tn_checkpoint *checkpoint, uint32_t count, tn_error *error);
void tn__checkpoint_add(tn_checkpoint *checkpoint, const tn_kept *kept);

/* The index file of a checkpoint that several ranks wrote (shards.c). The first function returns
 * whether `file` is an index, which names the shard files that make up the checkpoint. The second
 * reads the index and the shard files. */
bool tn__shards_are(const tn__file *file);
tn_status tn__shards_read(tn_checkpoint *checkpoint, const char *path, tn_error *error);

/* Returns the hash of all bytes of a file except the field in which the hash is stored. */
uint64_t tn__checkpoint_hash(const uint8_t *bytes, size_t size);
/* Computes the hash of a file and writes the head, with this hash, to its beginning. All other
 * bytes of the file must be complete. */
void tn__checkpoint_seal(uint8_t *bytes, size_t size, tn__checkpoint_head *head);
/* A tensor in a checkpoint. If ranks divide the updates of the tensor, this rank holds a range of
 * it in a shard, and writes to a checkpoint only those bytes of the range that it alone updates.
 * Otherwise the range is the whole tensor. */
typedef struct tn__keep {
    const char *name;
    tn_role role;
    tn_dtype dtype;
    uint32_t rank;
    const int64_t *shape;
    uint64_t bytes;
    /* the static tensor of this rank that holds the range; TN_NONE: no tensor does */
    tn_tensor_id in;
    uint64_t at; /* where the range begins in the static tensor `in`, in bytes */
    /* section of the tensor that this rank has: `size` bytes from byte `from` on; size 0: none */
    uint64_t from, size;
    /* the bytes that this rank writes to a checkpoint: `length` bytes from byte `writes`, within
     * the range. In a shard of a tensor-parallel model, `from` and `writes` count from the start of
     * this rank's part of the tensor */
    uint64_t writes, length;
    /* the id of the parameter that this tensor is; if the tensor is optimizer state in a shard, the
     * id of the parameter to which it belongs; otherwise TN_NONE */
    tn_tensor_id parameter;
    bool in_shard; /* true: the tensor is in a shard: ranks divide its updates */
    bool apart;    /* true: the tensor is in a shard of which each rank holds only its own part */
    /* true: the model is divided into pipeline stages, and a tensor is only in some of them; `size`
     * is 0 if it is not in this stage */
    bool staged;
    uint32_t owner; /* number of the first pipeline stage that holds the tensor */
    /* how a tensor-parallel model divides the tensor; NULL: it does not */
    const tn_tensor_part *cut;
    /* `ranks`: number of tensor-parallel parts of the tensor; `number`: index of this rank's
     * part */
    uint32_t ranks, number;
    const tn_context *context; /* allocates temporary copies of parts of the tensor */
    /* the contents, if the trainer holds them in host memory and no engine does; else NULL */
    uint8_t *held;
} tn__keep;

/* The tensors of a training graph that a checkpoint contains, in the order of the checkpoint
 * file. The list has room for one more tensor for each parameter. */
typedef struct tn__keeping {
    const tn_context *context;
    tn__keep *list; /* [count] */
    uint32_t count;
    const tn_exchange *exchange; /* communication with other ranks; NULL: not available */
    /* group of the ranks that hold the other tensor-parallel parts of the same tensors */
    uint32_t group;
    uint32_t part;        /* number of this rank in `group` */
    uint32_t stage_group; /* group of the ranks that run the other pipeline stages */
    uint32_t stage;       /* number of this rank in `stage_group` */
    /* group of the ranks that train the same part of the model, and may divide its updates */
    uint32_t data_group;
} tn__keeping;

/* Writes the description of a tensor, which precedes its data in a checkpoint file, to `at`.
 * Returns the address after it (keeping.c). */
uint8_t *tn__keep_put(uint8_t *at, const tn__keep *keep);
/* Lists the tensors of a training step that a checkpoint contains. The list is allocated in the
 * arena. */
tn_status tn__keeping_make(const tn_training *training, const tn_context *context, tn__arena *arena,
                           tn__keeping *keeping, tn_error *error);
/* For a pipelined model of `count` stages: marks the tensors that the stage `stage` holds. */
void tn__keeping_stage(tn__keeping *keeping, const tn_stages *stages, uint32_t count,
                       uint32_t stage);
/* Copies the range of the tensor that this rank holds to its place in `whole` (get), or from there
 * (set). `whole` has room for all bytes of the tensor. */
tn_status tn__keep_get(const tn__keep *keep, tn_engine *engine, void *whole, tn_error *error);
tn_status tn__keep_set(const tn__keep *keep, tn_engine *engine, const void *whole, tn_error *error);

/* For a tensor that a tensor-parallel model divides: copies this rank's part to its place in
 * `whole` (get), or from there (set). These functions are in assemble.c. */
tn_status tn__keep_get_part(const tn__keep *keep, tn_engine *engine, void *whole, tn_error *error);
tn_status tn__keep_set_part(const tn__keep *keep, tn_engine *engine, const void *whole,
                            tn_error *error);
/* Collects the whole tensor in `whole`, from all its parts or from another pipeline stage. All
 * ranks that hold any of the tensor must call this; `whole` may be NULL on ranks that do not need
 * the tensor. For a tensor that ranks do not divide, the same as tn__keep_get. */
tn_status tn__keep_gather(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                          void *whole, tn_error *error);
/* Calls tn__keep_gather for every tensor, with NULL for `whole`, while another rank collects the
 * tensors to write a checkpoint. */
tn_status tn__keeping_lend(const tn__keeping *keeping, tn_engine *engine, tn_error *error);

/* Writes a checkpoint to a temporary file and renames it, so at any time `path` is the whole old
 * checkpoint or the whole new one. *bytes: set to the size of the file. Errors: E_INVALID (a
 * parameter is not finite: nothing is written), E_IO, E_NO_MEMORY. */
tn_status tn__checkpoint_save(const char *path, tn_engine *engine, const tn__keeping *keeping,
                              const tn_checkpoint_run *run, uint64_t *bytes, tn_error *error);
/* Fails if a checkpoint must not be written, because a tensor has an element that is not finite.
 * odd: name of the first such parameter or statistic; NULL: all are finite. */
tn_status tn__checkpoint_is_odd(const char *odd, const char *path, const tn_checkpoint_run *run,
                                tn_error *error);
/* Fails if the training run cannot continue from the checkpoint. run: the settings of the run,
 * which must be the same as in the checkpoint, except for the step. Errors: E_INVALID (the
 * checkpoint is of another model, or of a run with other settings). */
tn_status tn__checkpoint_suits(const tn_checkpoint *checkpoint, const tn__keeping *keeping,
                               const tn_checkpoint_run *run, tn_error *error);
/* Copies the contents of a checkpoint to the static memory of an engine, for those tensors that
 * this rank holds. */
tn_status tn__checkpoint_restore(const tn_checkpoint *checkpoint, tn_engine *engine,
                                 const tn__keeping *keeping, tn_error *error);

/* --- a checkpoint that several ranks write together ------------------------------------------- */

/* The entry of one shard in the index file, which follows the name of the shard. */
typedef struct tn__shard_entry {
    uint64_t bytes, hash;
} tn__shard_entry;
/* Writing a checkpoint of several files: the shards lie in the folder of `path`, and `path` is the
 * index that names them. tn__shards_begin chooses a generation, one more than the highest that
 * exists in the folder, and notes the file mode of `path`; one rank does this for all. Then each
 * rank writes its shard (tn__shards_write). Last, one rank writes the index with the entries of all
 * shards (tn__shards_name_all). The index replaces `path` by one rename, and then the shards of the
 * old index are deleted. */
typedef struct tn__shard_job {
    const char *path;
    struct tn__shard_turn {
        uint64_t generation;
        uint64_t mode; /* file mode of `path`; 0: no such file existed */
    } turn;
    uint32_t part, parts;
} tn__shard_job;
tn_status tn__shards_begin(tn__shard_job *job, const tn_context *context, tn_error *error);
tn_status tn__shards_write(const tn__shard_job *job, tn_engine *engine, const tn__keeping *keeping,
                           const tn_checkpoint_run *run, tn__shard_entry *entry, tn_error *error);
/* Writes the index file. Errors: E_IO (a shard is missing in the folder of `path`, or has another
 * size than the one written; `path` is unchanged then). */
tn_status tn__shards_name_all(const tn__shard_job *job, const tn__shard_entry *entries,
                              const tn_context *context, const tn_checkpoint_run *run,
                              tn_error *error);
/* Deletes the shard files of `path`, except those of generation `but`; 0: deletes all. */
void tn__shards_sweep(const char *path, const tn_context *context, uint64_t but);

#endif
