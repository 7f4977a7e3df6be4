/* test_joint.c - joint against the optimum of small works, and against all that it is made of.
 *
 *     test_joint [WORKS]
 *
 * draws 500 works, or as many as are said; a third of them fit their budgets.
 */
#include "count.h"
#include "kit_judge.h"

#include <stdlib.h>

#include "fit/budget/joint/joint.h"

static const tn_pass *named(const char *name) {
    const tn_pass *pass = tn__pass_named(name);
    if (pass == NULL) fail_msg("no pass %s", name);
    return pass;
}

static uint64_t keep_peak(kit *k) {
    tn__schedule schedule;
    tn__schedule_init(&schedule, &k->context);
    for (uint32_t j = 0; j < k->dag.job_count; j++)
        assert_ok(tn__schedule_add(&schedule, (tn__action){.kind = TN__RUN, .what = j}, &failure));
    uint64_t peak = kit_judge(&k->dag, &schedule).peak;
    tn__schedule_release(&schedule);
    return peak;
}

/* Time of what a pass finds; UINT64_MAX: nothing. */
static uint64_t time_of(kit *k, const char *pass, uint64_t budget, uint32_t allow, double rate,
                        uint64_t work_limit) {
    tn__pass_run run;
    tn__arena arena;
    kit_run_begin(&run, &arena, k, named(pass), budget, allow);
    run.work_limit = work_limit;
    run.out_rate = run.in_rate = rate;
    tn__pass_solve(&run, run.pass);
    uint64_t time = run.has_best ? run.time : UINT64_MAX;
    if (run.has_best) assert_true(kit_judge(&k->dag, &run.best).is_valid);
    kit_run_end(&run);
    return time;
}

/* What the search finds that does not ask `exact`; UINT64_MAX: nothing. */
static uint64_t search_alone(kit *k, uint64_t budget) {
    tn__pass_run run;
    tn__arena arena;
    kit_run_begin(&run, &arena, k, named("joint"), budget, TN__ALLOW_RECOMPUTE);
    assert_ok(tn__joint_search(&run, 3000000));
    uint64_t time = run.has_best ? run.time : UINT64_MAX;
    kit_run_end(&run);
    return time;
}

static uint64_t works; /* 0: 500, or by TENURE_COUNT */

/* The budget of each is another share of what keeping all takes. */
static void joint_is_near_the_optimum(void **state) {
    (void)state;
    if (works == 0) works = case_count(500, 40);
    uint32_t cases = 0, optimal = 0, alone_optimal = 0, alone_none = 0;
    double worst = 1, sum = 0, alone_worst = 1;
    for (uint64_t seed = 1; seed <= works; seed++) {
        kit *k = kit_random_nodes(seed, 20);
        kit_finish(k, 0);
        uint64_t budget = keep_peak(k) * (4 + seed % 6) / 10;
        uint64_t optimum = time_of(k, "exact", budget, TN__ALLOW_RECOMPUTE, 0, 30000000);
        if (optimum != UINT64_MAX) {
            uint64_t found = time_of(k, "joint", budget, TN__ALLOW_RECOMPUTE, 0, 0);
            if (found < optimum || found == UINT64_MAX)
                fail_msg("seed %" PRIu64 ": %" PRIu64 ", optimum %" PRIu64 "\n", seed, found,
                         optimum);
            double excess = optimum > 0 ? (double)found / (double)optimum : 1;
            if (excess > worst) worst = excess;
            sum += excess;
            optimal += found == optimum;
            cases++;
            uint64_t own = search_alone(k, budget);
            double above = own != UINT64_MAX ? (double)own / (double)optimum : 1;
            alone_worst = above > alone_worst ? above : alone_worst;
            alone_optimal += own == optimum;
            alone_none += own == UINT64_MAX;
        }
        kit_free(k);
    }
    print_message("%u by the search alone, worst %.4f, %u not found\n", alone_optimal, alone_worst,
                  alone_none);
    print_message("%u works that fit: %u optimal, worst %.4f, mean %.5f\n", cases, optimal, worst,
                  sum / cases);
    assert_true(worst <= 1.03 && optimal * 20 >= cases * 19);
    assert_true(alone_none == 0 && alone_worst <= 1.03 &&
                (alone_optimal + (cases < 100)) * 20 >= cases * 19);
}

static void with_a_link_it_is_never_slower(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(10, 2); seed++) {
        kit *k = kit_random_spiced(seed, 60);
        kit_finish(k, 0);
        uint64_t budget = keep_peak(k) * (4 + seed % 5) / 10;
        uint64_t alone = time_of(k, "joint", budget, TN__ALLOW_RECOMPUTE, 0, 0);
        for (double rate = 0.03; rate < 10; rate *= 10) {
            uint32_t allow = TN__ALLOW_RECOMPUTE | TN__ALLOW_SWAP;
            assert_true(time_of(k, "joint", budget, allow, rate, 0) <= alone);
            time_of(k, "joint", budget, allow, rate, 300000); /* what it finds is judged */
        }
        kit_free(k);
    }
}

int main(int count, char **words) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(joint_is_near_the_optimum),
        cmocka_unit_test(with_a_link_it_is_never_slower),
    };
    if (count > 1) works = strtoull(words[1], NULL, 10);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
