/* vdnn_conv.c - the pass that offloads the inputs of convolutions to the host (algorithms/vdnn.c).
 * Cost: O(jobs + operands). Source: Rhu et al., "vDNN" (2016). */
#include "fit/budget/algorithms/vdnn.h"

static tn_status vdnn_conv_solve(tn__pass_run *run) {
    bool kept;
    TN_TRY(tn__vdnn_offer(run, TN__VDNN_CONV, &kept));
    if (!kept) return TN_E_STOPPED;
    return TN_OK;
}

const tn_pass tn__pass_vdnn_conv = {
    .name = "vdnn-conv",
    .summary = "vDNN: swaps the inputs of convolutions, and prefetches them",
    .source = "Rhu et al., vDNN (2016)",
    .features = TN__PASS_SWAPS | TN__PASS_GRAPH,
    .solve = vdnn_conv_solve,
};
