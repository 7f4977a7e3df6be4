/* two_ended.c - places long-lived buffers from the front and short-lived ones from the end, each
 * with a bump pointer.
 *
 *   0 | long-lived ->              free               <- short-lived | height
 *
 * Buffers are placed in order of definition. Each end of the arena keeps a pointer: the highest end
 * (seen from its side) of its live buffers; a new buffer begins there. So short-lived buffers never
 * leave a hole among long-lived ones. The arena must be at least as large as the sum of both
 * pointers at every step; when that height is known, the buffers of the far end are mirrored into
 * it. "Long" means a live range of at least some length. No length suits every network, so a few of
 * the lengths that occur are tried.
 *
 * It uses hulls and whole sizes, so buffers of several pieces are placed correctly but not
 * interleaved; pinned buffers are not supported. It is not meant for the lowest peak, but for
 * arenas that two pointers must serve at run time.
 *
 * Cost: O(n log n) per length tried.
 * Source: two-ended allocation of long- and short-lived tensors.
 */
#include "base/heap.h"
#include "plan/frame/planner.h"

/* number of lengths tried: the eighths of the sorted lengths, with both extremes */
#define TWO_ENDED_LENGTHS 9u

/* an item of a heap of placed buffers, highest end first; a buffer whose live range has ended is
 * removed when it reaches the top */
typedef struct two_ended_live {
    uint64_t end;
    uint32_t last;
} two_ended_live;

typedef struct two_ended_side {
    two_ended_live *live;
    uint32_t count;
} two_ended_side;

static bool two_ended_before(const two_ended_live *a, const two_ended_live *b) {
    return a->end > b->end;
}
TN__HEAP(two_ended_heap, two_ended_live, two_ended_before)

static uint64_t two_ended_pointer(two_ended_side *side, uint32_t now) {
    while (side->count > 0 && side->live[0].last <= now)
        two_ended_heap_pop(side->live, side->count--);
    return side->count > 0 ? side->live[0].end : 0;
}

static int two_ended_compare(const tn_run_body *a, const tn_run_body *b) {
    return (a->first > b->first) - (a->first < b->first);
}

/* Rounds up and saturates. All sums in this file saturate: tn__run_place refuses offsets that are
 * too high. */
static uint64_t two_ended_align(uint64_t value, uint64_t alignment) {
    uint64_t aligned = UINT64_MAX;
    return tn__align_up(value, alignment, &aligned) ? aligned : UINT64_MAX;
}

typedef struct two_ended_try {
    uint32_t *order;
    uint32_t count;
    /* shortest live range, in steps, of buffers that go to the front; all others go to the far
     * end */
    uint32_t length;
    /* [body]: offset of a buffer at the front; for a buffer at the far end, the distance of its
     * lower edge from the arena's end */
    uint64_t *place;
    two_ended_side front, back;
    /* the largest alignment of a buffer at the far end; the arena's height is a multiple of it */
    uint64_t alignment;
} two_ended_try;

/* Moves both bump pointers over time and computes `place` of each buffer; *height receives the
 * largest sum of the two pointers. */
static tn_status two_ended_bump(tn_run *run, two_ended_try *attempt, uint64_t *height) {
    const tn_run_body *bodies = tn__run_bodies(run);
    attempt->front.count = attempt->back.count = 0;
    attempt->alignment = 1;
    *height = 0;
    for (uint32_t i = 0; i < attempt->count; i++) {
        uint32_t id = attempt->order[i];
        const tn_run_body *body = &bodies[id];
        uint64_t front = two_ended_pointer(&attempt->front, body->first);
        uint64_t back = two_ended_pointer(&attempt->back, body->first);
        TN_TRY(tn__run_work(run, 1));
        if (body->last - body->first >= attempt->length) {
            attempt->place[id] = two_ended_align(front, body->alignment);
            front = tn__add_sat(attempt->place[id], body->size);
            two_ended_heap_push(attempt->front.live, attempt->front.count++,
                                (two_ended_live){front, body->last});
        } else {
            back = two_ended_align(tn__add_sat(back, body->size), body->alignment);
            attempt->place[id] = back;
            two_ended_heap_push(attempt->back.live, attempt->back.count++,
                                (two_ended_live){back, body->last});
            if (body->alignment > attempt->alignment) attempt->alignment = body->alignment;
        }
        if (tn__add_sat(front, back) > *height) *height = tn__add_sat(front, back);
    }
    *height = two_ended_align(*height, attempt->alignment);
    return TN_OK;
}

static void two_ended_place(tn_run *run, const two_ended_try *attempt, uint64_t height) {
    const tn_run_body *bodies = tn__run_bodies(run);
    for (uint32_t i = 0; i < attempt->count; i++) {
        uint32_t id = attempt->order[i];
        uint64_t offset = attempt->place[id];
        /* a saturated offset is too high for every buffer, so tn__run_place refuses it */
        if (bodies[id].last - bodies[id].first < attempt->length)
            offset = height < UINT64_MAX ? height - offset : UINT64_MAX;
        tn__run_place(run, id, offset);
    }
}

static int two_ended_length_order(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Allocates the arrays, sorts the buffers by the first step of their live ranges, and sorts the
 * lengths of all live ranges. */
static tn_status two_ended_prepare(tn_run *run, two_ended_try *attempt, const uint32_t **sorted) {
    const tn_run_body *bodies = tn__run_bodies(run);
    uint32_t n = tn__run_count(run);
    uint32_t *lengths = tn__run_scratch(run, n, sizeof *lengths);
    const uint32_t *order;
    attempt->order = tn__run_scratch(run, n, sizeof *attempt->order);
    attempt->place = tn__run_scratch(run, n, sizeof *attempt->place);
    attempt->front.live = tn__run_scratch(run, n, sizeof *attempt->front.live);
    attempt->back.live = tn__run_scratch(run, n, sizeof *attempt->back.live);
    if (!lengths || !attempt->order || !attempt->place || !attempt->front.live ||
        !attempt->back.live)
        return TN_E_NO_MEMORY;
    TN_TRY(tn__run_order(run, two_ended_compare, &order, &attempt->count));
    memcpy(attempt->order, order, attempt->count * sizeof *order);
    for (uint32_t i = 0; i < n; i++) lengths[i] = bodies[i].last - bodies[i].first;
    qsort(lengths, n, sizeof *lengths, two_ended_length_order);
    *sorted = lengths;
    return TN_OK;
}

static tn_status two_ended_solve(tn_run *run) {
    two_ended_try attempt = {0};
    const uint32_t *lengths;
    uint32_t n = tn__run_count(run), tried = 0, best_length = 0;
    uint64_t height, best_height = UINT64_MAX;
    TN_TRY(two_ended_prepare(run, &attempt, &lengths));
    for (uint32_t k = 0; k < TWO_ENDED_LENGTHS && n > 0; k++) {
        attempt.length = lengths[(uint64_t)(n - 1) * k / (TWO_ENDED_LENGTHS - 1)];
        /* skips a length that was just tried; `tried` begins with 0, which is the length of no live
         * range */
        if (attempt.length == tried) continue;
        tried = attempt.length;
        TN_TRY(two_ended_bump(run, &attempt, &height));
        if (height >= best_height) continue;
        best_height = height;
        best_length = attempt.length;
    }
    attempt.length = best_length;
    TN_TRY(two_ended_bump(run, &attempt, &height));
    two_ended_place(run, &attempt, height);
    return TN_OK;
}

const tn_planner tn__planner_two_ended = {
    .name = "two-ended",
    .summary = "long-lived buffers from the front, short-lived from the end",
    .source = "two-ended allocation of long- and short-lived tensors",
    .features = TN_PLANS_ALIGNMENT | TN_PLANS_PIECES | TN_PLANS_QUICKLY,
    .solve = two_ended_solve,
};
