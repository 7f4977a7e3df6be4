/* resample.c - computes the coordinates and weights of a resampling, as a table per axis.
 *
 * Resampling is separable: along each axis, every output coordinate is a weighted sum of one
 * (nearest), two (linear) or four (cubic) input coordinates. An axis that keeps its coordinates has
 * one tap of weight 1. Coordinates are computed in float64. `align_corners` takes the length that
 * the scale makes, fraction and all, as the operator's reference does.
 * Cost:   O(extents x taps); 16 bytes per tap and extent.
 * Source: operator texts and function definition of ONNX, opsets 7 to 19; cubic: R. Keys, Cubic
 *         convolution interpolation for digital image processing, IEEE TASSP 29, 1981.
 */
#include "engine/kernels/resample.h"

#include <math.h>

#include "graph/rules/window.h"

/* --- one coordinate --- */

static double resample_coordinate(const tn__resample *plan, uint32_t d, int64_t extent,
                                  int64_t at) {
    const char *how = plan->coordinates;
    double x = (double)at, scale = plan->scale[d], length = plan->length[d], in = (double)extent;
    if (strcmp(how, "asymmetric") == 0) return x / scale;
    if (strcmp(how, "align_corners") == 0) return length == 1 ? 0 : x * (in - 1) / (length - 1);
    if (strcmp(how, "pytorch_half_pixel") == 0) return length > 1 ? (x + 0.5) / scale - 0.5 : 0;
    if (strcmp(how, "tf_half_pixel_for_nn") == 0) return (x + 0.5) / scale;
    if (strcmp(how, "tf_crop_and_resize") == 0) {
        double begin = plan->begin[d] * (in - 1), span = (plan->end[d] - plan->begin[d]) * (in - 1);
        return length > 1 ? begin + x * span / (length - 1) : begin + 0.5 * span;
    }
    if (strcmp(how, "half_pixel_symmetric") == 0) {
        double adjust = (double)plan->shape[d] / length, center = in / 2;
        return center * (1 - adjust) + (x + 0.5) / scale - 0.5;
    }
    return (x + 0.5) / scale - 0.5;
}

static double resample_round(const tn__resample *plan, double scale, double x) {
    if (plan->simple) return scale < 1 ? ceil(x) : floor(x);
    if (strcmp(plan->nearest, "floor") == 0) return floor(x);
    if (strcmp(plan->nearest, "ceil") == 0) return ceil(x);
    if (strcmp(plan->nearest, "round_prefer_ceil") == 0) return floor(x + 0.5);
    return ceil(x - 0.5);
}

static void resample_cubic(double a, double r, double weight[TN__RESAMPLE_TAPS]) {
    double s = 1 - r;
    weight[0] = ((a * (r + 1) - 5 * a) * (r + 1) + 8 * a) * (r + 1) - 4 * a;
    weight[1] = ((a + 2) * r - (a + 3)) * r * r + 1;
    weight[2] = ((a + 2) * s - (a + 3)) * s * s + 1;
    weight[3] = ((a * (s + 1) - 5 * a) * (s + 1) + 8 * a) * (s + 1) - 4 * a;
}

static int64_t resample_clamp(double at, int64_t extent) {
    return !(at > 0) ? 0 : at > (double)(extent - 1) ? extent - 1 : (int64_t)at;
}

/* The taps of one place. */
static void resample_taps(const tn__resample *plan, uint32_t d, int64_t extent, int64_t at,
                          int64_t *source, double *weight) {
    double x = resample_coordinate(plan, d, extent, at), low = floor(x), sum = 0;
    uint32_t taps = plan->axis[d].taps;
    if (plan->crops && !(x >= 0 && x <= (double)(extent - 1))) {
        for (uint32_t t = 0; t < taps; t++) source[t] = -1;
        return;
    }
    weight[0] = 1;
    if (plan->mode == TN__RESAMPLE_NEAREST) low = resample_round(plan, plan->scale[d], x);
    if (plan->mode == TN__RESAMPLE_LINEAR) {
        weight[1] = x - low;
        weight[0] = 1 - weight[1];
    }
    if (plan->mode == TN__RESAMPLE_CUBIC) {
        resample_cubic(plan->cubic, x - low, weight);
        low -= 1;
    }
    for (uint32_t t = 0; t < taps; t++) {
        bool inside = low + t >= 0 && low + t <= (double)(extent - 1);
        source[t] = resample_clamp(low + t, extent);
        if (plan->exclude && !inside) weight[t] = 0;
        sum += weight[t];
    }
    for (uint32_t t = 0; t < taps && plan->exclude && sum != 0; t++) weight[t] /= sum;
}

/* --- the plan --- */

static tn_status resample_extents(const tn_kernel_call *call, tn__resample *plan,
                                  const tn_operand *scales, const tn_operand *sizes) {
    const tn_operand *from = plan->from;
    uint32_t axis_count, scale_count;
    const int64_t *axes = tn__attr_ints(call->op, "axes", &axis_count);
    const double *attr = tn__attr_floats(call->op, "scales", &scale_count);
    uint64_t given = sizes != NULL    ? tn__operand_count(sizes)
                     : scales != NULL ? tn__operand_count(scales)
                                      : scale_count;
    if (given != (axes != NULL ? axis_count : from->rank))
        return tn__call_fail(call, TN_E_INVALID, "%llu scales or sizes for another number of axes",
                             (unsigned long long)given);
    for (uint32_t i = 0; i < (uint32_t)given; i++) {
        uint32_t d;
        TN_TRY(tn__call_axis(call, axes != NULL ? axes[i] : i, from->rank, &d));
        double in = (double)from->shape[d];
        plan->scale[d] = sizes != NULL    ? 0
                         : scales != NULL ? tn__operand_float(scales, i)
                                          : attr[i];
        double length = sizes != NULL ? (double)tn__index(sizes, i) : in * plan->scale[d];
        if (!(length >= 0 && length < 0x1p53) || (sizes == NULL && !(plan->scale[d] > 0)))
            return tn__call_fail(call, TN_E_INVALID, "axis %u would have %g elements", d, length);
        plan->shape[d] =
            (int64_t)(sizes != NULL ? length : tn__window_scaled(from->shape[d], plan->scale[d]));
        if (sizes != NULL) plan->scale[d] = length / in;
        double whole = nearbyint(length); /* a scale in float32 is not exact */
        plan->length[d] = fabs(length - whole) <= 1e-6 * whole ? whole : length;
        if (plan->shape[d] > 0 && from->shape[d] == 0)
            return tn__call_fail(call, TN_E_INVALID, "axis %u is empty", d);
    }
    return TN_OK;
}

/* The region of interest, relative: all begins, then all ends. */
tn_status tn__resample_region(const tn_kernel_call *call, tn__resample *plan) {
    const tn_operand *roi = call->version >= 11 ? tn__call_input(call, 1) : NULL;
    uint32_t axis_count, rank = plan->from->rank;
    const int64_t *axes = tn__attr_ints(call->op, "axes", &axis_count);
    if (axes == NULL) axis_count = rank;
    plan->crops = strcmp(plan->coordinates, "tf_crop_and_resize") == 0;
    if (!plan->crops) return TN_OK;
    if (roi == NULL || tn__operand_count(roi) != 2 * (uint64_t)axis_count)
        return tn__call_fail(call, TN_E_INVALID, "tf_crop_and_resize needs 2 x %u bounds in roi",
                             axis_count);
    for (uint32_t i = 0; i < axis_count; i++) {
        uint32_t d;
        TN_TRY(tn__call_axis(call, axes != NULL ? axes[i] : i, rank, &d));
        plan->begin[d] = tn__operand_float(roi, i);
        plan->end[d] = tn__operand_float(roi, axis_count + i);
    }
    return TN_OK;
}

bool tn__resample_mode(const tn_op *op, tn__resample_kind *mode) {
    const char *name = tn__attr_string(op, "mode", "nearest");
    *mode = strcmp(name, "cubic") == 0     ? TN__RESAMPLE_CUBIC
            : strcmp(name, "nearest") == 0 ? TN__RESAMPLE_NEAREST
                                           : TN__RESAMPLE_LINEAR;
    return *mode != TN__RESAMPLE_LINEAR || strcmp(name, "linear") == 0 ||
           strcmp(name, "bilinear") == 0;
}

/* Makes the tables of all axes in the workspace; `*row` is the rest of it: one row of sums. */
tn_status tn__resample_tables(tn_kernel_call *call, tn__resample *plan, double **row) {
    const tn_operand *from = plan->from;
    uint64_t entries = 0, done = 0, columns = 0;
    for (uint32_t d = 0; d < from->rank; d++) {
        bool moves = plan->crops && (plan->begin[d] != 0 || plan->end[d] != 1);
        plan->axis[d].same = plan->shape[d] == from->shape[d] && plan->scale[d] == 1 && !moves;
        plan->axis[d].taps = plan->axis[d].same || plan->mode == TN__RESAMPLE_NEAREST ? 1
                             : plan->mode == TN__RESAMPLE_LINEAR                      ? 2
                                                                 : TN__RESAMPLE_TAPS;
        entries += (uint64_t)plan->shape[d] * plan->axis[d].taps;
        columns = (uint64_t)plan->shape[d];
    }
    TN_TRY(tn__call_scratch(call, entries * 16 + columns * 8));
    int64_t *sources = call->workspace;
    double *weights = (double *)(sources + entries);
    *row = weights + entries;
    for (uint32_t d = 0; d < from->rank; d++) {
        tn__resample_axis *axis = &plan->axis[d];
        axis->source = sources + done;
        axis->weight = weights + done;
        done += (uint64_t)plan->shape[d] * axis->taps;
        for (int64_t i = 0; i < plan->shape[d]; i++) {
            if (!axis->same) {
                resample_taps(plan, d, from->shape[d], i, axis->source + i * axis->taps,
                              axis->weight + i * axis->taps);
                continue;
            }
            axis->source[i] = i;
            axis->weight[i] = 1;
        }
    }
    return TN_OK;
}

tn_status tn__resample_read(tn_kernel_call *call, const tn_operand *from, bool simple,
                            const tn_operand *scales, const tn_operand *sizes, tn__resample *plan) {
    *plan = (tn__resample){.simple = simple, .from = from};
    if (sizes != NULL && tn__operand_count(sizes) == 0) sizes = NULL;
    tn__resample_mode(call->op, &plan->mode);
    plan->coordinates =
        simple ? "asymmetric"
               : tn__attr_string(call->op, "coordinate_transformation_mode", "half_pixel");
    plan->nearest = tn__attr_string(call->op, "nearest_mode", "round_prefer_floor");
    plan->exclude =
        plan->mode == TN__RESAMPLE_CUBIC && tn__attr_int(call->op, "exclude_outside", 0) != 0;
    plan->cubic = tn__attr_float(call->op, "cubic_coeff_a", -0.75);
    plan->outside = tn__attr_float(call->op, "extrapolation_value", 0);
    for (uint32_t d = 0; d < from->rank; d++) {
        plan->shape[d] = from->shape[d];
        plan->length[d] = (double)from->shape[d];
        plan->scale[d] = plan->end[d] = 1;
    }
    return resample_extents(call, plan, scales, sizes);
}

uint64_t tn__resample_bytes(const tn_tensor *to) {
    uint64_t bytes = 0;
    if (to == NULL || to->rank > TN_RANK_MAX) return 0;
    for (uint32_t d = 0; d < to->rank; d++)
        if (to->shape[d] > 0)
            bytes =
                tn__add_sat(bytes, tn__mul_sat((uint64_t)to->shape[d], 16 * TN__RESAMPLE_TAPS + 8));
    return bytes;
}
