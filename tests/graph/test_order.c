/* Topological order: kept where valid, found where not, cycles named; scopes of blocks. */
#include "count.h"
#include "kit.h"

/* A random graph without cycles whose operators are added in a shuffled order. */
static void random_graphs_come_out_sorted(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(300, 30); seed++) {
        tn__random random = {seed};
        test_kit kit = kit_open();
        uint32_t count = 1 + (uint32_t)tn__random_below(&random, 40), order[40];
        tn_tensor_id tensors[41];
        tensors[0] = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(3));
        for (uint32_t i = 0; i < count; i++) {
            tensors[i + 1] = kit_open_tensor(&kit, "t");
            order[i] = i;
        }
        bool shuffled = tn__random_below(&random, 4) != 0;
        for (uint32_t i = count; shuffled && i-- > 1;) {
            uint32_t j = (uint32_t)tn__random_below(&random, i + 1), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        for (uint32_t i = 0; i < count; i++) { /* operator k reads two tensors of before */
            uint32_t k = order[i];
            tn_tensor_id a = tensors[tn__random_below(&random, k + 1)];
            tn_tensor_id b = tensors[tn__random_below(&random, k + 1)];
            kit_op_to(&kit, "Add", KIT_LIST(a, b), KIT_LIST(tensors[k + 1]));
        }
        kit_infer(&kit);
        const tn_block *block = tn_graph_block(kit.graph, 0);
        bool done[41] = {true}, seen[40] = {false};
        assert_int_equal(block->op_count, count);
        for (uint32_t i = 0; i < count; i++) {
            const tn_op *op = tn_graph_op(kit.graph, block->ops[i]);
            assert_false(seen[block->ops[i]]);
            seen[block->ops[i]] = true;
            if (!shuffled) assert_int_equal(block->ops[i], i);
            for (uint32_t j = 0; j < 2; j++)
                if (!done[op->inputs[j]])
                    fail_msg("seed %llu: used too early", (unsigned long long)seed);
            done[op->outputs[0]] = true;
        }
        kit_close(&kit);
    }
}

/* Of all valid orders the first one by file position: checked by choosing greedily. */
static void the_order_is_the_first_by_file_position(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(100, 10); seed++) {
        tn__random random = {seed * 77};
        test_kit kit = kit_open();
        enum { COUNT = 12 };
        tn_tensor_id tensors[COUNT + 1];
        tensors[COUNT] = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(3));
        uint32_t from[COUNT];
        for (uint32_t i = 0; i < COUNT; i++) tensors[i] = kit_open_tensor(&kit, "t");
        for (uint32_t i = 0; i < COUNT;
             i++) { /* mostly later ones, but never a cycle: higher ids */
            from[i] = i + 1 + (uint32_t)tn__random_below(&random, COUNT - i);
            kit_op_to(&kit, "Relu", KIT_LIST(tensors[from[i]]), KIT_LIST(tensors[i]));
        }
        kit_infer(&kit);
        bool done[COUNT + 1] = {false};
        done[COUNT] = true;
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t first = 0;
            while (done[first] || !done[from[first]]) first++;
            assert_int_equal(tn_graph_block(kit.graph, 0)->ops[i], first);
            done[first] = true;
        }
        kit_close(&kit);
    }
}

static void a_cycle_is_named_by_nodes_on_it(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(3));
    tn_tensor_id a = kit_open_tensor(&kit, "a"), b = kit_open_tensor(&kit, "b");
    tn_tensor_id before = kit_op(&kit, "Relu", KIT_LIST(x));
    kit_op_to(&kit, "Add", KIT_LIST(before, b), KIT_LIST(a));
    kit_op_to(&kit, "Tanh", KIT_LIST(a), KIT_LIST(b));
    kit_op(&kit, "Exp", KIT_LIST(b));
    kit_infer_fails(&kit, TN_E_INVALID);
    assert_non_null(strstr(kit.error.message, "cycle"));
    assert_non_null(strstr(kit.error.message, "Add"));
    assert_non_null(strstr(kit.error.message, "Tanh"));
    assert_null(strstr(kit.error.message, "Exp"));
    assert_null(strstr(kit.error.message, "Relu"));
    kit_close(&kit);
}

static void an_operator_that_reads_itself_is_a_cycle(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id a = kit_open_tensor(&kit, "a");
    kit_op_to(&kit, "Relu", KIT_LIST(a), KIT_LIST(a));
    kit_infer_fails(&kit, TN_E_INVALID);
    assert_non_null(strstr(kit.error.message, "cycle"));
    kit_close(&kit);
}

static void a_chain_of_a_million_nodes_is_sorted_and_inferred(void **state) {
    (void)state;
    enum { LENGTH = 1000000 };
    for (int reversed = 0; reversed < 2; reversed++) {
        test_kit kit = kit_open();
        tn_tensor_id first = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(3));
        for (uint32_t i = 0; i < LENGTH; i++) kit_open_tensor(&kit, "");
        for (uint32_t i = 0; i < LENGTH; i++) {
            uint32_t at = reversed ? LENGTH - 1 - i : i;
            kit_op_to(&kit, "Relu", KIT_LIST(first + at), KIT_LIST(first + at + 1));
        }
        kit_infer(&kit);
        assert_int_equal(kit_at(&kit, first + LENGTH)->bytes, 12);
        assert_int_equal(tn_graph_block(kit.graph, 0)->ops[0], reversed ? LENGTH - 1 : 0);
        kit_close(&kit);
    }
}

static void what_nothing_computes_is_named(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id ghost = kit_tensor(&kit, "ghost", TN_KIND_ACTIVATION, TN_FLOAT32, KIT_SHAPE(3));
    kit_op(&kit, "Relu", KIT_LIST(ghost));
    kit_infer_fails(&kit, TN_E_INVALID);
    assert_non_null(strstr(kit.error.message, "ghost"));
    assert_non_null(strstr(kit.error.where, "Relu"));
    kit_close(&kit);
    kit = kit_open();
    kit_tensor(&kit, "promise", TN_KIND_OUTPUT, TN_FLOAT32, KIT_SHAPE(3));
    kit_infer_fails(&kit, TN_E_INVALID);
    assert_non_null(strstr(kit.error.message, "promise"));
    kit_close(&kit);
}

/* An If whose branch reads, from outside, what an operator after it computes. */
static void a_block_reads_for_its_owner(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id x = kit_input(&kit, "x", TN_FLOAT32, KIT_SHAPE(3));
    tn_tensor_id flag = kit_input(&kit, "flag", TN_BOOL, 0, NULL);
    tn_tensor_id late = kit_open_tensor(&kit, "late"), out = kit_open_tensor(&kit, "out");
    tn_block_id yes = kit_block(&kit, "yes"), no = kit_block(&kit, "no");
    kit.block = yes;
    tn_tensor_id inner = kit_op(&kit, "Relu", KIT_LIST(late));
    kit.block = 0;
    kit_block_io(&kit, yes, 0, NULL, KIT_LIST(inner));
    kit_block_io(&kit, no, 0, NULL, KIT_LIST(late)); /* an outer tensor as result */
    kit_attr_block(&kit, "then_branch", yes);
    kit_attr_block(&kit, "else_branch", no);
    tn_op_id owner = kit_op_to(&kit, "If", KIT_LIST(flag), KIT_LIST(out));
    tn_op_id last = kit_op_to(&kit, "Tanh", KIT_LIST(x), KIT_LIST(late));
    kit_infer(&kit);
    assert_int_equal(tn_graph_block(kit.graph, 0)->ops[0], last);
    assert_int_equal(tn_graph_block(kit.graph, 0)->ops[1], owner);
    assert_int_equal(kit_at(&kit, out)->bytes, 12);
    kit_close(&kit);
}

static void a_block_that_reads_its_owners_result_is_a_cycle(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id flag = kit_input(&kit, "flag", TN_BOOL, 0, NULL);
    tn_tensor_id out = kit_open_tensor(&kit, "out");
    tn_block_id yes = kit_block(&kit, "yes"), no = kit_block(&kit, "no");
    kit.block = yes;
    tn_tensor_id inner = kit_op(&kit, "Relu", KIT_LIST(out));
    kit.block = no;
    tn_tensor_id other = kit_op(&kit, "Relu", KIT_LIST(flag));
    kit.block = 0;
    kit_block_io(&kit, yes, 0, NULL, KIT_LIST(inner));
    kit_block_io(&kit, no, 0, NULL, KIT_LIST(other));
    kit_attr_block(&kit, "then_branch", yes);
    kit_attr_block(&kit, "else_branch", no);
    kit_op_to(&kit, "If", KIT_LIST(flag), KIT_LIST(out));
    kit_infer_fails(&kit, TN_E_INVALID);
    assert_non_null(strstr(kit.error.message, "cycle"));
    kit_close(&kit);
}

static void a_tensor_of_a_block_beside_is_out_of_scope(void **state) {
    (void)state;
    test_kit kit = kit_open();
    tn_tensor_id flag = kit_input(&kit, "flag", TN_BOOL, 0, NULL);
    tn_tensor_id out = kit_open_tensor(&kit, "out");
    tn_block_id yes = kit_block(&kit, "yes"), no = kit_block(&kit, "no");
    kit.block = yes;
    tn_tensor_id inner = kit_op(&kit, "Relu", KIT_LIST(flag));
    kit.block = no;
    tn_tensor_id other = kit_op(&kit, "Not", KIT_LIST(inner));
    kit.block = 0;
    kit_block_io(&kit, yes, 0, NULL, KIT_LIST(inner));
    kit_block_io(&kit, no, 0, NULL, KIT_LIST(other));
    kit_attr_block(&kit, "then_branch", yes);
    kit_attr_block(&kit, "else_branch", no);
    kit_op_to(&kit, "If", KIT_LIST(flag), KIT_LIST(out));
    kit_infer_fails(&kit, TN_E_INVALID);
    assert_non_null(strstr(kit.error.message, "not around"));
    assert_non_null(strstr(kit.error.where, "Not"));
    kit_close(&kit);
}

static void blocks_must_hang_below_the_main_block(void **state) {
    (void)state;
    test_kit kit = kit_open();
    kit_block(&kit, "nobody's");
    kit_infer_fails(&kit, TN_E_INVALID);
    kit_close(&kit);
    kit = kit_open(); /* an operator inside the block that it owns */
    tn_block_id self = kit_block(&kit, "self");
    kit.block = self;
    tn_tensor_id out = kit_open_tensor(&kit, "out");
    kit_attr_block(&kit, "body", self);
    kit_op_to(&kit, "Loop", 0, NULL, KIT_LIST(out));
    kit_infer_fails(&kit, TN_E_INVALID);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_graphs_come_out_sorted),
        cmocka_unit_test(the_order_is_the_first_by_file_position),
        cmocka_unit_test(a_cycle_is_named_by_nodes_on_it),
        cmocka_unit_test(an_operator_that_reads_itself_is_a_cycle),
        cmocka_unit_test(a_chain_of_a_million_nodes_is_sorted_and_inferred),
        cmocka_unit_test(what_nothing_computes_is_named),
        cmocka_unit_test(a_block_reads_for_its_owner),
        cmocka_unit_test(a_block_that_reads_its_owners_result_is_a_cycle),
        cmocka_unit_test(a_tensor_of_a_block_beside_is_out_of_scope),
        cmocka_unit_test(blocks_must_hang_below_the_main_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
