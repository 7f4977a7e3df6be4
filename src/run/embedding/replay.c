/* replay.c - counts the hits of a policy in a recorded run, using the residents without their rows.
 *
 * Policies that see the future get, for each lookup, the number of the next lookup of its row.
 * These numbers are found from the end, with a table of the last number of each row.
 */
#include <inttypes.h>

#include "run/embedding/policy.h"
#include "run/embedding/trace.h"

#define REPLAY_SHOWS ((uint64_t)1 << 20) /* lookups between progress reports */

typedef struct replay {
    tn_context context;
    const tn_embedding_trace *trace;
    uint32_t batch;
    tn__residents r;
    tn__hold hold;
    uint64_t *next;       /* [lookups] next lookup of each one's row, or NULL */
    uint64_t *next_of;    /* [batch], for its distinct rows */
    uint64_t state_bytes; /* for the policy */
    tn_error *error;
} replay;

static tn_status replay_reserve(replay *it) {
    tn__residents *r = &it->r;
    r->index_count = tn__index_count(r->slot_count);
    it->state_bytes = tn__policy_bytes(r->policy, r->slot_count);
    r->slots = tn__alloc_array(&it->context, r->slot_count, sizeof *r->slots);
    r->index = tn__alloc_array(&it->context, r->index_count, sizeof *r->index);
    r->state = tn__alloc_array(&it->context, 1, (size_t)it->state_bytes);
    it->hold.slot_of = tn__alloc_array(&it->context, it->batch, sizeof *it->hold.slot_of);
    it->hold.distinct = tn__alloc_array(&it->context, it->batch, sizeof *it->hold.distinct);
    it->next_of = tn__alloc_array(&it->context, it->batch, sizeof *it->next_of);
    bool done = r->slots != NULL && r->index != NULL && r->state != NULL &&
                it->hold.slot_of != NULL && it->hold.distinct != NULL && it->next_of != NULL;
    return done ? TN_OK : tn__no_memory(it->error, "the rows of a recorded run");
}

static void replay_release(replay *it) {
    tn__residents *r = &it->r;
    tn__free(&it->context, r->slots, r->slot_count * sizeof *r->slots);
    tn__free(&it->context, r->index, r->index_count * sizeof *r->index);
    tn__free(&it->context, r->state, (size_t)it->state_bytes);
    tn__free(&it->context, it->hold.slot_of, it->batch * sizeof *it->hold.slot_of);
    tn__free(&it->context, it->hold.distinct, it->batch * sizeof *it->hold.distinct);
    tn__free(&it->context, it->next_of, it->batch * sizeof *it->next_of);
    tn__free(&it->context, it->next, it->trace->count * sizeof *it->next);
}

/* --- the future --- */

typedef struct replay_last {
    uint32_t row;
    uint64_t seen; /* number of the lookup, plus one; 0: free */
} replay_last;

static replay_last *replay_find(replay_last *table, uint64_t count, uint32_t row) {
    uint64_t hash = (row + UINT64_C(1)) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t place = (hash ^ hash >> 32) & (count - 1);
    while (table[place].seen != 0 && table[place].row != row) place = (place + 1) & (count - 1);
    return &table[place];
}

/* Fills in `next`, and counts the distinct rows of the run. */
static tn_status replay_look_ahead(replay *it, uint64_t *cold) {
    uint64_t count = it->trace->count, room = 16;
    while (room < count + count / 2) room *= 2;
    replay_last *table = tn__alloc_array(&it->context, (size_t)room, sizeof *table);
    if (table == NULL) return tn__no_memory(it->error, "the future of a recorded run");
    it->next = tn__alloc_array(&it->context, (size_t)count, sizeof *it->next);
    for (uint64_t i = count; it->next != NULL && i-- > 0;) {
        replay_last *last = replay_find(table, room, it->trace->rows[i]);
        *cold += last->seen == 0;
        it->next[i] = last->seen == 0 ? TN__ROW_NEVER : last->seen - 1;
        *last = (replay_last){it->trace->rows[i], i + 1};
    }
    tn__free(&it->context, table, (size_t)room * sizeof *table);
    return it->next != NULL ? TN_OK : tn__no_memory(it->error, "the future of a recorded run");
}

/* If a row occurs several times in the batch, its last place has the right number. */
static void replay_tell_next(replay *it, uint64_t first) {
    for (uint32_t k = 0; k < it->hold.distinct_count; k++)
        it->r.slots[it->hold.distinct[k]].mark = k;
    for (uint32_t i = 0; i < it->hold.row_count; i++)
        it->next_of[it->r.slots[it->hold.slot_of[i]].mark] = it->next[first + i];
}

/* --- the run --- */

static tn_status replay_batch(replay *it, uint64_t first, tn_embedding_replayed *replayed) {
    tn__hold *hold = &it->hold;
    uint64_t left = it->trace->count - first;
    hold->row_count = left < it->batch ? (uint32_t)left : it->batch;
    tn_status status =
        tn__residents_hold(&it->r, 0, it->trace->rows + first, hold, NULL, it->error);
    if (status == TN_E_EXHAUSTED)
        TN_FAIL(it->error, status,
                "the batch at lookup %" PRIu64 " has more different rows than the %u that there "
                "is room for; give a larger cache, or smaller batches",
                first, it->r.slot_count);
    if (it->next != NULL) replay_tell_next(it, first);
    tn__residents_let(&it->r, 0, hold, it->next != NULL ? it->next_of : NULL);
    replayed->lookups += hold->row_count;
    replayed->lookup_hits += hold->lookup_hits;
    replayed->distinct += hold->distinct_count;
    replayed->hits += hold->hits;
    return status;
}

static tn_status replay_all(replay *it, tn_embedding_replayed *replayed) {
    const tn_context *context = &it->context;
    uint64_t shown = 0;
    for (uint64_t first = 0; first < it->trace->count; first += it->batch) {
        TN_TRY(replay_batch(it, first, replayed));
        if (context->progress == NULL || first - shown < REPLAY_SHOWS) continue;
        shown = first;
        if (!context->progress(context->self, it->r.policy->name, first, it->trace->count))
            TN_FAIL(it->error, TN_E_STOPPED, "stopped");
    }
    return TN_OK;
}

tn_status tn_embedding_replay(const tn_embedding_trace *trace,
                              const tn_embedding_replay_options *given,
                              tn_embedding_replayed *replayed, tn_error *error) {
    tn_embedding_replay_options options = TN_EMBEDDING_REPLAY_OPTIONS_INIT;
    tn_embedding_replayed found = {0};
    tn__options(&options, sizeof options, given);
    const tn__row_policy *policy = tn__row_policy_find(options.policy, error);
    if (policy == NULL) return TN_E_UNKNOWN;
    if (options.slots == 0) TN_FAIL(error, TN_E_INVALID, "there must be room for at least one row");
    replay it = {.context = tn__context(options.context),
                 .trace = trace,
                 .batch = options.batch != 0 ? options.batch : 1,
                 .r = {.policy = policy,
                       .slot_count = options.slots,
                       .sample = options.sample != 0 ? options.sample : 16,
                       .random = {options.seed}},
                 .error = error};
    /* a run cannot have more rows than lookups */
    if (it.r.slot_count > trace->count) it.r.slot_count = (uint32_t)trace->count;
    if (it.r.slot_count > TN__SLOTS_MAX) it.r.slot_count = TN__SLOTS_MAX;
    if (it.batch > trace->count) it.batch = (uint32_t)trace->count;
    tn_status status = replay_reserve(&it);
    if (status == TN_OK && policy->sees_future) status = replay_look_ahead(&it, &found.cold);
    if (status == TN_OK) {
        tn__residents_open(&it.r);
        status = replay_all(&it, &found);
    }
    replay_release(&it);
    if (status == TN_OK) *replayed = found;
    return status;
}
