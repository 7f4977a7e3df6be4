/* spectrum.h - discrete Fourier transforms of any length, in memory that the caller brings.
 *
 *     uint64_t need = tn__spectrum_scratch(length);      doubles
 *     tn__spectrum_plan(&spectrum, length, scratch);     once
 *     tn__spectrum_run(&spectrum, line);                 line [length] pairs of real, imaginary
 *
 * The transform is the forward one without a factor. The inverse one is the same with real and
 * imaginary parts exchanged before and after, divided by the length.
 */
#ifndef TN_KERNELS_SPECTRUM_H
#define TN_KERNELS_SPECTRUM_H

#include "base/base.h"

#define TN__SPECTRUM_MAX (UINT64_C(1) << 40)

typedef struct tn__spectrum {
    uint64_t length, size; /* size: the power of two that is transformed */
    double *turns;         /* [size / 2] pairs: e^(-2 pi i k / size) */
    double *chirp;         /* [length] pairs: e^(-pi i k^2 / length); NULL: length is the size */
    double *filter, *work; /* [size] pairs */
} tn__spectrum;

/* Doubles of scratch memory; grows with the length. UINT64_MAX beyond TN__SPECTRUM_MAX. */
uint64_t tn__spectrum_scratch(uint64_t length);
void tn__spectrum_plan(tn__spectrum *spectrum, uint64_t length, double *scratch);
void tn__spectrum_run(const tn__spectrum *spectrum, double *line);

#endif
