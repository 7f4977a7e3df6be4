/* test_rewrite.c - rewritten graphs compute what the graph computes: random networks and the
 * example models, by oneDNN and by plain loops; and each pattern is found in its many forms. */
#include "count.h"
#include "whole.h"

#define DATA TENURE_SOURCE_DIR "/../shared/data/"

static tn_graph *rewritten(const tn_graph *graph, bool no_fuse, bool no_formats) {
    tn_rewrite_options options = TN_REWRITE_OPTIONS_INIT;
    tn_graph *made;
    tn_error error;
    options.no_fuse = no_fuse;
    options.no_formats = no_formats;
    if (tn_graph_rewrite(graph, &options, &made, &error) != TN_OK)
        fail_msg("%s: %s", error.where, error.message);
    return made;
}

/* Operators that run: not folded. */
static uint32_t running(const tn_graph *graph, const char *type) {
    uint32_t count = 0;
    for (tn_op_id id = 0; id < tn_graph_op_count(graph); id++) {
        const tn_op *op = tn_graph_op(graph, id);
        bool folded = op->output_count > 0 &&
                      (tn_graph_tensor(graph, op->outputs[0])->flags & TN_TENSOR_FOLDED) != 0;
        if (!folded && (type == NULL || strcmp(op->type, type) == 0)) count++;
    }
    return count;
}

static void check_same_faces(const tn_graph *a, const tn_graph *b) {
    const tn_block *one = tn_graph_block(a, 0), *two = tn_graph_block(b, 0);
    assert_int_equal(one->input_count, two->input_count);
    assert_int_equal(one->output_count, two->output_count);
    for (uint32_t i = 0; i < one->input_count + one->output_count; i++) {
        bool in = i < one->input_count;
        uint32_t k = in ? i : i - one->input_count;
        const tn_tensor *x = tn_graph_tensor(a, in ? one->inputs[k] : one->outputs[k]);
        const tn_tensor *y = tn_graph_tensor(b, in ? two->inputs[k] : two->outputs[k]);
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->dtype, y->dtype);
        assert_int_equal(x->kind, y->kind);
        assert_int_equal(x->rank, y->rank);
        if (x->rank > 0) assert_memory_equal(x->shape, y->shape, x->rank * sizeof *x->shape);
        assert_int_equal(y->format.order == TN_ORDER_NHWC, x->format.order == TN_ORDER_NHWC);
    }
}

/* --- random networks --- */

#define POOL 64u

typedef struct net {
    tn_graph *graph;
    tn__random random;
    tn_tensor_id images[POOL]; /* [2, c, h, w] */
    int64_t shapes[POOL][4];
    uint32_t count, names;
    char text[64];
} net;

static int64_t net_from(net *at, int64_t first, int64_t last) {
    return first + (int64_t)tn__random_below(&at->random, (uint64_t)(last - first + 1));
}
static const char *net_name(net *at, const char *stem) {
    snprintf(at->text, sizeof at->text, "%s%u", stem, at->names++);
    return at->text;
}
static tn_tensor_id net_parameter(net *at, const char *stem, uint32_t rank, const int64_t *shape) {
    return whole_tensor(at->graph, net_name(at, stem), TN_KIND_PARAMETER, rank, shape);
}

/* A new image, now and then an output of the network. */
static void net_op(net *at, const char *type, uint32_t version, const tn_tensor_id *inputs,
                   uint32_t input_count, const tn_attr *attrs, uint32_t attr_count,
                   const int64_t *shape) {
    bool output = net_from(at, 0, 9) == 0;
    tn_tensor_id id = whole_tensor(at->graph, net_name(at, "t"),
                                   output ? TN_KIND_OUTPUT : TN_KIND_ACTIVATION, 0, NULL);
    whole_op_in(at->graph, "", type, version, inputs, input_count, id, attrs, attr_count);
    at->images[at->count] = id;
    memcpy(at->shapes[at->count], shape, 4 * sizeof *shape);
    at->count++;
}

static void net_conv(net *at, uint32_t from) {
    int64_t *x = at->shapes[from], depth = net_from(at, 0, 3) == 0 ? x[1] : 1;
    int64_t out = depth > 1 ? x[1] : net_from(at, 1, 20), kernel = net_from(at, 0, 1) ? 3 : 1;
    int64_t w[4] = {out, x[1] / depth, kernel, kernel}, y[4] = {x[0], out, x[2], x[3]};
    int64_t pad = kernel / 2, pads[4] = {pad, pad, pad, pad};
    tn_attr attrs[2] = {{.name = "group", .type = TN_ATTR_INT, .count = 1, .ints = &depth},
                        {.name = "pads", .type = TN_ATTR_INTS, .count = 4, .ints = pads}};
    tn_tensor_id inputs[3] = {at->images[from], net_parameter(at, "w", 4, w), TN_NONE};
    uint32_t count = 2;
    if (net_from(at, 0, 1)) inputs[count++] = net_parameter(at, "b", 1, &out);
    net_op(at, "Conv", 11, inputs, count, attrs, 2, y);
}

static void net_batch(net *at, uint32_t from) {
    int64_t *x = at->shapes[from];
    tn_tensor_id inputs[5] = {at->images[from], net_parameter(at, "scale", 1, &x[1]),
                              net_parameter(at, "shift", 1, &x[1]),
                              net_parameter(at, "mean", 1, &x[1]),
                              net_parameter(at, "var", 1, &x[1])};
    net_op(at, "BatchNormalization", 9, inputs, 5, NULL, 0, x);
}

static void net_each(net *at, uint32_t from) {
    static const char *const types[] = {"Relu",      "Sigmoid", "Tanh", "HardSwish",
                                        "LeakyRelu", "Clip",    "Elu"};
    double low = -0.5, high = 0.5;
    tn_attr clip[2] = {{.name = "min", .type = TN_ATTR_FLOAT, .count = 1, .floats = &low},
                       {.name = "max", .type = TN_ATTR_FLOAT, .count = 1, .floats = &high}};
    const char *type = types[net_from(at, 0, 6)];
    bool clips = strcmp(type, "Clip") == 0;
    net_op(at, type, clips ? 6 : 14, &at->images[from], 1, clip, clips ? 2 : 0, at->shapes[from]);
}

static void net_swish(net *at, uint32_t from) {
    net_op(at, "Sigmoid", 13, &at->images[from], 1, NULL, 0, at->shapes[from]);
    tn_tensor_id both[2] = {at->images[at->count - 1], at->images[from]};
    net_op(at, "Mul", 13, both, 2, NULL, 0, at->shapes[from]);
}

static bool net_alike(const net *at, uint32_t a, uint32_t b, bool channels) {
    for (uint32_t d = 0; d < 4; d++)
        if (at->shapes[a][d] != at->shapes[b][d] && !(d == 1 && !channels)) return false;
    return true;
}

static void net_pair(net *at, uint32_t from) {
    static const char *const types[] = {"Add", "Mul", "Sub", "Sum", "Add"};
    uint32_t other = (uint32_t)net_from(at, 0, at->count - 1);
    int64_t line[3] = {at->shapes[from][1], 1, 1};
    tn_tensor_id both[2] = {at->images[from], at->images[other]};
    if (!net_alike(at, from, other, true)) both[1] = net_parameter(at, "c", 3, line);
    if (net_from(at, 0, 1)) {
        tn_tensor_id kept = both[0];
        both[0] = both[1];
        both[1] = kept;
    }
    const char *type = types[net_from(at, 0, 4)];
    net_op(at, type, 13, both, 2, NULL, 0, at->shapes[from]);
}

static void net_join(net *at, uint32_t from) {
    uint32_t other = (uint32_t)net_from(at, 0, at->count - 1);
    int64_t axis = 1, y[4];
    tn_attr attr = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = &axis};
    tn_tensor_id both[2] = {at->images[from], at->images[other]};
    if (!net_alike(at, from, other, false)) return;
    memcpy(y, at->shapes[from], sizeof y);
    y[1] += at->shapes[other][1];
    if (y[1] < 64) net_op(at, "Concat", 13, both, 2, &attr, 1, y);
}

static void net_pool(net *at, uint32_t from) {
    static const int64_t kernel[2] = {2, 2};
    const int64_t *x = at->shapes[from];
    int64_t y[4] = {x[0], x[1], x[2] / 2, x[3] / 2};
    tn_attr attrs[2] = {{.name = "kernel_shape", .type = TN_ATTR_INTS, .count = 2, .ints = kernel},
                        {.name = "strides", .type = TN_ATTR_INTS, .count = 2, .ints = kernel}};
    if (x[2] < 2 || x[3] < 2) return;
    net_op(at, net_from(at, 0, 1) ? "MaxPool" : "AveragePool", 11, &at->images[from], 1, attrs, 2,
           y);
}

static void net_gate(net *at, uint32_t from) {
    int64_t small[4] = {at->shapes[from][0], at->shapes[from][1], 1, 1};
    net_op(at, "GlobalAveragePool", 1, &at->images[from], 1, NULL, 0, small);
    net_conv(at, at->count - 1);
    if (at->shapes[at->count - 1][1] != at->shapes[from][1]) return;
    tn_tensor_id both[2] = {at->images[at->count - 1], at->images[from]};
    net_op(at, "Mul", 13, both, 2, NULL, 0, at->shapes[from]);
}

/* What does not care for channels last: a border. */
static void net_border(net *at, uint32_t from) {
    static const int64_t perm[4] = {0, 1, 3, 2};
    const int64_t *x = at->shapes[from];
    int64_t y[4] = {x[0], x[1], x[3], x[2]};
    tn_attr attr = {.name = "perm", .type = TN_ATTR_INTS, .count = 4, .ints = perm};
    net_op(at, "Transpose", 13, &at->images[from], 1, &attr, 1, y);
}

static tn_graph *net_make(uint64_t seed) {
    static void (*const steps[])(net * at, uint32_t from) = {
        net_conv, net_conv, net_batch, net_each, net_each,   net_swish,
        net_pair, net_pair, net_join,  net_pool, net_border, net_gate};
    net at = {.random = {seed}};
    assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
    int64_t x[4] = {net_from(&at, 1, 2), net_from(&at, 1, 5), net_from(&at, 4, 9),
                    net_from(&at, 4, 9)};
    at.images[0] = whole_tensor(at.graph, "x", TN_KIND_INPUT, 4, x);
    memcpy(at.shapes[0], x, sizeof x);
    at.count = 1;
    uint32_t length = (uint32_t)net_from(&at, 4, 20);
    while (at.count < length) {
        /* The last image, mostly: chains are what rewrites look for. */
        uint32_t from =
            net_from(&at, 0, 3) ? at.count - 1 : (uint32_t)net_from(&at, 0, at.count - 1);
        steps[net_from(&at, 0, sizeof steps / sizeof *steps - 1)](&at, from);
    }
    tn_tensor_id y = whole_tensor(at.graph, "y", TN_KIND_OUTPUT, 0, NULL);
    whole_op_in(at.graph, "", "Identity", 13, &at.images[at.count - 1], 1, y, NULL, 0);
    whole_infer(at.graph);
    return at.graph;
}

/* Runs `graph` and its rewritten forms, all within `apart` of the first. */
static void check_forms(const tn_graph *graph, whole like, bool plain_too, double apart,
                        const char *what) {
    whole first = like;
    if (whole_run(&first, graph) != TN_OK)
        fail_msg("%s: %s: %s", what, first.error.where, first.error.message);
    for (int form = 0; form < (plain_too ? 6 : 3); form++) {
        tn_graph *made = rewritten(graph, form % 3 == 1, form % 3 == 2);
        whole run = like;
        run.plain = form >= 3;
        run.threads = 1 + (uint32_t)form % 2;
        check_same_faces(graph, made);
        if (whole_run(&run, made) != TN_OK)
            fail_msg("%s, form %d: %s: %s", what, form, run.error.where, run.error.message);
        double gap = whole_difference(&first, &run);
        if (!(gap <= apart)) fail_msg("%s, form %d: %g apart", what, form, gap);
        whole_release(&run);
        tn_graph_destroy(made);
    }
    whole_release(&first);
}

static void random_networks_compute_the_same_when_rewritten(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(120, 12); seed++) {
        tn_graph *graph = net_make(seed);
        char what[40];
        snprintf(what, sizeof what, "seed %llu", (unsigned long long)seed);
        check_forms(graph, (whole){.plain = true, .seed = seed}, true, 1e-4, what);
        tn_graph_destroy(graph);
    }
}

/* --- random blocks of transformers --- */

typedef struct block {
    tn_graph *graph;
    tn__random random;
    uint32_t names;
    char text[32];
} block;

static const char *block_name(block *at, const char *stem) {
    snprintf(at->text, sizeof at->text, "%s%u", stem, at->names++);
    return at->text;
}
static bool block_coin(block *at) { return tn__random_below(&at->random, 2) == 1; }
static tn_tensor_id block_weights(block *at, const char *stem, uint32_t rank,
                                  const int64_t *shape) {
    return whole_tensor(at->graph, block_name(at, stem), TN_KIND_PARAMETER, rank, shape);
}
static tn_tensor_id block_number(block *at, double number) {
    tn_tensor_spec spec = {.name = block_name(at, "k"),
                           .dtype = TN_FLOAT32,
                           .kind = TN_KIND_CONSTANT,
                           .shape = NULL,
                           .value = {.count = 1, .floats = &number}};
    tn_tensor_id id;
    assert_int_equal(tn_graph_add_tensor(at->graph, &spec, &id, NULL), TN_OK);
    return id;
}
static tn_tensor_id block_op(block *at, const char *type, tn_tensor_id a, tn_tensor_id b,
                             const tn_attr *attrs, uint32_t attr_count) {
    tn_tensor_id both[2] = {a, b};
    tn_tensor_id id = whole_tensor(at->graph, block_name(at, "t"), TN_KIND_ACTIVATION, 0, NULL);
    whole_op_in(at->graph, "", type, 13, both, b == TN_NONE ? 1 : 2, id, attrs, attr_count);
    return id;
}
/* Two operands in either order. */
static tn_tensor_id block_pair(block *at, const char *type, tn_tensor_id a, tn_tensor_id b) {
    return block_coin(at) ? block_op(at, type, a, b, NULL, 0) : block_op(at, type, b, a, NULL, 0);
}
static tn_tensor_id block_reshape(block *at, tn_tensor_id x, uint32_t rank, const int64_t *shape) {
    int64_t extent = rank;
    tn_tensor_spec spec = {.name = block_name(at, "s"),
                           .dtype = TN_INT64,
                           .kind = TN_KIND_CONSTANT,
                           .rank = 1,
                           .shape = &extent,
                           .value = {.count = rank, .ints = shape}};
    tn_tensor_id id;
    assert_int_equal(tn_graph_add_tensor(at->graph, &spec, &id, NULL), TN_OK);
    return block_op(at, "Reshape", x, id, NULL, 0);
}
static tn_tensor_id block_transpose(block *at, tn_tensor_id x, int64_t a, int64_t b, int64_t c,
                                    int64_t d) {
    int64_t perm[4] = {a, b, c, d};
    tn_attr attr = {.name = "perm", .type = TN_ATTR_INTS, .count = 4, .ints = perm};
    return block_op(at, "Transpose", x, TN_NONE, &attr, 1);
}

static tn_tensor_id block_norm(block *at, tn_tensor_id x, int64_t width) {
    int64_t axis = -1;
    tn_attr attr = {.name = "axes", .type = TN_ATTR_INTS, .count = 1, .ints = &axis};
    tn_tensor_id mean = block_op(at, "ReduceMean", x, TN_NONE, &attr, 1);
    tn_tensor_id d = block_op(at, "Sub", x, mean, NULL, 0);
    tn_tensor_id square = block_coin(at) ? block_op(at, "Mul", d, d, NULL, 0)
                                         : block_op(at, "Pow", d, block_number(at, 2), NULL, 0);
    tn_tensor_id variance = block_op(at, "ReduceMean", square, TN_NONE, &attr, 1);
    tn_tensor_id sum = block_pair(at, "Add", variance, block_number(at, 1e-5));
    tn_tensor_id root = block_op(at, "Sqrt", sum, TN_NONE, NULL, 0);
    tn_tensor_id normal = block_op(at, "Div", d, root, NULL, 0);
    tn_tensor_id scaled = block_pair(at, "Mul", normal, block_weights(at, "g", 1, &width));
    return block_pair(at, "Add", scaled, block_weights(at, "h", 1, &width));
}

static tn_tensor_id block_linear(block *at, tn_tensor_id x, int64_t from, int64_t to) {
    int64_t shape[2] = {from, to};
    tn_tensor_id y = block_op(at, "MatMul", x, block_weights(at, "w", 2, shape), NULL, 0);
    return block_coin(at) ? block_pair(at, "Add", y, block_weights(at, "b", 1, &to)) : y;
}

static tn_tensor_id block_gelu(block *at, tn_tensor_id x) {
    tn_tensor_id one = block_number(at, 1), half = block_number(at, 0.5), inner, sum;
    if (block_coin(at)) {
        inner = block_coin(at)
                    ? block_op(at, "Div", x, block_number(at, 1.4142135381698608), NULL, 0)
                    : block_pair(at, "Mul", x, block_number(at, 0.7071067690849304));
        inner = block_op(at, "Erf", inner, TN_NONE, NULL, 0);
    } else {
        inner = block_op(at, "Pow", x, block_number(at, 3), NULL, 0);
        inner = block_pair(at, "Mul", inner, block_number(at, 0.044714998453855515));
        inner = block_pair(at, "Add", x, inner);
        inner = block_pair(at, "Mul", inner, block_number(at, 0.7978845834732056));
        inner = block_op(at, "Tanh", inner, TN_NONE, NULL, 0);
    }
    sum = block_pair(at, "Add", inner, one);
    if (block_coin(at)) return block_pair(at, "Mul", block_pair(at, "Mul", x, half), sum);
    return block_pair(at, "Mul", block_pair(at, "Mul", x, sum), half);
}

static tn_tensor_id block_attention(block *at, tn_tensor_id x, int64_t batch, int64_t rows,
                                    int64_t heads, int64_t width) {
    int64_t split[4] = {batch, rows, heads, width}, joined[3] = {batch, rows, heads * width};
    tn_tensor_id part[3];
    for (uint32_t i = 0; i < 3; i++) {
        part[i] = block_linear(at, x, heads * width, heads * width);
        part[i] = block_reshape(at, part[i], 4, split);
    }
    part[0] = block_transpose(at, part[0], 0, 2, 1, 3);
    part[1] = block_transpose(at, part[1], 0, 2, 3, 1);
    part[2] = block_transpose(at, part[2], 0, 2, 1, 3);
    if (block_coin(at)) part[0] = block_op(at, "Div", part[0], block_number(at, 4), NULL, 0);
    tn_tensor_id scores = block_op(at, "MatMul", part[0], part[1], NULL, 0);
    if (block_coin(at)) scores = block_pair(at, "Mul", scores, block_number(at, 0.3));
    scores = block_op(at, "Softmax", scores, TN_NONE, NULL, 0);
    tn_tensor_id mixed = block_op(at, "MatMul", scores, part[2], NULL, 0);
    mixed = block_transpose(at, mixed, 0, 2, 1, 3);
    return block_linear(at, block_reshape(at, mixed, 3, joined), heads * width, heads * width);
}

static void random_transformers_compute_the_same_when_rewritten(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(40, 6); seed++) {
        block at = {.random = {seed}};
        int64_t batch = 1 + (int64_t)tn__random_below(&at.random, 2);
        int64_t rows = 1 + (int64_t)tn__random_below(&at.random, 9);
        int64_t heads = 1 + (int64_t)tn__random_below(&at.random, 3);
        int64_t width = 1 + (int64_t)tn__random_below(&at.random, 9), wide = heads * width;
        int64_t shape[3] = {batch, rows, wide};
        assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
        tn_tensor_id x = whole_tensor(at.graph, "x", TN_KIND_INPUT, 3, shape), kept = x;
        if (block_coin(&at)) x = block_norm(&at, x, wide);
        x = block_attention(&at, x, batch, rows, heads, width);
        kept = x = block_pair(&at, "Add", x, kept);
        if (block_coin(&at)) x = block_norm(&at, x, wide);
        x = block_gelu(&at, block_linear(&at, x, wide, 2 * wide));
        x = block_pair(&at, "Add", block_linear(&at, x, 2 * wide, wide), kept);
        tn_tensor_id y = whole_tensor(at.graph, "y", TN_KIND_OUTPUT, 0, NULL);
        whole_op_in(at.graph, "", "Identity", 13, &x, 1, y, NULL, 0);
        whole_infer(at.graph);
        tn_graph *made = rewritten(at.graph, false, false);
        assert_int_equal(running(made, "Transpose"), 0);
        assert_int_equal(running(made, "ReduceMean"), 0);
        assert_int_equal(running(made, "Add"), 0);
        assert_int_equal(running(made, "Gelu"), 0);
        assert_int_equal(running(made, "Erf"), 0);
        assert_int_equal(running(made, "Tanh"), 0);
        tn_graph_destroy(made);
        char what[40];
        snprintf(what, sizeof what, "block %llu", (unsigned long long)seed);
        check_forms(at.graph, (whole){.plain = true, .seed = seed}, true, 1e-4, what);
        tn_graph_destroy(at.graph);
    }
}

/* --- models --- */

static void check_model(const char *name) {
    char path[300];
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    tn_dim batch = {.name = "N", .value = 1};
    tn_graph *graph;
    tn_contents *contents = NULL;
    tn_error error;
    options.dims = &batch;
    options.dim_count = strcmp(name, "onnx/fashion_resnet") == 0 ? 1 : 0;
    snprintf(path, sizeof path, DATA "%s.onnx", name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        printf("SKIP: %s is not there\n", path);
        return;
    }
    fclose(file);
    if (tn_graph_load(path, &options, &graph, &error) != TN_OK ||
        tn_contents_generate(path, graph, 1, NULL, &contents, &error) != TN_OK)
        fail_msg("%s: %s", name, error.message);
    whole like = {.seed = 5, .from = contents, .threads = 1, .skip_poison = true};
    check_forms(graph, like, false, 1e-4, name);
    tn_contents_close(contents);
    tn_graph_destroy(graph);
}

static void models_compute_the_same_when_rewritten(void **state) {
    static const char *const names[] = {"onnx/fashion_resnet",
                                        "onnx/mnist8",
                                        "onnx/ultraface",
                                        "onnx/fastestdet",
                                        "onnx/dtln1",
                                        "onnx-light/light_shufflenet",
                                        "onnx-light/light_squeezenet",
                                        "onnx-light/light_resnet50",
                                        "onnx-light/light_inception_v2",
                                        "onnx-weightless/mobilenet_v2",
                                        "onnx-weightless/mobilenet_v3_small",
                                        "onnx-weightless/efficientnet_b0"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_model(names[i]);
}

/* --- patterns --- */

static void a_residual_block_is_one_operator_a_convolution(void **state) {
    (void)state;
    net at = {.random = {1}};
    int64_t x[4] = {1, 8, 6, 6}, w[4] = {8, 8, 3, 3}, pads[4] = {1, 1, 1, 1};
    tn_attr attr = {.name = "pads", .type = TN_ATTR_INTS, .count = 4, .ints = pads};
    assert_int_equal(tn_graph_create(NULL, &at.graph, NULL), TN_OK);
    tn_tensor_id in = whole_tensor(at.graph, "x", TN_KIND_INPUT, 4, x), t[8], both[2];
    for (uint32_t i = 0; i < 8; i++)
        t[i] = whole_tensor(at.graph, "t", TN_KIND_ACTIVATION, 0, NULL);
    tn_tensor_id y = whole_tensor(at.graph, "y", TN_KIND_OUTPUT, 0, NULL);
    tn_tensor_id from = in;
    for (uint32_t i = 0; i < 2; i++) { /* Conv, BatchNormalization, and after the first Relu */
        tn_tensor_id conv[2] = {from, net_parameter(&at, "w", 4, w)};
        whole_op_in(at.graph, "", "Conv", 11, conv, 2, t[3 * i], &attr, 1);
        tn_tensor_id batch[5] = {
            t[3 * i], net_parameter(&at, "scale", 1, &x[1]), net_parameter(&at, "shift", 1, &x[1]),
            net_parameter(&at, "mean", 1, &x[1]), net_parameter(&at, "var", 1, &x[1])};
        whole_op_in(at.graph, "", "BatchNormalization", 9, batch, 5, t[3 * i + 1], NULL, 0);
        if (i == 0) whole_op_in(at.graph, "", "Relu", 13, &t[1], 1, t[2], NULL, 0);
        from = t[2];
    }
    both[0] = t[4];
    both[1] = in;
    whole_op_in(at.graph, "", "Add", 13, both, 2, t[5], NULL, 0);
    whole_op_in(at.graph, "", "Relu", 13, &t[5], 1, y, NULL, 0);
    /* t[6], t[7] have no producer and no reader */
    whole_infer(at.graph);
    tn_graph *made = rewritten(at.graph, false, true);
    assert_int_equal(running(made, NULL), 2);
    assert_int_equal(running(made, "Conv"), 2);
    tn_graph_destroy(made);
    tn_graph_destroy(at.graph);
}

static void check_model_patterns(const char *name, const char *const *gone, uint32_t gone_count,
                                 const char *type, uint32_t count) {
    char path[300];
    tn_graph *graph;
    tn_error error;
    snprintf(path, sizeof path, DATA "onnx-weightless/%s.onnx", name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        printf("SKIP: %s is not there\n", path);
        skip();
    }
    fclose(file);
    if (tn_graph_load(path, NULL, &graph, &error) != TN_OK) fail_msg("%s", error.message);
    tn_graph *made = rewritten(graph, false, false);
    for (uint32_t i = 0; i < gone_count; i++)
        if (running(made, gone[i]) > 0) fail_msg("%s: %s is left", name, gone[i]);
    assert_int_equal(running(made, type), count);
    tn_graph_destroy(made);
    tn_graph_destroy(graph);
}

static void transformers_lose_their_small_operators(void **state) {
    static const char *const gone[] = {"Erf", "Pow", "ReduceMean", "Sqrt", "Transpose", "Gelu"};
    (void)state;
    check_model_patterns("bert_base_t128", gone, 6, "LayerNormalization", 25);
    check_model_patterns("gpt2_small_t128", gone, 6, "LayerNormalization", 25);
}

static void convolutional_networks_are_convolutions_and_little_else(void **state) {
    static const char *const gone[] = {"Relu", "Add", "Clip", "BatchNormalization"};
    (void)state;
    check_model_patterns("resnet50", gone, 4, "Reorder", 2);
    check_model_patterns("mobilenet_v2", gone, 4, "Reorder", 2);
}

/* --- switches --- */

static void every_rewrite_may_be_left_out(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(12, 2); seed++) {
        tn_graph *graph = net_make(seed);
        whole first = {.plain = true, .seed = seed};
        assert_int_equal(whole_run(&first, graph), TN_OK);
        for (uint32_t i = 0; i <= tn_rewrite_count(); i++) {
            tn_rewrite_options options = TN_REWRITE_OPTIONS_INIT;
            char two[80];
            tn_graph *made;
            tn_error error;
            snprintf(two, sizeof two, "%s,%s", tn_rewrite_name(i % tn_rewrite_count()),
                     tn_rewrite_name((uint32_t)seed % tn_rewrite_count()));
            options.without = i < tn_rewrite_count() ? tn_rewrite_name(i) : two;
            if (tn_graph_rewrite(graph, &options, &made, &error) != TN_OK)
                fail_msg("%s", error.message);
            whole run = {.seed = seed};
            if (whole_run(&run, made) != TN_OK) fail_msg("%s", run.error.message);
            if (!(whole_difference(&first, &run) <= 1e-4))
                fail_msg("seed %llu without %s", (unsigned long long)seed, options.without);
            whole_release(&run);
            tn_graph_destroy(made);
        }
        whole_release(&first);
        tn_graph_destroy(graph);
    }
}

static void names_that_are_no_rewrites_are_refused(void **state) {
    (void)state;
    tn_graph *graph = net_make(1), *made = NULL;
    tn_rewrite_options options = TN_REWRITE_OPTIONS_INIT;
    tn_error error;
    options.without = "gelu,no-such";
    assert_int_equal(tn_graph_rewrite(graph, &options, &made, &error), TN_E_UNKNOWN);
    assert_non_null(strstr(error.message, "no-such"));
    assert_null(made);
    tn_graph_destroy(graph);
}

/* --- failing --- */

static void a_rewrite_that_runs_out_of_memory_leaves_nothing(void **state) {
    (void)state;
    tn_graph *graph = net_make(3);
    for (uint64_t at = 1;; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_rewrite_options options = TN_REWRITE_OPTIONS_INIT;
        tn_graph *made = NULL;
        tn_error error;
        options.context = &context;
        tn_status status = tn_graph_rewrite(graph, &options, &made, &error);
        if (status == TN_OK) {
            tn_graph_destroy(made);
            assert_int_equal(memory.held, 0);
            break;
        }
        assert_int_equal(status, TN_E_NO_MEMORY);
        assert_null(made);
        assert_int_equal(memory.held, 0);
    }
    tn_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_residual_block_is_one_operator_a_convolution),
        cmocka_unit_test(transformers_lose_their_small_operators),
        cmocka_unit_test(convolutional_networks_are_convolutions_and_little_else),
        cmocka_unit_test(random_networks_compute_the_same_when_rewritten),
        cmocka_unit_test(random_transformers_compute_the_same_when_rewritten),
        cmocka_unit_test(models_compute_the_same_when_rewritten),
        cmocka_unit_test(every_rewrite_may_be_left_out),
        cmocka_unit_test(names_that_are_no_rewrites_are_refused),
        cmocka_unit_test(a_rewrite_that_runs_out_of_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
