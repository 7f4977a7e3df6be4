/* spectrum.c - discrete Fourier transforms of any length.
 *
 * A power of two: radix 2, decimation in time. Any other length: with jk = (j^2 + k^2 - (k-j)^2)/2
 * the sum becomes a convolution with a chirp, which two transforms of a power of two of at least
 * twice the length compute. All in double; the angles are exact multiples, never accumulated.
 * Cost: O(n log n).
 * Source: Cooley, Tukey 1965; Bluestein 1970.
 */
#include "engine/kernels/spectrum.h"

#include <math.h>

#define SPECTRUM_PI 3.14159265358979323846

static uint64_t spectrum_power(uint64_t least) {
    uint64_t power = 1;
    while (power < least) power *= 2;
    return power;
}

uint64_t tn__spectrum_scratch(uint64_t length) {
    if (length > TN__SPECTRUM_MAX) return UINT64_MAX;
    return 2 * length + 5 * spectrum_power(2 * length);
}

/* --- powers of two --- */

static void spectrum_exchange(double *line, uint64_t size) {
    for (uint64_t i = 1, j = 0; i < size; i++) { /* j: the bits of i reversed */
        uint64_t bit = size / 2;
        for (; (j & bit) != 0; bit /= 2) j ^= bit;
        j |= bit;
        if (i >= j) continue;
        for (uint64_t part = 0; part < 2; part++) {
            double value = line[2 * i + part];
            line[2 * i + part] = line[2 * j + part];
            line[2 * j + part] = value;
        }
    }
}

static void spectrum_power_run(const tn__spectrum *spectrum, double *line) {
    uint64_t size = spectrum->size;
    spectrum_exchange(line, size);
    for (uint64_t half = 1; half < size; half *= 2)
        for (uint64_t first = 0; first < size; first += 2 * half)
            for (uint64_t k = 0; k < half; k++) {
                const double *turn = spectrum->turns + 2 * (k * (size / 2 / half));
                double *low = line + 2 * (first + k), *high = low + 2 * half;
                double real = high[0] * turn[0] - high[1] * turn[1];
                double imaginary = high[0] * turn[1] + high[1] * turn[0];
                high[0] = low[0] - real;
                high[1] = low[1] - imaginary;
                low[0] += real;
                low[1] += imaginary;
            }
}

/* --- any length --- */

void tn__spectrum_plan(tn__spectrum *spectrum, uint64_t length, double *scratch) {
    bool even = length > 0 && tn__is_power_of_two(length);
    uint64_t size = even ? length : spectrum_power(2 * length);
    *spectrum = (tn__spectrum){.length = length, .size = size, .turns = scratch};
    for (uint64_t k = 0; k < size / 2; k++) {
        double angle = -2 * SPECTRUM_PI * (double)k / (double)size;
        spectrum->turns[2 * k] = cos(angle);
        spectrum->turns[2 * k + 1] = sin(angle);
    }
    if (even) return;
    spectrum->filter = scratch + size;
    spectrum->work = spectrum->filter + 2 * size;
    spectrum->chirp = spectrum->work + 2 * size;
    memset(spectrum->filter, 0, 2 * size * sizeof *spectrum->filter);
    uint64_t square = 0; /* k^2 modulo the period 2 length */
    for (uint64_t k = 0; k < length; k++) {
        double angle = -SPECTRUM_PI * (double)square / (double)length;
        double real = cos(angle), imaginary = sin(angle);
        uint64_t mirror = k > 0 ? size - k : 0;
        spectrum->chirp[2 * k] = real;
        spectrum->chirp[2 * k + 1] = imaginary;
        spectrum->filter[2 * k] = spectrum->filter[2 * mirror] = real;
        spectrum->filter[2 * k + 1] = spectrum->filter[2 * mirror + 1] = -imaginary;
        square = (square + 2 * k + 1) % (2 * length);
    }
    spectrum_power_run(spectrum, spectrum->filter);
}

static void spectrum_multiply(const double *a, const double *b, double *to) {
    double real = a[0] * b[0] - a[1] * b[1];
    to[1] = a[0] * b[1] + a[1] * b[0];
    to[0] = real;
}

void tn__spectrum_run(const tn__spectrum *spectrum, double *line) {
    double *work = spectrum->work;
    uint64_t size = spectrum->size;
    if (spectrum->chirp == NULL) {
        spectrum_power_run(spectrum, line);
        return;
    }
    memset(work, 0, 2 * size * sizeof *work);
    for (uint64_t k = 0; k < spectrum->length; k++)
        spectrum_multiply(line + 2 * k, spectrum->chirp + 2 * k, work + 2 * k);
    spectrum_power_run(spectrum, work);
    for (uint64_t k = 0; k < size; k++) { /* conjugated, so that the way back is forward too */
        spectrum_multiply(work + 2 * k, spectrum->filter + 2 * k, work + 2 * k);
        work[2 * k + 1] = -work[2 * k + 1];
    }
    spectrum_power_run(spectrum, work);
    for (uint64_t k = 0; k < spectrum->length; k++) {
        const double back[2] = {work[2 * k] / (double)size, -work[2 * k + 1] / (double)size};
        spectrum_multiply(back, spectrum->chirp + 2 * k, line + 2 * k);
    }
}
