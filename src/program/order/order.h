/* order.h - the model of a block that choosing an order of its operators needs.
 *
 * A model describes a block by its memory alone. A node is an operator. An item is a range of
 * bytes with one live range: from the step of its maker to the last step of its users. Views
 * have joined their sources already, which no order changes. A node may write an output over
 * items if it is their last user. After a set D of nodes has run, the live bytes do not depend
 * on the order within D:
 *
 *     M(D) = bytes of the items with a maker in D (or that existed before the block) and with a
 *            user outside D or after the block
 *     cost(p | D) = M(D) + outputs of p + workspace of p - bytes that p overwrites
 *
 * The cost of an order is its worst step. M is submodular: M(A or B) + M(A and B) <= M(A) +
 * M(B). All safety claims in these files follow from that.
 */
#ifndef TN_PROGRAM_ORDER_H
#define TN_PROGRAM_ORDER_H

#include "program/program.h"

#define ORDER_NONE UINT32_MAX

typedef struct tn__order_item {
    uint64_t bytes;       /* aligned */
    uint32_t maker;       /* node; ORDER_NONE: exists before the block begins */
    uint32_t first, last; /* model->users[first .. last): ascending, each once */
    bool kept;            /* still needed after the block */
} tn__order_item;

/* A node may write `bytes` of an output over items [first .. last), as their last user. */
typedef struct tn__order_take {
    uint64_t bytes;
    uint32_t output; /* takes of one output are neighbours: at most one of them counts */
    uint32_t first, last;
} tn__order_take;

typedef struct tn__order_model {
    const tn_context *context;
    tn__arena arena; /* owns all arrays */
    uint32_t count, item_count;
    const tn_op_id *ops;   /* [count] node -> operator, in file order, which is topological */
    uint64_t *scratch;     /* [count] bytes that live during the node's step only */
    tn__order_item *items; /* sorted by maker, those that existed before the block first */
    uint32_t *users;
    uint32_t *made_at;        /* [count + 1] items[made_at[p] .. made_at[p + 1]) are made by p */
    uint32_t *used_at, *used; /* [count + 1], items by user */
    uint32_t *before_at, *before; /* [count + 1], nodes that must have run */
    uint32_t *after_at, *after;
    uint32_t *take_at; /* [count + 1] */
    tn__order_take *takes;
    uint64_t start;   /* M of the empty set */
    uint64_t floor;   /* no order costs less: as inputs arrive, and after all nodes have run */
    uint64_t largest; /* no cost is larger: the sum of all bytes */
} tn__order_model;

/* model.c. Errors: E_INVALID when sizes overflow, E_NO_MEMORY. The caller releases the
 * model also after an error. `folded` operators are not nodes. Cost: O(operands log operands). */
tn_status tn__order_model_make(const tn_order_task *task, tn__order_model *model, tn_error *error);
void tn__order_model_release(tn__order_model *model);

/* --- walk.c: orders as arrays of nodes -------------------------------------------------- */

/* The state of a walk: the live items, and the number of users of each that have not run. */
typedef struct tn__order_walk {
    const tn__order_model *model;
    uint32_t *left;    /* [items] users that have not run, plus one when kept */
    uint32_t *waiting; /* [nodes] predecessors that have not run; UINT32_MAX: the node has run */
    uint64_t live;
} tn__order_walk;

bool tn__order_walk_make(tn__order_walk *walk, const tn__order_model *model);
void tn__order_walk_release(tn__order_walk *walk);
void tn__order_walk_reset(tn__order_walk *walk);
uint64_t tn__order_cost(const tn__order_walk *walk, uint32_t node); /* cost of running the node
                                                                     * now */
/* Live bytes after the node minus live bytes before it, if it ran now; may be negative. */
int64_t tn__order_net(const tn__order_walk *walk, uint32_t node);
void tn__order_step(tn__order_walk *walk, uint32_t node);
void tn__order_undo(tn__order_walk *walk, uint32_t node); /* undoes the last step */

/* Costs of all steps into costs[count] (may be NULL); returns the largest. */
uint64_t tn__order_costs(tn__order_walk *walk, const uint32_t *order, uint64_t *costs);
/* Moves every step forward that frees at least the bytes it makes and stays within `limit`, as
 * far as possible. The cost never exceeds the larger of `limit` and the cost before. `spare`:
 * [count]. */
void tn__order_early(tn__order_walk *walk, uint32_t *order, uint32_t *spare, uint64_t limit);
/* The mirror image: moves steps back that make at least the bytes they free. */
void tn__order_late(tn__order_walk *walk, uint32_t *order, uint32_t *spare, uint64_t limit);
/* Always runs the cheapest ready node: free steps first, then the least growth. */
bool tn__order_greedy(tn__order_walk *walk, uint32_t *order, uint64_t limit);

/* walk.c: merges the hills and valleys of the paths ahead, in about `work` steps.
 * False: out of memory. */
bool tn__order_segments(tn__order_walk *walk, uint32_t *order, uint64_t work);

/* --- cut.c: the cheapest moment for a node --- */

/* The least cost(p | D) over all sets D that may run before p: a lower bound of every order.
 * `inside` ([count]) receives such a D: the smallest or the largest of them. Cost: a maximum
 * flow over nodes, items and operands; false when memory or `*work` runs out. */
bool tn__order_cut(const tn__order_model *model, uint32_t node, bool largest, uint8_t *inside,
                   uint64_t *bound, uint64_t *work);

/* --- search.c: complete search and beam search --- */

typedef struct tn__order_result {
    uint64_t peak, bound; /* of live bytes; equal: proved minimal */
    uint64_t states;
} tn__order_result;

/* Complete search for orders with a lower peak than `order`. A better order replaces order[],
 * and the bound rises to the level that the search has excluded. Ends after `limit` states or
 * `work` visited steps. Errors: E_NO_MEMORY. */
tn_status tn__order_exact(tn__order_walk *walk, uint32_t *order, tn__order_result *result,
                          uint64_t limit, uint64_t work, tn_error *error);
/* Keeps the best `width` states per step, below order's own peak; ends after `work` visited
 * steps. */
tn_status tn__order_beam(tn__order_walk *walk, uint32_t *order, tn__order_result *result,
                         uint32_t width, uint64_t work, tn_error *error);
/* The average number of nodes that could run at a step of this order: the width of the graph. */
uint32_t tn__order_width(tn__order_walk *walk, const uint32_t *order);

/* --- orders/memory.c: all searches --- */

/* Finds an order of the nodes with a low peak. order[count] receives it, and `proof` its peak and
 * the largest lower bound that was proved; both are 0 if the sizes exceed every machine. `lean`:
 * among orders with this peak, prefer one with low memory at other steps, too. Errors:
 * E_NO_MEMORY. */
tn_status tn__order_search(const tn__order_model *model, uint64_t state_limit, bool lean,
                           uint32_t *order, tn_order_proof *proof, tn_error *error);

#endif
