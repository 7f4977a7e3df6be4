/* test_chains.c - chain passes against what is known: `revolve` against Griewank and Walther's
 * formula, `rotor` against the complete search; and what is no chain is refused. */
#include "count.h"
#include "kit_judge.h"
#include "known.h"

#include "fit/budget/algorithms/chain.h"

static tn_status solve(kit *k, const char *pass, uint64_t budget, uint64_t *cost) {
    tn__pass_run run;
    tn__arena arena;
    kit_run_begin(&run, &arena, k, tn__pass_named(pass), budget, TN__ALLOW_RECOMPUTE);
    tn_status status = run.pass->solve(&run);
    *cost = run.has_best ? run.found.cost : UINT64_MAX;
    if (run.has_best && run.best.count < 150) {
        judged own = kit_judge(&k->dag, &run.best);
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
        for (uint64_t slots = 1; slots <= n + 1; slots++)
            assert_int_equal(tn__revolve_steps(&context, n + 1, slots),
                             known_reversal(n + 1, slots));
}

/* At one budget. What runs again in `exact` may be anything; in `rotor` it goes forward. */
static bool rotor_is_exact(kit *k, const char *what, uint64_t seed, uint64_t budget) {
    uint64_t cost, best;
    tn_status exact = solve(k, "exact", budget, &best), rotor = solve(k, "rotor", budget, &cost);
    if ((exact == TN_OK) != (rotor == TN_OK) || (exact == TN_OK && cost != best))
        fail_msg("%s %" PRIu64 ", budget %" PRIu64 ": rotor %d %" PRIu64 ", exact %d %" PRIu64 "\n",
                 what, seed, budget, rotor, cost, exact, best);
    return exact == TN_OK;
}

static kit *random_chain(uint64_t seed, uint32_t most) {
    tn__random r = {seed};
    uint32_t n = 3 + (uint32_t)tn__random_below(&r, most - 2);
    uint64_t costs[KIT_JOBS], bytes[KIT_JOBS];
    for (uint32_t j = 0; j <= 2 * n; j++) {
        costs[j] = j < n ? 1 + tn__random_below(&r, 20) : 2 * costs[2 * n - j];
        bytes[j] = j < n ? 1 + tn__random_below(&r, 10) : bytes[2 * n - j];
        if (j == n) costs[j] = bytes[j] = 1;
    }
    kit *k = known_chain(n, costs, bytes);
    kit_end(k);
    return k;
}

static void rotor_finds_the_optimum_of_unequal_layers(void **state) {
    (void)state;
    uint32_t cases = 0, seeds = 0;
    for (uint32_t i = 0; i < 3; i++) {
        kit *k = known_kit(&known_cases[i]);
        kit_end(k);
        for (int b = 0; b < 7; b++) {
            uint64_t cost;
            assert_ok(solve(k, "rotor", known_cases[i].optima[b].budget, &cost));
            assert_int_equal(cost, known_cases[i].optima[b].cost);
        }
        kit_free(k);
    }
    for (uint64_t seed = 1; seed <= case_count(300, 30); seed++, seeds++) {
        kit *k = random_chain(seed, seed % 10 == 0 ? 10 : 7);
        for (uint64_t budget = 12; budget < 60; budget += 3 + seed % 5)
            cases += rotor_is_exact(k, "chain", seed, budget);
        kit_free(k);
    }
    for (uint64_t seed = 5; seed < 600; seed += 5) { /* a loss that goes back, other costs */
        kit *k = kit_random_nodes(seed, 19);
        kit_end(k);
        tn__chain chain;
        bool is_chain = tn__chain_of(&k->dag, &k->arena, &chain, &failure) == TN_OK;
        for (uint64_t budget = 5; is_chain && budget < 100; budget += 3)
            cases += rotor_is_exact(k, "works", seed, budget);
        kit_free(k);
    }
    print_message("%u budgets of %u chains and of others\n", cases, seeds);
    assert_true(cases > 1500);
}

enum { LONG_MOST = 10000, LONG_JOBS = 2 * LONG_MOST + 1 };

/* n layers, a loss, and back: of unequal cost and size, or all 1. */
static kit *long_chain(uint32_t n, bool is_unit, uint64_t *sum) {
    static tn__dag_job jobs[LONG_JOBS];
    static tn__dag_value values[LONG_JOBS];
    static uint32_t inputs[LONG_JOBS][3], outputs[LONG_JOBS];
    tn__random r = {42};
    *sum = 0;
    for (uint32_t j = 0; j <= 2 * n; j++) {
        uint32_t count = 0, layer = j <= n ? j : 2 * n - j;
        if (j > 0) inputs[j][count++] = j - 1;
        if (j > n) inputs[j][count++] = layer;
        if (j > n + 1 && !is_unit) inputs[j][count++] = layer + 1;
        outputs[j] = j;
        uint64_t bytes = is_unit ? 1 : 1000 + tn__random_below(&r, 100000);
        values[j] = (tn__dag_value){.bytes = j <= n ? bytes : values[layer].bytes,
                                    .tensor = TN_NONE,
                                    .flags = j == 2 * n ? TN__VALUE_KEPT : 0};
        *sum += j < n ? values[j].bytes : 0;
        uint64_t cost = is_unit ? 1 : 1 + tn__random_below(&r, 50);
        jobs[j] = (tn__dag_job){.job = {.op = TN_NONE,
                                        .flags = TN__JOB_REPEATS,
                                        .cost = cost,
                                        .recompute_cost = cost,
                                        .input_count = count,
                                        .output_count = 1,
                                        .inplace = TN_NONE},
                                .inputs = inputs[j],
                                .outputs = &outputs[j]};
    }
    kit *k = kit_begin();
    assert_ok(tn__dag_make(&k->arena, jobs, 2 * n + 1, values, 2 * n + 1, &k->dag, &failure));
    return k;
}

/* Within budget, and no cheaper than all once. */
static void long_chains_are_solved(void **state) {
    (void)state;
    uint64_t sum;
    kit *k = long_chain(1000, false, &sum);
    for (uint64_t part = 2; part <= 32; part *= 2) {
        uint64_t cost;
        double start = tn__clock_s();
        tn_status status = solve(k, "rotor", sum / part, &cost);
        print_message("1000 layers in 1/%d of the bytes: status %d, cost %.4f of once, %.2f s\n",
                      (int)part, status, (double)cost / (double)k->dag.cost, tn__clock_s() - start);
        assert_true(status == TN_OK && cost >= k->dag.cost && cost < 3 * k->dag.cost);
    }
    kit_free(k);
}

static void long_unit_chains_replay_as_the_formula_says(void **state) {
    (void)state;
    static const uint64_t budgets[] = {8, 30, 200, 5000, 9990};
    for (uint32_t n = 1000; n <= LONG_MOST; n *= 10) {
        uint64_t sum, cost;
        kit *k = long_chain(n, true, &sum);
        for (size_t i = 0; i < sizeof budgets / sizeof *budgets && budgets[i] <= n + 2; i++) {
            assert_ok(solve(k, "revolve", budgets[i], &cost));
            assert_int_equal(cost, n + 1 + known_reversal(n + 1, budgets[i] - 2));
        }
        kit_free(k);
    }
}

/* Few slots for many layers: more than the hundred places at which it splits first. */
static void few_slots_are_enough_for_long_chains(void **state) {
    (void)state;
    static const uint64_t budgets[] = {5, 6, 8, 12, 20, 40, 100};
    for (uint32_t n = 300; n <= 1000; n += 700) {
        uint64_t sum, cost;
        kit *k = long_chain(n, true, &sum);
        assert_int_equal(solve(k, "rotor", 0, &cost), TN_E_STOPPED); /* and it ends */
        for (size_t i = 0; i < sizeof budgets / sizeof *budgets; i++) {
            uint64_t best = n + 1 + known_reversal(n + 1, budgets[i] - 2);
            assert_ok(solve(k, "rotor", budgets[i], &cost));
            print_message("%u layers, %" PRIu64 " slots: %.4f of the formula\n", n, budgets[i],
                          (double)cost / (double)best);
            assert_true(cost >= best && (double)cost < 1.6 * (double)best);
        }
        kit_free(k);
    }
}

/* The default asks who is for chains: none of them is better. */
static void joint_is_as_good_on_chains(void **state) {
    (void)state;
    static const char *const passes[] = {"revolve", "rotor"};
    for (int unit = 0; unit < 2; unit++) {
        uint64_t sum, found, cost;
        kit *k = long_chain(150, unit, &sum);
        for (uint64_t part = 4; part <= 40; part *= 3) {
            solve(k, "joint", sum / part, &found);
            for (int p = 0; p < 2; p++) {
                solve(k, passes[p], sum / part, &cost);
                if (found > cost)
                    fail_msg("1/%d of the bytes: joint %" PRIu64 ", %s %" PRIu64, (int)part, found,
                             passes[p], cost);
            }
        }
        kit_free(k);
    }
}

/* Chen's own division of VGG19, as Checkmate's authors have it, leaves budget unused. */
static void sublinear_is_no_worse_than_chen_on_vgg(void **state) {
    (void)state;
    kit *k = known_vgg(known_vgg19);
    tn__pass_run run;
    tn__arena arena;
    kit_end(k);
    kit_run_begin(&run, &arena, k, tn__pass_named("sublinear"), 69447584, TN__ALLOW_RECOMPUTE);
    assert_ok(run.pass->solve(&run));
    print_message("VGG19: %" PRIu64 " in %" PRIu64 " bytes\n", run.found.cost, run.found.peak);
    assert_true(run.found.cost <= 72512667648 && run.found.peak <= 69447584);
    kit_run_end(&run);
    kit_free(k);
}

/* A budget above the least is used: a slot more is a layer less to compute again, until none is. */
static void sublinear_uses_its_budget(void **state) {
    (void)state;
    uint64_t sum, before = UINT64_MAX, least = 0;
    kit *k = long_chain(64, true, &sum);
    for (uint64_t budget = 8; budget <= 70; budget++) {
        uint64_t cost;
        if (solve(k, "sublinear", budget, &cost) != TN_OK) {
            assert_int_equal(before, UINT64_MAX); /* nor did it with less */
            continue;
        }
        if (least == 0) least = budget;
        if (cost > before || (budget > 24 && before > 129 && cost >= before))
            fail_msg("%d slots: %d runs, %d with a slot less", (int)budget, (int)cost, (int)before);
        if ((budget == 24 && cost > 171) || (budget == 34 && cost > 161))
            fail_msg("%d slots: %d runs", (int)budget, (int)cost);
        before = cost;
    }
    print_message("from %d slots on\n", (int)least);
    assert_int_equal(before, 129); /* 64 layers, the loss, and back */
    assert_true(least <= 24);
    kit_free(k);
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
        tn_status status = tn__chain_of(&k->dag, &k->arena, &chain, &failure);
        bool is_training = k->job_count > 3 && k->jobs[k->job_count - 1].job.input_count > 1;
        if (seed % KIT_SHAPES == KIT_CHAIN && is_training) assert_int_equal(status, TN_OK);
        kit_free(k);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revolve_is_optimal_on_unit_chains),
        cmocka_unit_test(splits_of_long_chains_add_up_to_the_formula),
        cmocka_unit_test(rotor_finds_the_optimum_of_unequal_layers),
        cmocka_unit_test(long_chains_are_solved),
        cmocka_unit_test(few_slots_are_enough_for_long_chains),
        cmocka_unit_test(joint_is_as_good_on_chains),
        cmocka_unit_test(long_unit_chains_replay_as_the_formula_says),
        cmocka_unit_test(sublinear_is_no_worse_than_chen_on_vgg),
        cmocka_unit_test(sublinear_uses_its_budget),
        cmocka_unit_test(what_is_no_chain_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
