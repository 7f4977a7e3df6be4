/* technique.h - the interface of a technique (one kind of pool), and the functions it is written
 * with: chunks that cover the range, and ordered sets of chunks.
 *
 * Every pool is a list of chunks in address order that covers [0, capacity) without a gap. A chunk
 * is in use, free (the technique keeps it for reuse), or outside (not reserved). pool.c checks
 * requests, holds the lock, counts, and knows the holders; a technique finds a chunk, cuts it, and
 * joins it again. Chunks are records of one flat array, which also contain the links of the list
 * and the nodes of the sets. pool.c reserves TN__CHUNKS_PER_CALL records before each allocation, so
 * a technique never allocates host memory and cannot fail half way.
 */
#ifndef TN_POOL_TECHNIQUE_H
#define TN_POOL_TECHNIQUE_H

#include <pthread.h>

#include <tenure/pool.h>

#include "base/base.h"

#define TN__CHUNK_NONE UINT32_MAX
/* limit of new chunks per call: buddy cuts once per power of two, others at most four times */
#define TN__CHUNKS_PER_CALL 72u

typedef enum tn__chunk_state {
    TN__CHUNK_VACANT, /* an unused record */
    TN__CHUNK_OUTSIDE,
    TN__CHUNK_FREE,
    /* the chunk is lent: blocks in it are records outside the list of chunks, which the technique
     * manages itself */
    TN__CHUNK_LENT,
    TN__CHUNK_USED
} tn__chunk_state;

typedef struct tn__chunk { /* a record of a chunk, which fills one cache line */
    uint64_t offset, size;
    /* neighbours in address order; in a vacant record, `after` is the next vacant one; in a chunk
     * with is_inner, the technique may use both */
    uint32_t before, after;
    /* in a set: the subtrees of the chunks before and after this one; in use: free for the
     * technique to use */
    uint32_t child[2];
    /* in use: the stream; free: a number chosen by the technique, the first key in the order of
     * sets */
    uint32_t lane;
    uint32_t generation; /* increased at each free, so that an old id is recognised */
    uint64_t requested, birth;
    uint32_t tag;
    uint8_t state;     /* state of the chunk, a tn__chunk_state */
    bool is_segment;   /* first chunk of a segment, which is never joined with the chunk before */
    bool is_large : 1; /* pool `caching`: lies in a segment for large requests */
    bool is_empty : 1; /* belongs to a request for 0 bytes and is not part of the list */
    bool is_span : 1;  /* pool `caching`: lies in an expandable segment, mapped or not */
    bool is_inner : 1; /* lies within a lent chunk and is not part of the list */
} tn__chunk;

typedef struct tn__holder_record { /* a block that was freed after a mark was set */
    uint64_t requested, allocated, birth;
    uint32_t tag, stream;
} tn__holder_record;

/* A moment with known holders: blocks in use with a birth up to `stamp`, and such blocks that were
 * freed since. This costs O(1) per operation instead of a copy at every new peak. */
typedef struct tn__mark {
    /* number of the last allocation before the marked moment; 0: no moment is marked */
    uint64_t stamp;
    tn__holder_record *left;
    size_t left_count, left_room;
} tn__mark;

typedef struct tn__want {
    uint64_t size; /* size of the requested block, positive and a multiple of the pool's unit */
    uint64_t alignment; /* alignment of the requested block, at least the pool's unit */
    uint32_t stream;
    bool long_lived;
    uint64_t requested; /* bytes requested, before rounding */
} tn__want;

typedef struct tn__technique {
    const char *name; /* the name that users type */
    /* description of the technique in one line for --help, without a full stop */
    const char *summary;
    const char *source; /* paper, book or other program from which the idea comes */
    uint64_t unit;      /* the smallest alignment of blocks */
    size_t state_size;  /* bytes of pool->state, which is zeroed */
    bool is_planned;    /* the technique needs sizes and offsets in the options */
    /* Opens the technique. At that time chunk 0 is the whole range, not reserved (OUTSIDE), and in
     * no set. */
    tn_status (*open)(tn_pool *pool, const tn_pool_options *options, tn_error *error);
    /* Takes a chunk for the request and removes it from every set. Returns E_EXHAUSTED without a
     * message, and then without a change that callers can see. */
    tn_status (*take)(tn_pool *pool, const tn__want *want, uint32_t *chunk, tn_error *error);
    /* takes the chunk of a freed block back; its state is already free */
    void (*give)(tn_pool *pool, uint32_t chunk);
    /* frees what the technique keeps for reuse (tn_pool_empty_cache) and returns the released
     * bytes; NULL: it keeps nothing */
    uint64_t (*trim)(tn_pool *pool);
    /* frees the technique's own memory; NULL: the technique has none */
    void (*close)(tn_pool *pool);
    /* Does long work that `take` asked for (pool->is_due). It is called before the next request,
     * without the lock. NULL: there is no such work. */
    void (*rest)(tn_pool *pool);
    /* reports what the technique has learned; NULL: it does not learn */
    void (*lesson)(const tn_pool *pool, tn_pool_lesson *lesson);
} tn__technique;

struct tn_pool {
    tn_context context;
    pthread_mutex_t lock;
    const tn__technique *technique;
    void *state;
    uint64_t capacity, unit;
    uint64_t limit; /* of the reserved bytes; the capacity, unless the technique has a lower one */
    tn__chunk *chunks;
    size_t chunk_room;
    uint32_t chunk_count;          /* number of records used at least once */
    uint32_t vacant, vacant_count; /* head of the list of vacant records, and their number */
    /* the lowest chunk, which is number 0 except in the pool `iteration`, and the highest */
    uint32_t first, last;
    uint64_t reserved; /* bytes reserved; set by the technique */
    /* set by the technique, atomically, so that `rest` is called before the next request */
    bool is_due;
    /* options.settle: called before bytes freed by one stream are given to another */
    void (*settle)(void *self);
    void *settle_self;
    /* options.release: called for bytes that are no longer reserved */
    void (*release)(void *self, uint64_t offset, uint64_t size);
    void *release_self;
    bool is_sparse; /* options.is_sparse: bytes that belong to no block cost nothing */
    /* counters of pool.c; `reserved` and the fields after it are computed on demand */
    tn_pool_usage usage;
    tn__mark peak, failed;
    tn__arena words; /* memory of the labels */
    tn_pool_label *labels;
    size_t label_count, label_room;
};

/* returns the bytes reserved now, without the cost of tn_pool_measure */
uint64_t tn__pool_reserved(tn_pool *pool);

/* --- chunks (chunks.c; to cut and join them: chunks.h) --- */

bool tn__chunks_grow(tn_pool *pool);
/* Reserves TN__CHUNKS_PER_CALL more records; false if memory is out. */
static inline bool tn__chunks_room(tn_pool *pool) {
    size_t spare = pool->chunk_room - pool->chunk_count + pool->vacant_count;
    return spare >= TN__CHUNKS_PER_CALL || tn__chunks_grow(pool);
}
/* Reserves records for `more` chunks; false if memory is out. */
bool tn__chunks_reserve(tn_pool *pool, size_t more);
/* Called before bytes that one stream has freed may be given to another stream. */
static inline void tn__pool_settle(tn_pool *pool) {
    if (pool->settle != NULL) pool->settle(pool->settle_self);
}
static inline void tn__pool_release(tn_pool *pool, uint64_t offset, uint64_t size) {
    if (pool->release != NULL) pool->release(pool->release_self, offset, size);
}
/* Checks all invariants; returns NULL, or a sentence about the one that is violated. Cost: O(n). */
const char *tn__pool_check(const tn_pool *pool);

/* --- ordered sets of free chunks (free_chunks.c): by lane, size, offset, or by offset alone --- */

typedef struct tn__chunk_set {
    uint32_t root; /* TN__CHUNK_NONE: the set is empty */
    bool by_offset;
} tn__chunk_set;

void tn__chunk_set_add(tn_pool *pool, tn__chunk_set *set, uint32_t chunk);
void tn__chunk_set_remove(tn_pool *pool, tn__chunk_set *set,
                          uint32_t chunk); /* removes a chunk, which must be in the set */
/* The smallest chunk of at least `size` bytes in the lane, the lowest of equal ones; TN__CHUNK_NONE
 * if there is no such chunk. */
uint32_t tn__chunk_set_at_least(const tn_pool *pool, const tn__chunk_set *set, uint32_t lane,
                                uint64_t size);
/* For a set by lane: the chunk after `chunk` in the same lane; TN__CHUNK_NONE if it is the last
 * one. */
uint32_t tn__chunk_set_after(const tn_pool *pool, const tn__chunk_set *set, uint32_t chunk);
/* For a set by lane: the chunk before `chunk` in the same lane; TN__CHUNK_NONE if it is the first
 * one. */
uint32_t tn__chunk_set_before(const tn_pool *pool, const tn__chunk_set *set, uint32_t chunk);
/* The largest chunk of the lane, the highest of equal ones; TN__CHUNK_NONE if the lane has no
 * chunk. */
uint32_t tn__chunk_set_last(const tn_pool *pool, const tn__chunk_set *set, uint32_t lane);
/* For a set by offset: the last chunk that starts at `offset` or before it. */
uint32_t tn__chunk_set_up_to(const tn_pool *pool, const tn__chunk_set *set, uint64_t offset);

/* Sets the peaks to the current values, and the holders at the peak to the current holders. */
void tn__pool_reset_peaks(tn_pool *pool);
/* Returns the paper, book or program from which technique number `index` comes; for a test. */
const char *tn__pool_source(uint32_t index);

/* --- holders (holders.c) --- */

bool tn__holders_grow(tn_pool *pool);
/* Reserves a record for one more block in use; false if memory is out. */
static inline bool tn__holders_room(tn_pool *pool) {
    size_t need = (size_t)pool->usage.block_count + 1;
    return (need <= pool->peak.left_room && need <= pool->failed.left_room) ||
           tn__holders_grow(pool);
}
void tn__holders_mark(tn_pool *pool, tn__mark *mark);
/* called when the block is about to be freed */
void tn__holders_leave(tn_pool *pool, const tn__chunk *chunk);
void tn__holders_release(tn_pool *pool);
/* Reports an allocation that does not fit, with the holders of memory. */
tn_status tn__holders_exhausted(tn_pool *pool, const tn_pool_request *request, tn_error *error);
uint64_t tn__pool_largest_free(const tn_pool *pool);

#endif
