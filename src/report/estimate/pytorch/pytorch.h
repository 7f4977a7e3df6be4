/* pytorch.h - shared state of the files that build a training step as eager PyTorch runs it.
 *
 *   pytorch.c            the step: inputs and parameters, loss, updates
 *   pytorch_forward.c    the forward pass, and copies of convolutions; strides: which operators of
 *                        PyTorch only make a view
 *   pytorch_backward.c   gradients, and the table of tensors that operators save for them
 */
#ifndef TN_ESTIMATE_PYTORCH_H
#define TN_ESTIMATE_PYTORCH_H

#include <tenure/estimate.h>

#include "graph/op.h"

typedef enum pytorch_how {
    PYTORCH_COMPUTE, /* gradients of the inputs are new tensors */
    PYTORCH_SAME,    /* the same, element by element: strides are kept */
    PYTORCH_PRODUCT, /* Mul, Div: needs the other input for each, and sums if it was broadcast */
    PYTORCH_ADD,     /* the gradient of the output is that of the inputs */
    PYTORCH_CONCAT,  /* the gradient of each input is a view of a part of it */
    PYTORCH_VIEW,    /* another shape of the same elements: a view if strides allow it */
    PYTORCH_TURN,    /* the same elements with dimensions in another order */
    PYTORCH_PART,    /* a view of some elements */
    PYTORCH_SLICE,   /* a view; gradients of all slices of one tensor are made as one */
    PYTORCH_GATHER,  /* an embedding table; with one index a view */
    PYTORCH_MATMUL,
    PYTORCH_LSTM,
    PYTORCH_CONV
} pytorch_how;

enum { /* tensors saved for the gradient */
       SAVES_NOTHING = 0,
       SAVES_0 = 1,
       SAVES_1 = 2,
       SAVES_OUTPUT = 4,
       SAVES_INDICES = 8, /* int64, as many as results */
       SAVES_MASK = 16    /* as the result */
};

typedef struct pytorch_rule {
    const char *type;
    pytorch_how how;
    uint32_t saves;
} pytorch_rule;

/* The location of the elements of a tensor of the model. */
typedef struct pytorch_place {
    tn_tensor_id id;        /* in the new graph; TN_NONE: none (yet) */
    const int64_t *strides; /* [rank], in elements; NULL: contiguous */
    bool part;              /* only a part of the tensor */
} pytorch_place;

typedef struct tn__pytorch {
    tn_context context;
    const tn_graph *model;
    const tn_pytorch_options *options;
    tn_error *error;
    tn__arena arena;
    tn_graph *graph;
    uint32_t tensors, ops;  /* of the model; its tensors keep their numbers in the new graph */
    bool *wanted;           /* [tensors] a gradient flows to it */
    uint32_t *readers;      /* [tensors] operators that read it */
    uint32_t *slices;       /* [tensors] number of readers that are Slice */
    tn_op_id *slice_last;   /* [tensors] the last Slice; TN_NONE */
    tn_op_id *slice_before; /* [ops] the previous Slice of the same tensor; TN_NONE */
    pytorch_place *place;   /* [tensors] */
    pytorch_place *given;   /* [tensors] its gradient so far */
    tn_tensor_id *extra;    /* [ops] saved indices or mask; TN_NONE */
    tn_tensor_id *operands; /* [2 * ops] operands of a matrix product, as used */
    bool *fused;            /* [ops] a factor computed from the other: not saved */
    uint64_t *workspaces;   /* [operators of the new graph], grows */
    size_t workspace_room;
    uint32_t *holders; /* [tensors of the new graph] pending gradients in it, grows */
    size_t holder_room;
    tn_tensor_id loss, rate, step;
    uint64_t scratch_before; /* one temporary tensor of the previous update */
} tn__pytorch;

static inline const tn_tensor *tn__pytorch_tensor(const tn__pytorch *it, tn_tensor_id id) {
    return tn_graph_tensor(it->model, id);
}
/* NULL: not known. */
const pytorch_rule *tn__pytorch_find(const tn__pytorch *it, const tn_op *op);
/* Adds an operator; no shapes are inferred for it. */
tn_status tn__pytorch_emit(tn__pytorch *it, const char *name, const char *type,
                           const tn_tensor_id *inputs, uint32_t input_count,
                           const tn_tensor_id *outputs, uint32_t output_count, uint64_t workspace);
tn_status tn__pytorch_new(tn__pytorch *it, const tn_tensor_spec *spec, tn_tensor_id *id);
/* A new tensor with the shape of one of the model; "prefix.name". */
tn_status tn__pytorch_like(tn__pytorch *it, tn_tensor_id like, tn_dtype dtype, tn_kind kind,
                           const char *prefix, tn_tensor_id *id);
/* `place` of tensor `like`, made contiguous: `place` itself or a copy. */
tn_status tn__pytorch_contiguous(tn__pytorch *it, tn_tensor_id like, tn_kind kind,
                                 pytorch_place *place);
/* The factor of a product that is an activation of the other factor (SiLU, hard swish): PyTorch
 * computes both in one operator. TN_NONE: none. */
tn_tensor_id tn__pytorch_gate(const tn__pytorch *it, const tn_op *op);
/* Is it a Gather of one index from a computed tensor? That is a view. */
bool tn__pytorch_selects(const tn__pytorch *it, const tn_op *op);
tn_status tn__pytorch_forward(tn__pytorch *it, tn_op_id id);
tn_status tn__pytorch_backward(tn__pytorch *it, tn_op_id id);
/* Adds to the gradient of `of`. */
tn_status tn__pytorch_give(tn__pytorch *it, tn_tensor_id of, pytorch_place gradient);
tn_status tn__pytorch_gradient(tn__pytorch *it, tn_tensor_id of, tn_tensor_id *id);
/* Bytes of copies in oneDNN's formats; `permuted`: `gradient` has channels last, because it comes
 * from a permutation. */
uint64_t tn__pytorch_conv_scratch(const tn__pytorch *it, const tn_op *op, bool backward,
                                  bool permuted);

/* --- pytorch_forward.c: strides. These do not change `place` if they return false --- */

/* From the shape of x to that of y, or back. False: it needs a copy. */
bool tn__pytorch_regroup(tn__pytorch *it, const tn_tensor *x, const tn_tensor *y,
                         pytorch_place *place);
/* Permutes the dimensions of a place as the Transpose `op` does; `back`: by the inverse. */
bool tn__pytorch_permute(tn__pytorch *it, const tn_op *op, bool back, pytorch_place *place);
/* Some elements of x with the shape of y: Slice, Split, Expand. */
bool tn__pytorch_part(tn__pytorch *it, const tn_tensor *x, const tn_tensor *y,
                      pytorch_place *place);
/* Can the first `count` dimensions be viewed as one? */
bool tn__pytorch_collapses(const tn_tensor *x, const pytorch_place *place, uint32_t count);

#endif
