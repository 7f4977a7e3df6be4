/* softmax.c - Softmax, LogSoftmax, Hardmax, the masked softmax of attention, and gradients.
 *
 * The largest element of a row is subtracted first, so that no exponential overflows. Sums are in
 * float64. For rows of float32, the exponentials are stored in the output between the second and
 * the third pass, so each is computed once. A 16-bit output would lose digits, so 16-bit types
 * compute each exponential twice. All other cases (an inner axis, float64, Hardmax) compute a block
 * of adjacent rows together, one index along the axis at a time. The output may have the address of
 * the input, because every pass reads an element before it writes it. Before opset 13, all
 * dimensions from the axis on form one row.
 */
#include <math.h>

#include "engine/kernels/convert.h"
#include "engine/kernels/loops/approximate.h"
#include "engine/kernels/loops/attend.h"
#include "engine/kernels/operands.h"

typedef enum softmax_sort { SOFTMAX_PLAIN, SOFTMAX_LOG, SOFTMAX_HARD } softmax_sort;

/* --- softmax of rows of float32, float16 or bfloat16 --- */

enum { SOFTMAX_LANES = 8 };

static float softmax_most(uint64_t count, const float *x) {
    const uint64_t whole = count - count % SOFTMAX_LANES;
    float lanes[SOFTMAX_LANES], most = -INFINITY;
    for (size_t k = 0; k < SOFTMAX_LANES; k++) lanes[k] = -INFINITY;
    for (uint64_t i = 0; i < whole; i += SOFTMAX_LANES)
        for (size_t k = 0; k < SOFTMAX_LANES; k++)
            lanes[k] = x[i + k] > lanes[k] ? x[i + k] : lanes[k];
    for (uint64_t i = whole; i < count; i++) lanes[0] = x[i] > lanes[0] ? x[i] : lanes[0];
    for (size_t k = 0; k < SOFTMAX_LANES; k++) most = lanes[k] > most ? lanes[k] : most;
    return most;
}

/* Returns the sum of values[i] * weights[i]. weights NULL: the sum of the values. Several partial
 * sums are computed at once, so that no addition must wait for the one before. */
TN_WIDE static double softmax_dot(uint64_t count, const float *values, const float *weights) {
    const uint64_t whole = count - count % SOFTMAX_LANES;
    double lanes[SOFTMAX_LANES] = {0}, sum = 0;
    if (weights != NULL)
        for (uint64_t i = 0; i < whole; i += SOFTMAX_LANES)
            for (size_t k = 0; k < SOFTMAX_LANES; k++)
                lanes[k] += (double)values[i + k] * (double)weights[i + k];
    else
        for (uint64_t i = 0; i < whole; i += SOFTMAX_LANES)
            for (size_t k = 0; k < SOFTMAX_LANES; k++) lanes[k] += (double)values[i + k];
    for (uint64_t i = whole; i < count; i++)
        lanes[0] += (double)values[i] * (weights != NULL ? (double)weights[i] : 1);
    for (size_t k = 0; k < SOFTMAX_LANES; k++) sum += lanes[k];
    return sum;
}

/* A row of float32 or a 16-bit float, which is converted block by block. */
typedef struct softmax_row {
    tn_dtype dtype;
    uint64_t extent;
    const char *x;
    char *y;
    tn__block_room room;
} softmax_row;

static size_t softmax_part(softmax_row *row, uint64_t done, const float **x) {
    uint64_t left = row->extent - done;
    size_t some = left < TN__BLOCK ? (size_t)left : TN__BLOCK;
    *x = tn__convert_block(row->dtype, row->x + done * tn__element_size(row->dtype), TN_FLOAT32,
                           &row->room, some);
    return some;
}

static float softmax_row_most(softmax_row *row) {
    float most = -INFINITY;
    const float *x;
    for (uint64_t done = 0, some; done < row->extent; done += some) {
        some = softmax_part(row, done, &x);
        float its = softmax_most(some, x);
        most = its > most ? its : most;
    }
    return most;
}

/* Returns the sum of exp(x - most). With `keep`, the exponentials are stored in y, which must be
 * float32. */
static double softmax_row_sum(softmax_row *row, float most, bool keep) {
    tn__block_room powers;
    const float *x;
    double sum = 0;
    for (uint64_t done = 0, some; done < row->extent; done += some) {
        some = softmax_part(row, done, &x);
        float *to = keep ? (float *)(void *)row->y + done : powers.floats;
        TN_APART
        for (size_t i = 0; i < some; i++) to[i] = tn__expf(x[i] - most);
        sum += softmax_dot(some, to, NULL);
    }
    return sum;
}

static void softmax_row_make(softmax_row *row, softmax_sort sort, float most, double sum) {
    const float less = (float)log(sum), scale = (float)(1 / sum);
    tn__block_room made;
    const float *x;
    for (uint64_t done = 0, some; done < row->extent; done += some) {
        some = softmax_part(row, done, &x);
        if (sort == SOFTMAX_LOG)
            for (size_t i = 0; i < some; i++) made.floats[i] = (x[i] - most) - less;
        else
            for (size_t i = 0; i < some; i++) made.floats[i] = tn__expf(x[i] - most) * scale;
        tn__convert(TN_FLOAT32, &made, row->dtype, row->y + done * tn__element_size(row->dtype),
                    some);
    }
}

static void softmax_of_row(softmax_row *row, softmax_sort sort) {
    const bool keep = row->dtype == TN_FLOAT32 && sort == SOFTMAX_PLAIN;
    const float most = softmax_row_most(row);
    const double sum = softmax_row_sum(row, most, keep);
    if (!keep) {
        softmax_row_make(row, sort, most, sum);
        return;
    }
    const float scale = (float)(1 / sum);
    float *y = (float *)(void *)row->y;
    for (uint64_t i = 0; i < row->extent; i++) y[i] *= scale;
}

void tn__softmax_floats(uint64_t extent, const float *x, float *y) {
    softmax_row row = {.dtype = TN_FLOAT32, .extent = extent};
    row.x = (const char *)(const void *)x;
    row.y = (char *)(void *)y;
    softmax_of_row(&row, SOFTMAX_PLAIN);
}

/* --- neighbours --- */

typedef struct softmax_frame {
    softmax_sort sort;
    tn_dtype dtype, load; /* `load`: the type of the computation, float32 or float64 */
    uint64_t extent, stride;
    size_t count;        /* number of adjacent rows that are computed together */
    tn__block_room most; /* for each row: its largest element, in the type `load` */
    /* for each row: the sum of the exponentials of its elements, the logarithm of this sum, or the
     * index of the largest element */
    double sums[TN__BLOCK];
} softmax_frame;

/* clang-format off */
#define SOFTMAX_STEPS(type, power, field)                                                      \
    static void softmax_find_##type(softmax_frame *frame, const type *x, uint64_t place) {     \
        type *most = frame->most.field;                                                        \
        double *places = frame->sums;                                                          \
        const size_t count = frame->count;                                                     \
        for (size_t i = 0; i < count; i++) {                                                   \
            const bool better = (place == 0) | (x[i] > most[i]);                               \
            places[i] = better ? (double)place : places[i];                                    \
            most[i] = better ? x[i] : most[i];                                                 \
        }                                                                                      \
    }                                                                                          \
    static void softmax_add_##type(softmax_frame *frame, const type *x) {                      \
        const type *most = frame->most.field;                                                  \
        const size_t count = frame->count;                                                     \
        for (size_t i = 0; i < count; i++) frame->sums[i] += (double)power(x[i] - most[i]);    \
    }                                                                                          \
    static void softmax_make_##type(const softmax_frame *frame, const type *x, type *y,        \
                                    uint64_t place) {                                          \
        const type *most = frame->most.field;                                                  \
        const double *sums = frame->sums;                                                      \
        const size_t count = frame->count;                                                     \
        if (frame->sort == SOFTMAX_PLAIN) {                                                    \
            for (size_t i = 0; i < count; i++)                                                 \
                y[i] = (type)((double)power(x[i] - most[i]) / sums[i]);                        \
        } else if (frame->sort == SOFTMAX_LOG) {                                               \
            for (size_t i = 0; i < count; i++)                                                 \
                y[i] = (type)((double)(x[i] - most[i]) - sums[i]);                             \
        } else {                                                                               \
            for (size_t i = 0; i < count; i++) y[i] = sums[i] == (double)place;                \
        }                                                                                      \
    }
SOFTMAX_STEPS(float, tn__expf, floats)
SOFTMAX_STEPS(double, exp, doubles)
/* clang-format on */

typedef enum softmax_pass { SOFTMAX_FIND, SOFTMAX_ADD, SOFTMAX_MAKE } softmax_pass;

static void softmax_walk(softmax_frame *frame, softmax_pass pass, const char *x, char *y) {
    const size_t step = (size_t)frame->stride * tn__element_size(frame->dtype);
    tn__block_room room, made;
    for (uint64_t k = 0; k < frame->extent; k++) {
        const void *from =
            tn__convert_block(frame->dtype, x + k * step, frame->load, &room, frame->count);
        bool single = frame->load == TN_FLOAT32;
        if (pass == SOFTMAX_FIND && single)
            softmax_find_float(frame, from, k);
        else if (pass == SOFTMAX_FIND)
            softmax_find_double(frame, from, k);
        else if (pass == SOFTMAX_ADD && single)
            softmax_add_float(frame, from);
        else if (pass == SOFTMAX_ADD)
            softmax_add_double(frame, from);
        else if (single)
            softmax_make_float(frame, from, made.floats, k);
        else
            softmax_make_double(frame, from, made.doubles, k);
        if (pass == SOFTMAX_MAKE)
            tn__convert(frame->load, &made, frame->dtype, y + k * step, frame->count);
    }
}

static void softmax_neighbours(softmax_frame *frame, const char *x, char *y) {
    softmax_walk(frame, SOFTMAX_FIND, x, NULL);
    if (frame->sort != SOFTMAX_HARD) {
        memset(frame->sums, 0, sizeof frame->sums);
        softmax_walk(frame, SOFTMAX_ADD, x, NULL);
    }
    for (size_t i = 0; i < frame->count && frame->sort == SOFTMAX_LOG; i++)
        frame->sums[i] = log(frame->sums[i]);
    softmax_walk(frame, SOFTMAX_MAKE, x, y);
}

/* --- running --- */

static tn_status softmax_run(tn_kernel_call *call, softmax_sort sort) {
    const tn_operand *x = &call->inputs[0];
    tn_operand *y = &call->outputs[0];
    const bool old = call->version < 13;
    const int64_t given = tn__attr_int(call->op, "axis", old ? 1 : -1);
    uint32_t axis;
    TN_TRY(tn__call_expect(call, x->dtype, tn__operand_count(x)));
    if (tn__operand_count(x) == 0) return TN_OK;
    /* before opset 13 the axis may equal the rank; each element is then a row of its own */
    if (old && given == (int64_t)x->rank)
        axis = x->rank;
    else if (x->rank == 0 && given >= -1 && given <= 0)
        axis = 0;
    else
        TN_TRY(tn__call_axis(call, given, x->rank, &axis));
    const uint32_t end = old || x->rank == 0 ? x->rank : axis + 1;
    const uint64_t outer = tn__operand_span(x, 0, axis), extent = tn__operand_span(x, axis, end);
    const uint64_t inner = tn__operand_span(x, end, x->rank);
    const size_t size = tn__element_size(x->dtype);
    if (inner == 1 && tn__is_short_float(x->dtype) && sort != SOFTMAX_HARD) {
        softmax_row row = {.dtype = x->dtype, .extent = extent};
        for (uint64_t o = 0; o < outer; o++) {
            row.x = (const char *)x->data + o * extent * size;
            row.y = (char *)y->data + o * extent * size;
            softmax_of_row(&row, sort);
        }
        return TN_OK;
    }
    softmax_frame frame = {.sort = sort, .dtype = x->dtype, .extent = extent, .stride = inner};
    frame.load = tn__is_short_float(x->dtype) ? TN_FLOAT32 : TN_FLOAT64;
    for (uint64_t o = 0; o < outer; o++)
        for (uint64_t done = 0; done < inner; done += TN__BLOCK) {
            const uint64_t left = inner - done, at = (o * extent * inner + done) * size;
            frame.count = left < TN__BLOCK ? (size_t)left : TN__BLOCK;
            softmax_neighbours(&frame, (const char *)x->data + at, (char *)y->data + at);
        }
    return TN_OK;
}

static tn_status softmax_run_plain(tn_kernel_call *call) {
    return softmax_run(call, SOFTMAX_PLAIN);
}
static tn_status softmax_run_log(tn_kernel_call *call) { return softmax_run(call, SOFTMAX_LOG); }
static tn_status softmax_run_hard(tn_kernel_call *call) { return softmax_run(call, SOFTMAX_HARD); }

/* --- MaskedSoftmax: softmax of alpha x + mask along the last axis, in one pass ---
 *
 * It computes row by row, so neither the product nor the sum needs a tensor. The result has the
 * bits that the operators Mul, Add and Softmax compute one after the other.
 */

/* Computes y = alpha x + mask for one row. `step` is 0 if the row has a single number as its mask,
 * else 1. */
TN_WIDE static void masked_row(uint64_t extent, float alpha, const float *x, const float *mask,
                               uint64_t step, float *y) {
    if (step == 0) {
        const float one = *mask;
        TN_APART
        for (uint64_t i = 0; i < extent; i++) y[i] = alpha * x[i] + one;
        return;
    }
    TN_APART
    for (uint64_t i = 0; i < extent; i++) y[i] = alpha * x[i] + mask[i];
}

static tn_status masked_check(const tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *mask = &call->inputs[1];
    bool fits = x->rank > 0 && mask->rank <= x->rank;
    for (uint32_t d = 0; fits && d < mask->rank; d++)
        fits = mask->shape[d] == 1 || mask->shape[d] == x->shape[d + x->rank - mask->rank];
    if (!fits) return tn__call_fail(call, TN_E_INVALID, "the mask does not fit the input");
    return tn__check_result(call, 0, x->rank, x->shape);
}

/* Returns the index of the first element of the mask for row `row`. */
static uint64_t masked_at(const tn_operand *x, const int64_t *strides, uint64_t row) {
    uint64_t at = 0;
    for (uint32_t d = x->rank - 1; d-- > 0; row /= (uint64_t)x->shape[d])
        at += row % (uint64_t)x->shape[d] * (uint64_t)strides[d];
    return at;
}

static tn_status masked_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *mask = &call->inputs[1];
    const float alpha = (float)tn__attr_float(call->op, "alpha", 1);
    int64_t strides[TN_RANK_MAX];
    TN_TRY(masked_check(call));
    const uint64_t extent = (uint64_t)x->shape[x->rank - 1], total = tn__operand_count(x);
    float *y = call->outputs[0].data;
    tn__operand_strides(mask, x->rank, strides);
    for (uint64_t at = 0; at < total; at += extent) {
        masked_row(extent, alpha, (const float *)x->data + at,
                   (const float *)mask->data + masked_at(x, strides, at / extent),
                   (uint64_t)strides[x->rank - 1], y + at);
        tn__softmax_floats(extent, y + at, y + at);
    }
    return TN_OK;
}

static bool masked_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 3, 0);
}

/* --- gradients ---
 *
 * Softmax: dx = y (dy - sum dy y); LogSoftmax: dx = dy - exp(y) sum dy.
 */

typedef struct softmax_grad_frame {
    uint64_t outer, extent, inner;
    const tn_operand *dy, *y;
    tn_operand *dx;
    double alpha; /* a factor by which the gradient is multiplied */
    bool log;
} softmax_grad_frame;

static tn_status softmax_grad_read(tn_kernel_call *call, bool log, softmax_grad_frame *frame) {
    const tn_operand *y = &call->inputs[1];
    uint32_t axis;
    *frame =
        (softmax_grad_frame){.dy = &call->inputs[0], .y = y, .dx = &call->outputs[0], .log = log};
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

TN_WIDE static void softmax_grad_floats(const softmax_grad_frame *frame, uint64_t first) {
    const float *dy = (const float *)frame->dy->data + first;
    const float *y = (const float *)frame->y->data + first;
    float *dx = (float *)frame->dx->data + first;
    const double sum = softmax_dot(frame->extent, dy, frame->log ? NULL : y);
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

static void softmax_grad_any(const softmax_grad_frame *frame, uint64_t first, uint64_t step) {
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

static tn_status softmax_grad_run(tn_kernel_call *call, bool log) {
    softmax_grad_frame frame = {0};
    TN_TRY(softmax_grad_read(call, log, &frame));
    bool floats = frame.dy->dtype == TN_FLOAT32 && frame.inner == 1;
    for (uint64_t o = 0; o < frame.outer; o++)
        for (uint64_t i = 0; i < frame.inner; i++) {
            uint64_t first = o * frame.extent * frame.inner + i;
            if (floats)
                softmax_grad_floats(&frame, first);
            else
                softmax_grad_any(&frame, first, frame.inner);
        }
    return TN_OK;
}

static tn_status softmax_grad_run_softmax(tn_kernel_call *call) {
    return softmax_grad_run(call, false);
}
static tn_status softmax_grad_run_log_softmax(tn_kernel_call *call) {
    return softmax_grad_run(call, true);
}

static bool softmax_grad_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 3, 0);
}

static const tn_kernel softmax_kernels[] = {
    {.type = "Hardmax", .accepts = tn__numeric_accepts, .run = softmax_run_hard},
    {.type = "LogSoftmax", .accepts = tn__numeric_accepts, .run = softmax_run_log},
    {.type = "Softmax", .accepts = tn__numeric_accepts, .run = softmax_run_plain},
    {.domain = "tenure", .type = "MaskedSoftmax", .accepts = masked_accepts, .run = masked_run},
    {.domain = "tenure",
     .type = "LogSoftmaxGrad",
     .accepts = softmax_grad_accepts,
     .run = softmax_grad_run_log_softmax},
    {.domain = "tenure",
     .type = "SoftmaxGrad",
     .accepts = softmax_grad_accepts,
     .run = softmax_grad_run_softmax},
};

TN_KERNEL_FAMILY(softmax, "");
