/* sample.c - operators that read images between pixels: GridSample, RoiAlign, MaxRoiPool.
 *
 * A sample is a weighted sum over the pixels around it, with one weight for each axis and pixel
 * coordinate (tap). Sums are in float64 and rounded once. In mode max, RoiAlign returns the largest
 * product of a pixel and its weight, not the largest sample; all reference implementations do this.
 *
 * Cost:   O(samples x taps), no scratch memory.
 * Source: the ONNX specifications, opsets 1 to 20; RoiAlign: K. He et al., Mask R-CNN, 2017;
 * MaxRoiPool: R. Girshick, Fast R-CNN, 2015; cubic: R. Keys, 1981, with a = -0.75.
 */
#include <math.h>

#include "engine/kernels/loops/box.h"

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
} sample_plan;

/* Reflects x at `low` and `high` until it is between them. */
static double sample_reflect(double x, double low, double high) {
    double span = high - low;
    if (!(span > 0) || !isfinite(x)) return low;
    double way = fmod(fabs(x - low), 2 * span);
    return low + (way > span ? 2 * span - way : way);
}

/* Moves a coordinate into the image as the padding mode requires. With zero padding, it may stay
 * outside. */
static double sample_inside(const sample_plan *plan, uint32_t d, double x) {
    double last = (double)(plan->extent[d] - 1);
    if (plan->padding == SAMPLE_BORDER) return !(x > 0) ? 0 : x > last ? last : x;
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

static tn_status sample_grid(tn_kernel_call *call) {
    const tn_operand *from = &call->inputs[0], *grid = &call->inputs[1];
    tn_operand *to = &call->outputs[0];
    uint32_t rank = from->rank;
    sample_plan plan = {.axes = rank - 2};
    int64_t shape[SAMPLE_AXES + 2], stride = 1;
    sample_modes(call->op, &plan);
    if (rank < 3 || rank > SAMPLE_AXES + 2 || grid->rank != rank ||
        grid->shape[rank - 1] != plan.axes || grid->shape[0] != from->shape[0])
        return tn__call_fail(call, TN_E_INVALID, "picture and grid do not belong together");
    for (uint32_t d = 0; d < rank; d++) shape[d] = d < 2 ? from->shape[d] : grid->shape[d - 1];
    TN_TRY(tn__call_shape(call, 0, rank, shape));
    uint64_t points = tn__operand_span(to, 2, rank), channels = (uint64_t)from->shape[1];
    if (tn__operand_count(to) == 0) return TN_OK;
    for (uint32_t d = plan.axes; d-- > 0; stride *= plan.extent[d]) {
        plan.extent[d] = from->shape[d + 2];
        plan.stride[d] = stride;
        if (plan.extent[d] == 0) return tn__call_fail(call, TN_E_INVALID, "axis %u is empty", d);
    }
    for (uint64_t i = 0; i < (uint64_t)shape[0] * points; i++) {
        for (uint32_t d = 0; d < plan.axes; d++)
            sample_taps(&plan, d, tn__operand_float(grid, (i + 1) * plan.axes - 1 - d));
        uint64_t plane = i / points * channels;
        for (uint64_t c = 0; c < channels; c++)
            sample_store(to, (plane + c) * points + i % points,
                         sample_sum(&plan, from, (plane + c) * (uint64_t)stride));
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
    {.type = "GridSample", .accepts = sample_accepts_grid, .run = sample_grid},
    {.type = "MaxRoiPool", .accepts = tn__accepts_numbers, .run = sample_pool},
    {.type = "RoiAlign", .accepts = tn__accepts_numbers, .run = sample_align},
};

TN_KERNEL_FAMILY(sample, "");
