/* window.h - sliding windows over spatial extents, shared by convolutions and pools, and scaled
 * extents. */
#ifndef TN_GRAPH_WINDOW_H
#define TN_GRAPH_WINDOW_H

#include <math.h>

#include "graph/op.h"

#define TN__WINDOW_MAX 8u /* limit of spatial dimensions */

typedef struct tn__window {
    uint32_t spatial;
    int64_t kernel[TN__WINDOW_MAX], stride[TN__WINDOW_MAX], dilation[TN__WINDOW_MAX];
    int64_t begin[TN__WINDOW_MAX], end[TN__WINDOW_MAX]; /* padding */
    bool same; /* true: auto_pad is SAME_*: the padding follows from the output's extents */
    /* ceil_mode: a last window that begins inside the input counts although its end is outside */
    bool ceiling;
} tn__window;

/* Reads kernel_shape, strides, dilations, pads, auto_pad and ceil_mode for `spatial` dimensions. If
 * kernel_shape is absent, `kernel` gives the extents (of a convolution's weights); NULL: the
 * attribute is required. Errors: E_INVALID (more than TN__WINDOW_MAX dimensions, a required
 * attribute that is missing, lists of another length, strides, dilations or kernels below 1). */
tn_status tn__window_read(tn_infer *infer, uint32_t spatial, const int64_t *kernel,
                          tn__window *window);

/* Computes the extents of the result of sliding the window over `input`; unknown extents stay
 * unknown. Errors: E_INVALID if a window does not fit, or numbers are too large. */
tn_status tn__window_slide(tn_infer *infer, const tn__window *window, const int64_t *input,
                           int64_t *output);

/* Computes the extents [rank] of a pool's output for an input of known rank, at least 3. Errors:
 * E_INVALID (invalid attributes, a window that does not fit). */
tn_status tn__window_pool(tn_infer *infer, const tn_tensor *x, int64_t *shape);

/* Bits per entry of a map that stores, for each output of a pool, the index of the maximum in its
 * window: 4 for windows of up to 16 taps, 8 for up to 256, 0 for larger ones, which have no map.
 * Two entries of 4 bits share a byte, the first one in the low bits. Entries are in the order of
 * the shape, in every format of the tensors. */
static inline uint32_t tn__window_map_bits(uint64_t taps) {
    return taps <= 16 ? 4 : taps <= 256 ? 8 : 0;
}
/* The bytes of a map of indices of maxima, for windows of `taps` elements. */
static inline uint64_t tn__window_map_bytes(uint64_t taps, uint64_t outputs) {
    return taps <= 16 ? outputs / 2 + outputs % 2 : outputs;
}

/* floor(extent * scale), as Upsample and Resize compute it. The product is float32, because the
 * scale is, and ONNX and ONNX Runtime multiply in this way: 20 times 0.7 is 14, while the float64
 * product is slightly smaller. */
static inline double tn__window_scaled(int64_t extent, double scale) {
    float product = (float)extent * (float)scale;
    return floor((double)product);
}

/* The product a * b, saturating, for counts that may be unknown. */
uint64_t tn__count_mul(uint64_t a, uint64_t b);

#endif
