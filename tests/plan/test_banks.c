/* test_banks.c - the choice of banks: valid, no worse than it must be, and "optimal" only when it
 * is.
 *
 * The judge knows nothing of planners: it goes through all sets of bodies, and for each through all
 * orders in which bodies are dropped to the lowest place; for plain bodies one of these is optimal.
 */
#include "count.h"
#include "kit.h"

#include <math.h>

enum { JUDGE_BODIES = 6 };

static bool meets(const tn_body *a, const tn_body *b) {
    return a->first < b->last && b->first < a->last;
}

static uint64_t lowest(const tn_problem *problem, const uint64_t *at, uint32_t placed,
                       uint32_t id) {
    const tn_body *body = tn_problem_body(problem, id);
    uint64_t best = 0;
    for (bool again = true; again;) {
        again = false;
        for (uint32_t k = 0; k < tn_problem_count(problem); k++) {
            const tn_body *other = tn_problem_body(problem, k);
            if (!(placed >> k & 1) || !meets(body, other)) continue;
            if (at[k] < best + body->size && best < at[k] + other->size) {
                best = at[k] + other->size;
                again = true;
            }
        }
    }
    return best;
}

static bool packs(const tn_problem *problem, uint64_t *at, uint32_t placed, uint32_t left,
                  uint64_t capacity) {
    if (left == 0) return true;
    for (uint32_t id = 0; id < tn_problem_count(problem); id++) {
        if (!(left >> id & 1)) continue;
        at[id] = lowest(problem, at, placed, id);
        if (at[id] + tn_problem_body(problem, id)->size > capacity) continue;
        if (packs(problem, at, placed | 1u << id, left & ~(1u << id), capacity)) return true;
    }
    return false;
}

/* The most traffic that the first bank can take. */
static uint64_t most_traffic(const tn_problem *problem, uint64_t capacity) {
    uint64_t best = 0, at[JUDGE_BODIES];
    for (uint32_t set = 0; set < 1u << tn_problem_count(problem); set++) {
        uint64_t traffic = 0;
        for (uint32_t id = 0; id < tn_problem_count(problem); id++)
            if (set >> id & 1) traffic += tn_problem_body(problem, id)->traffic;
        if (traffic > best && packs(problem, at, 0, set, capacity)) best = traffic;
    }
    return best;
}

static tn_problem *random_choice(uint64_t seed, uint32_t count, uint64_t capacity) {
    tn__random random = {.state = seed};
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    tn_bank fast = {.name = "fast", .capacity = capacity, .bytes_per_s = 8e9};
    tn_bank slow = {.name = "slow", .bytes_per_s = 5e8};
    assert_ok(tn_problem_set_bank(problem, 0, &fast, &failure));
    assert_ok(tn_problem_set_bank(problem, 1, &slow, &failure));
    for (uint32_t i = 0; i < count; i++) {
        tn_body body = {.size = 1 + kit_below(&random, 12), .flags = TN_BODY_ANY_BANK};
        body.first = (int64_t)kit_below(&random, 8);
        body.last = body.first + 1 + (int64_t)kit_below(&random, 6);
        body.traffic = 1 + kit_below(&random, 40);
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    }
    return problem;
}

static void small_choices_are_optimal_and_say_so(void **state) {
    (void)state;
    uint32_t optimal = 0, cases = case_count(400, 40);
    for (uint64_t seed = 1; seed <= cases; seed++) {
        uint64_t capacity = 8 + seed % 13;
        tn_problem *problem = random_choice(seed, JUDGE_BODIES, capacity);
        tn_layout layout;
        assert_ok(tn_plan(problem, NULL, &layout, &failure));
        uint64_t best = most_traffic(problem, capacity);
        if (layout.bank_traffic[0] > best ||
            (layout.verdict == TN_VERDICT_OPTIMAL && layout.bank_traffic[0] != best))
            fail_msg("seed %llu: traffic %llu, the best is %llu\n", (unsigned long long)seed,
                     (unsigned long long)layout.bank_traffic[0], (unsigned long long)best);
        assert_true(layout.bank_peak[0] <= capacity);
        optimal += layout.verdict == TN_VERDICT_OPTIMAL;
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
    assert_true(optimal * 20 >= cases * 19);
}

/* What the heuristic alone gives: a body in a third, slow bank without end keeps the search away.
 */
static void the_heuristic_stays_close_to_the_best_choice(void **state) {
    (void)state;
    uint64_t sum = 0, best_sum = 0, best_count = 0;
    for (uint64_t seed = 1; seed <= case_count(400, 40); seed++) {
        uint64_t capacity = 8 + seed % 13;
        tn_problem *problem = random_choice(seed, JUDGE_BODIES, capacity);
        tn_layout layout;
        uint64_t best = most_traffic(problem, capacity);
        tn_bank slower = {.name = "slower", .bytes_per_s = 1e8};
        assert_ok(tn_problem_set_bank(problem, 2, &slower, &failure));
        assert_ok(tn_plan(problem, NULL, &layout, &failure));
        assert_true(layout.bank_traffic[0] <= best);
        assert_int_equal(layout.bank_traffic[2], 0);
        sum += layout.bank_traffic[0];
        best_sum += best;
        best_count += layout.bank_traffic[0] == best;
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
    print_message("heuristic: %.2f %% of the best traffic, the best in %llu\n",
                  100.0 * (double)sum / (double)best_sum, (unsigned long long)best_count);
    assert_true((double)sum > 0.9 * (double)best_sum);
}

/* --- three banks: the seconds of all traffic --- */

enum { THREE_BODIES = 5, THREE_CHOICES = 243, THREE_MOST = 30 };
static const double three_speeds[] = {8e9, 2e9, 1e8};

static double three_seconds(const tn_problem *problem, const tn_bank_id *bank) {
    double seconds = 0;
    for (uint32_t i = 0; i < tn_problem_count(problem); i++)
        seconds += (double)tn_problem_body(problem, i)->traffic / three_speeds[bank[i]];
    return seconds;
}

/* Of all choices, and for each all orders: the least. */
static double three_least(const tn_problem *problem, const uint64_t *capacity) {
    double least = HUGE_VAL;
    for (uint32_t code = 0; code < THREE_CHOICES; code++) {
        uint64_t at[THREE_BODIES];
        tn_bank_id bank[THREE_BODIES];
        uint32_t rest = code, set[3] = {0};
        for (uint32_t i = 0; i < THREE_BODIES; i++, rest /= 3) {
            bank[i] = rest % 3;
            set[bank[i]] |= 1u << i;
        }
        double seconds = three_seconds(problem, bank);
        if (seconds < least && packs(problem, at, 0, set[0], capacity[0]) &&
            packs(problem, at, 0, set[1], capacity[1]))
            least = seconds;
    }
    return least;
}

/* The largest first, each in the fastest bank in which it has a place above the others. */
static double three_first_fit(const tn_problem *problem, const uint64_t *capacity) {
    uint64_t at[3][THREE_MOST];
    uint32_t placed[3] = {0}, done = 0, count = tn_problem_count(problem);
    tn_bank_id bank[THREE_MOST];
    for (uint32_t turn = 0; turn < count; turn++) {
        uint32_t next = UINT32_MAX;
        for (uint32_t i = 0; i < count; i++)
            if (!(done >> i & 1) &&
                (next == UINT32_MAX ||
                 tn_problem_body(problem, i)->size > tn_problem_body(problem, next)->size))
                next = i;
        for (bank[next] = 0; bank[next] < 2; bank[next]++) {
            at[bank[next]][next] = lowest(problem, at[bank[next]], placed[bank[next]], next);
            if (at[bank[next]][next] + tn_problem_body(problem, next)->size <= capacity[bank[next]])
                break;
        }
        placed[bank[next]] |= 1u << next;
        done |= 1u << next;
    }
    return three_seconds(problem, bank);
}

static tn_problem *three_problem(uint64_t seed, uint32_t count, const uint64_t *capacity) {
    static const char *const names[] = {"device", "host", "storage"};
    tn_problem *problem = random_choice(seed, count, capacity[0]);
    for (tn_bank_id b = 0; b < 3; b++) {
        tn_bank bank = {
            .name = names[b], .capacity = b < 2 ? capacity[b] : 0, .bytes_per_s = three_speeds[b]};
        assert_ok(tn_problem_set_bank(problem, b, &bank, &failure));
    }
    return problem;
}

/* The seconds of the plan, which keeps to the capacities, and is no worse than storage alone. */
static double three_plan(const tn_problem *problem, const uint64_t *capacity, uint64_t seed) {
    tn_layout layout;
    uint64_t all = 0;
    assert_ok(tn_plan(problem, NULL, &layout, &failure));
    for (uint32_t i = 0; i < tn_problem_count(problem); i++)
        all += tn_problem_body(problem, i)->traffic;
    double seconds = 0, storage = (double)all / three_speeds[2];
    for (tn_bank_id b = 0; b < 3; b++) seconds += (double)layout.bank_traffic[b] / three_speeds[b];
    for (tn_bank_id b = 0; b < 2; b++) assert_true(layout.bank_peak[b] <= capacity[b]);
    assert_true(fabs(three_seconds(problem, layout.bank) - seconds) <= 1e-9 * seconds);
    if (seconds > storage * (1 + 1e-9))
        fail_msg("seed %llu: %g s, storage alone %g\n", (unsigned long long)seed, seconds, storage);
    tn_layout_release(&layout);
    return seconds;
}

static void three_banks_take_little_more_than_the_least_time(void **state) {
    const uint32_t seeds = case_count(300, 30);
    double sum = 0, least_sum = 0, worst = 1;
    uint32_t least_count = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= seeds; seed++) {
        const uint64_t capacity[2] = {6 + seed % 11, 8 + seed % 17};
        tn_problem *problem = three_problem(seed, THREE_BODIES, capacity);
        double seconds = three_plan(problem, capacity, seed);
        double least = three_least(problem, capacity);
        if (seconds < least * (1 - 1e-9))
            fail_msg("seed %llu: %g s, but the least is %g\n", (unsigned long long)seed, seconds,
                     least);
        sum += seconds, least_sum += least;
        least_count += seconds <= least * (1 + 1e-9);
        if (seconds / least > worst) worst = seconds / least;
        tn_problem_destroy(problem);
    }
    print_message("three banks: %.4f of the least time in all, at most %.2f, the least in %u of "
                  "%u\n",
                  sum / least_sum, worst, least_count, seeds);
    assert_true(sum < 1.1 * least_sum);
}

static void three_banks_take_no_more_time_than_the_largest_first(void **state) {
    double sum = 0, simple_sum = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(400, 40); seed++) {
        const uint64_t capacity[2] = {10 + seed % 41, 20 + seed % 59};
        tn_problem *problem =
            three_problem(seed, (uint32_t)(6 + seed % (THREE_MOST - 5)), capacity);
        double seconds = three_plan(problem, capacity, seed);
        double simple = three_first_fit(problem, capacity);
        if (seconds > simple * (1 + 1e-9))
            fail_msg("seed %llu: %g s, the largest first takes %g\n", (unsigned long long)seed,
                     seconds, simple);
        sum += seconds, simple_sum += simple;
        tn_problem_destroy(problem);
    }
    print_message("three banks: %.4f of the time of the largest first\n", sum / simple_sum);
}

/* Judged body by body, with ties, pins, clocks, pieces and alignments besides. */
static bool is_valid(const tn_problem *problem, const tn_layout *layout) {
    for (tn_body_id a = 0; a < tn_problem_count(problem); a++) {
        const tn_body *body = tn_problem_body(problem, a);
        uint64_t offset = layout->offset[a], capacity;
        if (layout->bank[a] >= tn_problem_bank_count(problem)) return false;
        capacity = tn_problem_bank(problem, layout->bank[a])->capacity;
        if (!(body->flags & TN_BODY_ANY_BANK) && layout->bank[a] != body->bank) return false;
        if (body->size > 0 && capacity > 0 && offset + body->size > capacity) return false;
        if (offset % body->alignment != 0) return false;
        if ((body->flags & TN_BODY_PINNED) && offset != body->offset) return false;
        if ((body->flags & TN_BODY_TIED) && (offset != layout->offset[body->leader] + body->delta ||
                                             layout->bank[a] != layout->bank[body->leader]))
            return false;
        for (tn_body_id b = 0; b < a; b++) {
            const tn_body *other = tn_problem_body(problem, b);
            if (layout->bank[a] != layout->bank[b]) continue;
            if (kit_root(problem, a) == kit_root(problem, b)) continue;
            for (uint32_t i = 0; i < body->piece_count; i++)
                for (uint32_t k = 0; k < other->piece_count; k++)
                    if (kit_pieces_unordered(problem, &body->pieces[i], offset, &other->pieces[k],
                                             layout->offset[b]))
                        return false;
        }
    }
    return true;
}

static void every_planner_plans_what_chooses(void **state) {
    (void)state;
    uint32_t planned = 0, stopped = 0;
    for (uint32_t p = 0; p < tn_planner_count(); p++) {
        for (uint64_t seed = 1; seed <= case_count(128, 12); seed++) {
            unsigned what = (unsigned)(seed % (KIT_ALL + 1)) | KIT_BANKS | KIT_CHOICE;
            tn_problem *problem = kit_random(seed, 20, 40, 12, what);
            tn_plan_options options = TN_PLAN_OPTIONS_INIT;
            tn_layout layout = {0};
            options.planner = tn_planner_name(p);
            options.work_limit = 3000;
            tn_bank fast = {.name = "fast", .bytes_per_s = 10, .capacity = 60 + seed * 3};
            assert_ok(tn_problem_set_bank(problem, seed % 2, &fast, &failure));
            tn_status status = tn_plan(problem, &options, &layout, &failure);
            if (status == TN_OK && !is_valid(problem, &layout))
                fail_msg("%s, seed %llu: not valid\n", options.planner, (unsigned long long)seed);
            if (status != TN_OK && status != TN_E_STOPPED && status != TN_E_INFEASIBLE &&
                status != TN_E_UNSUPPORTED)
                fail_msg("%s, seed %llu: %s\n", options.planner, (unsigned long long)seed,
                         failure.message);
            planned += status == TN_OK;
            stopped += status == TN_E_STOPPED;
            tn_layout_release(&layout);
            tn_problem_destroy(problem);
        }
    }
    assert_true(planned > 10 * stopped);
}

static void what_fits_nowhere_is_infeasible(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout = {0};
    tn_bank banks[] = {{.name = "a", .capacity = 100, .bytes_per_s = 2},
                       {.name = "b", .capacity = 50, .bytes_per_s = 1}};
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    assert_ok(tn_problem_offer_banks(problem, banks, 2, &failure));
    for (int i = 0; i < 3; i++) {
        tn_body body = {.size = 50, .last = 1, .flags = TN_BODY_ANY_BANK};
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    }
    assert_ok(tn_plan(problem, NULL, &layout, &failure));
    assert_int_equal(layout.bank_peak[0], 100);
    assert_int_equal(layout.bank_peak[1], 50);
    tn_layout_release(&layout);
    tn_body more = {.size = 1, .last = 1, .flags = TN_BODY_ANY_BANK};
    assert_ok(tn_problem_add(problem, &more, NULL, &failure));
    assert_int_equal(tn_plan(problem, NULL, &layout, &failure), TN_E_INFEASIBLE);
    more = (tn_body){.size = 101, .first = 5, .last = 6, .flags = TN_BODY_ANY_BANK};
    assert_ok(tn_problem_add(problem, &more, NULL, &failure));
    assert_int_equal(tn_plan(problem, NULL, &layout, &failure), TN_E_INFEASIBLE);
    assert_null(layout.offset);
    tn_problem_destroy(problem);
}

static void offered_banks_free_what_nothing_holds(void **state) {
    (void)state;
    tn_problem *problem;
    tn_bank banks[] = {{.name = "sram", .capacity = 64}, {.name = "dram"}};
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    tn_body bodies[] = {
        {.size = 8, .last = 1},
        {.size = 8, .last = 1, .flags = TN_BODY_PINNED},
        {.size = 8, .last = 1},
        {.size = 8, .last = 1, .flags = TN_BODY_TIED | TN_BODY_PINNED, .leader = 2, .offset = 64},
    };
    for (size_t i = 0; i < 4; i++) assert_ok(tn_problem_add(problem, &bodies[i], NULL, &failure));
    assert_ok(tn_problem_offer_banks(problem, banks, 2, &failure));
    for (tn_body_id i = 0; i < 4; i++)
        assert_int_equal((tn_problem_body(problem, i)->flags & TN_BODY_ANY_BANK) != 0, i == 0);
    banks[0].capacity = 128;
    assert_ok(tn_problem_offer_banks(problem, banks, 1, &failure));
    assert_int_equal(tn_problem_bank(problem, 0)->capacity, 128);
    banks[0].name = "other";
    assert_int_equal(tn_problem_offer_banks(problem, banks, 2, &failure), TN_E_INVALID);
    tn_bank wrong = {.name = "x", .bytes_per_s = -1};
    assert_int_equal(tn_problem_set_bank(problem, 0, &wrong, &failure), TN_E_INVALID);
    tn_problem_destroy(problem);
}

static void running_out_of_memory_leaves_nothing_behind(void **state) {
    (void)state;
    tn_problem *problem = random_choice(7, 12, 20);
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t fail_at = 1; status != TN_OK && fail_at < 100000; fail_at += 1 + fail_at / 50) {
        faulty memory = {.fail_at = fail_at};
        tn_context context = faulty_context(&memory);
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        tn_layout layout = {0};
        options.context = &context;
        options.planner = "greedy-by-size";
        status = tn_plan(problem, &options, &layout, &failure);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        assert_int_equal(memory.held, 0);
        tn_layout_release(&layout);
    }
    assert_int_equal(status, TN_OK);
    tn_problem_destroy(problem);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_choices_are_optimal_and_say_so),
        cmocka_unit_test(the_heuristic_stays_close_to_the_best_choice),
        cmocka_unit_test(three_banks_take_little_more_than_the_least_time),
        cmocka_unit_test(three_banks_take_no_more_time_than_the_largest_first),
        cmocka_unit_test(every_planner_plans_what_chooses),
        cmocka_unit_test(what_fits_nowhere_is_infeasible),
        cmocka_unit_test(offered_banks_free_what_nothing_holds),
        cmocka_unit_test(running_out_of_memory_leaves_nothing_behind),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
