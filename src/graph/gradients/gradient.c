/* gradient.c - the functions that gradient rules are written with (gradient.h).
 *
 * A rule adds ordinary operators of the main block. Their outputs are of kind gradient and named
 * after the tensors that they are gradients of, because readers of plans look for these names.
 * Cost: O(operands) for each operator that is added.
 */
#include "graph/gradients/gradient.h"

#include <stdio.h>

#include "graph/store.h"

/* --- reading --- */

bool tn__gradient_wants(const tn_gradient *it, uint32_t input) {
    return input < it->op.input_count && it->wanted[input];
}

tn_tensor_id tn__gradient_given(const tn_gradient *it, uint32_t output) {
    return output < it->op.output_count ? it->given[output] : TN_NONE;
}

tn_tensor_id tn__gradient_in(const tn_gradient *it, uint32_t input) {
    return input < it->op.input_count ? it->op.inputs[input] : TN_NONE;
}

static tn_tensor gradient_tensor(const tn_gradient *it, tn_tensor_id id) {
    if (id == TN_NONE) return (tn_tensor){.name = "", .rank = TN_RANK_UNKNOWN};
    return it->graph->tensors[id];
}

tn_tensor tn__gradient_input(const tn_gradient *it, uint32_t input) {
    return gradient_tensor(it, tn__gradient_in(it, input));
}

tn_tensor tn__gradient_output(const tn_gradient *it, uint32_t output) {
    return gradient_tensor(it, output < it->op.output_count ? it->op.outputs[output] : TN_NONE);
}

const int64_t *tn__gradient_ints_of(const tn_gradient *it, uint32_t input, uint32_t *count) {
    tn_tensor_id id = tn__gradient_in(it, input);
    const tn_value *value = id == TN_NONE ? NULL : it->graph->tensors[id].value;
    *count = value && value->ints ? value->count : 0;
    return value ? value->ints : NULL;
}

/* --- adding --- */

/* Adds an operator. It and its results get the name "d.<name>" of the operator that is
 * differentiated, or "d.<type>" if that operator has no name. */
static tn_status gradient_add(tn_gradient *it, const char *domain, const char *type,
                              const tn_tensor_id *inputs, uint32_t input_count,
                              const tn_attr *attrs, uint32_t attr_count, const bool *wanted,
                              tn_tensor_id *outputs, uint32_t output_count) {
    char name[160];
    const char *own = it->op.name[0] != '\0' ? it->op.name : it->op.type;
    snprintf(name, sizeof name, "d.%.150s", own);
    for (uint32_t k = 0; k < output_count; k++) {
        tn_tensor_spec spec = {.name = name, .kind = TN_KIND_GRADIENT, .rank = TN_RANK_UNKNOWN};
        outputs[k] = TN_NONE;
        if (wanted == NULL || wanted[k])
            TN_TRY(tn_graph_add_tensor(it->graph, &spec, &outputs[k], it->error));
    }
    tn_op_spec spec = {.name = name,
                       .type = type,
                       .domain = domain,
                       .inputs = inputs,
                       .input_count = input_count,
                       .outputs = outputs,
                       .output_count = output_count,
                       .attrs = attrs,
                       .attr_count = attr_count};
    return tn_graph_add_op(it->graph, &spec, NULL, it->error);
}

tn_status tn__gradient_op(tn_gradient *it, const char *type, const tn_tensor_id *inputs,
                          uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                          tn_tensor_id *output) {
    return gradient_add(it, "", type, inputs, input_count, attrs, attr_count, NULL, output, 1);
}

tn_status tn__gradient_own(tn_gradient *it, const char *type, const tn_tensor_id *inputs,
                           uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                           tn_tensor_id *output) {
    return gradient_add(it, "tenure", type, inputs, input_count, attrs, attr_count, NULL, output,
                        1);
}

tn_status tn__gradient_many(tn_gradient *it, const char *type, const tn_tensor_id *inputs,
                            uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                            tn_tensor_id *outputs, uint32_t output_count) {
    return gradient_add(it, "tenure", type, inputs, input_count, attrs, attr_count, NULL, outputs,
                        output_count);
}

tn_status tn__gradient_some(tn_gradient *it, const char *type, const tn_tensor_id *inputs,
                            uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                            const bool *wanted, tn_tensor_id *outputs, uint32_t output_count) {
    return gradient_add(it, "tenure", type, inputs, input_count, attrs, attr_count, wanted, outputs,
                        output_count);
}

tn_status tn__gradient_list(tn_gradient *it, const int64_t *values, uint32_t count,
                            tn_tensor_id *id) {
    return tn__graph_add_list(it->graph, values, count, id, it->error);
}

tn_status tn__gradient_integer(tn_gradient *it, int64_t value, tn_tensor_id *id) {
    return tn__graph_add_integer(it->graph, value, id, it->error);
}

tn_status tn__gradient_number(tn_gradient *it, tn_dtype dtype, double value, tn_tensor_id *id) {
    return tn__graph_add_number(it->graph, dtype, value, id, it->error);
}

tn_status tn__gradient_reshaped(tn_gradient *it, uint32_t input, tn_tensor_id gradient) {
    tn_tensor to = tn__gradient_input(it, input);
    static const int64_t literal = 1; /* a 0 in the shape stands for an extent of 0 */
    tn_tensor_id shape;
    TN_TRY(tn__gradient_list(it, to.shape, to.rank, &shape));
    return tn__gradient_op(it, "Reshape", TN__LIST(gradient, shape),
                           &TN__ATTR_INT("allowzero", &literal), 1, &it->found[input]);
}

tn_status tn__gradient_unbroadcast(tn_gradient *it, uint32_t output, uint32_t input,
                                   tn_tensor_id gradient) {
    tn_tensor from = tn__gradient_output(it, output), to = tn__gradient_input(it, input);
    int64_t axes[TN_RANK_MAX], drop = from.rank == to.rank;
    uint32_t count = 0;
    /* before opset 7 the operand was aligned at the attribute `axis` */
    if (tn__attr(&it->op, "broadcast") &&
        tn__attr_int(&it->op, "axis", (int64_t)from.rank - to.rank) + to.rank != from.rank)
        return tn__gradient_fail(it, "no gradient for the broadcasting of old operator sets");
    for (uint32_t d = 0; d < from.rank; d++) {
        bool repeated = d + to.rank < from.rank ||
                        (to.shape[d + to.rank - from.rank] == 1 && from.shape[d] != 1);
        if (repeated) axes[count++] = d;
    }
    it->found[input] = gradient;
    if (count == 0) return TN_OK;
    tn_tensor_id list, sum;
    TN_TRY(tn__gradient_list(it, axes, count, &list));
    TN_TRY(tn__gradient_op(it, "ReduceSum", TN__LIST(gradient, list),
                           &TN__ATTR_INT("keepdims", &drop), 1, &sum));
    it->found[input] = sum;
    return drop || count + to.rank == from.rank ? TN_OK : tn__gradient_reshaped(it, input, sum);
}

tn_status tn__gradient_sum(tn_gradient *it, tn_tensor_id a, tn_tensor_id b, tn_tensor_id *sum) {
    if (a == TN_NONE || b == TN_NONE) {
        *sum = a == TN_NONE ? b : a;
        return TN_OK;
    }
    return tn__gradient_op(it, "Add", TN__LIST(a, b), NULL, 0, sum);
}

tn_status tn__gradient_fail(tn_gradient *it, const char *format, ...) {
    char message[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    tn_status status = tn__fail(it->error, TN_E_UNSUPPORTED, "%s", message);
    return tn__op_where(it->graph, it->id, it->error, status);
}
