/* Waits and time: the planners, tn_layout_waits and the verifier are compared with a search over
 * all offsets of small random problems. Paths are found by search, and time passes unit by unit. */
#include "kit.h"

#include <inttypes.h>

#include "../count.h"

enum { BODIES_MAX = 5, EVENTS_MAX = 10, CAPACITY_MAX = 7 };

/* --- brute force --- */

typedef struct brute {
    const tn_problem *problem;
    uint32_t events;
    bool edge[EVENTS_MAX][EVENTS_MAX]; /* given order, and then the waits of a layout */
    bool given[EVENTS_MAX][EVENTS_MAX];
    bool wait[EVENTS_MAX][EVENTS_MAX];
    uint64_t offset[BODIES_MAX], capacity;
    uint32_t workers;
    uint64_t waits, time;             /* of the present offsets */
    uint64_t least_waits, least_time; /* UINT64_MAX: nothing fits */
} brute;

static bool brute_path(bool edge[EVENTS_MAX][EVENTS_MAX], uint32_t count, uint32_t from,
                       uint32_t to) {
    if (from == to) return true;
    for (uint32_t next = 0; next < count; next++)
        if (edge[from][next] && brute_path(edge, count, next, to)) return true;
    return false;
}

static bool brute_shares(const brute *all, tn_body_id a, tn_body_id b) {
    uint64_t x = tn_problem_body(all->problem, a)->size, y = tn_problem_body(all->problem, b)->size;
    for (uint64_t byte = all->offset[a]; byte < all->offset[a] + x; byte++)
        if (byte >= all->offset[b] && byte < all->offset[b] + y) return true;
    return false;
}

static bool brute_spans_share(const brute *all, const tn_span *a, const tn_span *b) {
    uint64_t x = all->offset[a->body], y = all->offset[b->body];
    for (uint64_t byte = x + a->lo; byte < x + a->hi; byte++)
        if (byte >= y + b->lo && byte < y + b->hi) return true;
    return false;
}

static uint64_t brute_tail(const brute *all, uint32_t event) {
    uint32_t count;
    uint64_t most = 0;
    for (uint32_t next = 0; next < all->events; next++)
        if (all->edge[event][next]) {
            uint64_t tail = brute_tail(all, next);
            if (tail > most) most = tail;
        }
    return most + tn_problem_events(all->problem, &count)[event];
}

/* Unit by unit: every free worker takes the ready event with the longest path to the end. */
static uint64_t brute_time(const brute *all) {
    uint32_t count;
    const uint64_t *times = tn_problem_events(all->problem, &count);
    uint64_t ends[EVENTS_MAX], longest = 0;
    bool started[EVENTS_MAX] = {false};
    for (uint32_t e = 0; e < count; e++)
        if (brute_tail(all, e) > longest) longest = brute_tail(all, e);
    if (all->workers == 0) return longest;
    for (uint64_t now = 0, over = 0;; now++) {
        uint32_t running = 0, done = 0;
        for (uint32_t e = 0; e < count; e++) running += started[e] && ends[e] > now;
        for (uint32_t e = 0; e < count; e++) done += started[e] && ends[e] <= now;
        if (done == count) return over;
        for (; running < all->workers; running++) {
            uint32_t best = UINT32_MAX;
            for (uint32_t e = 0; e < count; e++) {
                bool ready = !started[e];
                for (uint32_t p = 0; p < count; p++)
                    if (all->edge[p][e]) ready = ready && started[p] && ends[p] <= now;
                if (!ready) continue;
                if (best == UINT32_MAX || brute_tail(all, e) > brute_tail(all, best)) best = e;
            }
            if (best == UINT32_MAX) break;
            started[best] = true;
            ends[best] = now + times[best];
            if (ends[best] > over) over = ends[best];
        }
    }
}

/* Waits and time of the present offsets, by definition. */
static void brute_value(brute *all) {
    uint32_t spans;
    const tn_span *span = tn_problem_spans(all->problem, &spans);
    memset(all->wait, 0, sizeof all->wait);
    memcpy(all->edge, all->given, sizeof all->edge);
    for (uint32_t i = 0; i < spans; i++)
        for (uint32_t k = 0; k < spans; k++) {
            uint32_t last = 0;
            if (span[i].body == span[k].body || !brute_spans_share(all, &span[i], &span[k]))
                continue;
            for (uint32_t u = 0; u < span[i].use_count; u++)
                if (span[i].uses[u] > last) last = span[i].uses[u];
            if (last >= span[k].first) continue;
            for (uint32_t u = 0; u < span[i].use_count; u++)
                if (!brute_path(all->given, all->events, span[i].uses[u], span[k].first))
                    all->wait[span[i].uses[u]][span[k].first] = true;
        }
    for (uint32_t a = 0; a < all->events; a++)
        for (uint32_t b = 0; b < all->events; b++) all->edge[a][b] |= all->wait[a][b];
    all->waits = 0;
    for (uint32_t a = 0; a < all->events; a++)
        for (uint32_t b = 0; b < all->events; b++) {
            if (!all->wait[a][b]) continue;
            all->edge[a][b] = false;
            bool implied = brute_path(all->edge, all->events, a, b);
            all->edge[a][b] = true;
            all->wait[a][b] = !implied;
            all->waits += !implied;
        }
    all->time = brute_time(all);
}

static void brute_search(brute *all, tn_body_id id) {
    if (id == tn_problem_count(all->problem)) {
        brute_value(all);
        if (all->waits < all->least_waits) all->least_waits = all->waits;
        if (all->time < all->least_time) all->least_time = all->time;
        return;
    }
    const tn_body *body = tn_problem_body(all->problem, id);
    for (uint64_t offset = 0; offset + body->size <= all->capacity; offset++) {
        bool fits = true;
        all->offset[id] = offset;
        for (tn_body_id other = 0; other < id && fits; other++) {
            const tn_body *theirs = tn_problem_body(all->problem, other);
            bool meet = theirs->first < body->last && body->first < theirs->last;
            fits = !meet || !brute_shares(all, other, id);
        }
        if (fits) brute_search(all, id + 1);
    }
}

/* --- random problems --- */

static tn_problem *random_problem(uint64_t seed, brute *all) {
    tn__random random = {.state = seed};
    tn_problem *problem;
    uint32_t count = 2 + (uint32_t)kit_below(&random, BODIES_MAX - 1);
    *all = (brute){.events = 3 + (uint32_t)kit_below(&random, EVENTS_MAX - 2),
                   .capacity = 3 + kit_below(&random, CAPACITY_MAX - 2),
                   .workers = (uint32_t)kit_below(&random, 4),
                   .least_waits = UINT64_MAX,
                   .least_time = UINT64_MAX};
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    assert_ok(tn_problem_set_bank(problem, 0, &(tn_bank){.name = "a", .capacity = all->capacity},
                                  &failure));
    for (uint32_t e = 0; e < all->events; e++)
        assert_ok(tn_problem_add_event(problem, 1 + kit_below(&random, 4), NULL, &failure));
    uint64_t sparse = 2 + kit_below(&random, 6);
    for (uint32_t a = 0; a < all->events; a++)
        for (uint32_t b = a + 1; b < all->events; b++) {
            if (kit_below(&random, sparse) != 0) continue;
            all->given[a][b] = true;
            assert_ok(tn_problem_add_order(problem, a, b, &failure));
        }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = (uint32_t)kit_below(&random, all->events), uses[2], last = first;
        uint32_t use_count = (uint32_t)kit_below(&random, 3);
        for (uint32_t u = 0; u < use_count; u++) {
            uses[u] = first + (uint32_t)kit_below(&random, all->events - first);
            if (uses[u] > 2 + first) uses[u] = first + 2;
            if (uses[u] > last) last = uses[u];
        }
        tn_body body = {.size = 1 + kit_below(&random, 3), .first = first, .last = last + 1};
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
        tn_span span = {.body = i, .first = first, .uses = uses, .use_count = use_count};
        if (seed % 3 == 0) { /* a part of the body; lo == hi is the whole */
            span.lo = kit_below(&random, body.size);
            span.hi = span.lo + kit_below(&random, body.size - span.lo + 1);
        }
        assert_ok(tn_problem_add_span(problem, &span, &failure));
    }
    all->problem = problem;
    return problem;
}

/* The list has exactly the waits of brute force for the layout. */
static void assert_waits(brute *all, const tn_layout *layout, uint64_t seed) {
    tn_wait *list;
    uint64_t count, time;
    memcpy(all->offset, layout->offset, layout->body_count * sizeof *all->offset);
    brute_value(all);
    assert_ok(tn_layout_waits(all->problem, layout, all->workers, &list, &count, &time, &failure));
    if (count != all->waits || time != all->time)
        fail_msg("seed %" PRIu64 ": %" PRIu64 " waits in %" PRIu64 ", not %" PRIu64 " in %" PRIu64,
                 seed, count, time, all->waits, all->time);
    for (uint64_t i = 0; i < count; i++) assert_true(all->wait[list[i].before][list[i].after]);
    tn_waits_release(list);
}

/* A layout that states other waits or another time is refused. */
static void assert_lies_fail(const tn_problem *problem, tn_layout *layout) {
    tn_conflict conflict;
    layout->waits++;
    assert_int_equal(tn_layout_verify(problem, layout, &conflict, &failure), TN_E_CONFLICT);
    assert_int_equal(conflict.reason, TN_CONFLICT_WAITS);
    layout->waits--;
    layout->time--;
    assert_int_equal(tn_layout_verify(problem, layout, &conflict, &failure), TN_E_CONFLICT);
    assert_int_equal(conflict.reason, TN_CONFLICT_TIME);
    layout->time++;
    assert_ok(tn_layout_verify(problem, layout, NULL, &failure));
}

/* The fewest waits and the least time are those of brute force, and are proved. */
static void waits_and_time_are_least(void **state) {
    (void)state;
    uint32_t feasible = 0, waits = 0, slower = 0, count = case_count(3000, 40);
    for (uint64_t seed = 1; seed <= count; seed++) {
        brute all;
        tn_problem *problem = random_problem(seed, &all);
        brute_search(&all, 0);
        for (int time = 0; time < 2; time++) {
            tn_plan_options options = TN_PLAN_OPTIONS_INIT;
            tn_layout layout;
            options.objective = time ? TN_OBJECTIVE_TIME : TN_OBJECTIVE_WAITS;
            options.workers = all.workers;
            options.seed = seed;
            tn_status status = tn_plan(problem, &options, &layout, &failure);
            if (all.least_waits == UINT64_MAX) {
                assert_int_equal(status, TN_E_INFEASIBLE);
                continue;
            }
            if (status != TN_OK) fail_msg("seed %" PRIu64 ": %s", seed, failure.message);
            uint64_t least = time ? all.least_time : all.least_waits;
            uint64_t made = time ? layout.time : layout.waits;
            uint64_t bound = time ? layout.time_bound : layout.waits_bound;
            if (made != least || bound != least || layout.verdict != TN_VERDICT_OPTIMAL)
                fail_msg("seed %" PRIu64 ": %s %" PRIu64 ", bound %" PRIu64 ", least %" PRIu64,
                         seed, tn_objective_name(options.objective), made, bound, least);
            assert_waits(&all, &layout, seed);
            assert_lies_fail(problem, &layout);
            feasible++;
            waits += !time && least > 0;
            slower += time && layout.waits > 0;
            tn_layout_release(&layout);
        }
        tn_problem_destroy(problem);
    }
    printf("%u plans, %u problems need waits, %u plans in time have waits\n", feasible, waits,
           slower);
    assert_true(feasible > count / 2 && waits > count / 20);
}

/* Within a work limit the plan does not depend on the clock or on threads. */
static void limits_are_deterministic(void **state) {
    (void)state;
    tn__random random = {.state = 7};
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (uint32_t e = 0; e < 120; e++) {
        assert_ok(tn_problem_add_event(problem, 1 + kit_below(&random, 9), NULL, &failure));
        for (uint32_t k = 0; k < 2 && e > 0; k++)
            assert_ok(tn_problem_add_order(problem, (uint32_t)kit_below(&random, e), e, &failure));
    }
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t first = (uint32_t)kit_below(&random, 110), use = first + 1;
        use += (uint32_t)kit_below(&random, 9);
        tn_body body = {.size = 1 + kit_below(&random, 40), .first = first, .last = use + 1};
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
        assert_ok(tn_problem_add_span(
            problem, &(tn_span){.body = i, .first = first, .uses = &use, .use_count = 1},
            &failure));
    }
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    tn_layout bytes, one, two;
    assert_ok(tn_plan(problem, NULL, &bytes, &failure));
    options.capacity = bytes.peak + bytes.peak / 8;
    options.work_limit = 4000;
    for (int time = 0; time < 2; time++) {
        options.objective = time ? TN_OBJECTIVE_TIME : TN_OBJECTIVE_WAITS;
        options.threads = 1;
        assert_ok(tn_plan(problem, &options, &one, &failure));
        options.threads = 2;
        assert_ok(tn_plan(problem, &options, &two, &failure));
        assert_memory_equal(one.offset, two.offset, one.body_count * sizeof *one.offset);
        assert_true(one.peak <= options.capacity);
        assert_true(time ? one.time <= bytes.time : one.waits <= bytes.waits);
        tn_layout_release(&one);
        tn_layout_release(&two);
    }
    tn_layout_release(&bytes);
    tn_problem_destroy(problem);
}

/* Without events, without a capacity, or with two banks there is no answer. */
static void refusals_say_what_is_missing(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    options.objective = TN_OBJECTIVE_WAITS;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    assert_ok(tn_problem_add(problem, &(tn_body){.size = 4, .last = 1}, NULL, &failure));
    assert_int_equal(tn_plan(problem, &options, &layout, &failure), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "needs a problem with events"));
    assert_int_equal(tn_problem_add_order(problem, 0, 1, &failure), TN_E_INVALID);
    assert_ok(tn_problem_add_event(problem, 1, NULL, &failure));
    assert_ok(tn_problem_add_event(problem, 1, NULL, &failure));
    assert_int_equal(tn_problem_add_order(problem, 1, 0, &failure), TN_E_INVALID);
    assert_int_equal(tn_problem_add_wait(problem, 0, 2, &failure), TN_E_INVALID);
    const uint32_t early = 0;
    const tn_span wrong[] = {{.body = 1},
                             {.body = 0, .lo = 1, .hi = 5},
                             {.body = 0, .first = 2},
                             {.body = 0, .first = 1, .uses = &early, .use_count = 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tn_problem_add_span(problem, &wrong[i], &failure), TN_E_INVALID);
    assert_int_equal(tn_plan(problem, &options, &layout, &failure), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "has no capacity"));
    options.capacity = 4;
    assert_ok(tn_plan(problem, &options, &layout, &failure));
    tn_layout_release(&layout);
    assert_ok(tn_problem_set_bank(problem, 1, &(tn_bank){.name = "b"}, &failure));
    assert_int_equal(tn_plan(problem, &options, &layout, &failure), TN_E_INVALID);
    tn_problem_destroy(problem);
}

/* Two bodies of 2 bytes with disjoint live ranges, written by events 0 and 1 of 3 events. */
static tn_problem *pair_problem(const uint32_t *uses, uint32_t use_count) {
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (uint32_t e = 0; e < 3; e++) assert_ok(tn_problem_add_event(problem, 1, NULL, &failure));
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(tn_problem_add(problem, &(tn_body){.size = 2, .first = i, .last = i + 1}, NULL,
                                 &failure));
    assert_ok(tn_problem_add_span(
        problem, &(tn_span){.body = 0, .first = 0, .uses = uses, .use_count = use_count},
        &failure));
    assert_ok(tn_problem_add_span(problem, &(tn_span){.body = 1, .first = 1}, &failure));
    return problem;
}

/* Spans that say that a buffer is used after another one was written over it: there is no number of
 * waits that would make the layout right. */
static void contradictions_are_refused(void **state) {
    (void)state;
    const uint32_t late = 2;
    tn_problem *problem = pair_problem(&late, 1);
    tn_layout layout;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    const uint64_t same[] = {0, 0}, apart[] = {0, 2};
    assert_int_equal(tn_layout_from_offsets(problem, same, &layout, &failure), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "still used (until event 2)"));
    assert_ok(tn_layout_from_offsets(problem, apart, &layout, &failure));
    assert_int_equal(layout.waits, 0);
    tn_layout_release(&layout);
    options.objective = TN_OBJECTIVE_WAITS;
    options.capacity = 2;
    assert_int_equal(tn_plan(problem, &options, &layout, &failure), TN_E_INVALID);
    tn_problem_destroy(problem);
    /* bodies of one group share bytes on purpose */
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (uint32_t e = 0; e < 3; e++) assert_ok(tn_problem_add_event(problem, 1, NULL, &failure));
    assert_ok(tn_problem_add(problem, &(tn_body){.size = 2, .last = 3}, NULL, &failure));
    assert_ok(tn_problem_add(problem,
                             &(tn_body){.size = 2, .last = 3, .flags = TN_BODY_TIED, .leader = 0},
                             NULL, &failure));
    for (uint32_t i = 0; i < 2; i++)
        assert_ok(tn_problem_add_span(
            problem, &(tn_span){.body = i, .first = i, .uses = &late, .use_count = 1}, &failure));
    assert_ok(tn_plan(problem, &options, &layout, &failure));
    assert_int_equal(layout.waits, 0);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

/* Uses count once, and times, spans and uses have limits that bound the time of every call. */
static void sizes_are_limited(void **state) {
    (void)state;
    const uint32_t uses[] = {2, 0, 1, 2, 0};
    uint32_t count;
    tn_problem *problem = pair_problem(uses, 5);
    const tn_span *span = tn_problem_spans(problem, &count);
    assert_int_equal(count, 2);
    assert_int_equal(span[0].use_count, 3);
    for (uint32_t i = 0; i < 3; i++) assert_int_equal(span[0].uses[i], i);
    assert_int_equal(span[1].use_count, 1);
    assert_int_equal(tn_problem_add_event(problem, INT64_MAX - 2, NULL, &failure), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "add up to more than 2^63 - 1"));
    assert_ok(tn_problem_add_event(problem, INT64_MAX - 3, NULL, &failure));
    tn_problem_destroy(problem);

    assert_ok(tn_problem_create(NULL, &problem, &failure));
    assert_ok(tn_problem_add(problem, &(tn_body){.size = 1, .last = 1}, NULL, &failure));
    for (uint32_t e = 0; e < 1024; e++) assert_ok(tn_problem_add_event(problem, 1, NULL, &failure));
    uint32_t all[1024], made = 0;
    for (uint32_t e = 0; e < 1024; e++) all[e] = e;
    const tn_span wide = {.body = 0, .first = 0, .uses = all, .use_count = 1024};
    tn_status status = TN_OK;
    for (; status == TN_OK && made <= 2048; made++)
        status = tn_problem_add_span(problem, &wide, &failure);
    assert_int_equal(status, TN_E_INVALID); /* 2048 * 2048 * 1024 is 2^32 */
    assert_int_equal(made, 2049);
    tn_problem_destroy(problem);
}

/* A large program with few buffers: to judge one placement takes long, so few of them are judged.
 * Without a bound on the work of the complete search this takes hours. */
static void large_programs_end(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (uint32_t e = 0; e < 2048; e++) assert_ok(tn_problem_add_event(problem, 1, NULL, &failure));
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t use = 2 * i + 1;
        tn_body body = {.size = 20, .first = 2 * i, .last = 2 * i + 2};
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
        assert_ok(tn_problem_add_span(
            problem, &(tn_span){.body = i, .first = 2 * i, .uses = &use, .use_count = 1},
            &failure));
    }
    options.objective = TN_OBJECTIVE_WAITS;
    options.capacity = 60;
    assert_ok(tn_plan(problem, &options, &layout, &failure));
    assert_int_equal(layout.waits, 2); /* one pair shares bytes: both events of the earlier one */
    assert_true(layout.waits_bound <= 2);
    assert_true(layout.work < 2000000);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(waits_and_time_are_least),
                                       cmocka_unit_test(limits_are_deterministic),
                                       cmocka_unit_test(contradictions_are_refused),
                                       cmocka_unit_test(sizes_are_limited),
                                       cmocka_unit_test(large_programs_end),
                                       cmocka_unit_test(refusals_say_what_is_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
