/* peers.h - functions that the planners modelled on other tools share, in addition to planner.h. */
#ifndef TN_PLAN_FRAME_PEERS_H
#define TN_PLAN_FRAME_PEERS_H

#include "plan/frame/planner.h"

/* Sort keys of a body, larger keys first; ties by number, smaller numbers first. For the opposite
 * order, use the complement of a key. */
typedef struct tn__peers_key {
    uint64_t key[3];
    uint32_t id;
} tn__peers_key;

/* Keys for the free bodies in order of number, with `key` all zero; NULL: no memory. */
tn__peers_key *tn__peers_keys(tn_run *run, uint32_t *count);
/* Sorts the keys and returns their bodies; NULL: no memory. */
uint32_t *tn__peers_order(tn_run *run, tn__peers_key *keys, uint32_t count);

/* Unplaces every body that is not pinned. */
void tn__peers_clear(tn_run *run);
/* Clears, places all bodies in `order`, and keeps the placement. */
tn_status tn__peers_try(tn_run *run, const uint32_t *order, uint32_t count, tn_run_choose choose);
/* The same for a placement that is wanted only if it is the lowest so far; else it gives up. */
tn_status tn__peers_try_lower(tn_run *run, const uint32_t *order, uint32_t count,
                              tn_run_choose choose);

/* Whether the live ranges (hulls) of two bodies overlap. */
static inline bool tn__peers_meet(const tn_run_body *a, const tn_run_body *b) {
    return a->first < b->last && b->first < a->last;
}
/* degree[body]: number of other bodies that overlap it in time. O(n); false if memory is out. */
bool tn__peers_degrees(tn_run *run, uint64_t *degree);

/* Places each body on top of all bodies that it overlaps in time. Order: by size, then number of
 * overlaps (`by_size`), or the reverse; then later bodies first. */
tn_status tn__peers_pile(tn_run *run, bool by_size);

/* Keeps the placement that lays objects end to end; `object[body]` is below object_count. Objects
 * with larger alignments come first, so that no gaps arise between them. */
tn_status tn__peers_stack(tn_run *run, const uint32_t *object, uint32_t object_count);

#endif
