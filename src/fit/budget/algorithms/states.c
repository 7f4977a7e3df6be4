/* states.c - the set of states of a search, a hash table over flat arrays, and the queue of states
 * to visit, a 4-ary heap. A state that is reached again at a lower cost is queued again; the cost
 * stored in its old entry no longer agrees with the state, so that the old entry is recognised as
 * outdated. Cost: O(words of a key) on average to find a state, O(log states) for an operation of
 * the queue. */
#include "fit/budget/algorithms/states.h"

#define STATES_MOST (1u << 26)

void tn__states_init(tn__states *states, const tn_context *context, uint32_t stride) {
    *states = (tn__states){.context = *context, .stride = stride};
    tn__table_init(&states->table, &states->context);
}

void tn__states_release(tn__states *s) {
    tn__free(&s->context, s->keys, s->key_room * sizeof *s->keys);
    tn__free(&s->context, s->costs, s->cost_room * sizeof *s->costs);
    tn__free(&s->context, s->bounds, s->bound_room * sizeof *s->bounds);
    tn__free(&s->context, s->parents, s->parent_room * sizeof *s->parents);
    tn__free(&s->context, s->by, s->by_room * sizeof *s->by);
    tn__table_release(&s->table);
    tn__free(&s->context, s->queue, s->queue_room * sizeof *s->queue);
    *s = (tn__states){.context = s->context, .stride = s->stride};
    tn__table_init(&s->table, &s->context);
}

static uint64_t states_hash(const uint64_t *key, uint32_t stride) {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (uint32_t i = 0; i < stride; i++) {
        hash = (hash ^ key[i]) * 0xbf58476d1ce4e5b9u;
        hash ^= hash >> 29;
    }
    return hash * 0x94d049bb133111ebu >> 7;
}

static bool states_room(tn__states *s) {
    size_t need = (size_t)s->count + 1;
    return s->count < STATES_MOST && tn__table_reserve(&s->table, need) &&
           tn__reserve(&s->context, &s->keys, &s->key_room, need * s->stride, sizeof *s->keys) &&
           tn__reserve(&s->context, &s->costs, &s->cost_room, need, sizeof *s->costs) &&
           tn__reserve(&s->context, &s->bounds, &s->bound_room, need, sizeof *s->bounds) &&
           tn__reserve(&s->context, &s->parents, &s->parent_room, need, sizeof *s->parents) &&
           tn__reserve(&s->context, &s->by, &s->by_room, need, sizeof *s->by);
}

uint32_t tn__states_find(tn__states *s, const uint64_t *key, bool *is_new) {
    size_t bytes = s->stride * sizeof *key;
    if (!states_room(s)) return TN_NONE;
    uint64_t hash = states_hash(key, s->stride);
    tn__probe probe = tn__table_probe(&s->table, hash);
    *is_new = false;
    for (uint32_t id; (id = tn__table_next(&s->table, &probe)) != TN__TABLE_NONE;)
        if (memcmp(s->keys + (size_t)id * s->stride, key, bytes) == 0) return id;
    *is_new = true;
    memcpy(s->keys + (size_t)s->count * s->stride, key, bytes);
    if (!tn__table_add(&s->table, hash, s->count)) return TN_NONE;
    return s->count++;
}

/* --- queue --- */

/* The order of the queue: lower cost first, then more progress, then the state that was found
 * later. The last rule makes the search depth-first among equal costs. */
static bool states_before(const tn__state_queued *a, const tn__state_queued *b) {
    if (a->cost != b->cost) return a->cost < b->cost;
    return a->progress != b->progress ? a->progress > b->progress : a->state > b->state;
}

bool tn__states_push(tn__states *s, tn__state_queued what) {
    if (!tn__reserve(&s->context, &s->queue, &s->queue_room, s->queued + 1, sizeof what))
        return false;
    size_t at = s->queued++;
    for (; at > 0 && states_before(&what, &s->queue[(at - 1) / 4]); at = (at - 1) / 4)
        s->queue[at] = s->queue[(at - 1) / 4];
    s->queue[at] = what;
    return true;
}

tn__state_queued tn__states_pop(tn__states *s) {
    tn__state_queued top = s->queue[0], moved = s->queue[--s->queued];
    size_t at = 0;
    while (4 * at + 1 < s->queued) {
        size_t best = 4 * at + 1, end = best + 4 < s->queued ? best + 4 : s->queued;
        for (size_t child = best + 1; child < end; child++)
            if (states_before(&s->queue[child], &s->queue[best])) best = child;
        if (!states_before(&s->queue[best], &moved)) break;
        s->queue[at] = s->queue[best];
        at = best;
    }
    s->queue[at] = moved;
    return top;
}
