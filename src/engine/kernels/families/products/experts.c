/* experts.c - mixtures of experts in float32: the operators MoE and QMoE of ONNX Runtime, and MoE
 * of domain "tenure", which has its experts as rows of a cache.
 *
 * A router chooses the best experts for each token. Each expert that any token uses is visited
 * once, in ascending order, and adds its share to the results of all its tokens. Quantised weights
 * are expanded one by one when they are read, without a copy.
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
    bool packed;     /* the operands are those of QMoE */
    uint32_t second; /* index of the input that has the second weights of the experts */
} experts_shape;

static tn_status experts_read(const tn_kernel_call *call, bool packed, experts_shape *it) {
    const tn_operand *x = &call->inputs[0], *router = &call->inputs[1], *first = &call->inputs[2];
    const char *curve = tn__attr_string(call->op, "activation_type", "relu");
    const uint32_t parts = tn__op_has_rows(call->op) ? TN__EXPERTS_CACHE : call->input_count;
    *it = (experts_shape){.packed = packed,
                          .second = packed ? 5 : 4,
                          .swiglu = strcmp(curve, "swiglu") == 0,
                          .fusion = tn__attr_int(call->op, "swiglu_fusion", 0)};
    const tn_operand *second = tn__call_input(call, it->second);
    int64_t chosen = tn__attr_int(call->op, "k", 1);
    if (x->rank < 2 || router->rank != 2 || x->shape[x->rank - 1] < 1)
        return tn__call_bad_shape(call, 0);
    if (second == NULL || second->rank != 3 || first->rank != 3)
        return tn__call_bad_shape(call, it->second);
    for (uint32_t i = packed ? 8 : 6; i < parts; i++)
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

/* The entries of one expert: weights, scales (NULL: the weights are float32) and bias (NULL: none)
 * of its two products. */
typedef struct experts_one {
    const void *weights[2];
    const float *scales[2], *bias[2];
} experts_one;

static experts_one experts_from(const experts_shape *it, const void *const *parts) {
    uint32_t second = it->second;
    return (experts_one){.weights = {parts[2], parts[second]},
                         .scales = {it->packed ? parts[3] : NULL, it->packed ? parts[6] : NULL},
                         .bias = {parts[second - 1], parts[it->packed ? 7 : 5]}};
}

/* Returns the product of a row of weights and the vector x, which has `count` elements. `which`: 0
 * or 1, the expert's first or second product. */
static float experts_dot(const experts_shape *it, const experts_one *expert, int which,
                         uint64_t row, uint64_t count, const float *x) {
    double sum = 0;
    if (it->bits == 0) {
        const float *at = (const float *)expert->weights[which] + row * count;
        for (uint64_t i = 0; i < count; i++) sum += (double)at[i] * (double)x[i];
        return (float)sum;
    }
    const uint8_t *bytes =
        (const uint8_t *)expert->weights[which] + row * (count * (uint64_t)it->bits / 8);
    const float *scales = expert->scales[which];
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

/* Chooses the experts of a token by its scores. shares[e] becomes the weight of expert e in the
 * result, 0 if it is not chosen. `left` is scratch memory. */
static void experts_route(const tn_kernel_call *call, const experts_shape *it, const float *scores,
                          float *shares, float *left) {
    double sum = 0, kept = 0;
    float most = -INFINITY;
    for (uint64_t e = 0; e < it->experts; e++) most = scores[e] > most ? scores[e] : most;
    for (uint64_t e = 0; e < it->experts; e++) {
        left[e] = expf(scores[e] - most);
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

/* The scratch memory of a call: for each token the share of each expert; vectors; lists of
 * experts. */
typedef struct experts_job {
    const tn_kernel_call *call;
    experts_shape shape;
    float *shares; /* [tokens][experts] */
    float *left;   /* [experts] */
    float *wide, *inner;
    uint32_t *used, *next;           /* [experts] */
    uint32_t used_count, next_count; /* experts that any token uses; those that it may use next */
} experts_job;

/* Bytes of the scratch memory. */
static uint64_t experts_scratch(uint64_t tokens, uint64_t experts, uint64_t wide) {
    uint64_t numbers = tn__mul_sat(tn__add_sat(tokens, 3), experts);
    return tn__mul_sat(4, tn__add_sat(numbers, tn__mul_sat(2, wide)));
}

static tn_status experts_begin(const tn_kernel_call *call, bool packed, experts_job *job) {
    *job = (experts_job){.call = call};
    experts_shape *it = &job->shape;
    TN_TRY(experts_read(call, packed, it));
    TN_TRY(tn__check_scratch(call, experts_scratch(it->tokens, it->experts, it->wide)));
    job->shares = call->workspace;
    job->left = job->shares + it->tokens * it->experts;
    job->used = (uint32_t *)(void *)(job->left + it->experts);
    job->next = job->used + it->experts;
    job->wide = (float *)(void *)(job->next + it->experts);
    job->inner = job->wide + it->wide;
    return TN_OK;
}

/* Lists the experts that the mixture after this one may use, by the router's guess: the one with
 * the largest share over all tokens first. */
static void experts_guess(experts_job *job) {
    const tn_operand *guess = tn__call_input(job->call, TN__EXPERTS_GUESS);
    const experts_shape *it = &job->shape;
    float *sums = job->left;
    if (guess == NULL || guess->rank != 2 || guess->dtype != TN_FLOAT32 ||
        (uint64_t)guess->shape[0] != it->tokens || (uint64_t)guess->shape[1] != it->experts)
        return;
    /* until experts_choose overwrites it, the first token's shares are the scratch of this
     * function */
    for (uint64_t t = 0; t < it->tokens; t++)
        experts_route(job->call, it, (const float *)guess->data + t * it->experts,
                      job->shares + t * it->experts, sums);
    for (uint64_t e = 0; e < it->experts; e++) {
        sums[e] = 0;
        for (uint64_t t = 0; t < it->tokens; t++) sums[e] += job->shares[t * it->experts + e];
    }
    for (;;) {
        uint64_t best = it->experts;
        for (uint64_t e = 0; e < it->experts; e++)
            if (sums[e] > 0 && (best == it->experts || sums[e] > sums[best])) best = e;
        if (best == it->experts) break;
        job->next[job->next_count++] = (uint32_t)best;
        sums[best] = 0;
    }
}

/* Chooses the experts of all tokens, and lists those that any token uses. */
static void experts_choose(experts_job *job) {
    const experts_shape *it = &job->shape;
    const float *router = job->call->inputs[TN__EXPERTS_ROUTER].data;
    for (uint64_t t = 0; t < it->tokens; t++)
        experts_route(job->call, it, router + t * it->experts, job->shares + t * it->experts,
                      job->left);
    for (uint64_t e = 0; e < it->experts; e++) {
        bool used = false;
        for (uint64_t t = 0; t < it->tokens; t++)
            used = used || job->shares[t * it->experts + e] != 0;
        if (used) job->used[job->used_count++] = (uint32_t)e;
    }
}

/* Adds one expert's share to the results of its tokens. */
static void experts_add(const experts_job *job, uint32_t e, const experts_one *expert) {
    const experts_shape *it = &job->shape;
    float *wide = job->wide, *inner = job->inner;
    for (uint64_t t = 0; t < it->tokens; t++) {
        const float share = job->shares[t * it->experts + e];
        const float *x = (const float *)job->call->inputs[0].data + t * it->hidden;
        float *y = (float *)job->call->outputs[0].data + t * it->hidden;
        if (share == 0) continue;
        for (uint64_t i = 0; i < it->wide; i++) {
            wide[i] = experts_dot(it, expert, 0, i, it->hidden, x);
            if (expert->bias[0] != NULL) wide[i] += expert->bias[0][i];
        }
        for (uint64_t i = 0; i < it->inner; i++)
            inner[i] = experts_activate(job->call, it, wide, i);
        for (uint64_t h = 0; h < it->hidden; h++) {
            float value = experts_dot(it, expert, 1, h, it->inner, inner);
            if (expert->bias[1] != NULL) value += expert->bias[1][h];
            y[h] += share * value;
        }
    }
}

static tn_status experts_run_any(tn_kernel_call *call, bool packed) {
    experts_job job;
    TN_TRY(experts_begin(call, packed, &job));
    experts_choose(&job);
    memset(call->outputs[0].data, 0, job.shape.tokens * job.shape.hidden * sizeof(float));
    for (uint32_t u = 0; u < job.used_count; u++) {
        const void *parts[TN__EXPERTS_CACHE] = {NULL};
        for (uint32_t i = TN__EXPERTS_FIRST_PART; i < TN__EXPERTS_CACHE; i++) {
            const tn_operand *part = tn__call_input(call, i);
            if (part == NULL) continue;
            uint64_t each = tn__operand_bytes(part) / job.shape.experts;
            parts[i] = (const uint8_t *)part->data + job.used[u] * each;
        }
        const experts_one expert = experts_from(&job.shape, parts);
        experts_add(&job, job.used[u], &expert);
    }
    return TN_OK;
}
static tn_status experts_run(tn_kernel_call *call) { return experts_run_any(call, false); }
static tn_status experts_run_packed(tn_kernel_call *call) { return experts_run_any(call, true); }

/* --- experts that are rows of a cache --- */

static tn_status experts_use(void *context, uint32_t index, const void *const *parts) {
    const experts_job *job = context;
    const experts_one expert = experts_from(&job->shape, parts);
    const int64_t row = tn__attr_int(job->call->op, "row", 0);
    experts_add(job, job->used[index] - (uint32_t)row, &expert);
    return TN_OK;
}

static tn_status experts_run_rows(tn_kernel_call *call) {
    const int64_t row = tn__attr_int(call->op, "row", 0),
                  next = tn__attr_int(call->op, "next_row", 0);
    experts_job job;
    TN_TRY(experts_begin(call, tn__attr_int(call->op, "packed", 0) != 0, &job));
    if (call->rows == NULL)
        return tn__call_fail(call, TN_E_UNSUPPORTED, "nothing reads its experts from a file here");
    experts_guess(&job);
    experts_choose(&job);
    memset(call->outputs[0].data, 0, job.shape.tokens * job.shape.hidden * sizeof(float));
    for (uint32_t u = 0; u < job.used_count; u++) job.used[u] += (uint32_t)row;
    for (uint32_t n = 0; n < job.next_count; n++) job.next[n] += (uint32_t)next;
    return call->rows->visit(call->rows->self, job.used, job.used_count, job.next, job.next_count,
                             experts_use, &job, call->error);
}

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

static bool experts_accepts_rows(const tn_kernel_setup *setup) {
    return tn__attr_int(setup->op, "packed", 0) != 0 ? experts_accepts_packed(setup)
                                                     : experts_accepts(setup);
}

static uint64_t experts_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *router = tn__setup_input(setup, 1), *first = tn__setup_input(setup, 2);
    if (router == NULL || first == NULL || router->rank != 2 || first->rank != 3) return 0;
    return experts_scratch((uint64_t)router->shape[0], (uint64_t)router->shape[1],
                           (uint64_t)first->shape[1]);
}

static const tn_kernel experts_kernels[] = {
    {.type = "MoE", .accepts = experts_accepts, .workspace = experts_workspace, .run = experts_run},
    {.type = "QMoE",
     .accepts = experts_accepts_packed,
     .workspace = experts_workspace,
     .run = experts_run_packed},
    {.domain = "tenure",
     .type = "MoE",
     .accepts = experts_accepts_rows,
     .workspace = experts_workspace,
     .run = experts_run_rows},
};

TN_KERNEL_FAMILY(experts, "com.microsoft");
