/* quant.c - operators that convert between real and quantised numbers.
 *
 * QuantizeLinear's output type follows its zero point, or (opset 21) the attribute output_dtype.
 * Source: operator texts of ONNX, opsets 10 to 23.
 */
#include "graph/rules/fold.h"
#include "graph/tiles/split.h"

tn_status tn__shape_quantize(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *zero = tn__input(infer, 2);
    tn_dtype dtype;
    TN_TRY(tn__attr_dtype(infer, "output_dtype", TN_UNDEFINED, &dtype));
    if (zero != NULL) dtype = zero->dtype;
    if (dtype == TN_UNDEFINED) dtype = TN_UINT8;
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, dtype);
    return tn__set_output(infer, 0, dtype, x->rank, x->shape);
}

tn_status tn__shape_dequantize(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0), *scale = tn__input(infer, 1);
    tn_dtype dtype;
    TN_TRY(tn__attr_dtype(infer, "output_dtype", scale->dtype, &dtype));
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, dtype);
    return tn__set_output(infer, 0, dtype, x->rank, x->shape);
}

static tn_status quant_shape_dynamic(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    TN_TRY(tn__set_output(infer, 1, TN_FLOAT32, 0, NULL));
    TN_TRY(tn__set_output(infer, 2, TN_UINT8, 0, NULL));
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 0, TN_UINT8);
    return tn__set_output(infer, 0, TN_UINT8, x->rank, x->shape);
}

/* clang-format off */
static const tn_op_rule quant_rules[] = {
    {.type = "DequantizeLinear", .inputs_min = 2, .inputs_max = 3, .outputs_max = 1,
     .shape = tn__shape_dequantize, .flops_per = 2, .inplace = 1, .no_gradient = 2 | 4,
     .split = tn__split_quantize},
    {.type = "DynamicQuantizeLinear", .inputs_min = 1, .inputs_max = 1, .outputs_max = 3,
     .shape = quant_shape_dynamic, .flops_per = 4},
    {.type = "QuantizeLinear", .inputs_min = 2, .inputs_max = 3, .outputs_max = 1,
     .shape = tn__shape_quantize, .flops_per = 3, .inplace = 1, .no_gradient = 2 | 4,
     .split = tn__split_quantize},
};
/* clang-format on */

TN_OP_FAMILY(quant, "");
