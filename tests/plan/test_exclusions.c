/* test_exclusions.c - buffers that are never live at the same time, against a judge that compares
 * all pairs of buffers; and solutions of dsa-solver. */
#include "kit.h"

#include "../count.h"

#include <stdio.h>
#include <unistd.h>

#include "plan/io/io.h"

enum { BODIES = 14 };

typedef struct case_of {
    tn_problem *problem;
    bool excluded[BODIES][BODIES]; /* of roots */
} case_of;

static case_of random_case(uint64_t seed, uint32_t count, unsigned what) {
    tn__random random = {.state = seed ^ 0x5eed};
    case_of made = {.problem = kit_random(seed, count, 9, 8, what)};
    for (uint64_t left = kit_below(&random, 2 * count + 1); left > 0; left--) {
        tn_body_id a = (tn_body_id)kit_below(&random, count);
        tn_body_id b = (tn_body_id)kit_below(&random, count);
        if (a == b) continue;
        assert_ok(tn_problem_add_exclusion(made.problem, a, b, &failure));
        tn_body_id x = kit_root(made.problem, a), y = kit_root(made.problem, b);
        made.excluded[x][y] = made.excluded[y][x] = true;
    }
    return made;
}

/* Whether two bodies share bytes while both are live, and may not. */
static bool clash(const case_of *all, const uint64_t *offsets, tn_body_id a, tn_body_id b) {
    tn_body_id x = kit_root(all->problem, a), y = kit_root(all->problem, b);
    return !all->excluded[x][y] && kit_bodies_meet(all->problem, a, offsets[a], b, offsets[b]);
}

static bool is_valid(const case_of *all, const uint64_t *offsets) {
    for (tn_body_id a = 0; a < tn_problem_count(all->problem); a++) {
        const tn_body *body = tn_problem_body(all->problem, a);
        if (offsets[a] % body->alignment != 0) return false;
        if ((body->flags & TN_BODY_PINNED) && offsets[a] != body->offset) return false;
        if ((body->flags & TN_BODY_TIED) && offsets[a] != offsets[body->leader] + body->delta)
            return false;
        for (tn_body_id b = 0; b < a; b++)
            if (clash(all, offsets, a, b)) return false;
    }
    return true;
}

static const unsigned kinds[] = {
    0, KIT_ALIGNMENTS, KIT_PIECES, KIT_TIES, KIT_PINS | KIT_PINS_MEET, KIT_BANKS,
    KIT_PINS | KIT_PIECES | KIT_ALIGNMENTS | KIT_BANKS | KIT_TIES};
#define KINDS (sizeof kinds / sizeof *kinds)

static void planners_obey_exclusions(void **state) {
    (void)state;
    uint32_t shared = 0, planned = 0;
    for (uint64_t seed = 1; seed <= case_count(120, 14); seed++) {
        case_of all = random_case(seed, 2 + (uint32_t)(seed % (BODIES - 1)), kinds[seed % KINDS]);
        uint32_t excluded;
        tn_problem_exclusions(all.problem, &excluded);
        for (uint32_t p = 0; p < tn_planner_count(); p++) {
            tn_plan_options options = TN_PLAN_OPTIONS_INIT;
            tn_layout layout;
            options.planner = tn_planner_name(p);
            options.work_limit = 2000;
            if (seed % 3 == 0) options.capacity = 12 + seed % 40;
            tn_status status = tn_plan(all.problem, &options, &layout, &failure);
            if (status != TN_OK) {
                assert_true(status == TN_E_UNSUPPORTED || status == TN_E_INFEASIBLE ||
                            status == TN_E_STOPPED);
                continue;
            }
            planned++;
            assert_true(is_valid(&all, layout.offset));
            for (tn_body_id a = 0; a < layout.body_count; a++)
                for (tn_body_id b = 0; b < a; b++)
                    shared += !clash(&all, layout.offset, a, b) &&
                              kit_bodies_meet(all.problem, a, layout.offset[a], b, layout.offset[b]);
            tn_layout_release(&layout);
        }
        tn_problem_destroy(all.problem);
    }
    assert_true(planned > 0);
    assert_true(shared > 0); /* exclusions were used, not only obeyed */
}

/* The verifier and the judge agree on random offsets; a conflict names two bodies that clash. */
static void the_verifier_agrees_with_the_definition(void **state) {
    (void)state;
    uint32_t valid = 0, invalid = 0;
    for (uint64_t seed = 1; seed <= case_count(4000, 60); seed++) {
        tn__random random = {.state = seed};
        uint32_t count = 2 + (uint32_t)(seed % 5);
        case_of all = random_case(seed, count, kinds[seed % KINDS]);
        uint64_t offsets[BODIES];
        for (tn_body_id id = 0; id < count; id++) {
            const tn_body *body = tn_problem_body(all.problem, id);
            offsets[id] = kit_below(&random, 24) / body->alignment * body->alignment;
            if (body->flags & TN_BODY_PINNED) offsets[id] = body->offset;
            if (body->flags & TN_BODY_TIED) offsets[id] = offsets[body->leader] + body->delta;
        }
        tn_layout layout;
        tn_conflict conflict;
        assert_ok(tn_layout_from_offsets(all.problem, offsets, &layout, &failure));
        tn_status status = tn_layout_verify(all.problem, &layout, &conflict, &failure);
        bool right = is_valid(&all, offsets);
        assert_int_equal(status, right ? TN_OK : TN_E_CONFLICT);
        if (right) assert_true(layout.lower_bound <= layout.peak);
        if (conflict.reason == TN_CONFLICT_OVERLAP) {
            bool named = false;
            for (tn_body_id a = 0; a < count; a++)
                for (tn_body_id b = 0; b < count; b++)
                    named |= a != b && clash(&all, offsets, a, b) &&
                             kit_root(all.problem, a) == kit_root(all.problem, conflict.a) &&
                             kit_root(all.problem, b) == kit_root(all.problem, conflict.b);
            assert_true(named);
        }
        valid += right;
        invalid += !right;
        tn_layout_release(&layout);
        tn_problem_destroy(all.problem);
    }
    assert_true(valid > 0 && invalid > 0);
}

/* Branches of an If: n bodies of which no two coexist take the bytes of one. */
static void branches_share_all_bytes(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout;
    uint64_t bound;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (int i = 0; i < 5; i++)
        assert_ok(tn_problem_add(problem, &(tn_body){.size = 10, .last = 2}, NULL, &failure));
    for (tn_body_id a = 0; a < 4; a++)
        for (tn_body_id b = 0; b < a; b++)
            assert_ok(tn_problem_add_exclusion(problem, a, b, &failure));
    assert_ok(tn_problem_lower_bound(problem, 0, &bound, NULL, &failure));
    assert_int_equal(bound, 20);
    assert_ok(tn_plan(problem, NULL, &layout, &failure));
    assert_int_equal(layout.peak, 20);
    assert_int_equal(layout.verdict, TN_VERDICT_OPTIMAL);
    for (tn_body_id a = 1; a < 4; a++) layout.offset[a] = layout.offset[0];
    assert_ok(tn_layout_verify(problem, &layout, NULL, &failure));
    layout.offset[4] = layout.offset[0] + 9; /* one byte too many */
    layout.bank_peak[0] = 100;
    assert_int_equal(tn_layout_verify(problem, &layout, NULL, &failure), TN_E_CONFLICT);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

static void what_exclusions_cannot_do_is_refused(void **state) {
    (void)state;
    tn_problem *problem;
    tn_layout layout;
    uint32_t event;
    tn_plan_options options = TN_PLAN_OPTIONS_INIT;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (int i = 0; i < 2; i++)
        assert_ok(tn_problem_add(problem, &(tn_body){.size = 4, .last = 2}, NULL, &failure));
    assert_int_equal(tn_problem_add_exclusion(problem, 1, 1, &failure), TN_E_INVALID);
    assert_int_equal(tn_problem_add_exclusion(problem, 0, 2, &failure), TN_E_INVALID);
    assert_ok(tn_problem_add_exclusion(problem, 0, 1, &failure));
    assert_ok(tn_problem_add_event(problem, 1, &event, &failure));
    options.capacity = 8;
    options.objective = TN_OBJECTIVE_WAITS;
    assert_int_equal(tn_plan(problem, &options, &layout, &failure), TN_E_UNSUPPORTED);
    tn_problem_destroy(problem);
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    assert_ok(tn_problem_set_streams(problem, 2, &failure));
    for (int i = 0; i < 2; i++)
        assert_ok(tn_problem_add(problem, &(tn_body){.size = 4, .last = 2}, NULL, &failure));
    assert_int_equal(tn_problem_add_exclusion(problem, 0, 1, &failure), TN_E_INVALID);
    tn_problem_destroy(problem);
}

static void csv_keeps_exclusions(void **state) {
    (void)state;
    static const char text[] = "id,lower,upper,size,excludes\na,0,4,8,c b\nb,1,3,8,\nc,2,3,8,b\n";
    for (int pass = 0; pass < 2; pass++) {
        tn_problem *problem, *again;
        tn__text written;
        uint32_t count;
        assert_ok(tn_problem_load_memory("p.csv", text, sizeof text - 1, NULL, &problem, NULL,
                                         &failure));
        tn__text_init(&written, NULL);
        assert_ok(tn__csv_render(problem, NULL, &written, &failure));
        assert_ok(tn_problem_load_memory("q.csv", written.data, written.size, NULL, &again, NULL,
                                         &failure));
        const tn_pair *pairs = tn_problem_exclusions(again, &count);
        assert_int_equal(count, 3);
        assert_int_equal(pairs[0].a, 0);
        assert_int_equal(pairs[2].a, 1);
        assert_int_equal(pairs[2].b, 2);
        tn__text_release(&written);
        tn_problem_destroy(problem);
        tn_problem_destroy(again);
    }
    tn_problem *problem = NULL;
    static const char unknown[] = "id,lower,upper,size,excludes\na,0,4,8,z\n";
    assert_int_equal(tn_problem_load_memory("p.csv", unknown, sizeof unknown - 1, NULL, &problem,
                                            NULL, &failure),
                     TN_E_INVALID);
}

#ifndef TENURE_MINIMAL
#define BUFFER(id, lower, upper)                                                                   \
    "{\"id\": " #id ", \"size\": 8, \"alignment\": 1, \"allowed_pools\": [3], "                    \
    "\"live_intervals\": [{\"lower\": " #lower ", \"upper\": " #upper "}]}"
#define PROBLEM(constraints)                                                                       \
    "{\"schema_version\": 1, \"profile\": \"pypto_research_v1\", \"instance\": \"i\", "             \
    "\"problem\": {\"pools\": [{\"id\": 3, \"name\": \"p\", \"capacity\": 32}], \"buffers\": ["       \
    BUFFER(10, 0, 4) "," BUFFER(20, 0, 4) "," BUFFER(30, 0, 4) "," BUFFER(40, 6, 8)                \
    "], \"constraints\": {" constraints "}}}"
#define SOLUTION(fingerprint, a, b, c, d)                                                          \
    "{\"schema_version\": 1, \"profile\": \"pypto_research_v1\", \"instance\": \"i\", "             \
    "\"metadata\": {}, \"problem_fingerprint\": \"" fingerprint "\", \"placements\": ["               \
    "{\"buffer\": 10, \"pool\": 3, \"offset\": " #a "}, {\"buffer\": 20, \"pool\": 3, \"offset\": " \
    #b "}, {\"buffer\": 30, \"pool\": 3, \"offset\": " #c "}, {\"buffer\": 40, \"pool\": 3, "        \
    "\"offset\": " #d "}]}"

static tn_problem *load(const char *text, tn_status expected) {
    tn_problem *problem = NULL;
    tn_status status =
        tn_problem_load_memory("p.json", text, strlen(text), NULL, &problem, NULL, &failure);
    if (status != expected) fail_msg("%s: status %d: %s", text, status, failure.message);
    return problem;
}

/* Exclusions between classes hold only if no other two buffers of them coexist. */
static void classes_share_bytes_only_if_no_buffers_coexist(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint32_t exclusions;
    } rows[] = {
        {PROBLEM("\"temporal_exclusions\": [{\"first\": 10, \"second\": 20}]"), 1},
        {PROBLEM("\"temporal_exclusions\": [{\"first\": 10, \"second\": 20}], "
                 "\"colocations\": [{\"first\": 20, \"second\": 30}]"),
         0}, /* 10 and 30 coexist */
        {PROBLEM("\"temporal_exclusions\": [{\"first\": 10, \"second\": 20}, {\"first\": 30, "
                 "\"second\": 10}], \"colocations\": [{\"first\": 20, \"second\": 30}]"),
         1},
        {PROBLEM("\"temporal_exclusions\": [{\"first\": 10, \"second\": 20}], "
                 "\"colocations\": [{\"first\": 20, \"second\": 40}]"),
         1}, /* 40 is live later */
        {PROBLEM("\"temporal_exclusions\": [{\"first\": 10, \"second\": 20}], "
                 "\"pinned_allocations\": [{\"buffer\": 20, \"pool\": 3, \"offset\": 0, "
                 "\"exclusive_for_all_time\": true}]"),
         0},
        {PROBLEM("\"temporal_exclusions\": [{\"first\": 10, \"second\": 20}], "
                 "\"colocations\": [{\"first\": 20, \"second\": 10}]"),
         0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t count;
        tn_problem *problem = load(rows[i].text, TN_OK);
        tn_problem_exclusions(problem, &count);
        assert_int_equal(count, rows[i].exclusions);
        tn_problem_destroy(problem);
    }
}

static void constraints_that_contradict_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {
        PROBLEM("\"temporal_exclusions\": [{\"first\": 10, \"second\": 10}]"),
        PROBLEM("\"temporal_exclusions\": [{\"first\": 10, \"second\": 11}]"),
        PROBLEM("\"colocations\": [{\"first\": 10}]"),
        PROBLEM("\"colocations\": {}, \"separations\": 1"),
        PROBLEM("\"colocations\": [{\"first\": 10, \"second\": 40}], "
                "\"separations\": [{\"first\": 10, \"second\": 40}]"),
        PROBLEM("\"pinned_allocations\": [{\"buffer\": 10, \"pool\": 4, \"offset\": 0}]"),
        PROBLEM("\"pinned_allocations\": [{\"buffer\": 11, \"pool\": 3, \"offset\": 0}]"),
        PROBLEM("\"pinned_allocations\": [{\"buffer\": 10, \"pool\": 3, \"offset\": -8}]"),
        PROBLEM("\"pinned_allocations\": [{\"buffer\": 10, \"pool\": 3, \"offset\": 0, "
                "\"exclusive_for_all_time\": 1}]"),
        PROBLEM("\"pinned_allocations\": [{\"buffer\": 10, \"pool\": 3, \"offset\": 0, "
                "\"until\": 4}]"),
        PROBLEM("\"pinned_allocations\": [{\"buffer\": 10, \"pool\": 3, \"offset\": 0}, "
                "{\"buffer\": 10, \"pool\": 3, \"offset\": 0}]"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) load(bad[i], TN_E_INVALID);
}

/* The fingerprint is that of Python's json.dumps with sorted keys and an indent of 2. */
#define EXCLUDED PROBLEM("\"temporal_exclusions\": [{\"first\": 10, \"second\": 20}]")
#define FINGERPRINT "bf34dbe0106526bc"

static void solutions_are_read_and_checked(void **state) {
    (void)state;
    static const struct {
        const char *text;
        tn_status load, verify;
    } rows[] = {
        {SOLUTION(FINGERPRINT, 0, 0, 8, 0), TN_OK, TN_OK},
        {SOLUTION(FINGERPRINT, 0, 4, 12, 0), TN_OK, TN_OK},
        {SOLUTION(FINGERPRINT, 0, 0, 7, 0), TN_OK, TN_E_CONFLICT},
        {SOLUTION(FINGERPRINT, 0, 0, 25, 0), TN_OK, TN_E_CONFLICT},
        {SOLUTION("0123456789abcdef", 0, 0, 8, 0), TN_E_INVALID, TN_OK},
        {SOLUTION(FINGERPRINT, 0, 0, 8, -1), TN_E_INVALID, TN_OK},
        {SOLUTION(FINGERPRINT, 0, 0, 8, 0) "x", TN_E_INVALID, TN_OK},
        {"{\"schema_version\": 2}", TN_E_UNSUPPORTED, TN_OK},
        {"[]", TN_E_INVALID, TN_OK},
        {"", TN_E_INVALID, TN_OK},
    };
    tn_problem *problem = load(EXCLUDED, TN_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tn_layout layout;
        tn_status status = tn_layout_load_memory(problem, "s.json", rows[i].text,
                                                 strlen(rows[i].text), &layout, &failure);
        if (status != rows[i].load) fail_msg("%s: %d: %s", rows[i].text, status, failure.message);
        if (status != TN_OK) {
            assert_non_null(strstr(failure.where, "s.json"));
            continue;
        }
        assert_int_equal(tn_layout_verify(problem, &layout, NULL, &failure), rows[i].verify);
        layout.reuse_cost++; /* no pair pays */
        assert_int_equal(tn_layout_verify(problem, &layout, NULL, &failure), TN_E_CONFLICT);
        tn_layout_release(&layout);
    }
    tn_problem_destroy(problem);
}

/* A plan that is written as a solution is read back; for another problem it is refused. */
static void solutions_are_written(void **state) {
    (void)state;
    tn_problem *problem = load(EXCLUDED, TN_OK), *other = load(PROBLEM(""), TN_OK), *plain;
    tn_layout layout, again;
    char path[] = "/tmp/tenure-solution-XXXXXX.json";
    int file = mkstemps(path, 5);
    assert_true(file >= 0);
    close(file);
    assert_ok(tn_plan(problem, NULL, &layout, &failure));
    assert_int_equal(layout.peak, 16);
    assert_ok(tn__problem_save_dsa(problem, &layout, path, &failure));
    assert_ok(tn_layout_load(problem, path, &again, &failure));
    assert_memory_equal(again.offset, layout.offset, 4 * sizeof *layout.offset);
    tn_layout_release(&again);
    assert_int_equal(tn_layout_load(other, path, &again, &failure), TN_E_INVALID);
    assert_non_null(strstr(failure.message, "problem_fingerprint"));
    assert_ok(tn_problem_create(NULL, &plain, &failure));
    assert_int_equal(tn_layout_load(plain, path, &again, &failure), TN_E_UNSUPPORTED);
    assert_int_equal(tn_layout_load(plain, "/tmp/tenure-none.json", &again, &failure), TN_E_IO);
    unlink(path);
    tn_layout_release(&layout);
    tn_problem_destroy(plain);
    tn_problem_destroy(other);
    tn_problem_destroy(problem);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planners_obey_exclusions),
        cmocka_unit_test(the_verifier_agrees_with_the_definition),
        cmocka_unit_test(branches_share_all_bytes),
        cmocka_unit_test(what_exclusions_cannot_do_is_refused),
        cmocka_unit_test(csv_keeps_exclusions),
#ifndef TENURE_MINIMAL
        cmocka_unit_test(classes_share_bytes_only_if_no_buffers_coexist),
        cmocka_unit_test(constraints_that_contradict_are_refused),
        cmocka_unit_test(solutions_are_read_and_checked),
        cmocka_unit_test(solutions_are_written),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
