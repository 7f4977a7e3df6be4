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
 * Cost: O(n) a search; O(dropped around, at most LIVE_WALK) for each sum, and for each change no
 * more than the sums since.
 * Source: ours; after Kirisame et al.: Dynamic tensor rematerialization, ICLR 2021.
 */
#include <math.h>

#include "evict/policy.h"

#define LIVE_WALK 512u /* storages */

typedef struct live_record { /* of a storage */
    double around;           /* own cost, and its share of what is dropped around */
    uint32_t stamp;          /* of the walk that met it last */
    uint32_t waiting;        /* live dropped children */
    bool is_live;            /* dropped, and somebody waits for it */
    bool is_known;           /* `around` is right */
    bool is_stirred[2];      /* dropped, and all that it sees that way are not known: [upwards] */
} live_record;

typedef struct live_state {
    live_record *of; /* [storage] */
    size_t room, known;
    uint32_t *stack; /* of walks and of cascades */
    size_t stack_room;
    uint32_t stamp;
} live_state;

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
        live_record *output = &state->of[e->tensors[tn__op_outputs(record)[o]].storage];
        output->is_known = output->is_stirred[false] = output->is_stirred[true] = false;
    }
    return true;
}

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

/* Nobody waits for it any more, or somebody does: tells those it is made from, and so on. */
static void live_turn(tn__evict *e, uint32_t storage, bool is_live) {
    live_state *state = e->state;
    uint32_t count = 0;
    if (state->of[storage].is_live == is_live) return;
    state->of[storage].is_live = is_live;
    state->of[storage].is_stirred[true] = false; /* sums of others passed by it and are known */
    state->stack[count++] = storage;
    while (count > 0) { /* each storage turns once: the stack has room for all */
        const tn__links *parents = &e->storages[state->stack[--count]].parents;
        for (uint32_t i = 0; i < parents->count; i++) {
            uint32_t parent = parents->items[i].storage;
            live_record *record = &state->of[parent];
            if (is_live)
                record->waiting++;
            else if (record->waiting > 0)
                record->waiting--;
            bool now = live_is_dropped(e, parent) &&
                       (record->waiting > 0 || e->storages[parent].outside > 0);
            if (record->is_live == is_live || now != is_live) continue;
            record->is_live = is_live;
            record->is_stirred[true] = false;
            state->stack[count++] = parent;
        }
    }
}

/* Sums of storages that see this one through dropped ones, in one direction, are to be found anew.
 * Goes on only from those that no walk came by since a sum was found through them: a walk costs no
 * more than the sums that made it necessary. */
static void live_stir(tn__evict *e, uint32_t storage, bool upwards) {
    live_state *state = e->state;
    uint32_t count = 0;
    state->of[storage].is_stirred[upwards] = live_is_dropped(e, storage);
    state->stack[count++] = storage;
    while (count > 0) {
        const tn__evict_storage *at = &e->storages[state->stack[--count]];
        const tn__links *links = upwards ? &at->parents : &at->children;
        e->counts.access_count += links->count;
        for (uint32_t i = 0; i < links->count; i++) {
            uint32_t other = links->items[i].storage;
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

static bool live_evicted(tn__evict *e, uint32_t storage) {
    live_state *state = e->state;
    bool is_live = state->of[storage].waiting > 0 || e->storages[storage].outside > 0;
    live_turn(e, storage, is_live);
    live_stir_both(e, storage);
    return true;
}

static bool live_made(tn__evict *e, const uint32_t *storages, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        live_turn(e, storages[i], false);
        live_stir_both(e, storages[i]);
    }
    return true;
}

static void live_released(tn__evict *e, uint32_t storage) {
    live_state *state = e->state;
    if (!state->of[storage].is_live || state->of[storage].waiting > 0) return;
    live_turn(e, storage, false);
    live_stir(e, storage, true);
}

static void live_forgotten(tn__evict *e, uint32_t op) {
    const tn__evict_op *record = &e->ops[op];
    for (uint32_t o = 0; o < record->output_count; o++) {
        uint32_t storage = e->tensors[tn__op_outputs(record)[o]].storage;
        live_turn(e, storage, false);
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

/* Cost of what is dropped before it, or dropped, live and behind it. */
static double live_sum(tn__evict *e, uint32_t storage, bool upwards) {
    live_state *state = e->state;
    uint32_t stamp = live_stamp(state), count = 0;
    double sum = 0;
    state->of[storage].stamp = stamp;
    state->stack[count++] = storage;
    for (uint32_t met = 0; count > 0 && met < LIVE_WALK; met++) {
        const tn__evict_storage *at = &e->storages[state->stack[--count]];
        const tn__links *links = upwards ? &at->parents : &at->children;
        for (uint32_t i = 0; i < links->count; i++) {
            uint32_t other = links->items[i].storage;
            e->counts.access_count++;
            if (state->of[other].stamp == stamp || !live_is_dropped(e, other)) continue;
            state->of[other].is_stirred[!upwards] = false;
            if (!upwards && !state->of[other].is_live) continue;
            state->of[other].stamp = stamp;
            sum += (double)e->storages[other].cost;
            state->stack[count++] = other;
        }
    }
    return sum;
}

static double live_around(tn__evict *e, uint32_t storage) {
    live_state *state = e->state;
    live_record *record = &state->of[storage];
    if (!record->is_known) {
        double before = live_sum(e, storage, true), behind = live_sum(e, storage, false);
        record->around = (double)e->storages[storage].cost + before / 2 + behind;
        record->is_known = true;
    }
    return record->around;
}

static uint64_t live_cost(tn__evict *e, uint32_t storage) {
    double around = live_around(e, storage);
    return around < 0x1p62 ? (uint64_t)around : UINT64_C(1) << 62;
}

static double live_score(tn__evict *e, uint32_t storage) {
    live_state *state = e->state;
    const tn__evict_storage *bytes = &e->storages[storage];
    const live_record *record = &state->of[storage];
    double stale = (double)(e->clock - bytes->last_access);
    e->counts.access_count++;
    if (bytes->outside == 0 && record->waiting == 0) return 0;
    if (stale <= 0 || bytes->size == 0) return (double)INFINITY;
    double root = sqrt(stale);
    return live_around(e, storage) / ((double)bytes->size * root * sqrt(root));
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
    .cost = live_cost};
