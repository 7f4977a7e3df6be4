/* dead_storages.c - evicts *dead* values: they have no outside reference and cannot be recomputed,
 * but other values were made from them. Such a value is a constant, the result of an operator that
 * may run only once, or was written in place.
 *
 * Dead values stay resident so that values made from them can be recomputed. When bytes are needed,
 * a dead value may be evicted all the same. Then operators that read it can never run again
 * (unreachable.c): their results with outside references must be resident, and stay until they are
 * released. A dead value is *tied* as long as a dropped result with outside references needs it, or
 * an operator in preparation does.
 *
 * As long as evicting values without outside references sufficed for every request, dead values are
 * evicted first. So a budget that suffices without any eviction suffices here too, and nothing is
 * recomputed. The first request for which that does not suffice shows that the budget is smaller
 * (is_short). From then on, dead values are evicted if the results that must stay because of that
 * have at most as many bytes; this is tried for all dead values together, then for one alone.
 * Keeping such dead values would use at least as many bytes from then on, under any policy. A dead
 * value of 9 MB from which four of 25 MB were made is kept, so that those four can be evicted. If
 * nothing else can be evicted, all dead values that can be evicted are.
 *
 * Cost: O(dead values) per attempt, since they are listed; O(operators and operands) if there are
 * any. Values below a hundredth of the budget are ignored while others can be evicted. An attempt
 * is made once in DEAD_SHARE operators of the history, or when a value has become dead.
 */
#include "memory/evict/policy.h"

#define DEAD_SHARE 32u
/* number of dead storages that one attempt tries to evict alone, after trying all together */
#define DEAD_TRIES 4u

static uint64_t dead_least(const tn__evict *e) { return e->options.budget / 100; }

bool tn__dead_reserve(tn__evict *e, uint32_t more) {
    return tn__reserve(&e->context, &e->dead, &e->dead_room, (size_t)e->storage_count + more,
                       sizeof *e->dead);
}

static bool dead_may_be(const tn__evict_storage *storage) {
    return storage->outside == 0 && storage->stuck > 0 && storage->uses > 0;
}

void tn__dead_list(tn__evict *e, uint32_t storage) {
    tn__evict_storage *record = &e->storages[storage];
    if (record->dead != TN__NONE || !dead_may_be(record)) return;
    record->dead = e->dead_count;
    e->dead[e->dead_count++] = storage;
}

void tn__dead_unlist(tn__evict *e, uint32_t storage) {
    uint32_t at = e->storages[storage].dead;
    if (at == TN__NONE) return;
    e->dead[at] = e->dead[--e->dead_count];
    e->storages[e->dead[at]].dead = at;
    e->storages[storage].dead = TN__NONE;
}

void tn__dead_came(tn__evict *e, uint32_t storage) {
    e->has_dead = e->has_dead || e->storages[storage].size >= dead_least(e);
}

static bool dead_is(const tn__evict_storage *storage, uint64_t least) {
    return storage->state == TN__RESIDENT && storage->outside == 0 && storage->stuck > 0 &&
           storage->uses > 0 && storage->locks == 0 && !storage->is_pinned && !storage->is_vacant &&
           storage->size >= least && storage->size > 0;
}

/* Sets is_going for the dead storages of at least `least` bytes that are not tied (needed by a
 * dropped result or a waiting operator); returns the sum of their bytes. */
static uint64_t dead_mark(tn__evict *e, uint64_t least) {
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < e->storage_count; s++) {
        tn__evict_storage *storage = &e->storages[s];
        storage->is_going = dead_is(storage, least) && !storage->is_tied;
        if (storage->is_going) bytes = tn__add_sat(bytes, storage->size);
        storage->is_tied = false;
    }
    return bytes;
}

static void dead_unmark(tn__evict *e) {
    for (uint32_t s = 0; s < e->storage_count; s++) e->storages[s].is_going = false;
}

/* Removes storages that can no longer be dead from the list. Returns whether a dead one of at least
 * `least` bytes exists. */
static bool dead_any(tn__evict *e, uint64_t least) {
    for (uint32_t i = e->dead_count; i-- > 0;) {
        const tn__evict_storage *storage = &e->storages[e->dead[i]];
        if (!dead_may_be(storage))
            tn__dead_unlist(e, e->dead[i]);
        else if (dead_is(storage, least))
            return true;
    }
    return false;
}

/* Returns the bytes of an unreachable operator's results that could no longer be evicted; counts
 * each storage once. */
static uint64_t dead_results(tn__evict *e, uint32_t op, bool mark) {
    uint64_t bytes = 0;
    for (uint32_t o = 0; o < e->ops[op].output_count; o++) {
        uint32_t tensor = tn__op_outputs(&e->ops[op])[o];
        tn__evict_storage *storage = &e->storages[e->tensors[tensor].storage];
        if (!tn__unreachable_stays(e, tensor) && storage->locks == 0) continue;
        if (mark && !storage->is_counted && storage->stuck == 0 && !storage->is_pinned)
            bytes = tn__add_sat(bytes, storage->size);
        storage->is_counted = mark;
    }
    return bytes;
}

/* Returns the bytes of results that would have to stay resident if the storages with is_going were
 * evicted; UINT64_MAX if host memory is out. */
static uint64_t dead_stays(tn__evict *e) {
    uint64_t bytes = 0;
    if (!tn__unreachable_walk(e, TN__NONE)) return UINT64_MAX;
    for (uint32_t op = 0; op < e->op_count; op++)
        if (tn__unreachable_is(e, op)) bytes = tn__add_sat(bytes, dead_results(e, op, true));
    for (uint32_t op = 0; op < e->op_count; op++)
        if (tn__unreachable_is(e, op)) (void)dead_results(e, op, false);
    return bytes;
}

/* Returns the marked storage that follows `behind` in order of decreasing size (NONE: the largest
 * one); NONE at the end. */
static uint32_t dead_next(const tn__evict *e, uint32_t behind) {
    uint32_t found = TN__NONE;
    for (uint32_t s = 0; s < e->storage_count; s++) {
        uint64_t size = e->storages[s].size;
        bool is_behind = behind == TN__NONE || size < e->storages[behind].size ||
                         (size == e->storages[behind].size && s > behind);
        if (e->storages[s].is_tied && is_behind &&
            (found == TN__NONE || size > e->storages[found].size))
            found = s;
    }
    return found;
}

/* Clears is_going for all storages but one, if evicting that one alone saves bytes; false if there
 * is no such storage. */
static bool dead_one(tn__evict *e) {
    bool done = false;
    /* is_tied serves as a copy of the is_going flags */
    for (uint32_t s = 0; s < e->storage_count; s++) {
        e->storages[s].is_tied = e->storages[s].is_going;
        e->storages[s].is_going = false;
    }
    uint32_t storage = dead_next(e, TN__NONE);
    for (uint32_t tries = 0; !done && storage != TN__NONE && tries < DEAD_TRIES; tries++) {
        e->storages[storage].is_going = true;
        done = dead_stays(e) <= e->storages[storage].size;
        if (!done) e->storages[storage].is_going = false;
        if (!done) storage = dead_next(e, storage);
    }
    for (uint32_t s = 0; s < e->storage_count; s++) e->storages[s].is_tied = false;
    return done;
}

static bool dead_try(tn__evict *e, bool any, uint64_t least) {
    if (!dead_any(e, least) || !tn__unreachable_tie(e)) return false;
    uint64_t bytes = dead_mark(e, least), stays = bytes > 0 ? dead_stays(e) : 0;
    bool pays = bytes > 0 && stays < UINT64_MAX && (any || stays <= bytes);
    if (bytes > 0 && stays < UINT64_MAX && !pays) pays = dead_one(e);
    if (pays) {
        for (uint32_t s = 0; s < e->storage_count; s++) {
            e->counts.spent_count += e->storages[s].is_going;
            if (e->storages[s].is_going) e->counts.spent_bytes += e->storages[s].size;
        }
        /* also evicts the dead storages, because no operator reads them now */
        tn__unreachable_finish(e);
    }
    dead_unmark(e);
    return pays;
}

/* Returns the bytes of resident values without outside references that can be evicted. */
static uint64_t dead_loose(const tn__evict *e) {
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < e->storage_count; s++) {
        const tn__evict_storage *storage = &e->storages[s];
        if (storage->state == TN__RESIDENT && storage->outside == 0 && storage->locks == 0 &&
            !storage->is_pinned && !storage->is_vacant)
            bytes = tn__add_sat(bytes, storage->size);
    }
    return bytes;
}

bool tn__dead_let_go(tn__evict *e, uint64_t missing, bool last) {
    if (e->options.exact || e->has_doomed) return false;
    if (!e->is_short && dead_any(e, 0)) e->is_short = dead_loose(e) < missing;
    bool any = last || !e->is_short;
    if (!any && !e->has_dead && e->ops_run < e->dead_next) return false;
    bool done = dead_try(e, any, any ? 0 : dead_least(e));
    e->has_dead = done;
    e->dead_next = e->ops_run + e->op_count / DEAD_SHARE;
    return done;
}
