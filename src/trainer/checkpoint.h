/* checkpoint.h - how a run comes to disk and back; the file is described in tenure/checkpoint.h.
 *
 *   checkpoint.c        reads a file, and finds what is in it
 *   checkpoint_run.c    writes that of a run, and puts it back into an engine
 *   keeping.c           what is kept, and where a rank has it
 *   shards.c            one that ranks have written together, each its part, read as one
 *   shards_write.c      such a one written
 */
#ifndef TN_TRAINER_CHECKPOINT_H
#define TN_TRAINER_CHECKPOINT_H

#include <tenure/checkpoint.h>
#include <tenure/engine.h>
#include <tenure/train.h>

#include "base/base.h"

#define TN__CHECKPOINT_VERSION 3u
#define TN__CHECKPOINT_LEAST 25u /* bytes of a tensor without name, extents and contents */
#define TN__SHARD_LEAST 45u      /* the same of a stretch of one */
#define TN__SHARD_NAMED 21u      /* of a shard without its name */
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
    const char **parameters; /* [parameter_count] names of that role */
    uint32_t parameter_count;
    tn__file file;
    tn__file *shards; /* [shard_count] of one that several ranks have written */
    uint32_t shard_count;
};

/* checkpoint.c: reading. Nothing in a file is believed before it is looked at. */
typedef struct tn__checkpoint_reader {
    const char *path;
    const uint8_t *start, *at;
    size_t left;
    tn_error *error;
} tn__checkpoint_reader;
tn_status tn__checkpoint_take(tn__checkpoint_reader *reader, size_t size, const uint8_t **bytes);
tn_status tn__checkpoint_copy(tn__checkpoint_reader *reader, void *to, size_t size);
tn_status tn__checkpoint_damaged(const tn__checkpoint_reader *reader);
/* That it has an end. */
tn_status tn__checkpoint_is_file(const char *path, tn_error *error);
/* Magic, version, hash, and that `count` of so many bytes at least may follow. */
tn_status tn__checkpoint_head_of(tn__checkpoint_reader *reader, const char *magic, uint64_t least,
                                 tn__checkpoint_head *head);
/* What is told of a tensor, without its contents. */
tn_status tn__checkpoint_facts(tn__checkpoint_reader *reader, tn_kept *kept);
/* Room for so many tensors, and one more of them. */
tn_status tn__checkpoint_room(tn_checkpoint *checkpoint, uint32_t count, tn_error *error);
void tn__checkpoint_add(tn_checkpoint *checkpoint, const tn_kept *kept);

/* shards.c. Whether a file tells where others are that make up a checkpoint; reads it and them. */
bool tn__shards_are(const tn__file *file);
tn_status tn__shards_read(tn_checkpoint *checkpoint, const char *path, tn_error *error);

/* Of a whole file, but for where the hash itself stands. */
uint64_t tn__checkpoint_hash(const uint8_t *bytes, size_t size);
/* Puts the head in front of a file whose other bytes are there, with the hash of all. */
void tn__checkpoint_seal(uint8_t *bytes, size_t size, tn__checkpoint_head *head);
/* A tensor that is kept. Of one that several ranks share out, this one has a stretch, and writes
 * what it alone updates; they are all of it where nothing is shared out. */
typedef struct tn__keep {
    const char *name;
    tn_role role;
    tn_dtype dtype;
    uint32_t rank;
    const int64_t *shape;
    uint64_t bytes;
    tn_tensor_id in;         /* the static tensor that holds the stretch; TN_NONE: there is none */
    uint64_t at;             /* where in that */
    uint64_t from, size;     /* the stretch; size 0: there is none here */
    uint64_t writes, length; /* what of the tensor it writes, within the stretch; of one that is
                              * cut, both are of this rank's part of it */
    tn_tensor_id parameter;  /* that it is, or belongs to; TN_NONE */
    bool in_shard;           /* ranks share out who updates it */
    bool apart;              /* and each has a stretch alone */
    bool staged;             /* stages of a pipeline have some of all, whole: `size` 0 elsewhere; */
    uint32_t owner;          /* the first that has this one */
    const tn_tensor_part *cut; /* NULL, or what of the tensor this rank of several has instead; */
    uint32_t ranks, number;    /* how many there are, and which it is */
    const tn_context *context; /* for the room of that */
} tn__keep;

/* What of a training graph is kept, in the order of the file. */
typedef struct tn__keeping {
    const tn_context *context;
    tn__keep *list; /* [count] */
    uint32_t count;
    const tn_exchange *exchange; /* with other ranks; NULL: there is no way to them */
    uint32_t group;              /* of those that have the other parts of what is cut, */
    uint32_t part;               /* of which this is one; */
    uint32_t stage_group;        /* of those of the other stages of a pipeline, */
    uint32_t stage;              /* of which this is one; */
    uint32_t data_group;         /* of those that share out this rank's part */
} tn__keeping;

/* Whether that is this tensor: name, type and shape. */
bool tn__kept_is(const tn_kept *kept, const tn__keep *keep);

/* keeping.c. What a file tells of a tensor before its contents; returns behind it. */
uint8_t *tn__keep_put(uint8_t *at, const tn__keep *keep);
/* Of a step; in the arena. */
tn_status tn__keeping_make(const tn_training *training, const tn_context *context, tn__arena *arena,
                           tn__keeping *keeping, tn_error *error);
/* Of a pipeline: what this stage has. */
void tn__keeping_stage(tn__keeping *keeping, const tn_stages *stages, uint32_t count,
                       uint32_t stage);
/* The stretch of it that is here, from or to [bytes of the tensor]. */
tn_status tn__keep_get(const tn__keep *keep, tn_engine *engine, void *whole, tn_error *error);
tn_status tn__keep_set(const tn__keep *keep, tn_engine *engine, const void *whole, tn_error *error);

/* parts.c. Of a cut tensor: the part of this rank, into its place in the whole or out of it; */
tn_status tn__keep_get_part(const tn__keep *keep, tn_engine *engine, void *whole, tn_error *error);
tn_status tn__keep_set_part(const tn__keep *keep, tn_engine *engine, const void *whole,
                            tn_error *error);
/* all of it, or what another stage has, which all ranks that have anything of it have to ask for;
 * `whole` may be NULL. Of others as tn__keep_get. */
tn_status tn__keep_gather(const tn__keeping *keeping, const tn__keep *keep, tn_engine *engine,
                          void *whole, tn_error *error);
/* For the rank that writes a checkpoint: what this one has of it. */
tn_status tn__keeping_lend(const tn__keeping *keeping, tn_engine *engine, tn_error *error);

/* Writes beside and renames: the file is the old checkpoint or the whole new one. bytes: out, of
 * the file. Errors: E_INVALID (a parameter holds what is no number: nothing is written), E_IO,
 * E_NO_MEMORY. */
tn_status tn__checkpoint_save(const char *path, tn_engine *engine, const tn__keeping *keeping,
                              const tn_checkpoint_run *run, uint64_t *bytes, tn_error *error);
/* odd: the first parameter or statistic that holds what is no number; NULL: none does. */
tn_status tn__checkpoint_is_odd(const char *odd, const char *path, const tn_checkpoint_run *run,
                                tn_error *error);
/* Whether it can be gone on from. run: what must be the same, but for the step.
 * Errors: E_INVALID (of another model, of a run with other settings). */
tn_status tn__checkpoint_suits(const tn_checkpoint *checkpoint, const tn__keeping *keeping,
                               const tn_checkpoint_run *run, tn_error *error);
/* Into an engine's static memory, as far as it is there. */
tn_status tn__checkpoint_restore(const tn_checkpoint *checkpoint, tn_engine *engine,
                                 const tn__keeping *keeping, tn_error *error);

#endif
