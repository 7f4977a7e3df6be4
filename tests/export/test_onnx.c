/* test_onnx.c - .onnx models written in parts: random convolutional networks with branches, read
 * back and run by our engine to the same bits; every byte that is not in a region stays. */
#include <sys/stat.h>
#include <tenure/rewrite.h>
#include <unistd.h>

#include "export/one_file.h"
#include "import/proto.h"
#include "whole.h"

#define SEED 90210u
#define NETWORKS 12u

static char folder[] = "/tmp/tenure-export-XXXXXX";
static char input[60], output[60];
static tn_error failure;

/* --- networks --- */

typedef struct net {
    tn__random random;
    proto graph;
    char last[16];          /* what the next layer reads */
    char same[16];          /* another tensor of its shape; empty: none */
    int64_t channels, size; /* of an image of `size` rows and columns */
    uint32_t names;
} net;

static int64_t draw(net *at, int64_t first, int64_t last) {
    return first + (int64_t)tn__random_below(&at->random, (uint64_t)(last - first + 1));
}

static void next(net *at, char name[16]) { snprintf(name, 16, "t%u", at->names++); }

static proto ints_attr(const char *name, const int64_t *ints, uint32_t count) {
    proto attr = onnx_attr(name, 7);
    for (uint32_t i = 0; i < count; i++) proto_int(&attr, 8, ints[i]);
    return attr;
}

static void add_weight(net *at, const char *name, const char *dims, uint32_t count) {
    float *values = calloc(count, sizeof *values);
    proto_sub(&at->graph, GRAPH_INITIALIZER,
              onnx_tensor(name, FLOAT, dims, values, count * sizeof *values));
    free(values);
}

static void take(net *at, proto node, const char *made) {
    proto_sub(&at->graph, GRAPH_NODE, node);
    snprintf(at->last, sizeof at->last, "%s", made);
}

/* A window: pads said, or left to auto_pad. */
static void add_window(net *at, proto *node, int64_t taps, int64_t *stride) {
    int64_t pads[4] = {draw(at, 0, taps / 2), draw(at, 0, taps / 2), taps / 2, taps / 2};
    int64_t strides[2];
    *stride = draw(at, 0, 3) == 0 ? 2 : 1;
    strides[0] = strides[1] = *stride;
    proto_sub(node, NODE_ATTRIBUTE, ints_attr("strides", strides, 2));
    if (draw(at, 0, 1)) {
        proto attr = onnx_attr("auto_pad", 3);
        proto_text(&attr, 4, draw(at, 0, 1) ? "SAME_UPPER" : "SAME_LOWER");
        proto_sub(node, NODE_ATTRIBUTE, attr);
        at->size = (at->size + *stride - 1) / *stride;
        return;
    }
    pads[1] = pads[0];
    proto_sub(node, NODE_ATTRIBUTE, ints_attr("pads", pads, 4));
    at->size = (at->size + pads[0] + pads[2] - taps) / *stride + 1;
}

static void add_conv(net *at) {
    int64_t taps = draw(at, 0, 2) ? 3 : 1, out = draw(at, 2, 6), stride;
    bool depthwise = draw(at, 0, 2) == 0;
    char made[16], weight[16], dims[60], inputs[60];
    next(at, made);
    next(at, weight);
    if (depthwise) out = at->channels;
    int64_t in = depthwise ? 1 : at->channels;
    snprintf(dims, sizeof dims, "%d,%d,%d,%d", (int)out, (int)in, (int)taps, (int)taps);
    add_weight(at, weight, dims, (uint32_t)(out * in * taps * taps));
    snprintf(inputs, sizeof inputs, "%s,%s", at->last, weight);
    proto node = onnx_node("Conv", made, inputs, made);
    if (depthwise) proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_int("group", at->channels));
    int64_t size = at->size;
    add_window(at, &node, taps, &stride);
    bool same = size == at->size && out == at->channels;
    snprintf(at->same, sizeof at->same, "%s", same ? at->last : "");
    at->channels = out;
    take(at, node, made);
}

static void add_pool(net *at) {
    static const int64_t kernel[2] = {3, 3};
    char made[16];
    int64_t stride;
    next(at, made);
    proto node = onnx_node(draw(at, 0, 1) ? "MaxPool" : "AveragePool", made, at->last, made);
    proto_sub(&node, NODE_ATTRIBUTE, ints_attr("kernel_shape", kernel, 2));
    add_window(at, &node, 3, &stride);
    at->same[0] = '\0';
    take(at, node, made);
}

static void add_relu(net *at) {
    char made[16];
    next(at, made);
    take(at, onnx_node("Relu", made, at->last, made), made);
}

static void add_residual(net *at) {
    char made[16], inputs[40];
    if (at->same[0] == '\0') return;
    next(at, made);
    snprintf(inputs, sizeof inputs, "%s,%s", at->same, at->last);
    bool joins = draw(at, 0, 1) == 0;
    proto node = onnx_node(joins ? "Concat" : "Add", made, inputs, made);
    if (joins) {
        proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_int("axis", 1));
        at->channels *= 2;
    }
    at->same[0] = '\0';
    take(at, node, made);
}

/* batch, rows  of the image: a number, or a symbol */
static void make_open_model(uint32_t number, const char *batch, const char *rows) {
    net at = {.random = {SEED + number}, .last = "image", .channels = 3, .size = 33};
    uint32_t layers = (uint32_t)draw(&at, 5, 9);
    char shape[60];
    snprintf(shape, sizeof shape, "%s,3,%s,33", batch, rows);
    proto_sub(&at.graph, GRAPH_INPUT, onnx_value("image", FLOAT, shape));
    add_conv(&at);
    for (uint32_t i = 0; i < layers && at.size > 6; i++) {
        int64_t what = draw(&at, 0, 5);
        if (what < 3) add_conv(&at);
        if (what == 3) add_pool(&at);
        if (what == 4) add_relu(&at);
        if (what == 5) add_residual(&at);
    }
    proto_sub(&at.graph, GRAPH_NODE, onnx_node("GlobalAveragePool", "mean", at.last, "y"));
    snprintf(shape, sizeof shape, "%s,%d,1,1", batch, (int)at.channels);
    proto_sub(&at.graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, shape));
    proto_sub(&at.graph, GRAPH_VALUE_INFO, onnx_value("t0", FLOAT, NULL));
    proto model = {0};
    proto_int(&model, 1, 8);
    proto_text(&model, 2, "a test"); /* producer_name */
    proto_sub(&model, 8, onnx_opset("", number % 2 ? 9 : 13));
    proto_sub(&model, 7, at.graph);
    assert_int_equal(tn__file_write(input, model.data, model.size, &failure), TN_OK);
    free(model.data);
}

static void make_model(uint32_t number) { make_open_model(number, "1", "33"); }

/* --- runs --- */

static tn_graph *load(const char *path) {
    tn_graph *graph;
    if (tn_graph_load(path, NULL, &graph, &failure) != TN_OK)
        fail_msg("%s: %s", path, failure.message);
    return graph;
}

/* Random weights by their names, plain kernels: one order of sums. */
static void same_bits(uint32_t number) {
    tn_graph *graphs[2] = {load(input), load(output)};
    whole runs[2];
    for (uint32_t i = 0; i < 2; i++) {
        runs[i] = (whole){.plain = true, .threads = 1, .seed = number};
        if (whole_run(&runs[i], graphs[i]) != TN_OK)
            fail_msg("network %u: %s", number, runs[i].error.message);
    }
    assert_int_equal(runs[0].outputs[0].bytes, runs[1].outputs[0].bytes);
    if (memcmp(runs[0].outputs[0].data, runs[1].outputs[0].data, runs[0].outputs[0].bytes) != 0)
        fail_msg("network %u of seed %u in parts: other results", number, SEED);
    for (uint32_t i = 0; i < 2; i++) {
        whole_release(&runs[i]);
        tn_graph_destroy(graphs[i]);
    }
}

static void networks_in_parts_compute_the_same_bits(void **state) {
    uint32_t split = 0;
    (void)state;
    for (uint32_t number = 0; number < NETWORKS; number++) {
        tn_export_options options = TN_EXPORT_OPTIONS_INIT;
        tn_export_report report;
        options.share = 1;
        make_model(number);
        tn_status status = tn_split_file(input, output, &options, &report, &failure);
        if (status == TN_E_EXHAUSTED) continue;
        if (status != TN_OK) fail_msg("network %u: %s", number, failure.message);
        assert_true(report.parts < report.whole && report.ops > report.whole_ops);
        same_bits(number);
        split++;
        options.budget = (report.parts + report.whole) / 2;
        assert_int_equal(tn_split_file(input, output, &options, &report, &failure), TN_OK);
        assert_true(report.parts <= options.budget);
        same_bits(number);
    }
    printf("%u of %u networks\n", split, NETWORKS);
    assert_true(2 * split >= NETWORKS);
}

/* What is written for sizes that are given is, to the byte, what is written of a file that has
 * them. */
static void sizes_that_are_given_stand_in_the_file(void **state) {
    const int64_t shape[] = {1, 3, 33, 33};
    const tn_dim dims[] = {{.name = "N", .value = 1}, {.name = "H", .value = 33}};
    const tn_input_shape image = {.name = "image", .rank = 4, .shape = shape};
    static char other[70];
    uint32_t split = 0;
    (void)state;
    snprintf(other, sizeof other, "%s/other.onnx", folder);
    for (uint32_t number = 0; number < NETWORKS; number++) {
        tn_export_options options = TN_EXPORT_OPTIONS_INIT;
        tn_export_report report;
        tn__file closed, open;
        options.share = 1;
        make_model(number);
        tn_status status = tn_split_file(input, output, &options, &report, &failure);
        if (status == TN_E_EXHAUSTED) continue;
        assert_int_equal(status, TN_OK);
        options.dims = dims;
        options.dim_count = 2;
        make_open_model(number, "N", "H");
        if (number % 2) {
            options.dim_count = 0;
            options.input_shapes = &image;
            options.input_shape_count = 1;
            make_open_model(number, "?", "H");
        }
        if (tn_split_file(input, other, &options, &report, &failure) != TN_OK)
            fail_msg("network %u: %s", number, failure.message);
        assert_int_equal(tn__file_map(output, &closed, &failure), TN_OK);
        assert_int_equal(tn__file_map(other, &open, &failure), TN_OK);
        assert_int_equal(closed.size, open.size);
        assert_memory_equal(closed.bytes, open.bytes, open.size);
        tn__file_unmap(&closed);
        tn__file_unmap(&open);
        assert_int_equal(rename(other, output), 0);
        make_model(number);
        same_bits(number);
        split++;
    }
    assert_true(2 * split >= NETWORKS);
}

static void open_sizes_are_refused(void **state) {
    tn_export_options options = TN_EXPORT_OPTIONS_INIT;
    tn_export_report report;
    proto graph = {0};
    (void)state;
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "N,4"));
    proto_sub(&graph, GRAPH_NODE, onnx_node("Relu", "relu", "x", "y"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, "N,4"));
    proto model = onnx_model(graph);
    assert_int_equal(tn__file_write(input, model.data, model.size, &failure), TN_OK);
    free(model.data);
    options.share = 0.5;
    assert_int_equal(tn_split_file(input, output, &options, &report, &failure), TN_E_UNKNOWN);
    assert_non_null(strstr(failure.message, "'N'"));
}

static void write_model(proto graph, int64_t opset) {
    proto model = {0};
    proto_int(&model, 1, 8);
    proto_sub(&model, 8, onnx_opset("", opset));
    proto_sub(&model, 7, graph);
    assert_int_equal(tn__file_write(input, model.data, model.size, &failure), TN_OK);
    free(model.data);
}

/* Before opset 4 parts are joined along axis 1 alone: those of rows cannot be written, those of
 * channels can. */
static void what_cannot_be_written_is_no_candidate(void **state) {
    static const int64_t kernel[2] = {3, 3}, strides[2] = {2, 2}, pads[4] = {1, 1, 1, 1};
    tn_export_options options = TN_EXPORT_OPTIONS_INIT;
    tn_export_report report;
    proto graph = {0};
    (void)state;
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "1,8,16,16"));
    proto node = onnx_node("Concat", "a", "x,x,x,x", "a");
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_int("axis", 2));
    proto_sub(&graph, GRAPH_NODE, node);
    proto_sub(&graph, GRAPH_NODE, onnx_node("Sigmoid", "b", "a", "b"));
    node = onnx_node("MaxPool", "y", "b", "y");
    proto_sub(&node, NODE_ATTRIBUTE, ints_attr("kernel_shape", kernel, 2));
    proto_sub(&node, NODE_ATTRIBUTE, ints_attr("strides", strides, 2));
    proto_sub(&node, NODE_ATTRIBUTE, ints_attr("pads", pads, 4));
    proto_sub(&graph, GRAPH_NODE, node);
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, "1,8,32,8"));
    write_model(graph, 3);
    options.share = 9;
    if (tn_split_file(input, output, &options, &report, &failure) != TN_OK)
        fail_msg("%s", failure.message);
    assert_true(report.parts < report.whole);
    same_bits(0);
}

static proto external_tensor(void) {
    proto tensor = onnx_tensor("c", FLOAT, "4", NULL, 0);
    onnx_entry(&tensor, 13, "location", "weights.bin");
    proto_int(&tensor, 14, 1);
    return tensor;
}

/* A constant of `block`: where contents lie beside the model, and the importer alone knows it. */
static proto external_constant(void) {
    proto node = onnx_node("Constant", "c", "", "c");
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_tensor("value", external_tensor()));
    return node;
}

static proto external_branch(const char *name) {
    proto branch = {0};
    proto_sub(&branch, GRAPH_NODE, external_constant());
    proto_sub(&branch, GRAPH_OUTPUT, onnx_value("c", FLOAT, "4"));
    return onnx_attr_graph(name, branch);
}

static void data_beside_the_model_is_found_wherever_it_is_named(void **state) {
    tn_export_options options = TN_EXPORT_OPTIONS_INIT;
    tn_export_report report;
    (void)state;
    options.share = 0.5;
    for (int where = 0; where < 3; where++) {
        proto graph = {0};
        proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "4"));
        proto_sub(&graph, GRAPH_INPUT, onnx_value("which", BOOL, ""));
        if (where == 0) proto_sub(&graph, GRAPH_INITIALIZER, external_tensor());
        if (where == 1) proto_sub(&graph, GRAPH_NODE, external_constant());
        if (where == 2) {
            proto node = onnx_node("If", "c", "which", "c");
            proto_sub(&node, NODE_ATTRIBUTE, external_branch("then_branch"));
            proto_sub(&node, NODE_ATTRIBUTE, external_branch("else_branch"));
            proto_sub(&graph, GRAPH_NODE, node);
        }
        proto_sub(&graph, GRAPH_NODE, onnx_node("Add", "y", "x,c", "y"));
        proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, "4"));
        write_model(graph, 13);
        assert_int_equal(
            tn_split_file(input, "/tmp/tenure-elsewhere.onnx", &options, &report, &failure),
            TN_E_INVALID);
        if (strstr(failure.message, "beside it") == NULL) fail_msg("%s", failure.message);
    }
}

static void no_allocation_of_one_file_that_fails_does_harm(void **state) {
    (void)state;
    make_model(2);
    one_file_without_memory(input, 1);
}

static int make_folder(void **state) {
    (void)state;
    if (mkdtemp(folder) == NULL) return -1;
    snprintf(input, sizeof input, "%s/in.onnx", folder);
    snprintf(output, sizeof output, "%s/out.onnx", folder);
    return 0;
}

static int end_folder(void **state) {
    (void)state;
    unlink(input);
    unlink(output);
    return rmdir(folder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_in_parts_compute_the_same_bits),
        cmocka_unit_test(sizes_that_are_given_stand_in_the_file),
        cmocka_unit_test(open_sizes_are_refused),
        cmocka_unit_test(what_cannot_be_written_is_no_candidate),
        cmocka_unit_test(data_beside_the_model_is_found_wherever_it_is_named),
        cmocka_unit_test(no_allocation_of_one_file_that_fails_does_harm),
    };
    return cmocka_run_group_tests(tests, make_folder, end_folder);
}
