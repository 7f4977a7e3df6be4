/* regions.h - DTR's evicted neighbourhood: the dropped storages around each resident one, kept up
 * to date in both directions as DTR's authors do.
 *
 * The region of a storage consists of its *interior*, the dropped storages reached from it through
 * dropped ones; its *frontier*, the resident storages at the interior's edge; and the sum of the
 * interior's costs.
 */
#ifndef TN_EVICT_REGIONS_H
#define TN_EVICT_REGIONS_H

#include "memory/evict/policy.h"

typedef struct tn__ids {
    uint32_t *items;
    size_t count, room;
} tn__ids;

typedef struct tn__region {
    tn__ids interior, frontier;
    uint64_t cost;
    bool is_stale; /* must be recomputed before it is used */
} tn__region;

enum { TN__REGION_CHILDREN, TN__REGION_PARENTS };

typedef struct tn__regions { /* state of a policy */
    tn__region (*of)[2];     /* [storage]: children, parents */
    size_t room, known;
    uint32_t *stamps; /* [storage]: number of the walk that visited it last */
    size_t stamp_room, stamp_known;
    uint32_t stamp;
    tn__ids stack, affected[2];
} tn__regions;

bool tn__regions_added(tn__evict *e, uint32_t op);
bool tn__regions_evicted(tn__evict *e, uint32_t storage);
bool tn__regions_made(tn__evict *e, const uint32_t *storages, uint32_t count);
void tn__regions_forgotten(tn__evict *e, uint32_t op);
void tn__regions_vanished(tn__evict *e, uint32_t storage);
void tn__regions_close(tn__evict *e);
/* Cost of the storages dropped after it (children) or before it (parents). */
uint64_t tn__regions_cost(tn__evict *e, uint32_t storage, int way);
/* The cost of the storage itself plus the cost of both regions. */
uint64_t tn__regions_around(tn__evict *e, uint32_t storage);

/* The functions, other than the score, of a policy whose state is tn__regions. */
#define TN__REGIONS_KEPT                                                                           \
    .state_size = sizeof(tn__regions), .added = tn__regions_added, .evicted = tn__regions_evicted, \
    .made = tn__regions_made, .forgotten = tn__regions_forgotten,                                  \
    .vanished = tn__regions_vanished, .close = tn__regions_close

#endif
