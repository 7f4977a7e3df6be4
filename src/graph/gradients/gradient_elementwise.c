/* gradient_elementwise.c - gradients of operators that work element by element: sums, arithmetic
 * with broadcasting, functions of one element.
 *
 * A sum or a reshape keeps nothing. Relu keeps its output, which the next operator usually keeps
 * anyway; it keeps nothing if a maximum pool follows that stores the index of its maximum. The
 * sections below describe the tensors that other operators keep.
 */
#include "graph/gradients/gradients.h"

/* --- gradients of sums, of reshapes, of Relu and of arithmetic -------------------------------- */

tn_status tn__gradient_add(tn_gradient *it) {
    for (uint32_t i = 0; i < it->op.input_count; i++)
        if (it->wanted[i]) TN_TRY(tn__gradient_unbroadcast(it, 0, i, it->given[0]));
    return TN_OK;
}

tn_status tn__gradient_reshape(tn_gradient *it) {
    return it->wanted[0] ? tn__gradient_reshaped(it, 0, it->given[0]) : TN_OK;
}

/* Whether the given gradient comes from a pool that reads this output and has already applied the
 * gradient of Relu (tn__gradient_max_pool_train). */
static bool plain_is_rectified(const tn_gradient *it) {
    tn_op_id maker = tn_graph_tensor(it->graph, it->given[0])->producer;
    if (maker == TN_NONE) return false;
    const tn_op *grad = tn_graph_op(it->graph, maker);
    if (!tn__op_is(grad, "tenure.MaxPoolMapGrad")) return false;
    const tn_op *pool =
        tn_graph_op(it->graph, tn_graph_tensor(it->graph, grad->inputs[1])->producer);
    return tn__attr_int(pool, "relu", 0) != 0 && pool->inputs[0] == it->op.outputs[0];
}

tn_status tn__gradient_relu(tn_gradient *it) {
    if (plain_is_rectified(it)) {
        it->found[0] = it->given[0];
        return TN_OK;
    }
    return tn__gradient_own(it, "ReluGrad", TN__LIST(it->given[0], it->op.outputs[0]), NULL, 0,
                            &it->found[0]);
}

/* --- arithmetic ------------------------------------------------------------------------------- */

/* Gradients of arithmetic between tensors that are broadcast.
 *
 * A product reads the other factor, a quotient its divisor and its output, a selection its
 * condition, and a difference nothing. The gradient of a broadcast operand is summed over the
 * repetitions.
 */

static tn_status arithmetic_two(tn_gradient *it, const char *type, tn_tensor_id a, tn_tensor_id b,
                                tn_tensor_id *made) {
    return tn__gradient_op(it, type, TN__LIST(a, b), NULL, 0, made);
}

/* Negates the gradient of input `input` that was found so far. */
static tn_status arithmetic_negated(tn_gradient *it, uint32_t input) {
    return tn__gradient_op(it, "Neg", TN__LIST(it->found[input]), NULL, 0, &it->found[input]);
}

tn_status tn__gradient_sub(tn_gradient *it) {
    if (it->wanted[0]) TN_TRY(tn__gradient_unbroadcast(it, 0, 0, it->given[0]));
    if (!it->wanted[1]) return TN_OK;
    /* negates after the sum over broadcast axes, because the sum has fewer elements */
    TN_TRY(tn__gradient_unbroadcast(it, 0, 1, it->given[0]));
    return arithmetic_negated(it, 1);
}

tn_status tn__gradient_mul(tn_gradient *it) {
    for (uint32_t i = 0; i < 2; i++) {
        tn_tensor_id part;
        if (!it->wanted[i]) continue;
        TN_TRY(arithmetic_two(it, "Mul", it->given[0], it->op.inputs[1 - i], &part));
        TN_TRY(tn__gradient_unbroadcast(it, 0, i, part));
    }
    return TN_OK;
}

/* Gradient of y = a / b: da = dy / b, db = -y dy / b. */
tn_status tn__gradient_div(tn_gradient *it) {
    tn_tensor_id part, product;
    TN_TRY(arithmetic_two(it, "Div", it->given[0], it->op.inputs[1], &part));
    if (it->wanted[0]) TN_TRY(tn__gradient_unbroadcast(it, 0, 0, part));
    if (!it->wanted[1]) return TN_OK;
    TN_TRY(arithmetic_two(it, "Mul", part, it->op.outputs[0], &product));
    TN_TRY(tn__gradient_unbroadcast(it, 0, 1, product));
    return arithmetic_negated(it, 1);
}

/* Gradient of the remainder y = a - n b with an integer n: da = dy, db = -n dy. */
tn_status tn__gradient_mod(tn_gradient *it) {
    tn_tensor_id less, times, part;
    if (it->wanted[0]) TN_TRY(tn__gradient_unbroadcast(it, 0, 0, it->given[0]));
    if (!it->wanted[1]) return TN_OK;
    TN_TRY(arithmetic_two(it, "Sub", it->op.outputs[0], it->op.inputs[0], &less));
    TN_TRY(arithmetic_two(it, "Div", less, it->op.inputs[1], &times));
    TN_TRY(arithmetic_two(it, "Mul", it->given[0], times, &part));
    return tn__gradient_unbroadcast(it, 0, 1, part);
}

/* --- Pow --- */

/* Gradient of y = x^e for x: dx = dy e x^(e - 1). */
static tn_status arithmetic_pow_base(tn_gradient *it, tn_tensor_id exponent) {
    tn_tensor e = tn__gradient_input(it, 1);
    tn_dtype dtype = tn__gradient_input(it, 0).dtype;
    tn_tensor_id x = it->op.inputs[0], one, less, power, scaled, part;
    bool known = e.value != NULL && e.value->count == 1 && !(e.flags & TN_TENSOR_UPDATED);
    double number = !known                    ? -1
                    : e.value->floats != NULL ? e.value->floats[0]
                                              : (double)e.value->ints[0];
    /* with the exponent 0 the result is 1 for every x, so x has no gradient */
    if (number == 0) return TN_OK;
    if (number == 2) {
        power = x;
    } else {
        TN_TRY(tn__gradient_number(it, dtype, 1, &one));
        TN_TRY(arithmetic_two(it, "Sub", exponent, one, &less));
        TN_TRY(arithmetic_two(it, "Pow", x, less, &power));
    }
    TN_TRY(arithmetic_two(it, "Mul", it->given[0], power, &scaled));
    TN_TRY(arithmetic_two(it, "Mul", scaled, exponent, &part));
    return tn__gradient_unbroadcast(it, 0, 0, part);
}

/* Gradient of y = x^e for e: de = dy y log(x), and 0 where x is 0. */
static tn_status arithmetic_pow_exponent(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0);
    tn_tensor_id zero, none, log, product, scaled, part;
    if (x.dtype != tn__gradient_input(it, 1).dtype)
        return tn__gradient_fail(it, "no gradient for an exponent of another type");
    TN_TRY(tn__gradient_number(it, x.dtype, 0, &zero));
    TN_TRY(arithmetic_two(it, "Equal", it->op.inputs[0], zero, &none));
    TN_TRY(tn__gradient_op(it, "Log", TN__LIST(it->op.inputs[0]), NULL, 0, &log));
    TN_TRY(arithmetic_two(it, "Mul", it->given[0], it->op.outputs[0], &product));
    TN_TRY(arithmetic_two(it, "Mul", product, log, &scaled));
    TN_TRY(tn__gradient_op(it, "Where", TN__LIST(none, zero, scaled), NULL, 0, &part));
    return tn__gradient_unbroadcast(it, 0, 1, part);
}

tn_status tn__gradient_pow(tn_gradient *it) {
    tn_tensor_id exponent = it->op.inputs[1];
    int64_t to = tn__gradient_input(it, 0).dtype;
    if (it->wanted[1]) TN_TRY(arithmetic_pow_exponent(it));
    if (!it->wanted[0]) return TN_OK;
    if (tn__gradient_input(it, 1).dtype != (tn_dtype)to)
        TN_TRY(tn__gradient_op(it, "Cast", TN__LIST(exponent), &TN__ATTR_INT("to", &to), 1,
                               &exponent));
    return arithmetic_pow_base(it, exponent);
}

/* --- choices --- */

/* Passes the gradient to input `yes` where `mask` is true, and to input `no` elsewhere. */
static tn_status arithmetic_share(tn_gradient *it, tn_tensor_id mask, uint32_t yes, uint32_t no) {
    tn_tensor_id zero, part, dy = it->given[0];
    TN_TRY(tn__gradient_number(it, tn__gradient_output(it, 0).dtype, 0, &zero));
    if (tn__gradient_wants(it, yes)) {
        TN_TRY(tn__gradient_op(it, "Where", TN__LIST(mask, dy, zero), NULL, 0, &part));
        TN_TRY(tn__gradient_unbroadcast(it, 0, yes, part));
    }
    if (!tn__gradient_wants(it, no)) return TN_OK;
    TN_TRY(tn__gradient_op(it, "Where", TN__LIST(mask, zero, dy), NULL, 0, &part));
    return tn__gradient_unbroadcast(it, 0, no, part);
}

tn_status tn__gradient_where(tn_gradient *it) {
    return arithmetic_share(it, it->op.inputs[0], 1, 2);
}

static uint64_t arithmetic_count(const tn_tensor *tensor) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < tensor->rank; d++)
        count = tn__mul_sat(count, (uint64_t)tensor->shape[d]);
    return count;
}

/* Gradient of Max or Min of two operands. If one operand has fewer elements, it is compared with
 * the output, which other operators keep anyway, and gets the gradient at a tie. Otherwise the
 * operands are compared, and the first one gets the gradient at a tie. */
static tn_status arithmetic_of_two(tn_gradient *it, const char *beats, const char *reaches) {
    tn_tensor a = tn__gradient_input(it, 0), b = tn__gradient_input(it, 1);
    const tn_tensor_id *in = it->op.inputs, y = it->op.outputs[0];
    tn_tensor_id mask;
    if (arithmetic_count(&a) < arithmetic_count(&b)) {
        TN_TRY(arithmetic_two(it, beats, y, in[0], &mask));
        return arithmetic_share(it, mask, 1, 0);
    }
    if (arithmetic_count(&b) < arithmetic_count(&a)) {
        TN_TRY(arithmetic_two(it, beats, y, in[1], &mask));
        return arithmetic_share(it, mask, 0, 1);
    }
    TN_TRY(arithmetic_two(it, reaches, in[0], in[1], &mask));
    return arithmetic_share(it, mask, 0, 1);
}

/* Gradient of Max or Min of several operands: each element of it goes to the first operand that is
 * equal to the output. */
static tn_status arithmetic_of_many(tn_gradient *it) {
    uint32_t count = it->op.input_count;
    tn_tensor_id left = TN_NONE, mask, taken, rest, zero, part;
    TN_TRY(tn__gradient_number(it, tn__gradient_output(it, 0).dtype, 0, &zero));
    for (uint32_t i = 0; i < count; i++) {
        TN_TRY(arithmetic_two(it, "Equal", it->op.outputs[0], it->op.inputs[i], &mask));
        taken = mask;
        if (left != TN_NONE) TN_TRY(arithmetic_two(it, "And", mask, left, &taken));
        TN_TRY(tn__gradient_op(it, "Not", TN__LIST(mask), NULL, 0, &rest));
        if (left != TN_NONE) TN_TRY(arithmetic_two(it, "And", rest, left, &rest));
        left = rest;
        if (!it->wanted[i]) continue;
        TN_TRY(tn__gradient_op(it, "Where", TN__LIST(taken, it->given[0], zero), NULL, 0, &part));
        TN_TRY(tn__gradient_unbroadcast(it, 0, i, part));
    }
    return TN_OK;
}

tn_status tn__gradient_max(tn_gradient *it) {
    return it->op.input_count == 2 ? arithmetic_of_two(it, "Greater", "GreaterOrEqual")
                                   : arithmetic_of_many(it);
}

tn_status tn__gradient_min(tn_gradient *it) {
    return it->op.input_count == 2 ? arithmetic_of_two(it, "Less", "LessOrEqual")
                                   : arithmetic_of_many(it);
}

tn_status tn__gradient_mean(tn_gradient *it) {
    tn_tensor_id share, part;
    TN_TRY(tn__gradient_number(it, tn__gradient_output(it, 0).dtype, 1.0 / it->op.input_count,
                               &share));
    TN_TRY(arithmetic_two(it, "Mul", it->given[0], share, &part));
    for (uint32_t i = 0; i < it->op.input_count; i++)
        if (it->wanted[i]) TN_TRY(tn__gradient_unbroadcast(it, 0, i, part));
    return TN_OK;
}

/* --- gradients of functions of one element ---------------------------------------------------- */

/* Gradients of operators that compute each element from one element.
 *
 * Each is one operator that may overwrite the given gradient. If the slope follows from the output,
 * the output is read: the next operator usually keeps it anyway, and the input can be freed. At a
 * kink the gradient is the one to its left.
 */

static tn_status unary_own(tn_gradient *it, const char *type, tn_tensor_id value) {
    return tn__gradient_own(it, type, TN__LIST(it->given[0], value), it->op.attrs,
                            it->op.attr_count, &it->found[0]);
}

#define UNARY_OUTPUT(Type, rule)                                                                   \
    tn_status tn__gradient_##rule(tn_gradient *it) {                                               \
        return unary_own(it, #Type "Grad", it->op.outputs[0]);                                     \
    }
#define UNARY_INPUT(Type, rule)                                                                    \
    tn_status tn__gradient_##rule(tn_gradient *it) {                                               \
        return unary_own(it, #Type "Grad", it->op.inputs[0]);                                      \
    }
#define UNARY_OWN(Type, rule)
#define X(Type, rule, reads, cost) UNARY_##reads(Type, rule)
#include "graph/gradients/unary_gradients.def"
#undef X

/* Computes a gradient from the output alone. If the function falls for negative inputs (`rises` is
 * false), two inputs can have the same output, so that case is refused. */
static tn_status unary_rising(tn_gradient *it, const char *type, double alpha, bool rises) {
    if (!rises) return tn__gradient_fail(it, "no gradient for alpha %g", alpha);
    return unary_own(it, type, it->op.outputs[0]);
}

tn_status tn__gradient_celu(tn_gradient *it) {
    double alpha = tn__attr_float(&it->op, "alpha", 1);
    return unary_rising(it, "CeluGrad", alpha, alpha > 0);
}

tn_status tn__gradient_elu(tn_gradient *it) {
    double alpha = tn__attr_float(&it->op, "alpha", 1);
    return unary_rising(it, "EluGrad", alpha, alpha >= 0);
}

tn_status tn__gradient_selu(tn_gradient *it) {
    const bool old = it->version < 6; /* before opset 6 the default constants have fewer digits */
    const double alpha = tn__attr_float(&it->op, "alpha", old ? 1.6732 : 1.67326319217681884765625);
    const double gamma = tn__attr_float(&it->op, "gamma", old ? 1.0507 : 1.05070102214813232421875);
    const tn_attr attrs[] = {TN__ATTR_FLOAT("alpha", &alpha), TN__ATTR_FLOAT("gamma", &gamma)};
    if (!(alpha >= 0 && gamma > 0))
        return tn__gradient_fail(it, "no gradient for alpha %g with gamma %g", alpha, gamma);
    return tn__gradient_own(it, "SeluGrad", TN__LIST(it->given[0], it->op.outputs[0]), attrs, 2,
                            &it->found[0]);
}

tn_status tn__gradient_leaky_relu(tn_gradient *it) {
    bool falls = tn__attr_float(&it->op, "alpha", 0.01) < 0;
    return unary_own(it, "LeakyReluGrad", falls ? it->op.inputs[0] : it->op.outputs[0]);
}

/* Gradient of PRelu: y = x where x > 0, elsewhere y = slope x. The slope is broadcast to x. */
tn_status tn__gradient_prelu(tn_gradient *it) {
    tn_tensor x = tn__gradient_input(it, 0), slope = tn__gradient_input(it, 1);
    tn_tensor_id dy = it->given[0], part, zero, left, scaled;
    if (it->version < 7 && slope.rank == 1 && slope.shape[0] > 1 && x.rank > 2)
        return tn__gradient_fail(it, "no gradient for a slope per channel before opset 7");
    if (it->wanted[1]) {
        TN_TRY(
            tn__gradient_own(it, "PReluSlopeGrad", TN__LIST(dy, it->op.inputs[0]), NULL, 0, &part));
        TN_TRY(tn__gradient_unbroadcast(it, 0, 1, part));
    }
    if (!it->wanted[0]) return TN_OK;
    TN_TRY(tn__gradient_number(it, x.dtype, 0, &zero));
    TN_TRY(tn__gradient_op(it, "Less", TN__LIST(it->op.inputs[0], zero), NULL, 0, &left));
    TN_TRY(tn__gradient_op(it, "Mul", TN__LIST(dy, it->op.inputs[1]), NULL, 0, &scaled));
    return tn__gradient_op(it, "Where", TN__LIST(left, scaled, dy), NULL, 0, &it->found[0]);
}

tn_status tn__gradient_exp(tn_gradient *it) {
    return tn__gradient_op(it, "Mul", TN__LIST(it->given[0], it->op.outputs[0]), NULL, 0,
                           &it->found[0]);
}

tn_status tn__gradient_log(tn_gradient *it) {
    return tn__gradient_op(it, "Div", TN__LIST(it->given[0], it->op.inputs[0]), NULL, 0,
                           &it->found[0]);
}

tn_status tn__gradient_neg(tn_gradient *it) {
    return tn__gradient_op(it, "Neg", TN__LIST(it->given[0]), NULL, 0, &it->found[0]);
}

/* Gradient of functions that are constant almost everywhere, such as Round: the input gets none. */
tn_status tn__gradient_flat(tn_gradient *it) {
    (void)it;
    return TN_OK;
}

/* Gradient of Clip. The bounds are attributes before opset 11. The output shows which elements were
 * clipped. */
tn_status tn__gradient_clip(tn_gradient *it) {
    const char *const names[] = {"min", "max"};
    tn_dtype dtype = tn__gradient_input(it, 0).dtype;
    tn_tensor_id bounds[2];
    for (uint32_t i = 0; i < 2; i++) {
        bounds[i] = tn__gradient_in(it, i + 1);
        if (bounds[i] != TN_NONE || tn__attr(&it->op, names[i]) == NULL) continue;
        TN_TRY(tn__gradient_number(it, dtype, tn__attr_float(&it->op, names[i], 0), &bounds[i]));
    }
    return tn__gradient_own(it, "ClipGrad",
                            TN__LIST(it->given[0], it->op.outputs[0], bounds[0], bounds[1]), NULL,
                            0, &it->found[0]);
}

tn_status tn__gradient_cast(tn_gradient *it) {
    /* ONNX's numbers of element types, as the attribute `to` needs them */
    int64_t to = tn__gradient_input(it, 0).dtype;
    return tn__gradient_op(it, "Cast", TN__LIST(it->given[0]), &TN__ATTR_INT("to", &to), 1,
                           &it->found[0]);
}
