/* post.c - finds activation functions by name and applies them to arrays of float32. */
#include "engine/kernels/loops/post.h"

#include <math.h>

#include "engine/kernels/convert.h"

#define CURVE(Name, expression)                                                                    \
    static float post_##Name(float x, float alpha, float beta) {                                   \
        (void)alpha, (void)beta;                                                                   \
        return expression;                                                                         \
    }
CURVE(Clip, (x < alpha ? alpha : x > beta ? beta : x))
CURVE(Elu, x > 0 ? x : alpha * expm1f(x))
CURVE(Gelu, 0.5f * x * (1 + erff(x * 0.70710678118654752f)))
CURVE(GeluTanh, 0.5f * x * (1 + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x))))
CURVE(HardSwish, (x * fmaxf(0, fminf(1, x / 6 + 0.5f))))
CURVE(LeakyRelu, x > 0 ? x : alpha * x)
CURVE(Linear, (alpha * x + beta))
CURVE(Mish, (x * tanhf(x > 20 ? x : log1pf(expf(x)))))
CURVE(Relu, x > 0 ? x : 0)
CURVE(Sigmoid, 1 / (1 + expf(-x)))
CURVE(Swish, x / (1 + expf(-alpha * x)))
CURVE(Tanh, tanhf(x))

/* Returns the function of an activation, or NULL if the name is not known. */
static tn__curve *post_curve_of(const char *name) {
    static const struct {
        const char *name;
        tn__curve *curve;
    } curves[] = {{"Clip", post_Clip},           {"Elu", post_Elu},
                  {"Gelu", post_Gelu},           {"GeluTanh", post_GeluTanh},
                  {"HardSwish", post_HardSwish}, {"LeakyRelu", post_LeakyRelu},
                  {"Linear", post_Linear},       {"Mish", post_Mish},
                  {"Relu", post_Relu},           {"Sigmoid", post_Sigmoid},
                  {"Swish", post_Swish},         {"Tanh", post_Tanh}};
    for (size_t i = 0; i < sizeof curves / sizeof *curves; i++)
        if (strcmp(name, curves[i].name) == 0) return curves[i].curve;
    return NULL;
}

bool tn__post_read(const tn_op *op, tn__post *post) {
    const tn_attr *names = tn__attr(op, "post");
    uint32_t alphas, betas;
    const double *alpha = tn__attr_floats(op, "post_alpha", &alphas);
    const double *beta = tn__attr_floats(op, "post_beta", &betas);
    post->count = names != NULL ? names->count : 0;
    if (alphas != post->count || betas != post->count || post->count > TN__POST_MOST) return false;
    for (uint32_t i = 0; i < post->count; i++) {
        post->alpha[i] = (float)alpha[i];
        post->beta[i] = (float)beta[i];
        post->curve[i] = post_curve_of(names->strings[i]);
        if (post->curve[i] == NULL) return false;
    }
    return true;
}

/* The most frequent activations have loops of their own, because calling a function for each
 * element takes longer than computing it. */
TN_WIDE static void post_relu(float *elements, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) elements[i] = elements[i] > 0 ? elements[i] : 0;
}

TN_WIDE static void post_clip(float *elements, uint64_t count, float alpha, float beta) {
    for (uint64_t i = 0; i < count; i++) {
        float x = elements[i];
        elements[i] = x < alpha ? alpha : x > beta ? beta : x;
    }
}

void tn__post_run(const tn__post *post, float *elements, uint64_t count) {
    for (uint32_t k = 0; k < post->count; k++) {
        if (post->curve[k] == post_Relu) {
            post_relu(elements, count);
            continue;
        }
        if (post->curve[k] == post_Clip) {
            post_clip(elements, count, post->alpha[k], post->beta[k]);
            continue;
        }
        for (uint64_t i = 0; i < count; i++)
            elements[i] = post->curve[k](elements[i], post->alpha[k], post->beta[k]);
    }
}
