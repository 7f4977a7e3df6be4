/* grad.c - gradients in plain loops: of Relu, of pools, of weights of a convolution, and a product
 * of matrices that may be transposed.
 *
 * The gradient of a maximum goes to the first element that has it, which is searched in the input;
 * overlapping windows add up. A window that is all padding gives nothing. The gradient of a weight
 * is the inner product of the given gradient with the inputs of that weight: line by line, sums in
 * double.
 */
#include <math.h>

#include "engine/kernels/product.h"
#include "engine/kernels/slide.h"

/* --- Relu --- */

static tn_status grad_run_relu(tn_kernel_call *call) {
    const tn_operand *dy = &call->inputs[0], *y = &call->inputs[1];
    tn_operand *dx = &call->outputs[0];
    uint64_t total = tn__operand_count(dy);
    double a[TN__REAL_TILE], b[TN__REAL_TILE];
    TN_TRY(tn__check_count(call, 1, total));
    if (dy->dtype == TN_FLOAT32 && y->dtype == TN_FLOAT32) {
        const float *from = dy->data, *sign = y->data;
        float *to = dx->data;
        for (uint64_t i = 0; i < total; i++) to[i] = sign[i] > 0 ? from[i] : 0;
        return TN_OK;
    }
    for (uint64_t at = 0; at < total; at += TN__REAL_TILE) {
        uint64_t count = total - at < TN__REAL_TILE ? total - at : TN__REAL_TILE;
        tn__real_load(dy, at, 1, count, a);
        tn__real_load(y, at, 1, count, b);
        for (uint64_t i = 0; i < count; i++) a[i] = b[i] > 0 ? a[i] : 0;
        tn__real_store(dx, at, count, a);
    }
    return TN_OK;
}

static bool grad_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 3, 0);
}

/* --- pools --- */

static bool grad_accepts_pool(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_SUMMED, 3, 0);
}

typedef struct grad_pool {
    const tn_operand *dy, *x;
    tn_operand *dx;
    tn__slide slide;
    bool max, count_padding;
} grad_pool;

/* Taps of the window at `position` that meet the input: places in its plane. Visits them in the
 * order of the window; returns the place of the maximum, or their number in *met. */
static uint64_t grad_window(const grad_pool *job, uint64_t plane, const int64_t *position,
                            double add, uint64_t *met) {
    const tn__slide *slide = &job->slide;
    uint64_t best = UINT64_MAX;
    double most = 0;
    *met = 0;
    for (uint64_t tap = 0; tap < slide->taps; tap++) {
        uint64_t left = tap, place = 0, step = 1;
        bool inside = true;
        for (uint32_t d = slide->spatial; d-- > 0 && inside;) {
            int64_t k = (int64_t)(left % (uint64_t)slide->kernel[d]);
            int64_t at = position[d] * slide->stride[d] - slide->begin[d] + k * slide->dilation[d];
            left /= (uint64_t)slide->kernel[d];
            inside = at >= 0 && at < slide->input[d];
            place += inside ? (uint64_t)at * step : 0;
            step *= (uint64_t)slide->input[d];
        }
        if (!inside) continue;
        ++*met;
        place += plane * slide->input_area;
        if (job->max) {
            double value = tn__real_get(job->x, place);
            if (best == UINT64_MAX || value > most || (isnan(value) && !isnan(most))) {
                most = value;
                best = place;
            }
        } else if (add != 0) {
            tn__real_set(job->dx, place, tn__real_get(job->dx, place) + add);
        }
    }
    return best;
}

/* Number of taps in an average with padding: without those after the padded end (ceil_mode). */
static uint64_t grad_padded(const tn__slide *slide, const int64_t *position) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < slide->spatial; d++) {
        int64_t end = slide->input[d] + slide->end[d], own = 0;
        for (int64_t k = 0; k < slide->kernel[d]; k++)
            own += position[d] * slide->stride[d] - slide->begin[d] + k * slide->dilation[d] < end;
        count *= (uint64_t)own;
    }
    return count;
}

static tn_status grad_pool_run(tn_kernel_call *call, bool max) {
    grad_pool job = {.dy = &call->inputs[0],
                     .x = max ? &call->inputs[1] : NULL,
                     .dx = &call->outputs[0],
                     .max = max,
                     .count_padding = tn__attr_int(call->op, "count_include_pad", 0) != 0};
    int64_t position[TN__SLIDE_MAX];
    TN_TRY(tn__slide_read(call, job.dx, NULL, job.dy, false, &job.slide));
    uint64_t planes = tn__operand_span(job.dx, 0, 2), met;
    if (tn__operand_span(job.dy, 0, 2) != planes)
        return tn__call_fail(call, TN_E_INVALID, "batch and channels differ");
    memset(job.dx->data, 0, tn__operand_bytes(job.dx));
    for (uint64_t plane = 0; plane < planes; plane++)
        for (uint64_t i = 0; i < job.slide.output_area; i++) {
            double given = tn__real_get(job.dy, plane * job.slide.output_area + i);
            tn__slide_position(&job.slide, i, position);
            uint64_t best = grad_window(&job, plane, position, 0, &met);
            if (max && best != UINT64_MAX)
                tn__real_set(job.dx, best, tn__real_get(job.dx, best) + given);
            if (max || met == 0) continue;
            uint64_t parts = job.count_padding ? grad_padded(&job.slide, position) : met;
            grad_window(&job, plane, position, given / (double)parts, &met);
        }
    return TN_OK;
}

static tn_status grad_run_max_pool(tn_kernel_call *call) { return grad_pool_run(call, true); }
static tn_status grad_run_average_pool(tn_kernel_call *call) { return grad_pool_run(call, false); }

/* --- weights of a convolution --- */

typedef struct grad_conv {
    const tn_operand *dy, *x;
    tn_operand *dw;
    tn__slide slide;
    uint64_t batch, groups, channels, filters; /* channels and filters of one group */
    double *sums;                              /* [taps] */
} grad_conv;

static double grad_dot(const tn_operand *a, uint64_t at_a, uint64_t step_a, const tn_operand *b,
                       uint64_t at_b, uint64_t step_b, uint64_t count) {
    double sum = 0, x[TN__SLIDE_TILE], y[TN__SLIDE_TILE];
    if (a->dtype == TN_FLOAT32 && b->dtype == TN_FLOAT32 && step_a == 1) {
        const float *p = (const float *)a->data + at_a, *q = (const float *)b->data + at_b;
        for (uint64_t i = 0; i < count; i++) sum += (double)p[i] * (double)q[i * step_b];
        return sum;
    }
    tn__real_load(a, at_a, step_a, count, x);
    tn__real_load(b, at_b, step_b, count, y);
    for (uint64_t i = 0; i < count; i++) sum += x[i] * y[i];
    return sum;
}

/* One image: adds the contributions of its lines to the taps of one filter and channel. */
static void grad_conv_plane(const grad_conv *job, uint64_t dy, uint64_t x) {
    const tn__slide *slide = &job->slide;
    uint64_t width = (uint64_t)slide->output[slide->spatial - 1];
    uint64_t taps = (uint64_t)slide->kernel[slide->spatial - 1];
    tn__slide_rows rows;
    for (uint64_t line = 0; line < slide->lines; line++) {
        uint64_t next = 0;
        while (tn__slide_find(slide, line, &next, &rows))
            for (uint64_t first = 0; first < width; first += TN__SLIDE_TILE)
                for (uint64_t tap = 0; tap < taps; tap++) {
                    uint64_t count =
                        width - first < TN__SLIDE_TILE ? width - first : TN__SLIDE_TILE;
                    tn__slide_run run = tn__slide_meet(slide, tap, first, count);
                    for (uint32_t r = 0; r < rows.count && run.count > 0; r++)
                        job->sums[rows.tap[r] + tap] += grad_dot(
                            job->dy, dy + line * width + first + run.target, run.target_step,
                            job->x, x + rows.source[r] + run.source, run.source_step, run.count);
                }
    }
}

static tn_status grad_run_conv(tn_kernel_call *call) {
    const tn_operand *dy = &call->inputs[0], *x = &call->inputs[1];
    tn_operand *dw = &call->outputs[0];
    int64_t group = tn__attr_int(call->op, "group", 1);
    grad_conv job = {.dy = dy, .x = x, .dw = dw, .sums = call->workspace};
    if (dw->rank < 3 || dy->rank != dw->rank || x->rank != dw->rank)
        return tn__call_fail(call, TN_E_INVALID, "operands of rank %u and %u for weights of %u",
                             dy->rank, x->rank, dw->rank);
    TN_TRY(tn__slide_read(call, x, dw->shape + 2, dy, false, &job.slide));
    if (group < 1 || dw->shape[0] != dy->shape[1] || dw->shape[1] != x->shape[1] / group ||
        x->shape[1] % group != 0 || dy->shape[1] % group != 0 || x->shape[0] != dy->shape[0])
        return tn__call_fail(call, TN_E_INVALID, "channels or groups do not agree");
    TN_TRY(tn__check_scratch(call, job.slide.taps * sizeof *job.sums));
    uint64_t filters = (uint64_t)dy->shape[1], channels = (uint64_t)dw->shape[1];
    uint64_t each = filters / (uint64_t)group;
    for (uint64_t f = 0; f < filters; f++)
        for (uint64_t c = 0; c < channels; c++) {
            for (uint64_t t = 0; t < job.slide.taps; t++) job.sums[t] = 0;
            for (uint64_t n = 0; n < (uint64_t)x->shape[0]; n++)
                grad_conv_plane(&job, (n * filters + f) * job.slide.output_area,
                                (n * (uint64_t)x->shape[1] + f / each * channels + c) *
                                    job.slide.input_area);
            tn__real_store(dw, (f * channels + c) * job.slide.taps, job.slide.taps, job.sums);
        }
    return TN_OK;
}

static uint64_t grad_workspace_conv(const tn_kernel_setup *setup) {
    const tn_tensor *dw = tn__setup_output(setup, 0);
    uint64_t taps = 1;
    for (uint32_t d = 2; d < dw->rank; d++) taps = tn__mul_sat(taps, (uint64_t)dw->shape[d]);
    return tn__mul_sat(taps, sizeof(double));
}

/* --- products --- */

static tn_status grad_run_matmul(tn_kernel_call *call) {
    const tn_operand *a = &call->inputs[0], *b = &call->inputs[1];
    tn_operand *y = &call->outputs[0];
    bool flip_a = tn__attr_int(call->op, "trans_a", 0) != 0;
    bool flip_b = tn__attr_int(call->op, "trans_b", 0) != 0;
    int64_t step_a[TN_RANK_MAX], step_b[TN_RANK_MAX];
    tn_operand left = *a, right = *b;
    left.rank -= 2;
    right.rank -= 2;
    uint32_t rank = y->rank - 2;
    tn__operand_strides(&left, rank, step_a);
    tn__operand_strides(&right, rank, step_b);
    uint64_t rows = (uint64_t)y->shape[rank], columns = (uint64_t)y->shape[rank + 1];
    uint64_t inner = (uint64_t)a->shape[a->rank - (flip_a ? 2 : 1)];
    uint64_t size = tn_dtype_bits(y->dtype) / 8, batch = tn__operand_span(y, 0, rank);
    for (uint64_t i = 0; i < batch; i++) {
        uint64_t left_at = 0, right_at = 0, rest = i;
        for (uint32_t d = rank; d-- > 0; rest /= (uint64_t)y->shape[d]) {
            left_at += rest % (uint64_t)y->shape[d] * (uint64_t)step_a[d];
            right_at += rest % (uint64_t)y->shape[d] * (uint64_t)step_b[d];
        }
        tn__product product = {.rows = rows,
                               .columns = columns,
                               .inner = inner,
                               .a = (const char *)a->data + left_at * rows * inner * size,
                               .b = (const char *)b->data + right_at * inner * columns * size,
                               .c = (char *)y->data + i * rows * columns * size,
                               .a_row = flip_a ? 1 : inner,
                               .a_inner = flip_a ? rows : 1,
                               .b_inner = flip_b ? 1 : columns,
                               .b_column = flip_b ? inner : 1,
                               .c_row = columns,
                               .scale = 1,
                               .addend_scale = 1};
        tn__product_run(&product, y->dtype);
    }
    return TN_OK;
}

static bool grad_accepts_matmul(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__PRODUCT_TYPES, 3, 0);
}

static const tn_kernel train_grad_kernels[] = {
    {.type = "AveragePoolGrad", .accepts = grad_accepts_pool, .run = grad_run_average_pool},
    {.type = "ConvGradWeights",
     .accepts = grad_accepts,
     .workspace = grad_workspace_conv,
     .run = grad_run_conv},
    {.type = "MaxPoolGrad", .accepts = grad_accepts_pool, .run = grad_run_max_pool},
    {.type = "ReluGrad", .accepts = grad_accepts, .run = grad_run_relu},
    {.type = "TransposedMatMul", .accepts = grad_accepts_matmul, .run = grad_run_matmul},
};

TN_KERNEL_FAMILY(train_grad, "tenure");
