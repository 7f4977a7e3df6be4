/* gelu.h - GELU of float32 and its slope, exact and by tanh, for the loops of several kernels.
 * Source: Hendrycks, Gimpel 2016.
 */
#ifndef TN_KERNELS_GELU_H
#define TN_KERNELS_GELU_H

#include "engine/kernels/approximate.h"

/* sqrt(1/2), 1 / sqrt(2 pi); sqrt(2/pi) of the approximation by tanh */
#define TN__GELU_ROOT 0.70710678118654752440
#define TN__GELU_DENSITY 0.39894228040143267794
#define TN__GELU_TANH 0.79788456080286535588

static inline float tn__geluf(float x) {
    return 0.5f * x * (1.0f + tn__erff(x * (float)TN__GELU_ROOT));
}
static inline float tn__gelu_tanhf(float x) {
    return 0.5f * x * (1.0f + tn__tanhf((float)TN__GELU_TANH * (x + 0.044715f * x * x * x)));
}

/* Phi(x) + x phi(x). Both contain exp(-x^2 / 2), which is computed once: the tail is that times a
 * polynomial in s = 1 - 1 / (1 + 0.35 |x|) (like Abramowitz, Stegun 26.2.17, but about 0; with our
 * own coefficients, like those of approximate.h). Error within 2e-7. */
static inline float tn__gelu_slopef(float x) {
    float a = -0.5f * x * x, far = 0.35f * fabsf(x);
    tn__exponent parts = tn__exponent_of(a < -87.0f ? -87.0f : a);
    float e = (1.0f + parts.less_one) * tn__power_of_two(parts.whole);
    e = a < -87.0f ? 0.0f : e; /* else 1e-38 and less */
    float s = 1.0f - 1.0f / (1.0f + far);
    float p = 0.0483761093412f;
    p = p * s + 0.0139923618166f;
    p = p * s - 0.159568561833f;
    p = p * s - 0.159337471166f;
    p = p * s + 0.900944679774f;
    p = p * s - 1.13983416196f;
    p = p * s + 0.5f;
    float beyond = e * p;
    return (x < 0 ? beyond : 1.0f - beyond) + x * (float)TN__GELU_DENSITY * e;
}
static inline float tn__gelu_tanh_slopef(float x) {
    float t = tn__tanhf((float)TN__GELU_TANH * (x + 0.044715f * x * x * x));
    return 0.5f * (1.0f + t) +
           0.5f * x * (1.0f - t * t) * (float)TN__GELU_TANH * (1.0f + 0.134145f * x * x);
}

#endif
