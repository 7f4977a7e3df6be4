/* resize.c - the gradient of Resize and Upsample: every given element goes back to its taps, by
 * their weights, row by row in the order of the elements.
 */
#include "engine/kernels/check.h"
#include "engine/kernels/resample.h"

static void backward_row(const tn__resample *plan, uint32_t last, const tn_operand *dy,
                         uint64_t row, double scale, tn_operand *dx, int64_t at) {
    const tn__resample_axis *axis = &plan->axis[last];
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

/* Row `row` of dy, at `place` of the outer axes, to all choices of taps there. */
static void backward_rows(const tn__resample *plan, const tn_operand *dy, const int64_t *place,
                          uint64_t row, const int64_t *strides, tn_operand *dx) {
    uint32_t last = dx->rank - 1;
    tn__walk taps = {.rank = last};
    for (uint32_t d = 0; d < last; d++) {
        taps.extent[d] = plan->axis[d].taps;
        if (plan->axis[d].source[place[d] * plan->axis[d].taps] < 0) return;
    }
    do {
        double scale = 1;
        int64_t at = 0;
        for (uint32_t d = 0; d < last; d++) {
            int64_t entry = place[d] * plan->axis[d].taps + taps.place[d];
            scale *= plan->axis[d].weight[entry];
            at += plan->axis[d].source[entry] * strides[d];
        }
        if (scale != 0) backward_row(plan, last, dy, row, scale, dx, at);
    } while (tn__walk_next(&taps));
}

static tn_status backward_run(tn_kernel_call *call) {
    const tn_operand *dy = &call->inputs[0];
    tn_operand *dx = &call->outputs[0];
    tn__resample plan;
    int64_t strides[TN_RANK_MAX], stride = 1;
    double *unused;
    TN_TRY(tn__resample_read(call, dx, tn__attr_int(call->op, "simple", 0) != 0,
                             tn__call_input(call, 2), tn__call_input(call, 3), &plan));
    bool fits = dy->rank == dx->rank;
    for (uint32_t d = 0; d < dx->rank && fits; d++) fits = dy->shape[d] == plan.shape[d];
    if (!fits) return tn__call_fail(call, TN_E_INVALID, "scales or sizes give another shape");
    if (dx->rank == 0) {
        tn__operand_copy(dx, dy);
        return TN_OK;
    }
    TN_TRY(tn__resample_region(call, &plan));
    TN_TRY(tn__resample_tables(call, &plan, &unused));
    memset(dx->data, 0, tn__operand_bytes(dx));
    uint32_t last = dx->rank - 1;
    tn__walk walk = {.rank = last};
    for (uint32_t d = dx->rank; d-- > 0; stride *= dx->shape[d]) strides[d] = stride;
    for (uint32_t d = 0; d < last; d++) walk.extent[d] = plan.shape[d];
    if (tn__walk_is_empty(&walk) || plan.shape[last] == 0) return TN_OK;
    uint64_t row = 0;
    do {
        backward_rows(&plan, dy, walk.place, row, strides, dx);
        row += (uint64_t)plan.shape[last];
    } while (tn__walk_next(&walk));
    return TN_OK;
}

static bool backward_accepts(const tn_kernel_setup *setup) {
    tn__resample_kind mode;
    const char *policy = tn__attr_string(setup->op, "keep_aspect_ratio_policy", "stretch");
    if (!tn__resample_mode(setup->op, &mode) || tn__attr_int(setup->op, "antialias", 0) != 0 ||
        strcmp(policy, "stretch") != 0 || tn__attr(setup->op, "height_scale") != NULL)
        return false;
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0) && tn__accepts_numbers(setup);
}

static uint64_t backward_workspace(const tn_kernel_setup *setup) {
    return tn__resample_bytes(tn__setup_input(setup, 0));
}

static const tn_kernel train_resize_kernels[] = {
    {.type = "ResizeGrad",
     .accepts = backward_accepts,
     .workspace = backward_workspace,
     .run = backward_run},
};

TN_KERNEL_FAMILY(train_resize, "tenure");
