/* checkpoint.h - writes a training run to disk and reads it back; the file format is described in
 * tenure/train.h.
 *
 *   checkpoint.c   reads a file and finds its tensors; writes the state of a run, and restores it
 *                  into an engine
 *   keeping.c      lists the tensors of a checkpoint, and where a rank holds them
 *   shards.c       writes a checkpoint of several ranks together, and reads it as one
 */
#ifndef TN_TRAINER_CHECKPOINT_H
#define TN_TRAINER_CHECKPOINT_H

#include <tenure/engine.h>
#include <tenure/train.h>

#include "base/base.h"

#define TN__CHECKPOINT_VERSION 3u
#define TN__CHECKPOINT_LEAST 25u /* least bytes of a tensor: no name, extents or data */
#define TN__SHARD_LEAST 45u      /* the same for a piece of a tensor */
#define TN__SHARD_NAMED 21u      /* the same for a shard's entry */
#define TN__SHARD_MAGIC "TENURESH"
#define TN__SHARDS_MAGIC "TENURESS"

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
    const char **parameters; /* [parameter_count] names of the tensors with that role */
    uint32_t parameter_count;
    tn__file file;
    tn__file *shards; /* [shard_count] files, if several ranks wrote it */
    uint32_t shard_count;
};

/* checkpoint.c: reading. Every value in a file is checked before it is used. */
typedef struct tn__checkpoint_reader {
    const char *path;
    const uint8_t *start, *at;
    size_t left;
    tn_error *error;
} tn__checkpoint_reader;
tn_status tn__checkpoint_take(tn__checkpoint_reader *reader, size_t size, const uint8_t **bytes);
tn_status tn__checkpoint_copy(tn__checkpoint_reader *reader, void *to, size_t size);
tn_status tn__checkpoint_damaged(const tn__checkpoint_reader *reader);
/* Is it a regular file, which has an end? */
tn_status tn__checkpoint_is_file(const char *path, tn_error *error);
/* Checks magic, version and hash, and that `count` entries of at least `least` bytes may follow. */
tn_status tn__checkpoint_head_of(tn__checkpoint_reader *reader, const char *magic, uint64_t least,
                                 tn__checkpoint_head *head);
/* Reads the description of a tensor, without its data. */
tn_status tn__checkpoint_facts(tn__checkpoint_reader *reader, tn_kept *kept);
/* Room for `count` tensors; adds one of them. */
tn_status tn__checkpoint_room(tn_checkpoint *checkpoint, uint32_t count, tn_error *error);
void tn__checkpoint_add(tn_checkpoint *checkpoint, const tn_kept *kept);

/* shards.c. Does the file name others that make up the checkpoint? Reads it and them. */
bool tn__shards_are(const tn__file *file);
tn_status tn__shards_read(tn_checkpoint *checkpoint, const char *path, tn_error *error);

/* The hash of a whole file except the field of the hash. */
uint64_t tn__checkpoint_hash(const uint8_t *bytes, size_t size);
/* Writes the head, with the hash, in front of the other bytes, which must be complete. */
void tn__checkpoint_seal(uint8_t *bytes, size_t size, tn__checkpoint_head *head);
/* A tensor in a checkpoint. If ranks divide the tensor, this rank holds a range of it, and writes
 * the part of the range that it alone updates. Otherwise the range is the whole tensor. */
typedef struct tn__keep {
    const char *name;
    tn_role role;
    tn_dtype dtype;
    uint32_t rank;
    const int64_t *shape;
    uint64_t bytes;
    tn_tensor_id in;         /* the static tensor that holds the range; TN_NONE: none */
    uint64_t at;             /* offset in that tensor */
    uint64_t from, size;     /* the range in bytes of the tensor; size 0: not on this rank */
    uint64_t writes, length; /* the bytes it writes, within the range. If the tensor is cut, both
                              * count from the start of this rank's part */
    tn_tensor_id parameter;  /* the parameter that it is, or belongs to; TN_NONE */
    bool in_shard;           /* ranks divide the updates of it */
    bool apart;              /* and each rank holds only its own range */
    /* each pipeline stage holds some tensors whole; `size` 0: not this one */
    bool staged;
    uint32_t owner;            /* the first stage that holds this one */
    const tn_tensor_part *cut; /* NULL, or how this rank's part was cut from the tensor */
    uint32_t ranks, number;    /* number of parts, and which one this is */
    const tn_context *context; /* allocates temporary copies of parts */
} tn__keep;

/* The tensors of a training graph that a checkpoint contains, in the order of the file. */
typedef struct tn__keeping {
    const tn_context *context;
    tn__keep *list; /* [count] */
    uint32_t count;
    const tn_exchange *exchange; /* communication with other ranks; NULL: not available */
    uint32_t group;              /* group of the ranks with the other parts of cut tensors, */
    uint32_t part;               /* this rank's number in it */
    uint32_t stage_group;        /* group of the other stages of the pipeline, */
    uint32_t stage;              /* this rank's number in it */
    uint32_t data_group;         /* group of the ranks that divide this rank's part */
} tn__keeping;

/* keeping.c. Writes the description of a tensor, which precedes its data; returns the address after
 * it. */
uint8_t *tn__keep_put(uint8_t *at, const tn__keep *keep);
/* Lists the tensors of a training step; memory is from the arena. */
tn_status tn__keeping_make(const tn_training *training, const tn_context *context, tn__arena *arena,
                           tn__keeping *keeping, tn_error *error);
/* For a pipeline: marks the tensors that this stage holds. */
void tn__keeping_stage(tn__keeping *keeping, const tn_stages *stages, uint32_t count,
                       uint32_t stage);
/* Copies this rank's range of the tensor from or to `whole` [bytes of the tensor]. */
tn_status tn__keep_get(const tn__keep *keep, tn_engine *engine, void *whole, tn_error *error);
tn_status tn__keep_set(const tn__keep *keep, tn_engine *engine, const void *whole, tn_error *error);

/* parts.c. For a cut tensor: copies this rank's part into its place in `whole`, or out of it. */
tn_status tn__keep_get_part(const tn__keep *keep, tn_engine *engine, void *whole, tn_error *error);
tn_status tn__keep_set_part(const tn__keep *keep, tn_engine *engine, const void *whole,
                            tn_error *error);
/* Collects the whole tensor, from all its parts or from another stage. All ranks that hold any of
 * it must call this; `whole` may be NULL on ranks that do not need it. For other tensors as
 * tn__keep_get. */
tn_status tn__keep_gather(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                          void *whole, tn_error *error);
/* Takes part in the calls above for every tensor, while another rank writes a checkpoint. */
tn_status tn__keeping_lend(const tn__keeping *keeping, tn_engine *engine, tn_error *error);

/* Writes to a temporary file and renames it: `path` is the old checkpoint or the whole new one.
 * bytes: out, size of the file. Errors: E_INVALID (a parameter is not finite: nothing is written),
 * E_IO, E_NO_MEMORY. */
tn_status tn__checkpoint_save(const char *path, tn_engine *engine, const tn__keeping *keeping,
                              const tn_checkpoint_run *run, uint64_t *bytes, tn_error *error);
/* odd: the first parameter or statistic that is not finite; NULL: none. */
tn_status tn__checkpoint_is_odd(const char *odd, const char *path, const tn_checkpoint_run *run,
                                tn_error *error);
/* Can the run continue from it? run: settings that must be the same, except the step.
 * Errors: E_INVALID (of another model, of a run with other settings). */
tn_status tn__checkpoint_suits(const tn_checkpoint *checkpoint, const tn__keeping *keeping,
                               const tn_checkpoint_run *run, tn_error *error);
/* Copies into an engine's static memory the tensors that this rank holds. */
tn_status tn__checkpoint_restore(const tn_checkpoint *checkpoint, tn_engine *engine,
                                 const tn__keeping *keeping, tn_error *error);

/* --- a checkpoint that several ranks write together ------------------------------------------- */

/* One shard's entry in the index file, as it stands after the shard's name. */
typedef struct tn__shard_entry {
    uint64_t bytes, hash;
} tn__shard_entry;
/* Writes shards next to `path`. tn__shards_begin chooses the generation, one above
 * all that exist there, and takes the file mode of `path`; one rank decides for all. Then each rank
 * writes its shard. Last, one rank writes the index with the entries of all, which replaces `path`
 * at once; the shards of the old index are deleted. */
typedef struct tn__shard_job {
    const char *path;
    struct tn__shard_turn {
        uint64_t generation;
        uint64_t mode; /* file mode; 0: no file existed at `path` */
    } turn;
    uint32_t part, parts;
} tn__shard_job;
tn_status tn__shards_begin(tn__shard_job *job, const tn_context *context, tn_error *error);
tn_status tn__shards_write(const tn__shard_job *job, tn_engine *engine, const tn__keeping *keeping,
                           const tn_checkpoint_run *run, tn__shard_entry *entry, tn_error *error);
/* Errors: E_IO (a shard is missing in the folder of `path` or differs from the one written: `path`
 * is unchanged). */
tn_status tn__shards_name_all(const tn__shard_job *job, const tn__shard_entry *entries,
                              const tn_context *context, const tn_checkpoint_run *run,
                              tn_error *error);
/* Deletes the shard files of `path`, except one generation; 0: all. */
void tn__shards_sweep(const char *path, const tn_context *context, uint64_t but);

#endif
