/* order_segments.c - builds an order from segments: paths ahead of ready nodes, cut at valleys.
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
#include "program/order.h"

#define SEGMENT_AHEAD 32u /* steps per path; later steps are visited when these have run */
#define SEGMENT_LOOK 64u  /* number of ready nodes that get a path ahead, if work allows it */

typedef struct segment {
    uint32_t nodes[SEGMENT_AHEAD];
    uint32_t count;  /* number of its steps to run */
    bool falls;      /* ends at the level where it begins, or lower */
    uint64_t hill;   /* height above the level where it begins */
    uint64_t behind; /* falls: bytes lower at the end; otherwise: drop from hill to valley */
} segment;

typedef struct segment_run {
    tn__order_walk *walk;
    const tn__order_model *model;
    uint32_t *ready, ready_count; /* in the order in which they became ready; some have run
                                   * already */
    uint8_t *seen;
    uint32_t fresh[4 * SEGMENT_AHEAD], fresh_count; /* nodes that the path ahead has made ready */
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

/* The cheapest node that the path ahead has made ready; ORDER_NONE: no such node. */
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

/* Chooses the cut: live[i] bytes after i steps, hill[i] the maximum until then. */
static void segment_cut(segment *found, const uint64_t *live, const uint64_t *hill,
                        uint32_t count) {
    uint32_t end = 1;
    while (end <= count && live[end] > live[0]) end++;
    found->falls = end <= count;
    if (found->falls) { /* continue to the lowest valley that needs no higher hill */
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
    uint64_t each = work / ((uint64_t)model->count + 1); /* steps of look-ahead per step of the
                                                          * order */
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
