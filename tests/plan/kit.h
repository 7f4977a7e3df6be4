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

enum {
    KIT_PINS = 1,
    KIT_PIECES = 2,
    KIT_ALIGNMENTS = 4,
    KIT_BANKS = 8,
    KIT_TIES = 16,
    KIT_STREAMS = 32,
    KIT_ALL = 63,
    KIT_PINS_MEET = 64, /* with KIT_PINS: pins anywhere, so that there may be no layout */
    KIT_CHOICE = 128    /* some bodies choose their bank; the judges below do not know of it */
};

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

/* A run of one event a step, each on a stream of its own choice, some waiting for earlier ones of
 * other streams: clock[t][s] events of stream s come before event t. Event 0 is step -3. */
enum { KIT_STREAM_COUNT = 3, KIT_EVENTS = 64 };
typedef struct kit_execution {
    uint32_t stream[KIT_EVENTS];
    int64_t index[KIT_EVENTS]; /* within its stream */
    int64_t clock[KIT_EVENTS][KIT_STREAM_COUNT];
} kit_execution;

static inline void kit_execute(tn__random *random, kit_execution *made) {
    int64_t counts[KIT_STREAM_COUNT] = {0};
    int last[KIT_STREAM_COUNT] = {-1, -1, -1};
    memset(made, 0, sizeof *made);
    for (int t = 0; t < KIT_EVENTS; t++) {
        uint32_t stream = (uint32_t)kit_below(random, KIT_STREAM_COUNT);
        int waits[2] = {last[stream], t > 0 && kit_below(random, 2) == 0
                                          ? (int)kit_below(random, (uint64_t)t)
                                          : -1};
        for (int w = 0; w < 2; w++) {
            for (uint32_t s = 0; waits[w] >= 0 && s < KIT_STREAM_COUNT; s++) {
                int64_t seen = made->clock[waits[w]][s];
                if (s == made->stream[waits[w]]) seen = made->index[waits[w]] + 1;
                if (seen > made->clock[t][s]) made->clock[t][s] = seen;
            }
        }
        made->stream[t] = stream;
        made->index[t] = counts[stream]++;
        last[stream] = t;
    }
}

/* Clocks of a piece that is defined at its first step and used at its last and one between; now and
 * then unknown, or nonsense. `room` [2 * KIT_STREAM_COUNT]. */
static inline void kit_clocks(tn__random *random, const kit_execution *made, tn_piece *piece,
                              int64_t *room) {
    int64_t first = piece->first + 3, last = piece->last + 2;
    int64_t uses[3] = {first, last,
                       first + (int64_t)kit_below(random, (uint64_t)(last - first + 1))};
    uint64_t kind = kit_below(random, 16);
    memset(room, 0, 2 * KIT_STREAM_COUNT * sizeof *room);
    for (int s = 0; s < KIT_STREAM_COUNT; s++) room[s] = made->clock[first][s];
    for (int u = 0; u < 3; u++) {
        int64_t *end = &room[KIT_STREAM_COUNT + made->stream[uses[u]]];
        if (made->index[uses[u]] + 1 > *end) *end = made->index[uses[u]] + 1;
    }
    for (int i = 0; i < 2 * KIT_STREAM_COUNT && kind == 0; i++)
        room[i] = (int64_t)kit_below(random, 12) - 3;
    piece->begins = kind == 1 ? NULL : room;
    piece->ends = kind == 2 ? NULL : room + KIT_STREAM_COUNT;
}

/* Ties the body to an earlier one that no pin holds, where it may overlap its group. */
static inline void kit_tie(tn__random *random, const tn_problem *problem, tn_body *body,
                           uint64_t size_max) {
    uint32_t count = tn_problem_count(problem);
    tn_body_id leader = (tn_body_id)kit_below(random, count);
    const tn_body *root = tn_problem_body(problem, leader);
    if (root->flags & TN_BODY_TIED) root = tn_problem_body(problem, root->leader);
    if (root->flags & TN_BODY_PINNED) return;
    uint64_t alignment = body->alignment > 0 ? body->alignment : 1;
    const tn_body *above = tn_problem_body(problem, leader);
    body->flags = TN_BODY_TIED;
    body->leader = leader;
    body->bank = root->bank;
    body->delta = (kit_below(random, size_max) + alignment - 1) / alignment * alignment;
    uint64_t start = above->flags & TN_BODY_TIED ? above->delta : 0;
    while ((start + body->delta) % alignment != 0) body->delta++;
}

/* Pins lie far apart, so that they never meet each other. */
static inline tn_problem *kit_random(uint64_t seed, uint32_t count, uint64_t size_max,
                                     int64_t steps, unsigned what) {
    tn__random random = {.state = seed};
    tn_problem *problem;
    kit_execution made;
    uint64_t pin = 0;
    assert_ok(tn_problem_create(NULL, &problem, &failure));
    if (what & KIT_STREAMS) {
        assert_ok(tn_problem_set_streams(problem, KIT_STREAM_COUNT, &failure));
        kit_execute(&random, &made);
    }
    if (what & KIT_BANKS)
        assert_ok(tn_problem_set_bank(problem, 1, &(tn_bank){.name = "b"}, &failure));
    for (uint32_t i = 0; i < count; i++) {
        tn_piece pieces[4];
        int64_t clocks[4][2 * KIT_STREAM_COUNT];
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
            if (what & KIT_PINS_MEET)
                body.offset = kit_below(&random, 2 * size_max) /
                              (body.alignment | !body.alignment) * body.alignment;
        }
        if (kit_below(&random, 20) == 0) body.size = 0, body.piece_count = 0;
        if ((what & KIT_TIES) && i > 0 && !(body.flags & TN_BODY_PINNED) &&
            kit_below(&random, 3) == 0)
            kit_tie(&random, problem, &body, size_max);
        if ((what & KIT_STREAMS) && body.piece_count == 0 && body.size > 0) {
            pieces[0] = (tn_piece){.first = body.first, .last = body.last, .hi = body.size};
            body.piece_count = 1;
        }
        bool tied = (body.flags & TN_BODY_TIED) != 0;
        const tn_body *leader = tied ? tn_problem_body(problem, body.leader) : NULL;
        if (what & KIT_CHOICE) {
            body.traffic = kit_below(&random, 1000);
            bool chooses = tied ? (leader->flags & TN_BODY_ANY_BANK) != 0
                                : kit_below(&random, 2) == 0 && !(body.flags & TN_BODY_PINNED);
            if (chooses) body.flags |= TN_BODY_ANY_BANK;
        }
        for (uint32_t k = 0; (what & KIT_STREAMS) && k < body.piece_count; k++)
            kit_clocks(&random, &made, &pieces[k], clocks[k]);
        assert_ok(tn_problem_add(problem, &body, NULL, &failure));
    }
    return problem;
}

static inline bool kit_pieces_meet(const tn_piece *a, uint64_t at_a, const tn_piece *b,
                                   uint64_t at_b) {
    return a->first < b->last && b->first < a->last && at_a + a->lo < at_b + b->hi &&
           at_b + b->lo < at_a + a->hi;
}

/* The definition: in serial time, and stream by stream. */
static inline bool kit_is_before(const tn_problem *problem, const tn_piece *a, const tn_piece *b) {
    bool before = a->last <= b->first;
    for (uint32_t s = 0; before && tn_problem_streams(problem) > 1 && s < KIT_STREAM_COUNT; s++)
        before = a->ends[s] <= b->begins[s];
    return before;
}

static inline bool kit_pieces_unordered(const tn_problem *problem, const tn_piece *a, uint64_t at_a,
                                        const tn_piece *b, uint64_t at_b) {
    return at_a + a->lo < at_b + b->hi && at_b + b->lo < at_a + a->hi &&
           !kit_is_before(problem, a, b) && !kit_is_before(problem, b, a);
}

static inline tn_body_id kit_root(const tn_problem *problem, tn_body_id id) {
    const tn_body *body = tn_problem_body(problem, id);
    return body->flags & TN_BODY_TIED ? body->leader : id;
}

static inline bool kit_bodies_meet(const tn_problem *problem, tn_body_id a, uint64_t at_a,
                                   tn_body_id b, uint64_t at_b) {
    const tn_body *x = tn_problem_body(problem, a), *y = tn_problem_body(problem, b);
    if (x->bank != y->bank || kit_root(problem, a) == kit_root(problem, b)) return false;
    for (uint32_t i = 0; i < x->piece_count; i++)
        for (uint32_t k = 0; k < y->piece_count; k++)
            if (kit_pieces_unordered(problem, &x->pieces[i], at_a, &y->pieces[k], at_b))
                return true;
    return false;
}

/* Quadratic: every pair of bodies, every pair of pieces. */
static inline bool kit_is_valid(const tn_problem *problem, const uint64_t *offsets) {
    for (tn_body_id a = 0; a < tn_problem_count(problem); a++) {
        const tn_body *body = tn_problem_body(problem, a);
        if (offsets[a] % body->alignment != 0) return false;
        if ((body->flags & TN_BODY_PINNED) && offsets[a] != body->offset) return false;
        if ((body->flags & TN_BODY_TIED) && offsets[a] != offsets[body->leader] + body->delta)
            return false;
        for (tn_body_id b = 0; b < a; b++)
            if (kit_bodies_meet(problem, a, offsets[a], b, offsets[b])) return false;
    }
    return true;
}

#endif
