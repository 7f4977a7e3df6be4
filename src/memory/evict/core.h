/* core.h - the records behind evict.h: operators, tensors, storages, candidates, blocks.
 *
 * Records lie in flat arrays that grow. They refer to each other by number and hold only integers.
 * A call reserves the memory that it needs before it changes anything, so that eviction and release
 * cannot fail for want of host memory.
 */
#ifndef TN_EVICT_CORE_H
#define TN_EVICT_CORE_H

#include "memory/evict/evict.h"

#define TN__NONE TN__EVICT_NONE
#define TN__EVICT_FEW 6u /* ids of an operator that fit without an allocation */
#define TN__LINKS_FEW 3u /* neighbours that fit without an allocation; most storages have no more */

typedef enum tn__evict_state {
    TN__DROPPED, /* no copy exists; it must be recomputed */
    TN__RESIDENT,
    TN__ON_HOST
} tn__evict_state;

enum {                               /* tn__evict_op.flags */
       TN__OP_ONCE = TN__EVICT_ONCE, /* may not run again */
       TN__OP_LOST = 1u << 1,        /* cannot run again: an operand is lost */
       TN__OP_VACANT = 1u << 2,      /* a record without operator */
       TN__OP_DYING = 1u << 3,
       TN__OP_STRANGE = 1u << 4 /* the policy has no record of it: out of host memory */
};

typedef struct tn__evict_op {
    uint64_t cost, scratch;
    void *what;
    uint32_t *many; /* ids, inputs then outputs, when there are more than a few */
    uint32_t few[TN__EVICT_FEW];
    uint32_t input_count, output_count;
    uint32_t refs; /* outside references to its results, plus operands of other operators */
    uint32_t next; /* if vacant or dying: next in that list */
    uint32_t flags;
    uint32_t mark; /* scratch field of the current graph walk */
} tn__evict_op;

typedef struct tn__evict_tensor {
    uint32_t storage, op;
    uint32_t next;          /* next tensor of the same storage; vacant: next vacant one */
    uint32_t outside, uses; /* references of callers; number of uses as operands */
    bool is_defined;        /* its value exists, on the device or on the host */
    bool is_lost;           /* its contents were overwritten */
    uint64_t shift;
} tn__evict_tensor;

typedef struct tn__storage_link {
    uint32_t storage, count; /* number of edges */
} tn__storage_link;
typedef struct tn__links { /* neighbours of a storage, each once: see tn__links_of */
    union {
        tn__storage_link few[TN__LINKS_FEW]; /* used while room == 0 */
        tn__storage_link *many;
    } of;
    uint32_t count, room;
} tn__links;

/* first the fields read by searches, then by walks, then the rest */
typedef struct tn__evict_storage {
    uint64_t size;
    uint64_t last_access; /* clock at the last access */
    uint32_t locks, outside;
    uint32_t wants;     /* locks held by callers that rely on its address */
    uint32_t stuck;     /* number of its tensors that no operator can recompute */
    uint32_t candidate; /* index in the candidate list, or NONE */
    uint32_t block;     /* with addresses: its block, or NONE */
    uint8_t state;      /* tn__evict_state */
    bool is_pinned, is_vacant;
    bool is_going, is_tied,
        is_counted; /* scratch flags of walks (unreachable.c, dead_storages.c), left false */
    uint64_t cost;  /* total of the distinct operators that make its tensors */
    tn__links parents, children;
    uint64_t made_at;     /* number of operators run before it was first made */
    uint64_t host;        /* if on the host: the caller's handle */
    uint32_t first, last; /* tensors */
    uint32_t uses;        /* number of uses of its tensors as operands */
    uint32_t drops;       /* how often it was dropped */
    uint32_t dead;        /* index in the list of possibly dead storages, or NONE */
} tn__evict_storage;

typedef struct tn__evict_frame { /* an operator in preparation */
    uint32_t op, target;         /* the tensor for which it runs */
    uint32_t pending, pending_end, next;
    uint32_t locked; /* index of the first lock of this frame */
    bool started, again;
} tn__evict_frame;

typedef struct tn__evict_block { /* a range of the arena; blocks tile the arena */
    uint64_t at, size;
    uint32_t before, after;           /* neighbours by address */
    uint32_t free_before, free_after; /* neighbours in the free list of its bin; vacant: the next */
    uint32_t owner;                   /* a storage, or TN__BLOCK_* */
} tn__evict_block;
typedef struct tn__evict_offer { /* a candidate that contiguous.c compares */
    uint32_t storage;
    double score;
    uint64_t size;
} tn__evict_offer;
typedef struct tn__evict_part { /* contiguous.c's decision for one block */
    double cost, score;
    double loss;     /* score * evicted bytes */
    uint64_t freed;  /* bytes; 0 if the block is moved */
    uint64_t search; /* number of the search that filled this in */
} tn__evict_part;
#define TN__BLOCK_FREE (UINT32_MAX - 1)
#define TN__BLOCK_TEMPORARY (UINT32_MAX - 2)
#define TN__EVICT_IDS_MAX (UINT32_MAX - 8)
#define TN__EVICT_BINS 64u

struct tn__policy;

struct tn__evict {
    tn_context context;
    tn__evict_options options;
    const struct tn__policy *policy;
    void *state; /* of the policy */

    tn__evict_op *ops;
    size_t op_room;
    uint32_t op_count, op_vacant;
    tn__evict_tensor *tensors;
    size_t tensor_room;
    uint32_t tensor_count, tensor_vacant;
    tn__evict_storage *storages;
    size_t storage_room;
    uint32_t storage_count, storage_vacant;

    uint32_t *candidates; /* in the order of joining; NONE marks a gap */
    size_t candidate_room;
    uint32_t candidate_end, candidate_count;
    uint64_t candidate_bytes;

    uint64_t clock; /* 1 + cost of all operators that ran */
    uint64_t ops_run;
    uint64_t needed;
    uint64_t locked_bytes; /* bytes of resident storages that are no candidates */
    tn_evict_counts counts;
    tn_evict_least least;
    tn__random random;
    bool failed;      /* a policy ran out of host memory */
    bool is_choosing; /* a search is being timed */
    uint32_t told;    /* number of events reported to the policy */

    tn__evict_frame *frames;
    size_t frame_room, frame_count;
    uint32_t *pending;
    size_t pending_room, pending_count;
    uint32_t restarts; /* restarts during the current request */
    uint32_t *locked;  /* NONE: lock was released */
    size_t locked_room, locked_count;

    uint64_t capacity; /* with addresses: bytes of the arena */
    tn__evict_block *blocks;
    size_t block_room;
    uint32_t block_count, block_vacant, block_first;
    uint32_t bins[TN__EVICT_BINS];
    uint64_t bin_bits; /* bit b: bin b of free blocks is not empty */
    uint64_t free_bytes;
    /* of one region search: all candidates; those that set the price */
    tn__evict_offer *offers, *cheap;
    size_t offer_room, cheap_room;
    tn__evict_part *parts; /* [block] */
    size_t part_room;
    uint64_t part_search;
    double price; /* price of a byte as estimated by past samples; 0: unknown */

    uint32_t *kept; /* storages locked during an overwrite */
    size_t kept_room, kept_count;
    bool has_doomed; /* unreachable operators are marked until the overwriting one has run */

    uint32_t *unreachable_order; /* unreachable operators, producers before consumers */
    size_t unreachable_room, unreachable_count;

    /* Storages without outside references that others were made from, now or earlier. */
    uint32_t *dead;
    size_t dead_room;
    uint32_t dead_count;
    bool has_dead;      /* a storage became dead or left the list since the last look */
    bool has_evicted;   /* a storage with outside references was evicted at some time */
    uint64_t dead_next; /* value of ops_run at which the list is looked at in any case */

    uint64_t *run_at; /* of one run: offsets of operands and results */
    size_t run_room;
    uint32_t *run_blocks; /* blocks of results and scratch */
    uint8_t *run_kinds;   /* kinds of results: see make.c */
    size_t run_block_room, run_kind_room;
};

static inline const uint32_t *tn__op_inputs(const tn__evict_op *op) {
    return op->many != NULL ? op->many : op->few;
}
static inline const uint32_t *tn__op_outputs(const tn__evict_op *op) {
    return tn__op_inputs(op) + op->input_count;
}
static inline const tn__storage_link *tn__links_of(const tn__links *links) {
    return links->room > 0 ? links->of.many : links->of.few;
}
static inline bool tn__is_there(const tn__evict *e, uint32_t tensor) {
    return e->tensors[tensor].is_defined &&
           e->storages[e->tensors[tensor].storage].state == TN__RESIDENT;
}
static inline bool tn__is_candidate(const tn__evict *e, uint32_t storage) {
    return e->storages[storage].candidate != TN__NONE;
}
/* The caller may ask for this tensor, or for one that is made from it. */
static inline bool tn__is_needed(const tn__evict_tensor *tensor) {
    return tensor->outside > 0 || tensor->uses > 0;
}

/* --- records.c --- */
tn_status tn__records_add(tn__evict *e, const tn__evict_call *call, uint32_t *op, tn_error *error);
/* Forgets the operator if nothing needs it, then each operator that only it needed. */
void tn__records_forget(tn__evict *e, uint32_t op);
/* Frees the storage if nothing can recompute it and nothing needs it. */
void tn__records_leave(tn__evict *e, uint32_t storage);
/* The operator can never run again: releases its operands. */
void tn__records_lose(tn__evict *e, uint32_t op);
void tn__links_free(tn__evict *e, tn__links *links);

/* --- candidates (records.c) --- */
bool tn__candidates_reserve(tn__evict *e, uint32_t more);
void tn__candidates_add(tn__evict *e, uint32_t storage);
void tn__candidates_remove(tn__evict *e, uint32_t storage);
/* Adds the storage to the candidates or removes it, as its locks and flags require. */
void tn__candidates_settle(tn__evict *e, uint32_t storage);
void tn__lock(tn__evict *e, uint32_t storage);
void tn__unlock(tn__evict *e, uint32_t storage);

/* --- space.c --- */
/* Makes room for `bytes` more than are in use now. */
tn_status tn__space_room(tn__evict *e, uint64_t bytes, tn_error *error);
/* The same with an address: takes a block for the owner. */
tn_status tn__space_take(tn__evict *e, uint64_t bytes, uint32_t owner, uint32_t *block,
                         tn_error *error);
/* adds to the bytes in use and updates the peak */
void tn__space_used(tn__evict *e, uint64_t bytes);
void tn__space_evict(tn__evict *e, uint32_t storage); /* drops a candidate */
/* Drops the storage or copies it to the host, as the policy decides. */
tn_status tn__space_give_up(tn__evict *e, uint32_t storage, tn_error *error);
tn_status tn__space_swap_out(tn__evict *e, uint32_t storage, tn_error *error);
bool tn__space_has_host_room(const tn__evict *e, uint32_t storage);
void tn__space_leave(tn__evict *e, uint32_t storage, tn__evict_state state); /* frees its bytes */
void tn__space_forget_copy(tn__evict *e, uint32_t storage);
tn_status tn__space_fetch(tn__evict *e, uint32_t storage, tn_error *error); /* from the host */
/* The time between the two calls is added to search_s: choosing what to evict, and the policy's own
 * bookkeeping when a storage is dropped or recomputed. Pairs may nest. Without `time_search` the
 * clock is not read. */
double tn__search_begin(tn__evict *e);
void tn__search_end(tn__evict *e, double since);
/* For work done with every value: one call in TN__SEARCH_TIMED is timed, and stands for all of
 * them. */
#define TN__SEARCH_TIMED 16u
double tn__search_begin_one(tn__evict *e);
void tn__search_end_one(tn__evict *e, double since);
bool tn__space_swaps(const tn__evict *e, uint32_t storage); /* could be copied to the host now */
static inline bool tn__space_may_go(const tn__evict *e, uint32_t storage) { /* may it be evicted? */
    return e->storages[storage].stuck == 0 || tn__space_swaps(e, storage);
}

/* --- arena.c --- */
tn_status tn__arena_open(tn__evict *e, tn_error *error);
bool tn__arena_reserve(tn__evict *e, uint32_t more); /* blocks */
uint64_t tn__arena_round(const tn__evict *e, uint64_t bytes);
/* The smallest free block that is large enough; of equal ones the lowest; or NONE. `size` is
 * rounded. */
uint32_t tn__arena_find(const tn__evict *e, uint64_t size);
/* Takes `size` bytes from a free block, at its low or its high end. */
uint32_t tn__arena_cut(tn__evict *e, uint32_t block, uint64_t size, bool high, uint32_t owner);
void tn__arena_free(tn__evict *e, uint32_t block); /* merges it with free neighbours */
/* For compact.c. The first removes a free block; the caller links its neighbours. The second makes
 * one free block of the bytes between `before` and `after` (NONE: no block there), or returns NONE
 * if there are no such bytes. */
void tn__arena_discard(tn__evict *e, uint32_t block);
uint32_t tn__arena_gap(tn__evict *e, uint32_t before, uint64_t first, uint64_t end, uint32_t after);

/* --- contiguous.c --- */
/* The first block of the cheapest run of at least `size` bytes that can be evicted whole; or
 * NONE. */
uint32_t tn__window_find(tn__evict *e, uint64_t size);

/* Frees `size` contiguous bytes: evicts some blocks and moves others together. *done: a way was
 * found. */
tn_status tn__contiguous_clear(tn__evict *e, uint64_t size, bool *done, tn_error *error);
/* With sampling, a search frees at least this many bytes at once. */
uint64_t tn__contiguous_ahead(const tn__evict *e);

/* --- compact.c --- */
static inline bool tn__arena_stays(const tn__evict *e, uint32_t block) { /* it may not be moved */
    uint32_t owner = e->blocks[block].owner;
    if (owner == TN__BLOCK_FREE || owner == TN__BLOCK_TEMPORARY) return false;
    return e->storages[owner].is_pinned || e->storages[owner].wants > 0;
}
/* Packs the blocks from `first` to the last one before `behind` (NONE: the end of the arena) at the
 * low end. None of them may be fixed. Returns the free block above them, or NONE if no bytes are
 * left free. */
uint32_t tn__arena_slide_down(tn__evict *e, uint32_t first, uint32_t behind);
/* A block for an owner that will never move: next to other fixed blocks or at an end of the arena,
 * at the place where the fewest bytes must be moved for it. A free block of that size must
 * exist. */
uint32_t tn__arena_take_side(tn__evict *e, uint64_t size, uint32_t owner);
/* Frees `size` contiguous bytes by moving as few bytes as possible; false if fixed blocks prevent
 * it. */
bool tn__arena_make_gap(tn__evict *e, uint64_t size);
/* its cost; UINT64_MAX if impossible */
uint64_t tn__arena_gap_cost(const tn__evict *e, uint64_t size);
/* Packs all blocks that may be moved. */
void tn__arena_compact(tn__evict *e);

/* --- make.c --- */
/* Runs the operator with all operators that it needs. `again`: it is recomputed for a dropped
 * tensor. */
tn_status tn__make(tn__evict *e, uint32_t op, uint32_t target, bool again, tn_error *error);
/* The longest waiting operator releases its locks. False: none waits, or the limit is reached. */
bool tn__make_give_up(tn__evict *e);
/* Makes the tensor resident. */
tn_status tn__make_tensor(tn__evict *e, uint32_t tensor, tn_error *error);

/* --- unreachable.c --- */

/* Marks operators that cannot run again once the storages with is_going are gone, except one
 * operator (NONE: no exception). False: out of host memory. */
bool tn__unreachable_walk(tn__evict *e, uint32_t except);
/* Sets is_tied for storages that a dropped result with outside references needs, or that an
 * operator in preparation needs, if every operator on the path would have to run again. The caller
 * clears is_tied. False: out of host memory. */
bool tn__unreachable_tie(tn__evict *e);
bool tn__unreachable_is(const tn__evict *e, uint32_t op); /* marked */
/* This result of an unreachable operator has outside references: it must be resident and stay. */
bool tn__unreachable_stays(const tn__evict *e, uint32_t tensor);
/* forgets the unreachable operators and their unreferenced results */
void tn__unreachable_finish(tn__evict *e);

/* --- dead_storages.c --- */

bool tn__dead_reserve(tn__evict *e, uint32_t more);
/* lists it if it may be dead; ignores locks and size */
void tn__dead_list(tn__evict *e, uint32_t storage);
void tn__dead_unlist(tn__evict *e, uint32_t storage); /* its record is about to be reused */
void tn__dead_came(tn__evict *e, uint32_t storage);   /* it may have become dead */
/* Evicts a value that has no outside reference and cannot be recomputed, if that saves bytes; with
 * `last`, if that is possible at all. False: no such value exists. */
bool tn__dead_let_go(tn__evict *e, bool last);

/* --- lower_bound.c --- */

/* Records the bytes that must be resident while the operator (NONE: no operator) runs for the first
 * time. */
void tn__lower_bound_note(tn__evict *e, uint32_t op);

/* --- overwrite.c --- */
/* Call before an operator with these results runs: makes and locks the tensors that are needed
 * later and could not be made afterwards. tn__overwrite_unlock must follow in any case. */
tn_status tn__overwrite_prepare(tn__evict *e, const tn__evict_call *call, uint32_t op,
                                tn_error *error);
void tn__overwrite_unlock(tn__evict *e);
/* Call after it ran: the old contents of its storages are lost, and so are operators that read
 * them. */
void tn__overwrite_finish(tn__evict *e, const tn__evict_call *call, uint32_t op);

#endif
