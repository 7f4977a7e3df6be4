/* test_blocks.c - subgraphs and functions: scopes, captures, inlining, and their limits. */
#include "proto.h"

/* A graph without inputs whose single node reads `reads` and gives output `out`. */
static proto branch(const char *node, const char *reads, const char *out) {
    proto graph = {0};
    proto_sub(&graph, GRAPH_NODE, onnx_own(node, reads, out));
    proto_sub(&graph, GRAPH_VALUE_INFO, onnx_value(out, FLOAT, "2,3"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value(out, FLOAT, "2,3"));
    return graph;
}

/* An operator of no rule with two graph attributes. */
static proto two_ways(const char *name, const char *reads, const char *out, proto first,
                      proto second) {
    proto node = onnx_own(name, reads, out);
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_graph("first", first));
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_graph("second", second));
    return node;
}

static const tn_op *op_of(loaded result, const char *name) {
    for (uint32_t i = 0; i < tn_graph_op_count(result.graph); i++)
        if (!strcmp(tn_graph_op(result.graph, i)->name, name)) return tn_graph_op(result.graph, i);
    fail_msg("there is no operator '%s'", name);
    return NULL;
}

static void a_subgraph_reads_outer_names_by_their_id(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_own("before", "x", "h"));
    proto_sub(&graph, GRAPH_VALUE_INFO, onnx_value("h", FLOAT, "2,3"));
    proto_sub(&graph, GRAPH_NODE,
              two_ways("if", "x", "y", branch("then", "h", "r"), branch("else", "x", "r")));
    loaded result = load_graph(graph);
    assert_loads(result);
    const tn_op *owner = op_of(result, "if");
    assert_int_equal(tn_graph_block_count(result.graph), 3);
    assert_int_equal(owner->attrs[0].type, TN_ATTR_BLOCK);
    const tn_block *first = tn_graph_block(result.graph, owner->attrs[0].block);
    const tn_block *second = tn_graph_block(result.graph, owner->attrs[1].block);
    assert_string_equal(first->name, "first");
    assert_ptr_equal(tn_graph_op(result.graph, first->owner), owner);
    assert_int_equal(op_of(result, "then")->inputs[0], tn_graph_find(result.graph, "h"));
    assert_int_equal(op_of(result, "else")->inputs[0], tn_graph_find(result.graph, "x"));
    /* both branches call their result "r": two scopes, two tensors */
    assert_int_equal(first->output_count, 1);
    assert_int_not_equal(first->outputs[0], second->outputs[0]);
    assert_int_equal(tn_graph_tensor(result.graph, first->outputs[0])->block,
                     owner->attrs[0].block);
    unload(result);
}

static void a_block_may_give_back_an_outer_tensor(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), empty = {0};
    proto_sub(&empty, GRAPH_OUTPUT, onnx_value("x", FLOAT, "2,3"));
    proto_sub(&graph, GRAPH_NODE, two_ways("if", "x", "y", empty, branch("else", "x", "r")));
    loaded result = load_graph(graph);
    assert_loads(result);
    const tn_block *block = tn_graph_block(result.graph, op_of(result, "if")->attrs[0].block);
    assert_int_equal(block->op_count, 0);
    assert_int_equal(block->outputs[0], tn_graph_find(result.graph, "x"));
    unload(result);
}

static void a_body_has_formal_inputs_in_their_order(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), body = {0};
    proto_sub(&body, GRAPH_INPUT, onnx_value("i", INT64, ""));
    proto_sub(&body, GRAPH_INPUT, onnx_value("c", FLOAT, "2,3"));
    proto_sub(&body, GRAPH_INITIALIZER, onnx_tensor("w", FLOAT, "5", NULL, 0));
    proto_sub(&body, GRAPH_NODE, onnx_own("step", "c,i,w,x", "d"));
    proto_sub(&body, GRAPH_OUTPUT, onnx_value("d", FLOAT, "2,3"));
    proto_sub(&body, GRAPH_OUTPUT, onnx_value("c", FLOAT, "2,3"));
    proto node = onnx_own("loop", "x", "y");
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_graph("body", body));
    proto_sub(&graph, GRAPH_NODE, node);
    loaded result = load_graph(graph);
    assert_loads(result);
    const tn_block *block = tn_graph_block(result.graph, op_of(result, "loop")->attrs[0].block);
    assert_int_equal(block->input_count, 2);
    assert_string_equal(tn_graph_tensor(result.graph, block->inputs[0])->name, "i");
    assert_string_equal(tn_graph_tensor(result.graph, block->inputs[1])->name, "c");
    assert_int_equal(block->output_count, 2);
    assert_int_equal(block->outputs[1], block->inputs[1]);
    assert_int_equal(tensor_of(result, "w")->kind, TN_KIND_PARAMETER);
    assert_int_equal(tensor_of(result, "w")->bytes, 20);
    assert_int_equal(op_of(result, "step")->inputs[3], tn_graph_find(result.graph, "x"));
    unload(result);
}

static void an_inner_name_hides_the_outer_one(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), body = {0};
    proto_sub(&body, GRAPH_INPUT, onnx_value("x", FLOAT, "2,3"));
    proto_sub(&body, GRAPH_NODE, onnx_own("step", "x", "d"));
    proto_sub(&body, GRAPH_OUTPUT, onnx_value("d", FLOAT, "2,3"));
    proto node = onnx_own("loop", "x", "y");
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_graph("body", body));
    proto_sub(&graph, GRAPH_NODE, node);
    loaded result = load_graph(graph);
    assert_loads(result);
    const tn_block *block = tn_graph_block(result.graph, op_of(result, "loop")->attrs[0].block);
    assert_int_equal(op_of(result, "step")->inputs[0], block->inputs[0]);
    assert_int_not_equal(block->inputs[0], tn_graph_find(result.graph, "x"));
    unload(result);
}

static void names_inside_are_not_seen_outside(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE,
              two_ways("if", "x", "h", branch("then", "x", "r"), branch("else", "x", "r")));
    proto_sub(&graph, GRAPH_NODE, onnx_own("after", "r", "y"));
    assert_refused(load_graph(graph), TN_E_INVALID, "node 'after' (Own)", "'r'");
    graph = onnx_small_graph(); /* nor in the other branch */
    proto_sub(&graph, GRAPH_NODE,
              two_ways("if", "x", "y", branch("then", "x", "r"), branch("else", "r", "q")));
    assert_refused(load_graph(graph), TN_E_INVALID, "node 'else' (Own)", "'r'");
}

static void blocks_in_blocks_see_through_all_scopes(void **state) {
    (void)state;
    proto inner = branch("inner", "x,m", "r");
    proto middle = branch("middle", "x", "m");
    proto_sub(&middle, GRAPH_NODE, two_ways("deep", "m", "q", inner, branch("other", "m", "r")));
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, two_ways("if", "x", "y", middle, branch("else", "x", "r")));
    proto_sub(&graph, GRAPH_VALUE_INFO, onnx_value("q", FLOAT, "2,3"));
    proto model = onnx_model(graph);
    loaded result = load_with(model, NULL);
    /* q of the middle block has no stated shape: value_info of the main graph is not its own */
    assert_refused(result, TN_E_UNKNOWN, "node 'deep' (Own)", "'q'");
    inner = branch("inner", "x,m", "r");
    middle = branch("middle", "x", "m");
    proto_sub(&middle, GRAPH_NODE, two_ways("deep", "m", "q", inner, branch("other", "m", "r")));
    proto_sub(&middle, GRAPH_VALUE_INFO, onnx_value("q", FLOAT, "2,3"));
    graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, two_ways("if", "x", "y", middle, branch("else", "x", "r")));
    result = load_graph(graph);
    assert_loads(result);
    assert_int_equal(tn_graph_block_count(result.graph), 5);
    const tn_op *op = op_of(result, "inner");
    assert_int_equal(op->inputs[0], tn_graph_find(result.graph, "x"));
    assert_string_equal(tn_graph_tensor(result.graph, op->inputs[1])->name, "m");
    unload(result);
}

static proto nested(int depth) {
    proto graph = branch("innermost", "x", "r");
    for (int i = 0; i < depth; i++) {
        proto outer = {0}, node = onnx_own("n", "x", "r");
        proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_graph("g", graph));
        proto_sub(&outer, GRAPH_NODE, node);
        proto_sub(&outer, GRAPH_VALUE_INFO, onnx_value("r", FLOAT, "2,3"));
        proto_sub(&outer, GRAPH_OUTPUT, onnx_value("r", FLOAT, "2,3"));
        graph = outer;
    }
    proto_sub(&graph, GRAPH_INPUT, onnx_value("x", FLOAT, "2,3"));
    return graph;
}

static void depth_is_bounded(void **state) {
    (void)state;
    loaded result = load_graph(nested(64));
    assert_loads(result);
    assert_int_equal(tn_graph_block_count(result.graph), 65);
    unload(result);
    assert_refused(load_graph(nested(65)), TN_E_INVALID, "node 'n' (Own)", "64 deep");
    assert_refused(load_graph(nested(5000)), TN_E_INVALID, "node 'n' (Own)", "64 deep");
}

static void lists_of_graphs_become_a_block_each(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), node = onnx_own("n", "x", "y");
    proto attr = onnx_attr("cases", 10);
    for (int i = 0; i < 3; i++) proto_sub(&attr, 11, branch("b", "x", "r"));
    proto_sub(&node, NODE_ATTRIBUTE, attr);
    proto_sub(&graph, GRAPH_NODE, node);
    loaded result = load_graph(graph);
    assert_loads(result);
    assert_int_equal(tn_graph_block_count(result.graph), 4);
    assert_int_equal(op_of(result, "n")->attr_count, 3);
    unload(result);
}

/* --- functions --- */

static proto function_head(const char *name, const char *inputs, const char *outputs) {
    proto function = {0};
    proto_text(&function, 1, name);
    proto_text(&function, 10, "f");
    onnx_names(&function, 4, inputs);
    onnx_names(&function, 5, outputs);
    return function;
}

static proto call_of(const char *function, const char *name, const char *inputs,
                     const char *outputs) {
    proto node = onnx_node(function, name, inputs, outputs);
    proto_text(&node, NODE_DOMAIN, "f");
    return node;
}

/* Two(a, b) -> c: c = Own(Relu(a), b), with the attribute k handed on as j. */
static proto function_two(void) {
    proto function = function_head("Two", "a,b", "c"), node = onnx_own("last", "t,b", "c");
    proto_text(&function, 6, "k");
    proto_sub(&function, 7, onnx_node("Relu", "first", "a", "t"));
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_ref("j", 2, "k"));
    proto_sub(&function, 7, node);
    return function;
}

static void a_call_is_replaced_by_the_body(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, onnx_node("Relu", "before", "x", "h"));
    proto call = call_of("Two", "call", "h,x", "y");
    proto_sub(&call, NODE_ATTRIBUTE, onnx_attr_int("k", 42));
    proto_sub(&graph, GRAPH_NODE, call);
    proto model = onnx_model(graph);
    proto_sub(&model, 25, function_two());
    loaded result = load_with(model, NULL);
    assert_loads(result);
    const tn_block *block = tn_graph_block(result.graph, 0);
    assert_int_equal(block->op_count, 3);
    assert_string_equal(tn_graph_op(result.graph, block->ops[1])->name, "call/first");
    const tn_op *last = tn_graph_op(result.graph, block->ops[2]);
    assert_string_equal(last->name, "call/last");
    assert_string_equal(last->type, "Own");
    assert_string_equal(tn_graph_tensor(result.graph, last->inputs[0])->name, "call/t");
    assert_int_equal(last->inputs[1], tn_graph_find(result.graph, "x"));
    assert_int_equal(last->outputs[0], tn_graph_find(result.graph, "y"));
    assert_int_equal(last->attr_count, 1);
    assert_string_equal(last->attrs[0].name, "j");
    assert_int_equal(last->attrs[0].ints[0], 42);
    unload(result);
}

static void an_attribute_that_is_not_given_is_the_default_or_omitted(void **state) {
    (void)state;
    for (int has_default = 0; has_default < 2; has_default++) {
        proto graph = onnx_small_graph(), function = function_two();
        proto_sub(&graph, GRAPH_NODE, call_of("Two", "call", "x,x", "y"));
        if (has_default) proto_sub(&function, 11, onnx_attr_int("k", 7));
        proto model = onnx_model(graph);
        proto_sub(&model, 25, function);
        loaded result = load_with(model, NULL);
        assert_loads(result);
        const tn_op *last = op_of(result, "call/last");
        assert_int_equal(last->attr_count, has_default);
        if (has_default) assert_int_equal(last->attrs[0].ints[0], 7);
        unload(result);
    }
}

static void functions_call_functions_and_hand_attributes_on(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), outer = function_head("Outer", "p", "q"), call;
    call = call_of("Two", "in", "p,p", "q");
    proto_sub(&call, NODE_ATTRIBUTE, onnx_attr_ref("k", 2, "m"));
    proto_sub(&outer, 7, call);
    call = call_of("Outer", "out", "x", "y");
    proto_sub(&call, NODE_ATTRIBUTE, onnx_attr_int("m", 5));
    proto_sub(&graph, GRAPH_NODE, call);
    proto model = {0};
    proto_int(&model, 1, 8);
    proto_sub(&model, 25, outer); /* before what it calls, and before the graph */
    proto_sub(&model, 25, function_two());
    proto_sub(&model, 7, graph);
    loaded result = load_with(model, NULL);
    assert_loads(result);
    assert_int_equal(tn_graph_op_count(result.graph), 2);
    assert_int_equal(op_of(result, "out/in/last")->attrs[0].ints[0], 5);
    unload(result);
}

static void a_function_has_its_own_operator_sets_and_overloads(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), function = function_two(), other = function_two();
    proto_sub(&function, 9, onnx_opset("", 13));
    proto_text(&other, 13, "v2");
    proto_sub(&other, 9, onnx_opset("", 18));
    proto_sub(&graph, GRAPH_NODE, call_of("Two", "a", "x,x", "h"));
    proto call = call_of("Two", "b", "h,x", "y");
    proto_text(&call, 8, "v2");
    proto_sub(&graph, GRAPH_NODE, call);
    proto_sub(&graph, GRAPH_VALUE_INFO, onnx_value("h", FLOAT, "2,3"));
    proto model = onnx_model(graph);
    proto_sub(&model, 25, function);
    proto_sub(&model, 25, other);
    loaded result = load_with(model, NULL);
    assert_loads(result);
    assert_int_equal(op_of(result, "a/first")->version, 13);
    assert_int_equal(op_of(result, "b/first")->version, 18);
    assert_int_equal(op_of(result, "a/last")->version, 3); /* else the model's */
    unload(result);
}

static void results_that_are_arguments_or_shared_are_copied(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), function = function_head("Both", "a", "a,b,b");
    proto_sub(&function, 7, onnx_node("Relu", "r", "a", "b"));
    proto_sub(&graph, GRAPH_NODE, call_of("Both", "call", "x", "same,y,z"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("same", FLOAT, "2,3"));
    proto_sub(&graph, GRAPH_OUTPUT, onnx_value("z", FLOAT, "2,3"));
    proto model = onnx_model(graph);
    proto_sub(&model, 25, function);
    loaded result = load_with(model, NULL);
    assert_loads(result);
    const tn_op *copy = tn_graph_op(result.graph, tensor_of(result, "same")->producer);
    assert_string_equal(copy->type, "Identity");
    assert_int_equal(copy->inputs[0], tn_graph_find(result.graph, "x"));
    copy = tn_graph_op(result.graph, tensor_of(result, "z")->producer);
    assert_string_equal(copy->type, "Identity");
    assert_int_equal(copy->inputs[0], tn_graph_find(result.graph, "y"));
    assert_string_equal(tn_graph_op(result.graph, tensor_of(result, "y")->producer)->type, "Relu");
    unload(result);
}

static void omitted_arguments_stay_omitted_in_the_body(void **state) {
    (void)state;
    for (int named = 0; named < 2; named++) {
        proto graph = onnx_small_graph();
        proto_sub(&graph, GRAPH_NODE, call_of("Two", "call", named ? "x," : "x", "y"));
        proto model = onnx_model(graph);
        proto_sub(&model, 25, function_two());
        loaded result = load_with(model, NULL);
        assert_loads(result);
        assert_int_equal(op_of(result, "call/last")->inputs[1], TN_NONE);
        unload(result);
    }
}

static void a_body_does_not_see_the_names_of_its_caller(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), function = function_head("Peek", "a", "c");
    proto_sub(&function, 7, onnx_own("n", "a,x", "c"));
    proto_sub(&graph, GRAPH_NODE, call_of("Peek", "call", "x", "y"));
    proto model = onnx_model(graph);
    proto_sub(&model, 25, function);
    assert_refused(load_with(model, NULL), TN_E_INVALID, "node 'call/n' (Own)", "'x'");
}

static void a_subgraph_in_a_function_sees_the_body_and_its_attributes(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), function = function_head("Deep", "a", "c"), inside, node;
    node = onnx_own("inner", "a", "r");
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_ref("j", 2, "k"));
    inside = (proto){0};
    proto_sub(&inside, GRAPH_NODE, node);
    proto_sub(&inside, GRAPH_OUTPUT, onnx_value("r", FLOAT, "2,3"));
    node = onnx_own("if", "a", "c");
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_graph("g", inside));
    proto_sub(&function, 7, node);
    for (int i = 0; i < 2; i++) {
        char name[16], in[16], out[16];
        snprintf(name, sizeof name, "call%d", i);
        snprintf(in, sizeof in, "%s", i ? "h" : "x");
        snprintf(out, sizeof out, "%s", i ? "y" : "h");
        node = call_of("Deep", name, in, out);
        proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_int("k", 10 + i));
        proto_sub(&graph, GRAPH_NODE, node);
    }
    proto_sub(&graph, GRAPH_VALUE_INFO, onnx_value("h", FLOAT, "2,3"));
    proto model = onnx_model(graph);
    proto_sub(&model, 25, function);
    loaded result = load_with(model, NULL);
    assert_loads(result);
    assert_int_equal(op_of(result, "call0/inner")->attrs[0].ints[0], 10);
    assert_int_equal(op_of(result, "call1/inner")->attrs[0].ints[0], 11);
    assert_int_equal(op_of(result, "call0/inner")->inputs[0], tn_graph_find(result.graph, "x"));
    assert_int_equal(op_of(result, "call1/inner")->inputs[0], tn_graph_find(result.graph, "h"));
    unload(result);
}

static void a_graph_handed_to_a_function_sees_the_caller(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), function = function_head("Run", "a", "c"), node;
    node = onnx_own("if", "a", "c");
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_ref("g", 5, "given"));
    proto_sub(&function, 7, node);
    node = call_of("Run", "call", "x", "y");
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_graph("given", branch("inner", "h", "r")));
    proto_sub(&graph, GRAPH_NODE, onnx_own("before", "x", "h"));
    proto_sub(&graph, GRAPH_VALUE_INFO, onnx_value("h", FLOAT, "2,3"));
    proto_sub(&graph, GRAPH_NODE, node);
    proto model = onnx_model(graph);
    proto_sub(&model, 25, function);
    loaded result = load_with(model, NULL);
    assert_loads(result);
    assert_int_equal(op_of(result, "call/inner")->inputs[0], tn_graph_find(result.graph, "h"));
    assert_int_equal(tn_graph_block_count(result.graph), 2);
    unload(result);
}

static void wrong_calls_are_refused(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), model;
    proto_sub(&graph, GRAPH_NODE, call_of("Two", "call", "x,x,x", "y"));
    model = onnx_model(graph);
    proto_sub(&model, 25, function_two());
    assert_refused(load_with(model, NULL), TN_E_INVALID, "node 'call' (Two)",
                   "2 inputs and 1 outputs with 3 and 1");
    graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, call_of("No", "call", "x", "y"));
    model = onnx_model(graph);
    proto_sub(&model, 25, function_head("No", "a", "c"));
    assert_refused(load_with(model, NULL), TN_E_INVALID, "output 'c'", "function 'No'");
    model = onnx_model(onnx_small_graph());
    proto_sub(&model, 25, function_two());
    proto_sub(&model, 25, function_two());
    assert_refused(load_with(model, NULL), TN_E_INVALID, "function 'Two'", "two functions");
}

static void a_function_that_calls_itself_is_refused(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), function = function_head("Self", "a", "c");
    proto_sub(&function, 7, call_of("Self", "again", "a", "c"));
    proto_sub(&graph, GRAPH_NODE, call_of("Self", "call", "x", "y"));
    proto model = onnx_model(graph);
    proto_sub(&model, 25, function);
    assert_refused(load_with(model, NULL), TN_E_INVALID, "(Self)", "64 deep");
}

static void a_function_that_calls_itself_in_a_subgraph_is_refused(void **state) {
    (void)state;
    proto graph = onnx_small_graph(), function = function_head("Self", "a", "c"), inside = {0};
    proto_sub(&inside, GRAPH_NODE, call_of("Self", "again", "a", "r"));
    proto_sub(&inside, GRAPH_OUTPUT, onnx_value("r", FLOAT, "2,3"));
    proto node = onnx_own("if", "a", "c");
    proto_sub(&node, NODE_ATTRIBUTE, onnx_attr_graph("g", inside));
    proto_sub(&function, 7, node);
    proto_sub(&graph, GRAPH_NODE, call_of("Self", "call", "x", "y"));
    proto model = onnx_model(graph);
    proto_sub(&model, 25, function);
    assert_refused(load_with(model, NULL), TN_E_INVALID, "", "64 deep");
}

static void calls_that_multiply_are_refused(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    proto_sub(&graph, GRAPH_NODE, call_of("F0", "call", "x", "y"));
    proto model = onnx_model(graph);
    for (int i = 0; i < 40; i++) { /* each calls the next one twice: 2^40 nodes from 4 kB */
        char name[16], next[16];
        snprintf(name, sizeof name, "F%d", i);
        snprintf(next, sizeof next, i == 39 ? "Own" : "F%d", i + 1);
        proto function = function_head(name, "a", "c");
        proto_sub(&function, 7, call_of(next, "p", "a", "b"));
        proto_sub(&function, 7, call_of(next, "q", "b", "c"));
        proto_sub(&model, 25, function);
    }
    assert_refused(load_with(model, NULL), TN_E_INVALID, "", "expand this model");
}

static void a_function_used_often_is_fine(void **state) {
    (void)state;
    proto graph = onnx_small_graph();
    char in[16] = "x", out[16];
    for (int i = 0; i < 2000; i++) {
        snprintf(out, sizeof out, i == 1999 ? "y" : "h%d", i);
        proto_sub(&graph, GRAPH_NODE, call_of("Chain", "", in, out));
        memcpy(in, out, sizeof in);
    }
    proto function = function_head("Chain", "a", "c");
    char from[16] = "a", to[16];
    for (int i = 0; i < 10; i++) {
        snprintf(to, sizeof to, i == 9 ? "c" : "t%d", i);
        proto_sub(&function, 7, onnx_node("Relu", "", from, to));
        memcpy(from, to, sizeof from);
    }
    proto model = onnx_model(graph);
    proto_sub(&model, 25, function);
    loaded result = load_with(model, NULL);
    assert_loads(result);
    assert_int_equal(tn_graph_op_count(result.graph), 20000);
    unload(result);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_subgraph_reads_outer_names_by_their_id),
        cmocka_unit_test(a_block_may_give_back_an_outer_tensor),
        cmocka_unit_test(a_body_has_formal_inputs_in_their_order),
        cmocka_unit_test(an_inner_name_hides_the_outer_one),
        cmocka_unit_test(names_inside_are_not_seen_outside),
        cmocka_unit_test(blocks_in_blocks_see_through_all_scopes),
        cmocka_unit_test(depth_is_bounded),
        cmocka_unit_test(lists_of_graphs_become_a_block_each),
        cmocka_unit_test(a_call_is_replaced_by_the_body),
        cmocka_unit_test(an_attribute_that_is_not_given_is_the_default_or_omitted),
        cmocka_unit_test(functions_call_functions_and_hand_attributes_on),
        cmocka_unit_test(a_function_has_its_own_operator_sets_and_overloads),
        cmocka_unit_test(results_that_are_arguments_or_shared_are_copied),
        cmocka_unit_test(omitted_arguments_stay_omitted_in_the_body),
        cmocka_unit_test(a_body_does_not_see_the_names_of_its_caller),
        cmocka_unit_test(a_subgraph_in_a_function_sees_the_body_and_its_attributes),
        cmocka_unit_test(a_graph_handed_to_a_function_sees_the_caller),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(a_function_that_calls_itself_is_refused),
        cmocka_unit_test(a_function_that_calls_itself_in_a_subgraph_is_refused),
        cmocka_unit_test(calls_that_multiply_are_refused),
        cmocka_unit_test(a_function_used_often_is_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
