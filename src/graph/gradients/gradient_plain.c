/* gradient_plain.c - gradients of operators that move elements or add them up, and of Relu.
 *
 * Only Relu keeps a tensor: its output, which the next operator usually keeps anyway. It keeps
 * nothing if a maximum pool follows that stores the index of its maximum.
 */
#include "graph/gradients/gradients.h"

tn_status tn__gradient_add(tn_gradient *it) {
    for (uint32_t i = 0; i < it->op.input_count; i++)
        if (it->wanted[i]) TN_TRY(tn__gradient_unbroadcast(it, 0, i, it->given[0]));
    return TN_OK;
}

tn_status tn__gradient_reshape(tn_gradient *it) {
    return it->wanted[0] ? tn__gradient_reshaped(it, 0, it->given[0]) : TN_OK;
}

/* Whether the given gradient comes from the pool of this output, which has already applied the
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
