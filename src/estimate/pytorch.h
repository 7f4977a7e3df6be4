/* pytorch.h - a training step as eager PyTorch runs it, in the making: what its files share.
 *
 *   pytorch.c            the step: what there is, loss, updates
 *   pytorch_forward.c    the forward pass, and copies of convolutions
 *   pytorch_backward.c   gradients, and what each operator has kept for them
 *   pytorch_rules.c      the table of what that is
 *   pytorch_view.c       strides: which operators of PyTorch only look at a tensor in another way
 */
#ifndef TN_ESTIMATE_PYTORCH_H
#define TN_ESTIMATE_PYTORCH_H

#include <tenure/estimate.h>

#include "graph/op.h"

typedef enum pytorch_how {
    PYTORCH_COMPUTE, /* gradients of the inputs are new */
    PYTORCH_SAME,    /* the same, element by element: strides stay */
    PYTORCH_PRODUCT, /* Mul, Div: needs the other input for each, and sums where it was broadcast
                      */
    PYTORCH_ADD,     /* the gradient of the output is that of the inputs */
    PYTORCH_CONCAT,  /* each input's is a view of a part of it */
    PYTORCH_VIEW,    /* another shape of the same elements: a view where strides allow it */
    PYTORCH_TURN,    /* the same elements with dimensions in another order */
    PYTORCH_PART,    /* a view of some elements */
    PYTORCH_SLICE,   /* the same; gradients of all slices of one tensor are made as one */
    PYTORCH_GATHER,  /* a table of embeddings; with one index a part */
    PYTORCH_MATMUL,
    PYTORCH_LSTM,
    PYTORCH_CONV
} pytorch_how;

enum { /* what is kept for the gradient */
       SAVES_NOTHING = 0,
       SAVES_0 = 1,
       SAVES_1 = 2,
       SAVES_OUTPUT = 4,
       SAVES_INDICES = 8, /* int64, as many as there are results */
       SAVES_MASK = 16    /* as the result */
};

typedef struct pytorch_rule {
    const char *type;
    pytorch_how how;
    uint32_t saves;
} pytorch_rule;

/* Where the elements of a tensor of the model lie. */
typedef struct pytorch_place {
    tn_tensor_id id;        /* in the new graph; TN_NONE: nowhere (yet) */
    const int64_t *strides; /* [rank], in elements; NULL: one behind the other */
    bool part;              /* of what lies there */
} pytorch_place;

typedef struct tn__pytorch {
    tn_context context;
    const tn_graph *model;
    const tn_pytorch_options *options;
    tn_error *error;
    tn__arena arena;
    tn_graph *graph;
    uint32_t tensors, ops;  /* of the model; its tensors have the same numbers in the new graph */
    bool *wanted;           /* [tensors] a gradient flows to it */
    uint32_t *readers;      /* [tensors] operators that read it */
    uint32_t *slices;       /* [tensors] of them that are Slice */
    tn_op_id *slice_last;   /* [tensors] the last of those; TN_NONE */
    tn_op_id *slice_before; /* [ops] the one before, of the same tensor; TN_NONE */
    pytorch_place *place;   /* [tensors] */
    pytorch_place *given;   /* [tensors] its gradient so far */
    tn_tensor_id *extra;    /* [ops] indices or mask that is kept; TN_NONE */
    tn_tensor_id *operands; /* [2 * ops] of a product of matrices, as it has used them */
    bool *fused;            /* [ops] a factor computed from the other: kept by nobody */
    uint64_t *workspaces;   /* [operators of the new graph], grown */
    size_t workspace_room;
    uint32_t *holders; /* [tensors of the new graph] gradients to come that lie in it, grown */
    size_t holder_room;
    tn_tensor_id loss, rate, step;
    uint64_t scratch_before; /* of the update before: one of its temporary tensors */
} tn__pytorch;

static inline const tn_tensor *tn__pytorch_tensor(const tn__pytorch *it, tn_tensor_id id) {
    return tn_graph_tensor(it->model, id);
}
/* NULL: not known. */
const pytorch_rule *tn__pytorch_find(const tn__pytorch *it, const tn_op *op);
/* Adds an operator that nobody infers anything of. */
tn_status tn__pytorch_emit(tn__pytorch *it, const char *name, const char *type,
                           const tn_tensor_id *inputs, uint32_t input_count,
                           const tn_tensor_id *outputs, uint32_t output_count, uint64_t workspace);
tn_status tn__pytorch_new(tn__pytorch *it, const tn_tensor_spec *spec, tn_tensor_id *id);
/* A new tensor with the shape of one of the model; "prefix.name". */
tn_status tn__pytorch_like(tn__pytorch *it, tn_tensor_id like, tn_dtype dtype, tn_kind kind,
                           const char *prefix, tn_tensor_id *id);
/* The elements one behind the other, of tensor `like` of the model: `place` itself or a copy. */
tn_status tn__pytorch_contiguous(tn__pytorch *it, tn_tensor_id like, tn_kind kind,
                                 pytorch_place *place);
/* The factor of a product that is an activation of the other one (SiLU, hard swish), which PyTorch
 * computes in one; TN_NONE: there is none. */
tn_tensor_id tn__pytorch_gate(const tn__pytorch *it, const tn_op *op);
/* Whether it is a Gather of one index from what is computed: a view. */
bool tn__pytorch_selects(const tn__pytorch *it, const tn_op *op);
tn_status tn__pytorch_forward(tn__pytorch *it, tn_op_id id);
tn_status tn__pytorch_backward(tn__pytorch *it, tn_op_id id);
/* Adds to the gradient of `of`. */
tn_status tn__pytorch_give(tn__pytorch *it, tn_tensor_id of, pytorch_place gradient);
tn_status tn__pytorch_gradient(tn__pytorch *it, tn_tensor_id of, tn_tensor_id *id);
/* Copies in oneDNN's formats; `gradient` has channels last: as it comes out of a permutation. */
uint64_t tn__pytorch_conv_scratch(const tn__pytorch *it, const tn_op *op, bool backward,
                                  bool permuted);

/* --- pytorch_view.c: none of them changes `place` when it returns false --- */

/* From the shape of x to that of y, or back. False: it needs a copy. */
bool tn__pytorch_regroup(tn__pytorch *it, const tn_tensor *x, const tn_tensor *y,
                         pytorch_place *place);
/* As Transpose does, or back. */
bool tn__pytorch_permute(tn__pytorch *it, const tn_op *op, bool back, pytorch_place *place);
/* Some of x with the shape of y: Slice, Split, Expand. */
bool tn__pytorch_part(tn__pytorch *it, const tn_tensor *x, const tn_tensor *y,
                      pytorch_place *place);
/* One index of a Gather: its dimension is gone, or has extent 1. */
bool tn__pytorch_select(tn__pytorch *it, const tn_op *op, const tn_tensor *x, const tn_tensor *y,
                        pytorch_place *place);
/* Whether the first `count` dimensions can be seen as one. */
bool tn__pytorch_collapses(const tn_tensor *x, const pytorch_place *place, uint32_t count);

#endif
