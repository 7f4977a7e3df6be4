/* test_gradients.c - every gradient rule by itself: float64 against central differences, and
 * float32 against float64, on random shapes and attributes.
 */
#include "steps.h"

typedef tn_tensor_id (*builder)(net *n, const void *data);

/* --- the check --- */

typedef struct trial {
    net n;
    steps s;
    double *labels;
} trial;

static void trial_open(trial *t, tn_dtype dtype, builder build, const void *data, uint64_t seed) {
    const setting how = {.poison = true};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    options.loss = TN_LOSS_MEAN_SQUARED;
    options.optimizer = TN_OPTIMIZER_NONE;
    net_open(&t->n, dtype, seed);
    t->n.version = 21;
    net_output(&t->n, build(&t->n, data));
    steps_open(&t->s, &t->n, &options, &how);
    t->labels = steps_draw_labels(&t->s, 0);
    steps_run(&t->s);
}

static void trial_close(trial *t) {
    free(t->labels);
    steps_close(&t->s);
    net_close(&t->n);
}

static void check(builder build, const void *data, const char *what, uint64_t seed) {
    trial wide, narrow;
    trial_open(&wide, TN_FLOAT64, build, data, seed);
    trial_open(&narrow, TN_FLOAT32, build, data, seed);
    for (uint32_t p = 0; p < wide.s.training.parameter_count; p++) {
        const tn_trained *trained = &wide.s.training.parameters[p];
        assert_true(trained->gradient != TN_NONE);
        const tn_array *a = steps_output(&wide.s, trained->gradient);
        const tn_array *b = steps_output(&narrow.s, narrow.s.training.parameters[p].gradient);
        uint64_t count = a->bytes / sizeof(double);
        double scale = 1e-3;
        for (uint64_t i = 0; i < count; i++)
            if (fabs(steps_get(a->dtype, a->data, i)) > scale)
                scale = fabs(steps_get(a->dtype, a->data, i));
        for (uint64_t i = 0; i < count; i++) {
            double x = steps_get(a->dtype, a->data, i), y = steps_get(b->dtype, b->data, i);
            if (!(fabs(x - y) <= 3e-5 * scale))
                fail_msg("%s, seed %llu: d parameter %u [%llu] is %.9g in float64, %.9g in float32",
                         what, (unsigned long long)seed, p, (unsigned long long)i, x, y);
        }
    }
    steps_check_gradients(&wide.s, 1e-6, what, seed);
    trial_close(&wide);
    trial_close(&narrow);
}

#define SEEDS 4
#define EACH_SEED(seed) for (uint64_t seed = 1; seed <= SEEDS; seed++)

/* --- building --- */

typedef struct shape {
    uint32_t rank;
    int64_t extent[8];
} shape;

static shape draw_shape(net *n, uint32_t least, uint32_t most, int64_t extent) {
    shape s = {.rank = least + (uint32_t)tn__random_below(&n->random, most - least + 1)};
    for (uint32_t d = 0; d < s.rank; d++)
        s.extent[d] = 1 + (int64_t)tn__random_below(&n->random, (uint64_t)extent);
    return s;
}
static int64_t draw(net *n, int64_t first, int64_t last) {
    return first + (int64_t)tn__random_below(&n->random, (uint64_t)(last - first + 1));
}
static tn_tensor_id param(net *n, double middle, double spread, const shape *s) {
    return net_given(n, "p", TN_KIND_PARAMETER, middle, spread, s->rank, s->extent);
}
static tn_tensor_id number(net *n, double value) {
    tn_tensor_id id;
    tn_tensor_spec spec = {
        .dtype = n->dtype, .kind = TN_KIND_CONSTANT, .value = {.count = 1, .floats = &value}};
    net_ok(n, tn_graph_add_tensor(n->graph, &spec, &id, &n->error));
    return id;
}
static tn_tensor_id floats(net *n, uint32_t count, const double *values) {
    int64_t extent = count;
    tn_tensor_id id;
    tn_tensor_spec spec = {.dtype = TN_FLOAT32,
                           .kind = TN_KIND_CONSTANT,
                           .rank = 1,
                           .shape = &extent,
                           .value = {.count = count, .floats = values}};
    net_ok(n, tn_graph_add_tensor(n->graph, &spec, &id, &n->error));
    return id;
}
/* A shape that broadcasts to `s`. */
static shape draw_narrower(net *n, const shape *s) {
    shape t = *s;
    uint32_t cut = (uint32_t)draw(n, 0, s->rank - 1);
    for (uint32_t d = 0; d + cut < s->rank; d++) t.extent[d] = s->extent[d + cut];
    t.rank = s->rank - cut;
    for (uint32_t d = 0; d < t.rank; d++)
        if (draw(n, 0, 2) == 0) t.extent[d] = 1;
    return t;
}

/* --- one element from one element --- */

typedef struct unary {
    const char *type;
    double middle, spread;
    const char *name[2];
    double value[2];
} unary;

static tn_tensor_id build_unary(net *n, const void *data) {
    const unary *u = data;
    shape s = draw_shape(n, 1, 4, 5);
    tn_tensor_id x = param(n, u->middle, u->spread, &s);
    for (uint32_t i = 0; i < 2 && u->name[i] != NULL; i++) {
        if (strcmp(u->name[i], "approximate") == 0)
            net_attr_string(n, "approximate", "tanh");
        else
            net_attr_float(n, u->name[i], u->value[i]);
    }
    return net_op(n, u->type, NET_LIST(x));
}

static void one_element_from_one(void **state) {
    static const unary all[] = {
        {"Abs", 0, 2, {0}, {0}},
        {"Acos", 0, 0.9, {0}, {0}},
        {"Acosh", 2.5, 1, {0}, {0}},
        {"Asin", 0, 0.9, {0}, {0}},
        {"Asinh", 0, 3, {0}, {0}},
        {"Atan", 0, 3, {0}, {0}},
        {"Atanh", 0, 0.9, {0}, {0}},
        {"Celu", 0, 2, {0}, {0}},
        {"Celu", 0, 2, {"alpha"}, {0.4}},
        {"Cos", 0, 4, {0}, {0}},
        {"Cosh", 0, 2, {0}, {0}},
        {"Elu", 0, 2, {0}, {0}},
        {"Elu", 0, 2, {"alpha"}, {0.3}},
        {"Erf", 0, 2, {0}, {0}},
        {"Exp", 0, 2, {0}, {0}},
        {"Gelu", 0, 4, {0}, {0}},
        {"Gelu", 0, 4, {"approximate"}, {0}},
        {"HardSigmoid", 0, 4, {0}, {0}},
        {"HardSigmoid", 0, 4, {"alpha", "beta"}, {0.3, 0.4}},
        {"HardSwish", 0, 5, {0}, {0}},
        {"Identity", 0, 1, {0}, {0}},
        {"LeakyRelu", 0, 2, {0}, {0}},
        {"LeakyRelu", 0, 2, {"alpha"}, {0.3}},
        {"LeakyRelu", 0, 2, {"alpha"}, {-0.3}},
        {"Log", 2, 1.5, {0}, {0}},
        {"Mish", 0, 6, {0}, {0}},
        {"Neg", 0, 1, {0}, {0}},
        {"Reciprocal", 1.5, 1, {0}, {0}},
        {"Relu", 0, 1, {0}, {0}},
        {"Selu", 0, 2, {0}, {0}},
        {"Selu", 0, 2, {"alpha", "gamma"}, {1.2, 0.7}},
        {"Shrink", 0, 2, {"lambd", "bias"}, {0.4, 0.1}},
        {"Sigmoid", 0, 5, {0}, {0}},
        {"Sin", 0, 4, {0}, {0}},
        {"Sinh", 0, 2, {0}, {0}},
        {"Softplus", 0, 6, {0}, {0}},
        {"Softsign", 0, 3, {0}, {0}},
        {"Sqrt", 2, 1.5, {0}, {0}},
        {"Swish", 0, 5, {0}, {0}},
        {"Swish", 0, 5, {"alpha"}, {1.7}},
        {"Tan", 0, 1, {0}, {0}},
        {"Tanh", 0, 3, {0}, {0}},
        {"ThresholdedRelu", 0, 3, {0}, {0}},
        {"ThresholdedRelu", 0, 3, {"alpha"}, {0.2}},
    };
    (void)state;
    EACH_SEED(seed)
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check(build_unary, &all[i], all[i].type, seed);
}

static tn_tensor_id build_clip(net *n, const void *data) {
    bool old = *(const bool *)data;
    shape s = draw_shape(n, 1, 3, 5);
    tn_tensor_id x = param(n, 0, 2, &s), low = TN_NONE, high = TN_NONE;
    if (old) {
        n->version = 6;
        net_attr_float(n, "min", -1);
        net_attr_float(n, "max", 0.5);
        return net_op(n, "Clip", NET_LIST(x));
    }
    if (draw(n, 0, 1)) low = number(n, -0.5);
    if (draw(n, 0, 1)) high = number(n, 0.25);
    return net_op(n, "Clip", NET_LIST(x, low, high));
}

/* What is flat adds nothing, and does no harm. */
static tn_tensor_id build_flat(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 5);
    tn_tensor_id x = param(n, 0, 3, &s);
    return net_op(n, "Mul", NET_LIST(x, net_op(n, data, NET_LIST(x))));
}

static void clips_and_steps(void **state) {
    static const char *const steps_of[] = {"Ceil", "Floor", "Round", "Sign"};
    (void)state;
    EACH_SEED(seed) {
        check(build_clip, &(bool){false}, "Clip", seed);
        check(build_clip, &(bool){true}, "Clip 6", seed);
        for (size_t i = 0; i < 4; i++) check(build_flat, steps_of[i], steps_of[i], seed);
    }
}

/* --- arithmetic with broadcasting --- */

typedef struct binary {
    const char *type;
    double middle_a, spread_a, middle_b, spread_b;
} binary;

static tn_tensor_id build_binary(net *n, const void *data) {
    const binary *o = data;
    shape s = draw_shape(n, 1, 4, 4), t = draw_narrower(n, &s);
    bool flip = draw(n, 0, 1) != 0;
    tn_tensor_id a = param(n, o->middle_a, o->spread_a, flip ? &t : &s);
    tn_tensor_id b = param(n, o->middle_b, o->spread_b, flip ? &s : &t);
    return net_op(n, o->type, NET_LIST(a, b));
}

static tn_tensor_id build_many(net *n, const void *data) {
    shape s = draw_shape(n, 2, 4, 4), t = draw_narrower(n, &s), u = draw_narrower(n, &s);
    tn_tensor_id a = param(n, 0, 1, &t), b = param(n, 0, 1, &s), c = param(n, 0, 1, &u);
    return net_op(n, data, NET_LIST(a, b, c));
}

static tn_tensor_id build_power(net *n, const void *data) {
    double exponent = *(const double *)data;
    shape s = draw_shape(n, 1, 3, 4);
    tn_tensor_id x = param(n, 2, 1.5, &s);
    return net_op(n, "Pow", NET_LIST(x, number(n, exponent)));
}

/* The same operand twice, and ties. */
static tn_tensor_id build_square(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 4);
    tn_tensor_id x = param(n, 1.5, 1, &s);
    return net_op(n, data, NET_LIST(x, x));
}

static tn_tensor_id build_where(net *n, const void *data) {
    shape s = draw_shape(n, 2, 4, 4), t = draw_narrower(n, &s), u = draw_narrower(n, &s);
    tn_tensor_id a = param(n, 0, 1, &t), b = param(n, 0, 1, &u), c = param(n, 0, 1, &s);
    (void)data;
    tn_tensor_id mask = net_op(n, "Greater", NET_LIST(c, number(n, 0)));
    return net_op(n, "Add", NET_LIST(c, net_op(n, "Where", NET_LIST(mask, a, b))));
}

static tn_tensor_id build_prelu(net *n, const void *data) {
    shape s = draw_shape(n, 1, 4, 4), t = draw_narrower(n, &s);
    (void)data;
    return net_op(n, "PRelu", NET_LIST(param(n, 0, 1, &s), param(n, 0.2, 0.5, &t)));
}

static void arithmetic(void **state) {
    static const binary two[] = {
        {"Add", 0, 1, 0, 1},       {"Sub", 0, 1, 0, 1}, {"Mul", 0, 1, 0, 1}, {"Div", 0, 1, 2, 1},
        {"Pow", 1.5, 1, 0.5, 1.5}, {"Max", 0, 1, 0, 1}, {"Min", 0, 1, 0, 1},
    };
    static const char *const many[] = {"Sum", "Mean", "Max", "Min"};
    static const char *const twice[] = {"Add", "Sub", "Mul", "Div", "Max", "Min"};
    static const double powers[] = {2, 3, 0.5, -1, 1, -0.5};
    (void)state;
    EACH_SEED(seed) {
        for (size_t i = 0; i < sizeof two / sizeof *two; i++)
            check(build_binary, &two[i], two[i].type, seed);
        for (size_t i = 0; i < 4; i++) check(build_many, many[i], many[i], seed);
        for (size_t i = 0; i < 6; i++) check(build_square, twice[i], twice[i], seed);
        for (size_t i = 0; i < 6; i++) check(build_power, &powers[i], "Pow", seed);
        check(build_where, NULL, "Where", seed);
        check(build_prelu, NULL, "PRelu", seed);
    }
}

/* Float to float: halves in between would drown differences, so only the types of the rig. */
static tn_tensor_id build_cast(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 4);
    (void)data;
    tn_tensor_id x = param(n, 0, 1, &s);
    net_attr_int(n, "to", TN_FLOAT64);
    x = net_op(n, "Cast", NET_LIST(x));
    x = net_op(n, "Mul", NET_LIST(x, x));
    net_attr_int(n, "to", n->dtype);
    return net_op(n, "Cast", NET_LIST(x));
}

static void casts(void **state) {
    (void)state;
    EACH_SEED(seed) check(build_cast, NULL, "Cast", seed);
}

/* --- reductions --- */

typedef struct reduction {
    const char *type;
    double middle, spread;
} reduction;

static tn_tensor_id build_reduction(net *n, const void *data) {
    const reduction *r = data;
    shape s = draw_shape(n, 1, 4, 4);
    int64_t axes[8];
    uint32_t count = 0;
    tn_tensor_id x = param(n, r->middle, r->spread, &s);
    for (uint32_t d = 0; d < s.rank; d++)
        if (draw(n, 0, 1)) axes[count++] = draw(n, 0, 1) ? (int64_t)d : (int64_t)d - s.rank;
    net_attr_int(n, "keepdims", draw(n, 0, 1));
    if (draw(n, 0, 3) == 0) net_attr_int(n, "noop_with_empty_axes", 1);
    if (count > 0 && draw(n, 0, 2) == 0) {
        n->version = 11;
        net_attr_ints(n, "axes", count, axes);
        return net_op(n, r->type, NET_LIST(x));
    }
    tn_tensor_id list = count > 0 ? net_ints(n, count, axes) : TN_NONE;
    return net_op(n, r->type, count > 0 ? 2 : 1, (const tn_tensor_id[]){x, list});
}

static tn_tensor_id build_cum_sum(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 4);
    int64_t axis = draw(n, -(int64_t)s.rank, s.rank - 1);
    (void)data;
    net_attr_int(n, "exclusive", draw(n, 0, 1));
    net_attr_int(n, "reverse", draw(n, 0, 1));
    return net_op(n, "CumSum", NET_LIST(param(n, 0, 1, &s), net_ints(n, 1, &axis)));
}

static tn_tensor_id build_softmax(net *n, const void *data) {
    shape s = draw_shape(n, 2, 4, 5);
    tn_tensor_id x = param(n, 0, 2, &s);
    if (draw(n, 0, 1)) n->version = 11;
    if (draw(n, 0, 2)) net_attr_int(n, "axis", draw(n, -(int64_t)s.rank, s.rank - 1));
    /* a last Softmax could be taken for part of the loss */
    return net_op(n, "Mul", NET_LIST(net_op(n, data, NET_LIST(x)), x));
}

static void reductions(void **state) {
    static const reduction all[] = {
        {"ReduceSum", 0, 1},    {"ReduceMean", 0, 1},      {"ReduceMax", 0, 1},
        {"ReduceMin", 0, 1},    {"ReduceL1", 0, 1},        {"ReduceL2", 0, 1},
        {"ReduceLogSum", 2, 1}, {"ReduceLogSumExp", 0, 2}, {"ReduceSumSquare", 0, 1},
    };
    (void)state;
    for (uint64_t seed = 1; seed <= 3 * SEEDS; seed++) {
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            check(build_reduction, &all[i], all[i].type, seed);
        check(build_cum_sum, NULL, "CumSum", seed);
        check(build_softmax, "Softmax", "Softmax", seed);
        check(build_softmax, "LogSoftmax", "LogSoftmax", seed);
    }
}

/* --- normalisations --- */

static tn_tensor_id build_layer_norm(net *n, const void *data) {
    const char *type = data;
    shape s = draw_shape(n, 2, 4, 5);
    uint32_t axis = (uint32_t)draw(n, 0, s.rank - 1);
    s.extent[axis] += 1; /* of one element alone nothing is left */
    shape t = {.rank = s.rank - axis};
    for (uint32_t d = axis; d < s.rank; d++) t.extent[d - axis] = s.extent[d];
    if (draw(n, 0, 3) == 0)
        for (uint32_t d = 0; d < t.rank; d++) t.extent[d] = 1;
    tn_tensor_id x = param(n, 0.5, 1, &s), scale = param(n, 1, 0.5, &t), bias = param(n, 0, 1, &t);
    bool biased = strcmp(type, "LayerNormalization") == 0 && draw(n, 0, 2) > 0;
    net_attr_int(n, "axis", draw(n, 0, 1) ? (int64_t)axis : (int64_t)axis - s.rank);
    net_attr_float(n, "epsilon", 1e-3);
    tn_tensor_id y = net_op(n, type, biased ? 3 : 2, (const tn_tensor_id[]){x, scale, bias});
    return biased ? y : net_op(n, "Add", NET_LIST(y, bias));
}

static tn_tensor_id build_group_norm(net *n, const void *data) {
    int64_t groups = draw(n, 1, 3), each = draw(n, 1, 3), channels = groups * each;
    bool by_group = *(const int *)data == 1, instance = *(const int *)data == 2;
    shape s = {.rank = 4, .extent = {draw(n, 1, 3), channels, draw(n, 2, 4), draw(n, 1, 4)}};
    shape t = {.rank = 1, .extent = {by_group ? groups : channels}};
    tn_tensor_id x = param(n, 0.5, 1, &s), scale = param(n, 1, 0.5, &t), bias = param(n, 0, 1, &t);
    net_attr_float(n, "epsilon", 1e-3);
    if (by_group) n->version = 18;
    if (instance) return net_op(n, "InstanceNormalization", NET_LIST(x, scale, bias));
    net_attr_int(n, "num_groups", groups);
    return net_op(n, "GroupNormalization", NET_LIST(x, scale, bias));
}

static tn_tensor_id build_lp_norm(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 5);
    tn_tensor_id x = param(n, 0, 1, &s);
    (void)data;
    net_attr_int(n, "p", draw(n, 1, 2));
    net_attr_int(n, "axis", draw(n, -(int64_t)s.rank, s.rank - 1));
    return net_op(n, "LpNormalization", NET_LIST(x));
}

static tn_tensor_id build_lrn(net *n, const void *data) {
    shape s = {.rank = (uint32_t)draw(n, 2, 4),
               .extent = {draw(n, 1, 2), draw(n, 1, 7), draw(n, 1, 9), draw(n, 1, 9)}};
    tn_tensor_id x = param(n, 0, 2, &s);
    (void)data;
    net_attr_int(n, "size", draw(n, 1, 6));
    net_attr_float(n, "alpha", 0.7);
    if (draw(n, 0, 1)) net_attr_float(n, "beta", 0.6);
    if (draw(n, 0, 1)) net_attr_float(n, "bias", 1.5);
    return net_op(n, "LRN", NET_LIST(x));
}

static void normalisations(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 3 * SEEDS; seed++) {
        check(build_layer_norm, "LayerNormalization", "LayerNormalization", seed);
        check(build_layer_norm, "RMSNormalization", "RMSNormalization", seed);
        check(build_group_norm, &(int){0}, "GroupNormalization", seed);
        check(build_group_norm, &(int){1}, "GroupNormalization 18", seed);
        check(build_group_norm, &(int){2}, "InstanceNormalization", seed);
        check(build_lp_norm, NULL, "LpNormalization", seed);
        check(build_lrn, NULL, "LRN", seed);
    }
}

/* --- products and maxima --- */

/* An equation; letters have extents that are drawn once. */
static tn_tensor_id build_einsum(net *n, const void *data) {
    const char *equation = data;
    int64_t extents[128];
    tn_tensor_id operands[3];
    uint32_t count = 0;
    shape s = {.rank = 0};
    for (uint32_t c = 0; c < 128; c++) extents[c] = draw(n, 1, 4);
    for (const char *c = equation;; c++) {
        bool label = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
        if (label) s.extent[s.rank++] = extents[(int)*c];
        if (label || *c == ' ') continue;
        operands[count++] = param(n, 0, 1, &s);
        s.rank = 0;
        if (*c != ',') break;
    }
    net_attr_string(n, "equation", equation);
    return net_op(n, "Einsum", count, operands);
}

static tn_tensor_id build_global_max(net *n, const void *data) {
    shape s = draw_shape(n, 3, 5, 4);
    (void)data;
    return net_op(n, "GlobalMaxPool", NET_LIST(param(n, 0, 1, &s)));
}

static void products_and_maxima(void **state) {
    static const char *const equations[] = {
        "ij,jk->ik",    "bij,bjk->bik", "bhqd, bhkd -> bhqk", "ij->ji", "ij->", "i,j->ij",
        "ij,ik,jl->kl", "ij,jk",        "abc,cd->ad",         "ba,ca",  "i,i->"};
    (void)state;
    EACH_SEED(seed) {
        for (size_t i = 0; i < sizeof equations / sizeof *equations; i++)
            check(build_einsum, equations[i], equations[i], seed);
        check(build_global_max, NULL, "GlobalMaxPool", seed);
    }
}

/* --- movement --- */

static tn_tensor_id build_transpose(net *n, const void *data) {
    shape s = draw_shape(n, 1, 5, 4);
    int64_t perm[8];
    (void)data;
    for (uint32_t d = 0; d < s.rank; d++) perm[d] = d;
    for (uint32_t d = s.rank; d-- > 1;) {
        uint32_t other = (uint32_t)draw(n, 0, d);
        int64_t kept = perm[d];
        perm[d] = perm[other];
        perm[other] = kept;
    }
    if (draw(n, 0, 3)) net_attr_ints(n, "perm", s.rank, perm);
    return net_op(n, "Transpose", NET_LIST(param(n, 0, 1, &s)));
}

static tn_tensor_id build_concat(net *n, const void *data) {
    shape s = draw_shape(n, 1, 4, 4);
    int64_t axis = draw(n, 0, s.rank - 1);
    tn_tensor_id parts[3];
    (void)data;
    for (uint32_t i = 0; i < 3; i++) {
        s.extent[axis] = draw(n, 1, 4);
        parts[i] = param(n, 0, 1, &s);
    }
    net_attr_int(n, "axis", draw(n, 0, 1) ? axis : axis - s.rank);
    return net_op(n, "Concat", 3, parts);
}

/* One of three parts is not used. */
static tn_tensor_id build_split(net *n, const void *data) {
    shape s = draw_shape(n, 1, 4, 4);
    int64_t axis = draw(n, 0, s.rank - 1), sizes[3] = {2, draw(n, 1, 3), 2};
    tn_tensor_id parts[3];
    (void)data;
    s.extent[axis] = 4 + sizes[1];
    net_attr_int(n, "axis", axis);
    tn_tensor_id x = param(n, 0, 1, &s);
    net_ops(n, "Split", NET_LIST(x, net_ints(n, 3, sizes)), 3, parts);
    return net_op(n, "Mul", NET_LIST(parts[0], parts[2]));
}

static tn_tensor_id build_slice(net *n, const void *data) {
    shape s = draw_shape(n, 1, 4, 6);
    int64_t starts[8], ends[8], axes[8], steps_of[8];
    uint32_t count = 0;
    (void)data;
    for (uint32_t d = 0; d < s.rank; d++) {
        if (draw(n, 0, 2) == 0) continue;
        int64_t extent = s.extent[d], first = draw(n, 0, extent - 1);
        bool back = draw(n, 0, 2) == 0;
        axes[count] = draw(n, 0, 1) ? (int64_t)d : (int64_t)d - s.rank;
        starts[count] = draw(n, 0, 1) ? first : first - extent;
        if (back && draw(n, 0, 1)) starts[count] = 1000;
        ends[count] = back ? -100 : draw(n, 0, 1) ? 1000 : draw(n, first + 1, extent);
        steps_of[count++] = back ? -draw(n, 1, 3) : draw(n, 1, 3);
    }
    if (count == 0) {
        starts[0] = 0, ends[0] = 1, axes[0] = 0, steps_of[0] = 1;
        count = 1;
    }
    tn_tensor_id x = param(n, 0, 1, &s);
    return net_op(n, "Slice",
                  NET_LIST(x, net_ints(n, count, starts), net_ints(n, count, ends),
                           net_ints(n, count, axes), net_ints(n, count, steps_of)));
}

static tn_tensor_id build_pad(net *n, const void *data) {
    const char *mode = data;
    bool constant = strcmp(mode, "constant") == 0, reflect = strcmp(mode, "reflect") == 0;
    shape s = draw_shape(n, 1, 4, 5);
    int64_t pads[16];
    for (uint32_t d = 0; d < s.rank; d++) {
        int64_t extent = s.extent[d], most = reflect ? extent - 1 : 3;
        int64_t least = constant && extent > 2 ? -1 : 0;
        pads[d] = draw(n, least, most);
        pads[s.rank + d] = draw(n, least, most);
    }
    tn_tensor_id x = param(n, 0, 1, &s);
    net_attr_string(n, "mode", mode);
    if (draw(n, 0, 3) == 0) {
        n->version = 2;
        net_attr_ints(n, "pads", 2 * s.rank, pads);
        return net_op(n, "Pad", NET_LIST(x));
    }
    return net_op(n, "Pad", NET_LIST(x, net_ints(n, 2 * s.rank, pads)));
}

static tn_tensor_id build_expand(net *n, const void *data) {
    shape s = draw_shape(n, 1, 4, 4), t = draw_narrower(n, &s);
    (void)data;
    return net_op(n, "Expand", NET_LIST(param(n, 0, 1, &t), net_ints(n, s.rank, s.extent)));
}

static tn_tensor_id build_tile(net *n, const void *data) {
    shape s = draw_shape(n, 1, 4, 3);
    int64_t repeats[8];
    (void)data;
    for (uint32_t d = 0; d < s.rank; d++) repeats[d] = draw(n, 1, 3);
    return net_op(n, "Tile", NET_LIST(param(n, 0, 1, &s), net_ints(n, s.rank, repeats)));
}

static tn_tensor_id build_blocks(net *n, const void *data) {
    const char *mode = data;
    int64_t block = draw(n, 1, 3), n0 = draw(n, 1, 2), c = draw(n, 1, 3);
    int64_t h = draw(n, 1, 3), w = draw(n, 1, 3);
    bool deep = *mode != 0;
    shape s = {
        .rank = 4,
        .extent = {n0, deep ? c * block * block : c, deep ? h : h * block, deep ? w : w * block}};
    tn_tensor_id x = param(n, 0, 1, &s);
    net_attr_int(n, "blocksize", block);
    if (deep) net_attr_string(n, "mode", mode);
    return net_op(n, deep ? "DepthToSpace" : "SpaceToDepth", NET_LIST(x));
}

static tn_tensor_id build_trilu(net *n, const void *data) {
    shape s = draw_shape(n, 2, 4, 5);
    int64_t k = draw(n, -2, 2);
    tn_tensor_id diagonal, x = param(n, 0, 1, &s);
    tn_tensor_spec spec = {
        .dtype = TN_INT64, .kind = TN_KIND_CONSTANT, .value = {.count = 1, .ints = &k}};
    (void)data;
    net_ok(n, tn_graph_add_tensor(n->graph, &spec, &diagonal, &n->error));
    net_attr_int(n, "upper", draw(n, 0, 1));
    return net_op(n, "Trilu", draw(n, 0, 1) ? 2 : 1, (const tn_tensor_id[]){x, diagonal});
}

static tn_tensor_id build_shapes(net *n, const void *data) {
    shape s = {.rank = 3, .extent = {draw(n, 1, 4), 1, draw(n, 1, 4)}};
    int64_t one = 1, last[] = {0, -1}, whole[] = {-1};
    (void)data;
    tn_tensor_id x = param(n, 0, 1, &s);
    x = net_op(n, "Squeeze", NET_LIST(x, net_ints(n, 1, &one)));
    x = net_op(n, "Unsqueeze", NET_LIST(x, net_ints(n, 2, last)));
    return net_op(n, "Reshape", NET_LIST(x, net_ints(n, 1, whole)));
}

/* --- indices --- */

static tn_tensor_id build_gather(net *n, const void *data) {
    shape s = draw_shape(n, 1, 4, 5), t = draw_shape(n, 0, 2, 4);
    int64_t axis = draw(n, 0, s.rank - 1);
    (void)data;
    tn_tensor_id x = param(n, 0, 1, &s);
    tn_tensor_id indices = net_numbers(n, "i", s.extent[axis], t.rank, t.extent);
    if (draw(n, 0, 1)) /* from the end */
        for (uint64_t i = 0; i < n->counts[indices]; i++)
            n->contents[indices][i] -= (double)s.extent[axis];
    net_attr_int(n, "axis", axis);
    return net_op(n, "Gather", NET_LIST(x, indices));
}

static tn_tensor_id build_gather_elements(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 4), t = s;
    int64_t axis = draw(n, 0, s.rank - 1);
    (void)data;
    t.extent[axis] = draw(n, 1, 6);
    tn_tensor_id x = param(n, 0, 1, &s);
    tn_tensor_id indices = net_numbers(n, "i", s.extent[axis], t.rank, t.extent);
    net_attr_int(n, "axis", axis);
    return net_op(n, "GatherElements", NET_LIST(x, indices));
}

static tn_tensor_id build_gather_nd(net *n, const void *data) {
    shape s = draw_shape(n, 2, 3, 4);
    (void)data;
    tn_tensor_id x = param(n, 0, 1, &s);
    tn_tensor_id indices = net_numbers(n, "i", s.extent[0], NET_SHAPE(5, 1));
    return net_op(n, "GatherND", NET_LIST(x, indices));
}

/* Indices that are all different: what is written twice has no one gradient. */
static tn_tensor_id build_scatter(net *n, const void *data) {
    const char *how = data;
    int64_t rows = draw(n, 3, 6), columns = draw(n, 1, 4);
    tn_tensor_id x = net_param(n, "x", 1, NET_SHAPE(rows, columns));
    tn_tensor_id u = net_param(n, "u", 1, NET_SHAPE(2, columns));
    int64_t at[8];
    for (int64_t i = 0; i < 2 * columns; i++) at[i] = i < columns ? 2 : 0;
    bool nd = draw(n, 0, 1) != 0;
    tn_tensor_id list = net_ints(n, (uint32_t)(nd ? 2 : 2 * columns), nd ? (int64_t[]){2, 0} : at);
    int64_t wide[] = {2, nd ? 1 : columns};
    list = net_op(n, "Reshape", NET_LIST(list, net_ints(n, 2, wide)));
    net_attr_string(n, "reduction", how);
    return net_op(n, nd ? "ScatterND" : "ScatterElements", NET_LIST(x, list, u));
}

static tn_tensor_id build_top_k(net *n, const void *data) {
    shape s = draw_shape(n, 1, 3, 5);
    int64_t axis = draw(n, 0, s.rank - 1), k = draw(n, 1, s.extent[axis]);
    tn_tensor_id outputs[2], x = param(n, 0, 1, &s);
    (void)data;
    net_attr_int(n, "axis", axis);
    net_ops(n, "TopK", NET_LIST(x, net_ints(n, 1, &k)), 2, outputs);
    return outputs[0];
}

static void movement(void **state) {
    static const char *const modes[] = {"constant", "edge", "reflect", "wrap"};
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++) {
        check(build_transpose, NULL, "Transpose", seed);
        check(build_concat, NULL, "Concat", seed);
        check(build_split, NULL, "Split", seed);
        check(build_slice, NULL, "Slice", seed);
        for (size_t i = 0; i < 4; i++) check(build_pad, modes[i], modes[i], seed);
        check(build_expand, NULL, "Expand", seed);
        check(build_tile, NULL, "Tile", seed);
        check(build_blocks, "DCR", "DepthToSpace", seed);
        check(build_blocks, "CRD", "DepthToSpace CRD", seed);
        check(build_blocks, "", "SpaceToDepth", seed);
        check(build_trilu, NULL, "Trilu", seed);
        check(build_shapes, NULL, "Squeeze, Unsqueeze, Reshape", seed);
    }
}

static void indices(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 2 * SEEDS; seed++) {
        check(build_gather, NULL, "Gather", seed);
        check(build_gather_elements, NULL, "GatherElements", seed);
        check(build_gather_nd, NULL, "GatherND", seed);
        check(build_scatter, "none", "Scatter", seed);
        check(build_scatter, "add", "Scatter, add", seed);
        check(build_top_k, NULL, "TopK", seed);
    }
}

/* --- resampling --- */

typedef struct resampling {
    const char *mode, *coordinates;
} resampling;

static tn_tensor_id build_resize(net *n, const void *data) {
    const resampling *r = data;
    shape s = draw_shape(n, 4, 4, 4);
    int64_t sizes[4];
    double scales[4] = {1, 1, (double)draw(n, 1, 5) / 2, (double)draw(n, 2, 5) / 2};
    s.extent[2] += 1;
    s.extent[3] += 1;
    for (uint32_t d = 0; d < 4; d++) sizes[d] = d < 2 ? s.extent[d] : draw(n, 1, 7);
    tn_tensor_id x = param(n, 0, 1, &s);
    net_attr_string(n, "mode", r->mode);
    if (r->coordinates == NULL) {
        n->version = 9;
        if (strcmp(r->mode, "nearest") == 0)
            return net_op(n, "Upsample", NET_LIST(x, floats(n, 4, scales)));
        return net_op(n, "Resize", NET_LIST(x, floats(n, 4, scales)));
    }
    net_attr_string(n, "coordinate_transformation_mode", r->coordinates);
    net_attr_string(n, "nearest_mode", draw(n, 0, 1) ? "floor" : "round_prefer_floor");
    net_attr_int(n, "exclude_outside", draw(n, 0, 1));
    if (draw(n, 0, 1)) return net_op(n, "Resize", NET_LIST(x, TN_NONE, floats(n, 4, scales)));
    return net_op(n, "Resize", NET_LIST(x, TN_NONE, TN_NONE, net_ints(n, 4, sizes)));
}

static void resampled(void **state) {
    static const resampling all[] = {
        {"nearest", "half_pixel"}, {"nearest", "asymmetric"},   {"nearest", NULL},
        {"linear", "half_pixel"},  {"linear", "align_corners"}, {"linear", "pytorch_half_pixel"},
        {"linear", NULL},          {"cubic", "half_pixel"},     {"cubic", "align_corners"},
    };
    (void)state;
    EACH_SEED(seed)
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check(build_resize, &all[i], all[i].mode, seed);
}

/* --- short types --- */

/* Gradients of 1 that are summed a thousand times: in bfloat16, one by one, they would stop at 256.
 */
static void an_embedding_in_halves_sums_all_its_words(void **state) {
    (void)state;
    EACH_SEED(seed) {
        double found[2][60];
        for (int k = 0; k < 2; k++) {
            net n;
            steps s;
            tn_train_options options = TN_TRAIN_OPTIONS_INIT;
            const setting how = {.poison = true};
            options.loss = TN_LOSS_OUTPUT;
            options.optimizer = TN_OPTIMIZER_NONE;
            net_open(&n, TN_FLOAT32, seed);
            tn_tensor_id words = net_param(&n, "words", 1, NET_SHAPE(4, 3, 5));
            tn_tensor_id x = words, indices = net_numbers(&n, "i", 3, NET_SHAPE(3000));
            if (k == 1) {
                net_attr_int(&n, "to", TN_BFLOAT16);
                x = net_op(&n, "Cast", NET_LIST(x));
            }
            net_attr_int(&n, "axis", 1);
            x = net_op(&n, "Gather", NET_LIST(x, indices));
            if (k == 1) {
                net_attr_int(&n, "to", TN_FLOAT32);
                x = net_op(&n, "Cast", NET_LIST(x));
            }
            net_attr_int(&n, "keepdims", 0);
            net_output(&n, net_op(&n, "ReduceSum", NET_LIST(x)));
            steps_open(&s, &n, &options, &how);
            steps_run(&s);
            const tn_array *array = steps_output(&s, s.training.parameters[0].gradient);
            for (uint64_t i = 0; i < 60; i++) found[k][i] = steps_get(array->dtype, array->data, i);
            steps_close(&s);
            net_close(&n);
        }
        for (uint32_t i = 0; i < 60; i++)
            if (!(fabs(found[0][i] - found[1][i]) <= found[0][i] / 256))
                fail_msg("seed %llu: element %u is %g in bfloat16, %g in float32",
                         (unsigned long long)seed, i, found[1][i], found[0][i]);
    }
}

/* --- memory --- */

/* Rules that ask for memory of their own, and some that do not. */
static tn_tensor_id build_all_sorts(net *n) {
    shape s = {.rank = 3, .extent = {2, 6, 4}}, t = {.rank = 1, .extent = {4}};
    int64_t sizes[] = {2, 1, 3}, repeats[] = {1, 2, 1};
    tn_tensor_id parts[3], x = param(n, 0, 1, &s), y = param(n, 0, 1, &s);
    net_attr_string(n, "equation", "bij,bkj->bik");
    x = net_op(n, "Einsum", NET_LIST(x, y));
    net_attr_int(n, "axis", 1);
    net_ops(n, "Split", NET_LIST(x, net_ints(n, 3, sizes)), 3, parts);
    net_attr_int(n, "axis", 2);
    x = net_op(n, "Concat", NET_LIST(parts[2], parts[2]));
    net_attr_int(n, "axis", -1);
    x = net_op(n, "Softmax", NET_LIST(net_op(n, "Max", NET_LIST(x, number(n, 0.1)))));
    x = net_op(n, "Tile", NET_LIST(x, net_ints(n, 3, repeats)));
    y = net_op(n, "LayerNormalization", NET_LIST(y, param(n, 1, 0.2, &t)));
    return net_op(n, "Add", NET_LIST(net_op(n, "ReduceMean", NET_LIST(x)), y));
}

static void no_memory_at_any_moment_leaks_nothing(void **state) {
    faulty memory = {0};
    const tn_context context = faulty_context(&memory);
    net n = {.dtype = TN_FLOAT64, .version = 18, .random = {.state = 3}};
    tn_train_options options = TN_TRAIN_OPTIONS_INIT;
    tn_status status = TN_E_NO_MEMORY;
    (void)state;
    options.loss = TN_LOSS_MEAN_SQUARED;
    net_ok(&n, tn_graph_create(&context, &n.graph, &n.error));
    net_output(&n, build_all_sorts(&n));
    size_t before = memory.held;
    for (uint64_t fail_at = 1; status != TN_OK; fail_at++) {
        tn_training training;
        memory.requests = 0;
        memory.fail_at = fail_at;
        status = tn_train(n.graph, &options, &training, &n.error);
        if (status == TN_OK) tn_training_release(&training);
        if (status != TN_OK) assert_int_equal(status, TN_E_NO_MEMORY);
        assert_int_equal(memory.held, before);
    }
    net_close(&n);
    assert_int_equal(memory.held, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_element_from_one),
        cmocka_unit_test(clips_and_steps),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(casts),
        cmocka_unit_test(reductions),
        cmocka_unit_test(normalisations),
        cmocka_unit_test(movement),
        cmocka_unit_test(indices),
        cmocka_unit_test(resampled),
        cmocka_unit_test(products_and_maxima),
        cmocka_unit_test(an_embedding_in_halves_sums_all_its_words),
        cmocka_unit_test(no_memory_at_any_moment_leaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
