/* split_window.c - computes the rows that a part of a sliding window needs, and its padding, for
 * ONNX's operators and those of TensorFlow Lite.
 *
 * A window of K elements ((kernel - 1) dilation + 1) at stride s runs over an input of extent I,
 * padded by p in front. Outputs [a, b) read [a s - p, (b - 1) s - p + K). Elements outside the
 * input are padding, which only parts at the border need. For a transposed convolution the
 * direction is reversed: element i of the input contributes to outputs i s - p to i s - p + K,
 * so [a, b) needs all i that contribute to it, and the part's `pads` crop the remaining outputs.
 *
 * Each part gets explicit padding, so it no longer depends on extents (auto_pad) or on a last
 * window that extends beyond the end (ceil_mode). For a maximum, and for an average over
 * existing elements, the result is the same; an average that counts padding is split only with
 * floor.
 */
#include "graph/rules/tflite_shapes.h"
#include "graph/rules/window.h"
#include "graph/tiles/split.h"

#define WINDOW_FIRST 2u /* index of the first spatial axis */

/* --- windows of ONNX -------------------------------------------------------------------------- */

static int64_t window_reach(const tn__window *window, uint32_t i) {
    return (window->kernel[i] - 1) * window->dilation[i] + 1;
}

/* Returns the padding before the input, which is computed from extents (auto_pad). */
static int64_t window_front(const tn_infer *infer, const tn__window *window, uint32_t i,
                            int64_t input, int64_t output) {
    if (!window->same) return window->begin[i];
    int64_t total = (output - 1) * window->stride[i] + window_reach(window, i) - input;
    if (total < 0) total = 0;
    bool lower = strcmp(tn__attr_string(infer->op, "auto_pad", "NOTSET"), "SAME_LOWER") == 0;
    return lower ? total - total / 2 : total / 2;
}

static bool window_is_small(const tn__window *window, uint32_t i, int64_t input, int64_t output) {
    const int64_t most = INT32_MAX;
    return input <= most && output <= most && window->kernel[i] <= most / window->dilation[i] &&
           output <= INT64_MAX / 4 / window->stride[i];
}

static bool window_need(tn_infer *infer, const tn_tensor *x, const int64_t *kernel,
                        const tn__tile *part, tn__need *need) {
    const tn_tensor *y = tn__output(infer, 0);
    uint32_t i = part->axis - WINDOW_FIRST;
    tn__window window;
    if (x->rank != y->rank || x->rank < 3 ||
        tn__window_read(infer, x->rank - WINDOW_FIRST, kernel, &window) != TN_OK)
        return false;
    int64_t input = x->shape[part->axis], output = y->shape[part->axis];
    if (!window_is_small(&window, i, input, output)) return false;
    int64_t front = window_front(infer, &window, i, input, output);
    int64_t first = part->first * window.stride[i] - front;
    int64_t last = (part->last - 1) * window.stride[i] - front + window_reach(&window, i);
    /* negative padding crops the input; such an operator is not divided */
    if (front < 0 || window.end[i] < 0) return false;
    need->law = TN__LAW_WINDOW;
    need->stride = window.stride[i];
    need->front = front;
    need->reach = window_reach(&window, i);
    need->axis = part->axis;
    need->first = first > 0 ? first : 0;
    need->last = last < input ? last : input;
    need->before = need->first - first;
    need->after = last - need->last;
    return true;
}

/* --- convolutions --- */

/* For convolutions without an order of channels to follow: a part along the batch or a spatial axis
 * needs a part of x, and all of the other operands. */
static bool window_conv(tn_infer *infer, tn__tile *part, uint32_t input, uint32_t weights,
                        tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, weights);
    if (w == NULL || w->rank != x->rank) return false;
    if (part->axis >= WINDOW_FIRST && input == 0)
        return window_need(infer, x, w->shape + WINDOW_FIRST, part, need);
    if (part->axis == 0 && input == 0) return tn__need_same(need, 0, part);
    return part->axis != 1 && tn__need_all(need);
}

bool tn__split_conv(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    bool channels = part->axis == 1 && tn__attr_int(infer->op, "group", 1) == 1;
    if (input == 3) return tn__need_same(need, part->axis, part); /* input 3 is the summand */
    if (!channels) return window_conv(infer, part, input, 1, need);
    return input == 0 ? tn__need_all(need) : tn__need_same(need, 0, part);
}

/* A convolution sums over the channels of its input. */
bool tn__sums_conv(tn_infer *infer, uint32_t input, uint32_t *axis) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, 1);
    *axis = input < 2 ? 1 : TN__SUM_ONCE;
    return x->rank == w->rank && x->rank >= WINDOW_FIRST &&
           tn__attr_int(infer->op, "group", 1) == 1;
}

bool tn__split_conv_integer(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    return window_conv(infer, part, input, 1, need);
}

bool tn__split_conv_qlinear(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    return window_conv(infer, part, input, 3, need);
}

static int64_t window_floor(int64_t a, int64_t b) { return a / b - (a % b < 0); }

bool tn__split_conv_transpose(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, 1), *y = tn__output(infer, 0);
    tn__window window;
    if (part->axis == 1 || x->rank < 3 || w->rank != x->rank) return false;
    if (input > 0) return tn__need_all(need);
    if (part->axis == 0) return tn__need_same(need, 0, part);
    if (tn__attr(infer->op, "output_shape") != NULL ||
        tn__window_read(infer, x->rank - WINDOW_FIRST, w->shape + WINDOW_FIRST, &window) != TN_OK ||
        window.same)
        return false;
    uint32_t i = part->axis - WINDOW_FIRST;
    int64_t extent = x->shape[part->axis], stride = window.stride[i], front = window.begin[i];
    if (!window_is_small(&window, i, extent, y->shape[part->axis])) return false;
    int64_t reach = window_reach(&window, i);
    int64_t first = -window_floor(-(part->first + front - (reach - 1)), stride);
    int64_t last = window_floor(part->last - 1 + front, stride) + 1;
    need->axis = part->axis;
    need->first = first > 0 ? first : 0;
    need->last = last < extent ? last : extent;
    int64_t made = (need->last - need->first - 1) * stride + reach;
    need->before = part->first + front - need->first * stride;
    need->after = made - need->before - (part->last - part->first);
    if (need->after < 0) { /* no input element contributes to the last outputs of the part */
        need->extra = -need->after;
        need->after = 0;
    }
    return true;
}

/* --- pools --- */

bool tn__split_pool(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0);
    bool counts = tn__attr_int(infer->op, "count_include_pad", 0) != 0;
    (void)input;
    /* output 1 has indices into the whole input, so the operator is not divided */
    if (tn__output(infer, 1) != NULL) return false;
    if (part->axis < WINDOW_FIRST) return tn__need_same(need, part->axis, part);
    if (counts && tn__attr_int(infer->op, "ceil_mode", 0) != 0) return false;
    return window_need(infer, x, NULL, part, need);
}

bool tn__split_global_pool(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    (void)infer;
    (void)input;
    return part->axis < WINDOW_FIRST && tn__need_same(need, part->axis, part);
}

/* --- windows of TensorFlow Lite --------------------------------------------------------------- */

/* Splits TensorFlow Lite's operators: [batch, height, width, channels].
 *
 * A window with SAME padding computes its padding from its extents, for both axes at once, so a
 * part cannot simply get its rows. There are three ways:
 *
 *     EXACT   without padding, or with a window of one element    the rows that it reads, unchanged
 *     PAD     PAD by the missing rows, then VALID                 a second copy of the input
 *     CROP    SAME over some more rows; those that then read       a second copy of the output,
 *             padding in place of neighbours are cut off           and the work for those rows
 *
 *         rows     p . . . . . . . q          p is chosen so that a window begins where one of the
 *         windows  [x] [ ] [ ] [ ] [x]        whole does: p - before' + before is a multiple of the
 *                      first    last          stride
 *
 * An average divides by the number of elements without padding, so pools use CROP. Convolutions use
 * CROP if the output is no larger than the input and a row is cheap (depthwise), else PAD.
 *
 * A hybrid convolution (images of floating point, weights of integers) quantises each image by the
 * range of the whole of it, so it is cut along the batch alone.
 * Source: Padding in tensorflow/lite/kernels/padding.h; EvalHybrid in kernels/conv.cc and
 * depthwise_conv.cc.
 */

#define BAND_VALID 1    /* values of the schema's enum Padding */
#define BAND_STRIDE 256 /* for the way CROP: limit of the number of begins that are tried */

/* --- windows --- */

static bool band_is_hybrid(const tn_tensor *x, const tn_tensor *w) {
    return w != NULL && x->dtype == TN_FLOAT32 && w->dtype != x->dtype;
}

/* The input, or NULL if the operator leaves it out: files may state the shapes of any operator. */
static const tn_tensor *band_input(const tn_graph *graph, const tn_op *op, uint32_t i) {
    bool given = i < op->input_count && op->inputs[i] != TN_NONE;
    return given ? tn_graph_tensor(graph, op->inputs[i]) : NULL;
}

bool tn__band_read(const tn_graph *graph, tn_op_id id, tn__band *band) {
    static const char *const strides[] = {"stride_h", "stride_w"};
    static const char *const dilations[] = {"dilation_h_factor", "dilation_w_factor"};
    static const char *const filters[] = {"filter_height", "filter_width"};
    const tn_op *op = tn_graph_op(graph, id);
    bool pools = tn__has_suffix(op->type, "POOL_2D"), pointwise = true, grows;
    const tn_tensor *x = band_input(graph, op, 0);
    const tn_tensor *y = tn_graph_tensor(graph, op->outputs[0]);
    const tn_tensor *w = pools ? NULL : band_input(graph, op, 1);
    if (x == NULL || (w == NULL && !pools)) return false;
    if (x->rank != 4 || y->rank != 4 || (w != NULL && w->rank != 4)) return false;
    bool valid = tn__attr_int(op, "padding", 0) == BAND_VALID;
    for (uint32_t i = 0; i < 2; i++) {
        int64_t kernel = w != NULL ? w->shape[1 + i] : tn__attr_int(op, filters[i], 0);
        int64_t dilation = w != NULL ? tn__attr_int(op, dilations[i], 1) : 1;
        band->input[i] = x->shape[1 + i];
        band->output[i] = y->shape[1 + i];
        band->stride[i] = tn__attr_int(op, strides[i], 0);
        if (kernel < 1 || dilation < 1 || band->stride[i] < 1 || kernel > INT32_MAX ||
            dilation > INT32_MAX || band->stride[i] > INT32_MAX || band->input[i] > INT32_MAX ||
            band->output[i] > INT32_MAX)
            return false;
        band->reach[i] = (kernel - 1) * dilation + 1;
        if (band->reach[i] > INT32_MAX) return false;
        pointwise = pointwise && band->reach[i] == 1;
        int64_t made = valid ? (band->input[i] - band->reach[i]) / band->stride[i] + 1
                             : (band->input[i] + band->stride[i] - 1) / band->stride[i];
        /* the window is not divided if the file states another output shape than this arithmetic
         * gives */
        if (made != band->output[i]) return false;
    }
    grows = tn__elements(y) > tn__elements(x);
    bool depthwise = strcmp(op->type, "DEPTHWISE_CONV_2D") == 0;
    band->hybrid = band_is_hybrid(x, w);
    /* a hybrid convolution is only divided along the batch, into whole images with their padding */
    bool exact = valid || pointwise || band->hybrid;
    band->way = exact                            ? TN__BAND_EXACT
                : pools || (depthwise && !grows) ? TN__BAND_CROP
                                                 : TN__BAND_PAD;
    band->same = !valid;
    return band->way != TN__BAND_CROP ||
           (band->stride[0] <= BAND_STRIDE && band->stride[1] <= BAND_STRIDE);
}

/* The number of elements of padding in front of the input, for an input of this extent. */
static int64_t band_front(const tn__band *band, uint32_t i, int64_t extent) {
    if (!band->same) return 0;
    int64_t made = (extent + band->stride[i] - 1) / band->stride[i];
    int64_t total = (made - 1) * band->stride[i] + band->reach[i] - extent;
    return total > 0 ? total / 2 : 0;
}

bool tn__band_over(const tn__band *band, uint32_t i, int64_t first, int64_t last,
                   tn__band_made *made) {
    int64_t extent = last - first, stride = band->stride[i];
    int64_t before = band_front(band, i, extent);
    int64_t shift = first - before + band_front(band, i, band->input[i]);
    if (shift % stride != 0) return false;
    made->base = shift / stride;
    made->count = (extent + stride - 1) / stride;
    int64_t good = first > 0 ? (before + stride - 1) / stride : 0, end = made->count;
    if (good > end) good = end;
    /* windows that begin at or before this position read no padding at the end */
    if (last < band->input[i]) {
        int64_t begin = extent + before - band->reach[i];
        int64_t whole = begin >= 0 ? begin / stride + 1 : 0;
        end = whole > end ? end : whole < good ? good : whole;
    }
    made->first = made->base + good;
    made->last = made->base + end;
    return true;
}

/* Widens [need->first, need->last) by as few elements as possible, so that a window with SAME
 * padding over it computes the part. */
static bool band_widen(const tn__band *band, uint32_t i, const tn__tile *part, tn__need *need) {
    int64_t stride = band->stride[i], first = need->first, last = need->last, best = INT64_MAX;
    for (int64_t p = first; p >= 0 && p > first - 2 * stride; p--)
        for (int64_t q = last; q <= band->input[i] && q < last + 2 * stride && q - p < best; q++) {
            tn__band_made made;
            if (!tn__band_over(band, i, p, q, &made) || made.first > part->first ||
                made.last < part->last)
                continue;
            best = q - p;
            need->first = p;
            need->last = q;
        }
    return best < INT64_MAX;
}

bool tn__split_band(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    tn__band band;
    if (!tn__band_read(infer->graph, infer->id, &band)) return false;
    bool pools = tn__has_suffix(infer->op->type, "POOL_2D");
    if (part->axis == 3) return pools && tn__need_same(need, 3, part);
    if (input > 0) return tn__need_all(need);
    if (part->axis == 0) return tn__need_same(need, 0, part);
    if (band.hybrid) return false;
    uint32_t i = part->axis - 1;
    int64_t front = band_front(&band, i, band.input[i]);
    int64_t first = part->first * band.stride[i] - front;
    int64_t last = (part->last - 1) * band.stride[i] - front + band.reach[i];
    *need = (tn__need){.axis = part->axis, .first = first > 0 ? first : 0};
    need->last = last < band.input[i] ? last : band.input[i];
    if (band.way == TN__BAND_CROP) return band_widen(&band, i, part, need);
    need->before = need->first - first;
    need->after = last - need->last;
    return true;
}

/* --- padding --- */

bool tn__split_tflite_pad(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0);
    uint32_t count;
    const int64_t *pads = tn__tflite_ints(infer, 1, &count);
    if (pads == NULL || count != 2 * x->rank || part->axis >= x->rank) return false;
    if (input > 0) return tn__need_all(need);
    int64_t before = pads[2 * part->axis], extent = x->shape[part->axis];
    int64_t first = part->first - before, last = part->last - before;
    if (before < 0 || pads[2 * part->axis + 1] < 0) return false;
    *need = (tn__need){.axis = part->axis, .first = first > 0 ? first : 0};
    need->last = last < extent ? last : extent;
    need->before = need->first - first;
    need->after = last - need->last;
    return true; /* the window reads only padding: the range is empty and is refused later */
}

/* --- others --- */

bool tn__split_tflite_concat(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *y = tn__output(infer, 0);
    int64_t axis = tn__attr_int(infer->op, "axis", 0);
    (void)input;
    if (axis < 0) axis += y->rank;
    return axis != (int64_t)part->axis && tn__need_same(need, part->axis, part);
}

/* For operators that sum, normalise or multiply along the last axis: they can be divided along
 * other axes. */
bool tn__split_tflite_rows(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0), *y = tn__output(infer, 0);
    if (x->rank != y->rank || part->axis + 1 >= y->rank) return false;
    if (x->shape[part->axis] != y->shape[part->axis]) return false;
    return input == 0 ? tn__need_same(need, part->axis, part) : tn__need_all(need);
}

bool tn__split_tflite_reduce(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0);
    bool keeps = tn__attr_int(infer->op, "keep_dims", 0) != 0;
    uint32_t count, at = 0;
    uint64_t gone = 0;
    const int64_t *axes = tn__tflite_ints(infer, 1, &count);
    if (axes == NULL) return false;
    if (input > 0) return tn__need_all(need);
    for (uint32_t i = 0; i < count; i++) {
        int64_t axis = axes[i] < 0 ? axes[i] + x->rank : axes[i];
        if (axis < 0 || axis >= (int64_t)x->rank) return false;
        gone |= UINT64_C(1) << axis;
    }
    for (uint32_t d = 0; d < x->rank; d++) {
        bool reduced = (gone >> d & 1) != 0;
        if (reduced && !keeps) continue;
        if (at++ == part->axis) return !reduced && tn__need_same(need, d, part);
    }
    return false;
}

bool tn__split_tflite_transpose(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0);
    uint32_t count;
    const int64_t *perm = tn__tflite_ints(infer, 1, &count);
    if (perm == NULL || count != x->rank || part->axis >= count || perm[part->axis] < 0 ||
        perm[part->axis] >= (int64_t)x->rank)
        return false;
    return input == 0 ? tn__need_same(need, (uint32_t)perm[part->axis], part) : tn__need_all(need);
}
