/* scale.c - the adaptive scale of the loss (src/graph/train/mixed.c). */
#include <math.h>

#include "engine/kernels/check.h"
#include "engine/kernels/convert.h"

#define SCALE_MOST 40 /* limit of the exponent, either way: no scale leaves float32 */

enum { SCALE_EXPONENT, SCALE_GOOD, SCALE_SKIPPED, SCALE_STATE };

static double scale_of(const tn_kernel_call *call, const int64_t *state) {
    int64_t exponent = state[SCALE_EXPONENT]; /* a checkpoint may hold anything */
    exponent = exponent > SCALE_MOST ? SCALE_MOST : exponent < -SCALE_MOST ? -SCALE_MOST : exponent;
    return ldexp(tn__attr_float(call->op, "first", 1), (int)exponent);
}

static tn_status scale_run(tn_kernel_call *call) {
    const int64_t *state = call->inputs[0].data;
    TN_TRY(tn__check_count(call, 0, SCALE_STATE));
    for (uint64_t i = 0; i < tn__operand_count(&call->outputs[0]); i++)
        tn__real_set(&call->outputs[0], i, scale_of(call, state));
    return TN_OK;
}

/* Whether all elements are finite: their exponents are not all ones. */
#define SCALE_FINITE(name, type, mask)                                                             \
    TN_WIDE static bool scale_finite_##name(const type *bits, uint64_t count) {                    \
        type any = 0;                                                                              \
        TN_APART                                                                                   \
        for (uint64_t i = 0; i < count; i++) any |= (type)((bits[i] & (mask)) == (mask));          \
        return any == 0;                                                                           \
    }
SCALE_FINITE(half, uint16_t, 0x7c00u)
SCALE_FINITE(bfloat, uint16_t, 0x7f80u)
SCALE_FINITE(float, uint32_t, 0x7f800000u)
SCALE_FINITE(double, uint64_t, UINT64_C(0x7ff0000000000000))

static bool scale_is_finite(const tn_operand *gradient) {
    uint64_t count = tn__operand_count(gradient);
    switch (gradient->dtype) {
    case TN_FLOAT16:
        return scale_finite_half(gradient->data, count);
    case TN_BFLOAT16:
        return scale_finite_bfloat(gradient->data, count);
    case TN_FLOAT32:
        return scale_finite_float(gradient->data, count);
    default:
        return scale_finite_double(gradient->data, count);
    }
}

static tn_status scale_run_step(tn_kernel_call *call) {
    int64_t *state = call->inputs[0].data;
    int64_t interval = tn__attr_int(call->op, "interval", 2000);
    int64_t most = tn__attr_int(call->op, "micro_batches", 1);
    const tn_operand *micro = tn__call_input(call, 1);
    tn_operand *factor = &call->outputs[1];
    bool finite = true;
    TN_TRY(tn__check_count(call, 0, SCALE_STATE));
    TN_TRY(tn__check_count(call, 1, 1));
    tn__real_set(factor, 0, 0);
    tn__real_set(factor, 1, (double)state[SCALE_SKIPPED]);
    if (micro != NULL && most > 1 && tn__operand_int(micro, 0) < most - 1) return TN_OK;
    for (uint32_t i = 2; i < call->input_count && finite; i++)
        finite = scale_is_finite(&call->inputs[i]);
    if (!finite) {
        if (state[SCALE_EXPONENT] > -SCALE_MOST) state[SCALE_EXPONENT]--;
        state[SCALE_GOOD] = 0;
        if (state[SCALE_SKIPPED] < INT64_MAX) state[SCALE_SKIPPED]++;
        return TN_OK;
    }
    tn__real_set(factor, 0, 1 / scale_of(call, state));
    if (state[SCALE_GOOD] < interval) state[SCALE_GOOD]++; /* or it stands at INT64_MAX */
    if (state[SCALE_GOOD] < interval) return TN_OK;
    if (state[SCALE_EXPONENT] < SCALE_MOST) state[SCALE_EXPONENT]++;
    state[SCALE_GOOD] = 0;
    return TN_OK;
}

static bool scale_accepts(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, TN__TYPE(INT64)) && tn__output_is(setup, 0, TN__TYPES_SUMMED);
}

static bool scale_accepts_step(const tn_kernel_setup *setup) {
    for (uint32_t i = 2; i < setup->op->input_count; i++)
        if (!tn__input_is(setup, i, TN__TYPES_REAL)) return false;
    return tn__input_is(setup, 0, TN__TYPE(INT64)) && tn__input_may_be(setup, 1, TN__TYPE(INT64)) &&
           tn__output_is(setup, 1, TN__TYPES_SUMMED);
}

static const tn_kernel train_scale_kernels[] = {
    {.type = "LossScale", .accepts = scale_accepts, .run = scale_run},
    {.type = "LossScaleStep", .accepts = scale_accepts_step, .run = scale_run_step},
};

TN_KERNEL_FAMILY(train_scale, "tenure");
