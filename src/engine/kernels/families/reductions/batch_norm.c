/* batch_norm.c - normalisations with statistics per channel or group: BatchNormalization (with
 * given statistics), InstanceNormalization and GroupNormalization (with the statistics of a slice),
 * and the batch normalisation of training with its gradient.
 *
 * Statistics are computed in double precision in two passes, the mean first, so that a large mean
 * costs no precision. A slice is read before it is written, so the output may have the address of
 * the input.
 * Source: the ONNX specifications, opsets 1 to 17 (GroupNormalization: 18 and 21); Ioffe, Szegedy
 * 2015.
 */
#include <math.h>

#include "engine/kernels/operands.h"

/* --- slices: elements that are normalised together --- */

/* The elements that are normalised together: `runs` contiguous runs of `run` elements, which begin
 * `step` elements apart. */
typedef struct batch_norm_slice {
    uint64_t first, runs, run, step;
} batch_norm_slice;

typedef struct batch_norm_moments {
    double mean, variance;
} batch_norm_moments;

/* Loops over the elements of a slice, in contiguous parts of `count` elements from element `at` on.
 * A part has at most TN__REAL_TILE elements. */
#define BATCH_NORM_EACH(slice, at, count)                                                          \
    for (uint64_t r_ = 0; r_ < (slice)->runs; r_++)                                                \
        for (uint64_t i_ = 0, at = (slice)->first + r_ * (slice)->step,                            \
                      count = (slice)->run < TN__REAL_TILE ? (slice)->run : TN__REAL_TILE;         \
             i_ < (slice)->run; i_ += count, at += count,                                          \
                      count = (slice)->run - i_ < TN__REAL_TILE ? (slice)->run - i_                \
                                                                : TN__REAL_TILE)

static double batch_norm_sum(const tn_operand *x, const batch_norm_slice *slice, double mean,
                             double power) {
    double sum = 0, values[TN__REAL_TILE];
    BATCH_NORM_EACH(slice, at, count) {
        tn__real_load(x, at, 1, count, values);
        for (uint64_t k = 0; k < count; k++) {
            double value = values[k] - mean;
            sum += power == 2 ? value * value : value;
        }
    }
    return sum;
}

static batch_norm_moments batch_norm_measure(const tn_operand *x, const batch_norm_slice *slice) {
    double count = (double)slice->runs * (double)slice->run;
    batch_norm_moments moments = {.mean = batch_norm_sum(x, slice, 0, 1) / count};
    moments.variance = batch_norm_sum(x, slice, moments.mean, 2) / count;
    return moments;
}

/* Computes y = (x - mean) * factor + addend for a slice, followed by Relu if `relu` is true. */
static void batch_norm_scale(const tn_operand *x, const tn_operand *y,
                             const batch_norm_slice *slice, double mean, double factor,
                             double addend, bool relu) {
    double values[TN__REAL_TILE];
    BATCH_NORM_EACH(slice, at, count) {
        tn__real_load(x, at, 1, count, values);
        for (uint64_t k = 0; k < count; k++) values[k] = (values[k] - mean) * factor + addend;
        for (uint64_t k = 0; k < count && relu; k++) values[k] = values[k] < 0 ? 0 : values[k];
        tn__real_store(y, at, count, values);
    }
}

/* --- BatchNormalization --- */

/* Whether BatchNormalization is in training mode. Before opset 14 this follows from the number of
 * outputs: inference has one. */
static bool batch_norm_trains(const tn_kernel_call *call) {
    if (call->version >= 14) return tn__attr_int(call->op, "training_mode", 0) != 0;
    return call->output_count > 1 &&
           (call->version >= 7 || tn__attr_int(call->op, "is_test", 0) == 0);
}

static void batch_norm_batch_outputs(const tn_kernel_call *call, uint64_t feature,
                                     batch_norm_moments now, batch_norm_moments before) {
    double momentum = tn__attr_float(call->op, "momentum", 0.9f);
    const double values[] = {before.mean * momentum + now.mean * (1 - momentum),
                             before.variance * momentum + now.variance * (1 - momentum), now.mean,
                             now.variance};
    for (uint32_t i = 0; i < 4; i++) {
        const tn_operand *output = tn__call_output(call, 1 + i);
        if (output != NULL) tn__real_set(output, feature, values[i]);
    }
}

static tn_status batch_norm_run_batch(tn_kernel_call *call) {
    const tn_operand *in = call->inputs, *x = &in[0], *y = &call->outputs[0];
    bool trains = batch_norm_trains(call);
    bool spatial = call->version >= 9 || tn__attr_int(call->op, "spatial", 1) != 0;
    double epsilon = tn__attr_float(call->op, "epsilon", 1e-5f);
    uint64_t batch = x->rank > 0 ? (uint64_t)x->shape[0] : 1;
    uint64_t channels = x->rank > 1 ? (uint64_t)x->shape[1] : 1;
    uint64_t area = tn__operand_span(x, 2, x->rank);
    uint64_t features = spatial ? channels : channels * area;
    if (!spatial) area = 1;
    for (uint32_t i = 1; i < 5; i++) {
        const tn_operand *output = tn__call_output(call, i);
        TN_TRY(tn__check_count(call, i, features));
        if (output != NULL && tn__operand_count(output) != features)
            return tn__call_fail(call, TN_E_INVALID, "output %u has not one element per channel",
                                 i);
        if (output != NULL && !trains)
            return tn__call_fail(call, TN_E_INVALID, "output %u is for training alone", i);
    }
    for (uint64_t c = 0; c < features; c++) {
        batch_norm_slice slice = {c * area, batch, area, features * area};
        batch_norm_moments given = {tn__real_get(&in[3], c), tn__real_get(&in[4], c)}, use = given;
        double scale = tn__real_get(&in[1], c), addend = tn__real_get(&in[2], c);
        if (trains) {
            use = batch_norm_measure(x, &slice);
            batch_norm_batch_outputs(call, c, use, given);
        }
        batch_norm_scale(x, y, &slice, use.mean, scale / sqrt(use.variance + epsilon), addend,
                         false);
    }
    return TN_OK;
}

static bool batch_norm_accepts_batch(const tn_kernel_setup *setup) {
    for (uint32_t i = 1; i < 5; i++) /* the statistics may have another real type than the data */
        if (!tn__input_is(setup, i, TN__TYPES_REAL) || !tn__output_may_be(setup, i, TN__TYPES_REAL))
            return false;
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0);
}

/* --- InstanceNormalization, GroupNormalization --- */

/* Normalises each of `groups` groups of channels of each image with its own statistics. */
static tn_status batch_norm_groups(tn_kernel_call *call, uint64_t groups) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    const tn_operand *scale = &call->inputs[1], *addend = &call->inputs[2];
    double epsilon = tn__attr_float(call->op, "epsilon", 1e-5f);
    uint64_t batch = (uint64_t)x->shape[0], channels = (uint64_t)x->shape[1];
    uint64_t area = tn__operand_span(x, 2, x->rank), each = groups > 0 ? channels / groups : 0;
    /* opset 18 has a scale per group, opset 21 one per channel */
    bool by_group = tn__operand_count(scale) == groups;
    TN_TRY(tn__check_count(call, 1, by_group ? groups : channels));
    TN_TRY(tn__check_count(call, 2, by_group ? groups : channels));
    for (uint64_t at = 0; at < batch * groups; at++) {
        uint64_t g = at % groups;
        batch_norm_slice slice = {at * each * area, 1, each * area, 0};
        batch_norm_moments moments = batch_norm_measure(x, &slice);
        slice.run = area;
        for (uint64_t c = 0; c < each; c++, slice.first += area) {
            uint64_t which = by_group ? g : g * each + c;
            double factor = tn__real_get(scale, which) / sqrt(moments.variance + epsilon);
            batch_norm_scale(x, y, &slice, moments.mean, factor, tn__real_get(addend, which),
                             false);
        }
    }
    return TN_OK;
}

static tn_status batch_norm_run_instance(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    if (x->rank < 2) return tn__call_fail(call, TN_E_INVALID, "the input has rank %u", x->rank);
    return batch_norm_groups(call, (uint64_t)x->shape[1]);
}

static tn_status batch_norm_run_group(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    int64_t groups = tn__attr_int(call->op, "num_groups", 0);
    if (x->rank < 2 || groups < 1 || x->shape[1] % groups != 0)
        return tn__call_fail(call, TN_E_INVALID, "%lld groups do not divide the channels",
                             (long long)groups);
    return batch_norm_groups(call, (uint64_t)groups);
}

static bool batch_norm_accepts_scaled(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 1, TN__TYPES_REAL) && tn__input_is(setup, 2, TN__TYPES_REAL) &&
           tn__types_agree(setup, TN__TYPES_REAL, 1, 0);
}

/* --- training ---
 *
 * The running statistics are moved towards the mean and the unbiased variance of the batch, as in
 * PyTorch. The output is computed from mean and variance as they were stored, so that
 * BatchNormApply computes the same bits from them later. The gradients for n elements per channel,
 * with normalised input h and s = 1 / deviation:
 *     d bias = sum dy,  d scale = sum dy h,  dx = scale s (dy - (d bias + h d scale) / n)
 */

/* Finds the elements of the first channel in all samples, and the number of channels. */
static tn_status batch_norm_channels(const tn_kernel_call *call, const tn_operand *x,
                                     uint64_t *channels, batch_norm_slice *slice) {
    if (x->rank < 2) return tn__call_fail(call, TN_E_INVALID, "an input of rank %u", x->rank);
    uint64_t area = tn__operand_span(x, 2, x->rank);
    *channels = (uint64_t)x->shape[1];
    *slice = (batch_norm_slice){0, (uint64_t)x->shape[0], area, *channels * area};
    return TN_OK;
}

/* Normalises channel c. `statistics`: two operands, with the means and the variances. */
static void batch_norm_apply(const tn_kernel_call *call, const batch_norm_slice *slice,
                             const tn_operand *statistics, uint64_t c) {
    const tn_operand *in = call->inputs;
    double epsilon = tn__attr_float(call->op, "epsilon", 1e-5);
    double deviation = sqrt(tn__real_get(&statistics[1], c) + epsilon);
    batch_norm_scale(&in[0], &call->outputs[0], slice, tn__real_get(&statistics[0], c),
                     tn__real_get(&in[1], c) / deviation, tn__real_get(&in[2], c),
                     tn__attr_int(call->op, "relu", 0) != 0);
}

static void batch_norm_train(const tn_kernel_call *call, const batch_norm_slice *slice,
                             uint64_t c) {
    const tn_operand *in = call->inputs, *x = &in[0];
    double share = tn__attr_float(call->op, "momentum", 0.1);
    double n = (double)slice->runs * (double)slice->run;
    double mean = batch_norm_sum(x, slice, 0, 1) / n, squares = batch_norm_sum(x, slice, mean, 2);
    double unbiased = n > 1 ? squares / (n - 1) : squares;
    tn__real_set(&in[3], c, (1 - share) * tn__real_get(&in[3], c) + share * mean);
    tn__real_set(&in[4], c, (1 - share) * tn__real_get(&in[4], c) + share * unbiased);
    tn__real_set(&call->outputs[3], c, mean);
    tn__real_set(&call->outputs[4], c, squares / n);
    batch_norm_apply(call, slice, &call->outputs[3], c);
}

static tn_status batch_norm_run_as(tn_kernel_call *call, bool trains) {
    batch_norm_slice slice = {0};
    uint64_t channels = 0;
    TN_TRY(batch_norm_channels(call, &call->inputs[0], &channels, &slice));
    for (uint32_t i = 1; i < 5; i++) TN_TRY(tn__check_count(call, i, channels));
    for (uint64_t c = 0; c < channels; c++, slice.first += slice.run) {
        if (trains)
            batch_norm_train(call, &slice, c);
        else
            batch_norm_apply(call, &slice, &call->inputs[3], c);
    }
    return TN_OK;
}
static tn_status batch_norm_run_train(tn_kernel_call *call) {
    return batch_norm_run_as(call, true);
}
static tn_status batch_norm_run_apply(tn_kernel_call *call) {
    return batch_norm_run_as(call, false);
}

static void batch_norm_grad_channel(const tn_kernel_call *call, const batch_norm_slice *slice,
                                    uint64_t c) {
    const tn_operand *dy = &call->inputs[0], *x = &call->inputs[1];
    double scale = tn__real_get(&call->inputs[2], c), mean = tn__real_get(&call->inputs[3], c);
    double epsilon = tn__attr_float(call->op, "epsilon", 1e-5), sum = 0, product = 0;
    double inverse = 1 / sqrt(tn__real_get(&call->inputs[4], c) + epsilon);
    double n = (double)slice->runs * (double)slice->run, a[TN__REAL_TILE], b[TN__REAL_TILE];
    BATCH_NORM_EACH(slice, at, count) {
        tn__real_load(dy, at, 1, count, a);
        tn__real_load(x, at, 1, count, b);
        for (uint64_t k = 0; k < count; k++) {
            sum += a[k];
            product += a[k] * ((b[k] - mean) * inverse);
        }
    }
    tn__real_set(&call->outputs[1], c, product);
    tn__real_set(&call->outputs[2], c, sum);
    BATCH_NORM_EACH(slice, at, count) {
        tn__real_load(dy, at, 1, count, a);
        tn__real_load(x, at, 1, count, b);
        for (uint64_t k = 0; k < count; k++) {
            double h = (b[k] - mean) * inverse;
            a[k] = scale * inverse * (a[k] - (sum + h * product) / n);
        }
        tn__real_store(&call->outputs[0], at, count, a);
    }
}

static tn_status batch_norm_run_grad(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[1];
    batch_norm_slice slice = {0};
    uint64_t channels = 0;
    TN_TRY(batch_norm_channels(call, x, &channels, &slice));
    TN_TRY(tn__check_shape(call, 0, x->rank, x->shape));
    for (uint32_t i = 2; i < 5; i++) TN_TRY(tn__check_count(call, i, channels));
    for (uint64_t c = 0; c < channels; c++, slice.first += slice.run)
        batch_norm_grad_channel(call, &slice, c);
    return TN_OK;
}

static bool batch_norm_accepts_train(const tn_kernel_setup *setup) {
    for (uint32_t i = 0; i < 5; i++)
        if (!tn__input_is(setup, i, TN__TYPES_REAL)) return false;
    for (uint32_t k = 0; k < setup->op->output_count; k++)
        if (!tn__output_is(setup, k, TN__TYPES_REAL)) return false;
    return true;
}

static const tn_kernel batch_norm_kernels[] = {
    {.type = "BatchNormalization",
     .accepts = batch_norm_accepts_batch,
     .run = batch_norm_run_batch},
    {.type = "GroupNormalization",
     .accepts = batch_norm_accepts_scaled,
     .run = batch_norm_run_group},
    {.type = "InstanceNormalization",
     .accepts = batch_norm_accepts_scaled,
     .run = batch_norm_run_instance},
    {.domain = "tenure",
     .type = "BatchNormApply",
     .accepts = batch_norm_accepts_train,
     .run = batch_norm_run_apply},
    {.domain = "tenure",
     .type = "BatchNormGrad",
     .accepts = batch_norm_accepts_train,
     .run = batch_norm_run_grad},
    {.domain = "tenure",
     .type = "BatchNormTrain",
     .accepts = batch_norm_accepts_train,
     .run = batch_norm_run_train},
};

TN_KERNEL_FAMILY(batch_norm, "");
