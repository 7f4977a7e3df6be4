/* kit.h - graphs for tests in one line per tensor and operator. Failing to build is a failed test.
 */
#ifndef TN_TESTS_GRAPH_KIT_H
#define TN_TESTS_GRAPH_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <tenure/graph.h>

#include "base/base.h"

typedef struct test_kit {
    tn_graph *graph;
    tn_error error;
    tn_block_id block; /* where new tensors and operators go */
    uint32_t version;  /* of new operators */
    tn_attr attrs[8];  /* of the next operator */
    int64_t ints[8];
    double floats[8];
    const char *strings[8];
    uint32_t attr_count;
} test_kit;

#define KIT_SHAPE(...)                                                                             \
    (sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[]) { __VA_ARGS__ }
#define KIT_LIST(...)                                                                              \
    (sizeof((tn_tensor_id[]){__VA_ARGS__}) / sizeof(tn_tensor_id)), (tn_tensor_id[]) { __VA_ARGS__ }

static inline void kit_check(test_kit *kit, tn_status status) {
    if (status != TN_OK)
        fail_msg("%s: %s: %s", tn_status_name(status), kit->error.where, kit->error.message);
}

static inline test_kit kit_open(void) {
    test_kit made = {.version = 18};
    kit_check(&made, tn_graph_create(NULL, &made.graph, &made.error));
    return made;
}

static inline void kit_close(test_kit *kit) { tn_graph_destroy(kit->graph); }

static inline tn_tensor_id kit_tensor(test_kit *kit, const char *name, tn_kind kind, tn_dtype dtype,
                                      size_t rank, const int64_t *shape) {
    tn_tensor_id id = TN_NONE;
    tn_tensor_spec spec = {.name = name,
                           .kind = kind,
                           .dtype = dtype,
                           .rank = (uint32_t)rank,
                           .shape = shape,
                           .block = kit->block};
    kit_check(kit, tn_graph_add_tensor(kit->graph, &spec, &id, &kit->error));
    return id;
}

static inline tn_tensor_id kit_input(test_kit *kit, const char *name, tn_dtype dtype, size_t rank,
                                     const int64_t *shape) {
    return kit_tensor(kit, name, TN_KIND_INPUT, dtype, rank, shape);
}

/* A computed tensor of which nothing is stated. */
static inline tn_tensor_id kit_open_tensor(test_kit *kit, const char *name) {
    return kit_tensor(kit, name, TN_KIND_ACTIVATION, TN_UNDEFINED, 0, NULL);
}

static inline tn_tensor_id kit_constant(test_kit *kit, tn_dtype dtype, size_t rank,
                                        const int64_t *shape, const int64_t *ints,
                                        const double *floats) {
    tn_tensor_id id = TN_NONE;
    uint32_t count = 1;
    for (size_t i = 0; i < rank; i++) count *= (uint32_t)shape[i];
    tn_tensor_spec spec = {.name = "constant",
                           .kind = TN_KIND_PARAMETER,
                           .dtype = dtype,
                           .rank = (uint32_t)rank,
                           .shape = shape,
                           .block = kit->block,
                           .value = {count, ints, floats}};
    kit_check(kit, tn_graph_add_tensor(kit->graph, &spec, &id, &kit->error));
    return id;
}

/* A list of int64, as shapes and axes are. */
static inline tn_tensor_id kit_list(test_kit *kit, size_t count, const int64_t *ints) {
    int64_t extent = (int64_t)count;
    return kit_constant(kit, TN_INT64, 1, &extent, ints, NULL);
}

static inline tn_tensor_id kit_scalar(test_kit *kit, int64_t value) {
    return kit_constant(kit, TN_INT64, 0, NULL, &value, NULL);
}

static inline void kit_attr_int(test_kit *kit, const char *name, int64_t value) {
    uint32_t at = kit->attr_count++;
    kit->ints[at] = value;
    kit->attrs[at] =
        (tn_attr){.name = name, .type = TN_ATTR_INT, .count = 1, .ints = &kit->ints[at]};
}

/* The list must live until the operator is added. */
static inline void kit_attr_ints(test_kit *kit, const char *name, size_t count,
                                 const int64_t *list) {
    kit->attrs[kit->attr_count++] =
        (tn_attr){.name = name, .type = TN_ATTR_INTS, .count = (uint32_t)count, .ints = list};
}

static inline void kit_attr_float(test_kit *kit, const char *name, double value) {
    uint32_t at = kit->attr_count++;
    kit->floats[at] = value;
    kit->attrs[at] =
        (tn_attr){.name = name, .type = TN_ATTR_FLOAT, .count = 1, .floats = &kit->floats[at]};
}

static inline void kit_attr_string(test_kit *kit, const char *name, const char *value) {
    uint32_t at = kit->attr_count++;
    kit->strings[at] = value;
    kit->attrs[at] =
        (tn_attr){.name = name, .type = TN_ATTR_STRING, .count = 1, .strings = &kit->strings[at]};
}

static inline void kit_attr_block(test_kit *kit, const char *name, tn_block_id block) {
    kit->attrs[kit->attr_count++] =
        (tn_attr){.name = name, .type = TN_ATTR_BLOCK, .count = 1, .block = block};
}

/* Adds an operator with the attributes noted before; the outputs exist. */
static inline tn_op_id kit_op_to(test_kit *kit, const char *type, size_t input_count,
                                 const tn_tensor_id *inputs, size_t output_count,
                                 const tn_tensor_id *outputs) {
    tn_op_id id = TN_NONE;
    tn_op_spec spec = {.name = type,
                       .type = type,
                       .version = kit->version,
                       .block = kit->block,
                       .inputs = inputs,
                       .outputs = outputs,
                       .attrs = kit->attrs,
                       .input_count = (uint32_t)input_count,
                       .output_count = (uint32_t)output_count,
                       .attr_count = kit->attr_count};
    kit_check(kit, tn_graph_add_op(kit->graph, &spec, &id, &kit->error));
    kit->attr_count = 0;
    return id;
}

/* The same with one new output, which is returned. */
static inline tn_tensor_id kit_op(test_kit *kit, const char *type, size_t input_count,
                                  const tn_tensor_id *inputs) {
    tn_tensor_id output = kit_open_tensor(kit, type);
    kit_op_to(kit, type, input_count, inputs, 1, &output);
    return output;
}

static inline tn_block_id kit_block(test_kit *kit, const char *name) {
    tn_block_id id = 0;
    kit_check(kit, tn_graph_add_block(kit->graph, name, &id, &kit->error));
    return id;
}

static inline void kit_block_io(test_kit *kit, tn_block_id block, size_t input_count,
                                const tn_tensor_id *inputs, size_t output_count,
                                const tn_tensor_id *outputs) {
    kit_check(kit, tn_graph_set_block_io(kit->graph, block, inputs, (uint32_t)input_count, outputs,
                                         (uint32_t)output_count, &kit->error));
}

static inline void kit_infer(test_kit *kit) {
    kit_check(kit, tn_graph_infer(kit->graph, &kit->error));
}

/* Inference must fail with this status; the message and place are in kit->error. */
static inline void kit_infer_fails(test_kit *kit, tn_status status) {
    tn_status got = tn_graph_infer(kit->graph, &kit->error);
    if (got != status)
        fail_msg("%s instead of %s: %s", tn_status_name(got), tn_status_name(status),
                 got == TN_OK ? "" : kit->error.message);
    assert_true(kit->error.message[0] != 0);
}

static inline const tn_tensor *kit_at(const test_kit *kit, tn_tensor_id id) {
    return tn_graph_tensor(kit->graph, id);
}

static inline void kit_assert_shape(const test_kit *kit, tn_tensor_id id, size_t rank,
                                    const int64_t *shape) {
    const tn_tensor *tensor = kit_at(kit, id);
    assert_int_equal(tensor->rank, rank);
    for (size_t i = 0; i < rank; i++)
        if (tensor->shape[i] != shape[i])
            fail_msg("'%s': extent %zu is %lld, not %lld", tensor->name, i,
                     (long long)tensor->shape[i], (long long)shape[i]);
}

static inline void kit_assert_ints(const test_kit *kit, tn_tensor_id id, size_t count,
                                   const int64_t *ints) {
    const tn_value *value = kit_at(kit, id)->value;
    if (!value || !value->ints) {
        fail_msg("'%s': contents are not known", kit_at(kit, id)->name);
        return;
    }
    assert_int_equal(value->count, count);
    for (size_t i = 0; i < count; i++)
        if (value->ints[i] != ints[i])
            fail_msg("'%s': element %zu is %lld, not %lld", kit_at(kit, id)->name, i,
                     (long long)value->ints[i], (long long)ints[i]);
}

#endif
