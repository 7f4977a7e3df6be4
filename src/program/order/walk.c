/* walk.c - walks orders step by step, and builds or improves them greedily: early, late, greedy,
 * and by segments.
 *
 * Early. Let p be ready after D, let cost(p | D) <= limit, and let p free at least the bytes it
 * makes. Then p may run at once. The bytes that it frees only grow as more nodes run, and the
 * bytes that it makes stay the same, so every later state holds at most as much with p as
 * without it. Late is the mirror image: a node that makes at least the bytes it frees, even at
 * its latest moment, may wait for that moment.
 *
 * Greedy. Runs free steps at once, otherwise the cheapest step; ties are broken by growth, then
 * by file order.
 *
 * Cost: O(operands) for a walk, early and late; greedy compares up to 256 ready nodes per step.
 */
#include "program/order/order.h"

/* --- walks, and two rewritings that never raise the cost -------------------------------------- */

bool tn__order_walk_make(tn__order_walk *walk, const tn__order_model *model) {
    *walk = (tn__order_walk){.model = model};
    walk->left = tn__alloc_array(model->context, model->item_count, sizeof *walk->left);
    walk->waiting = tn__alloc_array(model->context, model->count, sizeof *walk->waiting);
    if (walk->left == NULL || walk->waiting == NULL) {
        tn__order_walk_release(walk);
        return false;
    }
    tn__order_walk_reset(walk);
    return true;
}

void tn__order_walk_release(tn__order_walk *walk) {
    const tn__order_model *model = walk->model;
    if (model == NULL) return;
    tn__free(model->context, walk->left, model->item_count * sizeof *walk->left);
    tn__free(model->context, walk->waiting, model->count * sizeof *walk->waiting);
    walk->left = walk->waiting = NULL;
}

void tn__order_walk_reset(tn__order_walk *walk) {
    const tn__order_model *model = walk->model;
    for (uint32_t i = 0; i < model->item_count; i++) {
        const tn__order_item *item = &model->items[i];
        walk->left[i] = item->last - item->first + item->kept;
    }
    for (uint32_t p = 0; p < model->count; p++)
        walk->waiting[p] = model->before_at[p + 1] - model->before_at[p];
    walk->live = model->start;
}

/* Returns the bytes that a node can overwrite: those of the takes whose items all have exactly
 * `last` users left. The node is one of these users. */
static uint64_t walk_saved(const tn__order_walk *walk, uint32_t node, uint32_t last) {
    const tn__order_model *model = walk->model;
    uint64_t saved = 0;
    /* the output that was counted last: of its takes (items that it may overwrite), one counts */
    uint32_t done = ORDER_NONE;
    for (uint32_t t = model->take_at[node]; t < model->take_at[node + 1]; t++) {
        const tn__order_take *take = &model->takes[t];
        if (take->output == done) continue;
        uint32_t i = take->first;
        while (i < take->last && walk->left[i] == last) i++;
        if (i < take->last) continue;
        saved += take->bytes;
        done = take->output;
    }
    return saved;
}

static uint64_t walk_made(const tn__order_model *model, uint32_t node, bool used_later) {
    uint64_t bytes = 0;
    for (uint32_t i = model->made_at[node]; i < model->made_at[node + 1]; i++) {
        const tn__order_item *item = &model->items[i];
        if (!used_later || item->kept || item->first < item->last) bytes += item->bytes;
    }
    return bytes;
}

static uint64_t walk_freed(const tn__order_walk *walk, uint32_t node) {
    const tn__order_model *model = walk->model;
    uint64_t bytes = 0;
    for (uint32_t k = model->used_at[node]; k < model->used_at[node + 1]; k++)
        if (walk->left[model->used[k]] == 1) bytes += model->items[model->used[k]].bytes;
    return bytes;
}

uint64_t tn__order_cost(const tn__order_walk *walk, uint32_t node) {
    return walk->live + walk_made(walk->model, node, false) + walk->model->scratch[node] -
           walk_saved(walk, node, 1);
}

int64_t tn__order_net(const tn__order_walk *walk, uint32_t node) {
    return (int64_t)walk_made(walk->model, node, true) - (int64_t)walk_freed(walk, node);
}

void tn__order_step(tn__order_walk *walk, uint32_t node) {
    const tn__order_model *model = walk->model;
    walk->live += walk_made(model, node, true);
    for (uint32_t k = model->used_at[node]; k < model->used_at[node + 1]; k++)
        if (--walk->left[model->used[k]] == 0) walk->live -= model->items[model->used[k]].bytes;
    for (uint32_t k = model->after_at[node]; k < model->after_at[node + 1]; k++)
        walk->waiting[model->after[k]]--;
    walk->waiting[node] = UINT32_MAX;
}

void tn__order_undo(tn__order_walk *walk, uint32_t node) {
    const tn__order_model *model = walk->model;
    walk->waiting[node] = 0;
    for (uint32_t k = model->after_at[node]; k < model->after_at[node + 1]; k++)
        walk->waiting[model->after[k]]++;
    for (uint32_t k = model->used_at[node]; k < model->used_at[node + 1]; k++)
        if (walk->left[model->used[k]]++ == 0) walk->live += model->items[model->used[k]].bytes;
    walk->live -= walk_made(model, node, true);
}

uint64_t tn__order_costs(tn__order_walk *walk, const uint32_t *order, uint64_t *costs) {
    uint64_t peak = walk->model->floor;
    tn__order_walk_reset(walk);
    for (uint32_t i = 0; i < walk->model->count; i++) {
        uint64_t cost = tn__order_cost(walk, order[i]);
        if (costs != NULL) costs[i] = cost;
        if (cost > peak) peak = cost;
        tn__order_step(walk, order[i]);
    }
    return peak;
}

/* --- early: forward; a node that frees at least its bytes runs as soon as it can --- */

/* Nodes that may have become free, which means that they release at least the bytes they make. A
 * node is visited again only when it gets ready, when it becomes the last user of an item, or, if
 * only its cost exceeded the limit, when bytes are freed. */
typedef struct walk_queue {
    uint32_t *nodes; /* [count] stack of nodes to visit; each node is on it at most once */
    /* [count] nodes that release at least the bytes they make, but cost more than the limit; they
     * wait until bytes are freed */
    uint32_t *blocked;
    uint8_t *listed; /* [count] the node is in `nodes` or `blocked` */
    uint32_t count, blocked_count;
} walk_queue;

static bool walk_queue_make(walk_queue *queue, const tn__order_model *model) {
    *queue = (walk_queue){0};
    queue->nodes = tn__alloc_array(model->context, model->count, sizeof *queue->nodes);
    queue->blocked = tn__alloc_array(model->context, model->count, sizeof *queue->blocked);
    queue->listed = tn__alloc_array(model->context, model->count, sizeof *queue->listed);
    return queue->nodes && queue->blocked && queue->listed;
}

static void walk_queue_release(walk_queue *queue, const tn__order_model *model) {
    tn__free(model->context, queue->nodes, model->count * sizeof *queue->nodes);
    tn__free(model->context, queue->blocked, model->count * sizeof *queue->blocked);
    tn__free(model->context, queue->listed, model->count * sizeof *queue->listed);
}

static void walk_push(walk_queue *queue, uint32_t node) {
    if (queue->listed[node]) return;
    queue->listed[node] = 1;
    queue->nodes[queue->count++] = node;
}

static void walk_unblock(walk_queue *queue) {
    while (queue->blocked_count > 0)
        queue->nodes[queue->count++] = queue->blocked[--queue->blocked_count];
}

/* Runs a node, and lists the nodes that may have become free (see walk_queue) through it. */
static void walk_advance(tn__order_walk *walk, uint32_t node, walk_queue *queue) {
    const tn__order_model *model = walk->model;
    uint64_t before = walk->live;
    tn__order_step(walk, node);
    if (walk->live < before) walk_unblock(queue);
    for (uint32_t k = model->after_at[node]; k < model->after_at[node + 1]; k++)
        if (walk->waiting[model->after[k]] == 0) walk_push(queue, model->after[k]);
    for (uint32_t k = model->used_at[node]; k < model->used_at[node + 1]; k++) {
        const tn__order_item *item = &model->items[model->used[k]];
        if (walk->left[model->used[k]] != 1 || item->kept) continue;
        uint32_t u = item->first;
        while (walk->waiting[model->users[u]] == UINT32_MAX) u++;
        if (walk->waiting[model->users[u]] == 0) walk_push(queue, model->users[u]);
    }
}

/* Runs nodes that release at least the bytes they make and cost at most `limit`, as long as there
 * are any, and writes them into order[] from index `at` on. Returns the index after the last
 * one. */
static uint32_t walk_close(tn__order_walk *walk, walk_queue *queue, uint32_t *order, uint32_t at,
                           uint64_t limit) {
    while (queue->count > 0) {
        uint32_t node = queue->nodes[--queue->count];
        queue->listed[node] = 0;
        if (walk->waiting[node] != 0 || tn__order_net(walk, node) > 0) continue;
        if (tn__order_cost(walk, node) > limit) {
            queue->listed[node] = 1;
            queue->blocked[queue->blocked_count++] = node;
            continue;
        }
        order[at++] = node;
        walk_advance(walk, node, queue);
    }
    return at;
}

static void walk_start(tn__order_walk *walk, walk_queue *queue) {
    tn__order_walk_reset(walk);
    for (uint32_t p = walk->model->count; p-- > 0;)
        if (walk->waiting[p] == 0) walk_push(queue, p);
}

void tn__order_early(tn__order_walk *walk, uint32_t *order, uint32_t *spare, uint64_t limit) {
    const tn__order_model *model = walk->model;
    walk_queue queue;
    /* if memory runs out, the order stays as it is, which is valid */
    if (walk_queue_make(&queue, model)) {
        walk_start(walk, &queue);
        uint32_t at = walk_close(walk, &queue, spare, 0, limit);
        for (uint32_t i = 0; i < model->count; i++) {
            if (walk->waiting[order[i]] == UINT32_MAX) continue;
            spare[at++] = order[i];
            walk_advance(walk, order[i], &queue);
            at = walk_close(walk, &queue, spare, at, limit);
        }
        memcpy(order, spare, model->count * sizeof *order);
    }
    walk_queue_release(&queue, model);
}

/* --- late: the same from the end; walk->left counts later users, walk->waiting successors --- */

static void walk_late_start(tn__order_walk *walk, walk_queue *queue) {
    const tn__order_model *model = walk->model;
    walk->live = 0;
    for (uint32_t i = 0; i < model->item_count; i++) {
        walk->left[i] = model->items[i].kept;
        if (model->items[i].kept) walk->live += model->items[i].bytes;
    }
    for (uint32_t p = 0; p < model->count; p++) {
        walk->waiting[p] = model->after_at[p + 1] - model->after_at[p];
        if (walk->waiting[p] == 0) walk_push(queue, p);
    }
}

static uint64_t walk_late_freed(const tn__order_walk *walk, uint32_t node) {
    const tn__order_model *model = walk->model;
    uint64_t bytes = 0;
    for (uint32_t k = model->used_at[node]; k < model->used_at[node + 1]; k++)
        if (walk->left[model->used[k]] == 0) bytes += model->items[model->used[k]].bytes;
    return bytes;
}

/* Places a node directly before the nodes that have been placed so far, for an order that is built
 * from its end. Lists the nodes that may have become free through it. */
static void walk_late_advance(tn__order_walk *walk, uint32_t node, walk_queue *queue) {
    const tn__order_model *model = walk->model;
    uint64_t before = walk->live;
    walk->live += walk_late_freed(walk, node);
    walk->live -= walk_made(model, node, true);
    walk->waiting[node] = UINT32_MAX;
    if (walk->live < before) walk_unblock(queue);
    for (uint32_t k = model->before_at[node]; k < model->before_at[node + 1]; k++)
        if (--walk->waiting[model->before[k]] == 0) walk_push(queue, model->before[k]);
    for (uint32_t k = model->used_at[node]; k < model->used_at[node + 1]; k++) {
        const tn__order_item *item = &model->items[model->used[k]];
        if (walk->left[model->used[k]]++ > 0) continue;
        for (uint32_t u = item->first; u < item->last; u++)
            if (walk->waiting[model->users[u]] == 0) walk_push(queue, model->users[u]);
    }
}

static uint32_t walk_late_close(tn__order_walk *walk, walk_queue *queue, uint32_t *order,
                                uint32_t at, uint64_t limit) {
    const tn__order_model *model = walk->model;
    while (queue->count > 0) {
        uint32_t node = queue->nodes[--queue->count];
        queue->listed[node] = 0;
        if (walk->waiting[node] != 0) continue;
        uint64_t made = walk_made(model, node, true), freed = walk_late_freed(walk, node);
        if (made < freed) continue;
        uint64_t cost = walk->live + freed - made + walk_made(model, node, false) +
                        model->scratch[node] - walk_saved(walk, node, 0);
        if (cost > limit) {
            queue->listed[node] = 1;
            queue->blocked[queue->blocked_count++] = node;
            continue;
        }
        order[--at] = node;
        walk_late_advance(walk, node, queue);
    }
    return at;
}

void tn__order_late(tn__order_walk *walk, uint32_t *order, uint32_t *spare, uint64_t limit) {
    const tn__order_model *model = walk->model;
    walk_queue queue;
    /* if memory runs out, the order stays as it is, which is valid */
    if (walk_queue_make(&queue, model)) {
        walk_late_start(walk, &queue);
        uint32_t at = walk_late_close(walk, &queue, spare, model->count, limit);
        for (uint32_t i = model->count; i-- > 0;) {
            if (walk->waiting[order[i]] == UINT32_MAX) continue;
            spare[--at] = order[i];
            walk_late_advance(walk, order[i], &queue);
            at = walk_late_close(walk, &queue, spare, at, limit);
        }
        memcpy(order, spare, model->count * sizeof *order);
    }
    walk_queue_release(&queue, model);
}

/* --- greedy --- */

#define WALK_LOOK 256u /* number of ready nodes that are compared per step */

typedef struct walk_ready {
    uint32_t *nodes; /* ready nodes, in the order in which they became ready */
    uint8_t *seen;   /* [nodes] the node has been entered in the list; each node is entered once */
    uint32_t count;
} walk_ready;

/* Returns the index in the list of the cheapest ready node; at most the first WALK_LOOK ready nodes
 * are compared. Removes nodes that have run in the meantime from the list. */
static uint32_t walk_cheapest(const tn__order_walk *walk, walk_ready *ready) {
    uint32_t best = ORDER_NONE, kept = 0, looked = 0;
    uint64_t best_cost = 0;
    int64_t best_net = 0;
    for (uint32_t i = 0; i < ready->count; i++) {
        uint32_t node = ready->nodes[i];
        if (walk->waiting[node] == UINT32_MAX) continue;
        ready->nodes[kept++] = node;
        if (looked++ >= WALK_LOOK) continue;
        uint64_t cost = tn__order_cost(walk, node);
        int64_t net = tn__order_net(walk, node);
        bool better = best == ORDER_NONE || cost < best_cost ||
                      (cost == best_cost &&
                       (net < best_net || (net == best_net && node < ready->nodes[best])));
        if (!better) continue;
        best = kept - 1;
        best_cost = cost;
        best_net = net;
    }
    ready->count = kept;
    return best;
}

static void walk_ready_add(const tn__order_walk *walk, uint32_t node, walk_ready *ready) {
    if (walk->waiting[node] != 0 || ready->seen[node]) return;
    ready->seen[node] = 1;
    ready->nodes[ready->count++] = node;
}

static void walk_ready_after(const tn__order_walk *walk, uint32_t node, walk_ready *ready) {
    const tn__order_model *model = walk->model;
    for (uint32_t k = model->after_at[node]; k < model->after_at[node + 1]; k++)
        walk_ready_add(walk, model->after[k], ready);
}

bool tn__order_greedy(tn__order_walk *walk, uint32_t *order, uint64_t limit) {
    const tn__order_model *model = walk->model;
    walk_queue queue;
    walk_ready ready = {.nodes = tn__alloc_array(model->context, model->count, sizeof *ready.nodes),
                        .seen = tn__alloc_array(model->context, model->count, 1)};
    bool all = walk_queue_make(&queue, model) && ready.nodes != NULL && ready.seen != NULL;
    if (all) walk_start(walk, &queue);
    for (uint32_t p = 0; all && p < model->count; p++) walk_ready_add(walk, p, &ready);
    for (uint32_t at = 0; all && at < model->count;) {
        uint32_t from = at;
        at = walk_close(walk, &queue, order, at, limit);
        for (; from < at; from++) walk_ready_after(walk, order[from], &ready);
        if (at == model->count) break;
        uint32_t node = ready.nodes[walk_cheapest(walk, &ready)];
        order[at++] = node;
        walk_advance(walk, node, &queue);
        walk_ready_after(walk, node, &ready);
    }
    walk_queue_release(&queue, model);
    tn__free(model->context, ready.nodes, model->count * sizeof *ready.nodes);
    tn__free(model->context, ready.seen, model->count);
    return all;
}

/* --- orders from segments --------------------------------------------------------------------- */

/* Builds an order from segments: paths ahead of ready nodes, cut at valleys.
 *
 * The path ahead of a ready node goes on as long as no other node is needed for it. It is cut
 * into a hill and the valley after it.
 *
 * For independent chains this merge is optimal. Segments that end lower than they began come
 * first, lowest hill first. Then come segments that end higher, largest drop from hill to valley
 * first. If chains share items or meet, it is a heuristic, and the caller compares the whole
 * order.
 *
 * Cost: O(n x look x ahead) steps, limited by `work` steps in total.
 * Source: J. W. H. Liu, An application of generalized tree pebbling to sparse matrix factorization,
 * SIAM J. Alg. Disc. Meth. 8(3), 1987.
 */

/* limit of the steps that a path ahead visits; later steps are visited when these have run */
#define SEGMENT_AHEAD 32u
/* number of ready nodes for which the path ahead is visited, if the work limit allows it */
#define SEGMENT_LOOK 64u

typedef struct segment {
    uint32_t nodes[SEGMENT_AHEAD];
    uint32_t count; /* number of steps of the segment */
    bool falls;     /* the live bytes at the end of the segment are at most those at its begin */
    uint64_t hill;  /* largest live bytes within the segment, relative to its begin */
    /* if the segment falls: bytes freed from its begin to its end; otherwise: drop from its hill to
     * its end */
    uint64_t behind;
} segment;

typedef struct segment_run {
    tn__order_walk *walk;
    const tn__order_model *model;
    /* nodes that became ready, in this order; some have run already */
    uint32_t *ready, ready_count;
    uint8_t *seen;
    /* nodes that became ready through the path ahead */
    uint32_t fresh[4 * SEGMENT_AHEAD], fresh_count;
} segment_run;

static void segment_ready(segment_run *run, uint32_t node) {
    if (run->walk->waiting[node] != 0 || run->seen[node]) return;
    run->seen[node] = 1;
    run->ready[run->ready_count++] = node;
}

static void segment_enable(segment_run *run, uint32_t node) {
    const tn__order_model *model = run->model;
    for (uint32_t k = model->after_at[node]; k < model->after_at[node + 1]; k++)
        if (run->walk->waiting[model->after[k]] == 0 &&
            run->fresh_count < sizeof run->fresh / sizeof *run->fresh)
            run->fresh[run->fresh_count++] = model->after[k];
}

/* Removes and returns the cheapest of the nodes that became ready through the steps of the path
 * ahead; ORDER_NONE if there is none. */
static uint32_t segment_next(segment_run *run) {
    uint32_t best = ORDER_NONE;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < run->fresh_count; i++) {
        uint64_t cost = tn__order_cost(run->walk, run->fresh[i]);
        if (best != ORDER_NONE &&
            (cost > least || (cost == least && run->fresh[i] > run->fresh[best])))
            continue;
        best = i;
        least = cost;
    }
    if (best == ORDER_NONE) return ORDER_NONE;
    uint32_t node = run->fresh[best];
    run->fresh[best] = run->fresh[--run->fresh_count];
    return node;
}

/* Chooses where a path ahead is cut into a segment. live[i] is the live bytes after i steps
 * relative to the begin of the path, hill[i] the maximum up to then. */
static void segment_cut(segment *found, const uint64_t *live, const uint64_t *hill,
                        uint32_t count) {
    uint32_t end = 1;
    while (end <= count && live[end] > live[0]) end++;
    found->falls = end <= count;
    /* the segment goes on to the lowest valley that can be reached without a higher hill */
    if (found->falls) {
        for (uint32_t i = end + 1; i <= count && hill[i] == hill[end]; i++)
            if (live[i] < live[end]) end = i;
        found->behind = live[0] - live[end];
    } else {
        uint32_t top = 1;
        while (hill[top] < hill[count]) top++;
        end = top;
        for (uint32_t i = top; i <= count; i++)
            if (live[i] < live[end]) end = i;
        found->behind = hill[end] - live[end];
    }
    found->count = end;
    found->hill = hill[end] - live[0];
}

static void segment_look(segment_run *run, uint32_t node, uint32_t ahead, segment *found) {
    tn__order_walk *walk = run->walk;
    uint64_t live[SEGMENT_AHEAD + 1] = {walk->live}, hill[SEGMENT_AHEAD + 1] = {walk->live};
    uint32_t count = 0;
    run->fresh_count = 0;
    for (; node != ORDER_NONE && count < ahead; node = segment_next(run)) {
        uint64_t cost = tn__order_cost(walk, node);
        found->nodes[count++] = node;
        tn__order_step(walk, node);
        segment_enable(run, node);
        hill[count] = cost > hill[count - 1] ? cost : hill[count - 1];
        live[count] = walk->live;
    }
    for (uint32_t i = count; i-- > 0;) tn__order_undo(walk, found->nodes[i]);
    segment_cut(found, live, hill, count);
}

static bool segment_is_better(const segment *a, const segment *b) {
    if (a->falls != b->falls) return a->falls;
    if (a->falls && a->hill != b->hill) return a->hill < b->hill;
    return a->behind > b->behind;
}

bool tn__order_segments(tn__order_walk *walk, uint32_t *order, uint64_t work) {
    const tn__order_model *model = walk->model;
    segment_run run = {.walk = walk, .model = model};
    /* number of steps of paths ahead that may be visited for each step of the order */
    uint64_t each = work / ((uint64_t)model->count + 1);
    uint32_t ahead = each >= 256 ? SEGMENT_AHEAD : 8;
    uint32_t look = (uint32_t)(each / ahead < 4              ? 4
                               : each / ahead > SEGMENT_LOOK ? SEGMENT_LOOK
                                                             : each / ahead);
    run.ready = tn__alloc_array(model->context, model->count, sizeof *run.ready);
    run.seen = tn__alloc_array(model->context, model->count, sizeof *run.seen);
    bool all = run.ready != NULL && run.seen != NULL;
    tn__order_walk_reset(walk);
    for (uint32_t p = 0; all && p < model->count; p++) segment_ready(&run, p);
    for (uint32_t at = 0; all && at < model->count;) {
        segment best = {0}, found;
        uint32_t kept = 0, looked = 0;
        for (uint32_t i = 0; i < run.ready_count; i++) {
            uint32_t node = run.ready[i];
            if (walk->waiting[node] == UINT32_MAX) continue;
            run.ready[kept++] = node;
            if (looked++ >= look) continue;
            segment_look(&run, node, ahead, &found);
            if (looked == 1 || segment_is_better(&found, &best)) best = found;
        }
        run.ready_count = kept;
        for (uint32_t i = 0; i < best.count; i++) {
            order[at++] = best.nodes[i];
            tn__order_step(walk, best.nodes[i]);
            for (uint32_t k = model->after_at[best.nodes[i]];
                 k < model->after_at[best.nodes[i] + 1]; k++)
                segment_ready(&run, model->after[k]);
        }
    }
    tn__free(model->context, run.ready, model->count * sizeof *run.ready);
    tn__free(model->context, run.seen, model->count * sizeof *run.seen);
    return all;
}
