/* test_options.c - symbolic dimensions, --input-shape, parameters by glob, formats. */
#include "proto.h"

#include <math.h>

/* Inputs a [N,T] and b [T,?]; node n of no rule; c stated [N,T,4], y stated [N,N*2]. */
static proto open_model(const char *b_dims) {
    proto graph = {0};
    proto_sub(&graph, GRAPH_INPUT, onnx_value("a", FLOAT, "N,T"));
    proto_sub(&graph, GRAPH_INPUT, onnx_value("b", FLOAT, b_dims));
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "a,b", "c"));
    proto_sub(&graph, GRAPH_NODE, onnx_own("m", "c", "y"));
    proto_sub(&graph, GRAPH_VALUE_INFO, onnx_value("c", FLOAT, "N,T,4"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, "N,N*2"));
    return onnx_model(graph);
}

/* n [1] int64 -> Range(0, n, 1) -> y: as long as n says. f [2] float is read by nobody of weight.
 */
static proto value_model(void) {
    static const int64_t zero = 0, one = 1;
    proto graph = {0};
    proto_sub(&graph, GRAPH_INPUT, onnx_value("n", INT64, ""));
    proto_sub(&graph, GRAPH_INPUT, onnx_value("f", FLOAT, "2"));
    proto_sub(&graph, GRAPH_INPUT, onnx_value("s", COMPLEX64, "1"));
    proto_sub(&graph, GRAPH_INITIALIZER, onnx_tensor("zero", INT64, "", &zero, sizeof zero));
    proto_sub(&graph, GRAPH_INITIALIZER, onnx_tensor("one", INT64, "", &one, sizeof one));
    proto_sub(&graph, GRAPH_NODE, onnx_node("Range", "r", "zero,n,one", "y"));
    proto_sub(&graph, GRAPH_NODE, onnx_node("Relu", "u", "f", "g"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", INT64, NULL));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("g", FLOAT, "2"));
    return onnx_model(graph);
}

static loaded load_value(const char *name, uint32_t count, const double *numbers) {
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    tn_input_value value = {name, count, numbers};
    options.values = &value;
    options.value_count = 1;
    return load_with(value_model(), &options);
}

static void a_shape_that_depends_on_an_input_needs_its_value(void **state) {
    (void)state;
    const double twelve[] = {12};
    loaded result = load_with(value_model(), NULL);
    assert_int_equal(result.status, TN_E_UNKNOWN);
    result = load_value("n", 1, twelve);
    assert_loads(result);
    assert_shape(tensor_of(result, "y"), "12");
    assert_int_equal(tensor_of(result, "n")->kind, TN_KIND_PARAMETER);
    const tn_block *block = tn_graph_block(result.graph, 0);
    assert_int_equal(block->input_count, 2); /* f, s: n is no input any more */
    assert_string_equal(tn_graph_tensor(result.graph, block->inputs[0])->name, "f");
    unload(result);
}

static void values_that_do_not_fit_their_input_are_refused(void **state) {
    (void)state;
    const double half[] = {0.5}, two[] = {1, 2}, huge[] = {1e300}, ok[] = {3};
    const double none[] = {(double)NAN};
    assert_refused(load_value("n", 1, half), TN_E_INVALID, "", "0.5 is not of type int64");
    assert_refused(load_value("n", 1, huge), TN_E_INVALID, "", "is not of type int64");
    assert_refused(load_value("n", 1, none), TN_E_INVALID, "", "is not of type int64");
    assert_refused(load_value("n", 2, two), TN_E_INVALID, "", "2 numbers");
    assert_refused(load_value("f", 1, ok), TN_E_INVALID, "", "1 numbers");
    assert_refused(load_value("m", 1, ok), TN_E_INVALID, "", "inputs are 'n', 'f', 's'");
    assert_refused(load_value("s", 1, ok), TN_E_UNSUPPORTED, "", "complex64");
    assert_refused(load_value("n", 1, NULL), TN_E_INVALID, "", "name and numbers");
}

typedef struct given {
    tn_import_options options;
    tn_dim dims[8];
    tn_input_shape shapes[4];
    const char *parameters[4];
} given;

static const tn_import_options *with(given *to) {
    to->options.struct_size = sizeof to->options;
    to->options.dims = to->dims;
    to->options.input_shapes = to->shapes;
    to->options.parameters = to->parameters;
    return &to->options;
}
static void dim(given *to, const char *name, int64_t value) {
    to->dims[to->options.dim_count++] = (tn_dim){name, value};
}
static void shape(given *to, const char *name, uint32_t rank, const int64_t *extents) {
    to->shapes[to->options.input_shape_count++] = (tn_input_shape){name, rank, extents};
}

static void symbols_get_their_values_everywhere(void **state) {
    (void)state;
    given options = {0};
    dim(&options, "N", 3);
    dim(&options, "T", 5);
    loaded result = load_with(open_model("T,7"), with(&options));
    assert_loads(result);
    assert_shape(tensor_of(result, "a"), "3,5");
    assert_shape(tensor_of(result, "b"), "5,7");
    assert_shape(tensor_of(result, "c"), "3,5,4");
    assert_shape(tensor_of(result, "y"), "3,6"); /* N*2 is computed */
    assert_int_equal(tensor_of(result, "y")->bytes, 72);
    unload(result);
}

static void everything_without_a_value_is_listed_at_once(void **state) {
    (void)state;
    loaded result = load_with(open_model("T,?"), NULL);
    assert_refused(result, TN_E_UNKNOWN, "test.onnx", "'N', 'T' (give `dims` NAME=SIZE for each)");
    assert_non_null(
        strstr(result.error.message, "input 'b' dimension 1 (unnamed): give `input_shapes` b=..."));
    given options = {0};
    dim(&options, "N", 3);
    result = load_with(open_model("4,4"), with(&options));
    assert_refused(result, TN_E_UNKNOWN, "", "'T'");
    assert_null(strstr(result.error.message, "'N'"));
    result = load_with(open_model("-1,4"), with(&options)); /* some exporters write -1 for any */
    assert_refused(result, TN_E_UNKNOWN, "", "input 'b' dimension 0 (unnamed)");
    result = load_with(open_model(NULL), with(&options));
    assert_refused(result, TN_E_UNKNOWN, "", "input 'b' (no shape)");
}

static void a_long_list_ends_with_how_many_more(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y"));
    for (int i = 0; i < 200; i++) {
        char name[40], dims[90];
        snprintf(name, sizeof name, "input_number_%d", i);
        snprintf(dims, sizeof dims, "a_rather_long_dimension_name_%d,?", i);
        proto_sub(&graph, GRAPH_INPUT, onnx_value(name, FLOAT, dims));
    }
    loaded result = load_graph(graph);
    assert_refused(result, TN_E_UNKNOWN, "", "'a_rather_long_dimension_name_0'");
    unsigned first = 0, second = 0, named = 0, unnamed = 0;
    const char *message = result.error.message, *more = strstr(message, ", and ");
    assert_non_null(more);
    assert_int_equal(sscanf(more, ", and %u more", &first), 1);
    more = strstr(more + 1, ", and ");
    assert_non_null(more);
    assert_int_equal(sscanf(more, ", and %u more", &second), 1);
    for (const char *at = message; (at = strstr(at, "_name_")); at++) named++;
    for (const char *at = message; (at = strstr(at, "(unnamed)")); at++) unnamed++;
    assert_int_equal(named + first, 200);
    assert_int_equal(unnamed + second, 200);
    assert_non_null(strstr(message, "`input_shapes` input_number_0=..."));
}

static void a_dimension_that_does_not_exist_is_refused(void **state) {
    (void)state;
    given options = {0};
    dim(&options, "N", 3);
    dim(&options, "t", 5);
    assert_refused(load_with(open_model("T,7"), with(&options)), TN_E_INVALID, "",
                   "`dims` t: no dimension has that name; there is 'N', 'T'");
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y"));
    assert_refused(load_with(onnx_model(graph), with(&options)), TN_E_INVALID, "",
                   "no symbolic dimensions");
}

static void bad_values_are_refused(void **state) {
    (void)state;
    given options = {0};
    dim(&options, "N", -3);
    assert_refused(load_with(open_model("T,7"), with(&options)), TN_E_INVALID, "", "negative");
    options = (given){0};
    dim(&options, "N", 3);
    dim(&options, "N", 4);
    assert_refused(load_with(open_model("T,7"), with(&options)), TN_E_INVALID, "", "given twice");
    options = (given){0};
    dim(&options, "", 4);
    assert_refused(load_with(open_model("T,7"), with(&options)), TN_E_INVALID, "", "needs a name");
}

static void an_input_shape_gives_values_to_symbols(void **state) {
    (void)state;
    given options = {0};
    shape(&options, "a", 2, (const int64_t[]){3, 5});
    loaded result = load_with(open_model("T,7"), with(&options));
    assert_loads(result);
    assert_shape(tensor_of(result, "b"), "5,7");
    assert_shape(tensor_of(result, "c"), "3,5,4");
    unload(result);
    dim(&options, "N", 4);
    assert_refused(load_with(open_model("T,7"), with(&options)), TN_E_INVALID, "input 'a'",
                   "makes dimension 'N' 3, but `dims` makes it 4");
    options = (given){0};
    shape(&options, "a", 2, (const int64_t[]){3, 5});
    shape(&options, "b", 2, (const int64_t[]){6, 7});
    assert_refused(load_with(open_model("T,7"), with(&options)), TN_E_INVALID, "input 'b'",
                   "another `input_shapes` makes it 5");
}

static void an_input_shape_gives_rank_and_unnamed_dimensions(void **state) {
    (void)state;
    given options = {0};
    dim(&options, "N", 3);
    dim(&options, "T", 5);
    shape(&options, "b", 3, (const int64_t[]){5, 6, 7});
    loaded result = load_with(open_model(NULL), with(&options));
    assert_loads(result);
    assert_shape(tensor_of(result, "b"), "5,6,7");
    assert_shape(tensor_of(result, "c"), "3,5,4"); /* nothing is contradicted */
    unload(result);
}

/* x [1,4] -> Relu r [1,4] -> Own y; all stated. */
static proto static_model(void) {
    proto graph = {0};
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "1,4"));
    proto_sub(&graph, GRAPH_NODE, onnx_node("Relu", "r", "x", "h"));
    proto_sub(&graph, GRAPH_NODE, onnx_node("Relu", "s", "h", "y"));
    proto_sub(&graph, GRAPH_VALUE_INFO, onnx_value("h", FLOAT, "1,4"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, "1,4"));
    return onnx_model(graph);
}

static void a_contradicting_input_shape_drops_what_the_file_states(void **state) {
    (void)state;
    given options = {0};
    shape(&options, "x", 2, (const int64_t[]){8, 4});
    loaded result = load_with(static_model(), with(&options));
    assert_loads(result);
    assert_shape(tensor_of(result, "x"), "8,4");
    assert_shape(tensor_of(result, "h"), "8,4");
    assert_shape(tensor_of(result, "y"), "8,4");
    unload(result);
    options = (given){0};
    shape(&options, "x", 3, (const int64_t[]){8, 4, 2}); /* another rank */
    result = load_with(static_model(), with(&options));
    assert_loads(result);
    assert_shape(tensor_of(result, "y"), "8,4,2");
    unload(result);
    options = (given){0};
    shape(&options, "x", 2, (const int64_t[]){8, 4}); /* an operator of no rule needs them */
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y"));
    assert_refused(load_with(onnx_model(graph), with(&options)), TN_E_UNKNOWN, "node 'n' (Own)",
                   "'y'");
}

static void options_that_meet_no_input_are_refused(void **state) {
    (void)state;
    given options = {0};
    shape(&options, "z", 1, (const int64_t[]){8});
    assert_refused(load_with(static_model(), with(&options)), TN_E_INVALID, "",
                   "`input_shapes` z: no input has that name; inputs are 'x'");
    options = (given){0};
    options.parameters[options.options.parameter_count++] = "w*";
    assert_refused(load_with(static_model(), with(&options)), TN_E_INVALID, "",
                   "parameter pattern w*: no input");
    options = (given){0};
    shape(&options, "x", 1, (const int64_t[]){8});
    shape(&options, "x", 1, (const int64_t[]){8});
    assert_refused(load_with(static_model(), with(&options)), TN_E_INVALID, "", "given twice");
    options = (given){0};
    shape(&options, "x", 1, (const int64_t[]){-8});
    assert_refused(load_with(static_model(), with(&options)), TN_E_INVALID, "", "negative");
    options = (given){0};
    shape(&options, "x", 65, (const int64_t[65]){1});
    assert_refused(load_with(static_model(), with(&options)), TN_E_INVALID, "",
                   "more than 64 dimensions");
}

static void a_glob_turns_inputs_into_parameters(void **state) {
    (void)state;
    given options = {0};
    options.parameters[options.options.parameter_count++] = "param_*";
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_INPUT, onnx_value("param_1", FLOAT, "100"));
    proto_sub(&graph, GRAPH_INPUT, onnx_value("data", FLOAT, "10"));
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x,param_1,data", "y"));
    loaded result = load_with(onnx_model(graph), with(&options));
    assert_loads(result);
    assert_int_equal(tensor_of(result, "param_1")->kind, TN_KIND_PARAMETER);
    assert_int_equal(tensor_of(result, "data")->kind, TN_KIND_INPUT);
    assert_int_equal(tn_graph_block(result.graph, 0)->input_count, 2);
    unload(result);
}

static void a_format_pads_activations_of_rank_4_and_5_only(void **state) {
    (void)state;
    given options = {0};
    options.options.format = (tn_format){.order = TN_ORDER_NCHW, .block = 8};
    proto graph = {0};
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "1,3,2,2"));
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "a,b"));
    proto_sub(&graph, GRAPH_NODE, onnx_own("m", "a,b", "y"));
    proto_sub(&graph, GRAPH_VALUE_INFO, onnx_value("a", FLOAT, "1,3,2,2"));
    proto_sub(&graph, GRAPH_VALUE_INFO, onnx_value("b", FLOAT, "1,3,2"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("y", FLOAT, "1,3,2,2"));
    loaded result = load_with(onnx_model(graph), with(&options));
    assert_loads(result);
    assert_int_equal(tensor_of(result, "a")->bytes, 8 * 4 * 4); /* 3 channels become 8 */
    assert_int_equal(tensor_of(result, "b")->bytes, 3 * 2 * 4);
    assert_int_equal(tensor_of(result, "x")->bytes, 3 * 4 * 4); /* the caller's layout */
    assert_int_equal(tensor_of(result, "y")->bytes, 3 * 4 * 4);
    unload(result);
}

static void options_of_an_older_size_are_read_as_far_as_they_go(void **state) {
    (void)state;
    given options = {0};
    dim(&options, "N", 3);
    dim(&options, "T", 5);
    options.options.parameters = (const char *const *)1; /* beyond the caller's struct */
    (void)with(&options);
    options.options.parameter_count = 77;
    options.options.struct_size = offsetof(tn_import_options, parameters);
    loaded result = load_with(open_model("T,7"), &options.options);
    assert_loads(result);
    unload(result);
}

/* --- expressions --- */

/* The value of the first dimension of an input [text] with N = 10 and T = 3, or -1. */
static int64_t value_of(const char *text) {
    given options = {0};
    dim(&options, "N", 10);
    dim(&options, "T", 3);
    proto graph = {0};
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, text));
    proto_sub(&graph, GRAPH_INPUT, onnx_value("n", FLOAT, "N,T"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("x", FLOAT, text));
    loaded result = load_with(onnx_model(graph), with(&options));
    if (result.status == TN_E_UNKNOWN) return -1;
    assert_loads(result);
    int64_t value = tensor_of(result, "x")->shape[0];
    unload(result);
    return value;
}

static void expressions_of_symbols_are_computed(void **state) {
    (void)state;
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"N + 1", 11},
        {"N+T", 13},
        {"2*N", 20},
        {"N*2 - T", 17},
        {"N - T*2", 4},
        {"(N - T)*2", 14},
        {"N // T", 3},
        {"N % T", 1},
        {"N / 5", 2},
        {"N / T", -1},
        {"floor(N/2)", 5},
        {"N - 2 - 3", 5},
        {"100 // N // T", 3},
        {"T - N", -1},
        {"N // (T - 3)", -1},
        {"N +", -1},
        {"+ N", -1},
        {"(N", -1},
        {"N)", -1},
        {"N T", -1},
        {"M + 1", -1},
        {"()", -1},
        {"N * 9223372036854775807", -1},
        {"((((((((((((((((((((((((((((((((((((N))))))))))))))))))))))))))))))))))))", -1},
        {"N - T + 1", 8},
        {"(N + T) * (N - T) // 7 % 10", 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t value = value_of(cases[i].text);
        if (value != cases[i].value)
            fail_msg("'%s' is %lld, not %lld", cases[i].text, (long long)value,
                     (long long)cases[i].value);
    }
}

static void an_expression_may_be_given_a_value_itself(void **state) {
    (void)state;
    given options = {0};
    dim(&options, "past + 1", 9);
    proto graph = {0};
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "past + 1"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("x", FLOAT, "past + 1"));
    loaded result = load_with(onnx_model(graph), with(&options));
    assert_loads(result);
    assert_shape(tensor_of(result, "x"), "9");
    unload(result);
}

static void an_expression_of_listed_names_is_not_listed(void **state) {
    (void)state;
    proto graph = {0};
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "past + 1,seq-len"));
    proto_sub(&graph, GRAPH_INPUT, onnx_value("z", FLOAT, "past,other + 1"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("x", FLOAT, "past + 1"));
    loaded result = load_graph(graph);
    assert_refused(result, TN_E_UNKNOWN, "", "no value for 'seq-len', 'past', 'other + 1' (");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(symbols_get_their_values_everywhere),
        cmocka_unit_test(a_shape_that_depends_on_an_input_needs_its_value),
        cmocka_unit_test(values_that_do_not_fit_their_input_are_refused),
        cmocka_unit_test(everything_without_a_value_is_listed_at_once),
        cmocka_unit_test(a_long_list_ends_with_how_many_more),
        cmocka_unit_test(a_dimension_that_does_not_exist_is_refused),
        cmocka_unit_test(bad_values_are_refused),
        cmocka_unit_test(an_input_shape_gives_values_to_symbols),
        cmocka_unit_test(an_input_shape_gives_rank_and_unnamed_dimensions),
        cmocka_unit_test(a_contradicting_input_shape_drops_what_the_file_states),
        cmocka_unit_test(options_that_meet_no_input_are_refused),
        cmocka_unit_test(a_glob_turns_inputs_into_parameters),
        cmocka_unit_test(a_format_pads_activations_of_rank_4_and_5_only),
        cmocka_unit_test(options_of_an_older_size_are_read_as_far_as_they_go),
        cmocka_unit_test(expressions_of_symbols_are_computed),
        cmocka_unit_test(an_expression_may_be_given_a_value_itself),
        cmocka_unit_test(an_expression_of_listed_names_is_not_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
