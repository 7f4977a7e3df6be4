/* reuse_cost.c - searches for the placement within the capacity with the least reuse cost (the sum
 * of the costs of pairs that share bytes).
 *
 * The method is ruin and recreate: a move removes a small set of buffers, mostly neighbours of a
 * buffer that pays, and places them again one by one, each at the start of least added cost. The
 * cost of a buffer as a function of its start is a step function: each placed neighbour forbids the
 * starts within one interval, or adds its cost there. The gaps between forbidden intervals are
 * found first, because a full memory has few of them, so that only few of the other neighbours
 * matter. The forbidden intervals stay almost sorted from one call to the next. Candidates are the
 * starts at which the buffer touches a neighbour or an end of the memory. A move that raises the
 * cost is undone unless annealing allows the rise; the temperature falls with the work or time that
 * is used. The search begins with the best plan of the greedy planners, so the result is never
 * worse than theirs.
 *
 * Small problems are searched completely. In some optimal placement, every buffer starts at 0, at
 * the end of a reserved range, or at the end of a neighbour, each rounded up to its alignment,
 * because any other buffer could move down without sharing more bytes. Buffers are placed in order
 * of start, then number. A branch ends when the cost so far, plus the least cost of each unplaced
 * buffer against the placed ones, reaches the best cost. If the search ends, its result is proved
 * optimal.
 *
 * For larger problems there is a bound: buffers that are together larger than the memory outside of
 * reserved ranges must share bytes, so some of them pay (search/cliques.c).
 *
 * In a run that minimises the peak, the same search asks whether the buffers fit into the capacity,
 * with separations and reserved ranges. A set of buffers of which no two may share bytes, and which
 * is larger than the memory, proves that they do not fit.
 *
 * Cost: O(d + m log m) for each placement of a buffer with d neighbours, of which m moved since the
 * last one or can be paid; O(n^2) for the lists of neighbours.
 * Source: Shaw 1998, Schrimpf et al. 2000 (ruin and recreate). The problem, dynamic storage
 * allocation with reuse penalties, is that of dsa-solver 2026 (its documents, not its code).
 */
#include "plan/frame/planner_run.h"
#include "plan/search/search.h"

/* limit of buffers for this search; larger problems are left to the greedy planners */
#define REUSE_BODIES 4096u
/* limit of pairs of neighbours; problems with more are left to the greedy planners */
#define REUSE_EDGES ((size_t)1 << 22)
/* limit of the height, so that sums of an offset and two sizes fit in 64 bits */
#define REUSE_HEIGHT ((int64_t)1 << 61)
#define REUSE_SIMPLE 16384u  /* limit of buffers up to which all greedy planners run first */
#define REUSE_WORK 200000u   /* limit of placements if the caller set no limit */
#define REUSE_SMALL 24u      /* limit of buffers for the complete search */
#define REUSE_NODES 1000000u /* limit of placements in the complete search */
/* limit of the combinations of starts of all buffers, if the search with a judge tries every
 * combination */
#define REUSE_ALL 1e9
/* limit of buffers for the complete search if the caller asks for a proof */
#define REUSE_SMALL_EXACT 64u
#define REUSE_NODES_EXACT ((uint64_t)1 << 28)
/* number of placements that annealing makes before the complete search */
#define REUSE_FIRST 20000u
/* temperature at the begin, in average costs of a pair; it falls to 0.04 */
#define REUSE_HOT 8.0
#define REUSE_RUIN 25u    /* limit of buffers that one move removes */
#define REUSE_SETS 20000u /* limit of sets of buffers that the bound tries */
#define REUSE_SORT 32u    /* limit of items up to which insertion sorts faster than qsort */
#define REUSE_STARTS 512u /* number of random orders that are tried to meet the capacity */
#define REUSE_HARD UINT64_MAX
/* stands for the offset of a buffer that is not placed: all its intervals end below 0 */
#define REUSE_AWAY (-2 * REUSE_HEIGHT)

/* A pair of neighbours, in the list of the first: with buffer `other` at offset o, the first buffer
 * pays `cost` if it starts between o - below and o + above. */
typedef struct reuse_edge {
    uint32_t other;
    int64_t below, above;
    uint64_t cost; /* cost of sharing bytes with `other`; REUSE_HARD: sharing is forbidden */
} reuse_edge;

/* A buffer may not start between o - below and o + above, if buffer `other` is at offset o. */
typedef struct reuse_block {
    int64_t below, above;
    uint32_t other;
} reuse_block;

/* An item of a list that is sorted by `at`: a block with the highest start below it, or the change
 * of a buffer's cost from start `at` on. */
typedef struct reuse_item {
    int64_t at;
    union {
        reuse_block block;
        int64_t change;
    } as;
} reuse_item;

/* A range of starts, from `first` to `last`, that are allowed and cost the same. */
typedef struct reuse_range {
    int64_t first, last;
    uint64_t cost;
    /* at `first`, the buffer touches a neighbour below it or the begin of the memory; at `last`, a
     * neighbour above it or the end */
    bool touches_below, touches_above;
} reuse_range;

typedef struct reuse {
    tn_run *run;
    const tn_run_body *bodies;
    uint32_t count, free_count;
    uint32_t *free; /* [free_count], buffers that are not pinned */
    size_t *begin;  /* [count + 1], index in `edges` of each buffer's first edge */
    /* [count], index in `edges` of each buffer's first edge with a cost; before it are those that
     * forbid starts */
    size_t *costly;
    reuse_edge *edges;
    /* usable: bytes of the memory outside of reserved ranges; capacity: all bytes of the memory */
    int64_t capacity, usable;
    /* [count + 1], offset of each buffer; the last one stands for the reserved ranges and is 0 */
    int64_t *offset;
    /* [count + 1], offset of each buffer that is placed now, else REUSE_AWAY */
    int64_t *placed_at;
    size_t *block_begin; /* [count + 1], index in `blocks` of each buffer's first block */
    /* forbidden edges and reserved ranges of each buffer, almost in the order of their lowest
     * forbidden starts */
    reuse_block *blocks;
    /* scratch memory for the step function of one buffer */
    reuse_item *items;
    const reuse_edge **paying;
    reuse_range *gaps, *ranges;
    uint64_t *keep; /* [count], scratch memory for tn__run_keep_offsets */
    uint32_t shift; /* costs are in units of 2^shift, so that their sum fits in 64 bits */
    double unit; /* average cost of a pair of neighbours, the scale of random changes of the cost */
    uint64_t cost;  /* reuse cost of the present placement */
    uint64_t value; /* if the run has a judge: number of waits, or time, of the present placement */
    double value_unit; /* a typical change of `value` from one placement to the next */
    /* every edge is between two whole buffers, so complete searches and lower bounds are
     * possible */
    bool plain;
    uint64_t work_at; /* work that the run had done when this search began */
    double started_s;
    bool exact; /* the caller asks for a proof, so the complete search has larger limits */
    tn__random random;
} reuse;

/* --- neighbours --- */

static bool reuse_is_hard(const reuse *state, uint32_t a, uint32_t b, uint32_t piece_a,
                          uint32_t piece_b) {
    return tn__run_pieces_meet(state->run, state->bodies[a].piece_first + piece_a,
                               state->bodies[b].piece_first + piece_b);
}

static bool reuse_is_placed(const reuse *state, uint32_t id) {
    return state->placed_at[id] != REUSE_AWAY;
}

static void reuse_place(reuse *state, uint32_t id, int64_t offset) {
    state->offset[id] = offset;
    state->placed_at[id] = offset;
}

/* Takes a buffer out; its former offset stays in state->offset. */
static void reuse_remove(reuse *state, uint32_t id) { state->placed_at[id] = REUSE_AWAY; }

/* Whether a buffer is pinned and has bytes: one of 0 bytes may be pinned beyond the capacity. */
static bool reuse_is_fixed(const reuse *state, uint32_t id) {
    return tn__run_pinned(state->run, id) && state->bodies[id].size > 0;
}

/* Leaves only the pinned buffers placed. */
static void reuse_clear(reuse *state) {
    for (uint32_t i = 0; i < state->count; i++) {
        reuse_remove(state, i);
        if (reuse_is_fixed(state, i)) reuse_place(state, i, state->offset[i]);
    }
}

/* Adds an edge to the list `edges`; if `fills` is false, the edge is only counted in *at. */
static void reuse_add(reuse *state, size_t *at, bool fills, reuse_edge edge) {
    if (fills) state->edges[*at] = edge;
    ++*at;
}

/* Adds the edges between buffer `id` and its neighbours; if `fills` is false, they are only counted
 * in *at. */
static void reuse_list(reuse *state, uint32_t id, bool fills, size_t *at) {
    const tn_run_body *body = &state->bodies[id];
    const tn_run_piece *pieces = tn__run_pieces(state->run);
    const tn__prepared_bank *p = state->run->prepared;
    for (uint32_t other = 0; other < state->count && body->size > 0; other++) {
        const tn_run_body *theirs = &state->bodies[other];
        if (other == id || tn__prepared_excluded(p, id, other) ||
            (p->begins == NULL && (theirs->last <= body->first || body->last <= theirs->first)))
            continue;
        for (uint32_t a = 0; a < body->piece_count; a++) {
            for (uint32_t b = 0; b < theirs->piece_count; b++) {
                const tn_run_piece *x = &pieces[body->piece_first + a];
                const tn_run_piece *y = &pieces[theirs->piece_first + b];
                if (!reuse_is_hard(state, id, other, a, b)) continue;
                reuse_add(state, at, fills,
                          (reuse_edge){.other = other,
                                       .below = (int64_t)x->hi - (int64_t)y->lo,
                                       .above = (int64_t)y->hi - (int64_t)x->lo,
                                       .cost = REUSE_HARD});
            }
        }
    }
    for (int costs = 0; costs < 2; costs++) {
        const tn__besides *lists = costs ? &p->costs : &p->apart;
        if (lists->begin == NULL || (costs && !p->by_cost)) continue;
        for (size_t i = lists->begin[id]; i < lists->begin[id + 1]; i++) {
            const tn__beside *pair = &lists->items[i];
            uint64_t cost = pair->cost >> state->shift;
            reuse_add(state, at, fills,
                      (reuse_edge){.other = pair->other,
                                   .below = (int64_t)pair->hi - (int64_t)pair->other_lo,
                                   .above = (int64_t)pair->other_hi - (int64_t)pair->lo,
                                   .cost = !costs     ? REUSE_HARD
                                           : cost > 0 ? cost
                                                      : 1});
        }
    }
}

/* Divides costs by a power of two, so that their sum fits in 64 bits, and computes their average
 * (`unit`). */
static void reuse_scale(reuse *state) {
    const tn__besides *costs = &state->run->prepared->costs;
    __extension__ unsigned __int128 sum = 0;
    for (size_t i = 0; i < costs->item_count; i++) sum += costs->items[i].cost;
    while (sum >> state->shift >> 61 != 0) state->shift++;
    sum >>= state->shift;
    state->unit = costs->item_count > 0 ? (double)sum / (double)costs->item_count : 1;
    if (state->unit < 1) state->unit = 1;
}

/* Lists the blocks of all buffers. A reserved range is the block of an imaginary buffer at 0 that
 * is always placed. `most` is the largest number of edges of a buffer. */
static tn_status reuse_list_blocks(reuse *state, size_t most, bool *possible) {
    const tn__prepared_bank *p = state->run->prepared;
    uint32_t ranges = 0;
    size_t at = 0, total = 0;
    while (ranges < p->reserved_count && p->reserved[ranges].first < (uint64_t)state->capacity)
        ranges++;
    for (uint32_t i = 0; i < state->count; i++) total += state->costly[i] - state->begin[i];
    *possible = ranges <= (REUSE_EDGES - total) / ((size_t)state->count + 1);
    if (!*possible) return TN_OK;
    total += (size_t)ranges * state->count;
    most += ranges + 1;
    state->block_begin = tn__run_scratch(state->run, (size_t)state->count + 1, sizeof(size_t));
    state->blocks = tn__run_scratch(state->run, total, sizeof *state->blocks);
    state->items = tn__run_scratch(state->run, 2 * most, sizeof *state->items);
    state->paying = tn__run_scratch(state->run, most, sizeof *state->paying);
    state->gaps = tn__run_scratch(state->run, most, sizeof *state->gaps);
    /* a gap is one range, and each edge with a cost adds at most two */
    state->ranges = tn__run_scratch(state->run, 2 * most, sizeof *state->ranges);
    if (!state->block_begin || !state->blocks || !state->items || !state->paying || !state->gaps ||
        !state->ranges)
        return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < state->count; i++) {
        for (size_t k = state->begin[i]; k < state->costly[i]; k++) {
            const reuse_edge *edge = &state->edges[k];
            state->blocks[at++] = (reuse_block){edge->below, edge->above, edge->other};
        }
        for (uint32_t k = 0; k < ranges; k++) {
            uint64_t last = p->reserved[k].last, end = (uint64_t)state->capacity;
            state->blocks[at++] = (reuse_block){.other = state->count,
                                                .below = (int64_t)state->bodies[i].size -
                                                         (int64_t)p->reserved[k].first,
                                                .above = (int64_t)(last < end ? last : end)};
        }
        state->block_begin[i + 1] = at;
    }
    return TN_OK;
}

/* Lists the neighbours of all buffers, with the costs of sharing bytes. *possible becomes false if
 * there are too many buffers or pairs. */
static tn_status reuse_neighbours(reuse *state, bool *possible) {
    size_t total = 0, most = 0;
    *possible = state->count <= REUSE_BODIES;
    if (!*possible) return TN_OK;
    reuse_scale(state);
    state->begin = tn__run_scratch(state->run, (size_t)state->count + 1, sizeof *state->begin);
    state->costly = tn__run_scratch(state->run, state->count, sizeof *state->costly);
    if (!state->begin || !state->costly) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < state->count; i++) {
        size_t before = total;
        reuse_list(state, i, false, &total);
        if (total - before > most) most = total - before;
        state->begin[i + 1] = total;
        *possible = total <= REUSE_EDGES;
        if (!*possible) return TN_OK;
        TN_TRY(tn__run_work(state->run, 1 + state->count / 1024));
    }
    state->edges = tn__run_scratch(state->run, total, sizeof *state->edges);
    if (state->edges == NULL) return TN_E_NO_MEMORY;
    state->plain = true;
    for (uint32_t i = 0, at = 0; i < state->count; i++) {
        size_t fill = state->begin[i];
        reuse_list(state, i, true, &fill);
        state->costly[i] = fill;
        for (; at < fill; at++) {
            const reuse_edge *edge = &state->edges[at];
            bool whole = edge->below == (int64_t)state->bodies[i].size &&
                         edge->above == (int64_t)state->bodies[edge->other].size;
            state->plain = state->plain && whole;
            if (edge->cost != REUSE_HARD && at < state->costly[i]) state->costly[i] = at;
        }
    }
    return reuse_list_blocks(state, most, possible);
}

/* Sets up the search. *possible becomes false if a buffer is larger than the capacity, or if a
 * pinned one ends beyond it. */
static tn_status reuse_init(reuse *state, bool *possible) {
    tn_run *run = state->run;
    uint32_t n = state->count;
    const tn__prepared_bank *p = run->prepared;
    uint64_t capacity = tn__run_capacity(run), taken = 0;
    state->capacity = capacity < (uint64_t)REUSE_HEIGHT ? (int64_t)capacity : REUSE_HEIGHT;
    for (uint32_t i = 0; i < p->reserved_count; i++) {
        uint64_t last = p->reserved[i].last, end = (uint64_t)state->capacity;
        if (p->reserved[i].first >= end) break;
        taken += (last < end ? last : end) - p->reserved[i].first;
    }
    state->usable = state->capacity - (int64_t)taken;
    state->offset = tn__run_scratch(run, (size_t)n + 1, sizeof *state->offset);
    state->placed_at = tn__run_scratch(run, (size_t)n + 1, sizeof *state->placed_at);
    state->keep = tn__run_scratch(run, n, sizeof *state->keep);
    state->free = tn__run_scratch(run, n, sizeof *state->free);
    if (!state->offset || !state->placed_at || !state->keep || !state->free) return TN_E_NO_MEMORY;
    *possible = true;
    for (uint32_t i = 0; i < n; i++) {
        bool pinned = tn__run_pinned(run, i);
        uint64_t first = pinned ? p->pins[i] : 0;
        if (pinned) state->offset[i] = (int64_t)first;
        if (state->bodies[i].size == 0) continue;
        *possible =
            *possible && tn__add_sat(first, state->bodies[i].size) <= (uint64_t)state->capacity;
        if (!pinned) state->free[state->free_count++] = i;
    }
    reuse_clear(state);
    return TN_OK;
}

/* --- the step function of a buffer --- */

static int reuse_item_order(const void *a, const void *b) {
    const reuse_item *x = a, *y = b;
    return (x->at > y->at) - (x->at < y->at);
}

/* Sorts items by `at`. The order of items with equal `at` does not matter to any caller. */
static void reuse_sort(reuse_item *items, size_t count) {
    if (count > REUSE_SORT) {
        qsort(items, count, sizeof *items, reuse_item_order);
        return;
    }
    for (size_t i = 1; i < count; i++) {
        reuse_item item = items[i];
        size_t at = i;
        for (; at > 0 && items[at - 1].at > item.at; at--) items[at] = items[at - 1];
        items[at] = item;
    }
}

/* The highest start at which a buffer is below a block. */
static int64_t reuse_until(const reuse *state, const reuse_block *block) {
    return state->offset[block->other] - block->below;
}

/* Sorts the blocks of a buffer, of which few are out of order. Those are taken out, sorted, and
 * merged with the others. */
static void reuse_sort_blocks(reuse *state, reuse_block *blocks, size_t count) {
    reuse_item *items = state->items;
    size_t kept = 0, taken = 0;
    int64_t last = INT64_MIN; /* the highest start below the last block that is kept */
    for (size_t i = 0; i < count; i++) {
        reuse_block block = blocks[i];
        int64_t until = reuse_until(state, &block);
        if (until >= last) {
            blocks[kept++] = block;
            last = until;
        } else if (kept < 2 || reuse_until(state, &blocks[kept - 2]) <= until) {
            /* the last block that was kept is out of order, rather than this one */
            items[taken++] = (reuse_item){.at = last, .as.block = blocks[kept - 1]};
            blocks[kept - 1] = block;
            last = until;
        } else {
            items[taken++] = (reuse_item){.at = until, .as.block = block};
        }
    }
    reuse_sort(items, taken);
    while (taken > 0) {
        size_t to = kept + taken - 1;
        if (kept > 0 && reuse_until(state, &blocks[kept - 1]) > items[taken - 1].at)
            blocks[to] = blocks[--kept];
        else
            blocks[to] = items[--taken].as.block;
    }
}

/* Lists the gaps between the blocks of a buffer: the ranges of starts, from `least` to `most`, that
 * no block forbids. Returns false if the blocks are not sorted. */
static bool reuse_scan(reuse *state, uint32_t id, int64_t least, int64_t most, size_t *gaps) {
    const reuse_block *block = state->blocks + state->block_begin[id];
    const reuse_block *end = state->blocks + state->block_begin[id + 1];
    /* reach: the lowest start that no block before this one forbids */
    int64_t reach = least, before = INT64_MIN;
    for (*gaps = 0; block < end; block++) {
        int64_t until = reuse_until(state, block);
        int64_t from = state->placed_at[block->other] + block->above;
        if (until < before) return false;
        before = until;
        if (until >= reach && reach <= most && reuse_is_placed(state, block->other))
            state->gaps[(*gaps)++] =
                (reuse_range){.first = reach, .last = until < most ? until : most};
        if (from > reach) reach = from;
    }
    if (reach <= most) state->gaps[(*gaps)++] = (reuse_range){.first = reach, .last = most};
    return true;
}

/* Divides a gap into ranges of equal cost, and adds them to the list. paying: number of edges in
 * `paying`, which are those that may cost something in this gap. */
static void reuse_divide(reuse *state, const reuse_range *gap, size_t paying, size_t *ranges) {
    reuse_item *steps = state->items;
    size_t count = 0;
    reuse_range range = {.first = gap->first, .touches_below = true};
    for (size_t i = 0; i < paying; i++) {
        const reuse_edge *edge = state->paying[i];
        int64_t rise = state->offset[edge->other] - edge->below + 1;
        int64_t fall = state->offset[edge->other] + edge->above;
        if (rise > gap->last || fall <= gap->first) continue;
        if (rise <= gap->first)
            range.cost += edge->cost;
        else
            steps[count++] = (reuse_item){.at = rise, .as.change = (int64_t)edge->cost};
        if (fall <= gap->last)
            steps[count++] = (reuse_item){.at = fall, .as.change = -(int64_t)edge->cost};
    }
    reuse_sort(steps, count);
    for (size_t i = 0; i < count;) {
        reuse_range next = {.first = steps[i].at, .cost = range.cost};
        range.last = next.first - 1;
        for (; i < count && steps[i].at == next.first; i++) {
            next.cost += (uint64_t)steps[i].as.change;
            range.touches_above |= steps[i].as.change > 0;
            next.touches_below |= steps[i].as.change < 0;
        }
        state->ranges[(*ranges)++] = range;
        range = next;
    }
    range.last = gap->last;
    range.touches_above = true;
    state->ranges[(*ranges)++] = range;
}

/* Lists the ranges of allowed starts of a buffer that is not placed, from `least` to `most`, in
 * ascending order, with their costs. Returns their number. */
static size_t reuse_ranges(reuse *state, uint32_t id, int64_t least, int64_t most) {
    size_t gaps, paying = 0, ranges = 0, first = state->block_begin[id];
    if (!reuse_scan(state, id, least, most, &gaps)) {
        reuse_sort_blocks(state, state->blocks + first, state->block_begin[id + 1] - first);
        reuse_scan(state, id, least, most, &gaps);
    }
    if (gaps == 0) return 0;
    int64_t low = state->gaps[0].first, high = state->gaps[gaps - 1].last;
    for (size_t i = state->costly[id]; i < state->begin[id + 1]; i++) {
        const reuse_edge *edge = &state->edges[i];
        int64_t offset = state->placed_at[edge->other];
        state->paying[paying] = edge;
        paying += offset - edge->below < high && offset + edge->above > low;
    }
    for (size_t i = 0; i < gaps; i++) reuse_divide(state, &state->gaps[i], paying, &ranges);
    return ranges;
}

/* Returns the highest aligned start at which a buffer ends within the capacity; negative if the
 * buffer is too large. */
static int64_t reuse_most(const reuse *state, uint32_t id) {
    const tn_run_body *body = &state->bodies[id];
    if (body->size > (uint64_t)state->capacity) return -1;
    uint64_t most = (uint64_t)state->capacity - body->size;
    return (int64_t)(most & ~(body->alignment - 1));
}

typedef struct reuse_choice {
    uint64_t allowed; /* limit of the cost of a start */
    /* limit of the random number, in sixteenths of a unit, that is added to the cost of a start */
    uint32_t noise;
    bool found;
    double score;
    int64_t start;
    uint64_t cost;
} reuse_choice;

static void reuse_consider(reuse *state, reuse_choice *choice, int64_t start, uint64_t cost) {
    if (cost > choice->allowed) return;
    double score = (double)cost;
    if (choice->noise > 0)
        score += state->unit / 16 * (double)tn__random_below(&state->random, choice->noise);
    if (choice->found && score >= choice->score) return;
    choice->found = true;
    choice->score = score;
    choice->start = start;
    choice->cost = cost;
}

/* Chooses the start of least cost (plus noise) for a buffer that is not placed, among the starts at
 * which it touches a neighbour or an end of the memory. choice->found is false if no start is
 * allowed. */
static void reuse_choose(reuse *state, uint32_t id, reuse_choice *choice) {
    int64_t most = reuse_most(state, id), mask = (int64_t)state->bodies[id].alignment - 1;
    choice->found = false;
    if (most < 0) return;
    size_t count = reuse_ranges(state, id, 0, most);
    /* true if the buffer touches a neighbour below it at the begin of an earlier range, in which no
     * start is aligned */
    bool touches = false;
    for (size_t i = 0; i < count; i++) {
        const reuse_range *range = &state->ranges[i];
        int64_t low = (range->first + mask) & ~mask, high = range->last & ~mask;
        touches |= range->touches_below;
        if (low > range->last) continue;
        if (touches) reuse_consider(state, choice, low, range->cost);
        touches = false;
        if (range->touches_above && high > low) reuse_consider(state, choice, high, range->cost);
    }
}

/* The cost that buffer `id` at its present offset pays together with placed neighbours. */
static uint64_t reuse_paid(const reuse *state, uint32_t id) {
    uint64_t sum = 0;
    int64_t start = state->offset[id];
    for (size_t i = state->costly[id]; i < state->begin[id + 1]; i++) {
        const reuse_edge *edge = &state->edges[i];
        int64_t offset = state->placed_at[edge->other];
        bool shares = start > offset - edge->below && start < offset + edge->above;
        sum += shares ? edge->cost : 0;
    }
    return sum;
}

/* --- keeping --- */

static void reuse_keep(reuse *state) {
    for (uint32_t i = 0; i < state->count; i++) state->keep[i] = (uint64_t)state->offset[i];
    tn__run_keep_offsets(state->run, state->keep);
}

/* The cost that pinned buffers pay among each other, which is part of every placement. Leaves only
 * the pinned buffers placed. */
static uint64_t reuse_pinned_cost(reuse *state) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < state->count; i++) reuse_remove(state, i);
    for (uint32_t i = 0; i < state->count; i++) {
        if (!reuse_is_fixed(state, i)) continue;
        sum += reuse_paid(state, i);
        reuse_place(state, i, state->offset[i]);
    }
    return sum;
}

/* Makes the best plan that the run has kept the present placement; returns false if that plan
 * exceeds the capacity. */
static bool reuse_take_best(reuse *state) {
    if (tn__run_best(state->run) > (uint64_t)state->capacity) return false;
    const uint64_t *best = tn__run_best_offsets(state->run);
    state->cost = reuse_pinned_cost(state);
    for (uint32_t k = 0; k < state->free_count; k++) {
        uint32_t id = state->free[k];
        state->offset[id] = (int64_t)best[id];
        state->cost += reuse_paid(state, id);
        reuse_place(state, id, state->offset[id]);
    }
    state->value = tn__run_best_cost(state->run);
    return true;
}

/* --- ruin and recreate --- */

static double reuse_progress(const reuse *state) {
    const tn_run *run = state->run;
    double deadline_s = run->prepared->deadline_s, part = 0;
    uint64_t done = tn__run_work_done(run) - state->work_at;
    uint64_t limit = run->work_limit > state->work_at ? run->work_limit - state->work_at : 1;
    if (run->work_limit == 0 && deadline_s == 0) return (double)done / REUSE_WORK;
    if (run->work_limit != 0) part = (double)done / (double)limit;
    if (deadline_s == 0) return part;
    double now_s = tn__clock_s(), span_s = deadline_s - state->started_s;
    double passed = span_s > 0 ? (now_s - state->started_s) / span_s : 1;
    return passed > part ? passed : part;
}

/* An approximately exponentially distributed random number. */
static double reuse_exponential(reuse *state) {
    uint64_t bits = tn__random_next(&state->random);
    int zeros = bits != 0 ? __builtin_clzll(bits) : 63;
    double rest = (double)(tn__random_next(&state->random) >> 11) / 9007199254740992.0;
    return 0.6931471805599453 * (zeros + rest);
}

static uint32_t reuse_below(reuse *state, uint32_t bound) {
    return (uint32_t)tn__random_below(&state->random, bound);
}

/* Returns the bytes between a buffer and a neighbour; 0 if they touch or share bytes. */
static int64_t reuse_distance(const reuse *state, uint32_t id, const reuse_edge *edge) {
    int64_t start = state->offset[id], offset = state->offset[edge->other];
    int64_t above = start - offset - edge->above, below = offset - edge->below - start;
    int64_t distance = above > below ? above : below;
    return distance > 0 ? distance : 0;
}

static bool reuse_may_move(const reuse *state, uint32_t id, const uint32_t *chosen,
                           uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        if (chosen[i] == id) return false;
    return !tn__run_pinned(state->run, id) && state->bodies[id].size > 0;
}

/* Chooses a buffer that is removed together with `member`: the nearest in memory of `among` random
 * neighbours, because moving both in one move may help. Returns UINT32_MAX if none may be moved. */
static uint32_t reuse_companion(reuse *state, uint32_t member, uint32_t among,
                                const uint32_t *chosen, uint32_t count) {
    size_t first = state->begin[member];
    uint32_t degree = (uint32_t)(state->begin[member + 1] - first), best = UINT32_MAX;
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < among && degree > 0; i++) {
        const reuse_edge *edge = &state->edges[first + reuse_below(state, degree)];
        int64_t distance = reuse_distance(state, member, edge);
        if (distance >= least || !reuse_may_move(state, edge->other, chosen, count)) continue;
        least = distance;
        best = edge->other;
    }
    /* a single neighbour is mostly passed over if it is far away */
    return among == 1 && least > state->capacity / 8 && reuse_below(state, 3) > 0 ? UINT32_MAX
                                                                                  : best;
}

/* Chooses the buffers that one move removes: a buffer that pays, mostly with neighbours. Returns
 * their number. */
static uint32_t reuse_ruin(reuse *state, uint32_t number, uint32_t *chosen) {
    uint32_t most = number % 7 == 0 ? REUSE_RUIN : 11, count = 1, tries = 0;
    uint32_t wanted = 2 + reuse_below(state, most - 1);
    uint32_t among = reuse_below(state, 2) == 0 ? 1 : 3;
    if (wanted > state->free_count) wanted = state->free_count;
    for (int i = 0; i < 6; i++) {
        chosen[0] = state->free[reuse_below(state, state->free_count)];
        if (reuse_paid(state, chosen[0]) > 0) break;
    }
    while (count < wanted && tries++ < 8 * wanted) {
        uint32_t member = chosen[reuse_below(state, count)];
        uint32_t id = reuse_companion(state, member, among, chosen, count);
        if (id != UINT32_MAX) chosen[count++] = id;
    }
    return count;
}

static void reuse_order(reuse *state, uint32_t *chosen, uint32_t count) {
    for (uint32_t i = count; i > 1; i--) {
        uint32_t k = reuse_below(state, i), swap = chosen[i - 1];
        chosen[i - 1] = chosen[k];
        chosen[k] = swap;
    }
    if (reuse_below(state, 2) == 0) return;
    /* sorts the buffers of the move by size, largest first */
    for (uint32_t i = 1; i < count; i++) {
        uint32_t id = chosen[i], at = i;
        for (; at > 0 && state->bodies[chosen[at - 1]].size < state->bodies[id].size; at--)
            chosen[at] = chosen[at - 1];
        chosen[at] = id;
    }
}

/* If the run has a judge, computes the judge's value of the new placement. *accepted is set if
 * there is no judge, or if the value is at most `rise` units above that of the present
 * placement. */
static tn_status reuse_judge(reuse *state, double rise, bool *accepted) {
    tn__judge *judge = state->run->prepared->judge;
    *accepted = true;
    if (judge == NULL) return TN_OK;
    for (uint32_t i = 0; i < state->count; i++) state->keep[i] = (uint64_t)state->offset[i];
    uint64_t value = tn__judge_value(judge, state->keep);
    *accepted = (double)value <= (double)state->value + rise * state->value_unit;
    if (*accepted) state->value = value;
    return tn__run_work(state->run, tn__judge_units(judge));
}

/* Returns the number that the search lowers: the judge's value if the run has a judge, else the
 * reuse cost. */
static uint64_t reuse_goal(const reuse *state) {
    return state->run->prepared->judge != NULL ? state->value : state->cost;
}

/* Makes one move: removes a few buffers and places them again. If the result is not accepted, the
 * placement and its cost are restored. */
static tn_status reuse_move(reuse *state, uint32_t number, double temperature) {
    uint32_t chosen[REUSE_RUIN], count = reuse_ruin(state, number, chosen), done = 0;
    int64_t before[REUSE_RUIN];
    uint64_t old = state->cost, removed = 0, added = 0;
    reuse_order(state, chosen, count);
    for (uint32_t i = 0; i < count; i++) {
        before[i] = state->offset[chosen[i]];
        removed += reuse_paid(state, chosen[i]);
        reuse_remove(state, chosen[i]);
    }
    double rise = temperature * reuse_exponential(state);
    uint64_t allowed = removed + (uint64_t)(rise * state->unit);
    bool accepted = false;
    for (; done < count && added <= allowed; done++) {
        reuse_choice choice = {.allowed = allowed - added,
                               .noise = reuse_below(state, 4) == 0 ? 40 : 8};
        reuse_choose(state, chosen[done], &choice);
        if (!choice.found) break;
        reuse_place(state, chosen[done], choice.start);
        added += choice.cost;
    }
    if (done == count) TN_TRY(reuse_judge(state, rise / 2, &accepted));
    if (accepted) {
        state->cost = old - removed + added;
    } else {
        for (uint32_t i = 0; i < count; i++) reuse_place(state, chosen[i], before[i]);
    }
    return tn__run_work(state->run, done + 1);
}

/* Makes moves with falling temperature, and keeps each placement that is better than all before it.
 * Ends when the fraction `until` of the run's limit of work or time is used, or, if `work` is not
 * 0, when the moves have used `work` units. */
static tn_status reuse_anneal(reuse *state, double until, uint64_t work) {
    uint64_t best = reuse_goal(state), start = tn__run_work_done(state->run);
    double temperature = REUSE_HOT;
    if (state->free_count < 1) return TN_OK;
    for (uint32_t number = 0; !tn__run_is_done(state->run) && state->cost > 0; number++) {
        if (number % 32 == 0) {
            double progress = reuse_progress(state);
            if (progress >= until) break;
            temperature = REUSE_HOT;
            for (int k = (int)(progress * 64); k > 0; k--) temperature *= 0.920545;
        }
        if (work != 0 && tn__run_work_done(state->run) - start >= work) break;
        TN_TRY(reuse_move(state, number, temperature));
        if (reuse_goal(state) >= best) continue;
        best = reuse_goal(state);
        reuse_keep(state);
    }
    return TN_OK;
}

/* --- complete search --- */

typedef struct reuse_search {
    reuse *state;
    /* reuse cost of the best placement found so far; only cheaper ones are searched for */
    uint64_t best;
    uint64_t nodes; /* number of placements of buffers that the search may still make */
    bool stopped;
} reuse_search;

typedef struct reuse_spot {
    int64_t start;
    uint64_t cost;
    uint32_t id;
} reuse_spot;

/* Computes the least cost of an unplaced buffer over all starts from `least` on; returns false if
 * no such start is allowed. */
static bool reuse_least(reuse *state, uint32_t id, int64_t least, uint64_t *cost) {
    int64_t most = reuse_most(state, id), mask = (int64_t)state->bodies[id].alignment - 1;
    bool found = false;
    *cost = 0;
    if (most < least) return false;
    size_t count = reuse_ranges(state, id, least, most);
    for (size_t i = 0; i < count; i++) {
        const reuse_range *range = &state->ranges[i];
        if (((range->first + mask) & ~mask) > range->last || (found && range->cost >= *cost))
            continue;
        found = true;
        *cost = range->cost;
    }
    return found;
}

/* Computes the cost of buffer `id` at `start`; returns false if that start is forbidden or too
 * high. */
static bool reuse_cost_at(const reuse *state, uint32_t id, int64_t start, uint64_t *cost) {
    const tn__prepared_bank *p = state->run->prepared;
    uint64_t first = (uint64_t)start, last = first + state->bodies[id].size;
    if (start > reuse_most(state, id)) return false;
    for (uint32_t i = 0; i < p->reserved_count && p->reserved[i].first < last; i++)
        if (p->reserved[i].last > first) return false;
    *cost = 0;
    for (size_t i = state->begin[id]; i < state->begin[id + 1]; i++) {
        const reuse_edge *edge = &state->edges[i];
        int64_t offset = state->placed_at[edge->other];
        if (start <= offset - edge->below || start >= offset + edge->above) continue;
        if (edge->cost == REUSE_HARD) return false;
        *cost += edge->cost;
    }
    return true;
}

static int reuse_by_cost(const void *a, const void *b) {
    const reuse_spot *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? -1 : 1;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* limit of the number of candidate offsets of all unplaced buffers together; with more, the search
 * ends without a proof */
#define REUSE_PLACES 512u

/* Lists the starts of unplaced buffers that come at or after (last, last_id) in the order (start,
 * number), cheapest first. Returns their number; UINT32_MAX if there are more than REUSE_PLACES. */
static uint32_t reuse_places(reuse *state, int64_t last, uint32_t last_id, reuse_spot *places) {
    const tn__prepared_bank *p = state->run->prepared;
    uint32_t count = 0;
    for (uint32_t k = 0; k < state->free_count; k++) {
        uint32_t id = state->free[k], own = count;
        size_t edges = state->begin[id + 1] - state->begin[id];
        int64_t mask = (int64_t)state->bodies[id].alignment - 1;
        if (reuse_is_placed(state, id)) continue;
        for (size_t i = 0; i <= p->reserved_count + edges; i++) {
            /* start 0 is the last candidate, after reserved ranges and neighbours */
            int64_t start = 0;
            if (i < p->reserved_count) {
                if (p->reserved[i].last > (uint64_t)state->capacity) continue;
                start = (int64_t)p->reserved[i].last;
            } else if (i < p->reserved_count + edges) {
                const reuse_edge *edge = &state->edges[state->begin[id] + i - p->reserved_count];
                if (!reuse_is_placed(state, edge->other)) continue;
                start = state->offset[edge->other] + edge->above;
            }
            start = (start + mask) & ~mask;
            bool again = start < last || (start == last && id < last_id);
            for (uint32_t j = own; j < count && !again; j++) again = places[j].start == start;
            uint64_t cost;
            if (again || !reuse_cost_at(state, id, start, &cost)) continue;
            if (count == REUSE_PLACES) return UINT32_MAX;
            places[count++] = (reuse_spot){start, cost, id};
        }
    }
    if (count > 1) qsort(places, count, sizeof *places, reuse_by_cost);
    return count;
}

/* Places the remaining buffers by recursion, one level for each buffer; search->best is lowered
 * whenever all are placed at a lower cost. */
static tn_status reuse_deeper(reuse_search *search, int64_t last, uint32_t last_id, uint64_t cost) {
    reuse *state = search->state;
    uint64_t bound = cost, least;
    bool all = true;
    if (search->nodes == 0) search->stopped = true;
    if (search->stopped) return TN_OK;
    search->nodes--;
    TN_TRY(tn__run_work(state->run, 1));
    for (uint32_t k = 0; k < state->free_count; k++) {
        if (reuse_is_placed(state, state->free[k])) continue;
        all = false;
        if (!reuse_least(state, state->free[k], last, &least)) return TN_OK;
        bound += least;
        if (bound >= search->best) return TN_OK;
    }
    if (all) {
        search->best = cost;
        reuse_keep(state);
        return TN_OK;
    }
    reuse_spot places[REUSE_PLACES];
    uint32_t count = reuse_places(state, last, last_id, places);
    if (count == UINT32_MAX) search->stopped = true, count = 0;
    for (uint32_t i = 0; i < count && !search->stopped; i++) {
        const reuse_spot *place = &places[i];
        /* places are sorted by cost, so all later ones are too expensive, too */
        if (cost + place->cost >= search->best) break;
        reuse_place(state, place->id, place->start);
        tn_status status = reuse_deeper(search, place->start, place->id, cost + place->cost);
        reuse_remove(state, place->id);
        if (status != TN_OK) return status;
    }
    return TN_OK;
}

/* Searches all placements with a reuse cost below `best`, if the problem is small. *proved: no
 * placement costs less than the best one found, or than `best` if none was found. */
static tn_status reuse_complete(reuse *state, uint64_t best, bool *proved) {
    reuse_search search = {
        .state = state, .best = best, .nodes = state->exact ? REUSE_NODES_EXACT : REUSE_NODES};
    *proved = false;
    if (state->free_count > (state->exact ? REUSE_SMALL_EXACT : REUSE_SMALL) || !state->plain ||
        state->shift > 0)
        return TN_OK;
    uint64_t pinned = reuse_pinned_cost(state);
    TN_TRY(reuse_deeper(&search, 0, 0, pinned));
    *proved = !search.stopped;
    return TN_OK;
}

/* --- all placements, for a judge --- */

/* State of a search over all aligned starts of all buffers. With a judge, sharing more bytes may be
 * better, because a wait can imply others. So no start can be skipped, and all are tried if they
 * are few. */
typedef struct reuse_all {
    reuse *state;
    /* number of placements of buffers that may still be tried; judging a placement of a large
     * program counts as several */
    uint64_t nodes;
    bool stopped;
} reuse_all;

static tn_status reuse_all_from(reuse_all *all, uint32_t at) {
    reuse *state = all->state;
    if (at == state->free_count) {
        uint64_t units = tn__judge_units(state->run->prepared->judge);
        reuse_keep(state);
        all->nodes -= units - 1 < all->nodes ? units - 1 : all->nodes;
        return tn__run_work(state->run, units);
    }
    uint32_t id = state->free[at];
    int64_t step = (int64_t)state->bodies[id].alignment, most = reuse_most(state, id);
    for (int64_t start = 0; start <= most && !all->stopped; start += step) {
        uint64_t cost;
        all->stopped = all->nodes == 0;
        if (all->stopped) break;
        all->nodes--;
        if (!reuse_cost_at(state, id, start, &cost)) continue;
        reuse_place(state, id, start);
        tn_status status = reuse_all_from(all, at + 1);
        reuse_remove(state, id);
        if (status != TN_OK) return status;
        if (tn__run_is_done(state->run)) return TN_OK;
    }
    return TN_OK;
}

/* Tries all combinations of starts, if they are few. *proved: all were tried, so the best placement
 * kept is optimal. */
static tn_status reuse_everything(reuse *state, bool *proved) {
    reuse_all all = {.state = state, .nodes = REUSE_NODES};
    double starts = 1;
    *proved = false;
    for (uint32_t k = 0; k < state->free_count; k++) {
        int64_t most = reuse_most(state, state->free[k]);
        if (most < 0) return TN_OK;
        starts *= 1 + (double)most / (double)state->bodies[state->free[k]].alignment;
    }
    if (starts > REUSE_ALL || state->free_count > REUSE_SMALL) return TN_OK;
    reuse_clear(state);
    TN_TRY(reuse_all_from(&all, 0));
    *proved = !all.stopped;
    return TN_OK;
}

/* --- bounds --- */

/* Returns a lower bound of the reuse cost: two buffers that are together larger than the memory
 * share bytes in every placement, so their cost is paid. */
static uint64_t reuse_must_share(const reuse *state) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < state->count && state->plain && state->shift == 0; i++) {
        for (size_t k = state->begin[i]; k < state->begin[i + 1]; k++) {
            const reuse_edge *edge = &state->edges[k];
            uint64_t both = state->bodies[i].size + state->bodies[edge->other].size;
            if (edge->cost == REUSE_HARD || edge->other < i) continue;
            if (both > (uint64_t)state->usable) sum += edge->cost;
        }
    }
    return sum;
}

/* Raises the lower bound of the reuse cost with sets of more than two buffers (search/cliques.c),
 * with a small part of the remaining work. */
static tn_status reuse_sets(reuse *state, uint64_t *bound) {
    tn_run *run = state->run;
    uint64_t left = tn__run_work_left(run) / 16;
    if (!state->plain || state->shift > 0 || state->count > TN__CLIQUE_BODIES) return TN_OK;
    size_t total = state->begin[state->count], used = 0;
    tn__clique_pair *pairs = tn__run_scratch(run, total / 2 + 1, sizeof *pairs);
    if (pairs == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < state->count; i++)
        for (size_t k = state->begin[i]; k < state->begin[i + 1]; k++)
            if (state->edges[k].other > i)
                pairs[used++] = (tn__clique_pair){i, state->edges[k].other, state->edges[k].cost};
    tn__cliques given = {.bodies = state->bodies,
                         .count = state->count,
                         .pairs = pairs,
                         .pair_count = used,
                         .usable = (uint64_t)state->usable,
                         .attempts = left < REUSE_SETS ? (uint32_t)left : REUSE_SETS,
                         .seed = tn__run_seed(run)};
    return tn__clique_bound(run, &given, bound);
}

/* Tries to prove that the buffers do not fit: looks for a set of buffers of which no two may share
 * bytes, and which together are larger than the memory. A set begins with each buffer in turn, and
 * grows by the largest buffer that may share bytes with no member. */
static tn_status reuse_clique(reuse *state, bool *proved) {
    tn_run *run = state->run;
    uint32_t n = state->count, count;
    size_t words = (size_t)n / 64 + 1;
    uint64_t *hard = tn__run_scratch(run, n * words, sizeof *hard);
    uint64_t *both = tn__run_scratch(run, words, sizeof *both);
    const uint32_t *order;
    *proved = false;
    if (!state->plain) return TN_OK;
    if (hard == NULL || both == NULL) return TN_E_NO_MEMORY;
    for (uint32_t i = 0; i < n; i++)
        for (size_t k = state->begin[i]; k < state->begin[i + 1]; k++)
            if (state->edges[k].cost == REUSE_HARD)
                hard[i * words + state->edges[k].other / 64] |= 1ull << state->edges[k].other % 64;
    for (uint32_t i = 0; i < n; i++)
        if (tn__run_placed(run, i) && !tn__run_pinned(run, i)) tn__run_unplace(run, i);
    TN_TRY(tn__run_order(run, tn__larger_first, &order, &count));
    for (uint32_t k = 0; k < count && !*proved; k++) {
        uint64_t sum = state->bodies[order[k]].size;
        memcpy(both, hard + order[k] * words, words * sizeof *both);
        for (uint32_t j = 0; j < count; j++) {
            uint32_t id = order[j];
            if ((both[id / 64] >> id % 64 & 1) == 0) continue;
            sum = tn__add_sat(sum, state->bodies[id].size);
            for (size_t w = 0; w < words; w++) both[w] &= hard[id * words + w];
        }
        *proved = sum > (uint64_t)state->usable;
        TN_TRY(tn__run_work(run, 1 + count / 256));
    }
    return TN_OK;
}

/* --- does it fit? --- */

/* Places all unpinned buffers, those with the largest product of size and a random factor first,
 * each at its lowest allowed start. *fits: all were placed; the placement is then kept. */
static tn_status reuse_try(reuse *state, uint32_t spread, uint64_t *key, bool *fits) {
    tn_run *run = state->run;
    const uint32_t *order;
    uint32_t count;
    reuse_clear(state);
    for (uint32_t i = 0; i < state->count; i++) {
        uint64_t factor = 1024 + tn__random_below(&state->random, (uint64_t)spread + 1);
        __extension__ unsigned __int128 size = state->bodies[i].size;
        key[i] = ~(uint64_t)(size * factor >> 10 > UINT64_MAX / 2 ? UINT64_MAX / 2
                                                                  : size * factor >> 10);
        if (tn__run_placed(run, i) && !tn__run_pinned(run, i)) tn__run_unplace(run, i);
    }
    TN_TRY(tn__run_order_by_key(run, key, tn__larger_first, &order, &count));
    *fits = true;
    for (uint32_t k = 0; k < count && *fits; k++) {
        reuse_choice choice = {.allowed = UINT64_MAX - 1};
        TN_TRY(tn__run_work(run, 1));
        if (state->bodies[order[k]].size == 0) continue;
        /* without noise in the choice, the lowest of the cheapest starts is taken */
        reuse_choose(state, order[k], &choice);
        *fits = choice.found;
        if (*fits) reuse_place(state, order[k], choice.start);
    }
    if (*fits) reuse_keep(state);
    return TN_OK;
}

static tn_status reuse_fit(reuse *state) {
    tn_run *run = state->run;
    bool proved, fits = false;
    uint64_t *key = tn__run_scratch(run, state->count, sizeof *key);
    if (key == NULL) return TN_E_NO_MEMORY;
    TN_TRY(reuse_clique(state, &proved));
    for (uint32_t k = 0; k < REUSE_STARTS && !proved && !fits; k++)
        TN_TRY(reuse_try(state, k * 16, key, &fits));
    if (!proved && !fits) TN_TRY(reuse_complete(state, 1, &proved));
    if (proved && tn__run_best(run) > tn__run_capacity(run))
        tn__run_raise_bound(run, tn__add_sat(tn__run_capacity(run), 1));
    return TN_OK;
}

/* --- the planner reuse-cost --- */

static tn_status reuse_least_cost(reuse *state) {
    tn_run *run = state->run;
    bool proved = false;
    uint64_t bound = reuse_must_share(state);
    TN_TRY(reuse_sets(state, &bound));
    tn__judge *judge = run->prepared->judge;
    if (judge != NULL) {
        bound = tn__judge_bound(judge, bound > 0);
        state->value_unit = tn__judge_unit(judge);
    }
    tn__run_raise_cost_bound(run, bound);
    if (!reuse_take_best(state) || tn__run_is_done(run)) return TN_OK;
    bool small = state->free_count <= (state->exact ? REUSE_SMALL_EXACT : REUSE_SMALL);
    state->started_s = tn__clock_s();
    state->work_at = tn__run_work_done(run);
    if (small) {
        TN_TRY(reuse_anneal(state, 0.25, REUSE_FIRST));
        if (!tn__run_is_done(run))
            TN_TRY(judge != NULL ? reuse_everything(state, &proved)
                                 : reuse_complete(state, tn__run_best_cost(run), &proved));
        if (proved) tn__run_raise_cost_bound(run, tn__run_best_cost(run));
        if (tn__run_is_done(run) || !reuse_take_best(state)) return TN_OK;
    }
    return reuse_anneal(state, 1, 0);
}

static tn_status reuse_run(tn_run *run, bool exact) {
    reuse state = {.run = run,
                   .exact = exact,
                   .bodies = tn__run_bodies(run),
                   .count = tn__run_count(run),
                   .random = {tn__run_seed(run)}};
    bool possible;
    TN_TRY(tn__run_quick_portfolio(run));
    if (state.count <= REUSE_SIMPLE) TN_TRY(tn__run_simple_planners(run));
    if (tn__run_is_done(run) || !tn__run_has_capacity(run)) return TN_OK;
    TN_TRY(reuse_init(&state, &possible));
    if (possible) TN_TRY(reuse_neighbours(&state, &possible));
    if (!possible) return TN_OK;
    return tn__run_by_cost(run) ? reuse_least_cost(&state) : reuse_fit(&state);
}

static tn_status reuse_solve(tn_run *run) { return reuse_run(run, false); }

tn_status tn__reuse_exact(tn_run *run) {
    if (!tn__run_has_capacity(run))
        TN_FAIL(run->error, TN_E_UNSUPPORTED,
                "planner exact needs a capacity for separations and reserved ranges; set "
                "`capacity`, or use `planner` auto");
    return reuse_run(run, true);
}

const tn_planner tn__planner_reuse_cost = {
    .name = "reuse-cost",
    .summary = "least cost of the pairs that share bytes, within a capacity: ruin and recreate",
    .source = "Shaw 1998; dsa-solver 2026",
    .features = TN_PLANS_ALL | TN_PLANS_APART | TN_PLANS_BY_COST,
    .solve = reuse_solve,
};
