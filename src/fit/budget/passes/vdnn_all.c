/* vdnn_all.c - the pass that offloads every feature map to the host (algorithms/vdnn.c). Cost:
 * O(jobs + operands). Source: Rhu et al., "vDNN" (2016). */
#include "fit/budget/algorithms/vdnn.h"

static tn_status vdnn_all_solve(tn__pass_run *run) {
    bool kept;
    TN_TRY(tn__vdnn_offer(run, TN__VDNN_ALL, &kept));
    if (!kept) return TN_E_STOPPED;
    return TN_OK;
}

const tn_pass tn__pass_vdnn_all = {
    .name = "vdnn-all",
    .summary = "vDNN: swaps all feature maps, and prefetches them",
    .source = "Rhu et al., vDNN (2016)",
    .features = TN__PASS_SWAPS,
    .solve = vdnn_all_solve,
};
