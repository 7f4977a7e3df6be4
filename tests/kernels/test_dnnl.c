/* test_dnnl.c - kernels of oneDNN against our own loops: the same operator, random shapes and
 * attributes, the same contents. Poison is on in every run, so scratch and outputs stay in place.
 */
#include "count.h"
#include "engine/kernels/dnnl.h"
#include "whole.h"

#define TRIES 24u

typedef struct made { /* a graph of one operator under construction */
    tn_graph *graph;
    tn__random random;
    tn_tensor_id inputs[8], output;
    uint32_t input_count;
    tn_attr attrs[8];
    uint32_t attr_count;
    int64_t ints[8][8];
    double floats[8];
    const char *strings[8];
    bool turns; /* its output lies channels last, its inputs do not; a Reorder makes "y" of it */
} made;

static int64_t made_below(made *at, int64_t bound) {
    return (int64_t)tn__random_below(&at->random, (uint64_t)bound);
}
static int64_t made_from(made *at, int64_t first, int64_t last) { /* both may come */
    return first + made_below(at, last - first + 1);
}
static bool made_coin(made *at) { return made_below(at, 2) == 1; }

static void made_input(made *at, const char *name, tn_kind kind, uint32_t rank,
                       const int64_t *shape) {
    at->inputs[at->input_count++] = whole_tensor(at->graph, name, kind, rank, shape);
}
static int64_t *made_ints(made *at, const char *name, uint32_t count) {
    uint32_t i = at->attr_count++;
    at->attrs[i] =
        (tn_attr){.name = name, .type = TN_ATTR_INTS, .count = count, .ints = at->ints[i]};
    return at->ints[i];
}
static void made_int(made *at, const char *name, int64_t value) {
    uint32_t i = at->attr_count++;
    at->ints[i][0] = value;
    at->attrs[i] = (tn_attr){.name = name, .type = TN_ATTR_INT, .count = 1, .ints = at->ints[i]};
}
static void made_float(made *at, const char *name, double value) {
    uint32_t i = at->attr_count++;
    at->floats[i] = value;
    at->attrs[i] =
        (tn_attr){.name = name, .type = TN_ATTR_FLOAT, .count = 1, .floats = &at->floats[i]};
}
static void made_string(made *at, const char *name, const char *value) {
    uint32_t i = at->attr_count++;
    at->strings[i] = value;
    at->attrs[i] =
        (tn_attr){.name = name, .type = TN_ATTR_STRING, .count = 1, .strings = &at->strings[i]};
}
static void made_op(made *at, const char *type, uint32_t version) {
    tn_tensor_id result = at->output = whole_tensor(at->graph, "y", TN_KIND_OUTPUT, 0, NULL);
    tn_tensor_spec spec = {.name = "last", .rank = TN_RANK_UNKNOWN, .kind = TN_KIND_ACTIVATION};
    spec.format.order = TN_ORDER_NHWC;
    if (at->turns) assert_int_equal(tn_graph_add_tensor(at->graph, &spec, &result, NULL), TN_OK);
    whole_op_in(at->graph, "", type, version, at->inputs, at->input_count, result, at->attrs,
                at->attr_count);
    if (at->turns) whole_op_in(at->graph, "tenure", "Reorder", 1, &result, 1, at->output, NULL, 0);
}

/* --- operators --- */

static void make_windows(made *at, uint32_t spatial, const int64_t *kernel, bool dilates) {
    int64_t *strides = made_ints(at, "strides", spatial);
    for (uint32_t i = 0; i < spatial; i++) strides[i] = made_from(at, 1, 2);
    int64_t dilation = dilates && made_coin(at) ? 2 : 1;
    int64_t *dilations = made_ints(at, "dilations", spatial);
    for (uint32_t i = 0; i < spatial; i++) dilations[i] = dilation;
    int64_t which = made_below(at, 4);
    if (which == 0) {
        made_string(at, "auto_pad", "SAME_UPPER");
    } else if (which == 1) {
        made_string(at, "auto_pad", "SAME_LOWER");
    } else {
        int64_t *pads = made_ints(at, "pads", 2 * spatial);
        for (uint32_t i = 0; i < 2 * spatial; i++)
            pads[i] = made_below(at, kernel[i % spatial] > 1 ? 2 : 1);
    }
}

static void make_conv(made *at) {
    uint32_t spatial = (uint32_t)made_from(at, 1, 3);
    int64_t group = made_coin(at) ? 1 : made_from(at, 2, 4), in = made_from(at, 1, 9);
    int64_t out = made_from(at, 1, 20);
    if (made_below(at, 4) == 0) group = made_from(at, 8, 20), in = out = 1; /* depthwise */
    int64_t x[5] = {made_from(at, 1, 2), group * in}, w[5] = {group * out, in}, b = group * out;
    for (uint32_t i = 0; i < spatial; i++) {
        w[2 + i] = made_from(at, 1, 3);
        x[2 + i] = made_from(at, 7, 12);
    }
    made_input(at, "x", TN_KIND_INPUT, spatial + 2, x);
    made_input(at, "w", made_coin(at) ? TN_KIND_PARAMETER : TN_KIND_INPUT, spatial + 2, w);
    if (made_coin(at)) made_input(at, "b", TN_KIND_PARAMETER, 1, &b);
    made_int(at, "group", group);
    make_windows(at, spatial, w + 2, true);
    made_op(at, "Conv", 11);
}

static void make_conv_transpose(made *at) {
    uint32_t spatial = (uint32_t)made_from(at, 1, 2);
    int64_t group = made_coin(at) ? 1 : 2, in = made_from(at, 1, 9), out = made_from(at, 1, 20);
    int64_t x[5] = {made_from(at, 1, 2), group * in}, w[5] = {group * in, out}, b = group * out;
    int64_t stride = made_from(at, 1, 3);
    for (uint32_t i = 0; i < spatial; i++) {
        w[2 + i] = made_from(at, 1, 3);
        x[2 + i] = made_from(at, 3, 9);
    }
    made_input(at, "x", TN_KIND_INPUT, spatial + 2, x);
    made_input(at, "w", TN_KIND_PARAMETER, spatial + 2, w);
    if (made_coin(at)) made_input(at, "b", TN_KIND_PARAMETER, 1, &b);
    made_int(at, "group", group);
    int64_t *strides = made_ints(at, "strides", spatial);
    for (uint32_t i = 0; i < spatial; i++) strides[i] = stride;
    if (stride > 1 && made_coin(at)) {
        int64_t *more = made_ints(at, "output_padding", spatial);
        for (uint32_t i = 0; i < spatial; i++) more[i] = 1;
    }
    made_op(at, "ConvTranspose", 11);
}

static void make_matmul(made *at) {
    uint32_t rank = (uint32_t)made_from(at, 2, 4), flat = (uint32_t)made_below(at, 3);
    int64_t m = made_from(at, 1, 40), k = made_from(at, 1, 40), n = made_from(at, 1, 40);
    int64_t a[4] = {0}, b[4] = {0};
    for (uint32_t d = 0; d + 2 < rank; d++) {
        a[d] = b[d] = made_from(at, 1, 3);
        if (made_below(at, 6) == 0) (made_coin(at) ? a : b)[d] = 1;
    }
    a[rank - 2] = m, a[rank - 1] = b[rank - 2] = k, b[rank - 1] = n;
    made_input(at, "a", TN_KIND_INPUT, rank, a);
    made_input(at, "b", made_coin(at) ? TN_KIND_PARAMETER : TN_KIND_INPUT, flat == 0 ? 2 : rank,
               flat == 0 ? b + rank - 2 : b);
    made_op(at, "MatMul", 13);
}

static void make_gemm(made *at) {
    int64_t m = made_from(at, 1, 40), k = made_from(at, 1, 40), n = made_from(at, 1, 40);
    bool left = made_coin(at), right = made_coin(at);
    int64_t a[2] = {left ? k : m, left ? m : k}, b[2] = {right ? n : k, right ? k : n};
    int64_t c[2] = {made_coin(at) ? m : 1, made_coin(at) ? n : 1};
    made_input(at, "a", TN_KIND_INPUT, 2, a);
    made_input(at, "b", made_coin(at) ? TN_KIND_PARAMETER : TN_KIND_INPUT, 2, b);
    if (made_below(at, 4) > 0) {
        if (made_coin(at))
            made_input(at, "c", TN_KIND_PARAMETER, 1, &n);
        else
            made_input(at, "c", TN_KIND_INPUT, 2, c);
    }
    made_int(at, "transA", left);
    made_int(at, "transB", right);
    if (made_coin(at)) made_float(at, "alpha", 0.5);
    made_op(at, "Gemm", 13);
}

static void make_pool(made *at, const char *type, bool average) {
    uint32_t spatial = (uint32_t)made_from(at, 1, 3);
    int64_t x[5] = {made_from(at, 1, 2), made_from(at, 1, 20)};
    for (uint32_t i = 0; i < spatial; i++) x[2 + i] = made_from(at, 5, 12);
    made_input(at, "x", TN_KIND_INPUT, spatial + 2, x);
    int64_t *kernel = made_ints(at, "kernel_shape", spatial);
    for (uint32_t i = 0; i < spatial; i++) kernel[i] = made_from(at, 1, 3);
    make_windows(at, spatial, kernel, !average);
    if (average) at->attrs[2] = at->attrs[3], at->attr_count--; /* no dilations before 19 */
    if (made_coin(at)) made_int(at, "ceil_mode", 1);
    if (average) made_int(at, "count_include_pad", made_coin(at));
    made_op(at, type, 12);
}
static void make_max_pool(made *at) { make_pool(at, "MaxPool", false); }
static void make_average_pool(made *at) { make_pool(at, "AveragePool", true); }

static void make_global(made *at) {
    int64_t x[4] = {made_from(at, 1, 2), made_from(at, 1, 40), made_from(at, 1, 9),
                    made_from(at, 1, 9)};
    made_input(at, "x", TN_KIND_INPUT, 4, x);
    made_op(at, made_coin(at) ? "GlobalAveragePool" : "GlobalMaxPool", 1);
}

static void make_batch(made *at) {
    int64_t x[4] = {made_from(at, 1, 2), made_from(at, 1, 40), made_from(at, 1, 9),
                    made_from(at, 1, 9)};
    made_input(at, "x", TN_KIND_INPUT, 4, x);
    made_input(at, "scale", TN_KIND_PARAMETER, 1, &x[1]);
    made_input(at, "shift", TN_KIND_PARAMETER, 1, &x[1]);
    made_input(at, "mean", TN_KIND_PARAMETER, 1, &x[1]);
    made_input(at, "var", TN_KIND_PARAMETER, 1, &x[1]);
    made_op(at, "BatchNormalization", 9);
}

static void make_layer(made *at) {
    int64_t x[3] = {made_from(at, 1, 3), made_from(at, 1, 9), made_from(at, 2, 80)};
    made_input(at, "x", TN_KIND_INPUT, 3, x);
    made_input(at, "scale", TN_KIND_PARAMETER, 1, &x[2]);
    if (made_coin(at)) made_input(at, "shift", TN_KIND_PARAMETER, 1, &x[2]);
    made_op(at, "LayerNormalization", 17);
}

static void make_softmax(made *at) {
    int64_t x[4] = {made_from(at, 1, 3), made_from(at, 1, 9), made_from(at, 1, 9),
                    made_from(at, 1, 40)};
    uint32_t rank = (uint32_t)made_from(at, 1, 4);
    made_input(at, "x", TN_KIND_INPUT, rank, x + 4 - rank);
    made_int(at, "axis", made_below(at, rank));
    made_op(at, made_coin(at) ? "Softmax" : "LogSoftmax", made_coin(at) ? 13 : 11);
}

static void make_each(made *at) {
    static const char *const types[] = {
        "Relu", "Sigmoid", "Tanh", "Exp", "Abs",       "Softplus",    "HardSwish", "Mish",
        "Elu",  "Gelu",    "Sqrt", "Log", "LeakyRelu", "HardSigmoid", "Clip"};
    int64_t x[3] = {made_from(at, 1, 3), made_from(at, 1, 9), made_from(at, 1, 80)};
    const char *type = types[made_below(at, sizeof types / sizeof *types)];
    bool positive = strcmp(type, "Sqrt") == 0 || strcmp(type, "Log") == 0;
    made_input(at, positive ? "var" : "x", TN_KIND_INPUT, 3, x);
    if (strcmp(type, "Gelu") == 0 && made_coin(at)) made_string(at, "approximate", "tanh");
    if (strcmp(type, "LeakyRelu") == 0 || strcmp(type, "Elu") == 0) made_float(at, "alpha", 0.3);
    if (strcmp(type, "Clip") == 0) made_float(at, "min", -0.25), made_float(at, "max", 0.5);
    made_op(at, type, strcmp(type, "Clip") == 0 ? 6 : 22);
}

static void make_pair(made *at) {
    static const char *const types[] = {"Add", "Sub", "Mul", "Div", "Sum"};
    int64_t x[4] = {made_from(at, 1, 3), made_from(at, 1, 20), made_from(at, 1, 9),
                    made_from(at, 1, 20)};
    int64_t z[4] = {x[0], x[1], x[2], x[3]};
    uint32_t least = (uint32_t)made_below(at, 4);
    for (uint32_t d = 0; d < 4; d++)
        if (made_below(at, 3) == 0) z[d] = 1;
    bool swap = made_below(at, 4) == 0;
    if (!swap) made_input(at, "x", TN_KIND_INPUT, 4, x);
    made_input(at, "var", TN_KIND_INPUT, 4 - least, z + least);
    if (swap) made_input(at, "x", TN_KIND_INPUT, 4, x);
    made_op(at, types[made_below(at, 5)], 13);
}

static void make_transpose(made *at) {
    uint32_t rank = (uint32_t)made_from(at, 1, 5);
    int64_t x[5] = {0};
    for (uint32_t d = 0; d < rank; d++) x[d] = made_from(at, 1, 9);
    made_input(at, "x", TN_KIND_INPUT, rank, x);
    int64_t *perm = made_ints(at, "perm", rank);
    for (uint32_t d = 0; d < rank; d++) perm[d] = d;
    for (uint32_t d = rank; d-- > 1;) {
        int64_t other = made_below(at, d + 1), kept = perm[d];
        perm[d] = perm[other];
        perm[other] = kept;
    }
    made_op(at, "Transpose", 13);
}

static const struct {
    const char *name;
    void (*make)(made *at);
    uint32_t least; /* of TRIES, that the library must have taken where there is AVX-512 */
    double apart;
} cases[] = {
    {"Conv", make_conv, 20, 1e-5},
    {"ConvTranspose", make_conv_transpose, 12, 1e-5},
    {"MatMul", make_matmul, 16, 1e-5},
    {"Gemm", make_gemm, 16, 1e-5},
    {"MaxPool", make_max_pool, 6, 0},
    {"AveragePool", make_average_pool, 6, 1e-6},
    {"GlobalPool", make_global, 20, 1e-5},
    {"BatchNormalization", make_batch, 20, 1e-5},
    {"LayerNormalization", make_layer, 20, 1e-4},
    {"Softmax", make_softmax, 10, 1e-5},
    {"activations", make_each, 20, 1e-5},
    {"pairs", make_pair, 10, 1e-6},
    {"Transpose", make_transpose, 10, 0},
};

/* --- judging --- */

static void case_begin(made *at, size_t which, uint64_t seed, bool turns) {
    memset(at, 0, sizeof *at);
    at->random.state = seed;
    at->turns = turns;
    assert_int_equal(tn_graph_create(NULL, &at->graph, NULL), TN_OK);
    cases[which].make(at);
    whole_infer(at->graph);
}

static void check_case(size_t which, uint64_t seed, uint32_t *taken, uint32_t *tried) {
    made at;
    case_begin(&at, which, seed, false);
    whole plain = {.plain = true, .seed = seed}, one = {.seed = seed}, two = {.seed = seed};
    one.threads = 1 + (uint32_t)(seed & 1);
    two.threads = one.threads;
    if (whole_run(&plain, at.graph) != TN_OK) {
        if (plain.error.status != TN_E_UNSUPPORTED)
            fail_msg("%s, seed %llu: %s", cases[which].name, (unsigned long long)seed,
                     plain.error.message);
        tn_graph_destroy(at.graph);
        return; /* our own loops lack it: nothing to compare with */
    }
    if (whole_run(&one, at.graph) != TN_OK || whole_run(&two, at.graph) != TN_OK)
        fail_msg("%s, seed %llu: %s: %s", cases[which].name, (unsigned long long)seed,
                 one.error.where, one.error.message);
    *taken += one.library_count;
    *tried += 1;
    double apart = whole_difference(&plain, &one);
    if (!(apart <= cases[which].apart))
        fail_msg("%s, seed %llu: %g apart from plain loops", cases[which].name,
                 (unsigned long long)seed, apart);
    if (memcmp(one.outputs[0].data, two.outputs[0].data, one.outputs[0].bytes) != 0)
        fail_msg("%s, seed %llu: two runs differ", cases[which].name, (unsigned long long)seed);
    whole_release(&plain);
    whole_release(&one);
    whole_release(&two);
    tn_graph_destroy(at.graph);
}

static void every_kernel_of_the_library_agrees_with_plain_loops(void **state) {
    tn_error error;
    char text[TN_LIBRARY_TEXT_MAX];
    (void)state;
    if (!tn_kernels_library(text, &error)) {
        printf("SKIP: %s\n", error.message);
        skip();
    }
    bool wide = strstr(text, "avx512") != NULL;
    const uint32_t tries = case_count(TRIES, 4);
    for (size_t which = 0; which < sizeof cases / sizeof *cases; which++) {
        uint32_t taken = 0, tried = 0;
        for (uint64_t seed = 1; seed <= tries; seed++)
            check_case(which, which * 1000 + seed, &taken, &tried);
        printf("%-20s the library took %u of %u\n", cases[which].name, taken, tried);
        if (wide && tries == TRIES && taken * TRIES < cases[which].least * tried)
            fail_msg("%s: too few", cases[which].name);
    }
}

/* A graph may have any order for any tensor (--format): a kernel takes what it can, and no more. */
static void inputs_and_outputs_of_other_orders_are_computed_rightly_or_refused(void **state) {
    tn_error error;
    (void)state;
    if (!tn_kernels_library(NULL, &error)) {
        printf("SKIP: %s\n", error.message);
        skip();
    }
    const uint32_t tries = case_count(TRIES, 4);
    uint32_t ran = 0;
    for (size_t which = 0; which < sizeof cases / sizeof *cases; which++)
        for (uint64_t seed = 1; seed <= tries; seed++) {
            made at, turned;
            whole plain = {.plain = true, .seed = seed}, one = {.seed = seed};
            case_begin(&at, which, seed, false);
            case_begin(&turned, which, seed, true);
            if (whole_run(&plain, at.graph) == TN_OK && whole_run(&one, turned.graph) == TN_OK) {
                double apart = whole_difference(&plain, &one);
                if (!(apart <= cases[which].apart))
                    fail_msg("%s, seed %llu: %g apart", cases[which].name, (unsigned long long)seed,
                             apart);
                ran++;
            }
            whole_release(&plain);
            whole_release(&one);
            tn_graph_destroy(at.graph);
            tn_graph_destroy(turned.graph);
        }
    printf("%u of other orders ran\n", ran);
    assert_true(ran > tries);
}

static void names_of_implementations_are_ranked(void **state) {
    (void)state;
    assert_int_equal(tn__dnnl_rank_of("ref:any"), 0);
    assert_int_equal(tn__dnnl_rank_of("x64:gemm:jit"), 1);
    assert_int_equal(tn__dnnl_rank_of("brgconv:avx512_core"), 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kernel_of_the_library_agrees_with_plain_loops),
        cmocka_unit_test(inputs_and_outputs_of_other_orders_are_computed_rightly_or_refused),
        cmocka_unit_test(names_of_implementations_are_ranked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
