/* recurrent.c - backward through LSTM, GRU and RNN.
 *
 * Only the operands are kept from the forward pass: gates and states are recomputed, one direction
 * at a time, into scratch, then visited backwards. Sums of gates and gradients of weights are
 * products over whole sequences; only h R^T and its gradient go step by step. With a the sums of
 * the gates, in the gates' order of ONNX:
 *
 *     LSTM  i, o, f, g: c' = f c + i g, h' = o tanh(c')
 *     GRU   z, r, n: n = tanh(W x + r (R h + b)), h' = (1 - z) n + z h   (linear_before_reset)
 *     RNN   h' = tanh(a) or relu(a)
 *
 * Curves are computed as approximate.h has them, but of float64. Scratch of `wide` holds activated
 * gates first and their gradients afterwards; GRU keeps its recurrent half apart (`deep`), as r
 * scales that half alone.
 * Source: Hochreiter, Schmidhuber 1997; Werbos 1990 (backpropagation through time).
 */
#include <math.h>

#include "engine/kernels/approximate.h"
#include "engine/kernels/convert.h"
#include "engine/kernels/product.h"

typedef enum recurrent_kind { RECURRENT_RNN, RECURRENT_GRU, RECURRENT_LSTM } recurrent_kind;

enum { IN_X, IN_W, IN_R, IN_B, IN_H, IN_C, IN_DY, IN_DH, IN_DC };
enum { OUT_X, OUT_W, OUT_R, OUT_B, OUT_H, OUT_C };

typedef struct recurrent_job {
    const tn_kernel_call *call;
    recurrent_kind kind;
    tn_dtype dtype;
    uint64_t size; /* bytes of an element */
    uint64_t steps, batch, input, hidden, directions, gates;
    bool reversed, rectified; /* the only direction runs backwards; RNN with Relu */
    /* scratch */
    tn_operand wide, deep; /* [steps, batch, gates hidden]; the same but for GRU */
    tn_operand h, c;       /* [steps + 1, batch, hidden], in the order of time of the sequence */
    tn_operand dh, dc;     /* [batch, hidden] */
    uint64_t direction;
    bool backwards; /* this direction */
} recurrent_job;

static const void *recurrent_at(const recurrent_job *job, const tn_operand *operand, uint64_t at) {
    return (const char *)operand->data + at * job->size;
}
static void *recurrent_to(const recurrent_job *job, const tn_operand *operand, uint64_t at) {
    return (char *)operand->data + at * job->size;
}

/* --- products --- */

/* c [rows, columns] = a b (+ c): steps in elements. */
typedef struct recurrent_factor {
    const void *data;
    uint64_t row, column; /* steps */
} recurrent_factor;

static void recurrent_multiply(const recurrent_job *job, uint64_t rows, uint64_t columns,
                               uint64_t inner, recurrent_factor a, recurrent_factor b, void *c,
                               bool add) {
    tn__product product = {.rows = rows,
                           .columns = columns,
                           .inner = inner,
                           .a = a.data,
                           .b = b.data,
                           .c = c,
                           .addend = add ? c : NULL,
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

/* --- where things are --- */

/* Time of the k-th step of this direction; the slot of the state before it and after it. */
static uint64_t recurrent_time(const recurrent_job *job, uint64_t k) {
    return job->backwards ? job->steps - 1 - k : k;
}
static uint64_t recurrent_slot(const recurrent_job *job, uint64_t time, bool after) {
    return (time + (job->backwards != after)) * job->batch * job->hidden;
}
static uint64_t recurrent_part(const recurrent_job *job) {
    return job->direction * job->batch * job->hidden;
}

/* Elements [at, at + count) of an operand that may be omitted: zeros then. */
static void recurrent_load(const tn_operand *operand, uint64_t at, uint64_t count, double *to) {
    if (operand != NULL && operand->data != NULL)
        tn__real_load(operand, at, 1, count, to);
    else
        for (uint64_t i = 0; i < count; i++) to[i] = 0;
}

static void recurrent_copy(const recurrent_job *job, const tn_operand *from, uint64_t at,
                           const tn_operand *to, uint64_t to_at) {
    uint64_t bytes = job->batch * job->hidden * job->size;
    if (from != NULL)
        memcpy(recurrent_to(job, to, to_at), recurrent_at(job, from, at), bytes);
    else
        memset(recurrent_to(job, to, to_at), 0, bytes);
}

/* --- forward, again --- */

/* The biases of a direction in every row of a gate operand; `half` 0: of W, 1: of R, 2: both. */
static void recurrent_bias(const recurrent_job *job, const tn_operand *gates, uint32_t half,
                           uint64_t first, uint64_t rows) {
    const tn_operand *bias = tn__call_input(job->call, IN_B);
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

typedef struct recurrent_tile {    /* some hidden units of one batch element at one time */
    uint64_t wide;                 /* of gate 0 */
    uint64_t before, after;        /* in h and c */
    uint64_t state, output, count; /* in dh and dc; in dY */
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

/* Calls `each` for all hidden units of a step. */
static void recurrent_step(const recurrent_job *job, uint64_t time,
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

static void recurrent_forward(const recurrent_job *job) {
    const tn_kernel_call *call = job->call;
    uint64_t width = job->gates * job->hidden, rows = job->steps * job->batch;
    const tn_operand *w = &call->inputs[IN_W], *r = &call->inputs[IN_R];
    recurrent_factor x = {call->inputs[IN_X].data, job->input, 1};
    recurrent_factor by_w = {recurrent_at(job, w, job->direction * width * job->input), 1,
                             job->input};
    recurrent_factor by_r = {recurrent_at(job, r, job->direction * width * job->hidden), 1,
                             job->hidden};
    bool apart = job->kind == RECURRENT_GRU;
    recurrent_bias(job, &job->wide, apart ? 0 : 2, 0, rows);
    recurrent_multiply(job, rows, width, job->input, x, by_w, job->wide.data, true);
    if (apart) recurrent_bias(job, &job->deep, 1, 0, rows);
    uint64_t start = recurrent_slot(job, recurrent_time(job, 0), false);
    recurrent_copy(job, tn__call_input(call, IN_H), recurrent_part(job), &job->h, start);
    if (job->kind == RECURRENT_LSTM)
        recurrent_copy(job, tn__call_input(call, IN_C), recurrent_part(job), &job->c, start);
    for (uint64_t k = 0; k < job->steps; k++) {
        uint64_t time = recurrent_time(job, k);
        recurrent_factor h = {recurrent_at(job, &job->h, recurrent_slot(job, time, false)),
                              job->hidden, 1};
        recurrent_multiply(job, job->batch, width, job->hidden, h, by_r,
                           recurrent_to(job, &job->deep, time * job->batch * width), true);
        recurrent_step(job, time, recurrent_forward_tile);
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
        dh[i] = 0; /* all of it comes through the gates */
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
    recurrent_load(tn__call_input(job->call, IN_DY), t->output, t->count, dy);
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
        recurrent_at(job, &call->inputs[IN_R], job->direction * width * job->hidden), job->hidden,
        1};
    recurrent_copy(job, tn__call_input(call, IN_DH), recurrent_part(job), &job->dh, 0);
    recurrent_copy(job, tn__call_input(call, IN_DC), recurrent_part(job), &job->dc, 0);
    for (uint64_t k = job->steps; k-- > 0;) {
        uint64_t time = recurrent_time(job, k);
        recurrent_step(job, time, recurrent_back_tile);
        recurrent_factor gates = {recurrent_at(job, &job->deep, time * job->batch * width), width,
                                  1};
        recurrent_multiply(job, job->batch, job->hidden, width, gates, by_r, job->dh.data, true);
    }
}

/* --- what it gives --- */

/* Sums over all rows of the gates' gradients, for both halves of the biases. */
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
        tn__real_store(&job->call->outputs[OUT_B], to + k, count, sum);
    }
}

static void recurrent_give(const recurrent_job *job) {
    const tn_kernel_call *call = job->call;
    uint64_t width = job->gates * job->hidden, rows = job->steps * job->batch;
    uint64_t d = job->direction;
    tn_operand *dx = tn__call_output(call, OUT_X), *dw = tn__call_output(call, OUT_W);
    tn_operand *dr = tn__call_output(call, OUT_R);
    recurrent_factor down = {job->wide.data, 1, width}, across = {job->wide.data, width, 1};
    recurrent_factor deep = {job->deep.data, 1, width};
    recurrent_factor x = {call->inputs[IN_X].data, job->input, 1};
    recurrent_factor w = {recurrent_at(job, &call->inputs[IN_W], d * width * job->input),
                          job->input, 1};
    recurrent_factor h = {recurrent_at(job, &job->h, job->backwards ? job->batch * job->hidden : 0),
                          job->hidden, 1};
    if (dx != NULL) recurrent_multiply(job, rows, job->input, width, across, w, dx->data, d > 0);
    if (dw != NULL)
        recurrent_multiply(job, width, job->input, rows, down, x,
                           recurrent_to(job, dw, d * width * job->input), false);
    if (dr != NULL)
        recurrent_multiply(job, width, job->hidden, rows, deep, h,
                           recurrent_to(job, dr, d * width * job->hidden), false);
    if (tn__call_output(call, OUT_B) != NULL) {
        recurrent_give_bias(job, &job->wide, 2 * width * d);
        recurrent_give_bias(job, &job->deep, 2 * width * d + width);
    }
    if (tn__call_output(call, OUT_H) != NULL)
        recurrent_copy(job, &job->dh, 0, tn__call_output(call, OUT_H), recurrent_part(job));
    if (tn__call_output(call, OUT_C) != NULL)
        recurrent_copy(job, &job->dc, 0, tn__call_output(call, OUT_C), recurrent_part(job));
}

/* --- the operator --- */

/* Elements of scratch: gates, recurrent halves of GRU, states, cells, carried gradients. */
static uint64_t recurrent_elements(uint64_t gates, uint64_t steps, uint64_t batch,
                                   uint64_t hidden) {
    uint64_t state = tn__mul_sat(batch, hidden), all = tn__mul_sat(steps, state);
    uint64_t wide = tn__mul_sat(gates == 3 ? 6 : gates, all);
    uint64_t states = tn__mul_sat(gates == 4 ? 2 : 1, tn__add_sat(all, state));
    return tn__add_sat(tn__add_sat(wide, states), tn__mul_sat(2, state));
}

static tn_operand recurrent_take(recurrent_job *job, char **at, uint64_t elements) {
    tn_operand taken = {.data = *at, .dtype = job->dtype};
    *at += elements * job->size;
    return taken;
}

static tn_status recurrent_scratch(recurrent_job *job) {
    uint64_t state = job->batch * job->hidden, all = job->steps * state;
    char *at = job->call->workspace;
    TN_TRY(tn__check_scratch(job->call,
                             recurrent_elements(job->gates, job->steps, job->batch, job->hidden) *
                                 job->size));
    job->wide = recurrent_take(job, &at, job->gates * all);
    job->deep = job->kind == RECURRENT_GRU ? recurrent_take(job, &at, job->gates * all) : job->wide;
    job->h = recurrent_take(job, &at, all + state);
    if (job->kind == RECURRENT_LSTM) job->c = recurrent_take(job, &at, all + state);
    job->dh = recurrent_take(job, &at, state);
    job->dc = recurrent_take(job, &at, state);
    return TN_OK;
}

static tn_status recurrent_check(const recurrent_job *job) {
    const tn_kernel_call *call = job->call;
    uint64_t state = job->directions * job->batch * job->hidden;
    uint64_t weights = job->directions * job->gates * job->hidden;
    TN_TRY(tn__check_count(call, IN_W, weights * job->input));
    TN_TRY(tn__check_count(call, IN_R, weights * job->hidden));
    TN_TRY(tn__check_count(call, IN_B, 2 * weights));
    TN_TRY(tn__check_count(call, IN_DY, state * job->steps));
    for (uint32_t i = IN_H; i <= IN_DC; i++)
        if (i != IN_DY) TN_TRY(tn__check_count(call, i, state));
    return TN_OK;
}

static tn_status recurrent_run(tn_kernel_call *call, uint64_t gates) {
    const tn_operand *x = &call->inputs[IN_X], *r = &call->inputs[IN_R];
    recurrent_job job = {
        .call = call, .dtype = x->dtype, .size = tn_dtype_bits(x->dtype) / 8, .gates = gates};
    if (x->rank != 3 || r->rank != 3)
        return tn__call_fail(call, TN_E_INVALID, "operands of rank %u and %u", x->rank, r->rank);
    job.kind = job.gates == 4 ? RECURRENT_LSTM : job.gates == 3 ? RECURRENT_GRU : RECURRENT_RNN;
    job.steps = (uint64_t)x->shape[0];
    job.batch = (uint64_t)x->shape[1];
    job.input = (uint64_t)x->shape[2];
    job.directions = (uint64_t)r->shape[0];
    job.hidden = (uint64_t)r->shape[2];
    job.reversed = tn__attr_int(call->op, "reversed", 0) != 0;
    job.rectified = tn__attr_int(call->op, "rectified", 0) != 0;
    TN_TRY(recurrent_check(&job));
    TN_TRY(recurrent_scratch(&job));
    for (job.direction = 0; job.direction < job.directions; job.direction++) {
        job.backwards = job.direction > 0 || job.reversed;
        recurrent_forward(&job);
        recurrent_backward(&job);
        recurrent_give(&job);
    }
    return TN_OK;
}

static uint64_t recurrent_workspace(const tn_kernel_setup *setup, uint64_t gates) {
    const tn_tensor *x = tn__setup_input(setup, IN_X), *r = tn__setup_input(setup, IN_R);
    if (x == NULL || r == NULL || x->rank != 3 || r->rank != 3) return 0;
    uint64_t elements = recurrent_elements(gates, (uint64_t)x->shape[0], (uint64_t)x->shape[1],
                                           (uint64_t)r->shape[2]);
    return tn__mul_sat(elements, tn_dtype_bits(x->dtype) / 8);
}

static bool recurrent_accepts(const tn_kernel_setup *setup) {
    tn_dtype dtype = tn__input_type(setup, IN_X);
    if (!tn__input_is(setup, IN_X, TN__TYPES_SUMMED)) return false;
    for (uint32_t i = 1; i <= IN_DC; i++)
        if (!tn__input_may_be(setup, i, UINT64_C(1) << dtype)) return false;
    return true;
}

#define RECURRENT(Cell, gates)                                                                     \
    static tn_status recurrent_run_##Cell(tn_kernel_call *call) {                                  \
        return recurrent_run(call, gates);                                                         \
    }                                                                                              \
    static uint64_t recurrent_workspace_##Cell(const tn_kernel_setup *setup) {                     \
        return recurrent_workspace(setup, gates);                                                  \
    }
RECURRENT(Gru, 3)
RECURRENT(Lstm, 4)
RECURRENT(Rnn, 1)

#define RECURRENT_ROW(Cell)                                                                        \
    {                                                                                              \
        .type = #Cell "Grad", .accepts = recurrent_accepts,                                        \
        .workspace = recurrent_workspace_##Cell, .run = recurrent_run_##Cell                       \
    }
static const tn_kernel train_recurrent_kernels[] = {
    RECURRENT_ROW(Gru),
    RECURRENT_ROW(Lstm),
    RECURRENT_ROW(Rnn),
};

TN_KERNEL_FAMILY(train_recurrent, "tenure");
