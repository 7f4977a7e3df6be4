/* search.c - searches orders as paths through states: complete search and beam search.
 *
 * A state is the set of nodes that have run; it determines the live bytes. Two paths to one
 * state differ only in their worst step, so the better one is kept. Steps that are free
 * (walk.c) within the worst step so far are taken at once: only steps that raise the live
 * bytes are a choice.
 *
 * Complete: takes states by lowest worst step, then by most nodes run. This is a bottleneck
 * Dijkstra that goes depth-first while the worst step stays the same. The lowest worst step
 * among the open states is a lower bound at any time.
 *
 * Beam: takes states by the number of nodes run, and keeps the best few states for each number.
 *
 * States are identified by 128 bits of Zobrist hash. To change from one state to another, the
 * walk undoes and redoes the steps in which their paths differ; neighbours differ in few steps.
 *
 * Cost: O(ready x operands of a node) per state.
 */
#include "program/order/order.h"
#include "base/heap.h"

/* limit for the states of a beam search, which bounds its memory */
#define SEARCH_STATES_MAX 1000000u

typedef struct order_state {
    uint64_t hash[2];
    uint64_t peak, live;
    uint32_t way; /* index in search->ways of the last node of the path to this state */
    uint32_t ran;
    uint32_t next;  /* next state in the same slot of the hash table of states */
    uint32_t level; /* next state in the list of states with the same number of nodes run */
} order_state;

typedef struct search_way { /* a node of a path; paths form a tree with shared prefixes */
    uint32_t before, node;
} search_way;

typedef struct search_run {
    tn__order_walk *walk;
    const tn__order_model *model;
    const tn_context *context;
    /* [nodes x 2] random keys; the hash of a state combines those of the nodes that have run */
    uint64_t *keys;
    /* [nodes] ready: the nodes that may run now. place: the index of each node in `ready`, or
     * ORDER_NONE */
    uint32_t *ready, *place;
    uint32_t ready_count;
    uint32_t *done; /* [nodes] the nodes that have run, in the order in which they ran */
    /* [nodes] index in `ways` of the path that ends with this node of `done`; ORDER_NONE while it
     * is not stored */
    uint32_t *done_way;
    uint32_t done_count;
    uint64_t hash[2];
    order_state *states;
    search_way *ways;
    uint32_t *heap, *table, *turn, *path;
    size_t state_count, state_room, way_count, way_room, heap_count, heap_room, table_room;
    uint64_t work; /* number of steps that the search may still visit before it ends */
    uint64_t best; /* peak of the best known order: states must stay below it */
    /* end of the path of an order better than the given one; ORDER_NONE: none found */
    uint32_t best_way;
} search_run;

/* --- the walk, forward and back --- */

static void search_ready_add(search_run *run, uint32_t node) {
    run->place[node] = run->ready_count;
    run->ready[run->ready_count++] = node;
}

static void search_ready_drop(search_run *run, uint32_t node) {
    uint32_t at = run->place[node], moved = run->ready[--run->ready_count];
    run->ready[at] = moved;
    run->place[moved] = at;
    run->place[node] = ORDER_NONE;
}

static void search_step(search_run *run, uint32_t node, uint32_t way) {
    const tn__order_model *model = run->model;
    search_ready_drop(run, node);
    tn__order_step(run->walk, node);
    for (uint32_t k = model->after_at[node]; k < model->after_at[node + 1]; k++)
        if (run->walk->waiting[model->after[k]] == 0) search_ready_add(run, model->after[k]);
    run->done[run->done_count] = node;
    run->done_way[run->done_count++] = way;
    run->hash[0] ^= run->keys[2 * node];
    run->hash[1] ^= run->keys[2 * node + 1];
}

static void search_undo(search_run *run) {
    const tn__order_model *model = run->model;
    uint32_t node = run->done[--run->done_count];
    for (uint32_t k = model->after_at[node]; k < model->after_at[node + 1]; k++)
        if (run->walk->waiting[model->after[k]] == 0) search_ready_drop(run, model->after[k]);
    tn__order_undo(run->walk, node);
    search_ready_add(run, node);
    run->hash[0] ^= run->keys[2 * node];
    run->hash[1] ^= run->keys[2 * node + 1];
}

/* Runs ready nodes that are free (that release at least the bytes they make) and cost at most
 * `limit`, as long as there are any. */
static void search_close(search_run *run, uint64_t limit) {
    for (uint32_t i = 0; i < run->ready_count;) {
        uint32_t node = run->ready[i];
        if (run->work > 0) run->work--;
        if (tn__order_net(run->walk, node) > 0 || tn__order_cost(run->walk, node) > limit) {
            i++;
            continue;
        }
        uint64_t before = run->walk->live;
        /* search_step replaces the node at this index by another one, so the index is not
         * increased */
        search_step(run, node, ORDER_NONE);
        if (run->walk->live < before) i = 0;
    }
}

/* Moves the walk from its current state to the end of the path `way`. */
static void search_go(search_run *run, uint32_t way, uint32_t ran) {
    uint32_t missing = 0;
    while (run->done_count > ran) search_undo(run);
    while (ran > run->done_count) {
        run->path[missing++] = way;
        way = run->ways[way].before;
        ran--;
    }
    while (ran > 0 && run->done_way[ran - 1] != way) {
        run->path[missing++] = way;
        way = run->ways[way].before;
        ran--;
        search_undo(run);
    }
    while (missing > 0) {
        uint32_t next = run->path[--missing];
        search_step(run, run->ways[next].node, next);
    }
}

/* --- states --- */

static bool search_grow_table(search_run *run) {
    size_t room = run->table_room == 0 ? 1024 : 2 * run->table_room;
    uint32_t *table = tn__alloc_array(run->context, room, sizeof *table);
    if (table == NULL) return false;
    for (size_t i = 0; i < room; i++) table[i] = ORDER_NONE;
    for (size_t i = 0; i < run->state_count; i++) {
        order_state *state = &run->states[i];
        uint32_t *slot = &table[state->hash[0] & (room - 1)];
        state->next = *slot;
        *slot = (uint32_t)i;
    }
    tn__free(run->context, run->table, run->table_room * sizeof *run->table);
    run->table = table;
    run->table_room = room;
    return true;
}

/* Finds or adds the current state of the walk; a new state has peak UINT64_MAX. Returns ORDER_NONE
 * if memory runs out. */
static uint32_t search_find(search_run *run) {
    if (run->state_count >= run->table_room && !search_grow_table(run)) return ORDER_NONE;
    uint32_t *slot = &run->table[run->hash[0] & (run->table_room - 1)];
    for (uint32_t id = *slot; id != ORDER_NONE; id = run->states[id].next)
        if (run->states[id].hash[0] == run->hash[0] && run->states[id].hash[1] == run->hash[1])
            return id;
    if (!tn__reserve(run->context, &run->states, &run->state_room, run->state_count + 1,
                     sizeof *run->states))
        return ORDER_NONE;
    uint32_t id = (uint32_t)run->state_count++;
    run->states[id] = (order_state){.hash = {run->hash[0], run->hash[1]},
                                    .peak = UINT64_MAX,
                                    .live = run->walk->live,
                                    .way = ORDER_NONE,
                                    .ran = run->done_count,
                                    .next = *slot,
                                    .level = ORDER_NONE};
    *slot = id;
    return id;
}

/* Stores the part of the walk's current path that is not stored in `ways` yet, and sets *way to the
 * path's end. Returns false if memory runs out. */
static bool search_store_way(search_run *run, uint32_t *way) {
    uint32_t from = run->done_count;
    while (from > 0 && run->done_way[from - 1] == ORDER_NONE) from--;
    if (!tn__reserve(run->context, &run->ways, &run->way_room,
                     run->way_count + run->done_count - from, sizeof *run->ways))
        return false;
    for (; from < run->done_count; from++) {
        uint32_t before = from == 0 ? ORDER_NONE : run->done_way[from - 1];
        run->done_way[from] = (uint32_t)run->way_count;
        run->ways[run->way_count++] = (search_way){before, run->done[from]};
    }
    *way = run->done_count == 0 ? ORDER_NONE : run->done_way[run->done_count - 1];
    return true;
}

/* --- the heap: lowest peak first, then most nodes run, then oldest --- */

static bool search_before(const search_run *run, const uint32_t *a, const uint32_t *b) {
    const order_state *x = &run->states[*a], *y = &run->states[*b];
    if (x->peak != y->peak) return x->peak < y->peak;
    if (x->ran != y->ran) return x->ran > y->ran;
    return *a < *b;
}
TN__HEAP_OF(search_heap, const search_run, uint32_t, search_before, TN__HEAP_UNPLACED)

static bool search_push(search_run *run, uint32_t id) {
    if (!tn__reserve(run->context, &run->heap, &run->heap_room, run->heap_count + 1,
                     sizeof *run->heap))
        return false;
    search_heap_push(run, run->heap, run->heap_count++, id);
    return true;
}

static uint32_t search_pop(search_run *run) {
    return search_heap_pop(run, run->heap, run->heap_count--);
}

/* --- expanding --- */

/* Handles the state that the walk has reached; `peak` is the most live bytes of a step on its path.
 * Keeps the state if it is new or if this path is better, and records a complete order as the best
 * if it is better. *id receives the state, or ORDER_NONE if it is not kept. Returns false if memory
 * runs out. */
static bool search_keep(search_run *run, uint64_t peak, uint32_t *id) {
    *id = ORDER_NONE;
    uint32_t found = search_find(run);
    if (found == ORDER_NONE) return false;
    order_state *state = &run->states[found];
    if (peak >= state->peak) return true;
    uint32_t way;
    if (!search_store_way(run, &way)) return false;
    state->peak = peak;
    state->way = way;
    if (run->done_count == run->model->count) {
        run->best = peak;
        run->best_way = way;
    } else {
        *id = found;
    }
    return true;
}

/* Visits all states that follow state `id` by one choice and stay below the best peak; calls `take`
 * for each that is kept. */
static bool search_expand(search_run *run, uint32_t id,
                          bool (*take)(search_run *run, uint32_t id)) {
    const order_state state = run->states[id];
    search_go(run, state.way, state.ran);
    uint32_t count = run->ready_count;
    memcpy(run->turn, run->ready, count * sizeof *run->turn);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t cost = tn__order_cost(run->walk, run->turn[i]);
        uint64_t peak = cost > state.peak ? cost : state.peak;
        uint32_t kept;
        if (peak >= run->best) continue;
        search_step(run, run->turn[i], ORDER_NONE);
        search_close(run, peak);
        if (!search_keep(run, peak, &kept) || (kept != ORDER_NONE && !take(run, kept)))
            return false;
        while (run->done_count > state.ran) search_undo(run);
    }
    return true;
}

/* --- begin and end of both searches --- */

static void search_release(search_run *run) {
    const tn_context *context = run->context;
    size_t count = run->model->count;
    tn__free(context, run->keys, 2 * count * sizeof *run->keys);
    tn__free(context, run->ready, count * sizeof *run->ready);
    tn__free(context, run->place, count * sizeof *run->place);
    tn__free(context, run->done, count * sizeof *run->done);
    tn__free(context, run->done_way, count * sizeof *run->done_way);
    tn__free(context, run->turn, count * sizeof *run->turn);
    tn__free(context, run->path, count * sizeof *run->path);
    tn__free(context, run->states, run->state_room * sizeof *run->states);
    tn__free(context, run->ways, run->way_room * sizeof *run->ways);
    tn__free(context, run->heap, run->heap_room * sizeof *run->heap);
    tn__free(context, run->table, run->table_room * sizeof *run->table);
}

/* Prepares a search. Its first state is the one after all nodes have run that are free (release at
 * least the bytes they make) within the lower bound. */
static bool search_make(search_run *run, tn__order_walk *walk, const tn__order_result *result,
                        uint64_t work, uint32_t *first) {
    const tn__order_model *model = walk->model;
    size_t count = model->count;
    tn__random random = {.state = 3};
    *run = (search_run){.walk = walk, .model = model, .context = model->context};
    run->best = result->peak;
    run->work = work;
    run->best_way = ORDER_NONE;
    run->keys = tn__alloc_array(run->context, 2 * count, sizeof *run->keys);
    run->ready = tn__alloc_array(run->context, count, sizeof *run->ready);
    run->place = tn__alloc_array(run->context, count, sizeof *run->place);
    run->done = tn__alloc_array(run->context, count, sizeof *run->done);
    run->done_way = tn__alloc_array(run->context, count, sizeof *run->done_way);
    run->turn = tn__alloc_array(run->context, count, sizeof *run->turn);
    run->path = tn__alloc_array(run->context, count, sizeof *run->path);
    if (!run->keys || !run->ready || !run->place || !run->done || !run->done_way || !run->turn ||
        !run->path)
        return false;
    for (size_t i = 0; i < 2 * count; i++) run->keys[i] = tn__random_next(&random);
    tn__order_walk_reset(walk);
    for (uint32_t p = 0; p < count; p++)
        if (walk->waiting[p] == 0) search_ready_add(run, p);
    search_close(run, result->bound);
    return search_keep(run, result->bound, first);
}

static void search_finish(const search_run *run, uint32_t *order, tn__order_result *result) {
    uint32_t at = run->model->count;
    result->states += run->state_count;
    result->peak = run->best;
    for (uint32_t way = run->best_way; way != ORDER_NONE; way = run->ways[way].before)
        order[--at] = run->ways[way].node;
}

tn_status tn__order_exact(tn__order_walk *walk, uint32_t *order, tn__order_result *result,
                          uint64_t limit, uint64_t work, tn_error *error) {
    search_run run;
    uint32_t first;
    bool all = search_make(&run, walk, result, work, &first);
    if (all && first != ORDER_NONE) all = search_push(&run, first);
    uint64_t bound = run.best;
    while (all && run.heap_count > 0 && run.best > result->bound) {
        uint32_t id = search_pop(&run);
        bound = run.states[id].peak;
        if (bound >= run.best || run.state_count >= limit || run.work == 0) break;
        all = search_expand(&run, id, search_push);
        bound = run.best;
    }
    if (all) search_finish(&run, order, result);
    if (all && bound > run.best) bound = run.best;
    if (all && bound > result->bound) result->bound = bound;
    search_release(&run);
    return all ? TN_OK : tn__no_memory(error, "the search for an order");
}

/* --- beam --- */

static int search_level_order(const void *a, const void *b) {
    const order_state *x = a, *y = b;
    if (x->peak != y->peak) return x->peak < y->peak ? -1 : 1;
    if (x->live != y->live) return x->live < y->live ? -1 : 1;
    /* `level` holds the state's number during a sort; it breaks ties */
    return (x->level > y->level) - (x->level < y->level);
}

/* Adds a state to the list of its level, the states with one number of nodes run; heap[k] is 1 plus
 * the head of the list of level k. */
static bool search_enlist(search_run *run, uint32_t id) {
    order_state *state = &run->states[id];
    /* the state is in this list already; only the path to it has changed */
    if (state->level != ORDER_NONE) return true;
    uint32_t *head = &run->heap[state->ran];
    state->level = *head;
    *head = id + 1; /* a list ends with 0, so the state's number is stored plus one */
    return true;
}

/* Collects the states of a level into a new array, the best first. */
static order_state *search_level(search_run *run, uint32_t level, size_t *count) {
    *count = 0;
    for (uint32_t id = run->heap[level]; id != 0; id = run->states[id - 1].level) ++*count;
    order_state *members = tn__alloc_array(run->context, *count, sizeof *members);
    size_t at = 0;
    for (uint32_t id = run->heap[level]; id != 0 && members; id = run->states[id - 1].level) {
        members[at] = run->states[id - 1];
        members[at++].level = id - 1;
    }
    if (members != NULL && at > 0) qsort(members, at, sizeof *members, search_level_order);
    return members;
}

tn_status tn__order_beam(tn__order_walk *walk, uint32_t *order, tn__order_result *result,
                         uint32_t width, uint64_t work, tn_error *error) {
    search_run run;
    uint32_t first, levels = walk->model->count;
    bool all = search_make(&run, walk, result, work, &first);
    run.heap = all ? tn__alloc_array(run.context, (size_t)levels + 1, sizeof *run.heap) : NULL;
    run.heap_room = run.heap ? (size_t)levels + 1 : 0;
    all = all && run.heap != NULL;
    if (all && first != ORDER_NONE) all = search_enlist(&run, first);
    for (uint32_t level = 0;
         level < levels && all && run.work > 0 && run.state_count < SEARCH_STATES_MAX; level++) {
        size_t count;
        if (run.heap[level] == 0) continue;
        order_state *members = search_level(&run, level, &count);
        all = members != NULL;
        for (size_t i = 0; i < count && i < width && all; i++)
            all =
                members[i].peak >= run.best || search_expand(&run, members[i].level, search_enlist);
        tn__free(run.context, members, count * sizeof *members);
    }
    if (all) search_finish(&run, order, result);
    search_release(&run);
    return all ? TN_OK : tn__no_memory(error, "the search for an order");
}

uint32_t tn__order_width(tn__order_walk *walk, const uint32_t *order) {
    const tn__order_model *model = walk->model;
    uint64_t ready = 0, sum = 0;
    tn__order_walk_reset(walk);
    for (uint32_t p = 0; p < model->count; p++) ready += walk->waiting[p] == 0;
    for (uint32_t i = 0; i < model->count; i++) {
        sum += ready--;
        tn__order_step(walk, order[i]);
        for (uint32_t k = model->after_at[order[i]]; k < model->after_at[order[i] + 1]; k++)
            ready += walk->waiting[model->after[k]] == 0;
    }
    return (uint32_t)(sum / (model->count + 1)) + 1;
}
