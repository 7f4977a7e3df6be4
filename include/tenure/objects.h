/* objects.h - assigns buffers to shared objects: memory planning without offsets.
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
 * Offsets do not help where memory is handed out in separate objects: images and textures of a GPU,
 * driver handles, tensors of a framework that owns its buffers. There every buffer gets one whole
 * object, and two buffers may share an object if their live ranges do not overlap.
 *
 * Sizes are bytes, vectors of 2 or 3 extents (an object must cover a buffer in every extent), or
 * shapes of 4 (batch, height, width, channels: only equal shapes share).
 * Units: bytes, or elements for vectors and shapes; time in integer steps, half open [first, last).
 * Threads: any number of calls at once.
 */
#ifndef TENURE_OBJECTS_H
#define TENURE_OBJECTS_H

#ifndef TENURE_EXPERIMENTAL
#error "tenure/objects.h may change in every release: define TENURE_EXPERIMENTAL to use it"
#endif

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
    /* the size; its meaning depends on the kind; the product of the extents is below 2^63 */
    uint64_t size[TN_SIZE_RANK_MAX];
    int64_t first, last; /* live range [first, last), first < last */
    uint64_t alignment;  /* alignment, a power of two, for tn_objects_offsets; 0: 1 */
} tn_object_record;

/* Adjacency lists of a graph: the neighbours of vertex v are target[begin[v]] ... target[begin[v +
 * 1] - 1]. */
typedef struct tn_edges {
    uint32_t vertex_count;
    /* [vertex_count + 1] where the neighbours of each vertex begin in `target`; begin[0] is 0, and
     * the numbers never fall */
    const uint32_t *begin;
    /* [begin[vertex_count]] the neighbours, each a number below vertex_count */
    const uint32_t *target;
} tn_edges;

/* An assignment of records to objects, and how close to optimal the assignment is known to be. */
typedef struct tn_objects {
    uint32_t *object;                   /* [record_count] the object of each record */
    uint64_t (*size)[TN_SIZE_RANK_MAX]; /* [object_count] the size of each object */
    uint32_t record_count, object_count;
    tn_size_kind kind;
    /* sum of the sizes of all objects: bytes, or elements for kinds with several extents */
    uint64_t total;
    uint64_t lower_bound; /* sum of the positional maximums: no assignment needs less */
    tn_verdict verdict;   /* OPTIMAL if total == lower_bound */
    const char *strategy; /* name of the strategy that found the assignment; a static string */
    uint64_t work;        /* effort in units of work; deterministic */
    double seconds;       /* wall time of the search */
} tn_objects;

typedef struct tn_objects_options {
    size_t struct_size; /* sizeof(tn_objects_options) */
    const tn_context *context;
    const char *strategy; /* name of the strategy; NULL: "auto", the best of all */
    tn_size_kind kind;
    /* Two records may use an object one after the other only along an edge of this graph (sorted
     * lists), as from tn_reallocation_graph. NULL: two records may share an object if their live
     * ranges do not overlap. */
    const tn_edges *reallocation;
    uint64_t work_limit; /* limit in units of work; 0: no limit; deterministic */
    double timeout_s;    /* limit of the wall time; 0: no limit */
} tn_objects_options;

#define TN_OBJECTS_OPTIONS_INIT                                                                    \
    TN_INIT(tn_objects_options, TN_SET(struct_size, sizeof(tn_objects_options)))

/* Finds an object for every record. The result is returned only after tn_objects_verify accepted
 * it.
 *
 * records   [count], in any order. Strategies see them by first step, ties in the given order
 * options   NULL for the defaults
 * objects   out; release with tn_objects_release. Unchanged on failure
 *
 * Errors: E_UNKNOWN (strategy), E_UNSUPPORTED (the strategy does not support this kind of size, or
 * a reallocation graph), E_INVALID (an empty live range, a sum of sizes above 2^63 - 1, a malformed
 * graph), E_STOPPED (a limit, or the strategy's own memory limit), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_objects_plan(const tn_object_record *records, uint32_t count,
                                            const tn_objects_options *options, tn_objects *objects,
                                            tn_error *error);
/* Releases an assignment; NULL or a zeroed one has no effect. */
TN_API void tn_objects_release(tn_objects *objects);

/* Checks an assignment from any source: every record has an object that is large enough for it, no
 * two records of an object are live at one step, and the total is the sum of the sizes of the
 * objects. `reallocation` may be NULL. Errors: E_CONFLICT; the message names the records and the
 * object. Cost: O(n log n). */
TN_API TN_CHECKED tn_status tn_objects_verify(const tn_object_record *records, uint32_t count,
                                              const tn_edges *reallocation,
                                              const tn_objects *objects, tn_error *error);

/* Places the objects end to end in the order of their numbers, each at the largest alignment of its
 * records. offsets [record_count]; `total` (may be NULL) receives the end of the last object.
 * Errors: E_UNSUPPORTED (sizes are not bytes), E_INVALID (the last object would end above 2^63 - 1
 * bytes), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_objects_offsets(const tn_object_record *records,
                                               const tn_objects *objects, uint64_t *offsets,
                                               uint64_t *total, tn_error *error);

/* Converts the bodies of a problem to records [tn_problem_count], with their sizes and alignments.
 * Each live range extends from first to last; gaps and windows count as live, since an object is
 * handed out whole.
 *
 * reallocation   out; for problems with several streams: the pairs of bodies that the clocks order,
 *                for tn_objects_options; release with tn_edges_release. Zeroed for one stream.
 *                NULL: problems with several streams are rejected
 *
 * Errors: E_UNSUPPORTED (pinned or tied bodies, separations, reserved ranges, several banks, or
 * more than 8,192 bodies on several streams), E_NO_MEMORY. Cost: O(n), with several streams O(n^2
 * streams). */
TN_API TN_CHECKED tn_status tn_problem_records(const tn_problem *problem, tn_object_record *records,
                                               tn_edges *reallocation, tn_error *error);

/* Computes the positional maximums: maximum k is the largest over all steps of the k-th largest
 * live size (bytes; elements for vectors and shapes), for k = 0, 1, ... `maximums` has space for
 * `count` of them; `found` receives the number of all. No assignment needs less than their sum.
 * Cost: O(n log n). Source: Pisarchyk and Lee 2020 (arXiv:2001.03288). */
TN_API TN_CHECKED tn_status tn_objects_maximums(const tn_object_record *records, uint32_t count,
                                                tn_size_kind kind, const tn_context *context,
                                                uint64_t *maximums, uint32_t *found,
                                                tn_error *error);
/* Lists the records that are live at `step`, larger sizes first, ties by number. `profile` has
 * space for `count` records; `found` receives the number of all. Cost: O(n + k log k) for k live
 * records. */
TN_API void tn_objects_profile(const tn_object_record *records, uint32_t count, tn_size_kind kind,
                               int64_t step, uint32_t *profile, uint32_t *found);

/* Computes which tensors can share memory for every order of execution and number of threads: x and
 * y have an edge if all readers of x precede the definition of y, or the reverse. `uses` has an
 * edge from each vertex to its readers. Release with tn_edges_release. Cost: O(V E) time, O(V^2)
 * bits. */
TN_API TN_CHECKED tn_status tn_reallocation_graph(const tn_edges *uses, const tn_context *context,
                                                  tn_edges *reallocation, tn_error *error);
TN_API void tn_edges_release(const tn_context *context, tn_edges *edges);

/* Reads records from a CSV with vectors such as 2x8 or 1x16x16x3 in its `size` column, all of one
 * rank. The other columns are those of tn_problem_load: id, lower, upper (or end), alignment.
 *
 * records   out, [count]; release with tn_object_records_release
 * names     out: the ids, released with the records
 *
 * Errors: E_IO, E_INVALID with file:line, E_UNSUPPORTED (sizes are plain numbers; use
 * tn_problem_load and tn_problem_records). */
TN_API TN_CHECKED tn_status tn_object_records_load(const char *path, const tn_context *context,
                                                   tn_object_record **records, char ***names,
                                                   uint32_t *count, tn_size_kind *kind,
                                                   tn_error *error);
/* Reads records of a CSV from memory; otherwise like tn_object_records_load. `name` appears in
 * messages. */
TN_API TN_CHECKED tn_status tn_object_records_load_memory(const char *name, const void *bytes,
                                                          size_t size, const tn_context *context,
                                                          tn_object_record **records, char ***names,
                                                          uint32_t *count, tn_size_kind *kind,
                                                          tn_error *error);
TN_API void tn_object_records_release(const tn_context *context, tn_object_record *records,
                                      char **names, uint32_t count);

/* Names, one-line summaries and sources of the strategies, for lists and --help. */
TN_API uint32_t tn_object_strategy_count(void);
TN_API const char *tn_object_strategy_name(uint32_t index);
TN_API const char *tn_object_strategy_summary(uint32_t index);
TN_API const char *tn_object_strategy_source(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
