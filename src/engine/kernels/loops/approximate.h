/* approximate.h - exp, expm1, tanh, the logistic function, erf, log1p and GELU of float32 without
 * branches and function calls.
 *
 * Compilers can vectorise a loop over these functions (SSE2 is sufficient), which they cannot do
 * with erff and tanhf of libm. All functions except log1p use one reduction: exp(x) - 1 = 2^n * m +
 * (2^n - 1), where n = round(x / ln 2), r = x - n ln 2 with ln 2 in two parts (Cody and Waite,
 * Software Manual for the Elementary Functions, 1980, chapter 6), and m = exp(r) - 1 = r + r^2 q(r)
 * with a polynomial q. Then tanh(x) = -e / (2 + e) with e = exp(-2|x|) - 1, and erf(x) = 1 -
 * exp(-|x| p(|x|)), where the polynomial p(a) approximates the smooth function -log(erfc(a)) / a.
 * log(1 + x) for x in [0, 1] is computed as an inverse hyperbolic tangent. The coefficients are our
 * own: least squares on Chebyshev nodes in 40 digits, with Lawson's reweighting until the relative
 * error is level. Largest errors over every 1009th float (tests/kernels/test_approximate.c): exp
 * 1.0 ulp, expm1 1.7, logistic function 2.3, tanh 2.5, log1p 2.0, erf 3.0 ulp and 8.1e-8 absolute.
 * NaNs stay NaNs, overflow gives infinity, and subnormal results are exact.
 */
#ifndef TN_KERNELS_APPROXIMATE_H
#define TN_KERNELS_APPROXIMATE_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* The parts of exp(x), where x = whole * ln 2 + r and less_one = exp(r) - 1. */
typedef struct tn__exponent {
    int32_t whole;
    float less_one;
} tn__exponent;

static inline float tn__float_of_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t tn__bits_of_float(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Computes the parts of exp(x) for |x| < 128. */
static inline tn__exponent tn__exponent_of(float x) {
    /* if a small number is added to this one, the low bits of the sum are the nearest integer */
    const float rounder = 0x1.8p23f;
    float shifted = x * 0x1.715476p0f + rounder;
    float whole = shifted - rounder;
    float r = (x - whole * 0x1.62e4p-1f) - whole * 0x1.7f7d1cp-20f;
    float q = 0.00139516696437f;
    q = q * r + 0.00836960298625f;
    q = q * r + 0.0416661879504f;
    q = q * r + 0.166665128382f;
    q = q * r + 0.500000010083f;
    int32_t n = (int32_t)(tn__bits_of_float(shifted) - tn__bits_of_float(rounder));
    return (tn__exponent){.whole = n, .less_one = r + r * r * q};
}

/* Returns 2^n for n in [-126, 127]. */
static inline float tn__power_of_two(int32_t n) {
    return tn__float_of_bits((uint32_t)(n + 127) << 23);
}

static inline float tn__expf(float x) {
    /* written so that a NaN, for which comparisons are false, stays a NaN */
    float y = x > 89.0f ? 89.0f : x;
    y = y < -104.0f ? -104.0f : y;
    tn__exponent parts = tn__exponent_of(y);
    /* multiply by 2^n in two steps, because 2^n itself may be out of range */
    int32_t half = parts.whole >> 1;
    return (1.0f + parts.less_one) * tn__power_of_two(half) * tn__power_of_two(parts.whole - half);
}

/* Returns exp(x) - 1 for x <= 88. */
static inline float tn__expm1f(float x) {
    /* for smaller x the rounded result is -1, as it is for x = -25 */
    float y = x < -25.0f ? -25.0f : x;
    tn__exponent parts = tn__exponent_of(y);
    float power = tn__power_of_two(parts.whole);
    return power * parts.less_one + (power - 1.0f);
}

static inline float tn__tanhf(float x) {
    float m = tn__expm1f(-2.0f * fabsf(x));
    return copysignf(-m / (2.0f + m), x);
}

static inline float tn__logisticf(float x) {
    float e = tn__expf(-fabsf(x));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

/* Returns log(1 + x) for x in [0, 1], as 2 artanh(x / (2 + x)), with a polynomial in the square of
 * x / (2 + x). */
static inline float tn__log1pf(float x) {
    float s = x / (2.0f + x), t = s * s;
    float p = 0.12150601972f;
    p = p * t + 0.10713785648f;
    p = p * t + 0.143084473604f;
    p = p * t + 0.199994386355f;
    p = p * t + 0.333333378148f;
    return 2.0f * (s + s * t * p);
}

static inline float tn__erff(float x) {
    float a = fabsf(x);
    a = a > 4.0f ? 4.0f : a; /* for larger a the rounded result is 1, as it is for a = 4 */
    float p = -9.25815231355e-6f;
    p = p * a + 0.000117657144661f;
    p = p * a - 0.000632889855533f;
    p = p * a + 0.0016671175104f;
    p = p * a - 0.000160478949433f;
    p = p * a - 0.0191530233306f;
    p = p * a + 0.102777820933f;
    p = p * a + 0.636619382815f;
    p = p * a + 1.1283791716f;
    return copysignf(-tn__expm1f(-a * p), x);
}

/* --- GELU of float32 and its slope, exact and by tanh. Source: Hendrycks, Gimpel 2016. --- */

/* sqrt(1/2); 1 / sqrt(2 pi); sqrt(2/pi), for the approximation of GELU by tanh */
#define TN__GELU_ROOT 0.70710678118654752440
#define TN__GELU_DENSITY 0.39894228040143267794
#define TN__GELU_TANH 0.79788456080286535588

static inline float tn__geluf(float x) {
    return 0.5f * x * (1.0f + tn__erff(x * (float)TN__GELU_ROOT));
}
static inline float tn__gelu_tanhf(float x) {
    return 0.5f * x * (1.0f + tn__tanhf((float)TN__GELU_TANH * (x + 0.044715f * x * x * x)));
}

/* Returns the derivative of GELU, Phi(x) + x phi(x), where Phi and phi are the distribution and the
 * density of the normal distribution. Both contain exp(-x^2 / 2), which is computed once: Phi(-|x|)
 * is exp(-x^2 / 2) times a polynomial in s = 1 - 1 / (1 + 0.35 |x|). The form of the polynomial is
 * like Abramowitz and Stegun 26.2.17, with our own coefficients. The error is at most 2e-7. */
static inline float tn__gelu_slopef(float x) {
    float a = -0.5f * x * x, far = 0.35f * fabsf(x);
    tn__exponent parts = tn__exponent_of(a < -87.0f ? -87.0f : a);
    float e = (1.0f + parts.less_one) * tn__power_of_two(parts.whole);
    e = a < -87.0f ? 0.0f : e; /* the exact value is at most about 1e-38 */
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
