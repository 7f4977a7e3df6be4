/* split.h - operators in parts: the question, and the answers that families share.
 *
 * A rule (tn_op_rule.split) says for one axis of the outputs which elements of each input a part
 * [first, last) is made of:
 *
 *     identity     an element of the output is made of the element at its place      Relu, Add
 *     a range      a window, with a halo that parts share                             Conv, pools
 *     everything   of an input that the axis does not run through                     weights
 *
 * Axes do not know of each other, so a patch of an image is one answer per axis. An operator that
 * reduces along an axis (Softmax, a mean) has no rule for it; one that sums products along an axis
 * (MatMul) tells which that is (tn_op_rule.sums), as results of its parts add up.
 */
#ifndef TN_GRAPH_SPLIT_H
#define TN_GRAPH_SPLIT_H

#include "graph/op.h"

/* The rule's answer for an operator of an inferred graph, checked: `part` lies inside the outputs,
 * which all have that axis in common; the need lies inside the input. A need whose range is empty
 * but for an operator that joins its inputs, or padding below 0, is an answer of false. An omitted
 * input needs nothing. */
bool tn__op_split(const tn_graph *graph, tn_op_id op, tn__part *part, uint32_t input,
                  tn__need *need);
/* Whether every input answers: the operator can be run in parts along that axis of output 0. */
bool tn__op_splits(const tn_graph *graph, tn_op_id op, uint32_t axis);

/* Gets the axis of input `input` that the operator sums over, or TN__SUM_*, and checks that the
 * rule returned a valid axis. The graph is inferred. For an omitted input `axis` is TN__SUM_WHOLE.
 * Returns false if the operator cannot be divided into partial sums. */
bool tn__op_sums(const tn_graph *graph, tn_op_id op, uint32_t input, uint32_t *axis);

/* --- answers: tn_op_rule.split --- */

/* Every input broadcasts to the output. */
bool tn__split_each(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
/* Input 0 has the shape of the output; other inputs are needed whole. */
bool tn__split_first(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
/* Reshapes: the axis is one that both sides have, with as many elements before it. */
bool tn__split_reshape(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
/* Windows (FORM_WINDOW): split_window.c. */
bool tn__split_conv(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_conv_integer(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_conv_qlinear(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_conv_transpose(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_pool(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_global_pool(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
/* Products of matrices: split_matmul.c. The last is of domain "tenure". */
bool tn__split_matmul(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_gemm(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_fused_matmul(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
/* Normalisations and what moves elements: split_move.c. */
bool tn__split_batch_norm(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_layer_norm(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_instance_norm(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_local_norm(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_batch(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_axis_norm(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_softmax(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_masked_softmax(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_quantize(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_concat(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_transpose(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_untouched(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_outputs(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_expand(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_gather(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_to_space(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_to_depth(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_resize(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
/* Of domain "tflite": split_tflite.c. The first is of FORM_BAND, the second of FORM_PAD. */
bool tn__split_band(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_tflite_pad(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_tflite_concat(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_tflite_rows(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_tflite_reduce(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);
bool tn__split_tflite_transpose(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need);

/* --- windows of TensorFlow Lite, for who makes their parts --- */
typedef enum tn__band_way { TN__BAND_EXACT, TN__BAND_PAD, TN__BAND_CROP } tn__band_way;
typedef struct tn__band { /* [2]: height, width */
    int64_t input[2], output[2], stride[2], reach[2];
    bool same, hybrid; /* hybrid: never cut but along the batch */
    tn__band_way way;
} tn__band;
/* False: not a window whose shapes are as they should be, or of strides that nobody has. */
bool tn__band_read(const tn_graph *graph, tn_op_id op, tn__band *band);

/* SAME over elements [first, last) alone: it makes `count` elements, the first of which stands
 * where element `base` of the whole does; [first, last) of the whole are right. */
typedef struct tn__band_made {
    int64_t base, count, first, last;
} tn__band_made;
/* False: its windows begin between those of the whole. */
bool tn__band_over(const tn__band *band, uint32_t i, int64_t first, int64_t last,
                   tn__band_made *made);

/* --- answers: tn_op_rule.sums --- */

bool tn__sums_matmul(tn_infer *infer, uint32_t input, uint32_t *axis);
bool tn__sums_gemm(tn_infer *infer, uint32_t input, uint32_t *axis);
bool tn__sums_conv(tn_infer *infer, uint32_t input, uint32_t *axis);
bool tn__sums_gather(tn_infer *infer, uint32_t input, uint32_t *axis);

/* --- words for them --- */
static inline bool tn__need_all(tn__need *need) {
    *need = (tn__need){.axis = TN_NONE, .law = TN__LAW_ALL};
    return true;
}
static inline bool tn__need_range(tn__need *need, uint32_t axis, int64_t first, int64_t last) {
    *need = (tn__need){.axis = axis, .first = first, .last = last};
    return true;
}
static inline bool tn__need_same(tn__need *need, uint32_t axis, const tn__part *part) {
    *need = (tn__need){.axis = axis, .first = part->first, .last = part->last, .law = TN__LAW_SAME};
    return true;
}

#endif
