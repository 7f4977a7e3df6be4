/* swish.c - fuses x * Sigmoid(x), and x * HardSigmoid(x) with ONNX's constants for HardSwish, into
 * one operator. */
#include "graph/rewrite/rewrite.h"

#include <math.h>

#include "graph/attr.h"

static bool swish_is_hard(const tn_op *op) {
    return fabs(tn__attr_float(op, "alpha", 0.2) - 1.0 / 6) < 1e-6 &&
           fabs(tn__attr_float(op, "beta", 0.5) - 0.5) < 1e-6;
}

static tn_status swish_each(tn__draft *draft, tn_op_id id) {
    if (!tn__draft_is(draft, id, "Mul")) return TN_OK;
    for (uint32_t i = 0; i < 2; i++) {
        tn_tensor_id x = tn__draft_input(draft, id, i);
        tn_op_id soft = tn__draft_only(draft, id, 1 - i, "Sigmoid");
        tn_op_id hard = tn__draft_only(draft, id, 1 - i, "HardSigmoid");
        tn_op_id gate = soft != TN_NONE ? soft : hard;
        if (gate == TN_NONE || tn__draft_input(draft, gate, 0) != x) continue;
        if (!tn__draft_is_exact(draft, x)) continue;
        if (soft != TN_NONE)
            return tn__draft_become(draft, id, "tenure", "Swish", 1, &x, 1, NULL, 0);
        if (swish_is_hard(tn__draft_op_of(draft, hard)))
            return tn__draft_become(draft, id, "", "HardSwish", 14, &x, 1, NULL, 0);
    }
    return TN_OK;
}

const tn__rewrite tn__rewrite_swish = {
    .name = "swish",
    .summary = "fuses x * Sigmoid(x), and its piecewise form",
    .each = swish_each,
};
