/* test_passes.c - what every pass of passes.def must keep, on random works of all shapes: what it
 * keeps is accepted by a judge of the test's own, within budget, and costs no less than the
 * optimum that trying everything finds; "infeasible", bounds and least bytes are never wrong.
 *
 *     test_passes NAME
 */
#include "count.h"
#include "kit_judge.h"

static const tn_pass *the_pass;

/* The pass may answer that a work is not of its kind. */
static bool pass_takes(tn_status status) { return status != TN_E_UNSUPPORTED; }

static void check_best(const tn__pass_run *run, uint64_t seed) {
    judged own = kit_judge(run->dag, &run->best);
    if (!own.is_valid || own.peak > run->budget || own.host_peak > run->host_budget ||
        own.cost != run->found.cost || run->time < own.cost)
        fail_msg("seed %" PRIu64 ": valid %d, peak %" PRIu64 " in %" PRIu64 ", cost %" PRIu64
                 " told %" PRIu64 ", time %" PRIu64 "\n",
                 seed, own.is_valid, own.peak, run->budget, own.cost, run->found.cost, run->time);
    for (uint32_t i = 0; i < run->best.count; i++) {
        uint8_t kind = run->best.actions[i].kind;
        bool copies = kind == TN__OUT || kind == TN__SETTLE || kind == TN__IN;
        assert_true(kind == TN__RUN ||
                    (run->allow & (copies ? TN__ALLOW_SWAP : TN__ALLOW_COMPRESS)));
    }
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

/* A search asks a pass many times. That a pass finds nothing is an answer, so it has no message. */
static void check_silence(tn_status status, uint64_t seed) {
    bool answers = status == TN_OK || status == TN_E_INFEASIBLE || status == TN_E_STOPPED;
    if (answers && failure.message[0] != '\0')
        fail_msg("seed %" PRIu64 ": status %d and '%s'\n", seed, status, failure.message);
}

/* Runs alone, so that the optimum is one of runs. */
static bool check_runs(kit *k, uint64_t seed, uint64_t budget, uint32_t allow) {
    tn__pass_run run;
    tn__arena arena;
    kit_run_begin(&run, &arena, k, the_pass, budget, allow);
    failure = (tn_error){0};
    tn_status status = the_pass->solve(&run);
    check_silence(status, seed);
    uint64_t optimum = kit_optimum(&k->dag, budget, (run.allow & TN__ALLOW_ORDER) != 0);
    bool infeasible = status == TN_E_INFEASIBLE;
    if (status != TN_OK && !infeasible && status != TN_E_STOPPED && pass_takes(status))
        fail_msg("seed %" PRIu64 ": status %d %s\n", seed, status, failure.message);
    if (run.has_best) check_best(&run, seed);
    if (run.has_best && run.found.cost < optimum)
        fail_msg("seed %" PRIu64 ", budget %" PRIu64 ": cost %" PRIu64 " below the optimum %" PRIu64
                 "\n",
                 seed, budget, run.found.cost, optimum);
    bool may = (run.allow & TN__ALLOW_RECOMPUTE) != 0; /* else less is infeasible sooner */
    if (may && ((infeasible && optimum != UINT64_MAX) || run.bound > optimum))
        fail_msg("seed %" PRIu64 ", budget %" PRIu64 ": infeasible %d, bound %" PRIu64
                 ", optimum %" PRIu64 "\n",
                 seed, budget, infeasible, run.bound, optimum);
    if (may && run.least_bytes > 0 && run.least_bytes <= budget)
        assert_true(kit_optimum(&k->dag, run.least_bytes - 1, true) == UINT64_MAX);
    bool found = run.has_best;
    assert_true(found || status != TN_OK);
    kit_run_end(&run);
    return found;
}

static void no_pass_undercuts_an_optimum(void **state) {
    (void)state;
    uint32_t found = 0, cases = 0;
    for (uint64_t seed = 1; seed <= case_count(120, 12); seed++) {
        kit *k = seed % 2 == 0 ? kit_random_nodes(seed, 9) : kit_random_spiced(seed, 7);
        kit_finish(k, seed);
        uint64_t peak = keep_peak(k);
        for (uint64_t part = 4; part <= 7 && kit_is_tiny(&k->dag); part++, cases++)
            found += check_runs(k, seed, peak * part / 7,
                                TN__ALLOW_RECOMPUTE | (part % 2 == 0 ? TN__ALLOW_ORDER : 0));
        kit_free(k);
    }
    print_message("%s found a schedule in %u of %u cases\n", the_pass->name, found, cases);
}

/* Works that are too large to be solved by trying, with all that the pass models. */
static void what_a_pass_keeps_is_within_budget(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 80; seed++) {
        kit *k = kit_random_spiced(seed, 8 + (uint32_t)(seed % 16));
        kit_finish(k, seed);
        uint64_t peak = keep_peak(k);
        for (uint64_t part = 2; part <= 5; part++) {
            tn__pass_run run;
            tn__arena arena;
            kit_run_begin(&run, &arena, k, the_pass, peak * part / 5, UINT32_MAX);
            run.work_limit = 200000;
            run.host_budget = seed % 4 == 0 ? 6 : UINT64_MAX;
            failure = (tn_error){0};
            tn_status status = the_pass->solve(&run);
            check_silence(status, seed);
            if (run.has_best) check_best(&run, seed);
            assert_true(run.has_best || status != TN_OK);
            if (part == 5 && pass_takes(status)) assert_int_not_equal(status, TN_E_INFEASIBLE);
            kit_run_end(&run);
        }
        kit_free(k);
    }
}

static void a_pass_answers_the_same_twice(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        kit *k = kit_random_spiced(seed, 20);
        kit_finish(k, seed);
        uint64_t peak = keep_peak(k);
        tn__pass_run runs[2];
        tn__arena arenas[2];
        for (int i = 0; i < 2; i++) {
            kit_run_begin(&runs[i], &arenas[i], k, the_pass, peak * 3 / 4, UINT32_MAX);
            runs[i].work_limit = 50000;
            the_pass->solve(&runs[i]);
        }
        assert_int_equal(runs[0].has_best, runs[1].has_best);
        assert_int_equal(runs[0].best.count, runs[1].best.count);
        for (uint32_t i = 0; i < runs[0].best.count; i++) {
            assert_int_equal(runs[0].best.actions[i].kind, runs[1].best.actions[i].kind);
            assert_int_equal(runs[0].best.actions[i].what, runs[1].best.actions[i].what);
        }
        for (int i = 0; i < 2; i++) kit_run_end(&runs[i]);
        kit_free(k);
    }
}

/* Every request for memory fails in turn: nothing leaks, and the pass says so or does without. */
static void memory_that_runs_out_is_told(void **state) {
    (void)state;
    for (uint64_t seed = 2; seed <= 3; seed++) {
        tn_status status = TN_E_NO_MEMORY;
        for (uint64_t fail_at = 1; fail_at <= 100 && status != TN_OK; fail_at++) {
            kit *k = kit_random_nodes(seed, 9);
            faulty memory = {0};
            tn__pass_run run;
            tn__arena arena;
            kit_finish(k, seed);
            uint64_t peak = keep_peak(k);
            kit_run_begin(&run, &arena, k, the_pass, peak, UINT32_MAX);
            run.context = faulty_context(&memory);
            tn__arena_init(&arena, &run.context);
            tn__schedule_init(&run.best, &run.context);
            memory.fail_at = fail_at;
            status = the_pass->solve(&run);
            kit_run_end(&run);
            assert_int_equal(memory.held, 0);
            kit_free(k);
            if (!pass_takes(status) || status == TN_E_STOPPED) break;
            assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        }
    }
}

int main(int count, char **arguments) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_pass_undercuts_an_optimum),
        cmocka_unit_test(what_a_pass_keeps_is_within_budget),
        cmocka_unit_test(a_pass_answers_the_same_twice),
        cmocka_unit_test(memory_that_runs_out_is_told),
    };
    char name[64]; /* as people type it: the file's with hyphens */
    snprintf(name, sizeof name, "%s", count > 1 ? arguments[1] : "none");
    for (char *at = name; *at != '\0'; at++)
        if (*at == '_') *at = '-';
    the_pass = tn__pass_named(name);
    if (the_pass == NULL) return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
