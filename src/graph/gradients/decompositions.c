/* decompositions.c - operators in terms of others, for training: activations with a gate or a bias,
 * normalisations of a sum, a convolution along a sequence. Attention is in decompose_attention.c.
 *
 * Source: operator texts of ONNX, opsets 27 and 28; docs/ContribOperators.md of ONNX Runtime.
 */
#include <string.h>

#include "graph/gradients/decompose.h"

/* --- activations --- */

/* SwiGLU(a, b) = Swish(a) b. */
TN__DECOMPOSE(swiglu) {
    double alpha = tn__attr_float(it->op, "alpha", 1);
    const tn_attr attr = TN__ATTR_FLOAT("alpha", &alpha);
    tn_tensor_id gate, y = tn__decompose_out(it, 0);
    TN_TRY(tn__decompose_one(it, "Swish", tn__decompose_in(it, 0), &attr, 1, &gate));
    return tn__decompose_add(it, "Mul", TN__LIST(gate, tn__decompose_in(it, 1)), NULL, 0, &y, 1);
}

/* Gelu(x + bias); `form` is the value of Gelu's attribute approximate. */
static tn_status decompose_gelu(tn_decompose *it, const char *form) {
    const tn_attr attr = TN__ATTR_STRING("approximate", &form);
    tn_tensor_id x = tn__decompose_in(it, 0), bias = tn__decompose_in(it, 1);
    tn_tensor_id y = tn__decompose_out(it, 0);
    if (bias != TN_NONE) TN_TRY(tn__decompose_two(it, "Add", x, bias, &x));
    return tn__decompose_add(it, "Gelu", &x, 1, &attr, 1, &y, 1);
}

TN__DECOMPOSE(bias_gelu) { return decompose_gelu(it, "none"); }
TN__DECOMPOSE(gelu) { return decompose_gelu(it, "none"); }
TN__DECOMPOSE(fast_gelu) { return decompose_gelu(it, "tanh"); }

TN__DECOMPOSE(quick_gelu) {
    double alpha = tn__attr_float(it->op, "alpha", (double)1.702f);
    const tn_attr attr = TN__ATTR_FLOAT("alpha", &alpha);
    tn_tensor_id x = tn__decompose_in(it, 0), y = tn__decompose_out(it, 0);
    return tn__decompose_add(it, "Swish", &x, 1, &attr, 1, &y, 1);
}

/* --- normalisations --- */

/* Fails if the model reads one of the outputs [from, to). */
static tn_status decompose_only(tn_decompose *it, uint32_t from, uint32_t to) {
    for (uint32_t k = from; k < to; k++)
        if (tn__decompose_out(it, k) != TN_NONE)
            return tn__decompose_fail(it, "no gradient if output %u, a statistic, is wanted", k);
    return TN_OK;
}

TN__DECOMPOSE(simplified_layer_norm) {
    double epsilon = tn__attr_float(it->op, "epsilon", (double)1e-5f);
    int64_t axis = tn__attr_int(it->op, "axis", -1);
    const tn_attr attrs[] = {TN__ATTR_FLOAT("epsilon", &epsilon), TN__ATTR_INT("axis", &axis)};
    tn_tensor_id y = tn__decompose_out(it, 0);
    TN_TRY(decompose_only(it, 1, 2));
    return tn__decompose_add(it, "RMSNormalization",
                             TN__LIST(tn__decompose_in(it, 0), tn__decompose_in(it, 1)), attrs, 2,
                             &y, 1);
}

/* Adds the normalisation `type` of input + skip + bias. The sum itself is output 3. */
static tn_status decompose_skip(tn_decompose *it, const char *type, tn_tensor_id beta,
                                tn_tensor_id bias) {
    static const int64_t last = -1;
    double epsilon = tn__attr_float(it->op, "epsilon", 1e-12);
    const tn_attr attrs[] = {TN__ATTR_FLOAT("epsilon", &epsilon), TN__ATTR_INT("axis", &last)};
    tn_tensor_id sum, y = tn__decompose_out(it, 0);
    TN_TRY(decompose_only(it, 1, 3));
    TN_TRY(tn__decompose_two(it, "Add", tn__decompose_in(it, 0), tn__decompose_in(it, 1), &sum));
    if (bias != TN_NONE) TN_TRY(tn__decompose_two(it, "Add", sum, bias, &sum));
    TN_TRY(tn__decompose_give(it, 3, sum));
    const tn_tensor_id operands[] = {sum, tn__decompose_in(it, 2), beta};
    return tn__decompose_add(it, type, operands, beta != TN_NONE ? 3 : 2, attrs, 2, &y, 1);
}

TN__DECOMPOSE(skip_layer_norm) {
    return decompose_skip(it, "LayerNormalization", tn__decompose_in(it, 3),
                          tn__decompose_in(it, 4));
}

TN__DECOMPOSE(skip_simplified_layer_norm) {
    return decompose_skip(it, "RMSNormalization", TN_NONE, tn__decompose_in(it, 3));
}

/* --- CausalConvWithState: a convolution that continues from a state --- */

/* Convolution of x [B, C, L] along its last axis with weights [C, 1, k]. The old state [B, C, k -
 * 1], or zeros, is put before x; the new state is the last k - 1 columns of the two together. */
TN__DECOMPOSE(causal_conv) {
    const tn_tensor *x = tn__decompose_input(it, 0), *w = tn__decompose_input(it, 1);
    const char *activation = tn__attr_string(it->op, "activation", "none");
    const bool plain = strcmp(activation, "none") == 0;
    if (!tn__shape_known(x) || !tn__shape_known(w) || x->rank != 3 || w->rank != 3)
        return tn__decompose_fail(it, "no gradient if the shapes of x or of the weights are "
                                      "unknown before the run");
    const int64_t state = w->shape[2] - 1, group = x->shape[1], along = 2;
    const int64_t sizes[] = {x->shape[2], state}, pads[] = {0, 0, state, 0, 0, 0};
    tn_tensor_id rows, list, parts[2], y = tn__decompose_out(it, 0);
    tn_tensor_id past = tn__decompose_in(it, 3), bias = tn__decompose_in(it, 2);
    if (past != TN_NONE) {
        const tn_attr axis = TN__ATTR_INT("axis", &along);
        rows = TN_NONE;
        TN_TRY(tn__decompose_add(it, "Concat", TN__LIST(past, tn__decompose_in(it, 0)), &axis, 1,
                                 &rows, 1));
    } else {
        TN_TRY(tn__decompose_list(it, pads, 6, &list));
        TN_TRY(tn__decompose_two(it, "Pad", tn__decompose_in(it, 0), list, &rows));
    }
    if (tn__decompose_out(it, 1) != TN_NONE) {
        TN_TRY(tn__decompose_split(it, rows, along, sizes, 2, parts));
        TN_TRY(tn__decompose_give(it, 1, parts[1]));
    }
    const tn_attr groups = TN__ATTR_INT("group", &group);
    tn_tensor_id sum = plain ? y : TN_NONE;
    const tn_tensor_id operands[] = {rows, tn__decompose_in(it, 1), bias};
    TN_TRY(tn__decompose_add(it, "Conv", operands, bias != TN_NONE ? 3 : 2, &groups, 1, &sum, 1));
    return plain ? TN_OK : tn__decompose_add(it, "Swish", &sum, 1, NULL, 0, &y, 1);
}
