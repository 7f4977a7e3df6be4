/* preview_training.c - operators of domain ai.onnx.preview.training: optimizers, each of which
 * updates any number of tensors. (Operator Gradient, which needs the graph around it, is not here.)
 * Source: operator texts of ONNX, ai.onnx.preview.training 1.
 */
#include "graph/rules/fold.h"

/* The operands are a rate, a count of steps, and lists of tensors of one length: the optimized
 * tensors, their gradients, and one or two states. The results are the optimized tensors and the
 * states. */
static tn_status preview_training_shape(tn_infer *infer, uint32_t lists) {
    uint32_t count = (tn__input_count(infer) - 2) / lists;
    if (count == 0 || (tn__input_count(infer) - 2) % lists != 0 ||
        tn__output_count(infer) > (lists - 1) * count)
        return tn__infer_fail(infer,
                              "%u inputs and %u outputs are not a rate, a count and %u lists",
                              tn__input_count(infer), tn__output_count(infer), lists);
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t list = 0; list < lists; list++) {
            const tn_tensor *tensor = tn__input(infer, 2 + list * count + i);
            uint32_t output = (list > 0 ? list - 1 : 0) * count + i;
            if (tensor == NULL) return tn__infer_fail(infer, "a tensor of its lists is omitted");
            if (list != 1) TN_TRY(tn__set_like(infer, output, tensor));
        }
    return TN_OK;
}

static tn_status preview_training_two(tn_infer *infer) { return preview_training_shape(infer, 3); }
static tn_status preview_training_three(tn_infer *infer) {
    return preview_training_shape(infer, 4);
}

/* clang-format off */
#define OPTIMIZER(name, least, rule) .type = #name, .inputs_min = least, .inputs_max = UINT32_MAX, \
    .outputs_max = UINT32_MAX, .shape = rule
static const tn_op_rule preview_training_rules[] = {
    {OPTIMIZER(Adagrad, 5, preview_training_two), .flops_per = 8},
    {OPTIMIZER(Adam, 6, preview_training_three), .flops_per = 12},
    {OPTIMIZER(Momentum, 5, preview_training_two), .flops_per = 6},
};
/* clang-format on */

TN_OP_FAMILY(preview_training, "ai.onnx.preview.training");
