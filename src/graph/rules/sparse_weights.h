/* sparse_weights.h - how sparse weights are stored, and which weights stay.
 *
 * The form is a matrix of `rows` (channels of the result) times `columns` (the elements that each
 * channel sums over). The nonzero numbers lie row by row in `values`; their places are stored in
 * one of three ways, named by the bits per place:
 *
 *     1    a bit for each element of the matrix, rows of whole bytes       fewest bytes above 1/8
 *     8    columns within blocks of 256, a byte each                       fewest below that
 *     16   columns within blocks of 65,536                                 fewest below 1/64
 *
 * `starts` has the first value of each block of each row, and finally the end of the last block.
 * The bytes follow from rows, columns and count alone, so a plan knows them before any weight was
 * read.
 */
#ifndef TN_RULES_SPARSE_WEIGHTS_H
#define TN_RULES_SPARSE_WEIGHTS_H

#include "base/base.h"

typedef struct tn__sparse {
    uint64_t rows, columns;
    uint64_t kept; /* number of values that the form has space for */
    uint32_t bits; /* bits per place: 1, 8 or 16 */
} tn__sparse;

/* The number of columns in a block. */
static inline uint64_t tn__sparse_span(const tn__sparse *form) {
    return form->bits == 1 ? form->columns : UINT64_C(1) << form->bits;
}
/* The number of blocks per row; 0 for an invalid form. */
uint64_t tn__sparse_blocks(const tn__sparse *form);
/* Return the number of elements of the list `places`, which have 8 or 16 bits, and of the list
 * `starts`; TN_SIZE_UNKNOWN on overflow. */
uint64_t tn__sparse_places(const tn__sparse *form);
uint64_t tn__sparse_starts(const tn__sparse *form);
/* Sets `bits` to the value that needs the fewest bytes. Returns false if the dense float32 matrix
 * is not larger, or if there are too many values. */
bool tn__sparse_choose(tn__sparse *form);

/* --- which elements stay when weights are pruned --- */

#define TN__MAGNITUDE_BINS 65536u

/* The threshold for the largest magnitudes, found by their bits in two passes; it is exact for any
 * data. All elements larger than `threshold` stay, and of those equal to it the first `ties`. */
typedef struct tn__magnitudes {
    uint64_t bins[TN__MAGNITUDE_BINS];
    uint32_t high;      /* upper half of the threshold, known after the first pass */
    uint32_t threshold; /* bits of the threshold magnitude, known after the second pass */
    uint64_t ties;
} tn__magnitudes;

static inline uint32_t tn__magnitude(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits & 0x7fffffffu;
}

/* Counts values for one pass. Pass 0 counts the upper halves of magnitudes, pass 1 the lower halves
 * of those with the upper half that pass 0 found. Each pass begins with bins of zeros, and may
 * count any number of arrays. */
void tn__magnitudes_count(tn__magnitudes *found, uint32_t pass, const float *values,
                          uint64_t count);
/* Ends a pass. `kept` is the number of elements that stay, at most the number counted in pass 0. */
void tn__magnitudes_end(tn__magnitudes *found, uint32_t pass, uint64_t kept);
/* Whether the next element stays. It must be called once for each element, in order. */
static inline bool tn__magnitudes_keeps(tn__magnitudes *found, float value) {
    uint32_t bits = tn__magnitude(value);
    if (bits != found->threshold) return bits > found->threshold;
    if (found->ties == 0) return false;
    found->ties--;
    return true;
}
/* Finds the threshold for a single array: counts it in both passes, and ends them. */
void tn__magnitudes_find(tn__magnitudes *found, const float *values, uint64_t count, uint64_t kept);

#endif
