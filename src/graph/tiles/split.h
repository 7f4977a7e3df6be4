/* split.h - operators in parts: the query, and the answers that operator families share.
 *
 * A rule (tn_op_rule.split) gives, for one axis of the outputs, the elements of each input that
 * a part [first, last) depends on:
 *
 *     identity     an output element depends on the element at its place              Relu, Add
 *     a range      a window, with a halo that parts share                             Conv, pools
 *     everything   all of an input that does not have the axis                        weights
 *
 * Axes are independent of each other, so a patch of an image is one answer per axis. An operator
 * that reduces along an axis (Softmax, a mean) has no rule for it. An operator that sums
 * products along an axis (MatMul) names that axis (tn_op_rule.sums), because the results of its
 * parts add up.
 */
#ifndef TN_GRAPH_SPLIT_H
#define TN_GRAPH_SPLIT_H

#include "graph/op.h"

/* The checked answer of a rule for an operator of an inferred graph. `part` lies inside the
 * outputs, which all have that axis; the need lies inside the input. Returns false for a negative
 * padding, and for an empty range unless the operator joins its inputs. An omitted input needs no
 * elements. */
bool tn__op_split(const tn_graph *graph, tn_op_id op, tn__tile *part, uint32_t input,
                  tn__need *need);
/* Whether the operator can run in parts along that axis of output 0: the rule answers for every
 * input, and needs only a part of at least one of them. */
bool tn__op_splits(const tn_graph *graph, tn_op_id op, uint32_t axis);

/* The checked axis of an input over which an operator of an inferred graph sums, or TN__SUM_*.
 * Returns false if it has no such sums. An omitted input is needed as a whole. */
bool tn__op_sums(const tn_graph *graph, tn_op_id op, uint32_t input, uint32_t *axis);

/* --- rules for tn_op_rule.split --- */

/* For operators with inputs that all broadcast to the output. */
bool tn__split_each(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
/* For operators with an input 0 in the shape of the output; other inputs are needed as a whole. */
bool tn__split_first(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
/* For reshapes: input and output must both have the axis, with the same product of extents before
 * it. */
bool tn__split_reshape(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
/* For ONNX's windows (TN__FORM_WINDOW); in split_window.c. */
bool tn__split_conv(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_conv_integer(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_conv_qlinear(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_conv_transpose(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_pool(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_global_pool(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
/* For products of matrices. The last function is for the operator of domain "tenure". */
bool tn__split_matmul(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_gemm(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_fused_matmul(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
/* For normalisations and operators that move elements. */
bool tn__split_batch_norm(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_layer_norm(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_instance_norm(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_local_norm(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_batch(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_axis_norm(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_softmax(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_masked_softmax(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_quantize(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_concat(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_transpose(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_untouched(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_outputs(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_expand(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_gather(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_to_space(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_to_depth(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_resize(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
/* For operators of domain "tflite"; in split_window.c. The first function is for TN__FORM_BAND, the
 * second for TN__FORM_PAD. */
bool tn__split_band(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_tflite_pad(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_tflite_concat(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_tflite_rows(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_tflite_reduce(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);
bool tn__split_tflite_transpose(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need);

/* --- windows of TensorFlow Lite, for code that makes their parts --- */
typedef enum tn__band_way { TN__BAND_EXACT, TN__BAND_PAD, TN__BAND_CROP } tn__band_way;
typedef struct tn__band { /* arrays have two entries: height and width */
    int64_t input[2], output[2], stride[2], reach[2];
    /* hybrid: floating-point images with integer weights; only the batch axis may be divided */
    bool same, hybrid;
    tn__band_way way;
} tn__band;
/* Reads a window; returns false if the operator has no window, or if its shapes or strides are
 * invalid. */
bool tn__band_read(const tn_graph *graph, tn_op_id op, tn__band *band);

/* Describes a window with SAME padding over input elements [first, last) alone. It computes `count`
 * elements. The first one is element `base` of the whole output; elements [first, last) of the
 * whole output are correct. */
typedef struct tn__band_made {
    int64_t base, count, first, last;
} tn__band_made;
/* Returns false if the windows of the part would begin between those of the whole. */
bool tn__band_over(const tn__band *band, uint32_t i, int64_t first, int64_t last,
                   tn__band_made *made);

/* --- rules for tn_op_rule.sums --- */

bool tn__sums_matmul(tn_infer *infer, uint32_t input, uint32_t *axis);
bool tn__sums_gemm(tn_infer *infer, uint32_t input, uint32_t *axis);
bool tn__sums_conv(tn_infer *infer, uint32_t input, uint32_t *axis);
bool tn__sums_gather(tn_infer *infer, uint32_t input, uint32_t *axis);

/* --- small functions that rules share --- */
static inline bool tn__need_all(tn__need *need) {
    *need = (tn__need){.axis = TN_NONE, .law = TN__LAW_ALL};
    return true;
}
static inline bool tn__need_range(tn__need *need, uint32_t axis, int64_t first, int64_t last) {
    *need = (tn__need){.axis = axis, .first = first, .last = last};
    return true;
}
static inline bool tn__need_same(tn__need *need, uint32_t axis, const tn__tile *part) {
    *need = (tn__need){.axis = axis, .first = part->first, .last = part->last, .law = TN__LAW_SAME};
    return true;
}

#endif
