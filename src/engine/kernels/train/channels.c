/* channels.c - sums over all but the channels of a tensor that lies channels last: the gradient of
 * a convolution's bias. Rows of channels are added one after the other, in float64, so no element
 * is moved first.
 * Cost: O(elements).
 */
#include "engine/kernels/check.h"
#include "engine/kernels/convert.h"

static bool channels_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0);
    const tn_tensor *y = tn__setup_output(setup, 0);
    const tn_value *value = tn__setup_value(setup, 1);
    uint32_t seen = 0;
    if (x == NULL || y == NULL || !tn__is_short_float(x->dtype) || y->dtype != x->dtype ||
        x->format.order != TN_ORDER_NHWC || x->format.block != 0 || x->rank < 3 ||
        y->format.order == TN_ORDER_NHWC || (x->flags & TN_TENSOR_BOUND) != 0 || value == NULL ||
        value->ints == NULL)
        return false;
    for (uint64_t i = 0; i < value->count; i++) {
        int64_t axis = value->ints[i] + (value->ints[i] < 0 ? (int64_t)x->rank : 0);
        if (axis >= 0 && axis < (int64_t)x->rank) seen |= 1u << axis;
    }
    return seen == (((1u << x->rank) - 1) & ~2u) && x->shape[1] >= 0;
}

static uint64_t channels_workspace(const tn_kernel_setup *setup) {
    return tn__mul_sat((uint64_t)tn__setup_input(setup, 0)->shape[1], sizeof(double));
}

TN_WIDE static void channels_add(uint64_t channels, const float *row, double *sums) {
    TN_APART
    for (uint64_t c = 0; c < channels; c++) sums[c] += (double)row[c];
}

static tn_status channels_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    uint64_t channels = (uint64_t)x->shape[1], count = tn__operand_count(x);
    const char *from = x->data;
    size_t size = tn__element_size(x->dtype);
    double *sums = call->workspace;
    tn__block_room room;
    TN_TRY(tn__check_scratch(call, channels * sizeof *sums));
    for (uint64_t c = 0; c < channels; c++) sums[c] = 0;
    for (uint64_t at = 0; at < count; at += channels)
        for (uint64_t c = 0; c < channels; c += TN__BLOCK) {
            uint64_t some = channels - c < TN__BLOCK ? channels - c : TN__BLOCK;
            const float *row =
                tn__convert_block(x->dtype, from + (at + c) * size, TN_FLOAT32, &room, some);
            channels_add(some, row, sums + c);
        }
    tn__convert(TN_FLOAT64, sums, x->dtype, call->outputs[0].data, channels);
    return TN_OK;
}

static const tn_kernel train_channels_kernels[] = {
    {.type = "ReduceSum",
     .accepts = channels_accepts,
     .workspace = channels_workspace,
     .run = channels_run,
     .formats = true},
};

TN_KERNEL_FAMILY(train_channels, "");
