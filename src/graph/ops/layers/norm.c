/* norm.c - normalisations, soft maxima, Dropout: the output has the shape of the input.
 *
 * Those that read an element of the input only before they write it may work in place. Batch
 * normalisation in training mode and Dropout with a mask have further outputs. Dropout outside of
 * training returns its input as a view. Source: operator texts of ONNX, opsets 1 to 23.
 */
#include "graph/gradients/decompose.h"
#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/tiles/split.h"

static tn_status norm_shape(tn_infer *infer) { return tn__set_like(infer, 0, tn__input(infer, 0)); }

/* Sets the shapes of BatchNormalization. Since opset 14 its further outputs are the running mean
 * and variance, shaped like inputs 3 and 4. Before opset 14 there were four further outputs: mean
 * and variance twice. */
static tn_status norm_shape_batch(tn_infer *infer) {
    TN_TRY(norm_shape(infer));
    for (uint32_t i = 1; i < tn__output_count(infer); i++) {
        const tn_tensor *like = tn__input(infer, i % 2 == 1 ? 3 : 4);
        if (like != NULL) TN_TRY(tn__set_like(infer, i, like));
    }
    return TN_OK;
}

static tn_status norm_shape_local(tn_infer *infer) {
    if (!tn__attr(infer->op, "size")) return tn__infer_fail(infer, "attribute size is missing");
    return norm_shape(infer);
}

/* Sets the shapes of mean and inverse deviation: the input's shape with extent 1 in normalised
 * dimensions. */
static tn_status norm_shape_layer(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    int64_t shape[TN_RANK_MAX];
    uint32_t axis;
    TN_TRY(norm_shape(infer));
    if (tn__output_count(infer) < 2 || !tn__rank_known(x)) return TN_OK;
    TN_TRY(tn__axis(infer, tn__attr_int(infer->op, "axis", -1), x->rank, &axis));
    tn_dtype dtype = (tn_dtype)tn__attr_int(infer->op, "stash_type", TN_FLOAT32);
    for (uint32_t i = 0; i < x->rank; i++) shape[i] = i < axis ? x->shape[i] : 1;
    if (dtype >= TN_DTYPE_COUNT) dtype = TN_FLOAT32;
    TN_TRY(tn__set_output(infer, 1, dtype, x->rank, shape));
    return tn__set_output(infer, 2, dtype, x->rank, shape);
}

/* Sets the shape of SimplifiedLayerNormalization, an operator of ONNX Runtime in the default
 * domain. The result has the element type of the scale. */
static tn_status norm_shape_simplified(tn_infer *infer) {
    TN_TRY(norm_shape_layer(infer));
    return tn__shape_as(infer, 0, 0, tn__input(infer, 1)->dtype);
}

static bool norm_trains(const tn_infer *infer) {
    uint32_t count;
    if (infer->version < 7) return tn__attr_int(infer->op, "is_test", 0) == 0;
    const int64_t *mode = tn__value_ints(infer, 2, &count);
    if (tn__input(infer, 2) == NULL) return false;
    return mode == NULL || count == 0 || mode[0] != 0;
}

static tn_status norm_shape_dropout(tn_infer *infer) {
    const tn_tensor *x = tn__input(infer, 0);
    TN_TRY(norm_shape(infer));
    if (tn__output(infer, 1) == NULL) return TN_OK;
    tn_dtype mask = infer->version < 10 ? x->dtype : TN_BOOL;
    if (!tn__rank_known(x)) return tn__set_dtype(infer, 1, mask);
    return tn__set_output(infer, 1, mask, x->rank, x->shape);
}

static tn_view norm_view_dropout(tn_infer *infer, uint32_t output) {
    return output == 0 && !norm_trains(infer) ? tn__view_input(infer, 0, 0) : tn__no_view;
}

/* A Dropout that draws numbers is not divided into parts, because the numbers depend on the
 * positions of the elements. */
static bool norm_split_dropout(tn_infer *infer, tn__tile *part, uint32_t input, tn__need *need) {
    return !norm_trains(infer) && tn__split_first(infer, part, input, need);
}

/* clang-format off */
#define NORM(name, most, cost) .type = #name, .inputs_min = 1, .inputs_max = most, \
    .outputs_max = 1, .shape = norm_shape, .flops_per = cost, .inplace = 1
static const tn_op_rule norm_rules[] = {
    {.type = "BatchNormalization", .weights = 2 | 4 | 8 | 16, .flags = TN_RULE_IMAGES,
     .inputs_min = 5, .inputs_max = 5, .outputs_max = 5,
     .shape = norm_shape_batch, .flops_per = 2, .inplace = 1, .no_gradient = 8 | 16,
     .split = tn__split_batch_norm,     .gradient = tn__gradient_batch_norm},
    {.type = "Dropout", .inputs_min = 1, .inputs_max = 3, .outputs_max = 2,
     .shape = norm_shape_dropout, .flops_per = 1, .inplace = 1, .view = norm_view_dropout,
     .split = norm_split_dropout, .no_gradient = 2 | 4, .gradient = tn__gradient_dropout},
    {NORM(GroupNormalization, 3, 6), .split = tn__split_batch, .weights = 2 | 4, .gradient = tn__gradient_group_norm},
    {NORM(Hardmax, 1, 2), .split = tn__split_softmax, .gradient = tn__gradient_flat},
    {NORM(InstanceNormalization, 3, 6), .split = tn__split_instance_norm, .weights = 2 | 4, .gradient = tn__gradient_instance_norm},
    {.type = "LRN", .inputs_min = 1, .inputs_max = 1, .outputs_max = 1, .shape = norm_shape_local,
     .flops_per = 8, .split = tn__split_local_norm,
     /* LRN reads neighbouring channels, so it does not work in place */
     .gradient = tn__gradient_local_norm},
    {.type = "LayerNormalization", .weights = 2 | 4, .inputs_min = 2, .inputs_max = 3,
     .outputs_max = 3,
     .shape = norm_shape_layer, .flops_per = 6, .inplace = 1, .split = tn__split_layer_norm,
     .gradient = tn__gradient_layer_norm},
    {NORM(LogSoftmax, 1, 12), .split = tn__split_softmax, .gradient = tn__gradient_log_softmax},
    {NORM(LpNormalization, 1, 4), .split = tn__split_axis_norm, .gradient = tn__gradient_lp_norm},
    {NORM(MeanVarianceNormalization, 1, 6), .gradient = tn__gradient_mean_variance},
    {NORM(RMSNormalization, 2, 5), .split = tn__split_layer_norm, .weights = 2, .gradient = tn__gradient_rms_norm},
    {.type = "SimplifiedLayerNormalization", .weights = 2, .inputs_min = 2, .inputs_max = 2,
     .outputs_max = 2, .shape = norm_shape_simplified, .flops_per = 5, .inplace = 1,
     .split = tn__split_layer_norm, .decompose = tn__decompose_simplified_layer_norm},
    {NORM(Softmax, 1, 12), .split = tn__split_softmax, .gradient = tn__gradient_softmax},
};
/* clang-format on */

TN_OP_FAMILY(norm, "");
