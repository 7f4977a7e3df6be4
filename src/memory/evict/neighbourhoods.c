/* neighbourhoods.c - keeps evicted neighbourhoods up to date (neighbourhoods.h).
 *
 * When a storage is dropped, each neighbourhood with that storage in its frontier absorbs it and
 * its interior. When a storage is recomputed, its own neighbourhoods and those that contained it
 * are found again by walking. Every edge that is walked and every storage that is absorbed counts
 * as one access, as in DTR's simulator. When a history is forgotten (DTR's simulator never does), a
 * neighbourhood is only marked stale, and is recomputed when it is read.
 *
 * Cost: for each storage dropped or recomputed, O(dropped storages around it and their edges).
 * Source: Kirisame et al.: Dynamic tensor rematerialization, ICLR 2021, and their simulator
 * simrd.
 */
#include "memory/evict/neighbourhoods.h"

static bool ids_add(tn__evict *e, tn__ids *ids, uint32_t id) {
    if (!tn__reserve(&e->context, &ids->items, &ids->room, ids->count + 1, sizeof *ids->items))
        return false;
    ids->items[ids->count++] = id;
    return true;
}

static void ids_release(tn__evict *e, tn__ids *ids) {
    tn__free(&e->context, ids->items, ids->room * sizeof *ids->items);
}

/* Returns a new stamp, a number that no storage is marked with. */
static uint32_t hoods_stamp(tn__neighbourhoods *neighbourhoods) {
    if (++neighbourhoods->stamp == 0) {
        memset(neighbourhoods->stamps, 0,
               neighbourhoods->stamp_known * sizeof *neighbourhoods->stamps);
        neighbourhoods->stamp = 1;
    }
    return neighbourhoods->stamp;
}

bool tn__neighbourhoods_added(tn__evict *e, uint32_t op) {
    tn__neighbourhoods *neighbourhoods = e->state;
    (void)op;
    if (!tn__reserve(&e->context, &neighbourhoods->of, &neighbourhoods->room, e->storage_count,
                     sizeof *neighbourhoods->of) ||
        !tn__reserve(&e->context, &neighbourhoods->stamps, &neighbourhoods->stamp_room,
                     e->storage_count, sizeof *neighbourhoods->stamps))
        return false;
    for (; neighbourhoods->known < e->storage_count; neighbourhoods->known++)
        memset(&neighbourhoods->of[neighbourhoods->known], 0, sizeof *neighbourhoods->of);
    for (; neighbourhoods->stamp_known < e->storage_count; neighbourhoods->stamp_known++)
        neighbourhoods->stamps[neighbourhoods->stamp_known] = 0;
    return true;
}

static const tn__links *hoods_links(const tn__evict *e, uint32_t storage, int way) {
    const tn__evict_storage *record = &e->storages[storage];
    return way == TN__NEIGHBOURHOOD_CHILDREN ? &record->children : &record->parents;
}

static bool hoods_is_there(const tn__evict *e, uint32_t storage) {
    return e->storages[storage].state != TN__DROPPED;
}

/* Finds the neighbourhood of a storage in one direction: walks from it through dropped storages,
 * and lists the dropped and the resident ones that it meets. False if host memory is out. */
static bool hoods_find(tn__evict *e, uint32_t base, int way) {
    tn__neighbourhoods *neighbourhoods = e->state;
    tn__neighbourhood *neighbourhood = &neighbourhoods->of[base][way];
    tn__ids *stack = &neighbourhoods->stack;
    uint32_t stamp = hoods_stamp(neighbourhoods);
    neighbourhood->interior.count = neighbourhood->frontier.count = stack->count = 0;
    neighbourhood->cost = 0;
    /* marks the neighbourhood as stale first, so that it stays so if the walk fails */
    neighbourhood->is_stale = true;
    neighbourhoods->stamps[base] = stamp;
    if (!ids_add(e, stack, base)) return false;
    while (stack->count > 0) {
        const tn__links *links = hoods_links(e, stack->items[--stack->count], way);
        const tn__storage_link *items = tn__links_of(links);
        for (uint32_t i = 0; i < links->count; i++) {
            uint32_t other = items[i].storage;
            e->counts.access_count += items[i].count;
            if (neighbourhoods->stamps[other] == stamp) continue;
            neighbourhoods->stamps[other] = stamp;
            bool is_edge = hoods_is_there(e, other);
            if (!ids_add(e, is_edge ? &neighbourhood->frontier : &neighbourhood->interior, other))
                return false;
            if (is_edge) continue;
            neighbourhood->cost = tn__add_sat(neighbourhood->cost, e->storages[other].cost);
            if (!ids_add(e, stack, other)) return false;
        }
    }
    neighbourhood->is_stale = false;
    return true;
}

/* Adds the storages of the list `more` to the list `set`, except `except` and those that are in
 * `set` already; adds their costs to *cost, unless it is NULL. False if host memory is out. */
static bool hoods_unite(tn__evict *e, tn__ids *set, const tn__ids *more, uint32_t except,
                        uint64_t *cost) {
    tn__neighbourhoods *neighbourhoods = e->state;
    uint32_t stamp = hoods_stamp(neighbourhoods);
    for (size_t i = 0; i < set->count; i++) neighbourhoods->stamps[set->items[i]] = stamp;
    for (size_t i = 0; i < more->count; i++) {
        uint32_t id = more->items[i];
        if (neighbourhoods->stamps[id] == stamp || id == except) continue;
        neighbourhoods->stamps[id] = stamp;
        if (!ids_add(e, set, id)) return false;
        if (cost == NULL) continue;
        e->counts.access_count++;
        *cost = tn__add_sat(*cost, e->storages[id].cost);
    }
    return true;
}

/* Updates a neighbourhood after the storage at its frontier was dropped: moves the storage into the
 * interior, with its own neighbourhood. */
static bool hoods_absorb(tn__evict *e, tn__neighbourhood *neighbourhood, uint32_t storage,
                         int way) {
    tn__neighbourhoods *neighbourhoods = e->state;
    const tn__neighbourhood *other = &neighbourhoods->of[storage][way];
    tn__ids *frontier = &neighbourhood->frontier;
    uint32_t self[1] = {storage};
    if (neighbourhood->is_stale || other->is_stale) {
        neighbourhood->is_stale = true;
        return true;
    }
    for (size_t i = 0; i < frontier->count; i++)
        if (frontier->items[i] == storage) {
            frontier->items[i] = frontier->items[--frontier->count];
            break;
        }
    neighbourhood->is_stale = true;
    if (!hoods_unite(e, frontier, &other->frontier, TN__NONE, NULL) ||
        !hoods_unite(e, &neighbourhood->interior, &other->interior, storage,
                     &neighbourhood->cost) ||
        !hoods_unite(e, &neighbourhood->interior, &(tn__ids){self, 1, 1}, TN__NONE, NULL))
        return false;
    /* the storage counts as one access, even if a view makes it its own neighbour */
    e->counts.access_count++;
    neighbourhood->cost = tn__add_sat(neighbourhood->cost, e->storages[storage].cost);
    neighbourhood->is_stale = false;
    return true;
}

bool tn__neighbourhoods_evicted(tn__evict *e, uint32_t storage) {
    tn__neighbourhoods *neighbourhoods = e->state;
    tn__neighbourhood *of = neighbourhoods->of[storage];
    for (int way = 0; way < 2; way++)
        if (of[way].is_stale && !hoods_find(e, storage, way)) return false;
    /* a storage in the frontier on the opposite side has this storage in its frontier in direction
     * `way` */
    for (int way = 0; way < 2; way++) {
        const tn__ids *edge = &of[1 - way].frontier;
        for (size_t i = 0; i < edge->count; i++)
            if (!hoods_absorb(e, &neighbourhoods->of[edge->items[i]][way], storage, way))
                return false;
    }
    for (int way = 0; way < 2; way++)
        of[way].interior.count = of[way].frontier.count = of[way].cost = 0;
    return true;
}

bool tn__neighbourhoods_made(tn__evict *e, const uint32_t *storages, uint32_t count) {
    tn__neighbourhoods *neighbourhoods = e->state;
    neighbourhoods->affected[0].count = neighbourhoods->affected[1].count = 0;
    for (uint32_t i = 0; i < count; i++)
        for (int way = 0; way < 2; way++)
            if (!hoods_find(e, storages[i], way)) return false;
    for (uint32_t i = 0; i < count; i++)
        for (int way = 0; way < 2; way++)
            if (!hoods_unite(e, &neighbourhoods->affected[way],
                             &neighbourhoods->of[storages[i]][1 - way].frontier, TN__NONE, NULL))
                return false;
    for (int way = 0; way < 2; way++)
        for (size_t i = 0; i < neighbourhoods->affected[way].count; i++)
            if (!hoods_find(e, neighbourhoods->affected[way].items[i], way)) return false;
    return true;
}

/* Marks neighbourhoods that contain results of the operator as stale; the links still exist. */
void tn__neighbourhoods_forgotten(tn__evict *e, uint32_t op) {
    tn__neighbourhoods *neighbourhoods = e->state;
    const tn__evict_op *record = &e->ops[op];
    for (uint32_t o = 0; o < record->output_count; o++) {
        uint32_t storage = e->tensors[tn__op_outputs(record)[o]].storage;
        for (int way = 0; way < 2; way++) {
            /* a failure is harmless: the cost of a neighbourhood only becomes less precise */
            if (!hoods_find(e, storage, way)) continue;
            const tn__ids *edge = &neighbourhoods->of[storage][way].frontier;
            for (size_t i = 0; i < edge->count; i++)
                neighbourhoods->of[edge->items[i]][1 - way].is_stale = true;
        }
    }
}

void tn__neighbourhoods_vanished(tn__evict *e, uint32_t storage) {
    tn__neighbourhoods *neighbourhoods = e->state;
    if (storage >= neighbourhoods->known) return;
    for (int way = 0; way < 2; way++) {
        tn__neighbourhood *neighbourhood = &neighbourhoods->of[storage][way];
        neighbourhood->interior.count = neighbourhood->frontier.count = neighbourhood->cost = 0;
        neighbourhood->is_stale = false;
    }
}

void tn__neighbourhoods_close(tn__evict *e) {
    tn__neighbourhoods *neighbourhoods = e->state;
    for (size_t i = 0; i < neighbourhoods->known; i++)
        for (int way = 0; way < 2; way++) {
            ids_release(e, &neighbourhoods->of[i][way].interior);
            ids_release(e, &neighbourhoods->of[i][way].frontier);
        }
    ids_release(e, &neighbourhoods->stack);
    ids_release(e, &neighbourhoods->affected[0]);
    ids_release(e, &neighbourhoods->affected[1]);
    tn__free(&e->context, neighbourhoods->of, neighbourhoods->room * sizeof *neighbourhoods->of);
    tn__free(&e->context, neighbourhoods->stamps,
             neighbourhoods->stamp_room * sizeof *neighbourhoods->stamps);
}

uint64_t tn__neighbourhoods_cost(tn__evict *e, uint32_t storage, int way) {
    tn__neighbourhoods *neighbourhoods = e->state;
    tn__neighbourhood *neighbourhood = &neighbourhoods->of[storage][way];
    /* a failure is harmless: the cost of a neighbourhood only becomes less precise */
    if (neighbourhood->is_stale && !hoods_find(e, storage, way)) return 0;
    return neighbourhood->cost;
}

uint64_t tn__neighbourhoods_around(tn__evict *e, uint32_t storage) {
    uint64_t after = tn__neighbourhoods_cost(e, storage, TN__NEIGHBOURHOOD_CHILDREN);
    uint64_t before = tn__neighbourhoods_cost(e, storage, TN__NEIGHBOURHOOD_PARENTS);
    return tn__add_sat(tn__add_sat(after, before), e->storages[storage].cost);
}
