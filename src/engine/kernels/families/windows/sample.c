/* sample.c - operators that read images between pixels: GridSample and its gradient, AffineGrid and
 * its gradient (the coordinates for GridSample), DeformConv, RoiAlign, MaxRoiPool.
 *
 * A sample is a weighted sum over the pixels around it, with one weight for each axis and pixel
 * coordinate (tap). Sums are in float64 and rounded once. In mode max, RoiAlign returns the largest
 * product of a pixel and its weight, not the largest sample; all reference implementations do this.
 *
 * Cost:   O(samples x taps), no scratch memory. DeformConv: O(samples x (taps + output channels))
 * for each offset group; scratch memory for the samples of one output position.
 * Source: the ONNX specifications, opsets 1 to 22; RoiAlign: K. He et al., Mask R-CNN, 2017;
 * MaxRoiPool: R. Girshick, Fast R-CNN, 2015; cubic: R. Keys, 1981, with a = -0.75;
 * DeformConv: X. Zhu et al., Deformable ConvNets v2, CVPR 2019.
 */
#include <math.h>

#include "engine/kernels/loops/box.h"
#include "engine/kernels/loops/slide.h"
#include "engine/kernels/operands.h"

/* SAMPLE_FAR: regions with coordinates beyond this number of pixels are refused */
enum { SAMPLE_TAPS = 4, SAMPLE_AXES = 8, SAMPLE_FAR = 65536 };

/* --- GridSample: X [N, C, in...], grid [N, out..., axes], coordinates of the last axis first
 * ------ */

typedef enum sample_padding { SAMPLE_ZEROS, SAMPLE_BORDER, SAMPLE_REFLECTION } sample_padding;

typedef struct sample_plan {
    uint32_t axes, taps;
    bool align, cubic, nearest;
    sample_padding padding;
    /* extents and strides of the input; strides are in elements */
    int64_t extent[SAMPLE_AXES], stride[SAMPLE_AXES];
    /* pixel coordinates of the current sample; -1: a pixel outside the image, which counts as 0 */
    int64_t source[SAMPLE_AXES][SAMPLE_TAPS];
    double weight[SAMPLE_AXES][SAMPLE_TAPS];
    /* derivatives of the weights with respect to the coordinate in [-1, 1]; only for the
     * gradient */
    double slope[SAMPLE_AXES][SAMPLE_TAPS];
} sample_plan;

/* Reflects x at `low` and `high` until it is between them. */
static double sample_reflect(double x, double low, double high) {
    double span = high - low;
    if (!(span > 0) || !isfinite(x)) return low;
    double way = fmod(fabs(x - low), 2 * span);
    return low + (way > span ? 2 * span - way : way);
}

/* Moves a coordinate into the image as the padding mode requires. With zero padding, it may stay
 * outside; also with the border's, if the mode is cubic: then its taps are moved. */
static double sample_inside(const sample_plan *plan, uint32_t d, double x) {
    double last = (double)(plan->extent[d] - 1);
    if (plan->padding == SAMPLE_BORDER && !plan->cubic) return !(x > 0) ? 0 : x > last ? last : x;
    double edge = plan->align ? 0 : 0.5;
    if (plan->padding == SAMPLE_REFLECTION && (x < -edge || x > last + edge))
        return sample_reflect(x, -edge, last + edge);
    return x;
}

static int64_t sample_pixel(const sample_plan *plan, uint32_t d, double x) {
    double last = (double)(plan->extent[d] - 1);
    x = sample_inside(plan, d, x);
    if (plan->padding != SAMPLE_ZEROS) x = !(x > 0) ? 0 : x > last ? last : x;
    return x >= 0 && x <= last ? (int64_t)x : -1;
}

static void sample_cubic(double r, double *weight) {
    static const double a = -0.75;
    for (int t = 0; t < SAMPLE_TAPS; t++) {
        double s = fabs(r + 1 - t);
        weight[t] = s <= 1 ? ((a + 2) * s - (a + 3)) * s * s + 1
                           : ((a * s - 5 * a) * s + 8 * a) * s - 4 * a;
    }
}

/* The derivatives of the weights of sample_cubic. */
static void sample_cubic_slope(double r, double *slope) {
    static const double a = -0.75;
    for (int t = 0; t < SAMPLE_TAPS; t++) {
        double s = fabs(r + 1 - t), sign = r + 1 - t < 0 ? -1 : 1;
        slope[t] = sign * (s <= 1 ? (3 * (a + 2) * s - 2 * (a + 3)) * s
                                  : (3 * a * s - 10 * a) * s + 8 * a);
    }
}

/* Computes the pixel coordinates and weights (taps) along axis d for a coordinate in [-1, 1]. */
static void sample_taps(sample_plan *plan, uint32_t d, double given) {
    double extent = (double)plan->extent[d];
    double x = plan->align ? (given + 1) / 2 * (extent - 1) : ((given + 1) * extent - 1) / 2;
    if (plan->nearest) x = nearbyint(x);
    x = sample_inside(plan, d, x);
    double low = plan->nearest ? nearbyint(x) : floor(x), r = x - low;
    plan->weight[d][0] = plan->nearest ? 1 : 1 - r;
    plan->weight[d][1] = r;
    if (plan->cubic) sample_cubic(r, plan->weight[d]);
    if (plan->cubic) low -= 1;
    for (uint32_t t = 0; t < plan->taps; t++) plan->source[d][t] = sample_pixel(plan, d, low + t);
}

/* Returns the weighted sum over all combinations of one tap per axis, in the image that begins at
 * element `first`. */
static double sample_sum(const sample_plan *plan, const tn_operand *from, uint64_t first) {
    uint32_t choice[SAMPLE_AXES] = {0}, d;
    double sum = 0;
    do {
        double weight = 1;
        int64_t at = 0;
        for (d = 0; d < plan->axes; d++) {
            int64_t source = plan->source[d][choice[d]];
            weight *= source < 0 ? 0 : plan->weight[d][choice[d]];
            at += (source < 0 ? 0 : source) * plan->stride[d];
        }
        if (weight != 0) sum += weight * tn__operand_float(from, first + (uint64_t)at);
        for (d = plan->axes; d-- > 0 && ++choice[d] == plan->taps;) choice[d] = 0;
    } while (d != UINT32_MAX);
    return sum;
}

/* Computes the derivatives of the weights along axis d, after sample_taps. */
static void sample_slopes(sample_plan *plan, uint32_t d, double given) {
    double extent = (double)plan->extent[d], factor = (plan->align ? extent - 1 : extent) / 2;
    double x = plan->align ? (given + 1) / 2 * (extent - 1) : ((given + 1) * extent - 1) / 2;
    double moved = sample_inside(plan, d, x);
    if (moved != x) { /* the border stands still; a reflection has a direction */
        double edge = plan->align ? 0 : 0.5, span = extent - 1 + 2 * edge;
        bool back = span > 0 && fmod(fabs(x + edge), 2 * span) > span;
        if (plan->padding == SAMPLE_BORDER || !(span > 0)) factor = 0;
        if (plan->padding == SAMPLE_REFLECTION && back != (x < -edge)) factor = -factor;
    }
    plan->slope[d][0] = -factor;
    plan->slope[d][1] = factor;
    if (plan->cubic) sample_cubic_slope(moved - floor(moved), plan->slope[d]);
    for (uint32_t t = 0; t < plan->taps; t++) {
        if (plan->nearest) plan->slope[d][t] = 0;
        if (plan->cubic) plan->slope[d][t] *= factor;
    }
}

static void sample_store(tn_operand *to, uint64_t index, double value) {
    if (!tn__is_real(to->dtype)) value = nearbyint(value);
    tn__store(to->dtype, (char *)to->data + index * tn__width(to->dtype), value);
}

static void sample_modes(const tn_op *op, sample_plan *plan) {
    const char *mode = tn__attr_string(op, "mode", "bilinear");
    const char *padding = tn__attr_string(op, "padding_mode", "zeros");
    plan->cubic = strcmp(mode, "bicubic") == 0 || strcmp(mode, "cubic") == 0;
    plan->nearest = strcmp(mode, "nearest") == 0;
    plan->taps = plan->cubic ? SAMPLE_TAPS : plan->nearest ? 1 : 2;
    plan->align = tn__attr_int(op, "align_corners", 0) != 0;
    plan->padding = strcmp(padding, "border") == 0       ? SAMPLE_BORDER
                    : strcmp(padding, "reflection") == 0 ? SAMPLE_REFLECTION
                                                         : SAMPLE_ZEROS;
}

/* Reads the plan of GridSample for image `from` and a grid. `shape` gets the shape of the result:
 * one value per channel and point. */
static tn_status sample_read_grid(const tn_kernel_call *call, const tn_operand *from,
                                  const tn_operand *grid, sample_plan *plan, int64_t *shape) {
    uint32_t rank = from->rank;
    int64_t stride = 1;
    *plan = (sample_plan){.axes = rank - 2};
    sample_modes(call->op, plan);
    if (rank < 3 || rank > SAMPLE_AXES + 2 || grid->rank != rank ||
        grid->shape[rank - 1] != plan->axes || grid->shape[0] != from->shape[0])
        return tn__call_fail(call, TN_E_INVALID, "picture and grid do not belong together");
    for (uint32_t d = 0; d < rank; d++) shape[d] = d < 2 ? from->shape[d] : grid->shape[d - 1];
    for (uint32_t d = plan->axes; d-- > 0; stride *= plan->extent[d]) {
        plan->extent[d] = from->shape[d + 2];
        plan->stride[d] = stride;
    }
    return TN_OK;
}

static tn_status sample_check_extents(const tn_kernel_call *call, const sample_plan *plan) {
    for (uint32_t d = 0; d < plan->axes; d++)
        if (plan->extent[d] == 0) return tn__call_fail(call, TN_E_INVALID, "axis %u is empty", d);
    return TN_OK;
}

static tn_status sample_grid(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0], *grid = &call->inputs[1];
    tn_operand *to = &call->outputs[0];
    uint32_t rank = from->rank;
    sample_plan plan;
    int64_t shape[SAMPLE_AXES + 2];
    TN_TRY(sample_read_grid(call, from, grid, &plan, shape));
    TN_TRY(tn__call_shape(call, 0, rank, shape));
    uint64_t points = tn__operand_span(to, 2, rank), channels = (uint64_t)from->shape[1];
    if (tn__operand_count(to) == 0) return TN_OK;
    TN_TRY(sample_check_extents(call, &plan));
    uint64_t stride = tn__operand_span(from, 2, rank);
    for (uint64_t i = 0; i < (uint64_t)shape[0] * points; i++) {
        for (uint32_t d = 0; d < plan.axes; d++)
            sample_taps(&plan, d, tn__operand_float(grid, (i + 1) * plan.axes - 1 - d));
        uint64_t plane = i / points * channels;
        for (uint64_t c = 0; c < channels; c++)
            sample_store(to, (plane + c) * points + i % points,
                         sample_sum(&plan, from, (plane + c) * stride));
    }
    return TN_OK;
}

static bool sample_accepts_grid(const tn_kernel_setup *setup) {
    static const char *const modes[] = {"bilinear", "linear", "nearest", "bicubic", "cubic"};
    const char *mode = tn__attr_string(setup->op, "mode", "bilinear");
    const tn_tensor *from = tn__setup_input(setup, 0);
    bool known = false;
    for (uint32_t i = 0; i < sizeof modes / sizeof *modes; i++)
        known = known || strcmp(mode, modes[i]) == 0;
    return known && from->rank <= SAMPLE_AXES + 2 && tn__accepts_numbers(setup);
}

/* Adds the parts of one element `dy` of the gradient to those of the image (`dx`; NULL: none) and
 * of the coordinates (`moves`), for the image that begins at element `first`. */
static void sample_back(const sample_plan *plan, double dy, const tn_operand *from,
                        const tn_operand *dx, uint64_t first, double *moves) {
    uint32_t choice[SAMPLE_AXES] = {0}, d;
    do {
        double weight = 1;
        bool inside = true;
        int64_t at = 0;
        for (d = 0; d < plan->axes; d++) {
            int64_t source = plan->source[d][choice[d]];
            inside = inside && source >= 0;
            weight *= plan->weight[d][choice[d]];
            at += source * plan->stride[d];
        }
        if (inside) {
            uint64_t index = first + (uint64_t)at;
            double value = tn__operand_float(from, index) * dy;
            if (dx != NULL && dx->dtype == TN_FLOAT32)
                ((float *)dx->data)[index] += (float)(weight * dy);
            if (dx != NULL && dx->dtype == TN_FLOAT64) ((double *)dx->data)[index] += weight * dy;
            for (d = 0; d < plan->axes; d++) {
                double slope = plan->slope[d][choice[d]];
                for (uint32_t e = 0; e < plan->axes; e++)
                    if (e != d) slope *= plan->weight[e][choice[e]];
                moves[d] += slope * value;
            }
        }
        for (d = plan->axes; d-- > 0 && ++choice[d] == plan->taps;) choice[d] = 0;
    } while (d != UINT32_MAX);
}

/* GridSampleGrad: dy, X, grid -> dX, d grid */
static tn_status sample_grid_back(tn_kernel_call *call) {
    const tn_operand *dy = &call->inputs[0], *from = &call->inputs[1], *grid = &call->inputs[2];
    tn_operand *dx = tn__call_output(call, 0), *moved = tn__call_output(call, 1);
    sample_plan plan;
    int64_t shape[SAMPLE_AXES + 2];
    TN_TRY(sample_read_grid(call, from, grid, &plan, shape));
    TN_TRY(tn__check_shape(call, 0, from->rank, shape));
    TN_TRY(tn__check_result(call, 0, from->rank, from->shape));
    TN_TRY(tn__check_result(call, 1, grid->rank, grid->shape));
    if (dx != NULL) memset(dx->data, 0, tn__operand_bytes(dx));
    if (moved != NULL) memset(moved->data, 0, tn__operand_bytes(moved));
    if (tn__operand_count(dy) == 0) return TN_OK;
    TN_TRY(sample_check_extents(call, &plan));
    uint64_t points = tn__operand_span(dy, 2, dy->rank), channels = (uint64_t)from->shape[1];
    uint64_t stride = tn__operand_span(from, 2, from->rank);
    for (uint64_t i = 0; i < (uint64_t)shape[0] * points; i++) {
        double moves[SAMPLE_AXES] = {0};
        for (uint32_t d = 0; d < plan.axes; d++) {
            double given = tn__operand_float(grid, (i + 1) * plan.axes - 1 - d);
            sample_taps(&plan, d, given);
            sample_slopes(&plan, d, given);
        }
        uint64_t plane = i / points * channels;
        for (uint64_t c = 0; c < channels; c++) {
            double given = tn__operand_float(dy, (plane + c) * points + i % points);
            sample_back(&plan, given, from, dx, (plane + c) * stride, moves);
        }
        for (uint32_t d = 0; d < plan.axes && moved != NULL; d++)
            sample_store(moved, (i + 1) * plan.axes - 1 - d, moves[d]);
    }
    return TN_OK;
}

static bool sample_accepts_grid_back(const tn_kernel_setup *setup) {
    const tn_tensor *from = tn__setup_input(setup, 1);
    return tn__input_is(setup, 0, TN__TYPES_SUMMED) && from != NULL &&
           from->rank <= SAMPLE_AXES + 2 && tn__input_is(setup, 1, TN__TYPES_SUMMED) &&
           tn__input_is(setup, 2, TN__TYPES_SUMMED) &&
           tn__output_may_be(setup, 0, TN__TYPES_SUMMED) &&
           tn__output_may_be(setup, 1, TN__TYPES_SUMMED);
}

/* --- AffineGrid: theta [N, axes, axes + 1] and a size (N, C, extents...) give [N, extents...,
 * axes], coordinates of the last axis first --- */

/* The coordinate of pixel `at` of `extent`, in [-1, 1]; with `align`, the outermost pixels are at
 * -1 and 1. */
static double sample_place(int64_t at, int64_t extent, bool align) {
    if (align) return extent > 1 ? 2 * (double)at / (double)(extent - 1) - 1 : -1;
    return (2 * (double)at + 1) / (double)extent - 1;
}

/* Computes the factors of the columns of theta at one place: coordinates, last axis first, and
 * 1. */
static void sample_base(const tn__walk *walk, bool align, double *base) {
    for (uint32_t d = 0; d < walk->rank; d++)
        base[walk->rank - 1 - d] = sample_place(walk->place[d], walk->extent[d], align);
    base[walk->rank] = 1;
}

static tn_status sample_affine(tn_kernel_call *call) {
    const tn_operand *theta = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    int64_t size[SAMPLE_AXES + 2], shape[SAMPLE_AXES + 2];
    bool given, align = tn__attr_int(call->op, "align_corners", 0) != 0;
    uint32_t count;
    TN_TRY(tn__call_list(call, 1, NULL, SAMPLE_AXES + 2, size, &count, &given));
    if (count < 3) return tn__call_bad_shape(call, 1);
    uint32_t axes = count - 2;
    tn__walk walk = {.rank = axes};
    const int64_t matrix[3] = {size[0], axes, axes + 1};
    TN_TRY(tn__check_shape(call, 0, 3, matrix));
    shape[0] = size[0];
    for (uint32_t d = 0; d < axes; d++) shape[1 + d] = walk.extent[d] = size[2 + d];
    shape[count - 1] = axes;
    for (uint32_t d = 0; d < count; d++)
        if (size[d] < 0) return tn__call_bad_shape(call, 1);
    TN_TRY(tn__call_shape(call, 0, count, shape));
    if (tn__operand_count(to) == 0) return TN_OK;
    uint64_t next = 0;
    for (int64_t n = 0; n < size[0]; n++) do {
            double base[SAMPLE_AXES + 1];
            sample_base(&walk, align, base);
            for (uint32_t i = 0; i < axes; i++) {
                uint64_t row = ((uint64_t)n * axes + i) * (axes + 1);
                double sum = 0;
                for (uint32_t j = 0; j <= axes; j++)
                    sum += tn__operand_float(theta, row + j) * base[j];
                sample_store(to, next++, sum);
            }
        } while (tn__walk_next(&walk));
    return TN_OK;
}

/* AffineGridGrad: d grid -> d theta */
static tn_status sample_affine_back(tn_kernel_call *call) {
    const tn_operand *dy = &call->inputs[0];
    tn_operand *to = &call->outputs[0];
    bool align = tn__attr_int(call->op, "align_corners", 0) != 0;
    if (dy->rank < 3 || dy->rank > SAMPLE_AXES + 2 || dy->shape[dy->rank - 1] != dy->rank - 2)
        return tn__call_bad_shape(call, 0);
    uint32_t axes = dy->rank - 2;
    const int64_t shape[3] = {dy->shape[0], axes, axes + 1};
    tn__walk walk = {.rank = axes};
    for (uint32_t d = 0; d < axes; d++) walk.extent[d] = dy->shape[1 + d];
    TN_TRY(tn__call_shape(call, 0, 3, shape));
    memset(to->data, 0, tn__operand_bytes(to));
    if (tn__operand_count(dy) == 0) return TN_OK;
    uint64_t next = 0, each = axes * (axes + 1);
    for (uint64_t n = 0; n < (uint64_t)shape[0]; n++) {
        double sums[SAMPLE_AXES * (SAMPLE_AXES + 1)] = {0};
        do {
            double base[SAMPLE_AXES + 1];
            sample_base(&walk, align, base);
            for (uint32_t i = 0; i < axes; i++, next++)
                for (uint32_t j = 0; j <= axes; j++)
                    sums[i * (axes + 1) + j] += tn__operand_float(dy, next) * base[j];
        } while (tn__walk_next(&walk));
        for (uint64_t i = 0; i < each; i++) sample_store(to, n * each + i, sums[i]);
    }
    return TN_OK;
}

static bool sample_accepts_real(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_REAL, 1, 0) && tn__accepts_bytes(setup);
}

/* --- DeformConv: a convolution that reads X at the places of its window plus offsets --- */

typedef struct deform_job {
    tn__slide slide;
    sample_plan plan; /* the image, read between pixels; outside it is 0 */
    const tn_operand *x, *w, *offsets, *mask;
    uint64_t channels, filters, groups, offset_groups;
} deform_job;

static tn_status deform_read(tn_kernel_call *call, deform_job *job) {
    const tn_operand *x = &call->inputs[0], *w = &call->inputs[1];
    const tn_operand *y = &call->outputs[0];
    int64_t groups = tn__attr_int(call->op, "group", 1);
    int64_t offset_groups = tn__attr_int(call->op, "offset_group", 1);
    uint32_t axes = x->rank - 2;
    if (x->rank < 3 || axes > SAMPLE_AXES || w->rank != x->rank || y->rank != x->rank)
        return tn__call_bad_shape(call, 1);
    if (groups < 1 || offset_groups < 1 || x->shape[1] % groups != 0 ||
        x->shape[1] / groups != w->shape[1] || w->shape[0] % groups != 0 ||
        x->shape[1] % offset_groups != 0)
        return tn__call_fail(call, TN_E_INVALID, "%lld and %lld groups for %lld channels",
                             (long long)groups, (long long)offset_groups, (long long)x->shape[1]);
    *job = (deform_job){.x = x,
                        .w = w,
                        .offsets = &call->inputs[2],
                        .mask = tn__call_input(call, 4),
                        .channels = (uint64_t)x->shape[1],
                        .filters = (uint64_t)w->shape[0],
                        .groups = (uint64_t)groups,
                        .offset_groups = (uint64_t)offset_groups,
                        .plan = {.axes = axes, .taps = 2}};
    TN_TRY(tn__slide_read(call, x, w->shape + 2, y, false, &job->slide));
    int64_t shape[SAMPLE_AXES + 2] = {x->shape[0]}, stride = 1, taps = (int64_t)job->slide.taps;
    for (uint32_t d = 0; d < axes; d++) shape[2 + d] = y->shape[2 + d];
    for (uint32_t d = axes; d-- > 0; stride *= job->plan.extent[d]) {
        job->plan.extent[d] = x->shape[2 + d];
        job->plan.stride[d] = stride;
    }
    if (__builtin_mul_overflow(taps, offset_groups, &shape[1])) return tn__call_bad_shape(call, 4);
    TN_TRY(tn__check_shape(call, 4, x->rank, shape));
    if (__builtin_mul_overflow(shape[1], (int64_t)axes, &shape[1]))
        return tn__call_bad_shape(call, 2);
    TN_TRY(tn__check_shape(call, 2, x->rank, shape));
    shape[1] = w->shape[0];
    TN_TRY(tn__check_count(call, 3, job->filters));
    return tn__check_result(call, 0, x->rank, shape);
}

/* Finds the pixels around the place that tap `tap` of a window reads: the window at `position`, tap
 * at `window`, moved by the offsets of group `g` of image n at output `at`. */
static void deform_place(deform_job *job, const int64_t *position, const int64_t *window,
                         uint64_t first, uint64_t at) {
    const tn__slide *slide = &job->slide;
    for (uint32_t d = 0; d < slide->spatial; d++) {
        double x = (double)(position[d] * slide->stride[d] - slide->begin[d] +
                            window[d] * slide->dilation[d]);
        x += tn__operand_float(job->offsets, (first + d) * slide->output_area + at);
        double low = floor(x);
        job->plan.weight[d][0] = 1 - (x - low);
        job->plan.weight[d][1] = x - low;
        for (uint32_t t = 0; t < 2; t++)
            job->plan.source[d][t] = sample_pixel(&job->plan, d, low + t);
    }
}

/* Reads the samples of the window at one output of image n, for all channels, into `seen`
 * [channels][taps]. */
static void deform_window(deform_job *job, uint64_t n, uint64_t at, double *seen) {
    const tn__slide *slide = &job->slide;
    uint64_t taps = slide->taps, each = job->channels / job->offset_groups;
    int64_t position[TN__SLIDE_MAX];
    tn__walk window = {.rank = slide->spatial};
    tn__slide_position(slide, at, position);
    for (uint32_t d = 0; d < slide->spatial; d++) window.extent[d] = slide->kernel[d];
    for (uint64_t g = 0; g < job->offset_groups; g++)
        for (uint64_t tap = 0; tap < taps; tap++) {
            uint64_t entry = (n * job->offset_groups + g) * taps + tap;
            deform_place(job, position, window.place, entry * slide->spatial, at);
            double factor = 1;
            if (job->mask != NULL)
                factor = tn__operand_float(job->mask, entry * slide->output_area + at);
            for (uint64_t c = g * each; c < (g + 1) * each; c++) {
                uint64_t plane = (n * job->channels + c) * slide->input_area;
                seen[c * taps + tap] = factor * sample_sum(&job->plan, job->x, plane);
            }
            tn__walk_next(&window);
        }
}

static tn_status deform_run(tn_kernel_call *call) {
    tn_operand *y = &call->outputs[0];
    const tn_operand *bias = tn__call_input(call, 3);
    double *seen = call->workspace;
    deform_job job;
    TN_TRY(deform_read(call, &job));
    if (tn__operand_count(y) == 0) return TN_OK;
    uint64_t area = job.slide.output_area, taps = job.slide.taps;
    uint64_t row = job.channels / job.groups * taps, each = job.filters / job.groups;
    TN_TRY(tn__call_scratch(call, tn__mul_sat(tn__mul_sat(job.channels, taps), sizeof *seen)));
    for (uint64_t n = 0; n < (uint64_t)job.x->shape[0]; n++)
        for (uint64_t at = 0; at < area; at++) {
            deform_window(&job, n, at, seen);
            for (uint64_t f = 0; f < job.filters; f++) {
                double sum = bias != NULL ? tn__operand_float(bias, f) : 0;
                for (uint64_t i = 0; i < row; i++)
                    sum += tn__operand_float(job.w, f * row + i) * seen[f / each * row + i];
                sample_store(y, (n * job.filters + f) * area + at, sum);
            }
        }
    return TN_OK;
}

static bool deform_accepts(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0);
    return x != NULL && x->rank >= 3 && x->rank <= SAMPLE_AXES + 2 &&
           tn__types_agree(setup, TN__TYPES_REAL, 1 | 2 | 4 | 8 | 16, 0) &&
           tn__accepts_bytes(setup);
}

static uint64_t deform_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *x = tn__setup_input(setup, 0), *w = tn__setup_input(setup, 1);
    if (w == NULL || w->rank != x->rank) return 0;
    uint64_t bytes = tn__mul_sat((uint64_t)x->shape[1], sizeof(double));
    for (uint32_t d = 2; d < w->rank; d++) bytes = tn__mul_sat(bytes, (uint64_t)w->shape[d]);
    return bytes;
}

/* --- RoiAlign --- */

typedef struct sample_roi {
    int64_t batch;
    double top, left, height, width; /* region of interest, in pixels of the image */
} sample_roi;

/* Finds the four pixels around the point (y, x) and their weights. Returns false if the point is
 * outside the image; its value is then 0. */
static bool sample_corners(double y, double x, int64_t height, int64_t width, uint64_t at[4],
                           double weight[4]) {
    if (!(y >= -1 && y <= (double)height && x >= -1 && x <= (double)width)) return false;
    y = y < 0 ? 0 : y > (double)(height - 1) ? (double)(height - 1) : y;
    x = x < 0 ? 0 : x > (double)(width - 1) ? (double)(width - 1) : x;
    double down = y - floor(y), right = x - floor(x);
    uint64_t row = (uint64_t)y, column = (uint64_t)x;
    uint64_t below = row + 1 < (uint64_t)height ? row + 1 : row;
    uint64_t behind = column + 1 < (uint64_t)width ? column + 1 : column;
    for (uint32_t i = 0; i < 4; i++) {
        at[i] = (i < 2 ? row : below) * (uint64_t)width + (i % 2 ? behind : column);
        weight[i] = (i < 2 ? 1 - down : down) * (i % 2 ? right : 1 - right);
    }
    return true;
}

/* Computes one output element: the average or maximum of samples on a regular grid in one cell of a
 * region. */
static double sample_cell(const tn_operand *from, uint64_t first, double top, double left,
                          double height, double width, int64_t rows, int64_t columns, bool max) {
    double sum = 0, most = 0;
    bool any = false;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < columns; j++) {
            uint64_t at[4];
            double weight[4], y = top + ((double)i + 0.5) * height / (double)rows;
            double x = left + ((double)j + 0.5) * width / (double)columns;
            bool inside = sample_corners(y, x, from->shape[2], from->shape[3], at, weight);
            for (uint32_t c = 0; c < 4; c++) {
                double value = inside ? weight[c] * tn__operand_float(from, first + at[c]) : 0;
                sum += value;
                if (!any || value > most) most = value;
                any = true;
            }
        }
    return max ? most : any ? sum / (double)(rows * columns) : 0;
}

static tn_status sample_read_roi(const tn_kernel_call *call, uint64_t index, sample_roi *roi) {
    const tn_operand *from = &call->inputs[0], *rois = &call->inputs[1];
    double v[4], scale = tn__attr_float(call->op, "spatial_scale", 1);
    const char *how = tn__attr_string(call->op, "coordinate_transformation_mode", "half_pixel");
    bool half = call->version >= 16 && strcmp(how, "half_pixel") == 0;
    for (uint32_t i = 0; i < 4; i++)
        v[i] = tn__operand_float(rois, 4 * index + i) * scale - (half ? 0.5 : 0);
    roi->batch = tn__index(&call->inputs[2], index);
    roi->left = v[0];
    roi->top = v[1];
    roi->width = v[2] - v[0];
    roi->height = v[3] - v[1];
    if (!half) { /* a region is made at least one pixel high and wide */
        roi->width = fmax(roi->width, 1);
        roi->height = fmax(roi->height, 1);
    }
    for (uint32_t i = 0; i < 4; i++)
        if (!(fabs(v[i]) <= SAMPLE_FAR))
            return tn__call_fail(call, TN_E_INVALID, "region %llu is out of range",
                                 (unsigned long long)index);
    if (roi->batch < 0 || roi->batch >= from->shape[0])
        return tn__call_bad_index(call, roi->batch, 0, from->shape[0]);
    return TN_OK;
}

static tn_status sample_align(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0], *rois = &call->inputs[1];
    tn_operand *to = &call->outputs[0];
    int64_t rows = tn__attr_int(call->op, "output_height", 1);
    int64_t columns = tn__attr_int(call->op, "output_width", 1);
    int64_t ratio = tn__attr_int(call->op, "sampling_ratio", 0);
    bool max = strcmp(tn__attr_string(call->op, "mode", "avg"), "max") == 0;
    if (from->rank != 4 || rois->rank != 2 || rois->shape[1] != 4 || rows < 1 || columns < 1 ||
        ratio < 0 || ratio > 65535 ||
        tn__operand_count(&call->inputs[2]) != (uint64_t)rois->shape[0])
        return tn__call_fail(call, TN_E_INVALID, "pictures, regions and batch indices do not fit");
    int64_t shape[4] = {rois->shape[0], from->shape[1], rows, columns};
    TN_TRY(tn__call_shape(call, 0, 4, shape));
    uint64_t plane = tn__operand_span(from, 2, 4), next = 0;
    for (int64_t r = 0; r < shape[0] && plane > 0; r++) {
        sample_roi roi;
        TN_TRY(sample_read_roi(call, (uint64_t)r, &roi));
        double height = roi.height / (double)rows, width = roi.width / (double)columns;
        int64_t down = ratio ? ratio : (int64_t)fmax(ceil(height), 0);
        int64_t across = ratio ? ratio : (int64_t)fmax(ceil(width), 0);
        for (int64_t c = 0; c < shape[1]; c++)
            for (int64_t i = 0; i < rows * columns; i++) {
                uint64_t first = (uint64_t)(roi.batch * shape[1] + c) * plane;
                double top = roi.top + (double)(i / columns) * height;
                double left = roi.left + (double)(i % columns) * width;
                sample_store(to, next++,
                             sample_cell(from, first, top, left, height, width, down, across, max));
            }
    }
    return TN_OK;
}

/* --- MaxRoiPool: rois [R, 5] of (batch, left, top, right, bottom), both ends inside
 * --------------- */

/* Computes the pixels [*first, *last) of cell `at` of `cells` along an axis, limited to the
 * image. */
static void sample_bin(double begin, double size, int64_t at, int64_t cells, int64_t extent,
                       int64_t *first, int64_t *last) {
    double low = begin + floor((double)at * size / (double)cells);
    double high = begin + ceil((double)(at + 1) * size / (double)cells);
    *first = !(low > 0) ? 0 : low > (double)extent ? extent : (int64_t)low;
    *last = !(high > 0) ? 0 : high > (double)extent ? extent : (int64_t)high;
}

static double sample_most(const tn_operand *from, uint64_t first, const int64_t rows[2],
                          const int64_t columns[2]) {
    double most = 0; /* the maximum of a cell without pixels is 0 */
    bool any = false;
    for (int64_t y = rows[0]; y < rows[1]; y++)
        for (int64_t x = columns[0]; x < columns[1]; x++) {
            double value = tn__operand_float(from, first + (uint64_t)(y * from->shape[3] + x));
            if (!any || value > most) most = value;
            any = true;
        }
    return most;
}

static tn_status sample_pool(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0], *rois = &call->inputs[1];
    uint32_t count;
    const int64_t *cells = tn__attr_ints(call->op, "pooled_shape", &count);
    double scale = tn__attr_float(call->op, "spatial_scale", 1);
    if (from->rank != 4 || rois->rank != 2 || rois->shape[1] != 5 || count != 2 || cells[0] < 1 ||
        cells[1] < 1)
        return tn__call_fail(call, TN_E_INVALID, "pictures, regions and pooled_shape do not fit");
    int64_t shape[4] = {rois->shape[0], from->shape[1], cells[0], cells[1]};
    TN_TRY(tn__call_shape(call, 0, 4, shape));
    uint64_t plane = tn__operand_span(from, 2, 4), next = 0;
    for (uint64_t r = 0; r < (uint64_t)shape[0]; r++) {
        double v[4];
        int64_t batch = tn__operand_int(rois, 5 * r);
        if (batch < 0 || batch >= from->shape[0])
            return tn__call_bad_index(call, batch, 0, from->shape[0]);
        for (uint32_t i = 0; i < 4; i++)
            v[i] = round(tn__operand_float(rois, 5 * r + 1 + i) * scale);
        double width = fmax(v[2] - v[0] + 1, 1), height = fmax(v[3] - v[1] + 1, 1);
        for (int64_t c = 0; c < shape[1]; c++)
            for (int64_t i = 0; i < cells[0] * cells[1]; i++) {
                int64_t rows[2], columns[2];
                sample_bin(v[1], height, i / cells[1], cells[0], from->shape[2], &rows[0],
                           &rows[1]);
                sample_bin(v[0], width, i % cells[1], cells[1], from->shape[3], &columns[0],
                           &columns[1]);
                uint64_t first = (uint64_t)(batch * shape[1] + c) * plane;
                sample_store(&call->outputs[0], next++, sample_most(from, first, rows, columns));
            }
    }
    return TN_OK;
}

static const tn_kernel sample_kernels[] = {
    {.type = "AffineGrid", .accepts = sample_accepts_real, .run = sample_affine},
    {.domain = "tenure",
     .type = "AffineGridGrad",
     .accepts = sample_accepts_real,
     .run = sample_affine_back},
    {.type = "DeformConv",
     .accepts = deform_accepts,
     .workspace = deform_workspace,
     .run = deform_run},
    {.type = "GridSample", .accepts = sample_accepts_grid, .run = sample_grid},
    {.domain = "tenure",
     .type = "GridSampleGrad",
     .accepts = sample_accepts_grid_back,
     .run = sample_grid_back},
    {.type = "MaxRoiPool", .accepts = tn__accepts_numbers, .run = sample_pool},
    {.type = "RoiAlign", .accepts = tn__accepts_numbers, .run = sample_align},
};

TN_KERNEL_FAMILY(sample, "");
