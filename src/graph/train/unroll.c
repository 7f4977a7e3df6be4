/* unroll.c - unrolls an LSTM, GRU or RNN that has no gradient operator into plain operators, step
 * by step.
 *
 * The usual cells have one gradient operator each (gradient_recurrent.c). Cells with lengths,
 * peepholes, clipping, coupled gates, other activations, batch first, or the reset gate of a GRU
 * before the product are unrolled here, only in the training graph: then every operator has its own
 * gradient. All results of the steps are kept for the backward pass, so this is meant for rare
 * cells.
 *
 * The backward direction runs forwards on the reversed sequence. After the end of a sequence its
 * state stays unchanged, and outputs are 0.
 * Cost: O(steps) operators of each direction.
 * Source: operator texts of ONNX, opsets 1 to 22.
 */
#include <strings.h>

#include "graph/train/frame.h"

#define UNROLL_STEPS 1024 /* limit: more steps would make the graph too large */

typedef struct unroll {
    tn__train *it;
    tn_decompose to; /* the training graph */
    const tn_op *op;
    int64_t steps, batch, hidden, directions, gates;
    bool batch_first;
    /* lengths of the sequences, int64 [batch]; TN_NONE: all have full length */
    tn_tensor_id lengths;
    tn_tensor_id w, r, wb, rb, peep[3];
    uint32_t direction;
} unroll;

/* --- operators --- */

/* Takes the element at index `at` along `axis`, and removes the axis. */
static tn_status unroll_take(unroll *u, tn_tensor_id from, int64_t at, int64_t axis,
                             tn_tensor_id *y) {
    tn_tensor_id index;
    const tn_attr attr = TN__ATTR_INT("axis", &axis);
    TN_TRY(tn__decompose_integer(&u->to, at, &index));
    *y = TN_NONE;
    return tn__decompose_add(&u->to, "Gather", TN__LIST(from, index), &attr, 1, y, 1);
}
/* Splits a tensor into `parts` parts of `each` elements along the last axis. */
static tn_status unroll_split(unroll *u, tn_tensor_id from, uint32_t parts, int64_t each,
                              tn_tensor_id *to) {
    const int64_t sizes[4] = {each, each, each, each};
    return tn__decompose_split(&u->to, from, -1, sizes, parts, to);
}

/* --- reading --- */

static tn_tensor_id unroll_input(const unroll *u, uint32_t input) {
    return input < u->op->input_count ? u->op->inputs[input] : TN_NONE;
}

/* --- activations --- */

static const struct {
    const char *name;
    double alpha, beta;
    uint32_t values; /* number of parameters of the activation: 1: alpha, 2: alpha and beta */
} unroll_curves[] = {{"Affine", 1, 0, 2},
                     {"Elu", 1, 0, 1},
                     {"HardSigmoid", 0.2, 0.5, 2},
                     {"LeakyRelu", 0.01, 0, 1},
                     {"Relu", 0, 0, 0},
                     {"ScaledTanh", 1, 1, 2},
                     {"Sigmoid", 0, 0, 0},
                     {"Softplus", 0, 0, 0},
                     {"Softsign", 0, 0, 0},
                     {"Tanh", 0, 0, 0},
                     {"ThresholdedRelu", 1, 0, 1}};
#define UNROLL_CURVES (sizeof unroll_curves / sizeof *unroll_curves)

/* Finds the row of the table for activation `number`, counted over all directions; UNROLL_CURVES:
 * no such row. Activations with parameters take their values from the lists in order. */
static size_t unroll_curve(const unroll *u, uint32_t number, uint32_t each, double *alpha,
                           double *beta) {
    const tn_attr *names = tn__attr(u->op, "activations");
    const tn_attr *alphas = tn__attr(u->op, "activation_alpha");
    const tn_attr *betas = tn__attr(u->op, "activation_beta");
    uint32_t next_alpha = 0, next_beta = 0;
    size_t k = 0;
    for (uint32_t i = 0; i <= number; i++) {
        const char *name = i % each > 0 || each == 1 ? "Tanh" : "Sigmoid";
        if (names != NULL && names->strings != NULL && i < names->count) name = names->strings[i];
        for (k = 0; k < UNROLL_CURVES && strcasecmp(unroll_curves[k].name, name) != 0;) k++;
        if (k == UNROLL_CURVES) return k;
        *alpha = unroll_curves[k].alpha;
        *beta = unroll_curves[k].beta;
        if (unroll_curves[k].values > 0 && alphas != NULL && alphas->floats != NULL &&
            next_alpha < alphas->count)
            *alpha = alphas->floats[next_alpha++];
        if (unroll_curves[k].values > 1 && betas != NULL && betas->floats != NULL &&
            next_beta < betas->count)
            *beta = betas->floats[next_beta++];
    }
    return k;
}

static tn_status unroll_scaled(unroll *u, tn_tensor_id x, double by, tn_tensor_id *y) {
    tn_tensor_id number;
    TN_TRY(tn__decompose_number(&u->to, by, &number));
    return tn__decompose_two(&u->to, "Mul", x, number, y);
}

static tn_status unroll_clip(unroll *u, tn_tensor_id *x) {
    const tn_attr *clip = tn__attr(u->op, "clip");
    tn_tensor_id ends[2], y = TN_NONE;
    if (clip == NULL || clip->floats == NULL) return TN_OK;
    TN_TRY(tn__decompose_number(&u->to, -clip->floats[0], &ends[0]));
    TN_TRY(tn__decompose_number(&u->to, clip->floats[0], &ends[1]));
    TN_TRY(tn__decompose_add(&u->to, "Clip", TN__LIST(*x, ends[0], ends[1]), NULL, 0, &y, 1));
    *x = y;
    return TN_OK;
}

/* Applies activation number f of this direction. */
static tn_status unroll_activate(unroll *u, uint32_t f, bool clips, tn_tensor_id x,
                                 tn_tensor_id *y) {
    uint32_t each = u->gates == 4 ? 3 : u->gates == 3 ? 2 : 1;
    double alpha, beta;
    size_t k = unroll_curve(u, u->direction * each + f, each, &alpha, &beta);
    if (k == UNROLL_CURVES) return TN_E_UNSUPPORTED; /* unknown activations were refused before */
    const char *name = unroll_curves[k].name;
    tn_tensor_id number;
    if (clips) TN_TRY(unroll_clip(u, &x));
    if (strcmp(name, "Affine") == 0) {
        TN_TRY(unroll_scaled(u, x, alpha, &x));
        TN_TRY(tn__decompose_number(&u->to, beta, &number));
        return tn__decompose_two(&u->to, "Add", x, number, y);
    }
    if (strcmp(name, "ScaledTanh") == 0) {
        TN_TRY(unroll_scaled(u, x, beta, &x));
        TN_TRY(tn__decompose_one(&u->to, "Tanh", x, NULL, 0, &x));
        return unroll_scaled(u, x, alpha, y);
    }
    const tn_attr attrs[] = {TN__ATTR_FLOAT("alpha", &alpha), TN__ATTR_FLOAT("beta", &beta)};
    return tn__decompose_one(&u->to, name, x, attrs, unroll_curves[k].values, y);
}

/* --- cells --- */

/* Computes h R^T + b for some rows of R. */
static tn_status unroll_recur(unroll *u, tn_tensor_id h, tn_tensor_id r, tn_tensor_id b,
                              tn_tensor_id *y) {
    TN_TRY(tn__decompose_two(&u->to, "MatMul", h, r, y));
    return b == TN_NONE ? TN_OK : tn__decompose_two(&u->to, "Add", *y, b, y);
}

static tn_status unroll_peep(unroll *u, uint32_t k, tn_tensor_id cell, tn_tensor_id *sum) {
    tn_tensor_id look;
    if (u->peep[k] == TN_NONE) return TN_OK;
    TN_TRY(tn__decompose_two(&u->to, "Mul", cell, u->peep[k], &look));
    return tn__decompose_two(&u->to, "Add", *sum, look, sum);
}

/* One step of an LSTM: gates i, o, f, c; peepholes for i, o, f. */
static tn_status unroll_lstm(unroll *u, tn_tensor_id x, tn_tensor_id *h, tn_tensor_id *c) {
    tn_tensor_id sums, g[4], in, forget, one, part;
    TN_TRY(unroll_recur(u, *h, u->r, u->rb, &sums));
    TN_TRY(tn__decompose_two(&u->to, "Add", x, sums, &sums));
    TN_TRY(unroll_split(u, sums, 4, u->hidden, g));
    TN_TRY(unroll_peep(u, 0, *c, &g[0]));
    TN_TRY(unroll_activate(u, 0, true, g[0], &in));
    if (tn__attr_int(u->op, "input_forget", 0) != 0) {
        TN_TRY(tn__decompose_number(&u->to, 1, &one));
        TN_TRY(tn__decompose_two(&u->to, "Sub", one, in, &forget));
    } else {
        TN_TRY(unroll_peep(u, 2, *c, &g[2]));
        TN_TRY(unroll_activate(u, 0, true, g[2], &forget));
    }
    TN_TRY(unroll_activate(u, 1, true, g[3], &part));
    TN_TRY(tn__decompose_two(&u->to, "Mul", in, part, &part));
    TN_TRY(tn__decompose_two(&u->to, "Mul", forget, *c, c));
    TN_TRY(tn__decompose_two(&u->to, "Add", *c, part, c));
    TN_TRY(unroll_peep(u, 1, *c, &g[1]));
    TN_TRY(unroll_activate(u, 0, true, g[1], &g[1]));
    TN_TRY(unroll_activate(u, 2, false, *c, &part));
    return tn__decompose_two(&u->to, "Mul", g[1], part, h);
}

/* One step of a GRU: gates z, r, h. */
static tn_status unroll_gru(unroll *u, tn_tensor_id x, tn_tensor_id *h) {
    bool before = tn__attr_int(u->op, "linear_before_reset", 0) != 0;
    tn_tensor_id own[3], deep[3], r[3], b[3] = {TN_NONE, TN_NONE, TN_NONE}, one, part, now;
    TN_TRY(unroll_split(u, x, 3, u->hidden, own));
    TN_TRY(unroll_split(u, u->r, 3, u->hidden, r));
    if (u->rb != TN_NONE) TN_TRY(unroll_split(u, u->rb, 3, u->hidden, b));
    for (uint32_t k = 0; k < 2; k++) {
        TN_TRY(unroll_recur(u, *h, r[k], b[k], &deep[k]));
        TN_TRY(tn__decompose_two(&u->to, "Add", own[k], deep[k], &own[k]));
        TN_TRY(unroll_activate(u, 0, true, own[k], &own[k]));
    }
    if (before) {
        TN_TRY(unroll_recur(u, *h, r[2], b[2], &deep[2]));
        TN_TRY(tn__decompose_two(&u->to, "Mul", own[1], deep[2], &part));
    } else {
        TN_TRY(tn__decompose_two(&u->to, "Mul", own[1], *h, &part));
        TN_TRY(unroll_recur(u, part, r[2], b[2], &part));
    }
    TN_TRY(tn__decompose_two(&u->to, "Add", own[2], part, &now));
    TN_TRY(unroll_activate(u, 1, true, now, &now));
    TN_TRY(tn__decompose_number(&u->to, 1, &one));
    TN_TRY(tn__decompose_two(&u->to, "Sub", one, own[0], &part));
    TN_TRY(tn__decompose_two(&u->to, "Mul", part, now, &now));
    TN_TRY(tn__decompose_two(&u->to, "Mul", own[0], *h, &part));
    return tn__decompose_two(&u->to, "Add", now, part, h);
}

static tn_status unroll_cell(unroll *u, tn_tensor_id x, tn_tensor_id *h, tn_tensor_id *c) {
    tn_tensor_id sums;
    if (u->gates == 4) return unroll_lstm(u, x, h, c);
    if (u->gates == 3) return unroll_gru(u, x, h);
    TN_TRY(unroll_recur(u, *h, u->r, u->rb, &sums));
    TN_TRY(tn__decompose_two(&u->to, "Add", x, sums, &sums));
    return unroll_activate(u, 0, true, sums, h);
}

/* One step of the cell. After the end of a sequence its state stays, and its output is 0. */
static tn_status unroll_step(unroll *u, int64_t time, tn_tensor_id x, tn_tensor_id *h,
                             tn_tensor_id *c, tn_tensor_id *y) {
    tn_tensor_id now[2] = {*h, *c}, index, inside, zero;
    TN_TRY(unroll_cell(u, x, &now[0], &now[1]));
    *y = now[0];
    if (u->lengths != TN_NONE) {
        TN_TRY(tn__decompose_integer(&u->to, time, &index));
        TN_TRY(tn__decompose_two(&u->to, "Less", index, u->lengths, &inside));
        TN_TRY(tn__decompose_unsqueeze(&u->to, inside, 1, &inside));
        TN_TRY(tn__decompose_number(&u->to, 0, &zero));
        *y = TN_NONE;
        TN_TRY(tn__decompose_add(&u->to, "Where", TN__LIST(inside, now[0], zero), NULL, 0, y, 1));
        for (uint32_t k = 0; k < (u->gates == 4 ? 2u : 1u); k++) {
            tn_tensor_id kept = TN_NONE;
            TN_TRY(tn__decompose_add(&u->to, "Where", TN__LIST(inside, now[k], k == 0 ? *h : *c),
                                     NULL, 0, &kept, 1));
            now[k] = kept;
        }
    }
    *h = now[0];
    *c = now[1];
    return TN_OK;
}

/* --- a direction --- */

/* Reverses the order of the steps, in each sequence within its length. */
static tn_status unroll_reverse(unroll *u, tn_tensor_id *x) {
    static const int64_t time = 0, batch = 1;
    const tn_attr attrs[] = {TN__ATTR_INT("time_axis", &time), TN__ATTR_INT("batch_axis", &batch)};
    tn_tensor_id lengths = u->lengths, number, list, y = TN_NONE;
    if (lengths == TN_NONE) {
        TN_TRY(tn__decompose_list(&u->to, &u->steps, 1, &number));
        TN_TRY(tn__decompose_list(&u->to, &u->batch, 1, &list));
        TN_TRY(tn__decompose_two(&u->to, "Expand", number, list, &lengths));
    }
    TN_TRY(tn__decompose_add(&u->to, "ReverseSequence", TN__LIST(*x, lengths), attrs, 2, &y, 1));
    *x = y;
    return TN_OK;
}

/* Takes the weights of this direction, and transposes W and R. */
static tn_status unroll_weights(unroll *u) {
    static const int64_t turned[] = {1, 0};
    int64_t d = u->direction;
    tn_tensor_id all, halves[2], bias = unroll_input(u, 3), peep = unroll_input(u, 7);
    tn_tensor_id *const weights[] = {&u->w, &u->r};
    for (uint32_t k = 0; k < 2; k++) {
        TN_TRY(unroll_take(u, u->op->inputs[1 + k], d, 0, &all));
        *weights[k] = TN_NONE;
        TN_TRY(tn__decompose_transpose(&u->to, all, turned, 2, weights[k]));
    }
    u->wb = u->rb = u->peep[0] = u->peep[1] = u->peep[2] = TN_NONE;
    if (bias != TN_NONE) {
        TN_TRY(unroll_take(u, bias, d, 0, &all));
        TN_TRY(unroll_split(u, all, 2, u->gates * u->hidden, halves));
        u->wb = halves[0];
        u->rb = halves[1];
    }
    if (peep == TN_NONE || u->gates != 4) return TN_OK;
    TN_TRY(unroll_take(u, peep, d, 0, &all));
    return unroll_split(u, all, 3, u->hidden, u->peep);
}

/* Takes the initial state of a direction. */
static tn_status unroll_first(unroll *u, uint32_t input, tn_tensor_id *state) {
    const int64_t shape[] = {u->batch, u->hidden};
    tn_tensor_id zero, list, given = unroll_input(u, input);
    if (given != TN_NONE) return unroll_take(u, given, u->direction, u->batch_first, state);
    TN_TRY(tn__decompose_number(&u->to, 0, &zero));
    TN_TRY(tn__decompose_list(&u->to, shape, 2, &list));
    return tn__decompose_two(&u->to, "Expand", zero, list, state);
}

/* Unrolls one direction: y [steps, batch, hidden], and the last states. `list` has space for all
 * steps. */
static tn_status unroll_direction(unroll *u, tn_tensor_id x, bool backwards, tn_tensor_id *list,
                                  tn_tensor_id *y, tn_tensor_id *h, tn_tensor_id *c) {
    static const int64_t first = 0;
    const tn_attr attr = TN__ATTR_INT("axis", &first);
    tn_tensor_id row, wide;
    *c = TN_NONE;
    TN_TRY(unroll_weights(u));
    if (backwards) TN_TRY(unroll_reverse(u, &x));
    TN_TRY(tn__decompose_two(&u->to, "MatMul", x, u->w, &wide));
    if (u->wb != TN_NONE) TN_TRY(tn__decompose_two(&u->to, "Add", wide, u->wb, &wide));
    TN_TRY(unroll_first(u, 5, h));
    if (u->gates == 4) TN_TRY(unroll_first(u, 6, c));
    for (int64_t t = 0; t < u->steps; t++) {
        TN_TRY(unroll_take(u, wide, t, 0, &row));
        TN_TRY(unroll_step(u, t, row, h, c, &list[t]));
        TN_TRY(tn__decompose_unsqueeze(&u->to, list[t], 0, &list[t]));
    }
    *y = TN_NONE;
    TN_TRY(tn__decompose_add(&u->to, "Concat", list, (uint32_t)u->steps, &attr, 1, y, 1));
    return backwards ? unroll_reverse(u, y) : TN_OK;
}

/* Joins the directions along `axis` to output k, and transposes it if the batch comes first. */
static tn_status unroll_give(unroll *u, uint32_t k, int64_t axis, tn_tensor_id *parts) {
    static const int64_t all[] = {2, 0, 1, 3}, last[] = {1, 0, 2};
    const tn_attr attr = TN__ATTR_INT("axis", &axis);
    tn_tensor_id made = TN_NONE, output;
    if (k >= u->op->output_count || u->op->outputs[k] == TN_NONE) return TN_OK;
    output = u->op->outputs[k];
    for (int64_t d = 0; d < u->directions; d++)
        TN_TRY(tn__decompose_unsqueeze(&u->to, parts[d], axis, &parts[d]));
    if (!u->batch_first)
        return tn__decompose_add(&u->to, "Concat", parts, (uint32_t)u->directions, &attr, 1,
                                 &output, 1);
    TN_TRY(tn__decompose_add(&u->to, "Concat", parts, (uint32_t)u->directions, &attr, 1, &made, 1));
    const tn_attr perm = TN__ATTR_INTS("perm", k == 0 ? all : last, k == 0 ? 4 : 3);
    return tn__decompose_add(&u->to, "Transpose", &made, 1, &perm, 1, &output, 1);
}

static tn_status unroll_run(unroll *u) {
    static const int64_t swapped[] = {1, 0, 2}, to = TN_INT64;
    const tn_attr wide = TN__ATTR_INT("to", &to);
    const tn_attr *given = tn__attr(u->op, "direction");
    const char *direction = given != NULL && given->strings != NULL ? given->strings[0] : "";
    tn_tensor_id x = u->op->inputs[0], y[2], h[2], c[2], turned = TN_NONE;
    tn_tensor_id *list =
        /* the outputs of the steps of one direction */
        tn__arena_array(&u->it->arena, (size_t)u->steps + 1, sizeof *list);
    if (list == NULL) return tn__no_memory(u->it->error, "the steps of a recurrence");
    u->lengths = unroll_input(u, 4);
    if (u->lengths != TN_NONE)
        TN_TRY(tn__decompose_one(&u->to, "Cast", u->lengths, &wide, 1, &u->lengths));
    if (u->batch_first) TN_TRY(tn__decompose_transpose(&u->to, x, swapped, 3, &turned));
    if (u->batch_first) x = turned;
    for (u->direction = 0; u->direction < u->directions; u->direction++) {
        bool backwards = u->direction == 1 || strcasecmp(direction, "reverse") == 0;
        uint32_t d = u->direction;
        TN_TRY(unroll_direction(u, x, backwards, list, &y[d], &h[d], &c[d]));
    }
    TN_TRY(unroll_give(u, 0, 1, y));
    TN_TRY(unroll_give(u, 1, 0, h));
    return u->gates == 4 ? unroll_give(u, 2, 0, c) : TN_OK;
}

/* --- which cells are unrolled --- */

static bool unroll_read(tn__train *it, const tn_op *op, unroll *u) {
    const tn_tensor *x = tn_graph_tensor(it->model, op->inputs[0]);
    const tn_tensor *r = tn_graph_tensor(it->model, op->inputs[2]);
    *u = (unroll){.it = it, .op = op, .lengths = TN_NONE};
    u->batch_first = tn__attr_int(u->op, "layout", 0) != 0;
    u->gates = tn__op_rule(op->domain, op->type)->gates;
    if (!tn__shape_known(x) || x->rank != 3 || !tn__shape_known(r) || r->rank != 3) return false;
    u->steps = x->shape[u->batch_first];
    u->batch = x->shape[!u->batch_first];
    u->directions = r->shape[0];
    u->hidden = r->shape[2];
    uint32_t each = u->gates == 4 ? 3 : u->gates == 3 ? 2 : 1;
    double alpha, beta;
    for (uint32_t f = 0; f < each * 2; f++)
        if (unroll_curve(u, f, each, &alpha, &beta) == UNROLL_CURVES) return false;
    return u->steps > 0 && u->steps <= UNROLL_STEPS && u->directions >= 1 && u->directions <= 2;
}

bool tn__train_unrolls(tn__train *it, const tn_op *op) {
    const tn_op_rule *rule = tn__op_rule(op->domain, op->type);
    const bool cell = rule != NULL && rule->gates > 0;
    const tn_gradient asked = {.graph = it->graph, .op = *op};
    unroll u;
    return cell && op->domain[0] == 0 && !tn__gradient_recurrent_fits(&asked) &&
           unroll_read(it, op, &u);
}

tn_status tn__train_unroll(tn_decompose *to, tn__train *it) {
    unroll u;
    if (!unroll_read(it, to->was, &u))
        TN_FAIL(it->error, TN_E_INTERNAL, "a cell that cannot be taken apart was to be");
    u.to = *to;
    u.op = to->op; /* use the operator of the new graph, because its operands may have been cast */
    return unroll_run(&u);
}
