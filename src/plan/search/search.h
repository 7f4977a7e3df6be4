/* search.h - decides whether a placement within a capacity exists; complete, deterministic, bounded
 * by nodes.
 *
 * Every exact planner asks this question repeatedly. A `tn__search_input` is made once per problem
 * and shared by all searches, also by several threads; a `tn__search` is the state of one search.
 * Lengths are in units of the greatest common divisor of all lengths that determine offsets, so
 * that fewer capacities are distinct.
 */
#ifndef TN_PLAN_SEARCH_SEARCH_H
#define TN_PLAN_SEARCH_SEARCH_H

#include "base/base.h"
#include "plan/frame/planner.h"

/* Two bodies that overlap in time: `other` starts at least `above` after this one's start, or this
 * one starts at least `below` after the start of `other`. Every conflict is in both lists; a list
 * ascends by `below`, see tn__search_sort. */
typedef struct tn__search_conflict {
    uint32_t other;
    uint64_t above, below;
} tn__search_conflict;

typedef struct tn__search_piece {
    uint32_t first, last; /* time slots [first, last) */
    uint64_t lo, hi;      /* window relative to the body's offset */
} tn__search_piece;

typedef struct tn__search_body {
    uint64_t size;      /* highest end of its pieces; > 0 */
    uint64_t alignment; /* in units, >= 1 */
    uint64_t pin;       /* offset, or TN__SEARCH_FREE */
    /* length of life in the caller's time, and its product with bytes: for orders only */
    uint64_t span, area;
    uint32_t first, last; /* hull in time slots */
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
    bool complete; /* every conflict is exactly "above or below", so a search may prove */
    bool crosses;  /* some conflicts are between bodies that share no slot: no parts, no twins */
    bool unlike;   /* bodies of equal pieces may differ in their conflicts: no twins */
} tn__search_input;

/* A static order of the bodies by a word of keys, each descending (MiniMalloc's letters):
 * A area, T largest total of a slot it lives in, W time slots, Z size, L start, U end,
 * O conflicts.
 *
 * window  shuffles: a body may fall behind up to so many of those that follow it; 0: not at all
 * seed    of the shuffle
 * width   where at most so many bodies can fill a slot without slack, the search decides that
 *         first; 2 suits problems with room to spare, TN__SEARCH_WIDE perfect packings */
typedef struct tn__search_order {
    const char *keys;
    uint64_t seed;
    uint32_t window, width;
} tn__search_order;

typedef enum tn__search_outcome {
    TN__SEARCH_FOUND, /* offsets are filled in */
    TN__SEARCH_NONE,  /* proved (input->complete): no placement within the capacity */
    TN__SEARCH_LIMIT, /* the node limit, or the poll, came first */
    TN__SEARCH_NO_MEMORY
} tn__search_outcome;

/* Asked every TN__SEARCH_POLL nodes, sooner for large nodes, whether to go on; NULL: always. */
#define TN__SEARCH_POLL 256u
typedef struct tn__search_poll {
    bool (*go_on)(void *self);
    void *self;
} tn__search_poll;

/* Sorts a body's conflicts as a search requires. */
void tn__search_sort(tn__search_conflict *conflicts, uint32_t count);

typedef struct tn__search tn__search;

/* State for one thread at a time; NULL when memory is out. `input` must outlive it. */
tn__search *tn__search_create(const tn_context *context, const tn__search_input *input);
void tn__search_destroy(tn__search *search);

/* Looks for offsets with every end <= capacity.
 *
 * node_limit  search nodes to visit at most; *nodes receives how many were
 * poll        asked now and then
 * offsets     [count], written only when FOUND
 * Memory: O(bodies + conflicts + slots), grows with the depth of decompositions. */
tn__search_outcome tn__search_decide(tn__search *search, tn__search_order order, uint64_t capacity,
                                     uint64_t node_limit, tn__search_poll poll, uint64_t *offsets,
                                     uint64_t *nodes);

/* --- windows: whether the bodies in a few slots fit, a bound for the whole problem --- */

/* Asks tn__search_decide about the bodies in slots [from, to), cut off at both ends. NONE is a
 * proof for all of `input` if it is complete; FOUND says nothing about other slots. *nodes: number
 * of nodes visited. NO_MEMORY if the part cannot be set up.
 * Cost: O(bodies + their conflicts), and the search.
 */
tn__search_outcome tn__window_decide(const tn_context *context, const tn__search_input *input,
                                     uint32_t from, uint32_t to, tn__search_order order,
                                     uint64_t capacity, uint64_t node_limit, tn__search_poll poll,
                                     uint64_t *nodes);

/* --- cliques: a lower bound of the reuse cost from bodies that do not fit side by side --- */

#define TN__CLIQUE_BODIES 2048u /* the search keeps a table of all pairs */
#define TN__CLIQUE_HARD UINT64_MAX

/* A pair of plain bodies that must not share bytes (TN__CLIQUE_HARD), or that pays `cost`. The
 * costs of a pair that is given several times add up. */
typedef struct tn__clique_pair {
    uint32_t a, b;
    uint64_t cost;
} tn__clique_pair;

typedef struct tn__cliques {
    const tn_run_body *bodies; /* [count] */
    uint32_t count;
    const tn__clique_pair *pairs; /* [pair_count] */
    size_t pair_count;
    uint64_t usable;   /* bytes of the memory */
    uint32_t attempts; /* sets that are tried; each is a unit of work */
    uint64_t seed;
} tn__cliques;

/* Raises *bound to a proved lower bound of the cost. E_STOPPED, E_NO_MEMORY as the run says. */
tn_status tn__clique_bound(tn_run *run, const tn__cliques *given, uint64_t *bound);

#endif
