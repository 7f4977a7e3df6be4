/* gradient_recurrent.c - gradients of LSTM, GRU, RNN and LinearAttention: one operator each, which
 * repeats the forward pass and then runs it backwards. It keeps the inputs, the weights and the
 * initial state.
 *
 * For cells, this covers the usual activations and sequences of full length, without peepholes,
 * clipping or coupled gates; GRU with linear_before_reset, as in PyTorch and Keras. Other cells are
 * unrolled into their steps before (graph/train/unroll.c).
 */
#include <strings.h>

#include "graph/gradients/gradients.h"

/* Whether every activation function is the default one; an RNN may also use Relu. */
static bool recurrent_is_usual(const tn_gradient *it, uint32_t functions, bool *rectified) {
    const tn_attr *attr = tn__attr(&it->op, "activations");
    *rectified = false;
    for (uint32_t i = 0; attr != NULL && i < attr->count; i++) {
        const char *usual = functions > 1 && i % functions == 0 ? "Sigmoid" : "Tanh";
        bool relu = functions == 1 && strcasecmp(attr->strings[i], "Relu") == 0;
        if (i > 0 && functions == 1 && relu != *rectified) return false;
        if (strcasecmp(attr->strings[i], usual) != 0 && !relu) return false;
        *rectified = relu;
    }
    return true;
}

static bool recurrent_is_plain(const tn_gradient *it) {
    return tn__gradient_in(it, 4) == TN_NONE && tn__gradient_in(it, 7) == TN_NONE &&
           tn__attr(&it->op, "clip") == NULL && tn__attr_int(&it->op, "layout", 0) == 0 &&
           tn__attr_int(&it->op, "input_forget", 0) == 0;
}

static uint32_t recurrent_functions(const tn_gradient *it) {
    uint32_t gates = tn__op_rule(it->op.domain, it->op.type)->gates;
    return gates > 1 ? gates - 1 : 1;
}

bool tn__gradient_recurrent_fits(const tn_gradient *it) {
    uint32_t functions = recurrent_functions(it);
    bool rectified, before = tn__attr_int(&it->op, "linear_before_reset", 0) != 0;
    return recurrent_is_usual(it, functions, &rectified) && recurrent_is_plain(it) &&
           (functions != 2 || before);
}

static tn_status recurrent_gradient(tn_gradient *it, const char *type) {
    /* indices of X, W, R, B and the initial states h and c */
    static const uint32_t operands[] = {0, 1, 2, 3, 5, 6};
    bool rectified, wanted[6];
    if (!tn__gradient_recurrent_fits(it))
        return tn__gradient_fail(it, "an unusual cell of more than 1,024 steps has no gradient");
    recurrent_is_usual(it, recurrent_functions(it), &rectified);
    tn_tensor_id inputs[9], made[6];
    for (uint32_t i = 0; i < 6; i++) {
        inputs[i] = tn__gradient_in(it, operands[i]);
        wanted[i] = tn__gradient_wants(it, operands[i]);
    }
    for (uint32_t k = 0; k < 3; k++) inputs[6 + k] = tn__gradient_given(it, k);
    int64_t reversed = strcmp(tn__attr_string(&it->op, "direction", "forward"), "reverse") == 0;
    int64_t relu = rectified;
    const tn_attr attrs[] = {TN__ATTR_INT("reversed", &reversed), TN__ATTR_INT("rectified", &relu)};
    TN_TRY(tn__gradient_some(it, type, inputs, 9, attrs, 2, wanted, made, 6));
    for (uint32_t i = 0; i < 6; i++)
        if (wanted[i]) it->found[operands[i]] = made[i];
    return TN_OK;
}

tn_status tn__gradient_lstm(tn_gradient *it) { return recurrent_gradient(it, "LstmGrad"); }
tn_status tn__gradient_gru(tn_gradient *it) { return recurrent_gradient(it, "GruGrad"); }
tn_status tn__gradient_rnn(tn_gradient *it) { return recurrent_gradient(it, "RnnGrad"); }

tn_status tn__gradient_linear_attention(tn_gradient *it) {
    tn_tensor_id inputs[8], made[6];
    bool wanted[6];
    if (tn__attr_int(&it->op, "state_window", 0) != 0)
        return tn__gradient_fail(it, "no gradient with state_window");
    for (uint32_t i = 0; i < 6; i++) {
        inputs[i] = tn__gradient_in(it, i);
        wanted[i] = tn__gradient_wants(it, i);
    }
    for (uint32_t k = 0; k < 2; k++) inputs[6 + k] = tn__gradient_given(it, k);
    TN_TRY(tn__gradient_some(it, "LinearAttentionGrad", inputs, 8, it->op.attrs, it->op.attr_count,
                             wanted, made, 6));
    for (uint32_t i = 0; i < 6; i++)
        if (wanted[i]) it->found[i] = made[i];
    return TN_OK;
}
