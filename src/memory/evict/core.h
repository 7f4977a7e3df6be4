/* core.h - the records used by the implementation of evict.h: operators, tensors, storages,
 * candidates, blocks.
 *
 * Records lie in flat arrays that grow. They refer to each other by number and hold only integers.
 * A call reserves the memory that it needs before it changes anything, so that eviction and release
 * cannot fail for lack of host memory.
 */
#ifndef TN_EVICT_CORE_H
#define TN_EVICT_CORE_H

#include "memory/evict/evict.h"

#define TN__NONE TN__EVICT_NONE
/* number of operand and result ids of an operator that fit into its record */
#define TN__EVICT_FEW 6u
/* number of neighbours that fit into a record; most storages have no more */
#define TN__LINKS_FEW 3u

typedef enum tn__evict_state {
    TN__DROPPED, /* no copy of the value exists, so the value must be recomputed */
    TN__RESIDENT,
    TN__ON_HOST
} tn__evict_state;

enum {                               /* flags of an operator (tn__evict_op.flags) */
       TN__OP_ONCE = TN__EVICT_ONCE, /* the operator may run only once */
       TN__OP_LOST = 1u << 1,        /* the operator cannot run again, because an operand is lost */
       TN__OP_VACANT = 1u << 2,      /* an unused record */
       TN__OP_DYING = 1u << 3,
       /* the policy has no record of the operator, because host memory was out */
       TN__OP_STRANGE = 1u << 4
};

typedef struct tn__evict_op {
    uint64_t cost, scratch;
    void *what;
    uint32_t *many; /* ids of operands, then of results; used if they are more than fit in `few` */
    uint32_t few[TN__EVICT_FEW];
    uint32_t input_count, output_count;
    /* number of outside references to its results, plus uses of its results as operands of other
     * operators */
    uint32_t refs;
    uint32_t next; /* the next record in the list of vacant or of dying operators */
    uint32_t flags;
    uint32_t mark; /* scratch field of the current walk over the operators */
} tn__evict_op;

typedef struct tn__evict_tensor {
    uint32_t storage, op;
    uint32_t next; /* next tensor of the same storage; for a vacant record, the next vacant one */
    /* outside: number of references of callers; uses: number of times that operators with records
     * read the tensor */
    uint32_t outside, uses;
    bool is_defined; /* the tensor's value exists, on the device or on the host */
    bool is_lost;    /* the tensor's contents were overwritten in place */
    uint64_t shift;
} tn__evict_tensor;

typedef struct tn__storage_link {
    /* count: number of operators' edges from the storage that owns this list to its neighbour
     * `storage` */
    uint32_t storage, count;
} tn__storage_link;
typedef struct tn__links { /* neighbours of a storage, each listed once (tn__links_of) */
    union {
        tn__storage_link few[TN__LINKS_FEW]; /* the neighbours themselves, as long as `room` is 0 */
        tn__storage_link *many;
    } of;
    uint32_t count, room;
} tn__links;

/* The fields that searches read come first, then those read by walks, then all others. */
typedef struct tn__evict_storage {
    uint64_t size;
    /* value of tn__evict.clock at the last access to the storage */
    uint64_t last_access;
    uint32_t locks, outside;
    uint32_t wants; /* number of locks held by callers that rely on the storage's address */
    uint32_t stuck; /* number of the storage's tensors that no operator can recompute */
    /* index of the storage in the list of candidates for eviction; TN__NONE: it is no candidate */
    uint32_t candidate;
    /* with the option `addresses`: number of the storage's block in the arena; TN__NONE: it has no
     * block */
    uint32_t block;
    uint8_t state; /* state of the storage, a tn__evict_state */
    bool is_pinned, is_vacant;
    bool is_going, is_tied,
        /* is_going, is_tied and is_counted: scratch flags of walks over the storages; all false
         * between calls of evict.h */
        is_counted;
    /* total cost of the operators, each counted once, that make the storage's tensors */
    uint64_t cost;
    tn__links parents, children;
    uint64_t made_at;     /* number of operators that had run when the storage was first made */
    uint64_t host;        /* the caller's handle of the copy, if the value is on the host */
    uint32_t first, last; /* first and last of the storage's tensors, a list linked by `next` */
    uint32_t uses;        /* number of uses of the storage's tensors as operands */
    uint32_t drops;       /* number of times that the storage was dropped */
    /* index in the list `dead` of tn__evict; TN__NONE: the storage is not in it */
    uint32_t dead;
} tn__evict_storage;

typedef struct tn__evict_frame { /* an operator in preparation, whose operands are being made */
    uint32_t op, target; /* target: the tensor that is wanted, for which the operator runs */
    uint32_t pending, pending_end, next;
    uint32_t locked; /* index of the first lock of this frame in `locked` */
    bool started, again;
} tn__evict_frame;

/* a range of the arena; the blocks cover the whole arena without overlap */
typedef struct tn__evict_block {
    uint64_t at, size;
    uint32_t before, after; /* neighbours by address */
    /* neighbours in the list of free blocks of its size class; in a vacant record, `free_after` is
     * the next vacant record */
    uint32_t free_before, free_after;
    /* the storage that lies in the block, or TN__BLOCK_FREE or TN__BLOCK_TEMPORARY */
    uint32_t owner;
} tn__evict_block;
/* a candidate for eviction with its score, for the comparisons in contiguous.c */
typedef struct tn__evict_offer {
    uint32_t storage;
    double score;
    uint64_t size;
} tn__evict_offer;
/* the decision of contiguous.c about one block of a region: evict or move */
typedef struct tn__evict_part {
    double cost, score;
    double loss;    /* score * bytes, if the block is evicted */
    uint64_t freed; /* bytes that evicting the block frees; 0 if the block is moved */
    /* number of the search in which this decision was made; it is not valid in later searches */
    uint64_t search;
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
    void *state; /* state of the policy */

    tn__evict_op *ops;
    size_t op_room;
    uint32_t op_count, op_vacant;
    tn__evict_tensor *tensors;
    size_t tensor_room;
    uint32_t tensor_count, tensor_vacant;
    tn__evict_storage *storages;
    size_t storage_room;
    uint32_t storage_count, storage_vacant;

    /* storages that may be evicted, in the order in which they became candidates; NONE: an empty
     * entry */
    uint32_t *candidates;
    size_t candidate_room;
    uint32_t candidate_end, candidate_count;
    uint64_t candidate_bytes;

    uint64_t clock; /* 1 + total cost of all operators that ran */
    uint64_t ops_run;
    uint64_t needed;
    uint64_t locked_bytes; /* bytes of resident storages that are not candidates */
    tn_evict_counts counts;
    tn_evict_least least;
    tn__random random;
    bool failed; /* a policy ran out of host memory */
    /* true while the time of a search is measured, so that nested measurements do not count
     * twice */
    bool is_choosing;
    /* number of calls of tn__search_begin_one so far, of which one in TN__SEARCH_TIMED is timed */
    uint32_t told;

    tn__evict_frame *frames;
    size_t frame_room, frame_count;
    uint32_t *pending;
    size_t pending_room, pending_count;
    /* number of times an operator released its locks and started again, during the current
     * request */
    uint32_t restarts;
    uint32_t *locked; /* locked storages; NONE: this lock was released */
    size_t locked_room, locked_count;

    uint64_t capacity; /* with addresses: size of the arena in bytes */
    tn__evict_block *blocks;
    size_t block_room;
    uint32_t block_count, block_vacant, block_first;
    uint32_t bins[TN__EVICT_BINS];
    uint64_t bin_bits; /* bit b is set if list b of free blocks is not empty */
    uint64_t free_bytes;
    /* scratch of a region search (contiguous.c): the candidates that it compares, and a heap of the
     * cheapest ones, which determine the price */
    tn__evict_offer *offers, *cheap;
    size_t offer_room, cheap_room;
    tn__evict_part *parts; /* [block] */
    size_t part_room;
    uint64_t part_search;
    double price; /* price of a byte as estimated by past samples; 0: unknown */

    /* storages that stay locked until an operator that overwrites a storage has run */
    uint32_t *kept;
    size_t kept_room, kept_count;
    bool has_doomed; /* unreachable operators stay marked until the overwriting operator has run */

    uint32_t *unreachable_order; /* unreachable operators, producers before consumers */
    size_t unreachable_room, unreachable_count;

    /* Possibly dead storages: those without outside references from which others were made. */
    uint32_t *dead;
    size_t dead_room;
    uint32_t dead_count;
    bool has_dead; /* since the list was last examined, a storage became dead or left the list */
    /* whether a storage with outside references was evicted, or would have been if dead values were
     * not kept */
    bool is_short;
    uint64_t dead_next; /* value of ops_run at which the list is examined in any case */

    uint64_t *run_at; /* scratch for the operator that runs now: offsets of operands and results */
    size_t run_room;
    uint32_t *run_blocks; /* blocks of the results and of the scratch memory */
    uint8_t *run_kinds;   /* kinds of the results (make_kind in make.c) */
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
/* Whether a caller may ask for this tensor (outside references), or an operator with a record reads
 * it. */
static inline bool tn__is_needed(const tn__evict_tensor *tensor) {
    return tensor->outside > 0 || tensor->uses > 0;
}

/* --- records.c --- */
tn_status tn__records_add(tn__evict *e, const tn__evict_call *call, uint32_t *op, tn_error *error);
/* Forgets the operator if nothing needs it, then each operator that only it needed. */
void tn__records_forget(tn__evict *e, uint32_t op);
/* Frees the storage if nothing can recompute it and nothing needs it. */
void tn__records_leave(tn__evict *e, uint32_t storage);
/* Marks an operator that can never run again, and releases its operands. */
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
/* Evicts storages until the bytes in use now and `bytes` more fit into the budget. Errors:
 * E_EXHAUSTED, those of the hooks. */
tn_status tn__space_room(tn__evict *e, uint64_t bytes, tn_error *error);
/* With addresses: takes a free block of `bytes` for the owner, and evicts storages if necessary. */
tn_status tn__space_take(tn__evict *e, uint64_t bytes, uint32_t owner, uint32_t *block,
                         tn_error *error);
/* adds to the number of bytes in use and updates its peak */
void tn__space_used(tn__evict *e, uint64_t bytes);
/* drops a candidate: frees its bytes without copying them to the host */
void tn__space_evict(tn__evict *e, uint32_t storage);
/* Evicts the storage: drops it or copies it to the host, as the policy decides. Errors: those of
 * the hook. */
tn_status tn__space_give_up(tn__evict *e, uint32_t storage, tn_error *error);
tn_status tn__space_swap_out(tn__evict *e, uint32_t storage, tn_error *error);
bool tn__space_has_host_room(const tn__evict *e, uint32_t storage);
/* frees the storage's bytes and sets its state */
void tn__space_leave(tn__evict *e, uint32_t storage, tn__evict_state state);
void tn__space_forget_copy(tn__evict *e, uint32_t storage);
/* copies the storage back from the host */
tn_status tn__space_fetch(tn__evict *e, uint32_t storage, tn_error *error);
/* tn__search_begin and tn__search_end add the time between the two calls to search_s. It covers
 * choosing what to evict, and the policy's own bookkeeping when a storage is dropped or recomputed.
 * Pairs of calls may nest. Without the option `time_search` the clock is not read. */
double tn__search_begin(tn__evict *e);
void tn__search_end(tn__evict *e, double since);
/* Measures work that is done for every value: one call in TN__SEARCH_TIMED is timed, and its time
 * is multiplied by that number. */
#define TN__SEARCH_TIMED 16u
double tn__search_begin_one(tn__evict *e);
void tn__search_end_one(tn__evict *e, double since);
/* whether the storage could be copied to the host now */
bool tn__space_swaps(const tn__evict *e, uint32_t storage);
/* whether the storage may be evicted */
static inline bool tn__space_may_go(const tn__evict *e, uint32_t storage) {
    return e->storages[storage].stuck == 0 || tn__space_swaps(e, storage);
}

/* --- arena.c --- */
tn_status tn__arena_open(tn__evict *e, tn_error *error);
bool tn__arena_reserve(tn__evict *e, uint32_t more); /* blocks */
uint64_t tn__arena_round(const tn__evict *e, uint64_t bytes);
/* Returns the smallest sufficient free block, of equal ones the lowest; NONE if there is no such
 * block. `size` must be rounded. */
uint32_t tn__arena_find(const tn__evict *e, uint64_t size);
/* Takes `size` bytes from a free block, at its low or its high end; returns the new block. */
uint32_t tn__arena_cut(tn__evict *e, uint32_t block, uint64_t size, bool high, uint32_t owner);
/* frees a block and merges it with free neighbours */
void tn__arena_free(tn__evict *e, uint32_t block);
/* For compact.c: tn__arena_discard removes a free block; the caller links its neighbours.
 * tn__arena_gap makes one free block of the bytes between blocks `before` and `after` (NONE: the
 * end of the arena), or returns NONE if there are no such bytes. */
void tn__arena_discard(tn__evict *e, uint32_t block);
uint32_t tn__arena_gap(tn__evict *e, uint32_t before, uint64_t first, uint64_t end, uint32_t after);

/* --- contiguous.c --- */
/* Returns the first block of the cheapest sequence of neighbouring blocks, of at least `size`
 * bytes, that can be evicted as a whole; NONE if none exists. */
uint32_t tn__window_find(tn__evict *e, uint64_t size);

/* Frees `size` contiguous bytes: evicts some blocks and moves others together. *done: whether that
 * was possible. */
tn_status tn__contiguous_clear(tn__evict *e, uint64_t size, bool *done, tn_error *error);
/* With sampling, a search frees at least this many bytes at once. */
uint64_t tn__contiguous_ahead(const tn__evict *e);

/* --- compact.c --- */
/* whether the block must not be moved */
static inline bool tn__arena_stays(const tn__evict *e, uint32_t block) {
    uint32_t owner = e->blocks[block].owner;
    if (owner == TN__BLOCK_FREE || owner == TN__BLOCK_TEMPORARY) return false;
    return e->storages[owner].is_pinned || e->storages[owner].wants > 0;
}
/* Moves the blocks from `first` to the last one before `behind` (NONE: the end of the arena)
 * together at the low end. None of them may be fixed. Returns the free block above them, or NONE if
 * no bytes are left free. */
uint32_t tn__arena_slide_down(tn__evict *e, uint32_t first, uint32_t behind);
/* Takes a block for an owner that will never move: next to other fixed blocks or at an end of the
 * arena, at the place where the fewest bytes must be moved for it. A free block of that size
 * must exist. */
uint32_t tn__arena_take_side(tn__evict *e, uint64_t size, uint32_t owner);
/* Frees `size` contiguous bytes by moving as few bytes as possible; false if fixed blocks prevent
 * it. */
bool tn__arena_make_gap(tn__evict *e, uint64_t size);
/* the cost of moving blocks in tn__arena_make_gap; UINT64_MAX if no bytes can be freed that way */
uint64_t tn__arena_gap_cost(const tn__evict *e, uint64_t size);
/* Moves all movable blocks of the arena together, so that the free bytes are contiguous. */
void tn__arena_compact(tn__evict *e);

/* --- make.c --- */
/* Runs the operator, after all operators that it needs. `again`: it recomputes a dropped tensor. */
tn_status tn__make(tn__evict *e, uint32_t op, uint32_t target, bool again, tn_error *error);
/* Makes the operator that has waited longest release its locks. False if no operator waits, or the
 * limit of restarts is reached. */
bool tn__make_give_up(tn__evict *e);
/* Makes the tensor resident. */
tn_status tn__make_tensor(tn__evict *e, uint32_t tensor, tn_error *error);

/* --- unreachable.c --- */

/* Marks the operators that cannot run again once the storages with is_going are gone, except
 * operator `except` (NONE: no exception). False if host memory is out. */
bool tn__unreachable_walk(tn__evict *e, uint32_t except);
/* Sets is_tied for each storage that must stay: a dropped result with outside references needs it,
 * or an operator in preparation does, if every operator on the path would have to run again. The
 * caller clears is_tied. False if host memory is out. */
bool tn__unreachable_tie(tn__evict *e);
bool tn__unreachable_is(const tn__evict *e, uint32_t op); /* marked */
/* Whether this result of an unreachable operator has outside references, so that it must be
 * resident and cannot be evicted any more. */
bool tn__unreachable_stays(const tn__evict *e, uint32_t tensor);
/* forgets the unreachable operators and their unreferenced results */
void tn__unreachable_finish(tn__evict *e);

/* --- dead_storages.c --- */

bool tn__dead_reserve(tn__evict *e, uint32_t more);
/* adds the storage to the list of possibly dead ones if it may be dead, whatever its locks and size
 * are */
void tn__dead_list(tn__evict *e, uint32_t storage);
/* removes the storage from the list of possibly dead ones; called before its record is reused */
void tn__dead_unlist(tn__evict *e, uint32_t storage);
/* called when the storage may have become dead (no outside references, but others were made from
 * it) */
void tn__dead_came(tn__evict *e, uint32_t storage);
/* Evicts dead values (values without outside references that cannot be recomputed) if that saves
 * bytes; with `last`, all that can be evicted. `missing`: the bytes that a request lacks. False if
 * none was evicted. */
bool tn__dead_let_go(tn__evict *e, uint64_t missing, bool last);

/* --- lower_bound.c --- */

/* Records the bytes that must be resident while operator `op` (NONE: no operator) runs for the
 * first time. */
void tn__lower_bound_note(tn__evict *e, uint32_t op);

/* --- overwrite.c --- */
/* Called before an operator with these results runs: makes and locks the tensors that are needed
 * later but could not be made afterwards. tn__overwrite_unlock must be called later, also after a
 * failure. */
tn_status tn__overwrite_prepare(tn__evict *e, const tn__evict_call *call, uint32_t op,
                                tn_error *error);
void tn__overwrite_unlock(tn__evict *e);
/* Called after the operator ran: the old contents of its storages are lost, and so are operators
 * that read them. */
void tn__overwrite_finish(tn__evict *e, const tn__evict_call *call, uint32_t op);

#endif
