/* resize.c - Resize and Upsample.
 *
 * The taps of each axis are written down in scratch (resample.h); then each output row is the sum,
 * over all choices of a tap per outer axis, of input rows resampled along the last axis.
 * Nearest moves bytes, of any type; the others sum in float64 and round once.
 * Cost:   O(outputs x taps^(resized axes)); scratch 16 bytes per tap and extent, 8 per column.
 * Source: operator texts and function definition of ONNX, opsets 7 to 19.
 */
#include <math.h>

#include "engine/kernels/resample.h"

/* --- rows --- */

/* Nearest: one tap everywhere, so elements are copied. `from` NULL: all is outside. */
static inline __attribute__((always_inline)) void resize_row_pick(const tn__resample_axis *axis,
                                                                  int64_t count, char *to,
                                                                  const char *from, size_t width,
                                                                  const char *outside) {
    for (int64_t i = 0; i < count; i++, to += width) {
        bool inside = from != NULL && axis->source[i] >= 0;
        memcpy(to, inside ? from + axis->source[i] * (int64_t)width : outside, width);
    }
}

static void resize_row_nearest(const tn__resample *plan, uint32_t last, char *to, const char *from,
                               uint32_t width, const char *outside) {
    const tn__resample_axis *axis = &plan->axis[last];
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

/* Adds `scale` times the row at `from`, resampled along the last axis. */
static inline __attribute__((always_inline)) void resize_row_floats(const tn__resample_axis *axis,
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

static void resize_row_add(const tn__resample *plan, uint32_t last, double *row, const char *from,
                           tn_dtype dtype, double scale) {
    const tn__resample_axis *axis = &plan->axis[last];
    uint32_t taps = axis->taps, width = tn__width(dtype);
    if (dtype == TN_FLOAT32 && !plan->crops) {
        const float *floats = (const float *)(const void *)from;
        if (taps == 1)
            resize_row_floats(axis, plan->shape[last], 1, row, floats, scale);
        else if (taps == 2)
            resize_row_floats(axis, plan->shape[last], 2, row, floats, scale);
        else
            resize_row_floats(axis, plan->shape[last], TN__RESAMPLE_TAPS, row, floats, scale);
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

/* One output row at `place` of the outer axes: the sum over all choices of taps there. False: it
 * lies outside. */
static bool resize_row(const tn__resample *plan, const tn_operand *from, const int64_t *strides,
                       const int64_t *place, double *row) {
    uint32_t last = from->rank - 1;
    tn__walk taps = {.rank = last};
    memset(row, 0, (uint64_t)plan->shape[last] * sizeof *row);
    for (uint32_t d = 0; d < last; d++) {
        taps.extent[d] = plan->axis[d].taps;
        if (plan->axis[d].source[place[d] * plan->axis[d].taps] < 0) return false;
    }
    do {
        double scale = 1;
        int64_t at = 0;
        for (uint32_t d = 0; d < last; d++) {
            int64_t entry = place[d] * plan->axis[d].taps + taps.place[d];
            scale *= plan->axis[d].weight[entry];
            at += plan->axis[d].source[entry] * strides[d];
        }
        if (scale != 0)
            resize_row_add(plan, last, row, (const char *)from->data + at, from->dtype, scale);
    } while (tn__walk_next(&taps));
    return true;
}

static void resize_store_row(const tn__resample *plan, uint32_t last, const double *row,
                             bool inside, tn_dtype dtype, char *to) {
    const tn__resample_axis *axis = &plan->axis[last];
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

static tn_status resize_rows(tn_kernel_call *call, tn__resample *plan, double *row) {
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
        if (plan->mode != TN__RESAMPLE_NEAREST) {
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

/* --- the kernels --- */

static tn_status resize_run_as(tn_kernel_call *call, bool upsample) {
    const tn_operand *from = &call->inputs[0];
    bool newer = !upsample && call->version >= 11 && call->input_count > 2;
    tn__resample plan;
    double *row;
    TN_TRY(tn__resample_read(call, from, upsample || call->version < 11,
                             tn__call_input(call, newer ? 2 : 1),
                             newer ? tn__call_input(call, 3) : NULL, &plan));
    TN_TRY(tn__call_shape(call, 0, from->rank, plan.shape));
    if (from->rank == 0) {
        tn__operand_copy(&call->outputs[0], from);
        return TN_OK;
    }
    TN_TRY(tn__resample_region(call, &plan));
    TN_TRY(tn__resample_tables(call, &plan, &row));
    return resize_rows(call, &plan, row);
}

static tn_status resize_run(tn_kernel_call *call) { return resize_run_as(call, false); }
static tn_status resize_run_upsample(tn_kernel_call *call) { return resize_run_as(call, true); }

static bool resize_accepts(const tn_kernel_setup *setup) {
    tn__resample_kind mode;
    const char *policy = tn__attr_string(setup->op, "keep_aspect_ratio_policy", "stretch");
    if (!tn__resample_mode(setup->op, &mode) || tn__attr_int(setup->op, "antialias", 0) != 0 ||
        strcmp(policy, "stretch") != 0 || tn__attr(setup->op, "height_scale") != NULL)
        return false;
    return mode == TN__RESAMPLE_NEAREST ? tn__accepts_bytes(setup) : tn__accepts_numbers(setup);
}

static uint64_t resize_workspace(const tn_kernel_setup *setup) {
    return tn__resample_bytes(tn__setup_output(setup, 0));
}

static const tn_kernel resize_kernels[] = {
    {.type = "Resize", .accepts = resize_accepts, .workspace = resize_workspace, .run = resize_run},
    {.type = "Upsample",
     .accepts = resize_accepts,
     .workspace = resize_workspace,
     .run = resize_run_upsample},
};

TN_KERNEL_FAMILY(resize, "");
