/* object_greedy_by_breadth.c - visits steps in order of live bytes, most first, and the buffers of
 * each step by size.
 *
 * The steps with the most live bytes decide the number of objects, so their buffers choose first. A
 * buffer considers the objects with no record that it overlaps in time. It takes the smallest
 * sufficient one, or if all are too small, the largest, which then grows.
 *
 * Cost: O(n x objects) comparisons, O(n log n) for the order.
 * Source: Pisarchyk and Lee 2020 (arXiv:2001.03288), greedy by breadth; TensorFlow Lite.
 */
#include "plan/sharing/object.h"

/* Whether an object of `size` suits a buffer of `need` bytes better than the best object so far, of
 * size `best`; `any` is false if no object was seen yet. */
static bool by_breadth_better(uint64_t need, uint64_t size, uint64_t best, bool any) {
    if (!any) return true;
    return best < need ? size > best : size >= need && size < best;
}

static tn_status by_breadth_put(tn_object_run *run, tn__object_lives *lives, uint32_t id) {
    uint32_t best = UINT32_MAX;
    for (uint32_t object = 0; object < run->object_count; object++) {
        uint64_t best_bulk = best != UINT32_MAX ? run->object_bulk[best] : 0;
        if (!by_breadth_better(run->bulk[id], run->object_bulk[object], best_bulk,
                               best != UINT32_MAX))
            continue;
        if (tn__object_lives_distance(lives, object, id) != UINT64_MAX) best = object;
    }
    if (best == UINT32_MAX)
        best = tn__object_new(run, id);
    else
        tn__object_join(run, id, best);
    return tn__object_lives_add(lives, best, id) ? TN_OK : TN_E_NO_MEMORY;
}

static tn_status by_breadth_solve(tn_object_run *run) {
    uint32_t *order = tn__object_scratch(run, run->count, sizeof *order);
    tn__object_lives *lives = tn__object_lives_create(run);
    if (order == NULL || lives == NULL) return TN_E_NO_MEMORY;
    TN_TRY(tn__object_by_breadth(run, order));
    for (uint32_t i = 0; i < run->count; i++) {
        TN_TRY(tn__object_work(run, 1 + run->object_count / 256));
        TN_TRY(by_breadth_put(run, lives, order[i]));
    }
    return TN_OK;
}

const tn_object_strategy tn__object_greedy_by_breadth = {
    .name = "greedy-by-breadth",
    .summary = "the step with the most live bytes first, its buffers by size",
    .source = "Pisarchyk and Lee 2020; TensorFlow Lite",
    .features = TN_OBJECTS_BYTES,
    .solve = by_breadth_solve,
};
