/* rewrite.h - the draft, an editable graph on which the rewrites in rewrites/ work.
 *
 * A draft holds the tensors and operators of an inferred graph, and those that rewrites add.
 * Tensors and operators of the graph keep their ids, new ones follow. Only operators of block 0 are
 * rewritten; operators of other blocks are copied unchanged, and tensors that they read count as
 * read.
 *
 * A rewrite looks at one operator after the other, in order, and recognises a pattern that ENDS
 * there: it walks to the producers of its inputs. Then it turns that last operator into the new
 * one, which keeps the outputs, and detaches it from the others; operators without readers are left
 * out at the end.
 *
 * A rewrite is ONE file in rewrites/ that defines `const tn__rewrite tn__rewrite_<name>`, plus one
 * line in rewrites.def, in the order in which they run.
 */
#ifndef TN_REWRITE_REWRITE_H
#define TN_REWRITE_REWRITE_H

#include <tenure/rewrite.h>

#include "graph/op.h"

typedef struct tn__draft_op {
    /* the operator's lists belong to the draft; `inputs` is changed only through tn__draft_set */
    tn_op op;
    const tn_op_rule *rule; /* the registry's entry for the operator, or NULL */
    /* position in the order of operators, which are sorted by `at`, then by `sub` */
    uint32_t at, sub;
    tn_op_id made; /* the corresponding operator in the new graph */
    bool gone;
} tn__draft_op;

typedef struct tn__draft_tensor {
    tn_tensor tensor; /* shape and value as inferred, or as set by a rewrite */
    tn_op_id producer;
    uint32_t uses; /* number of times that operators of block 0 read the tensor */
    /* true: the tensor must be kept, because it is an output of the graph or another block reads
     * it */
    bool fixed;
    /* A tensor with the same elements in the other format: channels last if `tensor` lies in the
     * order of its shape, and vice versa. TN_NONE: not made yet. */
    tn_tensor_id twin;
} tn__draft_tensor;

typedef struct tn__draft {
    const tn_graph *graph;
    tn_context context;
    tn__arena arena;
    tn__draft_tensor *tensors;
    tn__draft_op *ops;
    size_t tensor_room, op_room;
    uint32_t tensor_count, op_count;
    const tn_pruning *pruning; /* NULL: no weights are pruned */
    /* keep_ids: every tensor stays and keeps its id. keep_ops: every operator stays. */
    bool keep_ids, keep_ops;
    tn_error *error;
} tn__draft;

typedef struct tn__rewrite {
    const char *name, *summary;
    bool formats; /* true: the rewrite changes formats and nothing else */
    /* true: the rewrite changes results; it runs only with tn_rewrite_options.weights_dtype */
    bool weights;
    /* true: the rewrite changes results; it runs only with tn_rewrite_options.pruning */
    bool pruning;
    /* true: the rewrite may run before gradients are added: its results have gradients, and
     * parameters stay parameters */
    bool before_training;
    /* true: the rewrite may run on training graphs: it does not rely on values that training
     * changes (tn__draft_is_known) */
    bool in_training;
    /* Called for each operator `id` of block 0 that has not been removed; it may rewrite the graph
     * there. */
    tn_status (*each)(tn__draft *draft, tn_op_id id);
    /* Called once for the whole graph, for rewrites without `each`. */
    tn_status (*all)(tn__draft *draft);
} tn__rewrite;

/* --- making a draft of a graph and a graph of a draft: rewrite.c --- */
/* Fills a draft, in which `graph`, `context`, `keep_ids`, `keep_ops`, `error` and the arena are
 * already set. */
tn_status tn__draft_begin(tn__draft *draft);
/* Makes an inferred graph of the draft. */
tn_status tn__draft_graph(tn__draft *draft, tn_graph **graph);
void tn__draft_end(tn__draft *draft); /* frees the draft's lists and its arena */

/* --- looking --- */
static inline const tn_op *tn__draft_op_of(const tn__draft *draft, tn_op_id id) {
    return &draft->ops[id].op;
}
static inline const tn_tensor *tn__draft_tensor_of(const tn__draft *draft, tn_tensor_id id) {
    return &draft->tensors[id].tensor;
}
/* Whether the operator has this type in ONNX's own domain, or in the domain "tenure" if `type`
 * begins with "tenure.". */
static inline bool tn__draft_is(const tn__draft *draft, tn_op_id id, const char *type) {
    return tn__op_is(&draft->ops[id].op, type);
}
/* Whether the operator's rule has one of these flags (TN_RULE_*). */
static inline bool tn__draft_has(const tn__draft *draft, tn_op_id id, uint32_t flags) {
    return draft->ops[id].rule != NULL && (draft->ops[id].rule->flags & flags) != 0;
}
/* Returns the operator that computes input `index` of `id` if it is in the main block and has the
 * given type (NULL: any type); otherwise TN_NONE. */
tn_op_id tn__draft_producer(const tn__draft *draft, tn_op_id id, uint32_t index, const char *type);
/* Returns the operator that computes input `index` of `id` if it has the given type (NULL: any
 * type) and a single result, which nothing else reads; otherwise TN_NONE. */
tn_op_id tn__draft_only(const tn__draft *draft, tn_op_id id, uint32_t index, const char *type);
/* Returns input `index`; TN_NONE if it is absent. */
tn_tensor_id tn__draft_input(const tn__draft *draft, tn_op_id id, uint32_t index);
bool tn__draft_is_static(const tn__draft *draft, tn_tensor_id id); /* returns false for TN_NONE */
/* Whether the tensor is static and no operator changes it, so that results computed from it may be
 * computed at set-up. */
bool tn__draft_is_known(const tn__draft *draft, tn_tensor_id id);
/* Whether the tensor is a single number of known value, of any rank; returns it in *number. */
bool tn__draft_number(const tn__draft *draft, tn_tensor_id id, double *number);
/* Whether the tensor is a single known number that differs from `number` by at most 1e-5 of
 * `number`; 0 must be exactly 0. */
bool tn__draft_is_number(const tn__draft *draft, tn_tensor_id id, double number);
/* The dimension of input 1 of a convolution or product that corresponds to the result's channels;
 * false: input 1 is not static float32 with exact extents, or the operator is another one, or its
 * input 1 has no such dimension (groups of a transposed convolution, vectors). */
bool tn__draft_weights_axis(const tn__draft *draft, tn_op_id id, uint32_t *axis);
/* Whether the tensor is a static float32 vector of `count` elements with rank 1. */
bool tn__draft_is_row(const tn__draft *draft, tn_tensor_id id, int64_t count);
/* If operator `add` is an Add of a tensor *x and a row along the last axis, with a result of the
 * shape of *x, returns the row; otherwise TN_NONE. `add` may be TN_NONE. */
tn_tensor_id tn__draft_row_of(const tn__draft *draft, tn_op_id add, tn_tensor_id *x);
bool tn__draft_same_shape(const tn__draft *draft, tn_tensor_id a, tn_tensor_id b);
/* Whether the tensor has a floating type of 16 or 32 bits, and its extents are known and exact. */
bool tn__draft_is_float(const tn__draft *draft, tn_tensor_id id);
/* Whether the tensor is float32, and its extents are known and exact. */
bool tn__draft_is_exact(const tn__draft *draft, tn_tensor_id id);

/* --- changing --- */

/* Adds a tensor that an operator will compute. `name` need not be unique; `shape` is copied. */
tn_status tn__draft_add_tensor(tn__draft *draft, const char *name, tn_dtype dtype, uint32_t rank,
                               const int64_t *shape, tn_tensor_id *id);
/* Adds a known constant of `count` numbers with rank 1, or a scalar if `count` is 0. */
tn_status tn__draft_add_floats(tn__draft *draft, const char *name, const double *numbers,
                               uint32_t count, tn_tensor_id *id);
tn_status tn__draft_add_ints(tn__draft *draft, const char *name, const int64_t *numbers,
                             uint32_t count, tn_tensor_id *id);
/* Adds an operator of ONNX's opset 13 on static tensors, right before operator `before`; it is
 * computed at set-up. *id receives its output, which is float32 and has the given shape. */
tn_status tn__draft_fold(tn__draft *draft, tn_op_id before, const char *type,
                         const tn_tensor_id *inputs, uint32_t input_count, uint32_t rank,
                         const int64_t *shape, tn_tensor_id *id);
/* Adds an operator right before operator `before`. Its lists are copied. */
tn_status tn__draft_add_op(tn__draft *draft, tn_op_id before, const tn_op *like, tn_op_id *id);
/* Makes operator `id`, which has one output, compute another tensor instead. The old tensor then
 * has no producer, so the caller must give it one. */
void tn__draft_divert(tn__draft *draft, tn_op_id id, tn_tensor_id output);
/* Changes operator `id` to another type with other inputs. Outputs, name and block stay, and the
 * attributes stay if `attrs` is NULL. */
tn_status tn__draft_become(tn__draft *draft, tn_op_id id, const char *domain, const char *type,
                           uint32_t version, const tn_tensor_id *inputs, uint32_t input_count,
                           const tn_attr *attrs, uint32_t attr_count);
/* Makes operator `id` read another tensor as its input `index`. */
void tn__draft_set(tn__draft *draft, tn_op_id id, uint32_t index, tn_tensor_id tensor);

/* Removes an operator. No other operator may read its results. */
void tn__draft_remove(tn__draft *draft, tn_op_id id);

/* Copies the attributes of an operator into the draft's memory, with some of them replaced or
 * added. Returns NULL if memory runs out. */
const tn_attr *tn__draft_attrs(tn__draft *draft, const tn_op *from, const tn_attr *more,
                               uint32_t more_count, uint32_t *count);

/* --- operators that can apply a bias, a summand and activations to their result --- */

/* Whether `id` is a convolution or product without an activation, so that an activation can be
 * fused into it. */
bool tn__draft_is_open(const tn__draft *draft, tn_op_id id);
/* Changes operator `id`, a Conv, MatMul, TransposedMatMul or Gemm, to the equivalent operator of
 * domain "tenure", if it is not one already. *done becomes false if there is no equivalent. */
tn_status tn__draft_open(tn__draft *draft, tn_op_id id, bool *done);
/* Makes operator `last`, the only reader of `first`, do the computation of `first`: it takes over
 * its type, inputs and attributes. */
tn_status tn__draft_take_over(tn__draft *draft, tn_op_id last, tn_op_id first);

#endif
