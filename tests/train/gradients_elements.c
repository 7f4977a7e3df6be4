/* gradients_elements.c - cases of gradients: elementwise operators, arithmetic, choices.
 */
#include "gradients.h"

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

void one_element_from_one(void **state) {
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

/* Made by the shape of an operand alone; random numbers times 0, as each run draws its own. */
static tn_tensor_id build_unread(net *n, const void *data) {
    static const char *const random[] = {"RandomNormalLike", "RandomUniformLike", "Bernoulli"};
    shape s = draw_shape(n, 2, 2, 5);
    tn_tensor_id x = param(n, 0.5, 0.4, &s), y = net_op(n, "EyeLike", NET_LIST(x));
    (void)data;
    for (size_t i = 0; i < 3; i++) {
        tn_tensor_id z = net_op(n, random[i], NET_LIST(x));
        y = net_op(n, "Add", NET_LIST(y, net_op(n, "Mul", NET_LIST(z, number(n, 0)))));
    }
    return net_op(n, "Mul", NET_LIST(x, y));
}

void clips_and_steps(void **state) {
    static const char *const steps_of[] = {"Ceil", "Floor", "Hardmax", "Round", "Sign"};
    (void)state;
    EACH_SEED(seed) {
        check(build_clip, &(bool){false}, "Clip", seed);
        check(build_clip, &(bool){true}, "Clip 6", seed);
        for (size_t i = 0; i < sizeof steps_of / sizeof *steps_of; i++)
            check(build_flat, steps_of[i], steps_of[i], seed);
        check(build_unread, NULL, "what does not read its operand", seed);
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
    if (strcmp(o->type, "Mod") == 0) net_attr_int(n, "fmod", 1);
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

void arithmetic(void **state) {
    static const binary two[] = {
        {"Add", 0, 1, 0, 1}, {"Sub", 0, 1, 0, 1},       {"Mul", 0, 1, 0, 1},
        {"Div", 0, 1, 2, 1}, {"Pow", 1.5, 1, 0.5, 1.5}, {"Max", 0, 1, 0, 1},
        {"Min", 0, 1, 0, 1}, {"Mod", 0, 5, 1.5, 0.3},
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
    if (draw(n, 0, 1)) return net_op(n, "CastLike", NET_LIST(x, number(n, 1)));
    net_attr_int(n, "to", n->dtype);
    return net_op(n, "Cast", NET_LIST(x));
}

void casts(void **state) {
    (void)state;
    EACH_SEED(seed) check(build_cast, NULL, "Cast", seed);
}
