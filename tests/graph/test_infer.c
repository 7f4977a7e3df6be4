/* The driver: rules and what the file states, folding, upper bounds, and the errors. */
#include "count.h"
#include "kit.h"

static void a_rule_fills_what_the_file_leaves_open(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2, 3));
    tn_tensor_id y =
        kit_tensor(&kit, "y", TN_KIND_OUTPUT, TN_FLOAT32, KIT_SHAPE(2, TN_DIM_UNKNOWN));
    kit_op_to(&kit, "Relu", KIT_LIST(x), KIT_LIST(y));
    kit_infer(&kit);
    kit_assert_shape(&kit, y, KIT_SHAPE(2, 3));
    assert_false(kit_at(&kit, y)->flags & TN_TENSOR_STATED);
    kit_close(&kit);
}

static void the_file_fills_what_no_rule_knows(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2, 3));
    tn_tensor_id y = kit_tensor(&kit, "y", TN_KIND_ACTIVATION, TN_INT8, KIT_SHAPE(5, 7));
    kit_op_to(&kit, "SomethingNew", KIT_LIST(x), KIT_LIST(y));
    tn_tensor_id z = kit_op(&kit, "Relu", KIT_LIST(y));
    kit_infer(&kit);
    assert_int_equal(kit_at(&kit, z)->bytes, 35);
    assert_true(kit_at(&kit, y)->flags & TN_TENSOR_STATED);
    assert_false(kit_at(&kit, z)->flags & TN_TENSOR_STATED);
    kit_close(&kit);
}

static void an_unknown_operator_without_a_stated_shape_is_named(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2, 3)), y;
    y = kit_open_tensor(&kit, "mystery");
    tn_op_spec spec = {.name = "node7",
                       .type = "Enigma",
                       .domain = "com.example",
                       .inputs = &x,
                       .outputs = &y,
                       .input_count = 1,
                       .output_count = 1};
    kit_check(&kit, tn_graph_add_op(kit.graph, &spec, NULL, &kit.error));
    kit_op(&kit, "Relu", KIT_LIST(y)); /* also unknown, but not the cause */
    kit_infer_fails(&kit, TN_E_UNKNOWN);
    assert_non_null(strstr(kit.error.where, "node7"));
    assert_non_null(strstr(kit.error.where, "Enigma"));
    assert_non_null(strstr(kit.error.message, "mystery"));
    assert_non_null(strstr(kit.error.message, "com.example.Enigma"));
    kit_close(&kit);
}

static void an_input_without_a_size_is_named(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "images", TN_FLOAT32, KIT_SHAPE(TN_DIM_UNKNOWN, 3));
    kit_op(&kit, "Relu", KIT_LIST(x));
    kit_infer_fails(&kit, TN_E_UNKNOWN);
    assert_non_null(strstr(kit.error.where, "images"));
    assert_non_null(strstr(kit.error.message, "[?,3]"));
    kit_close(&kit);
}

static void contradictions_name_both_sides(void **state) {
    (void)state;
    const struct {
        tn_dtype dtype;
        uint32_t rank;
        int64_t shape[3];
        const char *words[2];
    } cases[] = {{TN_FLOAT32, 2, {2, 4}, {"[2,3]", "[2,4]"}},
                 {TN_FLOAT32, 3, {2, 3, 1}, {"[2,3]", "[2,3,1]"}},
                 {TN_INT64, 2, {2, 3}, {"float32", "int64"}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_kit kit = kit_open();
        tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2, 3));
        tn_tensor_id y = kit_tensor(&kit, "why", TN_KIND_ACTIVATION, cases[i].dtype, cases[i].rank,
                                    cases[i].shape);
        kit_op_to(&kit, "Relu", KIT_LIST(x), KIT_LIST(y));
        kit_infer_fails(&kit, TN_E_INVALID);
        assert_non_null(strstr(kit.error.message, "why"));
        assert_non_null(strstr(kit.error.message, cases[i].words[0]));
        assert_non_null(strstr(kit.error.message, cases[i].words[1]));
        assert_non_null(strstr(kit.error.where, "Relu"));
        kit_close(&kit);
    }
}

static void sizes_that_overflow_are_errors_of_their_tensor(void **state) {
    (void)state;
    test_kit kit = kit_open();
    kit_input(&kit, "vast", TN_FLOAT32, KIT_SHAPE(INT64_MAX, INT64_MAX));
    kit_infer_fails(&kit, TN_E_INVALID);
    assert_non_null(strstr(kit.error.where, "vast"));
    kit_close(&kit);
    kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(INT64_C(1) << 40, 1));
    tn_tensor_id y = kit_input(&kit, "y", TN_FLOAT32, KIT_SHAPE(1, INT64_C(1) << 40));
    kit_op(&kit, "Mul", KIT_LIST(x, y));
    kit_infer_fails(&kit, TN_E_INVALID);
    assert_non_null(strstr(kit.error.where, "Mul"));
    kit_close(&kit);
}

static void wrong_numbers_of_operands_are_refused(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2));
    kit_op(&kit, "Add", KIT_LIST(x));
    kit_infer_fails(&kit, TN_E_INVALID);
    kit_close(&kit);
    kit = kit_open();
    x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2));
    kit_op(&kit, "Relu", KIT_LIST(x, x));
    kit_infer_fails(&kit, TN_E_INVALID);
    kit_close(&kit);
    kit = kit_open();
    x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2));
    kit_op(&kit, "Add", KIT_LIST(TN_NONE, x));
    kit_infer_fails(&kit, TN_E_INVALID);
    kit_close(&kit);
    kit = kit_open(); /* omitted at the end is not there */
    x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2));
    kit_op(&kit, "Relu", KIT_LIST(x, TN_NONE));
    kit_infer(&kit);
    kit_close(&kit);
}

static void what_depends_on_constants_alone_is_folded(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(100, 100));
    tn_tensor_id w = kit_tensor(&kit, "w", TN_KIND_PARAMETER, TN_FLOAT32, KIT_SHAPE(100, 100));
    tn_tensor_id moved = kit_op(&kit, "Transpose", KIT_LIST(w)); /* contents not known at all */
    tn_tensor_id both = kit_op(&kit, "Add", KIT_LIST(moved, w));
    tn_tensor_id mixed = kit_op(&kit, "Add", KIT_LIST(both, x));
    tn_tensor_id shape =
        kit_op(&kit, "Shape", KIT_LIST(mixed)); /* of what is computed at run time */
    tn_tensor_id zeros = kit_op(&kit, "ConstantOfShape", KIT_LIST(shape));
    tn_tensor_id unknown = kit_tensor(&kit, "u", TN_KIND_ACTIVATION, TN_FLOAT32, KIT_SHAPE(2));
    kit_op_to(&kit, "Unheard", KIT_LIST(w), KIT_LIST(unknown));
    kit_infer(&kit);
    const tn_tensor_id folded[] = {moved, both, shape, zeros}, computed[] = {mixed, unknown};
    for (size_t i = 0; i < 4; i++) {
        assert_true(kit_at(&kit, folded[i])->flags & TN_TENSOR_FOLDED);
        assert_int_equal(kit_at(&kit, folded[i])->kind, TN_KIND_CONSTANT);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_false(kit_at(&kit, computed[i])->flags & TN_TENSOR_FOLDED);
        assert_int_equal(kit_at(&kit, computed[i])->kind, TN_KIND_ACTIVATION);
    }
    assert_int_equal(kit_at(&kit, w)->kind, TN_KIND_PARAMETER);
    kit_close(&kit);
}

static void a_folded_output_stays_an_output(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id w = kit_tensor(&kit, "w", TN_KIND_PARAMETER, TN_FLOAT32, KIT_SHAPE(4));
    tn_tensor_id y = kit_tensor(&kit, "y", TN_KIND_OUTPUT, TN_UNDEFINED, 0, NULL);
    kit_op_to(&kit, "Relu", KIT_LIST(w), KIT_LIST(y));
    kit_infer(&kit);
    assert_int_equal(kit_at(&kit, y)->kind, TN_KIND_OUTPUT);
    assert_true(kit_at(&kit, y)->flags & TN_TENSOR_FOLDED);
    assert_true(kit_at(&kit, y)->flags & TN_TENSOR_IS_OUTPUT);
    kit_close(&kit);
}

static void inference_may_be_repeated_with_other_shapes(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(1, 1));
    tn_tensor_id shape = kit_op(&kit, "Shape", KIT_LIST(x));
    tn_tensor_id y = kit_op(&kit, "Expand", KIT_LIST(kit_scalar(&kit, 3), shape));
    for (int64_t n = 1; n < 100; n++) {
        int64_t extents[] = {n % 7, n};
        tn_tensor_spec spec = {.kind = TN_KIND_INPUT,
                               .dtype = n % 2 ? TN_FLOAT32 : TN_INT8,
                               .rank = 2,
                               .shape = extents};
        kit_check(&kit, tn_graph_set_tensor(kit.graph, x, &spec, &kit.error));
        kit_infer(&kit);
        kit_assert_shape(&kit, y, 2, extents);
        kit_assert_ints(&kit, shape, 2, extents);
        assert_int_equal(kit_at(&kit, y)->bytes, extents[0] * extents[1] * 8);
    }
    kit_close(&kit);
}

static void strings_have_a_size_only_where_they_are_static(void **state) {
    (void)state;
    test_kit kit = kit_open();
    kit_tensor(&kit, "words", TN_KIND_PARAMETER, TN_STRING, KIT_SHAPE(3));
    kit_infer(&kit);
    kit_input(&kit, "text", TN_STRING, KIT_SHAPE(3));
    kit_infer_fails(&kit, TN_E_UNKNOWN);
    assert_non_null(strstr(kit.error.where, "text"));
    kit_close(&kit);
}

/* The chain that exporters write for x.view(x.size(0), -1, 64). */
static void shape_arithmetic_reaches_reshape(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(4, 12, 768));
    tn_tensor_id shape = kit_op(&kit, "Shape", KIT_LIST(x));
    tn_tensor_id first = kit_op(&kit, "Gather", KIT_LIST(shape, kit_scalar(&kit, 0)));
    tn_tensor_id zero = kit_list(&kit, 1, (int64_t[]){0});
    tn_tensor_id row = kit_op(&kit, "Unsqueeze", KIT_LIST(first, zero));
    tn_tensor_id open = kit_list(&kit, 1, (int64_t[]){-1}),
                 last = kit_list(&kit, 1, (int64_t[]){64});
    kit_attr_int(&kit, "axis", 0);
    tn_tensor_id target = kit_op(&kit, "Concat", KIT_LIST(row, open, last));
    tn_tensor_id y = kit_op(&kit, "Reshape", KIT_LIST(x, target));
    kit_infer(&kit);
    kit_assert_ints(&kit, target, 3, (int64_t[]){4, -1, 64});
    kit_assert_shape(&kit, y, KIT_SHAPE(4, 144, 64));
    kit_close(&kit);
}

/* --- upper bounds --- */

static void data_dependent_sizes_are_marked_bounds(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(3, 4));
    tn_tensor_id where = kit_op(&kit, "NonZero", KIT_LIST(x));
    tn_tensor_id moved = kit_op(&kit, "Transpose", KIT_LIST(where));
    tn_tensor_id shape = kit_op(&kit, "Shape", KIT_LIST(moved));
    tn_tensor_id first = kit_op(&kit, "Gather", KIT_LIST(shape, kit_scalar(&kit, 0)));
    tn_tensor_id row =
        kit_op(&kit, "Unsqueeze", KIT_LIST(first, kit_list(&kit, 1, (int64_t[]){0})));
    tn_tensor_id zeros = kit_op(&kit, "ConstantOfShape", KIT_LIST(row));
    tn_tensor_id same = kit_op(&kit, "Equal", KIT_LIST(first, kit_scalar(&kit, 12)));
    kit_infer(&kit);
    kit_assert_shape(&kit, where, KIT_SHAPE(2, 12));
    assert_true(kit_at(&kit, where)->flags & TN_TENSOR_BOUND);
    assert_true(kit_at(&kit, moved)->flags & TN_TENSOR_BOUND);
    assert_false(kit_at(&kit, shape)->flags & (TN_TENSOR_BOUND | TN_TENSOR_FOLDED));
    assert_null(kit_at(&kit, shape)->value); /* a bound is not handed out as contents */
    kit_assert_shape(&kit, zeros, KIT_SHAPE(12));
    assert_true(kit_at(&kit, zeros)->flags & TN_TENSOR_BOUND);
    assert_false(kit_at(&kit, zeros)->flags & TN_TENSOR_FOLDED);
    assert_null(kit_at(&kit, same)->value);
    kit_close(&kit);
}

static void a_part_cut_by_data_is_at_most_the_whole(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(3, 4));
    tn_tensor_id from = kit_input(&kit, "from", TN_INT64, KIT_SHAPE(1));
    tn_tensor_id part = kit_op(&kit, "Slice", KIT_LIST(x, from, kit_list(&kit, 1, (int64_t[]){3})));
    kit_infer(&kit);
    kit_assert_shape(&kit, part, KIT_SHAPE(3, 4));
    assert_true(kit_at(&kit, part)->flags & TN_TENSOR_BOUND);
    kit_close(&kit);
}

static void a_stated_shape_replaces_a_bound(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(3, 4));
    tn_tensor_id where = kit_tensor(&kit, "w", TN_KIND_OUTPUT, TN_INT64, KIT_SHAPE(2, 5));
    kit_op_to(&kit, "NonZero", KIT_LIST(x), KIT_LIST(where));
    kit_infer(&kit);
    kit_assert_shape(&kit, where, KIT_SHAPE(2, 5));
    assert_false(kit_at(&kit, where)->flags & TN_TENSOR_BOUND);
    kit_close(&kit);
}

static void a_stated_bound_stays_a_bound(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(3, 4)), outputs[2];
    int64_t shape[] = {2, 12};
    tn_tensor_spec spec = {
        .name = "w", .dtype = TN_INT64, .rank = 2, .shape = shape, .flags = TN_TENSOR_BOUND};
    for (int i = 0; i < 2; i++) {
        kit_check(&kit, tn_graph_add_tensor(kit.graph, &spec, &outputs[i], &kit.error));
        kit_op_to(&kit, i ? "Unheard" : "NonZero", KIT_LIST(x), 1, &outputs[i]);
    }
    kit_infer(&kit);
    for (int i = 0; i < 2; i++) assert_true(kit_at(&kit, outputs[i])->flags & TN_TENSOR_BOUND);
    kit_close(&kit);
}

/* One random pipeline of shape arithmetic that hangs on NonZero(mask). */
enum { PIPE_STEPS = 14, PIPE_RESULTS = 3 * PIPE_STEPS };

static tn_tensor_id pipe_number(test_kit *kit, tn__random *random, tn_tensor_id a, tn_tensor_id b) {
    static const char *const types[] = {
        "Add",  "Sub", "Mul",   "Div",  "Min",     "Max",         "Mod",
        "Sub",  "Neg", "Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual",
        "Where"};
    uint64_t which = tn__random_below(random, 15);
    if (which < 8) return kit_op(kit, types[which], KIT_LIST(a, b));
    if (which == 8) return kit_op(kit, "Neg", KIT_LIST(a));
    if (which == 14) {
        tn_tensor_id less = kit_op(kit, "Less", KIT_LIST(a, b));
        return kit_op(kit, "Where", KIT_LIST(less, b, a));
    }
    tn_tensor_id truth = kit_op(kit, types[which], KIT_LIST(a, b));
    kit_attr_int(kit, "to", TN_INT64);
    return kit_op(kit, "Cast", KIT_LIST(truth));
}

/* A tensor whose extents depend on `row`, a list of one size between 0 and 50. */
static tn_tensor_id pipe_tensor(test_kit *kit, tn__random *random, tn_tensor_id row,
                                tn_tensor_id size, tn_tensor_id where) {
    tn_tensor_id zeros = kit_list(kit, 1, (int64_t[]){0}), ones = kit_list(kit, 1, (int64_t[]){1});
    tn_tensor_id far = kit_list(kit, 1, (int64_t[]){100}), back = kit_list(kit, 1, (int64_t[]){-1});
    tn_tensor_id three = kit_list(kit, 1, (int64_t[]){3}), both;
    switch (tn__random_below(random, 9)) {
    case 0:
        return kit_op(kit, "ConstantOfShape", KIT_LIST(row));
    case 1:
        return kit_op(kit, "Range", KIT_LIST(kit_scalar(kit, 0), size, kit_scalar(kit, 1)));
    case 2:
        return kit_op(kit, "Expand", KIT_LIST(kit_scalar(kit, 1), row));
    case 3:
        return kit_op(kit, "Slice", KIT_LIST(where, zeros, row, ones));
    case 4:
        return kit_op(kit, "Slice", KIT_LIST(where, row, far, ones));
    case 5:
        both = kit_op(kit, "Range",
                      KIT_LIST(kit_scalar(kit, 0), kit_scalar(kit, 60), kit_scalar(kit, 1)));
        return kit_op(kit, "Slice", KIT_LIST(both, far, row, zeros, back));
    case 6:
        return kit_op(kit, "Range", KIT_LIST(size, kit_scalar(kit, 60), kit_scalar(kit, 3)));
    case 7:
        kit_attr_int(kit, "axis", 0);
        both = kit_op(kit, "Concat", KIT_LIST(row, three));
        return kit_op(kit, "ConstantOfShape", KIT_LIST(both));
    default:
        return kit_op(kit, "Tile", KIT_LIST(kit_list(kit, 2, (int64_t[]){5, 6}), row));
    }
}

static void pipe_build(test_kit *kit, uint64_t seed, tn_tensor_id mask, tn_tensor_id *results) {
    tn_tensor_id numbers[PIPE_STEPS];
    tn__random random = {seed};
    tn_tensor_id axis = kit_list(kit, 1, (int64_t[]){0});
    tn_tensor_id where = kit_op(kit, "NonZero", KIT_LIST(mask));
    tn_tensor_id shape = kit_op(kit, "Shape", KIT_LIST(where));
    numbers[0] = kit_op(kit, "Gather", KIT_LIST(shape, kit_scalar(kit, 1)));
    numbers[1] = kit_op(kit, "Gather", KIT_LIST(shape, kit_scalar(kit, 0)));
    for (uint32_t i = 2; i < PIPE_STEPS; i++) {
        tn_tensor_id a = numbers[tn__random_below(&random, i)], b;
        b = tn__random_below(&random, 2)
                ? numbers[tn__random_below(&random, i)]
                : kit_scalar(kit, (int64_t)tn__random_below(&random, 9) - 2);
        bool swap = tn__random_below(&random, 2);
        numbers[i] = pipe_number(kit, &random, swap ? b : a, swap ? a : b);
    }
    for (uint32_t i = 0; i < PIPE_STEPS; i++) {
        tn_tensor_id size =
            kit_op(kit, "Clip", KIT_LIST(numbers[i], kit_scalar(kit, 0), kit_scalar(kit, 50)));
        tn_tensor_id row = kit_op(kit, "Unsqueeze", KIT_LIST(size, axis));
        tn_tensor_id made = pipe_tensor(kit, &random, row, size, where);
        kit_attr_int(kit, "axis", -1);
        tn_tensor_id twice = kit_op(kit, "Concat", KIT_LIST(made, made));
        results[3 * i] = made;
        results[3 * i + 1] = twice;
        kit_attr_int(kit, "axis", 0);
        results[3 * i + 2] = kit_op(kit, "Flatten", KIT_LIST(twice));
    }
}

static void exact_extents_survive_beside_bounds(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(100, 7));
    tn_tensor_id keep = kit_input(&kit, "keep", TN_BOOL, KIT_SHAPE(100));
    tn_tensor_id w = kit_tensor(&kit, "w", TN_KIND_PARAMETER, TN_FLOAT32, KIT_SHAPE(7, 4));
    kit_attr_int(&kit, "axis", 0);
    tn_tensor_id some = kit_op(&kit, "Compress", KIT_LIST(x, keep));
    tn_tensor_id boxes = kit_op(&kit, "MatMul", KIT_LIST(some, w));
    tn_tensor_id shape = kit_op(&kit, "Shape", KIT_LIST(boxes));
    tn_tensor_id width = kit_op(&kit, "Gather", KIT_LIST(shape, kit_scalar(&kit, 1)));
    tn_tensor_id height = kit_op(&kit, "Gather", KIT_LIST(shape, kit_scalar(&kit, 0)));
    tn_tensor_id four = kit_op(&kit, "Equal", KIT_LIST(width, kit_scalar(&kit, 4)));
    tn_tensor_id odd = kit_op(&kit, "Equal", KIT_LIST(shape, kit_scalar(&kit, -1)));
    tn_tensor_id full = kit_op(&kit, "Equal", KIT_LIST(height, kit_scalar(&kit, 100)));
    kit_infer(&kit);
    kit_assert_shape(&kit, boxes, KIT_SHAPE(100, 4));
    assert_true(kit_at(&kit, boxes)->flags & TN_TENSOR_BOUND);
    kit_assert_ints(&kit, width, 1, (int64_t[]){4});
    kit_assert_ints(&kit, four, 1, (int64_t[]){1});
    kit_assert_ints(&kit, odd, 2, (int64_t[]){0, 0}); /* no extent is -1, whatever the data */
    assert_null(kit_at(&kit, height)->value);
    assert_null(kit_at(&kit, full)->value);
    kit_close(&kit);
}

/* The same graph with the mask unknown and with a mask that is a constant: what is inferred without
 * the mask must hold for each mask, as an equality or, where marked, as an upper bound. */
static void bounds_hold_for_every_content(void **state) {
    (void)state;
    uint32_t known = 0, bounds = 0, exact_beside = 0;
    for (uint64_t seed = 1; seed <= case_count(400, 40); seed++) {
        tn__random random = {seed * 31};
        test_kit open = kit_open();
        tn_tensor_id results[PIPE_RESULTS];
        tn_tensor_id mask = kit_input(&open, "mask", TN_BOOL, KIT_SHAPE(8));
        pipe_build(&open, seed, mask, results);
        tn_status status = tn_graph_infer(open.graph, &open.error);
        if (status != TN_OK && status != TN_E_UNKNOWN)
            fail_msg("seed %llu: %s: %s", (unsigned long long)seed, open.error.where,
                     open.error.message);
        for (uint32_t ones = 0; ones <= 8; ones += 1 + (uint32_t)tn__random_below(&random, 3)) {
            test_kit exact = kit_open();
            int64_t eight = 8, bits[8];
            tn_tensor_id same_results[PIPE_RESULTS];
            for (uint32_t i = 0; i < 8; i++) bits[i] = i < ones;
            mask = kit_constant(&exact, TN_BOOL, 1, &eight, bits, NULL);
            pipe_build(&exact, seed, mask, same_results);
            status = tn_graph_infer(exact.graph, &exact.error);
            assert_true(status == TN_OK || status == TN_E_UNKNOWN);
            for (uint32_t i = 0; i < PIPE_RESULTS; i++) {
                const tn_tensor *a = kit_at(&open, results[i]);
                const tn_tensor *b = kit_at(&exact, same_results[i]);
                if (a->bytes == TN_SIZE_UNKNOWN || b->bytes == TN_SIZE_UNKNOWN) continue;
                if (b->flags & TN_TENSOR_BOUND) continue; /* after a division by zero */
                bool bound = a->flags & TN_TENSOR_BOUND;
                known++;
                bounds += bound;
                exact_beside += !bound;
                if (bound ? a->bytes < b->bytes : a->bytes != b->bytes)
                    fail_msg("seed %llu: result %u (%s) is said to be %s %llu bytes, but is %llu",
                             (unsigned long long)seed, i, a->name, bound ? "at most" : "exactly",
                             (unsigned long long)a->bytes, (unsigned long long)b->bytes);
            }
            kit_close(&exact);
        }
        kit_close(&open);
    }
    assert_true(known > 5000 && bounds > 1000 && exact_beside > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rule_fills_what_the_file_leaves_open),
        cmocka_unit_test(the_file_fills_what_no_rule_knows),
        cmocka_unit_test(an_unknown_operator_without_a_stated_shape_is_named),
        cmocka_unit_test(an_input_without_a_size_is_named),
        cmocka_unit_test(contradictions_name_both_sides),
        cmocka_unit_test(sizes_that_overflow_are_errors_of_their_tensor),
        cmocka_unit_test(wrong_numbers_of_operands_are_refused),
        cmocka_unit_test(what_depends_on_constants_alone_is_folded),
        cmocka_unit_test(a_folded_output_stays_an_output),
        cmocka_unit_test(inference_may_be_repeated_with_other_shapes),
        cmocka_unit_test(strings_have_a_size_only_where_they_are_static),
        cmocka_unit_test(shape_arithmetic_reaches_reshape),
        cmocka_unit_test(data_dependent_sizes_are_marked_bounds),
        cmocka_unit_test(a_part_cut_by_data_is_at_most_the_whole),
        cmocka_unit_test(a_stated_shape_replaces_a_bound),
        cmocka_unit_test(a_stated_bound_stays_a_bound),
        cmocka_unit_test(exact_extents_survive_beside_bounds),
        cmocka_unit_test(bounds_hold_for_every_content),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
