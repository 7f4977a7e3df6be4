/* verify.c - checks whether a layout is valid; shares no code with the planners except for the
 * problem.
 *
 * It sweeps over time. Until a conflict is found, the pieces that hold bytes are disjoint ranges,
 * so a new piece can only overlap its nearest neighbours below and above. Pieces are kept in order
 * of address; an ended piece stays until a new one needs its bytes. After the first conflict, the
 * live pieces of that step are scanned once for the lowest shared byte. If there are several
 * errors, the first in time, then by byte, is reported; an error of a single buffer (alignment,
 * pin, tie, capacity) counts from its first step and its offset. A group of tied buffers is swept
 * as one buffer, the union of its members at the place of its root, because its members may overlap
 * each other. A layout that breaks a tie has a conflict already, and the group is not swept,
 * because it has no single place.
 *
 * In a problem with exclusions, live pieces may overlap, and verify_exclusions.c sweeps instead.
 *
 * Separations and reserved ranges do not depend on time: each pair and each buffer is checked
 * alone.
 *
 * Several streams: "before" (time and clocks) is transitive, because no clock of a piece ends below
 * its begin, and pieces of one buffer on the same bytes have ascending clocks (normal.c). So pieces
 * are taken in serial order, and a piece is compared only with the last holder of each byte: if it
 * comes after that holder, it comes after all earlier holders too. The bytes are cut at the bounds
 * of the windows; a bit set marks the starts of ranges with one holder. A piece replaces the ranges
 * that it covers and leaves at most one more, so the number of ranges visited is O(n).
 *
 * Cost: O((n + k) log n) for n pieces and k = 0 or 1 conflict, plus moving n / 10^3 words for each
 * of n pieces that hold bytes at once, plus O(n streams) with clocks, plus O(separations + reuse
 * costs). O(n) memory.
 */
#include "base/sorted.h"
#include "plan/proof/verify_piece.h"

#include <inttypes.h>
#include <stdio.h>

typedef tn__verify_piece verify_piece;

/* --- a set of ranks: level 0 has one bit per rank, each level above one bit per word below --- */

/* number of levels of a set: 64^6 > 2^32, so six suffice for all ranks */
#define VERIFY_LEVELS 6

typedef struct verify_set {
    uint64_t *level[VERIFY_LEVELS];
    uint32_t level_count;
} verify_set;

/* number of 64-bit words in all levels of the bit set together */
static size_t verify_set_words(uint32_t ranks) {
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

/* The nearest member above (`up`) or below `rank`; UINT32_MAX: no member is there. */
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

/* --- messages of conflicts --- */

static tn_status verify_fail(const tn_problem *problem, const tn_layout *layout,
                             const tn_conflict *found, tn_conflict *conflict, tn_error *error) {
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
                problem->banks[layout->bank[found->a]].capacity);
    case TN_CONFLICT_PEAK:
        TN_FAIL(error, TN_E_CONFLICT,
                "%s ends at %" PRIu64 ", above the peak that the layout states", a, found->hi);
    case TN_CONFLICT_OVERFLOW:
        TN_FAIL(error, TN_E_CONFLICT, "%s at %" PRIu64 " ends beyond 64 bits", a, found->lo);
    case TN_CONFLICT_BANK:
        TN_FAIL(error, TN_E_CONFLICT, "%s is in bank %" PRIu64 ", not in bank %" PRIu64, a,
                found->lo, found->hi);
    case TN_CONFLICT_TIE:
        TN_FAIL(error, TN_E_CONFLICT,
                "%s is at %" PRIu64 " but tied to %s, which wants it in its bank at %" PRIu64, a,
                found->lo, b, found->hi);
    case TN_CONFLICT_APART:
        TN_FAIL(error, TN_E_CONFLICT,
                "%s and %s share bytes [%" PRIu64 ", %" PRIu64 "), but they must be kept apart", a,
                b, found->lo, found->hi);
    case TN_CONFLICT_RESERVED:
        TN_FAIL(error, TN_E_CONFLICT,
                "%s holds bytes [%" PRIu64 ", %" PRIu64 "), which are reserved in its bank", a,
                found->lo, found->hi);
    case TN_CONFLICT_COST:
        TN_FAIL(error, TN_E_CONFLICT,
                "the layout states a reuse cost of %" PRIu64 ", but its pairs cost %" PRIu64,
                found->lo, found->hi);
    case TN_CONFLICT_WAITS:
        TN_FAIL(error, TN_E_CONFLICT, "the layout states %" PRIu64 " waits, but it needs %" PRIu64,
                found->lo, found->hi);
    case TN_CONFLICT_TIME:
        TN_FAIL(error, TN_E_CONFLICT,
                "the layout states a time of %" PRIu64 ", but it takes %" PRIu64, found->lo,
                found->hi);
    case TN_CONFLICT_ORDER:
        TN_FAIL(error, TN_E_CONFLICT,
                "%s and %s share bytes [%" PRIu64 ", %" PRIu64
                "), but no order between them is known at step %" PRId64,
                a, b, found->lo, found->hi, found->step);
    default:
        TN_FAIL(error, TN_E_CONFLICT, "the layout is for another number of bodies or banks");
    }
}

/* --- checks of single buffers --- */

static bool verify_breaks_tie(const tn_body *body, const tn_layout *layout, tn_body_id id) {
    const uint64_t *offsets = layout->offset;
    return (body->flags & TN_BODY_TIED) &&
           (offsets[id] < body->delta || offsets[id] - body->delta != offsets[body->leader] ||
            layout->bank[id] != layout->bank[body->leader]);
}

static void verify_body(const tn_problem *problem, const tn_layout *layout, tn_body_id id,
                        tn_conflict *first) {
    const tn_body *body = &problem->bodies[id];
    tn_bank_id bank = layout->bank[id];
    bool chooses = (body->flags & TN_BODY_ANY_BANK) != 0;
    if (bank >= problem->bank_count || (!chooses && bank != body->bank)) {
        tn__verify_consider(first, &(tn_conflict){.reason = TN_CONFLICT_BANK,
                                                  .a = id,
                                                  .b = id,
                                                  .step = body->first,
                                                  .lo = bank,
                                                  .hi = chooses ? 0 : body->bank});
        return;
    }
    uint64_t offset = layout->offset[id], capacity = problem->banks[bank].capacity;
    tn_conflict found = {.a = id, .b = id, .step = body->first, .lo = offset};
    if (!tn__add(offset, body->size, &found.hi)) {
        found.reason = TN_CONFLICT_OVERFLOW;
    } else if ((offset & (body->alignment - 1)) != 0) {
        found.reason = TN_CONFLICT_ALIGNMENT;
    } else if ((body->flags & TN_BODY_PINNED) && offset != body->offset) {
        found.reason = TN_CONFLICT_PIN;
        found.hi = body->offset;
    } else if (verify_breaks_tie(body, layout, id)) {
        found.reason = TN_CONFLICT_TIE;
        found.b = body->leader;
        found.hi = tn__add_sat(layout->offset[body->leader], body->delta);
    } else if (body->size != 0 && capacity != 0 && found.hi > capacity) {
        found.reason = TN_CONFLICT_CAPACITY;
    } else if (body->size != 0 && found.hi > layout->bank_peak[bank]) {
        found.reason = TN_CONFLICT_PEAK;
    }
    if (found.reason != TN_CONFLICT_NONE) tn__verify_consider(first, &found);
}

/* --- separations and reserved ranges --- */

/* Computes the range of bytes of a buffer in the layout. Returns false if the buffer has no bytes,
 * and if its bank does not exist or it ends beyond 64 bits; the last two are conflicts by
 * themselves. */
static bool verify_bytes_of(const tn_problem *problem, const tn_layout *layout, tn_body_id id,
                            tn__byte_range *bytes) {
    uint64_t size = problem->bodies[id].size, offset = layout->offset[id];
    *bytes = (tn__byte_range){offset, tn__add_sat(offset, size)};
    return size > 0 && layout->bank[id] < problem->bank_count && offset <= UINT64_MAX - size;
}

static void verify_separations(const tn_problem *problem, const tn_layout *layout,
                               tn_conflict *first) {
    for (size_t i = 0; i < problem->separation_count; i++) {
        tn_body_id a = problem->separations[i].a, b = problem->separations[i].b;
        tn__byte_range x, y;
        if (layout->bank[a] != layout->bank[b] || !verify_bytes_of(problem, layout, a, &x) ||
            !verify_bytes_of(problem, layout, b, &y))
            continue;
        uint64_t lo = x.first > y.first ? x.first : y.first;
        uint64_t hi = x.last < y.last ? x.last : y.last;
        int64_t of_a = problem->bodies[a].first, of_b = problem->bodies[b].first;
        if (lo >= hi) continue;
        tn__verify_consider(first, &(tn_conflict){.reason = TN_CONFLICT_APART,
                                                  .a = a,
                                                  .b = b,
                                                  .step = of_a > of_b ? of_a : of_b,
                                                  .lo = lo,
                                                  .hi = hi});
    }
}

/* Returns the first of the sorted, disjoint ranges that ends above `byte`. */
static uint32_t verify_range_above(const tn__byte_range *ranges, uint32_t count, uint64_t byte) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (ranges[middle].last <= byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static tn_status verify_reserved(const tn_problem *problem, const tn_layout *layout,
                                 tn_conflict *first, tn_error *error) {
    size_t room = problem->reserved_count;
    if (room == 0) return TN_OK;
    tn__byte_range *ranges = tn__alloc(&problem->context, room * sizeof *ranges), bytes;
    if (ranges == NULL) return tn__no_memory(error, "the verifier");
    for (tn_bank_id bank = 0; bank < problem->bank_count; bank++) {
        uint32_t count = tn__reserved_of(problem, bank, ranges);
        for (tn_body_id id = 0; id < layout->body_count && count > 0; id++) {
            if (layout->bank[id] != bank || !verify_bytes_of(problem, layout, id, &bytes)) continue;
            uint32_t at = verify_range_above(ranges, count, bytes.first);
            if (at == count || ranges[at].first >= bytes.last) continue;
            const tn__byte_range *range = &ranges[at];
            tn__verify_consider(
                first, &(tn_conflict){.reason = TN_CONFLICT_RESERVED,
                                      .a = id,
                                      .b = id,
                                      .step = problem->bodies[id].first,
                                      .lo = range->first > bytes.first ? range->first : bytes.first,
                                      .hi = range->last < bytes.last ? range->last : bytes.last});
        }
    }
    tn__free(&problem->context, ranges, room * sizeof *ranges);
    return TN_OK;
}

/* --- reuse costs --- */

tn_status tn_layout_reuse_cost(const tn_problem *problem, const tn_layout *layout, uint64_t *cost,
                               bool *active, tn_error *error) {
    uint64_t sum = 0;
    if (layout->body_count != problem->count)
        TN_FAIL(error, TN_E_INVALID, "the layout is for another number of bodies");
    for (size_t i = 0; i < problem->reuse_cost_count; i++) {
        const tn_pair *pair = &problem->reuse_costs[i];
        const uint32_t *group_of = problem->group_count > 0 ? problem->group_of : NULL;
        tn__byte_range x, y;
        bool shares = layout->bank[pair->a] == layout->bank[pair->b] &&
                      verify_bytes_of(problem, layout, pair->a, &x) &&
                      verify_bytes_of(problem, layout, pair->b, &y) && x.first < y.last &&
                      y.first < x.last;
        if (group_of != NULL && group_of[pair->a] != TN__NO_GROUP)
            shares = shares && group_of[pair->a] != group_of[pair->b];
        if (shares) sum = tn__add_sat(sum, pair->cost);
        if (active != NULL) active[i] = shares;
    }
    *cost = sum;
    return TN_OK;
}

/* --- all buffers of a bank over time --- */

static int verify_by_byte(const void *a, const void *b) {
    const verify_piece *x = a, *y = b;
    if (x->lo != y->lo) return x->lo < y->lo ? -1 : 1;
    if (x->body != y->body) return x->body < y->body ? -1 : 1;
    return (x->first > y->first) - (x->first < y->first);
}

/* Pieces are sorted by their first step in two stages: they are listed in parts, each a range of
 * steps, and then each part is sorted by itself, because a part fits in a cache. */
#define VERIFY_DIGIT 11u /* limit of the bits that number a part, or that one pass sorts by */
#define VERIFY_PART 12u  /* 2^VERIFY_PART pieces are in a part, on average, or more */
#define VERIFY_PARTS ((size_t)1 << VERIFY_DIGIT)

typedef struct verify_pieces {
    verify_piece *items; /* [room], part after part */
    size_t room;
    uint32_t count;
    uint64_t least; /* no piece begins before this step (as a number modulo 2^64) */
    uint32_t shift; /* a part contains the pieces that begin within 2^shift steps */
    /* end of each part in `items`; while pieces are listed, the place of its next piece */
    uint32_t ends[VERIFY_PARTS];
} verify_pieces;

static uint32_t verify_bits(uint64_t number) {
    return number != 0 ? 64 - (uint32_t)__builtin_clzll(number) : 0;
}

/* Chooses the parts for `room` pieces that begin in [least, most]. */
static void verify_divide(verify_pieces *pieces, int64_t least, int64_t most) {
    uint32_t bits = verify_bits(pieces->room >> VERIFY_PART);
    uint32_t range = verify_bits((uint64_t)most - (uint64_t)least);
    if (bits > VERIFY_DIGIT) bits = VERIFY_DIGIT;
    pieces->least = (uint64_t)least;
    pieces->shift = range > bits ? range - bits : 0;
}

/* The number of the part in which a piece belongs that begins at step `first`. */
static uint32_t verify_part(const verify_pieces *pieces, int64_t first) {
    uint64_t steps = (uint64_t)first - pieces->least;
    return pieces->shift < 64 ? (uint32_t)(steps >> pieces->shift) : 0;
}

/* Radix sort of a part by first step; pieces of equal steps keep their order. `spare` [count]. */
static void verify_sort_part(const verify_pieces *pieces, verify_piece *part, uint32_t count,
                             verify_piece *spare) {
    const uint64_t mask = ((uint64_t)1 << VERIFY_DIGIT) - 1;
    verify_piece *from = part, *to = spare;
    for (uint32_t shift = 0; shift < pieces->shift && count > 1; shift += VERIFY_DIGIT) {
        uint32_t place[(size_t)1 << VERIFY_DIGIT] = {0}, sum = 0;
        uint64_t left = pieces->shift - shift;
        uint64_t digits = left < VERIFY_DIGIT ? ((uint64_t)1 << left) - 1 : mask;
        for (uint32_t i = 0; i < count; i++)
            place[((uint64_t)from[i].first - pieces->least) >> shift & digits]++;
        for (size_t digit = 0; digit <= digits; digit++) {
            uint32_t here = place[digit];
            place[digit] = sum;
            sum += here;
        }
        for (uint32_t i = 0; i < count; i++)
            to[place[((uint64_t)from[i].first - pieces->least) >> shift & digits]++] = from[i];
        verify_piece *swap = from;
        from = to;
        to = swap;
    }
    if (from != part) memcpy(part, from, count * sizeof *part);
}

/* Sorts each part. Returns false if memory is exhausted. */
static bool verify_sort_time(const tn_context *context, verify_pieces *pieces) {
    uint32_t most = 0, begin = 0;
    for (uint32_t part = 0; part < VERIFY_PARTS; begin = pieces->ends[part++])
        if (pieces->ends[part] - begin > most) most = pieces->ends[part] - begin;
    verify_piece *spare = tn__alloc(context, most * sizeof *spare);
    if (spare == NULL) return false;
    begin = 0;
    for (uint32_t part = 0; part < VERIFY_PARTS; begin = pieces->ends[part++])
        verify_sort_part(pieces, pieces->items + begin, pieces->ends[part] - begin, spare);
    tn__free(context, spare, most * sizeof *spare);
    return true;
}

/* Finds the lowest byte that two live pieces share at `step`, and two pieces that hold it. The
 * pieces are sorted by their lowest byte, so each is compared only with the live piece before it
 * that ends highest. */
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
        /* no pieces before this one overlap, and this one begins above their ends, so it ends
         * highest */
        reach = piece;
    }
}

/* --- pieces that hold bytes now, in order of address, in runs of a few dozen. A piece whose live
 * range has ended stays until a new one overlaps it, so that ends need not be sorted. */

#define VERIFY_RUN 64u

typedef struct verify_held {
    uint64_t lo, hi;
    int64_t last;
} verify_held;

typedef struct verify_run {
    uint32_t count;
    verify_held held[VERIFY_RUN]; /* pieces in order of address; no two of them overlap */
} verify_run;

typedef struct verify_live {
    const tn_context *context;
    /* [run_count], for each run the lowest byte (`lo`) that its first piece had when the run was
     * opened; ascending */
    uint64_t *lowest;
    verify_run **runs; /* [run_count], the runs, in order of address */
    size_t run_count, lowest_room, run_room;
} verify_live;

static void verify_live_release(verify_live *live) {
    for (size_t i = 0; i < live->run_count; i++)
        tn__free(live->context, live->runs[i], sizeof **live->runs);
    tn__free(live->context, live->lowest, live->lowest_room * sizeof *live->lowest);
    tn__free(live->context, live->runs, live->run_room * sizeof *live->runs);
}

/* Inserts an empty run (a group of neighbouring pieces) at index `at`, for pieces that begin at
 * `lowest` or above. */
static bool verify_live_open(verify_live *live, size_t at, uint64_t lowest) {
    size_t need = live->run_count + 1;
    verify_run *made = tn__alloc(live->context, sizeof *made);
    if (made == NULL ||
        !tn__reserve(live->context, &live->lowest, &live->lowest_room, need,
                     sizeof *live->lowest) ||
        !tn__reserve(live->context, &live->runs, &live->run_room, need, sizeof *live->runs)) {
        tn__free(live->context, made, sizeof *made);
        return false;
    }
    made->count = 0;
    memmove(live->lowest + at + 1, live->lowest + at,
            (live->run_count - at) * sizeof *live->lowest);
    memmove(live->runs + at + 1, live->runs + at, (live->run_count - at) * sizeof *live->runs);
    live->lowest[at] = lowest;
    live->runs[at] = made;
    live->run_count++;
    return true;
}

/* The last run that begins at or below `lo`; the first run begins at 0. */
static size_t verify_live_find(const verify_live *live, uint64_t lo) {
    size_t low = 0, high = live->run_count;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (live->lowest[middle] <= lo)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Returns the number of pieces in a run that begin below `lo`. */
static uint32_t verify_run_find(const verify_run *run, uint64_t lo) {
    uint32_t low = 0, high = run->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (run->held[middle].lo < lo)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void verify_run_close(verify_run *run, uint32_t at) {
    run->count--;
    memmove(run->held + at, run->held + at + 1, (run->count - at) * sizeof *run->held);
}

/* Whether the nearest live piece that begins below `lo` ends above `lo`. Removes ended pieces that
 * reach above `lo`. */
static bool verify_meets_below(verify_live *live, size_t at, uint64_t lo, int64_t now) {
    for (;;) {
        verify_run *run = live->runs[at];
        uint32_t place = verify_run_find(run, lo);
        if (place == 0) {
            if (at-- == 0) return false;
            continue;
        }
        if (run->held[place - 1].hi <= lo) return false;
        if (run->held[place - 1].last > now) return true;
        verify_run_close(run, place - 1);
    }
}

/* Whether a piece that begins in [lo, hi) is live at `now`. Looks in the runs from number `at` on,
 * and removes the pieces that it finds to have ended. */
static bool verify_meets_above(verify_live *live, size_t at, uint64_t lo, uint64_t hi,
                               int64_t now) {
    for (; at < live->run_count && live->lowest[at] < hi; at++) {
        verify_run *run = live->runs[at];
        uint32_t place = verify_run_find(run, lo);
        while (place < run->count && run->held[place].lo < hi) {
            if (run->held[place].last > now) return true;
            verify_run_close(run, place);
        }
        if (place < run->count) return false;
    }
    return false;
}

static bool verify_live_add(verify_live *live, size_t at, const verify_piece *piece) {
    verify_run *run = live->runs[at];
    if (run->count == VERIFY_RUN) {
        uint32_t half = VERIFY_RUN / 2;
        if (!verify_live_open(live, at + 1, run->held[half].lo)) return false;
        verify_run *upper = live->runs[at + 1];
        memcpy(upper->held, run->held + half, half * sizeof *run->held);
        upper->count = run->count = half;
        if (piece->lo >= live->lowest[at + 1]) run = upper;
    }
    uint32_t place = verify_run_find(run, piece->lo);
    memmove(run->held + place + 1, run->held + place, (run->count - place) * sizeof *run->held);
    run->held[place] = (verify_held){piece->lo, piece->hi, piece->last};
    run->count++;
    return true;
}

/* Sweeps over time and reports the first conflict. False if memory is exhausted. */
static bool verify_sweep(const tn_context *context, verify_piece *pieces, uint32_t count,
                         tn_conflict *found) {
    verify_live live = {.context = context};
    bool fits = verify_live_open(&live, 0, 0), meets = false;
    for (uint32_t i = 0; i < count && fits && !meets; i++) {
        const verify_piece *piece = &pieces[i];
        int64_t now = piece->first;
        size_t at = verify_live_find(&live, piece->lo);
        meets = verify_meets_below(&live, at, piece->lo, now) ||
                verify_meets_above(&live, at, piece->lo, piece->hi, now);
        fits = meets || verify_live_add(&live, at, piece);
        if (!meets) continue;
        qsort(pieces, count, sizeof *pieces, verify_by_byte);
        verify_name(pieces, count, now, found);
    }
    verify_live_release(&live);
    return fits;
}

/* --- several streams: the last holder of each byte, in serial time --- */

static int verify_by_start(const void *a, const void *b) {
    const verify_piece *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return verify_by_byte(a, b);
}

static int verify_by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

typedef struct verify_bytes { /* the bytes of a bank, cut into ranges at the bounds of all pieces */
    const tn__wholes *wholes;
    const verify_piece *pieces;
    uint64_t *cuts; /* [cut_count], bounds of pieces in ascending order */
    uint32_t cut_count;
    /* [cut_count], the last piece that held the range of bytes that begins at this cut; UINT32_MAX:
     * no piece held it yet */
    uint32_t *holder;
    verify_set stretches;
} verify_bytes;

static uint32_t verify_cut(const verify_bytes *bytes, uint64_t at) {
    return (uint32_t)tn__sorted_interval(bytes->cuts, bytes->cut_count, at);
}

static bool verify_in_order(const verify_bytes *bytes, const verify_piece *a,
                            const verify_piece *b) {
    if (a->last > b->first) return false;
    const int64_t *ends = tn__whole(bytes->wholes, a->body)->pieces[a->number].ends;
    const int64_t *begins = tn__whole(bytes->wholes, b->body)->pieces[b->number].begins;
    for (uint32_t s = 0; s < bytes->wholes->problem->streams; s++)
        if (ends[s] > begins[s]) return false;
    return true;
}

static void verify_blame(const verify_piece *a, const verify_piece *b, tn_conflict *found) {
    bool swap = a->body > b->body;
    tn_conflict one = {.reason = a->last > b->first ? TN_CONFLICT_OVERLAP : TN_CONFLICT_ORDER,
                       .a = swap ? b->body : a->body,
                       .b = swap ? a->body : b->body,
                       .step = b->first,
                       .lo = a->lo > b->lo ? a->lo : b->lo,
                       .hi = a->hi < b->hi ? a->hi : b->hi};
    tn__verify_consider(found, &one);
}

/* Compares a piece with the last holders of its bytes, reports a conflict if it does not come after
 * one of them, and makes it the holder. */
static void verify_take(verify_bytes *bytes, uint32_t index, tn_conflict *found) {
    const verify_piece *piece = &bytes->pieces[index];
    uint32_t first = verify_cut(bytes, piece->lo), last = verify_cut(bytes, piece->hi), holder;
    /* finds the range of bytes that contains the piece's lowest byte; it exists, because cut 0
     * always begins a range */
    uint32_t at = verify_set_near(&bytes->stretches, first + 1, false);
    do {
        holder = bytes->holder[at];
        if (holder != UINT32_MAX && bytes->pieces[holder].body != piece->body &&
            !verify_in_order(bytes, &bytes->pieces[holder], piece))
            verify_blame(&bytes->pieces[holder], piece, found);
        uint32_t next = verify_set_near(&bytes->stretches, at, true);
        if (at > first) verify_set_remove(&bytes->stretches, at);
        at = next;
    } while (at < last);
    if (at != last) {
        verify_set_add(&bytes->stretches, last);
        bytes->holder[last] = holder;
    }
    verify_set_add(&bytes->stretches, first);
    bytes->holder[first] = index;
}

/* Compares each piece with the earlier holders of its bytes, in order of time (problems with
 * several streams). After the first conflict it continues to the end of that step, to find the
 * lowest byte in conflict. */
static void verify_in_serial(verify_bytes *bytes, uint32_t count, tn_conflict *found) {
    uint32_t cuts = 0;
    for (uint32_t i = 0; i < 2 * count; i++)
        if (i == 0 || bytes->cuts[i] != bytes->cuts[i - 1]) bytes->cuts[cuts++] = bytes->cuts[i];
    bytes->cut_count = cuts;
    for (uint32_t i = 0; i < cuts; i++) bytes->holder[i] = UINT32_MAX;
    verify_set_add(&bytes->stretches, 0);
    for (uint32_t i = 0; i < count; i++) {
        if (found->reason != TN_CONFLICT_NONE && bytes->pieces[i].first > found->step) return;
        verify_take(bytes, i, found);
    }
}

static tn_status verify_clocks(const tn__wholes *wholes, verify_piece *pieces, uint32_t count,
                               tn_conflict *found, tn_error *error) {
    const tn_context *context = &wholes->problem->context;
    size_t room = 2 * (size_t)count, words = verify_set_words((uint32_t)room + 1);
    verify_bytes bytes = {.wholes = wholes, .pieces = pieces};
    uint64_t *bits = tn__alloc_array(context, words, sizeof *bits);
    bytes.cuts = tn__alloc_array(context, room, sizeof *bytes.cuts);
    bytes.holder = tn__alloc_array(context, room, sizeof *bytes.holder);
    bool fits = bits != NULL && bytes.cuts != NULL && bytes.holder != NULL;
    if (fits) {
        qsort(pieces, count, sizeof *pieces, verify_by_start);
        for (uint32_t i = 0; i < count; i++) {
            bytes.cuts[2 * i] = pieces[i].lo;
            bytes.cuts[2 * i + 1] = pieces[i].hi;
        }
        qsort(bytes.cuts, room, sizeof *bytes.cuts, verify_by_number);
        verify_set_init(&bytes.stretches, bits, (uint32_t)room + 1);
        verify_in_serial(&bytes, count, found);
    }
    tn__free(context, bits, words * sizeof *bits);
    tn__free(context, bytes.cuts, room * sizeof *bytes.cuts);
    tn__free(context, bytes.holder, room * sizeof *bytes.holder);
    return fits ? TN_OK : tn__no_memory(error, "the verifier");
}

/* --- one stream, or several --- */

typedef struct verify_scope {
    const tn__wholes *wholes;
    /* the layout to verify; NULL: only pinned buffers are considered, at their pins */
    const tn_layout *layout;
    /* [group_count], whether the layout places the members of a group at other distances than the
     * problem requires */
    bool *torn;
} verify_scope;

/* Returns the buffer `id` of the bank, and its offset, if it is swept; else NULL. Left out are
 * groups with ties that are broken, and buffers that end beyond 64 bits: both are reported as
 * conflicts already. */
static const tn_body *verify_swept(const verify_scope *scope, tn_bank_id bank, size_t id,
                                   uint64_t *offset) {
    const tn__wholes *wholes = scope->wholes;
    const uint64_t *offsets = scope->layout != NULL ? scope->layout->offset : NULL;
    const tn_body *body = tn__whole_in(wholes, id, bank);
    if (body == NULL) return NULL;
    if ((body->flags & TN_BODY_LEADS) && scope->torn[wholes->problem->group_of[id]]) return NULL;
    if (offsets == NULL && !(body->flags & TN_BODY_PINNED)) return NULL;
    *offset = offsets != NULL ? offsets[id] : body->offset;
    return *offset <= UINT64_MAX - body->size ? body : NULL;
}

/* Lists the pieces of all buffers that are swept, in parts: counts the pieces of each part, then
 * puts them in place. */
static void verify_gather(const verify_scope *scope, tn_bank_id bank, verify_pieces *pieces) {
    const tn_problem *problem = scope->wholes->problem;
    uint32_t *ends = pieces->ends;
    uint64_t offset;
    verify_divide(pieces, problem->least, problem->most);
    memset(ends, 0, sizeof pieces->ends);
    for (size_t id = 0; id < problem->count; id++) {
        const tn_body *body = verify_swept(scope, bank, id, &offset);
        if (body == NULL) continue;
        if (body->piece_count == 1) { /* its first step is that of the buffer */
            ends[verify_part(pieces, body->first)]++;
            continue;
        }
        for (uint32_t k = 0; k < body->piece_count; k++)
            ends[verify_part(pieces, body->pieces[k].first)]++;
    }
    pieces->count = 0;
    for (size_t part = 0; part < VERIFY_PARTS; part++) {
        uint32_t here = ends[part];
        ends[part] = pieces->count;
        pieces->count += here;
    }
    for (size_t id = 0; id < problem->count; id++) {
        const tn_body *body = verify_swept(scope, bank, id, &offset);
        for (uint32_t k = 0; body != NULL && k < body->piece_count; k++) {
            const tn_piece *piece = &body->pieces[k];
            pieces->items[ends[verify_part(pieces, piece->first)]++] =
                (verify_piece){.first = piece->first,
                               .last = piece->last,
                               .lo = offset + piece->lo,
                               .hi = offset + piece->hi,
                               .body = (tn_body_id)id,
                               .number = k};
        }
    }
}

static tn_status verify_time(const tn__wholes *wholes, verify_pieces *pieces, tn_conflict *found,
                             tn_error *error) {
    const tn_context *context = &wholes->problem->context;
    bool fits = verify_sort_time(context, pieces);
    if (fits && wholes->exclusions.begin != NULL)
        fits =
            tn__verify_excluding(context, pieces->items, pieces->count, &wholes->exclusions, found);
    else
        fits = fits && verify_sweep(context, pieces->items, pieces->count, found);
    return fits ? TN_OK : tn__no_memory(error, "the verifier");
}

/* Finds the member of a group of tied buffers that holds the conflict's lowest byte. The conflict's
 * bytes are cut off at the end of that member's window. */
static tn_body_id verify_member(const tn_problem *problem, uint64_t start, tn_body_id root,
                                tn_conflict *found) {
    if (!(problem->bodies[root].flags & TN_BODY_LEADS)) return root;
    bool at_step = found->reason == TN_CONFLICT_OVERLAP;
    for (size_t id = root; id < problem->count; id++) {
        const tn_body *body = &problem->bodies[id];
        uint64_t offset = start + (id == root ? 0 : body->delta);
        if (problem->group_of[id] != problem->group_of[root]) continue;
        for (uint32_t k = 0; k < body->piece_count; k++) {
            const tn_piece *piece = &body->pieces[k];
            if (found->lo < offset + piece->lo || found->lo >= offset + piece->hi) continue;
            if (at_step && (piece->first > found->step || piece->last <= found->step)) continue;
            if (offset + piece->hi < found->hi) found->hi = offset + piece->hi;
            return (tn_body_id)id;
        }
    }
    return root;
}

/* Replaces the roots of groups in a conflict by members. Groups of tied buffers were swept under
 * their roots, but the caller expects the buffers that hold the bytes. */
static void verify_name_members(const tn__wholes *wholes, const tn_layout *layout,
                                tn_conflict *found) {
    const uint64_t *offsets = layout != NULL ? layout->offset : NULL;
    if (found->reason == TN_CONFLICT_NONE) return;
    tn_body_id a = found->a, b = found->b;
    uint64_t at_a = offsets != NULL ? offsets[a] : tn__whole(wholes, a)->offset;
    uint64_t at_b = offsets != NULL ? offsets[b] : tn__whole(wholes, b)->offset;
    a = verify_member(wholes->problem, at_a, a, found);
    b = verify_member(wholes->problem, at_b, b, found);
    found->a = a < b ? a : b;
    found->b = a < b ? b : a;
}

/* Sweeps the banks one after the other and keeps the first conflict. */
static tn_status verify_overlaps(const tn__wholes *wholes, const tn_layout *layout,
                                 tn_conflict *first, tn_error *error) {
    const tn_problem *problem = wholes->problem;
    const tn_context *context = &problem->context;
    if (wholes->piece_count == 0) return TN_OK;
    verify_scope scope = {.wholes = wholes, .layout = layout};
    verify_pieces pieces = {.room = wholes->piece_count};
    pieces.items = tn__alloc(context, pieces.room * sizeof *pieces.items);
    scope.torn = tn__alloc_array(context, problem->group_count, sizeof *scope.torn);
    bool fits = pieces.items != NULL && scope.torn != NULL;
    tn_status status = fits ? TN_OK : tn__no_memory(error, "the verifier");
    for (size_t id = 0; fits && layout != NULL && id < problem->count; id++)
        if (verify_breaks_tie(&problem->bodies[id], layout, (tn_body_id)id))
            scope.torn[problem->group_of[id]] = true;
    for (tn_bank_id bank = 0; bank < problem->bank_count && status == TN_OK; bank++) {
        tn_conflict found = {0};
        verify_gather(&scope, bank, &pieces);
        if (pieces.count == 0) continue;
        status = problem->streams > 1
                     ? verify_clocks(wholes, pieces.items, pieces.count, &found, error)
                     : verify_time(wholes, &pieces, &found, error);
        verify_name_members(wholes, layout, &found);
        if (found.reason != TN_CONFLICT_NONE) tn__verify_consider(first, &found);
    }
    tn__free(context, pieces.items, pieces.room * sizeof *pieces.items);
    tn__free(context, scope.torn, problem->group_count * sizeof *scope.torn);
    return status;
}

/* Checks that the number of waits and the time that the layout states are those that
 * tn_layout_waits computes. */
static tn_status verify_waits(const tn_problem *problem, const tn_layout *layout,
                              tn_conflict *first, tn_error *error) {
    uint64_t waits, time;
    if (problem->event_count == 0 || first->reason != TN_CONFLICT_NONE) return TN_OK;
    TN_TRY(tn_layout_waits(problem, layout, layout->workers, NULL, &waits, &time, error));
    if (waits != layout->waits)
        *first = (tn_conflict){.reason = TN_CONFLICT_WAITS, .lo = layout->waits, .hi = waits};
    else if (time != layout->time)
        *first = (tn_conflict){.reason = TN_CONFLICT_TIME, .lo = layout->time, .hi = time};
    return TN_OK;
}

tn_status tn_layout_verify(const tn_problem *problem, const tn_layout *layout,
                           tn_conflict *conflict, tn_error *error) {
    tn_conflict first = {0};
    if (layout->body_count != problem->count || layout->bank_count != problem->bank_count) {
        first.reason = TN_CONFLICT_COUNT;
        return verify_fail(problem, layout, &first, conflict, error);
    }
    for (tn_body_id id = 0; id < layout->body_count; id++) verify_body(problem, layout, id, &first);
    tn__wholes wholes;
    TN_TRY(tn__wholes_create(problem, &wholes, error));
    wholes.banks = layout->bank;
    tn_status status = verify_overlaps(&wholes, layout, &first, error);
    tn__wholes_release(&wholes);
    verify_separations(problem, layout, &first);
    if (status == TN_OK) status = verify_reserved(problem, layout, &first, error);
    uint64_t cost = 0;
    if (status == TN_OK) status = tn_layout_reuse_cost(problem, layout, &cost, NULL, error);
    if (status != TN_OK) return status;
    if (first.reason == TN_CONFLICT_NONE && cost != layout->reuse_cost)
        first = (tn_conflict){.reason = TN_CONFLICT_COST, .lo = layout->reuse_cost, .hi = cost};
    TN_TRY(verify_waits(problem, layout, &first, error));
    if (first.reason != TN_CONFLICT_NONE)
        return verify_fail(problem, layout, &first, conflict, error);
    if (conflict != NULL) *conflict = first;
    return TN_OK;
}

static tn_status verify_fail_pins(const tn_problem *problem, const tn_conflict *found,
                                  tn_error *error) {
    char a[TN__BODY_TEXT_MAX], b[TN__BODY_TEXT_MAX];
    TN_FAIL(error, TN_E_INFEASIBLE,
            "%s and %s are pinned where they share bytes [%" PRIu64 ", %" PRIu64
            ") at step %" PRId64 "; no layout can keep both pins",
            tn__body_text(problem, found->a, a), tn__body_text(problem, found->b, b), found->lo,
            found->hi, found->step);
}

static tn_status verify_fail_group(const tn__wholes *wholes, tn_error *error) {
    char a[TN__BODY_TEXT_MAX], b[TN__BODY_TEXT_MAX];
    tn__body_text(wholes->problem, wholes->clash_a, a);
    tn__body_text(wholes->problem, wholes->clash_b, b);
    if (wholes->clash_a != wholes->clash_b)
        TN_FAIL(error, TN_E_INFEASIBLE,
                "%s and %s are tied together and pinned apart; no layout can keep both pins", a, b);
    TN_FAIL(error, TN_E_INFEASIBLE,
            "%s is pinned where the bodies tied to it would lie below 0, beyond 2^63 or off their "
            "alignment",
            a);
}

/* Checks pinned buffers, and groups that contain one, against separations and reserved ranges. All
 * other buffers are put into a bank that does not exist, so that the checks skip them. */
static tn_status verify_pins_apart(const tn__wholes *wholes, tn_conflict *first, tn_error *error) {
    const tn_problem *problem = wholes->problem;
    tn_layout layout;
    TN_TRY(tn__layout_create(problem, &layout, error));
    for (tn_body_id id = 0; id < layout.body_count; id++) {
        const tn_body *body = &problem->bodies[id];
        bool tied = (body->flags & TN_BODY_TIED) != 0;
        const tn_body *whole = tn__whole(wholes, tied ? body->leader : id);
        if (whole->flags & TN_BODY_PINNED)
            layout.offset[id] = tn__add_sat(whole->offset, tied ? body->delta : 0);
        else
            layout.bank[id] = UINT32_MAX;
    }
    verify_separations(problem, &layout, first);
    tn_status status = verify_reserved(problem, &layout, first, error);
    tn_layout_release(&layout);
    return status;
}

static tn_status verify_fail_pins_apart(const tn_problem *problem, const tn_conflict *found,
                                        tn_error *error) {
    char a[TN__BODY_TEXT_MAX], b[TN__BODY_TEXT_MAX];
    tn__body_text(problem, found->a, a);
    if (found->reason == TN_CONFLICT_RESERVED)
        TN_FAIL(error, TN_E_INFEASIBLE,
                "%s is pinned on bytes [%" PRIu64 ", %" PRIu64
                "), which are reserved; no layout can keep both",
                a, found->lo, found->hi);
    TN_FAIL(error, TN_E_INFEASIBLE,
            "%s and %s are pinned where they share bytes [%" PRIu64 ", %" PRIu64
            "), but they must be kept apart; no layout can keep both pins",
            a, tn__body_text(problem, found->b, b), found->lo, found->hi);
}

tn_status tn__verify_pins(const tn_problem *problem, tn_error *error) {
    tn_conflict first = {0};
    tn__wholes wholes;
    size_t pins = problem->pin_count;
    bool apart = tn__keeps_apart(problem);
    if (pins == 0 || (pins == 1 && problem->group_count == 0 && !apart)) return TN_OK;
    TN_TRY(tn__wholes_create(problem, &wholes, error));
    tn_status status = wholes.clash ? verify_fail_group(&wholes, error)
                                    : verify_overlaps(&wholes, NULL, &first, error);
    tn_conflict beside = {0};
    if (status == TN_OK && first.reason == TN_CONFLICT_NONE && apart)
        status = verify_pins_apart(&wholes, &beside, error);
    tn__wholes_release(&wholes);
    if (status != TN_OK) return status;
    if (first.reason != TN_CONFLICT_NONE) return verify_fail_pins(problem, &first, error);
    if (beside.reason != TN_CONFLICT_NONE) return verify_fail_pins_apart(problem, &beside, error);
    return TN_OK;
}
