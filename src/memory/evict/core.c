/* core.c - the functions of evict.h: options, values from outside, operators, references, locks.
 *
 * Cost: a call costs as much as the operators it runs and its searches for free memory.
 */
#include "memory/evict/policy.h"

#include <inttypes.h>

/* default of the bytes per second that can be moved within a device's memory */
#define CORE_MOVE_RATE 100000000000u

#define TN_POLICY(name) extern const tn__policy tn__policy_##name;
#include "memory/evict/policies.def"
#undef TN_POLICY

static const tn__policy *const policies[] = {
#define TN_POLICY(name) &tn__policy_##name,
#include "memory/evict/policies.def"
#undef TN_POLICY
};

uint32_t tn_evict_policy_count(void) { return (uint32_t)(sizeof policies / sizeof *policies); }
const char *tn_evict_policy_name(uint32_t index) { return policies[index]->name; }
const char *tn_evict_policy_summary(uint32_t index) { return policies[index]->summary; }
const char *tn_evict_policy_source(uint32_t index) { return policies[index]->source; }

const tn__policy *tn__policy_find(const char *name) {
    for (uint32_t i = 0; i < tn_evict_policy_count(); i++)
        if (name == NULL || strcmp(policies[i]->name, name) == 0) return policies[i];
    return NULL;
}

/* Returns num / den, correctly rounded. The quotient is computed with 64 bits, and its last bit
 * says whether there was a remainder, so rounding the 64 bits to the 53 bits of a double rounds the
 * true quotient once. */
double tn__ratio(uint64_t num, tn__wide den) {
    const uint64_t exact = (uint64_t)1 << 53;
    if (num < exact && den < exact) return (double)num / (double)(uint64_t)den;
    if (num == 0) return 0;
    int shift = 0;
    /* bits that are shifted out matter only if the rest is a tie between two doubles */
    while (den >> 64 != 0) {
        bool rest = (den & 1) != 0;
        den = den >> 1 | rest;
        shift--;
    }
    tn__wide top = (tn__wide)num << 64, quotient = top / (uint64_t)den;
    bool rest = top % (uint64_t)den != 0;
    shift -= 64;
    while (quotient >> 62 != 0) {
        rest = rest || (quotient & 1) != 0;
        quotient >>= 1;
        shift++;
    }
    return __builtin_ldexp((double)((uint64_t)quotient | rest), shift);
}

/* --- creating --- */

static tn_status core_open(tn__evict *e, tn_error *error) {
    e->op_vacant = e->tensor_vacant = e->storage_vacant = e->block_vacant = TN__NONE;
    e->clock = 1;
    e->random.state = e->options.seed;
    if (e->policy->state_size > 0) {
        e->state = tn__alloc_array(&e->context, 1, e->policy->state_size);
        if (e->state == NULL) return tn__no_memory(error, "a policy");
    }
    return e->options.addresses ? tn__arena_open(e, error) : TN_OK;
}

tn_status tn__evict_create(const tn__evict_options *options, tn__evict **evict, tn_error *error) {
    const tn__policy *policy = tn__policy_find(options->policy);
    uint64_t alignment = options->alignment != 0 ? options->alignment : 64;
    if (policy == NULL)
        TN_FAIL(error, TN_E_UNKNOWN, "there is no policy '%.80s'; see `tn_evict_policy_name`",
                options->policy);
    if (!tn__is_power_of_two(alignment))
        TN_FAIL(error, TN_E_INVALID, "the alignment of places is a power of two");
    tn_context context = tn__context(options->context);
    tn__evict *made = tn__alloc_array(&context, 1, sizeof *made);
    if (made == NULL) return tn__no_memory(error, "what evicts");
    made->context = context;
    made->options = *options;
    made->options.alignment = alignment;
    if (made->options.cost_per_s == 0) made->options.cost_per_s = 1000000000;
    if (made->options.move_bytes_per_s == 0) made->options.move_bytes_per_s = CORE_MOVE_RATE;
    made->policy = policy;
    tn_status status = core_open(made, error);
    if (status == TN_OK)
        *evict = made;
    else
        tn__evict_destroy(made);
    return status;
}

static void core_close_records(tn__evict *e) {
    const tn__evict_hooks *hooks = &e->options.hooks;
    for (uint32_t i = 0; i < e->op_count; i++) {
        tn__evict_op *op = &e->ops[i];
        size_t id_count = (size_t)op->input_count + op->output_count;
        if (hooks->forget != NULL && op->what != NULL && !(op->flags & TN__OP_VACANT))
            hooks->forget(hooks->self, op->what);
        if (op->many != NULL) tn__free(&e->context, op->many, id_count * sizeof *op->many);
    }
    for (uint32_t i = 0; i < e->storage_count; i++) {
        tn__evict_storage *storage = &e->storages[i];
        if (storage->state == TN__ON_HOST && hooks->forget_copy != NULL)
            hooks->forget_copy(hooks->self, storage->host, storage->size);
        tn__links_free(e, &storage->parents);
        tn__links_free(e, &storage->children);
    }
}

void tn__evict_destroy(tn__evict *e) {
    if (e == NULL) return;
    tn_context context = e->context;
    if (e->state != NULL && e->policy->close != NULL) e->policy->close(e);
    core_close_records(e);
    tn__free(&context, e->state, e->policy->state_size);
    tn__free(&context, e->ops, e->op_room * sizeof *e->ops);
    tn__free(&context, e->tensors, e->tensor_room * sizeof *e->tensors);
    tn__free(&context, e->storages, e->storage_room * sizeof *e->storages);
    tn__free(&context, e->candidates, e->candidate_room * sizeof *e->candidates);
    tn__free(&context, e->frames, e->frame_room * sizeof *e->frames);
    tn__free(&context, e->pending, e->pending_room * sizeof *e->pending);
    tn__free(&context, e->locked, e->locked_room * sizeof *e->locked);
    tn__free(&context, e->blocks, e->block_room * sizeof *e->blocks);
    tn__free(&context, e->offers, e->offer_room * sizeof *e->offers);
    tn__free(&context, e->cheap, e->cheap_room * sizeof *e->cheap);
    tn__free(&context, e->parts, e->part_room * sizeof *e->parts);
    tn__free(&context, e->unreachable_order, e->unreachable_room * sizeof *e->unreachable_order);
    tn__free(&context, e->dead, e->dead_room * sizeof *e->dead);
    tn__free(&context, e->kept, e->kept_room * sizeof *e->kept);
    tn__free(&context, e->run_at, e->run_room * sizeof *e->run_at);
    tn__free(&context, e->run_blocks, e->run_block_room * sizeof *e->run_blocks);
    tn__free(&context, e->run_kinds, e->run_kind_room * sizeof *e->run_kinds);
    tn__free(&context, e, sizeof *e);
}

/* --- operators --- */

/* Frees the records of an operator that failed; the caller never saw the ids of its results. */
static void core_take_back(tn__evict *e, uint32_t op) {
    tn__evict_op *record = &e->ops[op];
    record->what = NULL;
    for (uint32_t o = 0; o < record->output_count; o++) {
        tn__evict_tensor *tensor = &e->tensors[tn__op_outputs(record)[o]];
        e->storages[tensor->storage].outside -= tensor->outside;
        record->refs -= tensor->outside;
        tensor->outside = 0;
        tn__dead_list(e, tensor->storage);
    }
    /* forgets the history of an operator that was never run */
    if (!e->options.exact) tn__records_forget(e, op);
}

static tn_status core_check_call(const tn__evict *e, const tn__evict_call *call, tn_error *error) {
    if (call->output_count == 0)
        TN_FAIL(error, TN_E_INVALID, "an operator without a result does nothing");
    for (uint32_t i = 0; i < call->input_count; i++) {
        uint32_t tensor = call->inputs[i];
        if (tensor >= e->tensor_count || e->tensors[tensor].storage == TN__NONE)
            TN_FAIL(error, TN_E_INVALID, "operand %u of an operator is no value that there is", i);
        if (e->tensors[tensor].is_lost)
            TN_FAIL(error, TN_E_INVALID, "operand %u of an operator was overwritten", i);
    }
    for (uint32_t o = 0; o < call->output_count; o++) {
        const tn__evict_output *output = &call->outputs[o];
        bool is_view = output->alias != TN__EVICT_NONE;
        if (is_view ? output->alias >= call->input_count : output->overwrites)
            TN_FAIL(error, TN_E_INVALID, "result %u of an operator shares no operand's bytes", o);
    }
    return TN_OK;
}

static bool core_overwrites(const tn__evict_call *call) {
    for (uint32_t o = 0; o < call->output_count; o++)
        if (call->outputs[o].overwrites) return true;
    return false;
}

static tn_status core_run(tn__evict *e, const tn__evict_call *call, uint32_t op, tn_error *error) {
    uint32_t first = tn__op_outputs(&e->ops[op])[0];
    if (!core_overwrites(call)) return tn__make(e, op, first, false, error);
    tn_status status = tn__overwrite_prepare(e, call, op, error);
    if (status == TN_OK) status = tn__make(e, op, first, false, error);
    if (status == TN_OK) tn__overwrite_finish(e, call, op);
    tn__overwrite_unlock(e);
    return status;
}

tn_status tn__evict_apply(tn__evict *e, const tn__evict_call *call, uint32_t *tensors,
                          tn_error *error) {
    uint32_t op = TN__NONE;
    TN_TRY(core_check_call(e, call, error));
    tn_status status = tn__records_add(e, call, &op, error);
    if (status == TN_OK) status = core_run(e, call, op, error);
    if (status != TN_OK) {
        if (op != TN__NONE) core_take_back(e, op);
        return status;
    }
    const uint32_t *outputs = tn__op_outputs(&e->ops[op]);
    for (uint32_t o = 0; o < call->output_count; o++) {
        e->storages[e->tensors[outputs[o]].storage].last_access = e->clock;
        tensors[o] = outputs[o];
    }
    return TN_OK;
}

tn_status tn__evict_constant(tn__evict *e, const tn__evict_value *value, uint32_t *tensor,
                             tn_error *error) {
    tn__evict_output output = {.bytes = value->bytes, .alias = TN__EVICT_NONE};
    tn__evict_call call = {.flags = TN__EVICT_ONCE, .output_count = 1, .outputs = &output};
    if (value->pinned) call.flags |= TN__EVICT_STAYS;
    tn__evict_hooks hooks = e->options.hooks;
    e->options.hooks.compute = NULL; /* the caller fills the constant, so no hook is called */
    tn_status status = tn__evict_apply(e, &call, tensor, error);
    e->options.hooks = hooks;
    if (status == TN_OK && value->pinned) status = tn__evict_pin(e, *tensor, error);
    return status;
}

/* --- references to tensors, and locks --- */

void tn__evict_retain(tn__evict *e, uint32_t tensor) {
    tn__evict_tensor *record = &e->tensors[tensor];
    record->outside++;
    e->storages[record->storage].outside++;
    e->ops[record->op].refs++;
}

/* Called when the last outside reference is released: frees the bytes at once if the value can be
 * recomputed or nothing was made from it. */
static void core_leave(tn__evict *e, uint32_t storage) {
    const tn__evict_storage *record = &e->storages[storage];
    if (record->outside > 0 || record->is_pinned || record->locks > 0) return;
    if (record->stuck > 0 && record->uses > 0) {
        tn__dead_came(e, storage);
        return;
    }
    if (record->state == TN__RESIDENT) tn__space_evict(e, storage);
    if (record->state == TN__ON_HOST) tn__space_forget_copy(e, storage);
    /* a failure of the policy is harmless here: only a neighbourhood (an estimate of cost) becomes
     * less precise */
    e->failed = false;
}

void tn__evict_release(tn__evict *e, uint32_t tensor) {
    tn__evict_tensor *record = &e->tensors[tensor];
    tn_assert(record->outside > 0);
    uint32_t storage = record->storage, op = record->op;
    record->outside--;
    e->storages[storage].outside--;
    e->ops[op].refs--;
    tn__dead_list(e, storage);
    if (e->storages[storage].outside == 0 && e->storages[storage].state == TN__DROPPED &&
        e->policy->released != NULL)
        e->policy->released(e, storage);
    if (!e->options.exact && e->ops[op].refs == 0) tn__records_forget(e, op);
    if (!e->storages[storage].is_vacant) core_leave(e, storage);
}

tn_status tn__evict_want(tn__evict *e, uint32_t tensor, tn_error *error) {
    TN_TRY(tn__make_tensor(e, tensor, error));
    tn__lock(e, e->tensors[tensor].storage);
    e->storages[e->tensors[tensor].storage].wants++;
    /* takes a reference for the lock, because the caller may release the tensor before unlocking
     * it */
    tn__evict_retain(e, tensor);
    return TN_OK;
}

void tn__evict_unlock(tn__evict *e, uint32_t tensor) {
    e->storages[e->tensors[tensor].storage].wants--;
    tn__unlock(e, e->tensors[tensor].storage);
    tn__evict_release(e, tensor);
}

tn_status tn__evict_pin(tn__evict *e, uint32_t tensor, tn_error *error) {
    TN_TRY(tn__make_tensor(e, tensor, error));
    uint32_t storage = e->tensors[tensor].storage;
    e->storages[storage].is_pinned = true;
    tn__candidates_settle(e, storage);
    tn__lower_bound_note(e, TN__NONE);
    return TN_OK;
}

tn_status tn__evict_keep(tn__evict *e, uint32_t tensor, tn_error *error) {
    TN_TRY(tn__make_tensor(e, tensor, error));
    uint32_t op = e->tensors[tensor].op;
    if (e->ops[op].output_count == 1) tn__records_lose(e, op);
    return TN_OK;
}

/* --- evictions that the caller requests --- */

static tn_status core_check_free(const tn__evict *e, uint32_t storage, tn_error *error) {
    const tn__evict_storage *record = &e->storages[storage];
    if (!record->is_pinned && record->locks == 0) return TN_OK;
    TN_FAIL(error, TN_E_UNSUPPORTED, "it must stay at its address");
}

tn_status tn__evict_drop(tn__evict *e, uint32_t tensor, tn_error *error) {
    uint32_t storage = e->tensors[tensor].storage;
    if (e->storages[storage].state != TN__RESIDENT) return TN_OK;
    TN_TRY(core_check_free(e, storage, error));
    if (e->storages[storage].stuck > 0)
        TN_FAIL(error, TN_E_UNSUPPORTED, "it cannot be recomputed; only its owner has it");
    tn__space_evict(e, storage);
    /* a failure of the policy is harmless here: only a neighbourhood (an estimate of cost) becomes
     * less precise */
    e->failed = false;
    return TN_OK;
}

tn_status tn__evict_offload(tn__evict *e, uint32_t tensor, tn_error *error) {
    uint32_t storage = e->tensors[tensor].storage;
    if (e->storages[storage].state != TN__RESIDENT) return TN_OK;
    TN_TRY(core_check_free(e, storage, error));
    if (e->options.link_bytes_per_s == 0)
        TN_FAIL(error, TN_E_UNSUPPORTED, "there is no link to the host");
    if (!tn__space_has_host_room(e, storage))
        TN_FAIL(error, TN_E_EXHAUSTED, "the host has no room for its %" PRIu64 " bytes",
                e->storages[storage].size);
    return tn__space_swap_out(e, storage, error);
}

/* --- questions --- */

bool tn__evict_is_there(const tn__evict *e, uint32_t tensor) { return tn__is_there(e, tensor); }
uint64_t tn__evict_at(const tn__evict *e, uint32_t tensor) {
    const tn__evict_tensor *record = &e->tensors[tensor];
    uint32_t block = e->storages[record->storage].block;
    return (block != TN__NONE ? e->blocks[block].at : 0) + record->shift;
}
uint32_t tn__evict_storage_of(const tn__evict *e, uint32_t tensor) {
    return e->tensors[tensor].storage;
}
uint64_t tn__evict_bytes(const tn__evict *e, uint32_t storage) { return e->storages[storage].size; }
const tn_evict_counts *tn__evict_count(const tn__evict *e) { return &e->counts; }
uint64_t tn__evict_clock(const tn__evict *e) { return e->clock; }
uint64_t tn__evict_needed(const tn__evict *e) { return e->needed; }
