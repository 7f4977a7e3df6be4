/* spent.c - evicts *spent* values: they have no outside reference and cannot be recomputed, but
 * other values were made from them. Such a value is a constant, ran once, or was written in place.
 *
 * Spent values stay resident so that values made from them can be recomputed. When bytes are
 * wanted, a spent value may be evicted all the same. Then operators that read it can never run
 * again (doom.c): their results with outside references must be resident, and stay until they are
 * released. A spent value is *tied* as long as a dropped result with outside references needs it,
 * or an operator in preparation does.
 *
 * As long as no value with outside references was ever evicted, spent values are evicted first. So
 * a budget that suffices without any eviction suffices here too, and nothing is recomputed.
 * Afterwards spent values are evicted if the results that must stay because of them have at most as
 * many bytes, either all spent values together or one alone: keeping them would hold as many bytes
 * or more from then on, under any policy. If nothing else can be evicted, all spent values that can
 * be evicted are.
 *
 * Cost: O(spent values) per look, since they are listed; O(operators and operands) if there are
 * any. Values below a hundredth of the budget are ignored while others can be evicted. A look
 * happens once in SPENT_SHARE operators of the history, or when a value has become spent.
 */
#include "memory/evict/policy.h"

#define SPENT_SHARE 32u
#define SPENT_TRIES 4u /* storages tried one at a time, per look */

static uint64_t spent_least(const tn__evict *e) { return e->options.budget / 100; }

bool tn__spent_reserve(tn__evict *e, uint32_t more) {
    return tn__reserve(&e->context, &e->spent, &e->spent_room, (size_t)e->storage_count + more,
                       sizeof *e->spent);
}

static bool spent_may_be(const tn__evict_storage *storage) {
    return storage->outside == 0 && storage->stuck > 0 && storage->uses > 0;
}

void tn__spent_list(tn__evict *e, uint32_t storage) {
    tn__evict_storage *record = &e->storages[storage];
    if (record->spent != TN__NONE || !spent_may_be(record)) return;
    record->spent = e->spent_count;
    e->spent[e->spent_count++] = storage;
}

void tn__spent_unlist(tn__evict *e, uint32_t storage) {
    uint32_t at = e->storages[storage].spent;
    if (at == TN__NONE) return;
    e->spent[at] = e->spent[--e->spent_count];
    e->storages[e->spent[at]].spent = at;
    e->storages[storage].spent = TN__NONE;
}

void tn__spent_came(tn__evict *e, uint32_t storage) {
    e->has_spent = e->has_spent || e->storages[storage].size >= spent_least(e);
}

static bool spent_is(const tn__evict_storage *storage, uint64_t least) {
    return storage->state == TN__RESIDENT && storage->outside == 0 && storage->stuck > 0 &&
           storage->uses > 0 && storage->locks == 0 && !storage->is_pinned && !storage->is_vacant &&
           storage->size >= least && storage->size > 0;
}

/* Sets is_going for spent storages that are not tied; returns their bytes. */
static uint64_t spent_mark(tn__evict *e, uint64_t least) {
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < e->storage_count; s++) {
        tn__evict_storage *storage = &e->storages[s];
        storage->is_going = spent_is(storage, least) && !storage->is_tied;
        if (storage->is_going) bytes = tn__add_sat(bytes, storage->size);
        storage->is_tied = false;
    }
    return bytes;
}

static void spent_unmark(tn__evict *e) {
    for (uint32_t s = 0; s < e->storage_count; s++) e->storages[s].is_going = false;
}

/* Removes storages that are no longer spent from the list. True: one of at least `least` bytes is
 * left. */
static bool spent_any(tn__evict *e, uint64_t least) {
    for (uint32_t i = e->spent_count; i-- > 0;) {
        const tn__evict_storage *storage = &e->storages[e->spent[i]];
        if (!spent_may_be(storage))
            tn__spent_unlist(e, e->spent[i]);
        else if (spent_is(storage, least))
            return true;
    }
    return false;
}

/* Bytes of results of a doomed operator that could no longer be evicted; each storage once. */
static uint64_t spent_results(tn__evict *e, uint32_t op, bool mark) {
    uint64_t bytes = 0;
    for (uint32_t o = 0; o < e->ops[op].output_count; o++) {
        uint32_t tensor = tn__op_outputs(&e->ops[op])[o];
        tn__evict_storage *storage = &e->storages[e->tensors[tensor].storage];
        if (!tn__doom_stays(e, tensor) && storage->locks == 0) continue;
        if (mark && !storage->is_counted && storage->stuck == 0 && !storage->is_pinned)
            bytes = tn__add_sat(bytes, storage->size);
        storage->is_counted = mark;
    }
    return bytes;
}

/* Bytes that would have to stay if the storages with is_going were evicted. */
static uint64_t spent_stays(tn__evict *e) {
    uint64_t bytes = 0;
    if (!tn__doom_walk(e, TN__NONE)) return UINT64_MAX;
    for (uint32_t op = 0; op < e->op_count; op++)
        if (tn__doom_is(e, op)) bytes = tn__add_sat(bytes, spent_results(e, op, true));
    for (uint32_t op = 0; op < e->op_count; op++)
        if (tn__doom_is(e, op)) (void)spent_results(e, op, false);
    return bytes;
}

/* In order of decreasing size, the next marked storage after `behind` (NONE: the first); or
 * NONE. */
static uint32_t spent_next(const tn__evict *e, uint32_t behind) {
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

/* Keeps is_going for one storage alone, if evicting that one saves bytes. */
static bool spent_one(tn__evict *e) {
    bool done = false;
    for (uint32_t s = 0; s < e->storage_count; s++) { /* is_tied serves as a copy of the marks */
        e->storages[s].is_tied = e->storages[s].is_going;
        e->storages[s].is_going = false;
    }
    uint32_t storage = spent_next(e, TN__NONE);
    for (uint32_t tries = 0; !done && storage != TN__NONE && tries < SPENT_TRIES; tries++) {
        e->storages[storage].is_going = true;
        done = spent_stays(e) <= e->storages[storage].size;
        if (!done) e->storages[storage].is_going = false;
        if (!done) storage = spent_next(e, storage);
    }
    for (uint32_t s = 0; s < e->storage_count; s++) e->storages[s].is_tied = false;
    return done;
}

static bool spent_try(tn__evict *e, bool any, uint64_t least) {
    if (!spent_any(e, least) || !tn__doom_tie(e)) return false;
    uint64_t bytes = spent_mark(e, least), stays = bytes > 0 ? spent_stays(e) : 0;
    bool pays = bytes > 0 && stays < UINT64_MAX && (any || stays <= bytes);
    if (bytes > 0 && stays < UINT64_MAX && !pays) pays = spent_one(e);
    if (pays) {
        for (uint32_t s = 0; s < e->storage_count; s++) {
            e->counts.spent_count += e->storages[s].is_going;
            if (e->storages[s].is_going) e->counts.spent_bytes += e->storages[s].size;
        }
        tn__doom_finish(e); /* evicts them too: no operator reads them now */
    }
    spent_unmark(e);
    return pays;
}

bool tn__spent_let_go(tn__evict *e, bool last) {
    bool any = last || !e->has_evicted;
    if (e->options.exact || e->has_doomed) return false;
    if (!any && !e->has_spent && e->ops_run < e->spent_next) return false;
    bool done = spent_try(e, any, any ? 0 : spent_least(e));
    e->has_spent = done;
    e->spent_next = e->ops_run + e->op_count / SPENT_SHARE;
    return done;
}
