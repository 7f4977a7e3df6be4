/* Views, in-place, cost: the common checks, and what each kind of operator claims. */
#include "graph/infer/infer.h"
#include "kit.h"

static uint64_t inplace_of(test_kit *kit, const char *type, size_t count,
                           const tn_tensor_id *inputs) {
    tn_tensor_id out = kit_op(kit, type, count, inputs);
    kit_infer(kit);
    return tn_op_inplace(kit->graph, kit_at(kit, out)->producer, 0);
}

static void element_wise_operators_may_overwrite_what_has_their_size(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(4, 5));
    tn_tensor_id y = kit_input(&kit, "y", TN_FLOAT32, KIT_SHAPE(4, 5));
    tn_tensor_id row = kit_input(&kit, "row", TN_FLOAT32, KIT_SHAPE(5));
    tn_tensor_id mask = kit_input(&kit, "mask", TN_BOOL, KIT_SHAPE(4, 5));
    tn_tensor_id wide = kit_input(&kit, "wide", TN_INT64, KIT_SHAPE(4, 5));
    assert_int_equal(inplace_of(&kit, "Relu", KIT_LIST(x)), 1);
    assert_int_equal(inplace_of(&kit, "Add", KIT_LIST(x, y)), 3);
    assert_int_equal(inplace_of(&kit, "Add", KIT_LIST(row, y)), 2);
    assert_int_equal(inplace_of(&kit, "Equal", KIT_LIST(x, y)), 0); /* bool is narrower */
    assert_int_equal(inplace_of(&kit, "And", KIT_LIST(mask, mask)), 3);
    assert_int_equal(inplace_of(&kit, "Where", KIT_LIST(mask, x, y)), 6);
    assert_int_equal(inplace_of(&kit, "Where", KIT_LIST(mask, row, y)), 4);
    assert_int_equal(inplace_of(&kit, "Sum", KIT_LIST(x, row, y)), 5);
    assert_int_equal(inplace_of(&kit, "PRelu", KIT_LIST(x, y)), 1);
    assert_int_equal(inplace_of(&kit, "NonZero", KIT_LIST(x)), 0);
    kit_attr_int(&kit, "to", TN_INT32);
    assert_int_equal(inplace_of(&kit, "Cast", KIT_LIST(x)), 1);
    kit_attr_int(&kit, "to", TN_FLOAT16);
    assert_int_equal(inplace_of(&kit, "Cast", KIT_LIST(x)), 0);
    assert_int_equal(inplace_of(&kit, "ScatterND", KIT_LIST(x, wide, y)), 1);
    kit_close(&kit);
}

/* [n <= 12] + [n <= 12]: equal bounds, but one may turn out to be [1] and be broadcast. */
static void equal_bounds_do_not_prove_equal_shapes(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(12));
    tn_tensor_id mask = kit_input(&kit, "mask", TN_BOOL, KIT_SHAPE(12));
    tn_tensor_id a = kit_op(&kit, "Compress", KIT_LIST(x, mask));
    tn_tensor_id b = kit_op(&kit, "Compress", KIT_LIST(x, mask));
    tn_tensor_id one = kit_input(&kit, "one", TN_FLOAT32, KIT_SHAPE(1));
    assert_int_equal(inplace_of(&kit, "Add", KIT_LIST(a, b)), 0);
    assert_int_equal(inplace_of(&kit, "Add", KIT_LIST(a, one)), 1);
    assert_int_equal(inplace_of(&kit, "Relu", KIT_LIST(a)), 1);
    kit_close(&kit);
}

static tn_view view_of(test_kit *kit, const char *type, size_t count, const tn_tensor_id *inputs) {
    tn_tensor_id out = kit_op(kit, type, count, inputs);
    kit_infer(kit);
    return tn_op_view(kit->graph, kit_at(kit, out)->producer, 0);
}

static void operators_that_only_rename_are_views(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(4, 1, 5));
    tn_tensor_id nothing =
        kit_tensor(&kit, "nothing", TN_KIND_PARAMETER, TN_FLOAT32, KIT_SHAPE(0, 1, 5));
    tn_tensor_id ones = kit_list(&kit, 3, (int64_t[]){1, 1, 1});
    tn_tensor_id axis = kit_list(&kit, 1, (int64_t[]){1});
    tn_tensor_id zeros = kit_list(&kit, 6, (int64_t[]){0, 0, 0, 0, 0, 0});
    tn_tensor_id shift = kit_list(&kit, 6, (int64_t[]){1, 0, 0, -1, 0, 0});
    assert_int_equal(view_of(&kit, "Identity", KIT_LIST(x)).source, x);
    assert_int_equal(view_of(&kit, "Flatten", KIT_LIST(x)).source, x);
    assert_int_equal(view_of(&kit, "Squeeze", KIT_LIST(x, axis)).source, x);
    assert_int_equal(view_of(&kit, "Squeeze", KIT_LIST(x)).source, x);
    assert_int_equal(view_of(&kit, "Unsqueeze", KIT_LIST(x, axis)).source, x);
    assert_int_equal(view_of(&kit, "Tile", KIT_LIST(x, ones)).source, x);
    assert_int_equal(view_of(&kit, "Expand", KIT_LIST(x, ones)).source, x);
    assert_int_equal(view_of(&kit, "Pad", KIT_LIST(x, zeros)).source, x);
    assert_int_equal(view_of(&kit, "Pad", KIT_LIST(x, shift)).source, TN_NONE); /* same shape */
    kit_attr_int(&kit, "axis", 0);
    assert_int_equal(view_of(&kit, "Concat", KIT_LIST(x)).source, x);
    kit_attr_int(&kit, "axis", 0);
    assert_int_equal(view_of(&kit, "Concat", KIT_LIST(nothing, x, nothing)).source, x);
    kit_attr_int(&kit, "axis", 0);
    assert_int_equal(view_of(&kit, "Concat", KIT_LIST(x, x)).source, TN_NONE);
    assert_int_equal(view_of(&kit, "Relu", KIT_LIST(x)).source, TN_NONE);
    kit_attr_int(&kit, "to", TN_FLOAT32);
    assert_int_equal(view_of(&kit, "Cast", KIT_LIST(x)).source, x);
    kit_attr_int(&kit, "to", TN_INT32);
    assert_int_equal(view_of(&kit, "Cast", KIT_LIST(x)).source, TN_NONE);
    kit_close(&kit);
}

static void a_part_of_packed_elements_is_a_view_only_at_a_whole_byte(void **state) {
    (void)state;
    for (int64_t start = 0; start < 8; start++) {
        test_kit kit = kit_open();
        tn_tensor_id x = kit_input(&kit, "x", TN_INT4, KIT_SHAPE(10));
        tn_tensor_id from = kit_list(&kit, 1, &start), to = kit_list(&kit, 1, (int64_t[]){10});
        tn_view view = view_of(&kit, "Slice", KIT_LIST(x, from, to));
        assert_int_equal(view.source, start % 2 ? TN_NONE : x);
        if (start % 2 == 0) assert_int_equal(view.offset, start / 2);
        kit_close(&kit);
    }
}

/* A slice of what is only bounded starts at the same byte whatever the size only at 0. */
static void parts_of_bounded_tensors_are_views_only_at_the_start(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(12));
    tn_tensor_id where = kit_op(&kit, "NonZero", KIT_LIST(x)); /* [1, n <= 12] */
    tn_tensor_id zero = kit_list(&kit, 1, (int64_t[]){0}), two = kit_list(&kit, 1, (int64_t[]){2});
    tn_tensor_id nine = kit_list(&kit, 1, (int64_t[]){9}), one = kit_list(&kit, 1, (int64_t[]){1});
    assert_int_equal(view_of(&kit, "Slice", KIT_LIST(where, zero, nine, one)).source, where);
    assert_int_equal(view_of(&kit, "Slice", KIT_LIST(where, two, nine, one)).source, TN_NONE);
    tn_tensor_id shape = kit_list(&kit, 2, (int64_t[]){1, 12}); /* of one element may come 12 */
    assert_int_equal(view_of(&kit, "Expand", KIT_LIST(where, shape)).source, TN_NONE);
    kit_close(&kit);
}

static void layouts_that_are_not_row_major_are_not_cut(void **state) {
    (void)state;
    const tn_format formats[] = {{TN_ORDER_NCHW, 0}, {TN_ORDER_NHWC, 0}, {TN_ORDER_NCHW, 8}};
    for (int i = 0; i < 3; i++) {
        test_kit kit = kit_open();
        int64_t shape[] = {1, 16, 4, 4};
        tn_tensor_id x, same, flat;
        tn_tensor_spec spec = {.name = "x",
                               .kind = TN_KIND_INPUT,
                               .dtype = TN_FLOAT32,
                               .rank = 4,
                               .shape = shape,
                               .format = formats[i]};
        kit_check(&kit, tn_graph_add_tensor(kit.graph, &spec, &x, &kit.error));
        spec = (tn_tensor_spec){.name = "same", .format = formats[i]};
        kit_check(&kit, tn_graph_add_tensor(kit.graph, &spec, &same, &kit.error));
        flat = kit_open_tensor(&kit, "flat");
        tn_op_id identity = kit_op_to(&kit, "Identity", KIT_LIST(x), KIT_LIST(same));
        tn_op_id flatten = kit_op_to(&kit, "Flatten", KIT_LIST(x), KIT_LIST(flat));
        kit_infer(&kit);
        assert_int_equal(tn_op_view(kit.graph, identity, 0).source, x);
        assert_int_equal(tn_op_view(kit.graph, flatten, 0).source, i == 0 ? x : TN_NONE);
        kit_close(&kit);
    }
}

static void cost_counts_operations_and_bytes(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(10, 10));
    tn_tensor_id y = kit_op(&kit, "Add", KIT_LIST(x, x));
    tn_tensor_id z = kit_tensor(&kit, "z", TN_KIND_ACTIVATION, TN_FLOAT32, KIT_SHAPE(2));
    tn_op_id unknown = kit_op_to(&kit, "Unheard", KIT_LIST(y), KIT_LIST(z));
    kit_infer(&kit);
    tn_cost cost = tn_op_cost(kit.graph, kit_at(&kit, y)->producer);
    assert_int_equal(cost.flops, 100);
    assert_int_equal(cost.bytes_moved, 1200);
    cost = tn_op_cost(kit.graph, unknown);
    assert_int_equal(cost.flops, TN_SIZE_UNKNOWN);
    assert_int_equal(cost.bytes_moved, 408);
    assert_int_equal(tn_op_workspace(kit.graph, unknown), 0);
    assert_int_equal(tn_op_inplace(kit.graph, unknown, 0), 0);
    assert_int_equal(tn_op_view(kit.graph, unknown, 0).source, TN_NONE);
    assert_int_equal(tn_op_view(kit.graph, unknown, 7).source, TN_NONE);
    kit_close(&kit);
}

/* What tn__graph_batch_input says of input [3, 8, 8] behind `step` and `made`. */
static bool is_single(const char *step, const char *made, int64_t axis, bool as_input) {
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(3, 8, 8)), found;
    tn_tensor_id mean = kit_constant(&kit, TN_FLOAT32, KIT_SHAPE(3, 1, 1), NULL, NULL);
    tn_tensor_id at = step != NULL ? kit_op(&kit, step, KIT_LIST(x, mean)) : x;
    bool single;
    const int64_t axes[] = {axis};
    if (!as_input) kit_attr_ints(&kit, "axes", 1, axes);
    if (as_input)
        (void)kit_op(&kit, made, KIT_LIST(at, kit_list(&kit, KIT_SHAPE(axis))));
    else
        (void)kit_op(&kit, made, KIT_LIST(at));
    kit_check(&kit, tn__graph_batch_input(kit.graph, &found, &single, &kit.error));
    assert_int_equal(found, x);
    kit_close(&kit);
    return single;
}

static void an_image_by_itself_is_no_batch_of_its_channels(void **state) {
    (void)state;
    assert_true(is_single(NULL, "Unsqueeze", 0, true));
    assert_true(is_single("Sub", "Unsqueeze", 0, true));
    assert_true(is_single("Sub", "Unsqueeze", -4, false));
    assert_false(is_single("Sub", "Unsqueeze", 1, true)); /* a batch of grey images */
    assert_false(is_single(NULL, "Relu", 0, true));
    assert_false(is_single("Gather", "Unsqueeze", 0, true)); /* other extents by then */
}

/* A Dropout draws random numbers if it is, or may be, in training mode and has no seed of its own:
 * then it is not run again, and keeps its place among others. */
static void a_dropout_that_draws_is_run_once_and_in_order(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(4, 5));
    tn_tensor_id share = kit_input(&kit, "share", TN_FLOAT32, 0, NULL);
    tn_tensor_id mode = kit_input(&kit, "mode", TN_BOOL, 0, NULL);
    int64_t no = 0, yes = 1;
    tn_tensor_id off = kit_constant(&kit, TN_BOOL, 0, NULL, &no, NULL);
    tn_tensor_id on = kit_constant(&kit, TN_BOOL, 0, NULL, &yes, NULL);
    const struct {
        tn_tensor_id mode;
        bool seeded, draws;
    } cases[] = {{mode, false, true}, {on, false, true}, {off, false, false}, {on, true, false}};
    for (size_t i = 0; i < 4; i++) {
        const tn_tensor_id inputs[3] = {x, share, cases[i].mode};
        if (cases[i].seeded) kit_attr_int(&kit, "seed", 7);
        tn_op_id op = kit_at(&kit, kit_op(&kit, "Dropout", 3, inputs))->producer;
        kit_infer(&kit);
        assert_int_equal(tn_op_may_repeat(kit.graph, op), !cases[i].draws);
        assert_int_equal(tn_op_is_ordered(kit.graph, op), cases[i].draws);
    }
    tn_op_id plain = kit_at(&kit, kit_op(&kit, "Dropout", 1, &x))->producer;
    kit_infer(&kit);
    assert_true(tn_op_may_repeat(kit.graph, plain) && !tn_op_is_ordered(kit.graph, plain));
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_image_by_itself_is_no_batch_of_its_channels),
        cmocka_unit_test(element_wise_operators_may_overwrite_what_has_their_size),
        cmocka_unit_test(equal_bounds_do_not_prove_equal_shapes),
        cmocka_unit_test(a_dropout_that_draws_is_run_once_and_in_order),
        cmocka_unit_test(operators_that_only_rename_are_views),
        cmocka_unit_test(a_part_of_packed_elements_is_a_view_only_at_a_whole_byte),
        cmocka_unit_test(parts_of_bounded_tensors_are_views_only_at_the_start),
        cmocka_unit_test(layouts_that_are_not_row_major_are_not_cut),
        cmocka_unit_test(cost_counts_operations_and_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
