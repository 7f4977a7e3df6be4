/* test_damage.c - damaged and hostile files: an answer or an error that names the file, never a
 * crash, a leak, or memory out of proportion. Sanitizers watch; so does a counting allocator. */
#include <dirent.h>
#include <sys/stat.h>

#include "proto.h"

#include "base/base.h"

/* --- an allocator that counts, and fails on demand --- */

typedef struct counter {
    uint64_t calls, fail_at; /* 0: never */
    size_t held, most;
} counter;

static void *counter_resize(void *self, void *pointer, size_t old_size, size_t new_size,
                            size_t alignment) {
    counter *count = self;
    (void)alignment;
    if (new_size && ++count->calls == count->fail_at) return NULL;
    void *result = NULL;
    if (new_size) {
        result = realloc(pointer, new_size);
        if (!result) return NULL;
    } else {
        free(pointer);
    }
    count->held += new_size - old_size;
    if (count->held > count->most) count->most = count->held;
    return result;
}

typedef struct watched {
    counter count;
    tn_context context;
    tn_import_options options;
} watched;

static const tn_import_options *watch(watched *to, uint64_t fail_at) {
    *to = (watched){.count.fail_at = fail_at};
    to->context = (tn_context)TN_CONTEXT_INIT;
    to->context.allocator = (tn_allocator){counter_resize, &to->count};
    to->options = (tn_import_options)TN_IMPORT_OPTIONS_INIT;
    to->options.context = &to->context;
    return &to->options;
}

/* Loads; asserts what must hold whatever the file is. */
static tn_status try_bytes(const uint8_t *bytes, size_t size, size_t *most) {
    watched watch_it;
    loaded result = load_bytes(bytes, size, watch(&watch_it, 0));
    if (result.status == TN_OK) {
        assert_non_null(result.graph);
        unload(result);
    } else {
        assert_null(result.graph);
        if (strncmp(result.error.where, "test.onnx", 9) != 0 || !result.error.message[0])
            fail_msg("error without file or message: [%s] %s", result.error.where,
                     result.error.message);
        assert_int_equal(result.error.status, result.status);
    }
    assert_int_equal(watch_it.count.held, 0);
    if (most) *most = watch_it.count.most;
    return result.status;
}

static bool is_expected(tn_status status) {
    return status == TN_OK || status == TN_E_INVALID || status == TN_E_UNKNOWN ||
           status == TN_E_UNSUPPORTED;
}

/* --- files --- */

#define SHARED "../shared/data/"

/* Runs `visit` on every small model of a folder; large ones are mostly weights. */
static uint32_t for_models(const char *folder, size_t largest,
                           void (*visit)(uint8_t *bytes, size_t size, const char *name)) {
    char path[600];
    uint32_t count = 0;
    snprintf(path, sizeof path, "%s/%s", TENURE_SOURCE_DIR, folder);
    DIR *directory = opendir(path);
    if (!directory) {
        printf("SKIP: %s is not there\n", folder);
        return 0;
    }
    for (struct dirent *entry; (entry = readdir(directory));) {
        size_t length = strlen(entry->d_name);
        struct stat facts;
        if (length < 5 || strcmp(entry->d_name + length - 5, ".onnx") != 0) continue;
        snprintf(path, sizeof path, "%s/%s/%s", TENURE_SOURCE_DIR, folder, entry->d_name);
        if (stat(path, &facts) != 0 || (size_t)facts.st_size > largest) continue;
        FILE *file = fopen(path, "rb");
        assert_non_null(file);
        size_t size = (size_t)facts.st_size;
        uint8_t *bytes = malloc(size); /* exactly as long: a read beyond is seen */
        assert_non_null(bytes);
        assert_int_equal(fread(bytes, 1, size, file), size);
        fclose(file);
        visit(bytes, size, entry->d_name);
        free(bytes);
        count++;
    }
    closedir(directory);
    return count;
}

static void truncate_all_over(uint8_t *bytes, size_t size, const char *name) {
    for (size_t at = 0; at < size; at += 97) {
        uint8_t *part = malloc(at + 1);
        assert_non_null(part);
        memcpy(part, bytes, at);
        tn_status status = try_bytes(part, at, NULL);
        if (!is_expected(status)) fail_msg("%s cut at %zu: %s", name, at, tn_status_name(status));
        free(part);
    }
}

static void real_models_cut_off_anywhere_are_answered(void **state) {
    (void)state;
    for_models(SHARED "onnx-weightless", 50000, truncate_all_over);
    for_models(SHARED "onnx-light", 50000, truncate_all_over);
    for_models(SHARED "onnx-train", 66000, truncate_all_over);
    for_models(SHARED "onnx", 30000, truncate_all_over);
}

#define FLIPS 400

static void flip_bits(uint8_t *bytes, size_t size, const char *name) {
    tn__random random = {size};
    for (int i = 0; i < FLIPS; i++) {
        uint64_t seed = random.state;
        uint32_t flips = 1 + (uint32_t)tn__random_below(&random, 3);
        size_t at[3];
        uint8_t old[3];
        for (uint32_t j = 0; j < flips; j++) {
            at[j] = (size_t)tn__random_below(&random, size);
            old[j] = bytes[at[j]];
            bytes[at[j]] = (uint8_t)(bytes[at[j]] ^ (1u << tn__random_below(&random, 8)));
        }
        tn_status status = try_bytes(bytes, size, NULL);
        if (!is_expected(status))
            fail_msg("%s, seed %llu: %s", name, (unsigned long long)seed, tn_status_name(status));
        for (uint32_t j = flips; j-- > 0;) bytes[at[j]] = old[j];
    }
}

static void real_models_with_flipped_bits_are_answered(void **state) {
    (void)state;
    for_models(SHARED "onnx-weightless", 13000, flip_bits);
    for_models(SHARED "onnx-light", 16000, flip_bits);
    for_models(SHARED "onnx-train", 66000, flip_bits);
    for_models(SHARED "onnx", 30000, flip_bits);
}

/* --- memory that runs out --- */

/* A model that uses every part of the reader: functions, subgraphs, contents, symbols. */
static proto rich_model(void) {
    proto graph = onnx_small_graph(), function = {0}, body = {0}, node;
    int64_t values[3] = {1, 2, 3};
    proto_sub(&graph, GRAPH_INPUT, onnx_value("s", FLOAT, "N,4"));
    proto_sub(&graph, GRAPH_INITIALIZER, onnx_tensor("w", INT64, "3", values, sizeof values));
    proto_sub(&body, GRAPH_NODE, onnx_own("inner", "x", "r"));
    proto_sub(&body, GRAPH_OUTPUT, onnx_value("r", FLOAT, "N,3"));
    node = onnx_own("outer", "s,w", "h");
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_graph("body", body));
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_int("k", 5));
    proto_sub(&node, NODE_ATTRIBUTE,
              onnx_attr_tensor("t", onnx_tensor("", INT64, "3", values, sizeof values)));
    proto_sub(&graph, GRAPH_NODE, node);
    proto_sub(&graph, GRAPH_VALUE_INFO, onnx_value("h", FLOAT, "2,3"));
    node = onnx_node("F", "call", "h", "y");
    proto_text(&node, NODE_DOMAIN, "f");
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_int("k", 5));
    proto_sub(&graph, GRAPH_NODE, node);
    proto_text(&function, 1, "F");
    proto_text(&function, 10, "f");
    proto_text(&function, 4, "a");
    proto_text(&function, 5, "b");
    proto_sub(&function, 9, onnx_opset("my", 2));
    node = onnx_own("in", "a", "b");
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_ref("j", 2, "k"));
    proto_sub(&function, 7, node);
    proto model = onnx_model(graph);
    proto_sub(&model, 25, function);
    return model;
}

static void every_allocation_may_fail(void **state) {
    (void)state;
    proto model = rich_model();
    tn_dim dim = {"N", 2};
    tn_input_shape shape = {"s", 2, (const int64_t[]){2, 4}};
    const char *glob = "s";
    tn_status status = TN_E_NO_MEMORY;
    uint64_t fail_at = 0;
    while (status == TN_E_NO_MEMORY) {
        watched watch_it;
        watch(&watch_it, ++fail_at);
        watch_it.options.dims = &dim;
        watch_it.options.dim_count = 1;
        watch_it.options.input_shapes = &shape;
        watch_it.options.input_shape_count = 1;
        watch_it.options.parameters = &glob;
        watch_it.options.parameter_count = 1;
        loaded result = load_bytes(model.data, model.size, &watch_it.options);
        status = result.status;
        if (status == TN_OK)
            unload(result);
        else
            assert_null(result.graph);
        assert_int_equal(watch_it.count.held, 0);
    }
    assert_int_equal(status, TN_OK);
    assert_true(fail_at > 40); /* it did fail at many places */
    free(model.data);
}

/* The seeds of the fuzzer: every construct of the format, and the rules of many operators. Their
 * last byte says which symbols they have. */
static void fail_each_allocation(uint8_t *bytes, size_t size, const char *name) {
    static const tn_dim known[] = {{"N", 2}, {"batch", 3}, {"T", 7}};
    tn_dim dims[3];
    uint32_t dim_count = 0;
    for (uint32_t i = 0; i < 3; i++)
        if (bytes[size - 1] >> i & 1) dims[dim_count++] = known[i];
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t fail_at = 1; status == TN_E_NO_MEMORY; fail_at++) {
        watched watch_it;
        watch(&watch_it, fail_at);
        watch_it.options.dims = dims;
        watch_it.options.dim_count = dim_count;
        loaded result = load_bytes(bytes, size, &watch_it.options);
        status = result.status;
        unload(result);
        if (watch_it.count.held)
            fail_msg("%s: %zu bytes leak when allocation %llu fails", name, watch_it.count.held,
                     (unsigned long long)fail_at);
    }
    if (!is_expected(status)) fail_msg("%s: %s", name, tn_status_name(status));
}

static void every_allocation_may_fail_on_every_seed(void **state) {
    (void)state;
    assert_true(for_models("fuzz/corpus/onnx", 2048, fail_each_allocation) > 10);
}

static void every_allocation_may_fail_in_an_error_too(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("one", "x", "y"));
    proto_sub(&graph, GRAPH_NODE, onnx_own("two\xff", "x", "y"));
    proto model = onnx_model(graph);
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t fail_at = 1; status == TN_E_NO_MEMORY; fail_at++) {
        watched watch_it;
        loaded result = load_bytes(model.data, model.size, watch(&watch_it, fail_at));
        status = result.status;
        assert_int_equal(watch_it.count.held, 0);
    }
    assert_int_equal(status, TN_E_INVALID);
    free(model.data);
}

/* --- small files that want much --- */

/* Bytes held at most per byte of the file. The worst that the builders below find is 90. */
#define MEMORY_FACTOR 128

static void assert_modest(proto model, const char *what) {
    size_t most;
    try_bytes(model.data, model.size, &most);
    if (most > MEMORY_FACTOR * model.size + (1u << 20))
        fail_msg("%s: %zu bytes of file hold %zu bytes of memory", what, model.size, most);
    free(model.data);
}

static proto many(uint32_t field, const void *bytes, size_t size, int times) {
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y"));
    for (int i = 0; i < times; i++) proto_bytes(&graph, field, bytes, size);
    return onnx_model(graph);
}

/* 100,000 subgraphs, as many to a node as may be. */
static proto flood_of_graphs(const char *graph, size_t size) {
    proto node = onnx_node("T", "", "", ""), attr = onnx_attr("g", 10);
    for (int i = 0; i < 250; i++) proto_bytes(&attr, 11, graph, size);
    proto_sub(&node, NODE_ATTRIBUTE, attr);
    proto model = many(GRAPH_NODE, node.data, node.size, 400);
    free(node.data);
    return model;
}

static void floods_of_tiny_things_stay_small(void **state) {
    (void)state;
    enum { TIMES = 100000 };
    assert_modest(many(GRAPH_NODE, "", 0, TIMES), "empty nodes");
    assert_modest(many(GRAPH_NODE, "\x22\x01T", 3, TIMES), "nodes without operands");
    assert_modest(many(GRAPH_NODE, "\x0a\x01x\x22\x01T", 6, TIMES), "nodes without outputs");
    assert_modest(many(GRAPH_INITIALIZER, "", 0, TIMES), "empty initializers");
    assert_modest(many(GRAPH_VALUE_INFO, "", 0, TIMES), "empty stated values");
    assert_modest(many(GRAPH_OUTPUT, "\x0a\x01x", 3, TIMES), "one output again and again");
    assert_modest(flood_of_graphs("\x0a\x03\x22\x01T", 5), "subgraphs of one node");
    assert_modest(flood_of_graphs("\x0a\x06\x12\x01r\x22\x01T", 8), "subgraphs with an output");
    assert_modest(flood_of_graphs("\x12", 1), "subgraphs that are cut off");
    proto operands = onnx_own("n", "x", "q");
    for (int i = 0; i < TIMES; i++) proto_bytes(&operands, 1, "", 0);
    assert_modest(many(GRAPH_NODE, operands.data, operands.size, 1), "omitted operands");
    free(operands.data);
}

static void floods_of_names_stay_small(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), wide = onnx_own("n", "x", "y");
    proto_sub(&graph, GRAPH_NODE, wide);
    for (int i = 0; i < 50000; i++) {
        proto node = {0};
        char name[8];
        snprintf(name, sizeof name, "%x", (unsigned)i);
        proto_text(&node, 2, name);
        proto_text(&node, 4, "T");
        proto_sub(&graph, GRAPH_NODE, node);
    }
    assert_modest(onnx_model(graph), "nodes with an output each");
    graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y"));
    for (int i = 0; i < 50000; i++) {
        char name[8];
        snprintf(name, sizeof name, "%x", (unsigned)i);
        proto tensor = onnx_tensor(name, BOOL, "", NULL, 0);
        proto_sub(&graph, GRAPH_INITIALIZER, tensor);
    }
    assert_modest(onnx_model(graph), "scalars without contents");
}

static void calls_within_the_allowance_stay_small(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y"));
    for (int i = 0; i < 20000; i++) proto_sub(&graph, GRAPH_NODE, onnx_node("F", "", "", ""));
    proto model = onnx_model(graph), function = {0};
    proto_text(&function, 1, "F");
    for (int i = 0; i < 30; i++) proto_sub(&function, 7, onnx_node("T", "", "", ""));
    proto_sub(&model, 25, function);
    size_t most;
    try_bytes(model.data, model.size, &most);
    /* the allowance of 64 readings of the file and a megabyte, each byte of it as above */
    assert_true(most < 64 * 40 * model.size + (64u << 20));
    free(model.data);
}

static void a_long_chain_needs_no_stack(void **state) {
    (void)state;
    proto graph = {0};
    enum { LENGTH = 300000 };
    proto_sub(&graph, GRAPH_INPUT, onnx_value("t0", FLOAT, "2,3"));
    char in[16] = "t0", out[16];
    for (int i = LENGTH; i > 0; i--) { /* the last node first: sorting is needed */
        snprintf(in, sizeof in, "t%d", i - 1);
        snprintf(out, sizeof out, "t%d", i);
        proto_sub(&graph, GRAPH_NODE, onnx_node("Relu", "", in, out));
    }
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("t300000", FLOAT, "2,3"));
    loaded result = load_graph(graph);
    assert_loads(result);
    assert_int_equal(tn_graph_op_count(result.graph), LENGTH);
    unload(result);
}

static void a_cycle_is_refused(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_node("Relu", "one", "b", "a"));
    proto_sub(&graph, GRAPH_NODE, onnx_node("Relu", "two", "a", "b"));
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x,b", "y"));
    loaded result = load_graph(graph);
    assert_refused(result, TN_E_INVALID, "", "cycle");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_models_cut_off_anywhere_are_answered),
        cmocka_unit_test(real_models_with_flipped_bits_are_answered),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_allocation_may_fail_on_every_seed),
        cmocka_unit_test(every_allocation_may_fail_in_an_error_too),
        cmocka_unit_test(floods_of_tiny_things_stay_small),
        cmocka_unit_test(floods_of_names_stay_small),
        cmocka_unit_test(calls_within_the_allowance_stay_small),
        cmocka_unit_test(a_long_chain_needs_no_stack),
        cmocka_unit_test(a_cycle_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
