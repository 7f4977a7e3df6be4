/* post.h - the activations that rewrites have fused into an operator of domain "tenure". The
 * operator's attributes `post`, `post_alpha` and `post_beta` list them with their parameters. */
#ifndef TN_KERNELS_POST_H
#define TN_KERNELS_POST_H

#include "engine/kernels/kernel.h"

#define TN__POST_MOST 8u

typedef float tn__curve(float x, float alpha, float beta);

typedef struct tn__post {
    uint32_t count;
    tn__curve *curve[TN__POST_MOST];
    float alpha[TN__POST_MOST], beta[TN__POST_MOST];
} tn__post;

/* Reads the fused activations of an operator. Returns false if an activation is not known, if the
 * three lists have different lengths, or if there are more than TN__POST_MOST. */
bool tn__post_read(const tn_op *op, tn__post *post);
void tn__post_run(const tn__post *post, float *elements, uint64_t count);

#endif
