/* store.h - the storage of a graph: flat arrays by id; names, shapes, lists and values in two
 * arenas.
 *
 * The builder's facts are kept apart from the results of inference, so that tn_graph_infer starts
 * from the same facts each time: `origins` and the arena `said` belong to the builder, the arena
 * `found` to the last inference. Shapes are never written in place: many tensors share one array.
 */
#ifndef TN_GRAPH_STORE_H
#define TN_GRAPH_STORE_H

#include "graph/op.h"

/* Lower bounds of a tensor that is not exact. */
typedef struct tn__loose {
    const int64_t *low;           /* [rank] least extents; NULL: the shape is exact */
    const tn_value *most, *least; /* contents lie between these, element by element; or NULL */
} tn__loose;

typedef struct tn__origin { /* a tensor as its builder gave it */
    const int64_t *shape;
    const tn_value *value;
    uint32_t rank, flags;
    tn_dtype dtype;
    tn_kind kind;
    tn__loose *loose; /* found; NULL: nothing about it is a bound */
    bool formal;      /* an input of a block other than 0 */
} tn__origin;

typedef struct tn__graph_block {
    tn_block view;
    tn_op_id *ops;
    tn_tensor_id *inputs, *outputs;
    size_t op_room, input_room, output_room;
    bool tried; /* dead if it does not type */
} tn__graph_block;

struct tn_graph {
    tn_context context;
    tn__arena said, found;
    tn_tensor *tensors;
    tn__origin *origins;
    tn_op *ops;
    const tn_op_rule **rules; /* rule of each operator; NULL: the registry has no rule */
    tn__graph_block *blocks;
    size_t tensor_room, origin_room, op_room, rule_room, block_room;
    uint32_t tensor_count, op_count, block_count;
    bool rules_win; /* infer.h */
    /* The last operator types looked up: models repeat a few types thousands of times. */
    struct {
        const char *domain, *type;
        const tn_op_rule *rule;
    } recent[64];
};

static inline const char *tn__graph_text(const char *text) { return text ? text : ""; }

/* A tensor as its builder gave it, to be added to another graph; borrows from this one. */
tn_tensor_spec tn__graph_spec(const tn_graph *graph, tn_tensor_id id);
/* The specification of an existing operator, in the same way. */
tn_op_spec tn__graph_op_spec(const tn_op *op);

/* Sorts every block topologically and checks that names are in scope. */
tn_status tn__graph_order(tn_graph *graph, tn_error *error);

/* The block around `block`; TN_NONE for block 0 and for blocks without an owner. */
static inline tn_block_id tn__block_parent(const tn_graph *graph, tn_block_id block) {
    tn_op_id owner = graph->blocks[block].view.owner;
    return owner == TN_NONE ? TN_NONE : graph->ops[owner].block;
}

/* Sets `where` to "node 'name' (Type)" and returns `status`. */
tn_status tn__op_where(const tn_graph *graph, tn_op_id op, tn_error *error, tn_status status);

/* The lower bounds of a tensor, made if they do not exist yet. NULL: out of memory. */
tn__loose *tn__loose_of(tn_graph *graph, tn_tensor_id id);
static inline bool tn__is_loose(const tn_graph *graph, tn_tensor_id id) {
    return graph->origins[id].loose && graph->origins[id].loose->low;
}
/* Gives a tensor of known extents the least extents `low` (NULL: all 0), and the flag if they
 * differ.
 */
tn_status tn__loosen(tn_graph *graph, tn_tensor_id id, const int64_t *low, tn_error *error);
/* After a rule's shape: finds the least extents of the outputs. */
tn_status tn__loosen_outputs(tn_infer *infer, const tn_op_rule *rule);
/* Runs a rule's fold, twice where contents are bounds. */
tn_status tn__loosen_fold(tn_infer *infer, const tn_op_rule *rule);

/* Computes `bytes`, TN_SIZE_UNKNOWN where something is not known. Errors: E_INVALID (overflow). */
tn_status tn__settle_size(tn_graph *graph, tn_tensor_id id, tn_error *error);

/* The driver's own state, in tn_infer.state; NULL if a rule only answers a question. */
struct infer_state {
    struct infer_frame *frames; /* blocks under way, outermost first */
    size_t frame_room;
    uint32_t frame_count;
    uint64_t steps_left;
    tn_error caught;      /* the last error of a branch that never runs */
    bool saw_bound;       /* the rule in hand was given a bound as contents */
    const tn_tensor *low; /* [inputs] with least extents, in the second run; else NULL */
    uint64_t *axes;       /* [outputs] axes that the rule marked as bounds; NULL: not marked */
    bool no_memory;       /* where a rule's call has no status to say so */
    char *scratch;        /* TN__SCRATCH_SIZE bytes, reused by every operator */
    size_t scratch_used;
    tn__arena overflow; /* scratch beyond that; emptied after the operator */
    bool overflowed;
    struct tn__rebatch *rebatch; /* another batch than the file's; NULL: the file's */
};
#define TN__SCRATCH_SIZE ((size_t)64 * 1024)

#endif
