/* test_bounds.c - the lower bound against the optimum of small problems, found by trying every
 * offset of every body; and against a count of live bytes, step by step. */
#include "count.h"
#include "kit.h"

typedef struct trial {
    const tn_problem *problem;
    uint64_t offsets[8];
    uint32_t count;
    uint64_t best;
} trial;

/* Tries all offsets below `best` for bodies 0 ... 7, one after the other (an odometer). */
static uint64_t optimum(const tn_problem *problem, uint64_t ceiling) {
    trial t = {.problem = problem, .count = tn_problem_count(problem), .best = ceiling};
    uint32_t depth = 0;
    for (uint32_t i = 0; i < t.count; i++) t.offsets[i] = UINT64_MAX;
    while (depth != UINT32_MAX) {
        const tn_body *body = tn_problem_body(problem, depth);
        bool pinned = (body->flags & TN_BODY_PINNED) != 0, first = t.offsets[depth] == UINT64_MAX;
        uint64_t at = first ? (pinned ? body->offset : 0) : t.offsets[depth] + body->alignment;
        bool fits = body->size == 0 ? first : at + body->size < t.best && (first || !pinned);
        t.offsets[depth] = fits ? at : UINT64_MAX;
        if (!fits) {
            depth--;
            continue;
        }
        bool clear = true;
        for (uint32_t i = 0; i < depth && clear; i++)
            clear = !kit_bodies_meet(problem, depth, at, i, t.offsets[i]);
        if (!clear) continue;
        if (depth + 1 < t.count) {
            depth++;
            continue;
        }
        uint64_t peak = 0;
        for (uint32_t i = 0; i < t.count; i++) {
            uint64_t end = t.offsets[i] + tn_problem_body(problem, i)->size;
            if (tn_problem_body(problem, i)->size > 0 && end > peak) peak = end;
        }
        t.best = peak;
    }
    return t.best;
}

static void the_bound_is_never_above_the_optimum(void **state) {
    (void)state;
    uint32_t tight = 0, cases = case_count(400, 40);
    for (uint64_t seed = 1; seed <= cases; seed++) {
        unsigned what = (unsigned)(seed % 8);
        tn_problem *problem = kit_random(seed, 2 + (uint32_t)(seed % 3), 9, 5, what);
        uint64_t bound = 0;
        tn_layout layout;
        assert_ok(tn_problem_lower_bound(problem, 0, &bound, NULL, &failure));
        assert_ok(tn_plan(problem, NULL, &layout, &failure));
        uint64_t best = optimum(problem, layout.peak + 1);
        if (bound > best || best > layout.peak)
            fail_msg("seed %llu: bound %llu, optimum %llu, plan %llu\n", (unsigned long long)seed,
                     (unsigned long long)bound, (unsigned long long)best,
                     (unsigned long long)layout.peak);
        tight += bound == best;
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
    print_message("the bound is the optimum in %u of %u cases\n", tight, cases);
    assert_true(tight > cases / 2);
}

/* "optimal" and "infeasible" are proofs: nothing may contradict them, and on problems this small
 * with plain buffers the search must come to one. */
static void exact_is_never_contradicted_by_trying_everything(void **state) {
    (void)state;
    uint32_t proved = 0, plain = 0;
    for (uint64_t seed = 1; seed <= case_count(600, 60); seed++) {
        unsigned what = (unsigned)(seed % 8);
        tn_problem *problem = kit_random(seed, 2 + (uint32_t)(seed % 4), 9, 5, what);
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        tn_layout layout, none = {0};
        options.planner = "exact";
        options.work_limit = 200000;
        assert_ok(tn_plan(problem, &options, &layout, &failure));
        uint64_t best = optimum(problem, layout.peak + 1);
        if (layout.verdict == TN_VERDICT_OPTIMAL ? layout.peak != best : layout.lower_bound > best)
            fail_msg("seed %llu: peak %llu, bound %llu, optimum %llu\n", (unsigned long long)seed,
                     (unsigned long long)layout.peak, (unsigned long long)layout.lower_bound,
                     (unsigned long long)best);
        proved += layout.verdict == TN_VERDICT_OPTIMAL;
        plain += !(what & KIT_PIECES);
        if (!(what & KIT_PIECES)) assert_int_equal(layout.verdict, TN_VERDICT_OPTIMAL);
        tn_layout_release(&layout);
        for (options.capacity = best; options.capacity + 2 > best && options.capacity > 0;
             options.capacity--) {
            tn_status status = tn_plan(problem, &options, &none, &failure);
            bool fits = options.capacity >= best;
            if ((status == TN_OK && !fits) || (status == TN_E_INFEASIBLE && fits))
                fail_msg("seed %llu, capacity %llu: %s\n", (unsigned long long)seed,
                         (unsigned long long)options.capacity, tn_status_name(status));
            if (!(what & KIT_PIECES)) assert_int_equal(status, fits ? TN_OK : TN_E_INFEASIBLE);
            tn_layout_release(&none);
        }
        tn_problem_destroy(problem);
    }
    print_message("proved %u of 600, %u of them of plain buffers\n", proved, plain);
}

/* Equal sizes and lives, but one window is half: taking the two for interchangeable loses 5. */
static void bodies_with_other_windows_are_no_twins(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    const tn_piece upper = {.first = -2, .last = 1, .lo = 1, .hi = 2},
                   middle[] = {{.first = -1, .last = 4, .lo = 1, .hi = 3},
                               {.first = 4, .last = 7, .lo = 2, .hi = 3}};
    const tn_body bodies[] = {{.size = 2, .pieces = &upper, .piece_count = 1},
                              {.size = 3, .pieces = middle, .piece_count = 2},
                              {.size = 2, .first = -2, .last = 1}};
    options.planner = "exact";
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (size_t i = 0; i < 3; i++) assert_ok(tn_problem_add(problem, &bodies[i], NULL, &failure));
    assert_int_equal(optimum(problem, 100), 5);
    assert_ok(tn_plan(problem, &options, &layout, &failure));
    assert_int_equal(layout.peak, 5);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

static void without_alignment_the_bound_is_the_peak_of_live_bytes(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(300, 30); seed++) {
        tn_problem *problem = kit_random(seed, 30, 1000, 20, KIT_PIECES);
        uint64_t bound, peak = 0;
        int64_t step, peak_step = 0;
        assert_ok(tn_problem_lower_bound(problem, 0, &bound, &step, &failure));
        for (int64_t t = -5; t < 40; t++) {
            uint64_t live = 0;
            for (uint32_t i = 0; i < tn_problem_count(problem); i++) {
                const tn_body *body = tn_problem_body(problem, i);
                for (uint32_t k = 0; k < body->piece_count; k++)
                    if (body->pieces[k].first <= t && t < body->pieces[k].last)
                        live += body->pieces[k].hi - body->pieces[k].lo;
            }
            if (live > peak) {
                peak = live;
                peak_step = t;
            }
        }
        assert_int_equal(bound, peak);
        if (peak > 0) assert_int_equal(step, peak_step);
        tn_problem_destroy(problem);
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bound_is_never_above_the_optimum),
        cmocka_unit_test(exact_is_never_contradicted_by_trying_everything),
        cmocka_unit_test(bodies_with_other_windows_are_no_twins),
        cmocka_unit_test(without_alignment_the_bound_is_the_peak_of_live_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
