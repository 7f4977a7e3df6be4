/* bounds.c - computes lower bounds: bytes that every layout needs.
 *
 * At every step the live pieces do not overlap, so their bytes add up. Alignment adds to that: a
 * piece begins at a multiple of its block, the largest power of two that divides both its buffer's
 * alignment and the start of its byte window. For any block size B, consider only the live pieces
 * with a block of B or more. Each begins at a multiple of B, so each occupies whole blocks of B
 * bytes, except that the last block of the topmost piece need not be full:
 *
 *   height >= sum of round_up(bytes, B) - largest (round_up(bytes, B) - bytes) among them.
 *
 * B = 1 takes all pieces and counts plain bytes; a larger B takes fewer pieces and counts more
 * bytes for each. The bound is the maximum over the blocks that occur. Reserved ranges below the
 * bound of B = 1 raise it by their bytes. They do not raise the other bounds, because they may lie
 * in the bytes that are lost to alignment. Excluded buffers are never live at the same time, so
 * their bytes do not add up: the smaller of the two is counted only before or after the live range
 * of the other, whichever is longer. A buffer ends no lower than its size, and a pinned one at its
 * offset plus its size: these ends are bounds as well.
 *
 * Cost: O(n log n + n * blocks) time for at most 41 blocks (most often one), O(n) memory.
 */
#include "base/heap.h"
#include "plan/problem/problem.h"

/* a type that can hold the sum of 2^30 pieces of 2^63 bytes */
__extension__ typedef unsigned __int128 bounds_sum;

typedef struct bounds_event {
    int64_t time;
    const tn_piece *piece;
    bool starts;
    /* exponent of the piece's block, the largest power of two that divides both its buffer's
     * alignment and the start of its byte window */
    uint8_t block;
} bounds_event;

/* sorts events by time; at equal times, ends come before starts */
static int bounds_order(const void *a, const void *b) {
    const bounds_event *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return (int)x->starts - (int)y->starts;
}

/* Bytes that a live piece loses by being rounded up to whole blocks, in a heap, largest first. A
 * piece whose live range has ended is removed when it reaches the top. */
typedef struct bounds_slack {
    uint64_t slack;
    int64_t last;
} bounds_slack;

static bool bounds_before(const bounds_slack *a, const bounds_slack *b) {
    return a->slack > b->slack;
}
TN__HEAP(bounds_heap, bounds_slack, bounds_before)

typedef struct bounds {
    bounds_event *events;
    size_t event_count;
    tn_piece *counted; /* [pieces], the parts of pieces that count; NULL: there are no exclusions */
    size_t counted_count;
    bounds_slack *slacks; /* heap of the bytes lost by live pieces, largest first */
    size_t slack_count;
    uint64_t blocks; /* a set of bits: bit e is set if some piece has a block of 2^e bytes */
    uint64_t bytes;  /* the largest bound so far */
    int64_t step;
} bounds;

static uint64_t bounds_largest(bounds *found, int64_t now) {
    while (found->slack_count > 0 && found->slacks[0].last <= now)
        bounds_heap_pop(found->slacks, found->slack_count--);
    return found->slack_count > 0 ? found->slacks[0].slack : 0;
}

static void bounds_raise(bounds *found, bounds_sum bytes, int64_t step) {
    if (bytes <= found->bytes) return;
    found->bytes = bytes < UINT64_MAX ? (uint64_t)bytes : UINT64_MAX;
    found->step = step;
}

/* Raises the bound by one sweep over time. It counts the pieces with a block of at least 2^exponent
 * bytes, each rounded up to whole blocks of that size. */
static void bounds_sweep(bounds *found, uint8_t exponent) {
    const bounds_event *events = found->events;
    const uint64_t mask = ((uint64_t)1 << exponent) - 1;
    bounds_sum live = 0;
    found->slack_count = 0;
    for (size_t i = 0; i < found->event_count; i++) {
        const tn_piece *piece = events[i].piece;
        if (events[i].block >= exponent) {
            uint64_t exact = piece->hi - piece->lo, slack = (0 - exact) & mask;
            if (events[i].starts) {
                live += (bounds_sum)exact + slack;
                if (mask != 0)
                    bounds_heap_push(found->slacks, found->slack_count++,
                                     (bounds_slack){slack, piece->last});
            } else {
                live -= (bounds_sum)exact + slack;
            }
        }
        bool more = i + 1 < found->event_count && events[i + 1].time == events[i].time;
        if (more || live <= found->bytes) continue;
        bounds_raise(found, live - bounds_largest(found, events[i].time), events[i].time);
    }
}

/* Cuts a piece of buffer `id` so that no buffer counts at the same time as one that is excluded
 * with it. False if nothing is left. */
static bool bounds_cut(const tn__wholes *wholes, tn_bank_id bank, size_t id, tn_piece *piece) {
    const tn__exclusions *exclusions = &wholes->exclusions;
    uint64_t size = tn__whole(wholes, id)->size;
    for (size_t i = exclusions->begin[id]; i < exclusions->begin[id + 1]; i++) {
        tn_body_id other = exclusions->others[i];
        const tn_body *body = tn__whole_in(wholes, other, bank);
        if (body == NULL || body->size < size || (body->size == size && other > id)) continue;
        if (body->last <= piece->first || piece->last <= body->first) continue;
        bool before = piece->first < body->first, after = body->last < piece->last;
        uint64_t head = before ? (uint64_t)body->first - (uint64_t)piece->first : 0;
        uint64_t tail = after ? (uint64_t)piece->last - (uint64_t)body->last : 0;
        if (!before && !after) return false;
        if (head >= tail)
            piece->last = body->first;
        else
            piece->first = body->last;
    }
    return true;
}

/* Lists the begins and ends of the bank's pieces as events, and sets found->blocks. */
static void bounds_gather(const tn__wholes *wholes, tn_bank_id bank, bounds *found) {
    for (size_t i = 0; i < wholes->problem->count; i++) {
        const tn_body *body = tn__whole_in(wholes, i, bank);
        if (body == NULL || body->size == 0) continue;
        for (uint32_t k = 0; k < body->piece_count; k++) {
            const tn_piece *piece = &body->pieces[k];
            if (found->counted != NULL) {
                tn_piece *cut = &found->counted[found->counted_count++];
                *cut = *piece;
                if (!bounds_cut(wholes, bank, i, cut)) continue;
                piece = cut;
            }
            uint8_t block = (uint8_t)__builtin_ctzll(body->alignment | piece->lo);
            found->events[found->event_count++] = (bounds_event){piece->first, piece, true, block};
            found->events[found->event_count++] = (bounds_event){piece->last, piece, false, block};
            found->blocks |= (uint64_t)1 << block;
        }
    }
}

/* Raises the bound to the highest end that a single buffer must have: its size, or for a pinned
 * buffer its offset plus size. It runs after the sweeps, so that on a tie the reported step is that
 * of the live bytes. */
static void bounds_ends(const tn__wholes *wholes, tn_bank_id bank, bounds *found) {
    for (size_t i = 0; i < wholes->problem->count; i++) {
        const tn_body *body = tn__whole_in(wholes, i, bank);
        if (body == NULL || body->size == 0) continue;
        bool pinned = (body->flags & TN_BODY_PINNED) != 0;
        bounds_raise(found, (pinned ? body->offset : 0) + body->size, body->first);
    }
}

tn_status tn__lower_bound(const tn__wholes *wholes, tn_bank_id bank, uint64_t *bytes, int64_t *step,
                          tn_error *error) {
    const tn_context *context = &wholes->problem->context;
    size_t pieces = wholes->piece_count;
    bounds found = {.events = tn__alloc_array(context, 2 * pieces, sizeof *found.events),
                    .slacks = tn__alloc_array(context, pieces, sizeof *found.slacks)};
    bool excludes = wholes->exclusions.begin != NULL;
    if (excludes) found.counted = tn__alloc_array(context, pieces, sizeof *found.counted);
    bool fits = found.events != NULL && found.slacks != NULL && (!excludes || found.counted);
    tn_status status = TN_OK;
    if (fits) {
        bounds_gather(wholes, bank, &found);
        qsort(found.events, found.event_count, sizeof *found.events, bounds_order);
        if (wholes->problem->reserved_count > 0) bounds_sweep(&found, 0);
        status = tn__above_reserved(wholes->problem, bank, &found.bytes, error);
        for (uint64_t left = found.blocks; left != 0; left &= left - 1)
            bounds_sweep(&found, (uint8_t)__builtin_ctzll(left));
        bounds_ends(wholes, bank, &found);
        *bytes = found.bytes;
        if (step != NULL) *step = found.step;
    }
    tn__free(context, found.events, 2 * pieces * sizeof *found.events);
    tn__free(context, found.slacks, pieces * sizeof *found.slacks);
    if (found.counted != NULL) tn__free(context, found.counted, pieces * sizeof *found.counted);
    return fits ? status : tn__no_memory(error, "the lower bound");
}

tn_status tn_problem_lower_bound(const tn_problem *problem, tn_bank_id bank, uint64_t *bytes,
                                 int64_t *step, tn_error *error) {
    if (bank >= problem->bank_count) TN_FAIL(error, TN_E_INVALID, "there is no bank %u", bank);
    tn__wholes wholes;
    TN_TRY(tn__wholes_create(problem, &wholes, error));
    tn_status status = tn__lower_bound(&wholes, bank, bytes, step, error);
    tn__wholes_release(&wholes);
    return status;
}
