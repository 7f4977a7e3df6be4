/* neighbourhoods.h - DTR's evicted neighbourhood: the dropped storages around each resident one,
 * kept up to date in both directions as DTR's authors do.
 *
 * The neighbourhood of a storage consists of its *interior*, the dropped storages that can be
 * reached from it through dropped ones only; its *frontier*, the resident storages next to the
 * interior; and the sum of the interior's costs.
 */
#ifndef TN_EVICT_NEIGHBOURHOODS_H
#define TN_EVICT_NEIGHBOURHOODS_H

#include "memory/evict/policy.h"

typedef struct tn__ids {
    uint32_t *items;
    size_t count, room;
} tn__ids;

typedef struct tn__neighbourhood {
    tn__ids interior, frontier;
    uint64_t cost;
    /* true: the neighbourhood is out of date and must be found again before it is used */
    bool is_stale;
} tn__neighbourhood;

enum { TN__NEIGHBOURHOOD_CHILDREN, TN__NEIGHBOURHOOD_PARENTS };

typedef struct tn__neighbourhoods { /* the state of a policy that uses neighbourhoods */
    /* [storage]: neighbourhoods of each storage in the direction of children and of parents */
    tn__neighbourhood (*of)[2];
    size_t room, known;
    uint32_t *stamps; /* [storage]: number of the walk that visited the storage last */
    size_t stamp_room, stamp_known;
    uint32_t stamp;
    tn__ids stack, affected[2];
} tn__neighbourhoods;

bool tn__neighbourhoods_added(tn__evict *e, uint32_t op);
bool tn__neighbourhoods_evicted(tn__evict *e, uint32_t storage);
bool tn__neighbourhoods_made(tn__evict *e, const uint32_t *storages, uint32_t count);
void tn__neighbourhoods_forgotten(tn__evict *e, uint32_t op);
void tn__neighbourhoods_vanished(tn__evict *e, uint32_t storage);
void tn__neighbourhoods_close(tn__evict *e);
/* Returns the cost of the dropped storages that were made from the storage (children), or from
 * which it was made (parents). */
uint64_t tn__neighbourhoods_cost(tn__evict *e, uint32_t storage, int way);
/* Returns the cost of the storage itself plus the costs of both neighbourhoods. */
uint64_t tn__neighbourhoods_around(tn__evict *e, uint32_t storage);

/* Fields of a policy whose state is a tn__neighbourhoods: its size, and the functions that keep it
 * up to date. */
#define TN__REGIONS_KEPT                                                                           \
    .state_size = sizeof(tn__neighbourhoods), .added = tn__neighbourhoods_added,                   \
    .evicted = tn__neighbourhoods_evicted, .made = tn__neighbourhoods_made,                        \
    .forgotten = tn__neighbourhoods_forgotten, .vanished = tn__neighbourhoods_vanished,            \
    .close = tn__neighbourhoods_close

#endif
