/* scale.c - turns a number that multiplies (or divides) the result or an operand of a matrix
 * product into a factor of the product. */
#include "graph/rewrite/rewrite.h"

#include <math.h>

#include "graph/attr.h"

/* If the operator is a Mul or Div by a number, returns the index of its other operand, and the
 * factor in *factor; otherwise TN_NONE. */
static uint32_t scale_of(const tn__draft *draft, tn_op_id id, double *factor) {
    bool mul = tn__draft_is(draft, id, "Mul"), div = tn__draft_is(draft, id, "Div");
    uint32_t at = TN_NONE;
    if (!mul && !div) return TN_NONE;
    if (tn__draft_number(draft, tn__draft_input(draft, id, 1), factor))
        at = 0;
    else if (mul && tn__draft_number(draft, tn__draft_input(draft, id, 0), factor))
        at = 1;
    if (div) *factor = 1 / *factor;
    if (at == TN_NONE || !isfinite(*factor) || *factor == 0) return TN_NONE;
    /* the number must not change the shape of the other operand */
    return tn__draft_same_shape(draft, tn__draft_input(draft, id, at),
                                tn__draft_op_of(draft, id)->outputs[0])
               ? at
               : TN_NONE;
}

static tn_status scale_add(tn__draft *draft, tn_op_id product, double factor) {
    const tn_op *op = tn__draft_op_of(draft, product);
    double alpha = tn__attr_float(op, "alpha", 1) * factor;
    tn_attr attr = {.name = "alpha", .type = TN_ATTR_FLOAT, .count = 1, .floats = &alpha};
    uint32_t count;
    const tn_attr *kept = tn__draft_attrs(draft, op, &attr, 1, &count);
    if (kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    return tn__draft_become(draft, product, op->domain, op->type, op->version, op->inputs,
                            op->input_count, kept, count);
}

/* Fuses a factor that scales one of the product's operands; no other operator may read the scaled
 * operand. */
static tn_status scale_operands(tn__draft *draft, tn_op_id id) {
    for (uint32_t i = 0; i < 2; i++) {
        double factor;
        bool done;
        tn_op_id scaled = tn__draft_only(draft, id, i, NULL);
        uint32_t at = scaled != TN_NONE ? scale_of(draft, scaled, &factor) : TN_NONE;
        if (at == TN_NONE || tn__draft_is_static(draft, tn__draft_input(draft, id, i))) continue;
        TN_TRY(tn__draft_open(draft, id, &done));
        if (!done) return TN_OK;
        tn__draft_set(draft, id, i, tn__draft_input(draft, scaled, at));
        tn__draft_remove(draft, scaled);
        TN_TRY(scale_add(draft, id, factor));
    }
    return TN_OK;
}

static tn_status scale_each(tn__draft *draft, tn_op_id id) {
    double factor;
    bool done;
    if (tn__draft_is(draft, id, "MatMul")) return scale_operands(draft, id);
    uint32_t at = scale_of(draft, id, &factor);
    if (at == TN_NONE) return TN_OK;
    tn_op_id product = tn__draft_only(draft, id, at, "MatMul");
    if (product == TN_NONE) product = tn__draft_only(draft, id, at, "tenure.MatMul");
    if (product == TN_NONE || !tn__draft_is_open(draft, product) ||
        tn__draft_input(draft, product, 2) != TN_NONE)
        return TN_OK;
    TN_TRY(tn__draft_open(draft, product, &done));
    if (!done) return TN_OK;
    TN_TRY(scale_add(draft, product, factor));
    return tn__draft_take_over(draft, id, product);
}

const tn__rewrite tn__rewrite_scale = {
    .name = "scale",
    .summary = "turns a number times a matrix product into a factor of the product",
    .in_training = true,
    .each = scale_each,
};
