/* search.h - decides whether a placement within a capacity exists. The search is complete and
 * deterministic, and limited by a number of nodes.
 *
 * Every exact planner asks this question repeatedly. A `tn__search_input` is made once per problem
 * and shared by all searches, also by several threads; a `tn__search` is the state of one search.
 * Lengths are in units of the greatest common divisor of all lengths that determine offsets, which
 * leaves fewer distinct capacities.
 */
#ifndef TN_PLAN_SEARCH_SEARCH_H
#define TN_PLAN_SEARCH_SEARCH_H

#include "base/base.h"
#include "plan/frame/planner.h"

/* A conflict between two buffers that overlap in time: the offset of buffer `other` must be at
 * least `above` higher than that of this buffer, or at least `below` lower. Every conflict is in
 * the lists of both buffers. tn__search_sort sorts a list by `below`. */
typedef struct tn__search_conflict {
    uint32_t other;
    uint64_t above, below;
} tn__search_conflict;

typedef struct tn__search_piece {
    uint32_t first, last; /* the piece is live in the time slots [first, last) */
    uint64_t lo, hi;      /* range of bytes of the piece, relative to the buffer's offset */
} tn__search_piece;

typedef struct tn__search_body {
    uint64_t size;      /* highest end of its pieces; positive */
    uint64_t alignment; /* alignment of the buffer's offset, in units, at least 1 */
    uint64_t pin;       /* offset at which the buffer is pinned; TN__SEARCH_FREE: not pinned */
    /* length of the live range in the caller's time, and its product with the bytes; used only by
     * orders */
    uint64_t span, area;
    /* the live range lies within the time slots [first, last), gaps included */
    uint32_t first, last;
    uint32_t piece_first, piece_count;
    uint32_t conflict_first, conflict_count;
} tn__search_body;
#define TN__SEARCH_FREE UINT64_MAX
#define TN__SEARCH_WIDE (UINT32_MAX - 1)

typedef struct tn__search_input {
    uint32_t count, slot_count;
    const tn__search_body *bodies;
    const tn__search_piece *pieces;
    const tn__search_conflict *conflicts;
    /* every conflict is exactly "one buffer lies above the other", so a search that finds no
     * placement proves that none exists */
    bool complete;
    /* some conflicts are between buffers that share no time slot, so the search neither splits the
     * problem into components nor orders equal buffers (twins) */
    bool crosses;
    /* buffers of equal pieces may differ in their conflicts, so the search does not order equal
     * buffers (twins) */
    bool unlike;
} tn__search_input;

/* A static order of the buffers, given as a word of letters, which are keys, each descending (as in
 * MiniMalloc): A area, T largest total of a slot in which it is live, W length of the live range, Z
 * size, L start, U end, O conflicts.
 *
 * window  shuffling: a buffer may move past at most this number of next buffers; 0: none
 * seed    of the shuffling
 * width   if at most this number of buffers can fill a slot without slack, the search decides that
 *         first; 2 suits problems with free memory, TN__SEARCH_WIDE perfect packings
 */
typedef struct tn__search_order {
    const char *keys;
    uint64_t seed;
    uint32_t window, width;
} tn__search_order;

typedef enum tn__search_outcome {
    TN__SEARCH_FOUND, /* a placement was found; its offsets are in the array of the caller */
    TN__SEARCH_NONE,  /* proved, if input->complete: no placement exists within the capacity */
    TN__SEARCH_LIMIT, /* the node limit was reached, or `poll` asked to stop */
    TN__SEARCH_NO_MEMORY
} tn__search_outcome;

/* A function that is called every TN__SEARCH_POLL nodes (sooner for large nodes) and returns
 * whether to continue; NULL: always continue. */
#define TN__SEARCH_POLL 256u
typedef struct tn__search_poll {
    bool (*go_on)(void *self);
    void *self;
} tn__search_poll;

/* Sorts a buffer's list of conflicts by `below`, as the search requires. */
void tn__search_sort(tn__search_conflict *conflicts, uint32_t count);

typedef struct tn__search tn__search;

/* Makes the state of a search, for one thread at a time; NULL if memory is exhausted. `input` must
 * outlive it. */
tn__search *tn__search_create(const tn_context *context, const tn__search_input *input);
void tn__search_destroy(tn__search *search);

/* Searches for offsets with every end <= capacity.
 *
 * node_limit  limit of visited search nodes; *nodes receives the number visited
 * poll        called repeatedly; the search ends with LIMIT if it returns false
 * offsets     [count], written only for the outcome FOUND
 *
 * Memory: O(buffers + conflicts + slots); it grows with the depth of decompositions.
 */
tn__search_outcome tn__search_decide(tn__search *search, tn__search_order order, uint64_t capacity,
                                     uint64_t node_limit, tn__search_poll poll, uint64_t *offsets,
                                     uint64_t *nodes);

/* --- windows: whether the buffers in a few slots fit, a bound for the whole problem --- */

/* Runs tn__search_decide on the buffers in slots [from, to), with pieces cut off at both ends. NONE
 * is a proof for all of `input` if `input` is complete; FOUND says nothing about other slots.
 * *nodes: number of nodes visited. NO_MEMORY if the problem of the window cannot be set up. Cost:
 * O(buffers + their conflicts), and the search. */
tn__search_outcome tn__window_decide(const tn_context *context, const tn__search_input *input,
                                     uint32_t from, uint32_t to, tn__search_order order,
                                     uint64_t capacity, uint64_t node_limit, tn__search_poll poll,
                                     uint64_t *nodes);

/* --- cliques: a lower bound of the reuse cost from buffers that do not fit side by side --- */

/* limit of buffers, because tn__clique_bound keeps a table of all pairs */
#define TN__CLIQUE_BODIES 2048u
#define TN__CLIQUE_HARD UINT64_MAX

/* A pair of plain buffers that must not share bytes (cost TN__CLIQUE_HARD), or that adds `cost` if
 * it does. The costs of a pair that is given several times add up. */
typedef struct tn__clique_pair {
    uint32_t a, b;
    uint64_t cost;
} tn__clique_pair;

typedef struct tn__cliques {
    const tn_run_body *bodies; /* [count] */
    uint32_t count;
    /* [pair_count], pairs of buffers that must not share bytes, or pay for it */
    const tn__clique_pair *pairs;
    size_t pair_count;
    uint64_t usable;   /* bytes of the memory that buffers may use */
    uint32_t attempts; /* number of sets that are tried; each is a unit of work */
    uint64_t seed;
} tn__cliques;

/* Raises *bound to a proved lower bound of the cost. Returns E_STOPPED if a limit of the run is
 * reached, and E_NO_MEMORY. */
tn_status tn__clique_bound(tn_run *run, const tn__cliques *given, uint64_t *bound);

#endif
