/* columns.c - Col2Im, and its gradient: windows of an image as the columns of a matrix.
 *
 * The columns are [N, C x taps, blocks]. Column `block` holds the elements of one position of a
 * window that slides over an image [N, C, extents...]. Col2Im adds each element of the columns to
 * its place in the image; its gradient copies each element of the image to its places in the
 * columns. Elements of the window that are in the padding are left out, or 0. Sums are made in a
 * fixed order.
 *
 * Cost:   O(elements of the columns), no scratch memory.
 * Source: the ONNX specification, opset 18.
 */
#include "engine/kernels/loops/box.h"
#include "engine/kernels/operands.h"

enum { COLUMNS_AXES = 8 };
#define COLUMNS_LIMIT (INT64_C(1) << 40) /* largest extent of an image */

typedef struct columns_plan {
    uint32_t axes;
    int64_t image[COLUMNS_AXES], block[COLUMNS_AXES];
    int64_t stride[COLUMNS_AXES], dilation[COLUMNS_AXES], begin[COLUMNS_AXES];
    int64_t steps[COLUMNS_AXES]; /* number of positions of the window along each axis */
    int64_t pitch[COLUMNS_AXES]; /* strides of the image, in elements */
    int64_t taps, blocks, area;  /* products of block, steps and image */
} columns_plan;

/* --- reading --- */

static tn_status columns_list(const tn_kernel_call *call, const char *name, uint32_t count,
                              int64_t least, int64_t *values) {
    uint32_t given_count;
    const int64_t *given = tn__attr_ints(call->op, name, &given_count);
    if (given == NULL) return TN_OK;
    if (given_count != count)
        return tn__call_fail(call, TN_E_INVALID, "attribute %s has %u values, not %u", name,
                             given_count, count);
    for (uint32_t i = 0; i < count; i++) {
        values[i] = given[i];
        if (values[i] < least || values[i] > INT32_MAX)
            return tn__call_fail(call, TN_E_INVALID, "attribute %s holds %lld", name,
                                 (long long)values[i]);
    }
    return TN_OK;
}

/* Reads the attributes, for an image of extents `image` and a window of extents `block`. */
static tn_status columns_read(const tn_kernel_call *call, uint32_t axes, const int64_t *image,
                              const int64_t *block, columns_plan *plan) {
    int64_t pads[2 * COLUMNS_AXES] = {0};
    *plan = (columns_plan){.axes = axes, .taps = 1, .blocks = 1, .area = 1};
    for (uint32_t d = 0; d < axes; d++) {
        plan->image[d] = image[d];
        plan->block[d] = block[d];
        plan->stride[d] = plan->dilation[d] = 1;
    }
    TN_TRY(columns_list(call, "strides", axes, 1, plan->stride));
    TN_TRY(columns_list(call, "dilations", axes, 1, plan->dilation));
    TN_TRY(columns_list(call, "pads", 2 * axes, 0, pads));
    for (uint32_t d = axes; d-- > 0;) {
        if (image[d] < 0 || image[d] > COLUMNS_LIMIT || block[d] < 1 || block[d] > INT32_MAX)
            return tn__call_fail(call, TN_E_INVALID, "spatial dimension %u is out of range", d);
        int64_t reach = (block[d] - 1) * plan->dilation[d] + 1;
        int64_t room = image[d] + pads[d] + pads[axes + d] - reach;
        if (room < 0)
            return tn__call_fail(call, TN_E_INVALID, "the block is larger than the padded image");
        plan->begin[d] = pads[d];
        plan->steps[d] = room / plan->stride[d] + 1;
        plan->pitch[d] = plan->area;
        if (__builtin_mul_overflow(plan->taps, block[d], &plan->taps) ||
            __builtin_mul_overflow(plan->blocks, plan->steps[d], &plan->blocks) ||
            __builtin_mul_overflow(plan->area, image[d], &plan->area))
            return tn__call_fail(call, TN_E_INVALID, "the image is out of range");
    }
    return TN_OK;
}

/* --- moving elements --- */

/* For the positions of a window along the last axis, the first one and the number of those whose
 * element at `offset` is inside the image. */
static int64_t columns_inside(const columns_plan *plan, int64_t offset, int64_t *first) {
    uint32_t last = plan->axes - 1;
    int64_t stride = plan->stride[last], extent = plan->image[last];
    *first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    int64_t end = offset < extent ? (extent - 1 - offset) / stride + 1 : 0;
    end = end < plan->steps[last] ? end : plan->steps[last];
    return end > *first ? end - *first : 0;
}

#define COLUMNS_LINE(type)                                                                         \
    if (back)                                                                                      \
        for (int64_t i = 0; i < count; i++) ((type *)column)[i] = ((type *)image)[i * stride];     \
    else                                                                                           \
        for (int64_t i = 0; i < count; i++) ((type *)image)[i * stride] += ((type *)column)[i];
static void columns_line(tn_dtype dtype, bool back, int64_t count, int64_t stride, void *image,
                         void *column) {
    if (dtype == TN_FLOAT32) {
        COLUMNS_LINE(float)
    } else {
        COLUMNS_LINE(double)
    }
}

/* Moves the elements of one row of the columns, which belong to one element `tap` of the window, to
 * or from one plane of the image. */
static void columns_row(const columns_plan *plan, tn_dtype dtype, bool back, int64_t tap,
                        char *image, char *row) {
    uint32_t last = plan->axes - 1, width = tn__width(dtype);
    int64_t offset[COLUMNS_AXES], first;
    tn__walk lines = {.rank = last};
    for (uint32_t d = plan->axes; d-- > 0; tap /= plan->block[d])
        offset[d] = tap % plan->block[d] * plan->dilation[d] - plan->begin[d];
    for (uint32_t d = 0; d < last; d++) lines.extent[d] = plan->steps[d];
    int64_t count = columns_inside(plan, offset[last], &first), stride = plan->stride[last];
    if (count == 0) return;
    do {
        int64_t at = first * stride + offset[last];
        bool inside = true;
        for (uint32_t d = 0; d < last; d++) {
            int64_t place = lines.place[d] * plan->stride[d] + offset[d];
            inside = inside && place >= 0 && place < plan->image[d];
            at += place * plan->pitch[d];
        }
        if (inside)
            columns_line(dtype, back, count, stride, image + at * width, row + first * width);
        row += plan->steps[last] * width;
    } while (tn__walk_next(&lines));
}

static void columns_move(const columns_plan *plan, tn_dtype dtype, bool back, int64_t planes,
                         char *image, char *columns) {
    int64_t width = tn__width(dtype);
    for (int64_t i = 0; i < planes; i++)
        for (int64_t tap = 0; tap < plan->taps; tap++)
            columns_row(plan, dtype, back, tap, image + i * plan->area * width,
                        columns + (i * plan->taps + tap) * plan->blocks * width);
}

static tn_status columns_run(tn_kernel_call *call) {
    const tn_operand *columns = &call->inputs[0];
    tn_operand *image = &call->outputs[0];
    int64_t shape[TN_RANK_MAX], block[COLUMNS_AXES];
    uint32_t axes, block_count;
    columns_plan plan;
    bool given;
    if (columns->rank != 3) return tn__call_bad_shape(call, 0);
    TN_TRY(tn__call_list(call, 1, NULL, COLUMNS_AXES, shape + 2, &axes, &given));
    TN_TRY(tn__call_list(call, 2, NULL, COLUMNS_AXES, block, &block_count, &given));
    if (axes == 0 || axes != block_count) return tn__call_bad_shape(call, 2);
    TN_TRY(columns_read(call, axes, shape + 2, block, &plan));
    if (columns->shape[1] % plan.taps != 0 || columns->shape[2] != plan.blocks)
        return tn__call_fail(call, TN_E_INVALID,
                             "columns of %lld x %lld for blocks of %lld elements at %lld places",
                             (long long)columns->shape[1], (long long)columns->shape[2],
                             (long long)plan.taps, (long long)plan.blocks);
    shape[0] = columns->shape[0];
    shape[1] = columns->shape[1] / plan.taps;
    TN_TRY(tn__call_shape(call, 0, axes + 2, shape));
    memset(image->data, 0, tn__operand_bytes(image));
    columns_move(&plan, columns->dtype, false, shape[0] * shape[1], image->data, columns->data);
    return TN_OK;
}

static tn_status columns_run_back(tn_kernel_call *call) {
    const tn_operand *image = &call->inputs[0];
    tn_operand *columns = &call->outputs[0];
    int64_t block[COLUMNS_AXES];
    uint32_t block_count;
    columns_plan plan;
    bool given;
    TN_TRY(tn__call_list(call, 1, NULL, COLUMNS_AXES, block, &block_count, &given));
    if (block_count == 0 || image->rank != block_count + 2) return tn__call_bad_shape(call, 1);
    TN_TRY(columns_read(call, block_count, image->shape + 2, block, &plan));
    int64_t shape[3] = {image->shape[0], 0, plan.blocks};
    if (__builtin_mul_overflow(image->shape[1], plan.taps, &shape[1]))
        return tn__call_bad_shape(call, 0);
    TN_TRY(tn__call_shape(call, 0, 3, shape));
    memset(columns->data, 0, tn__operand_bytes(columns));
    columns_move(&plan, image->dtype, true, image->shape[0] * image->shape[1], image->data,
                 columns->data);
    return TN_OK;
}

static bool columns_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPES_SUMMED, 1, 0) && tn__accepts_bytes(setup);
}

static const tn_kernel columns_kernels[] = {
    {.type = "Col2Im", .accepts = columns_accepts, .run = columns_run},
    {.domain = "tenure", .type = "Col2ImGrad", .accepts = columns_accepts, .run = columns_run_back},
};

TN_KERNEL_FAMILY(columns, "");
