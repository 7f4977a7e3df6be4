/* test_onnx.c - one block: names, tensors, contents, attributes, versions; and what is refused. */
#include "proto.h"

/* --- names ---------------------------------------------------------------------------------------
 */

static void a_node_between_input_and_output_loads(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y"));
    loaded result = load_graph(graph);
    assert_loads(result);
    assert_int_equal(tn_graph_tensor_count(result.graph), 2);
    assert_int_equal(tensor_of(result, "x")->kind, TN_KIND_INPUT);
    const tn_tensor *y = tensor_of(result, "y");
    assert_int_equal(y->kind, TN_KIND_OUTPUT);
    assert_int_equal(y->bytes, 24);
    const tn_op *op = tn_graph_op(result.graph, y->producer);
    assert_string_equal(op->name, "n");
    assert_string_equal(op->type, "Own");
    assert_string_equal(op->domain, "my");
    assert_int_equal(op->version, 3);
    const tn_block *block = tn_graph_block(result.graph, 0);
    assert_int_equal(block->input_count, 1);
    assert_int_equal(block->output_count, 1);
    unload(result);
}

static void nodes_may_stand_in_any_order(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("last", "b", "y"));
    proto_sub(&graph, GRAPH_NODE, onnx_own("first", "x", "a"));
    proto_sub(&graph, GRAPH_NODE, onnx_own("middle", "a", "b"));
    proto_sub(&graph, GRAPH_VALUE_INFO, onnx_value("a", FLOAT, "5"));
    proto_sub(&graph, GRAPH_VALUE_INFO, onnx_value("b", FLOAT, "7"));
    loaded result = load_graph(graph);
    assert_loads(result);
    const tn_block *block = tn_graph_block(result.graph, 0);
    assert_string_equal(tn_graph_op(result.graph, block->ops[0])->name, "first");
    assert_string_equal(tn_graph_op(result.graph, block->ops[2])->name, "last");
    unload(result);
}

static void an_undefined_name_is_refused_with_its_reader(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x,nobody", "y"));
    assert_refused(load_graph(graph), TN_E_INVALID, "node 'n' (Own)", "'nobody'");
}

static void an_undefined_graph_output_is_refused(void **state) {
    (void)state;
    assert_refused(load_graph(onnx_small_graph()), TN_E_INVALID, "output 'y'", "no node computes");
}

static void two_producers_are_refused_with_both_names(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("one", "x", "y"));
    proto_sub(&graph, GRAPH_NODE, onnx_own("two", "x", "y"));
    assert_refused(load_graph(graph), TN_E_INVALID, "node 'two' (Own)", "'one' (Own)");
    graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("twice", "x", "y,y"));
    assert_refused(load_graph(graph), TN_E_INVALID, "node 'twice'", "'y'");
    graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("over", "x", "x,y"));
    assert_refused(load_graph(graph), TN_E_INVALID, "node 'over'", "an input");
}

static void double_inputs_and_initializers_are_refused(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y"));
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "2,3"));
    assert_refused(load_graph(graph), TN_E_INVALID, "input 'x'", "two inputs");
    graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y"));
    proto_sub(&graph, GRAPH_INITIALIZER, onnx_tensor("w", FLOAT, "4", NULL, 0));
    proto_sub(&graph, GRAPH_INITIALIZER, onnx_tensor("w", FLOAT, "4", NULL, 0));
    assert_refused(load_graph(graph), TN_E_INVALID, "initializer 'w'", "two initializers");
}

static void omitted_operands_stay_omitted(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x,,x", ",y"));
    loaded result = load_graph(graph);
    assert_loads(result);
    const tn_op *op = tn_graph_op(result.graph, 0);
    assert_int_equal(op->input_count, 3);
    assert_int_equal(op->inputs[1], TN_NONE);
    assert_int_equal(op->inputs[2], op->inputs[0]);
    assert_int_equal(op->outputs[0], TN_NONE);
    assert_int_equal(op->output_count, 2);
    unload(result);
}

static void an_input_may_be_an_output_and_be_listed_twice(void **state) {
    (void)state;
    proto graph = {0};
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "2,3"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("x", FLOAT, "2,3"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("x", FLOAT, "2,3"));
    loaded result = load_graph(graph);
    assert_loads(result);
    const tn_tensor *x = tensor_of(result, "x");
    assert_int_equal(x->kind, TN_KIND_INPUT);
    assert_true(x->flags & TN_TENSOR_IS_OUTPUT);
    assert_int_equal(tn_graph_block(result.graph, 0)->output_count, 2);
    unload(result);
}

static void bad_bytes_in_names_are_replaced_and_still_tell_names_apart(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), first = {0}, second = {0};
    proto_text(&first, 1, "x");
    proto_bytes(&first, 2, "a\0b\xff\x1b[", 6);
    proto_text(&first, 4, "Own");
    proto_text(&first, NODE_DOMAIN, "my");
    proto_bytes(&second, 1, "a\0b\xff\x1b[", 6);
    proto_bytes(&second, 2, "a\0c\xff\x1b[", 6);
    proto_text(&second, 4, "Own");
    proto_text(&second, NODE_DOMAIN, "my");
    proto info = {0};
    proto_bytes(&info, 1, "a\0b\xff\x1b[", 6);
    proto_sub(&info, 2, onnx_tensor_type(FLOAT, "4"));
    proto_sub(&graph, GRAPH_VALUE_INFO, info);
    proto third = {0};
    proto_bytes(&third, 1, "a\0c\xff\x1b[", 6);
    proto_sub(&third, 2, onnx_tensor_type(FLOAT, "5"));
    proto_sub(&graph, GRAPH_VALUE_INFO, third);
    proto_sub(&graph, GRAPH_NODE, first);
    proto_sub(&graph, GRAPH_NODE, second);
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y"));
    loaded result = load_graph(graph);
    assert_loads(result);
    assert_shape(tensor_of(result, "a\xef\xbf\xbd"
                                   "b\xef\xbf\xbd\xef\xbf\xbd["),
                 "4");
    assert_shape(tensor_of(result, "a\xef\xbf\xbd"
                                   "c\xef\xbf\xbd\xef\xbf\xbd["),
                 "5");
    unload(result);
}

static void a_node_without_type_is_refused(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_node("", "n", "x", "y"));
    assert_refused(load_graph(graph), TN_E_INVALID, "", "node 'n' has no operator type");
}

/* --- initializers -------------------------------------------------------------------------------
 */

static proto graph_with(proto initializer) {
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x,w", "y"));
    proto_sub(&graph, GRAPH_INITIALIZER, initializer);
    return graph;
}

static void an_initializer_is_a_parameter_with_its_size(void **state) {
    (void)state;
    uint8_t raw[96] = {0};
    loaded result = load_graph(graph_with(onnx_tensor("w", FLOAT, "4,6", raw, sizeof raw)));
    assert_loads(result);
    assert_int_equal(tensor_of(result, "w")->kind, TN_KIND_PARAMETER);
    assert_int_equal(tensor_of(result, "w")->bytes, 96);
    unload(result);
}

static void an_input_with_a_default_is_a_parameter(void **state) {
    (void)state;
    proto graph = graph_with(onnx_tensor("w", FLOAT, "4,6", NULL, 0));
    proto_sub(&graph, GRAPH_INPUT, onnx_value("w", FLOAT, "4,6"));
    loaded result = load_graph(graph);
    assert_loads(result);
    assert_int_equal(tensor_of(result, "w")->kind, TN_KIND_PARAMETER);
    assert_int_equal(tn_graph_block(result.graph, 0)->input_count, 1);
    unload(result);
}

static void a_payload_that_does_not_fit_is_refused(void **state) {
    (void)state;
    uint8_t raw[100] = {0};
    const char *where = "initializer 'w'";
    assert_refused(load_graph(graph_with(onnx_tensor("w", FLOAT, "4,6", raw, 95))), TN_E_INVALID,
                   where, "95 bytes");
    assert_refused(load_graph(graph_with(onnx_tensor("w", INT4, "3", raw, 3))), TN_E_INVALID, where,
                   "need 2");
    assert_refused(load_graph(graph_with(onnx_tensor("w", STRING, "3", raw, 3))), TN_E_INVALID,
                   where, "raw_data");
    proto tensor = onnx_tensor("w", FLOAT, "3", NULL, 0);
    proto_bytes(&tensor, 4, raw, 8);
    assert_refused(load_graph(graph_with(tensor)), TN_E_INVALID, where, "2 elements");
    tensor = onnx_tensor("w", FLOAT, "3", NULL, 0);
    proto_bytes(&tensor, 4, raw, 11);
    assert_refused(load_graph(graph_with(tensor)), TN_E_INVALID, where, "cut off");
    tensor = onnx_tensor("w", INT64, "3", NULL, 0);
    proto_bytes(&tensor, 4, raw, 12);
    assert_refused(load_graph(graph_with(tensor)), TN_E_INVALID, where, "another type");
    tensor = onnx_tensor("w", FLOAT, "3", raw, 12);
    proto_bytes(&tensor, 4, raw, 12);
    assert_refused(load_graph(graph_with(tensor)), TN_E_INVALID, where, "stored twice");
    tensor = onnx_tensor("w", INT32, "3", NULL, 0);
    proto_bytes(&tensor, 5, raw, 4);
    assert_refused(load_graph(graph_with(tensor)), TN_E_INVALID, where, "4 elements");
    size_t large = 200000; /* a payload that is not counted, but bounded */
    uint8_t *many = calloc(large, 1);
    assert_non_null(many);
    tensor = onnx_tensor("w", INT32, "200001", NULL, 0);
    proto_bytes(&tensor, 5, many, large);
    assert_refused(load_graph(graph_with(tensor)), TN_E_INVALID, where, "at most 200000");
    tensor = onnx_tensor("w", INT32, "19999", NULL, 0);
    proto_bytes(&tensor, 5, many, large);
    assert_refused(load_graph(graph_with(tensor)), TN_E_INVALID, where, "needs 19999");
    free(many);
}

static void strange_shapes_and_types_are_refused(void **state) {
    (void)state;
    const char *where = "initializer 'w'";
    assert_refused(load_graph(graph_with(onnx_tensor("w", FLOAT, "4,-6", NULL, 0))), TN_E_INVALID,
                   where, "dimension 1 is negative");
    assert_refused(
        load_graph(graph_with(onnx_tensor("w", FLOAT, "4294967296,4294967296", NULL, 0))),
        TN_E_INVALID, where, "overflows");
    assert_refused(load_graph(graph_with(onnx_tensor("w", 99, "4", NULL, 0))), TN_E_INVALID, where,
                   "element type 99");
    assert_refused(load_graph(graph_with(onnx_tensor("w", 0, "4", NULL, 0))), TN_E_INVALID, where,
                   "no element type");
    assert_refused(load_graph(graph_with(onnx_tensor("", FLOAT, "4", NULL, 0))), TN_E_INVALID, "",
                   "no name");
    proto tensor = {0};
    for (int i = 0; i < 65; i++) proto_int(&tensor, 1, 1);
    proto_int(&tensor, 2, FLOAT);
    proto_text(&tensor, 8, "w");
    assert_refused(load_graph(graph_with(tensor)), TN_E_INVALID, "", "more than 64 dimensions");
    loaded result =
        load_graph(graph_with(onnx_tensor("w", FLOAT, "4294967296,0,4294967296", NULL, 0)));
    assert_loads(result); /* no element at all: nothing overflows */
    assert_int_equal(tensor_of(result, "w")->bytes, 0);
    unload(result);
}

static proto external(const char *location, const char *length, const char *offset) {
    proto tensor = onnx_tensor("w", FLOAT, "4,6", NULL, 0);
    proto_int(&tensor, 14, 1);
    if (location) onnx_entry(&tensor, 13, "location", location);
    if (offset) onnx_entry(&tensor, 13, "offset", offset);
    if (length) onnx_entry(&tensor, 13, "length", length);
    onnx_entry(&tensor, 13, "checksum", "00ff");
    return graph_with(tensor);
}

static void external_data_is_checked_but_never_opened(void **state) {
    (void)state;
    loaded result = load_graph(external("absent/file.weights", "96", "4096"));
    assert_loads(result);
    assert_int_equal(tensor_of(result, "w")->bytes, 96);
    unload(result);
    result = load_graph(external("absent.weights", NULL, NULL));
    assert_loads(result);
    unload(result);
    const char *where = "initializer 'w'";
    assert_refused(load_graph(external("a", "95", NULL)), TN_E_INVALID, where, "95 bytes");
    assert_refused(load_graph(external("a", "9x", NULL)), TN_E_INVALID, where, "decimal");
    assert_refused(load_graph(external("a", "99999999999999999999", NULL)), TN_E_INVALID, where,
                   "decimal");
    assert_refused(load_graph(external("a", "96", "-1")), TN_E_INVALID, where, "offset");
    assert_refused(load_graph(external(NULL, "96", NULL)), TN_E_INVALID, where, "no location");
    static const char *const outside[] = {"/etc/passwd", "../x", "a/../../x", "a\\..\\b",
                                          "C:\\x",       "..",   "\\x",       "a/.."};
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        assert_refused(load_graph(external(outside[i], "96", NULL)), TN_E_INVALID, where,
                       "outside");
    static const char *const inside[] = {"a..b", "..a", "a/b..", "a/.../b", "."};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        result = load_graph(external(inside[i], "96", NULL));
        assert_loads(result);
        unload(result);
    }
}

static void a_sparse_initializer_has_the_size_of_the_dense_one(void **state) {
    (void)state;
    int64_t indices[2] = {1, 5};
    float values[2] = {1, 2};
    proto sparse = {0};
    proto_sub(&sparse, 1, onnx_tensor("w", FLOAT, "2", values, sizeof values));
    proto_sub(&sparse, 2, onnx_tensor("", INT64, "2", indices, sizeof indices));
    proto_int(&sparse, 3, 3);
    proto_int(&sparse, 3, 4);
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x,w", "y"));
    proto_sub(&graph, GRAPH_SPARSE, sparse);
    loaded result = load_graph(graph);
    assert_loads(result);
    assert_shape(tensor_of(result, "w"), "3,4");
    assert_int_equal(tensor_of(result, "w")->kind, TN_KIND_PARAMETER);
    assert_null(tensor_of(result, "w")->value);
    unload(result);
}

/* --- contents --- */

static void assert_ints(proto tensor, uint32_t count, const int64_t *expected) {
    loaded result = load_graph(graph_with(tensor));
    assert_loads(result);
    const tn_value *value = tensor_of(result, "w")->value;
    assert_non_null(value);
    assert_non_null(value->ints);
    assert_int_equal(value->count, count);
    for (uint32_t i = 0; i < count; i++)
        if (value->ints[i] != expected[i])
            fail_msg("element %u is %lld, not %lld", i, (long long)value->ints[i],
                     (long long)expected[i]);
    unload(result);
}

static void assert_floats(proto tensor, uint32_t count, const double *expected) {
    loaded result = load_graph(graph_with(tensor));
    assert_loads(result);
    const tn_value *value = tensor_of(result, "w")->value;
    assert_non_null(value);
    assert_non_null(value->floats);
    assert_int_equal(value->count, count);
    for (uint32_t i = 0; i < count; i++)
        if (!(value->floats[i] == expected[i])) /* also false for an unexpected NaN */
            fail_msg("element %u is %g, not %g", i, value->floats[i], expected[i]);
    unload(result);
}

static void small_integers_are_read_from_every_field(void **state) {
    (void)state;
    const int64_t wide[] = {-1, 1, 224};
    assert_ints(onnx_tensor("w", INT64, "3", wide, sizeof wide), 3, wide);
    proto tensor = onnx_tensor("w", INT64, "3", NULL, 0); /* packed, in two parts */
    uint8_t first[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1};
    uint8_t rest[] = {1, 0xe0, 1};
    proto_bytes(&tensor, 7, first, sizeof first);
    proto_bytes(&tensor, 7, rest, sizeof rest);
    assert_ints(tensor, 3, wide);
    tensor = onnx_tensor("w", INT64, "3", NULL, 0); /* one by one */
    for (int i = 0; i < 3; i++) proto_int(&tensor, 7, wide[i]);
    assert_ints(tensor, 3, wide);
    tensor = onnx_tensor("w", INT32, "2", NULL, 0);
    proto_int(&tensor, 5, -7);
    proto_int(&tensor, 5, 7);
    assert_ints(tensor, 2, (const int64_t[]){-7, 7});
    assert_ints(onnx_tensor("w", BOOL, "3", "\0\1\2", 3), 3, (const int64_t[]){0, 1, 1});
    assert_ints(onnx_tensor("w", UINT8, "2", "\xff\x80", 2), 2, (const int64_t[]){255, 128});
    assert_ints(onnx_tensor("w", 3, "2", "\xff\x80", 2), 2, (const int64_t[]){-1, -128});
    assert_ints(onnx_tensor("w", 5, "1", "\xfe\xff", 2), 1, (const int64_t[]){-2});
    tensor = onnx_tensor("w", 12, "1", NULL, 0); /* uint32 in uint64_data */
    proto_int(&tensor, 11, 0xffffffffll);
    assert_ints(tensor, 1, (const int64_t[]){0xffffffffll});
    assert_ints(onnx_tensor("w", INT64, "", "\5\0\0\0\0\0\0\0", 8), 1, (const int64_t[]){5});
}

static void types_below_a_byte_are_unpacked(void **state) {
    (void)state;
    assert_ints(onnx_tensor("w", INT4, "3", "\x8f\x07", 2), 3, (const int64_t[]){-1, -8, 7});
    assert_ints(onnx_tensor("w", UINT4, "3", "\x8f\x07", 2), 3, (const int64_t[]){15, 8, 7});
    proto tensor = onnx_tensor("w", INT4, "3", NULL, 0);
    proto_int(&tensor, 5, 0x8f);
    proto_int(&tensor, 5, 0x07);
    assert_ints(tensor, 3, (const int64_t[]){-1, -8, 7});
    assert_ints(onnx_tensor("w", 25, "5", "\xe4\x02", 2), 5, (const int64_t[]){0, 1, 2, 3, 2});
    assert_ints(onnx_tensor("w", 26, "5", "\xe4\x02", 2), 5, (const int64_t[]){0, 1, -2, -1, -2});
}

static void small_floats_are_read_from_every_field(void **state) {
    (void)state;
    const float single[] = {1, -2.5f};
    const double twice[] = {1, -2.5};
    assert_floats(onnx_tensor("w", FLOAT, "2", single, sizeof single), 2, twice);
    assert_floats(onnx_tensor("w", DOUBLE, "2", twice, sizeof twice), 2, twice);
    proto tensor = onnx_tensor("w", FLOAT, "2", NULL, 0);
    proto_bytes(&tensor, 4, single, sizeof single);
    assert_floats(tensor, 2, twice);
    tensor = onnx_tensor("w", FLOAT, "2", NULL, 0);
    proto_float(&tensor, 4, 1);
    proto_float(&tensor, 4, -2.5f);
    assert_floats(tensor, 2, twice);
    tensor = onnx_tensor("w", DOUBLE, "2", NULL, 0);
    proto_bytes(&tensor, 10, twice, sizeof twice);
    assert_floats(tensor, 2, twice);
    /* half: 1, -2.5, the largest, the smallest; bfloat16: 1, -2.5 */
    const double halves[] = {1, -2.5, 65504, 5.9604644775390625e-8};
    assert_floats(onnx_tensor("w", FLOAT16, "4", "\x00\x3c\x00\xc1\xff\x7b\x01\x00", 8), 4, halves);
    tensor = onnx_tensor("w", FLOAT16, "2", NULL, 0);
    proto_int(&tensor, 5, 0x3c00);
    proto_int(&tensor, 5, 0xc100);
    assert_floats(tensor, 2, halves);
    assert_floats(onnx_tensor("w", BFLOAT16, "2", "\x80\x3f\x20\xc0", 4), 2, halves);
}

static void large_contents_are_not_kept(void **state) {
    (void)state;
    size_t count = TN_VALUE_MAX + 1;
    uint8_t *zeros = calloc(count, 8);
    assert_non_null(zeros);
    char dims[20];
    snprintf(dims, sizeof dims, "%zu", count);
    loaded result = load_graph(graph_with(onnx_tensor("w", INT64, dims, zeros, count * 8)));
    assert_loads(result);
    assert_null(tensor_of(result, "w")->value);
    unload(result);
    snprintf(dims, sizeof dims, "%zu", count - 1);
    result = load_graph(graph_with(onnx_tensor("w", INT64, dims, zeros, (count - 1) * 8)));
    assert_loads(result);
    assert_int_equal(tensor_of(result, "w")->value->count, count - 1);
    unload(result);
    free(zeros);
}

static void numbers_beyond_int64_are_not_guessed(void **state) {
    (void)state;
    loaded result =
        load_graph(graph_with(onnx_tensor("w", 13, "1", "\xff\xff\xff\xff\xff\xff\xff\xff", 8)));
    assert_loads(result);
    assert_null(tensor_of(result, "w")->value);
    unload(result);
}

/* --- attributes --- */

static loaded load_attr(proto attr) {
    proto graph = onnx_small_graph(), node = onnx_own("n", "x", "y");
    proto_sub(&node, NODE_ATTRIBUTE, attr);
    proto_sub(&graph, GRAPH_NODE, node);
    return load_graph(graph);
}

static void attributes_of_every_type_are_kept(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), node = onnx_own("n", "x", "y"), attr;
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_int("i", -3));
    attr = onnx_attr("f", 1);
    proto_float(&attr, 2, 0.5f);
    proto_sub(&node, NODE_ATTRIBUTE, attr);
    attr = onnx_attr("s", 3);
    proto_text(&attr, 4, "linear");
    proto_sub(&node, NODE_ATTRIBUTE, attr);
    attr = onnx_attr("ints", 7);
    proto_bytes(&attr, 8, "\1\2", 2);
    proto_int(&attr, 8, -1);
    proto_sub(&node, NODE_ATTRIBUTE, attr);
    attr = onnx_attr("floats", 6);
    proto_float(&attr, 7, 1.5f);
    proto_sub(&node, NODE_ATTRIBUTE, attr);
    attr = onnx_attr("strings", 8);
    proto_text(&attr, 9, "a");
    proto_text(&attr, 9, "");
    proto_sub(&node, NODE_ATTRIBUTE, attr);
    int64_t seven = 7;
    proto_sub(&node, NODE_ATTRIBUTE,
              onnx_attr_tensor("t", onnx_tensor("", INT64, "", &seven, sizeof seven)));
    proto_sub(&graph, GRAPH_NODE, node);
    loaded result = load_graph(graph);
    assert_loads(result);
    const tn_op *op = tn_graph_op(result.graph, 0);
    assert_int_equal(op->attr_count, 7);
    const tn_attr *attrs = op->attrs;
    assert_string_equal(attrs[0].name, "i");
    assert_int_equal(attrs[0].type, TN_ATTR_INT);
    assert_true(attrs[0].ints[0] == -3);
    assert_int_equal(attrs[1].type, TN_ATTR_FLOAT);
    assert_true(attrs[1].floats[0] == 0.5);
    assert_int_equal(attrs[2].type, TN_ATTR_STRING);
    assert_string_equal(attrs[2].strings[0], "linear");
    assert_int_equal(attrs[3].count, 3);
    assert_true(attrs[3].ints[0] == 1 && attrs[3].ints[1] == 2 && attrs[3].ints[2] == -1);
    assert_int_equal(attrs[4].type, TN_ATTR_FLOATS);
    assert_true(attrs[4].floats[0] == 1.5);
    assert_int_equal(attrs[5].count, 2);
    assert_string_equal(attrs[5].strings[0], "a");
    assert_string_equal(attrs[5].strings[1], "");
    assert_int_equal(attrs[6].type, TN_ATTR_TENSOR);
    const tn_tensor *tensor = tn_graph_tensor(result.graph, attrs[6].tensor);
    assert_int_equal(tensor->kind, TN_KIND_CONSTANT);
    assert_int_equal(tensor->value->ints[0], 7);
    unload(result);
}

static void an_absent_number_is_zero_and_an_absent_type_is_guessed(void **state) {
    (void)state;
    loaded result = load_attr(onnx_attr("i", 2)); /* writers of proto3 leave zeros out */
    assert_loads(result);
    assert_int_equal(tn_graph_op(result.graph, 0)->attrs[0].ints[0], 0);
    unload(result);
    proto attr = onnx_attr("ints", 0); /* IR version 1 has no type */
    proto_int(&attr, 8, 4);
    result = load_attr(attr);
    assert_loads(result);
    assert_int_equal(tn_graph_op(result.graph, 0)->attrs[0].type, TN_ATTR_INTS);
    unload(result);
}

static void bad_attributes_are_refused(void **state) {
    (void)state;
    assert_refused(load_attr(onnx_attr("a", 77)), TN_E_INVALID, "node 'n'", "unknown type 77");
    assert_refused(load_attr(onnx_attr("", 2)), TN_E_INVALID, "node 'n'", "no name");
    assert_refused(load_attr(onnx_attr_ref("a", 2, "b")), TN_E_INVALID, "node 'n'",
                   "stands in none");
    float value = 1;
    assert_refused(
        load_attr(onnx_attr_tensor("t", onnx_tensor("", FLOAT, "2", &value, sizeof value))),
        TN_E_INVALID, "node 'n' (Own)", "attribute 't': it holds 4 bytes");
    proto graph = onnx_small_graph(), node = onnx_own("n", "x", "y");
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_int("a", 1));
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_int("a", 1));
    proto_sub(&graph, GRAPH_NODE, node);
    assert_refused(load_graph(graph), TN_E_INVALID, "node 'n'", "'a' is given twice");
    graph = onnx_small_graph();
    node = onnx_own("n", "x", "y");
    for (int i = 0; i < 300; i++) {
        char name[20];
        snprintf(name, sizeof name, "a%d", i);
        proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_int(name, i));
    }
    proto_sub(&graph, GRAPH_NODE, node);
    assert_refused(load_graph(graph), TN_E_INVALID, "node 'n'", "300 attributes");
}

static void lists_of_graphs_and_empty_graphs_are_bounded(void **state) {
    (void)state;
    proto attr = onnx_attr("g", 10);
    for (int i = 0; i < 257; i++) proto_bytes(&attr, 11, "\x12\x01n", 3);
    assert_refused(load_attr(attr), TN_E_INVALID, "node 'n'", "more than 256 in one list");
    assert_refused(load_attr(onnx_attr("g", 5)), TN_E_INVALID, "node 'n'",
                   "'g': the graph in it is");
}

static void a_payload_in_a_string_is_left_out(void **state) {
    (void)state;
    size_t size = 100000;
    char *blob = calloc(size, 1);
    assert_non_null(blob);
    proto attr = onnx_attr("engine", 3);
    proto_bytes(&attr, 4, blob, size);
    free(blob);
    loaded result = load_attr(attr);
    assert_loads(result);
    assert_int_equal(tn_graph_op(result.graph, 0)->attr_count, 0);
    unload(result);
}

/* --- stated types --- */

static void sequences_and_optionals_are_followed_to_their_tensor(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), value = {0}, nested = {0}, type = {0};
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y,maybe"));
    proto_sub(&nested, 1, onnx_tensor_type(INT64, "5"));
    proto_sub(&type, 9, nested);
    proto_text(&value, 1, "maybe");
    proto_sub(&value, 2, type);
    proto_sub(&graph, GRAPH_VALUE_INFO, value);
    loaded result = load_graph(graph);
    assert_loads(result);
    assert_shape(tensor_of(result, "maybe"), "5");
    assert_int_equal(tensor_of(result, "maybe")->dtype, TN_INT64);
    unload(result);
}

static void endless_nesting_of_types_ends(void **state) {
    (void)state;
    proto type = onnx_tensor_type(FLOAT, "2");
    for (int i = 0; i < 1000; i++) {
        proto nested = {0}, outer = {0};
        proto_sub(&nested, 1, type);
        proto_sub(&outer, 9, nested);
        type = outer;
    }
    proto graph = onnx_small_graph(), value = {0};
    proto_text(&value, 1, "y2");
    proto_sub(&value, 2, type);
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y,y2"));
    proto_sub(&graph, GRAPH_VALUE_INFO, value);
    /* the type is not known then, which the size of y2 needs */
    assert_refused(load_graph(graph), TN_E_UNKNOWN, "n", "y2");
}

static void a_bad_stated_type_is_refused(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y"));
    proto_sub(&graph, GRAPH_INPUT, onnx_value("z", 60, "2"));
    assert_refused(load_graph(graph), TN_E_INVALID, "value 'z'", "element type 60");
    graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("n", "x", "y"));
    proto_sub(&graph, GRAPH_INPUT, onnx_value("z", FLOAT, "2,-5"));
    assert_refused(load_graph(graph), TN_E_INVALID, "value 'z'", "negative (-5)");
}

/* --- the model --- */

static proto plain_graph(void) {
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_node("Relu", "n", "x", "y"));
    return graph;
}

static void versions_follow_the_domain(void **state) {
    (void)state;
    loaded result = load_graph(plain_graph());
    assert_loads(result);
    assert_int_equal(tn_graph_op(result.graph, 0)->version, 17);
    unload(result);
    proto model = {0}, graph = onnx_small_graph(), node = onnx_node("Relu", "n", "x", "y");
    proto_text(&node, NODE_DOMAIN, "ai.onnx"); /* the long name of the default domain */
    proto_sub(&graph, GRAPH_NODE, node);
    proto_int(&model, 1, 9);
    proto_sub(&model, 7, graph);
    proto_sub(&model, 8, onnx_opset("ai.onnx", 19)); /* after the graph: fields have no order */
    result = load_with(model, NULL);
    assert_loads(result);
    assert_int_equal(tn_graph_op(result.graph, 0)->version, 19);
    assert_string_equal(tn_graph_op(result.graph, 0)->domain, "");
    unload(result);
    model = (proto){0}; /* IR version 1: no list of operator sets */
    proto_int(&model, 1, 1);
    proto_sub(&model, 7, plain_graph());
    result = load_with(model, NULL);
    assert_loads(result);
    assert_int_equal(tn_graph_op(result.graph, 0)->version, 1);
    unload(result);
}

static void bad_models_are_refused(void **state) {
    (void)state;
    proto model = {0};
    proto_int(&model, 1, 8);
    assert_refused(load_with(model, NULL), TN_E_INVALID, "", "no graph");
    model = onnx_model(plain_graph());
    proto_sub(&model, 7, plain_graph());
    assert_refused(load_with(model, NULL), TN_E_INVALID, "", "two graphs");
    model = onnx_model(plain_graph());
    proto_sub(&model, 8, onnx_opset("a", -4));
    assert_refused(load_with(model, NULL), TN_E_INVALID, "", "version -4");
    model = onnx_model(plain_graph());
    for (int i = 0; i < 70; i++) proto_sub(&model, 8, onnx_opset("a", 1));
    assert_refused(load_with(model, NULL), TN_E_INVALID, "", "64 operator sets");
    assert_refused(load_bytes("", 0, NULL), TN_E_INVALID, "", "empty");
}

static void wrong_files_are_called_by_their_name(void **state) {
    (void)state;
    static const char lfs[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\n";
    assert_refused(load_bytes(lfs, sizeof lfs - 1, NULL), TN_E_INVALID, "", "Git LFS pointer");
    assert_refused(load_bytes("<!DOCTYPE html>", 15, NULL), TN_E_INVALID, "", "web page");
    assert_refused(load_bytes("PK\3\4....", 8, NULL), TN_E_INVALID, "", "zip");
    tn_graph *graph = NULL;
    tn_error error;
    assert_int_equal(tn_graph_load_memory("notes.txt", "hello", 5, NULL, &graph, &error),
                     TN_E_UNSUPPORTED);
    assert_non_null(strstr(error.message, "onnx"));
    assert_int_equal(tn_graph_load("absent.onnx", NULL, &graph, &error), TN_E_IO);
    assert_non_null(strstr(error.where, "absent.onnx"));
    assert_null(graph);
}

static void content_tells_a_model_without_suffix(void **state) {
    (void)state;
    proto model = onnx_model(plain_graph());
    tn_graph *graph = NULL;
    assert_int_equal(tn_graph_load_memory("model.bin", model.data, model.size, NULL, &graph, NULL),
                     TN_OK);
    tn_graph_destroy(graph);
    free(model.data);
    assert_true(tn_import_recognises("a/b.ONNX"));
    assert_false(tn_import_recognises("a/b.csv"));
    assert_string_equal(tn_import_format_name(0), "onnx");
}

static void keep_line(void *self, const char *line) { snprintf(self, 300, "%s", line); }

static void training_information_is_logged_and_ignored(void **state) {
    (void)state;
    char line[300] = "";
    tn_context context = TN_CONTEXT_INIT;
    context.self = line;
    context.log = keep_line;
    tn_import_options options = TN_IMPORT_OPTIONS_INIT;
    options.context = &context;
    proto model = onnx_model(plain_graph()), training = {0};
    proto_text(&training, 9, "whatever");
    proto_sub(&model, 20, training);
    loaded result = load_with(model, &options);
    assert_loads(result);
    assert_non_null(strstr(line, "test.onnx: training_info is ignored"));
    unload(result);
}

static void a_long_path_is_named_by_its_end(void **state) {
    (void)state;
    char path[600];
    memset(path, 'd', sizeof path);
    snprintf(path + 500, 100, "/model.onnx");
    tn_graph *graph = NULL;
    tn_error error;
    assert_int_equal(tn_graph_load_memory(path, "\x08", 1, NULL, &graph, &error), TN_E_INVALID);
    assert_string_equal(error.where, "model.onnx: byte 0");
    assert_null(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_between_input_and_output_loads),
        cmocka_unit_test(nodes_may_stand_in_any_order),
        cmocka_unit_test(an_undefined_name_is_refused_with_its_reader),
        cmocka_unit_test(an_undefined_graph_output_is_refused),
        cmocka_unit_test(two_producers_are_refused_with_both_names),
        cmocka_unit_test(double_inputs_and_initializers_are_refused),
        cmocka_unit_test(omitted_operands_stay_omitted),
        cmocka_unit_test(an_input_may_be_an_output_and_be_listed_twice),
        cmocka_unit_test(bad_bytes_in_names_are_replaced_and_still_tell_names_apart),
        cmocka_unit_test(a_node_without_type_is_refused),
        cmocka_unit_test(an_initializer_is_a_parameter_with_its_size),
        cmocka_unit_test(an_input_with_a_default_is_a_parameter),
        cmocka_unit_test(a_payload_that_does_not_fit_is_refused),
        cmocka_unit_test(strange_shapes_and_types_are_refused),
        cmocka_unit_test(external_data_is_checked_but_never_opened),
        cmocka_unit_test(a_sparse_initializer_has_the_size_of_the_dense_one),
        cmocka_unit_test(small_integers_are_read_from_every_field),
        cmocka_unit_test(types_below_a_byte_are_unpacked),
        cmocka_unit_test(small_floats_are_read_from_every_field),
        cmocka_unit_test(large_contents_are_not_kept),
        cmocka_unit_test(numbers_beyond_int64_are_not_guessed),
        cmocka_unit_test(attributes_of_every_type_are_kept),
        cmocka_unit_test(an_absent_number_is_zero_and_an_absent_type_is_guessed),
        cmocka_unit_test(bad_attributes_are_refused),
        cmocka_unit_test(lists_of_graphs_and_empty_graphs_are_bounded),
        cmocka_unit_test(a_payload_in_a_string_is_left_out),
        cmocka_unit_test(sequences_and_optionals_are_followed_to_their_tensor),
        cmocka_unit_test(endless_nesting_of_types_ends),
        cmocka_unit_test(a_bad_stated_type_is_refused),
        cmocka_unit_test(versions_follow_the_domain),
        cmocka_unit_test(bad_models_are_refused),
        cmocka_unit_test(wrong_files_are_called_by_their_name),
        cmocka_unit_test(content_tells_a_model_without_suffix),
        cmocka_unit_test(training_information_is_logged_and_ignored),
        cmocka_unit_test(a_long_path_is_named_by_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
