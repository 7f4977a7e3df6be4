/* live.c - evicts the value that is cheapest to recompute, counting only values that are needed
 * again.
 *
 *   score = (own cost + ancestors / 2 + descendants) / (bytes * staleness^(3/4))
 *
 * Ancestors: the cost of dropped storages that would have to be recomputed before it. It counts
 * half, because other values need the same ancestors and each would count them in full.
 * Descendants: the cost of dropped storages that are made from it and are *live*: they have outside
 * references, or a live storage is made from them. A dropped value that is never needed again costs
 * nothing, however expensive it was; counting such values makes DTR's neighbourhoods too large. For
 * the same reason a resident storage without outside references that no live storage needs is
 * evicted at once: its score is 0. Staleness counts less than in DTR, because a training step asks
 * for every value once more, old or new.
 *
 * Liveness is kept up to date step by step, with a count of live children for each storage. The
 * sums are cached and recomputed when something around the storage changed. A sum ends after
 * LIVE_WALK storages; by then it is large enough to make the storage the last choice. With the
 * option `sample`, changes are not followed: sums up to LIVE_AGE operators old are used.
 *
 * Cost: O(n) per search; O(dropped storages around it, at most LIVE_WALK) for each sum; following a
 * change costs at most as much as the sums since the last one, and nothing with `sample`.
 * Source: new here; after Kirisame et al.: Dynamic tensor rematerialization, ICLR 2021.
 */
#include <math.h>

#include "memory/evict/policy.h"

#define LIVE_WALK 512u /* storages */
#define LIVE_AGE 32u   /* operators */

typedef struct live_record { /* the policy's record of a storage */
    /* cost of dropped neighbours in the score: half of the ancestors, and the live descendants */
    double around;
    /* 1 plus the number of operators that had run when `around` was computed; 0: never computed */
    uint64_t found_at;
    uint32_t stamp;   /* number of the walk that visited the storage last */
    uint32_t waiting; /* number of live children, without the storage itself */
    /* the storage is dropped and needed again: it has outside references or a live child */
    bool is_live;
    /* whether the storage is dropped: a copy of its state, which walks read often */
    bool is_dropped;
    bool is_known; /* `around` is up to date, so it need not be computed again */
    bool is_part;  /* `around` is a partial sum that exceeded the limit */
    /* [upwards]: in this direction, all cached sums that depend on this dropped storage have been
     * invalidated */
    bool is_stirred[2];
} live_record;

typedef struct live_state {
    live_record *of; /* [storage] */
    size_t room, known;
    uint32_t *stack; /* stack of walks and of chains of liveness changes */
    size_t stack_room;
    uint32_t stamp;
} live_state;

static uint32_t live_stamp(live_state *state) {
    if (++state->stamp == 0) {
        for (size_t i = 0; i < state->known; i++) state->of[i].stamp = 0;
        state->stamp = 1;
    }
    return state->stamp;
}

static bool live_is_dropped(const tn__evict *e, uint32_t storage) {
    return e->storages[storage].state == TN__DROPPED;
}

/* --- liveness --- */

static bool live_is_waited_for(const tn__evict *e, uint32_t storage) {
    const live_state *state = e->state;
    return live_is_dropped(e, storage) &&
           (state->of[storage].waiting > 0 || e->storages[storage].outside > 0);
}

/* Sets the liveness of a storage; returns whether it changed. */
static bool live_set(tn__evict *e, uint32_t storage, bool is_live) {
    live_state *state = e->state;
    live_record *record = &state->of[storage];
    if (record->is_live == is_live) return false;
    record->is_live = is_live;
    /* sums of other storages that passed through this one may be valid, so its next change must
     * invalidate them */
    record->is_stirred[true] = false;
    return true;
}

/* Counts one more or one less live child of the storage (`waits`); returns whether the storage's
 * own liveness changed. If an operator that makes a view reads a value in the same bytes, the
 * storages form a cycle; then the count may be too small. */
static bool live_tell(tn__evict *e, uint32_t storage, bool waits) {
    live_record *record = &((live_state *)e->state)->of[storage];
    if (waits)
        record->waiting++;
    else if (record->waiting > 0)
        record->waiting--;
    return live_is_waited_for(e, storage) == waits && live_set(e, storage, waits);
}

/* Called when the liveness of `storage` changed: updates the storages it is made from, the storages
 * those are made from, and so on. A view makes a storage its own neighbour; such a link is
 * ignored. */
static void live_spread(tn__evict *e, uint32_t storage) {
    live_state *state = e->state;
    uint32_t count = 0;
    state->stack[count++] = storage;
    while (count > 0) { /* each storage changes once, so the stack is large enough for all */
        uint32_t at = state->stack[--count];
        const tn__links *parents = &e->storages[at].parents;
        for (uint32_t i = 0; i < parents->count; i++) {
            uint32_t parent = tn__links_of(parents)[i].storage;
            if (parent != at && live_tell(e, parent, state->of[at].is_live))
                state->stack[count++] = parent;
        }
    }
}

static void live_turn(tn__evict *e, uint32_t storage, bool is_live) {
    if (live_set(e, storage, is_live)) live_spread(e, storage);
}

/* Returns the number of links between two storages that this operator made. */
static uint32_t live_edges(const tn__evict *e, uint32_t op, uint32_t from, uint32_t to) {
    const tn__evict_op *record = &e->ops[op];
    uint32_t inputs = 0, outputs = 0;
    for (uint32_t i = 0; i < record->input_count; i++)
        inputs += e->tensors[tn__op_inputs(record)[i]].storage == from;
    for (uint32_t o = 0; o < record->output_count; o++)
        outputs += e->tensors[tn__op_outputs(record)[o]].storage == to;
    return inputs * outputs;
}

/* Called when an operator's edges were added, or are about to be removed. Updates the parents that
 * are linked to this storage by these edges alone: a live result counts for them from now on, or no
 * longer. (The storage of a new result may be live already if the result is a view.) */
static void live_link(tn__evict *e, uint32_t op, uint32_t storage, bool came) {
    live_state *state = e->state;
    const tn__links *parents = &e->storages[storage].parents;
    /* first the live result no longer counts for any parent; then it counts again for those that
     * remain linked */
    if (!came) {
        live_turn(e, storage, false);
        (void)live_set(e, storage, live_is_waited_for(e, storage));
    }
    for (uint32_t i = 0; state->of[storage].is_live && i < parents->count; i++) {
        const tn__storage_link *link = &tn__links_of(parents)[i];
        bool is_of_op = live_edges(e, op, link->storage, storage) == link->count;
        if (link->storage != storage && is_of_op == came && live_tell(e, link->storage, true))
            live_spread(e, link->storage);
    }
}

/* Invalidates the sums of storages that reach this one through dropped ones, in one direction. The
 * walk continues only from storages through which a sum was computed since the last walk, so a walk
 * costs at most as much as the sums that made it necessary. */
static void live_stir(tn__evict *e, uint32_t storage, bool upwards) {
    live_state *state = e->state;
    uint32_t count = 0;
    if (e->options.sample) return;
    state->of[storage].is_stirred[upwards] = live_is_dropped(e, storage);
    state->stack[count++] = storage;
    while (count > 0) {
        const tn__evict_storage *at = &e->storages[state->stack[--count]];
        const tn__links *links = upwards ? &at->parents : &at->children;
        const tn__storage_link *items = tn__links_of(links);
        e->counts.access_count += links->count;
        for (uint32_t i = 0; i < links->count; i++) {
            uint32_t other = items[i].storage;
            state->of[other].is_known = false;
            if (!live_is_dropped(e, other) || state->of[other].is_stirred[upwards]) continue;
            state->of[other].is_stirred[upwards] = true;
            state->stack[count++] = other;
        }
    }
}

static void live_stir_both(tn__evict *e, uint32_t storage) {
    live_state *state = e->state;
    state->of[storage].is_known = false;
    live_stir(e, storage, true);
    live_stir(e, storage, false);
}

/* Returns the storage of result number `result` of an operator; NONE if an earlier result of the
 * operator has the same storage. */
static uint32_t live_output(const tn__evict *e, uint32_t op, uint32_t result) {
    const uint32_t *outputs = tn__op_outputs(&e->ops[op]);
    uint32_t storage = e->tensors[outputs[result]].storage;
    for (uint32_t o = 0; o < result; o++)
        if (e->tensors[outputs[o]].storage == storage) return TN__NONE;
    return storage;
}

static bool live_added(tn__evict *e, uint32_t op) {
    live_state *state = e->state;
    const tn__evict_op *record = &e->ops[op];
    if (!tn__reserve(&e->context, &state->of, &state->room, e->storage_count, sizeof *state->of) ||
        !tn__reserve(&e->context, &state->stack, &state->stack_room, (size_t)e->storage_count + 1,
                     sizeof *state->stack))
        return false;
    for (; state->known < e->storage_count; state->known++)
        state->of[state->known] = (live_record){0};
    /* a result that is a view may add cost and neighbours to a storage that exists already, so the
     * cached sum of that storage becomes invalid */
    for (uint32_t o = 0; o < record->output_count; o++) {
        uint32_t storage = live_output(e, op, o);
        if (storage == TN__NONE) continue;
        live_record *output = &state->of[storage];
        output->is_dropped = live_is_dropped(e, storage);
        output->is_known = output->is_stirred[false] = output->is_stirred[true] = false;
        live_link(e, op, storage, true);
        if (output->is_live) live_stir_both(e, storage);
    }
    return true;
}

static bool live_evicted(tn__evict *e, uint32_t storage) {
    ((live_state *)e->state)->of[storage].is_dropped = true;
    live_turn(e, storage, live_is_waited_for(e, storage));
    live_stir_both(e, storage);
    return true;
}

static bool live_made(tn__evict *e, const uint32_t *storages, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        ((live_state *)e->state)->of[storages[i]].is_dropped = false;
        live_turn(e, storages[i], false);
        live_stir_both(e, storages[i]);
    }
    return true;
}

static void live_released(tn__evict *e, uint32_t storage) {
    live_state *state = e->state;
    if (!state->of[storage].is_live || live_is_waited_for(e, storage)) return;
    live_turn(e, storage, false);
    live_stir(e, storage, true);
}

static void live_forgotten(tn__evict *e, uint32_t op) {
    for (uint32_t o = 0; o < e->ops[op].output_count; o++) {
        uint32_t storage = live_output(e, op, o);
        if (storage == TN__NONE) continue;
        live_link(e, op, storage, false);
        live_stir_both(e, storage);
    }
}

static void live_vanished(tn__evict *e, uint32_t storage) {
    live_state *state = e->state;
    if (storage < state->known) state->of[storage] = (live_record){0};
}

static void live_close(tn__evict *e) {
    live_state *state = e->state;
    tn__free(&e->context, state->of, state->room * sizeof *state->of);
    tn__free(&e->context, state->stack, state->stack_room * sizeof *state->stack);
}

/* --- the score of a storage --- */

/* The cost of its dropped ancestors (`upwards`), or of its live dropped descendants, without the
 * storage itself. Stops as soon as the sum exceeds the limit. */
static double live_sum(tn__evict *e, uint32_t storage, bool upwards, double limit) {
    live_state *state = e->state;
    uint32_t stamp = live_stamp(state), count = 0;
    double sum = 0;
    state->of[storage].stamp = stamp;
    state->stack[count++] = storage;
    for (uint32_t met = 0; count > 0 && met < LIVE_WALK && sum <= limit; met++) {
        const tn__evict_storage *at = &e->storages[state->stack[--count]];
        const tn__links *links = upwards ? &at->parents : &at->children;
        const tn__storage_link *items = tn__links_of(links);
        e->counts.access_count += links->count;
        for (uint32_t i = 0; i < links->count; i++) {
            uint32_t other = items[i].storage;
            live_record *record = &state->of[other];
            if (record->stamp == stamp || !record->is_dropped) continue;
            record->is_stirred[!upwards] = false;
            if (!upwards && !record->is_live) continue;
            record->stamp = stamp;
            sum += (double)e->storages[other].cost;
            state->stack[count++] = other;
        }
    }
    return sum;
}

/* Whether the cached sum is precise enough to decide whether the cost exceeds the limit. */
static bool live_is_enough(const tn__evict *e, const live_record *record, double limit) {
    bool is_young = record->found_at > 0 && e->ops_run + 1 - record->found_at < LIVE_AGE;
    if (e->options.sample ? !is_young : !record->is_known) return false;
    return !record->is_part || record->around > limit;
}

static double live_around(tn__evict *e, uint32_t storage, double limit) {
    live_state *state = e->state;
    live_record *record = &state->of[storage];
    if (live_is_enough(e, record, limit)) return record->around;
    double around = live_sum(e, storage, false, limit);
    if (around <= limit) around += live_sum(e, storage, true, 2 * (limit - around)) / 2;
    record->around = around;
    record->is_part = around > limit;
    record->is_known = true;
    record->found_at = e->ops_run + 1;
    return around;
}

/* The denominator of the score, bytes * staleness^(3/4); 0 for a value used just now. */
static double live_weight(tn__evict *e, uint32_t storage) {
    const tn__evict_storage *bytes = &e->storages[storage];
    double root = sqrt((double)(e->clock - bytes->last_access));
    return (double)bytes->size * root * sqrt(root);
}

static bool live_is_idle(const tn__evict *e, uint32_t storage) {
    const live_state *state = e->state;
    return e->storages[storage].outside == 0 && state->of[storage].waiting == 0;
}

static double live_cost_within(tn__evict *e, uint32_t storage, double limit) {
    double own = (double)e->storages[storage].cost;
    e->counts.access_count++;
    if (live_is_idle(e, storage)) return 0;
    return own > limit ? own : own + live_around(e, storage, limit - own);
}

static uint64_t live_cost(tn__evict *e, uint32_t storage) {
    double own = (double)e->storages[storage].cost;
    double cost = own + live_around(e, storage, (double)INFINITY);
    return cost < 0x1p62 ? (uint64_t)cost : UINT64_C(1) << 62;
}

static double live_score(tn__evict *e, uint32_t storage) {
    double weight = live_weight(e, storage);
    e->counts.access_count++;
    if (live_is_idle(e, storage)) return 0;
    if (weight == 0) return (double)INFINITY;
    return ((double)e->storages[storage].cost + live_around(e, storage, (double)INFINITY)) / weight;
}

const tn__policy tn__policy_live = {
    .name = "live",
    .summary = "cost of evicted neighbours that are still needed / (bytes * staleness^(3/4))",
    .source = "ours, after Kirisame et al. 2021",
    .features = TN__POLICY_LINKS | TN__POLICY_MOVES,
    .state_size = sizeof(live_state),
    .added = live_added,
    .evicted = live_evicted,
    .made = live_made,
    .released = live_released,
    .forgotten = live_forgotten,
    .vanished = live_vanished,
    .close = live_close,
    .score = live_score,
    .cost = live_cost,
    .weight = live_weight,
    .cost_within = live_cost_within};
