/* make.c - runs an operator, after recomputing the operands that are not resident.
 *
 * The resident operands are locked first, in order. Then the missing ones are made one after the
 * other, and each is locked as soon as it is resident. Recomputing is recursive, but uses an array
 * with one frame per operator instead of the C stack, so chains may have any length.
 *
 * An operator makes all of its results. Results that are resident already are written again in
 * place, because the bits are equal. (With `exact` they are written to new bytes, which are freed
 * afterwards, as DTR's simulator does.) Results that are no longer needed are written to temporary
 * bytes.
 *
 * Waiting operators hold locks on their operands, and these may fill a tight budget. Then the
 * operator that has waited longest releases its locks and acquires them again when it is its turn.
 * So the running operator needs only its own operands, results and scratch memory. Two operands
 * that keep evicting each other would continue for ever; a limit on the number of restarts prevents
 * that.
 */
#include "memory/evict/policy.h"

#include <inttypes.h>

/* limit of restarts (operators that release their locks and begin again) per call */
#define MAKE_RESTARTS_MOST 256u

/* --- running one operator --- */

typedef enum make_kind { /* where the bytes of a result are */
                         /* the result is a view, in the storage of an operand */
                         MAKE_VIEW,
                         /* the result is in a new block, because its storage is not resident */
                         MAKE_FRESH,
                         /* the result is in its own resident storage, which is written again with
                          * equal bits */
                         MAKE_AGAIN,
                         /* the result is in temporary bytes that are freed when the operator has
                          * run */
                         MAKE_BESIDE
} make_kind;

static make_kind make_kind_of(const tn__evict *e, uint32_t tensor) {
    const tn__evict_tensor *record = &e->tensors[tensor];
    const tn__evict_storage *storage = &e->storages[record->storage];
    if (record->is_lost) return MAKE_BESIDE;
    if (e->tensors[storage->first].op != record->op) return MAKE_VIEW;
    if (!e->options.exact && !tn__is_needed(record)) return MAKE_BESIDE;
    /* the result's value exists on the host, and so do its views, so it is not needed on the
     * device */
    if (storage->state == TN__ON_HOST) return MAKE_BESIDE;
    if (storage->state != TN__RESIDENT) return MAKE_FRESH;
    return e->options.exact ? MAKE_BESIDE : MAKE_AGAIN;
}

static uint64_t make_bytes(const tn__evict *e, uint32_t op, bool beside_alone) {
    const tn__evict_op *record = &e->ops[op];
    uint64_t sum = record->scratch;
    for (uint32_t o = 0; o < record->output_count; o++) {
        uint32_t tensor = tn__op_outputs(record)[o];
        uint8_t kind = e->run_kinds[o];
        if (kind == MAKE_BESIDE || (kind == MAKE_FRESH && !beside_alone))
            sum = tn__add_sat(sum, e->storages[e->tensors[tensor].storage].size);
    }
    return sum;
}

static bool make_reserve(tn__evict *e, const tn__evict_op *op) {
    size_t ats = (size_t)op->input_count + op->output_count;
    return tn__reserve(&e->context, &e->run_at, &e->run_room, ats + 1, sizeof *e->run_at) &&
           tn__reserve(&e->context, &e->run_blocks, &e->run_block_room,
                       (size_t)op->output_count + 1, sizeof *e->run_blocks) &&
           tn__reserve(&e->context, &e->run_kinds, &e->run_kind_room, (size_t)op->output_count + 1,
                       sizeof *e->run_kinds);
}

/* Frees the blocks taken for this run, or only the temporary ones. */
static void make_give_places(tn__evict *e, uint32_t count, bool temporary_alone) {
    for (uint32_t i = 0; i < count; i++) {
        uint32_t block = e->run_blocks[i];
        if (block == TN__NONE) continue;
        const tn__evict_block *place = &e->blocks[block];
        if (temporary_alone && place->owner != TN__BLOCK_TEMPORARY) continue;
        if (e->options.hooks.poison != NULL)
            e->options.hooks.poison(e->options.hooks.self, place->at, place->size);
        e->counts.bytes -= place->size;
        tn__arena_free(e, block);
        e->run_blocks[i] = TN__NONE;
    }
}

/* Takes blocks for results and scratch memory into run_blocks; NONE where no block is needed. On
 * failure, frees those already taken. */
static tn_status make_take_places(tn__evict *e, uint32_t op, tn_error *error) {
    uint32_t count = e->ops[op].output_count;
    for (uint32_t o = 0; o <= count; o++) {
        const tn__evict_op *record = &e->ops[op];
        uint64_t bytes = record->scratch;
        uint32_t owner = TN__BLOCK_TEMPORARY;
        e->run_blocks[o] = TN__NONE;
        if (o < count) {
            uint32_t tensor = tn__op_outputs(record)[o];
            uint8_t kind = e->run_kinds[o];
            if (kind == MAKE_VIEW || kind == MAKE_AGAIN) continue;
            bytes = e->storages[e->tensors[tensor].storage].size;
            if (kind == MAKE_FRESH) owner = e->tensors[tensor].storage;
        }
        tn_status status = tn__space_take(e, bytes, owner, &e->run_blocks[o], error);
        if (status != TN_OK) {
            make_give_places(e, o, false);
            return status;
        }
        if (e->run_blocks[o] != TN__NONE) tn__space_used(e, e->blocks[e->run_blocks[o]].size);
    }
    return TN_OK;
}

static uint64_t make_block_at(const tn__evict *e, uint32_t block) {
    return block != TN__NONE ? e->blocks[block].at : 0;
}

/* Fills run_at, the offsets of operands and results that the hook `compute` receives. */
static void make_lay_out(tn__evict *e, uint32_t op, tn__evict_run *run) {
    const tn__evict_op *record = &e->ops[op];
    for (uint32_t i = 0; i < record->input_count; i++)
        e->run_at[i] = tn__evict_at(e, tn__op_inputs(record)[i]);
    for (uint32_t o = 0; o < record->output_count; o++) {
        uint32_t tensor = tn__op_outputs(record)[o];
        uint8_t kind = e->run_kinds[o];
        bool is_there = kind == MAKE_VIEW || kind == MAKE_AGAIN;
        e->run_at[record->input_count + o] =
            is_there ? tn__evict_at(e, tensor) : make_block_at(e, e->run_blocks[o]);
    }
    run->inputs = tn__op_inputs(record);
    run->outputs = tn__op_outputs(record);
    run->input_count = record->input_count;
    run->output_count = record->output_count;
    run->input_at = e->run_at;
    run->output_at = e->run_at + record->input_count;
    run->scratch_at = make_block_at(e, e->run_blocks[record->output_count]);
    run->scratch_bytes = record->scratch;
    run->what = record->what;
}

static void make_learn_cost(tn__evict *e, uint32_t op, uint64_t cost) {
    tn__evict_op *record = &e->ops[op];
    uint32_t last = TN__NONE;
    for (uint32_t o = 0; o < record->output_count; o++) {
        uint32_t storage = e->tensors[tn__op_outputs(record)[o]].storage;
        if (storage != last)
            e->storages[storage].cost = tn__add_sat(e->storages[storage].cost - record->cost, cost);
        last = storage;
    }
    record->cost = cost;
}

static tn_status make_compute(tn__evict *e, uint32_t op, bool again, tn_error *error) {
    tn__evict_run run = {.op = op, .again = again};
    const tn__evict_hooks *hooks = &e->options.hooks;
    uint64_t cost = e->ops[op].cost;
    if (hooks->compute != NULL) {
        make_lay_out(e, op, &run);
        TN_TRY(hooks->compute(hooks->self, &run, &cost, error));
        if (!again && cost != e->ops[op].cost) make_learn_cost(e, op, cost);
        cost = e->ops[op].cost;
    }
    e->clock = tn__add_sat(e->clock, cost);
    e->ops_run++;
    uint64_t *sum = again ? &e->counts.remade_cost : &e->counts.plain_cost;
    *sum = tn__add_sat(*sum, cost);
    *(again ? &e->counts.remade_ops : &e->counts.plain_ops) += 1;
    return TN_OK;
}

/* Marks the tensor as defined. Returns whether this made its storage resident. */
static bool make_define(tn__evict *e, uint32_t tensor, uint32_t block) {
    tn__evict_tensor *record = &e->tensors[tensor];
    tn__evict_storage *storage = &e->storages[record->storage];
    bool is_new = storage->state != TN__RESIDENT;
    if (storage->state == TN__ON_HOST) tn__space_forget_copy(e, record->storage);
    record->is_defined = true;
    if (!is_new) return false;
    storage->state = TN__RESIDENT;
    storage->block = block;
    return true;
}

/* Updates the records after a run. The target comes last, because that decides the order of
 * candidates. A first run is not undone, since it may have overwritten an operand: if host memory
 * runs out, a neighbourhood only becomes less precise. */
static tn_status make_settle(tn__evict *e, const tn__evict_frame *frame, tn_error *error) {
    uint32_t op = frame->op, target = frame->target;
    const tn__evict_op *record = &e->ops[op];
    const uint32_t *outputs = tn__op_outputs(record);
    uint32_t count = 0, last = TN__NONE;
    for (uint32_t o = 0; o <= record->output_count; o++) {
        bool is_last = o == record->output_count;
        if (is_last && last == TN__NONE) continue;
        uint32_t at = is_last ? last : o;
        if (!is_last && outputs[o] == target) {
            last = o;
            continue;
        }
        if (e->run_kinds[at] == MAKE_BESIDE &&
            !(e->options.exact && !e->tensors[outputs[at]].is_lost))
            continue;
        if (!make_define(e, outputs[at], e->run_blocks[at])) continue;
        e->pending[e->pending_count + count++] = e->tensors[outputs[at]].storage;
    }
    uint32_t *made = &e->pending[e->pending_count];
    for (uint32_t i = 0; i < count; i++) tn__candidates_settle(e, made[i]);
    double since = frame->again ? tn__search_begin_one(e) : 0;
    bool is_known = count == 0 || e->policy->made == NULL || e->policy->made(e, made, count);
    tn__search_end_one(e, since);
    if (!is_known && (frame->again || e->options.exact))
        return tn__no_memory(error, "the neighbours of a value");
    return TN_OK;
}

static void make_lock(tn__evict *e, uint32_t storage) {
    tn__lock(e, storage);
    e->locked[e->locked_count++] = storage;
}

/* Decides for each result where its bytes are (make_kind) before the run, because evictions that
 * free memory may change which results are needed. A resident result that will be written again is
 * locked, so that it is not evicted. */
static void make_begin_results(tn__evict *e, uint32_t op) {
    for (uint32_t o = 0; o < e->ops[op].output_count; o++) {
        uint32_t tensor = tn__op_outputs(&e->ops[op])[o];
        e->run_blocks[o] = TN__NONE;
        e->run_kinds[o] = (uint8_t)make_kind_of(e, tensor);
        if (e->run_kinds[o] == MAKE_AGAIN) make_lock(e, e->tensors[tensor].storage);
    }
    e->run_blocks[e->ops[op].output_count] = TN__NONE;
}

static tn_status make_in_bytes(tn__evict *e, const tn__evict_frame *frame, tn_error *error) {
    uint64_t bytes = make_bytes(e, frame->op, false);
    TN_TRY(tn__space_room(e, bytes, error));
    /* freeing memory may have evicted a result, so the places of the results are decided again */
    if (e->options.exact) make_begin_results(e, frame->op);
    uint64_t beside = make_bytes(e, frame->op, true);
    TN_TRY(make_compute(e, frame->op, frame->again, error));
    tn__space_used(e, bytes);
    e->counts.bytes -= beside;
    return TN_OK;
}

static tn_status make_in_places(tn__evict *e, const tn__evict_frame *frame, tn_error *error) {
    uint32_t count = e->ops[frame->op].output_count + 1;
    TN_TRY(make_take_places(e, frame->op, error));
    tn_status status = make_compute(e, frame->op, frame->again, error);
    make_give_places(e, count, status == TN_OK);
    return status;
}

static tn_status make_run(tn__evict *e, const tn__evict_frame *frame, tn_error *error) {
    uint32_t op = frame->op, count = e->ops[op].output_count;
    if (!make_reserve(e, &e->ops[op]) ||
        !tn__reserve(&e->context, &e->pending, &e->pending_room, e->pending_count + count + 1,
                     sizeof *e->pending) ||
        !tn__reserve(&e->context, &e->locked, &e->locked_room, e->locked_count + count + 1,
                     sizeof *e->locked))
        return tn__no_memory(error, "the operands of an operator");
    make_begin_results(e, op);
    if (!frame->again) tn__lower_bound_note(e, op);
    TN_TRY((e->options.addresses ? make_in_places : make_in_bytes)(e, frame, error));
    return make_settle(e, frame, error);
}

/* --- operands --- */

static tn_status make_push(tn__evict *e, uint32_t op, uint32_t target, bool again,
                           tn_error *error) {
    if (e->ops[op].flags & (TN__OP_LOST | (again ? TN__OP_ONCE : 0)))
        TN_FAIL(error, TN_E_INVALID,
                "a value cannot be made again: what it was made from was overwritten");
    if (!tn__reserve(&e->context, &e->frames, &e->frame_room, e->frame_count + 1,
                     sizeof *e->frames))
        return tn__no_memory(error, "the operators that make a value");
    e->frames[e->frame_count++] = (tn__evict_frame){.op = op, .target = target, .again = again};
    return TN_OK;
}

/* Sorts pending tensors by age. Newer tensors are made from older ones, which are then resident and
 * locked. With `exact`, the order of the operands is used instead, as in DTR. */
static void make_sort(tn__evict *e, uint32_t *pending, size_t count) {
    for (size_t i = 1; i < count; i++) {
        uint32_t tensor = pending[i];
        uint64_t made_at = e->storages[e->tensors[tensor].storage].made_at;
        size_t at = i;
        for (; at > 0 && e->storages[e->tensors[pending[at - 1]].storage].made_at > made_at; at--)
            pending[at] = pending[at - 1];
        pending[at] = tensor;
    }
}

/* Locks the resident operands of a frame's operator and lists the others as pending. */
static tn_status make_start(tn__evict *e, tn__evict_frame *frame, tn_error *error) {
    const tn__evict_op *op = &e->ops[frame->op];
    const uint32_t *inputs = tn__op_inputs(op);
    size_t count = op->input_count;
    if (!tn__reserve(&e->context, &e->pending, &e->pending_room, e->pending_count + count + 1,
                     sizeof *e->pending) ||
        !tn__reserve(&e->context, &e->locked, &e->locked_room, e->locked_count + count + 1,
                     sizeof *e->locked))
        return tn__no_memory(error, "the operands of an operator");
    frame->started = true;
    frame->locked = (uint32_t)e->locked_count;
    frame->pending = frame->next = (uint32_t)e->pending_count;
    for (uint32_t i = 0; i < count; i++)
        e->storages[e->tensors[inputs[i]].storage].last_access = e->clock;
    for (uint32_t i = 0; i < count; i++)
        if (tn__is_there(e, inputs[i])) make_lock(e, e->tensors[inputs[i]].storage);
    for (uint32_t i = 0; i < count; i++)
        if (!tn__is_there(e, inputs[i])) e->pending[e->pending_count++] = inputs[i];
    frame->pending_end = (uint32_t)e->pending_count;
    if (!e->options.exact)
        make_sort(e, e->pending + frame->pending, frame->pending_end - frame->pending);
    return TN_OK;
}

/* Takes the next pending operand of a frame: locks it if it is resident, else pushes a frame that
 * makes it. Frames above this one have released their locks by then, so the entry that was reserved
 * for the lock suffices. */
static tn_status make_next(tn__evict *e, tn__evict_frame *frame, tn_error *error) {
    uint32_t tensor = e->pending[frame->next];
    const tn__evict_tensor *record = &e->tensors[tensor];
    if (record->is_defined && e->storages[record->storage].state == TN__ON_HOST)
        TN_TRY(tn__space_fetch(e, record->storage, error));
    if (!tn__is_there(e, tensor)) return make_push(e, record->op, tensor, true, error);
    make_lock(e, record->storage);
    frame->next++;
    return TN_OK;
}

static tn_status make_finish(tn__evict *e, tn_error *error) {
    tn__evict_frame frame = e->frames[e->frame_count - 1];
    /* locks of operands are before this index, locks of results after it */
    size_t results = e->locked_count;
    tn_status status = make_run(e, &frame, error);
    const tn__evict_op *op = &e->ops[frame.op];
    for (uint32_t i = 0; i < op->input_count; i++)
        tn__unlock(e, e->tensors[tn__op_inputs(op)[i]].storage);
    for (size_t i = results; i < e->locked_count; i++) tn__unlock(e, e->locked[i]);
    e->locked_count = frame.locked;
    e->pending_count = frame.pending;
    e->frame_count--;
    TN_TRY(status);
    if (e->options.cost_limit > 0 && e->counts.remade_cost > e->options.cost_limit)
        TN_FAIL(error, TN_E_STOPPED, "making values again took more than the limit of %" PRIu64,
                e->options.cost_limit);
    return TN_OK;
}

static tn_status make_step(tn__evict *e, tn_error *error) {
    tn__evict_frame *frame = &e->frames[e->frame_count - 1];
    if (!frame->started) return make_start(e, frame, error);
    if (frame->next < frame->pending_end) return make_next(e, frame, error);
    return make_finish(e, error);
}

bool tn__make_give_up(tn__evict *e) {
    if (e->options.exact || e->restarts >= MAKE_RESTARTS_MOST) return false;
    for (size_t f = 0; f + 1 < e->frame_count; f++) {
        tn__evict_frame *frame = &e->frames[f];
        size_t end = f + 2 < e->frame_count || e->frames[f + 1].started ? e->frames[f + 1].locked
                                                                        : e->locked_count;
        bool any = false;
        for (size_t i = frame->locked; frame->started && i < end; i++) {
            if (e->locked[i] == TN__NONE) continue;
            tn__unlock(e, e->locked[i]);
            e->locked[i] = TN__NONE;
            any = true;
        }
        frame->started = frame->started && !any;
        if (!any) continue;
        e->restarts++;
        e->counts.restart_count++;
        return true;
    }
    return false;
}

static void make_unwind(tn__evict *e, size_t frames, size_t locked, size_t pending) {
    while (e->locked_count > locked)
        if (e->locked[--e->locked_count] != TN__NONE) tn__unlock(e, e->locked[e->locked_count]);
    e->frame_count = frames;
    e->pending_count = pending;
}

tn_status tn__make(tn__evict *e, uint32_t op, uint32_t target, bool again, tn_error *error) {
    size_t frames = e->frame_count, locked = e->locked_count, pending = e->pending_count;
    if (frames == 0) e->restarts = 0;
    tn_status status = make_push(e, op, target, again, error);
    while (status == TN_OK && e->frame_count > frames) status = make_step(e, error);
    /* also removes the entries of frames that have released their locks */
    make_unwind(e, frames, locked, pending);
    return status;
}

tn_status tn__make_tensor(tn__evict *e, uint32_t tensor, tn_error *error) {
    const tn__evict_tensor *record = &e->tensors[tensor];
    if (record->is_lost)
        TN_FAIL(error, TN_E_INVALID, "the contents of this value were overwritten");
    if (record->is_defined && e->storages[record->storage].state == TN__ON_HOST)
        TN_TRY(tn__space_fetch(e, record->storage, error));
    if (tn__is_there(e, tensor)) return TN_OK;
    return tn__make(e, e->tensors[tensor].op, tensor, true, error);
}
