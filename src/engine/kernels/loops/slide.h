/* slide.h - windows that slide over the spatial dimensions of tensors [batch, channels,
 * spatial...], for the loops of convolutions and pools.
 *
 * Outputs are computed line by line; a line is all positions along the last dimension. A line is
 * divided into tiles of at most TN__SLIDE_TILE outputs. For a line, tn__slide_find lists the rows
 * of the window that overlap the input. For each element (tap) of such a row, tn__slide_meet
 * computes which outputs of the tile read which inputs, as two strides. In a transposed convolution
 * the strides of input and output are exchanged, so one loop runs both kinds of convolution:
 *
 *     target[run.target + i * run.target_step] += weight * source[run.source + i * run.source_step]
 */
#ifndef TN_KERNELS_SLIDE_H
#define TN_KERNELS_SLIDE_H

#include "engine/kernels/kernel.h"

#define TN__SLIDE_MAX 8u    /* largest number of spatial dimensions */
#define TN__SLIDE_TILE 64u  /* number of outputs that are computed together */
#define TN__SLIDE_FOUND 64u /* most rows of the window that one call of tn__slide_find lists */

typedef struct tn__slide {
    uint32_t spatial;
    bool transposed;
    int64_t kernel[TN__SLIDE_MAX], stride[TN__SLIDE_MAX], dilation[TN__SLIDE_MAX];
    /* padding before and after each dimension; may be negative */
    int64_t begin[TN__SLIDE_MAX], end[TN__SLIDE_MAX];
    int64_t input[TN__SLIDE_MAX], output[TN__SLIDE_MAX];
    /* products of the extents of the input, of the output and of the window */
    uint64_t input_area, output_area, taps;
    /* `lines`: product of the output's extents without the last one; `rows`: product of the
     * window's extents without the last one */
    uint64_t lines, rows;
} tn__slide;

/* Reads a window from the operator's attributes and the current extents. `kernel`: extents of the
 * window; NULL: read them from the attribute kernel_shape. Errors: E_INVALID (attributes that
 * contradict the operands, extents above 2^40, ranks that differ from that of input 0). */
tn_status tn__slide_read(const tn_kernel_call *call, const tn_operand *input, const int64_t *kernel,
                         const tn_operand *output, bool transposed, tn__slide *slide);
/* Makes a window of one element over one dimension of `count` elements. */
void tn__slide_flat(tn__slide *slide, uint64_t count);
/* Whether each output reads only the input at its own position. */
bool tn__slide_is_flat(const tn__slide *slide);

typedef struct tn__slide_rows {
    uint32_t count;
    /* for each row: index of the first element of its line of the input */
    uint64_t source[TN__SLIDE_FOUND];
    uint64_t tap[TN__SLIDE_FOUND]; /* for each row: index of its first element in the window */
} tn__slide_rows;
/* Lists rows of the window, from *next on, that overlap the input at output line `line`. *next
 * becomes the row from which to continue. Returns false if there are no more rows. */
bool tn__slide_find(const tn__slide *slide, uint64_t line, uint64_t *next, tn__slide_rows *rows);

typedef struct tn__slide_run {
    uint64_t count; /* number of pairs of an output and an input; 0: there are no such pairs */
    /* the first output of the pairs, counted from output `first` of tn__slide_meet */
    uint64_t target;
    uint64_t source; /* the first input of the pairs, counted from the first input of the line */
    uint64_t target_step, source_step;
} tn__slide_run;
/* Computes which inputs are read by the outputs [first, first + count) of a line through element
 * `tap` of a row of the window. */
tn__slide_run tn__slide_meet(const tn__slide *slide, uint64_t tap, uint64_t first, uint64_t count);

/* Computes the coordinates of element `at` of the output plane, one per spatial dimension. */
void tn__slide_position(const tn__slide *slide, uint64_t at, int64_t *position);

#endif
