/* live.c - our own: what would have to be computed again because of it, and only if somebody waits.
 *
 *     score = (own cost + ancestors / 2 + descendants) / (bytes * staleness^(3/4))
 *
 * ancestors: cost of dropped storages that would have to be made before it. Half, since others wait
 * for the same ones: each would count them in full. descendants: cost of dropped storages that are
 * made from it and *live*, which is to say that somebody refers to them, or to what is made from
 * them. A dropped value that nobody will ask for again costs nothing, however dear it was; counting
 * those is what makes DTR's own neighbourhoods too large. For the same reason a resident storage
 * that nobody refers to, and no live one waits for, goes at once: score 0. Staleness counts less
 * than in DTR, as a step of training asks for everything once more, whether old or not.
 *
 * Found: liveness step by step, with a count of live children for each storage. The sums are kept
 * and found anew when something around changed; sums end after LIVE_WALK storages, beyond which one
 * is large enough to be the last choice.
 * Where a sample of candidates does (`sample`), so do sums that are up to LIVE_AGE operators old:
 * changes are not followed.
 * Cost: O(n) a search; O(dropped around, at most LIVE_WALK) for each sum, and for each change no
 * more than the sums since, or nothing.
 * Source: ours; after Kirisame et al.: Dynamic tensor rematerialization, ICLR 2021.
 */
#include <math.h>

#include "evict/policy.h"

#define LIVE_WALK 512u /* storages */
#define LIVE_AGE 32u   /* operators */

typedef struct live_record { /* of a storage */
    double around;           /* its share of what is dropped around */
    uint64_t found_at;       /* operators run when that was found, and 1; 0: never */
    uint32_t stamp;          /* of the walk that met it last */
    uint32_t waiting;        /* live children, itself not among them */
    bool is_live;            /* dropped, and somebody waits for it */
    bool is_dropped;         /* as its storage says: walks ask all that they meet */
    bool is_known;           /* `around` is right */
    bool is_part;            /* `around` is of a part, which was enough */
    bool is_stirred[2];      /* dropped, and all that it sees that way are not known: [upwards] */
} live_record;

typedef struct live_state {
    live_record *of; /* [storage] */
    size_t room, known;
    uint32_t *stack; /* of walks and of cascades */
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

/* True: it turns from live to not, or the other way. */
static bool live_set(tn__evict *e, uint32_t storage, bool is_live) {
    live_state *state = e->state;
    live_record *record = &state->of[storage];
    if (record->is_live == is_live) return false;
    record->is_live = is_live;
    record->is_stirred[true] = false; /* sums of others passed by it and are known */
    return true;
}

/* One more of its children waits, or one less. True: it turns. Where a view's operator reads what
 * was made from the same bytes, storages form a ring, and may be counted as fewer than wait. */
static bool live_tell(tn__evict *e, uint32_t storage, bool waits) {
    live_record *record = &((live_state *)e->state)->of[storage];
    if (waits)
        record->waiting++;
    else if (record->waiting > 0)
        record->waiting--;
    return live_is_waited_for(e, storage) == waits && live_set(e, storage, waits);
}

/* It has turned: tells those it is made from, and so on. Views make a storage its own neighbour,
 * but nothing waits for itself. */
static void live_spread(tn__evict *e, uint32_t storage) {
    live_state *state = e->state;
    uint32_t count = 0;
    state->stack[count++] = storage;
    while (count > 0) { /* each storage turns once: the stack has room for all */
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

/* Edges between two storages that are an operator's. */
static uint32_t live_edges(const tn__evict *e, uint32_t op, uint32_t from, uint32_t to) {
    const tn__evict_op *record = &e->ops[op];
    uint32_t inputs = 0, outputs = 0;
    for (uint32_t i = 0; i < record->input_count; i++)
        inputs += e->tensors[tn__op_inputs(record)[i]].storage == from;
    for (uint32_t o = 0; o < record->output_count; o++)
        outputs += e->tensors[tn__op_outputs(record)[o]].storage == to;
    return inputs * outputs;
}

/* An operator's edges have come, or are about to go: those who are neighbours by these alone hear
 * from a result that is live, as a view's storage may be, or no more. */
static void live_link(tn__evict *e, uint32_t op, uint32_t storage, bool came) {
    live_state *state = e->state;
    const tn__links *parents = &e->storages[storage].parents;
    if (!came) { /* nobody hears; then all but those */
        live_turn(e, storage, false);
        (void)live_set(e, storage, live_is_waited_for(e, storage));
    }
    for (uint32_t i = 0; state->of[storage].is_live && i < parents->count; i++) {
        const tn__link *link = &tn__links_of(parents)[i];
        bool is_of_op = live_edges(e, op, link->storage, storage) == link->count;
        if (link->storage != storage && is_of_op == came && live_tell(e, link->storage, true))
            live_spread(e, link->storage);
    }
}

/* Sums of storages that see this one through dropped ones, in one direction, are to be found anew.
 * Goes on only from those that no walk came by since a sum was found through them: a walk costs no
 * more than the sums that made it necessary. */
static void live_stir(tn__evict *e, uint32_t storage, bool upwards) {
    live_state *state = e->state;
    uint32_t count = 0;
    if (e->options.sample) return;
    state->of[storage].is_stirred[upwards] = live_is_dropped(e, storage);
    state->stack[count++] = storage;
    while (count > 0) {
        const tn__evict_storage *at = &e->storages[state->stack[--count]];
        const tn__links *links = upwards ? &at->parents : &at->children;
        const tn__link *items = tn__links_of(links);
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

/* The storage of a result, NONE if one before it has the same. */
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
    for (uint32_t o = 0; o < record->output_count; o++) { /* a view may cost and see more */
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

/* --- the score --- */

/* Cost of what is dropped before it, or dropped, live and behind it; itself not among them. No
 * further than to the limit: more than that is more. */
static double live_sum(tn__evict *e, uint32_t storage, bool upwards, double limit) {
    live_state *state = e->state;
    uint32_t stamp = live_stamp(state), count = 0;
    double sum = 0;
    state->of[storage].stamp = stamp;
    state->stack[count++] = storage;
    for (uint32_t met = 0; count > 0 && met < LIVE_WALK && sum <= limit; met++) {
        const tn__evict_storage *at = &e->storages[state->stack[--count]];
        const tn__links *links = upwards ? &at->parents : &at->children;
        const tn__link *items = tn__links_of(links);
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

/* Is the sum known well enough to tell whether it is above the limit? */
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

/* Bytes * staleness^(3/4); 0: of what was used just now. */
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
    .summary = "cost of what somebody waits for around it / (bytes * staleness^(3/4))",
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
