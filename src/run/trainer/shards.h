/* shards.h - writing of a checkpoint by several ranks together; shards.c reads it. */
#ifndef TN_TRAINER_SHARDS_H
#define TN_TRAINER_SHARDS_H

#include "run/trainer/checkpoint.h"

/* One shard's entry in the index file, as it stands after the shard's name. */
typedef struct tn__shard_entry {
    uint64_t bytes, hash;
} tn__shard_entry;
/* shards_write.c. Writes shards next to `path`. tn__shards_begin chooses the generation, one above
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
