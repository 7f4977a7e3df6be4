/* mxnet_tags.c - assigns shared storages (tags) to buffers instead of addresses; a tag that is no
 * longer used goes back to a queue.
 *
 * In order of time, every buffer gets a tag: one from the queue of free ones, else a new one. When
 * the buffer's live range ends, the tag is free again. A tag is as large as its largest buffer, and
 * tags lie end to end. Two ways to choose from the queue are tried. The first takes the tag that
 * has waited longest, regardless of its size. The second goes by size: the smallest sufficient tag
 * of at most 16 times the buffer's size, else the largest smaller tag of at least a 16th. `tenure
 * plan MODEL --explain` shows the first way, operator by operator.
 *
 * Cost: O(n log n + n x free tags).
 * Source: MXNet, static memory planning: the documented allocation pass, and NNVM's plan_memory.
 */
#include "plan/frame/peers.h"

#define TAGS_RANGE 16u /* largest factor between the sizes of a tag and a buffer; MXNet's default */

typedef struct mxnet_end {
    uint32_t last, body;
} mxnet_end;

typedef struct tags {
    tn_run *run;
    const uint32_t *order;
    uint32_t count;
    mxnet_end *ends; /* buffers sorted by the end of their live ranges */
    uint32_t *tag;   /* [body] */
    uint64_t *size;  /* [tag] */
    uint32_t *queue; /* free tags, the one that has waited longest first */
    uint32_t queue_count, tag_count;
} tags;

static int tags_by_end(const void *a, const void *b) {
    const mxnet_end *x = a, *y = b;
    if (x->last != y->last) return x->last < y->last ? -1 : 1;
    return (x->body > y->body) - (x->body < y->body);
}

/* Finds the smallest sufficient free tag, or else the largest free tag, within a factor of
 * TAGS_RANGE of the size. Returns an index into the queue; UINT32_MAX: there is no such tag. */
static uint32_t tags_match(const tags *state, uint64_t size) {
    uint32_t above = UINT32_MAX, below = UINT32_MAX;
    for (uint32_t i = 0; i < state->queue_count; i++) {
        uint64_t there = state->size[state->queue[i]];
        if (there >= size) {
            if (there / TAGS_RANGE > size) continue;
            if (above == UINT32_MAX || there < state->size[state->queue[above]]) above = i;
        } else {
            if (there < size / TAGS_RANGE) continue;
            if (below == UINT32_MAX || there > state->size[state->queue[below]]) below = i;
        }
    }
    return above != UINT32_MAX ? above : below;
}

static void tags_give(tags *state, uint32_t body, bool by_size) {
    uint64_t size = tn__run_bodies(state->run)[body].size;
    uint32_t at = by_size ? tags_match(state, size) : state->queue_count > 0 ? 0 : UINT32_MAX;
    uint32_t tag;
    if (at == UINT32_MAX) {
        tag = state->tag_count++;
        state->size[tag] = 0;
    } else {
        tag = state->queue[at];
        state->queue_count--;
        memmove(state->queue + at, state->queue + at + 1,
                (state->queue_count - at) * sizeof *state->queue);
    }
    if (size > state->size[tag]) state->size[tag] = size;
    state->tag[body] = tag;
}

static tn_status tags_try(tags *state, bool by_size) {
    const tn_run_body *bodies = tn__run_bodies(state->run);
    uint32_t ended = 0;
    state->queue_count = state->tag_count = 0;
    for (uint32_t i = 0; i < state->count; i++) {
        uint32_t body = state->order[i];
        while (ended < state->count && state->ends[ended].last <= bodies[body].first)
            state->queue[state->queue_count++] = state->tag[state->ends[ended++].body];
        TN_TRY(tn__run_work(state->run, 1 + state->queue_count / 1024));
        tags_give(state, body, by_size);
    }
    return tn__peers_stack(state->run, state->tag, state->tag_count);
}

static tn_status mxnet_tags_solve(tn_run *run) {
    tags state = {.run = run};
    const tn_run_body *bodies = tn__run_bodies(run);
    uint32_t n = tn__run_count(run);
    tn__peers_key *keys = tn__peers_keys(run, &state.count);
    state.ends = tn__run_scratch(run, n, sizeof *state.ends);
    state.tag = tn__run_scratch(run, n, sizeof *state.tag);
    state.size = tn__run_scratch(run, n, sizeof *state.size);
    state.queue = tn__run_scratch(run, n, sizeof *state.queue);
    if (!keys || !state.ends || !state.tag || !state.size || !state.queue) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < state.count; i++) {
        keys[i].key[0] = ~(uint64_t)bodies[keys[i].id].first;
        state.ends[i] = (mxnet_end){bodies[keys[i].id].last, keys[i].id};
    }
    state.order = tn__peers_order(run, keys, state.count);
    if (state.order == NULL) return TN_E_NO_MEMORY;
    qsort(state.ends, state.count, sizeof *state.ends, tags_by_end);
    TN_TRY(tags_try(&state, false));
    return tags_try(&state, true);
}

const tn_planner tn__planner_mxnet_tags = {
    .name = "mxnet-tags",
    .summary = "MXNet: storage tags from a queue of free ones, one after another in memory",
    .source = "MXNet; NNVM",
    .features = TN_PLANS_ALIGNMENT | TN_PLANS_PIECES | TN_PLANS_SIMPLY,
    .solve = mxnet_tags_solve,
};
