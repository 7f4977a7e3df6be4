/* norm_relu.c - applies the Relu after a batch normalisation in training before the result is
 * written, so that the normalised tensor does not exist.
 *
 * It applies only if Relu is the only reader: the gradients read Relu's output, and the input of
 * the normalisation. The result has the same bits as the two operators.
 */
#include "graph/rewrite/rewrite.h"

#include "graph/attr.h"

static tn_status norm_each(tn__draft *draft, tn_op_id id) {
    static const int64_t yes = 1;
    if (!tn__draft_is(draft, id, "Relu")) return TN_OK;
    tn_op_id norm = tn__draft_producer(draft, id, 0, "tenure.BatchNormTrain");
    tn_tensor_id between = tn__draft_input(draft, id, 0);
    tn_tensor_id y = tn__draft_op_of(draft, id)->outputs[0];
    uint32_t count;
    if (norm == TN_NONE || draft->tensors[between].uses != 1 || draft->tensors[between].fixed ||
        tn__draft_op_of(draft, norm)->outputs[0] != between || !tn__draft_is_exact(draft, y))
        return TN_OK;
    const tn_op *op = tn__draft_op_of(draft, norm);
    tn_attr attr = {.name = "relu", .type = TN_ATTR_INT, .count = 1, .ints = &yes};
    const tn_attr *kept = tn__draft_attrs(draft, op, &attr, 1, &count);
    if (kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    TN_TRY(tn__draft_become(draft, norm, op->domain, op->type, op->version, op->inputs,
                            op->input_count, kept, count));
    tn__draft_remove(draft, id);
    tn__draft_divert(draft, norm, y);
    return TN_OK;
}

const tn__rewrite tn__rewrite_norm_relu = {
    .name = "norm_relu",
    .summary = "fuses Relu into the batch normalisation of a training step",
    .in_training = true,
    .each = norm_each,
};
