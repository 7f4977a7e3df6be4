/* step.c - optimizers, the accumulation of gradients, and the scale of the loss. They update their
 * operands in place.
 *
 * Every element is read once, computed in double precision, and written once. With micro-batches,
 * the parameters are updated only in the last one. The first micro-batch overwrites the sum of
 * gradients, so the sum need not be cleared. If the adaptive loss scale gives the factor 0, nothing
 * is updated, and the step does not count for Adam's bias correction.
 * For float32, specialised loops compute the same bits with the widest vectors of the machine.
 * Source: Kingma, Ba 2015; Loshchilov, Hutter 2019 (decoupled weight decay). Momentum, its position
 * relative to the learning rate, and the position of epsilon are as in PyTorch.
 */
#include <math.h>

#include "engine/kernels/convert.h"
#include "engine/kernels/operands.h"

typedef enum step_sort { STEP_SGD, STEP_MOMENTUM, STEP_ADAM } step_sort;

typedef struct step_job {
    step_sort sort;
    /* the parameter, its gradient, and up to two tensors of optimizer state */
    const tn_operand *operands[4];
    double rate, scale, decay, momentum, beta1, beta2, epsilon;
    /* bias corrections of Adam: 1 - beta1^t and sqrt(1 - beta2^t) */
    double correction1, correction2;
    bool nesterov, decay_apart;
} step_job;

typedef struct step_tile {
    double p[TN__REAL_TILE], g[TN__REAL_TILE], m[TN__REAL_TILE], v[TN__REAL_TILE];
} step_tile;

static void step_sgd(const step_job *job, step_tile *t, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        t->p[i] -= job->rate * (t->g[i] * job->scale + job->decay * t->p[i]);
}

static void step_momentum(const step_job *job, step_tile *t, uint64_t count) {
    for (uint64_t i = 0; i < count; i++) {
        double g = t->g[i] * job->scale + job->decay * t->p[i];
        t->m[i] = job->momentum * t->m[i] + g;
        t->p[i] -= job->rate * (job->nesterov ? g + job->momentum * t->m[i] : t->m[i]);
    }
}

static void step_adam(const step_job *job, step_tile *t, uint64_t count) {
    double added = job->decay_apart ? 0 : job->decay;
    double kept = job->decay_apart ? 1 - job->rate * job->decay : 1;
    double rate = job->rate / job->correction1;
    for (uint64_t i = 0; i < count; i++) {
        double g = t->g[i] * job->scale + added * t->p[i];
        t->m[i] = job->beta1 * t->m[i] + (1 - job->beta1) * g;
        t->v[i] = job->beta2 * t->v[i] + (1 - job->beta2) * g * g;
        t->p[i] =
            kept * t->p[i] - rate * t->m[i] / (sqrt(t->v[i]) / job->correction2 + job->epsilon);
    }
}

/* --- float32 --- */

TN_WIDE static void step_sgd_floats(const step_job *job, float *p, const float *g, uint64_t count) {
    const double rate = job->rate, scale = job->scale, decay = job->decay;
    TN_APART
    for (uint64_t i = 0; i < count; i++) {
        double was = (double)p[i];
        p[i] = (float)(was - rate * ((double)g[i] * scale + decay * was));
    }
}

TN_WIDE static void step_momentum_floats(const step_job *job, float *p, const float *gradient,
                                         float *m, uint64_t count) {
    const double rate = job->rate, scale = job->scale, decay = job->decay, kept = job->momentum;
    const bool nesterov = job->nesterov;
    TN_APART
    for (uint64_t i = 0; i < count; i++) {
        double was = (double)p[i], g = (double)gradient[i] * scale + decay * was;
        double next = kept * (double)m[i] + g;
        m[i] = (float)next;
        p[i] = (float)(was - rate * (nesterov ? g + kept * next : next));
    }
}

TN_WIDE static void step_adam_floats(const step_job *job, float *p, const float *gradient, float *m,
                                     float *v, uint64_t count) {
    const double scale = job->scale, added = job->decay_apart ? 0 : job->decay;
    const double kept = job->decay_apart ? 1 - job->rate * job->decay : 1;
    const double rate = job->rate / job->correction1, root = job->correction2;
    const double beta1 = job->beta1, beta2 = job->beta2, epsilon = job->epsilon;
    TN_APART
    for (uint64_t i = 0; i < count; i++) {
        double was = (double)p[i], g = (double)gradient[i] * scale + added * was;
        double first = beta1 * (double)m[i] + (1 - beta1) * g;
        double second = beta2 * (double)v[i] + (1 - beta2) * g * g;
        m[i] = (float)first;
        v[i] = (float)second;
        p[i] = (float)(kept * was - rate * first / (sqrt(second) / root + epsilon));
    }
}

static bool step_is_floats(const step_job *job) {
    for (uint32_t i = 0; i < 2 + (uint32_t)job->sort; i++)
        if (job->operands[i]->dtype != TN_FLOAT32) return false;
    return true;
}

static void step_floats(const step_job *job, uint64_t total) {
    float *p = job->operands[0]->data;
    const float *g = job->operands[1]->data;
    if (job->sort == STEP_SGD) step_sgd_floats(job, p, g, total);
    if (job->sort == STEP_MOMENTUM) step_momentum_floats(job, p, g, job->operands[2]->data, total);
    if (job->sort == STEP_ADAM)
        step_adam_floats(job, p, g, job->operands[2]->data, job->operands[3]->data, total);
}

/* --- updates of parameters of any type --- */

static void step_apply(const step_job *job, uint64_t total) {
    step_tile t;
    if (step_is_floats(job)) {
        step_floats(job, total);
        return;
    }
    for (uint64_t at = 0; at < total; at += TN__REAL_TILE) {
        uint64_t count = total - at < TN__REAL_TILE ? total - at : TN__REAL_TILE;
        tn__real_load(job->operands[0], at, 1, count, t.p);
        tn__real_load(job->operands[1], at, 1, count, t.g);
        if (job->sort != STEP_SGD) tn__real_load(job->operands[2], at, 1, count, t.m);
        if (job->sort == STEP_ADAM) tn__real_load(job->operands[3], at, 1, count, t.v);
        if (job->sort == STEP_SGD) step_sgd(job, &t, count);
        if (job->sort == STEP_MOMENTUM) step_momentum(job, &t, count);
        if (job->sort == STEP_ADAM) step_adam(job, &t, count);
        tn__real_store(job->operands[0], at, count, t.p);
        if (job->sort != STEP_SGD) tn__real_store(job->operands[2], at, count, t.m);
        if (job->sort == STEP_ADAM) tn__real_store(job->operands[3], at, count, t.v);
    }
}

/* Reads the number of the current micro-batch from an input (0 if the operator has no such input).
 * Fails if it is not below `most`. */
static tn_status step_micro(const tn_kernel_call *call, uint32_t index, int64_t most,
                            int64_t *micro) {
    const tn_operand *operand = tn__call_input(call, index);
    *micro = operand != NULL ? tn__operand_int(operand, 0) : 0;
    if (*micro < 0 || *micro >= most)
        return tn__call_fail(call, TN_E_INVALID, "micro-batch %lld of %lld", (long long)*micro,
                             (long long)most);
    return TN_OK;
}

/* Finds the section of a parameter that an optimizer updates: the whole parameter, or, with
 * attribute `from`, the elements from there on, as many as the gradient has. */
static tn_status step_take(const tn_kernel_call *call, tn_operand *parameter, uint64_t *count) {
    uint64_t all = tn__operand_count(parameter), end;
    const tn_attr *from = tn__attr(call->op, "from");
    *count = from == NULL ? all : tn__operand_count(&call->inputs[1]);
    if (from == NULL) return TN_OK;
    int64_t first = tn__attr_int(call->op, "from", 0);
    if (first < 0 || !tn__add((uint64_t)first, *count, &end) || end > all)
        return tn__call_fail(call, TN_E_INVALID, "%llu elements from %lld of %llu",
                             (unsigned long long)*count, (long long)first, (unsigned long long)all);
    parameter->data =
        (char *)parameter->data + (uint64_t)first * tn__element_size(parameter->dtype);
    return TN_OK;
}

static tn_status step_run(tn_kernel_call *call, step_sort sort) {
    uint32_t states = (uint32_t)sort, rate = 2 + states;
    int64_t most = tn__attr_int(call->op, "micro_batches", 1), micro = 0;
    /* index of the input that has the number of the micro-batch */
    uint32_t at = rate + (sort == STEP_ADAM ? 2 : 1);
    tn_operand parameter = call->inputs[0];
    uint64_t count = 0;
    const tn_operand *factor = tn__call_input(call, at + 1);
    TN_TRY(step_take(call, &parameter, &count));
    TN_TRY(step_micro(call, at, most > 0 ? most : 1, &micro));
    TN_TRY(tn__check_count(call, at + 1, 2));
    for (uint32_t i = 1; i < rate; i++) TN_TRY(tn__check_count(call, i, count));
    TN_TRY(tn__check_count(call, rate, 1));
    if (micro + 1 < most || (factor != NULL && tn__real_get(factor, 0) == 0)) return TN_OK;
    step_job job = {.sort = sort,
                    .rate = tn__real_get(&call->inputs[rate], 0),
                    .scale = tn__attr_float(call->op, "scale", 1),
                    .decay = tn__attr_float(call->op, "weight_decay", 0),
                    .momentum = tn__attr_float(call->op, "momentum", 0),
                    .nesterov = tn__attr_int(call->op, "nesterov", 0) != 0,
                    .decay_apart = tn__attr_int(call->op, "decay_apart", 0) != 0};
    for (uint32_t i = 1; i < rate; i++) job.operands[i] = &call->inputs[i];
    job.operands[0] = &parameter;
    if (factor != NULL) job.scale *= tn__real_get(factor, 0);
    if (sort == STEP_ADAM) {
        double steps = (double)tn__operand_int(&call->inputs[rate + 1], 0) + 1;
        if (factor != NULL) steps -= tn__real_get(factor, 1);
        job.beta1 = tn__attr_float(call->op, "beta1", 0.9);
        job.beta2 = tn__attr_float(call->op, "beta2", 0.999);
        job.epsilon = tn__attr_float(call->op, "epsilon", 1e-8);
        job.correction1 = 1 - pow(job.beta1, steps);
        job.correction2 = sqrt(1 - pow(job.beta2, steps));
        if (!(steps >= 1))
            return tn__call_fail(call, TN_E_INVALID, "step %.0f; the first is 0", steps - 1);
    }
    step_apply(&job, count);
    return TN_OK;
}

static tn_status step_run_sgd(tn_kernel_call *call) { return step_run(call, STEP_SGD); }
static tn_status step_run_momentum(tn_kernel_call *call) { return step_run(call, STEP_MOMENTUM); }
static tn_status step_run_adam(tn_kernel_call *call) { return step_run(call, STEP_ADAM); }

static tn_status step_run_accumulate(tn_kernel_call *call) {
    const tn_operand *sum = &call->inputs[0], *gradient = &call->inputs[1];
    uint64_t total = tn__operand_count(sum);
    int64_t micro;
    TN_TRY(tn__check_count(call, 1, total));
    TN_TRY(step_micro(call, 2, INT64_MAX, &micro));
    for (uint64_t at = 0; at < total; at += TN__REAL_TILE) {
        uint64_t count = total - at < TN__REAL_TILE ? total - at : TN__REAL_TILE;
        double a[TN__REAL_TILE] = {0}, b[TN__REAL_TILE];
        if (micro > 0) tn__real_load(sum, at, 1, count, a);
        tn__real_load(gradient, at, 1, count, b);
        for (uint64_t i = 0; i < count; i++) a[i] += b[i];
        tn__real_store(sum, at, count, a);
    }
    return TN_OK;
}

static bool step_accepts(const tn_kernel_setup *setup) {
    for (uint32_t i = 0; i < setup->op->input_count; i++)
        if (!tn__input_may_be(setup, i, TN__TYPES_REAL | TN__TYPE(INT64))) return false;
    return tn__input_is(setup, 0, TN__TYPES_REAL) && tn__input_is(setup, 1, TN__TYPES_REAL);
}

/* --- the adaptive scale of the loss (src/graph/train/mixed.c) --- */

/* largest magnitude of the scale's exponent, so that float32 can represent the scale */
#define SCALE_MOST 40

enum { SCALE_EXPONENT, SCALE_GOOD, SCALE_SKIPPED, SCALE_STATE };

static double scale_of(const tn_kernel_call *call, const int64_t *state) {
    /* limited, because the state may come from a damaged checkpoint */
    int64_t exponent = state[SCALE_EXPONENT];
    exponent = exponent > SCALE_MOST ? SCALE_MOST : exponent < -SCALE_MOST ? -SCALE_MOST : exponent;
    return ldexp(tn__attr_float(call->op, "first", 1), (int)exponent);
}

static tn_status scale_run(tn_kernel_call *call) {
    const int64_t *state = call->inputs[0].data;
    TN_TRY(tn__check_count(call, 0, SCALE_STATE));
    for (uint64_t i = 0; i < tn__operand_count(&call->outputs[0]); i++)
        tn__real_set(&call->outputs[0], i, scale_of(call, state));
    return TN_OK;
}

/* Whether all elements are finite, that is, no exponent has all bits set. */
#define SCALE_FINITE(name, type, mask)                                                             \
    TN_WIDE static bool scale_finite_##name(const type *bits, uint64_t count) {                    \
        type any = 0;                                                                              \
        TN_APART                                                                                   \
        for (uint64_t i = 0; i < count; i++) any |= (type)((bits[i] & (mask)) == (mask));          \
        return any == 0;                                                                           \
    }
SCALE_FINITE(half, uint16_t, 0x7c00u)
SCALE_FINITE(bfloat, uint16_t, 0x7f80u)
SCALE_FINITE(float, uint32_t, 0x7f800000u)
SCALE_FINITE(double, uint64_t, UINT64_C(0x7ff0000000000000))

static bool scale_is_finite(const tn_operand *gradient) {
    uint64_t count = tn__operand_count(gradient);
    switch (gradient->dtype) {
    case TN_FLOAT16:
        return scale_finite_half(gradient->data, count);
    case TN_BFLOAT16:
        return scale_finite_bfloat(gradient->data, count);
    case TN_FLOAT32:
        return scale_finite_float(gradient->data, count);
    default:
        return scale_finite_double(gradient->data, count);
    }
}

static tn_status scale_run_step(tn_kernel_call *call) {
    int64_t *state = call->inputs[0].data;
    int64_t interval = tn__attr_int(call->op, "interval", 2000);
    int64_t most = tn__attr_int(call->op, "micro_batches", 1);
    const tn_operand *micro = tn__call_input(call, 1);
    tn_operand *factor = &call->outputs[1];
    bool finite = true;
    TN_TRY(tn__check_count(call, 0, SCALE_STATE));
    TN_TRY(tn__check_count(call, 1, 1));
    tn__real_set(factor, 0, 0);
    tn__real_set(factor, 1, (double)state[SCALE_SKIPPED]);
    if (micro != NULL && most > 1 && tn__operand_int(micro, 0) < most - 1) return TN_OK;
    for (uint32_t i = 2; i < call->input_count && finite; i++)
        finite = scale_is_finite(&call->inputs[i]);
    if (!finite) {
        if (state[SCALE_EXPONENT] > -SCALE_MOST) state[SCALE_EXPONENT]--;
        state[SCALE_GOOD] = 0;
        if (state[SCALE_SKIPPED] < INT64_MAX) state[SCALE_SKIPPED]++;
        return TN_OK;
    }
    tn__real_set(factor, 0, 1 / scale_of(call, state));
    /* the count of good steps is limited, so that it cannot overflow */
    if (state[SCALE_GOOD] < interval) state[SCALE_GOOD]++;
    if (state[SCALE_GOOD] < interval) return TN_OK;
    if (state[SCALE_EXPONENT] < SCALE_MOST) state[SCALE_EXPONENT]++;
    state[SCALE_GOOD] = 0;
    return TN_OK;
}

static bool scale_accepts(const tn_kernel_setup *setup) {
    return tn__input_is(setup, 0, TN__TYPE(INT64)) && tn__output_is(setup, 0, TN__TYPES_SUMMED);
}

static bool scale_accepts_step(const tn_kernel_setup *setup) {
    for (uint32_t i = 2; i < setup->op->input_count; i++)
        if (!tn__input_is(setup, i, TN__TYPES_REAL)) return false;
    return tn__input_is(setup, 0, TN__TYPE(INT64)) && tn__input_may_be(setup, 1, TN__TYPE(INT64)) &&
           tn__output_is(setup, 1, TN__TYPES_SUMMED);
}

static const tn_kernel step_kernels[] = {
    {.type = "Accumulate", .accepts = step_accepts, .run = step_run_accumulate},
    {.type = "AdamStep", .accepts = step_accepts, .run = step_run_adam},
    {.type = "MomentumStep", .accepts = step_accepts, .run = step_run_momentum},
    {.type = "SgdStep", .accepts = step_accepts, .run = step_run_sgd},
    {.type = "LossScale", .accepts = scale_accepts, .run = scale_run},
    {.type = "LossScaleStep", .accepts = scale_accepts_step, .run = scale_run_step},
};

TN_KERNEL_FAMILY(step, "tenure");
