/* window.c - the arithmetic of sliding windows, shared by convolutions, pools and similar
 * operators.
 *
 * A window of `kernel` taps, `dilation` apart, reaches (kernel - 1) * dilation + 1 elements; it
 * slides by `stride` over the padded input. In ceil mode a window that hangs over the end counts if
 * it begins inside the input or the leading padding (ONNX opset 19 and ONNX Runtime).
 * Source: operator texts of ONNX: Conv, MaxPool, AveragePool; ONNX Runtime's pool attributes.
 */
#include "graph/rules/window.h"

#include <inttypes.h>

tn_status tn__window_pool(tn_infer *infer, const tn_tensor *x, int64_t *shape) {
    tn__window window;
    if (x->rank < 3)
        return tn__infer_fail(infer, "input '%.60s' has rank %u; a pool needs 3 or more", x->name,
                              x->rank);
    shape[0] = x->shape[0];
    shape[1] = x->shape[1];
    TN_TRY(tn__window_read(infer, x->rank - 2, NULL, &window));
    return tn__window_slide(infer, &window, x->shape + 2, shape + 2);
}

uint64_t tn__count_mul(uint64_t a, uint64_t b) {
    if (a == TN_SIZE_UNKNOWN || b == TN_SIZE_UNKNOWN) return TN_SIZE_UNKNOWN;
    return tn__mul_sat(a, b);
}

static tn_status window_list(tn_infer *infer, const char *name, uint32_t spatial, int64_t least,
                             int64_t otherwise, int64_t *values) {
    uint32_t count;
    const int64_t *given = tn__attr_ints(infer->op, name, &count);
    if (given != NULL && count != spatial)
        return tn__infer_fail(infer, "attribute %s has %u values for %u spatial dimensions", name,
                              count, spatial);
    for (uint32_t i = 0; i < spatial; i++) {
        values[i] = given != NULL ? given[i] : otherwise;
        if (values[i] < least || values[i] > INT32_MAX)
            return tn__infer_fail(infer, "attribute %s holds %" PRId64, name, values[i]);
    }
    return TN_OK;
}

static tn_status window_pads(tn_infer *infer, tn__window *window) {
    const char *automatic = tn__attr_string(infer->op, "auto_pad", "NOTSET");
    uint32_t count, spatial = window->spatial;
    const int64_t *pads = tn__attr_ints(infer->op, "pads", &count);
    window->same = strncmp(automatic, "SAME", 4) == 0;
    if (window->same || strcmp(automatic, "VALID") == 0 || pads == NULL) return TN_OK;
    if (count != 2 * spatial)
        return tn__infer_fail(infer, "attribute pads has %u values for %u spatial dimensions",
                              count, spatial);
    for (uint32_t i = 0; i < spatial; i++) {
        window->begin[i] = pads[i];
        window->end[i] = pads[spatial + i];
        if (pads[i] < -INT32_MAX || pads[i] > INT32_MAX || pads[spatial + i] < -INT32_MAX ||
            pads[spatial + i] > INT32_MAX)
            return tn__infer_fail(infer, "attribute pads holds a value out of range");
    }
    return TN_OK;
}

tn_status tn__window_read(tn_infer *infer, uint32_t spatial, const int64_t *kernel,
                          tn__window *window) {
    *window = (tn__window){.spatial = spatial};
    if (spatial > TN__WINDOW_MAX)
        return tn__infer_fail(infer, "%u spatial dimensions; the most is %u", spatial,
                              TN__WINDOW_MAX);
    bool given = tn__attr(infer->op, "kernel_shape") != NULL;
    if (!given && kernel == NULL) return tn__infer_fail(infer, "attribute kernel_shape is missing");
    if (given) TN_TRY(window_list(infer, "kernel_shape", spatial, 1, 1, window->kernel));
    for (uint32_t i = 0; i < spatial && !given; i++) window->kernel[i] = kernel[i];
    TN_TRY(window_list(infer, "strides", spatial, 1, 1, window->stride));
    TN_TRY(window_list(infer, "dilations", spatial, 1, 1, window->dilation));
    window->ceiling = tn__attr_int(infer->op, "ceil_mode", 0) != 0;
    return window_pads(infer, window);
}

tn_status tn__window_slide(tn_infer *infer, const tn__window *window, const int64_t *input,
                           int64_t *output) {
    for (uint32_t i = 0; i < window->spatial; i++) {
        int64_t kernel = window->kernel[i], stride = window->stride[i], reach, room;
        output[i] = TN_DIM_UNKNOWN;
        if (input[i] == TN_DIM_UNKNOWN || kernel == TN_DIM_UNKNOWN) continue;
        if (input[i] > INT64_MAX / 4) return tn__infer_fail(infer, "an extent is out of range");
        if (window->same) {
            output[i] = (input[i] + stride - 1) / stride;
            continue;
        }
        if (__builtin_mul_overflow(kernel - 1, window->dilation[i], &reach) ||
            reach > INT64_MAX / 4)
            return tn__infer_fail(infer, "the window overflows");
        room = input[i] + window->begin[i] + window->end[i] - (reach + 1);
        if (room < 0)
            return tn__infer_fail(infer,
                                  "a window of %" PRId64 " does not fit in dimension %u of %" PRId64
                                  " (padding %" PRId64 " and %" PRId64 ")",
                                  reach + 1, i + 2, input[i], window->begin[i], window->end[i]);
        output[i] = (window->ceiling ? (room + stride - 1) / stride : room / stride) + 1;
        if (window->ceiling && (output[i] - 1) * stride >= input[i] + window->begin[i]) output[i]--;
    }
    return TN_OK;
}
