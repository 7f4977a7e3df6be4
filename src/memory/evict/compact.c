/* compact.c - moves blocks of the arena together, so that the free bytes become contiguous.
 *
 * Blocks move towards one end in the order of their addresses, those nearest to that end first, so
 * no block is overwritten before it was moved. Pinned blocks and blocks locked by a caller are not
 * moved. Operands of operators that wait to run may move, because their addresses are looked up
 * when the operator runs.
 *
 * Usually it is enough to move part of the arena: the sequence of neighbouring blocks that contains
 * enough free bytes and the fewest used bytes.
 *
 * A block that will never move divides the arena for good. So it is placed next to another fixed
 * block, or at an end of the arena, and the blocks in that place move away.
 *
 * Cost: a copy of every byte that moves, and O(blocks).
 */
#include "memory/evict/policy.h"

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

/* Moves a block to offset `to`. A block without contents is not copied. */
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

/* Links the blocks `low` and `high` as neighbours by address; NONE stands for the end of the
 * arena. */
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

/* Moves the blocks from `first` to `last` towards the high end, and returns the free block at the
 * low end. */
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

/* --- compacting a part of the arena --- */

/* Among sequences of movable blocks with enough free bytes, finds the one with the fewest used
 * bytes. *first becomes its first block, *behind the block after its last one, *moves the number of
 * its used bytes. False if there is no such sequence. */
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
        /* leaves out blocks at the low end as long as the others have enough free bytes */
        for (;; low = e->blocks[low].after) {
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

/* --- placing a block next to fixed blocks --- */

/* one end of a sequence of movable blocks, at which blocks are to be moved away */
typedef struct compact_side {
    uint32_t first, last;
    uint64_t moves; /* bytes */
    bool is_high;
} compact_side;

/* Walks from one end of a sequence of movable blocks towards the other until there are enough free
 * bytes; updates *least if fewer bytes would have to move than so far. */
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

/* Finds the end of a sequence of movable blocks at which the fewest bytes must move to free `size`
 * bytes. */
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
