/* test_graph.c - tn_fit_graph and its curve: more memory does not make a program slower; and the
 * message of a refusal, which is the only one. */
#include <tenure/engine.h>
#include <tenure/fit.h>
#include <tenure/graph.h>
#include <tenure/occupancy.h>
#include <tenure/program.h>
#include <tenure/search.h>

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

typedef struct request_parts {
    tn_fit_request request;
    tn_setup_options setup;
    tn_fit_options search;
} request_parts;

static const tn_fit_request *request_of(request_parts *parts, uint64_t budget) {
    *parts = (request_parts){TN_FIT_REQUEST_INIT, TN_SETUP_OPTIONS_INIT, TN_FIT_OPTIONS_INIT};
    parts->setup.no_kernels = true;
    parts->search.budget = budget;
    parts->request.setup = &parts->setup;
    parts->request.search = &parts->search;
    parts->request.costs = model_costs;
    parts->request.timed = parts->request.no_hints = true;
    return &parts->request;
}

/* Each point is a program of its graph that keeps to its budget, and by simulation takes the time
 * that the point tells. */
static void check_point(const tn_curve_point *point) {
    tn_simulate_options simulate = TN_SIMULATE_OPTIONS_INIT;
    tn_simulation simulation;
    const tn_problem *problem = tn_occupancy_problem(point->result.occupancy);
    assert_true(point->result.bytes <= point->budget);
    assert_int_equal(point->result.bytes, point->fixed_bytes + point->result.layout.peak);
    assert_int_equal(tn_layout_verify(problem, &point->result.layout, NULL, NULL), TN_OK);
    assert_ptr_equal(tn_program_graph(point->result.program), tn_setup_graph(point->setup));
    simulate.costs = tn_costs_list(point->costs);
    simulate.again = tn_costs_again_list(point->costs);
    assert_int_equal(tn_simulate(point->result.program, &simulate, &simulation, NULL), TN_OK);
    assert_int_equal(simulation.total_ps, point->result.time);
    tn_simulation_release(&simulation);
}

static void curve_keeps_to_its_budgets(void **state) {
    tn_graph *graph;
    request_parts parts;
    tn_fit_answer answer, alone;
    tn_fit_curve curve;
    tn_error error;
    uint32_t tiled = 0;
    (void)state;
    assert_int_equal(tn_graph_load(MODEL, NULL, &graph, NULL), TN_OK);
    assert_int_equal(tn_fit_graph_curve(graph, request_of(&parts, 0), 1, &answer, &curve, &error),
                     TN_E_INVALID);
    tn_fit_curve_release(&curve);
    tn_fit_answer_release(&answer);
    uint64_t budget = UINT64_C(20) << 20;
    if (tn_fit_graph_curve(graph, request_of(&parts, budget), 6, &answer, &curve, &error) != TN_OK)
        fail_msg("%s", error.message);
    assert_true(curve.count >= 2);
    for (uint32_t i = 0; i < curve.count; i++) {
        check_point(&curve.points[i]);
        tiled += tn_setup_splits(curve.points[i].setup) != NULL;
        if (i == 0) continue;
        assert_true(curve.points[i].budget > curve.points[i - 1].budget);
        assert_true(curve.points[i].result.time <= curve.points[i - 1].result.time);
    }
    assert_true(tiled > 0);
    /* The same question has the same answer without a curve. */
    assert_int_equal(tn_fit_graph(graph, request_of(&parts, budget), &alone, NULL), TN_OK);
    assert_int_equal(alone.result.bytes, answer.result.bytes);
    assert_int_equal(alone.result.time, answer.result.time);
    tn_fit_answer_release(&alone);
    tn_fit_curve_release(&curve);
    tn_fit_answer_release(&answer);
    tn_graph_destroy(graph);
}

/* --- refusals --- */

static uint32_t count_of(const char *text, const char *words) {
    uint32_t count = 0;
    for (const char *at = strstr(text, words); at != NULL; at = strstr(at + 1, words)) count++;
    return count;
}

/* One sentence about the allowed techniques, and every hint in it once, as a value of `allow`. */
static void check_refusal(const tn_fit_answer *answer, const tn_error *error) {
    char words[TN_TECHNIQUES_TEXT], hint[TN_TECHNIQUES_TEXT + 32];
    const bool streams = (answer->allowed & TN_FIT_STREAM) != 0;
    if (count_of(error->message, "fits in") != 1) fail_msg("%s", error->message);
    if (count_of(error->message, "the least found takes") < 1) fail_msg("%s", error->message);
    if (count_of(error->message, "with streamed weights, step ") != streams)
        fail_msg("%s", error->message);
    assert_int_equal(answer->detail[0] != '\0', streams);
    for (uint32_t i = 0; i < answer->hint_count; i++) {
        uint32_t allow = answer->allowed | answer->hints[i].techniques;
        snprintf(hint, sizeof hint, "With `allow` %s%s", tn_techniques_text(allow, words),
                 answer->hints[i].fits ? ":" : " the least");
        if (count_of(error->message, hint) != 1) fail_msg("%s: %s", hint, error->message);
    }
}

/* The searches for hints are refused, too; the message is not about them. */
static void a_refusal_is_one_sentence(void **state) {
    static const struct {
        uint64_t mib;
        uint32_t allow;
        bool has_hints;
    } cases[] = {{18, TN_FIT_ORDER, true}, {2, TN_FIT_ORDER, false}, {2, TN_FIT_STREAM, false}};
    tn_graph *graph;
    request_parts parts;
    tn_fit_answer answer;
    tn_error error = {0};
    (void)state;
    assert_int_equal(tn_graph_load(MODEL, NULL, &graph, NULL), TN_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)request_of(&parts, cases[i].mib << 20);
        parts.setup.no_kernels = parts.request.no_hints = false;
        parts.request.hint_seconds = cases[i].has_hints ? 60 : 1;
        parts.search.allow = cases[i].allow;
        tn_status status = tn_fit_graph(graph, &parts.request, &answer, &error);
        if (status != TN_E_EXHAUSTED && status != TN_E_INFEASIBLE) fail_msg("%s", error.message);
        check_refusal(&answer, &error);
        assert_true(answer.hint_count > 0 || !cases[i].has_hints);
        tn_fit_answer_release(&answer);
    }
    tn_graph_destroy(graph);
}

/* Searches that an answer needed may have ended without one. They leave no message. */
static void an_answer_has_no_message(void **state) {
    static const struct {
        uint64_t mib;
        uint32_t allow;
    } cases[] = {{20, TN_FIT_ORDER | TN_FIT_RECOMPUTE}, {16, 0}, {10, TN_FIT_STREAM}};
    tn_graph *graph;
    request_parts parts;
    tn_fit_answer answer;
    (void)state;
    assert_int_equal(tn_graph_load(MODEL, NULL, &graph, NULL), TN_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_error error = {0};
        (void)request_of(&parts, cases[i].mib << 20);
        parts.setup.no_kernels = false;
        parts.search.allow = cases[i].allow;
        assert_int_equal(tn_fit_graph(graph, &parts.request, &answer, &error), TN_OK);
        assert_int_equal(error.status, TN_OK);
        assert_string_equal(error.message, "");
        tn_fit_answer_release(&answer);
    }
    tn_graph_destroy(graph);
}

/* The claim about techniques within a program. */
static const tn_claim *program_claim(const tn_fit_answer *answer) {
    for (uint32_t i = 0; i < answer->claim_count; i++)
        if (answer->claims[i].techniques == (TN_FIT_ORDER | TN_FIT_RECOMPUTE))
            return &answer->claims[i];
    fail_msg("no claim about reordering and recomputing");
    return NULL;
}

/* With operators in parts nothing is proved, but a part of the techniques has a bound. */
static void a_bound_has_the_scope_of_its_search(void **state) {
    tn_graph *graph;
    request_parts parts;
    tn_fit_answer answer;
    tn_error error = {0};
    char text[256], size[TN_SIZE_TEXT_MAX];
    (void)state;
    assert_int_equal(tn_graph_load(MODEL, NULL, &graph, NULL), TN_OK);
    (void)request_of(&parts, UINT64_C(14500000));
    assert_int_equal(tn_fit_graph(graph, &parts.request, &answer, &error), TN_E_EXHAUSTED);
    const uint64_t bound = program_claim(&answer)->bytes_bound;
    snprintf(text, sizeof text,
             ", and none that reorders and recomputes whole operators takes less than %s",
             tn_size_format(bound, size));
    if (count_of(error.message, text) != 1) fail_msg("'%s': %s", text, error.message);
    assert_true(bound > answer.budget);
    tn_fit_answer_release(&answer);
    tn_graph_destroy(graph);
}

static tn_status whole_costs(void *self, const tn_setup *setup, tn_costs **costs, tn_error *error) {
    if (tn_setup_splits(setup) == NULL) return model_costs(self, setup, costs, error);
    *error = (tn_error){.status = TN_E_UNSUPPORTED};
    snprintf(error->message, sizeof error->message, "%s", self != NULL ? (const char *)self : "");
    return TN_E_UNSUPPORTED;
}

/* A set that cannot be used has the reason that was given. */
static void a_set_that_is_not_tried_has_its_reason(void **state) {
    static const char *const reasons[] = {"the meter of tiles is broken", NULL};
    tn_graph *graph;
    request_parts parts;
    tn_fit_answer answer;
    (void)state;
    assert_int_equal(tn_graph_load(MODEL, NULL, &graph, NULL), TN_OK);
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        tn_error error = {0};
        uint32_t found = 0;
        (void)request_of(&parts, UINT64_C(14500000));
        parts.request.costs = whole_costs;
        parts.request.self = (void *)(uintptr_t)reasons[i];
        assert_int_not_equal(tn_fit_graph(graph, &parts.request, &answer, &error), TN_OK);
        for (uint32_t k = 0; k < answer.claim_count; k++) {
            const tn_claim *claim = &answer.claims[k];
            if (claim->kind != TN_CLAIM_NOT_TRIED || claim->techniques != TN_FIT_SPLIT) continue;
            found++;
            assert_string_equal(claim->why, reasons[i] != NULL
                                                ? reasons[i]
                                                : "the costs that were given are of the whole "
                                                  "graph");
        }
        assert_int_equal(found, 1);
        tn_fit_answer_release(&answer);
    }
    tn_graph_destroy(graph);
}

/* The decisions for tensors are counted in memory of the program's context. */
static void fates_use_the_context(void **state) {
    faulty memory = {0};
    tn_context context = faulty_context(&memory);
    tn_import_options import = TN_IMPORT_OPTIONS_INIT;
    tn_graph *graph;
    tn_program *program;
    tn_occupancy *occupancy;
    tn_fate_totals totals;
    (void)state;
    import.context = &context;
    assert_int_equal(tn_graph_load(MODEL, &import, &graph, NULL), TN_OK);
    assert_int_equal(tn_program_create(graph, NULL, &program, NULL), TN_OK);
    assert_int_equal(tn_occupancy_create(program, NULL, &occupancy, NULL), TN_OK);
    memory.fail_at = memory.requests + 1;
    assert_int_equal(tn_fit_fates(occupancy, &totals, NULL), TN_E_NO_MEMORY);
    memory.fail_at = 0;
    assert_int_equal(tn_fit_fates(occupancy, &totals, NULL), TN_OK);
    assert_true(totals.tensors[TN_FATE_KEPT] > 0);
    tn_occupancy_destroy(occupancy);
    tn_program_destroy(program);
    tn_graph_destroy(graph);
    assert_true(memory.held == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(fates_use_the_context),
                                       cmocka_unit_test(more_memory_is_not_slower),
                                       cmocka_unit_test(curve_keeps_to_its_budgets),
                                       cmocka_unit_test(a_refusal_is_one_sentence),
                                       cmocka_unit_test(an_answer_has_no_message),
                                       cmocka_unit_test(a_bound_has_the_scope_of_its_search),
                                       cmocka_unit_test(a_set_that_is_not_tried_has_its_reason)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
