/* The container: what is added is read back, and what is wrong is refused without a trace. */
#include "kit.h"

#define REFUSED(call, expected)                                                                    \
    do {                                                                                           \
        tn_status got = (call);                                                                    \
        if (got != (expected))                                                                     \
            fail_msg("line %d: %s instead of %s", __LINE__, tn_status_name(got),                   \
                     tn_status_name(expected));                                                    \
        assert_true(kit.error.message[0] != 0);                                                    \
    } while (0)

static void what_is_added_is_copied_and_read_back(void **state) {
    (void)state;
    test_kit kit = kit_open();
    char name[] = "x";
    int64_t shape[] = {2, TN_DIM_UNKNOWN, 4}, ints[] = {5, -6}, two = 2;
    tn_tensor_id x, c, y = 0;
    tn_tensor_spec spec = {.name = name,
                           .kind = TN_KIND_INPUT,
                           .dtype = TN_FLOAT16,
                           .rank = 3,
                           .shape = shape,
                           .format = {TN_ORDER_NHWC, 0}};
    assert_int_equal(tn_graph_add_tensor(kit.graph, &spec, &x, &kit.error), TN_OK);
    c = kit_constant(&kit, TN_INT64, 1, &two, ints, NULL);
    y = kit_tensor(&kit, "y", TN_KIND_OUTPUT, TN_UNDEFINED, 0, NULL);
    kit_attr_ints(&kit, "list", 2, ints);
    kit_attr_string(&kit, "mode", "fast");
    kit_attr_float(&kit, "alpha", 0.5);
    tn_op_id op = kit_op_to(&kit, "Thing", KIT_LIST(x, TN_NONE, c), KIT_LIST(y));
    name[0] = '?';
    shape[0] = ints[0] = 99;
    const tn_tensor *tensor = kit_at(&kit, x);
    assert_string_equal(tensor->name, "x");
    assert_int_equal(tensor->rank, 3);
    assert_int_equal(tensor->shape[0], 2);
    assert_true(tensor->shape[1] == TN_DIM_UNKNOWN);
    assert_int_equal(tensor->format.order, TN_ORDER_NHWC);
    assert_true(tensor->flags & TN_TENSOR_STATED);
    assert_int_equal(tensor->bytes, TN_SIZE_UNKNOWN);
    assert_int_equal(kit_at(&kit, c)->value->count, 2);
    assert_int_equal(kit_at(&kit, c)->value->ints[0], 5);
    assert_int_equal(kit_at(&kit, y)->rank, TN_RANK_UNKNOWN);
    assert_int_equal(kit_at(&kit, y)->producer, op);
    assert_true(kit_at(&kit, y)->flags & TN_TENSOR_IS_OUTPUT);
    const tn_op *thing = tn_graph_op(kit.graph, op);
    assert_string_equal(thing->type, "Thing");
    assert_string_equal(thing->domain, "");
    assert_int_equal(thing->inputs[1], TN_NONE);
    assert_int_equal(thing->attrs[0].ints[0], 5);
    assert_string_equal(thing->attrs[1].strings[0], "fast");
    assert_true(thing->attrs[2].floats[0] == 0.5);
    const tn_block *block = tn_graph_block(kit.graph, 0);
    assert_int_equal(block->input_count, 1);
    assert_int_equal(block->inputs[0], x);
    assert_int_equal(block->output_count, 1);
    assert_int_equal(block->outputs[0], y);
    assert_int_equal(block->op_count, 1);
    assert_int_equal(tn_graph_find(kit.graph, "y"), y);
    assert_int_equal(tn_graph_find(kit.graph, "nobody"), TN_NONE);
    kit_close(&kit);
}

static void ranks_without_a_shape_are_unknown_or_scalars(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id open = kit_open_tensor(&kit, "open");
    tn_tensor_id scalar = kit_tensor(&kit, "s", TN_KIND_ACTIVATION, TN_INT8, 0, NULL);
    tn_tensor_id typed = kit_tensor(&kit, "t", TN_KIND_ACTIVATION, TN_INT8, TN_RANK_UNKNOWN, NULL);
    tn_tensor_id ranked = kit_tensor(&kit, "r", TN_KIND_ACTIVATION, TN_INT8, 3, NULL);
    assert_int_equal(kit_at(&kit, open)->rank, TN_RANK_UNKNOWN);
    assert_int_equal(kit_at(&kit, scalar)->rank, 0);
    assert_int_equal(kit_at(&kit, typed)->rank, TN_RANK_UNKNOWN);
    assert_int_equal(kit_at(&kit, ranked)->rank, 3);
    assert_true(kit_at(&kit, ranked)->shape[2] == TN_DIM_UNKNOWN);
    kit_close(&kit);
}

static void tensors_that_cannot_be_are_refused(void **state) {
    (void)state;
    test_kit kit = kit_open();
    int64_t shape[TN_RANK_MAX + 1] = {0}, negative[] = {3, -1}, two = 2;
    const int64_t ints[3] = {1, 2, 3};
    const double floats[2] = {1, 2};
    tn_tensor_id id = 77;
    tn_block_id block = kit_block(&kit, "body");
    const tn_tensor_spec bad[] = {
        {.name = "rank", .dtype = TN_INT8, .rank = TN_RANK_MAX + 1, .shape = shape},
        {.name = "extent", .dtype = TN_INT8, .rank = 2, .shape = negative},
        {.name = "block", .block = 2},
        {.name = "type", .dtype = TN_DTYPE_COUNT},
        {.name = "kind", .kind = TN_KIND_COUNT},
        {.name = "flags", .flags = 1u << 20},
        {.name = "count", .dtype = TN_INT8, .rank = 1, .shape = &two, .value = {3, ints, NULL}},
        {.name = "class", .dtype = TN_INT8, .rank = 1, .shape = &two, .value = {2, NULL, floats}},
        {.name = "class", .dtype = TN_FLOAT32, .rank = 1, .shape = &two, .value = {2, ints, NULL}},
        {.name = "open", .dtype = TN_INT8, .rank = TN_RANK_UNKNOWN, .value = {3, ints, NULL}},
        {.name = "input of a block", .kind = TN_KIND_INPUT, .block = block},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        REFUSED(tn_graph_add_tensor(kit.graph, &bad[i], &id, &kit.error), TN_E_INVALID);
    assert_int_equal(id, 77);
    assert_int_equal(tn_graph_tensor_count(kit.graph), 0);
    kit_close(&kit);
}

static void operators_that_cannot_be_are_refused(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2));
    tn_tensor_id w = kit_constant(&kit, TN_FLOAT32, 0, NULL, NULL, NULL);
    tn_tensor_id y = kit_open_tensor(&kit, "y"), z = kit_open_tensor(&kit, "z");
    tn_block_id block = kit_block(&kit, "body");
    kit.block = block;
    tn_tensor_id inner = kit_open_tensor(&kit, "inner");
    kit.block = 0;
    kit_op_to(&kit, "First", KIT_LIST(x), KIT_LIST(y));
    const tn_attr no_block = {.name = "body", .type = TN_ATTR_BLOCK, .block = 5};
    const tn_attr main_block = {.name = "body", .type = TN_ATTR_BLOCK, .block = 0};
    const tn_attr no_tensor = {.name = "value", .type = TN_ATTR_TENSOR, .tensor = 999};
    const tn_attr twice[] = {{.name = "a", .type = TN_ATTR_BLOCK, .block = block},
                             {.name = "b", .type = TN_ATTR_BLOCK, .block = block}};
    const tn_tensor_id z_twice[] = {z, z}, z_and_y[] = {z, y}, far = 1000;
    const tn_op_spec bad[] = {
        {.name = "input", .inputs = &far, .input_count = 1},
        {.name = "output", .outputs = &far, .output_count = 1},
        {.name = "block", .block = 9},
        {.name = "second producer", .outputs = &y, .output_count = 1},
        {.name = "second producer, later", .outputs = z_and_y, .output_count = 2},
        {.name = "one output twice", .outputs = z_twice, .output_count = 2},
        {.name = "computes an input", .outputs = &x, .output_count = 1},
        {.name = "computes a parameter", .outputs = &w, .output_count = 1},
        {.name = "computes in another block", .outputs = &inner, .output_count = 1},
        {.name = "no such block", .attrs = &no_block, .attr_count = 1},
        {.name = "main block", .attrs = &main_block, .attr_count = 1},
        {.name = "no such tensor", .attrs = &no_tensor, .attr_count = 1},
        {.name = "block twice", .attrs = twice, .attr_count = 2},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        REFUSED(tn_graph_add_op(kit.graph, &bad[i], NULL, &kit.error), TN_E_INVALID);
        assert_non_null(strstr(kit.error.where, bad[i].name));
    }
    assert_int_equal(tn_graph_op_count(kit.graph), 1);
    assert_int_equal(kit_at(&kit, z)->producer, TN_NONE); /* a refusal leaves nothing behind */
    kit_op_to(&kit, "Second", KIT_LIST(x), KIT_LIST(z));
    kit_close(&kit);
}

static void lists_of_the_main_block_give_roles(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_tensor(&kit, "x", TN_KIND_ACTIVATION, TN_FLOAT32, KIT_SHAPE(2));
    tn_tensor_id p = kit_tensor(&kit, "p", TN_KIND_PARAMETER, TN_FLOAT32, KIT_SHAPE(2));
    tn_tensor_id y = kit_open_tensor(&kit, "y");
    kit_op_to(&kit, "Add", KIT_LIST(x, p), KIT_LIST(y));
    kit_block_io(&kit, 0, KIT_LIST(x), KIT_LIST(y, x, p));
    assert_int_equal(kit_at(&kit, x)->kind, TN_KIND_INPUT);
    assert_int_equal(kit_at(&kit, y)->kind, TN_KIND_OUTPUT);
    assert_int_equal(kit_at(&kit, p)->kind, TN_KIND_PARAMETER);
    assert_true(kit_at(&kit, x)->flags & TN_TENSOR_IS_OUTPUT);
    assert_true(kit_at(&kit, p)->flags & TN_TENSOR_IS_OUTPUT);
    kit_infer(&kit);
    assert_true(kit_at(&kit, x)->flags & TN_TENSOR_IS_OUTPUT);
    kit_block_io(&kit, 0, KIT_LIST(x), KIT_LIST(y));
    assert_false(kit_at(&kit, x)->flags & TN_TENSOR_IS_OUTPUT);
    tn_error error;
    assert_int_equal(tn_graph_set_block_io(kit.graph, 0, &y, 1, NULL, 0, &error), TN_E_INVALID);
    assert_int_equal(tn_graph_set_block_io(kit.graph, 3, NULL, 0, NULL, 0, &error), TN_E_INVALID);
    assert_int_equal(tn_graph_block(kit.graph, 0)->output_count, 1);
    kit_close(&kit);
}

static void set_tensor_changes_shape_and_role_but_not_name(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(TN_DIM_UNKNOWN, 3));
    tn_tensor_id w = kit_input(&kit, "w", TN_FLOAT32, KIT_SHAPE(3));
    tn_tensor_id y = kit_tensor(&kit, "y", TN_KIND_OUTPUT, TN_UNDEFINED, 0, NULL);
    kit_op_to(&kit, "Add", KIT_LIST(x, w), KIT_LIST(y));
    kit_infer_fails(&kit, TN_E_UNKNOWN);
    for (int64_t batch = 1; batch < 4; batch++) {
        int64_t shape[] = {batch, 3};
        tn_tensor_spec spec = {.name = "ignored",
                               .dtype = TN_FLOAT32,
                               .rank = 2,
                               .shape = shape,
                               .kind = TN_KIND_INPUT};
        kit_check(&kit, tn_graph_set_tensor(kit.graph, x, &spec, &kit.error));
        kit_infer(&kit);
        assert_int_equal(kit_at(&kit, y)->bytes, batch * 12);
    }
    assert_string_equal(kit_at(&kit, x)->name, "x");
    int64_t three = 3;
    tn_tensor_spec parameter = {
        .dtype = TN_FLOAT32, .rank = 1, .shape = &three, .kind = TN_KIND_PARAMETER};
    kit_check(&kit, tn_graph_set_tensor(kit.graph, w, &parameter, &kit.error));
    assert_int_equal(tn_graph_block(kit.graph, 0)->input_count, 1);
    parameter.kind = TN_KIND_INPUT;
    kit_check(&kit, tn_graph_set_tensor(kit.graph, w, &parameter, &kit.error));
    assert_int_equal(tn_graph_block(kit.graph, 0)->input_count, 2);
    REFUSED(tn_graph_set_tensor(kit.graph, y, &parameter, &kit.error), TN_E_INVALID);
    REFUSED(tn_graph_set_tensor(kit.graph, 99, &parameter, &kit.error), TN_E_INVALID);
    kit_close(&kit);
}

/* --- fault injection --- */

typedef struct faults {
    size_t live, calls, fail_at;
} faults;

static void *faults_resize(void *self, void *pointer, size_t old_size, size_t new_size,
                           size_t alignment) {
    faults *at = self;
    (void)alignment;
    if (new_size && ++at->calls == at->fail_at) return NULL;
    if (!new_size) {
        at->live -= old_size;
        free(pointer);
        return NULL;
    }
    void *moved = realloc(pointer, new_size);
    if (moved) at->live += new_size - old_size;
    return moved;
}

/* A graph that uses every sort of memory: names, attributes, values, blocks, an order to sort. */
static tn_status faults_build(tn_graph *graph, tn_error *error) {
    int64_t shape[] = {2, 3}, axes[] = {0}, yes = 1;
    tn_tensor_id x, condition, a, b, c, t, e, where, extents;
    tn_block_id then_block, else_block;
    tn_tensor_spec input = {
        .name = "x", .kind = TN_KIND_INPUT, .dtype = TN_FLOAT32, .rank = 2, .shape = shape};
    tn_tensor_spec flag = {.name = "flag", .kind = TN_KIND_INPUT, .dtype = TN_BOOL};
    tn_tensor_spec open = {.name = "open"};
    tn_tensor_spec output = {.name = "out", .kind = TN_KIND_OUTPUT};
    TN_TRY(tn_graph_add_tensor(graph, &input, &x, error));
    TN_TRY(tn_graph_add_tensor(graph, &flag, &condition, error));
    TN_TRY(tn_graph_add_block(graph, "then", &then_block, error));
    TN_TRY(tn_graph_add_block(graph, "else", &else_block, error));
    TN_TRY(tn_graph_add_tensor(graph, &open, &a, error));
    TN_TRY(tn_graph_add_tensor(graph, &open, &b, error));
    TN_TRY(tn_graph_add_tensor(graph, &open, &where, error));
    TN_TRY(tn_graph_add_tensor(graph, &open, &extents, error));
    TN_TRY(tn_graph_add_tensor(graph, &output, &c, error));
    open.block = then_block;
    TN_TRY(tn_graph_add_tensor(graph, &open, &t, error));
    open.block = else_block;
    TN_TRY(tn_graph_add_tensor(graph, &open, &e, error));
    const tn_attr branches[] = {
        {.name = "then_branch", .type = TN_ATTR_BLOCK, .block = then_block},
        {.name = "else_branch", .type = TN_ATTR_BLOCK, .block = else_block}};
    const tn_attr unsqueeze = {.name = "axes", .type = TN_ATTR_INTS, .count = 1, .ints = axes};
    const tn_attr axis = {.name = "axis", .type = TN_ATTR_INT, .count = 1, .ints = &yes};
    const tn_tensor_id both[] = {a, a};
    tn_op_spec ops[] = {
        {.type = "If",
         .inputs = &condition,
         .outputs = &b,
         .attrs = branches,
         .input_count = 1,
         .output_count = 1,
         .attr_count = 2}, /* before `a`, which its branches read */
        {.type = "Unsqueeze",
         .version = 11,
         .inputs = &x,
         .outputs = &a,
         .attrs = &unsqueeze,
         .input_count = 1,
         .output_count = 1,
         .attr_count = 1},
        {.type = "Relu",
         .inputs = &a,
         .outputs = &t,
         .input_count = 1,
         .output_count = 1,
         .block = then_block},
        {.type = "Concat",
         .inputs = both,
         .outputs = &e,
         .input_count = 2,
         .output_count = 1,
         .attrs = &axis,
         .attr_count = 1,
         .block = else_block},
        {.type = "NonZero",
         .inputs = &b,
         .outputs = &where,
         .input_count = 1,
         .output_count = 1}, /* bounds: rules run twice */
        {.type = "Shape",
         .inputs = &where,
         .outputs = &extents,
         .input_count = 1,
         .output_count = 1},
        {.type = "ConstantOfShape",
         .inputs = &extents,
         .outputs = &c,
         .input_count = 1,
         .output_count = 1},
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        TN_TRY(tn_graph_add_op(graph, &ops[i], NULL, error));
    TN_TRY(tn_graph_set_block_io(graph, then_block, NULL, 0, &t, 1, error));
    TN_TRY(tn_graph_set_block_io(graph, else_block, NULL, 0, &e, 1, error));
    TN_TRY(tn_graph_set_tensor(graph, x, &input, error));
    TN_TRY(tn_graph_infer(graph, error));
    TN_TRY(tn_graph_infer(graph, error));
    assert_int_equal(tn_graph_tensor(graph, b)->bytes, 2 * 2 * 3 * 4);
    assert_int_equal(tn_graph_tensor(graph, c)->bytes, 3 * 12 * 4);
    assert_true(tn_graph_tensor(graph, c)->flags & TN_TENSOR_BOUND);
    return TN_OK;
}

static void every_allocation_may_fail_and_nothing_leaks(void **state) {
    (void)state;
    tn_status status = TN_E_NO_MEMORY;
    for (size_t fail_at = 1; status != TN_OK; fail_at++) {
        faults at = {.fail_at = fail_at};
        tn_context context = {.struct_size = sizeof context, .allocator = {faults_resize, &at}};
        tn_error error;
        tn_graph *graph = NULL;
        status = tn_graph_create(&context, &graph, &error);
        if (status == TN_OK) status = faults_build(graph, &error);
        if (status != TN_OK && status != TN_E_NO_MEMORY)
            fail_msg("allocation %zu: %s: %s", fail_at, error.where, error.message);
        tn_graph_destroy(graph);
        assert_int_equal(at.live, 0);
        assert_true(fail_at < 10000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_added_is_copied_and_read_back),
        cmocka_unit_test(ranks_without_a_shape_are_unknown_or_scalars),
        cmocka_unit_test(tensors_that_cannot_be_are_refused),
        cmocka_unit_test(operators_that_cannot_be_are_refused),
        cmocka_unit_test(lists_of_the_main_block_give_roles),
        cmocka_unit_test(set_tensor_changes_shape_and_role_but_not_name),
        cmocka_unit_test(every_allocation_may_fail_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
