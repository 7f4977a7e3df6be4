/* test_verify.c - the verifier against a judge that tries every pair, on layouts that are damaged
 * at random 100,000 times: moved, shrunk, swapped, deleted. */
#include "count.h"
#include "kit.h"

static tn_problem *problem_of(const tn_body *bodies, uint32_t count) {
    tn_problem *problem;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    for (uint32_t i = 0; i < count; i++)
        assert_ok(tn_problem_add(problem, &bodies[i], NULL, &failure));
    return problem;
}

static tn_status verdict(const tn_problem *problem, const uint64_t *offsets,
                         tn_conflict *conflict) {
    tn_layout layout;
    assert_ok(tn_layout_from_offsets(problem, offsets, &layout, &failure));
    tn_status status = tn_layout_verify(problem, &layout, conflict, &failure);
    tn_layout_release(&layout);
    return status;
}

static void an_overlap_of_one_byte_is_refused_and_named(void **state) {
    (void)state;
    tn_problem *problem = problem_of((tn_body[]){{.name = "a", .size = 8, .last = 2},
                                                 {.name = "b", .size = 8, .first = 1, .last = 3}},
                                     2);
    assert_ok(verdict(problem, (uint64_t[]){0, 8}, NULL));
    assert_int_equal(verdict(problem, (uint64_t[]){0, 7}, NULL), TN_E_CONFLICT);
    assert_string_equal(failure.message, "'a' and 'b' share bytes [7, 8) at step 1");
    tn_problem_destroy(problem);
}

static void bodies_that_follow_each_other_may_share(void **state) {
    (void)state;
    tn_problem *problem =
        problem_of((tn_body[]){{.size = 8, .last = 3}, {.size = 8, .first = 3, .last = 4}}, 2);
    assert_ok(verdict(problem, (uint64_t[]){0, 0}, NULL));
    tn_problem_destroy(problem);
}

static void each_reason_is_found(void **state) {
    (void)state;
    tn_problem *problem =
        problem_of((tn_body[]){{.size = 8, .last = 3, .alignment = 8},
                               {.size = 8, .last = 3, .flags = TN_BODY_PINNED, .offset = 16}},
                   2);
    tn_conflict conflict;
    tn_layout layout;
    verdict(problem, (uint64_t[]){4, 16}, &conflict);
    assert_int_equal(conflict.reason, TN_CONFLICT_ALIGNMENT);
    verdict(problem, (uint64_t[]){0, 8}, &conflict);
    assert_int_equal(conflict.reason, TN_CONFLICT_PIN);
    verdict(problem, (uint64_t[]){UINT64_MAX - 7, 16}, &conflict);
    assert_int_equal(conflict.reason, TN_CONFLICT_OVERFLOW);
    assert_ok(tn_problem_set_bank(problem, 0, &(tn_bank){.capacity = 23}, &failure));
    verdict(problem, (uint64_t[]){0, 16}, &conflict);
    assert_int_equal(conflict.reason, TN_CONFLICT_CAPACITY);
    assert_ok(tn_problem_set_bank(problem, 0, &(tn_bank){.capacity = 24}, &failure));
    assert_ok(tn_layout_from_offsets(problem, (uint64_t[]){0, 16}, &layout, &failure));
    assert_ok(tn_layout_verify(problem, &layout, &conflict, &failure));
    assert_int_equal(conflict.reason, TN_CONFLICT_NONE);
    layout.bank_peak[0] = 23;
    assert_int_equal(tn_layout_verify(problem, &layout, &conflict, &failure), TN_E_CONFLICT);
    assert_int_equal(conflict.reason, TN_CONFLICT_PEAK);
    layout.body_count = 1;
    assert_int_equal(tn_layout_verify(problem, &layout, &conflict, &failure), TN_E_CONFLICT);
    assert_int_equal(conflict.reason, TN_CONFLICT_COUNT);
    tn_layout_release(&layout);
    tn_problem_destroy(problem);
}

static void consider(tn_conflict *first, tn_conflict found) {
    bool later = found.step > first->step || (found.step == first->step && found.lo >= first->lo);
    if (first->reason == TN_CONFLICT_NONE || !later) *first = found;
}

static void consider_pair(const tn_problem *problem, const uint64_t *offsets, tn_body_id a,
                          tn_body_id b, tn_conflict *first) {
    const tn_body *x = tn_problem_body(problem, a), *y = tn_problem_body(problem, b);
    for (uint32_t i = 0;
         i < x->piece_count && x->bank == y->bank && kit_root(problem, a) != kit_root(problem, b);
         i++) {
        for (uint32_t k = 0; k < y->piece_count; k++) {
            const tn_piece *p = &x->pieces[i], *q = &y->pieces[k];
            uint64_t lo = offsets[a] + p->lo, other = offsets[b] + q->lo;
            if (kit_pieces_unordered(problem, p, offsets[a], q, offsets[b]))
                consider(first,
                         (tn_conflict){.reason = kit_pieces_meet(p, offsets[a], q, offsets[b])
                                                     ? TN_CONFLICT_OVERLAP
                                                     : TN_CONFLICT_ORDER,
                                       .step = p->first > q->first ? p->first : q->first,
                                       .lo = lo > other ? lo : other});
        }
    }
}

/* Some body of the group of `id` is not where its tie wants it. */
static bool is_torn(const tn_problem *problem, const uint64_t *offsets, tn_body_id id) {
    for (tn_body_id i = 0; i < tn_problem_count(problem); i++) {
        const tn_body *body = tn_problem_body(problem, i);
        if (kit_root(problem, i) == kit_root(problem, id) && (body->flags & TN_BODY_TIED) &&
            offsets[i] != offsets[body->leader] + body->delta)
            return true;
    }
    return false;
}

/* Of all that is wrong, what is first in time, then by byte: each body, then every pair. */
static tn_conflict first_conflict(const tn_problem *problem, const tn_layout *layout) {
    tn_conflict first = {.reason = TN_CONFLICT_NONE};
    for (tn_body_id a = 0; a < tn_problem_count(problem); a++) {
        const tn_body *body = tn_problem_body(problem, a);
        const tn_bank *bank = tn_problem_bank(problem, body->bank);
        uint64_t at = layout->offset[a], end = at + body->size;
        tn_conflict alone = {.step = body->first, .lo = at};
        if (body->size > 0 && end > layout->bank_peak[body->bank]) alone.reason = TN_CONFLICT_PEAK;
        if (body->size > 0 && bank->capacity != 0 && end > bank->capacity)
            alone.reason = TN_CONFLICT_CAPACITY;
        if ((body->flags & TN_BODY_TIED) && at != layout->offset[body->leader] + body->delta)
            alone.reason = TN_CONFLICT_TIE;
        if ((body->flags & TN_BODY_PINNED) && at != body->offset) alone.reason = TN_CONFLICT_PIN;
        if (at % body->alignment != 0) alone.reason = TN_CONFLICT_ALIGNMENT;
        if (alone.reason != TN_CONFLICT_NONE) consider(&first, alone);
    }
    for (tn_body_id a = 0; a < tn_problem_count(problem); a++)
        for (tn_body_id b = 0; b < a; b++)
            if (!is_torn(problem, layout->offset, a) && !is_torn(problem, layout->offset, b))
                consider_pair(problem, layout->offset, a, b, &first);
    return first;
}

/* Some piece of the body, at its address, holds bytes [lo, hi) at `step`. */
static bool holds(const tn_problem *problem, tn_body_id id, uint64_t at, const tn_conflict *found) {
    const tn_body *body = tn_problem_body(problem, id);
    for (uint32_t k = 0; k < body->piece_count; k++) {
        const tn_piece *piece = &body->pieces[k];
        if (piece->first <= found->step && found->step < piece->last &&
            at + piece->lo <= found->lo && found->hi <= at + piece->hi && found->lo < found->hi)
            return true;
    }
    return false;
}

/* A copy of the problem with body `damaged` smaller or gone; shrinking keeps a plan valid. */
static tn_problem *copy_without(const tn_problem *problem, tn_body_id damaged, bool shrink) {
    tn_problem *copy;
    assert_ok(tn_problem_create(NULL, &copy, &failure));
    assert_ok(tn_problem_set_bank(copy, 1, &(tn_bank){.name = "b"}, &failure));
    assert_ok(tn_problem_set_streams(copy, tn_problem_streams(problem), &failure));
    for (tn_body_id i = 0; i < tn_problem_count(problem); i++) {
        tn_body body = *tn_problem_body(problem, i);
        if (i == damaged && !shrink) continue;
        body.flags &= (uint32_t)~TN_BODY_TIED; /* a leader may be gone */
        if (i == damaged && body.size > 1) {
            body.size = 1 + body.size / 2;
            body.pieces = NULL;
        }
        assert_ok(tn_problem_add(copy, &body, NULL, &failure));
    }
    return copy;
}

static void check_against_all_pairs(const tn_problem *problem, const uint64_t *offsets,
                                    uint64_t seed) {
    tn_layout layout;
    tn_conflict found, first;
    assert_ok(tn_layout_from_offsets(problem, offsets, &layout, &failure));
    if (seed % 7 == 0 && layout.bank_peak[seed % 2] > 0) layout.bank_peak[seed % 2]--;
    tn_status status = tn_layout_verify(problem, &layout, &found, &failure);
    first = first_conflict(problem, &layout);
    /* on one byte at one step there can be both: the verifier asks the last holder only */
    bool pairs = (first.reason == TN_CONFLICT_OVERLAP || first.reason == TN_CONFLICT_ORDER) &&
                 (found.reason == TN_CONFLICT_OVERLAP || found.reason == TN_CONFLICT_ORDER);
    if (pairs) first.reason = found.reason;
    if (status != (first.reason == TN_CONFLICT_NONE ? TN_OK : TN_E_CONFLICT) ||
        first.reason != found.reason)
        fail_msg("seed %llu: reason %d, not %d\n", (unsigned long long)seed, first.reason,
                 found.reason);
    if (status != TN_OK && (first.step != found.step || first.lo != found.lo))
        fail_msg("seed %llu: first conflict at step %lld byte %llu, not %lld %llu\n",
                 (unsigned long long)seed, (long long)first.step, (unsigned long long)first.lo,
                 (long long)found.step, (unsigned long long)found.lo);
    if (found.reason == TN_CONFLICT_OVERLAP &&
        !(found.a < found.b && holds(problem, found.a, offsets[found.a], &found) &&
          holds(problem, found.b, offsets[found.b], &found)))
        fail_msg("seed %llu: the named bodies do not share it\n", (unsigned long long)seed);
    if (found.reason == TN_CONFLICT_ORDER &&
        !(found.a < found.b &&
          kit_bodies_meet(problem, found.a, offsets[found.a], found.b, offsets[found.b])))
        fail_msg("seed %llu: the named bodies are in order\n", (unsigned long long)seed);
    tn_layout_release(&layout);
}

/* Not ties and streams together: then the verifier judges the group's merged clocks, which may
 * refuse more (see test_limits.c). */
static unsigned verify_kinds(uint64_t seed) {
    unsigned what = (unsigned)(seed % (KIT_ALL + 1));
    return what & KIT_STREAMS ? what & (unsigned)~KIT_TIES : what;
}

static void a_hundred_thousand_damages_are_judged_as_all_pairs_judge(void **state) {
    (void)state;
    uint64_t damages = 0;
    for (uint64_t seed = 1; damages < 100000; seed++) {
        tn__random random = {.state = seed};
        uint32_t count = 2 + (uint32_t)(seed % 14);
        tn_problem *problem = kit_random(seed, count, 40, 10, verify_kinds(seed) | KIT_BANKS);
        tn_layout layout;
        assert_ok(tn_plan(problem, NULL, &layout, &failure));
        if (seed % 5 == 0 && layout.bank_peak[1] > 1)
            assert_ok(tn_problem_set_bank(
                problem, 1, &(tn_bank){.capacity = layout.bank_peak[1] - seed % 2}, &failure));
        check_against_all_pairs(problem, layout.offset, seed);
        for (int k = 0; k < 50; k++, damages++) {
            uint64_t offsets[16];
            memcpy(offsets, layout.offset, count * sizeof *offsets);
            tn_body_id a = (tn_body_id)kit_below(&random, count),
                       b = (tn_body_id)kit_below(&random, count);
            uint64_t kind = kit_below(&random, 4);
            if (kind == 0) offsets[a] = kit_below(&random, layout.peak + 8);
            if (kind == 1) {
                offsets[a] = layout.offset[b];
                offsets[b] = layout.offset[a];
            }
            if (kind < 2) {
                check_against_all_pairs(problem, offsets, seed);
                continue;
            }
            tn_problem *damaged = copy_without(problem, a, kind == 2);
            if (kind == 3) memmove(offsets + a, offsets + a + 1, (count - a - 1) * sizeof *offsets);
            check_against_all_pairs(damaged, offsets, seed);
            tn_problem_destroy(damaged);
        }
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

static void a_layout_without_reuse_shares_no_byte(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= case_count(50, 8); seed++) {
        tn_problem *problem = kit_random(seed, 12, 40, 9, KIT_ALIGNMENTS | KIT_PIECES);
        tn_layout layout;
        assert_ok(tn_layout_without_reuse(problem, &layout, &failure));
        assert_ok(tn_layout_verify(problem, &layout, NULL, &failure));
        for (tn_body_id a = 0; a < 12; a++)
            for (tn_body_id b = 0; b < a; b++)
                assert_true(layout.offset[b] + tn_problem_body(problem, b)->size <=
                            layout.offset[a]);
        tn_layout_release(&layout);
        tn_problem_destroy(problem);
    }
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_overlap_of_one_byte_is_refused_and_named),
        cmocka_unit_test(bodies_that_follow_each_other_may_share),
        cmocka_unit_test(each_reason_is_found),
        cmocka_unit_test(a_layout_without_reuse_shares_no_byte),
        cmocka_unit_test(a_hundred_thousand_damages_are_judged_as_all_pairs_judge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
