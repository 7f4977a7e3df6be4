/* compact.c - what lies in the arena is moved together, so that free bytes are in one piece.
 *
 * Blocks slide towards low addresses, in the order in which they lie, so nothing is written over
 * before it was moved. What is pinned, and what a caller wants where it is, stays: gaps remain
 * below those, and nowhere else. Operands of operators that wait to run are moved as all others:
 * where they lie is asked when they run.
 *
 * A policy that has moves gets the cheapest: the run of blocks whose free bytes are enough and
 * whose other bytes are the fewest is moved together, and no other.
 *
 * Cost: a copy of all that moves, O(blocks).
 */
#include "evict/policy.h"

static bool compact_stays(const tn__evict *e, uint32_t owner) {
    if (owner == TN__BLOCK_TEMPORARY) return false;
    return e->storages[owner].is_pinned || e->storages[owner].wants > 0;
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

/* To a lower address; what holds no contents yet has nothing to copy. */
static void compact_move(tn__evict *e, uint32_t block, uint64_t to) {
    tn__evict_block *record = &e->blocks[block];
    uint32_t owner = record->owner;
    bool is_filled = owner != TN__BLOCK_TEMPORARY && e->storages[owner].state == TN__RESIDENT &&
                     e->storages[owner].block == block;
    if (is_filled) {
        if (e->options.hooks.move != NULL)
            e->options.hooks.move(e->options.hooks.self, record->at, to, record->size);
        compact_pay(e, record->size);
    }
    record->at = to;
}

/* The run of blocks without one that stays, whose free bytes do, and whose others are the fewest
 * bytes: its first block and the one behind it, and those bytes. False: there is none. */
static bool compact_find(const tn__evict *e, uint64_t size, uint32_t *first, uint32_t *behind,
                         uint64_t *moves) {
    uint64_t free = 0, used = 0, least = UINT64_MAX;
    uint32_t low = e->block_first;
    for (uint32_t b = e->block_first; b != TN__NONE; b = e->blocks[b].after) {
        bool is_free = e->blocks[b].owner == TN__BLOCK_FREE;
        if (!is_free && compact_stays(e, e->blocks[b].owner)) {
            free = used = 0;
            low = e->blocks[b].after;
            continue;
        }
        *(is_free ? &free : &used) += e->blocks[b].size;
        for (;; low = e->blocks[low].after) { /* what is not needed at its low end */
            bool is_low_free = e->blocks[low].owner == TN__BLOCK_FREE;
            if (low == b || (is_low_free && free - e->blocks[low].size < size)) break;
            *(is_low_free ? &free : &used) -= e->blocks[low].size;
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
    uint32_t first = TN__NONE, behind = TN__NONE, next;
    uint64_t moves;
    if (!compact_find(e, size, &first, &behind, &moves)) return false;
    uint32_t last = e->blocks[first].before;
    uint64_t end = e->blocks[first].at;
    uint64_t stop = behind != TN__NONE ? e->blocks[behind].at : e->capacity;
    for (uint32_t b = first; b != behind; b = next) {
        next = e->blocks[b].after;
        if (e->blocks[b].owner == TN__BLOCK_FREE) {
            tn__arena_discard(e, b);
            continue;
        }
        e->blocks[b].before = last;
        if (last != TN__NONE)
            e->blocks[last].after = b;
        else
            e->block_first = b;
        if (e->blocks[b].at != end) compact_move(e, b, end);
        end = e->blocks[b].at + e->blocks[b].size;
        last = b;
    }
    tn__arena_gap(e, last, end, stop, behind);
    return true;
}

/* The blocks in use, one behind the other; free ones are taken out of the list. */
static uint32_t compact_take_out(tn__evict *e) {
    uint32_t first = TN__NONE, last = TN__NONE;
    for (uint32_t b = e->block_first, next; b != TN__NONE; b = next) {
        next = e->blocks[b].after;
        if (e->blocks[b].owner == TN__BLOCK_FREE) {
            tn__arena_discard(e, b);
            continue;
        }
        e->blocks[b].before = last;
        if (last != TN__NONE)
            e->blocks[last].after = b;
        else
            first = b;
        last = b;
    }
    if (last != TN__NONE) e->blocks[last].after = TN__NONE;
    return first;
}

void tn__arena_compact(tn__evict *e) {
    uint32_t first = compact_take_out(e), last = TN__NONE;
    uint64_t end = 0;
    e->block_first = first;
    for (uint32_t b = first; b != TN__NONE; b = e->blocks[b].after) {
        if (compact_stays(e, e->blocks[b].owner))
            tn__arena_gap(e, last, end, e->blocks[b].at, b);
        else if (e->blocks[b].at != end)
            compact_move(e, b, end);
        end = e->blocks[b].at + e->blocks[b].size;
        last = b;
    }
    tn__arena_gap(e, last, end, e->capacity, TN__NONE);
}
