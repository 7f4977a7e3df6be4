/* normalise.c - normalisations of rows: LayerNormalization, RMSNormalization, ONNX Runtime's forms
 * with a residual or embeddings, MeanVarianceNormalization, LpNormalization, LRN (over neighbouring
 * channels), and gradients.
 *
 * Statistics are computed in double precision in two passes, the mean first, so that a large mean
 * costs no precision. All operators except LRN read a slice before they write it, so the output may
 * have the address of the input.
 * Source: the ONNX specifications, opsets 1 to 17; docs/ContribOperators.md of ONNX Runtime 1.30.
 */
#include <math.h>

#include "engine/kernels/convert.h"
#include "engine/kernels/inner.h"
#include "engine/kernels/loops/approximate.h"
#include "engine/kernels/loops/box.h"
#include "engine/kernels/loops/product.h"
#include "engine/kernels/operands.h"

#define NORMALISE_TILES(count, i, some)                                                            \
    for (uint64_t i = 0, some = (count) < TN__REAL_TILE ? (count) : TN__REAL_TILE; i < (count);    \
         i += some, some = (count)-i < TN__REAL_TILE ? (count)-i : TN__REAL_TILE)

/* Returns the mean of `count` elements, or, with `square`, the mean of (x - mean)^2. */
static double normalise_moment(const tn_operand *x, uint64_t first, uint64_t count, double mean,
                               bool square) {
    double sum = 0, values[TN__REAL_TILE];
    NORMALISE_TILES(count, i, some) {
        tn__real_load(x, first + i, 1, some, values);
        for (uint64_t k = 0; k < some; k++) {
            double value = values[k] - mean;
            sum += square ? value * value : value;
        }
    }
    return sum / (double)count;
}

/* --- LayerNormalization --- */

/* Returns the index of the element of the scale or bias that belongs to element `at` of the input,
 * with broadcasting. */
static uint64_t normalise_layer_which(const tn_operand *x, const int64_t *steps, uint64_t at) {
    uint64_t which = 0;
    for (uint32_t d = x->rank; d-- > 0; at /= (uint64_t)x->shape[d])
        which += at % (uint64_t)x->shape[d] * (uint64_t)steps[d];
    return which;
}

/* Computes the strides of a scale or bias along the input. *plain becomes true if there is one
 * element for each position of a slice. */
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

/* LayerNormalization if `centered` is true. Otherwise RMSNormalization, which subtracts no mean and
 * has no output for it. */
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
        double mean = centered ? normalise_moment(x, s * run, run, 0, false) : 0;
        double factor = 1 / sqrt(normalise_moment(x, s * run, run, mean, true) + epsilon);
        if (means != NULL) tn__real_set(means, s, mean);
        if (inverses != NULL) tn__real_set(inverses, s, factor);
        NORMALISE_TILES(run, i, count) {
            tn__real_load(x, s * run + i, 1, count, values);
            for (uint64_t k = 0; k < count; k++) {
                uint64_t at = s * run + i + k;
                double value = (values[k] - mean) * factor;
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

/* either the dimensions that are normalised together, or all other dimensions */
typedef struct normalise_axes {
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
        for (uint64_t k = 0; k < run; k++) { /* if all elements of a slice are 0, they stay 0 */
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

/* --- Skip(Simplified)LayerNormalization, EmbedLayerNormalization, in float32 --- */

/* Normalises one row: (x - mean) / deviation * gamma + beta. Without `centred`, the mean is not
 * subtracted. y may be x. `found` receives the mean and 1 / deviation. */
static void normalise_row(const float *x, float *y, uint64_t count, const float *gamma,
                          const float *beta, double epsilon, bool centred, double found[2]) {
    double mean = 0, square = 0;
    for (uint64_t i = 0; i < count && centred; i++) mean += (double)x[i];
    if (count > 0) mean /= (double)count;
    for (uint64_t i = 0; i < count; i++) {
        double apart = (double)x[i] - mean;
        square += apart * apart;
    }
    double inverse = 1 / sqrt(square / (double)(count > 0 ? count : 1) + epsilon);
    for (uint64_t i = 0; i < count; i++) {
        double value = ((double)x[i] - mean) * inverse * (double)gamma[i];
        y[i] = (float)(value + (beta != NULL ? (double)beta[i] : 0));
    }
    found[0] = mean;
    found[1] = inverse;
}

static const float *normalise_floats(const tn_kernel_call *call, uint32_t input) {
    const tn_operand *x = tn__call_input(call, input);
    return x != NULL ? x->data : NULL;
}

/* SkipLayerNormalization, or its simplified form if `centred` is false. The residual (`skip`) has
 * the shape of the input, or is broadcast over the batch. */
static tn_status normalise_run_any_skip(tn_kernel_call *call, bool centred) {
    const tn_operand *x = &call->inputs[0], *skip = &call->inputs[1];
    const tn_operand *sum_to = tn__call_output(call, 3);
    uint32_t bias_at = centred ? 4 : 3;
    if (x->rank < 2 || x->rank > 3) return tn__call_bad_shape(call, 0);
    uint64_t hidden = (uint64_t)x->shape[x->rank - 1], count = tn__operand_count(x);
    uint64_t rows = hidden > 0 ? count / hidden : 0, repeats = tn__operand_count(skip);
    if (repeats == 0 ? count != 0 : count % repeats != 0 || (hidden > 0 && repeats % hidden != 0))
        return tn__call_bad_shape(call, 1);
    TN_TRY(tn__check_count(call, 2, hidden));
    TN_TRY(tn__check_count(call, bias_at, hidden));
    if (centred) TN_TRY(tn__check_count(call, 3, hidden));
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    TN_TRY(tn__check_result(call, 3, x->rank, x->shape));
    TN_TRY(tn__check_scratch(call, hidden * sizeof(float)));
    const float *bias = normalise_floats(call, bias_at),
                *beta = centred ? normalise_floats(call, 3) : NULL;
    double epsilon = tn__attr_float(call->op, "epsilon", 1e-12), found[2];
    float *row = call->workspace;
    for (uint32_t i = 1; i < 3; i++)
        if (tn__call_output(call, i) != NULL && tn__operand_count(tn__call_output(call, i)) != rows)
            return tn__call_fail(call, TN_E_INVALID, "output %u has not one number for each row",
                                 i);
    for (uint64_t r = 0; r < rows; r++) {
        const float *from = (const float *)x->data + r * hidden;
        const float *more = (const float *)skip->data + r * hidden % repeats;
        for (uint64_t i = 0; i < hidden; i++)
            row[i] = from[i] + more[i] + (bias != NULL ? bias[i] : 0);
        /* store the sum before row r of output 0, because output 0 may have the address of the
         * input, and output 3 that of the residual */
        if (sum_to != NULL) memcpy((float *)sum_to->data + r * hidden, row, hidden * sizeof *row);
        normalise_row(row, (float *)call->outputs[0].data + r * hidden, hidden,
                      normalise_floats(call, 2), beta, epsilon, centred, found);
        for (uint32_t i = 1; i < 3; i++) {
            const tn_operand *to = tn__call_output(call, i);
            if (to != NULL) ((float *)to->data)[r] = (float)found[i - 1];
        }
    }
    return TN_OK;
}
static tn_status normalise_run_skip(tn_kernel_call *call) {
    return normalise_run_any_skip(call, true);
}
static tn_status normalise_run_skip_simple(tn_kernel_call *call) {
    return normalise_run_any_skip(call, false);
}

static bool normalise_accepts_skip(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 2 | 4 | 8 | 16, 2 | 4 | 8);
}

static uint64_t normalise_workspace_row(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0);
    return x == NULL || x->rank == 0 ? 0 : tn__mul_sat(4, (uint64_t)x->shape[x->rank - 1]);
}

static tn_status normalise_row_of(const tn_kernel_call *call, uint32_t table, int64_t at,
                                  uint64_t hidden, const float **row) {
    const tn_operand *x = &call->inputs[table];
    if (x->rank != 2 || (uint64_t)x->shape[1] != hidden) return tn__call_bad_shape(call, table);
    if (at < 0 || at >= x->shape[0]) return tn__call_bad_index(call, at, 0, x->shape[0]);
    *row = (const float *)x->data + (uint64_t)at * hidden;
    return TN_OK;
}

static tn_status normalise_run_embed(tn_kernel_call *call) {
    const tn_operand *ids = &call->inputs[0], *segments = tn__call_input(call, 1),
                     *words = tn__call_input(call, 2), *mask = tn__call_input(call, 7),
                     *positions = tn__call_input(call, 8);
    const tn_operand *counts = tn__call_output(call, 1), *sums = tn__call_output(call, 2);
    if (ids->rank != 2 || words->rank != 2) return tn__call_bad_shape(call, 0);
    uint64_t batch = (uint64_t)ids->shape[0], length = (uint64_t)ids->shape[1],
             hidden = (uint64_t)words->shape[1], count = batch * length;
    const int64_t y[3] = {ids->shape[0], ids->shape[1], words->shape[1]};
    TN_TRY(tn__check_result(call, 0, 3, y));
    TN_TRY(tn__check_result(call, 1, 1, y));
    TN_TRY(tn__check_result(call, 2, 3, y));
    TN_TRY(tn__check_count(call, 1, count));
    TN_TRY(tn__check_count(call, 5, hidden));
    TN_TRY(tn__check_count(call, 6, hidden));
    TN_TRY(tn__check_count(call, 7, count));
    if (positions != NULL && tn__operand_count(positions) != length)
        TN_TRY(tn__check_count(call, 8, count));
    if ((segments == NULL) != (tn__call_input(call, 4) == NULL)) return tn__call_bad_shape(call, 4);
    double epsilon = tn__attr_float(call->op, "epsilon", 1e-12), found[2];
    for (uint64_t t = 0; t < count; t++) {
        const float *word = NULL, *place = NULL, *segment = NULL;
        uint64_t at = positions != NULL && tn__operand_count(positions) == count ? t : t % length;
        int64_t position = positions != NULL ? tn__operand_int(positions, at) : (int64_t)at;
        float *to = (float *)call->outputs[0].data + t * hidden;
        TN_TRY(normalise_row_of(call, 2, tn__operand_int(ids, t), hidden, &word));
        TN_TRY(normalise_row_of(call, 3, position, hidden, &place));
        if (segments != NULL)
            TN_TRY(normalise_row_of(call, 4, tn__operand_int(segments, t), hidden, &segment));
        for (uint64_t i = 0; i < hidden; i++)
            to[i] = word[i] + place[i] + (segment != NULL ? segment[i] : 0);
        if (sums != NULL) memcpy((float *)sums->data + t * hidden, to, hidden * sizeof *to);
        normalise_row(to, to, hidden, normalise_floats(call, 5), normalise_floats(call, 6), epsilon,
                      true, found);
    }
    for (uint64_t b = 0; b < batch && counts != NULL; b++) {
        int32_t seen = 0;
        for (uint64_t t = 0; t < length && mask != NULL; t++)
            seen += tn__operand_int(mask, b * length + t) == 1;
        ((int32_t *)counts->data)[b] = seen;
    }
    return TN_OK;
}

static bool normalise_accepts_embed(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 4 | 8 | 16 | 32 | 64, 4) &&
           tn__input_is(setup, 0, TN__TYPES_INDEX) && tn__input_is(setup, 2, TN__TYPE(FLOAT32)) &&
           tn__input_is(setup, 3, TN__TYPE(FLOAT32)) && tn__input_is(setup, 5, TN__TYPE(FLOAT32)) &&
           tn__input_is(setup, 6, TN__TYPE(FLOAT32)) &&
           tn__input_may_be(setup, 1, TN__TYPES_INDEX) &&
           tn__input_may_be(setup, 7, TN__TYPES_INDEX) &&
           tn__input_may_be(setup, 8, TN__TYPES_INDEX) &&
           tn__output_may_be(setup, 1, TN__TYPE(INT32));
}

/* --- the gradient of a normalisation of slices ---
 *
 * With h = (x - mean) / deviation and g = dy * scale, over a slice of n elements:
 *     dx = (g - (sum g + h sum g h) / n) / deviation
 * The first sum is absent if no mean was subtracted. d scale = sum dy h and d bias = sum dy, over
 * all slices. Mean and deviation are recomputed: a slice is read three times, but only the first
 * time from memory. Sums are in float64 and in a fixed order. The output may have the address of an
 * input, because an element is read before it is written.
 */
enum { NORMALISE_LANES = 8 };

typedef struct normalise_grad {
    const tn_operand *dy, *x, *scale;
    tn_operand *dx;
    uint64_t count, cycle, each, run;
    bool centered;
    double epsilon;
    /* sums for the gradients of scale and bias, one for each of their elements */
    double *scales, *biases;
} normalise_grad;

static tn_status normalise_grad_read(tn_kernel_call *call, normalise_grad *job) {
    const tn_operand *x = &call->inputs[1], *scale = &call->inputs[2];
    int64_t count = tn__attr_int(call->op, "count", 0), cycle = tn__attr_int(call->op, "cycle", 1);
    int64_t each = tn__attr_int(call->op, "each", 0), run = tn__attr_int(call->op, "run", 1);
    uint64_t scales = tn__operand_count(scale), total = tn__operand_count(x), last;
    TN_TRY(tn__check_shape(call, 0, x->rank, x->shape));
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    TN_TRY(tn__check_result(call, 1, scale->rank, scale->shape));
    TN_TRY(tn__check_result(call, 2, scale->rank, scale->shape));
    TN_TRY(tn__check_scratch(call, tn__mul_sat(scales, 2 * sizeof(double))));
    bool fits = count >= 0 && cycle > 0 && each >= 0 && run > 0;
    if (fits && total > 0) {
        last = tn__mul_sat((uint64_t)cycle - 1, (uint64_t)each);
        fits = count > 0 && total % (uint64_t)count == 0 &&
               tn__add_sat(last, ((uint64_t)count - 1) / (uint64_t)run) < scales;
    }
    if (!fits) return tn__call_fail(call, TN_E_INVALID, "slices do not fit the input");
    *job = (normalise_grad){.dy = &call->inputs[0],
                            .x = x,
                            .scale = scale,
                            .dx = &call->outputs[0],
                            .count = (uint64_t)count,
                            .cycle = (uint64_t)cycle,
                            .each = (uint64_t)each,
                            .run = (uint64_t)run,
                            .centered = tn__attr_int(call->op, "centered", 1) != 0,
                            .epsilon = tn__attr_float(call->op, "epsilon", (double)1e-5f),
                            .scales = call->workspace,
                            .biases = (double *)call->workspace + scales};
    return TN_OK;
}

/* Loads the scales of elements [i, i + some) of a slice. Each element has its own scale, or a run
 * of elements shares one. */
static void normalise_grad_scales(const normalise_grad *job, uint64_t base, uint64_t i,
                                  uint64_t some, double *scale) {
    if (job->run == 1) {
        tn__real_load(job->scale, base + i, 1, some, scale);
        return;
    }
    uint64_t now = i / job->run, left = job->run - i % job->run;
    double value = tn__real_get(job->scale, base + now);
    for (uint64_t k = 0; k < some; k++, left--) {
        if (left == 0) {
            left = job->run;
            value = tn__real_get(job->scale, base + ++now);
        }
        scale[k] = value;
    }
}

/* Adds the contributions of a tile's elements to the gradients of their scales and biases. */
static void normalise_grad_add(const normalise_grad *job, uint64_t base, uint64_t i, uint64_t some,
                               const double *dy, const double *h) {
    double *scales = job->scales + base, *biases = job->biases + base;
    if (job->run == 1) {
        for (uint64_t k = 0; k < some; k++) {
            scales[i + k] += dy[k] * h[k];
            biases[i + k] += dy[k];
        }
        return;
    }
    uint64_t now = i / job->run, left = job->run - i % job->run;
    for (uint64_t k = 0; k < some; k++, left--) {
        if (left == 0) {
            left = job->run;
            now++;
        }
        scales[now] += dy[k] * h[k];
        biases[now] += dy[k];
    }
}

/* Computes the gradient for slices of float32 in which each element has its own scale. */

static double normalise_lanes(const double *lanes) {
    double sum = 0;
    for (size_t k = 0; k < NORMALISE_LANES; k++) sum += lanes[k];
    return sum;
}

/* Returns the sum of the values. Several partial sums are computed at once, so that no addition
 * must wait for the one before. */
TN_WIDE static double normalise_total(uint64_t count, const float *values) {
    const uint64_t whole = count - count % NORMALISE_LANES;
    double lanes[NORMALISE_LANES] = {0};
    for (uint64_t i = 0; i < whole; i += NORMALISE_LANES)
        for (size_t k = 0; k < NORMALISE_LANES; k++) lanes[k] += (double)values[i + k];
    for (uint64_t i = whole; i < count; i++) lanes[0] += (double)values[i];
    return normalise_lanes(lanes);
}

TN_WIDE static double normalise_grad_squares(uint64_t count, const float *x, double mean) {
    const uint64_t whole = count - count % NORMALISE_LANES;
    double lanes[NORMALISE_LANES] = {0};
    for (uint64_t i = 0; i < whole; i += NORMALISE_LANES)
        for (size_t k = 0; k < NORMALISE_LANES; k++) {
            const double value = (double)x[i + k] - mean;
            lanes[k] += value * value;
        }
    for (uint64_t i = whole; i < count; i++)
        lanes[0] += ((double)x[i] - mean) * ((double)x[i] - mean);
    return normalise_lanes(lanes);
}

TN_WIDE static void normalise_grad_slice_floats(const normalise_grad *job, uint64_t slice) {
    const uint64_t base = slice % job->cycle * job->each, count = job->count;
    const float *x = (const float *)job->x->data + slice * count;
    const float *dy = (const float *)job->dy->data + slice * count;
    const float *scale = (const float *)job->scale->data + base;
    float *dx = (float *)job->dx->data + slice * count;
    double *scales = job->scales + base, *biases = job->biases + base, n = (double)count;
    const double mean = job->centered ? normalise_total(count, x) / n : 0;
    const double inverse = 1 / sqrt(normalise_grad_squares(count, x, mean) / n + job->epsilon);
    const uint64_t whole = count - count % NORMALISE_LANES;
    double sums[NORMALISE_LANES] = {0}, products[NORMALISE_LANES] = {0};
    for (uint64_t first = 0; first < count; first += NORMALISE_LANES) {
        const uint64_t some = first < whole ? NORMALISE_LANES : count - whole;
        for (uint64_t k = 0; k < some; k++) {
            const double given = (double)dy[first + k];
            const double h = ((double)x[first + k] - mean) * inverse;
            const double part = given * (double)scale[first + k];
            scales[first + k] += given * h;
            biases[first + k] += given;
            sums[k] += part;
            products[k] += part * h;
        }
    }
    const double sum = job->centered ? normalise_lanes(sums) / n : 0,
                 product = normalise_lanes(products) / n;
    TN_APART
    for (uint64_t i = 0; i < count; i++) {
        const double h = ((double)x[i] - mean) * inverse;
        dx[i] = (float)(inverse * ((double)dy[i] * (double)scale[i] - sum - h * product));
    }
}

/* Computes the gradient for slices of any real type and any arrangement of scales. */

static void normalise_grad_slice(const normalise_grad *job, uint64_t slice) {
    uint64_t first = slice * job->count, base = slice % job->cycle * job->each;
    double mean = job->centered ? normalise_moment(job->x, first, job->count, 0, false) : 0;
    double inverse =
        1 / sqrt(normalise_moment(job->x, first, job->count, mean, true) + job->epsilon);
    double sum = 0, product = 0, n = (double)job->count;
    double dy[TN__REAL_TILE], h[TN__REAL_TILE], scale[TN__REAL_TILE];
    for (uint32_t pass = 0; pass < 2; pass++) {
        NORMALISE_TILES(job->count, i, some) {
            tn__real_load(job->dy, first + i, 1, some, dy);
            tn__real_load(job->x, first + i, 1, some, h);
            normalise_grad_scales(job, base, i, some, scale);
            for (uint64_t k = 0; k < some; k++) h[k] = (h[k] - mean) * inverse;
            if (pass == 0) {
                normalise_grad_add(job, base, i, some, dy, h);
                for (uint64_t k = 0; k < some; k++) {
                    sum += dy[k] * scale[k];
                    product += dy[k] * scale[k] * h[k];
                }
                continue;
            }
            for (uint64_t k = 0; k < some; k++)
                dy[k] =
                    inverse * (dy[k] * scale[k] - ((job->centered ? sum : 0) + h[k] * product) / n);
            tn__real_store(job->dx, first + i, some, dy);
        }
    }
}

static tn_status normalise_run_grad(tn_kernel_call *call) {
    normalise_grad job = {0};
    TN_TRY(normalise_grad_read(call, &job));
    uint64_t total = tn__operand_count(job.x), scales = tn__operand_count(job.scale);
    memset(job.scales, 0, 2 * scales * sizeof *job.scales);
    bool floats = job.run == 1 && job.x->dtype == TN_FLOAT32 && job.scale->dtype == TN_FLOAT32;
    for (uint64_t s = 0; total > 0 && s < total / job.count; s++) {
        if (floats)
            normalise_grad_slice_floats(&job, s);
        else
            normalise_grad_slice(&job, s);
    }
    tn_operand *outputs[] = {tn__call_output(call, 1), tn__call_output(call, 2)};
    for (uint32_t k = 0; k < 2; k++)
        if (outputs[k] != NULL)
            tn__real_store(outputs[k], 0, scales, k == 0 ? job.scales : job.biases);
    return TN_OK;
}

static bool normalise_accepts_grad(const tn_kernel_setup *setup) {
    if (!tn__types_agree(setup, TN__TYPES_REAL, 3, 0)) return false;
    return tn__input_is(setup, 2, TN__TYPES_REAL) && tn__output_may_be(setup, 1, TN__TYPES_REAL) &&
           tn__output_may_be(setup, 2, TN__TYPES_REAL);
}

static uint64_t normalise_workspace_grad(const tn_kernel_setup *setup) {
    const tn_tensor *scale = tn__setup_input(setup, 2);
    uint64_t count = 2 * sizeof(double);
    for (uint32_t d = 0; d < scale->rank; d++)
        count = tn__mul_sat(count, scale->shape[d] > 0 ? (uint64_t)scale->shape[d] : 0);
    return count;
}

/* --- the gradient of LRN: y = x s^-beta with s = bias + alpha / size * (sum of squares) ---
 *
 *     dx_i = dy_i s_i^-beta - 2 alpha beta / size * x_i * sum of dy_c x_c s_c^(-beta - 1)
 *
 * The sum is over the channels c that have channel i in their window. The values s are recomputed
 * for a tile of positions at a time, so the forward pass keeps nothing but the input. Scratch
 * memory: two numbers per channel and position of a tile. Cost: O(elements x size).
 */

typedef struct normalise_lrn_job {
    const tn_operand *dy, *x;
    tn_operand *dx;
    double alpha, beta, bias; /* attributes; `alpha` is already divided by the size of the window */
    uint64_t channels, area, before, after;
    /* scratch memory, [channels][TN__REAL_TILE]: a number for each channel and position of a
     * tile */
    double *sums, *parts;
} normalise_lrn_job;

/* Computes, for a tile of positions, s of every channel, and the term dy x s^(-beta - 1) of every
 * channel. */
static void normalise_lrn_measure(const normalise_lrn_job *job, uint64_t first, uint64_t count) {
    double x[TN__REAL_TILE], dy[TN__REAL_TILE];
    for (uint64_t i = 0; i < job->channels * TN__REAL_TILE; i++) job->sums[i] = job->bias;
    for (uint64_t c = 0; c < job->channels; c++) {
        /* the first channel that has c in its window */
        uint64_t from = c > job->after ? c - job->after : 0;
        uint64_t to = job->channels - c > job->before ? c + job->before + 1 : job->channels;
        tn__real_load(job->x, first + c * job->area, 1, count, x);
        for (uint64_t o = from; o < to; o++)
            for (uint64_t k = 0; k < count; k++)
                job->sums[o * TN__REAL_TILE + k] += job->alpha * x[k] * x[k];
    }
    for (uint64_t c = 0; c < job->channels; c++) {
        tn__real_load(job->x, first + c * job->area, 1, count, x);
        tn__real_load(job->dy, first + c * job->area, 1, count, dy);
        for (uint64_t k = 0; k < count; k++)
            job->parts[c * TN__REAL_TILE + k] =
                dy[k] * x[k] * pow(job->sums[c * TN__REAL_TILE + k], -job->beta - 1);
    }
}

static void normalise_lrn_tile(const normalise_lrn_job *job, uint64_t first, uint64_t count) {
    double x[TN__REAL_TILE], dy[TN__REAL_TILE];
    normalise_lrn_measure(job, first, count);
    for (uint64_t c = 0; c < job->channels; c++) {
        uint64_t from = c > job->after ? c - job->after : 0;
        uint64_t to = job->channels - c > job->before ? c + job->before + 1 : job->channels;
        double back[TN__REAL_TILE] = {0};
        for (uint64_t o = from; o < to; o++)
            for (uint64_t k = 0; k < count; k++) back[k] += job->parts[o * TN__REAL_TILE + k];
        tn__real_load(job->x, first + c * job->area, 1, count, x);
        tn__real_load(job->dy, first + c * job->area, 1, count, dy);
        for (uint64_t k = 0; k < count; k++)
            dy[k] = dy[k] * pow(job->sums[c * TN__REAL_TILE + k], -job->beta) -
                    2 * job->alpha * job->beta * x[k] * back[k];
        tn__real_store(job->dx, first + c * job->area, count, dy);
    }
}

static tn_status normalise_lrn_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[1];
    int64_t size = tn__attr_int(call->op, "size", 0);
    if (x->rank < 2 || size < 1)
        return tn__call_fail(call, TN_E_INVALID, "attribute size or the rank is out of range");
    TN_TRY(tn__check_shape(call, 0, x->rank, x->shape));
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    normalise_lrn_job job = {.dy = &call->inputs[0],
                             .x = x,
                             .dx = &call->outputs[0],
                             .alpha =
                                 tn__attr_float(call->op, "alpha", (double)1e-4f) / (double)size,
                             .beta = tn__attr_float(call->op, "beta", 0.75),
                             .bias = tn__attr_float(call->op, "bias", 1),
                             .channels = (uint64_t)x->shape[1],
                             .area = tn__operand_span(x, 2, x->rank),
                             .before = (uint64_t)(size - 1) / 2,
                             .sums = call->workspace};
    job.after = (uint64_t)size - 1 - job.before;
    job.parts = job.sums + job.channels * TN__REAL_TILE;
    TN_TRY(tn__check_scratch(
        call, tn__mul_sat(job.channels, 2 * TN__REAL_TILE * (uint64_t)sizeof(double))));
    for (uint64_t n = 0; n < (uint64_t)x->shape[0]; n++)
        for (uint64_t i = 0; i < job.area; i += TN__REAL_TILE)
            normalise_lrn_tile(&job, n * job.channels * job.area + i,
                               job.area - i < TN__REAL_TILE ? job.area - i : TN__REAL_TILE);
    return TN_OK;
}

static bool normalise_lrn_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 3, 0);
}

static uint64_t normalise_lrn_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 1);
    if (x->rank < 2 || x->shape[1] < 0) return 0;
    return tn__mul_sat((uint64_t)x->shape[1], 2 * TN__REAL_TILE * (uint64_t)sizeof(double));
}

static const tn_kernel normalise_kernels[] = {
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
    {.domain = "com.microsoft",
     .type = "EmbedLayerNormalization",
     .accepts = normalise_accepts_embed,
     .run = normalise_run_embed},
    {.domain = "com.microsoft",
     .type = "SkipLayerNormalization",
     .accepts = normalise_accepts_skip,
     .workspace = normalise_workspace_row,
     .run = normalise_run_skip},
    {.domain = "com.microsoft",
     .type = "SkipSimplifiedLayerNormalization",
     .accepts = normalise_accepts_skip,
     .workspace = normalise_workspace_row,
     .run = normalise_run_skip_simple},
    {.domain = "tenure",
     .type = "NormalizationGrad",
     .accepts = normalise_accepts_grad,
     .workspace = normalise_workspace_grad,
     .run = normalise_run_grad},
    {.domain = "tenure",
     .type = "LRNGrad",
     .accepts = normalise_lrn_accepts,
     .workspace = normalise_lrn_workspace,
     .run = normalise_lrn_run},
};

TN_KERNEL_FAMILY(normalise, "");
