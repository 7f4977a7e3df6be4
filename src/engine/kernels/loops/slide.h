/* slide.h - windows that slide over the spatial dimensions of [batch, channels, spatial...], for
 * the loops of convolutions and pools.
 *
 * A plane of outputs is computed line by line (a line: all positions along the last dimension), a
 * line in tiles of at most TN__SLIDE_TILE. For a line, tn__slide_find lists the rows of the window
 * that meet the input; for each tap of such a row, tn__slide_meet says which outputs of the tile
 * meet which inputs, as two strides. A transposed convolution is the same with strides the other
 * way round, so one loop serves both:
 *
 *     target[run.target + i * run.target_step] += weight * source[run.source + i * run.source_step]
 */
#ifndef TN_KERNELS_SLIDE_H
#define TN_KERNELS_SLIDE_H

#include "engine/kernels/kernel.h"

#define TN__SLIDE_MAX 8u    /* spatial dimensions */
#define TN__SLIDE_TILE 64u  /* outputs computed together */
#define TN__SLIDE_FOUND 64u /* rows of the window in one list */

typedef struct tn__slide {
    uint32_t spatial;
    bool transposed;
    int64_t kernel[TN__SLIDE_MAX], stride[TN__SLIDE_MAX], dilation[TN__SLIDE_MAX];
    int64_t begin[TN__SLIDE_MAX], end[TN__SLIDE_MAX]; /* padding; may be negative */
    int64_t input[TN__SLIDE_MAX], output[TN__SLIDE_MAX];
    /* products of the extents */
    uint64_t input_area, output_area, taps;
    /* lines of the output and rows of the window: products without the last dimension */
    uint64_t lines, rows;
} tn__slide;

/* From the attributes and the extents now. `kernel` NULL: attribute kernel_shape. Errors: E_INVALID
 * (attributes that do not fit, extents beyond 2^40, ranks other than those of input 0). */
tn_status tn__slide_read(const tn_kernel_call *call, const tn_operand *input, const int64_t *kernel,
                         const tn_operand *output, bool transposed, tn__slide *slide);
/* A window of one tap over one dimension of `count` elements. */
void tn__slide_flat(tn__slide *slide, uint64_t count);
/* Whether each output depends on the input of the same place alone. */
bool tn__slide_is_flat(const tn__slide *slide);

typedef struct tn__slide_rows {
    uint32_t count;
    uint64_t source[TN__SLIDE_FOUND]; /* first element of the input's line */
    uint64_t tap[TN__SLIDE_FOUND];    /* first tap of the window's row */
} tn__slide_rows;
/* Finds rows of the window from *next on that meet the input, at output line `line`; *next becomes
 * the row to continue from. False: no more rows. */
bool tn__slide_find(const tn__slide *slide, uint64_t line, uint64_t *next, tn__slide_rows *rows);

typedef struct tn__slide_run {
    uint64_t count;  /* pairs of an output and an input that meet; 0: none */
    uint64_t target; /* the first of these outputs, counted from the first output of the tile */
    uint64_t source; /* the first of these inputs, counted from the first input of the line */
    uint64_t target_step, source_step;
} tn__slide_run;
/* Tap `tap` of a row against outputs [first, first + count) of a line. */
tn__slide_run tn__slide_meet(const tn__slide *slide, uint64_t tap, uint64_t first, uint64_t count);

/* Position [spatial] of element `at` of the output plane. */
void tn__slide_position(const tn__slide *slide, uint64_t at, int64_t *position);

#endif
