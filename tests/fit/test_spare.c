/* test_spare.c - the library sets the spare words of every result to 0, whatever was there before:
 * a program that is newer than the library reads 0 in the fields that it does not know. */
#include "../support.h"

#include <tenure/estimate.h>
#include <tenure/fit.h>
#include <tenure/plan.h>
#include <tenure/pool.h>

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)
#define DIRTY(name) memset(&(name), 0xA5, sizeof(name))
#define assert_spared(name)                                                                        \
    do {                                                                                           \
        for (size_t i_ = 0; i_ < sizeof(name).spare / sizeof *(name).spare; i_++)                  \
            assert_int_equal((name).spare[i_], 0);                                                 \
    } while (0)

static tn_graph *load(void) {
    tn_graph *graph;
    assert_ok(tn_graph_load(TENURE_SOURCE_DIR "/examples/models/two_branches.onnx", NULL, &graph,
                            &failure));
    return graph;
}

static void plans_have_spare_words(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout, given, apart;
    tn_conflict conflict;
    uint64_t offset = 64;
    DIRTY(layout), DIRTY(given), DIRTY(apart), DIRTY(conflict);
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    assert_ok(tn_problem_add(problem, &(tn_body){.size = 100, .last = 3}, NULL, &failure));
    assert_ok(tn_plan(problem, NULL, &layout, &failure));
    assert_ok(tn_layout_from_offsets(problem, &offset, &given, &failure));
    assert_ok(tn_layout_without_reuse(problem, &apart, &failure));
    assert_ok(tn_layout_verify(problem, &layout, &conflict, &failure));
    assert_spared(layout);
    assert_spared(given);
    assert_spared(apart);
    assert_spared(conflict);
    assert_spared(*tn_problem_body(problem, 0));
    tn_layout_release(&layout), tn_layout_release(&given), tn_layout_release(&apart);
    tn_problem_destroy(problem);
}

static void pools_have_spare_words(void **state) {
    (void)state;
    tn_pool *pool;
    tn_allocation block;
    tn_pool_usage usage;
    tn_pool_lesson lesson;
    tn_holder holder;
    DIRTY(usage), DIRTY(lesson), DIRTY(holder);
    assert_ok(tn_pool_create(NULL, &pool, &failure));
    assert_ok(tn_pool_alloc(pool, &(tn_pool_request){.size = 100}, &block, &failure));
    tn_pool_measure(pool, &usage);
    tn_pool_learned(pool, &lesson);
    assert_int_equal(tn_pool_holders(pool, TN_HOLDERS_NOW, &holder, 1), 1);
    assert_spared(usage);
    assert_spared(lesson);
    assert_spared(holder);
    tn_pool_destroy(pool);
}

static void fits_have_spare_words(void **state) {
    (void)state;
    tn_graph *graph = load();
    tn_fit_request request = TN_FIT_REQUEST_INIT;
    tn_fit_options search = TN_FIT_OPTIONS_INIT;
    for (int fits = 0; fits < 2; fits++) {
        tn_fit_answer answer;
        DIRTY(answer);
        search.budget = fits ? UINT64_MAX : 1;
        request.search = &search;
        request.hint_seconds = 0.1;
        assert_int_equal(tn_fit_graph(graph, &request, &answer, &failure) == TN_OK, fits);
        assert_spared(answer);
        assert_spared(answer.result);
        assert_true(answer.claim_count > 0);
        for (uint32_t i = 0; i < answer.claim_count; i++) assert_spared(answer.claims[i]);
        for (uint32_t i = 0; i < answer.hint_count; i++) assert_spared(answer.hints[i]);
        if (fits) {
            tn_estimate estimate;
            DIRTY(estimate);
            assert_ok(tn_estimate_make(answer.result.occupancy, NULL, &estimate, &failure));
            assert_spared(estimate);
            assert_spared(answer.result.layout);
            for (uint32_t i = TN_PART_COUNT; i < TN_PARTS_MAX; i++)
                assert_int_equal(estimate.part[i], 0);
        }
        tn_fit_answer_release(&answer);
    }
    tn_graph_destroy(graph);
}

static void curves_have_spare_words(void **state) {
    (void)state;
    tn_graph *graph = load();
    tn_fit_request request = TN_FIT_REQUEST_INIT;
    tn_fit_options search = TN_FIT_OPTIONS_INIT;
    tn_fit_answer answer;
    tn_fit_curve curve;
    DIRTY(answer), DIRTY(curve);
    request.search = &search;
    assert_ok(tn_fit_graph_curve(graph, &request, 3, &answer, &curve, &failure));
    assert_spared(answer);
    assert_spared(curve);
    for (uint32_t i = 0; i < curve.count; i++) assert_spared(curve.points[i]);
    tn_fit_curve_release(&curve);
    tn_fit_answer_release(&answer);
    tn_graph_destroy(graph);
}

static void estimates_have_spare_words(void **state) {
    (void)state;
    tn_large large = {.model = {.hidden = 768,
                                .layers = 12,
                                .heads = 12,
                                .vocabulary = 50257,
                                .position_rows = TN_SIZE_UNKNOWN},
                      .sequence = 128};
    tn_large_estimate estimate;
    tn_large_stage stage;
    DIRTY(estimate), DIRTY(stage);
    assert_ok(tn_large_estimate_make(&large, &estimate, &failure));
    assert_ok(tn_large_stage_make(&large, 0, &stage, &failure));
    assert_spared(estimate);
    assert_spared(estimate.largest);
    assert_spared(stage);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plans_have_spare_words),     cmocka_unit_test(pools_have_spare_words),
        cmocka_unit_test(fits_have_spare_words),      cmocka_unit_test(curves_have_spare_words),
        cmocka_unit_test(estimates_have_spare_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
