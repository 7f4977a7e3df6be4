/* skyline.c - the lowest segment of a skyline, and the first body in an order that fits in it.
 *
 *     |        +----+             Segments are kept by their first step: floor, next, previous; a
 *     |   +----+    |   +----     heap gives the lowest. A body that is placed raises its part
 *     +---+    |    |   |         of the segment and splits it; equal neighbours merge.
 *     |   |    |    +---+
 *
 * "First in the order of those that live within [s, e)" is a search in a k-d tree over (first,
 * last): each node knows the best rank of the unplaced bodies below it, and their extremes, and is
 * passed over when it can hold nothing better. A body of several pieces needs a level floor under
 * its hull, but raises only what its pieces cover, so that others may live in its gaps.
 *
 * This is the first descent of MiniMalloc's search (least offset first, then a static order)
 * without ever looking at pairs of bodies. Cost:   O(log n) a placement in practice; a k-d search
 * can cost O(sqrt n). Source: Burke et al. 2004 (best-fit skyline); Moffitt 2023 (canonical order);
 * the tree is ours.
 */
#include "plan/skyline.h"

#define SKYLINE_LEAF 8u /* bodies */
#define SKYLINE_POLL 1024u
#define SKYLINE_NONE UINT32_MAX

typedef struct skyline_point {  /* a body in the order of the leaves */
    uint32_t first, last, rank; /* rank NONE: placed */
} skyline_point;

typedef struct skyline_node {
    uint32_t best; /* least rank */
    uint32_t first_min, first_max, last_min, last_max;
} skyline_node;

struct tn__skyline {
    tn_context context;
    const tn_run_body *bodies;
    const tn_run_piece *pieces;
    const uint32_t *ids;
    uint32_t count, time_count;
    /* the tree: leaf i holds points [begin[i], begin[i + 1]) */
    uint32_t leaf_count;
    skyline_node *nodes; /* [2 * leaf_count], 1 is the root */
    skyline_point *points;
    uint32_t *begin;    /* [leaf_count + 1] */
    uint32_t *number;   /* [count], which body a point is */
    uint32_t *point_of; /* [count], and back */
    /* the skyline, by first step of a segment */
    uint64_t *floor;
    uint32_t *next, *previous;
    uint32_t *heap, *heap_at; /* segments, lowest floor first, ties to the earlier */
    uint32_t heap_count;
};

/* --- making --- */

#define SKYLINE_ARRAYS(X, n, leaves, times)                                                        \
    X(nodes, 2 * (size_t)(leaves))                                                                 \
    X(points, n)                                                                                   \
    X(begin, (size_t)(leaves) + 1)                                                                 \
    X(number, n)                                                                                   \
    X(point_of, n)                                                                                 \
    X(floor, times)                                                                                \
    X(next, times)                                                                                 \
    X(previous, times)                                                                             \
    X(heap, times)                                                                                 \
    X(heap_at, times)

void tn__skyline_destroy(tn__skyline *skyline) {
    if (skyline == NULL) return;
    tn_context context = skyline->context;
#define TN_X(field, room) tn__free(&context, skyline->field, (room) * sizeof *skyline->field);
    SKYLINE_ARRAYS(TN_X, skyline->count, skyline->leaf_count, skyline->time_count)
#undef TN_X
    tn__free(&context, skyline, sizeof *skyline);
}

static uint64_t skyline_key(const tn__skyline *skyline, uint32_t number, bool by_last) {
    const tn_run_body *body = &skyline->bodies[skyline->ids[number]];
    return (uint64_t)(by_last ? body->last : body->first) << 32 | number;
}

/* Puts the `nth` least of numbers[0 ... count) in its place, less ones before it. Keys are
 * distinct; pivots are random, so that no input is a bad one. */
static void skyline_select(const tn__skyline *skyline, uint32_t *numbers, uint32_t count,
                           uint32_t nth, bool by_last, tn__random *random) {
    uint32_t low = 0, high = count;
    while (high - low > 1) {
        uint32_t chosen = low + (uint32_t)tn__random_below(random, high - low);
        uint32_t pivot_number = numbers[chosen];
        numbers[chosen] = numbers[high - 1];
        uint64_t pivot = skyline_key(skyline, pivot_number, by_last);
        uint32_t at = low;
        for (uint32_t i = low; i + 1 < high; i++) {
            uint32_t number = numbers[i];
            bool less = skyline_key(skyline, number, by_last) < pivot;
            numbers[i] = numbers[at];
            numbers[at] = number;
            at += less;
        }
        numbers[high - 1] = numbers[at];
        numbers[at] = pivot_number;
        if (at == nth) return;
        if (at < nth)
            low = at + 1;
        else
            high = at;
    }
}

/* Halves all ranges of a level, by first and by last in turns, down to the leaves. begin[] holds
 * the ranges of the present level at a stride. */
static void skyline_divide(tn__skyline *skyline) {
    tn__random random = {.state = skyline->count};
    bool by_last = false;
    skyline->begin[0] = 0;
    skyline->begin[skyline->leaf_count] = skyline->count;
    for (uint32_t stride = skyline->leaf_count; stride > 1; stride /= 2, by_last = !by_last) {
        for (uint32_t at = 0; at < skyline->leaf_count; at += stride) {
            uint32_t low = skyline->begin[at], high = skyline->begin[at + stride];
            uint32_t middle = low + (high - low) / 2;
            skyline->begin[at + stride / 2] = middle;
            if (middle > low)
                skyline_select(skyline, skyline->number + low, high - low, middle - low, by_last,
                               &random);
        }
    }
    for (uint32_t i = 0; i < skyline->count; i++) {
        const tn_run_body *body = &skyline->bodies[skyline->ids[skyline->number[i]]];
        skyline->points[i] = (skyline_point){body->first, body->last, SKYLINE_NONE};
        skyline->point_of[skyline->number[i]] = i;
    }
}

tn__skyline *tn__skyline_create(const tn_context *context, const tn_run_body *bodies,
                                const tn_run_piece *pieces, uint32_t time_count,
                                const uint32_t *ids, uint32_t count) {
    tn__skyline *made = tn__alloc_array(context, 1, sizeof *made);
    if (made == NULL) return NULL;
    *made = (tn__skyline){.context = *context,
                          .bodies = bodies,
                          .pieces = pieces,
                          .ids = ids,
                          .count = count,
                          .time_count = time_count,
                          .leaf_count = 1};
    while (made->leaf_count < count / SKYLINE_LEAF) made->leaf_count *= 2;
    bool all = true;
#define TN_X(field, room)                                                                          \
    made->field = tn__alloc_array(context, room, sizeof *made->field);                             \
    all = all && made->field != NULL;
    SKYLINE_ARRAYS(TN_X, count, made->leaf_count, time_count)
#undef TN_X
    if (!all) {
        tn__skyline_destroy(made);
        return NULL;
    }
    for (uint32_t i = 0; i < count; i++) made->number[i] = i;
    skyline_divide(made);
    return made;
}

/* --- the tree --- */

static void skyline_pull_leaf(tn__skyline *skyline, uint32_t leaf) {
    skyline_node node = {SKYLINE_NONE, UINT32_MAX, 0, UINT32_MAX, 0};
    for (uint32_t i = skyline->begin[leaf]; i < skyline->begin[leaf + 1]; i++) {
        const skyline_point *point = &skyline->points[i];
        if (point->rank == SKYLINE_NONE) continue;
        if (point->rank < node.best) node.best = point->rank;
        if (point->first < node.first_min) node.first_min = point->first;
        if (point->first > node.first_max) node.first_max = point->first;
        if (point->last < node.last_min) node.last_min = point->last;
        if (point->last > node.last_max) node.last_max = point->last;
    }
    skyline->nodes[skyline->leaf_count + leaf] = node;
}

static uint32_t skyline_min(uint32_t a, uint32_t b) { return a < b ? a : b; }
static uint32_t skyline_max(uint32_t a, uint32_t b) { return a > b ? a : b; }

static void skyline_pull(skyline_node *nodes, uint32_t at) {
    const skyline_node *a = &nodes[2 * at], *b = &nodes[2 * at + 1];
    nodes[at] = (skyline_node){
        skyline_min(a->best, b->best), skyline_min(a->first_min, b->first_min),
        skyline_max(a->first_max, b->first_max), skyline_min(a->last_min, b->last_min),
        skyline_max(a->last_max, b->last_max)};
}

static void skyline_reset_tree(tn__skyline *skyline, const uint32_t *order) {
    for (uint32_t rank = 0; rank < skyline->count; rank++)
        skyline->points[skyline->point_of[order[rank]]].rank = rank;
    for (uint32_t leaf = 0; leaf < skyline->leaf_count; leaf++) skyline_pull_leaf(skyline, leaf);
    for (uint32_t at = skyline->leaf_count - 1; at >= 1; at--) skyline_pull(skyline->nodes, at);
}

/* Which leaf a point is in: the ranges were halved, so it is found by halving. */
static uint32_t skyline_leaf(const tn__skyline *skyline, uint32_t point) {
    uint32_t leaf = 0;
    for (uint32_t stride = skyline->leaf_count / 2; stride > 0; stride /= 2)
        if (skyline->begin[leaf + stride] <= point) leaf += stride;
    return leaf;
}

static void skyline_remove(tn__skyline *skyline, uint32_t number) {
    uint32_t point = skyline->point_of[number], leaf = skyline_leaf(skyline, point);
    skyline->points[point].rank = SKYLINE_NONE;
    skyline_pull_leaf(skyline, leaf);
    for (uint32_t at = (skyline->leaf_count + leaf) / 2; at >= 1; at /= 2)
        skyline_pull(skyline->nodes, at);
}

typedef struct skyline_box { /* inclusive */
    uint32_t first_min, first_max, last_min, last_max;
} skyline_box;

static bool skyline_misses(const skyline_node *node, const skyline_box *box) {
    return node->first_max < box->first_min || node->first_min > box->first_max ||
           node->last_max < box->last_min || node->last_min > box->last_max;
}

/* The least rank below `best` of an unplaced body in the box, else `best`. */
static uint32_t skyline_find(const tn__skyline *skyline, skyline_box box, uint32_t best) {
    uint32_t stack[66], depth = 0; /* two per level */
    stack[depth++] = 1;
    while (depth > 0) {
        uint32_t at = stack[--depth];
        const skyline_node *node = &skyline->nodes[at];
        if (node->best >= best || skyline_misses(node, &box)) continue;
        if (at < skyline->leaf_count) { /* the better child on top */
            bool left = skyline->nodes[2 * at].best < skyline->nodes[2 * at + 1].best;
            stack[depth++] = 2 * at + left;
            stack[depth++] = 2 * at + !left;
            continue;
        }
        uint32_t leaf = at - skyline->leaf_count;
        for (uint32_t i = skyline->begin[leaf]; i < skyline->begin[leaf + 1]; i++) {
            const skyline_point *point = &skyline->points[i];
            if (point->rank < best && point->first >= box.first_min &&
                point->first <= box.first_max && point->last >= box.last_min &&
                point->last <= box.last_max)
                best = point->rank;
        }
    }
    return best;
}

/* --- the heap of segments --- */

static bool skyline_lower(const tn__skyline *skyline, uint32_t a, uint32_t b) {
    if (skyline->floor[a] != skyline->floor[b]) return skyline->floor[a] < skyline->floor[b];
    return a < b;
}

static void skyline_set(tn__skyline *skyline, uint32_t at, uint32_t segment) {
    skyline->heap[at] = segment;
    skyline->heap_at[segment] = at;
}

static void skyline_up(tn__skyline *skyline, uint32_t segment) {
    uint32_t at = skyline->heap_at[segment];
    for (; at > 0 && skyline_lower(skyline, segment, skyline->heap[(at - 1) / 2]);
         at = (at - 1) / 2)
        skyline_set(skyline, at, skyline->heap[(at - 1) / 2]);
    skyline_set(skyline, at, segment);
}

static void skyline_down(tn__skyline *skyline, uint32_t segment) {
    uint32_t at = skyline->heap_at[segment];
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= skyline->heap_count) break;
        if (child + 1 < skyline->heap_count &&
            skyline_lower(skyline, skyline->heap[child + 1], skyline->heap[child]))
            child++;
        if (!skyline_lower(skyline, skyline->heap[child], segment)) break;
        skyline_set(skyline, at, skyline->heap[child]);
        at = child;
    }
    skyline_set(skyline, at, segment);
}

static void skyline_enter(tn__skyline *skyline, uint32_t segment) {
    skyline->heap_at[segment] = skyline->heap_count++;
    skyline_up(skyline, segment);
}

static void skyline_leave(tn__skyline *skyline, uint32_t segment) {
    uint32_t at = skyline->heap_at[segment], moved = skyline->heap[--skyline->heap_count];
    if (moved == segment) return;
    skyline_set(skyline, at, moved);
    skyline_up(skyline, moved);
    skyline_down(skyline, moved);
}

/* --- segments --- */

static uint32_t skyline_end(const tn__skyline *skyline) { return skyline->time_count - 1; }

/* Makes `time`, inside `segment`, the start of a segment of its own; heap: not entered. */
static void skyline_split(tn__skyline *skyline, uint32_t segment, uint32_t time) {
    uint32_t next = skyline->next[segment];
    skyline->next[segment] = time;
    skyline->previous[time] = segment;
    skyline->next[time] = next;
    if (next != skyline_end(skyline)) skyline->previous[next] = time;
    skyline->floor[time] = skyline->floor[segment];
}

/* Segments that meet at one level become one; `segment` is in the heap, so is its next one. */
static void skyline_join_next(tn__skyline *skyline, uint32_t segment) {
    uint32_t next = skyline->next[segment];
    if (next == skyline_end(skyline) || skyline->floor[next] != skyline->floor[segment]) return;
    skyline_leave(skyline, next);
    skyline->next[segment] = skyline->next[next];
    if (skyline->next[next] != skyline_end(skyline))
        skyline->previous[skyline->next[next]] = segment;
}

/* Nothing lives within the segment any more: up to its lower neighbour. */
static void skyline_lift(tn__skyline *skyline, uint32_t segment) {
    uint32_t next = skyline->next[segment], previous = skyline->previous[segment];
    uint64_t level = UINT64_MAX;
    if (previous != SKYLINE_NONE) level = skyline->floor[previous];
    if (next != skyline_end(skyline) && skyline->floor[next] < level) level = skyline->floor[next];
    tn_assert(level != UINT64_MAX); /* all of time holds every body */
    skyline->floor[segment] = level;
    skyline_down(skyline, segment);
    skyline_join_next(skyline, segment);
    if (previous != SKYLINE_NONE) skyline_join_next(skyline, previous);
}

/* [first, last) lies within what was one level segment; `at` is a segment that begins at or before
 * `first`. Raises it to at least `top`; neighbours are not joined yet. Returns the segment that
 * begins at `first`. */
static uint32_t skyline_raise(tn__skyline *skyline, uint32_t at, uint32_t first, uint32_t last,
                              uint64_t top) {
    while (skyline->next[at] <= first) at = skyline->next[at];
    if (at < first) {
        skyline_split(skyline, at, first);
        skyline_enter(skyline, first);
        at = first;
    }
    for (;; at = skyline->next[at]) {
        if (skyline->next[at] > last) {
            skyline_split(skyline, at, last);
            skyline_enter(skyline, last);
        }
        if (skyline->floor[at] < top) {
            skyline->floor[at] = top;
            skyline_down(skyline, at);
        }
        if (skyline->next[at] == last) return first;
    }
}

/* Joins what is level from the segment before `first` to the one after `last`. */
static void skyline_join_all(tn__skyline *skyline, uint32_t first, uint32_t last) {
    uint32_t at = skyline->previous[first] != SKYLINE_NONE ? skyline->previous[first] : first;
    while (at < last && at != skyline_end(skyline)) {
        uint32_t next = skyline->next[at];
        if (next == skyline_end(skyline)) return;
        if (skyline->floor[next] == skyline->floor[at])
            skyline_join_next(skyline, at);
        else
            at = next;
    }
}

/* --- filling --- */

static uint32_t skyline_choose(const tn__skyline *skyline, uint32_t segment, tn__skyline_fit fit) {
    uint32_t end = skyline->next[segment], best = SKYLINE_NONE;
    if (fit == TN__SKYLINE_WALL) {
        best = skyline_find(skyline, (skyline_box){segment, segment, 0, end}, best);
        best = skyline_find(skyline, (skyline_box){segment, end, end, end}, best);
        if (best != SKYLINE_NONE) return best;
    }
    return skyline_find(skyline, (skyline_box){segment, end, 0, end}, best);
}

/* On the floor of the segment that its life lies within; returns its highest end. */
static uint64_t skyline_place(tn__skyline *skyline, uint32_t segment, const tn_run_body *body,
                              uint64_t *offset) {
    const tn_run_piece *pieces = skyline->pieces + body->piece_first;
    uint64_t least = pieces[0].lo, mask = body->alignment - 1, floor = skyline->floor[segment];
    for (uint32_t i = 1; i < body->piece_count; i++)
        if (pieces[i].lo < least) least = pieces[i].lo;
    uint64_t at = (floor > least ? floor - least + mask : 0) & ~mask;
    for (uint32_t i = 0, from = segment; i < body->piece_count; i++)
        from = skyline_raise(skyline, from, pieces[i].first, pieces[i].last, at + pieces[i].hi);
    skyline_join_all(skyline, segment, body->last);
    *offset = at;
    return at + body->size;
}

static void skyline_reset(tn__skyline *skyline, const uint32_t *order) {
    skyline_reset_tree(skyline, order);
    skyline->floor[0] = 0;
    skyline->next[0] = skyline_end(skyline);
    skyline->previous[0] = SKYLINE_NONE;
    skyline->heap_count = 0;
    skyline_enter(skyline, 0);
}

bool tn__skyline_fill(tn__skyline *skyline, const uint32_t *order, tn__skyline_fit fit,
                      uint64_t give_up, tn__skyline_poll poll, uint64_t *offsets, uint64_t *peak) {
    uint32_t since = 0;
    *peak = 0;
    if (skyline->count == 0) return true;
    skyline_reset(skyline, order);
    for (uint32_t left = skyline->count; left > 0 && *peak < give_up;) {
        uint32_t segment = skyline->heap[0], rank = skyline_choose(skyline, segment, fit);
        if (rank == SKYLINE_NONE) {
            skyline_lift(skyline, segment);
            continue;
        }
        uint32_t number = order[rank], id = skyline->ids[number];
        skyline_remove(skyline, number);
        uint64_t top = skyline_place(skyline, segment, &skyline->bodies[id], &offsets[id]);
        if (top > *peak) *peak = top;
        left--;
        if (++since < SKYLINE_POLL && left > 0) continue;
        if (!poll.go_on(poll.self, since)) return false;
        since = 0;
    }
    return poll.go_on(poll.self, since);
}
