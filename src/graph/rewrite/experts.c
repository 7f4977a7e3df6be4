/* experts.c - makes a graph in which experts of mixtures are rows of a cache.
 *
 *     x1 ─▶ router 1 ─▶ MoE 1 ─▶ ... ─▶ x2 ─▶ router 2 ─▶ MoE 2
 *      └──▶ router 2 ─────┘ (the guess: MoE 1 starts to read the experts that it names)
 *
 * The input of a layer differs little from that of the next one, because each layer adds to a
 * residual stream. So the next router often chooses the same experts from the present input as from
 * its own. The guess is an ordinary operator, so its time and memory are planned as any other's.
 *
 * Cost: that of a draft (rewrite.h).
 * Source: Eliseev, Mazur: Fast Inference of Mixture-of-Experts Language Models with Offloading,
 * 2023 (cache and guess).
 */
#include "graph/rewrite/experts.h"

#include <stdio.h>

#include "graph/attr.h"
#include "graph/rewrite/rewrite.h"

/* A router has at most this many operators between the mixture's input and the scores. */
#define EXPERTS_CHAIN 8u
#define EXPERTS_OPERANDS 8u /* largest number of operands of such an operator */

/* --- looking --- */

static bool experts_of(const tn__draft *draft, tn_op_id id, tn__expert_row *row) {
    const tn_op *op = tn_graph_op(draft->graph, id);
    if (tn__op_has_rows(op) || !tn__expert_row_of(draft->graph, op, row)) return false;
    for (uint32_t i = TN__EXPERTS_FIRST_PART; i < op->input_count; i++) {
        if (op->inputs[i] == TN_NONE) continue;
        const tn__draft_tensor *part = &draft->tensors[op->inputs[i]];
        if (part->uses != 1 || part->fixed) return false;
    }
    return true;
}

static tn_status experts_begin(tn__draft *draft, const tn_graph *graph, const tn_context *context,
                               tn_error *error) {
    *draft = (tn__draft){
        .graph = graph, .context = tn__context(context), .keep_ops = true, .error = error};
    tn__arena_init(&draft->arena, &draft->context);
    return tn__draft_begin(draft);
}

tn_status tn__experts_find(const tn_graph *graph, const tn_context *context, tn__experts *experts,
                           tn_error *error) {
    const tn_block *block = tn_graph_block(graph, 0);
    tn__expert_row row;
    tn__draft draft;
    *experts = (tn__experts){0};
    tn_status status = experts_begin(&draft, graph, context, error);
    for (uint32_t i = 0; i < block->op_count && status == TN_OK; i++) {
        if (!experts_of(&draft, block->ops[i], &row)) continue;
        if (row.experts > UINT32_MAX / 2 - experts->rows) break;
        int64_t chosen = tn__attr_int(tn_graph_op(graph, block->ops[i]), "k", 1);
        experts->operators++;
        experts->rows += row.experts;
        experts->bytes = tn__add_sat(experts->bytes, tn__mul_sat(row.bytes, row.experts));
        if (row.experts > experts->most) experts->most = row.experts;
        if (row.bytes > experts->row_bytes) experts->row_bytes = row.bytes;
        if (chosen > experts->chosen && chosen <= row.experts) experts->chosen = (uint32_t)chosen;
    }
    tn__draft_end(&draft);
    return status;
}

/* --- the guess --- */

/* Finds the operators that compute the scores of mixture `id` from its input x: each has one result
 * and one operand that is not a constant. chain[0] is the last of them. Returns false if the scores
 * do not follow from x in this way. */
static bool experts_chain(const tn__draft *draft, tn_op_id id, tn_op_id *chain, uint32_t *count) {
    tn_tensor_id x = tn__draft_input(draft, id, TN__EXPERTS_X);
    tn_tensor_id at = tn__draft_input(draft, id, TN__EXPERTS_ROUTER);
    for (*count = 0; at != x; (*count)++) {
        tn_op_id producer = draft->tensors[at].producer;
        if (*count == EXPERTS_CHAIN || producer == TN_NONE) return false;
        const tn_op *op = tn__draft_op_of(draft, producer);
        if (op->block != 0 || op->output_count != 1 || op->input_count > EXPERTS_OPERANDS ||
            tn__op_has_blocks(op) ||
            (producer < tn_graph_op_count(draft->graph) && tn__op_draws(draft->graph, producer)))
            return false;
        at = TN_NONE;
        for (uint32_t i = 0; i < op->input_count; i++) {
            if (op->inputs[i] == TN_NONE || tn__draft_is_known(draft, op->inputs[i])) continue;
            if (at != TN_NONE && at != op->inputs[i]) return false;
            at = op->inputs[i];
        }
        if (at == TN_NONE) return false;
        chain[*count] = producer;
    }
    return *count > 0;
}

/* Adds the operators of a router before mixture `id`, with that mixture's input. *guess receives
 * their result. */
static tn_status experts_copy_chain(tn__draft *draft, tn_op_id id, const tn_op_id *chain,
                                    uint32_t count, tn_tensor_id *guess) {
    tn_tensor_id inputs[EXPERTS_OPERANDS], is = tn__draft_input(draft, id, TN__EXPERTS_X);
    for (uint32_t c = count; c-- > 0;) {
        tn_op op = *tn__draft_op_of(draft, chain[c]);
        const tn_tensor scores = *tn__draft_tensor_of(draft, op.outputs[0]);
        tn_tensor_id made;
        tn_op_id added;
        for (uint32_t i = 0; i < op.input_count; i++) {
            bool fixed = op.inputs[i] == TN_NONE || tn__draft_is_known(draft, op.inputs[i]);
            inputs[i] = fixed ? op.inputs[i] : is;
        }
        TN_TRY(tn__draft_add_tensor(draft, scores.name, scores.dtype, scores.rank, scores.shape,
                                    &made));
        op.inputs = inputs;
        op.outputs = &made;
        TN_TRY(tn__draft_add_op(draft, id, &op, &added));
        is = made;
    }
    *guess = is;
    return TN_OK;
}

/* Adds the guess for mixture `next` to mixture `id`; TN_NONE if it cannot be made. */
static tn_status experts_guess(tn__draft *draft, tn_op_id id, tn_op_id next, tn_tensor_id *guess) {
    tn_op_id chain[EXPERTS_CHAIN];
    uint32_t count;
    *guess = TN_NONE;
    if (next == TN_NONE) return TN_OK;
    tn_tensor_id here = tn__draft_input(draft, id, TN__EXPERTS_X);
    tn_tensor_id there = tn__draft_input(draft, next, TN__EXPERTS_X);
    if (!tn__draft_same_shape(draft, here, there) ||
        tn__draft_tensor_of(draft, here)->dtype != tn__draft_tensor_of(draft, there)->dtype ||
        !experts_chain(draft, next, chain, &count))
        return TN_OK;
    return experts_copy_chain(draft, id, chain, count, guess);
}

/* --- making the graph --- */

static tn_status experts_add_cache(tn__draft *draft, uint64_t bytes, tn_tensor_id *cache) {
    if (bytes > INT64_MAX) TN_FAIL(draft->error, TN_E_INVALID, "a cache of more than 2^63 bytes");
    const int64_t extent = (int64_t)bytes;
    TN_TRY(tn__draft_add_tensor(draft, "experts", TN_UINT8, 1, &extent, cache));
    draft->tensors[*cache].tensor.kind = TN_KIND_PARAMETER;
    draft->tensors[*cache].tensor.flags = TN_TENSOR_UPDATED | TN_TENSOR_ROW_CACHE;
    return TN_OK;
}

/* Makes the experts of mixture `id` rows, from row *row on. `next`: the mixture after
 * it; TN_NONE: it is the last. */
static tn_status experts_turn(tn__draft *draft, tn_op_id id, tn_op_id next, uint32_t slots,
                              tn_tensor_id cache, uint32_t *row) {
    tn_tensor_id inputs[TN__EXPERTS_INPUTS], guess;
    const tn_op op = *tn__draft_op_of(draft, id);
    tn__expert_row rows;
    if (!experts_of(draft, id, &rows)) return TN_OK;
    TN_TRY(experts_guess(draft, id, next, &guess));
    for (uint32_t i = 0; i < TN__EXPERTS_INPUTS; i++)
        inputs[i] = i < op.input_count && i < TN__EXPERTS_CACHE ? op.inputs[i] : TN_NONE;
    for (uint32_t i = TN__EXPERTS_FIRST_PART; i < TN__EXPERTS_CACHE; i++)
        if (inputs[i] != TN_NONE) draft->tensors[inputs[i]].tensor.flags |= TN_TENSOR_IN_FILE;
    inputs[TN__EXPERTS_CACHE] = cache;
    inputs[TN__EXPERTS_GUESS] = guess;
    const int64_t first = *row, after = *row + rows.experts, kept = slots;
    const int64_t packed = strcmp(op.type, "QMoE") == 0;
    const tn_attr more[] = {{.name = "row", .type = TN_ATTR_INT, .count = 1, .ints = &first},
                            {.name = "next_row", .type = TN_ATTR_INT, .count = 1, .ints = &after},
                            {.name = "slots", .type = TN_ATTR_INT, .count = 1, .ints = &kept},
                            {.name = "packed", .type = TN_ATTR_INT, .count = 1, .ints = &packed}};
    uint32_t count;
    const tn_attr *attrs = tn__draft_attrs(draft, &op, more, sizeof more / sizeof *more, &count);
    if (attrs == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    *row += rows.experts;
    return tn__draft_become(draft, id, "tenure", "MoE", 1, inputs, TN__EXPERTS_INPUTS, attrs,
                            count);
}

static tn_status experts_turn_all(tn__draft *draft, uint32_t slots, uint64_t cache_bytes) {
    const tn_block *block = tn_graph_block(draft->graph, 0);
    tn_op_id last = TN_NONE;
    tn_tensor_id cache;
    tn__expert_row rows;
    uint32_t row = 0;
    TN_TRY(experts_add_cache(draft, cache_bytes, &cache));
    for (uint32_t i = 0; i < block->op_count; i++) {
        if (!experts_of(draft, block->ops[i], &rows)) continue;
        if (last != TN_NONE) TN_TRY(experts_turn(draft, last, block->ops[i], slots, cache, &row));
        last = block->ops[i];
    }
    return last != TN_NONE ? experts_turn(draft, last, TN_NONE, slots, cache, &row) : TN_OK;
}

tn_status tn__experts_graph(const tn_graph *graph, uint32_t slots, uint64_t cache_bytes,
                            const tn_context *context, tn_graph **made, tn_error *error) {
    tn__draft draft;
    tn_status status = experts_begin(&draft, graph, context, error);
    if (status == TN_OK) status = experts_turn_all(&draft, slots, cache_bytes);
    if (status == TN_OK) status = tn__draft_graph(&draft, made);
    tn__draft_end(&draft);
    return status;
}
