/* test_problem.c - computations without a model, as JSON: what becomes of them, and what is
 * refused. */
#include "../support.h"

#include <tenure/search.h>

typedef struct loaded {
    tn_graph *graph;
    tn_costs *costs;
    tn_program *program;
    tn_occupancy *occupancy;
} loaded;

static tn_error failure;

static void problem_ok(tn_status status) {
    if (status != TN_OK) fail_msg("%s: %s", failure.where, failure.message);
}

static loaded problem_load(const char *json) {
    loaded it;
    tn_occupancy_options memory = TN_OCCUPANCY_OPTIONS_INIT;
    memory.alignment = 1;
    problem_ok(tn_fit_problem_load_memory("p.json", json, strlen(json), NULL, &it.graph, &it.costs,
                                          &failure));
    problem_ok(tn_program_create(it.graph, NULL, &it.program, &failure));
    problem_ok(tn_occupancy_create(it.program, &memory, &it.occupancy, &failure));
    return it;
}

static void problem_close(loaded *it) {
    tn_occupancy_destroy(it->occupancy);
    tn_program_destroy(it->program);
    tn_costs_destroy(it->costs);
    tn_graph_destroy(it->graph);
}

static void edges_become_operators_with_a_value_each(void **state) {
    (void)state;
    /* 0 -> 1 -> 2, and 2 reads 0 as well: all three live at the last */
    loaded it = problem_load("{\"cpu\": [3, 1, 4], \"ram\": [10, 20, 5], \"name\": \"x\", "
                             "\"edges\": [[0, 1], [1, 2], [0, 2]], \"else\": [null]}");
    assert_int_equal(tn_graph_op_count(it.graph), 3);
    assert_int_equal(tn_op_may_repeat(it.graph, 1), true);
    const uint64_t cost[] = {3, 1, 4}, bytes[] = {10, 20, 5};
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(tn_costs_of(it.costs, i) == cost[i] &&
                    tn_costs_again_of(it.costs, i) == cost[i]);
        assert_true(tn_graph_tensor(it.graph, i)->bytes == bytes[i]);
        assert_true(tn_graph_tensor(it.graph, i)->producer == i);
    }
    assert_true(tn_occupancy_summary(it.occupancy).peak_live == 35);
    problem_close(&it);
}

static void the_general_form_says_all_that_it_can(void **state) {
    (void)state;
    loaded it = problem_load(
        "{\"values\": [{\"bytes\": 64, \"name\": \"x\"}, {\"bytes\": 8, \"held\": true},"
        " {\"bytes\": 30}, {\"bytes\": 7, \"kept\": true}, {\"bytes\": 2, \"kept\": true}],"
        " \"operators\": [{\"cost\": 1, \"inputs\": [2], \"outputs\": [3], \"after\": [1],"
        "   \"scratch\": null},"
        "  {\"cost\": 9, \"again\": 5, \"inputs\": [1, 0], \"outputs\": [2, 4],"
        "   \"scratch\": 1000, \"repeats\": false, \"name\": \"a\"}]}");
    assert_true(tn_graph_tensor(it.graph, 0)->kind == TN_KIND_INPUT);
    assert_string_equal(tn_graph_tensor(it.graph, 0)->name, "x");
    assert_true(tn_tensor_is_static(tn_graph_tensor(it.graph, 1)));
    assert_true(tn_graph_tensor(it.graph, 3)->flags & TN_TENSOR_IS_OUTPUT);
    assert_true(tn_op_workspace(it.graph, 1) == 1000);
    assert_int_equal(tn_op_may_repeat(it.graph, 1), false);
    assert_int_equal(tn_op_may_repeat(it.graph, 0), true);
    assert_true(tn_costs_of(it.costs, 1) == 9 && tn_costs_again_of(it.costs, 1) == 5);
    const tn_instruction *list = tn_program_instructions(it.program);
    uint32_t applied[2], count = 0;
    for (uint32_t i = 0; i < tn_program_count(it.program); i++)
        if (list[i].opcode == TN_APPLY) applied[count++] = list[i].op;
    assert_int_equal(count, 2);
    assert_true(applied[0] == 1 && applied[1] == 0); /* `after`, against the order of the file */
    /* x, 30, 2 and the scratch; the held value is static and not in the arena */
    assert_true(tn_occupancy_summary(it.occupancy).peak_live == 64 + 30 + 2 + 1000);
    problem_close(&it);
}

static void an_operator_may_make_nothing(void **state) {
    (void)state;
    loaded it = problem_load("{\"values\": [{\"bytes\": 4}], \"operators\": ["
                             "{\"cost\": 1, \"outputs\": [0]}, {\"cost\": 2, \"inputs\": [0]}]}");
    assert_int_equal(tn_program_count(it.program), 2);
    assert_true(tn_costs_total(it.costs) == 3);
    problem_close(&it);
}

static void what_is_wrong_is_told_by_its_place(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"{\"cpu\": [1}", "byte"},
        {"[]", "'values' and 'operators'"},
        {"{\"cpu\": [1], \"ram\": [1, 2], \"edges\": []}", "'cpu' has 1 entries and 'ram' 2"},
        {"{\"cpu\": [1, -1], \"ram\": [1, 2], \"edges\": []}", "cpu[1]"},
        {"{\"cpu\": [1, 1.5], \"ram\": [1, 2], \"edges\": []}", "cpu[1]"},
        {"{\"cpu\": [1, 1], \"ram\": [1, \"2\"], \"edges\": []}", "ram[1]"},
        {"{\"cpu\": [1, 1], \"ram\": [1, NaN], \"edges\": []}", "byte"},
        {"{\"cpu\": [1, 1], \"ram\": [1, 2], \"edges\": [[0, 1], [0, 2]]}", "edges[1]"},
        {"{\"cpu\": [1, 1], \"ram\": [1, 2], \"edges\": [[1, 1]]}", "edges[0]"},
        {"{\"cpu\": [1, 1], \"ram\": [1, 2], \"edges\": [[0, 1], [0, 1]]}", "operator[1]"},
        {"{\"cpu\": [1, 1], \"ram\": [1, 2], \"edges\": [[0, 1], [1, 0]]}", "cycle"},
        {"{\"cpu\": [1, 1], \"cpu\": [1, 1], \"ram\": [1, 2], \"edges\": []}", "byte"},
        {"{\"cpu\": [72057594037927937], \"ram\": [1], \"edges\": []}", "cpu[0]"},
        {"{\"cpu\": [72057594037927936, 1], \"ram\": [1, 1], \"edges\": []}", "p.json: node 'o1'"},
        {"{\"values\": [], \"operators\": [{\"cost\": 1, \"again\": 72057594037927936}, "
         "{\"cost\": 2, \"name\": \"conv\"}]}",
         "p.json: node 'conv'"},
        {"{\"cpu\": [1], \"ram\": [9223372036854775807], \"edges\": []}", "ram[0]"},
        {"{\"values\": [{}], \"operators\": []}", "values[0]"},
        {"{\"values\": [{\"bytes\": 1, \"held\": 1}], \"operators\": []}", "values[0]"},
        {"{\"values\": [{\"bytes\": 1, \"name\": 1}], \"operators\": []}", "values[0]"},
        {"{\"values\": [{\"bytes\": 1}], \"operators\": [{}]}", "operators[0]"},
        {"{\"values\": [{\"bytes\": 1}], \"operators\": [{\"cost\": 1, \"inputs\": [1]}]}",
         "operators[0]"},
        {"{\"values\": [{\"bytes\": 1}], \"operators\": [{\"cost\": 1, \"inputs\": [0, 0]}]}",
         "operators[0]"},
        {"{\"values\": [{\"bytes\": 1}], \"operators\": [{\"cost\": 1, \"outputs\": [0]}, "
         "{\"cost\": 1, \"outputs\": [0]}]}",
         "operators[1]"},
        {"{\"values\": [], \"operators\": [{\"cost\": 1, \"after\": [0]}]}", "cycle"},
        {"{\"values\": [], \"operators\": [{\"cost\": 1, \"scratch\": -1}]}", "operators[0]"},
        {"{\"values\": [], \"operators\": [{\"cost\": 1, \"repeats\": 0}]}", "operators[0]"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tn_graph *graph = NULL;
        tn_costs *costs = NULL;
        tn_error error = {0};
        tn_status status = tn_fit_problem_load_memory("p.json", bad[i][0], strlen(bad[i][0]), NULL,
                                                      &graph, &costs, &error);
        if (status != TN_E_INVALID ||
            (strstr(error.where, bad[i][1]) == NULL && strstr(error.message, bad[i][1]) == NULL))
            fail_msg("%s: status %d, '%s: %s' does not name %s", bad[i][0], status, error.where,
                     error.message, bad[i][1]);
        assert_true(graph == NULL && costs == NULL);
    }
}

static void every_allocation_may_fail(void **state) {
    static const char json[] =
        "{\"values\": [{\"bytes\": 64}, {\"bytes\": 8, \"held\": true}, {\"bytes\": 9}],"
        " \"operators\": [{\"cost\": 1, \"inputs\": [0, 1], \"outputs\": [2]},"
        " {\"cost\": 1, \"inputs\": [2], \"after\": [0], \"name\": \"n\"}]}";
    (void)state;
    for (uint64_t at = 1;; at++) {
        faulty memory = {.fail_at = at};
        tn_context context = faulty_context(&memory);
        tn_graph *graph = NULL;
        tn_costs *costs = NULL;
        tn_status status = tn_fit_problem_load_memory("p.json", json, sizeof json - 1, &context,
                                                      &graph, &costs, NULL);
        if (status == TN_OK) {
            tn_costs_destroy(costs);
            tn_graph_destroy(graph);
        }
        assert_true(memory.held == 0);
        if (status == TN_OK && memory.requests < at) break;
        assert_true(status == TN_E_NO_MEMORY || status == TN_OK);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(edges_become_operators_with_a_value_each),
        cmocka_unit_test(the_general_form_says_all_that_it_can),
        cmocka_unit_test(an_operator_may_make_nothing),
        cmocka_unit_test(what_is_wrong_is_told_by_its_place),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
