/* planes.h - the input of a convolution so that what one weight meets at all positions lies side by
 * side.
 *
 * A plane for each channel and phase of the strides, padding included: element q of phase p is
 * input q * stride + p - begin. The result at o then meets, under the tap at t, element o + t /
 * stride of phase t % stride, whatever o is: one distance for each tap. Positions between two lines
 * of results are counted along and mean nothing. Windows of one tap need no planes.
 *
 * It is done in bands of a few lines of results, so that the planes stay in the second cache and
 * scratch is bounded.
 */
#ifndef TN_KERNELS_PLANES_H
#define TN_KERNELS_PLANES_H

#include "kernels/slide.h"

#define TN__PLANES_LANES 16u /* positions are counted in so many */

typedef struct tn__planes {
    bool flat;                      /* the input as it is: windows of one tap */
    uint64_t channels;              /* of all groups */
    uint64_t band;                  /* lines of the result (positions, when flat) at a time */
    uint64_t extent[TN__SLIDE_MAX]; /* of a plane, for a band */
    uint64_t phases[TN__SLIDE_MAX], phase_count;
    uint64_t area, plane; /* of what a line covers; of a plane */
    uint64_t tail;        /* of the last line: to its last result */
    uint64_t positions;   /* of a band, in whole lanes */
    uint64_t floats;      /* of all planes and what may be read behind them */
} tn__planes;

static inline uint64_t tn__planes_up(uint64_t count, uint64_t step) {
    return tn__mul_sat(count / step + (count % step != 0), step);
}

/* The window may have any extents (not transposed). */
void tn__planes_plan(const tn__slide *slide, uint64_t channels, tn__planes *planes);
/* Positions from the first result of `lines` > 0 lines to the last, in whole lanes: none of them
 * meets anything behind the planes. */
uint64_t tn__planes_positions(const tn__planes *planes, uint64_t lines);
/* table[channel * taps + tap] becomes where its inputs begin, for `columns` of them. */
void tn__planes_table(const tn__slide *slide, const tn__planes *planes, uint64_t columns,
                      uint64_t *table);
/* The planes for the results of output line `begin` and on. */
void tn__planes_fill(const tn__slide *slide, const tn__planes *planes, const float *image,
                     uint64_t begin, float *to);

#endif
