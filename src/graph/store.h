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

/* The lower bounds of a tensor that is not exact. */
typedef struct tn__loose {
    const int64_t *low; /* [rank] lower bounds of the extents; NULL: the shape is exact */
    /* upper and lower bounds of the values, element by element; NULL: no bounds */
    const tn_value *most, *least;
} tn__loose;

/* the facts about a tensor as the builder of the graph gave them, before inference */
typedef struct tn__origin {
    const int64_t *shape;
    const tn_value *value;
    uint32_t rank, flags;
    tn_dtype dtype;
    tn_kind kind;
    /* bounds that inference has found; NULL: everything about the tensor is exact */
    tn__loose *loose;
    bool formal; /* true: the tensor is an input of a block other than block 0 */
    /* true: the value was found by an operator with TN_RULE_ROUGH, or from such a value; it is
     * forgotten at the end of inference */
    bool rough;
} tn__origin;

typedef struct tn__graph_block {
    tn_block view;
    tn_op_id *ops;
    tn_tensor_id *inputs, *outputs;
    size_t op_room, input_room, output_room;
    bool tried; /* true: the block counts as dead if its inference fails */
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
    /* A cache of the last operator types that were looked up, because models repeat a few types
     * thousands of times. */
    struct {
        const char *domain, *type;
        const tn_op_rule *rule;
    } recent[64];
};

static inline const char *tn__graph_text(const char *text) { return text ? text : ""; }

/* The specification of a tensor as its builder gave it, for adding it to another graph. It points
 * into this graph. */
tn_tensor_spec tn__graph_spec(const tn_graph *graph, tn_tensor_id id);
/* Add a constant without a name: a scalar of type `dtype`, an int64 scalar, or a list of int64. */
tn_status tn__graph_add_number(tn_graph *graph, tn_dtype dtype, double number, tn_tensor_id *id,
                               tn_error *error);
tn_status tn__graph_add_integer(tn_graph *graph, int64_t number, tn_tensor_id *id, tn_error *error);
tn_status tn__graph_add_list(tn_graph *graph, const int64_t *list, uint32_t count, tn_tensor_id *id,
                             tn_error *error);
/* The specification of an existing operator, for adding it to another graph. It points into the
 * operator. */
tn_op_spec tn__graph_op_spec(const tn_op *op);

/* Sorts every block topologically, and checks that operators read only tensors of their own block
 * and of the blocks around it. */
tn_status tn__graph_order(tn_graph *graph, tn_error *error);

/* The block around `block`; TN_NONE for block 0 and for blocks without an owner. */
static inline tn_block_id tn__block_parent(const tn_graph *graph, tn_block_id block) {
    tn_op_id owner = graph->blocks[block].view.owner;
    return owner == TN_NONE ? TN_NONE : graph->ops[owner].block;
}

/* Sets `where` to "node 'name' (Type)", or to "node #ID (Type)" if the operator has no name, unless
 * `where` is already set. Returns `status`. */
tn_status tn__op_where(const tn_graph *graph, tn_op_id op, tn_error *error, tn_status status);

/* Returns the lower bounds of a tensor, and creates them if they do not exist yet. NULL: out of
 * memory. */
tn__loose *tn__loose_of(tn_graph *graph, tn_tensor_id id);
static inline bool tn__is_loose(const tn_graph *graph, tn_tensor_id id) {
    return graph->origins[id].loose && graph->origins[id].loose->low;
}
/* Gives a tensor of known extents the lower bounds `low` (NULL: all 0). Sets TN_TENSOR_BOUND if
 * they differ from the extents, and otherwise clears it. */
tn_status tn__loosen(tn_graph *graph, tn_tensor_id id, const int64_t *low, tn_error *error);
/* Finds the lower bounds of the outputs' extents, after a rule's `shape` has run. */
tn_status tn__loosen_outputs(tn_infer *infer, const tn_op_rule *rule);
/* Runs a rule's `fold`; runs it twice if values of its inputs are bounds, or if it computes with
 * the inputs' extents and those are bounds. */
tn_status tn__loosen_fold(tn_infer *infer, const tn_op_rule *rule);

/* Computes `bytes` of a tensor; TN_SIZE_UNKNOWN if its type or an extent is unknown. Errors:
 * E_INVALID (overflow). */
tn_status tn__settle_size(tn_graph *graph, tn_tensor_id id, tn_error *error);

/* The private state of the driver, in tn_infer.state; NULL if a rule is called only to answer a
 * question. */
struct infer_state {
    struct infer_frame *frames; /* blocks that are being inferred, outermost first */
    size_t frame_room;
    uint32_t frame_count;
    uint64_t steps_left;
    /* error of the last block that failed and was allowed to fail (a branch of an If) */
    tn_error caught;
    bool saw_bound; /* true: the rule that is running has read a bound as values */
    /* [inputs] when the rule runs a second time: the inputs with their lower bounds; otherwise
     * NULL */
    const tn_tensor *low;
    uint64_t *axes; /* [outputs] axes that the rule has marked as bounds; NULL: not tracked */
    bool no_memory; /* true: memory ran out in a function that returns no status */
    char *scratch;  /* TN__SCRATCH_SIZE bytes, reused by every operator */
    size_t scratch_used;
    tn__arena overflow; /* scratch memory beyond TN__SCRATCH_SIZE; freed after each operator */
    bool overflowed;
    /* the new batch, if it differs from that of the file; otherwise NULL */
    struct tn__rebatch *rebatch;
};
#define TN__SCRATCH_SIZE ((size_t)64 * 1024)

#endif
