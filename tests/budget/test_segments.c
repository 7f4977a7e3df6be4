/* test_segments.c - marked segments run again as a whole, once, and nothing else does. */
#include "kit.h"
#include "kit_judge.h"

static void count_runs(const tn__schedule *schedule, uint32_t *runs) {
    for (uint32_t i = 0; i < schedule->count; i++)
        if (schedule->actions[i].kind == TN__RUN) runs[schedule->actions[i].what]++;
}

/* Chains of n in segments of m: m - 1 of each run again, and their results are all that stays. */
static void a_chain_keeps_the_results_of_its_segments(void **state) {
    (void)state;
    for (uint32_t m = 2; m <= 8; m++) {
        uint32_t n = 48, runs[KIT_JOBS] = {0}, reruns = 0;
        uint8_t marks[KIT_JOBS] = {0};
        tn__pass_run run;
        tn__arena arena;
        kit *k = kit_unit_chain(n);
        kit_end(k);
        kit_run_begin(&run, &arena, k, tn__pass_named("segments"), UINT64_MAX, TN__ALLOW_RECOMPUTE);
        for (uint32_t i = 0; i < n; i++) marks[i] = (uint8_t)(1 + i / m);
        run.segments = marks;
        assert_ok(run.pass->solve(&run));
        count_runs(&run.best, runs);
        for (uint32_t j = 0; j < k->dag.job_count; j++) {
            bool result = j >= n || j % m == m - 1 || j == n - 1;
            assert_int_equal(runs[j], result ? 1 : 2);
            reruns += runs[j] - 1;
        }
        assert_true(run.found.cost == k->dag.cost + reruns);
        /* results, one segment's own, and what a step back holds beside them */
        assert_in_range(run.found.peak, (n + m - 1) / m, (n + m - 1) / m + m + 3);
        kit_run_end(&run);
        kit_free(k);
    }
}

/* On graphs of all shapes, with marks of any kind: what is not marked runs once, and an
 * independent judge finds the schedule to be one. */
static void what_is_not_marked_runs_once(void **state) {
    (void)state;
    uint32_t recompute = 0, offered = 0;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint32_t runs[KIT_JOBS] = {0};
        uint8_t marks[KIT_JOBS] = {0};
        tn__random r = {seed};
        tn__pass_run run;
        tn__arena arena;
        kit *k = seed % 2 ? kit_random_nodes(seed, 30) : kit_random_spiced(seed, 30);
        kit_finish(k, seed);
        kit_run_begin(&run, &arena, k, tn__pass_named("segments"), UINT64_MAX, TN__ALLOW_RECOMPUTE);
        uint32_t length = 2 + (uint32_t)tn__random_below(&r, 6);
        for (uint32_t i = 0; i < k->dag.job_count; i++)
            marks[i] = (uint8_t)(i / length % 3 == 0 ? 0 : 1 + i / length);
        run.segments = marks;
        tn_status status = run.pass->solve(&run);
        if (status != TN_OK && status != TN_E_STOPPED)
            fail_msg("seed %" PRIu64 ": %s", seed, failure.message);
        count_runs(&run.best, runs);
        for (uint32_t j = 0; status == TN_OK && j < k->dag.job_count; j++) {
            if (runs[j] > 1 && marks[j] == 0)
                fail_msg("seed %" PRIu64 ": job %u is not marked and runs again", seed, j);
            recompute += runs[j] > 1;
        }
        if (status == TN_OK) assert_true(kit_judge(&k->dag, &run.best).is_valid);
        offered += status == TN_OK;
        kit_run_end(&run);
        kit_free(k);
    }
    assert_true(offered > 200 && recompute > 300);
}

static void without_marks_it_is_refused(void **state) {
    (void)state;
    tn__pass_run run;
    tn__arena arena;
    kit *k = kit_unit_chain(4);
    kit_end(k);
    kit_run_begin(&run, &arena, k, tn__pass_named("segments"), UINT64_MAX, TN__ALLOW_RECOMPUTE);
    assert_int_equal(run.pass->solve(&run), TN_E_UNSUPPORTED);
    kit_run_end(&run);
    kit_free(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_keeps_the_results_of_its_segments),
        cmocka_unit_test(what_is_not_marked_runs_once),
        cmocka_unit_test(without_marks_it_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
