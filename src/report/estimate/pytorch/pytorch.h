/* pytorch.h - the state that is shared by the files that build a training step as eager PyTorch
 * runs it.
 *
 *   pytorch.c            the step: inputs and parameters, loss, updates
 *   pytorch_forward.c    the forward pass, the copies that convolutions make, and strides, which
 *                        decide whether an operator of PyTorch only makes a view
 *   pytorch_backward.c   gradients, and the table of tensors that operators save for them
 */
#ifndef TN_ESTIMATE_PYTORCH_H
#define TN_ESTIMATE_PYTORCH_H

#include <tenure/estimate.h>

#include "graph/op.h"

typedef enum pytorch_how {
    /* PyTorch computes a new tensor, and the gradients of the inputs are new tensors, too */
    PYTORCH_COMPUTE,
    /* like PYTORCH_COMPUTE, but elementwise: the result has the strides of the input */
    PYTORCH_SAME,
    /* Mul and Div: the gradient of each input needs the other input, and a sum if that input was
     * broadcast */
    PYTORCH_PRODUCT,
    PYTORCH_ADD, /* the gradient of the output is also the gradient of the inputs */
    /* the gradient of each input is a view of a part of the gradient of the output */
    PYTORCH_CONCAT,
    PYTORCH_VIEW,   /* another shape of the same elements: a view if strides can express it */
    PYTORCH_TURN,   /* the operator permutes the dimensions, which makes a view */
    PYTORCH_PART,   /* the operator makes a view of some of the elements */
    PYTORCH_SLICE,  /* a view; the gradients of all slices of one tensor are computed together */
    PYTORCH_GATHER, /* a lookup in an embedding table; with a single index, a view */
    PYTORCH_MATMUL,
    PYTORCH_LSTM,
    PYTORCH_CONV
} pytorch_how;

enum { /* tensors that an operator saves for its gradient, as bits */
       SAVES_NOTHING = 0,
       SAVES_0 = 1,
       SAVES_1 = 2,
       SAVES_OUTPUT = 4,
       SAVES_INDICES = 8, /* indices of type int64, one per element of the result */
       SAVES_MASK = 16    /* a mask with the shape and type of the result */
};

typedef struct pytorch_rule {
    const char *type;
    pytorch_how how;
    uint32_t saves;
} pytorch_rule;

/* Where the elements of a tensor of the model are in the new graph. A view is at another tensor. */
typedef struct pytorch_place {
    tn_tensor_id id; /* the tensor of the new graph that has the elements; TN_NONE: none yet */
    const int64_t *strides; /* [rank] strides of the tensor in elements; NULL: contiguous */
    bool part;              /* true if the elements are only a part of the tensor `id` */
} pytorch_place;

typedef struct tn__pytorch {
    tn_context context;
    const tn_graph *model;
    const tn_pytorch_options *options;
    tn_error *error;
    tn__arena arena;
    tn_graph *graph;
    /* numbers of tensors and operators of the model; its tensors have the same ids in the new
     * graph */
    uint32_t tensors, ops;
    bool *wanted;         /* [tensors] whether a gradient of the tensor is needed */
    uint32_t *readers;    /* [tensors] number of operators that read the tensor */
    uint32_t *slices;     /* [tensors] number of Slice operators that read the tensor */
    tn_op_id *slice_last; /* [tensors] the last Slice that reads the tensor, or TN_NONE */
    /* [ops] the previous Slice that reads the tensor which this Slice reads, or TN_NONE */
    tn_op_id *slice_before;
    pytorch_place *place; /* [tensors] */
    pytorch_place *given; /* [tensors] sum of the gradients of the tensor so far */
    /* [ops] the indices or the mask that the operator saves for its gradient, or TN_NONE */
    tn_tensor_id *extra;
    /* [2 * ops] operands of a matrix product after copies to contiguous memory */
    tn_tensor_id *operands;
    /* [ops] true: PyTorch computes the operator within its only reader, so the result is not
     * saved */
    bool *fused;
    /* [operators of the new graph] bytes of workspace of each operator; the array grows */
    uint64_t *workspaces;
    size_t workspace_room;
    /* [tensors of the new graph] number of gradients in `given` that are in the tensor; the array
     * grows */
    uint32_t *holders;
    size_t holder_room;
    tn_tensor_id loss, rate, step;
    uint64_t scratch_before; /* bytes of one temporary tensor of the previous update */
} tn__pytorch;

static inline const tn_tensor *tn__pytorch_tensor(const tn__pytorch *it, tn_tensor_id id) {
    return tn_graph_tensor(it->model, id);
}
/* Returns the rule of an operator, or NULL if its type is not known. */
const pytorch_rule *tn__pytorch_find(const tn__pytorch *it, const tn_op *op);
/* Adds an operator to the new graph. Its shapes are not inferred, so all its outputs must have
 * shapes. */
tn_status tn__pytorch_emit(tn__pytorch *it, const char *name, const char *type,
                           const tn_tensor_id *inputs, uint32_t input_count,
                           const tn_tensor_id *outputs, uint32_t output_count, uint64_t workspace);
tn_status tn__pytorch_new(tn__pytorch *it, const tn_tensor_spec *spec, tn_tensor_id *id);
/* Adds a tensor with the shape of the model's tensor `like` and the name "prefix.name". */
tn_status tn__pytorch_like(tn__pytorch *it, tn_tensor_id like, tn_dtype dtype, tn_kind kind,
                           const char *prefix, tn_tensor_id *id);
/* Makes the tensor `like`, which is at `place`, contiguous: adds a copy and replaces *place by it,
 * or does nothing if it is contiguous. */
tn_status tn__pytorch_contiguous(tn__pytorch *it, tn_tensor_id like, tn_kind kind,
                                 pytorch_place *place);
/* For a product in which one factor is an activation of the other factor (SiLU, hard swish):
 * returns that factor. PyTorch computes both in one operator. Returns TN_NONE for other
 * products. */
tn_tensor_id tn__pytorch_gate(const tn__pytorch *it, const tn_op *op);
/* Returns whether the operator is a Gather of a single index from a tensor that is not a parameter.
 * In PyTorch that is a view. */
bool tn__pytorch_selects(const tn__pytorch *it, const tn_op *op);
tn_status tn__pytorch_forward(tn__pytorch *it, tn_op_id id);
tn_status tn__pytorch_backward(tn__pytorch *it, tn_op_id id);
/* Adds `gradient` to the gradient of the tensor `of`. */
tn_status tn__pytorch_give(tn__pytorch *it, tn_tensor_id of, pytorch_place gradient);
tn_status tn__pytorch_gradient(tn__pytorch *it, tn_tensor_id of, tn_tensor_id *id);
/* Returns the bytes of the copies of a convolution's operands in the formats of oneDNN. `permuted`:
 * the gradient has channels last, because it comes from a permutation. */
uint64_t tn__pytorch_conv_scratch(const tn__pytorch *it, const tn_op *op, bool backward,
                                  bool permuted);

/* --- pytorch_forward.c: strides. These do not change `place` if they return false --- */

/* Changes `place` from the shape of x to the shape of y, which has the same elements. Returns false
 * if strides cannot express that, so that a copy is needed. */
bool tn__pytorch_regroup(tn__pytorch *it, const tn_tensor *x, const tn_tensor *y,
                         pytorch_place *place);
/* Permutes the dimensions of `place` as the Transpose `op` does; with `back` true, by the inverse
 * permutation. */
bool tn__pytorch_permute(tn__pytorch *it, const tn_op *op, bool back, pytorch_place *place);
/* Changes `place` to some of the elements of x, with the shape of y, as Slice, Split and Expand
 * do. */
bool tn__pytorch_part(tn__pytorch *it, const tn_tensor *x, const tn_tensor *y,
                      pytorch_place *place);
/* Returns whether the first `count` dimensions can be viewed as one dimension. */
bool tn__pytorch_collapses(const tn_tensor *x, const pytorch_place *place, uint32_t count);

#endif
