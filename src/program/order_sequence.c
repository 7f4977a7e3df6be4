/* order_sequence.c - checks and uses an order that the caller gives.
 *
 * A reader must come after the producer of its input. Every operator must stay on the same side
 * of an operator that writes into shared input, as in the file.
 *
 * Cost: O(operands log operands).
 */
#include "program/order.h"

static tn_status sequence_fail(const tn_order_task *task, tn_op_id early, tn_op_id late,
                               tn_error *error) {
    const tn_op *x = tn_graph_op(task->graph, early), *y = tn_graph_op(task->graph, late);
    TN_FAIL(error, TN_E_INVALID,
            "the order runs node '%.60s' (%.30s, #%u) before '%.60s' (%.30s, #%u), which must come "
            "first: it makes what the other reads, or reads what the other overwrites",
            x->name, x->type, early, y->name, y->type, late);
}

static tn_status sequence_check(const tn_order_task *task, const tn__order_model *model,
                                tn_error *error) {
    for (uint32_t p = 0; p < model->count; p++) {
        tn_op_id id = model->ops[p];
        const tn_op *op = tn_graph_op(task->graph, id);
        if (task->rank[id] == TN_NONE)
            TN_FAIL(error, TN_E_INVALID, "the order leaves out node '%.80s' (%.40s, #%u)", op->name,
                    op->type, id);
        for (uint32_t k = model->before_at[p]; k < model->before_at[p + 1]; k++) {
            tn_op_id before = model->ops[model->before[k]];
            if (task->rank[before] == TN_NONE || task->rank[before] < task->rank[id]) continue;
            return sequence_fail(task, id, before, error);
        }
    }
    return TN_OK;
}

typedef struct sequence_place {
    uint32_t rank; /* operators without a rank take no step: they come first */
    uint32_t number;
    tn_op_id op;
} sequence_place;

static int sequence_order(const void *a, const void *b) {
    const sequence_place *x = a, *y = b;
    uint32_t i = x->rank + 1, j = y->rank + 1; /* TN_NONE + 1 is 0 */
    if (i != j) return i < j ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static tn_status sequence_arrange(const tn_order_task *task, tn_op_id *ops, tn_order_proof *proof,
                                  tn_error *error) {
    const tn_block *block = tn_graph_block(task->graph, task->block);
    const tn_context *context = tn_graph_context(task->graph);
    tn__order_model model;
    (void)proof;
    tn_status status = tn__order_model_make(task, &model, error);
    if (status == TN_OK) status = sequence_check(task, &model, error);
    tn__order_model_release(&model);
    TN_TRY(status);
    sequence_place *places = tn__alloc_array(context, block->op_count, sizeof *places);
    if (places == NULL) return tn__no_memory(error, "the order of operators");
    for (uint32_t i = 0; i < block->op_count; i++)
        places[i] = (sequence_place){task->rank[block->ops[i]], i, block->ops[i]};
    if (block->op_count > 0) qsort(places, block->op_count, sizeof *places, sequence_order);
    for (uint32_t i = 0; i < block->op_count; i++) ops[i] = places[i].op;
    tn__free(context, places, block->op_count * sizeof *places);
    return TN_OK;
}

const tn_order tn__order_sequence = {
    .name = "sequence",
    .summary = "a caller's own",
    .arrange = sequence_arrange,
};
