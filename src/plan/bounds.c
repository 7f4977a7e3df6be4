/* bounds.c - bytes that no layout can go below.
 *
 * At every step the live pieces lie side by side, so their bytes add up. Alignment adds to that:
 * let A be the largest power of two that divides every alignment and every window start of the
 * bank. Each piece then starts at a multiple of A and keeps whole blocks of A to itself, except
 * the topmost, whose last block need not be filled. So at a step
 *
 *     height >= sum of round_up(bytes, A) - largest (round_up(bytes, A) - bytes) alive.
 *
 * A pinned body is where it is: its end is a bound as well.
 * Cost: O(n log n) time, O(n) memory for n pieces.
 */
#include "plan/problem.h"

typedef struct bounds_event {
    int64_t time;
    const tn_piece *piece;
    bool starts;
} bounds_event;

static int bounds_order(const void *a, const void *b) { /* ends before starts */
    const bounds_event *x = a, *y = b;
    if (x->time != y->time) return x->time < y->time ? -1 : 1;
    return (int)x->starts - (int)y->starts;
}

/* The slacks of live pieces: a heap, largest on top; dead ones are dropped when they surface. */
typedef struct bounds_heap {
    struct bounds_slack {
        uint64_t slack;
        int64_t last;
    } * items;
    size_t count;
} bounds_heap;

static void bounds_push(bounds_heap *heap, uint64_t slack, int64_t last) {
    size_t at = heap->count++;
    for (; at > 0 && heap->items[(at - 1) / 2].slack < slack; at = (at - 1) / 2)
        heap->items[at] = heap->items[(at - 1) / 2];
    heap->items[at].slack = slack;
    heap->items[at].last = last;
}

static void bounds_pop(bounds_heap *heap) {
    struct bounds_slack moved = heap->items[--heap->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= heap->count) break;
        if (child + 1 < heap->count && heap->items[child + 1].slack > heap->items[child].slack)
            child++;
        if (heap->items[child].slack <= moved.slack) break;
        heap->items[at] = heap->items[child];
        at = child;
    }
    if (heap->count > 0) heap->items[at] = moved;
}

static uint64_t bounds_largest(bounds_heap *heap, int64_t now) {
    while (heap->count > 0 && heap->items[0].last <= now) bounds_pop(heap);
    return heap->count > 0 ? heap->items[0].slack : 0;
}

static void bounds_sweep(const bounds_event *events, size_t count, uint64_t block,
                         bounds_heap *heap, uint64_t *bytes, int64_t *step) {
    uint64_t live = 0;
    for (size_t i = 0; i < count; i++) {
        const tn_piece *piece = events[i].piece;
        uint64_t exact = piece->hi - piece->lo, rounded = exact;
        if (!tn__align_up(exact, block, &rounded)) rounded = exact;
        if (!events[i].starts) {
            live -= rounded;
            continue;
        }
        live += rounded;
        bounds_push(heap, rounded - exact, piece->last);
        if (i + 1 < count && events[i + 1].time == events[i].time) continue;
        uint64_t height = live - bounds_largest(heap, events[i].time);
        if (height > *bytes) {
            *bytes = height;
            *step = events[i].time;
        }
    }
}

/* Gathers the bank's events, the common block and the highest pin; live bytes must not overflow. */
static bool bounds_gather(const tn_problem *problem, tn_bank_id bank, bounds_event *events,
                          size_t *count, uint64_t *block, uint64_t *pinned) {
    uint64_t sum = 0, starts = 0; /* bits of all alignments and window starts */
    for (size_t i = 0; i < problem->count; i++) {
        const tn_body *body = &problem->bodies[i];
        if (body->bank != bank) continue;
        for (uint32_t k = 0; k < body->piece_count; k++) {
            const tn_piece *piece = &body->pieces[k];
            starts |= body->alignment | piece->lo;
            events[(*count)++] = (bounds_event){piece->first, piece, true};
            events[(*count)++] = (bounds_event){piece->last, piece, false};
            sum = tn__add_sat(sum, tn__add_sat(piece->hi - piece->lo, body->alignment));
            uint64_t end = body->offset + piece->hi; /* checked when it was added */
            if ((body->flags & TN_BODY_PINNED) && end > *pinned) *pinned = end;
        }
    }
    *block = starts & (~starts + 1); /* lowest bit set */
    if (*block == 0) *block = 1;
    return sum != UINT64_MAX;
}

tn_status tn_problem_lower_bound(const tn_problem *problem, tn_bank_id bank, uint64_t *bytes,
                                 int64_t *step, tn_error *error) {
    if (bank >= problem->bank_count) TN_FAIL(error, TN_E_INVALID, "there is no bank %u", bank);
    const tn_context *context = &problem->context;
    size_t pieces = 0, count = 0;
    for (size_t i = 0; i < problem->count; i++) pieces += problem->bodies[i].piece_count;
    bounds_event *events = tn__alloc_array(context, 2 * pieces, sizeof *events);
    bounds_heap heap = {.items = tn__alloc_array(context, pieces, sizeof *heap.items)};
    tn_status status = TN_OK;
    if (events == NULL || heap.items == NULL) {
        status = tn__no_memory(error, "the lower bound");
    } else {
        uint64_t block = 1, pinned = 0, bound = 0;
        int64_t peak_step = 0;
        if (bounds_gather(problem, bank, events, &count, &block, &pinned)) {
            qsort(events, count, sizeof *events, bounds_order);
            bounds_sweep(events, count, block, &heap, &bound, &peak_step);
            *bytes = bound > pinned ? bound : pinned;
            if (step != NULL) *step = peak_step;
        } else {
            status = tn__fail(error, TN_E_INVALID, "the sizes add up to more than 64 bits hold");
        }
    }
    tn__free(context, events, 2 * pieces * sizeof *events);
    tn__free(context, heap.items, pieces * sizeof *heap.items);
    return status;
}
