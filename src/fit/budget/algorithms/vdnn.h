/* vdnn.h - the schedule of the passes vdnn-all, vdnn-conv and vdnn-dynamic: feature maps are copied
 * to the host during the forward pass, and copied back during the backward pass before they are
 * read. vdnn.c describes the algorithm. */
#ifndef TN_ALGORITHMS_VDNN_H
#define TN_ALGORITHMS_VDNN_H

#include "fit/budget/algorithms/idle.h"

/* Selects the layers of which the inputs are offloaded. */
typedef enum tn__vdnn_which {
    /* the inputs of all layers are offloaded; if there are convolutions, not those of matrix
     * products */
    TN__VDNN_ALL,
    TN__VDNN_CONV /* only the inputs of convolutions are offloaded */
} tn__vdnn_which;

/* Makes the schedule that vdnn.c describes, and offers it to the run. *kept: the run kept it,
 * because it is within the budget and faster than the best schedule so far. Errors: E_UNSUPPORTED
 * (no host link; TN__VDNN_CONV without a graph), those of tn__pass_offer. */
tn_status tn__vdnn_offer(tn__pass_run *run, tn__vdnn_which which, bool *kept);

#endif
