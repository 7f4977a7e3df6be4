/* cut.c - finds the cheapest moment at which a node can run, by a minimum cut.
 *
 * Before node p some set D of nodes has run: all predecessors of p and none of its successors.
 * M(D) over such sets is a cut. A node is on the source side if it is in D. An item costs its
 * bytes if its maker is in D and one of its users is not:
 *
 *     maker --bytes--> item --infinite--> every user          node --infinite--> its predecessors
 *
 * No order runs p for less than the minimum, so the largest minimum over all nodes is a lower
 * bound of every order. The cut also gives the set that achieves it: run D first.
 *
 * p may overwrite an item if all other users of it have run. These users are put into D, and the
 * cheapest of the alternatives counts.
 *
 * Cost: Dinic's maximum flow, O(V^2 E) at worst, near-linear on the graphs of networks; counted in
 * visited arcs against `work`.
 * Source: J.-C. Picard, Maximal closure of a graph, Management Science 22(11), 1976; E. A. Dinic,
 * 1970.
 */
#include "program/order/order.h"

#define CUT_INFINITE (UINT64_MAX / 4)
/* limit of the arcs of a network: with more, the network would take gigabytes */
#define CUT_ARCS_MAX 100000000u

enum { CUT_FREE, CUT_INSIDE, CUT_OUTSIDE };

typedef struct cut_network {
    const tn__order_model *model;
    uint8_t *side; /* [nodes] the side of the cut to which the node is fixed, one of CUT_* */
    /* [vertices] first arc of each vertex. Vertices are nodes, items, source and sink. */
    uint32_t *head;
    uint32_t *level, *current, *queue;
    /* [arcs] the vertex to which the arc leads, and the next arc that leaves the same vertex. Arcs
     * k and k ^ 1 are each other's reverse */
    uint32_t *to, *next;
    uint64_t *room;
    uint32_t arc_count, arc_room, vertex_count, source, sink;
    uint64_t base; /* bytes that every cut of this network contains */
    uint64_t *work;
} cut_network;

static void cut_arc(cut_network *net, uint32_t from, uint32_t to, uint64_t room) {
    uint32_t ends[2] = {from, to};
    tn_assert(net->arc_count + 2 <= net->arc_room);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t arc = net->arc_count++;
        net->to[arc] = ends[1 - i];
        net->room[arc] = i == 0 ? room : 0;
        net->next[arc] = net->head[ends[i]];
        net->head[ends[i]] = arc;
    }
}

/* --- building --- */

/* Fixes `node` and all of its predecessors, or all of its successors, to one side of the cut. */
static void cut_spread(cut_network *net, uint32_t node, uint8_t side, const uint32_t *at,
                       const uint32_t *list) {
    uint32_t count = 0;
    if (net->side[node] == side) return;
    net->side[node] = side;
    net->queue[count++] = node;
    while (count > 0) {
        uint32_t p = net->queue[--count];
        for (uint32_t k = at[p]; k < at[p + 1]; k++) {
            if (net->side[list[k]] == side) continue;
            net->side[list[k]] = side;
            net->queue[count++] = list[k];
        }
    }
}

static void cut_add_item(cut_network *net, uint32_t id) {
    const tn__order_model *model = net->model;
    const tn__order_item *item = &model->items[id];
    uint8_t made = item->maker == ORDER_NONE ? CUT_INSIDE : net->side[item->maker];
    uint32_t from = made == CUT_INSIDE ? net->source : item->maker, open = 0, last = 0;
    bool lives = item->kept;
    if (made == CUT_OUTSIDE) return;
    for (uint32_t u = item->first; u < item->last && !lives; u++) {
        uint8_t side = net->side[model->users[u]];
        if (side == CUT_OUTSIDE) lives = true;
        if (side != CUT_FREE) continue;
        open++;
        last = model->users[u];
    }
    if (lives && made == CUT_INSIDE) {
        net->base += item->bytes;
    } else if (lives) {
        cut_arc(net, from, net->sink, item->bytes);
    } else if (open == 1) {
        cut_arc(net, from, last, item->bytes);
    } else if (open > 1) {
        uint32_t vertex = model->count + id;
        cut_arc(net, from, vertex, item->bytes);
        for (uint32_t u = item->first; u < item->last; u++)
            if (net->side[model->users[u]] == CUT_FREE)
                cut_arc(net, vertex, model->users[u], CUT_INFINITE);
    }
}

static void cut_build(cut_network *net) {
    const tn__order_model *model = net->model;
    net->arc_count = 0;
    net->base = 0;
    for (uint32_t v = 0; v < net->vertex_count; v++) net->head[v] = ORDER_NONE;
    for (uint32_t id = 0; id < model->item_count; id++) cut_add_item(net, id);
    for (uint32_t p = 0; p < model->count; p++)
        for (uint32_t k = model->before_at[p];
             net->side[p] == CUT_FREE && k < model->before_at[p + 1]; k++)
            if (net->side[model->before[k]] == CUT_FREE)
                cut_arc(net, p, model->before[k], CUT_INFINITE);
}

/* --- flow --- */

static bool cut_levels(cut_network *net) {
    uint32_t first = 0, last = 0;
    for (uint32_t v = 0; v < net->vertex_count; v++) net->level[v] = ORDER_NONE;
    net->level[net->source] = 0;
    net->queue[last++] = net->source;
    while (first < last) {
        uint32_t v = net->queue[first++];
        for (uint32_t arc = net->head[v]; arc != ORDER_NONE; arc = net->next[arc]) {
            uint32_t to = net->to[arc];
            if (net->room[arc] == 0 || net->level[to] != ORDER_NONE) continue;
            net->level[to] = net->level[v] + 1;
            net->queue[last++] = to;
        }
    }
    return net->level[net->sink] != ORDER_NONE;
}

/* Pushes flow along one path of the level graph, using `queue` for the arcs of the path. Returns
 * the flow; 0 means that no path is left. */
static uint64_t cut_augment(cut_network *net) {
    uint32_t depth = 0, v = net->source;
    uint64_t looked = 0;
    while (v != net->sink) {
        uint32_t arc = net->current[v];
        looked++;
        if (arc == ORDER_NONE) {
            if (depth == 0) break;
            net->level[v] = ORDER_NONE;
            v = net->to[net->queue[--depth] ^ 1];
            continue;
        }
        uint32_t to = net->to[arc];
        if (net->room[arc] > 0 && net->level[to] == net->level[v] + 1) {
            net->queue[depth++] = arc;
            v = to;
        } else {
            net->current[v] = net->next[arc];
        }
    }
    *net->work -= looked < *net->work ? looked : *net->work;
    if (v != net->sink) return 0;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < depth; i++)
        if (net->room[net->queue[i]] < least) least = net->room[net->queue[i]];
    for (uint32_t i = 0; i < depth; i++) {
        net->room[net->queue[i]] -= least;
        net->room[net->queue[i] ^ 1] += least;
    }
    return least;
}

/* Computes the value of the minimum cut; returns false if the work limit is reached. */
static bool cut_flow(cut_network *net, uint64_t *value) {
    *value = net->base;
    while (cut_levels(net)) {
        uint64_t arcs = net->arc_count, flow;
        *net->work -= arcs < *net->work ? arcs : *net->work;
        memcpy(net->current, net->head, net->vertex_count * sizeof *net->current);
        while (*net->work > 0 && (flow = cut_augment(net)) > 0) *value += flow;
        if (*net->work == 0) return false;
    }
    return true;
}

/* Reads a source side of the minimum cut after the flow. The smallest one is the set of vertices
 * that the last level search has reached. The largest one is every vertex that cannot reach the
 * sink. */
static void cut_read(cut_network *net, bool largest, uint8_t *inside) {
    const tn__order_model *model = net->model;
    uint32_t count = 0;
    if (largest) {
        for (uint32_t v = 0; v < net->vertex_count; v++) net->level[v] = 0;
        net->level[net->sink] = ORDER_NONE;
        net->queue[count++] = net->sink;
        while (count > 0) {
            uint32_t v = net->queue[--count];
            for (uint32_t arc = net->head[v]; arc != ORDER_NONE; arc = net->next[arc]) {
                uint32_t from = net->to[arc];
                if (net->room[arc ^ 1] == 0 || net->level[from] == ORDER_NONE) continue;
                net->level[from] = ORDER_NONE;
                net->queue[count++] = from;
            }
        }
    }
    for (uint32_t p = 0; p < model->count; p++)
        inside[p] =
            net->side[p] == CUT_INSIDE || (net->side[p] == CUT_FREE && net->level[p] != ORDER_NONE);
}

/* --- one node --- */

static bool cut_make(cut_network *net, const tn__order_model *model) {
    const tn_context *context = model->context;
    size_t nodes = model->count, uses = model->used_at[nodes], edges = model->before_at[nodes];
    /* a network with too many arcs is not built, so no bound is computed */
    if (model->item_count + uses + edges > CUT_ARCS_MAX) return false;
    net->vertex_count = model->count + model->item_count + 2;
    net->source = net->vertex_count - 2;
    net->sink = net->vertex_count - 1;
    net->arc_room = (uint32_t)(2 * (model->item_count + uses + edges));
    net->side = tn__alloc_array(context, nodes, sizeof *net->side);
    net->head = tn__alloc_array(context, net->vertex_count, sizeof *net->head);
    net->level = tn__alloc_array(context, net->vertex_count, sizeof *net->level);
    net->current = tn__alloc_array(context, net->vertex_count, sizeof *net->current);
    net->queue = tn__alloc_array(context, net->vertex_count, sizeof *net->queue);
    net->to = tn__alloc_array(context, net->arc_room, sizeof *net->to);
    net->next = tn__alloc_array(context, net->arc_room, sizeof *net->next);
    net->room = tn__alloc_array(context, net->arc_room, sizeof *net->room);
    return net->side && net->head && net->level && net->current && net->queue && net->to &&
           net->next && net->room;
}

static void cut_release(cut_network *net) {
    const tn_context *context = net->model->context;
    tn__free(context, net->side, net->model->count * sizeof *net->side);
    tn__free(context, net->head, net->vertex_count * sizeof *net->head);
    tn__free(context, net->level, net->vertex_count * sizeof *net->level);
    tn__free(context, net->current, net->vertex_count * sizeof *net->current);
    tn__free(context, net->queue, net->vertex_count * sizeof *net->queue);
    tn__free(context, net->to, net->arc_room * sizeof *net->to);
    tn__free(context, net->next, net->arc_room * sizeof *net->next);
    tn__free(context, net->room, net->arc_room * sizeof *net->room);
}

/* Fixes the sides of nodes for a cut directly before `node`: its predecessors have run, its
 * successors have not. With `take`, all other users of the items that it overwrites have run, too;
 * returns false if one of them depends on `node`. */
static bool cut_sides(cut_network *net, uint32_t node, const tn__order_take *take) {
    const tn__order_model *model = net->model;
    memset(net->side, CUT_FREE, model->count);
    cut_spread(net, node, CUT_OUTSIDE, model->after_at, model->after);
    for (uint32_t k = model->before_at[node]; k < model->before_at[node + 1]; k++)
        cut_spread(net, model->before[k], CUT_INSIDE, model->before_at, model->before);
    for (uint32_t i = take ? take->first : 0; take && i < take->last; i++) {
        const tn__order_item *item = &model->items[i];
        for (uint32_t u = item->first; u < item->last; u++) {
            if (model->users[u] == node) continue;
            if (net->side[model->users[u]] == CUT_OUTSIDE) return false;
            cut_spread(net, model->users[u], CUT_INSIDE, model->before_at, model->before);
        }
    }
    return true;
}

/* Returns the bytes that `node` saves by overwriting items with its later outputs, counted as if it
 * could do so for each of them. */
static uint64_t cut_other_takes(const tn__order_model *model, uint32_t node) {
    uint64_t bytes = 0;
    uint32_t first = model->take_at[node], last = model->take_at[node + 1];
    for (uint32_t t = first + 1; t < last; t++)
        if (model->takes[t].output != model->takes[t - 1].output) bytes += model->takes[t].bytes;
    return bytes;
}

bool tn__order_cut(const tn__order_model *model, uint32_t node, bool largest, uint8_t *inside,
                   uint64_t *bound, uint64_t *work) {
    cut_network net = {.model = model, .work = work};
    uint64_t best = UINT64_MAX, fixed = model->scratch[node], others = cut_other_takes(model, node);
    bool all = cut_make(&net, model);
    for (uint32_t i = model->made_at[node]; i < model->made_at[node + 1]; i++)
        fixed += model->items[i].bytes;
    for (uint32_t t = model->take_at[node]; t <= model->take_at[node + 1] && all; t++) {
        const tn__order_take *take = t < model->take_at[node + 1] ? &model->takes[t] : NULL;
        uint64_t value;
        if (take && take->output != model->takes[model->take_at[node]].output) continue;
        if (!cut_sides(&net, node, take)) continue;
        cut_build(&net);
        all = cut_flow(&net, &value);
        if (!all) break;
        value += fixed - others - (take ? take->bytes : 0);
        if (value >= best) continue;
        best = value;
        cut_read(&net, largest, inside);
    }
    cut_release(&net);
    if (all) *bound = best;
    return all;
}
