/* bound_flow.c - maximum flow by level graphs (Dinitz 1970): augmenting paths to the sink follow
 * arcs that lead one level on, until no path is left; then the levels are computed again. Cost:
 * O(nodes^2 * arcs) at worst; the caller limits the number of arcs visited. */
#include "fit/budget/bound.h"

bool tn__flow_room(tn__bound_flow *flow, uint32_t nodes, uint32_t arcs, tn__arena *arena) {
    *flow = (tn__bound_flow){.node_count = nodes, .arc_room = 2 * arcs};
    size_t room = 2 * (size_t)arcs + 2, count = (size_t)nodes + 1;
    flow->first = tn__arena_array(arena, count, sizeof *flow->first);
    flow->level = tn__arena_array(arena, count, sizeof *flow->level);
    flow->at = tn__arena_array(arena, count, sizeof *flow->at);
    flow->queue = tn__arena_array(arena, count, sizeof *flow->queue);
    flow->to = tn__arena_array(arena, room, sizeof *flow->to);
    flow->next = tn__arena_array(arena, room, sizeof *flow->next);
    flow->left = tn__arena_array(arena, room, sizeof *flow->left);
    flow->full = tn__arena_array(arena, room, sizeof *flow->full);
    return flow->first != NULL && flow->level != NULL && flow->at != NULL && flow->queue != NULL &&
           flow->to != NULL && flow->next != NULL && flow->left != NULL && flow->full != NULL;
}

void tn__flow_clear(tn__bound_flow *flow) {
    flow->arc_count = 0;
    memset(flow->first, 0xff, flow->node_count * sizeof *flow->first);
}

static void flow_half(tn__bound_flow *flow, uint32_t from, uint32_t to, int64_t capacity) {
    uint32_t arc = flow->arc_count++;
    flow->to[arc] = to;
    flow->full[arc] = capacity;
    flow->next[arc] = flow->first[from];
    flow->first[from] = arc;
}

uint32_t tn__flow_arc(tn__bound_flow *flow, uint32_t from, uint32_t to, int64_t capacity) {
    tn_assert(flow->arc_count + 2 <= flow->arc_room);
    flow_half(flow, from, to, capacity);
    flow_half(flow, to, from, 0);
    return flow->arc_count - 2;
}

/* Computes the distances from the source. False: the sink cannot be reached. */
static bool flow_levels(tn__bound_flow *flow, uint32_t source, uint32_t sink) {
    uint32_t count = 1;
    memset(flow->level, 0xff, flow->node_count * sizeof *flow->level);
    flow->level[source] = 0;
    flow->queue[0] = source;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t node = flow->queue[i];
        for (uint32_t arc = flow->first[node]; arc != TN_NONE; arc = flow->next[arc]) {
            uint32_t to = flow->to[arc];
            flow->effort++;
            if (flow->left[arc] == 0 || flow->level[to] != TN_NONE) continue;
            flow->level[to] = flow->level[node] + 1;
            flow->queue[count++] = to;
        }
    }
    return flow->level[sink] != TN_NONE;
}

/* Pushes flow along the complete path in `queue`. */
static int64_t flow_push(tn__bound_flow *flow, uint32_t length) {
    int64_t most = INT64_MAX;
    for (uint32_t i = 0; i < length; i++)
        if (flow->left[flow->queue[i]] < most) most = flow->left[flow->queue[i]];
    for (uint32_t i = 0; i < length; i++) {
        flow->left[flow->queue[i]] -= most;
        flow->left[flow->queue[i] ^ 1] += most;
    }
    flow->effort += length;
    return most;
}

static uint32_t flow_next_arc(tn__bound_flow *flow, uint32_t node) {
    for (; flow->at[node] != TN_NONE; flow->at[node] = flow->next[flow->at[node]]) {
        uint32_t arc = flow->at[node];
        flow->effort++;
        if (flow->left[arc] > 0 && flow->level[flow->to[arc]] == flow->level[node] + 1) return arc;
    }
    return TN_NONE;
}

/* Augments along all paths of one level graph. After a push, the search continues from the first
 * saturated arc. */
static int64_t flow_phase(tn__bound_flow *flow, uint32_t source, uint32_t sink, uint64_t most) {
    int64_t sum = 0;
    uint32_t length = 0, node = source;
    memcpy(flow->at, flow->first, flow->node_count * sizeof *flow->at);
    while (flow->effort <= most) {
        uint32_t arc = node == sink ? TN_NONE : flow_next_arc(flow, node);
        if (arc != TN_NONE) {
            flow->queue[length++] = arc;
            node = flow->to[arc];
        } else if (node == sink) {
            sum += flow_push(flow, length);
            for (uint32_t i = 0; i < length; i++)
                if (flow->left[flow->queue[i]] == 0) length = i;
            node = flow->to[flow->queue[length] ^ 1];
        } else if (length == 0) {
            return sum;
        } else {
            node = flow->to[flow->queue[--length] ^ 1];
            flow->at[node] = flow->next[flow->at[node]];
        }
    }
    return sum;
}

int64_t tn__flow_cut(tn__bound_flow *flow, uint32_t source, uint32_t sink, uint64_t most_effort) {
    int64_t sum = 0;
    memcpy(flow->left, flow->full, flow->arc_count * sizeof *flow->left);
    while (flow->effort <= most_effort && flow_levels(flow, source, sink))
        sum += flow_phase(flow, source, sink, most_effort);
    return flow->effort <= most_effort ? sum : -1;
}
