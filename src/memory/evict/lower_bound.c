/* lower_bound.c - the bytes that must be resident at once under any eviction policy, a lower bound
 * of the budget of a run.
 *
 * While an operator runs for the first time, every run of equal commands that copies nothing to the
 * host needs these bytes: pinned values; values with outside references that cannot be recomputed;
 * the operator's own operands, results and scratch memory.
 *
 * Cost: O(storages) per operator.
 */
#include "memory/evict/policy.h"

static uint64_t lower_taken(const tn__evict *e, uint32_t storage) {
    uint64_t size = e->storages[storage].size;
    return e->options.addresses ? tn__arena_round(e, size) : size;
}

static bool lower_is_held(const tn__evict_storage *storage) {
    return storage->state == TN__RESIDENT && !storage->is_vacant &&
           (storage->is_pinned || (storage->stuck > 0 && storage->outside > 0));
}

/* Sums the bytes of the storages of these operands or results. Storages that were counted already
 * are left out, and each storage is counted once. */
static uint64_t lower_sum(tn__evict *e, const uint32_t *tensors, uint32_t count) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < count; i++) {
        tn__evict_storage *storage = &e->storages[e->tensors[tensors[i]].storage];
        if (storage->is_counted || lower_is_held(storage)) continue;
        storage->is_counted = true;
        sum = tn__add_sat(sum, lower_taken(e, e->tensors[tensors[i]].storage));
    }
    return sum;
}

static uint64_t lower_working(tn__evict *e, uint32_t op) {
    const tn__evict_op *record = &e->ops[op];
    uint32_t count = record->input_count + record->output_count;
    uint64_t scratch = e->options.addresses ? tn__arena_round(e, record->scratch) : record->scratch;
    uint64_t sum = tn__add_sat(scratch, lower_sum(e, tn__op_inputs(record), count));
    for (uint32_t i = 0; i < count; i++)
        e->storages[e->tensors[tn__op_inputs(record)[i]].storage].is_counted = false;
    return sum;
}

void tn__lower_bound_note(tn__evict *e, uint32_t op) {
    tn_evict_least found = {.op = e->ops_run};
    if (!e->options.find_least) return;
    for (uint32_t s = 0; s < e->storage_count; s++) {
        const tn__evict_storage *storage = &e->storages[s];
        if (lower_is_held(storage))
            *(storage->is_pinned ? &found.pinned : &found.held) += lower_taken(e, s);
    }
    found.working = op != TN__NONE ? lower_working(e, op) : 0;
    found.bytes = tn__add_sat(found.pinned + found.held, found.working);
    if (found.bytes > e->least.bytes) e->least = found;
}

const tn_evict_least *tn__evict_least_of(const tn__evict *e) { return &e->least; }
