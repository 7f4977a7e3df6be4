/* test_truth.c - what `exact` proves against optima that others have proved: chains of unit size
 * by Griewank and Walther's formula, chains and residual graphs by integer programs, VGG by
 * Checkmate's authors; the same from the file of all of them, where it is; small random works by
 * trying everything; and least budgets, one byte below which there is nothing. */
#include "kit_judge.h"
#include "known.h"

static void check(kit *k, const char *name, uint64_t budget, uint64_t optimum, uint32_t allow) {
    tn__pass_run run;
    tn__arena arena;
    double start = tn__clock_s();
    kit_run_begin(&run, &arena, k, tn__pass_named("exact"), budget, allow);
    tn_status status = run.pass->solve(&run);
    double seconds = tn__clock_s() - start;
    if (seconds > 1) print_message("%s at %" PRIu64 ": %.1f s\n", name, budget, seconds);
    bool feasible = optimum != UINT64_MAX;
    if (status != (feasible ? TN_OK : TN_E_INFEASIBLE))
        fail_msg("%s at %" PRIu64 ": %d %s\n", name, budget, status, failure.message);
    if (feasible && (run.found.cost != optimum || run.bound != optimum))
        fail_msg("%s at %" PRIu64 ": cost %" PRIu64 ", bound %" PRIu64 ", optimum %" PRIu64 "\n",
                 name, budget, run.found.cost, run.bound, optimum);
    if (feasible) {
        judged own = kit_judge(&k->dag, &run.best);
        assert_true(own.is_valid && own.peak <= budget && own.cost == optimum);
    }
    kit_run_end(&run);
}

static void check_both(kit *k, const char *name, uint64_t budget, uint64_t optimum) {
    check(k, name, budget, optimum, TN__ALLOW_RECOMPUTE);
    check(k, name, budget, optimum, TN__ALLOW_RECOMPUTE | TN__ALLOW_ORDER);
}

static void unit_chains_cost_what_the_formula_says(void **state) {
    (void)state;
    for (uint32_t n = 2; n <= 16; n++) {
        kit *k = kit_unit_chain(n);
        kit_end(k);
        check_both(k, "unit chain", 2, UINT64_MAX);
        for (uint64_t budget = 3; budget <= n + 3; budget++)
            check_both(k, "unit chain", budget, n + 1 + known_reversal(n + 1, budget - 2));
        kit_free(k);
    }
}

static void what_integer_programs_proved_is_proved(void **state) {
    (void)state;
    for (size_t i = 0; i < KNOWN_CASES; i++) {
        kit *k = known_kit(&known_cases[i]);
        kit_end(k);
        for (int b = 0; b < 8 && known_cases[i].optima[b].budget > 0; b++)
            check_both(k, known_cases[i].name, known_cases[i].optima[b].budget,
                       known_cases[i].optima[b].cost);
        kit_free(k);
    }
}

static void vgg_is_as_the_authors_of_checkmate_found(void **state) {
    (void)state;
    static const known_optimum of_19[] = {
        {51380223, UINT64_MAX},  {51380224, 58982891520}, {53120140, 58982891520},
        {57206304, 58982891520}, {61292472, 58896187392}, {81723296, 58896187392},
    };
    static const known_optimum of_16[] = {
        {51380223, UINT64_MAX},
        {53553492, 46497497088},
        {57378744, 46410792960},
        {61203992, 46410792960},
    };
    kit *vgg19 = known_vgg(known_vgg19), *vgg16 = known_vgg(known_vgg16);
    kit_end(vgg19);
    kit_end(vgg16);
    for (size_t i = 0; i < sizeof of_19 / sizeof *of_19; i++)
        check_both(vgg19, "VGG19", of_19[i].budget, of_19[i].cost);
    for (size_t i = 0; i < sizeof of_16 / sizeof *of_16; i++)
        check_both(vgg16, "VGG16", of_16[i].budget, of_16[i].cost);
    kit_free(vgg19);
    kit_free(vgg16);
}

/* --- the file --- */

/* The numbers between a key's brackets. */
static uint32_t file_numbers(const char *from, const char *key, uint64_t *numbers, uint32_t room) {
    const char *at = strstr(from, key);
    uint32_t count = 0;
    int depth = 0;
    assert_non_null(at);
    for (at = strchr(at, '['); at != NULL && *at != '\0';) {
        if (*at == '[') depth++;
        if (*at == ']' && --depth == 0) break;
        if (*at < '0' || *at > '9') {
            at++;
            continue;
        }
        assert_true(count < room);
        numbers[count++] = strtoull(at, (char **)(uintptr_t)&at, 10);
    }
    return count;
}

static uint32_t file_case(const char *from, const char *end) {
    uint64_t costs[KIT_JOBS], bytes[KIT_JOBS], pairs[1024];
    uint32_t edges[512][2], checked = 0;
    uint32_t count = file_numbers(from, "\"cpu\"", costs, KIT_JOBS);
    assert_int_equal(count, file_numbers(from, "\"ram\"", bytes, KIT_JOBS));
    uint32_t edge_count = file_numbers(from, "\"edges\"", pairs, 1024) / 2;
    for (uint32_t e = 0; e < 2 * edge_count; e++) edges[e / 2][e % 2] = (uint32_t)pairs[e];
    kit *k = kit_nodes(costs, bytes, count, edges, edge_count);
    kit_end(k);
    for (const char *at = strstr(from, "\"budget\""); at != NULL && at < end;
         at = strstr(at + 1, "\"budget\"")) {
        const char *exact = strstr(at, "\"exact\"");
        assert_non_null(exact);
        exact += strcspn(exact, ":") + 1;
        exact += strspn(exact, " \n");
        uint64_t budget = strtoull(at + strcspn(at, "0123456789"), NULL, 10);
        uint64_t optimum = *exact == '"' ? UINT64_MAX : strtoull(exact, NULL, 10);
        check_both(k, "of the file", budget, optimum);
        checked++;
    }
    kit_free(k);
    return checked;
}

static void every_pair_of_the_file_is_proved(void **state) {
    (void)state;
    tn__file file;
    const char *path = TENURE_SOURCE_DIR "/../shared/reference/checkmate_truth.json";
    if (tn__file_map(path, &file, NULL) != TN_OK) {
        printf("SKIP: shared/reference/checkmate_truth.json is not there\n");
        skip();
    }
    char *text = malloc(file.size + 1);
    uint32_t cases = 0, checked = 0;
    assert_non_null(text);
    memcpy(text, file.bytes, file.size);
    text[file.size] = '\0';
    tn__file_unmap(&file);
    for (const char *at = strstr(text, "\"name\""); at != NULL; cases++) {
        const char *next = strstr(at + 1, "\"name\"");
        checked += file_case(at, next != NULL ? next : text + strlen(text));
        at = next;
    }
    print_message("%u budgets of %u graphs\n", checked, cases);
    assert_true(cases >= 6 && checked >= 40);
    free(text);
}

/* --- random works --- */

static uint64_t least_by_trying(kit *k, uint64_t most, bool free_order) {
    uint64_t least = 0;
    while (least < most) {
        uint64_t middle = least + (most - least) / 2;
        if (kit_optimum(&k->dag, middle, free_order) == UINT64_MAX)
            least = middle + 1;
        else
            most = middle;
    }
    return least;
}

static void exact_is_what_trying_everything_finds(void **state) {
    (void)state;
    uint32_t cases = 0, harder = 0, infeasible = 0;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        kit *k = seed % 2 == 0 ? kit_random_nodes(seed, 8) : kit_random_spiced(seed, 6);
        bool orders = seed / 2 % 2 == 0;
        kit_finish(k, seed);
        if (k->dag.job_count + k->dag.value_count > 16) { /* trying takes long */
            kit_free(k);
            continue;
        }
        uint32_t allow = TN__ALLOW_RECOMPUTE | (orders ? TN__ALLOW_ORDER : 0);
        uint64_t least = least_by_trying(k, 100, orders);
        for (uint64_t budget = least > 1 ? least - 2 : 0; budget < least + 4; budget++, cases++) {
            uint64_t optimum = kit_optimum(&k->dag, budget, orders);
            char name[40];
            snprintf(name, sizeof name, "seed %d", (int)seed);
            check(k, name, budget, optimum, allow);
            harder += optimum != UINT64_MAX && optimum > k->dag.cost;
            infeasible += optimum == UINT64_MAX;
        }
        tn__pass_run run;
        tn__arena arena;
        kit_run_begin(&run, &arena, k, tn__pass_named("exact"), least > 0 ? least - 1 : 0, allow);
        if (least > 0 && run.pass->solve(&run) == TN_E_INFEASIBLE)
            assert_int_equal(run.least_bytes, least);
        kit_run_end(&run);
        kit_free(k);
    }
    print_message("%u cases, %u with work again, %u infeasible\n", cases, harder, infeasible);
    assert_true(harder > cases / 15 && infeasible > cases / 10);
}

/* With little work allowed, the bound is proved all the same. */
static void a_search_that_is_stopped_bounds_the_optimum(void **state) {
    (void)state;
    kit *k = known_kit(&known_cases[2]);
    uint64_t before = 0;
    kit_end(k);
    for (uint64_t limit = 1; limit < 1000000; limit *= 10) {
        tn__pass_run run;
        tn__arena arena;
        kit_run_begin(&run, &arena, k, tn__pass_named("exact"), 40, TN__ALLOW_RECOMPUTE);
        run.work_limit = limit;
        tn_status status = run.pass->solve(&run);
        assert_true(status == TN_OK || status == TN_E_STOPPED);
        assert_true(run.bound <= 534 && run.bound >= before && run.bound >= k->dag.cost);
        before = run.bound;
        kit_run_end(&run);
    }
    kit_free(k);
}

/* The only way costs more than is counted: that there is none is not said. */
static void costs_beyond_what_is_counted_prove_nothing(void **state) {
    (void)state;
    kit *k = kit_unit_chain(8);
    for (uint32_t j = 0; j < k->job_count; j++)
        k->jobs[j].job.cost = k->jobs[j].job.recompute_cost = UINT64_C(1) << 58;
    kit_end(k);
    check(k, "dear chain", 2, UINT64_MAX, TN__ALLOW_RECOMPUTE);
    check(k, "dear chain", 5, UINT64_C(22) << 58, TN__ALLOW_RECOMPUTE);
    for (int orders = 0; orders < 2; orders++) {
        tn__pass_run run;
        tn__arena arena;
        uint32_t allow = TN__ALLOW_RECOMPUTE | (orders ? TN__ALLOW_ORDER : 0);
        kit_run_begin(&run, &arena, k, tn__pass_named("exact"), 3, allow);
        assert_int_equal(run.pass->solve(&run), TN_E_STOPPED);
        assert_true(!run.has_best && run.least_bytes <= 3);
        kit_run_end(&run);
    }
    kit_free(k);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unit_chains_cost_what_the_formula_says),
        cmocka_unit_test(what_integer_programs_proved_is_proved),
        cmocka_unit_test(vgg_is_as_the_authors_of_checkmate_found),
        cmocka_unit_test(every_pair_of_the_file_is_proved),
        cmocka_unit_test(exact_is_what_trying_everything_finds),
        cmocka_unit_test(a_search_that_is_stopped_bounds_the_optimum),
        cmocka_unit_test(costs_beyond_what_is_counted_prove_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
