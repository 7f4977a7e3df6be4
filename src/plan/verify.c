/* verify.c - the judge: is a layout valid? Shares nothing with the planners but the problem.
 *
 * Sweeps over time. As long as nothing was wrong so far, the live pieces are disjoint byte ranges,
 * so a new one can only meet its nearest neighbour below or above. Pieces are ranked by their
 * lowest byte; the live ranks are a set of bits with summaries (64 to one), in which the nearest
 * neighbours are found in a handful of word operations. When a conflict shows, the live pieces of
 * that step are gone through once to name the lowest byte that is shared. Of everything that is
 * wrong, the conflict first in time, then by byte, is the one reported; what is wrong with a body
 * by itself (alignment, pin, capacity) counts from its first step and its offset.
 *
 * Cost: O((n + k) log n) for n pieces, k = 0 or 1 conflict; O(n) memory.
 */
#include "plan/problem.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct verify_piece { /* a piece at its address */
    int64_t first, last;
    uint64_t lo, hi;
    tn_body_id body;
} verify_piece;

/* --- a set of ranks: level 0 has one bit a rank, each level above one bit a word below ---------
 */

#define VERIFY_LEVELS 6 /* 64^6 > 2^32 */

typedef struct verify_set {
    uint64_t *level[VERIFY_LEVELS];
    uint32_t level_count;
} verify_set;

static size_t verify_set_words(uint32_t ranks) { /* of all levels together */
    size_t words = 0, level = ranks;
    do {
        level = (level + 63) / 64;
        words += level;
    } while (level > 1);
    return words;
}

static void verify_set_init(verify_set *set, uint64_t *words, uint32_t ranks) {
    size_t level = ranks;
    set->level_count = 0;
    do {
        level = (level + 63) / 64;
        set->level[set->level_count++] = words;
        words += level;
    } while (level > 1);
}

static void verify_set_add(verify_set *set, uint32_t rank) {
    for (uint32_t i = 0; i < set->level_count; i++, rank /= 64)
        set->level[i][rank / 64] |= 1ull << (rank % 64);
}

static void verify_set_remove(verify_set *set, uint32_t rank) {
    for (uint32_t i = 0; i < set->level_count; i++, rank /= 64) {
        set->level[i][rank / 64] &= ~(1ull << (rank % 64));
        if (set->level[i][rank / 64] != 0) break;
    }
}

/* The nearest member above (`up`) or below `rank`, UINT32_MAX when there is none. */
static uint32_t verify_set_near(const verify_set *set, uint32_t rank, bool up) {
    for (uint32_t i = 0; i < set->level_count; i++, rank /= 64) {
        uint64_t bit = 1ull << (rank % 64);
        uint64_t beyond = up ? ~(bit | (bit - 1)) : bit - 1;
        uint64_t found = set->level[i][rank / 64] & beyond;
        if (found == 0) continue;
        uint32_t at =
            rank / 64 * 64 + (uint32_t)(up ? __builtin_ctzll(found) : 63 - __builtin_clzll(found));
        while (i-- > 0) {
            uint64_t word = set->level[i][at];
            at = at * 64 + (uint32_t)(up ? __builtin_ctzll(word) : 63 - __builtin_clzll(word));
        }
        return at;
    }
    return UINT32_MAX;
}

/* --- conflicts as sentences --- */

static tn_status verify_fail(const tn_problem *problem, const tn_conflict *found,
                             tn_conflict *conflict, tn_error *error) {
    char a[TN__BODY_TEXT_MAX], b[TN__BODY_TEXT_MAX];
    tn__body_text(problem, found->a, a);
    tn__body_text(problem, found->b, b);
    if (conflict != NULL) *conflict = *found;
    switch (found->reason) {
    case TN_CONFLICT_OVERLAP:
        TN_FAIL(error, TN_E_CONFLICT,
                "%s and %s share bytes [%" PRIu64 ", %" PRIu64 ") at step %" PRId64, a, b,
                found->lo, found->hi, found->step);
    case TN_CONFLICT_ALIGNMENT:
        TN_FAIL(error, TN_E_CONFLICT, "%s is at %" PRIu64 ", no multiple of its alignment %" PRIu64,
                a, found->lo, problem->bodies[found->a].alignment);
    case TN_CONFLICT_PIN:
        TN_FAIL(error, TN_E_CONFLICT, "%s is at %" PRIu64 " but pinned at %" PRIu64, a, found->lo,
                found->hi);
    case TN_CONFLICT_CAPACITY:
        TN_FAIL(error, TN_E_CONFLICT,
                "%s ends at %" PRIu64 ", beyond the capacity %" PRIu64 " of its bank", a, found->hi,
                problem->banks[problem->bodies[found->a].bank].capacity);
    case TN_CONFLICT_PEAK:
        TN_FAIL(error, TN_E_CONFLICT,
                "%s ends at %" PRIu64 ", above the peak that the layout states", a, found->hi);
    case TN_CONFLICT_OVERFLOW:
        TN_FAIL(error, TN_E_CONFLICT, "%s at %" PRIu64 " ends beyond 64 bits", a, found->lo);
    default:
        TN_FAIL(error, TN_E_CONFLICT, "the layout is for another number of bodies or banks");
    }
}

/* Keeps the conflict that is first in time, then by byte; of equals the one it has. */
static void verify_consider(tn_conflict *first, const tn_conflict *found) {
    bool later = found->step != first->step ? found->step > first->step : found->lo >= first->lo;
    if (first->reason == TN_CONFLICT_NONE || !later) *first = *found;
}

/* --- each body by itself --- */

static void verify_body(const tn_problem *problem, const tn_layout *layout, tn_body_id id,
                        tn_conflict *first) {
    const tn_body *body = &problem->bodies[id];
    uint64_t offset = layout->offset[id], capacity = problem->banks[body->bank].capacity;
    tn_conflict found = {.a = id, .b = id, .step = body->first, .lo = offset};
    if (!tn__add(offset, body->size, &found.hi)) {
        found.reason = TN_CONFLICT_OVERFLOW;
    } else if (offset % body->alignment != 0) {
        found.reason = TN_CONFLICT_ALIGNMENT;
    } else if ((body->flags & TN_BODY_PINNED) && offset != body->offset) {
        found.reason = TN_CONFLICT_PIN;
        found.hi = body->offset;
    } else if (body->size != 0 && capacity != 0 && found.hi > capacity) {
        found.reason = TN_CONFLICT_CAPACITY;
    } else if (body->size != 0 && found.hi > layout->bank_peak[body->bank]) {
        found.reason = TN_CONFLICT_PEAK;
    }
    if (found.reason != TN_CONFLICT_NONE) verify_consider(first, &found);
}

/* --- all bodies of a bank over time --- */

static int verify_by_byte(const void *a, const void *b) {
    const verify_piece *x = a, *y = b;
    if (x->lo != y->lo) return x->lo < y->lo ? -1 : 1;
    if (x->body != y->body) return x->body < y->body ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

typedef struct verify_event {
    int64_t time;
    uint32_t rank;
    uint32_t starts; /* 0: ends, which come first */
} verify_event;

static int verify_by_time(const void *a, const void *b) {
    const verify_event *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    if (x->starts != y->starts) return x->starts < y->starts ? -1 : 1;
    return (x->rank > y->rank) - (x->rank < y->rank);
}

/* The lowest byte that two pieces share at `step`, with the two lowest-ranked that hold it. The
 * pieces are sorted by lo, so of those before the present one the highest end matters. */
static void verify_name(const verify_piece *pieces, uint32_t count, int64_t step,
                        tn_conflict *found) {
    const verify_piece *reach = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const verify_piece *piece = &pieces[i];
        if (piece->first > step || piece->last <= step) continue;
        if (reach != NULL && reach->hi > piece->lo) {
            bool swap = reach->body > piece->body;
            *found = (tn_conflict){.reason = TN_CONFLICT_OVERLAP,
                                   .a = swap ? piece->body : reach->body,
                                   .b = swap ? reach->body : piece->body,
                                   .step = step,
                                   .lo = piece->lo,
                                   .hi = piece->hi < reach->hi ? piece->hi : reach->hi};
            return;
        }
        reach = piece; /* disjoint so far: the last one reaches highest */
    }
}

static bool verify_sweep(const verify_piece *pieces, uint32_t count, const verify_event *events,
                         verify_set *live, tn_conflict *found) {
    for (uint32_t i = 0; i < 2 * count; i++) {
        uint32_t rank = events[i].rank;
        if (!events[i].starts) {
            verify_set_remove(live, rank);
            continue;
        }
        uint32_t below = verify_set_near(live, rank, false);
        uint32_t above = verify_set_near(live, rank, true);
        bool meets = (below != UINT32_MAX && pieces[below].hi > pieces[rank].lo) ||
                     (above != UINT32_MAX && pieces[above].lo < pieces[rank].hi);
        if (meets) {
            verify_name(pieces, count, events[i].time, found);
            return false;
        }
        verify_set_add(live, rank);
    }
    return true;
}

/* What is to be swept: all bodies at `offsets`, or, when it is NULL, the pinned ones at their pins.
 * A body that ends beyond 64 bits has no place; it is a conflict by itself. */
static uint32_t verify_gather(const tn_problem *problem, const uint64_t *offsets, tn_bank_id bank,
                              verify_piece *pieces) {
    uint32_t count = 0;
    for (size_t id = 0; id < problem->count; id++) {
        const tn_body *body = &problem->bodies[id];
        if (body->bank != bank || (offsets == NULL && !(body->flags & TN_BODY_PINNED))) continue;
        uint64_t offset = offsets != NULL ? offsets[id] : body->offset;
        if (offset > UINT64_MAX - body->size) continue;
        for (uint32_t k = 0; k < body->piece_count; k++) {
            const tn_piece *piece = &body->pieces[k];
            pieces[count++] = (verify_piece){piece->first, piece->last, offset + piece->lo,
                                             offset + piece->hi, (tn_body_id)id};
        }
    }
    return count;
}

/* Sweeps the banks one after the other. */
static tn_status verify_overlaps(const tn_problem *problem, const uint64_t *offsets,
                                 tn_conflict *first, tn_error *error) {
    const tn_context *context = &problem->context;
    size_t room = problem->piece_count;
    if (room == 0) return TN_OK;
    size_t words = verify_set_words((uint32_t)room);
    verify_piece *pieces = tn__alloc_array(context, room, sizeof *pieces);
    verify_event *events = tn__alloc_array(context, 2 * room, sizeof *events);
    uint64_t *bits = tn__alloc_array(context, words, sizeof *bits);
    bool fits = pieces != NULL && events != NULL && bits != NULL;
    for (tn_bank_id bank = 0; fits && bank < problem->bank_count; bank++) {
        uint32_t count = verify_gather(problem, offsets, bank, pieces);
        if (count == 0) continue;
        qsort(pieces, count, sizeof *pieces, verify_by_byte);
        for (uint32_t rank = 0; rank < count; rank++) {
            events[2 * rank] = (verify_event){pieces[rank].first, rank, 1};
            events[2 * rank + 1] = (verify_event){pieces[rank].last, rank, 0};
        }
        qsort(events, 2 * (size_t)count, sizeof *events, verify_by_time);
        memset(bits, 0, words * sizeof *bits);
        verify_set live;
        tn_conflict found = {0};
        verify_set_init(&live, bits, count);
        if (!verify_sweep(pieces, count, events, &live, &found)) verify_consider(first, &found);
    }
    tn__free(context, pieces, room * sizeof *pieces);
    tn__free(context, events, 2 * room * sizeof *events);
    tn__free(context, bits, words * sizeof *bits);
    return fits ? TN_OK : tn__no_memory(error, "the verifier");
}

tn_status tn_layout_verify(const tn_problem *problem, const tn_layout *layout,
                           tn_conflict *conflict, tn_error *error) {
    tn_conflict first = {0};
    if (layout->body_count != problem->count || layout->bank_count != problem->bank_count) {
        first.reason = TN_CONFLICT_COUNT;
        return verify_fail(problem, &first, conflict, error);
    }
    for (tn_body_id id = 0; id < layout->body_count; id++) verify_body(problem, layout, id, &first);
    TN_TRY(verify_overlaps(problem, layout->offset, &first, error));
    if (first.reason != TN_CONFLICT_NONE) return verify_fail(problem, &first, conflict, error);
    if (conflict != NULL) *conflict = first;
    return TN_OK;
}

tn_status tn__verify_pins(const tn_problem *problem, tn_error *error) {
    tn_conflict first = {0};
    size_t pins = 0;
    for (size_t i = 0; i < problem->count; i++)
        pins += (problem->bodies[i].flags & TN_BODY_PINNED) != 0;
    if (pins < 2) return TN_OK;
    TN_TRY(verify_overlaps(problem, NULL, &first, error));
    if (first.reason == TN_CONFLICT_NONE) return TN_OK;
    char a[TN__BODY_TEXT_MAX], b[TN__BODY_TEXT_MAX];
    TN_FAIL(error, TN_E_INFEASIBLE,
            "%s and %s are pinned where they share bytes [%" PRIu64 ", %" PRIu64
            ") at step %" PRId64 "; no layout can keep both pins",
            tn__body_text(problem, first.a, a), tn__body_text(problem, first.b, b), first.lo,
            first.hi, first.step);
}
