/* vdnn.h - feature maps go to the host as the forward pass leaves them, and come back ahead of the
 * backward pass: what vdnn-all, vdnn-conv and vdnn-dynamic share. vdnn.c says how. */
#ifndef TN_BUDGET_VDNN_H
#define TN_BUDGET_VDNN_H

#include "budget/gaps.h"

typedef enum tn__vdnn_which {
    TN__VDNN_ALL, /* what any layer of feature extraction reads */
    TN__VDNN_CONV /* what convolutions read */
} tn__vdnn_which;

/* Offers that schedule to the run. kept: it is within budget and the best so far.
 * Errors: E_UNSUPPORTED (there is no link; CONV: no graph), those of tn__pass_offer. */
tn_status tn__vdnn_offer(tn__pass_run *run, tn__vdnn_which which, bool *kept);

#endif
