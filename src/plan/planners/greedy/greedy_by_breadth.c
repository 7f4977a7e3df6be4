/* greedy_by_breadth.c - visits steps in order of live bytes, most first, and places the buffers of
 * each step by size.
 *
 * The crowded steps decide the peak, so their buffers choose first. Instead of listing the new
 * buffers of each step, every buffer is sorted by the best-ranked step of its live range, then by
 * size; this takes one range minimum per buffer.
 *
 * Cost: O(n log n) for the order, then O(sum of neighbours * log n).
 * Source: Pisarchyk and Lee 2020 (arXiv:2001.03288), greedy by breadth, with offsets instead of
 * objects.
 */
#include "base/range_tree.h"
#include "plan/frame/planner.h"

typedef struct breadth_slot {
    uint64_t bytes;
    uint32_t slot;
} breadth_slot;

static int breadth_compare(const void *a, const void *b) {
    const breadth_slot *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x->slot > y->slot) - (x->slot < y->slot);
}

/* Computes the live bytes of every interval between two successive event times, from the
 * differences at the events and a running sum. */
static void breadth_measure(tn_run *run, breadth_slot *slots, uint32_t slot_count) {
    const tn_run_body *bodies = tn__run_bodies(run);
    const tn_run_piece *pieces = tn__run_pieces(run);
    for (uint32_t i = 0; i < tn__run_count(run); i++) {
        for (uint32_t k = 0; k < bodies[i].piece_count; k++) {
            const tn_run_piece *piece = &pieces[bodies[i].piece_first + k];
            slots[piece->first].bytes += piece->hi - piece->lo;
            /* a negative change wraps modulo 2^64, so the running sum of changes is right */
            slots[piece->last].bytes -= piece->hi - piece->lo;
        }
    }
    for (uint32_t slot = 0; slot < slot_count; slot++) {
        slots[slot].slot = slot;
        if (slot > 0) slots[slot].bytes += slots[slot - 1].bytes;
    }
}

static tn_status greedy_by_breadth_solve(tn_run *run) {
    const tn_run_body *bodies = tn__run_bodies(run);
    uint32_t count, slot_count = tn__run_time_count(run);
    breadth_slot *slots = tn__run_scratch(run, (size_t)slot_count + 1, sizeof *slots);
    uint64_t *tree = tn__run_scratch(run, 2 * (size_t)slot_count + 2, sizeof *tree);
    uint64_t *key = tn__run_scratch(run, tn__run_count(run), sizeof *key);
    if (slots == NULL || tree == NULL || key == NULL) return TN_E_NO_MEMORY;
    breadth_measure(run, slots, slot_count);
    qsort(slots, slot_count, sizeof *slots, breadth_compare);
    for (uint32_t rank = 0; rank < slot_count; rank++)
        tree[slot_count + slots[rank].slot] = slot_count - rank;
    tn__range_max_init(tree, slot_count);
    for (uint32_t i = 0; i < tn__run_count(run); i++)
        key[i] = slot_count - tn__range_max(tree, slot_count, bodies[i].first, bodies[i].last);
    const uint32_t *order;
    TN_TRY(tn__run_order_by_key(run, key, tn__larger_first, &order, &count));
    return tn__run_greedy(run, order, count, tn__choose_tightest);
}

const tn_planner tn__planner_greedy_by_breadth = {
    .name = "greedy-by-breadth",
    .summary = "the step with the most live bytes first, its buffers by size",
    .source = "Pisarchyk and Lee 2020",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_QUICKLY,
    .solve = greedy_by_breadth_solve,
};
