/* test_limits.c - tied bodies and streams: what they mean, judged by the definition. */
#include "count.h"
#include "kit.h"

#include "plan/frame/planner.h"

/* --- ties --- */

static tn_problem *new_problem(void) {
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    return problem;
}

static tn_body_id add(tn_problem *problem, tn_body body) {
    tn_body_id id;
    assert_ok(tn_problem_add(problem, &body, &id, &failure));
    return id;
}

static void chains_of_ties_end_at_their_root(void **state) {
    (void)state;
    tn_problem *problem = new_problem();
    add(problem, (tn_body){.size = 8, .last = 1});
    add(problem, (tn_body){.size = 8, .last = 1, .flags = TN_BODY_TIED, .leader = 0, .delta = 8});
    add(problem, (tn_body){.size = 8, .last = 1, .flags = TN_BODY_TIED, .leader = 1, .delta = 24});
    const tn_body *last = tn_problem_body(problem, 2);
    assert_true(last->leader == 0 && last->delta == 32);
    assert_true(tn_problem_body(problem, 0)->flags & TN_BODY_LEADS);
    assert_int_equal(tn_problem_naive(problem), 40);
    tn_layout layout;
    assert_ok(tn_plan(problem, NULL, &layout, &failure));
    assert_int_equal(layout.peak, 40);
    assert_int_equal(layout.verdict, TN_VERDICT_OPTIMAL);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

static void an_alias_takes_no_memory_of_its_own(void **state) {
    (void)state;
    tn_problem *problem = new_problem();
    add(problem, (tn_body){.size = 100, .last = 4});
    add(problem, (tn_body){.size = 100, .first = 1, .last = 9, .flags = TN_BODY_TIED, .leader = 0});
    tn_layout layout;
    uint64_t bound;
    assert_ok(tn_problem_lower_bound(problem, 0, &bound, NULL, &failure));
    assert_int_equal(bound, 100);
    assert_ok(tn_plan(problem, NULL, &layout, &failure));
    assert_int_equal(layout.peak, 100);
    assert_int_equal(layout.offset[1], layout.offset[0]);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

static void ties_that_cannot_be_are_refused(void **state) {
    (void)state;
    static const tn_body wrong[] = {
        {.size = 8, .last = 1, .flags = TN_BODY_TIED, .leader = 2},
        {.size = 8, .last = 1, .flags = TN_BODY_TIED, .leader = UINT32_MAX},
        {.size = 8, .last = 1, .flags = TN_BODY_TIED, .leader = 1, .delta = UINT64_MAX - 2},
        {.size = 8, .last = 1, .flags = TN_BODY_TIED, .leader = 1, .delta = INT64_MAX - 8},
        {.size = 8, .last = 1, .flags = TN_BODY_TIED, .leader = 0, .delta = 6, .alignment = 4},
        {.size = 8, .last = 1, .flags = TN_BODY_TIED, .leader = 0, .bank = 1},
        {.size = 8, .last = 1, .flags = TN_BODY_TIED | TN_BODY_ANY_BANK, .leader = 0},
    };
    tn_problem *problem = new_problem();
    assert_ok(tn_problem_set_bank(problem, 1, &(tn_bank){.name = "b"}, &failure));
    add(problem, (tn_body){.size = 8, .last = 1});
    add(problem,
        (tn_body){.size = 8, .last = 1, .flags = TN_BODY_TIED, .leader = 0, .delta = 1 << 20});
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(tn_problem_add(problem, &wrong[i], NULL, &failure), TN_E_INVALID);
    assert_int_equal(tn_problem_count(problem), 2);
    assert_int_equal(tn_problem_set_alignment(problem, 1 << 21, &failure), TN_E_INVALID);
    assert_ok(tn_problem_set_alignment(problem, 64, &failure));
    tn_problem_destroy(problem);
}

static void pins_pull_their_group_or_are_proved_impossible(void **state) {
    (void)state;
    static const struct {
        tn_body root, member;
        tn_status status;
        uint64_t at; /* of the root */
    } cases[] = {
        {{.size = 8, .last = 1},
         {.size = 8, .last = 1, .flags = TN_BODY_PINNED, .delta = 8, .offset = 40},
         TN_OK,
         32},
        {{.size = 8, .last = 1},
         {.size = 8, .last = 1, .flags = TN_BODY_PINNED, .delta = 8, .offset = 4},
         TN_E_INFEASIBLE,
         0},
        {{.size = 8, .last = 1, .flags = TN_BODY_PINNED, .offset = 16},
         {.size = 8, .last = 1, .flags = TN_BODY_PINNED, .delta = 8, .offset = 24},
         TN_OK,
         16},
        {{.size = 8, .last = 1, .flags = TN_BODY_PINNED, .offset = 16},
         {.size = 8, .last = 1, .flags = TN_BODY_PINNED, .delta = 8, .offset = 25},
         TN_E_INFEASIBLE,
         0},
        {{.size = 8, .last = 1, .flags = TN_BODY_PINNED, .offset = 4},
         {.size = 8, .last = 1, .alignment = 8, .delta = 8},
         TN_E_INFEASIBLE,
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tn_problem *problem = new_problem();
        tn_layout layout = {0};
        tn_body member = cases[i].member;
        member.flags |= TN_BODY_TIED;
        add(problem, cases[i].root);
        add(problem, member);
        tn_status status = tn_plan(problem, NULL, &layout, &failure);
        if (status != cases[i].status) fail_msg("case %zu: %s\n", i, failure.message);
        if (status == TN_OK) assert_int_equal(layout.offset[0], cases[i].at);
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

/* A group is one body: planned so, it needs as much as the same pieces given as one body. */
static void a_group_needs_what_one_body_of_its_pieces_needs(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(300, 30); seed++) {
        tn__random random = {.state = seed};
        tn_problem *tied = new_problem(), *joined = new_problem();
        for (uint32_t g = 0; g < 5; g++) {
            tn_piece pieces[3];
            uint64_t end = 0;
            uint32_t members = 1 + (uint32_t)kit_below(&random, 3);
            tn_body_id root = tn_problem_count(tied);
            for (uint32_t m = 0; m < members; m++) {
                uint64_t size = 1 + kit_below(&random, 20), delta = m * kit_below(&random, 15);
                tn_body body = {.size = size, .first = (int64_t)kit_below(&random, 8)};
                body.last = body.first + 1 + (int64_t)kit_below(&random, 5);
                if (m > 0) body.flags = TN_BODY_TIED, body.leader = root, body.delta = delta;
                if (m == 0) delta = 0;
                pieces[m] = (tn_piece){
                    .first = body.first, .last = body.last, .lo = delta, .hi = delta + size};
                if (delta + size > end) end = delta + size;
                add(tied, body);
            }
            add(joined, (tn_body){.size = end, .pieces = pieces, .piece_count = members});
        }
        tn_layout one, other;
        uint64_t bound, same;
        assert_ok(tn_problem_lower_bound(tied, 0, &bound, NULL, &failure));
        assert_ok(tn_problem_lower_bound(joined, 0, &same, NULL, &failure));
        assert_int_equal(bound, same);
        assert_ok(tn_plan(tied, NULL, &one, &failure));
        assert_ok(tn_plan(joined, NULL, &other, &failure));
        assert_int_equal(one.peak, other.peak);
        assert_true(kit_is_valid(tied, one.offset));
        tn_layout_release(&one);
        tn_layout_release(&other);
        tn_problem_destroy(tied);
        tn_problem_destroy(joined);
    }
}

static void a_broken_tie_is_named(void **state) {
    (void)state;
    tn_problem *problem = new_problem();
    add(problem, (tn_body){.size = 8, .last = 1, .name = "a"});
    add(problem,
        (tn_body){
            .size = 8, .last = 1, .name = "b", .flags = TN_BODY_TIED, .leader = 0, .delta = 8});
    tn_layout layout;
    tn_conflict conflict;
    assert_ok(tn_layout_from_offsets(problem, (uint64_t[]){0, 16}, &layout, &failure));
    assert_int_equal(tn_layout_verify(problem, &layout, &conflict, &failure), TN_E_CONFLICT);
    assert_int_equal(conflict.reason, TN_CONFLICT_TIE);
    assert_true(conflict.a == 1 && conflict.b == 0 && conflict.lo == 16 && conflict.hi == 8);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

/* --- streams --- */

static void two_streams_keep_apart_what_one_would_share(void **state) {
    (void)state;
    static const int64_t at_a[] = {0, 0}, used_a[] = {1, 0}, at_b[] = {0, 0}, used_b[] = {0, 1},
                         after_a[] = {1, 0};
    tn_problem *problem = new_problem();
    assert_ok(tn_problem_set_streams(problem, 2, &failure));
    tn_piece a = {.last = 1, .hi = 8, .begins = at_a, .ends = used_a};
    tn_piece b = {.first = 1, .last = 2, .hi = 8, .begins = at_b, .ends = used_b};
    tn_piece c = {.first = 2, .last = 3, .hi = 8, .begins = after_a, .ends = used_b};
    add(problem, (tn_body){.size = 8, .pieces = &a, .piece_count = 1});
    add(problem, (tn_body){.size = 8, .pieces = &b, .piece_count = 1});
    add(problem, (tn_body){.size = 8, .pieces = &c, .piece_count = 1});
    tn_layout layout;
    tn_conflict conflict;
    assert_ok(tn_plan(problem, NULL, &layout, &failure));
    assert_int_equal(layout.peak, 16); /* a and c may share, b with neither */
    assert_int_not_equal(layout.offset[0], layout.offset[1]);
    tn_layout_release(&layout);
    assert_ok(tn_layout_from_offsets(problem, (uint64_t[]){0, 8, 0}, &layout, &failure));
    assert_ok(tn_layout_verify(problem, &layout, NULL, &failure));
    tn_layout_release(&layout);
    assert_ok(tn_layout_from_offsets(problem, (uint64_t[]){0, 8, 4}, &layout, &failure));
    assert_int_equal(tn_layout_verify(problem, &layout, &conflict, &failure), TN_E_CONFLICT);
    assert_int_equal(conflict.reason, TN_CONFLICT_ORDER);
    assert_true(conflict.a == 1 && conflict.b == 2 && conflict.lo == 8 && conflict.hi == 12);
    assert_non_null(strstr(failure.message, "no order between them is known"));
    assert_int_equal(tn_problem_set_streams(problem, 3, &failure), TN_E_INVALID);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

/* Run the events of a kit_execution in many other orders that keep its clocks: whatever the order,
 * no byte may be taken while an earlier holder still has a use to come. */
static bool order_keeps(const tn_problem *problem, const tn_layout *layout,
                        const int64_t position[KIT_EVENTS]) {
    for (tn_body_id a = 0; a < tn_problem_count(problem); a++) {
        for (tn_body_id b = 0; b < a; b++) {
            const tn_body *x = tn_problem_body(problem, a), *y = tn_problem_body(problem, b);
            if (x->size == 0 || y->size == 0) continue;
            int64_t x0 = position[x->first], x1 = position[x->last - 1];
            int64_t y0 = position[y->first], y1 = position[y->last - 1];
            bool together = x0 <= y1 && y0 <= x1;
            if (together && layout->offset[a] < layout->offset[b] + y->size &&
                layout->offset[b] < layout->offset[a] + x->size)
                return false;
        }
    }
    return true;
}

static bool event_waits(const kit_execution *made, const bool *done, int t) {
    int64_t counts[KIT_STREAM_COUNT] = {0};
    for (int e = 0; e < KIT_EVENTS; e++)
        if (done[e]) counts[made->stream[e]]++;
    for (int s = 0; s < KIT_STREAM_COUNT; s++)
        if (counts[s] < made->clock[t][s]) return true;
    return counts[made->stream[t]] != made->index[t];
}

static void no_order_of_events_that_the_clocks_allow_breaks_a_plan(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(60, 10); seed++) {
        tn__random random = {.state = seed};
        kit_execution made;
        tn_problem *problem = new_problem();
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        tn_layout layout;
        options.planner = "fast"; /* any will do; the default would look long for a proof */
        kit_execute(&random, &made);
        assert_ok(tn_problem_set_streams(problem, KIT_STREAM_COUNT, &failure));
        for (int i = 0; i < 25; i++) { /* defined at its first event, used at its last */
            int64_t room[2 * KIT_STREAM_COUNT] = {0};
            tn_piece piece = {
                .hi = 1 + kit_below(&random, 30), .begins = room, .ends = room + KIT_STREAM_COUNT};
            piece.first = (int64_t)kit_below(&random, KIT_EVENTS - 1);
            int64_t use = piece.first;
            for (int64_t e = piece.first + 1; e < KIT_EVENTS && e < piece.first + 20; e++)
                if (made.clock[e][made.stream[piece.first]] > made.index[piece.first]) use = e;
            piece.last = use + 1;
            for (int s = 0; s < KIT_STREAM_COUNT; s++) room[s] = made.clock[piece.first][s];
            int64_t ends[2] = {piece.first, use};
            for (int e = 0; e < 2; e++) {
                int64_t *end = &room[KIT_STREAM_COUNT + made.stream[ends[e]]];
                if (made.index[ends[e]] + 1 > *end) *end = made.index[ends[e]] + 1;
            }
            add(problem, (tn_body){.size = piece.hi, .pieces = &piece, .piece_count = 1});
        }
        assert_ok(tn_plan(problem, &options, &layout, &failure));
        for (int run = 0; run < 40; run++) {
            bool done[KIT_EVENTS] = {false};
            int64_t position[KIT_EVENTS];
            for (int at = 0; at < KIT_EVENTS; at++) {
                int t = (int)kit_below(&random, KIT_EVENTS);
                while (done[t] || event_waits(&made, done, t)) t = (t + 1) % KIT_EVENTS;
                done[t] = true;
                position[t] = at;
            }
            if (!order_keeps(problem, &layout, position))
                fail_msg("seed %llu, run %d\n", (unsigned long long)seed, run);
        }
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

/* What tn__normal_form promises of clocks: conflicts of the pieces as given are never lost. */
static void merged_clocks_lose_no_conflict(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(2000, 200); seed++) {
        tn__random random = {.state = seed};
        kit_execution made;
        tn_problem *problem = new_problem();
        tn_piece pieces[5];
        int64_t rooms[5][2 * KIT_STREAM_COUNT];
        kit_execute(&random, &made);
        assert_ok(tn_problem_set_streams(problem, KIT_STREAM_COUNT, &failure));
        for (int i = 0; i < 5; i++) {
            pieces[i] = kit_piece(&random, 20, 12);
            kit_clocks(&random, &made, &pieces[i], rooms[i]);
            pieces[i].begins = rooms[i];
            pieces[i].ends = rooms[i] + KIT_STREAM_COUNT;
            for (int s = 0; s < KIT_STREAM_COUNT; s++)
                if (rooms[i][KIT_STREAM_COUNT + s] < rooms[i][s])
                    rooms[i][KIT_STREAM_COUNT + s] = rooms[i][s];
        }
        add(problem, (tn_body){.size = 20, .pieces = pieces, .piece_count = 4});
        add(problem, (tn_body){.size = 20, .pieces = pieces + 4, .piece_count = 1});
        for (uint64_t at = 0; at < 20; at++) {
            bool conflict = false;
            for (int i = 0; i < 4; i++)
                conflict |= kit_pieces_unordered(problem, &pieces[i], 0, &pieces[4], at);
            if (conflict && !kit_bodies_meet(problem, 0, 0, 1, at))
                fail_msg("seed %llu, offset %llu\n", (unsigned long long)seed,
                         (unsigned long long)at);
        }
        tn_problem_destroy(problem);
    }
}

static void many_pieces_with_many_clocks_are_refused(void **state) {
    (void)state;
    enum { PIECES = 100 };
    static tn_piece pieces[PIECES];
    tn_problem *problem = new_problem();
    assert_int_equal(tn_problem_set_streams(problem, 0, &failure), TN_E_INVALID);
    assert_int_equal(tn_problem_set_streams(problem, TN_STREAMS_MAX + 1, &failure), TN_E_INVALID);
    assert_ok(tn_problem_set_streams(problem, TN_STREAMS_MAX, &failure));
    for (int i = 0; i < PIECES; i++)
        pieces[i] = (tn_piece){.first = 2 * i, .last = 2 * i + 1, .hi = 8};
    tn_body body = {.size = 8, .pieces = pieces, .piece_count = PIECES};
    assert_int_equal(tn_problem_add(problem, &body, NULL, &failure), TN_E_INVALID);
    body.piece_count = 1;
    assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    tn_problem_destroy(problem);
}

static void running_out_of_memory_leaves_nothing_behind(void **state) {
    (void)state;
    tn_status status = TN_E_NO_MEMORY;
    for (uint64_t fail_at = 1; status != TN_OK && fail_at < 20000; fail_at++) {
        static const int64_t clock[] = {0, 1, 2};
        faulty memory = {.fail_at = fail_at};
        tn_context context = faulty_context(&memory);
        tn_problem *problem = NULL;
        tn_layout layout = {0};
        status = tn_problem_create(&context, &problem, &failure);
        if (status == TN_OK) status = tn_problem_set_streams(problem, 3, &failure);
        for (uint32_t i = 0; status == TN_OK && i < 6; i++) {
            tn_piece pieces[] = {
                {.first = i, .last = i + 2, .hi = 4, .begins = clock, .ends = clock},
                {.first = i, .last = i + 3, .lo = 2, .hi = 8, .begins = clock, .ends = clock}};
            tn_body body = {.size = 8, .pieces = pieces, .piece_count = 2};
            if (i > 2) body.flags = TN_BODY_TIED, body.leader = i - 3, body.delta = 16;
            status = tn_problem_add(problem, &body, NULL, &failure);
        }
        if (status == TN_OK) status = tn_plan(problem, NULL, &layout, &failure);
        assert_true(status == TN_OK || status == TN_E_NO_MEMORY);
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
        assert_int_equal(memory.held, 0);
    }
    assert_int_equal(status, TN_OK);
}

/* --- what would do --- */

/* Whoever would be content with so many bytes gets no more than that where the planner finds as
 * few, a verified layout anyway, and the same as ever where nothing could be as small. */
static void what_would_do_ends_the_search(void **state) {
    (void)state;
    uint64_t work_of_all = 0, work_to_do = 0;
    for (uint64_t seed = 1; seed <= case_count(25, 4); seed++) {
        tn_plan_options options = TN_PLAN_OPTIONS_INIT;
        options.planner = "fast"; /* which fit asks */
        tn_problem *problem = kit_random(seed, 40, 60, 24, KIT_PIECES | KIT_ALIGNMENTS);
        tn_layout least, layout;
        assert_ok(tn_plan(problem, &options, &least, &failure));
        work_of_all += least.work;
        const uint64_t wishes[] = {1, least.lower_bound - 1, least.lower_bound,
                                   least.peak + least.peak / 8, 2 * least.peak};
        for (size_t i = 0; i < sizeof wishes / sizeof *wishes; i++) {
            options.enough = wishes[i];
            assert_ok(tn_plan(problem, &options, &layout, &failure));
            assert_ok(tn_layout_verify(problem, &layout, NULL, &failure));
            if (wishes[i] >= least.peak && layout.peak > wishes[i])
                fail_msg("seed %llu: %llu bytes for %llu", (unsigned long long)seed,
                         (unsigned long long)layout.peak, (unsigned long long)wishes[i]);
            if (wishes[i] < least.lower_bound) assert_int_equal(layout.peak, least.peak);
            if (i == 4) work_to_do += layout.work;
            tn_layout_release(&layout);
        }
        tn_layout_release(&least);
        tn_problem_destroy(problem);
    }
    assert_true(work_to_do < work_of_all);
}

/* To merge them would take an hour, and no limit of time is asked there. */
static void a_chain_of_ties_that_cannot_be_merged_is_refused(void **state) {
    (void)state;
    enum { COUNT = 200000 };
    tn_problem *problem;
    tn_layout layout;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (tn_body_id i = 0; i < COUNT; i++) {
        tn_body body = {.size = 8, .first = i, .last = (int64_t)COUNT + i};
        if (i > 0) body.flags = TN_BODY_TIED, body.leader = i - 1, body.delta = 16;
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    }
    assert_int_equal(tn_plan(problem, NULL, &layout, &failure), TN_E_INVALID);
    tn_problem_destroy(problem);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(chains_of_ties_end_at_their_root),
        cmocka_unit_test(an_alias_takes_no_memory_of_its_own),
        cmocka_unit_test(ties_that_cannot_be_are_refused),
        cmocka_unit_test(pins_pull_their_group_or_are_proved_impossible),
        cmocka_unit_test(a_group_needs_what_one_body_of_its_pieces_needs),
        cmocka_unit_test(a_broken_tie_is_named),
        cmocka_unit_test(two_streams_keep_apart_what_one_would_share),
        cmocka_unit_test(no_order_of_events_that_the_clocks_allow_breaks_a_plan),
        cmocka_unit_test(merged_clocks_lose_no_conflict),
        cmocka_unit_test(many_pieces_with_many_clocks_are_refused),
        cmocka_unit_test(running_out_of_memory_leaves_nothing_behind),
        cmocka_unit_test(a_chain_of_ties_that_cannot_be_merged_is_refused),
        cmocka_unit_test(what_would_do_ends_the_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
