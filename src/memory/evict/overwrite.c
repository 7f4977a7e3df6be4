/* overwrite.c - handles an operator that writes new contents into a storage in place: saves the
 * values that still need the old contents, and marks the old tensors as lost.
 *
 * Operators that read the storage become unreachable, and others with them (unreachable.c). Their
 * results with outside references are made first if they are missing, and locked. A training step
 * usually ends with updates of storages that no other operator reads; then no walk is needed.
 */
#include "memory/evict/policy.h"

static bool overwrite_keep(tn__evict *e, uint32_t storage) {
    if (!tn__reserve(&e->context, &e->kept, &e->kept_room, e->kept_count + 1, sizeof *e->kept))
        return false;
    tn__lock(e, storage);
    e->kept[e->kept_count++] = storage;
    return true;
}

/* Locks results of unreachable operators that have outside references. Without `make` it locks the
 * resident ones; with `make` it recomputes and locks the others. */
static tn_status overwrite_keep_all(tn__evict *e, bool make, tn_error *error) {
    for (uint32_t op = 0; op < e->op_count; op++) {
        if (!tn__unreachable_is(e, op)) continue;
        for (uint32_t o = 0; o < e->ops[op].output_count; o++) {
            uint32_t tensor = tn__op_outputs(&e->ops[op])[o];
            if (!tn__unreachable_stays(e, tensor)) continue;
            bool is_there = tn__is_there(e, tensor);
            if (!is_there && (!make || e->tensors[tensor].is_defined))
                /* a value with a copy on the host can be copied back, so it is neither made nor
                 * locked */
                continue;
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
            e->storages[e->tensors[call->inputs[call->outputs[o].alias]].storage].is_going = mark;
}

/* Whether another operator reads a storage that this call overwrites. */
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
    if (!tn__unreachable_walk(e, op))
        status = tn__no_memory(error, "operators whose operands are overwritten");
    if (status == TN_OK) status = overwrite_keep_all(e, false, error);
    if (status == TN_OK) status = overwrite_keep_all(e, true, error);
    overwrite_mark(e, call, false);
    return status;
}

/* Marks all tensors of the storage as lost, except those of the operator that wrote it. */
static void overwrite_lose_tensors(tn__evict *e, uint32_t storage, uint32_t op) {
    for (uint32_t t = e->storages[storage].first; t != TN__NONE; t = e->tensors[t].next) {
        tn__evict_tensor *tensor = &e->tensors[t];
        if (tensor->op == op || tensor->is_lost) continue;
        if (e->ops[tensor->op].flags & (TN__OP_ONCE | TN__OP_LOST)) e->storages[storage].stuck--;
        tensor->is_lost = true;
        tensor->is_defined = false;
    }
}

void tn__overwrite_unlock(tn__evict *e) {
    while (e->kept_count > 0) tn__unlock(e, e->kept[--e->kept_count]);
    e->has_doomed = false;
}

void tn__overwrite_finish(tn__evict *e, const tn__evict_call *call, uint32_t op) {
    for (uint32_t o = 0; o < call->output_count; o++)
        if (call->outputs[o].overwrites)
            overwrite_lose_tensors(e, e->tensors[tn__op_outputs(&e->ops[op])[o]].storage, op);
    if (e->has_doomed) tn__unreachable_finish(e);
    tn__records_lose(e, op);
}
