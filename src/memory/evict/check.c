/* check.c - checks the invariants that hold between calls, by plain sums over all records. */
#include "memory/evict/policy.h"

static const char *check_tensors(const tn__evict *e) {
    for (uint32_t t = 0; t < e->tensor_count; t++) {
        const tn__evict_tensor *tensor = &e->tensors[t];
        if (tensor->storage == TN__NONE) continue;
        if (e->storages[tensor->storage].is_vacant) return "a tensor without storage";
        if (e->ops[tensor->op].flags & TN__OP_VACANT) return "a tensor without operator";
        if (tensor->is_defined && e->storages[tensor->storage].state == TN__DROPPED)
            return "a tensor is there and its storage is not";
        if (tensor->is_defined && tensor->is_lost) return "an overwritten tensor is there";
    }
    return NULL;
}

static const char *check_ops(const tn__evict *e) {
    for (uint32_t i = 0; i < e->op_count; i++) {
        const tn__evict_op *op = &e->ops[i];
        uint64_t refs = 0;
        if (op->flags & TN__OP_VACANT) continue;
        for (uint32_t o = 0; o < op->output_count; o++) {
            const tn__evict_tensor *tensor = &e->tensors[tn__op_outputs(op)[o]];
            if (tensor->op != i) return "a result of another operator";
            refs += (uint64_t)tensor->outside + tensor->uses;
        }
        if (refs != op->refs) return "references to an operator were not counted";
    }
    return NULL;
}

static const char *check_storage(const tn__evict *e, uint32_t id, uint64_t *bytes) {
    const tn__evict_storage *storage = &e->storages[id];
    uint32_t outside = 0, stuck = 0, uses = 0;
    bool lasting = false;
    for (uint32_t t = storage->first; t != TN__NONE; t = e->tensors[t].next) {
        const tn__evict_tensor *tensor = &e->tensors[t];
        if (tensor->storage != id) return "a tensor in two storages";
        outside += tensor->outside;
        uses += tensor->uses;
        stuck += !tensor->is_lost && (e->ops[tensor->op].flags & (TN__OP_ONCE | TN__OP_LOST)) != 0;
        lasting = lasting || (tensor->outside > 0 && !tensor->is_lost && stuck > 0);
    }
    if (outside != storage->outside || uses != storage->uses)
        return "references to a storage were not counted";
    if (stuck != storage->stuck) return "a storage that may not be dropped was not counted";
    if (!e->options.exact && stuck > 0 && outside + uses == 0 && storage->state != TN__DROPPED &&
        storage->locks == 0 && !storage->is_pinned)
        return "bytes that nobody needs were kept";
    if (storage->is_going || storage->is_tied || storage->is_counted) return "a walk left its mark";
    if (outside == 0 && stuck > 0 && uses > 0 && storage->dead == TN__NONE)
        return "a value that may be dead is not listed";
    if (storage->dead != TN__NONE && e->dead[storage->dead] != id) return "a list out of place";
    if (lasting && storage->state == TN__DROPPED) return "a value that nobody can make was dropped";
    if (storage->locks > 0 && storage->state != TN__RESIDENT)
        return "a locked storage is not there";
    bool is_listed = storage->candidate != TN__NONE;
    if (is_listed && (storage->locks > 0 || storage->is_pinned || storage->state != TN__RESIDENT))
        return "a candidate that cannot go";
    if (is_listed && e->candidates[storage->candidate] != id) return "a candidate out of place";
    if (storage->state != TN__RESIDENT) return NULL;
    if (!is_listed && storage->locks == 0 && !storage->is_pinned && storage->stuck == 0)
        return "a storage that could go is no candidate";
    *bytes += e->options.addresses ? tn__arena_round(e, storage->size) : storage->size;
    if (!e->options.addresses || storage->size == 0) return NULL;
    if (storage->block == TN__NONE || e->blocks[storage->block].owner != id)
        return "a storage without a place";
    return e->blocks[storage->block].size < storage->size ? "a place that is too small" : NULL;
}

static const char *check_arena(const tn__evict *e) {
    uint64_t at = 0, free = 0;
    bool was_free = false;
    for (uint32_t b = e->block_first; b != TN__NONE; b = e->blocks[b].after) {
        const tn__evict_block *block = &e->blocks[b];
        bool is_free = block->owner == TN__BLOCK_FREE;
        if (block->at != at || block->size == 0) return "blocks do not tile the arena";
        if (is_free && was_free) return "two free blocks are neighbours";
        if (block->owner == TN__BLOCK_TEMPORARY) return "scratch outlived its operator";
        if (is_free) free += block->size;
        was_free = is_free;
        at += block->size;
    }
    if (at != e->capacity) return "blocks do not tile the arena";
    return free != e->free_bytes ? "free bytes were not counted" : NULL;
}

const char *tn__evict_check(const tn__evict *e) {
    uint64_t bytes = 0;
    const char *fault = check_tensors(e);
    if (fault == NULL) fault = check_ops(e);
    for (uint32_t s = 0; fault == NULL && s < e->storage_count; s++)
        if (!e->storages[s].is_vacant) fault = check_storage(e, s, &bytes);
    if (fault == NULL && e->options.addresses) fault = check_arena(e);
    if (fault == NULL && bytes != e->counts.bytes) fault = "resident bytes were not counted";
    if (fault == NULL && e->counts.peak_bytes > e->options.budget) fault = "above the budget";
    if (fault == NULL && (e->frame_count | e->pending_count | e->locked_count) != 0)
        fault = "something is still being made";
    return fault;
}
