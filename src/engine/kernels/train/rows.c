/* rows.c - gradients of Softmax, LogSoftmax and of normalisations by slices.
 *
 * Softmax: dx = y (dy - sum dy y); LogSoftmax: dx = dy - exp(y) sum dy. Normalisation, with h = (x
 * - mean) / deviation and g = dy scale, over a slice of n:
 *     dx = (g - (sum g + h sum g h) / n) / deviation
 * (without the first sum if no mean was subtracted); d scale = sum dy h and d bias = sum dy over
 * all slices. Mean and deviation are computed again: a slice is read three times, but from memory
 * once. Sums in float64, in the order of the elements. In place: a row or slice is read before it
 * is written, element by element.
 */
#include <math.h>

#include "engine/kernels/approximate.h"
#include "engine/kernels/check.h"
#include "engine/kernels/convert.h"

enum { ROWS_LANES = 8 };

/* --- Softmax --- */

typedef struct rows_frame {
    uint64_t outer, extent, inner;
    const tn_operand *dy, *y;
    tn_operand *dx;
    double alpha; /* a factor that the gradient gets */
    bool log;
} rows_frame;

static tn_status rows_read(tn_kernel_call *call, bool log, rows_frame *frame) {
    const tn_operand *y = &call->inputs[1];
    uint32_t axis;
    *frame = (rows_frame){.dy = &call->inputs[0], .y = y, .dx = &call->outputs[0], .log = log};
    bool flat = tn__attr_int(call->op, "flat", 0) != 0;
    frame->alpha = tn__attr_float(call->op, "alpha", 1);
    TN_TRY(tn__check_shape(call, 0, y->rank, y->shape));
    TN_TRY(tn__check_result(call, 0, y->rank, y->shape));
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", -1), y->rank + (flat && y->rank == 1),
                         &axis));
    if (axis > y->rank) axis = y->rank;
    frame->outer = tn__operand_span(y, 0, axis);
    frame->extent = flat ? tn__operand_span(y, axis, y->rank) : (uint64_t)y->shape[axis];
    frame->inner = flat ? 1 : tn__operand_span(y, axis + 1, y->rank);
    return TN_OK;
}

/* Several sums at once, so that no addition waits for another. weights NULL: 1 each. */
TN_WIDE static double rows_sum(uint64_t count, const float *values, const float *weights) {
    const uint64_t whole = count - count % ROWS_LANES;
    double lanes[ROWS_LANES] = {0}, sum = 0;
    if (weights != NULL)
        for (uint64_t i = 0; i < whole; i += ROWS_LANES)
            for (size_t k = 0; k < ROWS_LANES; k++)
                lanes[k] += (double)values[i + k] * (double)weights[i + k];
    else
        for (uint64_t i = 0; i < whole; i += ROWS_LANES)
            for (size_t k = 0; k < ROWS_LANES; k++) lanes[k] += (double)values[i + k];
    for (uint64_t i = whole; i < count; i++)
        lanes[0] += (double)values[i] * (weights != NULL ? (double)weights[i] : 1);
    for (size_t k = 0; k < ROWS_LANES; k++) sum += lanes[k];
    return sum;
}

TN_WIDE static void rows_floats(const rows_frame *frame, uint64_t first) {
    const float *dy = (const float *)frame->dy->data + first;
    const float *y = (const float *)frame->y->data + first;
    float *dx = (float *)frame->dx->data + first;
    const double sum = rows_sum(frame->extent, dy, frame->log ? NULL : y);
    const float alpha = (float)frame->alpha;
    if (frame->log) {
        TN_APART
        for (uint64_t i = 0; i < frame->extent; i++)
            dx[i] = (float)((double)dy[i] - (double)tn__expf(y[i]) * sum) * alpha;
        return;
    }
    TN_APART
    for (uint64_t i = 0; i < frame->extent; i++)
        dx[i] = (float)((double)y[i] * ((double)dy[i] - sum)) * alpha;
}

static void rows_any(const rows_frame *frame, uint64_t first, uint64_t step) {
    double sum = 0, a[TN__REAL_TILE], b[TN__REAL_TILE];
    for (uint32_t pass = 0; pass < 2; pass++)
        for (uint64_t i = 0; i < frame->extent; i += TN__REAL_TILE) {
            uint64_t count = frame->extent - i < TN__REAL_TILE ? frame->extent - i : TN__REAL_TILE;
            tn__real_load(frame->dy, first + i * step, step, count, a);
            tn__real_load(frame->y, first + i * step, step, count, b);
            for (uint64_t k = 0; k < count; k++) {
                if (pass == 0)
                    sum += frame->log ? a[k] : a[k] * b[k];
                else
                    tn__real_set(frame->dx, first + (i + k) * step,
                                 frame->alpha *
                                     (frame->log ? a[k] - exp(b[k]) * sum : b[k] * (a[k] - sum)));
            }
        }
}

static tn_status rows_run(tn_kernel_call *call, bool log) {
    rows_frame frame = {0};
    TN_TRY(rows_read(call, log, &frame));
    bool floats = frame.dy->dtype == TN_FLOAT32 && frame.inner == 1;
    for (uint64_t o = 0; o < frame.outer; o++)
        for (uint64_t i = 0; i < frame.inner; i++) {
            uint64_t first = o * frame.extent * frame.inner + i;
            if (floats)
                rows_floats(&frame, first);
            else
                rows_any(&frame, first, frame.inner);
        }
    return TN_OK;
}

static tn_status rows_run_softmax(tn_kernel_call *call) { return rows_run(call, false); }
static tn_status rows_run_log_softmax(tn_kernel_call *call) { return rows_run(call, true); }

static bool rows_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 3, 0);
}

/* --- normalisations --- */

typedef struct rows_norm {
    const tn_operand *dy, *x, *scale;
    tn_operand *dx;
    uint64_t count, cycle, each, run;
    bool centered;
    double epsilon;
    double *scales, *biases; /* sums, one per scale */
} rows_norm;

static tn_status rows_norm_read(tn_kernel_call *call, rows_norm *job) {
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
    *job = (rows_norm){.dy = &call->inputs[0],
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

#define ROWS_TILES(job, i, some)                                                                   \
    for (uint64_t i = 0, some = (job)->count < TN__REAL_TILE ? (job)->count : TN__REAL_TILE;       \
         i < (job)->count;                                                                         \
         i += some, some = (job)->count - i < TN__REAL_TILE ? (job)->count - i : TN__REAL_TILE)

static double rows_moment(const rows_norm *job, uint64_t first, double mean, bool square) {
    double sum = 0, x[TN__REAL_TILE];
    ROWS_TILES(job, i, some) {
        tn__real_load(job->x, first + i, 1, some, x);
        for (uint64_t k = 0; k < some; k++) sum += square ? (x[k] - mean) * (x[k] - mean) : x[k];
    }
    return sum / (double)job->count;
}

/* The scales of elements [i, i + some) of a slice: neighbours, or each for a run of them. */
static void rows_scales(const rows_norm *job, uint64_t base, uint64_t i, uint64_t some,
                        double *scale) {
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

/* The contributions of a tile's elements to the gradients of their scales and biases. */
static void rows_add(const rows_norm *job, uint64_t base, uint64_t i, uint64_t some,
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

/* --- slices of float32 with one scale per element --- */

static double rows_total(const double *lanes) {
    double sum = 0;
    for (size_t k = 0; k < ROWS_LANES; k++) sum += lanes[k];
    return sum;
}

TN_WIDE static double rows_squares(uint64_t count, const float *x, double mean) {
    const uint64_t whole = count - count % ROWS_LANES;
    double lanes[ROWS_LANES] = {0};
    for (uint64_t i = 0; i < whole; i += ROWS_LANES)
        for (size_t k = 0; k < ROWS_LANES; k++) {
            const double value = (double)x[i + k] - mean;
            lanes[k] += value * value;
        }
    for (uint64_t i = whole; i < count; i++)
        lanes[0] += ((double)x[i] - mean) * ((double)x[i] - mean);
    return rows_total(lanes);
}

TN_WIDE static void rows_slice_floats(const rows_norm *job, uint64_t slice) {
    const uint64_t base = slice % job->cycle * job->each, count = job->count;
    const float *x = (const float *)job->x->data + slice * count;
    const float *dy = (const float *)job->dy->data + slice * count;
    const float *scale = (const float *)job->scale->data + base;
    float *dx = (float *)job->dx->data + slice * count;
    double *scales = job->scales + base, *biases = job->biases + base, n = (double)count;
    const double mean = job->centered ? rows_sum(count, x, NULL) / n : 0;
    const double inverse = 1 / sqrt(rows_squares(count, x, mean) / n + job->epsilon);
    const uint64_t whole = count - count % ROWS_LANES;
    double sums[ROWS_LANES] = {0}, products[ROWS_LANES] = {0};
    for (uint64_t first = 0; first < count; first += ROWS_LANES) {
        const uint64_t some = first < whole ? ROWS_LANES : count - whole;
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
    const double sum = job->centered ? rows_total(sums) / n : 0, product = rows_total(products) / n;
    TN_APART
    for (uint64_t i = 0; i < count; i++) {
        const double h = ((double)x[i] - mean) * inverse;
        dx[i] = (float)(inverse * ((double)dy[i] * (double)scale[i] - sum - h * product));
    }
}

/* --- any slices --- */

static void rows_slice(const rows_norm *job, uint64_t slice) {
    uint64_t first = slice * job->count, base = slice % job->cycle * job->each;
    double mean = job->centered ? rows_moment(job, first, 0, false) : 0;
    double inverse = 1 / sqrt(rows_moment(job, first, mean, true) + job->epsilon);
    double sum = 0, product = 0, n = (double)job->count;
    double dy[TN__REAL_TILE], h[TN__REAL_TILE], scale[TN__REAL_TILE];
    for (uint32_t pass = 0; pass < 2; pass++) {
        ROWS_TILES(job, i, some) {
            tn__real_load(job->dy, first + i, 1, some, dy);
            tn__real_load(job->x, first + i, 1, some, h);
            rows_scales(job, base, i, some, scale);
            for (uint64_t k = 0; k < some; k++) h[k] = (h[k] - mean) * inverse;
            if (pass == 0) {
                rows_add(job, base, i, some, dy, h);
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

static tn_status rows_run_norm(tn_kernel_call *call) {
    rows_norm job = {0};
    TN_TRY(rows_norm_read(call, &job));
    uint64_t total = tn__operand_count(job.x), scales = tn__operand_count(job.scale);
    memset(job.scales, 0, 2 * scales * sizeof *job.scales);
    bool floats = job.run == 1 && job.x->dtype == TN_FLOAT32 && job.scale->dtype == TN_FLOAT32;
    for (uint64_t s = 0; total > 0 && s < total / job.count; s++) {
        if (floats)
            rows_slice_floats(&job, s);
        else
            rows_slice(&job, s);
    }
    tn_operand *outputs[] = {tn__call_output(call, 1), tn__call_output(call, 2)};
    for (uint32_t k = 0; k < 2; k++)
        if (outputs[k] != NULL)
            tn__real_store(outputs[k], 0, scales, k == 0 ? job.scales : job.biases);
    return TN_OK;
}

static bool rows_accepts_norm(const tn_kernel_setup *setup) {
    if (!tn__types_agree(setup, TN__TYPES_REAL, 3, 0)) return false;
    return tn__input_is(setup, 2, TN__TYPES_REAL) && tn__output_may_be(setup, 1, TN__TYPES_REAL) &&
           tn__output_may_be(setup, 2, TN__TYPES_REAL);
}

static uint64_t rows_workspace_norm(const tn_kernel_setup *setup) {
    const tn_tensor *scale = tn__setup_input(setup, 2);
    uint64_t count = 2 * sizeof(double);
    for (uint32_t d = 0; d < scale->rank; d++)
        count = tn__mul_sat(count, scale->shape[d] > 0 ? (uint64_t)scale->shape[d] : 0);
    return count;
}

static const tn_kernel train_rows_kernels[] = {
    {.type = "LogSoftmaxGrad", .accepts = rows_accepts, .run = rows_run_log_softmax},
    {.type = "NormalizationGrad",
     .accepts = rows_accepts_norm,
     .workspace = rows_workspace_norm,
     .run = rows_run_norm},
    {.type = "SoftmaxGrad", .accepts = rows_accepts, .run = rows_run_softmax},
};

TN_KERNEL_FAMILY(train_rows, "tenure");
