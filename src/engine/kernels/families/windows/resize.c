/* resize.c - Resize and Upsample, and their gradient.
 *
 * Resampling is separable: along each axis, an output coordinate is a weighted sum of one
 * (nearest), two (linear) or four (cubic) input coordinates, called its taps. A table in scratch
 * memory has the taps of each axis. An output row is the sum, over all combinations of one tap per
 * outer axis, of input rows that are resampled along the last axis. The gradient does the reverse:
 * each element of the output's gradient is added to its taps with their weights, row by row in a
 * fixed order.
 *
 * With `antialias`, an axis that is made shorter has more taps: the triangle or the cubic is
 * stretched by 1 / scale, so that no input is skipped, and the weights of an output are divided by
 * their sum.
 *
 * Nearest copies elements of any type. Linear and cubic sum in float64 and round once. If the
 * coordinates along an axis do not change, it has one tap of weight 1. Coordinates are computed in
 * float64, but for nearest in float32, as ONNX Runtime does: 3 / 0.6 is then 5, and not less. With
 * `align_corners`, the output length is the product of input length and scale without rounding, as
 * in ONNX's reference implementation.
 * Cost:   O(outputs x taps^(resized axes)); scratch memory: 16 bytes per tap and extent, 8 bytes
 * per element of a row. All outputs of an axis have at most 5 taps per input and 6 per output.
 * Source: the ONNX specifications and function definition, opsets 7 to 25; cubic: R. Keys, Cubic
 * convolution interpolation for digital image processing, IEEE TASSP 29, 1981.
 */
#include <math.h>

#include "engine/kernels/loops/box.h"
#include "engine/kernels/operands.h"
#include "graph/rules/window.h"

/* --- tables of taps (input coordinates with weights) --- */

enum { RESAMPLE_TAPS = 4 };

typedef enum resample_kind { RESAMPLE_NEAREST, RESAMPLE_LINEAR, RESAMPLE_CUBIC } resample_kind;

typedef struct resample_axis {
    uint32_t taps;
    bool same; /* whether the coordinates of the axis do not change */
    /* extent x taps input coordinates; -1: outside the input, replaced by a constant */
    int64_t *source;
    double *weight; /* [extent][taps] the weight of each tap */
} resample_axis;

typedef struct resize_plan {
    resample_kind mode;
    const char *coordinates, *nearest;
    /* `simple`: the rules of Upsample, and of Resize before opset 11 */
    bool simple, exclude, antialias;
    /* true: the mode is tf_crop_and_resize, the only mode in which coordinates can be outside the
     * input */
    bool crops;
    const tn_operand *from; /* the tensor that is resampled, or another tensor of the same shape */
    double cubic, outside;
    int64_t shape[TN_RANK_MAX];
    /* `length`: length of the output before it is rounded */
    double scale[TN_RANK_MAX], length[TN_RANK_MAX];
    /* the region of tf_crop_and_resize, relative to the input */
    double begin[TN_RANK_MAX], end[TN_RANK_MAX];
    resample_axis axis[TN_RANK_MAX];
} resize_plan;

/* --- the taps of one output coordinate --- */

/* Rounds a coordinate as it is computed. */
static double resample_narrow(const resize_plan *plan, double x) {
    return plan->mode == RESAMPLE_NEAREST ? (double)(float)x : x;
}

static double resample_coordinate(const resize_plan *plan, uint32_t d, int64_t extent, int64_t at) {
    const char *how = plan->coordinates;
    double x = (double)at, scale = resample_narrow(plan, plan->scale[d]), in = (double)extent;
    double length = plan->length[d], middle = resample_narrow(plan, (x + 0.5) / scale);
    if (strcmp(how, "asymmetric") == 0) return resample_narrow(plan, x / scale);
    if (strcmp(how, "align_corners") == 0)
        return length == 1 ? 0 : resample_narrow(plan, x * (in - 1) / (length - 1));
    if (strcmp(how, "pytorch_half_pixel") == 0)
        return length > 1 ? resample_narrow(plan, middle - 0.5) : 0;
    if (strcmp(how, "tf_half_pixel_for_nn") == 0) return middle;
    if (strcmp(how, "tf_crop_and_resize") == 0) {
        double begin = plan->begin[d] * (in - 1), span = (plan->end[d] - plan->begin[d]) * (in - 1);
        return length > 1 ? begin + x * span / (length - 1) : begin + 0.5 * span;
    }
    if (strcmp(how, "half_pixel_symmetric") == 0) {
        double adjust = (double)plan->shape[d] / length, center = in / 2;
        return resample_narrow(plan, center * (1 - adjust) + middle - 0.5);
    }
    return resample_narrow(plan, middle - 0.5);
}

static double resample_round(const resize_plan *plan, double scale, double x) {
    if (plan->simple) return scale < 1 ? ceil(x) : floor(x);
    if (strcmp(plan->nearest, "floor") == 0) return floor(x);
    if (strcmp(plan->nearest, "ceil") == 0) return ceil(x);
    if (strcmp(plan->nearest, "round_prefer_ceil") == 0) return floor(x + 0.5);
    return ceil(x - 0.5);
}

static void resample_cubic(double a, double r, double weight[RESAMPLE_TAPS]) {
    double s = 1 - r;
    weight[0] = ((a * (r + 1) - 5 * a) * (r + 1) + 8 * a) * (r + 1) - 4 * a;
    weight[1] = ((a + 2) * r - (a + 3)) * r * r + 1;
    weight[2] = ((a + 2) * s - (a + 3)) * s * s + 1;
    weight[3] = ((a * (s + 1) - 5 * a) * (s + 1) + 8 * a) * (s + 1) - 4 * a;
}

/* Returns how far, in input coordinates, the taps of axis d are from their output at most, with
 * `antialias`. */
static double resample_reach(const resize_plan *plan, uint32_t d) {
    double reach = plan->mode == RESAMPLE_CUBIC ? 2 : 1;
    return plan->scale[d] < 1 ? reach / plan->scale[d] : reach;
}

/* Computes the weights of the taps low, low + 1, ... for input coordinate x, with `antialias`. */
static void resample_smooth(const resize_plan *plan, uint32_t d, double x, double low,
                            uint32_t taps, double *weight) {
    double a = plan->cubic, scale = fmin(plan->scale[d], 1);
    for (uint32_t t = 0; t < taps; t++) {
        double r = fabs(low + t - x) * scale;
        if (plan->mode == RESAMPLE_LINEAR)
            weight[t] = r < 1 ? 1 - r : 0;
        else if (r <= 1)
            weight[t] = ((a + 2) * r - (a + 3)) * r * r + 1;
        else
            weight[t] = r < 2 ? ((a * r - 5 * a) * r + 8 * a) * r - 4 * a : 0;
    }
}

static int64_t resample_clamp(double at, int64_t extent) {
    return !(at > 0) ? 0 : at > (double)(extent - 1) ? extent - 1 : (int64_t)at;
}

/* Computes the taps (input coordinates and weights) of output coordinate `at` along axis d. */
static void resample_taps(const resize_plan *plan, uint32_t d, int64_t extent, int64_t at,
                          int64_t *source, double *weight) {
    double x = resample_coordinate(plan, d, extent, at), low = floor(x), sum = 0;
    uint32_t taps = plan->axis[d].taps;
    if (plan->crops && !(x >= 0 && x <= (double)(extent - 1))) {
        for (uint32_t t = 0; t < taps; t++) source[t] = -1;
        return;
    }
    weight[0] = 1;
    if (plan->mode == RESAMPLE_NEAREST) low = resample_round(plan, plan->scale[d], x);
    if (plan->antialias) {
        low = floor(x - resample_reach(plan, d)) + 1;
        resample_smooth(plan, d, x, low, taps, weight);
    } else if (plan->mode == RESAMPLE_LINEAR) {
        weight[1] = x - low;
        weight[0] = 1 - weight[1];
    } else if (plan->mode == RESAMPLE_CUBIC) {
        resample_cubic(plan->cubic, x - low, weight);
        low -= 1;
    }
    for (uint32_t t = 0; t < taps; t++) {
        bool inside = low + t >= 0 && low + t <= (double)(extent - 1);
        source[t] = resample_clamp(low + t, extent);
        if (plan->exclude && !inside) weight[t] = 0;
        sum += weight[t];
    }
    bool divides = (plan->exclude || plan->antialias) && sum != 0;
    for (uint32_t t = 0; t < taps && divides; t++) weight[t] /= sum;
}

/* --- the scales, the tables and the rows of a resampling --- */

/* Handles keep_aspect_ratio_policy: all resized axes get the smallest or the largest of their
 * scales, and extents are rounded. */
static tn_status resample_keep_aspect(const tn_kernel_call *call, resize_plan *plan, uint32_t count,
                                      const int64_t *axes) {
    const char *policy = tn__attr_string(call->op, "keep_aspect_ratio_policy", "stretch");
    bool smallest = strcmp(policy, "not_larger") == 0;
    double best = 0;
    if (plan->simple || strcmp(policy, "stretch") == 0) return TN_OK;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t d;
        TN_TRY(tn__call_axis(call, axes != NULL ? axes[i] : i, plan->from->rank, &d));
        if (plan->from->shape[d] == 0) return TN_OK; /* as in the shape rule */
        double scale = plan->scale[d];
        if (i == 0 || (smallest ? scale < best : scale > best)) best = scale;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t d;
        TN_TRY(tn__call_axis(call, axes != NULL ? axes[i] : i, plan->from->rank, &d));
        plan->scale[d] = best;
        plan->length[d] = best * (double)plan->from->shape[d];
        double extent = floor(plan->length[d] + 0.5);
        if (!(extent < 0x1p53))
            return tn__call_fail(call, TN_E_INVALID, "axis %u would have %g elements", d, extent);
        plan->shape[d] = (int64_t)extent;
    }
    return TN_OK;
}

static tn_status resample_extents(const tn_kernel_call *call, resize_plan *plan,
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
        double whole = nearbyint(length); /* remove the rounding error of a scale in float32 */
        plan->length[d] = fabs(length - whole) <= 1e-6 * whole ? whole : length;
        if (plan->shape[d] > 0 && from->shape[d] == 0)
            return tn__call_fail(call, TN_E_INVALID, "axis %u is empty", d);
    }
    return sizes != NULL ? resample_keep_aspect(call, plan, (uint32_t)given, axes) : TN_OK;
}

/* Reads the region of tf_crop_and_resize: an input with all begins, then all ends, relative to the
 * extents. */
static tn_status resample_region(const tn_kernel_call *call, resize_plan *plan) {
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

/* Reads the attribute `mode`. Returns false if the mode is unknown. */
static bool resample_mode(const tn_op *op, resample_kind *mode) {
    const char *name = tn__attr_string(op, "mode", "nearest");
    *mode = strcmp(name, "cubic") == 0     ? RESAMPLE_CUBIC
            : strcmp(name, "nearest") == 0 ? RESAMPLE_NEAREST
                                           : RESAMPLE_LINEAR;
    return *mode != RESAMPLE_LINEAR || strcmp(name, "linear") == 0 || strcmp(name, "bilinear") == 0;
}

/* Number of taps of each output along axis d. An axis without outputs has none. */
static uint32_t resample_tap_count(const resize_plan *plan, uint32_t d) {
    if (plan->axis[d].same || plan->mode == RESAMPLE_NEAREST) return 1;
    if (plan->shape[d] == 0) return 1;
    if (plan->antialias) return (uint32_t)fmin(ceil(2 * resample_reach(plan, d)), UINT32_MAX);
    return plan->mode == RESAMPLE_LINEAR ? 2 : RESAMPLE_TAPS;
}

/* Fills the tables of all axes in the workspace. *row gets the memory after them, for the sums of
 * one row. */
static tn_status resample_tables(tn_kernel_call *call, resize_plan *plan, double **row) {
    const tn_operand *from = plan->from;
    uint64_t entries = 0, done = 0, columns = 0;
    for (uint32_t d = 0; d < from->rank; d++) {
        bool moves = plan->crops && (plan->begin[d] != 0 || plan->end[d] != 1);
        plan->axis[d].same = plan->shape[d] == from->shape[d] && plan->scale[d] == 1 && !moves;
        plan->axis[d].taps = resample_tap_count(plan, d);
        entries += (uint64_t)plan->shape[d] * plan->axis[d].taps;
        columns = (uint64_t)plan->shape[d];
    }
    TN_TRY(tn__call_scratch(call, entries * 16 + columns * 8));
    int64_t *sources = call->workspace;
    double *weights = (double *)(sources + entries);
    *row = weights + entries;
    for (uint32_t d = 0; d < from->rank; d++) {
        resample_axis *axis = &plan->axis[d];
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

/* Reads a resize_plan from the attributes and from scales or sizes; one of these two may be NULL.
 * `simple`: use the rules before opset 11. */
static tn_status resample_read(tn_kernel_call *call, const tn_operand *from, bool simple,
                               const tn_operand *scales, const tn_operand *sizes,
                               resize_plan *plan) {
    *plan = (resize_plan){.simple = simple, .from = from};
    if (sizes != NULL && tn__operand_count(sizes) == 0) sizes = NULL;
    resample_mode(call->op, &plan->mode);
    plan->coordinates =
        simple ? "asymmetric"
               : tn__attr_string(call->op, "coordinate_transformation_mode", "half_pixel");
    plan->nearest = tn__attr_string(call->op, "nearest_mode", "round_prefer_floor");
    plan->antialias =
        !simple && plan->mode != RESAMPLE_NEAREST && tn__attr_int(call->op, "antialias", 0) != 0;
    plan->exclude = (plan->mode == RESAMPLE_CUBIC || plan->antialias) &&
                    tn__attr_int(call->op, "exclude_outside", 0) != 0;
    plan->cubic = tn__attr_float(call->op, "cubic_coeff_a", -0.75);
    plan->outside = tn__attr_float(call->op, "extrapolation_value", 0);
    for (uint32_t d = 0; d < from->rank; d++) {
        plan->shape[d] = from->shape[d];
        plan->length[d] = (double)from->shape[d];
        plan->scale[d] = plan->end[d] = 1;
    }
    return resample_extents(call, plan, scales, sizes);
}

/* Returns the bytes of the workspace that resample_tables needs to resample `from` to `to`. With
 * `antialias`, an output has at most 4 / scale + 1 taps and an axis at most input x scale outputs;
 * the larger factors here cover roundings of the scale. */
static uint64_t resample_bytes(const tn_op *op, const tn_tensor *from, const tn_tensor *to) {
    bool antialias = tn__attr_int(op, "antialias", 0) != 0;
    uint64_t bytes = 0;
    if (to == NULL || from == NULL || to->rank > TN_RANK_MAX || from->rank != to->rank) return 0;
    for (uint32_t d = 0; d < to->rank; d++) {
        if (to->shape[d] <= 0) continue;
        uint64_t entries = tn__mul_sat((uint64_t)to->shape[d], antialias ? 6 : RESAMPLE_TAPS);
        if (antialias && from->shape[d] > 0)
            entries = tn__add_sat(entries, tn__mul_sat((uint64_t)from->shape[d], 5));
        bytes = tn__add_sat(bytes, tn__mul_sat(entries, 16));
        bytes = tn__add_sat(bytes, tn__mul_sat((uint64_t)to->shape[d], 8));
    }
    return bytes;
}

/* --- rows --- */

/* Copies a row for mode nearest, in which each output element is a copy of one input element.
 * `from` NULL: the whole row is outside the input. */
static inline __attribute__((always_inline)) void resize_row_pick(const resample_axis *axis,
                                                                  int64_t count, char *to,
                                                                  const char *from, size_t width,
                                                                  const char *outside) {
    for (int64_t i = 0; i < count; i++, to += width) {
        bool inside = from != NULL && axis->source[i] >= 0;
        memcpy(to, inside ? from + axis->source[i] * (int64_t)width : outside, width);
    }
}

static void resize_row_nearest(const resize_plan *plan, uint32_t last, char *to, const char *from,
                               uint32_t width, const char *outside) {
    const resample_axis *axis = &plan->axis[last];
    int64_t count = plan->shape[last];
    if (axis->same && from != NULL) {
        memcpy(to, from, (uint64_t)count * width);
        return;
    }
    if (width == 4)
        resize_row_pick(axis, count, to, from, 4, outside);
    else if (width == 1)
        resize_row_pick(axis, count, to, from, 1, outside);
    else
        resize_row_pick(axis, count, to, from, width, outside);
}

/* Adds `scale` times the input row at `from`, resampled along the last axis, to `row`. */
static inline __attribute__((always_inline)) void resize_row_floats(const resample_axis *axis,
                                                                    int64_t count, uint32_t taps,
                                                                    double *row, const float *from,
                                                                    double scale) {
    for (int64_t i = 0; i < count; i++) {
        const int64_t *source = axis->source + i * taps;
        const double *weight = axis->weight + i * taps;
        double sum = 0;
        for (uint32_t t = 0; t < taps; t++) sum += weight[t] * (double)from[source[t]];
        row[i] += scale * sum;
    }
}

static void resize_row_add(const resize_plan *plan, uint32_t last, double *row, const char *from,
                           tn_dtype dtype, double scale) {
    const resample_axis *axis = &plan->axis[last];
    uint32_t taps = axis->taps, width = tn__width(dtype);
    if (dtype == TN_FLOAT32 && !plan->crops) {
        const float *floats = (const float *)(const void *)from;
        if (taps == 1)
            resize_row_floats(axis, plan->shape[last], 1, row, floats, scale);
        else if (taps == 2)
            resize_row_floats(axis, plan->shape[last], 2, row, floats, scale);
        else if (taps == RESAMPLE_TAPS)
            resize_row_floats(axis, plan->shape[last], RESAMPLE_TAPS, row, floats, scale);
        else
            resize_row_floats(axis, plan->shape[last], taps, row, floats, scale);
        return;
    }
    for (int64_t i = 0; i < plan->shape[last]; i++) {
        const int64_t *source = axis->source + i * taps;
        const double *weight = axis->weight + i * taps;
        double sum = 0;
        for (uint32_t t = 0; t < taps && source[0] >= 0; t++)
            sum += weight[t] * tn__load(dtype, from + source[t] * width);
        row[i] += scale * sum;
    }
}

/* For one combination of taps of the outer axes: returns the product of their weights, and sets *at
 * to the offset of the input row. */
static double resize_choice(const resize_plan *plan, const tn__walk *taps, const int64_t *place,
                            const int64_t *strides, int64_t *at) {
    double scale = 1;
    *at = 0;
    for (uint32_t d = 0; d < taps->rank; d++) {
        int64_t entry = place[d] * plan->axis[d].taps + taps->place[d];
        scale *= plan->axis[d].weight[entry];
        *at += plan->axis[d].source[entry] * strides[d];
    }
    return scale;
}

/* Prepares the iteration over all combinations of taps (input coordinates with weights) for the
 * output row at `place` of the outer axes. Returns false if this row is outside the input. */
static bool resize_choices(const resize_plan *plan, uint32_t outer, const int64_t *place,
                           tn__walk *taps) {
    *taps = (tn__walk){.rank = outer};
    for (uint32_t d = 0; d < outer; d++) {
        taps->extent[d] = plan->axis[d].taps;
        if (plan->axis[d].source[place[d] * plan->axis[d].taps] < 0) return false;
    }
    return true;
}

/* Computes the output row at `place` of the outer axes, as a sum over all combinations of taps.
 * Returns false if the row is outside the input. */
static bool resize_row(const resize_plan *plan, const tn_operand *from, const int64_t *strides,
                       const int64_t *place, double *row) {
    uint32_t last = from->rank - 1;
    tn__walk taps;
    memset(row, 0, (uint64_t)plan->shape[last] * sizeof *row);
    if (!resize_choices(plan, last, place, &taps)) return false;
    do {
        int64_t at;
        double scale = resize_choice(plan, &taps, place, strides, &at);
        if (scale != 0)
            resize_row_add(plan, last, row, (const char *)from->data + at, from->dtype, scale);
    } while (tn__walk_next(&taps));
    return true;
}

static void resize_store_row(const resize_plan *plan, uint32_t last, const double *row, bool inside,
                             tn_dtype dtype, char *to) {
    const resample_axis *axis = &plan->axis[last];
    if (dtype == TN_FLOAT32 && !plan->crops) {
        for (int64_t i = 0; i < plan->shape[last]; i++) ((float *)(void *)to)[i] = (float)row[i];
        return;
    }
    for (int64_t i = 0; i < plan->shape[last]; i++, to += tn__width(dtype)) {
        bool in = inside && axis->source[i * axis->taps] >= 0;
        double value = in ? row[i] : plan->outside;
        if (!tn__is_real(dtype)) value = nearbyint(value);
        tn__store(dtype, to, value);
    }
}

static tn_status resize_rows(tn_kernel_call *call, resize_plan *plan, double *row) {
    const tn_operand *from = &call->inputs[0];
    uint32_t width = tn__width(from->dtype), last = from->rank - 1;
    int64_t strides[TN_RANK_MAX];
    tn__walk walk = {.rank = last};
    char *to = call->outputs[0].data, outside[16] = {0};
    tn__dense_strides(from, strides);
    for (uint32_t d = 0; d < last; d++) walk.extent[d] = plan->shape[d];
    if (tn__is_number(from->dtype)) tn__store(from->dtype, outside, plan->outside);
    if (tn__walk_is_empty(&walk) || plan->shape[last] == 0) return TN_OK;
    do {
        if (plan->mode != RESAMPLE_NEAREST) {
            bool inside = resize_row(plan, from, strides, walk.place, row);
            resize_store_row(plan, last, row, inside, from->dtype, to);
        } else {
            const char *in = from->data;
            for (uint32_t d = 0; d < last && in != NULL; d++) {
                int64_t source = plan->axis[d].source[walk.place[d]];
                in = source < 0 ? NULL : in + source * strides[d];
            }
            resize_row_nearest(plan, last, to, in, width, outside);
        }
        to += plan->shape[last] * width;
    } while (tn__walk_next(&walk));
    return TN_OK;
}

/* --- Resize, Upsample --- */

static tn_status resize_run_as(tn_kernel_call *call, bool upsample) {
    const tn_operand *from = &call->inputs[0];
    bool newer = !upsample && call->version >= 11 && call->input_count > 2;
    resize_plan plan;
    double *row;
    TN_TRY(resample_read(call, from, upsample || call->version < 11,
                         tn__call_input(call, newer ? 2 : 1),
                         newer ? tn__call_input(call, 3) : NULL, &plan));
    TN_TRY(tn__call_shape(call, 0, from->rank, plan.shape));
    if (from->rank == 0) {
        tn__operand_copy(&call->outputs[0], from);
        return TN_OK;
    }
    TN_TRY(resample_region(call, &plan));
    TN_TRY(resample_tables(call, &plan, &row));
    return resize_rows(call, &plan, row);
}

static tn_status resize_run(tn_kernel_call *call) { return resize_run_as(call, false); }
static tn_status resize_run_upsample(tn_kernel_call *call) { return resize_run_as(call, true); }

/* Whether these kernels support the attributes of the operator. */
static bool resize_is_known(const tn_kernel_setup *setup) {
    resample_kind mode;
    static const char *const policies[] = {"stretch", "not_larger", "not_smaller"};
    const char *policy = tn__attr_string(setup->op, "keep_aspect_ratio_policy", "stretch");
    bool known = false;
    for (uint32_t i = 0; i < sizeof policies / sizeof *policies; i++)
        known = known || strcmp(policy, policies[i]) == 0;
    return known && resample_mode(setup->op, &mode) && tn__attr(setup->op, "height_scale") == NULL;
}

static bool resize_accepts(const tn_kernel_setup *setup) {
    resample_kind mode = RESAMPLE_NEAREST;
    if (!resize_is_known(setup) || !resample_mode(setup->op, &mode)) return false;
    return mode == RESAMPLE_NEAREST ? tn__accepts_bytes(setup) : tn__accepts_numbers(setup);
}

static uint64_t resize_workspace(const tn_kernel_setup *setup) {
    return resample_bytes(setup->op, tn__setup_input(setup, 0), tn__setup_output(setup, 0));
}

/* --- the gradient --- */

static void resize_back_row(const resize_plan *plan, uint32_t last, const tn_operand *dy,
                            uint64_t row, double scale, tn_operand *dx, int64_t at) {
    const resample_axis *axis = &plan->axis[last];
    uint32_t taps = axis->taps;
    int64_t count = plan->shape[last];
    if (dx->dtype == TN_FLOAT32) {
        const float *from = (const float *)dy->data + row;
        float *to = (float *)dx->data + at;
        for (int64_t i = 0; i < count * taps; i++)
            if (axis->source[i] >= 0)
                to[axis->source[i]] += (float)(scale * axis->weight[i]) * from[i / taps];
        return;
    }
    uint32_t width = tn__width(dx->dtype);
    const char *from = (const char *)dy->data + row * width;
    char *to = (char *)dx->data + at * width;
    for (int64_t i = 0; i < count * taps; i++) {
        char *place = to + axis->source[i] * width;
        if (axis->source[i] < 0) continue;
        double sum = tn__load(dx->dtype, place) +
                     scale * axis->weight[i] * tn__load(dx->dtype, from + i / taps * width);
        tn__store(dx->dtype, place, sum);
    }
}

/* Adds row `row` of dy, which is at `place` of the outer axes, to the rows of dx at all
 * combinations of its taps. */
static void resize_back_rows(const resize_plan *plan, const tn_operand *dy, const int64_t *place,
                             uint64_t row, const int64_t *strides, tn_operand *dx) {
    uint32_t last = dx->rank - 1;
    tn__walk taps;
    if (!resize_choices(plan, last, place, &taps)) return;
    do {
        int64_t at;
        double scale = resize_choice(plan, &taps, place, strides, &at);
        if (scale != 0) resize_back_row(plan, last, dy, row, scale, dx, at);
    } while (tn__walk_next(&taps));
}

static tn_status resize_back_run(tn_kernel_call *call) {
    const tn_operand *dy = &call->inputs[0];
    tn_operand *dx = &call->outputs[0];
    resize_plan plan;
    int64_t strides[TN_RANK_MAX], stride = 1;
    double *unused;
    TN_TRY(resample_read(call, dx, tn__attr_int(call->op, "simple", 0) != 0,
                         tn__call_input(call, 2), tn__call_input(call, 3), &plan));
    bool fits = dy->rank == dx->rank;
    for (uint32_t d = 0; d < dx->rank && fits; d++) fits = dy->shape[d] == plan.shape[d];
    if (!fits) return tn__call_fail(call, TN_E_INVALID, "scales or sizes give another shape");
    if (dx->rank == 0) {
        tn__operand_copy(dx, dy);
        return TN_OK;
    }
    TN_TRY(resample_region(call, &plan));
    TN_TRY(resample_tables(call, &plan, &unused));
    memset(dx->data, 0, tn__operand_bytes(dx));
    uint32_t last = dx->rank - 1;
    tn__walk walk = {.rank = last};
    for (uint32_t d = dx->rank; d-- > 0; stride *= dx->shape[d]) strides[d] = stride;
    for (uint32_t d = 0; d < last; d++) walk.extent[d] = plan.shape[d];
    if (tn__walk_is_empty(&walk) || plan.shape[last] == 0) return TN_OK;
    uint64_t row = 0;
    do {
        resize_back_rows(&plan, dy, walk.place, row, strides, dx);
        row += (uint64_t)plan.shape[last];
    } while (tn__walk_next(&walk));
    return TN_OK;
}

static bool resize_back_accepts(const tn_kernel_setup *setup) {
    return resize_is_known(setup) && tn__types_agree(setup, TN__TYPES_REAL, 1, 0) &&
           tn__accepts_numbers(setup);
}

static uint64_t resize_back_workspace(const tn_kernel_setup *setup) {
    return resample_bytes(setup->op, tn__setup_output(setup, 0), tn__setup_input(setup, 0));
}

static const tn_kernel resize_kernels[] = {
    {.type = "Resize", .accepts = resize_accepts, .workspace = resize_workspace, .run = resize_run},
    {.type = "Upsample",
     .accepts = resize_accepts,
     .workspace = resize_workspace,
     .run = resize_run_upsample},
    {.domain = "tenure",
     .type = "ResizeGrad",
     .accepts = resize_back_accepts,
     .workspace = resize_back_workspace,
     .run = resize_back_run},
};

TN_KERNEL_FAMILY(resize, "");
