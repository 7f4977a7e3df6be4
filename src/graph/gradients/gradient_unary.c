/* gradient_unary.c - gradients of operators that compute each element from one element.
 *
 * Each is one operator that may overwrite the given gradient. If the slope follows from the output,
 * the output is read: the next operator usually keeps it anyway, and the input can be freed. At a
 * kink the gradient is the one to its left.
 */
#include "graph/gradients/gradients.h"

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

/* Gradient from the output alone. If the function falls for negative inputs (`rises` is false), two
 * inputs have the same output, so the gradient is refused. */
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
    const bool old = it->version < 6; /* fewer digits */
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

/* y = x where x > 0, else slope x; the slope is broadcast to x. */
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

/* Flat everywhere: nothing depends on the input. */
tn_status tn__gradient_flat(tn_gradient *it) {
    (void)it;
    return TN_OK;
}

/* Bounds are attributes before opset 11. The output shows which elements were clipped. */
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
    int64_t to = tn__gradient_input(it, 0).dtype; /* the numbers of ONNX */
    return tn__gradient_op(it, "Cast", TN__LIST(it->given[0]), &TN__ATTR_INT("to", &to), 1,
                           &it->found[0]);
}
