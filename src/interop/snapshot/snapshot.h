/* snapshot.h - a snapshot after it was read (tables, and their words), and the functions that the
 * files of this folder share. */
#ifndef TN_SNAPSHOT_SNAPSHOT_H
#define TN_SNAPSHOT_SNAPSHOT_H

#include <tenure/snapshot.h>

#include "base/base.h"
#include "interop/snapshot/stacks.h"

typedef struct tn__trace_range { /* range of the events of one device */
    uint64_t first, count;
} tn__trace_range;

struct tn_snapshot {
    tn_context context;
    tn_snapshot_event *events;
    size_t event_count, event_room;
    tn_snapshot_segment *segments;
    uint32_t segment_count;
    tn_snapshot_block *blocks;
    uint32_t block_count;
    tn__trace_range *devices;
    uint32_t device_count;
    const char **device_names; /* [device_count] "cuda:0"; NULL: the devices have only numbers */
    tn__stacks stacks;         /* frames and stacks; frames contain indices in `words` */
    const char **words;        /* [word_count], function and file names of frames */
    size_t word_count;
    uint64_t *streams;
    size_t stream_count, stream_room;
    const char **categories; /* names of the categories; category 0 is "" */
    size_t category_count;
    tn__arena arena; /* memory of words, categories, segments, blocks and devices */
};

/* Facts inferred from a stack. */
typedef struct tn__stack_facts {
    uint32_t line, module; /* the line and the module of the stack, as numbers of group names */
    uint8_t place;         /* part of a training step, a PLACE_* of infer.c */
} tn__stack_facts;

struct tn_snapshot_lives {
    const tn_snapshot *snapshot;
    tn_context context;
    uint32_t device;
    tn_snapshot_life *lives;
    size_t life_count, life_room;
    uint64_t reserved_first; /* bytes of segments that existed before recording began */
    tn_snapshot_facts facts;
    tn__stack_facts *stacks; /* [stacks of the snapshot] the facts of each stack */
    const char **names;      /* names of groups, all different */
    size_t name_count, name_room;
    tn__arena arena; /* memory of the facts of stacks and of names */
};

/* Infers lines, modules and places of all stacks (infer.c). Cost: O(frames of all stacks). */
tn_status tn__snapshot_infer_stacks(tn_snapshot_lives *lives, tn_error *error);
/* Infers the category of a block from the stacks that allocated and freed it, and from the
 * times. */
tn_snapshot_guess tn__snapshot_infer_category(const tn_snapshot_lives *lives,
                                              const tn_snapshot_life *life);

/* Checks that segments match their numbers, and that requests to the device are possible
 * (validate.c). `reserved`: bytes that the events took from the device less the bytes they
 * returned. */
tn_status tn__snapshot_validate(tn_snapshot_lives *lives, int64_t reserved, tn_error *error);
/* Counts an inconsistency, and stores the message of the first one. */
void tn__snapshot_wrong(tn_snapshot_lives *lives, uint64_t *count, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* kineto.c: whether a text can be a trace of PyTorch's profiler; its memory events as a snapshot,
 * which was created empty. Errors: E_INVALID with the byte, E_UNSUPPORTED, E_NO_MEMORY. */
bool tn__kineto_is(const void *bytes, size_t size);
tn_status tn__kineto_read(const void *bytes, size_t size, tn_snapshot *snapshot, tn_error *error);
/* Returns the name of a device in a profiler's trace; NULL for a snapshot, in which devices have
 * only numbers. */
const char *tn__snapshot_device_name(const tn_snapshot *snapshot, uint32_t device);

/* gzip.c */
bool tn__gzip_is(const void *bytes, size_t size);

/* Unpacks all members of a gzip file. `*made` [*made_room] belongs to the caller: tn__free(context,
 * *made, *made_room). Errors: E_INVALID with the byte (truncated, damaged, wrong checksum, too many
 * unpacked bytes), E_NO_MEMORY. On failure nothing is allocated. Cost: O(size + unpacked bytes);
 * more than GZIP_FREE + GZIP_RATIO * size bytes (gzip.c) are refused. */
tn_status tn__gzip_read(const tn_context *context, const void *bytes, size_t size, uint8_t **made,
                        size_t *made_size, size_t *made_room, tn_error *error);

/* Does the work of tn_snapshot_write, but writes into a text (write.c). */
tn_status tn__snapshot_render(const tn_snapshot_use *uses, uint64_t count, uint64_t arena,
                              tn__text *text, tn_error *error);

#endif
