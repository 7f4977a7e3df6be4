/* decompose.c - the functions that decompositions of operators are written with (decompose.h).
 *
 * New tensors and operators are named after the operator that they replace, because readers of
 * plans look for this name.
 */
#include "graph/gradients/decompose.h"

#include <stdio.h>

#include "graph/store.h"

/* --- reading --- */

const tn_tensor *tn__decompose_input(const tn_decompose *it, uint32_t input) {
    bool omitted = input >= it->was->input_count || it->was->inputs[input] == TN_NONE;
    return omitted ? NULL : tn_graph_tensor(it->model, it->was->inputs[input]);
}

tn_tensor_id tn__decompose_in(const tn_decompose *it, uint32_t input) {
    return input < it->op->input_count ? it->op->inputs[input] : TN_NONE;
}

tn_tensor_id tn__decompose_out(const tn_decompose *it, uint32_t output) {
    return output < it->op->output_count ? it->op->outputs[output] : TN_NONE;
}

/* --- operators --- */

tn_status tn__decompose_add(tn_decompose *it, const char *type, const tn_tensor_id *inputs,
                            uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                            tn_tensor_id *outputs, uint32_t output_count) {
    for (uint32_t k = 0; k < output_count; k++) {
        tn_tensor_spec spec = {
            .name = it->op->name, .kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN};
        if (outputs[k] == TN_NONE)
            TN_TRY(tn_graph_add_tensor(it->graph, &spec, &outputs[k], it->error));
    }
    tn_op_spec spec = {.name = it->op->name,
                       .type = type,
                       .inputs = inputs,
                       .input_count = input_count,
                       .outputs = outputs,
                       .output_count = output_count,
                       .attrs = attrs,
                       .attr_count = attr_count};
    return tn_graph_add_op(it->graph, &spec, NULL, it->error);
}

tn_status tn__decompose_one(tn_decompose *it, const char *type, tn_tensor_id a,
                            const tn_attr *attrs, uint32_t attr_count, tn_tensor_id *y) {
    *y = TN_NONE;
    return tn__decompose_add(it, type, &a, 1, attrs, attr_count, y, 1);
}

tn_status tn__decompose_two(tn_decompose *it, const char *type, tn_tensor_id a, tn_tensor_id b,
                            tn_tensor_id *y) {
    *y = TN_NONE;
    return tn__decompose_add(it, type, TN__LIST(a, b), NULL, 0, y, 1);
}

tn_status tn__decompose_give(tn_decompose *it, uint32_t output, tn_tensor_id from) {
    tn_tensor_id y = tn__decompose_out(it, output);
    return y == TN_NONE ? TN_OK : tn__decompose_add(it, "Identity", &from, 1, NULL, 0, &y, 1);
}

/* --- constants --- */

tn_status tn__decompose_number(tn_decompose *it, double number, tn_tensor_id *id) {
    return tn__graph_add_number(it->graph, it->dtype, number, id, it->error);
}

tn_status tn__decompose_integer(tn_decompose *it, int64_t number, tn_tensor_id *id) {
    return tn__graph_add_integer(it->graph, number, id, it->error);
}

tn_status tn__decompose_list(tn_decompose *it, const int64_t *list, uint32_t count,
                             tn_tensor_id *id) {
    return tn__graph_add_list(it->graph, list, count, id, it->error);
}

/* --- views --- */

tn_status tn__decompose_reshape(tn_decompose *it, tn_tensor_id from, const int64_t *shape,
                                uint32_t rank, tn_tensor_id *y) {
    /* allowzero: an extent of 0 in the shape means 0, not "copy the extent of the input" */
    static const int64_t literal = 1;
    const tn_attr attr = TN__ATTR_INT("allowzero", &literal);
    tn_tensor_id list;
    TN_TRY(tn__decompose_list(it, shape, rank, &list));
    *y = TN_NONE;
    return tn__decompose_add(it, "Reshape", TN__LIST(from, list), &attr, 1, y, 1);
}

tn_status tn__decompose_transpose(tn_decompose *it, tn_tensor_id from, const int64_t *perm,
                                  uint32_t rank, tn_tensor_id *y) {
    const tn_attr attr = TN__ATTR_INTS("perm", perm, rank);
    return tn__decompose_one(it, "Transpose", from, &attr, 1, y);
}

tn_status tn__decompose_split(tn_decompose *it, tn_tensor_id from, int64_t axis,
                              const int64_t *sizes, uint32_t parts, tn_tensor_id *y) {
    const tn_attr attr = TN__ATTR_INT("axis", &axis);
    tn_tensor_id list;
    TN_TRY(tn__decompose_list(it, sizes, parts, &list));
    for (uint32_t k = 0; k < parts; k++) y[k] = TN_NONE;
    return tn__decompose_add(it, "Split", TN__LIST(from, list), &attr, 1, y, parts);
}

tn_status tn__decompose_unsqueeze(tn_decompose *it, tn_tensor_id from, int64_t axis,
                                  tn_tensor_id *y) {
    tn_tensor_id list;
    TN_TRY(tn__decompose_list(it, &axis, 1, &list));
    return tn__decompose_two(it, "Unsqueeze", from, list, y);
}

/* --- errors --- */

tn_status tn__decompose_fail(tn_decompose *it, const char *format, ...) {
    char message[300];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    tn_status status = tn__fail(it->error, TN_E_UNSUPPORTED, "%s", message);
    return tn__op_where(it->model, it->id, it->error, status);
}
