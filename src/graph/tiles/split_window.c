/* split_window.c - computes the rows that a part of a sliding window needs, and its padding.
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
#include "graph/tiles/split.h"
#include "graph/window.h"

#define WINDOW_FIRST 2u /* spatial axis */

static int64_t window_reach(const tn__window *window, uint32_t i) {
    return (window->kernel[i] - 1) * window->dilation[i] + 1;
}

/* The padding in front, if it is computed from extents. */
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
                        const tn__part *part, tn__need *need) {
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
    if (front < 0 || window.end[i] < 0) return false; /* negative padding crops */
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

/* Operands: x and weights, then operands along the channels, then one with the result's shape. */
static bool window_conv(tn_infer *infer, tn__part *part, uint32_t input, uint32_t weights,
                        tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, weights);
    if (w == NULL || w->rank != x->rank) return false;
    if (part->axis >= WINDOW_FIRST && input == 0)
        return window_need(infer, x, w->shape + WINDOW_FIRST, part, need);
    if (part->axis == 0 && input == 0) return tn__need_same(need, 0, part);
    return part->axis != 1 && tn__need_all(need);
}

bool tn__split_conv(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    bool channels = part->axis == 1 && tn__attr_int(infer->op, "group", 1) == 1;
    if (input == 3) return tn__need_same(need, part->axis, part); /* the summand */
    if (!channels) return window_conv(infer, part, input, 1, need);
    return input == 0 ? tn__need_all(need) : tn__need_same(need, 0, part);
}

/* Along the channels of the input. */
bool tn__sums_conv(tn_infer *infer, uint32_t input, uint32_t *axis) {
    const tn_tensor *x = tn__input(infer, 0), *w = tn__input(infer, 1);
    *axis = input < 2 ? 1 : TN__SUM_ONCE;
    return x->rank == w->rank && x->rank >= WINDOW_FIRST &&
           tn__attr_int(infer->op, "group", 1) == 1;
}

bool tn__split_conv_integer(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    return window_conv(infer, part, input, 1, need);
}

bool tn__split_conv_qlinear(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    return window_conv(infer, part, input, 3, need);
}

static int64_t window_floor(int64_t a, int64_t b) { return a / b - (a % b < 0); }

bool tn__split_conv_transpose(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
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
    if (need->after < 0) { /* no input contributes to the last outputs */
        need->extra = -need->after;
        need->after = 0;
    }
    return true;
}

/* --- pools --- */

bool tn__split_pool(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    const tn_tensor *x = tn__input(infer, 0);
    bool counts = tn__attr_int(infer->op, "count_include_pad", 0) != 0;
    (void)input;
    if (tn__output(infer, 1) != NULL) return false; /* they index the whole input */
    if (part->axis < WINDOW_FIRST) return tn__need_same(need, part->axis, part);
    if (counts && tn__attr_int(infer->op, "ceil_mode", 0) != 0) return false;
    return window_need(infer, x, NULL, part, need);
}

bool tn__split_global_pool(tn_infer *infer, tn__part *part, uint32_t input, tn__need *need) {
    (void)infer;
    (void)input;
    return part->axis < WINDOW_FIRST && tn__need_same(need, part->axis, part);
}
