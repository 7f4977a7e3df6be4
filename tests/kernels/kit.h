/* kit.h - one operator, run by hand: a graph of that operator alone, its kernel found, prepared and
 * called with operands in blocks of exactly their size, so that ASan sees a byte too far.
 */
#ifndef TENURE_TESTS_ENGINE_KIT_H
#define TENURE_TESTS_ENGINE_KIT_H

#include "support.h"

#include "engine/kernels/kernel.h"

#define KIT_INPUTS 16u
#define KIT_OUTPUTS 4u

typedef struct kit_array {
    tn_dtype dtype;
    uint32_t rank;
    int64_t shape[TN_RANK_MAX];
    void *data;    /* malloc; of an input the caller's */
    bool constant; /* inference may look at it (int64 alone) */
} kit_array;

typedef struct kit_op {
    const char *type;
    uint32_t version;
    const tn_attr *attrs;
    uint32_t attr_count;
    const kit_array *const *inputs; /* NULL: omitted */
    uint32_t input_count, output_count;
    tn_dtype stated; /* of output 0, where the rule does not know; UNDEFINED: it knows */
    int over;        /* the input that output 0 overwrites; -1: none */
} kit_op;

static inline uint64_t kit_count(const kit_array *array) {
    uint64_t count = 1;
    for (uint32_t d = 0; d < array->rank; d++) count *= (uint64_t)array->shape[d];
    return count;
}

static inline size_t kit_bytes(const kit_array *array) {
    return (size_t)kit_count(array) * tn_dtype_bits(array->dtype) / 8;
}

static inline void *kit_copy(const void *bytes, size_t size) {
    void *copy = malloc(size > 0 ? size : 1);
    assert_non_null(copy);
    if (size > 0 && bytes != NULL) memcpy(copy, bytes, size);
    return copy;
}

static inline void kit_ok(tn_status status, const tn_error *error) {
    if (status != TN_OK) fail_msg("%s: %s", error->where, error->message);
}

static inline tn_tensor_id kit_add_input(tn_graph *graph, const kit_array *array) {
    tn_error error;
    tn_tensor_id id;
    tn_tensor_spec spec = {.name = "input",
                           .dtype = array->dtype,
                           .kind = array->constant ? TN_KIND_CONSTANT : TN_KIND_INPUT,
                           .rank = array->rank,
                           .shape = array->shape};
    if (array->constant)
        spec.value = (tn_value){.count = (uint32_t)kit_count(array), .ints = array->data};
    kit_ok(tn_graph_add_tensor(graph, &spec, &id, &error), &error);
    return id;
}

static inline tn_graph *kit_graph(const kit_op *op) {
    tn_error error;
    tn_graph *graph;
    tn_tensor_id inputs[KIT_INPUTS], outputs[KIT_OUTPUTS];
    kit_ok(tn_graph_create(NULL, &graph, &error), &error);
    for (uint32_t i = 0; i < op->input_count; i++)
        inputs[i] = op->inputs[i] != NULL ? kit_add_input(graph, op->inputs[i]) : TN_NONE;
    for (uint32_t i = 0; i < op->output_count; i++) {
        tn_tensor_spec spec = {.name = "output", .kind = TN_KIND_OUTPUT};
        kit_ok(tn_graph_add_tensor(graph, &spec, &outputs[i], &error), &error);
    }
    tn_op_spec spec = {.name = "it",
                       .type = op->type,
                       .version = op->version,
                       .inputs = inputs,
                       .input_count = op->input_count,
                       .outputs = outputs,
                       .output_count = op->output_count,
                       .attrs = op->attrs,
                       .attr_count = op->attr_count};
    kit_ok(tn_graph_add_op(graph, &spec, NULL, &error), &error);
    kit_ok(tn_graph_infer(graph, &error), &error);
    return graph;
}

static inline tn_operand kit_operand(kit_array *array) {
    return (tn_operand){.data = array->data,
                        .room = kit_bytes(array),
                        .dtype = array->dtype,
                        .rank = array->rank,
                        .shape = array->shape};
}

/* Runs the operator; outputs[k].data is malloc'd and the caller's. What the kernel says. */
static inline tn_status kit_run(const kit_op *op, kit_array *outputs, tn_error *error) {
    tn_graph *graph = kit_graph(op);
    const tn_op *at = tn_graph_op(graph, 0);
    uint64_t packed[KIT_INPUTS] = {0};
    tn_kernel_setup setup = {.graph = graph,
                             .op = at,
                             .version = at->version ? at->version : UINT32_MAX,
                             .context = tn_graph_context(graph),
                             .threads = 1,
                             .error = error,
                             .packed = packed};
    const tn_kernel *kernel = tn__kernel_find(&setup, false, NULL);
    if (kernel == NULL) fail_msg("no kernel for %s", op->type);
    kit_ok(tn__kernel_prepare(kernel, &setup), error);
    kit_array copies[KIT_INPUTS];
    tn_operand from[KIT_INPUTS], to[KIT_OUTPUTS];
    for (uint32_t i = 0; i < op->input_count; i++) {
        from[i] = (tn_operand){.omitted = true};
        if (op->inputs[i] == NULL) continue;
        copies[i] = *op->inputs[i];
        copies[i].data = kit_copy(copies[i].data, kit_bytes(&copies[i]));
        from[i] = kit_operand(&copies[i]);
    }
    for (uint32_t i = 0; i < op->output_count; i++) {
        const tn_tensor *tensor = tn_graph_tensor(graph, at->outputs[i]);
        outputs[i] = (kit_array){.dtype = tensor->dtype, .rank = tensor->rank};
        if (tensor->rank > 0)
            memcpy(outputs[i].shape, tensor->shape, tensor->rank * sizeof *tensor->shape);
        outputs[i].data = kit_copy(NULL, kit_bytes(&outputs[i]));
        if (kit_bytes(&outputs[i]) > 0) memset(outputs[i].data, 0xa5, kit_bytes(&outputs[i]));
        to[i] = kit_operand(&outputs[i]);
    }
    if (op->over >= 0) {
        assert_true(tn_op_inplace(graph, 0, 0) >> op->over & 1);
        to[0].data = from[op->over].data;
    }
    void *workspace = NULL;
    size_t scratch = (size_t)(setup.workspace + 63) / 64 * 64;
    if (scratch > 0) assert_non_null(workspace = aligned_alloc(64, scratch));
    uint64_t random = 1;
    tn_kernel_call call = {.graph = graph,
                           .op = at,
                           .version = setup.version,
                           .input_count = op->input_count,
                           .output_count = op->output_count,
                           .inputs = from,
                           .outputs = to,
                           .workspace = workspace,
                           .workspace_bytes = setup.workspace,
                           .state = setup.state,
                           .random = &random,
                           .error = error};
    tn_status status = kernel->run(&call);
    if (op->over >= 0) memcpy(outputs[0].data, to[0].data, kit_bytes(&outputs[0]));
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (op->inputs[i] == NULL) continue;
        bool kept = (int)i == op->over || kit_bytes(&copies[i]) == 0 ||
                    memcmp(copies[i].data, op->inputs[i]->data, kit_bytes(&copies[i])) == 0;
        free(copies[i].data);
        if (!kept) fail_msg("%s wrote into input %u", op->type, i);
    }
    if (kernel->release != NULL) kernel->release(setup.context, setup.state);
    free(workspace);
    tn_graph_destroy(graph);
    return status;
}

#endif
