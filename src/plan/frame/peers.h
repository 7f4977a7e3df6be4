/* peers.h - words that the planners after other tools share, beyond those of planner.h. */
#ifndef TN_PLAN_FRAME_PEERS_H
#define TN_PLAN_FRAME_PEERS_H

#include "plan/frame/planner.h"

/* Sort keys of a body, the larger first; ties by number, the smaller first. A key that should sort
 * the other way goes in as its complement. */
typedef struct tn__peers_key {
    uint64_t key[3];
    uint32_t id;
} tn__peers_key;

/* Keys for the free bodies, `key` all zero, by number; NULL: no memory. */
tn__peers_key *tn__peers_keys(tn_run *run, uint32_t *count);
/* Sorts the keys and returns their bodies; NULL: no memory. */
uint32_t *tn__peers_order(tn_run *run, tn__peers_key *keys, uint32_t count);

/* Takes back every body that is not pinned. */
void tn__peers_clear(tn_run *run);
/* Clears, places all in `order`, keeps. */
tn_status tn__peers_try(tn_run *run, const uint32_t *order, uint32_t count, tn_run_choose choose);
/* The same for a placement that is wanted only if it is the lowest so far: else it gives up. */
tn_status tn__peers_try_lower(tn_run *run, const uint32_t *order, uint32_t count,
                              tn_run_choose choose);

/* Whether the lives (hulls) of two bodies meet. */
static inline bool tn__peers_meet(const tn_run_body *a, const tn_run_body *b) {
    return a->first < b->last && b->first < a->last;
}
/* degree[body]: how many others it meets. O(n); false when memory is out. */
bool tn__peers_degrees(tn_run *run, uint64_t *degree);

/* Places each body on top of all that it meets, the largest first (`by_size`; of equals who meets
 * more) or who meets most first (of equals the larger); then the later body. */
tn_status tn__peers_pile(tn_run *run, bool by_size);

/* Keeps the placement that lays objects end to end, `object[body]` being below object_count;
 * larger alignments first, so that no gaps arise between them. */
tn_status tn__peers_stack(tn_run *run, const uint32_t *object, uint32_t object_count);

#endif
