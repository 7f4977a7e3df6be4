/* shards.h - a checkpoint that several ranks write together; who reads one: shards.c. */
#ifndef TN_TRAINER_SHARDS_H
#define TN_TRAINER_SHARDS_H

#include "trainer/checkpoint.h"

/* A shard's place in a checkpoint that several ranks write; as they stand in the file behind its
 * name. */
typedef struct tn__shard_entry {
    uint64_t bytes, hash;
} tn__shard_entry;
/* shards_write.c. Beside `path`, of which generation: one above all that are there, and with the
 * mode of the file at `path`, but where one rank decides for all. Each writes its own; then, with
 * the entries of all, one of them the file that names them, which takes the place of `path` at
 * once; what it had named goes. */
typedef struct tn__shard_job {
    const char *path;
    struct tn__shard_turn {
        uint64_t generation;
        uint64_t mode; /* of its files; 0: there was none at `path` */
    } turn;
    uint32_t part, parts;
} tn__shard_job;
tn_status tn__shards_begin(tn__shard_job *job, const tn_context *context, tn_error *error);
tn_status tn__shards_write(const tn__shard_job *job, tn_engine *engine, const tn__keeping *keeping,
                           const tn_checkpoint_run *run, tn__shard_entry *entry, tn_error *error);
/* Errors: E_IO (a part is not in the folder of `path` as its rank has written it: `path` stays). */
tn_status tn__shards_name_all(const tn__shard_job *job, const tn__shard_entry *entries,
                              const tn_context *context, const tn_checkpoint_run *run,
                              tn_error *error);
/* Files of shards of `path` but those of one generation; 0: all. */
void tn__shards_sweep(const char *path, const tn_context *context, uint64_t but);

#endif
