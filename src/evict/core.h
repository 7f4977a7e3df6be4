/* core.h - the records behind evict.h: operators, tensors, storages, candidates, blocks.
 *
 * Flat arrays that grow, numbers instead of pointers, integers alone. A call reserves what it needs
 * before it changes anything, so that eviction and release cannot fail for want of host memory.
 */
#ifndef TN_EVICT_CORE_H
#define TN_EVICT_CORE_H

#include "evict/evict.h"

#define TN__NONE TN__EVICT_NONE
#define TN__EVICT_FEW 6u /* ids of an operator that need no memory of their own */
#define TN__LINKS_FEW 3u /* neighbours of a storage that do not, either: most have no more */

typedef enum tn__evict_state {
    TN__DROPPED, /* nowhere: to be made again */
    TN__RESIDENT,
    TN__ON_HOST
} tn__evict_state;

enum {                               /* tn__evict_op.flags */
       TN__OP_ONCE = TN__EVICT_ONCE, /* may not run again */
       TN__OP_LOST = 1u << 1,        /* cannot run again: what it read is no more */
       TN__OP_VACANT = 1u << 2,      /* a record without operator */
       TN__OP_DYING = 1u << 3,
       TN__OP_STRANGE = 1u << 4 /* the policy had no memory to be told of it */
};

typedef struct tn__evict_op {
    uint64_t cost, scratch;
    void *what;
    uint32_t *many; /* ids, inputs then outputs, when there are more than a few */
    uint32_t few[TN__EVICT_FEW];
    uint32_t input_count, output_count;
    uint32_t refs; /* outside references to its outputs, and operands of others among them */
    uint32_t next; /* vacant or dying: the next such */
    uint32_t flags;
    uint32_t mark; /* of whoever walks */
} tn__evict_op;

typedef struct tn__evict_tensor {
    uint32_t storage, op;
    uint32_t next;          /* of the same storage; vacant: the next such */
    uint32_t outside, uses; /* references of callers; operands of operators */
    bool is_defined;        /* its value is in its storage, wherever that is */
    bool is_lost;           /* its contents were overwritten */
    uint64_t shift;
} tn__evict_tensor;

typedef struct tn__link {
    uint32_t storage, count; /* of edges */
} tn__link;
typedef struct tn__links { /* neighbours of a storage, each once: tn__links_of */
    union {
        tn__link few[TN__LINKS_FEW]; /* as long as there is no room for many */
        tn__link *many;
    } of;
    uint32_t count, room;
} tn__links;

typedef struct tn__evict_storage { /* what a search reads of each, what walks read, the rest */
    uint64_t size;
    uint64_t last_access; /* the clock then */
    uint32_t locks, outside;
    uint32_t wants;     /* of the locks those of callers, who know where it lies */
    uint32_t stuck;     /* its tensors that no operator can make again */
    uint32_t candidate; /* place in the list, or NONE */
    uint32_t block;     /* with addresses: where it lies, or NONE */
    uint8_t state;      /* tn__evict_state */
    bool is_pinned, is_vacant;
    bool is_going, is_tied, is_counted; /* of whoever walks (doom.c, spent.c), left false */
    uint64_t cost;                      /* of the distinct operators that make its tensors */
    tn__links parents, children;
    uint64_t made_at;     /* operators run before it was first made */
    uint64_t host;        /* on the host: the caller's handle */
    uint32_t first, last; /* tensors */
    uint32_t uses;        /* operands of operators among its tensors */
    uint32_t drops;       /* times that it was dropped */
    uint32_t spent;       /* place in the list of those that may be spent, or NONE */
} tn__evict_storage;

typedef struct tn__evict_frame { /* an operator that is being made ready to run */
    uint32_t op, target;         /* the tensor that it is run for */
    uint32_t pending, pending_end, next;
    uint32_t locked; /* locks of this frame begin here */
    bool started, again;
} tn__evict_frame;

typedef struct tn__evict_block { /* a stretch of the arena; they tile it */
    uint64_t at, size;
    uint32_t before, after;           /* in order of addresses */
    uint32_t free_before, free_after; /* in the list of free ones of its bin; vacant: the next */
    uint32_t owner;                   /* a storage, or TN__BLOCK_* */
} tn__evict_block;
typedef struct tn__evict_offer { /* a candidate of stretch.c */
    uint32_t storage;
    double score;
    uint64_t size;
} tn__evict_offer;
typedef struct tn__evict_part { /* a block of a stretch: what would be done with it */
    double cost, score;
    double loss;     /* score * bytes that go */
    uint64_t freed;  /* bytes; 0: it is moved */
    uint64_t search; /* the search that found this */
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
    void *state; /* the policy's */

    tn__evict_op *ops;
    size_t op_room;
    uint32_t op_count, op_vacant;
    tn__evict_tensor *tensors;
    size_t tensor_room;
    uint32_t tensor_count, tensor_vacant;
    tn__evict_storage *storages;
    size_t storage_room;
    uint32_t storage_count, storage_vacant;

    uint32_t *candidates; /* in the order of joining; NONE: one has left */
    size_t candidate_room;
    uint32_t candidate_end, candidate_count;
    uint64_t candidate_bytes;

    uint64_t clock; /* 1 and the cost of all that ran */
    uint64_t ops_run;
    uint64_t needed;
    uint64_t locked_bytes; /* resident and no candidate */
    tn_evict_counts counts;
    tn_evict_least least;
    tn__random random;
    bool failed;      /* a policy was out of host memory */
    bool is_choosing; /* time that passes is counted as the search's */
    uint32_t told;    /* times that a policy heard of who went or came back */

    tn__evict_frame *frames;
    size_t frame_room, frame_count;
    uint32_t *pending;
    size_t pending_room, pending_count;
    uint32_t restarts; /* of the wish in hand */
    uint32_t *locked;  /* NONE: given up */
    size_t locked_room, locked_count;

    uint64_t capacity; /* with addresses: bytes that are divided */
    tn__evict_block *blocks;
    size_t block_room;
    uint32_t block_count, block_vacant, block_first;
    uint32_t bins[TN__EVICT_BINS];
    uint64_t bin_bits; /* those that are not empty */
    uint64_t free_bytes;
    tn__evict_offer *offers, *cheap; /* of one search: of a stretch; for the price */
    size_t offer_room, cheap_room;
    tn__evict_part *parts; /* [block] */
    size_t part_room;
    uint64_t part_search;
    double price; /* of bytes, as samples told it so far; 0: none did */

    uint32_t *kept; /* locked while something is overwritten */
    size_t kept_room, kept_count;
    bool has_doomed; /* operators are marked, until the overwriting one has run */

    uint32_t *doom_order; /* operators, those first that made what others read */
    size_t doom_room, doom_count;

    uint32_t *spent; /* storages that nobody refers to and others were made from, or did so once */
    size_t spent_room;
    uint32_t spent_count;
    bool has_spent;      /* one came to be spent, or went, since they were looked at last */
    bool has_evicted;    /* what somebody refers to was evicted, ever */
    uint64_t spent_next; /* operators run when they are looked at again in any case */

    uint64_t *run_at; /* of one run: operands, results */
    size_t run_room;
    uint32_t *run_blocks; /* of results and scratch */
    uint8_t *run_kinds;   /* of results: make.c */
    size_t run_block_room, run_kind_room;
};

static inline const uint32_t *tn__op_inputs(const tn__evict_op *op) {
    return op->many != NULL ? op->many : op->few;
}
static inline const uint32_t *tn__op_outputs(const tn__evict_op *op) {
    return tn__op_inputs(op) + op->input_count;
}
static inline const tn__link *tn__links_of(const tn__links *links) {
    return links->room > 0 ? links->of.many : links->of.few;
}
static inline bool tn__is_there(const tn__evict *e, uint32_t tensor) {
    return e->tensors[tensor].is_defined &&
           e->storages[e->tensors[tensor].storage].state == TN__RESIDENT;
}
static inline bool tn__is_candidate(const tn__evict *e, uint32_t storage) {
    return e->storages[storage].candidate != TN__NONE;
}
/* Somebody may ask for it, or for what is made from it. */
static inline bool tn__is_needed(const tn__evict_tensor *tensor) {
    return tensor->outside > 0 || tensor->uses > 0;
}

/* --- records.c --- */
tn_status tn__records_add(tn__evict *e, const tn__evict_call *call, uint32_t *op, tn_error *error);
/* Forgets the operator if nothing needs it, and what was needed by it alone. */
void tn__records_forget(tn__evict *e, uint32_t op);
/* Bytes that nothing can make again and nobody needs are free. */
void tn__records_leave(tn__evict *e, uint32_t storage);
/* The operator can never run again: gives up its operands. */
void tn__records_lose(tn__evict *e, uint32_t op);
void tn__links_free(tn__evict *e, tn__links *links);

/* --- candidates.c --- */
bool tn__candidates_reserve(tn__evict *e, uint32_t more);
void tn__candidates_add(tn__evict *e, uint32_t storage);
void tn__candidates_remove(tn__evict *e, uint32_t storage);
/* Puts it there, or takes it away, as its locks and flags say. */
void tn__candidates_settle(tn__evict *e, uint32_t storage);
void tn__lock(tn__evict *e, uint32_t storage);
void tn__unlock(tn__evict *e, uint32_t storage);

/* --- space.c --- */
/* Makes room for so many bytes beside what there is. */
tn_status tn__space_room(tn__evict *e, uint64_t bytes, tn_error *error);
/* The same with an address: a block for the owner. */
tn_status tn__space_take(tn__evict *e, uint64_t bytes, uint32_t owner, uint32_t *block,
                         tn_error *error);
void tn__space_used(tn__evict *e, uint64_t bytes);    /* counts them, and the peak */
void tn__space_evict(tn__evict *e, uint32_t storage); /* drops a candidate */
/* Drops or copies to the host, as the policy has it. */
tn_status tn__space_give_up(tn__evict *e, uint32_t storage, tn_error *error);
void tn__space_leave(tn__evict *e, uint32_t storage, tn__evict_state state); /* bytes are free */
void tn__space_forget_copy(tn__evict *e, uint32_t storage);
tn_status tn__space_fetch(tn__evict *e, uint32_t storage, tn_error *error); /* from the host */
/* Time between the two is search_s: choosing who goes, and what a policy does as somebody went or
 * came back. Pairs may lie in each other. Without `time_search` the clock is not looked at. */
double tn__search_begin(tn__evict *e);
void tn__search_end(tn__evict *e, double since);
/* For what is done with every value: one in so many is timed, and counts for all of them. */
#define TN__SEARCH_TIMED 16u
double tn__search_begin_one(tn__evict *e);
void tn__search_end_one(tn__evict *e, double since);
bool tn__space_swaps(const tn__evict *e, uint32_t storage); /* could go to the host now */
static inline bool tn__space_may_go(const tn__evict *e, uint32_t storage) { /* a candidate */
    return e->storages[storage].stuck == 0 || tn__space_swaps(e, storage);
}

/* --- arena.c --- */
tn_status tn__arena_open(tn__evict *e, tn_error *error);
bool tn__arena_reserve(tn__evict *e, uint32_t more); /* blocks */
uint64_t tn__arena_round(const tn__evict *e, uint64_t bytes);
/* The smallest free block that is large enough, the lowest of equals; NONE. `size` is rounded. */
uint32_t tn__arena_find(const tn__evict *e, uint64_t size);
/* Cuts `size` bytes from a free block, from its low or its high end. */
uint32_t tn__arena_cut(tn__evict *e, uint32_t block, uint64_t size, bool high, uint32_t owner);
void tn__arena_free(tn__evict *e, uint32_t block); /* joins it with free neighbours */
/* For compact.c: a free block is no more, whoever links its neighbours; and what lies free between
 * two blocks, `before` and `after` (NONE: none), is one, or NONE. */
void tn__arena_discard(tn__evict *e, uint32_t block);
uint32_t tn__arena_gap(tn__evict *e, uint32_t before, uint64_t first, uint64_t end, uint32_t after);

/* --- window.c --- */
/* The first block of the cheapest run of at least `size` bytes that could all go; NONE. */
uint32_t tn__window_find(tn__evict *e, uint64_t size);

/* --- stretch.c --- */

/* So many bytes in one piece: some go, others are moved together. *done: there was a way. */
tn_status tn__stretch_clear(tn__evict *e, uint64_t size, bool *done, tn_error *error);
/* Where a sample does, so many are made free at once, or more. */
uint64_t tn__stretch_ahead(const tn__evict *e);

/* --- compact.c --- */
static inline bool tn__arena_stays(const tn__evict *e, uint32_t block) { /* it may not be moved */
    uint32_t owner = e->blocks[block].owner;
    if (owner == TN__BLOCK_FREE || owner == TN__BLOCK_TEMPORARY) return false;
    return e->storages[owner].is_pinned || e->storages[owner].wants > 0;
}
/* Blocks from the first up to the one behind (NONE: the end), none of which stays, together at the
 * low end. The free block above them; NONE: they are full. */
uint32_t tn__arena_slide_down(tn__evict *e, uint32_t first, uint32_t behind);
/* A block for an owner that will stay, beside what stays or at an end of the arena, wherever the
 * fewest bytes have to be moved for it. There is a free block of so many bytes. */
uint32_t tn__arena_take_side(tn__evict *e, uint64_t size, uint32_t owner);
/* Moves as little as leaves so many bytes in one piece; false: what stays is in the way. */
bool tn__arena_make_gap(tn__evict *e, uint64_t size);
uint64_t tn__arena_gap_cost(const tn__evict *e, uint64_t size); /* of that; UINT64_MAX: none */
/* Moves together what may be moved. */
void tn__arena_compact(tn__evict *e);

/* --- make.c --- */
/* Runs the operator (again: for a tensor that is not there) with all that it needs. */
tn_status tn__make(tn__evict *e, uint32_t op, uint32_t target, bool again, tn_error *error);
/* An operator that waits gives up what it holds. False: there is none, or enough did. */
bool tn__make_give_up(tn__evict *e);
/* Makes the tensor be there. */
tn_status tn__make_tensor(tn__evict *e, uint32_t tensor, tn_error *error);

/* --- doom.c --- */

/* Marks operators that cannot run again when storages that are going are gone, but for one (NONE:
 * none). False: out of host memory. */
bool tn__doom_walk(tn__evict *e, uint32_t except);
/* Marks storages that lead to results that somebody refers to and that are not there, or to
 * operators that are being made ready to run, by operators alone that would have to run again:
 * is_tied, which the caller takes away. False: out of host memory. */
bool tn__doom_tie(tn__evict *e);
bool tn__doom_is(const tn__evict *e, uint32_t op); /* marked */
/* Somebody refers to this result of a doomed operator: it must be there, and stays. */
bool tn__doom_stays(const tn__evict *e, uint32_t tensor);
void tn__doom_finish(tn__evict *e); /* they are lost, and what nobody refers to goes */

/* --- spent.c --- */

bool tn__spent_reserve(tn__evict *e, uint32_t more);
void tn__spent_list(tn__evict *e, uint32_t storage);   /* if it is one, but for locks and size */
void tn__spent_unlist(tn__evict *e, uint32_t storage); /* its record is about to be used anew */
void tn__spent_came(tn__evict *e, uint32_t storage);   /* it may be one now */
/* Lets go of a value that nobody refers to and nothing can make again, where that pays; `last`:
 * where it can be done at all. False: there is none. */
bool tn__spent_let_go(tn__evict *e, bool last);

/* --- least.c --- */

/* What must be there while the operator (NONE: nobody) runs for the first time. */
void tn__least_note(tn__evict *e, uint32_t op);

/* --- overwrite.c --- */
/* Before an operator with these results runs: makes and locks what is wanted and could not be made
 * afterwards. tn__overwrite_unlock in any case. */
tn_status tn__overwrite_prepare(tn__evict *e, const tn__evict_call *call, uint32_t op,
                                tn_error *error);
void tn__overwrite_unlock(tn__evict *e);
/* It has run: what was in those storages is lost, and so is who read it. */
void tn__overwrite_finish(tn__evict *e, const tn__evict_call *call, uint32_t op);

#endif
