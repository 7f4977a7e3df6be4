/* spent.c - values that nobody refers to any more and nothing can make again, but that others were
 * made from: what was put, ran once, or was written in place.
 *
 * They keep their bytes so that those others may be made again. When bytes are wanted, one may be
 * let go all the same. Operators that read it can never run again then (doom.c): what somebody
 * refers to of their results must be there, and stays until it is released.
 *
 * As long as nothing that somebody refers to was ever evicted, spent values go first. So a budget
 * that is enough without any eviction is enough here, and nothing is made again. Later one goes
 * when what would stay because of it has no more bytes than itself: whoever kept it would hold as
 * much or more from then on, whatever was evicted. And where nobody else is left to go, any that
 * can.
 *
 * Cost: O(storages) a look, O(operators and operands) for each value in question. Those below a
 * hundredth of the budget are no question while others may go; looks are one in SPENT_SHARE
 * operators of the history, but when one has come to be spent.
 */
#include "evict/policy.h"

#define SPENT_SHARE 32u
#define SPENT_TRIES 4u /* at one look */

static uint64_t spent_least(const tn__evict *e) { return e->options.budget / 100; }

void tn__spent_came(tn__evict *e, uint32_t storage) {
    e->has_spent = e->has_spent || e->storages[storage].size >= spent_least(e);
}

static bool spent_is(const tn__evict_storage *storage) {
    return storage->state == TN__RESIDENT && storage->outside == 0 && storage->stuck > 0 &&
           storage->uses > 0 && storage->locks == 0 && !storage->is_pinned && !storage->is_vacant;
}

/* The largest that comes behind another in the order of sizes; NONE. */
static uint32_t spent_next(const tn__evict *e, uint64_t least, uint32_t behind) {
    uint64_t most = behind != TN__NONE ? e->storages[behind].size : UINT64_MAX;
    uint32_t found = TN__NONE;
    for (uint32_t s = 0; s < e->storage_count; s++) {
        const tn__evict_storage *storage = &e->storages[s];
        if (storage->size < least || storage->size == 0 || !spent_is(storage)) continue;
        if (behind != TN__NONE && (storage->size > most || (storage->size == most && s <= behind)))
            continue;
        if (found == TN__NONE || storage->size > e->storages[found].size) found = s;
    }
    return found;
}

/* What is being made ready to run will run. */
static bool spent_hinders(const tn__evict *e) {
    for (size_t f = 0; f < e->frame_count; f++)
        if (tn__doom_is(e, e->frames[f].op)) return true;
    return false;
}

/* Results of a doomed operator that stay from then on. False: one is not there. */
static bool spent_count_results(tn__evict *e, uint32_t op, bool mark, uint64_t *bytes) {
    for (uint32_t o = 0; o < e->ops[op].output_count; o++) {
        uint32_t tensor = tn__op_outputs(&e->ops[op])[o];
        tn__evict_storage *storage = &e->storages[e->tensors[tensor].storage];
        if (!tn__doom_stays(e, tensor) && storage->locks == 0) continue;
        if (mark && tn__doom_stays(e, tensor) && !e->tensors[tensor].is_defined) return false;
        if (mark && !storage->is_counted && storage->stuck == 0 && !storage->is_pinned)
            *bytes = tn__add_sat(*bytes, storage->size);
        storage->is_counted = mark;
    }
    return true;
}

/* Marks whom it dooms. False: it cannot go. *stays: bytes that could be evicted no more. */
static bool spent_ask(tn__evict *e, uint32_t storage, uint64_t *stays) {
    *stays = 0;
    e->storages[storage].is_going = true;
    bool may_go = tn__doom_walk(e, TN__NONE) && !spent_hinders(e);
    uint32_t op = 0;
    for (; may_go && op < e->op_count; op++)
        if (tn__doom_is(e, op)) may_go = spent_count_results(e, op, true, stays);
    for (uint32_t i = 0; i < op; i++)
        if (tn__doom_is(e, i)) (void)spent_count_results(e, i, false, stays);
    e->storages[storage].is_going = false;
    return may_go;
}

static void spent_go(tn__evict *e, uint32_t storage) {
    e->counts.spent_count++;
    e->counts.spent_bytes += e->storages[storage].size;
    tn__doom_finish(e); /* nobody reads it any more, so it goes */
    e->has_spent = true;
}

bool tn__spent_let_go(tn__evict *e, bool last) {
    bool any = last || !e->has_evicted;
    uint64_t least = any ? 0 : spent_least(e), stays;
    if (e->options.exact || e->has_doomed) return false;
    if (!any && !e->has_spent && e->ops_run < e->spent_next) return false;
    uint32_t storage = spent_next(e, least, TN__NONE);
    for (uint32_t tries = 0; storage != TN__NONE && (any || tries < SPENT_TRIES); tries++) {
        if (spent_ask(e, storage, &stays) && (any || stays <= e->storages[storage].size)) {
            spent_go(e, storage);
            return true;
        }
        storage = spent_next(e, least, storage);
    }
    e->has_spent = false;
    e->spent_next = e->ops_run + e->op_count / SPENT_SHARE;
    return false;
}
