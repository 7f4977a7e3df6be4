/* recurrent.c - kernels of RNN, GRU and LSTM.
 *
 * Each direction of each sequence runs alone, step by step: the gates' sums come from two products
 * with a vector (dot products along the rows of W and R, biases added), the rest is element by
 * element. A sequence that is shorter than the longest one ends early: its state stays, its outputs
 * beyond are zero; in reverse it starts at its own last step. Scratch: the sums of all gates twice,
 * the state, and the state after the reset gate.
 * Source: operator texts of ONNX, opsets 1 to 17.
 */
#include <math.h>
#include <strings.h>

#include "engine/kernels/product.h"

typedef enum recurrent_kind { RECURRENT_RNN, RECURRENT_GRU, RECURRENT_LSTM } recurrent_kind;

static const uint32_t recurrent_gates[] = {1, 3, 4}, recurrent_functions[] = {1, 2, 3};

/* --- activations --- */

/* X(name, alpha, beta, has alpha, has beta, value) */
/* clang-format off */
#define RECURRENT_ACTIVATIONS(X)                                                               \
    X(Affine, 1, 0, true, true, alpha * x + beta)                                              \
    X(Elu, 1, 0, true, false, x >= 0 ? x : alpha * expm1(x))                                   \
    X(HardSigmoid, 0.2, 0.5, true, true, fmin(fmax(alpha * x + beta, 0), 1))                   \
    X(LeakyRelu, 0.01, 0, true, false, x >= 0 ? x : alpha * x)                                 \
    X(Relu, 0, 0, false, false, x > 0 ? x : 0)                                                 \
    X(ScaledTanh, 1, 1, true, true, alpha * tanh(beta * x))                                    \
    X(Sigmoid, 0, 0, false, false, 1 / (1 + exp(-x)))                                          \
    X(Softplus, 0, 0, false, false, fmax(x, 0) + log1p(exp(-fabs(x))))                         \
    X(Softsign, 0, 0, false, false, x / (1 + fabs(x)))                                         \
    X(Tanh, 0, 0, false, false, tanh(x))                                                       \
    X(ThresholdedRelu, 1, 0, true, false, x > alpha ? x : 0)
/* clang-format on */

typedef enum recurrent_curve {
#define RECURRENT_X(name, alpha, beta, has_alpha, has_beta, value) RECURRENT_##name,
    RECURRENT_ACTIVATIONS(RECURRENT_X)
#undef RECURRENT_X
        RECURRENT_CURVES
} recurrent_curve;

typedef struct recurrent_activation {
    recurrent_curve curve;
    double alpha, beta;
} recurrent_activation;

typedef struct recurrent_known {
    const char *name;
    recurrent_activation usual;
    bool has_alpha, has_beta;
} recurrent_known;
static const recurrent_known recurrent_table[] = {
#define RECURRENT_X(name, alpha, beta, has_alpha, has_beta, value)                                 \
    {#name, {RECURRENT_##name, alpha, beta}, has_alpha, has_beta},
    RECURRENT_ACTIVATIONS(RECURRENT_X)
#undef RECURRENT_X
};

static double recurrent_apply(const recurrent_activation *activation, double clip, double x) {
    double alpha = activation->alpha, beta = activation->beta;
    if (x > clip) x = clip;
    if (x < -clip) x = -clip;
    (void)alpha, (void)beta;
    switch (activation->curve) {
#define RECURRENT_X(name, alpha, beta, has_alpha, has_beta, value)                                 \
    case RECURRENT_##name:                                                                         \
        return value;
        RECURRENT_ACTIVATIONS(RECURRENT_X)
#undef RECURRENT_X
    default:
        return x;
    }
}

/* --- the operator in hand --- */

typedef struct recurrent_job {
    const tn_kernel_call *call;
    recurrent_kind kind;
    tn_dtype dtype;
    uint64_t width; /* bytes of an element */
    uint64_t steps, batch, input, hidden, directions, gates;
    bool batch_first, backward_first; /* backward_first: the only direction is reverse */
    bool linear_before_reset, input_forget;
    double clip;
    /* activations of the first direction, then of the second */
    recurrent_activation activations[6];
    /* scratch: elements of `dtype` */
    tn_operand from_input, from_state, state, cell, reset;
} recurrent_job;

static tn_status recurrent_activation_read(recurrent_job *job) {
    const tn_op *op = job->call->op;
    const tn_attr *names = tn__attr(op, "activations");
    uint32_t each = recurrent_functions[job->kind], alphas, betas, alpha = 0, beta = 0;
    const double *given_alpha = tn__attr_floats(op, "activation_alpha", &alphas);
    const double *given_beta = tn__attr_floats(op, "activation_beta", &betas);
    bool given = names != NULL && (names->type == TN_ATTR_STRINGS || names->type == TN_ATTR_STRING);
    if (given && names->count != each * job->directions)
        return tn__call_fail(job->call, TN_E_INVALID, "%u activations instead of %u", names->count,
                             each * (uint32_t)job->directions);
    for (uint32_t i = 0; i < each * job->directions; i++) {
        const char *usual = i % each > 0 || job->kind == RECURRENT_RNN ? "Tanh" : "Sigmoid";
        const char *name = given ? names->strings[i] : usual;
        uint32_t k = 0;
        while (k < RECURRENT_CURVES && strcasecmp(recurrent_table[k].name, name) != 0) k++;
        if (k == RECURRENT_CURVES)
            return tn__call_fail(job->call, TN_E_INVALID, "the activation '%.40s' is unknown",
                                 name);
        const recurrent_known *known = &recurrent_table[k];
        job->activations[i] = known->usual;
        /* values are used up by the activations that have them, in order */
        if (known->has_alpha && alpha < alphas) job->activations[i].alpha = given_alpha[alpha++];
        if (known->has_beta && beta < betas) job->activations[i].beta = given_beta[beta++];
    }
    return TN_OK;
}

static tn_status recurrent_check(const recurrent_job *job) {
    const tn_kernel_call *call = job->call;
    int64_t directions = (int64_t)job->directions, hidden = (int64_t)job->hidden;
    int64_t rows = (int64_t)job->gates * hidden, batch = (int64_t)job->batch;
    int64_t steps = (int64_t)job->steps;
    const int64_t w[] = {directions, rows, (int64_t)job->input}, r[] = {directions, rows, hidden};
    const int64_t b[] = {directions, 2 * rows}, p[] = {directions, 3 * hidden};
    const int64_t last[2][3] = {{directions, batch, hidden}, {batch, directions, hidden}};
    const int64_t all[2][4] = {{steps, directions, batch, hidden},
                               {batch, steps, directions, hidden}};
    TN_TRY(tn__check_shape(call, 1, 3, w));
    TN_TRY(tn__check_shape(call, 2, 3, r));
    TN_TRY(tn__check_shape(call, 3, 2, b));
    TN_TRY(tn__check_shape(call, 4, 1, &batch));
    TN_TRY(tn__check_shape(call, 5, 3, last[job->batch_first]));
    if (job->kind == RECURRENT_LSTM) {
        TN_TRY(tn__check_shape(call, 6, 3, last[job->batch_first]));
        TN_TRY(tn__check_shape(call, 7, 2, p));
    }
    TN_TRY(tn__check_result(call, 0, 4, all[job->batch_first]));
    TN_TRY(tn__check_result(call, 1, 3, last[job->batch_first]));
    return tn__check_result(call, 2, 3, last[job->batch_first]);
}

/* Elements of scratch memory. */
static uint64_t recurrent_scratch(uint64_t gates, uint64_t hidden) {
    return tn__mul_sat(tn__add_sat(2 * gates, 3), hidden);
}

static tn_status recurrent_read(tn_kernel_call *call, recurrent_kind kind, recurrent_job *job) {
    const tn_operand *x = &call->inputs[0], *r = &call->inputs[2];
    const char *direction = tn__attr_string(call->op, "direction", "forward");
    bool both = strcasecmp(direction, "bidirectional") == 0;
    bool backward = strcasecmp(direction, "reverse") == 0;
    *job = (recurrent_job){.call = call,
                           .kind = kind,
                           .dtype = x->dtype,
                           .width = tn_dtype_bits(x->dtype) / 8,
                           .gates = recurrent_gates[kind],
                           .directions = both ? 2 : 1,
                           .backward_first = backward,
                           .batch_first = tn__attr_int(call->op, "layout", 0) != 0,
                           .linear_before_reset =
                               tn__attr_int(call->op, "linear_before_reset", 0) != 0,
                           .input_forget = tn__attr_int(call->op, "input_forget", 0) != 0,
                           .clip = tn__attr_float(call->op, "clip", (double)INFINITY)};
    if (!both && !backward && strcasecmp(direction, "forward") != 0)
        return tn__call_fail(call, TN_E_INVALID, "the direction '%.40s' is unknown", direction);
    if (x->rank != 3 || r->rank != 3)
        return tn__call_fail(call, TN_E_INVALID, "an input of rank %u, recurrence of rank %u",
                             x->rank, r->rank);
    if (tn__attr_int(call->op, "hidden_size", r->shape[2]) != r->shape[2] ||
        r->shape[2] > INT64_MAX / 8)
        return tn__call_fail(call, TN_E_INVALID, "hidden_size is not the %lld of the recurrence",
                             (long long)r->shape[2]);
    job->steps = (uint64_t)x->shape[job->batch_first ? 1 : 0];
    job->batch = (uint64_t)x->shape[job->batch_first ? 0 : 1];
    job->input = (uint64_t)x->shape[2];
    job->hidden = (uint64_t)r->shape[2];
    TN_TRY(recurrent_check(job));
    TN_TRY(recurrent_activation_read(job));
    TN_TRY(tn__check_scratch(call,
                             tn__mul_sat(recurrent_scratch(job->gates, job->hidden), job->width)));
    uint64_t sizes[] = {job->gates, job->gates, 1, 1, 1}, at = 0;
    tn_operand *parts[] = {&job->from_input, &job->from_state, &job->state, &job->cell,
                           &job->reset};
    for (uint32_t i = 0; i < 5; at += sizes[i++] * job->hidden)
        *parts[i] =
            (tn_operand){.data = (char *)call->workspace + at * job->width, .dtype = job->dtype};
    return TN_OK;
}

/* --- one step --- */

/* to[first, first + rows) = W or R times a vector, plus bias; rows counted in one direction. */
static void recurrent_product(const recurrent_job *job, uint64_t direction, bool recurrence,
                              const void *vector, uint64_t first, uint64_t rows) {
    const tn_operand *matrix = &job->call->inputs[recurrence ? 2 : 1];
    const tn_operand *bias = tn__call_input(job->call, 3);
    const tn_operand *to = recurrence ? &job->from_state : &job->from_input;
    uint64_t all = job->gates * job->hidden, inner = recurrence ? job->hidden : job->input;
    uint64_t bias_at = (direction * 2 + recurrence) * all + first;
    tn__product product = {
        .rows = 1,
        .columns = rows,
        .inner = inner,
        .a = vector,
        .b = (const char *)matrix->data + (direction * all + first) * inner * job->width,
        .c = (char *)to->data + first * job->width,
        .a_inner = 1,
        .b_inner = 1,
        .b_column = inner,
        .addend = bias != NULL ? (const char *)bias->data + bias_at * job->width : NULL,
        .addend_column = 1,
        .scale = 1,
        .addend_scale = 1};
    tn__product_run(&product, job->dtype);
}

static double recurrent_sum(const recurrent_job *job, uint64_t gate, uint64_t j) {
    return tn__real_get(&job->from_input, gate * job->hidden + j) +
           tn__real_get(&job->from_state, gate * job->hidden + j);
}

static void recurrent_step_rnn(const recurrent_job *job, const recurrent_activation *f) {
    for (uint64_t j = 0; j < job->hidden; j++)
        tn__real_set(&job->state, j, recurrent_apply(f, job->clip, recurrent_sum(job, 0, j)));
}

/* Gates z (update), r (reset), h. */
static void recurrent_step_gru(const recurrent_job *job, uint64_t direction,
                               const recurrent_activation *f) {
    uint64_t hidden = job->hidden;
    if (!job->linear_before_reset) {
        for (uint64_t j = 0; j < hidden; j++)
            tn__real_set(&job->reset, j,
                         recurrent_apply(&f[0], job->clip, recurrent_sum(job, 1, j)) *
                             tn__real_get(&job->state, j));
        recurrent_product(job, direction, true, job->reset.data, 2 * hidden, hidden);
    }
    for (uint64_t j = 0; j < hidden; j++) {
        double update = recurrent_apply(&f[0], job->clip, recurrent_sum(job, 0, j));
        double reset = 1, before = tn__real_get(&job->state, j);
        if (job->linear_before_reset)
            reset = recurrent_apply(&f[0], job->clip, recurrent_sum(job, 1, j));
        double now = tn__real_get(&job->from_input, 2 * hidden + j) +
                     reset * tn__real_get(&job->from_state, 2 * hidden + j);
        now = recurrent_apply(&f[1], job->clip, now);
        tn__real_set(&job->state, j, (1 - update) * now + update * before);
    }
}

/* Gates i (input), o (output), f (forget), c (cell); peepholes for i, o, f. */
static void recurrent_step_lstm(const recurrent_job *job, uint64_t direction,
                                const recurrent_activation *f) {
    const tn_operand *peep = tn__call_input(job->call, 7);
    uint64_t hidden = job->hidden, at = direction * 3 * hidden;
    for (uint64_t j = 0; j < hidden; j++) {
        double cell = tn__real_get(&job->cell, j), looks[3] = {0};
        for (uint32_t k = 0; k < 3 && peep != NULL; k++)
            looks[k] = tn__real_get(peep, at + k * hidden + j);
        double in = recurrent_apply(&f[0], job->clip, recurrent_sum(job, 0, j) + looks[0] * cell);
        double forget =
            job->input_forget
                ? 1 - in
                : recurrent_apply(&f[0], job->clip, recurrent_sum(job, 2, j) + looks[2] * cell);
        cell = forget * cell + in * recurrent_apply(&f[1], job->clip, recurrent_sum(job, 3, j));
        double out = recurrent_apply(&f[0], job->clip, recurrent_sum(job, 1, j) + looks[1] * cell);
        tn__real_set(&job->cell, j, cell);
        tn__real_set(&job->state, j, out * recurrent_apply(&f[2], INFINITY, cell));
    }
}

static void recurrent_step(const recurrent_job *job, uint64_t direction, uint64_t batch,
                           uint64_t step) {
    const recurrent_activation *f = &job->activations[direction * recurrent_functions[job->kind]];
    uint64_t row = job->batch_first ? batch * job->steps + step : step * job->batch + batch;
    uint64_t rows = job->gates * job->hidden;
    bool late = job->kind == RECURRENT_GRU && !job->linear_before_reset; /* its last gate waits */
    recurrent_product(job, direction, false,
                      (const char *)job->call->inputs[0].data + row * job->input * job->width, 0,
                      rows);
    recurrent_product(job, direction, true, job->state.data, 0, late ? 2 * job->hidden : rows);
    if (job->kind == RECURRENT_RNN) recurrent_step_rnn(job, f);
    if (job->kind == RECURRENT_GRU) recurrent_step_gru(job, direction, f);
    if (job->kind == RECURRENT_LSTM) recurrent_step_lstm(job, direction, f);
}

/* --- all steps --- */

/* A state from (or, with none, zeros) and to element `at` of an operand. */
static void recurrent_fetch(const recurrent_job *job, const tn_operand *from, uint64_t at,
                            tn_operand *to) {
    uint64_t size = job->hidden * job->width;
    if (from != NULL)
        memcpy(to->data, (const char *)from->data + at * job->width, size);
    else
        memset(to->data, 0, size);
}
static void recurrent_put(const recurrent_job *job, const tn_operand *from, tn_operand *to,
                          uint64_t at) {
    if (to == NULL) return;
    char *place = (char *)to->data + at * job->width;
    if (from != NULL)
        memcpy(place, from->data, job->hidden * job->width);
    else
        memset(place, 0, job->hidden * job->width);
}

static void recurrent_sequence(recurrent_job *job, uint64_t direction, uint64_t batch,
                               uint64_t length) {
    const tn_kernel_call *call = job->call;
    bool lstm = job->kind == RECURRENT_LSTM, backward = job->backward_first || direction == 1;
    uint64_t last =
        job->batch_first ? batch * job->directions + direction : direction * job->batch + batch;
    recurrent_fetch(job, tn__call_input(call, 5), last * job->hidden, &job->state);
    if (lstm) recurrent_fetch(job, tn__call_input(call, 6), last * job->hidden, &job->cell);
    for (uint64_t i = 0; i < job->steps; i++) {
        uint64_t step = i >= length ? i : backward ? length - 1 - i : i;
        uint64_t row = job->batch_first ? (batch * job->steps + step) * job->directions + direction
                                        : (step * job->directions + direction) * job->batch + batch;
        if (i < length) recurrent_step(job, direction, batch, step);
        recurrent_put(job, i < length ? &job->state : NULL, tn__call_output(call, 0),
                      row * job->hidden);
    }
    recurrent_put(job, &job->state, tn__call_output(call, 1), last * job->hidden);
    if (lstm) recurrent_put(job, &job->cell, tn__call_output(call, 2), last * job->hidden);
}

static tn_status recurrent_run(tn_kernel_call *call, recurrent_kind kind) {
    recurrent_job job;
    TN_TRY(recurrent_read(call, kind, &job));
    const tn_operand *lengths = tn__call_input(call, 4);
    for (uint64_t b = 0; b < job.batch && lengths != NULL; b++) {
        int64_t length = tn__operand_int(lengths, b);
        if (length < 0 || (uint64_t)length > job.steps)
            return tn__call_fail(call, TN_E_INVALID, "sequence %llu has length %lld of %llu",
                                 (unsigned long long)b, (long long)length,
                                 (unsigned long long)job.steps);
    }
    for (uint64_t d = 0; d < job.directions; d++)
        for (uint64_t b = 0; b < job.batch; b++)
            recurrent_sequence(&job, d, b,
                               lengths != NULL ? (uint64_t)tn__operand_int(lengths, b) : job.steps);
    return TN_OK;
}

static tn_status recurrent_run_rnn(tn_kernel_call *call) {
    return recurrent_run(call, RECURRENT_RNN);
}
static tn_status recurrent_run_gru(tn_kernel_call *call) {
    return recurrent_run(call, RECURRENT_GRU);
}
static tn_status recurrent_run_lstm(tn_kernel_call *call) {
    return recurrent_run(call, RECURRENT_LSTM);
}

static bool recurrent_accepts(const tn_kernel_setup *setup) {
    tn_dtype dtype = tn__input_type(setup, 0);
    uint64_t same = dtype < TN_DTYPE_COUNT ? UINT64_C(1) << dtype : 0;
    for (uint32_t i = 0; i < 8; i++)
        if (!tn__input_may_be(setup, i, i == 4 ? TN__TYPE(INT32) : same)) return false;
    for (uint32_t i = 0; i < 3; i++)
        if (!tn__output_may_be(setup, i, same)) return false;
    return tn__input_is(setup, 0, TN__TYPES_REAL);
}

static uint64_t recurrent_workspace(const tn_kernel_setup *setup) {
    const tn_tensor *r = tn__setup_input(setup, 2);
    if (r->rank != 3 || r->shape[2] < 0) return 0;
    return tn__mul_sat(recurrent_scratch(4, (uint64_t)r->shape[2]), tn_dtype_bits(r->dtype) / 8);
}

#define RECURRENT(name, with)                                                                      \
    .type = #name, .accepts = recurrent_accepts, .workspace = recurrent_workspace, .run = with
static const tn_kernel recurrent_kernels[] = {
    {RECURRENT(GRU, recurrent_run_gru)},
    {RECURRENT(LSTM, recurrent_run_lstm)},
    {RECURRENT(RNN, recurrent_run_rnn)},
};

TN_KERNEL_FAMILY(recurrent, "");
