/* kit.h - random problems, and the judges that tests of the room share: they know a layout by the
 * definition alone, byte by byte or pair by pair. */
#ifndef TN_TESTS_PLAN_KIT_H
#define TN_TESTS_PLAN_KIT_H

#include "../support.h"

#include <tenure/plan.h>

#include "base/base.h"

static tn_error failure;
#define assert_ok(call)                                                                            \
    do {                                                                                           \
        if ((call) != TN_OK) fail_msg("%s: %s\n", failure.where, failure.message);                 \
    } while (0)

enum { KIT_PINS = 1, KIT_PIECES = 2, KIT_ALIGNMENTS = 4, KIT_BANKS = 8, KIT_ALL = 15 };

static inline uint64_t kit_below(tn__random *random, uint64_t bound) {
    return tn__random_below(random, bound);
}

static inline tn_piece kit_piece(tn__random *random, uint64_t size, int64_t steps) {
    tn_piece piece = {.first = (int64_t)kit_below(random, (uint64_t)steps) - 3};
    piece.last = piece.first + 1 + (int64_t)kit_below(random, (uint64_t)steps / 2 + 1);
    piece.lo = kit_below(random, size);
    piece.hi = piece.lo + 1 + kit_below(random, size - piece.lo);
    return piece;
}

/* Pins lie far apart, so that they never meet each other. */
static inline tn_problem *kit_random(uint64_t seed, uint32_t count, uint64_t size_max,
                                     int64_t steps, unsigned what) {
    tn__random random = {.state = seed};
    tn_problem *problem;
    uint64_t pin = 0;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    if (what & KIT_BANKS)
        assert_ok(tn_problem_set_bank(problem, 1, &(tn_bank){.name = "b"}, &failure));
    for (uint32_t i = 0; i < count; i++) {
        tn_piece pieces[4];
        tn_body body = {.size = 1 + kit_below(&random, size_max), .pieces = pieces};
        uint32_t kinds = (what & KIT_PIECES) && kit_below(&random, 3) == 0
                             ? 1 + (uint32_t)kit_below(&random, 4)
                             : 0;
        for (body.piece_count = 0; body.piece_count < kinds; body.piece_count++)
            pieces[body.piece_count] = kit_piece(&random, body.size, steps);
        body.first = (int64_t)kit_below(&random, (uint64_t)steps) - 3;
        body.last = body.first + 1 + (int64_t)kit_below(&random, (uint64_t)steps / 2 + 1);
        if (what & KIT_ALIGNMENTS) body.alignment = 1ull << kit_below(&random, 4);
        if (what & KIT_BANKS) body.bank = (tn_bank_id)kit_below(&random, 2);
        if ((what & KIT_PINS) && kit_below(&random, 8) == 0) {
            body.flags = TN_BODY_PINNED;
            body.offset = pin;
            pin += (size_max + 16) & ~15ull;
        }
        if (kit_below(&random, 20) == 0) body.size = 0, body.piece_count = 0;
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    }
    return problem;
}

static inline bool kit_pieces_meet(const tn_piece *a, uint64_t at_a, const tn_piece *b,
                                   uint64_t at_b) {
    return a->first < b->last && b->first < a->last && at_a + a->lo < at_b + b->hi &&
           at_b + b->lo < at_a + a->hi;
}

static inline bool kit_bodies_meet(const tn_problem *problem, tn_body_id a, uint64_t at_a,
                                   tn_body_id b, uint64_t at_b) {
    const tn_body *x = tn_problem_body(problem, a), *y = tn_problem_body(problem, b);
    if (x->bank != y->bank) return false;
    for (uint32_t i = 0; i < x->piece_count; i++)
        for (uint32_t k = 0; k < y->piece_count; k++)
            if (kit_pieces_meet(&x->pieces[i], at_a, &y->pieces[k], at_b)) return true;
    return false;
}

/* Quadratic: every pair of bodies, every pair of pieces. */
static inline bool kit_is_valid(const tn_problem *problem, const uint64_t *offsets) {
    for (tn_body_id a = 0; a < tn_problem_count(problem); a++) {
        const tn_body *body = tn_problem_body(problem, a);
        if (offsets[a] % body->alignment != 0) return false;
        if ((body->flags & TN_BODY_PINNED) && offsets[a] != body->offset) return false;
        for (tn_body_id b = 0; b < a; b++)
            if (kit_bodies_meet(problem, a, offsets[a], b, offsets[b])) return false;
    }
    return true;
}

#endif
