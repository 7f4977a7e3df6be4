/* reduce.c - reductions and cumulative sums along axes: ReduceSum and similar operators, ArgMax,
 * ArgMin, CumSum, CumProd.
 *
 * Adjacent axes that are both reduced, or both kept, are merged. If the innermost axis is reduced,
 * it is summed in eight lanes; if it is kept, row after row is added to a block of totals. Real
 * types are summed in float64, so a sum of 10^6 float32 is correct to the last digit in any order.
 * Integers wrap around. LogSumExp first finds the maximum, in a pass of its own, and subtracts it.
 * The result for no elements is the neutral number, and NaN for a mean. The axes are an attribute
 * up to opset 12 (ReduceSum) or 17 (others), and an input since then.
 * Cost: O(elements), twice that for LogSumExp.
 */
#include <math.h>

#include "engine/kernels/convert.h"
#include "engine/kernels/loops/approximate.h"
#include "engine/kernels/operands.h"

enum { REDUCE_LANES = 8 };

/* A loop that combines `count` elements with one total, or each element with its own of `count`
 * totals. To combine means to add, to multiply, or to take the larger or smaller number. `top` is
 * for LogSumExp only: the largest element of the one total, or of each total. */
typedef void (*reduce_loop)(size_t count, const void *x, void *total, const double *top);

/* Defines the loops of a reduction. `step` is the expression for a new total from total s and
 * element v; `join` is the one that combines two totals s and v. */
/* clang-format off */
#define REDUCE_LOOPS(name, type, sum, start, step, join)                                       \
    TN_WIDE static void reduce_run_##name(size_t count, const void *elements, void *total,     \
                                          const double *top) {                                 \
        const type *x = elements;                                                              \
        const size_t whole = count - count % REDUCE_LANES;                                     \
        sum lanes[REDUCE_LANES], all = *(sum *)total;                                          \
        (void)top;                                                                             \
        for (size_t k = 0; k < REDUCE_LANES; k++) lanes[k] = start;                            \
        for (size_t i = 0; i < whole; i += REDUCE_LANES)                                       \
            for (size_t k = 0; k < REDUCE_LANES; k++) {                                        \
                const type v = x[i + k];                                                       \
                const sum s = lanes[k];                                                        \
                lanes[k] = step;                                                               \
            }                                                                                  \
        for (size_t i = whole; i < count; i++) {                                               \
            const type v = x[i];                                                               \
            const sum s = lanes[i - whole];                                                    \
            lanes[i - whole] = step;                                                           \
        }                                                                                      \
        for (size_t k = 0; k < REDUCE_LANES; k++) {                                            \
            const sum v = lanes[k], s = all;                                                   \
            all = join;                                                                        \
        }                                                                                      \
        *(sum *)total = all;                                                                   \
    }                                                                                          \
    TN_WIDE static void reduce_rows_##name(size_t count, const void *elements, void *totals,   \
                                           const double *top) {                                \
        const type *x = elements;                                                              \
        sum *all = totals;                                                                     \
        (void)top;                                                                             \
        TN_APART                                                                               \
        for (size_t i = 0; i < count; i++) {                                                   \
            const type v = x[i];                                                               \
            const sum s = all[i];                                                              \
            all[i] = step;                                                                     \
        }                                                                                      \
    }
#define REDUCE_REAL(name, type)                                                                \
    REDUCE_LOOPS(name##_sum, type, double, 0, s + (double)v, s + v)                            \
    REDUCE_LOOPS(name##_abs, type, double, 0, s + fabs((double)v), s + v)                      \
    REDUCE_LOOPS(name##_square, type, double, 0, s + (double)v * (double)v, s + v)             \
    REDUCE_LOOPS(name##_product, type, double, 1, s * (double)v, s * v)                        \
    REDUCE_LOOPS(name##_max, type, double, -(double)INFINITY,                                  \
                 s > (double)v || s != s ? s : (double)v, s > v || s != s ? s : v)             \
    REDUCE_LOOPS(name##_min, type, double, (double)INFINITY,                                   \
                 s < (double)v || s != s ? s : (double)v, s < v || s != s ? s : v)
REDUCE_REAL(float, float)
REDUCE_REAL(double, double)
REDUCE_LOOPS(int_sum, uint64_t, uint64_t, 0, s + v, s + v)
REDUCE_LOOPS(int_abs, int64_t, uint64_t, 0, s + (v < 0 ? 0 - (uint64_t)v : (uint64_t)v), s + v)
REDUCE_LOOPS(int_square, uint64_t, uint64_t, 0, s + v * v, s + v)
REDUCE_LOOPS(int_product, uint64_t, uint64_t, 1, s * v, s * v)
REDUCE_LOOPS(int_max, int64_t, int64_t, INT64_MIN, s > v ? s : v, s > v ? s : v)
REDUCE_LOOPS(int_min, int64_t, int64_t, INT64_MAX, s < v ? s : v, s < v ? s : v)
REDUCE_LOOPS(uint_max, uint64_t, uint64_t, 0, s > v ? s : v, s > v ? s : v)
REDUCE_LOOPS(uint_min, uint64_t, uint64_t, UINT64_MAX, s < v ? s : v, s < v ? s : v)
/* clang-format on */

/* Adds exp(x - *top) to the total. float32 is computed in blocks, which compilers vectorise. */
static void reduce_run_float_exp(size_t count, const void *elements, void *total,
                                 const double *top) {
    const float *x = elements, most = (float)*top;
    float powers[TN__BLOCK];
    for (size_t done = 0; done < count; done += TN__BLOCK) {
        size_t some = count - done < TN__BLOCK ? count - done : TN__BLOCK;
        for (size_t i = 0; i < some; i++) powers[i] = tn__expf(x[done + i] - most);
        reduce_run_float_sum(some, powers, total, NULL);
    }
}
static void reduce_rows_float_exp(size_t count, const void *elements, void *totals,
                                  const double *top) {
    const float *x = elements;
    double *all = totals;
    TN_APART
    for (size_t i = 0; i < count; i++) all[i] += (double)tn__expf(x[i] - (float)top[i]);
}
static void reduce_run_double_exp(size_t count, const void *elements, void *total,
                                  const double *top) {
    const double *x = elements;
    double all = *(double *)total;
    for (size_t i = 0; i < count; i++) all += exp(x[i] - *top);
    *(double *)total = all;
}
static void reduce_rows_double_exp(size_t count, const void *elements, void *totals,
                                   const double *top) {
    const double *x = elements;
    double *all = totals;
    for (size_t i = 0; i < count; i++) all[i] += exp(x[i] - top[i]);
}

/* --- the axes and the loops of a reduction --- */

typedef enum reduce_sort {
    REDUCE_SUM,
    REDUCE_ABS,
    REDUCE_SQUARE,
    REDUCE_PRODUCT,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_EXP,
    REDUCE_SORTS
} reduce_sort;

/* The function that is applied to each total at the end. */
typedef enum reduce_end { REDUCE_AS_IT_IS, REDUCE_MEAN, REDUCE_ROOT, REDUCE_LOG } reduce_end;

typedef struct reduce_pair {
    reduce_loop run, rows;
} reduce_pair;
#define REDUCE_PAIR(name)                                                                          \
    { reduce_run_##name, reduce_rows_##name }
#define REDUCE_PAIRS(name)                                                                         \
    REDUCE_PAIR(name##_sum), REDUCE_PAIR(name##_abs), REDUCE_PAIR(name##_square),                  \
        REDUCE_PAIR(name##_product), REDUCE_PAIR(name##_max), REDUCE_PAIR(name##_min)

static const reduce_pair reduce_floats[REDUCE_SORTS] = {REDUCE_PAIRS(float),
                                                        REDUCE_PAIR(float_exp)};
static const reduce_pair reduce_doubles[REDUCE_SORTS] = {REDUCE_PAIRS(double),
                                                         REDUCE_PAIR(double_exp)};
static const reduce_pair reduce_ints[REDUCE_EXP] = {REDUCE_PAIRS(int)};
static const reduce_pair reduce_uints[REDUCE_EXP] = {
    REDUCE_PAIR(int_sum),     REDUCE_PAIR(int_sum),  REDUCE_PAIR(int_square),
    REDUCE_PAIR(int_product), REDUCE_PAIR(uint_max), REDUCE_PAIR(uint_min)};

/* --- geometry --- */

/* All axes that are reduced, or all that are kept; the innermost first. */
typedef struct reduce_axes {
    uint32_t count;
    uint64_t extents[TN_RANK_MAX], strides[TN_RANK_MAX];
} reduce_axes;

typedef struct reduce_state {
    tn_kernel_call *call;
    reduce_axes kept, reduced;
    bool run;       /* whether the innermost axis is reduced */
    uint64_t width; /* extent of the innermost axis */
    uint64_t terms; /* number of elements that are combined to each result */
    /* number of index combinations of the reduced axes, without the innermost axis */
    uint64_t sweeps;
    tn_dtype load, sum; /* types in which elements are loaded and totals are computed */
    tn__block_room room;
} reduce_state;

static void reduce_add_axis(reduce_axes *axes, uint64_t extent, uint64_t stride, bool joins) {
    if (joins) {
        axes->extents[axes->count - 1] *= extent;
        return;
    }
    axes->extents[axes->count] = extent;
    axes->strides[axes->count++] = stride;
}

/* Divides the axes into kept and reduced ones. `set` has a bit for each axis that is reduced.
 * Returns the number of results. */
static uint64_t reduce_measure(reduce_state *frame, uint64_t set) {
    const tn_operand *x = &frame->call->inputs[0];
    uint64_t stride = 1, results = 1;
    int last = -1;
    frame->kept.count = frame->reduced.count = 0;
    frame->terms = 1;
    for (uint32_t d = x->rank; d-- > 0;) {
        uint64_t extent = (uint64_t)x->shape[d];
        int sort = (int)(set >> d & 1);
        if (extent == 1) continue;
        if (last < 0) frame->run = sort == 1;
        reduce_add_axis(sort ? &frame->reduced : &frame->kept, extent, stride, sort == last);
        *(sort ? &frame->terms : &results) *= extent;
        stride *= extent;
        last = sort;
    }
    if (last < 0) { /* all extents are 1, so there is no innermost axis */
        frame->run = true;
        reduce_add_axis(&frame->reduced, 1, 1, false);
    }
    reduce_axes *inner = frame->run ? &frame->reduced : &frame->kept;
    frame->width = inner->extents[0];
    /* remove the innermost axis, which is handled separately */
    for (uint32_t i = 1; i < inner->count; i++) {
        inner->extents[i - 1] = inner->extents[i];
        inner->strides[i - 1] = inner->strides[i];
    }
    inner->count--;
    frame->sweeps = 1;
    for (uint32_t i = 0; i < frame->reduced.count; i++) frame->sweeps *= frame->reduced.extents[i];
    return results;
}

static uint64_t reduce_offset(const reduce_axes *axes, uint64_t index) {
    uint64_t at = 0;
    for (uint32_t i = 0; i < axes->count; i++) {
        at += index % axes->extents[i] * axes->strides[i];
        index /= axes->extents[i];
    }
    return at;
}

/* --- totals --- */

/* Combines all elements of the results that begin at element `base` with their totals. This is one
 * result if the innermost axis is reduced, otherwise `count` adjacent results. */
static void reduce_add(reduce_state *frame, const reduce_pair *pair, uint64_t base, size_t count,
                       void *totals, const double *top) {
    const tn_operand *x = &frame->call->inputs[0];
    const size_t size = tn__element_size(x->dtype);
    for (uint64_t s = 0; s < frame->sweeps; s++) {
        const char *from =
            (const char *)x->data + (base + reduce_offset(&frame->reduced, s)) * size;
        if (!frame->run) {
            from = tn__convert_block(x->dtype, from, frame->load, &frame->room, count);
            pair->rows(count, from, totals, top);
            continue;
        }
        uint64_t chunk = x->dtype == frame->load ? frame->width : TN__BLOCK;
        for (uint64_t done = 0; done < frame->width; done += chunk) {
            uint64_t some = frame->width - done < chunk ? frame->width - done : chunk;
            pair->run((size_t)some,
                      tn__convert_block(x->dtype, from + done * size, frame->load, &frame->room,
                                        (size_t)some),
                      totals, top);
        }
    }
}

typedef struct reduce_plan {
    reduce_sort sort;
    reduce_end end;
    const reduce_pair *pairs; /* the loops for the type in which elements are loaded */
} reduce_plan;

static void reduce_start(const reduce_state *frame, reduce_sort sort, size_t count,
                         tn__block_room *totals) {
    double real = sort == REDUCE_PRODUCT ? 1
                  : sort == REDUCE_MAX   ? -(double)INFINITY
                  : sort == REDUCE_MIN   ? (double)INFINITY
                                         : 0;
    int64_t whole = sort == REDUCE_PRODUCT ? 1
                    : sort == REDUCE_MAX   ? (frame->sum == TN_UINT64 ? 0 : INT64_MIN)
                    : sort == REDUCE_MIN   ? (frame->sum == TN_UINT64 ? -1 : INT64_MAX)
                                           : 0;
    for (size_t i = 0; i < count; i++)
        if (frame->sum == TN_FLOAT64)
            totals->doubles[i] = real;
        else
            totals->ints[i] = whole;
}

static void reduce_finish(const reduce_state *frame, reduce_end end, size_t count,
                          tn__block_room *totals, const double *top) {
    for (size_t i = 0; i < count; i++) {
        double *real = &totals->doubles[i];
        if (end == REDUCE_MEAN && frame->sum == TN_FLOAT64)
            *real /= (double)frame->terms;
        else if (end == REDUCE_MEAN && frame->sum == TN_UINT64)
            totals->ints[i] = (int64_t)((uint64_t)totals->ints[i] / frame->terms);
        else if (end == REDUCE_MEAN)
            totals->ints[i] /= (int64_t)frame->terms;
        else if (end == REDUCE_ROOT)
            *real = sqrt(*real);
        else if (end == REDUCE_LOG)
            *real = log(*real) + (top != NULL ? top[i] : 0);
    }
}

/* Computes `count` adjacent results. The elements of the first one begin at element `base`. */
static void reduce_results(reduce_state *frame, const reduce_plan *plan, uint64_t base,
                           size_t count, tn__block_room *totals) {
    double top[TN__BLOCK];
    bool exponential = plan->sort == REDUCE_EXP;
    if (exponential) {
        tn__block_room most;
        reduce_start(frame, REDUCE_MAX, count, &most);
        reduce_add(frame, &plan->pairs[REDUCE_MAX], base, count, &most, NULL);
        for (size_t i = 0; i < count; i++) top[i] = isfinite(most.doubles[i]) ? most.doubles[i] : 0;
    }
    reduce_start(frame, plan->sort, count, totals);
    reduce_add(frame, &plan->pairs[plan->sort], base, count, totals, exponential ? top : NULL);
    reduce_finish(frame, plan->end, count, totals, exponential ? top : NULL);
}

static void reduce_all(reduce_state *frame, const reduce_plan *plan) {
    tn_operand *y = &frame->call->outputs[0];
    const size_t size = tn__element_size(y->dtype);
    const uint64_t results = tn__operand_count(y);
    const uint64_t step = frame->run ? 1 : frame->width;
    tn__block_room totals;
    for (uint64_t first = 0; first < results; first += step) {
        uint64_t base = reduce_offset(&frame->kept, first / step);
        for (uint64_t done = 0; done < step; done += TN__BLOCK) {
            size_t some = step - done < TN__BLOCK ? (size_t)(step - done) : TN__BLOCK;
            reduce_results(frame, plan, base + done, some, &totals);
            tn__convert(frame->sum, &totals, y->dtype, (char *)y->data + (first + done) * size,
                        some);
        }
    }
}

/* --- running --- */

/* Reads the axes. *none: the list is empty, so each element is reduced alone. */
static tn_status reduce_set(tn_kernel_call *call, uint64_t *set, bool *none) {
    const tn_operand *x = &call->inputs[0], *list = tn__call_input(call, 1);
    uint32_t count;
    const int64_t *axes = tn__attr_ints(call->op, "axes", &count);
    if (list != NULL) count = (uint32_t)tn__operand_count(list);
    *none = count == 0 && tn__attr_int(call->op, "noop_with_empty_axes", 0) != 0;
    *set = count == 0 && !*none ? UINT64_MAX : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t axis;
        int64_t given = list != NULL ? tn__operand_int(list, i) : axes[i];
        TN_TRY(tn__call_axis(call, given, x->rank, &axis));
        *set |= UINT64_C(1) << axis;
    }
    return TN_OK;
}

static tn_status reduce_run(tn_kernel_call *call, reduce_sort sort, reduce_end end) {
    const tn_operand *x = &call->inputs[0];
    tn_operand *y = &call->outputs[0];
    uint64_t set;
    bool none;
    TN_TRY(reduce_set(call, &set, &none));
    if (none && (end == REDUCE_AS_IT_IS || end == REDUCE_MEAN || sort == REDUCE_EXP) &&
        sort != REDUCE_ABS && sort != REDUCE_SQUARE) { /* the others compute something */
        TN_TRY(tn__call_expect(call, x->dtype, tn__operand_count(x)));
        tn__operand_copy(y, x);
        return TN_OK;
    }
    reduce_state frame = {.call = call, .load = tn__computed_type(x->dtype)};
    bool whole = frame.load == TN_INT64 || frame.load == TN_UINT64;
    /* without elements, a maximum is -infinity in float64, and its conversion gives the smallest
     * value of the type; a minimum becomes the largest value */
    bool real =
        sort == REDUCE_EXP || end == REDUCE_ROOT || end == REDUCE_LOG || tn__operand_count(x) == 0;
    if (whole && real) frame.load = TN_FLOAT64;
    frame.sum = frame.load == TN_FLOAT32 ? TN_FLOAT64 : frame.load;
    const reduce_plan plan = {.sort = sort,
                              .end = end,
                              .pairs = frame.load == TN_FLOAT32   ? reduce_floats
                                       : frame.load == TN_FLOAT64 ? reduce_doubles
                                       : frame.load == TN_INT64   ? reduce_ints
                                                                  : reduce_uints};
    TN_TRY(tn__call_expect(call, x->dtype, reduce_measure(&frame, set)));
    reduce_all(&frame, &plan);
    return TN_OK;
}

#define REDUCE(name, sort, end)                                                                    \
    static tn_status reduce_run_##name(tn_kernel_call *call) { return reduce_run(call, sort, end); }
REDUCE(ReduceL1, REDUCE_ABS, REDUCE_AS_IT_IS)
REDUCE(ReduceL2, REDUCE_SQUARE, REDUCE_ROOT)
REDUCE(ReduceLogSum, REDUCE_SUM, REDUCE_LOG)
REDUCE(ReduceLogSumExp, REDUCE_EXP, REDUCE_LOG)
REDUCE(ReduceMax, REDUCE_MAX, REDUCE_AS_IT_IS)
REDUCE(ReduceMean, REDUCE_SUM, REDUCE_MEAN)
REDUCE(ReduceMin, REDUCE_MIN, REDUCE_AS_IT_IS)
REDUCE(ReduceProd, REDUCE_PRODUCT, REDUCE_AS_IT_IS)
REDUCE(ReduceSum, REDUCE_SUM, REDUCE_AS_IT_IS)
REDUCE(ReduceSumSquare, REDUCE_SQUARE, REDUCE_AS_IT_IS)

#define REDUCE_ENTRY(name)                                                                         \
    { .type = #name, .accepts = tn__numeric_accepts, .run = reduce_run_##name }

/* --- ArgMax, ArgMin: the position of the largest or smallest element along an axis ---
 *
 * Among equal elements the first one counts, or the last one with select_last_index. A NaN counts
 * as better than any number, and the first NaN counts. The smallest element is found as the largest
 * one after changing the sign (real types) or all bits (integers), which reverses the order
 * exactly. Adjacent results are computed together, with a block of the best values, so that memory
 * is read in order.
 */

typedef struct arg_frame {
    bool smallest, last;
    tn_dtype load;
} arg_frame;

/* A loop that compares `count` elements, which all have index `at` along the reduced axis, with the
 * best value so far of each element's result. */
typedef void (*arg_loop)(const arg_frame *frame, size_t count, const void *elements, void *best,
                         int64_t *places, int64_t at);

/* clang-format off */
#define ARG_LOOP(name, type, turned)                                                           \
    static void arg_##name(const arg_frame *frame, size_t count, const void *elements,         \
                           void *best, int64_t *places, int64_t at) {                          \
        const type *x = elements, turn = turned;                                               \
        type *most = best;                                                                     \
        const bool last = frame->last;                                                         \
        for (size_t i = 0; i < count; i++) {                                                   \
            const type v = ARG_TURN_##name(x[i]), b = most[i];                                 \
            const bool better = (at == 0) | (v > b) | (last & (v == b)) | ((v != v) & (b == b)); \
            most[i] = better ? v : b;                                                          \
            places[i] = better ? at : places[i];                                               \
        }                                                                                      \
    }                                                                                          \
    static int64_t arg_run_##name(const arg_frame *frame, size_t count, const void *elements,  \
                                  void *best, int64_t place, int64_t at) {                     \
        const type *x = elements, turn = turned;                                               \
        type b = *(type *)best;                                                                \
        const bool last = frame->last;                                                         \
        for (size_t i = 0; i < count; i++) {                                                   \
            const type v = ARG_TURN_##name(x[i]);                                              \
            if ((at == 0 && i == 0) || v > b || (last && v == b) || (v != v && b == b)) {      \
                b = v;                                                                         \
                place = at + (int64_t)i;                                                       \
            }                                                                                  \
        }                                                                                      \
        *(type *)best = b;                                                                     \
        return place;                                                                          \
    }
#define ARG_TURN_float(v) ((v) * turn)
#define ARG_TURN_double(v) ((v) * turn)
#define ARG_TURN_int(v) ((v) ^ turn)
#define ARG_TURN_uint(v) ((v) ^ turn)
ARG_LOOP(float, float, frame->smallest ? -1.0f : 1.0f)
ARG_LOOP(double, double, frame->smallest ? -1.0 : 1.0)
ARG_LOOP(int, int64_t, frame->smallest ? -1 : 0)
ARG_LOOP(uint, uint64_t, frame->smallest ? UINT64_MAX : 0)
/* clang-format on */

static void arg_compare(const arg_frame *frame, size_t count, const void *elements, void *best,
                        int64_t *places, int64_t at) {
    arg_loop loop = frame->load == TN_FLOAT32   ? arg_float
                    : frame->load == TN_FLOAT64 ? arg_double
                    : frame->load == TN_INT64   ? arg_int
                                                : arg_uint;
    loop(frame, count, elements, best, places, at);
}

static int64_t arg_compare_run(const arg_frame *frame, size_t count, const void *elements,
                               void *best, int64_t place, int64_t at) {
    switch (frame->load) {
    case TN_FLOAT32:
        return arg_run_float(frame, count, elements, best, place, at);
    case TN_FLOAT64:
        return arg_run_double(frame, count, elements, best, place, at);
    case TN_INT64:
        return arg_run_int(frame, count, elements, best, place, at);
    default:
        return arg_run_uint(frame, count, elements, best, place, at);
    }
}

/* Returns the position of the best of `extent` adjacent elements. */
static int64_t arg_of_run(const arg_frame *frame, const tn_operand *x, uint64_t base,
                          uint64_t extent) {
    const size_t size = tn__element_size(x->dtype);
    tn__block_room room;
    double best = 0;
    int64_t place = 0;
    for (uint64_t done = 0; done < extent; done += TN__BLOCK) {
        size_t some = extent - done < TN__BLOCK ? (size_t)(extent - done) : TN__BLOCK;
        const char *from = (const char *)x->data + (base + done) * size;
        place = arg_compare_run(frame, some,
                                tn__convert_block(x->dtype, from, frame->load, &room, some), &best,
                                place, (int64_t)done);
    }
    return place;
}

/* Computes `count` adjacent results. The elements of a result are `stride` elements apart. */
static void arg_of_rows(const arg_frame *frame, const tn_operand *x, uint64_t base, uint64_t extent,
                        uint64_t stride, size_t count, int64_t *places) {
    const size_t size = tn__element_size(x->dtype);
    tn__block_room room, best;
    memset(&best, 0, sizeof best);
    memset(places, 0, count * sizeof *places);
    for (uint64_t k = 0; k < extent; k++) {
        const char *from = (const char *)x->data + (base + k * stride) * size;
        arg_compare(frame, count, tn__convert_block(x->dtype, from, frame->load, &room, count),
                    &best, places, (int64_t)k);
    }
}

static tn_status arg_run(tn_kernel_call *call, bool smallest) {
    const tn_operand *x = &call->inputs[0];
    int64_t *y = call->outputs[0].data;
    const arg_frame frame = {.smallest = smallest,
                             .last = tn__attr_int(call->op, "select_last_index", 0) != 0,
                             .load = tn__computed_type(x->dtype)};
    uint32_t axis;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", 0), x->rank, &axis));
    uint64_t outer = tn__operand_span(x, 0, axis), extent = (uint64_t)x->shape[axis];
    uint64_t inner = tn__operand_span(x, axis + 1, x->rank);
    TN_TRY(tn__call_expect(call, TN_INT64, outer * inner));
    if (extent == 0 && outer * inner > 0)
        return tn__call_fail(call, TN_E_INVALID, "axis %u has no elements to choose from", axis);
    for (uint64_t o = 0; o < outer && inner == 1; o++)
        y[o] = arg_of_run(&frame, x, o * extent, extent);
    for (uint64_t o = 0; o < outer && inner > 1; o++)
        for (uint64_t done = 0; done < inner; done += TN__BLOCK) {
            size_t some = inner - done < TN__BLOCK ? (size_t)(inner - done) : TN__BLOCK;
            arg_of_rows(&frame, x, o * extent * inner + done, extent, inner, some,
                        y + o * inner + done);
        }
    return TN_OK;
}

static tn_status arg_run_max(tn_kernel_call *call) { return arg_run(call, false); }
static tn_status arg_run_min(tn_kernel_call *call) { return arg_run(call, true); }

/* --- CumSum, CumProd: cumulative sums and products along an axis ---
 *
 * They run forwards or backwards, and include the element itself or not. Real types keep the sum in
 * float64 and round each result once. The output may have the address of the input, because an
 * element is read before its result is written.
 */

typedef struct cumulate_frame {
    tn_dtype dtype, load; /* `load`: the type of the sums: float64, int64 or uint64 */
    uint64_t extent, stride;
    bool exclusive, reverse, product;
} cumulate_frame;

/* Advances one index along the axis for `count` adjacent sums. y, which may be x, receives the
 * results. */
static void cumulate_step(const cumulate_frame *frame, size_t count, tn__block_room *sums,
                          const void *x, void *y) {
    tn__block_room room, before;
    const size_t size = count * 8;
    const void *elements = tn__convert_block(frame->dtype, x, frame->load, &room, count);
    if (frame->exclusive) memcpy(&before, sums, size);
    if (frame->load == TN_FLOAT64) {
        const double *from = elements;
        if (frame->product)
            for (size_t i = 0; i < count; i++) sums->doubles[i] *= from[i];
        else
            for (size_t i = 0; i < count; i++) sums->doubles[i] += from[i];
    } else {
        const int64_t *from = elements;
        if (frame->product)
            for (size_t i = 0; i < count; i++)
                sums->ints[i] = (int64_t)((uint64_t)sums->ints[i] * (uint64_t)from[i]);
        else
            for (size_t i = 0; i < count; i++)
                sums->ints[i] = (int64_t)((uint64_t)sums->ints[i] + (uint64_t)from[i]);
    }
    tn__convert(frame->load, frame->exclusive ? &before : sums, frame->dtype, y, count);
}

static void cumulate_rows(const cumulate_frame *frame, const char *x, char *y, size_t count) {
    const size_t size = tn__element_size(frame->dtype);
    tn__block_room sums;
    memset(&sums, 0, sizeof sums);
    for (size_t i = 0; i < count && frame->product; i++)
        if (frame->load == TN_FLOAT64)
            sums.doubles[i] = 1;
        else
            sums.ints[i] = 1;
    for (uint64_t k = 0; k < frame->extent; k++) {
        uint64_t at = (frame->reverse ? frame->extent - 1 - k : k) * frame->stride * size;
        cumulate_step(frame, count, &sums, x + at, y + at);
    }
}

static tn_status cumulate_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    tn_operand *y = &call->outputs[0];
    uint32_t axis;
    TN_TRY(tn__call_expect(call, x->dtype, tn__operand_count(x)));
    if (tn__operand_count(&call->inputs[1]) == 0)
        return tn__call_fail(call, TN_E_INVALID, "its axis is empty; it must be one number");
    TN_TRY(tn__call_axis(call, tn__operand_int(&call->inputs[1], 0), x->rank, &axis));
    tn_dtype type = tn__computed_type(x->dtype);
    const cumulate_frame frame = {.dtype = x->dtype,
                                  .load = type == TN_FLOAT32 ? TN_FLOAT64 : type,
                                  .extent = (uint64_t)x->shape[axis],
                                  .stride = tn__operand_span(x, axis + 1, x->rank),
                                  .exclusive = tn__attr_int(call->op, "exclusive", 0) != 0,
                                  .reverse = tn__attr_int(call->op, "reverse", 0) != 0,
                                  .product = strcmp(call->op->type, "CumProd") == 0};
    const size_t size = tn__element_size(x->dtype);
    const uint64_t outer = tn__operand_span(x, 0, axis);
    for (uint64_t o = 0; o < outer; o++)
        for (uint64_t done = 0; done < frame.stride; done += TN__BLOCK) {
            uint64_t left = frame.stride - done,
                     at = (o * frame.extent * frame.stride + done) * size;
            cumulate_rows(&frame, (const char *)x->data + at, (char *)y->data + at,
                          left < TN__BLOCK ? (size_t)left : TN__BLOCK);
        }
    return TN_OK;
}

/* --- the gradient of CumProd ---
 *
 * With y_j = x_0 ... x_j, the gradient of x_i is E_i S_i, where E_i is the product of the factors
 * before x_i, and S_i = dy_i + x_(i+1) S_(i+1). No factor is divided by, so zeros are no special
 * case. The first pass writes S from the last index to the first, the second multiplies by E. The
 * output may have the address of dy. Cost: O(elements).
 */

static void cumulate_back_rows(const cumulate_frame *frame, const char *dy, const char *x, char *dx,
                               size_t count) {
    const size_t size = tn__element_size(frame->dtype);
    const uint64_t last = frame->extent - 1;
    double carry[TN__BLOCK], before[TN__BLOCK];
    tn__block_room given_room, factor_room, result;
    for (size_t i = 0; i < count; i++) carry[i] = 0;
    for (size_t i = 0; i < count; i++) before[i] = 1;
    for (uint64_t k = 0; k <= last; k++) {
        uint64_t at = (frame->reverse ? k : last - k) * frame->stride * size;
        const double *given =
            tn__convert_block(frame->dtype, dy + at, TN_FLOAT64, &given_room, count);
        const double *factor =
            tn__convert_block(frame->dtype, x + at, TN_FLOAT64, &factor_room, count);
        for (size_t i = 0; i < count; i++) {
            /* `carry` is what the later results contribute; in the exclusive form y_i has no x_i */
            result.doubles[i] = carry[i] + (frame->exclusive ? 0 : given[i]);
            carry[i] = factor[i] * result.doubles[i] + (frame->exclusive ? given[i] : 0);
        }
        tn__convert(TN_FLOAT64, &result, frame->dtype, dx + at, count);
    }
    for (uint64_t k = 0; k <= last; k++) {
        uint64_t at = (frame->reverse ? last - k : k) * frame->stride * size;
        const double *factor =
            tn__convert_block(frame->dtype, x + at, TN_FLOAT64, &factor_room, count);
        const double *sums =
            tn__convert_block(frame->dtype, dx + at, TN_FLOAT64, &given_room, count);
        for (size_t i = 0; i < count; i++) {
            result.doubles[i] = before[i] * sums[i];
            before[i] *= factor[i];
        }
        tn__convert(TN_FLOAT64, &result, frame->dtype, dx + at, count);
    }
}

static tn_status cumulate_back_run(tn_kernel_call *call) {
    const tn_operand *dy = &call->inputs[0], *x = &call->inputs[1];
    uint32_t axis;
    TN_TRY(tn__check_shape(call, 0, x->rank, x->shape));
    TN_TRY(tn__check_result(call, 0, x->rank, x->shape));
    TN_TRY(tn__check_count(call, 2, 1));
    TN_TRY(tn__call_axis(call, tn__operand_int(&call->inputs[2], 0), x->rank, &axis));
    const cumulate_frame frame = {.dtype = x->dtype,
                                  .load = TN_FLOAT64,
                                  .extent = (uint64_t)x->shape[axis],
                                  .stride = tn__operand_span(x, axis + 1, x->rank),
                                  .exclusive = tn__attr_int(call->op, "exclusive", 0) != 0,
                                  .reverse = tn__attr_int(call->op, "reverse", 0) != 0,
                                  .product = true};
    const size_t size = tn__element_size(x->dtype);
    const uint64_t outer = frame.extent > 0 ? tn__operand_span(x, 0, axis) : 0;
    for (uint64_t o = 0; o < outer; o++)
        for (uint64_t done = 0; done < frame.stride; done += TN__BLOCK) {
            uint64_t left = frame.stride - done,
                     at = (o * frame.extent * frame.stride + done) * size;
            cumulate_back_rows(&frame, (const char *)dy->data + at, (const char *)x->data + at,
                               (char *)call->outputs[0].data + at,
                               left < TN__BLOCK ? (size_t)left : TN__BLOCK);
        }
    return TN_OK;
}

static bool cumulate_back_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_SUMMED, 3, 1) &&
           tn__input_is(setup, 2, TN__TYPES_INDEX);
}

/* --- sums over all dimensions except the channels of a channels-last tensor ---
 *
 * This is the gradient of a convolution's bias. Rows of channels are added one after the other in
 * float64, without moving elements first.
 */

static bool reduce_channels_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0);
    const tn_tensor *y = tn__setup_output(setup, 0);
    const tn_value *value = tn__setup_value(setup, 1);
    uint32_t seen = 0;
    if (x == NULL || y == NULL || !tn__is_short_float(x->dtype) || y->dtype != x->dtype ||
        x->format.order != TN_ORDER_NHWC || x->format.block != 0 || x->rank < 3 ||
        y->format.order == TN_ORDER_NHWC || (x->flags & TN_TENSOR_BOUND) != 0 || value == NULL ||
        value->ints == NULL)
        return false;
    for (uint64_t i = 0; i < value->count; i++) {
        int64_t axis = value->ints[i] + (value->ints[i] < 0 ? (int64_t)x->rank : 0);
        if (axis >= 0 && axis < (int64_t)x->rank) seen |= 1u << axis;
    }
    return seen == (((1u << x->rank) - 1) & ~2u) && x->shape[1] >= 0;
}

static uint64_t reduce_channels_workspace(const tn_kernel_setup *setup) {
    return tn__mul_sat((uint64_t)tn__setup_input(setup, 0)->shape[1], sizeof(double));
}

TN_WIDE static void reduce_channels_add(uint64_t channels, const float *row, double *sums) {
    TN_APART
    for (uint64_t c = 0; c < channels; c++) sums[c] += (double)row[c];
}

static tn_status reduce_channels_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0];
    uint64_t channels = (uint64_t)x->shape[1], count = tn__operand_count(x);
    const char *from = x->data;
    size_t size = tn__element_size(x->dtype);
    double *sums = call->workspace;
    tn__block_room room;
    TN_TRY(tn__check_scratch(call, channels * sizeof *sums));
    for (uint64_t c = 0; c < channels; c++) sums[c] = 0;
    for (uint64_t at = 0; at < count; at += channels)
        for (uint64_t c = 0; c < channels; c += TN__BLOCK) {
            uint64_t some = channels - c < TN__BLOCK ? channels - c : TN__BLOCK;
            const float *row =
                tn__convert_block(x->dtype, from + (at + c) * size, TN_FLOAT32, &room, some);
            reduce_channels_add(some, row, sums + c);
        }
    tn__convert(TN_FLOAT64, sums, x->dtype, call->outputs[0].data, channels);
    return TN_OK;
}

static const tn_kernel reduce_kernels[] = {
    {.type = "ReduceSum",
     .accepts = reduce_channels_accepts,
     .workspace = reduce_channels_workspace,
     .run = reduce_channels_run,
     .formats = true},
    REDUCE_ENTRY(ReduceL1),
    REDUCE_ENTRY(ReduceL2),
    REDUCE_ENTRY(ReduceLogSum),
    REDUCE_ENTRY(ReduceLogSumExp),
    REDUCE_ENTRY(ReduceMax),
    REDUCE_ENTRY(ReduceMean),
    REDUCE_ENTRY(ReduceMin),
    REDUCE_ENTRY(ReduceProd),
    REDUCE_ENTRY(ReduceSum),
    REDUCE_ENTRY(ReduceSumSquare),
    {.type = "ArgMax", .accepts = tn__numeric_accepts, .run = arg_run_max},
    {.type = "ArgMin", .accepts = tn__numeric_accepts, .run = arg_run_min},
    {.type = "CumProd", .accepts = tn__numeric_accepts, .run = cumulate_run},
    {.domain = "tenure",
     .type = "CumProdGrad",
     .accepts = cumulate_back_accepts,
     .run = cumulate_back_run},
    {.type = "CumSum", .accepts = tn__numeric_accepts, .run = cumulate_run},
};

TN_KERNEL_FAMILY(reduce, "");
