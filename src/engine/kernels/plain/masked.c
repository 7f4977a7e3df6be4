/* masked.c - softmax of alpha x + mask along the last axis, in one pass: row by row, so that
 * neither the product nor the sum is ever a tensor. The result has the same bits as Mul, Add and
 * Softmax in plain loops.
 */
#include "engine/kernels/check.h"
#include "engine/kernels/convert.h"
#include "engine/kernels/plain/rows.h"

/* step: 0 where one number of the mask serves the whole row. */
TN_WIDE static void masked_row(uint64_t extent, float alpha, const float *x, const float *mask,
                               uint64_t step, float *y) {
    if (step == 0) {
        const float one = *mask;
        TN_APART
        for (uint64_t i = 0; i < extent; i++) y[i] = alpha * x[i] + one;
        return;
    }
    TN_APART
    for (uint64_t i = 0; i < extent; i++) y[i] = alpha * x[i] + mask[i];
}

static tn_status masked_check(const tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *mask = &call->inputs[1];
    bool fits = x->rank > 0 && mask->rank <= x->rank;
    for (uint32_t d = 0; fits && d < mask->rank; d++)
        fits = mask->shape[d] == 1 || mask->shape[d] == x->shape[d + x->rank - mask->rank];
    if (!fits) return tn__call_fail(call, TN_E_INVALID, "the mask does not fit the input");
    return tn__check_result(call, 0, x->rank, x->shape);
}

/* Where the mask of row `row` begins. */
static uint64_t masked_at(const tn_operand *x, const int64_t *strides, uint64_t row) {
    uint64_t at = 0;
    for (uint32_t d = x->rank - 1; d-- > 0; row /= (uint64_t)x->shape[d])
        at += row % (uint64_t)x->shape[d] * (uint64_t)strides[d];
    return at;
}

static tn_status masked_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *mask = &call->inputs[1];
    const float alpha = (float)tn__attr_float(call->op, "alpha", 1);
    int64_t strides[TN_RANK_MAX];
    TN_TRY(masked_check(call));
    const uint64_t extent = (uint64_t)x->shape[x->rank - 1], total = tn__operand_count(x);
    float *y = call->outputs[0].data;
    tn__operand_strides(mask, x->rank, strides);
    for (uint64_t at = 0; at < total; at += extent) {
        masked_row(extent, alpha, (const float *)x->data + at,
                   (const float *)mask->data + masked_at(x, strides, at / extent),
                   (uint64_t)strides[x->rank - 1], y + at);
        tn__softmax_floats(extent, y + at, y + at);
    }
    return TN_OK;
}

static bool masked_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 3, 0);
}

static const tn_kernel masked_kernels[] = {
    {.type = "MaskedSoftmax", .accepts = masked_accepts, .run = masked_run},
};

TN_KERNEL_FAMILY(masked, "tenure");
