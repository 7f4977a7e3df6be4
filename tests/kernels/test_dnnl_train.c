/* test_dnnl_train.c - training's operators by oneDNN against our own loops: random shapes and
 * attributes, operands in the order of their shape and channels last, the same contents. Every
 * output is compared, running statistics too.
 */
#include "count.h"
#include "engine/kernels/dnnl.h"
#include "processor.h"
#include "whole.h"

#define TRIES 24u

typedef struct made {
    tn_graph *graph;
    tn__random random;
    tn_tensor_id inputs[8], outputs[8];
    uint32_t input_count, output_count, attr_count;
    bool last;      /* images lie channels last */
    tn_dtype dtype; /* of all but parameters and statistics */
    tn_attr attrs[8];
    int64_t ints[8][8];
} made;

static int64_t made_from(made *at, int64_t first, int64_t last) { /* both may come */
    return first + (int64_t)tn__random_below(&at->random, (uint64_t)(last - first + 1));
}
static bool made_coin(made *at) { return made_from(at, 0, 1) == 1; }

static tn_tensor_id made_tensor(made *at, const char *name, tn_kind kind, uint32_t rank,
                                const int64_t *shape, bool image) {
    bool stays = kind == TN_KIND_PARAMETER || strncmp(name, "batch", 5) == 0;
    tn_tensor_spec spec = {.name = name, .dtype = stays ? TN_FLOAT32 : at->dtype, .kind = kind};
    tn_tensor_id id;
    if (kind == TN_KIND_OUTPUT || kind == TN_KIND_ACTIVATION)
        spec.dtype = TN_UNDEFINED, spec.rank = TN_RANK_UNKNOWN;
    else
        spec.rank = rank, spec.shape = shape;
    if (image && at->last) spec.format.order = TN_ORDER_NHWC;
    if (strncmp(name, "running", 7) == 0) spec.flags = TN_TENSOR_UPDATED;
    assert_int_equal(tn_graph_add_tensor(at->graph, &spec, &id, NULL), TN_OK);
    return id;
}
static void made_input(made *at, const char *name, tn_kind kind, uint32_t rank,
                       const int64_t *shape, bool image) {
    at->inputs[at->input_count++] = made_tensor(at, name, kind, rank, shape, image);
}
static void made_output(made *at, const char *name, bool image) {
    at->outputs[at->output_count++] = made_tensor(at, name, TN_KIND_OUTPUT, 0, NULL, image);
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
static void made_op(made *at, const char *domain, const char *type, uint32_t version) {
    tn_op_spec spec = {.name = type,
                       .type = type,
                       .domain = domain,
                       .version = version,
                       .inputs = at->inputs,
                       .outputs = at->outputs,
                       .attrs = at->attrs,
                       .input_count = at->input_count,
                       .output_count = at->output_count,
                       .attr_count = at->attr_count};
    tn_error error;
    if (tn_graph_add_op(at->graph, &spec, NULL, &error) != TN_OK) fail_msg("%s", error.message);
}

/* --- operators --- */

/* Attributes of windows, and the extents of the output. */
static void make_windows(made *at, uint32_t spatial, const int64_t *kernel, const int64_t *x,
                         bool dilates, int64_t *y) {
    int64_t *strides = made_ints(at, "strides", spatial);
    int64_t *dilations = made_ints(at, "dilations", spatial);
    int64_t *pads = made_ints(at, "pads", 2 * spatial);
    for (uint32_t i = 0; i < spatial; i++) {
        strides[i] = made_from(at, 1, 2);
        dilations[i] = dilates && made_coin(at) ? 2 : 1;
        pads[i] = kernel[i] > 1 ? made_from(at, 0, 1) : 0;
        pads[spatial + i] = kernel[i] > 1 ? made_from(at, 0, 1) : 0;
        y[i] =
            (x[i] + pads[i] + pads[spatial + i] - (kernel[i] - 1) * dilations[i] - 1) / strides[i] +
            1;
    }
}

static void make_conv(made *at) {
    uint32_t spatial = (uint32_t)made_from(at, 1, 3);
    int64_t group = made_coin(at) ? 1 : made_from(at, 2, 4), in = made_from(at, 1, 20);
    int64_t out = made_from(at, 1, 20);
    if (made_from(at, 0, 3) == 0) group = made_from(at, 8, 20), in = out = 1; /* depthwise */
    int64_t x[5] = {made_from(at, 1, 3), group * in}, w[5] = {group * out, in};
    int64_t y[5] = {x[0], w[0]};
    for (uint32_t i = 0; i < spatial; i++) {
        w[2 + i] = made_from(at, 1, 3);
        x[2 + i] = made_from(at, 7, 12);
    }
    made_int(at, "group", group);
    memcpy(made_ints(at, "shape", spatial + 2), w, (spatial + 2) * sizeof *w);
    memcpy(made_ints(at, "kernel_shape", spatial), w + 2, spatial * sizeof *w);
    make_windows(at, spatial, w + 2, x + 2, true, y + 2);
    made_input(at, "dy", TN_KIND_INPUT, spatial + 2, y, true);
    made_input(at, "x", TN_KIND_INPUT, spatial + 2, x, true);
    made_output(at, "dw", false);
    made_op(at, "tenure", "ConvGradWeights", 1);
}

/* Of images that are worth cutting into pieces; channels last each second time. */
static void make_large_conv(made *at) {
    int64_t x[4] = {made_from(at, 1, 3), made_from(at, 20, 40)}, w[4], y[4];
    w[0] = y[1] = made_from(at, 20, 40);
    w[1] = x[1];
    y[0] = x[0];
    for (uint32_t i = 0; i < 2; i++) {
        w[2 + i] = made_from(at, 1, 4);
        x[2 + i] = made_from(at, 120, 200);
    }
    memcpy(made_ints(at, "shape", 4), w, sizeof w);
    memcpy(made_ints(at, "kernel_shape", 2), w + 2, 2 * sizeof *w);
    make_windows(at, 2, w + 2, x + 2, true, y + 2);
    made_input(at, "dy", TN_KIND_INPUT, 4, y, true);
    made_input(at, "x", TN_KIND_INPUT, 4, x, true);
    made_output(at, "dw", false);
    made_op(at, "tenure", "ConvGradWeights", 1);
}

/* Forward or transposed, of images that lie channels last and are worth cutting. */
static void make_large_window(made *at, bool transposed, uint32_t spatial) {
    int64_t x[5] = {made_from(at, 1, 3), made_from(at, 20, 40)}, w[5], y[5], bias;
    int64_t *strides, *dilations, *pads;
    at->last = true;
    bias = made_from(at, 20, 40);
    w[0] = transposed ? x[1] : bias;
    w[1] = transposed ? bias : x[1];
    for (uint32_t i = 0; i < spatial; i++) {
        w[2 + i] = made_from(at, 2, 4);
        x[2 + i] = spatial == 2 ? made_from(at, 70, 100) : made_from(at, 15, 20);
    }
    if (transposed) {
        strides = made_ints(at, "strides", spatial);
        dilations = made_ints(at, "dilations", spatial);
        pads = made_ints(at, "pads", 2 * spatial);
        for (uint32_t i = 0; i < spatial; i++) {
            strides[i] = made_from(at, 1, 2);
            dilations[i] = strides[i] == 1 && made_coin(at) ? 2 : 1;
            pads[i] = made_from(at, 0, 1);
            pads[spatial + i] = made_from(at, 0, 1);
        }
    } else {
        make_windows(at, spatial, w + 2, x + 2, true, y + 2);
    }
    made_input(at, "x", TN_KIND_INPUT, spatial + 2, x, true);
    made_input(at, "w", made_coin(at) ? TN_KIND_PARAMETER : TN_KIND_INPUT, spatial + 2, w, false);
    if (made_coin(at)) made_input(at, "b", TN_KIND_PARAMETER, 1, &bias, false);
    made_output(at, "y", true);
    made_op(at, "", transposed ? "ConvTranspose" : "Conv", 11);
}
static void make_large_ahead(made *at) { make_large_window(at, false, 2); }
static void make_large_back(made *at) { make_large_window(at, true, 2); }
static void make_deep_ahead(made *at) { make_large_window(at, false, 3); }
static void make_deep_back(made *at) { make_large_window(at, true, 3); }

/* Rows of a power of two, and one more or less. */
static void make_large_matmul(made *at) {
    int64_t sizes[3], a[2], b[2];
    bool left = made_coin(at), right = made_coin(at);
    for (uint32_t i = 0; i < 3; i++)
        sizes[i] =
            (INT64_C(64) << made_from(at, 1, 4)) + (made_coin(at) ? 0 : made_from(at, -1, 1));
    const int64_t m = sizes[0], k = sizes[1], n = sizes[2];
    a[0] = left ? k : m, a[1] = left ? m : k;
    b[0] = right ? n : k, b[1] = right ? k : n;
    made_input(at, "a", TN_KIND_INPUT, 2, a, false);
    made_input(at, "b", TN_KIND_INPUT, 2, b, false);
    made_int(at, "trans_a", left);
    made_int(at, "trans_b", right);
    made_output(at, "y", false);
    made_op(at, "tenure", "TransposedMatMul", 1);
}

static void make_pool(made *at, bool max) {
    uint32_t spatial = (uint32_t)made_from(at, 1, 3);
    int64_t x[5] = {made_from(at, 1, 2), made_from(at, 1, 40)}, y[5] = {x[0], x[1]};
    int64_t *kernel = made_ints(at, "kernel_shape", spatial);
    for (uint32_t i = 0; i < spatial; i++) {
        x[2 + i] = made_from(at, 5, 12);
        kernel[i] = made_from(at, 1, 3);
    }
    make_windows(at, spatial, kernel, x + 2, false, y + 2);
    made_input(at, "dy", TN_KIND_INPUT, spatial + 2, y, true);
    if (max) {
        made_input(at, "x", TN_KIND_INPUT, spatial + 2, x, true);
    } else {
        made_int(at, "count_include_pad", made_coin(at));
        memcpy(made_ints(at, "shape", spatial + 2), x, (spatial + 2) * sizeof *x);
    }
    made_output(at, "dx", true);
    made_op(at, "tenure", max ? "MaxPoolGrad" : "AveragePoolGrad", 1);
}
static void make_max_pool(made *at) { make_pool(at, true); }
static void make_average_pool(made *at) { make_pool(at, false); }

static uint32_t make_image(made *at, int64_t *x) {
    uint32_t rank = (uint32_t)made_from(at, at->last ? 3 : 2, 5);
    x[0] = made_from(at, 2, 4);
    x[1] = made_from(at, 1, 40);
    for (uint32_t d = 2; d < rank; d++) x[d] = made_from(at, 1, 7);
    return rank;
}

static void make_relu(made *at) {
    int64_t x[5];
    uint32_t rank = make_image(at, x);
    made_input(at, "dy", TN_KIND_INPUT, rank, x, true);
    made_input(at, "y", TN_KIND_INPUT, rank, x, true);
    made_output(at, "dx", true);
    made_op(at, "tenure", "ReluGrad", 1);
}

/* Any other gradient of one element by one element. */
static void make_each(made *at, const char *type, const char *value) {
    int64_t x[5];
    at->last = false;
    uint32_t rank = make_image(at, x);
    made_input(at, "dy", TN_KIND_INPUT, rank, x, false);
    made_input(at, value, TN_KIND_INPUT, rank, x, false);
    made_output(at, "dx", false);
    made_op(at, "tenure", type, 1);
}
static void make_abs(made *at) { make_each(at, "AbsGrad", "x"); }
static void make_elu(made *at) { make_each(at, "EluGrad", "y"); }
static void make_hard_swish(made *at) { make_each(at, "HardSwishGrad", "x"); }
static void make_mish(made *at) { make_each(at, "MishGrad", "x"); }
static void make_sigmoid(made *at) { make_each(at, "SigmoidGrad", "y"); }
static void make_sqrt(made *at) { make_each(at, "SqrtGrad", "a root like a var"); }
static void make_swish(made *at) { make_each(at, "SwishGrad", "x"); }
static void make_tanh(made *at) { make_each(at, "TanhGrad", "y"); }
static void make_gelu(made *at) {
    static const char *const by_tanh[] = {"tanh"};
    if (made_coin(at))
        at->attrs[at->attr_count++] = (tn_attr){
            .name = "approximate", .type = TN_ATTR_STRING, .count = 1, .strings = by_tanh};
    make_each(at, "GeluGrad", "x");
}

static void make_softmax(made *at, const char *type) {
    int64_t axis = made_from(at, -2, 1);
    made_int(at, "flat", made_coin(at));
    made_int(at, "axis", axis);
    make_each(at, type, "y");
}
static void make_soft(made *at) { make_softmax(at, "SoftmaxGrad"); }
static void make_log_soft(made *at) { make_softmax(at, "LogSoftmaxGrad"); }

static void make_batch(made *at) {
    int64_t x[5];
    uint32_t rank = make_image(at, x);
    made_input(at, "x", TN_KIND_INPUT, rank, x, true);
    made_input(at, "scale", TN_KIND_PARAMETER, 1, &x[1], false);
    made_input(at, "bias", TN_KIND_PARAMETER, 1, &x[1], false);
    made_input(at, "running mean", TN_KIND_PARAMETER, 1, &x[1], false);
    made_input(at, "running var", TN_KIND_PARAMETER, 1, &x[1], false);
    made_output(at, "y", true);
    made_output(at, "new mean", false);
    made_output(at, "new var", false);
    made_output(at, "batch mean", false);
    made_output(at, "batch var", false);
    made_op(at, "tenure", "BatchNormTrain", 1);
}

static void make_batch_grad(made *at) {
    int64_t x[5];
    uint32_t rank = make_image(at, x);
    made_input(at, "dy", TN_KIND_INPUT, rank, x, true);
    made_input(at, "x", TN_KIND_INPUT, rank, x, true);
    made_input(at, "scale", TN_KIND_PARAMETER, 1, &x[1], false);
    made_input(at, "batch mean", TN_KIND_INPUT, 1, &x[1], false);
    made_input(at, "batch var", TN_KIND_INPUT, 1, &x[1], false);
    made_output(at, "dx", true);
    made_output(at, "d scale", false);
    made_output(at, "d bias", false);
    made_op(at, "tenure", "BatchNormGrad", 1);
}

static void make_matmul(made *at) {
    uint32_t rank = (uint32_t)made_from(at, 2, 4);
    int64_t m = made_from(at, 1, 40), k = made_from(at, 1, 40), n = made_from(at, 1, 40);
    int64_t a[4] = {0}, b[4] = {0};
    bool left = made_coin(at), right = made_coin(at);
    for (uint32_t d = 0; d + 2 < rank; d++) {
        a[d] = b[d] = made_from(at, 1, 3);
        if (made_from(at, 0, 5) == 0) (made_coin(at) ? a : b)[d] = 1;
    }
    a[rank - 2] = left ? k : m, a[rank - 1] = left ? m : k;
    b[rank - 2] = right ? n : k, b[rank - 1] = right ? k : n;
    made_input(at, "a", TN_KIND_INPUT, rank, a, false);
    made_input(at, "b", TN_KIND_INPUT, rank, b, false);
    made_int(at, "trans_a", left);
    made_int(at, "trans_b", right);
    made_output(at, "y", false);
    made_op(at, "tenure", "TransposedMatMul", 1);
}

typedef struct one_case {
    const char *name;
    void (*make)(made *at);
    uint32_t least; /* of TRIES, that the library must have taken where there is AVX-512 */
    double apart;
} one_case;
static const one_case cases[] = {
    {"ConvGradWeights", make_conv, 18, 1e-5},
    {"MaxPoolGrad", make_max_pool, 6, 1e-6},
    {"AveragePoolGrad", make_average_pool, 6, 1e-6},
    {"ReluGrad", make_relu, 20, 0},
    {"BatchNormTrain", make_batch, 20, 1e-4},
    {"BatchNormGrad", make_batch_grad, 20, 1e-4},
    {"TransposedMatMul", make_matmul, 16, 1e-5},
    {"AbsGrad", make_abs, 20, 0},
    {"EluGrad", make_elu, 20, 1e-6},
    {"GeluGrad", make_gelu, 20, 1e-5},
    {"HardSwishGrad", make_hard_swish, 20, 1e-6},
    {"MishGrad", make_mish, 20, 1e-5},
    {"SigmoidGrad", make_sigmoid, 20, 1e-6},
    {"SqrtGrad", make_sqrt, 20, 1e-6},
    {"SwishGrad", make_swish, 20, 1e-5},
    {"TanhGrad", make_tanh, 20, 1e-6},
    {"SoftmaxGrad", make_soft, 12, 1e-5},
    {"LogSoftmaxGrad", make_log_soft, 12, 1e-5},
};

static const one_case large_cases[] = {
    {"ConvGradWeights", make_large_conv, 0, 1e-5},
    {"Conv", make_large_ahead, 0, 1e-5},
    {"ConvTranspose", make_large_back, 0, 1e-5},
    {"Conv in 3-D", make_deep_ahead, 0, 1e-5},
    {"ConvTranspose in 3-D", make_deep_back, 0, 1e-5},
    {"TransposedMatMul", make_large_matmul, 0, 1e-5},
};

/* --- judging --- */

/* Whether the library has AVX-512, and may use it. */
static bool is_wide(void) {
    char text[TN_LIBRARY_TEXT_MAX];
    return tn_kernels_library(text, NULL) && strstr(text, "avx512") != NULL;
}

static void judge(const char *name, uint64_t seed, const whole *plain, const whole *fast,
                  double allowed) {
    double apart = whole_difference(plain, fast);
    if (!(apart <= allowed))
        fail_msg("%s, seed %llu: %g apart from plain loops", name, (unsigned long long)seed, apart);
}

static uint32_t check_case(const one_case *is, uint64_t seed) {
    made at = {.random = {seed}, .last = seed % 2 == 1, .dtype = TN_FLOAT32};
    assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
    is->make(&at);
    whole_infer(at.graph);
    whole plain = {.plain = true, .seed = seed}, one = {.seed = seed}, two = {.seed = seed};
    one.threads = two.threads = 1 + (uint32_t)(seed / 2 % 2);
    if (whole_run(&plain, at.graph) != TN_OK)
        fail_msg("%s, seed %llu: %s", is->name, (unsigned long long)seed, plain.error.message);
    if (whole_run(&one, at.graph) != TN_OK || whole_run(&two, at.graph) != TN_OK)
        fail_msg("%s, seed %llu: %s", is->name, (unsigned long long)seed, one.error.message);
    judge(is->name, seed, &plain, &one, is->apart);
    for (uint32_t k = 0; k < one.output_count; k++)
        if (memcmp(one.outputs[k].data, two.outputs[k].data, one.outputs[k].bytes) != 0)
            fail_msg("%s, seed %llu: two runs differ", is->name, (unsigned long long)seed);
    uint32_t taken = one.library_count;
    whole_release(&plain);
    whole_release(&one);
    whole_release(&two);
    tn_graph_destroy(at.graph);
    return taken;
}

static void training_by_the_library_agrees_with_plain_loops(void **state) {
    tn_error error;
    (void)state;
    if (!tn_kernels_library(NULL, &error)) {
        printf("SKIP: %s\n", error.message);
        skip();
    }
    bool wide = is_wide();
    const uint32_t tries = case_count(TRIES, 4);
    for (size_t which = 0; which < sizeof cases / sizeof *cases; which++) {
        uint32_t taken = 0;
        for (uint64_t seed = 1; seed <= tries; seed++)
            taken += check_case(&cases[which], which * 1000 + seed);
        printf("%-20s the library took %u of %u\n", cases[which].name, taken, tries);
        if (wide && tries == TRIES && taken < cases[which].least)
            fail_msg("%s: too few", cases[which].name);
    }
}

static void large_gradients_agree_with_plain_loops(void **state) {
    tn_error error;
    (void)state;
    if (!tn_kernels_library(NULL, &error)) {
        printf("SKIP: %s\n", error.message);
        skip();
    }
    for (size_t which = 0; which < sizeof large_cases / sizeof *large_cases; which++)
        for (uint64_t seed = 1; seed <= (which == 0 ? 8u : 3u); seed++)
            (void)check_case(&large_cases[which], seed);
}

static tn_setup *ways_setup(const tn_graph *graph, const tn_kernels *given) {
    tn_setup_options options = TN_SETUP_OPTIONS_INIT;
    tn_setup *setup;
    tn_error error;
    options.given_kernels = given;
    options.fastest = true;
    if (tn_setup_create(graph, &options, &setup, &error) != TN_OK) fail_msg("%s", error.message);
    return setup;
}

/* Runs with less and less scratch, as long as there are ways. How many there were. */
static uint32_t check_ways(const one_case *is, uint64_t seed, uint64_t *scratch) {
    made at = {.random = {seed}, .dtype = TN_FLOAT32};
    uint32_t ways = 0;
    assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
    is->make(&at);
    whole_infer(at.graph);
    whole first = {.seed = seed}, less = {.seed = seed};
    tn_setup *setup = ways_setup(at.graph, NULL);
    assert_int_equal(whole_on(&first, setup), TN_OK);
    *scratch = tn_kernels_workspaces(tn_setup_kernels(setup))[0];
    for (uint64_t limit = *scratch; limit > 0 && ways < 6; limit /= 2) {
        tn_kernels_options options = TN_KERNELS_OPTIONS_INIT;
        tn_kernels *kernels;
        tn_error error;
        options.with = tn_setup_kernels(setup);
        options.scratch = &limit;
        assert_int_equal(tn_kernels_create(at.graph, &options, &kernels, &error), TN_OK);
        tn_setup *other = ways_setup(at.graph, kernels);
        assert_int_equal(whole_on(&less, other), TN_OK);
        if (memcmp(first.outputs[0].data, less.outputs[0].data, first.outputs[0].bytes) != 0)
            fail_msg("%s, seed %llu: %llu bytes of scratch give other bits", is->name,
                     (unsigned long long)seed, (unsigned long long)limit);
        ways += tn_kernels_way(kernels, 0) > 0;
        whole_release(&less);
        tn_setup_destroy(other);
        tn_kernels_destroy(kernels);
    }
    tn_setup_destroy(setup);
    whole_release(&first);
    tn_graph_destroy(at.graph);
    return ways;
}

/* On AVX2 what a transposed one has channels last is copied in pieces, whatever scratch there is.
 */
static void convolutions_in_pieces_have_the_same_bits(void **state) {
    tn_error error;
    (void)state;
    if (!tn_kernels_library(NULL, &error)) skip();
    const char *isa = getenv("ONEDNN_MAX_CPU_ISA");
    const bool narrow = isa != NULL && strcmp(isa, "AVX2") == 0;
    for (size_t which = 1; which <= 4; which++) {
        uint32_t ways = 0, copied = 0;
        for (uint64_t seed = 1; seed <= 3; seed++) {
            uint64_t scratch;
            ways += check_ways(&large_cases[which], seed, &scratch);
            copied += scratch > 300000;
        }
        printf("%-20s copies in %u of 3, %u ways with less scratch\n", large_cases[which].name,
               copied, ways);
        if (narrow && large_cases[which].make != make_large_ahead &&
            large_cases[which].make != make_deep_ahead && processor_has("avx2") &&
            (copied < 3 || (which == 2 && ways == 0)))
            fail_msg("%s: %u in pieces", large_cases[which].name, copied);
    }
}

/* On AVX2 a product that would step through memory by powers of two is one of copied slices. */
static void products_step_around_powers_of_two(void **state) {
    const int64_t shapes[][3] = {
        {256, 1024, 1024}, {1024, 1024, 256}, {512, 512, 512}, {128, 16384, 128}};
    const char *isa = getenv("ONEDNN_MAX_CPU_ISA");
    tn_error error;
    (void)state;
    if (!tn_kernels_library(NULL, &error) || isa == NULL || strcmp(isa, "AVX2") != 0 ||
        !processor_has("avx2"))
        skip();
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        made at = {.random = {i}, .dtype = TN_FLOAT32};
        const int64_t a[2] = {shapes[i][1], shapes[i][0]}, b[2] = {shapes[i][1], shapes[i][2]};
        assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
        made_input(&at, "a", TN_KIND_INPUT, 2, a, false);
        made_input(&at, "b", TN_KIND_INPUT, 2, b, false);
        made_int(&at, "trans_a", 1);
        made_output(&at, "y", false);
        made_op(&at, "tenure", "TransposedMatMul", 1);
        whole_infer(at.graph);
        tn_setup *setup = ways_setup(at.graph, NULL);
        uint64_t scratch = tn_kernels_workspaces(tn_setup_kernels(setup))[0];
        const bool copies = shapes[i][1] <= 8192; /* a slice of longer sums is no slice */
        if (scratch > 5000000 || (scratch >= 1000000) != copies)
            fail_msg("%zu: %llu bytes of scratch", i, (unsigned long long)scratch);
        tn_setup_destroy(setup);
        tn_graph_destroy(at.graph);
    }
}

/* In 16 bits: what float32 gives of the same numbers, rounded once. Returns whether a kernel of the
 * library's own for 16 bits ran. */
static bool check_low(size_t which, uint64_t seed, tn_dtype dtype) {
    double unit = dtype == TN_FLOAT16 ? 0x1p-11 : 0x1p-8, least = dtype == TN_FLOAT16 ? 1e-7 : 0;
    made wide = {.random = {seed}, .last = seed % 2 == 1, .dtype = TN_FLOAT32}, low = wide;
    low.dtype = dtype;
    assert_int_equal(tn_graph_create(NULL, &wide.graph, NULL), TN_OK);
    assert_int_equal(tn_graph_create(NULL, &low.graph, NULL), TN_OK);
    cases[which].make(&wide);
    cases[which].make(&low);
    whole_infer(wide.graph);
    whole_infer(low.graph);
    whole expected = {.plain = true, .seed = seed, .rounded = dtype}, got[2];
    assert_int_equal(whole_run(&expected, wide.graph), TN_OK);
    for (uint32_t library = 0; library < 2; library++) {
        got[library] = (whole){.plain = library == 0, .seed = seed, .rounded = dtype, .threads = 2};
        if (whole_run(&got[library], low.graph) != TN_OK)
            fail_msg("%s, seed %llu: %s", cases[which].name, (unsigned long long)seed,
                     got[library].error.message);
        double apart = whole_beyond(&expected, &got[library], unit);
        /* The library's pools sum overlapping windows in bfloat16. */
        bool pool = library && strstr(cases[which].name, "Pool") != NULL;
        if (!(apart <= 2 * cases[which].apart + least + (pool ? 2 * unit : 0)))
            fail_msg("%s of %s %s, seed %llu: %g more than one rounding from float32",
                     cases[which].name, tn_dtype_name(dtype), library ? "by the library" : "plain",
                     (unsigned long long)seed, apart);
    }
    bool taken = got[1].library_count > 0;
    whole_release(&expected);
    whole_release(&got[0]);
    whole_release(&got[1]);
    tn_graph_destroy(wide.graph);
    tn_graph_destroy(low.graph);
    return taken;
}

static void training_in_16_bits_is_float32_rounded_once(void **state) {
    const uint32_t tries = case_count(TRIES / 2, 2);
    (void)state;
    for (size_t which = 0; which < sizeof cases / sizeof *cases; which++)
        for (tn_dtype dtype = TN_FLOAT16;; dtype = TN_BFLOAT16) {
            uint32_t taken = 0;
            for (uint64_t seed = 1; seed <= tries; seed++)
                taken += check_low(which, which * 1000 + seed, dtype);
            printf("%-20s %-8s the library took %u of %u\n", cases[which].name,
                   tn_dtype_name(dtype), taken, tries);
            if (dtype == TN_BFLOAT16) break;
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_by_the_library_agrees_with_plain_loops),
        cmocka_unit_test(large_gradients_agree_with_plain_loops),
        cmocka_unit_test(convolutions_in_pieces_have_the_same_bits),
        cmocka_unit_test(products_step_around_powers_of_two),
        cmocka_unit_test(training_in_16_bits_is_float32_rounded_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
