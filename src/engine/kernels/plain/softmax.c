/* softmax.c - Softmax, LogSoftmax and Hardmax.
 *
 * The largest element is subtracted first, so that no power overflows; sums are in float64. Rows of
 * float32 keep the powers in the output between the second and the third pass, so each is computed
 * once; 16-bit types would lose digits there, and compute them twice. All else (an inner axis,
 * float64, Hardmax) goes by neighbours: a block of rows that lie side by side takes one step along
 * the axis at a time. In place: within the pass that writes, each element is read before its place
 * is written. Before opset 13 everything from the axis on is one row.
 */
#include <math.h>

#include "engine/kernels/approximate.h"
#include "engine/kernels/convert.h"
#include "engine/kernels/plain/rows.h"

typedef enum softmax_sort { SOFTMAX_PLAIN, SOFTMAX_LOG, SOFTMAX_HARD } softmax_sort;

/* --- rows of float32, float16, bfloat16 --- */

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

static double softmax_sum(uint64_t count, const float *x) {
    const uint64_t whole = count - count % SOFTMAX_LANES;
    double lanes[SOFTMAX_LANES] = {0}, sum = 0;
    for (uint64_t i = 0; i < whole; i += SOFTMAX_LANES)
        for (size_t k = 0; k < SOFTMAX_LANES; k++) lanes[k] += (double)x[i + k];
    for (uint64_t i = whole; i < count; i++) lanes[0] += (double)x[i];
    for (size_t k = 0; k < SOFTMAX_LANES; k++) sum += lanes[k];
    return sum;
}

/* A row of a short floating type, block by block. */
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

/* The sum of the powers, which are left in y where it is float32 and `keep` says so. */
static double softmax_row_sum(softmax_row *row, float most, bool keep) {
    tn__block_room powers;
    const float *x;
    double sum = 0;
    for (uint64_t done = 0, some; done < row->extent; done += some) {
        some = softmax_part(row, done, &x);
        float *to = keep ? (float *)(void *)row->y + done : powers.floats;
        TN_APART
        for (size_t i = 0; i < some; i++) to[i] = tn__expf(x[i] - most);
        sum += softmax_sum(some, to);
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
    tn_dtype dtype, load; /* load: float32 or float64 */
    uint64_t extent, stride;
    size_t count;           /* neighbours */
    tn__block_room most;    /* largest element of each, in type `load` */
    double sums[TN__BLOCK]; /* of powers; their logarithms; or the place of the largest */
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
    if (old && given == (int64_t)x->rank) /* rows of one */
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

static const tn_kernel softmax_kernels[] = {
    {.type = "Hardmax", .accepts = tn__numeric_accepts, .run = softmax_run_hard},
    {.type = "LogSoftmax", .accepts = tn__numeric_accepts, .run = softmax_run_log},
    {.type = "Softmax", .accepts = tn__numeric_accepts, .run = softmax_run_plain},
};

TN_KERNEL_FAMILY(softmax, "");
