/* unreachable.c - finds the operators that can never run again once some storages are gone.
 *
 * An operator is *unreachable* when it reads a storage that goes (is_going), or a result of an
 * unreachable operator that will not be resident. A result of an unreachable operator with outside
 * references must be resident at that moment, and stays: afterwards nothing can recompute it. Its
 * other results are evicted, together with the history that led to them. The search walks from
 * every operator to the producers of its operands, with an explicit stack, and visits each operator
 * once.
 *
 * Cost: O(operators and operands) per walk.
 */
#include "memory/evict/policy.h"

enum {
    UNREACHABLE_UNKNOWN,
    UNREACHABLE_OPEN,
    UNREACHABLE_SAFE,
    UNREACHABLE_LOST,
    UNREACHABLE_TIED
};

static bool unreachable_ends(const tn__evict_op *op) {
    return (op->flags & (TN__OP_VACANT | TN__OP_LOST)) != 0;
}

/* Whether an operand that is resident now, or dropped, may have to be recomputed later, because
 * nothing keeps it resident. */
static bool unreachable_is_absent(const tn__evict *e, uint32_t tensor) {
    const tn__evict_tensor *record = &e->tensors[tensor];
    const tn__evict_storage *storage = &e->storages[record->storage];
    bool stays =
        storage->is_pinned || storage->stuck > 0 || storage->locks > 0 || record->outside > 0;
    return !record->is_defined || !stays;
}

/* Examines an operator. Returns the producer of an operand that must be examined before this
 * operator; if NONE, the mark of this operator is final. */
static uint32_t unreachable_look(tn__evict *e, uint32_t op) {
    tn__evict_op *record = &e->ops[op];
    record->mark = UNREACHABLE_OPEN;
    for (uint32_t i = 0; i < record->input_count; i++) {
        uint32_t tensor = tn__op_inputs(record)[i];
        if (e->storages[e->tensors[tensor].storage].is_going) {
            record->mark = UNREACHABLE_LOST;
            return TN__NONE;
        }
        if (!unreachable_is_absent(e, tensor)) continue;
        uint32_t maker = e->tensors[tensor].op;
        if (e->ops[maker].mark == UNREACHABLE_UNKNOWN && !unreachable_ends(&e->ops[maker]))
            return maker;
        if (e->ops[maker].mark == UNREACHABLE_LOST) record->mark = UNREACHABLE_LOST;
    }
    if (record->mark == UNREACHABLE_OPEN) record->mark = UNREACHABLE_SAFE;
    return TN__NONE;
}

bool tn__unreachable_walk(tn__evict *e, uint32_t except) {
    size_t base = e->pending_count;
    for (uint32_t op = 0; op < e->op_count; op++) e->ops[op].mark = UNREACHABLE_UNKNOWN;
    if (except != TN__NONE) e->ops[except].mark = UNREACHABLE_SAFE;
    e->unreachable_count = 0;
    if (!tn__reserve(&e->context, &e->pending, &e->pending_room, base + e->op_count + 1,
                     sizeof *e->pending) ||
        !tn__reserve(&e->context, &e->unreachable_order, &e->unreachable_room,
                     (size_t)e->op_count + 1, sizeof *e->unreachable_order))
        return false;
    for (uint32_t op = 0; op < e->op_count; op++) {
        if (e->ops[op].mark != UNREACHABLE_UNKNOWN || unreachable_ends(&e->ops[op])) continue;
        e->pending[e->pending_count++] = op;
        while (e->pending_count > base) {
            uint32_t before = unreachable_look(e, e->pending[e->pending_count - 1]);
            if (before != TN__NONE)
                e->pending[e->pending_count++] = before;
            else
                e->unreachable_order[e->unreachable_count++] = e->pending[--e->pending_count];
        }
    }
    return true;
}

/* Whether the operator has a dropped result with outside references, so that it must be able to run
 * again. */
static bool unreachable_is_wanted(const tn__evict *e, uint32_t op) {
    for (uint32_t o = 0; o < e->ops[op].output_count; o++) {
        uint32_t tensor = tn__op_outputs(&e->ops[op])[o];
        if (tn__unreachable_stays(e, tensor) && !e->tensors[tensor].is_defined) return true;
    }
    return false;
}

bool tn__unreachable_tie(tn__evict *e) {
    if (!tn__unreachable_walk(e, TN__NONE)) return false;
    for (size_t f = 0; f < e->frame_count; f++) e->ops[e->frames[f].op].mark = UNREACHABLE_TIED;
    /* visits an operator only after all operators that read its results */
    while (e->unreachable_count > 0) {
        uint32_t op = e->unreachable_order[--e->unreachable_count];
        if (e->ops[op].mark != UNREACHABLE_TIED && !unreachable_is_wanted(e, op)) continue;
        for (uint32_t i = 0; i < e->ops[op].input_count; i++) {
            uint32_t tensor = tn__op_inputs(&e->ops[op])[i];
            e->storages[e->tensors[tensor].storage].is_tied = true;
            if (unreachable_is_absent(e, tensor))
                e->ops[e->tensors[tensor].op].mark = UNREACHABLE_TIED;
        }
    }
    return true;
}

bool tn__unreachable_is(const tn__evict *e, uint32_t op) {
    return e->ops[op].mark == UNREACHABLE_LOST && !unreachable_ends(&e->ops[op]);
}

bool tn__unreachable_stays(const tn__evict *e, uint32_t tensor) {
    const tn__evict_tensor *record = &e->tensors[tensor];
    return record->outside > 0 && !record->is_lost && !e->storages[record->storage].is_going;
}

static void unreachable_drop_results(tn__evict *e, uint32_t op) {
    for (uint32_t o = 0; o < e->ops[op].output_count; o++) {
        uint32_t tensor = tn__op_outputs(&e->ops[op])[o];
        tn__evict_storage *storage = &e->storages[e->tensors[tensor].storage];
        if (storage->outside > 0 || storage->locks > 0 || storage->is_pinned || storage->stuck > 0)
            continue;
        if (storage->state == TN__RESIDENT) tn__space_evict(e, e->tensors[tensor].storage);
        if (storage->state == TN__ON_HOST) tn__space_forget_copy(e, e->tensors[tensor].storage);
    }
    /* a failure is harmless: a neighbourhood (an estimate of cost) only becomes less precise */
    e->failed = false;
}

void tn__unreachable_finish(tn__evict *e) {
    for (uint32_t i = 0; i < e->op_count; i++)
        if (tn__unreachable_is(e, i)) unreachable_drop_results(e, i);
    for (uint32_t i = 0; i < e->op_count; i++)
        if (tn__unreachable_is(e, i)) tn__records_lose(e, i);
}
