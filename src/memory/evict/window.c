/* window.c - finds the cheapest run of free blocks and candidates that is long enough.
 *
 * Two pointers walk through the blocks by address; a block that cannot be evicted ends a run. The
 * cost of a run is the sum of score * bytes. A run that contains a value without a finite score is
 * taken only when there is no other.
 * Cost: O(blocks), one score for each candidate and one more when it leaves the run.
 * Source: Zhang et al.: Coop, NeurIPS 2023.
 */
#include <math.h>

#include "memory/evict/policy.h"

typedef struct window_sum {
    uint64_t bytes;
    double cost;
    uint32_t endless; /* number of its candidates without a finite score */
} window_sum;

static bool window_may_go(const tn__evict *e, uint32_t block) {
    uint32_t owner = e->blocks[block].owner;
    if (owner == TN__BLOCK_FREE) return true;
    return owner < e->storage_count && tn__is_candidate(e, owner) &&
           (e->storages[owner].stuck == 0 || tn__space_swaps(e, owner));
}

static void window_add(tn__evict *e, window_sum *sum, uint32_t block, bool enters) {
    const tn__evict_block *record = &e->blocks[block];
    double cost = 0;
    if (record->owner != TN__BLOCK_FREE) {
        cost = e->policy->score(e, record->owner) * (double)record->size;
        e->counts.evaluation_count += enters;
    }
    sum->bytes += enters ? record->size : -record->size;
    if (isfinite(cost))
        sum->cost += enters ? cost : -cost;
    else
        sum->endless += enters ? 1u : -1u;
}

static bool window_is_less(const window_sum *a, const window_sum *b) {
    return a->endless != b->endless ? a->endless < b->endless : a->cost < b->cost;
}

uint32_t tn__window_find(tn__evict *e, uint64_t size) {
    window_sum sum = {0}, least = {0};
    uint32_t best = TN__NONE, low = e->block_first;
    for (uint32_t high = e->block_first; high != TN__NONE; high = e->blocks[high].after) {
        if (!window_may_go(e, high)) {
            sum = (window_sum){0};
            low = e->blocks[high].after;
            continue;
        }
        window_add(e, &sum, high, true);
        while (sum.bytes - e->blocks[low].size >= size) {
            window_add(e, &sum, low, false);
            low = e->blocks[low].after;
        }
        if (sum.bytes < size || (best != TN__NONE && !window_is_less(&sum, &least))) continue;
        least = sum;
        best = low;
    }
    return best;
}
