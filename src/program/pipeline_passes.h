/* pipeline_passes.h - the order in which a pipeline stage runs its forward and backward passes.
 *
 * 1F1B runs some forward passes first, so that later stages have work, then one forward and one
 * backward pass in turn, then the remaining backward passes. GPipe runs all forward passes
 * first. With v pieces, piece c of stage r is part c p + r of the model. Micro-batches run in
 * groups of p: each group passes all pieces of a stage before the next group starts. Rounds are
 * visited from the first, in both directions.
 *
 * Sources: Huang et al., "GPipe" (2019); Narayanan et al., "PipeDream" (2019), and 2021.
 */
#ifndef TN_PROGRAM_PASSES_H
#define TN_PROGRAM_PASSES_H

#include "base/base.h"

typedef struct tn__passes {
    uint64_t stages, pieces, rounds; /* rounds: a multiple of stages if pieces > 1 */
    bool all_ahead;                  /* all forward passes first */
} tn__passes;

typedef struct tn__pass {
    uint64_t part, round; /* of the model: piece x stages + stage */
    bool backward;
} tn__pass;

/* The n-th forward pass of a stage; its n-th backward pass visits pieces from the last. */
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

/* The k-th of the 2 x pieces x rounds passes of a stage. O(1). */
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
