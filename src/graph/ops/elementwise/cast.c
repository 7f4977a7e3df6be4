/* cast.c - Cast and CastLike convert each element to another type; BitCast gives the same bits
 * another type.
 *
 * A cast to the same type is a view; a cast to a type of the same width may overwrite its input.
 * Values are converted as in C: towards zero from floating to integer, wrapped to the width. If a
 * number does not fit 64 bits, the result is left unknown.
 * Source: operator texts of ONNX, opsets 1 to 21.
 */
#include <math.h>

#include "graph/gradients/gradients.h"
#include "graph/rules/fold.h"
#include "graph/tiles/split.h"

static tn_status cast_like_input(tn_infer *infer, tn_dtype dtype) {
    const tn_tensor *input = tn__input(infer, 0);
    if (!tn__rank_known(input)) return tn__set_dtype(infer, 0, dtype);
    return tn__set_output(infer, 0, dtype, input->rank, input->shape);
}

static tn_status cast_shape(tn_infer *infer) {
    static const char *const names[] = {"FLOAT",  "UINT8",  "INT8",   "UINT16", "INT16",
                                        "INT32",  "INT64",  "STRING", "BOOL",   "FLOAT16",
                                        "DOUBLE", "UINT32", "UINT64"};
    tn_dtype dtype = TN_UNDEFINED;
    const tn_attr *to = tn__attr(infer->op, "to");
    if (!to) return tn__infer_fail(infer, "it has no attribute 'to'");
    if (to->type != TN_ATTR_STRING) {
        TN_TRY(tn__attr_dtype(infer, "to", TN_UNDEFINED, &dtype));
    } else { /* in opset 1 the attribute was the name of the type */
        for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
            if (!strcmp(tn__attr_string(infer->op, "to", ""), names[i])) dtype = (tn_dtype)(i + 1);
    }
    return cast_like_input(infer, dtype);
}

static tn_status cast_like_shape(tn_infer *infer) {
    return cast_like_input(infer, tn__input(infer, 1)->dtype);
}

static tn_status cast_to_ints(tn_infer *infer, const tn_value *value, tn_dtype dtype) {
    int64_t *ints = tn__scratch(infer, (size_t)value->count + 1, sizeof *ints);
    if (!ints) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < value->count; i++) {
        if (value->ints) {
            ints[i] = tn__wrap(dtype, value->ints[i]);
            continue;
        }
        double element = value->floats[i];
        if (dtype == TN_BOOL) {
            ints[i] = element != 0;
            continue;
        }
        if (!(element > -0x1p63 && element < 0x1p63)) return TN_OK;
        ints[i] = tn__wrap(dtype, (int64_t)element);
    }
    return tn__set_value_ints(infer, 0, ints, value->count);
}

static tn_status cast_to_floats(tn_infer *infer, const tn_value *value, tn_dtype from,
                                tn_dtype dtype) {
    double *floats = tn__scratch(infer, (size_t)value->count + 1, sizeof *floats);
    if (!floats) return tn__infer_no_memory(infer);
    for (uint32_t i = 0; i < value->count; i++) {
        double element =
            from == TN_UINT64 ? (double)(uint64_t)value->ints[i] : tn__value_at(value, i);
        /* converts integers directly, so that they are rounded once; via double they would be
         * rounded twice */
        if (dtype == TN_FLOAT32 && value->ints)
            element = from == TN_UINT64 ? (double)(float)(uint64_t)value->ints[i]
                                        : (double)(float)value->ints[i];
        floats[i] = tn__round(dtype, element);
    }
    return tn__set_value_floats(infer, 0, floats, value->count);
}

static tn_status cast_fold(tn_infer *infer) {
    const tn_value *value = tn__value(infer, 0);
    const tn_tensor *output = tn__output(infer, 0);
    if (!value || !output) return TN_OK;
    if (tn__is_integer(output->dtype)) return cast_to_ints(infer, value, output->dtype);
    if (!tn__is_float(output->dtype)) return TN_OK;
    return cast_to_floats(infer, value, tn__input(infer, 0)->dtype, output->dtype);
}

static tn_view cast_view(tn_infer *infer, uint32_t output) {
    const tn_tensor *to = tn__output(infer, output), *from = tn__input(infer, 0);
    return to && from && to->dtype == from->dtype ? tn__view_input(infer, 0, 0) : tn__no_view;
}

/* BitCast: the bits stay the same, so both element types must have the same width. */
static tn_status cast_shape_bits(tn_infer *infer) {
    const tn_tensor *input = tn__input(infer, 0);
    tn_dtype dtype;
    TN_TRY(tn__attr_dtype(infer, "to", TN_UNDEFINED, &dtype));
    if (dtype == TN_UNDEFINED) return tn__infer_fail(infer, "it has no attribute 'to'");
    if (input->dtype != TN_UNDEFINED && tn_dtype_bits(dtype) != tn_dtype_bits(input->dtype))
        return tn__infer_fail(infer, "%s has %u bits and %s %u; they must be equal",
                              tn_dtype_name(input->dtype), tn_dtype_bits(input->dtype),
                              tn_dtype_name(dtype), tn_dtype_bits(dtype));
    return cast_like_input(infer, dtype);
}

static tn_view cast_view_bits(tn_infer *infer, uint32_t output) {
    return output == 0 ? tn__view_input(infer, 0, 0) : tn__no_view;
}

#define CAST(name, inputs, rule)                                                                   \
    .type = #name, .inputs_min = inputs, .inputs_max = inputs, .outputs_max = 1, .shape = rule,    \
    .fold = cast_fold, .flops_per = 1, .inplace = 1, .view = cast_view, .monotone = 1,             \
    .split = tn__split_first
static const tn_op_rule cast_rules[] = {
    {.type = "BitCast",
     .inputs_min = 1,
     .inputs_max = 1,
     .outputs_max = 1,
     .shape = cast_shape_bits,
     .view = cast_view_bits,
     .split = tn__split_first},
    {CAST(Cast, 1, cast_shape), .gradient = tn__gradient_cast},
    {CAST(CastLike, 2, cast_like_shape), .no_gradient = 2, .gradient = tn__gradient_cast},
};

TN_OP_FAMILY(cast, "");
