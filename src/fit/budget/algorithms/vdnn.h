/* vdnn.h - the schedule shared by vdnn-all, vdnn-conv and vdnn-dynamic: feature maps are copied to
 * the host during the forward pass, and back ahead of the backward pass. vdnn.c describes the
 * algorithm. */
#ifndef TN_ALGORITHMS_VDNN_H
#define TN_ALGORITHMS_VDNN_H

#include "fit/budget/algorithms/idle.h"

typedef enum tn__vdnn_which {
    TN__VDNN_ALL, /* inputs of all layers of feature extraction */
    TN__VDNN_CONV /* inputs of convolutions */
} tn__vdnn_which;

/* Offers that schedule to the run. kept: it is within budget and the best so far. Errors:
 * E_UNSUPPORTED (no host link; CONV: no graph), those of tn__pass_offer. */
tn_status tn__vdnn_offer(tn__pass_run *run, tn__vdnn_which which, bool *kept);

#endif
