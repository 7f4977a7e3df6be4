/* ggml.c - simulates ggml's allocator: places buffers in order of time, each in the smallest
 * sufficient free block, or at the end if no block is sufficient.
 *
 * Such an allocator knows when blocks end but not which blocks come later. Among free blocks of
 * equal size it takes the last one, which is its only difference from `time-order`. It uses the
 * open end of memory only if no free block fits.
 *
 * Cost: O(n log n) or O(sum of neighbours * log n), like `time-order`.
 * Source: ggml-alloc, the dynamic tensor allocator.
 */
#include "plan/frame/peers.h"

static uint64_t ggml_choose(const tn_hole *holes, uint32_t count) {
    const tn_hole *best = &holes[count - 1];
    for (uint32_t i = 0; i + 1 < count; i++)
        if (holes[i].last - holes[i].first <= best->last - best->first || best == &holes[count - 1])
            best = &holes[i];
    return best->first;
}

static tn_status ggml_solve(tn_run *run) {
    uint32_t count;
    if (tn__run_replays(run)) return tn__run_replay(run, true);
    tn__peers_key *keys = tn__peers_keys(run, &count);
    if (keys == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        keys[i].key[0] = ~(uint64_t)tn__run_bodies(run)[keys[i].id].first;
    const uint32_t *order = tn__peers_order(run, keys, count);
    if (order == NULL) return TN_E_NO_MEMORY;
    return tn__run_greedy(run, order, count, ggml_choose);
}

const tn_planner tn__planner_ggml = {
    .name = "ggml",
    .summary = "ggml's allocator: in order of time, best fit, the last of equal holes",
    .source = "ggml-alloc",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_SIMPLY,
    .solve = ggml_solve,
};
