/* regions.c - keeps evicted neighbourhoods up to date step by step: see regions.h.
 *
 * When a storage is dropped, the regions at whose edge it lies absorb it and its interior. When one
 * is recomputed, its own regions and those that contained it are found again by walking. Every edge
 * that is walked and every storage that is absorbed counts as one access, as in DTR's simulator.
 * When a history is forgotten (DTR's simulator never does), a region is only marked stale, and is
 * recomputed when it is read.
 * Cost: O(dropped storages around and their edges) for each storage dropped or recomputed.
 * Source: Kirisame et al.: Dynamic tensor rematerialization, ICLR 2021, and their simulator simrd.
 */
#include "memory/evict/regions.h"

static bool ids_add(tn__evict *e, tn__ids *ids, uint32_t id) {
    if (!tn__reserve(&e->context, &ids->items, &ids->room, ids->count + 1, sizeof *ids->items))
        return false;
    ids->items[ids->count++] = id;
    return true;
}

static void ids_release(tn__evict *e, tn__ids *ids) {
    tn__free(&e->context, ids->items, ids->room * sizeof *ids->items);
}

/* A number that no storage carries as its stamp. */
static uint32_t regions_stamp(tn__regions *regions) {
    if (++regions->stamp == 0) {
        memset(regions->stamps, 0, regions->stamp_known * sizeof *regions->stamps);
        regions->stamp = 1;
    }
    return regions->stamp;
}

bool tn__regions_added(tn__evict *e, uint32_t op) {
    tn__regions *regions = e->state;
    (void)op;
    if (!tn__reserve(&e->context, &regions->of, &regions->room, e->storage_count,
                     sizeof *regions->of) ||
        !tn__reserve(&e->context, &regions->stamps, &regions->stamp_room, e->storage_count,
                     sizeof *regions->stamps))
        return false;
    for (; regions->known < e->storage_count; regions->known++)
        memset(&regions->of[regions->known], 0, sizeof *regions->of);
    for (; regions->stamp_known < e->storage_count; regions->stamp_known++)
        regions->stamps[regions->stamp_known] = 0;
    return true;
}

static const tn__links *regions_links(const tn__evict *e, uint32_t storage, int way) {
    const tn__evict_storage *record = &e->storages[storage];
    return way == TN__REGION_CHILDREN ? &record->children : &record->parents;
}

static bool regions_is_there(const tn__evict *e, uint32_t storage) {
    return e->storages[storage].state != TN__DROPPED;
}

/* Walks from the storage through dropped ones, and lists the storages it reaches. */
static bool regions_find(tn__evict *e, uint32_t base, int way) {
    tn__regions *regions = e->state;
    tn__region *region = &regions->of[base][way];
    tn__ids *stack = &regions->stack;
    uint32_t stamp = regions_stamp(regions);
    region->interior.count = region->frontier.count = stack->count = 0;
    region->cost = 0;
    region->is_stale = true; /* until the walk is complete */
    regions->stamps[base] = stamp;
    if (!ids_add(e, stack, base)) return false;
    while (stack->count > 0) {
        const tn__links *links = regions_links(e, stack->items[--stack->count], way);
        const tn__storage_link *items = tn__links_of(links);
        for (uint32_t i = 0; i < links->count; i++) {
            uint32_t other = items[i].storage;
            e->counts.access_count += items[i].count;
            if (regions->stamps[other] == stamp) continue;
            regions->stamps[other] = stamp;
            bool is_edge = regions_is_there(e, other);
            if (!ids_add(e, is_edge ? &region->frontier : &region->interior, other)) return false;
            if (is_edge) continue;
            region->cost = tn__add_sat(region->cost, e->storages[other].cost);
            if (!ids_add(e, stack, other)) return false;
        }
    }
    region->is_stale = false;
    return true;
}

/* Adds the storages that are not in the set yet, except `except`; *cost (may be NULL) grows by
 * their cost. */
static bool regions_unite(tn__evict *e, tn__ids *set, const tn__ids *more, uint32_t except,
                          uint64_t *cost) {
    tn__regions *regions = e->state;
    uint32_t stamp = regions_stamp(regions);
    for (size_t i = 0; i < set->count; i++) regions->stamps[set->items[i]] = stamp;
    for (size_t i = 0; i < more->count; i++) {
        uint32_t id = more->items[i];
        if (regions->stamps[id] == stamp || id == except) continue;
        regions->stamps[id] = stamp;
        if (!ids_add(e, set, id)) return false;
        if (cost == NULL) continue;
        e->counts.access_count++;
        *cost = tn__add_sat(*cost, e->storages[id].cost);
    }
    return true;
}

/* The storage at this region's edge was dropped. */
static bool regions_absorb(tn__evict *e, tn__region *region, uint32_t storage, int way) {
    tn__regions *regions = e->state;
    const tn__region *other = &regions->of[storage][way];
    tn__ids *frontier = &region->frontier;
    uint32_t self[1] = {storage};
    if (region->is_stale || other->is_stale) {
        region->is_stale = true;
        return true;
    }
    for (size_t i = 0; i < frontier->count; i++)
        if (frontier->items[i] == storage) {
            frontier->items[i] = frontier->items[--frontier->count];
            break;
        }
    region->is_stale = true;
    if (!regions_unite(e, frontier, &other->frontier, TN__NONE, NULL) ||
        !regions_unite(e, &region->interior, &other->interior, storage, &region->cost) ||
        !regions_unite(e, &region->interior, &(tn__ids){self, 1, 1}, TN__NONE, NULL))
        return false;
    e->counts.access_count++; /* it counts itself, even if a view makes it its own neighbour */
    region->cost = tn__add_sat(region->cost, e->storages[storage].cost);
    region->is_stale = false;
    return true;
}

bool tn__regions_evicted(tn__evict *e, uint32_t storage) {
    tn__regions *regions = e->state;
    tn__region *of = regions->of[storage];
    for (int way = 0; way < 2; way++)
        if (of[way].is_stale && !regions_find(e, storage, way)) return false;
    for (int way = 0; way < 2; way++) { /* storages on the opposite side see it in this direction */
        const tn__ids *edge = &of[1 - way].frontier;
        for (size_t i = 0; i < edge->count; i++)
            if (!regions_absorb(e, &regions->of[edge->items[i]][way], storage, way)) return false;
    }
    for (int way = 0; way < 2; way++)
        of[way].interior.count = of[way].frontier.count = of[way].cost = 0;
    return true;
}

bool tn__regions_made(tn__evict *e, const uint32_t *storages, uint32_t count) {
    tn__regions *regions = e->state;
    regions->affected[0].count = regions->affected[1].count = 0;
    for (uint32_t i = 0; i < count; i++)
        for (int way = 0; way < 2; way++)
            if (!regions_find(e, storages[i], way)) return false;
    for (uint32_t i = 0; i < count; i++)
        for (int way = 0; way < 2; way++)
            if (!regions_unite(e, &regions->affected[way],
                               &regions->of[storages[i]][1 - way].frontier, TN__NONE, NULL))
                return false;
    for (int way = 0; way < 2; way++)
        for (size_t i = 0; i < regions->affected[way].count; i++)
            if (!regions_find(e, regions->affected[way].items[i], way)) return false;
    return true;
}

/* Removes its results from the neighbourhoods that contain them; the links still exist. */
void tn__regions_forgotten(tn__evict *e, uint32_t op) {
    tn__regions *regions = e->state;
    const tn__evict_op *record = &e->ops[op];
    for (uint32_t o = 0; o < record->output_count; o++) {
        uint32_t storage = e->tensors[tn__op_outputs(record)[o]].storage;
        for (int way = 0; way < 2; way++) {
            if (!regions_find(e, storage, way)) continue; /* benign: known less precisely */
            const tn__ids *edge = &regions->of[storage][way].frontier;
            for (size_t i = 0; i < edge->count; i++)
                regions->of[edge->items[i]][1 - way].is_stale = true;
        }
    }
}

void tn__regions_vanished(tn__evict *e, uint32_t storage) {
    tn__regions *regions = e->state;
    if (storage >= regions->known) return;
    for (int way = 0; way < 2; way++) {
        tn__region *region = &regions->of[storage][way];
        region->interior.count = region->frontier.count = region->cost = 0;
        region->is_stale = false;
    }
}

void tn__regions_close(tn__evict *e) {
    tn__regions *regions = e->state;
    for (size_t i = 0; i < regions->known; i++)
        for (int way = 0; way < 2; way++) {
            ids_release(e, &regions->of[i][way].interior);
            ids_release(e, &regions->of[i][way].frontier);
        }
    ids_release(e, &regions->stack);
    ids_release(e, &regions->affected[0]);
    ids_release(e, &regions->affected[1]);
    tn__free(&e->context, regions->of, regions->room * sizeof *regions->of);
    tn__free(&e->context, regions->stamps, regions->stamp_room * sizeof *regions->stamps);
}

uint64_t tn__regions_cost(tn__evict *e, uint32_t storage, int way) {
    tn__regions *regions = e->state;
    tn__region *region = &regions->of[storage][way];
    /* benign: known less precisely */
    if (region->is_stale && !regions_find(e, storage, way)) return 0;
    return region->cost;
}

uint64_t tn__regions_around(tn__evict *e, uint32_t storage) {
    uint64_t after = tn__regions_cost(e, storage, TN__REGION_CHILDREN);
    uint64_t before = tn__regions_cost(e, storage, TN__REGION_PARENTS);
    return tn__add_sat(tn__add_sat(after, before), e->storages[storage].cost);
}
