/* gradient_ranks.c - gradients of operators that are divided among ranks (ops/ranks.c).
 *
 * The loss is one number on all ranks, so the result of a sum over ranks has the same gradient on
 * all of them, which is the gradient of each summand. A tensor that all ranks read, each for its
 * part, gets the sum of their gradients. If a rank has only a part of a tensor, the same holds for
 * that part.
 */
#include "graph/gradients/gradients.h"

tn_status tn__gradient_rank_sum(tn_gradient *it) {
    it->found[0] = it->given[0];
    return TN_OK;
}

tn_status tn__gradient_rank_copy(tn_gradient *it) {
    return tn__gradient_own(it, "RankSum", TN__LIST(it->given[0]), NULL, 0, &it->found[0]);
}

/* How both are cut. */
static uint32_t ranks_attrs(const tn_gradient *it, tn_attr attrs[3]) {
    static const char *const names[] = {"axis", "ranks", "rank"};
    uint32_t count = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const tn_attr *attr = tn__attr(&it->op, names[i]);
        if (attr != NULL) attrs[count++] = *attr;
    }
    return count;
}

tn_status tn__gradient_rank_scatter(tn_gradient *it) {
    tn_attr attrs[3];
    uint32_t count = ranks_attrs(it, attrs);
    return tn__gradient_own(it, "RankGather", TN__LIST(it->given[0]), attrs, count, &it->found[0]);
}

/* The rank's part of a gradient that all have. */
static tn_status ranks_own(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    int64_t axis = tn__attr_int(&it->op, "axis", 0);
    if (axis < 0) axis += x.rank;
    int64_t first = tn__attr_int(&it->op, "rank", 0) * x.shape[axis];
    int64_t last = first + x.shape[axis];
    tn_tensor_id from, to, along;
    TN_TRY(tn__gradient_list(it, &first, 1, &from));
    TN_TRY(tn__gradient_list(it, &last, 1, &to));
    TN_TRY(tn__gradient_list(it, &axis, 1, &along));
    return tn__gradient_op(it, "Slice", TN__LIST(it->given[0], from, to, along), NULL, 0,
                           &it->found[0]);
}

tn_status tn__gradient_rank_gather(tn_gradient *it) {
    tn_attr attrs[3];
    uint32_t count = ranks_attrs(it, attrs);
    if (tn__attr_int(&it->op, "alike", 0) != 0) return ranks_own(it);
    return tn__gradient_own(it, "RankScatter", TN__LIST(it->given[0]), attrs, count, &it->found[0]);
}

tn_status tn__gradient_gather_part(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    int64_t axis = tn__attr_int(&it->op, "axis", 0), first = tn__attr_int(&it->op, "first", 0);
    if (axis < 0) axis += x.rank;
    int64_t whole = tn__attr_int(&it->op, "whole", x.shape[axis]);
    const tn_attr attrs[] = {TN__ATTR_INTS("shape", x.shape, x.rank), TN__ATTR_INT("axis", &axis),
                             TN__ATTR_INT("first", &first), TN__ATTR_INT("whole", &whole)};
    return tn__gradient_own(it, "GatherGrad", TN__LIST(it->given[0], it->op.inputs[1]), attrs, 4,
                            &it->found[0]);
}

tn_status tn__gradient_class_loss_parts(tn_gradient *it) {
    const tn_tensor_id *in = it->op.inputs;
    if (it->given[0] == TN_NONE) return TN_OK;
    return tn__gradient_own(it, "ClassLossGrad", TN__LIST(in[0], in[1], in[2], in[3], it->given[0]),
                            it->op.attrs, it->op.attr_count, &it->found[0]);
}
