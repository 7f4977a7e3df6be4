/* normalise.c - normalisations: by statistics that are given (BatchNormalization), by those of a
 * slice (Instance-, Group-, Layer-, RMSNormalization, MeanVarianceNormalization, LpNormalization),
 * by neighbouring channels (LRN).
 *
 * Statistics are computed in double in two passes, mean first, so that a large mean costs no
 * digits. All but LRN read a slice before they write it, so they work in place.
 * Source: operator texts of ONNX, opsets 1 to 17 (GroupNormalization: 18 and 21).
 */
#include <math.h>

#include "engine/kernels/check.h"

/* --- slices: elements that are normalised together --- */

/* Elements of one slice: `runs` stretches of `run` elements, `step` apart. */
typedef struct normalise_slice {
    uint64_t first, runs, run, step;
} normalise_slice;

typedef struct normalise_moments {
    double mean, variance;
} normalise_moments;

static double normalise_sum(const tn_operand *x, const normalise_slice *slice, double mean,
                            double power) {
    double sum = 0, values[TN__REAL_TILE];
    for (uint64_t r = 0; r < slice->runs; r++)
        for (uint64_t i = 0; i < slice->run; i += TN__REAL_TILE) {
            uint64_t count = slice->run - i < TN__REAL_TILE ? slice->run - i : TN__REAL_TILE;
            tn__real_load(x, slice->first + r * slice->step + i, 1, count, values);
            for (uint64_t k = 0; k < count; k++) {
                double value = values[k] - mean;
                sum += power == 2 ? value * value : value;
            }
        }
    return sum;
}

static normalise_moments normalise_measure(const tn_operand *x, const normalise_slice *slice) {
    double count = (double)slice->runs * (double)slice->run;
    normalise_moments moments = {.mean = normalise_sum(x, slice, 0, 1) / count};
    moments.variance = normalise_sum(x, slice, moments.mean, 2) / count;
    return moments;
}

/* y = x * factor + addend over a slice. */
static void normalise_scale(const tn_operand *x, const tn_operand *y, const normalise_slice *slice,
                            double mean, double factor, double addend) {
    double values[TN__REAL_TILE];
    for (uint64_t r = 0; r < slice->runs; r++)
        for (uint64_t i = 0; i < slice->run; i += TN__REAL_TILE) {
            uint64_t at = slice->first + r * slice->step + i;
            uint64_t count = slice->run - i < TN__REAL_TILE ? slice->run - i : TN__REAL_TILE;
            tn__real_load(x, at, 1, count, values);
            for (uint64_t k = 0; k < count; k++) values[k] = (values[k] - mean) * factor + addend;
            tn__real_store(y, at, count, values);
        }
}

/* --- BatchNormalization --- */

/* Before opset 14 the number of outputs says whether it trains: the test mode has one. */
static bool normalise_trains(const tn_kernel_call *call) {
    if (call->version >= 14) return tn__attr_int(call->op, "training_mode", 0) != 0;
    return call->output_count > 1 &&
           (call->version >= 7 || tn__attr_int(call->op, "is_test", 0) == 0);
}

static void normalise_batch_outputs(const tn_kernel_call *call, uint64_t feature,
                                    normalise_moments now, normalise_moments before) {
    double momentum = tn__attr_float(call->op, "momentum", 0.9f);
    const double values[] = {before.mean * momentum + now.mean * (1 - momentum),
                             before.variance * momentum + now.variance * (1 - momentum), now.mean,
                             now.variance};
    for (uint32_t i = 0; i < 4; i++) {
        const tn_operand *output = tn__call_output(call, 1 + i);
        if (output != NULL) tn__real_set(output, feature, values[i]);
    }
}

static tn_status normalise_run_batch(tn_kernel_call *call) {
    const tn_operand *in = call->inputs, *x = &in[0], *y = &call->outputs[0];
    bool trains = normalise_trains(call);
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
        normalise_slice slice = {c * area, batch, area, features * area};
        normalise_moments given = {tn__real_get(&in[3], c), tn__real_get(&in[4], c)}, use = given;
        double scale = tn__real_get(&in[1], c), addend = tn__real_get(&in[2], c);
        if (trains) {
            use = normalise_measure(x, &slice);
            normalise_batch_outputs(call, c, use, given);
        }
        normalise_scale(x, y, &slice, use.mean, scale / sqrt(use.variance + epsilon), addend);
    }
    return TN_OK;
}

static bool normalise_accepts_batch(const tn_kernel_setup *setup) {
    for (uint32_t i = 1; i < 5; i++) /* statistics may be of another real type than the data */
        if (!tn__input_is(setup, i, TN__TYPES_REAL) || !tn__output_may_be(setup, i, TN__TYPES_REAL))
            return false;
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0);
}

/* --- InstanceNormalization, GroupNormalization --- */

/* Each of `groups` groups of channels of each image by its own statistics. */
static tn_status normalise_groups(tn_kernel_call *call, uint64_t groups) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    const tn_operand *scale = &call->inputs[1], *addend = &call->inputs[2];
    double epsilon = tn__attr_float(call->op, "epsilon", 1e-5f);
    uint64_t batch = (uint64_t)x->shape[0], channels = (uint64_t)x->shape[1];
    uint64_t area = tn__operand_span(x, 2, x->rank), each = groups > 0 ? channels / groups : 0;
    /* opset 18 scales by group, 21 by channel */
    bool by_group = tn__operand_count(scale) == groups;
    TN_TRY(tn__check_count(call, 1, by_group ? groups : channels));
    TN_TRY(tn__check_count(call, 2, by_group ? groups : channels));
    for (uint64_t at = 0; at < batch * groups; at++) {
        uint64_t g = at % groups;
        normalise_slice slice = {at * each * area, 1, each * area, 0};
        normalise_moments moments = normalise_measure(x, &slice);
        slice.run = area;
        for (uint64_t c = 0; c < each; c++, slice.first += area) {
            uint64_t which = by_group ? g : g * each + c;
            double factor = tn__real_get(scale, which) / sqrt(moments.variance + epsilon);
            normalise_scale(x, y, &slice, moments.mean, factor, tn__real_get(addend, which));
        }
    }
    return TN_OK;
}

static tn_status normalise_run_instance(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    if (x->rank < 2) return tn__call_fail(call, TN_E_INVALID, "the input has rank %u", x->rank);
    return normalise_groups(call, (uint64_t)x->shape[1]);
}

static tn_status normalise_run_group(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    int64_t groups = tn__attr_int(call->op, "num_groups", 0);
    if (x->rank < 2 || groups < 1 || x->shape[1] % groups != 0)
        return tn__call_fail(call, TN_E_INVALID, "%lld groups do not divide the channels",
                             (long long)groups);
    return normalise_groups(call, (uint64_t)groups);
}

static bool normalise_accepts_scaled(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 1, TN__TYPES_REAL) && tn__input_is(setup, 2, TN__TYPES_REAL) &&
           tn__types_agree(setup, TN__TYPES_REAL, 1, 0);
}

/* --- LayerNormalization --- */

/* Scale and bias are broadcast to the input: which of their elements belongs to element `at`. */
static uint64_t normalise_layer_which(const tn_operand *x, const int64_t *steps, uint64_t at) {
    uint64_t which = 0;
    for (uint32_t d = x->rank; d-- > 0; at /= (uint64_t)x->shape[d])
        which += at % (uint64_t)x->shape[d] * (uint64_t)steps[d];
    return which;
}

/* Its steps; *plain when it has one element for each place in the slice. */
static tn_status normalise_layer_steps(const tn_kernel_call *call, uint32_t index, uint32_t axis,
                                       int64_t *steps, bool *plain) {
    const tn_operand *x = &call->inputs[0], *weight = tn__call_input(call, index);
    *plain = true;
    if (weight == NULL) return TN_OK;
    bool fits = weight->rank <= x->rank;
    uint32_t missing = fits ? x->rank - weight->rank : 0;
    for (uint32_t d = 0; fits && d < weight->rank; d++)
        fits = weight->shape[d] == 1 || weight->shape[d] == x->shape[d + missing];
    if (!fits)
        return tn__call_fail(call, TN_E_INVALID, "input %u cannot be broadcast to input 0", index);
    tn__operand_strides(weight, x->rank, steps);
    *plain = weight->rank == x->rank - axis &&
             tn__operand_count(weight) == tn__operand_span(x, axis, x->rank);
    return TN_OK;
}

/* LayerNormalization, and RMSNormalization, which subtracts no mean and outputs none. */
static tn_status normalise_rows(tn_kernel_call *call, bool centered) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    const tn_operand *scale = &call->inputs[1], *addend = tn__call_input(call, 2);
    const tn_operand *means = centered ? tn__call_output(call, 1) : NULL;
    const tn_operand *inverses = tn__call_output(call, centered ? 2 : 1);
    double epsilon = tn__attr_float(call->op, "epsilon", 1e-5f), values[TN__REAL_TILE];
    int64_t scale_steps[TN_RANK_MAX], addend_steps[TN_RANK_MAX];
    bool plain_scale, plain_addend;
    uint32_t axis;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", -1), x->rank, &axis));
    TN_TRY(normalise_layer_steps(call, 1, axis, scale_steps, &plain_scale));
    TN_TRY(normalise_layer_steps(call, 2, axis, addend_steps, &plain_addend));
    uint64_t slices = tn__operand_span(x, 0, axis), run = tn__operand_span(x, axis, x->rank);
    for (uint32_t i = 1; i < 3; i++) {
        const tn_operand *output = tn__call_output(call, i);
        if (output != NULL && tn__operand_count(output) != slices)
            return tn__call_fail(call, TN_E_INVALID, "output %u has not one element per slice", i);
    }
    for (uint64_t s = 0; s < slices; s++) {
        normalise_slice slice = {s * run, 1, run, 0};
        normalise_moments moments = {0};
        if (centered)
            moments = normalise_measure(x, &slice);
        else
            moments.variance = normalise_sum(x, &slice, 0, 2) / (double)run;
        double factor = 1 / sqrt(moments.variance + epsilon);
        if (means != NULL) tn__real_set(means, s, moments.mean);
        if (inverses != NULL) tn__real_set(inverses, s, factor);
        for (uint64_t i = 0; i < run; i += TN__REAL_TILE) {
            uint64_t count = run - i < TN__REAL_TILE ? run - i : TN__REAL_TILE;
            tn__real_load(x, s * run + i, 1, count, values);
            for (uint64_t k = 0; k < count; k++) {
                uint64_t at = s * run + i + k;
                double value = (values[k] - moments.mean) * factor;
                value *= tn__real_get(
                    scale, plain_scale ? i + k : normalise_layer_which(x, scale_steps, at));
                if (addend != NULL)
                    value += tn__real_get(
                        addend, plain_addend ? i + k : normalise_layer_which(x, addend_steps, at));
                values[k] = value;
            }
            tn__real_store(y, s * run + i, count, values);
        }
    }
    return TN_OK;
}

static tn_status normalise_run_layer(tn_kernel_call *call) { return normalise_rows(call, true); }
static tn_status normalise_run_rms(tn_kernel_call *call) { return normalise_rows(call, false); }

static bool normalise_accepts_layer(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 1, TN__TYPES_REAL) && tn__input_may_be(setup, 2, TN__TYPES_REAL) &&
           tn__output_may_be(setup, 1, TN__TYPES_REAL) &&
           tn__output_may_be(setup, 2, TN__TYPES_REAL) &&
           tn__types_agree(setup, TN__TYPES_REAL, 1, 0);
}

/* --- MeanVarianceNormalization: a slice runs over any set of axes --- */

typedef struct normalise_axes { /* dimensions on one side: kept, or normalised */
    uint32_t count;
    uint64_t extent[TN_RANK_MAX], step[TN_RANK_MAX], total;
} normalise_axes;

static uint64_t normalise_axes_at(const normalise_axes *axes, uint64_t at) {
    uint64_t place = 0;
    for (uint32_t d = axes->count; d-- > 0; at /= axes->extent[d])
        place += at % axes->extent[d] * axes->step[d];
    return place;
}

static void normalise_axes_add(normalise_axes *axes, uint64_t extent, uint64_t step) {
    axes->extent[axes->count] = extent;
    axes->step[axes->count++] = step;
    axes->total *= extent;
}

static void normalise_mean_variance(const tn_operand *x, const tn_operand *y, uint64_t first,
                                    const normalise_axes *axes) {
    double mean = 0, variance = 0, count = (double)axes->total;
    for (uint64_t i = 0; i < axes->total; i++)
        mean += tn__real_get(x, first + normalise_axes_at(axes, i)) / count;
    for (uint64_t i = 0; i < axes->total; i++) {
        double apart = tn__real_get(x, first + normalise_axes_at(axes, i)) - mean;
        variance += apart * apart / count;
    }
    for (uint64_t i = 0; i < axes->total; i++) {
        uint64_t at = first + normalise_axes_at(axes, i);
        tn__real_set(y, at, (tn__real_get(x, at) - mean) / (sqrt(variance) + 1e-9));
    }
}

static tn_status normalise_run_mean_variance(tn_kernel_call *call) {
    static const int64_t usual[] = {0, 2, 3};
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    normalise_axes kept = {.total = 1}, normalised = {.total = 1};
    uint64_t mask = 0, step = tn__operand_count(x);
    uint32_t count;
    const int64_t *axes = tn__attr_ints(call->op, "axes", &count);
    if (axes == NULL) axes = usual, count = 3;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;
        TN_TRY(tn__call_axis(call, axes[i], x->rank, &axis));
        mask |= UINT64_C(1) << axis;
    }
    if (step == 0) return TN_OK;
    for (uint32_t d = 0; d < x->rank; d++) {
        step /= (uint64_t)x->shape[d];
        normalise_axes_add((mask >> d & 1) != 0 ? &normalised : &kept, (uint64_t)x->shape[d], step);
    }
    for (uint64_t i = 0; i < kept.total; i++)
        normalise_mean_variance(x, y, normalise_axes_at(&kept, i), &normalised);
    return TN_OK;
}

/* --- LpNormalization --- */

static tn_status normalise_run_power(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    int64_t power = tn__attr_int(call->op, "p", 2);
    uint32_t axis;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", -1), x->rank, &axis));
    if (power != 1 && power != 2)
        return tn__call_fail(call, TN_E_INVALID, "attribute p is %lld, neither 1 nor 2",
                             (long long)power);
    uint64_t outer = tn__operand_span(x, 0, axis), inner = tn__operand_span(x, axis + 1, x->rank);
    uint64_t run = (uint64_t)x->shape[axis];
    for (uint64_t i = 0; i < outer * inner; i++) {
        uint64_t first = i / inner * run * inner + i % inner;
        double sum = 0;
        for (uint64_t k = 0; k < run; k++) {
            double value = tn__real_get(x, first + k * inner);
            sum += power == 2 ? value * value : fabs(value);
        }
        if (power == 2) sum = sqrt(sum);
        for (uint64_t k = 0; k < run; k++) { /* zeros stay zeros */
            double value = tn__real_get(x, first + k * inner);
            tn__real_set(y, first + k * inner, sum != 0 ? value / sum : 0);
        }
    }
    return TN_OK;
}

/* --- LRN --- */

static void normalise_local(const tn_kernel_call *call, uint64_t first, uint64_t channel,
                            uint64_t area) {
    const tn_operand *x = &call->inputs[0], *y = &call->outputs[0];
    double alpha = tn__attr_float(call->op, "alpha", 1e-4f);
    double beta = tn__attr_float(call->op, "beta", 0.75),
           bias = tn__attr_float(call->op, "bias", 1);
    uint64_t size = (uint64_t)tn__attr_int(call->op, "size", 1), channels = (uint64_t)x->shape[1];
    uint64_t before = (size - 1) / 2, after = size - 1 - before;
    uint64_t from = channel > before ? channel - before : 0;
    uint64_t to = channels - channel > after ? channel + after + 1 : channels;
    for (uint64_t i = 0; i < area; i += TN__REAL_TILE) {
        uint64_t count = area - i < TN__REAL_TILE ? area - i : TN__REAL_TILE;
        double squares[TN__REAL_TILE] = {0}, values[TN__REAL_TILE];
        for (uint64_t c = from; c < to; c++) {
            tn__real_load(x, first + c * area + i, 1, count, values);
            for (uint64_t k = 0; k < count; k++) squares[k] += values[k] * values[k];
        }
        tn__real_load(x, first + channel * area + i, 1, count, values);
        for (uint64_t k = 0; k < count; k++)
            values[k] /= pow(bias + alpha / (double)size * squares[k], beta);
        tn__real_store(y, first + channel * area + i, count, values);
    }
}

static tn_status normalise_run_local(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    if (x->rank < 2 || tn__attr_int(call->op, "size", 0) < 1)
        return tn__call_fail(call, TN_E_INVALID, "attribute size or the rank is out of range");
    uint64_t channels = (uint64_t)x->shape[1], area = tn__operand_span(x, 2, x->rank);
    for (uint64_t n = 0; n < (uint64_t)x->shape[0]; n++)
        for (uint64_t c = 0; c < channels; c++) normalise_local(call, n * channels * area, c, area);
    return TN_OK;
}

static bool normalise_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0);
}

static const tn_kernel normalise_kernels[] = {
    {.type = "BatchNormalization", .accepts = normalise_accepts_batch, .run = normalise_run_batch},
    {.type = "GroupNormalization", .accepts = normalise_accepts_scaled, .run = normalise_run_group},
    {.type = "InstanceNormalization",
     .accepts = normalise_accepts_scaled,
     .run = normalise_run_instance},
    {.type = "LRN", .accepts = normalise_accepts, .run = normalise_run_local},
    {.type = "LayerNormalization", .accepts = normalise_accepts_layer, .run = normalise_run_layer},
    {.type = "LpNormalization", .accepts = normalise_accepts, .run = normalise_run_power},
    {.type = "MeanVarianceNormalization",
     .accepts = normalise_accepts,
     .run = normalise_run_mean_variance},
    {.type = "RMSNormalization", .accepts = normalise_accepts_layer, .run = normalise_run_rms},
    {.type = "SimplifiedLayerNormalization",
     .accepts = normalise_accepts_layer,
     .run = normalise_run_rms},
};

TN_KERNEL_FAMILY(normalise, "");
