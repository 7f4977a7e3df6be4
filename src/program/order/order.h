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
    uint64_t bytes; /* aligned */
    /* the node that makes the item; ORDER_NONE: it exists before the block begins */
    uint32_t maker;
    /* users of the item: model->users[first .. last), in ascending order, each once */
    uint32_t first, last;
    bool kept; /* the item is still needed after the block */
} tn__order_item;

/* A node may write `bytes` of an output over items [first .. last), as their last user. */
typedef struct tn__order_take {
    uint64_t bytes;
    /* all takes of one output are adjacent in the list; at most one of them is counted */
    uint32_t output;
    uint32_t first, last;
} tn__order_take;

typedef struct tn__order_model {
    const tn_context *context;
    tn__arena arena; /* owns all arrays of the model */
    uint32_t count, item_count;
    /* [count] the operator of each node. Nodes are numbered in file order, which is topological */
    const tn_op_id *ops;
    /* [count] bytes that are live only during the node's own step, such as scratch memory */
    uint64_t *scratch;
    /* the items, sorted by maker; items that existed before the block come first */
    tn__order_item *items;
    uint32_t *users;
    uint32_t *made_at; /* [count + 1] items[made_at[p] .. made_at[p + 1]) are made by p */
    /* [count + 1] used[used_at[p] .. used_at[p + 1]) are the items that node p uses */
    uint32_t *used_at, *used;
    /* [count + 1] before[before_at[p] .. before_at[p + 1]) are the nodes that must have run before
     * p */
    uint32_t *before_at, *before;
    uint32_t *after_at, *after;
    uint32_t *take_at; /* [count + 1] takes[take_at[p] .. take_at[p + 1]) are the takes of node p */
    tn__order_take *takes;
    uint64_t start; /* live bytes before any node has run: M of the empty set */
    /* lower bound of every order's peak: the live bytes while inputs arrive, and after all nodes
     * have run */
    uint64_t floor;
    uint64_t largest; /* upper bound of every order's peak: the sum of all bytes */
} tn__order_model;

/* model.c: makes the model of a block. `folded` operators are not nodes. Errors: E_INVALID if sizes
 * overflow, E_NO_MEMORY. The caller releases the model also after an error. Cost: O(operands log
 * operands). */
tn_status tn__order_model_make(const tn_order_task *task, tn__order_model *model, tn_error *error);
void tn__order_model_release(tn__order_model *model);

/* --- walk.c: orders as arrays of nodes -------------------------------------------------- */

/* The state while an order is walked step by step: the live items, and for each item the number of
 * users that have not run. */
typedef struct tn__order_walk {
    const tn__order_model *model;
    uint32_t *left; /* [items] number of users that have not run, plus one if the item is kept */
    /* [nodes] number of predecessors that have not run; UINT32_MAX: the node has run */
    uint32_t *waiting;
    uint64_t live;
} tn__order_walk;

bool tn__order_walk_make(tn__order_walk *walk, const tn__order_model *model);
void tn__order_walk_release(tn__order_walk *walk);
void tn__order_walk_reset(tn__order_walk *walk);
/* Returns the live bytes during the step of a node if it ran now. */
uint64_t tn__order_cost(const tn__order_walk *walk, uint32_t node);
/* Returns the live bytes after the step of a node minus those before it, if it ran now; may be
 * negative. */
int64_t tn__order_net(const tn__order_walk *walk, uint32_t node);
void tn__order_step(tn__order_walk *walk, uint32_t node);
/* undoes the last step, which ran `node` */
void tn__order_undo(tn__order_walk *walk, uint32_t node);

/* Walks through an order and returns the largest cost (live bytes) of a step, or model->floor if
 * that is larger; writes the cost of each step into costs[count] unless it is NULL. */
uint64_t tn__order_costs(tn__order_walk *walk, const uint32_t *order, uint64_t *costs);
/* Moves each step of an order forward as far as possible, if it frees at least the bytes that it
 * makes and costs at most `limit` there. The largest cost of a step does not rise above the larger
 * of `limit` and its previous value. `spare` [count] is working memory. */
void tn__order_early(tn__order_walk *walk, uint32_t *order, uint32_t *spare, uint64_t limit);
/* The reverse of tn__order_early: moves steps back that make at least the bytes they free. */
void tn__order_late(tn__order_walk *walk, uint32_t *order, uint32_t *spare, uint64_t limit);
/* Writes an order that first runs all ready nodes that free at least what they make and cost at
 * most `limit`, then the ready node with the least cost (live bytes), and so on. Returns false if
 * memory is exhausted. */
bool tn__order_greedy(tn__order_walk *walk, uint32_t *order, uint64_t limit);

/* walk.c: writes an order that merges the paths ahead of ready nodes, cut into segments of a hill
 * (rising live bytes) and a valley, in about `work` steps. Returns false if memory runs out. */
bool tn__order_segments(tn__order_walk *walk, uint32_t *order, uint64_t work);

/* --- cut.c: the cheapest moment for a node --- */

/* Computes the minimum of cost(p | D) over all sets D that may run before p: a lower bound of every
 * order's peak. `inside` ([count]) receives a set D with that cost: the smallest or the largest
 * one. Cost: a maximum flow over nodes, items and operands, and one more for each input that the
 * node's output may overwrite. Returns false if memory or `*work` runs out. */
bool tn__order_cut(const tn__order_model *model, uint32_t node, bool largest, uint8_t *inside,
                   uint64_t *bound, uint64_t *work);

/* --- search.c: complete search and beam search --- */

typedef struct tn__order_result {
    /* peak of live bytes and its lower bound; if both are equal, the peak is proved minimal */
    uint64_t peak, bound;
    uint64_t states;
} tn__order_result;

/* Searches completely for an order with a lower peak than `order`. A better order replaces order[],
 * and the bound rises to the peak below which the search has excluded all orders. The search ends
 * after `limit` states or `work` visited steps. Errors: E_NO_MEMORY. */
tn_status tn__order_exact(tn__order_walk *walk, uint32_t *order, tn__order_result *result,
                          uint64_t limit, uint64_t work, tn_error *error);
/* Beam search: keeps the best `width` states per step, all below the peak of `order`. A better
 * order replaces order[]. The search ends after `work` visited steps, or when it has stored too
 * many states. */
tn_status tn__order_beam(tn__order_walk *walk, uint32_t *order, tn__order_result *result,
                         uint32_t width, uint64_t work, tn_error *error);
/* The average number of nodes that are ready at a step of this order: a measure of the graph's
 * width. */
uint32_t tn__order_width(tn__order_walk *walk, const uint32_t *order);

/* --- orders/memory.c: all searches --- */

/* Finds an order of the nodes with a low peak. order[count] receives it, and `proof` its peak and
 * the largest lower bound that was proved; both are 0 if the sum of all sizes is too large for the
 * search. `lean`: among orders with this peak, prefer one with low memory at other steps, too.
 * Errors: E_NO_MEMORY. */
tn_status tn__order_search(const tn__order_model *model, uint64_t state_limit, bool lean,
                           uint32_t *order, tn_order_proof *proof, tn_error *error);

#endif
