/* RNN, GRU and LSTM in plain loops against their equations, with every input and attribute. */
#include "count.h"
#include "nn.h"

#define STEPS 6
#define HIDDEN 9

typedef struct cell_case {
    uint32_t kind; /* 0 RNN, 1 GRU, 2 LSTM */
    int64_t gates, steps, batch, input, hidden, directions;
    bool batch_first, backward, reset_after, couples;
    double clip;
    uint32_t curves[6]; /* of `curve`; three per direction */
} cell_case;

static const char *const curve_names[] = {"Sigmoid", "Tanh", "Relu", "HardSigmoid", "Softsign"};

static double curve(uint32_t which, double x) {
    switch (which) {
    case 0:
        return 1 / (1 + exp(-x));
    case 1:
        return tanh(x);
    case 2:
        return x > 0 ? x : 0;
    case 3:
        return fmin(fmax(0.25 * x + 0.5, 0), 1); /* its alpha is given as 0.25 */
    default:
        return x / (1 + fabs(x));
    }
}

static double clipped(const cell_case *c, double x) { return fmin(fmax(x, -c->clip), c->clip); }

static double get(const nn_op *op, uint32_t input, int64_t at) {
    return op->inputs[input] != NULL ? number_get(op->inputs[input], (uint64_t)at) : 0;
}

/* Row `row` of W times x[t], of R times `state`, and their biases. */
static double from_input(const nn_op *op, const cell_case *c, int64_t d, int64_t b, int64_t t,
                         int64_t row) {
    int64_t rows = c->gates * c->hidden, at = c->batch_first ? b * c->steps + t : t * c->batch + b;
    double sum = get(op, 3, d * 2 * rows + row);
    for (int64_t i = 0; i < c->input; i++)
        sum += get(op, 0, at * c->input + i) * get(op, 1, (d * rows + row) * c->input + i);
    return sum;
}
static double from_state(const nn_op *op, const cell_case *c, int64_t d, const double *state,
                         int64_t row) {
    int64_t rows = c->gates * c->hidden;
    double sum = get(op, 3, (d * 2 + 1) * rows + row);
    for (int64_t i = 0; i < c->hidden; i++)
        sum += state[i] * get(op, 2, (d * rows + row) * c->hidden + i);
    return sum;
}

static void step_gru(const nn_op *op, const cell_case *c, int64_t d, int64_t b, int64_t t,
                     double *h) {
    int64_t n = c->hidden;
    double z[HIDDEN], r[HIDDEN], reset[HIDDEN], next[HIDDEN];
    const uint32_t *f = c->curves + 3 * d;
    for (int64_t j = 0; j < n; j++) {
        z[j] = curve(f[0], clipped(c, from_input(op, c, d, b, t, j) + from_state(op, c, d, h, j)));
        r[j] = curve(
            f[0], clipped(c, from_input(op, c, d, b, t, n + j) + from_state(op, c, d, h, n + j)));
        reset[j] = r[j] * h[j];
    }
    for (int64_t j = 0; j < n; j++) {
        double inner = c->reset_after ? r[j] * from_state(op, c, d, h, 2 * n + j)
                                      : from_state(op, c, d, reset, 2 * n + j);
        double now = curve(f[1], clipped(c, from_input(op, c, d, b, t, 2 * n + j) + inner));
        next[j] = (1 - z[j]) * now + z[j] * h[j];
    }
    memcpy(h, next, sizeof next);
}

static void step_lstm(const nn_op *op, const cell_case *c, int64_t d, int64_t b, int64_t t,
                      double *h, double *cell) {
    int64_t n = c->hidden, peep = d * 3 * n;
    double next[HIDDEN] = {0}, sums[4];
    const uint32_t *f = c->curves + 3 * d;
    for (int64_t j = 0; j < n; j++) { /* gates i o f c */
        for (int64_t g = 0; g < 4; g++)
            sums[g] = from_input(op, c, d, b, t, g * n + j) + from_state(op, c, d, h, g * n + j);
        double in = curve(f[0], clipped(c, sums[0] + get(op, 7, peep + j) * cell[j]));
        double keep = curve(f[0], clipped(c, sums[2] + get(op, 7, peep + 2 * n + j) * cell[j]));
        if (c->couples) keep = 1 - in;
        cell[j] = keep * cell[j] + in * curve(f[1], clipped(c, sums[3]));
        double out = curve(f[0], clipped(c, sums[1] + get(op, 7, peep + n + j) * cell[j]));
        next[j] = out * curve(f[2], cell[j]);
    }
    memcpy(h, next, sizeof next);
}

static void step(const nn_op *op, const cell_case *c, int64_t d, int64_t b, int64_t t, double *h,
                 double *cell) {
    double next[HIDDEN] = {0};
    if (c->kind == 1) step_gru(op, c, d, b, t, h);
    if (c->kind == 2) step_lstm(op, c, d, b, t, h, cell);
    if (c->kind != 0) return;
    for (int64_t j = 0; j < c->hidden; j++)
        next[j] = curve(c->curves[3 * d],
                        clipped(c, from_input(op, c, d, b, t, j) + from_state(op, c, d, h, j)));
    memcpy(h, next, sizeof next);
}

/* --- a random one --- */

static cell_case cell_draw(tn__random *random) {
    cell_case c = {.kind = (uint32_t)tn__random_below(random, 3),
                   .steps = nn_in(random, 1, STEPS),
                   .batch = nn_in(random, 1, 3),
                   .input = nn_in(random, 1, 40),
                   .hidden = nn_in(random, 1, HIDDEN),
                   .directions = 1 + !nn_often(random, 3),
                   .batch_first = !nn_often(random, 2),
                   .reset_after = !nn_often(random, 2),
                   .couples = !nn_often(random, 3),
                   .clip = nn_often(random, 3) ? (double)INFINITY : 0.5};
    c.gates = c.kind == 0 ? 1 : c.kind == 1 ? 3 : 4;
    c.backward = c.directions == 1 && !nn_often(random, 3);
    for (uint32_t i = 0; i < 6; i++) c.curves[i] = i % 3 > 0 || c.kind == 0;
    return c;
}

static void cell_curves(nn_op *op, tn__random *random, cell_case *c) {
    const char *names[6];
    uint32_t each = c->kind + 1, count = 0, alphas = 0;
    double alpha[6];
    for (uint32_t d = 0; d < (uint32_t)c->directions; d++)
        for (uint32_t i = 0; i < each; i++) {
            uint32_t which = (uint32_t)tn__random_below(random, 5);
            if (which == 2 && c->kind != 0) which = 1; /* products of Relu explode */
            c->curves[3 * d + i] = which;
            names[count++] = curve_names[c->curves[3 * d + i]];
            if (c->curves[3 * d + i] == 3) alpha[alphas++] = 0.25;
        }
    nn_strings(op, "activations", count, names);
    if (alphas == 0) return;
    nn_float(op, "activation_alpha", 0);
    tn_attr *attr = &op->attrs[op->attr_count - 1];
    memcpy(op->floats[op->attr_count - 1], alpha, alphas * sizeof *alpha);
    attr->type = TN_ATTR_FLOATS;
    attr->count = alphas;
}

static void cell_inputs(nn_op *op, tn__random *random, const cell_case *c) {
    int64_t rows = c->gates * c->hidden, dirs = c->directions;
    int64_t x[2][3] = {{c->steps, c->batch, c->input}, {c->batch, c->steps, c->input}};
    int64_t last[2][3] = {{dirs, c->batch, c->hidden}, {c->batch, dirs, c->hidden}};
    tn_dtype dtype = nn_often(random, 2) ? TN_FLOAT32 : TN_FLOAT64;
    nn_input(op, random, 0, dtype, 3, x[c->batch_first], -1, 1);
    nn_input(op, random, 1, dtype, 3, (int64_t[]){dirs, rows, c->input}, -1, 1);
    nn_input(op, random, 2, dtype, 3, (int64_t[]){dirs, rows, c->hidden}, -1, 1);
    if (nn_often(random, 2)) nn_input(op, random, 3, dtype, 2, (int64_t[]){dirs, 2 * rows}, -1, 1);
    if (nn_often(random, 2))
        nn_input(op, random, 4, TN_INT32, 1, &c->batch, 0, (double)c->steps + 1);
    if (nn_often(random, 2)) nn_input(op, random, 5, dtype, 3, last[c->batch_first], -1, 1);
    if (c->kind != 2) return;
    if (nn_often(random, 2)) nn_input(op, random, 6, dtype, 3, last[c->batch_first], -1, 1);
    if (nn_often(random, 2))
        nn_input(op, random, 7, dtype, 2, (int64_t[]){dirs, 3 * c->hidden}, -1, 1);
}

static void cell_attrs(nn_op *op, tn__random *random, cell_case *c) {
    nn_int(op, "hidden_size", c->hidden);
    nn_int(op, "layout", c->batch_first);
    if (c->directions == 2) nn_string(op, "direction", "bidirectional");
    if (c->backward) nn_string(op, "direction", "reverse");
    if (c->kind == 1) nn_int(op, "linear_before_reset", c->reset_after);
    if (c->kind == 2) nn_int(op, "input_forget", c->couples);
    if (c->clip < 1) nn_float(op, "clip", c->clip);
    if (!nn_often(random, 2)) cell_curves(op, random, c);
}

static void cell_near(const nn_op *op, uint32_t output, int64_t at, double want, uint64_t seed) {
    if (output < op->output_count)
        nn_near(op, output, (uint64_t)at, want, 8 + 8 * fabs(want), seed);
}

static void cell_check(const nn_op *op, const cell_case *c, int64_t d, int64_t b, uint64_t seed) {
    double h[HIDDEN] = {0}, cell[HIDDEN] = {0};
    int64_t n = c->hidden, length = op->inputs[4] != NULL ? (int64_t)get(op, 4, b) : c->steps;
    int64_t last = (c->batch_first ? b * c->directions + d : d * c->batch + b) * n;
    for (int64_t j = 0; j < n; j++) {
        h[j] = get(op, 5, last + j);
        cell[j] = get(op, 6, last + j);
    }
    for (int64_t i = 0; i < c->steps; i++) {
        int64_t t = i < length && (c->backward || d == 1) ? length - 1 - i : i;
        int64_t row = c->batch_first ? (b * c->steps + t) * c->directions + d
                                     : (t * c->directions + d) * c->batch + b;
        if (i < length) step(op, c, d, b, t, h, cell);
        for (int64_t j = 0; j < n; j++) cell_near(op, 0, row * n + j, i < length ? h[j] : 0, seed);
    }
    for (int64_t j = 0; j < n; j++) {
        cell_near(op, 1, last + j, h[j], seed);
        if (c->kind == 2) cell_near(op, 2, last + j, cell[j], seed);
    }
}

static void recurrent_networks_follow_their_equations(void **state) {
    (void)state;
    static const char *const types[] = {"RNN", "GRU", "LSTM"};
    for (uint64_t seed = 1; seed <= case_count(500, 50); seed++) {
        tn__random random = {seed};
        cell_case c = cell_draw(&random);
        nn_op op = {.type = types[c.kind], .version = 14};
        cell_inputs(&op, &random, &c);
        cell_attrs(&op, &random, &c);
        op.output_count = 1 + (uint32_t)tn__random_below(&random, c.kind == 2 ? 3 : 2);
        nn_run_well(&op, -1);
        for (int64_t d = 0; d < c.directions; d++)
            for (int64_t b = 0; b < c.batch; b++) cell_check(&op, &c, d, b, seed);
        nn_clear(&op);
    }
}

/* --- what is refused --- */

static nn_op cell_plain(tn__random *random) {
    nn_op op = {.type = "GRU", .version = 14};
    nn_input(&op, random, 0, TN_FLOAT32, 3, (int64_t[]){4, 2, 3}, -1, 1);
    nn_input(&op, random, 1, TN_FLOAT32, 3, (int64_t[]){1, 6, 3}, -1, 1);
    nn_input(&op, random, 2, TN_FLOAT32, 3, (int64_t[]){1, 6, 2}, -1, 1);
    return op;
}

/* An nn_op points into itself, so it is pointed right again after it was handed on. */
static void cell_refuses(nn_op *op, const char *why) {
    for (uint32_t i = 0; i < op->input_count; i++)
        op->inputs[i] = op->arrays[i].data != NULL ? &op->arrays[i] : NULL;
    nn_refuses(op, why);
}

static void recurrent_networks_refuse_what_does_not_fit(void **state) {
    (void)state;
    tn__random random = {1};
    nn_op op = cell_plain(&random);
    nn_input(&op, &random, 4, TN_INT32, 1, (int64_t[]){2}, 5, 6);
    cell_refuses(&op, "a sequence of 5 of 4 steps");
    op = cell_plain(&random);
    nn_input(&op, &random, 3, TN_FLOAT32, 2, (int64_t[]){1, 11}, 0, 1);
    cell_refuses(&op, "a short bias");
    op = cell_plain(&random);
    nn_input(&op, &random, 5, TN_FLOAT32, 3, (int64_t[]){1, 1, 2}, 0, 1);
    cell_refuses(&op, "an initial state of another batch");
    op = cell_plain(&random);
    nn_string(&op, "direction", "sideways");
    cell_refuses(&op, "the direction sideways");
    op = cell_plain(&random);
    const char *names[] = {"Sigmoid", "Tangent"};
    nn_strings(&op, "activations", 2, names);
    op.attrs[0].strings = names;
    cell_refuses(&op, "the activation Tangent");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recurrent_networks_follow_their_equations),
        cmocka_unit_test(recurrent_networks_refuse_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
