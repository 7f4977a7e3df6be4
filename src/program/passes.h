/* passes.h - the order in which a pipeline stage runs its forward and backward passes.
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

/* The k-th of the 2 x pieces x rounds passes of a stage. */
tn__pass tn__passes_kth(const tn__passes *passes, uint64_t stage, uint64_t k);

#endif
