/* formats.c - changes tensors of convolutions to channels-last format.
 *
 * Convolutions are several times as fast with channels last (one vector load per position) and need
 * no scratch then. So each convolution that has a fast form for it (formats_suits_conv) reads and
 * writes such tensors. Operators that support both formats (pools, activations, sums, joins) follow
 * if one of their inputs has channels last; all others get the order of the shape. Reorders are
 * inserted in between, once per tensor and format. If an image is one pixel or has one channel,
 * both formats are the same bytes, and the reorder is an alias.
 *
 * Shapes stay as they are; tn_format gives the layout of the bytes. Outputs of the graph and
 * tensors that other blocks read stay in the order of their shape.
 */
#include "graph/rewrite/rewrite.h"

#include "graph/attr.h"

/* What an operator wants of the formats of its images. TAKE: it reads images in any format, and
 * writes no images. */
typedef enum formats_want {
    FORMATS_PLAIN,
    FORMATS_FOLLOW,
    FORMATS_LAST,
    FORMATS_TAKE,
    FORMATS_TAKE_LAST
} formats_want;

static bool formats_is_last(const tn__draft *draft, tn_tensor_id id) {
    return id != TN_NONE && tn__draft_tensor_of(draft, id)->format.order == TN_ORDER_NHWC;
}

static bool formats_is_image(const tn__draft *draft, tn_tensor_id id, uint32_t rank) {
    if (!tn__draft_is_float(draft, id)) return false;
    const tn_tensor *tensor = tn__draft_tensor_of(draft, id);
    return tensor->rank == rank && rank >= 3 && rank <= 5 && tensor->format.block == 0;
}

/* Whether the order of the dimensions does not matter, because at most one of them is larger than
 * 1. */
static bool formats_is_flat(const tn__draft *draft, tn_tensor_id id) {
    const tn_tensor *tensor = tn__draft_tensor_of(draft, id);
    uint32_t wide = 0;
    if (tensor->rank == TN_RANK_UNKNOWN) return false;
    for (uint32_t d = 0; d < tensor->rank; d++) wide += tensor->shape[d] != 1;
    return wide <= 1;
}

static bool formats_is_line(const tn__draft *draft, tn_tensor_id id) {
    return tn__draft_is_float(draft, id) && formats_is_flat(draft, id);
}

/* Whether the convolution has a fast form for channels last: it has one group, or it is not
 * transposed and is depthwise or has a multiple of 16 channels per group. */
static bool formats_suits_conv(const tn__draft *draft, tn_op_id id) {
    const tn_op *op = tn__draft_op_of(draft, id);
    int64_t group = tn__attr_int(op, "group", 1);
    bool transposed = tn__draft_is(draft, id, "ConvTranspose");
    /* the operands of ConvGradWeights are the images dy and x */
    bool weights = tn__draft_is(draft, id, "tenure.ConvGradWeights");
    const tn_tensor *x = tn__draft_tensor_of(draft, op->inputs[0]);
    const tn_tensor *y = tn__draft_tensor_of(draft, weights ? op->inputs[1] : op->outputs[0]);
    if (group == 1) return true;
    bool depthwise = group == x->shape[1] && group == y->shape[1];
    return !transposed &&
           (depthwise || (x->shape[1] / group % 16 == 0 && y->shape[1] / group % 16 == 0));
}

/* Whether the operator slides a window over images and has weights. */
static bool formats_is_conv(const tn__draft *draft, tn_op_id id) {
    return tn__draft_has(draft, id, TN_RULE_CONV) || tn__draft_is(draft, id, "ConvTranspose");
}

/* Whether every operand is an image that is computed in the run, of the rank of the output, or, if
 * `lines` is set, a vector. At least one operand must be an image. */
static bool formats_suits_all(const tn__draft *draft, const tn_op *op, bool lines) {
    uint32_t rank = tn__draft_tensor_of(draft, op->outputs[0])->rank, images = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        tn_tensor_id input = op->inputs[i];
        if (input == TN_NONE) return false;
        bool image = formats_is_image(draft, input, rank) && !tn__draft_is_static(draft, input);
        if (!image && !(lines && formats_is_line(draft, input))) return false;
        images += image;
    }
    return images > 0;
}

/* Whether the operator sums over all dimensions except the channels, as the gradient of a bias
 * does. */
static bool formats_is_channel_sum(const tn__draft *draft, tn_op_id id) {
    const tn_op *op = tn__draft_op_of(draft, id);
    if (!tn__draft_is(draft, id, "ReduceSum") || op->input_count != 2 || op->inputs[1] == TN_NONE)
        return false;
    const tn_tensor *x = tn__draft_tensor_of(draft, op->inputs[0]);
    const tn_tensor *axes = tn__draft_tensor_of(draft, op->inputs[1]);
    uint32_t seen = 0;
    if (!formats_is_image(draft, op->inputs[0], x->rank) || axes->value == NULL ||
        axes->value->ints == NULL || tn__attr_int(op, "keepdims", 1) != 0)
        return false;
    for (uint64_t i = 0; i < axes->value->count; i++) {
        int64_t axis = axes->value->ints[i] + (axes->value->ints[i] < 0 ? (int64_t)x->rank : 0);
        if (axis >= 0 && axis < (int64_t)x->rank) seen |= 1u << axis;
    }
    return seen == (((1u << x->rank) - 1) & ~2u);
}

static formats_want formats_wants(const tn__draft *draft, tn_op_id id) {
    const tn_op *op = tn__draft_op_of(draft, id);
    if (op->input_count == 0 || op->inputs[0] == TN_NONE || op->output_count == 0 ||
        op->outputs[0] == TN_NONE || tn__draft_is_static(draft, op->outputs[0]))
        return FORMATS_PLAIN;
    for (uint32_t k = 1; k < op->output_count; k++)
        if (op->outputs[k] != TN_NONE && !formats_is_flat(draft, op->outputs[k]))
            return FORMATS_PLAIN;
    if (formats_is_channel_sum(draft, id)) return FORMATS_TAKE;
    uint32_t rank = tn__draft_tensor_of(draft, op->outputs[0])->rank;
    if (!formats_is_image(draft, op->outputs[0], rank)) return FORMATS_PLAIN;
    bool follows = tn__draft_has(draft, id, TN_RULE_IMAGES);
    bool pair = tn__draft_has(draft, id, TN_RULE_ARITHMETIC),
         joins = tn__draft_has(draft, id, TN_RULE_JOINS);
    if (follows && (pair || joins))
        return (joins || op->input_count == 2) && formats_suits_all(draft, op, pair)
                   ? FORMATS_FOLLOW
                   : FORMATS_PLAIN;
    if (!formats_is_image(draft, op->inputs[0], rank) || tn__draft_is_static(draft, op->inputs[0]))
        return FORMATS_PLAIN;
    if (tn__draft_is(draft, id, "tenure.ConvGradWeights"))
        return formats_is_image(draft, op->inputs[1], rank) && formats_suits_conv(draft, id)
                   ? FORMATS_TAKE_LAST
                   : FORMATS_PLAIN;
    if (formats_is_conv(draft, id))
        return formats_suits_conv(draft, id) ? FORMATS_LAST : FORMATS_PLAIN;
    return follows ? FORMATS_FOLLOW : FORMATS_PLAIN;
}

/* --- reorders --- */

static tn_status formats_reorder(tn__draft *draft, tn_op_id before, tn_tensor_id from,
                                 tn_tensor_id to, tn_op_id *id) {
    tn_op op = {.type = "Reorder",
                .domain = "tenure",
                .version = 1,
                .inputs = &from,
                .outputs = &to,
                .input_count = 1,
                .output_count = 1};
    return tn__draft_add_op(draft, before, &op, id);
}

/* Makes a tensor like `id` in the other format and links the two as twins. It gets its own name,
 * because plans name tensors. */
static tn_status formats_twin(tn__draft *draft, tn_tensor_id id, tn_tensor_id *twin) {
    tn_tensor tensor = *tn__draft_tensor_of(draft, id);
    bool last = formats_is_last(draft, id);
    size_t length = strlen(tensor.name);
    char *name = tn__arena_alloc(&draft->arena, length + sizeof ":nhwc");
    if (name == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    memcpy(name, tensor.name, length);
    if (length > 0) memcpy(name + length, last ? ":nchw" : ":nhwc", sizeof ":nhwc");
    TN_TRY(tn__draft_add_tensor(draft, name, tensor.dtype, tensor.rank, tensor.shape, twin));
    draft->tensors[*twin].tensor.format.order = last ? TN_ORDER_PLAIN : TN_ORDER_NHWC;
    draft->tensors[*twin].twin = id;
    draft->tensors[id].twin = *twin;
    return TN_OK;
}

/* Converts input `index` to the wanted format. */
static tn_status formats_convert(tn__draft *draft, tn_op_id id, uint32_t index, bool last) {
    tn_tensor_id input = tn__draft_input(draft, id, index);
    if (input == TN_NONE || formats_is_last(draft, input) == last) return TN_OK;
    tn_tensor_id twin = draft->tensors[input].twin;
    tn_op_id made;
    if (twin == TN_NONE) {
        TN_TRY(formats_twin(draft, input, &twin));
        TN_TRY(formats_reorder(draft, id, input, twin, &made));
    }
    tn__draft_set(draft, id, index, twin);
    return TN_OK;
}

/* Makes the output have its channels last. If it must be kept in the order of its shape (an output
 * of the graph, or read by another block), a Reorder follows. */
static tn_status formats_give(tn__draft *draft, tn_op_id id) {
    tn_tensor_id output = tn__draft_op_of(draft, id)->outputs[0], twin;
    tn_op_id made;
    if (!draft->tensors[output].fixed) {
        draft->tensors[output].tensor.format.order = TN_ORDER_NHWC;
        return TN_OK;
    }
    TN_TRY(formats_twin(draft, output, &twin));
    tn__draft_divert(draft, id, twin);
    TN_TRY(formats_reorder(draft, id, twin, output, &made));
    draft->ops[made].sub = TN_NONE; /* places the Reorder right after the operator */
    return TN_OK;
}

static tn_status formats_each(tn__draft *draft, tn_op_id id) {
    const tn_op *op = tn__draft_op_of(draft, id);
    if (op->output_count == 0 || op->outputs[0] == TN_NONE) return TN_OK;
    formats_want want = formats_wants(draft, id);
    uint32_t count = op->input_count;
    bool last = want == FORMATS_LAST || want == FORMATS_TAKE_LAST;
    bool follows = want == FORMATS_FOLLOW || want == FORMATS_TAKE;
    for (uint32_t i = 0; i < count && follows; i++)
        if (formats_is_last(draft, tn__draft_input(draft, id, i))) last = true;
    for (uint32_t i = 0; i < count; i++) {
        tn_tensor_id input = tn__draft_input(draft, id, i);
        if (input == TN_NONE) continue;
        bool gives = want == FORMATS_FOLLOW || want == FORMATS_LAST;
        tn_tensor_id like =
            gives ? tn__draft_op_of(draft, id)->outputs[0] : tn__draft_input(draft, id, 0);
        uint32_t rank = like != TN_NONE ? tn__draft_tensor_of(draft, like)->rank : 0;
        /* the operand is weights or a bias, that is, operand 1 or 2 of a convolution, even if it is
         * computed */
        bool weights = i > 0 && i < 3 && formats_is_conv(draft, id);
        bool image = last && !weights && !tn__draft_is_static(draft, input) &&
                     formats_is_image(draft, input, rank);
        TN_TRY(formats_convert(draft, id, i, image));
    }
    return last && want != FORMATS_TAKE && want != FORMATS_TAKE_LAST ? formats_give(draft, id)
                                                                     : TN_OK;
}

const tn__rewrite tn__rewrite_formats = {
    .name = "formats",
    .summary = "channels last around convolutions",
    .formats = true,
    .in_training = true,
    .each = formats_each,
};
