/* tflite_shapes.h - shapes of TensorFlow Lite's operators, for files with stale shapes.
 *
 * A file states every shape, and these are used without a check by rules. If the caller changes an
 * input shape, only the rules decide. Attributes have the names of the options in TensorFlow Lite's
 * schema. Values of small integer tensors are tracked, because operators compute shapes from them.
 *
 *   tflite_shapes.c  windows, products of matrices, reductions, recurrent layers
 *   tflite_moves.c   operators that move elements or compute shapes
 *
 * Source: Prepare() of the kernels in tensorflow/lite/kernels.
 */
#ifndef TN_GRAPH_TFLITE_SHAPES_H
#define TN_GRAPH_TFLITE_SHAPES_H

#include "graph/rules/fold.h"

/* Whether the file states the shapes of all outputs. */
bool tn__tflite_stated(const tn_infer *infer);
/* Gives output `index` this rank and shape, and the element type that the file states. */
tn_status tn__tflite_set(tn_infer *infer, uint32_t index, uint32_t rank, const int64_t *shape);
/* Returns an input if its shape is known; otherwise NULL. */
const tn_tensor *tn__tflite_known(const tn_infer *infer, uint32_t index);
/* Returns the values of an integer input; NULL if they are unknown. */
const int64_t *tn__tflite_ints(const tn_infer *infer, uint32_t index, uint32_t *count);

typedef tn_status tn__tflite_rule(tn_infer *infer);
/* clang-format off */
#define TN__TFLITE_SHAPES(X)                                                                       \
    X(like_first) X(like_second) X(broadcast) X(convolution) X(depthwise) X(transposed) X(pool)    \
    X(dense) X(batch_matmul) X(reduce) X(arg) X(svdf) X(lstm) X(rnn) X(bidirectional) X(lookup)    \
    X(volume) X(scalar) X(first_extent)                                                            \
    X(concatenation) X(pack) X(unpack) X(split) X(split_v) X(slice) X(strided_slice) X(reshape)    \
    X(squeeze) X(expand_dims) X(transpose) X(pad) X(tile) X(by_first) X(by_second) X(by_third)     \
    X(range) X(gather) X(gather_nd) X(one_hot) X(top) X(resize) X(space_to_depth)                  \
    X(depth_to_space) X(space_to_batch) X(batch_to_space) X(shape) X(rank) X(arithmetic) X(cast)   \
    X(diagonal) X(broadcast_args) X(suppression)
/* clang-format on */
#define TN_X(name) tn__tflite_rule tn__tflite_##name;
TN__TFLITE_SHAPES(TN_X)
#undef TN_X

#endif
