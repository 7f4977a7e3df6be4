/* pool.h - allocators for memory that a running program requests block by block.
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
 * A pool divides the range [0, capacity) of any memory. It works with offsets and never touches the
 * memory. It counts three numbers: *requested*, the bytes that callers asked for; *allocated*, the
 * bytes that they got, rounded up; *reserved*, the bytes of the range that the pool has taken,
 * whether handed out or not. The meaning of "reserved" depends on the technique: for example, the
 * segments taken (bfc, caching), the bytes up to the last block in use (best-fit, buddy; two-ended:
 * from both ends), or the height of the plan (planned).
 *
 * Streams: `caching` and `iteration` keep the blocks of different streams apart; before bytes go to
 * another stream they call tn_pool_options.settle. Every other technique may hand a block to
 * another stream as soon as it is freed; the caller then orders the work.
 *
 * Units: bytes.
 * Ownership: a pool copies its inputs.
 * Threads: any number of threads may use one pool at once; each call holds the pool's lock. One
 * thread creates and destroys it.
 */
#ifndef TENURE_POOL_H
#define TENURE_POOL_H

#include <tenure/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* largest capacity; capacity 0 means this value, too: unlimited */
#define TN_POOL_CAPACITY_MAX (1ull << 62)
#define TN_POOL_ROUNDUP_SIZES 16 /* number of size ranges in roundup_by_size: 1 MiB to 32 GiB */

typedef struct tn_pool tn_pool;

typedef struct tn_pool_options {
    size_t struct_size;        /* sizeof(tn_pool_options) */
    const tn_context *context; /* services of the caller; NULL: defaults; must outlive the pool */
    const char *pool;          /* name of the technique; NULL: "best-fit" */
    /* capacity in bytes, at most TN_POOL_CAPACITY_MAX; 0: TN_POOL_CAPACITY_MAX */
    uint64_t capacity;
    /* alignment of every block: a power of two, at most 2^30; 0: 64. It is at least 256 for bfc and
     * 512 for caching. Block sizes are rounded up to a multiple of it. Ignored by `planned` */
    uint64_t alignment;
    /* only for `planned`: request i must be for sizes[i] bytes and gets offsets[i]. After the last
     * request the plan starts again. Both arrays are copied. Entries of size 0 are skipped. */
    const uint64_t *sizes, *offsets; /* [planned_count] each */
    uint32_t planned_count;
    /* Called before bytes used on one stream may go to another stream: when a cache is emptied
     * (caching, iteration), and when `iteration` starts or discards a plan, releases memory, or
     * takes an older block into its plan. The callback must return only when the streams have
     * finished the work queued so far. The pool's lock is held: the callback must not call the
     * pool. NULL: nothing has to be waited for */
    void (*settle)(void *self);
    void *settle_self;
    /* Called for bytes of the range that are no longer reserved: the owner may return their memory
     * to the system until the bytes are handed out again (iteration). With this callback,
     * `iteration` releases free bytes before the reserved bytes grow much beyond the most that was
     * ever in use at once. Offset and size are multiples of the alignment. The pool's lock is held:
     * the callback must not call the pool. NULL: memory is never returned */
    void (*release)(void *self, uint64_t offset, uint64_t size);
    void *release_self;
    /* If true, the owner provides memory only for blocks in use, so unused bytes of the range cost
     * nothing. `iteration` then places a plan above all blocks in use if a plan around them would
     * exceed the bytes that may be reserved. `reserved` then does not measure memory */
    bool is_sparse;
    /* settings of the technique `caching`; NULL: PyTorch's defaults */
    const struct tn_pool_caching *caching;
} tn_pool_options;

/* Settings of the pool `caching`, as in PYTORCH_CUDA_ALLOC_CONF of PyTorch. Zero is the default. */
typedef struct tn_pool_caching {
    size_t struct_size;
    /* expandable_segments of PyTorch: a segment for each stream and kind of request, which grows by
     * pages of 2 MiB (requests up to 1 MiB) or 20 MiB. Only mapped pages are reserved. When memory
     * runs out, free pages are unmapped. Each segment takes 9/8 of `limit` of the range, which
     * therefore needs a capacity of at least 16 times `limit`, or an unlimited one */
    bool expandable;
    /* max_split_size_mb of PyTorch, in bytes: blocks of at least this size are not cut, and only
     * serve requests of at least this size that leave less than 20 MiB of them unused. Above 20
     * MiB, as PyTorch requires; 0: no limit */
    uint64_t max_split_size;
    /* roundup_power2_divisions of PyTorch: a size is rounded up to one of this many equal steps
     * between two powers of two. A power of two; 0 or 1: sizes are rounded up to the next multiple
     * of 512 */
    uint32_t roundup_power2_divisions;
    /* garbage_collection_threshold of PyTorch, between 0 and 1: when more than this share of
     * `limit` is reserved and a new segment is needed, free segments for large requests are
     * returned, at first those that were unused for at least the average time; 0: no segment is
     * returned in this way */
    double garbage_collection_threshold;
    /* limit of the bytes to reserve, as set by torch.cuda.set_per_process_memory_fraction; 0: the
     * capacity */
    uint64_t limit;
    /* roundup_power2_divisions of PyTorch as a list: element i is for sizes of 2^i MiB to below
     * 2^(i+1) MiB, the first one also for smaller and the last one also for larger sizes. Only read
     * if roundup_power2_divisions is 0 */
    uint32_t roundup_by_size[TN_POOL_ROUNDUP_SIZES];
} tn_pool_caching;
#define TN_POOL_CACHING_INIT TN_INIT(tn_pool_caching, TN_SET(struct_size, sizeof(tn_pool_caching)))

#define TN_POOL_OPTIONS_INIT TN_INIT(tn_pool_options, TN_SET(struct_size, sizeof(tn_pool_options)))

enum {                               /* flags of a request (tn_pool_request.flags) */
       TN_POOL_LONG_LIVED = 1u << 0, /* the block is a parameter or an output (two-ended) */
};

/* A request for a block. In every field 0 means the default. */
typedef struct tn_pool_request {
    uint64_t size; /* size in bytes; 0 is allowed and takes no memory */
    /* alignment, a power of two, at most 2^30; ignored if it is below that of the pool */
    uint64_t alignment;
    uint32_t stream;   /* the stream that uses the block (caching, iteration) */
    uint32_t flags;    /* flags of the request: bits TN_POOL_* */
    uint32_t tag;      /* label of the holder, from tn_pool_tag; 0: unnamed */
    uint64_t spare[2]; /* reserved for later fields: 0 (status.h) */
} tn_pool_request;

typedef struct tn_allocation {
    /* id of the block, for tn_pool_free; not used again before 2^32 uses of its table entry */
    uint64_t id;
    uint64_t offset; /* offset of the block from the start of the range */
    uint64_t size;   /* bytes of the block, at least the requested size */
} tn_allocation;

/* Creates a pool. Errors: E_UNKNOWN (technique), E_INVALID (capacity, alignment, no plan for
 * `planned`, a plan for another technique), E_EXHAUSTED (the plan is higher than the capacity),
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_pool_create(const tn_pool_options *options, tn_pool **pool,
                                           tn_error *error);
/* Destroys a pool; NULL has no effect. Blocks need not be freed before. */
TN_API void tn_pool_destroy(tn_pool *pool);

/* Allocates a block. Blocks in use never move.
 *
 * Errors: E_EXHAUSTED (no room; the message gives the free bytes and the largest holder, and
 * tn_pool_holders with TN_HOLDERS_FAILED lists all holders), E_CONFLICT (planned: the request
 * differs from the plan, or its bytes are still in use), E_INVALID (alignment, tag), E_NO_MEMORY
 * (of the host). A failed call changes nothing but the count of failures; caching may have emptied
 * its cache.
 * Cost: O(log n) for n blocks; bfc and caching: plus the segments released. */
TN_API TN_CHECKED tn_status tn_pool_alloc(tn_pool *pool, const tn_pool_request *request,
                                          tn_allocation *allocation, tn_error *error);
/* Frees a block. Errors: E_INVALID (`id` names no block in use: freed or never allocated). */
TN_API TN_CHECKED tn_status tn_pool_free(tn_pool *pool, uint64_t id, tn_error *error);
/* Releases segments without a block in use (caching, iteration; no effect on other techniques).
 * `iteration` also discards its plan and learns a new one. Returns the bytes that are no longer
 * reserved. */
TN_API uint64_t tn_pool_empty_cache(tn_pool *pool);

/* --- usage ---------------------------------------------------------------------------- */

typedef struct tn_pool_usage {
    uint64_t capacity; /* bytes that can be used: the capacity, rounded down to the alignment */
    /* bytes at present; requested <= allocated <= reserved */
    uint64_t requested, allocated, reserved;
    /* peak of each number since the pool was created; the peaks may be at different times */
    uint64_t requested_peak, allocated_peak;
    uint64_t reserved_peak;
    /* bytes of the largest free block, or of the largest unreserved section of the range */
    uint64_t largest_free;
    uint64_t block_count;                           /* number of blocks in use */
    uint64_t alloc_count, free_count, failed_count; /* number of calls since the pool was created */
    /* 1 - requested / allocated: the share that is lost to rounding; 0 if the pool is empty */
    double internal_fragmentation;
    /* 1 - allocated / reserved: the share that is reserved but not handed out */
    double external_fragmentation;
    uint64_t spare[4]; /* reserved for later fields: 0 (status.h) */
} tn_pool_usage;

/* Measures the present usage of a pool. Cost: O(n) for n blocks, because of the largest free
 * block. */
TN_API void tn_pool_measure(tn_pool *pool, tn_pool_usage *usage);

/* The plan that a pool with the technique `iteration` has learned, and how it was used; all members
 * are 0 for other techniques. */
typedef struct tn_pool_lesson {
    uint64_t period; /* number of requests per iteration of the present plan; 0: no plan */
    /* bytes of the present plan, including the blocks in use around or above which it was placed */
    uint64_t height;
    uint64_t plans;  /* number of plans made so far */
    uint64_t served; /* number of allocations that got their place in the plan */
    uint64_t
        surprises; /* allocations that were not in the plan in force, or did not fit there then */
    uint64_t spare[4]; /* reserved for later fields: 0 (status.h) */
} tn_pool_lesson;
TN_API void tn_pool_learned(tn_pool *pool, tn_pool_lesson *lesson);

/* --- holders -------------------------------------------------------------------------- */

typedef struct tn_pool_label { /* A label of requests; any string may be NULL. */
    const char *name;          /* "conv1/output" */
    const char *kind;          /* kind of the memory: "weight", "activation", ... */
    const char *op;            /* the operator that allocates the memory */
} tn_pool_label;

/* Registers a label and returns its number for tn_pool_request.tag. Labels may repeat. Errors:
 * E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_pool_tag(tn_pool *pool, const tn_pool_label *label, uint32_t *tag,
                                        tn_error *error);

typedef enum tn_holders_when {
    TN_HOLDERS_NOW,
    TN_HOLDERS_PEAK,   /* the time when `allocated` first reached its peak */
    TN_HOLDERS_FAILED, /* the time of the last allocation that failed with E_EXHAUSTED */
} tn_holders_when;

typedef struct tn_holder {
    tn_pool_label label; /* label of the holder, with "" for NULL; valid as long as the pool */
    uint64_t requested, allocated; /* bytes */
    uint64_t birth;                /* number of the holder's allocation, from 1 */
    uint32_t stream;
    uint64_t spare[2]; /* reserved for later fields: 0 (status.h) */
} tn_holder;

/* Lists the holders of memory. Fills holders[room] with the largest (by allocated bytes, then the
 * oldest first) and returns the number of all. Cost: O(n log room). */
TN_API uint32_t tn_pool_holders(tn_pool *pool, tn_holders_when when, tn_holder *holders,
                                uint32_t room);

/* --- recorded runs ---------------------------------------------------------------------- */

/* The requests of a program, in order. Read from Tenure's CSV or from a log of RMM
 * (docs/formats.md). */
typedef struct tn_pool_trace tn_pool_trace;

typedef struct tn_pool_event {
    uint64_t size, alignment; /* size and alignment in bytes, as in tn_pool_request; 0 for a free */
    uint32_t block;           /* number of the allocation that is made or freed: 0, 1, 2, ... */
    /* stream and flags as in tn_pool_request; for a free: the stream of the last use */
    uint32_t stream, flags;
    uint32_t label; /* number of the label, for tn_pool_trace_label; 0: no label */
    bool frees;
} tn_pool_event;

/* Reads a trace. Errors: E_IO, E_INVALID (the message names the line: a missing column, a bad
 * number, an id allocated twice, a free of a block not in use), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_pool_trace_load(const char *path, const tn_context *context,
                                               tn_pool_trace **trace, tn_error *error);
/* Reads a trace from memory; otherwise like tn_pool_trace_load. `name` appears in messages. */
TN_API TN_CHECKED tn_status tn_pool_trace_load_memory(const char *name, const void *bytes,
                                                      size_t size, const tn_context *context,
                                                      tn_pool_trace **trace, tn_error *error);
/* Makes a trace of given events. Blocks are numbered from 0 in the order of allocation; labels[0]
 * is the empty label. Everything is copied except the strings, which must outlive the trace.
 * Errors: E_INVALID (the message names the event: a block out of order, a free of a block not in
 * use, a bad label, size or alignment), E_NO_MEMORY. */
TN_API TN_CHECKED tn_status tn_pool_trace_create(const tn_pool_event *events, uint64_t count,
                                                 const tn_pool_label *labels, uint32_t label_count,
                                                 const tn_context *context, tn_pool_trace **trace,
                                                 tn_error *error);
TN_API void tn_pool_trace_destroy(tn_pool_trace *trace); /* Destroys a trace; NULL has no effect. */
/* Returns the events of a trace; valid as long as the trace. */
TN_API const tn_pool_event *tn_pool_trace_events(const tn_pool_trace *trace, uint64_t *count);
TN_API uint32_t tn_pool_trace_block_count(const tn_pool_trace *trace);
TN_API const tn_pool_label *tn_pool_trace_label(const tn_pool_trace *trace, uint32_t label);
/* Returns the number of rows of an RMM log that were skipped: failed allocations, allocations of 0
 * bytes, and frees of blocks allocated before the log began. */
TN_API uint64_t tn_pool_trace_skipped(const tn_pool_trace *trace);

/* Replays a trace on a pool. Blocks that the trace never frees stay in use.
 *
 * reserved  [events], or NULL: receives the reserved bytes after each event replayed
 *
 * Errors: those of tn_pool_alloc, with the event in error->where; the pool then has the state
 * before that event. */
TN_API TN_CHECKED tn_status tn_pool_replay(tn_pool *pool, const tn_pool_trace *trace,
                                           uint64_t *reserved, tn_error *error);

/* Names and one-line summaries of the techniques, for lists and --help. */
TN_API uint32_t tn_pool_count(void);
TN_API const char *tn_pool_name(uint32_t index);
TN_API const char *tn_pool_summary(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif
