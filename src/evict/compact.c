/* compact.c - what lies in the arena is moved together, so that free bytes are in one piece.
 *
 * Blocks slide towards one end, in the order in which they lie, the one nearest to it first, so
 * nothing is written over before it was moved. What is pinned, and what a caller wants where it is,
 * stays. Operands of operators that wait to run are moved as all others: where they lie is asked
 * when they run.
 *
 * Usually a part will do: the run of blocks whose free bytes are enough and whose other bytes are
 * the fewest.
 *
 * What will stay where it is put divides what is behind from what is before it for good, so it is
 * put beside others that stay, or at an end of the arena, and what lies there slides away from it.
 *
 * Cost: a copy of all that moves, O(blocks).
 */
#include "evict/policy.h"

static bool compact_is_free(const tn__evict *e, uint32_t block) {
    return e->blocks[block].owner == TN__BLOCK_FREE;
}

static uint64_t compact_cost(const tn__evict *e, uint64_t bytes) {
    tn__wide cost = (tn__wide)bytes * e->options.cost_per_s / e->options.move_bytes_per_s;
    return cost > UINT64_MAX ? UINT64_MAX : (uint64_t)cost;
}

static void compact_pay(tn__evict *e, uint64_t bytes) {
    e->counts.move_count++;
    e->counts.moved_bytes += bytes;
    e->counts.move_cost = tn__add_sat(e->counts.move_cost, compact_cost(e, bytes));
}

/* What holds no contents yet has nothing to copy. */
static void compact_move(tn__evict *e, uint32_t block, uint64_t to) {
    tn__evict_block *record = &e->blocks[block];
    uint32_t owner = record->owner;
    bool is_filled = owner != TN__BLOCK_TEMPORARY && e->storages[owner].state == TN__RESIDENT &&
                     e->storages[owner].block == block;
    if (record->at == to) return;
    if (is_filled) {
        if (e->options.hooks.move != NULL)
            e->options.hooks.move(e->options.hooks.self, record->at, to, record->size);
        compact_pay(e, record->size);
    }
    record->at = to;
}

/* --- sliding --- */

/* `low` comes before `high` in the order of addresses; NONE: the end of it. */
static void compact_link(tn__evict *e, uint32_t low, uint32_t high) {
    if (low != TN__NONE)
        e->blocks[low].after = high;
    else
        e->block_first = high;
    if (high != TN__NONE) e->blocks[high].before = low;
}

uint32_t tn__arena_slide_down(tn__evict *e, uint32_t first, uint32_t behind) {
    uint32_t last = e->blocks[first].before, next;
    uint64_t end = e->blocks[first].at;
    uint64_t stop = behind != TN__NONE ? e->blocks[behind].at : e->capacity;
    for (uint32_t b = first; b != behind; b = next) {
        next = e->blocks[b].after;
        if (compact_is_free(e, b)) {
            tn__arena_discard(e, b);
            continue;
        }
        compact_link(e, last, b);
        compact_move(e, b, end);
        end += e->blocks[b].size;
        last = b;
    }
    compact_link(e, last, behind);
    return tn__arena_gap(e, last, end, stop, behind);
}

/* The same towards the high end, from the first up to the last: the gap is at the low end. */
static uint32_t compact_slide_up(tn__evict *e, uint32_t first, uint32_t last) {
    uint32_t before = e->blocks[first].before, high = e->blocks[last].after, next;
    uint64_t start = e->blocks[first].at, end = e->blocks[last].at + e->blocks[last].size;
    for (uint32_t b = last; b != before; b = next) {
        next = e->blocks[b].before;
        if (compact_is_free(e, b)) {
            tn__arena_discard(e, b);
            continue;
        }
        end -= e->blocks[b].size;
        compact_link(e, b, high);
        compact_move(e, b, end);
        high = b;
    }
    compact_link(e, before, high);
    return tn__arena_gap(e, before, start, end, high);
}

/* --- as little as will do --- */

/* The run of blocks without one that stays, whose free bytes do, and whose others are the fewest
 * bytes: its first block and the one behind it, and those bytes. False: there is none. */
static bool compact_find(const tn__evict *e, uint64_t size, uint32_t *first, uint32_t *behind,
                         uint64_t *moves) {
    uint64_t free = 0, used = 0, least = UINT64_MAX;
    uint32_t low = e->block_first;
    for (uint32_t b = e->block_first; b != TN__NONE; b = e->blocks[b].after) {
        if (tn__arena_stays(e, b)) {
            free = used = 0;
            low = e->blocks[b].after;
            continue;
        }
        *(compact_is_free(e, b) ? &free : &used) += e->blocks[b].size;
        for (;; low = e->blocks[low].after) { /* what is not needed at its low end */
            bool is_free = compact_is_free(e, low);
            if (low == b || (is_free && free - e->blocks[low].size < size)) break;
            *(is_free ? &free : &used) -= e->blocks[low].size;
        }
        if (free < size || used >= least) continue;
        least = used;
        *first = low;
        *behind = e->blocks[b].after;
    }
    *moves = least;
    return least != UINT64_MAX;
}

uint64_t tn__arena_gap_cost(const tn__evict *e, uint64_t size) {
    uint32_t first, behind;
    uint64_t moves;
    return compact_find(e, size, &first, &behind, &moves) ? compact_cost(e, moves) : UINT64_MAX;
}

bool tn__arena_make_gap(tn__evict *e, uint64_t size) {
    uint32_t first = TN__NONE, behind = TN__NONE;
    uint64_t moves;
    if (!compact_find(e, size, &first, &behind, &moves)) return false;
    tn__arena_slide_down(e, first, behind);
    return true;
}

/* --- beside what stays --- */

typedef struct compact_side { /* of a run of blocks that may be moved: what lies at one end of it */
    uint32_t first, last;
    uint64_t moves; /* bytes */
    bool is_high;
} compact_side;

/* From an end of a run towards the other, until there are free bytes enough. */
static void compact_look(const tn__evict *e, uint32_t from, bool is_high, uint64_t size,
                         compact_side *least) {
    uint64_t free = 0, used = 0;
    for (uint32_t b = from; b != TN__NONE && !tn__arena_stays(e, b);
         b = is_high ? e->blocks[b].before : e->blocks[b].after) {
        *(compact_is_free(e, b) ? &free : &used) += e->blocks[b].size;
        if (used >= least->moves) return;
        if (free < size) continue;
        *least = (compact_side){is_high ? b : from, is_high ? from : b, used, is_high};
        return;
    }
}

/* The end of a run that it takes the fewest moves to make room at. */
static compact_side compact_least_side(const tn__evict *e, uint64_t size) {
    compact_side least = {.first = TN__NONE, .moves = UINT64_MAX};
    uint32_t before = TN__NONE;
    bool is_run = false;
    for (uint32_t b = e->block_first; b != TN__NONE; before = b, b = e->blocks[b].after) {
        bool stays = tn__arena_stays(e, b);
        if (!stays && !is_run) compact_look(e, b, false, size, &least);
        if (stays && is_run) compact_look(e, before, true, size, &least);
        is_run = !stays;
    }
    if (is_run) compact_look(e, before, true, size, &least);
    return least;
}

uint32_t tn__arena_take_side(tn__evict *e, uint64_t size, uint32_t owner) {
    compact_side side = compact_least_side(e, size);
    uint32_t gap = side.is_high ? tn__arena_slide_down(e, side.first, e->blocks[side.last].after)
                                : compact_slide_up(e, side.first, side.last);
    return tn__arena_cut(e, gap, size, side.is_high, owner);
}

/* --- all --- */

void tn__arena_compact(tn__evict *e) {
    for (uint32_t b = e->block_first, behind; b != TN__NONE; b = behind) {
        behind = e->blocks[b].after;
        if (tn__arena_stays(e, b)) continue;
        while (behind != TN__NONE && !tn__arena_stays(e, behind)) behind = e->blocks[behind].after;
        tn__arena_slide_down(e, b, behind);
    }
}
