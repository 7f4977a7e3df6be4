/* planes.h - lays the input of a convolution out so that the inputs of one weight at all positions
 * are contiguous.
 *
 * A plane for each channel and phase of the strides, padding included: element q of phase p is
 * input q * stride + p - begin. For every o, the result at o then reads, under the tap at t,
 * element o + t / stride of phase t % stride: one distance for each tap. Positions between two
 * lines of results are computed too and ignored. Windows of one tap need no planes.
 *
 * The copy is made in bands of a few lines of results, so that the planes stay in the second-level
 * cache and scratch is bounded.
 */
#ifndef TN_KERNELS_PLANES_H
#define TN_KERNELS_PLANES_H

#include "engine/kernels/slide.h"

#define TN__PLANES_LANES 16u /* positions are computed in multiples of this */

typedef struct tn__planes {
    bool flat;                      /* the input is used directly: windows of one tap */
    uint64_t channels;              /* in all groups */
    uint64_t band;                  /* lines of the result (positions, when flat) at a time */
    uint64_t extent[TN__SLIDE_MAX]; /* extents of a plane, for a band */
    uint64_t phases[TN__SLIDE_MAX], phase_count;
    uint64_t area, plane; /* area covered by a line; size of a plane */
    uint64_t tail;        /* part of the last line up to its last result */
    uint64_t positions;   /* positions of a band, in whole lanes */
    uint64_t floats;      /* floats of all planes, plus those that may be read beyond them */
} tn__planes;

static inline uint64_t tn__planes_up(uint64_t count, uint64_t step) {
    return tn__mul_sat(count / step + (count % step != 0), step);
}

/* The window may have any extents (not transposed). */
void tn__planes_plan(const tn__slide *slide, uint64_t channels, tn__planes *planes);
/* Positions from the first result of `lines` > 0 lines to the last, in whole lanes: none of them
 * reads beyond the planes. */
uint64_t tn__planes_positions(const tn__planes *planes, uint64_t lines);
/* table[channel * taps + tap] becomes where its inputs begin, for `columns` of them. */
void tn__planes_table(const tn__slide *slide, const tn__planes *planes, uint64_t columns,
                      uint64_t *table);
/* The planes for the results of output line `begin` and on. */
void tn__planes_fill(const tn__slide *slide, const tn__planes *planes, const float *image,
                     uint64_t begin, float *to);

#endif
