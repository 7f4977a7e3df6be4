/* zeros.c - measures the share of zeros in each tensor, from which fit plans the room of CSR forms.
 *
 * An element is 0 if no bit of it is set, as in CSR. The smallest share over all measured runs
 * counts.
 * Cost: one pass over the outputs of every operator.
 */
#include "engine/codecs/codec.h"
#include "engine/engine.h"

void tn__engine_count_zeros(const tn_engine *engine, tn_op_id id) {
    const tn_op *op = tn_graph_op(engine->executor.graph, id);
    for (uint32_t k = 0; k < op->output_count; k++) {
        tn_tensor_id output = op->outputs[k];
        const tn_operand *operand = output != TN_NONE ? &engine->executor.operands[output] : NULL;
        if (operand == NULL || operand->data == NULL || operand->dtype != TN_FLOAT32) continue;
        uint64_t count = tn__operand_count(operand);
        if (count == 0) continue;
        uint64_t filled = tn__csr_filled(operand->data, count);
        float *zeros = &engine->options.zeros[output];
        float share = (float)(1 - (double)filled / (double)count);
        if (!(*zeros >= 0) || share < *zeros) *zeros = share;
    }
}
