/* dtr_eq.c - DTR's heuristic with equivalence classes: dropped neighbours are united in a class and
 * never separated.
 *
 * A class holds the sum of its members' costs. When a member is recomputed, its cost is subtracted
 * and it leaves; members that were united through it stay together. So the neighbourhood of a
 * storage is the set of classes next to it. It is found in nearly constant time, and is somewhat
 * too large.
 *
 * Cost: O(edges of the storage) per candidate.
 * Source: Kirisame et al.: Dynamic tensor rematerialization, ICLR 2021 (h_eq); Tarjan 1975.
 */
#include <math.h>

#include "memory/evict/policy.h"

typedef struct class_node {
    /* if the node is the root of a class: the cost of all members. It may become negative, because
     * costs of members may change. */
    int64_t cost;
    uint64_t seen; /* number of the search that visited the node last */
    /* parent of the node in its class; NONE: the node is the root. In a vacant node, the next
     * vacant one */
    uint32_t parent;
    uint32_t refs; /* number of child nodes, plus 1 if the node represents a storage */
} class_node;

typedef struct dtr_eq_state {
    class_node *nodes;
    size_t node_room;
    uint32_t node_count, vacant;
    uint32_t *of; /* [storage]: the node that represents the storage in a class, or NONE */
    size_t room, known;
    uint64_t *stamps; /* [storage]: number of the search that visited the storage last */
    size_t stamp_room;
    uint64_t search;
} dtr_eq_state;

static uint32_t class_new(tn__evict *e, int64_t cost) {
    dtr_eq_state *state = e->state;
    /* no node has the number 0, so 0 means that no node is vacant */
    uint32_t id = state->vacant;
    if (id != 0) {
        state->vacant = state->nodes[id].parent;
    } else {
        if (state->node_count == 0) state->node_count = 1;
        if (!tn__reserve(&e->context, &state->nodes, &state->node_room,
                         (size_t)state->node_count + 1, sizeof *state->nodes))
            return TN__NONE;
        id = state->node_count++;
    }
    state->nodes[id] = (class_node){.cost = cost, .parent = TN__NONE, .refs = 1};
    return id;
}

/* Releases one reference to a node; nodes without references become vacant. */
static uint32_t class_unref(dtr_eq_state *state, uint32_t node) {
    while (node != TN__NONE && --state->nodes[node].refs == 0) {
        uint32_t parent = state->nodes[node].parent;
        state->nodes[node].parent = state->vacant;
        state->vacant = node;
        node = parent;
    }
    return node;
}

/* Finds the root of a class. Each node on the path counts as one access, and points to the root
 * afterwards. */
static uint32_t class_find(tn__evict *e, uint32_t node) {
    dtr_eq_state *state = e->state;
    uint32_t root = node;
    for (e->counts.access_count++; state->nodes[root].parent != TN__NONE; e->counts.access_count++)
        root = state->nodes[root].parent;
    while (node != root && state->nodes[node].parent != root) {
        uint32_t next = state->nodes[node].parent;
        state->nodes[node].parent = root;
        state->nodes[root].refs++;
        node = class_unref(state, next);
    }
    return root;
}

static bool dtr_eq_added(tn__evict *e, uint32_t op) {
    dtr_eq_state *state = e->state;
    const tn__evict_op *record = &e->ops[op];
    if (!tn__reserve(&e->context, &state->of, &state->room, e->storage_count, sizeof *state->of) ||
        !tn__reserve(&e->context, &state->stamps, &state->stamp_room, e->storage_count,
                     sizeof *state->stamps))
        return false;
    for (; state->known < e->storage_count; state->known++) {
        state->of[state->known] = TN__NONE;
        state->stamps[state->known] = 0;
    }
    /* a storage whose operator has not run yet counts as cost 0 */
    for (uint32_t o = 0; o < record->output_count; o++) {
        uint32_t tensor = tn__op_outputs(record)[o], storage = e->tensors[tensor].storage;
        if (e->storages[storage].first != tensor || state->of[storage] != TN__NONE) continue;
        if ((state->of[storage] = class_new(e, 0)) == TN__NONE) return false;
    }
    return true;
}

/* Calls `meet` once for every dropped neighbour of this storage. */
static void dtr_eq_beside(tn__evict *e, uint32_t storage,
                          void (*meet)(tn__evict *e, uint32_t other, void *self), void *self) {
    dtr_eq_state *state = e->state;
    const tn__evict_storage *record = &e->storages[storage];
    uint64_t search = ++state->search;
    state->stamps[storage] = search;
    for (int way = 0; way < 2; way++) {
        const tn__links *links = way == 0 ? &record->parents : &record->children;
        const tn__storage_link *items = tn__links_of(links);
        for (uint32_t i = 0; i < links->count; i++) {
            uint32_t other = items[i].storage;
            e->counts.access_count += items[i].count;
            if (state->stamps[other] == search || state->of[other] == TN__NONE) continue;
            state->stamps[other] = search;
            if (e->storages[other].state == TN__DROPPED) meet(e, other, self);
        }
    }
}

static void dtr_eq_join(tn__evict *e, uint32_t other, void *self) {
    dtr_eq_state *state = e->state;
    uint32_t storage = *(const uint32_t *)self;
    uint32_t from = class_find(e, state->of[other]), to = class_find(e, state->of[storage]);
    if (from == to) return;
    state->nodes[from].parent = to;
    state->nodes[to].refs++;
    state->nodes[to].cost += state->nodes[from].cost;
}

static bool dtr_eq_evicted(tn__evict *e, uint32_t storage) {
    dtr_eq_state *state = e->state;
    if (state->of[storage] == TN__NONE)
        state->of[storage] = class_new(e, (int64_t)e->storages[storage].cost);
    if (state->of[storage] == TN__NONE) return false;
    dtr_eq_beside(e, storage, dtr_eq_join, &storage);
    return true;
}

static void dtr_eq_leave(tn__evict *e, uint32_t storage) {
    dtr_eq_state *state = e->state;
    if (storage >= state->known || state->of[storage] == TN__NONE) return;
    uint32_t root = class_find(e, state->of[storage]);
    root =
        /* looks up the class twice, because DTR counts two accesses: one reads the sum, the other
         * writes it */
        class_find(e, state->of[storage]);
    state->nodes[root].cost -= (int64_t)e->storages[storage].cost;
    class_unref(state, state->of[storage]);
    state->of[storage] = TN__NONE;
}

static bool dtr_eq_made(tn__evict *e, const uint32_t *storages, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) dtr_eq_leave(e, storages[i]);
    return true;
}

static void dtr_eq_close(tn__evict *e) {
    dtr_eq_state *state = e->state;
    tn__free(&e->context, state->nodes, state->node_room * sizeof *state->nodes);
    tn__free(&e->context, state->of, state->room * sizeof *state->of);
    tn__free(&e->context, state->stamps, state->stamp_room * sizeof *state->stamps);
}

static void dtr_eq_add(tn__evict *e, uint32_t other, void *self) {
    dtr_eq_state *state = e->state;
    int64_t *sum = self;
    uint32_t root = class_find(e, state->of[other]);
    if (state->nodes[root].seen == state->search) return;
    state->nodes[root].seen = state->search;
    *sum += state->nodes[root].cost;
}

static double dtr_eq_score(tn__evict *e, uint32_t storage) {
    const tn__evict_storage *record = &e->storages[storage];
    int64_t cost = (int64_t)record->cost;
    tn__wide den = tn__stale_bytes(e, record);
    e->counts.access_count++;
    dtr_eq_beside(e, storage, dtr_eq_add, &cost);
    if (den == 0) return (double)INFINITY;
    return cost < 0 ? -tn__ratio((uint64_t)-cost, den) : tn__ratio((uint64_t)cost, den);
}

const tn__policy tn__policy_dtr_eq = {
    .name = "dtr-eq",
    .summary = "DTR: cost with equivalence classes of evicted neighbours / (bytes * staleness)",
    .source = "Kirisame et al. 2021, h_eq",
    .features = TN__POLICY_LINKS | TN__POLICY_PUBLISHED,
    .state_size = sizeof(dtr_eq_state),
    .added = dtr_eq_added,
    .evicted = dtr_eq_evicted,
    .made = dtr_eq_made,
    .vanished = dtr_eq_leave,
    .close = dtr_eq_close,
    .score = dtr_eq_score};
