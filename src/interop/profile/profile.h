/* profile.h - bytes by the place that allocated them, as other tools sum them up: the device memory
 * profile of JAX, and the node memory statistics of ONNX Runtime.
 *
 * Such a file has no live ranges. It lists who holds memory at one moment (JAX) or the most memory
 * of each node over all runs (ONNX Runtime), so there is nothing to plan.
 */
#ifndef TN_INTEROP_PROFILE_H
#define TN_INTEROP_PROFILE_H

#include "base/base.h"

#define TN__PROFILE_SAMPLES_MAX 10000000u
#define TN__PROFILE_FRAMES_MAX 1024u /* limit of the frames of one stack */

typedef struct tn__profile_frame {
    const char *function, *file; /* names of function and file; "" if unknown */
    int64_t line;
} tn__profile_frame;

/* One allocation site with its bytes. */
typedef struct tn__profile_sample {
    uint64_t bytes, count;
    uint32_t kind, device;       /* kind of memory and device, as indices in `words` */
    uint32_t first, frame_count; /* section of `frames` with its stack, innermost frame first */
} tn__profile_sample;

typedef struct tn__profile {
    tn_context context;
    tn__arena texts;
    const char *tool; /* static */
    tn__profile_sample *samples;
    uint32_t *frames; /* the stacks of all samples, as indices in `places` */
    tn__profile_frame *places;
    const char **words; /* names of kinds and devices; words[0] is "" */
    uint32_t sample_count, frame_count, place_count, word_count;
    size_t sample_room, frame_room, place_room, word_room;
    uint64_t bytes, blocks; /* sums of bytes and of blocks over all samples */
} tn__profile;

typedef enum tn__profile_by {
    TN__PROFILE_BY_LINE, /* groups by the innermost frame outside of JAX itself */
    TN__PROFILE_BY_KIND,
    TN__PROFILE_BY_DEVICE,
} tn__profile_by;

typedef struct tn__profile_group {
    const char *name;
    uint64_t bytes, count;
    uint32_t sample; /* index of the largest sample of the group */
} tn__profile_group;

/* Whether a file can be a pprof profile, from its name or from the first field of its unpacked
 * bytes. */
bool tn__pprof_recognises(const char *name, const void *bytes, size_t size);
/* Reads an unpacked profile.
 *
 * Errors: E_INVALID with the byte (truncated, an index that does not exist, a negative size);
 * E_UNSUPPORTED (its samples are no bytes of memory, as those of a CPU profile; too many of
 * something); E_NO_MEMORY. Cost: O(size + frames of all samples). */
tn_status tn__pprof_read(const char *name, const void *bytes, size_t size,
                         const tn_context *context, tn__profile **profile, tn_error *error);
void tn__profile_destroy(tn__profile *profile); /* destroys a profile; NULL is accepted */

/* Sums the samples by `by`, and sorts the groups by bytes, the largest first. Allocates
 * groups[*count]; release it with tn__free(&profile->context, groups, (*count + 1) * sizeof
 * *groups). The names of the groups belong to the profile or to `names`. */
tn_status tn__profile_groups(const tn__profile *profile, tn__profile_by by, tn__arena *names,
                             tn__profile_group **groups, uint32_t *count, tn_error *error);
/* Appends a frame to `text`, for example "train.py:12 loss". */
void tn__profile_place(const tn__profile_frame *frame, tn__text *text);
/* Returns the index, in a sample's stack, of the innermost frame outside of JAX; 0 if all frames
 * are in JAX. */
uint32_t tn__profile_outside(const tn__profile *profile, const tn__profile_sample *sample);

/* --- node_stats.c: ONNX Runtime ------------------------------------------------------------- */

/* The most bytes that a node had over all runs, by what they hold. */
typedef struct tn__node_stats_row {
    const char *name;
    uint64_t inputs, initializers, outputs, scratch;
} tn__node_stats_row;
typedef struct tn__node_stats {
    tn_context context;
    tn__arena texts;
    tn__node_stats_row *rows; /* sorted by outputs + scratch, the largest first */
    size_t count, room;
} tn__node_stats;

/* Whether a file begins with the heading that ONNX Runtime writes. */
bool tn__node_stats_recognises(const void *bytes, size_t size);
/* Reads the text of session.collect_node_memory_stats_to_file.
 *
 * Errors: E_INVALID with the line; E_UNSUPPORTED (more than 10^7 nodes); E_NO_MEMORY. */
tn_status tn__node_stats_read(const char *name, const void *bytes, size_t size,
                              const tn_context *context, tn__node_stats **stats, tn_error *error);
void tn__node_stats_destroy(tn__node_stats *stats); /* destroys the statistics; NULL is accepted */

#endif
