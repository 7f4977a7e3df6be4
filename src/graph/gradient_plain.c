/* gradient_plain.c - gradients of operators that move elements or add them up, and of Relu.
 *
 * None of them but Relu keeps anything; Relu keeps its output, which what follows keeps anyway.
 */
#include "graph/gradients.h"

tn_status tn__gradient_add(tn_gradient *it) {
    for (uint32_t i = 0; i < it->op.input_count; i++)
        if (it->wanted[i]) TN_TRY(tn__gradient_unbroadcast(it, 0, i, it->given[0]));
    return TN_OK;
}

tn_status tn__gradient_reshape(tn_gradient *it) {
    return it->wanted[0] ? tn__gradient_reshaped(it, 0, it->given[0]) : TN_OK;
}

tn_status tn__gradient_relu(tn_gradient *it) {
    return tn__gradient_own(it, "ReluGrad", TN__LIST(it->given[0], it->op.outputs[0]), NULL, 0,
                            &it->found[0]);
}
