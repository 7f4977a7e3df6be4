/* branch.c - the rule of If.
 *
 * With a known condition the other branch is dead and the result is that of the taken branch. With
 * an unknown one, the result must be able to hold either: if both extents are known and differ, it
 * gets the larger one, as an upper bound.
 * Source: operator texts of ONNX, opsets 1 to 21.
 */
#include "graph/control.h"

/* The branch that runs: 0 then, 1 else, 2 not known. */
static uint32_t branch_taken(const tn_infer *infer) {
    uint32_t count;
    const int64_t *condition = tn__value_ints(infer, 0, &count);
    return !condition || count != 1 ? 2 : condition[0] ? 0 : 1;
}

static tn_status branch_branches(tn_infer *infer, tn_block_id branch[2]) {
    TN_TRY(tn__control_body(infer, "then_branch", &branch[0]));
    TN_TRY(tn__control_body(infer, "else_branch", &branch[1]));
    for (uint32_t i = 0; i < 2; i++)
        TN_TRY(tn__control_check(infer, tn_graph_block(infer->graph, branch[i]), 0,
                                 tn__output_count(infer)));
    return TN_OK;
}

/* The same after the branches were tried. */
static uint32_t branch_left(const tn_infer *infer, const tn_block_id branch[2]) {
    for (uint32_t i = 0; i < 2; i++)
        if (tn_graph_block(infer->graph, branch[i])->dead) return 1 - i;
    return branch_taken(infer);
}

static tn_status branch_if_enter(tn_infer *infer, uint32_t round, bool *again) {
    tn_block_id branch[2];
    uint32_t taken = branch_taken(infer);
    *again = round == 0;
    if (round) return TN_OK;
    TN_TRY(branch_branches(infer, branch));
    for (uint32_t i = 0; i < 2; i++) {
        if (taken == 2) tn__set_tried(infer, branch[i]);
        if (taken == 1 - i) tn__set_dead(infer, branch[i]);
    }
    return TN_OK;
}

/* The type and shape that can hold either of two results. */
static tn_status branch_either(tn_infer *infer, uint32_t index, tn_tensor_id first,
                               tn_tensor_id second) {
    const tn_tensor *a = tn__control_tensor(infer, first);
    const tn_tensor *b = tn__control_tensor(infer, second);
    int64_t shape[TN_RANK_MAX];
    tn_tensor either = *a;
    if (a->dtype != b->dtype) either.dtype = TN_UNDEFINED;
    uint64_t axes = tn__bound_axes(infer, first) | tn__bound_axes(infer, second);
    if (a->repeat != b->repeat) either.repeat = TN_SIZE_UNKNOWN;
    if (a->rank != b->rank || a->rank == TN_RANK_UNKNOWN) {
        either.rank = TN_RANK_UNKNOWN;
        return tn__control_set(infer, index, &either, 0);
    }
    for (uint32_t d = 0; d < a->rank; d++) {
        int64_t x = a->shape[d], y = b->shape[d];
        shape[d] = x == TN_DIM_UNKNOWN || y == TN_DIM_UNKNOWN ? TN_DIM_UNKNOWN : x > y ? x : y;
        if (x != y) axes |= UINT64_C(1) << d;
    }
    either.shape = shape;
    return tn__control_set(infer, index, &either, axes);
}

static tn_status branch_if(tn_infer *infer) {
    tn_block_id branch[2];
    TN_TRY(branch_branches(infer, branch));
    uint32_t taken = branch_left(infer, branch);
    const tn_block *yes = tn_graph_block(infer->graph, branch[0]);
    const tn_block *no = tn_graph_block(infer->graph, branch[1]);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        tn_tensor_id a = (taken == 1 ? no : yes)->outputs[i];
        tn_tensor_id b = (taken == 0 ? yes : no)->outputs[i];
        TN_TRY(a == b ? tn__control_set(infer, i, tn__control_tensor(infer, a),
                                        tn__bound_axes(infer, a))
                      : branch_either(infer, i, a, b));
    }
    return TN_OK;
}

static tn_status branch_if_fold(tn_infer *infer) {
    tn_block_id branch[2];
    TN_TRY(branch_branches(infer, branch));
    uint32_t taken = branch_left(infer, branch);
    if (taken == 2) return TN_OK;
    const tn_block *view = tn_graph_block(infer->graph, branch[taken]);
    for (uint32_t i = 0; i < tn__output_count(infer); i++) {
        const tn_tensor *from = tn__control_tensor(infer, view->outputs[i]);
        if (!tn_tensor_is_constant(from)) continue;
        tn__set_folded(infer, i);
        if (!from->value) continue;
        if (from->value->ints)
            TN_TRY(tn__set_value_ints(infer, i, from->value->ints, from->value->count));
        else
            TN_TRY(tn__set_value_floats(infer, i, from->value->floats, from->value->count));
    }
    return TN_OK;
}

static const tn_op_rule branch_rules[] = {
    {.type = "If",
     .inputs_min = 1,
     .inputs_max = 1,
     .outputs_max = UINT32_MAX,
     .shape = branch_if,
     .fold = branch_if_fold,
     .flags = TN_RULE_CONTROL | TN_RULE_ONCE,
     .enter = branch_if_enter},
};

TN_OP_FAMILY(branch, "");
