/* linear.c - linear attention and its gradient. ONNX and ONNX Runtime have the operator under the
 * same name.
 *
 * Each key head has a state S of D rows and Dv columns. One token, with key k, value v, query q,
 * decay g and beta b, computes
 *
 *     S' = exp(g) S                 g is one number, or one for each row
 *     u  = v, or b (v - S'^T k)     the second form is the delta rule
 *     S" = S' + k u^T
 *     y  = scale S"^T q             for each query head that reads the state
 *
 * Forward, the state is computed in the output, which may have the address of the past state. The
 * gradient goes through the tokens backwards and needs S' of each. The sequence is divided into
 * sqrt(length) runs: the states before the runs are kept, and those within a run are computed again
 * when the run's turn comes. So scratch memory is 2 sqrt(length) states, of one head at a time,
 * instead of `length` states of all heads.
 * Source: the ONNX specifications, opset 27; S. Yang et al., Gated Delta Networks, 2024; for the
 * runs: T. Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016.
 */
#include <math.h>

#include "engine/kernels/convert.h"
#include "engine/kernels/operands.h"

typedef struct linear_frame {
    uint64_t batch, length, heads, groups, size, value_size;
    uint64_t most;    /* number of heads of the result: the larger of `heads` and `groups` */
    uint64_t readers; /* number of heads of the result for each key head */
    uint64_t shared;  /* number of heads of the result for each query head */
    double scale;
    /* operands q, k, v, past state, decay, beta, and their gradients; NULL: omitted */
    void *in[6], *out[6];
    uint64_t row[6], step[6]; /* elements of an operand per token, and from one head to the next */
    void *y;                  /* the result; NULL: not wanted */
    const void *dy;           /* gradient of the result; NULL: nothing reads the result */
    void *work;               /* scratch memory: two rows of values, then states */
    uint64_t runs, run_length;
} linear_frame;

#define LINEAR(name) linear_float_##name
#define LINEAR_TYPE float
#define LINEAR_EXP expf
#include "engine/kernels/families/sequences/linear_loops.h"

#define LINEAR(name) linear_double_##name
#define LINEAR_TYPE double
#define LINEAR_EXP exp
#include "engine/kernels/families/sequences/linear_loops.h"

/* --- operands --- */

static tn_status linear_read_sizes(const tn_kernel_call *call, linear_frame *it) {
    const tn_operand *q = &call->inputs[0], *k = &call->inputs[1], *v = &call->inputs[2];
    int64_t heads = tn__attr_int(call->op, "q_num_heads", 0),
            groups = tn__attr_int(call->op, "kv_num_heads", 0);
    if (heads < 1 || groups < 1 || (heads % groups != 0 && groups % heads != 0))
        return tn__call_fail(call, TN_E_INVALID, "%lld query heads for %lld key heads",
                             (long long)heads, (long long)groups);
    if (q->rank != 3 || q->shape[2] % heads != 0) return tn__call_bad_shape(call, 0);
    if (k->rank != 3 || k->shape[0] != q->shape[0] || k->shape[1] != q->shape[1] ||
        k->shape[2] % groups != 0 || k->shape[2] / groups != q->shape[2] / heads)
        return tn__call_bad_shape(call, 1);
    if (v->rank != 3 || v->shape[0] != q->shape[0] || v->shape[1] != q->shape[1] ||
        v->shape[2] % groups != 0)
        return tn__call_bad_shape(call, 2);
    *it = (linear_frame){.batch = (uint64_t)q->shape[0],
                         .length = (uint64_t)q->shape[1],
                         .heads = (uint64_t)heads,
                         .groups = (uint64_t)groups,
                         .size = (uint64_t)(q->shape[2] / heads),
                         .value_size = (uint64_t)(v->shape[2] / groups),
                         .most = (uint64_t)(heads > groups ? heads : groups)};
    it->readers = it->most / it->groups;
    it->shared = it->most / it->heads;
    double scale = tn__attr_float(call->op, "scale", 0);
    it->scale = scale != 0 ? scale : 1 / sqrt((double)(it->size > 0 ? it->size : 1));
    return TN_OK;
}

/* Finds how many decays or betas a token has: one of two numbers. */
static tn_status linear_read_factor(const tn_kernel_call *call, linear_frame *it, uint32_t input,
                                    bool used, uint64_t many, uint64_t few) {
    const tn_operand *operand = tn__call_input(call, input);
    const uint64_t tokens = it->batch * it->length;
    if ((operand != NULL) != used) return tn__call_bad_shape(call, input);
    if (operand == NULL || tokens == 0) return TN_OK;
    const uint64_t count = tn__operand_count(operand) / tokens;
    if (count != many && count != few) return tn__call_bad_shape(call, input);
    TN_TRY(tn__check_count(call, input, tokens * count));
    it->row[input] = count;
    it->step[input] = count % it->groups == 0 ? count / it->groups : 0;
    return TN_OK;
}

static tn_status linear_read(const tn_kernel_call *call, linear_frame *it) {
    const char *rule = tn__attr_string(call->op, "update_rule", "gated_delta");
    bool gated = strncmp(rule, "gated", 5) == 0, delta = strstr(rule, "delta") != NULL;
    TN_TRY(linear_read_sizes(call, it));
    const int64_t state[4] = {(int64_t)it->batch, (int64_t)it->groups, (int64_t)it->size,
                              (int64_t)it->value_size};
    TN_TRY(tn__check_shape(call, 3, 4, state));
    TN_TRY(linear_read_factor(call, it, 4, gated, it->groups * it->size, it->groups));
    TN_TRY(linear_read_factor(call, it, 5, delta, it->groups, 1));
    it->row[0] = it->heads * it->size;
    it->row[1] = it->groups * it->size;
    it->row[2] = it->groups * it->value_size;
    it->step[0] = it->step[1] = it->size;
    it->step[2] = it->value_size;
    for (uint32_t k = 0; k < 6; k++) {
        const tn_operand *operand = tn__call_input(call, k);
        it->in[k] = operand != NULL ? operand->data : NULL;
    }
    return TN_OK;
}

static void linear_shapes(const linear_frame *it, int64_t y[3], int64_t state[4]) {
    y[0] = state[0] = (int64_t)it->batch;
    y[1] = (int64_t)it->length;
    y[2] = (int64_t)(it->most * it->value_size);
    state[1] = (int64_t)it->groups;
    state[2] = (int64_t)it->size;
    state[3] = (int64_t)it->value_size;
}

/* Copies a state of `bytes` bytes; `from` NULL: zeros. */
static void linear_begin(void *to, const void *from, uint64_t bytes) {
    if (from == NULL)
        memset(to, 0, bytes);
    else if (from != to)
        memcpy(to, from, bytes);
}

static void *linear_offset(void *data, uint64_t bytes) {
    return data != NULL ? (char *)data + bytes : NULL;
}

/* --- LinearAttention --- */

static tn_status linear_run(tn_kernel_call *call) {
    const tn_operand *present = tn__call_output(call, 1);
    const bool wide = call->inputs[0].dtype == TN_FLOAT64;
    const uint64_t width = tn__element_size(call->inputs[0].dtype);
    linear_frame it;
    int64_t y[3], shape[4];
    TN_TRY(linear_read(call, &it));
    linear_shapes(&it, y, shape);
    TN_TRY(tn__check_result(call, 0, 3, y));
    TN_TRY(tn__check_result(call, 1, 4, shape));
    const uint64_t each = it.size * it.value_size * width, row = it.value_size * width;
    TN_TRY(tn__check_scratch(call, row + (present == NULL ? each : 0)));
    it.work = call->workspace;
    it.y = call->outputs[0].data;
    for (uint64_t b = 0; b < it.batch; b++)
        for (uint64_t h = 0; h < it.groups; h++) {
            uint64_t at = (b * it.groups + h) * each;
            void *state =
                present != NULL ? linear_offset(present->data, at) : linear_offset(it.work, row);
            linear_begin(state, linear_offset(it.in[3], at), each);
            (wide ? linear_double_sequence : linear_float_sequence)(&it, b * it.length, h, state);
        }
    return TN_OK;
}

static bool linear_accepts(const tn_kernel_setup *setup) {
    static const char *const rules[] = {"linear", "gated", "delta", "gated_delta"};
    const char *rule = tn__attr_string(setup->op, "update_rule", "gated_delta");
    bool known = false;
    for (uint32_t i = 0; i < 4; i++) known = known || strcmp(rule, rules[i]) == 0;
    return known && tn__types_agree(setup, TN__TYPES_SUMMED, 63, 2) &&
           tn__attr_int(setup->op, "state_window", 0) == 0;
}

/* Sets the bytes of a state and of a row of values; 0 if they are unknown. */
static void linear_bytes(const tn_kernel_setup *setup, uint64_t *each, uint64_t *row) {
    const tn_tensor *k = tn__setup_input(setup, 1), *v = tn__setup_input(setup, 2);
    int64_t groups = tn__attr_int(setup->op, "kv_num_heads", 0);
    *each = *row = 0;
    if (k == NULL || v == NULL || k->rank != 3 || v->rank != 3 || groups < 1) return;
    *row = tn__mul_sat((uint64_t)(v->shape[2] / groups), tn__element_size(k->dtype));
    *each = tn__mul_sat((uint64_t)(k->shape[2] / groups), *row);
}

static uint64_t linear_workspace(const tn_kernel_setup *setup) {
    uint64_t each, row;
    linear_bytes(setup, &each, &row);
    return tn__add_sat(row, tn__setup_output(setup, 1) == NULL ? each : 0);
}

/* --- LinearAttentionGrad --- */

/* Divides a sequence into runs of about sqrt(length) tokens. */
static void linear_divide(uint64_t length, uint64_t *runs, uint64_t *run_length) {
    *run_length = 1;
    while (*run_length < length / *run_length + (length % *run_length != 0)) ++*run_length;
    *runs = length / *run_length + (length % *run_length != 0);
    if (*runs == 0) *runs = 1;
}

static uint64_t linear_back_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *q = tn__setup_input(setup, 0);
    uint64_t each, row, runs, length;
    linear_bytes(setup, &each, &row);
    if (q == NULL || q->rank != 3 || q->shape[1] < 0) return 0;
    linear_divide((uint64_t)q->shape[1], &runs, &length);
    return tn__add_sat(tn__mul_sat(2, row), tn__mul_sat(runs + length + 1, each));
}

static tn_status linear_back_run(tn_kernel_call *call) {
    const tn_operand *dy = tn__call_input(call, 6), *last = tn__call_input(call, 7);
    const bool wide = call->inputs[0].dtype == TN_FLOAT64;
    const uint64_t width = tn__element_size(call->inputs[0].dtype);
    linear_frame it;
    int64_t y[3], shape[4];
    TN_TRY(linear_read(call, &it));
    linear_shapes(&it, y, shape);
    TN_TRY(tn__check_shape(call, 6, 3, y));
    TN_TRY(tn__check_shape(call, 7, 4, shape));
    for (uint32_t k = 0; k < 6; k++) {
        const tn_operand *operand = tn__call_input(call, k), *found = tn__call_output(call, k);
        if (found == NULL) continue;
        if (operand == NULL) return tn__call_bad_shape(call, k);
        TN_TRY(tn__check_result(call, k, operand->rank, operand->shape));
        it.out[k] = found->data;
        memset(found->data, 0, tn__operand_bytes(found));
    }
    const uint64_t each = it.size * it.value_size * width, row = it.value_size * width;
    linear_divide(it.length, &it.runs, &it.run_length);
    TN_TRY(tn__check_scratch(call, 2 * row + (it.runs + it.run_length + 1) * each));
    it.work = call->workspace;
    it.dy = dy != NULL ? dy->data : NULL;
    void *ds = linear_offset(it.work, 2 * row + (it.runs + it.run_length) * each);
    for (uint64_t b = 0; b < it.batch; b++)
        for (uint64_t h = 0; h < it.groups; h++) {
            uint64_t at = (b * it.groups + h) * each;
            const void *past = linear_offset(it.in[3], at);
            linear_begin(ds, last != NULL ? linear_offset(last->data, at) : NULL, each);
            if (wide)
                linear_double_sequence_back(&it, b * it.length, h, past, ds);
            else
                linear_float_sequence_back(&it, b * it.length, h, past, ds);
            if (it.out[3] != NULL) memcpy(linear_offset(it.out[3], at), ds, each);
        }
    return TN_OK;
}

static bool linear_back_accepts(const tn_kernel_setup *setup) {
    for (uint32_t k = 0; k < 6; k++)
        if (!tn__output_may_be(setup, k, TN__TYPE(FLOAT32) | TN__TYPE(FLOAT64))) return false;
    const tn_dtype dtype = tn__input_type(setup, 0);
    for (uint32_t k = 0; k < 8; k++)
        if (!tn__input_may_be(setup, k, UINT64_C(1) << dtype)) return false;
    return dtype == TN_FLOAT32 || dtype == TN_FLOAT64;
}

static const tn_kernel linear_kernels[] = {
    {.type = "LinearAttention",
     .accepts = linear_accepts,
     .workspace = linear_workspace,
     .run = linear_run},
    {.domain = "com.microsoft",
     .type = "LinearAttention",
     .accepts = linear_accepts,
     .workspace = linear_workspace,
     .run = linear_run},
    {.domain = "tenure",
     .type = "LinearAttentionGrad",
     .accepts = linear_back_accepts,
     .workspace = linear_back_workspace,
     .run = linear_back_run},
};

TN_KERNEL_FAMILY(linear, "");
