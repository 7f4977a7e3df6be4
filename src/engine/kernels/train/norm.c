/* norm.c - batch normalisation by the statistics of the batch, and its gradient.
 *
 * Statistics in double and in two passes, mean first. The running ones take a share of those of the
 * batch: its mean and its unbiased variance, as PyTorch has it. The output follows from mean and
 * variance as they are stored, so that BatchNormApply on those gives the same bits. With n elements
 * a channel, h the normalised input and s = 1 / deviation:
 *     d bias = sum dy,  d scale = sum dy h,  dx = scale s (dy - (d bias + h d scale) / n)
 * Source: Ioffe, Szegedy 2015.
 */
#include <math.h>

#include "engine/kernels/check.h"

typedef struct norm_frame {
    uint64_t batch, channels, area;
} norm_frame;

static tn_status norm_read(const tn_kernel_call *call, const tn_operand *x, norm_frame *frame) {
    if (x->rank < 2) return tn__call_fail(call, TN_E_INVALID, "an input of rank %u", x->rank);
    frame->batch = (uint64_t)x->shape[0];
    frame->channels = (uint64_t)x->shape[1];
    frame->area = tn__operand_span(x, 2, x->rank);
    return TN_OK;
}

/* Loops over the elements of one channel in all samples, in stretches of `count` elements from `at`
 * on, at most a tile each. */
#define NORM_EACH(frame, channel, at, count)                                                       \
    for (uint64_t n_ = 0; n_ < (frame)->batch; n_++)                                               \
        for (uint64_t i_ = 0, at = (n_ * (frame)->channels + (channel)) * (frame)->area,           \
                      count = (frame)->area < TN__REAL_TILE ? (frame)->area : TN__REAL_TILE;       \
             i_ < (frame)->area; i_ += count, at += count,                                         \
                      count = (frame)->area - i_ < TN__REAL_TILE ? (frame)->area - i_              \
                                                                 : TN__REAL_TILE)

static double norm_sum(const tn_operand *x, const norm_frame *frame, uint64_t channel, double mean,
                       bool squares) {
    double sum = 0, values[TN__REAL_TILE];
    NORM_EACH(frame, channel, at, count) {
        tn__real_load(x, at, 1, count, values);
        for (uint64_t k = 0; k < count; k++) {
            double value = values[k] - mean;
            sum += squares ? value * value : value;
        }
    }
    return sum;
}

/* `statistics`: mean and variance. */
static void norm_apply_channel(const tn_kernel_call *call, const norm_frame *frame,
                               const tn_operand *statistics, uint64_t c) {
    const tn_operand *in = call->inputs;
    double epsilon = tn__attr_float(call->op, "epsilon", 1e-5);
    double mean = tn__real_get(&statistics[0], c), values[TN__REAL_TILE];
    double deviation = sqrt(tn__real_get(&statistics[1], c) + epsilon);
    double factor = tn__real_get(&in[1], c) / deviation, addend = tn__real_get(&in[2], c);
    const bool relu = tn__attr_int(call->op, "relu", 0) != 0;
    NORM_EACH(frame, c, at, count) {
        tn__real_load(&in[0], at, 1, count, values);
        for (uint64_t k = 0; k < count; k++) values[k] = (values[k] - mean) * factor + addend;
        for (uint64_t k = 0; k < count && relu; k++) values[k] = values[k] < 0 ? 0 : values[k];
        tn__real_store(&call->outputs[0], at, count, values);
    }
}

static void norm_run_channel(const tn_kernel_call *call, const norm_frame *frame, uint64_t c) {
    const tn_operand *in = call->inputs, *x = &in[0];
    double share = tn__attr_float(call->op, "momentum", 0.1);
    double n = (double)frame->batch * (double)frame->area;
    double mean = norm_sum(x, frame, c, 0, false) / n;
    double squares = norm_sum(x, frame, c, mean, true);
    double unbiased = n > 1 ? squares / (n - 1) : squares;
    tn__real_set(&in[3], c, (1 - share) * tn__real_get(&in[3], c) + share * mean);
    tn__real_set(&in[4], c, (1 - share) * tn__real_get(&in[4], c) + share * unbiased);
    tn__real_set(&call->outputs[3], c, mean);
    tn__real_set(&call->outputs[4], c, squares / n);
    norm_apply_channel(call, frame, &call->outputs[3], c);
}

static tn_status norm_run(tn_kernel_call *call) {
    norm_frame frame = {0};
    TN_TRY(norm_read(call, &call->inputs[0], &frame));
    for (uint32_t i = 1; i < 5; i++) TN_TRY(tn__check_count(call, i, frame.channels));
    for (uint64_t c = 0; c < frame.channels; c++) norm_run_channel(call, &frame, c);
    return TN_OK;
}

static tn_status norm_run_apply(tn_kernel_call *call) {
    norm_frame frame = {0};
    TN_TRY(norm_read(call, &call->inputs[0], &frame));
    for (uint32_t i = 1; i < 5; i++) TN_TRY(tn__check_count(call, i, frame.channels));
    for (uint64_t c = 0; c < frame.channels; c++)
        norm_apply_channel(call, &frame, &call->inputs[3], c);
    return TN_OK;
}

static void norm_grad_channel(const tn_kernel_call *call, const norm_frame *frame, uint64_t c) {
    const tn_operand *dy = &call->inputs[0], *x = &call->inputs[1];
    double scale = tn__real_get(&call->inputs[2], c), mean = tn__real_get(&call->inputs[3], c);
    double epsilon = tn__attr_float(call->op, "epsilon", 1e-5), sum = 0, product = 0;
    double inverse = 1 / sqrt(tn__real_get(&call->inputs[4], c) + epsilon);
    double n = (double)frame->batch * (double)frame->area, a[TN__REAL_TILE], b[TN__REAL_TILE];
    NORM_EACH(frame, c, at, count) {
        tn__real_load(dy, at, 1, count, a);
        tn__real_load(x, at, 1, count, b);
        for (uint64_t k = 0; k < count; k++) {
            sum += a[k];
            product += a[k] * ((b[k] - mean) * inverse);
        }
    }
    tn__real_set(&call->outputs[1], c, product);
    tn__real_set(&call->outputs[2], c, sum);
    NORM_EACH(frame, c, at, count) {
        tn__real_load(dy, at, 1, count, a);
        tn__real_load(x, at, 1, count, b);
        for (uint64_t k = 0; k < count; k++) {
            double h = (b[k] - mean) * inverse;
            a[k] = scale * inverse * (a[k] - (sum + h * product) / n);
        }
        tn__real_store(&call->outputs[0], at, count, a);
    }
}

static tn_status norm_run_grad(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[1];
    norm_frame frame = {0};
    TN_TRY(norm_read(call, x, &frame));
    TN_TRY(tn__check_shape(call, 0, x->rank, x->shape));
    for (uint32_t i = 2; i < 5; i++) TN_TRY(tn__check_count(call, i, frame.channels));
    for (uint64_t c = 0; c < frame.channels; c++) norm_grad_channel(call, &frame, c);
    return TN_OK;
}

static bool norm_accepts(const tn_kernel_setup *setup) {
    for (uint32_t i = 0; i < 5; i++)
        if (!tn__input_is(setup, i, TN__TYPES_REAL)) return false;
    for (uint32_t k = 0; k < setup->op->output_count; k++)
        if (!tn__output_is(setup, k, TN__TYPES_REAL)) return false;
    return true;
}

static const tn_kernel train_norm_kernels[] = {
    {.type = "BatchNormApply", .accepts = norm_accepts, .run = norm_run_apply},
    {.type = "BatchNormGrad", .accepts = norm_accepts, .run = norm_run_grad},
    {.type = "BatchNormTrain", .accepts = norm_accepts, .run = norm_run},
};

TN_KERNEL_FAMILY(train_norm, "tenure");
