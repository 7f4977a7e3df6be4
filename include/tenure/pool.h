/* pool.h - memory handed out while a program runs, when nobody knows the lives ahead.
 *
 *     tn_pool_options options = TN_POOL_OPTIONS_INIT;
 *     tn_pool *pool;
 *     tn_allocation a, b;
 *     tn_pool_usage usage;
 *     tn_error error;
 *     options.pool = "best-fit";
 *     options.capacity = 1 << 20; // bytes of the range that is divided
 *     if (tn_pool_create(&options, &pool, &error) ||
 *         tn_pool_alloc(pool, &(tn_pool_request){.size = 1000}, &a, &error) ||
 *         tn_pool_alloc(pool, &(tn_pool_request){.size = 50}, &b, &error) ||
 *         tn_pool_free(pool, a.id, &error))
 *         return fprintf(stderr, "%s\n", error.message), tn_status_exit_code(error.status);
 *     tn_pool_measure(pool, &usage);
 *     printf("%llu bytes reserved for %llu\n", (unsigned long long)usage.reserved,
 *            (unsigned long long)usage.requested); // 1088 bytes reserved for 50
 *     tn_pool_destroy(pool);
 *
 * A pool divides the range [0, capacity) of any memory: it deals in offsets and never touches a
 * byte. Three numbers are kept apart: *requested*, what callers asked for; *allocated*, what they
 * got, rounded up; *reserved*, what the pool holds of the range, be it handed out or not. What
 * "reserved" means is the technique's: the segments taken (bfc, caching), or the bytes up to the
 * last block in use (best-fit, buddy, from both ends two-ended; planned: the height of the plan).
 *
 * Streams: `caching` and `iteration` keep blocks of different streams apart. With any other
 * technique a block may be handed to another stream as soon as it is freed; the caller orders the
 * work. (tn_pool_options.settle: when their caches are emptied.)
 *
 * Units: bytes.
 * Ownership: a pool copies what it is given.
 * Threads: any number of threads may use one pool at once; each call holds its lock. Creating and
 * destroying is for one thread.
 */
#ifndef TENURE_POOL_H
#define TENURE_POOL_H

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TN_POOL_CAPACITY_MAX (1ull << 62) /* also what capacity 0 means: without end */

typedef struct tn_pool tn_pool;

typedef struct tn_pool_options {
    size_t struct_size;        /* sizeof(tn_pool_options) */
    const tn_context *context; /* NULL or outlives the pool */
    const char *pool;          /* technique; NULL = "best-fit" */
    uint64_t capacity;         /* bytes, at most TN_POOL_CAPACITY_MAX; 0 = that */
    /* of every block: a power of two, at most 2^30; 0 = 64. bfc has at least 256, caching 512.
     * Blocks are rounded up to it. Not used by `planned` */
    uint64_t alignment;
    /* `planned` alone: request number i asks for sizes[i] bytes and gets offsets[i]. After the last
     * one the plan begins anew. Copied. Sizes of 0 take no memory and are skipped. */
    const uint64_t *sizes, *offsets; /* [planned_count] */
    uint32_t planned_count;
    /* Called before bytes that were used on one stream may go to another, when a cache is emptied
     * (caching, iteration): to return when the streams have done what was queued. It runs with the
     * pool's lock held, and must not call the pool. NULL: nothing to wait for */
    void (*settle)(void *self);
    void *settle_self;
    /* Bytes of the range that are not reserved any more: their memory may go back to the system
     * until they are handed out again (iteration, which then gives back what lies free before it
     * reserves more than has ever been in use at once, and a little). Offset and size are multiples
     * of the alignment. It runs with the pool's lock held, and must not call the pool. NULL: memory
     * stays where it is */
    void (*release)(void *self, uint64_t offset, uint64_t size);
    void *release_self;
    /* The owner has memory only where blocks are, so that bytes of the range cost nothing by
     * themselves: `iteration` then puts a plan above all that is in use where one that goes around
     * it would be higher than what was needed, and the one above is not. Reserved is then no
     * measure of memory */
    bool is_sparse;
} tn_pool_options;

#define TN_POOL_OPTIONS_INIT TN_INIT(tn_pool_options, TN_SET(struct_size, sizeof(tn_pool_options)))

enum {                               /* tn_pool_request.flags */
       TN_POOL_LONG_LIVED = 1u << 0, /* outlives most: parameters, outputs (two-ended) */
};

/* What is asked for. Zero means the default in every field. */
typedef struct tn_pool_request {
    uint64_t size;      /* bytes; 0 is allowed and takes no memory */
    uint64_t alignment; /* power of two, at most 2^30; above the pool's it counts, below not */
    uint32_t stream;    /* who uses the block (caching) */
    uint32_t flags;     /* TN_POOL_* */
    uint32_t tag;       /* who holds it: of tn_pool_tag; 0 = nobody in particular */
} tn_pool_request;

typedef struct tn_allocation {
    uint64_t id;     /* for tn_pool_free; never given twice in 2^32 uses of its place */
    uint64_t offset; /* from the start of the range */
    uint64_t size;   /* bytes of the block: at least what was asked for */
} tn_allocation;

/* Errors: E_UNKNOWN (technique), E_INVALID (capacity, alignment; a plan that is missing, or given
 * to another technique), E_EXHAUSTED (the plan is higher than the capacity), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_pool_create(const tn_pool_options *options, tn_pool **pool,
                                           tn_error *error);
TN_API void tn_pool_destroy(tn_pool *pool); /* NULL is fine; blocks need not be freed before */

/* Gets a block. What was given before never moves.
 *
 * Errors: E_EXHAUSTED (no room; the message says what is free and who holds the most, and
 * tn_pool_holders with TN_HOLDERS_FAILED tells all), E_CONFLICT (planned: not what the plan has
 * here, or the bytes are still held), E_INVALID (alignment, tag), E_NO_MEMORY (of the host). On
 * failure nothing has changed but the count of failures, and that caching may have emptied its
 * cache.
 * Cost: O(log n) for n blocks; bfc, caching: O(log n) and the segments released. */
TN_API TN_CHECKED tn_status tn_pool_alloc(tn_pool *pool, const tn_pool_request *request,
                                          tn_allocation *allocation, tn_error *error);
/* Errors: E_INVALID (not the id of a block in use: freed before, or never given). */
TN_API TN_CHECKED tn_status tn_pool_free(tn_pool *pool, uint64_t id, tn_error *error);
/* Gives segments without a block in use back to the range (caching, iteration; others: nothing to
 * do). `iteration` forgets its plan, and learns anew. Returns the bytes that are no longer
 * reserved.
 */
TN_API uint64_t tn_pool_empty_cache(tn_pool *pool);

/* --- how much ------------------------------------------------------------------------- */

typedef struct tn_pool_usage {
    uint64_t capacity; /* bytes that can be used: rounded down to the alignment */
    uint64_t requested, allocated, reserved; /* now; requested <= allocated <= reserved */
    uint64_t requested_peak, allocated_peak; /* each its own highest, since the last reset */
    uint64_t reserved_peak;
    uint64_t largest_free; /* the largest free block, or unreserved stretch of the range */
    uint64_t block_count;  /* in use */
    uint64_t alloc_count, free_count, failed_count; /* calls, since creation */
    double internal_fragmentation; /* 1 - requested / allocated: lost in rounding; 0 when empty */
    double external_fragmentation; /* 1 - allocated / reserved: held, not handed out */
} tn_pool_usage;

/* Cost: O(n), for the largest free block. */
TN_API void tn_pool_measure(tn_pool *pool, tn_pool_usage *usage);
TN_API void tn_pool_reset_peaks(tn_pool *pool); /* peaks := what is now; the holders too */

/* What `iteration` has learned; zeros of any other. */
typedef struct tn_pool_lesson {
    uint64_t period; /* requests in an iteration of the plan in force; 0: there is none */
    uint64_t height; /* bytes that this plan takes, with what it goes around or lies above */
    uint64_t plans;  /* made so far */
    uint64_t served; /* allocations that got the place that the plan has for them */
    uint64_t
        surprises; /* while a plan was in force: those that it did not have, or could not place */
} tn_pool_lesson;
TN_API void tn_pool_learned(tn_pool *pool, tn_pool_lesson *lesson);

/* --- who holds it --------------------------------------------------------------------- */

typedef struct tn_pool_label { /* any may be NULL */
    const char *name;          /* "conv1/output" */
    const char *kind;          /* "weight", "activation", ... */
    const char *op;            /* the operator that asks */
} tn_pool_label;

/* A number for tn_pool_request.tag. The same label may have several. Errors: E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_pool_tag(tn_pool *pool, const tn_pool_label *label, uint32_t *tag,
                                        tn_error *error);

typedef enum tn_holders_when {
    TN_HOLDERS_NOW,
    TN_HOLDERS_PEAK,   /* when `allocated` was highest, first time, since the last reset */
    TN_HOLDERS_FAILED, /* when an allocation failed with E_EXHAUSTED, last time */
} tn_holders_when;

typedef struct tn_holder {
    tn_pool_label label;           /* "" for NULL; live as long as the pool */
    uint64_t requested, allocated; /* bytes */
    uint64_t birth;                /* the number of its allocation, from 1 */
    uint32_t stream;
} tn_holder;

/* Fills holders[room] with the largest (by allocated; then the oldest first) and returns how many
 * there are in all. Cost: O(n log room). */
TN_API uint32_t tn_pool_holders(tn_pool *pool, tn_holders_when when, tn_holder *holders,
                                uint32_t room);

/* --- recorded runs ---------------------------------------------------------------------- */

/* What a program asked for, in order. Read from CSV: ours, or the log of RMM (docs/formats.md). */
typedef struct tn_pool_trace tn_pool_trace;

typedef struct tn_pool_event {
    uint64_t size, alignment; /* bytes, as in tn_pool_request; of a free: 0 */
    uint32_t block;           /* the allocation that it is, or that it frees: 0, 1, 2, ... */
    uint32_t stream, flags;   /* as in tn_pool_request; of a free: where the use of it ends */
    uint32_t label;           /* for tn_pool_trace_label; 0: none */
    bool frees;
} tn_pool_event;

/* Reads a trace. Errors: E_IO, E_INVALID (with the line: a column is missing, a number is none, an
 * id is allocated twice or freed without being in use), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_pool_trace_load(const char *path, const tn_context *context,
                                               tn_pool_trace **trace, tn_error *error);
/* The same from memory; `name` is for messages. */
TN_API TN_CHECKED tn_status tn_pool_trace_load_memory(const char *name, const void *bytes,
                                                      size_t size, const tn_context *context,
                                                      tn_pool_trace **trace, tn_error *error);
/* The same from events that somebody has: blocks are numbered from 0 as they are allocated;
 * labels[0] is that of none. Copied but for the words, which must live as long as the trace.
 * Errors: E_INVALID (with the event: a block out of turn, or freed without being in use; a label, a
 * size or an alignment that cannot be), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_pool_trace_create(const tn_pool_event *events, uint64_t count,
                                                 const tn_pool_label *labels, uint32_t label_count,
                                                 const tn_context *context, tn_pool_trace **trace,
                                                 tn_error *error);
TN_API void tn_pool_trace_destroy(tn_pool_trace *trace); /* NULL is fine */
/* The events; they live as long as the trace. */
TN_API const tn_pool_event *tn_pool_trace_events(const tn_pool_trace *trace, uint64_t *count);
TN_API uint32_t tn_pool_trace_block_count(const tn_pool_trace *trace);
TN_API const tn_pool_label *tn_pool_trace_label(const tn_pool_trace *trace, uint32_t label);
/* Rows of an RMM log that say nothing of the memory in use: allocations that failed or were of 0
 * bytes, and frees of what was allocated before the log began. */
TN_API uint64_t tn_pool_trace_skipped(const tn_pool_trace *trace);

/* Does with the pool what the program did; blocks that it never freed stay in use.
 *
 * reserved  [events], or NULL: receives the bytes reserved after each event that was done
 *
 * Errors: those of tn_pool_alloc, with the event in error->where; the pool is then as it was before
 * that event. */
TN_API TN_CHECKED tn_status tn_pool_replay(tn_pool *pool, const tn_pool_trace *trace,
                                           uint64_t *reserved, tn_error *error);

/* Names and one-line summaries of the techniques, for lists and --help. */
TN_API uint32_t tn_pool_count(void);
TN_API const char *tn_pool_name(uint32_t index);
TN_API const char *tn_pool_summary(uint32_t index);
TN_API const char *tn_pool_source(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
