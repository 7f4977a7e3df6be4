/* technique.h - the interface and tools of a technique: chunks that tile the range, and ordered
 * sets of them.
 *
 * Every pool is a list of chunks in address order that tiles [0, capacity) without a gap. A chunk
 * is in use, free (the technique keeps it for reuse), or outside (not reserved). The frame (pool.c)
 * checks requests, holds the lock, counts, and knows the holders; a technique finds a chunk, cuts
 * it, and joins it again. Chunks are records of one flat array, which also contain the links of the
 * list and the nodes of the sets. The frame makes room for TN__CHUNKS_PER_CALL more before each
 * allocation, so a technique never allocates host memory and cannot fail half way.
 */
#ifndef TN_POOL_TECHNIQUE_H
#define TN_POOL_TECHNIQUE_H

#include <pthread.h>

#include <tenure/pool.h>

#include "base/base.h"

#define TN__CHUNK_NONE UINT32_MAX
#define TN__CHUNKS_PER_CALL 72u /* buddy cuts once per power of two, others at most four times */

typedef enum tn__chunk_state {
    TN__CHUNK_VACANT, /* a record without bytes */
    TN__CHUNK_OUTSIDE,
    TN__CHUNK_FREE,
    TN__CHUNK_LENT, /* the technique divides it itself: its blocks are records outside the list */
    TN__CHUNK_USED
} tn__chunk_state;

typedef struct tn__chunk { /* one cache line */
    uint64_t offset, size;
    /* in address order; for a vacant record, `after` is the next vacant one; for an inner one both
     * belong to the technique */
    uint32_t before, after;
    /* in a set: the chunks before it, those after; in use: free for the technique */
    uint32_t child[2];
    /* in use: the stream; free: chosen by the technique, first key in the order of sets */
    uint32_t lane;
    uint32_t generation; /* grows at each free, so that an old id is recognised */
    uint64_t requested, birth;
    uint32_t tag;
    uint8_t state;     /* tn__chunk_state */
    bool is_segment;   /* first chunk of a segment: never joined with the one before */
    bool is_large : 1; /* caching: lies in a segment for large requests */
    bool is_empty : 1; /* belongs to a request for 0 bytes: not part of the list */
    bool is_span : 1;  /* caching: lies in an expandable segment, mapped or not */
    bool is_inner : 1; /* lies within a lent chunk: not part of the list */
} tn__chunk;

typedef struct tn__holder_record { /* a block that was freed after a mark */
    uint64_t requested, allocated, birth;
    uint32_t tag, stream;
} tn__holder_record;

/* A moment whose holders are known: blocks in use with a birth up to `stamp`, and such blocks that
 * were freed since. Costs O(1) per operation instead of a copy at every new peak. */
typedef struct tn__mark {
    uint64_t stamp; /* number of the last allocation before it; 0: no such moment yet */
    tn__holder_record *left;
    size_t left_count, left_room;
} tn__mark;

typedef struct tn__want {
    uint64_t size;      /* a multiple of the unit, > 0 */
    uint64_t alignment; /* >= unit */
    uint32_t stream;
    bool long_lived;
    uint64_t requested; /* bytes, before rounding */
} tn__want;

typedef struct tn__technique {
    const char *name;    /* the name that users type */
    const char *summary; /* one line for --help, no full stop */
    const char *source;  /* paper, book or other program that the idea comes from */
    uint64_t unit;       /* the least alignment of blocks */
    size_t state_size;   /* bytes of pool->state, which is zeroed */
    bool is_planned;     /* needs sizes and offsets */
    /* Chunk 0 is the whole range, outside, and in no set. */
    tn_status (*open)(tn_pool *pool, const tn_pool_options *options, tn_error *error);
    /* Takes a chunk for the request out of every set. E_EXHAUSTED comes without a message, and with
     * no change that callers can see. */
    tn_status (*take)(tn_pool *pool, const tn__want *want, uint32_t *chunk, tn_error *error);
    /* takes the chunk back; its state is already free */
    void (*give)(tn_pool *pool, uint32_t chunk);
    /* tn_pool_empty_cache; NULL: there is nothing to empty */
    uint64_t (*trim)(tn_pool *pool);
    void (*close)(tn_pool *pool); /* NULL: holds no memory of its own */
    /* Does long work that `take` asked for (pool->is_due): called before the next request, without
     * the lock. NULL: no such work */
    void (*rest)(tn_pool *pool);
    /* NULL: the technique does not learn */
    void (*lesson)(const tn_pool *pool, tn_pool_lesson *lesson);
} tn__technique;

struct tn_pool {
    tn_context context;
    pthread_mutex_t lock;
    const tn__technique *technique;
    void *state;
    uint64_t capacity, unit;
    tn__chunk *chunks;
    size_t chunk_room;
    uint32_t chunk_count;          /* records used at least once */
    uint32_t vacant, vacant_count; /* list of the vacant records */
    /* the lowest chunk, which is number 0 except with iteration; the highest */
    uint32_t first, last;
    uint64_t reserved; /* set by the technique */
    bool is_due; /* set by the technique, atomically: `rest` is called before the next request */
    /* options.settle: called before bytes freed by one stream go to another */
    void (*settle)(void *self);
    void *settle_self;
    /* options.release: called for bytes that are no longer reserved */
    void (*release)(void *self, uint64_t offset, uint64_t size);
    void *release_self;
    bool is_sparse;      /* options.is_sparse: bytes without a block cost nothing */
    tn_pool_usage usage; /* counters of the frame; `reserved` and later fields: on demand */
    tn__mark peak, failed;
    tn__arena words; /* of labels */
    tn_pool_label *labels;
    size_t label_count, label_room;
};

uint64_t tn__pool_reserved(tn_pool *pool); /* current value, without the cost of tn_pool_measure */

/* --- chunks (chunks.c; to cut and join them: chunks.h) --- */

bool tn__chunks_grow(tn_pool *pool);
/* Room for TN__CHUNKS_PER_CALL more; false: no memory. */
static inline bool tn__chunks_room(tn_pool *pool) {
    size_t spare = pool->chunk_room - pool->chunk_count + pool->vacant_count;
    return spare >= TN__CHUNKS_PER_CALL || tn__chunks_grow(pool);
}
/* The same for `more` chunks. */
bool tn__chunks_reserve(tn_pool *pool, size_t more);
/* Called before bytes that one stream has freed may go to another. */
static inline void tn__pool_settle(tn_pool *pool) {
    if (pool->settle != NULL) pool->settle(pool->settle_self);
}
static inline void tn__pool_release(tn_pool *pool, uint64_t offset, uint64_t size) {
    if (pool->release != NULL) pool->release(pool->release_self, offset, size);
}
/* Checks all invariants: NULL, or the one that is violated. O(n). */
const char *tn__pool_check(const tn_pool *pool);

/* --- ordered sets of free chunks (free_chunks.c): by lane, size, offset, or by offset alone --- */

typedef struct tn__chunk_set {
    uint32_t root; /* TN__CHUNK_NONE: empty */
    bool by_offset;
} tn__chunk_set;

void tn__chunk_set_add(tn_pool *pool, tn__chunk_set *set, uint32_t chunk);
void tn__chunk_set_remove(tn_pool *pool, tn__chunk_set *set,
                          uint32_t chunk); /* the chunk must be in the set */
/* The smallest chunk of at least `size` bytes in the lane, the lowest of equal ones. */
uint32_t tn__chunk_set_at_least(const tn_pool *pool, const tn__chunk_set *set, uint32_t lane,
                                uint64_t size);
/* For a set by lane: the next chunk of the same lane; TN__CHUNK_NONE: none. */
uint32_t tn__chunk_set_after(const tn_pool *pool, const tn__chunk_set *set, uint32_t chunk);
/* The one before it. */
uint32_t tn__chunk_set_before(const tn_pool *pool, const tn__chunk_set *set, uint32_t chunk);
/* The chunk with the most bytes in the lane, the highest of equal ones; TN__CHUNK_NONE: none. */
uint32_t tn__chunk_set_last(const tn_pool *pool, const tn__chunk_set *set, uint32_t lane);
/* For a set by offset: the last chunk that starts at `offset` or before. */
uint32_t tn__chunk_set_up_to(const tn_pool *pool, const tn__chunk_set *set, uint64_t offset);

/* The peaks become the current values, and so do the holders at the peak. */
void tn__pool_reset_peaks(tn_pool *pool);
const char *tn__pool_source(uint32_t index); /* where a technique is from, for its test */

/* --- holders (holders.c) --- */

bool tn__holders_grow(tn_pool *pool);
/* Room for one more block in use; false: no memory. */
static inline bool tn__holders_room(tn_pool *pool) {
    size_t need = (size_t)pool->usage.block_count + 1;
    return (need <= pool->peak.left_room && need <= pool->failed.left_room) ||
           tn__holders_grow(pool);
}
void tn__holders_mark(tn_pool *pool, tn__mark *mark);
void tn__holders_leave(tn_pool *pool, const tn__chunk *chunk); /* the block is about to be freed */
void tn__holders_release(tn_pool *pool);
/* The report of an allocation that does not fit. */
tn_status tn__holders_exhausted(tn_pool *pool, const tn_pool_request *request, tn_error *error);
uint64_t tn__pool_largest_free(const tn_pool *pool);

#endif
