/* planned.c - puts every block at the offset that a given plan has for it: request i gets
 * offsets[i].
 *
 * The sizes and offsets come from tn_plan or any other source. Each request must have exactly the
 * size that comes next in the plan, and its place must be free. A program that deviates from the
 * plan gets E_CONFLICT with the block in the way, never memory that another block holds. After the
 * last request the plan begins anew, so one plan serves every iteration of a loop. Requests of 0
 * bytes are not part of it. `reserved` is the height of the plan.
 *
 * Use it if live ranges are known in advance: no other technique needs less memory.
 *
 * Cost: O(log n) time; 16 bytes per request of the plan.
 * Source: Sekiyama et al., Profile-guided memory optimization for deep neural networks, 2018
 * (arXiv:1804.10001).
 */
#include <inttypes.h>

#include "memory/pool/chunks.h"

typedef struct planned_entry {
    uint64_t size, offset;
} planned_entry;

typedef struct planned_state {
    tn__chunk_set free; /* free chunks, in order of offset */
    planned_entry *entries;
    uint32_t room, count, next;
} planned_state;

static tn_status planned_copy(tn_pool *pool, const tn_pool_options *options, tn_error *error) {
    planned_state *state = pool->state;
    for (uint32_t i = 0; i < options->planned_count; i++) {
        uint64_t end, size = options->sizes[i], offset = options->offsets[i];
        if (size == 0) continue;
        if (!tn__add(offset, size, &end) || end > pool->capacity)
            TN_FAIL(error, TN_E_EXHAUSTED,
                    "the plan puts request %u at %" PRIu64 ", %" PRIu64
                    " bytes, beyond the capacity of %" PRIu64,
                    i, offset, size, pool->capacity);
        state->entries[state->count++] = (planned_entry){size, offset};
        if (end > pool->reserved) pool->reserved = end;
    }
    pool->usage.reserved_peak = pool->reserved;
    return TN_OK;
}

static tn_status planned_open(tn_pool *pool, const tn_pool_options *options, tn_error *error) {
    planned_state *state = pool->state;
    state->entries =
        tn__alloc_array(&pool->context, options->planned_count, sizeof *state->entries);
    if (state->entries == NULL) return tn__no_memory(error, "the plan of a pool");
    state->room = options->planned_count;
    TN_TRY(planned_copy(pool, options, error));
    state->free = (tn__chunk_set){.root = TN__CHUNK_NONE, .by_offset = true};
    pool->chunks[0].state = TN__CHUNK_FREE;
    tn__chunk_set_add(pool, &state->free, 0);
    return TN_OK;
}

static void planned_close(tn_pool *pool) {
    planned_state *state = pool->state;
    tn__free(&pool->context, state->entries, state->room * sizeof *state->entries);
}

/* The first block in use that ends above `offset`. `free` is the free chunk that begins at or
 * before `offset`, or NONE. */
static const tn__chunk *planned_in_the_way(const tn_pool *pool, uint32_t free, uint64_t offset) {
    uint32_t at = free == TN__CHUNK_NONE ? 0 : free;
    while (pool->chunks[at].state != TN__CHUNK_USED ||
           pool->chunks[at].offset + pool->chunks[at].size <= offset)
        at = pool->chunks[at].after;
    return &pool->chunks[at];
}

static const char *planned_name(const tn_pool *pool, const tn__chunk *chunk) {
    const char *name = pool->labels[chunk->tag].name;
    return name[0] != '\0' ? name : "(no name)";
}

static tn_status planned_take(tn_pool *pool, const tn__want *want, uint32_t *chunk,
                              tn_error *error) {
    planned_state *state = pool->state;
    uint32_t front, rest;
    if (state->count == 0)
        TN_FAIL(error, TN_E_CONFLICT, "%" PRIu64 " bytes are asked for, and the plan has nothing",
                want->requested);
    const planned_entry *entry = &state->entries[state->next];
    if (entry->size != want->requested)
        TN_FAIL(error, TN_E_CONFLICT,
                "request %u asks for %" PRIu64 " bytes, and the plan has %" PRIu64 " there",
                state->next, want->requested, entry->size);
    if ((entry->offset & (want->alignment - 1)) != 0)
        TN_FAIL(error, TN_E_CONFLICT,
                "request %u has offset %" PRIu64 " in the plan, off its alignment of %" PRIu64,
                state->next, entry->offset, want->alignment);
    uint32_t found = tn__chunk_set_up_to(pool, &state->free, entry->offset);
    const tn__chunk *room = found == TN__CHUNK_NONE ? NULL : &pool->chunks[found];
    if (room == NULL || entry->offset + entry->size > room->offset + room->size) {
        const tn__chunk *other = planned_in_the_way(pool, found, entry->offset);
        TN_FAIL(error, TN_E_CONFLICT,
                "request %u is planned at %" PRIu64 ", %" PRIu64
                " bytes, but '%.80s' still holds [%" PRIu64 ", %" PRIu64 ")",
                state->next, entry->offset, entry->size, planned_name(pool, other), other->offset,
                other->offset + other->size);
    }
    /* the free bytes below the block still begin at the chunk's offset, so the chunk keeps its
     * place in the set */
    if (entry->offset == room->offset) tn__chunk_set_remove(pool, &state->free, found);
    *chunk = tn__chunk_carve(pool, found, entry->offset, entry->size, &front, &rest);
    if (rest != TN__CHUNK_NONE) tn__chunk_set_add(pool, &state->free, rest);
    state->next = state->next + 1 < state->count ? state->next + 1 : 0;
    return TN_OK;
}

static void planned_give(tn_pool *pool, uint32_t chunk) {
    planned_state *state = pool->state;
    if (tn__chunk_joins_after(pool, chunk)) {
        tn__chunk_set_remove(pool, &state->free, pool->chunks[chunk].after);
        tn__chunk_join(pool, chunk);
    }
    if (tn__chunk_joins_before(pool, chunk)) {
        /* the chunk before is free and already in the set, so it is extended there */
        tn__chunk_join(pool, pool->chunks[chunk].before);
        return;
    }
    tn__chunk_set_add(pool, &state->free, chunk);
}

const tn__technique tn__pool_planned = {
    .name = "planned",
    .summary = "serves requests at the offsets of a plan; they must come as planned",
    .source = "Sekiyama et al. 2018 (arXiv:1804.10001)",
    .unit = 1,
    .state_size = sizeof(planned_state),
    .is_planned = true,
    .open = planned_open,
    .take = planned_take,
    .give = planned_give,
    .close = planned_close,
};
