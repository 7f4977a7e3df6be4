/* gelu.c - recognises the GELU that exporters write as several operators:
 *
 *     x * 1/2 * (1 + Erf(x / sqrt 2))
 *     x * 1/2 * (1 + Tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
 *
 * for any order of the three factors. Constants may differ in the fifth digit, because exporters
 * round them to float32.
 */
#include "graph/rewrite/rewrite.h"

#include "graph/attr.h"

#define GELU_FACTORS 3u

/* Collects the factors of a product with an input that is another product and is not read
 * elsewhere. Returns their number, GELU_FACTORS, or 0 if neither input is such a product. */
static uint32_t gelu_factors(const tn__draft *draft, tn_op_id id, tn_tensor_id *factors) {
    uint32_t inner = TN_NONE, count = 0;
    for (uint32_t i = 0; i < 2 && inner == TN_NONE; i++)
        if (tn__draft_only(draft, id, i, "Mul") != TN_NONE) inner = i;
    if (inner == TN_NONE) return 0;
    tn_op_id mul = tn__draft_only(draft, id, inner, "Mul");
    factors[count++] = tn__draft_input(draft, mul, 0);
    factors[count++] = tn__draft_input(draft, mul, 1);
    factors[count++] = tn__draft_input(draft, id, 1 - inner);
    return count;
}

/* If one of the two inputs of `id` is the given number, returns the other input; otherwise
 * TN_NONE. */
static tn_tensor_id gelu_beside(const tn__draft *draft, tn_op_id id, double number) {
    if (id == TN_NONE) return TN_NONE;
    for (uint32_t i = 0; i < 2; i++)
        if (tn__draft_is_number(draft, tn__draft_input(draft, id, i), number))
            return tn__draft_input(draft, id, 1 - i);
    return TN_NONE;
}

static tn_op_id gelu_made_by(const tn__draft *draft, tn_tensor_id id, const char *type) {
    if (id == TN_NONE) return TN_NONE;
    tn_op_id producer = draft->tensors[id].producer;
    return producer != TN_NONE && tn__draft_is(draft, producer, type) ? producer : TN_NONE;
}

static bool gelu_is_erf(const tn__draft *draft, tn_tensor_id inner, tn_tensor_id x) {
    tn_op_id erf = gelu_made_by(draft, inner, "Erf");
    if (erf == TN_NONE) return false;
    tn_op_id div = tn__draft_producer(draft, erf, 0, "Div");
    tn_op_id mul = tn__draft_producer(draft, erf, 0, "Mul");
    if (div != TN_NONE)
        return tn__draft_input(draft, div, 0) == x &&
               tn__draft_is_number(draft, tn__draft_input(draft, div, 1), 1.4142135623730951);
    return gelu_beside(draft, mul, 0.7071067811865476) == x;
}

static bool gelu_is_cube(const tn__draft *draft, tn_tensor_id id, tn_tensor_id x) {
    tn_op_id pow = gelu_made_by(draft, id, "Pow"), mul = gelu_made_by(draft, id, "Mul");
    if (pow != TN_NONE)
        return tn__draft_input(draft, pow, 0) == x &&
               tn__draft_is_number(draft, tn__draft_input(draft, pow, 1), 3);
    for (uint32_t i = 0; mul != TN_NONE && i < 2; i++) {
        tn_op_id square = gelu_made_by(draft, tn__draft_input(draft, mul, 1 - i), "Mul");
        if (tn__draft_input(draft, mul, i) == x && square != TN_NONE &&
            tn__draft_input(draft, square, 0) == x && tn__draft_input(draft, square, 1) == x)
            return true;
    }
    return false;
}

static bool gelu_is_tanh(const tn__draft *draft, tn_tensor_id inner, tn_tensor_id x) {
    tn_op_id tanh = gelu_made_by(draft, inner, "Tanh");
    if (tanh == TN_NONE) return false;
    tn_tensor_id sum =
        gelu_beside(draft, tn__draft_producer(draft, tanh, 0, "Mul"), 0.7978845608028654);
    tn_op_id add = gelu_made_by(draft, sum, "Add");
    for (uint32_t i = 0; add != TN_NONE && i < 2; i++) {
        tn_tensor_id cube =
            gelu_beside(draft, tn__draft_producer(draft, add, 1 - i, "Mul"), 0.044715);
        if (tn__draft_input(draft, add, i) == x && cube != TN_NONE && gelu_is_cube(draft, cube, x))
            return true;
    }
    return false;
}

static tn_status gelu_become(tn__draft *draft, tn_op_id id, tn_tensor_id x, const char *form) {
    tn_attr attr = {.name = "approximate", .type = TN_ATTR_STRING, .count = 1, .strings = &form};
    uint32_t count;
    const tn_attr *kept = tn__draft_attrs(draft, &(tn_op){0}, &attr, 1, &count);
    if (kept == NULL) return tn__no_memory(draft->error, "a rewritten graph");
    return tn__draft_become(draft, id, "", "Gelu", 20, &x, 1, kept, count);
}

static tn_status gelu_each(tn__draft *draft, tn_op_id id) {
    tn_tensor_id factors[GELU_FACTORS];
    if (!tn__draft_is(draft, id, "Mul") || gelu_factors(draft, id, factors) != GELU_FACTORS)
        return TN_OK;
    tn_tensor_id y = tn__draft_op_of(draft, id)->outputs[0];
    for (uint32_t half = 0; half < 3; half++) {
        if (!tn__draft_is_number(draft, factors[half], 0.5)) continue;
        for (uint32_t i = 1; i < 3; i++) {
            tn_tensor_id x = factors[(half + i) % 3], sum = factors[(half + 3 - i) % 3];
            tn_tensor_id inner = gelu_beside(draft, gelu_made_by(draft, sum, "Add"), 1);
            if (inner == TN_NONE || !tn__draft_same_shape(draft, x, y)) continue;
            if (gelu_is_erf(draft, inner, x)) return gelu_become(draft, id, x, "none");
            if (gelu_is_tanh(draft, inner, x)) return gelu_become(draft, id, x, "tanh");
        }
    }
    return TN_OK;
}

const tn__rewrite tn__rewrite_gelu = {
    .name = "gelu",
    .summary = "fuses the operators of a GELU",
    .before_training = true,
    .each = gelu_each,
};
