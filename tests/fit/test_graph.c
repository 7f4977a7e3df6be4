/* test_graph.c - tn_fit_graph: more memory does not make a program slower. */
#include <tenure/claim.h>
#include <tenure/costs.h>
#include <tenure/import.h>

#include "count.h"
#include "support.h"

#define MODEL TENURE_SOURCE_DIR "/examples/models/mobilenet_v2.onnx"
#define RISE 1.015 /* budgets between those that the search tries may be slower by this */

static tn_status model_costs(void *self, const tn_setup *setup, tn_costs **costs, tn_error *error) {
    tn_costs_model model = TN_COSTS_MODEL_INIT;
    (void)self;
    model.flops_per_s = 8.1e12;
    model.bytes_per_s = 320e9;
    return tn_costs_create_model(tn_setup_graph(setup), &model, costs, error);
}

/* Time of the program of operators in parts for a budget; UINT64_MAX: no program. */
static uint64_t time_within(const tn_graph *graph, uint64_t budget, uint64_t *whole) {
    tn_fit_request request = TN_FIT_REQUEST_INIT;
    tn_setup_options setup = TN_SETUP_OPTIONS_INIT;
    tn_fit_options search = TN_FIT_OPTIONS_INIT;
    tn_fit_answer answer;
    tn_error error;
    setup.no_kernels = true;
    search.budget = budget;
    search.allow = TN_FIT_SPLIT;
    request.setup = &setup;
    request.search = &search;
    request.costs = model_costs;
    request.timed = request.no_hints = true;
    tn_status status = tn_fit_graph(graph, &request, &answer, &error);
    if (status != TN_OK && status != TN_E_EXHAUSTED && status != TN_E_INFEASIBLE)
        fail_msg("%s", error.message);
    uint64_t time = status == TN_OK ? answer.result.time : UINT64_MAX;
    if (status == TN_OK) assert_true(answer.result.bytes <= budget);
    *whole = tn_setup_need(answer.whole).total;
    tn_fit_answer_release(&answer);
    return time;
}

/* The search counts operations and copied bytes, so the parts with the least work for a budget
 * may be slower than those for a smaller one. */
static void more_memory_is_not_slower(void **state) {
    tn_graph *graph;
    uint64_t whole, fastest = UINT64_MAX;
    uint32_t budgets = case_count(40, 10), found = 0;
    (void)state;
    assert_int_equal(tn_graph_load(MODEL, NULL, &graph, NULL), TN_OK);
    time_within(graph, UINT64_MAX / 2, &whole);
    for (uint32_t i = 0; i <= budgets; i++) { /* from 70 % of the whole plan to all of it */
        uint64_t unused, budget = whole - whole / 10 * 3 * (budgets - i) / budgets;
        uint64_t time = time_within(graph, budget, &unused);
        if (time == UINT64_MAX) continue;
        found++;
        if ((double)time > RISE * (double)fastest)
            fail_msg("%llu bytes: %llu ps, and %llu ps with fewer", (unsigned long long)budget,
                     (unsigned long long)time, (unsigned long long)fastest);
        if (time < fastest) fastest = time;
    }
    assert_true(found > budgets / 2);
    tn_graph_destroy(graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(more_memory_is_not_slower)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
