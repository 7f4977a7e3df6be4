/* object_min_cost_flow.c - decides which buffer follows which in each object, as a flow of least
 * cost.
 *
 *   source -> left i      cost 0        another buffer may follow buffer i
 *   left j -> right i     cost of growth from j's size to i's, where j has ended before i begins
 *   source -> right i     cost of i's size: a new object
 *   right i -> sink       cost 0        buffer i has an object
 *
 * Every unit of flow gives one buffer an object: a new one, or that of a buffer that has ended. The
 * cost is exact for pairs and approximate for chains (an object that has grown is larger than its
 * last buffer), so the result is good but not optimal.
 *
 * The method is successive shortest paths; a queue relaxes arcs level by level, because residual
 * arcs have negative costs. The solver is written here instead of taken from a library: the tables
 * of TensorFlow Lite can only be reproduced if ties between paths are broken as it breaks them,
 * which no library promises. Potentials and Dijkstra's algorithm would be faster but break ties
 * differently.
 *
 * Cost: O(n^2) arcs of 32 bytes, refused beyond MIN_COST_ARCS; n times a queue search.
 * Source: Lee et al. 2019 (arXiv:1907.01989), section on memory; TensorFlow Lite, MINCOSTFLOW.
 */
#include "plan/sharing/object.h"

/* limit of the arcs, including reverse arcs, which then take 256 MiB */
#define MIN_COST_ARCS ((size_t)1 << 23)
#define MIN_COST_FAR INT64_MAX

typedef struct min_cost_arc {
    int64_t cost;
    uint32_t to;
    /* next arc of the same vertex, in order of insertion; UINT32_MAX: there is no next arc */
    uint32_t next;
    /* whether the arc can take one unit of flow; arc k ^ 1 is the arc of the opposite direction */
    bool open;
} min_cost_arc;

typedef struct min_cost {
    tn_object_run *run;
    uint32_t n, source, sink;
    min_cost_arc *arcs;
    size_t arc_room;
    uint32_t arc_count;
    uint32_t *first, *last; /* [vertex], first and last arc of each vertex */
    int64_t *distance;      /* [vertex] */
    /* [vertex], the arc by which the shortest path found so far enters the vertex */
    uint32_t *came_by;
    uint32_t *level; /* [vertex], the last level of the search for which the vertex was queued */
    uint32_t *now, *then; /* queues */
    uint64_t steps;
} min_cost;

static bool min_cost_half(min_cost *flow, uint32_t from, uint32_t to, int64_t cost, bool open) {
    if (!tn__reserve(flow->run->context, &flow->arcs, &flow->arc_room, (size_t)flow->arc_count + 1,
                     sizeof *flow->arcs))
        return false;
    uint32_t arc = flow->arc_count++;
    flow->arcs[arc] = (min_cost_arc){.cost = cost, .to = to, .next = UINT32_MAX, .open = open};
    if (flow->first[from] == UINT32_MAX)
        flow->first[from] = arc;
    else
        flow->arcs[flow->last[from]].next = arc;
    flow->last[from] = arc;
    return true;
}

static tn_status min_cost_arc_add(min_cost *flow, uint32_t from, uint32_t to, uint64_t cost) {
    if (flow->arc_count + 2 > MIN_COST_ARCS)
        TN_FAIL(flow->run->error, TN_E_STOPPED,
                "min-cost-flow: more than %zu arcs for %u buffers; use another strategy",
                MIN_COST_ARCS, flow->n);
    return min_cost_half(flow, from, to, (int64_t)cost, true) &&
                   min_cost_half(flow, to, from, -(int64_t)cost, false)
               ? TN_OK
               : TN_E_NO_MEMORY;
}

static tn_status min_cost_build(min_cost *flow) {
    tn_object_run *run = flow->run;
    tn__object_heap in_use;
    uint32_t *ended = tn__object_scratch(run, run->count, sizeof *ended), ended_count = 0;
    if (ended == NULL || !tn__object_heap_init(run, &in_use)) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < flow->n; i++) {
        while (tn__object_heap_pop(&in_use, run->records[i].first, &ended[ended_count]))
            ended_count++;
        tn__object_heap_push(&in_use, run->records[i].last, i);
        TN_TRY(min_cost_arc_add(flow, flow->source, i, 0));
        TN_TRY(min_cost_arc_add(flow, flow->n + i, flow->sink, 0));
        TN_TRY(min_cost_arc_add(flow, flow->source, flow->n + i, run->bulk[i]));
        for (uint32_t k = 0; k < ended_count; k++) {
            uint64_t have = run->bulk[ended[k]], need = run->bulk[i];
            TN_TRY(min_cost_arc_add(flow, ended[k], flow->n + i, need > have ? need - have : 0));
        }
        TN_TRY(tn__object_work(run, 1 + ended_count / 256));
    }
    return TN_OK;
}

/* Relaxes the arcs that leave `vertex`. Vertices with a decreased distance are queued for the next
 * level of the search; returns their number. */
static uint32_t min_cost_relax(min_cost *flow, uint32_t vertex, uint32_t level, uint32_t queued) {
    for (uint32_t at = flow->first[vertex]; at != UINT32_MAX; at = flow->arcs[at].next) {
        const min_cost_arc *arc = &flow->arcs[at];
        flow->steps++;
        if (!arc->open || flow->distance[vertex] + arc->cost >= flow->distance[arc->to]) continue;
        flow->distance[arc->to] = flow->distance[vertex] + arc->cost;
        flow->came_by[arc->to] = at;
        if (flow->level[arc->to] == level) continue;
        flow->level[arc->to] = level;
        flow->then[queued++] = arc->to;
    }
    return queued;
}

/* Searches a shortest path from source to sink. Distances are sums of sizes along simple paths, so
 * they fit in 63 bits as the sum of all sizes does. */
static tn_status min_cost_search(min_cost *flow) {
    uint32_t vertices = 2 * flow->n + 2, count = 1;
    for (uint32_t v = 0; v < vertices; v++) {
        flow->distance[v] = MIN_COST_FAR;
        flow->level[v] = 0;
    }
    flow->distance[flow->source] = 0;
    flow->now[0] = flow->source;
    for (uint32_t level = 1; count > 0; level++) {
        uint32_t queued = 0;
        for (uint32_t i = 0; i < count; i++)
            queued = min_cost_relax(flow, flow->now[i], level, queued);
        uint32_t *swap = flow->now;
        flow->now = flow->then;
        flow->then = swap;
        count = queued;
        TN_TRY(tn__object_work(flow->run, 1 + flow->steps / 64));
        flow->steps %= 64;
    }
    return TN_OK;
}

static tn_status min_cost_solve_flow(min_cost *flow) {
    for (;;) {
        TN_TRY(min_cost_search(flow));
        if (flow->distance[flow->sink] == MIN_COST_FAR) return TN_OK;
        for (uint32_t v = flow->sink; v != flow->source;) {
            uint32_t arc = flow->came_by[v];
            flow->arcs[arc].open = false;
            flow->arcs[arc ^ 1].open = true;
            v = flow->arcs[arc ^ 1].to;
        }
    }
}

/* Returns the buffer that follows `id` in its object; UINT32_MAX: none does. It is read from the
 * flow: a used arc leads from the left vertex of `id` to the right vertex of the buffer that
 * follows. */
static uint32_t min_cost_next(const min_cost *flow, uint32_t id) {
    for (uint32_t at = flow->first[id]; at != UINT32_MAX; at = flow->arcs[at].next) {
        const min_cost_arc *arc = &flow->arcs[at];
        if (arc->open || arc->to < flow->n || arc->to >= flow->source) continue;
        if (flow->run->object[arc->to - flow->n] == UINT32_MAX) return arc->to - flow->n;
    }
    return UINT32_MAX;
}

static void min_cost_read(min_cost *flow) {
    for (uint32_t at = flow->first[flow->source]; at != UINT32_MAX; at = flow->arcs[at].next) {
        const min_cost_arc *arc = &flow->arcs[at];
        if (arc->open || arc->to < flow->n) continue;
        uint32_t id = arc->to - flow->n, object = tn__object_new(flow->run, id);
        while ((id = min_cost_next(flow, id)) != UINT32_MAX) tn__object_join(flow->run, id, object);
    }
}

static tn_status min_cost_flow_solve(tn_object_run *run) {
    min_cost flow = {.run = run, .n = run->count};
    if (run->count > UINT32_MAX / 4)
        TN_FAIL(run->error, TN_E_STOPPED, "min-cost-flow: too many buffers");
    size_t vertices = 2 * (size_t)flow.n + 2;
    flow.source = 2 * flow.n;
    flow.sink = flow.source + 1;
    flow.first = tn__object_scratch(run, vertices, sizeof *flow.first);
    flow.last = tn__object_scratch(run, vertices, sizeof *flow.last);
    flow.distance = tn__object_scratch(run, vertices, sizeof *flow.distance);
    flow.came_by = tn__object_scratch(run, vertices, sizeof *flow.came_by);
    flow.level = tn__object_scratch(run, vertices, sizeof *flow.level);
    flow.now = tn__object_scratch(run, vertices, sizeof *flow.now);
    flow.then = tn__object_scratch(run, vertices, sizeof *flow.then);
    if (!flow.first || !flow.last || !flow.distance || !flow.came_by || !flow.level || !flow.now ||
        !flow.then)
        return TN_E_NO_MEMORY;
    for (size_t v = 0; v < vertices; v++) flow.first[v] = UINT32_MAX;
    tn_status status = min_cost_build(&flow);
    if (status == TN_OK) status = min_cost_solve_flow(&flow);
    if (status == TN_OK) min_cost_read(&flow);
    tn__free(run->context, flow.arcs, flow.arc_room * sizeof *flow.arcs);
    return status;
}

const tn_object_strategy tn__object_min_cost_flow = {
    .name = "min-cost-flow",
    .summary = "assigns successors by minimum-cost flow; slow beyond a thousand buffers",
    .source = "Lee et al. 2019; TensorFlow Lite",
    .features = TN_OBJECTS_BYTES,
    .solve = min_cost_flow_solve,
};
