/* window.h - sliding windows over spatial extents: what convolutions and pools share. */
#ifndef TN_GRAPH_WINDOW_H
#define TN_GRAPH_WINDOW_H

#include "graph/op.h"

#define TN__WINDOW_MAX 8u /* spatial dimensions */

typedef struct tn__window {
    uint32_t spatial;
    int64_t kernel[TN__WINDOW_MAX], stride[TN__WINDOW_MAX], dilation[TN__WINDOW_MAX];
    int64_t begin[TN__WINDOW_MAX], end[TN__WINDOW_MAX]; /* padding */
    bool same;    /* auto_pad SAME_*: the padding follows from the output */
    bool ceiling; /* ceil_mode: a last window that begins inside counts though it is cut off */
} tn__window;

/* Reads kernel_shape, strides, dilations, pads, auto_pad, ceil_mode for `spatial` dimensions.
 * `kernel` gives the extents when the attribute is absent (a convolution's weights); NULL:
 * required. Errors: E_INVALID (lists of another length, strides or kernels below 1). */
tn_status tn__window_read(tn_infer *infer, uint32_t spatial, const int64_t *kernel,
                          tn__window *window);

/* Extents after the window slid over `input`; unknown ones stay unknown.
 * Errors: E_INVALID when a window does not fit. */
tn_status tn__window_slide(tn_infer *infer, const tn__window *window, const int64_t *input,
                           int64_t *output);

/* a * b saturating, for counts that may be unknown. */
uint64_t tn__count_mul(uint64_t a, uint64_t b);

#endif
