/* megengine_push_down.c - finds by simulation which buffer lies below which, then lowers all
 * buffers as far as possible.
 *
 * First the program is simulated with a best-fit allocator with free blocks that can grow: if no
 * block is large enough, the largest is extended, so the arena grows in its middle instead of at
 * its end. The offsets of this simulation are dropped; only the relation "lies directly below" at
 * each allocation is kept. The relation orders all buffers that are live at once: at any step the
 * blocks in use form one row, a new block enters it between two neighbours, and the relation to
 * both is kept. Then every buffer is placed on the highest end of the buffers directly below it.
 *
 * Cost: O(n x blocks) for the simulation with its linear search, O(n) for lowering the buffers.
 * Source: MegEngine, static memory allocation, PUSHDOWN (its production choice).
 */
#include "plan/frame/peers.h"

#define PUSH_NONE UINT32_MAX

/* a block of the simulated allocator; all blocks form a row without gaps in order of offset */
typedef struct push_block {
    uint64_t size;
    uint32_t below, above; /* blocks */
    uint32_t body;         /* the buffer in the block; PUSH_NONE: the block is free */
} push_block;

/* one item of the relation "lies directly below": buffer `under` lies directly below the buffer */
typedef struct push_edge {
    uint32_t under, next;
} push_edge;

typedef struct push {
    tn_run *run;
    const tn_run_body *bodies;
    push_block *blocks; /* [2n + 1], the blocks; block 0 stands for offset 0 and is never free */
    /* spare: first of the unused elements of `blocks`, which are linked by `above` */
    uint32_t block_count, spare;
    uint32_t *block_of; /* [body] */
    push_edge *edges;
    /* [body], 1 plus the index of the buffer's first item in the relation "lies directly below"; 0:
     * no item */
    uint32_t *under;
    uint32_t edge_count;
    uint32_t top; /* index of the highest block of the row */
} push;

static uint32_t push_new_block(push *state, uint32_t below, uint64_t size, uint32_t body) {
    uint32_t at = state->spare, above = state->blocks[below].above;
    if (at != PUSH_NONE)
        state->spare = state->blocks[at].above;
    else
        at = state->block_count++;
    state->blocks[at] = (push_block){size, below, above, body};
    state->blocks[below].above = at;
    if (above != PUSH_NONE)
        state->blocks[above].below = at;
    else
        state->top = at;
    return at;
}

static void push_drop_block(push *state, uint32_t at) {
    uint32_t below = state->blocks[at].below, above = state->blocks[at].above;
    state->blocks[below].above = above;
    if (above != PUSH_NONE)
        state->blocks[above].below = below;
    else
        state->top = below;
    state->blocks[at].above = state->spare;
    state->spare = at;
}

static void push_rests_on(push *state, uint32_t body, uint32_t under) {
    uint32_t edge = state->edge_count++;
    state->edges[edge] = (push_edge){under, state->under[body]};
    state->under[body] = edge + 1;
}

/* Returns the nearest block with a buffer below or above a block; PUSH_NONE if no buffer is there.
 * Two free blocks never touch, so at most one block is skipped. */
static uint32_t push_neighbour(const push *state, uint32_t at, bool up) {
    do at = up ? state->blocks[at].above : state->blocks[at].below;
    while (at != PUSH_NONE && at != 0 && state->blocks[at].body == PUSH_NONE);
    return at == PUSH_NONE || at == 0 ? PUSH_NONE : state->blocks[at].body;
}

/* The smallest sufficient free block, else the largest free block; PUSH_NONE if none is free. */
static uint32_t push_find(const push *state, uint64_t size, uint64_t *steps) {
    uint32_t fits = PUSH_NONE, largest = PUSH_NONE;
    for (uint32_t at = state->blocks[0].above; at != PUSH_NONE; at = state->blocks[at].above) {
        (*steps)++;
        if (state->blocks[at].body != PUSH_NONE) continue;
        uint64_t there = state->blocks[at].size;
        if (there >= size && (fits == PUSH_NONE || there < state->blocks[fits].size)) fits = at;
        if (largest == PUSH_NONE || there > state->blocks[largest].size) largest = at;
    }
    return fits != PUSH_NONE ? fits : largest;
}

static tn_status push_hand_out(push *state, uint32_t body) {
    uint64_t size = state->bodies[body].size, steps = 0;
    uint32_t at = push_find(state, size, &steps);
    TN_TRY(tn__run_work(state->run, 1 + steps / 1024));
    if (at == PUSH_NONE) {
        at = push_new_block(state, state->top, size, body);
    } else {
        if (state->blocks[at].size > size) /* the rest of the block stays free, above the buffer */
            push_new_block(state, at, state->blocks[at].size - size, PUSH_NONE);
        state->blocks[at].size = size;
        state->blocks[at].body = body;
    }
    state->block_of[body] = at;
    uint32_t below = push_neighbour(state, at, false), above = push_neighbour(state, at, true);
    if (below != PUSH_NONE) push_rests_on(state, body, below);
    if (above != PUSH_NONE) push_rests_on(state, above, body);
    return TN_OK;
}

static void push_take_back(push *state, uint32_t body) {
    uint32_t at = state->block_of[body], below = state->blocks[at].below;
    state->blocks[at].body = PUSH_NONE;
    if (below != 0 && state->blocks[below].body == PUSH_NONE) {
        state->blocks[below].size += state->blocks[at].size;
        push_drop_block(state, at);
        at = below;
    }
    uint32_t above = state->blocks[at].above;
    if (above != PUSH_NONE && state->blocks[above].body == PUSH_NONE) {
        state->blocks[at].size += state->blocks[above].size;
        push_drop_block(state, above);
    }
}

/* Places every buffer on the highest end of the buffers directly below it, which are placed first:
 * a walk down from each buffer with an explicit stack. There are no cycles, because a buffer is
 * below another only if it lay below it in the row of blocks in use. */
static tn_status push_fall(push *state, const uint32_t *order, uint32_t count) {
    uint32_t *stack = tn__run_scratch(state->run, (size_t)count + 1, sizeof *stack);
    uint32_t *left = tn__run_scratch(state->run, tn__run_count(state->run), sizeof *left);
    if (stack == NULL || left == NULL) return TN_E_NO_MEMORY;
    memcpy(left, state->under, tn__run_count(state->run) * sizeof *left);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t depth = 0;
        if (!tn__run_placed(state->run, order[i])) stack[depth++] = order[i];
        while (depth > 0) {
            uint32_t body = stack[depth - 1];
            /* continues with the next buffer that lies directly below this one */
            if (left[body] != 0) {
                const push_edge *edge = &state->edges[left[body] - 1];
                left[body] = edge->next;
                if (!tn__run_placed(state->run, edge->under)) stack[depth++] = edge->under;
                continue;
            }
            uint64_t end = 0, mask = state->bodies[body].alignment - 1;
            for (uint32_t at = state->under[body]; at != 0; at = state->edges[at - 1].next) {
                uint32_t under = state->edges[at - 1].under;
                uint64_t top = tn__run_offset(state->run, under) + state->bodies[under].size;
                if (top > end) end = top;
            }
            tn__run_place(state->run, body, (end + mask) & ~mask);
            depth--;
        }
        TN_TRY(tn__run_work(state->run, 1));
    }
    return TN_OK;
}

typedef struct push_end {
    uint32_t last, body;
} push_end;

static int push_by_end(const void *a, const void *b) {
    const push_end *x = a, *y = b;
    if (x->last != y->last) return x->last < y->last ? -1 : 1;
    return (x->body > y->body) - (x->body < y->body);
}

static tn_status push_replay(push *state, const uint32_t *order, uint32_t count) {
    push_end *ends = tn__run_scratch(state->run, count, sizeof *ends);
    uint32_t ended = 0;
    if (ends == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++)
        ends[i] = (push_end){state->bodies[order[i]].last, order[i]};
    qsort(ends, count, sizeof *ends, push_by_end);
    for (uint32_t i = 0; i < count; i++) {
        while (ended < count && ends[ended].last <= state->bodies[order[i]].first)
            push_take_back(state, ends[ended++].body);
        TN_TRY(push_hand_out(state, order[i]));
    }
    return TN_OK;
}

static tn_status megengine_push_down_solve(tn_run *run) {
    push state = {.run = run, .bodies = tn__run_bodies(run), .spare = PUSH_NONE};
    uint32_t n = tn__run_count(run), count;
    tn__peers_key *keys = tn__peers_keys(run, &count);
    state.blocks = tn__run_scratch(run, 2 * (size_t)n + 2, sizeof *state.blocks);
    state.block_of = tn__run_scratch(run, n, sizeof *state.block_of);
    state.edges = tn__run_scratch(run, 2 * (size_t)n, sizeof *state.edges);
    state.under = tn__run_scratch(run, n, sizeof *state.under);
    if (!keys || !state.blocks || !state.block_of || !state.edges || !state.under)
        return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < count; i++) keys[i].key[0] = ~(uint64_t)state.bodies[keys[i].id].first;
    const uint32_t *order = tn__peers_order(run, keys, count);
    if (order == NULL) return TN_E_NO_MEMORY;
    state.blocks[0] = (push_block){0, PUSH_NONE, PUSH_NONE, PUSH_NONE};
    state.block_count = 1;
    TN_TRY(push_replay(&state, order, count));
    return push_fall(&state, order, count);
}

const tn_planner tn__planner_megengine_push_down = {
    .name = "megengine-push-down",
    .summary = "MegEngine: replays best fit, keeps its order of addresses, then pushes all down",
    .source = "MegEngine",
    .features = TN_PLANS_ALIGNMENT | TN_PLANS_PIECES | TN_PLANS_SIMPLY,
    .solve = megengine_push_down_solve,
};
