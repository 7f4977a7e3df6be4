/* objects.h - which buffers share one object: the other kind of answer beside offsets.
 *
 *     tn_object_record records[] = {{.size = {16}, .first = 0, .last = 2},
 *                                   {.size = {8}, .first = 1, .last = 3},
 *                                   {.size = {64}, .first = 2, .last = 4}};
 *     tn_objects objects;
 *     tn_error error;
 *     if (tn_objects_plan(records, 3, NULL, &objects, &error)) // verified, or not returned
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     printf("%u objects, %llu bytes\n", objects.object_count, (unsigned long long)objects.total);
 *     tn_objects_release(&objects); // 2 objects, 72 bytes
 *
 * An offset is of no use where memory is handed out in separate things: images and textures of a
 * GPU, handles of a driver, tensors of a framework that owns its buffers. There every buffer gets
 * an object, whole, and two buffers may have the same object when their lives do not meet.
 *
 * Sizes are numbers (bytes), vectors of 2 or 3 extents (an object must cover a buffer in every
 * one), or shapes of 4 (batch, height, width, channels: only equal shapes share).
 * Units: bytes, or elements where sizes are vectors; time in integer steps, half open [first,
 * last).
 * Threads: any number of calls at once.
 */
#ifndef TENURE_OBJECTS_H
#define TENURE_OBJECTS_H

#include <tenure/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tn_size_kind {
    TN_SIZE_BYTES,   /* size[0] */
    TN_SIZE_VECTOR2, /* size[0..1] */
    TN_SIZE_VECTOR3, /* size[0..2] */
    TN_SIZE_BHWC,    /* size[0..3] */
} tn_size_kind;

#define TN_SIZE_RANK_MAX 4

typedef struct tn_object_record {
    uint64_t size[TN_SIZE_RANK_MAX]; /* as the kind says; the product below 2^63 */
    int64_t first, last;             /* live in [first, last), first < last */
    uint64_t alignment;              /* power of two, for tn_objects_offsets; 0 = 1 */
} tn_object_record;

/* Lists of numbers: those of vertex v are target[begin[v]] ... target[begin[v + 1] - 1]. */
typedef struct tn_edges {
    uint32_t vertex_count;
    const uint32_t *begin;  /* [vertex_count + 1], rising, begin[0] == 0 */
    const uint32_t *target; /* [begin[vertex_count]], each below vertex_count */
} tn_edges;

/* Who has which object, and how good that is known to be. */
typedef struct tn_objects {
    uint32_t *object;                   /* [record_count], the object of each record */
    uint64_t (*size)[TN_SIZE_RANK_MAX]; /* [object_count] */
    uint32_t record_count, object_count;
    tn_size_kind kind;
    uint64_t total;       /* bytes (elements) of all objects */
    uint64_t lower_bound; /* the sum of the positional maximums: no assignment needs less */
    tn_verdict verdict;   /* OPTIMAL when total == lower_bound */
    const char *strategy; /* static string; who found it */
    uint64_t work;        /* units of work: deterministic */
    double seconds;       /* wall time */
} tn_objects;

typedef struct tn_objects_options {
    size_t struct_size; /* sizeof(tn_objects_options) */
    const tn_context *context;
    const char *strategy; /* NULL = "auto", the best of all */
    tn_size_kind kind;
    /* Two records may follow each other in an object only along an edge of this graph (its lists
     * sorted), as from tn_reallocation_graph. NULL: whenever their lives do not meet. */
    const tn_edges *reallocation;
    uint64_t work_limit; /* units of work; 0 = no limit; deterministic */
    double timeout_s;    /* wall clock; 0 = none */
} tn_objects_options;

#define TN_OBJECTS_OPTIONS_INIT                                                                    \
    TN_INIT(tn_objects_options, TN_SET(struct_size, sizeof(tn_objects_options)))

/* Finds an object for every record and proves the result.
 *
 * records   [count], in any order. Strategies see them by first step, ties in the given order
 * options   NULL for the defaults
 * objects   out; release with tn_objects_release. Untouched on failure
 *
 * Returned only after tn_objects_verify has accepted it.
 * Errors: E_UNKNOWN (strategy), E_UNSUPPORTED (the strategy is not defined for this kind of size,
 * or not with a reallocation graph), E_INVALID (empty life, sizes beyond 2^63 - 1 in sum, a graph
 * that is none), E_STOPPED (a limit, or more memory than the strategy allows itself),
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_objects_plan(const tn_object_record *records, uint32_t count,
                                            const tn_objects_options *options, tn_objects *objects,
                                            tn_error *error);
TN_API void tn_objects_release(tn_objects *objects); /* NULL and zeroed are fine */

/* Checks anybody's assignment: every record has an object that holds it, no two records of an
 * object live at one step, the total is the sum; `reallocation` may be NULL.
 * Errors: E_CONFLICT with the records and the object. Cost: O(n log n). */
TN_API TN_CHECKED tn_status tn_objects_verify(const tn_object_record *records, uint32_t count,
                                              const tn_edges *reallocation,
                                              const tn_objects *objects, tn_error *error);

/* Lays the objects end to end, in order of their numbers, each at the largest alignment of its
 * records. offsets [record_count]; `total` (may be NULL) receives where the last one ends.
 * Errors: E_UNSUPPORTED (sizes are no bytes), E_INVALID (beyond 2^63), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_objects_offsets(const tn_object_record *records,
                                               const tn_objects *objects, uint64_t *offsets,
                                               uint64_t *total, tn_error *error);

/* The bodies of a problem as records [tn_problem_count]: sizes as they are, lives from first to
 * last, gaps and windows in between taken as live (an object is handed out whole), alignments
 * along.
 *
 * reallocation   out; for problems with several streams: who comes before whom by the clocks of
 *                both, for tn_objects_options; release with tn_edges_release. Zeroed for one
 *                stream. NULL: problems with several streams are refused
 * Errors: E_UNSUPPORTED for pinned and tied bodies, several banks, and more than 8,192 bodies on
 * several streams; E_NO_MEMORY. Cost: O(n), with several streams O(n^2 streams). */
TN_API TN_CHECKED tn_status tn_problem_records(const tn_problem *problem, tn_object_record *records,
                                               tn_edges *reallocation, tn_error *error);

/* The k-th largest size (bytes; elements of vectors and shapes) that lives at any one step, for k =
 * 0, 1, ...: `maximums` has room for `count`, `found` says how many there are. No assignment needs
 * less than their sum.
 * Cost: O(n log n). Source: Pisarchyk and Lee 2020 (arXiv:2001.03288). */
TN_API TN_CHECKED tn_status tn_objects_maximums(const tn_object_record *records, uint32_t count,
                                                tn_size_kind kind, const tn_context *context,
                                                uint64_t *maximums, uint32_t *found,
                                                tn_error *error);
/* The records that live at `step`, larger sizes first, ties by number: `profile` has room for
 * `count`, `found` says how many there are. Cost: O(n + k log k). */
TN_API void tn_objects_profile(const tn_object_record *records, uint32_t count, tn_size_kind kind,
                               int64_t step, uint32_t *profile, uint32_t *found);

/* Who may take over whose memory whatever the order or the number of threads: x and y when all
 * that read x come before y is computed (or the reverse). `uses` leads from each vertex to those
 * that read it. Release with tn_edges_release. Cost: O(V E) time, O(V^2) bits. */
TN_API TN_CHECKED tn_status tn_reallocation_graph(const tn_edges *uses, const tn_context *context,
                                                  tn_edges *reallocation, tn_error *error);
TN_API void tn_edges_release(const tn_context *context, tn_edges *edges);

/* Reads records from a CSV whose `size` column holds vectors such as 2x8 and 1x16x16x3, all of one
 * rank; other columns as tn_problem_load: id, lower, upper (or end), alignment.
 * records   out, [count]; release with tn_object_records_release
 * names     out: the ids, released with the records
 * Errors: E_IO, E_INVALID with file:line; E_UNSUPPORTED when sizes are plain numbers: then it is a
 * problem, see tn_problem_load and tn_problem_records. */
TN_API TN_CHECKED tn_status tn_object_records_load(const char *path, const tn_context *context,
                                                   tn_object_record **records, char ***names,
                                                   uint32_t *count, tn_size_kind *kind,
                                                   tn_error *error);
/* The same from memory; `name` stands in messages. */
TN_API TN_CHECKED tn_status tn_object_records_load_memory(const char *name, const void *bytes,
                                                          size_t size, const tn_context *context,
                                                          tn_object_record **records, char ***names,
                                                          uint32_t *count, tn_size_kind *kind,
                                                          tn_error *error);
TN_API void tn_object_records_release(const tn_context *context, tn_object_record *records,
                                      char **names, uint32_t count);

/* Names and one-line summaries of the strategies, for lists and --help. */
TN_API uint32_t tn_object_strategy_count(void);
TN_API const char *tn_object_strategy_name(uint32_t index);
TN_API const char *tn_object_strategy_summary(uint32_t index);
TN_API const char *tn_object_strategy_source(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
