/* overwrite.c - a storage's contents change in place: what needs the old ones, and what becomes of
 * it.
 *
 * An operator is *doomed* when it cannot run again afterwards: it reads the storage, or a result of
 * a doomed operator that will not be there. Results that somebody refers to are made first, where
 * they are not there, and locked; afterwards nothing makes them again, so they stay. Results that
 * nobody refers to go, with the history that led to them. Found by walking from every operator to
 * those that made its operands, with a stack of its own, each once: O(operators and operands). When
 * nobody else reads the storage, which is how a step of training ends, nothing is walked.
 */
#include "evict/policy.h"

enum { OVERWRITE_UNKNOWN, OVERWRITE_OPEN, OVERWRITE_SAFE, OVERWRITE_DOOMED };

static bool overwrite_ends(const tn__evict_op *op) {
    return (op->flags & (TN__OP_VACANT | TN__OP_LOST)) != 0;
}

/* Will the operand not be there afterwards, but for being made again? */
static bool overwrite_is_absent(const tn__evict *e, uint32_t tensor) {
    const tn__evict_tensor *record = &e->tensors[tensor];
    const tn__evict_storage *storage = &e->storages[record->storage];
    bool stays = storage->is_pinned || storage->stuck > 0 || record->outside > 0;
    return !record->is_defined || !stays;
}

/* The first operand whose operator is to be looked at before this one; NONE. Sets the verdict. */
static uint32_t overwrite_look(tn__evict *e, uint32_t op) {
    tn__evict_op *record = &e->ops[op];
    record->mark = OVERWRITE_OPEN;
    for (uint32_t i = 0; i < record->input_count; i++) {
        uint32_t tensor = tn__op_inputs(record)[i];
        if (e->storages[e->tensors[tensor].storage].is_mark) {
            record->mark = OVERWRITE_DOOMED;
            return TN__NONE;
        }
        if (!overwrite_is_absent(e, tensor)) continue;
        uint32_t maker = e->tensors[tensor].op;
        if (e->ops[maker].mark == OVERWRITE_UNKNOWN && !overwrite_ends(&e->ops[maker]))
            return maker;
        if (e->ops[maker].mark == OVERWRITE_DOOMED) record->mark = OVERWRITE_DOOMED;
    }
    if (record->mark == OVERWRITE_OPEN) record->mark = OVERWRITE_SAFE;
    return TN__NONE;
}

static bool overwrite_walk(tn__evict *e, uint32_t except) {
    size_t base = e->pending_count;
    for (uint32_t op = 0; op < e->op_count; op++) e->ops[op].mark = OVERWRITE_UNKNOWN;
    e->ops[except].mark = OVERWRITE_SAFE;
    if (!tn__reserve(&e->context, &e->pending, &e->pending_room, base + e->op_count + 1,
                     sizeof *e->pending))
        return false;
    for (uint32_t op = 0; op < e->op_count; op++) {
        if (e->ops[op].mark != OVERWRITE_UNKNOWN || overwrite_ends(&e->ops[op])) continue;
        e->pending[e->pending_count++] = op;
        while (e->pending_count > base) {
            uint32_t before = overwrite_look(e, e->pending[e->pending_count - 1]);
            if (before != TN__NONE)
                e->pending[e->pending_count++] = before;
            else
                e->pending_count--;
        }
    }
    return true;
}

static bool overwrite_is_kept(const tn__evict *e, uint32_t tensor) {
    const tn__evict_tensor *record = &e->tensors[tensor];
    return record->outside > 0 && !record->is_lost && !e->storages[record->storage].is_mark;
}

static bool overwrite_keep(tn__evict *e, uint32_t storage) {
    if (!tn__reserve(&e->context, &e->kept, &e->kept_room, e->kept_count + 1, sizeof *e->kept))
        return false;
    tn__lock(e, storage);
    e->kept[e->kept_count++] = storage;
    return true;
}

/* Locks results of doomed operators that somebody refers to: those that are there, or makes the
 * others. */
static tn_status overwrite_keep_all(tn__evict *e, bool make, tn_error *error) {
    for (uint32_t op = 0; op < e->op_count; op++) {
        if (e->ops[op].mark != OVERWRITE_DOOMED) continue;
        for (uint32_t o = 0; o < e->ops[op].output_count; o++) {
            uint32_t tensor = tn__op_outputs(&e->ops[op])[o];
            if (!overwrite_is_kept(e, tensor)) continue;
            bool is_there = tn__is_there(e, tensor);
            if (!is_there && (!make || e->tensors[tensor].is_defined))
                continue; /* or on the host */
            if (make) TN_TRY(tn__make_tensor(e, tensor, error));
            if (!overwrite_keep(e, e->tensors[tensor].storage))
                return tn__no_memory(error, "values whose operands are overwritten");
        }
    }
    return TN_OK;
}

static void overwrite_mark(tn__evict *e, const tn__evict_call *call, bool mark) {
    for (uint32_t o = 0; o < call->output_count; o++)
        if (call->outputs[o].overwrites)
            e->storages[e->tensors[call->inputs[call->outputs[o].alias]].storage].is_mark = mark;
}

/* Does anybody but the operator itself read what it overwrites? */
static bool overwrite_has_readers(const tn__evict *e, const tn__evict_call *call) {
    for (uint32_t o = 0; o < call->output_count; o++) {
        if (!call->outputs[o].overwrites) continue;
        uint32_t storage = e->tensors[call->inputs[call->outputs[o].alias]].storage, own = 0;
        for (uint32_t i = 0; i < call->input_count; i++)
            own += e->tensors[call->inputs[i]].storage == storage;
        if (e->storages[storage].uses > own) return true;
    }
    return false;
}

tn_status tn__overwrite_prepare(tn__evict *e, const tn__evict_call *call, uint32_t op,
                                tn_error *error) {
    e->has_doomed = overwrite_has_readers(e, call);
    if (!e->has_doomed) return TN_OK;
    overwrite_mark(e, call, true);
    tn_status status = TN_OK;
    if (!overwrite_walk(e, op))
        status = tn__no_memory(error, "operators whose operands are overwritten");
    if (status == TN_OK) status = overwrite_keep_all(e, false, error);
    if (status == TN_OK) status = overwrite_keep_all(e, true, error);
    overwrite_mark(e, call, false);
    return status;
}

/* Its tensors but those of the operator that wrote it are lost. */
static void overwrite_lose_tensors(tn__evict *e, uint32_t storage, uint32_t op) {
    for (uint32_t t = e->storages[storage].first; t != TN__NONE; t = e->tensors[t].next) {
        tn__evict_tensor *tensor = &e->tensors[t];
        if (tensor->op == op || tensor->is_lost) continue;
        if (e->ops[tensor->op].flags & (TN__OP_ONCE | TN__OP_LOST)) e->storages[storage].stuck--;
        tensor->is_lost = true;
        tensor->is_defined = false;
    }
}

static void overwrite_drop_results(tn__evict *e, uint32_t op) {
    for (uint32_t o = 0; o < e->ops[op].output_count; o++) {
        uint32_t tensor = tn__op_outputs(&e->ops[op])[o];
        tn__evict_storage *storage = &e->storages[e->tensors[tensor].storage];
        bool may_go = storage->outside == 0 && storage->locks == 0 && !storage->is_pinned &&
                      storage->stuck == 0 && storage->state == TN__RESIDENT;
        if (may_go) tn__space_evict(e, e->tensors[tensor].storage);
    }
    e->failed = false; /* benign: a neighbourhood is known less well */
}

void tn__overwrite_unlock(tn__evict *e) {
    while (e->kept_count > 0) tn__unlock(e, e->kept[--e->kept_count]);
}

void tn__overwrite_finish(tn__evict *e, const tn__evict_call *call, uint32_t op) {
    for (uint32_t o = 0; o < call->output_count; o++)
        if (call->outputs[o].overwrites)
            overwrite_lose_tensors(e, e->tensors[tn__op_outputs(&e->ops[op])[o]].storage, op);
    for (uint32_t i = 0; e->has_doomed && i < e->op_count; i++)
        if (e->ops[i].mark == OVERWRITE_DOOMED && !overwrite_ends(&e->ops[i]))
            overwrite_drop_results(e, i);
    for (uint32_t i = 0; e->has_doomed && i < e->op_count; i++)
        if (e->ops[i].mark == OVERWRITE_DOOMED && !overwrite_ends(&e->ops[i]))
            tn__records_lose(e, i);
    tn__records_lose(e, op);
}
