/* ranks.c - operators of a model that is divided among ranks: sums over ranks, and operators on a
 * part of a table or of classes. d x stands for the gradient of x.
 *
 *   RankSum(x) -> y     y is x; after it the ranks' y become their sum (dist), and d x is d y
 *   RankCopy(x) -> y    y is x; d x is the sum of the ranks' d y
 *   RankMax(x) -> y     y is x; after it the ranks' y become the largest, element by element
 *   RankScatter(x) -> y    axis, ranks, rank: y is the rank's part of the sum of the ranks' x; d x
 *                          are the ranks' d y, one after the other
 *   RankGather(x) -> y     axis, ranks, rank: y are the ranks' x, one after the other; d x is the
 *                          rank's part of the sum of the ranks' d y; with `alike`, if all readers
 *                          of y do the same on all ranks, the rank's part of its own d y
 *   GatherPart(data, indices) -> y    axis, first, whole: data are rows from `first` on of `whole`;
 *                                     zeros for the others
 *   ClassMax(scores) -> most                                 axis
 *   ClassSums(scores, labels, most) -> sums                  axis, first, whole
 *       for each sample: the sum of exp(score - most); the label's score - most, if it is here; the
 *       number of largest scores before the label
 *   ClassLoss(scores, labels, most, sums) -> loss, correct   axis, first
 *   ClassLossGrad(scores, labels, most, sums, d loss) -> d scores    axis, first
 *
 * RankSum and RankCopy are each other's gradient: Megatron's g and f. So are RankScatter and
 * RankGather, which replace them if the tensors in between are divided too. Parts lie one after the
 * other in memory: all extents before the axis are 1. No rank has all scores: ranks exchange their
 * maximum and sums, three numbers per sample in float64. Operators that combine data of ranks keep
 * their order (TN_RULE_ORDERED), so that all ranks send the same messages in the same order. They
 * are only recomputed if a rule of the user says so, because then all ranks do it, at the same
 * place; the repeat is followed by the same communication as the first run.
 * Source: Shoeybi et al., "Megatron-LM" (2019), section 3; Korthikanti et al., "Reducing Activation
 * Recomputation in Large Transformer Models" (2022), section 4.2.
 */
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"

static tn_status ranks_shape_same(tn_infer *infer) {
    return tn__set_like(infer, 0, tn__input(infer, 0));
}

static tn_view ranks_view(tn_infer *infer, uint32_t output) {
    return output != 0 ? tn__no_view : tn__view_input(infer, 0, 0);
}

/* --- parts of tensors along one axis, and of the classes of a loss --- */

/* Reads the axis, its extent in x, and the number and index of parts. Extents before the axis must
 * be 1, so that parts lie one after the other in memory. */
static tn_status ranks_read_part(tn_infer *infer, uint32_t *axis, int64_t *ranks) {
    const tn_tensor *x = tn__input(infer, 0);
    *ranks = tn__attr_int(infer->op, "ranks", 0);
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 0), x->rank, axis));
    if (*ranks < 1 || *ranks > UINT32_MAX)
        return tn__infer_fail(infer, "%lld ranks", (long long)*ranks);
    for (uint32_t d = 0; d < *axis; d++)
        if (x->shape[d] != 1)
            return tn__infer_fail(infer, "parts along axis %u do not lie one behind the other",
                                  *axis);
    return TN_OK;
}

static tn_status ranks_shape_scatter(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX], ranks;
    uint32_t axis;
    if (!tn__shape_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    TN_TRY(ranks_read_part(infer, &axis, &ranks));
    for (uint32_t d = 0; d < x->rank; d++) shape[d] = x->shape[d];
    if (shape[axis] % ranks != 0)
        return tn__infer_fail(infer, "%lld ranks do not divide %lld", (long long)ranks,
                              (long long)shape[axis]);
    shape[axis] /= ranks;
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

static tn_status ranks_shape_gather(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX], ranks;
    uint32_t axis;
    if (!tn__shape_known(x)) return tn__set_dtype(infer, 0, x->dtype);
    TN_TRY(ranks_read_part(infer, &axis, &ranks));
    for (uint32_t d = 0; d < x->rank; d++) shape[d] = x->shape[d];
    if (shape[axis] > INT64_MAX / ranks) return tn__infer_fail(infer, "more than 2^63 elements");
    shape[axis] *= ranks;
    return tn__set_output(infer, 0, x->dtype, x->rank, shape);
}

/* --- classes --- */

/* Computes the shape of one number per sample: that of the scores without the class axis. */
static tn_status ranks_shape_samples(tn_infer *infer, int64_t *shape, uint32_t *rank) {
    const tn_tensor *x = tn__input(infer, 0);
    uint32_t axis;
    *rank = 0;
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", 1), x->rank, &axis));
    for (uint32_t d = 0; d < x->rank; d++)
        if (d != axis) shape[(*rank)++] = x->shape[d];
    return TN_OK;
}

static tn_status ranks_shape_most(tn_infer *infer) {
    int64_t shape[TN_RANK_MAX];
    uint32_t rank;
    if (!tn__rank_known(tn__input(infer, 0))) return tn__set_dtype(infer, 0, TN_FLOAT64);
    TN_TRY(ranks_shape_samples(infer, shape, &rank));
    return tn__set_output(infer, 0, TN_FLOAT64, rank, shape);
}

static tn_status ranks_shape_sums(tn_infer *infer) {
    int64_t shape[TN_RANK_MAX];
    uint32_t rank;
    if (!tn__rank_known(tn__input(infer, 0))) return tn__set_dtype(infer, 0, TN_FLOAT64);
    TN_TRY(ranks_shape_samples(infer, shape, &rank));
    shape[rank] = 3;
    return tn__set_output(infer, 0, TN_FLOAT64, rank + 1, shape);
}

static uint64_t ranks_flops_scores(tn_infer *infer) {
    return tn__mul_sat(10, tn__elements(tn__input(infer, 0)));
}

static uint64_t ranks_flops_most(tn_infer *infer) { return tn__elements(tn__input(infer, 0)); }

/* clang-format off */
#define RANKS(name, least, outputs, rule) .type = #name, .inputs_min = least, \
    .inputs_max = least, .outputs_max = outputs, .shape = rule
static const tn_op_rule ranks_rules[] = {
    {RANKS(ClassLoss, 4, 2, tn__shape_loss), .flops_per = 1, .no_gradient = 4 | 8,
     .gradient = tn__gradient_class_loss_parts},
    {RANKS(ClassLossGrad, 5, 1, ranks_shape_same), .inplace = 1, .flops_per = 12},
    {RANKS(ClassMax, 1, 1, ranks_shape_most), .flops = ranks_flops_most, .no_gradient = 1},
    {RANKS(ClassSums, 3, 1, ranks_shape_sums), .flops = ranks_flops_scores,
     .no_gradient = 1 | 4},
    {RANKS(GatherPart, 2, 1, tn__gather_shape), .gradient = tn__gradient_gather_part},
    {RANKS(RankCopy, 1, 1, ranks_shape_same), .inplace = 1, .view = ranks_view,
     .gradient = tn__gradient_rank_copy},
    {RANKS(RankGather, 1, 1, ranks_shape_gather), .flags = TN_RULE_ORDERED | TN_RULE_RANKS_WHOLE,
     .gradient = tn__gradient_rank_gather},
    {RANKS(RankMax, 1, 1, ranks_shape_same), .inplace = 1, .no_gradient = 1,
     .flags = TN_RULE_ORDERED | TN_RULE_RANKS_MAX},
    {RANKS(RankScatter, 1, 1, ranks_shape_scatter),
     .flags = TN_RULE_ORDERED | TN_RULE_RANKS_PART, .gradient = tn__gradient_rank_scatter},
    {RANKS(RankSum, 1, 1, ranks_shape_same), .inplace = 1,
     .flags = TN_RULE_ORDERED | TN_RULE_RANKS_SUM, .gradient = tn__gradient_rank_sum},
};
/* clang-format on */

TN_OP_FAMILY(ranks, "tenure");
