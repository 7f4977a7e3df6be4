/* peers.h - functions shared by the planners modelled on other tools, in addition to planner.h. */
#ifndef TN_PLAN_FRAME_PEERS_H
#define TN_PLAN_FRAME_PEERS_H

#include "plan/frame/planner.h"

/* Sort keys of a buffer: larger keys come first, ties are sorted by ascending number. For ascending
 * order of a key, store its complement. */
typedef struct tn__peers_key {
    uint64_t key[3];
    uint32_t id;
} tn__peers_key;

/* Allocates one tn__peers_key for each buffer that is not pinned, in order of number, with `key`
 * all zero; NULL if memory is exhausted. */
tn__peers_key *tn__peers_keys(tn_run *run, uint32_t *count);
/* Sorts the keys and returns the numbers of their buffers; NULL if memory is exhausted. */
uint32_t *tn__peers_order(tn_run *run, tn__peers_key *keys, uint32_t count);

/* Unplaces every buffer that is not pinned. */
void tn__peers_clear(tn_run *run);
/* Unplaces all buffers, places them again in `order`, and keeps the placement. */
tn_status tn__peers_try(tn_run *run, const uint32_t *order, uint32_t count, tn_run_choose choose);
/* Works like tn__peers_try, but gives up as soon as the placement is no lower than the lowest so
 * far. */
tn_status tn__peers_try_lower(tn_run *run, const uint32_t *order, uint32_t count,
                              tn_run_choose choose);

/* Whether the live ranges (hulls) of two buffers overlap. */
static inline bool tn__peers_meet(const tn_run_body *a, const tn_run_body *b) {
    return a->first < b->last && b->first < a->last;
}
/* Sets degree[body] to the number of other buffers that overlap the buffer in time. Cost: O(n).
 * False if memory is exhausted. */
bool tn__peers_degrees(tn_run *run, uint64_t *degree);

/* Places each buffer on top of all placed buffers that it overlaps in time. The order is by size,
 * then by number of overlaps (`by_size`), or by number of overlaps, then by size. Ties are sorted
 * by descending number. */
tn_status tn__peers_pile(tn_run *run, bool by_size);

/* Keeps the placement that lays objects end to end. Buffer i lies in object[i], a number below
 * object_count. Objects with larger alignments come first, which avoids alignment gaps between
 * them. */
tn_status tn__peers_stack(tn_run *run, const uint32_t *object, uint32_t object_count);

#endif
