/* prune.c - removes the smallest magnitudes of weights (rewrite.h), before other rewrites use
 * the weights.
 *
 *     w ── PruneWeights ── w with zeros ── Conv, Gemm, MatMul
 *
 * PruneWeights runs at set-up. The number of elements that stay was decided before; `sparse` uses
 * the zeros after all other rewrites. It runs only on request.
 */
#include <tenure/rewrite.h>

#include "graph/attr.h"
#include "graph/rewrite/rewrite.h"

static tn_status prune_weight(tn__draft *draft, uint32_t index) {
    const tn_pruned *at = &draft->pruning->weights[index];
    tn_tensor_id w, made;
    tn_op_id op;
    if (at->op >= tn_graph_op_count(draft->graph) ||
        (w = tn__draft_input(draft, at->op, 1)) == TN_NONE ||
        tn__draft_tensor_of(draft, w)->bytes != at->bytes || at->kept > at->elements)
        TN_FAIL(draft->error, TN_E_INVALID, "a pruning of another graph");
    const tn_tensor like = *tn__draft_tensor_of(draft, w);
    const int64_t numbers[] = {(int64_t)at->kept, index};
    const tn_attr attrs[] = {
        {.name = "kept", .type = TN_ATTR_INT, .count = 1, .ints = &numbers[0]},
        {.name = "weight", .type = TN_ATTR_INT, .count = 1, .ints = &numbers[1]}};
    uint32_t count;
    const tn_attr *own = tn__draft_attrs(draft, &(tn_op){0}, attrs, 2, &count);
    if (own == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    TN_TRY(tn__draft_add_tensor(draft, like.name, TN_FLOAT32, like.rank, like.shape, &made));
    draft->tensors[made].tensor.flags |= TN_TENSOR_FOLDED;
    const tn_op prune = {.type = "PruneWeights",
                         .domain = "tenure",
                         .version = 1,
                         .inputs = &w,
                         .outputs = &made,
                         .attrs = own,
                         .input_count = 1,
                         .output_count = 1,
                         .attr_count = 2};
    TN_TRY(tn__draft_add_op(draft, at->op, &prune, &op));
    tn__draft_set(draft, at->op, 1, made);
    return TN_OK;
}

static tn_status prune_all(tn__draft *draft) {
    for (uint32_t i = 0; i < draft->pruning->count; i++) TN_TRY(prune_weight(draft, i));
    return TN_OK;
}

const tn__rewrite tn__rewrite_prune = {
    .name = "prune",
    .summary = "prunes the smallest weights, if requested",
    .pruning = true,
    .all = prune_all,
};
