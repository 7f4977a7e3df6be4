/* test_session.c - tn_session: what it finds by id, what it refuses, and what it leaves behind. */
#include "../random_graph.h"

#include <tenure/engine.h>
#include <tenure/run.h>
#include <unistd.h>

#include "import/proto.h"

/* y = max(x * 3 + 1, 0), with a convolution of one pixel and constants that the graph itself knows
 * as 3 and 1. */
static void build(const tn_context *context, tn_graph **graph, tn_tensor_id *x, tn_tensor_id *y) {
    const int64_t picture[] = {1, 1, 4, 4}, weight[] = {1, 1, 1, 1}, one[] = {1};
    tn_tensor_id ids[4];
    tn_tensor_spec specs[] = {
        {.name = "x", .dtype = TN_FLOAT32, .kind = TN_KIND_INPUT, .rank = 4, .shape = picture},
        {.name = "w",
         .dtype = TN_FLOAT32,
         .kind = TN_KIND_CONSTANT,
         .rank = 4,
         .shape = weight,
         .value = {.count = 1, .floats = (const double[]){3}}},
        {.name = "b",
         .dtype = TN_FLOAT32,
         .kind = TN_KIND_CONSTANT,
         .rank = 1,
         .shape = one,
         .value = {.count = 1, .floats = (const double[]){1}}},
        {.name = "z", .kind = TN_KIND_ACTIVATION, .rank = TN_RANK_UNKNOWN}};
    tn_tensor_spec out = {.name = "y", .kind = TN_KIND_OUTPUT};
    assert_ok(tn_graph_create(context, graph, &failure));
    for (int i = 0; i < 4; i++)
        assert_ok(tn_graph_add_tensor(*graph, &specs[i], &ids[i], &failure));
    assert_ok(tn_graph_add_tensor(*graph, &out, y, &failure));
    tn_op_spec conv = {
        .type = "Conv", .inputs = ids, .input_count = 3, .outputs = &ids[3], .output_count = 1};
    tn_op_spec relu = {
        .type = "Relu", .inputs = &ids[3], .input_count = 1, .outputs = y, .output_count = 1};
    assert_ok(tn_graph_add_op(*graph, &conv, NULL, &failure));
    assert_ok(tn_graph_add_op(*graph, &relu, NULL, &failure));
    assert_ok(tn_graph_infer(*graph, &failure));
    *x = ids[0];
}

static void every_way_computes_the_same(void **state) {
    (void)state;
    const tn_session_options ways[] = {
        {.struct_size = sizeof *ways},
        {.struct_size = sizeof *ways, .plain = true},
        {.struct_size = sizeof *ways, .no_rewrite = true, .threads = 2},
        {.struct_size = sizeof *ways, .fuse = true},
        {.struct_size = sizeof *ways, .naive = true},
        {.struct_size = sizeof *ways,
         .poison = true,
         .order = "auto",
         .planner = "greedy-by-size"}};
    tn_graph *graph;
    tn_tensor_id x, y;
    build(NULL, &graph, &x, &y);
    for (size_t way = 0; way < sizeof ways / sizeof *ways; way++) {
        tn_session *session;
        assert_ok(tn_session_open(graph, &ways[way], &session, &failure));
        assert_null(tn_session_array(session, 1)); /* a constant */
        float *in = tn_session_array(session, x)->data;
        for (int i = 0; i < 16; i++) assert_true(in[i] == 0);
        for (int run = 0; run < 2; run++) {
            for (int i = 0; i < 16; i++) in[i] = (float)(i - 8 + run);
            assert_ok(tn_session_run(session, &failure));
            const tn_array *out = tn_session_array(session, y);
            assert_int_equal(out->bytes, 64);
            for (int i = 0; i < 16; i++) {
                float expected = (float)(3 * (i - 8 + run) + 1);
                assert_true(((float *)out->data)[i] == (expected > 0 ? expected : 0));
            }
        }
        tn_engine_usage usage;
        tn_engine_measure(tn_session_engine(session), &usage);
        assert_int_equal(usage.planned_peak, tn_setup_layout(tn_session_setup(session))->peak);
        assert_int_equal(usage.measured_peak, usage.planned_peak);
        assert_int_equal(usage.static_bytes, tn_setup_need(tn_session_setup(session)).statics);
        tn_session_close(session);
    }
    tn_graph_destroy(graph);
}

static void a_budget_is_kept_to_the_byte(void **state) {
    (void)state;
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    tn_session *session = NULL;
    tn_engine_usage usage;
    tn_graph *graph;
    tn_tensor_id x, y;
    build(NULL, &graph, &x, &y);
    assert_ok(tn_session_open(graph, &options, &session, &failure));
    tn_engine_measure(tn_session_engine(session), &usage);
    tn_session_close(session);
    session = NULL;
    uint64_t whole = usage.arena + usage.static_bytes;
    options.budget = whole - 1;
    options.pass = "none";
    /* proved: its layout is at the bound */
    assert_int_equal(tn_session_open(graph, &options, &session, &failure), TN_E_INFEASIBLE);
    assert_non_null(strstr(failure.message, "it takes"));
    assert_null(session);
    options.pass = NULL; /* operators that run again may do */
    tn_status status = tn_session_open(graph, &options, &session, &failure);
    assert_true(status == TN_OK || status == TN_E_EXHAUSTED || status == TN_E_INFEASIBLE);
    if (status == TN_OK) {
        tn_engine_measure(tn_session_engine(session), &usage);
        assert_true(usage.arena + usage.static_bytes <= options.budget);
        tn_session_close(session);
        session = NULL;
    }
    options.budget =
        1; /* operators in parts find nothing, which is no proof; without them there is */
    assert_int_equal(tn_session_open(graph, &options, &session, &failure), TN_E_EXHAUSTED);
    assert_non_null(strstr(failure.message, "reorders, recomputes and splits operators"));
    options.allow = TN_FIT_ORDER | TN_FIT_RECOMPUTE;
    assert_int_equal(tn_session_open(graph, &options, &session, &failure), TN_E_INFEASIBLE);
    assert_non_null(strstr(failure.message, "recomputes whole operators"));
    assert_null(session);
    options.budget = whole;
    options.pass = "none";
    assert_ok(tn_session_open(graph, &options, &session, &failure));
    tn_session_close(session);
    tn_graph_destroy(graph);
}

static void running_out_of_memory_leaves_nothing(void **state) {
    (void)state;
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    tn_status status = TN_E_NO_MEMORY;
    tn_session *session = NULL;
    tn_graph *graph;
    tn_tensor_id x, y;
    build(NULL, &graph, &x, &y);
    options.context = &context;
    for (uint64_t at = 1; status != TN_OK; at++) {
        memory.requests = 0;
        memory.fail_at = at;
        status = tn_session_open(graph, &options, &session, &failure);
        memory.fail_at = 0;
        if (status == TN_OK) break;
        assert_int_equal(status, TN_E_NO_MEMORY);
        assert_null(session);
        if (memory.held != 0)
            fail_msg("request %llu: %zu bytes of '%s' are left", (unsigned long long)at,
                     memory.held, failure.message);
    }
    tn_session_close(session);
    assert_int_equal(memory.held, 0);
    tn_graph_destroy(graph);
}

/* A file with y = relu(x w + b), w = 2, b = -3; without `weights` their data is left out. */
static void write_model(const char *path, bool weights) {
    const float two = 2, minus_three = -3;
    proto graph = {0};
    proto_sub(&graph, GRAPH_NODE, onnx_node("Mul", "", "x,w", "m"));
    proto_sub(&graph, GRAPH_NODE, onnx_node("Add", "", "m,b", "z"));
    proto_sub(&graph, GRAPH_NODE, onnx_node("Relu", "", "z", "y"));
    proto_sub(&graph, GRAPH_INITIALIZER,
              onnx_tensor("w", FLOAT, "1", weights ? &two : NULL, sizeof two));
    proto_sub(&graph, GRAPH_INITIALIZER,
              onnx_tensor("b", FLOAT, "1", weights ? &minus_three : NULL, sizeof two));
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "N"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, "N"));
    proto model = {0};
    proto_int(&model, 1, 8);
    proto_sub(&model, 7, graph);
    proto_sub(&model, 8, onnx_opset("", 13));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(model.data, 1, model.size, file), model.size);
    assert_int_equal(fclose(file), 0);
    free(model.data);
}

static tn_status read_nothing(void *self, const tn_graph *graph, tn_tensor_id tensor, void *bytes,
                              uint64_t size, tn_error *error) {
    (void)self, (void)graph, (void)tensor, (void)bytes, (void)size, (void)error;
    return TN_E_IO;
}

static void a_file_runs_with_its_own_weights(void **state) {
    (void)state;
    char path[] = "/tmp/tenure_session_XXXXXX.onnx";
    int file = mkstemps(path, 5);
    assert_true(file >= 0);
    close(file);
    write_model(path, true);
    const tn_dim dim = {.name = "N", .value = 4};
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    tn_session_options options = TN_SESSION_OPTIONS_INIT;
    tn_session *session = NULL;
    import.dims = &dim;
    import.dim_count = 1;
    for (int plain = 0; plain < 2; plain++) {
        options.plain = plain == 1;
        assert_ok(tn_session_open_file(path, &import, &options, &session, &failure));
        tn_array *x = tn_session_find(session, "x"), *y = tn_session_find(session, "y");
        assert_non_null(x);
        assert_non_null(y);
        assert_null(tn_session_find(session, "w"));
        assert_null(tn_session_find(session, "z"));
        assert_int_equal(tn_graph_find(tn_session_graph(session), "x"),
                         tn_graph_block(tn_session_graph(session), 0)->inputs[0]);
        for (int i = 0; i < 4; i++) ((float *)x->data)[i] = (float)i;
        assert_ok(tn_session_run(session, &failure));
        for (int i = 0; i < 4; i++)
            assert_true(((float *)y->data)[i] == (2 * i > 3 ? 2.0f * (float)i - 3 : 0));
        tn_session_close(session);
    }
    session = NULL;
    assert_int_equal(tn_session_open_file(path, NULL, NULL, &session, &failure), TN_E_UNKNOWN);
    options.read = read_nothing;
    assert_int_equal(tn_session_open_file(path, &import, &options, &session, &failure),
                     TN_E_INVALID);
    options.read = NULL;
    write_model(path, false);
    assert_int_not_equal(tn_session_open_file(path, &import, &options, &session, &failure), TN_OK);
    options.make_weights = true;
    assert_ok(tn_session_open_file(path, &import, &options, &session, &failure));
    tn_session_close(session);
    session = NULL;
    assert_int_equal(unlink(path), 0);
    assert_int_equal(tn_session_open_file(path, &import, &options, &session, &failure), TN_E_IO);
    assert_null(session);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_computes_the_same),
        cmocka_unit_test(a_budget_is_kept_to_the_byte),
        cmocka_unit_test(running_out_of_memory_leaves_nothing),
        cmocka_unit_test(a_file_runs_with_its_own_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
