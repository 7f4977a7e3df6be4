/* records.c - creates and frees the records of operators, tensors and storages.
 *
 * A record of an operator exists while one of its results has an outside reference, or while
 * another operator with a record reads one. A plain reference count suffices, because operators
 * never form a cycle. When the count falls to 0, the operator and its results are forgotten, and
 * then its operands are examined. The stack for this is a list through the records themselves, so a
 * chain of any length needs no further memory.
 */
#include "memory/evict/policy.h"

/* --- links between storages: parents and children --- */

static tn__storage_link *links_items(tn__links *links) {
    return links->room > 0 ? links->of.many : links->of.few;
}

static tn__storage_link *links_find(tn__links *links, uint32_t storage) {
    tn__storage_link *items = links_items(links);
    /* searches from the end, because the newest link is looked up most often */
    for (uint32_t i = links->count; i-- > 0;)
        if (items[i].storage == storage) return &items[i];
    return NULL;
}

/* Makes room in the list for one more neighbour; false if host memory is out. */
static bool links_grow(tn__evict *e, tn__links *links) {
    tn__storage_link *many = links->room > 0 ? links->of.many : NULL;
    size_t room = links->room;
    if (links->room == 0 && links->count < TN__LINKS_FEW) return true;
    if (!tn__reserve(&e->context, &many, &room, (size_t)links->count + 1, sizeof *many))
        return false;
    if (links->room == 0) memcpy(many, links->of.few, sizeof links->of.few);
    links->of.many = many;
    links->room = (uint32_t)room;
    return true;
}

static bool links_add(tn__evict *e, tn__links *links, uint32_t storage, uint32_t count) {
    tn__storage_link *known = links_find(links, storage);
    if (known != NULL) {
        known->count += count;
        return true;
    }
    if (!links_grow(e, links)) return false;
    links_items(links)[links->count++] = (tn__storage_link){storage, count};
    return true;
}

static void links_remove(tn__links *links, uint32_t storage) {
    tn__storage_link *known = links_find(links, storage);
    if (known != NULL && --known->count == 0) *known = links_items(links)[--links->count];
}

void tn__links_free(tn__evict *e, tn__links *links) {
    if (links->room > 0)
        tn__free(&e->context, links->of.many, links->room * sizeof(tn__storage_link));
    *links = (tn__links){0};
}

static bool records_has_links(const tn__evict *e) {
    return (e->policy->features & TN__POLICY_LINKS) != 0;
}
/* Whether the children of the storage are recorded. Those of a storage that is never dropped are
 * needed only to count accesses as DTR's authors do. */
static bool records_has_children(const tn__evict *e, uint32_t storage) {
    return e->options.exact || !e->storages[storage].is_pinned;
}

static bool records_link_pair(tn__evict *e, uint32_t from, uint32_t to) {
    if (!links_add(e, &e->storages[to].parents, from, 1)) return false;
    if (!records_has_children(e, from) || links_add(e, &e->storages[from].children, to, 1))
        return true;
    links_remove(&e->storages[to].parents, from);
    return false;
}

/* Returns the storages of the operand and the result in pair number `pair` of an operator. Pairs
 * are linked in the order of these numbers. */
static void records_pair(const tn__evict *e, uint32_t op, size_t pair, uint32_t *from,
                         uint32_t *to) {
    const tn__evict_op *record = &e->ops[op];
    *from = e->tensors[tn__op_inputs(record)[pair / record->output_count]].storage;
    *to = e->tensors[tn__op_outputs(record)[pair % record->output_count]].storage;
}

static size_t records_pair_count(const tn__evict *e, uint32_t op) {
    if (!records_has_links(e)) return 0;
    return (size_t)e->ops[op].input_count * e->ops[op].output_count;
}

static void records_unlink(tn__evict *e, uint32_t op, size_t pair_count) {
    for (size_t pair = 0; pair < pair_count; pair++) {
        uint32_t from, to;
        records_pair(e, op, pair, &from, &to);
        links_remove(&e->storages[to].parents, from);
        links_remove(&e->storages[from].children, to);
    }
}

/* Links the storages of an operator's operands to those of its results. Returns false if host
 * memory is out; then no link was changed. */
static bool records_link(tn__evict *e, uint32_t op) {
    for (size_t pair = 0; pair < records_pair_count(e, op); pair++) {
        uint32_t from, to;
        records_pair(e, op, pair, &from, &to);
        if (records_link_pair(e, from, to)) continue;
        records_unlink(e, op, pair);
        return false;
    }
    return true;
}

/* Adds the links of a new operator, and calls the policy so that it adds its own records. False if
 * host memory is out. */
static bool records_introduce(tn__evict *e, uint32_t op) {
    if (!records_link(e, op)) return false;
    if (e->policy->added == NULL || e->policy->added(e, op)) return true;
    records_unlink(e, op, records_pair_count(e, op));
    return false;
}

/* --- making --- */

/* Reserves memory for `more` records, after using vacant ones; false if host memory is out. */
static bool records_room(tn__evict *e, void *data, size_t *room, uint32_t count, uint32_t more,
                         size_t item) {
    size_t need = (size_t)count + more;
    return need <= TN__EVICT_IDS_MAX && tn__reserve(&e->context, data, room, need, item);
}

static bool records_reserve(tn__evict *e, uint32_t outputs) {
    return records_room(e, &e->ops, &e->op_room, e->op_count, 1, sizeof *e->ops) &&
           records_room(e, &e->tensors, &e->tensor_room, e->tensor_count, outputs,
                        sizeof *e->tensors) &&
           records_room(e, &e->storages, &e->storage_room, e->storage_count, outputs,
                        sizeof *e->storages) &&
           tn__candidates_reserve(e, outputs) && tn__dead_reserve(e, outputs);
}

static uint32_t records_new_storage(tn__evict *e, uint64_t size) {
    uint32_t id = e->storage_vacant;
    if (id != TN__NONE)
        e->storage_vacant = e->storages[id].first;
    else
        id = e->storage_count++;
    e->storages[id] = (tn__evict_storage){.size = size,
                                          .made_at = e->ops_run,
                                          .first = TN__NONE,
                                          .last = TN__NONE,
                                          .candidate = TN__NONE,
                                          .block = TN__NONE,
                                          .dead = TN__NONE};
    return id;
}

static uint32_t records_new_tensor(tn__evict *e, uint32_t op, uint32_t storage, uint64_t shift) {
    uint32_t id = e->tensor_vacant;
    if (id != TN__NONE)
        e->tensor_vacant = e->tensors[id].next;
    else
        id = e->tensor_count++;
    e->tensors[id] = (tn__evict_tensor){
        .storage = storage, .op = op, .next = TN__NONE, .outside = 1, .shift = shift};
    tn__evict_storage *record = &e->storages[storage];
    bool is_new_op = record->last == TN__NONE || e->tensors[record->last].op != op;
    if (record->last == TN__NONE)
        record->first = id;
    else
        e->tensors[record->last].next = id;
    record->last = id;
    record->outside++;
    if (is_new_op) record->cost = tn__add_sat(record->cost, e->ops[op].cost);
    if (e->ops[op].flags & TN__OP_ONCE) {
        record->stuck++;
        tn__candidates_settle(e, storage);
    }
    return id;
}

static uint32_t records_new_op(tn__evict *e, const tn__evict_call *call, uint32_t *many) {
    uint32_t id = e->op_vacant;
    if (id != TN__NONE)
        e->op_vacant = e->ops[id].next;
    else
        id = e->op_count++;
    e->ops[id] = (tn__evict_op){.cost = call->cost,
                                .scratch = call->scratch,
                                .what = call->what,
                                .many = many,
                                .input_count = call->input_count,
                                .output_count = call->output_count,
                                .refs = call->output_count,
                                .next = TN__NONE,
                                .flags = call->flags & TN__EVICT_ONCE};
    return id;
}

tn_status tn__records_add(tn__evict *e, const tn__evict_call *call, uint32_t *op, tn_error *error) {
    size_t id_count = (size_t)call->input_count + call->output_count;
    uint32_t *many = NULL;
    if (!records_reserve(e, call->output_count)) return tn__no_memory(error, "an operator");
    if (id_count > TN__EVICT_FEW) {
        many = tn__alloc(&e->context, id_count * sizeof *many);
        if (many == NULL) return tn__no_memory(error, "an operator");
    }
    uint32_t id = records_new_op(e, call, many);
    tn__evict_op *record = &e->ops[id];
    uint32_t *ids = many != NULL ? many : record->few;
    for (uint32_t i = 0; i < call->input_count; i++) {
        ids[i] = call->inputs[i];
        e->tensors[ids[i]].uses++;
        e->storages[e->tensors[ids[i]].storage].uses++;
        tn__dead_list(e, e->tensors[ids[i]].storage);
        e->ops[e->tensors[ids[i]].op].refs++;
    }
    for (uint32_t o = 0; o < call->output_count; o++) {
        const tn__evict_output *output = &call->outputs[o];
        bool is_fresh = output->alias == TN__EVICT_NONE;
        const tn__evict_tensor *of = is_fresh ? NULL : &e->tensors[ids[output->alias]];
        uint32_t storage = is_fresh ? records_new_storage(e, output->bytes) : of->storage;
        if (is_fresh) e->storages[storage].is_pinned = (call->flags & TN__EVICT_STAYS) != 0;
        uint64_t shift = is_fresh ? 0 : of->shift + output->shift;
        ids[call->input_count + o] = records_new_tensor(e, id, storage, shift);
    }
    *op = id;
    if (!records_introduce(e, id)) {
        e->failed = false;
        e->ops[id].flags |= TN__OP_STRANGE;
        /* on failure the caller frees the record */
        return tn__no_memory(error, "the neighbours of a value");
    }
    return TN_OK;
}

/* --- forgetting --- */

static void records_drop_storage(tn__evict *e, uint32_t storage) {
    tn__evict_storage *record = &e->storages[storage];
    if (record->state == TN__RESIDENT) tn__space_leave(e, storage, TN__DROPPED);
    if (record->state == TN__ON_HOST) tn__space_forget_copy(e, storage);
    if (e->policy->vanished != NULL) e->policy->vanished(e, storage);
    tn__dead_unlist(e, storage);
    tn__links_free(e, &record->parents);
    tn__links_free(e, &record->children);
    *record = (tn__evict_storage){.first = e->storage_vacant,
                                  .candidate = TN__NONE,
                                  .block = TN__NONE,
                                  .dead = TN__NONE,
                                  .is_vacant = true};
    e->storage_vacant = storage;
}

/* Frees the bytes and the copy of the storage if no operator can recompute it and nothing needs
 * it. */
void tn__records_leave(tn__evict *e, uint32_t storage) {
    const tn__evict_storage *record = &e->storages[storage];
    if (record->stuck == 0 || record->uses > 0 || record->outside > 0 || record->locks > 0 ||
        record->is_pinned)
        return;
    if (record->state == TN__RESIDENT) tn__space_evict(e, storage);
    if (record->state == TN__ON_HOST) tn__space_forget_copy(e, storage);
    /* a failure is harmless: a neighbourhood (an estimate of cost) only becomes less precise */
    e->failed = false;
}

static void records_drop_tensor(tn__evict *e, uint32_t tensor) {
    tn__evict_tensor *record = &e->tensors[tensor];
    tn__evict_storage *storage = &e->storages[record->storage];
    uint32_t before = TN__NONE;
    bool is_only_of_op = true;
    for (uint32_t at = storage->first; at != tensor; at = e->tensors[at].next) {
        before = at;
        is_only_of_op = is_only_of_op && e->tensors[at].op != record->op;
    }
    for (uint32_t at = record->next; at != TN__NONE; at = e->tensors[at].next)
        is_only_of_op = is_only_of_op && e->tensors[at].op != record->op;
    *(before == TN__NONE ? &storage->first : &e->tensors[before].next) = record->next;
    if (storage->last == tensor) storage->last = before;
    if (is_only_of_op) storage->cost -= e->ops[record->op].cost;
    if ((e->ops[record->op].flags & (TN__OP_ONCE | TN__OP_LOST)) && !record->is_lost)
        storage->stuck--;
    uint32_t of = record->storage;
    *record = (tn__evict_tensor){.storage = TN__NONE, .next = e->tensor_vacant};
    e->tensor_vacant = tensor;
    if (storage->first == TN__NONE) {
        records_drop_storage(e, of);
        return;
    }
    tn__candidates_settle(e, of);
    tn__records_leave(e, of);
}

/* Releases one reference to an operator. If it was the last one, adds the operator to `dying`, the
 * list of operators whose records are to be freed. */
static void records_deref(tn__evict *e, uint32_t op, uint32_t *dying) {
    tn__evict_op *record = &e->ops[op];
    if (--record->refs > 0 || (record->flags & TN__OP_DYING)) return;
    record->flags |= TN__OP_DYING;
    record->next = *dying;
    *dying = op;
}

static void records_give_operands(tn__evict *e, uint32_t op, uint32_t *dying) {
    tn__evict_op *record = &e->ops[op];
    if (!(record->flags & TN__OP_STRANGE)) {
        if (e->policy->forgotten != NULL) e->policy->forgotten(e, op);
        records_unlink(e, op, records_pair_count(e, op));
    }
    for (uint32_t i = 0; i < record->input_count; i++) {
        uint32_t input = tn__op_inputs(record)[i];
        e->tensors[input].uses--;
        e->storages[e->tensors[input].storage].uses--;
        tn__records_leave(e, e->tensors[input].storage);
        records_deref(e, e->tensors[input].op, dying);
    }
}

static void records_forget_one(tn__evict *e, uint32_t op, uint32_t *dying) {
    tn__evict_op *record = &e->ops[op];
    if (!(record->flags & TN__OP_LOST)) records_give_operands(e, op, dying);
    for (uint32_t o = 0; o < record->output_count; o++)
        records_drop_tensor(e, tn__op_outputs(record)[o]);
    if (e->options.hooks.forget != NULL && record->what != NULL)
        e->options.hooks.forget(e->options.hooks.self, record->what);
    size_t id_count = (size_t)record->input_count + record->output_count;
    tn__free(&e->context, record->many, record->many != NULL ? id_count * sizeof *record->many : 0);
    *record = (tn__evict_op){.next = e->op_vacant, .flags = TN__OP_VACANT};
    e->op_vacant = op;
}

static void records_forget_all(tn__evict *e, uint32_t dying) {
    while (dying != TN__NONE) {
        uint32_t op = dying;
        dying = e->ops[op].next;
        records_forget_one(e, op, &dying);
    }
}

void tn__records_forget(tn__evict *e, uint32_t op) {
    tn__evict_op *record = &e->ops[op];
    if (record->refs > 0 || (record->flags & (TN__OP_DYING | TN__OP_VACANT))) return;
    record->flags |= TN__OP_DYING;
    record->next = TN__NONE;
    records_forget_all(e, op);
}

void tn__records_lose(tn__evict *e, uint32_t op) {
    tn__evict_op *record = &e->ops[op];
    uint32_t dying = TN__NONE;
    if (record->flags & TN__OP_LOST) return;
    records_give_operands(e, op, &dying);
    for (uint32_t o = 0; o < record->output_count; o++) {
        tn__evict_tensor *tensor = &e->tensors[tn__op_outputs(record)[o]];
        if (tensor->is_lost) continue;
        if (!(record->flags & TN__OP_ONCE)) e->storages[tensor->storage].stuck++;
        if (tensor->is_defined) continue;
        /* neither an operator nor a caller will read the tensor again, so its contents count as
         * lost */
        tensor->is_lost = true;
        e->storages[tensor->storage].stuck--;
    }
    record->flags |= TN__OP_LOST;
    for (uint32_t o = 0; o < record->output_count; o++) {
        uint32_t storage = e->tensors[tn__op_outputs(record)[o]].storage;
        tn__candidates_settle(e, storage);
        tn__dead_list(e, storage);
        if (e->storages[storage].outside == 0) tn__dead_came(e, storage);
    }
    records_forget_all(e, dying);
}

/* --- candidates: the storages that could be evicted now, oldest candidate first ----------------
 *
 * A storage that leaves the list leaves an empty entry. Empty entries are removed when they are
 * half of the list. So joining and leaving are O(1), the order is kept, and a search reads memory
 * from front to back.
 */

bool tn__candidates_reserve(tn__evict *e, uint32_t more) {
    /* the list may have one empty entry for each filled one, so it gets two per storage */
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
