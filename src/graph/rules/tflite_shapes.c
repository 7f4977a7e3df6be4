/* tflite_shapes.c - computes the shapes of windows, matrix products, reductions and recurrent
 * layers. */
#include "graph/rules/tflite_shapes.h"

#include "graph/store.h"

bool tn__tflite_stated(const tn_infer *infer) {
    for (uint32_t i = 0; i < infer->op->output_count; i++) {
        if (infer->op->outputs[i] == TN_NONE) continue;
        const tn__origin *origin = &infer->graph->origins[infer->op->outputs[i]];
        if (origin->rank == TN_RANK_UNKNOWN) return false;
        for (uint32_t d = 0; d < origin->rank; d++)
            if (origin->shape[d] == TN_DIM_UNKNOWN) return false;
    }
    return true;
}

tn_status tn__tflite_set(tn_infer *infer, uint32_t index, uint32_t rank, const int64_t *shape) {
    if (index >= infer->op->output_count || infer->op->outputs[index] == TN_NONE) return TN_OK;
    return tn__set_output(infer, index, infer->graph->origins[infer->op->outputs[index]].dtype,
                          rank, shape);
}

const tn_tensor *tn__tflite_known(const tn_infer *infer, uint32_t index) {
    const tn_tensor *tensor = tn__input(infer, index);
    return tn__shape_known(tensor) ? tensor : NULL;
}

const int64_t *tn__tflite_ints(const tn_infer *infer, uint32_t index, uint32_t *count) {
    static const int64_t nothing[1];
    const tn_tensor *tensor = tn__tflite_known(infer, index);
    *count = 0;
    if (tensor == NULL) return NULL;
    if (tn__elements(tensor) == 0) return nothing;
    return tn__value_ints(infer, index, count);
}

/* --- outputs in the shape of an operand --- */

tn_status tn__tflite_like_first(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    if (tn__tflite_stated(infer) || !in) return TN_OK;
    return tn__tflite_set(infer, 0, in->rank, in->shape);
}
tn_status tn__tflite_like_second(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 1);
    if (tn__tflite_stated(infer) || !in) return TN_OK;
    return tn__tflite_set(infer, 0, in->rank, in->shape);
}
tn_status tn__tflite_scalar(tn_infer *infer) {
    return tn__tflite_stated(infer) ? TN_OK : tn__tflite_set(infer, 0, 0, NULL);
}
/* Gives output 0 the shape of a vector with as many elements as the first extent of the input, such
 * as the hits of HASHTABLE_LOOKUP. */
tn_status tn__tflite_first_extent(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    if (tn__tflite_stated(infer) || !in || in->rank == 0) return TN_OK;
    return tn__tflite_set(infer, 0, 1, in->shape);
}

tn_status tn__tflite_broadcast(tn_infer *infer) {
    const tn_tensor *operands[3];
    int64_t shape[TN_RANK_MAX];
    uint32_t count = tn__input_count(infer) < 3 ? tn__input_count(infer) : 3, rank;
    bool known;
    if (tn__tflite_stated(infer)) return TN_OK;
    for (uint32_t i = 0; i < count; i++)
        if (!(operands[i] = tn__tflite_known(infer, i))) return TN_OK;
    TN_TRY(tn__broadcast(infer, operands, count, shape, &rank, &known));
    return known ? tn__tflite_set(infer, 0, rank, shape) : TN_OK;
}

/* --- sliding windows over [batch, height, width, channels], and matrix products --- */

enum { SHAPES_SAME = 0, SHAPES_VALID = 1 }; /* values of the schema's enum Padding */

static tn_status shapes_slide(tn_infer *infer, int64_t extent, int64_t kernel, int64_t stride,
                              int64_t dilation, int64_t *result) {
    int64_t padding = tn__attr_int(infer->op, "padding", SHAPES_SAME);
    if (stride < 1 || dilation < 1 || kernel < 1 || kernel > INT32_MAX || dilation > INT32_MAX)
        return tn__infer_fail(infer, "a window of %lld, stride %lld, dilation %lld",
                              (long long)kernel, (long long)stride, (long long)dilation);
    int64_t window = (kernel - 1) * dilation + 1;
    if (padding == SHAPES_SAME) {
        *result = extent / stride + (extent % stride != 0);
    } else {
        if (extent < window)
            return tn__infer_fail(infer, "a window of %lld does not fit into %lld",
                                  (long long)window, (long long)extent);
        *result = (extent - window) / stride + 1;
    }
    return TN_OK;
}

/* Sets the shape after a window. `kernel` holds its height and width; the attributes give
 * everything else. */
static tn_status shapes_window(tn_infer *infer, const tn_tensor *in, const int64_t *kernel,
                               int64_t channels) {
    int64_t shape[4] = {in->shape[0], 0, 0, channels};
    TN_TRY(shapes_slide(infer, in->shape[1], kernel[0], tn__attr_int(infer->op, "stride_h", 1),
                        tn__attr_int(infer->op, "dilation_h_factor", 1), &shape[1]));
    TN_TRY(shapes_slide(infer, in->shape[2], kernel[1], tn__attr_int(infer->op, "stride_w", 1),
                        tn__attr_int(infer->op, "dilation_w_factor", 1), &shape[2]));
    return tn__tflite_set(infer, 0, 4, shape);
}

static tn_status shapes_convolve(tn_infer *infer, uint32_t channel_axis) {
    const tn_tensor *in = tn__tflite_known(infer, 0), *filter = tn__tflite_known(infer, 1);
    if (tn__tflite_stated(infer) || !in || !filter) return TN_OK;
    if (in->rank != 4 || filter->rank != 4)
        return tn__infer_fail(infer, "ranks %u and %u; both must be 4", in->rank, filter->rank);
    return shapes_window(infer, in, &filter->shape[1], filter->shape[channel_axis]);
}
tn_status tn__tflite_convolution(tn_infer *infer) { return shapes_convolve(infer, 0); }
tn_status tn__tflite_depthwise(tn_infer *infer) { return shapes_convolve(infer, 3); }

tn_status tn__tflite_pool(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    if (tn__tflite_stated(infer) || !in) return TN_OK;
    if (in->rank != 4) return tn__infer_fail(infer, "rank %u; it must be 4", in->rank);
    int64_t kernel[2] = {tn__attr_int(infer->op, "filter_height", 1),
                         tn__attr_int(infer->op, "filter_width", 1)};
    return shapes_window(infer, in, kernel, in->shape[3]);
}

/* Sets the shape of CONV_3D: [batch, depth, height, width, channels] with a filter [d, h, w, in,
 * out]. */
tn_status tn__tflite_volume(tn_infer *infer) {
    static const char *const strides[] = {"stride_d", "stride_h", "stride_w"};
    static const char *const dilations[] = {"dilation_d_factor", "dilation_h_factor",
                                            "dilation_w_factor"};
    const tn_tensor *in = tn__tflite_known(infer, 0), *filter = tn__tflite_known(infer, 1);
    if (tn__tflite_stated(infer) || !in || !filter) return TN_OK;
    if (in->rank != 5 || filter->rank != 5)
        return tn__infer_fail(infer, "ranks %u and %u; both must be 5", in->rank, filter->rank);
    int64_t shape[5] = {in->shape[0], 0, 0, 0, filter->shape[4]};
    for (uint32_t i = 0; i < 3; i++)
        TN_TRY(shapes_slide(infer, in->shape[1 + i], filter->shape[i],
                            tn__attr_int(infer->op, strides[i], 1),
                            tn__attr_int(infer->op, dilations[i], 1), &shape[1 + i]));
    return tn__tflite_set(infer, 0, 5, shape);
}

/* Sets the shape of a transposed convolution, whose output shape is the value of input 0. The batch
 * in that value must be that of the image; a constant batch of another size is an error. */
tn_status tn__tflite_transposed(tn_infer *infer) {
    uint32_t count;
    const int64_t *stated = tn__tflite_ints(infer, 0, &count);
    const tn_tensor *in = tn__tflite_known(infer, 2);
    if (tn__tflite_stated(infer) || !stated || !in || count > TN_RANK_MAX) return TN_OK;
    if (count != in->rank || count == 0)
        return tn__infer_fail(infer, "a shape of %u extents for rank %u", count, in->rank);
    if (stated[0] != in->shape[0])
        return tn__infer_fail(infer, "its shape is the constant batch %lld, the input has %lld",
                              (long long)stated[0], (long long)in->shape[0]);
    return tn__tflite_set(infer, 0, count, stated);
}

/* --- products --- */

tn_status tn__tflite_dense(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0), *weights = tn__tflite_known(infer, 1);
    int64_t shape[TN_RANK_MAX];
    if (tn__tflite_stated(infer) || !in || !weights) return TN_OK;
    if (weights->rank != 2) return tn__infer_fail(infer, "weights of rank %u", weights->rank);
    uint64_t elements = tn__elements(in), depth = (uint64_t)weights->shape[1];
    if (tn__attr_int(infer->op, "keep_num_dims", 0) && in->rank > 0) {
        memcpy(shape, in->shape, in->rank * sizeof *shape);
        shape[in->rank - 1] = weights->shape[0];
        return tn__tflite_set(infer, 0, in->rank, shape);
    }
    if (depth == 0 || elements == TN_SIZE_UNKNOWN || elements % depth)
        return tn__infer_fail(infer, "%llu elements are not rows of %llu",
                              (unsigned long long)elements, (unsigned long long)depth);
    shape[0] = (int64_t)(elements / depth);
    shape[1] = weights->shape[0];
    return tn__tflite_set(infer, 0, 2, shape);
}

tn_status tn__tflite_batch_matmul(tn_infer *infer) {
    const tn_tensor *a = tn__tflite_known(infer, 0), *b = tn__tflite_known(infer, 1);
    int64_t shape[TN_RANK_MAX];
    if (tn__tflite_stated(infer) || !a || !b) return TN_OK;
    if (a->rank < 2 || b->rank < 2) return tn__infer_fail(infer, "ranks %u, %u", a->rank, b->rank);
    uint32_t rank = a->rank > b->rank ? a->rank : b->rank;
    for (uint32_t d = 0; d + 2 < rank; d++) {
        int64_t x = d + a->rank >= rank ? a->shape[d + a->rank - rank] : 1;
        int64_t y = d + b->rank >= rank ? b->shape[d + b->rank - rank] : 1;
        if (x != y && x != 1 && y != 1)
            return tn__infer_fail(infer, "batches %lld and %lld", (long long)x, (long long)y);
        shape[d] = x == 1 ? y : x;
    }
    bool turn_a = tn__attr_int(infer->op, "adj_x", 0) != 0,
         turn_b = tn__attr_int(infer->op, "adj_y", 0) != 0;
    shape[rank - 2] = a->shape[a->rank - (turn_a ? 1 : 2)];
    shape[rank - 1] = b->shape[b->rank - (turn_b ? 2 : 1)];
    return tn__tflite_set(infer, 0, rank, shape);
}

/* --- reductions --- */

static tn_status shapes_reduce(tn_infer *infer, const int64_t *axes, uint32_t count, bool keep) {
    const tn_tensor *in = tn__tflite_known(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint64_t gone = 0;
    uint32_t rank = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;
        TN_TRY(tn__axis(infer, axes[i], in->rank, &axis));
        gone |= UINT64_C(1) << axis;
    }
    for (uint32_t d = 0; d < in->rank; d++) {
        if (!(gone >> d & 1))
            shape[rank++] = in->shape[d];
        else if (keep)
            shape[rank++] = 1;
    }
    return tn__tflite_set(infer, 0, rank, shape);
}

tn_status tn__tflite_reduce(tn_infer *infer) {
    uint32_t count;
    const int64_t *axes = tn__tflite_ints(infer, 1, &count);
    if (tn__tflite_stated(infer) || !axes || !tn__tflite_known(infer, 0)) return TN_OK;
    return shapes_reduce(infer, axes, count, tn__attr_int(infer->op, "keep_dims", 0) != 0);
}
tn_status tn__tflite_arg(tn_infer *infer) {
    uint32_t count;
    const int64_t *axis = tn__tflite_ints(infer, 1, &count);
    if (tn__tflite_stated(infer) || !axis || count != 1 || !tn__tflite_known(infer, 0))
        return TN_OK;
    return shapes_reduce(infer, axis, 1, false);
}

/* --- recurrent layers --- */

tn_status tn__tflite_svdf(tn_infer *infer) {
    const tn_tensor *in = tn__tflite_known(infer, 0), *feature = tn__tflite_known(infer, 1);
    int64_t rank = tn__attr_int(infer->op, "rank", 0);
    if (tn__tflite_stated(infer) || !in || !feature) return TN_OK;
    if (in->rank != 2 || feature->rank != 2 || rank < 1)
        return tn__infer_fail(infer, "ranks %u and %u, of SVDF %lld", in->rank, feature->rank,
                              (long long)rank);
    return tn__tflite_set(infer, 0, 2, (int64_t[]){in->shape[0], feature->shape[0] / rank});
}

/* Gives an output the shape of the input, except for the last extent, which comes from the matrix
 * of weights. */
static tn_status shapes_last(tn_infer *infer, uint32_t output, uint32_t weights, uint32_t axis,
                             int64_t times) {
    const tn_tensor *in = tn__tflite_known(infer, 0), *matrix = tn__tflite_known(infer, weights);
    int64_t shape[TN_RANK_MAX];
    if (!in || !matrix || in->rank == 0 || matrix->rank <= axis) return TN_OK;
    memcpy(shape, in->shape, in->rank * sizeof *shape);
    if (__builtin_mul_overflow(matrix->shape[axis], times, &shape[in->rank - 1])) return TN_OK;
    return tn__tflite_set(infer, output, in->rank, shape);
}

/* Sets the shapes of LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM. The output has as many columns as the
 * projection (input 16) has rows, or, without a projection, as the recurrent weights (input 6) have
 * columns. An LSTM of kind basic has several outputs, for which there is no rule. */
tn_status tn__tflite_lstm(tn_infer *infer) {
    if (tn__tflite_stated(infer) || tn__output_count(infer) > 1) return TN_OK;
    if (tn__input(infer, 16)) return shapes_last(infer, 0, 16, 0, 1);
    return shapes_last(infer, 0, 6, 1, 1);
}
tn_status tn__tflite_rnn(tn_infer *infer) {
    return tn__tflite_stated(infer) ? TN_OK : shapes_last(infer, 0, 1, 0, 1);
}
/* Sets the shapes of two layers with opposite directions: their results are joined in one output,
 * or each has its own output. */
tn_status tn__tflite_bidirectional(tn_infer *infer) {
    bool is_lstm = strcmp(infer->op->type, "BIDIRECTIONAL_SEQUENCE_LSTM") == 0;
    bool merges = tn__attr_int(infer->op, "merge_outputs", 0) != 0;
    uint32_t weights = is_lstm ? 6 : 1, axis = is_lstm ? 1 : 0;
    if (tn__tflite_stated(infer) || (is_lstm && tn__input(infer, 16))) return TN_OK;
    TN_TRY(shapes_last(infer, 0, weights, axis, merges ? 2 : 1));
    return merges ? TN_OK : shapes_last(infer, 1, weights, axis, 1);
}

/* Sets the shape of EMBEDDING_LOOKUP: rows of a table. */
tn_status tn__tflite_lookup(tn_infer *infer) {
    const tn_tensor *ids = tn__tflite_known(infer, 0), *table = tn__tflite_known(infer, 1);
    int64_t shape[TN_RANK_MAX];
    if (tn__tflite_stated(infer) || !ids || !table || ids->rank != 1 || table->rank == 0)
        return TN_OK;
    memcpy(shape, table->shape, table->rank * sizeof *shape);
    shape[0] = ids->shape[0];
    return tn__tflite_set(infer, 0, table->rank, shape);
}
