/* test_search.c - the decision search and its windows, against every permutation. */
#include "count.h"
#include "kit.h"
#include "plan/search/search.h"

#define SEARCH_BODIES 6u
#define SEARCH_SLOTS 7u

typedef struct search_case {
    tn__search_body bodies[SEARCH_BODIES];
    tn__search_piece pieces[SEARCH_BODIES];
    tn__search_conflict conflicts[SEARCH_BODIES * SEARCH_BODIES];
    tn__search_input input;
} search_case;

/* Plain bodies of random lives and sizes, some aligned; cross: two that never meet conflict. */
static void make_case(search_case *made, uint64_t seed, bool cross) {
    tn__random random = {.state = seed};
    uint32_t n = 2 + (uint32_t)tn__random_below(&random, SEARCH_BODIES - 1), at = 0;
    uint32_t x = (uint32_t)tn__random_below(&random, n), y = (uint32_t)tn__random_below(&random, n);
    *made = (search_case){.input = {.count = n, .slot_count = SEARCH_SLOTS, .complete = true}};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t first = (uint32_t)tn__random_below(&random, SEARCH_SLOTS);
        uint32_t last = first + 1 + (uint32_t)tn__random_below(&random, SEARCH_SLOTS - first);
        uint64_t size = 1 + tn__random_below(&random, 5);
        made->pieces[i] = (tn__search_piece){first, last, 0, size};
        made->bodies[i] = (tn__search_body){.size = size,
                                            .alignment = tn__random_below(&random, 3) == 0 ? 2 : 1,
                                            .pin = TN__SEARCH_FREE,
                                            .span = last - first,
                                            .area = (last - first) * size,
                                            .first = first,
                                            .last = last,
                                            .piece_first = i,
                                            .piece_count = 1};
    }
    for (uint32_t i = 0; i < n; i++) {
        tn__search_body *a = &made->bodies[i];
        a->conflict_first = at;
        for (uint32_t k = 0; k < n; k++) {
            const tn__search_body *b = &made->bodies[k];
            bool crossed = cross && x != y && ((i == x && k == y) || (i == y && k == x));
            bool apart = a->first >= b->last || b->first >= a->last;
            if (i == k || (apart && !crossed)) continue;
            if (apart) made->input.crosses = true;
            made->conflicts[at++] = (tn__search_conflict){k, a->size, b->size};
        }
        a->conflict_count = at - a->conflict_first;
        tn__search_sort(made->conflicts + a->conflict_first, a->conflict_count);
    }
    made->input.bodies = made->bodies;
    made->input.pieces = made->pieces;
    made->input.conflicts = made->conflicts;
}

static bool in_conflict(const search_case *made, uint32_t a, uint32_t b) {
    const tn__search_body *body = &made->bodies[a];
    for (uint32_t k = 0; k < body->conflict_count; k++)
        if (made->conflicts[body->conflict_first + k].other == b) return true;
    return false;
}

/* The least height: in some order, every body lies right on top of those before it that it may not
 * share bytes with. Bodies outside slots [from, to) are left out. */
static uint64_t least_height(const search_case *made, uint32_t from, uint32_t to, uint32_t done,
                             uint64_t *offset, uint64_t height) {
    uint64_t best = UINT64_MAX;
    bool any = false;
    for (uint32_t i = 0; i < made->input.count; i++) {
        const tn__search_body *body = &made->bodies[i];
        if (done >> i & 1 || body->first >= to || body->last <= from) continue;
        any = true;
        offset[i] = 0;
        for (uint32_t k = 0; k < made->input.count; k++)
            if (done >> k & 1 && in_conflict(made, i, k) &&
                offset[k] + made->bodies[k].size > offset[i])
                offset[i] = offset[k] + made->bodies[k].size;
        offset[i] = (offset[i] + body->alignment - 1) / body->alignment * body->alignment;
        uint64_t end = offset[i] + body->size;
        uint64_t all =
            least_height(made, from, to, done | 1u << i, offset, end > height ? end : height);
        if (all < best) best = all;
    }
    return any ? best : height;
}

static const char *const words[] = {"TWA", "OTW", "ZLU"};

static void the_search_finds_what_fits_and_proves_what_does_not(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(600, 60); seed++) {
        search_case made;
        uint64_t scratch[SEARCH_BODIES], offsets[SEARCH_BODIES], nodes;
        make_case(&made, seed, seed % 3 == 0);
        uint64_t best = least_height(&made, 0, SEARCH_SLOTS, 0, scratch, 0);
        tn__search *search = tn__search_create(NULL, &made.input);
        assert_non_null(search);
        for (uint64_t capacity = best > 2 ? best - 2 : 0; capacity <= best + 1; capacity++) {
            tn__search_order order = {.keys = words[seed % 3],
                                      .seed = seed,
                                      .window = (uint32_t)(seed % 4),
                                      .width = seed % 2 ? 2 : TN__SEARCH_WIDE};
            tn__search_outcome outcome = tn__search_decide(search, order, capacity, 1000000,
                                                           (tn__search_poll){0}, offsets, &nodes);
            if (outcome != (capacity >= best ? TN__SEARCH_FOUND : TN__SEARCH_NONE))
                fail_msg("seed %llu: outcome %d at capacity %llu, the least height is %llu",
                         (unsigned long long)seed, (int)outcome, (unsigned long long)capacity,
                         (unsigned long long)best);
        }
        tn__search_destroy(search);
    }
}

static void a_window_never_proves_more_than_its_bodies_need(void **state) {
    (void)state;
    uint32_t proofs = 0;
    for (uint64_t seed = 1; seed <= case_count(300, 30); seed++) {
        search_case made;
        uint64_t scratch[SEARCH_BODIES], nodes;
        make_case(&made, seed, false);
        uint32_t from = (uint32_t)(seed % SEARCH_SLOTS);
        uint32_t to = from + 1 + (uint32_t)(seed / 7 % (SEARCH_SLOTS - from));
        uint64_t best = least_height(&made, from, to, 0, scratch, 0);
        for (uint64_t capacity = 1; capacity <= best; capacity++) {
            tn__search_outcome outcome = tn__window_decide(
                NULL, &made.input, from, to, (tn__search_order){.keys = "TWA", .width = 2},
                capacity, 1000000, (tn__search_poll){0}, &nodes);
            proofs += outcome == TN__SEARCH_NONE;
            if (outcome == TN__SEARCH_NONE && capacity >= best)
                fail_msg("seed %llu: [%u, %u) does fit in %llu", (unsigned long long)seed, from, to,
                         (unsigned long long)capacity);
            if (outcome != TN__SEARCH_NONE && outcome != TN__SEARCH_FOUND)
                fail_msg("seed %llu: outcome %d", (unsigned long long)seed, (int)outcome);
        }
    }
    assert_true(proofs > 100);
}

/* Two bodies that are alike in the window and not outside: there, only the first must lie on the
 * third's bytes. Third at 0, second at 1, first at 5 is 13 high; first below second is 17. */
static void bodies_alike_in_a_window_are_no_twins(void **state) {
    (void)state;
    const tn__search_piece pieces[] = {
        {0, 1, 4, 8},
        {1, 2, 0, 8}, /* the first */
        {0, 1, 4, 8}, /* the second */
        {0, 2, 0, 5}, /* the third */
    };
    const tn__search_conflict conflicts[] = {{1, 4, 4}, {2, 8, 5}, {2, 8, 1},
                                             {0, 4, 4}, {0, 5, 8}, {1, 1, 8}};
    const tn__search_body bodies[] = {
        {8, 1, TN__SEARCH_FREE, 2, 16, 0, 2, 0, 2, 0, 2},
        {8, 1, TN__SEARCH_FREE, 1, 8, 0, 1, 2, 1, 2, 2},
        {5, 1, TN__SEARCH_FREE, 2, 10, 0, 2, 3, 1, 4, 2},
    };
    const tn__search_input input = {.count = 3,
                                    .slot_count = 2,
                                    .bodies = bodies,
                                    .pieces = pieces,
                                    .conflicts = conflicts,
                                    .complete = true};
    uint64_t nodes;
    tn__search_order order = {.keys = "TWA", .width = 2};
    assert_int_equal(
        tn__window_decide(NULL, &input, 0, 2, order, 13, 1000, (tn__search_poll){0}, &nodes),
        TN__SEARCH_FOUND);
    assert_int_equal(
        tn__window_decide(NULL, &input, 0, 1, order, 13, 1000, (tn__search_poll){0}, &nodes),
        TN__SEARCH_FOUND);
}

#define HARD_BODIES 26u

/* What a search remembers of earlier questions must not show, or threads would change the answer:
 * which of them asks what is a matter of chance. */
static void a_question_asked_again_takes_the_same_nodes(void **state) {
    (void)state;
    uint64_t longest = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        tn__random random = {.state = seed};
        tn__search_body bodies[HARD_BODIES];
        tn__search_piece pieces[HARD_BODIES];
        tn__search_conflict conflicts[HARD_BODIES * HARD_BODIES];
        uint64_t totals[HARD_BODIES] = {0}, capacity = 0, offsets[HARD_BODIES], nodes[2];
        uint32_t at = 0;
        for (uint32_t i = 0; i < HARD_BODIES; i++) {
            uint32_t first = (uint32_t)tn__random_below(&random, HARD_BODIES);
            uint32_t last = first + 1 + (uint32_t)tn__random_below(&random, 9);
            last = last < HARD_BODIES ? last : HARD_BODIES;
            uint64_t size = 10 + tn__random_below(&random, 90);
            pieces[i] = (tn__search_piece){first, last, 0, size};
            bodies[i] = (tn__search_body){
                size, 4, TN__SEARCH_FREE, last - first, (last - first) * size, first, last, i, 1,
                0,    0};
            for (uint32_t slot = first; slot < last; slot++) totals[slot] += size;
        }
        for (uint32_t i = 0; i < HARD_BODIES; i++) {
            bodies[i].conflict_first = at;
            for (uint32_t k = 0; k < HARD_BODIES; k++)
                if (i != k && bodies[i].first < bodies[k].last && bodies[k].first < bodies[i].last)
                    conflicts[at++] = (tn__search_conflict){k, bodies[i].size, bodies[k].size};
            bodies[i].conflict_count = at - bodies[i].conflict_first;
            tn__search_sort(conflicts + bodies[i].conflict_first, bodies[i].conflict_count);
            if (totals[i] > capacity) capacity = totals[i];
        }
        const tn__search_input input = {.count = HARD_BODIES,
                                        .slot_count = HARD_BODIES,
                                        .bodies = bodies,
                                        .pieces = pieces,
                                        .conflicts = conflicts,
                                        .complete = true};
        tn__search *search = tn__search_create(NULL, &input);
        assert_non_null(search);
        for (uint32_t run = 0; run < 2; run++)
            (void)tn__search_decide(search, (tn__search_order){.keys = "TWA", .width = 2}, capacity,
                                    100000, (tn__search_poll){0}, offsets, &nodes[run]);
        tn__search_destroy(search);
        if (nodes[0] != nodes[1])
            fail_msg("seed %llu: %llu nodes, then %llu", (unsigned long long)seed,
                     (unsigned long long)nodes[0], (unsigned long long)nodes[1]);
        if (nodes[0] > longest) longest = nodes[0];
    }
    print_message("up to %llu nodes\n", (unsigned long long)longest);
}

/* A hard problem, a work limit in the middle of the search: threads and repetition change nothing.
 */
static void threads_change_nothing_for_a_given_work_limit(void **state) {
    (void)state;
    tn_problem *problem = kit_random(11, 120, 4000, 60, KIT_ALIGNMENTS);
    tn_layout first = {0};
    for (uint32_t run = 0; run < 6; run++) {
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        tn_layout layout;
        options.planner = "exact";
        options.work_limit = 40000;
        options.threads = 1 + run % 3;
        options.seed = 5;
        assert_ok(tn_plan(problem, &options, &layout, &failure));
        if (run == 0) {
            first = layout;
            continue;
        }
        assert_int_equal(layout.work, first.work);
        assert_int_equal(layout.lower_bound, first.lower_bound);
        assert_memory_equal(layout.offset, first.offset, first.body_count * sizeof *first.offset);
        tn_layout_release(&layout);
    }
    print_message("%llu bytes, bound %llu, %llu units of work\n", (unsigned long long)first.peak,
                  (unsigned long long)first.lower_bound, (unsigned long long)first.work);
    assert_true(first.work > 20000); /* or nothing was asked of the threads */
    tn_layout_release(&first);
    tn_problem_destroy(problem);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_search_finds_what_fits_and_proves_what_does_not),
        cmocka_unit_test(a_window_never_proves_more_than_its_bodies_need),
        cmocka_unit_test(bodies_alike_in_a_window_are_no_twins),
        cmocka_unit_test(a_question_asked_again_takes_the_same_nodes),
        cmocka_unit_test(threads_change_nothing_for_a_given_work_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
