/* test_chains.c - chain passes against what is known: `revolve` against Griewank and Walther's
 * formula, `rotor` against the complete search; and what is no chain is refused. */
#include "kit_judge.h"
#include "known.h"

#include "budget/chain.h"

static tn_status solve(kit *k, const char *pass, uint64_t budget, uint64_t *cost) {
    tn__pass_run run;
    tn__arena arena;
    kit_run_begin(&run, &arena, k, tn__pass_named(pass), budget, TN__ALLOW_RECOMPUTE);
    tn_status status = run.pass->solve(&run);
    *cost = run.has_best ? run.found.cost : UINT64_MAX;
    if (run.has_best && run.best.count < 150) {
        judged own = kit_judge(&k->work, &run.best);
        assert_true(own.is_valid && own.peak <= budget && own.cost == run.found.cost);
    }
    kit_run_end(&run);
    return status;
}

static void revolve_is_optimal_on_unit_chains(void **state) {
    (void)state;
    for (uint32_t n = 2; n <= 76; n += n < 20 ? 1 : 7) {
        kit *k = kit_unit_chain(n);
        kit_end(k);
        for (uint64_t budget = 2; budget <= n + 3; budget++) {
            uint64_t cost, optimum = budget > 2 ? n + 1 + known_reversal(n + 1, budget - 2) : 0;
            tn_status status = solve(k, "revolve", budget, &cost);
            if (budget == 2) assert_int_equal(status, TN_E_STOPPED);
            if (budget > 2 && cost != optimum)
                fail_msg("n %u, budget %" PRIu64 ": %" PRIu64 ", optimum %" PRIu64 "\n", n, budget,
                         cost, optimum);
        }
        kit_free(k);
    }
}

static void splits_of_long_chains_add_up_to_the_formula(void **state) {
    (void)state;
    tn_context context = tn__context(NULL);
    for (uint64_t n = 100; n <= 10000; n *= 10)
        for (uint64_t slots = 1; slots <= n + 1;
             slots += n <= 1000 || slots < 200 ? 1 : 1 + slots / 50)
            assert_int_equal(tn__revolve_steps(&context, n + 1, slots),
                             known_reversal(n + 1, slots));
}

static void what_is_no_chain_is_refused(void **state) {
    (void)state;
    uint64_t cost;
    kit *k = known_kit(&known_cases[3]); /* residual */
    kit_end(k);
    assert_int_equal(solve(k, "revolve", 100, &cost), TN_E_UNSUPPORTED);
    kit_free(k);
    for (uint64_t seed = 0; seed < 60; seed++) {
        k = kit_random_nodes(seed, 21);
        kit_end(k);
        tn__chain chain;
        tn_status status = tn__chain_of(&k->work, &k->arena, &chain, &failure);
        bool is_training = k->job_count > 3 && k->jobs[k->job_count - 1].job.input_count > 1;
        if (seed % KIT_SHAPES == KIT_CHAIN && is_training) assert_int_equal(status, TN_OK);
        kit_free(k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revolve_is_optimal_on_unit_chains),
        cmocka_unit_test(splits_of_long_chains_add_up_to_the_formula),
        cmocka_unit_test(what_is_no_chain_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
