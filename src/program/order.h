/* order.h - what choosing an order of operators needs to know of a block, and the words for it.
 *
 * A model is a block seen by memory alone. A node is an operator. An item is a range of bytes that
 * lives as one: from the step of its maker to the last step of its users. Views have joined their
 * sources already, which no order changes; a node may take the bytes of items for an output when
 * it is their last user. Live bytes after a set of nodes has run do not depend on the order within
 * the set:
 *
 *     M(D) = bytes of the items whose maker is in D (or that were there) and that somebody outside
 *            D, or after the block, still uses
 *     cost(p | D) = M(D) + what p makes + what p works in - what p takes over
 *
 * and an order costs as much as its worst step. M is submodular: M(A or B) + M(A and B) <=
 * M(A) + M(B). What is said to be safe in these files follows from that.
 */
#ifndef TN_PROGRAM_ORDER_H
#define TN_PROGRAM_ORDER_H

#include "program/program.h"

#define ORDER_NONE UINT32_MAX

typedef struct tn__order_item {
    uint64_t bytes;       /* aligned */
    uint32_t maker;       /* node; ORDER_NONE: there before the block begins */
    uint32_t first, last; /* model->users[first .. last): ascending, each once */
    bool kept;            /* lives beyond the block */
} tn__order_item;

/* A node may write `bytes` of an output over items [first .. last), as their last user. */
typedef struct tn__order_take {
    uint64_t bytes;
    uint32_t output; /* takes of one output are neighbours: one of them counts */
    uint32_t first, last;
} tn__order_take;

typedef struct tn__order_model {
    const tn_context *context;
    tn__arena arena; /* holds everything */
    uint32_t count, item_count;
    const tn_op_id *ops;   /* [count] node -> operator, in file order: a topological one */
    uint64_t *scratch;     /* [count] bytes that live during the node's step only */
    tn__order_item *items; /* by maker, those that were there before first */
    uint32_t *users;
    uint32_t *made_at;        /* [count + 1] items[made_at[p] .. made_at[p + 1]) are made by p */
    uint32_t *used_at, *used; /* [count + 1], items by user */
    uint32_t *before_at, *before; /* [count + 1], nodes that must have run */
    uint32_t *after_at, *after;
    uint32_t *take_at; /* [count + 1] */
    tn__order_take *takes;
    uint64_t start;   /* M of the empty set */
    uint64_t floor;   /* no order costs less: while inputs arrive, and when all has run */
    uint64_t largest; /* no cost exceeds it: the sum of everything */
} tn__order_model;

/* order_model.c. Errors: E_INVALID when sizes overflow, E_NO_MEMORY. Release in any case.
 * `folded` operators are no nodes. Cost: O(operands log operands). */
tn_status tn__order_model_make(const tn_order_task *task, tn__order_model *model, tn_error *error);
void tn__order_model_release(tn__order_model *model);

/* --- order_walk.c: orders as arrays of nodes -------------------------------------------------- */

/* The state of a walk: which items live, how many users of each are still to run. */
typedef struct tn__order_walk {
    const tn__order_model *model;
    uint32_t *left;    /* [items] users to run, plus one when kept */
    uint32_t *waiting; /* [nodes] of those before it, not run yet; UINT32_MAX: has run */
    uint64_t live;
} tn__order_walk;

bool tn__order_walk_make(tn__order_walk *walk, const tn__order_model *model);
void tn__order_walk_release(tn__order_walk *walk);
void tn__order_walk_reset(tn__order_walk *walk);
uint64_t tn__order_cost(const tn__order_walk *walk, uint32_t node); /* of running it now */
/* Live bytes after it minus before it, if it ran now; may be negative. */
int64_t tn__order_net(const tn__order_walk *walk, uint32_t node);
void tn__order_step(tn__order_walk *walk, uint32_t node);
void tn__order_undo(tn__order_walk *walk, uint32_t node); /* of the last step */

/* Costs of all steps into costs[count] (may be NULL); returns the largest. */
uint64_t tn__order_costs(tn__order_walk *walk, const uint32_t *order, uint64_t *costs);
/* Moves forward every step that frees as much as it makes and stays within `limit`, as far as it
 * goes; never costs more than before or `limit`. `spare`: [count]. */
void tn__order_early(tn__order_walk *walk, uint32_t *order, uint32_t *spare, uint64_t limit);
/* The mirror image: moves back what makes as much as it frees. */
void tn__order_late(tn__order_walk *walk, uint32_t *order, uint32_t *spare, uint64_t limit);
/* Always the cheapest that can run: free steps first, then the least growth. */
bool tn__order_greedy(tn__order_walk *walk, uint32_t *order, uint64_t limit);

/* order_segments.c: hills and valleys of the ways ahead, merged. About `work` steps. False: out of
 * memory. */
bool tn__order_segments(tn__order_walk *walk, uint32_t *order, uint64_t work);

/* --- order_cut.c: the cheapest moment for a node -------------------------------------------------
 */

/* The least cost(p | D) over all sets D that may have run before p: no order costs less. `inside`
 * ([count]) receives such a D: the smallest or the largest of them.
 * Cost: a maximum flow over nodes, items and operands; false when memory or `*work` runs out. */
bool tn__order_cut(const tn__order_model *model, uint32_t node, bool largest, uint8_t *inside,
                   uint64_t *bound, uint64_t *work);

/* --- order_search.c
 * ---------------------------------------------------------------------------------- */

typedef struct tn__order_result {
    uint64_t peak, bound; /* of live bytes; equal: proved least */
    uint64_t states;
} tn__order_result;

/* Complete search below order's own peak: order[] is replaced when there is a better one, the bound
 * raised by what the search has excluded. Ends at `limit` states or `work` steps looked at.
 * Errors: E_NO_MEMORY. */
tn_status tn__order_exact(tn__order_walk *walk, uint32_t *order, tn__order_result *result,
                          uint64_t limit, uint64_t work, tn_error *error);
/* The best `width` states per step, below order's own peak; gives up after `work` steps looked at.
 */
tn_status tn__order_beam(tn__order_walk *walk, uint32_t *order, tn__order_result *result,
                         uint32_t width, uint64_t work, tn_error *error);
/* Nodes that could run at a step of this order, on average: how wide the graph is. */
uint32_t tn__order_width(tn__order_walk *walk, const uint32_t *order);

#endif
