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
    tn_op op; /* lists are the draft's own; `inputs` may be written through tn__draft_set */
    const tn_op_rule *rule; /* the registry's entry for it, or NULL */
    uint32_t at, sub;       /* place in the order of operators: `at`, then `sub` */
    tn_op_id made;          /* the operator in the new graph */
    bool gone;
} tn__draft_op;

typedef struct tn__draft_tensor {
    tn_tensor tensor; /* shape and value as inferred, or as a rewrite says */
    tn_op_id producer;
    uint32_t uses; /* how often operators of block 0 read it */
    bool fixed;    /* output of the graph, or read from another block: it must be kept */
    /* The same contents channels last, where `tensor` lies in the order of its shape, or the other
     * way round; TN_NONE: nowhere yet. */
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
    const tn_pruning *pruning; /* NULL: none */
    bool keep_ids, keep_ops;   /* every tensor stays, and keeps its id; every operator stays */
    tn_error *error;
} tn__draft;

typedef struct tn__rewrite {
    const char *name, *summary;
    bool formats;         /* changes formats, nothing else */
    bool weights;         /* changes results: only with tn_rewrite_options.weights_dtype */
    bool pruning;         /* the same: only with tn_rewrite_options.pruning */
    bool before_training; /* its results have gradients; parameters stay what they are */
    bool in_training;     /* takes nothing as known that training changes (tn__draft_is_known) */
    /* Called for each operator `id` of block 0 that is not gone; it may rewrite the graph there. */
    tn_status (*each)(tn__draft *draft, tn_op_id id);
    /* Instead: all at once. */
    tn_status (*all)(tn__draft *draft);
} tn__rewrite;

/* --- from graph to graph: rewrite.c --- */
/* Fills a draft with `graph`, `context`, `keep`, `error` set and its arena ready. */
tn_status tn__draft_begin(tn__draft *draft);
/* A graph of the draft, inferred. */
tn_status tn__draft_graph(tn__draft *draft, tn_graph **graph);
void tn__draft_end(tn__draft *draft); /* frees its lists and its arena */

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
/* The operator that computes input `index` of `id`, when it is of that type (NULL: any); TN_NONE.
 */
tn_op_id tn__draft_producer(const tn__draft *draft, tn_op_id id, uint32_t index, const char *type);
/* The same if the tensor has no other reader. */
tn_op_id tn__draft_only(const tn__draft *draft, tn_op_id id, uint32_t index, const char *type);
/* Input `index`, or TN_NONE. */
tn_tensor_id tn__draft_input(const tn__draft *draft, tn_op_id id, uint32_t index);
bool tn__draft_is_static(const tn__draft *draft, tn_tensor_id id); /* TN_NONE: false */
/* Whether the tensor is static and no operator changes it: then results of it may be computed at
 * set-up. */
bool tn__draft_is_known(const tn__draft *draft, tn_tensor_id id);
/* A single known number, of any rank. */
bool tn__draft_number(const tn__draft *draft, tn_tensor_id id, double *number);
/* Whether the tensor is a single known number equal to `number` within float32's precision. */
bool tn__draft_is_number(const tn__draft *draft, tn_tensor_id id, double number);
/* The dimension of input 1 of a convolution or product that corresponds to the result's channels;
 * false: it is not static float32, or the operator is another one. */
bool tn__draft_weights_axis(const tn__draft *draft, tn_op_id id, uint32_t *axis);
/* A static vector of `count` elements and rank 1. */
bool tn__draft_is_row(const tn__draft *draft, tn_tensor_id id, int64_t count);
/* What Add adds as a row over the last axis to *x, of its result's shape; TN_NONE: it is no such
 * Add. `add` may be TN_NONE. */
tn_tensor_id tn__draft_row_of(const tn__draft *draft, tn_op_id add, tn_tensor_id *x);
bool tn__draft_same_shape(const tn__draft *draft, tn_tensor_id a, tn_tensor_id b);
/* A float of 16 or 32 bits, extents known and exact. */
bool tn__draft_is_float(const tn__draft *draft, tn_tensor_id id);
/* float32, the same. */
bool tn__draft_is_exact(const tn__draft *draft, tn_tensor_id id);

/* --- changing --- */

/* A new tensor that an operator will compute. `name` need not be unique; shape is copied. */
tn_status tn__draft_add_tensor(tn__draft *draft, const char *name, tn_dtype dtype, uint32_t rank,
                               const int64_t *shape, tn_tensor_id *id);
/* A known constant of `count` numbers: rank 1, or a scalar for count 0. */
tn_status tn__draft_add_floats(tn__draft *draft, const char *name, const double *numbers,
                               uint32_t count, tn_tensor_id *id);
tn_status tn__draft_add_ints(tn__draft *draft, const char *name, const int64_t *numbers,
                             uint32_t count, tn_tensor_id *id);
/* A new operator of ONNX's opset 13 on static tensors, right before `before`: it is computed at
 * set-up. *id is its output, float32 of this shape. */
tn_status tn__draft_fold(tn__draft *draft, tn_op_id before, const char *type,
                         const tn_tensor_id *inputs, uint32_t input_count, uint32_t rank,
                         const int64_t *shape, tn_tensor_id *id);
/* A new operator of one output, right before `before`. Its lists are copied. */
tn_status tn__draft_add_op(tn__draft *draft, tn_op_id before, const tn_op *like, tn_op_id *id);
/* Lets `id`, which has one output, compute another tensor instead. The old tensor then has no
 * producer: the caller must give it one. */
void tn__draft_divert(tn__draft *draft, tn_op_id id, tn_tensor_id output);
/* Makes `id` another operator on other inputs; outputs, name and block stay, and attributes where
 * `attrs` is NULL. */
tn_status tn__draft_become(tn__draft *draft, tn_op_id id, const char *domain, const char *type,
                           uint32_t version, const tn_tensor_id *inputs, uint32_t input_count,
                           const tn_attr *attrs, uint32_t attr_count);
/* Lets `id` read another tensor. */
void tn__draft_set(tn__draft *draft, tn_op_id id, uint32_t index, tn_tensor_id tensor);

/* Removes an operator without readers. */
void tn__draft_remove(tn__draft *draft, tn_op_id id);

/* Attributes of an operator with some replaced or added, in the draft's memory. NULL: no memory. */
const tn_attr *tn__draft_attrs(tn__draft *draft, const tn_op *from, const tn_attr *more,
                               uint32_t more_count, uint32_t *count);

/* --- fused operators: conventions for the operators after a product --- */

/* Whether `id` is a convolution or product without an activation, which may still take one. */
bool tn__draft_is_open(const tn__draft *draft, tn_op_id id);
/* Makes `id`, a Conv, MatMul or Gemm, the operator of domain "tenure" that does the same, if it is
 * not yet. *done false: it has no such form. */
tn_status tn__draft_open(tn__draft *draft, tn_op_id id, bool *done);
/* `last`, the only reader of `first`, takes over its computation: type, inputs, attributes. */
tn_status tn__draft_take_over(tn__draft *draft, tn_op_id last, tn_op_id first);

#endif
