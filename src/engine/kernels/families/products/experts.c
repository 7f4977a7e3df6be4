/* experts.c - mixtures of experts in float32: the operators MoE and QMoE of ONNX Runtime.
 *
 * A router chooses the best experts for each token. Quantised weights are expanded one by one when
 * they are read, without a copy.
 * Source: docs/ContribOperators.md of ONNX Runtime 1.30.
 */
#include <math.h>

#include "engine/kernels/convert.h"
#include "engine/kernels/loops/approximate.h"
#include "engine/kernels/operands.h"

typedef struct experts_shape {
    /* `wide`: number of rows of an expert's first weight matrix */
    uint64_t tokens, hidden, experts, inner, wide, chosen;
    int64_t bits, block; /* `bits`: number of bits of a weight; 0: weights are float32 */
    int64_t fusion;
    bool swiglu;
    uint32_t second; /* index of the input that has the second weights of the experts */
} experts_shape;

static tn_status experts_read(const tn_kernel_call *call, bool packed, experts_shape *it) {
    const tn_operand *x = &call->inputs[0], *router = &call->inputs[1], *first = &call->inputs[2];
    const char *curve = tn__attr_string(call->op, "activation_type", "relu");
    *it = (experts_shape){.second = packed ? 5 : 4,
                          .swiglu = strcmp(curve, "swiglu") == 0,
                          .fusion = tn__attr_int(call->op, "swiglu_fusion", 0)};
    const tn_operand *second = tn__call_input(call, it->second);
    int64_t chosen = tn__attr_int(call->op, "k", 1);
    if (x->rank < 2 || router->rank != 2 || x->shape[x->rank - 1] < 1)
        return tn__call_bad_shape(call, 0);
    if (second == NULL || second->rank != 3 || first->rank != 3)
        return tn__call_bad_shape(call, it->second);
    for (uint32_t i = packed ? 8 : 6; i < call->input_count; i++)
        if (tn__call_input(call, i) != NULL)
            return tn__call_fail(call, TN_E_UNSUPPORTED, "input %u is not supported", i);
    it->bits = packed ? tn__attr_int(call->op, "expert_weight_bits", 4) : 0;
    it->block = packed ? tn__attr_int(call->op, "block_size", 0) : 0;
    if (packed && it->bits != 2 && it->bits != 4 && it->bits != 8)
        return tn__call_fail(call, TN_E_INVALID, "attribute expert_weight_bits is out of range");
    if (it->block < 0 || it->block > INT32_MAX)
        return tn__call_fail(call, TN_E_INVALID, "attribute block_size is out of range");
    int64_t pack = it->bits > 0 ? 8 / it->bits : 1;
    it->hidden = (uint64_t)x->shape[x->rank - 1];
    it->tokens = tn__operand_count(x) / it->hidden;
    it->experts = (uint64_t)router->shape[1];
    it->wide = (uint64_t)first->shape[1];
    it->inner = it->swiglu && it->fusion != 0 ? it->wide / 2 : it->wide;
    it->chosen = chosen > 0 ? (uint64_t)chosen : 0;
    if (it->swiglu && it->fusion == 0)
        return tn__call_fail(call, TN_E_UNSUPPORTED, "swiglu with weights apart is not supported");
    const int64_t one[3] = {router->shape[1], first->shape[1], (int64_t)it->hidden / pack};
    const int64_t two[3] = {router->shape[1], (int64_t)it->hidden, (int64_t)it->inner / pack};
    if (it->chosen < 1 || it->chosen > it->experts || it->hidden % (uint64_t)pack != 0 ||
        it->inner % (uint64_t)pack != 0 || (it->swiglu && it->wide % 2 != 0) ||
        (uint64_t)router->shape[0] != it->tokens)
        return tn__call_bad_shape(call, 1);
    TN_TRY(tn__check_shape(call, 2, 3, one));
    TN_TRY(tn__check_shape(call, it->second, 3, two));
    TN_TRY(tn__check_count(call, it->second - 1, it->experts * it->wide));
    TN_TRY(tn__check_count(call, packed ? 7 : 5, it->experts * it->hidden));
    if (packed) {
        uint64_t blocks[2] = {1, 1};
        if (it->block > 0) {
            blocks[0] = it->hidden / (uint64_t)it->block;
            blocks[1] = it->inner / (uint64_t)it->block;
            if (it->hidden % (uint64_t)it->block != 0 || it->inner % (uint64_t)it->block != 0)
                return tn__call_bad_shape(call, 3);
        }
        if (tn__call_input(call, 3) == NULL || tn__call_input(call, 6) == NULL)
            return tn__call_bad_shape(call, 3);
        TN_TRY(tn__check_count(call, 3, it->experts * it->wide * blocks[0]));
        TN_TRY(tn__check_count(call, 6, it->experts * it->hidden * blocks[1]));
    }
    return tn__check_result(call, 0, x->rank, x->shape);
}

/* Returns the product of a row of weights and the vector x, which has `count` elements. `row`
 * counts over the rows of all experts. */
static float experts_dot(const tn_kernel_call *call, const experts_shape *it, bool second,
                         uint64_t row, uint64_t count, const float *x) {
    const tn_operand *w = &call->inputs[second ? it->second : 2];
    double sum = 0;
    if (it->bits == 0) {
        const float *at = (const float *)w->data + row * count;
        for (uint64_t i = 0; i < count; i++) sum += (double)at[i] * (double)x[i];
        return (float)sum;
    }
    const uint8_t *bytes = (const uint8_t *)w->data + row * (count * (uint64_t)it->bits / 8);
    const float *scales = call->inputs[second ? 6 : 3].data;
    uint64_t block = it->block > 0 ? (uint64_t)it->block : count, blocks = count / block;
    float zero = (float)(1 << (it->bits - 1));
    for (uint64_t i = 0; i < count; i++) {
        float scale = scales[row * blocks + i / block];
        sum += (double)(((float)tn__packed_number(bytes, i, (uint32_t)it->bits, false) - zero) *
                        scale) *
               (double)x[i];
    }
    return (float)sum;
}

static float experts_activate(const tn_kernel_call *call, const experts_shape *it,
                              const float *wide, uint64_t i) {
    const char *curve = tn__attr_string(call->op, "activation_type", "relu");
    if (it->swiglu) {
        float alpha = (float)tn__attr_float(call->op, "activation_alpha", 1),
              beta = (float)tn__attr_float(call->op, "activation_beta", 0),
              limit = (float)tn__attr_float(call->op, "swiglu_limit", (double)INFINITY);
        bool apart = it->fusion == 2;
        float g = wide[apart ? i : 2 * i], l = wide[apart ? it->inner + i : 2 * i + 1];
        g = g < limit ? g : limit;
        l = l < limit ? (l > -limit ? l : -limit) : limit;
        return g * tn__logisticf(alpha * g) * (l + beta);
    }
    float value = wide[i];
    if (strcmp(curve, "silu") == 0) return value * tn__logisticf(value);
    if (strcmp(curve, "gelu") == 0) return tn__geluf(value);
    if (strcmp(curve, "identity") == 0) return value;
    return value > 0 ? value : 0;
}

/* Chooses the experts of a token. shares[e] becomes the weight of expert e in the result, 0 if it
 * is not chosen. `left` is scratch memory. */
static void experts_route(const tn_kernel_call *call, const experts_shape *it, uint64_t token,
                          float *shares, float *left) {
    const float *router = (const float *)call->inputs[1].data + token * it->experts;
    double sum = 0, kept = 0;
    float most = -INFINITY;
    for (uint64_t e = 0; e < it->experts; e++) most = router[e] > most ? router[e] : most;
    for (uint64_t e = 0; e < it->experts; e++) {
        left[e] = expf(router[e] - most);
        sum += (double)left[e];
        shares[e] = 0;
    }
    for (uint64_t k = 0; k < it->chosen; k++) {
        uint64_t best = it->experts;
        for (uint64_t e = 0; e < it->experts; e++)
            if (left[e] >= 0 && (best == it->experts || left[e] > left[best])) best = e;
        if (best == it->experts) break; /* the scores of all other experts are NaN */
        shares[best] = (float)((double)left[best] / sum);
        kept += (double)shares[best];
        left[best] = -1;
    }
    if (tn__attr_int(call->op, "normalize_routing_weights", 0) != 0 && kept > 0)
        for (uint64_t e = 0; e < it->experts; e++) shares[e] = (float)((double)shares[e] / kept);
}

static tn_status experts_run_any(tn_kernel_call *call, bool packed) {
    experts_shape it = {0};
    TN_TRY(experts_read(call, packed, &it));
    TN_TRY(tn__check_scratch(call, (2 * it.experts + it.wide + it.inner) * sizeof(float)));
    float *shares = call->workspace, *left = shares + it.experts, *wide = left + it.experts,
          *inner = wide + it.wide;
    const tn_operand *bias[2] = {tn__call_input(call, it.second - 1),
                                 tn__call_input(call, packed ? 7 : 5)};
    for (uint64_t t = 0; t < it.tokens; t++) {
        const float *x = (const float *)call->inputs[0].data + t * it.hidden;
        float *y = (float *)call->outputs[0].data + t * it.hidden;
        experts_route(call, &it, t, shares, left);
        memset(y, 0, it.hidden * sizeof *y);
        for (uint64_t e = 0; e < it.experts; e++) {
            if (shares[e] == 0) continue;
            for (uint64_t i = 0; i < it.wide; i++) {
                uint64_t row = e * it.wide + i;
                wide[i] = experts_dot(call, &it, false, row, it.hidden, x);
                if (bias[0] != NULL) wide[i] += ((const float *)bias[0]->data)[row];
            }
            for (uint64_t i = 0; i < it.inner; i++) inner[i] = experts_activate(call, &it, wide, i);
            for (uint64_t h = 0; h < it.hidden; h++) {
                uint64_t row = e * it.hidden + h;
                float value = experts_dot(call, &it, true, row, it.inner, inner);
                if (bias[1] != NULL) value += ((const float *)bias[1]->data)[row];
                y[h] += shares[e] * value;
            }
        }
    }
    return TN_OK;
}
static tn_status experts_run(tn_kernel_call *call) { return experts_run_any(call, false); }
static tn_status experts_run_packed(tn_kernel_call *call) { return experts_run_any(call, true); }

static bool experts_accepts(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 63, 0) &&
           tn__attr_int(setup->op, "use_sparse_mixer", 0) == 0;
}
static bool experts_accepts_packed(const tn_kernel_setup *setup) {
    return tn__types_agree(setup, TN__TYPE(FLOAT32), 1 | 2 | 8 | 16 | 64 | 128, 0) &&
           tn__input_is(setup, 2, TN__TYPE(UINT8)) && tn__input_is(setup, 5, TN__TYPE(UINT8)) &&
           tn__attr_int(setup->op, "use_sparse_mixer", 0) == 0 &&
           strcmp(tn__attr_string(setup->op, "quant_type", "int"), "int") == 0;
}

static uint64_t experts_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *router = tn__setup_input(setup, 1), *first = tn__setup_input(setup, 2);
    if (router == NULL || first == NULL || router->rank != 2 || first->rank != 3) return 0;
    uint64_t numbers = tn__add_sat(tn__mul_sat(2, (uint64_t)router->shape[1]),
                                   tn__mul_sat(2, (uint64_t)first->shape[1]));
    return tn__mul_sat(4, numbers);
}

static const tn_kernel experts_kernels[] = {
    {.type = "MoE", .accepts = experts_accepts, .workspace = experts_workspace, .run = experts_run},
    {.type = "QMoE",
     .accepts = experts_accepts_packed,
     .workspace = experts_workspace,
     .run = experts_run_packed},
};

TN_KERNEL_FAMILY(experts, "com.microsoft");
