/* If, Loop, Scan and sequences: what crosses the border of a block. */
#include "kit.h"

/* --- If --- */

typedef struct branches {
    test_kit kit;
    tn_tensor_id x, out;
    tn_block_id yes, no;
} branches;

/* If with `condition`; then: x as it is, else: Reshape of x to `shape`. */
static branches branches_open(bool known, bool condition, size_t rank, const int64_t *shape) {
    branches b = {.kit = kit_open()};
    int64_t truth = condition;
    b.x = kit_input(&b.kit, "x", TN_FLOAT32, KIT_SHAPE(2, 6));
    tn_tensor_id flag = known ? kit_constant(&b.kit, TN_BOOL, 0, NULL, &truth, NULL)
                              : kit_input(&b.kit, "flag", TN_BOOL, 0, NULL);
    b.out = kit_open_tensor(&b.kit, "out");
    b.yes = kit_block(&b.kit, "yes");
    b.no = kit_block(&b.kit, "no");
    tn_tensor_id results[2];
    b.kit.block = b.yes;
    results[0] = kit_op(&b.kit, "Relu", KIT_LIST(b.x));
    b.kit.block = b.no;
    results[1] = kit_op(&b.kit, "Reshape", KIT_LIST(b.x, kit_list(&b.kit, rank, shape)));
    b.kit.block = 0;
    kit_block_io(&b.kit, b.yes, 0, NULL, 1, &results[0]);
    kit_block_io(&b.kit, b.no, 0, NULL, 1, &results[1]);
    kit_attr_block(&b.kit, "then_branch", b.yes);
    kit_attr_block(&b.kit, "else_branch", b.no);
    kit_op_to(&b.kit, "If", KIT_LIST(flag), KIT_LIST(b.out));
    return b;
}

static void a_known_condition_takes_one_branch(void **state) {
    (void)state;
    branches b = branches_open(true, true, KIT_SHAPE(12));
    kit_infer(&b.kit);
    kit_assert_shape(&b.kit, b.out, KIT_SHAPE(2, 6));
    assert_true(tn_graph_block(b.kit.graph, b.no)->dead);
    assert_false(tn_graph_block(b.kit.graph, b.yes)->dead);
    kit_close(&b.kit);
    b = branches_open(true, false, KIT_SHAPE(12));
    kit_infer(&b.kit);
    kit_assert_shape(&b.kit, b.out, KIT_SHAPE(12));
    assert_true(tn_graph_block(b.kit.graph, b.yes)->dead);
    kit_close(&b.kit);
}

static void a_branch_never_taken_may_be_wrong(void **state) {
    (void)state;
    branches b = branches_open(true, true, KIT_SHAPE(5)); /* 12 elements do not reshape to 5 */
    kit_infer(&b.kit);
    kit_assert_shape(&b.kit, b.out, KIT_SHAPE(2, 6));
    kit_infer(&b.kit); /* again: nothing is left over */
    kit_close(&b.kit);
    b = branches_open(false, true, KIT_SHAPE(5)); /* whoever takes it gets an error */
    kit_infer(&b.kit);
    kit_assert_shape(&b.kit, b.out, KIT_SHAPE(2, 6));
    assert_true(tn_graph_block(b.kit.graph, b.no)->dead);
    kit_close(&b.kit);
    b = branches_open(true, false, KIT_SHAPE(5));
    kit_infer_fails(&b.kit, TN_E_INVALID);
    kit_close(&b.kit);
}

static void an_if_whose_branches_both_fail_fails_as_the_last_one(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2, 6));
    tn_tensor_id flag = kit_input(&kit, "flag", TN_BOOL, 0, NULL);
    tn_tensor_id out = kit_open_tensor(&kit, "out");
    tn_block_id blocks[2] = {kit_block(&kit, "yes"), kit_block(&kit, "no")};
    for (int64_t i = 0; i < 2; i++) {
        kit.block = blocks[i];
        int64_t five = 5 + i;
        tn_tensor_id bad = kit_op(&kit, "Reshape", KIT_LIST(x, kit_list(&kit, 1, &five)));
        kit_block_io(&kit, blocks[i], 0, NULL, KIT_LIST(bad));
    }
    kit.block = 0;
    kit_attr_block(&kit, "then_branch", blocks[0]);
    kit_attr_block(&kit, "else_branch", blocks[1]);
    kit_op_to(&kit, "If", KIT_LIST(flag), KIT_LIST(out));
    kit_infer_fails(&kit, TN_E_INVALID);
    assert_non_null(strstr(kit.error.where, "Reshape"));
    assert_non_null(strstr(kit.error.message, "room for"));
    kit_close(&kit);
}

static void branches_that_differ_give_an_upper_bound(void **state) {
    (void)state;
    branches b = branches_open(false, true, KIT_SHAPE(2, 6));
    kit_infer(&b.kit);
    kit_assert_shape(&b.kit, b.out, KIT_SHAPE(2, 6));
    assert_false(kit_at(&b.kit, b.out)->flags & TN_TENSOR_BOUND);
    kit_close(&b.kit);
    b = branches_open(false, true, KIT_SHAPE(3, 4));
    kit_infer(&b.kit);
    kit_assert_shape(&b.kit, b.out, KIT_SHAPE(3, 6));
    assert_true(kit_at(&b.kit, b.out)->flags & TN_TENSOR_BOUND);
    kit_close(&b.kit);
    b = branches_open(false, true, KIT_SHAPE(12)); /* ranks differ: nothing covers both */
    kit_infer_fails(&b.kit, TN_E_UNKNOWN);
    kit_close(&b.kit);
}

static void a_dead_branch_kills_what_is_nested_in_it(void **state) {
    (void)state;
    test_kit kit = kit_open();
    int64_t no = 0;
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2, 6));
    tn_tensor_id flag = kit_input(&kit, "flag", TN_BOOL, 0, NULL);
    tn_tensor_id never = kit_constant(&kit, TN_BOOL, 0, NULL, &no, NULL);
    tn_tensor_id out = kit_open_tensor(&kit, "out");
    tn_block_id outer[2] = {kit_block(&kit, "outer yes"), kit_block(&kit, "outer no")};
    tn_block_id inner[2] = {kit_block(&kit, "inner yes"), kit_block(&kit, "inner no")};
    tn_tensor_id results[2];
    for (uint32_t i = 0; i < 2; i++) {
        kit.block = inner[i];
        tn_tensor_id odd = kit_op(&kit, "NoSuchThing", KIT_LIST(x)); /* of unknown size */
        kit_block_io(&kit, inner[i], 0, NULL, KIT_LIST(odd));
    }
    kit.block = outer[0];
    results[0] = kit_open_tensor(&kit, "inner out");
    kit_attr_block(&kit, "then_branch", inner[0]);
    kit_attr_block(&kit, "else_branch", inner[1]);
    kit_op_to(&kit, "If", KIT_LIST(flag), 1, &results[0]);
    kit.block = outer[1];
    results[1] = kit_op(&kit, "Relu", KIT_LIST(x));
    kit.block = 0;
    for (uint32_t i = 0; i < 2; i++) kit_block_io(&kit, outer[i], 0, NULL, 1, &results[i]);
    kit_attr_block(&kit, "then_branch", outer[0]);
    kit_attr_block(&kit, "else_branch", outer[1]);
    kit_op_to(&kit, "If", KIT_LIST(never), KIT_LIST(out));
    kit_infer(&kit);
    kit_assert_shape(&kit, out, KIT_SHAPE(2, 6));
    for (uint32_t i = 0; i < 2; i++) assert_true(tn_graph_block(kit.graph, inner[i])->dead);
    kit_close(&kit);
}

/* An inner If with a known condition takes a branch that fails: the fault is the outer branch's,
 * which is left out, and not that of the inner branch that waits to be looked at. */
static void a_fault_is_caught_by_the_branch_around_it(void **state) {
    (void)state;
    test_kit kit = kit_open();
    int64_t yes = 1, five = 5;
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2, 6));
    tn_tensor_id flag = kit_input(&kit, "flag", TN_BOOL, 0, NULL);
    tn_tensor_id always = kit_constant(&kit, TN_BOOL, 0, NULL, &yes, NULL);
    tn_tensor_id out = kit_open_tensor(&kit, "out"), results[2], inner_results[2];
    tn_block_id outer[2] = {kit_block(&kit, "outer yes"), kit_block(&kit, "outer no")};
    tn_block_id inner[2] = {kit_block(&kit, "inner yes"), kit_block(&kit, "inner no")};
    kit.block = inner[0];
    inner_results[0] = kit_op(&kit, "Reshape", KIT_LIST(x, kit_list(&kit, 1, &five)));
    kit.block = inner[1];
    inner_results[1] = kit_op(&kit, "Relu", KIT_LIST(x));
    kit.block = outer[0];
    results[0] = kit_open_tensor(&kit, "inner out");
    for (uint32_t i = 0; i < 2; i++) kit_block_io(&kit, inner[i], 0, NULL, 1, &inner_results[i]);
    kit_attr_block(&kit, "then_branch", inner[0]);
    kit_attr_block(&kit, "else_branch", inner[1]);
    kit_op_to(&kit, "If", KIT_LIST(always), 1, &results[0]);
    kit.block = outer[1];
    results[1] = kit_op(&kit, "Flatten", KIT_LIST(x));
    kit.block = 0;
    for (uint32_t i = 0; i < 2; i++) kit_block_io(&kit, outer[i], 0, NULL, 1, &results[i]);
    kit_attr_block(&kit, "then_branch", outer[0]);
    kit_attr_block(&kit, "else_branch", outer[1]);
    kit_op_to(&kit, "If", KIT_LIST(flag), KIT_LIST(out));
    kit_infer(&kit);
    assert_true(tn_graph_block(kit.graph, outer[0])->dead);
    assert_true(tn_graph_block(kit.graph, inner[0])->dead);
    assert_false(tn_graph_block(kit.graph, outer[1])->dead);
    kit_assert_shape(&kit, out, KIT_SHAPE(2, 6));
    kit_close(&kit);
}

static void a_constant_from_the_taken_branch_is_folded(void **state) {
    (void)state;
    test_kit kit = kit_open();
    int64_t yes = 1;
    tn_tensor_id flag = kit_constant(&kit, TN_BOOL, 0, NULL, &yes, NULL);
    tn_tensor_id out = kit_open_tensor(&kit, "out");
    tn_block_id blocks[2] = {kit_block(&kit, "yes"), kit_block(&kit, "no")};
    for (uint32_t i = 0; i < 2; i++) {
        kit.block = blocks[i];
        tn_tensor_id number = kit_scalar(&kit, 40 + i);
        tn_tensor_id more = kit_op(&kit, "Add", KIT_LIST(number, number));
        kit_block_io(&kit, blocks[i], 0, NULL, KIT_LIST(more));
    }
    kit.block = 0;
    kit_attr_block(&kit, "then_branch", blocks[0]);
    kit_attr_block(&kit, "else_branch", blocks[1]);
    kit_op_to(&kit, "If", KIT_LIST(flag), KIT_LIST(out));
    kit_infer(&kit);
    kit_assert_ints(&kit, out, 1, (int64_t[]){80});
    assert_true(kit_at(&kit, out)->flags & TN_TENSOR_FOLDED);
    kit_close(&kit);
}

/* --- Loop --- */

typedef struct loop {
    test_kit kit;
    tn_tensor_id final, collected;
    tn_tensor_id carried; /* the formal */
} loop;

typedef enum stopping { STOP_NEVER, STOP_AT_ONCE, STOP_BY_DATA, STOP_NOT_ASKED } stopping;

/* A loop that carries x [2, 3] and collects it; `grows`: the body appends x to what it carries. */
static loop loop_open(int64_t trips, bool trips_known, stopping stop, bool grows) {
    loop l = {.kit = kit_open()};
    int64_t yes = 1, no = 0;
    test_kit *kit = &l.kit;
    tn_tensor_id x = kit_input(kit, "x", TN_FLOAT32, KIT_SHAPE(2, 3));
    tn_tensor_id count =
        trips_known ? kit_scalar(kit, trips) : kit_input(kit, "trips", TN_INT64, 0, NULL);
    tn_tensor_id flag =
        stop == STOP_NOT_ASKED ? TN_NONE : kit_constant(kit, TN_BOOL, 0, NULL, &yes, NULL);
    l.final = kit_open_tensor(kit, "final");
    l.collected = kit_open_tensor(kit, "collected");
    tn_block_id body = kit_block(kit, "body");
    kit->block = body;
    tn_tensor_id formals[3] = {kit_open_tensor(kit, "i"), kit_open_tensor(kit, "go"),
                               kit_open_tensor(kit, "carried")};
    tn_tensor_id results[3];
    l.carried = formals[2];
    kit_attr_int(kit, "axis", 0);
    results[1] = grows ? kit_op(kit, "Concat", KIT_LIST(formals[2], x))
                       : (kit->attr_count = 0, kit_op(kit, "Relu", KIT_LIST(formals[2])));
    results[2] = kit_op(kit, "Tanh", KIT_LIST(x));
    tn_tensor_id by_data = kit_op(kit, "Less", KIT_LIST(formals[0], kit_scalar(kit, 9)));
    results[0] = stop == STOP_AT_ONCE   ? kit_constant(kit, TN_BOOL, 0, NULL, &no, NULL)
                 : stop == STOP_BY_DATA ? by_data
                                        : kit_op(kit, "Identity", KIT_LIST(formals[1]));
    kit->block = 0;
    kit_block_io(kit, body, 3, formals, 3, results);
    kit_attr_block(kit, "body", body);
    kit_op_to(kit, "Loop", KIT_LIST(count, flag, x), KIT_LIST(l.final, l.collected));
    return l;
}

static void a_loop_collects_as_many_as_it_runs(void **state) {
    (void)state;
    const struct {
        stopping stop;
        int64_t trips, extent;
        bool bound;
    } cases[] = {{STOP_NEVER, 7, 7, false},  {STOP_NOT_ASKED, 7, 7, false},
                 {STOP_BY_DATA, 7, 7, true}, {STOP_AT_ONCE, 7, 1, false},
                 {STOP_NEVER, 0, 0, false},  {STOP_NEVER, -3, 0, false},
                 {STOP_AT_ONCE, 0, 0, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        loop l = loop_open(cases[i].trips, true, cases[i].stop, false);
        kit_infer(&l.kit);
        kit_assert_shape(&l.kit, l.final, KIT_SHAPE(2, 3));
        kit_assert_shape(&l.kit, l.collected, KIT_SHAPE(cases[i].extent, 2, 3));
        assert_int_equal(!!(kit_at(&l.kit, l.collected)->flags & TN_TENSOR_BOUND), cases[i].bound);
        kit_assert_shape(&l.kit, l.carried, KIT_SHAPE(2, 3));
        assert_int_equal(kit_at(&l.kit, l.carried)->bytes, 24);
        kit_close(&l.kit);
    }
}

static void a_loop_without_an_end_has_no_size(void **state) {
    (void)state;
    loop l = loop_open(0, false, STOP_NEVER, false);
    kit_infer_fails(&l.kit, TN_E_UNKNOWN);
    kit_assert_shape(&l.kit, l.collected, KIT_SHAPE(TN_DIM_UNKNOWN, 2, 3));
    kit_close(&l.kit);
    l = loop_open(INT64_MAX, true, STOP_BY_DATA, false); /* as exporters write while loops */
    kit_infer_fails(&l.kit, TN_E_UNKNOWN);
    kit_close(&l.kit);
}

static void a_carried_shape_that_grows_is_known_from_the_trips(void **state) {
    (void)state;
    for (int64_t trips = 0; trips < 6; trips++) { /* [2, 3] grows by 2 rows each time */
        loop l = loop_open(trips, true, STOP_NEVER, true);
        kit_infer(&l.kit);
        kit_assert_shape(&l.kit, l.final, KIT_SHAPE(2 + 2 * trips, 3));
        assert_false(kit_at(&l.kit, l.final)->flags & TN_TENSOR_BOUND);
        kit_assert_shape(&l.kit, l.carried, KIT_SHAPE(trips ? 2 * trips : 2, 3));
        assert_int_equal(!!(kit_at(&l.kit, l.carried)->flags & TN_TENSOR_BOUND), trips > 1);
        kit_close(&l.kit);
    }
    loop l = loop_open(7, true, STOP_BY_DATA, true); /* it may stop earlier */
    kit_infer(&l.kit);
    kit_assert_shape(&l.kit, l.final, KIT_SHAPE(16, 3));
    assert_true(kit_at(&l.kit, l.final)->flags & TN_TENSOR_BOUND);
    kit_close(&l.kit);
    l = loop_open(7, false, STOP_NEVER, true);
    kit_infer_fails(&l.kit, TN_E_UNKNOWN);
    kit_assert_shape(&l.kit, l.carried, KIT_SHAPE(TN_DIM_UNKNOWN, 3));
    kit_close(&l.kit);
}

/* A body that doubles what it carries does not grow evenly; nor does one that appends all before.
 */
static void a_carried_shape_that_grows_unevenly_is_not_known(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2, 3));
    tn_tensor_id final = kit_open_tensor(&kit, "final");
    tn_block_id body = kit_block(&kit, "body");
    kit.block = body;
    tn_tensor_id formals[3] = {kit_open_tensor(&kit, "i"), kit_open_tensor(&kit, "go"),
                               kit_open_tensor(&kit, "carried")};
    tn_tensor_id results[2] = {kit_op(&kit, "Identity", KIT_LIST(formals[1])), 0};
    kit_attr_int(&kit, "axis", 0);
    results[1] = kit_op(&kit, "Concat", KIT_LIST(formals[2], formals[2]));
    kit.block = 0;
    kit_block_io(&kit, body, 3, formals, 2, results);
    kit_attr_block(&kit, "body", body);
    kit_op_to(&kit, "Loop", KIT_LIST(kit_scalar(&kit, 5), TN_NONE, x), KIT_LIST(final));
    kit_infer_fails(&kit, TN_E_UNKNOWN);
    kit_assert_shape(&kit, formals[2], KIT_SHAPE(TN_DIM_UNKNOWN, 3));
    kit_close(&kit);
}

/* What exporters write for a list that is appended to and stacked. */
static void a_carried_sequence_grows_by_what_is_inserted(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(5, 4));
    tn_tensor_id none = kit_op(&kit, "SequenceEmpty", 0, NULL);
    tn_tensor_id final = kit_open_tensor(&kit, "final");
    tn_block_id body = kit_block(&kit, "body");
    kit.block = body;
    tn_tensor_id formals[3] = {kit_open_tensor(&kit, "i"), kit_open_tensor(&kit, "go"), 0};
    tn_tensor_spec list = {.name = "carried",
                           .dtype = TN_FLOAT32,
                           .rank = 1,
                           .block = body,
                           .flags = TN_TENSOR_SEQUENCE}; /* of unknown extents, as exported */
    kit_check(&kit, tn_graph_add_tensor(kit.graph, &list, &formals[2], &kit.error));
    tn_tensor_id row = kit_op(&kit, "Gather", KIT_LIST(x, formals[0]));
    tn_tensor_id results[2] = {kit_op(&kit, "Identity", KIT_LIST(formals[1])), 0};
    results[1] = kit_op(&kit, "SequenceInsert", KIT_LIST(formals[2], row));
    kit.block = 0;
    kit_block_io(&kit, body, 3, formals, 2, results);
    kit_attr_block(&kit, "body", body);
    kit_op_to(&kit, "Loop", KIT_LIST(kit_scalar(&kit, 5), TN_NONE, none), KIT_LIST(final));
    kit_attr_int(&kit, "new_axis", 1);
    kit_attr_int(&kit, "axis", 0);
    tn_tensor_id stack = kit_op(&kit, "ConcatFromSequence", KIT_LIST(final));
    kit_infer(&kit);
    assert_int_equal(kit_at(&kit, final)->repeat, 5);
    assert_int_equal(kit_at(&kit, final)->bytes, 5 * 16);
    kit_assert_shape(&kit, stack, KIT_SHAPE(5, 4));
    kit_close(&kit);
}

static void loops_nested_deeply_end(void **state) {
    (void)state;
    enum { DEPTH = 60 };
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(2, 3)), carried = x;
    tn_tensor_id counts[DEPTH], flags[DEPTH], formals[DEPTH][3], finals[DEPTH], starts[DEPTH];
    tn_block_id bodies[DEPTH];
    for (uint32_t d = 0; d < DEPTH; d++) { /* every level carries on what the one inside appends */
        int64_t yes = 1;
        counts[d] = kit_scalar(&kit, 2);
        flags[d] = kit_constant(&kit, TN_BOOL, 0, NULL, &yes, NULL);
        starts[d] = carried;
        finals[d] = kit_open_tensor(&kit, "final");
        bodies[d] = kit_block(&kit, "body");
        kit.block = bodies[d];
        for (uint32_t k = 0; k < 3; k++) formals[d][k] = kit_open_tensor(&kit, "formal");
        carried = formals[d][2];
    }
    kit_attr_int(&kit, "axis", 0);
    tn_tensor_id result = kit_op(&kit, "Concat", KIT_LIST(carried, x));
    for (uint32_t d = DEPTH; d-- > 0;) {
        kit.block = bodies[d];
        tn_tensor_id go = kit_op(&kit, "Identity", KIT_LIST(formals[d][1]));
        kit_block_io(&kit, bodies[d], 3, formals[d], KIT_LIST(go, result));
        kit.block = d ? bodies[d - 1] : 0;
        kit_attr_block(&kit, "body", bodies[d]);
        kit_op_to(&kit, "Loop", KIT_LIST(counts[d], flags[d], starts[d]), KIT_LIST(finals[d]));
        result = finals[d];
    }
    tn_status status = tn_graph_infer(kit.graph, &kit.error);
    assert_true(status == TN_E_UNKNOWN || status == TN_E_UNSUPPORTED);
    kit_close(&kit);
}

/* --- Scan --- */

static void a_scan_walks_along_its_axis(void **state) {
    (void)state;
    for (int64_t axis = -2; axis < 2; axis++) {
        test_kit kit = kit_open();
        tn_tensor_id sum = kit_input(&kit, "sum", TN_FLOAT32, KIT_SHAPE(4));
        tn_tensor_id rows = axis == 0 || axis == -2
                                ? kit_input(&kit, "rows", TN_FLOAT32, KIT_SHAPE(9, 4))
                                : kit_input(&kit, "rows", TN_FLOAT32, KIT_SHAPE(4, 9));
        tn_tensor_id final = kit_open_tensor(&kit, "final"), all = kit_open_tensor(&kit, "all");
        tn_block_id body = kit_block(&kit, "body");
        kit.block = body;
        tn_tensor_id a = kit_open_tensor(&kit, "a"), b = kit_open_tensor(&kit, "b");
        tn_tensor_id next = kit_op(&kit, "Add", KIT_LIST(a, b));
        tn_tensor_id each = kit_op(&kit, "Identity", KIT_LIST(next));
        kit.block = 0;
        kit_block_io(&kit, body, KIT_LIST(a, b), KIT_LIST(next, each));
        int64_t out_axis = 1;
        kit_attr_block(&kit, "body", body);
        kit_attr_int(&kit, "num_scan_inputs", 1);
        kit_attr_ints(&kit, "scan_input_axes", 1, &axis);
        kit_attr_ints(&kit, "scan_output_axes", 1, &out_axis);
        kit_op_to(&kit, "Scan", KIT_LIST(sum, rows), KIT_LIST(final, all));
        kit_infer(&kit);
        kit_assert_shape(&kit, b, KIT_SHAPE(4));
        kit_assert_shape(&kit, final, KIT_SHAPE(4));
        kit_assert_shape(&kit, all, KIT_SHAPE(4, 9));
        kit_close(&kit);
    }
}

static void a_scan_of_opset_8_has_a_batch(void **state) {
    (void)state;
    test_kit kit = kit_open();
    kit.version = 8;
    tn_tensor_id sum = kit_input(&kit, "sum", TN_FLOAT32, KIT_SHAPE(5, 4));
    tn_tensor_id rows = kit_input(&kit, "rows", TN_FLOAT32, KIT_SHAPE(5, 9, 4));
    tn_tensor_id final = kit_open_tensor(&kit, "final"), all = kit_open_tensor(&kit, "all");
    tn_block_id body = kit_block(&kit, "body");
    kit.block = body;
    tn_tensor_id a = kit_open_tensor(&kit, "a"), b = kit_open_tensor(&kit, "b");
    tn_tensor_id next = kit_op(&kit, "Add", KIT_LIST(a, b));
    tn_tensor_id each = kit_op(&kit, "Identity", KIT_LIST(next));
    kit.block = 0;
    kit_block_io(&kit, body, KIT_LIST(a, b), KIT_LIST(next, each));
    kit_attr_block(&kit, "body", body);
    kit_attr_int(&kit, "num_scan_inputs", 1);
    kit_op_to(&kit, "Scan", KIT_LIST(TN_NONE, sum, rows), KIT_LIST(final, all));
    kit_infer(&kit);
    kit_assert_shape(&kit, b, KIT_SHAPE(4));
    kit_assert_shape(&kit, final, KIT_SHAPE(5, 4));
    kit_assert_shape(&kit, all, KIT_SHAPE(5, 9, 4));
    kit_close(&kit);
}

/* --- sequences --- */

static void sequences_count_their_elements(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(6, 3));
    tn_tensor_id none = kit_op(&kit, "SequenceEmpty", 0, NULL);
    tn_tensor_id one = kit_op(&kit, "SequenceInsert", KIT_LIST(none, x));
    tn_tensor_id two = kit_op(&kit, "SequenceInsert", KIT_LIST(one, x));
    tn_tensor_id length = kit_op(&kit, "SequenceLength", KIT_LIST(two));
    tn_tensor_id at = kit_op(&kit, "SequenceAt", KIT_LIST(two, kit_scalar(&kit, 0)));
    tn_tensor_id less = kit_op(&kit, "SequenceErase", KIT_LIST(two));
    kit_attr_int(&kit, "axis", 1);
    tn_tensor_id wide = kit_op(&kit, "ConcatFromSequence", KIT_LIST(two));
    kit_attr_int(&kit, "axis", 0);
    kit_attr_int(&kit, "new_axis", 1);
    tn_tensor_id stack = kit_op(&kit, "ConcatFromSequence", KIT_LIST(two));
    tn_tensor_id parts = kit_op(&kit, "SplitToSequence", KIT_LIST(x, kit_scalar(&kit, 4)));
    kit_attr_int(&kit, "keepdims", 0);
    tn_tensor_id rows = kit_op(&kit, "SplitToSequence", KIT_LIST(x));
    kit_infer(&kit);
    assert_int_equal(kit_at(&kit, none)->bytes, 0);
    assert_int_equal(kit_at(&kit, one)->bytes, 72);
    assert_int_equal(kit_at(&kit, two)->bytes, 144);
    assert_int_equal(kit_at(&kit, two)->repeat, 2);
    assert_int_equal(kit_at(&kit, less)->repeat, 1);
    kit_assert_ints(&kit, length, 1, (int64_t[]){2});
    kit_assert_shape(&kit, at, KIT_SHAPE(6, 3));
    assert_false(kit_at(&kit, at)->flags & TN_TENSOR_SEQUENCE);
    kit_assert_shape(&kit, wide, KIT_SHAPE(6, 6));
    kit_assert_shape(&kit, stack, KIT_SHAPE(2, 6, 3));
    assert_int_equal(kit_at(&kit, parts)->repeat, 2); /* 4 rows and 2: at most 4 each */
    kit_assert_shape(&kit, parts, KIT_SHAPE(4, 3));
    assert_true(kit_at(&kit, parts)->flags & TN_TENSOR_BOUND);
    assert_int_equal(kit_at(&kit, rows)->repeat, 6);
    kit_assert_shape(&kit, rows, KIT_SHAPE(3));
    kit_close(&kit);
}

static void elements_of_a_sequence_are_covered_by_the_largest(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id a = kit_input(&kit, "a", TN_FLOAT32, KIT_SHAPE(6, 3));
    tn_tensor_id b = kit_input(&kit, "b", TN_FLOAT32, KIT_SHAPE(2, 5));
    tn_tensor_id both = kit_op(&kit, "SequenceConstruct", KIT_LIST(a, b));
    kit_infer(&kit);
    kit_assert_shape(&kit, both, KIT_SHAPE(6, 5));
    assert_true(kit_at(&kit, both)->flags & TN_TENSOR_BOUND);
    assert_int_equal(kit_at(&kit, both)->bytes, 2 * 30 * 4);
    kit_close(&kit);
}

static void sequence_map_maps_each_element(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(6, 3));
    tn_tensor_id list = kit_op(&kit, "SequenceConstruct", KIT_LIST(x, x, x));
    tn_tensor_id out = kit_open_tensor(&kit, "out");
    tn_block_id body = kit_block(&kit, "body");
    kit.block = body;
    tn_tensor_id each = kit_open_tensor(&kit, "each"), plus = kit_open_tensor(&kit, "plus");
    tn_tensor_id shape = kit_op(&kit, "Shape", KIT_LIST(kit_op(&kit, "Add", KIT_LIST(each, plus))));
    kit.block = 0;
    kit_block_io(&kit, body, KIT_LIST(each, plus), KIT_LIST(shape));
    kit_attr_block(&kit, "body", body);
    kit_op_to(&kit, "SequenceMap", KIT_LIST(list, x), KIT_LIST(out));
    kit_infer(&kit);
    kit_assert_shape(&kit, each, KIT_SHAPE(6, 3));
    assert_int_equal(kit_at(&kit, out)->repeat, 3);
    kit_assert_shape(&kit, out, KIT_SHAPE(2));
    assert_int_equal(kit_at(&kit, out)->bytes, 48);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_known_condition_takes_one_branch),
        cmocka_unit_test(a_branch_never_taken_may_be_wrong),
        cmocka_unit_test(an_if_whose_branches_both_fail_fails_as_the_last_one),
        cmocka_unit_test(branches_that_differ_give_an_upper_bound),
        cmocka_unit_test(a_dead_branch_kills_what_is_nested_in_it),
        cmocka_unit_test(a_fault_is_caught_by_the_branch_around_it),
        cmocka_unit_test(a_constant_from_the_taken_branch_is_folded),
        cmocka_unit_test(a_loop_collects_as_many_as_it_runs),
        cmocka_unit_test(a_loop_without_an_end_has_no_size),
        cmocka_unit_test(a_carried_shape_that_grows_is_known_from_the_trips),
        cmocka_unit_test(a_carried_shape_that_grows_unevenly_is_not_known),
        cmocka_unit_test(a_carried_sequence_grows_by_what_is_inserted),
        cmocka_unit_test(loops_nested_deeply_end),
        cmocka_unit_test(a_scan_walks_along_its_axis),
        cmocka_unit_test(a_scan_of_opset_8_has_a_batch),
        cmocka_unit_test(sequences_count_their_elements),
        cmocka_unit_test(elements_of_a_sequence_are_covered_by_the_largest),
        cmocka_unit_test(sequence_map_maps_each_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
