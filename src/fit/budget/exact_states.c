/* exact_states.c - the set of states (a hash table over flat arrays), and the queue of states to
 * visit (a 4-ary heap). A state that is reached at a lower cost is queued again; its outdated entry
 * is recognised by the cost stored in it. Cost: O(words of a key) for a lookup on average, O(log
 * states) for the queue. */
#include "fit/budget/exact.h"

#define STATES_MOST (1u << 26)

void tn__exact_states_init(exact_states *states, const tn_context *context, uint32_t stride) {
    *states = (exact_states){.context = *context, .stride = stride};
    tn__table_init(&states->table, &states->context);
}

void tn__exact_states_release(exact_states *s) {
    tn__free(&s->context, s->keys, s->key_room * sizeof *s->keys);
    tn__free(&s->context, s->costs, s->cost_room * sizeof *s->costs);
    tn__free(&s->context, s->bounds, s->bound_room * sizeof *s->bounds);
    tn__free(&s->context, s->parents, s->parent_room * sizeof *s->parents);
    tn__free(&s->context, s->by, s->by_room * sizeof *s->by);
    tn__table_release(&s->table);
    tn__free(&s->context, s->queue, s->queue_room * sizeof *s->queue);
    *s = (exact_states){.context = s->context, .stride = s->stride};
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

static bool states_room(exact_states *s) {
    size_t need = (size_t)s->count + 1;
    return s->count < STATES_MOST && tn__table_reserve(&s->table, need) &&
           tn__reserve(&s->context, &s->keys, &s->key_room, need * s->stride, sizeof *s->keys) &&
           tn__reserve(&s->context, &s->costs, &s->cost_room, need, sizeof *s->costs) &&
           tn__reserve(&s->context, &s->bounds, &s->bound_room, need, sizeof *s->bounds) &&
           tn__reserve(&s->context, &s->parents, &s->parent_room, need, sizeof *s->parents) &&
           tn__reserve(&s->context, &s->by, &s->by_room, need, sizeof *s->by);
}

uint32_t tn__exact_state(exact_states *s, const uint64_t *key, bool *is_new) {
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

/* Order: lower cost, then more progress, then found later; the last one makes the search
 * depth-first among equal costs. */
static bool states_before(const exact_queued *a, const exact_queued *b) {
    if (a->cost != b->cost) return a->cost < b->cost;
    return a->progress != b->progress ? a->progress > b->progress : a->state > b->state;
}

bool tn__exact_push(exact_states *s, exact_queued what) {
    if (!tn__reserve(&s->context, &s->queue, &s->queue_room, s->queued + 1, sizeof what))
        return false;
    size_t at = s->queued++;
    for (; at > 0 && states_before(&what, &s->queue[(at - 1) / 4]); at = (at - 1) / 4)
        s->queue[at] = s->queue[(at - 1) / 4];
    s->queue[at] = what;
    return true;
}

exact_queued tn__exact_pop(exact_states *s) {
    exact_queued top = s->queue[0], moved = s->queue[--s->queued];
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
