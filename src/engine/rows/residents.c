/* residents.c - the index of resident rows, and their locking by batches (residents.h).
 *
 * The index is a hash table with linear probing, at most two thirds full. When an entry is removed,
 * following entries are moved back. So there are no tombstones, and the index stays as fast after a
 * billion rows. Row and slot are adjacent in an entry, so a hit costs one cache line.
 *
 * A batch is locked in two rounds: first its resident rows, so that none of them is evicted; then
 * the others. If there are too few slots for the batch, rows that were evicted for it stay evicted.
 * The next batch reads them again, which costs time but changes no result.
 */
#include "engine/rows/policy.h"

#include <inttypes.h>

#define TN_POLICY(name) extern const tn__row_policy tn__row_policy_##name;
#include "engine/rows/policies.def"
#undef TN_POLICY

static const tn__row_policy *const residents_policies[] = {
#define TN_POLICY(name) &tn__row_policy_##name,
#include "engine/rows/policies.def"
#undef TN_POLICY
};

uint32_t tn_embedding_policy_count(void) {
    return (uint32_t)(sizeof residents_policies / sizeof *residents_policies);
}
const char *tn_embedding_policy_name(uint32_t index) { return residents_policies[index]->name; }
const char *tn_embedding_policy_summary(uint32_t index) {
    return residents_policies[index]->summary;
}
const char *tn_embedding_policy_source(uint32_t index) { return residents_policies[index]->source; }

const tn__row_policy *tn__row_policy_find(const char *name, tn_error *error) {
    char asked[TN__NEAR_TEXT];
    for (uint32_t i = 0; i < tn_embedding_policy_count(); i++)
        if (strcmp(residents_policies[i]->name, name != NULL ? name : "lfu") == 0)
            return residents_policies[i];
    (void)tn__fail(error, TN_E_UNKNOWN, "there is no policy '%.80s' for rows; %s", name,
                   tn__near_of(name, tn_embedding_policy_count(), tn_embedding_policy_name,
                               "see `tn_embedding_policy_name`", asked));
    return NULL;
}

/* --- the index --- */

uint32_t tn__index_count(uint32_t slots) {
    uint64_t count = (uint64_t)slots + slots / 2 + 2;
    return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

uint64_t tn__policy_bytes(const tn__row_policy *policy, uint32_t slots) {
    return policy->bytes(slots);
}

void tn__residents_open(tn__residents *r) {
    r->vacant = TN__SLOT_NONE;
    for (uint32_t i = 0; i < r->index_count; i++) r->index[i].row = TN__ROW_NONE;
    if (r->policy->open != NULL) r->policy->open(r);
}

/* Returns the position in the index at which the search for a row begins. Adjacent rows, which are
 * often requested together, get distant positions (Fibonacci hashing), so that occupied runs stay
 * short. */
static uint32_t residents_home(const tn__residents *r, uint32_t row) {
    uint64_t hash = (row + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)((hash >> 32) * r->index_count >> 32);
}

static uint32_t residents_after(const tn__residents *r, uint32_t place) {
    return place + 1 < r->index_count ? place + 1 : 0;
}

/* Returns the position of a row in the index, or the free position at which it would be
 * inserted. */
static uint32_t residents_place(const tn__residents *r, uint32_t row) {
    uint32_t place = residents_home(r, row);
    while (r->index[place].row != row && r->index[place].row != TN__ROW_NONE)
        place = residents_after(r, place);
    return place;
}

static uint32_t residents_find(const tn__residents *r, uint32_t row) {
    const tn__entry *entry = &r->index[residents_place(r, row)];
    return entry->row == row ? entry->slot : TN__SLOT_NONE;
}

bool tn__residents_has(const tn__residents *r, uint32_t row) {
    return residents_find(r, row) != TN__SLOT_NONE;
}

static void residents_forget(tn__residents *r, uint32_t row) {
    uint32_t hole = residents_place(r, row), place = hole;
    tn_assert(r->index[hole].row == row);
    for (;;) {
        place = residents_after(r, place);
        if (r->index[place].row == TN__ROW_NONE) break;
        uint32_t home = residents_home(r, r->index[place].row);
        bool between = hole <= place ? home > hole && home <= place : home > hole || home <= place;
        if (between) continue;
        r->index[hole] = r->index[place];
        hole = place;
    }
    r->index[hole].row = TN__ROW_NONE;
}

/* --- slots --- */

/* Removes a row from its slot. No batch may have locked it. */
static void residents_remove(tn__residents *r, uint32_t slot) {
    tn_assert(r->slots[slot].held == 0);
    residents_forget(r, r->slots[slot].row);
    r->slots[slot] = (tn__slot){.row = TN__ROW_NONE, .mark = r->vacant};
    r->vacant = slot;
    r->resident--;
}

static bool residents_has_room(const tn__residents *r) {
    return r->used < r->slot_count || r->vacant != TN__SLOT_NONE || r->resident > r->locked;
}

/* Returns a free slot. If no slot is free, evicts the row that the policy chooses. */
static tn_status residents_take(tn__residents *r, const tn__movers *movers, uint32_t *slot,
                                tn_error *error) {
    if (r->vacant == TN__SLOT_NONE && r->used < r->slot_count) {
        *slot = r->used++;
        return TN_OK;
    }
    if (r->vacant == TN__SLOT_NONE) {
        uint32_t chosen = r->policy->choose(r);
        tn_assert(tn__may_go(r, chosen));
        if (movers != NULL) TN_TRY(movers->going(movers->self, chosen, error));
        if (r->policy->leave != NULL) r->policy->leave(r, chosen);
        residents_remove(r, chosen);
    }
    *slot = r->vacant;
    r->vacant = r->slots[*slot].mark;
    return TN_OK;
}

static void residents_lock(tn__residents *r, uint32_t slot, uint8_t mask, tn__hold *hold) {
    tn__slot *it = &r->slots[slot];
    hold->distinct[hold->distinct_count++] = slot;
    if (it->held == 0) r->locked++;
    it->held |= mask;
}

/* --- batches --- */

/* Locks those rows of a batch that are resident. The other rows get no slot yet. */
static void residents_hold_hits(tn__residents *r, uint8_t mask, const uint32_t *rows,
                                tn__hold *hold) {
    for (uint32_t i = 0; i < hold->row_count; i++) {
        uint32_t slot = hold->slot_of[i] = residents_find(r, rows[i]);
        if (slot == TN__SLOT_NONE) continue;
        hold->lookup_hits++;
        if (r->slots[slot].held & mask) continue;
        if (r->slots[slot].held == 0 && r->policy->leave != NULL) r->policy->leave(r, slot);
        residents_lock(r, slot, mask, hold);
    }
    hold->hits = hold->distinct_count;
}

static tn_status residents_hold_miss(tn__residents *r, uint8_t mask, uint32_t row, tn__hold *hold,
                                     const tn__movers *movers, uint32_t *slot, tn_error *error) {
    *slot = residents_find(r, row);
    /* an earlier position of this batch names the same row */
    if (*slot != TN__SLOT_NONE) return TN_OK;
    if (!residents_has_room(r)) return TN_E_EXHAUSTED;
    TN_TRY(residents_take(r, movers, slot, error));
    r->slots[*slot] = (tn__slot){.row = row, .flags = TN__SLOT_READING | TN__SLOT_FRESH};
    r->index[residents_place(r, row)] = (tn__entry){row, *slot};
    r->resident++;
    residents_lock(r, *slot, mask, hold);
    return TN_OK;
}

/* Unlocks the rows of a batch that does not fit. Rows that were resident stay resident; rows that
 * would have been read are removed. The batch is tried again when others have ended, so its rows
 * are entered as rows whose next use (0) is before all others. */
static void residents_undo(tn__residents *r, uint8_t mask, const tn__hold *hold) {
    for (uint32_t i = 0; i < hold->distinct_count; i++) {
        uint32_t slot = hold->distinct[i];
        r->slots[slot].held &= (uint8_t)~mask;
        if (r->slots[slot].held != 0) continue;
        r->locked--;
        if (i < hold->hits)
            r->policy->enter(r, slot, r->slots[slot].flags & TN__SLOT_FRESH, 0);
        else
            residents_remove(r, slot);
    }
}

tn_status tn__residents_hold(tn__residents *r, uint32_t bit, const uint32_t *rows, tn__hold *hold,
                             const tn__movers *movers, tn_error *error) {
    uint8_t mask = (uint8_t)(1u << bit);
    hold->distinct_count = hold->lookup_hits = 0;
    residents_hold_hits(r, mask, rows, hold);
    for (uint32_t i = 0; hold->lookup_hits < hold->row_count && i < hold->row_count; i++) {
        if (hold->slot_of[i] != TN__SLOT_NONE) continue;
        tn_status status =
            residents_hold_miss(r, mask, rows[i], hold, movers, &hold->slot_of[i], error);
        if (status == TN_OK) continue;
        residents_undo(r, mask, hold);
        return status;
    }
    return TN_OK;
}

void tn__residents_let(tn__residents *r, uint32_t bit, const tn__hold *hold, const uint64_t *next) {
    uint8_t mask = (uint8_t)(1u << bit);
    for (uint32_t i = 0; i < hold->distinct_count; i++) {
        uint32_t slot = hold->distinct[i];
        tn__slot *it = &r->slots[slot];
        it->held &= (uint8_t)~mask;
        if (it->held != 0) continue;
        r->locked--;
        bool fresh = it->flags & TN__SLOT_FRESH;
        it->flags &= (uint8_t)~TN__SLOT_FRESH;
        r->policy->enter(r, slot, fresh, next != NULL ? next[i] : TN__ROW_NEVER);
        if (!(it->flags & TN__SLOT_FAILED)) continue;
        if (r->policy->leave != NULL) r->policy->leave(r, slot);
        residents_remove(r, slot);
    }
}

const char *tn__residents_check(const tn__residents *r) {
    uint32_t resident = 0, locked = 0, entries = 0, vacant = 0;
    for (uint32_t i = 0; i < r->used; i++) {
        const tn__slot *slot = &r->slots[i];
        if (slot->row == TN__ROW_NONE) continue;
        resident++;
        locked += slot->held != 0;
        if (residents_find(r, slot->row) != i) return "a row is not found where it is";
    }
    for (uint32_t i = 0; i < r->index_count; i++) entries += r->index[i].row != TN__ROW_NONE;
    for (uint32_t i = r->vacant; i != TN__SLOT_NONE; i = r->slots[i].mark) vacant++;
    if (resident != r->resident || entries != resident || resident + vacant != r->used)
        return "rows, slots and index do not add up";
    return locked == r->locked ? NULL : "locks do not add up";
}
