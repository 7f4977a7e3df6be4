/* layer.c - recognises the layer normalisation that exporters write as several operators:
 *
 *     d = x - ReduceMean(x);  d / Sqrt(ReduceMean(d^2) + epsilon) * scale + shift
 *
 * along the last axis, with scale and shift as rows. d^2 is Pow(d, 2) or Mul(d, d); d may be
 * computed once or twice.
 */
#include "graph/rewrite/rewrite.h"

#include "graph/attr.h"

/* Whether the operator is the mean along the last axis, keeping that axis with extent 1. */
static bool layer_is_mean(const tn__draft *draft, tn_op_id id, tn_tensor_id of) {
    uint32_t count;
    double axis;
    if (id == TN_NONE || tn__draft_input(draft, id, 0) != of) return false;
    const tn_op *op = tn__draft_op_of(draft, id);
    const int64_t *axes = tn__attr_ints(op, "axes", &count);
    if (axes != NULL && count == 1)
        axis = (double)axes[0];
    else if (axes != NULL || !tn__draft_number(draft, tn__draft_input(draft, id, 1), &axis))
        return false;
    return tn__attr_int(op, "keepdims", 1) == 1 &&
           (axis == -1 || axis + 1 == (double)tn__draft_tensor_of(draft, of)->rank);
}

/* Returns x if `d` is x minus its mean; otherwise TN_NONE. */
static tn_tensor_id layer_centred(const tn__draft *draft, tn_tensor_id d) {
    tn_op_id sub = draft->tensors[d].producer;
    if (sub == TN_NONE || !tn__draft_is(draft, sub, "Sub")) return TN_NONE;
    tn_tensor_id x = tn__draft_input(draft, sub, 0);
    return layer_is_mean(draft, tn__draft_producer(draft, sub, 1, "ReduceMean"), x) ? x : TN_NONE;
}

/* If input `index` of `id` is computed as a square, returns the squared tensor; otherwise
 * TN_NONE. */
static tn_tensor_id layer_squared(const tn__draft *draft, tn_op_id id, uint32_t index) {
    tn_op_id pow = tn__draft_producer(draft, id, index, "Pow");
    tn_op_id mul = tn__draft_producer(draft, id, index, "Mul");
    if (pow != TN_NONE && tn__draft_is_number(draft, tn__draft_input(draft, pow, 1), 2))
        return tn__draft_input(draft, pow, 0);
    if (mul != TN_NONE && tn__draft_input(draft, mul, 0) == tn__draft_input(draft, mul, 1))
        return tn__draft_input(draft, mul, 0);
    return TN_NONE;
}

/* If the division computes a normalised x, returns x, and its epsilon in *epsilon; otherwise
 * TN_NONE. */
static tn_tensor_id layer_normalised(const tn__draft *draft, tn_op_id div, double *epsilon) {
    tn_tensor_id d = tn__draft_input(draft, div, 0), x = layer_centred(draft, d);
    tn_op_id root = tn__draft_only(draft, div, 1, "Sqrt");
    tn_op_id add = root != TN_NONE ? tn__draft_only(draft, root, 0, "Add") : TN_NONE;
    if (x == TN_NONE || add == TN_NONE) return TN_NONE;
    uint32_t at = tn__draft_number(draft, tn__draft_input(draft, add, 1), epsilon) ? 0 : 1;
    if (at == 1 && !tn__draft_number(draft, tn__draft_input(draft, add, 0), epsilon))
        return TN_NONE;
    tn_op_id mean = tn__draft_only(draft, add, at, "ReduceMean");
    if (mean == TN_NONE) return TN_NONE;
    tn_tensor_id squared = layer_squared(draft, mean, 0);
    if (squared == TN_NONE || !layer_is_mean(draft, mean, tn__draft_input(draft, mean, 0)))
        return TN_NONE;
    return squared == d || layer_centred(draft, squared) == x ? x : TN_NONE;
}

/* If one of two inputs of `id` is a row of `count` elements, returns the index of the other input,
 * and the row in *row; otherwise TN_NONE. */
static uint32_t layer_other(const tn__draft *draft, tn_op_id id, int64_t count, tn_tensor_id *row) {
    for (uint32_t i = 0; i < 2; i++) {
        *row = tn__draft_input(draft, id, i);
        if (tn__draft_is_row(draft, *row, count)) return 1 - i;
    }
    return TN_NONE;
}

static tn_status layer_each(tn__draft *draft, tn_op_id id) {
    tn_tensor_id scale, shift;
    double epsilon;
    if (!tn__draft_is(draft, id, "Add")) return TN_OK;
    tn_tensor_id y = tn__draft_op_of(draft, id)->outputs[0];
    const tn_tensor *output = tn__draft_tensor_of(draft, y);
    if (!tn__draft_is_exact(draft, y) || output->rank == 0) return TN_OK;
    int64_t along = output->shape[output->rank - 1], axis = -1;
    uint32_t at = layer_other(draft, id, along, &shift);
    tn_op_id mul = at != TN_NONE ? tn__draft_only(draft, id, at, "Mul") : TN_NONE;
    at = mul != TN_NONE ? layer_other(draft, mul, along, &scale) : TN_NONE;
    tn_op_id div = at != TN_NONE ? tn__draft_only(draft, mul, at, "Div") : TN_NONE;
    tn_tensor_id x = div != TN_NONE ? layer_normalised(draft, div, &epsilon) : TN_NONE;
    if (x == TN_NONE || !tn__draft_same_shape(draft, x, y)) return TN_OK;
    tn_attr attrs[2] = {{.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = &axis},
                        {.name = "epsilon", .type = TN_ATTR_FLOAT, .count = 1, .floats = &epsilon}};
    uint32_t count;
    const tn_attr *kept = tn__draft_attrs(draft, &(tn_op){0}, attrs, 2, &count);
    if (kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    return tn__draft_become(draft, id, "", "LayerNormalization", 17,
                            (tn_tensor_id[]){x, scale, shift}, 3, kept, count);
}

const tn__rewrite tn__rewrite_layer = {
    .name = "layer",
    .summary = "fuses the operators of a layer normalisation",
    .before_training = true,
    .each = layer_each,
};
