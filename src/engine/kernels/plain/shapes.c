/* shapes.c - Shape and Size: the extents of an operand as numbers.
 *
 * Source: operator texts of ONNX, opsets 1 to 21 (Shape has `start` and `end` from 15).
 */
#include "engine/kernels/box.h"

static int64_t shapes_limit(const tn_op *op, const char *name, int64_t otherwise, int64_t rank) {
    int64_t at = tn__attr_int(op, name, otherwise);
    if (at < 0) at = at < -rank ? 0 : at + rank;
    return at > rank ? rank : at;
}

static tn_status shapes_shape(tn_kernel_call *call) {
    const tn_operand *input = &call->inputs[0];
    int64_t rank = input->rank, first = shapes_limit(call->op, "start", 0, rank);
    int64_t last = shapes_limit(call->op, "end", rank, rank);
    int64_t count = last > first ? last - first : 0;
    TN_TRY(tn__call_shape(call, 0, 1, &count));
    if (count > 0)
        memcpy(call->outputs[0].data, input->shape + first, (uint64_t)count * sizeof count);
    return TN_OK;
}

static tn_status shapes_size(tn_kernel_call *call) {
    int64_t size = (int64_t)tn__operand_count(&call->inputs[0]);
    TN_TRY(tn__call_shape(call, 0, 0, NULL));
    memcpy(call->outputs[0].data, &size, sizeof size);
    return TN_OK;
}

static const tn_kernel shapes_kernels[] = {
    {.type = "Shape", .accepts = tn__accepts_output, .run = shapes_shape},
    {.type = "Size", .accepts = tn__accepts_output, .run = shapes_size},
};

TN_KERNEL_FAMILY(shapes, "");
