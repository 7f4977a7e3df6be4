/* decoder.c - operators of decoders other than attention: SwiGLU, TensorScatter (which writes rows
 * into a cache), a convolution with a state, and linear attention. ONNX and ONNX Runtime have the
 * last two operators under the same names.
 *
 * Linear attention has a state [D, Dv] for each key head. Each token first decays the state; with a
 * delta rule, the value that the state already has for the key is subtracted from the token's
 * value. Then the outer product of key and value is added to the state, and the query is multiplied
 * with it. The state is computed in the output, which may have the address of the past state.
 * Source: the ONNX specifications, opsets 24 to 28; S. Yang et al., Gated Delta Networks, 2024.
 */
#include <math.h>

#include "engine/kernels/loops/approximate.h"
#include "engine/kernels/loops/box.h"
#include "engine/kernels/operands.h"

/* --- SwiGLU: silu(alpha a) b --- */

static tn_status decoder_run_swiglu(tn_kernel_call *call) {
    const tn_operand *a = &call->inputs[0];
    const float alpha = (float)tn__attr_float(call->op, "alpha", 1), *x = a->data,
                *gate = call->inputs[1].data;
    float *y = call->outputs[0].data;
    TN_TRY(tn__check_shape(call, 1, a->rank, a->shape));
    TN_TRY(tn__check_result(call, 0, a->rank, a->shape));
    uint64_t count = tn__operand_count(a);
    for (uint64_t i = 0; i < count; i++) y[i] = x[i] * tn__logisticf(alpha * x[i]) * gate[i];
    return TN_OK;
}

static bool decoder_accepts_swiglu(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 3, 0);
}

/* --- TensorScatter --- */

/* TensorScatter: copies the rows of the update for batch entry b to the rows from write_indices[b]
 * on of the cache. A circular cache continues with row 0 after its last row. If the plan has placed
 * the output at the address of the cache, only these rows are written. */
static tn_status decoder_run_scatter(tn_kernel_call *call) {
    const tn_operand *past = &call->inputs[0], *update = &call->inputs[1],
                     *indices = tn__call_input(call, 2);
    bool circular = strcmp(tn__attr_string(call->op, "mode", "linear"), "circular") == 0;
    uint32_t axis;
    TN_TRY(tn__call_axis(call, tn__attr_int(call->op, "axis", -2), past->rank, &axis));
    TN_TRY(tn__call_same_type(call, 0, 1));
    if (axis == 0 || update->rank != past->rank)
        return tn__call_fail(call, TN_E_INVALID, "the update does not fit the cache");
    for (uint32_t d = 0; d < past->rank; d++)
        if (d == axis ? update->shape[d] > past->shape[d] : update->shape[d] != past->shape[d])
            return tn__call_fail(call, TN_E_INVALID, "the update does not fit axis %u", d);
    TN_TRY(tn__check_result(call, 0, past->rank, past->shape));
    TN_TRY(tn__check_count(call, 2, (uint64_t)past->shape[0]));
    uint64_t width = tn__width(past->dtype), rows = (uint64_t)update->shape[axis],
             room = (uint64_t)past->shape[axis],
             inner = tn__operand_span(past, axis + 1, past->rank) * width,
             outer = tn__operand_span(past, 1, axis), batch = (uint64_t)past->shape[0];
    tn__operand_copy(&call->outputs[0], past);
    for (uint64_t b = 0; b < batch; b++) {
        int64_t first = indices != NULL ? tn__index(indices, b) : 0;
        if (first < 0 || (uint64_t)first > room || (!circular && (uint64_t)first + rows > room))
            return tn__call_bad_index(call, first, axis, (int64_t)room);
        for (uint64_t o = b * outer; o < (b + 1) * outer; o++)
            for (uint64_t r = 0; r < rows; r++)
                memcpy((char *)call->outputs[0].data +
                           (o * room + ((uint64_t)first + r) % room) * inner,
                       (const char *)update->data + (o * rows + r) * inner, inner);
    }
    return TN_OK;
}

static bool decoder_accepts_scatter(const tn_kernel_setup *setup) {
    return tn__accepts_bytes(setup) && tn__input_may_be(setup, 2, TN__TYPES_INDEX);
}

/* --- a causal convolution: each channel is convolved with its current and earlier columns --- */

static tn_status causal_run(tn_kernel_call *call) {
    const tn_operand *x = &call->inputs[0], *w = &call->inputs[1], *bias = tn__call_input(call, 2),
                     *past = tn__call_input(call, 3), *state = tn__call_output(call, 1);
    const char *curve = tn__attr_string(call->op, "activation", "none");
    bool silu = strcmp(curve, "silu") == 0 || strcmp(curve, "swish") == 0;
    if (x->rank != 3) return tn__call_bad_shape(call, 0);
    if (w->rank != 3 || w->shape[0] != x->shape[1] || w->shape[1] != 1 || w->shape[2] < 1)
        return tn__call_bad_shape(call, 1);
    const int64_t before = w->shape[2] - 1, length = x->shape[2];
    const int64_t shape[3] = {x->shape[0], x->shape[1], before};
    TN_TRY(tn__check_count(call, 2, (uint64_t)x->shape[1]));
    TN_TRY(tn__check_shape(call, 3, 3, shape));
    TN_TRY(tn__check_result(call, 0, 3, x->shape));
    TN_TRY(tn__check_result(call, 1, 3, shape));
    for (int64_t row = 0; row < x->shape[0] * x->shape[1]; row++) {
        int64_t c = row % x->shape[1];
        const float *from = (const float *)x->data + row * length;
        const float *taps = (const float *)w->data + c * w->shape[2];
        const float *old = past != NULL ? (const float *)past->data + row * before : NULL;
        float *to = (float *)call->outputs[0].data + row * length;
        for (int64_t t = 0; t < length; t++) {
            double sum = bias != NULL ? (double)((const float *)bias->data)[c] : 0;
            for (int64_t j = 0; j <= before; j++) {
                int64_t at = t + j - before;
                float value = at >= 0 ? from[at] : old != NULL ? old[before + at] : 0;
                sum += (double)taps[j] * (double)value;
            }
            to[t] = silu ? (float)sum * tn__logisticf((float)sum) : (float)sum;
        }
        for (int64_t j = 0; j < before && state != NULL; j++) {
            int64_t at = length - before + j;
            ((float *)state->data)[row * before + j] = at >= 0       ? from[at]
                                                       : old != NULL ? old[before + at]
                                                                     : 0;
        }
    }
    return TN_OK;
}

static bool causal_accepts(const tn_kernel_setup *setup) {
    const tn_op *op = setup->op;
    const char *curve = tn__attr_string(op, "activation", "none");
    bool known = !strcmp(curve, "none") || !strcmp(curve, "silu") || !strcmp(curve, "swish");
    return known && tn__types_agree(setup, TN__TYPE(FLOAT32), 15, 2) &&
           tn__attr_int(op, "ndim", 1) == 1 && tn__attr_int(op, "dilation", 1) == 1 &&
           tn__attr_int(op, "channels_last", 0) == 0 && tn__attr_int(op, "state_window", 0) == 0;
}

/* --- linear attention --- */

typedef struct linear_frame {
    uint64_t batch, length, heads, groups, size, value_size;
    uint64_t decays, betas; /* number of decay factors and of betas per token; 0: not used */
    float scale;
    float *read; /* scratch memory for a row of value_size floats */
} linear_frame;

static tn_status linear_read(const tn_kernel_call *call, linear_frame *it) {
    const tn_operand *q = &call->inputs[0], *k = &call->inputs[1], *v = &call->inputs[2];
    const tn_operand *decay = tn__call_input(call, 4), *beta = tn__call_input(call, 5);
    const char *rule = tn__attr_string(call->op, "update_rule", "gated_delta");
    int64_t heads = tn__attr_int(call->op, "q_num_heads", 0),
            groups = tn__attr_int(call->op, "kv_num_heads", 0);
    bool gated = strncmp(rule, "gated", 5) == 0, delta = strstr(rule, "delta") != NULL;
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
    if ((decay != NULL) != gated) return tn__call_bad_shape(call, 4);
    if ((beta != NULL) != delta) return tn__call_bad_shape(call, 5);
    *it = (linear_frame){.batch = (uint64_t)q->shape[0],
                         .length = (uint64_t)q->shape[1],
                         .heads = (uint64_t)heads,
                         .groups = (uint64_t)groups,
                         .size = (uint64_t)(q->shape[2] / heads),
                         .value_size = (uint64_t)(v->shape[2] / groups)};
    int64_t most = heads > groups ? heads : groups;
    const int64_t y[3] = {q->shape[0], q->shape[1], most * (int64_t)it->value_size};
    const int64_t state[4] = {q->shape[0], groups, (int64_t)it->size, (int64_t)it->value_size};
    TN_TRY(tn__check_result(call, 0, 3, y));
    TN_TRY(tn__check_result(call, 1, 4, state));
    TN_TRY(tn__check_shape(call, 3, 4, state));
    uint64_t tokens = it->batch * it->length;
    if (decay != NULL && tokens > 0) {
        it->decays = tn__operand_count(decay) / tokens;
        if (it->decays != it->groups && it->decays != it->groups * it->size)
            return tn__call_bad_shape(call, 4);
        TN_TRY(tn__check_count(call, 4, tokens * it->decays));
    }
    if (beta != NULL && tokens > 0) {
        it->betas = tn__operand_count(beta) / tokens;
        if (it->betas != it->groups && it->betas != 1) return tn__call_bad_shape(call, 5);
        TN_TRY(tn__check_count(call, 5, tokens * it->betas));
    }
    double scale = tn__attr_float(call->op, "scale", 0);
    it->scale = (float)(scale != 0 ? scale : 1 / sqrt((double)(it->size > 0 ? it->size : 1)));
    return TN_OK;
}

/* Multiplies the state by the exponential of the decay: one number, or one for each row. */
static void linear_decay(const linear_frame *it, const float *decay, uint64_t head, float *state) {
    bool each = it->decays == it->groups * it->size && it->size != 1;
    for (uint64_t d = 0; d < it->size; d++) {
        float factor = expf(each ? decay[head * it->size + d] : decay[head]);
        for (uint64_t e = 0; e < it->value_size; e++) state[d * it->value_size + e] *= factor;
    }
}

/* Computes state += key value^T. With `beta`, the value is replaced by beta * (value - state^T
 * key). */
static void linear_update(const linear_frame *it, const float *key, const float *value,
                          const float *beta, float *state) {
    for (uint64_t e = 0; e < it->value_size; e++) it->read[e] = 0;
    for (uint64_t d = 0; d < it->size && beta != NULL; d++)
        for (uint64_t e = 0; e < it->value_size; e++)
            it->read[e] += state[d * it->value_size + e] * key[d];
    for (uint64_t e = 0; e < it->value_size; e++)
        it->read[e] = beta != NULL ? *beta * (value[e] - it->read[e]) : value[e];
    for (uint64_t d = 0; d < it->size; d++)
        for (uint64_t e = 0; e < it->value_size; e++)
            state[d * it->value_size + e] += key[d] * it->read[e];
}

static void linear_output(const linear_frame *it, const float *query, const float *state,
                          float *y) {
    for (uint64_t e = 0; e < it->value_size; e++) y[e] = 0;
    for (uint64_t d = 0; d < it->size; d++)
        for (uint64_t e = 0; e < it->value_size; e++)
            y[e] += state[d * it->value_size + e] * query[d];
    for (uint64_t e = 0; e < it->value_size; e++) y[e] *= it->scale;
}

static void linear_token(const tn_kernel_call *call, const linear_frame *it, uint64_t token,
                         uint64_t head, float *state) {
    const tn_operand *decay = tn__call_input(call, 4), *beta = tn__call_input(call, 5);
    const float *key = (const float *)call->inputs[1].data + (token * it->groups + head) * it->size;
    const float *value =
        (const float *)call->inputs[2].data + (token * it->groups + head) * it->value_size;
    const float *rate = NULL;
    if (decay != NULL)
        linear_decay(it, (const float *)decay->data + token * it->decays, head, state);
    if (beta != NULL)
        rate = (const float *)beta->data + token * it->betas + (it->betas == 1 ? 0 : head);
    linear_update(it, key, value, rate, state);
    uint64_t most = it->heads > it->groups ? it->heads : it->groups;
    uint64_t readers = most / it->groups, shared = most / it->heads;
    for (uint64_t r = 0; r < readers; r++) {
        uint64_t out = head * readers + r;
        const float *query =
            (const float *)call->inputs[0].data + (token * it->heads + out / shared) * it->size;
        linear_output(it, query, state,
                      (float *)call->outputs[0].data + (token * most + out) * it->value_size);
    }
}

static tn_status linear_run(tn_kernel_call *call) {
    const tn_operand *past = tn__call_input(call, 3), *present = tn__call_output(call, 1);
    linear_frame it = {0};
    TN_TRY(linear_read(call, &it));
    uint64_t each = it.size * it.value_size;
    TN_TRY(tn__check_scratch(call, (it.value_size + (present == NULL ? each : 0)) * sizeof(float)));
    it.read = call->workspace;
    for (uint64_t b = 0; b < it.batch; b++)
        for (uint64_t h = 0; h < it.groups; h++) {
            uint64_t at = (b * it.groups + h) * each;
            float *state = present != NULL ? (float *)present->data + at : it.read + it.value_size;
            const float *old = past != NULL ? (const float *)past->data + at : NULL;
            if (old == NULL)
                memset(state, 0, each * sizeof *state);
            else if (old != state)
                memcpy(state, old, each * sizeof *state);
            for (uint64_t t = 0; t < it.length; t++)
                linear_token(call, &it, b * it.length + t, h, state);
        }
    return TN_OK;
}

static bool linear_accepts(const tn_kernel_setup *setup) {
    static const char *const rules[] = {"linear", "gated", "delta", "gated_delta"};
    const char *rule = tn__attr_string(setup->op, "update_rule", "gated_delta");
    bool known = false;
    for (uint32_t i = 0; i < 4; i++) known = known || strcmp(rule, rules[i]) == 0;
    return known && tn__types_agree(setup, TN__TYPE(FLOAT32), 63, 2) &&
           tn__attr_int(setup->op, "state_window", 0) == 0;
}

static uint64_t linear_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *k = tn__setup_input(setup, 1), *v = tn__setup_input(setup, 2);
    int64_t groups = tn__attr_int(setup->op, "kv_num_heads", 0);
    if (k == NULL || v == NULL || k->rank != 3 || v->rank != 3 || groups < 1) return 0;
    uint64_t size = (uint64_t)(k->shape[2] / groups), value_size = (uint64_t)(v->shape[2] / groups);
    uint64_t each = tn__setup_output(setup, 1) == NULL ? tn__mul_sat(size, value_size) : 0;
    return tn__mul_sat(4, tn__add_sat(value_size, each));
}

static const tn_kernel decoder_kernels[] = {
    {.type = "CausalConvWithState", .accepts = causal_accepts, .run = causal_run},
    {.type = "LinearAttention",
     .accepts = linear_accepts,
     .workspace = linear_workspace,
     .run = linear_run},
    {.domain = "com.microsoft",
     .type = "CausalConvWithState",
     .accepts = causal_accepts,
     .run = causal_run},
    {.domain = "com.microsoft",
     .type = "LinearAttention",
     .accepts = linear_accepts,
     .workspace = linear_workspace,
     .run = linear_run},
    {.type = "SwiGLU", .accepts = decoder_accepts_swiglu, .run = decoder_run_swiglu},
    {.type = "TensorScatter", .accepts = decoder_accepts_scatter, .run = decoder_run_scatter},
};

TN_KERNEL_FAMILY(decoder, "");
