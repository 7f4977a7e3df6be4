/* gelu.h - GELU of float32 and its slope, exact and by tanh, as loops of several kernels have it.
 * Source: Hendrycks, Gimpel 2016. */
#ifndef TN_KERNELS_GELU_H
#define TN_KERNELS_GELU_H

#include "kernels/approximate.h"

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

static inline float tn__gelu_slopef(float x) {
    return 0.5f * (1.0f + tn__erff(x * (float)TN__GELU_ROOT)) +
           x * (float)TN__GELU_DENSITY * tn__expf(-0.5f * x * x);
}
static inline float tn__gelu_tanh_slopef(float x) {
    float t = tn__tanhf((float)TN__GELU_TANH * (x + 0.044715f * x * x * x));
    return 0.5f * (1.0f + t) +
           0.5f * x * (1.0f - t * t) * (float)TN__GELU_TANH * (1.0f + 0.134145f * x * x);
}

#endif
