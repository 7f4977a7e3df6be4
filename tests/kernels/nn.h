/* nn.h - operators of networks with random attributes, for tests against definitions. */
#ifndef TENURE_TESTS_ENGINE_NN_H
#define TENURE_TESTS_ENGINE_NN_H

#include <stdio.h>

#include "numbers.h"

#define NN_ATTRS 12u
#define NN_LIST 24u

/* An operator under construction. Inputs are owned, and freed by nn_clear. */
typedef struct nn_op {
    const char *type;
    uint32_t version, attr_count, input_count, output_count;
    tn_attr attrs[NN_ATTRS];
    int64_t ints[NN_ATTRS][NN_LIST];
    double floats[NN_ATTRS][NN_LIST];
    const char *strings[NN_ATTRS][NN_LIST];
    kit_array arrays[KIT_INPUTS];
    const kit_array *inputs[KIT_INPUTS];
    kit_array outputs[KIT_OUTPUTS];
} nn_op;

static inline void nn_ints(nn_op *op, const char *name, uint32_t count, const int64_t *values) {
    uint32_t at = op->attr_count++;
    memcpy(op->ints[at], values, count * sizeof *values);
    op->attrs[at] =
        (tn_attr){.name = name, .type = TN_ATTR_INTS, .count = count, .ints = op->ints[at]};
}
static inline void nn_int(nn_op *op, const char *name, int64_t value) {
    nn_ints(op, name, 1, &value);
    op->attrs[op->attr_count - 1].type = TN_ATTR_INT;
}
static inline void nn_float(nn_op *op, const char *name, double value) {
    uint32_t at = op->attr_count++;
    op->floats[at][0] = value;
    op->attrs[at] =
        (tn_attr){.name = name, .type = TN_ATTR_FLOAT, .count = 1, .floats = op->floats[at]};
}
static inline void nn_strings(nn_op *op, const char *name, uint32_t count,
                              const char *const *values) {
    uint32_t at = op->attr_count++;
    memcpy(op->strings[at], values, count * sizeof *values);
    op->attrs[at] = (tn_attr){
        .name = name, .type = TN_ATTR_STRINGS, .count = count, .strings = op->strings[at]};
}
static inline void nn_string(nn_op *op, const char *name, const char *value) {
    nn_strings(op, name, 1, &value);
    op->attrs[op->attr_count - 1].type = TN_ATTR_STRING;
}

/* Input `index`, of random contents between two ends. */
static inline kit_array *nn_input(nn_op *op, tn__random *random, uint32_t index, tn_dtype dtype,
                                  uint32_t rank, const int64_t *shape, double least, double most) {
    op->arrays[index] = number_array(random, dtype, rank, shape, least, most);
    op->inputs[index] = &op->arrays[index];
    if (index >= op->input_count) op->input_count = index + 1;
    return &op->arrays[index];
}

/* What the kernel says; outputs are in op->outputs. `over`: the input that is overwritten, or -1.
 */
static inline tn_status nn_run(nn_op *op, int over, tn_error *error) {
    kit_op it = {.type = op->type,
                 .version = op->version,
                 .attrs = op->attrs,
                 .attr_count = op->attr_count,
                 .inputs = op->inputs,
                 .input_count = op->input_count,
                 .output_count = op->output_count ? op->output_count : 1,
                 .over = over};
    return kit_run(&it, op->outputs, error);
}
static inline void nn_clear(nn_op *op) {
    for (uint32_t i = 0; i < KIT_INPUTS; i++) free(op->arrays[i].data);
    for (uint32_t i = 0; i < KIT_OUTPUTS; i++) free(op->outputs[i].data);
    memset(op, 0, sizeof *op);
}
static inline void nn_run_well(nn_op *op, int over) {
    tn_error error = {0};
    kit_ok(nn_run(op, over, &error), &error);
}
/* It runs and says E_INVALID. */
static inline void nn_refuses(nn_op *op, const char *why) {
    tn_error error = {0};
    tn_status status = nn_run(op, -1, &error);
    if (status != TN_E_INVALID) fail_msg("%s: %s was accepted (%d)", op->type, why, status);
    nn_clear(op);
}

static inline int64_t nn_in(tn__random *random, int64_t low, int64_t high) { /* both inside */
    return low + (int64_t)tn__random_below(random, (uint64_t)(high - low + 1));
}
static inline bool nn_often(tn__random *random, uint32_t in) {
    return tn__random_below(random, in) != 0;
}
static inline tn_dtype nn_real(tn__random *random) {
    static const tn_dtype types[] = {TN_FLOAT32, TN_FLOAT32, TN_FLOAT64, TN_FLOAT16, TN_BFLOAT16};
    return types[tn__random_below(random, 5)];
}

/* A result that was summed up: `size` is the sum of the terms' magnitudes. Half precision is summed
 * up in float32. */
static inline void nn_near(const nn_op *op, uint32_t output, uint64_t i, double want, double size,
                           uint64_t seed) {
    const kit_array *array = &op->outputs[output];
    double got = number_get(array, i), unit = number_unit(array->dtype);
    double sum = array->dtype == TN_FLOAT64 ? 0x1p-53 : 0x1p-24;
    double apart = 2 * unit * fabs(want) + 24 * sum * size + 1e-38;
    if (array->dtype == TN_FLOAT16) apart += 0x1p-24;
    if (isnan(want) ? isnan(got) : got == want || fabs(got - want) <= apart) return;
    fail_msg("%s of %s, seed %llu: element %llu of output %u is %.9g instead of %.9g (+- %g)",
             op->type, tn_dtype_name(op->arrays[0].dtype), (unsigned long long)seed,
             (unsigned long long)i, output, got, want, apart);
}

/* Element `at` of a shape as a position, and back; -1 outside. */
static inline void nn_position(const kit_array *array, uint64_t at, int64_t *position) {
    for (uint32_t d = array->rank; d-- > 0; at /= (uint64_t)array->shape[d])
        position[d] = (int64_t)(at % (uint64_t)array->shape[d]);
}
static inline int64_t nn_place(const kit_array *array, const int64_t *position) {
    int64_t at = 0;
    for (uint32_t d = 0; d < array->rank; d++) {
        if (position[d] < 0 || position[d] >= array->shape[d]) return -1;
        at = at * array->shape[d] + position[d];
    }
    return at;
}

#endif
