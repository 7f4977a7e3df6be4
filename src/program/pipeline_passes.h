/* pipeline_passes.h - the order in which a pipeline stage runs its forward and backward passes.
 *
 * 1F1B runs some forward passes first, so that later stages have work, then one forward and one
 * backward pass in turn, then the remaining backward passes. GPipe runs all forward passes first.
 * If each of the p stages has v pieces, piece c of stage r is part c p + r of the model.
 * Micro-batches run in groups of p: each group passes all pieces of a stage before the next group
 * starts. Both forward and backward passes visit the micro-batches from the first one on.
 *
 * Sources: Huang et al., "GPipe" (2019); Narayanan et al., "PipeDream" (2019) and "Efficient
 * large-scale language model training" (2021).
 */
#ifndef TN_PROGRAM_PASSES_H
#define TN_PROGRAM_PASSES_H

#include "base/base.h"

typedef struct tn__passes {
    /* number of stages, of pieces per stage, and of rounds (micro-batches); rounds are a multiple
     * of stages if pieces > 1 */
    uint64_t stages, pieces, rounds;
    bool all_ahead; /* GPipe: all forward passes come first */
} tn__passes;

typedef struct tn__pass {
    /* part of the model (piece x stages + stage), and number of the micro-batch */
    uint64_t part, round;
    bool backward;
} tn__pass;

/* The n-th forward pass of a stage, or its n-th backward pass, which visits the pieces from the
 * last one. */
static inline void tn__passes_nth(const tn__passes *it, uint64_t stage, uint64_t n,
                                  tn__pass *pass) {
    uint64_t group = it->stages * it->pieces, within = n % group;
    uint64_t piece = it->pieces == 1 ? 0 : within / it->stages;
    if (pass->backward) piece = it->pieces - 1 - piece;
    pass->round = it->pieces == 1 ? n : n / group * it->stages + within % it->stages;
    pass->part = piece * it->stages + stage;
}

static inline uint64_t tn__passes_ahead(const tn__passes *it, uint64_t stage) {
    uint64_t behind = it->stages - stage - 1, all = it->rounds * it->pieces;
    uint64_t ahead = it->pieces == 1 ? behind : 2 * behind + (it->pieces - 1) * it->stages;
    return ahead < all && !it->all_ahead ? ahead : all;
}

/* The k-th of the 2 x pieces x rounds passes that a stage runs. Cost: O(1). */
static inline tn__pass tn__passes_kth(const tn__passes *it, uint64_t stage, uint64_t k) {
    uint64_t ahead = tn__passes_ahead(it, stage), all = it->rounds * it->pieces;
    uint64_t n = k, paired = 2 * (all - ahead);
    tn__pass pass = {0};
    if (k >= ahead && k - ahead < paired) {
        pass.backward = (k - ahead) % 2 != 0;
        n = (k - ahead) / 2 + (pass.backward ? 0 : ahead);
    } else if (k >= ahead) {
        pass.backward = true;
        n = k - all;
    }
    tn__passes_nth(it, stage, n, &pass);
    return pass;
}

#endif
