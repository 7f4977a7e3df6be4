/* post.h - the activations that follow an operator of domain "tenure": its attributes `post`,
 * `post_alpha`, `post_beta`. */
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

/* False: an activation that is not known, lists of other lengths, or more than there is room for.
 */
bool tn__post_read(const tn_op *op, tn__post *post);
void tn__post_run(const tn__post *post, float *elements, uint64_t count);

#endif
