/* candidates.c - the storages that could be evicted now, in the order in which they became
 * candidates.
 *
 * A storage that leaves the list leaves a gap. The gaps are closed when they are half of the list.
 * So joining and leaving are O(1), the order is kept, and a search reads memory from front to back.
 */
#include "memory/evict/policy.h"

bool tn__candidates_reserve(tn__evict *e, uint32_t more) {
    /* every storage once, and as many gaps */
    size_t need = 2 * ((size_t)e->storage_count + more) + 16;
    return tn__reserve(&e->context, &e->candidates, &e->candidate_room, need,
                       sizeof *e->candidates);
}

static void candidates_close_gaps(tn__evict *e) {
    uint32_t end = 0;
    for (uint32_t i = 0; i < e->candidate_end; i++) {
        uint32_t storage = e->candidates[i];
        if (storage == TN__NONE) continue;
        e->storages[storage].candidate = end;
        e->candidates[end++] = storage;
    }
    e->candidate_end = end;
}

void tn__candidates_add(tn__evict *e, uint32_t storage) {
    tn__evict_storage *record = &e->storages[storage];
    if (record->candidate != TN__NONE) return;
    if (e->candidate_end == e->candidate_room) candidates_close_gaps(e);
    record->candidate = e->candidate_end;
    e->candidates[e->candidate_end++] = storage;
    e->candidate_count++;
    e->candidate_bytes += record->size;
}

void tn__candidates_remove(tn__evict *e, uint32_t storage) {
    tn__evict_storage *record = &e->storages[storage];
    if (record->candidate == TN__NONE) return;
    e->candidates[record->candidate] = TN__NONE;
    record->candidate = TN__NONE;
    e->candidate_count--;
    e->candidate_bytes -= record->size;
    if (e->candidate_count == 0)
        e->candidate_end = 0;
    else if (e->candidate_end > 2 * e->candidate_count + 16)
        candidates_close_gaps(e);
}

void tn__candidates_settle(tn__evict *e, uint32_t storage) {
    const tn__evict_storage *record = &e->storages[storage];
    bool may_leave = record->stuck == 0 ||
                     ((e->policy->features & TN__POLICY_SWAPS) && e->options.link_bytes_per_s > 0);
    if (record->state == TN__RESIDENT && record->locks == 0 && !record->is_pinned && may_leave)
        tn__candidates_add(e, storage);
    else
        tn__candidates_remove(e, storage);
}

void tn__lock(tn__evict *e, uint32_t storage) {
    tn_assert(e->storages[storage].state == TN__RESIDENT);
    if (e->storages[storage].locks++ == 0) tn__candidates_remove(e, storage);
}

void tn__unlock(tn__evict *e, uint32_t storage) {
    tn_assert(e->storages[storage].locks > 0);
    if (--e->storages[storage].locks > 0) return;
    tn__candidates_settle(e, storage);
    tn__records_leave(e, storage);
}
