/* arena.c - manages the budget as a range of addresses: blocks, each in use or free, cover the
 * arena without a gap.
 *
 * Free blocks are in lists by powers of two of their size; a word of bits says which lists are not
 * empty. A search takes the smallest sufficient block from the list of its own power, or else from
 * the next list that is not empty: best fit. Two free blocks are never neighbours.
 *
 * Cost: O(free blocks of one power of two) per search, O(1) for all other functions.
 */
#include "memory/evict/policy.h"

static uint32_t arena_bin(uint64_t size) {
    tn_assert(size > 0);
    return 63 - (uint32_t)__builtin_clzll(size);
}

bool tn__arena_reserve(tn__evict *e, uint32_t more) {
    size_t need = (size_t)e->block_count + more;
    return need <= TN__EVICT_IDS_MAX &&
           tn__reserve(&e->context, &e->blocks, &e->block_room, need, sizeof *e->blocks);
}

uint64_t tn__arena_round(const tn__evict *e, uint64_t bytes) {
    uint64_t rounded;
    return tn__align_up(bytes, e->options.alignment, &rounded)
               ? rounded
               : UINT64_MAX & ~(e->options.alignment - 1);
}

static uint32_t arena_new(tn__evict *e) {
    uint32_t id = e->block_vacant;
    if (id != TN__NONE)
        e->block_vacant = e->blocks[id].free_after;
    else
        id = e->block_count++;
    tn_assert(id < e->block_room);
    return id;
}

static void arena_list(tn__evict *e, uint32_t block) {
    tn__evict_block *record = &e->blocks[block];
    uint32_t bin = arena_bin(record->size);
    record->owner = TN__BLOCK_FREE;
    record->free_before = TN__NONE;
    record->free_after = e->bins[bin];
    if (e->bins[bin] != TN__NONE) e->blocks[e->bins[bin]].free_before = block;
    e->bins[bin] = block;
    e->bin_bits |= (uint64_t)1 << bin;
    e->free_bytes += record->size;
}

static void arena_unlist(tn__evict *e, uint32_t block) {
    tn__evict_block *record = &e->blocks[block];
    uint32_t bin = arena_bin(record->size);
    if (record->free_before != TN__NONE)
        e->blocks[record->free_before].free_after = record->free_after;
    else
        e->bins[bin] = record->free_after;
    if (record->free_after != TN__NONE)
        e->blocks[record->free_after].free_before = record->free_before;
    if (e->bins[bin] == TN__NONE) e->bin_bits &= ~((uint64_t)1 << bin);
    e->free_bytes -= record->size;
}

tn_status tn__arena_open(tn__evict *e, tn_error *error) {
    e->capacity = e->options.budget & ~(e->options.alignment - 1);
    e->block_first = e->block_vacant = TN__NONE;
    for (uint32_t bin = 0; bin < TN__EVICT_BINS; bin++) e->bins[bin] = TN__NONE;
    if (!tn__arena_reserve(e, 1)) return tn__no_memory(error, "the blocks of an arena");
    if (e->capacity == 0) return TN_OK;
    e->block_first = arena_new(e);
    e->blocks[e->block_first] =
        (tn__evict_block){.size = e->capacity, .before = TN__NONE, .after = TN__NONE};
    arena_list(e, e->block_first);
    return TN_OK;
}

static uint32_t arena_best_of(const tn__evict *e, uint32_t bin, uint64_t size) {
    uint32_t best = TN__NONE;
    for (uint32_t b = e->bins[bin]; b != TN__NONE; b = e->blocks[b].free_after) {
        const tn__evict_block *block = &e->blocks[b];
        if (block->size < size) continue;
        if (best == TN__NONE || block->size < e->blocks[best].size ||
            (block->size == e->blocks[best].size && block->at < e->blocks[best].at))
            best = b;
    }
    return best;
}

uint32_t tn__arena_find(const tn__evict *e, uint64_t size) {
    uint32_t bin = arena_bin(size), best = arena_best_of(e, bin, size);
    if (best != TN__NONE || bin + 1 == TN__EVICT_BINS) return best;
    uint64_t above = e->bin_bits & ~(((uint64_t)2 << bin) - 1);
    return above == 0 ? TN__NONE : arena_best_of(e, (uint32_t)__builtin_ctzll(above), size);
}

uint32_t tn__arena_cut(tn__evict *e, uint32_t block, uint64_t size, bool high, uint32_t owner) {
    arena_unlist(e, block);
    uint64_t rest = e->blocks[block].size - size;
    if (rest > 0) {
        uint32_t other = arena_new(e);
        tn__evict_block *low = &e->blocks[block], *added = &e->blocks[other];
        *added = (tn__evict_block){.before = block, .after = low->after};
        if (low->after != TN__NONE) e->blocks[low->after].before = other;
        low->after = other;
        added->size = high ? size : rest;
        low->size = high ? rest : size;
        added->at = low->at + low->size;
        arena_list(e, high ? block : other);
        if (high) block = other;
    }
    e->blocks[block].owner = owner;
    return block;
}

static void arena_retire(tn__evict *e, uint32_t block) {
    e->blocks[block].free_after = e->block_vacant;
    e->block_vacant = block;
}

/* Merges the block with the one after it; neither may be in a list of free blocks. */
static void arena_join(tn__evict *e, uint32_t block) {
    tn__evict_block *low = &e->blocks[block];
    uint32_t gone = low->after;
    low->size += e->blocks[gone].size;
    low->after = e->blocks[gone].after;
    if (low->after != TN__NONE) e->blocks[low->after].before = block;
    arena_retire(e, gone);
}

void tn__arena_free(tn__evict *e, uint32_t block) {
    uint32_t after = e->blocks[block].after, before = e->blocks[block].before;
    if (after != TN__NONE && e->blocks[after].owner == TN__BLOCK_FREE) {
        arena_unlist(e, after);
        arena_join(e, block);
    }
    if (before != TN__NONE && e->blocks[before].owner == TN__BLOCK_FREE) {
        arena_unlist(e, before);
        arena_join(e, before);
        block = before;
    }
    arena_list(e, block);
}

/* --- for compaction: removing free blocks, and making one of a gap --- */

void tn__arena_discard(tn__evict *e, uint32_t block) {
    arena_unlist(e, block);
    arena_retire(e, block);
}

uint32_t tn__arena_gap(tn__evict *e, uint32_t before, uint64_t first, uint64_t end,
                       uint32_t after) {
    if (first == end) return TN__NONE;
    /* cannot fail here: a vacant record exists, because the number of free blocks does not grow */
    uint32_t block = arena_new(e);
    e->blocks[block] =
        (tn__evict_block){.at = first, .size = end - first, .before = before, .after = after};
    if (before != TN__NONE)
        e->blocks[before].after = block;
    else
        e->block_first = block;
    if (after != TN__NONE) e->blocks[after].before = block;
    arena_list(e, block);
    return block;
}
