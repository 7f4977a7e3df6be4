/* optimizer.c - the optimizers of ai.onnx.preview.training: Adagrad, Adam, Momentum. They give new
 * tensors; the steps that a training graph runs (step.c) change theirs.
 *
 * Cost:   O(elements). Computed in float64 and rounded once.
 * Source: the ONNX specification, ai.onnx.preview.training 1; J. Duchi et al., Adaptive subgradient
 * methods, JMLR 2011; D. Kingma, J. Ba, Adam, ICLR 2015.
 */
#include <math.h>

#include "engine/kernels/loops/box.h"
#include "engine/kernels/operands.h"

/* The numbers of one call. `rate` is that of the step. */
typedef struct optimizer_plan {
    double rate, alpha, beta, epsilon, decay, last_decay;
    bool nesterov;
} optimizer_plan;

/* Updates one element: x and its states, from its gradient. */
typedef void (*optimizer_step)(const optimizer_plan *plan, double gradient, double *x,
                               double *state);

static void optimizer_adagrad(const optimizer_plan *plan, double gradient, double *x,
                              double *state) {
    state[0] += gradient * gradient;
    *x -= plan->rate * gradient / (sqrt(state[0]) + plan->epsilon);
}

static void optimizer_adam(const optimizer_plan *plan, double gradient, double *x, double *state) {
    state[0] = plan->alpha * state[0] + (1 - plan->alpha) * gradient;
    state[1] = plan->beta * state[1] + (1 - plan->beta) * gradient * gradient;
    *x -= plan->rate * state[0] / (sqrt(state[1]) + plan->epsilon);
    *x *= 1 - plan->last_decay;
}

static void optimizer_momentum(const optimizer_plan *plan, double gradient, double *x,
                               double *state) {
    state[0] = plan->alpha * state[0] + plan->beta * gradient;
    *x -= plan->rate * (plan->nesterov ? gradient + plan->alpha * state[0] : state[0]);
}

/* Applies the step to all tensors. An operator with `states` states has 2 + states lists. */
static tn_status optimizer_run(tn_kernel_call *call, const optimizer_plan *plan, uint32_t states,
                               optimizer_step step) {
    uint32_t count = (call->input_count - 2) / (2 + states);
    if (call->output_count != (1 + states) * count)
        return tn__call_fail(call, TN_E_INVALID, "%u outputs for %u tensors", call->output_count,
                             count);
    for (uint32_t i = 0; i < count; i++) {
        const tn_operand *x = &call->inputs[2 + i], *given = &call->inputs[2 + count + i];
        TN_TRY(tn__check_shape(call, 2 + count + i, x->rank, x->shape));
        TN_TRY(tn__call_shape(call, i, x->rank, x->shape));
        for (uint32_t s = 0; s < states; s++) {
            TN_TRY(tn__check_shape(call, 2 + (2 + s) * count + i, x->rank, x->shape));
            TN_TRY(tn__call_shape(call, (1 + s) * count + i, x->rank, x->shape));
        }
        for (uint64_t e = 0; e < tn__operand_count(x); e++) {
            double value = tn__real_get(x, e), state[2] = {0};
            for (uint32_t s = 0; s < states; s++)
                state[s] = tn__real_get(&call->inputs[2 + (2 + s) * count + i], e);
            step(plan, plan->decay * value + tn__real_get(given, e), &value, state);
            tn__real_set(&call->outputs[i], e, value);
            for (uint32_t s = 0; s < states; s++)
                tn__real_set(&call->outputs[(1 + s) * count + i], e, state[s]);
        }
    }
    return TN_OK;
}

/* Reads the attributes and inputs that all optimizers have. *steps: the number of earlier steps. */
static tn_status optimizer_read(const tn_kernel_call *call, optimizer_plan *plan, double *steps) {
    TN_TRY(tn__check_count(call, 0, 1));
    TN_TRY(tn__check_count(call, 1, 1));
    *plan = (optimizer_plan){.rate = tn__operand_float(&call->inputs[0], 0),
                             .epsilon = tn__attr_float(call->op, "epsilon", 0),
                             .decay = tn__attr_float(call->op, "norm_coefficient", 0)};
    *steps = tn__operand_float(&call->inputs[1], 0);
    return TN_OK;
}

static tn_status optimizer_run_adagrad(tn_kernel_call *call) {
    optimizer_plan plan;
    double steps;
    TN_TRY(optimizer_read(call, &plan, &steps));
    plan.rate /= 1 + steps * tn__attr_float(call->op, "decay_factor", 0);
    return optimizer_run(call, &plan, 1, optimizer_adagrad);
}

static tn_status optimizer_run_adam(tn_kernel_call *call) {
    optimizer_plan plan;
    double steps;
    TN_TRY(optimizer_read(call, &plan, &steps));
    plan.alpha = tn__attr_float(call->op, "alpha", 0.9);
    plan.beta = tn__attr_float(call->op, "beta", 0.999);
    plan.last_decay = tn__attr_float(call->op, "norm_coefficient_post", 0);
    if (steps > 0) plan.rate *= sqrt(1 - pow(plan.beta, steps)) / (1 - pow(plan.alpha, steps));
    return optimizer_run(call, &plan, 2, optimizer_adam);
}

static tn_status optimizer_run_momentum(tn_kernel_call *call) {
    optimizer_plan plan;
    double steps;
    TN_TRY(optimizer_read(call, &plan, &steps));
    plan.alpha = tn__attr_float(call->op, "alpha", 0);
    plan.beta = steps > 0 ? tn__attr_float(call->op, "beta", 0) : 1;
    plan.nesterov = strcmp(tn__attr_string(call->op, "mode", "standard"), "nesterov") == 0;
    return optimizer_run(call, &plan, 1, optimizer_momentum);
}

static bool optimizer_accepts(const tn_kernel_setup *setup) {
    for (uint32_t i = 2; i < setup->op->input_count; i++)
        if (!tn__input_is(setup, i, TN__TYPES_REAL)) return false;
    for (uint32_t k = 0; k < setup->op->output_count; k++)
        if (!tn__output_is(setup, k, TN__TYPES_REAL)) return false;
    return tn__input_is(setup, 0, TN__TYPES_REAL) && tn__input_is(setup, 1, TN__TYPES_INDEX);
}

static const tn_kernel optimizer_kernels[] = {
    {.type = "Adagrad", .accepts = optimizer_accepts, .run = optimizer_run_adagrad},
    {.type = "Adam", .accepts = optimizer_accepts, .run = optimizer_run_adam},
    {.type = "Momentum", .accepts = optimizer_accepts, .run = optimizer_run_momentum},
};

TN_KERNEL_FAMILY(optimizer, "ai.onnx.preview.training");
