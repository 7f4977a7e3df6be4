/* recurrent.c - RNN, GRU, LSTM.
 *
 * Input [seq, batch, in] (layout 0) or [batch, seq, in] (layout 1); recurrence weights
 * [directions, gates * hidden, hidden]. Outputs: all steps Y, the last one Y_h, and for LSTM Y_c.
 * Source: operator texts of ONNX, opsets 1 to 22.
 */
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/rules/window.h"

static tn_status recurrent_shape(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *r = tn__input(infer, 2);
    bool batch_first = tn__attr_int(infer->op, "layout", 0) != 0;
    bool both = strcmp(tn__attr_string(infer->op, "direction", "forward"), "bidirectional") == 0;
    int64_t directions = both ? 2 : 1,
            hidden = tn__attr_int(infer->op, "hidden_size", TN_DIM_UNKNOWN);
    if (tn__rank_known(r) && r->rank == 3) {
        if (hidden == TN_DIM_UNKNOWN) hidden = r->shape[2];
        if (r->shape[0] != TN_DIM_UNKNOWN) directions = r->shape[0];
    }
    if (hidden != TN_DIM_UNKNOWN && hidden < 0)
        return tn__infer_fail(infer, "attribute hidden_size is negative");
    if (tn__rank_known(x) && x->rank != 3)
        return tn__infer_fail(infer, "input '%.60s' has rank %u instead of 3", x->name, x->rank);
    int64_t steps = tn__rank_known(x) ? x->shape[batch_first ? 1 : 0] : TN_DIM_UNKNOWN;
    int64_t batch = tn__rank_known(x) ? x->shape[batch_first ? 0 : 1] : TN_DIM_UNKNOWN;
    int64_t all[2][4] = {{steps, directions, batch, hidden}, {batch, steps, directions, hidden}};
    int64_t last[2][3] = {{directions, batch, hidden}, {batch, directions, hidden}};
    TN_TRY(tn__set_output(infer, 0, x->dtype, 4, all[batch_first]));
    TN_TRY(tn__set_output(infer, 1, x->dtype, 3, last[batch_first]));
    return tn__set_output(infer, 2, x->dtype, 3, last[batch_first]);
}

/* Operations of a recurrent cell: each weight is used once per step and batch element. */
static uint64_t recurrent_flops(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    uint64_t w = tn__elements(tn__input(infer, 1)), r = tn__elements(tn__input(infer, 2));
    if (!tn__shape_known(x) || x->rank != 3 || w == TN_SIZE_UNKNOWN || r == TN_SIZE_UNKNOWN)
        return TN_SIZE_UNKNOWN;
    uint64_t turns = tn__mul_sat((uint64_t)x->shape[0], (uint64_t)x->shape[1]);
    return tn__count_mul(tn__mul_sat(2, turns), tn__add_sat(w, r));
}

/* clang-format off */
#define RECURRENT(name, number, most, outputs) .type = #name, .inputs_min = 3, .inputs_max = most, \
    .outputs_max = outputs, .shape = recurrent_shape, .flops = recurrent_flops, \
    .weights = 2 | 4 | 8, .gates = number, .flags = TN_RULE_MATMUL_LIKE
static const tn_op_rule recurrent_rules[] = {
    {RECURRENT(GRU, 3, 6, 2), .gradient = tn__gradient_gru},
    {RECURRENT(LSTM, 4, 8, 3), .gradient = tn__gradient_lstm},
    {RECURRENT(RNN, 1, 6, 2), .gradient = tn__gradient_rnn},
};
/* clang-format on */

TN_OP_FAMILY(recurrent, "");
