/* recurrent.c - RNN, GRU and LSTM, and their gradients.
 *
 * Forward, each direction of each sequence is computed separately, step by step. The sums of the
 * gates are two products of a matrix and a vector, with W and R, and the biases; the rest is
 * elementwise. A sequence that is shorter than the longest one ends early: its state remains, and
 * its later outputs are zero. In reverse direction, it starts at its own last step. Scratch memory:
 * the sums of all gates for W and for R, the state, the cell, and the state after the reset gate.
 * Source: the ONNX specifications, opsets 1 to 17.
 */
#include <math.h>
#include <strings.h>

#include "engine/kernels/convert.h"
#include "engine/kernels/loops/approximate.h"
#include "engine/kernels/loops/product.h"

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

/* --- reading the operator: extents, options, scratch memory --- */

typedef struct recurrent_job {
    const tn_kernel_call *call;
    recurrent_kind kind;
    tn_dtype dtype;
    uint64_t width; /* size of an element in bytes */
    uint64_t steps, batch, input, hidden, directions, gates;
    /* `backward_first`: the operator has one direction, which is reverse */
    bool batch_first, backward_first;
    bool linear_before_reset, input_forget;
    double clip;
    /* activations of the first direction, then those of the second */
    recurrent_activation activations[6];
    /* matrices in scratch memory, with elements of type `dtype` */
    tn_operand from_input, from_state, state, cell, reset;
    /* The fields from here on are used by gradients only. */
    bool rectified;     /* whether the RNN has the activation Relu */
    uint64_t direction; /* number of the current direction */
    bool backwards;     /* whether the current direction runs from the last step to the first */
    /* gates, [steps, batch, gates * hidden]; `deep` is used by GRU only and has the part of the
     * gates that comes from R */
    tn_operand wide, deep;
    tn_operand h, c; /* states, [steps + 1, batch, hidden], in the order of the sequence's steps */
    tn_operand dh, dc; /* gradients of the state and of the cell, [batch, hidden] */
} recurrent_job;

/* Reads the extents from X and R, for the forward operator or its gradient. */
static tn_status recurrent_begin(const tn_kernel_call *call, recurrent_kind kind, bool batch_first,
                                 recurrent_job *job) {
    const tn_operand *x = &call->inputs[0], *r = &call->inputs[2];
    if (x->rank != 3 || r->rank != 3)
        return tn__call_fail(call, TN_E_INVALID, "an input of rank %u, recurrence of rank %u",
                             x->rank, r->rank);
    *job = (recurrent_job){.call = call,
                           .kind = kind,
                           .dtype = x->dtype,
                           .width = tn_dtype_bits(x->dtype) / 8,
                           .gates = recurrent_gates[kind],
                           .batch_first = batch_first,
                           .steps = (uint64_t)x->shape[batch_first ? 1 : 0],
                           .batch = (uint64_t)x->shape[batch_first ? 0 : 1],
                           .input = (uint64_t)x->shape[2],
                           .hidden = (uint64_t)r->shape[2]};
    return TN_OK;
}

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
        /* the values are assigned, in order, to those activations that have a parameter */
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

/* Returns the number of elements of scratch memory of the forward operator. */
static uint64_t recurrent_scratch(uint64_t gates, uint64_t hidden) {
    return tn__mul_sat(tn__add_sat(2 * gates, 3), hidden);
}

static tn_status recurrent_read(tn_kernel_call *call, recurrent_kind kind, recurrent_job *job) {
    const int64_t hidden = call->inputs[2].rank == 3 ? call->inputs[2].shape[2] : 0;
    const char *direction = tn__attr_string(call->op, "direction", "forward");
    bool both = strcasecmp(direction, "bidirectional") == 0;
    bool backward = strcasecmp(direction, "reverse") == 0;
    if (!both && !backward && strcasecmp(direction, "forward") != 0)
        return tn__call_fail(call, TN_E_INVALID, "the direction '%.40s' is unknown", direction);
    TN_TRY(recurrent_begin(call, kind, tn__attr_int(call->op, "layout", 0) != 0, job));
    job->directions = both ? 2 : 1;
    job->backward_first = backward;
    job->linear_before_reset = tn__attr_int(call->op, "linear_before_reset", 0) != 0;
    job->input_forget = tn__attr_int(call->op, "input_forget", 0) != 0;
    job->clip = tn__attr_float(call->op, "clip", (double)INFINITY);
    if (tn__attr_int(call->op, "hidden_size", hidden) != hidden || hidden > INT64_MAX / 8)
        return tn__call_fail(call, TN_E_INVALID, "hidden_size is not the %lld of the recurrence",
                             (long long)hidden);
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

static const void *recurrent_at(const recurrent_job *job, const tn_operand *operand, uint64_t at) {
    return (const char *)operand->data + at * job->width;
}
static void *recurrent_to(const recurrent_job *job, const tn_operand *operand, uint64_t at) {
    return (char *)operand->data + at * job->width;
}

/* Copies elements from index `at` of one operand to index `to_at` of another. `from` NULL: writes
 * zeros. */
static void recurrent_move(const recurrent_job *job, uint64_t count, const tn_operand *from,
                           uint64_t at, const tn_operand *to, uint64_t to_at) {
    if (from != NULL)
        memcpy(recurrent_to(job, to, to_at), recurrent_at(job, from, at), count * job->width);
    else
        memset(recurrent_to(job, to, to_at), 0, count * job->width);
}

/* A factor of recurrent_multiply, which computes c = a b + addend, with [rows, columns] elements
 * and no addend if it is NULL. Strides are in elements. */
typedef struct recurrent_factor {
    const void *data;
    uint64_t row, column; /* steps */
} recurrent_factor;

static void recurrent_multiply(const recurrent_job *job, uint64_t rows, uint64_t columns,
                               uint64_t inner, recurrent_factor a, recurrent_factor b,
                               const void *addend, void *c) {
    tn__product product = {.rows = rows,
                           .columns = columns,
                           .inner = inner,
                           .a = a.data,
                           .b = b.data,
                           .c = c,
                           .addend = addend,
                           .a_row = a.row,
                           .a_inner = a.column,
                           .b_inner = b.row,
                           .b_column = b.column,
                           .c_row = columns,
                           .addend_row = columns,
                           .addend_column = 1,
                           .scale = 1,
                           .addend_scale = 1};
    tn__product_run(&product, job->dtype);
}

/* --- one step of a cell --- */

/* Computes rows [first, first + rows) of W (or, with `recurrence`, R) times a vector, plus bias.
 * Rows are counted within one direction. */
static void recurrent_product(const recurrent_job *job, uint64_t direction, bool recurrence,
                              const void *vector, uint64_t first, uint64_t rows) {
    const tn_operand *matrix = &job->call->inputs[recurrence ? 2 : 1];
    const tn_operand *bias = tn__call_input(job->call, 3);
    const tn_operand *to = recurrence ? &job->from_state : &job->from_input;
    uint64_t all = job->gates * job->hidden, inner = recurrence ? job->hidden : job->input;
    uint64_t bias_at = (direction * 2 + recurrence) * all + first;
    recurrent_factor a = {vector, inner, 1};
    recurrent_factor b = {recurrent_at(job, matrix, (direction * all + first) * inner), 1, inner};
    recurrent_multiply(job, 1, rows, inner, a, b,
                       bias != NULL ? recurrent_at(job, bias, bias_at) : NULL,
                       recurrent_to(job, to, first));
}

static double recurrent_sum(const recurrent_job *job, uint64_t gate, uint64_t j) {
    return tn__real_get(&job->from_input, gate * job->hidden + j) +
           tn__real_get(&job->from_state, gate * job->hidden + j);
}

static void recurrent_step_rnn(const recurrent_job *job, const recurrent_activation *f) {
    for (uint64_t j = 0; j < job->hidden; j++)
        tn__real_set(&job->state, j, recurrent_apply(f, job->clip, recurrent_sum(job, 0, j)));
}

/* Computes the state after one step of a GRU. Gates: z (update), r (reset), h. */
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

/* Computes cell and state after one step of an LSTM. Gates: i (input), o (output), f (forget), c
 * (cell). Peepholes exist for i, o and f. */
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
    /* the sums of GRU's last gate need the reset gate first */
    bool late = job->kind == RECURRENT_GRU && !job->linear_before_reset;
    recurrent_product(job, direction, false,
                      (const char *)job->call->inputs[0].data + row * job->input * job->width, 0,
                      rows);
    recurrent_product(job, direction, true, job->state.data, 0, late ? 2 * job->hidden : rows);
    if (job->kind == RECURRENT_RNN) recurrent_step_rnn(job, f);
    if (job->kind == RECURRENT_GRU) recurrent_step_gru(job, direction, f);
    if (job->kind == RECURRENT_LSTM) recurrent_step_lstm(job, direction, f);
}

/* --- all steps of a sequence --- */

static void recurrent_sequence(recurrent_job *job, uint64_t direction, uint64_t batch,
                               uint64_t length) {
    const tn_kernel_call *call = job->call;
    const tn_operand *y = tn__call_output(call, 0), *h = tn__call_output(call, 1);
    const tn_operand *c = tn__call_output(call, 2);
    bool lstm = job->kind == RECURRENT_LSTM, backward = job->backward_first || direction == 1;
    uint64_t last =
        job->batch_first ? batch * job->directions + direction : direction * job->batch + batch;
    recurrent_move(job, job->hidden, tn__call_input(call, 5), last * job->hidden, &job->state, 0);
    if (lstm)
        recurrent_move(job, job->hidden, tn__call_input(call, 6), last * job->hidden, &job->cell,
                       0);
    for (uint64_t i = 0; i < job->steps; i++) {
        uint64_t step = i >= length ? i : backward ? length - 1 - i : i;
        uint64_t row = job->batch_first ? (batch * job->steps + step) * job->directions + direction
                                        : (step * job->directions + direction) * job->batch + batch;
        if (i < length) recurrent_step(job, direction, batch, step);
        if (y != NULL)
            recurrent_move(job, job->hidden, i < length ? &job->state : NULL, 0, y,
                           row * job->hidden);
    }
    if (h != NULL) recurrent_move(job, job->hidden, &job->state, 0, h, last * job->hidden);
    if (c != NULL && lstm) recurrent_move(job, job->hidden, &job->cell, 0, c, last * job->hidden);
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

/* --- gradients: LstmGrad, GruGrad, RnnGrad ---
 *
 * Only the operands of the forward pass are kept. Gates and states are recomputed in scratch
 * memory, one direction at a time, and then visited backwards. The sums of gates over W and the
 * gradients of weights are products over whole sequences; only h R^T and its gradient are computed
 * step by step. The equations, with the gates in ONNX's order and `a` the sum of an RNN's gate:
 *
 *     LSTM  i, o, f, g: c' = f c + i g, h' = o tanh(c')
 *     GRU   z, r, n: n = tanh(W x + r (R h + b)), h' = (1 - z) n + z h   (linear_before_reset)
 *     RNN   h' = tanh(a) or relu(a)
 *
 * Activations of float32 are those of approximate.h, those of float64 from the C library. The
 * scratch memory `wide` first has the activated gates and then their gradients. For GRU, the part
 * of the gates from R is separate (`deep`), because r multiplies that part alone.
 * Source: Hochreiter, Schmidhuber 1997; Werbos 1990 (backpropagation through time).
 */

enum {
    RECURRENT_IN_X,
    RECURRENT_IN_W,
    RECURRENT_IN_R,
    RECURRENT_IN_B,
    RECURRENT_IN_H,
    RECURRENT_IN_C,
    RECURRENT_IN_DY,
    RECURRENT_IN_DH,
    RECURRENT_IN_DC
};
enum {
    RECURRENT_OUT_X,
    RECURRENT_OUT_W,
    RECURRENT_OUT_R,
    RECURRENT_OUT_B,
    RECURRENT_OUT_H,
    RECURRENT_OUT_C
};

/* Positions in the scratch memory. recurrent_time: the step that this direction visits as its k-th.
 * recurrent_slot: index of the state before or after a step. recurrent_part: index of this
 * direction's part of an operand. */
static uint64_t recurrent_time(const recurrent_job *job, uint64_t k) {
    return job->backwards ? job->steps - 1 - k : k;
}
static uint64_t recurrent_slot(const recurrent_job *job, uint64_t time, bool after) {
    return (time + (job->backwards != after)) * job->batch * job->hidden;
}
static uint64_t recurrent_part(const recurrent_job *job) {
    return job->direction * job->batch * job->hidden;
}

/* Loads elements [at, at + count) of an operand; zeros if the operand is omitted. */
static void recurrent_load(const tn_operand *operand, uint64_t at, uint64_t count, double *to) {
    if (operand != NULL && operand->data != NULL)
        tn__real_load(operand, at, 1, count, to);
    else
        for (uint64_t i = 0; i < count; i++) to[i] = 0;
}

static void recurrent_copy(const recurrent_job *job, const tn_operand *from, uint64_t at,
                           const tn_operand *to, uint64_t to_at) {
    recurrent_move(job, job->batch * job->hidden, from, at, to, to_at);
}

/* --- the forward pass, which the gradient recomputes --- */

/* Writes the biases of the current direction to every row of gates. `half`: 0 for the biases of W,
 * 1 for those of R, 2 for their sum. */
static void recurrent_bias(const recurrent_job *job, const tn_operand *gates, uint32_t half,
                           uint64_t first, uint64_t rows) {
    const tn_operand *bias = tn__call_input(job->call, RECURRENT_IN_B);
    uint64_t width = job->gates * job->hidden, from = 2 * width * job->direction;
    double own[TN__REAL_TILE], other[TN__REAL_TILE];
    for (uint64_t k = 0; k < width; k += TN__REAL_TILE) {
        uint64_t count = width - k < TN__REAL_TILE ? width - k : TN__REAL_TILE;
        recurrent_load(bias, from + (half == 1 ? width : 0) + k, count, own);
        recurrent_load(half == 2 ? bias : NULL, from + width + k, count, other);
        for (uint64_t i = 0; i < count; i++) own[i] += other[i];
        for (uint64_t r = 0; r < rows; r++)
            tn__real_store(gates, first + r * width + k, count, own);
    }
}

TN_WIDE static void recurrent_logistic_floats(double *values, uint64_t count) {
    TN_APART
    for (uint64_t i = 0; i < count; i++) values[i] = (double)tn__logisticf((float)values[i]);
}
TN_WIDE static void recurrent_tanh_floats(double *values, uint64_t count) {
    TN_APART
    for (uint64_t i = 0; i < count; i++) values[i] = (double)tn__tanhf((float)values[i]);
}

static void recurrent_logistic(const recurrent_job *job, double *values, uint64_t count) {
    if (job->dtype != TN_FLOAT64)
        recurrent_logistic_floats(values, count);
    else
        for (uint64_t i = 0; i < count; i++) values[i] = 1 / (1 + exp(-values[i]));
}
static void recurrent_tanh(const recurrent_job *job, double *values, uint64_t count) {
    if (job->dtype != TN_FLOAT64)
        recurrent_tanh_floats(values, count);
    else
        for (uint64_t i = 0; i < count; i++) values[i] = tanh(values[i]);
}

/* Some hidden units of one batch entry at one step: the indices at which each operand has them. */
typedef struct recurrent_tile {
    uint64_t wide;          /* index of the first gate of the tile's units */
    uint64_t before, after; /* indices of the states before and after the step, in h and c */
    /* `state`: index in dh and dc; `output`: index in dY; `count`: number of hidden units */
    uint64_t state, output, count;
} recurrent_tile;

static void recurrent_gates_load(const recurrent_job *job, const tn_operand *from,
                                 const recurrent_tile *t, double (*g)[TN__REAL_TILE]) {
    for (uint64_t k = 0; k < job->gates; k++)
        tn__real_load(from, t->wide + k * job->hidden, 1, t->count, g[k]);
}
static void recurrent_gates_store(const recurrent_job *job, const tn_operand *to,
                                  const recurrent_tile *t, double (*g)[TN__REAL_TILE]) {
    for (uint64_t k = 0; k < job->gates; k++)
        tn__real_store(to, t->wide + k * job->hidden, t->count, g[k]);
}

TN_WIDE static void recurrent_forward_tile(const recurrent_job *job, const recurrent_tile *t) {
    double g[4][TN__REAL_TILE], q[4][TN__REAL_TILE], h[TN__REAL_TILE], c[TN__REAL_TILE];
    double curve[TN__REAL_TILE];
    recurrent_gates_load(job, &job->wide, t, g);
    tn__real_load(&job->h, t->before, 1, t->count, h);
    if (job->kind == RECURRENT_LSTM) {
        tn__real_load(&job->c, t->before, 1, t->count, c);
        for (uint32_t k = 0; k < 3; k++) recurrent_logistic(job, g[k], t->count);
        recurrent_tanh(job, g[3], t->count);
        for (uint64_t i = 0; i < t->count; i++)
            curve[i] = c[i] = g[2][i] * c[i] + g[0][i] * g[3][i];
        recurrent_tanh(job, curve, t->count);
        for (uint64_t i = 0; i < t->count; i++) h[i] = g[1][i] * curve[i];
        tn__real_store(&job->c, t->after, t->count, c);
    } else if (job->kind == RECURRENT_GRU) {
        recurrent_gates_load(job, &job->deep, t, q);
        for (uint32_t k = 0; k < 2; k++) {
            for (uint64_t i = 0; i < t->count; i++) g[k][i] += q[k][i];
            recurrent_logistic(job, g[k], t->count);
        }
        for (uint64_t i = 0; i < t->count; i++) g[2][i] += g[1][i] * q[2][i];
        recurrent_tanh(job, g[2], t->count);
        for (uint64_t i = 0; i < t->count; i++) h[i] = (1 - g[0][i]) * g[2][i] + g[0][i] * h[i];
    } else {
        if (!job->rectified) recurrent_tanh(job, g[0], t->count);
        for (uint64_t i = 0; i < t->count; i++)
            h[i] = g[0][i] = job->rectified && !(g[0][i] > 0) ? 0 : g[0][i];
    }
    recurrent_gates_store(job, &job->wide, t, g);
    tn__real_store(&job->h, t->after, t->count, h);
}

/* Calls `each` for all hidden units of all batch entries at one step, a tile at a time. */
static void recurrent_back_step(const recurrent_job *job, uint64_t time,
                                void (*each)(const recurrent_job *, const recurrent_tile *)) {
    uint64_t width = job->gates * job->hidden;
    for (uint64_t b = 0; b < job->batch; b++)
        for (uint64_t k = 0; k < job->hidden; k += TN__REAL_TILE) {
            uint64_t unit = b * job->hidden + k;
            recurrent_tile tile = {.wide = (time * job->batch + b) * width + k,
                                   .before = recurrent_slot(job, time, false) + unit,
                                   .after = recurrent_slot(job, time, true) + unit,
                                   .state = unit,
                                   .output = time * job->directions * job->batch * job->hidden +
                                             recurrent_part(job) + unit,
                                   .count = job->hidden - k < TN__REAL_TILE ? job->hidden - k
                                                                            : TN__REAL_TILE};
            each(job, &tile);
        }
}

static void recurrent_back_forward(const recurrent_job *job) {
    const tn_kernel_call *call = job->call;
    uint64_t width = job->gates * job->hidden, rows = job->steps * job->batch;
    const tn_operand *w = &call->inputs[RECURRENT_IN_W], *r = &call->inputs[RECURRENT_IN_R];
    recurrent_factor x = {call->inputs[RECURRENT_IN_X].data, job->input, 1};
    recurrent_factor by_w = {recurrent_at(job, w, job->direction * width * job->input), 1,
                             job->input};
    recurrent_factor by_r = {recurrent_at(job, r, job->direction * width * job->hidden), 1,
                             job->hidden};
    bool apart = job->kind == RECURRENT_GRU;
    recurrent_bias(job, &job->wide, apart ? 0 : 2, 0, rows);
    recurrent_multiply(job, rows, width, job->input, x, by_w, job->wide.data, job->wide.data);
    if (apart) recurrent_bias(job, &job->deep, 1, 0, rows);
    uint64_t start = recurrent_slot(job, recurrent_time(job, 0), false);
    recurrent_copy(job, tn__call_input(call, RECURRENT_IN_H), recurrent_part(job), &job->h, start);
    if (job->kind == RECURRENT_LSTM)
        recurrent_copy(job, tn__call_input(call, RECURRENT_IN_C), recurrent_part(job), &job->c,
                       start);
    for (uint64_t k = 0; k < job->steps; k++) {
        uint64_t time = recurrent_time(job, k);
        recurrent_factor h = {recurrent_at(job, &job->h, recurrent_slot(job, time, false)),
                              job->hidden, 1};
        recurrent_multiply(job, job->batch, width, job->hidden, h, by_r,
                           recurrent_to(job, &job->deep, time * job->batch * width),
                           recurrent_to(job, &job->deep, time * job->batch * width));
        recurrent_back_step(job, time, recurrent_forward_tile);
    }
}

/* --- backward --- */

TN_WIDE static void recurrent_lstm_back(const recurrent_job *job, const recurrent_tile *t,
                                        double (*g)[TN__REAL_TILE], double *dh) {
    double curves[TN__REAL_TILE], before[TN__REAL_TILE], dc[TN__REAL_TILE];
    tn__real_load(&job->c, t->after, 1, t->count, curves);
    tn__real_load(&job->c, t->before, 1, t->count, before);
    tn__real_load(&job->dc, t->state, 1, t->count, dc);
    recurrent_tanh(job, curves, t->count);
    TN_APART
    for (uint64_t i = 0; i < t->count; i++) {
        double in = g[0][i], out = g[1][i], forget = g[2][i], cell = g[3][i], curve = curves[i];
        double d = dc[i] + dh[i] * out * (1 - curve * curve);
        g[0][i] = d * cell * in * (1 - in);
        g[1][i] = dh[i] * curve * out * (1 - out);
        g[2][i] = d * before[i] * forget * (1 - forget);
        g[3][i] = d * in * (1 - cell * cell);
        dc[i] = d * forget;
        dh[i] = 0; /* an LSTM's state influences the next step only through its gates */
    }
    tn__real_store(&job->dc, t->state, t->count, dc);
}

static void recurrent_gru_back(const recurrent_job *job, const recurrent_tile *t,
                               double (*g)[TN__REAL_TILE], double *dh) {
    double q[4][TN__REAL_TILE], h[TN__REAL_TILE];
    recurrent_gates_load(job, &job->deep, t, q);
    tn__real_load(&job->h, t->before, 1, t->count, h);
    for (uint64_t i = 0; i < t->count; i++) {
        double z = g[0][i], r = g[1][i], n = g[2][i];
        double dn = dh[i] * (1 - z) * (1 - n * n);
        g[0][i] = q[0][i] = dh[i] * (h[i] - n) * z * (1 - z);
        g[1][i] = q[1][i] = dn * q[2][i] * r * (1 - r);
        g[2][i] = dn;
        q[2][i] = dn * r;
        dh[i] *= z;
    }
    recurrent_gates_store(job, &job->deep, t, q);
}

static void recurrent_back_tile(const recurrent_job *job, const recurrent_tile *t) {
    double g[4][TN__REAL_TILE], dh[TN__REAL_TILE], dy[TN__REAL_TILE];
    recurrent_gates_load(job, &job->wide, t, g);
    tn__real_load(&job->dh, t->state, 1, t->count, dh);
    recurrent_load(tn__call_input(job->call, RECURRENT_IN_DY), t->output, t->count, dy);
    for (uint64_t i = 0; i < t->count; i++) dh[i] += dy[i];
    if (job->kind == RECURRENT_LSTM) {
        recurrent_lstm_back(job, t, g, dh);
    } else if (job->kind == RECURRENT_GRU) {
        recurrent_gru_back(job, t, g, dh);
    } else {
        for (uint64_t i = 0; i < t->count; i++) {
            double y = g[0][i];
            g[0][i] = dh[i] * (job->rectified ? y > 0 : 1 - y * y);
            dh[i] = 0;
        }
    }
    recurrent_gates_store(job, &job->wide, t, g);
    tn__real_store(&job->dh, t->state, t->count, dh);
}

static void recurrent_backward(const recurrent_job *job) {
    const tn_kernel_call *call = job->call;
    uint64_t width = job->gates * job->hidden;
    recurrent_factor by_r = {
        recurrent_at(job, &call->inputs[RECURRENT_IN_R], job->direction * width * job->hidden),
        job->hidden, 1};
    recurrent_copy(job, tn__call_input(call, RECURRENT_IN_DH), recurrent_part(job), &job->dh, 0);
    recurrent_copy(job, tn__call_input(call, RECURRENT_IN_DC), recurrent_part(job), &job->dc, 0);
    for (uint64_t k = job->steps; k-- > 0;) {
        uint64_t time = recurrent_time(job, k);
        recurrent_back_step(job, time, recurrent_back_tile);
        recurrent_factor gates = {recurrent_at(job, &job->deep, time * job->batch * width), width,
                                  1};
        recurrent_multiply(job, job->batch, job->hidden, width, gates, by_r, job->dh.data,
                           job->dh.data);
    }
}

/* --- the gradients of the operands --- */

/* Writes the gradients of the biases of W or R: the gates' gradients, summed over all steps and
 * batch entries. */
static void recurrent_give_bias(const recurrent_job *job, const tn_operand *gates, uint64_t to) {
    uint64_t width = job->gates * job->hidden, rows = job->steps * job->batch;
    double sum[TN__REAL_TILE], row[TN__REAL_TILE];
    for (uint64_t k = 0; k < width; k += TN__REAL_TILE) {
        uint64_t count = width - k < TN__REAL_TILE ? width - k : TN__REAL_TILE;
        for (uint64_t i = 0; i < count; i++) sum[i] = 0;
        for (uint64_t r = 0; r < rows; r++) {
            tn__real_load(gates, r * width + k, 1, count, row);
            for (uint64_t i = 0; i < count; i++) sum[i] += row[i];
        }
        tn__real_store(&job->call->outputs[RECURRENT_OUT_B], to + k, count, sum);
    }
}

static void recurrent_give(const recurrent_job *job) {
    const tn_kernel_call *call = job->call;
    uint64_t width = job->gates * job->hidden, rows = job->steps * job->batch;
    uint64_t d = job->direction;
    tn_operand *dx = tn__call_output(call, RECURRENT_OUT_X),
               *dw = tn__call_output(call, RECURRENT_OUT_W);
    tn_operand *dr = tn__call_output(call, RECURRENT_OUT_R);
    recurrent_factor down = {job->wide.data, 1, width}, across = {job->wide.data, width, 1};
    recurrent_factor deep = {job->deep.data, 1, width};
    recurrent_factor x = {call->inputs[RECURRENT_IN_X].data, job->input, 1};
    recurrent_factor w = {recurrent_at(job, &call->inputs[RECURRENT_IN_W], d * width * job->input),
                          job->input, 1};
    recurrent_factor h = {recurrent_at(job, &job->h, job->backwards ? job->batch * job->hidden : 0),
                          job->hidden, 1};
    if (dx != NULL)
        recurrent_multiply(job, rows, job->input, width, across, w, d > 0 ? dx->data : NULL,
                           dx->data);
    if (dw != NULL)
        recurrent_multiply(job, width, job->input, rows, down, x, NULL,
                           recurrent_to(job, dw, d * width * job->input));
    if (dr != NULL)
        recurrent_multiply(job, width, job->hidden, rows, deep, h, NULL,
                           recurrent_to(job, dr, d * width * job->hidden));
    if (tn__call_output(call, RECURRENT_OUT_B) != NULL) {
        recurrent_give_bias(job, &job->wide, 2 * width * d);
        recurrent_give_bias(job, &job->deep, 2 * width * d + width);
    }
    if (tn__call_output(call, RECURRENT_OUT_H) != NULL)
        recurrent_copy(job, &job->dh, 0, tn__call_output(call, RECURRENT_OUT_H),
                       recurrent_part(job));
    if (tn__call_output(call, RECURRENT_OUT_C) != NULL)
        recurrent_copy(job, &job->dc, 0, tn__call_output(call, RECURRENT_OUT_C),
                       recurrent_part(job));
}

/* --- running the gradient --- */

/* Returns the number of elements of scratch memory of the gradient: gates, the parts of GRU's gates
 * from R, states, cells, and the gradients of state and cell. */
static uint64_t recurrent_back_elements(uint64_t gates, uint64_t steps, uint64_t batch,
                                        uint64_t hidden) {
    uint64_t state = tn__mul_sat(batch, hidden), all = tn__mul_sat(steps, state);
    uint64_t wide = tn__mul_sat(gates == 3 ? 6 : gates, all);
    uint64_t states = tn__mul_sat(gates == 4 ? 2 : 1, tn__add_sat(all, state));
    return tn__add_sat(tn__add_sat(wide, states), tn__mul_sat(2, state));
}

static tn_operand recurrent_back_take(recurrent_job *job, char **at, uint64_t elements) {
    tn_operand taken = {.data = *at, .dtype = job->dtype};
    *at += elements * job->width;
    return taken;
}

static tn_status recurrent_back_scratch(recurrent_job *job) {
    uint64_t state = job->batch * job->hidden, all = job->steps * state;
    char *at = job->call->workspace;
    TN_TRY(tn__check_scratch(
        job->call,
        recurrent_back_elements(job->gates, job->steps, job->batch, job->hidden) * job->width));
    job->wide = recurrent_back_take(job, &at, job->gates * all);
    job->deep =
        job->kind == RECURRENT_GRU ? recurrent_back_take(job, &at, job->gates * all) : job->wide;
    job->h = recurrent_back_take(job, &at, all + state);
    if (job->kind == RECURRENT_LSTM) job->c = recurrent_back_take(job, &at, all + state);
    job->dh = recurrent_back_take(job, &at, state);
    job->dc = recurrent_back_take(job, &at, state);
    return TN_OK;
}

static tn_status recurrent_back_check(const recurrent_job *job) {
    const tn_kernel_call *call = job->call;
    uint64_t state = job->directions * job->batch * job->hidden;
    uint64_t weights = job->directions * job->gates * job->hidden;
    TN_TRY(tn__check_count(call, RECURRENT_IN_W, weights * job->input));
    TN_TRY(tn__check_count(call, RECURRENT_IN_R, weights * job->hidden));
    TN_TRY(tn__check_count(call, RECURRENT_IN_B, 2 * weights));
    TN_TRY(tn__check_count(call, RECURRENT_IN_DY, state * job->steps));
    for (uint32_t i = RECURRENT_IN_H; i <= RECURRENT_IN_DC; i++)
        if (i != RECURRENT_IN_DY) TN_TRY(tn__check_count(call, i, state));
    return TN_OK;
}

static tn_status recurrent_back_run(tn_kernel_call *call, recurrent_kind kind) {
    recurrent_job job;
    TN_TRY(recurrent_begin(call, kind, false, &job));
    job.directions = (uint64_t)call->inputs[RECURRENT_IN_R].shape[0];
    job.backward_first = tn__attr_int(call->op, "reversed", 0) != 0;
    job.rectified = tn__attr_int(call->op, "rectified", 0) != 0;
    TN_TRY(recurrent_back_check(&job));
    TN_TRY(recurrent_back_scratch(&job));
    for (job.direction = 0; job.direction < job.directions; job.direction++) {
        job.backwards = job.direction > 0 || job.backward_first;
        recurrent_back_forward(&job);
        recurrent_backward(&job);
        recurrent_give(&job);
    }
    return TN_OK;
}

static uint64_t recurrent_back_workspace(const tn_kernel_setup *setup, uint64_t gates) {
    const tn_tensor *x = tn__setup_input(setup, RECURRENT_IN_X),
                    *r = tn__setup_input(setup, RECURRENT_IN_R);
    if (x == NULL || r == NULL || x->rank != 3 || r->rank != 3) return 0;
    uint64_t elements = recurrent_back_elements(gates, (uint64_t)x->shape[0], (uint64_t)x->shape[1],
                                                (uint64_t)r->shape[2]);
    return tn__mul_sat(elements, tn_dtype_bits(x->dtype) / 8);
}

static bool recurrent_back_accepts(const tn_kernel_setup *setup) {
    tn_dtype dtype = tn__input_type(setup, RECURRENT_IN_X);
    if (!tn__input_is(setup, RECURRENT_IN_X, TN__TYPES_SUMMED)) return false;
    for (uint32_t i = 1; i <= RECURRENT_IN_DC; i++)
        if (!tn__input_may_be(setup, i, UINT64_C(1) << dtype)) return false;
    return true;
}

#define RECURRENT_CELL(Cell, kind)                                                                 \
    static tn_status recurrent_run_##Cell(tn_kernel_call *call) {                                  \
        return recurrent_run(call, kind);                                                          \
    }                                                                                              \
    static tn_status recurrent_back_run_##Cell(tn_kernel_call *call) {                             \
        return recurrent_back_run(call, kind);                                                     \
    }                                                                                              \
    static uint64_t recurrent_back_workspace_##Cell(const tn_kernel_setup *setup) {                \
        return recurrent_back_workspace(setup, recurrent_gates[kind]);                             \
    }
RECURRENT_CELL(Gru, RECURRENT_GRU)
RECURRENT_CELL(Lstm, RECURRENT_LSTM)
RECURRENT_CELL(Rnn, RECURRENT_RNN)

#define RECURRENT_BACK_ROW(Cell)                                                                   \
    .domain = "tenure", .type = #Cell "Grad", .accepts = recurrent_back_accepts,                   \
    .workspace = recurrent_back_workspace_##Cell, .run = recurrent_back_run_##Cell

static const tn_kernel recurrent_kernels[] = {
    {RECURRENT(GRU, recurrent_run_Gru)}, {RECURRENT(LSTM, recurrent_run_Lstm)},
    {RECURRENT(RNN, recurrent_run_Rnn)}, {RECURRENT_BACK_ROW(Gru)},
    {RECURRENT_BACK_ROW(Lstm)},          {RECURRENT_BACK_ROW(Rnn)},
};

TN_KERNEL_FAMILY(recurrent, "");
